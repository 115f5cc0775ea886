/** What several pages of a payment share: amounts, times, transactions, the fields of forms. */
import { encode } from 'uqr';
import { type Asset, type ChainId, COIN, type Coin, chainOf, type Network } from '#core/coin';
import { HOUR_MS } from '#core/dates';
import type { Locale } from '#core/locales';
import { formatDecimal, formatUnits } from '#core/money';
import { explorerUrl } from '#core/networks';
import { itemAmount } from '#core/payment-detail';
import type { CustomerView } from '#core/payment-view';
import { escapeHtml, Html, html } from '../html.ts';
import type { Language } from './words.ts';

// Icons of the page as inline SVG: the assets, the states, and the small icons on buttons.

const letter = (text: string): string => `<text x="16" y="22" font-size="16" font-weight="700" text-anchor="middle">${text}</text>`;
const SHAPES: Readonly<Partial<Record<Asset, readonly [color: string, shape: string]>>> = {
  BTC: [
    '#e8830c',
    '<path d="M23.2 14c.3-2.1-1.3-3.2-3.5-4l.7-2.8-1.7-.4-.7 2.7-1.4-.3.7-2.8L15.6 6l-.7 2.8-1.1-.2-2.4-.6-.5 1.8 1.3.3c.7.2.8.6.8 1l-.8 3.3-1.2 4.7c0 .2-.3.5-.7.4l-1.3-.3-.9 2 2.3.5 1.2.3-.7 2.9 1.7.4.7-2.8 1.4.3-.7 2.8 1.7.4.7-2.8c3 .5 5.2.3 6.1-2.4.8-2.1 0-3.4-1.6-4.2 1.1-.3 2-1 2.2-2.5zm-4 5.6c-.5 2.1-4.1 1-5.3.7l1-3.8c1.1.3 4.9.9 4.3 3.1zm.6-5.6c-.5 2-3.5 1-4.5.7l.9-3.4c1 .2 4.1.7 3.6 2.7z"/>',
  ],
  ETH: ['#5a6fd8', '<path d="m16 4-7.5 12.2L16 20.6l7.5-4.4zM8.5 17.6 16 28l7.5-10.4L16 22z"/>'],
  LTC: ['#345d9d', '<path d="m10.4 19.2-1.4.6.7-2.8 1.4-.6L13.2 8h5.1l-1.5 6.2 1.4-.6-.7 2.8-1.4.5-.8 3.5H23L22.1 24H9.3z"/>'],
  DASH: [
    '#0079c7',
    '<path d="M11.5 9.5h8.7c2.7 0 4.1 1.6 3.4 4.3l-1 4c-.7 2.7-2.6 4.2-5.3 4.2H8.4l.8-3h8c1 0 1.6-.5 1.9-1.5l.8-3.4c.2-1-.2-1.6-1.2-1.6h-8zM8.6 14.4h7l-.8 3h-7z"/>',
  ],
  DOGE: [
    '#a98a1f',
    '<path fill-rule="evenodd" d="M10.5 8H17c4.6 0 7 3.3 7 8s-2.4 8-7 8h-6.5v-6.9H9v-2.2h1.5zm3 2.7v4.2h4.3v2.2h-4.3v4.2h2.9c3.2 0 4.5-2 4.5-5.3s-1.3-5.3-4.5-5.3z"/>',
  ],
  USDC: ['#2775ca', letter('$')],
  USDT: ['#1f8a6b', letter('₮')],
  EURC: ['#1a4fc4', letter('€')],
  PYUSD: ['#10439c', letter('P')],
  DAI: ['#b3730a', letter('D')],
};
/** Networks whose sign is not that of their native coin. */
const NETWORK_SHAPES: Readonly<Record<string, readonly [color: string, shape: string]>> = {
  base: ['#0a46e4', '<path d="M16 7a9 9 0 1 1-8.9 10.4h11.8v-2.8H7.1A9 9 0 0 1 16 7z"/>'],
  arbitrum: ['#213147', '<path d="m16 6 8.7 5v10L16 26l-8.7-5V11zm0 5.2-4.4 9.3 1.9 1.1L16 16l2.5 5.6 1.9-1.1z" fill-rule="evenodd"/>'],
  optimism: ['#d8001f', letter('OP')],
  lightning: ['#7a3cf0', '<path d="M17.5 5.5 8.5 18h6l-1.5 8.5L23.5 13h-7z"/>'],
  polygon: ['#6c2bd9', '<path d="m16 6.5 8 4.7v9.6l-8 4.7-8-4.7v-9.6zm0 4.6-4 2.4v5l4 2.4 4-2.4v-5z" fill-rule="evenodd"/>'],
};
const DISC = '<circle cx="16" cy="16" r="16"';
const drawn = (name: string, [color, shape]: readonly [color: string, shape: string] = ['#5b6472', letter(name[0]!)]): string =>
  `${DISC} fill="${color}"/><g fill="#fff">${shape}</g>`;
