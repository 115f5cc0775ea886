/** The payment page as a pure function of the server's view: every state is a full page, with one renderer and one place for amounts. */
import { paymentUri } from '../../chains/address.ts';
import { COIN, type Coin, chainOf, kindOf } from '../../core/coin.ts';
import { formatDecimal, formatUnits } from '../../core/money.ts';
import { mayRepeat } from '../../payments/payments.ts';
import type { CustomerView } from '../../payments/view.ts';
import { Html, html } from '../html.ts';
import { drawer } from './drawer.ts';
import { coinIcon, type Mark, mark, SIGNS } from './icons.ts';
import {
  after,
  amountOf,
  amountText,
  copy,
  fiatNote,
  hidden,
  itemPrice,
  listed,
  logo,
  more,
  note,
  type PageOptions,
  priceOf,
  timeOf,
  tip,
  txLink,
  unavailableText,
  unlisted,
} from './parts.ts';
import { drawQr } from './qr.ts';
import { fill, type Language, say } from './words.ts';

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
  const main = html`<main id="main" class="${wide ? 'wide' : look.kind}" data-state="${state}" data-status="${view.settlement.status}"
 data-version="${String(view.version)}" data-say="${news(state, heading[state], view, words)}"${wide && view.merchant.kiosk && new Html(' data-awake')}>
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

const openHeader = (heading: string, view: CustomerView, { language }: PageOptions): Html =>
  html`<header class="top"><div class="who">${logo(view)}<h1 id="h" tabindex="-1">${heading}</h1></div>
<p class="usd"><bdi>${priceOf(view, language)}</bdi></p></header>${fiatNote(view, language)}`;
const resultHeader = (kind: Mark, heading: string, view: CustomerView, { language }: PageOptions): Html =>
  html`<header class="hero ${kind}">${mark(kind)}<h1 id="h" tabindex="-1">${heading}</h1>
<p class="usd"><bdi>${view.merchant.name}</bdi> · <bdi>${priceOf(view, language)}</bdi></p></header>${fiatNote(view, language)}`;

function notices(state: PageState, view: CustomerView, { language: { words }, fault }: PageOptions): Html {
  const { exceptions } = view.settlement;
  const renewal = state === 'awaiting' ? renewed(view, words) : null;
  return html`${fault?.field === null && html`<p class="note" role="alert">${SIGNS.info}<span>${fault.text}</span></p>`}
${exceptions.includes('replaced') && view.facts.status === 'pending' && note(words.replacedNote)}
${exceptions.includes('reorged') && state !== 'reversed' && note(words.reorgedNote)}${renewal !== null && note(renewal)}`;
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

function body(state: PageState, view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const lead = (text: string | Html) => html`<p class="lead">${text}</p>`;
  const { coin, overpaidUnits } = view.settlement;
  switch (state) {
    case 'choose':
      return html`${itemList(view, options)}${coinForm(view, options, 'c')}`;
    case 'unavailable':
      return lead(isTooSmall(view) ? words.nothingCharged : unavailableText(options.language));
    case 'awaiting':
      return payTo(view, options);
    case 'underpaid':
      return html`${lead(`${words.partialText}${view.facts.extendedUntil ? after(words.partialText, words.moreTime) : ''}`)}
${arrived(view, options)}${payTo(view, options)}`;
    case 'rate_over':
      return html`${lead(words.rateOverText)}${view.settlement.receivedUnits > 0n && arrived(view, options)}${rateForm(view, options)}`;
    case 'processing':
      return html`${lead(words.processingText)}${progress(view, options)}${transactions(view, options)}`;
    case 'completed':
      return html`${lead(words.completedText)}${transactions(view, options)}`;
    case 'overpaid':
      return html`${lead(words.completedText)}
${note(html`${fill(words.overpaidText, { amount: amountOf(coin!, overpaidUnits) })}${!view.refundAddress && after(words.overpaidText, words.overpaidLeave)}`)}
${transactions(view, options)}${refund(view, options)}`;
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

function itemList(view: CustomerView, { language }: PageOptions): Html | null {
  const { words, count } = language;
  if (!view.request.items) return view.request.description ? html`<p class="lead">${view.request.description}</p>` : null;
  const cents = (value: bigint) => html`<td class="num"><bdi>${itemPrice(view, value, language)}</bdi></td>`;
  const rows = view.request.items.map(
    ({ name, quantity, unitPriceMinor }) =>
      html`<tr><td>${count(Number(quantity))} × <bdi>${name}</bdi></td>${cents(quantity * unitPriceMinor)}</tr>`,
  );
  return html`<details><summary>${words.order}</summary><table><tbody>${rows}
