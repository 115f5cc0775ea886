/** Which status may follow which. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PAYMENT_STATUSES } from './payment.ts';
import { isFinal, move, NEXT, stepsTo } from './status.ts';

// Invariant: Statuses move along listed edges only.
test('only listed moves', () => {
  assert.throws(() => move('completed', 'pending'));
  assert.throws(() => move('pending', 'completed'));
  assert.deepEqual(NEXT.completed, []);
});

test('a payment that is first found confirmed passes through processing; every step is a listed move', () => {
  const steps = (from: Parameters<typeof stepsTo>[0], to: Parameters<typeof stepsTo>[1]) => stepsTo(from, to).map((step) => step.status);
  assert.deepEqual(steps('pending', 'completed'), ['processing', 'completed']);
  assert.deepEqual(steps('expired', 'completed'), ['processing', 'completed']);
  assert.deepEqual(steps('processing', 'completed'), ['completed']);
  assert.deepEqual(steps('pending', 'expired'), ['expired']);
  for (const status of PAYMENT_STATUSES) {
    assert.deepEqual(steps(status, status), []);
    if (status !== 'completed') assert.throws(() => steps('completed', status), status);
    assert.equal(isFinal(status), !NEXT[status].some((next) => next === 'completed' || next === 'pending' || next === 'expired'), status);
  }
});
