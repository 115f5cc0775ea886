/**
 * The branches of a header chain: which one is best, a height on any of them, and what is dropped when there are too many. The best one is
 * the one with the most work among those whose blocks can be had, as far as is known.
 */
import { createHeaderArena, type HeaderArena } from './header-arena.ts';
import type { HeaderPlace } from './header-rules.ts';

export type Branches = {
  arena: HeaderArena;
  /** The work that a header with these bits has. */
  workOfBits(bits: number): bigint;
  /** The height of the checkpoint: work counts above it. */
  checkpointHeight: number;
  /** The parent of the lowest header. */
  lowestParent: Buffer;
  lowest: number;
  /** The slot of the best tip. */
  best: number;
  /** The best chain's slots, by height above the lowest; valid up to the height of the tip. */
  bestAt: Int32Array;
  /** Headers whose blocks nobody has served yet. What follows them is not the best chain. None of them is on it. */
  aside: Set<number>;
};

export const createBranches = ({
  lowest,
  lowestParent,
  ...rest
}: Pick<Branches, 'lowest' | 'lowestParent' | 'checkpointHeight' | 'workOfBits'>): Branches => ({
  ...rest,
  arena: createHeaderArena(lowestParent, rest.workOfBits),
  lowestParent,
  lowest,
  best: -1,
  bestAt: new Int32Array(4_096),
  aside: new Set(),
});

export const tipHeight = ({ arena, best, lowest }: Branches): number => (best < 0 ? lowest - 1 : arena.heightOf(best));
/** The slot of the best chain at a height, or -1. */
export const slotOfHeight = (branches: Branches, height: number): number =>
  height < branches.lowest || height > tipHeight(branches) ? -1 : branches.bestAt[height - branches.lowest]!;
/** Headers that are not on the best chain. */
export const countForks = (branches: Branches): number => branches.arena.size() - (tipHeight(branches) - branches.lowest + 1);

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
  const { bestAt } = branches;
  let changedFrom = height;
  for (let slot = tip, at = height; slot >= 0; slot = arena.parentOf(slot), at--) {
    if (at <= known && bestAt[at - lowest] === slot) break;
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
export function selectBest({ arena, aside, best }: Branches): number {
  const counts = new Uint8Array(arena.size()).fill(1);
  for (const slot of aside) counts[slot] = 0;
  const isTip = new Uint8Array(arena.size()).fill(1);
  for (let slot = 1; slot < arena.size(); slot++) {
    counts[slot]! &= counts[arena.parentOf(slot)]!;
    if (counts[slot]) isTip[arena.parentOf(slot)] = 0;
  }
  let chosen = counts[best] ? best : -1;
  for (let slot = 0; slot < arena.size(); slot++) {
    if (!counts[slot] || !isTip[slot]) continue;
    if (chosen < 0 || arena.workOf(slot) > arena.workOf(chosen)) chosen = slot;
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

/** The best chain, and the forks with the most work that fit into `room`. */
function selectKept({ arena, best }: Branches, room: number): Uint8Array {
  const kept = new Uint8Array(arena.size());
  for (let slot = best; slot >= 0; slot = arena.parentOf(slot)) kept[slot] = 1;
  const isTip = new Uint8Array(arena.size()).fill(1);
  for (let slot = 1; slot < arena.size(); slot++) isTip[arena.parentOf(slot)] = 0;
  const tips: { slot: number; work: bigint }[] = [];
  for (let slot = 0; slot < arena.size(); slot++) if (isTip[slot] && !kept[slot]) tips.push({ slot, work: arena.workOf(slot) });
  let left = room;
  for (const tip of tips.toSorted((a, b) => (a.work < b.work ? 1 : a.work > b.work ? -1 : 0))) {
    const branch: number[] = [];
    for (let { slot } = tip; !kept[slot]; slot = arena.parentOf(slot)) branch.push(slot);
    if (branch.length > left) continue;
    left -= branch.length;
    for (const slot of branch) kept[slot] = 1;
  }
  return kept;
}

/** Drops the forks with the least work until at most `room` headers of them are left. Slots change. */
export function dropForks(branches: Branches, room: number): void {
  const { arena: old, lowest } = branches;
  const kept = selectKept(branches, room);
  const arena = createHeaderArena(branches.lowestParent, branches.workOfBits);
  const moved = new Int32Array(old.size());
  for (let slot = 0; slot < old.size(); slot++) {
    if (!kept[slot]) continue;
    const parent = old.parentOf(slot);
    moved[slot] = arena.append(old.headerOf(slot), parent < 0 ? -1 : moved[parent]!, old.heightOf(slot));
    arena.admit(moved[slot]!, old.idOf(slot), { counts: old.heightOf(slot) > branches.checkpointHeight });
  }
  branches.arena = arena;
  branches.aside = new Set([...branches.aside].flatMap((slot) => (kept[slot] ? [moved[slot]!] : [])));
  branches.best = moved[branches.best]!;
  for (let slot = branches.best; slot >= 0; slot = arena.parentOf(slot)) branches.bestAt[arena.heightOf(slot) - lowest] = slot;
}
