/** Notices to members about refunds and payouts: what waits for their approval, and what failed. */
import type { Context } from '../context.ts';
import { COIN, type Coin, type Mode } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import type { Tx } from '../db/db.ts';
import { notifyMembers } from '../notices/notices.ts';

type Owner = { merchantId: string; mode: Mode };
/** `address`: the customer entered one. `approval`, `second`: a member, or another member, has to approve. */
type Reason = 'address' | 'approval' | 'second' | 'failed';

const kindOf = (reason: Reason) => (reason === 'failed' ? 'money_out_failed' : 'money_out_waiting');

/** In the transaction of what it reports. */
export function notifyOfRefund(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, coin, units }: Owner & { coin: Coin; units: bigint },
  reason: Reason,
): Promise<void> {
  const detail = { what: 'refund', reason, amount: `${formatUnits(coin, units)} ${COIN[coin].asset}` };
  return notifyMembers(ctx, tx, [{ merchantId, mode, kind: kindOf(reason), detail }]);
}

/** One notice for all of them. It contains no amounts, because it is also sent by email, and payouts can be salaries. */
export async function notifyOfPayouts(ctx: Context, tx: Tx, payouts: readonly Owner[], reason: Exclude<Reason, 'address'>): Promise<void> {
  const [first] = payouts;
  if (!first) return;
  const { merchantId, mode } = first;
  const detail = { what: 'payout', reason, count: payouts.length };
  await notifyMembers(ctx, tx, [{ merchantId, mode, kind: kindOf(reason), detail }]);
}
