/** Proof that the mailbox of an address belongs to the person who signs in with it: a link that was sent there and nowhere else. */
import { createHash } from 'node:crypto';
import type { Context } from '../context.ts';
import { base62 } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { queueMails } from './mails.ts';
import { type Actor, writeAccountAudit } from './members.ts';
import type { SignedIn } from './sign-in.ts';

const LINK_HOURS = 24;
const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();

export async function isEmailVerified(ctx: Context, { userId }: { userId: string }): Promise<boolean> {
  const [user] = await ctx.db.sql<{ verified: boolean }[]>`select email_verified as verified from users where id = ${userId}`;
  return user?.verified ?? false;
}

/** Sends a link to the person's own address; an older one ends. Errors: mail_not_set_up. */
export async function sendEmailProof(ctx: Context, { signedIn }: { signedIn: SignedIn }): Promise<void> {
  if (!ctx.mail) throw new Problem('mail_not_set_up');
  const { userId, email, name } = signedIn;
  const token = base62(32, ctx.random);
  const { publicUrl } = ctx.settings;
  await ctx.db.begin(async (tx) => {
    await tx`
      insert into email_proofs (user_id, email, token_hash, expires_at)
      values (${userId}, ${email}, ${hashOf(token)}, clock_timestamp() + make_interval(hours => ${LINK_HOURS}))
      on conflict (user_id) do update set email = excluded.email, token_hash = excluded.token_hash, expires_at = excluded.expires_at`;
    await queueMails(tx, {
      recipients: [email],
      subject: 'Verify your e-mail address',
      body: `Hello ${name},\n\nTo verify that ${email} is your address, open this link within ${LINK_HOURS} hours, in a browser where you are signed in:\n\n${publicUrl}/dashboard/verify-email#${token}\n\nIf you don’t have an account at ${publicUrl}, somebody else created one with your address. Don’t open the link, and tell the operator of that service.\n`,
      kind: 'email_proof',
    });
  });
}

/**
 * Takes such a link. Only its person can: otherwise somebody who took an address in advance would have its owner verify it for them.
 * Errors: email_link_invalid.
 */
export async function proveEmail(ctx: Context, { token, actor }: { token: string; actor: Actor }): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const [proof] = await tx`
      delete from email_proofs p using users u
      where p.token_hash = ${hashOf(token)} and p.user_id = ${actor.userId} and u.id = p.user_id and u.email = p.email
        and p.expires_at > clock_timestamp() returning 1`;
    if (!proof) throw new Problem('email_link_invalid');
    await markVerified(tx, { actor });
  });
}

/** The person has shown a link that went to their mailbox alone. */
export async function markVerified(tx: Tx, { actor }: { actor: Actor }): Promise<void> {
  const marked = await tx`
    update users set email_verified = true, updated_at = clock_timestamp() where id = ${actor.userId} and not email_verified`;
  if (marked.count > 0) await writeAccountAudit(tx, { actor, action: 'email.verified' });
}
