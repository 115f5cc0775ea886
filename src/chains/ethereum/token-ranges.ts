/** Reads transfers of tokens from many blocks at once: logs name the blocks, and the receipts of each are proven. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { OutgoingError } from '#connections';
import { type Coin, isOfferable, strayNativeOf } from '#core/coin';
import { inTurns, ProofError, type Steps } from '#evm';
import {
  ChainError,
  HOLDINGS_AT_ONCE,
  NATIVES_AT_ONCE,
  type NativeReader,
  type RangeBlock,
  type RangeReader,
  RangeRefused,
  type Sighting,
  type Tagged,
  type TransactionPlace,
} from '../chain-source.ts';
import { fields } from '../reply.ts';
import { isStandardHeader, provenHeader } from './block-header.ts';
import { READ_BALANCES } from './eth-balances.ts';
import { ethHeader, headerOrNull } from './eth-block.ts';
import {
  arrayOf,
  type EthRpc,
  failure,
  hash32,
  isRangeLimit,
  isTooLarge,
  singleReceipts,
  smallNumber,
  toHex,
  transactionOrNull,
} from './eth-rpc.ts';
import { checkReceiptValuesSteps, encodeReceipt } from './receipts.ts';
import { type Tokens, tokenSightings } from './token-logs.ts';
import { directMoves, type EthReceipt, readEthTransaction, readReceipt, TRANSFER } from './value-moves.ts';

/** A search must not hold up the others. */
const SEARCH_LIMITS = { timeoutMs: 10_000, maxReplyBytes: 32 * 1024 * 1024 };
/** Somebody who fills a block with logs can make its receipts larger than any limit, so what is larger is asked for in parts. */
const BLOCK_LIMITS = { timeoutMs: 20_000, maxReplyBytes: 64 * 1024 * 1024 };
const RECEIPTS_AT_ONCE = 50;

const accountWord = (account: string): string => `0x${account.padStart(64, '0')}`;

/** The request for the transfers to these accounts. */
const filterOf = ({ from, to }: { from: number; to: number }, tokens: Tokens, accounts: readonly string[]) => ({
  fromBlock: toHex(from),
  toBlock: toHex(to),
  address: [...tokens.keys()].map((contract) => `0x${contract}`),
  topics: [TRANSFER, null, accounts.map(accountWord)],
});

async function search(
  rpc: Pick<EthRpc, 'one'>,
  { tokens, range, accounts }: { tokens: Tokens; range: { from: number; to: number }; accounts: readonly string[] },
): Promise<Map<number, string>> {
  let found: unknown[];
  try {
    const { result, error } = await rpc.one(['eth_getLogs', filterOf(range, tokens, accounts)], SEARCH_LIMITS);
    if (error) throw isRangeLimit(error) ? new RangeRefused(error.message) : failure(error, 'eth_getLogs');
    found = arrayOf(result);
  } catch (error) {
    const cause = error instanceof ChainError && error.cause instanceof OutgoingError ? error.cause.class : null;
    if (cause === 'timeout' || cause === 'too_large')
      throw new RangeRefused(`the reply is ${cause === 'timeout' ? 'too slow' : 'too large'}`);
    throw error;
  }
  const blocks = new Map<number, string>();
  for (const log of found) {
    const { blockNumber, blockHash, removed } = fields(log);
    if (removed !== true) blocks.set(smallNumber(blockNumber), hash32(blockHash));
  }
  return blocks;
}

const identityOf = (header: Record<string, unknown>): string => {
  const { height, parent, time } = ethHeader(header);
  return [height, parent, time.getTime(), hash32(header.receiptsRoot), ...arrayOf(header.transactions).map((txid) => hash32(txid))].join();
};

async function readHeader(rpc: Pick<EthRpc, 'call'>, hash: string): Promise<Record<string, unknown>> {
  const header = await rpc.call('eth_getBlockByHash', hash, false);
  if (header === null) throw new ChainError('outage', `the source does not have block ${hash}`);
  if (ethHeader(header).hash !== hash) throw new ChainError('outage', `the source answered another block than ${hash}`);
  return fields(header);
}

