/** The payment page as a pure function of the server's view: every state a full page, one renderer, one place for amounts. */

import { paymentUri } from '../../core/address.ts';
import { COIN, type Coin } from '../../core/coin.ts';
import { formatDecimal, formatUnits, formatUsd } from '../../core/money.ts';
import { SCENARIOS } from '../../payments/payments.ts';
import type { CustomerView } from '../../payments/view.ts';
import { Html, html } from '../html.ts';
import { drawQr } from './qr.ts';
import { say, type Words } from './words/en.ts';

export const PAGE_STATES = [
  'choose',
  'awaiting',
  'rate_over',
  'underpaid',
  'processing',
  'completed',
  'overpaid',
  'expired',
  'expired_partial',
  'late',
  'cancelled',
  'failed',
] as const;
export type PageState = (typeof PAGE_STATES)[number];

/** Which page a payment shows; states may follow in any order. */
export function pageState({ facts, settlement: s, quote, now }: CustomerView): PageState {
  switch (facts.status) {
    case 'completed':
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
      // The page closes at the end; the status follows once nothing more can have been sent in time.
      if (now >= s.expiresAt) return s.receivedUnits > 0n ? 'expired_partial' : 'expired';
      if (quote === null) return 'choose';
      if (s.quoteExpiresAt !== null && now >= s.quoteExpiresAt) return 'rate_over';
      return s.receivedUnits > 0n ? 'underpaid' : 'awaiting';
  }
}

export type PageOptions = {
  words: Words;
  ethChainId: number;
  /** Binds forms to the payment. */
  formToken: string;
  /** What a refused form says. */
  notice?: string | null;
  qr?: 'request' | 'address';
};
export type Page = { state: PageState; title: string; main: Html; waits: boolean };

/** Title and content of the page. */
export function renderPage(view: CustomerView, options: PageOptions): Page {
  const { words } = options;
  const state = pageState(view);
  const heading: Record<PageState, string> = {
    choose: say(words.pay, { merchant: view.merchant.name }),
    awaiting: say(words.pay, { merchant: view.merchant.name }),
    rate_over: words.rateOver,
    underpaid: words.partial,
    processing: words.processing,
    completed: words.completed,
    overpaid: words.completed,
    expired: words.expired,
    expired_partial: words.expiredPartial,
    late: words.late,
    cancelled: words.cancelled,
    failed: words.failed,
  };
  const tone =
    state === 'completed' || state === 'overpaid'
      ? 'good'
      : state === 'processing'
        ? 'busy'
        : ['expired', 'expired_partial', 'late', 'cancelled', 'failed'].includes(state)
          ? 'over'
          : 'open';
  const waits =
    !['completed', 'overpaid', 'expired', 'expired_partial', 'late', 'cancelled', 'failed'].includes(state) ||
    view.facts.status === 'pending';
  const main = html`<main id="main" data-state="${state}" data-version="${String(view.version)}" data-say="${heading[state]}">
${view.facts.mode === 'test' && html`<p class="stripe">${words.testStripe}</p>`}
<header class="${tone}"><h1 id="h" tabindex="-1">${mark(tone)}${heading[state]}</h1><p class="usd">${priceOf(view)}</p>${fiatNote(view, words)}</header>
${options.notice && html`<p class="notice" role="alert">${options.notice}</p>`}
${view.settlement.exceptions.includes('replaced') && view.facts.status === 'pending' && html`<p class="notice">${words.replacedNote}</p>`}
${view.settlement.exceptions.includes('reorged') && html`<p class="notice">${words.reorgedNote}</p>`}
${body(state, view, options)}
${footer(state, view, options)}
</main>`;
  const prefix = view.facts.mode === 'test' ? `${words.test} ` : '';
  return {
    state,
    title: `${prefix}${tone === 'good' ? '✓ ' : ''}${heading[state]} – ${priceOf(view)}`,
    main,
    waits,
  };
}

/** The price in the currency it was asked in. */
const priceOf = ({ request: { fiat }, facts }: CustomerView): string =>
  fiat ? `${fiat.amount} ${fiat.currency}` : `$${formatUsd(facts.targetUsdCents)}`;
