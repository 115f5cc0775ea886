/** The database handle: connections that are safe to keep money in, transactions that are retried, and sessions that hold locks. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import connectPostgres, { type Pool, type PoolOptions, type TransactionTag } from './driver.ts';

export type Sql = Pool;
export type Tx = TransactionTag;
type DbSession = { sql: Sql; close(): Promise<void> };
export type Db = {
  sql: Sql;
  /** Runs in one READ COMMITTED transaction; retried up to 3 times after a conflict (40001, 40P01). */
  begin<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /**
   * One connection outside the pool, for session state such as locks and settings. When it is lost (a server that crashes and
   * recovers drops all sessions), `lost` is called, and `regain` runs on the next one until it succeeds.
   */
  session(options?: { regain?: (sql: Sql) => Promise<unknown>; lost?: () => void }): DbSession;
  /** A connection that pipelines its statements: each is its own transaction, in order. */
  lane: Sql;
  /**
   * From now on, a server that stops answering is left within seconds: all connections end, statements that wait fail, and new ones fail
   * immediately until a server answers again. A service does this; a command waits for its statements.
   */
  watch(): { stop(): Promise<void> };
  /** Whether the disk of the database is full: a write failed for that reason, and a new one still fails. */
  isFull(): Promise<boolean>;
  close(): Promise<void>;
};

/** Array types of parameters that the server cannot infer: `sql.array(values, OID.int8)`. */
export const OID = { bool: 1000, bytea: 1001, int8: 1016, timestamptz: 1185 } as const;

const LOST_TO_ANOTHER = new Set(['40001', '40P01']);
const TRIES = 3;
const DISK_FULL = '53100';

/** A connection of the pool is replaced after an hour at most, with what its server process has gathered. */
const LIFETIME_MS = 60 * 60_000;
const LOCK_TIMEOUT_MS = 10_000;
const STATEMENT_TIMEOUT_MS = 60_000;
/** A server ends a statement at its timeout. One that is silent for longer has not received the statement, or will never answer. */
const SILENCE_MS = STATEMENT_TIMEOUT_MS + 5_000;
/** How long a statement waits for a connection while no server accepts one. */
const PATIENCE_MS = 4_000;
/** A server that leaves this many questions in a row unanswered is away: callers get their 503 within five seconds. */
const MISSED_PULSES = 9;
const PULSE_MS = 500;

/** The location of a database: a URL, or the parts of an embedded server. */
type DbConnection = { url: string } | { host: string; port: number; database: string; user: string };

/**
 * Opens a connection pool and rejects a database that could lose acknowledged payments: fsync, full_page_writes or synchronous_commit
 * off, a version before 15, a standby, or a pooler that assigns each transaction to another session.
 */
export async function openDb(options: DbConnection & { max?: number; log: Log }): Promise<Db> {
  const { log } = options;
  const state = { away: false, silenceMs: 0, full: false };
  const hangUps = new Set<() => void>();
  /** What all connections have in common. Those of pools also refuse statements while the database is away. */
  const joint = {
    ...{ hangUps, patienceMs: PATIENCE_MS, silenceMs: () => state.silenceMs },
    onopen: `set lock_timeout = ${LOCK_TIMEOUT_MS}; set statement_timeout = ${STATEMENT_TIMEOUT_MS}`,
    failed: (code: string) => {
      if (code === DISK_FULL) state.full = true;
    },
  };
  const parameters = { application_name: 'florin', TimeZone: 'UTC' };
  const { log: _, max = 10, ...place } = options;
  const connect = (more: Omit<PoolOptions, keyof DbConnection | 'parameters' | 'isPrimary'>): Sql =>
    connectPostgres({ ...place, parameters, isPrimary: true, ...more });
  const openSession: Db['session'] = (actions) => createSession((more) => connect({ ...more, joint }), actions);
  const ofPool = { lifetimeMs: LIFETIME_MS, joint: { ...joint, isAway: () => state.away } };
  const sql = connect({ ...ofPool, max });
  let hasLost = false;
  const onclose = () => {
    hasLost = true;
  };
  const lane = connect({ ...ofPool, max: 1, onclose });
  const close = async () => {
    await Promise.all([sql.end({ timeout: 5 }), lane.end({ timeout: 5 })]);
  };
  try {
    await refuseUnsafe(lane, sql, () => hasLost);
  } catch (error) {
    await close();
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
          log.warn({ code: (error as { code?: string }).code, tries }, 'Retrying a database transaction after a conflict');
        }
      }
    },
    session: openSession,
    lane,
    watch: () => {
      state.silenceMs = SILENCE_MS;
      const pulse = startPulse(openSession(), {
        away: () => {
          log.error({}, 'The database does not answer; leaving its connections');
          state.away = true;
          for (const hangUp of [...hangUps]) hangUp();
        },
        back: () => {
          log.info({}, 'The database answers again');
          state.away = false;
        },
      });
      return {
        stop: () => {
          state.silenceMs = 0;
          return pulse.stop();
        },
      };
    },
    isFull: async () => {
      if (state.full) state.full = !(await hasRoom(sql));
      return state.full;
    },
    close,
  };
}

