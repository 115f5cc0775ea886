/**
 * Animated Uniform Resources (BCR-2020-005 with the fountain codes of BCR-2024-001): a PSBT or a key as a series of QR codes. The first
 * parts hold one fragment each; what follows holds several fragments combined with XOR, so that a reader that missed some need not wait
 * for them.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { cborHead, checksumOf, readCbor, readWords, wordsOf } from './uniform-resource.ts';

/** A code of this size is read by the cameras of small devices. */
const PART_BYTES = 200;
/** About two minutes of codes. Larger files are better moved as files. */
export const MOST_SHOWN_BYTES = 480 * PART_BYTES;
const MOST_READ_BYTES = 4 * 1024 * 1024;
const MOST_PARTS = 4_000;
/** What is combined and cannot be resolved yet. */
const MOST_MIXED = 2_000;

/** The texts of the codes. Null when the PSBT is too large. */
export function splitUr(psbt: Uint8Array): string[] | null {
  if (psbt.length === 0 || psbt.length > MOST_SHOWN_BYTES) return null;
  const message = Uint8Array.from([...cborHead(2, psbt.length), ...psbt]);
  const count = Math.ceil(message.length / PART_BYTES);
  if (count === 1) return [`ur:crypto-psbt/${wordsOf(message)}`.toUpperCase()];
  const size = Math.ceil(message.length / count);
  const checksum = checksumOf(message);
  return Array.from({ length: count }, (_, i) => {
    // The last fragment is filled with zeros.
    const fragment = new Uint8Array(size);
    fragment.set(message.subarray(i * size, (i + 1) * size));
    const heads = [cborHead(4, 5), cborHead(0, i + 1), cborHead(0, count), cborHead(0, message.length), cborHead(0, checksum)];
    const part = Uint8Array.from([...heads.flat(), ...cborHead(2, size), ...fragment]);
    return `ur:crypto-psbt/${i + 1}-${count}/${wordsOf(part)}`.toUpperCase();
  });
}

/** Numbers from 0 to below 1 that every implementation draws alike: Xoshiro256**, seeded with SHA-256. */
function randomFrom(seed: Uint8Array): () => number {
  const view = new DataView(sha256(seed).slice().buffer);
  let [a, b, c, d] = [0, 8, 16, 24].map((at) => view.getBigUint64(at)) as [bigint, bigint, bigint, bigint];
  const cut = (value: bigint): bigint => BigInt.asUintN(64, value);
  const rotate = (value: bigint, by: bigint): bigint => cut(value << by) | (value >> (64n - by));
  return () => {
    const drawn = cut(rotate(cut(b * 5n), 7n) * 9n);
    const shifted = cut(b << 17n);
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotate(d, 45n);
    return Number(drawn) / 2 ** 64;
  };
}

/** Draws one of `weights` in proportion, with two numbers (alias method, in the order that the standard fixes). */
function drawIndex(weights: readonly number[], random: () => number): number {
  const count = weights.length;
  const sum = weights.reduce((all, one) => all + one, 0);
  const scaled = weights.map((one) => (one * count) / sum);
  const [small, large]: [number[], number[]] = [[], []];
  for (let i = count - 1; i >= 0; i--) (scaled[i]! < 1 ? small : large).push(i);
  const [chances, aliases] = [new Array<number>(count).fill(1), new Array<number>(count).fill(0)];
  while (small.length > 0 && large.length > 0) {
    const [less, more] = [small.pop()!, large.pop()!];
    chances[less] = scaled[less]!;
    aliases[less] = more;
    scaled[more] = scaled[more]! + scaled[less]! - 1;
    (scaled[more]! < 1 ? small : large).push(more);
  }
  const [first, second] = [random(), random()];
  const at = Math.floor(first * count);
  return second < chances[at]! ? at : aliases[at]!;
}

