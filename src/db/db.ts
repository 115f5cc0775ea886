/** The database handle: postgres.js with bigint for int8 and scale-0 numeric. */
import type postgres from 'postgres';
import type { Log } from '../log.ts';
import connectPostgres from './driver.ts';

type Types = { bigint: bigint; numeric: bigint };
export type Sql = postgres.Sql<Types>;
export type Tx = postgres.TransactionSql<Types>;
/** A part of a statement, not run by itself. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>;

export type Db = {
  sql: Sql;
  /** Runs in one READ COMMITTED transaction; tried at most 3 times when it lost to another one (40001, 40P01). */
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  close(): Promise<void>;
};

const bigintType = (oid: number) => ({
  to: oid,
  from: [oid],
  serialize: (value: bigint | string | number) => String(value),
  parse: (text: string) => BigInt(text),
});
/** Element types of array parameters that the driver cannot tell from their first element: `sql.array(values, OID.int8)`. */
export const OID = { bool: 16, bytea: 17, int8: 20, timestamptz: 1184 } as const;

const LOST_TO_ANOTHER = new Set(['40001', '40P01']);
const TRIES = 3;

/** Where a database is: a URL, or the parts of an embedded server. */
export type Connection = { url: string } | { host: string; port: number; database: string; user: string };

/**
 * Opens a pool on a database and refuses one that could lose acknowledged payments: fsync, full_page_writes or
 * synchronous_commit off, a version before 15, or a pooler that hands each transaction to another session.
 */
export async function openDb(options: Connection & { max?: number; log: Log }): Promise<Db> {
  const settings = {
    max: options.max ?? 10,
    idle_timeout: 0,
    connect_timeout: 10,
    connection: { application_name: 'florin', TimeZone: 'UTC', lock_timeout: 10_000, statement_timeout: 60_000 },
    types: { bigint: bigintType(20), numeric: bigintType(1700) },
    onnotice: () => {},
  };
  const sql: Sql =
    'url' in options
      ? connectTo(options.url, settings)
      : connectPostgres({ ...settings, host: options.host, port: options.port, database: options.database, username: options.user });
  try {
    await refuseUnsafe(sql);
  } catch (error) {
    await sql.end({ timeout: 1 });
    throw error;
  }
  return {
    sql,
    begin: async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
      for (let tries = 1; ; tries++) {
        try {
          return (await sql.begin(work)) as T;
        } catch (error) {
          if (tries >= TRIES || !LOST_TO_ANOTHER.has((error as { code?: string }).code ?? '')) throw error;
          options.log.warn({ code: (error as { code?: string }).code, tries }, 'a transaction lost to another and is tried again');
        }
      }
    },
    close: () => sql.end({ timeout: 5 }),
  };
}

/** A socket folder may be given as libpq writes it: `postgres://user@localhost/database?host=/run/postgresql`. */
function connectTo(url: string, settings: object): Sql {
  const host = /[?&]host=([^&]+)/.exec(url)?.[1];
  if (host === undefined) return connectPostgres(url, settings) as unknown as Sql;
  const { username, password, pathname, port } = new URL(url);
  return connectPostgres({
    ...settings,
    host: decodeURIComponent(host),
    username: decodeURIComponent(username),
    database: decodeURIComponent(pathname.slice(1)),
    ...(password && { password: decodeURIComponent(password) }),
    ...(port && { port: Number(port) }),
  }) as unknown as Sql;
}

async function refuseUnsafe(sql: Sql): Promise<void> {
  const reserved = await sql.reserve();
  try {
    const [row] = await reserved<{ version: string; fsync: string; full_page_writes: string; synchronous_commit: string }[]>`
      select current_setting('server_version_num') as version, current_setting('fsync') as fsync,
        current_setting('full_page_writes') as full_page_writes, current_setting('synchronous_commit') as synchronous_commit`;
    if (Number(row!.version) < 150_000) throw new Error(`PostgreSQL 15 or newer is needed; this is ${row!.version}.`);
    for (const name of ['fsync', 'full_page_writes', 'synchronous_commit'] as const) {
      if (row![name] === 'off') throw new Error(`The database has ${name} = off and could lose acknowledged payments. Turn it on.`);
    }
    // Session state must survive from one transaction to the next, or advisory locks and prepared statements do not hold.
    await reserved`select set_config('florin.session', 'kept', false)`;
    const [kept] = await reserved<{ value: string | null }[]>`select current_setting('florin.session', true) as value`;
    if (kept!.value !== 'kept')
      throw new Error('The database is behind a transaction pooler. Connect to it directly, or use session pooling.');
  } finally {
    reserved.release();
  }
}
