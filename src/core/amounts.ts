/** The amounts of a payment as they are shown: due, received, remaining, too much, and money that does not count. */
import { COIN, type Coin } from './coin.ts';
import { companyCents, confirmationsOf, requiredOf, requirementOf } from './confirmation.ts';
import type { Count, DecisionFacts, JudgedTransfer } from './coverage.ts';
import { earliest } from './dates.ts';
import { centsToE8, divideCeil, dueUnit } from './money.ts';
import type { PaymentFacts, Quote, Settlement, Tips, TransferKind, TransferShare, Uncounted, UncountedState, Verifier } from './payment.ts';
import { hasArrived, lockEnd } from './transfer.ts';

/** The coin of the first counted transfer, otherwise the last choice. */
export const shownCoin = ({ quotes, fixed }: PaymentFacts, { counted }: Pick<Count, 'counted'>): Coin | null =>
  counted[0]?.t.coin ?? quotes.at(-1)?.coin ?? fixed?.coin ?? null;

export const isOverpaid = (payment: PaymentFacts, { covered, receivedE8 }: Pick<Count, 'covered' | 'receivedE8'>): boolean => {
  const targetE8 = centsToE8(payment.targetUsdCents);
  return covered && (receivedE8 - targetE8) * 100n > targetE8;
};

/** Confirmations over all counted transfers of a coin, because the payment waits for all of them. */
function mostAtStake(counted: readonly JudgedTransfer[], coin: Coin): { company: bigint; kinds: Set<TransferKind> } {
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

/** What is still due in the shown coin, rounded up to the smallest amount due. */
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
  const step = dueUnit(coin);
  return divideCeil(units, step) * step;
}

const WEAKNESS: Readonly<Record<Verifier, number>> = { preimage: 0, proof_of_work: 0, sync_committee: 1, node: 2, providers: 3 };
/** The weakest of these; null when one is missing, or there are none. */
export const weakestOf = (found: readonly (Verifier | null)[]): Verifier | null =>
  found.reduce<Verifier | null | undefined>(
    (worst, one) => (worst === null || one === null ? null : worst === undefined || WEAKNESS[one] > WEAKNESS[worst] ? one : worst),
    undefined,
  ) ?? null;
/** The weakest proof of everything that counts. A lock of a network, which only your own node reports, is its word. */
function verifierOf(counted: readonly JudgedTransfer[]): Verifier | null {
  const found = counted.map(({ t }) => t.verifiedBy ?? (t.lock === null ? null : t.lock === 'preimage' ? 'preimage' : 'node'));
  return weakestOf(found);
}

/** The amounts of the payment in the coin that is shown. */
export function shownAmounts(payment: PaymentFacts, counting: Count, { tips, expiresAt }: { tips: Tips; expiresAt: Date }) {
  const { counted, held, covered, seenE8, seenCents, receivedE8, receivedCents } = counting;
  const { fixed } = payment;
  const coin = shownCoin(payment, counting);
  const quote = payment.quotes.findLast((q) => q.coin === coin) ?? null;
  const amountUnits = coin === null ? null : fixed?.coin === coin ? fixed.units : (quote?.units ?? null);
  const unitsOf = (list: readonly JudgedTransfer[]) => list.reduce((total, { t }) => (t.coin === coin ? total + t.units : total), 0n);
  const receivedUnits = unitsOf(counted.filter(({ t }) => hasArrived(t)));
  // What arrived and does not count has a transaction and confirmations too.
  const shownFirst = counted.length > 0 ? counted : held;
  const main = (shownFirst.find(({ t }) => t.coin === coin) ?? shownFirst[0])?.t;
  const wanted = coin === null ? null : requirementOf(payment, coin, { receivedCents: seenCents, ...mostAtStake(counted, coin) });
  const least = shownFirst.reduce<number | null>((low, { t }) => {
    const count = confirmationsOf(t, tips[t.coin]);
    return low === null || count < low ? count : low;
  }, null);
  return {
    coin,
    amountUnits,
    quoteExpiresAt: quote && earliest(lockEnd(payment, quote), expiresAt),
    receivedUnits,
    receivedUsdE8: receivedE8,
    receivedUsdCents: receivedCents,
    seenUnits: unitsOf(counted),
    seenUsdE8: seenE8,
    remainingUnits:
      covered || coin === null || amountUnits === null
        ? 0n
        : remaining({ payment, coin, quote, amountUnits, restE8: centsToE8(payment.targetUsdCents) - seenE8 }),
    overpaidUnits: isOverpaid(payment, counting) && amountUnits !== null && receivedUnits > amountUnits ? receivedUnits - amountUnits : 0n,
    transactionHash: main?.txid ?? null,
    confirmations: least ?? 0,
    confirmationsRequired: wanted && requiredOf(wanted),
    completionRule: wanted?.rule ?? ('confirmations' as const),
    verifiedBy: verifierOf(counted),
  };
}