<tr><td>${words.tax}</td>${cents(view.request.taxMinor ?? 0n)}</tr>
<tr class="sum"><td>${words.total}</td><td class="num"><bdi>${priceOf(view, language)}</bdi></td></tr></tbody></table></details>`;
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
    const state = unavailable ? new Html(' disabled') : coin === first && new Html(' checked');
    const network = networkName !== name && html` <span class="est">${networkName.replace(`${name} `, '')}</span>`;
    return html`<label class="coin${unavailable ? ' off' : ''}">
<input type="radio" name="currency" value="${coin}" id="${key}-${coin}" required${state}>${coinIcon(coin)}
<span class="what"><b>${name}${network}</b><span class="est">${unavailable ? why[unavailable] : estimate}</span></span></label>`;
  };
  const sample = view.coins.some((c) => c.sample) && html` <span class="est">(${words.sample})</span>`;
  return html`<form method="post" action="/pay/select" data-frag>${hidden(view, options)}
<fieldset class="coins"><legend${key === 'o' && new Html(' class="sr"')}>${words.chooseCoin}${sample}</legend>${offered(view).map(row)}</fieldset>
<div class="prep" role="status"><span class="sr">${words.preparing}</span><i></i><i></i></div>
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
  const amount = estimate !== null && html`<bdi>${shortAmount(coin, estimate)} ${COIN[coin].asset}</bdi>`;
  return html`${whole && amount && html`<p>${fill(words.newAmount, { amount })}</p>`}
<form method="post" action="/pay/requote" data-frag>${hidden(view, options)}<button class="main" id="requote">${words.newRate}</button></form>
${deadline(view, options)}${whole && otherCoin(view, options)}`;
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
  const ends = html`<bdi class="mono" dir="ltr" translate="no"><b>${address.slice(0, 6)} … ${address.slice(-6)}</b></bdi>`;
  const network = say(words.network, { coin: COIN[coin].asset, network: chainOf(coin).name });
  return html`${clock(view, options)}<div class="two"><div>
<div class="row"><div><span class="dt">${words.sendExactly}</span><div>${due}</div></div>${copy(amount, words.sendExactly, words)}</div>
<div class="row"><div><span class="dt">${words.to}</span>
<div dir="ltr" translate="no"><span class="mono address" id="address">${view.facts.mode === 'test' ? address : grouped(address)}</span></div></div>
${copy(address, words.to, words)}<p class="ends">${fill(words.compare, { ends })}</p></div>
<a class="main" id="wallet" href="${uri}">${SIGNS.wallet}${words.openWallet}</a>
<p class="tip js" id="nowallet" role="status" hidden>${SIGNS.info}<span>${words.noWallet}</span></p>
${note(html`${network}${kindOf(coin) === 'ethereum' && after(words.network, words.layer2)}`)}${tip(words.exchangeFee)}</div>
${qrCodes({ uri, address, isToken: COIN[coin].contract !== null }, words)}</div>
<p class="wait" role="status">${words.waiting}</p>${view.settlement.receivedUnits === 0n && otherCoin(view, options)}`;
}

/**
 * The request with its amount, or only the address. Wallets that ignore the call of a token would pay its contract, so there the
 * address comes first.
 */
function qrCodes({ uri, address, isToken }: { uri: string; address: string; isToken: boolean }, words: Language['words']): Html {
  const choice = (id: string, label: string, isFirst: boolean) =>
    html`<label><input type="radio" name="qr" id="${id}"${isFirst && new Html(' checked')}>${label}</label>`;
  return html`<fieldset class="qr"><legend class="sr">${words.qrLabel}</legend>
<div class="box" id="qr-request">${drawQr(uri, words.qrLabel)}</div><div class="box" id="qr-address">${drawQr(address, words.qrAddress)}</div>
<div class="seg">${choice('qr-r', words.qrRequest, !isToken)}${choice('qr-a', words.qrAddress, isToken)}</div>
<button type="button" class="quiet js" id="share" hidden>${words.share}</button></fieldset>`;
}

/** Grouped only visually: the copied text contains no spaces. */
const grouped = (address: string): Html => html`${(address.match(/.{1,4}/g) ?? []).map((part) => html`<span>${part}</span>`)}`;

