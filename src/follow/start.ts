/**
 * The follower of a chain: reads it into the database, for as long as a process has the watcher role.
 *
 * It promises that each block is recorded once and none is left out, no matter which process reads it. One process at a time has the lock
 * of a chain, for a term that ends with the session of the database that holds it. Correctness does not depend on the lock: the cursor
 * moves by compare-and-set, in the transaction that writes the facts. A chain is waiting (for a wallet, or for its peers' headers), then
 * standing by (another process has the lock), then reading, one round after another.
 *
 * How a round reads differs: `follow.ts` reads every block, `follow-ranges.ts` asks which blocks have transfers, where there are too many.
 * What may go wrong is the same. A source fails: the round failed, `follow-state.ts` records why and at which block, and the next round
 * begins at the same place after a pause that grows. Another process was faster: its work is kept, and nothing failed. The lock is lost, or
 * the database failed over: a new term begins, which remembers nothing and reads the cursor again. A reorganization: `take-back.ts` goes
 * back to the fork. The process stops: the round ends, and the lock is given back.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ChainError, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN, chainCode, chainOf } from '#core/coin';
import { createLead, dueIf, startQueue, type Term } from '#db';
import { startLoop } from '#loop';
import { isDoneByAnother } from './cursor.ts';
import { openBlockReading } from './follow.ts';
import { createRangeReadings } from './follow-ranges.ts';
import type { Reading } from './follow-state.ts';
import { readableSources } from './range-reads.ts';

/** Locks of the followers: one process at a time reads a chain. */
const FOLLOW_LOCK = 7_233_200;
/** After a failure a source of whole blocks is retried at least this often, because a payer is waiting; a provider is paid by request. */
const MAX_PAUSE_MS = 5_000;
/** The minimum time between two rounds, regardless of the number of hints. */
const HINT_PAUSE_MS = 250;
/** A regtest node mines on demand, so it is polled often. */
const REGTEST_POLL_MS = 400;

/** How soon the end of the first sync is noticed. */
const LOOK_MS = 1_000;

type Stoppable = { stop(): Promise<void> };

async function hasWallet(ctx: Context, { coin }: JoinedSource): Promise<boolean> {
  const rows = await ctx.db.sql`select 1 from wallets where family = ${COIN[coin].family} limit 1`;
  return rows.length > 0;
}

/** Reads in rounds; `stop` waits for the current one. Failures are logged and retried with growing pauses. */
function startFollower(ctx: Context, chain: JoinedSource): Stoppable {
  const pollMs = chain.network === 'regtest' ? REGTEST_POLL_MS : chainOf(chain.coin).pollSeconds * 1000;
  const isByRanges = readableSources(chain).length > 0;
  const open = isByRanges ? createRangeReadings(ctx, chain, { pollMs }) : () => openBlockReading(ctx, chain);
  const lead = createLead(ctx.db, { lock: FOLLOW_LOCK, name: chainCode(chain.coin) });
  // Nothing is remembered from an earlier term: another process may have followed meanwhile, and a database that failed over may have
  // forgotten what was read, and counts transactions from further back.
  let leading: { term: Term; read: Reading } | null = null;
  let hinted = false;
  const loop = startLoop({
    pollMs,
    ...(isByRanges ? {} : { longestPauseMs: MAX_PAUSE_MS }),
    round: async (stopping) => {
      if (hinted) {
        hinted = false;
        await sleep(Math.min(HINT_PAUSE_MS, pollMs), undefined, { signal: stopping }).catch(() => {});
        if (stopping.aborted) return false;
      }
      const term = await lead.take();
      if (!term) return false;
      if (leading?.term !== term) leading = { term, read: open() };
      try {
        return await leading.read(stopping);
      } catch (error) {
        if (!isDoneByAnother(error)) throw error;
        return false;
      }
    },
    failed: (error, failures) => {
      const log = error instanceof ChainError && error.kind === 'outage' && failures < 20 ? ctx.log.warn : ctx.log.error;
      log.call(ctx.log, { err: error, coin: chain.coin, failures }, 'Following the chain failed; retrying from the same place');
    },
  });
  const endHints = chain.onHint(() => {
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

/** Connects the sources of a chain that need it, and follows the chain as soon as one of its sources can be read. */
export function startFollowing(ctx: Context, chain: JoinedSource): Stoppable {
  const followers = chain.sources.filter(({ follows }) => follows);
  const connections = followers.flatMap(({ connection }) => connection ?? []);
  let connected = connections.length === 0;
  let watched = chain.watch === null;
  let follower: Stoppable | null = null;
  const loop = startQueue(ctx, {
    name: 'wallets',
    due: (sql) =>
      connected && watched
        ? sql`null::timestamptz`
        : dueIf(sql, sql`exists (select 1 from wallets where family = ${COIN[chain.coin].family})`),
    againMs: LOOK_MS,
    round: async () => {
      if (!connected && (!chain.onDemand || (await hasWallet(ctx, chain)))) {
        for (const connection of connections) await connection.start();
        connected = true;
      }
      if (!watched && (await hasWallet(ctx, chain))) {
        await chain.watch?.start();
        watched = true;
      }
      // A new follower starts at the newest block, which peers know only after their headers were read.
      if (!follower && followers.some(({ connection }) => !connection || connection.isReady())) follower = startFollower(ctx, chain);
      return connected && !follower && LOOK_MS;
    },
    failed: (error, failures) => ctx.log.error({ err: error, coin: chain.coin, failures }, 'Could not start following this chain'),
  });
  const endHints = chain.onHint(loop.nudge);
  return {
    stop: async () => {
      endHints();
      await loop.stop();
      await follower?.stop();
      for (const { stop } of connections) await stop();
      await chain.watch?.stop();
    },
  };
}
