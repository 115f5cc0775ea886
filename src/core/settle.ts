/**
 * Derives the state of a payment from stored facts. Pure: it reads no clock and no randomness, and writes nothing. The follower, the
 * sweep, the merchant and the test simulator record facts and call it; nothing else sets a status.
 */
import { shortAmounts, shownAmounts, shownCoin, uncountedOf } from './amounts.ts';
import { type Count, count, judge } from './coverage.ts';
import { extensionFrom, hasEnded, nextDue, partialSince, windowEndOf } from './deadlines.ts';
import { type Decided, foldDecisions } from './decisions.ts';
import { exceptionsOf, isUnwound } from './exceptions.ts';
import type { PaymentFacts, PaymentStatus, Settlement, Tips, Transfer, TransferRole } from './payment.ts';
import { checkPayment, checkSettlement, checkTips } from './settlement-checks.ts';
import { stepsTo } from './status.ts';
import { dustOf } from './transfer.ts';

/**
 * Settles a payment at `now` (the database clock, read after the lock, plus the test offsets). Returns its state and the steps from the
 * stored status along allowed transitions; a payment that is first found confirmed passes through processing. Settling again with the
 * same facts takes no step, and the order of the facts does not matter. The work is linear in the number of transfers, because anyone
 * can send thousands of them.
 */
export function settle(payment: PaymentFacts, transfers: readonly Transfer[], tips: Tips, now: Date): Settlement {
  checkPayment(payment);
  checkTips(tips);
  const expiresAt = windowEndOf(payment);
  const decided = foldDecisions(payment);
  const { real, standing, alive } = judge(payment, transfers, tips, { expiresAt, named: decided.named });
  const counting = count(payment, alive, tips, decided);
  const coinsIssued = [...new Set(payment.quotes.map((q) => q.coin))];
  const ended = hasEnded(coinsIssued, { expiresAt, tips, now });
  const open = decided.closedAt === null;
  const goal = goalOf(payment, counting, {
    decided,
    ended,
    windowOpen: now <= expiresAt,
    undecided: standing.some((j) => (j.contested || j.t.values.length === 0) && ((open && (j.inTime || j.soon)) || j.named)),
    triedInTime: real.some((j) => j.firstSeenInTime),
  });

  // The deadlines move once, from the first partial payment, even if it is settled late and its first sight has lost its protection
  // since: a delayed round must not end a payment early.
  const waits = open && (goal === 'pending' || (payment.status === 'pending' && goal === 'failed'));
  const partialAt = waits && !payment.extendedUntil && !counting.covered ? partialSince(payment, alive) : null;
  if (partialAt) {
    const extension = extensionFrom(payment, partialAt, expiresAt);
    const extended = { ...payment, extendedUntil: extension.windowUntil, rateLockUntil: extension.rateLockUntil };
    return { ...settle(extended, transfers, tips, now), extension };
  }

  const exceptions = exceptionsOf(payment, goal, { ...counting, real, decided, tips, now });
  const settlement: Settlement = {
    steps: stepsTo(payment.status, goal),
    status: goal,
    exceptions,
    exception: exceptions[0] ?? null,
    expiresAt,
    extension: null,
    ...shownAmounts(payment, counting, { tips, expiresAt }),
    uncounted: uncountedOf(counting, decided),
    ...shortAmounts(payment, counting),
    dustUnits: dustOf(transfers, tips, shownCoin(payment, counting)),
    completedAt: payment.completedAt ?? (goal === 'completed' ? now : null),
    holdReason: goal === 'processing' ? counting.holdReason : null,
    nextDueAt: nextDue({ status: goal, ended, unwound: isUnwound(payment, tips), expiresAt, coinsIssued, standing, now }),
  };
  checkSettlement(payment, settlement);
  return settlement;
}

/** The next status, from the stored one. */
function goalOf(
  payment: PaymentFacts,
  { covered, confirmed, holdReason, takesLate, counted }: Count,
  at: { decided: Decided; ended: boolean; windowOpen: boolean; undecided: boolean; triedInTime: boolean },
): PaymentStatus {
  const open = at.decided.closedAt === null;
  const paid = (): PaymentStatus => (confirmed && holdReason === null ? 'completed' : 'processing');
  switch (payment.status) {
    case 'completed':
      return 'completed';
    case 'expired':
    case 'failed':
    case 'cancelled':
      // Money that becomes valid again after the deadline (a reorganization removed a conflict) waits for the merchant, as late money does.
      return covered && (takesLate || counted.some((j) => j.named)) ? paid() : payment.status;
    case 'pending':
      if (at.decided.cancelled && !covered) return 'cancelled';
      if (covered) return paid();
      if (!at.ended || at.undecided) return 'pending';
      return at.triedInTime ? 'failed' : 'expired';
    case 'processing':
      if (covered) return paid();
      // Until the chain has been read up to the deadline, other money may still turn out to be on time.
      if (open && !at.ended) return at.windowOpen ? 'pending' : 'processing';
      return at.undecided ? 'processing' : 'failed';
  }
}

/** What each transfer is to its payment. */
export function rolesOf(payment: PaymentFacts, transfers: readonly Transfer[], tips: Tips): ReadonlyMap<Transfer, TransferRole> {
  const decided = foldDecisions(payment);
  const { real, standing, alive } = judge(payment, transfers, tips, { expiresAt: windowEndOf(payment), named: decided.named });
  const { held, counted } = count(payment, alive, tips, decided);
  const roles = new Map<Transfer, TransferRole>(transfers.map((t) => [t, 'small']));
  // Each list is part of the one before it.
  for (const { t } of real) roles.set(t, 'gone');
  for (const { t } of standing) roles.set(t, 'contested');
  for (const { t } of counted) roles.set(t, 'counted');
  for (const { t } of held) roles.set(t, decided.settledRefs.get(t.ref) ?? 'held');
  return roles;
}
