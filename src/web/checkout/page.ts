/** The payment page as a pure function of the server's view: every state is a full page, with one renderer and one place for amounts. */

import { paymentUri } from '../../chains/address.ts';
import { HOUR_MS } from '../../core/clock.ts';
import { type Chain, COIN, type Coin, chainOf, kindOf, type Network } from '../../core/coin.ts';
import { explorerUrl } from '../../core/explorer.ts';
import { formatDecimal, formatUnits } from '../../core/money.ts';
import { mayRepeat } from '../../payments/payments.ts';
import { itemAmount } from '../../payments/price.ts';
import type { CustomerView } from '../../payments/view.ts';
import { Html, html } from '../html.ts';
import { drawer } from './drawer.ts';
import { coinIcon, type Mark, mark, SIGNS } from './icons.ts';
import { drawQr } from './qr.ts';
import { fill, type Language, type Locale, say } from './words.ts';

export const PAGE_STATES = [
  'choose',
  'unavailable',
  'awaiting',
  'rate_over',
  'underpaid',
  'processing',
  'completed',
  'overpaid',
  'reversed',
  'expired',
  'expired_partial',
  'late',
  'cancelled',
  'failed',
] as const;
export type PageState = (typeof PAGE_STATES)[number];

/** The page state for a payment; states may follow each other in any order. */
export function pageState({ facts, settlement: s, quote, now, coins }: CustomerView): PageState {
  switch (facts.status) {
    case 'completed':
      if (s.exceptions.includes('reorged')) return 'reversed';
      return s.exception === 'overpaid' ? 'overpaid' : 'completed';
    case 'processing':
      return 'processing';
    case 'cancelled':
      return 'cancelled';
    case 'expired':
      return s.exceptions.includes('late') ? 'late' : 'expired';
    case 'failed':
      return s.exceptions.includes('late') ? 'late' : s.exceptions.includes('underpaid') ? 'expired_partial' : 'failed';
    case 'pending':
      // The page closes at the deadline. The status follows once no more transfers can have been sent in time.
      if (now >= s.expiresAt) return s.receivedUnits > 0n ? 'expired_partial' : 'expired';
      if (quote === null) return coins.some((c) => c.unavailable === null) ? 'choose' : 'unavailable';
      if (s.quoteExpiresAt !== null && now >= s.quoteExpiresAt) return 'rate_over';
      return s.receivedUnits > 0n ? 'underpaid' : 'awaiting';
  }
}

/** The error of a rejected form: beside its field, or above everything. */
export type Fault = { field: 'address' | 'email' | null; text: string; given: Readonly<Record<string, string>> };
export type PageOptions = {
  language: Language;
  /** The language the payer chose on the page; it is kept in forms and links. */
  chosen: Locale | null;
  ethChainId: number;
  networks: Readonly<Record<Chain, Network>>;
  /** Ties forms to the payment. */
  formToken: string;
  fault?: Fault | null;
};
export type Page = { state: PageState; title: string; main: Html; waits: boolean };
type Look = { kind: 'open' } | { kind: 'result'; mark: Mark };

const LOOKS: Readonly<Record<PageState, Look>> = {
  choose: { kind: 'open' },
  unavailable: { kind: 'result', mark: 'warn' },
  awaiting: { kind: 'open' },
  rate_over: { kind: 'open' },
  underpaid: { kind: 'open' },
  processing: { kind: 'result', mark: 'busy' },
  completed: { kind: 'result', mark: 'good' },
  overpaid: { kind: 'result', mark: 'good' },
  reversed: { kind: 'result', mark: 'warn' },
  expired: { kind: 'result', mark: 'over' },
  expired_partial: { kind: 'result', mark: 'warn' },
  late: { kind: 'result', mark: 'warn' },
  cancelled: { kind: 'result', mark: 'over' },
  failed: { kind: 'result', mark: 'warn' },
};