const networkDrawn = (coin: Coin): string => {
  const { chain, code, name } = chainOf(coin);
  return drawn(name, NETWORK_SHAPES[chain] ?? (SHAPES as Readonly<Record<string, readonly [string, string]>>)[code]);
};
const icon = (drawing: string): Html => new Html(`<svg class="ci" viewBox="0 0 32 32" aria-hidden="true">${drawing}</svg>`);

export const coinIcon = (coin: Coin): Html => icon(drawn(COIN[coin].asset, SHAPES[COIN[coin].asset]));
/** The network of a coin. */
export const chainIcon = (coin: Coin): Html => icon(networkDrawn(coin));
/** The asset, with its network as a badge. */
export const badgedIcon = (coin: Coin): Html =>
  icon(
    `${drawn(COIN[coin].asset, SHAPES[COIN[coin].asset])}<svg x="17" y="17" width="17" height="17" viewBox="-3 -3 38 38"><circle cx="16" cy="16" r="19" fill="#fff"/>${networkDrawn(coin)}</svg>`,
  );

export type Mark = 'good' | 'busy' | 'over' | 'warn';
const MARKS: Readonly<Record<Mark, string>> = {
  good: '<path d="m15 25 7 7 12-14"/>',
  busy: '<path d="M24 14v10l7 4"/>',
  over: '<path d="M24 14v11M24 32v1"/>',
  warn: '<path d="M24 14v11M24 32v1"/>',
};
/** The large icon of a result. */
export const mark = (kind: Mark): Html =>
  new Html(`<svg class="mark" viewBox="0 0 48 48" aria-hidden="true"><circle cx="24" cy="24" r="22"/>${MARKS[kind]}</svg>`);

const sign = (shape: string): Html => new Html(`<svg class="sign" viewBox="0 0 20 20" aria-hidden="true">${shape}</svg>`);
export const SIGNS = {
  copy: sign('<rect x="7" y="7" width="10" height="10" rx="2"/><path d="M13 7V5a2 2 0 0 0-2-2H5a2 2 0 0 0-2 2v6a2 2 0 0 0 2 2h2"/>'),
  wallet: sign('<path d="M3 6.5A2.5 2.5 0 0 1 5.5 4H15v3M3 6.5V15a2 2 0 0 0 2 2h11a1 1 0 0 0 1-1V8a1 1 0 0 0-1-1H4M14 12h.01"/>'),
  clock: sign('<circle cx="10" cy="10" r="7"/><path d="M10 6v4l2.5 2"/>'),
  globe: sign('<circle cx="10" cy="10" r="7"/><path d="M3 10h14M10 3c5 5 5 9 0 14c-5-5-5-9 0-14"/>'),
  info: sign('<circle cx="10" cy="10" r="7"/><path d="M10 9.5V14M10 6.5v.01"/>'),
} as const;

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

// QR codes as SVG, generated on the server: level M, of long texts L, four modules of quiet zone, black on white in every theme (ISO/IEC 18004).

const QUIET = 4;

/** One path of all dark modules. */
export function drawQr(text: string, label: string, ecc: 'L' | 'M' = 'M'): Html {
  const { data, size } = encode(text, { ecc, border: 0 });
  let path = '';
  // Each row is one line with gaps, which is the shortest form.
  data.forEach((row, y) => {
    let end = 0;
    for (let x = 0; x < size; x++) {
      if (!row[x]) continue;
      const start = x;
      while (x + 1 < size && row[x + 1]) x++;
      path += `${end === 0 ? `M${start + QUIET} ${y + QUIET}.5` : `m${start - end} 0`}h${x - start + 1}`;
      end = x + 1;
    }
  });
  const side = size + 2 * QUIET;
  return new Html(
    `<svg role="img" aria-label="${escapeHtml(label)}" viewBox="0 0 ${side} ${side}" shape-rendering="crispEdges"><rect width="${side}" height="${side}" fill="#fff"/><path d="${path}" stroke="#000"/></svg>`,
  );
}

/** The QR code as an SVG file. */
export const svgOf = (text: string, label: string): string =>
  drawQr(text, label).text.replace('<svg ', '<svg xmlns="http://www.w3.org/2000/svg" ');
