/** The built app: built in a child process when it is missing or older than its sources, then served from memory. */

import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { MODES } from '#core/coin';
import { type Locale, matchLocale } from '#core/locales';
import { Problem } from '#core/problem';
import { contactOf, findSetup, getMerchant, THEMES } from '#merchants';
import { findApp } from '#operate';
import { readPairing } from '#shops';
import { type PackedBody, readPacked, sendPacked } from '#transport';
import { BuildToolsMissing } from '../build-tools.ts';
import { renderPage } from '../checkout/page.ts';
import { sendDocument } from '../checkout/shell.ts';
import { acceptedLocales } from '../checkout/words.ts';
import { html, sendPlain } from '../html.ts';
import { buildApp } from './build.ts';
import type { FirstData } from './first-data.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/**
 * The interactive reference writes styles at run time: its own style sheet, `style` attributes, and those of its editor, which do not
 * support a nonce. Its scripts are served like all other files, and it may not contact other hosts.
 */
const REFERENCE_CSP = CSP.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'");

/** The page that connects a shop also sends a form there, and nowhere else. */
function policyFor({ url }: FastifyRequest): string {
  const [path = '', query = ''] = url.split('?', 2);
  const ask = /^\/dashboard\/(?:live|test)\/shops\/authorize$/.test(path) ? new URLSearchParams(query).getAll('ask').at(-1) : undefined;
  const origin = ask === undefined ? null : readPairing(ask).origin;
  return origin === null ? CSP : CSP.replace("form-action 'self'", `form-action 'self' ${origin}`);
}

