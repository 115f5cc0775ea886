/** Whether a follower is on the chain of its source, behind it, or reorganized. A source that lags takes nothing back. */
import { type BlockRef, ChainError, type ChainHealth, type ChainSource } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import type { Doubt } from '../core/certainty.ts';
import { type Coin, chainCode, chainOf } from '../core/coin.ts';
import { queueProcessing } from '../payments/settle-payments.ts';
import type { Cursor } from './cursor.ts';
import { findFork, type Stored } from './fork.ts';
import { heightOf, skipTo } from './read-back.ts';
import { takeBack } from './take-back.ts';

/** The last block that is still on the chain, or why the source cannot be followed now. */
export type FoundPosition = { cursor: Cursor } | { doubt: Doubt };

export type Position = {
  readonly ctx: Context;
  readonly source: ChainSource;
  /** Whether an outdated hold may be stored. True at startup, when the state is unknown. */
  mayBeHeld: boolean;
};
export const createPosition = (ctx: Context, source: ChainSource): Position => ({ ctx, source, mayBeHeld: true });

/** Finds the cursor on the chain that ends with `tip`; takes blocks back only when that chain has others in their place. */
export async function findPosition(position: Position, cursor: Cursor, tip: BlockRef): Promise<FoundPosition> {
  const { ctx, source } = position;
  let there: BlockRef | null;
  try {
    there = await source.blockAt(cursor.height);
  } catch (error) {
    if (!(error instanceof ChainError) || error.kind !== 'pruned' || tip.height <= cursor.height) throw error;
    return skipMissing(position, cursor, tip);
  }
  // Usually, and always while catching up, the last block is still there.
  if (there?.hash === cursor.hash) {
    await liftHold(position, cursor);
    return { cursor };
  }
  const ours = tip.height < cursor.height ? await readHash(ctx, source.coin, tip.height) : null;
  const doubt = doubtOfOlder({ cursor, tip, ours }) ?? doubtOfSync(tip, await source.health());
  if (doubt) return { doubt };
  return { cursor: await unwind(position, cursor, tip) };
}

/**
 * A tip below our last block: the node just started, fell behind or replaced another, or machines behind one address are at different
 * heights. `ours`: our block at its height; null when it was never read, which contradicts nothing. Null: the source is not just behind.
 */
export function doubtOfOlder({ cursor, tip, ours }: { cursor: Cursor; tip: BlockRef; ours: string | null }): Doubt | null {
  const missing = cursor.height - tip.height;
  if (missing <= 0 || (ours !== null && ours !== tip.hash)) return null;
  const blocks = missing === 1 ? 'block' : 'blocks';
  return { code: 'older', reason: `the source is ${missing} ${blocks} behind what was read before (block ${tip.height})` };
}

/** A node that reindexes the chain shows other tips on the way. */
export const doubtOfSync = (tip: BlockRef, { syncing, headers }: Pick<ChainHealth, 'syncing' | 'headers'>): Doubt | null =>
  syncing ? { code: 'syncing', reason: `the source is still syncing (block ${tip.height} of ${headers})` } : null;

/** The last block is on the chain, so a hold that said otherwise is over. */
export async function liftHold(position: Position, cursor: Cursor): Promise<void> {
  if (!position.mayBeHeld) return;
  const { ctx, source } = position;
  const { coin } = source;
  await ctx.db.begin(async (tx) => {
    const lifted = await tx`
      update tips set hold_reason = null where chain = ${chainCode(coin)} and hash = ${cursor.hash} and hold_reason is not null`;
    if (lifted.count === 0) return;
    ctx.log.info({ coin, height: cursor.height }, 'The last block read is on the chain again; payments can complete');
    await queueProcessing(tx, { coin });
  });
  position.mayBeHeld = false;
}

/**
 * All blocks of the source are newer than our last one. Completion is held until a source has the missing blocks, or until an operator
 * releases the chain: then the follower continues at the oldest block of the source, and the missing ones are read back when they can be.
 */
async function skipMissing(position: Position, cursor: Cursor, tip: BlockRef): Promise<FoundPosition> {
  const { ctx, source } = position;
  const { coin } = source;
  const doubt = doubtOfSync(tip, await source.health());
  if (doubt) return { doubt };
  if (!(await mayBeginAgain(ctx, coin))) {
    position.mayBeHeld = true;
    const reason = `no source has block ${cursor.height + 1}, the next one to read; an operator must connect one that does, or skip the missing blocks`;
    await ctx.db.sql`update tips set hold_reason = ${reason} where chain = ${chainCode(coin)}`;
    throw new ChainError('pruned', `${coin}: ${reason}`);
  }
  const oldest = await heightOf(source, new Date(1), tip.height);
  const base = await source.blockAt(oldest);
  if (!base) throw new ChainError('outage', `the ${coin} source does not show block ${oldest}`);
  await ctx.db.begin((tx) => skipTo(tx, coin, { from: cursor, to: base }));
  ctx.log.warn({ coin, from: cursor.height + 1, to: base.height }, 'Skipped blocks that no source has, as an operator allowed');
  return { cursor: { height: base.height, hash: base.hash } };
}

/** Goes back to the last block that is still on the chain of the source, and takes back what was read above it. */
async function unwind(position: Position, cursor: Cursor, tip: BlockRef): Promise<Cursor> {
  const { ctx, source } = position;
  const { coin } = source;
  const stored = await readStored(ctx, coin, cursor);
  const fork = await findFork(source, { stored, cursor, tip, mayBeginAgain: () => mayBeginAgain(ctx, coin) });
  if (!fork) {
    position.mayBeHeld = true;
    await ctx.db
      .sql`update tips set hold_reason = 'a reorganization deeper than this coin allows; an operator must look' where chain = ${chainCode(coin)}`;
    throw new ChainError('outage', `no common block of ${coin} within ${chainOf(coin).maxReorg} blocks; completion is held`);
  }
  // Another machine behind the same address may have the last block after all.
  if (fork.cursor.height < cursor.height) await takeBack(ctx, source, cursor, fork);
  return fork.cursor;
}

/** Our newest blocks, newest first, as many as a reorganization may take back. */
async function readStored(ctx: Context, coin: Coin, cursor: Cursor): Promise<Stored[]> {
  const rows = await ctx.db.sql<{ height: bigint; hash: string; parent: string }[]>`
    select height, hash, parent from blocks where chain = ${chainCode(coin)} and height <= ${cursor.height}
    order by height desc limit ${chainOf(coin).maxReorg + 1}`;
  return rows.map((row) => ({ ...row, height: Number(row.height) }));
}

/** Our block at a height, also the parent of the lowest one; null for heights that were never read. */
async function readHash(ctx: Context, coin: Coin, height: number): Promise<string | null> {
  const [ours] = await ctx.db.sql<{ hash: string }[]>`
    select hash from blocks where chain = ${chainCode(coin)} and height = ${height}
    union all
    select parent from (select height, parent from blocks where chain = ${chainCode(coin)} order by height limit 1) as lowest where lowest.height = ${height + 1}
    limit 1`;
  return ours?.hash ?? null;
}

/** An operator investigated, and let the follower continue with the chain that its source shows. */
const mayBeginAgain = async (ctx: Context, coin: Coin): Promise<boolean> =>
  (await ctx.db.sql`select 1 from tips where chain = ${chainCode(coin)} and begin_again`).length > 0;
