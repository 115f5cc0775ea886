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
