/** Fees of Ethereum-like chains: from the base fee and the tips that recent blocks paid, and what L2s charge for storing bytes on Ethereum. */
import { bytesToHex } from '@noble/hashes/utils.js';
import { COIN, type Coin, chainOf, type DataFee, type Network } from '#core/coin';
import { MULTICALL3, selector, transferData, unsignedBytes, word } from '#evm';
import { ChainError, type FeeTier, type GasFee } from '../chain-source.ts';
import { fields } from '../reply.ts';
import { arrayOf, type EthRpc, quantity, toHex } from './eth-rpc.ts';

/** Blocks and shares of the tips paid in them, from which fees are estimated: slow, normal, fast. */
const FEE_BLOCKS = 20;
const FEE_PERCENTILES = [20, 50, 90];
const SPEEDS = ['slow', 'normal', 'fast'] as const;
/** Usual waiting times, in minutes. */
const MINUTES: Readonly<Record<FeeTier['speed'], string>> = { fast: '0-1', normal: '1-2', slow: '2-5' };

/** The rate in gwei with eight decimals and the fee of a typical payment, for a price in wei per gas. */
const tierAtGasPrice = (wei: bigint): Pick<FeeTier, 'rateE8' | 'units'> => ({
  rateE8: wei / 10n,
  units: wei * BigInt(COIN.ETH.typicalSize),
});

const middleOf = (values: readonly bigint[]): bigint =>
  values.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))[Math.floor(values.length / 2)] ?? 0n;

/** The prices of gas that follow from a reply to `eth_feeHistory`, slow to fast. */
function gasPricesOf(reply: unknown): { prices: bigint[]; source: FeeTier['source'] } {
  const history = fields(reply);
  const base = quantity(arrayOf(history.baseFeePerGas).at(-1));
  const rewards = Array.isArray(history.reward) ? history.reward.map((row) => arrayOf(row).map(quantity)) : [];
  let above = 0n;
  // Fast is never below normal, nor normal below slow. A full block raises the base fee by an eighth.
  const prices = SPEEDS.map((_, i) => {
    const wei = (base * BigInt(8 + i)) / 8n + middleOf(rewards.map((row) => row[i] ?? 0n));
    above = wei > above ? wei : above;
    return above;
  });
  return { prices, source: rewards.length > 0 ? 'estimate' : 'fallback' };
}

/** The fees that follow from a reply to `eth_feeHistory`, fast to slow. */
export function feesOfHistory(reply: unknown): FeeTier[] {
  const { prices, source } = gasPricesOf(reply);
  return SPEEDS.map((speed, i): FeeTier => ({ speed, ...tierAtGasPrice(prices[i]!), minutes: MINUTES[speed], source })).toReversed();
}

const readHistory = ({ call }: Pick<EthRpc, 'call'>): Promise<unknown> =>
  call('eth_feeHistory', toHex(FEE_BLOCKS), 'latest', FEE_PERCENTILES);
export const readFees = async (rpc: Pick<EthRpc, 'call'>): Promise<FeeTier[]> => feesOfHistory(await readHistory(rpc));

/** Where every chain of the OP stack and Arbitrum have these contracts. */
export const GAS_PRICE_ORACLE = '0x420000000000000000000000000000000000000F';
export const NODE_INTERFACE = '0x00000000000000000000000000000000000000C8';
/** The bytes of this account are as good as random, as those of customers: how well a transaction compresses decides what it costs. */
const RECIPIENT = 'b1f05ad9ea5d1c5b74a9c0c8d6f4f2e3bc7c2a91';
/** 1,234.56 of a token with six decimals. */
const UNITS = 1_234_560_000n;

/** The words of `(bytes)` at the end of a call. */
const bytesWords = (hex: string): string => word(BigInt(hex.length / 2)) + hex.padEnd(Math.ceil(hex.length / 64) * 64, '0');

/** The question how much gas Arbitrum takes for posting the data of a call on Ethereum. `to`: 40 hex digits; `data`: hex without 0x. */
export const postingCall = (to: string, data: string): { to: string; data: string } => ({
  to: NODE_INTERFACE,
  data: `0x${selector('gasEstimateL1Component(address,bool,bytes)')}${word(to)}${word(0n)}${word(96n)}${bytesWords(data)}`,
});

/** The question for what a typical transfer of a token is charged for its bytes. */
function dataFeeCall(kind: DataFee, { chainId, gasPrice }: { chainId: number; gasPrice: bigint }): { to: string; data: string } {
  const to = MULTICALL3.slice(2).toLowerCase();
  const data = transferData(RECIPIENT, UNITS);
  if (kind === 'node_interface') return postingCall(to, data);
  const raw = unsignedBytes({ chainId, nonce: 1_000, tip: gasPrice / 10n, max: gasPrice, gas: 65_000n, to, units: 0n, data });
  return { to: GAS_PRICE_ORACLE, data: `0x${selector('getL1Fee(bytes)')}${word(32n)}${bytesWords(bytesToHex(raw))}` };
}

/** What a transfer of a token costs now, at the normal speed. Errors: ChainError. */
export async function readGasFee(
  rpc: Pick<EthRpc, 'call'>,
  { coin, network }: { /** Names the chain. */ coin: Coin; network: Network },
): Promise<GasFee> {
  const { dataFee: kind, chainIds } = chainOf(coin);
  const gasPrice = gasPricesOf(await readHistory(rpc)).prices[SPEEDS.indexOf('normal')]!;
  if (!kind) return { gasPrice, dataFee: 0n };
  const answer = await rpc.call('eth_call', dataFeeCall(kind, { chainId: chainIds![network], gasPrice }), 'latest');
  if (typeof answer !== 'string' || !/^0x([0-9a-f]{64})+$/i.test(answer))
    throw new ChainError('unsupported', 'the node does not tell what it charges for the bytes of a transaction');
  const [first = 0n, baseFee = 0n] = answer
    .slice(2)
    .match(/.{64}/g)!
    .map((one) => BigInt(`0x${one}`));
  // Arbitrum answers in gas, with the price of it.
  return { gasPrice, dataFee: kind === 'node_interface' ? first * baseFee : first };
}
