/**
 * Whether a piece of work is quick. CPU time is counted, and the least of several tries, so that neither a busy machine nor a collection
 * of garbage makes quick work look slow. Work that is slow is slow each time.
 */
import assert from 'node:assert/strict';

const TRIES = 5;

/** Fails if `work` uses the processor for `mostMs` or longer each time that it runs. */
export function assertQuick(what: string, mostMs: number, work: () => void): void {
  let leastMs = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < TRIES && leastMs >= mostMs; tries++) {
    const before = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(before);
    leastMs = Math.min(leastMs, (user + system) / 1_000);
  }
  assert.ok(leastMs < mostMs, `${what}: ${leastMs} ms of CPU time, at most ${mostMs} ms are expected`);
}
