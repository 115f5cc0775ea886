/**
 * Derives the state of a payment from stored facts. Pure: it reads no clock and no randomness, and writes nothing. The follower, the
 * sweep, the merchant and the test simulator record facts and call it; nothing else sets a status.
 */
import { addMs, DAY_MS, earliest, HOUR_MS, latest, MINUTE_MS } from './clock.ts';
import { COIN, type Coin, type CompletionRule, type ConfirmationTier, chainOf } from './coin.ts';
import { centsToE8, divideCeil, e8ToCents, shownUnit, worthUsdE8 } from './money.ts';
import {
  type Company,
  EXCEPTIONS,
  type Exception,
  type PaymentFacts,
  type PaymentStatus,
  type Quote,
  type Settlement,
  type Step,
  type Tip,
  type Tips,
  type Transfer,
  type TransferKind,
  type TransferRole,
  type TransferStanding,
  type TransferValue,
  type Uncounted,
  type UncountedState,
} from './payment.ts';

/** The allowed transitions. The database also rejects all others. */
export const NEXT: Readonly<Record<PaymentStatus, readonly PaymentStatus[]>> = {
  pending: ['processing', 'expired', 'failed', 'cancelled'],
  processing: ['completed', 'failed', 'pending'],
  completed: [],
  expired: ['processing'],
  failed: ['processing'],
  cancelled: ['processing'],
};

/** Moves from one status to another; throws if the transition is not in the table. */
export function move(from: PaymentStatus, to: PaymentStatus): Step {
  if (!NEXT[from].includes(to)) throw new Error(`a payment does not go from ${from} to ${to}`);
  return { from, status: to };
}

/** A lock covers transfers first seen up to this long after its end, because the payer had already sent them. */
const LOCK_GRACE_MS = 10 * MINUTE_MS;
/** If a quote was renewed this shortly before the first sight, the payer may have sent at the previous rate. */
const ON_ITS_WAY_MS = MINUTE_MS;
/** A partial payment extends the deadline to at least this long after it. */
const EXTENSION_MS = HOUR_MS;
/** The smallest part that extends the deadline, as one in this many: a tiny transfer must not hold a rate. */
const EXTENSION_SHARE = 10n;
/** A transfer counts as gone when it was neither mined nor in the mempool for this long while in sync. */
const GONE_AFTER_MS = DAY_MS;
/** Before completion, a transfer that lost its block is reorged when it was not mined again for this long. */
const REORGED_AFTER_MS = HOUR_MS;
/** Dash: confirmations that replace a missing InstantSend lock or ChainLock; more when the node has no quorum data. */
const DASH_CONFIRMATIONS = 6;
const DASH_CONFIRMATIONS_BLIND = 24;
/** Other small payments of the merchant that wait at the same time count by a quarter, because most belong to other people. */
const MERCHANT_SHARE = 4n;
/** Litecoin: a peg-out needs at least this many (the reorganization of April 2026 was 13 blocks deep). */
const PEGOUT_CONFIRMATIONS = 24;
/** While the end of the window is not certain, the payment is settled again this often. */
const RECHECK_MS = 5_000;

/** Whether a transfer is dust. Several outputs below the limit are dust together, because none of them is worth its fee. */
export const isDust = (t: Transfer): boolean => t.units < COIN[t.coin].dustUnits * BigInt(t.outputs ?? 1);

/** Whether the transfer can no longer be paid: a confirmed conflict, or long unseen while the follower was in sync. */
export function isGone(t: Transfer, tips: Tips): boolean {
  if (t.block) return false;
  if (t.conflict && t.conflict.height !== null) return true;
  if (!t.absentSince) return false;
  const tip = tips[t.coin];
  return tip !== undefined && tip.scannedThrough.getTime() - t.absentSince.getTime() >= GONE_AFTER_MS;
}
/** Whether a conflicting spend waits in the mempool, so either may be mined. */
const isContested = (t: Transfer): boolean => !t.block && t.conflict !== null && t.conflict.height === null;

