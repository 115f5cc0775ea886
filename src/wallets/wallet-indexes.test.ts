/** Addresses are issued once, whatever happens to the database behind a data folder. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { eventually, testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { type App, startApp } from '../app.ts';
import { readConfig } from '../config.ts';
import { openDb } from '../db/db.ts';
import { createLog } from '../log.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { diagnose } from '../operate/doctor.ts';
import { readWalletIndexes } from './wallet-indexes.ts';
import { nextAddress, setWallet, startAddressFence } from './wallets.ts';

let database: TestDatabase;
let merchantId: string;
let walletId: string;
const running = new Set<App>();
const accountKey = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/84'/0'/0'").publicExtendedKey;
const start = async (url: string, folder: string): Promise<App> => {
  const app = await startApp(readConfig(testEnvironment(url, folder, { LOG_LEVEL: 'silent' })), { roles: [], log: createLog('silent') });
  running.add(app);
  return app;
};
const stop = async (app: App): Promise<void> => {
  running.delete(app);
  await app.stop();
};
const setKey = ({ ctx }: App) => setWallet(ctx, { merchantId, coin: 'BTC', accountKey, script: 'p2wpkh' });
const issue = async ({ ctx }: App, count: number): Promise<string[]> => {
  const addresses: string[] = [];
  for (let i = 0; i < count; i++)
    addresses.push((await ctx.db.begin((tx) => nextAddress(ctx, tx, { merchantId, coin: 'BTC', createdWith: 'secret' }))).address);
  return addresses;
};
const counter = async ({ ctx }: App): Promise<bigint> =>
  (await ctx.db.sql<{ next: bigint }[]>`select next_index as next from wallets where id = ${walletId}`)[0]!.next;
const noted = async (folder = database.folder) => (await readWalletIndexes(folder)).get(walletId);

before(async () => {
  database = await testDatabase();
  const app = await start(database.url, database.folder);
  ({ merchantId } = await createMerchant(app.ctx, { name: 'Shop' }));
  ({ walletId } = await setKey(app));
  await stop(app);
});
after(async () => {
  for (const app of running) await stop(app);
  await database?.drop();
});

/** A copy of the database as it is now, such as a snapshot that somebody restores later. */
async function copyDatabase(): Promise<string> {
  const name = `copy_${database.connection.database}`;
  const admin = await openDb({ ...database.connection, database: 'florin', max: 1, log: createLog('silent') });
  await admin.sql.unsafe(`drop database if exists ${name} with (force)`);
  await eventually(async () => {
    await admin.sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${database.connection.database}`;
    return admin.sql.unsafe(`create database ${name} template ${database.connection.database} strategy file_copy`).then(
      () => true,
      () => false,
    );
  }, Boolean);
  await admin.close();
  return database.url.replace(database.connection.database, name);
}

test('a process that is replaced on the same server continues at the next index', async () => {
  const before = await start(database.url, database.folder);
  await issue(before, 1);
  const next = await counter(before);
  // As after a kill -9: it gives nothing back.
  const after = await start(database.url, database.folder);
  await issue(after, 1);
  assert.equal(await counter(after), next + 1n);
  for (const one of [before, after]) await stop(one);
});

test('a service on an older copy of its database skips what was issued since, says so, and leaves no other gap', async () => {
  const given = new Set<string>();
  const issued = async (app: App, count: number) => {
    for (const address of await issue(app, count)) {
      assert.ok(!given.has(address), `${address} was issued twice`);
      given.add(address);
    }
  };
  const app = await start(database.url, database.folder);
  await issued(app, 10);
  await stop(app);
  const url = await copyDatabase();
  const later = await start(database.url, database.folder);
  await issued(later, 5);
  assert.equal(await noted(), 20n);
  await stop(later);
  const copied = await start(url, database.folder);
  await issued(copied, 2);
  assert.equal(await counter(copied), 34n);
  const { findings } = await diagnose(copied.ctx);
  assert.match(findings.find(({ check }) => check === 'BTC addresses')!.detail, new RegExp(`^${walletId} skipped the indexes 12 to 31 on`));
  // The original, on the same folder, does not issue what the copy reserved.
  const original = await start(database.url, database.folder);
  await issued(original, 30);
  await issued(copied, 30);
  await issued(original, 30);
  for (const one of [original, copied]) await stop(one);
});

test('a counter that goes back under a running process is not followed', async () => {
  const app = await start(database.url, database.folder);
  const given = new Set(await issue(app, 3));
  await app.ctx.db.sql`update wallets set next_index = next_index - 3 where id = ${walletId}`;
  for (const address of await issue(app, 5)) assert.ok(!given.has(address));
  await stop(app);
});

test('a wallet that the database forgot continues past its addresses when its key is set again', async () => {
  const app = await start(database.url, database.folder);
  const given = new Set(await issue(app, 3));
  await app.ctx.db.sql`delete from skipped_indexes`;
  await app.ctx.db.sql`delete from wallets`;
  const { findings } = await diagnose(app.ctx);
  assert.match(findings.find(({ check }) => check === 'wallets')!.detail, new RegExp(`lists ${walletId} up to index ${await noted()}`));
  await stop(app);
  const again = await start(await copyDatabase(), database.folder);
  assert.equal((await setKey(again)).walletId, walletId);
  for (const address of await issue(again, 5)) assert.ok(!given.has(address));
  await stop(again);
  const last = await start(database.url, database.folder);
  await setKey(last);
  await issue(last, 1);
  await stop(last);
});

test('the file of each process follows what other processes issue, and a service that ends alone gives back what it did not issue', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-indexes-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [one, other] = [await start(database.url, database.folder), await start(database.url, folder)];
  await issue(one, 25);
  const next = await counter(one);
  await eventually(
    () => noted(folder),
    (end) => end !== undefined && end >= next,
  );
  await stop(other);
  await startAddressFence(one.ctx, { alone: true }).stop();
  assert.equal(await noted(), next);
  assert.doesNotThrow(() => JSON.parse(readFileSync(join(database.folder, 'wallet-indexes.json'), 'utf8')));
  await stop(one);
});

test('stored address indexes are read completely or not at all', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-indexes-'));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.deepEqual(await readWalletIndexes(folder), new Map());
  const write = (text: string) => writeFileSync(join(folder, 'wallet-indexes.json'), text);
  write('{"wal_1": 40, "wal_2": 0}');
  const known = new Map([
    ['wal_1', 40n],
    ['wal_2', 0n],
  ]);
  assert.deepEqual(await readWalletIndexes(folder), known);
  for (const text of ['', '[]', 'null', '"wal_1"', '{"wal_1": "40"}', '{"wal_1": 40, "wal_2": -1}', '{"wal_1": 1.5}', '{"wal_1": null}']) {
    write(text);
    await assert.rejects(readWalletIndexes(folder), /wallet-indexes\.json is damaged/, text);
  }
});
