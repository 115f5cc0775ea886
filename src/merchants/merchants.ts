/** Merchants, their settings and plans. */
import { createHash } from 'node:crypto';
import { type Context, perContext } from '#context';
import { COIN, COINS, type Coin, type Family, isToken, LIGHTNING, type Mode, type Network } from '#core/coin';
import type { Fiat } from '#core/fiat';
import { base62, newId } from '#core/id';
import type { Plan } from '#core/plan';
import { Problem } from '#core/problem';
import { readName } from '#core/text';
import type { Sql, Tx } from '#db';
import { createApiKey } from '#keys';
import { type Actor, checkOperator, writeAudit } from '#people';
import { type MerchantSettings, settingsFromJson, settingsToJson } from './stored-settings.ts';

export type Merchant = {
  id: string;
  name: string;
  plan: Plan;
  settings: MerchantSettings;
  /** Coins with an active wallet, and the network each of these was imported for. */
  walletCoins: readonly Coin[];
  walletNetworks: Readonly<Partial<Record<Family, Network>>>;
  /** Coins whose wallet is paused. */
  pausedCoins: readonly Coin[];
  /** What takes Lightning payments for it, how much at a time, and whether that is a node of its own; null: nothing. */
  lightning: { isAway: boolean; ownsNode: boolean; leastMsat: bigint; mostMsat: bigint } | null;
  /** The logo of the payment page, by the hash it is served under. */
  logo: string | null;
};

/** How long a setup link works. */
export const SETUP_DAYS = 7;

const CACHE_MS = 1_000;
const cacheOf = perContext(() => new Map<string, { at: number; merchant: Promise<Merchant> }>());

/** A merchant, at most one second old. Errors: merchant_not_found. */
export function getMerchant(ctx: Context, { merchantId }: { merchantId: string }): Promise<Merchant> {
  const cache = cacheOf(ctx);
  const at = ctx.clock.monotonicMs();
  const hit = cache.get(merchantId);
  if (hit && at - hit.at < CACHE_MS) return hit.merchant;
  if (cache.size > 10_000) cache.clear();
  const merchant = readMerchant(ctx.db.sql, { merchantId });
  cache.set(merchantId, { at, merchant });
  merchant.catch(() => cache.delete(merchantId));
  return merchant;
}

/** A merchant as it is now, for all who ask next. Errors: merchant_not_found. */
export function getMerchantNow(ctx: Context, of: { merchantId: string }): Promise<Merchant> {
  cacheOf(ctx).delete(of.merchantId);
  return getMerchant(ctx, of);
}

/** A merchant, read in the given transaction, which must not take another connection from the pool. Errors: merchant_not_found. */
export async function readMerchant(sql: Sql | Tx, { merchantId }: { merchantId: string }): Promise<Merchant> {
  const [merchant] = await readMerchants(sql, { merchantIds: [merchantId] });
  if (!merchant) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
  return merchant;
}

/** The given merchants, without those that do not exist, in one statement. */
export async function readMerchants(sql: Sql | Tx, { merchantIds }: { merchantIds: readonly string[] }): Promise<Merchant[]> {
  const rows = await sql<
    {
      id: string;
      name: string;
      plan: Plan;
      settings: unknown;
      networks: Partial<Record<Family, Network>> | null;
      paused: Coin[] | null;
      lightning: { isAway: boolean; ownsNode: boolean; leastMsat: string; mostMsat: string } | null;
      logo: string | null;
    }[]
  >`
    select m.id, m.name, m.plan, m.settings, w.networks, w.paused,
      (select json_build_object('isAway', coalesce(b.away_until > clock_timestamp(), false), 'ownsNode', b.payee is not null,
        'leastMsat', b.least_msat::text, 'mostMsat', b.most_msat::text) from lightning_backends b where b.merchant_id = m.id and b.active) as lightning,
      (select l.hash from merchant_logos l where l.merchant_id = m.id) as logo
    from merchants m cross join lateral (
      select jsonb_object_agg(family, network) filter (where active) as networks,
        array_agg(family) filter (where not active and paused_at is not null) as paused
      from wallets where merchant_id = m.id
    ) w where m.id = any(${merchantIds as string[]}::text[])`;
  return rows.map(({ id, name, plan, settings, networks, paused, lightning, logo }) => ({
    ...{ id, name, plan, logo },
    settings: settingsFromJson(settings),
    walletCoins: COINS.filter((coin) => networks?.[COIN[coin].family] !== undefined),
    lightning: lightning && { ...lightning, leastMsat: BigInt(lightning.leastMsat), mostMsat: BigInt(lightning.mostMsat) },
    walletNetworks: networks ?? {},
    pausedCoins: COINS.filter((coin) => paused?.includes(COIN[coin].family)),
  }));
}

