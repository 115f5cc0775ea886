/** API keys as members manage them: list, create, roll, revoke. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { Problem } from '#core/problem';
import { grantable, inOrder, KEY_PERMISSION_NAMES, type KeyPermission } from '#core/roles';
import type { Sql, Tx } from '#db';
import { holdRole } from '#people';
import { createApiKey, type KeyKind, permissionsFrom } from './keys.ts';

type Owner = { merchantId: string; mode: Mode };
export type Key = {
  id: string;
  kind: KeyKind;
  name: string;
  /** The first and the last characters. */
  hint: string;
  origins: readonly string[];
  readOnly: boolean;
  /** Null: a public key, or a secret key from before there were permissions, which can do everything. */
  permissions: readonly KeyPermission[] | null;
  allowedIps: readonly string[];
  createdBy: string | null;
  /** The user who created it; null: the operator, or nobody knows. */
  madeBy: string | null;
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  replacedBy: string | null;
  lastUsedAt: Date | null;
  lastUsedIp: string | null;
  lastUsedPath: string | null;
  isActive: boolean;
};

/** The most active keys per merchant and mode: more than teams need, few enough to review. */
const MOST_KEYS = 100;
/** How long a rolled key keeps working, in seconds. */
export const ROLL_ENDS = { now: 0, hour: 3_600, day: 86_400, week: 604_800 } as const;
export type RollEnds = keyof typeof ROLL_ENDS;

const IS_ACTIVE = (sql: Sql | Tx) => sql`(revoked_at is null and (expires_at is null or expires_at > clock_timestamp()))`;
const columns = (sql: Sql | Tx) => sql`
  id, kind, name, hint, origins, read_only as "readOnly", permissions, allowed_ips as "allowedIps", created_by as "createdBy", made_by as "madeBy", created_at as "createdAt", expires_at as "expiresAt", revoked_at as "revokedAt",
  replaced_by as "replacedBy", last_used_at as "lastUsedAt", last_used_ip as "lastUsedIp", last_used_path as "lastUsedPath",
  ${IS_ACTIVE(sql)} as "isActive"`;
type Row = Omit<Key, 'permissions'> & { permissions: string[] | null };
const keyOf = ({ permissions, ...row }: Row): Key => ({ ...row, permissions: permissions && inOrder(permissions) });

