/** Webhook endpoints: creating, updating, testing and rolling secrets. Secrets are encrypted at rest. */
import { OutgoingError, type ReachResult } from '#connections';
import { type Context, canOpen } from '#context';
import type { Mode } from '#core/coin';
import { type EndpointEvent, isPayoutEvent, PAYMENT_EVENTS, PAYOUT_EVENTS } from '#core/event';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { hostOfUrl } from '#core/text';
import type { Sql, Tx } from '#db';
import { readMerchant } from '#merchants';
import { notifyMembers } from '#notices';
import type { Dialect } from './events.ts';

/** The purpose that a signing secret is sealed for. */
export const SECRET_PURPOSE = 'endpoint secret';
/** The most endpoints per merchant and mode. Every event creates a delivery for each of them. */
export const MOST_ENDPOINTS = 16;
/** The most webhooks of one shop. They receive nothing of other shops, so they do not count as endpoints of the merchant. */
const MOST_OF_SHOP = 4;
export const LONGEST_OVERLAP_SECONDS = 7 * 86_400;
const OVERLAP_SECONDS = 86_400;

export const DISABLED_REASONS = ['merchant', 'failures', 'gone'] as const;
export type Endpoint = {
  id: string;
  dialect: Dialect;
  mode: Mode;
  url: string;
  events: EndpointEvent[];
  description: string | null;
  enabled: boolean;
  disabledReason: (typeof DISABLED_REASONS)[number] | null;
  /** No delivery has succeeded since then. */
  failingSince: Date | null;
  /** Of the last attempt, while it fails. */
  failureReason: string | null;
  failureAddress: string | null;
  previousSecretUntil: Date | null;
  createdAt: Date;
};
type WithSecret = Endpoint & { secret: string };
/** What saving an endpoint also finds. */
type SaveFindings = {
  /** Other endpoints of the merchant with the same URL in this mode: their receiver gets each event once for each of them. */
  sameUrl: string[];
};
type Owner = { merchantId: string; mode: Mode };
/** Who changed an endpoint, for the notification; `userId` of a member. */
export type EndpointActor = { name: string; userId: string | null };
const BY_API: EndpointActor = { name: 'An API request', userId: null };
export const BY_OPERATOR: EndpointActor = { name: 'The operator', userId: null };
/** A validated change that is ready to be written. */
type Write<T> = (tx: Tx) => Promise<T>;

const shown = (sql: Sql | Tx) => sql`
  id, dialect, mode, url, events, description, state = 'enabled' as enabled, disabled_reason as "disabledReason", failing_since as "failingSince",
  failure_reason as "failureReason", failure_address as "failureAddress",
  case when previous_until > clock_timestamp() then previous_until end as "previousSecretUntil", created_at as "createdAt"`;

/** Rejects merchants whose plan has no webhooks. Errors: merchant_not_found, plan_required. */
export async function requireWebhooks(ctx: Context, sql: Sql | Tx, { merchantId }: { merchantId: string }): Promise<void> {
  const merchant = await readMerchant(sql, { merchantId });
  if (!ctx.settings.plans[merchant.plan].webhooks) throw new Problem('plan_required');
}

