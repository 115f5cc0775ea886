/** `/claim/<token>`: the customer enters the address of a refund, checks it once, and afterwards sees what became of the refund. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { COIN, chainOf, coinText } from '../../core/coin.ts';
import { formatUnits } from '../../core/money.ts';
import { Problem } from '../../core/problem.ts';
import { isPaidOut, type RefundState } from '../../core/refund.ts';
import { getMerchant, type Merchant } from '../../merchants/merchants.ts';
import { hashOfToken } from '../../money-out/claims.ts';
import { claimRefund, type Refund, refundOfClaim } from '../../money-out/refunds.ts';
import { checkRefundAddress } from '../../payments/payments.ts';
import { Html, html } from '../html.ts';
import type { Counting } from './counting.ts';
import { mark } from './icons.ts';
import { ADDRESS_FIELD, linkToContact } from './page.ts';
import { paperOf, refundNotePdf } from './receipt-pdf.ts';
import { sendPdf } from './responses.ts';
import { sendDocument } from './shell.ts';
import { chooseLanguage, type Language, say } from './words.ts';

type Claim = { refund: Refund; merchant: Merchant; path: string };
/** What the customer typed: to be checked by them, or refused. */
type Given = { address: string; fault: string | null };
type Words = Language['words'];

/** The texts of this page are in English only, so all of it is. */
const language = (): Language => chooseLanguage({ chosen: 'en', accept: '' });

export function registerRefunds(pages: FastifyInstance, ctx: Context, { counting }: { counting: Counting }): void {
  const secure = ctx.settings.paymentPageUrl.startsWith('https:');

  const open = async (request: FastifyRequest): Promise<Claim> => {
    const { token } = request.params as { token: string };
    const hash = hashOfToken(token);
    if (hash === null) throw new Problem('refund_not_found', { id: '' });
    const refund = await refundOfClaim(ctx, { hash });
    return { refund, merchant: await getMerchant(ctx, { merchantId: refund.merchantId }), path: `/claim/${token}` };
  };
  const show = (request: FastifyRequest, reply: FastifyReply, claim: Claim, given: Given | null = null, status = 200) => {
    const { theme, accent } = claim.merchant.settings;
    const own = language();
    const { title, main } = renderRefund(claim, { words: own.words, given, now: ctx.clock.now() });
    return sendDocument(request, reply, { status, title, main, language: own, theme, accent }, { secure });
  };

  pages.get('/claim/:token', { exposeHeadRoute: false }, async (request, reply) => {
    await counting.look(request);
    return show(request, reply, await open(request));
  });
  pages.get('/claim/:token/note.pdf', { exposeHeadRoute: false }, async (request, reply) => {
    await counting.look(request);
    const { refund, merchant, path } = await open(request);
    if (!isPaidOut(refund.state)) return reply.code(303).headers({ location: path, 'cache-control': 'no-store' }).send();
    const { paper } = request.query as { paper?: unknown };
    return sendPdf(reply, { name: `refund-${refund.id}.pdf`, bytes: refundNotePdf(refund, { merchant, paper: paperOf(paper) }) });
  });
  pages.post('/claim/:token', async (request, reply) => {
    await counting.start(request);
    const claim = await open(request);
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
    const address = (form.get('address') ?? '').trim().slice(0, 200);
    const { mode, coin } = claim.refund;
    try {
      checkRefundAddress(ctx, { mode, coin, address });
      if (form.get('checked') !== 'yes') return show(request, reply, claim, { address, fault: null });
      await claimRefund(ctx, { refund: claim.refund, address });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.code === 'refund_state') return show(request, reply, await open(request), null, 409);
      if (error.code !== 'address_invalid') throw error;
      const fault = say(language().words.addressInvalid, { coin: coinText(coin) });
      return show(request, reply, claim, { address, fault }, 400);
    }
    return reply.code(303).headers({ location: claim.path, 'cache-control': 'no-store' }).send();
  });
}

const isOpen = ({ state, address, claimUntil }: Refund, now: Date): boolean =>
  state === 'requested' && address === null && claimUntil !== null && now < claimUntil;

