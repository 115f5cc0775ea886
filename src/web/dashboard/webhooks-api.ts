/** Webhooks: endpoints and their health, deliveries, resending. */
import Type from 'typebox';
import { isoTime, readTime } from '#core/dates';
import { DELIVERED_EVENTS, SHOP_EVENTS, TEST_EVENT } from '#core/event';
import { idOfNumber } from '#core/id';
import {
  cancelRecovery,
  countMissed,
  DELIVERY_STATES,
  deliveryBody,
  endpointBody,
  getDelivery,
  type Health,
  itemBody,
  type LastAttempt,
  listDeliveries,
  listHealth,
  listHours,
  listLastAttempts,
  listRecoveries,
  MOST_COUNTED,
  recoveryBody,
  resendPayment,
  secretBody,
  sendTestEvent,
  whyBody,
} from '#deliveries';
import { DeliveryReply, EndpointReply, EndpointWithSecret, literals, RecoveryReply, sampleData } from '#http';
import { getMerchant } from '#merchants';
import { writeAudit } from '#people';
import { sendCurrentState } from '#shops';
import { type Endpoint, getEndpoint, listEndpoints, MOST_ENDPOINTS, revealSecret } from '#webhooks';
import { Instant, NoFields, Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { type DashboardRoute, forMembers, type MemberCall, memberRoute, ownerOfCall, readerOfCall } from './route.ts';

const EventName = literals(DELIVERED_EVENTS);
const AnyEventName = literals([...DELIVERED_EVENTS, ...SHOP_EVENTS]);
const RECOVERIES_SHOWN = 5;

const HealthFields = {
  attempts: Type.Integer({ description: 'Of the last 24 hours.' }),
  delivered: Type.Integer(),
  last_failure: Nullable(PlainText),
  last_failure_at: Nullable(Instant),
  message: Nullable(PlainText),
  advice: Nullable(PlainText),
  address: Nullable(PlainText),
  waiting: Type.Integer({ description: `At most ${MOST_COUNTED}: then there may be more.` }),
  oldest_waiting_at: Nullable(Instant),
  off_since: Nullable(Instant),
};
/** An endpoint with its health. */
export const EndpointItem = Type.Object({ ...EndpointReply.properties, health: Type.Object(HealthFields) });
const LastAttemptItem = Type.Object({
  at: Instant,
  duration_ms: Type.Integer(),
  status: Nullable(Type.Integer()),
  failure: Nullable(PlainText),
  message: Nullable(PlainText),
});
const { attempts: _attempts, request_body: _body, success: _success, ...itemProperties } = DeliveryReply.properties;
const DeliveryItem = Type.Object({ ...itemProperties, last_attempt: Nullable(LastAttemptItem) });
const OneEndpoint = Type.Object({ success: Type.Boolean(), endpoint: EndpointItem });
const Secret = Type.Object({ success: Type.Boolean(), endpoint: EndpointWithSecret });
const OneDelivery = Type.Object({ success: Type.Boolean(), delivery: DeliveryReply });
const OneRecovery = Type.Object({ success: Type.Boolean(), recovery: RecoveryReply });
const Since = Type.String({ format: 'date-time', maxLength: 40 });

const targetOf = (call: MemberCall<'/:id'>) => ({ ...ownerOfCall(call), endpointId: call.params.id });

const healthBody = (health: Health | undefined, { failureReason, failureAddress }: Endpoint) => ({
  message: whyBody(failureReason).message,
  advice: whyBody(failureReason).advice,
  address: failureAddress,
  attempts: health?.attempts ?? 0,
  delivered: health?.delivered ?? 0,
  last_failure: health?.lastFailure ?? null,
  last_failure_at: isoTime(health?.lastFailureAt ?? null),
  waiting: health?.waiting ?? 0,
  oldest_waiting_at: isoTime(health?.oldestWaitingAt ?? null),
  off_since: isoTime(health?.offSince ?? null),
});
const lastBody = ({ at: when, durationMs, status, failure, reason }: LastAttempt) => ({
  ...{ at: isoTime(when), duration_ms: durationMs, status, failure },
  message: whyBody(reason).message,
});
const audit = (
  tx: Parameters<typeof writeAudit>[0],
  call: MemberCall,
  entry: { action: string; object: string; before?: object; after?: object },
) => writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, ...entry });

