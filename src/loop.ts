/** A worker loop: one round after another, with pauses that a nudge ends and failures lengthen. */
import { setTimeout as sleep } from 'node:timers/promises';

const LONGEST_PAUSE_MS = 10_000;
/** Stopping does not wait for a database that is unreachable. */
const FAILURES_AT_STOP = 4;

export type Loop = {
  /** There may be work: starts the next round immediately, except during the pause after a failure. */
  nudge(): void;
  /** Waits for the current round, and for those that `hasLeft` requests. */
  stop(): Promise<void>;
};

/** The first round starts after the caller returns, because it may use what is created after this call. */
export function startLoop({
  round,
  failed,
  pollMs,
  longestPauseMs = LONGEST_PAUSE_MS,
  hasLeft = () => false,
}: {
  /**
   * True: there is more, so the next round starts immediately. A number: that many milliseconds until the next one, instead of `pollMs`.
   * The signal is aborted when the loop stops.
   */
  round(stopping: AbortSignal): Promise<boolean | number>;
  /** Called after each failure, with the number of consecutive failures. */
  failed(error: unknown, failures: number): void;
  pollMs: number;
  longestPauseMs?: number;
  /** Work that must be finished before the loop stops. */
  hasLeft?(): boolean;
}): Loop {
  const stopping = new AbortController();
  let failures = 0;
  let woken = false;
  let pause = new AbortController();
  const nudge = () => {
    woken = true;
    if (failures === 0) pause.abort();
  };
  const ended = () => stopping.signal.aborted && !hasLeft();
  const run = async () => {
    await null;
    while (!ended()) {
      woken = false;
      let left: boolean | number = false;
      try {
        left = await round(stopping.signal);
        failures = 0;
      } catch (error) {
        failures++;
        failed(error, failures);
        if (stopping.signal.aborted && failures >= FAILURES_AT_STOP) return;
      }
      // This round may have finished the last work, and then no nudge follows.
      if ((failures === 0 && (left === true || woken)) || ended()) continue;
      pause = new AbortController();
      const pauseMs = typeof left === 'number' ? left : Math.min(pollMs * 2 ** failures, Math.max(longestPauseMs, pollMs));
      await sleep(pauseMs, undefined, { signal: pause.signal }).catch(() => {});
    }
  };
  const done = run();
  return {
    nudge,
    stop: async () => {
      stopping.abort();
      pause.abort();
      await done;
    },
  };
}
