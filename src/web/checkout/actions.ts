/** The routes of the hosted page. Only a POST allocates an address, because link previews and bots use GET. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { MOST_FORM_BYTES } from '../../core/bounds.ts';
import { Problem } from '../../core/problem.ts';
import type { ReadClient } from '../../http/client.ts';
import { pack, sendPacked } from '../../http/encoding.ts';
import type { Limits } from '../../http/limits.ts';
import { excessOfPairs } from '../../http/request-bounds.ts';
import { readLogo } from '../../merchants/branding.ts';
import { visitPayment } from '../../payments/payments.ts';
import { getMoment, getPaymentForCustomer } from '../../payments/queries.ts';
import { reportUnpayable } from '../../payments/readiness.ts';
import type { CustomerView } from '../../payments/view.ts';
import { isTooSmall } from './choice.ts';
import { type Counting, countRequests } from './counting.ts';
import { registerEmbed } from './embedding.ts';
import { PAYMENT_ID, registerForms } from './forms.ts';
import { registerLinks } from './link-page.ts';
import { NOW_HEADER, registerLive } from './live.ts';
import { pageState } from './page.ts';
import { paperOf, receiptPdf } from './receipt-pdf.ts';
import { registerRefundClaims } from './refund-claim-page.ts';
import { languageOfRequest, sendMessage, sendPayment, sendPdf, sendReceipt } from './responses.ts';
import { SCRIPT, SCRIPT_PATH } from './shell.ts';
import { registerShopPages } from './shop-pages.ts';
import { registerShopRefunds } from './shop-refund-page.ts';
import { registerStates } from './state-pages.ts';

/** Adds the pages to the server. */
export function registerCheckout(app: FastifyInstance, ctx: Context, { client, limits }: { client: ReadClient; limits: Limits }): void {
  const counting = countRequests({ client, limits });
  app.register(async (pages) => {
    pages.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: MOST_FORM_BYTES },
      (_request, text, done) => {
        const reason = excessOfPairs(text as string, 'its form');
        if (reason === null) done(null, new URLSearchParams(text as string));
        else done(new Problem('request_unreadable', { reason }));
      },
    );
    registerErrors(pages, ctx);
    registerReads(pages, ctx, { counting });
    registerFiles(pages, ctx);
    registerForms(pages, ctx, { counting });
    registerLinks(pages, ctx, { counting, languageOf: (request, merchant) => languageOfRequest(request, null, merchant.settings.locale) });
    registerRefundClaims(pages, ctx, { counting });
    registerLive(pages, ctx, { idOf, counting });
    registerEmbed(pages, ctx);
    registerShopPages(pages, ctx);
    registerShopRefunds(pages, ctx, { counting });
    registerStates(pages, ctx);
  });
}

const MISSING = ['payment_not_found', 'link_not_found', 'refund_not_found'] as const;
function registerErrors(pages: FastifyInstance, ctx: Context): void {
  pages.setErrorHandler((error: Error, request, reply) => {
    const status = error instanceof Problem ? error.status : ((error as { statusCode?: number }).statusCode ?? 500);
    if (error instanceof Problem && MISSING.some((code) => code === error.code))
      return sendMessage(ctx, request, reply, { status: 404, kind: 'notFound' });
    if (error instanceof Problem && error.retryAfterSeconds !== null) reply.header('retry-after', String(error.retryAfterSeconds));
    if (status === 429) return sendMessage(ctx, request, reply, { status: 429, kind: 'tooMany' });
    if (status >= 500) ctx.log.error({ err: error, requestId: request.id }, 'Could not render a page');
    return sendMessage(ctx, request, reply, { status: error instanceof Problem || status >= 500 ? status : 400, kind: 'broken' });
  });
}

function idOf(request: FastifyRequest): string {
  const { id } = request.query as { id?: unknown };
  if (typeof id !== 'string' || !PAYMENT_ID.test(id)) throw new Problem('payment_not_found', { id: '' });
  return id;
}

