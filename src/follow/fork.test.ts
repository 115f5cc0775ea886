/** Where our chain and that of a source fork, without a database: branches are letters, so `b7` is block 7 of branch b. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BlockRef, ChainSource } from '../chains/chain-source.ts';
import { chainOf } from '../core/coin.ts';
import { findCommon, findFork, findForkBelow, type StoredBlock } from './take-back.ts';

const time = new Date(0);
/** A branch of the given heights, which continues branch `of` below `from`. */
function branch(name: string, upTo: number, { of = name, from = 0 }: { of?: string; from?: number } = {}): BlockRef[] {
  const hashAt = (height: number) => (height < 0 ? '' : `${height < from ? of : name}${height}`);
  return Array.from({ length: upTo + 1 }, (_, height) => ({ height, hash: hashAt(height), parent: hashAt(height - 1), time }));
}
/** A source on a chain that also knows the headers of other branches. */
const sourceOf = (chain: readonly BlockRef[], others: readonly BlockRef[] = []): Pick<ChainSource, 'coin' | 'blockAt' | 'block'> => ({
  coin: 'BTC',
  blockAt: async (height) => chain[height] ?? null,
  block: async (hash) => [...chain, ...others].find((ref) => ref.hash === hash) ?? null,
});
/** Our blocks, newest first. */
const storedOf = (chain: readonly BlockRef[], from = 0): StoredBlock[] => chain.slice(from).reverse();
const never = async () => false;
const ours = branch('a', 200);
const theirs = branch('b', 203, { of: 'a', from: 198 });
const cursor = ours.at(-1)!;

test('the last common block is the highest of ours that the source has; heights above its tip say nothing', async () => {
  assert.equal((await findCommon(sourceOf(theirs), storedOf(ours, 190), theirs.at(-1)!))?.hash, 'a197');
  assert.equal((await findCommon(sourceOf(theirs.slice(0, 199)), storedOf(ours, 190), theirs[198]!))?.hash, 'a197');
  assert.equal(await findCommon(sourceOf(theirs), storedOf(ours, 198), theirs.at(-1)!), null);
});

test('a block below its own tip that a source lacks is an outage, not a reorganization', async () => {
  const gap = { ...sourceOf(theirs), blockAt: async (height: number) => (height === 199 ? null : theirs[height]!) };
  await assert.rejects(findCommon(gap, storedOf(ours, 190), theirs.at(-1)!), /has a tip above 199 but not that block/);
});

test('a fork below the first block that was read is found by the headers of the branch that lost', async () => {
  const [lowest] = ours.slice(199);
  assert.equal((await findForkBelow(sourceOf(theirs, ours), lowest!, cursor))?.hash, 'a197');
  assert.equal(await findForkBelow(sourceOf(theirs), lowest!, cursor), null, 'the source forgot that branch');
  const { maxReorg } = chainOf('BTC');
  const deep = branch('b', 203, { of: 'a', from: 200 - maxReorg });
  assert.equal(await findForkBelow(sourceOf(deep, ours), lowest!, cursor), null, 'deeper than the coin allows');
});

test('a fork is the common block, the block below the first one, or as deep as the coin allows; deeper needs an operator', async () => {
  const { maxReorg } = chainOf('BTC');
  const tip = theirs.at(-1)!;
  const find = (
    stored: readonly StoredBlock[],
    source = sourceOf(theirs, ours),
    mayBeginAgain: () => Promise<boolean> = async () => assert.fail('only asked when nothing else helps'),
  ) => findFork(source, { stored, cursor, tip, mayBeginAgain });
  assert.deepEqual(await find(storedOf(ours, 190)), { cursor: { height: 197, hash: 'a197' }, base: null });
  assert.deepEqual(await find(storedOf(ours, 199)), { cursor: { height: 197, hash: 'a197' }, base: theirs[197] });
  const lowest = Math.max(0, 199 - maxReorg);
  assert.deepEqual((await find(storedOf(ours, 199), sourceOf(theirs)))?.cursor, { height: lowest, hash: `a${lowest}` });
  assert.equal(await find([]), null);
  // As many blocks as a reorganization may take back, and none is common.
  const other = branch('c', 203);
  const all = storedOf(ours, 200 - maxReorg);
  assert.equal(all.length, maxReorg + 1);
  assert.equal(await find(all, sourceOf(other, ours), never), null);
  const again = await find(all, sourceOf(other, ours), async () => true);
  assert.deepEqual(again, { cursor: { height: 199 - maxReorg, hash: `c${199 - maxReorg}` }, base: other[199 - maxReorg] });
});
