/** A Bitcoin-Core-family node over JSON-RPC, from Litecoin 0.21 and Dogecoin 1.14 to today's Core: every key of a reply is optional. */

import { addressOfScript, PARAMS } from '#addresses';
import type { Outgoing } from '#connections';
import { type BitcoinFamily, finalityOf, type Network } from '#core/coin';
import type { Clock } from '#core/dates';
import type { Lock } from '#core/payment';
import type { Log } from '#log';
import {
  type BlockRef,
  ChainError,
  type ChainHealth,
  type ChainSource,
  type ChainTransaction,
  type Finality,
  type NodeInspection,
  type Outlet,
  orNull,
  type TransactionHint,
  type Unspent,
} from '../chain-source.ts';
import { fields, type ReplyFields } from '../reply.ts';
import { parseBlock } from './block-proof.ts';
import {
  type CoreHeaders,
  coreHeader,
  createCoreBlocks,
  createCoreHeaders,
  readCoreBlock,
  readRawHeaders,
  readTransactionOf,
} from './core-blocks.ts';
import {
  amount,
  type CoreCall,
  type CoreCalls,
  createCoreCalls,
  integer,
  isNotFound,
  readCoreFees,
  rowsOfReply,
  text,
} from './core-calls.ts';
import { type CoreMempool, createCoreMempool } from './core-mempool.ts';
import { parseTransaction, type RawTransaction, strippedOf, txidOf } from './raw-block.ts';

/** Outputs requested in one batch. */
const BATCH = 50;

/** Creates the reader of one node. It connects on demand and does not poll. */
export function createCoreSource({
  coin,
  network,
  url,
  outgoing,
  log,
  clock,
}: {
  coin: BitcoinFamily;
  network: Network;
  url: string;
  outgoing: Outgoing;
  log: Log;
  clock: Clock;
}): ChainSource {
  const locks = finalityOf(coin) === 'locks';
  const calls = createCoreCalls({ coin, url, outgoing, log, clock });
  const { call } = calls;
  const headers = createCoreHeaders(calls);
  const blocks = createCoreBlocks({ coin, calls, headers });
  const mempool = createCoreMempool({ coin, calls, log });
  const blockOf = async (hash: string) => coreHeader(await headers.read(hash));
  const transactions = createCoreTransactions({ coin, network, calls, blockOf, bytesOf: blocks.bytesOf });
  return {
    coin,
    network,
    genesis: async () => text(await call('getblockhash', 0)),
    health: () => readCoreHealth({ calls, headers, mempool }),
    inspect: () => inspectCore({ coin, calls }),
    tip: async () => blockOf(text(await call('getbestblockhash'))),
    blockAt: async (height) => {
      const hash = await orNull(call('getblockhash', height));
      return hash === null ? null : blockOf(text(hash));
    },
    block: async (hash) => {
      const found = await orNull(call('getblockheader', hash));
      return found === null ? null : coreHeader(found);
    },
    fetchBlock: blocks.fetch,
    readHeaders: (from, count) => readRawHeaders(calls, from, count),
    fetchMempool: mempool.fetch,
    txState: async (txid) => {
      const found = fields(await orNull(call('getrawtransaction', txid, 1)));
      if (!found.txid) return { state: 'unknown', blockHash: null, lock: null };
      const blockHash = found.blockhash ? text(found.blockhash) : null;
      // An index of transactions also contains those of blocks that were replaced.
      if (blockHash !== null && text(found.confirmations) === '0') return { state: 'unknown', blockHash: null, lock: null };
      return { state: blockHash ? 'mined' : 'mempool', blockHash, lock: locks ? lockOf(found) : null };
    },
    finality: async () => ({
      safe: null,
      finalized: null,
      ...(locks ? await bestChainLock(calls) : { chainlock: null, tip: null }),
    }),
    transaction: transactions.read,
    addressSummary: async () => {
      throw new ChainError('unsupported', `balances of any address need an address index; set ${coin}_ELECTRUM_URL`);
    },
    fees: () => readCoreFees({ coin, calls }),
    readUnspent: ({ outputs }) => readUnspentOutputs(outputs, calls),
    outlet: createCoreOutlet({ coin, calls, bytesOf: blocks.bytesOf }),
    close: () => {},
  };
}

