/** Follows one chain: pulls blocks by hash from a stored cursor, walks back over reorganisations, watches the mempool, misses nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Chain, ChainError, type ChainSource, type Matcher, type Sighting } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { DAY_MS, earliest } from '../core/clock.ts';
import { COIN } from '../core/coin.ts';
import { readEndedBelow, type Tx } from '../db/db.ts';
import { startLoop } from '../db/loop.ts';
import { type Cursor, CursorMoved, createCursor, holdCursor, insertBlock, moveCursor } from './cursor.ts';
import { createGuard } from './guard.ts';
import { AddressGiven, createLookAhead, type Stray } from './look-ahead.ts';
import { createReadBack } from './read-back.ts';
import { lockAndSettle, queueProcessing } from './settle-payments.ts';
import {
  conflictsOf,
  type Owned,
  type Owner,
  readWaiting,
  type Spenders,
  spendersOf,
  type Waiting,
  writeConflicts,
  writeSightings,
} from './sightings.ts';
import { createWatchSet, outpointBytes } from './watch-set.ts';

/** Locks of the followers: one process at a time reads a coin; the cursor alone keeps it correct. */
const FOLLOW_LOCK = 7_233_200;
const MAX_PAUSE_MS = 30_000;
/** Polls of the mempool before a missing transfer is noted as absent. */
const ABSENT_AFTER_POLLS = 2;
/** How long an address counts as given out lately: windows and late payments end well before. */
const RECENT_MS = 7 * DAY_MS;
/** However many hints come, this much passes between two looks. */
const HINT_PAUSE_MS = 250;
/** DASH: transfers without a lock that are asked for in one look; the newest first. */
const MAX_LOCK_LOOKS = 200;
/** A regtest node mines when told to and is asked often. */
const REGTEST_POLL_MS = 400;
/** Blocks held while the one below them is written: the source, the network and the database work at the same time. */
const BLOCKS_AHEAD = 2;
/** Blocks below the cursor that are remembered: more than any reorganization takes back. */
const BLOCKS_KEPT = 2_000;
/** Addresses read between two turns of the event loop. */
const KEYS_AT_ONCE = 2_000;

type Fetched = Awaited<ReturnType<ChainSource['fetchBlock']>>;
const NOTHING = Promise.resolve(null);

