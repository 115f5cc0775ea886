/**
 * Headers of one chain and its forks, in a compact form: about 100 bytes each, because Dogecoin has half a million a year. A header is
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
const RECORD = 88;
const RECORDS_PER_CHUNK = 4_096;
/** The work up to every 64th header is kept, in two numbers of 64 bits behind the records of a chunk. In between, bits are added up. */
const WORK_EVERY = 64;
const WORK_BYTES = 16;
const CHUNK_BYTES = RECORDS_PER_CHUNK * RECORD + (RECORDS_PER_CHUNK / WORK_EVERY) * WORK_BYTES;
/** Slots of hashes in the index, for each header. */
const ROOM = 2;
const FIRST_INDEX = 8_192;

export type HeaderArena = ReturnType<typeof createHeaderArena>;

/** The work up to each header. `workAt`: that of one header alone. */
function createTotals({
  chunkOf,
  parentOf,
  workAt,
}: {
  chunkOf(slot: number): Buffer;
  parentOf(slot: number): number;
  workAt(slot: number): bigint;
}) {
  /** The highest slot whose work does not count: that of the checkpoint. */
  let uncounted = -1;
  /** The work that was asked for last: mostly its child is next. */
  let latest = { slot: -1, work: 0n };
  const place = (slot: number): number => RECORDS_PER_CHUNK * RECORD + ((slot % RECORDS_PER_CHUNK) / WORK_EVERY) * WORK_BYTES;
  const of = (slot: number): bigint => {
    let work = 0n;
    let known = slot;
    for (; known > uncounted && known !== latest.slot && known % WORK_EVERY !== 0; known = parentOf(known)) work += workAt(known);
    if (known === latest.slot) work += latest.work;
    else if (known > uncounted) {
      const from = place(known);
      work += (chunkOf(known).readBigUInt64LE(from + 8) << 64n) | chunkOf(known).readBigUInt64LE(from);
    }
    latest = { slot, work };
    return work;
  };
  return {
    of,
    add: (slot: number): void => {
      const work = of(parentOf(slot)) + workAt(slot);
      latest = { slot, work };
      if (slot % WORK_EVERY !== 0) return;
      chunkOf(slot).writeBigUInt64LE(BigInt.asUintN(64, work), place(slot));
      chunkOf(slot).writeBigUInt64LE(work >> 64n, place(slot) + 8);
    },
    /** The work above this header counts. */
    begin: (slot: number): void => {
      uncounted = slot;
    },
  };
}

/** `lowestParent`: the parent of the first header, which is not kept. `workOfBits`: the work that a header with these bits has. */
export function createHeaderArena(lowestParent: Buffer, workOfBits: (bits: number) => bigint) {
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
  const bitsOf = (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + BITS);

  const totals = createTotals({ chunkOf, parentOf, workAt: (slot) => workOfBits(bitsOf(slot)) });

  return {
    size: (): number => size,
    parentOf,
    idOf: id,
    heightOf: (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + HEIGHT),
    timeOf: (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + TIME),
    bitsOf,
    /** Work from the checkpoint up to this header. */
    workOf: totals.of,
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
      if (slot % RECORDS_PER_CHUNK === 0 && chunks.length * RECORDS_PER_CHUNK === slot) chunks.push(Buffer.alloc(CHUNK_BYTES));
      const chunk = chunkOf(slot);
      const from = at(slot);
      header.copy(chunk, from + VERSION, 0, 4);
      header.copy(chunk, from + MERKLE_ROOT, 36, 80);
      chunk.writeUInt32LE(height, from + HEIGHT);
      chunk.writeInt32LE(parent, from + PARENT);
      return slot;
    },
    /** Makes an appended header one that is found by its hash; its parent was admitted before. `counts`: false up to the checkpoint. */
    admit: (slot: number, hash: Buffer, { counts = true } = {}): void => {
      hash.copy(chunkOf(slot), at(slot) + ID);
      if (counts) totals.add(slot);
      else totals.begin(slot);
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
    bytes: (): number => chunks.length * CHUNK_BYTES + index.byteLength,
  };
}
