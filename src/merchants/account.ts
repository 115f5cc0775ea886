/** One's own account: passkeys, backup codes, sign-ins, password, e-mail address. */
import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import { base62 } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { endCodeLock } from './code-attempts.ts';
import { queueMails } from './mails.ts';
import { type Actor, writeAccountAudit } from './members.ts';
import { type AccountChange, notifyUser } from './notices.ts';
import {
  authOf,
  type Cookies,
  checkPassword,
  cookiesOf,
  hashPassword,
  headersOf,
  refusing,
  SESSION_DAYS,
  type SignedIn,
  type Visitor,
} from './sign-in.ts';
import { endTrust } from './trusted-devices.ts';

const LINK_HOURS = 24;
const MOST_PASSKEYS = 20;
const MOST_SESSIONS = 100;

export type Passkey = { id: string; name: string; createdAt: Date; backedUp: boolean };
export type Session = { id: string; ip: string; userAgent: string; startedAt: Date; usedAt: Date; current: boolean };
/** What every act on the own account is given. */
export type Own = { visitor: Visitor; signedIn: SignedIn };
const actorOf = ({ visitor, signedIn }: Own): Actor => ({ userId: signedIn.userId, name: signedIn.name, ip: visitor.ip });
const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();

/** A change of how somebody signs in: written into the log, and told to them. */
async function recordChange(
  ctx: Context,
  tx: Tx,
  { actor, action, change, name }: { actor: Actor; action: string; change: AccountChange; name?: string },
): Promise<void> {
  await writeAccountAudit(tx, { actor, action, ...(name !== undefined && { after: { name } }) });
  const detail = { change, ip: actor.ip, ...(name !== undefined && { name }) };
  await notifyUser(ctx, tx, { userId: actor.userId, kind: 'account_changed', detail });
}

export async function listPasskeys(ctx: Context, { userId }: { userId: string }): Promise<Passkey[]> {
  return ctx.db.sql<Passkey[]>`
    select id, coalesce(name, 'Passkey') as name, created_at as "createdAt", backed_up as "backedUp" from passkeys
    where user_id = ${userId} order by created_at, id limit ${MOST_PASSKEYS}`;
}

/** What the browser asks an authenticator to make a passkey with. */
export async function startPasskey(ctx: Context, { visitor }: Own): Promise<{ cookies: Cookies; options: object }> {
  const auth = await authOf(ctx);
  const reply = await refusing('passkey_refused', () =>
    auth.api.generatePasskeyRegistrationOptions({ headers: headersOf(visitor), query: {}, returnHeaders: true }),
  );
  return { cookies: cookiesOf(reply.headers), options: reply.response as object };
}

/** Keeps the passkey that was made. Errors: passkey_refused. */
export async function finishPasskey(
  ctx: Context,
  { visitor, signedIn, name, response }: Own & { name: string; response: Record<string, unknown> },
): Promise<void> {
  if ((await listPasskeys(ctx, signedIn)).length >= MOST_PASSKEYS) throw new Problem('passkey_refused');
  const auth = await authOf(ctx);
  const headers = headersOf(visitor);
  headers.set('origin', new URL(ctx.settings.publicUrl).origin);
  await refusing('passkey_refused', () =>
    auth.api.verifyPasskeyRegistration({ body: { response: response as never, name }, headers }),
  ).catch((error: unknown) => {
    // What the library cannot read at all it reports as its own failure.
    if ((error as { statusCode?: number }).statusCode === 500) throw new Problem('passkey_refused', {}, { cause: error });
    throw error;
  });
  const actor = actorOf({ visitor, signedIn });
  await ctx.db.begin((tx) => recordChange(ctx, tx, { actor, action: 'passkey.added', change: 'passkey_added', name }));
}

/** Errors: passkey_not_found. */
export async function renamePasskey(
  ctx: Context,
  { visitor, signedIn, passkeyId, name }: Own & { passkeyId: string; name: string },
): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const named = await tx`update passkeys set name = ${name} where id = ${passkeyId} and user_id = ${signedIn.userId}`;
    if (named.count === 0) throw new Problem('passkey_not_found', { id: passkeyId });
    await writeAccountAudit(tx, { actor: actorOf({ visitor, signedIn }), action: 'passkey.renamed', after: { name } });
  });
}

/** Errors: passkey_not_found. */
export async function removePasskey(ctx: Context, { visitor, signedIn, passkeyId }: Own & { passkeyId: string }): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const [gone] = await tx<{ name: string }[]>`
      delete from passkeys where id = ${passkeyId} and user_id = ${signedIn.userId} returning coalesce(name, 'Passkey') as name`;
    if (!gone) throw new Problem('passkey_not_found', { id: passkeyId });
    const actor = actorOf({ visitor, signedIn });
    await recordChange(ctx, tx, { actor, action: 'passkey.removed', change: 'passkey_removed', name: gone.name });
  });
}

