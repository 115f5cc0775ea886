/** What the server sent with the page: replies that the first screen would ask for, and up to when they include changes. */
import type { QueryClient } from '@tanstack/react-query';
import type { Mode } from '../generated/api.ts';

type FirstData =
  | { mode: Mode; signed_in: false }
  | { mode: Mode; signed_in: true; news: string; reads: { key: readonly unknown[]; reply: unknown; list?: true }[] };

const element = document.getElementById('first-data');
let given = element?.textContent ? (JSON.parse(element.textContent) as FirstData) : null;
element?.remove();

/** Stores the replies where the screens read them. */
export function storeFirstData(client: QueryClient): void {
  if (!given?.signed_in) return;
  for (const { key, reply, list } of given.reads)
    client.setQueryData([given.mode, ...key], list ? { pages: [reply], pageParams: [null] } : reply);
}

/** Whether the server said that nobody is signed in. Says so once, because people sign in later. */
export function takeSignedOut(): boolean {
  const out = given?.signed_in === false;
  if (out) given = null;
  return out;
}

/** Up to when the stored replies include changes. Null when all of them may be older than the stream of news. */
export function takeNewsMark(mode: Mode): string | null {
  const mark = given?.signed_in && given.mode === mode ? given.news : null;
  given = null;
  return mark;
}
