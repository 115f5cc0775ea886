/** The deadlines of a payment: when its window ends, what extends it, and when it is settled again although no fact changed. */
import { addMs, HOUR_MS, latest } from './clock.ts';
import { type Coin, chainOf } from './coin.ts';
import type { Judged } from './coverage.ts';
import { centsToE8 } from './money.ts';
import type { PaymentFacts, PaymentStatus, Settlement, Tips } from './payment.ts';
import { isFinal } from './status.ts';
import { goneAfterMs } from './transfer.ts';

/** A partial payment extends the deadline to at least this long after it. */
const EXTENSION_MS = HOUR_MS;
/** The smallest part that extends the deadline, as one in this many: a tiny transfer must not hold a rate. */
const EXTENSION_SHARE = 10n;
/** Before completion, a transfer that lost its block is reorged when it was not mined again for this long. */
export const REORGED_AFTER_MS = HOUR_MS;
/** While the end of the window is not certain, the payment is settled again this often. */
const RECHECK_MS = 5_000;

export function windowEndOf({ createdAt, rules, extendedUntil }: PaymentFacts): Date {
  const end = addMs(createdAt, rules.windowSeconds * 1000);
  return extendedUntil ? latest(end, extendedUntil) : end;
}

/** A deadline, what has been read of the chains, and the time now. */
export type Ending = { expiresAt: Date; tips: Tips; now: Date };

/** Whether the deadline has passed on every chain with an assigned address, as far as it has been read. */
export function hasEnded(issued: readonly Coin[], { expiresAt, tips, now }: Ending): boolean {
  if (issued.length === 0) return now > expiresAt;
  return issued.every((coin) => {
    const end = expiresAt.getTime() + chainOf(coin).slackSeconds * 1000;
    return now.getTime() > end && (tips[coin]?.scannedThrough.getTime() ?? 0) >= end;
  });
}

/** When enough of the amount had arrived to extend the deadlines. */
export function partialSince(payment: PaymentFacts, alive: readonly Judged[]): Date | null {
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
export type DeadlineFacts = {
  status: PaymentStatus;
  ended: boolean;
  unwound: boolean;
  expiresAt: Date;
  coinsIssued: readonly Coin[];
  /** Transfers that are gone do not change with time. */
  standing: readonly Judged[];
  now: Date;
};

export function nextDue({ status, ended, unwound, expiresAt, coinsIssued, standing, now }: DeadlineFacts): Date | null {
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
