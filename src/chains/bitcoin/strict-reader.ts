/** Reads bytes that strangers sent: nothing behind the end, counts only in their shortest form, no memory for counts that cannot be true. */
import { hash } from 'node:crypto';

/** No count in a valid block is larger (Bitcoin Core's MAX_SIZE). */
export const MAX_COUNT = 0x02000000;

/** A position in bytes. All functions throw RangeError when the bytes are not what they should be. */
export type StrictReader = {
  readonly bytes: Buffer;
  /** Where the next byte is read. */
  at: number;
};

/** Skips bytes; returns where they begin. */
export function skip(reader: StrictReader, length: number): number {
  const from = reader.at;
  if (length > reader.bytes.length - from) throw new RangeError('the bytes end too early');
  reader.at += length;
  return from;
}
export const take = (reader: StrictReader, length: number): Buffer => {
  const from = skip(reader, length);
  return reader.bytes.subarray(from, from + length);
};
export const takeU32 = (reader: StrictReader): number => reader.bytes.readUInt32LE(skip(reader, 4));

/** A count of items of at least `each` bytes, in its shortest form. */
export function takeCount(reader: StrictReader, each: number): number {
  const first = reader.bytes[skip(reader, 1)]!;
  let count = first;
  if (first >= 0xfd) {
    const size = first === 0xfd ? 2 : first === 0xfe ? 4 : 8;
    const at = skip(reader, size);
    count = size === 8 ? Number(reader.bytes.readBigUInt64LE(at)) : reader.bytes.readUIntLE(at, size);
    if (count < (size === 2 ? 0xfd : size === 4 ? 0x10000 : 0x100000000)) throw new RangeError('a count is not in its shortest form');
  }
  if (count > MAX_COUNT || count * each > reader.bytes.length - reader.at)
    throw new RangeError('a count is larger than the bytes that follow');
  return count;
}

/** The offsets of a transaction: all of it, and the parts that its id covers, which exclude witnesses (BIP-141). */
export type TransactionExtent = {
  from: number;
  to: number;
  /** Inputs and outputs. The four bytes of the version are at `from`. */
  bodyFrom: number;
  bodyTo: number;
  /** The lock time and what follows it, to the end. */
  tailFrom: number;
  inputs: number;
  inputsAt: number;
  outputs: number;
  outputsAt: number;
  /** LTC (LIP-3): has the flag of an MWEB part. Only the last transaction of a block, the HogEx, has an empty part. */
  mweb: 'none' | 'hogEx' | 'part';
};
/** The bytes of a transaction without its witness. */
export const strippedSize = ({ bodyFrom, bodyTo, tailFrom, to }: TransactionExtent): number => 4 + (bodyTo - bodyFrom) + (to - tailFrom);

/** What the transactions of a chain may have. */
export type TransactionForm = {
  /** A witness (BIP-144). */
  witness: boolean;
  /** LTC (LIP-3): the flag of the last transaction of a block; or also an MWEB part, as only transactions outside of blocks have it. */
  mweb: 'none' | 'hogEx' | 'part';
  /** A payload at the end (DIP-2). */
  extra: boolean;
};

/** Skips a transaction. An MWEB part is not read: the transaction must then end with the bytes. */
export function takeTransaction(reader: StrictReader, { witness, mweb, extra }: TransactionForm): TransactionExtent {
  const { bytes } = reader;
  const from = reader.at;
  const version = takeU32(reader);
  let flags = 0;
  if (witness && bytes[reader.at] === 0 && bytes[reader.at + 1] !== 0) {
    skip(reader, 1);
    flags = bytes[skip(reader, 1)]!;
  }
  const bodyFrom = reader.at;
  const inputs = takeCount(reader, 41);
  const inputsAt = reader.at;
  for (let i = 0; i < inputs; i++) {
    skip(reader, 36);
    skip(reader, takeCount(reader, 1));
    skip(reader, 4);
  }
  const outputs = takeCount(reader, 9);
  const outputsAt = reader.at;
  for (let i = 0; i < outputs; i++) {
    skip(reader, 8);
    skip(reader, takeCount(reader, 1));
  }
  const bodyTo = reader.at;
  if (flags & ~(mweb === 'none' ? 1 : 9)) throw new RangeError('a transaction has unknown flags');
  if (flags & 1)
    for (let i = 0; i < inputs; i++) for (let items = takeCount(reader, 1); items > 0; items--) skip(reader, takeCount(reader, 1));
  const found = flags & 8 ? takeMweb(reader, mweb) : 'none';
  const tailFrom = skip(reader, 4);
  if (extra && (version & 0xffff) >= 3 && version >>> 16 !== 0) skip(reader, takeCount(reader, 1));
  return { from, to: reader.at, bodyFrom, bodyTo, tailFrom, inputs, inputsAt, outputs, outputsAt, mweb: found };
}

function takeMweb(reader: StrictReader, allowed: TransactionForm['mweb']): TransactionExtent['mweb'] {
  if (reader.bytes[reader.at] === 0) {
    skip(reader, 1);
    return 'hogEx';
  }
  if (allowed !== 'part') throw new RangeError('a transaction has an MWEB part');
  skip(reader, Math.max(0, reader.bytes.length - 4 - reader.at));
  return 'part';
}

// SHA-256 twice: of bytes, of a range of them, and of a transaction without its witness (BIP-141).

/** Transactions up to this length are put together here. */
const joined = Buffer.allocUnsafeSlow(4_096);
const inner = Buffer.allocUnsafeSlow(32);

/** One character for each byte. A `Buffer` for each digest would cost Node several times as much as the hash itself. */
function digestOf(message: Uint8Array): string {
  inner.write(hash('sha256', message, 'binary'), 'latin1');
  return hash('sha256', inner, 'binary');
}

export const sha256d = (message: Uint8Array): Buffer => Buffer.from(digestOf(message), 'latin1');

/** Writes the hash of the bytes in `[from, to)` to `out` at `outAt`, which may be the place of these bytes. */
export function hashRange(bytes: Buffer, from: number, to: number, out: Buffer, outAt: number): void {
  out.write(digestOf(bytes.subarray(from, to)), outAt, 'latin1');
}

/** Writes the id of a transaction to `out` at `outAt`, in the chain's byte order. */
export function hashTransaction(bytes: Buffer, extent: TransactionExtent, out: Buffer, outAt: number): void {
  out.write(digestOf(stripped(bytes, extent)), outAt, 'latin1');
}

/** A transaction without its witness; valid until the next one. */
function stripped(bytes: Buffer, { from, to, bodyFrom, bodyTo, tailFrom }: TransactionExtent): Uint8Array {
  if (bodyFrom === from + 4 && tailFrom === bodyTo) return bytes.subarray(from, to);
  const tailAt = 4 + bodyTo - bodyFrom;
  const length = tailAt + to - tailFrom;
  const message = length <= joined.length ? joined.subarray(0, length) : Buffer.allocUnsafe(length);
  bytes.copy(message, 0, from, from + 4);
  bytes.copy(message, 4, bodyFrom, bodyTo);
  bytes.copy(message, tailAt, tailFrom, to);
  return message;
}
