/**
 * Loaded before each test file, and before the services that tests start, because both would spend much of their processor time elsewhere:
 * a fifth of that of loading the code goes to finding files that are named completely, and a tenth of that of a test to its runner.
 */
import asyncHooks from 'node:async_hooks';
import crypto, { type BinaryLike, type ScryptOptions } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ResolveHookSync, registerHooks, syncBuiltinESMExports } from 'node:module';

const ROOT = new URL('../../', import.meta.url);
const doors: Record<string, string> = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')).imports;
const found = (url: URL) => ({ url: url.href, format: 'module-typescript', shortCircuit: true });

/** Of a package, by the folder of the package that imports it: every file of that folder finds the same one. */
const packages = new Map<string, ReturnType<ResolveHookSync>>();
const folderOf = (file: string): string => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(file)?.[0] ?? '';
const resolve: ResolveHookSync = (specifier, context, next) => {
  const { parentURL: parent, conditions } = context;
  if (!parent?.startsWith('file:')) return next(specifier, context);
  if (/^\.\.?\/.*\.ts$/.test(specifier)) return found(new URL(specifier, parent));
  const isOurs = !parent.includes('/node_modules/');
  if (specifier.startsWith('#') && parent.startsWith(ROOT.href)) {
    // Packages have names of that kind of their own, which are not those of doors.
    const door = specifier.startsWith('#core/') ? doors['#core/*']!.replace('*', specifier.slice('#core/'.length)) : doors[specifier];
    return isOurs && door?.endsWith('.ts') ? found(new URL(door, ROOT)) : next(specifier, context);
  }
  if (!conditions.includes('import')) return next(specifier, context);
  if (!isOurs && /^\.\.?\/.*\.m?js$/.test(specifier)) return { url: new URL(specifier, parent).href, shortCircuit: true };
  if (!/^[@\w][^:]*$/.test(specifier) || (isOurs && !parent.startsWith(ROOT.href))) return next(specifier, context);
  const key = `${folderOf(parent)} ${specifier}`;
  const known = packages.get(key) ?? { ...next(specifier, context), shortCircuit: true };
  packages.set(key, known);
  return known;
};
registerHooks({ resolve });

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
