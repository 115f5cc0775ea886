/** What an install contains: the size of its packages, and a service whose packages leave out the build tools. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { test } from 'node:test';
import { client, eventually, testEnvironment } from '../kit/app.ts';
import { copySource } from '../kit/copy.ts';
import { testDatabase } from '../kit/database.ts';
import { freePort } from '../kit/nodes.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
type Packages = Record<string, { dev?: boolean }>;
const locked = (JSON.parse(read('package-lock.json')) as { packages: Packages }).packages;
const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };

/** The packages that a source imports by name. In SQL, `is distinct from 'a'` imports nothing. */
const importsOf = (source: string): string[] =>
  [...source.matchAll(/(?:(?<!distinct )from|import(?:\.meta\.resolve)?\() ?'((?:@[\w-]+\/)?\w[\w.-]*)(?:[/:][^']*)?'/g)].map(
    ([, name]) => name!,
  );

test('production packages take less than 210 MB', () => {
  const bytes = Number(execFileSync(process.execPath, ['scripts/slim.mjs', '--measure'], { cwd: ROOT, encoding: 'utf8' }));
  assert.ok(bytes < 210_000_000, `they take ${bytes} bytes; test/flows/install.long.test.ts measures a real install`);
  // Node and PostgreSQL alone take more than this: otherwise nothing was measured.
  assert.ok(bytes > 150_000_000, `only ${bytes} bytes were found`);
});

test('the service imports production packages only, and production packages are only those that it imports', () => {
  const imported = new Set(
    globSync('src/**/*.ts', { cwd: ROOT })
      .filter((path) => !path.endsWith('.test.ts'))
      .flatMap((path) => importsOf(read(path)))
      .filter((name) => name !== 'node'),
  );
  // Listed only to pin versions that fit together: see docs/decisions/dependencies.md.
  const pins = ['@better-auth/core', 'better-call'];
  assert.deepEqual([...imported, ...pins].sort(), Object.keys(dependencies).sort());
  assert.deepEqual(
    importsOf(`import 'node:fs'; import a from '@b/c/d.js'; await import('e'); import f from './g.ts'; import.meta.resolve('h/i.ttf')`),
    ['@b/c', 'e', 'h'],
  );
});

test('without the build tools, payments work and the dashboard says how to build it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'florin-install-'));
  const database = await testDatabase();
  copySource(folder, { linked: false });
  for (const [path, { dev }] of Object.entries(locked)) {
    if (dev || !/^node_modules\/(@[^/]+\/)?[^/]+$/.test(path)) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    symlinkSync(join(ROOT, path), join(folder, path));
  }
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const service = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'serve'], {
    cwd: folder,
    env: { PATH: process.env.PATH, ...testEnvironment(database.url, database.folder, { PORT: String(port), PUBLIC_URL: url }) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(service, 'exit');
  t.after(async () => {
    service.kill();
    await ended;
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  });
  let output = '';
  for (const stream of [service.stdout, service.stderr])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  await eventually(
    async () => output,
    (text) => text.includes('Payments are not affected.'),
    60_000,
  );
  assert.match(output, /WARNING: The dashboard is not built.*Run "npm ci --include=dev && npm run build"/s);
  const [key] = /sk_test_\w+/.exec(output)!;
  const shop = client(url, key);
  const created = await shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks' });
  assert.equal(created.status, 201, created.text);
  // The first visit tries to build it, and the page reloads.
  const dashboard = await eventually(
    () => shop.get('/dashboard/sign-in'),
    ({ text }) => !text.includes('Building the dashboard'),
  );
  assert.equal(dashboard.status, 503);
  assert.match(dashboard.text, /npm run build/);
  assert.equal((await shop.get('/florin.tgz')).status, 503);
});
