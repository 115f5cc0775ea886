/** The endpoints that manage webhooks: merchants' URLs, the log of deliveries, resending. */
import { isoTime, readTime } from '#core/dates';
import { isPayoutEvent } from '#core/event';
import { idOfNumber } from '#core/id';
import type { RenderedReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { runOnce, type Tx } from '#db';
import {
  connectionBody,
  DELIVERY_STATES,
  deliveryBody,
  endpointBody,
  getDelivery,
  getRecovery,
  itemBody,
  listDeliveries,
  recoveryBody,
  resendDelivery,
  secretBody,
  sendTestEvent,
  startRecovery,
} from '#deliveries';
import { actorText, memberOf, writeAudit } from '#people';
import {
  deleteEndpoint,
  type Endpoint,
  getEndpoint,
  listEndpoints,
  planEndpoint,
  planUpdate,
  rotateSecret,
  sendsPayouts,
  tryEndpoint,
} from '#webhooks';
import { readLimit, readPageCursor, readQuery } from './read.ts';
import { type Answer, type ApiCall, type ApiRoute, apiRoute, mine, readerOfCaller, sightOfCaller } from './route.ts';
import { Empty } from './schema.ts';
import {
  CreateEndpoint,
  DeliveriesQuery,
  DeliveryList,
  DeliveryReply,
  EndpointCreated,
  EndpointDeleted,
  EndpointList,
  EndpointReply,
  EndpointUpdated,
  EndpointWithSecret,
  Recover,
  RecoveryReply,
  RotateSecret,
  UpdateEndpoint,
} from './schema-webhooks.ts';

/** Runs a change at most once per Idempotency-Key. A reply that contains a secret is stored encrypted. */
const once = (
  { ctx, claim }: Pick<ApiCall, 'ctx' | 'claim'>,
  work: (tx: Tx) => Promise<RenderedReply>,
  { secret = false } = {},
): Promise<Answer> =>
  runOnce(ctx.db, claim, work, secret ? { seal: (bytes) => ctx.seal('reply', bytes), open: (bytes) => ctx.open('reply', bytes) } : null);

/** Every change is in the audit log, with the key or the member that made it. */
type Change = { action: string; object: string; before?: object; after?: object };
const audit = (tx: Tx, { owner, actor }: Pick<ApiCall, 'owner' | 'actor'>, change: Change): Promise<void> =>
  writeAudit(tx, { ...mine(owner), actor, ...change });
const kept = ({ url, events, description, enabled }: Endpoint) => ({ url, events, description, enabled });
/** The receiver of events reads what they contain. Errors: those of `need`. */
function checkEvents({ need }: Pick<ApiCall, 'need'>, events: readonly string[]): void {
  if (events.some(isPayoutEvent)) need('payouts');
}
const by = ({ actor }: Pick<ApiCall, 'actor'>) => ({ name: actorText(actor), userId: memberOf(actor) });
type Named = Pick<ApiCall<'/:id'>, 'owner' | 'actor' | 'params'>;
const namedIn = ({ owner, params }: Named) => ({ ...mine(owner), endpointId: params.id });
/** Members also manage the endpoints of shops, which keys do not see. */
const targetOf = (call: Named) => ({ ...namedIn(call), dialect: memberOf(call.actor) === null ? ('florin' as const) : ('any' as const) });

const ENDPOINTS: readonly ApiRoute[] = [
  apiRoute({
    id: 'createWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Create a webhook endpoint',
    body: CreateEndpoint,
    reply: EndpointCreated,
    created: true,
    handle: async (call) => {
      const { url, events = ['*'], description = null, enabled = true } = call.body;
      checkEvents(call, events);
      const { madeBy } = call.owner;
      const write = await planEndpoint(call.ctx, { ...mine(call.owner), url, events, description, enabled, by: by(call), madeBy });
      const reached = await tryEndpoint(call.ctx, { ...mine(call.owner), url, enabled });
      const work = async (tx: Tx) => {
        const endpoint = await write(tx);
        await audit(tx, call, { action: 'endpoint.create', object: endpoint.id, after: kept(endpoint) });
        return call.reply({ ...secretBody(endpoint), connection: connectionBody(reached), same_url: endpoint.sameUrl });
      };
      return once(call, work, { secret: true });
    },
  }),
  apiRoute({
    id: 'readWebhookEndpoints',
    method: 'GET',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    permission: 'webhooks',
    summary: 'List all webhook endpoints, newest first',
    reply: EndpointList,
    handle: async ({ ctx, owner, reply }) => {
      const endpoints = await listEndpoints(ctx, mine(owner));
      const sight = sightOfCaller(owner);
      return reply({ success: true, data: endpoints.map((endpoint) => endpointBody(endpoint, sight)), has_more: false });
    },
  }),
  apiRoute({
    id: 'readWebhookEndpoint',
    method: 'GET',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Retrieve a webhook endpoint',
    reply: EndpointReply,
    handle: async ({ ctx, owner, params, reply }) =>
      reply(endpointBody(await getEndpoint(ctx, { ...mine(owner), endpointId: params.id }), sightOfCaller(owner))),
  }),
  apiRoute({
    id: 'updateWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Update a webhook endpoint',
    body: UpdateEndpoint,
    reply: EndpointUpdated,
    handle: async (call) => {
      const target = targetOf(call);
      const { url, events, enabled } = call.body;
      const write = await planUpdate(call.ctx, { ...target, ...call.body, by: by(call) });
      // The receiver of the events sees every payment, and a shop that no longer receives them does not learn of them.
      const isRisky = (before: Endpoint): boolean => {
        const isCut = before.enabled && (enabled === false || before.events.some((type) => events?.includes(type) === false));
        return (url ?? before.url) !== before.url || (call.owner.mode === 'live' && isCut);
      };
      const checkRecent = (before: Endpoint): void => void (isRisky(before) && call.needRecent());
      // Only what may be saved is tried.
      if (memberOf(call.actor) !== null) checkRecent(await getEndpoint(call.ctx, target));
      const reached = await tryEndpoint(call.ctx, { ...mine(call.owner), url, enabled });
      return once(call, async (tx) => {
        const before = await getEndpoint(call.ctx, { ...target, tx });
        checkRecent(before);
        const after = await write(tx);
        const added = after.events.filter((type) => !before.events.includes(type));
        if (after.url === before.url) checkEvents(call, added);
        else if (await sendsPayouts(tx, { ...mine(call.owner), endpoint: after })) call.need('payouts');
        await audit(tx, call, { action: 'endpoint.update', object: after.id, before: kept(before), after: kept(after) });
        const body = endpointBody(after, sightOfCaller(call.owner));
        return call.reply({ ...body, connection: connectionBody(reached), same_url: after.sameUrl });
      });
    },
  }),
  apiRoute({
    id: 'deleteWebhookEndpoint',
    method: 'DELETE',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Delete a webhook endpoint',
    reply: EndpointDeleted,
    handle: async (call) => {
      const target = targetOf(call);
      await call.ctx.db.begin(async (tx) => {
        const before = await getEndpoint(call.ctx, { ...target, tx });
        await deleteEndpoint(call.ctx, tx, target);
        await audit(tx, call, { action: 'endpoint.delete', object: before.id, before: kept(before) });
      });
      return call.reply({ success: true, id: call.params.id, deleted: true });
    },
  }),
  apiRoute({
    id: 'rotateWebhookSecret',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/rotate_secret',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Rotate the signing secret of a webhook endpoint',
    body: RotateSecret,
    reply: EndpointWithSecret,
    handle: async (call) => {
      const target = { ...namedIn(call), overlapSeconds: call.body.expires_in };
      const work = async (tx: Tx) => {
        const rolled = await rotateSecret(call.ctx, tx, target);
        const after = { overlap_seconds: target.overlapSeconds };
        await audit(tx, call, { action: 'endpoint.secret_rolled', object: rolled.id, after });
        return call.reply(secretBody(rolled));
      };
      return once(call, work, { secret: true });
    },
  }),
  apiRoute({
    id: 'testWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/test',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Send a test event',
    body: Empty,
    reply: DeliveryReply,
    created: true,
    handle: async (call) => {
      const { ctx, owner, params } = call;
      return once(call, async (tx) => {
        const number = await sendTestEvent(ctx, tx, { ...mine(owner), endpointId: params.id });
        const deliveryId = idOfNumber('del', ctx.installKey, number);
        return call.reply(deliveryBody(await getDelivery(ctx, { ...readerOfCaller(owner), deliveryId, tx }), sightOfCaller(owner)));
      });
    },
  }),
  apiRoute({
    id: 'recoverWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/recover',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Send everything that failed since a time again',
    body: Recover,
    reply: RecoveryReply,
    created: true,
    handle: async (call) => {
      const since = readTime(call.body.since, 'since', { days: false });
      return once(call, async (tx) => {
        const begun = await startRecovery(call.ctx, tx, { ...namedIn(call), since });
        const after = { recovery: begun.id, since: isoTime(since), total: begun.total };
        await audit(tx, call, { action: 'recovery.start', object: begun.endpointId, after });
        return call.reply(recoveryBody(begun));
      });
    },
  }),
];

const DELIVERIES: readonly ApiRoute[] = [
  apiRoute({
    id: 'readWebhookRecovery',
    method: 'GET',
    path: '/v1/webhook_recoveries/:id',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Retrieve the progress of a recovery',
    reply: RecoveryReply,
    handle: async ({ ctx, owner, params, reply }) => reply(recoveryBody(await getRecovery(ctx, { ...mine(owner), recoveryId: params.id }))),
  }),
  apiRoute({
    id: 'readWebhookDeliveries',
    method: 'GET',
    path: '/v1/webhook_deliveries',
    access: 'secret',
    permission: 'webhooks',
    summary: 'List webhook deliveries, newest first',
    query: DeliveriesQuery,
    reply: DeliveryList,
    handle: async ({ ctx, owner, query, reply }) => {
      const given = readQuery(query, 'state');
      const state = DELIVERY_STATES.find((known) => known === given) ?? null;
      if (given !== null && state === null)
        throw new Problem('parameter_invalid', { reason: `it must be one of ${DELIVERY_STATES.join(', ')}` }, { param: 'state' });
      const page = await listDeliveries(ctx, {
        ...readerOfCaller(owner),
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
        endpointId: readQuery(query, 'endpoint_id'),
        eventId: readQuery(query, 'event_id'),
        state,
      });
      return reply({ success: true, data: page.items.map(itemBody), has_more: page.hasMore });
    },
  }),
  apiRoute({
    id: 'readWebhookDelivery',
    method: 'GET',
    path: '/v1/webhook_deliveries/:id',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Retrieve a webhook delivery with its attempts',
    reply: DeliveryReply,
    handle: async ({ ctx, owner, params, reply }) =>
      reply(deliveryBody(await getDelivery(ctx, { ...readerOfCaller(owner), deliveryId: params.id }), sightOfCaller(owner))),
  }),
  apiRoute({
    id: 'resendWebhookDelivery',
    method: 'POST',
    path: '/v1/webhook_deliveries/:id/resend',
    access: 'secret',
    permission: 'webhooks',
    summary: 'Resend a delivery',
    body: Empty,
    reply: DeliveryReply,
    handle: async (call) =>
      once(call, async (tx) => {
        const sent = await resendDelivery(call.ctx, tx, { ...readerOfCaller(call.owner), deliveryId: call.params.id });
        await audit(tx, call, { action: 'delivery.resend', object: sent.id, after: { event: sent.eventId, endpoint: sent.endpointId } });
        return call.reply(deliveryBody(sent, sightOfCaller(call.owner)));
      }),
  }),
];

export const WEBHOOK_ROUTES: readonly ApiRoute[] = [...ENDPOINTS, ...DELIVERIES];
