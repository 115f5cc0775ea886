/** The keys of connected shops: one for each shop, for one store, with exactly the permissions that its plugin expects. */
import { hash as digestOf } from 'node:crypto';
import { type Context, perContext } from '#context';
import type { Mode } from '#core/coin';
import { base62, newId } from '#core/id';
import type { Plan } from '#core/plan';
import { Problem } from '#core/problem';
import { type Action, type MemberRole, mayDo, mayDoAll } from '#core/roles';
import { cutText, parseWebUrl, toPrintableLine } from '#core/text';
import type { Sql, Tx } from '#db';
import { keyChecksum, ROLL_ENDS, type RollEnds } from '#keys';
import { getMerchant } from '#merchants';
import { notifyMembers } from '#notices';
import { holdRole } from '#people';
import { disableEndpointsOfShop } from '#webhooks';

/** Which protocol a key belongs to. */
export type ShopDialect = 'greenfield' | 'commerce';
export type ShopKey = {
  id: string;
  /** The first key of the shop. What a shop has stays its own when its key is replaced. */
  lineId: string;
  merchantId: string;
  mode: Mode;
  plan: Plan;
  name: string;
  permissions: readonly string[];
  /** The site of the shop, if it is known: it may show payment pages in a frame. */
  origin: string | null;
};
export type ListedShop = Pick<ShopKey, 'id' | 'mode' | 'name' | 'permissions' | 'origin'> & {
  platform: Platform | 'other';
  dialect: ShopDialect;
  hint: string;
  createdBy: string | null;
  /** The user who connected it; null: the operator, or nobody knows. */
  madeBy: string | null;
  createdAt: Date;
  lastUsedAt: Date | null;
};

const SHAPE = /^shop_(live|test)_([0-9A-Za-z]{32})([0-9A-Za-z]{6})$/;
const hashOf = (key: string): string => digestOf('sha256', key, 'hex');
/** The most connected shops of a merchant in a mode. */
const MOST_SHOPS = 50;

/** A store is a merchant in one mode. */
export const storeIdOf = ({ merchantId, mode }: { merchantId: string; mode: Mode }): string => merchantId.replace(/^mer/, mode);

/** A disconnected shop is refused within this time. */
const CACHE_MS = 1_000;
const cacheOf = perContext(() => new Map<string, { at: number; key: Promise<ShopKey | null> }>());

/** The shop that a key belongs to; null when the key is malformed, unknown, disconnected, or of another protocol. At most a second old. */
export function findShopKey(ctx: Context, { text, dialect }: { text: string; dialect: ShopDialect }): Promise<ShopKey | null> {
  const shape = text.length > 64 ? null : SHAPE.exec(text);
  if (!shape || keyChecksum(`shop_${shape[1]}_${shape[2]}`) !== shape[3]) return Promise.resolve(null);
  const hash = hashOf(text);
  const cache = cacheOf(ctx);
  const name = `${dialect} ${hash}`;
  const at = ctx.clock.monotonicMs();
  const hit = cache.get(name);
  if (hit && at - hit.at < CACHE_MS) return hit.key;
  if (cache.size > 10_000) cache.clear();
  const key = readShopKey(ctx, Buffer.from(hash, 'hex'), dialect);
  cache.set(name, { at, key });
  key.catch(() => cache.delete(name));
  return key;
}

async function readShopKey({ db: { sql } }: Context, hash: Buffer, dialect: ShopDialect): Promise<ShopKey | null> {
  const [row] = await sql<ShopKey[]>`
    with found as (
      select id from shop_keys where hash = ${hash} or (previous_hash = ${hash} and previous_until > clock_timestamp())
    ), used as (
      update shop_keys set last_used_at = clock_timestamp()
      where id = (select id from found) and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute')
    )
    select k.id, coalesce(k.first_id, k.id) as "lineId", k.merchant_id as "merchantId", k.mode, m.plan, k.name, k.permissions, k.origin
    from shop_keys k join merchants m on m.id = k.merchant_id
    where k.id = (select id from found) and k.dialect = ${dialect} and k.revoked_at is null`;
  return row ?? null;
}

