/** The worst texts that fit a size: each is slow for some parser, hash table, regular expression or list of names. */

const fill = (part: string, size: number): string => part.repeat(Math.max(1, Math.floor(size / part.length)));
const list = (part: string, size: number): string => `[${fill(`${part},`, size - 2).slice(0, -1)}]`;
const object = (size: number, key: (i: number) => string, value = '1'): string => {
  const members: string[] = [];
  for (let i = 0, length = 2; ; i++) {
    const member = `"${key(i)}":${value}`;
    length += member.length + 1;
    if (length > size) return `{${members.join(',')}}`;
    members.push(member);
  }
};

/** Bodies of JSON, or what looks like it, of about `size` characters. */
export const hostileJson = (size: number): Readonly<Record<string, string>> => ({
  'numbers below a name that is hashed by its length': `{"${'k'.repeat(16_400)}":${list('1', Math.min(size - 16_410, 2_000))}}`,
  'as many numbers below such a name as fit': `{"${'k'.repeat(16_400)}":${list('1', size - 16_410)}}`,
  'numbers below a path of many long names': `${`{"${'k'.repeat(850)}":`.repeat(20)}${list('1', size - 17_200)}${'}'.repeat(20)}`,
  'numbers below a path that is as long as allowed': `${`{"${'k'.repeat(190)}":`.repeat(5)}${list('1', Math.min(size, 9_800))}${'}'.repeat(5)}`,
  numbers: list('1', size),
  'numbers that overflow': list('1e400', size),
  'numbers without digits': list('-', size),
  'a number of one digit after another': `{"amount":1${'0'.repeat(size - 20)}}`,
  'an exponent of one digit after another': `{"amount":1e${'9'.repeat(size - 20)}}`,
  'a fraction of one digit after another': `{"amount":0.${'1'.repeat(size - 20)}}`,
  names: object(size, (i) => `name${i}`),
  'names that differ at their ends': object(size, (i) => 'k'.repeat(190) + i),
  'names of 16,384 characters': object(size, (i) => 'k'.repeat(16_384) + i),
  'names that are positions far apart': object(size, (i) => String(4_294_967_294 - i * 65_536)),
  'names that are positions with equal low bits': object(size, (i) => String((i * 1_024) % 16_777_216)),
  'names that are misspelled': object(size, (i) => `amuont_usd${i % 97}${i}`, '""'),
  'one name again and again': object(size, () => 'amount_usd'),
  'names of built-in members': object(size, (i) => (i === 0 ? 'constructor' : `__proto__${i}`)),
  texts: list('""', size),
  'empty objects': list('{}', size),
  'rows with names that are unknown': `{"items":${list('{"colour":1,"prise":"2"}', size - 12)}}`,
  'rows inside of rows': list('{"a":{"b":{"c":[1]}}}', size),
  'metadata with many names': `{"metadata":${object(size - 14, (i) => `n${i}`, '"x"')}}`,
  'one long text': `{"email":"${'x'.repeat(size - 20)}"}`,
  'one long text of spaces': `{"email":"${' '.repeat(size - 20)}"}`,
  'an address of many points': `{"email":"${fill('a.', size - 20)}@"}`,
  'an address of many at signs': `{"email":"${fill('@', size - 20)}"}`,
  'a text of escapes': `{"email":"${fill('\\u0041', size - 20)}"}`,
  'a text of escaped quotation marks': `{"email":"${fill('\\"', size - 20)}"}`,
  'a text that does not end': `{"email":"${'x'.repeat(size - 20)}`,
  'backslashes that do not end': `{"email":"${'\\'.repeat(size - 20)}`,
  'a text that looks like queries': `{"description":"${fill('?key', size - 20)}"}`,
  'a text that looks like queries with secrets': `{"description":"${fill('?secret=&token=', size - 20)}"}`,
  'a text that looks like secrets': `{"description":"${fill('sk_live_', size - 20)}"}`,
  'a text that looks like addresses with passwords': `{"description":"${fill('//a:', size - 20)}"}`,
  'a text that looks like headers': `{"description":"${fill('Bearer ', size - 20)}"}`,
  'what looks like fields that are secret': fill('"secret":', size),
  'quotation marks': '"'.repeat(size),
  spaces: ' '.repeat(size),
  'lists that do not end': '['.repeat(size),
  'objects that do not end': fill('{"a":', size),
  'nothing but a word': `${'true'.repeat(Math.floor(size / 4))}`,
});

/** Queries of about `size` characters, without their question mark. */
export const hostileQueries = (size: number): Readonly<Record<string, string>> => ({
  'names without values': fill('a&', size),
  'different names': Array.from({ length: Math.floor(size / 8) }, (_, i) => `n${i}=1`)
    .join('&')
    .slice(0, size),
  'misspelled names': Array.from({ length: Math.floor(size / 12) }, (_, i) => `limitt${i}=1`)
    .join('&')
    .slice(0, size),
  'one name again and again': fill('limit=1&', size),
  'what looks like secrets': fill('?key', size),
  'what looks like secrets, with values': fill('?secret=&token', size),
  maps: fill('metadata[a]=1&', size),
  brackets: `metadata${'['.repeat(size - 8)}`,
  escapes: fill('%41', size),
  'escapes that are broken': fill('%4', size),
  'equals signs': '='.repeat(size),
  'plus signs': `q=${'+'.repeat(size - 2)}`,
  'one long value': `q=${'x'.repeat(size - 2)}`,
  'one long name': `${'x'.repeat(size - 2)}=1`,
  currencies: `currencies=${fill('BTC,', size - 11)}`,
});

/** Headers whose lines together have about `size` characters. */
export const hostileHeaders = (size: number): Readonly<Record<string, readonly (readonly [name: string, value: string])[]>> => {
  const lines = (part: (i: number) => readonly [string, string]): (readonly [string, string])[] => {
    const made: (readonly [string, string])[] = [];
    for (let i = 0, length = 0; ; i++) {
      const [name, value] = part(i);
      length += name.length + value.length + 4;
      if (length > size) return made;
      made.push([name, value]);
    }
  };
  const one = (name: string, part: string): readonly (readonly [string, string])[] => [[name, fill(part, size - name.length)]];
  return {
    'many lines': lines((i) => [`x-${i}`, '1']),
    'one header in many lines': lines(() => ['x-a', '1']),
    'cookies in many lines': lines(() => ['cookie', 'a=1']),
    'one long name': [['x'.repeat(size - 10), '1']],
    'many cookies': one('cookie', 'a=1; '),
    'cookies without values': one('cookie', ';'),
    'cookies of the dashboard': one('cookie', 'florin.session_token=x; '),
    'cookies of spaces': one('cookie', 'a= '),
    'a sign-in that is half done': one('cookie', '; florin.two_factor='),
    'a key that is too long': one('authorization', 'Bearer '),
    'a key of many letters': [['authorization', `Bearer ${'x'.repeat(size - 30)}`]],
    'a key of a shop that is too long': [['authorization', `token ${'x'.repeat(size - 30)}`]],
    'another key of a shop': [['x-cc-api-key', 'x'.repeat(size - 30)]],
    'an idempotency key of quotation marks': one('idempotency-key', '"'),
    'an idempotency key of backslashes': [['idempotency-key', `"${fill('\\"', size - 40)}`]],
    'a browser': one('user-agent', 'Mozilla/5.0 ('),
    'forwarded addresses': one('x-forwarded-for', '10.0.0.1, '),
    'forwarded addresses that are not valid': one('x-forwarded-for', '1.1.1.1.,'),
    languages: one('accept-language', 'en;q=0.1,'),
    'languages of hyphens': one('accept-language', 'a-'),
    encodings: one('accept-encoding', 'gzip;q=0;'),
    'an origin': [['origin', `https://${fill('a.', size - 40)}`]],
    'a type of many parts': [['content-type', `application/json;${fill('a=";', size - 40)}`]],
    'a type of spaces': [['content-type', `application/json${' '.repeat(size - 60)};`]],
    'types that are accepted': one('accept', 'text/html,'),
    'entity tags': one('if-none-match', '"1",'),
    'a range': [['range', `bytes=${fill('0-1,', size - 40)}`]],
    'a host': [['host', fill('a.', size - 40)]],
    'forwarded protocols': one('x-forwarded-proto', 'https,'),
    'events that were seen': one('last-event-id', '1.'),
  };
};

/** Forms of about `size` characters. */
export const hostileForms = (size: number): Readonly<Record<string, string>> => ({
  'fields without values': fill('a&', size),
  'one field again and again': fill('token=1&', size),
  'one long field': `token=${'x'.repeat(size - 6)}`,
  'different fields': Array.from({ length: Math.floor(size / 6) }, (_, i) => `${i}=1`)
    .join('&')
    .slice(0, size),
  escapes: `token=${fill('%41', size - 6)}`,
  'broken escapes': fill('%', size),
  'an address of points': `email=${fill('a.', size - 8)}@`,
  'plus signs': '+'.repeat(size),
});
