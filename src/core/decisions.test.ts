/** What the decisions of the merchant add up to, read from the last to the first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, minute } from '../../test/kit/facts.ts';
import { foldDecisions } from './coverage.ts';
import type { Decision } from './payment.ts';

const decide = (kind: Decision['kind'], at: number, ...transfers: string[]): Decision => ({ kind, at: minute(at), transfers });
const fold = (...decisions: Decision[]) => {
  const { closedAt, cancelled, accepts, named, settledRefs } = foldDecisions({ ...base, decisions });
  return { closedAt, cancelled, accepts, named: [...named], settled: Object.fromEntries(settledRefs) };
};

test('without decisions a payment is open', () => {
  assert.deepEqual(fold(), { closedAt: null, cancelled: false, accepts: [], named: [], settled: {} });
});

test('a cancel, a reject and a refund close a payment at the time of the first of them; an accept does not', () => {
  assert.equal(fold(decide('accept', 5, 'a')).closedAt, null);
  assert.deepEqual(fold(decide('reject', 6, 'a'), decide('refund_sent', 8, 'a')).closedAt, minute(6));
  const canceled = fold(decide('cancel', 4), decide('accept', 5, 'a'));
  assert.deepEqual([canceled.cancelled, canceled.closedAt, canceled.named], [true, minute(4), ['a']]);
});

test('the last decision about a transfer is the one that applies', () => {
  assert.deepEqual(fold(decide('reject', 5, 'a', 'b'), decide('refund_sent', 6, 'a')).settled, { a: 'refunded', b: 'rejected' });
  const rejected = fold(decide('accept', 5, 'a', 'b'), decide('reject', 6, 'a'));
  assert.deepEqual(
    [rejected.accepts, rejected.settled],
    [[['b']], { a: 'rejected' }],
    'an accept no longer covers what was rejected later',
  );
  assert.deepEqual(fold(decide('accept', 5, 'a'), decide('reject', 6, 'a')).accepts, [], 'nothing is left of it');
  assert.deepEqual(fold(decide('reject', 5, 'a'), decide('accept', 6, 'a')).accepts, [['a']]);
});
