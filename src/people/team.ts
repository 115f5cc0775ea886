/** The team of a merchant: members and their roles, invites by one-time link, and whether two-factor authentication is required. */
import { createHash } from 'node:crypto';
import type { Context } from '#context';
import { base62, newId } from '#core/id';
import { Problem } from '#core/problem';
import { type MemberRole, mayDo, mayGive, ROLES } from '#core/roles';
import type { Tx } from '#db';
import { type Bound, exactly, forgetSent, mailText, type NoticeDetail, notifyMembers, notifyOperators, queueMails } from '#notices';
import { type Actor, checkStanding, type Departure, holdRole, markVerified, writeAudit } from './members.ts';

const INVITE_DAYS = 7;
const MOST_INVITES = 50;
/** Mailed ones: anyone can invite any address. */
const MAILED_INVITES: Bound = { anHour: 1, aDay: 50, over: 'refuse' };
/** Only this many members of a larger team are shown. */
const MOST_MEMBERS = 500;

type Member = {
  id: string;
  name: string;
  email: string;
  role: MemberRole;
  hasSecondFactor: boolean;
  hasPasskey: boolean;
  /** Whether the person has proven that the mailbox is theirs. */
  emailVerified: boolean;
  joinedAt: Date;
};
export type Invite = { id: string; email: string; role: MemberRole; invitedBy: string; createdAt: Date; expiresAt: Date };
export type Manager = { merchantId: string; actor: Actor };

/** What belongs to other rooms: called in the transaction before a member leaves or gets another role. */
type Departing = (tx: Tx, departure: Departure) => Promise<void>;

const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();
/** All changes of a team lock the merchant's row, so that each sees the ones before it. */
const lockTeam = (tx: Tx, merchantId: string) => tx`select 1 from merchants where id = ${merchantId} for no key update`;
/** The member may still give and take these roles. Errors: member_not_found, role_out_of_reach. */
async function checkReach(tx: Tx, { merchantId, actor }: Manager, ...roles: MemberRole[]): Promise<void> {
  const mine = await holdRole(tx, { merchantId, userId: actor.userId });
  if (!roles.every((role) => mayGive(mine, role))) throw new Problem('role_out_of_reach');
}
/** Tells the owners, and the member whom it is about. */
const tellTeam = (
  ctx: Context,
  tx: Tx,
  { merchantId, about, detail }: { merchantId: string; about: string | null; detail: NoticeDetail },
) => notifyMembers(ctx, tx, [{ merchantId, mode: null, kind: 'team_changed', detail, actorId: about }]);

export async function listTeam(
  ctx: Context,
  { merchantId }: { merchantId: string },
): Promise<{ members: Member[]; invites: Invite[]; secondFactorRequired: boolean }> {
  const { sql } = ctx.db;
  const [members, invites, [merchant]] = await Promise.all([
    sql<Member[]>`
      select u.id, u.name, u.email, m.role, u.two_factor_enabled as "hasSecondFactor", u.email_verified as "emailVerified", m.joined_at as "joinedAt",
        exists (select 1 from passkeys p where p.user_id = u.id) as "hasPasskey"
      from members m join users u on u.id = m.user_id where m.merchant_id = ${merchantId} order by m.joined_at, u.id limit ${MOST_MEMBERS}`,
    sql<Invite[]>`
      select id, email, role, invited_by as "invitedBy", created_at as "createdAt", expires_at as "expiresAt" from invites
      where merchant_id = ${merchantId} and expires_at > clock_timestamp() order by created_at desc, id limit ${MOST_INVITES}`,
    sql<{ required: boolean }[]>`select second_factor_required as required from merchants where id = ${merchantId}`,
  ]);
  return { members, invites, secondFactorRequired: merchant!.required };
}

/**
 * Creates an invite link for one address. It works once and expires after seven days; an older link for that address stops working.
 * With a mail server, the link is sent only to that mailbox, so opening it proves that the address belongs to the person. Without
 * one, the link is returned for the inviter to send, and the new account's address stays unverified.
 * Errors: role_out_of_reach, member_exists, invite_limit_reached, mail_limit_reached.
 */
