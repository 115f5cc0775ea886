/** Polls the mempool: new transfers, replacements, and transfers that are missing or back. */
import type { ChainHealth, ChainSource } from '../chains/chain.ts';
import { type Cursor, holdCursor } from './cursor.ts';
import {
  inheritedSights,
  readReplaced,
  readWaiting,
  type WaitingTransaction,
  writeConflicts,
  writePresence,
  writeSightings,
} from './sightings.ts';
import { writeBounded } from './small-parts.ts';
import type { Loser } from './spent-outpoints.ts';
import { matcherOf, refreshWatching, sortSightings, type Watching } from './watching.ts';

/** Polls of the mempool before a missing transfer is recorded as absent. */
const ABSENT_AFTER_POLLS = 2;

/**
 * `complete`: everything first seen before it is recorded, or before `provenThrough` if that is given; `incomplete`: why it is not, when that
 * is expected. `beside`: the tip reported with it.
 */
export type MempoolLook = { complete: boolean; incomplete: string | null; provenThrough: Date | null; beside: string | null };

/** In how many polls in a row each of our transactions was missing. */
export type Absences = ReadonlyMap<string, number>;
export type MempoolPoll = {
  readonly source: Pick<ChainSource, 'fetchMempool' | 'tip'>;
  readonly watching: Watching;
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
export async function pollMempool(poll: MempoolPoll, cursor: Cursor, health: ChainHealth | null): Promise<MempoolLook> {
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