/** New backup codes; the old ones end, and every device that was trusted. Errors: password_wrong, second_factor_required. */
export async function renewBackupCodes(ctx: Context, { visitor, signedIn, password }: Own & { password: string }): Promise<string[]> {
  if (!signedIn.hasSecondFactor) throw new Problem('second_factor_required');
  const auth = await authOf(ctx);
  const reply = await refusing('password_wrong', () => auth.api.generateBackupCodes({ body: { password }, headers: headersOf(visitor) }));
  await ctx.db.begin(async (tx) => {
    await endTrust(tx, signedIn);
    const actor = actorOf({ visitor, signedIn });
    await recordChange(ctx, tx, { actor, action: 'backup_codes.renewed', change: 'backup_codes_renewed' });
  });
  return reply.backupCodes;
}

/** Where the user is signed in now, this one first. */
export async function listSessions(ctx: Context, { signedIn }: { signedIn: SignedIn }): Promise<Session[]> {
  return ctx.db.sql<Session[]>`
    select id, coalesce(ip_address, '') as ip, coalesce(user_agent, '') as "userAgent", created_at as "startedAt", updated_at as "usedAt",
      id = ${signedIn.sessionId} as current
    from sessions where user_id = ${signedIn.userId} and expires_at > clock_timestamp()
      and created_at > clock_timestamp() - make_interval(days => ${SESSION_DAYS})
    order by id = ${signedIn.sessionId} desc, updated_at desc limit ${MOST_SESSIONS}`;
}

/** Signs out elsewhere: one place, or with null all others, and then no device is trusted any more. Errors: session_not_found. */
export async function endSessions(ctx: Context, { visitor, signedIn, sessionId }: Own & { sessionId: string | null }): Promise<number> {
  return ctx.db.begin(async (tx) => {
    if (sessionId === null) await endTrust(tx, signedIn);
    const ended = await tx`
      delete from sessions where user_id = ${signedIn.userId}
        and ${sessionId === null ? tx`id <> ${signedIn.sessionId}` : tx`id = ${sessionId}`}`;
    if (ended.count === 0 && sessionId !== null) throw new Problem('session_not_found', { id: sessionId });
    if (ended.count > 0)
      await writeAccountAudit(tx, { actor: actorOf({ visitor, signedIn }), action: 'session.revoked', after: { sessions: ended.count } });
    return ended.count;
  });
}

/** Ends what began with the old password: sign-ins, those that wait for their second factor, trusted devices, and locks of codes. */
async function putPassword(tx: Tx, { userId, hash, keptSessionId }: { userId: string; hash: string; keptSessionId: string | null }) {
  await endTrust(tx, { userId });
  await tx`update accounts set password = ${hash}, updated_at = clock_timestamp() where user_id = ${userId} and provider_id = 'credential'`;
  await tx`delete from sessions where user_id = ${userId} and id is distinct from ${keptSessionId}`;
  await tx`delete from verifications where value = ${userId}`;
  await endCodeLock(tx, { userId });
}

/** A new password; all other sign-ins end, and every device that was trusted. Errors: password_wrong, parameter_invalid (new_password). */
export async function changePassword(
  ctx: Context,
  { visitor, signedIn, password, newPassword }: Own & { password: string; newPassword: string },
): Promise<void> {
  checkPassword(newPassword, 'new_password');
  const auth = await authOf(ctx);
  await refusing('password_wrong', () => auth.api.verifyPassword({ body: { password }, headers: headersOf(visitor) }));
  const hash = await hashPassword(ctx, { password: newPassword });
  await ctx.db.begin(async (tx) => {
    await putPassword(tx, { userId: signedIn.userId, hash, keptSessionId: signedIn.sessionId });
    const actor = actorOf({ visitor, signedIn });
    await recordChange(ctx, tx, { actor, action: 'password.changed', change: 'password_changed' });
  });
}

/** Asks both addresses by mail; the change happens once both agreed. Errors: mail_not_set_up, password_wrong, email_in_use. */
export async function startEmailChange(
  ctx: Context,
  { visitor, signedIn, email: given, password }: Own & { email: string; password: string },
): Promise<void> {
  if (!ctx.mail) throw new Problem('mail_not_set_up');
  const auth = await authOf(ctx);
  await refusing('password_wrong', () => auth.api.verifyPassword({ body: { password }, headers: headersOf(visitor) }));
  const email = given.toLowerCase();
  const [toOld, toNew] = [base62(32, ctx.random), base62(32, ctx.random)];
  const link = (token: string) => `${ctx.settings.publicUrl}/dashboard/confirm-email#${token}`;
  await ctx.db.begin(async (tx) => {
    if ((await tx`select 1 from users where email = ${email}`).length > 0) throw new Problem('email_in_use', {}, { param: 'email' });
    await tx`
      insert into email_changes (user_id, new_email, old_token_hash, new_token_hash, expires_at)
      values (${signedIn.userId}, ${email}, ${hashOf(toOld)}, ${hashOf(toNew)}, clock_timestamp() + make_interval(hours => ${LINK_HOURS}))
      on conflict (user_id) do update set new_email = excluded.new_email, old_token_hash = excluded.old_token_hash,
        new_token_hash = excluded.new_token_hash, old_agreed = false, new_agreed = false, expires_at = excluded.expires_at`;
    const mail = (recipient: string, token: string) =>
      queueMails(tx, {
        recipients: [recipient],
        subject: 'Confirm the change of your e-mail address',
        body: `${signedIn.name} asked to sign in with ${email} instead of ${signedIn.email} from now on.\n\nBoth addresses have to agree within ${LINK_HOURS} hours. To agree, open:\n\n${link(token)}\n\nIf you did not ask for this, do nothing, and change your password.\n`,
        kind: 'email_change',
      });
    await mail(signedIn.email, toOld);
    await mail(email, toNew);
    await writeAccountAudit(tx, { actor: actorOf({ visitor, signedIn }), action: 'email.change_asked', after: { email } });
  });
}

