/** `/claim/<token>`: the customer enters the address of a refund, checks it once, and afterwards sees what became of the refund. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { COIN, chainOf, coinText, LIGHTNING, onChainCoin } from '#core/coin';
import type { Locale } from '#core/locales';
import { formatUnits, shownUnit } from '#core/money';
import { Problem } from '#core/problem';
import { isPaidOut, type RefundState } from '#core/refund';
import { contactOf, getMerchant, type Merchant } from '#merchants';
import { claimRefund, type Refund, refundOfClaim } from '#outgoing';
import { Html, html } from '../html.ts';
import type { RequestCounter } from './counting.ts';
import { ADDRESS_FIELD, linkToContact } from './page.ts';
import { mark } from './parts.ts';
import { chosenBy, languageOfRequest, sendPdf } from './responses.ts';
import { sendDocument } from './shell.ts';
import { type Language, say, type Words } from './words.ts';

type Claim = { refund: Refund; merchant: Merchant; path: string };
/** What the customer typed: to be checked by them, or refused. */
type EnteredAddress = { address: string; fault: string | null };
type Key = keyof Words;
/** As much of an invoice as is read. */
const LONGEST_TEXT = 2_000;

export function registerRefundClaims(pages: FastifyInstance, ctx: Context, { counting }: { counting: RequestCounter }): void {
  const secure = ctx.settings.paymentPageUrl.startsWith('https:');

  const open = async (request: FastifyRequest): Promise<Claim> => {
    const { token } = request.params as { token: string };
    const refund = await refundOfClaim(ctx, { token });
    return { refund, merchant: await getMerchant(ctx, { merchantId: refund.merchantId }), path: `/claim/${token}` };
  };
  const languageIn = (request: FastifyRequest, { merchant }: Claim): Language => languageOfRequest(request, null, merchant.settings.locale);
  const show = (request: FastifyRequest, reply: FastifyReply, claim: Claim, given: EnteredAddress | null = null, status = 200) => {
    const { theme, accent } = claim.merchant.settings;
    const own = languageIn(request, claim);
    const { title, main } = renderRefund(claim, { language: own, chosen: chosenBy(request), given, now: ctx.clock.now() });
    return sendDocument(request, reply, { status, title, main, language: own, theme, accent, path: claim.path }, { secure });
  };

  pages.get('/claim/:token', { exposeHeadRoute: false }, async (request, reply) => {
    await counting.look(request);
    return show(request, reply, await open(request));
  });
  pages.get('/claim/:token/note.pdf', { exposeHeadRoute: false }, async (request, reply) => {
    await counting.look(request);
    const { refund, merchant, path } = await open(request);
    if (!isPaidOut(refund.state)) return reply.code(303).headers({ location: path, 'cache-control': 'no-store' }).send();
    const { refundNotePdf } = await import('./receipt-pdf.ts');
    const { paper } = request.query as { paper?: unknown };
    return sendPdf(reply, { name: `refund-${refund.id}.pdf`, bytes: await refundNotePdf(refund, { merchant, paper }) });
  });
  pages.post('/claim/:token', async (request, reply) => {
    await counting.start(request);
    const claim = await open(request);
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
    const address = (form.get('address') ?? '').trim().slice(0, LONGEST_TEXT);
    try {
      const isTaken = await claimRefund(ctx, { refund: claim.refund, address, isChecked: form.get('checked') === 'yes' });
      if (!isTaken) return show(request, reply, claim, { address, fault: null });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.code === 'refund_state') return show(request, reply, await open(request), null, 409);
      const fault = faultOf(error, claim, languageIn(request, claim));
      if (fault === null) throw error;
      return show(request, reply, claim, { address, fault }, 400);
    }
    return reply
      .code(303)
      .headers({ location: claim.path + inLanguage(chosenBy(request)), 'cache-control': 'no-store' })
      .send();
  });
}

/** What is wrong with what the customer entered. Null: nothing is. */
function faultOf({ code }: Problem, { refund }: Claim, { words }: Language): string | null {
  const { coin } = refund;
  const faults: Readonly<Partial<Record<Problem['code'], string>>> = {
    address_invalid: coin === LIGHTNING ? words.invoiceInvalid : say(words.addressInvalid, { coin: coinText(coin) }),
    invoice_invalid: words.invoiceInvalid,
    invoice_amount_wrong: say(words.invoiceAmount, { sat: satOf(refund) }),
    invoice_expires_soon: words.invoiceShort,
    invoice_used: words.invoiceUsed,
    ...(coin === LIGHTNING && { amount_too_small: words.invoiceOnly }),
  };
  return faults[code] ?? null;
}

const isOpen = ({ state, address, claimUntil }: Refund, now: Date): boolean =>
  state === 'requested' && address === null && claimUntil !== null && now < claimUntil;

/** The page: the form, the check of the address, or the state of the refund. */
function renderRefund(
  claim: Claim,
  {
    language: { words },
    chosen = null,
    given,
    now,
  }: { language: Language; chosen?: Locale | null; given: EnteredAddress | null; now: Date },
): { title: string; main: Html } {
  const { refund, merchant } = claim;
  const heading = say(words.refundFrom, { merchant: merchant.name });
  const title = `${refund.mode === 'test' ? `${words.test} ` : ''}${heading}`;
  const stripe = refund.mode === 'test' && html`<p class="stripe">${words.testStripe}</p>`;
  if (!isOpen(refund, now)) return { title, main: renderState(claim, { words, now, stripe }) };
  const checks = given !== null && given.fault === null;
  const logo = merchant.logo
    ? html`<img class="logo" src="/pay/logo/${merchant.logo}" alt="" width="40" height="40">`
    : html`<span class="logo letter" aria-hidden="true">${[...merchant.name][0]?.toUpperCase() ?? ''}</span>`;
  return {
    title,
    main: html`<main id="main" data-state="${checks ? 'check' : 'claim'}">${stripe}
<header class="top"><div class="who">${logo}<h1 id="h" tabindex="-1">${heading}</h1></div></header>
<p class="usd"><bdi>${amountOf(refund)}</bdi></p><p class="lead">${refund.reason && html`<bdi>${refund.reason}</bdi>`}</p>
${checks ? checkForm(claim, given.address, { words, chosen }) : addressForm(claim, given, { words, chosen })}</main>`,
  };
}

