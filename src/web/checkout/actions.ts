/** The routes of the hosted page. Only a POST allocates an address, because link previews and bots use GET. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { COIN, isCoin } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import type { ReadClient } from '../../http/client.ts';
import { pack, sendPacked } from '../../http/encoding.ts';
import type { Limits } from '../../http/limits.ts';
import { readLogo } from '../../merchants/branding.ts';
import { cancelByPayer, chooseCoin, leaveRefundAddress, repeatPayment, simulateOnPage, visitPayment } from '../../payments/payments.ts';
import { getPaymentForCustomer, getVersion } from '../../payments/queries.ts';
import { reportUnpayable } from '../../payments/readiness.ts';
import type { CustomerView } from '../../payments/view.ts';
import { html } from '../html.ts';
import { countRequests } from './counting.ts';
import { registerEmbed } from './embedding.ts';
import { mark } from './icons.ts';
import { registerLinks } from './links.ts';
import { registerLive } from './live.ts';
import { type Fault, isTooSmall, type PageOptions, type PageState, pageState, renderPage, renderReceipt } from './page.ts';
import { type Document, SCRIPT, SCRIPT_PATH, sendDocument } from './shell.ts';
import { registerStates } from './state-pages.ts';
import { chooseLanguage, type Locale, matchLocale, say } from './words.ts';

const ID = /^pay_[0-9A-Za-z]{24}$/;
/** Browsers without scripts reload the page to show changes. */
const REFRESH_SECONDS = 5;
const RELOADED: readonly PageState[] = ['unavailable', 'awaiting', 'underpaid', 'processing'];