/** The display currencies of merchants, in the given transaction. */
export async function readDisplayCurrencies(
  sql: Sql | Tx,
  { merchantIds }: { merchantIds: readonly string[] },
): Promise<ReadonlyMap<string, Fiat>> {
  const rows = await sql<{ id: string; settings: unknown }[]>`
    select id, settings from merchants where id = any(${merchantIds as string[]}::text[])`;
  return new Map(rows.map(({ id, settings }) => [id, settingsFromJson(settings).displayCurrency]));
}

/**
 * Whether the merchant offers this coin. Native coins are offered unless they are turned off, tokens only if they are turned on, and
 * Lightning where it was set up.
 */
export const isOffered = (
  { coins, tokens, testTokens }: Pick<MerchantSettings, 'coins' | 'tokens' | 'testTokens'>,
  coin: Coin,
  mode: Mode = 'live',
): boolean =>
  coin === LIGHTNING || (isToken(coin) ? (mode === 'test' ? testTokens : tokens).includes(coin) : coins === null || coins.includes(coin));

const PREFERRED: readonly Coin[] = ['BTC', 'LTC', 'ETH', 'DASH', 'DOGE'];
/** The default coin: the setting, else the first with a wallet of BTC, LTC, ETH, DASH, DOGE and the others; in test mode BTC. */
export function defaultCoin(merchant: Merchant, mode: 'live' | 'test'): Coin {
  if (merchant.settings.defaultCoin) return merchant.settings.defaultCoin;
  if (mode === 'test') return 'BTC';
  return [...PREFERRED, ...COINS].find((c) => merchant.walletCoins.includes(c)) ?? 'BTC';
}

export type NewMerchant = {
  merchantId: string;
  keys: { liveSecret: string; livePublic: string; testSecret: string; testPublic: string };
  setupUrl: string;
};

/**
 * Creates a merchant with its four keys and a one-time setup link, in one transaction. The first merchant of an install is on
 * Enterprise, later ones on Starter unless a plan is given.
 */
export async function createMerchant(ctx: Context, { name, plan }: { name: string; plan?: Plan }): Promise<NewMerchant> {
  return (await makeMerchant(ctx, { name, plan, onlyFirst: false }))!;
}

/** Creates the first merchant of an install. Null when one exists, also when several processes start at the same time. */
export const createFirstMerchant = (
  ctx: Context,
  { name, setupToken }: { name: string; setupToken?: string | null },
): Promise<NewMerchant | null> => makeMerchant(ctx, { name, plan: undefined, onlyFirst: true, setupToken });

