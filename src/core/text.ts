/**
 * Text from strangers: cut to a length that can be stored, refused when it acts instead of being shown, and made safe to print. Web addresses
 * and CSV are read and written here too.
 */
import { Problem } from './problem.ts';

/**
 * Characters that act instead of being shown: control characters, which a terminal or a mail program obeys, other separators of
 * lines and paragraphs, and controls of the direction of text, with which a text shows another one (UAX #9).
 */
const ACTING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
const EACH_ACTING = new RegExp(ACTING, 'gu');

/**
 * The first `most` UTF-16 units of a text, without half of a surrogate pair at the end: PostgreSQL refuses that in `jsonb`, and
 * `encodeURIComponent` throws.
 */
export const cutText = (text: string, most: number): string =>
  text
    .slice(0, most)
    .replace(/[\ud800-\udbff]$/, '')
    .toWellFormed();

/** An address without slashes at its end, so that a path can follow. */
export function withoutEndSlashes(text: string): string {
  let end = text.length;
  while (text[end - 1] === '/') end--;
  return text.slice(0, end);
}

/** What is not shown and has no place in a name, letters without a shape too. The two joiners are needed in Persian and Indic names, and in emoji. */
const UNSEEN = /[^\P{C}\u200c\u200d]|[\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/u;
const EACH_UNSEEN = new RegExp(UNSEEN, 'gu');
/** Whether nothing of a line can be seen. */
const isBlank = (line: string): boolean => !/[\p{L}\p{N}\p{P}\p{S}]/u.test(line.replace(EACH_UNSEEN, ''));

/** Whether the text is one line of characters that can be seen, spaces included. */
export const isPrintableLine = (text: string): boolean => !ACTING.test(text);

/**
 * A name or reference as somebody typed it, without spaces around it. It is refused if nothing is left, or if it contains line breaks,
 * control characters or direction marks. Errors: parameter_invalid.
 */
export function printableLine(text: string, param: string): string {
  const line = text.trim();
  if (isBlank(line) || !isPrintableLine(line))
    throw new Problem('parameter_invalid', { reason: 'it must be one line of visible characters' }, { param });
  return line;
}

/** A name that a shop sent: what could not be shown becomes a space. */
export const toPrintableLine = (text: string): string => text.replace(EACH_ACTING, ' ').trim();

/** Text for a terminal: characters that act are written as in JSON, such as `\u001b`, so that nothing in it can be obeyed. */
export const showControls = (text: string): string =>
  text.replace(EACH_ACTING, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
/** The same for text of several lines, whose line breaks are ours. */
export const showLines = (text: string): string => text.split('\n').map(showControls).join('\n');
/** The same for each text within a value, so that whatever prints it prints nothing that acts. */
export function showAll(value: unknown): unknown {
  if (typeof value === 'string') return showControls(value);
  if (Array.isArray(value)) return value.map(showAll);
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [showControls(name), showAll(item)]));
}

/** Most characters of the name of a person or business. */
const MOST_NAME = 60;
/** What mail programs turn into a link: with a scheme, with `www.`, or a host, also without a path. */
const LINK =
  /:\/\/|\bwww\.|\b(?:mailto|tel|sms|data|javascript):\S|[\p{L}\p{N}\p{M}_-]\.(?:\p{L}{2}|xn--)|(?<!\d)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\d)/iu;
