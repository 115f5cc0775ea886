/** What is kept of headers: their bytes, their place and the work up to them, on every branch. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { admitFork, createBranches, dropForks, followBranch, selectDropped } from './header-branches.ts';
import { sha256d } from './strict-reader.ts';

const FIRST = 500;
/** Any work for any bits, up to more than 64 bits. */
const workOfBits = (bits: number): bigint => BigInt(bits) ** 3n + 1n;

type Made = { bytes: Buffer; id: Buffer; parent: number; height: number; work: bigint };
function makeHeader(parent: Made | null, parentAt: number, bits: number, salt: number): Made {
  const bytes = Buffer.alloc(80, salt);
  (parent?.id ?? Buffer.alloc(32, 7)).copy(bytes, 4);
  bytes.writeUInt32LE(salt, 68);
  bytes.writeUInt32LE(bits, 72);
  return {
    bytes,
    id: sha256d(bytes),
    parent: parentAt,
    height: parent ? parent.height + 1 : FIRST,
    work: parent ? parent.work + workOfBits(bits) : 0n,
  };
}
/** A checkpoint, and headers above: each continues the newest one or, now and then, one of those before it. */
const trees = fc
  .array(fc.record({ back: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.nat(70)), bits: fc.nat(0xffffffff) }), { maxLength: 400 })
  .map((steps) => {
    const made = [makeHeader(null, -1, 1, 0)];
    for (const { back, bits } of steps) {
      const at = Math.max(0, made.length - 1 - back);
      made.push(makeHeader(made[at]!, at, bits, made.length));
    }
    return made;
  });

/** Adds headers whose parents are known. Returns the slot of each. */
function addTo(branches: ReturnType<typeof createBranches>, made: readonly Made[], slots: number[] = []): number[] {
  const { arena } = branches;
  for (const { bytes, id, parent, height } of made.slice(slots.length)) {
    const slot = arena.append(bytes, parent < 0 ? -1 : slots[parent]!, height);
    // A header that was refused leaves nothing behind.
    arena.remove(arena.append(Buffer.alloc(80, 9), slot, height + 1));
    slots.push(slot);
    if (parent < 0) arena.admit(slot, id, { counts: false });
    else admitFork(branches, slot, id);
    if (parent < 0 || arena.workOf(slot) > arena.workOf(branches.best)) followBranch(branches, slot);
  }
  return slots;
}
function build(made: readonly Made[]) {
  const branches = createBranches({ lowest: FIRST, lowestParent: Buffer.alloc(32, 7), workOfBits });
  return { branches, slots: addTo(branches, made) };
}
/** What the headers of these slots must be, asked in the order of a stride. */
function assertKept({ branches: { arena }, slots }: ReturnType<typeof build>, made: readonly Made[], stride = 1): void {
  for (let i = 0, at = 0; i < made.length; i++, at = (at + stride) % made.length) {
    const [{ bytes, id, height, work }, slot] = [made[at]!, slots[at]!];
    if (arena.find(id) < 0) continue;
    assert.deepEqual([arena.find(id), arena.heightOf(slot), arena.workOf(slot)], [slot, height, work]);
    assert.deepEqual(arena.headerOf(slot), bytes);
  }
}

test('each header is found with its bytes, its height and the work up to it, in any order of questions', () => {
  fc.assert(
    fc.property(trees, fc.integer({ min: 1, max: 200 }), (made, stride) => {
      const built = build(made);
      for (const { id } of made) assert.ok(built.branches.arena.find(id) >= 0);
      assertKept(built, made, stride);
    }),
    { numRuns: 50 },
  );
});

test('after forks were dropped, nothing else has moved, and new headers take their places', () => {
  fc.assert(
    fc.property(trees, fc.nat(100), fc.integer({ min: 1, max: 200 }), (made, room, stride) => {
      const built = build(made);
      const { branches } = built;
      const { arena } = branches;
      const best = made[built.slots.indexOf(branches.best)]!;
      const before = { size: arena.size(), bytes: arena.bytes(), forks: branches.forks.size };
      const dropped = selectDropped(branches, room);
      for (const slot of dropped) {
        dropForks(branches, [slot]);
        for (const fork of branches.forks) assert.ok(branches.forks.has(fork) && arena.find(arena.idOf(arena.parentOf(fork))) >= 0);
      }
      assert.deepEqual([arena.size(), branches.forks.size], [before.size - dropped.length, before.forks - dropped.length]);
      assert.ok(branches.forks.size <= room);
      assert.deepEqual([arena.idOf(branches.best), arena.workOf(branches.best)], [best.id, best.work]);
      for (const { id } of made) assert.equal(arena.find(id) < 0, dropped.includes(built.slots[made.findIndex((one) => one.id === id)]!));
      assertKept(built, made, stride);
      const more = [...made];
      for (let i = 0; i < dropped.length; i++) {
        const parent = i === 0 ? built.slots.indexOf(branches.best) : more.length - 1;
        more.push(makeHeader(more[parent]!, parent, 1_000 + i, more.length));
      }
      const gone = new Set(dropped);
      const slots = addTo(branches, more, [...built.slots]);
      assert.ok(slots.slice(made.length).every((slot) => gone.has(slot)));
      for (const { id } of more.slice(made.length)) assert.ok(arena.find(id) >= 0);
      const stay = more.flatMap((_, i) => (i >= made.length || !gone.has(slots[i]!) ? [i] : []));
      assertKept(
        { branches, slots: stay.map((i) => slots[i]!) },
        stay.map((i) => more[i]!),
        stride,
      );
      assert.ok(arena.bytes() - before.bytes < 1_000, 'the same memory, but for the work at every 64th height');
    }),
    { numRuns: 50 },
  );
});

/** Questions to the arena while forks are dropped from a chain of this length. */
function countDropping(length: number) {
  const made = [makeHeader(null, -1, 1, 0)];
  for (let i = 1; i < length; i++) made.push(makeHeader(made[i - 1]!, i - 1, 1_000, i));
  // From one place, a hundred forks of ten headers, of which each has more work than the one before.
  for (let fork = 0; fork < 100; fork++)
    for (let i = 0; i < 10; i++) {
      const parent = i === 0 ? 100 : made.length - 1;
      made.push(makeHeader(made[parent]!, parent, 1 + fork, made.length));
    }
  const { branches } = build(made);
  const { arena } = branches;
  const bytes = arena.bytes();
  let asked = 0;
  const counted = Object.fromEntries(
    Object.entries(arena).map(([name, ask]) => [
      name,
      (...given: never[]) => {
        asked++;
        return (ask as (...all: never[]) => unknown)(...given);
      },
    ]),
  ) as typeof arena;
  dropForks({ ...branches, arena: counted }, selectDropped({ ...branches, arena: counted }, 500));
  return { asked, forks: branches.forks.size, headers: arena.size() - length, bytes: arena.bytes() - bytes };
}

test('dropping forks costs the same above a short and a long chain, and moves nothing', () => {
  const short = countDropping(200);
  assert.deepEqual(short, { asked: 1_000 + 100 + 1_000 + 500, forks: 500, headers: 500, bytes: 0 });
  assert.deepEqual(countDropping(20_000), short);
});
