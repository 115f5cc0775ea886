/** One poll at the tip: what is final, what is in the mempool, and whether this view of the chain is certain. */
import type { ChainHealth } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Doubt, doubtOf } from '../core/certainty.ts';
import { earliest, MINUTE_MS } from '../core/clock.ts';
import { type Coin, chainCode, kindOf } from '../core/coin.ts';
import { queueProcessing } from '../payments/settle-payments.ts';
import { type Cursor, type Followed, provenHeightsOf } from './cursor.ts';
import { type FinalityPoll, pollFinality, pollLocks, readChainlock } from './finality.ts';
import type { FollowState } from './follow-state.ts';
import { type MempoolPoll, pollMempool } from './poll-mempool.ts';
import type { Watching } from './watching.ts';

/** Blocks come every few seconds, so balances that were proven this long ago are worth a note. */
const LATE_PROOF_MS = 2 * MINUTE_MS;
const LATE_PROOF = 'the balances of open addresses were proven more than two minutes ago';
const settling = (reason: string | null): Doubt | null => (reason === null ? null : { code: 'settling', reason });

export type TipPoll = {
  readonly ctx: Context;
  readonly source: Followed;
  /** As strict as on mainnet. */
  readonly binding: boolean;
  readonly notes: FollowState;
  readonly mempool: MempoolPoll;
  readonly finality: FinalityPoll;
  connection: ConnectedSince;
  /** The ChainLock of the last poll. */
  lockedThrough: number | null;
  /** The proven heights of the last poll. */
  proven: string | null;
};
/** Since when the source has had peers, without interruption. */
export type ConnectedSince = { sinceMs: number | null };

export const createTipPoll = (
  ctx: Context,
  source: Followed,
  { binding, watching, notes }: { binding: boolean; watching: Watching; notes: FollowState },
): TipPoll => ({
  ctx,
  source,
  binding,
  notes,
  mempool: { source, watching, absences: new Map() },
  finality: { ctx, source, knownFor: null },
  connection: { sinceMs: null },
  lockedThrough: null,
  proven: null,
});

/** Ethereum nodes receive blocks from a consensus client, which has its own peers; providers cannot be relied on for this. */
const peersOf = (coin: Coin, health: ChainHealth): number | null => (kindOf(coin) === 'ethereum' ? null : health.peers);

/** Counts from the first poll with peers; a poll without any ends it. */
export const connectionAt = ({ sinceMs }: ConnectedSince, peers: number | null, nowMs: number): ConnectedSince => ({
  sinceMs: peers === 0 ? null : (sinceMs ?? nowMs),
});

/** Why this poll may be incomplete; null when it is complete. */
function judgePoll(poll: TipPoll, health: ChainHealth, { now, behindOthers }: { now: Date; behindOthers: boolean }): Doubt | null {
  const { ctx, source, binding } = poll;
  const { coin } = source;
  const peers = peersOf(coin, health);
  const nowMs = ctx.clock.monotonicMs();
  poll.connection = connectionAt(poll.connection, peers, nowMs);
  const { sinceMs } = poll.connection;
  const connectedMs = sinceMs === null ? 0 : nowMs - sinceMs;
  return doubtOf({ coin, binding, syncing: health.syncing, peers, connectedMs, tipTime: health.tip.time, now, behindOthers });
}

/** Polls a source whose tip is the cursor. `health`: what it reported after `before`, by the database's clock, if it was asked. */
export async function pollTip(
  poll: TipPoll,
  { cursor, health: just, before, behindOthers }: { cursor: Cursor; health: ChainHealth | null; before: Date; behindOthers: boolean },
): Promise<void> {
  const { source, notes } = poll;
  await pollFinality(poll.finality, cursor);
  // Before the mempool is read, which may fail.
  const chainlock = await readChainlock(poll.finality, cursor);
  const health = just ?? (await source.health());
  const { complete, incomplete, provenThrough, beside } = await pollMempool(poll.mempool, cursor, just);
  await pollLocks(poll.finality);
  // If the tip moved in the meantime, the poll is not complete.
  if ((beside ?? (await source.tip()).hash) !== cursor.hash) return;
  const doubt = judgePoll(poll, health, { now: before, behindOthers }) ?? settling(incomplete);
  const isLate = provenThrough !== null && before.getTime() - provenThrough.getTime() > LATE_PROOF_MS;
  await notes.doubts(doubt ?? (isLate ? settling(LATE_PROOF) : null));
  const certain = complete && doubt === null;
  await writePoll(poll, { cursor, before, chainlock, certain, provenThrough: provenThrough && earliest(before, provenThrough) });
}

async function writePoll(
  poll: TipPoll,
  {
    cursor,
    before,
    chainlock,
    certain,
    provenThrough,
  }: { cursor: Cursor; before: Date; chainlock: number | null; certain: boolean; provenThrough: Date | null },
): Promise<void> {
  const { ctx, source, binding, lockedThrough } = poll;
  const { coin } = source;
  // Work above the cursor proves blocks before theirs are read.
  const proven = provenHeightsOf(source, { binding, hash: cursor.hash });
  const isNews = (proven?.join() ?? null) !== poll.proven;
  await ctx.db.begin(async (tx) => {
    await tx`
      update tips set looked_at = ${before}, chainlock_height = greatest(chainlock_height, ${chainlock}::bigint),
        scanned_through = case when not ${certain} then scanned_through
          when ${provenThrough === null} then ${before} else greatest(scanned_through, ${provenThrough}::timestamptz) end,
        updated_at = clock_timestamp() where chain = ${chainCode(coin)} and hash = ${cursor.hash}`;
    const moved = isNews
      ? await tx`
          update tips set proven_heights = ${proven as number[] | null}::int[]
          where chain = ${chainCode(coin)} and hash = ${cursor.hash} and proven_heights is distinct from ${proven as number[] | null}::int[]`
      : { count: 0 };
    if (moved.count > 0 || (chainlock !== null && chainlock !== lockedThrough)) await queueProcessing(tx, { coin });
  });
  poll.lockedThrough = chainlock;
  poll.proven = proven?.join() ?? null;
}