/** Title and content of the page. */
export function renderPage(view: CustomerView, options: PageOptions): Page {
  const { words } = options.language;
  const state = pageState(view);
  const pay = say(words.pay, { merchant: view.merchant.name });
  const heading: Record<PageState, string> = {
    choose: pay,
    unavailable: isTooSmall(view) ? words.smallPayment : words.unavailable,
    awaiting: pay,
    rate_over: words.rateOver,
    underpaid: words.partial,
    processing: words.processing,
    completed: words.completed,
    overpaid: words.completed,
    reversed: words.reversed,
    expired: words.expired,
    expired_partial: words.incomplete,
    late: words.late,
    cancelled: words.cancelled,
    failed: words.failed,
  };
  const look = LOOKS[state];
  const test = view.facts.mode === 'test';
  const wide = state === 'awaiting' || state === 'underpaid';
  const main = html`<main id="main" class="${wide ? 'wide' : look.kind}" data-state="${state}" data-status="${view.settlement.status}" data-version="${String(view.version)}" data-say="${news(state, heading[state], view, words)}"${wide && view.merchant.kiosk && new Html(' data-awake')}>
${test && html`<p class="stripe">${words.testStripe} <a class="noprint" href="#sim">${words.simulate}</a></p>`}
${look.kind === 'open' ? openHeader(heading[state], view, options) : resultHeader(look.mark, heading[state], view, options)}
${notices(state, view, options)}
${body(state, view, options)}
${footer(state, view, options)}
${test && drawer(view, words, hidden(view, options))}</main>`;
  const good = state === 'completed' || state === 'overpaid';
  return {
    state,
    title: `${test ? `${words.test} ` : ''}${good ? '✓ ' : ''}${heading[state]} – ${priceOf(view, options.language)}`,
    main,
    waits: look.kind === 'open' || state === 'processing' || state === 'reversed' || view.facts.status === 'pending',
  };
}

const logo = ({ merchant }: CustomerView): Html =>
  merchant.logo
    ? html`<img class="logo" src="/pay/logo/${merchant.logo}" alt="" width="40" height="40">`
    : html`<span class="logo letter" aria-hidden="true">${[...merchant.name][0]?.toUpperCase() ?? ''}</span>`;
/** The price in its original currency, and how it converts to US dollars. */
const priceOf = ({ request: { fiat }, facts }: CustomerView, { usd, money }: Language): string =>
  fiat ? money(fiat.amount, fiat.currency) : usd(facts.targetUsdCents);
/** A unit price or tax, in the currency of the price. */
const itemPrice = ({ request }: CustomerView, minor: bigint, { usd, money }: Language): string =>
  request.fiat ? money(itemAmount(request, minor), request.fiat.currency) : usd(minor);
const fiatNote = ({ request: { fiat }, facts }: CustomerView, language: Language): Html | null =>
  fiat &&
  html`<p class="tip">${SIGNS.info}<span><bdi>= ${language.usd(facts.targetUsdCents)} · 1 USD = ${formatDecimal(fiat.rateE8, 8, 2)} ${fiat.currency}</bdi> (${fiat.source === 'sample' ? language.words.sample : fiat.source}, ${dayOf(new Date(fiat.at), language)})</span></p>`;
const openHeader = (heading: string, view: CustomerView, { language }: PageOptions): Html =>
  html`<header class="top"><div class="who">${logo(view)}<h1 id="h" tabindex="-1">${heading}</h1></div><p class="usd"><bdi>${priceOf(view, language)}</bdi></p></header>${fiatNote(view, language)}`;
const resultHeader = (kind: Mark, heading: string, view: CustomerView, { language }: PageOptions): Html =>
  html`<header class="hero ${kind}">${mark(kind)}<h1 id="h" tabindex="-1">${heading}</h1><p class="usd"><bdi>${view.merchant.name}</bdi> · <bdi>${priceOf(view, language)}</bdi></p></header>${fiatNote(view, language)}`;

const note = (text: string | Html): Html => html`<p class="note">${SIGNS.info}<span>${text}</span></p>`;
function notices(state: PageState, view: CustomerView, { language: { words }, fault }: PageOptions): Html {
  const { exceptions } = view.settlement;
  const renewal = state === 'awaiting' ? renewed(view, words) : null;
  return html`${fault?.field === null && html`<p class="note" role="alert">${SIGNS.info}<span>${fault.text}</span></p>`}
${exceptions.includes('replaced') && view.facts.status === 'pending' && note(words.replacedNote)}${exceptions.includes('reorged') && state !== 'reversed' && note(words.reorgedNote)}${renewal !== null && note(renewal)}`;
}