/** As programs read an address: other forms of letters and dots count, and what is not shown does not. */
const asAddress = (text: string): string =>
  text
    .normalize('NFKC')
    .replace(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')
    .replace(/[。｡]/g, '.');
/** Whether a mail program may turn a part of the text into a link. */
export const hasLink = (text: string): boolean => LINK.test(asAddress(text));

/**
 * The name of a person or business, as emails to others contain it: one line of up to 60 visible characters without a
 * web address. Errors: parameter_invalid.
 */
export function readName(text: string, param: string): string {
  const refuse = (reason: string): never => {
    throw new Problem('parameter_invalid', { reason }, { param });
  };
  const name = text.trim();
  if (UNSEEN.test(name) || isBlank(name)) refuse('it must be one line of visible characters');
  if ([...name].length > MOST_NAME) refuse(`it must have at most ${MOST_NAME} characters`);
  if (hasLink(name)) refuse('it must not contain a web address; put a space after each dot that is not part of a number');
  return name;
}

/** The same text as one line of at most `most` characters that no mail program turns into a link. */
export function harmless(text: string, most = MOST_NAME): string {
  const line = text.slice(0, 10_000).toWellFormed().replace(EACH_UNSEEN, ' ').replace(/\s+/gu, ' ').trim();
  const plain = hasLink(line)
    ? asAddress(line)
        .replace(/[.:/\\@]+/g, ' ')
        .replace(/ +/g, ' ')
        .trim()
    : line;
  const characters = [...plain];
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : plain;
}

// CSV (RFC 4180): written so that spreadsheets read no cell as a formula, and read with the number of each line.

/** Characters that start a formula in spreadsheets, including full-width forms, and blanks, which some spreadsheets skip. */
const FORMULA = /^\s*[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

/** Formats a cell. Texts that would be read as a formula get a leading apostrophe; plain numbers stay numbers. */
export function csvCell(value: string | null): string {
  if (value === null) return '';
  const safe = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n;\t]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
export const csvLine = (values: readonly (string | null)[]): string => `${values.map(csvCell).join(',')}\r\n`;

/** A record, and the line of the file on which it begins, from 1. */
export type CsvRecord = { line: number; cells: readonly string[] };
/** A field in quotation marks, which are doubled inside, or one without. Then the separator, the end of the line, or that of the text. */
const FIELD = (separator: string): RegExp => new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n]*))(${separator}|\\r?\\n|\\r|$)`, 'y');

/**
 * Reads CSV. The first line decides whether commas, semicolons or tabs separate the cells, because spreadsheets write all three. Blank
 * lines are left out, and blanks around cells too. Returns the number of the line that cannot be read instead, if there is one, or null
 * in its place if there are too many cells.
 */
export function readCsv(text: string): CsvRecord[] | { brokenLine: number | null } {
  const plain = text.replace(/^\ufeff/, '');
  const [first = ''] = plain.split(/\r?\n|\r/, 1);
  const separator = first.includes('\t') ? '\t' : first.includes(';') ? ';' : ',';
  const field = FIELD(separator);
  const records: CsvRecord[] = [];
  let [line, start] = [1, 1];
  let cells: string[] = [];
  let count = 0;
  while (field.lastIndex < plain.length || cells.length > 0) {
    const found = field.exec(plain);
    if (!found) return { brokenLine: line };
    if (++count > MOST_CSV_CELLS) return { brokenLine: null };
    const [all, quoted, bare = '', end] = found;
    cells.push((quoted === undefined ? bare : quoted.replaceAll('""', '"')).trim());
    line += all.match(/\r?\n|\r/g)?.length ?? 0;
    if (end === separator) continue;
    if (cells.some((cell) => cell !== '')) records.push({ line: start, cells });
    [cells, start] = [[], line];
  }
  return records;
}

// The one reader of web addresses that are stored and later shown or opened, so that no page fails on one that was accepted.

/** An address for people: as it was written, except that a host in another script is in its ASCII form. */
type WebUrl = { text: string; url: URL };

/**
 * An absolute http or https address that every parser reads alike: without spaces, control characters, backslashes and credentials, and
 * without placeholders in its host. Null for everything else.
 */
export function parseWebUrl(text: string): WebUrl | null {
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined || /[\p{Cc}\s\\"<>]/u.test(text) || /[@{}]/.test(authority)) return null;
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '' || url.hostname === '') return null;
  return { text: /^[\x21-\x7e]+$/.test(authority) ? text : text.replace(authority, () => url.host), url };
}

/** The host of an address that was stored; null if it cannot be read, because older versions accepted more. */
export const hostOfUrl = (text: string): string | null => URL.parse(text)?.host ?? null;

// The bounds of what others write: request lines, headers, bodies, and what of them is searched or logged. What exceeds a bound is refused
// before anything is done with it, or cut before it is read. Each bound is far above what honest clients send, and low enough that the
// worst text within it costs a few milliseconds.

// Bodies of JSON
/** Bytes of a body, unless a route takes files. A hundred order lines take 40 kB. */
export const MOST_BODY_BYTES = 65_536;
/** Levels of lists and objects. The deepest documented body has three. */
export const MOST_JSON_DEPTH = 20;
/** Values in a body, with those inside of others. A hundred order lines have 500. Each costs memory many times its text. */
export const MOST_JSON_VALUES = 5_000;
/** Characters of a name. V8 hashes texts above 16,383 characters by their length, so that all of them collide. */
export const LONGEST_JSON_NAME = 200;
/** Characters of the path to a value, such as `items[2].unit_price`, which errors and hints contain. */
export const LONGEST_JSON_PATH = 1_000;

// Request lines, headers and forms
/** Characters of a path with its query. Node already limits all header lines together to 16 kB. */
export const LONGEST_URL = 8_000;
/** Parameters of a query or of a form. No route takes more than thirty. */
export const MOST_PARAMETERS = 100;
/** Characters of the name of a query parameter. */
export const LONGEST_PARAMETER_NAME = 200;
/** Header lines. Browsers send about 20, and proxies add as many. */
export const MOST_HEADERS = 100;
/** Bytes of a form of the payment pages. The longest field is a return address. */
export const MOST_FORM_BYTES = 8_192;
/** Characters of a quoted Idempotency-Key: each of its 255 may be escaped. */
export const LONGEST_IDEMPOTENCY_HEADER = 512;
/** Characters of an origin: a host name has at most 253. */
export const LONGEST_ORIGIN = 300;

// Files
/** Cells of a CSV file, empty ones and blank lines included: a thousand rows of fifty. */
export const MOST_CSV_CELLS = 50_000;

// Logs
/** Characters of a body that the request log looks at, twice what it keeps: a secret is found whole before the text is cut. */
export const MOST_LOGGED_READ = 4_096;
/** Characters of a text in a line of the process log, and entries of a list or an object. */
export const LONGEST_LOG_TEXT = 4_000;
export const MOST_LOG_ENTRIES = 50;

/** Letters left out, added, replaced, or swapped with their neighbor (optimal string alignment); stops counting beyond `most`. */
export function mistakesBetween(a: string, b: string, most = Number.POSITIVE_INFINITY): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY;
      row.push(Math.min(last[j]! + 1, row[j - 1]! + 1, replaced, swapped));
    }
    if (Math.min(...row, ...last) > most) return most + 1;
    before = last;
    last = row;
  }
  return last[b.length]!;
}