function checkEvents(events: readonly string[], dialect: Dialect): string[] {
  // Plugins list types that are never sent here.
  if (dialect !== 'florin') return [...new Set(events)];
  const known: readonly string[] = [...PAYMENT_EVENTS, '*'];
  const wrong = events.findIndex((type) => !known.includes(type));
  if (wrong >= 0 || events.length === 0) {
    throw new Problem(
      'parameter_invalid',
      { reason: `it must be one of ${known.join(', ')}` },
      { param: wrong >= 0 ? `events[${wrong}]` : 'events' },
    );
  }
  return [...new Set(events)];
}
async function checkUrl(ctx: Context, merchantId: string, url: string): Promise<void> {
  try {
    await ctx.outgoing.vetMerchantUrl({ merchantId, url });
  } catch (error) {
    if (error instanceof OutgoingError)
      throw new Problem('url_invalid', { schemes: 'https', reason: error.message }, { param: 'url', cause: error });
    throw error;
  }
}
function checkDescription(description: string | null): void {
  if (description !== null && (description.length > 500 || description.includes('\u0000') || !description.isWellFormed()))
    throw new Problem('parameter_invalid', { reason: 'it must have at most 500 characters' }, { param: 'description' });
}
/** The other endpoints that send to the same URL. What follows a # never reaches a server. */
async function findSameUrl(tx: Tx, { merchantId, mode, endpointId, url }: Owner & { endpointId: string; url: string }): Promise<string[]> {
  const asSent = (text: string): string => {
    const parsed = new URL(text);
    parsed.hash = '';
    return parsed.href;
  };
  const rows = await tx<{ id: string; url: string }[]>`
    select id, url from endpoints where merchant_id = ${merchantId} and mode = ${mode} and state <> 'deleted' and dialect = 'florin' and id <> ${endpointId}
    order by created_at, id`;
  return rows.filter((row) => asSent(row.url) === asSent(url)).map(({ id }) => id);
}
/**
 * Connects to a URL that is being saved, so that a mistake in its certificate or its firewall shows at once. Null: nothing is sent
 * there for now.
 */
export const tryEndpoint = async (
  ctx: Context,
  { merchantId, url, enabled = true }: { merchantId: string; url: string | undefined; enabled?: boolean | undefined },
): Promise<ReachResult | null> => (url === undefined || !enabled ? null : ctx.outgoing.reachMerchantUrl({ merchantId, url }));
const newSecret = (ctx: Context): string => `whsec_${Buffer.from(ctx.random(32)).toString('base64')}`;
const sealed = (ctx: Context, secret: string): Buffer => Buffer.from(ctx.seal(SECRET_PURPOSE, Buffer.from(secret)));

/** The key that creates an endpoint, and the first key of its shop. */
type ByShop = { lineId: string; keyId: string };

/**
 * Checks a new endpoint, its URL by asking the name service, and returns what writes it, for a shop if its key creates it. A shop that
 * creates a webhook again with a new key gets the one with this URL, which keeps its deliveries: two would send everything twice.
 * Errors: merchant_not_found, plan_required, url_invalid, parameter_invalid (events, description); when written: endpoint_limit_reached.
 */
export async function planEndpoint(
  ctx: Context,
  {
    merchantId,
    mode,
    url,
    events,
    description,
    enabled = true,
    by = BY_API,
    madeBy = by.userId,
    dialect = 'florin',
    secret: given = null,
  }: Owner & {
    url: string;
    events: readonly string[];
    description: string | null;
    enabled?: boolean;
    by?: EndpointActor;
    /** The user who made it, or made the key that makes it. */
    madeBy?: string | null;
    dialect?: Dialect;
    /** The signing secret, if the caller brings one. */
    secret?: string | null;
  },
): Promise<(tx: Tx, shop?: ByShop) => Promise<WithSecret & SaveFindings>> {
  await requireWebhooks(ctx, ctx.db.sql, { merchantId });
  const types = checkEvents(events, dialect);
  checkDescription(description);
  await checkUrl(ctx, merchantId, url);
  return async (tx, shop) => {
    // Of two concurrent creates, only one may take the last place.
    await tx`select pg_advisory_xact_lock(hashtextextended(${`endpoints ${merchantId} ${mode}`}, 0))`;
    const secret = given ?? newSecret(ctx);
    const mine = shop ? tx`shop_key_id in ${keysOfShop(tx, shop.lineId)}` : tx`shop_key_id is null`;
    const [kept] = shop
      ? await tx<{ id: string; keyId: string }[]>`
          select id, shop_key_id as "keyId" from endpoints where merchant_id = ${merchantId} and mode = ${mode} and state <> 'deleted' and dialect = ${dialect}
            and url = ${url} and ${mine} order by created_at desc, id limit 1 for update`
      : [];
    const limit = shop ? MOST_OF_SHOP : MOST_ENDPOINTS;
    const [{ count } = { count: 0n }] = await tx<{ count: bigint }[]>`
      select count(*) from endpoints where merchant_id = ${merchantId} and mode = ${mode} and state <> 'deleted' and ${mine}`;
    // With the same key, a plugin makes another one and then deletes the former by its ID.
    if (kept && (kept.keyId !== shop!.keyId || count >= limit)) {
      await tx`update endpoints set shop_key_id = ${shop!.keyId}, made_by = ${madeBy} where id = ${kept.id}`;
      const again = { merchantId, mode, endpointId: kept.id, url, events: types, description, enabled, dialect, by, secret };
      return { ...(await writeUpdate(ctx, tx, again)), secret };
    }
    if (count >= limit) throw new Problem('endpoint_limit_reached', { limit, mode });
    const [row] = await tx<Endpoint[]>`
      insert into endpoints (id, dialect, merchant_id, mode, url, events, description, state, disabled_reason, secret, shop_key_id, made_by)
      values (${newId('we', ctx.random)}, ${dialect}, ${merchantId}, ${mode}, ${url}, ${types}, ${description}, ${enabled ? 'enabled' : 'disabled'},
        ${enabled ? null : 'merchant'}, ${sealed(ctx, secret)}, ${shop?.keyId ?? null}, ${madeBy})
      returning ${shown(tx)}`;
    await tellChange(ctx, tx, { merchantId, mode, by, url, was: null });
    const sameUrl = dialect === 'florin' ? await findSameUrl(tx, { merchantId, mode, endpointId: row!.id, url }) : [];
    return { ...row!, secret, sameUrl };
  };
}
/**
 * The receiver of a merchant's events learns of all its payments, so owners are notified of a new URL. Only the host is shown: the
 * rest of a URL may be secret.
 */
