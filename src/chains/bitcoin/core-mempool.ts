/** The mempool of a node of the Bitcoin Core family: what is new in it since the last poll, as raw transactions. */
import { randomUUID } from 'node:crypto';
import type { BitcoinFamily } from '../../core/coin.ts';
import type { Log } from '../../log.ts';
import { ChainError, type ChainHealth, type ChainSource, orNull, type Sighting } from '../chain.ts';
import { fields } from '../reply.ts';
import { amount, type CoreCall, type CoreCalls, isNotFound, rowsOfReply, text } from './core-calls.ts';
import { createMempoolIds, type MempoolIds } from './mempool-ids.ts';
import { matchInTurns, parseTransaction, type RawTransaction } from './raw-block.ts';

/** Transactions requested in one batch. */
const BATCH = 50;
/** New mempool transactions read in one poll; after a start the rest waits for the next poll. */
const MAX_FRESH = 20_000;
/** A mempool list that seems unchanged is read again after this many polls. */
const MAX_UNREAD_LOOKS = 20;

/** What a poll found: the tip at that time, which ids the mempool has, and those that are new; `more`: not all of them. */
type Listed = { beside: string; has(txid: string): boolean; fresh: string[]; more: boolean };
/** The last mempool read: the node's summary of its state, the tip at that time, and whether all of it was read. */
type Last = { state: string; beside: string; has(txid: string): boolean; complete: boolean };

export type CoreMempool = {
  /** A value that changes with the mempool, from the node's summary; null when two mempools may look the same (no sum of fees). */
  stateOf(info: unknown): string | null;
  fetch: ChainSource['fetchMempool'];
};

export function createCoreMempool({ coin, calls, log }: { coin: BitcoinFamily; calls: CoreCalls; log: Log }): CoreMempool {
  const ids = createMempoolIds();
  const lists = createLists({ calls, ids });
  /**
   * LTC: peg-outs of the mempool, by transaction; returned by every poll. Their mined transfer is in another transaction, so one that lost
   * its block must be shown again, even if no poll happened while it was in the block.
   */
  const pegged = new Map<string, readonly Sighting[]>();
  return {
    stateOf: lists.stateOf,
    fetch: async (health) => {
      const { beside, has, fresh, more } = (health && lists.unchanged(health)) ?? (await lists.read());
      for (const txid of pegged.keys()) if (!has(txid)) pegged.delete(txid);
      const { transactions, txids, incomplete } = await readWaiting(fresh, { coin, calls, log, pegged });
      const waiting = [...pegged.values()].flat();
      const isComplete = lists.completion();
      return {
        beside,
        scan: async (matcher) => {
          const { sightings, conflicts } = await matchInTurns(transactions, matcher, () => 'output');
          sightings.unshift(...waiting.filter((s) => matcher.has(s.key)));
          return { sightings, conflicts, present: { has }, ...((more || incomplete !== null) && { complete: false, incomplete }) };
        },
        done: () => {
          ids.markRead(txids);
          if (txids.length === fresh.length && !more) isComplete();
        },
      };
    },
  };
}

/** The lists of ids, read as they arrive. A list that cannot have changed since the last poll is not read again. */
function createLists({ calls: { read, failure }, ids }: { calls: CoreCalls; ids: MempoolIds }) {
  /** Another node's mempool may look the same. */
  const own = randomUUID();
  let last: Last | null = null;
  let unread = 0;
  const stateOf = (info: unknown): string | null => {
    const { size, bytes, usage, total_fee: fees } = fields(info);
    return fees === undefined ? null : [own, size, bytes, usage, fees].join(' ');
  };
  return {
    stateOf,
    /** The mempool as it was last read; null when it may have changed since. */
    unchanged: (health: ChainHealth): Listed | null => {
      if (!last?.complete || unread >= MAX_UNREAD_LOOKS) return null;
      if (health.mempool !== last.state || health.tip.hash !== last.beside) return null;
      unread++;
      return { beside: last.beside, has: last.has, fresh: [], more: false };
    },
    /** The ids of the mempool and the tip at that time. The summary is requested first, so changes in between are seen again. */
    read: async (): Promise<Listed> => {
      unread = 0;
      const { replies, reader } = await read([['getmempoolinfo'], ['getrawmempool'], ['getbestblockhash']], 1, () =>
        ids.list({ most: MAX_FRESH }),
      );
      const [info, pool, best] = replies ?? [];
      if (!info || !pool || !best) throw new ChainError('outage', 'the node did not answer with its mempool');
      if (pool.error) throw failure(pool.error, 'getrawmempool');
      if (best.error) throw failure(best.error, 'getbestblockhash');
      reader.add(rowsOfReply(pool.result).map(text));
      const { has, fresh, more } = reader.commit();
      const beside = text(best.result);
      const state = info.error ? null : stateOf(info.result);
      // New ids count as read once they were returned.
      last = state === null ? null : { state, beside, has, complete: fresh.length === 0 };
      return { beside, has, fresh, more };
    },
    /** To be called once everything of the current list was read. */
    completion: (): (() => void) => {
      const now = last;
      return () => {
        if (now) now.complete = true;
      };
    },
  };
}

/** Mempool transactions by id; `txids`: those that need not be read again; `incomplete`: why some could not be read. */
async function readWaiting(
  fresh: readonly string[],
  { coin, calls, log, pegged }: { coin: BitcoinFamily; calls: CoreCalls; log: Log; pegged: Map<string, readonly Sighting[]> },
): Promise<{ transactions: RawTransaction[]; txids: string[]; incomplete: string | null }> {
  const transactions: RawTransaction[] = [];
  const txids: string[] = [];
  let refusal: ChainError | null = null;
  for (let i = 0; i < fresh.length; i += BATCH) {
    const part = fresh.slice(i, i + BATCH);
    const replies = await calls.post(part.map((txid): CoreCall => ['getrawtransaction', txid, 0]));
    for (const [j, txid] of part.entries()) {
      const reply = replies[j];
      // It may have left the mempool in between. If it returns, it is requested again. Any other error hides what it pays.
      if (!reply || reply.error) {
        if (reply?.error && !isNotFound(reply.error)) refusal ??= calls.failure(reply.error, 'getrawtransaction');
        continue;
      }
      try {
        const tx = parseTransaction(Buffer.from(text(reply.result), 'hex'), coin);
        transactions.push({ ...tx, ids: Buffer.from(txid, 'hex').reverse(), idAt: 0 });
        if (tx.mweb) pegged.set(txid, pegoutsOf(txid, await orNull(calls.call('getrawtransaction', txid, 1))));
      } catch (error) {
        if (error instanceof ChainError) throw error;
        log.warn({ coin, txid, reason: (error as Error).message }, 'Cannot read an unconfirmed transaction');
      }
      txids.push(txid);
    }
  }
  // A node that shows none of them cannot be read; another one may be.
  if (refusal !== null && txids.length === 0) throw refusal;
  return { transactions, txids, incomplete: refusal?.message ?? null };
}

/** LTC: a payment from an MWEB wallet shows in the mempool only as a peg-out of the transaction's kernels. */
export const pegoutsOf = (txid: string, transaction: unknown): Sighting[] =>
  rowsOfReply(fields(transaction).vkern)
    .flatMap((kernel) => rowsOfReply(fields(kernel).pegout))
    .map((pegout, i) => {
      const script = fields(pegout).scriptPubKey;
      return {
        key: typeof script === 'string' ? script : text(fields(script).hex),
        ref: `${txid}:pegout:${i}`,
        txid,
        units: amount(fields(pegout).value),
        kind: 'pegout',
        spends: [],
        lock: null,
      };
    });
