/** One poll at the tip: what is final, what is in the mempool, and whether this view of the chain is certain. */
import type { ChainHealth, ChainSource } from '#chains';
import type { Context } from '#context';
import { type Doubt, doubtOf } from '#core/certainty';
import { type Coin, chainCode, finalityOf, kindOf } from '#core/coin';
import { earliest, MINUTE_MS } from '#core/dates';
import type { Sql, Tx } from '#db';
import { queueProcessing } from '#settling';
import { type Cursor, type FollowedSource, holdCursor, provenHeightsOf } from './cursor.ts';
import type { FollowState } from './follow-state.ts';
import { writeBounded } from './record-block.ts';
import {
  inheritedSights,
  readReplaced,
  readWaiting,
  type WaitingTransaction,
  writeConflicts,
  writePresence,
  writeSightings,
} from './sightings.ts';
import type { Loser } from './spent-outpoints.ts';
import { type ChainWatch, matcherOf, refreshWatching, sortSightings } from './watching.ts';

/** Blocks come every few seconds, so balances that were proven this long ago are worth a note. */
const LATE_PROOF_MS = 2 * MINUTE_MS;
const LATE_PROOF = 'the balances of open addresses were proven more than two minutes ago';
const settling = (reason: string | null): Doubt | null => (reason === null ? null : { code: 'settling', reason });

