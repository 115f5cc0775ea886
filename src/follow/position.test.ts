/** Behind or reorganized: what a tip means for the last block that was read, and which moves of the cursor are refused. */
// Invariant: A source that is behind does not undo anything.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvariantError } from '../core/invariant.ts';
import { moveCursor } from './cursor.ts';
import { doubtOfOlder, doubtOfSync } from './follow.ts';
import { takeBack } from './take-back.ts';

const cursor = { height: 100, hash: 'a100' };
const tipAt = (height: number, hash = `a${height}`) => ({ height, hash, parent: '', time: new Date(0) });

test('a lower tip that is one of our blocks, or was never read, is behind; another block in its place is a reorganization', () => {
  const older = (tip: ReturnType<typeof tipAt>, ours: string | null) => doubtOfOlder({ cursor, tip, ours })?.reason ?? null;
  assert.equal(older(tipAt(99), 'a99'), 'the source is 1 block behind what was read before (block 99)');
  assert.equal(older(tipAt(60), 'a60'), 'the source is 40 blocks behind what was read before (block 60)');
  assert.equal(older(tipAt(60, 'b60'), null), 'the source is 40 blocks behind what was read before (block 60)');
  assert.equal(older(tipAt(99, 'b99'), 'a99'), null);
  assert.equal(older(tipAt(100, 'b100'), 'a100'), null);
  assert.equal(older(tipAt(101, 'b101'), null), null);
});

test('a source that syncs takes nothing back', () => {
  assert.deepEqual(doubtOfSync(tipAt(40, 'b40'), { syncing: true, headers: 120 }), {
    code: 'syncing',
    reason: 'the source is still syncing (block 40 of 120)',
  });
  assert.equal(doubtOfSync(tipAt(40, 'b40'), { syncing: false, headers: 120 }), null);
});

// Invariant: The cursor moves up by one block, above its parent, or down to a fork.
test('the cursor moves up by one block, or down; nothing else reaches the database', async () => {
  let statements = 0;
  const tx = (async () => {
    statements++;
    return { count: 1 };
  }) as never;
  const move = (height: number) => moveCursor(tx, 'BTC', cursor, { height, hash: `b${height}` });
  for (const height of [100, 102, 150, -1]) await assert.rejects(move(height), InvariantError);
  assert.equal(statements, 0);
  for (const height of [101, 99, 0]) await move(height);
  assert.equal(statements, 3);
});

test('taking back no block is refused before anything is written', async () => {
  const nothing = {} as never;
  const fork = { cursor: { height: 100, hash: 'b100' }, base: null };
  await assert.rejects(takeBack(nothing, { coin: 'BTC', network: 'regtest' }, cursor, fork), InvariantError);
});