/** The page: the form, the check of the address, or the state of the refund. */
export function renderRefund(
  claim: Claim,
  { words, given, now }: { words: Words; given: Given | null; now: Date },
): { title: string; main: Html } {
  const { refund, merchant } = claim;
  const heading = `Refund from ${merchant.name}`;
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
${checks ? checkForm(claim, given.address, words) : addressForm(claim, given, words)}</main>`,
  };
}

const amountOf = ({ coin, units }: Refund): string => `${formatUnits(coin, units)} ${COIN[coin].asset}`;
const networkOf = ({ coin }: Refund): Html => html`<p class="tx"><span>Network</span> <bdi>${chainOf(coin).networkName}</bdi></p>`;

function addressForm({ refund, path }: Claim, given: Given | null, words: Words): Html {
  const wrong = given?.fault != null;
  const more = `${ADDRESS_FIELD}${wrong ? ' aria-invalid="true" aria-describedby="fault"' : ''}`;
  return html`${networkOf(refund)}<form method="post" action="${path}">
<label class="field"><span>${say(words.refundAddress, { coin: COIN[refund.coin].asset })}</span>
<input name="address" id="address" value="${given?.address ?? ''}"${new Html(more)}>
${wrong && html`<span class="fault" id="fault" role="alert">${given.fault}</span>`}</label>
<p class="lead">Use an address of your own wallet on this network. You check it on the next page.</p>
<button class="main" id="continue">${words.continue}</button></form>`;
}

function checkForm({ refund, path }: Claim, address: string, words: Words): Html {
  return html`${networkOf(refund)}
<p class="tx"><span>${say(words.refundAddress, { coin: COIN[refund.coin].asset })}</span> <bdi class="mono" translate="no" id="checked">${address}</bdi></p>
<p class="note">Compare the address with your wallet. You cannot change it later, and money sent to a wrong address is lost.</p>
<form method="post" action="${path}"><input type="hidden" name="address" value="${address}"><input type="hidden" name="checked" value="yes">
<button class="main" id="confirm">Confirm this address</button></form><p><a class="main second" id="back" href="${path}">Enter another address</a></p>`;
}

const STATES: Readonly<Record<RefundState, { tone: 'good' | 'busy' | 'over' | 'warn'; title: string; text: string }>> = {
  requested: { tone: 'busy', title: 'Address received', text: 'The merchant sends the refund after checking it. You can close this page.' },
  approved: { tone: 'busy', title: 'Refund approved', text: 'The merchant sends it soon. You can close this page.' },
  signed: { tone: 'busy', title: 'Refund approved', text: 'The merchant sends it soon. You can close this page.' },
  sent: { tone: 'busy', title: 'Refund sent', text: 'The network has not confirmed it yet.' },
  confirmed: { tone: 'good', title: 'Refund received', text: 'The network has confirmed the refund.' },
  failed: { tone: 'warn', title: 'Refund not sent', text: 'The transaction failed. Contact the merchant.' },
  canceled: { tone: 'over', title: 'Refund canceled', text: 'The merchant canceled this refund.' },
};
const EXPIRED = { tone: 'over', title: 'Link expired', text: 'Ask the merchant for a new link.' } as const;

function renderState({ refund, merchant, path }: Claim, { words, now, stripe }: { words: Words; now: Date; stripe: Html | false }): Html {
  const ended = refund.state === 'requested' && refund.address === null && refund.claimUntil !== null && now >= refund.claimUntil;
  const { tone, title, text } = ended ? EXPIRED : STATES[refund.state];
  const row = (name: string, value: string | null) =>
    value !== null && html`<p class="tx"><span>${name}</span> <bdi class="mono" translate="no">${value}</bdi></p>`;
  const contact = linkToContact({ name: merchant.name, contact: merchant.settings.supportContact, about: refund.id }, words, 'foot');
  return html`<main id="main" class="result" data-state="${ended ? 'expired' : refund.state}">${stripe}
<header class="hero ${tone}">${mark(tone)}<h1 id="h" tabindex="-1">${title}</h1><p class="usd"><bdi>${amountOf(refund)}</bdi></p></header>
<p class="lead">${text}</p>${networkOf(refund)}${row('Address', refund.address)}${row(words.transaction, refund.txid)}
${isPaidOut(refund.state) && html`<p><a href="${path}/note.pdf" id="pdf" download>Refund note (PDF)</a></p>`}${contact}</main>`;
}
