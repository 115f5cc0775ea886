/**
 * The branches of a header chain: which one is best, a height on any of them, and what is dropped when there are too many. The best one is
 * the one with the most work among those whose blocks can be had, as far as is known.
 */
import type { HeaderPlace } from './header-rules.ts';

export type Branches = {
  arena: HeaderArena;
  lowest: number;
  /** The slot of the best tip. */
  best: number;
  /** The best chain's slots, by height above the lowest; valid up to the height of the tip. */
  bestAt: Int32Array;
  /** Admitted headers that are not on the best chain. */
  forks: Set<number>;
  /** Headers whose blocks nobody has served yet. What follows them is not the best chain. None of them is on it. */
  aside: Set<number>;
};

/** `lowestParent`: the parent of the lowest header. `workOfBits`: the work that a header with these bits has. */
export const createBranches = ({
  lowest,
  lowestParent,
  workOfBits,
}: {
  lowest: number;
  lowestParent: Buffer;
  workOfBits(bits: number): bigint;
}): Branches => ({
  arena: createHeaderArena(lowestParent, workOfBits),
  lowest,
  best: -1,
  bestAt: new Int32Array(4_096),
  forks: new Set(),
  aside: new Set(),
});

export const tipHeight = ({ arena, best, lowest }: Branches): number => (best < 0 ? lowest - 1 : arena.heightOf(best));
/** The slot of the best chain at a height, or -1. */
export const slotOfHeight = (branches: Branches, height: number): number =>
  height < branches.lowest || height > tipHeight(branches) ? -1 : branches.bestAt[height - branches.lowest]!;
/** Admits a header that was appended, off the best chain until that follows it. */
export function admitFork({ arena, forks }: Branches, slot: number, id: Buffer): void {
  arena.admit(slot, id);
  forks.add(slot);
}

/** Makes a branch the best one. Returns the lowest height at which the best chain changed. */
export function followBranch(branches: Branches, tip: number): number {
  const { arena, lowest } = branches;
  const known = tipHeight(branches);
  const height = arena.heightOf(tip);
  if (height - lowest >= branches.bestAt.length) {
    const grown = new Int32Array(2 * (height - lowest + 1));
    grown.set(branches.bestAt);
    branches.bestAt = grown;
  }
  const { bestAt, forks } = branches;
  let changedFrom = height;
  for (let at = height + 1; at <= known; at++) forks.add(bestAt[at - lowest]!);
  for (let slot = tip, at = height; slot >= 0; slot = arena.parentOf(slot), at--) {
    if (at <= known) {
      if (bestAt[at - lowest] === slot) break;
      forks.add(bestAt[at - lowest]!);
    }
    forks.delete(slot);
    bestAt[at - lowest] = slot;
    changedFrom = at;
  }
  branches.best = tip;
  return changedFrom;
}

/** The slots from above the best chain up to this one, lowest first; none when it is on the best chain. */
export function slotsOff(branches: Branches, tip: number): number[] {
  const { arena } = branches;
  const slots: number[] = [];
  for (let slot = tip; slotOfHeight(branches, arena.heightOf(slot)) !== slot; slot = arena.parentOf(slot)) slots.push(slot);
  return slots.reverse();
}

/** Whether the branch that ends with `last` contains a slot. */
export function isBelow(branches: Branches, slot: number, last: number): boolean {
  const { arena } = branches;
  const off = slotsOff(branches, last);
  const fork = off.length > 0 ? arena.parentOf(off[0]!) : last;
  const height = arena.heightOf(slot);
  return off.includes(slot) || (height <= arena.heightOf(fork) && slotOfHeight(branches, height) === slot);
}

/** The header with the most work that is above none whose block is not served: the best one as long as no other has more. */
export function selectBest(branches: Branches): number {
  const { arena, aside, forks } = branches;
  let top = tipHeight(branches);
  for (const slot of aside) {
    const height = arena.heightOf(slot);
    if (height <= top && slotOfHeight(branches, height) === slot) top = height - 1;
  }
  let chosen = slotOfHeight(branches, top);
  let most = arena.workOf(chosen);
  const served = new Set<number>();
  for (const slot of [...forks].toSorted((a, b) => arena.heightOf(a) - arena.heightOf(b))) {
    const parent = arena.parentOf(slot);
    if (aside.has(slot) || (forks.has(parent) ? !served.has(parent) : arena.heightOf(parent) > top)) continue;
    served.add(slot);
    const work = arena.workOf(slot);
    if (work > most) [chosen, most] = [slot, work];
  }
  return chosen;
}

/** The headers of the branch that ends with this slot, by height. Asking downwards costs one step each, and none on the best chain. */
export function branchFrom(branches: Branches, tip: number): HeaderPlace['at'] {
  const { arena } = branches;
  let slot = tip;
  return (height) => {
    if (arena.heightOf(slot) < height) slot = tip;
    for (let at = arena.heightOf(slot); at > height; at = arena.heightOf(slot)) {
      slot = slotOfHeight(branches, at) === slot ? slotOfHeight(branches, height) : arena.parentOf(slot);
      if (slot < 0) throw new RangeError(`the chain does not reach down to block ${height}`);
    }
    return { timeSeconds: arena.timeOf(slot), bits: arena.bitsOf(slot) };
  };
}

/**
 * The forks with the least work, until at most `room` headers of forks are left: children before their parents, so that what is left is
 * whole after each. It reads forks only, however long the best chain is.
 */
export function selectDropped({ arena, forks }: Branches, room: number): number[] {
  const parents = new Set<number>();
  for (const slot of forks) parents.add(arena.parentOf(slot));
  const tips = [...forks].flatMap((slot) => (parents.has(slot) ? [] : [{ slot, work: arena.workOf(slot) }]));
  const kept = new Set<number>();
  const dropped = new Set<number>();
  const branches: number[][] = [];
  for (const tip of tips.toSorted((a, b) => (a.work < b.work ? 1 : a.work > b.work ? -1 : 0))) {
    const branch: number[] = [];
    let { slot } = tip;
    for (; forks.has(slot) && !kept.has(slot) && !dropped.has(slot); slot = arena.parentOf(slot)) branch.push(slot);
    const fits = !dropped.has(slot) && kept.size + branch.length <= room;
    for (const one of branch) (fits ? kept : dropped).add(one);
    if (!fits) branches.push(branch);
  }
  return branches.reverse().flat();
}

/** Removes headers of forks. */
export function dropForks({ arena, forks, aside }: Branches, slots: readonly number[]): void {
  for (const slot of slots) {
    arena.remove(slot);
    forks.delete(slot);
    aside.delete(slot);
  }
}

// Headers of one chain and its forks, in a compact form: about 100 bytes each, because Dogecoin has half a million a year. A header is
// known by its slot, a number that stays the same until it is removed; then the next one takes its place.

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

type HeaderArena = ReturnType<typeof createHeaderArena>;

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
