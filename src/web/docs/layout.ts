/** The layout of every document: search, sidebar, table of contents, previous and next page. */
import { createHash } from 'node:crypto';
import { browserScript, ICON } from '../checkout/shell.ts';
import { Html, html } from '../html.ts';
import type { Heading } from './markdown.ts';
import { STYLE } from './style.ts';

const named = (text: string, type: string) => `/docs/assets/${createHash('sha256').update(text).digest('hex').slice(0, 16)}.${type}`;
const SCRIPT = browserScript('../docs/browser.ts');
const STYLE_PATH = named(STYLE, 'css');
const SCRIPT_PATH = named(SCRIPT, 'js');
/** The files that the pages load, by path. Their names change with their contents. */
export const DOCS_ASSETS: Readonly<Record<string, { type: string; text: string }>> = {
  [STYLE_PATH]: { type: 'css', text: STYLE },
  [SCRIPT_PATH]: { type: 'javascript', text: SCRIPT },
};
const CSP =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export type Contents = readonly { title: string; entries: readonly { path: string; title: string }[] }[];
export type DocsPage = { path: string; title: string; body: Html; headings?: readonly Heading[]; question?: string };

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
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': CSP,
  'cache-control': 'public, max-age=300',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
};
export function pageText(contents: Contents, { path, title, body, headings = [], question = '' }: DocsPage): string {
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
