/**
 * What scripts add to the page: countdown, local times, copying, forms without reloads, live updates, messages to the embedding page.
 * Everything works without scripts.
 */
const body = document.body;
const main = (): HTMLElement => document.getElementById('main')!;
const byId = (name: string): HTMLElement | null => document.getElementById(name);
const id = body.dataset.id ?? '';
const live = byId('live')!;
const framed = window.parent !== window;
const query = (): string => {
  const lang = new URL(location.href).searchParams.get('lang') ?? document.querySelector<HTMLInputElement>('main input[name=lang]')?.value;
  return `id=${encodeURIComponent(id)}${lang ? `&lang=${encodeURIComponent(lang)}` : ''}`;
};
/** The payment's time in milliseconds, as far as answers told: each may be late, none is early. */
let known = 0;
let knownAt = 0;
const now = (): number => known + performance.now() - knownAt;
const setNow = (ms: number): void => {
  if (!(ms > 0)) return;
  known = ms;
  knownAt = performance.now();
};
/** After deep sleep the time of the page stands where it was. */
const correctNow = (ms: number): void => {
  if (ms > now()) setNow(ms);
};
let delay = 4000;
let parentOrigin = '';

const post = (type: string, more: object = {}): void => {
  if (parentOrigin) window.parent.postMessage({ type: `florin.${type}`, id, ...more }, parentOrigin);
};
/** In a frame that the plugin of a shop opened: its words for the status. The page's policy says which sites may frame it. */
const isModal = framed && new URL(location.href).searchParams.get('view') === 'modal';
const INVOICE: Readonly<Record<string, string>> = {
  pending: 'New',
  processing: 'Processing',
  completed: 'Settled',
  expired: 'Expired',
  failed: 'Invalid',
  cancelled: 'Invalid',
};
let invoiceStatus = '';
const reportInvoice = (): void => {
  const status = INVOICE[main().dataset.status ?? ''] ?? 'New';
  if (!isModal || status === invoiceStatus) return;
  invoiceStatus = status;
  window.parent.postMessage({ invoiceId: id, status }, '*');
};
const report = (): void => {
  reportInvoice();
  // Reading a height forces a layout.
  if (!parentOrigin) return;
  post('status', { status: main().dataset.status, state: main().dataset.state });
  post('resize', { height: document.documentElement.scrollHeight });
};
if (framed) {
  document.documentElement.classList.add('framed');
  // The embedding page sends a hello; it is trusted when the merchant allows its origin.
  addEventListener('message', ({ source, origin, data }) => {
    if (source !== window.parent || data?.type !== 'florin.hello' || !(body.dataset.origins ?? '').split(' ').includes(origin)) return;
    parentOrigin = origin;
    post('loaded');
    report();
  });
  addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    post('close');
    if (isModal) window.parent.postMessage('close', '*');
  });
  new ResizeObserver(() => post('resize', { height: document.documentElement.scrollHeight })).observe(body);
}

const tick = (): void => {
  const clock = byId('clock');
  if (!clock) return;
  const left = Math.max(0, Number(clock.dataset.until) - now());
  const seconds = Math.ceil(left / 1000);
  const text = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  if (clock.textContent !== text) {
    clock.textContent = text;
    if (seconds === 300 || seconds === 60) live.textContent = clock.parentElement!.textContent;
  }
  if (left === 0 && !clock.dataset.over) {
    clock.dataset.over = '1';
    void refresh();
  }
};

/** The pattern of a time in each hour, in the page's language: creating a formatter is the slowest thing a phone would do here. */
const hours = (body.dataset.hours ?? '').split('|');
/** The payer's local time instead of UTC, in the form and the space that the page provides for it. */
const localTimes = (): void => {
  for (const time of document.querySelectorAll('time')) {
    const at = new Date(time.dateTime);
    const clock = hours[at.getHours()]!.replace('#', String(at.getMinutes()).padStart(2, '0'));
    const days = time.dataset.days?.split('|');
    // The local calendar is at most a day behind or ahead of UTC.
    const day = Date.UTC(at.getFullYear(), at.getMonth(), at.getDate()) / 864e5 - Math.floor(at.getTime() / 864e5);
    time.firstElementChild!.textContent = days ? days[1 + day]!.replace('#', clock) : clock;
  }
};

/** The parts of a newly inserted page that need scripts. */
const settle = (): void => {
  tick();
  localTimes();
  byId('share')?.toggleAttribute('hidden', !('share' in navigator) || framed);
  try {
    const last = localStorage.getItem('florin-coin');
    // The network is remembered with its asset.
    for (const name of main().dataset.state === 'choose' && last ? [last, `${last}-${localStorage.getItem('florin-network')}`] : []) {
      const radio = byId(`c-${name}`) as HTMLInputElement | null;
      if (radio && !radio.disabled) radio.checked = true;
    }
  } catch {
    // Storage may be blocked in frames; the hint is then omitted.
  }
  leave();
  void stayAwake();
  offerWallets();
  report();
};

