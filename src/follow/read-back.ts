/** Reads the blocks below the first one that was read, for addresses issued before the follower of their coin had started. */
import { type BlockRef, ChainError, type ChainSource } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, coinsBeside, kindOf } from '#core/coin';
import { addMs, HOUR_MS, MINUTE_MS } from '#core/dates';
import { invariant } from '#core/invariant';
import type { Tx } from '#db';
import { type Cursor, CursorMoved, insertBlock } from './cursor.ts';

/** A block's time may be up to two hours earlier than it was mined; on ETH it is exact to the second. */
const EARLY_MS = 2 * HOUR_MS;
const EARLY_ETH_MS = MINUTE_MS;
/** It is also no earlier than the median of the eleven blocks below it. */
const MEDIAN_OF_BLOCKS = 11;
/** How far below the tip blocks are read back without an operator: `doctor` lists addresses that are older. */
const MOST_BLOCKS_BACK = 20_000;
/** Blocks read in one turn, before the tip is checked again. */
const BLOCKS_A_TURN = 20;
const TURN_MS = 1_000;
/** After a failure. */
const REST_MS = 30_000;

type Fetched = Awaited<ReturnType<ChainSource['fetchBlock']>>;
type Standing = {
  height: bigint;
  from: bigint | null;
  parent: string | null;
  since: Date | null;
  to: bigint | null;
  earliest: Date | null;
};

/** `record` writes the contents of a block, and runs `advance` in the same transaction. */
export function createReadBack(
  ctx: Context,
  source: ChainSource,
  record: (fetched: Fetched, advance: (tx: Tx) => Promise<void>) => Promise<void>,
) {
  const { coin } = source;
  let planned = false;
  let restsUntilMs = 0;
  /** Whether the table says that nothing failed. */
  let isClear = false;

  const read = async (): Promise<Standing> => {
    const [row] = await ctx.db.sql<Standing[]>`
      select height, watched_from as "from", watched_parent as parent, watched_since as since, read_back_to as "to",
        (select min(created_at) from deposit_addresses where family = ${COIN[coin].family}) as earliest
      from tips where chain = ${chainCode(coin)}`;
    return row!;
  };

  /** Installs from before this was recorded: a recorded transfer proves that its block was read, and all above it. */
  const readFromTransfers = async (from: bigint): Promise<void> => {
    const [lowest] = await ctx.db.sql<{ height: bigint; hash: string }[]>`
      select block_height as height, block_hash as hash from transfers t join payments p on p.id = t.payment_id
      where t.coin = any(${coinsBeside(coin)}::text[]) and p.mode = 'live' and t.block_height < ${from} order by t.block_height limit 1`;
    if (!lowest) return;
    const there = await source.blockAt(Number(lowest.height));
    if (there?.hash !== lowest.hash) return;
    await ctx.db.sql`
      update tips set watched_from = ${there.height}, watched_parent = ${there.parent}, watched_since = ${addMs(there.time, EARLY_MS)}
      where chain = ${chainCode(coin)} and watched_from = ${from}`;
  };

  /** Determines how far back blocks must be read for the earliest address, if at all. */
  const plan = async (): Promise<void> => {
    const before = await read();
    // Zero: not planned yet. Later, blocks between a transfer and the lowest block may have been skipped.
    if (before.from !== null && before.to === 0n) await readFromTransfers(before.from);
    const { height, from, since, to, earliest } = await read();
    if (from === null || since === null || earliest === null || (earliest >= since && to === null)) return;
    const first = await heightOf(source, addMs(earliest, kindOf(coin) === 'ethereum' ? -EARLY_ETH_MS : -EARLY_MS), Number(from));
    // A source that does not have the blocks must not shorten what is left to read.
    const needed = to ? Math.min(first - MEDIAN_OF_BLOCKS, Number(to)) : first - MEDIAN_OF_BLOCKS;
    const target = Math.min(Number(from), Math.max(1, needed, Number(height) - MOST_BLOCKS_BACK));
    if (target < from)
      ctx.log.warn({ coin, from: target, to: Number(from) - 1 }, 'Reading earlier blocks for addresses that were issued before');
    await ctx.db.sql`update tips set read_back_to = ${target} where chain = ${chainCode(coin)}`;
  };

  /** All planned blocks are read: addresses of that time are watched, as far back as the bound allows. */
  const finish = async ({ height, from, since, earliest }: Standing): Promise<void> => {
    const bounded = height - from! >= MOST_BLOCKS_BACK ? await source.blockAt(Number(from)) : null;
    const watched = bounded ? addMs(bounded.time, EARLY_MS) : earliest !== null && earliest < since! ? earliest : since!;
    await ctx.db.sql`
      update tips set read_back_to = null, watched_since = ${watched} where chain = ${chainCode(coin)} and watched_from = ${from!.toString()}::bigint`;
    ctx.log.info({ coin, from: Number(from) }, 'Finished reading all blocks since the first address was issued');
  };

  /** Reads the block below the lowest one that was read; false when there is nothing left to read. */
  const readOne = async (): Promise<boolean> => {
    const standing = await read();
    const { from, to, parent } = standing;
    if (to === null || from === null || parent === null) return false;
    if (from <= to) {
      await finish(standing);
      return false;
    }
    const fetched = await source.fetchBlock(parent);
    const { ref } = fetched;
    if (BigInt(ref.height) !== from - 1n) throw new ChainError('outage', `the ${coin} source names another height for ${parent}`);
    await record(fetched, (tx) => lower(tx, coin, { from, ref }));
    return true;
  };

  return {
    /** Reads some blocks, newest first; true when more are left. A failure is logged and leaves them for later: the tip has priority. */
    some: async (signal?: AbortSignal): Promise<boolean> => {
      const startedMs = ctx.clock.monotonicMs();
      if (startedMs < restsUntilMs) return false;
      try {
        if (!planned) await plan();
        planned = true;
        for (let i = 0; i < BLOCKS_A_TURN && ctx.clock.monotonicMs() - startedMs < TURN_MS; i++) {
          if (signal?.aborted) return false;
          if (await readOne()) continue;
          if (!isClear) await noteFailure(ctx, coin, null);
          isClear = true;
          return false;
        }
        return true;
      } catch (error) {
        if (!(error instanceof ChainError)) throw error;
        restsUntilMs = ctx.clock.monotonicMs() + REST_MS;
        isClear = false;
        await noteFailure(ctx, coin, error.message);
        ctx.log.warn({ err: error, coin }, 'Cannot read earlier blocks; retrying');
        return false;
      }
    },
  };
}

