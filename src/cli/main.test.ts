/** The command line as a whole: data folders without a database, and readers that leave early. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadCommands } from './run.ts';

const RUN = [process.execPath, '--disable-warning=ExperimentalWarning', 'src/main.ts'];

test('a command with a wrong data folder says so and creates nothing', () => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-none-'));
  const data = join(folder, 'data');
  try {
    for (const args of [
      ['merchant', 'list'],
      ['merchant', 'create', '--name', 'Shop'],
      ['migrate'],
      ['backup', '--file', join(folder, 'backup')],
    ]) {
      const { status, stdout, stderr } = spawnSync(RUN[0]!, [...RUN.slice(1), ...args], {
        env: { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, FLORIN_DATA: data },
        encoding: 'utf8',
      });
      assert.equal(status, 1, args.join(' '));
      assert.equal(stdout, '');
      assert.ok(stderr.includes(`There is no database in ${data}.`) && stderr.includes('FLORIN_DATA'), stderr);
      assert.equal(existsSync(data), false, args.join(' '));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('output that nobody reads to its end is not an error', () => {
  const { stderr } = spawnSync('sh', ['-c', '"$@" --help | true', 'sh', ...RUN], { encoding: 'utf8' });
  assert.equal(stderr, '');
});

/** Says which modules a process loaded, of packages and of Node, at its end. */
const COUNTS = `
  import { registerHooks } from 'node:module';
  const urls = [];
  registerHooks({ load: (url, context, next) => { urls.push(url); return next(url, context); } });
  process.on('exit', () => process.stderr.write(JSON.stringify([...urls, ...process.moduleLoadList])));
`;
const loadedBy = (args: readonly string[]): string[] => {
  const hook = `data:text/javascript,${encodeURIComponent(COUNTS)}`;
  const { stderr } = spawnSync(RUN[0]!, ['--import', hook, ...RUN.slice(1), ...args], { encoding: 'utf8' });
  return JSON.parse(stderr) as string[];
};

test('a command loads neither the server nor other commands', () => {
  const loaded = loadedBy(['doctor', '--help']);
  const unneeded = loaded.filter((url) =>
    /node_modules\/(fastify|typebox|better-auth)\/|src\/(http|web|shops)\/|(book|merchant|signing)-commands/.test(url),
  );
  assert.deepEqual(unneeded, []);
  const files = loaded.filter((url) => url.startsWith('file:'));
  assert.ok(files.length < 450, `${files.length} files`);
});

test('no process loads the client behind fetch, which nothing uses', () => {
  const script = `await Promise.all([import('#api'), import('#app')]); process.exit()`;
  const hook = `data:text/javascript,${encodeURIComponent(COUNTS)}`;
  const { stderr } = spawnSync(RUN[0]!, ['--import', hook, '--input-type=module', '-e', script], { encoding: 'utf8' });
  assert.deepEqual(
    (JSON.parse(stderr) as string[]).filter((name) => /undici/.test(name)),
    [],
  );
});

test('each command is found by its first word', async () => {
  for (const name of Object.keys(await loadCommands())) assert.ok(name in (await loadCommands(name.split(' ')[0])), name);
});
