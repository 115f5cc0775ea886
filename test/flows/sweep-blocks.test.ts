/** Blocks that are searched for transactions of sweeps, on a node that removes old ones. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Chain, ChainError } from '../../src/chains/chain.ts';
import { readSweepBlocks } from '../../src/money-out/sweep-blocks.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(() => app.stop());

const block = (height: number) => ({ height, hash: `b${height}`, parent: `b${height - 1}`, time: new Date(0) });

test('a sweep whose blocks were pruned says so and holds up nothing; other sweeps are searched from where they were', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const walletId = 'wal_test';
  await sql`
    insert into wallets (id, merchant_id, coin, network, chain_key, account_key, script, path)
    values (${walletId}, ${app.merchant.merchantId}, 'BTC', 'mainnet', 'k', 'k', 's', 'm')`;
  const insert = (id: string, height: number) => sql`
    insert into sweeps (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by, read_height, read_hash)
    values (${id}, ${app.merchant.merchantId}, ${walletId}, 'BTC', 'sent', '{}', 'bc1', 1, 1, 1, 'test', ${height}, ${`b${height}`})`;
  await insert('swp_old', 100);
  await insert('swp_new', 4_950);
  const searched: number[] = [];
  const chain = {
    coin: 'BTC',
    blockAt: async (height: number) => block(height),
    block: async (hash: string) => block(Number(hash.slice(1))),
    fetchBlock: async (hash: string) => {
      const height = Number(hash.slice(1));
      if (height < 4_700) throw new ChainError('pruned', `block ${hash} was pruned`);
      searched.push(height);
      return { ref: block(height), scan: () => ({ block: block(height), sightings: [], conflicts: [] }) };
    },
  } as unknown as Chain;
  const read = () => sql<{ id: string; height: number; failure: string | null }[]>`
    select id, read_height::int as height, failure from sweeps order by id`;
  await readSweepBlocks(ctx, chain, block(5_000));
  const [current, old] = await read();
  assert.deepEqual([current?.height, current?.failure, old?.height], [4_950, null, 4_900]);
  assert.match(old!.failure!, /No source has the blocks below 4900/);
  for (let i = 0; i < 12; i++) await readSweepBlocks(ctx, chain, block(5_000));
  assert.deepEqual(
    (await read()).map(({ height }) => height),
    [5_000, 5_000],
  );
  assert.deepEqual([searched[0], searched.at(-1), searched.length], [4_901, 5_000, 100]);
});
