/**
 * Which transfers count toward a payment, what they are worth together, and whether that is enough: seen, and confirmed. Below are the
 * decisions of merchants about money, and what must hold for every settlement.
 */
import { COIN, type Coin, chainOf } from './coin.ts';
import { companyCents, isConfirmed, largestAtStake, requirement, whyNotConfirmed, whyNotFinal } from './confirmation.ts';
import { MINUTE_MS } from './dates.ts';
import { InvariantError, invariant } from './invariant.ts';
import { centsToE8, divideCeil, e8ToCents, shownUnit } from './money.ts';
import type { PaymentFacts, Settlement, Tips, Transfer } from './payment.ts';
import { NEXT } from './status.ts';
import { askedCoins, hasArrived, isContested, isDust, isGone, protectionMs, worth } from './transfer.ts';

/** A transfer with everything that settling asks about it, computed once so that the work stays linear. */
export type JudgedTransfer = {
  t: Transfer;
  worthE8: bigint;
  /** Its worth in whole cents. All transfers of a payment together are worth the sum, rounded once. */
  cents: bigint;
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

const byFirstSight = (a: JudgedTransfer, b: JudgedTransfer): number => a.firstSeenMs - b.firstSeenMs || (a.t.ref < b.t.ref ? -1 : 1);

function isSorted(list: readonly JudgedTransfer[]): boolean {
  let before: JudgedTransfer | null = null;
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
  { expiresAt, named }: { expiresAt: Date; named: DecisionFacts['named'] },
) {
  const { lateAcceptMinutes } = payment.rules;
  const endMs = expiresAt.getTime();
  const lateEndMs = lateAcceptMinutes === null ? Number.NEGATIVE_INFINITY : endMs + lateAcceptMinutes * MINUTE_MS;
  const protectedMs = protectionMs(payment);
  const asked = askedCoins(payment);
  const real: JudgedTransfer[] = [];
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
      cents: 0n,
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
  let totalE8 = 0n;
  let totalCents = 0n;
  for (const j of real) {
    totalE8 += j.worthE8;
    const cents = e8ToCents(totalE8);
    j.cents = cents - totalCents;
    totalCents = cents;
  }
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
export function count(payment: PaymentFacts, alive: readonly JudgedTransfer[], tips: Tips, decided: DecisionFacts) {
  const open = decided.closedAt === null;
  const early = open ? alive.filter((j) => j.inTime) : [];
  const smallestE8 = smallestShownE8(payment, early[0]?.t.coin ?? payment.quotes.at(-1)?.coin ?? null);
  // Each value was rounded down. The parts of a quoted amount must still add up to it, however many there are.
  const roundingE8 = smallestE8 + BigInt(alive.length);
  const wantedE8 = centsToE8(payment.targetUsdCents) - tolerance(payment, roundingE8);
  const soon = open && acceptsLate(payment) ? alive.filter((j) => j.soon) : [];
  const takesLate = soon.length > 0 && sum(early) + sum(soon) >= wantedE8;
  const counts = (j: JudgedTransfer): boolean => j.named || (open && (j.inTime || (takesLate && j.soon)));
  const counted = alive.filter(counts);
  const held = alive.filter((j) => !counts(j));
  checkParts(payment.id, alive, counted, held);
  const seenE8 = sum(counted);
  const seenCents = e8ToCents(seenE8);
  // An accept makes what it covers sufficient, as long as all of it is there and worth something.
  const hasAccepted = (list: readonly JudgedTransfer[]): boolean => {
    if (decided.accepts.length === 0) return false;
    const there = new Set(list.flatMap(({ t }) => (t.values.length > 0 ? [t.ref] : [])));
    return decided.accepts.some((refs) => refs.every((ref) => there.has(ref)));
  };
  const isEnough = (list: readonly JudgedTransfer[]): boolean => {
    const sumE8 = sum(list);
    return sumE8 > 0n && (sumE8 >= wantedE8 || hasAccepted(list));
  };
  const covered = isEnough(counted);
  const ready: JudgedTransfer[] = [];
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
    receivedCents: counted.reduce((total, { t, cents }) => (hasArrived(t) ? total + cents : total), 0n),
    covered,
    roundingE8,
    isEnough,
    confirmed,
    holdReason: chainHold ?? (confirmed ? null : withheld),
  };
}

export type Count = ReturnType<typeof count>;

// The decisions of the merchant about the money of a payment: canceled, accepted, rejected, refunded.

export type DecisionFacts = {
  closedAt: Date | null;
  cancelled: boolean;
  /** The refs that each accept still covers: without those rejected or refunded later. */
  accepts: readonly (readonly string[])[];
  /** All refs that an accept covers. */
  named: ReadonlySet<string>;
  /** Transfers that were rejected or refunded, and not accepted since. */
  settledRefs: ReadonlyMap<string, 'rejected' | 'refunded'>;
};

/** The merchant's decisions, read from the last to the first. */
export function foldDecisions(facts: PaymentFacts): DecisionFacts {
  let closedAt: Date | null = null;
  let cancelled = false;
  const accepts: (readonly string[])[] = [];
  const settledRefs = new Map<string, 'rejected' | 'refunded'>();
  for (const { kind, at, transfers } of facts.decisions.toReversed()) {
    switch (kind) {
      case 'cancel':
        cancelled = true;
        closedAt = at;
        break;
      case 'accept': {
        const left = transfers.filter((ref) => !settledRefs.has(ref));
        if (left.length > 0) accepts.push(left);
        break;
      }
      case 'reject':
      case 'refund_sent':
        closedAt = at;
        for (const ref of transfers) if (!settledRefs.has(ref)) settledRefs.set(ref, kind === 'reject' ? 'rejected' : 'refunded');
        break;
    }
  }
  return { closedAt, cancelled, accepts, named: new Set(accepts.flat()), settledRefs };
}

// What must hold for the facts of a payment and for every settlement, before a wrong one is stored or shown.

const isHeight = (height: number | null): boolean => height === null || (Number.isSafeInteger(height) && height >= 0);

/** What a payment asks for: amounts and rates above zero, and no quote that ends before it begins. */
export function checkPayment({ id, targetUsdCents, fixed, quotes }: PaymentFacts): void {
  invariant(targetUsdCents > 0n && (fixed === null || fixed.units > 0n), `${id} asks for an amount above zero`);
  for (const { units, rateE8, from, until } of quotes) {
    invariant(units > 0n && (rateE8 === null || rateE8 > 0n), `the quotes of ${id} have amounts and rates above zero`);
    invariant(from <= until, `the quotes of ${id} end after they begin`);
  }
}

/** What was read of the chains: heights are whole numbers from zero up. */
export function checkTips(tips: Tips): void {
  for (const [coin, tip] of Object.entries(tips)) {
    const { height, safeHeight, finalizedHeight, chainlockHeight } = tip;
    invariant([height, safeHeight, finalizedHeight, chainlockHeight].every(isHeight), `the heights of ${coin} are those of blocks`);
  }
}

/** One transfer. Called for each of thousands, so it costs almost nothing while it holds. */
function checkTransfer(id: string, t: Transfer): void {
  const { units, block, values } = t;
  if (units < 0n) throw new InvariantError(`${t.ref} of ${id} has no negative amount`);
  if (block !== null && !isHeight(block.height)) throw new InvariantError(`${t.ref} of ${id} is in a block with a height`);
  for (const { usdE8 } of values) if (usdE8 < 0n) throw new InvariantError(`${t.ref} of ${id} has no negative value`);
}

type Valued = { t: Transfer; worthE8: bigint };

/** Transfers in order: none is listed twice, because it would count twice. */
function checkOnce(id: string, sorted: readonly Valued[]): void {
  let before: Transfer | null = null;
  for (const { t } of sorted) {
    if (before !== null && before.ref === t.ref && before.coin === t.coin) throw new InvariantError(`${t.ref} of ${id} is listed once`);
    before = t;
  }
}

/** What counts and what does not are together all that is there. */
export function checkParts(id: string, whole: readonly Valued[], ...parts: readonly (readonly Valued[])[]): void {
  let units = 0n;
  let worthE8 = 0n;
  let count = 0;
  for (const { t, worthE8: own } of whole) {
    units += t.units;
    worthE8 += own;
    count++;
  }
  for (const part of parts) {
    for (const { t, worthE8: own } of part) {
      units -= t.units;
      worthE8 -= own;
      count--;
    }
  }
  invariant(units === 0n && worthE8 === 0n && count === 0, `the parts of ${id} are together what arrived`);
}

/** A settlement of a payment: no negative amounts, amounts that fit together, and steps along allowed transitions. */
export function checkSettlement(facts: Pick<PaymentFacts, 'id' | 'status'>, settlement: Settlement): void {
  checkAmounts(facts.id, settlement);
  checkSteps(facts, settlement);
}

function checkAmounts(
  id: string,
  {
    receivedUnits,
    receivedUsdE8,
    seenUnits,
    seenUsdE8,
    remainingUnits,
    overpaidUnits,
    shortUnits,
    shortUsdE8,
    dustUnits,
    amountUnits,
    uncounted,
  }: Settlement,
): void {
  const amounts = [receivedUnits, receivedUsdE8, remainingUnits, overpaidUnits, shortUnits, shortUsdE8, dustUnits];
  invariant(
    amounts.every((amount) => amount >= 0n) && uncounted.every(({ units, usdE8 }) => units > 0n && (usdE8 ?? 0n) >= 0n),
    `amounts of ${id} are not negative`,
  );
  invariant(receivedUnits <= seenUnits && receivedUsdE8 <= seenUsdE8, `what ${id} received was seen`);
  invariant(remainingUnits === 0n || (overpaidUnits === 0n && shortUsdE8 === 0n), `nothing remains of ${id} when it is paid`);
  invariant(
    overpaidUnits === 0n || (amountUnits !== null && receivedUnits === amountUnits + overpaidUnits),
    `what ${id} received is its amount and what is too much`,
  );
}

function checkSteps({ id, status: from }: Pick<PaymentFacts, 'id' | 'status'>, settlement: Settlement): void {
  const { steps, status, completedAt, receivedUsdE8 } = settlement;
  invariant((steps.at(-1)?.status ?? from) === status, `the last step of ${id} leads to its status`);
  invariant(
    steps.every((step, i) => step.from === (i === 0 ? from : steps[i - 1]?.status) && NEXT[step.from].includes(step.status)),
    `the steps of ${id} follow one another along allowed transitions`,
  );
  invariant(status !== 'completed' || completedAt !== null, `${id} is completed at a known time`);
  invariant(status !== 'completed' || from === 'completed' || receivedUsdE8 > 0n, `${id} completes with money`);
}
