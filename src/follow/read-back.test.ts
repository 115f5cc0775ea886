/** Blocks below the first one that was read: which are read for older addresses, also during reorganizations and kills. */
// Invariant: No address is issued before its chain is followed; deposits to earlier ones are read back, and nothing expires before that.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createAdversaryChain, createAdversarySource, type OnChain } from '../../test/kit/adversary.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { makeLivePayment } from '../../test/kit/payments.ts';
import { openCore } from '../app.ts';
import { ChainError, type ChainSource } from '../chains/chain-source.ts';
import { readConfig } from '../config.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { verifyAddresses } from '../operate/doctor.ts';
import { releaseChain } from './chain-acts.ts';
import { createFollower } from './follow.ts';
import { heightOf } from './read-back.ts';
import { explainUnwatched, readUnwatched } from './unwatched.ts';

const MINUTE = 60_000;
const START = Date.parse('2026-06-01T00:00:00Z');

/** A chain with a block every ten minutes, and a payment whose address was issued when it was `given` blocks long. */
async function install(t: TestContext, { height, given }: { height: number; given: number }) {
  const database = await testDatabase();
  const { ctx, close } = await openCore(readConfig(testEnvironment(database.url, database.folder, { LOG_LEVEL: 'fatal' })));
  t.after(async () => {
    await close();
    await database.drop();
  });
  const { sql } = database.db;
  let minutes = 0;
  const chain = createAdversaryChain({ height, now: () => new Date(START + 10 * MINUTE * minutes++) });
  const { merchantId } = await createMerchant(ctx, { name: 'Before' });
  const id = await makeLivePayment(ctx, { merchantId, amountUsdCents: 5_000n, expiresInSeconds: 86_400 });
  const key = `0014${'ab'.repeat(20)}`;
  const at = new Date(chain.blocks[given]!.time.getTime() + MINUTE);
  await sql`update payments set created_at = ${at} where id = ${id}`;
  await sql`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    values ('BTC', ${key}, ${key}, ${id}, ${merchantId}, 'wal_1', 0, ${at})`;
  const pays = (): OnChain => {
    const txid = chain.nameOf('t');
    return { txid, kind: 'output', inputs: [`${txid}-a:0`], outputs: [{ key, units: 60_000n }] };
  };
  let fails: (call: string) => void = () => {};
  const source = (): ChainSource => createAdversarySource({ chain, coin: 'BTC', interrupt: async (call) => fails(call) });
  const follower = (of = source()) => createFollower(ctx, of);
  const standing = async () => {
    const [row] = await sql<{ height: number; from: number; to: number | null }[]>`
      select height::int as height, watched_from::int as "from", read_back_to::int as "to" from tips`;
    return row!;
  };
  const heights = async () =>
    (await sql<{ height: number | null }[]>`select block_height::int as height from transfers order by block_height`).map(
      (row) => row.height,
    );
  return { ctx, chain, sql, pays, source, follower, standing, heights, failAt: (act: (call: string) => void) => (fails = act) };
}
const all = async (follower: ReturnType<typeof createFollower>) => {
  while (await follower.step());
};

test('a follower starts no later than the first address of its coin was issued', async (t) => {
  const { ctx, chain, follower, standing, heights, pays } = await install(t, { height: 100, given: 100 });
  chain.mine([pays()]);
  for (let i = 0; i < 40; i++) chain.mine();
  await all(follower());
  // Two hours of blocks, and eleven more below the first of them.
  assert.deepEqual([await standing(), await heights(), [...(await readUnwatched(ctx))]], [{ height: 141, from: 78, to: null }, [101], []]);
});

test('addresses issued later are not a reason to read further back', async (t) => {
  const { sql, follower, standing } = await install(t, { height: 100, given: 100 });
  const [address] = await sql`delete from deposit_addresses returning *`;
  await all(follower());
  await sql`insert into deposit_addresses ${sql({ ...address!, created_at: new Date() })}`;
  await all(follower());
  assert.deepEqual(await standing(), { height: 100, from: 101, to: null });
});