type Owner = { merchantId: string; mode: Mode };
type RolledShop = Pick<ListedShop, 'name' | 'dialect' | 'platform' | 'permissions'> & { apiKey: string; storeId: string };
export type NewShop = {
  merchantId: string;
  mode: Mode;
  platform: Platform | 'other';
  name: string;
  /** What the plugin expects. */
  permissions: readonly Permission[];
  origin?: string | null;
  /** Where its plugin receives the key, without the query. */
  site?: string | null;
  /** The key that this one replaces. */
  replaces?: string | null;
  dialect?: ShopDialect;
  /** The name of the member, and their ID; null for the operator. */
  createdBy?: string | null;
  actorId?: string | null;
};

/** What the member may give the shop of what its plugin expects; the operator gives all of it. Errors: key_out_of_reach, member_not_found. */
async function grant(
  tx: Tx,
  { merchantId, actorId, permissions }: Pick<NewShop, 'merchantId' | 'actorId' | 'permissions'>,
): Promise<readonly Permission[]> {
  if (!actorId) return permissions;
  const role = await holdRole(tx, { merchantId, userId: actorId });
  const granted = grantableTo(role, permissions);
  if (!mayDo(role, 'keys.manage') || granted.length < Math.min(1, permissions.length))
    throw new Problem('key_out_of_reach', { role, permissions: permissions.join(', ') || 'payments' });
  return granted;
}

/** The text of a new key, and what is stored of it. */
function newKey(ctx: Context, mode: Mode): { apiKey: string; hash: Buffer; hint: string } {
  const body = `shop_${mode}_${base62(32, ctx.random)}`;
  const apiKey = body + keyChecksum(body);
  return { apiKey, hash: Buffer.from(hashOf(apiKey), 'hex'), hint: `${apiKey.slice(0, 10)}…${apiKey.slice(-4)}` };
}

type Connected = { shopId: string; lineId: string; apiKey: string; storeId: string; permissions: readonly Permission[] };
/**
 * Connects a shop, whose key can do at most what the member may do. The key is shown once. Owners are notified of a live one. Errors:
 * merchant_not_found, key_limit_reached, key_out_of_reach, key_not_found (the one that it replaces).
 */
export async function connectShop(ctx: Context, tx: Tx, shop: NewShop): Promise<Connected> {
  const { merchantId, mode, platform, origin = null, site = null, dialect = 'greenfield', createdBy = null, actorId = null } = shop;
  const name = cutText(toPrintableLine(shop.name), 100) || 'Shop';
  await getMerchant(ctx, { merchantId });
  // Of two concurrent calls, only one may take the last place.
  await tx`select pg_advisory_xact_lock(hashtextextended(${`shops ${merchantId} ${mode}`}, 0))`;
  const [{ count } = { count: 0n }] = await tx<{ count: bigint }[]>`
    select count(*) from shop_keys where merchant_id = ${merchantId} and mode = ${mode} and revoked_at is null`;
  if (count >= MOST_SHOPS) throw new Problem('key_limit_reached', { limit: MOST_SHOPS, mode });
  const permissions = await grant(tx, shop);
  const firstId = await firstKeyOf(tx, { ...shop, name });
  const { apiKey, hash, hint } = newKey(ctx, mode);
  const shopId = newId('shp', ctx.random);
  await tx`
    insert into shop_keys (id, merchant_id, mode, dialect, platform, name, hash, hint, permissions, origin, site, first_id, created_by, made_by)
    values (${shopId}, ${merchantId}, ${mode}, ${dialect}, ${platform}, ${name}, ${hash}, ${hint},
      ${permissions as string[]}, ${origin}, ${site}, ${firstId}, ${createdBy}, ${actorId})`;
  if (mode === 'live') {
    const detail = { name, by: createdBy ?? 'The operator' };
    await notifyMembers(ctx, tx, [{ merchantId, mode, kind: 'key_created', detail, actorId }]);
  }
  return { shopId, lineId: firstId ?? shopId, apiKey, storeId: storeIdOf({ merchantId, mode }), permissions };
}

