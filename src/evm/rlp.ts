/** RLP, the encoding that Ethereum hashes: strings of bytes, and lists of them. Only the one canonical form is decoded. */
import { setImmediate } from 'node:timers/promises';
import { hexToBytes } from '@noble/hashes/utils.js';

export type Rlp = Uint8Array | readonly Rlp[];

/** What one decoding may cost. A byte of input can become an item, which takes a hundred times its space. */
type RlpLimits = { items: number; depth: number };
export const RLP_LIMITS: RlpLimits = { items: 1024, depth: 8 };
/** Lengths are read from at most this many bytes; larger ones are beyond any input. */
export const LENGTH_BYTES = 4;

type Reader = { bytes: Uint8Array; at: number; items: number; limits: RlpLimits };

/**
 * Decodes exactly one item. The strings are views into `bytes`. Errors: ProofError for lengths beyond the input, bytes after the item,
 * any form but the shortest, and more items or deeper lists than the limits allow.
 */
export function decodeRlp(bytes: Uint8Array, limits: RlpLimits = RLP_LIMITS): Rlp {
  const reader = { bytes, at: 0, items: 0, limits };
  const item = takeItem(reader, bytes.length, 0);
  if (reader.at !== bytes.length) throw new ProofError('bytes follow the RLP item');
  return item;
}

function takeItem(reader: Reader, end: number, depth: number): Rlp {
  if (reader.at >= end) throw new ProofError('the RLP ends too early');
  if (++reader.items > reader.limits.items) throw new ProofError(`the RLP has more than ${reader.limits.items} items`);
  const first = reader.bytes[reader.at]!;
  if (first < 0x80) return reader.bytes.subarray(reader.at, ++reader.at);
  reader.at++;
  const isList = first >= 0xc0;
  const length = takeLength(reader, first - (isList ? 0xc0 : 0x80));
  const to = reader.at + length;
  if (to > end) throw new ProofError('an RLP item is longer than what contains it');
  if (!isList) {
    const from = reader.at;
    if (length === 1 && reader.bytes[from]! < 0x80) throw new ProofError('an RLP byte is not in its shortest form');
    reader.at = to;
    return reader.bytes.subarray(from, to);
  }
  if (depth >= reader.limits.depth) throw new ProofError(`the RLP is deeper than ${reader.limits.depth} lists`);
  const list: Rlp[] = [];
  while (reader.at < to) list.push(takeItem(reader, to, depth + 1));
  return list;
}

/** A length of at most 55 is in the prefix; a longer one follows it, in the fewest bytes. */
function takeLength(reader: Reader, short: number): number {
  if (short <= 55) return short;
  const size = short - 55;
  if (size > LENGTH_BYTES || size > reader.bytes.length - reader.at) throw new ProofError('an RLP length is longer than the input');
  let length = 0;
  for (let i = 0; i < size; i++) length = length * 256 + reader.bytes[reader.at++]!;
  if (length <= 55 || length < 256 ** (size - 1)) throw new ProofError('an RLP length is not in its shortest form');
  return length;
}

/** Encodes an item. */
export function encodeRlp(item: Rlp): Uint8Array {
  const out = new Uint8Array(sizeOf(item));
  writeItem(item, out, 0);
  return out;
}

const isString = (item: Rlp): item is Uint8Array => item instanceof Uint8Array;
const lengthBytes = (length: number): number => (length <= 55 ? 0 : length < 0x100 ? 1 : length < 0x10000 ? 2 : length < 0x1000000 ? 3 : 4);

function payloadOf(item: Rlp): number {
  if (isString(item)) return item.length;
  let size = 0;
  for (const part of item) size += sizeOf(part);
  return size;
}
function sizeOf(item: Rlp): number {
  const payload = payloadOf(item);
  return isString(item) && payload === 1 && item[0]! < 0x80 ? 1 : 1 + lengthBytes(payload) + payload;
}

function writeItem(item: Rlp, out: Uint8Array, from: number): number {
  let at = from;
  const payload = payloadOf(item);
  if (isString(item) && payload === 1 && item[0]! < 0x80) {
    out[at] = item[0]!;
    return at + 1;
  }
  const base = isString(item) ? 0x80 : 0xc0;
  const size = lengthBytes(payload);
  out[at++] = base + (size === 0 ? payload : 55 + size);
  for (let i = size - 1; i >= 0; i--) out[at++] = Math.floor(payload / 256 ** i) % 256;
  if (isString(item)) {
    out.set(item, at);
    return at + payload;
  }
  for (const part of item) at = writeItem(part, out, at);
  return at;
}

// Long calculations in short steps, so that a process that serves payments does other work between them.

/** A calculation that may be interrupted at each `yield`. */
export type Steps<T> = Generator<void, T, void>;

/** How long a calculation may hold the event loop. */
const TURN_MS = 8;

/** The result, without interruption. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The result, with turns of the event loop between steps. Errors: those of the calculation. */
export async function inTurns<T>(steps: Steps<T>): Promise<T> {
  for (let untilMs = performance.now() + TURN_MS; ; ) {
    const { done, value } = steps.next();
    if (done) return value;
    if (performance.now() < untilMs) continue;
    await setImmediate();
    untilMs = performance.now() + TURN_MS;
  }
}

// Reads values from the JSON of a node as the bytes that hashes cover. A value in any other form is refused.

/** An answer does not fit what it should prove, or has a form that nothing could prove. */
export class ProofError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ProofError';
  }
}

export const EMPTY = new Uint8Array(0);

/**
 * DATA: an even number of hex digits, `min` to `max` bytes. Without `max`, only the size of the answer bounds it: where the rules of the chain
 * have no bound but the price of gas, one of our own would let a stranger make a block that cannot be read.
 */
export function dataBytes(value: unknown, { name, min, max = Infinity }: { name: string; min: number; max?: number }): Uint8Array {
  const refuse = () => new ProofError(`${name} is not hex${max === Infinity ? '' : ` of at most ${max} bytes`}`);
  if (typeof value !== 'string' || value.length > 2 + max * 2 || value.length % 2 !== 0 || !value.startsWith('0x')) throw refuse();
  // It stops before the first byte that is not hex.
  const { buffer, byteOffset, length } = Buffer.from(value.slice(2), 'hex');
  if (length * 2 + 2 !== value.length) throw refuse();
  const bytes = new Uint8Array(buffer, byteOffset, length);
  if (bytes.length < min) throw new ProofError(`${name} has ${bytes.length} bytes, expected ${min}`);
  return bytes;
}

/** QUANTITY: big-endian without leading zeros, so zero is empty, of at most `max` bytes. */
export function quantityBytes(value: unknown, { name, max }: { name: string; max: number }): Uint8Array {
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{1,64}$/.test(value)) throw new ProofError(`${name} is not a number`);
  const digits = value.slice(2).replace(/^0+/, '');
  if (digits.length > max * 2) throw new ProofError(`${name} is more than ${max} bytes long`);
  return hexToBytes(digits.length % 2 === 0 ? digits : `0${digits}`);
}

export const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/** A list of at most `max` items; without `max`, only the size of the answer bounds it. */
export function listOf(value: unknown, { name, max = Infinity }: { name: string; max?: number }): readonly unknown[] {
  if (!Array.isArray(value) || value.length > max)
    throw new ProofError(`${name} is not a list${max === Infinity ? '' : ` of at most ${max} items`}`);
  return value;
}
