/** Pages of what no index answers: each looks at a bounded number of rows and says how far it came, so that it always answers at once. */
import type { Fragment, Sql } from './db.ts';

/** Looked at for a first page, and for each one after it: whoever asks for more may wait a little longer. */
const LOOK = 10_000;
const LOOK_FURTHER = 100_000;
/** The last row that was looked at when more are left; a cursor to go on from. */
export type LookedBackTo = { id: string; at: Date } | null;

/**
 * Candidates are the rows that indexes answer, newest first; `find` picks of them. Where indexes answer everything (`isExact`)
 * there is no bound. `last` reads the candidate of a key.
 */
export async function lookThrough<Row>(
  sql: Sql,
  {
    limit,
    further,
    isExact,
    find,
    candidateKeys,
    last,
  }: {
    limit: number;
    /** A page after the first. */
    further: boolean;
    isExact: boolean;
    /** At most one row more than the limit, out of so many candidates. */
    find: (bound: Fragment) => PromiseLike<readonly Row[]>;
    /** A statement of the keys alone, in their order: where an index holds them, no row is read. */
    candidateKeys: Fragment;
    last: (key: Fragment) => PromiseLike<readonly { id: string; at: Date }[]>;
  },
): Promise<{ items: Row[]; hasMore: boolean; lookedBackTo: LookedBackTo }> {
  const look = further ? LOOK_FURTHER : LOOK;
  const rows = await find(isExact ? sql`` : sql`limit ${look}`);
  const hasMore = rows.length > limit;
  const end = isExact || hasMore ? [] : await last(sql`(select * from (${candidateKeys}) as c offset ${look - 1} limit 1)`);
  return { items: rows.slice(0, limit), hasMore, lookedBackTo: end[0] ?? null };
}

/** Rows that overlap in time may be numbered in another order than they are dated; no more than this apart. */
const SLACK_MS = 10 * 60_000;

/**
 * A range of time as a range of keys, which have an index and grow with time: some twenty probes of it each, in one statement,
 * instead of a walk over all that is newer. The times themselves are still to be compared. `rows` are a table and whose rows.
 */
export async function keysWithin(
  sql: Sql,
  { key, time, rows, from, until }: { key: string; time: string; rows: Fragment; from: Date | null; until: Date | null },
): Promise<{ within: Fragment }> {
  /** The newest key written by then, one before all when there is none: halving the keys there are, which need not be dense. */
  const keyAt = async (ms: number): Promise<bigint> => {
    const [row] = await sql<{ found: bigint | null }[]>`
      with recursive halves (low, high) as (
        select coalesce((select min(${sql(key)}) from ${rows}) - 1, 0), coalesce((select max(${sql(key)}) from ${rows}), 0)
        union all
        select case when probe.at <= ${new Date(ms)} then probe.key else h.low end,
          case when probe.at <= ${new Date(ms)} then h.high when probe.key is null then (h.low + h.high + 1) / 2 - 1 else probe.key - 1 end
        from halves h left join lateral (
          select ${sql(key)} as key, ${sql(time)} as at from ${rows}
            and ${sql(key)} >= (h.low + h.high + 1) / 2 and ${sql(key)} <= h.high order by ${sql(key)} limit 1) as probe on true
        where h.low < h.high
      )
      select min(high) as found from halves`;
    return row!.found ?? 0n;
  };
  const [low, high] = await Promise.all([from && keyAt(from.getTime() - SLACK_MS), until && keyAt(until.getTime() + SLACK_MS)]);
  // In an object: a part of a statement that is answered by itself would be run.
  return {
    within: sql`${low === null ? sql`` : sql`and ${sql(key)} >= ${low}`} ${high === null ? sql`` : sql`and ${sql(key)} <= ${high}`}`,
  };
}