/**
 * What is kept of a receipt: what the root of the block covers, and the logs of listed tokens at their places. Anybody can fill a block with
 * a million logs of others, which would take a gigabyte.
 */
type Kept = { value: Uint8Array; blockHash: string; txid: string; receipt: EthReceipt };
function keep(told: unknown, tokens: Tokens): Kept {
  const { blockHash, transactionHash } = fields(told);
  const receipt = readReceipt(told);
  const isListed = (log: unknown): boolean => tokens.has(String(fields(log).address).slice(2).toLowerCase());
  return {
    ...{ blockHash: hash32(blockHash), txid: hash32(transactionHash), value: encodeReceipt(told) },
    receipt: { ...receipt, logs: receipt.logs.map((log) => (isListed(log) ? log : null)) },
  };
}
const keepAll = (told: readonly unknown[], tokens: Tokens): Promise<Kept[]> =>
  inTurns(
    (function* (): Steps<Kept[]> {
      const kept: Kept[] = [];
      for (const receipt of told) {
        kept.push(keep(receipt, tokens));
        yield;
      }
      return kept;
    })(),
  );

/** The receipts of a block together; null where the source does not return them so, or they are too large. */
async function askReceipts(rpc: Pick<EthRpc, 'one'>, hash: string): Promise<unknown[] | null> {
  try {
    const { result, error } = await rpc.one(['eth_getBlockReceipts', hash], BLOCK_LIMITS);
    return !error && Array.isArray(result) ? result : null;
  } catch (error) {
    if (isTooLarge(error)) return null;
    throw error;
  }
}

/** The receipts of a block; some at a time where they do not come together. */
async function readReceipts(
  rpc: Pick<EthRpc, 'one' | 'batch'>,
  { hash, txids, tokens }: { hash: string; txids: readonly string[]; tokens: Tokens },
): Promise<Kept[]> {
  const together = await askReceipts(rpc, hash);
  if (together) return keepAll(together, tokens);
  const kept: Kept[] = [];
  for (let i = 0; i < txids.length; i += RECEIPTS_AT_ONCE) {
    kept.push(...(await keepAll(await singleReceipts(txids.slice(i, i + RECEIPTS_AT_ONCE), rpc), tokens)));
  }
  return kept;
}

/**
 * Whether the receipts are proven under a header whose own hash is recomputed. Errors: ProofError when they do not fit its root, or when
 * a header with the fields of Ethereum does not fit its hash.
 */
async function prove(header: Record<string, unknown>, hash: string, values: readonly Uint8Array[]): Promise<boolean> {
  await inTurns(checkReceiptValuesSteps(values, hexToBytes(hash32(header.receiptsRoot).slice(2))));
  try {
    provenHeader(header, hexToBytes(hash.slice(2)));
    return true;
  } catch (error) {
    // Some chains hash fields of their own. Then the header counts only as far as sources agree on it.
    if (error instanceof ProofError && !isStandardHeader(header)) return false;
    throw error;
  }
}

async function fetchBlock(rpc: EthRpc, hash: string, tokens: Tokens): Promise<RangeBlock> {
  const header = await readHeader(rpc, hash);
  const txids = arrayOf(header.transactions).map((txid) => hash32(txid));
  let receipts: Kept[];
  let proven: boolean;
  try {
    receipts = await readReceipts(rpc, { hash, txids, tokens });
    if (receipts.length !== txids.length || !receipts.every(({ blockHash, txid }, i) => blockHash === hash && txid === txids[i]))
      throw new ChainError('outage', `the receipts of block ${hash} do not fit it`);
    const values = receipts.map(({ value }) => value);
    proven = await prove(header, hash, values);
  } catch (cause) {
    if (cause instanceof ProofError) throw new ChainError('unproven', `block ${hash}: ${cause.message}`, { cause });
    throw cause;
  }
  const block = { transactions: txids.map((txid) => ({ txid })), receipts: receipts.map(({ receipt }) => receipt) };
  return {
    ...{ ref: ethHeader(header), proven, identity: identityOf(header), txids: new Set(txids) },
    sightings: (matcher) => tokenSightings(block, tokens, matcher),
  };
}

