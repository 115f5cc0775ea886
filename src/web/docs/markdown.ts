/** Markdown of the documents -> HTML, with anchors, highlighted code and code tabs. Raw HTML in a document stays text. */
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import nginx from 'highlight.js/lib/languages/nginx';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { Marked, type Token, type Tokens } from 'marked';
import { escapeHtml, Html } from '../html.ts';

const LANGUAGES = { bash, go, ini, javascript, json, nginx, php, python, ruby, typescript, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/**
 * Returns where a link of a document leads, with the title of the document there; null when this service does not serve its target, so
 * only the words are shown.
 */
export type LinkOf = (target: string) => { to: string; title?: string } | null;
export type Heading = { depth: number; anchor: string; text: string };
/** A rendered document: its HTML and its headings in order. */
type RenderedMarkdown = { body: Html; headings: readonly Heading[] };

/** The anchor that GitHub gives to a heading with these words. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s+/g, '-');

/** The words of inline tokens, without markup. */
const plainText = (tokens: readonly Token[]): string =>
  tokens
    .map((token) =>
      'tokens' in token && token.tokens ? plainText(token.tokens) : token.type !== 'html' && 'text' in token ? unescaped(token.text) : '',
    )
    .join('');
const unescaped = (text: string): string =>
  text.replace(/&(lt|gt|quot|amp|#39);/g, (_, name: string) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name]!);

/** Headings of a document as Marked reads them, each with a unique anchor: its words, or the one written as `{#anchor}` after them. */
function anchored(tokens: readonly Token[]): Map<Token, Heading> {
  const headings = new Map<Token, Heading>();
  const used = new Map<string, number>();
  for (const token of tokens) {
    if (token.type !== 'heading') continue;
    const written = plainText(token.tokens ?? []);
    const [, text = written, given] = /^(.*?)(?: \{#([\w.-]+)\})?$/.exec(written) ?? [];
    const anchor = given ?? anchorOf(text);
    const count = used.get(anchor) ?? 0;
    used.set(anchor, count + 1);
    headings.set(token, { depth: token.depth, text, anchor: count === 0 ? anchor : `${anchor}-${count}` });
  }
  return headings;
}

/** `js Node.js` -> highlighted with the grammar of `js`, under the tab `Node.js`. */
function codeParts({ lang = '', text }: Tokens.Code): { language: string; tab: string; body: string } {
  const language = lang.split(/\s/, 1)[0]!;
  const tab = lang.slice(language.length).trimStart();
  const known = hljs.getLanguage(language) !== undefined;
  return { language, tab, body: known ? hljs.highlight(text, { language }).value : escapeHtml(text) };
}
const codeBlock = ({ language, body }: { language: string; body: string }): string =>
  `<div class="code"${language === '' ? '' : ` data-language="${escapeHtml(language)}"`}><pre tabindex="0"><code>${body}</code></pre></div>`;

/** Consecutive code blocks with tab names become tabs; without scripts all of them are shown, each under its name. */
function withTabs(tokens: readonly Token[]): (Token | Tokens.Code[])[] {
  const grouped: (Token | Tokens.Code[])[] = [];
  for (const token of tokens) {
    const last = grouped.at(-1);
    const isTab = token.type === 'code' && codeParts(token as Tokens.Code).tab !== '';
    if (isTab && Array.isArray(last)) last.push(token as Tokens.Code);
    else if (isTab) grouped.push([token as Tokens.Code]);
    else if (!(token.type === 'space' && Array.isArray(last))) grouped.push(token);
  }
  return grouped;
}
const tabs = (blocks: readonly Tokens.Code[]): string =>
  `<div class="tabs">${blocks
    .map(codeParts)
    .map((part) => `<section aria-label="${escapeHtml(part.tab)}"><p class="tab">${escapeHtml(part.tab)}</p>${codeBlock(part)}</section>`)
    .join('')}</div>`;

/** A picture of a guide, below docs/images. All are of one size: see scripts/shop-screenshots.ts. */
const IMAGE = /^(?:\.\.\/)+images\/(shops\/[\w-]+\.webp)$/;

/** An empty anchor is the only HTML that a document may contain. */
const ANCHOR = /^<a id="([\w.-]+)">$/;

export function renderMarkdown(source: string, linkOf: LinkOf): RenderedMarkdown {
  let headings = new Map<Token, Heading>();
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading(token) {
        const { anchor, depth, text } = headings.get(token)!;
        const words = this.parser.parseInline(token.tokens).replace(/ \{#[\w.-]+\}$/, '');
        const link = depth === 1 ? '' : ` <a class="here" href="#${escapeHtml(anchor)}" aria-label="Link to: ${escapeHtml(text)}">#</a>`;
        return `<h${depth} id="${escapeHtml(anchor)}">${words}${link}</h${depth}>\n`;
      },
      code: (token) => codeBlock(codeParts(token)),
      html: ({ text }) => (ANCHOR.test(text) || text === '</a>' ? text : escapeHtml(text)),
      image: ({ href, text }) => {
        const path = IMAGE.exec(href)?.[1];
        return path === undefined
          ? escapeHtml(text)
          : `<img src="/docs/images/${path}" alt="${escapeHtml(text)}" width="1100" height="760" loading="lazy">`;
      },
      link({ href, tokens }) {
        const target = linkOf(href);
        // A link whose text is a file name, as GitHub shows it, gets the document's title here.
        const words = target?.title && /\.md$/.test(plainText(tokens)) ? escapeHtml(target.title) : this.parser.parseInline(tokens);
        return target === null ? words : `<a href="${escapeHtml(target.to)}">${words}</a>`;
      },
      table(token) {
        const row = (cells: readonly Tokens.TableCell[], tag: string) =>
          `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')}</tr>`;
        return `<div class="wide" tabindex="0"><table><thead>${row(token.header, 'th')}</thead><tbody>${token.rows.map((cells) => row(cells, 'td')).join('')}</tbody></table></div>\n`;
      },
    },
  });
  const tokens = marked.lexer(withoutComments(source));
  headings = anchored(tokens);
  const body = withTabs(tokens)
    .map((part) => (Array.isArray(part) ? tabs(part) : marked.parser([part])))
    .join('');
  return { body: new Html(body), headings: [...headings.values()] };
}

/** A document without its comments, each with the line break after it. */
export function withoutComments(source: string): string {
  const [first = '', ...parts] = source.split('<!--');
  const rest = parts.map((part) => {
    const end = part.indexOf('-->');
    return end === -1 ? `<!--${part}` : part.slice(end + '-->'.length).replace(/^\n/, '');
  });
  return first + rest.join('');
}

/** A part of a document for the search: from one heading to the next. */
type Section = { anchor: string; heading: string; text: string };
/** The sections of a document as plain words, including code. */
export function sectionsOf(source: string): Section[] {
  const tokens = new Marked({ gfm: true }).lexer(withoutComments(source));
  const headings = anchored(tokens);
  const sections: Section[] = [];
  for (const token of tokens) {
    const heading = headings.get(token);
    if (heading) sections.push({ anchor: heading.depth === 1 ? '' : heading.anchor, heading: heading.text, text: '' });
    else if (sections.length > 0) sections.at(-1)!.text += `${wordsOf(token)}\n`;
  }
  return sections;
}
function wordsOf(token: Token): string {
  if (token.type === 'table') {
    const { header, rows } = token as Tokens.Table;
    return [header, ...rows].map((row) => row.map((cell) => plainText(cell.tokens)).join(' ')).join('\n');
  }
  if (token.type === 'list') return (token as Tokens.List).items.map((item) => item.tokens.map(wordsOf).join(' ')).join('\n');
  return 'tokens' in token && token.tokens
    ? plainText(token.tokens)
    : token.type !== 'html' && 'text' in token
      ? unescaped(token.text as string)
      : '';
}