async function tellChange(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, by, url, was }: Owner & { by: EndpointActor; url: string; was: string | null },
): Promise<void> {
  if (mode === 'test' || url === was) return;
  const detail = { by: by.name, host: hostOfUrl(url) ?? url, ...(was !== null && { was: hostOfUrl(was) ?? was }) };
  await notifyMembers(ctx, tx, [{ merchantId, mode, kind: 'endpoint_changed', detail, actorId: by.userId }]);
}

/** Creates an enabled endpoint with its signing secret. Errors: those of `planEndpoint`. */
export async function createEndpoint(
  ctx: Context,
  endpoint: Owner & { url: string; events: readonly string[]; description: string | null; by?: EndpointActor },
): Promise<{ endpointId: string; secret: string; sameUrl: string[] }> {
  const { id, secret, sameUrl } = await ctx.db.begin(await planEndpoint(ctx, endpoint));
  return { endpointId: id, secret, sameUrl };
}

/** The keys of a shop, which replaced one another. `lineId`: the first of them. */
export const keysOfShop = (sql: Sql | Tx, lineId: string) => sql`(select id from shop_keys where coalesce(first_id, id) = ${lineId})`;

/** Endpoints of one dialect, Florin's unless another one is named, or of all; only those of one shop, if it is named. */
type OfDialect = { dialect?: Dialect | 'any'; lineId?: string | undefined };
const ofDialect = (sql: Sql | Tx, { dialect = 'florin', lineId }: OfDialect) => sql`
  ${dialect === 'any' ? sql`` : sql`and dialect = ${dialect}`}
  ${lineId === undefined ? sql`` : sql`and shop_key_id in ${keysOfShop(sql, lineId)}`}`;

/** All endpoints of a merchant in a mode, newest first. */
export async function listEndpoints(ctx: Context, { merchantId, mode, ...of }: Owner & OfDialect): Promise<Endpoint[]> {
  const { sql } = ctx.db;
  return sql<Endpoint[]>`
    select ${shown(sql)} from endpoints
    where merchant_id = ${merchantId} and mode = ${mode} and state <> 'deleted' ${ofDialect(sql, of)}
    order by endpoints.created_at desc, id desc`;
}

/** One endpoint. Errors: endpoint_not_found. */
export async function getEndpoint(
  ctx: Context,
  { merchantId, mode, endpointId, tx, ...of }: Owner & OfDialect & { endpointId: string; tx?: Tx },
): Promise<Endpoint> {
  const sql = tx ?? ctx.db.sql;
  const [row] = await sql<Endpoint[]>`
    select ${shown(sql)} from endpoints
    where id = ${endpointId} and merchant_id = ${merchantId} and mode = ${mode} and state <> 'deleted' ${ofDialect(sql, of)}
    ${tx ? tx`for update` : sql``}`;
  if (!row) throw new Problem('endpoint_not_found', { id: endpointId });
  return row;
}

