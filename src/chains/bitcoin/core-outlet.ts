/** What spending needs from a node of the Bitcoin Core family: unspent outputs, the transactions that made them, and sending. */
import type { BitcoinFamily } from '../../core/coin.ts';
import { ChainError, type Outlet } from '../chain.ts';
import { readCoreBlock, readTransactionOf } from './core-blocks.ts';
import { type CoreCall, type CoreCalls, integer, text } from './core-calls.ts';
import { PARAMS } from './params.ts';
import { type RawTransaction, strippedOf, txidOf } from './raw-block.ts';

/** Calls in one batch. */
const BATCH = 50;
/** Errors that mean that the node already has the transaction, in its mempool or in a block. */
const KNOWN_CODE = -27;
const KNOWN_TEXT = /already (in|known)|txn-already/i;

export function createCoreOutlet({
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
    for (let at = 0; at < calls.length; at += BATCH)
      for (const reply of await post(calls.slice(at, at + BATCH))) {
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
      if (!error || error.code === KNOWN_CODE || KNOWN_TEXT.test(error.message)) return;
      const outage = failure(error, 'sendrawtransaction');
      throw outage.kind === 'unsupported' || error.code < -400 ? outage : new ChainError('refused', error.message.slice(0, 300));
    },
  };
}

function missing(coin: BitcoinFamily, txid: string): never {
  throw new ChainError('outage', `the ${coin} node did not return the transaction ${txid}`);
}
