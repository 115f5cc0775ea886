/** Writes one block to the database: facts, block and cursor, in one transaction. */
import type { ChainSource, Sighting } from '../chains/chain.ts';
import { chainCode } from '../core/coin.ts';
import type { Tx } from '../db/db.ts';
import { queueProcessing } from '../payments/settle-payments.ts';
import { insertBlock } from './cursor.ts';
import type { Stray } from './look-ahead.ts';
import { inheritedSights, readReplaced, writeConflicts, writeSightings } from './sightings.ts';
import { writeBounded } from './small-parts.ts';
import { matcherOf, refreshWatching, sortSightings, type Watching } from './watching.ts';

/** Blocks below the cursor that are remembered: more than any reorganization takes back. */
const BLOCKS_KEPT = 2_000;
/** Blocks between two cleanups of outpoints. */
const PRUNE_EVERY = 16;

export type Fetched = Awaited<ReturnType<ChainSource['fetchBlock']>>;
/**
 * `advance` moves the cursor to the block, in the same transaction. `certainThrough`: the last certain poll of the mempool before it;
 * null when there was none. `check` receives what the block pays before it is written.
 */
export type How = { advance(tx: Tx): Promise<void>; certainThrough: Date | null; check?(sightings: readonly Sighting[]): Promise<void> };

export async function recordBlock(watching: Watching, fetched: Fetched, { advance, certainThrough, check }: How): Promise<void> {
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
        insertBlock(tx, coin, fetched.ref),
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