/** The fragments, from 0, that part `number` of a series combines. */
export function fragmentsOf({ number, count, checksum }: { number: number; count: number; checksum: number }): number[] {
  if (number <= count) return [number - 1];
  const seed = new Uint8Array(8);
  new DataView(seed.buffer).setUint32(0, number);
  new DataView(seed.buffer).setUint32(4, checksum);
  const random = randomFrom(seed);
  const degree =
    1 +
    drawIndex(
      Array.from({ length: count }, (_, i) => 1 / (i + 1)),
      random,
    );
  const left = Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: count }, () => left.splice(Math.floor(random() * left.length), 1)[0]!).slice(0, degree);
}

type Part = { number: number; count: number; length: number; checksum: number; data: Uint8Array };
function partOf(cbor: Uint8Array): Part | null {
  const value = readCbor(cbor);
  if (!Array.isArray(value) || value.length !== 5) return null;
  const [number, count, length, checksum, data] = value;
  if (![number, count, length, checksum].every((one) => typeof one === 'number')) return null;
  return data instanceof Uint8Array ? ({ number, count, length, checksum, data } as Part) : null;
}

/** Why a code of a series cannot be used, in words. */
export class UrError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UrError';
  }
}

/** `bytes`: the CBOR of the resource, once it is whole. */
type Read = { type: string; have: number; total: number; bytes: Uint8Array<ArrayBuffer> | null };

/** Collects the parts of a series in any order, with repeats. Another series starts over. */
export function createUrReader() {
  let series: ({ type: string } & Omit<Part, 'number' | 'data'>) | null = null;
  let known = new Map<number, Uint8Array>();
  let mixed: { left: Set<number>; data: Uint8Array }[] = [];
  const startOver = (next: typeof series): void => {
    [series, known, mixed] = [next, new Map(), []];
  };
  const without = (data: Uint8Array, other: Uint8Array): Uint8Array => data.map((byte, i) => byte ^ other[i]!);
  /** Takes a combination, and everything that it resolves. */
  const take = (indexes: readonly number[], data: Uint8Array): void => {
    const queue = [{ left: new Set(indexes), data }];
    for (let next = queue.pop(); next; next = queue.pop()) {
      for (const index of next.left) {
        const fragment = known.get(index);
        if (!fragment) continue;
        next.left.delete(index);
        next.data = without(next.data, fragment);
      }
      if (next.left.size > 1) {
        if (mixed.length < MOST_MIXED) mixed.push(next);
      } else if (next.left.size === 1) {
        const [index] = next.left as unknown as [number];
        known.set(index, next.data);
        const touched = mixed.filter(({ left }) => left.has(index));
        mixed = mixed.filter(({ left }) => !left.has(index));
        queue.push(...touched);
      }
    }
  };
  const read = (code: string): Read | null => {
    const found = /^ur:([a-z0-9-]+)\/(?:(\d{1,10})-(\d{1,10})\/)?([a-z]+)$/i.exec(code);
    const cbor = found && readWords(found[4]!);
    if (!found || !cbor) return null;
    const type = found[1]!.toLowerCase();
    if (found[2] === undefined) return { type, have: 1, total: 1, bytes: cbor };
    const part = partOf(cbor);
    if (!part || part.number < 1 || part.count < 1 || part.count > MOST_PARTS) return null;
    const { count, length, checksum, data } = part;
    if (length > MOST_READ_BYTES) throw new UrError('The file in these codes is too large.');
    if (data.length !== Math.ceil(length / count)) return null;
    const isSame = series && series.type === type && series.count === count && series.length === length && series.checksum === checksum;
    if (!isSame) startOver({ type, count, length, checksum });
    take(fragmentsOf(part), data);
    if (known.size < count) return { type, have: known.size, total: count, bytes: null };
    const message = new Uint8Array(count * data.length);
    for (const [index, fragment] of known) message.set(fragment, index * data.length);
    const whole = message.slice(0, length);
    startOver(null);
    if (checksumOf(whole) !== checksum) throw new UrError('The codes contain damaged data. Show them again in your wallet.');
    return { type, have: count, total: count, bytes: whole };
  };
  return {
    /** What was read so far, with the resource once it is whole; null when the code is not a part that can be read. Errors: UrError. */
    add(code: string): Read | null {
      try {
        return read(code);
      } catch (error) {
        if (error instanceof RangeError) return null;
        throw error;
      }
    },
  };
}
