/** Takes back blocks of a branch that lost: their transfers are unconfirmed again. Deep reorganizations hold completion. */
import { type BlockRef, ChainError, type ChainSource, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, chainOf, coinsBeside } from '#core/coin';
import { isBinding, reorgText } from '#core/guard';
import { invariant } from '#core/invariant';
import type { Tx } from '#db';
import { queueReversible } from '#settling';
import { type Cursor, insertBlock, moveCursor } from './cursor.ts';
import { writeBounded } from './record-block.ts';

type Of = Pick<JoinedSource, 'coin' | 'network'>;

/** Moves the cursor down to the fork, and takes back what was read above it. */
export async function takeBack(ctx: Context, { coin, network }: Of, cursor: Cursor, { cursor: fork, base }: Fork): Promise<void> {
  const depth = cursor.height - fork.height;
  invariant(depth > 0, `a reorganization of ${coin} takes back at least one block`);
  ctx.log.warn({ coin, depth, height: fork.height }, 'Chain reorganization detected');
  const affected = await ctx.db.sql<{ id: string }[]>`
    select distinct payment_id as id from transfers
    where coin = any(${coinsBeside(coin)}::text[]) and (block_height > ${fork.height} or conflict_height > ${fork.height})`;
  const ids = affected.map((row) => row.id);
  await writeBounded(ctx, { coin, depth, height: fork.height }, (tx, way) =>
    way.lockAndSettle(tx, ids, async () => {
      await moveCursor(tx, coin, cursor, fork);
      await unconfirm(tx, coin, fork);
      await noteReorg(tx, { coin, network }, { depth, height: cursor.height });
      if (base) await insertBlock(tx, coin, base);
    }),
  );
}

/** Removes everything that blocks above the fork confirmed, and those blocks. */
async function unconfirm(tx: Tx, coin: Coin, fork: Cursor): Promise<void> {
  const coins = coinsBeside(coin);
  // A bare balance gain belongs only to its block: the blocks that replace it report it again.
  await tx`delete from transfers where coin = any(${coins}::text[]) and kind = 'delta' and block_height > ${fork.height}`;
  await tx`
    update tips set safe_height = case when safe_height > ${fork.height} then ${fork.height} else safe_height end,
      finalized_height = case when finalized_height > ${fork.height} then ${fork.height} else finalized_height end,
      -- Should never happen, but a height that referred to a locked block must not vouch for another one.
      chainlock_height = case when chainlock_height > ${fork.height} then ${fork.height} else chainlock_height end,
      -- Everything above the fork is read again.
      watched_parent = case when watched_from > ${fork.height + 1} then ${fork.hash} else watched_parent end,
      watched_from = least(watched_from, ${fork.height + 1})
    where chain = ${chainCode(coin)}`;
  await tx`
    update transfers set block_height = null, block_hash = null, block_time = null, verified_by = null, unmined_since = clock_timestamp(),
      disputed_since = null, lock = case when lock = 'instantsend' then lock end
    where coin = any(${coins}::text[]) and block_height > ${fork.height}`;
  await tx`update transfers set conflict_height = null where coin = any(${coins}::text[]) and conflict_height > ${fork.height}`;
  await tx`delete from blocks where chain = ${chainCode(coin)} and height > ${fork.height}`;
  await tx`delete from anchors where chain = ${COIN[coin].chain} and height > ${fork.height}`;
  // Also at sources that are away now.
  await tx`update range_reads set height = ${fork.height} where chain = ${COIN[coin].chain} and height > ${fork.height}`;
}

/**
 * Records that blocks are taken back, in the same transaction: the effect on completed payments is judged once the other branch
 * has been read. A deep reorganization is remembered, and holds completion from this moment on.
 */
async function noteReorg(tx: Tx, { coin, network }: Of, { depth, height }: { depth: number; height: number }): Promise<void> {
  await tx`update tips set unwound = true where chain = ${chainCode(coin)}`;
  if (depth < chainOf(coin).deepReorg) return;
  await tx`
    insert into chain_guard (chain, binding, reasons, codes, reorg_depth, reorg_height)
    values (${chainCode(coin)}, ${isBinding(network)}, array[${reorgText(coin, { depth, height })}], array['deep_reorg'], ${depth}, ${height})
    on conflict (chain) do update set binding = excluded.binding, reorg_depth = excluded.reorg_depth, reorg_height = excluded.reorg_height,
      reasons = excluded.reasons || chain_guard.reasons, codes = excluded.codes || chain_guard.codes`;
}

