/**
 * Derives the state of a payment from stored facts. Pure: it reads no clock and no randomness, and writes nothing. The follower, the
 * sweep, the merchant and the test simulator record facts and call it; nothing else sets a status.
 */
import { countedShares, isOverpaid, shortAmounts, shownAmounts, shownCoin, uncountedOf } from './amounts.ts';
import { type Coin, chainOf } from './coin.ts';
import { isConfirmed, requirement } from './confirmation.ts';
import {
  type Count,
  checkPayment,
  checkSettlement,
  checkTips,
  count,
  type DecisionFacts,
  foldDecisions,
  type JudgedTransfer,
  judge,
} from './coverage.ts';
import { addMs, HOUR_MS, latest } from './dates.ts';
import { centsToE8 } from './money.ts';
import {
  EXCEPTIONS,
  type Exception,
  type PaymentFacts,
  type PaymentStatus,
  type Settlement,
  type Tips,
  type Transfer,
  type TransferRole,
} from './payment.ts';
import { isFinal, stepsTo } from './status.ts';
import { askedCoins, dustOf, faultOfCoin, goneAfterMs, isGone } from './transfer.ts';

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
    shares: goal === 'completed' && !isUnwound(payment, tips) ? countedShares(payment, counting) : null,
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
  at: { decided: DecisionFacts; ended: boolean; windowOpen: boolean; undecided: boolean; triedInTime: boolean },
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

// What is unusual about a payment, most serious first, such as a reorganization, money in a wrong coin, or too little of it.

/** The exceptions, most serious first. */
function exceptionsOf(
  payment: PaymentFacts,
  goal: PaymentStatus,
  { real, decided, tips, now, ...counting }: Count & { real: readonly JudgedTransfer[]; decided: DecisionFacts; tips: Tips; now: Date },
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
const isUnwound = ({ quotes }: PaymentFacts, tips: Tips): boolean => quotes.some(({ coin }) => tips[coin]?.unwound);

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

// The deadlines of a payment: when its window ends, what extends it, and when it is settled again although no fact changed.

/** A partial payment extends the deadline to at least this long after it. */
const EXTENSION_MS = HOUR_MS;
/** The smallest part that extends the deadline, as one in this many: a tiny transfer must not hold a rate. */
const EXTENSION_SHARE = 10n;
/** Before completion, a transfer that lost its block is reorged when it was not mined again for this long. */
const REORGED_AFTER_MS = HOUR_MS;
/** While the end of the window is not certain, the payment is settled again this often. */
const RECHECK_MS = 5_000;

export function windowEndOf({ createdAt, rules, extendedUntil }: PaymentFacts): Date {
  const end = addMs(createdAt, rules.windowSeconds * 1000);
  return extendedUntil ? latest(end, extendedUntil) : end;
}

/** A deadline, what has been read of the chains, and the time now. */
type Ending = { expiresAt: Date; tips: Tips; now: Date };

/** Whether the deadline has passed on every chain with an assigned address, as far as it has been read. */
export function hasEnded(issued: readonly Coin[], { expiresAt, tips, now }: Ending): boolean {
  if (issued.length === 0) return now > expiresAt;
  return issued.every((coin) => {
    const end = expiresAt.getTime() + chainOf(coin).slackSeconds * 1000;
    return now.getTime() > end && (tips[coin]?.scannedThrough.getTime() ?? 0) >= end;
  });
}

/** When enough of the amount had arrived to extend the deadlines. */
function partialSince(payment: PaymentFacts, alive: readonly JudgedTransfer[]): Date | null {
  const targetE8 = centsToE8(payment.targetUsdCents);
  let sumE8 = 0n;
  for (const { t, worthE8, firstSeenInTime } of alive) {
    if (!firstSeenInTime) continue;
    sumE8 += worthE8;
    if (sumE8 * EXTENSION_SHARE >= targetE8) return t.firstSeenAt;
  }
  return null;
}

/** Extends the window by an hour for the rest of the money, and the rate by one lock if it was locked at that moment. */
export function extensionFrom(payment: PaymentFacts, at: Date, expiresAt: Date): NonNullable<Settlement['extension']> {
  const quote = payment.quotes.at(-1);
  const isLocked = quote !== undefined && quote.from <= at && at <= quote.until;
  return {
    windowUntil: latest(expiresAt, addMs(at, EXTENSION_MS)),
    rateLockUntil: isLocked ? addMs(at, payment.rules.rateLockSeconds * 1000) : null,
  };
}

/** What decides when a payment is settled again. */
type DeadlineFacts = {
  status: PaymentStatus;
  ended: boolean;
  unwound: boolean;
  expiresAt: Date;
  coinsIssued: readonly Coin[];
  /** Transfers that are gone do not change with time. */
  standing: readonly JudgedTransfer[];
  now: Date;
};

function nextDue({ status, ended, unwound, expiresAt, coinsIssued, standing, now }: DeadlineFacts): Date | null {
  let next: Date | null = null;
  let isOverdue = false;
  const wake = (at: Date): void => {
    if (at > now && (!next || at < next)) next = at;
    isOverdue ||= at <= now && !isFinal(status);
  };
  if (status === 'pending' && !ended) {
    const slackMs = Math.max(0, ...coinsIssued.map((coin) => chainOf(coin).slackSeconds * 1000));
    wake(addMs(expiresAt, slackMs + 1));
  }
  for (const { t } of standing) {
    if (t.block) continue;
    if (t.absentSince) {
      // Also after the payment ended, because changes of what it received are still reported.
      const goneAt = addMs(t.absentSince, goneAfterMs(t.coin));
      wake(goneAt);
      isOverdue ||= goneAt <= now;
    }
    if (t.unminedSince) wake(addMs(t.unminedSince, REORGED_AFTER_MS));
  }
  // Something is overdue and waits for the follower: settle again soon.
  if (isOverdue || (status === 'completed' && unwound)) wake(addMs(now, RECHECK_MS));
  return next;
}