/** Wallets that the browser announces (EIP-6963), by their ID. */
type Provider = { request(call: { method: string; params?: readonly unknown[] }): Promise<unknown> };
type Wallet = { info: { uuid: string; name: string; icon: string }; provider: Provider };
const wallets = new Map<string, Wallet>();
const MOST_WALLETS = 5;
addEventListener('eip6963:announceProvider', (event) => {
  const { info, provider } = (event as CustomEvent<Wallet>).detail ?? {};
  if (typeof info?.uuid !== 'string' || typeof info.name !== 'string' || typeof provider?.request !== 'function') return;
  if (wallets.size >= MOST_WALLETS && !wallets.has(info.uuid)) return;
  wallets.set(info.uuid, { info, provider });
  offerWallets();
});

const sayOfWallet = (text: string): void => {
  const line = byId('walletsaid');
  if (!line) return;
  line.hidden = false;
  line.querySelector('span')!.textContent = text;
};
/** The requests that were sent, so that a second press, or a reload, does not pay twice. */
const sent = new Set<string>();
const wasSent = (asked: string): boolean => {
  try {
    return sent.has(asked) || sessionStorage.getItem(`florin-sent-${id}`) === asked;
  } catch {
    // Storage may be blocked in frames.
    return sent.has(asked);
  }
};
const remember = (asked: string): void => {
  sent.add(asked);
  try {
    sessionStorage.setItem(`florin-sent-${id}`, asked);
  } catch {
    // As above.
  }
};

/** A button for each wallet; without one nothing changes. */
const offerWallets = (): void => {
  const box = byId('wallets');
  if (!box || wallets.size === 0) return;
  if (wasSent(box.dataset.request!)) {
    box.hidden = true;
    sayOfWallet(box.dataset.sent!);
    return;
  }
  box.replaceChildren(
    ...[...wallets.values()].map((wallet) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'main';
      if (/^data:image\//.test(wallet.info.icon)) {
        const image = new Image(20, 20);
        image.src = wallet.info.icon;
        image.alt = '';
        button.append(image);
      }
      button.append(box.dataset.label!.replace('{wallet}', wallet.info.name.slice(0, 40)));
      button.addEventListener('click', () => void payWith(wallet.provider, box, button));
      return button;
    }),
  );
  box.hidden = false;
};

/** Asks the wallet for exactly this transaction: the amount, chain and token of the page. Only one wallet is asked at a time. */
let paying = false;
const payWith = async (provider: Provider, box: HTMLElement, button: HTMLButtonElement): Promise<void> => {
  // A page that is offline or whose rate ended may ask for an old amount.
  if (paying || byId('clock')?.dataset.over || body.matches('.offline, .broken')) return;
  paying = true;
  button.setAttribute('aria-busy', 'true');
  const asked = box.dataset.request!;
  const { chainId, ...call } = JSON.parse(asked) as { chainId: string; to: string; value: string; data: string };
  try {
    const [from] = (await provider.request({ method: 'eth_requestAccounts' })) as string[];
    const isThere = async (): Promise<boolean> => Number(await provider.request({ method: 'eth_chainId' })) === Number(chainId);
    if (!(await isThere())) await provider.request({ method: 'wallet_switchEthereumChain', params: [{ chainId }] }).catch(() => {});
    if (!(await isThere())) return sayOfWallet(box.dataset.network!);
    await provider.request({ method: 'eth_sendTransaction', params: [{ from, chainId, ...call }] });
    remember(asked);
    // The page may have been replaced in the meantime.
    offerWallets();
  } catch {
    sayOfWallet(box.dataset.failed!);
  } finally {
    paying = false;
    button.removeAttribute('aria-busy');
  }
};

/** Keeps a counter's screen on while there is a code to scan; the browser releases the lock when the page is hidden. */
let lock: WakeLockSentinel | null = null;
let asking = false;
const stayAwake = async (): Promise<void> => {
  if (asking) return;
  if (!('awake' in main().dataset)) {
    void lock?.release();
    lock = null;
    return;
  }
  if (document.hidden || lock?.released === false) return;
  asking = true;
  lock = (await navigator.wakeLock?.request('screen').catch(() => null)) ?? null;
  asking = false;
  // The payment may have changed in the meantime.
  if (!('awake' in main().dataset)) void stayAwake();
};

