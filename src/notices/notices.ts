/** Notices to members: written in the transaction of what they report, shown at the bell, sent by email to members who want that. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { Problem } from '../core/problem.ts';
import { type MemberRole, ROLES } from '../core/roles.ts';
import type { Sql, Tx } from '../db/db.ts';
import { holdNotices, sortByTiming } from './digests.ts';
import { queueMails } from './mails.ts';
import { attentionWords, reversedWords } from './payment-notices.ts';

export const NOTICE_KINDS = [
  'endpoint_off',
  'payment_attention',
  'payment_reversed',
  'payments_unavailable',
  'usage',
  'wallet_changed',
  'endpoint_changed',
  'key_created',
  'sign_in',
  'device_trusted',
  'account_changed',
  'codes_failed',
  'chain_failing',
] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];
type Detail = Readonly<Record<string, string | number | null>>;

/** What may change about how a person signs in. `by`: the operator, else the person. */
export type AccountChange =
  | 'passkey_added'
  | 'passkey_removed'
  | 'second_factor_added'
  | 'second_factor_removed'
  | 'backup_codes_renewed'
  | 'password_changed'
  | 'password_reset'
  | 'password_reset_by_mail'
  | 'password_and_factors_reset'
  | 'factors_reset';
const ACCOUNT_CHANGES: Readonly<Record<AccountChange, (detail: Detail) => string>> = {
  passkey_added: ({ name, ip }) => `The passkey “${name}” was added to your account from ${ip}.`,
  passkey_removed: ({ name, ip }) => `The passkey “${name}” was removed from your account from ${ip}.`,
  second_factor_added: ({ ip }) => `A second factor was added to your account from ${ip}.`,
  second_factor_removed: ({ ip }) => `The second factor of your account was turned off from ${ip}.`,
  backup_codes_renewed: ({ ip }) => `The backup codes of your account were replaced from ${ip}.`,
  password_changed: ({ ip }) => `The password of your account was changed from ${ip}.`,
  password_reset_by_mail: ({ ip }) =>
    `Your password was reset from ${ip} with a link sent to this address, and you were signed out everywhere.`,
  password_reset: () => 'The operator of this service reset your password and signed you out everywhere.',
  password_and_factors_reset: () =>
    'The operator of this service reset your password, removed your second factor and passkeys, and signed you out everywhere.',
  factors_reset: () => 'The operator of this service removed your second factor and passkeys, and signed you out everywhere.',
};

const grouped = (value: Detail[string] | undefined): string => String(value).replace(/\B(?=(\d{3})+$)/g, ',');

const IF_NOT_YOU =
  'If this wasn’t you, sign in, change your password, and sign out everywhere else. If you can’t sign in, contact the operator of this service.';
const IF_UNEXPECTED = 'If nobody on your team meant to do this, undo it and change the password of the account that did it.';

/**
 * Which roles get an email by default, and the words of it. Every kind shows at the bell unless it is turned off.
 * `waits`: its email may wait for a digest or the end of quiet hours; security notices and urgent ones never wait.
 * `isAlwaysMailed`: its email cannot be turned off, because a thief would. `advice`: what to do, in the email.
 * `isPausedByKind`: of several within the pause one is sent, also when their words differ.
 */
const KINDS: Readonly<
  Record<
    NoticeKind,
    {
      mailed: readonly MemberRole[];
      words: (detail: Detail) => string;
      to: string;
      waits?: (detail: Detail) => boolean;
      isAlwaysMailed?: true;
      isPausedByKind?: true;
      advice?: string;
    }
  >
