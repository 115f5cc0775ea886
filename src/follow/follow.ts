/** Follows one chain: pulls blocks by hash from a stored cursor, walks back over reorganizations, watches the mempool, misses nothing. */
import { type BlockRef, ChainError, type ChainHealth, type ChainSource, type JoinedSource } from '#chains';
import type { Context } from '#context';
import type { Doubt } from '#core/certainty';
import { type Coin, chainCode, chainOf } from '#core/coin';
import { isBinding } from '#core/guard';
import { invariant } from '#core/invariant';
import { queueProcessing } from '#settling';
import { createGuard, type GuardRound } from './chain-guard.ts';
import { createContractWatch, createFeeWatch, tokensPaid, type WatchContracts } from './contract-watch.ts';
import { type Cursor, checkNetwork, type FollowedSource, moveCursor, provenHeightsOf, readChainCursor } from './cursor.ts';
import { type BlockName, createFollowState, type FollowState, type Reading } from './follow-state.ts';
import { createTipPoll, pollTip, type TipPoll } from './poll-tip.ts';
import { createReadBack, heightOf, skipTo } from './read-back.ts';
import { type FetchedBlock, recordBlock } from './record-block.ts';
import { endReorg, findFork, type StoredBlock, takeBack } from './take-back.ts';
import { type ChainWatch, createWatching } from './watching.ts';

/** Reads whole blocks, and judges their sources before. */
export function openBlockReading(ctx: Context, source: JoinedSource): Reading {
  const watchContracts = createContractWatch(ctx, source);
  const watchFees = createFeeWatch(ctx, source);
  const follower = createFollower(ctx, source, { watchContracts });
  const guard = createGuard(ctx, source);
  return async (stopping) => {
    // The guard runs first, so that what is read then completes only as far as the sources agree.
    const judged = await guard.check();
    await watchContracts();
    await watchFees();
    const more = await follower.step(stopping, judged);
    await guard.agree();
    return more;
  };
}

/** What one follower remembers. Everything else is in tables. */
type Follower = {
  readonly ctx: Context;
  readonly source: FollowedSource;
  /** As strict as on mainnet. */
  readonly binding: boolean;
  readonly notes: FollowState;
  readonly watching: ChainWatch;
  readonly watchContracts: WatchContracts;
  readonly position: Position;
  readonly tip: TipPoll;
  readonly blocks: CatchUp;
  readonly readBack: ReturnType<typeof createReadBack>;
  networkChecked: boolean;
};

/**
 * One follower. `step` catches up to the tip, polls the mempool, and reads some of the older blocks that are still to be read: true when
 * more are left.
 */
export function createFollower(
  ctx: Context,
  source: FollowedSource,
  { binding = isBinding(source.network), watchContracts = async () => {} }: { binding?: boolean; watchContracts?: WatchContracts } = {},
): { step(signal?: AbortSignal, found?: GuardRound): Promise<boolean> } {
  const { coin } = source;
  const watching = createWatching(ctx, source);
  const notes = createFollowState(ctx, coin);
  const follower: Follower = {
    ctx,
    source,
    binding,
    notes,
    watching,
    watchContracts,
    position: createPosition(ctx, source),
    tip: createTipPoll(ctx, source, { binding, watching, notes }),
    blocks: { source, at: null },
    // No mempool poll preceded the blocks below the first one.
    readBack: createReadBack(ctx, source, (fetched, advance) => recordBlock(watching, fetched, { advance, certainThrough: null })),
    networkChecked: false,
  };
  return { step: (signal, judged) => step(follower, signal, judged) };
}

async function step(follower: Follower, signal?: AbortSignal, judged?: GuardRound): Promise<boolean> {
  const { notes, blocks, tip } = follower;
  blocks.at = null;
  return notes.round(() => followToTip(follower, signal, judged), {
    at: () => blocks.at,
    failed: () => {
      tip.connection = { sinceMs: null };
    },
  });
}

