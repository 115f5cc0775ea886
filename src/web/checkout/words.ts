/** The languages of the page: which one a payer gets, and how numbers and dates are written in it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CHAIN, type ChainId } from '#core/coin';
import { type Locale, matchLocale, TAGS } from '#core/locales';
import { formatDecimal, formatUsd } from '#core/money';
import { escapeHtml, Html } from '../html.ts';
import type en from './words/en.json';

/** What the page says: one JSON file a language, with the keys of English. `{name}` is filled in. */
export type Words = Readonly<Record<keyof typeof en, string>>;

export type Language = {
  tag: Locale;
  dir: 'ltr' | 'rtl';
  words: Words;
  usd(cents: bigint): string;
  /** A price with all the decimals it has. */
  rate(e8: bigint): string;
  /** An amount as decimal text, in any currency (ISO 4217). */
  money(amount: string, currency: string): string;
  /** The same without the currency, as a person types it. */
  typed(amount: string): string;
  count(value: number): string;
  minutes(value: number): string;
  /** Under two minutes in seconds. */
  duration(seconds: number): string;
  /** The names of networks, as a list. */
  names(chains: readonly ChainId[]): string;
  /** In UTC, which the page says beside it; scripts put the payer's own time in its place. */
  time(at: Date): string;
  day(at: Date): string;
  /** How `time` writes each hour of a day, its minutes as `#`. */
  hours: readonly string[];
  /** How `day` writes the UTC day before a moment, its own, and the one after, the time as `#`: a payer's calendar shows one of them. */
  days(at: Date): readonly string[];
};

const WORDS = new Map(
  TAGS.map((tag) => [tag, JSON.parse(readFileSync(join(import.meta.dirname, 'words', `${tag}.json`), 'utf8')) as Words]),
);
/** The words alone, without what a language needs to write numbers and times. */
export const wordsOf = (tag: Locale): Words => WORDS.get(tag)!;
const made = new Map<Locale, Language>();
/** Marks of direction would turn the currency around in its isolate. */
const unmarked = (text: string): string => text.replace(/[\u200e\u200f\u061c]/g, '');

/** The language of a tag. Digits are Latin everywhere: amounts and addresses beside them are. */
export function languageOf(tag: Locale): Language {
  let language = made.get(tag);
  if (!language) {
    const locale = `${tag}-u-nu-latn`;
    const usd = new Intl.NumberFormat(locale, { style: 'currency', currency: 'USD' });
    const rate = new Intl.NumberFormat(locale, { style: 'currency', currency: 'USD', maximumFractionDigits: 8 });
    const count = new Intl.NumberFormat(locale);
    const minutes = new Intl.NumberFormat(locale, { style: 'unit', unit: 'minute', unitDisplay: 'long' });
    const hours = new Intl.NumberFormat(locale, { style: 'unit', unit: 'hour', unitDisplay: 'long' });
    const seconds = new Intl.NumberFormat(locale, { style: 'unit', unit: 'second', unitDisplay: 'long' });
    const list = new Intl.ListFormat(tag, { type: 'conjunction' });
    const utc = { timeZone: 'UTC', timeStyle: 'short' } as const;
    const time = new Intl.DateTimeFormat(locale, utc);
    const day = new Intl.DateTimeFormat(locale, { ...utc, dateStyle: 'long' });
    language = {
      tag,
      dir: tag === 'ar' || tag === 'he' ? 'rtl' : 'ltr',
      words: wordsOf(tag),
      // The decimal text itself is formatted: no float in between.
      usd: (cents) => unmarked(usd.format(formatUsd(cents) as `${number}`)),
      rate: (e8) => unmarked(rate.format(formatDecimal(e8, 8, 2) as `${number}`)),
      money: (amount, currency) => unmarked(new Intl.NumberFormat(locale, { style: 'currency', currency }).format(amount as `${number}`)),
      typed: (amount) => {
        const places = amount.length - 1 - amount.lastIndexOf('.');
        const minimumFractionDigits = amount.includes('.') ? places : 0;
        return new Intl.NumberFormat(locale, { useGrouping: false, minimumFractionDigits }).format(amount as `${number}`);
      },
      count: (value) => count.format(value),
      minutes: (value) => (value < 90 ? minutes.format(value) : hours.format(Math.round(value / 60))),
      duration: (value) =>
        value < 120 ? seconds.format(Math.max(5, Math.round(value / 5) * 5)) : language!.minutes(Math.round(value / 60)),
      names: (chains) => list.format(chains.map((chain) => CHAIN[chain].name)),
      time: (at) => time.format(at),
      day: (at) => day.format(at),
      hours: Array.from({ length: 24 }, (_, hour) => time.format(Date.UTC(2026, 0, 1, hour, 59)).replace('59', '#')),
      days: (at) =>
        [-1, 0, 1].map((more) => {
          const noon = Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() + more, 12);
          return day.format(noon).replace(time.format(noon), '#');
        }),
    };
    made.set(tag, language);
  }
  return language;
}

/** The languages of an Accept-Language header (RFC 9110), the preferred ones first, at most twenty. */
export function acceptedLocales(header: string): string[] {
  return header
    .slice(0, 500)
    .split(',', 20)
    .map((part, index) => {
      const [tag, ...params] = part.split(';');
      const q = params.map((param) => /^\s*q=([01](?:\.\d{0,3})?)\s*$/.exec(param)?.[1]).find((value) => value !== undefined);
      return { tag: tag!, quality: q === undefined ? 1 : Number(q), index };
    })
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality || a.index - b.index)
    .map(({ tag }) => tag);
}

/** What the payer chose on the page, else the payment's locale, else the browser's wish, else the merchant's, else English. */
export function chooseLanguage({
  chosen,
  payment = null,
  accept,
  merchant = null,
}: {
  chosen: string | null;
  payment?: string | null;
  accept: string;
  merchant?: string | null;
}): Language {
  for (const asked of [chosen, payment, ...acceptedLocales(accept), merchant]) {
    const tag = asked === null ? null : matchLocale(asked);
    if (tag) return languageOf(tag);
  }
  return languageOf('en');
}

/** A text with its blanks filled; what is put in is text, or HTML made by templates. */
export const fill = (text: string, parts: Readonly<Record<string, string | number | Html>>): Html =>
  new Html(
    escapeHtml(text).replace(/\{(\w+)\}/g, (_, name: string) => {
      const part = parts[name] ?? '';
      return part instanceof Html ? part.text : escapeHtml(String(part));
    }),
  );
/** The same as plain text, for titles and labels. */
export const say = (text: string, parts: Readonly<Record<string, string | number>>): string =>
  text.replace(/\{(\w+)\}/g, (_, name: string) => String(parts[name] ?? ''));
