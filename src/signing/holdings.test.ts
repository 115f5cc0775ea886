/** What of the money on deposit addresses a sweep takes, what stays and why, and the stored parts of a payout. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accountOfAnchor,
  DEFAULT_WISH,
  type Holding,
  nonceIn,
  partsFromJson,
  partsToJson,
  remainderOf,
  selectHoldings,
} from './holdings.ts';

const NOW = new Date('2026-03-01T12:00:00Z');
const holding = (given: Partial<Holding>): Holding =>
  ({ address: 'one', units: 100n, leftUnits: 100n, stays: null, firstSeenAt: new Date('2026-03-01T00:00:00Z'), ...given }) as Holding;
const staysOf = (holdings: readonly Holding[], { wish = {}, wholeAddress = false } = {}) =>
  selectHoldings(holdings, { wish: { ...DEFAULT_WISH, ...wish }, now: NOW, wholeAddress }).map(({ stays }) => stays);

test('a reason that was there stays, and age and amount keep the rest', () => {
  assert.deepEqual(staysOf([holding({}), holding({ stays: 'disputed' })]), [null, 'disputed']);
  assert.deepEqual(staysOf([holding({})], { wish: { minAgeHours: 12 } }), [null], 'exactly as old as asked for');
  assert.deepEqual(staysOf([holding({})], { wish: { minAgeHours: 13 } }), ['young']);
  assert.deepEqual(staysOf([holding({}), holding({})], { wish: { minUnits: 200n } }), [null, null], 'the amounts of an address add up');
  assert.deepEqual(staysOf([holding({}), holding({ address: 'two' })], { wish: { minUnits: 200n } }), ['small', 'small']);
  assert.deepEqual(staysOf([holding({}), holding({ stays: 'busy' })], { wish: { minUnits: 200n } }), ['small', 'busy']);
  assert.deepEqual(staysOf([holding({ leftUnits: 99n })], { wish: { minUnits: 100n } }), ['small'], 'without what an earlier file took');
});

test('an account is emptied as a whole: one reason keeps all of it, except money that is not confirmed', () => {
  const with_ = (stays: Holding['stays']) => [holding({}), holding({ stays }), holding({ address: 'two' })];
  assert.deepEqual(staysOf(with_('refund_requested'), { wholeAddress: true }), ['refund_requested', 'refund_requested', null]);
  assert.deepEqual(staysOf(with_('unconfirmed'), { wholeAddress: true }), [null, 'unconfirmed', null]);
});

test('what stays is counted by reason, dust first as it was counted before', () => {
  const rows = [holding({ stays: 'young' }), holding({}), holding({ stays: 'young', units: 5n }), holding({ stays: 'unconfirmed' })];
  const none = { reason: 'dust', count: 0, units: 0n } as const;
  assert.deepEqual(remainderOf(rows, none), [
    { reason: 'unconfirmed', count: 1, units: 100n },
    { reason: 'young', count: 2, units: 105n },
  ]);
  assert.deepEqual(remainderOf([], { ...none, count: 3, units: 9n }), [{ reason: 'dust', count: 3, units: 9n }]);
});

test('an anchor names an account and its nonce, or an output', () => {
  assert.equal(accountOfAnchor('nonce:0xAb:12'), '0xAb');
  assert.equal(nonceIn('nonce:0xAb:12'), 12);
  assert.equal(accountOfAnchor(`${'ab'.repeat(32)}:0`), null);
  assert.equal(accountOfAnchor(`0x${'ab'.repeat(32)}`), null);
});

test('parts of a payout are read as they were written; what cannot be read pays nothing', () => {
  const parts = [{ address: '0xab', units: 10n ** 30n, transfers: [{ paymentId: 'pay_1', ref: 'x:1', units: 10n ** 30n }] }];
  assert.deepEqual(partsFromJson(JSON.parse(JSON.stringify(partsToJson(parts)))), parts);
  assert.equal(partsFromJson(null), null);
  for (const bad of [
    { parts: [{ address: '0xab' }] },
    { parts: [{ units: '1' }] },
    { parts: [null] },
    { parts: [{ address: 7, units: '1' }] },
  ])
    assert.deepEqual(partsFromJson(bad), []);
});
