/** The account of a signed-in user: passkeys, backup codes, sessions, password, email address. */
import { createHash } from 'node:crypto';
import type { Context } from '#context';
import { base62 } from '#core/id';
import { Problem } from '#core/problem';
import type { Tx } from '#db';
import { type AccountChange, type Bound, exactly, mailText, notifyUser, queueMails } from '#notices';
import { type Actor, byOperator, findUser, writeAccountAudit } from '#people';
import {
  authOf,
  type Cookies,
  checkPassword,
  cookiesOf,
  dropSecondFactor,
  endCodeLock,
  hashPassword,
  headersOf,
  refusing,
  SESSION_DAYS,
  type SignedIn,
  type Visitor,
} from './sign-in.ts';
import { endTrust, findKnownBrowser, rememberBrowser } from './trusted-devices.ts';

const LINK_HOURS = 24;
/** Anyone can enter any address as their new one. */
const EMAIL_CHANGES: Bound = { anHour: 3, aDay: 20, over: 'refuse' };
const MOST_PASSKEYS = 20;
const MOST_SESSIONS = 100;

type Passkey = { id: string; name: string; createdAt: Date; backedUp: boolean };
type SignInSession = { id: string; ip: string; userAgent: string; startedAt: Date; usedAt: Date; current: boolean };
/** What every change to your own account needs. */
type Own = { visitor: Visitor; signedIn: SignedIn };
const actorOf = ({ visitor, signedIn }: Own): Actor => ({ userId: signedIn.userId, name: signedIn.name, ip: visitor.ip });

/** Writes a change of sign-in methods to the audit log and notifies the user. */
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

/** Options for the browser to create a passkey. */
export async function startPasskey(ctx: Context, { visitor }: Own): Promise<{ cookies: Cookies; options: Record<string, unknown> }> {
  const auth = await authOf(ctx);
  const reply = await refusing('passkey_refused', () =>
    auth.api.generatePasskeyRegistrationOptions({ headers: headersOf(visitor), query: {}, returnHeaders: true }),
  );
  return { cookies: cookiesOf(reply.headers), options: reply.response as unknown as Record<string, unknown> };
}

/** Stores the new passkey. Errors: passkey_refused. */
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
    // The library reports malformed input as a 500.
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

/**
 * Creates new backup codes. The old ones stop working, and trusted devices need a code again. Errors: password_wrong,
 * second_factor_required.
 */
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

/** Active sessions of the user, the current one first. */
export async function listSessions(ctx: Context, { signedIn }: { signedIn: SignedIn }): Promise<SignInSession[]> {
  return ctx.db.sql<SignInSession[]>`
    select id, coalesce(ip_address, '') as ip, coalesce(user_agent, '') as "userAgent", created_at as "startedAt", updated_at as "usedAt",
      id = ${signedIn.sessionId} as current
    from sessions where user_id = ${signedIn.userId} and expires_at > clock_timestamp()
      and created_at > clock_timestamp() - make_interval(days => ${SESSION_DAYS})
    order by id = ${signedIn.sessionId} desc, updated_at desc limit ${MOST_SESSIONS}`;
}

/** Ends one session, or with null all other sessions and all device trust. Errors: session_not_found. */
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

/** Stores the new password and ends what depended on the old one: sessions, pending sign-ins, links sent by email, trusted devices, locks on codes. */
async function putPassword(
  tx: Tx,
  {
    userId,
    hash,
    keptSessionId,
    keepCodeLock = false,
  }: { userId: string; hash: string; keptSessionId: string | null; keepCodeLock?: boolean },
): Promise<void> {
  await endTrust(tx, { userId });
  await tx`update accounts set password = ${hash}, updated_at = clock_timestamp() where user_id = ${userId} and provider_id = 'credential'`;
  await tx`delete from sessions where user_id = ${userId} and id is distinct from ${keptSessionId}`;
  await tx`delete from verifications where value = ${userId}`;
  await endEmailLinks(tx, { userId });
  if (!keepCodeLock) await endCodeLock(tx, { userId });
}

