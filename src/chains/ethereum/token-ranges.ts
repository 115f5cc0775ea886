/** Reads transfers of tokens from many blocks at once: logs name the blocks, and the receipts of each are proven. */
import { hexToBytes } from '@noble/hashes/utils.js';
import { type Coin, isOfferable } from '../../core/coin.ts';
import { OutgoingError } from '../../outgoing.ts';
import { ChainError, type RangeBlock, type RangeReader, RangeRefused, type Tagged, type TransactionPlace } from '../chain.ts';
import { fields } from '../reply.ts';
import { isStandardHeader, provenHeader } from './block-header.ts';
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
import { createNativeReader } from './native-moves.ts';
import { ProofError } from './proof-values.ts';
import { checkReceiptValuesSteps, encodeReceipt } from './receipts.ts';
import { inTurns, type Steps } from './steps.ts';
import { holdingsOf } from './token-balances.ts';
import { type Tokens, tokenSightings } from './token-logs.ts';
import { type EthReceipt, readReceipt, TRANSFER } from './value-moves.ts';

/** A search must not hold up the others. */
const SEARCH_LIMITS = { timeoutMs: 10_000, maxReplyBytes: 32 * 1024 * 1024 };
/** Somebody who fills a block with logs can make its receipts larger than any limit, so what is larger is asked for in parts. */
export const BLOCK_LIMITS = { timeoutMs: 20_000, maxReplyBytes: 64 * 1024 * 1024 };
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
