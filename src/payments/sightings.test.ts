/** Which transfers sightings are, without a database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Owned, pairPegouts } from './sightings.ts';

const at = new Date('2026-01-01T00:00:00Z');
const pegout = (ref: string, units: bigint, paymentId = 'pay_1'): Owned => ({
  key: '0014aa',
  ref,
  txid: ref.split(':')[0]!,
  units,
  kind: 'pegout',
  spends: [],
  lock: null,
  owner: { paymentId, merchantId: 'mer_1', address: 'ltc1', createdAt: at },
});
const row = (ref: string, units: bigint, mined = false, txid = ref.split(':')[0]!, paymentId = 'pay_1') => ({
  paymentId,
  ref,
  txid,
  units: String(units),
  mined,
});
const pair = (sightings: readonly Owned[], rows: Parameters<typeof pairPegouts>[1], present: readonly string[] | null = null) => {
  const refs = pairPegouts(sightings, rows, present && new Set(present));
  return sightings.map((s) => refs.get(s) ?? null);
};

test('a mined peg-out is the one that waited with its sum, each taken once, and never another payment’s', () => {
  const waiting = [row('a:pegout:0', 5n), row('b:pegout:0', 5n)];
  assert.deepEqual(pair([pegout('hogex:1', 5n)], waiting), ['a:pegout:0']);
  assert.deepEqual(pair([pegout('hogex:1', 5n), pegout('hogex:2', 5n), pegout('hogex:3', 5n)], waiting), [
    'a:pegout:0',
    'b:pegout:0',
    null,
  ]);
  assert.deepEqual(pair([pegout('hogex:1', 6n)], waiting), [null]);
  assert.deepEqual(pair([pegout('hogex:1', 5n, 'pay_2')], waiting), [null]);
});

test('a peg-out is found under its own name before it is taken for an equal one', () => {
  const waiting = [row('a:pegout:0', 5n), row('b:pegout:0', 5n)];
  assert.deepEqual(pair([pegout('new:pegout:0', 5n), pegout('a:pegout:0', 5n)], waiting, ['a', 'b', 'new']), [null, 'a:pegout:0']);
  // One that left the mempool may be the new one; one that is there is not.
  assert.deepEqual(pair([pegout('new:pegout:0', 5n)], waiting, ['a', 'new']), ['b:pegout:0']);
  // Recorded after a reorganisation under the transaction that carried it last.
  assert.deepEqual(pair([pegout('b:pegout:0', 5n)], [row('a:pegout:0', 5n, false, 'b')], ['a', 'b']), ['a:pegout:0']);
});

test('a peg-out that waits on one machine and is mined on another is the mined one', () => {
  assert.deepEqual(pair([pegout('a:pegout:0', 5n)], [row('a:pegout:0', 5n, true, 'hogex')], ['a']), ['a:pegout:0']);
});