export type TipPoll = {
  readonly ctx: Context;
  readonly source: FollowedSource;
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
type ConnectedSince = { sinceMs: number | null };

export const createTipPoll = (
  ctx: Context,
  source: FollowedSource,
  { binding, watching, notes }: { binding: boolean; watching: ChainWatch; notes: FollowState },
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
  const write = (sql: Sql | Tx) => sql`
    update tips set looked_at = ${before}, chainlock_height = greatest(chainlock_height, ${chainlock}::bigint),
      scanned_through = case when not ${certain} then scanned_through
        when ${provenThrough === null} then ${before} else greatest(scanned_through, ${provenThrough}::timestamptz) end
    where chain = ${chainCode(coin)} and hash = ${cursor.hash}`;
  const isLocked = chainlock !== null && chainlock !== lockedThrough;
  if (!isNews && !isLocked) await write(ctx.db.sql);
  else
    await ctx.db.begin(async (tx) => {
      await write(tx);
      const moved = isNews
        ? await tx`
            update tips set proven_heights = ${proven as number[] | null}::int[]
            where chain = ${chainCode(coin)} and hash = ${cursor.hash} and proven_heights is distinct from ${proven as number[] | null}::int[]`
        : { count: 0 };
      if (moved.count > 0 || isLocked) await queueProcessing(tx, { coin });
    });
  poll.lockedThrough = chainlock;
  poll.proven = proven?.join() ?? null;
}

// Records what the network says cannot be reorganized anymore: final blocks (ETH), ChainLocks and InstantSend locks (DASH).

/** DASH: unlocked transfers queried in one poll, newest first. */
const MAX_LOCK_LOOKS = 200;

type FinalityPoll = {
  readonly ctx: Context;
  readonly source: Pick<ChainSource, 'coin' | 'finality' | 'txState'>;
  /** The cursor whose final blocks are recorded. */
  knownFor: string | null;
};

/** ETH: which blocks can no longer be reorganized, according to the cursor's chain. */
async function pollFinality(poll: FinalityPoll, cursor: Cursor): Promise<void> {
  const { ctx, source } = poll;
  const { coin } = source;
  if (finalityOf(coin) !== 'tags' || cursor.hash === poll.knownFor) return;
  const { safe, finalized, tip } = await source.finality();
  // Only from a machine on the chain that was read: its finalized height must not vouch for another chain's block.
  if (tip !== cursor.hash) return;
  await ctx.db.begin(async (tx) => {
    const moved = await tx`
      update tips set safe_height = ${safe}::bigint, finalized_height = ${finalized}::bigint
      where chain = ${chainCode(coin)} and hash = ${cursor.hash}
        and (safe_height is distinct from ${safe}::bigint or finalized_height is distinct from ${finalized}::bigint)`;
    if (moved.count > 0) await queueProcessing(tx, { coin });
  });
  poll.knownFor = cursor.hash;
}

type Open = { paymentId: string; txid: string };
type Locked = { txid: string; lock: string; block_hash: string | null };

/** DASH: asks the operator's node which of the pending transfers have been locked since. */
async function pollLocks({ ctx, source }: FinalityPoll): Promise<void> {
  const { coin } = source;
  if (finalityOf(coin) !== 'locks') return;
  const open = await readUnlocked(ctx, coin);
  const locks: Locked[] = [];
  for (const txid of new Set(open.map((row) => row.txid))) {
    const { lock, blockHash } = await source.txState(txid);
    if (lock) locks.push({ txid, lock, block_hash: blockHash });
  }
  if (locks.length === 0) return;
  const found = new Set(locks.map(({ txid }) => txid));
  await writeLocks(ctx, { coin, locks, paymentIds: open.filter((row) => found.has(row.txid)).map((row) => row.paymentId) });
}

const readUnlocked = (ctx: Context, coin: Coin) => ctx.db.sql<Open[]>`
  select t.payment_id as "paymentId", t.txid from transfers t join payments p on p.id = t.payment_id
  where t.coin = ${coin} and t.lock is null and t.txid is not null and p.mode = 'live' and p.status in ('pending', 'processing')
  order by t.first_seen_at desc limit ${MAX_LOCK_LOOKS}`;

/** A ChainLock applies to the requested block, an InstantSend lock to the transaction. */
const writeLocks = (ctx: Context, { coin, locks, paymentIds }: { coin: Coin; locks: readonly Locked[]; paymentIds: string[] }) =>
  writeBounded(ctx, { coin }, (tx, way) =>
    way.lockAndSettle(tx, paymentIds, async () => {
      await tx`
        update transfers t set lock = r.lock
        from jsonb_to_recordset(${tx.json(locks as never)}) as r (txid text, lock text, block_hash text)
        where t.coin = ${coin} and t.txid = r.txid and t.payment_id = any(${paymentIds}::text[])
          and (r.lock = 'instantsend' or t.block_hash = r.block_hash)`;
    }),
  );

/**
 * DASH: the height of the last ChainLock on the cursor's chain; null when none is known now, which leaves the recorded one as it is. While
 * the source that is followed cannot report ChainLocks, the recorded one is dropped, so that depth decides.
 */
async function readChainlock({ ctx, source }: FinalityPoll, cursor: Cursor): Promise<number | null> {
  const { coin } = source;
  if (finalityOf(coin) !== 'locks') return null;
  const { tip, chainlock, blind } = await source.finality();
  if (blind) await ctx.db.sql`update tips set chainlock_height = null where chain = ${chainCode(coin)} and chainlock_height is not null`;
  // Nothing above the tip can be locked: such a height would also count for blocks that come later.
  return !blind && tip === cursor.hash && chainlock !== null && chainlock <= cursor.height ? chainlock : null;
}

// Polls the mempool: new transfers, replacements, and transfers that are missing or back.

/** Polls of the mempool before a missing transfer is recorded as absent. */
const ABSENT_AFTER_POLLS = 2;

/**
 * `complete`: everything first seen before it is recorded, or before `provenThrough` if that is given; `incomplete`: why it is not, when that
 * is expected. `beside`: the tip reported with it.
 */
type MempoolLook = { complete: boolean; incomplete: string | null; provenThrough: Date | null; beside: string | null };

/** In how many polls in a row each of our transactions was missing. */
export type Absences = ReadonlyMap<string, number>;
type MempoolPoll = {
  readonly source: Pick<ChainSource, 'fetchMempool' | 'tip'>;
  readonly watching: ChainWatch;
  absences: Absences;
};
type Present = Pick<ReadonlySet<string>, 'has'>;

/** Which of our transactions have been out of the mempool long enough to report, and which are back. */
export function judgePresence(
  before: Absences,
  waiting: readonly WaitingTransaction[],
  present: Present,
): { absences: Absences; gone: string[]; back: string[] } {
  const absent = waiting.filter((row) => !present.has(row.txid));
  const absences = new Map(absent.map(({ txid }) => [txid, (before.get(txid) ?? 0) + 1]));
  return {
    absences,
    gone: absent.filter((row) => !row.absent && absences.get(row.txid)! >= ABSENT_AFTER_POLLS).map((row) => row.txid),
    back: waiting.filter((row) => row.doubted && present.has(row.txid)).map((row) => row.txid),
  };
}

/** What a source shows, without what it only heard of for longer than that is believed. */
export function stillPresent(
  { present, believedMs }: { present: Present; believedMs?: number },
  waiting: readonly WaitingTransaction[],
  now: Date,
): Present {
  if (believedMs === undefined) return present;
  const old = new Set(waiting.filter(({ firstSeenAt }) => now.getTime() - firstSeenAt.getTime() > believedMs).map(({ txid }) => txid));
  return { has: (txid) => present.has(txid) && !old.has(txid) };
}

/** Double-spends that are not recorded yet. */
export function freshLosers(losers: readonly Loser[], waiting: readonly WaitingTransaction[]): Loser[] {
  const contested = new Set(waiting.filter((row) => row.contested).map((row) => row.txid));
  return losers.filter((loser) => !contested.has(loser.txid));
}

/** One poll, recorded at the cursor. `health`: what the source just reported, if it was asked. */
async function pollMempool(poll: MempoolPoll, cursor: Cursor, health: ChainHealth | null): Promise<MempoolLook> {
  const { source, watching } = poll;
  const { ctx, coin, spares, spent } = watching;
  const fetched = await source.fetchMempool(health);
  const beside = fetched.beside ?? null;
  // With a tip other than the recorded one, it could show a transfer that a recorded block contains under another id.
  if ((beside ?? (await source.tip()).hash) !== cursor.hash) return { complete: false, incomplete: null, provenThrough: null, beside };
  const seenAt = ctx.clock.now();
  await refreshWatching(watching);
  const waiting = await readWaiting(ctx.db.sql, coin);
  const found = await fetched.scan(matcherOf(watching, waiting));
  const { conflicts, complete = true, incomplete = null, provenThrough = null, ...scanned } = found;
  const present = stillPresent(found, waiting, seenAt);
  const { sightings, strays } = await sortSightings(watching, scanned.sightings);
  const losers = await spent.findLosers(conflicts.filter((c) => present.has(c.txid)));
  const fresh = freshLosers(losers, waiting);
  const { gone, back, absences } = judgePresence(poll.absences, waiting, present);
  poll.absences = absences;
  const replaced = await readReplaced(ctx.db.sql, coin, [...losers.map((loser) => loser.txid), ...gone, ...back]);
  const moved = new Set([...fresh.map((loser) => loser.txid), ...gone, ...back]);
  const ids = [
    ...new Set([...sightings.map((s) => s.owner.paymentId), ...replaced.filter((row) => moved.has(row.txid)).map((row) => row.paymentId)]),
  ];
  if (ids.length > 0) {
    const inherited = inheritedSights(sightings, losers, replaced);
    await writeBounded(ctx, { coin, outputs: sightings.length }, (tx, { atOnce, lockAndSettle }) =>
      lockAndSettle(tx, ids, async () => {
        await holdCursor(tx, coin, cursor);
        await writeSightings(tx, sightings, { coin, block: null, seenAt, inherited, present, atOnce });
        await spent.write(tx, sightings);
        await writeConflicts(tx, fresh, { coin, paymentIds: ids, height: null });
        await writePresence(tx, { coin, paymentIds: ids, gone, back });
      }),
    );
  }
  if (strays.length > 0) spares.tell(await ctx.db.begin((tx) => spares.record(tx, strays, seenAt)));
  fetched.done();
  return { complete, incomplete, provenThrough, beside };
}
