/** Runs the tests: sees to the tools, starts one database server for the run, hands over to Node's own runner, whose summary comes last. */
import { globSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { startTestServer } from './database.ts';
import { ensureTools } from './tools.ts';

const args = process.argv.slice(2);
const long = args.includes('--long');
const named = args.filter((arg) => !arg.startsWith('--'));
const inFolders = (patterns: string[]) => globSync(patterns).filter((file) => long || !file.endsWith('.long.test.ts'));
const files =
  named.length > 0
    ? named.flatMap((name) => (name.endsWith('.ts') ? [name] : inFolders([`${name}/**/*.test.ts`])))
    : inFolders(['src/**/*.test.ts', 'test/**/*.test.ts']);
if (files.length === 0) {
  process.stderr.write(`No test file matches ${named.join(' ')}.\n`);
  process.exit(1);
}

/**
 * What takes long must not begin last: the states of the page, then the largest files. Those that mostly wait, for nodes and for
 * killed services, stand between those that mostly compute: run beside one another, the former cost the latter little.
 */
const weight = (file: string): number => (file.endsWith('states.test.ts') ? 1e9 : statSync(file).size);
const byWeight = files.toSorted((a, b) => weight(b) - weight(a));
const waiting = byWeight.filter((file) => /^test\/(nodes|faults)\//.test(file));
const computing = byWeight.filter((file) => !waiting.includes(file));
const mixed = Array.from({ length: Math.max(waiting.length, computing.length) }, (_, i) =>
  [waiting[i], computing[i]].filter((file) => file !== undefined),
).flat();

if (files.some((file) => file.startsWith('test/'))) await ensureTools(long ? ['strace'] : []);
const server = await startTestServer();
Object.assign(process.env, {
  NODE_COMPILE_CACHE: resolve('.cache/compiled'),
  FLORIN_TEST_DATABASE: server.host,
  ...(long && { FLORIN_LONG: '1' }),
});
// Ended from outside, it leaves nothing behind.
const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => ended.abort());
// The command line would sort the files by name.
const tests = run({
  files: mixed.map((file) => resolve(file)),
  concurrency: 4,
  timeout: long ? 7_200_000 : 600_000,
  execArgv: ['--disable-warning=ExperimentalWarning'],
  signal: ended.signal,
});
tests.on('test:fail', () => {
  process.exitCode = 1;
});
const report = tests.compose(spec);
report.pipe(process.stdout);
try {
  await finished(report);
} finally {
  await server.stop();
}