let leaving = 0;
const leave = (): void => {
  clearInterval(leaving);
  const text = byId('auto')?.querySelector('span');
  // Who comes back to this page wants to see it.
  if (!text || framed || location.pathname !== '/pay' || history.state === 'left') return;
  let seconds = 5;
  byId('auto')!.hidden = false;
  const count = (): void => {
    text.textContent = text.dataset.text!.replace('{seconds}', String(seconds));
    if (seconds-- === 0) {
      clearInterval(leaving);
      history.replaceState('left', '');
      byId('auto')!.hidden = true;
      location.assign((byId('return') as HTMLAnchorElement).href);
    }
  };
  count();
  leaving = window.setInterval(count, 1000);
};

const show = (text: string): void => {
  const page = new DOMParser().parseFromString(text, 'text/html');
  const next = page.getElementById('main');
  if (!next) return;
  const { state: before, say, version } = main().dataset;
  // Responses can arrive out of order: one that is older than the page shown is dropped.
  if (Number(next.dataset.version) < Number(version)) return;
  const focused = document.activeElement?.id;
  const open = [...document.querySelectorAll('input:checked')].map((input) => input.id);
  const typed = [...document.querySelectorAll<HTMLInputElement>('main input[id]')].filter((input) => input.value !== input.defaultValue);
  // The drawer of a test payment keeps its open or closed state.
  const drawer = document.querySelector<HTMLDetailsElement>('.sim')?.open;
  const folded = [...document.querySelectorAll('main details')].map((part) => (part as HTMLDetailsElement).open);
  main().replaceWith(next);
  document.title = page.title;
  setNow(Number(next.dataset.now));
  if (next.dataset.state === before) {
    for (const name of open) {
      const input = name ? (byId(name) as HTMLInputElement | null) : null;
      if (input) input.checked = true;
    }
    for (const { id: name, value } of typed) {
      const input = byId(name) as HTMLInputElement | null;
      if (input && !input.value) input.value = value;
    }
    next.querySelectorAll('details').forEach((part, index) => {
      part.open ||= folded[index] ?? false;
    });
  }
  if (drawer === false) next.querySelector('.sim')?.removeAttribute('open');
  settle();
  if (next.dataset.say !== say) live.textContent = next.dataset.say ?? '';
  const wrong = next.querySelector<HTMLElement>('[aria-invalid]');
  if (wrong) wrong.focus();
  else if (next.dataset.state !== before) byId('h')?.focus();
  else if (focused) byId(focused)?.focus();
};

/** Connection lost, or a server error: the page stays, with a notice above it. */
const state = (name: '' | 'offline' | 'broken'): void => {
  body.classList.toggle('offline', name === 'offline');
  body.classList.toggle('broken', name === 'broken');
};
/**
 * A request with a time limit, and its whole answer. A connection that a router or VPN forgot swallows what is sent on it without an
 * error; the browser gives the next try another one.
 */
const ask = async (url: string, options: RequestInit, limits: readonly number[]): Promise<{ reply: Response; text: string }> => {
  const [ms, ...rest] = limits;
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), ms);
  try {
    const reply = await fetch(url, { ...options, signal: stop.signal });
    const text = await reply.text();
    correctNow(Number(reply.headers.get('x-payment-time')));
    return { reply, text };
  } catch (error) {
    if (rest.length === 0 || !stop.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
  return ask(url, options, rest);
};
const LOOK_LIMITS = [8_000, 20_000];
const FORM_LIMITS = [30_000];
const FRAGMENT = { 'x-fragment': '1' };
const refresh = async (): Promise<void> => {
  try {
    const { reply, text } = await ask(`/pay?${query()}`, { headers: FRAGMENT }, LOOK_LIMITS);
    if (reply.ok) show(text);
    state(reply.status >= 500 ? 'broken' : '');
  } catch {
    state('offline');
  }
};

let said = 0;
const copy = async (text: string): Promise<void> => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
};

document.addEventListener('click', (event) => {
  const target = event.target as HTMLElement;
  const button = target.closest<HTMLElement>('[data-copy]');
  if (button) {
    const label = button.querySelector('span')!;
    const word = label.textContent;
    void copy(button.dataset.copy!).then(() => {
      if (label.textContent === body.dataset.copied) return;
      label.textContent = live.textContent = body.dataset.copied!;
      setTimeout(() => {
        label.textContent = word;
      }, 2000);
      clearTimeout(said);
      said = window.setTimeout(() => {
        live.textContent = '';
      }, 2000);
      button.focus();
    });
  }
  if (target.closest('#wallet')) {
    setTimeout(() => {
      if (document.hasFocus()) byId('nowallet')?.removeAttribute('hidden');
    }, 1500);
  }
  if (target.closest('#share')) void navigator.share({ title: document.title, url: `${location.origin}/pay?${query()}` }).catch(() => {});
  if (target.closest('#print')) print();
  if (target.closest('#stay')) {
    clearInterval(leaving);
    byId('auto')!.hidden = true;
    byId('return')?.focus();
  }
});