/** Which of these outputs are unspent in blocks, and how much of them a waiting transaction spends. */
export async function readUnspentOutputs(
  outputs: readonly { ref: string; units: bigint }[],
  { post, failure }: Pick<CoreCalls, 'post' | 'failure'>,
): Promise<Unspent> {
  const ask = async (withMempool: boolean): Promise<bigint> => {
    let total = 0n;
    for (let i = 0; i < outputs.length; i += BATCH) {
      const part = outputs.slice(i, i + BATCH);
      const replies = await post(
        part.map(({ ref }): CoreCall => ['gettxout', ref.split(':')[0], Number(ref.split(':').at(-1)), withMempool]),
      );
      for (const [j, reply] of replies.entries()) {
        if (reply.error) throw failure(reply.error, 'gettxout');
        // Null means spent. With the mempool included, an output that a waiting transaction spends counts as spent.
        if (reply.result !== null) total += part[j]!.units;
      }
    }
    return total;
  };
  const units = await ask(false);
  return { units, leavingUnits: units - (await ask(true)) };
}

// Finds one transaction on a node of the Bitcoin Core family, with or without an index.

/** Blocks below the tip that are searched when the node has no index. */
const RECENT_BLOCKS = 12;

type Reads = {
  coin: BitcoinFamily;
  network: Network;
  calls: CoreCalls;
  /** The header and the raw bytes of a block. */
  blockOf(hash: string): Promise<BlockRef>;
  bytesOf(hash: string): Promise<Buffer>;
};

/** A transaction of a block that should contain it; null when it does not, or when the node no longer has the block. */
async function findInBlock(txid: string, hash: string, { coin, calls: { post, call }, bytesOf }: Reads): Promise<ReplyFields | null> {
  if (!PARAMS[coin].oldCalls) {
    // Newer nodes add fee and inputs; older ones treat 2 as 1.
    const [reply] = await post([['getrawtransaction', txid, 2, hash]]);
    return !reply || reply.error ? null : fields(reply.result);
  }
  // Old nodes do not accept a block here, so the block is read.
  const [head] = await post([['getblockheader', hash]]);
  if (!head || head.error) return null;
  const block = await readCoreBlock(await bytesOf(hash), { hash, coin, server: 'the node' });
  const found = block.transactions.find((tx) => txidOf(tx) === txid);
  if (!found) return null;
  const { from, to } = found.extent;
  const decoded = fields(await call('decoderawtransaction', found.bytes.toString('hex', from, to)));
  return { ...decoded, blockhash: hash, confirmations: fields(head.result).confirmations };
}

/** Searches the latest blocks, whose transaction ids are kept. */
function createRecentBlocks(reads: Reads): { find(txid: string): Promise<ReplyFields | null> } {
  const { coin, calls } = reads;
  /** Ids of recent blocks by block hash, most recently used last. */
  const recent = new Map<string, { txids: ReadonlySet<string>; parent: string }>();
  const txidsOf = async (hash: string): Promise<{ txids: ReadonlySet<string>; parent: string }> => {
    const known = recent.get(hash);
    const block = known ? {} : fields(await calls.call('getblock', hash, PARAMS[coin].oldCalls ? true : 1));
    const found = known ?? { txids: new Set(rowsOfReply(block.tx).map(text)), parent: text(block.previousblockhash) };
    recent.delete(hash);
    recent.set(hash, found);
    for (const oldest of recent.keys()) if (recent.size > 2 * RECENT_BLOCKS) recent.delete(oldest);
    return found;
  };
  return {
    find: async (txid) => {
      const [best] = await calls.post([['getbestblockhash']]);
      let hash = text(best?.result);
      for (let i = 0; i < RECENT_BLOCKS && hash !== ''; i++) {
        const { txids, parent } = await txidsOf(hash);
        if (txids.has(txid)) return findInBlock(txid, hash, reads);
        hash = parent;
      }
      return null;
    },
  };
}

