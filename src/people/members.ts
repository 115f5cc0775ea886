/** Members of a merchant, the setup link that creates the first one, and the audit log. */
import { createHash } from 'node:crypto';
import type { Context } from '#context';
import { COIN, type Coin, type Mode } from '#core/coin';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { ACTIONS, type Action, type MemberRole, mayDo, rolesWith } from '#core/roles';
import { asObject, type StoredJson } from '#core/stored-json';
import { type Fragment, type LookedBackTo, lookThrough, rowKeysWithin, type Sql, type Tx } from '#db';

// What an entry of the audit log changed, as its row keeps it: written with the version of its form, read with defaults.

/** Grows when the meaning of a field changes. Entries without a version have the first form. */
const VERSION = 1;

/** The fields that changed, by the names that the dashboard shows. The version is not one of them. */
export const changeToJson = (change: object): StoredJson => ({ ...change, v: VERSION });

/** Null: nothing was stored. What is not an object has no fields. */
export function changeFromJson(value: unknown): StoredJson | null {
  if (value === null || value === undefined) return null;
  const { v: _, ...fields } = asObject(value);
  return fields;
}

/** A member; without an ID, the operator. */
export type Actor = { userId: string; name: string; ip: string };
/** A secret key or the key of a shop, which acts without a member. */
export type KeyActor = { keyId: string; name: string; ip: string };
export type AnyActor = Actor | KeyActor;
/** The user, if a member acts. */
export const memberOf = (actor: AnyActor): string | null => ('userId' in actor && actor.userId !== '' ? actor.userId : null);
export const ACTOR_KINDS = ['member', 'key', 'shop'] as const;
export type ActorKind = (typeof ACTOR_KINDS)[number];
/** What kind of actor an ID in the audit log names. Null: the operator, or the service itself. */
export function kindOfActor(id: string | null): ActorKind | null {
  if (!id) return null;
  return id.startsWith('key_') ? 'key' : id.startsWith('shp_') ? 'shop' : 'member';
}
/** Who acted, for people: a member by name, and a key as such. */
export const actorText = (actor: AnyActor): string =>
  'keyId' in actor && kindOfActor(actor.keyId) === 'key' ? `API key “${actor.name}”` : actor.name;
/**
 * A member who is removed, or gets another role: `role` is the new one, null if they leave. `actor` is who did it. The merchant's row is
 * locked, so nothing that waits is asked for, confirmed or accepted at the same time.
 */
export type Departure = { merchantId: string; userId: string; role: MemberRole | null; actor: Actor };
export type Membership = { merchantId: string; merchantName: string; role: MemberRole; secondFactorRequired: boolean };

/**
 * The role of a member, which stays until the transaction ends: what somebody may do is decided when it takes effect. Errors:
 * member_not_found.
 */
export async function holdRole(tx: Tx, { merchantId, userId }: { merchantId: string; userId: string }): Promise<MemberRole> {
  const [member] = await tx<{ role: MemberRole }[]>`
    select role from members where merchant_id = ${merchantId} and user_id = ${userId} for share`;
  if (!member) throw new Problem('member_not_found', { id: userId });
  return member.role;
}

const stored = (tx: Tx, change: object | undefined) => (change === undefined ? null : tx.json(changeToJson(change) as never));

/** Every change calls this in its transaction. `before` and `after` hold the fields that changed, never a secret. */
export async function writeAudit(
  tx: Tx,
  entry: { merchantId: string; mode: Mode | null; actor: AnyActor; action: string; object: string; before?: object; after?: object },
): Promise<void> {
  const actorId = 'keyId' in entry.actor ? entry.actor.keyId : entry.actor.userId;
  await tx`
    insert into audit_log (merchant_id, mode, actor_id, actor_name, action, object, before, after, ip)
    values (${entry.merchantId}, ${entry.mode}, ${actorId}, ${entry.actor.name}, ${entry.action}, ${entry.object},
      ${stored(tx, entry.before)}, ${stored(tx, entry.after)}, ${entry.actor.ip})`;
}

/** A change to a user account, the actor's own unless another is named, is written to the audit log of every merchant they work for. */
export async function writeAccountAudit(
  tx: Tx,
  { actor, userId = actor.userId, action, after }: { actor: Actor; userId?: string; action: string; after?: object },
): Promise<void> {
  await tx`
    insert into audit_log (merchant_id, actor_id, actor_name, action, object, after, ip)
    select merchant_id, ${actor.userId}, ${actor.name}, ${action}, ${userId},
      ${stored(tx, after)}, ${actor.ip} from members where user_id = ${userId}`;
}