document.addEventListener('submit', (event) => {
  const form = event.target as HTMLFormElement;
  if (!form.hasAttribute('data-frag')) return;
  event.preventDefault();
  const button = form.querySelector('button.main, button#refund');
  if (button?.getAttribute('aria-busy')) return;
  button?.setAttribute('aria-busy', 'true');
  const fields = new URLSearchParams(new FormData(form) as unknown as Record<string, string>);
  try {
    const coin = fields.get('currency');
    if (coin) {
      localStorage.setItem('florin-coin', coin);
      localStorage.setItem('florin-network', fields.get(`network-${coin}`) ?? '');
    }
  } catch {
    // As above: only a hint.
  }
  const skeleton = setTimeout(() => form.classList.add('wait4'), 400);
  ask(form.action, { method: 'POST', headers: FRAGMENT, body: fields }, FORM_LIMITS)
    .then(({ reply, text }) => {
      // A server error does not include the payment, so the page stays.
      if (text.includes('data-version')) show(text);
      state(reply.status >= 500 && !text.includes('data-version') ? 'broken' : '');
    })
    .catch(() => state('offline'))
    .finally(() => {
      clearTimeout(skeleton);
      form.classList.remove('wait4');
      button?.removeAttribute('aria-busy');
    });
});

const poll = async (): Promise<void> => {
  try {
    const headers = { 'if-none-match': `"${main().dataset.version}"` };
    const { reply } = await ask(`/pay/status?id=${encodeURIComponent(id)}`, { headers }, LOOK_LIMITS);
    if (reply.status === 200) await refresh();
    else state(reply.status >= 500 ? 'broken' : '');
    delay = 4000;
  } catch {
    state('offline');
    delay = Math.min(15000, delay * 1.5);
  }
};

/** No event announces that a coin became payable, so the page polls. */
const look = (): Promise<void> => (main().dataset.state === 'unavailable' ? refresh() : poll());

/** The server sends a keep-alive every 15 seconds. A stream that brings none is dead, whatever the browser believes. */
const SILENCE_MS = 45_000;
/** A new stream speaks at once. */
const OPENING_MS = 10_000;
let source: EventSource | null = null;
let heardAt = 0;
let patience = OPENING_MS;
const hear = (): void => {
  heardAt = performance.now();
  patience = SILENCE_MS;
};
const silence = (): number => performance.now() - heardAt;
const listen = (): void => {
  source?.close();
  heardAt = performance.now();
  patience = OPENING_MS;
  source = new EventSource(`/pay/events?id=${encodeURIComponent(id)}`);
  source.addEventListener('v', ({ data }: MessageEvent) => {
    hear();
    if (data !== main().dataset.version) void refresh();
  });
  source.addEventListener('k', ({ data }: MessageEvent) => {
    hear();
    correctNow(Number(data));
  });
};
/** Whatever may have cost the page its connection: it looks at once, and does not trust a stream that missed a keep-alive. */
const wake = (): void => {
  if (document.hidden) return;
  if (silence() > SILENCE_MS / 2) listen();
  void look();
  void stayAwake();
};
/** By how much the device's clock is ahead of the page's, which stands still while the device sleeps. */
const lead = (): number => Date.now() - performance.now();
let leadBefore = lead();
const watch = (): void => {
  const slept = Math.abs(lead() - leadBefore) > 5_000;
  leadBefore = lead();
  if (!slept && silence() < patience) return;
  listen();
  void look();
};
const loop = (): void => {
  setTimeout(async () => {
    // The stream reports changes; only a response shows that the service is available again.
    if (source?.readyState !== EventSource.OPEN || main().dataset.state === 'unavailable' || body.matches('.offline, .broken'))
      await look();
    if (source?.readyState === EventSource.CLOSED) listen();
    loop();
  }, delay);
};

/** The page of a link has no payment whose changes are announced: it is loaded again once the service answers with its form. */
const recheck = (): void => {
  setTimeout(async () => {
    try {
      if (!document.hidden && (await ask(location.href, {}, LOOK_LIMITS)).reply.ok) return location.reload();
    } catch {
      // Offline: the next check may succeed.
    }
    delay = Math.min(30000, delay * 1.2);
    recheck();
  }, delay);
};

if ('live' in body.dataset && !id) recheck();
setNow(Number(main().dataset.now));
if (id && 'live' in body.dataset) {
  setTimeout(() => {
    listen();
    setInterval(watch, 1000);
  });
  loop();
  document.addEventListener('visibilitychange', wake);
  document.addEventListener('resume', wake);
  addEventListener('online', wake);
  addEventListener('pageshow', ({ persisted }) => persisted && wake());
}
setInterval(tick, 250);
if (isModal) window.parent.postMessage('loaded', '*');
settle();
dispatchEvent(new Event('eip6963:requestProvider'));