const deadline = (view: CustomerView, options: PageOptions): Html =>
  tip(fill(options.language.words.payUntil, { time: timeOf(view.settlement.expiresAt, view, options) }), SIGNS.clock);

/** Two clocks: the rate lock counts down; the end of the window is shown beside it when it is later. */
function clock(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const { quoteExpiresAt, expiresAt } = view.settlement;
  const until = quoteExpiresAt ?? expiresAt;
  const ms = String(Math.max(0, until.getTime() - view.now.getTime()));
  const left = html`<b id="clock" role="timer" aria-live="off" data-ms="${ms}">${minutesLeft(until, view.now)}</b>`;
  const end = until < expiresAt && html` <span>${fill(words.payUntil, { time: timeOf(expiresAt, view, options) })}</span>`;
  return html`<p class="clock">${SIGNS.clock}<span><span>${words.rateHolds} ${left}</span>
<small><span>${fill(words.until, { time: timeOf(until, view, options) })}</span>${end}</small></span></p>`;
}
const minutesLeft = (until: Date, now: Date): string => {
  const seconds = Math.max(0, Math.ceil((until.getTime() - now.getTime()) / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
};

function arrived(view: CustomerView, { language: { words } }: PageOptions): Html {
  const { coin, receivedUnits, remainingUnits } = view.settlement;
  return html`<dl class="sums"><div><dt>${words.arrived}</dt><dd>${amountOf(coin!, receivedUnits)}</dd></div>
<div class="due"><dt>${words.stillDue}</dt><dd>${amountOf(coin!, remainingUnits)}</dd></div></dl>`;
}
/** Transfers too small to count: shown so that nobody waits for them. */
const crumbs = ({ settlement: { coin, dustUnits } }: CustomerView, { language: { words } }: PageOptions): Html | null =>
  coin === null || dustUnits === 0n
    ? null
    : html`<dl class="sums"><div><dt>${words.crumbs}</dt><dd>${amountOf(coin, dustUnits)}</dd></div></dl>`;
function held(view: CustomerView, { language: { words, count } }: PageOptions): Html {
  const sum = (value: Html) => html`<div><dt>${words.arrived}</dt><dd>${value}</dd></div>`;
  return html`<dl class="sums">${listed(view).map((t) => sum(amountOf(t.coin, t.units)))}
${unlisted(view) > 0 && sum(html`+ ${count(unlisted(view))}`)}</dl>`;
}

/** Answers the first question of a payer whose payment expired; the restart comes after it, so that nobody pays twice. */
const alreadySent = (view: CustomerView, { language: { words } }: PageOptions): Html =>
  html`<details class="sent"><summary class="main" id="sent">${words.sent}</summary>
<p class="lead">${words.sentText}</p>${contactLink(view, words, 'first')}</details>`;

/** The network's progress: the number of confirmations if that decides, otherwise that a lock is pending. */
function progress({ settlement: s }: CustomerView, { language }: PageOptions): Html {
  const { words, count, minutes } = language;
  if (s.confirmationsRequired === null || s.coin === null) return html`<p class="wait" role="status">${words.locking}</p>`;
  const done = Math.min(s.confirmations, s.confirmationsRequired);
  const left = Math.max(1, Math.round(((s.confirmationsRequired - done) * chainOf(s.coin).blockSeconds) / 60));
  const counted = say(words.confirmations, { count: count(done), needed: count(s.confirmationsRequired) });
  return html`<div role="status"><progress max="${s.confirmationsRequired}" value="${done}" aria-label="${words.processing}"></progress>
<p class="lead">${counted}<br>${say(words.usually, { time: minutes(left) })}</p></div>`;
}

function transactions(view: CustomerView, options: PageOptions): Html {
  const line = (what: Html) => html`<p class="tx"><span>${options.language.words.transaction}</span> ${what}</p>`;
  const links = listed(view).map((t) => t.txid !== null && t.conflict === null && line(txLink(view, t.coin, t.txid, options)));
  return html`${links}${unlisted(view) > 0 && line(more(view, options.language))}`;
}
function refund(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  if (view.refundAddress)
    return html`<p class="tx"><span>${words.refundKept}</span> <bdi class="mono" translate="no">${view.refundAddress.address}</bdi></p>`;
  const coin: Coin = view.transfers[0]?.coin ?? view.settlement.coin!;
  const { fault } = options;
  const field = (name: 'address' | 'email', label: string, attributes: string) => {
    const wrong = fault?.field === name;
    const more = `${attributes}${wrong ? ' aria-invalid="true" aria-describedby="fault"' : ''}`;
    return html`<label class="field"><span>${label}</span>
<input name="${name}" id="refund-${name}" value="${fault?.given[name] ?? ''}"${new Html(more)}>
${wrong && html`<span class="fault" id="fault" role="alert">${fault.text}</span>`}</label>`;
  };
  return html`<details${fault && new Html(' open')}><summary>${words.refund}</summary>
<form method="post" action="/pay/refund-address" data-frag>${hidden(view, options)}<input type="hidden" name="currency" value="${coin}">
${field('address', say(words.refundAddress, { coin: COIN[coin].asset }), ADDRESS_FIELD)}${field('email', words.refundEmail, EMAIL_FIELD)}
${tip(words.refundNote)}<button class="main second" id="refund">${words.refundSend}</button></form></details>`;
}
const ADDRESS_FIELD = ' type="text" required maxlength="120" autocomplete="off" autocapitalize="off" spellcheck="false" dir="ltr"';
const EMAIL_FIELD = ' type="email" maxlength="200" autocomplete="email" dir="ltr"';

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
  const restart =
    again &&
    html`<form method="post" action="/pay/again">${hidden(view, options)}
<button class="main${expired ? ' second' : ''}" id="again">${words.again}</button></form>`;
  const reload =
    state === 'unavailable' &&
    contact === null &&
    html`<p><a class="main" id="reload" href="${reloadUrl(view, options)}">${words.retry}</a></p>`;
  const returns = good || (state === 'processing' && view.request.shop?.autoReturn === true);
  const leave = back
    ? returnLink(view, back, { auto: returns && view.merchant.autoReturn, first: !first }, words)
    : state !== 'unavailable' && html`<p class="lead">${words.close}</p>`;
  return html`${restart}${waits && contact}${reload}${result && leave}${result && !good && !waits && !expired && contact}
${view.settlement.status !== 'completed' && crumbs(view, options)}
<div class="foot">${mayCancel && cancelForm(view, options)}${receipt}${(!result || good) && contact}
<div class="number"><span>${words.number}</span>${copy(view.facts.id, words.number, words)}
<span class="mono"><bdi translate="no">${view.facts.id}</bdi></span></div></div>`;
}
function cancelForm(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  return html`<details class="stop"><summary>${words.cancel}</summary>${tip(words.cancelText)}
<form method="post" action="/pay/cancel" data-frag>${hidden(view, options)}<button id="cancel">${words.cancel}</button></form></details>`;
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
  const [paragraph, button] = [place === 'beside' && new Html(' class="beside"'), place === 'first' && new Html(' class="main"')];
  const link = (href: string, shown: string | Html, more = '') =>
    html`<p${paragraph}><a${button} href="${href}"${new Html(more)}>${shown}</a></p>`;
  if (/^https:\/\//.test(contact)) return link(contact, text, ' rel="noopener" target="_blank"');
  const about = place === 'foot' ? '' : `?subject=${encodeURIComponent(subject)}`;
  if (contact.includes('@')) return link(`mailto:${contact}${about}`, text);
  return link(`tel:${contact.replace(/[^\d+]/g, '')}`, html`<span>${text}: <bdi dir="ltr">${contact}</bdi></span>`);
}

function returnLink(view: CustomerView, back: string, { auto, first }: { auto: boolean; first: boolean }, words: Language['words']): Html {
  const { host } = new URL(back);
  const url = returnUrl(view, back);
  const countdown = html`<span data-text="${say(words.returning, { host, seconds: '{seconds}' })}"></span>`;
  const stay = html`<button type="button" class="quiet" id="stay">${words.stay}</button>`;
  return html`<p><a class="main${first ? '' : ' second'}" id="return" target="_top" rel="noopener" href="${url}">${say(words.returnTo, { host })}</a></p>
${auto && html`<p class="lead js" id="auto" hidden>${countdown} ${stay}</p>`}`;
}

/**
 * The stored return URL with the payment's id and status; the docs tell merchants to trust only the webhook. That of a shop stays as it
 * is, because its plugin decides what it reads there.
 */
export function returnUrl(view: CustomerView, back: string): string {
  if (view.request.shop) return back;
  const url = new URL(back);
  url.searchParams.append('transaction_id', view.facts.id);
  url.searchParams.append('status', view.facts.status);
  return url.href;
}
