/** Full-text search over the documents and the operations of the API, by section, typo-tolerant. */
import { setImmediate } from 'node:timers/promises';
import MiniSearch from 'minisearch';
import { listOperations } from '#http';
import type { Document } from './documents.ts';
import { sectionsOf } from './markdown.ts';

/** `path` includes the anchor; `excerpt` is plain text around the first match. */
export type SearchResult = { path: string; page: string; heading: string; excerpt: string };

type Entry = { id: number; path: string; page: string; heading: string; text: string };

const MAX_RESULTS = 20;
const MAX_WORDS = 8;
const EXCERPT = 160;

const sectionEntries = ({ path, title, text }: Document): Omit<Entry, 'id'>[] =>
  sectionsOf(text).map((section) => ({
    path: section.anchor === '' ? path : `${path}#${section.anchor}`,
    page: title,
    heading: section.heading,
    text: section.text,
  }));
const operationEntries = (): Omit<Entry, 'id'>[] =>
  listOperations().map(({ anchor, summary, address }) => ({
    path: `/docs/api#${anchor}`,
    page: 'API reference',
    heading: summary,
    text: address,
  }));

/** A page about the subject comes before sections that mention it, and guides before lists in which everything has its name. */
function weightOf(path: string, asksForCode: boolean): number {
  const page = path.includes('#') ? 1 : 3;
  if (asksForCode) return page;
  return path.startsWith('/docs/errors') ? 0.05 * page : /^\/docs\/(api|reference\/|guides\/recipes\/)/.test(path) ? 0.3 * page : page;
}

/** The part of `text` around the first of the words, cut at spaces. */
function excerptOf(text: string, words: readonly string[]): string {
  const flat = text.replace(/\s+/g, ' ').trim();
  const lower = flat.toLowerCase();
  const first = Math.min(...words.map((word) => lower.indexOf(word)).filter((at) => at >= 0), flat.length);
  const from = first >= flat.length || first < 60 ? 0 : flat.indexOf(' ', first - 60) + 1;
  const cut = flat.slice(from, from + EXCERPT);
  const to = from + EXCERPT >= flat.length ? cut.length : cut.lastIndexOf(' ');
  return `${from > 0 ? '… ' : ''}${cut.slice(0, to)}${from + to < flat.length ? ' …' : ''}`;
}

/** Builds the index, once and in small steps between which the service answers others; the search returns at most 20 sections, best first, and considers at most 8 words of the query. */
export async function createSearch(documents: readonly Document[]): Promise<(question: string) => SearchResult[]> {
  const index = new MiniSearch<Entry>({
    fields: ['heading', 'page', 'text'],
    storeFields: ['path', 'page', 'heading', 'text'],
    searchOptions: {
      boost: { heading: 4, page: 2 },
      prefix: true,
      combineWith: 'AND',
      // A transposition of two letters is two edits.
      fuzzy: (term) => (term.length > 6 ? 2 : term.length > 4 ? 1 : false),
    },
  });
  let id = 0;
  for (const document of [...documents, null]) {
    const entries = document === null ? operationEntries() : sectionEntries(document);
    await index.addAllAsync(entries.map((entry) => ({ id: id++, ...entry })));
    await setImmediate();
  }
  return (question) => {
    // As the index splits text, so that punctuation does not make more words of one.
    const words = question
      .toLowerCase()
      .split(/[\s\p{P}]+/u, 10 * MAX_WORDS)
      .filter(Boolean)
      .slice(0, MAX_WORDS);
    const asksForCode = /[a-z]_[a-z]/.test(question);
    return index
      .search(words.join(' '), { boostDocument: (_id, _term, entry) => weightOf(String(entry?.path), asksForCode) })
      .slice(0, MAX_RESULTS)
      .map(({ path, page, heading, text, terms }) => ({ path, page, heading, excerpt: excerptOf(text, terms.length > 0 ? terms : words) }));
  };
}