function createCoreTransactions(reads: Reads): { read(txid: string, hint?: TransactionHint): Promise<ChainTransaction> } {
  const {
    coin,
    network,
    calls: { post, failure },
    blockOf,
  } = reads;
  const recent = createRecentBlocks(reads);
  const describe = (tx: ReplyFields) => describeCoreTransaction(tx, { coin, network, post, blockOf });
  return {
    read: async (txid, hint) => {
      // A known block gives the most detail, with or without an index.
      const told = hint ? await findInBlock(txid, hint.blockHash, reads) : null;
      if (told && integer(told.confirmations) > 0) return describe(told);
      const [reply, index] = await post([['getrawtransaction', txid, 1], ['getindexinfo']]);
      if (!reply) throw new ChainError('outage', `the ${coin} node did not answer with ${txid}`);
      if (!reply.error) return describe(fields(reply.result));
      if (!isNotFound(reply.error)) throw failure(reply.error, 'getrawtransaction');
      if (index && !index.error && 'txindex' in fields(index.result)) throw new ChainError('not_found', txid);
      const found = await recent.find(txid);
      if (found) return describe(found);
      if (/txindex/i.test(reply.error.message)) {
        const where = `its mempool and the last ${RECENT_BLOCKS} blocks`;
        throw new ChainError('unsupported', `the ${coin} node runs without txindex=1, so it only knows ${where}`);
      }
      throw new ChainError('not_found', txid);
    },
  };
}

// Describes one transaction as a node of the Bitcoin Core family shows it. What the node does not know is null, never empty.

/** The most inputs whose origin is looked up. */
const MAX_INPUTS = 500;

type Party = { address: string; units: bigint };
type On = { coin: BitcoinFamily; network: Network };
type Post = CoreCalls['post'];

const totalOf = (parties: readonly Party[]): bigint => parties.reduce((sum, { units }) => sum + units, 0n);

/** The receiver of an output, or the sender of the output that an input spends. */
function partyOf(output: ReplyFields, { coin, network }: On): Party {
  const script = fields(output.scriptPubKey);
  const type = text(script.type);
  const told = text(script.address) || text(rowsOfReply(script.addresses)[0]);
  const address = told || (!type.startsWith('witness_mweb') && addressOfScript(text(script.hex), { coin, network })) || '';
  return { address, units: amount(output.value) };
}

/** The output that each input spends; empty where the node does not know it. */
async function readOutputs(
  inputs: readonly ReplyFields[],
  { ask, read, post }: { ask(input: ReplyFields): CoreCall; read(result: unknown, input: ReplyFields): ReplyFields; post: Post },
): Promise<ReplyFields[]> {
  const replies = await post(inputs.map(ask));
  return inputs.map((input, i) => {
    const reply = replies[i];
    return !reply || reply.error ? {} : read(reply.result, input);
  });
}

/** The origins of the inputs; null when one of them is unknown. */
async function originsOf(
  inputs: readonly ReplyFields[],
  { on, post, isWaiting }: { on: On; post: Post; isWaiting: boolean },
): Promise<Party[] | null> {
  if (inputs.length > MAX_INPUTS) return null;
  // Core includes it in the input when the block is given, DASH with `spentindex=1`.
  if (inputs.every((i) => i.prevout !== undefined)) return inputs.map((i) => partyOf(fields(i.prevout), on));
  if (inputs.every((i) => i.value !== undefined)) return inputs.map((i) => ({ address: text(i.address), units: amount(i.value) }));
  const found = await readOutputs(inputs, {
    ask: (i) => ['getrawtransaction', text(i.txid), 1],
    read: (result, i) => fields(rowsOfReply(fields(result).vout)[integer(i.vout)]),
    post,
  });
  // A waiting transaction spends outputs that are unspent in the blocks, which the node knows without an index.
  const open = isWaiting ? inputs.filter((_, i) => found[i]?.value === undefined) : [];
  const unspent = await readOutputs(open, { ask: (i) => ['gettxout', text(i.txid), integer(i.vout), false], read: fields, post });
  const all = inputs.map((input, n) => (open.includes(input) ? unspent[open.indexOf(input)] : found[n]) ?? {});
  return all.some((output) => output.value === undefined) ? null : all.map((output) => partyOf(output, on));
}

