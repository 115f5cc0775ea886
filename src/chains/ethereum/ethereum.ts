/**
 * An Ethereum node or provider over JSON-RPC. Every header and block is checked against its hash, so a node that lies can only leave a
 * block out. ETH also moves inside contracts, where transactions do not show it: each block is read with the best method that the node
 * offers (value logs, access lists, balances), and with that method only. Tokens are read from the same receipts.
 */
import type { Network } from '../../core/coin.ts';
import type { Log } from '../../log.ts';
import type { Outgoing } from '../../outgoing.ts';
import { type BlockScan, ChainError, type ChainSource, type Matcher, NO_FINALITY } from '../chain.ts';
import type { AuditFacts } from './eth-balance-audit.ts';
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
import { createEthDoubt } from './eth-doubt.ts';
import { createGainReader } from './eth-gains.ts';
import { createHealthReader, inspectProvider, readFinality, readHealth } from './eth-health.ts';
import { createPoolReader } from './eth-pool.ts';
import { createEthRpc, quantity, toHex } from './eth-rpc.ts';
import { findTransaction, readState } from './eth-transactions.ts';
import { readFees, readGasFee } from './fees.ts';
import { readContracts } from './token-contracts.ts';
import { tokensBeside } from './token-logs.ts';

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
    return found;
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
