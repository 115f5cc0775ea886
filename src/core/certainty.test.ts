/** Tables of when a poll of a chain is certain, and when a transfer in a block counts as seen. */
// Invariant: Nothing expires while a node is cut off; transfers mined in time count.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ChainLook, type Doubt, doubtOf, firstSightInBlock } from './certainty.ts';
import type { Coin } from './coin.ts';

const MINUTE = 60_000;
const NOW = Date.parse('2026-06-01T12:00:00Z');
const at = (minutes: number) => new Date(NOW + minutes * MINUTE);

const LOOKS: readonly [what: string, look: Partial<ChainLook>, code: Doubt['code'] | null][] = [
  ['a node with peers and a fresh tip', {}, null],
  ['a node that syncs', { syncing: true }, 'syncing'],
  ['a node that syncs, on a test network', { syncing: true, binding: false }, 'syncing'],
  ['another source has more blocks', { behindOthers: true }, 'lagging'],
  ['a node without peers', { peers: 0, connectedMs: 0 }, 'alone'],
  ['a node without peers, on a test network', { peers: 0, connectedMs: 0, binding: false }, null],
  ['a node that has just found peers: what it missed comes now', { connectedMs: 59_000 }, 'settling'],
  ['a source that does not tell of peers', { peers: null, connectedMs: 0 }, null],
  ['an hour without a block', { tipTime: at(-60) }, null],
  ['more than an hour without a block', { tipTime: at(-61) }, 'stalled'],
  ['more than an hour without a block, on a test network', { tipTime: at(-61), binding: false }, null],
  ['six minutes without a block of ten seconds', { coin: 'ETH', tipTime: at(-6) }, 'stalled'],
];
for (const [what, look, code] of LOOKS) {
  test(`${what}: ${code ?? 'certain'}`, () => {
    const base: ChainLook = {
      coin: 'BTC',
      binding: true,
      syncing: false,
      peers: 8,
      connectedMs: 60_000,
      tipTime: at(-5),
      now: at(0),
      behindOthers: false,
    };
    assert.equal(doubtOf({ ...base, ...look })?.code ?? null, code);
  });
}

/** Minutes from now: time of the block, when it was read, when the address was assigned, the last certain poll before, and the sighting. */
const SIGHTS: readonly [what: string, coin: Coin, block: number, read: number, given: number, certain: number | null, seen: number][] = [
  ['read late, after an outage: the block tells', 'BTC', -90, 0, -120, -100, -90],
  ['read late by a follower that never looked before', 'BTC', -90, 0, -120, null, -90],
  ['a block from before the address was given', 'BTC', -90, 0, -60, null, -60],
  ['a block of the future', 'BTC', 100, 0, -60, -1, 0],
  ['a miner with a slow clock, while somebody looked: believed twenty minutes', 'BTC', -55, 0, -120, -1, -21],
  ['a block that is a few minutes old when it is found', 'BTC', -8, 0, -120, -1, -8],
  ['quick chains are believed two minutes', 'DOGE', -30, 0, -120, -1, -3],
];
for (const [what, coin, block, read, given, certain, seen] of SIGHTS) {
  test(`${what}`, () => {
    const found = firstSightInBlock({
      coin,
      blockTime: at(block),
      seenAt: at(read),
      givenAt: at(given),
      certainThrough: certain === null ? null : at(certain),
    });
    assert.deepEqual(found, at(seen));
  });
}
