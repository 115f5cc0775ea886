/** What scripts add to a documentation page: copy buttons, code tabs, results while typing. Everything is readable without it. */

const REMEMBERED = 'florin-docs-tab';

/** A button that copies the code beside it; command output does not get one. */
function addCopyButtons(): void {
  for (const block of document.querySelectorAll<HTMLElement>('.code:not([data-language=text])')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.onclick = async () => {
      await navigator.clipboard.writeText(block.querySelector('code')!.textContent ?? '');
      button.textContent = 'Copied';
      setTimeout(() => {
        button.textContent = 'Copy';
      }, 2000);
    };
    // Without a secure context the browser offers no clipboard, so a button would do nothing.
    if (navigator.clipboard) block.append(button);
  }
}

/** Shows one section at a time, with the keyboard of the tabs pattern (WAI-ARIA APG); every group shows the language chosen last. */
function makeTabs(): void {
  const groups = [...document.querySelectorAll<HTMLElement>('.tabs')];
  const choose: ((name: string) => void)[] = [];
  for (const [group, element] of groups.entries()) {
    const sections = [...element.querySelectorAll<HTMLElement>('section')];
    const list = document.createElement('div');
    list.className = 'tablist';
    list.setAttribute('role', 'tablist');
    const buttons = sections.map((section, i) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.id = `tab-${group}-${i}`;
      button.textContent = section.getAttribute('aria-label');
      button.setAttribute('role', 'tab');
      section.id = `panel-${group}-${i}`;
      section.setAttribute('role', 'tabpanel');
      section.removeAttribute('aria-label');
      section.setAttribute('aria-labelledby', button.id);
      button.setAttribute('aria-controls', section.id);
      section.querySelector('.tab')!.remove();
      button.onclick = () => pick(button.textContent ?? '');
      return button;
    });
    const show = (name: string): void => {
      const at = buttons.findIndex((button) => button.textContent === name);
      if (at === -1) return;
      buttons.forEach((button, i) => {
        button.setAttribute('aria-selected', String(i === at));
        button.tabIndex = i === at ? 0 : -1;
        sections[i]!.hidden = i !== at;
      });
    };
    list.onkeydown = ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
      if (step === undefined || at === -1) return;
      const next = buttons[(at + step + buttons.length) % buttons.length]!;
      pick(next.textContent ?? '');
      next.focus();
    };
    list.append(...buttons);
    element.prepend(list);
    show(buttons[0]!.textContent ?? '');
    choose.push(show);
  }
  const pick = (name: string): void => {
    for (const show of choose) show(name);
    localStorage.setItem(REMEMBERED, name);
  };
  const remembered = localStorage.getItem(REMEMBERED);
  if (remembered !== null) for (const show of choose) show(remembered);
}

/** Shows the results of the search page below the field while the reader types. Enter opens the page itself. */
function searchWhileTyping(): void {
  const form = document.querySelector<HTMLFormElement>('.bar form')!;
  const field = form.querySelector('input')!;
  const said = form.querySelector<HTMLElement>('[role=status]')!;
  let shown: HTMLElement | null = null;
  let asked = 0;
  const hide = (): void => {
    shown?.remove();
    shown = null;
  };
  field.oninput = async () => {
    const mine = ++asked;
    const question = field.value.trim();
    if (question.length < 2) return hide();
    await new Promise((done) => setTimeout(done, 120));
    if (mine !== asked) return;
    const reply = await fetch(`/docs/search?q=${encodeURIComponent(question)}`, { signal: AbortSignal.timeout(10_000) }).catch(() => null);
    if (mine !== asked || !reply?.ok) return;
    const found = new DOMParser().parseFromString(await reply.text(), 'text/html').querySelector<HTMLElement>('main .results');
    hide();
    said.textContent = found ? `${found.children.length} ${found.children.length === 1 ? 'result' : 'results'}` : 'No results';
    if (!found) return;
    shown = found;
    form.append(shown);
  };
  form.onkeydown = (event) => {
    const links = [...(shown?.querySelectorAll('a') ?? [])];
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    if (event.key === 'Escape') {
      hide();
      field.focus();
    } else if (event.key === 'ArrowDown' && at + 1 < links.length) links[at + 1]!.focus();
    else if (event.key === 'ArrowUp' && at >= 0) (links[at - 1] ?? field).focus();
    else return;
    event.preventDefault();
  };
  document.addEventListener('click', ({ target }) => {
    if (!form.contains(target as Node)) hide();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? ''))
      return;
    event.preventDefault();
    field.focus();
  });
}

addCopyButtons();
makeTabs();
searchWhileTyping();
