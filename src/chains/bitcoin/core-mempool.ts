/** The mempool of a node of the Bitcoin Core family: what is new in it since the last poll, as raw transactions. */
import { randomInt, randomUUID } from 'node:crypto';
import type { BitcoinFamily } from '#core/coin';
import type { Log } from '#log';
import { ChainError, type ChainHealth, type ChainSource, orNull, type Sighting } from '../chain-source.ts';
import { fields } from '../reply.ts';
import { amount, type CoreCall, type CoreCalls, type CoreReader, isNotFound, rowsOfReply, text } from './core-calls.ts';
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

// The ids of a node's mempool as bytes in one table. A list of hundreds of thousands is read in small parts as it arrives, because parsing
// it as JSON strings would block the event loop for a quarter of a second.

const ID_DIGITS = 64;
const WORDS = 8;
const QUOTE = 0x22;
const LIST_ENDS = 0x5d;
/** The list starts within this many bytes of the reply. */
const BEGINS_WITHIN = 16_384;
const FIRST_SLOTS = 1_024;

/** The value of each hex digit by character; 255 for other characters. */
const DIGITS = new Uint8Array(256).fill(255);
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  DIGITS[digit.charCodeAt(0)] = value;
  DIGITS[digit.toUpperCase().charCodeAt(0)] = value;
}

type MempoolList = CoreReader & {
  /** Adds ids from another reply. */
  add(txids: readonly string[]): void;
  /** Makes this the last list. `has`: whether it contains an id; `fresh`: its unread ids, limited; `more`: whether there are others. */
  commit(): { has(txid: string): boolean; fresh: string[]; more: boolean };
};
type MempoolIds = {
  /** Starts a new list. An unfinished list changes nothing. `most`: how many ids `fresh` holds. */
  list(options: { most: number }): MempoolList;
  /** Marks ids as read: while they stay in the lists they are not `fresh` again. */
  markRead(txids: readonly string[]): void;
};

/** A table of ids. Its calls work on one id at a time, the one that `want` read last. */
type IdTable = {
  /** Reads digits; false when they are not hex digits. */
  want(bytes: Uint8Array, from: number): boolean;
  /** Notes that this list contains the id. `before`: the last complete list; an id that it did not contain counts as unread. */
  note(list: number, before: number): 'new' | 'read' | 'noted';
  /** The list that contained the id last; 0: none. */
  lastList(): number;
  markRead(): void;
};

/** New ids reuse the slots of those that left the mempool. */
function createIdTable(): IdTable {
  // Random, so that an attacker cannot create transactions whose ids collide.
  const [seed, factor] = [randomInt(2 ** 32), randomInt(2 ** 31) * 2 + 1];
  let words = new Uint32Array(FIRST_SLOTS * WORDS);
  /** By slot: the last list that contained the id; 0: the slot is free. */
  let listed = new Uint32Array(FIRST_SLOTS);
  let read = new Uint8Array(FIRST_SLOTS);
  let used = 0;
  /** The id to look up. */
  const wanted = new Uint32Array(WORDS);

  const slotOf = (): number => {
    const mask = listed.length - 1;
    let hash = Math.imul(wanted[0]! ^ seed, factor) ^ wanted[1]!;
    hash = Math.imul(hash ^ (hash >>> 15), factor);
    for (let slot = (hash ^ (hash >>> 13)) & mask; ; slot = (slot + 1) & mask) {
      if (listed[slot] === 0) return slot;
      let i = 0;
      while (i < WORDS && words[slot * WORDS + i] === wanted[i]) i++;
      if (i === WORDS) return slot;
    }
  };
  const put = (slot: number): void => {
    words.set(wanted, slot * WORDS);
    used++;
  };
  /** Creates a larger table, without the ids that were last listed before that list. */
  const grow = (last: number): void => {
    const before = { words, listed, read };
    const id = wanted.slice();
    let kept = 0;
    for (const at of listed) if (at >= last && at !== 0) kept++;
    let size = FIRST_SLOTS;
    while (size < kept * 3) size *= 2;
    words = new Uint32Array(size * WORDS);
    listed = new Uint32Array(size);
    read = new Uint8Array(size);
    used = 0;
    for (const [old, at] of before.listed.entries()) {
      if (at === 0 || at < last) continue;
      wanted.set(before.words.subarray(old * WORDS, (old + 1) * WORDS));
      const slot = slotOf();
      put(slot);
      listed[slot] = at;
      read[slot] = before.read[old]!;
    }
    wanted.set(id);
  };
  return {
    want: (bytes, from) => readDigits(bytes, from, wanted),
    note: (list, before) => {
      let slot = slotOf();
      if (listed[slot] === 0) {
        if ((used + 1) * 3 > listed.length * 2) {
          grow(before);
          slot = slotOf();
        }
        put(slot);
        read[slot] = 0;
      } else if (listed[slot]! < before) read[slot] = 0;
      const is = listed[slot] === list ? 'noted' : read[slot] === 0 ? 'new' : 'read';
      listed[slot] = list;
      return is;
    },
    lastList: () => listed[slotOf()]!,
    markRead: () => {
      const slot = slotOf();
      if (listed[slot] !== 0) read[slot] = 1;
    },
  };
}

