/** What several pages of a payment share: amounts, times, transactions, the fields of forms. */
import { HOUR_MS } from '../../core/clock.ts';
import { type ChainId, COIN, type Coin, type Network } from '../../core/coin.ts';
import { explorerUrl } from '../../core/explorer.ts';
import { formatDecimal, formatUnits } from '../../core/money.ts';
import { itemAmount } from '../../payments/price.ts';
import type { CustomerView } from '../../payments/view.ts';
import { type Html, html } from '../html.ts';
import { SIGNS } from './icons.ts';
import type { Language, Locale } from './words.ts';

/** The error of a rejected form: beside its field, or above everything. */
export type FormFault = { field: 'address' | 'email' | null; text: string; given: Readonly<Record<string, string>> };
export type PageOptions = {
  language: Language;
  /** The language the payer chose on the page; it is kept in forms and links. */
  chosen: Locale | null;
  ethChainId: number;
  networks: Readonly<Record<ChainId, Network>>;
  /** Ties forms to the payment. */
  formToken: string;
  fault?: FormFault | null;
};
export const logo = ({ merchant }: CustomerView): Html =>
  merchant.logo
    ? html`<img class="logo" src="/pay/logo/${merchant.logo}" alt="" width="40" height="40">`
    : html`<span class="logo letter" aria-hidden="true">${[...merchant.name][0]?.toUpperCase() ?? ''}</span>`;
/** The price in its original currency, and how it converts to US dollars. */
export const priceText = ({ request: { fiat }, facts }: CustomerView, { usd, money }: Language): string =>
  fiat ? money(fiat.amount, fiat.currency) : usd(facts.targetUsdCents);
/** A unit price or tax, in the currency of the price. */
export const itemPrice = ({ request }: CustomerView, minor: bigint, { usd, money }: Language): string =>
  request.fiat ? money(itemAmount(request, minor), request.fiat.currency) : usd(minor);
export function fiatNote({ request: { fiat }, facts }: CustomerView, language: Language): Html | null {
  if (!fiat) return null;
  const rate = `1 USD = ${formatDecimal(fiat.rateE8, 8, 2)} ${fiat.currency}`;
  const source = fiat.source === 'sample' ? language.words.sample : fiat.source;
  const day = dayOf(new Date(fiat.at), language);
  return tip(html`<bdi>= ${language.usd(facts.targetUsdCents)} · ${rate}</bdi> · ${source} · ${day}`);
}

/** Something that must not be missed. */
export const note = (text: string | Html): Html => html`<p class="note">${SIGNS.info}<span>${text}</span></p>`;
/** Something that helps. */
export const tip = (text: string | Html, sign = SIGNS.info): Html => html`<p class="tip">${sign}<span>${text}</span></p>`;

/** Joins sentences; a full-width period needs no space after it. */
export const after = (text: string, next: string): string => `${text.endsWith('。') ? '' : ' '}${next}`;
/** For a page that continues as soon as something can be paid. */
export const unavailableText = ({ words }: Language): string => `${words.nothingCharged}${after(words.nothingCharged, words.checksAgain)}`;
export const amountText = (coin: Coin, units: bigint): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;
export const amountOf = (coin: Coin, units: bigint): Html => html`<bdi translate="no">${amountText(coin, units)}</bdi>`;

export const hidden = (view: CustomerView, { formToken, chosen }: PageOptions): Html =>
  html`${field('id', view.facts.id)}${field('token', formToken)}${chosen && field('lang', chosen)}`;
const field = (name: string, value: string): Html => html`<input type="hidden" name="${name}" value="${value}">`;

export const copy = (text: string, label: string, words: Language['words']): Html =>
  html`<button type="button" class="copy js" data-copy="${text}" aria-label="${words.copy}: ${label}">
${SIGNS.copy}<span>${words.copy}</span></button>`;

/** Times further away than this are shown with the date. */
const CLOCK_ONLY_MS = 20 * HOUR_MS;
const longest = (texts: readonly string[]): string => texts.reduce((one, other) => (other.length > one.length ? other : one));
/**
 * In UTC, with the zone, until scripts write the payer's local time. The possible formats are decided here, and space is reserved for
 * the widest one, so that nothing moves.
 */
function moment(at: Date, language: Language, dated: boolean): Html {
  const days = dated ? language.days(at) : ['#'];
  const widest = longest(days).replace('#', longest(language.hours).replace('#', '00'));
  const formats = dated && html` data-days="${days.join('|')}"`;
  const shown = html`<bdi>${dated ? language.day(at) : language.time(at)}</bdi>`;
  return html`<time datetime="${at.toISOString()}" data-widest="${widest}"${formats}>${shown}</time><span class="tz"> UTC</span>`;
}
export const timeOf = (at: Date, { now }: CustomerView, { language }: PageOptions): Html =>
  moment(at, language, Math.abs(at.getTime() - now.getTime()) >= CLOCK_ONLY_MS);
export const dayOf = (at: Date, language: Language): Html => moment(at, language, true);

/** A link to the public explorer; test payments and private networks have none. */
export const txLink = (view: CustomerView, coin: Coin, txid: string, { networks }: PageOptions): Html => {
  const text = html`<bdi class="mono" translate="no">${txid}</bdi>`;
  const url = view.facts.mode === 'live' ? explorerUrl(coin, networks[COIN[coin].chain], txid) : null;
  return url === null ? text : html`<a href="${url}" rel="noopener noreferrer" target="_blank">${text}</a>`;
};
/** Anyone can send very many parts: the largest are shown, the others as a count beside the total. */
const MOST_LISTED = 10;
export const listedTransfers = ({ transfers }: CustomerView): CustomerView['transfers'] => transfers.slice(0, MOST_LISTED);
export const unlisted = (view: CustomerView): number => view.transfersCount - listedTransfers(view).length;
export const more = (view: CustomerView, { words, count }: Language): Html =>
  html`+ ${count(unlisted(view))} · ${words.total} ${amountOf(view.settlement.coin!, view.settlement.seenUnits)}`;
