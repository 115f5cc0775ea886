/** Verifying that an email address belongs to the person who signs in with it, with a link that is sent only there. */
import { createHash } from 'node:crypto';
import type { Context } from '#context';
import { base62 } from '#core/id';
import { Problem } from '#core/problem';
import { type Bound, exactly, mailText, queueMails } from '#notices';
import { type Actor, markVerified } from '#people';
import type { SignedIn } from './sign-in.ts';

const LINK_HOURS = 24;
/** The address may belong to somebody else. */
const PROOFS: Bound = { anHour: 3, aDay: 10, over: 'refuse' };
const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();

export async function isEmailVerified(ctx: Context, { userId }: { userId: string }): Promise<boolean> {
  const [user] = await ctx.db.sql<{ verified: boolean }[]>`select email_verified as verified from users where id = ${userId}`;
  return user?.verified ?? false;
}

/** Sends a link to the person's email address. An older link stops working. Errors: mail_not_set_up, mail_limit_reached. */
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
      subject: mailText`Verify your email address`,
      body: mailText`Hi ${name},\n\nTo verify ${exactly(email)}, open this link within ${LINK_HOURS} hours in a browser where you’re signed in:\n\n${exactly(`${publicUrl}/dashboard/verify-email#${token}`)}\n\nIf you don’t have an account at ${exactly(publicUrl)}, someone else used your address. Don’t open the link, and contact the operator of that service.\n`,
      kind: 'email_proof',
      sender: userId,
      bound: PROOFS,
    });
  });
}

/**
 * Verifies the address with the token of such a link. Only the person it was sent for may use it: otherwise someone who signed up
 * with another person's address could have that person verify it for them. Errors: email_link_invalid.
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
