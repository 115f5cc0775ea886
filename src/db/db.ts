/** The database handle: postgres.js with bigint for int8 and scale-0 numeric. */
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import type { Log } from '../log.ts';
import connectPostgres from './driver.ts';

type Types = { bigint: bigint; numeric: bigint };
export type Sql = postgres.Sql<Types>;
export type Tx = postgres.TransactionSql<Types>;
/** A fragment of a statement, not run on its own. */
export type Fragment = postgres.PendingQuery<postgres.Row[]>;

export type Session = { sql: Sql; close(): Promise<void> };
export type Db = {
  sql: Sql;
  /** Runs in one READ COMMITTED transaction; retried up to 3 times after a conflict (40001, 40P01). */
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /**
   * One connection outside the pool, for session state such as locks and settings. When it is lost (a server that crashes and
   * recovers drops all sessions), `regain` runs on the next one until it succeeds.
   */
  session(options?: { regain?: (sql: Sql) => Promise<unknown> }): Session;
  /** A connection that pipelines its statements: each is its own transaction, in order. */
  lane: Sql;
  close(): Promise<void>;
};

const bigintType = (oid: number) => ({
  to: oid,
  from: [oid],
  serialize: (value: bigint | string | number) => String(value),
  parse: (text: string) => BigInt(text),
});
/** Array types of parameters that the driver cannot infer from the first element: `sql.array(values, OID.int8)`. */
export const OID = { bool: 1000, bytea: 1001, int8: 1016, timestamptz: 1185 } as const;

/** Words and numbers need no quotes, except NULL. */
const quoted = (text: string): string => (/^[\w.+-]+$/.test(text) && !/^null$/i.test(text) ? text : `"${text.replace(/["\\]/g, '\\$&')}"`);
/** A one-dimensional array as PostgreSQL writes it: `{a,"b \\"c\\"",NULL}`. */
const arrayType = <T>(oid: number, write: (item: T) => string, read: (text: string) => T) => ({
  to: oid,
  from: [oid],
  serialize: (items: readonly (T | null)[]) => {
    let text = '';
    for (const item of items) text += item === null ? ',NULL' : `,${quoted(write(item))}`;
    return `{${text.slice(1)}}`;
  },
  parse: (text: string): (T | null)[] =>
    Array.from(text.slice(1, -1).matchAll(/"((?:[^"\\]|\\[\s\S])*)"|([^,]+)/g), ([, quoted, bare]) =>
      quoted !== undefined ? read(quoted.replace(/\\([\s\S])/g, '$1')) : bare === 'NULL' ? null : read(bare!),
    ),
});
/** Every array type that statements use, because the driver would otherwise query them on each new connection. */
const ARRAYS = {
  boolArray: arrayType<boolean>(OID.bool, String, (text) => text === 't'),
  byteaArray: arrayType<Uint8Array>(
    OID.bytea,
    (bytes) => `\\x${Buffer.from(bytes).toString('hex')}`,
    (text) => Buffer.from(text.slice(2), 'hex'),
  ),
  float8Array: arrayType<number>(1022, String, Number),
  int4Array: arrayType<number>(1007, String, Number),
  int8Array: arrayType<bigint>(OID.int8, String, BigInt),
  numericArray: arrayType<bigint>(1231, String, BigInt),
  textArray: arrayType<string>(1009, String, String),
  timestamptzArray: arrayType<Date>(
    OID.timestamptz,
    (at) => at.toISOString(),
    (text) => new Date(text),
  ),
};

const LOST_TO_ANOTHER = new Set(['40001', '40P01']);
const TRIES = 3;

/** The location of a database: a URL, or the parts of an embedded server. */
export type Connection = { url: string } | { host: string; port: number; database: string; user: string };

/**
 * Opens a connection pool and rejects a database that could lose acknowledged payments: fsync, full_page_writes or synchronous_commit
 * off, a version before 15, or a pooler that assigns each transaction to another session.
 */