/** Endpoints with their health, as far as the member may see them. */
export async function endpointItems(call: MemberCall, of: { dialect: Endpoint['dialect'] | 'any'; lineId?: string }) {
  const owner = ownerOfCall(call);
  const [endpoints, healths] = await Promise.all([listEndpoints(call.ctx, { ...owner, ...of }), listHealth(call.ctx, owner)]);
  const byId = new Map(healths.map((health) => [health.endpointId, health]));
  return endpoints.map((endpoint) => ({
    ...endpointBody(endpoint, readerOfCall(call).sight),
    health: healthBody(byId.get(endpoint.id), endpoint),
  }));
}
async function oneEndpoint(call: MemberCall, endpoint: Endpoint) {
  const [health] = await listHealth(call.ctx, { ...ownerOfCall(call), endpointId: endpoint.id });
  return { success: true, endpoint: { ...endpointBody(endpoint, readerOfCall(call).sight), health: healthBody(health, endpoint) } };
}
const ENDPOINTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/webhooks',
    action: 'webhooks.read',
    reply: Type.Object({
      ...pageOf(EndpointItem).properties,
      limit: Type.Integer(),
      on_plan: Type.Boolean({ description: 'The plan of the merchant includes webhooks.' }),
    }),
    handle: async (call) => {
      const [data, merchant] = await Promise.all([endpointItems(call, { dialect: 'any' }), getMerchant(call.ctx, ownerOfCall(call))]);
      return {
        success: true,
        data,
        has_more: false,
        limit: MOST_ENDPOINTS,
        on_plan: call.ctx.settings.plans[merchant.plan].webhooks,
      };
    },
  }),
  forMembers('createWebhookEndpoint', { path: '/webhooks', action: 'webhooks.manage', recent: true, as: 'endpoint' }),
  memberRoute({
    method: 'GET',
    path: '/webhooks/:id',
    action: 'webhooks.read',
    reply: OneEndpoint,
    handle: async (call) => oneEndpoint(call, await getEndpoint(call.ctx, { ...targetOf(call), dialect: 'any' })),
  }),
  forMembers('updateWebhookEndpoint', { path: '/webhooks/:id', action: 'webhooks.manage', as: 'endpoint' }),
  forMembers('deleteWebhookEndpoint', { path: '/webhooks/:id', action: 'webhooks.manage', recent: true, as: 'endpoint' }),
  memberRoute({
    method: 'POST',
    path: '/webhooks/:id/secret',
    action: 'webhooks.secrets',
    recent: true,
    body: NoFields,
    reply: Secret,
    handle: async (call) => {
      const endpoint = await call.ctx.db.begin(async (tx) => {
        const shown = await revealSecret(call.ctx, tx, targetOf(call));
        await audit(tx, call, { action: 'endpoint.secret_shown', object: shown.id });
        return shown;
      });
      return { success: true, endpoint: secretBody(endpoint) };
    },
  }),
  forMembers('rotateWebhookSecret', { path: '/webhooks/:id/rotate', action: 'webhooks.secrets', recent: true, as: 'endpoint' }),
  memberRoute({
    method: 'POST',
    path: '/webhooks/:id/test',
    action: 'webhooks.send',
    body: Type.Object({ type: EventName }),
    reply: OneDelivery,
    handle: async (call) => {
      const type = DELIVERED_EVENTS.find((known) => known === call.body.type) ?? TEST_EVENT;
      const target = targetOf(call);
      // A sample payment that does not exist, so that nobody mistakes it for a real one.
      const sample = type === TEST_EVENT ? undefined : { type, data: await sampleData(type) };
      const delivery = await call.ctx.db.begin(async (tx) => {
        const number = await sendTestEvent(call.ctx, tx, { ...target, ...(sample && { sample }) });
        const deliveryId = idOfNumber('del', call.ctx.installKey, number);
        await audit(tx, call, { action: 'endpoint.test', object: target.endpointId, after: { type, delivery: deliveryId } });
        return getDelivery(call.ctx, { ...readerOfCall(call), deliveryId, tx });
      });
      return { success: true, delivery: deliveryBody(delivery, readerOfCall(call).sight) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/webhooks/:id/hours',
    action: 'webhooks.read',
    reply: Type.Object({
      success: Type.Boolean(),
      hours: Type.Array(
        Type.Object({
          at: Instant,
          outcomes: Type.Array(
            Type.Object({ outcome: PlainText, attempts: Type.Integer(), total_ms: Type.Integer(), slowest_ms: Type.Integer() }),
          ),
        }),
      ),
    }),
    handle: async (call) => ({
      success: true,
      hours: (await listHours(call.ctx, targetOf(call))).map((hour) => ({
        at: isoTime(hour.at),
        outcomes: hour.outcomes.map(({ outcome, attempts, totalMs, slowestMs }) => ({
          outcome,
          attempts,
          total_ms: totalMs,
          slowest_ms: slowestMs,
        })),
      })),
    }),
  }),
];

const SENT: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/deliveries',
    action: 'webhooks.read',
    query: Type.Object({
      ...paging,
      endpoint_id: Type.Optional(PlainText),
      payment_id: Type.Optional(PlainText),
      state: Type.Optional(literals(DELIVERY_STATES)),
      type: Type.Optional(AnyEventName),
    }),
    reply: Type.Object({
      ...pageOf(DeliveryItem).properties,
      searched_all: Type.Boolean({ description: 'False if older deliveries were not searched for the type.' }),
    }),
    handle: async (call) => {
      const { query } = call;
      const page = await listDeliveries(call.ctx, {
        ...readerOfCall(call),
        ...pageIn(query),
        endpointId: query.endpoint_id ?? null,
        paymentId: query.payment_id?.trim() || null,
        eventId: null,
        eventType: query.type === undefined ? null : String(query.type),
        state: DELIVERY_STATES.find((state) => state === query.state) ?? null,
      });
      const attempts = await listLastAttempts(call.ctx, { deliveryIds: page.items.map((item) => item.id) });
      return {
        success: true,
        data: page.items.map((item) => {
          const last = attempts.get(item.id);
          return {
            ...itemBody(item),
            last_attempt: last ? lastBody(last) : null,
          };
        }),
        has_more: page.hasMore,
        searched_all: page.searchedAll,
      };
    },
  }),
  forMembers('readWebhookDelivery', { path: '/deliveries/:id', action: 'webhooks.read', as: 'delivery' }),
  forMembers('resendWebhookDelivery', { path: '/deliveries/:id/resend', action: 'webhooks.send', as: 'delivery' }),
  memberRoute({
    method: 'POST',
    path: '/payments/:id/resend',
    action: 'webhooks.send',
    body: NoFields,
    reply: Type.Object({ success: Type.Boolean(), resent: Type.Integer() }),
    handle: async (call) => {
      const of = { ...readerOfCall(call), paymentId: call.params.id };
      const resent = await call.ctx.db.begin(async (tx) => {
        // A shop gets the current status: its plugin acts on every event.
        const count = (await resendPayment(call.ctx, tx, of)) + (await sendCurrentState(call.ctx, tx, of));
        await audit(tx, call, { action: 'payment.events_resent', object: of.paymentId, after: { deliveries: count } });
        return count;
      });
      return { success: true, resent };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/webhooks/:id/missed',
    action: 'webhooks.read',
    query: Type.Object({ since: Since }),
    reply: Type.Object({ success: Type.Boolean(), missed: Type.Integer(), exact: Type.Boolean() }),
    handle: async (call) => ({
      success: true,
      ...(await countMissed(call.ctx, { ...targetOf(call), since: readTime(call.query.since, 'since') })),
    }),
  }),
  memberRoute({
    method: 'GET',
    path: '/webhooks/:id/recoveries',
    action: 'webhooks.read',
    reply: pageOf(RecoveryReply),
    handle: async (call) => ({
      success: true,
      data: (await listRecoveries(call.ctx, { ...targetOf(call), limit: RECOVERIES_SHOWN })).map(recoveryBody),
      has_more: false,
    }),
  }),
  forMembers('recoverWebhookEndpoint', { path: '/webhooks/:id/recoveries', action: 'webhooks.send', as: 'recovery' }),
  memberRoute({
    method: 'POST',
    path: '/recoveries/:id/cancel',
    action: 'webhooks.send',
    body: NoFields,
    reply: OneRecovery,
    handle: async (call) => {
      const recovery = await call.ctx.db.begin(async (tx) => {
        const ended = await cancelRecovery(call.ctx, tx, { ...ownerOfCall(call), recoveryId: call.params.id });
        await audit(tx, call, { action: 'recovery.cancel', object: ended.endpointId, after: { recovery: ended.id, status: ended.status } });
        return ended;
      });
      return { success: true, recovery: recoveryBody(recovery) };
    },
  }),
];

export const DASHBOARD_WEBHOOKS: readonly DashboardRoute[] = [...ENDPOINTS, ...SENT];
