/** Which transfers count toward a payment, what they are worth together, and whether that is enough: seen, and confirmed. */
import { MINUTE_MS } from './clock.ts';
import { COIN, type Coin, chainOf } from './coin.ts';
import { companyCents, isConfirmed, largestAtStake, requirement, whyNotConfirmed, whyNotFinal } from './confirmation.ts';
import type { Decided } from './decisions.ts';
import { centsToE8, divideCeil, e8ToCents, shownUnit } from './money.ts';
import type { PaymentFacts, Tips, Transfer } from './payment.ts';
import { checkOnce, checkParts, checkTransfer } from './settlement-checks.ts';
import { askedCoins, hasArrived, isContested, isDust, isGone } from './transfer.ts';
import { protectionMs, worth } from './transfer-value.ts';

/** A transfer with everything that settling asks about it, computed once so that the work stays linear. */
export type Judged = {
  t: Transfer;
  worthE8: bigint;
  firstSeenMs: number;
  /** When it counts as seen. */
  seenMs: number;
  contested: boolean;
  isAsked: boolean;
  /** In a coin that was asked for, and first seen before the deadline, even if its first sight has lost its protection since. */
  firstSeenInTime: boolean;
  /** In a coin that was asked for, and seen before the deadline. */
  inTime: boolean;
  /** Late, but early enough for automatic acceptance. */
  soon: boolean;
  /** Accepted by the merchant. */
  named: boolean;
};

const byFirstSight = (a: Judged, b: Judged): number => a.firstSeenMs - b.firstSeenMs || (a.t.ref < b.t.ref ? -1 : 1);

function isSorted(list: readonly Judged[]): boolean {
  let before: Judged | null = null;
  for (const j of list) {
    if (before !== null && byFirstSight(before, j) > 0) return false;
    before = j;
  }
  return true;
}

const sum = (transfers: readonly { worthE8: bigint }[]): bigint => transfers.reduce((total, { worthE8 }) => total + worthE8, 0n);

/** All transfers above dust by first sight (`real`), those not gone (`standing`), and among these the ones without a conflict (`alive`). */
export function judge(
  payment: PaymentFacts,
  transfers: readonly Transfer[],
  tips: Tips,
  { expiresAt, named }: { expiresAt: Date; named: Decided['named'] },
) {
  const { lateAcceptMinutes } = payment.rules;
  const endMs = expiresAt.getTime();
  const lateEndMs = lateAcceptMinutes === null ? Number.NEGATIVE_INFINITY : endMs + lateAcceptMinutes * MINUTE_MS;
  const protectedMs = protectionMs(payment);
  const asked = askedCoins(payment);
  const real: Judged[] = [];
  for (const t of transfers) {
    checkTransfer(payment.id, t);
    if (isDust(t)) continue;
    const lastMs = endMs + chainOf(t.coin).slackSeconds * 1000;
    const firstSeenMs = t.firstSeenAt.getTime();
    const minedMs = t.block?.time.getTime() ?? 0;
    const seenMs = minedMs > firstSeenMs + protectedMs ? minedMs : firstSeenMs;
    const isAsked = asked.has(t.coin);
    const inTime = isAsked && seenMs <= lastMs;
    real.push({
      t,
      worthE8: worth(t),
      firstSeenMs,
      seenMs,
      contested: isContested(t),
      isAsked,
      firstSeenInTime: isAsked && firstSeenMs <= lastMs,
      inTime,
      soon: isAsked && !inTime && seenMs <= lateEndMs,
      named: named.has(t.ref),
    });
  }
  // The database returns them in this order.
  if (!isSorted(real)) real.sort(byFirstSight);
  checkOnce(payment.id, real);
  const standing = real.filter(({ t }) => !isGone(t, tips));
  return { real, standing, alive: standing.filter((j) => !j.contested) };
}

