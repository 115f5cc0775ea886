/** Forgot password: a link to the person's verified mailbox, by which they choose a new one. */
import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import { base62 } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import { exactly, mailText } from '../notices/mail-text.ts';
import { queueMails } from '../notices/mails.ts';
import type { AccountChange } from '../notices/notice-kinds.ts';
import { notifyUser } from '../notices/notices.ts';
import { putPassword } from './account.ts';
import { findKnownBrowser, rememberBrowser } from './known-browsers.ts';
import { writeAccountAudit } from './members.ts';
import { type Cookies, hashPassword, type Visitor } from './sign-in.ts';

export const RESET_MINUTES = 60;
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
