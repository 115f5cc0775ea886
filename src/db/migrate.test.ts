/** Migrations on a real database: the committed schema, a second run, two at once, and databases of newer versions. */
// Invariant: Concurrent first starts create one first merchant.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { describeSchema, SCHEMA_FILE } from '../../scripts/schema.ts';
import { eventually, testEnvironment, withoutRootWarning } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { isLongRun } from '../../test/kit/long.ts';
import { openCore } from '../app.ts';
import { readConfig } from '../config.ts';
import { createLog } from '../log.ts';
import { createFirstMerchant } from '../merchants/merchants.ts';
import { type Db, openDb } from './db.ts';
import { migrate, migrationNames, migrationNumber, tableNames } from './migrate.ts';

const log = createLog('silent');
let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());

/** An empty database. */
async function blank<T>(work: (name: string, url: string) => Promise<T>): Promise<T> {
  const name = `${database.connection.database}_blank`;
  await database.db.sql.unsafe(`create database ${name}`);
  try {
    return await work(name, database.url.replace(database.connection.database, name));
  } finally {
    await database.db.sql.unsafe(`drop database ${name} with (force)`);
  }
}

/** An empty database. */
async function emptyDatabase(t: TestContext): Promise<{ open(): Promise<Db>; url: string }> {
  const name = `empty_${randomBytes(8).toString('hex')}`;
  await database.db.sql.unsafe(`create database ${name}`);
  const opened: Db[] = [];
  t.after(async () => {
    for (const db of opened) await db.close();
    await database.db.sql.unsafe(`drop database ${name} with (force)`);
  });
  return {
    url: database.url.replace(database.connection.database, name),
    open: async () => {
      const db = await openDb({ ...database.connection, database: name, max: 2, log });
      opened.push(db);
      return db;
    },
  };
}

// Invariant: The committed schema matches the migrations.
test('the committed schema is what the migrations create', async () => {
  const made = await describeSchema(database.db);
  assert.equal(made, readFileSync(SCHEMA_FILE, 'utf8'), 'src/db/schema.sql is not fresh: run npm run generate');
  await database.db.sql`create index a_new_index on payments (invoice_id)`;
  assert.notEqual(await describeSchema(database.db), made, 'a change shows');
  await database.db.sql`drop index a_new_index`;
});

test('the tables named by the migrations are the tables that exist', async () => {
  const rows = await database.db.sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema()`;
  assert.deepEqual(rows.map((row) => row.name).sort(), [...tableNames(), 'migrations'].sort());
});

test('migrations are numbered without gaps', () => {
  assert.deepEqual(
    migrationNames().map(migrationNumber),
    migrationNames().map((_, i) => i + 1),
  );
});

test('migrating again changes nothing', async () => {
  const { sql } = database.db;
  const state = async () => [await describeSchema(database.db), [...(await sql`select * from migrations order by number`)]];
  const before = await state();
  assert.deepEqual(await migrate(database.db, log), { applied: [] });
  assert.deepEqual(await state(), before);
});

// Invariant: Processes that migrate at the same time take turns.
test('two processes that migrate an empty database at once take turns', async () => {
  await blank(async (name, url) => {
    const env = { PATH: process.env.PATH ?? '', ...testEnvironment(url, database.folder) };
    const run = () => promisify(execFile)(process.execPath, ['src/main.ts', 'migrate', '--json'], { env });
    const done = await Promise.all(isLongRun ? [run(), run(), run()] : [run(), run()]);
    for (const { stdout } of done) assert.deepEqual(JSON.parse(stdout), { migrated: true });
    const db = await openDb({ ...database.connection, database: name, log });
    const rows = await db.sql<{ name: string }[]>`select name from migrations order by number`;
    assert.deepEqual(
      rows.map((row) => row.name),
      migrationNames(),
    );
    assert.equal(await describeSchema(db), readFileSync(SCHEMA_FILE, 'utf8'));
    await db.close();
  });
});

test('a database that a newer program changed incompatibly is refused, one that it only added to is not', async () => {
  const { sql } = database.db;
  await sql`insert into migrations (number, name, breaking) values (9998, '9998_added.sql', false)`;
  assert.deepEqual(await migrate(database.db, log), { applied: [] });
  await sql`insert into migrations (number, name, breaking) values (9999, '9999_changed.sql', true)`;
  await assert.rejects(migrate(database.db, log), /9999_changed\.sql/);
  const env = { PATH: process.env.PATH ?? '', ...testEnvironment(database.url, database.folder) };
  await assert.rejects(
    promisify(execFile)(process.execPath, ['src/main.ts', 'doctor'], { env }),
    (error: { code: unknown; stderr: string }) =>
      error.code === 1 && /newer.*9999_changed\.sql|9999_changed\.sql.*newer/is.test(error.stderr),
  );
  await sql`delete from migrations where number > 9000`;
});

test('a migration that fails leaves nothing behind, and the next start retries it', async () => {
  await blank(async (name) => {
    const db = await openDb({ ...database.connection, database: name, log });
    await db.sql`create table payments (id text)`;
    await assert.rejects(migrate(db, log), /already exists/);
    const tables = await db.sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema() order by 1`;
    assert.deepEqual(
      tables.map((row) => row.name),
      ['migrations', 'payments'],
    );
    await db.sql`drop table payments`;
    assert.deepEqual((await migrate(db, log)).applied, migrationNames());
    await db.close();
  });
});

test('a database from before the first release continues once it has the last tables, and is refused before that', async () => {
  const { sql } = database.db;
  const state = () => sql<{ number: number; name: string }[]>`select number, name from migrations order by number`;
  const now = [...(await state())];
  const before = (newest: string) => sql`
    with old as (update migrations set name = '0001_initial.sql' where number = 1)
    insert into migrations (number, name, breaking) select n, case n when 93 then ${newest} else n || '_older.sql' end, true from generate_series(2, 93) n`;
  await before('0093_other.sql');
  await assert.rejects(migrate(database.db, log), /from before the first release/);
  assert.equal((await state()).length, 93, 'nothing was changed');
  await sql`delete from migrations where number > 1`;
  await before('0093_words.sql');
  assert.deepEqual(await migrate(database.db, log), { applied: [] });
  assert.deepEqual([...(await state())], now);
});

test('services that start at once on one empty database all serve, and create one first merchant', async (t) => {
  const { url, open } = await emptyDatabase(t);
  const services = Array.from({ length: isLongRun ? 4 : 2 }, () => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../main.ts'), 'serve'], {
      env: { PATH: process.env.PATH, ...testEnvironment(url, database.folder) },
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
  // The warning when starting as root has its own test.
  assert.deepEqual(
    services.map(({ err }) => withoutRootWarning(err)),
    services.map(() => ''),
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

test('of many first merchants created at once by separate processes, one is created', async (t) => {
  const { url, open } = await emptyDatabase(t);
  const config = readConfig(testEnvironment(url, database.folder));
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