/** One of the two addresses agrees. True once both have, and the address changed. Errors: email_link_invalid, email_in_use. */
export async function agreeToEmailChange(ctx: Context, { token, ip }: { token: string; ip: string }): Promise<{ changed: boolean }> {
  const hash = hashOf(token);
  return ctx.db.begin(async (tx) => {
    const [row] = await tx<{ userId: string; name: string; email: string; newEmail: string; both: boolean }[]>`
      update email_changes c set old_agreed = old_agreed or old_token_hash = ${hash}, new_agreed = new_agreed or new_token_hash = ${hash}
      from users u where u.id = c.user_id and (old_token_hash = ${hash} or new_token_hash = ${hash}) and expires_at > clock_timestamp()
      returning u.id as "userId", u.name, u.email, c.new_email as "newEmail", c.old_agreed and c.new_agreed as both`;
    if (!row) throw new Problem('email_link_invalid');
    if (!row.both) return { changed: false };
    const taken = await tx`select 1 from users where email = ${row.newEmail}`;
    if (taken.length > 0) throw new Problem('email_in_use');
    await tx`update users set email = ${row.newEmail}, email_verified = true, updated_at = clock_timestamp() where id = ${row.userId}`;
    await tx`delete from email_changes where user_id = ${row.userId}`;
    const actor = { userId: row.userId, name: row.name, ip };
    await writeAccountAudit(tx, { actor, action: 'email.changed', after: { from: row.email, email: row.newEmail } });
    return { changed: true };
  });
}

/** The address that waits for both to agree; null when none does. */
export async function pendingEmail(ctx: Context, { userId }: { userId: string }): Promise<string | null> {
  const [row] = await ctx.db.sql<{ email: string }[]>`
    select new_email as email from email_changes where user_id = ${userId} and expires_at > clock_timestamp()`;
  return row?.email ?? null;
}

const OPERATOR_COMMAND = 'operator command';
/** By the operator, who has made sure of both addresses. Errors: user_not_found, email_in_use. */
export async function setEmail(ctx: Context, { email: given, to: wanted }: { email: string; to: string }): Promise<void> {
  const [email, to] = [given.toLowerCase(), wanted.toLowerCase()];
  if (!/^[^\s@<>"]+@[^\s@<>"]+$/.test(to) || to.length > 254)
    throw new Problem('parameter_invalid', { reason: 'it is no e-mail address' }, { param: 'to' });
  await ctx.db.begin(async (tx) => {
    if ((await tx`select 1 from users where email = ${to}`).length > 0) throw new Problem('email_in_use', {}, { param: 'to' });
    const [user] = await tx<{ id: string }[]>`
      update users set email = ${to}, updated_at = clock_timestamp() where email = ${email} returning id`;
    if (!user) throw new Problem('user_not_found', { id: email });
    await tx`delete from email_changes where user_id = ${user.id}`;
    const actor = { userId: user.id, name: OPERATOR_COMMAND, ip: '' };
    await writeAccountAudit(tx, { actor, action: 'email.changed', after: { from: email, email: to } });
  });
}

/**
 * By the operator, for somebody who forgot it: a password to sign in with once and change. The second factor stays as it is.
 * Errors: user_not_found.
 */
export async function resetPassword(ctx: Context, { email: given }: { email: string }): Promise<{ password: string }> {
  const email = given.toLowerCase();
  const password = base62(24, ctx.random);
  const hash = await hashPassword(ctx, { password });
  await ctx.db.begin(async (tx) => {
    const [user] = await tx<{ id: string }[]>`select id from users where email = ${email}`;
    if (!user) throw new Problem('user_not_found', { id: email });
    await putPassword(tx, { userId: user.id, hash, keptSessionId: null });
    await writeAccountAudit(tx, { actor: { userId: user.id, name: OPERATOR_COMMAND, ip: '' }, action: 'password.reset' });
  });
  return { password };
}

/** Lets a user reach the operator area, or no longer. Errors: user_not_found. */
export async function setOperator(ctx: Context, { email: given, operator }: { email: string; operator: boolean }): Promise<void> {
  const email = given.toLowerCase();
  await ctx.db.begin(async (tx) => {
    const [user] = await tx<{ id: string }[]>`update users set operator = ${operator} where email = ${email} returning id`;
    if (!user) throw new Problem('user_not_found', { id: email });
    const actor = { userId: user.id, name: OPERATOR_COMMAND, ip: '' };
    await writeAccountAudit(tx, { actor, action: 'operator.set', after: { operator } });
  });
}
