/** Migrations on a real database: the committed schema, a second run, two at once, and databases of newer programs. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { describeSchema, SCHEMA_FILE } from '../../scripts/schema.ts';
import { testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { createLog } from '../log.ts';
import { openDb } from './db.ts';
import { migrate, migrationNames, migrationNumber, tableNames } from './migrate.ts';

const log = createLog('silent');
let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());

/** A database without anything in it. */
async function blank<T>(work: (name: string, url: string) => Promise<T>): Promise<T> {
  const name = `${database.connection.database}_blank`;
  await database.db.sql.unsafe(`create database ${name}`);
  try {
    return await work(name, database.url.replace(database.connection.database, name));
  } finally {
    await database.db.sql.unsafe(`drop database ${name} with (force)`);
  }
}

test('the committed schema is what the migrations make', async () => {
  const made = await describeSchema(database.db);
  assert.equal(made, readFileSync(SCHEMA_FILE, 'utf8'), 'src/db/schema.sql is not fresh: run npm run generate');
  await database.db.sql`create index a_new_index on payments (invoice_id)`;
  assert.notEqual(await describeSchema(database.db), made, 'a change shows');
  await database.db.sql`drop index a_new_index`;
});

test('the tables named by the migrations are the tables there are', async () => {
  const rows = await database.db.sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema()`;
  assert.deepEqual(rows.map((row) => row.name).sort(), [...tableNames(), 'migrations'].sort());
});

test('numbers of migrations are one row without gaps', () => {
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

test('two processes that migrate an empty database at once take turns', async () => {
  await blank(async (name, url) => {
    const env = { PATH: process.env.PATH ?? '', ...testEnvironment(url, database.folder) };
    const run = () => promisify(execFile)(process.execPath, ['src/main.ts', 'migrate', '--json'], { env });
    const done = await Promise.all([run(), run(), run()]);
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

test('a database that a newer program changed for good is refused, one that it only added to is not', async () => {
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

test('a migration that fails leaves nothing of itself, and the next start tries it again', async () => {
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
