/** The page of a refund that fits no payment: the customer enters the address that the merchant sends the money to. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { type Coin, coinText, isCoin } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import { getMerchant } from '../../merchants/merchants.ts';
import { GREENFIELD_PATH } from '../../shops/greenfield/invoice-body.ts';
import { offeredCoins } from '../../shops/payment-methods.ts';
import { claimRefund, getRefund, type ShopRefund } from '../../shops/shop-refunds.ts';
import { type Html, html } from '../html.ts';
import type { Counting } from './counting.ts';
import { mark } from './icons.ts';
import { sendDocument } from './shell.ts';
import { chooseLanguage } from './words.ts';

const REFUND_ID = /^ref_[0-9A-Za-z]{24}$/;
const ENGLISH = chooseLanguage({ chosen: 'en', payment: null, accept: '', merchant: null });

type Shown = { refund: ShopRefund; merchant: string; coins: readonly Coin[]; fault: string | null; typed: string };

export function registerClaims(pages: FastifyInstance, ctx: Context, { counting }: { counting: Counting }): void {
  const path = `${GREENFIELD_PATH}/pull-payments/:id`;
  const read = async (request: FastifyRequest): Promise<Omit<Shown, 'fault' | 'typed'>> => {
    const { id } = request.params as { id: string };
    if (!REFUND_ID.test(id)) throw new Problem('payment_not_found', { id: '' });
    await counting.look(request);
    const refund = await getRefund(ctx, { refundId: id });
    const [{ name }, coins] = await Promise.all([getMerchant(ctx, refund), offeredCoins(ctx, refund)]);
    return { refund, merchant: name, coins };
  };
  pages.get(path, async (request, reply) => send(ctx, request, reply, { ...(await read(request)), fault: null, typed: '' }));
  pages.post(path, async (request, reply) => {
    const shown = await read(request);
    const { id: refundId } = shown.refund;
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
    const [coin, address] = [form.get('coin'), (form.get('address') ?? '').trim().slice(0, 200)];
    try {
      await counting.act(request, refundId);
      if (!isCoin(coin)) throw new Problem('parameter_missing', {}, { param: 'coin' });
      await claimRefund(ctx, { refundId, coin, address });
    } catch (error) {
      if (!(error instanceof Problem) || error.status >= 500) throw error;
      return send(ctx, request, reply, { ...shown, fault: error.message, typed: address, status: error.status });
    }
    return reply.code(303).header('cache-control', 'no-store').header('location', `${GREENFIELD_PATH}/pull-payments/${refundId}`).send();
  });
}

function send(ctx: Context, request: FastifyRequest, reply: FastifyReply, shown: Shown & { status?: number }): FastifyReply {
  const { refund, merchant } = shown;
  const title = `Refund of ${refund.amount} ${refund.currency} from ${merchant}`;
  const isDone = refund.claimedAt !== null;
  const tone = isDone ? 'good' : 'over';
  const heading = html`<header class="hero ${tone}">${mark(tone)}<h1 id="h" tabindex="-1">${title}</h1></header>`;
  const main = html`<main id="main" class="result" data-state="none">${heading}${isDone ? done(refund) : claim(shown)}</main>`;
  return sendDocument(
    request,
    reply,
    { status: shown.status ?? 200, title, main, language: ENGLISH },
    { secure: ctx.settings.paymentPageUrl.startsWith('https:') },
  );
}

const done = ({ coin, address, sentAt }: ShopRefund): Html =>
  html`<p class="lead">${sentAt === null ? 'The shop has your address and will send the refund.' : 'The shop has sent the refund.'}</p>
<p><span class="dt">${coin === null ? '' : coinText(coin)} address</span><br><span class="mono address">${address}</span></p>`;

const testNote = html`<p class="lead">Test mode: no money is sent. Use an address such as test_btc_payer.</p>`;
const option = (coin: Coin): Html => html`<option value="${coin}">${coinText(coin)}</option>`;
const claim = ({ refund, coins, fault, typed }: Shown): Html => {
  const wrong = fault !== null && html` aria-invalid="true" aria-describedby="fault"`;
  return html`<p class="lead">Enter the address that should receive the refund. You can’t change it later.</p>
<p class="lead" id="unmatched">Florin couldn’t match this refund to a payment. The shop checks your order before sending the money.</p>
${refund.mode === 'test' && testNote}
<form method="post" action="${GREENFIELD_PATH}/pull-payments/${refund.id}">
<p><label for="coin">Currency</label><br><select id="coin" name="coin">${coins.map(option)}</select></p>
<p><label for="address">Address</label><br>
<input id="address" name="address" required maxlength="200" autocomplete="off" spellcheck="false" value="${typed}"${wrong}></p>
${fault !== null && html`<p class="fault" id="fault" role="alert">${fault}</p>`}
<button class="main">Request the refund</button></form>`;
};