/** The fee of a waiting transaction according to the node; null when it does not report it. */
async function waitingFee(txid: string, post: Post): Promise<bigint | null> {
  const [reply] = await post([['getmempoolentry', txid]]);
  const entry = fields(reply?.result);
  const fee = fields(entry.fees).base ?? entry.fee;
  return !reply || reply.error || fee === undefined ? null : amount(fee);
}

/** The parts of a transaction outside the extension block. LTC: the kernels of one with a part inside it, whose peg-outs are outputs. */
function partsOf(tx: ReplyFields): { inputs: ReplyFields[]; outputs: ReplyFields[]; kernels: ReplyFields[] } {
  const kernels = rowsOfReply(tx.vkern).map(fields);
  const isVisible = (part: ReplyFields) => part.ismweb !== true;
  return {
    kernels,
    inputs: rowsOfReply(tx.vin).map(fields).filter(isVisible),
    outputs: [...rowsOfReply(tx.vout), ...kernels.flatMap((kernel) => rowsOfReply(kernel.pegout))].map(fields).filter(isVisible),
  };
}

/** LTC: what a HogEx spends beyond its outputs is not its fee; a transaction entirely in MWEB states its fee in the kernels. */
async function feeOf(
  tx: ReplyFields,
  { origins, total, isWaiting, post }: { origins: Party[] | null; total: bigint; isWaiting: boolean; post: Post },
) {
  const { inputs, outputs, kernels } = partsOf(tx);
  if (text(fields(outputs[0]?.scriptPubKey).type) === 'witness_mweb_hogaddr') return null;
  if (kernels.length > 0) return inputs.length === 0 ? kernels.reduce((sum, kernel) => sum + amount(kernel.fee), 0n) : null;
  if (origins) return totalOf(origins) - total;
  if (tx.fee !== undefined) return amount(tx.fee);
  return isWaiting ? waitingFee(text(tx.txid), post) : null;
}

/** `blockOf`: the header of a block. */
export async function describeCoreTransaction(
  tx: ReplyFields,
  { coin, network, post, blockOf }: On & { post: Post; blockOf(hash: string): Promise<BlockRef> },
): Promise<ChainTransaction> {
  const on = { coin, network };
  const { inputs, outputs: shown } = partsOf(tx);
  const outputs = shown.map((output) => {
    const party = partyOf(output, on);
    return { ...party, ...(party.address === '' && { type: text(fields(output.scriptPubKey).type) }) };
  });
  const confirmations = integer(tx.confirmations);
  const block = tx.blockhash ? await blockOf(text(tx.blockhash)) : null;
  const isWaiting = block === null;
  const total = totalOf(outputs);
  const coinbase = inputs.some((i) => i.coinbase !== undefined);
  const origins = coinbase ? null : await originsOf(inputs, { on, post, isWaiting });
  return {
    txid: text(tx.txid),
    status: block && confirmations > 0 ? 'confirmed' : 'pending',
    confirmations: Math.max(0, confirmations),
    blockHeight: block?.height ?? null,
    blockHash: block?.hash ?? null,
    timestamp: block?.time ?? null,
    amountUnits: total,
    feeUnits: coinbase ? 0n : await feeOf(tx, { origins, total, isWaiting, post }),
    inputs: coinbase ? [{ address: 'coinbase', units: total }] : origins,
    outputs,
  };
}

// What a node of the Bitcoin Core family says about itself: its health, and for the operator what it lacks.

const CHAIN_OF: Readonly<Record<string, Network>> = {
  main: 'mainnet',
  test: 'testnet',
  testnet4: 'testnet',
  signet: 'testnet',
  regtest: 'regtest',
};

