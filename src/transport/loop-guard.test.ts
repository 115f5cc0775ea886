/** The guard of the event loop: who held it, and how late it was. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Context } from '../context.ts';
import { type LoopGuard, readLoop, startLoopGuard } from './loop-guard.ts';

const guards: LoopGuard[] = [];
after(() => {
  for (const guard of guards) guard.stop();
});
function start() {
  const lines: object[] = [];
  const clock = { monotonicMs: () => performance.now() };
  const ctx = { clock, log: { warn: (fields: object) => lines.push(fields) } } as unknown as Context;
  const guard = startLoopGuard(ctx);
  guards.push(guard);
  return { ctx, guard, lines };
}
/** Computes for so many milliseconds of CPU time. */
function compute(ms: number): void {
  const began = process.threadCpuUsage();
  for (;;) {
    const { user, system } = process.threadCpuUsage(began);
    if (user + system >= ms * 1_000) return;
  }
}
const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a route that computes without a break is counted each time and named once', () => {
  const { ctx, guard, lines } = start();
  for (let i = 0; i < 3; i++) {
    guard.begin('GET /slow');
    compute(150);
    guard.end('GET /slow');
    guard.begin('GET /quick');
    guard.end('GET /quick');
  }
  assert.deepEqual([...readLoop(ctx).holds], [['GET /slow', 3]]);
  assert.equal(lines.length, 1);
  assert.partialDeepStrictEqual(lines[0], { route: 'GET /slow', holds: 1 });
});

test('work after a wait belongs to the request that it answers', async () => {
  const { ctx, guard } = start();
  guard.begin('GET /slow');
  guard.begin('GET /other');
  await turn();
  compute(150);
  guard.end('GET /slow');
  guard.end('GET /other');
  assert.deepEqual([...readLoop(ctx).holds], [['GET /slow', 1]]);
});

test('work that no request is seen to do is counted, and the delay of the loop with it', async () => {
  const { ctx, guard, lines } = start();
  while (readLoop(ctx).delays.count === 0) await turn();
  compute(150);
  while (!readLoop(ctx).holds.has('background')) await turn();
  const { delays } = readLoop(ctx);
  assert.ok(delays.sum >= 0.05, `${delays.sum} s`);
  assert.ok(delays.counts.every((count, i) => count >= (delays.counts[i - 1] ?? 0) && count <= delays.count));
  assert.ok(delays.counts[0]! < delays.count);
  assert.equal(lines.length, 0);
  guard.stop();
});
