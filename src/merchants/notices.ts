/** What members should know: written with what it reports, read at the bell, sent by e-mail to those who want it. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { holdNotices, sortByTiming } from './digests.ts';
import { queueMails } from './mails.ts';
import { type MemberRole, ROLES } from './roles.ts';

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
const IF_UNEXPECTED = 'If nobody in your business meant to do this, undo it and change the password of the account that did it.';

/**
 * Who gets an e-mail unless they said otherwise, and the words of it. At the bell everything shows unless it is turned off.
 * `waits`: its e-mail may wait for a digest or the end of quiet hours. What is about security, or asks for an act soon, never does.
 * `isAlwaysMailed`: nobody can turn its e-mail off, because a thief would. `advice`: what to do about it, in the e-mail.
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
      advice?: string;
    }
  >
> = {
  endpoint_off: {
    mailed: ['owner', 'admin', 'developer'],
    words: ({ reason }) =>
      reason === 'gone'
        ? 'A webhook endpoint was switched off: it answered that it is gone.'
        : 'A webhook endpoint was switched off: it only failed for five days.',
    to: 'webhooks',
  },
  payment_attention: {
    mailed: [],
    words: ({ exception }) => `A payment needs your attention: ${String(exception).replaceAll('_', ' ')}.`,
    to: 'payments',
    waits: () => true,
  },
  payment_reversed: {
    mailed: ['owner', 'finance'],
    words: () => 'A completed payment lost its money: the network took a transfer back, or it is no longer confirmed.',
    to: 'payments',
  },
  payments_unavailable: {
    mailed: ['owner', 'admin', 'developer'],
    words: ({ reason }) => `Customers can’t pay you right now: no currency is available. ${String(reason)}`,
    to: 'wallets',
    advice: 'Open Wallets to see what is missing and how to fix it. Payment pages continue as soon as a currency is ready.',
  },
  usage: {
    mailed: ['owner', 'admin'],
    words: ({ percent, used, limit }) => `${percent} % of the month’s live payments are used: ${grouped(used)} of ${grouped(limit)}.`,
    to: 'usage',
    // At 100 % new payments are refused.
    waits: ({ percent }) => Number(percent) < 100,
  },
  wallet_changed: {
    mailed: ['owner'],
    words: ({ coin, asked_by, due_at, first }) => {
      const from = `from ${String(due_at).slice(0, 16).replace('T', ' ')} UTC on, unless an owner drops the change, or a second one lets it act at once.`;
      // Without a coin it is about the wait itself.
      if (coin === undefined)
        return due_at === undefined
          ? 'A change of a wallet now takes effect at once: the wait before it is off.'
          : `${asked_by} asked to turn off the wait before a change of a wallet. Changes take effect at once ${from}`;
      if (first !== undefined) return `${asked_by} added a ${coin} wallet. Payments in ${coin} go to it ${from}`;
      return due_at === undefined
        ? `The ${coin} wallet that payments go to was changed.`
        : `${asked_by} asked for another ${coin} wallet. Payments go to it ${from}`;
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
    words: ({ ip }) => `Your account was signed in to from a new browser or address (${ip}).`,
    to: 'security',
    advice: IF_NOT_YOU,
  },
  device_trusted: {
    mailed: ROLES,
    words: ({ ip }) => `Sign-ins from a browser at ${ip} are not asked for a code for 30 days.`,
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
        ? `Somebody at ${ip} who knows your password entered ${wrong} wrong codes in a row.`
        : `Somebody at ${ip} who knows your password entered ${wrong} wrong codes in a row. Codes are not accepted for ${lengthOf(Number(minutes))}.`,
    to: 'security',
    isAlwaysMailed: true,
    advice:
      'If this was you, sign in with a passkey or a backup code, or wait. If it wasn’t, change your password: whoever did this has it.',
  },
  chain_failing: {
    // Of those who run the install, whatever their role at a merchant is.
    mailed: ROLES,
    words: ({ coin, height, reason }) =>
      `Block ${grouped(height)} of ${coin} cannot be read: payments in it and after it are not seen until it can. ${String(reason)}`,
    to: 'operator',
  },
};
const lengthOf = (minutes: number): string =>
  minutes < 60 ? `${minutes} minutes` : minutes === 60 ? '1 hour' : `${Math.round(minutes / 60)} hours`;
/** About one's own account or the install, not about a merchant. */
type OwnKind = 'sign_in' | 'device_trusted' | 'account_changed' | 'codes_failed' | 'chain_failing';
const MOST_OPERATORS = 100;
/** Mails of one kind to one person follow each other no faster than this: a thousand exceptions are one mail. */
const MAIL_PAUSE_MINUTES = 10;

export const noticeText = (kind: NoticeKind, detail: Detail): string => KINDS[kind].words(detail);

/** Where it is seen, below the dashboard's mode. */
export const noticePath = (kind: NoticeKind, detail: Detail): string =>
  typeof detail.payment === 'string' ? `payments/${detail.payment}` : KINDS[kind].to;
export type NoticeRow = { mode: Mode | null; kind: NoticeKind; detail: Detail };