/** Starts following; `stop` waits for the step under way. Failures are logged and tried again with growing pauses. */
export function startFollower(
  ctx: Context,
  source: Chain,
  { pollMs = source.network === 'regtest' ? REGTEST_POLL_MS : COIN[source.coin].pollSeconds * 1000 }: { pollMs?: number } = {},
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
          await session.sql<{ taken: boolean }[]>`select pg_try_advisory_lock(${FOLLOW_LOCK}::int, hashtext(${source.coin})) as taken`
        )[0]!.taken;
        // Judged first: what is read then completes only as far as the sources agree.
        if (!leading) return false;
        const more = await follower.step(stopping, await guard.check());
        await guard.agree();
        return more;
      } catch (error) {
        // Somebody else's work stands: no failure.
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
 * One follower's memory: what is watched. Everything else is in tables. `step` catches up to the tip, looks at the mempool, and reads
 * some of the blocks that are still to be read below: true when more are left.
 */
export function createFollower(
  ctx: Context,
  source: ChainSource,
): { step(signal?: AbortSignal, found?: { behind: boolean }): Promise<boolean> } {
  const { coin } = source;
  const watched = createWatchSet();
  const spares = createLookAhead(ctx, source, watched);
  const position = createCursor(ctx, source);
  const missing = new Map<string, number>();
  let readFrom = '0';
  let lockedThrough: number | null = null;
  let checked = false;
  let finalityOf: string | null = null;

  /** Brings the watch set up to date from all committed rows: what might have committed since the last look is read again. */
  const refresh = async (): Promise<void> => {
    const endedBelow = await readEndedBelow(ctx.db.sql);
    // Wallets first: an address given between the two reads is then known as spare, as given, or as both; never as neither.
    await spares.refresh(readFrom);
    const given = ctx.db.sql<{ key: string }[]>`select key from deposit_addresses where coin = ${coin} and xid >= ${readFrom}::xid8`;
    const add = (rows: readonly { key: string }[]) => {
      for (const { key } of rows) watched.add(key);
    };
    // All of them at the start, and few from then on.
    if (readFrom === '0') for await (const rows of given.cursor(KEYS_AT_ONCE)) add(rows);
    else add(await given);
    readFrom = endedBelow;
  };
  const matcherOf = (waiting: readonly Waiting[]): { matcher: Matcher; spenders: Spenders } => {
    const spenders = spendersOf(waiting);
    const outpoints = createWatchSet();
    for (const bytes of [...spenders.keys()].map(outpointBytes)) if (bytes) outpoints.addBytes(bytes, 0, bytes.length);
    return {
      spenders,
      matcher: {
        has: watched.has,
        watchesSpends: spenders.size > 0,
        spends: (outpoint) => spenders.has(outpoint),
        quick: { pays: watched.hasBytes, spends: outpoints.hasBytes },
        recent: async (at) => {
          const since = new Date(earliest(at, ctx.clock.now()).getTime() - RECENT_MS);
          const rows = await ctx.db.sql<{ key: string }[]>`
            select key from deposit_addresses where coin = ${coin} and created_at > ${since} order by created_at, key`;
          return rows.map((row) => row.key);
        },
        waiting: [...new Set(waiting.map((row) => row.txid))],
      },
    };
  };
  /** What pays payments, and what came to addresses that no payment was given. The table says whose an address is, not memory. */
  const sort = async (all: readonly Sighting[]): Promise<{ sightings: Owned[]; strays: Stray[] }> => {
    const sightings: Owned[] = [];
    const strays: Stray[] = [];
    if (all.length === 0) return { sightings, strays };
    const rows = await ctx.db.sql<(Owner & { key: string })[]>`
      select key, payment_id as "paymentId", merchant_id as "merchantId", address, created_at as "createdAt"
      from deposit_addresses where coin = ${coin} and key = any(${[...new Set(all.map((s) => s.key))]}::text[])`;
    const owners = new Map(rows.map(({ key, ...owner }) => [key, owner]));
    for (const sighting of all) {
      const owner = owners.get(sighting.key);
      const spare = spares.find(sighting.key);
      if (owner) sightings.push({ ...sighting, owner });
      else if (spare) strays.push({ ...sighting, spare });
    }
    return { sightings, strays };
  };

  /** Fetches the block of a height; null when the source has none there. */
  const fetchAt = async (height: number): Promise<Fetched | null> => {
    const next = await source.blockAt(height);
    return next && source.fetchBlock(next.hash);
  };

  /** Reads one block into the database: facts, block and where the follower is, in one transaction. */
  const record = async (fetched: Fetched, advance: (tx: Tx) => Promise<void>): Promise<void> => {
    const scannedAt = ctx.clock.now();
    const [waiting] = await Promise.all([readWaiting(ctx.db.sql, coin), refresh()]);
    const { matcher, spenders } = matcherOf(waiting);
    const scanned = await fetched.scan(matcher);
    fetched.done?.();
    const { conflicts } = scanned;
    const { sightings, strays } = await sort(scanned.sightings);
    const lost = conflictsOf(conflicts, spenders);
    const ids = [...sightings.map((s) => s.owner.paymentId), ...lost.map((c) => c.paymentId)];
    const found = await ctx.db.begin(async (tx) => {
      let recorded: Stray[] = [];
      await lockAndSettle(ctx, tx, ids, async () => {
        recorded = await spares.record(tx, strays, scannedAt);
        // One statement each, sent without waiting for the one before; the database runs them in this order.
        await Promise.all([
          advance(tx),
          insertBlock(tx, coin, fetched.ref),
          tx`delete from blocks where coin = ${coin} and height < (select height from tips where coin = ${coin}) - ${BLOCKS_KEPT}`,
        ]);
        await writeSightings(tx, sightings, { coin, block: fetched.ref, seenAt: scannedAt, spenders });
        await writeConflicts(tx, lost, { coin, height: fetched.ref.height });
        // Confirmations grew: everything of this coin that waits for them is settled again.
        await queueProcessing(tx, { coin, except: ids });
      });
      return recorded;
    });
    spares.tell(found);
  };
  const applyBlock = async (cursor: Cursor, fetched: Fetched): Promise<Cursor> => {
    const { height, hash } = fetched.ref;
    await record(fetched, (tx) => moveCursor(tx, coin, cursor, { height, hash }));
    return { height, hash };
  };
  const readBack = createReadBack(ctx, source, record);

  /** ETH: which blocks can no longer be reorganised, as of the cursor's chain. */
  const lookAtFinality = async (cursor: Cursor): Promise<void> => {
    if (coin !== 'ETH' || cursor.hash === finalityOf) return;
    const { safe, finalized, tip } = await source.finality();
    // Only of a machine that is on the chain that was read: its finalized height must not vouch for another chain's block.
    if (tip !== cursor.hash) return;
    await ctx.db.begin(async (tx) => {
      const moved = await tx`
        update tips set safe_height = ${safe}::bigint, finalized_height = ${finalized}::bigint
        where coin = ${coin} and hash = ${cursor.hash}
          and (safe_height is distinct from ${safe}::bigint or finalized_height is distinct from ${finalized}::bigint)`;
      if (moved.count > 0) await queueProcessing(tx, { coin });
    });
    finalityOf = cursor.hash;
  };

  /** Looks at the mempool; true when it was complete, so that everything first seen before it is recorded. */
  const lookAtMempool = async (cursor: Cursor): Promise<boolean> => {
    const fetched = await source.fetchMempool();
    // Beside another tip than the recorded one it could show a transfer that a recorded block holds, under another id.
    if ((fetched.beside ?? (await source.tip()).hash) !== cursor.hash) return false;
    const seenAt = ctx.clock.now();
    await refresh();
    const waiting = await readWaiting(ctx.db.sql, coin);
    const { matcher, spenders } = matcherOf(waiting);
    const { conflicts, present, complete = true, ...scanned } = await fetched.scan(matcher);
    const { sightings, strays } = await sort(scanned.sightings);
    const lost = conflictsOf(conflicts, spenders).filter((c) => present.has(c.txid));
    const knownConflicts = new Set(waiting.filter((row) => row.contested).map((row) => `${row.paymentId} ${row.ref}`));
    const fresh = lost.filter((c) => !knownConflicts.has(`${c.paymentId} ${c.ref}`));
    const gone: Waiting[] = [];
    const back: Waiting[] = [];
    for (const row of waiting) {
      const key = `${row.paymentId} ${row.ref}`;
      if (present.has(row.txid)) {
        missing.delete(key);
        if (row.absent || row.contested) back.push(row);
        continue;
      }
      const polls = (missing.get(key) ?? 0) + 1;
      missing.set(key, polls);
      if (polls >= ABSENT_AFTER_POLLS && !row.absent) gone.push(row);
    }
    const ids = [...sightings.map((s) => s.owner.paymentId), ...[...fresh, ...gone, ...back].map((row) => row.paymentId)];
    if (ids.length > 0) {
      await ctx.db.begin((tx) =>
        lockAndSettle(ctx, tx, ids, async () => {
          await holdCursor(tx, coin, cursor);
          const seen = await writeSightings(tx, sightings, { coin, block: null, seenAt, spenders, present });
          await writeConflicts(tx, fresh, { coin, height: null });
          for (const [rows, absent] of [
            [gone.filter((row) => !seen.has(`${row.paymentId} ${row.ref}`)), true],
            [back, false],
          ] as const) {
            if (rows.length === 0) continue;
            await tx`
              update transfers t set absent_since = case when ${absent} then clock_timestamp() end,
                conflict_txid = case when ${absent} then t.conflict_txid end, conflict_seen_at = case when ${absent} then t.conflict_seen_at end
              from jsonb_to_recordset(${tx.json(rows.map((row) => ({ payment_id: row.paymentId, ref: row.ref })) as never)}) as r (payment_id text, ref text)
              where t.payment_id = r.payment_id and t.coin = ${coin} and t.ref = r.ref and t.block_height is null and t.conflict_height is null`;
          }
        }),
      );
    }
    if (strays.length > 0) spares.tell(await ctx.db.begin((tx) => spares.record(tx, strays, seenAt)));
    fetched.done();
    return complete;
  };

  /** DASH: asks the own node which of the transfers that are waited for it has locked since. */
  const lookAtLocks = async (): Promise<void> => {
    if (coin !== 'DASH') return;
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
      lockAndSettle(ctx, tx, ids, async () => {
        // A ChainLock is one of the block that was asked about, an InstantSend lock one of the transaction.
        await tx`
          update transfers t set lock = r.lock
          from jsonb_to_recordset(${tx.json(locks as never)}) as r (txid text, lock text, block_hash text)
          where t.coin = ${coin} and t.txid = r.txid and t.payment_id = any(${ids}::text[])
            and (r.lock = 'instantsend' or t.block_hash = r.block_hash)`;
      }),
    );
  };

  return {
    step: async (signal, { behind } = { behind: false }) => {
      if (!checked) await position.checkNetwork();
      checked = true;
      let cursor = await position.read();
      for (;;) {
        if (signal?.aborted) return false;
        const [before] = await ctx.db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
        const tip = await source.tip();
        if (tip.hash === cursor.hash) {
          await position.stands(cursor);
          await lookAtFinality(cursor);
          const health = await source.health();
          const complete = await lookAtMempool(cursor);
          await lookAtLocks();
          const lock = coin === 'DASH' ? await source.finality() : null;
          const chainlock = lock?.tip === cursor.hash ? lock.chainlock : null;
          // The tip may have moved meanwhile: then the look is not complete and the loop goes on. Beside a source that has
          // more blocks nothing is certain, and nothing expires.
          if (complete && !behind && !health.syncing && (await source.tip()).hash === cursor.hash) {
            await ctx.db.begin(async (tx) => {
              await tx`
                update tips set scanned_through = ${before!.now}, chainlock_height = greatest(chainlock_height, ${chainlock}::bigint),
                  updated_at = clock_timestamp() where coin = ${coin} and hash = ${cursor.hash}`;
              if (chainlock !== null && chainlock !== lockedThrough) await queueProcessing(tx, { coin });
            });
            lockedThrough = chainlock;
          }
          return readBack.some(signal);
        }
        const found = await position.find(cursor, tip);
        // It says nothing new, and takes nothing back: it is waited for.
        if ('behind' in found) return false;
        cursor = found.cursor;
        let fetched = await fetchAt(cursor.height + 1);
        // The source names a next block that does not follow the one it named before: it is between two chains, and is asked again later.
        if (fetched?.ref.parent !== cursor.hash) return false;
        // While catching up, the next blocks are fetched, one after the other, as this one is written. One that follows stands on
        // what was written; all else, a failure too, is left to the questions above.
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
          // Also when writing failed: nothing is left under way.
          await Promise.all(ahead);
        }
      }
    },
  };
}
