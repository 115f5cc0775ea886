/** Random lies of providers and beacon servers: none makes a payment complete, and none hides one from a block that is taken. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forge } from '../../../test/kit/eth-forgeries.ts';

test('500 random forgeries complete nothing', async () => {
  const { kinds, tried } = await forge({ seed: 7, attempts: 500 });
  assert.deepEqual(
    kinds.filter((kind) => !tried.has(kind)),
    [],
    'each kind was tried',
  );
});
