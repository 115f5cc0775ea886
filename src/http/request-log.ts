/** The log of requests made with API keys. */
import { Problem } from '#core/problem';
import { type LoggedRequest, listRequests } from '#keys';
import { readLimit, readPageCursor, readQuery } from './read.ts';
import { type ApiRoute, apiRoute, readerOfCaller } from './route.ts';
import { RequestList, RequestsQuery } from './schema-errors.ts';

/** A logged request as the API and the dashboard show it. */
export const requestBody = (request: LoggedRequest) => ({
  id: request.id,
  mode: request.mode,
  created_at: request.at.toISOString(),
  method: request.method,
  path: request.path,
  query: request.query,
  status: request.status,
  error_code: request.errorCode,
  key_id: request.keyId,
  duration_ms: request.durationMs,
  has_idempotency_key: request.hasIdempotencyKey,
  ip: request.ip,
  request_body: request.body,
  response_body: request.responseBody,
  ignored_parameters: request.ignored ?? [],
  omitted: request.omitted,
});

export const REQUEST_LOG: readonly ApiRoute[] = [
  apiRoute({
    id: 'readRequests',
    method: 'GET',
    path: '/v1/requests',
    access: 'secret',
    permission: 'payments',
    summary: 'List the requests made with your keys, newest first',
    query: RequestsQuery,
    reply: RequestList,
    // Reading the log does not add to it, so that following it does not produce new entries.
    isLogged: false,
    handle: async ({ ctx, owner, query, reply }) => {
      const outcome = readQuery(query, 'outcome');
      if (outcome !== null && outcome !== 'failed')
        throw new Problem('parameter_invalid', { reason: 'it must be "failed"' }, { param: 'outcome' });
      const status = readQuery(query, 'status');
      if (status !== null && !/^[1-5]\d\d$/.test(status))
        throw new Problem('parameter_invalid', { reason: 'it must be an HTTP status such as 404' }, { param: 'status' });
      const page = await listRequests(ctx, {
        whole: true,
        ...readerOfCaller(owner),
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
        filter: {
          failed: outcome === 'failed',
          status: status === null ? null : Number(status),
          path: readQuery(query, 'path'),
          text: null,
          keyId: readQuery(query, 'key_id'),
          requestId: readQuery(query, 'request_id'),
        },
      });
      return reply({ success: true, data: page.items.map(requestBody), has_more: page.hasMore });
    },
  }),
];
