/** Long calculations in short steps, so that a process that serves payments does other work between them. */
import { setImmediate } from 'node:timers/promises';

/** A calculation that may be interrupted at each `yield`. */
export type Steps<T> = Generator<void, T, void>;

/** How long a calculation may hold the event loop. */
const TURN_MS = 8;

/** The result, without interruption. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The result, with turns of the event loop between steps. Errors: those of the calculation. */
export async function inTurns<T>(steps: Steps<T>): Promise<T> {
  for (let untilMs = performance.now() + TURN_MS; ; ) {
    const { done, value } = steps.next();
    if (done) return value;
    if (performance.now() < untilMs) continue;
    await setImmediate();
    untilMs = performance.now() + TURN_MS;
  }
}