/** Announces a renewed rate that changed the amount. */
function renewed({ facts, settlement }: CustomerView, words: Language['words']): string | null {
  const quotes = facts.quotes.filter((quote) => quote.coin === settlement.coin);
  const [before, current] = quotes.slice(-2);
  if (!before || !current || before.units === current.units) return null;
  return say(words.rateRenewed, { amount: amountText(current.coin, current.units), before: amountText(before.coin, before.units) });
}

/** What screen readers announce when it changes: the heading, and a changed amount. */
function news(state: PageState, heading: string, view: CustomerView, words: Language['words']): string {
  const { coin, remainingUnits } = view.settlement;
  if (state === 'underpaid') return `${heading}. ${words.stillDue}: ${amountText(coin!, remainingUnits)}`;
  return [heading, state === 'awaiting' ? renewed(view, words) : null].filter((text) => text !== null).join('. ');
}

/** Joins sentences; a full-width period needs no space after it. */
const after = (text: string, next: string): string => `${text.endsWith('。') ? '' : ' '}${next}`;
const amountText = (coin: Coin, units: bigint): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;
const amountOf = (coin: Coin, units: bigint): Html => html`<bdi>${amountText(coin, units)}</bdi>`;

function body(state: PageState, view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const lead = (text: string | Html) => html`<p class="lead">${text}</p>`;
  switch (state) {
    case 'choose':
      return html`${itemList(view, options)}${coinForm(view, options, 'c')}`;
    case 'unavailable':
      return lead(isTooSmall(view) ? words.nothingCharged : `${words.nothingCharged}${after(words.nothingCharged, words.checksAgain)}`);
    case 'awaiting':
      return payTo(view, options);
    case 'underpaid':
      return html`${lead(`${words.partialText}${view.facts.extendedUntil ? after(words.partialText, words.moreTime) : ''}`)}${arrived(view, options)}${payTo(view, options)}`;
    case 'rate_over':
      return html`${lead(words.rateOverText)}${view.settlement.receivedUnits > 0n && arrived(view, options)}${rateForm(view, options)}`;
    case 'processing':
      return html`${lead(words.processingText)}${progress(view, options)}${transactions(view, options)}`;
    case 'completed':
      return html`${lead(words.completedText)}${transactions(view, options)}`;
    case 'overpaid':
      return html`${lead(words.completedText)}${note(html`${fill(words.overpaidText, { amount: amountOf(view.settlement.coin!, view.settlement.overpaidUnits) })}${!view.refundAddress && after(words.overpaidText, words.overpaidLeave)}`)}${transactions(view, options)}${refund(view, options)}`;
    case 'reversed':
      return html`${lead(words.reversedText)}${transactions(view, options)}`;
    case 'expired':
      return html`${lead(words.expiredText)}${alreadySent(view, options)}`;
    case 'expired_partial':
      return html`${lead(words.incompleteText)}${arrived(view, options)}${refund(view, options)}`;
    case 'late':
      return html`${lead(words.lateText)}${held(view, options)}${refund(view, options)}`;
    case 'cancelled':
      return view.settlement.exceptions.includes('paid_after_cancel')
        ? html`${lead(`${words.cancelledText}${after(words.cancelledText, words.paidAfterCancel)}`)}${held(view, options)}${refund(view, options)}`
        : html`${lead(words.cancelledText)}${view.settlement.receivedUnits > 0n && html`${held(view, options)}${refund(view, options)}`}`;
    case 'failed':
      return lead(words.failedText);
  }
}

const hidden = (view: CustomerView, { formToken, chosen }: PageOptions): Html =>
  html`<input type="hidden" name="id" value="${view.facts.id}"><input type="hidden" name="token" value="${formToken}">${chosen && html`<input type="hidden" name="lang" value="${chosen}">`}`;

