/** Which blocks a source disputes, depending on how far it has the blocks that were read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainSource } from '../chains/chain-source.ts';
import type { Trust } from '../core/guard.ts';
import { findDisputes } from './chain-guard.ts';

/** A source with recorded blocks up to `through`, its tip, and whether it has others above; BTC is read up to block 1000. */
const source = (trust: Trust, through: number | null, tip: number, contradicts = false) => ({
  voter: { trust, source: { trust } as unknown as ChainSource, health: { tip: { height: tip } } as never },
  evidence: { through: through === null ? null : { height: through, hash: 'h' }, contradicts },
});
const disputed = (...sources: ReturnType<typeof source>[]) => [...findDisputes('BTC', sources, { height: 1000 }).values()];

test('a source disputes blocks in whose place it has others, or of which it is only a few short', () => {
  const followed = source('own', 1000, 1000);
  assert.deepEqual(disputed(followed, source('own', 1000, 1000)), []);
  assert.deepEqual(disputed(followed, source('own', 1000, 1003)), [], 'ahead');
  assert.deepEqual(disputed(followed, source('own', 999, 999)), [{ above: 999, upTo: 1000 }]);
  assert.deepEqual(disputed(followed, source('own', 990, 990)), [{ above: 990, upTo: 992 }], 'what it cannot know yet is left out');
  assert.deepEqual(disputed(followed, source('own', 990, 1001, true)), [{ above: 990, upTo: 1000 }]);
});

test('an unknown source disputes nothing, and no source disputes more than a reorganization may remove', () => {
  assert.deepEqual(disputed(source('own', 1000, 1000), source('own', null, 1000)), []);
  assert.deepEqual(disputed(source('own', 1000, 1000), source('own', null, 1000, true)), [{ above: 1000 - 144, upTo: 1000 }]);
});

test('a source whose word is all there is disputes nothing that your own source has', () => {
  assert.deepEqual(disputed(source('own', 1000, 1000), source('claimed', 990, 1000, true)), []);
  assert.deepEqual(disputed(source('own', 995, 995), source('claimed', 990, 1000, true)), [
    { above: 995, upTo: 997 },
    { above: 995, upTo: 1000 },
  ]);
  assert.deepEqual(disputed(source('claimed', 1000, 1000), source('claimed', 990, 1000, true)), [{ above: 990, upTo: 1000 }]);
  assert.deepEqual(disputed(source('claimed', 1000, 1000), source('own', 990, 1000, true)), [{ above: 990, upTo: 1000 }]);
});