/** Reads blocks until the tip is the cursor, and polls there. */
async function followToTip(follower: Follower, signal?: AbortSignal, judged?: GuardRound): Promise<boolean> {
  const { ctx, source, notes, position, blocks } = follower;
  await source.requireProof?.();
  // Nothing can be read before the headers reach the tip.
  if (judged?.progress) {
    await notes.doubts({ code: 'syncing', reason: judged.progress });
    return false;
  }
  if (!follower.networkChecked) await checkNetwork(ctx, source);
  follower.networkChecked = true;
  const { unwound, ...start } = await readChainCursor(ctx, source);
  let cursor: Cursor = start;
  // Do not request again what the guard just received.
  for (let just = judged?.health ? judged : null; ; just = null) {
    if (signal?.aborted) return false;
    const before = just?.since ?? (await ctx.db.sql<{ now: Date }[]>`select clock_timestamp() as now`)[0]!.now;
    const health = just?.health ?? null;
    const tip = health?.tip ?? (await source.tip());
    if (tip.hash === cursor.hash) {
      await liftHold(position, cursor);
      await notes.isUpToDate(cursor.height);
      if (unwound || cursor !== start) await endReorg(ctx, { coin: source.coin, hash: cursor.hash });
      await pollTip(follower.tip, { cursor, health, before, behindOthers: judged?.behind === true });
      return follower.readBack.some(signal);
    }
    const found = await findPosition(position, cursor, tip);
    // The poll shows nothing new and takes nothing back, so wait for the source.
    if ('doubt' in found) {
      await notes.doubts(found.doubt);
      return false;
    }
    await notes.catchesUp(found.cursor.height, tip.height);
    const certainThrough = await readCertainThrough(ctx, source.coin);
    const apply = (at: Cursor, fetched: FetchedBlock) => applyBlock(follower, at, fetched, certainThrough);
    const reached = await catchUp(blocks, { cursor: found.cursor, tip, signal, apply });
    // The source's next block does not follow its previous one: it is switching chains, so ask again later.
    if (reached === null) return false;
    cursor = reached;
  }
}

/** Records the block above the cursor, and moves the cursor to it. */
async function applyBlock(
  { source, binding, watching, watchContracts, notes }: Follower,
  cursor: Cursor,
  fetched: FetchedBlock,
  certainThrough: Date | null,
): Promise<void> {
  const { coin } = source;
  const { ref } = fetched;
  invariant(ref.parent === cursor.hash, `each block of ${coin} is recorded above its parent`);
  await recordBlock(watching, fetched, {
    advance: (tx) => moveCursor(tx, coin, cursor, ref, provenHeightsOf(source, { binding, hash: ref.hash })),
    certainThrough,
    check: (sightings) => watchContracts(tokensPaid(sightings)),
  });
  await notes.reads(ref.height);
}

/** The last certain poll. */
async function readCertainThrough(ctx: Context, coin: Coin): Promise<Date | null> {
  const [last] = await ctx.db.sql<{ through: Date }[]>`select scanned_through as through from tips where chain = ${chainCode(coin)}`;
  return last?.through ?? null;
}

// Reads the blocks between the cursor and the tip, in order; the next ones are fetched while one is written.

/** Blocks held while the one below them is written, so that source, network and database work in parallel. */
const BLOCKS_AHEAD = 2;
const NOTHING = Promise.resolve(null);

export type CatchUp = {
  readonly source: Pick<ChainSource, 'blockAt' | 'fetchBlock'>;
  /** The block that is being read, so that a failure can name it. */
  at: BlockName | null;
};
type CatchUpWay = {
  cursor: Cursor;
  tip: BlockRef;
  signal?: AbortSignal | undefined;
  /** Writes the block above the cursor. Only blocks whose parent is the cursor are passed. */
  apply(cursor: Cursor, fetched: FetchedBlock): Promise<void>;
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
  const ahead: Promise<FetchedBlock | null>[] = [];
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
async function fetchAt(source: CatchUp['source'], height: number): Promise<FetchedBlock | null> {
  const next = await source.blockAt(height);
  if (!next) return null;
  const fetched = await source.fetchBlock(next.hash, { next: true });
  if (fetched.ref.height !== height) throw new ChainError('outage', `block ${next.hash} is named at two heights`);
  return fetched;
}

// Whether a follower is on the chain of its source, behind it, or reorganized. A source that lags takes nothing back.

/** The last block that is still on the chain, or why the source cannot be followed now. */
type FoundPosition = { cursor: Cursor } | { doubt: Doubt };

type Position = {
  readonly ctx: Context;
  readonly source: ChainSource;
  /** Whether an outdated hold may be stored. True at startup, when the state is unknown. */
  mayBeHeld: boolean;
};
const createPosition = (ctx: Context, source: ChainSource): Position => ({ ctx, source, mayBeHeld: true });

/** Finds the cursor on the chain that ends with `tip`; takes blocks back only when that chain has others in their place. */
async function findPosition(position: Position, cursor: Cursor, tip: BlockRef): Promise<FoundPosition> {
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
async function liftHold(position: Position, cursor: Cursor): Promise<void> {
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
async function readStored(ctx: Context, coin: Coin, cursor: Cursor): Promise<StoredBlock[]> {
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