function itemList(view: CustomerView, { language }: PageOptions): Html | null {
  const { words, count } = language;
  if (!view.request.items) return view.request.description ? html`<p class="lead">${view.request.description}</p>` : null;
  const cents = (value: bigint) => html`<td class="num"><bdi>${itemPrice(view, value, language)}</bdi></td>`;
  return html`<details><summary>${words.order}</summary><table><tbody>${view.request.items.map((item) => html`<tr><td>${count(Number(item.quantity))} × <bdi>${item.name}</bdi></td>${cents(item.quantity * item.unitPriceMinor)}</tr>`)}
<tr><td>${words.tax}</td>${cents(view.request.taxMinor ?? 0n)}</tr><tr class="sum"><td>${words.total}</td><td class="num"><bdi>${priceOf(view, language)}</bdi></td></tr></tbody></table></details>`;
}

/** A coin that cannot carry such a small amount will not become payable, so it is omitted. */
const offered = ({ coins }: CustomerView): CustomerView['coins'] => coins.filter((c) => c.unavailable !== 'small');

/** Coins are available, but none of them can carry such a small amount. */
export const isTooSmall = ({ coins }: CustomerView): boolean => coins.some(({ unavailable }) => unavailable === 'small');

/** `key` keeps ids unique when the form is shown behind a coin that is already chosen. */
function coinForm(view: CustomerView, options: PageOptions, key: string): Html {
  const { words } = options.language;
  const payable = view.coins.filter((c) => c.unavailable === null);
  const first = view.settlement.coin ?? view.scenario?.coin ?? payable[0]?.coin;
  const why = { price: words.noPrice, network: words.noNetwork, small: words.tooSmall };
  const row = ({ coin, unavailable, estimateUnits }: CustomerView['coins'][number]) => {
    const { name } = COIN[coin];
    const { networkName } = chainOf(coin);
    const estimate = estimateUnits !== null && html`<bdi>≈ ${shortAmount(coin, estimateUnits)} ${COIN[coin].asset}</bdi>`;
    return html`<label class="coin${unavailable ? ' off' : ''}"><input type="radio" name="currency" value="${coin}" id="${key}-${coin}" required${unavailable && new Html(' disabled')}${coin === first && !unavailable && new Html(' checked')}>${coinIcon(coin)}<span class="what"><b>${name}${networkName !== name && html` <span class="est">${networkName.replace(`${name} `, '')}</span>`}</b><span class="est">${unavailable ? why[unavailable] : estimate}</span></span></label>`;
  };
  return html`<form method="post" action="/pay/select" data-frag>${hidden(view, options)}
<fieldset class="coins"><legend${key === 'o' && new Html(' class="sr"')}>${words.chooseCoin}${view.coins.some((c) => c.sample) && html` <span class="est">(${words.sample})</span>`}</legend>${offered(view).map(row)}</fieldset><div class="prep" role="status"><span class="sr">${words.preparing}</span><i></i><i></i></div>
<button class="main" id="${key}-continue">${words.continue}</button></form>`;
}

/** An estimate needs at most six decimals; the amount to send is shown in full. */
function shortAmount(coin: Coin, units: bigint): string {
  const { decimals } = COIN[coin];
  const places = Math.min(6, decimals);
  const step = 10n ** BigInt(decimals - places);
  const rounded = (units + step / 2n) / step;
  return rounded > 0n ? formatDecimal(rounded, places, 2) : formatUnits(coin, units);
}

function rateForm(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const coin = view.settlement.coin!;
  const estimate = view.coins.find((c) => c.coin === coin)?.estimateUnits ?? null;
  const whole = view.settlement.receivedUnits === 0n;
  return html`${whole && estimate !== null && html`<p>${fill(words.newAmount, { amount: html`<bdi>${shortAmount(coin, estimate)} ${COIN[coin].asset}</bdi>` })}</p>`}<form method="post" action="/pay/requote" data-frag>${hidden(view, options)}<button class="main" id="requote">${words.newRate}</button></form>${deadline(view, options)}${whole && otherCoin(view, options)}`;
}
const otherCoin = (view: CustomerView, options: PageOptions): Html | null =>
  view.facts.fixed || !view.coins.some((c) => c.unavailable === null && c.coin !== view.settlement.coin)
    ? null
    : html`<details><summary>${options.language.words.changeCoin}</summary>${coinForm(view, options, 'o')}</details>`;

