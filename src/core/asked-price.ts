/** The price that was asked for, in its own currency: its shares, and what amounts of US cents are in a coin. */
import { COIN, type Coin } from './coin.ts';
import { type Fiat, fiatDecimals, fiatToUsdCents, isFiat } from './fiat.ts';
import { centsToE8, parseDecimal, shownUnit } from './money.ts';
import type { PaymentRequest } from './payment-view.ts';

/** A price in the smallest units of its currency. */
export type AskedPrice = { currency: Fiat; minor: bigint };

/** The price of a payment in its own currency. */
export function askedOf({ fiat }: Pick<PaymentRequest, 'fiat'>, targetUsdCents: bigint): AskedPrice {
  const minor = fiat && isFiat(fiat.currency) ? parseDecimal(fiat.amount, fiatDecimals(fiat.currency)) : null;
  return fiat && minor !== null ? { currency: fiat.currency as Fiat, minor } : { currency: 'USD', minor: targetUsdCents };
}

/** What cents are of a price in its own currency: its share of them, to the nearest unit. All of them are exactly the price. */
export function priceShare({ minor, cents, ofCents }: { minor: bigint; cents: bigint; ofCents: bigint }): bigint {
  if (ofCents === 0n) return 0n;
  const [twice, whole] = [2n * minor * cents, 2n * ofCents];
  return (twice + (cents < 0n ? -ofCents : ofCents)) / whole;
}

/** A unit price or tax of a payment in US cents, at the stored rate, rounded up like the price. */
export const itemUsdCents = ({ fiat }: Pick<PaymentRequest, 'fiat'>, minor: bigint): bigint =>
  fiat && isFiat(fiat.currency) ? fiatToUsdCents(fiat.currency, minor, fiat.rateE8) : minor;

/** So much of a coin as people see: without the places behind the eighth. */
export const shownUnits = (coin: Coin, units: bigint): bigint => units - (units % shownUnit(coin));
/** What an amount in US cents is in a coin, rounded down. */
export const unitsFor = (coin: Coin, usdCents: bigint, priceE8: bigint): bigint =>
  shownUnits(coin, (centsToE8(usdCents) * 10n ** BigInt(COIN[coin].decimals)) / priceE8);
