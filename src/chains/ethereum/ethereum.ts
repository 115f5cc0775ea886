/**
 * An Ethereum node or provider over JSON-RPC. Every header and block is checked against its hash, so a node that lies can only leave a
 * block out. ETH also moves inside contracts, where transactions do not show it: each block is read with the best method that the node
 * offers (value logs, access lists, balances), and with that method only. Tokens are read from the same receipts.
 */
import type { Outgoing } from '#connections';
import type { Network } from '#core/coin';
import { ProofError } from '#evm';
import type { Log } from '#log';
import {
  type BlockScan,
  ChainError,
  type ChainSource,
  type Matcher,
  type MempoolScan,
  NO_FINALITY,
  type Sighting,
} from '../chain-source.ts';
import { fields } from '../reply.ts';
import type { AuditFacts } from './eth-balance-audit.ts';
import { type Balances, pendingBalances } from './eth-balances.ts';
import {
  type ProvenBlock,
  placesNamed,
  placesPaying,
  proveIdentities,
  provenRef,
  provenRefOrNull,
  readProvenBlock,
  scanOf,
} from './eth-block.ts';
import { createGainReader } from './eth-gains.ts';
import { createHealthReader, inspectProvider, readFinality, readHealth } from './eth-health.ts';
import { createEthRpc, type EthRpc, failure, quantity, readOrNull, toHex } from './eth-rpc.ts';
import { findTransaction, readState } from './eth-transactions.ts';
import { readFees, readGasFee } from './fees.ts';
import { readContracts, tokensBeside } from './token-logs.ts';
import { type EthTransaction, outpoint, readEthTransaction } from './value-moves.ts';

/** Creates the reader of one node. It connects on demand and does not poll. */
export function createEthereumSource({
  network,
  chainId,
  url,
  isOwn,
  outgoing,
  log,
  retryMs,
  traceMs,
  doubtMs,
  facts,
}: {
  network: Network;
  chainId: number;
  url: string;
  /** Whether the operator runs it. Of others, nothing counts that is not proven. */
  isOwn: boolean;
  outgoing: Outgoing;
  log: Log;
  /** First pause after a rate limit without Retry-After. */
  retryMs?: number;
  /** Time limit for the traces of one block. */
  traceMs?: number;
  /** How long it is left out after a block that did not fit its hash. */
  doubtMs?: number;
  /** What the nodes of the coin proved about balances, which they share. */
  facts?: AuditFacts;
}): ChainSource {
  const rpc = createEthRpc({ url, outgoing, log, ...(retryMs !== undefined && { retryMs }) });
  const { call } = rpc;
  const gains = createGainReader({ rpc, isOwn, log, ...(traceMs !== undefined && { traceMs }), ...(facts && { facts }) });
  const readPool = createPoolReader(rpc);
  const asked = { rpc, network, chainId, readHeader: provenRef };
  const health = isOwn ? () => readHealth(asked) : createHealthReader(asked);
  const tokens = tokensBeside('ETH', network);
  const doubt = createEthDoubt(doubtMs);
  const { prove } = doubt;
  const scan = async (block: ProvenBlock, matcher: Matcher): Promise<BlockScan> => {
    // Who sent what to us: a false sender would make it a payment to oneself.
    if (!isOwn) await proveIdentities(block, placesPaying(block, matcher));
    const found = scanOf(block, { gains: await gains.read(block, matcher), tokens, matcher });
    if (!isOwn) await proveIdentities(block, placesNamed(block, found));
    const blind = gains.trouble();
    return { ...found, ...(blind !== null && { blind }) };
  };
  return {
    coin: 'ETH',
    network,
    genesis: async () => {
      const id = quantity(await call('eth_chainId'));
      if (id !== BigInt(chainId)) throw new ChainError('wrong_network', `the ETH source is on chain ${id}, ETH_CHAIN_ID says ${chainId}`);
      return String(chainId);
    },
    health: async () => {
      doubt.check();
      return prove(health);
    },
    ...(!isOwn && { inspect: () => prove(() => inspectProvider(rpc)) }),
    tip: () => prove(async () => provenRef(await call('eth_getBlockByNumber', 'latest', false))),
    blockAt: (height) => prove(async () => provenRefOrNull(await call('eth_getBlockByNumber', toHex(height), false))),
    block: (hash) => prove(async () => provenRefOrNull(await call('eth_getBlockByHash', hash, false))),
    fetchBlock: async (hash) => {
      const block = await doubt.proveBlock(() => readProvenBlock(hash, rpc));
      return { ref: block.ref, scan: (matcher) => doubt.proveBlock(() => scan(block, matcher)) };
    },
    fetchMempool: async () => {
      const fetched = await readPool();
      return {
        ...fetched,
        scan: async (matcher) => {
          const found = await fetched.scan(matcher);
          const incomplete = gains.trouble();
          // Nothing expires on the word of a provider that may hide payments.
          return incomplete === null ? { ...found, provenThrough: gains.provenThrough() } : { ...found, complete: false, incomplete };
        },
      };
    },
    contracts: (only) => readContracts(rpc, { coin: 'ETH', network, only }),
    txState: (txid) => readState(txid, rpc),
    // Nothing proves which blocks are final.
    finality: async () => (isOwn ? prove(() => readFinality(rpc)) : NO_FINALITY),
    transaction: (txid) => prove(() => findTransaction(txid, rpc)),
    addressSummary: async () => {
      throw new ChainError(
        'unsupported',
        'a node or provider knows the balance of an address but not what it received and sent in total; that needs an index',
      );
    },
    fees: () => readFees(rpc),
    gasFee: () => readGasFee(rpc, { coin: 'ETH', network }),
    readUnspent: async ({ address }) => ({ units: quantity(await call('eth_getBalance', address, 'latest')), leavingUnits: 0n }),
    ask: rpc.batch,
    unusable: rpc.unusable,
    close: () => rpc.close(),
  };
}

