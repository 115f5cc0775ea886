/** Long work in steps, so that a page can show its progress and stay usable between them. */

/** Work that pauses after each step. */
export type Steps<T> = Generator<void, T>;
export type Progress = { what: 'Checking' | 'Signing'; done: number; of: number };

/** The same work, which says how far it is. */
export function* counted<T>(what: Progress['what'], of: number, steps: Steps<T>): Generator<Progress, T> {
  for (let done = 1; ; done++) {
    const step = steps.next();
    if (step.done) return step.value;
    yield { what, done, of };
  }
}

/** Does all of the work at once. */
export function finish<T>(steps: Generator<unknown, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** The longest time without a pause, in milliseconds. */
const SLICE_MS = 50;

/** Does the work in slices, and tells the progress after each. Other events are handled between them. */
export async function finishInSlices<T>(steps: Generator<Progress, T>, tell: (progress: Progress) => void): Promise<T> {
  for (let from = performance.now(); ; ) {
    const step = steps.next();
    if (step.done) return step.value;
    if (performance.now() - from < SLICE_MS) continue;
    tell(step.value);
    await new Promise((resolve) => setTimeout(resolve));
    from = performance.now();
  }
}