export async function inviteMember(
  ctx: Context,
  { manager, email: given, role }: { manager: Manager; email: string; role: MemberRole },
): Promise<{ invite: Invite; url: string | null }> {
  const { merchantId, actor } = manager;
  const email = given.toLowerCase();
  const token = base62(32, ctx.random);
  const url = `${ctx.settings.publicUrl}/dashboard/invite#${token}`;
  const mailed = ctx.mail !== null;
  const invite = await ctx.db.begin(async (tx) => {
    await lockTeam(tx, merchantId);
    await checkReach(tx, manager, role);
    const [merchant] = await tx<{ name: string }[]>`select name from merchants where id = ${merchantId}`;
    const there =
      await tx`select 1 from members m join users u on u.id = m.user_id where m.merchant_id = ${merchantId} and u.email = ${email}`;
    if (there.length > 0) throw new Problem('member_exists', { email }, { param: 'email' });
    await tx`delete from invites where merchant_id = ${merchantId} and expires_at <= clock_timestamp()`;
    const [older] = await tx<{ role: MemberRole }[]>`
      delete from invites where merchant_id = ${merchantId} and email = ${email} returning role`;
    // It takes the older invite away, which may be for a role that only owners give and take.
    if (older) await checkReach(tx, manager, older.role);
    const [open] = await tx<{ n: bigint }[]>`select count(*) as n from invites where merchant_id = ${merchantId}`;
    if (open!.n >= BigInt(MOST_INVITES)) throw new Problem('invite_limit_reached', { limit: MOST_INVITES });
    const [made] = await tx<Invite[]>`
      insert into invites (id, merchant_id, email, role, token_hash, invited_by, invited_by_id, mailed, expires_at)
      values (${newId('inv', ctx.random)}, ${merchantId}, ${email}, ${role}, ${hashOf(token)}, ${actor.name}, ${actor.userId}, ${mailed},
        clock_timestamp() + make_interval(days => ${INVITE_DAYS}))
      returning id, email, role, invited_by as "invitedBy", created_at as "createdAt", expires_at as "expiresAt"`;
    await writeAudit(tx, { merchantId, mode: null, actor, action: 'member.invited', object: email, after: { role } });
    if (mayDo(role, 'team.manage') || mayDo(role, 'refunds.approve'))
      await tellTeam(ctx, tx, { merchantId, about: actor.userId, detail: { change: 'invited', by: actor.name, email, role } });
    if (mailed)
      await queueMails(tx, {
        recipients: [email],
        subject: mailText`${actor.name} invited you to ${merchant!.name}`,
        body: mailText`${actor.name} invited you to join ${merchant!.name} on Florin.\n\nTo accept, open this link within ${INVITE_DAYS} days. It works once. Don’t forward it: anyone who has it can accept the invite.\n\n${exactly(url)}\n\nIf you don’t know ${actor.name}, you can ignore this email.\n`,
        kind: 'invite',
        sender: merchantId,
        bound: MAILED_INVITES,
      });
    return made!;
  });
  return { invite, url: mailed ? null : url };
}

/** Errors: invite_invalid, role_out_of_reach. */
export async function revokeInvite(ctx: Context, { manager, inviteId }: { manager: Manager; inviteId: string }): Promise<void> {
  const { merchantId, actor } = manager;
  await ctx.db.begin(async (tx) => {
    await lockTeam(tx, merchantId);
    const [gone] = await tx<{ email: string; role: MemberRole }[]>`
      delete from invites where id = ${inviteId} and merchant_id = ${merchantId} returning email, role`;
    if (!gone) throw new Problem('invite_invalid');
    await checkReach(tx, manager, gone.role);
    await writeAudit(tx, { merchantId, mode: null, actor, action: 'invite.revoked', object: gone.email, before: { role: gone.role } });
  });
}

/** What an invite is for. Anyone who has the link may read it. Errors: invite_invalid. */
export async function findInvite(
  ctx: Context,
  { token }: { token: string },
): Promise<{ merchantName: string; email: string; role: MemberRole; hasAccount: boolean }> {
  const [row] = await ctx.db.sql<{ merchantName: string; email: string; role: MemberRole; hasAccount: boolean }[]>`
    select m.name as "merchantName", i.email, i.role, exists (select 1 from users u where u.email = i.email) as "hasAccount"
    from invites i join merchants m on m.id = i.merchant_id where i.token_hash = ${hashOf(token)} and i.expires_at > clock_timestamp()`;
  if (!row) throw new Problem('invite_invalid');
  return row;
}

/** `mailed`: the link was sent by email, so only the owner of the mailbox had it. */
type Spent = { merchantId: string; email: string; role: MemberRole; mailed: boolean; invitedBy: string; invitedById: string | null };
/**
 * Uses up the link: its row is deleted in the transaction that adds the member. Who sent it must still be a member who may give this role:
 * a removal at the same time is before it or after it. Errors: invite_invalid.
 */
