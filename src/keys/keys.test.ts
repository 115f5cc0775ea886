/** The origins of a merchant, as public keys without their own origins use them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedOrigins } from './keys.ts';

test('a list of origins that cannot be read allows no site, unlike an empty one', () => {
  const shop = 'https://shop.example';
  for (const none of [null, undefined, []]) assert.deepEqual(sharedOrigins(none), []);
  assert.deepEqual(sharedOrigins([shop, 7]), [shop]);
  for (const damaged of [{ [shop]: true }, shop, 7, true, [7], [null]])
    assert.deepEqual(sharedOrigins(damaged), [''], JSON.stringify(damaged));
});
