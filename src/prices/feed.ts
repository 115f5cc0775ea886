/** Polls sources at their own pace and backs off from the ones that fail. */
import type { Outgoing } from '#connections';
import type { Clock } from '#core/dates';
import type { Log } from '#log';

export type FeedSource<T> = {
  name: string;
  /** Not asked more often than this; 0: at every round. */
  everyMs: number;
  /** Errors: it does not answer, or with nothing. */
  fetch(outgoing: Outgoing): Promise<T>;
};
/** A source's last answer, or why it failed. */
type FeedAnswer<T> = { name: string; answer: T | null; failure: string | null };
type Feed<T> = {
  start(): void;
  /** Asks every source now, regardless of earlier failures, also beside `start`. */
  askAll(): Promise<FeedAnswer<T>[]>;
  stop(): Promise<void>;
};

const LONGEST_PAUSE_MS = 600_000;
/** Failures that start within this time are reported together. */
const GATHER_MS = 1_000;

export type Outages = (source: string, reason: string) => void;
/** Logs sources that stopped answering, together: a machine that is offline gets one line, not one per source. */
export function createOutages(log: Log, gatherMs = GATHER_MS): Outages {
  const failed = new Map<string, string>();
  const report = () => {
    const reasons = [...new Set(failed.values())];
    log.warn(
      { sources: [...failed.keys()].join(', '), reason: reasons.length > 1 ? `${reasons[0]}, and others` : reasons[0] },
      'Some price sources are not responding; live payments need two that agree, test payments can use sample prices',
    );
    failed.clear();
  };
  return (source, reason) => {
    if (failed.size === 0) setTimeout(report, gatherMs).unref();
    failed.set(source, reason);
  };
}

/** `take` gets each answer and the time of its request, which is at least as old. `decide` is called after each round. */
export function createFeed<T>({
  sources,
  outgoing,
  clock,
  log,
  outages = createOutages(log),
  pollMs,
  take,
  decide,
}: {
  sources: readonly FeedSource<T>[];
  outgoing: Outgoing;
  clock: Clock;
  log: Log;
  /** Shared by feeds whose failures are reported together. */
  outages?: Outages | undefined;
  pollMs: number;
  take(source: string, answer: T, askedAtMs: number): void;
  decide(): Promise<void>;
}): Feed<T> {
  const waits = new Map<string, { until: number; failures: number }>();
  let timer: NodeJS.Timeout | null = null;
  /** The round under way. */
  let polling: Promise<void> | null = null;

  const ask = async (source: FeedSource<T>, { quiet = false } = {}): Promise<FeedAnswer<T>> => {
    const failures = waits.get(source.name)?.failures ?? 0;
    const askedAtMs = clock.monotonicMs();
    try {
      const answer = await source.fetch(outgoing);
      waits.set(source.name, { until: clock.monotonicMs() + source.everyMs - pollMs / 2, failures: 0 });
      take(source.name, answer, askedAtMs);
      return { name: source.name, answer, failure: null };
    } catch (error) {
      // A malformed answer is ignored, and the source is asked less often while it keeps failing.
      const failure = error instanceof Error ? error.message : String(error);
      const pause = Math.min(pollMs * 2 ** (failures + 1), LONGEST_PAUSE_MS) - pollMs;
      if (!quiet) {
        waits.set(source.name, { until: clock.monotonicMs() + pause, failures: failures + 1 });
        if (failures === 0) outages(source.name, failure);
      }
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
        // A round that takes longer than the interval must not pile up.
        polling ??= round()
          .catch((error: unknown) => log.error({ err: error }, 'Could not read prices'))
          .finally(() => {
            polling = null;
          });
      };
      // Does not wait for the first answers: a source that hangs must not delay the start.
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
