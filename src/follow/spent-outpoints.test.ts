/** What is remembered of the outpoints that our transactions spend, with one follower and with two. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { type Core, openCore } from '../app.ts';
import type { Sighting } from '../chains/chain-source.ts';
import { readConfig } from '../config.ts';
import { readEndedBelow } from '../db/db.ts';
import { createSpentOutpoints } from './spent-outpoints.ts';

let database: TestDatabase;
let core: Core;
before(async () => {
  database = await testDatabase();
  core = await openCore(readConfig(testEnvironment(database.url, database.folder)));
});
after(async () => {
  await core.close();
  await database.drop();
});

const TXID = 'ab'.repeat(32);
const outpoint = (n: number) => `${TXID}:${n}`;
const spending = (txid: string, ...spends: string[]): Sighting => ({
  key: '0014aa',
  ref: `${txid}:0`,
  txid,
  units: 1_000n,
  kind: 'output',
  spends,
  lock: null,
});
const record = (txid: string, more: { height?: number | null; coin?: string } = {}) => database.db.sql`
  insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height)
  values (${more.coin ?? 'BTC'}, ${`${txid}:0`}, 'pay_1', 'mer_1', ${txid}, 'bc1', 1000, 'output', now(), ${more.height ?? null})`;

test('a transaction that spends known coins is found, whichever follower recorded them; the same transaction is not a conflict', async () => {
  const mine = createSpentOutpoints(core.ctx, 'BTC');
  const other = createSpentOutpoints(core.ctx, 'BTC');
  await mine.refresh('0');
  assert.equal(mine.any(), false);
  const from = await readEndedBelow(database.db.sql);
  // All outputs of a transaction share what it spends, so the table stores it once.
  const sighting = spending('one', outpoint(1), outpoint(2));
  await database.db.begin((tx) => other.write(tx, [sighting, { ...sighting, ref: 'one:1' }, spending('two', outpoint(2), outpoint(3))]));
  assert.equal((await database.db.sql`select 1 from spent_outpoints`).length, 4);
  await mine.refresh(from);
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => mine.has(outpoint(n))),
    [true, true, true, false],
  );
  const found = await mine.findLosers([
    { outpoint: outpoint(1), txid: 'one' },
    { outpoint: outpoint(2), txid: 'one' },
    { outpoint: outpoint(2), txid: 'rival' },
    { outpoint: outpoint(3), txid: 'rival' },
    { outpoint: outpoint(4), txid: 'rival' },
  ]);
  assert.deepEqual(found, [
    { txid: 'two', by: 'one' },
    { txid: 'one', by: 'rival' },
    { txid: 'two', by: 'rival' },
  ]);
});

test('an account’s nonce is an outpoint like others, and a mined transaction replaces what it paid before', async () => {
  const spent = createSpentOutpoints(core.ctx, 'ETH');
  const nonce = `0x${'12'.repeat(20)}:7`;
  await database.db.begin((tx) => spent.write(tx, [spending('0xaa', nonce)]));
  await spent.refresh('0');
  assert.equal(spent.has(nonce), true);
  assert.equal(spent.has(`0x${'12'.repeat(20)}:8`), false);
  assert.deepEqual(await spent.findLosers([{ outpoint: nonce, txid: '0xaa' }]), []);
  assert.deepEqual(await spent.findLosers([{ outpoint: nonce, txid: '0xaa', mined: true }]), [{ txid: '0xaa', by: '0xaa' }]);
});

test('what transactions spend is deleted once nothing can spend it instead', async () => {
  const { sql } = database.db;
  await sql`delete from spent_outpoints`;
  await sql`insert into tips (chain, height, hash, scanned_through) values ('LTC', 10000, 'h', now())`;
  const rows = { waits: null, mined: 9_990, deep: 9_000 } as const;
  const spent = createSpentOutpoints(core.ctx, 'LTC');
  for (const [txid, height] of Object.entries(rows)) {
    await record(txid, { height, coin: 'LTC' });
    await database.db.begin((tx) => spent.write(tx, [spending(txid, outpoint(1), `${TXID}:${txid.length}`)]));
  }
  await spent.prune();
  await spent.refresh('0');
  const kept = async () => (await sql<{ txid: string }[]>`select distinct txid from spent_outpoints order by 1`).map((row) => row.txid);
  assert.deepEqual(await kept(), ['mined', 'waits']);
  assert.deepEqual(await spent.findLosers([{ outpoint: outpoint(1), txid: 'mined' }]), [{ txid: 'waits', by: 'mined' }]);
  await sql`update tips set height = height + 1000 where chain = 'LTC'`;
  await spent.prune();
  assert.deepEqual(await kept(), ['waits']);
  await sql`update transfers set absent_since = now() - interval '15 days' where txid = 'waits'`;
  await spent.prune();
  assert.deepEqual(await kept(), []);
});
