/** The payment page as a pure function of the server's view: every state is a full page, with one renderer and one place for amounts. */
import { paymentUri, walletRequest } from '#addresses';
import { COIN, type Coin, chainCode, chainOf, coinsOf, coinText, isToken, kindOf, LIGHTNING } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { formatUnits, lightningUnits } from '#core/money';
import { type Exception, hasWrongCoin, WRONG_COIN } from '#core/payment';
import type { CustomerView } from '#core/payment-view';
import type { Scenario } from '#core/simulated';
import { hostOfUrl } from '#core/text';
import { mayRepeat } from '#payments';
import { Html, html } from '../html.ts';
import { coinForm, isTooSmall, otherCoin, shortAmount } from './choice.ts';
import {
  after,
  amountOf,
  amountText,
  badgedIcon,
  copy,
  drawQr,
  fiatNote,
  hidden,
  itemPrice,
  listedTransfers,
  logo,
  type Mark,
  mark,
  more,
  note,
  type PageOptions,
  priceText,
  SIGNS,
  timeOf,
  tip,
  txLink,
  unavailableText,
  unlisted,
} from './parts.ts';
import { fill, type Language, say, type Words } from './words.ts';

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
  'wrong_network',
  'wrong_token',
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
      return wrongCoin(s.exceptions) ?? (s.exceptions.includes('late') ? 'late' : 'expired');
    case 'failed':
      return (wrongCoin(s.exceptions) ?? s.exceptions.includes('late'))
        ? 'late'
        : s.exceptions.includes('underpaid')
          ? 'expired_partial'
          : 'failed';
    case 'pending':
      // What arrived in a wrong coin comes first, so that nobody pays twice.
      if (hasWrongCoin(s.exceptions) && s.seenUnits === 0n) return wrongCoin(s.exceptions)!;
      // The page closes at the deadline. The status follows once no more transfers can have been sent in time.
      if (now >= s.expiresAt) return s.seenUnits > 0n ? 'expired_partial' : 'expired';
      if (quote === null) return coins.some((c) => c.unavailable === null) ? 'choose' : 'unavailable';
      if (s.quoteExpiresAt !== null && now >= s.quoteExpiresAt) return 'rate_over';
      return s.seenUnits > 0n ? 'underpaid' : 'awaiting';
  }
}

/** Whether everything that arrived was refunded. */
const isReturned = ({ refundedUnits, settlement }: CustomerView): boolean =>
  refundedUnits > 0n && refundedUnits >= settlement.receivedUnits;

/** Money that comes so long after the payment ended may be from somebody else: the merchant's own wallet may have shown the address again. */
const LONG_LATE_MS = 7 * DAY_MS;
const isLongLate = ({ transfers, settlement }: CustomerView): boolean =>
  transfers.length > 0 && transfers.every(({ firstSeenAt }) => firstSeenAt.getTime() - settlement.expiresAt.getTime() >= LONG_LATE_MS);

const wrongCoin = (exceptions: readonly Exception[]): (typeof WRONG_COIN)[number] | null =>
  WRONG_COIN.find((name) => exceptions.includes(name)) ?? null;

type PaymentPage = { state: PageState; title: string; main: Html; waits: boolean };
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
  wrong_network: { kind: 'result', mark: 'warn' },
  wrong_token: { kind: 'result', mark: 'warn' },
  cancelled: { kind: 'result', mark: 'over' },
  failed: { kind: 'result', mark: 'warn' },
};