const protectionMs = (facts: PaymentFacts): number =>
  (facts.targetUsdCents >= facts.rules.protectionLargeUsdCents ? facts.rules.protectionLargeHours : facts.rules.protectionHours) * HOUR_MS;

/** Whether the transfer was mined only after the protection of its first sight ended. It then counts as seen when mined. */
const lostProtection = (facts: PaymentFacts, t: Transfer): boolean =>
  t.block !== null && t.block.time.getTime() > t.firstSeenAt.getTime() + protectionMs(facts);

/** End of the lock of a quote: the original one, or the one extended by a partial payment that arrived during it. */
export function lockEnd(facts: PaymentFacts, quote: Quote): Date {
  const { rateLockUntil } = facts;
  if (!rateLockUntil || facts.quotes.findLast((q) => q.from < rateLockUntil) !== quote) return quote.until;
  return latest(quote.until, rateLockUntil);
}

/**
 * The rate for money that was first seen at some instant: that of the last quote that the payer had seen by then; null when no rate was
 * locked. A renewal ends the previous rate, so payers cannot choose the better of two, except for money that was already on its way.
 */
function lockedRate(payment: PaymentFacts, t: Transfer): bigint | null {
  const quotes = payment.quotes.filter((q) => q.coin === t.coin && q.rateE8 !== null);
  const last = Math.max(
    0,
    quotes.findLastIndex((q) => q.from <= t.firstSeenAt),
  );
  const rates = [quotes[last], quotes[last - 1]].flatMap((quote, age) => {
    if (!quote || t.firstSeenAt.getTime() > lockEnd(payment, quote).getTime() + LOCK_GRACE_MS) return [];
    if (age > 0 && t.firstSeenAt.getTime() >= quotes[last]!.from.getTime() + ON_ITS_WAY_MS) return [];
    return [quote.rateE8!];
  });
  return rates.length === 0 ? null : rates.reduce((a, b) => (b > a ? b : a));
}

/**
 * The value of a transfer to freeze now; null when it already has one, or while there is no usable price (it is then held). Uses the
 * rate that was locked when the transfer was first seen or up to ten minutes before, otherwise the spot price. A transfer is valued
 * again only when its first sight lost its protection.
 */
export function valueTransfer({
  payment,
  transfer: t,
  spot,
  now,
  company = null,
}: {
  payment: PaymentFacts;
  transfer: Transfer;
  spot: { priceE8: bigint; at: Date } | null;
  now: Date;
  company?: Company | null;
}): TransferValue | null {
  const again = t.values.length > 0;
  if (again && (!lostProtection(payment, t) || t.values.some((v) => v.reason === 'confirmation'))) return null;
  const reason = again ? 'confirmation' : 'first_sight';
  const valued = (basis: TransferValue['basis'], usdE8: bigint): TransferValue => ({
    usdE8,
    at: now,
    basis,
    reason,
    ...(company &&
      !again && {
        company: {
          transactionUsdCents: e8ToCents((usdE8 * company.transactionUnits) / t.units),
          merchantUsdCents: e8ToCents((usdE8 * company.merchantUnits) / t.units),
        },
      }),
  });
  if (payment.fixed?.coin === t.coin) {
    return again ? null : valued('quote', (centsToE8(payment.targetUsdCents) * t.units) / payment.fixed.units);
  }
  const rate = again ? null : lockedRate(payment, t);
  if (rate !== null) return valued('quote', worthUsdE8(t.coin, t.units, rate));
  return spot && valued('spot', worthUsdE8(t.coin, t.units, spot.priceE8));
}

const worth = (t: Transfer): bigint => t.values.at(-1)?.usdE8 ?? 0n;
const sum = (transfers: readonly { worthE8: bigint }[]): bigint => transfers.reduce((total, { worthE8 }) => total + worthE8, 0n);

