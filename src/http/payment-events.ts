/** The events of payments. */
import { PAYMENT_EVENTS } from '../core/event.ts';
import { Problem } from '../core/problem.ts';
import { getEvent, listEvents } from '../webhooks/events.ts';
import { readLimit, readPageCursor, readQuery } from './read.ts';
import { type ApiRoute, apiRoute, readerOfKey } from './route.ts';
import { EventList, EventReply, EventsQuery } from './schema-webhooks.ts';

const TYPES: readonly string[] = PAYMENT_EVENTS;

/** The stored bytes are sent unchanged, so that lists and deliveries contain the same text. */
export const PAYMENT_EVENT_ROUTES: readonly ApiRoute[] = [
  apiRoute({
    id: 'readEvents',
    method: 'GET',
    path: '/v1/events',
    access: 'secret',
    permission: 'payments',
    summary: 'List events, newest first',
    query: EventsQuery,
    reply: EventList,
    handle: async ({ ctx, owner, query }) => {
      const type = readQuery(query, 'type');
      if (type !== null && !TYPES.includes(type))
        throw new Problem('parameter_invalid', { reason: `it must be one of ${TYPES.join(', ')}` }, { param: 'type' });
      const page = await listEvents(ctx, {
        ...readerOfKey(owner),
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
        type,
        paymentId: readQuery(query, 'payment_id'),
      });
      const data = page.items.map((item) => Buffer.from(item.body).toString()).join(',');
      return { status: 200, body: Buffer.from(`{"success":true,"data":[${data}],"has_more":${page.hasMore}}`) };
    },
  }),
  apiRoute({
    id: 'readEvent',
    method: 'GET',
    path: '/v1/events/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Retrieve an event',
    reply: EventReply,
    handle: async ({ ctx, owner, params }) => ({
      status: 200,
      body: (await getEvent(ctx, { ...readerOfKey(owner), eventId: params.id })).body,
    }),
  }),
];