// Whether a node is believed: one that showed a block that does not fit its hash is left out for a while, with the reason.

/** How long such a node has no vote. Then it is asked again, because it may have been one machine of several. */
const DOUBT_MS = 60_000;

type EthDoubt = {
  /** What was read; a ProofError becomes a ChainError `unproven`. */
  prove<T>(read: () => T | Promise<T>): Promise<T>;
  /** The same for the contents of a block, and the node is left out from then on. */
  proveBlock<T>(read: () => T | Promise<T>): Promise<T>;
  /** Errors: ChainError `unproven` while the node is left out. */
  check(): void;
};

function createEthDoubt(doubtMs: number = DOUBT_MS): EthDoubt {
  let doubted: { reason: string; untilMs: number } | null = null;
  const prove: EthDoubt['prove'] = async (read) => {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ProofError)) throw error;
      throw new ChainError('unproven', error.message, { cause: error });
    }
  };
  return {
    prove,
    proveBlock: async (read) => {
      try {
        return await prove(read);
      } catch (error) {
        if (error instanceof ChainError && error.kind === 'unproven')
          doubted = { reason: error.message, untilMs: performance.now() + doubtMs };
        throw error;
      }
    },
    check: () => {
      if (doubted && performance.now() < doubted.untilMs) throw new ChainError('unproven', doubted.reason);
      doubted = null;
    },
  };
}

// Waiting transactions of an Ethereum node.

/** A larger mempool is not read as a whole; the pending block is read instead. */
const MAX_POOL = 5_000;

/** A waiting transaction, as far as it can be read: nodes may omit fields that they have not checked. */
function readable(value: unknown): EthTransaction[] {
  try {
    return [readEthTransaction(value)];
  } catch {
    // An unreadable transaction is seen when it is mined.
    return [];
  }
}

type Pool = { ready: EthTransaction[]; known: Set<string> };