const fiatNote = ({ request: { fiat }, facts }: CustomerView, words: Words): Html | null =>
  fiat &&
  html`<p class="hint">${say(words.fiat, {
    usd: formatUsd(facts.targetUsdCents),
    rate: formatDecimal(fiat.rateE8, 8, 2),
    currency: fiat.currency,
    source: fiat.source === 'sample' ? words.sample : fiat.source,
    time: fiat.at.slice(0, 16).replace('T', ' '),
  })}</p>`;

const mark = (tone: string): Html | null =>
  tone === 'good'
    ? html`<span class="mark" aria-hidden="true">✓</span>`
    : tone === 'busy'
      ? html`<span class="mark" aria-hidden="true">…</span>`
      : null;

function body(state: PageState, view: CustomerView, options: PageOptions): Html {
  const { words } = options;
  switch (state) {
    case 'choose':
      return html`${itemList(view, words)}${coinForm(view, options)}`;
    case 'awaiting':
    case 'underpaid':
      return html`${state === 'underpaid' && arrived(view, words)}${payTo(view, options)}`;
    case 'rate_over':
      return html`${view.settlement.receivedUnits > 0n && arrived(view, words)}<p>${words.rateOverText}</p><form method="post" action="/pay/requote" data-frag>${hidden(view, options)}<button class="main" id="requote">${words.newRate}</button></form>`;
    case 'processing':
      return html`<p>${words.processingText}</p>${progress(view, words)}${transaction(view, words)}`;
    case 'completed':
      return html`<p>${words.completedText}</p>${transaction(view, words)}`;
    case 'overpaid':
      return html`<p>${say(words.overpaidText, { amount: formatUnits(view.settlement.coin!, view.settlement.overpaidUnits), coin: view.settlement.coin! })}</p>${transaction(view, words)}${refund(view, options)}`;
    case 'expired':
      return html`<p>${words.expiredText}</p>`;
    case 'expired_partial':
      return html`<p>${words.expiredPartialText}</p>${arrived(view, words)}${refund(view, options)}`;
    case 'late':
      return html`<p>${words.lateText}</p>${held(view, words)}${refund(view, options)}`;
    case 'cancelled':
      return html`<p>${words.cancelledText}</p>${view.settlement.exceptions.includes('paid_after_cancel') && html`<p>${words.paidAfterCancel}</p>${held(view, words)}${refund(view, options)}`}`;
    case 'failed':
      return html`<p>${words.failedText}</p>`;
  }
}

const hidden = (view: CustomerView, { formToken }: PageOptions): Html =>
  html`<input type="hidden" name="id" value="${view.facts.id}"><input type="hidden" name="token" value="${formToken}">`;

function itemList(view: CustomerView, words: Words): Html | null {
  if (!view.request.items) return view.request.description ? html`<p class="about">${view.request.description}</p>` : null;
  return html`<details><summary>${words.items} (${view.request.items.length})</summary><table><tbody>${view.request.items.map((item) => html`<tr><td>${String(item.quantity)} × ${item.name}</td><td class="num">$${formatUsd(item.quantity * item.unitPriceCents)}</td></tr>`)}
<tr><td>${words.tax}</td><td class="num">$${formatUsd(view.request.taxCents ?? 0n)}</td></tr></tbody></table></details>`;
}

function coinForm(view: CustomerView, options: PageOptions): Html {
  const { words } = options;
  const first = view.scenario?.coin ?? view.coins.find((c) => c.unavailable === null)?.coin;
  return html`<form method="post" action="/pay/select" data-frag>${hidden(view, options)}
<fieldset class="coins"><legend>${words.chooseCoin}</legend>${view.coins.map((c) => html`<label class="${c.unavailable ? 'off' : ''}"><input type="radio" name="currency" value="${c.coin}" required${c.unavailable ? new Html(' disabled') : ''}${c.coin === first ? new Html(' checked') : ''}><span class="coin">${COIN[c.coin].name}</span><span class="est">${c.unavailable ? say(words.unavailable, { reason: c.unavailable }) : c.estimateUnits !== null && say(words.about, { amount: formatUnits(c.coin, c.estimateUnits), coin: c.coin })}${c.sample && html` <em>${words.sample}</em>`}</span></label>`)}</fieldset>
${view.facts.mode === 'test' && scenarioField(view, words)}
<button class="main" id="continue">${words.continue}</button></form>`;
}

