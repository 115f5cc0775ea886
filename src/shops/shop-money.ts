/** What shops learn about the money of a payment: in the currency that the shop asked for, how it stands, and the names of its coins. */
import type { Context } from '#context';
import { askedOf, priceShare } from '#core/asked-price';
import { COIN, COINS, type Coin, chainOf, isToken, LIGHTNING, type Mode } from '#core/coin';
import { formatFiat } from '#core/fiat';
import { formatUnits } from '#core/money';
import type { Decision, Exception, PaymentStatus, TransferRole } from '#core/payment';
import type { PaymentView } from '#core/payment-view';
import { getMerchant, isOffered } from '#merchants';

type ShopMoney = { currency: string; amount: string; ofCents(cents: bigint): string };
/**
 * The currency of a payment, and what US cents are in it. A fixed amount of a coin is in that coin. The price in cents was rounded, so
 * parts are measured by the price itself: what was paid exactly is exactly the price.
 */
export const moneyOf = ({ request: { fiat }, facts }: PaymentView): ShopMoney => {
  if (facts.fixed) {
    const { coin, units } = facts.fixed;
    const ofCents = (cents: bigint) => formatUnits(coin, facts.targetUsdCents === 0n ? 0n : (units * cents) / facts.targetUsdCents);
    return { currency: COIN[coin].asset, amount: formatUnits(coin, units), ofCents };
  }
  const { currency, minor } = askedOf({ fiat }, facts.targetUsdCents);
  const ofCents = (cents: bigint) => formatFiat(currency, priceShare({ minor, cents, ofCents: facts.targetUsdCents }));
  return { currency, amount: formatFiat(currency, minor), ofCents };
};

/** Whether a transfer is there and large enough to matter, whether it counts or not. */
export const hasMattered = ({ role }: { role: TransferRole }): boolean => role !== 'small' && role !== 'contested' && role !== 'gone';

// What shops learn about a payment follows from this part of it.

/** What the state of an invoice or a charge follows from, as the payment is stored. */
export type PaymentStanding = {
  status: PaymentStatus;
  exceptions: readonly Exception[];
  decisions: readonly Pick<Decision, 'kind'>[];
};

/** The merchant's last decision about money that had arrived. */
export const decided = ({ decisions }: PaymentStanding): Decision['kind'] | null =>
  decisions.findLast(({ kind }) => kind !== 'cancel')?.kind ?? null;

// Names of coins in the protocol: `BTC-CHAIN` for the coin of a chain, `USDC-ETHEREUM` for a token on one.

export const methodOf = (coin: Coin): string =>
  `${COIN[coin].asset}-${coin === LIGHTNING ? 'LN' : isToken(coin) ? chainOf(coin).chain.toUpperCase() : 'CHAIN'}`;

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
  return COINS.filter((coin) => isOffered(settings, coin, mode) && (mode === 'test' || isReceivable(coin)));
}
