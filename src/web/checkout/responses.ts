/** What the hosted page answers with: the page of a payment, its receipt, or a plain message, in the language of the reader. */

import { createHmac } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { type Locale, matchLocale } from '#core/locales';
import type { CustomerView } from '#core/payment-view';
import { html } from '../html.ts';
import { type PageState, renderPage } from './page.ts';
import { type FormFault, mark, type PageOptions } from './parts.ts';
import { renderReceipt } from './receipt.ts';
import { type HtmlDocument, REFRESH_SECONDS, sendDocument } from './shell.ts';
import { chooseLanguage, type Language } from './words.ts';

const RELOADED: readonly PageState[] = ['unavailable', 'awaiting', 'underpaid', 'processing'];

const transport = (ctx: Context) => ({ secure: ctx.settings.paymentPageUrl.startsWith('https:') });

/** Proves that a form was part of a page of this payment. */
export const formToken = (ctx: Context, id: string): string =>
  createHmac('sha256', ctx.installKey).update(`form ${id}`).digest('base64url');

/** `lang` from the query or the form, if it is a supported language. */
export function chosenBy(request: FastifyRequest): Locale | null {
  const { lang } = request.query as { lang?: unknown };
  const given = request.body instanceof URLSearchParams ? request.body.get('lang') : lang;
  return typeof given === 'string' ? matchLocale(given) : null;
}

/** `locale` is the merchant's, for pages without a payment. */
export const languageOfRequest = (request: FastifyRequest, view: CustomerView | null, locale: string | null = null): Language =>
  chooseLanguage({
    chosen: chosenBy(request),
    payment: view?.request.locale ?? null,
    accept: request.headers['accept-language'] ?? '',
    merchant: view?.merchant.locale ?? locale,
  });

const optionsFor = (ctx: Context, request: FastifyRequest, view: CustomerView, fault: FormFault | null): PageOptions => ({
  language: languageOfRequest(request, view),
  chosen: chosenBy(request),
  ethChainId: ctx.settings.ethChainId,
  networks: ctx.settings.networks,
  formToken: formToken(ctx, view.facts.id),
  fault,
});

const dress = (view: CustomerView, options: PageOptions): Omit<HtmlDocument, 'title' | 'main'> => ({
  language: options.language,
  id: view.facts.id,
  theme: view.merchant.theme,
  accent: view.merchant.accent,
  origins: view.merchant.origins,
});

type Shown = { view: CustomerView; status?: number; fault?: FormFault | null };

export function sendPayment(ctx: Context, request: FastifyRequest, reply: FastifyReply, { view, status = 200, fault = null }: Shown) {
  const options = optionsFor(ctx, request, view, fault);
  const { title, main, waits, state } = renderPage(view, options);
  // Do not reload a page on which the payer is choosing or typing.
  const reloads = waits && RELOADED.includes(state) && (state === 'unavailable' || view.nextScenarios.length === 0);
  const document = { ...dress(view, options), status, title, main, path: '/pay', live: waits, refresh: reloads ? REFRESH_SECONDS : null };
  return sendDocument(request, reply, document, transport(ctx));
}

export function sendReceipt(ctx: Context, request: FastifyRequest, reply: FastifyReply, view: CustomerView) {
  const options = optionsFor(ctx, request, view, null);
  const { title, main } = renderReceipt(view, options);
  return sendDocument(request, reply, { ...dress(view, options), title, main, path: '/pay/receipt' }, transport(ctx));
}

/** A file to keep. */
export const sendPdf = (reply: FastifyReply, { name, bytes }: { name: string; bytes: Buffer }): FastifyReply =>
  reply
    .headers({
      'cache-control': 'no-store',
      'content-type': 'application/pdf',
      'content-disposition': `attachment; filename="${name}"`,
      'x-content-type-options': 'nosniff',
    })
    .send(bytes);

type ErrorMessage = { status: number; kind: 'notFound' | 'tooMany' | 'broken' };

/** A page without a payment. */
export function sendMessage(ctx: Context, request: FastifyRequest, reply: FastifyReply, { status, kind }: ErrorMessage) {
  const language = languageOfRequest(request, null);
  const { words } = language;
  const isGone = kind === 'notFound';
  const title = isGone ? words.notFound : words.broken;
  const text = { notFound: words.notFoundText, tooMany: words.tooMany, broken: words.brokenText }[kind];
  const retry = !isGone && request.method === 'GET' && html`<p><a class="main" href="${request.url}">${words.retry}</a></p>`;
  const tone = isGone ? 'over' : 'warn';
  const heading = html`<header class="hero ${tone}">${mark(tone)}<h1 id="h" tabindex="-1">${title}</h1></header>`;
  const main = html`<main id="main" class="result" data-state="none">${heading}<p class="lead">${text}</p>${retry}</main>`;
  return sendDocument(request, reply, { status, title, main, language }, transport(ctx));
}