> = {
  endpoint_off: {
    mailed: ['owner', 'admin', 'developer'],
    words: ({ reason }) =>
      reason === 'gone'
        ? 'A webhook endpoint was disabled: it answered 410 Gone.'
        : 'A webhook endpoint was disabled after five days of failed deliveries.',
    to: 'webhooks',
  },
  payment_attention: {
    mailed: [],
    words: attentionWords,
    to: 'payments',
    waits: () => true,
  },
  payment_reversed: {
    mailed: ['owner', 'finance'],
    words: reversedWords,
    to: 'payments',
    isPausedByKind: true,
    advice: 'If you have not shipped the order yet, wait until the payment is confirmed again. Otherwise contact your customer.',
  },
  payments_unavailable: {
    mailed: ['owner', 'admin', 'developer'],
    words: ({ reason }) => `Customers can’t pay you right now: no currency is available. ${String(reason)}`,
    to: 'wallets',
    advice: 'Open Wallets to see what is missing and how to fix it. Payment pages continue as soon as a currency is ready.',
  },
  usage: {
    mailed: ['owner', 'admin'],
    words: ({ percent, used, limit }) => `You have used ${percent}% of this month’s live payments: ${grouped(used)} of ${grouped(limit)}.`,
    to: 'usage',
    // At 100% new payments are refused.
    waits: ({ percent }) => Number(percent) < 100,
  },
  wallet_changed: {
    mailed: ['owner'],
    words: ({ coin, asked_by, due_at, first }) => {
      const on = `on ${String(due_at).slice(0, 16).replace('T', ' ')} UTC, unless an owner cancels the change or a second owner confirms it earlier.`;
      // Without a coin it is about the waiting period itself.
      if (coin === undefined)
        return due_at === undefined
          ? 'The waiting period for wallet changes is off: wallet changes take effect immediately.'
          : `${asked_by} asked to turn off the waiting period for wallet changes. It ends ${on}`;
      if (first !== undefined) return `${asked_by} added a ${coin} wallet. It starts receiving payments ${on}`;
      return due_at === undefined
        ? `The ${coin} wallet that receives payments was changed.`
        : `${asked_by} asked to change the ${coin} wallet. The new wallet starts receiving payments ${on}`;
    },
    to: 'wallets',
  },
  endpoint_changed: {
    mailed: ['owner'],
    words: ({ by, host, was }) =>
      was === undefined
        ? `${by} added a live webhook endpoint at ${host}.`
        : `${by} changed the URL of a live webhook endpoint${was === host ? ` at ${host}` : ` from ${was} to ${host}`}.`,
    to: 'webhooks',
    advice: IF_UNEXPECTED,
  },
  key_created: {
    mailed: ['owner'],
    words: ({ by, name }) => `${by} created the live secret key “${name}”.`,
    to: 'keys',
    advice: IF_UNEXPECTED,
  },
  sign_in: {
    mailed: ROLES,
    words: ({ ip }) => `New sign-in to your account from a new browser or address (${ip}).`,
    to: 'security',
    advice: IF_NOT_YOU,
  },
  device_trusted: {
    mailed: ROLES,
    words: ({ ip }) => `A browser at ${ip} was trusted: it can sign in without a code for 30 days.`,
    to: 'security',
    advice: IF_NOT_YOU,
  },
  account_changed: {
    mailed: ROLES,
    words: (detail) => ACCOUNT_CHANGES[detail.change as AccountChange](detail),
    to: 'security',
    isAlwaysMailed: true,
    advice: IF_NOT_YOU,
  },
  codes_failed: {
    mailed: ROLES,
    words: ({ wrong, ip, locked_minutes: minutes }) =>
      minutes === undefined
        ? `Someone at ${ip} who knows your password entered ${wrong} wrong codes in a row.`
        : `Someone at ${ip} who knows your password entered ${wrong} wrong codes in a row. Codes are blocked for ${lengthOf(Number(minutes))}.`,
    to: 'security',
    isAlwaysMailed: true,
    advice: 'If this was you, sign in with a passkey or a backup code, or wait. If it wasn’t, change your password: someone else has it.',
  },
  chain_failing: {
    // To operators of the install, in every role.
    mailed: ROLES,
    words: ({ coin, height, reason }) =>
      `Block ${grouped(height)} of ${coin} cannot be read. Payments in this block and later ones are not detected until it can. ${String(reason)}`,
    to: 'operator',
  },
};
const lengthOf = (minutes: number): string =>
  minutes < 60 ? `${minutes} minutes` : minutes === 60 ? '1 hour' : `${Math.round(minutes / 60)} hours`;
/** About the person's own account or the install, not about a merchant. */
type OwnKind = 'sign_in' | 'device_trusted' | 'account_changed' | 'codes_failed' | 'chain_failing';
const MOST_OPERATORS = 100;
/** At most one email of a kind per person in this time: a thousand exceptions are one email. */
const MAIL_PAUSE_MINUTES = 10;

export const noticeText = (kind: NoticeKind, detail: Detail): string => KINDS[kind].words(detail);

/** The screen it is about, below the dashboard's mode. */
export const noticePath = (kind: NoticeKind, detail: Detail): string =>
  typeof detail.payment === 'string' ? `payments/${detail.payment}` : KINDS[kind].to;
export type NoticeRow = { mode: Mode | null; kind: NoticeKind; detail: Detail };

export type NewNotice = {
  merchantId: string;
  mode: Mode | null;
  kind: Exclude<NoticeKind, OwnKind>;
  detail: Detail;
  /** Named in emails, and read from the payment wherever else it is shown: it can be erased there. */
  description?: string | null;
  /** The member who did it gets the email as well: someone else may have done it in their name. */
  actorId?: string | null;
};

