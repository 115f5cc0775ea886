/** Prices in currencies other than US dollars. They are converted to cents once, at the current rate, which is stored with the payment. */
import type { Context } from '#context';
import { type AskedPrice, askedOf } from '#core/asked-price';
import { ASSET, COIN, type Coin, type Mode, pricedAs } from '#core/coin';
import { fiatDecimals, fiatToUsdCents, formatFiat } from '#core/fiat';
import { centsToE8, divideCeil, dueUnit, E8, MAX_USD_CENTS, quoteUnits } from '#core/money';
import type { DisplayRate, Rules } from '#core/payment';
import type { PaymentRequest } from '#core/payment-view';
import { Problem } from '#core/problem';
import type { Sql, Tx } from '#db';
import { readDisplayCurrencies } from '#merchants';

export type PaymentPrice = { amountUsdCents: bigint; fiat: PaymentRequest['fiat'] };

/**
 * A price in US cents, rounded up to a cent. Errors, with the names in `params`: price_unavailable if there is no current rate,
 * amount_too_large.
 */
export function priceAt(
  ctx: Context,
  { mode, currency, minor, params }: AskedPrice & { mode: Mode; params: { amount: string; currency: string } },
): PaymentPrice {
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

/** How a merchant prices its coins. */
type Pricing = Pick<Rules, 'adjustments' | 'priceSource'>;
const FULL = 10_000n;
const adjustment = ({ adjustments }: Pricing, coin: Coin): bigint => FULL + BigInt(adjustments[COIN[coin].asset] ?? 0);
/** The price that a payment counts a coin at: below the market price where customers pay more in that coin. */
export const adjustedPrice = (pricing: Pricing, coin: Coin, priceE8: bigint): bigint =>
  divideCeil(priceE8 * FULL, adjustment(pricing, coin));
/** The market price for a quote, or why there is none. In test mode there always is one. `source`: the preferred one. */
export const marketPrice = (
  ctx: Context,
  { mode, coin, source = null }: { mode: Mode; coin: Coin; source?: string | null },
): ReturnType<Context['prices']['quotable']> =>
  mode === 'test' ? { price: ctx.prices.forTest(pricedAs(coin), source) } : ctx.prices.quotable(pricedAs(coin), source);

/** How far the market may be from par before a token no longer counts as its currency. */
const PAR_PERCENT = 1n;
/** What a customer is asked for in a coin, and the rate at which it is worth the price. */
type QuotedAmount = { units: bigint; rateE8: bigint };
/**
 * A token of the price's own currency is asked for at par, while its market is there too: 20.00 EUR are 20.00 EURC. Any other coin is
 * asked for at its price in US dollars. Both with the adjustment of the merchant.
 */
export function askIn(
  coin: Coin,
  { targetUsdCents, fiat, pricing }: { targetUsdCents: bigint; pricing: Pricing } & Pick<PaymentRequest, 'fiat'>,
  priceE8: bigint,
): QuotedAmount {
  const { currency, minor } = askedOf({ fiat }, targetUsdCents);
  if (ASSET[COIN[coin].asset].par === currency && minor > 0n) {
    const step = dueUnit(coin);
    const atPar = minor * 10n ** BigInt(COIN[coin].decimals - fiatDecimals(currency));
    const units = divideCeil(atPar * adjustment(pricing, coin), FULL * step) * step;
    const parE8 = fiat === null ? E8 : (E8 * E8) / fiat.rateE8;
    const apart = parE8 > priceE8 ? parE8 - priceE8 : priceE8 - parE8;
    // The rate is rounded up, so that exactly these units are worth the price.
    if (apart * 100n <= parE8 * PAR_PERCENT)
      return { units, rateE8: divideCeil(centsToE8(targetUsdCents) * 10n ** BigInt(COIN[coin].decimals), units) };
  }
  const rateE8 = adjustedPrice(pricing, coin, priceE8);
  return { units: quoteUnits(coin, targetUsdCents, rateE8), rateE8 };
}

/** The current price of a coin. Errors: price_unavailable. */
export function priceOf(ctx: Context, { mode, coin }: { mode: Mode; coin: Coin }): bigint {
  const quotable = marketPrice(ctx, { mode, coin });
  if (!('price' in quotable)) throw new Problem('price_unavailable', { coin, reason: quotable.reason }, { retryAfterSeconds: 30 });
  return quotable.price.priceE8;
}

// The rate of the display currency of merchants, which is stored with what is valued, so that reports of a past period stay the same.

type Owner = { merchantId: string; mode: Mode };

/** The rates of these merchants now, from memory. Those whose display currency is the US dollar or has no rate now have none. */
export async function readDisplayRates(
  ctx: Context,
  sql: Sql | Tx,
  owners: readonly Owner[],
): Promise<(owner: Owner) => DisplayRate | undefined> {
  const currencies = await readDisplayCurrencies(sql, { merchantIds: [...new Set(owners.map(({ merchantId }) => merchantId))] });
  return ({ merchantId, mode }) => {
    const currency = currencies.get(merchantId) ?? 'USD';
    if (currency === 'USD') return undefined;
    const found = mode === 'test' ? { rate: ctx.fiat.forTest(currency) } : ctx.fiat.quotable(currency);
    return 'rate' in found ? { currency, rateE8: found.rate.rateE8 } : undefined;
  };
}
