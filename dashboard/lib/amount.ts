/** Amounts as the exact decimal texts that the service sends. Nothing here goes through a float. */
import { FIATS } from '../generated/api.ts';
import { coinText } from './coin.ts';
import { decimalText, fiatText } from './language.ts';

/** Decimals of a coin amount that are shown; the others are on hover and in exports. */
const SHOWN = 8;

/** Digits after the point without zeros at the end. */
export function withoutZeros(decimals: string): string {
  let end = decimals.length;
  while (decimals[end - 1] === '0') end--;
  return decimals.slice(0, end);
}

export const isSome = (amount: string | null | undefined): amount is string => !!amount && /[1-9]/.test(amount);

/** Without zeros at the end, and with at most eight decimals, unless only a later one tells it from zero. Rounds down. */
export function significant(amount: string): string {
  const [whole = '', decimals = ''] = amount.split('.');
  const first = decimals.slice(0, SHOWN);
  const kept = withoutZeros(isSome(whole + first) ? first : decimals);
  return kept === '' ? whole : `${whole}.${kept}`;
}

/** Two decimals of US dollars; for rates below a dollar, four digits. Rounds down; the exact rate is shown on hover. */
export const shortDollars = (amount: string): string => /^-?0\.0*[1-9]?\d{0,3}|^-?\d+(\.\d{1,2})?/.exec(amount)![0];

/** "27.23 DASH", "25.5 USDC on Base", "€24.00", or "$816.95" for US dollars. */
export function moneyText(amount: string, currency = 'USD'): string {
  if (currency !== 'USD')
    return FIATS.some((fiat) => fiat === currency)
      ? fiatText(amount, currency)
      : `${decimalText(significant(amount))} ${coinText(currency)}`;
  return fiatText(shortDollars(amount), 'USD');
}

/** "27.23 DASH ($816.95)"; without the dollars while they are not known. */
export const withUsd = (amount: string, currency: string, usd: string | null): string =>
  usd === null ? moneyText(amount, currency) : `${moneyText(amount, currency)} (${moneyText(usd)})`;

const placesOf = (amount: string): number => amount.split('.')[1]?.length ?? 0;
const unitsOf = (amount: string, places: number): bigint => {
  const [whole = '0', decimals = ''] = amount.split('.');
  return BigInt(whole + decimals.padEnd(places, '0'));
};
function textOf(units: bigint, places: number): string {
  const digits = String(units < 0n ? -units : units).padStart(places + 1, '0');
  const at = digits.length - places;
  return `${units < 0n ? '-' : ''}${digits.slice(0, at)}${places === 0 ? '' : `.${digits.slice(at)}`}`;
}

/** The exact sum, with the decimals of the longest amount. */
export function sumOf(amounts: readonly string[]): string {
  const places = Math.max(0, ...amounts.map(placesOf));
  return textOf(
    amounts.reduce((total, amount) => total + unitsOf(amount, places), 0n),
    places,
  );
}

/** The exact difference. */
export function lessOf(amount: string, less: string): string {
  const places = Math.max(placesOf(amount), placesOf(less));
  return textOf(unitsOf(amount, places) - unitsOf(less, places), places);
}

export type Display = { currency: string; decimals: number; rate: string };
/** "≈ €12.30": US dollars in another currency at its current rate, to the nearest of its smallest units. */
export function aboutText(usd: string, { currency, decimals, rate }: Display): string {
  const [cents, rateE8] = [unitsOf(usd, 2), unitsOf(rate, 8)];
  const scale = 10n ** 10n;
  const half = cents < 0n ? -scale : scale;
  const minor = (2n * cents * rateE8 * 10n ** BigInt(decimals) + half) / (2n * scale);
  return `≈ ${fiatText(textOf(minor, decimals), currency)}`;
}

/** An amount of one coin with its value in US dollars, null where part of it has no price yet. */
export type CoinAmount = { currency: string; amount: string; amount_usd: string | null };

/** Amounts as one text: by coin, then the value of all of them. Empty if there are none. */
export function sumText(amounts: readonly CoinAmount[]): string {
  if (amounts.length === 0) return '';
  const coins = [...new Set(amounts.map(({ currency }) => currency))];
  const usd = amounts.map(({ amount_usd }) => amount_usd);
  const total = usd.includes(null) ? null : sumOf(usd as string[]);
  const named = coins.map((coin) => moneyText(sumOf(amounts.flatMap(({ currency, amount }) => (currency === coin ? [amount] : []))), coin));
  return `${named.join(' and ')}${total === null ? '' : ` (${moneyText(total)})`}`;
}
