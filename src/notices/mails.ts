/** The email queue. */
import type { Context } from '../context.ts';
import type { Tx } from '../db/db.ts';

/** Emails that one round sends. */
export const BATCH = 10;
/** Minutes before each retry. After the last one, the email is marked as failed. */
const RETRY_MINUTES = [1, 5, 15, 60, 240, 720] as const;
/** An email whose worker died while sending is retried after this long. */
const LEASE_SECONDS = 120;

/**
 * Queues an email to each recipient, in the transaction of the change it reports. With a pause, recipients who recently got an email
 * of the same kind are skipped; with `pauseOf: 'subject'`, those who got the same subject.
 */
export async function queueMails(
  tx: Tx,
  mail: { recipients: readonly string[]; subject: string; body: string; kind: string; pauseMinutes?: number; pauseOf?: 'kind' | 'subject' },
): Promise<void> {
  if (mail.recipients.length === 0) return;
  await tx`
    insert into mails (recipient, subject, body, kind)
    select r, ${mail.subject}, ${mail.body}, ${mail.kind} from unnest(${mail.recipients as string[]}::text[]) as r
    where not exists (select 1 from mails m where m.recipient = r and m.kind = ${mail.kind}
      and (${mail.pauseOf !== 'subject'} or m.subject = ${mail.subject}) and m.created_at > clock_timestamp() - make_interval(mins => ${mail.pauseMinutes ?? 0}))`;
}

/** Sends due emails, at most one batch, and returns how many were tried. A crash after the mail server accepted an email sends it again. */
export async function sendDueMails(ctx: Context): Promise<number> {
  const { mail } = ctx;
  if (!mail) return 0;
  const due = await ctx.db.sql<{ id: bigint; recipient: string; subject: string; body: string; attempts: number }[]>`
    update mails set due_at = clock_timestamp() + make_interval(secs => ${LEASE_SECONDS}), attempts = attempts + 1
    where id in (select id from mails where due_at <= clock_timestamp() order by due_at limit ${BATCH} for update skip locked)
    returning id, recipient, subject, body, attempts`;
  for (const { id, recipient, subject, body, attempts } of due) {
    try {
      await mail.send({ to: recipient, subject, text: body });
      // Sent emails are not kept, because they contain links that open accounts.
      await ctx.db.sql`update mails set sent_at = clock_timestamp(), due_at = null, failure = null, body = '' where id = ${id}`;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const minutes = RETRY_MINUTES[attempts - 1];
      ctx.log.warn(
        { mail: String(id), reason, attempts },
        minutes === undefined ? 'Gave up sending an email' : 'An email was not accepted; it will be retried',
      );
      await ctx.db.sql`
        update mails set failure = ${reason.slice(0, 500)}, body = case when ${minutes === undefined} then '' else body end,
          due_at = clock_timestamp() + make_interval(mins => ${minutes ?? null}::int) where id = ${id}`;
    }
  }
  return due.length;
}

/** Emails in the queue, and emails that failed permanently in the last day. */
export async function readMailQueue(ctx: Context): Promise<{ waiting: number; failed: number }> {
  const [row] = await ctx.db.sql<{ waiting: bigint; failed: bigint }[]>`
    select (select count(*) from mails where due_at is not null) as waiting,
      (select count(*) from mails where due_at is null and sent_at is null and created_at > clock_timestamp() - interval '1 day') as failed`;
  return { waiting: Number(row!.waiting), failed: Number(row!.failed) };
}
