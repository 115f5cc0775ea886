/** Loops over due work: rounds, pauses, nudges, failures and the end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../test/kit/app.ts';
import { startLoop } from './loop.ts';

const HOUR_MS = 3_600_000;
const never = (error: unknown) => assert.fail(String(error));
const reached = (count: () => number, wanted: number) =>
  eventually(
    async () => count(),
    (n) => n >= wanted,
  );

test('rounds follow at once while there is more; then only a nudge ends the pause', async () => {
  let rounds = 0;
  const loop = startLoop({ pollMs: HOUR_MS, failed: never, round: async () => ++rounds % 3 !== 0 });
  assert.equal(rounds, 0, 'the caller goes first');
  await reached(() => rounds, 3);
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(rounds, 3);
  loop.nudge();
  await reached(() => rounds, 6);
  await loop.stop();
  assert.equal(rounds, 6, 'who stops begins no round');
});

test('a nudge during a round is not lost', async () => {
  let rounds = 0;
  const loop = startLoop({
    pollMs: HOUR_MS,

    failed: never,
    round: async () => {
      rounds++;
      if (rounds === 1) loop.nudge();
      return false;
    },
  });
  await reached(() => rounds, 2);
  await loop.stop();
});

test('failures lengthen the pause up to its limit, a nudge does not shorten it, and one success makes it short again', async () => {
  const begun: number[] = [];
  const told: number[] = [];
  const loop = startLoop({
    pollMs: 20,
    longestPauseMs: 80,
    failed: (_error, failures) => void told.push(failures),
    round: async () => {
      begun.push(performance.now());
      if (begun.length > 4) return false;
      // Both within the round and within the pause after it.
      loop.nudge();
      setTimeout(loop.nudge, 5);
      throw new Error('gone');
    },
  });
  await reached(() => begun.length, 12);
  await loop.stop();
  assert.deepEqual(told, [1, 2, 3, 4]);
  const pauses = begun.slice(1).map((at, i) => at - begun[i]!);
  for (const [i, atLeast] of [40, 80, 80, 80].entries()) assert.ok(pauses[i]! >= atLeast - 2, `${pauses}`);
  assert.ok(Math.min(...pauses.slice(4)) < 60, `${pauses}`);
});

test('stopping waits for the running round, notifies it, and ends a pause', async () => {
  let release = () => {};
  let done = false;
  let told = false;
  const loop = startLoop({
    pollMs: HOUR_MS,
    failed: never,
    round: async (stopping) => {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      told = stopping.aborted;
      done = true;
      return true;
    },
  });
  await new Promise((resolve) => setImmediate(resolve));
  const stopped = loop.stop().then(() => assert.ok(done));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(done, false);
  release();
  await stopped;
  assert.ok(told);

  const resting = startLoop({ pollMs: HOUR_MS, failed: never, round: async () => false });
  await new Promise((resolve) => setImmediate(resolve));
  await resting.stop();
});

test('remaining work is done before the end, but not forever if it fails', async () => {
  let left = 3;
  const draining = startLoop({ pollMs: 1, failed: never, round: async () => --left > 0, hasLeft: () => left > 0 });
  await draining.stop();
  assert.equal(left, 0);

  let failed = 0;
  const broken = startLoop({
    pollMs: 1,
    failed: () => void failed++,
    round: async () => {
      throw new Error('gone');
    },
    hasLeft: () => true,
  });
  await broken.stop();
  assert.equal(failed, 4);
});
