/** The webhooks of a shop, which no other shop of the store sees: endpoints of Florin's own engine that speak the protocol. */
import type { Context } from '../../context.ts';
import { base62 } from '../../core/id.ts';
import { asList, asObject, asText } from '../../core/stored-json.ts';
import type { Tx } from '../../db/db.ts';
import { writeAudit } from '../../people/members.ts';
import { EVERYTHING } from '../../webhooks/dialect.ts';
import { deleteEndpoint, type Endpoint, getEndpoint, listEndpoints, planEndpoint, planUpdate } from '../../webhooks/endpoints.ts';
import type { ShopCall } from '../serve-shop.ts';
import { queueMissed } from '../shop-invoices.ts';
import { holdShop, type ShopKey } from '../shop-keys.ts';
import { invalid } from './greenfield-error.ts';

const DIALECT = 'greenfield';
const MOST_TYPES = 64;
/** A shorter one can be guessed from one signed delivery. */
const SHORTEST_SECRET = 16;
const LONGEST_SECRET = 256;

const ownedBy = ({ merchantId, mode, lineId }: ShopKey) => ({ merchantId, mode, dialect: DIALECT, lineId }) as const;

/** Writes for a shop that is still connected: a webhook must not outlive the key that made it. */
const writeFor = <T>(ctx: Context, shop: ShopKey, write: (tx: Tx) => Promise<T>): Promise<T> =>
  ctx.db.begin(async (tx) => {
    await holdShop(tx, shop);
    return write(tx);
  }) as Promise<T>;

const webhookBody = ({ id, enabled, url, events }: Endpoint) => ({
  id,
  enabled,
  automaticRedelivery: true,
  url,
  authorizedEvents: {
    everything: (events as readonly string[]).includes(EVERYTHING),
    specificEvents: (events as readonly string[]).filter((type) => type !== EVERYTHING),
  },
});

function readWebhook(body: unknown): { url: string; events: string[]; enabled: boolean; secret: string | null } {
  const given = asObject(body);
  const url = asText(given.url);
  if (url === null || url === '') throw invalid({ path: 'Url', message: 'The URL is missing' });
  const { everything, specificEvents } = asObject(given.authorizedEvents);
  const types = asList(specificEvents);
  const isType = (type: unknown): type is string => typeof type === 'string' && /^[A-Za-z]{1,64}$/.test(type);
  if (types.length > MOST_TYPES || !types.every(isType))
    throw invalid({ path: 'AuthorizedEvents', message: `At most ${MOST_TYPES} names of events are accepted.` });
  const secret = asText(given.secret);
  if (secret !== null && secret.length > LONGEST_SECRET)
    throw invalid({ path: 'Secret', message: `The secret must have at most ${LONGEST_SECRET} characters.` });
  if (secret && secret.length < SHORTEST_SECRET)
    throw invalid({ path: 'Secret', message: `The secret must have at least ${SHORTEST_SECRET} characters. Leave it out to get one.` });
  // A webhook without a choice gets everything.
  const all = everything === true || (everything === undefined && types.length === 0);
  return {
    url,
    events: all ? [EVERYTHING] : types.filter(isType),
    enabled: given.enabled !== false,
    secret: secret === '' ? null : secret,
  };
}

export const listWebhooks = async (ctx: Context, shop: ShopKey) => (await listEndpoints(ctx, ownedBy(shop))).map(webhookBody);

export const getWebhook = async (ctx: Context, shop: ShopKey, endpointId: string) =>
  webhookBody(await getEndpoint(ctx, { ...ownedBy(shop), endpointId }));

const byShop = ({ name }: ShopKey) => ({ name, userId: null });
const audit = (tx: Tx, { shop: { merchantId, mode }, actor }: ShopCall, change: { action: string; object: string; after?: object }) =>
  writeAudit(tx, { merchantId, mode, actor, ...change });
const kept = ({ url, events, enabled }: Endpoint) => ({ url, events, enabled });

/** With its secret, which is the plugin's own if it brought one. */
export async function createWebhook(call: ShopCall) {
  const { ctx, shop } = call;
  const { secret, ...given } = readWebhook(call.body.value);
  const chosen = secret ?? base62(32, ctx.random);
  const write = await planEndpoint(ctx, { ...ownedBy(shop), ...given, description: shop.name, secret: chosen, by: byShop(shop) });
  const made = await writeFor(ctx, shop, async (tx) => {
    const endpoint = await write(tx, { lineId: shop.lineId, keyId: shop.id });
    if (endpoint.enabled) await queueMissed(tx, { lineId: shop.lineId, endpointId: endpoint.id });
    await audit(tx, call, { action: 'endpoint.create', object: endpoint.id, after: kept(endpoint) });
    return endpoint;
  });
  return { ...webhookBody(made), secret: made.secret };
}

export async function updateWebhook(call: ShopCall) {
  const { ctx, shop } = call;
  const given = readWebhook(call.body.value);
  const write = await planUpdate(ctx, { ...ownedBy(shop), endpointId: call.params.webhook!, ...given, by: byShop(shop) });
  const changed = await writeFor(ctx, shop, async (tx) => {
    const endpoint = await write(tx);
    if (endpoint.enabled) await queueMissed(tx, { lineId: shop.lineId, endpointId: endpoint.id });
    await audit(tx, call, { action: 'endpoint.update', object: endpoint.id, after: kept(endpoint) });
    return endpoint;
  });
  return webhookBody(changed);
}

export async function deleteWebhook(call: ShopCall): Promise<null> {
  const { ctx, shop } = call;
  const endpointId = call.params.webhook!;
  await ctx.db.begin(async (tx) => {
    await deleteEndpoint(ctx, tx, { ...ownedBy(shop), endpointId });
    await audit(tx, call, { action: 'endpoint.delete', object: endpointId });
  });
  return null;
}