async function spendInvite(tx: Tx, { token }: { token: string }): Promise<Spent> {
  const [known] = await tx<{ merchantId: string }[]>`select merchant_id as "merchantId" from invites where token_hash = ${hashOf(token)}`;
  if (!known) throw new Problem('invite_invalid');
  await lockTeam(tx, known.merchantId);
  const [invite] = await tx<Spent[]>`
    delete from invites where token_hash = ${hashOf(token)} and expires_at > clock_timestamp()
    returning merchant_id as "merchantId", email, role, mailed, invited_by as "invitedBy", invited_by_id as "invitedById"`;
  if (!invite) throw new Problem('invite_invalid');
  const [inviter] = await tx<{ role: MemberRole }[]>`
    select role from members where merchant_id = ${invite.merchantId} and user_id = ${invite.invitedById}`;
  if (!inviter || !mayGive(inviter.role, invite.role)) throw new Problem('invite_invalid');
  await forgetSent(tx, { kind: 'invite', sender: invite.merchantId, recipient: invite.email });
  return invite;
}

/** Ends the invites that a member sent, as far as they may no longer give the role. */
async function endInvites(tx: Tx, { merchantId, userId, role, actor }: Departure): Promise<void> {
  const outOfReach = ROLES.filter((one) => role === null || !mayGive(role, one));
  const ended = await tx<{ email: string; role: MemberRole; invitedBy: string }[]>`
    delete from invites where merchant_id = ${merchantId} and invited_by_id = ${userId} and role = any(${outOfReach}::text[])
    returning email, role, invited_by as "invitedBy"`;
  for (const { email, role: meant, invitedBy } of ended) {
    const before = { role: meant, invited_by: invitedBy };
    await writeAudit(tx, { merchantId, mode: null, actor, action: 'invite.revoked', object: email, before });
  }
}

async function join(ctx: Context, tx: Tx, invite: Spent, actor: Actor): Promise<void> {
  const { merchantId, role, email, invitedBy } = invite;
  // An existing member keeps their role: an old link must not change it.
  const made = await tx`
    insert into members (merchant_id, user_id, role) values (${merchantId}, ${actor.userId}, ${role}) on conflict do nothing`;
  if (made.count === 0) return;
  await writeAudit(tx, { merchantId, mode: null, actor, action: 'member.joined', object: actor.userId, after: { role } });
  const detail = { change: 'joined', name: actor.name, email, role, by: invitedBy };
  await tellTeam(ctx, tx, { merchantId, about: null, detail });
}

/** Adds a signed-in person to the team. Errors: invite_invalid, invite_not_yours. */
export async function acceptInvite(
  ctx: Context,
  { token, email, sessionId, actor }: { token: string; email: string; sessionId: string; actor: Actor },
): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const invite = await spendInvite(tx, { token });
    if (invite.email !== email) throw new Problem('invite_not_yours', { email: invite.email });
    await join(ctx, tx, invite, actor);
    if (invite.mailed) await markVerified(tx, { actor });
    await tx`update sessions set merchant_id = ${invite.merchantId} where id = ${sessionId}`;
  });
}

/** Creates an account and adds it to the team, in one transaction. Returns the email to sign in with. Errors: invite_invalid, invite_needs_sign_in. */
export async function acceptInviteAsNew(
  ctx: Context,
  { token, name, passwordHash, ip }: { token: string; name: string; passwordHash: string; ip: string },
): Promise<{ email: string }> {
  return ctx.db.begin(async (tx) => {
    const invite = await spendInvite(tx, { token });
    const userId = newId('usr', ctx.random);
    const made = await tx`
      insert into users (id, name, email, email_verified) values (${userId}, ${name}, ${invite.email}, ${invite.mailed})
      on conflict (email) do nothing`;
    if (made.count === 0) throw new Problem('invite_needs_sign_in');
    await tx`
      insert into accounts (id, user_id, account_id, provider_id, password)
      values (${newId('acc', ctx.random)}, ${userId}, ${userId}, 'credential', ${passwordHash})`;
    await join(ctx, tx, invite, { userId, name, ip });
    return { email: invite.email };
  });
}

/** Errors: last_owner. */
async function checkOwners(tx: Tx, merchantId: string): Promise<void> {
  const owners = await tx`select 1 from members where merchant_id = ${merchantId} and role = 'owner' limit 1`;
  if (owners.length === 0) throw new Problem('last_owner');
}

type Subject = { userId: string; role: MemberRole; name: string; email: string; isOperator: boolean };
/** The member who is changed, with the team locked, so that two owners who demote each other cannot both succeed. Errors: member_not_found. */
async function lockSubject(tx: Tx, { merchantId, userId }: { merchantId: string; userId: string }): Promise<Subject> {
  await lockTeam(tx, merchantId);
  const [subject] = await tx<Subject[]>`
    select u.id as "userId", m.role, u.name, u.email, u.operator as "isOperator" from members m join users u on u.id = m.user_id
    where m.merchant_id = ${merchantId} and m.user_id = ${userId}`;
  if (!subject) throw new Problem('member_not_found', { id: userId });
  return subject;
}