/** Reads the digits of an id into words; false when they are not hex digits. */
function readDigits(bytes: Uint8Array, from: number, into: Uint32Array): boolean {
  let wrong = 0;
  for (let i = 0; i < WORDS; i++) {
    let word = 0;
    for (let at = from + i * 8; at < from + i * 8 + 8; at++) {
      const digit = DIGITS[bytes[at]!]!;
      wrong |= digit;
      word = (word << 4) | digit;
    }
    into[i] = word;
  }
  return wrong < 16;
}

/** Finds the ids in a reply as its parts arrive. `takeId` returns false for what is not an id. */
function createListReader(takeId: (bytes: Buffer, from: number) => boolean): CoreReader {
  let state: 'before' | 'within' | 'after' | 'other' = 'before';
  const rest: Buffer[] = [];
  let held = Buffer.alloc(0);
  const takeWithin = (part: Buffer): void => {
    let at = 0;
    for (; at < part.length && state === 'within'; at++) {
      if (part[at] === LIST_ENDS) {
        state = 'after';
        rest.push(part.subarray(at));
      } else if (part[at] === QUOTE) {
        if (at + ID_DIGITS + 1 >= part.length) break;
        if (part[at + ID_DIGITS + 1] !== QUOTE || !takeId(part, at + 1)) {
          // The rest of the reply is not valid JSON, and is reported as such.
          state = 'other';
          return;
        }
        at += ID_DIGITS + 1;
      }
    }
    held = state === 'within' ? Buffer.from(part.subarray(at)) : Buffer.alloc(0);
  };
  const takeBefore = (part: Buffer): void => {
    held = Buffer.concat([held, part]);
    const begins = /"result"\s*:\s*\[/.exec(held.toString('latin1', 0, BEGINS_WITHIN));
    if (begins) {
      const from = begins.index + begins[0].length;
      const all = held;
      rest.push(all.subarray(0, from));
      state = 'within';
      takeWithin(all.subarray(from));
    } else if (held.length >= BEGINS_WITHIN) {
      rest.push(held);
      state = 'other';
    }
  };
  return {
    take: (part) => {
      if (state === 'before') takeBefore(part);
      else if (state === 'within') takeWithin(held.length > 0 ? Buffer.concat([held, part]) : part);
      else rest.push(part);
    },
    taken: () => false,
    text: () => (state === 'before' ? held : Buffer.concat(rest)).toString(),
  };
}

export function createMempoolIds(): MempoolIds {
  const table = createIdTable();
  let lists = 0;
  let last = 0;
  const wantText = (txid: string): boolean => txid.length === ID_DIGITS && table.want(Buffer.from(txid, 'latin1'), 0);
  return {
    list: ({ most }) => {
      const own = ++lists;
      const before = last;
      const fresh: string[] = [];
      let more = false;
      const takeId = (bytes: Buffer, from: number): boolean => {
        if (!table.want(bytes, from)) return false;
        if (table.note(own, before) === 'new') {
          if (fresh.length < most) fresh.push(bytes.toString('latin1', from, from + ID_DIGITS).toLowerCase());
          else more = true;
        }
        return true;
      };
      return {
        ...createListReader(takeId),
        add: (txids) => {
          for (const txid of txids) if (txid.length === ID_DIGITS) takeId(Buffer.from(txid, 'latin1'), 0);
        },
        commit: () => {
          last = own;
          return { has: (txid) => wantText(txid) && table.lastList() >= own, fresh, more };
        },
      };
    },
    markRead: (txids) => {
      for (const txid of txids) if (wantText(txid)) table.markRead();
    },
  };
}
