/** Bringing the schema up to date, alone and at once, and the first start of several processes on one database. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { eventually, testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { openCore } from '../app.ts';
import { readConfig } from '../config.ts';
import { createLog } from '../log.ts';
import { createFirstMerchant } from '../merchants/merchants.ts';
import { type Db, openDb } from './db.ts';
import { migrate } from './migrate.ts';

const log = createLog('silent');
const FILES = readdirSync(join(import.meta.dirname, 'migrations')).sort();
let server: TestDatabase;
before(async () => {
  server = await testDatabase();
});
after(() => server.drop());

/** A database with nothing in it. */
async function emptyDatabase(t: TestContext): Promise<{ open(): Promise<Db>; url: string }> {
  const database = `empty_${randomBytes(8).toString('hex')}`;
  await server.db.sql.unsafe(`create database ${database}`);
  const opened: Db[] = [];
  t.after(async () => {
    for (const db of opened) await db.close();
    await server.db.sql.unsafe(`drop database ${database} with (force)`);
  });
  return {
    url: server.url.replace(server.connection.database, database),
    open: async () => {
      const db = await openDb({ ...server.connection, database, max: 2, log });
      opened.push(db);
      return db;
    },
  };
}
const schemaOf = ({ sql }: Db) => sql`
  select table_name, column_name, data_type, column_default from information_schema.columns where table_schema = 'public' order by 1, 2`;

test('a second migration changes nothing', async (t) => {
  const db = await (await emptyDatabase(t)).open();
  assert.deepEqual(await migrate(db, log), { applied: FILES });
  const schema = await schemaOf(db);
  const rows = await db.sql`select * from migrations`;
  assert.ok(schema.length > 100);
  assert.deepEqual(await migrate(db, log), { applied: [] });
  assert.deepEqual(await schemaOf(db), schema);
  assert.deepEqual(await db.sql`select * from migrations`, rows);
});

test('of six migrations at once one does the work, and all find it done', async (t) => {
  const database = await emptyDatabase(t);
  const dbs = await Promise.all(Array.from({ length: 6 }, () => database.open()));
  const results = await Promise.all(dbs.map((db) => migrate(db, log)));
  assert.deepEqual(results.map(({ applied }) => applied.length).sort(), [0, 0, 0, 0, 0, FILES.length]);
  const [row] = await dbs[0]!.sql<{ done: bigint }[]>`select count(*) as done from migrations`;
  assert.equal(row!.done, BigInt(FILES.length));
});

test('a migration that fails leaves nothing, and names itself', async (t) => {
  const db = await (await emptyDatabase(t)).open();
  await db.sql`create table payments (id text)`;
  await assert.rejects(migrate(db, log), { message: `Migration ${FILES[0]} failed: relation "payments" already exists` });
  const tables = await db.sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = 'public' order by 1`;
  assert.deepEqual(
    tables.map(({ name }) => name),
    ['migrations', 'payments'],
  );
  assert.equal((await db.sql`select 1 from migrations`).length, 0);
  await db.sql`drop table payments`;
  assert.deepEqual(await migrate(db, log), { applied: FILES });
});

test('a database of a newer, incompatible version is refused; a compatible one is used', async (t) => {
  const db = await (await emptyDatabase(t)).open();
  await migrate(db, log);
  await db.sql`insert into migrations (number, name, breaking) values (9998, '9998_more.sql', false)`;
  assert.deepEqual(await migrate(db, log), { applied: [] });
  await db.sql`insert into migrations (number, name, breaking) values (9999, '9999_other.sql', true)`;
  await assert.rejects(migrate(db, log), /brought to 9999_other\.sql by a newer Florin/);
});

test('services that start at once on one empty database all serve, with one first merchant between them', async (t) => {
  const { url, open } = await emptyDatabase(t);
  const services = Array.from({ length: 4 }, () => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../main.ts'), 'serve'], {
      env: { PATH: process.env.PATH, ...testEnvironment(url, server.folder) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const service = { out: '', err: '', child, ended: once(child, 'close') };
    child.stdout.on('data', (part) => {
      service.out += part;
    });
    child.stderr.on('data', (part) => {
      service.err += part;
    });
    return service;
  });
  await eventually(
    async () => services.map(({ out, err }) => ({ out, err })),
    (all) => all.every(({ out }) => out.includes('Florin is ready')),
    60_000,
  );
  await eventually(
    async () => services.filter(({ out }) => out.includes('Your first merchant is')).length,
    (count) => count > 0,
  );
  for (const { child } of services) child.kill('SIGTERM');
  for (const { ended } of services) await ended;
  assert.deepEqual(
    services.map(({ err }) => err),
    ['', '', '', ''],
  );
  const { sql } = await open();
  const merchants = await sql<{ id: string; plan: string }[]>`select id, plan from merchants`;
  assert.equal(merchants.length, 1);
  assert.equal(merchants[0]!.plan, 'enterprise');
  const welcomed = services.filter(({ out }) => out.includes('Your first merchant is'));
  assert.equal(welcomed.length, 1);
  assert.ok(welcomed[0]!.out.includes(merchants[0]!.id));
  assert.equal((await sql`select 1 from install`).length, 1);
});

test('of many first merchants made at once by processes of their own, one is made', async (t) => {
  const { url, open } = await emptyDatabase(t);
  const config = readConfig(testEnvironment(url, server.folder));
  const cores = await Promise.all(Array.from({ length: 4 }, () => openCore(config, log)));
  const made = await Promise.all([...cores, ...cores].map(({ ctx }) => createFirstMerchant(ctx, { name: 'My shop' })));
  for (const { close } of cores) await close();
  const [first, ...more] = made.filter((merchant) => merchant !== null);
  assert.deepEqual(more, []);
  const { sql } = await open();
  assert.deepEqual(
    (await sql<{ id: string }[]>`select id from merchants`).map(({ id }) => id),
    [first!.merchantId],
  );
  const [keys] = await sql<{ count: bigint }[]>`select count(*) from keys`;
  assert.equal(keys!.count, 4n);
});
