/** The money of a payment in the currency that its shop asked for. */
import { COIN } from '../core/coin.ts';
import { formatFiat } from '../core/fiat.ts';
import { formatUnits } from '../core/money.ts';
import type { TransferRole } from '../core/payment.ts';
import { askedOf, priceShare } from '../payments/price.ts';
import type { PaymentView } from '../payments/view.ts';

export type ShopMoney = { currency: string; amount: string; ofCents(cents: bigint): string };
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
