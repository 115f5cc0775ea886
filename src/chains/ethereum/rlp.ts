/** RLP, the encoding that Ethereum hashes: strings of bytes, and lists of them. Only the one canonical form is decoded. */
import { ProofError } from './proof-values.ts';

export type Rlp = Uint8Array | readonly Rlp[];

/** What one decoding may cost. A byte of input can become an item, which takes a hundred times its space. */
export type RlpLimits = { items: number; depth: number };
export const RLP_LIMITS: RlpLimits = { items: 1024, depth: 8 };
/** Lengths are read from at most this many bytes; larger ones are beyond any input. */
const LENGTH_BYTES = 4;

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