/** What to send where: address, amount and URI are the same values in text, QR code, link and clipboard. */
function payTo(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const coin = view.settlement.coin!;
  const amount = formatUnits(coin, view.settlement.remainingUnits);
  const address = view.quote!.address;
  const due = html`<bdi dir="ltr" translate="no"><span class="big" id="amount">${amount}</span> ${COIN[coin].asset}</bdi>`;
  const uri = paymentUri({
    coin,
    address,
    units: view.settlement.remainingUnits,
    network: options.networks[COIN[coin].chain],
    ethChainId: options.ethChainId,
  });
  // Wallets that ignore the call of a token would pay its contract, so the address comes first.
  const [request, bare] = COIN[coin].contract === null ? [' checked', ''] : ['', ' checked'];
  return html`${clock(view, options)}<div class="two"><div><div class="row"><div><span class="dt">${words.sendExactly}</span><div>${due}</div></div>${copy(amount, words.sendExactly, words)}</div>
<div class="row"><div><span class="dt">${words.to}</span><div dir="ltr" translate="no"><span class="mono address" id="address">${view.facts.mode === 'test' ? address : grouped(address)}</span></div></div>${copy(address, words.to, words)}<p class="ends">${fill(words.compare, { ends: html`<bdi class="mono" dir="ltr" translate="no"><b>${address.slice(0, 6)} … ${address.slice(-6)}</b></bdi>` })}</p></div>
<a class="main" id="wallet" href="${uri}">${SIGNS.wallet}${words.openWallet}</a><p class="tip js" id="nowallet" role="status" hidden>${SIGNS.info}<span>${words.noWallet}</span></p>
${note(html`${say(words.network, { coin: COIN[coin].asset, network: chainOf(coin).name })}${kindOf(coin) === 'ethereum' && after(words.network, words.layer2)}`)}<p class="tip">${SIGNS.info}<span>${words.exchangeFee}</span></p></div>
<fieldset class="qr"><legend class="sr">${words.qrLabel}</legend><div class="box" id="qr-request">${drawQr(uri, words.qrLabel)}</div><div class="box" id="qr-address">${drawQr(address, words.qrAddress)}</div><div class="seg"><label><input type="radio" name="qr" id="qr-r"${new Html(request)}>${words.qrRequest}</label><label><input type="radio" name="qr" id="qr-a"${new Html(bare)}>${words.qrAddress}</label></div><button type="button" class="quiet js" id="share" hidden>${words.share}</button></fieldset></div>
<p class="wait" role="status">${words.waiting}</p>${view.settlement.receivedUnits === 0n && otherCoin(view, options)}`;
}

const copy = (text: string, label: string, words: Language['words']): Html =>
  html`<button type="button" class="copy js" data-copy="${text}" aria-label="${words.copy}: ${label}">${SIGNS.copy}<span>${words.copy}</span></button>`;

/** Grouped only visually: the copied text contains no spaces. */
const grouped = (address: string): Html => html`${(address.match(/.{1,4}/g) ?? []).map((part) => html`<span>${part}</span>`)}`;

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
  return html`<time datetime="${at.toISOString()}" data-widest="${widest}"${dated && html` data-days="${days.join('|')}"`}><bdi>${dated ? language.day(at) : language.time(at)}</bdi></time><span class="tz"> UTC</span>`;
}
const timeOf = (at: Date, { now }: CustomerView, { language }: PageOptions): Html =>
  moment(at, language, Math.abs(at.getTime() - now.getTime()) >= CLOCK_ONLY_MS);
const dayOf = (at: Date, language: Language): Html => moment(at, language, true);
const deadline = (view: CustomerView, options: PageOptions): Html =>
  html`<p class="tip">${SIGNS.clock}<span>${fill(options.language.words.payUntil, { time: timeOf(view.settlement.expiresAt, view, options) })}</span></p>`;

