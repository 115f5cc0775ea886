/** When refunds and payouts need the approval of a second member: above a limit that the merchant sets, counted over a day for each member. */
import type { Mode } from '../core/coin.ts';
import { formatUsd } from '../core/money.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { readMerchant } from '../merchants/merchants.ts';
import type { Actor } from '../people/members.ts';

/** What one member approves alone adds up for this long, so that many small amounts do not avoid the limit. */
const WINDOW_HOURS = 24;

type Asked = { merchantId: string; mode: Mode; usdCents: bigint; backedBy: string | null };

/**
 * `alone`: this approval is enough. `first`: it is recorded, and another member has to approve as well. Operator commands are always
 * enough. What is approved is locked. Errors: second_member_required.
 */
export async function weighApproval(tx: Tx, asked: Asked, { userId }: Actor): Promise<'alone' | 'second' | 'first'> {
  if (userId === '') return 'alone';
  const { merchantId, mode, backedBy } = asked;
  if (backedBy !== null && backedBy !== userId) return 'second';
  const { settings } = await readMerchant(tx, { merchantId });
  if (settings.refundLimitUsdCents === null) return 'alone';
  const limit = BigInt(settings.refundLimitUsdCents);
  // Two approvals by one member at the same moment see each other.
  await tx`select 1 from members where merchant_id = ${merchantId} and user_id = ${userId} for no key update`;
  const [{ sum } = { sum: '0' }] = await tx<{ sum: string }[]>`
    select coalesce(sum(usd_cents), 0)::text as sum
    from (select merchant_id, mode, approved_by_user, backed_by, approved_at, state, usd_cents from refunds
      union all select merchant_id, mode, approved_by_user, backed_by, approved_at, state, usd_cents from payouts) approved
    where merchant_id = ${merchantId} and mode = ${mode} and approved_by_user = ${userId} and (backed_by is null or backed_by = ${userId})
      and approved_at > clock_timestamp() - make_interval(hours => ${WINDOW_HOURS}) and state <> 'canceled'`;
  // What has no known worth counts as above every limit.
  if (asked.usdCents > 0n && BigInt(sum) + asked.usdCents <= limit) return 'alone';
  if (backedBy === userId) throw new Problem('second_member_required', { limit: `$${formatUsd(limit)}` });
  return 'first';
}
