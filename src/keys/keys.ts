/** API keys: issued once, hashed at rest, found within microseconds. */
import { hash as digestOf } from 'node:crypto';
import { type Context, perContext } from '#context';
import type { Mode } from '#core/coin';
import { base62, newId } from '#core/id';
import { isNetwork, matchNetworks } from '#core/networks';
import type { Plan } from '#core/plan';
import { Problem } from '#core/problem';
import { inOrder, KEY_PERMISSION_NAMES, type KeyPermission } from '#core/roles';
import { asTexts } from '#core/stored-json';
import type { Sql, Tx } from '#db';
import { notifyMembers } from '#notices';

export type KeyKind = 'secret' | 'public';
export type KeyOwner = {
  keyId: string;
  name: string;
  merchantId: string;
  mode: Mode;
  kind: KeyKind;
  origins: readonly string[];
  plan: Plan;
  /** A secret key with read-only permissions. */
  readOnly: boolean;
  /** What a secret key may do; none for public keys, which only create payments. */
  permissions: readonly KeyPermission[];
  /** The user who created it. */
  madeBy: string | null;
  /** Whether the key may be used from an address. */
  allows(ip: string): boolean;
};
const fromAnywhere = () => true;

const SHAPE = /^(sk|pk)_(live|test)_([0-9A-Za-z]{32})([0-9A-Za-z]{6})$/;
const ALIAS = /^(live|test)_(sk|pk)_/;
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** A six-character checksum: mistyped keys are rejected without a database query. */
export function keyChecksum(text: string): string {
  const digest = digestOf('sha256', `florin key ${text}`, 'buffer');
  let out = '';
  for (let i = 0; i < 6; i++) out += ALPHABET[digest[i]! % 62];
  return out;
}

/** The canonical form of a key: `test_sk_…` and `sk_test_…` are the same key. */
const canonicalKey = (text: string): string => text.replace(ALIAS, '$2_$1_');
/** Hex text, which costs a third of what a buffer costs. */
const hashKey = (canonical: string): string => digestOf('sha256', canonical, 'hex');

/** Changes apply within this time: cached keys are not used for longer. */
const CACHE_MS = 1_000;
const cacheOf = perContext(() => new Map<string, { at: number; owner: Promise<KeyOwner | null> }>());

/**
 * The owner of an API key; null when it is malformed, unknown or revoked. Results may be up to one second old, so every process
 * rejects a revoked key within a second.
 */
export function findApiKey(ctx: Context, text: string): Promise<KeyOwner | null> {
  if (text.length > 64) return Promise.resolve(null);
  const canonical = canonicalKey(text);
  const shape = SHAPE.exec(canonical);
  if (!shape) return Promise.resolve(null);
  const hash = hashKey(canonical);
  const cache = cacheOf(ctx);
  const at = ctx.clock.monotonicMs();
  const hit = cache.get(hash);
  if (hit && at - hit.at < CACHE_MS) return hit.owner;
  if (keyChecksum(`${shape[1]}_${shape[2]}_${shape[3]}`) !== shape[4]) return Promise.resolve(null);
  if (cache.size > 10_000) cache.clear();
  const owner = readKey(ctx.db.sql, Buffer.from(hash, 'hex'));
  cache.set(hash, { at, owner });
  // Do not cache a failed read.
  owner.catch(() => cache.delete(hash));
  return owner;
}

/** Of the row `k`: neither revoked nor past its end. */
const IS_ACTIVE = (sql: Sql | Tx) => sql`k.revoked_at is null and (k.expires_at is null or k.expires_at > clock_timestamp())`;

/**
 * The origins of a merchant, which public keys without their own use. None means every site, so a list that cannot be read becomes one
 * that no site matches.
 */
export function sharedOrigins(stored: unknown): readonly string[] {
  const origins = asTexts(stored);
  const isEmpty = stored === null || stored === undefined || (Array.isArray(stored) && stored.length === 0);
  return origins.length > 0 || isEmpty ? origins : [''];
}

/** What a secret key may do. Those from before there were permissions may do everything; a name that is not known allows nothing. */
export const permissionsFrom = (stored: readonly string[] | null): readonly KeyPermission[] =>
  stored === null ? KEY_PERMISSION_NAMES : inOrder(stored);

async function readKey(sql: Sql, hash: Buffer): Promise<KeyOwner | null> {
  const [row] = await sql<
    (Pick<KeyOwner, 'merchantId' | 'mode' | 'kind' | 'name' | 'plan' | 'readOnly' | 'origins' | 'madeBy'> & {
      id: string;
      allowedIps: string[];
      permissions: string[] | null;
      shared: unknown;
    })[]
  >`
    select k.id, k.name, k.permissions, k.made_by as "madeBy", k.read_only as "readOnly", k.allowed_ips as "allowedIps", k.merchant_id as "merchantId", k.mode, k.kind, m.plan, k.origins,
      case when k.kind = 'public' and k.origins = '{}' then m.settings->'origins' end as shared
    from keys k join merchants m on m.id = k.merchant_id
    where k.hash = ${hash} and ${IS_ACTIVE(sql)}`;
  if (!row) return null;
  const { id, allowedIps, shared, permissions: stored, ...owner } = row;
  const origins = owner.origins.length > 0 ? owner.origins : sharedOrigins(shared);
  const permissions = owner.kind === 'secret' ? permissionsFrom(stored) : [];
  return { keyId: id, ...owner, origins, permissions, allows: allowedIps.length === 0 ? fromAnywhere : matchNetworks(allowedIps) };
}

