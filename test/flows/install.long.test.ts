/** A release, installed as on a server: from the archive, with production packages only. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, globSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { packFolder } from '../../scripts/release.ts';
import { client, eventually } from '../kit/app.ts';
import { terminalEnvironment } from '../kit/copy.ts';
import { freePort } from '../kit/nodes.ts';
import { textOfPdf } from '../kit/pdf.ts';
import { Person } from '../kit/person.ts';
import { createSigner } from '../kit/releases.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const home = mkdtempSync(join(tmpdir(), 'florin-release-'));
let service: ChildProcess | null = null;
async function stop(): Promise<void> {
  if (!service || service.exitCode !== null) return;
  const ended = once(service, 'exit');
  process.kill(-service.pid!, 'SIGTERM');
  await ended;
}
after(async () => {
  await stop();
  rmSync(home, { recursive: true, force: true });
});

test('a release installs in less than 210 MB, builds nothing, and takes a payment', async (t) => {
  execFileSync(process.execPath, ['scripts/release.ts'], { cwd: ROOT });
  const [archive] = globSync('dist/release/florin-[0-9]*.tgz', { cwd: ROOT });
  cpSync(join(ROOT, archive!), join(home, 'florin.tgz'));
  execFileSync('tar', ['-xzf', 'florin.tgz'], { cwd: home });
  const [name] = globSync('florin-*', { cwd: home });
  const folder = join(home, name!);
  assert.equal(existsSync(join(folder, 'dashboard')), false);
  assert.deepEqual(globSync('src/**/*.test.ts', { cwd: folder }), []);

  const env = terminalEnvironment();
  const installed = execFileSync('npm', ['ci', '--omit=dev'], { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  assert.match(installed, /added \d+ packages/);
  assert.equal(existsSync(join(folder, 'node_modules/vite')), false);
  const files = globSync('node_modules/**/*', { cwd: folder }).map((path) => lstatSync(join(folder, path)));
  const bytes = files.filter((file) => file.isFile()).reduce((sum, { size }) => sum + size, 0);
  t.diagnostic(`npm ci --omit=dev takes ${bytes} bytes`);
  assert.ok(bytes > 150_000_000 && bytes < 210_000_000, `the packages take ${bytes} bytes`);

  const port = await freePort();
  const url = `http://localhost:${port}`;
  let output = '';
  const start = async (until: string): Promise<void> => {
    output = '';
    service = spawn('npm', ['start'], {
      cwd: folder,
      env: { ...env, PORT: String(port), FLORIN_DATA: join(home, 'data'), PRICES: 'static:BTC=97000.00' },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [service.stdout!, service.stderr!])
      stream.on('data', (part: Buffer) => {
        output += part;
      });
    await eventually(
      async () => output,
      (text) => text.includes(until),
      60_000,
    );
  };
  await start('simulate a payment');
  const shop = client(url, /sk_test_\w+/.exec(output)![0]);
  const { json } = await shop.post('/api/payment/create/simple', {
    ...{ amount_usd: 25, return_url: 'https://shop.example/thanks', invoice_id: 'Łódź-東京' },
  });
  assert.equal((await shop.post(`/v1/test/payments/${json.id}/simulate`, { scenario: 'success' })).status, 200);
  await eventually(
    async () => (await shop.get(`/api/payment/${json.id}`)).json.status,
    (status) => status === 'completed',
  );
  for (const path of ['/dashboard/sign-in', '/docs', '/docs/api', '/docs/guides/quickstart', '/florin.tgz', `/pay?id=${json.id}`])
    assert.equal((await fetch(url + path)).status, 200, path);
  const receipt = await fetch(`${url}/pay/receipt.pdf?id=${json.id}`);
  assert.ok(textOfPdf(Buffer.from(await receipt.arrayBuffer())).includes('Łódź-東京'));
  // The sign-in library, the mail library and the database driver load on demand.
  const owner = new Person(url);
  const [token] = /(?<=#token=)[\w-]+/.exec(output)!;
  const account = await owner.post('/set-up', { token, name: 'Ada', email: 'ada@shop.example', password: owner.password });
  assert.ok(account.status < 300, account.text);
  assert.equal((await owner.get('/test/me')).status, 200);
  assert.doesNotMatch(output, /Building|Could not/);

  // The next version has another number. What a number changes is tested beside the code; here real packages and real data change places.
  const release = createSigner();
  t.after(() => release.remove());
  const upgradeTo = (version: string): Record<string, unknown> => {
    const next = join(home, 'next', `florin-${version}`);
    mkdirSync(next, { recursive: true });
    execFileSync('tar', ['-xzf', join(home, 'florin.tgz'), '--strip-components=1', '-C', next]);
    for (const file of ['package.json', 'package-lock.json'])
      writeFileSync(join(next, file), readFileSync(join(next, file), 'utf8').replace(/"version": "[^"]+"/, `"version": "${version}"`));
    const packed = `florin-${version}.tgz`;
    writeFileSync(join(release.folder, packed), packFolder(next, { time: new Date() }));
    release.sign('SHA256SUMS', execFileSync('sha256sum', [packed], { cwd: release.folder, encoding: 'utf8' }));
    const command = ['upgrade', '--json', '--file', join(release.folder, packed)];
    return JSON.parse(execFileSync('./florin', command, { cwd: folder, encoding: 'utf8', env: { ...env, RELEASES_KEY: release.key } }));
  };
  assert.throws(() => upgradeTo('9.0.0'), 'it still runs');
  for (const version of ['9.0.0', '8.0.0']) {
    await stop();
    assert.equal(upgradeTo(version).version, version);
    await start(`Florin is ready at ${url}`);
    assert.equal((await shop.get(`/api/payment/${json.id}`)).json.status, 'completed');
    assert.match(execFileSync('./florin', ['version'], { cwd: folder, encoding: 'utf8', env }), new RegExp(version));
  }
});