/** A change that an operator made to a chain is written to the audit log of every merchant with a wallet in its coin. */
export async function writeWalletAudit(tx: Tx, { coin, action, after }: { coin: Coin; action: string; after: object }): Promise<void> {
  await tx`
    insert into audit_log (merchant_id, mode, actor_name, action, object, after, ip)
    select distinct merchant_id, 'live', 'operator command', ${action}, ${coin}, ${stored(tx, after)}, '' from wallets
    where family = ${COIN[coin].family} and active`;
}

type AuditEntry = {
  id: bigint;
  mode: Mode | null;
  actorId: string | null;
  actorName: string;
  action: string;
  object: string;
  /** Of a user, as it is now. */
  objectName: string | null;
  before: StoredJson | null;
  after: StoredJson | null;
  ip: string;
  at: Date;
};
type AuditFilter = {
  actorId: string | null;
  action: string | null;
  object: string | null;
  mode: Mode | null;
  from: Date | null;
  until: Date | null;
};

/** The audit log, newest first, paged along an index of the merchant. It has few rows, because people write them. */
export async function listAudit(
  ctx: Context,
  { merchantId, filter, limit, startingAfter }: { merchantId: string; filter: AuditFilter; limit: number; startingAfter: bigint | null },
): Promise<{ items: AuditEntry[]; hasMore: boolean; lookedBackTo: LookedBackTo }> {
  const { sql } = ctx.db;
  const { actorId, action, object, mode, from, until } = filter;
  const mine = sql`merchant_id = ${merchantId}`;
  const { within } = await rowKeysWithin(sql, { key: 'id', time: 'at', rows: sql`audit_log where ${mine}`, from, until });
  // Each filter has an index. One is walked, the others are checked on its rows.
  const names = [
    object === null ? null : sql`and object = ${object}`,
    action === null ? null : sql`and action = ${action}`,
    actorId === null ? null : sql`and actor_id = ${actorId}`,
  ].filter((name) => name !== null);
  const [walked = sql``, ...rest] = names;
  const candidates = sql`
    where ${mine} ${walked} ${startingAfter === null ? sql`` : sql`and id < ${startingAfter}`}
      ${within}
    order by id desc`;
  return lookThrough(sql, {
    limit,
    further: startingAfter !== null,
    isExact: mode === null && rest.length === 0,
    find: async (bound) => {
      const rows = await sql<(Omit<AuditEntry, 'before' | 'after'> & { before: unknown; after: unknown })[]>`
      select id, mode, actor_id as "actorId", actor_name as "actorName", action, object, before, after, ip, at,
        (select name from users where users.id = object) as "objectName"
      from (select * from audit_log ${candidates} ${bound}) as a
      where true ${rest.reduce((all, one) => sql`${all} ${one}`, sql``)} ${mode === null ? sql`` : sql`and mode = ${mode}`} ${from === null ? sql`` : sql`and at >= ${from}`}
        ${until === null ? sql`` : sql`and at < ${until}`}
      order by id desc limit ${limit + 1}`;
      return rows.map((row) => ({ ...row, before: changeFromJson(row.before), after: changeFromJson(row.after) }));
    },
    candidateKeys: sql`select id from audit_log ${candidates}`,
    last: (key) => sql<{ id: string; at: Date }[]>`select id::text, at from audit_log where id = ${key}`,
  });
}

/** The actions and people to filter the audit log by: one index step for each, instead of one per row. */
export async function listAuditChoices(
  ctx: Context,
  { merchantId }: { merchantId: string },
): Promise<{ actions: string[]; actors: { id: string; name: string }[] }> {
  const { sql } = ctx.db;
  const actions = await sql<{ action: string }[]>`
    with recursive found (action) as (
      (select action from audit_log where merchant_id = ${merchantId} order by action limit 1)
      union all
      select (select a.action from audit_log a where a.merchant_id = ${merchantId} and a.action > found.action order by a.action limit 1)
      from found where found.action is not null
    ) select action from found where action is not null limit 200`;
  const actors = await sql<{ id: string; name: string }[]>`
    with recursive found (id) as (
      (select actor_id from audit_log where merchant_id = ${merchantId} and actor_id is not null order by actor_id limit 1)
      union all
      select (select a.actor_id from audit_log a where a.merchant_id = ${merchantId} and a.actor_id > found.id order by a.actor_id limit 1)
      from found where found.id is not null
    ) select found.id, (select a.actor_name from audit_log a where a.merchant_id = ${merchantId} and a.actor_id = found.id order by a.id desc limit 1) as name
    from found where found.id is not null limit 200`;
  return { actions: actions.map((row) => row.action), actors };
}

