/** What the contract of a token says about itself: whether it is there, its decimals, whether it is paused, and which code it runs. */
import { type Coin, contractOf, type Network } from '../../core/coin.ts';
import type { ContractState } from '../chain.ts';
import { type EthReply, type EthRpc, failure } from './eth-rpc.ts';
import { tokensBeside } from './token-logs.ts';

/** `decimals()` and `paused()`. */
const DECIMALS = '0x313ce567';
const PAUSED = '0x5c975abb';
/** Where proxies store the contract that they run: EIP-1967, and the older form of USDC. */
const SLOTS = [
  '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc',
  '0x7050c9e0f4ca769c69bd3a8ef740bc37934f8e2c036e5a723fd8ee048ed3f8c3',
] as const;

/** A word that a call returned; null when the contract has no such function. */
const wordOf = ({ result, error }: EthReply): bigint | null =>
  !error && typeof result === 'string' && /^0x[0-9a-f]{64}$/i.test(result) ? BigInt(result) : null;
/** Errors: ChainError, because a source that does not answer says nothing about the contract. */
const answered = (reply: EthReply | undefined, method: string): EthReply => {
  if (!reply) throw failure({ code: 0, message: 'no answer' }, method);
  // A call that reverts is an answer: the function does not exist.
  if (reply.error && !/revert|invalid opcode|execution|out of gas|bad instruction/i.test(reply.error.message))
    throw failure(reply.error, method);
  return reply;
};

/** The tokens on the chain of a coin, each as its contract is now. Errors: ChainError. */
export async function readContracts(
  { batch }: Pick<EthRpc, 'batch'>,
  { coin, network }: { coin: Coin; network: Network },
): Promise<ContractState[]> {
  const coins = [...tokensBeside(coin, network).values()];
  const replies = await batch(
    coins.flatMap((one) => {
      const to = contractOf(one, network);
      return [
        ['eth_getCode', to, 'latest'],
        ['eth_call', { to, data: DECIMALS }, 'latest'],
        ['eth_call', { to, data: PAUSED }, 'latest'],
        ...SLOTS.map((slot) => ['eth_getStorageAt', to, slot, 'latest'] as const),
      ] as const;
    }),
  );
  const each = 3 + SLOTS.length;
  return coins.map((one, i) => {
    const [code, decimals, paused, ...slots] = replies.slice(i * each, (i + 1) * each);
    const bytes = answered(code, 'eth_getCode').result;
    if (typeof bytes !== 'string') throw failure({ code: 0, message: 'no answer' }, 'eth_getCode');
    const digits = wordOf(answered(decimals, 'eth_call'));
    return {
      coin: one,
      exists: bytes.length > 2,
      decimals: digits === null || digits > 255n ? null : Number(digits),
      paused: wordOf(answered(paused, 'eth_call')) === 1n,
      code: slots.map((slot) => (wordOf(answered(slot, 'eth_getStorageAt')) ?? 0n).toString(16)).join(),
    };
  });
}
