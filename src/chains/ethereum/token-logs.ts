/** Transfers of tokens to watched accounts, read from the logs of receipts. The same on every Ethereum-like chain. */
import { type Coin, chainCode, coinsBeside, contractOf, isOfferable, type Network } from '#core/coin';
import type { ContractState, Matcher, Sighting } from '../chain-source.ts';
import { fields } from '../reply.ts';
import { AnsweredError, type EthCall, type EthReply, type EthRpc, failure as failureOf } from './eth-rpc.ts';
import { type EthReceipt, type EthTransaction, outpoint, TRANSFER } from './value-moves.ts';

/** Coins by their contract: 40 lowercase hex digits. A token is its contract; anyone can give another one the same name. */
export type Tokens = ReadonlyMap<string, Coin>;

/** The tokens on the chain of a coin that have a contract on this network. */
export const tokensBeside = (coin: Coin, network: Network): Tokens =>
  new Map(
    coinsBeside(coin).flatMap((one): [string, Coin][] => {
      const contract = contractOf(one, network);
      return contract === null ? [] : [[contract.slice(2).toLowerCase(), one]];
    }),
  );

/** One transfer of a token. Accounts are 40 lowercase hex digits. */
type TokenMove = { coin: Coin; from: string; to: string; units: bigint };

const ADDRESS = /^0x[0-9a-f]{40}$/i;
/** An account as a topic: 32 bytes, of which the first twelve are zero. */
const ACCOUNT_WORD = /^0x0{24}[0-9a-f]{40}$/i;
const WORD = /^0x[0-9a-f]{64}$/i;

const accountIn = (topic: unknown): string | null =>
  typeof topic === 'string' && ACCOUNT_WORD.test(topic) ? topic.slice(26).toLowerCase() : null;

/**
 * The transfer that a log reports; null when it reports none. Only logs of listed contracts count, with exactly the three topics and the
 * 32 bytes of data of an ERC-20 transfer: with a fourth topic it is the transfer of an NFT. The amount is what the contract says arrived,
 * which may be less than what was sent.
 */
export function readTransfer(log: unknown, tokens: Tokens): TokenMove | null {
  const { address, topics, data, removed } = fields(log);
  if (typeof address !== 'string' || !ADDRESS.test(address)) return null;
  const coin = tokens.get(address.slice(2).toLowerCase());
  if (coin === undefined || removed === true || !Array.isArray(topics) || topics.length !== 3) return null;
  if (typeof topics[0] !== 'string' || topics[0].toLowerCase() !== TRANSFER) return null;
  const [from, to] = [accountIn(topics[1]), accountIn(topics[2])];
  if (from === null || to === null || from === to || typeof data !== 'string' || !WORD.test(data)) return null;
  const units = BigInt(data);
  // Anyone can cause transfers of nothing.
  return units > 0n ? { coin, from, to, units } : null;
}

/**
 * What the transactions of a block pay to watched accounts in tokens, each log as a transfer of its own. Who called the contract, and how,
 * does not matter: batches, relayed authorizations, mints and bridges all leave the same logs, and failed transactions leave none.
 *
 * A transfer is named after its transaction, the account, and its place among the transfers to that account. Its number in the block would
 * change when a reorganization moves the transaction to another block.
 */
export function tokenSightings(
  {
    transactions,
    receipts,
  }: {
    transactions: readonly (Pick<EthTransaction, 'txid'> & Partial<Pick<EthTransaction, 'from' | 'nonce'>>)[];
    receipts: readonly Pick<EthReceipt, 'ok' | 'logs'>[];
  },
  tokens: Tokens,
  matcher: Pick<Matcher, 'has'>,
): Sighting[] {
  if (tokens.size === 0) return [];
  let logsBefore = 0;
  return transactions.flatMap((tx, index) => {
    const { ok, logs } = receipts[index]!;
    const first = logsBefore;
    logsBefore += logs.length;
    if (!ok) return [];
    const { txid, from, nonce } = tx;
    const spends = from === undefined || nonce === undefined ? [] : [outpoint({ from, nonce })];
    const places = new Map<string, number>();
    return logs.flatMap((log, i): Sighting[] => {
      const move = readTransfer(log, tokens);
      // What moves between two addresses of this install pays nothing.
      if (!move || !matcher.has(move.to) || matcher.has(move.from)) return [];
      const { coin, to, units } = move;
      const place = places.get(to) ?? 0;
      places.set(to, place + 1);
      const ref = `${txid}:log:${to}:${place}`;
      return [{ coin, key: to, ref, txid, units, kind: 'token', spends, lock: null, place: first + i }];
    });
  });
}

// What the contract of a token says about itself: whether it is there, its decimals, whether it is in use, and which code it runs.

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
