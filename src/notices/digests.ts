/** Emails about events for people who want them once a day, or not in their quiet hours: kept, and sent as one. */
import type { Context } from '#context';
import { checkTimeZone, DAY_MS, HOUR_MS, isTimeZone, MINUTE_MS } from '#core/dates';
import { Problem } from '#core/problem';
import { harmless } from '#core/text';
import { startQueue, type Tx } from '#db';
import { startLoop } from '#loop';
import { createOutbox, exactly, mailText, queueMails } from './mails.ts';
import { describe, detailFromJson, type NoticeRow, noticeMail, noticePath, payoutReaders } from './notice-kinds.ts';

const MOST_LINES = 50;
/** People whose mails are due that one round serves. */
const BATCH = 10;
type TimingRow = { timeZone: string | null; dailyHour: number | null; quietFrom: number | null; quietTo: number | null };

const timingOf = ({ timeZone, dailyHour, quietFrom, quietTo }: TimingRow): MailTiming => ({
  timeZone: timeZone ?? 'UTC',
  dailyHour,
  quiet: quietFrom === null || quietTo === null ? null : { from: quietFrom, to: quietTo },
});

/** Null: immediately, which is the default. */
export async function readMailTiming(ctx: Context, { userId }: { userId: string }): Promise<MailTiming | null> {
  const [row] = await ctx.db.sql<TimingRow[]>`
    select time_zone as "timeZone", daily_hour as "dailyHour", quiet_from as "quietFrom", quiet_to as "quietTo"
    from mail_timings where user_id = ${userId}`;
  return row ? timingOf(row) : null;
}

/** Emails that are already held follow the new timing. Errors: parameter_invalid (time_zone, quiet_to). */
export async function setMailTiming(ctx: Context, { userId, timing }: { userId: string; timing: MailTiming }): Promise<void> {
  const { timeZone, dailyHour, quiet } = timing;
  checkTimeZone(timeZone);
  if (quiet !== null && quiet.from === quiet.to)
    throw new Problem('parameter_invalid', { reason: 'quiet hours must end at a different time than they begin' }, { param: 'quiet_to' });
  const now = ctx.clock.now();
  await ctx.db.begin(async (tx) => {
    await tx`
      insert into mail_timings (user_id, time_zone, daily_hour, quiet_from, quiet_to)
      values (${userId}, ${timeZone}, ${dailyHour}, ${quiet?.from ?? null}, ${quiet?.to ?? null})
      on conflict (user_id) do update set time_zone = excluded.time_zone, daily_hour = excluded.daily_hour,
        quiet_from = excluded.quiet_from, quiet_to = excluded.quiet_to`;
    await tx`update held_mails set due_at = ${nextMail(timing, now) ?? now} where user_id = ${userId}`;
  });
}

/** Who gets an email immediately, and until when each of the others waits. */
export async function sortByTiming<P extends { userId: string }>(
  ctx: Context,
  tx: Tx,
  people: readonly P[],
): Promise<{ atOnce: P[]; later: { person: P; dueAt: Date }[] }> {
  const timings = await tx<(TimingRow & { userId: string })[]>`
    select user_id as "userId", time_zone as "timeZone", daily_hour as "dailyHour", quiet_from as "quietFrom", quiet_to as "quietTo"
    from mail_timings where user_id = any(${people.map((person) => person.userId)})`;
  const now = ctx.clock.now();
  const dueOf = new Map(timings.map((row) => [row.userId, nextMail(timingOf(row), now)]));
  const sorted: { atOnce: P[]; later: { person: P; dueAt: Date }[] } = { atOnce: [], later: [] };
  for (const person of people) {
    const dueAt = dueOf.get(person.userId) ?? null;
    if (dueAt === null) sorted.atOnce.push(person);
    else sorted.later.push({ person, dueAt });
  }
  return sorted;
}

/** Holds notices for people, in the transaction that writes the notices. */
export async function holdNotices(tx: Tx, people: readonly { userId: string; dueAt: Date }[], noticeIds: readonly bigint[]): Promise<void> {
  if (people.length === 0 || noticeIds.length === 0) return;
  await tx`
    insert into held_mails (user_id, notice_id, due_at)
    select p.user_id, n.id, p.due_at from jsonb_to_recordset(${tx.json(people.map(({ userId, dueAt }) => ({ user_id: userId, due_at: dueAt.toISOString() })))})
      as p (user_id text, due_at timestamptz), unnest(${noticeIds.map(String)}::bigint[]) as n (id)`;
}

