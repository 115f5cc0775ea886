/** What the page does when scripts run: countdown, copying, forms without reloading, live updates. Everything works without it. */
const main = (): HTMLElement => document.getElementById('main')!;
const id =
  new URL(location.href).searchParams.get('id') ?? (document.querySelector('input[name=id]') as HTMLInputElement | null)?.value ?? '';
const live = document.getElementById('live')!;
let loadedAt = performance.now();
let delay = 4000;

const tick = (): void => {
  const clock = document.getElementById('clock');
  if (!clock) return;
  const left = Math.max(0, Number(clock.dataset.ms) - (performance.now() - loadedAt));
  const seconds = Math.ceil(left / 1000);
  const text = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  if (clock.textContent !== text) {
    clock.textContent = text;
    if (seconds === 300 || seconds === 60) live.textContent = `${clock.parentElement!.textContent}`;
  }
  if (left === 0 && !clock.dataset.over) {
    clock.dataset.over = '1';
    void refresh();
  }
};

const show = (text: string): void => {
  const page = new DOMParser().parseFromString(text, 'text/html');
  const next = page.getElementById('main');
  if (!next) return;
  const before = main().dataset.state;
  const focused = document.activeElement?.id;
  main().replaceWith(next);
  document.title = page.title;
  loadedAt = performance.now();
  tick();
  if (next.dataset.state !== before) {
    live.textContent = next.dataset.say ?? '';
    document.getElementById('h')?.focus({ preventScroll: false });
  } else if (focused) document.getElementById(focused)?.focus();
};

const refresh = async (): Promise<void> => {
  try {
    const reply = await fetch(`/pay?id=${encodeURIComponent(id)}`, { headers: { 'x-fragment': '1' } });
    if (reply.ok) show(await reply.text());
    document.body.classList.toggle('offline', false);
  } catch {
    document.body.classList.toggle('offline', true);
  }
};

document.addEventListener('click', (event) => {
  const target = event.target as HTMLElement;
  const button = target.closest<HTMLElement>('[data-copy]');
  if (button) {
    const text = button.dataset.copy!;
    const done = (): void => {
      const label = button.textContent;
      button.textContent = document.body.dataset.copied!;
      live.textContent = document.body.dataset.copied!;
      setTimeout(() => {
        button.textContent = label;
      }, 2000);
    };
    navigator.clipboard?.writeText(text).then(done, () => {
      const area = document.createElement('textarea');
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
      done();
    });
  }
  if (target.closest('#wallet')) {
    setTimeout(() => {
      if (document.hasFocus()) document.getElementById('nowallet')?.removeAttribute('hidden');
    }, 1500);
  }
});

document.addEventListener('submit', (event) => {
  const form = event.target as HTMLFormElement;
  if (!form.hasAttribute('data-frag')) return;
  event.preventDefault();
  const button = form.querySelector('button');
  button?.setAttribute('aria-busy', 'true');
  fetch(form.action, {
    method: 'POST',
    headers: { 'x-fragment': '1' },
    body: new URLSearchParams(new FormData(form) as unknown as Record<string, string>),
  })
    .then(async (reply) => show(await reply.text()))
    .catch(() => form.submit())
    .finally(() => button?.removeAttribute('aria-busy'));
});

const poll = async (): Promise<void> => {
  try {
    const reply = await fetch(`/pay/status?id=${encodeURIComponent(id)}`);
    const { version } = (await reply.json()) as { version: string };
    if (version !== main().dataset.version) await refresh();
    document.body.classList.toggle('offline', false);
    delay = 4000;
  } catch {
    document.body.classList.toggle('offline', true);
    delay = Math.min(15000, delay * 1.5);
  }
};

let source: EventSource | null = null;
const listen = (): void => {
  source = new EventSource(`/pay/events?id=${encodeURIComponent(id)}`);
  source.addEventListener('v', (event) => {
    if ((event as MessageEvent).data !== main().dataset.version) void refresh();
  });
};
const loop = (): void => {
  setTimeout(async () => {
    if (!source || source.readyState !== EventSource.OPEN) await poll();
    loop();
  }, delay);
};

if (id && document.body.dataset.live) {
  listen();
  loop();
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void poll();
  });
  addEventListener('online', () => void poll());
}
setInterval(tick, 250);
tick();