/** The value of the smallest shown decimal, so that rounding alone never makes a payment short. */
function smallestShownE8(payment: PaymentFacts, coin: Coin | null): bigint {
  if (coin === null) return 0n;
  if (payment.fixed?.coin === coin) return divideCeil(centsToE8(payment.targetUsdCents) * shownUnit(coin), payment.fixed.units);
  const rate = payment.quotes.findLast((q) => q.coin === coin)?.rateE8;
  return rate ? divideCeil(rate * shownUnit(coin), 10n ** BigInt(COIN[coin].decimals)) : 0n;
}

/** How much may be missing: a share of the target, capped, but at least one unit of the last shown decimal. */
function tolerance({ targetUsdCents, rules }: PaymentFacts, smallestE8: bigint): bigint {
  const share = (centsToE8(targetUsdCents) * BigInt(rules.toleranceBasisPoints)) / 10_000n;
  const cap = centsToE8(rules.toleranceCapUsdCents);
  const least = share < cap ? share : cap;
  return least > smallestE8 ? least : smallestE8;
}

/**
 * After a refund, the merchant decides about late money, because what was returned cannot count too. What was accepted before the refund
 * stays accepted.
 */
const acceptsLate = ({ hasRefund, status }: PaymentFacts): boolean => !hasRefund || status === 'processing' || status === 'completed';

/** What counts toward the amount, and whether it is enough: seen, and confirmed. */
export function count(payment: PaymentFacts, alive: readonly Judged[], tips: Tips, decided: Decided) {
  const open = decided.closedAt === null;
  const early = open ? alive.filter((j) => j.inTime) : [];
  const smallestE8 = smallestShownE8(payment, early[0]?.t.coin ?? payment.quotes.at(-1)?.coin ?? null);
  // Each value was rounded down. The parts of a quoted amount must still add up to it, however many there are.
  const roundingE8 = smallestE8 + BigInt(alive.length);
  const wantedE8 = centsToE8(payment.targetUsdCents) - tolerance(payment, roundingE8);
  const soon = open && acceptsLate(payment) ? alive.filter((j) => j.soon) : [];
  const takesLate = soon.length > 0 && sum(early) + sum(soon) >= wantedE8;
  const counts = (j: Judged): boolean => j.named || (open && (j.inTime || (takesLate && j.soon)));
  const counted = alive.filter(counts);
  const held = alive.filter((j) => !counts(j));
  checkParts(payment.id, alive, counted, held);
  const seenE8 = sum(counted);
  const seenCents = e8ToCents(seenE8);
  // An accept makes what it covers sufficient, as long as all of it is there and worth something.
  const hasAccepted = (list: readonly Judged[]): boolean => {
    if (decided.accepts.length === 0) return false;
    const there = new Set(list.flatMap(({ t }) => (t.values.length > 0 ? [t.ref] : [])));
    return decided.accepts.some((refs) => refs.every((ref) => there.has(ref)));
  };
  const isEnough = (list: readonly Judged[]): boolean => sum(list) > 0n && (sum(list) >= wantedE8 || hasAccepted(list));
  const covered = isEnough(counted);
  const ready: Judged[] = [];
  let withheld: string | null = null;
  for (const j of covered ? counted : []) {
    const tip = tips[j.t.coin];
    const wanted = requirement(payment, j.t, seenCents);
    if (!isConfirmed(j.t, wanted, tip)) {
      withheld ??= whyNotConfirmed(j.t, wanted, tip);
      continue;
    }
    const reason = whyNotFinal(j.t, wanted, tip, largestAtStake(payment, { receivedCents: seenCents, company: companyCents(j.t) }));
    if (reason === null) ready.push(j);
    else withheld ??= reason;
  }
  const confirmed = covered && isEnough(ready);
  const chainHold = counted.map(({ t }) => tips[t.coin]?.holdReason ?? null).find((reason) => reason !== null) ?? null;
  return {
    counted,
    held,
    takesLate,
    /** What counts, also while it is only announced. */
    seenE8,
    seenCents,
    /** The part of it that arrived. */
    receivedE8: sum(counted.filter(({ t }) => hasArrived(t))),
    covered,
    roundingE8,
    isEnough,
    confirmed,
    holdReason: chainHold ?? (confirmed ? null : withheld),
  };
}

export type Count = ReturnType<typeof count>;
