/** Whether authorizations of token transfers (EIP-3009) were executed by any transaction: anybody may send one that was published. */
import { type Chain, ChainError } from '../chains/chain.ts';
import { selector, word } from '../chains/ethereum/token-calls.ts';

type Published = { from: string; nonce: string };

/** Those that the contract marked as used. Errors: ChainError. */
export async function usedAmong<T extends Published>(chain: Chain, contract: string, published: readonly T[]): Promise<Set<T>> {
  if (published.length === 0) return new Set();
  const replies = await chain.ask(
    published.map(({ from, nonce }) => {
      const data = `0x${selector('authorizationState(address,bytes32)')}${word(from)}${word(nonce)}`;
      return ['eth_call', { to: contract, data }, 'latest'] as const;
    }),
  );
  const isUsed = (_: T, i: number): boolean => {
    const { result, error } = replies[i] ?? { result: null, error: null };
    if (error || typeof result !== 'string' || !/^0x0{63}[01]$/.test(result))
      throw new ChainError('outage', 'the source did not say whether an authorization was used');
    return result.endsWith('1');
  };
  return new Set(published.filter(isUsed));
}
