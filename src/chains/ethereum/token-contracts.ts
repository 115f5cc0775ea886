/** What the contract of a token says about itself: whether it is there, its decimals, whether it is in use, and which code it runs. */
import { type Coin, chainCode, contractOf, isOfferable, type Network } from '../../core/coin.ts';
import type { ContractState } from '../chain.ts';
import { AnsweredError, type EthCall, type EthReply, type EthRpc, failure as failureOf } from './eth-rpc.ts';
import { tokensBeside } from './token-logs.ts';

/** `decimals()` and `paused()`. */
const DECIMALS = '0x313ce567';
const PAUSED = '0x5c975abb';
/** `deprecated()` of USDT on Ethereum: whether its issuer replaced it with a contract to which it forwards. */
const DEPRECATED = '0x0e136b19';
/** Where proxies store the contract that they run: EIP-1967, and the older form of USDC. */
const SLOTS = [
  '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc',
  '0x7050c9e0f4ca769c69bd3a8ef740bc37934f8e2c036e5a723fd8ee048ed3f8c3',
] as const;
/** EIP-1967 too: the contract that tells a proxy which code to run. */
const BEACON_SLOT = '0xa3f0ad74e5423aebfd80d3ef4346578335a9a72aeaee59ff6cb3582b35133d50';
/** The same for tokens that Polygon's bridge created: keccak256('matic.network.proxy.implementation'). */
const POLYGON_SLOT = '0xbaab7dbf64751104133af04abc7d9979f0fda3b059a322a8333f533d3f32bf7f';

const mayBeDeprecated = (coin: Coin): boolean => coin === 'USDT@ethereum';

/** What the contract of a coin is asked: its code, its functions, then its slots. */
function questionsOf(coin: Coin, to: string | null): EthCall[] {
  const functions = [DECIMALS, PAUSED, ...(mayBeDeprecated(coin) ? [DEPRECATED] : [])];
  const slots = [...SLOTS, ...(chainCode(coin) === 'polygon' ? [POLYGON_SLOT] : []), BEACON_SLOT];
  return [
    ['eth_getCode', to, 'latest'],
    ...functions.map((data): EthCall => ['eth_call', { to, data }, 'latest']),
    ...slots.map((slot): EthCall => ['eth_getStorageAt', to, slot, 'latest']),
  ];
}

/** A word that a call returned; null when the contract has no such function. Errors: AnsweredError when no contract can have returned it. */
function wordOf({ result, error }: EthReply): bigint | null {
  if (error) return null;
  if (typeof result !== 'string' || !/^0x([0-9a-f]{2})*$/i.test(result))
    throw new AnsweredError('outage', 'the source answered something else than what a contract returned');
  return result.length === 66 ? BigInt(result) : null;
}
/** Errors: ChainError, because a source that does not answer says nothing about the contract. */
const answered = (reply: EthReply | undefined, method: string): EthReply => {
  if (!reply) throw failureOf({ code: 0, message: 'no answer' }, method);
  // A call that reverts is an answer: the function does not exist.
  if (reply.error && !/revert|invalid opcode|execution|out of gas|bad instruction/i.test(reply.error.message))
    throw failureOf(reply.error, method);
  return reply;
};

/** The tokens on the chain of a coin that can be offered, or `only` some of them, each as its contract is now. Errors: ChainError. */
export async function readContracts(
  { batch }: Pick<EthRpc, 'batch'>,
  { coin, network, only }: { coin: Coin; network: Network; only?: readonly Coin[] | undefined },
): Promise<ContractState[]> {
  const coins = [...tokensBeside(coin, network).values()].filter((one) => isOfferable(one) && (only?.includes(one) ?? true));
  const asked = coins.map((one) => questionsOf(one, contractOf(one, network)));
  const replies = await batch(asked.flat());
  let from = 0;
  const states: ContractState[] = [];
  let failure: AnsweredError | null = null;
  for (const [i, one] of coins.entries()) {
    const own = replies.slice(from, from + asked[i]!.length);
    from += own.length;
    // What cannot be said of one token is no reason to miss the upgrade of another one.
    try {
      states.push(stateOf(one, own));
    } catch (error) {
      if (!(error instanceof AnsweredError)) throw error;
      failure = error;
    }
  }
  if (failure !== null && states.length === 0) throw failure;
  return states;
}

/** What the replies to its questions say about a contract. */
function stateOf(coin: Coin, [code, decimals, paused, ...rest]: readonly EthReply[]): ContractState {
  const [deprecated, slots] = mayBeDeprecated(coin) ? [rest[0], rest.slice(1)] : [null, rest];
  const bytes = answered(code, 'eth_getCode').result;
  if (typeof bytes !== 'string') throw failureOf({ code: 0, message: 'no answer' }, 'eth_getCode');
  const digits = wordOf(answered(decimals, 'eth_call'));
  return {
    coin,
    exists: bytes.length > 2,
    decimals: digits === null || digits > 255n ? null : Number(digits),
    paused: wordOf(answered(paused, 'eth_call')) === 1n,
    deprecated: deprecated !== null && wordOf(answered(deprecated, 'eth_call')) === 1n,
    code: slots.map((slot) => (wordOf(answered(slot, 'eth_getStorageAt')) ?? 0n).toString(16)).join(),
  };
}
