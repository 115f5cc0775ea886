/** `/link/<id>`: the page of a payment link. Viewing it creates nothing; the form creates a payment and leads to its page. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { fiatDecimals, formatFiat } from '#core/fiat';
import { formatDecimal, readTypedAmount } from '#core/money';
import { Problem } from '#core/problem';
import { hostOfUrl } from '#core/text';
import { contactOf, type Merchant } from '#merchants';
import { getLinkForPayer, lookAtLink, type PaymentLink, payLink } from '#payments';
import { priceAt } from '#readiness';
import { Html, html } from '../html.ts';
import type { RequestCounter } from './counting.ts';
import { EMAIL_FIELD, linkToContact } from './page.ts';
import { mark, SIGNS, unavailableText } from './parts.ts';
import { REFRESH_SECONDS, sendDocument } from './shell.ts';
import { type Language, say } from './words.ts';

/** Why the form is shown again: the payer's typing error, less than any coin carries, no email address, or many payers at one address. */
type Fault = 'wrong' | 'small' | 'email' | 'many';
const faultIn = (error: unknown): Fault => {
  if (error instanceof Problem && error.code === 'amount_too_large') return 'wrong';
  if (error instanceof Problem && error.code === 'amount_too_small') return 'small';
  if (error instanceof Problem && error.param === 'customer.email') return 'email';
  if (error instanceof Problem && error.code === 'rate_limit_exceeded') return 'many';
  throw error;
};

/** An amount as an example: 25, with so many zeros that it is worth ten dollars, which most coins carry. */
function exampleFor(ctx: Context, { currency, mode }: PaymentLink, { typed }: Language): string {
  const names = { amount: 'amount', currency: 'currency' };
  let minor = 25n * 10n ** BigInt(fiatDecimals(currency));
  try {
    while (priceAt(ctx, { mode, currency, minor, params: names }).amountUsdCents < 1_000n) minor *= 10n;
  } catch (error) {
    // There is no rate at the moment.
    if (!(error instanceof Problem)) throw error;
  }
  // A comma before three digits could mean thousands.
  return typed(formatDecimal(minor, fiatDecimals(currency), Math.min(2, fiatDecimals(currency))));
}
type Given = { amount: string; email: string };
const NOTHING: Given = { amount: '', email: '' };
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
    { status = 200, given = NOTHING, fault = null }: { status?: number; given?: Given; fault?: Fault | null } = {},
  ) => {
    const language = languageOf(request, merchant);
    const { theme, accent, origins } = merchant.settings;
    const waits = status === 503;
    const isRefused = waits || (fault === 'small' && link.amountMinor !== null);
    const { title, main } = isRefused
      ? renderUnavailable(link, merchant, { language, fault })
      : renderLink(link, merchant, { language, token: tokenOf(link.id), given, fault, example: exampleFor(ctx, link, language) });
    const page = { status, title, main, language, theme, accent, origins, path: `/link/${link.id}` };
    return sendDocument(request, reply, { ...page, live: waits, refresh: waits ? REFRESH_SECONDS : null }, { secure });
  };

  pages.get('/link/:id', { exposeHeadRoute: false }, async (request, reply) => {
    await counting.look(request);
    const opened = await open(request);
    const { paymentId, refusal } = await lookAtLink(ctx, opened);
    if (paymentId !== null)
      return reply
        .code(303)
        .headers({ location: `/pay?id=${paymentId}`, 'cache-control': 'no-store' })
        .send();
    if (refusal === 'away') return show(request, reply, opened, { status: 503 });
    return show(request, reply, opened, { status: refusal ? 400 : 200, fault: refusal });
  });
  pages.post('/link/:id', async (request, reply) => {
    const opened = await open(request);
    const { link } = opened;
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
    const token = Buffer.from(form.get('token') ?? '');
    const wanted = Buffer.from(tokenOf(link.id));
    if (token.length !== wanted.length || !timingSafeEqual(token, wanted)) throw new Problem('link_not_found', { id: '' });
    const crowded = await counting.start(request).catch((error: unknown) => {
      if (error instanceof Problem && error.retryAfterSeconds !== null) reply.header('retry-after', String(error.retryAfterSeconds));
      return faultIn(error);
    });
    const typed = (name: string, most: number) => (form.get(name) ?? '').trim().slice(0, most);
    const given = { amount: typed('amount', 20), email: typed('email', 201) };
    const minor = link.amountMinor ?? readTypedAmount(given.amount, fiatDecimals(link.currency));
    const wrong = minor === null || minor <= 0n ? 'wrong' : link.asksEmail && given.email === '' ? 'email' : null;
    const made =
      crowded ??
      wrong ??
      (await payLink(ctx, { linkId: link.id, chosen: { currency: link.currency, minor: minor! }, email: given.email }).catch(faultIn));
    if (typeof made === 'string') return show(request, reply, opened, { status: made === 'many' ? 429 : 400, given, fault: made });
    const lang = form.get('lang');
    return reply
      .code(303)
      .headers({ location: `/pay?id=${made.paymentId}${lang ? `&lang=${encodeURIComponent(lang)}` : ''}`, 'cache-control': 'no-store' })
      .send();
  });
}

