/** The states of refunds, and the amounts of parts. */
// Invariant: Refunds of a payment never return more than arrived, and each is sent once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPaidOut, isReserved, mayBecome, NEXT_REFUND, REFUND_STATES, shareOf } from './refund.ts';

test('a refund moves forward and is paid out once; only a member ends one that failed', () => {
  const reached = (from: (typeof REFUND_STATES)[number]): Set<string> => {
    const found = new Set<string>();
    const visit = (state: (typeof REFUND_STATES)[number]) => {
      for (const next of NEXT_REFUND[state]) {
        if (found.has(next)) continue;
        found.add(next);
        visit(next);
      }
    };
    visit(from);
    return found;
  };
  for (const state of REFUND_STATES) {
    // Money that has left, or may have left, is never free again, except by a member after it failed.
    if (state === 'signed' || isPaidOut(state)) assert.ok(!NEXT_REFUND[state].includes('canceled'), state);
    if (state !== 'failed' && !isPaidOut(state)) assert.ok(!reached(state).has(state), `${state} leads back to itself`);
  }
  assert.deepEqual(NEXT_REFUND.failed, ['sent', 'canceled'], 'the customer may have been paid from another wallet');
  assert.deepEqual([...reached('requested')].sort(), REFUND_STATES.filter((state) => state !== 'requested').sort());
  for (const end of ['confirmed', 'canceled'] as const) assert.deepEqual(NEXT_REFUND[end], []);
  assert.equal(mayBecome('requested', 'sent'), false, 'money leaves only after an approval');
  assert.deepEqual(
    REFUND_STATES.filter((state) => !isReserved(state)),
    ['canceled'],
  );
});

test('parts of an amount return the whole together, and never more', () => {
  const money = fc.bigInt({ min: 1n, max: 10n ** 24n });
  fc.assert(
    fc.property(money, fc.array(fc.bigInt({ min: 1n, max: 10n ** 9n }), { minLength: 1, maxLength: 20 }), (whole, parts) => {
      const total = parts.reduce((sum, part) => sum + part, 0n);
      assert.equal(shareOf(whole, { part: total, total }), whole);
      const returned = parts.reduce((sum, part) => sum + shareOf(whole, { part, total }), 0n);
      assert.ok(returned <= whole && whole - returned <= BigInt(parts.length));
    }),
  );
});