function createSession(
  connect: (more: { max: number; onclose: () => void }) => Sql,
  { regain, lost }: NonNullable<Parameters<Db['session']>[0]> = {},
): DbSession {
  const closing = new AbortController();
  let regaining = false;
  const onclose = async () => {
    lost?.();
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
  // Without a maximum lifetime: it would end a connection, and release its locks, within the hour.
  const sql = connect({ max: 1, onclose });
  return {
    sql,
    close: () => {
      closing.abort();
      return sql.end({ timeout: 0 });
    },
  };
}

/**
 * Asks the server something easy once a second, and twice after a missing answer. Ticks without an answer are counted, not seconds: while this process is busy or asleep, it asks
 * nothing, and a reply that waits in the socket is read before the next question.
 */
function startPulse({ sql, close }: DbSession, { away, back }: { away(): void; back(): void }): { stop(): Promise<void> } {
  let missed = 0;
  let asking = false;
  const ask = async () => {
    asking = true;
    try {
      await sql.unsafe('select 1');
      if (missed > MISSED_PULSES) back();
      missed = 0;
    } catch {
      // It is asked again.
    }
    asking = false;
  };
  const timer = setInterval(() => {
    // Every second tick while all goes well.
    if (!asking && missed > 0) void ask();
    missed++;
    if (missed === MISSED_PULSES + 1) away();
  }, PULSE_MS);
  timer.unref();
  return {
    stop: () => {
      clearInterval(timer);
      return close();
    },
  };
}

/** Whether a new table finds room. Unlogged, because the server itself gives up when its log finds none. */
async function hasRoom(sql: Sql): Promise<boolean> {
  const enough = new Error('There is room.');
  try {
    await sql.begin(async (tx) => {
      await tx`create unlogged table florin_room as select repeat('x', 1000) as filler from generate_series(1, 1000)`;
      throw enough;
    });
  } catch (error) {
    if (error !== enough && (error as { code?: string }).code !== DISK_FULL) throw error;
    return error === enough;
  }
  return false;
}

const behindPooler = (cause?: unknown): Error =>
  Object.assign(new Error('The database is behind a pooler that shares sessions', { cause }), { code: 'SHARED_SESSIONS' });
/** The errors of statements that a pooler sent to another session, and of a pooler that allows no transactions. */
const OF_POOLER = /^26000|transaction blocks not allowed/;

/** Looks with two pools that were just made, so each of them has a session of its own. */
async function refuseUnsafe(one: Sql, other: Sql, hasLost: () => boolean): Promise<void> {
  try {
    await refuseSettings(one);
    await refusePooler(one, other);
  } catch (error) {
    // What was set in a session that the server ended looks lost to a pooler.
    if (hasLost()) throw Object.assign(new Error('The database closed a connection', { cause: error }), { code: 'CONNECTION_CLOSED' });
    const { code = '', message } = error as { code?: string; message: string };
    throw OF_POOLER.test(code) || OF_POOLER.test(message) ? behindPooler(error) : error;
  }
}

async function refuseSettings(sql: Sql): Promise<void> {
  const [row] = await sql.unsafe<{ version: string; fsync: string; full_page_writes: string; synchronous_commit: string }[]>(`
    select current_setting('server_version_num') as version, current_setting('fsync') as fsync,
      current_setting('full_page_writes') as full_page_writes, current_setting('synchronous_commit') as synchronous_commit`);
  if (Number(row!.version) < 150_000) throw new Error(`PostgreSQL 15 or newer is needed; this is ${row!.version}.`);
  for (const name of ['fsync', 'full_page_writes', 'synchronous_commit'] as const) {
    if (row![name] === 'off') throw new Error(`The database has ${name} = off and could lose acknowledged payments. Turn it on.`);
  }
}

/**
 * Session state must survive from one transaction to the next, or advisory locks, prepared statements and timeouts do not hold. A pooler
 * gives the free session again, so another transaction holds one meanwhile.
 */
async function refusePooler(one: Sql, other: Sql): Promise<void> {
  await one.unsafe(`select set_config('florin.session', 'kept', false)`);
  for (let tries = 0; tries < 3; tries++) {
    await other.begin(async (tx) => {
      await tx.unsafe('select 1');
      const [kept] = await one.unsafe<{ mark: string | null; locks: number; statements: number }[]>(`
        select current_setting('florin.session', true) as mark,
          (extract(epoch from current_setting('lock_timeout')::interval) * 1000)::int as locks,
          (extract(epoch from current_setting('statement_timeout')::interval) * 1000)::int as statements`);
      const { mark, locks, statements } = kept!;
      if (mark !== 'kept' || locks !== LOCK_TIMEOUT_MS || statements !== STATEMENT_TIMEOUT_MS) throw behindPooler();
    });
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

// Leadership of one task among processes: an advisory lock, which ends with the session that holds it.

/** One use of the leadership: another object after each loss. */
export type Term = object;
type Lead = {
  /** The current term of this process; null while another process leads, or nobody. Takes the leadership when it is free. */
  take(): Promise<Term | null>;
  close(): Promise<void>;
};

/** A restart or failover of the database ends the term, even if the same process leads again afterwards. */
export function createLead(db: Db, { lock, name }: { lock: number; name: string }): Lead {
  let term: Term | null = null;
  const session = db.session({
    lost: () => {
      term = null;
    },
  });
  return {
    take: async () => {
      if (term) return term;
      const [row] = await session.sql<{ taken: boolean }[]>`select pg_try_advisory_lock(${lock}::int, hashtext(${name})) as taken`;
      if (row!.taken) term = {};
      return term;
    },
    close: session.close,
  };
}

// Time from the database: a sampled instant plus monotonic time, so that a wrong process clock decides nothing.

type SampledClock = Clock & { sample(): Promise<void>; stop(): void };

/** The highest drift of the process clock, as a fraction of elapsed time. */
const DRIFT = 1e-3;

/**
 * Samples the database clock now and then once a second. A sample that failed, or that took long and agrees with the last one, is
 * ignored.
 */
export async function startClock(db: Db): Promise<SampledClock> {
  let instantMs = 0;
  let sampledAtMs = 0;
  let wrongByMs = Number.POSITIVE_INFINITY;
  const sample = async () => {
    const before = performance.now();
    const [row] = await db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    const after = performance.now();
    // The clock was read at some point in between; the midpoint is off by at most half the round trip.
    const offMs = (after - before) / 2;
    const middle = before + offMs;
    const instant = row!.now.getTime();
    const expected = instantMs + (middle - sampledAtMs);
    const allowedMs = wrongByMs + (middle - sampledAtMs) * DRIFT;
    // A less exact sample adds nothing, unless the two contradict each other: then the clock was set, or this machine slept.
    if (offMs > allowedMs && Math.abs(instant - expected) <= offMs + allowedMs) return;
    instantMs = instant;
    sampledAtMs = middle;
    wrongByMs = offMs;
  };
  await sample();
  const timer = setInterval(() => void sample().catch(() => {}), 1_000);
  timer.unref();
  return {
    now: () => new Date(instantMs + (performance.now() - sampledAtMs)),
    monotonicMs: () => performance.now(),
    sample,
    stop: () => clearInterval(timer),
  };
}