/** Without a receipt, the page of the payment says why. */
const hasReceipt = (view: CustomerView): boolean => view.facts.status === 'completed' && pageState(view) !== 'reversed';
const toPayment = (reply: FastifyReply, id: string): FastifyReply =>
  reply
    .code(303)
    .headers({ location: `/pay?id=${id}`, 'cache-control': 'no-store' })
    .send();

/** The page, its receipt, and what scripts ask about a payment. */
function registerReads(pages: FastifyInstance, ctx: Context, { counting }: { counting: Counting }): void {
  pages.get('/pay', { exposeHeadRoute: false }, async (request, reply) => {
    const id = idOf(request);
    await counting.look(request);
    await visitPayment(ctx, { paymentId: id });
    const view = await getPaymentForCustomer(ctx, { paymentId: id });
    await counting.looked(request, view);
    if (pageState(view) === 'unavailable' && !isTooSmall(view)) await reportUnpayable(ctx, view);
    return sendPayment(ctx, request, reply, { view });
  });
  // A merchant's page asks this before it opens a frame that the browser would refuse. The page's policy says the same.
  pages.get('/pay/framing', async (request, reply) => {
    const id = idOf(request);
    await counting.news(request);
    const { merchant } = await getPaymentForCustomer(ctx, { paymentId: id });
    const allowed = merchant.origins.some((origin) => origin === request.headers.origin);
    return reply.headers({ 'cache-control': 'no-store', vary: 'origin', 'access-control-allow-origin': '*' }).send({ allowed });
  });
  pages.get('/pay/receipt', async (request, reply) => {
    const id = idOf(request);
    await counting.look(request);
    const view = await getPaymentForCustomer(ctx, { paymentId: id });
    await counting.looked(request, view);
    if (!hasReceipt(view)) return toPayment(reply, id);
    return sendReceipt(ctx, request, reply, view);
  });
  pages.get('/pay/receipt.pdf', async (request, reply) => {
    const id = idOf(request);
    await counting.look(request);
    const view = await getPaymentForCustomer(ctx, { paymentId: id });
    await counting.looked(request, view);
    if (!hasReceipt(view)) return toPayment(reply, id);
    const { paper } = request.query as { paper?: unknown };
    const url = `${ctx.settings.paymentPageUrl}/pay?id=${id}`;
    return sendPdf(reply, { name: `receipt-${id}.pdf`, bytes: receiptPdf(view, { url, paper: paperOf(paper) }) });
  });
  pages.get('/pay/status', async (request, reply) => {
    const id = idOf(request);
    await counting.news(request);
    const { version, nowMs } = await getMoment(ctx, { paymentId: id });
    // Also when nothing changed: a device that slept does not know how late it is.
    reply.headers({ 'cache-control': 'no-store', etag: `"${version}"`, [NOW_HEADER]: String(nowMs) });
    if (request.headers['if-none-match'] === `"${version}"`) return reply.code(304).send();
    const view = await getPaymentForCustomer(ctx, { paymentId: id });
    await counting.looked(request, view);
    return reply.send({ version: String(view.version), state: pageState(view), status: view.settlement.status });
  });
}

/** The script of the page, and merchants' logos. */
function registerFiles(pages: FastifyInstance, ctx: Context): void {
  const script = pack(Buffer.from(SCRIPT));
  pages.get(SCRIPT_PATH, async (request, reply) => {
    reply.headers({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
    });
    return sendPacked(request, reply, await script);
  });
  pages.get<{ Params: { hash: string } }>('/pay/logo/:hash', async (request, reply) => {
    const { hash } = request.params;
    const logo = /^[0-9a-f]{32}$/.test(hash) ? await readLogo(ctx, { hash }) : null;
    if (!logo) return sendMessage(ctx, request, reply, { status: 404, kind: 'notFound' });
    return reply
      .headers({
        'content-type': logo.type,
        'cache-control': 'public, max-age=31536000, immutable',
        'content-security-policy': "default-src 'none'; sandbox",
        'x-content-type-options': 'nosniff',
      })
      .send(logo.bytes);
  });
}