/** Changes the password. All other sessions and all device trust end. Errors: password_wrong, parameter_invalid (new_password). */
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

/**
 * Emails a link to both addresses; the change takes effect when both are opened. Errors: mail_not_set_up, password_wrong,
 * email_in_use, mail_limit_reached.
 */
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
        subject: mailText`Confirm your new email address`,
        body: mailText`${signedIn.name} asked to change their email address from ${exactly(signedIn.email)} to ${exactly(email)}.\n\nWe sent a link to both addresses. The change takes effect when both are opened. Confirm it within ${LINK_HOURS} hours:\n\n${exactly(link(token))}\n\nIf you didn’t ask for this, don’t open the link, and change your password.\n`,
        kind: 'email_change',
        sender: signedIn.userId,
        bound: EMAIL_CHANGES,
      });
    await mail(signedIn.email, toOld);
    await mail(email, toNew);
    await writeAccountAudit(tx, { actor: actorOf({ visitor, signedIn }), action: 'email.change_asked', after: { email } });
  });
}

/** Records that one of the two addresses was confirmed. `changed` is true once both are. Errors: email_link_invalid, email_in_use. */
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

/** The new address that is waiting for confirmation, or null. */
export async function pendingEmail(ctx: Context, { userId }: { userId: string }): Promise<string | null> {
  const [row] = await ctx.db.sql<{ email: string }[]>`
    select new_email as email from email_changes where user_id = ${userId} and expires_at > clock_timestamp()`;
  return row?.email ?? null;
}

/**
 * Changes an email address for the operator, who has verified the request. Both addresses are notified; the new one is unverified.
 * Errors: user_not_found, email_in_use.
 */
export async function setEmail(ctx: Context, { email: given, to: wanted }: { email: string; to: string }): Promise<void> {
  const [email, to] = [given.toLowerCase(), wanted.toLowerCase()];
  if (!/^[^\s@<>"]+@[^\s@<>"]+$/.test(to) || to.length > 254)
    throw new Problem('parameter_invalid', { reason: 'it must be an email address' }, { param: 'to' });
  await ctx.db.begin(async (tx) => {
    if ((await tx`select 1 from users where email = ${to}`).length > 0) throw new Problem('email_in_use', {}, { param: 'to' });
    const { id } = await findUser(tx, { email });
    await tx`update users set email = ${to}, email_verified = false, updated_at = clock_timestamp() where id = ${id}`;
    await endEmailLinks(tx, { userId: id });
    await writeAccountAudit(tx, { actor: byOperator(id), action: 'email.changed', after: { from: email, email: to } });
    if (ctx.mail)
      await queueMails(tx, {
        recipients: [email, to],
        subject: mailText`The operator changed your email address`,
        body: mailText`The operator of ${exactly(ctx.settings.publicUrl)} changed the email address of your account from ${exactly(email)} to ${exactly(to)}. Sign in with ${exactly(to)} from now on.\n\nIf you didn’t ask for this, contact the operator.\n`,
        kind: 'email_changed',
        sender: null,
        urgent: true,
      });
  });
}

/** Invalidates links that were sent by email earlier. */
async function endEmailLinks(tx: Tx, { userId }: { userId: string }): Promise<void> {
  await tx`delete from email_changes where user_id = ${userId}`;
  await tx`delete from email_proofs where user_id = ${userId}`;
  await tx`delete from password_resets where user_id = ${userId}`;
}

/** Removes two-factor authentication, backup codes, passkeys and trusted devices: every way to sign in other than the password. */
async function dropFactors(tx: Tx, { userId }: { userId: string }): Promise<{ secondFactor: boolean; passkeys: number }> {
  const [user] = await tx<{ secondFactor: boolean }[]>`select two_factor_enabled as "secondFactor" from users where id = ${userId}`;
  await dropSecondFactor(tx, { userId });
  const passkeys = await tx`delete from passkeys where user_id = ${userId}`;
  return { secondFactor: user!.secondFactor, passkeys: passkeys.count };
}

