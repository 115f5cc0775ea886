/** What no source can make followers believe. */
// Invariant: A source cannot make followers believe heights, hashes, amounts or sums that cannot be true.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAdversaryChain, createAdversarySource } from '../../test/kit/adversary.ts';
import type { BlockRef, ChainSource, ChainTransaction, Matcher, Sighting } from './chain-source.ts';
import { checkedSource } from './checked-source.ts';

const hash = 'ab'.repeat(32);
const tip: BlockRef = { height: 10, hash: 'cd'.repeat(32), parent: hash, time: new Date(0) };
const honest: ChainSource = {
  ...createAdversarySource({ chain: createAdversaryChain({ height: 0, now: () => new Date(0) }), coin: 'BTC', interrupt: async () => {} }),
  tip: async () => tip,
  blockAt: async (height) => ({ ...tip, height }),
  block: async (hash) => ({ ...tip, hash }),
};
const matcher: Matcher = { has: () => true, watchesSpends: false, spends: () => false, recent: () => [], waiting: [] };
const paid: Sighting = { key: '0014', ref: `${hash}:0`, txid: hash, units: 5n, kind: 'output', spends: [], lock: null };

const THE_NODE = { name: 'the node', clock: { now: () => new Date('2026-06-01') } };
const mined: ChainTransaction = {
  ...{ txid: hash, status: 'confirmed', confirmations: 3, blockHeight: 900_000, blockHash: hash, timestamp: new Date('2026-05-31') },
  ...{ amountUnits: 1n, feeUnits: null, inputs: null, outputs: [] },
};
const withMined = (change: Partial<ChainTransaction>): Partial<ChainSource> => ({ transaction: async () => ({ ...mined, ...change }) });
/** Mainnet, where the newest block is the third of the one that has the transaction. */
const onMainnet = (change: Partial<ChainTransaction>): Partial<ChainSource> => ({
  ...{ network: 'mainnet', ...withMined(change) },
  tip: async () => ({ ...tip, height: 900_002, time: new Date('2026-06-01') }),
});
const lookUp = async (source: ChainSource) => {
  await source.tip();
  return source.transaction(hash);
};
const withTip = (change: Partial<BlockRef>): Partial<ChainSource> => ({ tip: async () => ({ ...tip, ...change }) });
const withPaid = (change: Partial<Sighting>): Partial<ChainSource> => ({
  fetchBlock: async () => ({ ref: tip, scan: () => ({ block: tip, sightings: [{ ...paid, ...change }], conflicts: [] }) }),
});
const scan = async (source: ChainSource) => (await source.fetchBlock(tip.hash)).scan(matcher);
const tier = (speed: 'fast' | 'normal' | 'slow', units: bigint) => ({
  speed,
  units,
  rateE8: units,
  minutes: '1',
  source: 'estimate' as const,
});

const WRONG: readonly [what: string, lie: Partial<ChainSource>, ask: (source: ChainSource) => Promise<unknown>][] = [
  ['the height -1', withTip({ height: -1 }), (source) => source.tip()],
  ['the height 1.5', withTip({ height: 1.5 }), (source) => source.tip()],
  ['a block without a hash of 32 bytes', withTip({ hash: 'ab' }), (source) => source.tip()],
  ['a block without a parent', withTip({ parent: '' }), (source) => source.tip()],
  ['a block of more than two hours in the future', withTip({ time: new Date('2100-01-01') }), (source) => source.tip()],
  [
    'a block from before the first one of its chain',
    { network: 'mainnet', ...withTip({ time: new Date('1970-01-02') }) },
    (source) => source.tip(),
  ],
  ['4294967291 confirmations of a transaction', withMined({ confirmations: 4_294_967_291 }), (source) => source.transaction(hash)],
  ['500000 confirmations of a transaction', onMainnet({ confirmations: 500_000 }), lookUp],
  ['confirmations of a transaction that is in no block', withMined({ blockHeight: null }), (source) => source.transaction(hash)],
  ['a block of more than two hours in the future', withMined({ timestamp: new Date('2100-01-01') }), (source) => source.transaction(hash)],
  ['a block from before the first one of its chain', onMainnet({ timestamp: new Date(0) }), lookUp],
  ['a block without a time', withTip({ time: new Date(Number.NaN) }), (source) => source.tip()],
  ['another block than the one asked for', { blockAt: async () => tip }, (source) => source.blockAt(3)],
  ['another block than the one asked for', { block: async () => tip }, (source) => source.block(hash)],
  ['another block than the one asked for', withPaid({}), (source) => source.fetchBlock(hash)],
  ['a transfer of DOGE, which is on another chain', withPaid({ coin: 'DOGE' }), scan],
  ['a transfer of 0 base units', withPaid({ units: 0n }), scan],
  ['a transfer of -1 base units', withPaid({ units: -1n }), scan],
  ['a transfer to something that is neither a script nor an account', withPaid({ key: 'bc1q' }), scan],
  ['a transfer without a transaction', withPaid({ txid: 'ab' }), scan],
  [
    'outputs that do not add up to their transfer',
    withPaid({
      outputs: [
        [0, 4n],
        [1, 2n],
      ],
    }),
    scan,
  ],
  [
    'outputs that do not add up to their transfer',
    withPaid({
      outputs: [
        [0, 6n],
        [1, -1n],
      ],
    }),
    scan,
  ],
  [
    'the final height -1',
    { finality: async () => ({ safe: -1, finalized: null, chainlock: null, tip: null }) },
    (source) => source.finality(),
  ],
  [
    'fees of which a faster one is cheaper',
    { fees: async () => [tier('fast', 1n), tier('normal', 2n), tier('slow', 1n)] },
    (source) => source.fees(),
  ],
  [
    'that more leaves an address than it holds',
    { readUnspent: async () => ({ units: 1n, leavingUnits: 2n }) },
    async (source) => source.readUnspent?.({ address: 'a', outputs: [] }),
  ],
];

for (const [what, lie, ask] of WRONG)
  test(`a source cannot answer ${what}`, async () => {
    await assert.rejects(ask(checkedSource({ ...honest, ...lie }, THE_NODE)), {
      name: 'ChainError',
      kind: 'outage',
      message: `the node answered ${what}`,
    });
  });

test('what is true passes', async () => {
  const source = checkedSource(
    {
      ...honest,
      ...withPaid({
        outputs: [
          [0, 4n],
          [1, 1n],
        ],
      }),
    },
    THE_NODE,
  );
  assert.deepEqual(await source.tip(), tip);
  assert.equal((await source.blockAt(3))?.height, 3);
  assert.equal((await scan(source)).sightings.length, 1);
  assert.deepEqual(await lookUp(checkedSource({ ...honest, ...onMainnet({}) }, THE_NODE)), mined);
  const unmined = { confirmations: 0, blockHeight: null, blockHash: null, timestamp: null };
  assert.equal((await lookUp(checkedSource({ ...honest, ...onMainnet(unmined) }, THE_NODE))).confirmations, 0);
});
