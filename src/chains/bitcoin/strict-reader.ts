/** Reads bytes that strangers sent: nothing behind the end, counts only in their shortest form, no memory for counts that cannot be true. */

/** No count in a valid block is larger (Bitcoin Core's MAX_SIZE). */
const MAX_COUNT = 0x02000000;

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

/** The offsets of a transaction: all of it, and the parts that its id covers, which exclude witnesses. */
export type TransactionExtent = {
  from: number;
  to: number;
  /** Version first, then inputs and outputs, then the lock time and what follows it. */
  body: readonly [from: number, to: number];
  tail: readonly [from: number, to: number];
  inputs: number;
  /** LTC: has the flag of the last transaction of a block, behind which the extension block follows. */
  hasMweb: boolean;
  /** The first input's outpoint, and the script that follows it. */
  outpointAt: number;
  script: readonly [from: number, to: number];
};
/** The bytes of a transaction without its witness. */
export const strippedSize = ({ body, tail }: TransactionExtent): number => 4 + (body[1] - body[0]) + (tail[1] - tail[0]);

/**
 * Skips a transaction. `witness`: it may have one (BIP-144). `mweb`: it may have the flag of LTC's last transaction of a block (LIP-3);
 * other MWEB parts are never in a block. `extra`: a payload may follow (DIP-2).
 */
export function takeTransaction(
  reader: StrictReader,
  { witness, mweb, extra }: { witness: boolean; mweb: boolean; extra: boolean },
): TransactionExtent {
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
  const outpointAt = reader.at;
  let script: readonly [number, number] = [0, 0];
  for (let i = 0; i < inputs; i++) {
    skip(reader, 36);
    const length = takeCount(reader, 1);
    const at = skip(reader, length);
    if (i === 0) script = [at, at + length];
    skip(reader, 4);
  }
  for (let outputs = takeCount(reader, 9); outputs > 0; outputs--) {
    skip(reader, 8);
    skip(reader, takeCount(reader, 1));
  }
  const bodyTo = reader.at;
  if (flags & ~(mweb ? 9 : 1)) throw new RangeError('a transaction has unknown flags');
  if (flags & 1)
    for (let i = 0; i < inputs; i++) for (let items = takeCount(reader, 1); items > 0; items--) skip(reader, takeCount(reader, 1));
  if (flags & 8 && bytes[skip(reader, 1)] !== 0) throw new RangeError('a transaction has an MWEB part');
  const tailFrom = skip(reader, 4);
  if (extra && (version & 0xffff) >= 3 && version >>> 16 !== 0) skip(reader, takeCount(reader, 1));
  return {
    from,
    to: reader.at,
    body: [bodyFrom, bodyTo],
    tail: [tailFrom, reader.at],
    inputs,
    hasMweb: (flags & 8) !== 0,
    outpointAt,
    script,
  };
}
