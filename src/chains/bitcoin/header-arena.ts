/**
 * Headers of one chain and its forks, in a compact form: about 110 bytes each, because Dogecoin has half a million a year. A header is
 * known by its slot, a number. Parents have lower slots than their children.
 */

/** What is kept of a header. Its parent's hash is that of the parent's slot. */
const VERSION = 0;
const MERKLE_ROOT = 4;
/** Time, bits and nonce, as in the header. */
const TIME = 36;
const BITS = 40;
const HEIGHT = 48;
const PARENT = 52;
const ID = 56;
/** Work from the checkpoint up to this header: two numbers of 64 bits. */
const WORK = 88;
const RECORD = 104;
const RECORDS_PER_CHUNK = 4_096;
/** Slots of hashes in the index, for each header. */
const ROOM = 2;
const FIRST_INDEX = 8_192;

export type HeaderArena = ReturnType<typeof createHeaderArena>;

/** `lowestParent`: the parent of the first header, which is not kept. */
export function createHeaderArena(lowestParent: Buffer) {
  const chunks: Buffer[] = [];
  let size = 0;
  /** Slots plus one, at a place given by the first bytes of their hash. */
  let index = new Int32Array(FIRST_INDEX);
  let indexed = 0;

  const chunkOf = (slot: number): Buffer => chunks[Math.floor(slot / RECORDS_PER_CHUNK)]!;
  const at = (slot: number): number => (slot % RECORDS_PER_CHUNK) * RECORD;
  const id = (slot: number): Buffer => chunkOf(slot).subarray(at(slot) + ID, at(slot) + ID + 32);

  const place = (slot: number): void => {
    const mask = index.length - 1;
    let where = id(slot).readUInt32LE(0) & mask;
    while (index[where] !== 0) where = (where + 1) & mask;
    index[where] = slot + 1;
  };
  const find = (wanted: Buffer): number => {
    const mask = index.length - 1;
    for (let where = wanted.readUInt32LE(0) & mask; index[where] !== 0; where = (where + 1) & mask) {
      const slot = index[where]! - 1;
      if (id(slot).equals(wanted)) return slot;
    }
    return -1;
  };
  const parentOf = (slot: number): number => chunkOf(slot).readInt32LE(at(slot) + PARENT);

  return {
    size: (): number => size,
    parentOf,
    idOf: id,
    heightOf: (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + HEIGHT),
    timeOf: (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + TIME),
    bitsOf: (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + BITS),
    workOf: (slot: number): bigint => {
      const chunk = chunkOf(slot);
      return (chunk.readBigUInt64LE(at(slot) + WORK + 8) << 64n) | chunk.readBigUInt64LE(at(slot) + WORK);
    },
    /** The 80 bytes. */
    headerOf: (slot: number): Buffer => {
      const chunk = chunkOf(slot);
      const from = at(slot);
      const header = Buffer.allocUnsafe(80);
      chunk.copy(header, 0, from + VERSION, from + VERSION + 4);
      const parent = parentOf(slot);
      (parent < 0 ? lowestParent : id(parent)).copy(header, 4);
      chunk.copy(header, 36, from + MERKLE_ROOT, from + MERKLE_ROOT + 44);
      return header;
    },
    /** The slot with this hash, or -1. Headers that were appended and not yet admitted are not found. */
    find,
    /** Adds a header without its hash. `parent`: -1 for the first one. */
    append: (header: Buffer, parent: number, height: number): number => {
      const slot = size++;
      if (slot % RECORDS_PER_CHUNK === 0 && chunks.length * RECORDS_PER_CHUNK === slot)
        chunks.push(Buffer.alloc(RECORDS_PER_CHUNK * RECORD));
      const chunk = chunkOf(slot);
      const from = at(slot);
      header.copy(chunk, from + VERSION, 0, 4);
      header.copy(chunk, from + MERKLE_ROOT, 36, 80);
      chunk.writeUInt32LE(height, from + HEIGHT);
      chunk.writeInt32LE(parent, from + PARENT);
      return slot;
    },
    /** Makes an appended header one that is found by its hash. */
    admit: (slot: number, hash: Buffer, work: bigint): void => {
      const chunk = chunkOf(slot);
      hash.copy(chunk, at(slot) + ID);
      chunk.writeBigUInt64LE(BigInt.asUintN(64, work), at(slot) + WORK);
      chunk.writeBigUInt64LE(work >> 64n, at(slot) + WORK + 8);
      if (++indexed * ROOM > index.length) {
        index = new Int32Array(index.length * 2);
        for (let other = 0; other < slot; other++) place(other);
      }
      place(slot);
    },
    /** Removes the headers from this slot on, none of which is admitted. */
    truncate: (to: number): void => {
      size = to;
    },
    /** How much memory it holds. */
    bytes: (): number => chunks.length * RECORDS_PER_CHUNK * RECORD + index.byteLength,
  };
}
