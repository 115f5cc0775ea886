/** Whatever JSON is stored, its readers return the type they promise. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as read from './stored-json.ts';

const ANY: readonly unknown[] = [
  undefined,
  null,
  true,
  0,
  1.5,
  -7,
  2 ** 60,
  '',
  'text',
  '12',
  '1.5',
  [],
  ['a', 1, null],
  {},
  { a: 'b', c: 1 },
];

const READERS: readonly [name: string, read: (value: unknown) => unknown, expected: (value: unknown) => boolean][] = [
  ['asObject', read.asObject, (value) => typeof value === 'object' && value !== null && !Array.isArray(value)],
  ['asList', read.asList, (value) => Array.isArray(value)],
  ['asText', read.asText, (value) => value === null || typeof value === 'string'],
  ['asBoolean', read.asBoolean, (value) => value === null || typeof value === 'boolean'],
  ['asWhole', read.asWhole, (value) => value === null || Number.isSafeInteger(value)],
  ['asBigint', read.asBigint, (value) => value === null || typeof value === 'bigint'],
  ['asTexts', read.asTexts, (value) => Array.isArray(value) && value.every((entry) => typeof entry === 'string')],
  ['asTextMap', read.asTextMap, (value) => Object.values(value as object).every((entry) => typeof entry === 'string')],
  ['asTime', read.asTime, (value) => value === null || (value instanceof Date && !Number.isNaN(value.getTime()))],
];
for (const [name, reader, expected] of READERS)
  test(`${name} never throws and never returns another type`, () => {
    for (const value of ANY) assert.ok(expected(reader(value)), JSON.stringify(value));
  });

test('what has the right type is kept as it is', () => {
  assert.deepEqual(read.asTexts(['a', 1, 'b', null]), ['a', 'b']);
  assert.deepEqual(read.asTextMap({ order: '7', count: 7, nested: { a: 'b' }, empty: '' }), { order: '7', empty: '' });
  assert.deepEqual(Object.entries(read.asTextMap(JSON.parse('{"__proto__": "x", "b": "2", "a": "1"}'))), [
    ['__proto__', 'x'],
    ['b', '2'],
    ['a', '1'],
  ]);
  assert.deepEqual(read.asTime('2026-11-21T10:00:00.000Z'), new Date(Date.UTC(2026, 10, 21, 10)));
  assert.equal(read.asTime('soon'), null);
});
