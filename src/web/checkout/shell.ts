/** The document around every state: head, style, security policy, language switch; or only the fragment for a page that is open. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sendText } from '../../http/encoding.ts';
import { Html, html } from '../html.ts';
import { SIGNS } from './icons.ts';
import { accentSheet, BASE } from './style.ts';
import { type Language, LOCALES, TAGS } from './words.ts';

/** Browsers without scripts reload a page to show changes. */
export const REFRESH_SECONDS = 5;

/** A file as browsers receive it: without types and comments, named by a hash of its contents. */
export function browserScript(file: string): string {
  const code = stripTypeScriptTypes(readFileSync(join(import.meta.dirname, file), 'utf8'));
  const [first = '', ...parts] = code.split('/**');
  const lines = [first, ...parts.map((part) => part.slice(part.indexOf('*/') + '*/'.length))].join('').split('\n');
  return lines
    .map((line) => line.trim().replace(/ {2,}/g, ' '))
    .filter((line) => line !== '' && !line.startsWith('//'))
    .join('\n');
}
export const SCRIPT = browserScript('browser.ts');
export const SCRIPT_PATH = `/pay/assets/${createHash('sha256').update(SCRIPT).digest('hex').slice(0, 16)}.js`;

export type HtmlDocument = {
  status?: number;
  title: string;
  main: Html;
  language: Language;
  /** Language the payer chose; the switch shows the current one. */
  id?: string | null;
  theme?: 'system' | 'light' | 'dark';
  accent?: string | null;
  /** Origins that may show the page in a frame; empty forbids all. */
  origins?: readonly string[];
  /** Whether the page waits for something: that of a payment subscribes to updates, that of a link checks again. */
  live?: boolean;
  /** Seconds after which a browser without scripts reloads it. */
  refresh?: number | null;
  /** Where the language switch leads. */
  path?: string;
};

/** The icon is inlined, which saves a request. */
export const ICON = new Html(
  `<link rel="icon" href="data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" fill="#1b4fd6"/><path d="M6 12V4h5M6 8h4" fill="none" stroke="#fff" stroke-width="2"/></svg>')}">`,
);

const policies = new Map<string, string>();
function policy(styles: string, origins: readonly string[]): string {
  const ancestors = origins.length > 0 ? origins.join(' ') : "'none'";
  const key = `${styles} ${ancestors}`;
  let made = policies.get(key);
  if (!made) {
    made = `default-src 'none'; script-src 'self'; style-src ${styles}; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors ${ancestors}`;
    if (policies.size > 10_000) policies.clear();
    policies.set(key, made);
  }
  return made;
}

/** Sends a page. `secure`: whether the pages are served over HTTPS. */
export function sendDocument(
  request: FastifyRequest,
  reply: FastifyReply,
  page: HtmlDocument,
  { secure }: { secure: boolean },
): FastifyReply {
  const { words, tag, dir } = page.language;
  const { origins = [] } = page;
  const accent = page.accent ? accentSheet(page.accent) : null;
  reply.code(page.status ?? 200).headers({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy(accent ? `${BASE.hash} ${accent.hash}` : BASE.hash, origins),
    'cache-control': 'no-store',
    vary: 'x-fragment, accept-language, accept-encoding',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-robots-tag': 'noindex, nofollow',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': origins.length > 0 ? 'cross-origin' : 'same-origin',
    'permissions-policy': 'clipboard-write=(self), camera=(), microphone=(), geolocation=()',
    ...(secure && { 'strict-transport-security': 'max-age=31536000' }),
  });
  if (request.headers['x-fragment'] === '1') return sendText(request, reply, html`<title>${page.title}</title>${page.main}`.text);
  const { theme = 'system', id = null } = page;
  const forced = theme !== 'system' && html` data-theme="${theme}"`;
  const refresh = page.refresh != null && html`<noscript><meta http-equiv="refresh" content="${page.refresh}"></noscript>`;
  const own = html`${id !== null && html` data-id="${id}"`}${origins.length > 0 && html` data-origins="${origins.join(' ')}"`}`;
  const document = html`<!doctype html><html lang="${tag}" dir="${dir}"${forced}><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">
<meta name="color-scheme" content="${theme === 'system' ? 'light dark' : theme}"><title>${page.title}</title>
${ICON}${BASE.style}${accent?.style}<script src="${SCRIPT_PATH}" defer></script>${refresh}</head>
<body data-copied="${words.copied}" data-hours="${page.language.hours.join('|')}"${own}${page.live && new Html(' data-live')}>
<p class="banner off1" role="status">${words.offline}</p><p class="banner off2" role="status">${words.brokenText}</p>
${page.main}${page.path !== undefined && languageSwitch(page.language, id, page.path)}
<div id="live" class="sr" aria-live="polite"></div></body></html>`;
  return sendText(request, reply, document.text);
}

/** A plain form: it works without scripts, and the choice stays in the URL. */
function languageSwitch({ tag, words }: Language, id: string | null, path: string): Html {
  const options = TAGS.map(
    (other) => html`<option value="${other}" lang="${other}"${other === tag && new Html(' selected')}>${LOCALES[other]}</option>`,
  );
  return html`<footer class="page noprint"><details>
<summary>${SIGNS.globe}<span class="sr">${words.language}: </span><span lang="${tag}">${LOCALES[tag]}</span></summary>
<form action="${path}">${id !== null && html`<input type="hidden" name="id" value="${id}">`}
<select name="lang" aria-label="${words.language}">${options}</select><button>${words.continue}</button></form></details></footer>`;
}
