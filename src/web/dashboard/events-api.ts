/** Payment events, as they were sent to webhook endpoints. */
import Type from 'typebox';
import type { Mode } from '../../core/coin.ts';
import { PAYMENT_EVENTS } from '../../core/event.ts';
import { asObject, asText } from '../../core/stored-json.ts';
import { literals } from '../../http/schema-fields.ts';
import { DELIVERY_STATES, listDeliveries } from '../../webhooks/deliveries.ts';
import { getEvent, listEvents } from '../../webhooks/events.ts';
import { Instant, ModeName, Nullable, PlainText, pageOf, paging } from './fields.ts';
import { type DashboardRoute, memberRoute, readerOfCall } from './route.ts';

const TYPES = PAYMENT_EVENTS;
const Item = Type.Object({ id: PlainText, mode: ModeName, type: PlainText, payment_id: Nullable(PlainText), created_at: Instant });
/** Maximum number of endpoints per event; a merchant has fewer. */
const MOST_DELIVERIES = 100;

const itemOf = (mode: Mode, event: { id: string; type: string; body: Uint8Array; createdAt: Date }) => ({
  id: event.id,
  mode,
  type: event.type,
  payment_id: asText(asObject(asObject(JSON.parse(Buffer.from(event.body).toString())).data).id),
  created_at: event.createdAt.toISOString(),
});

export const EVENT_ROUTES: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/events',
    action: 'events.read',
    query: Type.Object({
      ...paging,
      type: Type.Optional(literals(TYPES)),
      payment_id: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
    }),
    reply: pageOf(Item),
    handle: async (call) => {
      const { items, hasMore } = await listEvents(call.ctx, {
        ...readerOfCall(call),
        limit: Number(call.query.limit ?? 25),
        startingAfter: call.query.starting_after ?? null,
        type: TYPES.find((type) => type === call.query.type) ?? null,
        paymentId: call.query.payment_id?.trim() ?? null,
      });
      return { success: true, data: items.map((event) => itemOf(call.mode, event)), has_more: hasMore };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/events/:id',
    action: 'events.read',
    reply: Type.Object({
      success: Type.Boolean(),
      event: Item,
      /** The exact text that every delivery carries. */
      body: PlainText,
      deliveries: Type.Array(
        Type.Object({
          id: PlainText,
          endpoint_id: PlainText,
          state: literals(DELIVERY_STATES),
          attempt_count: Type.Integer(),
          created_at: Instant,
          delivered_at: Nullable(Instant),
          next_attempt_at: Nullable(Instant),
        }),
      ),
    }),
    handle: async (call) => {
      const eventId = call.params.id;
      const [event, deliveries] = await Promise.all([
        getEvent(call.ctx, { ...readerOfCall(call), eventId }),
        listDeliveries(call.ctx, {
          ...readerOfCall(call),
          eventId,
          limit: MOST_DELIVERIES,
          startingAfter: null,
          endpointId: null,
          state: null,
        }),
      ]);
      return {
        success: true,
        event: itemOf(call.mode, event),
        body: Buffer.from(event.body).toString(),
        deliveries: deliveries.items.map((delivery) => ({
          id: delivery.id,
          endpoint_id: delivery.endpointId,
          state: delivery.state,
          attempt_count: delivery.attemptCount,
          created_at: delivery.createdAt.toISOString(),
          delivered_at: delivery.deliveredAt?.toISOString() ?? null,
          next_attempt_at: delivery.nextAttemptAt?.toISOString() ?? null,
        })),
      };
    },
  }),
];