/** Waiting transactions of a node that lists them: those that could be mined next, and the ids of all; null where it does not. */
async function readListed({ attempt }: EthRpc): Promise<Pool | null> {
  const status = fields(await attempt({ call: ['txpool_status'] }));
  const size = [status.pending, status.queued].reduce((sum: bigint, n) => sum + (readOrNull(() => quantity(n)) ?? 0n), 0n);
  const { pending, queued } = status.pending === undefined || size > MAX_POOL ? {} : fields(await attempt({ call: ['txpool_content'] }));
  // Without a list, or with something else in its place, nothing is said about what waits.
  if (typeof pending !== 'object' || pending === null) return null;
  const listed = (section: unknown) =>
    Object.values(fields(section)).flatMap((byNonce) => Object.values(fields(byNonce)).flatMap(readable));
  // Queued transactions wait for an earlier nonce or for funds. They may never be mined, so they do not count as seen.
  const ready = listed(pending);
  return { ready, known: new Set([...ready, ...listed(queued)].map((tx) => tx.txid)) };
}

/** The transactions of the pending block. */
async function readPending({ batch }: EthRpc): Promise<Pool> {
  const [latest, pending] = await batch([
    ['eth_getBlockByNumber', 'latest', false],
    ['eth_getBlockByNumber', 'pending', true],
  ]);
  const next = fields(pending?.result);
  // Some answer with the latest block instead.
  const isNext = next.parentHash !== undefined && next.parentHash === fields(latest?.result).hash;
  const ready = isNext && Array.isArray(next.transactions) ? next.transactions.flatMap(readable) : [];
  return { ready, known: new Set(ready.map((tx) => tx.txid)) };
}

/** What waiting transactions pay directly to watched accounts. */
export function scanOfPool(ready: readonly EthTransaction[], matcher: Matcher): Pick<MempoolScan, 'sightings' | 'conflicts'> {
  const sightings = ready.flatMap((tx): Sighting[] => {
    const { from, to, txid, units } = tx;
    // What one address of this install sends to another one pays nothing.
    if (to === null || to === from || units <= 0n || !matcher.has(to) || matcher.has(from)) return [];
    return [{ key: to, ref: `${txid}:tx`, txid, units, kind: 'direct', spends: [outpoint(tx)], lock: null }];
  });
  const conflicts = matcher.watchesSpends
    ? ready.filter((tx) => matcher.spends(outpoint(tx))).map((tx) => ({ outpoint: outpoint(tx), txid: tx.txid }))
    : [];
  return { sightings, conflicts };
}

/**
 * Reads waiting transactions, as the list of the node or from its pending block. That block is large, so it is read only if it could show
 * something: the pending balance of an address with an open payment grew, or a transaction of ours waits and could be replaced.
 */
function createPoolReader(rpc: EthRpc): ChainSource['fetchMempool'] {
  /** Balances in the pending state for which the pending block was read. */
  let seen: Balances = new Map();
  const readChanged = async (matcher: Matcher): Promise<Pool> => {
    const open = await matcher.open?.();
    const balances =
      open?.othersEnd === null
        ? await pendingBalances(
            open.listed.map(({ key }) => key),
            rpc,
          )
        : null;
    const grew = balances === null || [...balances].some(([key, units]) => units > (seen.get(key) ?? 0n));
    const isNeeded = grew || matcher.watchesSpends || matcher.waiting.length > 0;
    const pool = isNeeded ? await readPending(rpc) : { ready: [], known: new Set<string>() };
    seen = balances ?? new Map();
    return pool;
  };
  return async () => {
    const listed = await readListed(rpc);
    return {
      scan: async (matcher) => {
        // Read after the tip was: an older block than the recorded one would show transactions that are mined.
        const { ready, known } = listed ?? (await readChanged(matcher));
        const found = scanOfPool(ready, matcher);
        // The list may be incomplete, so the relevant transactions are requested individually.
        const unlisted = matcher.waiting.filter((txid) => !known.has(txid));
        const replies = await rpc.batch(unlisted.map((txid) => ['eth_getTransactionByHash', txid]));
        let reason: string | null = null;
        for (const [i, txid] of unlisted.entries()) {
          const reply = replies[i];
          // A node that cannot say has not lost it either.
          if (reply?.error) reason ??= failure(reply.error, 'eth_getTransactionByHash').message;
          if (reply && (reply.error || reply.result !== null)) known.add(txid);
        }
        return { ...found, present: known, ...(reason !== null && { complete: false, incomplete: reason }) };
      },
      done: () => {},
    };
  };
}
