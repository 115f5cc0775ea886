/**
 * The branches of a header chain: which one is best, a height on any of them, and what is dropped when there are too many. The best one is
 * the one with the most work among those whose blocks can be had, as far as is known.
 */
import { createHeaderArena, type HeaderArena } from './header-arena.ts';
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
