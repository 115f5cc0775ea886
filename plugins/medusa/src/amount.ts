/** Amounts of Medusa as exact decimals with the digits of their currency. */
import { FIATS, type Fiat, fiatDecimals, isFiat } from '../../../src/core/fiat.ts';
import { refuse } from './failure.ts';

const PLAIN = /^(\d{1,15})(?:\.(\d+))?$/;

/** The decimal text of what Medusa gives: text, a number, what its database holds, or an object of its BigNumber classes. */
function textOf(amount: unknown): string {
  if (typeof amount === 'string') return amount;
  // The shortest text that means this number, as Medusa itself reads numbers.
  if (typeof amount === 'number') return String(amount);
  const { raw, value, toFixed } = (amount ?? {}) as { raw?: unknown; value?: unknown; toFixed?: unknown };
  if (typeof toFixed === 'function') return String(toFixed.call(amount));
  if (raw !== undefined) return textOf(raw);
  return value === undefined ? '' : textOf(value);
}

/** Errors: a MedusaError. */
export function readCurrency(code: string): Fiat {
  const currency = code.toUpperCase();
  if (!isFiat(currency))
    throw refuse(
      `Florin does not take prices in ${currency}. Remove it from the payment providers of this region, or use one of ${FIATS.join(', ')}.`,
    );
  return currency;
}

/** An amount above 0, rounded half up to the digits of its currency, as Medusa shows it. Errors: a MedusaError. */
export function readAmount(amount: unknown, currency: Fiat): string {
  const text = textOf(amount);
  const [, whole, fraction = ''] = PLAIN.exec(text) ?? [];
  if (whole === undefined) throw refuse(`The amount ${JSON.stringify(text)} is not a positive decimal number.`);
  const digits = fiatDecimals(currency);
  const kept = BigInt(whole + fraction.slice(0, digits).padEnd(digits, '0'));
  const minor = (fraction[digits] ?? '0') >= '5' ? kept + 1n : kept;
  if (minor === 0n) throw refuse('Florin cannot take a payment of 0.');
  const shown = String(minor).padStart(digits + 1, '0');
  return digits === 0 ? shown : `${shown.slice(0, -digits)}.${shown.slice(-digits)}`;
}