/** Title and content of the page. */
export function renderPage(view: CustomerView, options: PageOptions): PaymentPage {
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
    late: isLongLate(view) ? words.expired : words.late,
    wrong_network: words.wrongNetwork,
    wrong_token: words.wrongToken,
    cancelled: words.cancelled,
    failed: words.failed,
  };
  const returned = isReturned(view);
  if (returned) heading.completed = heading.overpaid = words.refundSent;
  const look: Look = returned && LOOKS[state].kind === 'result' ? { kind: 'result', mark: 'over' } : LOOKS[state];
  const test = view.facts.mode === 'test';
  const wide = state === 'awaiting' || state === 'underpaid';
  const main = html`<main id="main" class="${wide ? 'wide' : look.kind}" data-state="${state}" data-status="${view.settlement.status}"
 data-version="${String(view.version)}" data-now="${String(view.now.getTime())}"
 data-say="${news(state, heading[state], view, words)}"${wide && view.merchant.kiosk && new Html(' data-awake')}>
${test && html`<p class="stripe">${words.testStripe} <a class="noprint" href="#sim">${words.simulate}</a></p>`}
${look.kind === 'open' ? openHeader(heading[state], view, options) : resultHeader(look.mark, heading[state], view, options)}
${notices(state, view, options)}
${body(state, view, options)}
${footer(state, view, options)}
${test && drawer(view, words, hidden(view, options))}</main>`;
  const good = (state === 'completed' || state === 'overpaid') && !returned;
  return {
    state,
    title: `${test ? `${words.test} ` : ''}${good ? '✓ ' : ''}${heading[state]} – ${priceText(view, options.language)}`,
    main,
    waits: look.kind === 'open' || state === 'processing' || state === 'reversed' || view.facts.status === 'pending',
  };
}

const openHeader = (heading: string, view: CustomerView, { language }: PageOptions): Html =>
  html`<header class="top"><div class="who">${logo(view)}<h1 id="h" tabindex="-1">${heading}</h1></div>
<p class="usd"><bdi translate="no">${priceText(view, language)}</bdi></p></header>${fiatNote(view, language)}`;
const resultHeader = (kind: Mark, heading: string, view: CustomerView, { language }: PageOptions): Html =>
  html`<header class="hero ${kind}">${mark(kind)}<h1 id="h" tabindex="-1">${heading}</h1>
<p class="usd"><bdi>${view.merchant.name}</bdi> · <bdi translate="no">${priceText(view, language)}</bdi></p></header>${fiatNote(view, language)}`;

function notices(state: PageState, view: CustomerView, { language: { words }, fault }: PageOptions): Html {
  const { exceptions, seenUnits } = view.settlement;
  const hasVanished = seenUnits === 0n;
  const renewal = state === 'awaiting' ? renewed(view, words) : null;
  const { coin } = view.settlement;
  const refunded =
    coin !== null &&
    view.refundedUnits > 0n &&
    note(fill(words.refundAmount, { amount: amountOf(coin, view.refundedUnits), merchant: view.merchant.name }));
  return html`${refunded}${fault?.field === null && html`<p class="note" role="alert">${SIGNS.info}<span>${fault.text}</span></p>`}
${exceptions.includes('replaced') && view.facts.status === 'pending' && note(words.replacedNote)}
${exceptions.includes('reorged') && state !== 'reversed' && note(hasVanished ? words.goneNote : words.reorgedNote)}${renewal !== null && note(renewal)}`;
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
      return html`${lead(words.rateOverText)}${view.settlement.seenUnits > 0n && arrived(view, options)}${rateForm(view, options)}`;
    case 'processing':
      return html`${lead(words.processingText)}${progress(view, options)}${transactions(view, options)}`;
    case 'completed':
      return html`${!isReturned(view) && lead(words.completedText)}${transactions(view, options)}`;
    case 'overpaid':
      if (isReturned(view)) return transactions(view, options);
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
      // The page does not call the money the customer's, and does not ask where to return it.
      if (isLongLate(view)) return html`${lead(words.longLateText)}${held(view, options)}`;
      return html`${lead(words.lateText)}${held(view, options)}${refund(view, options)}`;
    case 'wrong_network':
    case 'wrong_token':
      if (isLongLate(view)) return html`${lead(words.longLateText)}${held(view, options)}${transactions(view, options)}`;
      return html`${lead(words.wrongText)}${held(view, options)}${transactions(view, options)}${refund(view, options)}${payAnyway(view, options)}`;
    case 'cancelled':
      if (isLongLate(view)) return html`${lead(words.longLateText)}${held(view, options)}`;
      return view.settlement.exceptions.includes('paid_after_cancel')
        ? html`${lead(`${words.cancelledText}${after(words.cancelledText, words.paidAfterCancel)}`)}${held(view, options)}${refund(view, options)}`
        : html`${lead(words.cancelledText)}${view.settlement.seenUnits > 0n && html`${held(view, options)}${refund(view, options)}`}`;
    case 'failed':
      return lead(words.failedText);
  }
}