/**
 * Sends what is due, one email per person; returns to how many. The held notices are deleted and the email is queued in one
 * transaction, so a crash in between loses nothing.
 */
export async function sendHeldMails(ctx: Context): Promise<number> {
  if (!ctx.mail) return 0;
  for (let sent = 0; sent < BATCH; sent++) {
    const [next] = await ctx.db.sql<{ userId: string }[]>`
      select user_id as "userId" from held_mails where due_at <= ${ctx.clock.now()} order by due_at limit 1`;
    if (!next) return sent;
    await ctx.db.begin((tx) => sendHeldOf(ctx, tx, next));
  }
  return BATCH;
}

async function sendHeldOf(ctx: Context, tx: Tx, { userId }: { userId: string }): Promise<void> {
  // The second of two workers finds nothing left.
  const [user] = await tx<{ email: string }[]>`select email from users where id = ${userId} for no key update`;
  // Only of merchants that the person is still a member of, and what the role allows now.
  const held = await tx<(Omit<NoticeRow, 'detail'> & { detail: unknown; merchant: string; at: Date; total: bigint })[]>`
    with taken as (delete from held_mails where user_id = ${userId} and due_at <= ${ctx.clock.now()} returning notice_id)
    select n.mode, n.kind, n.detail, n.at, m.name as merchant, count(*) over () as total
    from taken join notices n on n.id = taken.notice_id join merchants m on m.id = n.merchant_id
    where exists (select 1 from members where members.merchant_id = n.merchant_id and members.user_id = ${userId}
      and (n.detail->>'what' is distinct from 'payout' or members.role = any(${payoutReaders()}::text[])))
    order by n.id limit ${MOST_LINES}`;
  const told = await describe(
    tx,
    held.map((row) => ({ ...row, detail: detailFromJson(row.detail) })),
  );
  const [first] = told;
  if (!user || !first) return;
  const [timing] = await tx<{ timeZone: string }[]>`select time_zone as "timeZone" from mail_timings where user_id = ${userId}`;
  const timeZone = timing?.timeZone ?? 'UTC';
  const { total } = first;
  const isOneMerchant = told.every((row) => row.merchant === first.merchant);
  const about = isOneMerchant ? first.merchant : 'your merchants';
  const dashboard = `${ctx.settings.publicUrl}/dashboard`;
  const lines = told.map(
    (row) =>
      `${wallText(timeZone, row.at)} ${row.mode === 'test' ? 'TEST: ' : ''}${isOneMerchant ? '' : `${harmless(row.merchant)}: `}${noticeMail(row.kind, row.detail).text}\n${dashboard}/${row.mode ?? 'live'}/${noticePath(row.kind, row.detail)}`,
  );
  const rest =
    total > BigInt(told.length)
      ? `\n\nThese are the first ${told.length} of ${total}. See all of them: ${dashboard}/live/notifications`
      : '';
  const onlyTest = told.every((row) => row.mode === 'test') && rest === '' ? 'TEST: ' : '';
  const subject =
    total === 1n ? exactly(noticeMail(first.kind, first.detail).subject) : mailText`${String(total)} notifications from ${about}`;
  await queueMails(tx, {
    recipients: [user.email],
    subject: mailText`${exactly(onlyTest)}${subject}`,
    body: mailText`${exactly(total === 1n ? 'A new notification' : `${total} new notifications`)} from ${about}. Times are in ${exactly(timeZone)}.\n\n${exactly(lines.join('\n\n'))}${exactly(rest)}\n\nChange your email settings: ${exactly(dashboard)}/live/notifications\n`,
    kind: 'digest',
    sender: null,
  });
}

// When a person wants emails about events: at once or once a day, and not during quiet hours. Pure; days are those of a time zone.

export type MailTiming = {
  /** A name of the tz database. */
  timeZone: string;
  /** Null: at once. */
  dailyHour: number | null;
  /** Minutes of the day; it may reach past midnight. */
  quiet: { from: number; to: number } | null;
};

/** An unknown zone counts as UTC, because an error here would also roll back the payment that the mail is about. */
const formats = new Map<string, Intl.DateTimeFormat>();
function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: isTimeZone(timeZone) ? timeZone : 'UTC',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(timeZone, format);
  }
  return format;
}

/** The local time of a zone, as the milliseconds of a UTC clock that shows the same time. */
function wallOf(timeZone: string, ms: number): number {
  const part: Record<string, number> = {};
  for (const { type, value } of formatOf(timeZone).formatToParts(ms)) part[type] = Number(value);
  return Date.UTC(part.year!, part.month! - 1, part.day!, part.hour!, part.minute!, part.second!) + (ms % 1_000);
}

