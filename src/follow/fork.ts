/** Finds the last block that our chain and the chain of a source have in common. Reads the source only; writes nothing. */
import { type BlockRef, ChainError, type ChainSource } from '../chains/chain.ts';
import { chainOf } from '../core/coin.ts';
import type { Cursor } from './cursor.ts';

/** A block that was read. */
export type Stored = { height: number; hash: string; parent: string };
/** The last common block. `base`: it was never read, and becomes the lowest recorded block. */
export type Fork = { cursor: Cursor; base: BlockRef | null };
type Source = Pick<ChainSource, 'coin' | 'blockAt' | 'block'>;

const atBase = (base: BlockRef): Fork => ({ cursor: { height: base.height, hash: base.hash }, base });

/** The highest of our blocks, newest first, that the source has too; null when it has none of them. Errors: ChainError outage. */
export async function findCommon(source: Source, stored: readonly Stored[], tip: BlockRef): Promise<Stored | null> {
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
export async function findForkBelow(source: Source, lowest: Stored, cursor: Cursor): Promise<BlockRef | null> {
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
  { stored, cursor, tip, mayBeginAgain }: { stored: readonly Stored[]; cursor: Cursor; tip: BlockRef; mayBeginAgain(): Promise<boolean> },
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