const scenarioField = (view: CustomerView, words: Words): Html =>
  html`<label class="field"><span>${words.scenario}</span><select name="scenario">${SCENARIOS.map((name) => html`<option${name === (view.scenario?.name ?? 'success') ? new Html(' selected') : ''}>${name}</option>`)}</select></label>`;

/** What to send where: address, amount and URI are the same values in text, QR, link and clipboard. */
function payTo(view: CustomerView, options: PageOptions): Html {
  const { words } = options;
  const coin = view.settlement.coin!;
  const amount = formatUnits(coin, view.settlement.remainingUnits);
  const address = view.quote!.address;
  if (view.facts.mode === 'test') {
    return html`<dl class="pay"><div><dt>${words.sendExactly}</dt><dd><bdi class="big" id="amount">${amount}</bdi> ${coin}</dd></div><div><dt>${words.to}</dt><dd><s><bdi>${address}</bdi></s></dd></div></dl>
<p>${words.testText}</p>${view.scenarioStarted ? html`<p class="wait" role="status">${words.waiting}</p>` : html`<form method="post" action="/pay/simulate" data-frag class="panel">${hidden(view, options)}${scenarioField(view, words)}<button class="main" id="simulate">${words.simulate}</button></form>`}`;
  }
  const uri = paymentUri({ coin, address, units: view.settlement.remainingUnits, ethChainId: options.ethChainId });
  return html`<div class="two"><div class="qr"><div id="qr-request">${drawQr(uri, words.qrLabel)}</div><details><summary>${words.qrAddress}</summary>${drawQr(address, words.qrAddress)}</details></div>
<div><dl class="pay"><div><dt>${words.sendExactly}</dt><dd><bdi class="big" id="amount">${amount}</bdi> ${coin} <button type="button" class="copy js" data-copy="${amount}">${words.copyAmount}</button></dd></div>
<div><dt>${words.to}</dt><dd><bdi class="address" id="address">${grouped(address)}</bdi> <button type="button" class="copy js" data-copy="${address}">${words.copyAddress}</button></dd></div></dl>
<a class="main wallet" id="wallet" href="${uri}">${words.openWallet}</a><p class="hint js" id="nowallet" hidden>${words.noWallet}</p>
<p class="warn">${say(words.onlyNetwork, { coin, network: COIN[coin].networkName })}${coin === 'ETH' && ` ${words.ethGas}`}</p><p class="hint">${words.feeHint}</p></div></div>
${clock(view, words)}<p class="wait" role="status">${words.waiting}</p>
${view.settlement.receivedUnits === 0n && view.coins.length > 1 && html`<details><summary>${words.changeCoin}</summary>${coinForm(view, options)}</details>`}`;
}

/** Grouped by style alone: what is copied has no blanks. */
const grouped = (address: string): Html => html`${(address.match(/.{1,4}/g) ?? []).map((part) => html`<span>${part}</span>`)}`;

function clock(view: CustomerView, words: Words): Html {
  const until = view.settlement.quoteExpiresAt ?? view.settlement.expiresAt;
  return html`<p class="clock">${words.timeLeft}: <span class="js" id="clock" role="timer" aria-live="off" data-ms="${String(Math.max(0, until.getTime() - view.now.getTime()))}"></span> <time datetime="${until.toISOString()}">${say(words.until, { time: until.toISOString().slice(11, 16) })}</time></p>`;
}

function arrived(view: CustomerView, words: Words): Html {
  const coin = view.settlement.coin!;
  return html`<dl class="sums"><div><dt>${words.arrived}</dt><dd>${formatUnits(coin, view.settlement.receivedUnits)} ${coin}</dd></div><div><dt>${words.stillDue}</dt><dd>${formatUnits(coin, view.settlement.remainingUnits)} ${coin}</dd></div></dl>${view.facts.status === 'pending' && html`<p>${words.partialText}</p>`}`;
}
const held = (view: CustomerView, words: Words): Html =>
  html`<dl class="sums">${view.transfers.map((t) => html`<div><dt>${words.arrived}</dt><dd>${formatUnits(t.coin, t.units)} ${t.coin}</dd></div>`)}</dl>`;

