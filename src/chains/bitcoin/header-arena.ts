/**
 * Headers of one chain and its forks, in a compact form: about 100 bytes each, because Dogecoin has half a million a year. A header is
 * known by its slot, a number that stays the same until it is removed; then the next one takes its place.
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
const CHUNK_BYTES = RECORDS_PER_CHUNK * RECORD;
/** The work up to each header at every 64th height is kept. In between, bits are added up. */
const WORK_EVERY = 64;
/** About what one number of them takes. */
const WORK_BYTES = 80;
/** Slots of hashes in the index, for each header. */
const ROOM = 2;
const FIRST_INDEX = 8_192;

export type HeaderArena = ReturnType<typeof createHeaderArena>;

/** The work up to each header. `workAt`: that of one header alone. */
function createTotals({
  heightOf,
  parentOf,
  workAt,
}: {
  heightOf(slot: number): number;
  parentOf(slot: number): number;
  workAt(slot: number): bigint;
}) {
  /** The highest slot whose work does not count: that of the checkpoint. */
  let uncounted = -1;
  const kept = new Map<number, bigint>();
  /** The work that was asked for last: mostly its child is next. */
  let latest = { slot: -1, work: 0n };
  const of = (slot: number): bigint => {
    let work = 0n;
    let known = slot;
    for (; known > uncounted && known !== latest.slot && !kept.has(known); known = parentOf(known)) work += workAt(known);
    if (known === latest.slot) work += latest.work;
    else if (known > uncounted) work += kept.get(known)!;
    latest = { slot, work };
    return work;
  };
  return {
    of,
    add: (slot: number): void => {
      const work = of(parentOf(slot)) + workAt(slot);
      latest = { slot, work };
      if (heightOf(slot) % WORK_EVERY === 0) kept.set(slot, work);
    },
    /** The work above this header counts. */
    begin: (slot: number): void => {
      uncounted = slot;
    },
    remove: (slot: number): void => {
      kept.delete(slot);
      if (latest.slot === slot) latest = { slot: -1, work: 0n };
    },
    bytes: (): number => kept.size * WORK_BYTES,
  };
}

/** Where headers are, by the first bytes of their hash. */
function createIndex(id: (slot: number) => Buffer) {
  /** Slots plus one. */
  let places = new Int32Array(FIRST_INDEX);
  let size = 0;
  const homeOf = (hash: Buffer): number => hash.readUInt32LE(0) & (places.length - 1);
  const after = (where: number): number => (where + 1) & (places.length - 1);
  const place = (slot: number): void => {
    let where = homeOf(id(slot));
    while (places[where] !== 0) where = after(where);
    places[where] = slot + 1;
  };
  return {
    find: (wanted: Buffer): number => {
      for (let where = homeOf(wanted); places[where] !== 0; where = after(where)) {
        const slot = places[where]! - 1;
        if (id(slot).equals(wanted)) return slot;
      }
      return -1;
    },
    add: (slot: number): void => {
      if (++size * ROOM > places.length) {
        const before = places;
        places = new Int32Array(before.length * 2);
        for (const entry of before) if (entry !== 0) place(entry - 1);
      }
      place(slot);
    },
    /** No effect for a slot that is not in it. */
    remove: (slot: number): void => {
      let hole = homeOf(id(slot));
      for (; places[hole] !== slot + 1; hole = after(hole)) if (places[hole] === 0) return;
      size--;
      // Whatever was put behind its own place because this one was taken moves up, so that it is still found.
      for (let where = after(hole); places[where] !== 0; where = after(where)) {
        const home = homeOf(id(places[where]! - 1));
        const mask = places.length - 1;
        if (((where - home) & mask) < ((where - hole) & mask)) continue;
        places[hole] = places[where]!;
        hole = where;
      }
      places[hole] = 0;
    },
    bytes: (): number => places.byteLength,
  };
}

/** `lowestParent`: the parent of the first header, which is not kept. `workOfBits`: the work that a header with these bits has. */
export function createHeaderArena(lowestParent: Buffer, workOfBits: (bits: number) => bigint) {
  const chunks: Buffer[] = [];
  /** Slots that were ever in use, and those among them that are not any more. */
  let used = 0;
  const free: number[] = [];

  const chunkOf = (slot: number): Buffer => chunks[Math.floor(slot / RECORDS_PER_CHUNK)]!;
  const at = (slot: number): number => (slot % RECORDS_PER_CHUNK) * RECORD;
  const id = (slot: number): Buffer => chunkOf(slot).subarray(at(slot) + ID, at(slot) + ID + 32);
  const parentOf = (slot: number): number => chunkOf(slot).readInt32LE(at(slot) + PARENT);
  const heightOf = (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + HEIGHT);
  const bitsOf = (slot: number): number => chunkOf(slot).readUInt32LE(at(slot) + BITS);

  const index = createIndex(id);
  const totals = createTotals({ heightOf, parentOf, workAt: (slot) => workOfBits(bitsOf(slot)) });

  return {
    size: (): number => used - free.length,
    parentOf,
    idOf: id,
    heightOf,
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
    find: index.find,
    /** Adds a header without its hash. `parent`: -1 for the first one. */
    append: (header: Buffer, parent: number, height: number): number => {
      const slot = free.pop() ?? used++;
      if (slot === chunks.length * RECORDS_PER_CHUNK) chunks.push(Buffer.alloc(CHUNK_BYTES));
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
      index.add(slot);
    },
    /** Removes a header, admitted or not, that is the parent of none and counts. */
    remove: (slot: number): void => {
      index.remove(slot);
      totals.remove(slot);
      free.push(slot);
    },
    /** How much memory it holds. */
    bytes: (): number => chunks.length * CHUNK_BYTES + index.bytes() + totals.bytes(),
  };
}