/** `https://shop.example`: scheme, host and port, and nothing else. */
export const isOrigin = (text: string): boolean =>
  URL.canParse(text) && /^https?:\/\/[\w.:[\]-]+$/.test(text) && new URL(text).origin === text;

const MOST_ORIGINS = 20;
const MOST_IPS = 20;
/** Only secret keys can be restricted like this: public keys are used from wherever customers are. */
function checkLimits({ kind, readOnly, allowedIps }: { kind: KeyKind; readOnly: boolean; allowedIps: readonly string[] }): void {
  const refuse = (param: string, reason: string) => new Problem('parameter_invalid', { reason }, { param });
  if (kind === 'public' && readOnly) throw refuse('read_only', 'only secret keys can be read-only');
  if (kind === 'public' && allowedIps.length > 0) throw refuse('allowed_ips', 'only secret keys can be limited to addresses');
  if (allowedIps.length > MOST_IPS) throw refuse('allowed_ips', `it must have at most ${MOST_IPS} entries`);
  for (const text of allowedIps)
    if (!isNetwork(text))
      throw refuse('allowed_ips', `${text} is neither an address such as 192.0.2.10 nor a network such as 192.0.2.0/24`);
}
/**
 * Creates a key and returns its text, which is not stored. `createdBy` is the name of a member and `actorId` their ID; both are null
 * for the operator. Owners are notified of a new live secret key.
 */
export async function createApiKey(
  ctx: Context,
  {
    merchantId,
    mode,
    kind,
    origins = [],
    readOnly = false,
    allowedIps = [],
    permissions = KEY_PERMISSION_NAMES,
    name = kind === 'secret' ? 'Secret key' : 'Public key',
    createdBy = null,
    actorId = null,
    expiresInDays = null,
    tx: given,
  }: {
    merchantId: string;
    mode: Mode;
    kind: KeyKind;
    origins?: readonly string[];
    readOnly?: boolean;
    allowedIps?: readonly string[];
    /** Of a secret key; by default all. */
    permissions?: readonly KeyPermission[];
    name?: string;
    createdBy?: string | null;
    actorId?: string | null;
    expiresInDays?: number | null;
    tx?: Tx;
  },
): Promise<{ keyId: string; key: string }> {
  checkLimits({ kind, readOnly, allowedIps });
  if (kind === 'secret' && permissions.length === 0)
    throw new Problem('parameter_invalid', { reason: 'choose at least one permission' }, { param: 'permissions' });
  if (origins.length > MOST_ORIGINS) {
    throw new Problem('parameter_invalid', { reason: `it must have at most ${MOST_ORIGINS} entries` }, { param: 'origins' });
  }
  for (const origin of origins) {
    if (!isOrigin(origin)) {
      throw new Problem(
        'parameter_invalid',
        { reason: `${origin} is not an origin; write it like https://shop.example` },
        { param: 'origins' },
      );
    }
  }
  const body = `${kind === 'secret' ? 'sk' : 'pk'}_${mode}_${base62(32, ctx.random)}`;
  const key = body + keyChecksum(body);
  const keyId = newId('key', ctx.random);
  const write = async (tx: Tx) => {
    const inserted = await tx`
      insert into keys (id, merchant_id, mode, kind, hash, hint, origins, name, created_by, made_by, permissions, read_only, allowed_ips, expires_at)
      select ${keyId}, id, ${mode}, ${kind}, ${Buffer.from(hashKey(key), 'hex')}, ${key.slice(0, 8) + '…' + key.slice(-4)}, ${origins as string[]}, ${name}, ${createdBy}, ${actorId}, ${kind === 'secret' ? inOrder(permissions) : null}, ${readOnly}, ${allowedIps as string[]},
        clock_timestamp() + make_interval(days => ${expiresInDays}::int)
      from merchants where id = ${merchantId}`;
    if (inserted.count === 0) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
    if (mode === 'test' || kind === 'public') return;
    // The first keys of a merchant are created before it has members.
    const [member] = await tx`select 1 from members where merchant_id = ${merchantId} limit 1`;
    const detail = { name, by: createdBy ?? 'The operator' };
    if (member) await notifyMembers(ctx, tx, [{ merchantId, mode, kind: 'key_created', detail, actorId }]);
  };
  await (given ? write(given) : ctx.db.begin(write));
  return { keyId, key };
}

/** Revokes a key; every process rejects it within a second. Errors: key_not_found. */
export async function revokeApiKey(ctx: Context, { keyId }: { keyId: string }): Promise<void> {
  const updated = await ctx.db.sql`
    update keys set revoked_at = clock_timestamp() where id = ${keyId} and revoked_at is null`;
  if (updated.count === 0) throw new Problem('key_not_found', { id: keyId }, { param: 'key' });
}
