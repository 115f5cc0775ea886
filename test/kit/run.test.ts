/** A run of named tests: a name that matches nothing is refused; a run that is stopped from outside leaves nothing behind. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import { eventually } from './app.ts';

/** Hangs, with a program that keeps its output open. Imports the kit's databases, so that a database server is started. */
const hanging = (told: string) => `
import { spawn } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import '${relative(dirname(told), join(import.meta.dirname, 'database.ts'))}';
test('hangs', async () => {
  const { pid } = spawn('sleep', ['600'], { stdio: ['ignore', 'ignore', 'inherit'] });
  writeFileSync('${told}.part', JSON.stringify({ pid, database: process.env.FLORIN_TEST_DATABASE }));
  renameSync('${told}.part', '${told}');
  await new Promise((resolve) => setTimeout(resolve, 600_000));
});
`;

test('a run at another date that gets SIGTERM stops its tests, the processes they started and its database server, and exits', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-run-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [file, told] = [join(folder, 'hangs.test.ts'), join(folder, 'told.json')];
  writeFileSync(file, hanging(told));
  const { NODE_TEST_CONTEXT: _, FLORIN_TEST_DATABASE: __, ...env } = process.env;
  const child = spawn(process.execPath, ['test/kit/run.ts', '--date=1', file], { env, stdio: 'ignore' });
  const exited = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  await eventually(
    async () => existsSync(told),
    (hangs) => hangs,
    60_000,
  );
  const { pid, database } = JSON.parse(readFileSync(told, 'utf8'));
  const socket = join(database, '.s.PGSQL.5432');
  assert.ok(existsSync(socket));
  child.kill('SIGTERM');
  assert.deepEqual(await exited, [1, null]);
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  assert.ok(!existsSync(socket), 'the database server has stopped');
});

test('an error that nobody caught fails the run, also when the test that caused it has passed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-run-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const causes: Readonly<Record<string, string>> = {
    rejection: "void (async () => { await null; throw new Error('nobody caught me'); })(); await new Promise(setImmediate);",
    exception: "await null; setImmediate(() => { throw new Error('nobody caught me'); }); await new Promise((end) => setTimeout(end, 1));",
  };
  for (const [name, cause] of Object.entries(causes)) {
    const file = join(folder, `${name}.test.ts`);
    const tests = `test('passes', async () => { ${cause} });`;
    writeFileSync(file, `import { describe, test } from 'node:test';\n${tests}\ndescribe('a group', () => { ${tests} });\n`);
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { status, stdout } = spawnSync(process.execPath, ['test/kit/run.ts', file], { env, encoding: 'utf8' });
    assert.equal(status, 1, stdout);
    assert.match(stdout, /nobody caught me/);
  }
});

test('a file or folder without tests ends the run with one line, even beside one that exists', () => {
  for (const missing of ['src/core/missing.test.ts', 'src/missing']) {
    const names = ['src/core/invariant.test.ts', missing];
    const { status, stdout, stderr } = spawnSync(process.execPath, ['test/kit/run.ts', ...names], { encoding: 'utf8' });
    assert.deepEqual([status, stdout, stderr], [1, '', `No test file matches ${missing}.\n`]);
  }
});

test('small files of a folder share a process, one after the other, each with its own hooks, and a failure names its file', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-run-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const told = join(folder, 'told');
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const files = names.map((name) => {
    const file = join(folder, `${name}.test.ts`);
    const note = (what: string) => `appendFileSync(${JSON.stringify(told)}, '${name} ${what} ' + process.pid + '\\n')`;
    const hooks = ['before', 'beforeEach', 'afterEach', 'after'].map((hook) => `${hook}(() => ${note(hook)});`).join('\n');
    const last = name === 'c' ? "throw new Error('c fails')" : '';
    writeFileSync(
      file,
      `import { appendFileSync } from 'node:fs';
import { after, afterEach, before, beforeEach, test } from 'node:test';
${hooks}
${note('loaded')};
test('one', () => ${note('one')});
test('two', () => { ${note('two')}; ${last} });\n`,
    );
    return file;
  });
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout } = spawnSync(process.execPath, ['test/kit/run.ts', ...files], { env, encoding: 'utf8' });
  const lines = readFileSync(told, 'utf8').trim().split('\n');
  const each = ['loaded', 'before', ...['one', 'two'].flatMap((name) => ['beforeEach', name, 'afterEach']), 'after'];
  assert.deepEqual(
    lines.map((line) => line.split(' ').slice(0, 2).join(' ')),
    names.flatMap((name) => each.map((what) => `${name} ${what}`)),
  );
  assert.equal(new Set(lines.map((line) => line.split(' ')[2])).size, 1, 'one process');
  assert.equal(status, 1);
  assert.match(stdout, /c fails/);
  assert.deepEqual(
    [...stdout.slice(0, stdout.indexOf('failing tests')).matchAll(/^([✔✖]) .*\/(\w)\.test\.ts /gm)].map(
      ([, mark, name]) => `${name} ${mark}`,
    ),
    names.map((name) => `${name} ${name === 'c' ? '✖' : '✔'}`),
  );
});