async function makeMerchant(
  ctx: Context,
  {
    name,
    plan,
    onlyFirst,
    setupToken: given,
  }: { name: string; plan: Plan | undefined; onlyFirst: boolean; setupToken?: string | null | undefined },
): Promise<NewMerchant | null> {
  const shown = readName(name, 'name');
  const merchantId = newId('mer', ctx.random);
  const setupToken = given ?? firstSetupToken(ctx, merchantId);
  const keys = await ctx.db.begin(async (tx) => {
    // Of two concurrent calls, only one may create the first merchant.
    await tx`select pg_advisory_xact_lock(hashtext('florin first merchant'))`;
    if (onlyFirst && (await tx`select 1 from merchants limit 1`).length > 0) return null;
    await tx`
      insert into merchants (id, name, plan, setup_token_hash, setup_expires_at)
      select ${merchantId}, ${shown},
        coalesce(${plan ?? null}, case when exists (select 1 from merchants) then 'starter' else 'enterprise' end),
        ${hashOf(setupToken)}, clock_timestamp() + make_interval(days => ${SETUP_DAYS})`;
    await tx`insert into test_clocks (merchant_id) values (${merchantId})`;
    const key = async (mode: 'live' | 'test', kind: 'secret' | 'public') => (await createApiKey(ctx, { merchantId, mode, kind, tx })).key;
    return {
      liveSecret: await key('live', 'secret'),
      livePublic: await key('live', 'public'),
      testSecret: await key('test', 'secret'),
      testPublic: await key('test', 'public'),
    };
  });
  return keys && { merchantId, keys, setupUrl: setupUrlOf(ctx, setupToken) };
}

const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();
const setupUrlOf = (ctx: Context, token: string): string => `${ctx.settings.publicUrl}/setup#token=${token}`;

/** The first setup link of a merchant ends with it. It follows from the install key, so that the link can be shown again. */
const firstSetupToken = ({ derive }: Context, merchantId: string): string =>
  Buffer.from(derive(`setup of ${merchantId}`)).toString('base64url');

/**
 * The setup link of the first merchant while an install has no account, valid for as long as a new one; null in place of the link if it was
 * replaced. Null once there is an account. `setupToken`: what the operator set, which replaces every other one.
 */
export async function keepSetupLink(
  ctx: Context,
  { setupToken }: { setupToken: string | null },
): Promise<{ merchantId: string; setupUrl: string | null } | null> {
  const [first] = await ctx.db.sql<{ id: string }[]>`
    select id from merchants where not exists (select 1 from users) order by created_at, id limit 1`;
  if (!first) return null;
  const token = setupToken ?? firstSetupToken(ctx, first.id);
  const kept = await ctx.db.sql`
    update merchants set setup_token_hash = ${hashOf(token)}, setup_expires_at = clock_timestamp() + make_interval(days => ${SETUP_DAYS})
    where id = ${first.id} and (${setupToken !== null} or setup_token_hash = ${hashOf(token)})`;
  return { merchantId: first.id, setupUrl: kept.count > 0 ? setupUrlOf(ctx, token) : null };
}

/** A new setup link for a merchant that nobody owns yet; an older one stops working. Errors: merchant_not_found, parameter_invalid (merchant). */
export async function createSetupLink(ctx: Context, { merchantId }: { merchantId: string }): Promise<string> {
  const token = base62(32, ctx.random);
  await ctx.db.begin(async (tx) => {
    const made = await tx`
      update merchants set setup_token_hash = ${hashOf(token)}, setup_expires_at = clock_timestamp() + make_interval(days => ${SETUP_DAYS})
      where id = ${merchantId}`;
    if (made.count === 0) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
    const [owner] = await tx`select 1 from members where merchant_id = ${merchantId} and role = 'owner' limit 1`;
    if (owner) throw new Problem('parameter_invalid', { reason: 'it has an owner, who invites others under Team' }, { param: 'merchant' });
  });
  return setupUrlOf(ctx, token);
}

/** Takes effect immediately. With an actor, an operator, it is written to the merchant's audit log. Errors: merchant_not_found, operator_only. */
export async function setPlan(ctx: Context, { merchantId, plan, actor }: { merchantId: string; plan: Plan; actor?: Actor }): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const [before] = await tx<{ plan: Plan }[]>`select plan from merchants where id = ${merchantId} for no key update`;
    if (!before) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
    await tx`update merchants set plan = ${plan} where id = ${merchantId}`;
    if (!actor) return;
    await checkOperator(tx, actor);
    await writeAudit(tx, { merchantId, mode: null, actor, action: 'plan.set', object: merchantId, before, after: { plan } });
  });
  cacheOf(ctx).delete(merchantId);
}