/** While the payment is open and its rate holds, it can still be paid in the coin that was asked for. */
function payAnyway(view: CustomerView, options: PageOptions): Html | null {
  const { quoteExpiresAt, expiresAt } = view.settlement;
  if (view.facts.status !== 'pending' || view.quote === null || view.now >= (quoteExpiresAt ?? expiresAt)) return null;
  return html`<details><summary>${options.language.words.payAsAsked}</summary>${payTo(view, options)}</details>`;
}

function itemList(view: CustomerView, { language }: PageOptions): Html | null {
  const { words, count } = language;
  if (!view.request.items) return view.request.description ? html`<p class="lead">${view.request.description}</p>` : null;
  const cents = (value: bigint) => html`<td class="num"><bdi translate="no">${itemPrice(view, value, language)}</bdi></td>`;
  const rows = view.request.items.map(
    ({ name, quantity, unitPriceMinor }) =>
      html`<tr><td>${count(Number(quantity))} × <bdi>${name}</bdi></td>${cents(quantity * unitPriceMinor)}</tr>`,
  );
  return html`<details><summary>${words.order}</summary><table><tbody>${rows}
<tr><td>${words.tax}</td>${cents(view.request.taxMinor ?? 0n)}</tr>
<tr class="sum"><td>${words.total}</td><td class="num"><bdi translate="no">${priceText(view, language)}</bdi></td></tr></tbody></table></details>`;
}

function rateForm(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const coin = view.settlement.coin!;
  const estimate = view.coins.find((c) => c.coin === coin)?.estimateUnits ?? null;
  const whole = view.settlement.seenUnits === 0n;
  const amount = estimate !== null && html`<bdi>${shortAmount(coin, estimate)} ${COIN[coin].asset}</bdi>`;
  return html`${whole && amount && html`<p>${fill(words.newAmount, { amount })}</p>`}
<form method="post" action="/pay/requote" data-frag>${hidden(view, options)}<button class="main" id="requote">${words.newRate}</button></form>
${deadline(view, options)}${whole && otherCoin(view, options)}`;
}
function arrived(view: CustomerView, { language: { words } }: PageOptions): Html {
  const { coin, receivedUnits, seenUnits, remainingUnits } = view.settlement;
  const sum = (name: string, units: bigint) => units > 0n && html`<div><dt>${name}</dt><dd>${amountOf(coin!, units)}</dd></div>`;
  return html`<dl class="sums">${sum(words.arrived, receivedUnits)}${sum(words.announced, seenUnits - receivedUnits)}
<div class="due"><dt>${words.stillDue}</dt><dd>${amountOf(coin!, remainingUnits)}</dd></div></dl>`;
}
/** Transfers too small to count: shown so that nobody waits for them. */
const crumbs = ({ settlement: { coin, dustUnits } }: CustomerView, { language: { words } }: PageOptions): Html | null =>
  coin === null || dustUnits === 0n
    ? null
    : html`<dl class="sums"><div><dt>${words.crumbs}</dt><dd>${amountOf(coin, dustUnits)}</dd></div></dl>`;
