/** The test key of the page, kept while the tab is open, so that a reload does not create another one. */
export type HeldKey = { id: string; text: string; hint: string /** ISO 8601. */; expiresAt: string };

const NAME = 'florin-reference-key';

export function readKey(): HeldKey | null {
  try {
    const held = JSON.parse(sessionStorage.getItem(NAME) ?? 'null') as HeldKey | null;
    return held !== null && Date.parse(held.expiresAt) > Date.now() ? held : null;
  } catch {
    return null;
  }
}
export function keepKey(held: HeldKey | null): void {
  if (held) sessionStorage.setItem(NAME, JSON.stringify(held));
  else sessionStorage.removeItem(NAME);
}
