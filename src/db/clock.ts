/** Time from the database: a sampled instant plus monotonic time, so that a wrong process clock decides nothing. */
import type { Clock } from '../core/clock.ts';
import type { Db } from './db.ts';

export type SampledClock = Clock & { sample(): Promise<void>; stop(): void };

/** What the process' own clock may run wrong by, in parts of the time that passes: more than any does. */
const DRIFT = 1e-3;

/**
 * Samples the database clock now and then once a second. A sample that failed, or whose answer was long under way and fits the
 * last one, leaves that running.
 */
export async function startClock(db: Db): Promise<SampledClock> {
  let instantMs = 0;
  let sampledAtMs = 0;
  let wrongByMs = Number.POSITIVE_INFINITY;
  const sample = async () => {
    const before = performance.now();
    const [row] = await db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    const after = performance.now();
    // The answer was read somewhere in between; the middle is off by at most half the round trip.
    const offMs = (after - before) / 2;
    const middle = before + offMs;
    const instant = row!.now.getTime();
    const expected = instantMs + (middle - sampledAtMs);
    const allowedMs = wrongByMs + (middle - sampledAtMs) * DRIFT;
    // A less exact one says nothing new, unless the two cannot both be right: then that clock was set, or this machine slept.
    if (offMs > allowedMs && Math.abs(instant - expected) <= offMs + allowedMs) return;
    instantMs = instant;
    sampledAtMs = middle;
    wrongByMs = offMs;
  };
  await sample();
  const timer = setInterval(() => void sample().catch(() => {}), 1_000);
  timer.unref();
  return {
    now: () => new Date(instantMs + (performance.now() - sampledAtMs)),
    monotonicMs: () => performance.now(),
    sample,
    stop: () => clearInterval(timer),
  };
}