type Update = Owner &
  OfDialect & {
    endpointId: string;
    by?: EndpointActor;
    /** A new signing secret, which replaces the old one at once. */
    secret?: string | null;
    url?: string | undefined;
    events?: readonly string[] | undefined;
    description?: string | null | undefined;
    enabled?: boolean | undefined;
  };
/**
 * Validates an update and returns the function that writes it. Enabling resets the failures; missed events are sent by a recovery.
 * Errors: endpoint_not_found, plan_required, url_invalid, parameter_invalid (events, description).
 */
export async function planUpdate(ctx: Context, update: Update): Promise<Write<Endpoint & SaveFindings>> {
  const { merchantId, events, description, enabled, url } = update;
  const known = await getEndpoint(ctx, update);
  if (enabled !== false) await requireWebhooks(ctx, ctx.db.sql, { merchantId });
  const types = events && checkEvents(events, known.dialect);
  if (description !== undefined) checkDescription(description);
  if (url !== undefined) await checkUrl(ctx, merchantId, url);
  return (tx) => writeUpdate(ctx, tx, { ...update, events: types });
}

/** Writes what was validated. Enabling resets the failures. */
async function writeUpdate(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, endpointId, url, events, description, enabled, by = BY_API, secret = null, ...of }: Update,
): Promise<Endpoint & SaveFindings> {
  const was = await getEndpoint(ctx, { merchantId, mode, endpointId, tx, ...of });
  await tx`
    update endpoints set url = coalesce(${url ?? null}, url), events = coalesce(${(events as string[] | undefined) ?? null}::text[], events),
      description = ${description === undefined ? was.description : description}
      ${secret === null ? tx`` : tx`, secret = ${sealed(ctx, secret)}`}
      ${url === undefined || url === was.url ? tx`` : tx`, made_by = ${by.userId}, answered = false`}
    where id = ${endpointId}`;
  if (url !== undefined) await tellChange(ctx, tx, { merchantId, mode, by, url, was: was.url });
  if (enabled === true && !was.enabled) {
    await tx`
      update endpoints set state = 'enabled', disabled_reason = null, failing_since = null, failures = 0, rests_until = null,
        failure_told_at = null
      where id = ${endpointId}`;
    await closeNotices(tx, endpointId);
  }
  if (enabled === false && was.enabled) {
    await tx`update endpoints set state = 'disabled', disabled_reason = 'merchant' where id = ${endpointId}`;
    await tx`select pg_notify('deliveries', '')`;
  }
  const now = await getEndpoint(ctx, { merchantId, mode, endpointId, tx, ...of });
  return { ...now, sameUrl: url === undefined ? [] : await findSameUrl(tx, { merchantId, mode, endpointId, url }) };
}
const closeNotices = (tx: Tx, endpointId: string) => tx`
  update endpoint_notices set closed_at = clock_timestamp() where endpoint_id = ${endpointId} and closed_at is null`;

/** Whether an endpoint that gets a new URL sends payouts there: those that it chose, or those that it missed and that are sent again. */
export async function sendsPayouts(tx: Tx, { merchantId, mode, endpoint }: Owner & { endpoint: Endpoint }): Promise<boolean> {
  if (endpoint.events.some(isPayoutEvent)) return true;
  const [missed] = await tx`
    select 1 from events v join deliveries d on d.event_id = v.id
    where v.merchant_id = ${merchantId} and v.mode = ${mode} and v.type = any(${[...PAYOUT_EVENTS]}::text[])
      and v.type <> 'payment.created' and v.body is not null and d.endpoint_id = ${endpoint.id} and d.state <> 'delivered' limit 1`;
  return missed !== undefined;
}

/** Deletes an endpoint with its secrets and cancels its pending deliveries. Errors: endpoint_not_found. */
export async function deleteEndpoint(
  ctx: Context,
  tx: Tx,
  { endpointId, ...of }: Owner & OfDialect & { endpointId: string },
): Promise<void> {
  await getEndpoint(ctx, { endpointId, tx, ...of });
  await tx`
    update endpoints set state = 'deleted', secret = ''::bytea, previous_secret = null, previous_until = null where id = ${endpointId}`;
  await closeNotices(tx, endpointId);
  await tx`select pg_notify('deliveries', '')`;
}

