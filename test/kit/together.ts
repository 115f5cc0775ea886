/**
 * Runs the tests of several files in one process, one file after the other: code that has been loaded and has become warm starts a service
 * with a third of the processor time. Each file is one test, named after it, and its tests and hooks belong to that.
 */
import { registerHooks } from 'node:module';
import nodeTest, { type TestContext } from 'node:test';

type Name = 'test' | 'before' | 'after' | 'beforeEach' | 'afterEach';
type Call = (t: TestContext) => unknown;
/** What a file declares while it is loaded; `null` while its tests run. */
let declared: Call[] | null = null;

const declare = <N extends Name>(name: N): (typeof nodeTest)[N] =>
  ((...args: unknown[]) => {
    if (declared === null) return (nodeTest[name] as (...args: unknown[]) => unknown)(...args);
    declared.push((t) => (t[name] as (...args: unknown[]) => unknown).apply(t, args));
    return Promise.resolve();
  }) as (typeof nodeTest)[N];

// For the files, and for the parts of the kit that they use, this module is `node:test`.
export const [test, before, after, beforeEach, afterEach] = [
  declare('test'),
  declare('before'),
  declare('after'),
  declare('beforeEach'),
  declare('afterEach'),
];
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'node:test' && context.parentURL !== import.meta.url
      ? { url: import.meta.url, format: 'module-typescript', shortCircuit: true }
      : next(specifier, context),
});

/** Of files below the project's folder. */
export async function runTogether(files: readonly string[]): Promise<void> {
  // A test may wait for what keeps no process running, such as a thread.
  const running = setInterval(() => {}, 60_000);
  for (const file of files)
    await nodeTest.test(file, async (t) => {
      const calls: Call[] = [];
      declared = calls;
      try {
        await import(new URL(`../../${file}`, import.meta.url).href);
      } finally {
        declared = null;
      }
      for (const call of calls) await call(t);
    });
  clearInterval(running);
}