function held(view: CustomerView, { language: { words, count } }: PageOptions): Html {
  const sum = (value: Html) => html`<div><dt>${words.arrived}</dt><dd>${value}</dd></div>`;
  return html`<dl class="sums">${listedTransfers(view).map((t) => sum(html`<bdi translate="no">${formatUnits(t.coin, t.units)} ${coinText(t.coin)}</bdi>`))}
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
  const links = listedTransfers(view).map((t) => t.txid !== null && t.conflict === null && line(txLink(view, t.coin, t.txid, options)));
  return html`${links}${unlisted(view) > 0 && line(more(view, options.language))}`;
}
function refund(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  if (view.refundAddress)
    return html`<p class="tx"><span>${words.refundKept}</span> <bdi class="mono" translate="no">${view.refundAddress.address}</bdi></p>`;
  const paid: Coin = view.transfers[0]?.coin ?? view.settlement.coin!;
  // An invoice cannot be returned to: the merchant sends bitcoin to an address.
  const coin = kindOf(paid) === 'lightning' ? coinsOf(COIN[paid].asset)[0]! : paid;
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
export const ADDRESS_FIELD = ' type="text" required maxlength="120" autocomplete="off" autocapitalize="off" spellcheck="false" dir="ltr"';
export const EMAIL_FIELD = ' type="email" maxlength="200" autocomplete="email" dir="ltr"';

/** Money waits for the merchant's decision, or is gone, so the payer should contact the merchant first. */
const TALK_FIRST: ReadonlySet<PageState> = new Set([
  'unavailable',
  'reversed',
  'expired_partial',
  'late',
  'wrong_network',
  'wrong_token',
  'failed',
]);

function footer(state: PageState, view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const result = LOOKS[state].kind === 'result';
  const good = state === 'completed' || state === 'overpaid';
  const waits = TALK_FIRST.has(state) || (state === 'cancelled' && view.transfers.length > 0);
  const contact = contactLink(view, words, waits ? 'first' : result && !good ? 'beside' : 'foot');
  const { back, leaveTo } = placesToGo(state, view, { result });
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
<div class="foot">${leaveTo !== null && leaveLink(leaveTo, words)}${mayCancel && cancelForm(view, options)}${receipt}${(!result || good) && contact}
<div class="number"><span>${words.number}</span>${copy(view.facts.id, words.number, words)}
<span class="mono"><bdi translate="no">${view.facts.id}</bdi></span></div></div>`;
}
/** `back`: where the payer returns to once the payment has ended; `leaveTo`: where one who has not paid yet may go instead. */
function placesToGo(
  state: PageState,
  view: CustomerView,
  { result }: { result: boolean },
): { back: string | null; leaveTo: string | null } {
  const { returnUrl: stored, shop } = view.request;
  const back = openable(stored);
  const unpaid = view.transfers.length === 0;
  const elsewhere = unpaid ? openable(shop?.cancelUrl ?? null) : null;
  const isOver = state === 'expired' || state === 'cancelled' || state === 'failed';
  return { back: isOver ? (elsewhere ?? back) : back, leaveTo: !result && view.facts.status === 'pending' ? elsewhere : null };
}
/** Older versions stored addresses that nothing can open; they get no link. */
const openable = (url: string | null): string | null => (url === null || hostOfUrl(url) === null ? null : url);
const leaveLink = (url: string, words: Language['words']): Html =>
  html`<p><a id="leave" target="_top" rel="noopener" href="${url}">${say(words.returnTo, { host: new URL(url).host })}</a></p>`;
function cancelForm(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  return html`<details class="stop"><summary>${words.cancel}</summary>${tip(words.cancelText)}
<form method="post" action="/pay/cancel" data-frag>${hidden(view, options)}<button id="cancel">${words.cancel}</button></form></details>`;
}
const reloadUrl = (view: CustomerView, { chosen }: PageOptions): string => `/pay?id=${view.facts.id}${chosen ? `&lang=${chosen}` : ''}`;
/** In the footer, beside the main action, or as the main action itself; then it already includes the payment. */
const contactLink = ({ merchant, facts }: CustomerView, words: Language['words'], place: ContactPlace): Html | null =>
  linkToContact({ name: merchant.name, contact: merchant.contact, about: facts.id }, words, place);
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
 * The stored return URL with the payment's id and status; the docs tell merchants to trust only the webhook. Its other parameters stay
 * as they were written, because a shop may have signed them. That of a plugin stays as it is, because the plugin decides what it reads.
 */
