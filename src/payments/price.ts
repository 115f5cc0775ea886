/** Prices in currencies other than US dollars. They are converted to cents once, at the current rate, which is stored with the payment. */
import type { Context } from '../context.ts';
import { COIN, type Coin, type Mode, pricedAs } from '../core/coin.ts';
import { type Fiat, fiatDecimals, fiatToUsdCents, formatFiat, isFiat } from '../core/fiat.ts';
import { centsToE8, MAX_USD_CENTS, parseDecimal, shownUnit } from '../core/money.ts';
import { Problem } from '../core/problem.ts';
import type { PaymentRequest } from './view.ts';

/** A price in the smallest units of its currency. */
export type AskedPrice = { currency: Fiat; minor: bigint };
export type Price = { amountUsdCents: bigint; fiat: PaymentRequest['fiat'] };

/**
 * A price in US cents, rounded up to a cent. Errors, with the names in `params`: price_unavailable if there is no current rate,
 * amount_too_large.
 */
export function priceAt(
  ctx: Context,
  { mode, currency, minor, params }: AskedPrice & { mode: Mode; params: { amount: string; currency: string } },
): Price {
  const tooLarge = (maximum: string) => new Problem('amount_too_large', { maximum }, { param: params.amount });
  if (currency === 'USD') {
    if (minor > MAX_USD_CENTS) throw tooLarge('1000000.00');
    return { amountUsdCents: minor, fiat: null };
  }
  const found = mode === 'test' ? { rate: ctx.fiat.forTest(currency) } : ctx.fiat.quotable(currency);
  if (!('rate' in found))
    throw new Problem('price_unavailable', { coin: currency, reason: found.reason }, { param: params.currency, retryAfterSeconds: 60 });
  const { rateE8, sources, asOf } = found.rate;
  const amountUsdCents = fiatToUsdCents(currency, minor, rateE8);
  if (amountUsdCents > MAX_USD_CENTS) throw tooLarge('the worth of 1000000.00 USD');
  const fiat = { amount: formatFiat(currency, minor), currency, rateE8, source: sources.join(', '), at: asOf.toISOString() };
  return { amountUsdCents, fiat };
}

/** The price of a payment in its own currency. */
export function askedOf({ fiat }: Pick<PaymentRequest, 'fiat'>, targetUsdCents: bigint): AskedPrice {
  const minor = fiat && isFiat(fiat.currency) ? parseDecimal(fiat.amount, fiatDecimals(fiat.currency)) : null;
  return fiat && minor !== null ? { currency: fiat.currency as Fiat, minor } : { currency: 'USD', minor: targetUsdCents };
}

/** A unit price or tax of a payment in US cents, at the stored rate, rounded up like the price. */
export const itemUsdCents = ({ fiat }: Pick<PaymentRequest, 'fiat'>, minor: bigint): bigint =>
  fiat && isFiat(fiat.currency) ? fiatToUsdCents(fiat.currency, minor, fiat.rateE8) : minor;
/** A unit price or tax as a decimal in the currency of the price. */
export const itemAmount = ({ fiat }: Pick<PaymentRequest, 'fiat'>, minor: bigint): string =>
  formatFiat(fiat && isFiat(fiat.currency) ? fiat.currency : 'USD', minor);

/** The current price of a coin. Errors: price_unavailable. */
export function priceOf(ctx: Context, { mode, coin }: { mode: Mode; coin: Coin }): bigint {
  const quotable = mode === 'test' ? { price: ctx.prices.forTest(pricedAs(coin)) } : ctx.prices.quotable(pricedAs(coin));
  if (!('price' in quotable)) throw new Problem('price_unavailable', { coin, reason: quotable.reason }, { retryAfterSeconds: 30 });
  return quotable.price.priceE8;
}

/** So much of a coin as people see: without the places behind the eighth. */
export const shownUnits = (coin: Coin, units: bigint): bigint => units - (units % shownUnit(coin));
/** What an amount in US cents is in a coin, rounded down. */
export const unitsFor = (coin: Coin, usdCents: bigint, priceE8: bigint): bigint =>
  shownUnits(coin, (centsToE8(usdCents) * 10n ** BigInt(COIN[coin].decimals)) / priceE8);
