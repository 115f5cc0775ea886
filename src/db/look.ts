/** Reads of long lists that stay fast: pages of searches without an index check a bounded number of rows, and counts end. */
import type { Sql } from './db.ts';
import type { Fragment } from './sql.ts';

/** Rows to check for a first page, and for each later page, which may take a little longer. */
const LOOK = 10_000;
const LOOK_FURTHER = 100_000;
/** The last checked row when more are left: a cursor to continue from. */
export type LookedBackTo = { id: string; at: Date } | null;

/**
 * Candidates are the rows that indexes return, newest first; `find` filters them. When indexes cover everything (`isExact`), there is
 * no limit. `last` reads the candidate of a key.
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
    /** Whether it is a later page. */
    further: boolean;
    isExact: boolean;
    /** At most one row more than the limit, from this many candidates. */
    find: (bound: Fragment) => PromiseLike<readonly Row[]>;
    /** A statement of the keys in order. When an index contains them, no row is read. */
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

/** Numbers and times of concurrent rows may differ in order by at most this much. */
const SLACK_MS = 10 * 60_000;

/**
 * Converts a time range to a key range, because keys are indexed and grow with time: about twenty probes per end, in one statement,
 * instead of scanning all newer rows. The times themselves must still be compared. `rows` are a table and a condition on its owner.
 */
export async function rowKeysWithin(
  sql: Sql,
  { key, time, rows, from, until }: { key: string; time: string; rows: Fragment; from: Date | null; until: Date | null },
): Promise<{ within: Fragment }> {
  /** The newest key written by then, or one before all. Binary search over the existing keys, which may have gaps. */
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
  // Wrapped in an object, because a fragment that is returned on its own would be executed.
  return {
    within: sql`${low === null ? sql`` : sql`and ${sql(key)} >= ${low}`} ${high === null ? sql`` : sql`and ${sql(key)} <= ${high}`}`,
  };
}

/** The largest count that is exact, and how many rows of a state are looked through for those that are listed. */
const MOST_EXACT = 1_000;
const MOST_LISTED = 10_000;
type StateCount = { state: string; count: number; isMore: boolean };

/**
 * How many rows of each state a list shows; `isMore`: there may be more than `count`. `rowsIn`: a table, a condition and the order of the
 * list; `listed` leaves some of them out.
 */
export async function countByState(
  sql: Sql,
  { states, rowsIn, listed = sql`true` }: { states: readonly string[]; rowsIn(state: Fragment): Fragment; listed?: Fragment },
): Promise<StateCount[]> {
  const rows = rowsIn(sql`one.state`);
  const counts = await sql<StateCount[]>`
    select one.state, least(n, ${MOST_EXACT}) as count, n > ${MOST_EXACT} or exists (select 1 from ${rows} offset ${MOST_LISTED}) as "isMore"
    from unnest(${states}::text[]) with ordinality as one (state, place) cross join lateral (
      select count(*)::int as n from (
        select 1 from (select * from ${rows} limit ${MOST_LISTED}) as found where ${listed} limit ${MOST_EXACT + 1}) as counted) as c
    order by one.place`;
  return [...counts];
}