/**
 * Resets a password for the operator: returns a password to sign in with once and change. Someone who took over the account may have
 * added ways to sign in, so passkeys and two-factor authentication are removed, unless they are kept. Errors: user_not_found.
 */
export async function resetPassword(
  ctx: Context,
  { email, keepFactors = false }: { email: string; keepFactors?: boolean },
): Promise<{ password: string }> {
  const password = base62(24, ctx.random);
  const hash = await hashPassword(ctx, { password });
  await ctx.db.begin(async (tx) => {
    const { id: userId } = await findUser(tx, { email });
    await putPassword(tx, { userId, hash, keptSessionId: null });
    if (!keepFactors) await dropFactors(tx, { userId });
    const after = { factors: keepFactors ? 'kept' : 'removed' };
    await writeAccountAudit(tx, { actor: byOperator(userId), action: 'password.reset', after });
    const change: AccountChange = keepFactors ? 'password_reset' : 'password_and_factors_reset';
    await notifyUser(ctx, tx, { userId, kind: 'account_changed', detail: { change } });
  });
  return { password };
}

/**
 * Removes two-factor authentication and passkeys for the operator, for a user who lost the authenticator and the backup codes. The password
 * alone signs in again. All sessions end. Errors: user_not_found.
 */
export async function resetFactors(
  ctx: Context,
  { email }: { email: string },
): Promise<{ secondFactor: boolean; passkeys: number; sessions: number }> {
  return ctx.db.begin(async (tx) => {
    const { id: userId } = await findUser(tx, { email });
    const removed = await dropFactors(tx, { userId });
    const sessions = await tx`delete from sessions where user_id = ${userId}`;
    await tx`delete from verifications where value = ${userId}`;
    await endEmailLinks(tx, { userId });
    await writeAccountAudit(tx, { actor: byOperator(userId), action: 'second_factor.reset', after: { passkeys: removed.passkeys } });
    await notifyUser(ctx, tx, { userId, kind: 'account_changed', detail: { change: 'factors_reset' satisfies AccountChange } });
    return { ...removed, sessions: sessions.count };
  });
}

