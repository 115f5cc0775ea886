/** Strict JSON (RFC 8259) with one meaning: no duplicate names, limited size, only storable text; numbers keep their source text. */
import { Problem } from '#core/problem';
import { LONGEST_JSON_NAME, LONGEST_JSON_PATH, MOST_JSON_DEPTH, MOST_JSON_VALUES } from '#core/text';

export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };
/** Source texts of numbers, by the list or object that contains them. */
type Numbers = ReadonlyMap<object, ReadonlyMap<string | number, string>>;
/** `refused`: what is wrong with its names; reported together with what is wrong with its values. */
export type ParsedBody = { value: JsonValue; numbers: Numbers; refused?: readonly Problem[] };
export const EMPTY_BODY: ParsedBody = { value: {}, numbers: new Map() };

/** Contains a body that is just a number. */
const OUTSIDE = {};
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORDS = [
  ['true', true],
  ['false', false],
  ['null', null],
] as const;
const [TAB, LINE_FEED, RETURN, SPACE, QUOTE, BACKSLASH] = [9, 10, 13, 32, 34, 92];

/** Parses a body; errors: invalid_json, or parameter_invalid for text that the database cannot store. */
export function parseJson(text: string): ParsedBody {
  const reading: Reading = { text, at: 0, values: 0, numbers: new Map() };
  const value = readValue(reading, ROOT);
  skipSpace(reading);
  if (reading.at < text.length) fail(`there is text after its end, at character ${reading.at}`);
  return { value, numbers: reading.numbers };
}

/** How far a body is read. Every step moves on in the text, so a body takes time in proportion to its length. */
type Reading = { readonly text: string; at: number; values: number; readonly numbers: Map<object, Map<string | number, string>> };

/** Where a value is. Its path is built only for an error, because most values need none. */
type Place = { holder: object; key: string | number; above: Place | null; depth: number; pathLength: number };
const ROOT: Place = { holder: OUTSIDE, key: '', above: null, depth: 0, pathLength: 0 };

function pathOf({ key, above }: Place): string {
  if (above === null) return '';
  const before = pathOf(above);
  return typeof key === 'number' ? `${before}[${key}]` : before === '' ? key : `${before}.${key}`;
}

function placeIn(above: Place, holder: object, key: string | number): Place {
  const pathLength = above.pathLength + (typeof key === 'number' ? 2 + String(key).length : 1 + key.length);
  if (pathLength > LONGEST_JSON_PATH) fail(`the path of a value has more than ${LONGEST_JSON_PATH} characters`);
  return { holder, key, above, depth: above.depth + 1, pathLength };
}

function fail(reason: string): never {
  throw new Problem('invalid_json', { reason });
}

function skipSpace(reading: Reading): void {
  const { text } = reading;
  let code = text.charCodeAt(reading.at);
  while (code === SPACE || code === LINE_FEED || code === RETURN || code === TAB) code = text.charCodeAt(++reading.at);
}

function readValue(reading: Reading, place: Place): JsonValue {
  if (place.depth > MOST_JSON_DEPTH) fail(`it is nested more than ${MOST_JSON_DEPTH} levels deep`);
  if (++reading.values > MOST_JSON_VALUES) fail(`it contains more than ${MOST_JSON_VALUES} values`);
  skipSpace(reading);
  const start = reading.text[reading.at];
  if (start === '{') return readObject(reading, place);
  if (start === '[') return readArray(reading, place);
  if (start === '"') return readString(reading, place);
  for (const [word, value] of WORDS) {
    if (!reading.text.startsWith(word, reading.at)) continue;
    reading.at += word.length;
    return value;
  }
  return readNumber(reading, place);
}

function readObject(reading: Reading, place: Place): JsonValue {
  // Without a prototype, so that keys are data, including `__proto__`.
  const object: { [key: string]: JsonValue } = Object.create(null);
  reading.at++;
  skipSpace(reading);
  if (reading.text[reading.at] === '}') {
    reading.at++;
    return object;
  }
  for (;;) {
    skipSpace(reading);
    const key = readString(reading, place);
    if (key.length > LONGEST_JSON_NAME) fail(`the key "${key.slice(0, 40)}..." has more than ${LONGEST_JSON_NAME} characters`);
    if (key in object) fail(`the key "${key.slice(0, 40)}" appears twice`);
    if (key === '__proto__') fail('the key "__proto__" is not allowed');
    skipSpace(reading);
    if (reading.text[reading.at++] !== ':') fail(`a colon is missing after the key "${key.slice(0, 40)}"`);
    object[key] = readValue(reading, placeIn(place, object, key));
    skipSpace(reading);
    const next = reading.text[reading.at++];
    if (next === '}') return object;
    if (next !== ',') fail(`a comma or } is missing at character ${reading.at - 1}`);
  }
}

