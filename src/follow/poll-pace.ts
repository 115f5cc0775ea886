/** How often a chain is read by ranges: within the requests a day that its operator allows, and slower while no payment is open. */
import type { Context } from '../context.ts';
import { DAY_MS } from '../core/clock.ts';

export type Pace = ReturnType<typeof createPace>;

/** `perDay`: requests to each source; null: no limit. */
export function createPace({ clock }: Pick<Context, 'clock'>, { perDay, idleMs }: { perDay: number | null; idleMs: number }) {
  let atMs = Number.NEGATIVE_INFINITY;
  /** Requests that were sent earlier than the limit allows, in milliseconds. */
  let waitMs = 0;
  return {
    /** Whether it is time for a poll. `isOpen`: a payment is open. */
    isDue: (isOpen: boolean): boolean => {
      const nowMs = clock.monotonicMs();
      if (nowMs - atMs < Math.max(waitMs, isOpen ? 0 : idleMs)) return false;
      atMs = nowMs;
      waitMs = 0;
      return true;
    },
    /** The last poll needed this many requests, so the next one waits until they are spread over the day. */
    spent: (requests: number): void => {
      if (perDay !== null) waitMs += (requests * DAY_MS) / perDay;
    },
  };
}
