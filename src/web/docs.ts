/** The reference that every install carries: `/docs`, and `/docs/errors`, where the `doc_url` of an error leads. */
import type { FastifyInstance } from 'fastify';
import { PROBLEMS } from '../core/problem.ts';
import type { Access } from '../http/gate.ts';
import { ROUTES } from '../http/routes.ts';
import { html } from './html.ts';
import { sendPlain } from './plain.ts';

const WHO: Readonly<Record<Access, string>> = { secret: 'secret key', any: 'secret or public key', secret_test: 'secret test key' };

const OVERVIEW = html`<h1>Florin API</h1>
<p>JSON over HTTPS. Every request carries <code>Authorization: Bearer &lt;API_KEY&gt;</code>. Paths that do not start with <code>/v1</code> answer under <code>/v1</code> too.</p>
<ul>
<li><a href="/openapi.json">OpenAPI 3.1 document</a>: every request and reply, for tools and generators</li>
<li><a href="/docs/errors">Errors</a>: every code, what it means and its status</li>
</ul>
<h2>Endpoints</h2>
<ul>${ROUTES.map(
  ({ method, path, access, summary }) =>
    html`<li><code>${method} ${path.replace(/:(\w+)/g, '{$1}')}</code><br>${summary} (${WHO[access]})</li>`,
)}</ul>
<h2>Operation</h2>
<p><a href="/healthz">/healthz</a>: the process is alive. <a href="/readyz">/readyz</a>: it can do its work, or the reasons why not. <code>/metrics</code>: Prometheus figures, for this machine or with the metrics token.</p>`;

const ERRORS = html`<h1>Errors</h1>
<p>Every failure answers <code>{"error": {"type", "message", "param", "code", "doc_url", "request_id"}}</code>. <code>param</code> is null when no parameter is at fault. When several problems apply, the one listed first here is <code>error</code> and all of them stand in <code>errors</code>. <a href="/docs">The API</a></p>
<dl>${Object.entries(PROBLEMS).map(
  ([code, { status, type, message }]) =>
    html`<dt id="${code}"><a href="#${code}"><code>${code}</code></a> ${status} <code>${type}</code></dt><dd>${message}</dd>`,
)}</dl>`;

export function registerDocs(app: FastifyInstance): void {
  app.get('/docs', (_request, reply) => sendPlain(reply, { title: 'Florin API', main: OVERVIEW, cacheable: true }));
  app.get('/docs/errors', (_request, reply) => sendPlain(reply, { title: 'Errors of the Florin API', main: ERRORS, cacheable: true }));
}
