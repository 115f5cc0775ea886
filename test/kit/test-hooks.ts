/**
 * Loaded before each test file, and before the services that tests start, because both would spend much of their processor time elsewhere:
 * a fifth of that of loading the code goes to finding files that are named completely, and a tenth of that of a test to its runner.
 */
import asyncHooks from 'node:async_hooks';
import crypto, { type BinaryLike, type ScryptOptions } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { registerHooks, syncBuiltinESMExports } from 'node:module';

const ROOT = new URL('../../', import.meta.url);
const doors: Record<string, string> = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')).imports;
const found = (url: URL) => ({ url: url.href, format: 'module-typescript', shortCircuit: true });

registerHooks({
  resolve(specifier, context, next) {
    if (!context.parentURL?.startsWith('file:')) return next(specifier, context);
    if (/^\.\.?\/.*\.ts$/.test(specifier)) return found(new URL(specifier, context.parentURL));
    if (!specifier.startsWith('#') || !context.parentURL.startsWith(ROOT.href)) return next(specifier, context);
    // Packages have names of that kind of their own, which are not those of doors.
    const door = specifier.startsWith('#core/') ? doors['#core/*']!.replace('*', specifier.slice('#core/'.length)) : doors[specifier];
    return door?.endsWith('.ts') ? found(new URL(door, ROOT)) : next(specifier, context);
  },
});

if (process.env.NODE_TEST_CONTEXT !== undefined) {
  // The runner follows every promise, so that an error which nobody caught fails the test that caused it. Without it, it fails the file.
  const { createHook } = asyncHooks;
  Object.assign(asyncHooks, {
    createHook: (callbacks: asyncHooks.HookCallbacks) => createHook({ ...callbacks, trackPromises: false }),
  });
  await import('node:test');
  Object.assign(asyncHooks, { createHook });

  // A password takes 90 ms to hash, on purpose, and tests sign people up and in hundreds of times. Their hashes cost a thousandth.
  const { scrypt } = crypto;
  type Done = (error: Error | null, key: Buffer) => void;
  Object.assign(crypto, {
    scrypt: (password: BinaryLike, salt: BinaryLike, bytes: number, options: ScryptOptions, done: Done) =>
      scrypt(password, salt, bytes, options.N === 16_384 ? { ...options, N: 16 } : options, done),
  });
  syncBuiltinESMExports();
}