/** The new branch has been read up to its tip: the effect on completed payments is judged now. */
export async function endReorg(ctx: Context, { coin, hash }: { coin: Coin; hash: string }): Promise<void> {
  const unwound = await ctx.db.sql`select 1 from tips where chain = ${chainCode(coin)} and hash = ${hash} and unwound`;
  if (unwound.length === 0) return;
  await ctx.db.begin(async (tx) => {
    const ended = await tx`update tips set unwound = false where chain = ${chainCode(coin)} and hash = ${hash} and unwound`;
    if (ended.count > 0) await queueReversible(tx, { coin });
  });
}

// Finds the last block that our chain and the chain of a source have in common. Reads the source only; writes nothing.

/** A block that was read. */
export type StoredBlock = { height: number; hash: string; parent: string };
/** The last common block. `base`: it was never read, and becomes the lowest recorded block. */
type Fork = { cursor: Cursor; base: BlockRef | null };
type Source = Pick<ChainSource, 'coin' | 'blockAt' | 'block'>;

const atBase = (base: BlockRef): Fork => ({ cursor: { height: base.height, hash: base.hash }, base });

/** The highest of our blocks, newest first, that the source has too; null when it has none of them. Errors: ChainError outage. */
export async function findCommon(source: Source, stored: readonly StoredBlock[], tip: BlockRef): Promise<StoredBlock | null> {
  for (const row of stored) {
    // The source does not have this height yet, so it says nothing about it.
    if (row.height > tip.height) continue;
    const there = await source.blockAt(row.height);
    // Several machines behind one address may be at different heights: a block that one of them lacks is not gone.
    if (!there) throw new ChainError('outage', `the ${source.coin} source has a tip above ${row.height} but not that block`);
    if (there.hash === row.hash) return row;
  }
  return null;
}

/** The fork below the lowest block that was read: the source still knows the headers that were orphaned, and their parents. */
export async function findForkBelow(source: Source, lowest: StoredBlock, cursor: Cursor): Promise<BlockRef | null> {
  let hash = lowest.parent;
  for (let height = lowest.height - 1; height >= 0 && cursor.height - height <= chainOf(source.coin).maxReorg; height--) {
    const there = await source.blockAt(height);
    if (there?.hash === hash) return there;
    const left = await source.block(hash);
    if (!left) return null;
    hash = left.parent;
  }
  return null;
}

/**
 * Where our chain and that of the source fork; null when that is deeper than the coin allows. `stored`: our newest blocks, newest first,
 * as many as a reorganization may take back. `mayBeginAgain`: whether an operator has released the chain, to continue with the one that
 * the source shows.
 */
export async function findFork(
  source: Source,
  {
    stored,
    cursor,
    tip,
    mayBeginAgain,
  }: { stored: readonly StoredBlock[]; cursor: Cursor; tip: BlockRef; mayBeginAgain(): Promise<boolean> },
): Promise<Fork | null> {
  const { maxReorg } = chainOf(source.coin);
  const common = await findCommon(source, stored, tip);
  if (common) return { cursor: { height: common.height, hash: common.hash }, base: null };
  const lowest = stored.at(-1);
  if (!lowest) return null;
  // A young install has no common block when the fork is below its first one. When the fork cannot be determined, the follower
  // restarts as deep as the coin allows: payments since then are above that height, wherever they are mined now.
  const base =
    stored.length <= maxReorg
      ? ((await findForkBelow(source, lowest, cursor)) ?? (await source.blockAt(Math.max(0, lowest.height - maxReorg))))
      : null;
  if (base) return atBase(base);
  const again = (await mayBeginAgain()) ? await source.blockAt(Math.min(lowest.height - 1, tip.height)) : null;
  return again && atBase(again);
}
