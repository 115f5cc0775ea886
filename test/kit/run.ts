/**
 * Runs the tests: installs the tools, starts one database server for the run when a file needs it, and uses Node's own runner, whose
 * summary comes last.
 * `--long` adds slow tests, and then runs the usual tests once at each of the dates; `--date=1` runs them only at the first one.
 */
import { globSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestServer } from './database.ts';
import { groupFiles } from './groups.ts';
import { filesReached } from './imports.ts';
import { QUICKLY } from './quickly.ts';
import { DATES, type ShiftedDate, startAt } from './shifted-clock.ts';

const args = process.argv.slice(2);
const long = args.includes('--long');
const date = args.find((arg) => arg.startsWith('--date='));
const named = args.filter((arg) => !arg.startsWith('--'));
const isLong = (file: string) => file.endsWith('.long.test.ts');
const inFolders = (patterns: string[]) => globSync(patterns).filter((file) => long || !isLong(file));
/** Of a file, a folder, or a test by its name: `ha` is test/faults/ha.long.test.ts. */
const filesOf = (name: string) =>
  name.endsWith('.ts') ? globSync([name]) : inFolders([`${name}/**/*.test.ts`, `{src,test}/**/${name}{,.long}.test.ts`]);
const unknown = named.filter((name) => filesOf(name).length === 0);
if (unknown.length > 0) {
  process.stderr.write(`No test file matches ${unknown.join(' ')}.\n`);
  process.exit(1);
}
const files = named.length > 0 ? named.flatMap(filesOf) : inFolders(['src/**/*.test.ts', 'test/**/*.test.ts']);

/**
 * Slow files must not start last: the states of the page, then the largest files. Files that mostly wait, for nodes and for killed
 * services, alternate with files that mostly compute: running side by side, they slow each other down little.
 */
const weight = (file: string): number => (file.endsWith('states.test.ts') ? 1e9 : statSync(file).size);
/** In starting order. The command line would sort them by name. */
function inOrder(some: readonly string[]): string[] {
  const groups = some.length < 8 ? some.map((file) => [file]) : groupFiles(some);
  const total = (group: readonly string[]) => group.reduce((sum, file) => sum + weight(file), 0);
  const byWeight = groups.toSorted((a, b) => total(b) - total(a));
  const waiting = byWeight.filter(([file]) => /^test\/(nodes|faults)\//.test(file!));
  const computing = byWeight.filter((group) => !waiting.includes(group));
  mkdirSync(TOGETHER, { recursive: true });
  return Array.from({ length: Math.max(waiting.length, computing.length) }, (_, i) =>
    [waiting[i], computing[i]].filter((group) => group !== undefined),
  )
    .flat()
    .map((group, i) => (group.length === 1 ? group[0]! : writeTogether(group, i)));
}
/** Of this run only: a test runs tests, too. */
const TOGETHER = `.cache/together/${process.pid}`;
function writeTogether(group: readonly string[], i: number): string {
  const file = `${TOGETHER}/${i}.test.ts`;
  writeFileSync(file, `import { runTogether } from '../../../test/kit/together.ts';\nawait runTogether(${JSON.stringify(group)});\n`);
  return file;
}

// Loaded only when needed, so that a test of pure functions runs in two seconds.
if (files.some((file) => file.startsWith('test/'))) {
  const { ensureTools, LONG_TOOLS } = await import('./tools.ts');
  await ensureTools(long ? LONG_TOOLS : []);
}
const reached = filesReached(files);
const needsDatabase = reached.has('test/kit/database.ts');
process.env.NODE_COMPILE_CACHE = resolve('.cache/compiled');
// Each service that finds no dashboard builds it, so the first ones would all do so.
if (reached.has('src/cli/install-commands.ts') || reached.has('test/kit/dashboard.ts')) {
  const { buildApp } = await import('../../src/web/dashboard/build.ts');
  await buildApp({ info: () => {} });
}
/** When stopped from outside, it leaves nothing behind: the tests, the processes they started and the database server are stopped. */
const ended = new AbortController();
let starting: Promise<TestServer> | null = null;
/** The database server, which is not one of the tests. */
let database: readonly number[] = [];
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void end());
async function end(): Promise<void> {
  if (ended.signal.aborted) return;
  // Listed before the tests end: their processes have no parent afterwards, and keep their output open.
  const started = readDescendants(process.pid, database);
  ended.abort();
  const server = await starting?.catch(() => null);
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    // A process that a test froze ends once it continues.
    for (const pid of started) for (const name of [signal, 'SIGCONT'] as const) sendSignal(pid, name);
    for (let waited = 0; waited < 40 && started.some((pid) => sendSignal(pid, 0)); waited++) await sleep(50);
  }
  await server?.stop();
  rmSync(TOGETHER, { recursive: true, force: true });
  process.exit(1);
}
/** The processes below one, except for some and their children. */
function readDescendants(of: number, without: readonly number[] = []): number[] {
  const parents = globSync('/proc/[0-9]*/stat').flatMap((file): [pid: number, parent: number][] => {
    try {
      // The name, in parentheses, may contain anything.
      const [, pid, parent] = /^(\d+) \(.*\) \S (\d+) /s.exec(readFileSync(file, 'utf8'))!;
      return [[Number(pid), Number(parent)]];
    } catch {
      // It ended in between.
      return [];
    }
  });
  const below = (parent: number): number[] =>
    parents.flatMap(([pid, own]) => (own === parent && !without.includes(pid) ? [pid, ...below(pid)] : []));
  return below(of);
}
/** Whether the process exists. */
function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

async function startServer(): Promise<TestServer> {
  const { startTestServer } = await import('./database.ts');
  starting = startTestServer();
  const server = await starting;
  database = readDescendants(process.pid);
  process.env.FLORIN_TEST_DATABASE = server.host;
  return server;
}

/** One run of these files, with its own database server when one of them needs it. */
async function runAll(some: readonly string[]): Promise<void> {
  if (ended.signal.aborted) return;
  const server = needsDatabase ? await startServer() : null;
  const tests = run({
    files: inOrder(some).map((file) => resolve(file)),
    concurrency: 4,
    timeout: long ? 7_200_000 : 600_000,
    execArgv: QUICKLY,
    signal: ended.signal,
  });
  tests.on('test:fail', () => {
    process.exitCode = 1;
  });
  const report = tests.compose(spec);
  report.pipe(process.stdout, { end: false });
  try {
    await finished(report);
  } finally {
    rmSync(TOGETHER, { recursive: true, force: true });
    if (!ended.signal.aborted) await server?.stop();
  }
}
async function runAt(shifted: ShiftedDate): Promise<void> {
  process.stdout.write(`\nThe tests at another date: ${shifted.name} (${shifted.at}, ${shifted.timeZone})\n`);
  startAt(shifted);
  await runAll(usual);
}

const usual = files.filter((file) => !isLong(file));
if (date !== undefined) await runAt(DATES[Number(date.slice('--date='.length)) - 1]!);
else {
  if (long) process.env.FLORIN_LONG = '1';
  await runAll(files);
  delete process.env.FLORIN_LONG;
  if (long && usual.length > 0) for (const shifted of DATES) if (!ended.signal.aborted) await runAt(shifted);
}
