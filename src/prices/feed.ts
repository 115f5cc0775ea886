/** Asks sources again and again: each as often as it likes, one that errs less and less often. */
import type { Clock } from '../core/clock.ts';
import type { Log } from '../log.ts';
import type { Outgoing } from '../outgoing.ts';

export type Asked<T> = {
  name: string;
  /** Not asked more often than this; 0: at every round. */
  everyMs: number;
  /** Errors: it does not answer, or with nothing. */
  fetch(outgoing: Outgoing): Promise<T>;
};
/** How a source answered when it was asked last. */
export type Told<T> = { name: string; answer: T | null; failure: string | null };
export type Feed<T> = {
  start(): void;
  /** Asks every source now, whatever it did before; not together with `start`. */
  askAll(): Promise<Told<T>[]>;
  stop(): Promise<void>;
};

const LONGEST_PAUSE_MS = 600_000;

/** `take` is handed each answer and when it was asked for: it is at least as old. `decide` is called after each round. */
export function createFeed<T>({
  sources,
  outgoing,
  clock,
  log,
  pollMs,
  take,
  decide,
}: {
  sources: readonly Asked<T>[];
  outgoing: Outgoing;
  clock: Clock;
  log: Log;
  pollMs: number;
  take(source: string, answer: T, askedAtMs: number): void;
  decide(): Promise<void>;
}): Feed<T> {
  const waits = new Map<string, { until: number; failures: number }>();
  let timer: NodeJS.Timeout | null = null;
  /** The round under way. */
  let polling: Promise<void> | null = null;

  const ask = async (source: Asked<T>, { quiet = false } = {}): Promise<Told<T>> => {
    const failures = waits.get(source.name)?.failures ?? 0;
    const askedAtMs = clock.monotonicMs();
    try {
      const answer = await source.fetch(outgoing);
      waits.set(source.name, { until: clock.monotonicMs() + source.everyMs - pollMs / 2, failures: 0 });
      take(source.name, answer, askedAtMs);
      return { name: source.name, answer, failure: null };
    } catch (error) {
      // An answer that is none is no vote; ask less often while it lasts.
      const failure = error instanceof Error ? error.message : String(error);
      const pause = Math.min(pollMs * 2 ** (failures + 1), LONGEST_PAUSE_MS) - pollMs;
      waits.set(source.name, { until: clock.monotonicMs() + pause, failures: failures + 1 });
      if (failures === 0 && !quiet) log.warn({ source: source.name, reason: failure }, 'a price source does not answer');
      return { name: source.name, answer: null, failure };
    }
  };
  const round = async (): Promise<void> => {
    await Promise.all(sources.filter(({ name }) => clock.monotonicMs() >= (waits.get(name)?.until ?? 0)).map((source) => ask(source)));
    await decide();
  };
  return {
    start: () => {
      if (timer || sources.length === 0) return;
      const next = () => {
        // Rounds that last longer than the pause between them do not pile up.
        polling ??= round()
          .catch((error: unknown) => log.error({ err: error }, 'reading prices failed'))
          .finally(() => {
            polling = null;
          });
      };
      // The first answers are not waited for: a source that hangs must not hold up the start.
      next();
      timer = setInterval(next, pollMs);
      timer.unref();
    },
    askAll: async () => {
      if (sources.length === 0) return [];
      const told = await Promise.all(sources.map((source) => ask(source, { quiet: true })));
      await decide();
      return told;
    },
    stop: async () => {
      if (timer) clearInterval(timer);
      timer = null;
      await polling;
    },
  };
}
