/** What gas costs beside the money that it moves, where both have a price. */
import type { Context } from '../context.ts';
import { type Coin, feeCoinOf, isToken, pricedAs } from '../core/coin.ts';
import { worthUsdE8 } from '../core/money.ts';

/** US dollars with eight decimals for one coin that pays for gas, and for one of the token. */
export type GasPrices = { gas: bigint; token: bigint };

/** Null: one of them has no price on which sources agree. */
export function readGasPrices({ prices }: Pick<Context, 'prices'>, coin: Coin): GasPrices | null {
  const gas = prices.valuing(pricedAs(feeCoinOf(coin)));
  const token = prices.valuing(pricedAs(coin));
  return gas && token && { gas: gas.priceE8, token: token.priceE8 };
}

/** Whether a fee, in the coin that pays for gas, is more than `percent` of `units`. Without prices, no fee of a token is. */
export function isDear(
  coin: Coin,
  { fee, units, percent, prices }: { fee: bigint; units: bigint; percent: bigint; prices: GasPrices | null },
): boolean {
  if (!isToken(coin)) return fee * 100n > units * percent;
  if (prices === null) return false;
  return worthUsdE8(feeCoinOf(coin), fee, prices.gas) * 100n > worthUsdE8(coin, units, prices.token) * percent;
}