export type NewNotice = {
  merchantId: string;
  mode: Mode | null;
  kind: Exclude<NoticeKind, OwnKind>;
  detail: Detail;
  /** The member who did it gets the e-mail as well: it may have been done in their name. */
  actorId?: string | null;
};

/** Tells members of merchants, in the transaction of what is told. */
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

/** Notices of one merchant, mode and kind: one mail for all of them, as the pause between mails would have it anyway; who wants them later gets each. */
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
    await queueNotice(ctx, tx, recipients, { kind, detail: notice.detail, mode, about: wanting[0]!.merchant });
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

/** Tells one user about their own account. */
export const notifyUser = (ctx: Context, tx: Tx, { userId, ...notice }: OwnNotice & { userId: string }): Promise<void> =>
  notifyUsers(ctx, tx, [userId], { ...notice, about: 'your account' });

/** Tells those who run the install. */
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
  const { advice, isAlwaysMailed } = KINDS[kind];
  await queueMails(tx, {
    recipients,
    subject: `${mode === 'test' ? 'TEST: ' : ''}${words}`.slice(0, 120),
    body: `${words}${advice === undefined ? '' : `\n\n${advice}`}\n\nThis is about ${about}.${mode === 'test' ? ' It happened in test mode: no money is involved.' : ''}\n\n${ctx.settings.publicUrl}/dashboard/${mode ?? 'live'}/${KINDS[kind].to}\n\n${isAlwaysMailed ? 'This e-mail is always sent: it is about how you sign in.' : `What you are told by e-mail is set at ${ctx.settings.publicUrl}/dashboard/${mode ?? 'live'}/notifications`}\n`,
    kind,
    // Each change of how somebody signs in is told: the second may be the thief's. People make them, so there are few.
    pauseMinutes: kind === 'account_changed' ? 0 : MAIL_PAUSE_MINUTES,
    // A harmless change must not hide the one after it.
    pauseOf: KINDS[kind].waits ? 'kind' : 'subject',
  });
}

export type Notice = { id: bigint; mode: Mode | null; kind: NoticeKind; detail: Detail; at: Date; unread: boolean };
/** Unread notices are counted to here; beyond it they are "many". */
export const MOST_UNREAD = 99;
/** Looked at for a page, and for the count of unread ones. */
const LOOK = 5_000;
type Reader = { merchantId: string; userId: string };

/** What a user sees: those of the merchant and of the own account, less the kinds turned off. */
const visible = (ctx: Context, { merchantId, userId }: Reader) => {
  const { sql } = ctx.db;
  const hidden = sql`(select kind from notice_settings where user_id = ${userId} and merchant_id = ${merchantId} and not in_app)`;
  // Two walks along indexes, then one merge. Where a kind is turned off there may be many of it, so that each walk has a bound:
  // beyond it nobody looks at a bell.
  return (after: bigint | null, since: bigint, limit: number) => {
    const from = (owner: ReturnType<typeof sql>) => sql`
      (select id, mode, kind, detail, at from (
        select * from notices where ${owner} and id > ${since} ${after === null ? sql`` : sql`and id < ${after}`} order by id desc limit ${LOOK}
      ) as n where kind not in ${hidden} order by id desc limit ${limit})`;
    return sql`${from(sql`merchant_id = ${merchantId}`)} union all ${from(sql`user_id = ${userId}`)} order by id desc limit ${limit}`;
  };
};

export async function listNotices(
  ctx: Context,
  { merchantId, userId, limit, startingAfter }: Reader & { limit: number; startingAfter: bigint | null },
): Promise<{ notices: Notice[]; hasMore: boolean; unread: number }> {
  const { sql } = ctx.db;
  const rows = visible(ctx, { merchantId, userId });
  const [read] = await sql<{ through: bigint }[]>`
    select read_through as through from notice_reads where user_id = ${userId} and merchant_id = ${merchantId}`;
  const through = read?.through ?? 0n;
  const found = await sql<Notice[]>`select *, id > ${through} as unread from (${rows(startingAfter, 0n, limit + 1)}) as n`;
  const [count] = await sql<{ unread: bigint }[]>`select count(*) as unread from (${rows(null, through, MOST_UNREAD)}) as n`;
  return { notices: found.slice(0, limit), hasMore: found.length > limit, unread: Number(count!.unread) };
}

/** All up to a notice are read. */
export async function readNotices(ctx: Context, { merchantId, userId, through }: Reader & { through: bigint }): Promise<void> {
  await ctx.db.sql`
    insert into notice_reads (user_id, merchant_id, read_through) values (${userId}, ${merchantId}, ${through})
    on conflict (user_id, merchant_id) do update set read_through = greatest(notice_reads.read_through, excluded.read_through)`;
}

export type NoticeSetting = { kind: NoticeKind; inApp: boolean; email: boolean };
/** Whether its e-mail cannot be turned off. */
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
/** Errors: parameter_invalid (email) where the e-mail is always sent. */
export async function setNoticeSetting(ctx: Context, { merchantId, userId, kind, inApp, email }: Reader & NoticeSetting): Promise<void> {
  if (!email && isAlwaysMailed(kind)) throw new Problem('parameter_invalid', { reason: 'this e-mail is always sent' }, { param: 'email' });
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