export function returnUrl(view: CustomerView, back: string): string {
  if (view.request.shop) return back;
  const url = new URL(back);
  const ours = { transaction_id: view.facts.id, status: view.facts.status };
  const isOurs = (pair: string) => Object.keys(ours).some((name) => new URLSearchParams(pair).has(name));
  const others = url.search
    .slice(1)
    .split('&')
    .filter((pair) => pair !== '' && !isOurs(pair));
  url.search = [...others, ...Object.entries(ours).map(([name, value]) => `${name}=${value}`)].join('&');
  return url.href;
}

// The drawer beside the page of a test payment, in which the tester picks what the payer does next instead of sending real money.

const NAMES = {
  success: 'playFull',
  slow: 'playSlow',
  held: 'playSlow',
  failed: 'playFail',
  underpaid: 'playPart',
  overpaid: 'playOver',
  late: 'playLate',
  reorg: 'playReorg',
  replaced: 'playReplaced',
  expired: 'playNone',
  reversed: 'playReversed',
  wrong_network: 'playWrongNetwork',
  wrong_token: 'playWrongToken',
} as const satisfies Readonly<Record<Scenario, keyof Words>>;

/**
 * Never part of a live page. A plain form, so that it works without scripts; `hidden` ties it to the payment. On a phone it is below
 * the card, and a link at the top of the page leads to its content, which opens it.
 */
function drawer(view: CustomerView, words: Words, hidden: Html): Html {
  const content = view.quote
    ? picker(view, words, hidden)
    : html`<p>${view.facts.status === 'pending' ? words.simulateFirst : words.simulateDone}</p>`;
  return html`<details class="sim noprint" open><summary>${words.simulate}</summary><div id="sim">${content}</div></details>`;
}

function picker(view: CustomerView, words: Words, hidden: Html): Html {
  if (view.nextScenarios.length === 0) return html`<p>${words.simulateDone}</p>`;
  const given = view.scenario?.name;
  const options = view.nextScenarios.map(
    (name) => html`<option value="${name}"${name === given && new Html(' selected')}>${words[NAMES[name]]}</option>`,
  );
  return html`<p>${words.testText}</p><form method="post" action="/pay/simulate" data-frag>${hidden}
<label class="field"><span>${words.scenario}</span><select name="scenario" id="scenario">${options}</select></label>
<button class="main" id="simulate">${words.simulate}</button></form>`;
}

// What to send where: address, amount and URI are the same values in text, QR code, link and clipboard.