const amountOf = ({ coin, units }: Refund): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;
const satOf = ({ units }: Refund): string => (units / shownUnit(LIGHTNING)).toString();
/** An invoice goes over Lightning, and an address on-chain. */
function networkOf({ coin, address, invoiceExpiresAt }: Refund, words: Words): Html {
  const onChain = chainOf(onChainCoin(coin)).networkName;
  const isEither = coin === LIGHTNING && address === null;
  const name = invoiceExpiresAt !== null ? chainOf(coin).networkName : isEither ? `${chainOf(coin).networkName}, ${onChain}` : onChain;
  return html`<p class="tx"><span>${words.networkName}</span> <bdi>${name}</bdi></p>`;
}

type Spoken = { words: Words; chosen: Locale | null };
/** The language that the customer chose, for the next page. */
const inLanguage = (chosen: Locale | null): string => (chosen === null ? '' : `?lang=${chosen}`);
const keepLanguage = (chosen: Locale | null): Html | false => chosen !== null && html`<input type="hidden" name="lang" value="${chosen}">`;

function addressForm({ refund, path }: Claim, given: EnteredAddress | null, { words, chosen }: Spoken): Html {
  const wrong = given?.fault != null;
  const isLightning = refund.coin === LIGHTNING;
  const field = isLightning ? ADDRESS_FIELD.replace(/maxlength="\d+"/, `maxlength="${LONGEST_TEXT}"`) : ADDRESS_FIELD;
  const label = isLightning ? words.claimInvoice : say(words.refundAddress, { coin: COIN[refund.coin].asset });
  const hint = isLightning ? say(words.claimInvoiceHint, { sat: satOf(refund) }) : words.claimOwn;
  const more = `${field}${wrong ? ' aria-invalid="true" aria-describedby="fault"' : ''}`;
  return html`${networkOf(refund, words)}<form method="post" action="${path}">${keepLanguage(chosen)}
<label class="field"><span>${label}</span>
<input name="address" id="address" value="${given?.address ?? ''}"${new Html(more)}>
${wrong && html`<span class="fault" id="fault" role="alert">${given.fault}</span>`}</label>
<p class="lead">${hint}</p>
<button class="main" id="continue">${words.continue}</button></form>`;
}

function checkForm({ refund, path }: Claim, address: string, { words, chosen }: Spoken): Html {
  const back = path + inLanguage(chosen);
  return html`${networkOf(refund, words)}
<p class="tx"><span>${say(words.refundAddress, { coin: COIN[refund.coin].asset })}</span> <bdi class="mono" translate="no" id="checked">${address}</bdi></p>
<p class="note">${words.claimCompare}</p>
<form method="post" action="${path}">${keepLanguage(chosen)}
<input type="hidden" name="address" value="${address}"><input type="hidden" name="checked" value="yes">
<button class="main" id="confirm">${words.claimConfirm}</button></form><p><a class="main second" id="back" href="${back}">${words.claimOther}</a></p>`;
}

type StateWords = { tone: 'good' | 'busy' | 'over' | 'warn'; title: Key; text: Key };
const APPROVED: StateWords = { tone: 'busy', title: 'refundApproved', text: 'refundApprovedText' };
const STATES: Readonly<Record<RefundState, StateWords>> = {
  requested: { tone: 'busy', title: 'claimReceived', text: 'claimReceivedText' },
  approved: APPROVED,
  signed: APPROVED,
  sent: { tone: 'busy', title: 'refundSent', text: 'refundSentText' },
  confirmed: { tone: 'good', title: 'refundDone', text: 'refundDoneText' },
  failed: { tone: 'warn', title: 'refundFailed', text: 'refundFailedText' },
  canceled: { tone: 'over', title: 'refundCanceled', text: 'refundCanceledText' },
};
const EXPIRED: StateWords = { tone: 'over', title: 'linkExpired', text: 'linkExpiredText' };

function renderState({ refund, merchant, path }: Claim, { words, now, stripe }: { words: Words; now: Date; stripe: Html | false }): Html {
  const ended = refund.state === 'requested' && refund.address === null && refund.claimUntil !== null && now >= refund.claimUntil;
  const { tone, title, text } = ended ? EXPIRED : STATES[refund.state];
  const row = (name: string, value: string | null) =>
    value !== null && html`<p class="tx"><span>${name}</span> <bdi class="mono" translate="no">${value}</bdi></p>`;
  const place = ended || refund.state === 'failed' ? 'first' : 'foot';
  const contact = linkToContact({ name: merchant.name, contact: contactOf(merchant.settings), about: refund.id }, words, place);
  return html`<main id="main" class="result" data-state="${ended ? 'expired' : refund.state}">${stripe}
<header class="hero ${tone}">${mark(tone)}<h1 id="h" tabindex="-1">${words[title]}</h1><p class="usd"><bdi>${amountOf(refund)}</bdi></p></header>
<p class="lead">${words[text]}</p>${networkOf(refund, words)}
${row(words.address, refund.address)}${row(words.transaction, refund.txid)}
${isPaidOut(refund.state) && html`<p><a href="${path}/note.pdf" id="pdf" download>${words.refundDocument} (PDF)</a></p>`}${contact}</main>`;
}
