/** The money of a payment in the currency that its shop asked for. */
import { COIN } from '../core/coin.ts';
import { type Fiat, formatFiat, isFiat, usdCentsToFiat } from '../core/fiat.ts';
import { E8, formatDecimal, formatUnits } from '../core/money.ts';
import type { TransferRole } from '../core/payment.ts';
import type { PaymentView } from '../payments/view.ts';

export type ShopMoney = { currency: string; amount: string; ofCents(cents: bigint): string };
/** The currency of a payment, and what a dollar costs in it. A fixed amount of a coin is in that coin. */
export const moneyOf = ({ request: { fiat }, facts }: PaymentView): ShopMoney => {
  if (facts.fixed) {
    const { coin, units } = facts.fixed;
    const ofCents = (cents: bigint) => formatUnits(coin, facts.targetUsdCents === 0n ? 0n : (units * cents) / facts.targetUsdCents);
    return { currency: COIN[coin].asset, amount: formatUnits(coin, units), ofCents };
  }
  const currency: Fiat = fiat && isFiat(fiat.currency) ? fiat.currency : 'USD';
  const rateE8 = fiat?.rateE8 ?? E8;
  const ofCents = (cents: bigint) => formatFiat(currency, usdCentsToFiat(currency, cents, rateE8));
  return { currency, amount: fiat?.amount ?? formatDecimal(facts.targetUsdCents, 2), ofCents };
};

/** Whether a transfer is there and large enough to matter, whether it counts or not. */
export const hasArrived = ({ role }: { role: TransferRole }): boolean => role !== 'small' && role !== 'contested' && role !== 'gone';
