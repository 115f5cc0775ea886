/** What must be true. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvariantError, invariant } from './invariant.ts';

test('a broken invariant stops the work and says what must be true', () => {
  assert.doesNotThrow(() => invariant(1n > 0n, 'amounts grow'));
  assert.throws(
    () => invariant(0n, 'a payment has an amount'),
    (error) => {
      assert.ok(error instanceof InvariantError);
      assert.equal(error.message, 'this must never happen: a payment has an amount');
      return true;
    },
  );
});
