/** Follows one chain: pulls blocks by hash from a stored cursor, walks back over reorganizations, watches the mempool, misses nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Chain, ChainError } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainCode, chainOf } from '../core/coin.ts';
import { isBinding } from '../core/guard.ts';
import { invariant } from '../core/invariant.ts';
import { createLead, type Term } from '../db/lead.ts';
import { startLoop } from '../db/loop.ts';
import { type CatchUp, catchUp } from './catch-up.ts';
import { createGuard, type GuardRound } from './chain-guard.ts';
import { createContractWatch, tokensPaid, type WatchContracts } from './contract-watch.ts';
import { type Cursor, CursorMoved, checkNetwork, type Followed, moveCursor, provenHeightsOf, readChainCursor } from './cursor.ts';
import { createFeeWatch } from './fee-watch.ts';
import { createFollowState, type FollowState } from './follow-state.ts';
import { AddressGiven } from './look-ahead.ts';
import { createTipPoll, pollTip, type TipPoll } from './poll-tip.ts';
import { createPosition, findPosition, liftHold, type Position } from './position.ts';
import { createReadBack } from './read-back.ts';
import { type Fetched, recordBlock } from './record-block.ts';
import { endReorg } from './take-back.ts';
import { createWatching, type Watching } from './watching.ts';

/** Locks of the followers: one process at a time reads a coin. Correctness depends only on the cursor. */
const FOLLOW_LOCK = 7_233_200;
/** After a failure a source is retried at least this often, because a payer is waiting. */
const MAX_PAUSE_MS = 5_000;
/** The minimum time between two polls, regardless of the number of hints. */
const HINT_PAUSE_MS = 250;
/** A regtest node mines on demand, so it is polled often. */
const REGTEST_POLL_MS = 400;

/** Starts following; `stop` waits for the current step. Failures are logged and retried with growing pauses. */
export function startFollower(
  ctx: Context,
  source: Chain,
  { pollMs = source.network === 'regtest' ? REGTEST_POLL_MS : chainOf(source.coin).pollSeconds * 1000 }: { pollMs?: number } = {},
): { stop(): Promise<void> } {
  const lead = createLead(ctx.db, { lock: FOLLOW_LOCK, name: chainCode(source.coin) });
  let leading: Leading | null = null;
  let hinted = false;
  const loop = startLoop({
    pollMs,
    longestPauseMs: MAX_PAUSE_MS,
    round: async (stopping) => {
      if (hinted) {
        hinted = false;
        await sleep(Math.min(HINT_PAUSE_MS, pollMs), undefined, { signal: stopping }).catch(() => {});
        if (stopping.aborted) return false;
      }
      try {
        const term = await lead.take();
        if (!term) return false;
        if (leading?.term !== term) leading = startTerm(ctx, source, term);
        const { guard, watchContracts, watchFees, follower } = leading;
        // The guard runs first, so that what is read then completes only as far as the sources agree.
        const judged = await guard.check();
        await watchContracts();
        await watchFees();
        const more = await follower.step(stopping, judged);
        await guard.agree();
        return more;
      } catch (error) {
        // Another follower's work is kept; this is not a failure.
        if (!(error instanceof CursorMoved || error instanceof AddressGiven)) throw error;
      }
      return false;
    },
    failed: (error, failures) => {
      const log = error instanceof ChainError && error.kind === 'outage' && failures < 20 ? ctx.log.warn : ctx.log.error;
      log.call(ctx.log, { err: error, coin: source.coin, failures }, 'Following the chain failed; retrying from the same place');
    },
  });
  const endHints = source.onHint(() => {
    hinted = true;
    loop.nudge();
  });
  return {
    stop: async () => {
      endHints();
      await loop.stop();
      await lead.close();
    },
  };
}

/**
 * What works during one term. Nothing is remembered from an earlier one: another process may have followed meanwhile, and a database that
 * failed over may have forgotten what was read, and counts transactions from further back.
 */
function startTerm(ctx: Context, source: Chain, term: Term) {
  const watchContracts = createContractWatch(ctx, source);
  return {
    term,
    watchContracts,
    watchFees: createFeeWatch(ctx, source),
    follower: createFollower(ctx, source, { watchContracts }),
    guard: createGuard(ctx, source),
  };
}
type Leading = ReturnType<typeof startTerm>;

/** What one follower remembers. Everything else is in tables. */
type Follower = {
  readonly ctx: Context;
  readonly source: Followed;
  /** As strict as on mainnet. */
  readonly binding: boolean;
  readonly notes: FollowState;
  readonly watching: Watching;
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
  source: Followed,
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
  const { ctx, source, notes, blocks, tip } = follower;
  blocks.at = null;
  try {
    const more = await followToTip(follower, signal, judged);
    await notes.worked();
    return more;
  } catch (error) {
    // Another follower's work is kept; this is not a failure.
    if (error instanceof CursorMoved || error instanceof AddressGiven) throw error;
    tip.connection = { sinceMs: null };
    // If the database is the cause, it cannot be recorded either.
    await notes
      .failed(error, blocks.at)
      .catch((cause) => ctx.log.warn({ err: cause, coin: source.coin }, 'Could not record why a follower failed'));
    throw error;
  }
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
  let cursor: Cursor = await readChainCursor(ctx, source);
  // Do not request again what the guard just received.
  for (let just = judged?.health ? judged : null; ; just = null) {
    if (signal?.aborted) return false;
    const before = just?.since ?? (await ctx.db.sql<{ now: Date }[]>`select clock_timestamp() as now`)[0]!.now;
    const health = just?.health ?? null;
    const tip = health?.tip ?? (await source.tip());
    if (tip.hash === cursor.hash) {
      await liftHold(position, cursor);
      await notes.isUpToDate(cursor.height);
      await endReorg(ctx, { coin: source.coin, hash: cursor.hash });
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
    const apply = (at: Cursor, fetched: Fetched) => applyBlock(follower, at, fetched, certainThrough);
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
  fetched: Fetched,
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
