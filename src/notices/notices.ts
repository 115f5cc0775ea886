/** Notices to members: written in the transaction of what they report, shown at the bell, sent by email to members who want that. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { Problem } from '#core/problem';
import type { MemberRole } from '#core/roles';
import type { Sight } from '#core/transfer';
import type { Tx } from '#db';
import { holdNotices, sortByTiming } from './digests.ts';
import { type Bound, exactly, mailText, queueMails } from './mails.ts';
import {
  describe,
  detailFromJson,
  detailToJson,
  isAboutPayouts,
  isAlwaysMailed,
  KINDS,
  NOTICE_KINDS,
  type NoticeDetail,
  type NoticeKind,
  noticeMail,
  noticePath,
  type OwnKind,
  payoutReaders,
} from './notice-kinds.ts';

const MOST_OPERATORS = 100;
/** At most one email about the same per person in this time: a thousand exceptions are one email. Warnings have no pause. */
const MAIL_PAUSE_MINUTES = 10;
/** Warnings of a kind that a merchant's members can cause. What nobody can be warned of anymore is refused. */
const WARNINGS: Bound = { anHour: 100, aDay: 2_000, over: 'refuse' };

export type NewNotice = {
  merchantId: string;
  mode: Mode | null;
  kind: Exclude<NoticeKind, OwnKind>;
  detail: NoticeDetail;
  /** Named in emails, and read from the payment wherever else it is shown: it can be erased there. */
  description?: string | null;
  /** The member who did it gets the email as well: someone else may have done it in their name. */
  actorId?: string | null;
};

/**
 * Notifies members of merchants, in the transaction of what they are notified of. Errors: mail_limit_reached, if there were so many
 * warnings that another one could be missed.
 */
export async function notifyMembers(ctx: Context, tx: Tx, notices: readonly NewNotice[]): Promise<void> {
  if (notices.length === 0) return;
  const made = await tx<{ id: bigint }[]>`
    insert into notices (merchant_id, mode, kind, detail)
    select * from jsonb_to_recordset(${tx.json(notices.map((n) => ({ merchant_id: n.merchantId, mode: n.mode, kind: n.kind, detail: detailToJson(n.detail) })) as never)})
      as r (merchant_id text, mode text, kind text, detail jsonb) returning id`;
  if (!ctx.mail) return;
  const groups = new Map<string, (NewNotice & { id: bigint })[]>();
  for (const [i, notice] of notices.entries()) {
    const key = `${notice.merchantId} ${notice.kind} ${notice.mode} ${isAboutPayouts(notice.detail)}`;
    groups.set(key, [...(groups.get(key) ?? []), { ...notice, id: made[i]!.id }]);
  }
  for (const group of groups.values()) await mailMembers(ctx, tx, group);
}

/**
 * Notices of one merchant, mode and kind. Warnings are mailed one by one; of the others the first, because of the pause between emails;
 * digests list each.
 */
async function mailMembers(ctx: Context, tx: Tx, group: readonly (NewNotice & { id: bigint })[]): Promise<void> {
  const { merchantId, mode, kind, detail } = group[0]!;
  const { mailed, waits } = KINDS[kind];
  const actors = group.flatMap(({ actorId }) => actorId ?? []);
  const wanting = await tx<{ userId: string; email: string; merchant: string }[]>`
    select u.id as "userId", u.email, merchants.name as merchant
    from members m join users u on u.id = m.user_id join merchants on merchants.id = m.merchant_id
    left join notice_settings s on s.user_id = m.user_id and s.merchant_id = m.merchant_id and s.kind = ${kind}
    where m.merchant_id = ${merchantId}
      and coalesce(s.email, m.role = any(${mailed as string[]}::text[]) or m.user_id = any(${actors}::text[]))
      ${isAboutPayouts(detail) ? tx`and m.role = any(${payoutReaders()}::text[])` : tx``}`;
  if (wanting.length === 0) return;
  const waiting = group.filter(({ detail }) => waits?.(detail));
  const { atOnce, later } = waiting.length === 0 ? { atOnce: wanting, later: [] } : await sortByTiming(ctx, tx, wanting);
  const mail = async (people: readonly { email: string }[], notices: readonly NewNotice[]) => {
    const recipients = people.map(({ email }) => email);
    for (const notice of KINDS[kind].once === 'kind' ? notices.slice(0, 1) : notices) {
      const detail = { ...notice.detail, ...(notice.description && { description: notice.description }) };
      await queueNotice(ctx, tx, recipients, { kind, detail, mode, about: wanting[0]!.merchant, merchantId });
    }
  };
  await mail(atOnce, group);
  await mail(
    later.map(({ person }) => person),
    group.filter((notice) => !waiting.includes(notice)),
  );
  await holdNotices(
    tx,
    later.map(({ person, dueAt }) => ({ userId: person.userId, dueAt })),
    waiting.map(({ id }) => id),
  );
}

