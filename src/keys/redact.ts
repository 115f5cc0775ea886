/** The part of a request that the log keeps: cut, then redacted, then shortened. Everything takes time in proportion to the text. Pure. */
import { MOST_LOGGED_READ } from '../core/bounds.ts';

const GONE = '[redacted]';
/** Names of fields whose values are redacted. */
const SECRET_NAME =
  /secret|password|passphrase|token|authorization|api[_-]?key|private|mnemonic|recovery_phrase|seed|signature|credential|card_?number|cvc/i;
/** Names of query parameters whose values are redacted, besides those of fields. */
const SECRET_PARAMETER = /key|sig|auth|code/i;
/** Secrets recognized by their form: API keys, signing secrets, extended private keys, bearer headers. */
const SECRET_SHAPE =
  /\b(?:(?:sk|pk)_(?:live|test)|(?:live|test)_(?:sk|pk)|whsec)_[\w+/=-]+|\b[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{20,}|\bBearer(?:\s|%20|\+)+[\w.~+/=-]+/gi;
/** `https://user:password@host`, also as the value of a query parameter. */
const IN_URL = /(\/\/|%2f%2f)(?:(?!%40|%2f)[^/\s"'@?#])+(@|%40)/gi;
/** The token of a claim page. */
const IN_CLAIM = /(\/claim\/|%2fclaim%2f)\w+/gi;

const MOST_KEPT = 2_048;
/** A secret up to this length is never cut in half. */
const LONGEST_SECRET = 1_024;

/** The beginning of a text that is searched. It ends between two words, so that it does not end in the middle of a secret. */
function beginning(text: string, most: number): string {
  if (text.length <= most) return text;
  let end = most;
  while (end > most - LONGEST_SECRET && !/[\s"&,]/.test(text[end]!)) end--;
  return text.slice(0, Math.max(0, end));
}
const isSpace = (character: string | undefined): boolean => character !== undefined && /\s/.test(character);
const skipSpace = (text: string, from: number): number => {
  let at = from;
  while (isSpace(text[at])) at++;
  return at;
};

/** Behind the text in quotation marks that begins at `start`, which may not end. */
function endOfText(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return Math.min(at + 1, text.length);
}

/** Behind the JSON value that begins at `start`, which may not end. */
function endOfValue(text: string, start: number): number {
  if (text[start] === '"') return endOfText(text, start);
  let at = start;
  if (text[start] !== '{' && text[start] !== '[') {
    while (at < text.length && !/[\s,}\]]/.test(text[at]!)) at++;
    return at;
  }
  for (let depth = 0; at < text.length; ) {
    const character = text[at];
    if (character === '"') {
      at = endOfText(text, at);
      continue;
    }
    at++;
    if (character === '{' || character === '[') depth++;
    else if ((character === '}' || character === ']') && --depth === 0) break;
  }
  return at;
}

/** Some programs escape `/` or `&` in JSON, and every character may be escaped: one spelling, so that escapes hide nothing. */
const unescapeJson = (text: string): string =>
  text.replace(/\\(?:u00([2-7][0-9a-f])|[\s\S])/gi, (written: string, code: string | undefined) => {
    const char = code === undefined ? written.slice(1) : String.fromCharCode(Number.parseInt(code, 16));
    const isPlain = code === undefined ? char === '/' : char !== '"' && char !== '\\' && char !== '\u007f';
    return isPlain ? char : written;
  });

/** Redacts the values of secret fields in JSON, and in text that is almost JSON or ends in the middle of it. */
function redactFields(text: string): string {
  let redacted = '';
  let copied = 0;
  let lastQuote = -1;
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) {
    const colon = skipSpace(text, at + 1);
    const isName = text[colon] === ':' && lastQuote >= copied && SECRET_NAME.test(text.slice(lastQuote + 1, at));
    lastQuote = at;
    if (!isName) continue;
    const value = skipSpace(text, colon + 1);
    const end = endOfValue(text, value);
    if (end === value || text.slice(value, end) === 'null') continue;
    redacted += `${text.slice(copied, value)}"${GONE}"`;
    copied = end;
    at = end - 1;
  }
  return redacted + text.slice(copied);
}

const isSecretParameter = (name: string): boolean => SECRET_PARAMETER.test(name) || SECRET_NAME.test(name);

/** Redacts `?token=...` and `#token=...` of an address. A name may contain question marks: what begins at the first of them counts. */
function redactQuery(text: string): string {
  let redacted = '';
  let copied = 0;
  /** Where the name of a parameter begins; -1 outside of one. */
  let name = -1;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (character === '&' || character === '#' || (character === '?' && name < 0)) name = at + 1;
    else if (character === '"' || isSpace(character)) name = -1;
    else if (character === '=') {
      const isSecret = name >= 0 && isSecretParameter(text.slice(name, at));
      name = -1;
      if (!isSecret) continue;
      redacted += `${text.slice(copied, at + 1)}${GONE}`;
      while (at + 1 < text.length && !/[&#"\s]/.test(text[at + 1]!)) at++;
      copied = at + 1;
    }
  }
  return redacted + text.slice(copied);
}

const redactText = (text: string): string =>
  redactQuery(text.replace(SECRET_SHAPE, GONE).replace(IN_URL, `$1${GONE}$2`)).replace(IN_CLAIM, `$1${GONE}`);
/** PostgreSQL stores neither NUL nor half of a surrogate pair. */
const storable = (text: string): string => text.replaceAll('\u0000', '\ufffd').toWellFormed();
const shorten = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
const redactStart = (text: string, { read, kept }: { read: number; kept: number }): string =>
  storable(shorten(redactText(beginning(text, read)), kept));

/** A redacted body of at most 2048 characters. The last character that is read only shows that there are more. */
export const redactBody = (text: string): string =>
  storable(shorten(redactText(redactFields(unescapeJson(beginning(text, MOST_LOGGED_READ - 1)))), MOST_KEPT));

/** As much of a body as `redactBody` looks at, as a copy, so that a long body is not kept in memory. */
export function startOfBody(body: string | Uint8Array): string {
  const most = MOST_LOGGED_READ;
  if (body.length <= most) return typeof body === 'string' ? body : Buffer.from(body).toString();
  // A character has at most three bytes for each of its UTF-16 units.
  const start = typeof body === 'string' ? Buffer.from(body.slice(0, most)) : Buffer.from(body.subarray(0, 3 * most));
  return start.toString().slice(0, most);
}

/** A parameter name, redacted in case it is a secret. */
export const redactName = (name: string): string => redactStart(name, { read: 2_000, kept: 120 });

/** Escapes of letters, digits and underscores mean the same as these (RFC 3986, section 6.2.2.2), and the router decodes them. */
const unescapeWords = (text: string): string =>
  text.replace(/%[2-7][0-9a-f]/gi, (sequence) => {
    const char = String.fromCharCode(Number.parseInt(sequence.slice(1), 16));
    return /\w/.test(char) ? char : sequence;
  });

/** The redacted path and query of a URL. Both have one spelling, so that a part of them is found. */
export function redactUrl(url: string): { path: string; query: string | null } {
  const at = url.indexOf('?');
  const path = at < 0 ? url : url.slice(0, at);
  const query = at < 0 ? '' : url.slice(at);
  // Escaped or not, a key in a path has no meaning to any route.
  const start = (part: string, sizes: { read: number; kept: number }) =>
    redactStart(unescapeWords(part.slice(0, 3 * sizes.read + 3)), sizes);
  return {
    path: start(path, { read: 1_000, kept: 200 }),
    query: query === '' ? null : start(query, { read: 2_000, kept: 500 }).slice(1),
  };
}
