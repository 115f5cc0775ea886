/** The endpoints that manage webhooks: merchants' URLs, the log of deliveries, resending. */
import { readTime } from '../core/dates.ts';
import { idOfNumber } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import { FULL_SIGHT } from '../core/sight.ts';
import { runOnce } from '../db/batch.ts';
import type { Tx } from '../db/db.ts';
import type { Rendered } from '../payments/view.ts';
import { DELIVERY_STATES, getDelivery, getRecovery, listDeliveries, resendDelivery, startRecovery } from '../webhooks/deliveries.ts';
import {
  deleteEndpoint,
  getEndpoint,
  listEndpoints,
  planEndpoint,
  planUpdate,
  rotateSecret,
  sendTestEvent,
} from '../webhooks/endpoints.ts';
import { readLimit, readQuery } from './read.ts';
import { type Answer, apiRoute, type Call, mine, type Route } from './route.ts';
import { Empty } from './schema.ts';
import {
  CreateEndpoint,
  DeliveriesQuery,
  DeliveryList,
  DeliveryReply,
  EndpointDeleted,
  EndpointList,
  EndpointReply,
  EndpointWithSecret,
  Recover,
  RecoveryReply,
  RotateSecret,
  UpdateEndpoint,
} from './schema-webhooks.ts';
import { deliveryBody, endpointBody, itemBody, recoveryBody, secretBody } from './webhook-bodies.ts';

/** Runs a change at most once per Idempotency-Key. A reply that contains a secret is stored encrypted. */
const once = ({ ctx, claim }: Pick<Call, 'ctx' | 'claim'>, work: (tx: Tx) => Promise<Rendered>, { secret = false } = {}): Promise<Answer> =>
  runOnce(ctx.db, claim, work, secret ? { seal: (bytes) => ctx.seal('reply', bytes), open: (bytes) => ctx.open('reply', bytes) } : null);

const ENDPOINTS: readonly Route[] = [
  apiRoute({
    id: 'createWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    summary: 'Create a webhook endpoint',
    body: CreateEndpoint,
    reply: EndpointWithSecret,
    created: true,
    handle: async (call) => {
      const { url, events = ['*'], description = null, enabled = true } = call.body;
      const write = await planEndpoint(call.ctx, { ...mine(call.owner), url, events, description, enabled });
      return once(call, async (tx) => call.reply(secretBody(await write(tx))), { secret: true });
    },
  }),
  apiRoute({
    id: 'readWebhookEndpoints',
    method: 'GET',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    summary: 'List all webhook endpoints, newest first',
    reply: EndpointList,
    handle: async ({ ctx, owner, reply }) => {
      const endpoints = await listEndpoints(ctx, mine(owner));
      return reply({ success: true, data: endpoints.map((endpoint) => endpointBody(endpoint, FULL_SIGHT)), has_more: false });
    },
  }),
  apiRoute({
    id: 'readWebhookEndpoint',
    method: 'GET',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    summary: 'Retrieve a webhook endpoint',
    reply: EndpointReply,
    handle: async ({ ctx, owner, params, reply }) =>
      reply(endpointBody(await getEndpoint(ctx, { ...mine(owner), endpointId: params.id }), FULL_SIGHT)),
  }),
  apiRoute({
    id: 'updateWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    summary: 'Update a webhook endpoint',
    body: UpdateEndpoint,
    reply: EndpointReply,
    handle: async (call) => {
      const write = await planUpdate(call.ctx, { ...mine(call.owner), endpointId: call.params.id, ...call.body });
      return once(call, async (tx) => call.reply(endpointBody(await write(tx), FULL_SIGHT)));
    },
  }),
  apiRoute({
    id: 'deleteWebhookEndpoint',
    method: 'DELETE',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    summary: 'Delete a webhook endpoint',
    reply: EndpointDeleted,
    handle: async ({ ctx, owner, params, reply }) => {
      await ctx.db.begin((tx) => deleteEndpoint(ctx, tx, { ...mine(owner), endpointId: params.id }));
      return reply({ success: true, id: params.id, deleted: true });
    },
  }),
  apiRoute({
    id: 'rotateWebhookSecret',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/rotate_secret',
    access: 'secret',
    summary: 'Rotate the signing secret of a webhook endpoint',
    body: RotateSecret,
    reply: EndpointWithSecret,
    handle: async (call) => {
      const target = { ...mine(call.owner), endpointId: call.params.id, overlapSeconds: call.body.expires_in };
      return once(call, async (tx) => call.reply(secretBody(await rotateSecret(call.ctx, tx, target))), { secret: true });
    },
  }),
  apiRoute({
    id: 'testWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/test',
    access: 'secret',
    summary: 'Send a test event',
    body: Empty,
    reply: DeliveryReply,
    created: true,
    handle: async (call) => {
      const { ctx, owner, params } = call;
      return once(call, async (tx) => {
        const number = await sendTestEvent(ctx, tx, { ...mine(owner), endpointId: params.id });
        const deliveryId = idOfNumber('del', ctx.installKey, number);
        return call.reply(deliveryBody(await getDelivery(ctx, { ...mine(owner), deliveryId, sight: FULL_SIGHT, tx }), FULL_SIGHT));
      });
    },
  }),
  apiRoute({
    id: 'recoverWebhookEndpoint',
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/recover',
    access: 'secret',
    summary: 'Send everything that failed since a time again',
    body: Recover,
    reply: RecoveryReply,
    created: true,
    handle: async (call) => {
      const target = { ...mine(call.owner), endpointId: call.params.id, since: readTime(call.body.since, 'since', { days: false }) };
      return once(call, async (tx) => call.reply(recoveryBody(await startRecovery(call.ctx, tx, target))));
    },
  }),
];