/** The instant at which local clocks show a time. In fall there may be two; a time skipped in spring is the moment of the change. */
function instantsOf(timeZone: string, wall: number): number[] {
  const offsetAt = (ms: number): number => wallOf(timeZone, ms) - ms;
  let [early, late] = [wall - DAY_MS, wall + DAY_MS];
  const shown = [...new Set([offsetAt(early), offsetAt(late)])]
    .map((offset) => wall - offset)
    .filter((ms) => wallOf(timeZone, ms) === wall);
  if (shown.length > 0) return shown.sort((a, b) => a - b);
  const before = offsetAt(early);
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (offsetAt(middle) === before) early = middle;
    else late = middle;
  }
  return [late];
}

const midnightOf = (wall: number): number => Math.floor(wall / DAY_MS) * DAY_MS;
const isQuiet = ({ from, to }: { from: number; to: number }, minute: number): boolean =>
  from < to ? from <= minute && minute < to : from <= minute || minute < to;

/** The end of the quiet hours that contain `ms`; `ms` itself outside quiet hours. */
function afterQuiet({ timeZone, quiet }: MailTiming, ms: number): number {
  const wall = wallOf(timeZone, ms);
  const midnight = midnightOf(wall);
  if (quiet === null || !isQuiet(quiet, (wall - midnight) / MINUTE_MS)) return ms;
  const ends = [0, 1].flatMap((day) => instantsOf(timeZone, midnight + day * DAY_MS + quiet.to * MINUTE_MS));
  return Math.min(...ends.filter((end) => end > ms));
}

/** When to send what happens `now`; null: at once. */
export function nextMail(timing: MailTiming, now: Date): Date | null {
  const ms = now.getTime();
  const { timeZone, dailyHour } = timing;
  if (dailyHour === null) {
    const at = afterQuiet(timing, ms);
    return at === ms ? null : new Date(at);
  }
  const midnight = midnightOf(wallOf(timeZone, ms));
  // The hour of yesterday may be quiet until today.
  const hours = [-1, 0, 1, 2].map((day) => instantsOf(timeZone, midnight + day * DAY_MS + dailyHour * HOUR_MS)[0]!);
  return new Date(Math.min(...hours.map((hour) => afterQuiet(timing, hour)).filter((hour) => hour > ms)));
}

/** An instant in local time: 2026-11-21 14:05. */
export const wallText = (timeZone: string, at: Date): string =>
  new Date(wallOf(timeZone, at.getTime())).toISOString().slice(0, 16).replace('T', ' ');

// The worker that sends emails and digests.

/** How often due emails are tried again while there is no room for them. */
const AGAIN_MS = 1_000;
const HOUSEKEEPING_MS = 60_000;
const KEPT_DAYS = 90;

async function forgetOld(ctx: Context): Promise<void> {
  await ctx.db.sql`delete from mails where created_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
  // Left over when the mail server is no longer configured.
  await ctx.db.sql`delete from held_mails where due_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
  await ctx.db.sql`delete from notices where at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
}

/** Starts the loops. Once a minute it also runs `chores`, the regular work of other folders. `stop` waits for what is being sent. */
export function startMails(
  ctx: Context,
  { chores = [] }: { chores?: readonly ((ctx: Context) => Promise<void>)[] } = {},
): { stop(): Promise<void> } {
  const failed = (error: unknown, failures: number) =>
    ctx.log.error({ err: error, failures }, 'Could not send emails and alerts; retrying');
  const outbox = createOutbox(ctx, { ended: () => sending.nudge() });
  const sending = startQueue(ctx, {
    name: 'mails',
    due: (sql) => (ctx.mail ? sql`least((select min(due_at) from mails), (select min(due_at) from held_mails))` : sql`null::timestamptz`),
    againMs: AGAIN_MS,
    failed,
    round: async () => {
      const held = await sendHeldMails(ctx);
      await outbox.send();
      return held > 0;
    },
  });
  const keeping = startLoop({
    pollMs: HOUSEKEEPING_MS,
    failed,
    round: async () => {
      for (const chore of [...chores, forgetOld]) await chore(ctx);
      return false;
    },
  });
  return {
    stop: async () => {
      await Promise.all([sending.stop(), keeping.stop()]);
      await outbox.settle();
    },
  };
}
