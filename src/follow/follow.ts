/** Follows one chain: pulls blocks by hash from a stored cursor, walks back over reorganizations, watches the mempool, misses nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Chain, ChainError, type ChainHealth, type ChainSource, type Matcher, type Sighting } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Doubt, doubtOf } from '../core/certainty.ts';
import { DAY_MS, earliest } from '../core/clock.ts';
import { COIN, chainCode, chainOf, finalityOf, kindOf } from '../core/coin.ts';
import { isBinding } from '../core/guard.ts';
import { readEndedBelow, type Tx } from '../db/db.ts';
import { startLoop } from '../db/loop.ts';
import { lockAndSettleMany, queueProcessing } from '../payments/settle-payments.ts';
import { createGuard, endReorg, type Judged } from './chain-guard.ts';
import { type Cursor, CursorMoved, createCursor, holdCursor, insertBlock, moveCursor } from './cursor.ts';
import { type BlockName, createFollowState } from './follow-state.ts';
import { AddressGiven, createLookAhead, type Stray } from './look-ahead.ts';
import { createReadBack } from './read-back.ts';
import {
  eachOutput,
  inheritedSights,
  type Owned,
  type Owner,
  readReplaced,
  readWaiting,
  type Waiting,
  writeConflicts,
  writePresence,
  writeSightings,
} from './sightings.ts';
import { writeBounded } from './small-parts.ts';
import { createSpentOutpoints } from './spent-outpoints.ts';
import { createWatchSet } from './watch-set.ts';

/** Locks of the followers: one process at a time reads a coin. Correctness depends only on the cursor. */
const FOLLOW_LOCK = 7_233_200;
/** After a failure a source is retried at least this often, because a payer is waiting. */
const MAX_PAUSE_MS = 5_000;
/** Polls of the mempool before a missing transfer is recorded as absent. */
const ABSENT_AFTER_POLLS = 2;
/** How long an address counts as recently issued; windows and late payments end well before. */
const RECENT_MS = 7 * DAY_MS;
/** The minimum time between two polls, regardless of the number of hints. */
const HINT_PAUSE_MS = 250;
/** DASH: unlocked transfers queried in one poll, newest first. */
const MAX_LOCK_LOOKS = 200;
/** A regtest node mines on demand, so it is polled often. */
const REGTEST_POLL_MS = 400;
/** Blocks held while the one below them is written, so that source, network and database work in parallel. */
const BLOCKS_AHEAD = 2;
/** Blocks below the cursor that are remembered: more than any reorganization takes back. */
const BLOCKS_KEPT = 2_000;
/** Blocks between two cleanups of outpoints. */
const PRUNE_EVERY = 16;
/** Addresses read between two turns of the event loop. */
const KEYS_AT_ONCE = 2_000;

type Fetched = Awaited<ReturnType<ChainSource['fetchBlock']>>;
const NOTHING = Promise.resolve(null);

/** Starts following; `stop` waits for the current step. Failures are logged and retried with growing pauses. */
export function startFollower(
  ctx: Context,
  source: Chain,
  { pollMs = source.network === 'regtest' ? REGTEST_POLL_MS : chainOf(source.coin).pollSeconds * 1000 }: { pollMs?: number } = {},
): { stop(): Promise<void> } {
  const session = ctx.db.session();
  const follower = createFollower(ctx, source);
  const guard = createGuard(ctx, source);
  let leading = false;
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
        leading ||= (
          await session.sql<
            { taken: boolean }[]
          >`select pg_try_advisory_lock(${FOLLOW_LOCK}::int, hashtext(${chainCode(source.coin)})) as taken`
        )[0]!.taken;
        // The guard runs first, so that what is read then completes only as far as the sources agree.
        if (!leading) return false;
        const more = await follower.step(stopping, await guard.check());
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
      log.call(ctx.log, { err: error, coin: source.coin, failures }, 'following the chain failed; it is tried again from the same place');
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
      await session.close();
    },
  };
}