const DELIVERIES: readonly Route[] = [
  apiRoute({
    id: 'readWebhookRecovery',
    method: 'GET',
    path: '/v1/webhook_recoveries/:id',
    access: 'secret',
    summary: 'Retrieve the progress of a recovery',
    reply: RecoveryReply,
    handle: async ({ ctx, owner, params, reply }) => reply(recoveryBody(await getRecovery(ctx, { ...mine(owner), recoveryId: params.id }))),
  }),
  apiRoute({
    id: 'readWebhookDeliveries',
    method: 'GET',
    path: '/v1/webhook_deliveries',
    access: 'secret',
    summary: 'List webhook deliveries, newest first',
    query: DeliveriesQuery,
    reply: DeliveryList,
    handle: async ({ ctx, owner, query, reply }) => {
      const given = readQuery(query, 'state');
      const state = DELIVERY_STATES.find((known) => known === given) ?? null;
      if (given !== null && state === null)
        throw new Problem('parameter_invalid', { reason: `it must be one of ${DELIVERY_STATES.join(', ')}` }, { param: 'state' });
      const page = await listDeliveries(ctx, {
        ...mine(owner),
        sight: FULL_SIGHT,
        limit: readLimit(query),
        startingAfter: readQuery(query, 'starting_after'),
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
    summary: 'Retrieve a webhook delivery with its attempts',
    reply: DeliveryReply,
    handle: async ({ ctx, owner, params, reply }) =>
      reply(deliveryBody(await getDelivery(ctx, { ...mine(owner), deliveryId: params.id, sight: FULL_SIGHT }), FULL_SIGHT)),
  }),
  apiRoute({
    id: 'resendWebhookDelivery',
    method: 'POST',
    path: '/v1/webhook_deliveries/:id/resend',
    access: 'secret',
    summary: 'Resend a delivery',
    body: Empty,
    reply: DeliveryReply,
    handle: async (call) => {
      const { ctx, owner, params } = call;
      return once(call, async (tx) =>
        call.reply(deliveryBody(await resendDelivery(ctx, tx, { ...mine(owner), deliveryId: params.id, sight: FULL_SIGHT }), FULL_SIGHT)),
      );
    },
  }),
];

export const WEBHOOKS: readonly Route[] = [...ENDPOINTS, ...DELIVERIES];
