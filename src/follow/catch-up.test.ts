/** Blocks are applied in order, each above its parent, whatever the source does while they are fetched ahead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type BlockRef, ChainError } from '../chains/chain-source.ts';
import type { Cursor } from './cursor.ts';
import { type CatchUp, catchUp } from './follow.ts';
import type { FetchedBlock } from './record-block.ts';

const refAt = (height: number, hash = `a${height}`, parent = `a${height - 1}`): BlockRef => ({ height, hash, parent, time: new Date(0) });
const chainTo = (height: number): BlockRef[] => Array.from({ length: height + 1 }, (_, at) => refAt(at));
const fetchedOf = (ref: BlockRef): FetchedBlock => ({ ref, scan: () => assert.fail('nothing is scanned here') });

/** Catches up from block 10 on a chain that the test changes, and says which blocks were applied. */
function begin(chain: readonly BlockRef[], failing: { fetch?: string; write?: string } = {}) {
  const applied: string[] = [];
  const asked: number[] = [];
  const state: CatchUp = {
    source: {
      blockAt: async (height) => {
        asked.push(height);
        return chain[height] ?? null;
      },
      fetchBlock: async (hash) => {
        if (hash === failing.fetch) throw new ChainError('outage', 'gone');
        return fetchedOf(chain.find((ref) => ref.hash === hash)!);
      },
    },
    at: null,
  };
  const apply = async (cursor: Cursor, { ref }: FetchedBlock) => {
    assert.equal(ref.parent, cursor.hash);
    if (ref.hash === failing.write) throw new Error('disk full');
    applied.push(ref.hash);
  };
  const run = (signal?: AbortSignal) => catchUp(state, { cursor: { height: 10, hash: 'a10' }, tip: chain.at(-1)!, signal, apply });
  return { state, applied, asked, run };
}

test('all blocks up to the tip are applied once, in order', async () => {
  const { state, applied, asked, run } = begin(chainTo(15));
  assert.deepEqual(await run(), { height: 15, hash: 'a15' });
  assert.deepEqual(applied, ['a11', 'a12', 'a13', 'a14', 'a15']);
  assert.deepEqual(asked, [11, 12, 13, 14, 15]);
  assert.equal(state.at, null);
});

test('a next block that does not build on the cursor is not applied', async () => {
  const chain = chainTo(15);
  chain[11] = refAt(11, 'b11', 'b10');
  const { applied, run } = begin(chain);
  assert.equal(await run(), null);
  assert.deepEqual(applied, []);
});

test('it stops where blocks no longer build on each other, and at a block that cannot be fetched ahead', async () => {
  const chain = chainTo(15);
  chain[13] = refAt(13, 'b13', 'b12');
  for (const { applied, run } of [begin(chain), begin(chainTo(15), { fetch: 'a13' })]) {
    assert.deepEqual(await run(), { height: 12, hash: 'a12' });
    assert.deepEqual(applied, ['a11', 'a12']);
  }
});

test('a failure names the block, and the blocks before it stay applied', async () => {
  const writing = begin(chainTo(15), { write: 'a13' });
  await assert.rejects(writing.run(), /disk full/);
  assert.deepEqual([writing.applied, writing.state.at], [['a11', 'a12'], { height: 13, hash: 'a13' }]);
  const fetching = begin(chainTo(15), { fetch: 'a11' });
  await assert.rejects(fetching.run(), /gone/);
  assert.deepEqual([fetching.applied, fetching.state.at], [[], { height: 11, hash: null }]);
});

test('once aborted, nothing more is applied', async () => {
  const { applied, run } = begin(chainTo(15));
  assert.deepEqual(await run(AbortSignal.abort()), { height: 10, hash: 'a10' });
  assert.deepEqual(applied, []);
});
