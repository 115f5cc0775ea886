/**
 * Loaded before each test file, and before the services that tests start, because both would spend much of their processor time elsewhere:
 * a fifth of that of loading the code goes to finding files that are named completely, and a tenth of that of a test to its runner.
 */
import asyncHooks from 'node:async_hooks';
import { registerHooks } from 'node:module';

registerHooks({
  resolve: (specifier, context, next) =>
    /^\.\.?\/.*\.ts$/.test(specifier) && context.parentURL?.startsWith('file:')
      ? { url: new URL(specifier, context.parentURL).href, format: 'module-typescript', shortCircuit: true }
      : next(specifier, context),
});

if (process.env.NODE_TEST_CONTEXT !== undefined) {
  // The runner follows every promise, so that an error which nobody caught fails the test that caused it. Without it, it fails the file.
  const { createHook } = asyncHooks;
  Object.assign(asyncHooks, {
    createHook: (callbacks: asyncHooks.HookCallbacks) => createHook({ ...callbacks, trackPromises: false }),
  });
  await import('node:test');
  Object.assign(asyncHooks, { createHook });
}
