/** What to send where: address, amount and URI are the same values in text, QR code, link and clipboard. */
import { paymentUri, walletRequest } from '../../chains/address.ts';
import { COIN, type Coin, chainCode, chainOf, coinText, isToken, kindOf } from '../../core/coin.ts';
import { formatUnits } from '../../core/money.ts';
import type { CustomerView } from '../../payments/view.ts';
import { Html, html } from '../html.ts';
import { otherCoin } from './choice.ts';
import { badgedIcon, SIGNS } from './icons.ts';
import { after, copy, note, type PageOptions, timeOf, tip } from './parts.ts';
import { drawQr } from './qr.ts';
import { fill, type Language, say } from './words.ts';

export function payTo(view: CustomerView, options: PageOptions): Html {
  const { words } = options.language;
  const coin = view.settlement.coin!;
  const amount = formatUnits(coin, view.settlement.remainingUnits);
  const address = view.quote!.address;
  const due = html`<bdi dir="ltr" translate="no"><span class="big" id="amount">${amount}</span> ${COIN[coin].asset}</bdi>`;
  const asked = {
    coin,
    address,
    units: view.settlement.remainingUnits,
    network: options.networks[COIN[coin].chain],
    ethChainId: options.ethChainId,
  };
  const uri = paymentUri(asked);
  const ends = html`<bdi class="mono" dir="ltr" translate="no"><b>${address.slice(0, 6)} … ${address.slice(-6)}</b></bdi>`;
  const request = view.facts.mode === 'live' ? walletRequest(asked) : null;
  return html`${clock(view, options)}<div class="two"><div>
${kindOf(coin) === 'ethereum' && onlyHere(coin, words)}
<div class="row"><div><span class="dt">${words.sendExactly}</span><div>${due}</div></div>${copy(amount, words.sendExactly, words)}</div>
<div class="row"><div><span class="dt">${words.to}</span>
<div dir="ltr" translate="no"><span class="mono address" id="address">${view.facts.mode === 'test' ? address : grouped(address)}</span></div></div>
${copy(address, words.to, words)}<p class="ends">${fill(words.compare, { ends })}</p></div>
${request && walletButtons(request, words)}
<a class="main${isToken(coin) ? ' second' : ''}" id="wallet" href="${uri}">${SIGNS.wallet}${words.openWallet}</a>
<p class="tip js" id="nowallet" role="status" hidden>${SIGNS.info}<span>${words.noWallet}</span></p>
${kindOf(coin) === 'ethereum' ? elsewhere(view, options) : note(say(words.network, { coin: COIN[coin].asset, network: chainOf(coin).name }))}
${tip(words.exchangeFee)}</div>
${qrCodes({ uri, address, coin }, words)}</div>
<p class="wait" role="status">${words.waiting}</p>${view.settlement.seenUnits === 0n && otherCoin(view, options)}`;
}

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
function qrCodes({ uri, address, coin }: { uri: string; address: string; coin: Coin }, words: Language['words']): Html {
  const choice = (id: string, label: string, isFirst: boolean) =>
    html`<label><input type="radio" name="qr" id="${id}"${isFirst && new Html(' checked')}>${label}</label>`;
  const [request, bare] = [choice('qr-r', words.qrRequest, !isToken(coin)), choice('qr-a', words.qrAddress, isToken(coin))];
  return html`<fieldset class="qr"><legend class="sr">${words.qrLabel}</legend>
<div class="box" id="qr-request">${drawQr(uri, words.qrLabel)}</div><div class="box" id="qr-address">${drawQr(address, words.qrAddress)}</div>
${isToken(coin) && html`<p class="on">${badgedIcon(coin)}<b>${coinText(coin)}</b></p>`}
<div class="seg">${isToken(coin) ? html`${bare}${request}` : html`${request}${bare}`}</div>
<button type="button" class="quiet js" id="share" hidden>${words.share}</button></fieldset>`;
}

/** Grouped only visually: the copied text contains no spaces. */
const grouped = (address: string): Html => html`${(address.match(/.{1,4}/g) ?? []).map((part) => html`<span>${part}</span>`)}`;

export const deadline = (view: CustomerView, options: PageOptions): Html =>
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
