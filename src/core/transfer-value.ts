/** The value of a transfer in US dollars: at the rate that was locked when it was first seen, otherwise at the current price. */
import { HOUR_MS, latest, MINUTE_MS } from './clock.ts';
import { invariant } from './invariant.ts';
import { centsToE8, e8ToCents, worthUsdE8 } from './money.ts';
import type { Company, PaymentFacts, Quote, Transfer, TransferValue } from './payment.ts';

/** A lock covers transfers first seen up to this long after its end, because the payer had already sent them. */
const LOCK_GRACE_MS = 10 * MINUTE_MS;
/** If a quote was renewed this shortly before the first sight, the payer may have sent at the previous rate. */
const ON_ITS_WAY_MS = MINUTE_MS;

export const protectionMs = (facts: PaymentFacts): number =>
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
  const [current, previous] = [quotes[last], quotes[last - 1]];
  const seenMs = t.firstSeenAt.getTime();
  const rates = [current, previous].flatMap((quote) => {
    if (!current || !quote || quote.rateE8 === null || seenMs > lockEnd(payment, quote).getTime() + LOCK_GRACE_MS) return [];
    return quote === current || seenMs < current.from.getTime() + ON_ITS_WAY_MS ? [quote.rateE8] : [];
  });
  return rates.length === 0 ? null : rates.reduce((a, b) => (b > a ? b : a));
}

export type Valuation = {
  payment: PaymentFacts;
  transfer: Transfer;
  /** The current price; null while there is no usable one. */
  spot: { priceE8: bigint; at: Date } | null;
  now: Date;
  /** What one payer may have sent together with it, if anything. */
  company?: Company | null;
};

/**
 * The value of a transfer to freeze now; null when it already has one, or while there is no usable price (it is then held). Uses the
 * rate that was locked when the transfer was first seen or up to ten minutes before, otherwise the spot price. A transfer is valued
 * again only when its first sight lost its protection.
 */
export function valueTransfer({ payment, transfer: t, spot, now, company = null }: Valuation): TransferValue | null {
  const again = t.values.length > 0;
  if (again && (!lostProtection(payment, t) || t.values.some((v) => v.reason === 'confirmation'))) return null;
  const reason = again ? 'confirmation' : 'first_sight';
  const valued = (basis: TransferValue['basis'], usdE8: bigint): TransferValue => ({
    usdE8: checkedWorth(t, usdE8),
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

/** Nothing is worth less than nothing; rounded down, a little can be worth nothing. */
function checkedWorth({ ref }: Transfer, usdE8: bigint): bigint {
  invariant(usdE8 >= 0n, `the value of ${ref} is not negative`);
  return usdE8;
}

export const worth = (t: Transfer): bigint => t.values.at(-1)?.usdE8 ?? 0n;