function payTo(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const coin = view.settlement.coin!;
  const amount = formatUnits(coin, view.settlement.remainingUnits);
  const address = view.quote!.address;
  const isInvoice = kindOf(coin) === 'lightning' && view.facts.mode === 'live';
  const due = html`<bdi dir="ltr" translate="no"><span class="big" id="amount">${amount}</span> ${COIN[coin].asset}</bdi>`;
  const asked = {
    coin,
    address,
    units: view.settlement.remainingUnits,
    network: options.networks[COIN[coin].chain],
    ethChainId: options.ethChainId,
    invoice: invoiceBeside(view),
  };
  const uri = paymentUri(asked);
  const ends = html`<bdi class="mono" dir="ltr" translate="no"><b>${address.slice(0, 6)} … ${address.slice(-6)}</b></bdi>`;
  const request = view.facts.mode === 'live' ? walletRequest(asked) : null;
  return html`${clock(view, options)}<div class="two"><div>
${kindOf(coin) === 'ethereum' && onlyHere(coin, words)}
<div class="row"><div><span class="dt">${words.sendExactly}</span><div>${due}</div></div>${copy(amount, words.sendExactly, words)}</div>
<div class="row"><div><span class="dt">${words.to}</span>
<div dir="ltr" translate="no"><span class="mono address" id="address">${view.facts.mode === 'test' || isInvoice ? address : grouped(address)}</span></div></div>
${copy(address, words.to, words)}<p class="ends">${fill(words.compare, { ends })}</p></div>
${request && walletButtons(request, words)}
<a class="main${isToken(coin) ? ' second' : ''}" id="wallet" href="${uri}">${SIGNS.wallet}${words.openWallet}</a>
<p class="tip js" id="nowallet" role="status" hidden>${SIGNS.info}<span>${words.noWallet}</span></p>
${kindOf(coin) === 'ethereum' ? elsewhere(view, options) : note(say(words.network, { coin: COIN[coin].asset, network: chainOf(coin).name }))}
${tip(words.exchangeFee)}</div>
${isInvoice ? invoiceQr(address, words) : qrCodes({ ...asked, uri }, words)}</div>
<p class="wait" role="status">${words.waiting}</p>${view.settlement.seenUnits === 0n && otherCoin(view, options)}`;
}

/** The invoice that can be paid instead of the address that is shown, for the same amount and until the same time; null: there is none. */
function invoiceBeside({ facts, settlement: { coin, remainingUnits, seenUnits }, now }: CustomerView): string | null {
  if (coin === null || kindOf(coin) === 'lightning' || facts.mode === 'test' || seenUnits > 0n) return null;
  const { asset } = COIN[coin];
  const found = facts.quotes.findLast((quote) => kindOf(quote.coin) === 'lightning' && COIN[quote.coin].asset === asset);
  return found && found.until > now && found.units === lightningUnits(coin, remainingUnits) ? found.address : null;
}

/** One code: an invoice has its amount. BOLT 11: in capitals it has fewer modules, and wallets read it in either case. */
const invoiceQr = (invoice: string, words: Language['words']): Html =>
  html`<div class="qr"><div class="box">${drawQr(`lightning:${invoice.toUpperCase()}`, words.qrLabel, 'L')}</div>
<button type="button" class="quiet js" id="share" hidden>${words.share}</button></div>`;

/** The only network on which this payment is expected. Its addresses are the same on all others. */
function onlyHere(coin: Coin, words: Language['words']): Html {
  const { asset } = COIN[coin];
  const text = fill(words.onlyOn, { coin: asset, network: html`<b>${chainOf(coin).name}</b>` });
  // On the network that the family is named after, people confuse it with the networks built on it.
  const isFirst = chainCode(coin) === COIN[coin].family;
  return html`<p class="note only">${badgedIcon(coin)}<span>${text}${isFirst && after('', words.layer2)}</span></p>`;
}

/** Where money on another network is found. */
function elsewhere({ watched, settlement }: CustomerView, { language }: PageOptions): Html | null {
  const others = watched.filter((chain) => chain !== COIN[settlement.coin!].chain);
  if (others.length === 0) return null;
  return tip(say(language.words.elsewhere, { networks: language.names(others) }));
}

/** Filled by the script with a button for each wallet that the browser announces (EIP-6963); hidden without one. */
const walletButtons = (request: NonNullable<ReturnType<typeof walletRequest>>, words: Language['words']): Html =>
  html`<div id="wallets" hidden data-request="${JSON.stringify(request)}" data-label="${words.payWith}" data-sent="${words.walletSent}"
 data-network="${words.walletNetwork}" data-failed="${words.walletFailed}"></div>
<p class="tip js" id="walletsaid" role="status" hidden>${SIGNS.info}<span></span></p>`;

/**
 * The request with its amount, or only the address. Wallets that ignore the call of a token would pay its contract, so there the
 * address comes first.
 */
