/** Reads the blocks between the cursor and the tip, in order; the next ones are fetched while one is written. */
import { type BlockRef, ChainError, type ChainSource } from '../chains/chain.ts';
import type { Cursor } from './cursor.ts';
import type { BlockName } from './follow-state.ts';
import type { Fetched } from './record-block.ts';

/** Blocks held while the one below them is written, so that source, network and database work in parallel. */
const BLOCKS_AHEAD = 2;
const NOTHING = Promise.resolve(null);

export type CatchUp = {
  readonly source: Pick<ChainSource, 'blockAt' | 'fetchBlock'>;
  /** The block that is being read, so that a failure can name it. */
  at: BlockName | null;
};
export type CatchUpWay = {
  cursor: Cursor;
  tip: BlockRef;
  signal?: AbortSignal | undefined;
  /** Writes the block above the cursor. Only blocks whose parent is the cursor are passed. */
  apply(cursor: Cursor, fetched: Fetched): Promise<void>;
};

/**
 * Applies the blocks above the cursor, up to `tip` or as far as each builds on the one before. Returns the new cursor; null when not
 * even the first block builds on the cursor, because the source is switching chains.
 */
export async function catchUp(state: CatchUp, { cursor: from, tip, signal, apply }: CatchUpWay): Promise<Cursor | null> {
  const { source } = state;
  let cursor = from;
  state.at = { height: cursor.height + 1, hash: null };
  let fetched = await fetchAt(source, cursor.height + 1);
  if (fetched?.ref.parent !== cursor.hash) return null;
  // A block that follows builds on what was written; everything else, including a failure, is left to the checks of the next round.
  const ahead: Promise<Fetched | null>[] = [];
  let asked = fetched.ref.height;
  try {
    while (fetched?.ref.parent === cursor.hash && !signal?.aborted) {
      for (; ahead.length < BLOCKS_AHEAD && asked < tip.height; asked++) {
        const height = asked + 1;
        ahead.push((ahead.at(-1) ?? NOTHING).then(() => (signal?.aborted ? null : fetchAt(source, height))).catch(() => null));
      }
      const { height, hash }: BlockRef = fetched.ref;
      state.at = { height, hash };
      await apply(cursor, fetched);
      state.at = null;
      cursor = { height, hash };
      fetched = await (ahead.shift() ?? NOTHING);
    }
  } finally {
    // Also when writing failed, so that no request is left running.
    await Promise.all(ahead);
  }
  return cursor;
}

/** Fetches the block at a height; null when the source has none. */
async function fetchAt(source: CatchUp['source'], height: number): Promise<Fetched | null> {
  const next = await source.blockAt(height);
  if (!next) return null;
  const fetched = await source.fetchBlock(next.hash, { next: true });
  if (fetched.ref.height !== height) throw new ChainError('outage', `block ${next.hash} is named at two heights`);
  return fetched;
}
