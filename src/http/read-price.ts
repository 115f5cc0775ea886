/** Reads prices from requests: in US dollars or in another currency. */
import Type from 'typebox';
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { type Fiat, isFiat } from '../core/fiat.ts';
import { Problem } from '../core/problem.ts';
import { type PaymentPrice, priceAt } from '../payments/price.ts';
import type { ParsedBody } from './json.ts';
import { readFiat, readUsd } from './read.ts';
import { CreateSimple } from './schema.ts';
import { Amount } from './schema-fields.ts';

/** The schema for a body without `amount` and `currency_fiat`: `amount_usd` is required. */
export const CreateSimpleInUsd = Type.Object({ ...CreateSimple.properties, amount_usd: Amount('') });

/** Errors: fiat_unsupported. */
export function readFiatCode(given: string, param = 'currency_fiat'): Fiat {
  const text = given.toUpperCase();
  if (!isFiat(text)) throw new Problem('fiat_unsupported', {}, { param });
  return text;
}

/** `amount` in the smallest units of its currency. */
export const readMinor = (
  body: ParsedBody,
  path: string,
  given: unknown,
  currency: Fiat,
  { zero = false }: { zero?: boolean } = {},
): bigint => (currency === 'USD' ? readUsd(body, path, given, { zero }) : readFiat(body, path, given, currency, { zero }));

/** `amount` in a currency as US dollars, at the current rate. */
export function readFiatPrice(
  ctx: Context,
  { mode, body, amount, currency: text }: { mode: Mode; body: ParsedBody; amount: unknown; currency: string },
): PaymentPrice {
  const currency = readFiatCode(text);
  const minor = readMinor(body, 'amount', amount, currency);
  return priceAt(ctx, { mode, currency, minor, params: { amount: 'amount', currency: 'currency_fiat' } });
}

/** `amount_usd`, or `amount` with `currency_fiat`. */
export function readPrice(
  ctx: Context,
  { mode, body, given }: { mode: Mode; body: ParsedBody; given: { amount_usd?: unknown; amount?: unknown; currency_fiat?: string } },
): PaymentPrice {
  const { amount_usd, amount, currency_fiat } = given;
  if (amount === undefined && currency_fiat === undefined) {
    if (amount_usd === undefined) throw new Problem('parameter_missing', {}, { param: 'amount_usd' });
    return { amountUsdCents: readUsd(body, 'amount_usd', amount_usd), fiat: null };
  }
  if (amount_usd !== undefined)
    throw new Problem('parameter_invalid', { reason: 'it cannot be combined with amount and currency_fiat' }, { param: 'amount_usd' });
  if (amount === undefined) throw new Problem('parameter_missing', {}, { param: 'amount' });
  if (currency_fiat === undefined) throw new Problem('parameter_missing', {}, { param: 'currency_fiat' });
  return readFiatPrice(ctx, { mode, body, amount, currency: currency_fiat });
}
