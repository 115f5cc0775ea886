/** The email queue: what may be queued, and in which order it is sent. */
import { createHash } from 'node:crypto';
import type { Context } from '#context';
import { Problem } from '#core/problem';
import { harmless } from '#core/text';
import type { Fragment, Tx } from '#db';

/** Emails of each lane that are sent at once. A slow one of others never takes the place of an urgent one. */
const AT_ONCE = 3;
/** Minutes before each retry. After the last one, the email is marked as failed. */
const RETRY_MINUTES = [1, 5, 15, 60, 240, 720] as const;
/** An email whose worker died while sending is retried after this long. */
const LEASE_SECONDS = 120;
/** Emails of one sender that may wait. Urgent ones are bounded by their number an hour. */
const MOST_WAITING = 5_000;

/**
 * What may be sent of a kind for one sender: to one mailbox in an hour, and in total in a day. `over`: whether the act that needs more
 * is refused, or only the email is left out.
 */
export type Bound = { anHour: number; aDay: number; over: 'refuse' | 'skip' };

export type NewMail = {
  recipients: readonly string[];
  subject: MailText;
  body: MailText;
  kind: string;
  /** The merchant or the user that caused it; null: each recipient. The senders of a lane take turns. */
  sender: string | null;
  /** Reset links and warnings, which no other email may delay. */
  urgent?: true;
  bound?: Bound;
  /** Who got an email of the same kind about the same within these minutes gets no other. `about` is all that makes two of them the same. */
  pause?: { minutes: number; about: unknown };
};

const identityOf = (about: unknown): Buffer => createHash('sha256').update(JSON.stringify(about)).digest();
/** SQL: one mailbox has many addresses. Case, dots, and what follows a plus sign do not count, as at the largest providers. */
const mailboxOf = (tx: Tx, address: Fragment) => tx`
  lower(replace(split_part(split_part(${address}, '@', 1), '+', 1), '.', '') || '@' || split_part(${address}, '@', -1))`;

/**
 * Queues an email to each recipient, in the transaction of the change it reports. Returns whether the bound allowed it. Errors:
 * mail_limit_reached, if the bound says so.
 */
export async function queueMails(tx: Tx, mail: NewMail): Promise<boolean> {
  const { recipients, kind, sender, bound, pause } = mail;
  if (recipients.length === 0) return true;
  if (bound) {
    const wait = await waitOf(tx, { recipients, kind, sender, bound });
    if (wait !== null && bound.over === 'skip') return false;
    if (wait !== null) {
      const minutes = Math.max(1, Math.ceil(wait / 60));
      const shown = minutes > 120 ? `${Math.ceil(minutes / 60)} hours` : `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`;
      throw new Problem('mail_limit_reached', { wait: shown }, { retryAfterSeconds: Math.max(1, wait) });
    }
  }
  const urgent = mail.urgent === true;
  const identity = pause ? identityOf(pause.about) : null;
  await tx`
    insert into mails (recipient, subject, body, kind, urgent, sender, identity)
    select r, ${mail.subject.text}, ${mail.body.text}, ${kind}, ${urgent}, coalesce(${sender}, r), ${identity}
    from unnest(${recipients as string[]}::text[]) as r
    where not exists (select 1 from mails m where m.recipient = r and m.kind = ${kind} and m.identity = ${identity}::bytea
        and m.created_at > clock_timestamp() - make_interval(mins => ${pause?.minutes ?? 0}))
      and (${urgent} or not exists (
        select 1 from mails w where w.sender = coalesce(${sender}, r) and not w.urgent and w.due_at is not null offset ${MOST_WAITING - 1}))`;
  return true;
}

/** Takes back what was queued with one of these as its `pause.about` and is not sent. */
export async function withdrawMails(tx: Tx, { kind, about }: { kind: string; about: readonly unknown[] }): Promise<void> {
  if (about.length > 0)
    await tx`delete from mails where kind = ${kind} and identity = any(${about.map(identityOf)}::bytea[]) and due_at is not null`;
}

/** The recipient acted on an email: it was wanted, so it does not count against the bound. */
export const forgetSent = (tx: Tx, { kind, sender, recipient }: { kind: string; sender: string; recipient: string }) => tx`
  update mails set sender = recipient where kind = ${kind} and sender = ${sender} and recipient = ${recipient}`;

/** The seconds until the bound allows another email to all recipients; null: it does now. */
async function waitOf(
  tx: Tx,
  { recipients, kind, sender, bound }: Pick<NewMail, 'recipients' | 'kind' | 'sender'> & { bound: Bound },
): Promise<number | null> {
  let longest: number | null = null;
  for (const recipient of recipients) {
    const own = sender ?? recipient;
    // One after another, so that two requests at once do not both take the last place.
    if (bound.over === 'refuse') await tx`select pg_advisory_xact_lock(hashtextextended(${`mails ${kind} ${own}`}, 0))`;
    const sent = tx`from mails where sender = ${own} and kind = ${kind} and created_at > clock_timestamp() - make_interval(hours => 24)`;
    const [row] = await tx<{ wait: number | null }[]>`
      select ceil(greatest(
        (select extract(epoch from created_at + interval '24 hours' - clock_timestamp()) ${sent}
          order by created_at desc offset ${bound.aDay - 1} limit 1),
        (select extract(epoch from created_at + interval '1 hour' - clock_timestamp()) ${sent}
          and created_at > clock_timestamp() - interval '1 hour' and ${mailboxOf(tx, tx`recipient`)} = ${mailboxOf(tx, tx`${recipient}::text`)}
          order by created_at desc offset ${bound.anHour - 1} limit 1)))::int as wait`;
    if (row!.wait !== null) longest = Math.max(longest ?? 0, row!.wait);
  }
  return longest;
}

