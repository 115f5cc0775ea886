/** Numbered, forward-only migrations, each in a transaction that records its number first. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '#log';
import type { Db, Sql, Tx } from './db.ts';

const FOLDER = join(import.meta.dirname, 'migrations');
/** First line of a migration that older versions must not run with. */
const BREAKING = '-- ! breaking';
const LAST_BEFORE_RELEASE = '0093_words.sql';
export const MIGRATE_LOCK = 7_233_103;

/** The names of all migrations in this version, in order. */
export const migrationNames = (): string[] =>
  readdirSync(FOLDER)
    .filter((name) => /^\d{4}_.*\.sql$/.test(name))
    .sort();
export const migrationNumber = (name: string): number => Number(name.slice(0, 4));

/** The tables of this version in the order of their creation. `migrations` itself is not included. */
export const tableNames = (): string[] =>
  migrationNames().flatMap((name) =>
    [...readFileSync(join(FOLDER, name), 'utf8').matchAll(/^create table ([a-z_]+) \(/gm)].map(([, made]) => made!),
  );

/**
 * Which migrations of this version a database or a backup has, by those it names. Before the first release there were others: the last
 * of them left the tables that the first one of this version creates. Errors: it stopped before that.
 */
export function appliedMigrations(names: readonly string[]): string[] {
  const [first] = migrationNames();
  if (names.length === 0 || names[0] === first) return [...names];
  if (names.at(-1) === LAST_BEFORE_RELEASE) return [first!];
  throw new Error(
    `The data is from before the first release (${names.at(-1)}). Start the last version before the release once, which has ${LAST_BEFORE_RELEASE}, then this one.`,
  );
}

/** The table of applied migrations, the first one in a database. */
export const createMigrations = (session: Sql | Tx) => session`
  create table if not exists migrations (number int primary key, name text not null, breaking boolean not null, at timestamptz not null default clock_timestamp())`;

/** Applies one migration and records it, in the transaction of the caller. */
export async function applyMigration(session: Sql | Tx, name: string): Promise<void> {
  const text = readFileSync(join(FOLDER, name), 'utf8');
  await session`insert into migrations (number, name, breaking) values (${migrationNumber(name)}, ${name}, ${text.startsWith(BREAKING)})`;
  await session.unsafe(text);
}

/**
 * Updates the schema. A lock serializes concurrent starts. `beforeUpgrade` runs under it before the first migration of a database that
 * holds something. Errors: the database has a breaking migration that this version does not
 * know, or is from before the first release.
 */
export async function migrate(
  db: Db,
  log: Log,
  { beforeUpgrade }: { beforeUpgrade?: (next: string) => Promise<void> } = {},
): Promise<{ applied: string[] }> {
  const files = migrationNames();
  const { sql, close } = db.session();
  const applied: string[] = [];
  try {
    await sql`set statement_timeout = 0`;
    await sql`set lock_timeout = 0`;
    await sql`select pg_advisory_lock(${MIGRATE_LOCK}::bigint)`;
    await createMigrations(sql);
    const read = () =>
      sql<{ number: number; name: string; breaking: boolean }[]>`select number, name, breaking from migrations order by number`;
    let rows = await read();
    const names = rows.map(({ name }) => name);
    const [first] = appliedMigrations(names);
    if (first !== names[0]) {
      await sql`with others as (delete from migrations where number > 1) update migrations set name = ${first!} where number = 1`;
      rows = await read();
    }
    const known = new Set(files.map(migrationNumber));
    const foreign = rows.find((row) => row.breaking && !known.has(row.number));
    if (foreign)
      throw new Error(
        `The database was brought to ${foreign.name} by a newer Florin, which this one cannot work with. Use that version or newer.`,
      );
    const done = new Set(rows.map((row) => row.number));
    const next = files.find((name) => !done.has(migrationNumber(name)));
    // A database that holds nothing yet has nothing to lose.
    if (next !== undefined && done.size > 0) await beforeUpgrade?.(next);
    for (const name of files) {
      if (done.has(migrationNumber(name))) continue;
      try {
        await sql.begin((tx) => applyMigration(tx, name));
      } catch (error) {
        throw new Error(`Migration ${name} failed: ${(error as Error).message}`, { cause: error });
      }
      applied.push(name);
    }
  } finally {
    await close();
  }
  if (applied.length > 0) log.info({ migrations: applied.length, newest: applied.at(-1) }, 'Database schema is up to date');
  return { applied };
}