async function readCoreHealth({
  calls: { post, failure },
  headers,
  mempool,
}: {
  calls: CoreCalls;
  headers: CoreHeaders;
  mempool: Pick<CoreMempool, 'stateOf'>;
}): Promise<ChainHealth> {
  const [chain, net, index, pool] = await post([['getblockchaininfo'], ['getnetworkinfo'], ['getindexinfo'], ['getmempoolinfo']]);
  if (chain?.error) throw failure(chain.error, 'getblockchaininfo');
  const info = fields(chain?.result);
  const about = fields(net?.result);
  return {
    tip: coreHeader(await headers.read(text(info.bestblockhash))),
    headers: integer(info.headers),
    syncing: info.initialblockdownload === true || integer(info.headers) > integer(info.blocks) + 2,
    software: text(about.subversion).replaceAll('/', ''),
    version: integer(about.version),
    network: CHAIN_OF[text(info.chain)] ?? text(info.chain),
    pruned: info.pruned === true,
    txindex: index && !index.error && index.result ? 'txindex' in fields(index.result) : null,
    // A node may reject the call.
    peers: typeof about.connections === 'string' ? integer(about.connections) : null,
    mempool: pool && !pool.error ? mempool.stateOf(pool.result) : null,
  };
}

async function inspectCore({
  coin,
  calls: { call, clockAheadSeconds },
}: {
  coin: BitcoinFamily;
  calls: CoreCalls;
}): Promise<NodeInspection> {
  const info = fields(await call('getblockchaininfo'));
  const warnings = fields(await call('getnetworkinfo')).warnings;
  const needs: readonly { capability: string; need(): Promise<unknown> }[] = [
    {
      capability: 'raw blocks',
      need: async () => parseBlock(Buffer.from(text(await call('getblock', text(info.bestblockhash), 0)), 'hex'), coin),
    },
    {
      capability: 'its mempool',
      need: async () => {
        const [txid] = rowsOfReply(await call('getrawmempool')).map(text);
        // A transaction that left in between is not an error.
        if (txid !== undefined) await orNull(call('getrawtransaction', txid, 0));
      },
    },
    {
      capability: 'transactions',
      // No node has this transaction. The call only shows whether the user may make it.
      need: () => orNull(call('getrawtransaction', '0'.repeat(63) + '1', 1)),
    },
    { capability: 'fee estimates', need: () => call('estimatesmartfee', 6) },
    { capability: 'the state of its mempool', need: () => call('getmempoolinfo') },
  ];
  const missing: { capability: string; reason: string }[] = [];
  for (const { capability, need } of needs) {
    await need().catch((error: unknown) => missing.push({ capability, reason: (error as Error).message }));
  }
  return {
    prunedBelow: info.pruned === true ? integer(info.pruneheight) : null,
    clockAheadSeconds: clockAheadSeconds(),
    missing,
    warnings: (Array.isArray(warnings) ? warnings : [warnings]).map(text).filter(Boolean),
  };
}

// DASH: the locks that a node reports, of transactions (InstantSend) and of blocks (ChainLocks).

const NO_LOCK = { chainlock: null, tip: null };

/** Flags are booleans in most replies and strings in mempool replies. */
const isTrue = (value: unknown): boolean => value === true || value === 'true';

/** After a ChainLock, `instantlock` is true for every transaction of the block. Only `instantlock_internal` distinguishes the two. */
export function lockOf(tx: ReplyFields): Lock {
  if (isTrue(tx.chainlock)) return 'chainlock';
  return isTrue(tx.instantlock_internal ?? tx.instantlock) ? 'instantsend' : null;
}

/** Height of the best ChainLock, when it lies on the chain that the node follows. Null: the node has none. */
export async function bestChainLock({ post }: Pick<CoreCalls, 'post'>): Promise<Pick<Finality, 'chainlock' | 'tip'>> {
  const [reply, now] = await post([['getbestchainlock'], ['getbestblockhash']]);
  const best = fields(reply?.result);
  // An error means "none yet" (no quorums, as on a single node) or a version without ChainLocks. Depth decides instead.
  if (!reply || reply.error || best.known_block === false || !best.blockhash) return NO_LOCK;
  const height = integer(best.height);
  if (now && !now.error && now.result === best.blockhash) return { chainlock: height, tip: text(best.blockhash) };
  const [there, tip] = await post([['getblockhash', height], ['getbestblockhash']]);
  return there && tip && !there.error && text(there.result) === text(best.blockhash)
    ? { chainlock: height, tip: text(tip.result) }
    : NO_LOCK;
}

// What spending needs from a node of the Bitcoin Core family: unspent outputs, the transactions that made them, and sending.

