/** Currencies that payments can be priced in besides the US dollar, with their decimals (ISO 4217), and their way to cents. */
import { divideCeil, E8, formatDecimal } from './money.ts';

/** Those that at least two of the rate sources quote. */
const DECIMALS = {
  USD: 2,
  EUR: 2,
  GBP: 2,
  CAD: 2,
  AUD: 2,
  CHF: 2,
  JPY: 0,
  AED: 2,
  BDT: 2,
  BHD: 3,
  BMD: 2,
  BRL: 2,
  CLP: 0,
  CNY: 2,
  CZK: 2,
  DKK: 2,
  GEL: 2,
  HKD: 2,
  HUF: 2,
  IDR: 2,
  ILS: 2,
  INR: 2,
  ISK: 0,
  KRW: 0,
  KWD: 3,
  LKR: 2,
  MXN: 2,
  MYR: 2,
  NOK: 2,
  NZD: 2,
  PHP: 2,
  PKR: 2,
  PLN: 2,
  RON: 2,
  SAR: 2,
  SEK: 2,
  SGD: 2,
  THB: 2,
  TRY: 2,
  TWD: 2,
  UAH: 2,
  VND: 0,
  ZAR: 2,
} as const;
export type Fiat = keyof typeof DECIMALS;
export const FIATS = Object.keys(DECIMALS) as readonly Fiat[];
export const isFiat = (text: string): text is Fiat => Object.hasOwn(DECIMALS, text);
export const fiatDecimals = (currency: Fiat): number => DECIMALS[currency];

/** An amount in the currency's smallest units, with exactly its decimals. */
export const formatFiat = (currency: Fiat, minor: bigint): string => formatDecimal(minor, DECIMALS[currency]);

/** USD cents for `minor` units at `rateE8` (units of the currency for one dollar, eight decimals), rounded up, so they are never worth less than the price. */
export const fiatToUsdCents = (currency: Fiat, minor: bigint, rateE8: bigint): bigint =>
  divideCeil(minor * 100n * E8, rateE8 * 10n ** BigInt(DECIMALS[currency]));

/** US cents in the currency's smallest units at `rateE8`, to the nearest, for showing what an amount is about. */
export function usdCentsToFiat(currency: Fiat, cents: bigint, rateE8: bigint): bigint {
  const twice = 2n * cents * rateE8 * 10n ** BigInt(DECIMALS[currency]);
  const scale = 100n * E8;
  return (twice + (cents < 0n ? -scale : scale)) / (2n * scale);
}