/**
 * The first key of the shop that a new key is for: of the key that it replaces; of the same site, for a key that a plugin fetches; of a
 * disconnected shop of the same name, for one that is entered by hand. Null for a shop that was never connected. Two shops that are
 * connected are never taken for one, whatever they are called. Errors: key_not_found.
 */
async function firstKeyOf(tx: Tx, shop: NewShop): Promise<string | null> {
  const { merchantId, mode, platform, name, replaces = null, origin = null, site = null, dialect = 'greenfield' } = shop;
  const which =
    replaces !== null
      ? tx`id = ${replaces}`
      : origin !== null
        ? tx`platform = ${platform} and origin = ${origin} and (site = ${site} or site is null)`
        : tx`platform = ${platform} and name = ${name} and origin is null and not exists (
            select from shop_keys o where coalesce(o.first_id, o.id) = coalesce(k.first_id, k.id) and o.revoked_at is null)`;
  const [known] = await tx<{ firstId: string }[]>`
    select coalesce(first_id, id) as "firstId" from shop_keys k
    where merchant_id = ${merchantId} and mode = ${mode} and dialect = ${dialect} and ${which} order by created_at desc, id limit 1`;
  if (replaces !== null && !known) throw new Problem('key_not_found', { id: replaces }, { param: 'replaces' });
  return known?.firstId ?? null;
}

/**
 * Replaces the key of a shop. The shop stays the same: its webhooks keep their URLs and secrets, so no event is lost. The old key ends now
 * or after the given time. The member learns the new key, so they must be allowed to give it its permissions. Errors: key_not_found,
 * key_out_of_reach, member_not_found.
 */
export async function rollShopKey(
  ctx: Context,
  tx: Tx,
  {
    merchantId,
    mode,
    shopId,
    ends,
    createdBy,
    actorId,
  }: Owner & { shopId: string; ends: RollEnds; createdBy: string; actorId: string | null },
): Promise<RolledShop> {
  const [shop] = await tx<RolledShop[]>`
    select name, dialect, platform, permissions from shop_keys
    where id = ${shopId} and merchant_id = ${merchantId} and mode = ${mode} and revoked_at is null for update`;
  if (!shop) throw new Problem('key_not_found', { id: shopId }, { param: 'shop' });
  const permissions = shop.permissions as readonly Permission[];
  const granted = await grant(tx, { merchantId, actorId, permissions });
  if (granted.length < permissions.length) throw new Problem('key_out_of_reach', { role: 'member', permissions: permissions.join(', ') });
  const { apiKey, hash, hint } = newKey(ctx, mode);
  await tx`
    update shop_keys set hash = ${hash}, hint = ${hint}, made_by = ${actorId},
      previous_hash = ${ends === 'now' ? null : tx`hash`},
      previous_until = ${ends === 'now' ? null : tx`clock_timestamp() + make_interval(secs => ${ROLL_ENDS[ends]})`}
    where id = ${shopId}`;
  if (mode === 'live')
    await notifyMembers(ctx, tx, [{ merchantId, mode, kind: 'key_created', detail: { name: shop.name, by: createdBy }, actorId }]);
  return { ...shop, apiKey, storeId: storeIdOf({ merchantId, mode }) };
}

/** The connected shops of a merchant in a mode, newest first. */
const listedColumns = (sql: Sql) => sql`
  id, mode, dialect, platform, name, hint, permissions, origin, created_by as "createdBy", made_by as "madeBy", created_at as "createdAt",
  last_used_at as "lastUsedAt"`;