/** The lowest height below `top` whose block is not older than `at`; `top` when all are older. What the source does not have is older. */
const BELOW = { time: new Date(0) };
export async function heightOf(source: Pick<ChainSource, 'blockAt' | 'coin'>, at: Date, top: number): Promise<number> {
  let low = 0;
  let high = top;
  while (low < high) {
    const middle = (low + high) >> 1;
    const block = await source.blockAt(middle).catch((error: unknown) => {
      if (error instanceof ChainError && error.kind === 'pruned') return BELOW;
      throw error;
    });
    if (!block) throw new ChainError('outage', `the ${source.coin} source does not show block ${middle}`);
    if (block.time < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Lowers the lowest block that was read by one. Compare-and-set: two followers never apply the same step. */
async function lower(tx: Tx, coin: Coin, { from, ref }: { from: bigint; ref: BlockRef }): Promise<void> {
  const moved = await tx`
    update tips set watched_from = ${ref.height}, watched_parent = ${ref.parent}
    where chain = ${chainCode(coin)} and watched_from = ${from.toString()}::bigint and watched_parent = ${ref.hash}`;
  if (moved.count === 0) throw new CursorMoved();
}

/**
 * Moves the cursor up to a block above others that were not read. Those are read back for the addresses that they may have paid, once a
 * source has them. Errors: CursorMoved.
 */
export async function skipTo(tx: Tx, coin: Coin, { from, to }: { from: Cursor; to: BlockRef }): Promise<void> {
  invariant(to.height > from.height, `the cursor of ${coin} skips blocks only upward`);
  const since = addMs(to.time, EARLY_MS);
  const moved = await tx`
    update tips set height = ${to.height}, hash = ${to.hash}, hold_reason = null, begin_again = false,
      proven_heights = case when proven_heights is not null then '{}'::int[] end,
      watched_from = ${to.height + 1}, watched_parent = ${to.hash}, watched_since = ${since},
      read_back_to = case when exists (select 1 from deposit_addresses where family = ${COIN[coin].family} and created_at < ${since})
        then ${from.height + 1}::bigint end
    where chain = ${chainCode(coin)} and hash = ${from.hash}`;
  if (moved.count === 0) throw new CursorMoved();
  await tx`delete from blocks where chain = ${chainCode(coin)}`;
  await insertBlock(tx, coin, to);
}

/** Written only when it changes. */
const noteFailure = (ctx: Context, coin: Coin, failure: string | null) => ctx.db.sql`
  insert into followers (chain, read_back_failure) values (${chainCode(coin)}, ${failure})
  on conflict (chain) do update set read_back_failure = excluded.read_back_failure
  where followers.read_back_failure is distinct from excluded.read_back_failure`;
