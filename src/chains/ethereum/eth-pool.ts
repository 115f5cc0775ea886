/** Waiting transactions of an Ethereum node. */
import type { ChainSource, Matcher, MempoolScan, Sighting } from '../chain.ts';
import { fields } from '../reply.ts';
import { type Balances, pendingBalances } from './eth-balances.ts';
import { type EthRpc, failure, quantity, readOrNull } from './eth-rpc.ts';
import { type EthTransaction, outpoint, readEthTransaction } from './value-moves.ts';

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
  const content = status.pending === undefined || size > MAX_POOL ? undefined : await attempt({ call: ['txpool_content'] });
  if (content === undefined) return null;
  const listed = (section: unknown) =>
    Object.values(fields(section)).flatMap((byNonce) => Object.values(fields(byNonce)).flatMap(readable));
  // Queued transactions wait for an earlier nonce or for funds. They may never be mined, so they do not count as seen.
  const ready = listed(fields(content).pending);
  return { ready, known: new Set([...ready, ...listed(fields(content).queued)].map((tx) => tx.txid)) };
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
export function createPoolReader(rpc: EthRpc): ChainSource['fetchMempool'] {
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
