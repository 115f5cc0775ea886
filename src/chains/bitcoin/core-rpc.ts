/** A Bitcoin-Core-family node over JSON-RPC, from Litecoin 0.21 and Dogecoin 1.14 to today's Core: every key of a reply is optional. */
import type { Clock } from '../../core/clock.ts';
import { type BitcoinFamily, finalityOf, type Network } from '../../core/coin.ts';
import type { Log } from '../../log.ts';
import type { Outgoing } from '../../outgoing.ts';
import { ChainError, type ChainSource, orNull, type Unspent } from '../chain.ts';
import { fields } from '../reply.ts';
import { createCoreBlocks } from './core-blocks.ts';
import { type CoreCall, type CoreCalls, createCoreCalls, text } from './core-calls.ts';
import { readCoreFees } from './core-fees.ts';
import { coreHeader, createCoreHeaders, readRawHeaders } from './core-headers.ts';
import { inspectCore, readCoreHealth } from './core-health.ts';
import { bestChainLock, lockOf } from './core-locks.ts';
import { createCoreMempool } from './core-mempool.ts';
import { createCoreOutlet } from './core-outlet.ts';
import { createCoreTransactions } from './core-transactions.ts';

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