/** Notifies one user about their own account. */
export const notifyUser = (ctx: Context, tx: Tx, { userId, ...notice }: OwnNotice & { userId: string }): Promise<void> =>
  notifyUsers(ctx, tx, [userId], { ...notice, about: 'your account' });

/** Notifies the operators of the install. */
export async function notifyOperators(ctx: Context, tx: Tx, notice: OwnNotice): Promise<void> {
  const operators = await tx<{ id: string }[]>`select id from users where operator order by id limit ${MOST_OPERATORS}`;
  const ids = operators.map(({ id }) => id);
  if (ids.length > 0) await notifyUsers(ctx, tx, ids, { ...notice, about: 'this install' });
}

type OwnNotice = { kind: OwnKind; detail: NoticeDetail };
async function notifyUsers(ctx: Context, tx: Tx, userIds: string[], { kind, detail, about }: OwnNotice & { about: string }): Promise<void> {
  await tx`insert into notices (user_id, kind, detail) select id, ${kind}, ${tx.json(detailToJson(detail) as never)} from unnest(${userIds}::text[]) as u (id)`;
  if (!ctx.mail) return;
  const wanting = await tx<{ email: string }[]>`
    select u.email from users u where u.id = any(${userIds}::text[])
      and (${KINDS[kind].isAlwaysMailed === true}
        or not exists (select 1 from notice_settings s where s.user_id = u.id and s.kind = ${kind} and not s.email))`;
  const recipients = wanting.map((row) => row.email);
  await queueNotice(ctx, tx, recipients, { kind, detail, mode: null, about, merchantId: null });
}

async function queueNotice(
  ctx: Context,
  tx: Tx,
  recipients: string[],
  {
    kind,
    detail,
    mode,
    about,
    merchantId,
  }: { kind: NoticeKind; detail: NoticeDetail; mode: Mode | null; about: string; merchantId: string | null },
): Promise<void> {
  if (recipients.length === 0) return;
  const { advice, isAlwaysMailed, once, takesPower } = KINDS[kind];
  const { subject, text } = noticeMail(kind, detail);
  const dashboard = `${ctx.settings.publicUrl}/dashboard/${mode ?? 'live'}`;
  const test = mode === 'test' ? ' It happened in test mode, without real money.' : '';
  const settings = isAlwaysMailed
    ? 'This email is always sent because it is about how you sign in.'
    : `Change your email settings: ${dashboard}/notifications`;
  await queueMails(tx, {
    recipients,
    subject: exactly(`${mode === 'test' ? 'TEST: ' : ''}${subject}`),
    body: mailText`${exactly(text)}${exactly(advice === undefined ? '' : `\n\n${advice}`)}\n\nThis is about ${about}.${exactly(test)}\n\n${exactly(`${dashboard}/${noticePath(kind, detail)}`)}\n\n${exactly(settings)}\n`,
    kind,
    sender: merchantId,
    ...(once === undefined
      ? { urgent: true, ...(merchantId !== null && !takesPower?.(detail) && { bound: WARNINGS }) }
      : {
          pause: {
            minutes: MAIL_PAUSE_MINUTES,
            about: [merchantId, mode, once === 'kind' ? (detail.what ?? null) : Object.entries(detail).sort()],
          },
        }),
  });
}

type Notice = { id: bigint; mode: Mode | null; kind: NoticeKind; detail: NoticeDetail; at: Date; unread: boolean };
/** Unread notices are counted to here; beyond it they are "many". */
const MOST_UNREAD = 99;
/** Looked at for a page, and for the count of unread ones. */
const LOOK = 5_000;
type Reader = { merchantId: string; userId: string };
type ModeReader = Reader & { mode: Mode };

/**
 * What a user sees in a mode, less the kinds turned off: in live mode nothing of test mode, in test mode all of it. What is read in
 * test mode is read in both; what is read in live mode leaves the notices of test mode unread.
 */
const visible = (ctx: Context, { merchantId, userId, mode, sight }: ModeReader & { sight: Sight }) => {
  const { sql } = ctx.db;
  const hidden = sql`(select kind from notice_settings where user_id = ${userId} and merchant_id = ${merchantId} and not in_app)`;
  const walksOf = (read: ReadThrough) => [
    ...(mode === 'test' ? [{ owner: sql`merchant_id = ${merchantId} and mode = 'test'`, since: read.test }] : []),
    { owner: sql`merchant_id = ${merchantId} and mode = 'live'`, since: read.live },
    { owner: sql`merchant_id = ${merchantId} and mode is null`, since: read.live },
    { owner: sql`user_id = ${userId}`, since: read.live },
  ];
  // Walks along indexes, then one merge. There may be many of a kind that is turned off, so each walk has a bound: beyond it nobody
  // looks at a bell.
  return ({ after, read, limit }: { after: bigint | null; read: ReadThrough; limit: number }) => {
    const walks = walksOf(read).map(
      ({ owner, since }) => sql`
      (select id, mode, kind, detail, at from (
        select * from notices where ${owner} and id > ${since} ${after === null ? sql`` : sql`and id < ${after}`} order by id desc limit ${LOOK}
      ) as n where kind not in ${hidden} ${sight.payouts ? sql`` : sql`and detail->>'what' is distinct from 'payout'`} order by id desc limit ${limit})`,
    );
    return sql`${walks.reduce((all, walk) => sql`${all} union all ${walk}`)} order by id desc limit ${limit}`;
  };
};