function progress({ settlement: s }: CustomerView, words: Words): Html {
  if (s.confirmationsRequired === null) return html`<p role="status">${words.lockWait}</p>`;
  const count = Math.min(s.confirmations, s.confirmationsRequired);
  return html`<p role="status"><progress max="${s.confirmationsRequired}" value="${count}" aria-label="${words.processing}"></progress> ${say(words.confirmations, { count, needed: s.confirmationsRequired })}</p>`;
}
const transaction = ({ settlement: s }: CustomerView, words: Words): Html | null =>
  s.transactionHash === null ? null : html`<p class="tx"><span>${words.transaction}</span> <bdi>${s.transactionHash}</bdi></p>`;

function refund(view: CustomerView, options: PageOptions): Html {
  const { words } = options;
  if (view.refundAddress) return html`<p>${words.refundKept} <bdi>${view.refundAddress.address}</bdi></p>`;
  const coin: Coin = view.transfers[0]?.coin ?? view.settlement.coin!;
  return html`<form method="post" action="/pay/refund-address" data-frag class="panel">${hidden(view, options)}<input type="hidden" name="currency" value="${coin}">
<label class="field"><span>${say(words.refundLead, { coin })}</span><input name="address" required maxlength="120" autocomplete="off" spellcheck="false" dir="ltr"></label>
<label class="field"><span>${words.refundEmail}</span><input name="email" type="email" maxlength="200" autocomplete="email"></label><button id="refund">${words.refundSend}</button></form>`;
}

function footer(state: PageState, view: CustomerView, { words }: PageOptions): Html {
  const leaves = !['choose', 'awaiting', 'rate_over', 'underpaid'].includes(state);
  const contact = view.merchant.supportContact;
  const href = contact === null ? null : /^https:\/\//.test(contact) ? contact : contact.includes('@') ? `mailto:${contact}` : null;
  return html`<footer>${leaves && (view.request.returnUrl ? html`<p><a class="${state === 'completed' || state === 'processing' ? 'main' : ''}" rel="noopener" href="${returnUrl(view)}">${say(words.returnTo, { host: new URL(view.request.returnUrl).host })}</a></p>` : html`<p>${words.close}</p>`)}
${leaves && href && html`<p><a rel="noopener" href="${href}">${say(words.contact, { merchant: view.merchant.name })}</a></p>`}
${(state === 'completed' || state === 'overpaid') && html`<p><a href="/pay/receipt?id=${view.facts.id}">${words.receipt}</a></p>`}
<p class="number">${words.number} <bdi>${view.facts.id}</bdi> <button type="button" class="copy js" data-copy="${view.facts.id}" >${words.copyNumber}</button></p></footer>`;
}

/** The stored return URL with the payment's id and status; merchants are told to trust the webhook only. */
export function returnUrl(view: CustomerView): string {
  const url = new URL(view.request.returnUrl!);
  url.searchParams.append('transaction_id', view.facts.id);
  url.searchParams.append('status', view.facts.status);
  return url.href;
}

/** A receipt to print: what was bought, what was paid and when. */
export function renderReceipt(view: CustomerView, words: Words): { title: string; main: Html } {
  const s = view.settlement;
  const row = (name: string, value: string | null) => value && html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`;
  return {
    title: `${words.receipt} – ${view.merchant.name}`,
    main: html`<main id="main">${view.facts.mode === 'test' && html`<p class="stripe">${words.testStripe}</p>`}<header class="good"><h1>${words.receipt}</h1></header><table><tbody>
${row(words.merchant, view.merchant.name)}${view.request.items?.map((item) => row(`${item.quantity} × ${item.name}`, `$${formatUsd(item.quantity * item.unitPriceCents)}`)) ?? []}
${view.request.taxCents !== null && row(words.tax, `$${formatUsd(view.request.taxCents)}`)}${row(words.total, view.request.fiat ? `${priceOf(view)} ($${formatUsd(view.facts.targetUsdCents)})` : priceOf(view))}
${s.coin && row(words.arrived, `${formatUnits(s.coin, s.receivedUnits)} ${s.coin}`)}${row(words.transaction, s.transactionHash)}
${row(words.completed, s.completedAt?.toISOString().replace('T', ' ').slice(0, 16) ?? null)}${row(words.number, view.facts.id)}</tbody></table></main>`,
  };
}
