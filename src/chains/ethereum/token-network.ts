/**
 * A node or provider of an Ethereum-like chain where only tokens count. They are read from the logs of receipts, so blocks need no traces
 * and no balances, and nothing counts before it is in a block.
 */
import type { Outgoing } from '#connections';
import { type Coin, chainOf, type Network, settingOf } from '#core/coin';
import type { Log } from '#log';
import { ChainError, type ChainSource, type MempoolScan } from '../chain-source.ts';
import { ethHeader, headerOrNull, readEthBlock, scanOf } from './eth-block.ts';
import { readHealth, readTaggedFinality } from './eth-health.ts';
import { createEthRpc, quantity, toHex } from './eth-rpc.ts';
import { findTransaction, readState } from './eth-transactions.ts';
import { readFees, readGasFee } from './fees.ts';
import { readContracts, tokensBeside } from './token-logs.ts';
import { createRangeReader } from './token-ranges.ts';

const NOTHING_WAITS: MempoolScan = { sightings: [], conflicts: [], present: new Set() };

/** Creates the reader of one node. It connects on demand and does not poll. */
export function createTokenNetworkSource({
  coin,
  network,
  chainId,
  url,
  outgoing,
  log,
  retryMs,
}: {
  /** Names the chain. */
  coin: Coin;
  network: Network;
  chainId: number;
  url: string;
  outgoing: Outgoing;
  log: Log;
  /** First pause after a rate limit without Retry-After. */
  retryMs?: number;
}): ChainSource {
  const rpc = createEthRpc({ coin, url, outgoing, log, ...(retryMs !== undefined && { retryMs }) });
  const { call } = rpc;
  const tokens = tokensBeside(coin, network);
  const { networkName: name } = chainOf(coin);
  return nameNetwork<ChainSource>(name, {
    coin,
    network,
    genesis: async () => {
      const id = quantity(await call('eth_chainId'));
      if (id !== BigInt(chainId))
        throw new ChainError(
          'wrong_network',
          `the ${name} source is on chain ${id}, but ${name} is chain ${chainId} (${settingOf(coin)}_NETWORK)`,
        );
      return String(chainId);
    },
    health: () => readHealth({ rpc, network, chainId }),
    tip: async () => ethHeader(await call('eth_getBlockByNumber', 'latest', false)),
    blockAt: async (height) => headerOrNull(await call('eth_getBlockByNumber', toHex(height), false)),
    block: async (hash) => headerOrNull(await call('eth_getBlockByHash', hash, false)),
    fetchBlock: async (hash) => {
      const block = await readEthBlock(hash, rpc);
      return { ref: block.ref, scan: (matcher) => scanOf(block, { gains: [], tokens, matcher }) };
    },
    fetchMempool: async () => ({ scan: () => NOTHING_WAITS, done: () => {} }),
    contracts: (only) => readContracts(rpc, { coin, network, only }),
    ranges: createRangeReader(rpc, { coin, tokens }),
    txState: (txid) => readState(txid, rpc),
    ask: rpc.batch,
    finality: () => readTaggedFinality(rpc),
    transaction: (txid) => findTransaction(txid, rpc),
    addressSummary: async () => {
      throw new ChainError(
        'unsupported',
        'a node or provider does not know what an address received and sent in total; that needs an index',
      );
    },
    fees: () => readFees(rpc),
    gasFee: () => readGasFee(rpc, { coin, network }),
    unusable: rpc.unusable,
    close: () => rpc.close(),
  });
}

// Names the network in every error of a source, because several networks share the code that reads their nodes.

function named(name: string, error: unknown): unknown {
  if (!(error instanceof ChainError) || error.message.includes(name)) return error;
  error.message = /\bthe source\b/.test(error.message)
    ? error.message.replace(/\bthe source\b/, `the ${name} source`)
    : `${name}: ${error.message}`;
  return error;
}

/** The same functions, also those of parts such as `ranges`. */
function nameNetwork<T extends object>(name: string, part: T): T {
  const wrap = (value: unknown): unknown => {
    if (typeof value === 'function')
      return (...given: unknown[]) => {
        try {
          const result = value(...given);
          if (!(result instanceof Promise)) return result;
          return result.catch((error: unknown) => {
            throw named(name, error);
          });
        } catch (error) {
          throw named(name, error);
        }
      };
    const isPart = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
    return isPart ? nameNetwork(name, value) : value;
  };
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, wrap(value)])) as T;
}
