/** What happened: payment events as they were sent to webhook endpoints, the log of API requests, and the audit log. */
import Type from 'typebox';
import { MODES, type Mode } from '#core/coin';
import { readTime } from '#core/dates';
import { PAYMENT_EVENTS } from '#core/event';
import { Problem } from '#core/problem';
import { asObject, asText } from '#core/stored-json';
import { DELIVERY_STATES, listDeliveries } from '#deliveries';
import { literals, RequestEntry, requestBody } from '#http';
import { getRequest, type LoggedRequest, listRequests } from '#keys';
import { kindOfActor, listAudit, listAuditChoices } from '#people';
import { getEvent, listEvents } from '#webhooks';
import { ActorKindField, Instant, lookedBackBody, lookedPageOf, ModeName, Nullable, PlainText, pageIn, paging } from './fields.ts';
import { type DashboardRoute, memberRoute, readerOfCall } from './route.ts';

const TYPES = PAYMENT_EVENTS;
export const EventBody = Type.Object({
  id: PlainText,
  mode: ModeName,
  type: PlainText,
  payment_id: Nullable(PlainText),
  created_at: Instant,
});
/** Maximum number of endpoints per event; a merchant has fewer. */
const MOST_DELIVERIES = 100;

export const eventBody = (mode: Mode, event: { id: string; type: string; body: Uint8Array; createdAt: Date }) => ({
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
      search: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    }),
    reply: lookedPageOf(EventBody),
    handle: async (call) => {
      const { items, hasMore, lookedBackTo } = await listEvents(call.ctx, {
        ...readerOfCall(call),
        ...pageIn(call.query),
        type: TYPES.find((type) => type === call.query.type) ?? null,
        paymentId: call.query.payment_id?.trim() ?? null,
        text: call.query.search ?? null,
      });
      return {
        success: true,
        data: items.map((event) => eventBody(call.mode, event)),
        has_more: hasMore,
        looked_back_to: lookedBackBody(lookedBackTo),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/events/:id',
    action: 'events.read',
    reply: Type.Object({
      success: Type.Boolean(),
      event: EventBody,
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
        event: eventBody(call.mode, event),
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

// The log of API requests made with this merchant's keys.

const RequestItem = Type.Object({ ...RequestEntry.properties, key_name: PlainText, key_hint: PlainText });
const requestItem = (request: LoggedRequest) => ({ ...requestBody(request), key_name: request.keyName, key_hint: request.keyHint });

export const REQUESTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/requests',
    action: 'requests.read',
    query: Type.Object({
      ...paging,
      outcome: Type.Optional(literals(['failed'] as const)),
      status: Type.Optional(Type.String({ pattern: '^[1-5][0-9][0-9]$' })),
      search: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
      key_id: Type.Optional(PlainText),
      request_id: Type.Optional(PlainText),
    }),
    reply: lookedPageOf(RequestItem),
    handle: async (call) => {
      const { query } = call;
      const { items, hasMore, lookedBackTo } = await listRequests(call.ctx, {
        ...readerOfCall(call),
        ...pageIn(query),
        filter: {
          failed: query.outcome === 'failed',
          status: query.status === undefined ? null : Number(query.status),
          path: null,
          text: query.search ?? null,
          keyId: query.key_id ?? null,
          requestId: query.request_id ?? null,
        },
      });
      return { success: true, data: items.map(requestItem), has_more: hasMore, looked_back_to: lookedBackBody(lookedBackTo) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/requests/:id',
    action: 'requests.read',
    reply: Type.Object({ success: Type.Boolean(), request: RequestItem }),
    handle: async (call) => ({
      success: true,
      request: requestItem(await getRequest(call.ctx, { ...readerOfCall(call), requestId: call.params.id })),
    }),
  }),
];

// The audit log of what members, keys and shops did: paginated, filtered by user, action, object, mode and time.

const Changed = Nullable(Type.Record(Type.String(), Type.Unknown()));
const Day = Type.Optional(Type.String({ format: 'date-time', maxLength: 40 }));
const Entry = Type.Object({
  id: PlainText,
  mode: Nullable(literals(MODES)),
  actor_id: Nullable(PlainText),
  actor_name: PlainText,
  actor_kind: ActorKindField,
  action: PlainText,
  object: PlainText,
  /** The user's current data. */
  object_name: Nullable(PlainText),
  before: Changed,
  after: Changed,
  ip: PlainText,
  at: Instant,
});

export const numberOf = (text: string | undefined): bigint | null => {
  if (text === undefined || text === '') return null;
  if (!/^\d{1,18}$/.test(text)) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  return BigInt(text);
};

export const AUDIT: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/audit',
    action: 'audit.read',
    query: Type.Object({
      ...paging,
      actor: Type.Optional(PlainText),
      action: Type.Optional(PlainText),
      object: Type.Optional(PlainText),
      in_mode: Type.Optional(literals(MODES)),
      from: Day,
      until: Day,
    }),
    reply: lookedPageOf(Entry),
    handle: async ({ ctx, member, query }) => {
      const { items, hasMore, lookedBackTo } = await listAudit(ctx, {
        merchantId: member.merchantId,
        limit: Number(query.limit ?? 25),
        startingAfter: numberOf(query.starting_after),
        filter: {
          actorId: query.actor ?? null,
          action: query.action ?? null,
          object: query.object ?? null,
          mode: MODES.find((mode) => mode === query.in_mode) ?? null,
          from: query.from === undefined ? null : readTime(query.from, 'from'),
          until: query.until === undefined ? null : readTime(query.until, 'until'),
        },
      });
      return {
        success: true,
        has_more: hasMore,
        looked_back_to: lookedBackBody(lookedBackTo),
        data: items.map(({ id, mode, actorId, actorName, action, object, objectName, before, after, ip, at }) => ({
          id: String(id),
          mode,
          actor_id: actorId,
          actor_name: actorName,
          actor_kind: kindOfActor(actorId),
          action,
          object,
          object_name: objectName,
          before,
          after,
          ip,
          at: at.toISOString(),
        })),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/audit/choices',
    action: 'audit.read',
    reply: Type.Object({
      success: Type.Boolean(),
      actions: Type.Array(PlainText),
      actors: Type.Array(Type.Object({ id: PlainText, name: PlainText, kind: ActorKindField })),
    }),
    handle: async ({ ctx, member }) => {
      const { actions, actors } = await listAuditChoices(ctx, member);
      return { success: true, actions, actors: actors.map((actor) => ({ ...actor, kind: kindOfActor(actor.id) })) };
    },
  }),
];