function readArray(reading: Reading, place: Place): JsonValue {
  const array: JsonValue[] = [];
  reading.at++;
  skipSpace(reading);
  if (reading.text[reading.at] === ']') {
    reading.at++;
    return array;
  }
  for (;;) {
    array.push(readValue(reading, placeIn(place, array, array.length)));
    skipSpace(reading);
    const next = reading.text[reading.at++];
    if (next === ']') return array;
    if (next !== ',') fail(`a comma or ] is missing at character ${reading.at - 1}`);
  }
}

function readString(reading: Reading, place: Place): string {
  const start = reading.at;
  const end = endOfString(reading.text, start);
  const value = end === null ? null : unescaped(reading.text.slice(start, end));
  if (end === null || value === null) return fail(`a string that starts at character ${start} does not end properly`);
  reading.at = end;
  if (value.includes('\u0000') || !value.isWellFormed()) {
    throw new Problem(
      'parameter_invalid',
      { reason: 'it contains characters that cannot be stored (U+0000 or half of a surrogate pair)' },
      { param: pathOf(place) || null },
    );
  }
  return value;
}

/** The position behind the closing quotation mark; null if there is none. */
function endOfString(text: string, start: number): number | null {
  if (text.charCodeAt(start) !== QUOTE) return null;
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code === BACKSLASH) at++;
    else if (code < SPACE) return null;
  }
  return null;
}

/** Null for an escape that does not exist, and for a character that must be escaped. */
function unescaped(quoted: string): string | null {
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return null;
  }
}

function readNumber(reading: Reading, { holder, key }: Place): number {
  NUMBER.lastIndex = reading.at;
  const written = NUMBER.exec(reading.text)?.[0];
  if (written === undefined)
    return fail(reading.at >= reading.text.length ? 'it ends before it is complete' : `character ${reading.at} is unexpected`);
  reading.at += written.length;
  let held = reading.numbers.get(holder);
  if (held === undefined) {
    held = new Map();
    reading.numbers.set(holder, held);
  }
  held.set(key, written);
  return Number(written);
}

/** The source text of the number at a path such as `items[2].unit_price`; undefined if there is another value, or none. */
export function writtenAt({ value, numbers }: ParsedBody, path: string): string | undefined {
  let holder: object = OUTSIDE;
  let key: string | number = '';
  let at: JsonValue | undefined = value;
  for (const part of path.split(/[.[\]]+/)) {
    if (part === '') continue;
    if (typeof at !== 'object' || at === null) return undefined;
    holder = at;
    key = Array.isArray(at) ? Number(part) : part;
    at = (at as Record<string | number, JsonValue>)[key];
  }
  return numbers.get(holder)?.get(key);
}

/** One text for all spellings of a body: sorted keys, numbers as written. */
export const canonicalJson = ({ value, numbers }: ParsedBody): string =>
  writeJson(numbers, { value, holder: OUTSIDE, key: '' }, (keys) => keys.sort());

/** A list or an object of a body as it was sent. */
export const exactJson = ({ numbers }: ParsedBody, part: object): string =>
  writeJson(numbers, { value: part as JsonValue, holder: OUTSIDE, key: '' }, (keys) => keys);

type Held = { value: JsonValue; holder: object; key: string | number };
function writeJson(numbers: Numbers, { value, holder, key }: Held, ordered: (keys: string[]) => string[]): string {
  const write = (at: JsonValue, inside: object, name: string | number): string => {
    if (Array.isArray(at)) return `[${at.map((entry, i) => write(entry, at, i)).join(',')}]`;
    if (typeof at === 'object' && at !== null) {
      return `{${ordered(Object.keys(at))
        .map((member) => `${JSON.stringify(member)}:${write(at[member]!, at, member)}`)
        .join(',')}}`;
    }
    return typeof at === 'number' ? numbers.get(inside)!.get(name)! : JSON.stringify(at);
  };
  return write(value, holder, key);
}
