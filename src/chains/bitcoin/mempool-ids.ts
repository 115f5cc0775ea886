/**
 * The ids of a node's mempool as bytes in one table. A list of hundreds of thousands is read in small parts as it arrives, because
 * parsing it as JSON strings would block the event loop for a quarter of a second.
 */
import { randomInt } from 'node:crypto';
import type { CoreReader } from './core-calls.ts';

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

export type MempoolList = CoreReader & {
  /** Adds ids from another reply. */
  add(txids: readonly string[]): void;
  /** Makes this the last list. `has`: whether it contains an id; `fresh`: its unread ids, limited; `more`: whether there are others. */
  commit(): { has(txid: string): boolean; fresh: string[]; more: boolean };
};
export type MempoolIds = {
  /** Starts a new list. An unfinished list changes nothing. `most`: how many ids `fresh` holds. */
  list(options: { most: number }): MempoolList;
  /** Marks ids as read: while they stay in the lists they are not `fresh` again. */
  markRead(txids: readonly string[]): void;
};

/** Creates the table. New ids reuse the slots of those that left the mempool. */
export function createMempoolIds(): MempoolIds {
  // Random, so that an attacker cannot create transactions whose ids collide.
  const [seed, factor] = [randomInt(2 ** 32), randomInt(2 ** 31) * 2 + 1];
  let words = new Uint32Array(FIRST_SLOTS * WORDS);
  /** By slot: the last list that contained the id; 0: the slot is free. */
  let listed = new Uint32Array(FIRST_SLOTS);
  let read = new Uint8Array(FIRST_SLOTS);
  let used = 0;
  let lists = 0;
  let last = 0;
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
  /** Creates a larger table, without the ids that are no longer listed. */
  const grow = (): void => {
    const before = { words, listed, read };
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
  };
  /** Reads digits into the id to look up; false when they are not hex digits. */
  const want = (bytes: Uint8Array, from: number): boolean => {
    let wrong = 0;
    for (let i = 0; i < WORDS; i++) {
      let word = 0;
      for (let at = from + i * 8; at < from + i * 8 + 8; at++) {
        const digit = DIGITS[bytes[at]!]!;
        wrong |= digit;
        word = (word << 4) | digit;
      }
      wanted[i] = word;
    }
    return wrong < 16;
  };
  const wantText = (txid: string): boolean => txid.length === ID_DIGITS && want(Buffer.from(txid, 'latin1'), 0);

  const list: MempoolIds['list'] = ({ most }) => {
    const own = ++lists;
    const before = last;
    const fresh: string[] = [];
    let more = false;
    let state: 'before' | 'within' | 'after' | 'other' = 'before';
    const rest: Buffer[] = [];
    let held = Buffer.alloc(0);

    const takeId = (bytes: Buffer, from: number): boolean => {
      if (!want(bytes, from)) return false;
      let slot = slotOf();
      if (listed[slot] === 0) {
        if ((used + 1) * 3 > listed.length * 2) {
          const id = wanted.slice();
          grow();
          wanted.set(id);
          slot = slotOf();
        }
        put(slot);
        read[slot] = 0;
      } else if (listed[slot]! < before) read[slot] = 0;
      if (read[slot] === 0 && listed[slot] !== own) {
        if (fresh.length < most) fresh.push(bytes.toString('latin1', from, from + ID_DIGITS).toLowerCase());
        else more = true;
      }
      listed[slot] = own;
      return true;
    };
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
    const take = (part: Buffer): void => {
      if (state === 'after' || state === 'other') rest.push(part);
      else if (state === 'within') takeWithin(held.length > 0 ? Buffer.concat([held, part]) : part);
      else {
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
      }
    };
    return {
      take,
      taken: () => false,
      text: () => (state === 'before' ? held : Buffer.concat(rest)).toString(),
      add: (txids) => {
        for (const txid of txids) if (txid.length === ID_DIGITS) takeId(Buffer.from(txid, 'latin1'), 0);
      },
      commit: () => {
        last = own;
        return { has: (txid) => wantText(txid) && listed[slotOf()]! >= own, fresh, more };
      },
    };
  };
  return {
    list,
    markRead: (txids) => {
      for (const txid of txids) {
        if (!wantText(txid)) continue;
        const slot = slotOf();
        if (listed[slot] !== 0) read[slot] = 1;
      }
    },
  };
}
