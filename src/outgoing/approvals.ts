/** When refunds and payouts need the approval of a second member: above a limit that owners set, counted over a day for each member. */
import type { Context } from '#context';
import { COIN, type Coin, type Mode } from '#core/coin';
import { e8ToCents, formatUnits, formatUsd, worthUsdE8 } from '#core/money';
import { Problem } from '#core/problem';
import { type MemberRole, mayDo } from '#core/roles';
import type { Tx } from '#db';
import { readMerchant } from '#merchants';
import { notifyMembers } from '#notices';
import { type Actor, checkStanding, type Departure, writeAudit } from '#people';
import { priceOf } from '#readiness';

/** What one member approves alone adds up for this long, so that many small amounts do not avoid the limit. */
const WINDOW_HOURS = 24;
/** Above the limit a member counts once their role is this old, so that nobody invites or promotes their own second member. */
const ROLE_HOURS = 24;

type Asked = {
  merchantId: string;
  mode: Mode;
  usdCents: bigint;
  /** The member who requested it, or who approved it first: then `approvedBy` is their name. */
  backedBy: string | null;
  approvedBy: string | null;
};
type Money = 'refunds' | 'payouts';

/**
 * The worth that the limit is about, in cents: at the current price, because the coin may be worth more now than when the payment or the
 * request was made, and never less than it was then. Zero: it was worth something that nobody knows.
 */
export function weightOf(
  ctx: Context,
  { mode, coin, units, usdCents }: { mode: Mode; coin: Coin; units: bigint; usdCents: bigint },
): bigint {
  try {
    const now = e8ToCents(worthUsdE8(coin, units, priceOf(ctx, { mode, coin })));
    return usdCents > 0n && now > usdCents ? now : usdCents;
  } catch (error) {
    if (error instanceof Problem && error.code === 'price_unavailable') return usdCents;
    throw error;
  }
}

/** Whether a member counts as one of two now: they still have a role for what they did, and not only since today. */
async function counts(tx: Tx, money: Money, { merchantId, backedBy, approvedBy }: Asked): Promise<boolean> {
  const [member] = await tx<{ role: MemberRole }[]>`
    select role from members where merchant_id = ${merchantId} and user_id = ${backedBy}
      and role_since <= clock_timestamp() - make_interval(hours => ${ROLE_HOURS}) for share`;
  return member !== undefined && mayDo(member.role, approvedBy === null ? `${money}.request` : `${money}.approve`);
}

/**
 * `alone`: this approval is enough. `second`: it is, together with the member who requested or approved it before. `first`: it is
 * recorded, and another member has to approve as well. Operator commands are always enough. What is approved is locked. Errors:
 * member_not_found, action_not_permitted, role_too_new, second_member_required.
 */
export async function weighApproval(tx: Tx, money: Money, asked: Asked, actor: Actor): Promise<'alone' | 'second' | 'first'> {
  const { userId } = actor;
  if (userId === '') return 'alone';
  const { merchantId, mode, backedBy } = asked;
  // Two approvals by one member at the same moment see each other.
  const [member] = await tx<{ isOld: boolean; countsFrom: Date }[]>`
    select role_since <= clock_timestamp() - make_interval(hours => ${ROLE_HOURS}) as "isOld",
      role_since + make_interval(hours => ${ROLE_HOURS}) as "countsFrom"
    from members where merchant_id = ${merchantId} and user_id = ${userId} for no key update`;
  await checkStanding(tx, { merchantId, actor, action: `${money}.approve` });
  const isBacked = backedBy !== null && backedBy !== userId && (await counts(tx, money, asked));
  const { settings } = await readMerchant(tx, { merchantId });
  if (settings.refundLimitUsdCents === null) return isBacked ? 'second' : 'alone';
  const limit = BigInt(settings.refundLimitUsdCents);
  // What was in a signing file counts although it was canceled: somebody may have kept the file.
  const [{ sum } = { sum: '0' }] = await tx<{ sum: string }[]>`
    select coalesce(sum(cents), 0)::text as sum
    from (select merchant_id, mode, approved_by_user, backed_by, approved_at, coalesce(approved_usd_cents, usd_cents) as cents
        from outgoing_payments where state <> 'canceled' or anchor is not null
      union all select merchant_id, mode, approved_by_user, backed_by, approved_at,
        coalesce(approved_usd_cents, usd_cents, 0) from shop_refunds) approved
    where merchant_id = ${merchantId} and mode = ${mode} and approved_by_user = ${userId} and (backed_by is null or backed_by = ${userId})
      and approved_at > clock_timestamp() - make_interval(hours => ${WINDOW_HOURS})`;
  // What has no known worth counts as above every limit.
  if (asked.usdCents > 0n && BigInt(sum) + asked.usdCents <= limit) return isBacked ? 'second' : 'alone';
  const shown = `$${formatUsd(limit)}`;
  if (!member!.isOld) {
    const from = `${member!.countsFrom.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
    throw new Problem('role_too_new', { limit: shown, from });
  }
  if (isBacked) return 'second';
  if (backedBy === userId) throw new Problem('second_member_required', { limit: shown });
  return 'first';
}

/**
 * Forgets that a member requested or approved what still waits for a second member, as far as their role no longer includes it. The
 * requests stay, without one of the two members. `shopRefunds`: how many of shops were forgotten before.
 */
export async function forgetApprovals(
  tx: Tx,
  { merchantId, userId, role, actor }: Departure,
  { shopRefunds }: { shopRefunds: number },
): Promise<void> {
  const may = (money: Money, act: 'request' | 'approve') => role !== null && mayDo(role, `${money}.${act}`);
  const forgotten = await tx<{ kind: string }[]>`
    update outgoing_payments set backed_by = null, approved_by = null
    where merchant_id = ${merchantId} and backed_by = ${userId} and state = 'requested' and case kind
      when 'refund' then case when approved_by is null then ${!may('refunds', 'request')} else ${!may('refunds', 'approve')} end
      else case when approved_by is null then ${!may('payouts', 'request')} else ${!may('payouts', 'approve')} end end
    returning kind`;
  const payouts = forgotten.filter(({ kind }) => kind === 'payout').length;
  const before = { refunds: forgotten.length - payouts + shopRefunds, payouts };
  if (before.refunds + before.payouts === 0) return;
  await writeAudit(tx, { merchantId, mode: null, actor, action: 'approvals.forgotten', object: userId, before });
}

// Notices to members about refunds and payouts: what waits for their approval, and what failed.

type Owner = { merchantId: string; mode: Mode };
type Amount = { kind: 'refund' | 'payout'; coin: Coin; units: bigint };
/** `address`: the customer entered one. `invoice`: theirs expired. `approval`, `second`: a member, or another member, has to approve. */
type Reason = 'address' | 'invoice' | 'approval' | 'second' | 'failed';

const kindOf = (reason: Reason) => (reason === 'failed' ? 'money_out_failed' : 'money_out_waiting');

/**
 * One notice for all of them, which are of one merchant, in the transaction of what it reports. That of payouts contains no amounts, because
 * it is also sent by email, and payouts can be salaries.
 */
export async function notifyOfOutgoing(ctx: Context, tx: Tx, all: readonly (Owner & Amount)[], reason: Reason): Promise<void> {
  const [first] = all;
  if (!first) return;
  const { kind: what, merchantId, mode, coin, units } = first;
  const about = what === 'refund' ? { amount: `${formatUnits(coin, units)} ${COIN[coin].asset}` } : { count: all.length };
  await notifyMembers(ctx, tx, [{ merchantId, mode, kind: kindOf(reason), detail: { what, reason, ...about } }]);
}
