/** Set of millions of watched keys, at 16 to 32 bytes each and with no work for the garbage collector. */
import { randomInt } from 'node:crypto';

/** Shards that grow independently, so that growing never takes long; empty ones use no memory. */
type Part = { slots: Int32Array; count: number };
const PARTS = 512;
const FIRST_SLOTS = 16;

export type WatchSet = {
  /** Adds a key of hex digits. */
  add(key: string): void;
  /** False is certain. True is wrong about once in 2^64 times, or for keys crafted to collide, so verify it in the table. */
  has(key: string): boolean;
  addBytes(bytes: Uint8Array, from: number, to: number): void;
  hasBytes(bytes: Uint8Array, from: number, to: number): boolean;
};

/** An open-addressing table of 64-bit hashes of keys (similar to MurmurHash3, with a secret seed). */
export function createWatchSet(): WatchSet {
  const seed = randomInt(2 ** 32);
  const parts = Array.from({ length: PARTS }, (): Part | null => null);
  let first = 0;
  let second = 0;

  /** Returns its result in `first` and `second`, to avoid allocations. */
  const hash = (bytes: Uint8Array, from: number, to: number): void => {
    const view = viewOf(bytes);
    let a = seed ^ (to - from);
    let b = ~seed;
    const last = to - 4;
    for (let at = from; at < to; at += 4) {
      // The last word may overlap the one before it; a key shorter than one word is fully covered by its length and its bytes.
      const word = at <= last ? view.getInt32(at, true) : last >= from ? view.getInt32(last, true) : shortWord(bytes, from, to);
      const x = Math.imul(word, 0xcc9e2d51);
      a ^= Math.imul((x << 15) | (x >>> 17), 0x1b873593);
      a = (Math.imul((a << 13) | (a >>> 19), 5) + 0xe6546b64) | 0;
      const y = Math.imul(word ^ a, 0x239b961b);
      b ^= Math.imul((y << 16) | (y >>> 16), 0xab0e9789);
      b = (Math.imul((b << 17) | (b >>> 15), 5) + 0x561ccd1b) | 0;
    }
    first = spread(a ^ b);
    // Zero marks an empty slot.
    second = spread(b + first) || 1;
  };
  const slotOf = (slots: Int32Array, one: number, two: number): number => {
    const mask = slots.length / 2 - 1;
    for (let at = two & mask; ; at = (at + 1) & mask)
      if (slots[2 * at + 1] === 0 || (slots[2 * at] === one && slots[2 * at + 1] === two)) return at;
  };
  const addBytes: WatchSet['addBytes'] = (bytes, from, to) => {
    hash(bytes, from, to);
    parts[first >>> 23] ??= { slots: new Int32Array(2 * FIRST_SLOTS), count: 0 };
    const part = parts[first >>> 23]!;
    let at = slotOf(part.slots, first, second);
    if (part.slots[2 * at + 1] !== 0) return;
    if (++part.count * 4 > (part.slots.length / 2) * 3) {
      const { slots } = part;
      part.slots = new Int32Array(2 * slots.length);
      for (let i = 0; i < slots.length; i += 2) {
        if (slots[i + 1] === 0) continue;
        const free = slotOf(part.slots, slots[i]!, slots[i + 1]!);
        part.slots[2 * free] = slots[i]!;
        part.slots[2 * free + 1] = slots[i + 1]!;
      }
      at = slotOf(part.slots, first, second);
    }
    part.slots[2 * at] = first;
    part.slots[2 * at + 1] = second;
  };
  const hasBytes: WatchSet['hasBytes'] = (bytes, from, to) => {
    hash(bytes, from, to);
    const part = parts[first >>> 23]!;
    return part !== null && part.slots[2 * slotOf(part.slots, first, second) + 1] !== 0;
  };
  return {
    add: (key) => {
      const bytes = Buffer.from(key, 'hex');
      addBytes(bytes, 0, bytes.length);
    },
    has: (key) => {
      const bytes = Buffer.from(key, 'hex');
      return hasBytes(bytes, 0, bytes.length);
    },
    addBytes,
    hasBytes,
  };
}

let viewed: Uint8Array = new Uint8Array();
let view = new DataView(viewed.buffer);
/** A block causes thousands of lookups, so its words are read through one view. */
function viewOf(bytes: Uint8Array): DataView {
  if (bytes === viewed) return view;
  viewed = bytes;
  view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return view;
}
const shortWord = (bytes: Uint8Array, from: number, to: number): number => {
  let word = 0;
  for (let at = from; at < to; at++) word = (word << 8) | bytes[at]!;
  return word;
};

function spread(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** An outpoint (`txid:n`) as transactions encode it: 32 bytes of hash, 4 of index. Null: not an outpoint (ETH). */
export function outpointBytes(outpoint: string): Uint8Array | null {
  const [, txid, n] = /^([0-9a-f]{64}):(\d+)$/.exec(outpoint) ?? [];
  if (txid === undefined) return null;
  const bytes = Buffer.alloc(36);
  bytes.set(Buffer.from(txid, 'hex').reverse());
  bytes.writeUInt32LE(Number(n), 32);
  return bytes;
}
