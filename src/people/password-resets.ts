/** Forgot password: a link to the person's verified mailbox, by which they choose a new one. */
import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import { base62 } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import { queueMails } from '../notices/mails.ts';
import type { AccountChange } from '../notices/notice-kinds.ts';
import { notifyUser } from '../notices/notices.ts';
import { endEmailLinks, putPassword } from './account.ts';
import { writeAccountAudit } from './members.ts';
import { hashPassword } from './sign-in.ts';

export const RESET_MINUTES = 60;
/** A person gets at most one link in this time, no matter how often somebody asks. */
const PAUSE_MINUTES = 5;
const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();

/**
 * Sends a link when a user has this address and has verified it: an address that was never verified may belong to somebody else.
 * Returns at once, before it looks, so that neither the answer nor its time tells whether the address has an account.
 * `byMail` is false when this install cannot send email.
 */
export function askForReset(ctx: Context, { email }: { email: string }): { byMail: boolean } {
  if (!ctx.mail) return { byMail: false };
  sendReset(ctx, { email: email.toLowerCase() }).catch((error: unknown) =>
    ctx.log.error({ err: error }, 'Could not send a password reset link'),
  );
  return { byMail: true };
}

async function sendReset(ctx: Context, { email }: { email: string }): Promise<void> {
  const token = base62(32, ctx.random);
  const { publicUrl } = ctx.settings;
  await ctx.db.begin(async (tx) => {
    const [asked] = await tx<{ name: string }[]>`
      with asked as (
        insert into password_resets (user_id, email, token_hash, expires_at)
        select id, email, ${hashOf(token)}, clock_timestamp() + make_interval(mins => ${RESET_MINUTES})
        from users where email = ${email} and email_verified
        on conflict (user_id) do update set email = excluded.email, token_hash = excluded.token_hash, asked_at = excluded.asked_at,
          expires_at = excluded.expires_at
        where password_resets.asked_at < clock_timestamp() - make_interval(mins => ${PAUSE_MINUTES})
        returning user_id
      ) select u.name from users u join asked on asked.user_id = u.id`;
    if (!asked) return;
    await queueMails(tx, {
      recipients: [email],
      subject: 'Reset your password',
      body: `Hello ${asked.name},\n\nTo choose a new password for your account at ${publicUrl}, open this link within ${RESET_MINUTES} minutes:\n\n${publicUrl}/dashboard/reset-password#${token}\n\nThe link works once. If you didn’t ask for it, you can ignore this email: your password stays the same.\n`,
      kind: 'password_reset',
    });
  });
}

/**
 * Takes such a link, once: sets the password and signs the person out everywhere. Two-factor authentication and passkeys stay, and so does a
 * lock after wrong codes: with the mailbox alone nobody gets past them. Errors: reset_link_invalid, parameter_invalid (password).
 */
export async function resetByLink(ctx: Context, { token, password, ip }: { token: string; password: string; ip: string }): Promise<void> {
  const hash = await hashPassword(ctx, { password });
  await ctx.db.begin(async (tx) => {
    const [user] = await tx<{ userId: string; name: string }[]>`
      delete from password_resets p using users u
      where p.token_hash = ${hashOf(token)} and u.id = p.user_id and u.email = p.email and p.expires_at > clock_timestamp()
      returning u.id as "userId", u.name`;
    if (!user) throw new Problem('reset_link_invalid');
    const { userId, name } = user;
    await putPassword(tx, { userId, hash, keptSessionId: null, keepCodeLock: true });
    await endEmailLinks(tx, { userId });
    await writeAccountAudit(tx, { actor: { userId, name, ip }, action: 'password.reset_by_mail' });
    const detail = { change: 'password_reset_by_mail' satisfies AccountChange, ip };
    await notifyUser(ctx, tx, { userId, kind: 'account_changed', detail });
  });
}