/** Notifies members of merchants, in the transaction of what they are notified of. */
export async function notifyMembers(ctx: Context, tx: Tx, notices: readonly NewNotice[]): Promise<void> {
  if (notices.length === 0) return;
  const made = await tx<{ id: bigint }[]>`
    insert into notices (merchant_id, mode, kind, detail)
    select * from jsonb_to_recordset(${tx.json(notices.map((n) => ({ merchant_id: n.merchantId, mode: n.mode, kind: n.kind, detail: n.detail })) as never)})
      as r (merchant_id text, mode text, kind text, detail jsonb) returning id`;
  if (!ctx.mail) return;
  const groups = new Map<string, (NewNotice & { id: bigint })[]>();
  for (const [i, notice] of notices.entries()) {
    const key = `${notice.merchantId} ${notice.kind} ${notice.mode}`;
    groups.set(key, [...(groups.get(key) ?? []), { ...notice, id: made[i]!.id }]);
  }
  for (const group of groups.values()) await mailMembers(ctx, tx, group);
}

/** Notices of one merchant, mode and kind: one email for all of them, because of the pause between emails; digests list each. */
async function mailMembers(ctx: Context, tx: Tx, group: readonly (NewNotice & { id: bigint })[]): Promise<void> {
  const { merchantId, mode, kind } = group[0]!;
  const { mailed, waits } = KINDS[kind];
  const actors = group.flatMap(({ actorId }) => actorId ?? []);
  const wanting = await tx<{ userId: string; email: string; merchant: string }[]>`
    select u.id as "userId", u.email, merchants.name as merchant
    from members m join users u on u.id = m.user_id join merchants on merchants.id = m.merchant_id
    left join notice_settings s on s.user_id = m.user_id and s.merchant_id = m.merchant_id and s.kind = ${kind}
    where m.merchant_id = ${merchantId}
      and coalesce(s.email, m.role = any(${mailed as string[]}::text[]) or m.user_id = any(${actors}::text[]))`;
  if (wanting.length === 0) return;
  const waiting = group.filter(({ detail }) => waits?.(detail));
  const { atOnce, later } = waiting.length === 0 ? { atOnce: wanting, later: [] } : await sortByTiming(ctx, tx, wanting);
  const mail = async (people: readonly { email: string }[], notice: NewNotice | undefined) => {
    if (notice === undefined || people.length === 0) return;
    const recipients = people.map(({ email }) => email);
    const detail = { ...notice.detail, ...(notice.description && { description: notice.description }) };
    await queueNotice(ctx, tx, recipients, { kind, detail, mode, about: wanting[0]!.merchant });
  };
  await mail(atOnce, group[0]);
  await mail(
    later.map(({ person }) => person),
    group.find((notice) => !waiting.includes(notice)),
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

type OwnNotice = { kind: OwnKind; detail: Detail };
async function notifyUsers(ctx: Context, tx: Tx, userIds: string[], { kind, detail, about }: OwnNotice & { about: string }): Promise<void> {
  await tx`insert into notices (user_id, kind, detail) select id, ${kind}, ${tx.json(detail)} from unnest(${userIds}::text[]) as u (id)`;
  if (!ctx.mail) return;
  const wanting = await tx<{ email: string }[]>`
    select u.email from users u where u.id = any(${userIds}::text[])
      and (${KINDS[kind].isAlwaysMailed === true}
        or not exists (select 1 from notice_settings s where s.user_id = u.id and s.kind = ${kind} and not s.email))`;
  const recipients = wanting.map((row) => row.email);
  await queueNotice(ctx, tx, recipients, { kind, detail, mode: null, about });
}

async function queueNotice(
  ctx: Context,
  tx: Tx,
  recipients: string[],
  { kind, detail, mode, about }: { kind: NoticeKind; detail: Detail; mode: Mode | null; about: string },
): Promise<void> {
  const words = noticeText(kind, detail);
  const { advice, isAlwaysMailed, isPausedByKind } = KINDS[kind];
  await queueMails(tx, {
    recipients,
    subject: `${mode === 'test' ? 'TEST: ' : ''}${words}`.slice(0, 120),
    body: `${words}${advice === undefined ? '' : `\n\n${advice}`}\n\nThis is about ${about}.${mode === 'test' ? ' It happened in test mode, without real money.' : ''}\n\n${ctx.settings.publicUrl}/dashboard/${mode ?? 'live'}/${noticePath(kind, detail)}\n\n${isAlwaysMailed ? 'This email is always sent because it is about how you sign in.' : `Change your email settings: ${ctx.settings.publicUrl}/dashboard/${mode ?? 'live'}/notifications`}\n`,
    kind,
    // Every change of how a person signs in is sent: the second one may be a thief's. There are few of them.
    pauseMinutes: kind === 'account_changed' ? 0 : MAIL_PAUSE_MINUTES,
    // A harmless change must not hide the one after it.
    pauseOf: KINDS[kind].waits || isPausedByKind ? 'kind' : 'subject',
  });
}

export type Notice = { id: bigint; mode: Mode | null; kind: NoticeKind; detail: Detail; at: Date; unread: boolean };
/** Unread notices are counted to here; beyond it they are "many". */
export const MOST_UNREAD = 99;
/** Looked at for a page, and for the count of unread ones. */
const LOOK = 5_000;
type Reader = { merchantId: string; userId: string };
type ModeReader = Reader & { mode: Mode };

/**
 * What a user sees in a mode, less the kinds turned off: in live mode nothing of test mode, in test mode all of it. What is read in
 * test mode is read in both; what is read in live mode leaves the notices of test mode unread.
 */
const visible = (ctx: Context, { merchantId, userId, mode }: ModeReader) => {
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
      ) as n where kind not in ${hidden} order by id desc limit ${limit})`,
    );
    return sql`${walks.reduce((all, walk) => sql`${all} union all ${walk}`)} order by id desc limit ${limit}`;
  };
};

type ReadThrough = { live: bigint; test: bigint };
const NOTHING_READ: ReadThrough = { live: 0n, test: 0n };

/** The notices that a member sees in a mode, newest first. */
export async function listNotices(
  ctx: Context,
  { limit, startingAfter, ...reader }: ModeReader & { limit: number; startingAfter: bigint | null },
): Promise<{ notices: Notice[]; hasMore: boolean; unread: number }> {
  const { sql } = ctx.db;
  const rows = visible(ctx, reader);
  const [read = NOTHING_READ] = await sql<ReadThrough[]>`
    select read_through as live, read_through_test as test from notice_reads
    where user_id = ${reader.userId} and merchant_id = ${reader.merchantId}`;
  const found = await sql<Notice[]>`
    select *, id > case when mode = 'test' then ${read.test}::bigint else ${read.live}::bigint end as unread
    from (${rows({ after: startingAfter, read: NOTHING_READ, limit: limit + 1 })}) as n`;
  const [count] = await sql<{ unread: bigint }[]>`
    select count(*) as unread from (${rows({ after: null, read, limit: MOST_UNREAD })}) as n`;
  return { notices: await describe(sql, found.slice(0, limit)), hasMore: found.length > limit, unread: Number(count!.unread) };
}

/** Adds the description of the payment to notices about one, as it is now: it may have been erased. Customers' own words stay out. */
export async function describe<N extends { detail: Detail }>(sql: Sql | Tx, notices: readonly N[]): Promise<N[]> {
  const ids = notices.flatMap(({ detail }) => (typeof detail.payment === 'string' && detail.invoice === null ? [detail.payment] : []));
  if (ids.length === 0) return [...notices];
  const rows = await sql<{ id: string; description: string }[]>`
    select id, request->>'description' as description from payments
    where id = any(${ids}::text[]) and created_with = 'secret' and request->>'description' is not null`;
  const found = new Map(rows.map(({ id, description }) => [id, description]));
  return notices.map((notice) => {
    const description = found.get(String(notice.detail.payment));
    return description === undefined ? notice : { ...notice, detail: { ...notice.detail, description } };
  });
}

/** Marks all notices that a mode shows, up to one of them, as read. */
export async function readNotices(ctx: Context, { merchantId, userId, mode, through }: ModeReader & { through: bigint }): Promise<void> {
  await ctx.db.sql`
    insert into notice_reads (user_id, merchant_id, read_through, read_through_test)
    values (${userId}, ${merchantId}, ${through}, ${mode === 'test' ? through : 0n})
    on conflict (user_id, merchant_id) do update set read_through = greatest(notice_reads.read_through, excluded.read_through),
      read_through_test = greatest(notice_reads.read_through_test, excluded.read_through_test)`;
}

export type NoticeSetting = { kind: NoticeKind; inApp: boolean; email: boolean };
/** Whether its email cannot be turned off. */
export const isAlwaysMailed = (kind: NoticeKind): boolean => KINDS[kind].isAlwaysMailed === true;
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
