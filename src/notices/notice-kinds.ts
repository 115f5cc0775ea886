/** The kinds of notices: their words, who gets them by email, and the screen that each is about. */
import type { Mode } from '#core/coin';
import { ACTIONS, type MemberRole, mayDo, ROLES } from '#core/roles';
import { asObject, type StoredJson } from '#core/stored-json';
import { cutText, harmless, toPrintableLine } from '#core/text';
import { explainUnreached } from '#core/unreached';
import type { Sql, Tx } from '#db';
import { attentionWords, reversedWords } from './payment-notices.ts';

export const NOTICE_KINDS = [
  'endpoint_off',
  'endpoint_failing',
  'payment_attention',
  'payment_reversed',
  'payments_unavailable',
  'money_out_waiting',
  'money_out_failed',
  'usage',
  'wallet_changed',
  'endpoint_changed',
  'key_created',
  'team_changed',
  'sign_in',
  'device_trusted',
  'account_changed',
  'codes_failed',
  'chain_failing',
  'operator_changed',
  'backup_old',
] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];
export type NoticeDetail = Readonly<Record<string, string | number | null>>;

/** Grows when the meaning of a field changes. Details without a version have the first form. */
const VERSION = 1;
export const detailToJson = (detail: NoticeDetail): StoredJson => ({ ...detail, v: VERSION });
/** Fields that are neither text nor numbers are left out. */
export const detailFromJson = (value: unknown): NoticeDetail =>
  Object.fromEntries(
    Object.entries(asObject(value)).filter(
      (field): field is [string, string | number | null] =>
        field[0] !== 'v' && (field[1] === null || typeof field[1] === 'string' || typeof field[1] === 'number'),
    ),
  );
/** What a sentence says for a field that another version did not store. */
const UNKNOWN: NoticeDetail = {
  ...{ ip: 'an unknown address', host: 'an unknown host', by: 'Someone', asked_by: 'Someone', name: 'unnamed', reason: '' },
  ...{ email: 'Someone', role: 'unknown', merchant: 'a merchant' },
  ...{ exception: 'unknown', percent: '?', used: '?', limit: '?', wrong: 'several', height: '?' },
};

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
const ACCOUNT_CHANGES: Readonly<Record<AccountChange, (detail: NoticeDetail) => string>> = {
  passkey_added: ({ name, ip }) => `The passkey “${name}” was added to your account from ${ip}.`,
  passkey_removed: ({ name, ip }) => `The passkey “${name}” was removed from your account from ${ip}.`,
  second_factor_added: ({ ip }) => `Two-factor authentication was turned on for your account from ${ip}.`,
  second_factor_removed: ({ ip }) => `Two-factor authentication was turned off for your account from ${ip}.`,
  backup_codes_renewed: ({ ip }) => `The backup codes of your account were replaced from ${ip}.`,
  password_changed: ({ ip }) => `The password of your account was changed from ${ip}.`,
  password_reset_by_mail: ({ ip }) =>
    `Your password was reset from ${ip} with a link sent to this address, and you were signed out everywhere.`,
  password_reset: () => 'The operator of this service reset your password and signed you out everywhere.',
  password_and_factors_reset: () =>
    'The operator of this service reset your password, turned off your two-factor authentication, removed your passkeys, and signed you out everywhere.',
  factors_reset: () =>
    'The operator of this service turned off your two-factor authentication, removed your passkeys, and signed you out everywhere.',
};

/** What may change about a team. `by`: the member who did it. */
type TeamChange = 'invited' | 'joined' | 'role' | 'removed' | 'limit';
const TEAM_CHANGES: Readonly<Record<TeamChange, (detail: NoticeDetail) => string>> = {
  invited: ({ email, role, by }) => `${email} was invited to your team as ${role}. ${by} sent the invite.`,
  joined: ({ email, name, role, by }) => `${email} (${name}) joined your team as ${role}. ${by} sent the invite.`,
  role: ({ email, name, was, role, by }) =>
    `${email} (${name}) is now ${role} in your team instead of ${was ?? 'another role'}. ${by} changed the role.`,
  removed: ({ email, name, by }) => `${email} (${name}) was removed from your team by ${by}.`,
  limit: ({ was, limit, by }) =>
    `One member can now approve ${limit} alone instead of ${was ?? 'another amount'}. ${by} changed the limit.`,
};

