/** Time from the database: a sampled instant plus monotonic time, so that a wrong process clock decides nothing. */
import type { Clock } from '../core/clock.ts';
import type { Db } from './db.ts';

export type SampledClock = Clock & { sample(): Promise<void>; stop(): void };

/** The highest drift of the process clock, as a fraction of elapsed time. */
const DRIFT = 1e-3;

/**
 * Samples the database clock now and then once a second. A sample that failed, or that took long and agrees with the last one, is
 * ignored.
 */
export async function startClock(db: Db): Promise<SampledClock> {
  let instantMs = 0;
  let sampledAtMs = 0;
  let wrongByMs = Number.POSITIVE_INFINITY;
  const sample = async () => {
    const before = performance.now();
    const [row] = await db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    const after = performance.now();
    // The clock was read at some point in between; the midpoint is off by at most half the round trip.
    const offMs = (after - before) / 2;
    const middle = before + offMs;
    const instant = row!.now.getTime();
    const expected = instantMs + (middle - sampledAtMs);
    const allowedMs = wrongByMs + (middle - sampledAtMs) * DRIFT;
    // A less exact sample adds nothing, unless the two contradict each other: then the clock was set, or this machine slept.
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