/**
 * Gives a member another role. What they set going and may no longer do ends in the same transaction. Errors: member_not_found,
 * role_out_of_reach, last_owner; those of `departing`.
 */
export async function changeRole(
  ctx: Context,
  { manager, userId, role, departing }: { manager: Manager; userId: string; role: MemberRole; departing: Departing },
): Promise<void> {
  const { merchantId, actor } = manager;
  await ctx.db.begin(async (tx) => {
    const { role: was, name, email } = await lockSubject(tx, { merchantId, userId });
    await checkReach(tx, manager, role, was);
    if (was === role) return;
    const detail = { change: 'role', name, email, was, role, by: actor.name };
    await tellTeam(ctx, tx, { merchantId, about: userId, detail });
    const departure = { merchantId, userId, role, actor };
    await departing(tx, departure);
    await endInvites(tx, departure);
    await tx`update members set role = ${role}, role_since = clock_timestamp() where merchant_id = ${merchantId} and user_id = ${userId}`;
    await checkOwners(tx, merchantId);
    await writeAudit(tx, {
      merchantId,
      mode: null,
      actor,
      action: 'member.role_changed',
      object: userId,
      before: { role: was },
      after: { role },
    });
  });
}

/**
 * Removes a member with everything that they set going. The account stays, for other merchants. Errors: member_not_found,
 * role_out_of_reach, last_owner; those of `departing`.
 */
export async function removeMember(
  ctx: Context,
  { manager, userId, departing }: { manager: Manager; userId: string; departing: Departing },
): Promise<void> {
  const { merchantId, actor } = manager;
  await ctx.db.begin(async (tx) => {
    const subject = await lockSubject(tx, { merchantId, userId });
    const { role, name, email } = subject;
    await checkReach(tx, manager, role);
    // Before they leave, so that a removed owner learns of it.
    await tellTeam(ctx, tx, { merchantId, about: userId, detail: { change: 'removed', name, email, by: actor.name } });
    const departure = { merchantId, userId, role: null, actor };
    await departing(tx, departure);
    await endInvites(tx, departure);
    await tx`delete from members where merchant_id = ${merchantId} and user_id = ${userId}`;
    await checkOwners(tx, merchantId);
    await tx`update sessions set merchant_id = null where user_id = ${userId} and merchant_id = ${merchantId}`;
    await writeAudit(tx, { merchantId, mode: null, actor, action: 'member.removed', object: userId, before: { role, email } });
    if (subject.isOperator) await tellOfOperator(ctx, tx, { merchantId, subject, by: actor.name });
  });
}

/** The operator area does not depend on a role, so the operators learn when one of them left the first merchant or their last one. */
async function tellOfOperator(
  ctx: Context,
  tx: Tx,
  { merchantId, subject, by }: { merchantId: string; subject: Subject; by: string },
): Promise<void> {
  const [left] = await tx<{ merchant: string; isNamed: boolean }[]>`
    select name as merchant, id = (select id from merchants order by created_at, id limit 1)
      or not exists (select 1 from members where user_id = ${subject.userId}) as "isNamed"
    from merchants where id = ${merchantId}`;
  if (!left!.isNamed) return;
  const detail = { change: 'left', name: subject.name, email: subject.email, merchant: left!.merchant, by };
  await notifyOperators(ctx, tx, { kind: 'operator_changed', detail });
}

/** From now on members without two-factor authentication can reach only their own account. Errors: second_factor_required if the caller does not have it, member_not_found, action_not_permitted. */
export async function requireSecondFactor(
  ctx: Context,
  { manager, required, hasSecondFactor }: { manager: Manager; required: boolean; hasSecondFactor: boolean },
): Promise<void> {
  if (required && !hasSecondFactor) throw new Problem('second_factor_required');
  const { merchantId, actor } = manager;
  await ctx.db.begin(async (tx) => {
    await checkStanding(tx, { merchantId, actor, action: 'team.manage' });
    const changed = await tx`
      update merchants set second_factor_required = ${required} where id = ${merchantId} and second_factor_required <> ${required}`;
    if (changed.count === 0) return;
    await writeAudit(tx, {
      merchantId,
      mode: null,
      actor,
      action: 'team.second_factor_required',
      object: merchantId,
      before: { required: !required },
      after: { required },
    });
  });
}

/** Shows another of the user's merchants in this sign-in. Errors: merchant_not_found. */
export async function switchMerchant(
  ctx: Context,
  { sessionId, userId, merchantId }: { sessionId: string; userId: string; merchantId: string },
): Promise<void> {
  const switched = await ctx.db.sql`
    update sessions set merchant_id = ${merchantId} where id = ${sessionId}
      and exists (select 1 from members where merchant_id = ${merchantId} and user_id = ${userId})`;
  if (switched.count === 0) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant_id' });
}
