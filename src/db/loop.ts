/** The loop of whatever works through what is due: rounds one after the other, and pauses that a nudge ends and failures lengthen. */
import { setTimeout as sleep } from 'node:timers/promises';

const LONGEST_PAUSE_MS = 10_000;
/** Who stops does not wait for a database that is gone. */
const FAILURES_AT_STOP = 4;

export type Loop = {
  /** There may be work: the next round begins at once, but for the pause after a failure. */
  nudge(): void;
  /** Waits for the round under way, and for those that `hasLeft` asks for. */
  stop(): Promise<void>;
};

/** The first round begins once its caller is through: a round may use what is made after this call. */
export function startLoop({
  round,
  failed,
  pollMs,
  longestPauseMs = LONGEST_PAUSE_MS,
  hasLeft = () => false,
}: {
  /** True: there is more, the next one begins at once. The signal says that the loop is being stopped. */
  round(stopping: AbortSignal): Promise<boolean>;
  /** Told each failure, and how many there were in a row. */
  failed(error: unknown, failures: number): void;
  pollMs: number;
  longestPauseMs?: number;
  /** What the loop must see to before it stops. */
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
      let more = false;
      try {
        more = await round(stopping.signal);
        failures = 0;
      } catch (error) {
        failures++;
        failed(error, failures);
        if (stopping.signal.aborted && failures >= FAILURES_AT_STOP) return;
      }
      // What this round did may have been the last that was left: then nobody nudges any more.
      if ((failures === 0 && (more || woken)) || ended()) continue;
      pause = new AbortController();
      await sleep(Math.min(pollMs * 2 ** failures, Math.max(longestPauseMs, pollMs)), undefined, { signal: pause.signal }).catch(() => {});
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
