/** How the follower handles machines behind one address at different heights. */
// Invariant: Answers of machines behind one address are combined only when they are at the same block.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAdversaryChain, createAdversarySource } from '../../test/kit/adversary.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { openCore } from '../app.ts';
import { type ChainSource, type Finality, NO_FINALITY } from '../chains/chain-source.ts';
import { readConfig } from '../config.ts';
import { createFollower } from './follow.ts';

for (const { coin, word, column } of [
  { coin: 'ETH', word: 'finalized', column: 'finalized_height' },
  { coin: 'DASH', word: 'chainlock', column: 'chainlock_height' },
] as const) {
  test(`${coin}: one machine's ${word} block does not confirm blocks of another chain on a second machine`, async () => {
    const database = await testDatabase();
    const core = await openCore(readConfig(testEnvironment(database.url, database.folder)));
    try {
      const chain = createAdversaryChain({ height: 20, now: () => new Date() });
      let tip: string | null = 'another tip';
      const source: ChainSource = {
        ...createAdversarySource({ chain, coin: 'BTC', interrupt: async () => {} }),
        coin,
        finality: async () => ({ safe: null, finalized: null, chainlock: null, [word]: 18, tip }),
      };
      const follower = createFollower(core.ctx, source);
      const told = async () => {
        await follower.step();
        const [row] = await database.db.sql`select ${database.db.sql(column)} as height from tips where chain = ${coin}`;
        return row!.height;
      };
      assert.equal(await told(), null);
      tip = chain.tip().hash;
      assert.equal(await told(), 18n);
    } finally {
      await core.close();
      await database.drop();
    }
  });
}

test('DASH: a ChainLock stays while the node reports none, and is dropped when a source that cannot report any is followed', async () => {
  const database = await testDatabase();
  const core = await openCore(readConfig(testEnvironment(database.url, database.folder)));
  try {
    const chain = createAdversaryChain({ height: 20, now: () => new Date() });
    const tip = chain.tip().hash;
    let finality: Finality = NO_FINALITY;
    const source: ChainSource = {
      ...createAdversarySource({ chain, coin: 'BTC', interrupt: async () => {} }),
      ...{ coin: 'DASH', finality: async () => finality },
    };
    const follower = createFollower(core.ctx, source);
    const recorded = async (now: Finality): Promise<bigint | null> => {
      finality = now;
      await follower.step();
      const [row] = await database.db.sql<{ height: bigint | null }[]>`select chainlock_height as height from tips where chain = 'DASH'`;
      return row!.height;
    };
    const own = { safe: null, finalized: null };
    assert.equal(await recorded({ ...own, chainlock: 21, tip }), null, 'above the tip');
    assert.equal(await recorded({ ...own, chainlock: 18, tip }), 18n);
    assert.equal(await recorded({ ...own, chainlock: null, tip: null }), 18n);
    assert.equal(await recorded({ ...own, chainlock: 19, tip: 'another tip' }), 18n);
    assert.equal(await recorded(NO_FINALITY), null);
    assert.equal(await recorded({ ...own, chainlock: 18, tip }), 18n, 'the node is back');
  } finally {
    await core.close();
    await database.drop();
  }
});
