/** The page of a refund that fits no payment: the customer enters the address that the merchant sends the money to. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { type Coin, coinText, isCoin } from '#core/coin';
import { Problem } from '#core/problem';
import { contactOf, getMerchant, type Merchant } from '#merchants';
import { claimShopRefund, GREENFIELD_PATH, getShopRefund, offeredCoins, type ShopRefund } from '#shops';
import { type Html, html } from '../html.ts';
import type { RequestCounter } from './counting.ts';
import { linkToContact } from './page.ts';
import { mark } from './parts.ts';
import { chosenBy, languageOfRequest } from './responses.ts';
import { sendDocument } from './shell.ts';
import { fill, say, type Words } from './words.ts';

/** The ID of the refund, and a token in later links. */
const LINK = /^ref_[0-9A-Za-z]{24}(\.[0-9A-Za-z]{32})?$/;

type ShopRefundView = { refund: ShopRefund; merchant: Merchant; coins: readonly Coin[]; fault: Fault | null; typed: string };
/** What was refused, for the coin that was chosen. */
type Fault = { error: Problem; coin: string | null };

export function registerShopRefunds(pages: FastifyInstance, ctx: Context, { counting }: { counting: RequestCounter }): void {
  const path = pathOf(':link');
  const read = async (request: FastifyRequest): Promise<Omit<ShopRefundView, 'fault' | 'typed'>> => {
    const link = linkIn(request);
    if (!LINK.test(link)) throw new Problem('payment_not_found', { id: '' });
    await counting.look(request);
    const refund = await getShopRefund(ctx, { link });
    const [merchant, coins] = await Promise.all([getMerchant(ctx, refund), offeredCoins(ctx, refund)]);
    return { refund, merchant, coins: coins.filter((coin) => refund.coins?.includes(coin) ?? true) };
  };
  pages.get(path, async (request, reply) => send(ctx, request, reply, { ...(await read(request)), fault: null, typed: '' }));
  pages.post(path, async (request, reply) => {
    const shown = await read(request);
    const link = linkIn(request);
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
    const [coin, address] = [form.get('coin'), (form.get('address') ?? '').trim().slice(0, 200)];
    try {
      await counting.act(request, shown.refund.id);
      if (!isCoin(coin)) throw new Problem('parameter_missing', {}, { param: 'coin' });
      await claimShopRefund(ctx, { link, coin, address });
    } catch (error) {
      if (!(error instanceof Problem) || error.status >= 500) throw error;
      if (error.code === 'refund_state')
        return send(ctx, request, reply, { ...(await read(request)), fault: { error, coin }, typed: '', status: 409 });
      return send(ctx, request, reply, { ...shown, fault: { error, coin }, typed: address, status: error.status });
    }
    const chosen = chosenBy(request);
    const location = pathOf(link) + (chosen === null ? '' : `?lang=${chosen}`);
    return reply.code(303).headers({ 'cache-control': 'no-store', location }).send();
  });
}

const pathOf = (link: string): string => `${GREENFIELD_PATH}/pull-payments/${link}`;
const linkIn = (request: FastifyRequest): string => (request.params as { link: string }).link;

function send(ctx: Context, request: FastifyRequest, reply: FastifyReply, shown: ShopRefundView & { status?: number }): FastifyReply {
  const { refund, merchant, status = 200 } = shown;
  const language = languageOfRequest(request, null, merchant.settings.locale);
  const { words } = language;
  const title = say(words.refundAmount, { amount: `${refund.amount} ${refund.currency}`, merchant: merchant.name });
  const isDone = refund.claimedAt !== null;
  const isOver = !isDone && refund.claimUntil <= ctx.clock.now();
  const tone = isDone ? 'good' : 'over';
  const heading = html`<header class="hero ${tone}">${mark(tone)}<h1 id="h" tabindex="-1">${title}</h1></header>`;
  const content = isDone ? done(shown, words) : isOver ? expired(shown, words) : claim(shown, words, chosenBy(request));
  const main = html`<main id="main" class="result" data-state="none">${heading}${content}</main>`;
  const { theme, accent } = merchant.settings;
  return sendDocument(
    request,
    reply,
    { status, title, main, language, theme, accent, path: pathOf(refund.id) },
    { secure: ctx.settings.paymentPageUrl.startsWith('https:') },
  );
}

const contactFor = ({ refund, merchant }: ShopRefundView, words: Words): Html | null =>
  linkToContact({ name: merchant.name, contact: contactOf(merchant.settings), about: refund.id }, words, 'first');

const expired = (shown: ShopRefundView, words: Words): Html =>
  html`<h2>${words.linkExpired}</h2><p class="lead">${words.linkExpiredText}</p>${contactFor(shown, words)}`;

function done(shown: ShopRefundView, words: Words): Html {
  const { coin, address, sentAt } = shown.refund;
  return html`${shown.fault !== null && html`<p class="fault" role="alert">${words.claimTaken}</p>${contactFor(shown, words)}`}
<p class="lead">${sentAt === null ? words.claimReceivedText : words.refundSent}</p>
<p><span class="dt">${words.address}${coin !== null && html` (<bdi>${coinText(coin)}</bdi>)`}</span><br>
<bdi class="mono address" translate="no">${address}</bdi></p>`;
}

function saidOf({ error: { code, status }, coin }: Fault, words: Words): string {
  if (code === 'address_invalid' && isCoin(coin)) return say(words.addressInvalid, { coin: coinText(coin) });
  return status === 429 ? words.tooMany : words.refused;
}

const EXAMPLE = html`<bdi>test_btc_payer</bdi>`;
/** After a fault, the chosen coin stays: the corrected address could be valid for another one, which cannot be changed later. */
const option = (coin: Coin, fault: Fault | null): Html =>
  html`<option value="${coin}"${coin === fault?.coin && html` selected`}>${coinText(coin)}</option>`;
function claim({ refund, coins, fault, typed }: ShopRefundView, words: Words, chosen: string | null): Html {
  const said = fault && saidOf(fault, words);
  const wrong = said !== null && html` aria-invalid="true" aria-describedby="fault"`;
  return html`<p class="lead">${words.claimText}</p>
<p class="lead" id="unmatched">${words.claimUnmatched}</p>
${refund.mode === 'test' && html`<p class="lead">${fill(words.claimTest, { address: EXAMPLE })}</p>`}
<form method="post" action="${pathOf(refund.id)}">${chosen !== null && html`<input type="hidden" name="lang" value="${chosen}">`}
<p><label for="coin">${words.currency}</label><br><select id="coin" name="coin">${coins.map((coin) => option(coin, fault))}</select></p>
<p><label for="address">${words.address}</label><br>
<input id="address" name="address" required maxlength="200" autocomplete="off" spellcheck="false" value="${typed}"${wrong}></p>
${said !== null && html`<p class="fault" id="fault" role="alert">${said}</p>`}
<button class="main">${words.refund}</button></form>`;
}