type DueMail = { id: bigint; recipient: string; subject: string; body: string; attempts: number; urgent: boolean };

/**
 * Takes due emails of both lanes, at most as many as there is room for. In each lane the senders take turns, so that nobody waits for
 * all the emails of another.
 */
const takeDue = (ctx: Context, room: { urgent: number; other: number }): Promise<DueMail[]> =>
  ctx.db.sql<DueMail[]>`
    with senders as (select distinct urgent, sender from mails where due_at <= clock_timestamp()),
    turns as (
      select one.id, one.due_at, senders.urgent, row_number() over (partition by senders.urgent order by one.turn, one.due_at, one.id) as place
      from senders cross join lateral (
        select m.id, m.due_at, row_number() over (order by m.due_at, m.id) as turn from mails m
        where m.urgent = senders.urgent and m.sender = senders.sender and m.due_at <= clock_timestamp()
        order by m.due_at, m.id limit ${Math.max(room.urgent, room.other)}
      ) as one
    )
    update mails set due_at = clock_timestamp() + make_interval(secs => ${LEASE_SECONDS}), attempts = attempts + 1
    where id in (
      select id from mails where due_at <= clock_timestamp()
        and id = any(array(select id from turns where place <= case when urgent then ${room.urgent}::int else ${room.other}::int end))
      for update skip locked)
    returning id, recipient, subject, body, attempts, urgent`;

async function sendMail(ctx: Context, { id, recipient, subject, body, attempts }: DueMail): Promise<void> {
  try {
    await ctx.mail!.send({ to: recipient, subject, text: body });
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

type Outbox = {
  /** Begins to send due emails, as many as there is room for. Returns how many. A crash after the mail server accepted an email sends it again. */
  send(): Promise<number>;
  /** Waits for what is being sent. */
  settle(): Promise<void>;
};

/** Sends emails, a few of each lane at once. `ended` is called after each, because there is room again. */
export function createOutbox(ctx: Context, { ended = () => {} }: { ended?: () => void } = {}): Outbox {
  const sending = { urgent: new Set<Promise<void>>(), other: new Set<Promise<void>>() };
  return {
    send: async () => {
      const room = { urgent: AT_ONCE - sending.urgent.size, other: AT_ONCE - sending.other.size };
      if (!ctx.mail || room.urgent + room.other === 0) return 0;
      const due = await takeDue(ctx, room);
      for (const mail of due) {
        const lane = sending[mail.urgent ? 'urgent' : 'other'];
        const sent = sendMail(ctx, mail)
          .catch((error: unknown) => ctx.log.error({ err: error }, 'Could not record that an email was sent'))
          .then(() => {
            lane.delete(sent);
            ended();
          });
        lane.add(sent);
      }
      return due.length;
    },
    settle: async () => void (await Promise.all([...sending.urgent, ...sending.other])),
  };
}

/** Emails in the queue, and emails that failed permanently in the last day. */
export async function readMailQueue(ctx: Context): Promise<{ waiting: number; failed: number }> {
  const [row] = await ctx.db.sql<{ waiting: bigint; failed: bigint }[]>`
    select (select count(*) from mails where due_at is not null) as waiting,
      (select count(*) from mails where due_at is null and sent_at is null and created_at > clock_timestamp() - interval '1 day') as failed`;
  return { waiting: Number(row!.waiting), failed: Number(row!.failed) };
}

// The text of emails: what people wrote goes in as one harmless line, and everything else is named where it is written.

declare const made: unique symbol;
/** Subject or body of an email. Only `mailText` and `exactly` make one, so that nobody's name becomes a link or a line of its own. */
type MailText = { readonly text: string; readonly [made]: true };

/** Text of ours, as it is: a link of this install, an address, an amount, or words that were made harmless before. */
export const exactly = (text: string): MailText => ({ text }) as MailText;

/** Fills in a text. Strings are made harmless; `exactly` marks those that are ours. */
export const mailText = (parts: TemplateStringsArray, ...values: readonly (string | number | MailText)[]): MailText =>
  exactly(
    parts.reduce((all, part, i) => {
      const value = values[i - 1]!;
      return `${all}${typeof value === 'object' ? value.text : harmless(String(value))}${part}`;
    }),
  );

/** Lines of a body. */
export const mailLines = (lines: readonly MailText[]): MailText => exactly(lines.map(({ text }) => text).join('\n'));
