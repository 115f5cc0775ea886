/** The documentation that every install serves: guides and reference as pages and as Markdown, search, and `llms.txt`. */

import { readFile } from 'node:fs/promises';
import type { FastifyInstance } from 'fastify';
import type { Context } from '../../context.ts';
import { packOnce, sendPacked, sendText } from '../../http/encoding.ts';
import { apiReference } from '../../http/on-demand.ts';
import { Html, html } from '../html.ts';
import { contentsOf, type Document, linksFrom, readDocuments, readImages } from './documents.ts';
import { type Contents, DOCS_ASSETS, type DocsPage, PAGE_HEADERS, pageText } from './layout.ts';
import { renderMarkdown } from './markdown.ts';
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

/** `/docs/api` itself is a page of the built app: see the dashboard's files. */
export function registerDocs(app: FastifyInstance, ctx: Context): void {
  const url = ctx.settings.publicUrl;
  const documents = readDocuments();
  const contents = contentsOf(documents);
  // Loaded on request: a fault in an example must not keep the service from starting.
  const search = once(async () => (await import('./search.ts')).createSearch(documents));
  const text = (path: string, headers: Record<string, string>, make: () => string | Promise<string>): void => {
    const packed = packOnce(make);
    app.get(path, async (request, reply) => sendPacked(request, reply.headers(headers), await packed()));
  };
  const page = (path: string, make: () => Omit<DocsPage, 'path'>): void =>
    text(path, PAGE_HEADERS, () => pageText(contents, { path, ...make() }));

  page('/docs', () => ({ title: 'Florin documentation', body: frontPage(contents, documents) }));
  for (const { file, path, title, text: source } of documents) {
    page(path, () => ({ title: `${title} · Florin`, ...renderMarkdown(source, linksFrom(file, documents)) }));
    text(`${path}.md`, headersOf('markdown'), () => source);
  }
  app.get<{ Querystring: { q?: unknown } }>('/docs/search', async (request, reply) => {
    const { q } = request.query;
    const question = typeof q === 'string' ? q.trim().slice(0, 100) : '';
    const found = question === '' ? [] : (await search())(question);
    const body = results(question, found);
    reply.headers({ ...PAGE_HEADERS, vary: 'accept-encoding' });
    return sendText(request, reply, pageText(contents, { path: '/docs/search', title: 'Search · Florin', question, body }));
  });
  for (const [path, { type, text: source }] of Object.entries(DOCS_ASSETS)) text(path, headersOf(type, FOREVER), () => source);
  for (const { path, file } of readImages())
    app.get(path, async (_request, reply) =>
      reply
        .headers({ 'content-type': 'image/webp', 'cache-control': 'public, max-age=300', 'x-content-type-options': 'nosniff' })
        .send(await readFile(file)),
    );
  text('/docs/api.md', headersOf('markdown'), async () => {
    const reference = await apiReference(url);
    return reference.replace(/ \{#[\w.-]+\}$/gm, '');
  });
  text('/llms.txt', headersOf('plain'), () => llms(url, documents));
}
