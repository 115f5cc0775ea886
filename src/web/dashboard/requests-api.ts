/** The log of API requests made with this merchant's keys. */
import Type from 'typebox';
import { requestBody } from '../../http/request-log.ts';
import { RequestEntry } from '../../http/schema-errors.ts';
import { literals } from '../../http/schema-fields.ts';
import { getRequest, type LoggedRequest, listRequests } from '../../keys/requests.ts';
import { lookedBackBody, lookedPageOf, PlainText, paging } from './fields.ts';
import { type DashboardRoute, memberRoute, readerOfCall } from './route.ts';

const Item = Type.Object({ ...RequestEntry.properties, key_name: PlainText, key_hint: PlainText });
const itemOf = (request: LoggedRequest) => ({ ...requestBody(request), key_name: request.keyName, key_hint: request.keyHint });

export const REQUESTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/requests',
    action: 'requests.read',
    query: Type.Object({
      ...paging,
      outcome: Type.Optional(literals(['failed'] as const)),
      status: Type.Optional(Type.String({ pattern: '^[1-5][0-9][0-9]$' })),
      path: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
      key_id: Type.Optional(PlainText),
      request_id: Type.Optional(PlainText),
    }),
    reply: lookedPageOf(Item),
    handle: async (call) => {
      const { query } = call;
      const { items, hasMore, lookedBackTo } = await listRequests(call.ctx, {
        ...readerOfCall(call),
        limit: Number(query.limit ?? 25),
        startingAfter: query.starting_after ?? null,
        filter: {
          failed: query.outcome === 'failed',
          status: query.status === undefined ? null : Number(query.status),
          path: query.path ?? null,
          keyId: query.key_id ?? null,
          requestId: query.request_id ?? null,
        },
      });
      return { success: true, data: items.map(itemOf), has_more: hasMore, looked_back_to: lookedBackBody(lookedBackTo) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/requests/:id',
    action: 'requests.read',
    reply: Type.Object({ success: Type.Boolean(), request: Item }),
    handle: async (call) => ({
      success: true,
      request: itemOf(await getRequest(call.ctx, { ...readerOfCall(call), requestId: call.params.id })),
    }),
  }),
];
