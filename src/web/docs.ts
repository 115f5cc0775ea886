/** The documents that every install carries: guides, reference and errors as pages and as Markdown, and `llms.txt`. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Context } from '../context.ts';
import { PROBLEMS } from '../core/problem.ts';
import { ROUTES } from '../http/routes.ts';
import { Html, html } from './html.ts';
import { renderMarkdown } from './markdown.ts';
import { sendPlain } from './plain.ts';
import { groupsOf, pathOf, referenceMarkdown, WHO } from './reference.ts';

const FOLDER = join(import.meta.dirname, '../../docs');
/** In the order in which a reader meets them; guides that are not named here come after. */
const ORDER = ['quickstart', 'test-mode', 'webhooks', 'frameworks', 'recipes/README', 'embedding', 'exceptions', 'going-live'].map(
  (name) => `guides/${name}.md`,
);

type Document = { file: string; path: string; title: string; about: string; text: string };

/** `guides/webhooks.md` -> `/docs/guides/webhooks`; the errors have their page already. */
const pathOfFile = (file: string): string =>
  file === 'reference/errors.md' ? '/docs/errors' : `/docs/${file.replace(/(\/README)?\.md$/, '')}`;

function readDocuments(): Document[] {
  const rank = (file: string) => (ORDER.includes(file) ? ORDER.indexOf(file) : ORDER.length);
  return globSync(['guides/**/*.md', 'reference/*.md'], { cwd: FOLDER })
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
    .map((file) => {
      const text = readFileSync(join(FOLDER, file), 'utf8').replace(/<!--[\s\S]*?-->\n/g, '');
      const [, title = file, about = ''] = /^# (.*)\n+(?:(?![#|`-])([^{}]*?(?:[.:](?=\s|$)|$)))?/.exec(text) ?? [];
      return { file, path: pathOfFile(file), title, about: about.replace(/:$/, '.').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'), text };
    });
}

/** A link within the documents as this service answers it; those to other files of the source lead nowhere here. */
const linkFrom =
  (file: string, known: ReadonlySet<string>) =>
  (target: string): string | null => {
    if (/^(https?:|#|\/)/.test(target)) return target;
    const [path = '', anchor] = target.split('#');
    const to = normalize(join(dirname(file), path));
    return known.has(to) ? `${pathOfFile(to)}${anchor === undefined ? '' : `#${anchor}`}` : null;
  };

const NAV = html`<nav aria-label="Documents"><a href="/docs">Florin</a> <a href="/docs/guides/quickstart">Quick start</a> <a href="/docs/api">API reference</a> <a href="/docs/reference">Try it</a> <a href="/docs/errors">Errors</a></nav>`;

const ERRORS = html`${NAV}<h1>Errors</h1>
<p>Every failure answers <code>{"error": {"type", "message", "param", "code", "doc_url", "request_id"}}</code>. <code>param</code> is null when no parameter is at fault. When several problems apply, the one listed first here is <code>error</code> and all of them stand in <code>errors</code>.</p>
<dl>${Object.entries(PROBLEMS).map(
  ([code, { status, type, message }]) =>
    html`<dt id="${code}"><a href="#${code}"><code>${code}</code></a> ${status} <code>${type}</code></dt><dd>${message}</dd>`,
)}</dl>`;

const overview = (guides: readonly Document[]): Html => html`<h1>Florin</h1>
<p>Cryptocurrency payments priced in USD: JSON over HTTPS. Every request carries <code>Authorization: Bearer &lt;API_KEY&gt;</code>. Paths that do not start with <code>/v1</code> answer under <code>/v1</code> too.</p>
<h2>Guides</h2>
<ul>${guides.filter(({ file }) => !/recipes\/(?!README)/.test(file)).map(({ path, title, about }) => html`<li><a href="${path}">${title}</a>${about ? html`<br>${new Html(renderMarkdown(about, () => null).text.replace(/^<p>|<\/p>$/g, ''))}` : null}</li>`)}</ul>
<h2>Reference</h2>
<ul>
<li><a href="/docs/api">Every request and reply</a>, on one page</li>
<li><a href="/docs/reference">Try it</a>: the same in the browser, with a test key of yours</li>
<li><a href="/docs/errors">Errors</a>: every code, what it means and its status</li>
<li><a href="/openapi.json">OpenAPI 3.1 document</a>, for tools and generators</li>
<li><a href="/llms.txt">llms.txt</a>: all of this as Markdown; every page has a twin that ends in <code>.md</code></li>
</ul>
${groupsOf(ROUTES).map(
  ([title, routes]) => html`<h3>${title}</h3>
<ul>${routes.map((route) => html`<li><code>${route.method} ${pathOf(route)}</code><br><a href="/docs/api#${route.handle.name}">${route.summary}</a> (${WHO[route.access]})</li>`)}</ul>`,
)}
<h2>Operation</h2>
<p><a href="/healthz">/healthz</a>: the process is alive. <a href="/readyz">/readyz</a>: it can do its work, or the reasons why not. <code>/metrics</code>: Prometheus figures, for this machine or with the metrics token.</p>`;

const llms = (url: string, documents: readonly Document[]): string => {
  const lines = (mine: readonly Document[]) =>
    mine.map(({ path, title, about }) => `- [${title}](${url}${path}.md)${about === '' ? '' : `: ${about}`}`).join('\n');
  const guides = documents.filter(({ file }) => file.startsWith('guides/'));
  return `# Florin

> A self-hosted cryptocurrency payment service: payments priced in USD over a JSON API, a hosted page where payers pay in BTC, ETH, LTC, DASH or DOGE, signed webhooks. Watch-only: it holds no key that can spend. Test mode needs no node and no money.

This install answers at ${url}. The package in \`sdk/\` of the source is its client and command line.

## Guides

${lines(guides)}

## Reference

- [API reference](${url}/docs/api.md): every request and reply
- [OpenAPI 3.1](${url}/openapi.json)
${lines(documents.filter((document) => !guides.includes(document)))}
`;
};

function sendText(reply: FastifyReply, text: string, type: 'markdown' | 'plain'): FastifyReply {
  return reply
    .headers({ 'content-type': `text/${type}; charset=utf-8`, 'cache-control': 'public, max-age=300', 'x-content-type-options': 'nosniff' })
    .send(text);
}

/** Written out when it is asked for first: no start waits for it. */
function once<T extends NonNullable<unknown>>(write: () => T): () => T {
  let written: T | null = null;
  return () => {
    written ??= write();
    return written;
  };
}

export function registerDocs(app: FastifyInstance, ctx: Context): void {
  const url = ctx.settings.publicUrl;
  const documents = readDocuments();
  const known = new Set(documents.map(({ file }) => file));
  const page = (path: string, title: string, write: () => Html): void => {
    const main = once(write);
    app.get(path, (_request, reply) => sendPlain(reply, { title, main: main(), cacheable: true }));
  };

  page('/docs', 'Florin', () => overview(documents.filter(({ file }) => file.startsWith('guides/'))));
  page('/docs/errors', 'Errors of the Florin API', () => ERRORS);
  const reference = once(() => referenceMarkdown(url));
  page('/docs/api', 'Florin API reference', () => html`${NAV}${renderMarkdown(reference(), (target) => target)}`);
  app.get('/docs/api.md', (_request, reply) => sendText(reply, reference().replace(/ \{#[\w.-]+\}$/gm, ''), 'markdown'));
  app.get('/llms.txt', (_request, reply) => sendText(reply, llms(url, documents), 'plain'));
  for (const { file, path, title, text } of documents) {
    if (path !== '/docs/errors') page(path, `${title} · Florin`, () => html`${NAV}${renderMarkdown(text, linkFrom(file, known))}`);
    app.get(`${path}.md`, (_request, reply) => sendText(reply, text, 'markdown'));
  }
}
