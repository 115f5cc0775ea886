/** Writes one block to the database: facts, block and cursor, in one transaction. */
import type { ChainSource, Sighting } from '#chains';
import type { Context } from '#context';
import { chainCode } from '#core/coin';
import { InvariantError } from '#core/invariant';
import type { Tx } from '#db';
import { lockAndSettleLater, lockAndSettleMany, queueProcessing } from '#settling';
import { insertBlock } from './cursor.ts';
import type { Stray } from './look-ahead.ts';
import { inheritedSights, ROWS_AT_ONCE, readReplaced, writeConflicts, writeSightings } from './sightings.ts';
import { type ChainWatch, matcherOf, refreshWatching, sortSightings } from './watching.ts';

/** Blocks below the cursor that are remembered: more than any reorganization takes back. */
const BLOCKS_KEPT = 2_000;
/** Blocks between two cleanups of outpoints. */
const PRUNE_EVERY = 16;

export type FetchedBlock = Awaited<ReturnType<ChainSource['fetchBlock']>>;
/**
 * `advance` moves the cursor to the block, in the same transaction. `certainThrough`: the last certain poll of the mempool before it;
 * null when there was none. `check` receives what the block pays before it is written.
 */
type How = { advance(tx: Tx): Promise<void>; certainThrough: Date | null; check?(sightings: readonly Sighting[]): Promise<void> };

export async function recordBlock(watching: ChainWatch, fetched: FetchedBlock, { advance, certainThrough, check }: How): Promise<void> {
  const { ctx, coin, spares, spent } = watching;
  const scannedAt = ctx.clock.now();
  await refreshWatching(watching);
  const scanned = await fetched.scan(matcherOf(watching, []));
  fetched.done?.();
  const { sightings, strays } = await sortSightings(watching, scanned.sightings);
  await check?.(sightings);
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
        insertBlock(tx, coin, fetched.ref, fetched.paid),
        tx`delete from blocks where chain = ${chainCode(coin)} and height < (select height from tips where chain = ${chainCode(coin)}) - ${BLOCKS_KEPT}`,
      ]);
      await writeSightings(tx, sightings, {
        coin,
        block: { ...fetched.ref, verifiedBy: fetched.verifiedBy ?? null },
        seenAt: scannedAt,
        inherited,
        atOnce,
        certainThrough,
      });
      await spent.write(tx, sightings);
      await writeConflicts(tx, losers, { coin, paymentIds: ids, height });
      // Confirmations grew, so everything of this coin that waits for them is settled again.
      await queueProcessing(tx, { coin, except: ids });
    });
    return recorded;
  });
  spares.tell(found);
  if (height % PRUNE_EVERY === 0) await spent.prune();
}

// Writes what a chain shows in one step, or in small parts if the database cannot take that: a follower always makes progress.

/** `atOnce`: rows in one statement. `lockAndSettle`: the entry point for changing payments. */
type PartsWay = {
  atOnce: number;
  lockAndSettle(tx: Tx, paymentIds: readonly string[], write: (tx: Tx) => Promise<void>): Promise<void>;
};
/** Few enough for any server, with nothing else in the same transaction. */
const ROWS_IN_A_SMALL_PART = 50;

/** Whether a statement asked for more than the server or this process can provide: memory, size or time. */
export function isTooMuch(error: unknown): boolean {
  if (error instanceof RangeError) return true;
  const code = (error as { code?: unknown } | null)?.code;
  // Insufficient resources, program limits, statement timeout, memory requests above the server's maximum.
  return typeof code === 'string' && (/^5[34]/.test(code) || ['57014', 'XX000', 'MAX_PARAMETERS_EXCEEDED'].includes(code));
}

/**
 * Runs `write` in a transaction, then in small parts if it was too large, or if a payment in it cannot be settled: the worker then
 * settles each payment alone, and one that fails stops neither the chain nor the others. `about`: for the log.
 */
export async function writeBounded<T>(ctx: Context, about: object, write: (tx: Tx, way: PartsWay) => Promise<T>): Promise<T> {
  try {
    return await ctx.db.begin((tx) =>
      write(tx, { atOnce: ROWS_AT_ONCE, lockAndSettle: (_, ids, facts) => lockAndSettleMany(ctx, tx, ids, facts) }),
    );
  } catch (error) {
    if (!isTooMuch(error) && !(error instanceof InvariantError)) throw error;
    ctx.log.error({ err: error, ...about }, 'Could not write chain data in one step; writing it in small parts');
  }
  return ctx.db.begin((tx) => write(tx, { atOnce: ROWS_IN_A_SMALL_PART, lockAndSettle: lockAndSettleLater }));
}