/** Whether a role manages the team or approves money. */
const hasPower = (name: NoticeDetail[string] | undefined): boolean =>
  ROLES.some((role) => role === name && (mayDo(role, 'team.manage') || mayDo(role, 'refunds.approve') || mayDo(role, 'payouts.approve')));

const grouped = (value: NoticeDetail[string] | undefined): string =>
  String(value).replace(/^\d{1,30}$/, (digits) => BigInt(digits).toLocaleString('en-US'));

const IF_NOT_YOU =
  'If this wasn’t you, sign in, change your password, and sign out everywhere else. If you can’t sign in, contact the operator of this service.';
const IF_UNEXPECTED = 'If nobody on your team meant to do this, undo it, and change the password or revoke the API key that was used.';

/**
 * Which roles get an email by default, and the words of it. Every kind shows at the bell unless it is turned off.
 * `waits`: its email may wait for a digest or the end of quiet hours; security notices and urgent ones never wait.
 * `isAlwaysMailed`: its email cannot be turned off, because a thief would. `advice`: what to do, in the email.
 * `once`: of several within ten minutes one is mailed, of those with the same detail or of all of the kind. Without it the notice is a
 * warning: each is mailed, before other emails, because the second one may be the thief's. So many that one could be missed are refused
 * together with what they report, unless that `takesPower` from somebody: they could otherwise cause as many to stay.
 */
export const KINDS: Readonly<
  Record<
    NoticeKind,
    {
      mailed: readonly MemberRole[];
      words: (detail: NoticeDetail) => string;
      to: string;
      waits?: (detail: NoticeDetail) => boolean;
      isAlwaysMailed?: true;
      takesPower?: (detail: NoticeDetail) => boolean;
      once?: 'detail' | 'kind';
      advice?: string;
    }
  >
