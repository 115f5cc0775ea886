/** Time from the database: the last sampled instant plus monotonic time, so that a wrong process clock decides nothing. */
import type { Clock } from '../core/clock.ts';
import type { Db } from './db.ts';

export type SampledClock = Clock & { sample(): Promise<void>; stop(): void };

/** Samples the database clock now and then once a second. A failed sample keeps the last one running. */
export async function startClock(db: Db): Promise<SampledClock> {
  let instantMs = 0;
  let sampledAtMs = 0;
  const sample = async () => {
    const before = performance.now();
    const [row] = await db.sql<{ now: Date }[]>`select clock_timestamp() as now`;
    const after = performance.now();
    // The answer was read somewhere in between; the middle is off by at most half the round trip.
    instantMs = row!.now.getTime();
    sampledAtMs = (before + after) / 2;
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
