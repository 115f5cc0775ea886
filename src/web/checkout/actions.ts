/** The routes of the hosted page. Only a POST allocates an address, because link previews and bots use GET. */

import type { ServerResponse } from 'node:http';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { matchLocale, TAGS } from '#core/locales';
import { paymentUrl } from '#core/payment-detail';
import type { CustomerView } from '#core/payment-view';
import { Problem } from '#core/problem';
import { MOST_FORM_BYTES } from '#core/text';
import { toProblem } from '#http';
import { watchInvoices } from '#lightning';
import { readLogo } from '#merchants';
import { getMoment, getNewVersions, getPaymentForCustomer, getTimes, markOpened, visitPayment } from '#payments';
import { reportUnpayable } from '#readiness';
import { GREENFIELD_PATH, packQuery } from '#shops';
import { excessOfPairs, type Limits, packOnce, type ReadClient, sendPacked } from '#transport';
import { html, sendPlain } from '../html.ts';
import { isTooSmall } from './choice.ts';
import { countRequests, type RequestCounter } from './counting.ts';
import { registerEmbed, registerSharedScript } from './embedding.ts';
import { PAYMENT_ID, registerForms } from './forms.ts';
import { registerLinks } from './link-page.ts';
import { pageState, renderPage } from './page.ts';
import { renderReceipt } from './receipt.ts';
import { registerRefundClaims } from './refund-claim-page.ts';
import { languageOfRequest, sendMessage, sendPayment, sendPdf, sendReceipt } from './responses.ts';
import { browserScript, SCRIPT, SCRIPT_PATH, sendDocument } from './shell.ts';
import { registerShopRefunds } from './shop-refund-page.ts';
import type { Fixture } from './states.ts';
import { wordsOf } from './words.ts';

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
  pages.setErrorHandler((error: FastifyError | Problem, request, reply) => {
    if (!(error instanceof Problem) && (error.statusCode ?? 500) < 500)
      return sendMessage(ctx, request, reply, { status: 400, kind: 'broken' });
    const problem = toProblem(ctx, request, error);
    if (MISSING.some((code) => code === problem.code)) return sendMessage(ctx, request, reply, { status: 404, kind: 'notFound' });
    if (problem.retryAfterSeconds !== null) reply.header('retry-after', String(problem.retryAfterSeconds));
    if (problem.status === 429) return sendMessage(ctx, request, reply, { status: 429, kind: 'tooMany' });
    if (error instanceof Problem && error.status >= 500) ctx.log.error({ err: error, requestId: request.id }, 'Could not render a page');
    return sendMessage(ctx, request, reply, { status: problem.status, kind: 'broken' });
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

/** What fetches a page before somebody opens it, or to show a picture of it in a chat. It must not pay a test payment. */
const PREVIEWS = /bot\b|bot\/|crawl|spider|preview|facebookexternalhit|whatsapp|embedly|prefetch/i;
const isPreview = ({ headers }: FastifyRequest): boolean =>
  [headers['sec-purpose'], headers.purpose, headers['x-moz'], headers['user-agent']].some(
    (text) => typeof text === 'string' && PREVIEWS.test(text.slice(0, 500)),
  );

/** The page, its receipt, and what scripts ask about a payment. */
function registerReads(pages: FastifyInstance, ctx: Context, { counting }: { counting: RequestCounter }): void {
  pages.get('/pay', { exposeHeadRoute: false }, async (request, reply) => {
    const id = idOf(request);
    await counting.look(request);
    if (!isPreview(request)) await visitPayment(ctx, { paymentId: id });
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
    const { receiptPdf } = await import('./receipt-pdf.ts');
    const { paper } = request.query as { paper?: unknown };
    const url = `${ctx.settings.paymentPageUrl}/pay?id=${id}`;
    return sendPdf(reply, { name: `receipt-${id}.pdf`, bytes: await receiptPdf(view, { url, paper }) });
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
  const script = packOnce(() => SCRIPT);
  pages.get(SCRIPT_PATH, async (request, reply) => {
    reply.headers({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
    });
    return sendPacked(request, reply, await script());
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

// Open pages: one database query for all of them, and a line to each whose payment changed.

/** A change shows within this time; with many pages the query runs less often. */
const LOOK_MS = 100;
const LOOK_MAX_MS = 1_000;
const PAGES_PER_MS = 20;
/** Pages notice when three of these stay away. */
const KEEPALIVE_MS = 15_000;
/** The payment's own time in milliseconds, in what a page asks again and again: its countdown follows it. */
const NOW_HEADER = 'x-payment-time';
/** An event and not a comment, which scripts cannot see. */
const beat = (nowMs: bigint): string => `event: k\ndata: ${nowMs}\n\n`;

/** Only what is needed is kept per page: the version of its payment and the raw response. */
type Watched = { version: bigint; pages: ServerResponse[] };

function registerLive(
  pages: FastifyInstance,
  ctx: Context,
  { idOf, counting }: { idOf: (request: FastifyRequest) => string; counting: RequestCounter },
): void {
  const watched = new Map<string, Watched>();
  let open = 0;
  let timer: NodeJS.Timeout | null = null;
  let beatAt = 0;

  const schedule = () => {
    if (timer === null && open > 0)
      timer = setTimeout(() => void look(), Math.min(LOOK_MAX_MS, Math.max(LOOK_MS, Math.round(open / PAGES_PER_MS))));
  };
  const look = async () => {
    try {
      const known = new Map([...watched].map(([id, { version }]) => [id, version]));
      for (const [id, version] of await getNewVersions(ctx, { known })) {
        const entry = watched.get(id);
        if (!entry || entry.version === version) continue;
        entry.version = version;
        for (const page of entry.pages) page.write(`event: v\ndata: ${version}\n\n`);
      }
      const at = ctx.clock.monotonicMs();
      if (at - beatAt >= KEEPALIVE_MS) {
        beatAt = at;
        const paymentIds = [...watched.keys()];
        await watchInvoices(ctx, { paymentIds });
        const times = await getTimes(ctx, { paymentIds });
        for (const [id, { pages: open }] of watched) for (const page of open) page.write(beat(times.get(id) ?? 0n));
      }
    } catch (error) {
      ctx.log.warn({ err: error }, 'Could not update open payment pages');
    }
    timer = null;
    schedule();
  };
  const close = (id: string, page: ServerResponse) => {
    const entry = watched.get(id);
    const at = entry?.pages.indexOf(page) ?? -1;
    if (!entry || at < 0) return;
    entry.pages.splice(at, 1);
    open--;
    if (entry.pages.length === 0) watched.delete(id);
  };

  pages.get('/pay/events', { exposeHeadRoute: false }, async (request, reply) => {
    const id = idOf(request);
    await counting.news(request);
    const { version, nowMs } = await getMoment(ctx, { paymentId: id });
    // Only the page's script requests updates, so someone is viewing it.
    await markOpened(ctx, { paymentId: id });
    await watchInvoices(ctx, { paymentIds: [id] });
    const page = reply.raw;
    // It may have left meanwhile.
    if (page.destroyed) return reply.hijack();
    page.once('close', counting.stream(request));
    reply.hijack();
    page.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
    });
    page.write(`retry: 2000\nevent: v\ndata: ${version}\n\n${beat(nowMs)}`);
    const entry = watched.get(id);
    if (entry) entry.pages.push(page);
    else watched.set(id, { version, pages: [page] });
    open++;
    page.once('close', () => close(id, page));
    schedule();
  });
  pages.addHook('preClose', async () => {
    if (timer) clearTimeout(timer);
    open = 0;
    for (const entry of watched.values()) for (const page of entry.pages) page.end();
  });
}

// The addresses under which plugins open payment pages: `/btcpay/i/<id>` and `/btcpay/invoice?id=<id>`.

/** Where plugins send a merchant who connects a shop. The dashboard signs the member in first. */
const AUTHORIZE = `${GREENFIELD_PATH}/api-keys/authorize`;

/** The script that opens payment pages over a shop, with its words. */
function modalScript(): string {
  const words = TAGS.map((tag) => {
    const { modalTitle: title, closeModal: close } = wordsOf(tag);
    return [tag, { title, close }];
  });
  return `(()=>{${browserScript('modal').replace("'__WORDS__'", () => JSON.stringify(Object.fromEntries(words)))}})();`;
}

function registerShopPages(pages: FastifyInstance, ctx: Context): void {
  const open = (reply: FastifyReply, id: unknown, { view }: { view?: unknown }): FastifyReply => {
    if (typeof id !== 'string' || !PAYMENT_ID.test(id)) throw new Problem('payment_not_found', { id: '' });
    const url = paymentUrl(ctx.settings.paymentPageUrl, id) + (view === 'modal' ? '&view=modal' : '');
    return reply.header('cache-control', 'no-store').redirect(url, 302);
  };
  registerSharedScript(pages, { path: `${GREENFIELD_PATH}/modal/btcpay.js`, script: modalScript() });
  pages.get(AUTHORIZE, async ({ url }, reply) => {
    const ask = packQuery(url.split('?')[1]?.slice(0, 4_000) ?? '');
    return reply.header('cache-control', 'no-store').redirect(`${ctx.settings.publicUrl}/dashboard/live/shops/authorize?ask=${ask}`, 302);
  });
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/invoices/:id`, async ({ params }, reply) => {
    if (!PAYMENT_ID.test(params.id)) throw new Problem('payment_not_found', { id: '' });
    const { facts } = await getPaymentForCustomer(ctx, { paymentId: params.id });
    return reply
      .header('cache-control', 'no-store')
      .redirect(`${ctx.settings.publicUrl}/dashboard/${facts.mode}/payments/${params.id}`, 302);
  });
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/i/:id`, async ({ params, query }, reply) =>
    open(reply, params.id, query as object),
  );
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/i/:id/:method`, async ({ params, query }, reply) =>
    open(reply, params.id, query as object),
  );
  pages.get<{ Querystring: { id?: unknown; view?: unknown } }>(`${GREENFIELD_PATH}/invoice`, async ({ query }, reply) =>
    open(reply, query.id, query),
  );
}

// The pages that show every state of the payment page during development. The sample payments are loaded when a page is asked for.

/** Serves the states on installs that only this machine can reach. */
function registerStates(pages: FastifyInstance, ctx: Context): void {
  const url = new URL(ctx.settings.publicUrl);
  if (url.protocol !== 'http:' || !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)) return;
  pages.get<{ Querystring: { state?: unknown; lang?: unknown; theme?: unknown; receipt?: unknown } }>(
    '/_states',
    async (request, reply) => {
      const { fixtureOptions, fixturesAt } = await import('./states.ts');
      const { state, lang, theme, receipt } = request.query;
      const tag = (typeof lang === 'string' ? matchLocale(lang) : null) ?? 'en';
      const fixtures = fixturesAt(ctx.clock.now());
      const fixture = fixtures.find(({ name }) => name === state);
      if (!fixture) return sendPlain(reply, { title: 'States of the payment page', main: index(fixtures, tag) });
      const options = fixtureOptions(fixture, tag, ctx.settings.ethChainId);
      const { title, main } = receipt === undefined ? renderPage(fixture.view, options) : renderReceipt(fixture.view, options);
      const { merchant } = fixture.view;
      return sendDocument(
        request,
        reply,
        {
          title,
          main,
          language: options.language,
          theme: theme === 'light' || theme === 'dark' ? theme : merchant.theme,
          accent: merchant.accent,
          path: '/_states',
        },
        { secure: false },
      );
    },
  );
}

const index = (fixtures: readonly Fixture[], tag: string) => {
  const link = (name: string, more = '') => `/_states?state=${encodeURIComponent(name)}&lang=${tag}${more}`;
  const languages = TAGS.map((other) => html`<a href="/_states?lang=${other}">${other}</a> `);
  const receipt = ({ name, state }: Fixture) =>
    (state === 'completed' || state === 'overpaid') && html` · <a href="${link(name, '&receipt')}">receipt</a>`;
  const line = (one: Fixture) =>
    html`<li><a href="${link(one.name)}">${one.name}</a> · <a href="${link(one.name, '&theme=dark')}">dark</a>${receipt(one)}</li>`;
  return html`<h1>States of the payment page</h1>
<p>Every state, from the payments that the tests use. Languages: ${languages}</p>
<ul>${fixtures.map(line)}</ul>`;
};
