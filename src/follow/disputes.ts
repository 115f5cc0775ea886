/** Completed payments in blocks that a source's chain lacks: their transfers are marked, and unmarked when the source has the blocks. */
import type { ChainSource, SourceState } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainOf, coinsBeside } from '../core/coin.ts';
import { lockAndSettle } from '../payments/settle-payments.ts';
import type { Evidence } from './source-agreement.ts';

/** A source may learn of a block, or of a reorganization, a moment later than the followed one. */
const PATIENCE_MS = 30_000;
/** Transfers checked in one round; more wait for the next. */
const AT_ONCE = 500;

/** Blocks above `above` up to `upTo` are disputed. */
export type Range = { above: number; upTo: number };
type Seen = readonly { voter: Pick<SourceState, 'trust' | 'health' | 'source'>; evidence: Evidence }[];

/**
 * Which of the blocks that were read each voting source disputes: those above its last common block, if it has other blocks in their
 * place or is only a few blocks behind. A third-party source cannot dispute a block that one of the operator's own sources has.
 */
export function findDisputes(coin: Coin, seen: Seen, cursor: { height: number }): Map<ChainSource, Range> {
  const { agreeWithin, maxReorg } = chainOf(coin);
  const heights = (own: boolean) =>
    seen.flatMap(({ voter, evidence }) => (own === (voter.trust === 'own') ? [evidence.through?.height ?? -1] : []));
  const ownHas = Math.max(-1, ...heights(true));
  const found = new Map<ChainSource, Range>();
  for (const { voter, evidence } of seen) {
    const has = evidence.through?.height ?? -1;
    // A source that never showed any of it gives no answer.
    if (!evidence.contradicts && evidence.through === null) continue;
    const above = Math.max(voter.trust === 'own' ? has : Math.max(has, ownHas), cursor.height - maxReorg);
    const upTo = evidence.contradicts ? cursor.height : Math.min(cursor.height, voter.health!.tip.height + agreeWithin);
    if (above < upTo) found.set(voter.source, { above, upTo });
  }
  return found;
}

/** One per coin. Remembers since when each source disputes blocks. Call it with what all voting sources show now. */
export function createDisputes(ctx: Context, { coin }: { coin: Coin }): (seen: Seen, cursor: { height: number }) => Promise<void> {
  const since = new Map<ChainSource, number>();
  let mayBeStored = true;

  return async (seen, cursor) => {
    const found = findDisputes(coin, seen, cursor);
    const nowMs = ctx.clock.monotonicMs();
    for (const source of since.keys()) if (!found.has(source)) since.delete(source);
    const ranges: Range[] = [];
    for (const [source, range] of found) {
      if (!since.has(source)) since.set(source, nowMs);
      if (nowMs - since.get(source)! >= PATIENCE_MS) ranges.push(range);
    }
    if (ranges.length === 0 && !mayBeStored) return;
    // An unreachable source neither confirms nor clears a dispute: without any vote, all disputes stay.
    if (seen.length === 0) return;
    mayBeStored = await write(ranges);
  };

  /** Marks and unmarks transfers of completed payments. Returns whether any is marked now, or might be. */
  async function write(ranges: readonly Range[]): Promise<boolean> {
    const { sql } = ctx.db;
    const within = sql`exists (
      select 1 from jsonb_to_recordset(${sql.json(ranges as never)}) as r (above bigint, "upTo" bigint)
      where t.block_height > r.above and t.block_height <= r."upTo")`;
    const coins = coinsBeside(coin);
    const lowest = Math.min(...ranges.map(({ above }) => above));
    const rows = await sql<{ paymentId: string; coin: Coin; ref: string; disputed: boolean }[]>`
      select t.payment_id as "paymentId", t.coin, t.ref, false as disputed from transfers t
      where t.coin = any(${coins}::text[]) and t.disputed_since is not null and not ${within}
      union all
      select * from (
        select t.payment_id, t.coin, t.ref, true from transfers t join payments p on p.id = t.payment_id
        where t.coin = any(${coins}::text[]) and t.block_height > ${Number.isFinite(lowest) ? lowest : null}::bigint and t.disputed_since is null
          and p.mode = 'live' and p.status = 'completed' and ${within}) as fresh
      limit ${AT_ONCE}`;
    if (rows.length > 0) {
      const ids = rows.map((row) => row.paymentId);
      await ctx.db.begin((tx) =>
        lockAndSettle(ctx, tx, ids, async () => {
          await tx`
            update transfers t set disputed_since = case when r.disputed and t.block_height is not null then clock_timestamp() end
            from jsonb_to_recordset(${tx.json(rows as never)}) as r ("paymentId" text, coin text, ref text, disputed boolean)
            where t.payment_id = r."paymentId" and t.coin = r.coin and t.ref = r.ref`;
        }),
      );
      const marked = rows.filter((row) => row.disputed).length;
      if (marked > 0) ctx.log.warn({ coin, transfers: marked }, 'A source shows the chain without blocks that contain completed payments');
    }
    return ranges.length > 0 || rows.length === AT_ONCE;
  }
}
