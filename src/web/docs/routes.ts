/** The documentation that every install serves: guides and reference as pages and as Markdown, search, and `llms.txt`. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { apiReference } from '#http';
import { type PackedBody, packOnce, sendPacked, sendText } from '#transport';
import { browserScript, ICON } from '../checkout/shell.ts';
import { Html, html } from '../html.ts';
import { contentsOf, type Document, linksFrom, readDocuments, readImages } from './documents.ts';
import { type Heading, renderMarkdown } from './markdown.ts';
import type { SearchResult } from './search.ts';

/** The first sentence of a document for a list, without its paragraph element. */
const summary = ({ about }: Document): Html => new Html(renderMarkdown(about, () => null).body.text.replace(/^<p>|<\/p>\s*$/g, ''));

function frontPage(contents: Contents, documents: readonly Document[]): Html {
  const byPath = new Map(documents.map((document) => [document.path, document]));
  const card = ({ path, title }: { path: string; title: string }) => {
    const document = byPath.get(path);
    const about = document ? summary(document) : 'Every request and reply, with a form to try it here.';
    return html`<li><a href="${path}"><b>${title}</b><span>${about}</span></a></li>`;
  };
  return html`<h1>Florin documentation</h1>
<p>Accept cryptocurrency payments priced in your currency: create a payment over the API, send your customer to the payment page, and
ship when the webhook says that the payment is completed. New here? Start with the <a href="/docs/guides/quickstart">quick start</a>; it
takes five minutes and no real money.</p>
${contents.map(({ title, entries }) => html`<h2>${title}</h2><ul class="cards">${entries.filter(({ path }) => !/\/recipes\/./.test(path)).map(card)}</ul>`)}
<h2>For tools and language models</h2>
<ul><li><a href="/openapi.json">OpenAPI 3.1 document</a> of this install</li>
<li><a href="/llms.txt">llms.txt</a>: every page as Markdown. Add <code>.md</code> to the address of any page.</li></ul>
<h2>Health of this install</h2>
<p><a href="/healthz">/healthz</a> answers while the process runs. <a href="/readyz">/readyz</a> answers 200 when the service can work, or
lists what is missing. <code>/metrics</code> has Prometheus metrics, for this machine or with the metrics token.</p>`;
}

const results = (question: string, found: readonly SearchResult[]): Html =>
  html`<h1>Search</h1>${
    question === ''
      ? html`<p>Type what you are looking for in the field above.</p>`
      : found.length === 0
        ? html`<p>No results for “${question}”. Try fewer or other words.</p>`
        : html`<ul class="results">${found.map(
            ({ path, page, heading, excerpt }) =>
              html`<li><a href="${path}"><b>${heading}</b>${page === heading ? null : html` <small>${page}</small>`}<span>${excerpt}</span></a></li>`,
          )}</ul>`
  }`;

const llms = (url: string, documents: readonly Document[]): string => {
  const lines = (mine: readonly Document[]) =>
    mine.map(({ path, title, about }) => `- [${title}](${url}${path}.md)${about === '' ? '' : `: ${about}`}`).join('\n');
  const guides = documents.filter(({ file }) => file.startsWith('guides/'));
  return `# Florin

> A self-hosted cryptocurrency payment service: payments priced in USD over a JSON API, a hosted page where customers pay in BTC, ETH, LTC, DASH or DOGE, signed webhooks. Watch-only: it holds no key that can spend. Test mode needs no node and no money.

This install answers at ${url}. Its client and command line for developers: \`npm install ${url}/florin.tgz\`.

## Guides

${lines(guides)}

## Reference

- [API reference](${url}/docs/api.md): every request and reply
- [OpenAPI 3.1](${url}/openapi.json)
${lines(documents.filter((document) => !guides.includes(document)))}
`;
};

const FOREVER = 'public, max-age=31536000, immutable';
const headersOf = (type: string, cache = 'public, max-age=300') => ({
  'content-type': `text/${type}; charset=utf-8`,
  'cache-control': cache,
  'x-content-type-options': 'nosniff',
});

/** Created on the first request, so that it does not delay startup. */
function once<T extends NonNullable<unknown>>(make: () => T): () => T {
  let made: T | null = null;
  return () => {
    made ??= make();
    return made;
  };
}

type Text = { headers: Readonly<Record<string, string>>; read: () => Promise<PackedBody> };
const IMAGE = { 'content-type': 'image/webp', 'cache-control': 'public, max-age=300', 'x-content-type-options': 'nosniff' };

