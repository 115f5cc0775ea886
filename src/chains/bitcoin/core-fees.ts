/** Fees that a node of the Bitcoin Core family estimates, in three speeds. */
import { type BitcoinFamily, COIN } from '../../core/coin.ts';
import { divideCeil } from '../../core/money.ts';
import type { FeeTier } from '../chain.ts';
import { fields } from '../reply.ts';
import { amount, type CoreCall, type CoreCalls, text } from './core-calls.ts';
import { PARAMS } from './params.ts';

/** Blocks within which a transaction should be mined, slowest first. */
const SPEEDS = [
  { speed: 'slow', blocks: 24 },
  { speed: 'normal', blocks: 6 },
  { speed: 'fast', blocks: 2 },
] as const;

const largest = (...values: readonly bigint[]): bigint => values.reduce((a, b) => (b > a ? b : a));

export async function readCoreFees({ coin, calls: { post } }: { coin: BitcoinFamily; calls: Pick<CoreCalls, 'post'> }): Promise<FeeTier[]> {
  const [pool, ...estimates] = await post([['getmempoolinfo'], ...SPEEDS.map(({ blocks }): CoreCall => ['estimatesmartfee', blocks])]);
  const { mempoolminfee, minrelaytxfee } = fields(pool?.result);
  const known = [mempoolminfee, minrelaytxfee].map((value) => (value === undefined ? 0n : amount(value)));
  let above = largest(PARAMS[coin].floorPerKilobyte, ...known);
  // From slow to fast, so fast is never below normal, nor normal below slow.
  return SPEEDS.map(({ speed }, i): FeeTier => {
    const given = fields(estimates[i]?.result).feerate;
    const perKilobyte = given === undefined || text(given).startsWith('-') ? 0n : amount(given);
    above = largest(above, perKilobyte);
    return { ...feeTier(coin, above), speed, minutes: PARAMS[coin].minutes[speed], source: perKilobyte > 0n ? 'estimate' : 'fallback' };
  }).toReversed();
}

/** The rate and the fee of a typical payment, for a fee in base units per 1,000 virtual bytes. */
export const feeTier = (coin: BitcoinFamily, perKilobyte: bigint): Pick<FeeTier, 'rateE8' | 'units'> => ({
  rateE8: perKilobyte * 100_000n,
  units: divideCeil(perKilobyte * BigInt(COIN[coin].typicalSize), 1_000n),
});
