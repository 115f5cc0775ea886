/** Waiting transactions of an Ethereum node. */
import type { ChainSource, Matcher, MempoolScan, Sighting } from '../chain.ts';
import { fields } from '../reply.ts';
import { type EthRpc, failure, quantity } from './eth-rpc.ts';
import { type EthTransaction, outpoint, readTransaction } from './value-moves.ts';

/** A larger mempool is not read as a whole; the pending block is read instead. */
const MAX_POOL = 5_000;

/** A waiting transaction, as far as it can be read: nodes may omit fields that they have not checked. */
function readable(value: unknown): EthTransaction[] {
  try {
    return [readTransaction(value)];
  } catch {
    // An unreadable transaction is seen when it is mined.
    return [];
  }
}

type Pool = { ready: EthTransaction[]; known: Set<string> };

/** Waiting transactions: those that could be mined next, and the ids of all that the node lists. */
async function readPool({ attempt, batch }: EthRpc): Promise<Pool> {
  const status = fields(await attempt({ call: ['txpool_status'] }));
  const size = [status.pending, status.queued].reduce((sum: bigint, n) => sum + (typeof n === 'string' ? quantity(n) : 0n), 0n);
  const content = status.pending === undefined || size > MAX_POOL ? undefined : await attempt({ call: ['txpool_content'] });
  const listed = (section: unknown) =>
    Object.values(fields(section)).flatMap((byNonce) => Object.values(fields(byNonce)).flatMap(readable));
  if (content !== undefined) {
    // Queued transactions wait for an earlier nonce or for funds. They may never be mined, so they do not count as seen.
    const ready = listed(fields(content).pending);
    return { ready, known: new Set([...ready, ...listed(fields(content).queued)].map((tx) => tx.txid)) };
  }
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

export async function fetchPool(rpc: EthRpc): ReturnType<ChainSource['fetchMempool']> {
  const { ready, known } = await readPool(rpc);
  return {
    scan: async (matcher) => {
      const found = scanOfPool(ready, matcher);
      // The list may be incomplete, so the relevant transactions are requested individually.
      const unlisted = matcher.waiting.filter((txid) => !known.has(txid));
      const replies = await rpc.batch(unlisted.map((txid) => ['eth_getTransactionByHash', txid]));
      for (const [i, txid] of unlisted.entries()) {
        const reply = replies[i];
        if (reply?.error) throw failure(reply.error, 'eth_getTransactionByHash');
        if (reply && reply.result !== null) known.add(txid);
      }
      return { ...found, present: known };
    },
    done: () => {},
  };
}
