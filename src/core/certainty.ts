/**
 * Decides whether a poll of a chain is certain. Payments may expire only after a certain poll that did not show their money. Also decides
 * when a transfer that was first read in a block counts as seen. Pure: the caller passes what was observed.
 */
import { type Coin, chainOf } from './coin.ts';
import { addMs, earliest, latest, MINUTE_MS } from './dates.ts';

export const DOUBTS = ['older', 'syncing', 'alone', 'settling', 'lagging', 'stalled'] as const;
export type Doubt = { code: (typeof DOUBTS)[number]; reason: string };

/** A node must have had peers for this long to count as connected, because it first fetches the headers that it missed. */
const SETTLE_MS = MINUTE_MS;
/** The tip counts as stalled after this many usual intervals, as in the guard. */
const OLD_TIP_BLOCKS = 6;

export type ChainLook = {
  coin: Coin;
  /** Test networks: nodes have no peers and mine on demand. */
  binding: boolean;
  syncing: boolean;
  /** Null: the source does not say. */
  peers: number | null;
  /** How long the source has answered with peers without interruption. */
  connectedMs: number;
  tipTime: Date;
  now: Date;
  /** Whether another source has blocks that this one lacks. */
  behindOthers: boolean;
};

/** Why something may have happened that this source does not show; null when the poll is certain. */
export function doubtOf({ coin, binding, syncing, peers, connectedMs, tipTime, now, behindOthers }: ChainLook): Doubt | null {
  if (syncing) return { code: 'syncing', reason: 'the source is still syncing' };
  if (behindOthers) return { code: 'lagging', reason: 'another source has blocks that this one lacks' };
  if (!binding) return null;
  if (peers === 0) return { code: 'alone', reason: 'the node has no peers' };
  if (peers !== null && connectedMs < SETTLE_MS) return { code: 'settling', reason: 'the node has been connected for less than a minute' };
  const ageMs = now.getTime() - tipTime.getTime();
  if (ageMs > Math.max(MINUTE_MS, OLD_TIP_BLOCKS * chainOf(coin).blockSeconds * 1000))
    return { code: 'stalled', reason: `the last block is ${Math.round(ageMs / MINUTE_MS)} minutes old` };
  return null;
}

/** How far a miner's clock is trusted against a certain poll: two usual intervals, at least two minutes. */
const beliefMs = (coin: Coin): number => Math.max(2 * MINUTE_MS, 2 * chainOf(coin).blockSeconds * 1000);

/** A transfer that was first read in a block: when that was mined and read, and when the address was assigned. */
type MinedSight = {
  coin: Coin;
  blockTime: Date;
  seenAt: Date;
  givenAt: Date;
  /** The last certain poll before the block was read; null when there was none. */
  certainThrough: Date | null;
};

/**
 * When a transfer that was first read in a block counts as seen: at the time of its block, so a payment whose block is inside the
 * window is on time however late it is read. Miners set block times, so the result is limited: not before the address was assigned, not
 * after the block was read, and not more than two intervals before the last certain poll, which did not show the transfer.
 */
export function firstSightInBlock({ coin, blockTime, seenAt, givenAt, certainThrough }: MinedSight): Date {
  const earliestBelieved = certainThrough === null ? givenAt : latest(givenAt, addMs(certainThrough, -beliefMs(coin)));
  return earliest(seenAt, latest(blockTime, earliestBelieved));
}
