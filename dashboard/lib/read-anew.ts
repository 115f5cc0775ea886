/** Reading anew and reading on, neither of which takes back what is under way: a press is never lost to news, nor news to a press. */
import type { Query, QueryClient, QueryKey } from '@tanstack/react-query';

/** Acts once nothing of the query is under way; not when it was thrown away meanwhile, as when signing out. */
export async function whenIdle(client: QueryClient, query: Query, act: () => Promise<unknown>): Promise<void> {
  const cache = client.getQueryCache();
  const isKept = () => cache.get(query.queryHash) === query;
  while (isKept() && query.state.fetchStatus !== 'idle')
    await new Promise<void>((resolve) => {
      const stop = cache.subscribe(() => {
        stop();
        resolve();
      });
    });
  if (isKept()) await act();
}

/** What this tab has deleted itself: nobody needs to be told that it is gone. */
const over = new WeakSet<Query>();
/** Reads it no more, not for any news; what is returned takes that back. */
export function endReading(client: QueryClient, key: QueryKey): () => void {
  const query = client.getQueryCache().find({ queryKey: key });
  if (query) over.add(query);
  return () => void (query && over.delete(query));
}

/** Those that are to be read once more, since what is under way may have been answered before the news. */
const onceMore = new WeakMap<Query, Promise<void>>();

/** Reads what the key names from now on: what is seen is fetched, the rest when it is next seen. */
export async function readAnew(client: QueryClient, key: QueryKey = []): Promise<void> {
  const renew = (query: Query): Promise<void> => {
    const waiting = onceMore.get(query);
    if (waiting) return waiting;
    const isBusy = query.state.fetchStatus !== 'idle';
    const renewed = whenIdle(client, query, () => {
      onceMore.delete(query);
      if (over.has(query)) return Promise.resolve();
      return client.invalidateQueries({ queryKey: query.queryKey, exact: true }, { cancelRefetch: false });
    });
    if (isBusy) onceMore.set(query, renewed);
    return renewed;
  };
  await Promise.all(client.getQueryCache().findAll({ queryKey: key }).map(renew));
}
