/** `florin logs tail`: shows requests to the service as they happen. */
import type { Client } from '../client.ts';
import { ApiError, ConnectionError, type FlorinError } from '../errors.ts';
import { pause } from '../request.ts';
import { showControls } from '../text.ts';
import type { ListRequestsParams, LoggedRequest } from '../types.ts';

/** Requests per poll; when there are more, the older ones are skipped with a warning. */
const MOST = 500;
/** Rows can appear out of order, because several processes write the log, each once a second. */
const REMEMBERED = 2_000;

/** One line of the log. */
export const describeRequest = (request: LoggedRequest): string =>
  [
    request.created_at,
    String(request.status),
    request.method.padEnd(6),
    request.path + (request.query === null ? '' : `?${request.query}`),
    request.error_code ?? '',
    `${request.duration_ms} ms`,
    request.id,
    request.ignored_parameters?.length > 0 ? `(ignored: ${request.ignored_parameters.join(', ')})` : '',
    request.omitted > 0 ? `(and ${request.omitted} more in that second)` : '',
  ]
    .filter((part) => part !== '')
    .map(showControls)
    .join('  ');

/** Shows new requests until the signal, each once, oldest first. */
export async function tail({
  client,
  filter,
  interval,
  onReady,
  onRequest,
  onTrouble,
  signal,
}: {
  client: Client;
  filter: ListRequestsParams;
  interval: () => number;
  onReady: () => void;
  onRequest: (request: LoggedRequest) => void;
  onTrouble: (message: string) => void;
  signal: AbortSignal;
}): Promise<void> {
  const first = (await client.requests.list({ ...filter, limit: 100 })).data;
  const seen = new Set(first.map(({ id }) => id));
  // Rows older than the oldest one remembered were shown before, or are older than this command.
  const since = first.at(-1)?.created_at ?? '';
  onReady();
  while (!signal.aborted) {
    try {
      const fresh: LoggedRequest[] = [];
      let known = 0;
      let cut = false;
      for await (const request of client.requests.list({ ...filter, limit: 100 })) {
        if (seen.has(request.id) || request.created_at < since) known++;
        else fresh.push(request);
        cut = fresh.length >= MOST;
        if (known >= 50 || cut) break;
      }
      if (cut) onTrouble(`More than ${MOST} new requests: skipped the older ones`);
      for (const request of fresh.reverse()) {
        onRequest(request);
        seen.add(request.id);
      }
      for (const id of seen) {
        if (seen.size <= REMEMBERED) break;
        seen.delete(id);
      }
    } catch (error) {
      // A service that restarts comes back; a key that is refused does not.
      if (!(error instanceof ConnectionError) && !(error instanceof ApiError && (error.status >= 500 || error.status === 429))) throw error;
      onTrouble((error as FlorinError).message);
    }
    await pause(interval(), signal).catch(() => {});
  }
}