/** Keys, newest first: active ones, or revoked and expired ones. Errors: cursor_invalid. */
export async function listApiKeys(
  ctx: Context,
  {
    merchantId,
    mode,
    kind,
    active,
    limit,
    startingAfter,
  }: Owner & { kind: KeyKind | null; active: boolean; limit: number; startingAfter: string | null },
): Promise<{ items: Key[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  if (startingAfter !== null) {
    const [known] = await sql`select 1 from keys where id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode}`;
    if (!known) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  }
  const rows = await sql<Row[]>`
    select ${columns(sql)} from keys
    where merchant_id = ${merchantId} and mode = ${mode} and ${IS_ACTIVE(sql)} = ${active} ${kind ? sql`and kind = ${kind}` : sql``}
      ${startingAfter ? sql`and (created_at, id) < (select created_at, id from keys where id = ${startingAfter})` : sql``}
    order by created_at desc, id desc limit ${limit + 1}`;
  return { items: rows.slice(0, limit).map(keyOf), hasMore: rows.length > limit };
}

/** One key; locked when read in a transaction that changes it. Errors: key_not_found. */
export async function getApiKey(ctx: Context, { merchantId, mode, keyId, tx }: Owner & { keyId: string; tx?: Tx }): Promise<Key> {
  const sql = tx ?? ctx.db.sql;
  const [row] = await sql<Row[]>`
    select ${columns(sql)} from keys where id = ${keyId} and merchant_id = ${merchantId} and mode = ${mode} ${tx ? sql`for update` : sql``}`;
  if (!row) throw new Problem('key_not_found', { id: keyId });
  return keyOf(row);
}

type NewKey = {
  kind: KeyKind;
  name: string;
  origins: readonly string[];
  readOnly: boolean;
  allowedIps: readonly string[];
  /** Of a secret key; null: everything that the member may do. */
  permissions: readonly KeyPermission[] | null;
  createdBy: string;
  actorId: string;
  expiresInDays: number | null;
};
/** What a member gives a key, as far as they may do it themselves now. Errors: member_not_found, key_out_of_reach. */
async function grant(
  tx: Tx,
  { merchantId, actorId, permissions }: { merchantId: string; actorId: string; permissions: readonly KeyPermission[] | null },
): Promise<readonly KeyPermission[]> {
  const role = await holdRole(tx, { merchantId, userId: actorId });
  const reach = grantable(role);
  const wanted = permissions ?? (reach.length > 0 ? reach : KEY_PERMISSION_NAMES);
  const beyond = wanted.filter((permission) => !reach.includes(permission));
  if (beyond.length > 0) throw new Problem('key_out_of_reach', { role, permissions: beyond.join(', ') });
  return wanted;
}

/**
 * Creates a key for a member, with at most what they may do. Its text is only in the result and is not stored. Errors:
 * key_limit_reached, parameter_invalid, key_out_of_reach.
 */
export async function addApiKey(ctx: Context, tx: Tx, { merchantId, mode, ...made }: Owner & NewKey): Promise<{ key: Key; text: string }> {
  const { kind, origins, actorId } = made;
  if (kind === 'secret' && origins.length > 0) {
    throw new Problem('parameter_invalid', { reason: 'only public keys have origins' }, { param: 'origins' });
  }
  // Serializes concurrent creates, so that the limit holds.
  await tx`select 1 from merchants where id = ${merchantId} for update`;
  const [counted] = await tx<{ keys: number }[]>`
    select count(*)::int as keys from keys where merchant_id = ${merchantId} and mode = ${mode} and ${IS_ACTIVE(tx)}`;
  if (counted!.keys >= MOST_KEYS) throw new Problem('key_limit_reached', { limit: MOST_KEYS, mode });
  const permissions = await grant(tx, { merchantId, actorId, permissions: made.permissions });
  const { keyId, key: text } = await createApiKey(ctx, { merchantId, mode, ...made, permissions, tx });
  return { key: await getApiKey(ctx, { merchantId, mode, keyId, tx }), text };
}

/**
 * Creates a key that replaces an old one. The old key ends now or after the given time, never later than its own expiry; the new key
 * gets the same lifetime and permissions again, so the member must be allowed to give it these. Errors: key_not_found, key_ended,
 * key_limit_reached, key_out_of_reach.
 */
export async function rollApiKey(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, keyId, ends, createdBy, actorId }: Owner & { keyId: string; ends: RollEnds; createdBy: string; actorId: string },
): Promise<{ key: Key; text: string; old: Key }> {
  const before = await getApiKey(ctx, { merchantId, mode, keyId, tx });
  if (!before.isActive || before.replacedBy !== null) throw new Problem('key_ended', { id: keyId });
  const { kind, name, origins, readOnly, permissions, allowedIps, createdAt, expiresAt } = before;
  const expiresInDays = expiresAt && Math.max(1, Math.round((expiresAt.getTime() - createdAt.getTime()) / DAY_MS));
  const { key, text } = await addApiKey(ctx, tx, {
    ...{ merchantId, mode, kind, name, origins, readOnly, allowedIps },
    ...{ createdBy, actorId, expiresInDays, permissions: kind === 'secret' ? permissionsFrom(permissions) : null },
  });
  await tx`
    update keys set replaced_by = ${key.id}, ${
      ends === 'now'
        ? tx`revoked_at = clock_timestamp()`
        : tx`expires_at = least(expires_at, clock_timestamp() + make_interval(secs => ${ROLL_ENDS[ends]}))`
    } where id = ${keyId}`;
  return { key, text, old: await getApiKey(ctx, { merchantId, mode, keyId, tx }) };
}

/**
 * Revokes a key. The person confirms by typing its name. All processes reject it within a second. Errors: key_not_found, key_ended,
 * parameter_invalid.
 */
export async function endApiKey(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, keyId, name }: Owner & { keyId: string; name: string },
): Promise<{ before: Key; after: Key }> {
  const before = await getApiKey(ctx, { merchantId, mode, keyId, tx });
  if (!before.isActive) throw new Problem('key_ended', { id: keyId });
  if (name.trim() !== before.name) throw new Problem('parameter_invalid', { reason: 'it must be the name of this key' }, { param: 'name' });
  await tx`update keys set revoked_at = clock_timestamp() where id = ${keyId}`;
  return { before, after: await getApiKey(ctx, { merchantId, mode, keyId, tx }) };
}

/** Requests of a key in the last 24 hours, by whole hours; at most a minute behind. */
export async function readApiKeyCalls(
  ctx: Context,
  { merchantId, mode, keyId }: Owner & { keyId: string },
): Promise<{ calls: bigint; failed: bigint }> {
  await getApiKey(ctx, { merchantId, mode, keyId });
  const [row] = await ctx.db.sql<{ calls: bigint; failed: bigint }[]>`
    select coalesce(sum(calls), 0)::bigint as calls, coalesce(sum(failed), 0)::bigint as failed from key_hours
    where key_id = ${keyId} and hour > clock_timestamp() - interval '25 hours'`;
  return row!;
}
