/** Numbered, forward-only migrations, each in a transaction that records its number first. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../log.ts';
import type { Db } from './db.ts';

const FOLDER = join(import.meta.dirname, 'migrations');
/** First line of a migration that older programs must not run with. */
const BREAKING = '-- ! breaking';
const MIGRATE_LOCK = 7_233_103;

/**
 * Brings the schema up to date. One lock makes concurrent starts take turns. Errors: the database has a breaking revision
 * that this program does not know.
 */
export async function migrate(db: Db, log: Log): Promise<{ applied: string[] }> {
  const files = readdirSync(FOLDER)
    .filter((name) => /^\d{4}_.*\.sql$/.test(name))
    .sort();
  const { sql, close } = db.session();
  const applied: string[] = [];
  try {
    await sql`set statement_timeout = 0`;
    await sql`set lock_timeout = 0`;
    await sql`select pg_advisory_lock(${MIGRATE_LOCK}::bigint)`;
    await sql`
      create table if not exists migrations (number int primary key, name text not null, breaking boolean not null, at timestamptz not null default clock_timestamp())`;
    const rows = await sql<
      { number: number; name: string; breaking: boolean }[]
    >`select number, name, breaking from migrations order by number`;
    const known = new Set(files.map((name) => Number(name.slice(0, 4))));
    const foreign = rows.find((row) => row.breaking && !known.has(row.number));
    if (foreign)
      throw new Error(
        `The database was brought to ${foreign.name} by a newer Florin, which this one cannot work with. Use that version or newer.`,
      );
    const done = new Set(rows.map((row) => row.number));
    for (const name of files) {
      const number = Number(name.slice(0, 4));
      if (done.has(number)) continue;
      const text = readFileSync(join(FOLDER, name), 'utf8');
      try {
        await sql.begin(async (tx) => {
          await tx`insert into migrations (number, name, breaking) values (${number}, ${name}, ${text.startsWith(BREAKING)})`;
          await tx.unsafe(text);
        });
      } catch (error) {
        throw new Error(`Migration ${name} failed: ${(error as Error).message}`, { cause: error });
      }
      applied.push(name);
    }
  } finally {
    await close();
  }
  if (applied.length > 0) log.info({ applied }, 'the database schema was brought up to date');
  return { applied };
}