async function readPlace(rpc: Pick<EthRpc, 'call'>, txid: string): Promise<TransactionPlace> {
  const found = transactionOrNull(await rpc.call('eth_getTransactionByHash', txid), txid);
  if (found === null) return null;
  return typeof found.blockHash === 'string' ? { height: smallNumber(found.blockNumber), hash: hash32(found.blockHash) } : 'waiting';
}

async function readTags(rpc: Pick<EthRpc, 'batch'>): Promise<Tagged> {
  const [safe, finalized] = await rpc.batch(['safe', 'finalized'].map((tag) => ['eth_getBlockByNumber', tag, false]));
  const refOf = (reply: typeof safe) => (!reply || reply.error ? null : headerOrNull(reply.result));
  return { safe: refOf(safe), finalized: refOf(finalized) };
}

/** Balances by coin instead of contract. */
function holdingsBy(rpc: EthRpc, tokens: Tokens): RangeReader['holdings'] {
  const contracts = new Map([...tokens].flatMap(([contract, coin]) => (isOfferable(coin) ? [[coin, contract]] : [])));
  return {
    coins: [...contracts.keys()],
    read: (holders) =>
      holdingsOf(
        rpc,
        holders.map(({ coin, account }) => ({ contract: contracts.get(coin) ?? '', account })),
      ),
  };
}

export const createRangeReader = (rpc: EthRpc, { coin, tokens }: { coin: Coin; tokens: Tokens }): RangeReader => ({
  head: async () => ethHeader(await rpc.call('eth_getBlockByNumber', 'latest', false)),
  at: async (heights) => {
    const replies = await rpc.batch(heights.map((height) => ['eth_getBlockByNumber', toHex(height), false]));
    return replies.map(({ result, error }) => {
      if (error) throw failure(error, 'eth_getBlockByNumber');
      return headerOrNull(result);
    });
  },
  search: (range, accounts) => search(rpc, { tokens, range, accounts }),
  fetch: (hash) => fetchBlock(rpc, hash, tokens),
  identity: async (hash) => identityOf(await readHeader(rpc, hash)),
  placeOf: (txid) => readPlace(rpc, txid),
  tags: () => readTags(rpc),
  holdings: holdingsBy(rpc, tokens),
  native: createNativeReader(rpc, coin),
  requests: rpc.sent,
});

// The native coin on networks where only tokens are offered. No log names its transfers, so balances show that something arrived, and the
// transactions of a block show what paid it.

const CALL_LIMITS = { timeoutMs: 10_000, maxReplyBytes: 1024 * 1024 };

/** Null where the native coin of the chain is offered, or not known. */
export function createNativeReader(rpc: EthRpc, chain: Coin): NativeReader | null {
  const coin = strayNativeOf(chain);
  return (
    coin && { coin, balances: (accounts, hash) => balancesIn(rpc, accounts, hash), paid: (hash, to) => paidIn(rpc, { coin, hash, to }) }
  );
}

async function balancesIn(rpc: Pick<EthRpc, 'one'>, accounts: readonly string[], blockHash: string): Promise<bigint[] | null> {
  const found: bigint[] = [];
  for (let i = 0; i < accounts.length; i += NATIVES_AT_ONCE) {
    const part = accounts.slice(i, i + NATIVES_AT_ONCE);
    const data = READ_BALANCES + part.map((account) => account.padStart(64, '0')).join('');
    const { result, error } = await rpc.one(['eth_call', { data }, { blockHash }], CALL_LIMITS);
    // Nodes say in many words that they dropped the state of a block.
    if (error) return null;
    if (typeof result !== 'string' || !/^0x[0-9a-f]*$/i.test(result) || result.length !== 2 + 64 * part.length)
      throw new ChainError('outage', 'the source answered something else than balances');
    for (let n = 0; n < part.length; n++) found.push(BigInt(`0x${result.slice(2 + 64 * n, 66 + 64 * n)}`));
  }
  return found;
}