/** Calls in one batch. */
const CALLS_AT_ONCE = 50;
/** Errors that mean that the node already has the transaction, in its mempool or in a block. */
const KNOWN_CODE = -27;
const KNOWN_TEXT = /already (in|known)|txn-already/i;
/** Errors about the transaction: it cannot be read, its inputs are not there, or a rule forbids it. Others are about the node. */
const REFUSAL_CODES: readonly number[] = [-22, -25, -26];

function createCoreOutlet({
  coin,
  calls: { post, failure },
  bytesOf,
}: {
  coin: BitcoinFamily;
  calls: Pick<CoreCalls, 'post' | 'failure'>;
  /** The bytes of a block. */
  bytesOf(hash: string): Promise<Buffer>;
}): Outlet {
  const resultsOf = async (calls: readonly CoreCall[]): Promise<unknown[]> => {
    const results: unknown[] = [];
    for (let at = 0; at < calls.length; at += CALLS_AT_ONCE)
      for (const reply of await post(calls.slice(at, at + CALLS_AT_ONCE))) {
        if (reply.error) throw failure(reply.error, calls[at]![0]);
        results.push(reply.result);
      }
    return results;
  };
  const inBlocks = async (wanted: readonly { txid: string; blockHash: string }[]): Promise<RawTransaction[]> => {
    const found = new Map<string, RawTransaction>();
    const txids = new Set(wanted.map(({ txid }) => txid));
    for (const hash of new Set(wanted.map(({ blockHash }) => blockHash)))
      for (const tx of (await readCoreBlock(await bytesOf(hash), { hash, coin, server: 'the node' })).transactions) {
        const txid = txidOf(tx);
        if (txids.has(txid)) found.set(txid, tx);
      }
    return wanted.map(({ txid }) => found.get(txid) ?? missing(coin, txid));
  };
  const byCall = async (wanted: readonly { txid: string; blockHash: string }[]): Promise<RawTransaction[]> => {
    const results = await resultsOf(wanted.map(({ txid, blockHash }): CoreCall => ['getrawtransaction', txid, false, blockHash]));
    return results.map((hex, i) => readTransactionOf(wanted[i]!.txid, text(hex), { coin, server: `the ${coin} node` }));
  };
  const unspentOf = (outpoints: readonly string[], { onlyBlocks }: { onlyBlocks: boolean }): Promise<unknown[]> =>
    resultsOf(
      outpoints.map((outpoint): CoreCall => {
        const [txid, n] = outpoint.split(':');
        return ['gettxout', txid, Number(n), !onlyBlocks];
      }),
    );
  return {
    areUnspent: async (outpoints, options = { onlyBlocks: false }) =>
      (await unspentOf(outpoints, options)).map((result) => result !== null),
    depthOf: async (outpoints) => {
      const [found] = (await unspentOf(outpoints, { onlyBlocks: true })).filter((result) => result !== null);
      if (found === undefined) return null;
      const { bestblock, confirmations } = found as Record<string, unknown>;
      if (integer(confirmations) < 1) throw new ChainError('outage', `the ${coin} node did not say how deep an output is`);
      return { best: text(bestblock), confirmations: integer(confirmations) };
    },
    // Old nodes find a mined transaction only in its block.
    readTransactions: async (wanted) => (await (PARAMS[coin].oldCalls ? inBlocks : byCall)(wanted)).map(strippedOf),
    send: async (raw) => {
      const [reply] = await post([['sendrawtransaction', Buffer.from(raw).toString('hex')]]);
      if (!reply) throw new ChainError('outage', `the ${coin} node did not answer`);
      const { error } = reply;
      if (!error && reply.result !== txidOf(parseTransaction(Buffer.from(raw), coin)))
        throw new ChainError('outage', `the ${coin} node answered something else than the transaction that it was sent`);
      if (!error || error.code === KNOWN_CODE || KNOWN_TEXT.test(error.message)) return;
      if (REFUSAL_CODES.includes(error.code)) throw new ChainError('refused', error.message.slice(0, 300));
      throw failure(error, 'sendrawtransaction');
    },
  };
}

function missing(coin: BitcoinFamily, txid: string): never {
  throw new ChainError('outage', `the ${coin} node did not return the transaction ${txid}`);
}
