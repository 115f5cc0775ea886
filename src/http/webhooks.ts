/** The endpoints that manage webhooks: merchants' URLs, the log of deliveries, resending. */

import { idOfNumber } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import type { StoredReply } from '../db/batch.ts';
import { runOnce } from '../db/batch.ts';
import type { Tx } from '../db/db.ts';
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
import { checkBody } from './body.ts';
import { mine, render } from './payments.ts';
import { readLimit, readQuery } from './read.ts';
import type { Answer, Call } from './route.ts';
import { CreateEndpoint, Recover, RotateSecret, UpdateEndpoint } from './schema-webhooks.ts';
import { deliveryBody, endpointBody, itemBody, recoveryBody } from './webhook-bodies.ts';

/** Runs a change at most once per Idempotency-Key. A reply that contains a secret is stored encrypted. */
const once = ({ ctx, claim }: Call, work: (tx: Tx) => Promise<StoredReply>, { secret = false } = {}): Promise<Answer> =>
  runOnce(ctx.db, claim, work, secret ? { seal: (bytes) => ctx.seal('reply', bytes), open: (bytes) => ctx.open('reply', bytes) } : null);

export async function createWebhookEndpoint(call: Call): Promise<Answer> {
  const given = checkBody(CreateEndpoint, call.body);
  const write = await planEndpoint(call.ctx, {
    ...mine(call.owner),
    url: given.url,
    events: given.events ?? ['*'],
    description: given.description ?? null,
    enabled: given.enabled ?? true,
  });
  return once(call, async (tx) => render(201, endpointBody(await write(tx))), { secret: true });
}
export async function readWebhookEndpoints({ ctx, owner }: Call): Promise<Answer> {
  const endpoints = await listEndpoints(ctx, mine(owner));
  return render(200, { success: true, data: endpoints.map(endpointBody), has_more: false });
}
export async function readWebhookEndpoint({ ctx, owner, params }: Call): Promise<Answer> {
  return render(200, endpointBody(await getEndpoint(ctx, { ...mine(owner), endpointId: params.id! })));
}
export async function updateWebhookEndpoint(call: Call): Promise<Answer> {
  const given = checkBody(UpdateEndpoint, call.body);
  const write = await planUpdate(call.ctx, { ...mine(call.owner), endpointId: call.params.id!, ...given });
  return once(call, async (tx) => render(200, endpointBody(await write(tx))));
}
export async function deleteWebhookEndpoint({ ctx, owner, params }: Call): Promise<Answer> {
  await ctx.db.begin((tx) => deleteEndpoint(ctx, tx, { ...mine(owner), endpointId: params.id! }));
  return render(200, { success: true, id: params.id!, deleted: true });
}
export async function rotateWebhookSecret(call: Call): Promise<Answer> {
  const given = checkBody(RotateSecret, call.body);
  const target = { ...mine(call.owner), endpointId: call.params.id!, overlapSeconds: given.expires_in };
  return once(call, async (tx) => render(200, endpointBody(await rotateSecret(call.ctx, tx, target))), { secret: true });
}
export async function testWebhookEndpoint(call: Call): Promise<Answer> {
  const { ctx, owner, params } = call;
  return once(call, async (tx) => {
    const number = await sendTestEvent(ctx, tx, { ...mine(owner), endpointId: params.id! });
    return render(201, deliveryBody(await getDelivery(ctx, { ...mine(owner), deliveryId: idOfNumber('del', ctx.installKey, number), tx })));
  });
}
export async function recoverWebhookEndpoint(call: Call): Promise<Answer> {
  const given = checkBody(Recover, call.body);
  const since = readInstant(given.since);
  return once(call, async (tx) =>
    render(201, recoveryBody(await startRecovery(call.ctx, tx, { ...mine(call.owner), endpointId: call.params.id!, since }))),
  );
}
/** ISO 8601 with a zone, like all timestamps here. */
function readInstant(text: string): Date {
  const instant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/.test(text) ? new Date(text) : null;
  if (!instant || Number.isNaN(instant.getTime()))
    throw new Problem('parameter_invalid', { reason: 'it must be a time such as 2026-11-21T10:00:00Z' }, { param: 'since' });
  return instant;
}
export async function readWebhookRecovery({ ctx, owner, params }: Call): Promise<Answer> {
  return render(200, recoveryBody(await getRecovery(ctx, { ...mine(owner), recoveryId: params.id! })));
}

export async function readWebhookDeliveries({ ctx, owner, query }: Call): Promise<Answer> {
  const given = readQuery(query, 'state');
  const state = DELIVERY_STATES.find((known) => known === given) ?? null;
  if (given !== null && state === null)
    throw new Problem('parameter_invalid', { reason: `it must be one of ${DELIVERY_STATES.join(', ')}` }, { param: 'state' });
  const page = await listDeliveries(ctx, {
    ...mine(owner),
    limit: readLimit(query),
    startingAfter: readQuery(query, 'starting_after'),
    endpointId: readQuery(query, 'endpoint_id'),
    eventId: readQuery(query, 'event_id'),
    state,
  });
  return render(200, { success: true, data: page.items.map(itemBody), has_more: page.hasMore });
}
export async function readWebhookDelivery({ ctx, owner, params }: Call): Promise<Answer> {
  return render(200, deliveryBody(await getDelivery(ctx, { ...mine(owner), deliveryId: params.id! })));
}
export async function resendWebhookDelivery(call: Call): Promise<Answer> {
  const { ctx, owner, params } = call;
  return once(call, async (tx) => render(200, deliveryBody(await resendDelivery(ctx, tx, { ...mine(owner), deliveryId: params.id! }))));
}
