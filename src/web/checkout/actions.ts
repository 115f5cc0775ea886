/** The routes of the hosted page. Only a POST allocates an address: link previews and bots use GET. */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import type { Context } from '../../context.ts';
import { isCoin } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import { chooseCoin, leaveRefundAddress, simulatePayment, visitPayment } from '../../payments/payments.ts';
import { getPaymentForCustomer, getVersions } from '../../payments/queries.ts';
import type { CustomerView } from '../../payments/view.ts';
import { Html, html } from '../html.ts';
import { renderPage, renderReceipt } from './page.ts';
import { STYLE } from './style.ts';
import { en } from './words/en.ts';

const ID = /^pay_[0-9A-Za-z]{24}$/;
const SCRIPT = stripTypeScriptTypes(readFileSync(join(import.meta.dirname, 'browser.ts'), 'utf8'))
  .replace(/^\/\*\*.*$/m, '')
  .replace(/\n\s*/g, '\n')
  .trim();
const SCRIPT_PATH = `/pay/assets/${createHash('sha256').update(SCRIPT).digest('hex').slice(0, 16)}.js`;
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');
/** Open pages are asked for together this often; a change shows within it. */
const WATCH_MS = 500;
const KEEPALIVE_MS = 20_000;

/** Adds the pages to the server. */
export function registerCheckout(app: FastifyInstance, ctx: Context): void {
  const words = en;
  const secure = ctx.settings.paymentPageUrl.startsWith('https:');
  const csp = `default-src 'none'; script-src 'self'; style-src 'sha256-${STYLE_HASH}'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`;
  const headers: Record<string, string> = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': csp,
    'cache-control': 'no-store',
    vary: 'x-fragment, accept-language',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-robots-tag': 'noindex, nofollow',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': 'clipboard-write=(self), camera=(), microphone=(), geolocation=()',
    ...(secure && { 'strict-transport-security': 'max-age=31536000' }),
  };
  const choices = new RateLimiterMemory({ points: 10, duration: 60 });
  const formToken = (id: string) => createHmac('sha256', ctx.installKey).update(`form ${id}`).digest('base64url');

  const sendPage = (
    request: FastifyRequest,
    reply: FastifyReply,
    {
      status = 200,
      title,
      main,
      live = false,
      refresh = null,
    }: {
      status?: number;
      title: string;
      main: Html;
      live?: boolean;
      refresh?: number | null;
    },
  ) => {
    reply.code(status).headers(headers);
    if (request.headers['x-fragment'] === '1') return reply.send(html`<title>${title}</title>${main}`.text);
    return reply.send(
      html`<!doctype html><html lang="en" dir="ltr"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex"><meta name="color-scheme" content="light dark"><title>${title}</title>${icon}${style}${refresh !== null && html`<noscript><meta http-equiv="refresh" content="${refresh}"></noscript>`}</head><body data-copied="${words.copied}"${live ? liveAttribute : ''}><p class="offline-note" role="status">${words.offline}</p>${main}<div id="live" class="sr" aria-live="polite"></div><script src="${SCRIPT_PATH}" defer></script></body></html>`
        .text,
    );
  };
  const showPayment = (
    request: FastifyRequest,
    reply: FastifyReply,
    view: CustomerView,
    { status = 200, notice = null }: { status?: number; notice?: string | null } = {},
  ) => {
    const page = renderPage(view, { words, ethChainId: ctx.settings.ethChainId, formToken: formToken(view.facts.id), notice });
    return sendPage(request, reply, {
      status,
      title: page.title,
      main: page.main,
      live: page.waits,
      refresh: page.waits && page.state !== 'choose' ? 5 : null,
    });
  };
  const plain = (request: FastifyRequest, reply: FastifyReply, status: number, title: string, text: string) =>
    sendPage(request, reply, {
      status,
      title,
      main: html`<main id="main" data-state="none"><header class="over"><h1 id="h" tabindex="-1">${title}</h1></header><p>${text}</p></main>`,
    });

  app.register(async (pages) => {
    pages.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string', bodyLimit: 8_192 }, (_request, text, done) => {
      done(null, new URLSearchParams(text as string));
    });
    pages.setErrorHandler((error: Error, request, reply) => {
      if (error instanceof Problem && error.code === 'payment_not_found')
        return plain(request, reply, 404, words.notFound, words.notFoundText);
      if (error instanceof Problem && error.status === 429) return plain(request, reply, 429, words.broken, words.tooMany);
      const clientFault = ((error as { statusCode?: number }).statusCode ?? 500) < 500;
      if (!clientFault) ctx.log.error({ err: error, requestId: request.id }, 'a page could not be shown');
      return plain(request, reply, error instanceof Problem ? error.status : clientFault ? 400 : 500, words.broken, words.brokenText);
    });

    const idOf = (request: FastifyRequest): string => {
      const { id } = request.query as { id?: unknown };
      if (typeof id !== 'string' || !ID.test(id)) throw new Problem('payment_not_found', { id: '' });
      return id;
    };

    pages.get('/pay', async (request, reply) => {
      const id = idOf(request);
      await visitPayment(ctx, { paymentId: id });
      return showPayment(request, reply, await getPaymentForCustomer(ctx, { paymentId: id }));
    });
    pages.get('/pay/receipt', async (request, reply) => {
      const view = await getPaymentForCustomer(ctx, { paymentId: idOf(request) });
      if (view.facts.status !== 'completed') return reply.code(303).header('location', `/pay?id=${view.facts.id}`).send();
      return sendPage(request, reply, renderReceipt(view, words));
    });
    pages.get('/pay/status', async (request, reply) => {
      const id = idOf(request);
      const version = (await getVersions(ctx, { paymentIds: [id] })).get(id);
      if (version === undefined) throw new Problem('payment_not_found', { id });
      return reply.headers({ 'cache-control': 'no-store', etag: `"${version}"` }).send({ version: String(version) });
    });
    pages.get(SCRIPT_PATH, async (_request, reply) =>
      reply
        .headers({
          'content-type': 'text/javascript; charset=utf-8',
          'cache-control': 'public, max-age=31536000, immutable',
          'x-content-type-options': 'nosniff',
        })
        .send(SCRIPT),
    );

    /** Runs a form's action; what it refuses is said on the page, which stays usable. */
    const act = async (request: FastifyRequest, reply: FastifyReply, action: (id: string, form: URLSearchParams) => Promise<unknown>) => {
      const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
      const id = form.get('id') ?? '';
      const token = Buffer.from(form.get('token') ?? '');
      const wanted = Buffer.from(formToken(id));
      if (!ID.test(id) || token.length !== wanted.length || !timingSafeEqual(token, wanted))
        throw new Problem('payment_not_found', { id: '' });
      let notice: string | null = null;
      let status = 200;
      try {
        await choices.consume(`${id} ${request.socket.remoteAddress}`).catch((refused: unknown) => {
          if (refused instanceof Error) throw refused;
          throw new Problem('rate_limit_exceeded', { seconds: 60 }, { retryAfterSeconds: 60 });
        });
        await action(id, form);
      } catch (error) {
        if (!(error instanceof Problem) || error.code === 'payment_not_found' || error.status === 500) throw error;
        notice = error.status === 429 ? words.tooMany : error.message;
        status = error.status;
      }
      if (notice === null && request.headers['x-fragment'] !== '1') return reply.code(303).header('location', `/pay?id=${id}`).send();
      return showPayment(request, reply, await getPaymentForCustomer(ctx, { paymentId: id }), {
        status: notice === null ? 200 : status,
        notice,
      });
    };
    const coinOf = (form: URLSearchParams) => {
      const coin = form.get('currency');
      if (!isCoin(coin)) throw new Problem('currency_unknown', {}, { param: 'currency' });
      return coin;
    };
    pages.post('/pay/select', (request, reply) =>
      act(request, reply, (id, form) => chooseCoin(ctx, { paymentId: id, coin: coinOf(form), scenario: form.get('scenario') })),
    );
    pages.post('/pay/requote', (request, reply) =>
      act(request, reply, async (id) => {
        const { settlement } = await getPaymentForCustomer(ctx, { paymentId: id });
        if (settlement.coin) await chooseCoin(ctx, { paymentId: id, coin: settlement.coin });
      }),
    );
    pages.post('/pay/simulate', (request, reply) =>
      act(request, reply, async (id, form) => {
        const { merchantId, facts } = await getPaymentForCustomer(ctx, { paymentId: id });
        if (facts.mode !== 'test') throw new Problem('test_key_required');
        await simulatePayment(ctx, {
          merchantId,
          paymentId: id,
          scenario: form.get('scenario') ?? 'success',
          coin: null,
          idempotency: null,
          render: () => ({ status: 200, body: Buffer.alloc(0) }),
        });
      }),
    );
    pages.post('/pay/refund-address', (request, reply) =>
      act(request, reply, (id, form) =>
        leaveRefundAddress(ctx, {
          paymentId: id,
          coin: coinOf(form),
          address: (form.get('address') ?? '').trim(),
          email: form.get('email')?.trim() || null,
        }),
      ),
    );

    registerLive(pages, ctx, idOf);
  });
}

