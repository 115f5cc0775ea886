/** Markdown as the guides use it -> HTML: headings, paragraphs, lists, tables, code, links, bold. Everything else is text. */
import { escapeHtml, Html } from './html.ts';

/** Where a link of a document leads; null: nowhere that is served, so that its words stay and the link goes. */
export type LinkOf = (target: string) => string | null;

/** The anchor of a heading, as other programs make it of the same words. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s-]/gu, '')
    .trim()
    .replace(/\s+/g, '-');

/** Code first, because nothing within it means anything; then links, then bold. */
function inline(text: string, linkOf: LinkOf): string {
  return text
    .split(/(`[^`]+`)/)
    .map((part, i) => {
      if (i % 2 === 1) return `<code>${escapeHtml(part.slice(1, -1).replaceAll('\\|', '|').replaceAll('&lt;', '<'))}</code>`;
      return escapeHtml(part.replaceAll('\\|', '|').replaceAll('&lt;', '<'))
        .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
        .replace(/&lt;(https?:[^\s&]+)&gt;/g, '<a href="$1">$1</a>');
    })
    .join('')
    .replace(/\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)/g, (_, words: string, target: string) => {
      const link = linkOf(target);
      return link === null ? words : `<a href="${link}">${words}</a>`;
    });
}

const cellsOf = (row: string): string[] =>
  row
    .trim()
    .replace(/^\||\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());
const ITEM = /^(\s*)(-|\d+\.)\s+(.*)$/;

/** The body of a page. Headings get the anchors of their words, or the one written as `{#anchor}` behind them. */
export function renderMarkdown(text: string, linkOf: LinkOf): Html {
  const lines = text.replace(/<!--[\s\S]*?-->\n?/g, '').split('\n');
  const out: string[] = [];
  const used = new Map<string, number>();
  let at = 0;
  const take = (wanted: (line: string) => boolean): string[] => {
    const taken: string[] = [];
    while (at < lines.length && wanted(lines[at]!)) taken.push(lines[at++]!);
    return taken;
  };
  while (at < lines.length) {
    const line = lines[at]!;
    const heading = /^(#{1,4}) (.*?)(?: \{#([\w.-]+)\})?$/.exec(line);
    if (line.trim() === '') at++;
    else if (heading) {
      const [, marks, words, given] = heading;
      const anchor = given ?? anchorOf(words!);
      const count = used.get(anchor) ?? 0;
      used.set(anchor, count + 1);
      const id = count === 0 ? anchor : `${anchor}-${count}`;
      out.push(`<h${marks!.length} id="${escapeHtml(id)}">${inline(words!, linkOf)}</h${marks!.length}>`);
      at++;
    } else if (line.startsWith('```')) {
      at++;
      const code = take((next) => !next.startsWith('```'));
      at++;
      out.push(`<pre tabindex="0"><code>${escapeHtml(code.join('\n'))}</code></pre>`);
    } else if (line.startsWith('|')) {
      const [head, , ...rows] = take((next) => next.startsWith('|')).map(cellsOf);
      const row = (cells: string[], tag: string) => `<tr>${cells.map((cell) => `<${tag}>${inline(cell, linkOf)}</${tag}>`).join('')}</tr>`;
      out.push(
        `<div class="wide" tabindex="0"><table><thead>${row(head!, 'th')}</thead><tbody>${rows.map((cells) => row(cells, 'td')).join('')}</tbody></table></div>`,
      );
    } else if (ITEM.test(line)) {
      out.push(
        list(
          take((next) => ITEM.test(next) || /^\s{2,}\S/.test(next)),
          linkOf,
        ),
      );
    } else {
      const words = take((next) => next.trim() !== '' && !/^(#{1,4} |```|\|)/.test(next) && !ITEM.test(next));
      out.push(`<p>${inline(words.join('\n'), linkOf)}</p>`);
    }
  }
  return new Html(out.join('\n'));
}

function list(lines: readonly string[], linkOf: LinkOf): string {
  const [, indent, mark] = ITEM.exec(lines[0]!)!;
  const items: { words: string; below: string[] }[] = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1]!.length === indent!.length) items.push({ words: item[3]!, below: [] });
    else items.at(-1)!.below.push(line);
  }
  const tag = mark === '-' ? 'ul' : 'ol';
  const body = items.map(({ words, below }) => {
    const nested = below.findIndex((line) => ITEM.test(line));
    const more = nested === -1 ? below : below.slice(0, nested);
    return `<li>${inline([words, ...more.map((line) => line.trim())].join('\n'), linkOf)}${nested === -1 ? '' : list(below.slice(nested), linkOf)}</li>`;
  });
  return `<${tag}>${body.join('')}</${tag}>`;
}
