/** When a payment ends, and what extends it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, minute, quote, tip } from '../../test/kit/facts.ts';
import { chainOf } from './coin.ts';
import { addMs } from './dates.ts';
import { extensionFrom, hasEnded, windowEndOf } from './settle.ts';

test('an extension never ends a window earlier', () => {
  assert.deepEqual(windowEndOf(base), minute(60));
  assert.deepEqual(windowEndOf({ ...base, extendedUntil: minute(90) }), minute(90));
  assert.deepEqual(windowEndOf({ ...base, extendedUntil: minute(30) }), minute(60));
});

test('a window has ended when every chain with an address was read up to its end, and some seconds more', () => {
  const expiresAt = minute(60);
  const end = addMs(expiresAt, chainOf('BTC').slackSeconds * 1000);
  const ended = (now: Date, through: Date | null) =>
    hasEnded(['BTC'], { expiresAt, tips: through === null ? {} : { BTC: tip(through) }, now });
  assert.equal(ended(addMs(end, 1), end), true);
  assert.equal(ended(end, end), false);
  assert.equal(ended(addMs(end, 1), addMs(end, -1)), false, 'the follower is behind');
  assert.equal(ended(minute(600), null), false, 'the chain has not been read at all');
  assert.equal(hasEnded(['BTC', 'LTC'], { expiresAt, tips: { BTC: tip(minute(600)) }, now: minute(600) }), false, 'one of two');
  const without = (now: Date) => hasEnded([], { expiresAt, tips: {}, now });
  assert.deepEqual([without(expiresAt), without(addMs(expiresAt, 1))], [false, true], 'no address was given, so nothing can be on its way');
});

test('a partial payment gives an hour for the rest, and holds the rate only if it was locked at that moment', () => {
  const extension = (at: number) => extensionFrom(base, minute(at), minute(60));
  assert.deepEqual(extension(14), { windowUntil: minute(74), rateLockUntil: minute(29) });
  assert.deepEqual(extension(16), { windowUntil: minute(76), rateLockUntil: null });
  const early = { ...base, rules: { ...base.rules, windowSeconds: 7_200 }, quotes: [quote] };
  assert.deepEqual(extensionFrom(early, minute(5), minute(120)).windowUntil, minute(120));
});