export async function openDb(options: Connection & { max?: number; log: Log }): Promise<Db> {
  const settings = {
    idle_timeout: 0,
    connect_timeout: 10,
    connection: { application_name: 'florin', TimeZone: 'UTC', lock_timeout: 10_000, statement_timeout: 60_000 },
    types: { bigint: bigintType(20), numeric: bigintType(1700), ...ARRAYS },
    // A query of the driver itself: its failure could not be caught, and a connection that breaks then would end the process.
    fetch_types: false,
    onnotice: () => {},
  };
  const connect = (more: object): Sql =>
    'url' in options
      ? connectTo(options.url, { ...settings, ...more })
      : connectPostgres({
          ...settings,
          ...more,
          host: options.host,
          port: options.port,
          database: options.database,
          username: options.user,
        });
  const session: Db['session'] = ({ regain } = {}) => {
    const closing = new AbortController();
    let regaining = false;
    const onclose = async () => {
      if (!regain || regaining) return;
      regaining = true;
      while (!closing.signal.aborted) {
        try {
          await regain(sql);
          break;
        } catch {
          await sleep(500, undefined, { signal: closing.signal, ref: false }).catch(() => {});
        }
      }
      regaining = false;
    };
    // Without a maximum lifetime: the driver would close a connection, and release its locks, within the hour.
    const sql = connect({ max: 1, max_lifetime: null, onclose });
    return {
      sql,
      close: () => {
        closing.abort();
        return sql.end({ timeout: 0 });
      },
    };
  };
  await refuseUnsafe(session());
  const sql = connect({ max: options.max ?? 10 });
  const lane = connect({ max: 1 });
  return {
    sql,
    begin: async <T>(work: (tx: Tx) => Promise<T>): Promise<T> => {
      for (let tries = 1; ; tries++) {
        try {
          return (await sql.begin(work)) as T;
        } catch (error) {
          if (tries >= TRIES || !LOST_TO_ANOTHER.has((error as { code?: string }).code ?? '')) throw error;
          options.log.warn({ code: (error as { code?: string }).code, tries }, 'Retrying a database transaction after a conflict');
        }
      }
    },
    session,
    lane,
    close: async () => {
      await Promise.all([sql.end({ timeout: 5 }), lane.end({ timeout: 5 })]);
    },
  };
}

/** A socket folder may be given like in libpq: `postgres://user@localhost/database?host=/run/postgresql`. */
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

async function refuseUnsafe({ sql, close }: Session): Promise<void> {
  try {
    const [row] = await sql<{ version: string; fsync: string; full_page_writes: string; synchronous_commit: string }[]>`
      select current_setting('server_version_num') as version, current_setting('fsync') as fsync,
        current_setting('full_page_writes') as full_page_writes, current_setting('synchronous_commit') as synchronous_commit`;
    if (Number(row!.version) < 150_000) throw new Error(`PostgreSQL 15 or newer is needed; this is ${row!.version}.`);
    for (const name of ['fsync', 'full_page_writes', 'synchronous_commit'] as const) {
      if (row![name] === 'off') throw new Error(`The database has ${name} = off and could lose acknowledged payments. Turn it on.`);
    }
    // Session state must survive from one transaction to the next, or advisory locks and prepared statements do not hold.
    await sql`select set_config('florin.session', 'kept', false)`;
    const [kept] = await sql<{ value: string | null }[]>`select current_setting('florin.session', true) as value`;
    if (kept!.value !== 'kept')
      throw new Error('The database is behind a transaction pooler. Connect to it directly, or use session pooling.');
  } finally {
    await close();
  }
}

/**
 * The transaction number below which no transaction of this database is still open, so later statements see everything they wrote.
 * `pg_snapshot_xmin` also waits for other databases of the server, where a long import would hold up readers. Only the last 32 bits
 * of an open transaction are known, so they are counted back from the newest.
 */
export async function readEndedBelow(sql: Sql): Promise<string> {
  const [row] = await sql<{ xid: string }[]>`
    select least(next, min(next - ((next - backend_xid::text::bigint + 2147483648) & 4294967295) + 2147483648))::text as xid
    from (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next) as newest
    left join pg_stat_activity on datname = current_database() and backend_xid is not null
    group by next`;
  return row!.xid;
}