export const listShops = ({ db: { sql } }: Context, { merchantId, mode }: { merchantId: string; mode: Mode }): Promise<ListedShop[]> =>
  sql<ListedShop[]>`
    select ${listedColumns(sql)} from shop_keys where merchant_id = ${merchantId} and mode = ${mode} and revoked_at is null
    order by created_at desc, id limit ${MOST_SHOPS}`;

/** One connected shop. Errors: key_not_found. */
export async function getShop(
  { db: { sql } }: Context,
  { merchantId, mode, shopId }: Owner & { shopId: string },
): Promise<ListedShop & { lineId: string }> {
  const [row] = await sql<(ListedShop & { lineId: string })[]>`
    select ${listedColumns(sql)}, coalesce(first_id, id) as "lineId"
    from shop_keys where id = ${shopId} and merchant_id = ${merchantId} and mode = ${mode} and revoked_at is null`;
  if (!row) throw new Problem('key_not_found', { id: shopId }, { param: 'shop' });
  return row;
}

/** Keeps a shop connected until the transaction ends. Errors: invalid_api_key, also for a key that was revoked a moment ago. */
export async function holdShop(tx: Tx, { merchantId, mode, id }: Pick<ShopKey, 'merchantId' | 'mode' | 'id'>): Promise<void> {
  const [held] = await tx`
    select 1 from shop_keys where id = ${id} and merchant_id = ${merchantId} and mode = ${mode} and revoked_at is null for share`;
  if (!held) throw new Problem('invalid_api_key');
}

/**
 * Disconnects the key of a shop: it stops within a second. With its last key, its webhooks receive nothing more. Payments that it requested
 * stay.
 * Errors: key_not_found.
 */
export async function disconnectShop(
  tx: Tx,
  { merchantId, mode, shopId }: { merchantId: string; mode: Mode; shopId: string },
): Promise<{ name: string }> {
  const [row] = await tx<{ name: string; lineId: string }[]>`
    update shop_keys set revoked_at = clock_timestamp()
    where id = ${shopId} and merchant_id = ${merchantId} and mode = ${mode} and revoked_at is null
    returning name, coalesce(first_id, id) as "lineId"`;
  if (!row) throw new Problem('key_not_found', { id: shopId }, { param: 'shop' });
  const { name, lineId } = row;
  // Of two keys that are disconnected at once, one is the last.
  await tx`select from shop_keys where id = ${lineId} for update`;
  const left = await tx`select 1 from shop_keys where coalesce(first_id, id) = ${lineId} and revoked_at is null limit 1`;
  if (left.length === 0) await disableEndpointsOfShop(tx, { merchantId, mode, lineId });
  return { name };
}

// What the key of a shop may do, in the names of the protocol, and what each plugin expects. Plugins refuse a key that has more or less.

export const PERMISSIONS = {
  viewInvoices: 'btcpay.store.canviewinvoices',
  createInvoice: 'btcpay.store.cancreateinvoice',
  modifyInvoices: 'btcpay.store.canmodifyinvoices',
  viewStore: 'btcpay.store.canviewstoresettings',
  /** PrestaShop asks for it. It allows nothing. */
  modifyStore: 'btcpay.store.canmodifystoresettings',
  webhooks: 'btcpay.store.webhooks.canmodifywebhooks',
  refunds: 'btcpay.store.cancreatenonapprovedpullpayments',
} as const;
export type Permission = (typeof PERMISSIONS)[keyof typeof PERMISSIONS];
const ALL: readonly string[] = Object.values(PERMISSIONS);
const isPermission = (text: string): text is Permission => ALL.includes(text);

const { viewInvoices, createInvoice, modifyInvoices, viewStore, modifyStore, webhooks, refunds } = PERMISSIONS;