type Decided = {
  closedAt: Date | null;
  cancelled: boolean;
  /** The refs that each accept still covers: without those rejected or refunded later. */
  accepts: readonly (readonly string[])[];
  /** All refs that an accept covers. */
  named: ReadonlySet<string>;
  /** Transfers that were rejected or refunded, and not accepted since. */
  settledRefs: ReadonlyMap<string, Exclude<UncountedState, 'held'>>;
};
/** The merchant's decisions, read from the last to the first. */
function foldDecisions(facts: PaymentFacts): Decided {
  let closedAt: Date | null = null;
  let cancelled = false;
  const accepts: (readonly string[])[] = [];
  const settledRefs = new Map<string, Exclude<UncountedState, 'held'>>();
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

/** The tier of an amount. */
export function tierOf(facts: PaymentFacts, coin: Coin, usdCents: bigint): ConfirmationTier {
  const tiers = facts.rules.confirmations[coin];
  return tiers.find((row) => row.belowUsdCents === null || usdCents < row.belowUsdCents) ?? tiers.at(-1)!;
}

/** What else an attacker who replaces the block could take back together with the transfer, as far as one payer may have sent it. */
function companyCents(t: Transfer): bigint {
  const company = t.values[0]?.company;
  if (!company) return 0n;
  const share = company.merchantUsdCents / MERCHANT_SHARE;
  return company.transactionUsdCents > share ? company.transactionUsdCents : share;
}

/** The largest amount that depends on a transfer. */
function gravity({ targetUsdCents }: PaymentFacts, { receivedCents, company }: { receivedCents: bigint; company: bigint }): bigint {
  const own = receivedCents > targetUsdCents ? receivedCents : targetUsdCents;
  return company > own ? company : own;
}

/** The confirmations that transfers of a coin need, by the largest amount that depends on one of them and the slowest kind. */
function requirementOf(
  facts: PaymentFacts,
  coin: Coin,
  { kinds, ...amounts }: { receivedCents: bigint; company: bigint; kinds: ReadonlySet<TransferKind> | TransferKind },
): ConfirmationTier {
  const tier = tierOf(facts, coin, gravity(facts, amounts));
  const has = (kind: TransferKind): boolean => (typeof kinds === 'string' ? kinds === kind : kinds.has(kind));
  let { confirmations } = tier;
  if (tier.rule === 'confirmations' && has('pegout')) confirmations = Math.max(confirmations, PEGOUT_CONFIRMATIONS);
  if (has('coinbase')) confirmations = Math.max(confirmations, chainOf(coin).coinbaseMaturity);
  return confirmations === tier.confirmations ? tier : { ...tier, confirmations };
}
const requirement = (facts: PaymentFacts, t: Transfer, receivedCents: bigint): ConfirmationTier =>
  requirementOf(facts, t.coin, { receivedCents, company: companyCents(t), kinds: t.kind });

const confirmationsOf = (t: Transfer, tip: Tip | undefined): number => (t.block && tip ? Math.max(0, tip.height - t.block.height + 1) : 0);

function isConfirmed(t: Transfer, { rule, confirmations }: ConfirmationTier, tip: Tip | undefined): boolean {
  const count = confirmationsOf(t, tip);
  if (!tip || (t.kind === 'coinbase' && count < chainOf(t.coin).coinbaseMaturity)) return false;
  const chainlocked = t.lock === 'chainlock' || (t.block !== null && tip.chainlockHeight !== null && t.block.height <= tip.chainlockHeight);
  // A missing lock is normal for fresh inputs. Depth replaces it.
  const deep = count >= (tip.chainlockHeight === null ? DASH_CONFIRMATIONS_BLIND : DASH_CONFIRMATIONS);
  switch (rule) {
    case 'confirmations':
      return count >= Math.max(1, confirmations);
    case 'instantsend':
      return t.lock !== null || chainlocked || deep;
    case 'instantsend_or_chainlock':
      return chainlocked || (t.lock === 'instantsend' && count >= 1) || deep;
    case 'chainlock':
      return (chainlocked && count >= 1) || deep;
    case 'safe':
      return t.block !== null && tip.safeHeight !== null && t.block.height <= tip.safeHeight && count >= confirmations;
    case 'finalized':
      return t.block !== null && tip.finalizedHeight !== null && t.block.height <= tip.finalizedHeight;
  }
}

/**
 * Why a transfer that is confirmed on the followed chain does not complete yet: all sources of the coin must show its block and the
 * required number of blocks on top. Null when they do, or when there is only one source.
 */
function whyNotAgreed(t: Transfer, wanted: ConfirmationTier, tip: Tip | undefined, amount: bigint): string | null {
  const agreement = tip?.agreement;
  if (!tip || !agreement) return null;
  if (agreement.above && amount > agreement.above.usdCents) return agreement.above.reason;
  const isIn = t.block !== null && t.block.height <= agreement.height;
  if (isIn && isConfirmed(t, wanted, { ...tip, height: Math.min(tip.height, agreement.height) })) return null;
  // Only the operator's own node reports locks of unconfirmed transactions.
  const isLocked = t.lock !== null && isConfirmed({ ...t, block: null }, wanted, tip);
  if (isLocked && agreement.lockUsdCents !== null && amount <= agreement.lockUsdCents) return null;
  return `the sources of this chain have not agreed on block ${isIn || !t.block ? agreement.height + 1 : t.block.height} yet`;
}

/** What one transfer needs and how far it is, for a payment that has received this much. */
export function standingOf(facts: PaymentFacts, t: Transfer, receivedUsdE8: bigint, tips: Tips): TransferStanding {
  const tip = tips[t.coin];
  const wanted = requirement(facts, t, e8ToCents(receivedUsdE8));
  return {
    state:
      !t.block && t.conflict ? 'replaced' : !t.block && t.absentSince ? 'absent' : isConfirmed(t, wanted, tip) ? 'confirmed' : 'waiting',
    confirmations: confirmationsOf(t, tip),
    confirmationsRequired: requiredOf(wanted),
  };
}
const requiredOf = ({ rule, confirmations }: ConfirmationTier): number | null =>
  rule === 'confirmations' ? Math.max(1, confirmations) : null;

/**
 * The coins that the payer was asked for. Chains of one family share the address of a payment, so other coins can arrive there too; they
 * count only if the merchant accepts them, whatever they are worth.
 */
const askedCoins = ({ quotes, fixed }: PaymentFacts): ReadonlySet<Coin> =>
  new Set([...quotes.map(({ coin }) => coin), ...(fixed ? [fixed.coin] : [])]);

/** Whether the payer may still change the coin: nothing that counts has arrived. */
export function mayChangeCoin(facts: PaymentFacts, transfers: readonly Transfer[]): boolean {
  const asked = askedCoins(facts);
  return !transfers.some((t) => asked.has(t.coin) && !isDust(t) && !isContested(t) && !isGone(t, {}) && t.firstSeenAt >= facts.createdAt);
}

/** Whether only a decision of the merchant can change the status. */
export function isFinal(status: PaymentStatus): boolean {
  switch (status) {
    case 'completed':
    case 'expired':
    case 'failed':
    case 'cancelled':
      return true;
    case 'pending':
    case 'processing':
      return false;
  }
}

/** A transfer with everything that settling asks about it, computed once so that the work stays linear. */
type Judged = {
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

/** All transfers above dust by first sight (`real`), those not gone (`standing`), and among these the ones without a conflict (`alive`). */
function judge(
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
  if (real.some((j, i) => i > 0 && byFirstSight(real[i - 1]!, j) > 0)) real.sort(byFirstSight);
  const standing = real.filter(({ t }) => !isGone(t, tips));
  return { real, standing, alive: standing.filter((j) => !j.contested) };
}

/** What counts toward the amount, and whether it is enough: seen, and confirmed. */
function count(payment: PaymentFacts, alive: readonly Judged[], tips: Tips, decided: Decided) {
  const open = decided.closedAt === null;
  const early = open ? alive.filter((j) => j.inTime) : [];
  const crumbE8 = crumb(payment, early[0]?.t.coin ?? payment.quotes.at(-1)?.coin ?? null);
  // Each value was rounded down. The parts of a quoted amount must still add up to it, however many there are.
  const roundingE8 = crumbE8 + BigInt(alive.length);
  const wantedE8 = centsToE8(payment.targetUsdCents) - tolerance(payment, roundingE8);
  const soon = open ? alive.filter((j) => j.soon) : [];
  const takesLate = soon.length > 0 && sum(early) + sum(soon) >= wantedE8;
  const counts = (j: Judged): boolean => j.named || (open && (j.inTime || (takesLate && j.soon)));
  const counted = alive.filter(counts);
  const receivedE8 = sum(counted);
  const receivedCents = e8ToCents(receivedE8);
  // An accept makes what it covers sufficient, as long as all of it is there and worth something.
  const hasAccepted = (list: readonly Judged[]): boolean => {
    if (decided.accepts.length === 0) return false;
    const there = new Set(list.flatMap(({ t }) => (t.values.length > 0 ? [t.ref] : [])));
    return decided.accepts.some((refs) => refs.every((ref) => there.has(ref)));
  };
  const isEnough = (list: readonly Judged[]): boolean => list.length > 0 && (sum(list) >= wantedE8 || hasAccepted(list));
  const covered = isEnough(counted);
  const ready: Judged[] = [];
  let withheld: string | null = null;
  for (const j of covered ? counted : []) {
    const tip = tips[j.t.coin];
    const wanted = requirement(payment, j.t, receivedCents);
    if (!isConfirmed(j.t, wanted, tip)) continue;
    const reason = whyNotAgreed(j.t, wanted, tip, gravity(payment, { receivedCents, company: companyCents(j.t) }));
    if (reason === null) ready.push(j);
    else withheld ??= reason;
  }
  const confirmed = covered && isEnough(ready);
  const chainHold = counted.map(({ t }) => tips[t.coin]?.holdReason ?? null).find((reason) => reason !== null) ?? null;
  return {
    counted,
    held: alive.filter((j) => !counts(j)),
    takesLate,
    receivedE8,
    receivedCents,
    covered,
    roundingE8,
    isEnough,
    confirmed,
    holdReason: chainHold ?? (confirmed ? null : withheld),
  };
}
type Count = ReturnType<typeof count>;

/** Whether the deadline has passed on every chain with an assigned address, as far as it has been read. */
function hasEnded(issued: readonly Coin[], { expiresAt, tips, now }: { expiresAt: Date; tips: Tips; now: Date }): boolean {
  if (issued.length === 0) return now > expiresAt;
  return issued.every((coin) => {
    const end = expiresAt.getTime() + chainOf(coin).slackSeconds * 1000;
    return now.getTime() > end && (tips[coin]?.scannedThrough.getTime() ?? 0) >= end;
  });
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

/** The exceptions, most serious first. */
function exceptionsOf(
  payment: PaymentFacts,
  goal: PaymentStatus,
  { real, decided, tips, now, ...counting }: Count & { real: readonly Judged[]; decided: Decided; tips: Tips; now: Date },
): readonly Exception[] {
  const { covered, receivedE8 } = counting;
  const { closedAt } = decided;
  const held = counting.held.filter(({ t }) => !decided.settledRefs.has(t.ref));
  const found: Record<Exception, boolean> = {
    reorged: payment.completedAt
      ? isReversed(payment, payment.completedAt, { tips, ...counting })
      : goal !== 'completed' &&
        real.some(
          ({ t }) =>
            t.unminedSince !== null &&
            !t.block &&
            ((t.conflict?.height ?? null) !== null || now.getTime() - t.unminedSince.getTime() >= REORGED_AFTER_MS),
        ),
    replaced: !covered && goal !== 'completed' && real.some(({ t }) => !t.block && t.conflict !== null),
    paid_after_cancel:
      (goal === 'cancelled' || closedAt !== null) && held.some((j) => goal === 'cancelled' || j.seenMs > closedAt!.getTime()),
    late:
      closedAt === null &&
      ((goal !== 'pending' && held.some((j) => j.isAsked && !j.inTime)) || (covered && (goal === 'expired' || goal === 'failed'))),
    underpaid: !covered && receivedE8 > 0n && (goal === 'pending' || goal === 'failed'),
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
const isOverpaid = (payment: PaymentFacts, { covered, receivedE8 }: Pick<Count, 'covered' | 'receivedE8'>): boolean => {
  const targetE8 = centsToE8(payment.targetUsdCents);
  return covered && (receivedE8 - targetE8) * 100n > targetE8;
};

function windowEndOf({ createdAt, rules, extendedUntil }: PaymentFacts): Date {
  const end = addMs(createdAt, rules.windowSeconds * 1000);
  return extendedUntil ? latest(end, extendedUntil) : end;
}

/**
 * Settles a payment at `now` (the database clock, read after the lock, plus the test offsets). Returns its state and the steps from the
 * stored status along allowed transitions; a payment that is first found confirmed passes through processing. Settling again with the
 * same facts takes no step, and the order of the facts does not matter. The work is linear in the number of transfers, because anyone
 * can send thousands of them.
 */
export function settle(payment: PaymentFacts, transfers: readonly Transfer[], tips: Tips, now: Date): Settlement {
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
  return {
    steps: stepsTo(payment.status, goal),
    status: goal,
    exceptions,
    exception: exceptions[0] ?? null,
    expiresAt,
    extension: null,
    ...shown(payment, counting, { tips, expiresAt }),
    uncounted: uncountedOf(counting.held, decided),
    ...missing(payment, counting),
    dustUnits: dustOf(transfers, tips, shownCoin(payment, counting)),
    completedAt: payment.completedAt ?? (goal === 'completed' ? now : null),
    holdReason: goal === 'processing' ? counting.holdReason : null,
    nextDueAt: nextDue({ status: goal, ended, unwound: isUnwound(payment, tips), expiresAt, coinsIssued, standing, now }),
  };
}

/** When enough of the amount had arrived to extend the deadlines. */
function partialSince(payment: PaymentFacts, alive: readonly Judged[]): Date | null {
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
function extensionFrom(payment: PaymentFacts, at: Date, expiresAt: Date): NonNullable<Settlement['extension']> {
  const quote = payment.quotes.at(-1);
  const isLocked = quote !== undefined && quote.from <= at && at <= quote.until;
  return {
    windowUntil: latest(expiresAt, addMs(at, EXTENSION_MS)),
    rateLockUntil: isLocked ? addMs(at, payment.rules.rateLockSeconds * 1000) : null,
  };
}

function stepsTo(from: PaymentStatus, goal: PaymentStatus): readonly Step[] {
  if (goal === from) return [];
  return goal === 'completed' && from !== 'processing' ? [move(from, 'processing'), move('processing', 'completed')] : [move(from, goal)];
}

/** Confirmations over all counted transfers of a coin, because the payment waits for all of them. */
function gravest(counted: readonly Judged[], coin: Coin): { company: bigint; kinds: Set<TransferKind> } {
  let company = 0n;
  const kinds = new Set<TransferKind>();
  for (const { t } of counted) {
    if (t.coin !== coin) continue;
    kinds.add(t.kind);
    const cents = companyCents(t);
    if (cents > company) company = cents;
  }
  return { company, kinds };
}

/** The coin of the first counted transfer, otherwise the last choice. */
const shownCoin = ({ quotes, fixed }: PaymentFacts, { counted }: Pick<Count, 'counted'>): Coin | null =>
  counted[0]?.t.coin ?? quotes.at(-1)?.coin ?? fixed?.coin ?? null;

/** What is missing from a payment that counts as paid, apart from rounding. */
function missing(payment: PaymentFacts, counting: Count): Pick<Settlement, 'shortUnits' | 'shortUsdE8'> {
  const coin = shownCoin(payment, counting);
  const shortUsdE8 = centsToE8(payment.targetUsdCents) - counting.receivedE8;
  if (!counting.covered || coin === null || shortUsdE8 <= counting.roundingE8) return { shortUnits: 0n, shortUsdE8: 0n };
  const quote = payment.quotes.findLast((q) => q.coin === coin) ?? null;
  const amountUnits = payment.fixed?.coin === coin ? payment.fixed.units : quote?.units;
  return {
    shortUnits: amountUnits === undefined ? 0n : remaining({ payment, coin, quote, amountUnits, restE8: shortUsdE8 }),
    shortUsdE8,
  };
}

/** What arrived and does not count, by coin and by what the merchant did about it. */
function uncountedOf(held: readonly Judged[], { settledRefs }: Decided): readonly Uncounted[] {
  const sums: Uncounted[] = [];
  for (const { t, worthE8 } of held) {
    const state = settledRefs.get(t.ref) ?? 'held';
    const usdE8 = t.values.length === 0 ? null : worthE8;
    const sum = sums.find((one) => one.coin === t.coin && one.state === state);
    if (!sum) sums.push({ coin: t.coin, state, units: t.units, usdE8 });
    else {
      sum.units += t.units;
      sum.usdE8 = sum.usdE8 === null || usdE8 === null ? null : sum.usdE8 + usdE8;
    }
  }
  return sums;
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

/** The sum of transfers too small to count that are still there. */
const dustOf = (transfers: readonly Transfer[], tips: Tips, coin: Coin | null): bigint =>
  transfers.reduce((total, t) => (t.coin === coin && isDust(t) && !isGone(t, tips) ? total + t.units : total), 0n);

/** The amounts of the payment in the coin that is shown. */
function shown(payment: PaymentFacts, counting: Count, { tips, expiresAt }: { tips: Tips; expiresAt: Date }) {
  const { counted, covered, receivedE8, receivedCents } = counting;
  const { fixed } = payment;
  const coin = shownCoin(payment, counting);
  const quote = payment.quotes.findLast((q) => q.coin === coin) ?? null;
  const amountUnits = coin === null ? null : fixed?.coin === coin ? fixed.units : (quote?.units ?? null);
  const receivedUnits = counted.reduce((total, { t }) => (t.coin === coin ? total + t.units : total), 0n);
  const main = counted[0]?.t;
  const wanted = coin === null ? null : requirementOf(payment, coin, { receivedCents, ...gravest(counted, coin) });
  const least = counted.reduce<number | null>((low, { t }) => {
    const count = confirmationsOf(t, tips[t.coin]);
    return low === null || count < low ? count : low;
  }, null);
  return {
    coin,
    amountUnits,
    quoteExpiresAt: quote && earliest(lockEnd(payment, quote), expiresAt),
    receivedUnits,
    receivedUsdE8: receivedE8,
    remainingUnits:
      covered || coin === null || amountUnits === null
        ? 0n
        : remaining({ payment, coin, quote, amountUnits, restE8: centsToE8(payment.targetUsdCents) - receivedE8 }),
    overpaidUnits: isOverpaid(payment, counting) && amountUnits !== null && receivedUnits > amountUnits ? receivedUnits - amountUnits : 0n,
    transactionHash: main?.txid ?? null,
    confirmations: least ?? 0,
    confirmationsRequired: wanted && requiredOf(wanted),
    completionRule: wanted?.rule ?? ('confirmations' as const),
  };
}

/** The value of the smallest shown decimal, so that rounding alone never makes a payment short. */
function crumb(payment: PaymentFacts, coin: Coin | null): bigint {
  if (coin === null) return 0n;
  if (payment.fixed?.coin === coin) return divideCeil(centsToE8(payment.targetUsdCents) * shownUnit(coin), payment.fixed.units);
  const rate = payment.quotes.findLast((q) => q.coin === coin)?.rateE8;
  return rate ? divideCeil(rate * shownUnit(coin), 10n ** BigInt(COIN[coin].decimals)) : 0n;
}

/** How much may be missing: a share of the target, capped, but at least one unit of the last shown decimal. */
function tolerance({ targetUsdCents, rules }: PaymentFacts, crumbE8: bigint): bigint {
  const share = (centsToE8(targetUsdCents) * BigInt(rules.toleranceBasisPoints)) / 10_000n;
  const cap = centsToE8(rules.toleranceCapUsdCents);
  const least = share < cap ? share : cap;
  return least > crumbE8 ? least : crumbE8;
}

/** What is still due in the shown coin, rounded up to the last shown decimal. */
function remaining({
  payment,
  coin,
  quote,
  amountUnits,
  restE8,
}: {
  payment: PaymentFacts;
  coin: Coin;
  quote: Quote | null;
  amountUnits: bigint;
  restE8: bigint;
}): bigint {
  const targetE8 = centsToE8(payment.targetUsdCents);
  if (restE8 >= targetE8) return amountUnits;
  const units = quote?.rateE8
    ? divideCeil(restE8 * 10n ** BigInt(COIN[coin].decimals), quote.rateE8)
    : divideCeil(restE8 * amountUnits, targetE8);
  const step = shownUnit(coin);
  return divideCeil(units, step) * step;
}

function nextDue({
  status,
  ended,
  unwound,
  expiresAt,
  coinsIssued,
  standing,
  now,
}: {
  status: PaymentStatus;
  ended: boolean;
  unwound: boolean;
  expiresAt: Date;
  coinsIssued: readonly Coin[];
  /** Transfers that are gone do not change with time. */
  standing: readonly Judged[];
  now: Date;
}): Date | null {
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
      const goneAt = addMs(t.absentSince, GONE_AFTER_MS);
      wake(goneAt);
      isOverdue ||= goneAt <= now;
    }
    if (t.unminedSince) wake(addMs(t.unminedSince, REORGED_AFTER_MS));
  }
  // Something is overdue and waits for the follower: settle again soon.
  if (isOverdue || (status === 'completed' && unwound)) wake(addMs(now, RECHECK_MS));
  return next;
}

const GRADE: Readonly<Record<CompletionRule, number>> = {
  confirmations: 0,
  instantsend: 1,
  instantsend_or_chainlock: 2,
  chainlock: 3,
  safe: 1,
  finalized: 2,
};

/**
 * The confirmation tiers of a new payment: the default table, raised by the merchant (lower values are ignored), or the operator's
 * override. Only the override may go lower, and its numbers replace locks and tags.
 */
export function mergeConfirmations(
  table: readonly ConfirmationTier[],
  merchant: readonly ConfirmationTier[] | null,
  operator: readonly ConfirmationTier[] | null,
): readonly ConfirmationTier[] {
  const base = operator ?? table;
  if (!merchant || merchant.length === 0) return base;
  const bounds = [...new Set([...base, ...merchant].map((t) => t.belowUsdCents))].toSorted((a, b) =>
    a === null ? 1 : b === null ? -1 : a < b ? -1 : 1,
  );
  const at = (tiers: readonly ConfirmationTier[], bound: bigint | null) =>
    tiers.find((t) => t.belowUsdCents === null || (bound !== null && bound <= t.belowUsdCents)) ?? tiers.at(-1)!;
  return bounds.map((bound) => {
    const low = at(base, bound);
    const wish = at(merchant, bound);
    const raised = wish.rule === low.rule ? wish.confirmations > low.confirmations : GRADE[wish.rule] > GRADE[low.rule];
    return { ...(raised ? { ...wish, confirmations: Math.max(wish.confirmations, low.confirmations) } : low), belowUsdCents: bound };
  });
}

/** Reads `1`, or `100:1,1000:2,*:6` (below 100 USD one, below 1000 two, else six). Errors: says what is wrong. */
export function parseConfirmations(text: string): readonly ConfirmationTier[] {
  const tier = (below: bigint | null, count: string): ConfirmationTier => {
    if (!/^[1-9]\d{0,3}$/.test(count)) throw new Error('needs whole numbers of confirmations from 1 up');
    return { belowUsdCents: below, confirmations: Number(count), rule: 'confirmations' };
  };
  const parts = text.split(',').map((part) => part.trim());
  if (parts.length === 1 && !parts[0]!.includes(':')) return [tier(null, parts[0]!)];
  const tiers = parts.map((part) => {
    const [bound = '', count = ''] = part.split(':');
    if (bound !== '*' && !/^[1-9]\d{0,9}$/.test(bound)) throw new Error('must look like 1, or 100:1,1000:2,*:6');
    return tier(bound === '*' ? null : BigInt(bound) * 100n, count);
  });
  const bounds = tiers.map((t) => t.belowUsdCents);
  if (bounds.at(-1) !== null || bounds.slice(0, -1).some((b, i) => b === null || (i > 0 && b <= bounds[i - 1]!))) {
    throw new Error('needs rising bounds and *:N as the last part');
  }
  return tiers;
}
