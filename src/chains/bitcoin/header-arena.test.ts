/** What is kept of headers: their bytes, their place and the work up to them, on every branch. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createBranches, dropForks, followBranch } from './header-branches.ts';
import { sha256d } from './sha256d.ts';

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

function build(made: readonly Made[]) {
  const branches = createBranches({ lowest: FIRST, lowestParent: Buffer.alloc(32, 7), checkpointHeight: FIRST, workOfBits });
  const { arena } = branches;
  for (const [slot, { bytes, id, parent, height }] of made.entries()) {
    assert.equal(arena.append(bytes, parent, height), slot);
    // A header that was refused leaves nothing behind.
    arena.append(Buffer.alloc(80, 9), slot, height + 1);
    arena.truncate(slot + 1);
    arena.admit(slot, id, { counts: slot > 0 });
    if (slot === 0 || arena.workOf(slot) > arena.workOf(branches.best)) followBranch(branches, slot);
  }
  return branches;
}

test('each header is found with its bytes, its height and the work up to it, in any order of questions', () => {
  fc.assert(
    fc.property(trees, fc.integer({ min: 1, max: 200 }), (made, stride) => {
      const { arena } = build(made);
      for (let i = 0, slot = 0; i < made.length; i++, slot = (slot + stride) % made.length) {
        const { bytes, id, height, work } = made[slot]!;
        assert.equal(arena.find(id), slot);
        assert.deepEqual([arena.heightOf(slot), arena.workOf(slot)], [height, work]);
        assert.deepEqual(arena.headerOf(slot), bytes);
      }
    }),
    { numRuns: 50 },
  );
});

test('after forks were dropped, the best chain is the same and the rest is as it was', () => {
  fc.assert(
    fc.property(trees, fc.nat(100), (made, room) => {
      const branches = build(made);
      const best = made[branches.best]!;
      dropForks(branches, room);
      const { arena } = branches;
      assert.deepEqual([arena.idOf(branches.best), arena.workOf(branches.best)], [best.id, best.work]);
      assert.ok(arena.size() <= best.height - FIRST + 1 + room);
      for (const { id, work, bytes } of made) {
        const slot = arena.find(id);
        if (slot >= 0) assert.deepEqual([arena.workOf(slot), arena.headerOf(slot)], [work, bytes]);
      }
    }),
    { numRuns: 50 },
  );
});