/** What the role of the member who connects a shop must include. */
const TAKES: Readonly<Record<Permission, readonly Action[]>> = {
  [viewInvoices]: ['payments.read'],
  [createInvoice]: ['payments.create'],
  // Accepts late money too.
  [modifyInvoices]: ['payments.cancel', 'payments.resolve'],
  [viewStore]: ['settings.read'],
  [modifyStore]: [],
  [webhooks]: ['webhooks.manage', 'webhooks.secrets'],
  [refunds]: ['refunds.request'],
};
/** Those that a member with the role may give a shop. */
export const grantableTo = (role: MemberRole, permissions: readonly Permission[]): Permission[] =>
  permissions.filter((permission) => mayDoAll(role, ['keys.manage', ...TAKES[permission]]));

/** In the order in which each plugin lists them. */
export const PLATFORM_PERMISSIONS = {
  woocommerce: [viewInvoices, createInvoice, viewStore, modifyInvoices, refunds, webhooks],
  prestashop: [modifyStore, webhooks, viewStore, createInvoice, viewInvoices, modifyInvoices],
  magento: [viewInvoices, createInvoice, webhooks, viewStore, modifyInvoices],
  opencart: [viewInvoices, createInvoice, viewStore, modifyInvoices, webhooks],
  whmcs: [createInvoice, viewInvoices, webhooks],
} as const satisfies Record<string, readonly Permission[]>;
export type Platform = keyof typeof PLATFORM_PERMISSIONS;
export const PLATFORMS = Object.keys(PLATFORM_PERMISSIONS) as Platform[];

// What a shop asks for when it opens the pairing page, read from the query that its plugin made.

type PairingRequest = {
  /** What the plugin calls the shop. */
  name: string;
  permissions: readonly Permission[];
  /** Permissions that Florin does not have. A key without them would be refused by the plugin, and one with them would lie. */
  unknown: readonly string[];
  /** Where the browser sends the key; null: it is shown, and entered by hand. */
  redirect: string | null;
  /** The origin of the redirect, and its address without the query. */
  origin: string | null;
  site: string | null;
};

/** The query of the plugin as one parameter, which survives sign-in. */
export const packQuery = (query: string): string => Buffer.from(query).toString('base64url');

const MOST = 4_000;
const PACKED = /^[A-Za-z0-9_-]{1,6000}$/;

export function readPairing(packed: string): PairingRequest {
  const query = new URLSearchParams(PACKED.test(packed) ? Buffer.from(packed, 'base64url').toString().slice(0, MOST) : '');
  // A plugin may name the store of an earlier key: the key is for the store that is chosen here.
  const asked = [...new Set(query.getAll('permissions').map((text) => text.split(':')[0]!))].slice(0, 50);
  const given = query.get('applicationName') ?? query.get('applicationIdentifier') ?? '';
  const name = cutText(toPrintableLine(given), 100);
  const redirect = readRedirect(query.get('redirect') ?? '');
  return {
    name: name === '' ? 'Shop' : name,
    permissions: asked.filter(isPermission),
    unknown: asked.filter((text) => !isPermission(text)).map((text) => cutText(text, 80)),
    redirect,
    ...siteOf(redirect),
  };
}

function siteOf(redirect: string | null): Pick<PairingRequest, 'origin' | 'site'> {
  if (redirect === null) return { origin: null, site: null };
  const { origin, pathname } = new URL(redirect);
  return { origin, site: cutText(origin + pathname, 1_000) };
}

function readRedirect(text: string): string | null {
  const found = parseWebUrl(text);
  // The origin is written into the security policy of the page.
  return found && /^https?:\/\/[\w.:[\]-]+$/.test(found.url.origin) ? text : null;
}

/** The platform whose plugin asks for exactly this. */
export const platformOf = (permissions: readonly Permission[]): Platform | 'other' =>
  PLATFORMS.find((platform) => {
    const known: readonly Permission[] = PLATFORM_PERMISSIONS[platform];
    return known.length === permissions.length && known.every((permission) => permissions.includes(permission));
  }) ?? 'other';
