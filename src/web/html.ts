/** HTML from templates: every inserted value is text, unless the same function created it. */
import { createHash } from 'node:crypto';
import type { FastifyReply } from 'fastify';

export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}
const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => ENTITIES[char]!);

type Part = string | number | Html | null | false | undefined | readonly Part[];
const put = (part: Part): string =>
  part === null || part === false || part === undefined
    ? ''
    : part instanceof Html
      ? part.text
      : Array.isArray(part)
        ? part.map(put).join('')
        : escapeHtml(String(part));

/** Tagged template: `html`<p>${text}</p>`` escapes `text`; null and false leave nothing. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Html =>
  new Html(strings.reduce((out, string, i) => out + string + (i < parts.length ? put(parts[i]) : ''), ''));

// Text-only pages: one narrow column, no scripts, no external resources.

const STYLE =
  'body{font:16px/1.55 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1.25rem;color:#1c2430;background:#fff}' +
  'code{background:#eef1f5;border-radius:4px;padding:.1em .35em;font-size:.9em;overflow-wrap:anywhere}li{margin:.5rem 0}' +
  'pre{background:#eef1f5;border-radius:8px;padding:.9rem 1rem;overflow-x:auto;line-height:1.45}pre code{background:none;padding:0;overflow-wrap:normal}' +
  '.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;min-width:32rem;font-size:.95em}th,td{text-align:left;vertical-align:top;padding:.4rem .75rem .4rem 0;border-bottom:1px solid #d5dbe3}th code,td code{overflow-wrap:normal}td:first-child code{white-space:nowrap}' +
  'nav{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}h1,h2,h3{line-height:1.25;scroll-margin-top:1rem}h2{margin-top:2.5rem}h3{margin-top:2rem}' +
  'a{color:#0b57b7}dt{margin-top:1.25rem;scroll-margin-top:1rem}dd{margin:.25rem 0 0}dt:target{outline:2px solid #0b57b7;outline-offset:.25rem}' +
  '@media(prefers-color-scheme:dark){body{color:#e6eaf0;background:#12161c}code,pre{background:#242c36}th,td{border-color:#38424e}a{color:#8ab8ff}dt:target{outline-color:#8ab8ff}}';
const CSP = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
const style = new Html(`<style>${STYLE}</style>`);

/** Sends a page. Set `cacheable` only if everyone may see the same page. */
export function sendPlain(
  reply: FastifyReply,
  { status = 200, title, main, cacheable = false }: { status?: number; title: string; main: Html; cacheable?: boolean },
): FastifyReply {
  return reply
    .code(status)
    .headers({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': CSP,
      'cache-control': cacheable ? 'public, max-age=300' : 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-robots-tag': 'noindex',
    })
    .send(
      html`<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>${title}</title>${style}</head>
<body><main>${main}</main></body></html>`.text,
    );
}
