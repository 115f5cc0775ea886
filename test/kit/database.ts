/** Databases for tests: one real server for the run, one freshly cloned database per test file. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { type Db, openDb } from '../../src/db/db.ts';
import connectPostgres from '../../src/db/driver.ts';
import { type Embedded, startEmbedded } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { createLog } from '../../src/log.ts';

const log = createLog('error');
export type TestServer = { host: string; stop(): Promise<void> };
type EmptyDatabase = {
  url: string;
  connection: { host: string; port: number; database: string; user: string };
  /** A folder for a service that uses this database. */
  folder: string;
  drop(): Promise<void>;
};
export type TestDatabase = EmptyDatabase & { db: Db };

/** Starts a server in a temporary folder (in memory by default) with the migrated template `florin_template`. */
export async function startTestServer(parent = '/dev/shm'): Promise<TestServer> {
  const folder = mkdtempSync(`${parent}/florin-test-`);
  const embedded: Embedded = await startEmbedded({ dataFolder: folder, log });
  const admin = await openDb({ ...embedded.connection, max: 1, log });
  // Each new database makes a checkpoint, after which pages are logged whole, and compressing them takes a twentieth of the server's time.
  await admin.sql.unsafe('alter role all set wal_compression = off');
  // Planning a statement again for each of its first five executions takes a quarter of the server's time, because no connection lives long.
  await admin.sql.unsafe('alter role all set plan_cache_mode = force_generic_plan');
  await admin.sql.unsafe('create database florin_template');
  const template = await openDb({ ...embedded.connection, database: 'florin_template', max: 2, log });
  await migrate(template, log);
  await template.close();
  await admin.close();
  return {
    host: embedded.connection.host,
    stop: async () => {
      await embedded.release();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

let own: Promise<TestServer> | null = null;
let users = 0;

/** A new, migrated database, and a handle on it. `drop` it at the end; the last drop also stops a server that this process started. */
export async function testDatabase(place: { parent?: string } = {}): Promise<TestDatabase> {
  const made = await emptyDatabase(place);
  const db = await openDb({ ...made.connection, log });
  const drop = async () => {
    await db.close();
    await made.drop();
  };
  return { ...made, db, drop };
}

/** The same without a handle, for a service that opens its own. */
export async function emptyDatabase({ parent }: { parent?: string } = {}): Promise<EmptyDatabase> {
  users++;
  const given = process.env.FLORIN_TEST_DATABASE;
  if (!given) own ??= startTestServer(parent);
  const host = given ?? (await own!).host;
  const connection = { host, port: 5432, user: 'florin' };
  const database = `test_${randomBytes(8).toString('hex')}`;
  // One connection: the server has been looked at.
  const admin = connectPostgres({ ...connection, database: 'florin', max: 1 });
  // Cloning locks the template for a moment, so files that clone at the same time take turns. A file copy takes a fifth of the time.
  await admin`select pg_advisory_lock(42)`;
  await admin.unsafe(`create database ${database} template florin_template strategy file_copy`);
  await admin`select pg_advisory_unlock(42)`;
  const folder = mkdtempSync('/dev/shm/florin-data-');
  return {
    folder,
    url: `postgres://florin@localhost/${database}?host=${encodeURIComponent(host)}`,
    connection: { ...connection, database },
    drop: async () => {
      await admin.unsafe(`drop database ${database} with (force)`);
      await admin.end();
      rmSync(folder, { recursive: true, force: true });
      users--;
      if (users === 0 && own) {
        const server = await own;
        own = null;
        await server.stop();
      }
    },
  };
}
