/**
 * Where transactions are that lost their block, on a chain that is read by ranges. Logs show only what pays us, so the sources are asked: a
 * transaction may wait for another block, or be in one that does not pay us, or be gone.
 */
import { ChainError } from '../chains/chain.ts';
import { DAY_MS } from '../core/clock.ts';
import { goneAfterMs } from '../core/transfer.ts';
import { type Voting, withinTime } from './range-votes.ts';
import { readWaiting, type WaitingTransaction } from './sightings.ts';
import type { Watching } from './watching.ts';

/** Transactions that are asked about in one round, the newest first. */
const AT_ONCE = 20;

/** Whether it may still come: nobody waits for one that is gone, and no source makes it wait for more than a day. */
const mayCome = ({ absentSince, unminedSince, contested }: WaitingTransaction, { now, goneMs }: { now: number; goneMs: number }): boolean =>
  !contested && now - (absentSince?.getTime() ?? now) < 2 * goneMs && now - (unminedSince?.getTime() ?? 0) < DAY_MS;

export type LostPlaces = {
  /** Blocks that contain some of them, as a source says. */
  mined: { height: number; hash: string }[];
  /** Those that wait for a block, as a source says. */
  present: ReadonlySet<string>;
};
/** Asks the voting sources about transactions in no block. One that cannot say knows nothing of them. */
export async function placeLost({ ctx, coin }: Watching, voting: readonly Voting[]): Promise<LostPlaces> {
  const at = { now: ctx.clock.now().getTime(), goneMs: goneAfterMs(coin) };
  const lost = (await readWaiting(ctx.db.sql, coin)).filter((row) => mayCome(row, at));
  const newest = lost.sort((a, b) => Number(b.unminedSince) - Number(a.unminedSince)).slice(0, AT_ONCE);
  const mined: LostPlaces['mined'] = [];
  const present = new Set<string>();
  for (const { txid } of newest) {
    const places = await Promise.all(
      voting.map(({ one }) =>
        withinTime(one.source.ranges.placeOf(txid), one.name).catch((error: unknown) => {
          if (error instanceof ChainError) return null;
          throw error;
        }),
      ),
    );
    if (places.includes('waiting')) present.add(txid);
    for (const place of places) if (place !== null && place !== 'waiting') mined.push(place);
  }
  return { mined, present };
}
