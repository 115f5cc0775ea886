/** Identifiers: their format, their distribution, and the stable IDs of events. */
import assert from 'node:assert/strict';
import { createSecretKey, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { base62, eventId, ID_PATTERN, newId } from './id.ts';

test('an identifier is its prefix and 24 letters and digits, and is never repeated', () => {
  const ids = Array.from({ length: 20_000 }, () => newId('pay', randomBytes));
  for (const id of ids) assert.match(id, /^pay_[0-9A-Za-z]{24}$/);
  for (const prefix of ['we', 'mer', 'key', 'del', 'req', 'wal'] as const) assert.match(newId(prefix, randomBytes), ID_PATTERN);
  assert.equal(new Set(ids).size, ids.length);
});

test('all letters are equally likely', () => {
  const text = base62(620_000, randomBytes);
  assert.equal(text.length, 620_000);
  const counts = new Map<string, number>();
  for (const letter of text) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  assert.equal(counts.size, 62);
  // Ten thousand of each are expected, with a standard deviation of a hundred. Without rejection, eight letters would appear a fifth more.
  for (const [letter, count] of counts) assert.ok(Math.abs(count - 10_000) < 700, `${letter}: ${count}`);
});

test('bytes that would favor some letters are discarded, and more are requested', () => {
  const given = [Uint8Array.of(255, 248, 0, 247), Uint8Array.of(62, 1)];
  const asked: number[] = [];
  const text = base62(4, (bytes) => {
    asked.push(bytes);
    return given.shift()!;
  });
  assert.equal(text, '0z01');
  assert.deepEqual(asked, [8, 4]);
});

test('the identifier of an event depends only on what happened and on the install', () => {
  const key = createSecretKey(Buffer.alloc(32, 1));
  const id = eventId(key, ['pay_1', 'payment.created', '0']);
  assert.match(id, /^evt_[0-9A-Za-z]{24}$/);
  assert.equal(eventId(createSecretKey(Buffer.alloc(32, 1)), ['pay_1', 'payment.created', '0']), id);
  assert.notEqual(eventId(createSecretKey(Buffer.alloc(32, 2)), ['pay_1', 'payment.created', '0']), id);
  // Parts are joined unambiguously.
  const apart = [['ab', 'c'], ['a', 'bc'], ['abc'], ['abc', ''], ['a', 'b', 'c'], ['a"', '"b'], ['a","b'], []];
  assert.equal(new Set(apart.map((parts) => eventId(key, parts))).size, apart.length);
});