/**
 * One follower. Its only memory is what is watched; everything else is in tables. `step` catches up to the tip, polls the mempool, and
 * reads some of the older blocks that are still to be read: true when more are left.
 */
export function createFollower(
  ctx: Context,
  source: ChainSource,
  { binding = isBinding(source.network) }: { binding?: boolean } = {},
): { step(signal?: AbortSignal, found?: Judged): Promise<boolean> } {
  const { coin } = source;
  const watched = createWatchSet();
  const spares = createLookAhead(ctx, source, watched);
  const position = createCursor(ctx, source);
  const spent = createSpentOutpoints(ctx, coin);
  let missing: ReadonlyMap<string, number> = new Map();
  const state = createFollowState(ctx, coin);
  let readFrom = '0';
  let lockedThrough: number | null = null;
  let checked = false;
  /** The last poll that was certain. */
  let certainThrough: Date | null = null;
  /** The block that is being read. */
  let at: BlockName | null = null;
  /** Since when the source has had peers, without interruption. */
  let connectedSinceMs: number | null = null;
  let finalityKnownFor: string | null = null;

  /** Updates the watch set from all committed rows: rereads what might have committed since the last read. */
  const refresh = async (): Promise<void> => {
    const endedBelow = await readEndedBelow(ctx.db.sql);
    // Wallets first: an address issued between the two reads is then known as spare, as issued, or as both, but never as neither.
    await spares.refresh(readFrom);
    const given = ctx.db.sql<
      { key: string }[]
    >`select key from deposit_addresses where coin = ${COIN[coin].family} and xid >= ${readFrom}::xid8`;
    const add = (rows: readonly { key: string }[]) => {
      for (const { key } of rows) watched.add(key);
    };
    // All of them at startup, and only a few after that.
    if (readFrom === '0') for await (const rows of given.cursor(KEYS_AT_ONCE)) add(rows);
    else add(await given);
    await spent.refresh(readFrom);
    readFrom = endedBelow;
  };
  const matcherOf = (waiting: readonly Waiting[]): Matcher => ({
    has: watched.has,
    watchesSpends: spent.any(),
    spends: spent.has,
    quick: { pays: watched.hasBytes, spends: spent.hasBytes },
    recent: async (at) => {
      const since = new Date(earliest(at, ctx.clock.now()).getTime() - RECENT_MS);
      const rows = await ctx.db.sql<{ key: string }[]>`
        select key from deposit_addresses where coin = ${COIN[coin].family} and created_at > ${since} order by created_at, key`;
      return rows.map((row) => row.key);
    },
    waiting: waiting.map((row) => row.txid),
  });
  /** Transfers to payments, and deposits to unissued addresses. The table decides who owns an address, not memory. */
  const sort = async (all: readonly Sighting[]): Promise<{ sightings: Owned[]; strays: Stray[] }> => {
    const sightings: Owned[] = [];
    const strays: Stray[] = [];
    if (all.length === 0) return { sightings, strays };
    const rows = await ctx.db.sql<(Owner & { key: string })[]>`
      select key, payment_id as "paymentId", merchant_id as "merchantId", address, created_at as "createdAt"
      from deposit_addresses where coin = ${COIN[coin].family} and key = any(${[...new Set(all.map((s) => s.key))]}::text[])`;
    const owners = new Map(rows.map(({ key, ...owner }) => [key, owner]));
    for (const sighting of all) {
      const owner = owners.get(sighting.key);
      const spare = spares.find(sighting.key);
      if (owner) sightings.push({ ...sighting, owner });
      else if (spare) for (const stray of eachOutput({ ...sighting, spare })) strays.push(stray);
    }
    return { sightings, strays };
  };

  /** Fetches the block at a height; null when the source has none. */
  const fetchAt = async (height: number): Promise<Fetched | null> => {
    const next = await source.blockAt(height);
    return next && source.fetchBlock(next.hash);
  };

  /** Writes one block to the database: facts, block and cursor, in one transaction. */
  const record = async (fetched: Fetched, advance: (tx: Tx) => Promise<void>, certainThrough: Date | null): Promise<void> => {
    const scannedAt = ctx.clock.now();
    await refresh();
    const scanned = await fetched.scan(matcherOf([]));
    fetched.done?.();
    const { sightings, strays } = await sort(scanned.sightings);
    const losers = await spent.findLosers(scanned.conflicts);
    const replaced = await readReplaced(
      ctx.db.sql,
      coin,
      losers.map((loser) => loser.txid),
    );
    const ids = [...new Set([...sightings.map((s) => s.owner.paymentId), ...replaced.map((row) => row.paymentId)])];
    const inherited = inheritedSights(sightings, losers, replaced);
    const { height } = fetched.ref;
    const found = await writeBounded(ctx, { coin, height, outputs: sightings.length }, async (tx, { atOnce, lockAndSettle }) => {
      let recorded: Stray[] = [];
      await lockAndSettle(tx, ids, async () => {
        recorded = await spares.record(tx, strays, scannedAt);
        // One statement each, sent without waiting for the previous one; the database runs them in this order.
        await Promise.all([
          advance(tx),
          insertBlock(tx, coin, fetched.ref),
          tx`delete from blocks where coin = ${chainCode(coin)} and height < (select height from tips where coin = ${chainCode(coin)}) - ${BLOCKS_KEPT}`,
        ]);
        await writeSightings(tx, sightings, { coin, block: fetched.ref, seenAt: scannedAt, inherited, atOnce, certainThrough });
        await spent.write(tx, sightings);
        await writeConflicts(tx, losers, { coin, paymentIds: ids, height });
        // Confirmations grew, so everything of this coin that waits for them is settled again.
        await queueProcessing(tx, { coin, except: ids });
      });
      return recorded;
    });
    spares.tell(found);
    if (height % PRUNE_EVERY === 0) await spent.prune();
  };
  const applyBlock = async (cursor: Cursor, fetched: Fetched): Promise<Cursor> => {
    const { height, hash } = fetched.ref;
    at = { height, hash };
    await record(fetched, (tx) => moveCursor(tx, coin, cursor, { height, hash }), certainThrough);
    at = null;
    return { height, hash };
  };
  // No mempool poll preceded the blocks below the first one.
  const readBack = createReadBack(ctx, source, (fetched, advance) => record(fetched, advance, null));

  /** Which blocks can no longer be reorganized, according to the cursor's chain. */
  const lookAtFinality = async (cursor: Cursor): Promise<void> => {
    if (finalityOf(coin) !== 'tags' || cursor.hash === finalityKnownFor) return;
    const { safe, finalized, tip } = await source.finality();
    // Only from a machine on the chain that was read: its finalized height must not vouch for another chain's block.
    if (tip !== cursor.hash) return;
    await ctx.db.begin(async (tx) => {
      const moved = await tx`
        update tips set safe_height = ${safe}::bigint, finalized_height = ${finalized}::bigint
        where coin = ${chainCode(coin)} and hash = ${cursor.hash}
          and (safe_height is distinct from ${safe}::bigint or finalized_height is distinct from ${finalized}::bigint)`;
      if (moved.count > 0) await queueProcessing(tx, { coin });
    });
    finalityKnownFor = cursor.hash;
  };

  /** Which of our transactions have been out of the mempool long enough to report, and which are back. */
  const missed = (waiting: readonly Waiting[], present: Pick<ReadonlySet<string>, 'has'>): { gone: string[]; back: string[] } => {
    const absent = waiting.filter((row) => !present.has(row.txid));
    missing = new Map(absent.map(({ txid }) => [txid, (missing.get(txid) ?? 0) + 1]));
    return {
      gone: absent.filter((row) => !row.absent && missing.get(row.txid)! >= ABSENT_AFTER_POLLS).map((row) => row.txid),
      back: waiting.filter((row) => row.doubted && present.has(row.txid)).map((row) => row.txid),
    };
  };

  /** Polls the mempool. `complete`: everything first seen before it is recorded. `beside`: the tip reported with it, if any. */
  const lookAtMempool = async (cursor: Cursor, health: ChainHealth | null): Promise<{ complete: boolean; beside: string | null }> => {
    const fetched = await source.fetchMempool(health);
    const beside = fetched.beside ?? null;
    // With a tip other than the recorded one, it could show a transfer that a recorded block contains under another id.
    if ((beside ?? (await source.tip()).hash) !== cursor.hash) return { complete: false, beside };
    const seenAt = ctx.clock.now();
    await refresh();
    const waiting = await readWaiting(ctx.db.sql, coin);
    const { conflicts, present, complete = true, ...scanned } = await fetched.scan(matcherOf(waiting));
    const { sightings, strays } = await sort(scanned.sightings);
    const losers = await spent.findLosers(conflicts.filter((c) => present.has(c.txid)));
    const contested = new Set(waiting.filter((row) => row.contested).map((row) => row.txid));
    const fresh = losers.filter((loser) => !contested.has(loser.txid));
    const { gone, back } = missed(waiting, present);
    const replaced = await readReplaced(ctx.db.sql, coin, [...losers.map((loser) => loser.txid), ...gone, ...back]);
    const moved = new Set([...fresh.map((loser) => loser.txid), ...gone, ...back]);
    const ids = [
      ...new Set([
        ...sightings.map((s) => s.owner.paymentId),
        ...replaced.filter((row) => moved.has(row.txid)).map((row) => row.paymentId),
      ]),
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
    return { complete, beside };
  };

  /** Asks the operator's node which of the pending transfers have been locked since. */
  const lookAtLocks = async (): Promise<void> => {
    if (finalityOf(coin) !== 'locks') return;
    const open = await ctx.db.sql<{ paymentId: string; txid: string }[]>`
      select t.payment_id as "paymentId", t.txid from transfers t join payments p on p.id = t.payment_id
      where t.coin = ${coin} and t.lock is null and t.txid is not null and p.mode = 'live' and p.status in ('pending', 'processing')
      order by t.first_seen_at desc limit ${MAX_LOCK_LOOKS}`;
    const locks: { txid: string; lock: string; block_hash: string | null }[] = [];
    for (const txid of new Set(open.map((row) => row.txid))) {
      const { lock, blockHash } = await source.txState(txid);
      if (lock) locks.push({ txid, lock, block_hash: blockHash });
    }
    if (locks.length === 0) return;
    const ids = open.filter((row) => locks.some((found) => found.txid === row.txid)).map((row) => row.paymentId);
    await ctx.db.begin((tx) =>
      lockAndSettleMany(ctx, tx, ids, async () => {
        // A ChainLock applies to the requested block, an InstantSend lock to the transaction.
        await tx`
          update transfers t set lock = r.lock
          from jsonb_to_recordset(${tx.json(locks as never)}) as r (txid text, lock text, block_hash text)
          where t.coin = ${coin} and t.txid = r.txid and t.payment_id = any(${ids}::text[])
            and (r.lock = 'instantsend' or t.block_hash = r.block_hash)`;
      }),
    );
  };

  /** Why this poll may be incomplete; null when it is complete. */
  const judge = (health: ChainHealth, { now, behindOthers }: { now: Date; behindOthers: boolean }): Doubt | null => {
    // Ethereum nodes receive blocks from a consensus client, which has its own peers; providers cannot be relied on for this.
    const peers = kindOf(coin) === 'ethereum' ? null : health.peers;
    const nowMs = ctx.clock.monotonicMs();
    connectedSinceMs = peers === 0 ? null : (connectedSinceMs ?? nowMs);
    const connectedMs = connectedSinceMs === null ? 0 : nowMs - connectedSinceMs;
    return doubtOf({ coin, binding, syncing: health.syncing, peers, connectedMs, tipTime: health.tip.time, now, behindOthers });
  };

  const look = async (signal: AbortSignal | undefined, judged: Judged | undefined): Promise<boolean> => {
    if (!checked) await position.checkNetwork();
    checked = true;
    let cursor = await position.read();
    // Do not request again what the guard just received.
    for (let just = judged?.health ? judged : null; ; just = null) {
      if (signal?.aborted) return false;
      const before = just?.since ?? (await ctx.db.sql<{ now: Date }[]>`select clock_timestamp() as now`)[0]!.now;
      const told = just?.health ?? null;
      const tip = told?.tip ?? (await source.tip());
      if (tip.hash === cursor.hash) {
        await position.stands(cursor);
        await endReorg(ctx, { coin, hash: cursor.hash });
        await lookAtFinality(cursor);
        const health = told ?? (await source.health());
        const { complete, beside } = await lookAtMempool(cursor, told);
        await lookAtLocks();
        const lock = finalityOf(coin) === 'locks' ? await source.finality() : null;
        const chainlock = lock?.tip === cursor.hash ? lock.chainlock : null;
        // If the tip moved in the meantime, the poll is not complete and the loop continues.
        if ((beside ?? (await source.tip()).hash) === cursor.hash) {
          const doubt = judge(health, { now: before, behindOthers: judged?.behind === true });
          await state.doubts(doubt);
          await ctx.db.begin(async (tx) => {
            await tx`
                update tips set looked_at = ${before}, chainlock_height = greatest(chainlock_height, ${chainlock}::bigint),
                  scanned_through = case when ${complete && doubt === null} then ${before} else scanned_through end,
                  updated_at = clock_timestamp() where coin = ${chainCode(coin)} and hash = ${cursor.hash}`;
            if (chainlock !== null && chainlock !== lockedThrough) await queueProcessing(tx, { coin });
          });
          lockedThrough = chainlock;
        }
        return readBack.some(signal);
      }
      const found = await position.find(cursor, tip);
      // The poll shows nothing new and takes nothing back, so wait for the source.
      if ('doubt' in found) {
        await state.doubts(found.doubt);
        return false;
      }
      cursor = found.cursor;
      const [last] = await ctx.db.sql<{ through: Date }[]>`select scanned_through as through from tips where coin = ${chainCode(coin)}`;
      certainThrough = last?.through ?? null;
      at = { height: cursor.height + 1, hash: null };
      let fetched = await fetchAt(cursor.height + 1);
      // The source's next block does not follow its previous one: it is switching chains, so ask again later.
      if (fetched?.ref.parent !== cursor.hash) return false;
      // While catching up, the next blocks are fetched one after the other while this one is written. A block that follows builds on
      // what was written; everything else, including a failure, is left to the checks above.
      const ahead: Promise<Fetched | null>[] = [];
      let asked = fetched.ref.height;
      try {
        while (fetched?.ref.parent === cursor.hash && !signal?.aborted) {
          for (; ahead.length < BLOCKS_AHEAD && asked < tip.height; asked++) {
            const height = asked + 1;
            ahead.push((ahead.at(-1) ?? NOTHING).then(() => (signal?.aborted ? null : fetchAt(height))).catch(() => null));
          }
          cursor = await applyBlock(cursor, fetched);
          fetched = await (ahead.shift() ?? NOTHING);
        }
      } finally {
        // Also when writing failed, so that no request is left running.
        await Promise.all(ahead);
      }
    }
  };

  return {
    step: async (signal, found) => {
      at = null;
      try {
        const more = await look(signal, found);
        await state.worked();
        return more;
      } catch (error) {
        // Another follower's work is kept; this is not a failure.
        if (error instanceof CursorMoved || error instanceof AddressGiven) throw error;
        connectedSinceMs = null;
        // If the database is the cause, it cannot be recorded either.
        await state.failed(error, at).catch((cause) => ctx.log.warn({ err: cause, coin }, 'Could not record why a follower failed'));
        throw error;
      }
    },
  };
}
