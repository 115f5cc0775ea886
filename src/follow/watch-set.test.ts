import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { createWatchSet, outpointBytes } from './watch-set.ts';

const keyOf = (i: number): string => `0014${createHash('sha256').update(String(i)).digest('hex').slice(0, 40)}`;

test('of 300,000 keys each is found, as text and within bytes, and of 300,000 others none', () => {
  const set = createWatchSet();
  for (let i = 0; i < 300_000; i++) set.add(keyOf(i));
  for (let i = 0; i < 300_000; i++) {
    const key = keyOf(i);
    if (!set.has(key) || !set.hasBytes(Buffer.from(`ff${key}ff`, 'hex'), 1, 23)) assert.fail(`${key} is missing`);
    if (set.has(keyOf(-1 - i))) assert.fail(`${keyOf(-1 - i)} was never added`);
  }
});

test('keys that differ in length, in one bit or in trailing zeros are distinguished', () => {
  const set = createWatchSet();
  set.add('0014aabbcc');
  for (const other of ['0014aabbcc00', '0014aabb', '0014aabbcd', '1014aabbcc', '']) assert.equal(set.has(other), false, other);
  set.add('0014aabbcc');
  assert.equal(set.has('0014aabbcc'), true);
});

test('an outpoint has the bytes by which a transaction refers to it', () => {
  const bytes = Buffer.from(outpointBytes(`${'00'.repeat(31)}0a:258`)!);
  assert.equal(bytes.toString('hex'), `0a${'00'.repeat(31)}02010000`);
  assert.equal(outpointBytes('0xabc:5'), null);
});
