/**
 * Whether a look at a chain is certain: only then may payments expire on account of what was not seen. Pure: what was observed is handed
 * in. And when a transfer that was first read in a block counts as seen.
 */
import { addMs, earliest, latest, MINUTE_MS } from './clock.ts';
import { COIN, type Coin } from './coin.ts';

export const DOUBTS = ['older', 'syncing', 'alone', 'settling', 'lagging', 'stalled'] as const;
export type Doubt = { code: (typeof DOUBTS)[number]; reason: string };

/** A node has this long with peers before it counts as connected: headers that it missed come first. */
export const SETTLE_MS = MINUTE_MS;
/** The tip is older than the chain's norm allows from this many usual intervals on, as for the guard. */
const OLD_TIP_BLOCKS = 6;

export type Look = {
  coin: Coin;
  /** Nodes of networks without real money have no peers and make blocks when told to. */
  binding: boolean;
  syncing: boolean;
  /** Null: the source does not say. */
  peers: number | null;
  /** How long the source has answered with peers, without a break. */
  connectedMs: number;
  tipTime: Date;
  now: Date;
  /** Another source has blocks that this one lacks. */
  behindOthers: boolean;
};

/** Why what this source does not show may have happened all the same; null when it is certain. */
export function doubtOf({ coin, binding, syncing, peers, connectedMs, tipTime, now, behindOthers }: Look): Doubt | null {
  if (syncing) return { code: 'syncing', reason: 'the source is still syncing' };
  if (behindOthers) return { code: 'lagging', reason: 'another source has blocks that this one lacks' };
  if (!binding) return null;
  if (peers === 0) return { code: 'alone', reason: 'the node has no peers' };
  if (peers !== null && connectedMs < SETTLE_MS) return { code: 'settling', reason: 'the node has been connected for less than a minute' };
  const ageMs = now.getTime() - tipTime.getTime();
  if (ageMs > OLD_TIP_BLOCKS * COIN[coin].blockSeconds * 1000)
    return { code: 'stalled', reason: `the last block is ${Math.round(ageMs / MINUTE_MS)} minutes old` };
  return null;
}

/** Clocks of miners are believed this much against a look that was certain: two usual intervals, and two minutes at least. */
const beliefMs = (coin: Coin): number => Math.max(2 * MINUTE_MS, 2 * COIN[coin].blockSeconds * 1000);

/**
 * When a transfer that was first read in a block counts as seen: at the time of its block, so that a payment whose block is inside the
 * window is in time however late it is read. But a miner's clock alone moves it only so far: not before the address was given, not
 * after it was read, and not further than two intervals before the last certain look, which did not show it.
 */
export function firstSightInBlock({
  coin,
  blockTime,
  seenAt,
  givenAt,
  certainThrough,
}: {
  coin: Coin;
  blockTime: Date;
  seenAt: Date;
  givenAt: Date;
  /** The last certain look before the block was read; null when there was none. */
  certainThrough: Date | null;
}): Date {
  const earliestBelieved = certainThrough === null ? givenAt : latest(givenAt, addMs(certainThrough, -beliefMs(coin)));
  return earliest(seenAt, latest(blockTime, earliestBelieved));
}