> = {
  endpoint_failing: {
    mailed: ['owner', 'admin', 'developer'],
    words: ({ change, host, ...detail }) =>
      change === 'mended'
        ? `Webhooks to ${host} are delivered again. Deliveries that failed meanwhile are sent now.`
        : `Webhooks to ${host} are not being delivered${whyOf(detail)}`,
    to: 'webhooks',
    once: 'detail',
  },
  endpoint_off: {
    mailed: ['owner', 'admin', 'developer'],
    words: ({ host, ...detail }) => {
      const { reason, cause } = detail;
      const why = explainUnreached(typeof cause === 'string' ? cause : null);
      if (reason === 'gone') return `A webhook endpoint was disabled: ${host} answered 410 Gone.${why === null ? '' : ` ${why.advice}`}`;
      return `A webhook endpoint was disabled after five days of failed deliveries to ${host}${whyOf(detail)}`;
    },
    to: 'webhooks',
    once: 'detail',
  },
  payment_attention: {
    mailed: [],
    words: attentionWords,
    to: 'payments',
    waits: () => true,
    once: 'kind',
  },
  payment_reversed: {
    mailed: ['owner', 'finance'],
    words: reversedWords,
    to: 'payments',
    once: 'kind',
    advice: 'If you have not shipped the order yet, wait until the payment is confirmed again. Otherwise contact your customer.',
  },
  payments_unavailable: {
    mailed: ['owner', 'admin', 'developer'],
    words: ({ reason }) => `Customers can’t pay you right now: no currency is available. ${String(reason)}`,
    to: 'wallets',
    once: 'detail',
    advice: 'Open Wallets to see what is missing and how to fix it. Payment pages continue as soon as a currency is ready.',
  },
  money_out_waiting: {
    mailed: ['owner', 'finance'],
    words: (detail) => {
      const one = moneyOutOf(detail);
      if (detail.reason === 'address')
        return `${one} has an address now: the customer entered it. Check the address and approve the refund.`;
      if (detail.reason === 'invoice')
        return `${one} waits for another invoice: the one that the customer entered expired. If you paid it, enter the preimage.`;
      const by = detail.reason === 'second' ? 'the approval of a second member' : 'approval';
      return `${one} ${Number(detail.count) > 1 ? 'are' : 'is'} waiting for ${by}.`;
    },
    to: 'refunds',
    waits: () => true,
    once: 'kind',
  },
  money_out_failed: {
    mailed: ['owner', 'finance'],
    words: (detail) => `${moneyOutOf(detail)} failed.`,
    to: 'refunds',
    once: 'kind',
    advice: 'Open it to see the reason. Check in a block explorer where the money went before you send it again.',
  },
  usage: {
    mailed: ['owner', 'admin'],
    words: ({ percent, used, limit }) => `You have used ${percent}% of this month’s live payments: ${grouped(used)} of ${grouped(limit)}.`,
    to: 'usage',
    // At 100% new payments are refused.
    waits: ({ percent }) => Number(percent) < 100,
    once: 'detail',
  },
  wallet_changed: {
    mailed: ['owner'],
    words: ({ coin, asked_by, due_at, first, destination, off }) => {
      const on = `on ${String(due_at).slice(0, 16).replace('T', ' ')} UTC, unless an owner cancels the change or a second owner confirms it earlier.`;
      // Without a coin it is about the waiting period itself.
      if (coin === undefined)
        return due_at === undefined
          ? 'The waiting period for wallet changes is off: wallet changes take effect immediately.'
          : `${asked_by} asked to turn off the waiting period for wallet changes. It ends ${on}`;
      if (off !== undefined) return `Lightning was turned off: ${off}`;
      if (destination !== undefined)
        return due_at === undefined
          ? `Sweeps of ${coin} now go to ${destination}.`
          : `${asked_by} asked to send sweeps of ${coin} to ${destination}. The new address takes effect ${on}`;
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
  team_changed: {
    mailed: ['owner'],
    words: (detail) => TEAM_CHANGES[detail.change as TeamChange]?.(detail) ?? 'Your team was changed.',
    to: 'team',
    takesPower: ({ change, was, role }) => change === 'removed' || (hasPower(was) && !hasPower(role)),
    advice: 'If nobody on your team meant to do this, undo it under Team, and change the password of the member who did it.',
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
    // A newer version may have written a change that this one does not know.
    words: (detail) => ACCOUNT_CHANGES[detail.change as AccountChange]?.(detail) ?? 'The way you sign in to your account was changed.',
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
      `Block ${grouped(height)} of ${coin ?? 'a chain'} cannot be read. Payments in this block and later ones are not detected until it can. ${String(reason)}`,
    to: 'operator',
    once: 'detail',
  },
  operator_changed: {
    // To operators of the install, in every role.
    mailed: ROLES,
    words: ({ change, name, email, merchant, by }) =>
      change === 'added'
        ? `${email} (${name}) can now open the operator area. ${by} gave them access.`
        : change === 'removed'
          ? `${email} (${name}) can no longer open the operator area. ${by} took the access away.`
          : `${email} (${name}) was removed from ${merchant} by ${by}, but can still open the operator area. Remove them there if they left.`,
    to: 'operator',
  },
  backup_old: {
    // To operators of the install, in every role.
    mailed: ROLES,
    words: ({ backed_up_at }) =>
      backed_up_at === null || backed_up_at === undefined
        ? 'Florin has not written a backup of this install yet.'
        : `The last backup of this install is from ${String(backed_up_at).slice(0, 10)}.`,
    to: 'operator',
    once: 'kind',
    advice:
      'Run ./florin backup --file FILE every day and keep the file on another machine. If you back up the database in another way, turn this notification off.',
  },
};
/** The end of a sentence about an endpoint that fails: why, and what to do. */
function whyOf({ cause, address }: NoticeDetail): string {
  const why = explainUnreached(typeof cause === 'string' ? cause : null);
  const at = address === undefined ? '' : ` (${address})`;
  return why === null ? '.' : `: ${why.words.charAt(0).toLowerCase()}${why.words.slice(1)}${at}. ${why.advice}`;
}
const lengthOf = (minutes: number): string =>
  minutes < 60 ? `${minutes} minutes` : minutes === 60 ? '1 hour' : `${Math.round(minutes / 60)} hours`;
/** A refund or payouts, at the beginning of a sentence. Payouts can be salaries, so their amounts are not stored. */
const moneyOutOf = ({ what, amount, count }: NoticeDetail): string => {
  if (what === 'payout') return Number(count) > 1 ? `${grouped(count)} payouts` : 'A payout';
  return typeof amount === 'string' ? `A refund of ${amount}` : 'A refund';
};
/** About the person's own account or the install, not about a merchant. */
export type OwnKind =
  | 'sign_in'
  | 'device_trusted'
  | 'account_changed'
  | 'codes_failed'
  | 'chain_failing'
  | 'operator_changed'
  | 'backup_old';

export const noticeText = (kind: NoticeKind, detail: NoticeDetail): string => KINDS[kind].words({ ...UNKNOWN, ...detail });

/** Fields that nobody can write freely, or of which every character counts. All others are made harmless in emails. */
const FACTS: ReadonlySet<string> = new Set([
  ...[
    'host',
    'address',
    'was',
    'destination',
    'reason',
    'ip',
    'due_at',
    'payment',
    'change',
    'money',
    'price',
    'amount',
    'coin',
    'exception',
    'status',
  ],
]);
/** A subject that is cut says less than it must, so the names in it are. */
const MOST_IN_SUBJECT = 30;
const MOST_IN_BODY = 100;
const MOST_SUBJECT = 250;
const MOST_HOST = 60;
const mapTexts = (detail: NoticeDetail, change: (text: string, field: string) => string): NoticeDetail =>
  Object.fromEntries(Object.entries(detail).map(([field, value]) => [field, typeof value === 'string' ? change(value, field) : value]));

/** The same words in an email. What people wrote is one line without links, and short in the subject, so that it hides nothing. */
export function noticeMail(kind: NoticeKind, detail: NoticeDetail): { subject: string; text: string } {
  const facts = (text: string) => toPrintableLine(cutText(text, 500));
  // The end of a host says whose it is.
  const short = (fact: string, field: string) =>
    /^(host|was)$/.test(field) && fact.length > MOST_HOST ? `…${fact.slice(-MOST_HOST)}` : fact;
  const subject = mapTexts(detail, (text, field) => (FACTS.has(field) ? short(facts(text), field) : harmless(text, MOST_IN_SUBJECT)));
  const body = mapTexts(detail, (text, field) => (FACTS.has(field) ? facts(text) : harmless(text, MOST_IN_BODY)));
  return { subject: cutText(noticeText(kind, subject), MOST_SUBJECT), text: noticeText(kind, body) };
}

/** The screen it is about, below the dashboard's mode. */
export const noticePath = (kind: NoticeKind, detail: NoticeDetail): string =>
  typeof detail.payment === 'string' ? `payments/${detail.payment}` : detail.what === 'payout' ? 'payouts' : KINDS[kind].to;
export type NoticeRow = { mode: Mode | null; kind: NoticeKind; detail: NoticeDetail };

/** Only who may read payouts learns of these. */
export const isAboutPayouts = ({ what }: NoticeDetail): boolean => what === 'payout';
export const payoutReaders = (): MemberRole[] => [...ACTIONS['payouts.read']];

/** Whether it warns of what somebody may have done in another's name. */
export const isWarning = (kind: NoticeKind): boolean => KINDS[kind].once === undefined;
/** Whether its email cannot be turned off. */
export const isAlwaysMailed = (kind: NoticeKind): boolean => KINDS[kind].isAlwaysMailed === true;

/** Adds the description of the payment to notices about one, as it is now: it may have been erased. Customers' own words stay out. */
export async function describe<N extends { detail: NoticeDetail }>(sql: Sql | Tx, notices: readonly N[]): Promise<N[]> {
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
