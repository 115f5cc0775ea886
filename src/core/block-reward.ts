/**
 * What the work of blocks is worth: a forger of blocks gives up at least their reward. From this follows how many blocks a payment needs so
 * that forging them costs more than the payment.
 */
import { type BitcoinFamily, type Coin, chainOf } from './coin.ts';
import { E8 } from './money.ts';

/** What a miner gets for a block without its fees: a first amount, how often it falls, and the part that is left each time. */
type Reward = { units: bigint; interval: bigint; left: readonly [bigint, bigint]; share: readonly [bigint, bigint] };
const HALF = [1n, 2n] as const;
const WHOLE = [1n, 1n] as const;
const REWARDS: Readonly<Record<BitcoinFamily, Reward>> = {
  BTC: { units: 50n * E8, interval: 210_000n, left: HALF, share: WHOLE },
  LTC: { units: 50n * E8, interval: 840_000n, left: HALF, share: WHOLE },
  // 10,000 DOGE for each block since block 600,000, for ever.
  DOGE: { units: 10_000n * E8, interval: 1n << 62n, left: HALF, share: WHOLE },
  // A fifth goes to the treasury, and three quarters of the rest to masternodes.
  DASH: { units: 5n * E8, interval: 210_240n, left: [13n, 14n], share: [1n, 5n] },
};

/**
 * The least part of a usual block's work that a confirmation in work costs a forger. The reference for it comes from outside the forged
 * blocks (`chains/bitcoin/chain-work.ts`), but someone who cuts Florin off from all honest peers for a day lowers it to this.
 */
export const LEAST_SHARE = [3n, 5n] as const;

/** Confirmations that are counted in work. A payment that needs more does not complete on the word of work. */
export const MOST_PROVEN = 240;
/** A chain that brought less than this part of a day's work in the last day completes nothing (`findWorkHolds`). */
const DAY_SHARE = 4;

/** Whether the blocks of a coin's chain are mined. */
export const isMined = (coin: Coin): coin is BitcoinFamily => coin in REWARDS;

/** What a miner gets for the block at a height, without fees. */
export function minerUnits(coin: BitcoinFamily, height: number): bigint {
  const { units, interval, left, share } = REWARDS[coin];
  const falls = BigInt(height) / interval;
  return (units * left[0] ** falls * share[0]) / (left[1] ** falls * share[1]);
}

/**
 * The most confirmations that can be asked for. After a long silence of honest blocks the reference is lower than `LEAST_SHARE`, but then
 * a branch must also bring a quarter of a day's work, which is as much as this many confirmations.
 */
export function mostConfirmations(coin: BitcoinFamily): number {
  const quarter = 86_400 / chainOf(coin).blockSeconds / DAY_SHARE;
  return Math.min(MOST_PROVEN, Math.floor((quarter * Number(LEAST_SHARE[1])) / Number(LEAST_SHARE[0])));
}

/** What forging one confirmation costs at least, in units of the coin. */
export const confirmationUnits = (coin: BitcoinFamily, height: number): bigint =>
  (minerUnits(coin, height) * LEAST_SHARE[0]) / LEAST_SHARE[1];

/**
 * How many confirmations in work cost a forger more than so many units of the coin; 0 on chains without mining. `height`: of the block with
 * the money.
 */
export const confirmationsWorth = (coin: Coin, { units, height }: { units: bigint; height: number }): number =>
  isMined(coin) ? Number(units / confirmationUnits(coin, height)) + 1 : 0;
