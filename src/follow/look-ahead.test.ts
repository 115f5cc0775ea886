/** Addresses that no payment was given: derived once, stored, and watched by every follower of their family. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { account } from '../../test/kit/shop.ts';
import { type Core, openCore } from '../app.ts';
import { readConfig } from '../config.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { burnIndexes, setWallet } from '../wallets/wallets.ts';
import { createLookAhead } from './look-ahead.ts';
import { createWatchSet } from './watch-set.ts';

let database: TestDatabase;
let core: Core;
let merchantId: string;
before(async () => {
  database = await testDatabase();
  core = await openCore(readConfig(testEnvironment(database.url, database.folder, { LOG_LEVEL: 'silent' })));
  ({ merchantId } = await createMerchant(core.ctx, { name: 'Shop' }));
});
after(async () => {
  await core?.close();
  await database?.drop();
});

/** A wallet, and its spare addresses as a follower of the coin reads them. */
async function addWallet(coin: 'BTC' | 'ETH', seed: number) {
  const { sql } = core.ctx.db;
  await setWallet(core.ctx, {
    merchantId,
    coin,
    accountKey: account(coin, seed).publicExtendedKey,
    ...(coin === 'BTC' && { script: 'p2wpkh' }),
  });
  const [{ id } = { id: '' }] = await sql<
    { id: string }[]
  >`select id from wallets where active and family = ${coin} order by xid desc limit 1`;
  const stored = async () => {
    const rows = await sql<{ key: string; index: bigint }[]>`select key, index from spare_addresses where wallet_id = ${id} order by index`;
    return rows.map(({ key, index }) => ({ key, index: Number(index) }));
  };
  const moveTo = (next: number) =>
    sql`update wallets set next_index = ${next}, xid = pg_current_xact_id() where id = ${id}`.then(() => undefined);
  return { id, stored, moveTo };
}
function startFollower(coin: 'BTC' | 'ETH' | 'ETH@base' | 'ETH@arbitrum') {
  const watched = createWatchSet();
  const { refresh } = createLookAhead(core.ctx, { coin, network: 'mainnet' }, watched);
  return { refresh, has: watched.has };
}
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const indexesOf = (rows: readonly { index: number }[]) => rows.map(({ index }) => index);

// Invariant: Each unissued address of a wallet is derived once, and is watched after each start.
test('a hundred addresses beyond the counter are derived once, and a follower that starts reads them', async () => {
  const wallet = await addWallet('BTC', 31);
  const first = startFollower('BTC');
  await first.refresh('0');
  const rows = await wallet.stored();
  assert.deepEqual(indexesOf(rows), range(0, 100));
  assert.ok(rows.every(({ key }) => first.has(key)));
  // What a start watches comes from the table.
  const key = '0014'.padEnd(44, 'f');
  await core.ctx.db.sql`update spare_addresses set key = ${key} where wallet_id = ${wallet.id} and index = 42`;
  const second = startFollower('BTC');
  await second.refresh('0');
  assert.ok(second.has(key));
  assert.ok(!second.has(rows[42]!.key));
});

test('addresses that are issued leave the table, and as many come into range; what a counter skipped stays', async () => {
  const wallet = await addWallet('BTC', 32);
  const follower = startFollower('BTC');
  await follower.refresh('0');
  const [issued] = await wallet.stored();
  await wallet.moveTo(3);
  await follower.refresh('0');
  assert.deepEqual(indexesOf(await wallet.stored()), range(3, 103));
  assert.ok(follower.has(issued!.key), 'it is watched for its payment');
  await core.ctx.db.begin((tx) => burnIndexes(tx, { walletId: wallet.id, through: 149n }));
  await follower.refresh('0');
  assert.deepEqual(indexesOf(await wallet.stored()), range(3, 250));
});

test('after a failure midway, the next start derives what is missing', async () => {
  const wallet = await addWallet('BTC', 33);
  const follower = startFollower('BTC');
  await core.ctx.db.begin((tx) => burnIndexes(tx, { walletId: wallet.id, through: 29n }));
  await follower.refresh('0');
  const all = await wallet.stored();
  assert.deepEqual(indexesOf(all), range(0, 130));
  await core.ctx.db.sql`delete from spare_addresses where wallet_id = ${wallet.id} and index >= 20`;
  const next = startFollower('BTC');
  await next.refresh('0');
  assert.deepEqual(await wallet.stored(), all);
  assert.ok(all.every(({ key }) => next.has(key)));
});

test('followers of several networks share the addresses of a family, also when they come first at the same time', async () => {
  const wallets = [await addWallet('ETH', 34)];
  const followers = (['ETH', 'ETH@base', 'ETH@arbitrum'] as const).map(startFollower);
  await Promise.all(followers.map(({ refresh }) => refresh('0')));
  for (const wallet of wallets) {
    const rows = await wallet.stored();
    assert.deepEqual(indexesOf(rows), range(0, 100));
    for (const { has } of followers) assert.ok(rows.every(({ key }) => has(key)));
  }
});
