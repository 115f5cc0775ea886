/** The outpoints that the transactions of our transfers spend. Another transaction spending one replaces ours. Kept while possible. */
import type { Conflict, Sighting } from '#chains';
import type { Context } from '#context';
import { type Coin, chainCode, chainOf, coinsBeside } from '#core/coin';
import type { Fragment, Tx } from '#db';
import { createWatchSet, outpointBytes } from './watch-set.ts';

/** Outpoints in one statement, and read between two turns of the event loop. */
const AT_ONCE = 5_000;
/** Outpoints in memory that may have been deleted since, before the kept ones are reread. */
const MAX_STALE = 1_000_000;
/** A transaction missing for this long no longer counts. If it reappears, it is recorded again. */
const FORGOTTEN_DAYS = 14;

/** One of our unconfirmed transactions, and the transaction that double-spends it; the same one twice if a block contains it. */
export type Loser = { txid: string; by: string };

/** Hex outpoints have 36 bytes; those of account chains are stored unchanged. */
const bytesOf = (outpoint: string): Uint8Array => outpointBytes(outpoint) ?? Buffer.from(outpoint);

/** One follower's memory of outpoints; positive answers are verified in the table. */
export function createSpentOutpoints(ctx: Context, coin: Coin) {
  const { sql } = ctx.db;
  let watched = createWatchSet();
  let count = 0;
  let kept = 0;

  /** Whether transfer `t` may still be replaced, by an unconfirmed transaction or by a block that replaces its own. */
  const isNeeded = (): Fragment => sql`
    case when t.block_height is null then
      (t.absent_since is null or t.absent_since > clock_timestamp() - make_interval(days => ${FORGOTTEN_DAYS}::int))
      and (t.conflict_height is null or t.conflict_height >= deep.height)
    else t.block_height >= deep.height end`;
  /** The lowest height that may still be taken back; every height while nothing has been read. */
  const deep = (): Fragment =>
    sql`(select coalesce(min(height), 0) - ${chainOf(coin).maxReorg}::bigint as height from tips where chain = ${chainCode(coin)}) as deep`;

  const readFrom = async (xid: string): Promise<void> => {
    const rows = sql<{ outpoint: string }[]>`select outpoint from spent_outpoints where chain = ${chainCode(coin)} and xid >= ${xid}::xid8`;
    for await (const part of rows.cursor(AT_ONCE)) {
      for (const { outpoint } of part) {
        const bytes = bytesOf(outpoint);
        watched.addBytes(bytes, 0, bytes.length);
      }
      count += part.length;
    }
  };

  return {
    /** Reads what was written since the transaction `xid`; '0' reads everything. */
    refresh: async (xid: string): Promise<void> => {
      const again = xid === '0' || count > kept + MAX_STALE;
      if (again) {
        watched = createWatchSet();
        count = 0;
      }
      await readFrom(again ? '0' : xid);
      if (again) kept = count;
    },
    any: (): boolean => count > 0,
    has: (outpoint: string): boolean => {
      const bytes = bytesOf(outpoint);
      return watched.hasBytes(bytes, 0, bytes.length);
    },
    hasBytes: (bytes: Uint8Array, from: number, to: number): boolean => watched.hasBytes(bytes, from, to),

    /** Our transactions that the found transactions double-spend, each pair once. */
    findLosers: async (conflicts: readonly Conflict[]): Promise<Loser[]> => {
      const losers = new Map<string, Loser>();
      for (let i = 0; i < conflicts.length; i += AT_ONCE) {
        const part = conflicts.slice(i, i + AT_ONCE);
        const rows = await sql<{ outpoint: string; txid: string }[]>`
          select outpoint, txid from spent_outpoints where chain = ${chainCode(coin)} and outpoint = any(${part.map((c) => c.outpoint)}::text[])`;
        const spenders = Map.groupBy(rows, (row) => row.outpoint);
        for (const { outpoint, txid: by, mined = false } of part) {
          for (const { txid } of spenders.get(outpoint) ?? []) if (mined || txid !== by) losers.set(`${txid} ${by}`, { txid, by });
        }
      }
      return [...losers.values()];
    },

    /** Records what the transactions of the sightings spend, once for each. */
    write: async (tx: Tx, sightings: readonly Sighting[]): Promise<void> => {
      const spends = new Map(sightings.flatMap((s) => (s.txid !== null && s.spends.length > 0 ? [[s.txid, s.spends] as const] : [])));
      for (const [txid, outpoints] of chunked(spends)) {
        await tx`
          insert into spent_outpoints (chain, outpoint, txid)
          select ${chainCode(coin)}, outpoint, txid from unnest(${outpoints}::text[], ${txid}::text[]) as spent (outpoint, txid)
          on conflict do nothing`;
      }
    },

    /** Deletes what can no longer be replaced. */
    prune: () => sql`
      delete from spent_outpoints where chain = ${chainCode(coin)} and txid in (
        select txid from (select distinct txid from spent_outpoints where chain = ${chainCode(coin)}) as one
        where not exists (select 1 from transfers t, ${deep()} where t.coin = any(${coinsBeside(coin)}::text[]) and t.txid = one.txid and ${isNeeded()}))`,
  };
}

/** Transactions and outpoints as parallel lists, in parts of bounded length. */
function* chunked(spends: ReadonlyMap<string, readonly string[]>): Generator<[txids: string[], outpoints: string[]]> {
  let txids: string[] = [];
  let outpoints: string[] = [];
  for (const [txid, all] of spends) {
    for (const outpoint of all) {
      txids.push(txid);
      outpoints.push(outpoint);
      if (txids.length < AT_ONCE) continue;
      yield [txids, outpoints];
      [txids, outpoints] = [[], []];
    }
  }
  if (txids.length > 0) yield [txids, outpoints];
}