async function paidIn(rpc: EthRpc, { coin, hash, to }: { coin: Coin; hash: string; to: ReadonlySet<string> }): Promise<Sighting[]> {
  const block = fields(await rpc.call('eth_getBlockByHash', hash, true));
  const transactions = arrayOf(block.transactions)
    .map((value, place) => ({ ...readEthTransaction(value), place }))
    .filter((tx) => tx.to !== null && to.has(tx.to) && tx.units > 0n);
  const replies = await rpc.batch(transactions.map(({ txid }) => ['eth_getTransactionReceipt', txid]));
  const receipts = replies.map(({ result, error }) => {
    if (error) throw failure(error, 'eth_getTransactionReceipt');
    return readReceipt(result);
  });
  return directMoves(transactions, receipts).map(({ index, to: key, units }): Sighting => {
    const { txid, place } = transactions[index]!;
    return { coin, key, ref: `${txid}:tx`, txid, units, kind: 'direct', spends: [], lock: null, place };
  });
}

// Balances of tokens of many accounts in few requests, without a contract on the chain.

/** An account with a token: both 40 lowercase hex digits. */
type TokenHolder = { contract: string; account: string };

/**
 * Reads balances as the code of a contract creation that is only simulated, followed by pairs of words: a token and an account. A token
 * that does not answer counts as 0. A call takes at most 25 million gas, even with tokens that use up all that they are given.
 *
 *   PUSH1 58 CODESIZE SUB DUP1 PUSH1 58 PUSH1 60 CODECOPY     size = what follows the code; copy it to memory 60
 *   PUSH4 balanceOf PUSH1 e0 SHL PUSH1 00 MSTORE              the selector at 0
 *   PUSH1 00                                                  i = 0
 *   JUMPDEST DUP2 DUP2 LT ISZERO PUSH1 50 JUMPI               (17) while i < size:
 *   DUP1 PUSH1 80 ADD MLOAD PUSH1 04 MSTORE                   the account, behind the selector
 *   PUSH1 00 PUSH1 40 MSTORE                                  no answer yet
 *   PUSH1 20 PUSH1 40 PUSH1 24 PUSH1 00 DUP5 PUSH1 60 ADD MLOAD PUSH3 100,000 STATICCALL
 *   PUSH1 40 MLOAD MUL                                        the answer, 0 if the call failed
 *   DUP2 PUSH1 01 SHR PUSH1 60 ADD MSTORE                     over pairs that were read before
 *   PUSH1 40 ADD PUSH1 17 JUMP                                i += 64
 *   JUMPDEST POP PUSH1 01 SHR PUSH1 60 RETURN                 (50) return half as much as was given
 */
const READ_HOLDINGS =
  '0x605838038060586060396370a0823160e01b6000526000' +
  '5b81811015605057' +
  '8060800151600452600060405260206040602460008460600151' +
  '620186a0fa604051028160011c606001526040016017' +
  '565b5060011c6060f3';

const LIMITS = { timeoutMs: 10_000, maxReplyBytes: 1024 * 1024 };
const word = (hex: string): string => hex.padStart(64, '0');

/** The balances at the newest block, in the order of the holdings. Errors: ChainError. */
async function holdingsOf(rpc: Pick<EthRpc, 'one'>, holdings: readonly TokenHolder[]): Promise<bigint[]> {
  const found: bigint[] = [];
  for (let i = 0; i < holdings.length; i += HOLDINGS_AT_ONCE) {
    const part = holdings.slice(i, i + HOLDINGS_AT_ONCE);
    const data = READ_HOLDINGS + part.map(({ contract, account }) => word(contract) + word(account)).join('');
    const { result, error } = await rpc.one(['eth_call', { data }, 'latest'], LIMITS);
    if (error) throw failure(error, 'eth_call');
    if (typeof result !== 'string' || !/^0x[0-9a-f]*$/i.test(result) || result.length !== 2 + 64 * part.length)
      throw new ChainError('outage', 'the source answered something else than balances');
    for (let n = 0; n < part.length; n++) found.push(BigInt(`0x${result.slice(2 + 64 * n, 66 + 64 * n)}`));
  }
  return found;
}