/** Two clocks: the rate lock counts down; the end of the window is shown beside it when it is later. */
function clock(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const { quoteExpiresAt, expiresAt } = view.settlement;
  const until = quoteExpiresAt ?? expiresAt;
  return html`<p class="clock">${SIGNS.clock}<span><span>${words.rateHolds} <b id="clock" role="timer" aria-live="off" data-ms="${String(Math.max(0, until.getTime() - view.now.getTime()))}">${minutesLeft(until, view.now)}</b></span><small><span>${fill(words.until, { time: timeOf(until, view, options) })}</span>${until < expiresAt && html` <span>${fill(words.payUntil, { time: timeOf(expiresAt, view, options) })}</span>`}</small></span></p>`;
}
const minutesLeft = (until: Date, now: Date): string => {
  const seconds = Math.max(0, Math.ceil((until.getTime() - now.getTime()) / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
};

function arrived(view: CustomerView, { language: { words } }: PageOptions): Html {
  const { coin, receivedUnits, remainingUnits } = view.settlement;
  return html`<dl class="sums"><div><dt>${words.arrived}</dt><dd>${amountOf(coin!, receivedUnits)}</dd></div><div class="due"><dt>${words.stillDue}</dt><dd>${amountOf(coin!, remainingUnits)}</dd></div></dl>`;
}
/** Transfers too small to count: shown so that nobody waits for them. */
const crumbs = ({ settlement: { coin, dustUnits } }: CustomerView, { language: { words } }: PageOptions): Html | null =>
  coin === null || dustUnits === 0n
    ? null
    : html`<dl class="sums"><div><dt>${words.crumbs}</dt><dd>${amountOf(coin, dustUnits)}</dd></div></dl>`;
const held = (view: CustomerView, { language: { words, count } }: PageOptions): Html =>
  html`<dl class="sums">${listed(view).map((t) => html`<div><dt>${words.arrived}</dt><dd>${amountOf(t.coin, t.units)}</dd></div>`)}${unlisted(view) > 0 && html`<div><dt>${words.arrived}</dt><dd>+ ${count(unlisted(view))}</dd></div>`}</dl>`;

/** Answers the first question of a payer whose payment expired; the restart comes after it, so that nobody pays twice. */
const alreadySent = (view: CustomerView, { language: { words } }: PageOptions): Html =>
  html`<details class="sent"><summary class="main" id="sent">${words.sent}</summary><p class="lead">${words.sentText}</p>${contactLink(view, words, 'first')}</details>`;

/** The network's progress: the number of confirmations if that decides, otherwise that a lock is pending. */
function progress({ settlement: s }: CustomerView, { language }: PageOptions): Html {
  const { words, count, minutes } = language;
  if (s.confirmationsRequired === null || s.coin === null) return html`<p class="wait" role="status">${words.locking}</p>`;
  const done = Math.min(s.confirmations, s.confirmationsRequired);
  const left = Math.max(1, Math.round(((s.confirmationsRequired - done) * chainOf(s.coin).blockSeconds) / 60));
  return html`<div role="status"><progress max="${s.confirmationsRequired}" value="${done}" aria-label="${words.processing}"></progress><p class="lead">${say(words.confirmations, { count: count(done), needed: count(s.confirmationsRequired) })}<br>${say(words.usually, { time: minutes(left) })}</p></div>`;
}

/** A link to the public explorer; test payments and private networks have none. */
const txLink = (view: CustomerView, coin: Coin, txid: string, { networks }: PageOptions): Html => {
  const text = html`<bdi class="mono" translate="no">${txid}</bdi>`;
  const url = view.facts.mode === 'live' ? explorerUrl(coin, networks[COIN[coin].chain], txid) : null;
  return url === null ? text : html`<a href="${url}" rel="noopener noreferrer" target="_blank">${text}</a>`;
};
const transactions = (view: CustomerView, options: PageOptions): Html =>
  html`${listed(view).map((t) => t.txid !== null && t.conflict === null && html`<p class="tx"><span>${options.language.words.transaction}</span> ${txLink(view, t.coin, t.txid, options)}</p>`)}${unlisted(view) > 0 && html`<p class="tx"><span>${options.language.words.transaction}</span> ${more(view, options.language)}</p>`}`;
/** Anyone can send very many parts: the largest are shown, the others as a count beside the total. */
const MOST_LISTED = 10;
const listed = ({ transfers }: CustomerView): CustomerView['transfers'] => transfers.slice(0, MOST_LISTED);
const unlisted = (view: CustomerView): number => view.transfersCount - listed(view).length;
const more = (view: CustomerView, { words, count }: Language): Html =>
  html`+ ${count(unlisted(view))} · ${words.arrived} ${amountOf(view.settlement.coin!, view.settlement.receivedUnits)}`;

function refund(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  if (view.refundAddress)
    return html`<p class="tx"><span>${words.refundKept}</span> <bdi class="mono" translate="no">${view.refundAddress.address}</bdi></p>`;
  const coin: Coin = view.transfers[0]?.coin ?? view.settlement.coin!;
  const { fault } = options;
  const field = (name: 'address' | 'email', label: string, attributes: string) => {
    const wrong = fault?.field === name;
    return html`<label class="field"><span>${label}</span><input name="${name}" id="refund-${name}" value="${fault?.given[name] ?? ''}"${new Html(attributes)}${wrong && new Html(` aria-invalid="true" aria-describedby="fault"`)}>${wrong && html`<span class="fault" id="fault" role="alert">${fault.text}</span>`}</label>`;
  };
  return html`<details${fault && new Html(' open')}><summary>${words.refund}</summary><form method="post" action="/pay/refund-address" data-frag>${hidden(view, options)}<input type="hidden" name="currency" value="${coin}">
${field('address', say(words.refundAddress, { coin: COIN[coin].asset }), ' type="text" required maxlength="120" autocomplete="off" autocapitalize="off" spellcheck="false" dir="ltr"')}${field('email', words.refundEmail, ' type="email" maxlength="200" autocomplete="email" dir="ltr"')}<p class="tip">${SIGNS.info}<span>${words.refundNote}</span></p><button class="main second" id="refund">${words.refundSend}</button></form></details>`;
}

/** Money waits for the merchant's decision, or is gone, so the payer should contact the merchant first. */
const TALK_FIRST: ReadonlySet<PageState> = new Set(['unavailable', 'reversed', 'expired_partial', 'late', 'failed']);

function footer(state: PageState, view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const result = LOOKS[state].kind === 'result';
  const good = state === 'completed' || state === 'overpaid';
  const waits = TALK_FIRST.has(state) || (state === 'cancelled' && view.transfers.length > 0);
  const contact = contactLink(view, words, waits ? 'first' : result && !good ? 'beside' : 'foot');
  const back = view.request.returnUrl;
  const mayCancel = view.merchant.payerCancel && view.facts.status === 'pending' && !result && view.transfers.length === 0;
  const again = mayRepeat(view);
  const expired = state === 'expired';
  const first = again || expired || state === 'unavailable' || (waits && contact !== null);
  const receipt =
    good && html`<p><a href="/pay/receipt?id=${view.facts.id}${options.chosen && `&lang=${options.chosen}`}">${words.receipt}</a></p>`;
  return html`${again && html`<form method="post" action="/pay/again">${hidden(view, options)}<button class="main${expired ? ' second' : ''}" id="again">${words.again}</button></form>`}${waits && contact}${state === 'unavailable' && contact === null && html`<p><a class="main" id="reload" href="${reloadUrl(view, options)}">${words.retry}</a></p>`}${result && (back ? returnLink(view, back, { auto: good && view.merchant.autoReturn, first: !first }, words) : state !== 'unavailable' && html`<p class="lead">${words.close}</p>`)}${result && !good && !waits && !expired && contact}
${view.settlement.status !== 'completed' && crumbs(view, options)}<div class="foot">${mayCancel && html`<details class="stop"><summary>${words.cancel}</summary><p class="tip">${SIGNS.info}<span>${words.cancelText}</span></p><form method="post" action="/pay/cancel" data-frag>${hidden(view, options)}<button id="cancel">${words.cancel}</button></form></details>`}${receipt}${(!result || good) && contact}<div class="number"><span>${words.number}</span>${copy(view.facts.id, words.number, words)}<span class="mono"><bdi translate="no">${view.facts.id}</bdi></span></div></div>`;
}
const reloadUrl = (view: CustomerView, { chosen }: PageOptions): string => `/pay?id=${view.facts.id}${chosen ? `&lang=${chosen}` : ''}`;
/** In the footer, beside the main action, or as the main action itself; then it already includes the payment. */
const contactLink = ({ merchant, facts }: CustomerView, words: Language['words'], place: ContactPlace): Html | null =>
  linkToContact({ name: merchant.name, contact: merchant.supportContact, about: facts.id }, words, place);
type ContactPlace = 'first' | 'beside' | 'foot';

export function linkToContact(
  { name, contact, about: subject }: { name: string; contact: string | null; about: string },
  words: Language['words'],
  place: ContactPlace,
): Html | null {
  if (contact === null) return null;
  const text = say(words.contact, { merchant: name });
  const link = (href: string, shown: string | Html, more = '') =>
    html`<p${place === 'beside' && new Html(' class="beside"')}><a${place === 'first' && new Html(' class="main"')} href="${href}"${new Html(more)}>${shown}</a></p>`;
  if (/^https:\/\//.test(contact)) return link(contact, text, ' rel="noopener" target="_blank"');
  const about = place === 'foot' ? '' : `?subject=${encodeURIComponent(subject)}`;
  if (contact.includes('@')) return link(`mailto:${contact}${about}`, text);
  return link(`tel:${contact.replace(/[^\d+]/g, '')}`, html`<span>${text}: <bdi dir="ltr">${contact}</bdi></span>`);
}

function returnLink(view: CustomerView, back: string, { auto, first }: { auto: boolean; first: boolean }, words: Language['words']): Html {
  const { host } = new URL(back);
  return html`<p><a class="main${first ? '' : ' second'}" id="return" target="_top" rel="noopener" href="${returnUrl(view, back)}">${say(words.returnTo, { host })}</a></p>${auto && html`<p class="lead js" id="auto" hidden><span data-text="${say(words.returning, { host, seconds: '{seconds}' })}"></span> <button type="button" class="quiet" id="stay">${words.stay}</button></p>`}`;
}

/** The stored return URL with the payment's id and status; the docs tell merchants to trust only the webhook. */
export function returnUrl(view: CustomerView, back: string): string {
  const url = new URL(back);
  url.searchParams.append('transaction_id', view.facts.id);
  url.searchParams.append('status', view.facts.status);
  return url.href;
}

/** A receipt to print: what was bought, what was paid, at which rate and when. */
export function renderReceipt(view: CustomerView, options: PageOptions): { title: string; main: Html } {
  const { words, rate, count } = options.language;
  const { settlement: s, request, facts } = view;
  const row = (name: string | Html, value: string | Html | null, sum = false) =>
    value !== null && html`<tr${sum && new Html(' class="sum"')}><th scope="row">${name}</th><td>${value}</td></tr>`;
  const cents = (value: bigint) => html`<bdi>${itemPrice(view, value, options.language)}</bdi>`;
  const rateE8 = view.quote?.rateE8 ?? null;
  return {
    title: `${words.receipt} – ${view.merchant.name}`,
    main: html`<main id="main" data-state="receipt">${facts.mode === 'test' && html`<p class="stripe">${words.testStripe}</p>`}<header class="top"><div class="who">${logo(view)}<h1>${words.receipt}</h1></div><p class="usd"><bdi>${priceOf(view, options.language)}</bdi></p></header>${fiatNote(view, options.language)}<table><tbody>
${row(words.merchant, view.merchant.name)}${row(words.paidOn, s.completedAt && dayOf(s.completedAt, options.language))}
${request.description && row(words.order, request.description)}${request.items?.map((item) => row(html`${count(Number(item.quantity))} × <bdi>${item.name}</bdi>`, cents(item.quantity * item.unitPriceMinor))) ?? []}
${request.taxMinor !== null && row(words.tax, cents(request.taxMinor))}${row(words.total, html`<bdi>${priceOf(view, options.language)}</bdi>`, true)}
${s.coin && row(words.arrived, amountOf(s.coin, s.receivedUnits))}${s.coin && rateE8 !== null && row(words.rate, html`<bdi>1 ${COIN[s.coin].asset} = ${rate(rateE8)}</bdi>`)}
${listed(view).map((t) => t.txid !== null && t.conflict === null && row(words.transaction, txLink(view, t.coin, t.txid, options)))}${unlisted(view) > 0 && row(words.transaction, more(view, options.language))}${row(words.number, html`<bdi class="mono">${facts.id}</bdi>`)}</tbody></table>
<p class="noprint js"><button type="button" class="main" id="print">${words.print}</button></p></main>`,
  };
}
