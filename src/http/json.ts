/** Strict JSON (RFC 8259) with one meaning: no duplicate keys, limited depth, only storable text; numbers keep their source text. */
import { Problem } from '../core/problem.ts';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type ParsedBody = {
  value: Json;
  /** Source text of each number by path, such as `items[2].unit_price`. */
  numbers: ReadonlyMap<string, string>;
};
export const EMPTY_BODY: ParsedBody = { value: {}, numbers: new Map() };
const MAX_DEPTH = 20;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;

/** Parses a body; errors: invalid_json, or parameter_invalid for text that the database cannot store. */
export function parseJson(text: string): ParsedBody {
  const numbers = new Map<string, string>();
  let at = 0;
  const fail = (reason: string): never => {
    throw new Problem('invalid_json', { reason });
  };
  const skip = () => {
    SPACE.lastIndex = at;
    SPACE.exec(text);
    at = SPACE.lastIndex;
  };
  const readString = (path: string): string => {
    STRING.lastIndex = at;
    const match = STRING.exec(text);
    if (!match) return fail(`a string that starts at character ${at} does not end properly`);
    at = STRING.lastIndex;
    const value = JSON.parse(match[0]) as string;
    if (value.includes('\u0000') || !value.isWellFormed()) {
      throw new Problem(
        'parameter_invalid',
        { reason: 'it contains characters that cannot be stored (U+0000 or half of a surrogate pair)' },
        { param: path || null },
      );
    }
    return value;
  };
  const readValue = (path: string, depth: number): Json => {
    if (depth > MAX_DEPTH) return fail(`it is nested more than ${MAX_DEPTH} levels deep`);
    skip();
    const start = text[at];
    if (start === '{') {
      at++;
      // Without a prototype, so that keys are data, including `__proto__`.
      const object: { [key: string]: Json } = Object.create(null);
      skip();
      if (text[at] === '}') {
        at++;
        return object;
      }
      for (;;) {
        skip();
        const key = readString(path);
        if (key in object) return fail(`the key "${key.slice(0, 40)}" appears twice`);
        if (key === '__proto__') return fail('the key "__proto__" is not allowed');
        skip();
        if (text[at++] !== ':') return fail(`a colon is missing after the key "${key.slice(0, 40)}"`);
        object[key] = readValue(path === '' ? key : `${path}.${key}`, depth + 1);
        skip();
        const next = text[at++];
        if (next === '}') return object;
        if (next !== ',') return fail(`a comma or } is missing at character ${at - 1}`);
      }
    }
    if (start === '[') {
      at++;
      const array: Json[] = [];
      skip();
      if (text[at] === ']') {
        at++;
        return array;
      }
      for (;;) {
        array.push(readValue(`${path}[${array.length}]`, depth + 1));
        skip();
        const next = text[at++];
        if (next === ']') return array;
        if (next !== ',') return fail(`a comma or ] is missing at character ${at - 1}`);
      }
    }
    if (start === '"') return readString(path);
    for (const [word, value] of [
      ['true', true],
      ['false', false],
      ['null', null],
    ] as const) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return value;
      }
    }
    NUMBER.lastIndex = at;
    const match = NUMBER.exec(text);
    if (!match) return fail(at >= text.length ? 'it ends before it is complete' : `character ${at} is unexpected`);
    at = NUMBER.lastIndex;
    // A key such as `items[0].unit_price` must not be mistaken for the number at that path.
    if (numbers.has(path)) return fail(`two numbers have the path ${path.slice(0, 40)}`);
    numbers.set(path, match[0]);
    return Number(match[0]);
  };
  const value = readValue('', 0);
  skip();
  if (at < text.length) fail(`there is text after its end, at character ${at}`);
  return { value, numbers };
}

/** One text for all spellings of a body: sorted keys, numbers as written. */
export const canonicalJson = (body: ParsedBody): string => writeJson(body, body.value, '', (keys) => keys.sort());

/** A part of a body as it was sent: `at` is its path. */
export const exactJson = (body: ParsedBody, part: Json, at: string): string => writeJson(body, part, at, (keys) => keys);

function writeJson({ numbers }: ParsedBody, value: Json, at: string, ordered: (keys: string[]) => string[]): string {
  const write = (item: Json, path: string): string => {
    if (Array.isArray(item)) return `[${item.map((entry, i) => write(entry, `${path}[${i}]`)).join(',')}]`;
    if (typeof item === 'object' && item !== null) {
      return `{${ordered(Object.keys(item))
        .map((key) => `${JSON.stringify(key)}:${write(item[key]!, path === '' ? key : `${path}.${key}`)}`)
        .join(',')}}`;
    }
    return typeof item === 'number' ? numbers.get(path)! : JSON.stringify(item);
  };
  return write(value, at);
}
