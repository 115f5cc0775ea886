/** The rate of the display currency of merchants, which is stored with what is valued, so that reports of a past period stay the same. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import type { DisplayRate } from '../core/payment.ts';
import type { Sql, Tx } from '../db/db.ts';
import { readDisplayCurrencies } from '../merchants/merchants.ts';

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