type ReadThrough = { live: bigint; test: bigint };
const NOTHING_READ: ReadThrough = { live: 0n, test: 0n };

/** The notices that a member sees in a mode, newest first. */
export async function listNotices(
  ctx: Context,
  { limit, startingAfter, ...reader }: ModeReader & { sight: Sight; limit: number; startingAfter: bigint | null },
): Promise<{ notices: Notice[]; hasMore: boolean; unread: number }> {
  const { sql } = ctx.db;
  const rows = visible(ctx, reader);
  const [read = NOTHING_READ] = await sql<ReadThrough[]>`
    select read_through as live, read_through_test as test from notice_reads
    where user_id = ${reader.userId} and merchant_id = ${reader.merchantId}`;
  const found = await sql<(Omit<Notice, 'detail'> & { detail: unknown })[]>`
    select *, id > case when mode = 'test' then ${read.test}::bigint else ${read.live}::bigint end as unread
    from (${rows({ after: startingAfter, read: NOTHING_READ, limit: limit + 1 })}) as n`;
  const [count] = await sql<{ unread: bigint }[]>`
    select count(*) as unread from (${rows({ after: null, read, limit: MOST_UNREAD })}) as n`;
  const page = found.slice(0, limit).map((row) => ({ ...row, detail: detailFromJson(row.detail) }));
  return { notices: await describe(sql, page), hasMore: found.length > limit, unread: Number(count!.unread) };
}

/** Marks all notices that a mode shows, up to one of them, as read. None that is yet to come: it may be a warning. */
export async function readNotices(ctx: Context, { merchantId, userId, mode, through }: ModeReader & { through: bigint }): Promise<void> {
  await ctx.db.sql`
    insert into notice_reads (user_id, merchant_id, read_through, read_through_test)
    select ${userId}, ${merchantId}, known, case when ${mode === 'test'} then known else 0 end
    from (select least(${through}, coalesce((select max(id) from notices), 0)) as known) as newest
    on conflict (user_id, merchant_id) do update set read_through = greatest(notice_reads.read_through, excluded.read_through),
      read_through_test = greatest(notice_reads.read_through_test, excluded.read_through_test)`;
}

type NoticeSetting = { kind: NoticeKind; inApp: boolean; email: boolean };
export async function listNoticeSettings(
  ctx: Context,
  { merchantId, userId, role }: Reader & { role: MemberRole },
): Promise<NoticeSetting[]> {
  const rows = await ctx.db.sql<NoticeSetting[]>`
    select kind, in_app as "inApp", email from notice_settings where user_id = ${userId} and merchant_id = ${merchantId}`;
  return NOTICE_KINDS.map((kind) => {
    const row = rows.find((one) => one.kind === kind);
    return { kind, inApp: row?.inApp ?? true, email: isAlwaysMailed(kind) || (row?.email ?? KINDS[kind].mailed.includes(role)) };
  });
}
/** Errors: parameter_invalid (email) where the email is always sent. */
export async function setNoticeSetting(ctx: Context, { merchantId, userId, kind, inApp, email }: Reader & NoticeSetting): Promise<void> {
  if (!email && isAlwaysMailed(kind)) throw new Problem('parameter_invalid', { reason: 'this email is always sent' }, { param: 'email' });
  await ctx.db.sql`
    insert into notice_settings (user_id, merchant_id, kind, in_app, email) values (${userId}, ${merchantId}, ${kind}, ${inApp}, ${email})
    on conflict (user_id, merchant_id, kind) do update set in_app = excluded.in_app, email = excluded.email`;
}

/** For each owner the newest notice, as a text that changes with it. */
export async function readNoticePulse(ctx: Context, { owners }: { owners: readonly { merchantId: string }[] }): Promise<(string | null)[]> {
  const rows = await ctx.db.sql<{ pulse: string | null }[]>`
    select (select id::text from notices n where n.merchant_id = o.merchant_id order by id desc limit 1) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[]) with ordinality as o (merchant_id, n) order by o.n`;
  return rows.map((row) => row.pulse);
}