/** What a completed payment counts of each transfer that arrived. What is more than its price came with the last ones. */
export function countedShares(payment: PaymentFacts, counting: Count): TransferShare[] {
  let restCents = isOverpaid(payment, counting) ? counting.receivedCents - payment.targetUsdCents : 0n;
  const arrived = counting.counted.filter(({ t }) => hasArrived(t));
  return arrived.toReversed().map(({ t: { coin, ref, units }, cents }) => {
    const most = restCents < cents ? restCents : cents;
    const overUnits = most <= 0n ? 0n : (units * most) / cents;
    const overCents = overUnits === 0n ? 0n : most;
    restCents -= overCents;
    return { coin, ref, units, cents, overUnits, overCents };
  });
}

/** What is missing from a payment that counts as paid, apart from rounding. */
export function shortAmounts(payment: PaymentFacts, counting: Count): Pick<Settlement, 'shortUnits' | 'shortUsdE8'> {
  const coin = shownCoin(payment, counting);
  const shortUsdE8 = centsToE8(payment.targetUsdCents) - counting.seenE8;
  if (!counting.covered || coin === null || shortUsdE8 <= counting.roundingE8) return { shortUnits: 0n, shortUsdE8: 0n };
  const quote = payment.quotes.findLast((q) => q.coin === coin) ?? null;
  const amountUnits = payment.fixed?.coin === coin ? payment.fixed.units : quote?.units;
  return {
    shortUnits: amountUnits === undefined ? 0n : remaining({ payment, coin, quote, amountUnits, restE8: shortUsdE8 }),
    shortUsdE8,
  };
}

/**
 * What is beside the money that was received: what arrived and does not count, by coin and by what the merchant did about it; and what is
 * only announced, whether it would count or not.
 */
export function uncountedOf({ held, counted }: Pick<Count, 'held' | 'counted'>, { settledRefs }: DecisionFacts): readonly Uncounted[] {
  const sums: Uncounted[] = [];
  const add = ({ t, cents }: JudgedTransfer, state: UncountedState, waits: boolean): void => {
    const usdE8 = t.values.length === 0 ? null : centsToE8(cents);
    const sum = sums.find((one) => one.coin === t.coin && one.state === state && (one.waits === true) === waits);
    if (!sum) sums.push({ coin: t.coin, state, units: t.units, usdE8, ...(waits && { waits: true as const }) });
    else {
      sum.units += t.units;
      sum.usdE8 = sum.usdE8 === null || usdE8 === null ? null : sum.usdE8 + usdE8;
    }
  };
  for (const one of held) {
    const decided = settledRefs.get(one.t.ref) ?? 'held';
    if (hasArrived(one.t)) add(one, decided, false);
    else add(one, 'announced', decided === 'held');
  }
  for (const one of counted) if (!hasArrived(one.t)) add(one, 'announced', false);
  return sums;
}
