/** The states of refunds, and the amounts of parts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPaidOut, isReserved, mayBecome, NEXT_REFUND, REFUND_STATES, shareOf } from './refund.ts';

test('a refund only moves forward: it is paid out once, and what ended stays as it is', () => {
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
    assert.ok(!reached(state).has(state), `${state} leads back to itself`);
    // Money that has left, or may have left, is never free again by canceling.
    if (state === 'signed' || isPaidOut(state)) assert.ok(!reached(state).has('canceled'), state);
  }
  assert.deepEqual([...reached('requested')].sort(), REFUND_STATES.filter((state) => state !== 'requested').sort());
  for (const end of ['confirmed', 'failed', 'canceled'] as const) assert.deepEqual(NEXT_REFUND[end], []);
  assert.equal(mayBecome('requested', 'sent'), false, 'money leaves only after an approval');
  assert.deepEqual(
    REFUND_STATES.filter((state) => !isReserved(state)),
    ['failed', 'canceled'],
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
