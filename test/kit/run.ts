/** Runs the tests: sees to the tools, starts one database server for the run, hands over to Node's own runner, whose summary comes last. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
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
 * Files that mostly wait, for nodes and for killed services, stand between those that mostly compute: run beside one another, the
 * former cost the latter little. The largest begin first: what takes long must not begin last.
 */
const bySize = files.toSorted((a, b) => statSync(b).size - statSync(a).size);
const waiting = bySize.filter((file) => /^test\/(nodes|faults)\//.test(file));
const computing = bySize.filter((file) => !waiting.includes(file));
const mixed = Array.from({ length: Math.max(waiting.length, computing.length) }, (_, i) =>
  [waiting[i], computing[i]].filter((file) => file !== undefined),
).flat();

if (files.some((file) => file.startsWith('test/'))) await ensureTools(long ? ['strace'] : []);
const server = await startTestServer();
const runner = spawn(
  process.execPath,
  [
    '--test',
    '--test-concurrency=4',
    '--test-reporter=spec',
    `--test-timeout=${long ? 7_200_000 : 600_000}`,
    '--disable-warning=ExperimentalWarning',
    ...mixed,
  ],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: resolve('.cache/compiled'),
      FLORIN_TEST_DATABASE: server.host,
      ...(long && { FLORIN_LONG: '1' }),
    },
  },
);
// Ended from outside, it leaves nothing behind.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal));
const [code] = (await once(runner, 'exit')) as [number | null];
await server.stop();
process.exitCode = code ?? 1;
