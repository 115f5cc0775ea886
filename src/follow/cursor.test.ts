/** Lag is not a reorganization: how a follower handles sources that show an older state, another branch, or several in turn. */
// Invariant: A source that is behind does not undo anything.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Block, createAdversaryChain, createAdversarySource } from '../../test/kit/adversary.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { openCore } from '../app.ts';
import type { ChainSource } from '../chains/chain-source.ts';
import { readConfig } from '../config.ts';
import type { Coin } from '../core/coin.ts';
import { createFollower } from './follow.ts';

/** A follower on a chain of `height` blocks, which starts reading at the last one. */
async function follow(t: TestContext, { coin = 'BTC', height = 200 }: { coin?: Coin; height?: number } = {}) {
  const database = await testDatabase();
  const core = await openCore(readConfig(testEnvironment(database.url, database.folder, { LOG_LEVEL: 'fatal' })));
  t.after(async () => {
    await core.close();
    await database.drop();
  });
  const chain = createAdversaryChain({ height, now: () => new Date() });
  let shown: () => readonly Block[] = () => chain.blocks;
  let syncing = false;
  const source: ChainSource = {
    ...createAdversarySource({ chain, coin: 'BTC', interrupt: async () => {}, isSyncing: () => syncing, shown: () => shown() }),
    coin,
  };
  const follower = createFollower(core.ctx, source);
  const { sql } = database.db;
  const read = async () => {
    const [row] = await sql<{ height: number; hold: string | null; depth: number | null }[]>`
      select t.height::int as height, t.hold_reason as hold, (select reorg_depth from chain_guard where chain = t.chain) as depth
      from tips t where chain = ${coin}`;
    return row!;
  };
  await follower.step();
  assert.deepEqual(await read(), { height, hold: null, depth: null });
  return {
    chain,
    sql,
    read,
    look: () => follower.step(),
    show: (blocks: () => readonly Block[]) => {
      shown = blocks;
    },
    sync: (now: boolean) => {
      syncing = now;
    },
  };
}

for (const coin of ['ETH', 'BTC'] as const) {
  test(`${coin}: a source that alternates between two machines one block apart has no reorganization, even in the first blocks of an install`, async (t) => {
    const { chain, look, read, show } = await follow(t, { coin });
    for (const behind of [true, false, true, false]) {
      show(() => (behind ? chain.blocks.slice(0, -1) : chain.blocks));
      await look();
      assert.deepEqual(await read(), { height: 200, hold: null, depth: null });
    }
    let calls = 0;
    for (const turns of [1, 2, 3]) {
      // Every n-th request goes to the other machine.
      show(() => (Math.floor(calls++ / turns) % 2 === 0 ? chain.blocks.slice(0, -1) : chain.blocks));
      for (let i = 0; i < 6; i++) await look().catch(() => {});
      assert.deepEqual(await read(), { height: chain.tip().height, hold: null, depth: null });
      chain.mine();
      show(() => chain.blocks);
      await look();
    }
    assert.deepEqual(await read(), { height: chain.tip().height, hold: null, depth: null });
  });
}

test('a node that fell back to an older state, below the first block that was read, is waited for', async (t) => {
  const { chain, look, read, show } = await follow(t);
  chain.mine();
  await look();
  for (const lost of [1, 2, 50]) {
    show(() => chain.blocks.slice(0, -lost));
    await look();
    assert.deepEqual(await read(), { height: 201, hold: null, depth: null });
  }
  show(() => chain.blocks);
  chain.mine();
  await look();
  assert.deepEqual(await read(), { height: 202, hold: null, depth: null });
});

test('a reorganization below the first block that was read counts with its real depth', async (t) => {
  const { chain, look, read, sql } = await follow(t);
  chain.mine();
  await look();
  chain.undo(4);
  for (let i = 0; i < 5; i++) chain.mine();
  await look();
  assert.deepEqual(await read(), { height: 202, hold: null, depth: 4 });
  const stored = await sql<{ height: number; hash: string }[]>`select height::int as height, hash from blocks order by height`;
  assert.deepEqual(
    [...stored],
    chain.blocks.slice(197).map(({ height, hash }) => ({ height, hash })),
  );
});

test('a node that syncs again takes nothing back, whatever it shows in the meantime', async (t) => {
  const { chain, look, read, show, sync } = await follow(t);
  const whole = chain.pathTo(chain.tip().hash);
  chain.undo(30);
  for (let i = 0; i < 20; i++) chain.mine();
  sync(true);
  await look();
  assert.deepEqual(await read(), { height: 200, hold: null, depth: null });
  show(() => whole);
  sync(false);
  await look();
  assert.deepEqual(await read(), { height: 200, hold: null, depth: null });
});

test('a reorganization deeper than the coin allows holds completion only until the previous chain is back', async (t) => {
  const { chain, look, read, show } = await follow(t);
  for (let i = 0; i < 150; i++) chain.mine();
  await look();
  const ours = chain.pathTo(chain.tip().hash);
  chain.undo(149);
  for (let i = 0; i < 160; i++) chain.mine();
  await assert.rejects(look(), /no common block of BTC within 144 blocks/);
  assert.match((await read()).hold!, /deeper than this coin allows/);
  show(() => ours);
  await look();
  assert.deepEqual(await read(), { height: 350, hold: null, depth: null });
});
