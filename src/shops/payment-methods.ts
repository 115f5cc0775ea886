/** Names of coins in the protocol: `BTC-CHAIN` for the coin of a chain, `USDC-ETHEREUM` for a token on one. */
import type { Context } from '../context.ts';
import { COIN, COINS, type Coin, chainOf, isToken, type Mode } from '../core/coin.ts';
import { getMerchant, isOffered } from '../merchants/merchants.ts';

export const methodOf = (coin: Coin): string => `${COIN[coin].asset}-${isToken(coin) ? chainOf(coin).chain.toUpperCase() : 'CHAIN'}`;

/** The coin of a method as plugins write it: `BTC`, `BTC-CHAIN`, `BTC_CHAIN`, `BTC-OnChain`; null if there is none. */
export function coinOfMethod(text: string): Coin | null {
  const asked = text
    .toUpperCase()
    .replaceAll('_', '-')
    .replace(/-ONCHAIN$/, '-CHAIN');
  return COINS.find((coin) => methodOf(coin) === asked || (!isToken(coin) && COIN[coin].asset === asked)) ?? null;
}

/** The coins that a payer of a store could choose. */
export async function offeredCoins(ctx: Context, { merchantId, mode }: { merchantId: string; mode: Mode }): Promise<readonly Coin[]> {
  const { settings, walletCoins } = await getMerchant(ctx, { merchantId });
  const isReceivable = (coin: Coin): boolean => walletCoins.includes(coin) && ctx.chains.has(COIN[coin].chain);
  return COINS.filter((coin) => isOffered(settings, coin) && (mode === 'test' || isReceivable(coin)));
}