type ListedMerchant = { id: string; name: string; plan: Plan; createdAt: Date; used: bigint; members: bigint };
/**
 * For operators: all merchants, newest first, with their usage of the month. Sorting all of them is cheap, because people create them.
 * Errors: cursor_invalid.
 */
export async function listMerchants(
  ctx: Context,
  { limit, startingAfter }: { limit: number; startingAfter: string | null },
): Promise<{ merchants: ListedMerchant[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  if (startingAfter !== null && (await sql`select 1 from merchants where id = ${startingAfter}`).length === 0)
    throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  const rows = await sql<ListedMerchant[]>`
    select m.id, m.name, m.plan, m.created_at as "createdAt",
      coalesce((select payments from live_usage u where u.merchant_id = m.id
        and u.month = date_trunc('month', clock_timestamp() at time zone 'UTC')::date), 0) as used,
      (select count(*) from members where members.merchant_id = m.id) as members
    from merchants m
    where ${startingAfter === null ? sql`true` : sql`(m.created_at, m.id) < (select created_at, id from merchants where id = ${startingAfter})`}
    order by m.created_at desc, m.id desc limit ${limit + 1}`;
  return { merchants: rows.slice(0, limit), hasMore: rows.length > limit };
}

/**
 * Changes some settings, and the name when one is given. `also` runs in the same transaction and gets the settings as they were: nobody
 * else changes them in between. Errors: merchant_not_found, parameter_invalid (time_zone) for one that the database does not know.
 */
export async function changeSettings(
  ctx: Context,
  {
    merchantId,
    settings,
    name,
    also,
  }: { merchantId: string; settings: Partial<MerchantSettings>; name?: string; also?: (tx: Tx, before: MerchantSettings) => Promise<void> },
): Promise<void> {
  await ctx.db.begin(async (tx) => {
    await tx`select 1 from merchants where id = ${merchantId} for no key update`;
    const before = await readMerchant(tx, { merchantId });
    await tx`
      update merchants set settings = settings || ${tx.json(settingsToJson(settings) as never)}, name = coalesce(${name ?? null}, name) where id = ${merchantId}`;
    const { timeZone } = settings;
    if (timeZone !== undefined && timeZone !== before.settings.timeZone) await moveDays(tx, { merchantId, timeZone });
    await also?.(tx, before.settings);
  });
  cacheOf(ctx).delete(merchantId);
}

/** The totals of days for the time zone that was just set. Folding waits until this commits. */
async function moveDays(tx: Tx, { merchantId, timeZone }: { merchantId: string; timeZone: string }): Promise<void> {
  await tx`select clock_timestamp() at time zone ${timeZone}::text`.catch((error: { code?: string }) => {
    if (error.code !== '22023') throw error;
    throw new Problem('parameter_invalid', { reason: 'the database does not know this time zone' }, { param: 'time_zone' });
  });
  await remakeDays(tx, { merchantId });
}

/** Makes the totals of the days of a merchant, or of all, again from those of quarters of an hour. */
export async function remakeDays(tx: Tx, { merchantId }: { merchantId: string | null }): Promise<void> {
  const chosen = merchantId === null ? tx`true` : tx`merchant_id = ${merchantId}`;
  await tx`delete from payment_days where ${chosen}`;
  await tx`
    insert into payment_days (merchant_id, mode, day, measure, coin, payments, usd_cents, seconds)
    select merchant_id, mode, (quarter at time zone coalesce(m.settings->>'timeZone', 'UTC'))::date, measure, coin, sum(payments)::bigint,
      sum(usd_cents)::bigint, sum(seconds)::bigint
    from payment_quarters join merchants m on m.id = merchant_id where ${chosen} group by 1, 2, 3, 4, 5`;
}

/** The merchant of a setup link; null when the link is unknown, used or expired. */
export async function findSetup(ctx: Context, { token }: { token: string }): Promise<{ merchantId: string; name: string } | null> {
  const [row] = await ctx.db.sql<{ merchantId: string; name: string }[]>`
    select id as "merchantId", name from merchants
    where setup_token_hash = ${hashOf(token)} and setup_expires_at > clock_timestamp()`;
  return row ?? null;
}
