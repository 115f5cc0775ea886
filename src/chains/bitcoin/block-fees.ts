/**
 * Fees where no node estimates them: what peers take, and what the newest blocks were paid. A block does not say the fee of each
 * transaction, but its first one pays out all fees together, and only miners could claim others: at the price of a block.
 */

import { PARAMS } from '#addresses';
import type { BitcoinFamily } from '#core/coin';
import { minerUnits } from '#core/confirmation';
import { divideCeil } from '#core/money';
import type { FeeTier } from '../chain-source.ts';
import { feeTier } from './core-calls.ts';
import { outputsOfTransaction, type RawBlock } from './raw-block.ts';
import { strippedSize } from './strict-reader.ts';

/** Blocks that are looked at, and how many of them must be known: with fewer, one miner alone could decide. */
export const FEE_BLOCKS = 6;
const LEAST_BLOCKS = 5;
/** The part of a block's limit from which it counts as full. Some miners, of DOGE by default, stop at three quarters. */
const FULL = { share: 7, of: 10 } as const;
/** No network in normal use asks for this many times its lowest fee, whatever peers say. */
const MOST_TIMES = 500n;
const SPEEDS = ['fast', 'normal', 'slow'] as const;

/** The average fee per 1,000 virtual bytes of a full block; 0 for one that had room, which the lowest fee got into. */
export function feeOfBlock(
  { transactions }: Pick<RawBlock, 'transactions'>,
  { family, height }: { family: BitcoinFamily; height: number },
): bigint {
  // Others than miners are paid by the blocks of DASH, and it is not known how much. None was ever full.
  if (family === 'DASH') return 0n;
  let weight = 0;
  let paidOut = 0n;
  for (const tx of transactions) {
    if (tx.coinbase) for (const { units } of outputsOfTransaction(tx)) paidOut += units;
    else weight += 3 * strippedSize(tx.extent) + tx.extent.to - tx.extent.from;
  }
  const fees = paidOut - minerUnits(family, height);
  if (fees <= 0n || weight * FULL.of < 4 * PARAMS[family].maxBlockBytes * FULL.share) return 0n;
  return divideCeil(fees * 4_000n, BigInt(weight));
}

/**
 * The fees per 1,000 virtual bytes for each speed: what a quarter, half and three quarters of the newest blocks were paid or less, so that
 * the block of one miner decides nothing. 0 while too few blocks are known.
 */
export function feesOfBlocks(paid: readonly bigint[]): Readonly<Record<FeeTier['speed'], bigint>> {
  const sorted = paid.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const at = (quarters: number): bigint => (sorted.length < LEAST_BLOCKS ? 0n : sorted[(sorted.length * quarters) >> 2]!);
  return { slow: at(1), normal: at(2), fast: at(3) };
}

const feeWithin = (lowest: bigint, told: bigint): bigint =>
  told < lowest ? lowest : told > lowest * MOST_TIMES ? lowest * MOST_TIMES : told;

/** What the newest blocks were `paid` where they are full, and never less than what peers take (`told`), or than the lowest ever suggested. */
export function feesOf(family: BitcoinFamily, { told = 0n, paid = [] }: { told?: bigint; paid?: readonly bigint[] } = {}): FeeTier[] {
  const fees = feesOfBlocks(paid);
  return SPEEDS.map((speed) => ({
    ...feeTier(family, feeWithin(PARAMS[family].floorPerKilobyte, told > fees[speed] ? told : fees[speed])),
    speed,
    minutes: PARAMS[family].minutes[speed],
    source: 'fallback',
  }));
}
