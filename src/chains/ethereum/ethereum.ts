/**
 * An Ethereum node or provider over JSON-RPC. ETH also moves inside contracts, where transactions do not show it: each block is
 * read with the best method that the node offers (value logs, access lists, balances), and with that method only. Tokens are read from
 * the same receipts.
 */
import type { Network } from '../../core/coin.ts';
import type { Log } from '../../log.ts';
import type { Outgoing } from '../../outgoing.ts';
import { ChainError, type ChainSource } from '../chain.ts';
import { headerOf, headerOrNull, readBlock, scanOf } from './eth-block.ts';
import { createGainReader } from './eth-gains.ts';
import { readFinality, readHealth } from './eth-health.ts';
import { fetchPool } from './eth-pool.ts';
import { createEthRpc, quantity, toHex } from './eth-rpc.ts';
import { findTransaction, readState } from './eth-transactions.ts';
import { readFees } from './fees.ts';
import { readContracts } from './token-contracts.ts';
import { tokensBeside } from './token-logs.ts';

/** Creates the reader of one node. It connects on demand and does not poll. */
export function createEthereumSource({
  network,
  chainId,
  url,
  outgoing,
  log,
  retryMs,
  traceMs,
}: {
  network: Network;
  chainId: number;
  url: string;
  outgoing: Outgoing;
  log: Log;
  /** First pause after a rate limit without Retry-After. */
  retryMs?: number;
  /** Time limit for the traces of one block. */
  traceMs?: number;
}): ChainSource {
  const rpc = createEthRpc({ url, outgoing, log, ...(retryMs !== undefined && { retryMs }) });
  const { call } = rpc;
  const gains = createGainReader({ rpc, log, ...(traceMs !== undefined && { traceMs }) });
  const tokens = tokensBeside('ETH', network);
  return {
    coin: 'ETH',
    network,
    genesis: async () => {
      const id = quantity(await call('eth_chainId'));
      if (id !== BigInt(chainId)) throw new ChainError('wrong_network', `the ETH node is on chain ${id}, ETH_CHAIN_ID says ${chainId}`);
      return String(chainId);
    },
    health: () => readHealth({ rpc, network, chainId }),
    tip: async () => headerOf(await call('eth_getBlockByNumber', 'latest', false)),
    blockAt: async (height) => headerOrNull(await call('eth_getBlockByNumber', toHex(height), false)),
    block: async (hash) => headerOrNull(await call('eth_getBlockByHash', hash, false)),
    fetchBlock: async (hash) => {
      const block = await readBlock(hash, rpc);
      return { ref: block.ref, scan: async (matcher) => scanOf(block, { gains: await gains.read(block, matcher), tokens, matcher }) };
    },
    fetchMempool: () => fetchPool(rpc),
    contracts: () => readContracts(rpc, { coin: 'ETH', network }),
    txState: (txid) => readState(txid, rpc),
    finality: () => readFinality(rpc),
    transaction: (txid) => findTransaction(txid, rpc),
    addressSummary: async () => {
      throw new ChainError(
        'unsupported',
        'an ETH node knows the balance of an address but not what it received and sent in total; that needs an index',
      );
    },
    fees: () => readFees(rpc),
    readUnspent: async ({ address }) => ({ units: quantity(await call('eth_getBalance', address, 'latest')), leavingUnits: 0n }),
    ask: rpc.batch,
    unusable: rpc.unusable,
    close: () => rpc.close(),
  };
}
