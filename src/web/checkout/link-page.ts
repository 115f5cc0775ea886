/** `/link/<id>`: the page of a payment link. Viewing it creates nothing; the form creates a payment and leads to its page. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { fiatDecimals, formatFiat } from '#core/fiat';
import { readTypedAmount } from '#core/money';
import { Problem } from '#core/problem';
import { hostOfUrl } from '#core/text';
import type { Merchant } from '#merchants';
import { getLinkForPayer, type PaymentLink, payLink, standingPayment, warningsFor } from '#payments';
import { Html, html } from '../html.ts';
import type { RequestCounter } from './counting.ts';
import { linkToContact } from './page.ts';
import { mark, SIGNS, unavailableText } from './parts.ts';
import { REFRESH_SECONDS, sendDocument } from './shell.ts';
import { type Language, say } from './words.ts';

/** An amount above the maximum is a typing error of the payer: the form is shown again. */
const tooLarge = (error: unknown): null => {
  if (error instanceof Problem && error.code === 'amount_too_large') return null;
  throw error;
};
const ID = /^lnk_[0-9A-Za-z]{24}$/;

type Doors = { counting: RequestCounter; languageOf: (request: FastifyRequest, merchant: Merchant) => Language };

export function registerLinks(pages: FastifyInstance, ctx: Context, { counting, languageOf }: Doors): void {
  const secure = ctx.settings.paymentPageUrl.startsWith('https:');
  const tokenOf = (id: string) => createHmac('sha256', ctx.installKey).update(`link ${id}`).digest('base64url');

  const open = async (request: FastifyRequest) => {
    const { id } = request.params as { id: string };
    if (!ID.test(id)) throw new Problem('link_not_found', { id: '' });
    return getLinkForPayer(ctx, { linkId: id });
  };
  const show = (
    request: FastifyRequest,
    reply: FastifyReply,
    { link, merchant }: { link: PaymentLink; merchant: Merchant },
    { status = 200, given = '', wrong = false }: { status?: number; given?: string; wrong?: boolean } = {},
  ) => {
    const language = languageOf(request, merchant);
    const { theme, accent, origins } = merchant.settings;
    const waits = status === 503;
    const { title, main } = waits
      ? renderUnavailable(link, merchant, language)
      : renderLink(link, merchant, { language, token: tokenOf(link.id), given, wrong });
    const page = { status, title, main, language, theme, accent, origins, path: `/link/${link.id}` };
    return sendDocument(request, reply, { ...page, live: waits, refresh: waits ? REFRESH_SECONDS : null }, { secure });
  };

  pages.get('/link/:id', { exposeHeadRoute: false }, async (request, reply) => {
    await counting.look(request);
    const opened = await open(request);
    const paymentId = await standingPayment(ctx, opened.link);
    if (paymentId !== null)
      return reply
        .code(303)
        .headers({ location: `/pay?id=${paymentId}`, 'cache-control': 'no-store' })
        .send();
    const { link, merchant } = opened;
    const warnings = await warningsFor(ctx, { merchantId: merchant.id, mode: link.mode, amountUsdCents: null });
    return show(request, reply, opened, { status: warnings.length > 0 ? 503 : 200 });
  });
  pages.post('/link/:id', async (request, reply) => {
    const opened = await open(request);
    const { link } = opened;
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
    const token = Buffer.from(form.get('token') ?? '');
    const wanted = Buffer.from(tokenOf(link.id));
    if (token.length !== wanted.length || !timingSafeEqual(token, wanted)) throw new Problem('link_not_found', { id: '' });
    await counting.start(request);
    const given = (form.get('amount') ?? '').trim().slice(0, 20);
    const minor = link.amountMinor ?? readTypedAmount(given, fiatDecimals(link.currency));
    const made =
      minor === null || minor <= 0n
        ? null
        : await payLink(ctx, { linkId: link.id, chosen: { currency: link.currency, minor } }).catch(tooLarge);
    if (made === null) return show(request, reply, opened, { status: 400, given, wrong: true });
    const lang = form.get('lang');
    return reply
      .code(303)
      .headers({ location: `/pay?id=${made.paymentId}${lang ? `&lang=${encodeURIComponent(lang)}` : ''}`, 'cache-control': 'no-store' })
      .send();
  });
}

/** Shown in place of the form, so that nobody starts a payment that cannot be paid. */
function renderUnavailable(link: PaymentLink, merchant: Merchant, language: Language): { title: string; main: Html } {
  const { words, tag } = language;
  const contact = linkToContact({ name: merchant.name, contact: merchant.settings.supportContact, about: link.id }, words, 'first');
  return {
    title: words.unavailable,
    main: html`<main id="main" class="result" data-state="unavailable">
<header class="hero warn">${mark('warn')}<h1 id="h" tabindex="-1">${words.unavailable}</h1><p class="usd"><bdi>${merchant.name}</bdi></p></header>
<p class="lead">${unavailableText(language)}</p>${contact}
<p><a class="main${contact === null ? '' : ' second'}" id="reload" href="/link/${link.id}?lang=${tag}">${words.retry}</a></p></main>`,
  };
}

/** What a link's page shows: who is paid, for what, how much. */
function renderLink(
  link: PaymentLink,
  merchant: Merchant,
  { language, token, given, wrong }: { language: Language; token: string; given: string; wrong: boolean },
): { title: string; main: Html } {
  const { words, money } = language;
  const heading = say(words.pay, { merchant: merchant.name });
  const logo = merchant.logo
    ? html`<img class="logo" src="/pay/logo/${merchant.logo}" alt="" width="40" height="40">`
    : html`<span class="logo letter" aria-hidden="true">${[...merchant.name][0]?.toUpperCase() ?? ''}</span>`;
  const example = formatFiat(link.currency, 25n * 10n ** BigInt(fiatDecimals(link.currency)));
  const amount =
    link.amountMinor === null
      ? html`<label class="field"><span>${words.total} (${link.currency})</span>
<input name="amount" id="amount" type="text" inputmode="decimal" required maxlength="12" autocomplete="off" placeholder="${example}"
 dir="ltr" value="${given}"${wrong && new Html(' aria-invalid="true" aria-describedby="fault"')}>
${wrong && html`<span class="fault" id="fault" role="alert">${say(words.amountInvalid, { amount: example })}</span>`}</label>`
      : null;
  const price =
    link.amountMinor !== null && html`<p class="usd"><bdi>${money(formatFiat(link.currency, link.amountMinor), link.currency)}</bdi></p>`;
  const { website } = merchant.settings;
  const host = website && hostOfUrl(website);
  return {
    title: `${link.mode === 'test' ? `${words.test} ` : ''}${heading}`,
    main: html`<main id="main" data-state="link">${link.mode === 'test' && html`<p class="stripe">${words.testStripe}</p>`}
<header class="top"><div class="who">${logo}<h1 id="h" tabindex="-1">${heading}</h1></div>${price}</header><p class="lead">${link.name}</p>
<form method="post" action="/link/${link.id}"><input type="hidden" name="token" value="${token}">
<input type="hidden" name="lang" value="${language.tag}">${amount}<button class="main" id="start">${words.continue}</button></form>
${website && host && html`<p class="tip">${SIGNS.info}<a rel="noopener noreferrer" target="_blank" href="${website}">${host}</a></p>`}</main>`,
  };
}
