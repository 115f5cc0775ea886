/** Money as bigint: USD in cents, coins in base units, prices and worth with eight decimals (`E8`). Decimals exist only here and in fiat. */
import { ASSET, COIN, type Coin, LIGHTNING } from './coin.ts';
import { invariant } from './invariant.ts';

/** Largest USD amount of a payment, in cents: 1,000,000.00. */
export const MAX_USD_CENTS = 100_000_000n;
export const E8 = 100_000_000n;

const DECIMAL = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?$/;

/**
 * Parses a decimal text strictly (no sign, exponent, blank, leading zero or bare dot) into base units of `decimals` places.
 * Returns null when the text is not of that grammar, has more decimals than the unit, or is absurdly long.
 */
export function parseDecimal(text: string, decimals: number): bigint | null {
  if (text.length > 60) return null;
  const match = DECIMAL.exec(text);
  if (!match) return null;
  const fraction = match[2] ?? '';
  if (fraction.length > decimals) return null;
  return BigInt(match[1] + fraction.padEnd(decimals, '0'));
}

/** Why a text is not an amount: not a number at all, below zero, more decimals than the unit has, or beyond anything that can be paid. */
export type AmountFault = 'form' | 'negative' | 'precision' | 'huge';

/** The grammar of a JSON number (RFC 8259, section 6). */
const JSON_NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
/** More digits before the point than any amount has. */
const MOST_WHOLE_DIGITS = 40;

/**
 * Reads an amount that a caller wrote, into base units of `decimals` places. Without floats, and in time that depends only on the length
 * of the text. `isNumber`: it was written as a JSON number, which may have a sign and an exponent. Zeros at the end mean nothing. What a
 * caller computed with doubles, such as 3.3000000000000003, is off by less than a millionth of the unit and is rounded.
 */
export function parseAmount(text: string, decimals: number, { isNumber = false } = {}): bigint | AmountFault {
  const match = JSON_NUMBER.exec(text);
  if (!match || (!isNumber && match[4] !== undefined)) return 'form';
  const [, sign, whole, fraction = '', exponent = '0'] = match;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  if (sign === '-' && (digits !== '' || !isNumber)) return 'negative';
  if (digits === '') return 0n;
  // How many of the digits stand before the point. An exponent of thousands of digits becomes infinite here, at no cost.
  const wholeDigits = digits.length - fraction.length + Number(exponent);
  if (wholeDigits > MOST_WHOLE_DIGITS) return 'huge';
  const kept = wholeDigits + decimals;
  const units = BigInt(digits.slice(0, Math.max(0, kept)).padEnd(Math.max(1, kept), '0'));
  // Too small to matter, however many zeros come first.
  if (kept < -NOISE_DIGITS) return units;
  const rest = withoutLastZeros(`${'0'.repeat(Math.max(0, -kept))}${digits.slice(Math.max(0, kept))}`);
  if (rest === '' || rest.startsWith('0'.repeat(NOISE_DIGITS))) return units;
  return rest.length > NOISE_DIGITS && rest.startsWith('9'.repeat(NOISE_DIGITS)) ? units + 1n : 'precision';
}
/** A regular expression would take quadratic time for many zeros before another digit. */
function withoutLastZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  return digits.slice(0, end);
}
/** Digits after the unit that noise has at least: all zeros or all nines. */
const NOISE_DIGITS = 6;

/** The same for a text where any fault has one answer: null. */
export function readAmountText(text: string, decimals: number): bigint | null {
  const parsed = parseAmount(text, decimals);
  return typeof parsed === 'bigint' ? parsed : null;
}

/**
 * Reads an amount as a person types it, with the separators of any language. Null for a fault, and for a comma that can mean two things:
 * `1,234` is more than a thousand in some countries, and little more than one in others.
 */
