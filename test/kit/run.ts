/** Runs the tests: sees to the tools, starts one database server for the run, hands over to Node's own runner, whose summary comes last. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
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

if (files.some((file) => file.startsWith('test/'))) await ensureTools(long ? ['strace'] : []);
const server = await startTestServer();
const runner = spawn(
  process.execPath,
  [
    '--test',
    '--test-concurrency=3',
    '--test-reporter=spec',
    `--test-timeout=${long ? 7_200_000 : 600_000}`,
    '--disable-warning=ExperimentalWarning',
    ...files.sort(),
  ],
  { stdio: 'inherit', env: { ...process.env, FLORIN_TEST_DATABASE: server.host, ...(long && { FLORIN_LONG: '1' }) } },
);
const [code] = (await once(runner, 'exit')) as [number | null];
await server.stop();
process.exitCode = code ?? 1;