function qrCodes(asked: Parameters<typeof paymentUri>[0] & { uri: string }, words: Language['words']): Html {
  const { uri, address, coin, invoice = null } = asked;
  const choice = (id: string, label: string, isFirst: boolean) =>
    html`<label><input type="radio" name="qr" id="${id}"${isFirst && new Html(' checked')}>${label}</label>`;
  const lightning = invoice !== null && choice('qr-l', chainOf(LIGHTNING).name, false);
  const [request, bare] = [choice('qr-r', words.qrRequest, !isToken(coin)), choice('qr-a', words.qrAddress, isToken(coin))];
  return html`<fieldset class="qr"><legend class="sr">${words.qrLabel}</legend>
<div class="seg">${isToken(coin) ? html`${bare}${request}` : html`${request}${bare}${lightning}`}</div>
<div class="box" id="qr-request">${invoice === null ? drawQr(uri, words.qrLabel) : unifiedQr(asked, words)}</div>
${invoice !== null && invoiceTab(invoice, words)}<div class="box" id="qr-address">${drawQr(address, words.qrAddress)}</div>
${
  isToken(coin)
    ? html`<p class="on">${badgedIcon(coin)}<b>${coinText(coin)}</b></p>`
    : html`<p class="hint">${say(words.qrHint, { choice: words.qrAddress })}</p>`
}
<button type="button" class="quiet js" id="share" hidden>${words.share}</button></fieldset>`;
}

/** Wallets do not read larger codes well. */
const LONGEST_QR = 900;
/** One code for wallets of both kinds. BIP-321: values in capitals, and keys as all wallets read them. */
function unifiedQr(asked: Parameters<typeof paymentUri>[0], words: Language['words']): Html {
  const { address, invoice = null } = asked;
  const isBech32 = /^(bc|tb|bcrt)1/.test(address);
  const text = paymentUri({ ...asked, address: isBech32 ? address.toUpperCase() : address, invoice: invoice?.toUpperCase() ?? null });
  return text.length > LONGEST_QR ? drawQr(paymentUri({ ...asked, invoice: null }), words.qrLabel) : drawQr(text, words.qrLabel, 'L');
}
/** Only the invoice, for wallets that know nothing else. */
const invoiceTab = (invoice: string, words: Language['words']): Html =>
  html`<div id="qr-invoice"><div class="box">${drawQr(`lightning:${invoice.toUpperCase()}`, words.qrLabel, 'L')}</div>
<p class="hint"><a href="lightning:${invoice}">${words.openWallet}</a> ${copy(invoice, chainOf(LIGHTNING).name, words)}</p></div>`;

/** Grouped only visually: the copied text contains no spaces. */
const grouped = (address: string): Html => html`${(address.match(/.{1,4}/g) ?? []).map((part) => html`<span>${part}</span>`)}`;

const deadline = (view: CustomerView, options: PageOptions): Html =>
  tip(fill(options.language.words.payUntil, { time: timeOf(view.settlement.expiresAt, view, options) }), SIGNS.clock);

/** Two clocks: the rate lock counts down; the end of the window is shown beside it when it is later. */
function clock(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const { quoteExpiresAt, expiresAt } = view.settlement;
  const until = quoteExpiresAt ?? expiresAt;
  const left = html`<b id="clock" role="timer" aria-live="off" translate="no" data-until="${String(until.getTime())}">${minutesLeft(until, view.now)}</b>`;
  const end = until < expiresAt && html` <span>${fill(words.payUntil, { time: timeOf(expiresAt, view, options) })}</span>`;
  return html`<p class="clock">${SIGNS.clock}<span><span>${words.rateHolds} ${left}</span>
<small><span>${fill(words.until, { time: timeOf(until, view, options) })}</span>${end}</small></span></p>`;
}
const minutesLeft = (until: Date, now: Date): string => {
  const seconds = Math.max(0, Math.ceil((until.getTime() - now.getTime()) / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
};