/** Shown in place of the form, so that nobody starts a payment that cannot be paid. */
function renderUnavailable(
  link: PaymentLink,
  merchant: Merchant,
  { language, fault }: { language: Language; fault: Fault | null },
): { title: string; main: Html } {
  const { words, tag } = language;
  const heading = fault === 'small' ? words.smallPayment : words.unavailable;
  const contact = linkToContact({ name: merchant.name, contact: contactOf(merchant.settings), about: link.id }, words, 'first');
  return {
    title: heading,
    main: html`<main id="main" class="result" data-state="unavailable">
<header class="hero warn">${mark('warn')}<h1 id="h" tabindex="-1">${heading}</h1><p class="usd"><bdi>${merchant.name}</bdi></p></header>
<p class="lead">${fault === 'small' ? words.nothingCharged : unavailableText(language)}</p>${contact}
<p><a class="main${contact === null ? '' : ' second'}" id="reload" href="/link/${link.id}?lang=${tag}">${words.retry}</a></p></main>`,
  };
}

const INVALID = new Html(' aria-invalid="true" aria-describedby="fault"');
/** What a link's page shows: who is paid, for what, how much. */
function renderLink(
  link: PaymentLink,
  merchant: Merchant,
  { language, token, given, fault, example }: { language: Language; token: string; given: Given; fault: Fault | null; example: string },
): { title: string; main: Html } {
  const { words, money } = language;
  const heading = say(words.pay, { merchant: merchant.name });
  const logo = merchant.logo
    ? html`<img class="logo" src="/pay/logo/${merchant.logo}" alt="" width="40" height="40">`
    : html`<span class="logo letter" aria-hidden="true">${[...merchant.name][0]?.toUpperCase() ?? ''}</span>`;
  const isAmount = fault === 'wrong' || fault === 'small';
  const reason = fault === 'small' ? words.smallPayment : say(words.amountInvalid, { amount: example });
  const amount =
    link.amountMinor === null
      ? html`<label class="field"><span>${words.total} (${link.currency})</span>
<input name="amount" id="amount" type="text" inputmode="decimal" required maxlength="12" autocomplete="off" placeholder="${example}"
 dir="ltr" value="${given.amount}"${isAmount && INVALID}>
${isAmount && html`<span class="fault" id="fault" role="alert">${reason}</span>`}</label>`
      : null;
  const email =
    link.asksEmail &&
    html`<label class="field"><span>${words.email}</span>
<input name="email" id="email"${new Html(EMAIL_FIELD)} required value="${given.email}"${fault === 'email' && INVALID}>
${fault === 'email' && html`<span class="fault" id="fault" role="alert">${words.emailInvalid}</span>`}</label>`;
  const price =
    link.amountMinor !== null && html`<p class="usd"><bdi>${money(formatFiat(link.currency, link.amountMinor), link.currency)}</bdi></p>`;
  const { website } = merchant.settings;
  const host = website && hostOfUrl(website);
  return {
    title: `${link.mode === 'test' ? `${words.test} ` : ''}${heading}`,
    main: html`<main id="main" data-state="link">${link.mode === 'test' && html`<p class="stripe">${words.testStripe}</p>`}
<header class="top"><div class="who">${logo}<h1 id="h" tabindex="-1">${heading}</h1></div>${price}</header><p class="lead">${link.name}</p>
<form method="post" action="/link/${link.id}"><input type="hidden" name="token" value="${token}">
<input type="hidden" name="lang" value="${language.tag}">${amount}${email}${fault === 'many' && html`<p class="fault" role="alert">${words.tooMany}</p>`}
<button class="main" id="start">${words.continue}</button></form>
${website && host && html`<p class="tip">${SIGNS.info}<a rel="noopener noreferrer" target="_blank" href="${website}">${host}</a></p>`}</main>`,
  };
}