test('killed followers and unavailable blocks: reading resumes where it stopped, the tip is followed, and the reason is reported', async (t) => {
  const { ctx, chain, follower, standing, heights, pays, failAt } = await install(t, { height: 100, given: 100 });
  chain.mine([pays()]);
  for (let i = 0; i < 60; i++) chain.mine();
  await follower().step();
  const { from } = await standing();
  assert.ok(from > 78 && from < 162, 'some of them are read in one turn');
  const { ok, unwatched } = await verifyAddresses(ctx);
  assert.deepEqual([ok, unwatched.length], [true, 1], 'blocks that are being read are named, and nobody has to act');
  failAt((call) => {
    if (call === 'fetchBlock') throw new ChainError('pruned', 'the BTC node has pruned that block');
  });
  const next = follower();
  assert.equal(await next.step(), false);
  assert.deepEqual(await standing(), { height: 161, from, to: 78 });
  assert.match(
    explainUnwatched((await readUnwatched(ctx))[0]!).detail,
    /1 address given .*blocks 78 to \d+ are still to be read: .* pruned that block/,
  );
  assert.equal((await verifyAddresses(ctx)).ok, false);
  failAt(() => {});
  chain.mine();
  await all(follower());
  assert.deepEqual([await standing(), await heights(), [...(await readUnwatched(ctx))]], [{ height: 162, from: 78, to: null }, [101], []]);
});

test('a reorganization while earlier blocks are read leaves no gap', async (t) => {
  const { chain, follower, standing, heights, pays } = await install(t, { height: 100, given: 100 });
  const tx = pays();
  chain.mine([tx]);
  for (let i = 0; i < 60; i++) chain.mine();
  const reader = follower();
  await reader.step();
  assert.equal((await standing()).to, 78);
  chain.undo(45);
  for (let i = 0; i < 46; i++) chain.mine();
  await all(reader);
  assert.deepEqual([await standing(), await heights()], [{ height: 162, from: 78, to: null }, [101]]);
});

test('a source without the next block holds the chain; after a release it is followed, and skipped blocks are read back from another', async (t) => {
  const { ctx, chain, sql, source, follower, standing, heights, pays } = await install(t, { height: 100, given: 100 });
  chain.mine([pays()]);
  for (let i = 0; i < 4; i++) chain.mine();
  await all(follower());
  assert.deepEqual([await standing(), await heights()], [{ height: 105, from: 78, to: null }, [101]]);
  chain.mine([pays()]);
  for (let i = 0; i < 54; i++) chain.mine();
  const whole = source();
  const recent = (): ChainSource => ({
    ...source(),
    blockAt: async (height) => {
      if (height < 130) throw new ChainError('pruned', `block ${height} is below the checkpoint`);
      return whole.blockAt(height);
    },
    fetchBlock: async (hash) => {
      if (chain.blockOf(hash)!.height < 130) throw new ChainError('outage', 'not on the chain with the most work');
      return whole.fetchBlock(hash);
    },
  });
  const stuck = follower(recent());
  await assert.rejects(stuck.step(), /no source has block 106/);
  const hold = async () => (await sql<{ hold: string | null }[]>`select hold_reason as hold from tips`)[0]!.hold;
  assert.match((await hold())!, /^no source has block 106, the next one to read/);
  assert.equal((await standing()).height, 105);
  const { lifted } = await releaseChain(ctx, { coin: 'BTC', reason: 'no node has these blocks' });
  assert.match(lifted.join(), /block 106/);
  await all(stuck);
  // The block at which it restarted is read back, and nothing is lost track of below it.
  assert.deepEqual([await standing(), await heights(), await hold()], [{ height: 160, from: 130, to: 106 }, [101], null]);
  await all(follower(recent()));
  assert.match(explainUnwatched((await readUnwatched(ctx))[0]!).detail, /1 address given .*blocks 106 to 129 are still to be read: /);
  await all(follower());
  assert.deepEqual(
    [await standing(), await heights(), [...(await readUnwatched(ctx))]],
    [{ height: 160, from: 78, to: null }, [101, 106], []],
  );
});

test('the height for a time is found among blocks with inexact clocks', async () => {
  const times = [0, 10, 20, 15, 30, 40, 50];
  const source = {
    coin: 'BTC' as const,
    blockAt: async (height: number) => ({ height, hash: `${height}`, parent: '', time: new Date(times[height]! * MINUTE) }),
  };
  const found = await Promise.all([-1, 5, 30, 50, 60].map((at) => heightOf(source, new Date(at * MINUTE), times.length)));
  assert.deepEqual(found, [0, 1, 4, 6, 7]);
});