/** Disables an endpoint. Nothing more is sent to it, not even what is due already. */
export async function disableEndpoint(tx: Tx, { merchantId, mode, endpointId }: Owner & { endpointId: string }): Promise<void> {
  await tx`
    update endpoints set state = 'disabled', disabled_reason = 'merchant'
    where id = ${endpointId} and merchant_id = ${merchantId} and mode = ${mode} and state = 'enabled'`;
  await tx`select pg_notify('deliveries', '')`;
}

/** Disables the endpoints of a shop that is disconnected. Nothing more is sent to them, not even what is due already. */
export async function disableEndpointsOfShop(tx: Tx, { merchantId, mode, lineId }: Owner & { lineId: string }): Promise<void> {
  const disabled = await tx<{ id: string }[]>`
    update endpoints set state = 'disabled', disabled_reason = 'merchant'
    where merchant_id = ${merchantId} and mode = ${mode} and state = 'enabled'
      and shop_key_id in ${keysOfShop(tx, lineId)} returning id`;
  if (disabled.length > 0) await tx`select pg_notify('deliveries', '')`;
}
/**
 * Rolls the signing secret of an endpoint. During the overlap (0 to 7 days, default 24 h), the old secret signs too; a secret from an
 * earlier rotation stops. Errors: endpoint_not_found, plan_required, parameter_invalid (expires_in).
 */
export async function rotateSecret(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, endpointId, overlapSeconds = OVERLAP_SECONDS }: Owner & { endpointId: string; overlapSeconds?: number | undefined },
): Promise<WithSecret> {
  await requireWebhooks(ctx, tx, { merchantId });
  if (!Number.isInteger(overlapSeconds) || overlapSeconds < 0 || overlapSeconds > LONGEST_OVERLAP_SECONDS) {
    throw new Problem(
      'parameter_invalid',
      { reason: `it must be a whole number from 0 to ${LONGEST_OVERLAP_SECONDS}` },
      { param: 'expires_in' },
    );
  }
  await getEndpoint(ctx, { merchantId, mode, endpointId, tx });
  const secret = newSecret(ctx);
  const [old] = await tx<{ secret: Uint8Array }[]>`select secret from endpoints where id = ${endpointId}`;
  // A secret that was sealed with another key signs nothing any more.
  const overlaps = overlapSeconds > 0 && canOpen(ctx, SECRET_PURPOSE, old!.secret);
  await tx`
    update endpoints set previous_secret = case when ${overlaps} then secret end, secret = ${sealed(ctx, secret)},
      previous_until = case when ${overlaps} then clock_timestamp() + make_interval(secs => ${overlapSeconds}) end
    where id = ${endpointId}`;
  return { ...(await getEndpoint(ctx, { merchantId, mode, endpointId, tx })), secret };
}

/** The signing secret of an endpoint. Callers check the permission. Errors: endpoint_not_found. */
export async function revealSecret(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, endpointId }: Owner & { endpointId: string },
): Promise<WithSecret> {
  const endpoint = await getEndpoint(ctx, { merchantId, mode, endpointId, tx });
  const [row] = await tx<{ secret: Uint8Array }[]>`select secret from endpoints where id = ${endpointId}`;
  return { ...endpoint, secret: Buffer.from(ctx.open(SECRET_PURPOSE, row!.secret)).toString() };
}

type EndpointNotice = { endpointId: string; merchantId: string; mode: Mode; url: string; reason: string; at: Date };
/** For the operator: endpoints that were disabled automatically and still are, newest first. */
export async function listEndpointNotices(ctx: Context, { limit }: { limit: number }): Promise<EndpointNotice[]> {
  return ctx.db.sql<EndpointNotice[]>`
    select n.endpoint_id as "endpointId", n.merchant_id as "merchantId", n.mode, e.url, n.reason, n.at
    from endpoint_notices n join endpoints e on e.id = n.endpoint_id where n.closed_at is null order by n.id desc limit ${limit}`;
}
