/** What is unusual about a payment, most serious first, such as a reorganization, money in a wrong coin, or too little of it. */
import { isOverpaid } from './amounts.ts';
import { isConfirmed, requirement } from './confirmation.ts';
import type { Count, Judged } from './coverage.ts';
import { REORGED_AFTER_MS } from './deadlines.ts';
import type { Decided } from './decisions.ts';
import { EXCEPTIONS, type Exception, type PaymentFacts, type PaymentStatus, type Tips, type Transfer } from './payment.ts';
import { askedCoins, faultOfCoin, isGone } from './transfer.ts';

/** The exceptions, most serious first. */
export function exceptionsOf(
  payment: PaymentFacts,
  goal: PaymentStatus,
  { real, decided, tips, now, ...counting }: Count & { real: readonly Judged[]; decided: Decided; tips: Tips; now: Date },
): readonly Exception[] {
  const { covered, seenE8 } = counting;
  const { closedAt } = decided;
  const held = counting.held.filter(({ t }) => !decided.settledRefs.has(t.ref));
  const asked = askedCoins(payment);
  const wrong = new Set(held.flatMap(({ t, isAsked }) => (isAsked ? [] : [faultOfCoin(asked, t.coin)])));
  const found: Record<Exception, boolean> = {
    reorged: payment.completedAt
      ? isReversed(payment, payment.completedAt, { tips, ...counting })
      : goal !== 'completed' &&
        real.some(
          ({ t }) =>
            t.unminedSince !== null && !t.block && (isGone(t, tips) || now.getTime() - t.unminedSince.getTime() >= REORGED_AFTER_MS),
        ),
    replaced: !covered && goal !== 'completed' && real.some(({ t }) => !t.block && t.conflict !== null),
    paid_after_cancel:
      (goal === 'cancelled' || closedAt !== null) && held.some((j) => goal === 'cancelled' || j.seenMs > closedAt!.getTime()),
    wrong_network: wrong.has('wrong_network'),
    wrong_token: wrong.has('wrong_token'),
    late:
      closedAt === null &&
      ((goal !== 'pending' && held.some((j) => j.isAsked && !j.inTime)) || (covered && (goal === 'expired' || goal === 'failed'))),
    underpaid: !covered && seenE8 > 0n && (goal === 'pending' || goal === 'failed'),
    overpaid: isOverpaid(payment, counting),
  };
  return EXCEPTIONS.filter((name) => found[name]);
}

/** Whether a chain of the payment is being switched to another branch. */
export const isUnwound = ({ quotes }: PaymentFacts, tips: Tips): boolean => quotes.some(({ coin }) => tips[coin]?.unwound);

/**
 * Whether a completed payment lost money that it counted: the rest is not enough without transfers that lost their block and are not
 * deep enough again, and without those whose block a source disputes. A lock that outlived its block is as good as the block.
 */
function isReversed(
  payment: PaymentFacts,
  completedAt: Date,
  { counted, isEnough, tips }: Pick<Count, 'counted' | 'isEnough'> & { tips: Tips },
): boolean {
  if (isUnwound(payment, tips)) return payment.exceptions.includes('reorged');
  const isLost = (t: Transfer): boolean => {
    if (t.disputedSince !== null || (!t.block && !t.lock)) return true;
    const tip = tips[t.coin];
    return t.unminedSince !== null && t.unminedSince >= completedAt && !isConfirmed(t, requirement(payment, t, 0n), tip);
  };
  return !isEnough(counted.filter(({ t }) => !isLost(t)));
}
