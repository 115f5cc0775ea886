/** Fees of Ethereum-like chains, from the base fee and the tips that recent blocks paid. */
import { COIN } from '../../core/coin.ts';
import type { FeeTier } from '../chain.ts';
import { fields } from '../reply.ts';
import { type EthRpc, quantity, rows, toHex } from './eth-rpc.ts';

/** Blocks and shares of the tips paid in them, from which fees are estimated: slow, normal, fast. */
const FEE_BLOCKS = 20;
const FEE_PERCENTILES = [20, 50, 90];
const SPEEDS = ['slow', 'normal', 'fast'] as const;
/** Usual waiting times, in minutes. */
export const MINUTES: Readonly<Record<FeeTier['speed'], string>> = { fast: '0-1', normal: '1-2', slow: '2-5' };

/** The rate in gwei with eight decimals and the fee of a typical payment, for a price in wei per gas. */
export const tierAtGasPrice = (wei: bigint): Pick<FeeTier, 'rateE8' | 'units'> => ({
  rateE8: wei / 10n,
  units: wei * BigInt(COIN.ETH.typicalSize),
});

const middleOf = (values: readonly bigint[]): bigint =>
  values.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))[Math.floor(values.length / 2)] ?? 0n;

/** The fees that follow from a reply to `eth_feeHistory`, fast to slow. */
export function feesOfHistory(reply: unknown): FeeTier[] {
  const history = fields(reply);
  const base = quantity(rows(history.baseFeePerGas).at(-1));
  const rewards = Array.isArray(history.reward) ? history.reward.map((row) => rows(row).map(quantity)) : [];
  let above = 0n;
  // From slow to fast, so fast is never below normal, nor normal below slow. A full block raises the base fee by an eighth.
  return SPEEDS.map((speed, i): FeeTier => {
    const tips = rewards.map((row) => row[i] ?? 0n);
    const wei = (base * BigInt(8 + i)) / 8n + middleOf(tips);
    above = wei > above ? wei : above;
    return { speed, ...tierAtGasPrice(above), minutes: MINUTES[speed], source: tips.length > 0 ? 'estimate' : 'fallback' };
  }).toReversed();
}

export const readFees = async ({ call }: Pick<EthRpc, 'call'>): Promise<FeeTier[]> =>
  feesOfHistory(await call('eth_feeHistory', toHex(FEE_BLOCKS), 'latest', FEE_PERCENTILES));