type User = {
  email: string;
  name: string;
  emailVerified: boolean;
  operator: boolean;
  secondFactor: boolean;
  passkeys: number;
  merchants: { merchant_id: string; role: string }[];
};
/** Users by email: those of a merchant, or of the whole install. */
export async function listUsers(
  ctx: Context,
  { merchantId, limit, after }: { merchantId: string | null; limit: number; after: string | null },
): Promise<{ users: User[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const rows = await sql<User[]>`
    select u.email, u.name, u.email_verified as "emailVerified", u.operator, u.two_factor_enabled as "secondFactor",
      (select count(*)::int from passkeys p where p.user_id = u.id) as passkeys,
      coalesce((select jsonb_agg(jsonb_build_object('merchant_id', m.merchant_id, 'role', m.role) order by m.joined_at, m.merchant_id)
        from members m where m.user_id = u.id), '[]') as merchants
    from users u
    where (${after}::text is null or u.email > ${after})
      and (${merchantId}::text is null or exists (select 1 from members m where m.user_id = u.id and m.merchant_id = ${merchantId}))
    order by u.email limit ${limit + 1}`;
  return { users: rows.slice(0, limit), hasMore: rows.length > limit };
}

// Forgot password: a link to the person's verified mailbox, by which they choose a new one.

const RESET_MINUTES = 60;
/**
 * A person gets at most one link in this time, no matter how often somebody asks: strangers, and browsers in which the person has
 * signed in, each on their own. All links stay valid, so a stranger who asks takes none away.
 */
const PAUSE_MINUTES = { stranger: 15, known: 5 };
const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();

/**
 * Sends a link when a user has this address and has verified it: an address that was never verified may belong to somebody else.
 * Returns at once, before it looks, so that neither the answer nor its time tells whether the address has an account.
 * `byMail` is false when this install cannot send email.
 */
export function askForReset(ctx: Context, { email, visitor }: { email: string; visitor: Visitor }): { byMail: boolean } {
  if (!ctx.mail) return { byMail: false };
  sendReset(ctx, { email: email.toLowerCase(), visitor }).catch((error: unknown) =>
    ctx.log.error({ err: error }, 'Could not send a password reset link'),
  );
  return { byMail: true };
}

async function sendReset(ctx: Context, { email, visitor }: { email: string; visitor: Visitor }): Promise<void> {
  const known = (await findKnownBrowser(ctx, { from: visitor, email })) !== null;
  const token = base62(32, ctx.random);
  const { publicUrl } = ctx.settings;
  await ctx.db.begin(async (tx) => {
    const [user] = await tx<{ id: string; name: string }[]>`
      select id, name from users where email = ${email} and email_verified for no key update`;
    if (!user) return;
    const pause = known ? PAUSE_MINUTES.known : PAUSE_MINUTES.stranger;
    const made = await tx`
      insert into password_resets (token_hash, user_id, email, known, expires_at)
      select ${hashOf(token)}, ${user.id}, ${email}, ${known}, clock_timestamp() + make_interval(mins => ${RESET_MINUTES})
      where not exists (select 1 from password_resets where user_id = ${user.id} and known = ${known}
        and asked_at > clock_timestamp() - make_interval(mins => ${pause}))`;
    if (made.count === 0) return;
    await tx`delete from password_resets where user_id = ${user.id} and expires_at < clock_timestamp()`;
    await queueMails(tx, {
      recipients: [email],
      subject: mailText`Reset your password`,
      body: mailText`Hello ${user.name},\n\nTo choose a new password for your account at ${exactly(publicUrl)}, open this link within ${RESET_MINUTES} minutes:\n\n${exactly(`${publicUrl}/dashboard/reset-password#${token}`)}\n\nThe link works once. If you didn’t ask for it, you can ignore this email: your password stays the same.\n`,
      kind: 'password_reset',
      sender: null,
      urgent: true,
    });
  });
}

/**
 * Takes such a link, once: sets the password and signs the person out everywhere. Two-factor authentication and passkeys stay, and so does a
 * lock after wrong codes: with the mailbox alone nobody gets past them. The cookies remember the browser, so that strangers who try
 * passwords cannot keep the person from signing in with the new one. Errors: reset_link_invalid, parameter_invalid (password).
 */
export async function resetByLink(
  ctx: Context,
  { token, password, visitor }: { token: string; password: string; visitor: Visitor },
): Promise<{ cookies: Cookies }> {
  // Hashing a password is slow on purpose, so a made-up link must not get that far.
  const [open] = await ctx.db.sql`select 1 from password_resets where token_hash = ${hashOf(token)} and expires_at > clock_timestamp()`;
  if (!open) throw new Problem('reset_link_invalid');
  const hash = await hashPassword(ctx, { password });
  return ctx.db.begin(async (tx) => {
    const [user] = await tx<{ userId: string; name: string; email: string }[]>`
      delete from password_resets p using users u
      where p.token_hash = ${hashOf(token)} and u.id = p.user_id and u.email = p.email and p.expires_at > clock_timestamp()
      returning u.id as "userId", u.name, u.email`;
    if (!user) throw new Problem('reset_link_invalid');
    const { userId, name, email } = user;
    const { ip } = visitor;
    await putPassword(tx, { userId, hash, keptSessionId: null, keepCodeLock: true });
    await writeAccountAudit(tx, { actor: { userId, name, ip }, action: 'password.reset_by_mail' });
    const detail = { change: 'password_reset_by_mail' satisfies AccountChange, ip };
    await notifyUser(ctx, tx, { userId, kind: 'account_changed', detail });
    return { cookies: [rememberBrowser(ctx, { from: visitor, email })] };
  });
}
