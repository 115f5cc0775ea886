/** Confirmation tiers: read from settings, and merged. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainOf } from './coin.ts';
import { mergeConfirmations, parseConfirmations } from './confirmation.ts';

// Invariant: Required confirmations are never below one.
test('confirmations: merchants raise, the operator may lower, never under one', () => {
  assert.deepEqual(
    parseConfirmations('100:1,1000:2,*:6').map((t) => [t.belowUsdCents, t.confirmations]),
    [
      [10_000n, 1],
      [100_000n, 2],
      [null, 6],
    ],
  );
  for (const wrong of ['0', '100:0,*:1', 'x', '100:1', '1000:1,100:2,*:3']) assert.throws(() => parseConfirmations(wrong), wrong);
  const merged = mergeConfirmations(chainOf('BTC').confirmations, [{ belowUsdCents: null, confirmations: 4, rule: 'confirmations' }], null);
  assert.deepEqual(
    merged.map((t) => t.confirmations),
    [4, 4, 4, 6],
  );
  assert.deepEqual(mergeConfirmations(chainOf('DASH').confirmations, null, parseConfirmations('1'))[0]?.rule, 'confirmations');
});