const HEADERS = {
  'referrer-policy': 'same-origin',
  'x-robots-tag': 'noindex',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/** Data for scripts of the page. Browsers do not run it, and nothing in it can end the element. */
const dataBlock = (data: object): string =>
  `<script type="application/json" id="first-data">${JSON.stringify(data).replaceAll('<', '\\u003c')}</script>`;

type File = { type: string; packed: PackedBody };

/** The signer page also has a policy of its own, which allows only its script. Nothing may leave it, whatever serves it. */
const SIGNER_CSP =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** A failed build is tried again by a visit after this long. */
const RETRY_MS = 30_000;

/** Null for pages without data. */
type ReadFirst = (request: FastifyRequest, reply: FastifyReply) => Promise<FirstData | null>;

/** The files of the built app, cached in memory. Starts a build if there is none. */
function createAppFiles(ctx: Context) {
  const files = new Map<string, Promise<File | null>>();
  let folder: string | null = null;
  let building: Promise<void> | null = null;
  let failedAt = Number.NEGATIVE_INFINITY;
  /** Why it can't be built, for the reader of the page. */
  let reason = 'See the service log for the reason.';
  const build = (): Promise<void> =>
    buildApp(ctx.log).then(
      () => {},
      (error) => {
        failedAt = ctx.clock.monotonicMs();
        if (error instanceof BuildToolsMissing) reason = error.message;
        ctx.log.error({ err: error }, 'Could not build the dashboard');
      },
    );
  return {
    /** Why the last build failed; null during a build. */
    failure: (): string | null => (building === null ? reason : null),
    /** The folder of the built app; null during the build. */
    async ready(): Promise<string | null> {
      folder ??= await findApp();
      if (folder === null && building === null && ctx.clock.monotonicMs() - failedAt > RETRY_MS)
        building = build().finally(() => {
          building = null;
        });
      return folder;
    },
    load(root: string, path: string): Promise<File | null> {
      const known = files.get(path);
      if (known) return known;
      const file = readPacked(join(root, path)).then(
        (packed) => ({ type: TYPES[extname(path)] ?? 'application/octet-stream', packed }),
        () => null,
      );
      // Caches only existing files, so that requests for made-up paths do not fill the memory.
      files.set(path, file);
      void file.then((found) => {
        if (!found) files.delete(path);
      });
      return file;
    },
  };
}

const sendFile = (request: FastifyRequest, reply: FastifyReply, file: File, cache: string) =>
  sendPacked(request, reply.headers({ 'content-type': file.type, 'cache-control': cache }), file.packed);

/** Shown instead of the app: a build is running, or it failed. */
function sendUnbuilt(reply: FastifyReply, failure: string | null) {
  reply.header('refresh', '2');
  const main =
    failure === null
      ? html`<h1>Building the dashboard</h1><p>This takes a few seconds after an install or an upgrade. The page opens automatically.</p>`
      : html`<h1>The dashboard couldn’t be built</h1><p>${failure}</p><p>Payments are not affected. This page retries automatically.</p>`;
  return sendPlain(reply, { status: 503, title: 'Florin', main });
}

export function registerFiles(app: FastifyInstance, ctx: Context, { firstData }: { firstData: ReadFirst }): void {
  const files = createAppFiles(ctx);
  app.get<{ Params: { name: string } }>('/dashboard/assets/:name', { exposeHeadRoute: false }, async (request, reply) => {
    const root = await files.ready();
    const { name } = request.params;
    const file = root !== null && /^[\w.-]+\.(js|css|svg)$/.test(name) ? await files.load(root, `assets/${name}`) : null;
    if (!file) return reply.code(404).type('text/plain').send('not found');
    return sendFile(request, reply, file, 'public, max-age=31536000, immutable');
  });
  const page = async (request: FastifyRequest, reply: FastifyReply, { name, csp }: { name: string; csp: string }) => {
    const root = await files.ready();
    const file = root === null ? null : await files.load(root, name);
    if (!file) return sendUnbuilt(reply, files.failure());
    reply.headers({ ...HEADERS, 'content-security-policy': csp });
    return sendFile(request, reply, file, 'no-store');
  };
  const screenFiles = createScreenFiles();
  const wordsFile = createWordsFiles();
  /** The app, with what its first screen shows. Personal data is not compressed. */
  const appPage = async (request: FastifyRequest, reply: FastifyReply) => {
    // Without the data, the app asks for it and shows what failed.
    const [root, data] = await Promise.all([files.ready(), firstData(request, reply).catch(() => null)]);
    const links = root === null ? [] : await screenFiles(root, data?.signed_in === false ? '/dashboard/sign-in' : request.url);
    if (links.length > 0) reply.header('link', links.map((link) => `</dashboard/${link}>; rel=modulepreload`).join(', '));
    const file = root === null ? null : await files.load(root, 'index.html');
    const words = root === null ? null : await wordsFile(root, request);
    const csp = policyFor(request);
    if (file === null) return page(request, reply, { name: 'index.html', csp });
    reply.headers({ ...HEADERS, 'content-security-policy': csp, 'content-type': file.type, 'cache-control': 'no-store' });
    const text = file.packed.plain.toString();
    const inLanguage = words === null ? text : withWords(text, words);
    return reply.send(data === null ? inLanguage : inLanguage.replace('</body>', () => `${dataBlock(data)}</body>`));
  };
  app.get('/dashboard', { exposeHeadRoute: false }, appPage);
  app.get('/docs/api', { exposeHeadRoute: false }, (request, reply) =>
    page(request, reply, { name: 'reference.html', csp: REFERENCE_CSP }),
  );
  app.get('/signer.html', { exposeHeadRoute: false }, (request, reply) => page(request, reply, { name: 'signer.html', csp: SIGNER_CSP }));
  // The former URL of the interactive reference.
  app.get('/docs/reference', { exposeHeadRoute: false }, (_request, reply) => reply.redirect('/docs/api', 308));
  app.get('/dashboard/*', { exposeHeadRoute: false }, async (request, reply) => {
    if (request.url.startsWith('/dashboard/api/')) return reply.callNotFound();
    return appPage(request, reply);
  });
  registerSetup(app, ctx);
}

/** The set-up link. */
function registerSetup(app: FastifyInstance, ctx: Context): void {
  // The token is in the fragment, which browsers do not send to servers, so no log contains it, and which they keep on redirects. Links
  // printed by older versions have it in the query. Opening the page does not use up the token.
  app.get<{ Querystring: { token?: unknown } }>('/setup', { exposeHeadRoute: false }, async (request, reply) => {
    const { token } = request.query;
    if (token === undefined) return reply.code(303).headers({ location: '/dashboard/set-up', 'cache-control': 'no-store' }).send();
    const owner = typeof token === 'string' && token.length <= 64 ? await findSetup(ctx, { token }) : null;
    if (owner)
      return reply
        .code(303)
        .headers({ location: `/dashboard/set-up#${token}`, 'cache-control': 'no-store' })
        .send();
    return sendPlain(reply, {
      status: 404,
      title: 'Set up Florin',
      main: html`<h1>This link is not valid</h1><p>It was used already, or never existed. Use the set-up link that the service printed at its last start,
<a href="/dashboard">sign in</a>, or create a merchant with <code>./florin merchant create</code>.</p>`,
    });
  });
}

type Manifest = Readonly<Record<string, { file: string; imports?: readonly string[] }>>;

/**
 * The scripts of a screen by its URL: named in the reply to the page, they are fetched with the entry script, which otherwise requests
 * them only once it runs. None for screens whose file is not named after their path.
 */
function createScreenFiles(): (root: string, url: string) => Promise<string[]> {
  let known: { root: string; manifest: Promise<Manifest> } | null = null;
  return async (root, url) => {
    const found = /^\/dashboard(?:\/(?:test|live))?(?:\/([a-z-]{1,30}))?\/?(?:\?|$)/.exec(url);
    if (found === null) return [];
    const name = found[1] ?? 'home';
    if (known?.root !== root)
      known = {
        root,
        manifest: readFile(join(root, '.vite/manifest.json'), 'utf8').then(
          (text) => JSON.parse(text) as Manifest,
          () => ({}),
        ),
      };
    const manifest = await known.manifest;
    const places = [`${name}/${name}`, name, `settings/${name}`, `${name}/list`];
    const screen = places.map((place) => `screens/${place}.tsx`).find((key) => Object.hasOwn(manifest, key));
    if (screen === undefined) return [];
    const files = new Set<string>();
    const take = (key: string): void => {
      const chunk = manifest[key];
      if (!chunk || files.has(chunk.file)) return;
      files.add(chunk.file);
      for (const more of chunk.imports ?? []) take(more);
    };
    take(screen);
    return [...files];
  };
}

type Words = { language: Locale; file: string };
/** The page in its language: its words are set before its scripts run. */
const withWords = (text: string, { language, file }: Words): string =>
  text
    .replace('<html lang="en">', () => `<html lang="${language}">`)
    .replace('<script type="module"', (script) => `<script type="module" src="/dashboard/${file}"></script>\n    ${script}`);

/** What the person chose in this browser, else the first language of the browser that the dashboard has, else English. */
function createWordsFiles(): (root: string, request: FastifyRequest) => Promise<Words | null> {
  let known: { root: string; files: Promise<Readonly<Record<string, string>>> } | null = null;
  return async (root, { headers }) => {
    const chosen = /(?:^|; )florin_language=([\w-]{2,10})(?:;|$)/.exec(headers.cookie ?? '')?.[1];
    const asked = chosen === undefined ? acceptedLocales(headers['accept-language'] ?? '') : [chosen];
    if (known?.root !== root)
      known = {
        root,
        files: readFile(join(root, 'languages.json'), 'utf8').then(
          (text) => JSON.parse(text) as Record<string, string>,
          () => ({}),
        ),
      };
    const files = await known.files;
    for (const language of [...asked.map(matchLocale), 'en' as const]) {
      const file = language === null ? undefined : files[language];
      if (language !== null && file !== undefined) return { language, file };
    }
    return null;
  };
}

// Preview of the payment page: the real page in every state, from sample payments, with unsaved settings.

const LONGEST = 300;

export function registerPreview(
  app: FastifyInstance,
  ctx: Context,
  { enter }: { enter: (request: FastifyRequest) => Promise<{ merchantId: string }> },
): void {
  for (const mode of MODES) {
    app.get(`/dashboard/api/${mode}/settings/checkout/preview`, { exposeHeadRoute: false }, async (request, reply) => {
      const merchant = await getMerchant(ctx, await enter(request));
      const asked = (name: string): string | null => {
        const value = (request.query as Record<string, unknown>)[name];
        return typeof value === 'string' && value.length <= LONGEST ? value : null;
      };
      const { fixtureOptions, fixturesAt } = await import('../checkout/states.ts');
      const fixture = fixturesAt(ctx.clock.now()).find(({ name }) => name === asked('state'));
      if (!fixture) throw new Problem('parameter_invalid', { reason: 'it must be a state of the payment page' }, { param: 'state' });
      const { settings, name, logo } = merchant;
      const accent = asked('accent') ?? settings.accent;
      const offered = asked('currencies')?.split(',') ?? settings.coins;
      const view = {
        ...fixture.view,
        coins: fixture.view.coins.filter(({ coin }) => offered === null || offered.includes(coin)),
        merchant: {
          name,
          logo,
          contact: asked('support') ?? contactOf(settings),
          accent: accent !== null && /^#[0-9a-f]{6}$/i.test(accent) ? accent : null,
          theme: settings.theme,
          locale: settings.locale,
          origins: [],
          autoReturn: false,
          kiosk: false,
          payerCancel: asked('payer_cancel') === null ? settings.payerCancel : asked('payer_cancel') === 'yes',
        },
      };
      const locale = asked('locale') ?? settings.locale;
      const options = fixtureOptions(fixture, (locale === null ? null : matchLocale(locale)) ?? 'en', ctx.settings.ethChainId);
      const { title, main } = renderPage(view, options);
      return sendDocument(
        request,
        reply,
        {
          ...{ title, main, language: options.language, accent: view.merchant.accent },
          theme: THEMES.find((theme) => theme === asked('theme')) ?? settings.theme,
          // Only the dashboard shows it in a frame.
          origins: ["'self'"],
        },
        { secure: ctx.settings.publicUrl.startsWith('https:') },
      );
    });
  }
}