/**
 * For what takes effect later: the person is still a member who may do it, although their request was admitted a moment ago. Errors:
 * member_not_found, action_not_permitted.
 */
export async function checkStanding(
  tx: Tx,
  { merchantId, actor, action }: { merchantId: string; actor: Actor; action: Action },
): Promise<void> {
  const role = await holdRole(tx, { merchantId, userId: actor.userId });
  if (mayDo(role, action)) return;
  const [merchant] = await tx<{ name: string }[]>`select name from merchants where id = ${merchantId}`;
  throw new Problem('action_not_permitted', { role, needed: rolesWith(action), merchant: merchant!.name });
}

/** SQL condition: the person is a member of the merchant whose role includes the action. */
export const standsFor = (
  sql: Sql | Tx,
  { merchantId, userId, action }: { merchantId: string | Fragment; userId: string | Fragment; action: Action },
) => sql`
  exists (select 1 from members where merchant_id = ${merchantId} and user_id = ${userId}
    and role = any(${[...ACTIONS[action]]}::text[]))`;

/** The merchants of a user, in the order of joining. */
export async function listMemberships(ctx: Context, { userId }: { userId: string }): Promise<Membership[]> {
  return ctx.db.sql<Membership[]>`
    select m.merchant_id as "merchantId", merchants.name as "merchantName", m.role,
      merchants.second_factor_required as "secondFactorRequired"
    from members m join merchants on merchants.id = m.merchant_id
    where m.user_id = ${userId} order by m.joined_at, m.merchant_id`;
}

/** Uses up the setup link in the transaction that adds the owner. Errors: setup_link_invalid. */
async function spendSetup(tx: Tx, { token }: { token: string }): Promise<string> {
  const [row] = await tx<{ id: string }[]>`
    update merchants set setup_token_hash = null
    where setup_token_hash = ${createHash('sha256').update(token).digest()} and setup_expires_at > clock_timestamp() returning id`;
  if (!row) throw new Problem('setup_link_invalid');
  return row.id;
}

const joinAsOwner = async (tx: Tx, { merchantId, actor }: { merchantId: string; actor: Actor }): Promise<void> => {
  await tx`insert into members (merchant_id, user_id, role) values (${merchantId}, ${actor.userId}, 'owner') on conflict do nothing`;
  // The first owner of the first merchant is the operator.
  await tx`
    update users set operator = true where id = ${actor.userId} and not exists (select 1 from users where operator)
      and ${merchantId} = (select id from merchants order by created_at, id limit 1)`;
  await writeAudit(tx, { merchantId, mode: null, actor, action: 'member.set_up', object: actor.userId, after: { role: 'owner' } });
};

/**
 * Creates the first owner, with a password that is already hashed, and uses up the link in the same transaction. Errors:
 * setup_link_invalid, account_exists.
 */
export async function setUpOwner(
  ctx: Context,
  { token, name, email, passwordHash, ip }: { token: string; name: string; email: string; passwordHash: string; ip: string },
): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const merchantId = await spendSetup(tx, { token });
    const userId = newId('usr', ctx.random);
    const made = await tx`
      insert into users (id, name, email) values (${userId}, ${name}, ${email.toLowerCase()}) on conflict (email) do nothing`;
    if (made.count === 0) throw new Problem('account_exists', {}, { param: 'email' });
    await tx`
      insert into accounts (id, user_id, account_id, provider_id, password)
      values (${newId('acc', ctx.random)}, ${userId}, ${userId}, 'credential', ${passwordHash})`;
    await joinAsOwner(tx, { merchantId, actor: { userId, name, ip } });
  });
}

/** The same for a signed-in user, who gets another merchant. Errors: setup_link_invalid. */
export async function setUpMerchant(ctx: Context, { token, actor }: { token: string; actor: Actor }): Promise<void> {
  await ctx.db.begin(async (tx) => joinAsOwner(tx, { merchantId: await spendSetup(tx, { token }), actor }));
}

/** Marks the address as verified, once the person opened a link that only their mailbox received. */
export async function markVerified(tx: Tx, { actor }: { actor: Actor }): Promise<void> {
  const marked = await tx`
    update users set email_verified = true, updated_at = clock_timestamp() where id = ${actor.userId} and not email_verified`;
  if (marked.count > 0) await writeAccountAudit(tx, { actor, action: 'email.verified' });
}
