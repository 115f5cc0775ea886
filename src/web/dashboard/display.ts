/** The display currency of a merchant with its current rate. */
import type { Context } from '../../context.ts';
import type { Mode } from '../../core/coin.ts';
import type { Fiat } from '../../core/fiat.ts';
import { Problem } from '../../core/problem.ts';
import { getMerchant } from '../../merchants/merchants.ts';

export type MemberCurrency = { currency: Fiat; rateE8: bigint };
type Owner = { merchantId: string; mode: Mode };

async function findDisplay(ctx: Context, { merchantId, mode }: Owner): Promise<MemberCurrency | { currency: Fiat; reason: string } | null> {
  const { settings } = await getMerchant(ctx, { merchantId });
  const currency = settings.displayCurrency;
  if (currency === 'USD') return null;
  const found = mode === 'test' ? { rate: ctx.fiat.forTest(currency) } : ctx.fiat.quotable(currency);
  return 'rate' in found ? { currency, rateE8: found.rate.rateE8 } : { currency, reason: found.reason };
}

/** Null for US dollars, and while no rate is known. `rateE8` is in units for one dollar. */
export async function readDisplay(ctx: Context, owner: Owner): Promise<MemberCurrency | null> {
  const found = await findDisplay(ctx, owner);
  return found && 'rateE8' in found ? found : null;
}

/** Null only for US dollars. Errors: price_unavailable. */
export async function needDisplay(ctx: Context, owner: Owner): Promise<MemberCurrency | null> {
  const found = await findDisplay(ctx, owner);
  if (found && 'reason' in found)
    throw new Problem('price_unavailable', { coin: found.currency, reason: found.reason }, { retryAfterSeconds: 60 });
  return found;
}
