/**
 * Keyboard shortcuts: ⌘K works everywhere. Single keys work only outside of fields, and only while they are turned on (WCAG 2.1.4).
 * The choice is stored in this browser.
 */
import { createStore } from './store.ts';

const KEY = 'florin-keys';
const stored = (): boolean => {
  try {
    return localStorage.getItem(KEY) !== 'off';
  } catch {
    // No storage in this browser.
    return true;
  }
};
export const singleKeys = createStore(stored());
export function setSingleKeys(on: boolean): void {
  singleKeys.set(on);
  try {
    localStorage.setItem(KEY, on ? 'on' : 'off');
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
}

/** What is open above the screen. */
export const overlay = createStore<'palette' | 'keys' | null>(null);

/** After `g`: the first part of a path -> its key. */
export const GO: Readonly<Record<string, string>> = {
  home: 'h',
  payments: 'p',
  attention: 'x',
  links: 'l',
  wallets: 'w',
  keys: 'k',
  webhooks: 'e',
  events: 'v',
  requests: 'r',
  reports: 'c',
  team: 't',
  usage: 'u',
  security: 's',
  notifications: 'n',
  audit: 'a',
  operator: 'o',
};

const rowsOf = (): HTMLElement[] =>
  [...document.querySelectorAll<HTMLElement>('main tbody tr')].filter((row) => row.querySelector('a[href], button, select'));
/** Moves the focus to the next or the previous row; Enter then follows its link as any link. */
function moveRow(by: 1 | -1): void {
  const rows = rowsOf();
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[at === -1 ? (by === 1 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  const target = next?.querySelector<HTMLElement>('a[href]') ?? next?.querySelector<HTMLElement>('button, select');
  target?.focus();
  target?.scrollIntoView({ block: 'nearest' });
}

/** Listens until the returned function is called. `go` opens the screen with that key; false when there is none. */
export function listenToKeys(go: (key: string) => boolean): () => void {
  let leader = 0;
  const onKey = (event: KeyboardEvent) => {
    if ((event.metaKey || event.ctrlKey) && !event.altKey && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      overlay.set(overlay.get() === 'palette' ? null : 'palette');
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !singleKeys.get() || overlay.get() !== null) return;
    const { target } = event;
    if (target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable], [role=dialog], [role=menu]')) return;
    const afterG = event.timeStamp - leader < 1_500;
    leader = 0;
    const done = () => event.preventDefault();
    if (afterG && go(event.key)) return done();
    if (event.key === 'g') leader = event.timeStamp;
    else if (event.key === '?') {
      done();
      overlay.set('keys');
    } else if (event.key === '/') {
      const box = document.querySelector<HTMLInputElement>('main input[type=search]');
      if (!box) return;
      done();
      box.focus();
    } else if (event.key === 'j' || event.key === 'k') {
      done();
      moveRow(event.key === 'j' ? 1 : -1);
    }
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}