/** Adds the pages to the server. */
export function registerCheckout(app: FastifyInstance, ctx: Context, { client, limits }: { client: ReadClient; limits: Limits }): void {
  const secure = ctx.settings.paymentPageUrl.startsWith('https:');
  const counting = countRequests({ client, limits });
  const formToken = (id: string) => createHmac('sha256', ctx.installKey).update(`form ${id}`).digest('base64url');

  /** `lang` from the query or the form, if it is a supported language. */
  const chosenBy = (request: FastifyRequest): Locale | null => {
    const { lang } = request.query as { lang?: unknown };
    const given = request.body instanceof URLSearchParams ? request.body.get('lang') : lang;
    return typeof given === 'string' ? matchLocale(given) : null;
  };
  const languageOf = (request: FastifyRequest, view: CustomerView | null, locale: string | null = null) =>
    chooseLanguage({
      chosen: chosenBy(request),
      payment: view?.request.locale ?? null,
      accept: request.headers['accept-language'] ?? '',
      merchant: view?.merchant.locale ?? locale,
    });
  const optionsFor = (request: FastifyRequest, view: CustomerView, fault: Fault | null): PageOptions => ({
    language: languageOf(request, view),
    chosen: chosenBy(request),
    ethChainId: ctx.settings.ethChainId,
    networks: ctx.settings.networks,
    formToken: formToken(view.facts.id),
    fault,
  });
  const dress = (view: CustomerView, options: PageOptions): Omit<Document, 'title' | 'main'> => ({
    language: options.language,
    id: view.facts.id,
    theme: view.merchant.theme,
    accent: view.merchant.accent,
    origins: view.merchant.origins,
  });
  const showPayment = (
    request: FastifyRequest,
    reply: FastifyReply,
    view: CustomerView,
    { status = 200, fault = null }: { status?: number; fault?: Fault | null } = {},
  ) => {
    const options = optionsFor(request, view, fault);
    const { title, main, waits, state } = renderPage(view, options);
    return sendDocument(
      request,
      reply,
      {
        ...dress(view, options),
        status,
        title,
        main,
        path: '/pay',
        live: waits,
        // Do not reload a page on which the payer is choosing or typing.
        refresh: waits && RELOADED.includes(state) && (state === 'unavailable' || view.nextScenarios.length === 0) ? REFRESH_SECONDS : null,
      },
      { secure },
    );
  };
  const plain = (request: FastifyRequest, reply: FastifyReply, status: number, kind: 'notFound' | 'tooMany' | 'broken') => {
    const language = languageOf(request, null);
    const { words } = language;
    const title = kind === 'notFound' ? words.notFound : words.broken;
    const text = { notFound: words.notFoundText, tooMany: words.tooMany, broken: words.brokenText }[kind];
    const again = kind !== 'notFound' && request.method === 'GET';
    const main = html`<main id="main" data-state="none"><header class="hero ${kind === 'notFound' ? 'over' : 'warn'}">${mark(kind === 'notFound' ? 'over' : 'warn')}<h1 id="h" tabindex="-1">${title}</h1></header><p class="lead">${text}</p>${again && html`<p><a class="main" href="${request.url}">${words.retry}</a></p>`}</main>`;
    return sendDocument(request, reply, { status, title, main, language }, { secure });
  };

  app.register(async (pages) => {
    pages.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string', bodyLimit: 8_192 }, (_request, text, done) => {
      done(null, new URLSearchParams(text as string));
    });
    pages.setErrorHandler((error: Error, request, reply) => {
      const status = error instanceof Problem ? error.status : ((error as { statusCode?: number }).statusCode ?? 500);
      if (error instanceof Problem && (error.code === 'payment_not_found' || error.code === 'link_not_found'))
        return plain(request, reply, 404, 'notFound');
      if (error instanceof Problem && error.retryAfterSeconds !== null) reply.header('retry-after', String(error.retryAfterSeconds));
      if (status === 429) return plain(request, reply, 429, 'tooMany');
      if (status >= 500) ctx.log.error({ err: error, requestId: request.id }, 'Could not render a page');
      return plain(request, reply, error instanceof Problem || status >= 500 ? status : 400, 'broken');
    });

    const idOf = (request: FastifyRequest): string => {
      const { id } = request.query as { id?: unknown };
      if (typeof id !== 'string' || !ID.test(id)) throw new Problem('payment_not_found', { id: '' });
      return id;
    };

    pages.get('/pay', { exposeHeadRoute: false }, async (request, reply) => {
      const id = idOf(request);
      await counting.look(request);
      await visitPayment(ctx, { paymentId: id });
      const view = await getPaymentForCustomer(ctx, { paymentId: id });
      await counting.looked(request, view);
      if (pageState(view) === 'unavailable' && !isTooSmall(view)) await reportUnpayable(ctx, view);
      return showPayment(request, reply, view);
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
      if (view.facts.status !== 'completed' || pageState(view) === 'reversed')
        return reply
          .code(303)
          .headers({ location: `/pay?id=${id}`, 'cache-control': 'no-store' })
          .send();
      const options = optionsFor(request, view, null);
      const { title, main } = renderReceipt(view, options);
      return sendDocument(request, reply, { ...dress(view, options), title, main, path: '/pay/receipt' }, { secure });
    });
    pages.get('/pay/status', async (request, reply) => {
      const id = idOf(request);
      await counting.news(request);
      const version = await getVersion(ctx, { paymentId: id });
      reply.headers({ 'cache-control': 'no-store', etag: `"${version}"` });
      if (request.headers['if-none-match'] === `"${version}"`) return reply.code(304).send();
      const view = await getPaymentForCustomer(ctx, { paymentId: id });
      await counting.looked(request, view);
      return reply.send({ version: String(view.version), state: pageState(view), status: view.settlement.status });
    });
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
      if (!logo) return plain(request, reply, 404, 'notFound');
      return reply
        .headers({
          'content-type': logo.type,
          'cache-control': 'public, max-age=31536000, immutable',
          'content-security-policy': "default-src 'none'; sandbox",
          'x-content-type-options': 'nosniff',
        })
        .send(logo.bytes);
    });

    /** Runs a form's action; the page shows errors and stays usable. */
    const act = async (request: FastifyRequest, reply: FastifyReply, action: (id: string, form: URLSearchParams) => Promise<unknown>) => {
      let answer: unknown;
      const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
      const id = form.get('id') ?? '';
      const token = Buffer.from(form.get('token') ?? '');
      const wanted = Buffer.from(formToken(id));
      if (!ID.test(id) || token.length !== wanted.length || !timingSafeEqual(token, wanted))
        throw new Problem('payment_not_found', { id: '' });
      let refused: Problem | null = null;
      try {
        await counting.act(request, id);
        answer = await action(id, form);
      } catch (error) {
        if (!(error instanceof Problem) || error.code === 'payment_not_found' || error.status === 500) throw error;
        refused = error;
      }
      if (refused === null && request.headers['x-fragment'] !== '1') {
        const chosen = chosenBy(request);
        const target = (answer as { location?: string } | undefined)?.location ?? `/pay?id=${id}`;
        return reply
          .code(303)
          .header('location', `${target}${chosen ? `&lang=${chosen}` : ''}`)
          .send();
      }
      const view = await getPaymentForCustomer(ctx, { paymentId: id });
      if (refused === null) return showPayment(request, reply, view);
      return showPayment(request, reply, view, { status: refused.status, fault: faultOf(refused, form, languageOf(request, view).words) });
    };
    const coinOf = (form: URLSearchParams) => {
      const coin = form.get('currency');
      if (!isCoin(coin)) throw new Problem('currency_unknown', {}, { param: 'currency' });
      return coin;
    };
    pages.post('/pay/select', (request, reply) =>
      act(request, reply, async (id, form) => {
        const coin = coinOf(form);
        await counting.address(request, await getPaymentForCustomer(ctx, { paymentId: id }), coin);
        return chooseCoin(ctx, { paymentId: id, coin, scenario: form.get('scenario') });
      }),
    );
    pages.post('/pay/requote', (request, reply) =>
      act(request, reply, async (id) => {
        const { settlement } = await getPaymentForCustomer(ctx, { paymentId: id });
        if (settlement.coin) await chooseCoin(ctx, { paymentId: id, coin: settlement.coin });
      }),
    );
    pages.post('/pay/simulate', (request, reply) =>
      act(request, reply, (id, form) => simulateOnPage(ctx, { paymentId: id, scenario: form.get('scenario') ?? 'success' })),
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

    pages.post('/pay/cancel', (request, reply) => act(request, reply, (id) => cancelByPayer(ctx, { paymentId: id })));
    // Leads to another page, so it is always a plain form, with and without scripts.
    pages.post('/pay/again', (request, reply) =>
      act(request, reply, async (id) => ({ location: `/pay?id=${await repeatPayment(ctx, { paymentId: id })}` })),
    );
    registerLinks(pages, ctx, { counting, languageOf: (request, merchant) => languageOf(request, null, merchant.settings.locale) });

    registerLive(pages, ctx, { idOf, counting });
    registerEmbed(pages, ctx);
    registerStates(pages, ctx);
  });
}

/** The error message shown to the payer, in the language of the page. */
function faultOf(problem: Problem, form: URLSearchParams, words: PageOptions['language']['words']): Fault {
  const given = { address: (form.get('address') ?? '').slice(0, 200), email: (form.get('email') ?? '').slice(0, 200) };
  const asked = form.get('currency') ?? '';
  const coin = isCoin(asked) ? COIN[asked].asset : asked;
  if (problem.code === 'address_invalid') return { field: 'address', text: say(words.addressInvalid, { coin }), given };
  if (problem.param === 'email') return { field: 'email', text: words.emailInvalid, given };
  const texts: Readonly<Record<string, string>> = {
    rate_limit_exceeded: words.tooMany,
    price_unavailable: `${coin}: ${words.noPrice}`,
    chain_unavailable: `${coin}: ${words.noNetwork}`,
    coin_not_configured: `${coin}: ${words.noNetwork}`,
    amount_too_small: `${coin}: ${words.tooSmall}`,
  };
  return { field: null, text: texts[problem.code] ?? words.refused, given };
}
