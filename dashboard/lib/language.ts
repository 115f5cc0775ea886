/** The language of the page, and how numbers and times are written in it. The server chooses it: see src/web/dashboard/files.ts. */

/** The languages of the dashboard by their tags (BCP 47), named as their speakers name them. Each has a file in dashboard/words. */
export const LANGUAGES = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  fr: 'Français',
  ja: '日本語',
  'pt-BR': 'Português (Brasil)',
} as const;
export type LanguageTag = keyof typeof LANGUAGES;

/** What the script of the language set before this one; nothing in tests and in the build. */
const given = (globalThis as { florinWords?: { language: LanguageTag; words: Readonly<Record<string, string>> } }).florinWords;
export const language: LanguageTag = given?.language ?? 'en';
export const words: Readonly<Record<string, string>> = given?.words ?? {};

/** Stores the choice for this browser, also for the pages before signing in, and loads the page again in that language. */
export function chooseLanguage(tag: LanguageTag): void {
  const secure = location.protocol === 'https:' ? '; secure' : '';
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API needs HTTPS
  document.cookie = `florin_language=${tag}; path=/dashboard; max-age=31536000; samesite=lax${secure}`;
  location.reload();
}

// Formatters are slow to make, so each is made once.
const numbers = new Map<string, Intl.NumberFormat>();
function numberFormat(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = JSON.stringify(options);
  const known = numbers.get(key);
  if (known) return known;
  const made = new Intl.NumberFormat(language, options);
  numbers.set(key, made);
  return made;
}
const placesOf = (amount: string): number => amount.split('.')[1]?.length ?? 0;
const withPlaces = (places: number) => ({ minimumFractionDigits: places, maximumFractionDigits: places });

/** An exact decimal text, with marks between thousands. */
export const decimalText = (amount: string): string =>
  numberFormat(withPlaces(placesOf(amount))).format(amount as Intl.StringNumericLiteral);
/** An exact decimal text in a currency (ISO 4217), with all of its decimals. */
export const fiatText = (amount: string, currency: string): string =>
  numberFormat({ style: 'currency', currency, ...withPlaces(placesOf(amount)) }).format(amount as Intl.StringNumericLiteral);
export const countText = (count: number): string => numberFormat({}).format(count);
/** With at most one decimal. */
export const roundedText = (value: number): string => numberFormat({ maximumFractionDigits: 1 }).format(value);
/** "97.3%", of a number of percent, with at most one decimal. */
export const percentText = (percent: number): string => numberFormat({ style: 'percent', maximumFractionDigits: 1 }).format(percent / 100);
/** "$1.2K": for axes. */
export const compactDollars = (value: number): string =>
  numberFormat({ style: 'currency', currency: 'USD', notation: 'compact', minimumFractionDigits: 0, maximumFractionDigits: 1 }).format(
    value,
  );
/** "BTC, ETH, and LTC". */
export const listText = (names: readonly string[]): string => new Intl.ListFormat(language).format(names);

/** What a person types as an amount, with a point before the decimals. */
export const typedAmount = (text: string): string => (decimalText('0.5') === '0,5' ? text.replace(',', '.') : text);

/** The language as it is written where the browser is, such as en-GB or de-AT. */
const regional = (): string =>
  (typeof navigator === 'undefined' ? [] : navigator.languages).find((tag) => tag.split('-')[0] === language.split('-')[0]) ?? language;
const times = new Map<string, Intl.DateTimeFormat>();
/** A local time; other zones are in the options. */
export function timeText(at: Date | number, options: Intl.DateTimeFormatOptions): string {
  const key = JSON.stringify(options);
  const known = times.get(key);
  const format = known ?? new Intl.DateTimeFormat(regional(), options);
  if (!known) times.set(key, format);
  return format.format(at);
}