/** A coin, in the page itself: one request less. */
const icon = new Html(
  `<link rel="icon" href="data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" fill="#1f6feb"/><path d="M6 12V4h5M6 8h4" fill="none" stroke="#fff" stroke-width="2"/></svg>')}">`,
);
const style = new Html(`<style>${STYLE}</style>`);
const liveAttribute = new Html(' data-live="1"');

/** Server-sent events: one look at the database for all open pages of this process, not one a page. */
function registerLive(pages: FastifyInstance, ctx: Context, idOf: (request: FastifyRequest) => string): void {
  type Watcher = { reply: FastifyReply; version: bigint };
  const watched = new Map<string, Set<Watcher>>();
  let timer: NodeJS.Timeout | null = null;
  let beats = 0;
  const look = async () => {
    try {
      const versions = await getVersions(ctx, { paymentIds: [...watched.keys()] });
      for (const [id, version] of versions) {
        for (const watcher of watched.get(id) ?? []) {
          if (watcher.version === version) continue;
          watcher.version = version;
          watcher.reply.raw.write(`event: v\ndata: ${version}\n\n`);
        }
      }
      beats = (beats + 1) % (KEEPALIVE_MS / WATCH_MS);
      if (beats === 0) for (const set of watched.values()) for (const { reply } of set) reply.raw.write(':\n\n');
    } catch (error) {
      ctx.log.warn({ err: error }, 'open pages could not be looked after');
    }
    timer = watched.size > 0 ? setTimeout(() => void look(), WATCH_MS) : null;
  };
  pages.get('/pay/events', async (request, reply) => {
    const id = idOf(request);
    const version = (await getVersions(ctx, { paymentIds: [id] })).get(id);
    if (version === undefined) throw new Problem('payment_not_found', { id });
    reply.hijack();
    reply.raw.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
    });
    reply.raw.write(`retry: 2000\nevent: v\ndata: ${version}\n\n`);
    const watcher: Watcher = { reply, version };
    const set = watched.get(id) ?? new Set();
    watched.set(id, set.add(watcher));
    timer ??= setTimeout(() => void look(), WATCH_MS);
    request.raw.on('close', () => {
      set.delete(watcher);
      if (set.size === 0) watched.delete(id);
    });
  });
  pages.addHook('preClose', async () => {
    if (timer) clearTimeout(timer);
    for (const set of watched.values()) for (const { reply } of set) reply.raw.end();
  });
}
