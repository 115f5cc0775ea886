/** Refetching and loading more pages without canceling a request in flight, so that neither a click nor an update gets lost. */
import type { Query, QueryClient, QueryKey } from '@tanstack/react-query';

/** Runs `act` once the query is idle; not when the query was removed in the meantime, as on sign-out. */
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

/** Queries of things that this tab deleted: they must not be fetched again. */
const over = new WeakSet<Query>();
/** Stops fetching a query, also on updates. Call the returned function to undo this. */
export function endReading(client: QueryClient, key: QueryKey): () => void {
  const query = client.getQueryCache().find({ queryKey: key });
  if (query) over.add(query);
  return () => void (query && over.delete(query));
}

/** Queries to fetch once more, because the request in flight may predate the update. */
const onceMore = new WeakMap<Query, Promise<void>>();

/** Refetches the queries under a key: visible ones now, others when they are next shown. */
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