/** What is served at each path below `/docs`, and how to search it. */
function createDocs(url: string) {
  // Commands are copied from here, so they call this install.
  const documents = readDocuments().map((one) => ({ ...one, text: one.text.replaceAll('http://localhost:3000', url) }));
  const contents = contentsOf(documents);
  const texts = new Map<string, Text>();
  const text = (path: string, headers: Record<string, string>, make: () => string | Promise<string>) =>
    void texts.set(path, { headers, read: packOnce(make) });
  const page = (path: string, make: () => Omit<DocsPage, 'path'>) =>
    text(path, PAGE_HEADERS, () => pageText(contents, { path, ...make() }));
  page('/docs', () => ({ title: 'Florin documentation', body: frontPage(contents, documents) }));
  for (const { file, path, title, text: source } of documents) {
    page(path, () => ({ title: `${title} · Florin`, ...renderMarkdown(source, linksFrom(file, documents)) }));
    text(`${path}.md`, headersOf('markdown'), () => source);
  }
  for (const [path, { type, text: source }] of Object.entries(DOCS_ASSETS)) text(path, headersOf(type, FOREVER), () => source);
  text('/docs/api.md', headersOf('markdown'), async () => (await apiReference(url)).replace(/ \{#[\w.-]+\}$/gm, ''));
  text('/llms.txt', headersOf('plain'), () => llms(url, documents));
  const images = new Map(readImages().map(({ path, file }) => [path, file]));
  // Loaded on request: a fault in an example must not keep the documents from their readers.
  const search = once(async () => (await import('./search.ts')).createSearch(documents));
  return { contents, texts, images, search };
}

/** `/docs/api` itself is a page of the built app: see the dashboard's files. The documents are read for their first reader. */
export function registerDocs(app: FastifyInstance, ctx: Context): void {
  const docs = once(() => createDocs(ctx.settings.publicUrl));
  const serve = async (request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?', 1)[0]!;
    const { texts, images } = docs();
    const text = texts.get(path);
    if (text) return sendPacked(request, reply.headers(text.headers), await text.read());
    const image = images.get(path);
    if (image === undefined) return reply.callNotFound();
    return reply.headers(IMAGE).send(await readFile(image));
  };
  for (const path of ['/docs', '/docs/*', '/llms.txt']) app.get(path, serve);
  app.get<{ Querystring: { q?: unknown } }>('/docs/search', async (request, reply) => {
    const { contents, search } = docs();
    const { q } = request.query;
    const question = typeof q === 'string' ? q.trim().slice(0, 100) : '';
    const found = question === '' ? [] : (await search())(question);
    const body = results(question, found);
    reply.headers({ ...PAGE_HEADERS, vary: 'accept-encoding' });
    return sendText(request, reply, pageText(contents, { path: '/docs/search', title: 'Search · Florin', question, body }));
  });
}

// The layout of every document: search, sidebar, table of contents, previous and next page.

// The style sheet of the documentation: sidebar, document, table of contents; light and dark, one column on a phone.

const LIGHT =
  '--ink:#1c2430;--dim:#55606e;--line:#dfe4ea;--back:#fff;--soft:#f4f6f9;--link:#0b57b7;--k:#9a2a6b;--s:#0a6640;--n:#8a4b00;--c:#5f6b7a';
const DARK =
  '--ink:#e6eaf0;--dim:#a2adba;--line:#2d3742;--back:#12161c;--soft:#1b222b;--link:#8ab8ff;--k:#f5a3d0;--s:#7fdcae;--n:#ffca7a;--c:#98a5b3';

const STYLE = `
:root{color-scheme:light dark;${LIGHT}}@media(prefers-color-scheme:dark){:root{${DARK}}}
*{box-sizing:border-box}html{font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--back);scroll-padding-top:4.5rem}
body{margin:0}a{color:var(--link);text-underline-offset:.15em}:focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;z-index:3;background:var(--back);padding:.5rem 1rem}
.bar{position:sticky;top:0;z-index:2;display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1.5rem;padding:.6rem 1.25rem;background:var(--back);border-bottom:1px solid var(--line)}
.bar>a{font-weight:650;color:var(--ink);text-decoration:none}.bar form{flex:1 1 14rem;max-width:26rem;margin:0 auto;position:relative}
.bar input{width:100%;min-height:2.5rem;font:inherit;font-size:.9375rem;padding:.35rem .8rem;color:inherit;background:var(--soft);border:1px solid var(--line);border-radius:.6rem}
.frame{display:grid;grid-template-columns:15rem minmax(0,46rem) 13rem;gap:3rem;max-width:84rem;margin:0 auto;padding:0 1.25rem}
.side,.toc{position:sticky;top:3.9rem;align-self:start;max-height:calc(100vh - 3.9rem);overflow-y:auto;padding:1.75rem 0;font-size:.9375rem}
.side h2,.toc h2{margin:0 0 .35rem;font-size:.8125rem;font-weight:650;color:var(--ink)}.side ul,.toc ul{list-style:none;margin:0 0 1.25rem;padding:0}.side li,.toc li{margin:0}
.side a,.toc a{display:block;padding:.22rem .6rem;border-radius:.4rem;color:var(--dim);text-decoration:none}.side a:hover,.toc a:hover{color:var(--ink)}.side a[aria-current]{background:var(--soft);color:var(--link);font-weight:600}.toc .l3{padding-left:1.25rem}.toc a{overflow-wrap:anywhere}
.all{display:none;border-bottom:1px solid var(--line);font-size:.9375rem}.all summary{cursor:pointer;padding:.8rem 0;font-weight:600}.all h2{margin:.5rem 0 .25rem;font-size:.8125rem}.all ul{list-style:none;margin:0;padding:0}.all li{margin:0}.all a{display:block;padding:.45rem .6rem;color:inherit;text-decoration:none}.all a[aria-current]{color:var(--link);font-weight:600}
.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
main{min-width:0;padding:1.75rem 0 4rem}h1,h2,h3,h4{line-height:1.25;text-wrap:balance}h1{margin:0 0 1rem;font-size:2rem}h2{margin:2.75rem 0 .75rem;font-size:1.4rem}h3{margin:2rem 0 .5rem;font-size:1.1rem}
.here{color:var(--dim);text-decoration:none;font-weight:400;opacity:0}.here:focus-visible,:is(h2,h3,h4):hover .here{opacity:1}@media(hover:none){.here{opacity:.6}}
p,ul,ol{margin:.75rem 0;overflow-wrap:anywhere}li{margin:.35rem 0}code{background:var(--soft);border-radius:4px;padding:.1em .35em;font:.875em/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace;overflow-wrap:anywhere}
.code{position:relative;margin:1rem 0}pre{margin:0;background:var(--soft);border:1px solid var(--line);border-radius:.6rem;padding:.9rem 1rem;overflow-x:auto}pre code{background:none;padding:0;overflow-wrap:normal}
.copy{position:absolute;top:.45rem;right:.45rem;font:inherit;font-size:.8125rem;min-height:2rem;padding:.15rem .7rem;color:var(--dim);background:var(--back);border:1px solid var(--line);border-radius:.4rem;cursor:pointer}.copy:hover{color:var(--ink)}
.tab{margin:0 0 .35rem;font-weight:600;font-size:.875rem}.tabs{margin:1rem 0}.tabs .code{margin:.35rem 0 1rem}.tablist{display:flex;flex-wrap:wrap;gap:.25rem;border-bottom:1px solid var(--line)}.tablist button{font:inherit;font-size:.9375rem;min-height:2.5rem;padding:.35rem .8rem;color:var(--dim);background:none;border:0;border-bottom:2px solid transparent;cursor:pointer}.tablist [aria-selected=true]{color:var(--link);border-color:var(--link)}
main p>[loading]{max-width:100%;height:auto;margin:1rem 0;border:1px solid var(--line);border-radius:.6rem}.wide{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse;width:100%;min-width:30rem;font-size:.9375rem}th,td{text-align:left;vertical-align:top;padding:.5rem .9rem .5rem 0;border-bottom:1px solid var(--line)}td:first-child code,td code{overflow-wrap:normal}td:first-child code{white-space:nowrap}
:target{scroll-margin-top:4.5rem}h2:target,h3:target{text-decoration:underline var(--link) 2px;text-underline-offset:.3em}
.next{display:flex;flex-wrap:wrap;justify-content:space-between;gap:1rem;margin-top:3.5rem;padding-top:1.25rem;border-top:1px solid var(--line)}.next a{text-decoration:none}.next span{display:block;font-size:.8125rem;color:var(--dim)}.next a:last-child:not(:first-child){margin-left:auto;text-align:right}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.9rem;padding:0;list-style:none}.cards li{margin:0}.cards a{display:block;height:100%;padding:.9rem 1.1rem;border:1px solid var(--line);border-radius:.7rem;color:inherit;text-decoration:none}.cards a:hover{border-color:var(--link)}.cards b{display:block;color:var(--link)}.cards span{font-size:.9375rem;color:var(--dim)}
.results{list-style:none;padding:0}.results li{margin:0}.results a{display:block;padding:.7rem .9rem;border-radius:.6rem;color:inherit;text-decoration:none}.results a:hover,.results a:focus-visible{background:var(--soft)}.results b{color:var(--link)}.results small{color:var(--dim)}.results span{display:block;font-size:.9375rem;color:var(--dim);overflow-wrap:anywhere}
.bar .results{position:absolute;top:100%;left:0;right:0;margin:.35rem 0 0;max-height:70vh;overflow-y:auto;background:var(--back);border:1px solid var(--line);border-radius:.7rem;box-shadow:0 .5rem 1.5rem #0003;padding:.35rem}
.hljs-keyword,.hljs-built_in,.hljs-literal,.hljs-section,.hljs-name{color:var(--k)}.hljs-string,.hljs-regexp{color:var(--s)}.hljs-number,.hljs-attr,.hljs-attribute,.hljs-variable,.hljs-title,.hljs-symbol{color:var(--n)}.hljs-comment,.hljs-meta{color:var(--c)}
@media(max-width:75rem){.frame{grid-template-columns:15rem minmax(0,1fr)}.toc{display:none}}
@media(max-width:52rem){.bar form{position:static}.bar .results{left:.75rem;right:.75rem}.frame{display:block}.side,.bar>a:last-child{display:none}.all{display:block}h1{font-size:1.65rem}}
@media print{.bar,.side,.all,.toc,.next,.copy,.here{display:none}.frame{display:block}}
`.trim();

const named = (text: string, type: string) => `/docs/assets/${createHash('sha256').update(text).digest('hex').slice(0, 16)}.${type}`;
const SCRIPT = browserScript('docs');
const STYLE_PATH = named(STYLE, 'css');
const SCRIPT_PATH = named(SCRIPT, 'js');
/** The files that the pages load, by path. Their names change with their contents. */
const DOCS_ASSETS: Readonly<Record<string, { type: string; text: string }>> = {
  [STYLE_PATH]: { type: 'css', text: STYLE },
  [SCRIPT_PATH]: { type: 'javascript', text: SCRIPT },
};
const CSP =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

type Contents = readonly { title: string; entries: readonly { path: string; title: string }[] }[];
type DocsPage = { path: string; title: string; body: Html; headings?: readonly Heading[]; question?: string };

const groups = (contents: Contents, path: string) =>
  contents.map(
    ({ title, entries }) =>
      html`<h2>${title}</h2><ul>${entries.map(
        (entry) =>
          html`<li><a href="${entry.path}"${entry.path === path ? new Html(' aria-current="page"') : null}>${entry.title}</a></li>`,
      )}</ul>`,
  );
/** Beside the document, or collapsed above it on a phone. Only one of the two is visible. */
const sidebar = (contents: Contents, path: string): Html => {
  const links = groups(contents, path);
  return html`<nav class="side" aria-label="Documentation">${links}</nav>
<details class="all"><summary>All pages</summary><nav aria-label="All pages">${links}</nav></details>`;
};

function contentsOfPage(headings: readonly Heading[]): Html | null {
  const shown = headings.filter(({ depth }) => depth === 2 || depth === 3);
  if (shown.length < 2) return null;
  return html`<nav class="toc" aria-label="On this page"><h2>On this page</h2><ul>${shown.map(
    ({ depth, anchor, text }) => html`<li${depth === 3 ? new Html(' class="l3"') : null}><a href="#${anchor}">${text}</a></li>`,
  )}</ul></nav>`;
}

/** The previous and next page, in the order of the sidebar. */
function neighbors(contents: Contents, path: string): Html | null {
  const all = contents.flatMap(({ entries }) => entries);
  const at = all.findIndex((entry) => entry.path === path);
  if (at === -1) return null;
  const link = (entry: { path: string; title: string } | undefined, about: string) =>
    entry && html`<a href="${entry.path}"><span>${about}</span>${entry.title}</a>`;
  return html`<nav class="next" aria-label="Previous and next page">${link(all[at - 1], 'Previous')}${link(all[at + 1], 'Next')}</nav>`;
}

/** Every page is the same for everyone, so it may be cached for five minutes. */
const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': CSP,
  'cache-control': 'public, max-age=300',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
};
function pageText(contents: Contents, { path, title, body, headings = [], question = '' }: DocsPage): string {
  return html`<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>${title}</title>${ICON}
<link rel="stylesheet" href="${STYLE_PATH}"><script type="module" src="${SCRIPT_PATH}"></script></head>
<body><a class="skip" href="#document">Skip to content</a>
<header class="bar"><a href="/docs">Florin docs</a><form action="/docs/search" role="search">
<input type="search" name="q" value="${question}" placeholder="Search (press /)" aria-label="Search the documentation" autocomplete="off"
 maxlength="100"><span class="sr" role="status"></span></form><a href="/dashboard">Dashboard</a></header>
<div class="frame">${sidebar(contents, path)}<main id="document">${body}${neighbors(contents, path)}</main>${contentsOfPage(headings)}</div>
</body></html>`.text;
}
