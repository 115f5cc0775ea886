/** The display currency of a merchant with its current rate. */
import type { Context } from '../../context.ts';
import type { Mode } from '../../core/coin.ts';
import type { Fiat } from '../../core/fiat.ts';
import { getMerchant } from '../../merchants/merchants.ts';

/** Null for US dollars, and while no rate is known. `rateE8` is in units for one dollar. */
export async function readDisplay(
  ctx: Context,
  { merchantId, mode }: { merchantId: string; mode: Mode },
): Promise<{ currency: Fiat; rateE8: bigint } | null> {
  const { settings } = await getMerchant(ctx, { merchantId });
  const currency = settings.displayCurrency;
  if (currency === 'USD') return null;
  const found = mode === 'test' ? { rate: ctx.fiat.forTest(currency) } : ctx.fiat.quotable(currency);
  return 'rate' in found ? { currency, rateE8: found.rate.rateE8 } : null;
}