export function readTypedAmount(text: string, decimals: number): bigint | null {
  const signs = text.replace(/\d/g, '');
  const last = signs.at(-1) ?? '';
  const after = text.length - 1 - text.lastIndexOf(last);
  const isPoint = (last === '.' || last === ',') && signs.indexOf(last) === signs.length - 1;
  const isGroup = signs.length === 1 && after === 3 && (decimals === 0 || last === ',');
  if (isPoint && isGroup && decimals > 0) return null;
  const [whole, fraction] = isPoint && !isGroup ? [text.slice(0, -1 - after), text.slice(-after)] : [text, ''];
  const groups = whole.split(/[.,'’\s]/);
  const isRegular = new Set(whole.replace(/\d/g, '')).size <= 1 && groups.slice(1).every(({ length }) => length === 3);
  if (groups.length > 1 && (!isRegular || groups[0]!.length > 3)) return null;
  return readAmountText(groups.join('') + (fraction === '' ? '' : `.${fraction}`), decimals);
}

/** Formats base units with `decimals` places, showing at least `shown` of them and never an exponent. */
export function formatDecimal(units: bigint, decimals: number, shown: number = decimals): string {
  const negative = units < 0n;
  const digits = (negative ? -units : units).toString().padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  let fraction = digits.slice(digits.length - decimals);
  while (fraction.length > shown && fraction.endsWith('0')) fraction = fraction.slice(0, -1);
  return (negative ? '-' : '') + (fraction ? `${whole}.${fraction}` : whole);
}

/** USD with exactly two decimals. */
export const formatUsd = (cents: bigint): string => formatDecimal(cents, 2);
const hasPar = (coin: Coin): boolean => ASSET[COIN[coin].asset].par !== undefined;
/** A coin amount with eight decimals, all of a coin that has fewer, or two of one that is worth a currency; more only if the value has more. */
export const formatUnits = (coin: Coin, units: bigint): string => formatDecimal(units, COIN[coin].decimals, hasPar(coin) ? 2 : 8);

/** Division rounding up; `a` from zero, `b` above it. */
export function divideCeil(a: bigint, b: bigint): bigint {
  invariant(a >= 0n && b > 0n, 'only amounts from zero up are divided, by something above zero');
  return (a + b - 1n) / b;
}
/** Division rounding half to even; `a` from zero, `b` above it. */
export function divideHalfEven(a: bigint, b: bigint): bigint {
  invariant(a >= 0n && b > 0n, 'only amounts from zero up are divided, by something above zero');
  const quotient = a / b;
  // Multiplying is faster than dividing again.
  const twice = (a - quotient * b) * 2n;
  return twice > b || (twice === b && quotient % 2n === 1n) ? quotient + 1n : quotient;
}

/** Base units of the smallest shown place: the eighth decimal, or the last one of a coin that has fewer (1, but 10^10 wei for ETH). */
export const shownUnit = (coin: Coin): bigint => 10n ** BigInt(Math.max(0, COIN[coin].decimals - 8));

/** Base units of the smallest amount that a payer is asked for: a shown unit, or a cent of a coin that is worth a currency. */
export const dueUnit = (coin: Coin): bigint => (hasPar(coin) ? 10n ** BigInt(COIN[coin].decimals - 2) : shownUnit(coin));

/** An amount of a coin in the base units of its asset over Lightning, which are smaller. */
export const lightningUnits = (coin: Coin, units: bigint): bigint => units * 10n ** BigInt(COIN[LIGHTNING].decimals - COIN[coin].decimals);

/** Units to pay for `usdCents` at `priceE8` (USD per coin with eight decimals), rounded up to the smallest amount due. */
export function quoteUnits(coin: Coin, usdCents: bigint, priceE8: bigint): bigint {
  const units = divideCeil(usdCents * 10n ** BigInt(COIN[coin].decimals) * E8, priceE8 * 100n);
  const step = dueUnit(coin);
  return divideCeil(units, step) * step;
}

/** Worth of `units` in USD with eight decimals, rounded down. */
export function worthUsdE8(coin: Coin, units: bigint, priceE8: bigint): bigint {
  invariant(units >= 0n && priceE8 > 0n, `an amount of ${coin} is not negative, and its price is above zero`);
  return (units * priceE8) / 10n ** BigInt(COIN[coin].decimals);
}

export const centsToE8 = (cents: bigint): bigint => cents * 1_000_000n;
/** USD with eight decimals to cents, half-even. */
export const e8ToCents = (usdE8: bigint): bigint => divideHalfEven(usdE8, 1_000_000n);

/** Parses JSON and keeps numbers as strings, so no amount passes through a float. */
export const parseExactJson = (text: string): unknown =>
  JSON.parse(text, ((_key: string, value: unknown, context: { source: string }) =>
    typeof value === 'number' ? context.source : value) as (key: string, value: unknown) => unknown);
