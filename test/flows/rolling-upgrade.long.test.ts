/** A rolling upgrade: the previous version runs beside this one on the same database, and both create and settle payments. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { client, eventually, testEnvironment } from '../kit/app.ts';
import { freePort } from '../kit/nodes.ts';
import { startService } from '../kit/service.ts';

/** The last commit before the tables separated assets, chains and families from coins. */
const PREVIOUS = 'a360cba';

/** The code of the previous version in a folder; null without the repository's history. */
function checkOut(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'florin-previous-'));
  try {
    const archive = execFileSync('git', ['archive', PREVIOUS, 'src', 'sdk', 'docs', 'dashboard', 'package.json', 'openapi.json'], {
      maxBuffer: 1 << 30,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    execFileSync('tar', ['x', '-C', folder], { input: archive });
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
    return folder;
  } catch {
    rmSync(folder, { recursive: true, force: true });
    return null;
  }
}

test('the previous version and this one create and settle payments on one database', async (t) => {
  const folder = checkOut();
  if (folder === null) return t.skip(`the repository has no commit ${PREVIOUS}, such as in a shallow clone`);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const environment = Object.fromEntries(['BTC', 'ETH', 'LTC'].map((coin) => [`${coin}_NODE_URL`, 'http://florin:test@127.0.0.1:1']));
  // This version migrates first. The previous one then serves the same database.
  const service = await startService({ environment, mode: 'test' });
  let previous: ChildProcess | null = null;
  t.after(async () => {
    if (previous?.exitCode === null) {
      const ended = once(previous, 'exit');
      previous.kill();
      await ended;
    }
    await service.destroy();
  });
  const { sql } = service.database.db;
  for (const coin of ['BTC', 'ETH', 'LTC']) {
    const key = 'xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V';
    const script = coin === 'ETH' ? [] : ['--script', 'p2wpkh'];
    await service.florin('wallet', 'set', '--merchant', service.merchantId, '--coin', coin, '--mode', 'live', '--key', key, ...script);
    await sql`
      insert into tips (coin, height, hash, scanned_through, looked_at, watched_from, watched_parent, watched_since)
      values (${coin}, 0, 'nobody', clock_timestamp(), clock_timestamp() + interval '1 day', 1, 'nobody', clock_timestamp())`;
  }
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const data = join(folder, 'data');
  mkdirSync(data);
  previous = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'serve'], {
    cwd: folder,
    env: {
      PATH: process.env.PATH ?? '',
      ...testEnvironment(service.database.url, data, { PORT: String(port), PUBLIC_URL: url, LOG_LEVEL: 'fatal', ...environment }),
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  await eventually(
    () =>
      fetch(`${url}/healthz`).then(
        (reply) => reply.ok,
        () => false,
      ),
    (up) => up,
  );
  const versions = { previous: url, current: service.url };
  const test = service.testSecret;
  const live = service.liveSecret;
  const addresses: string[] = [];
  for (let round = 0; round < 10; round++) {
    for (const [version, at] of Object.entries(versions)) {
      const other = client(at === url ? service.url : url, test);
      for (const crypto of ['BTC', 'ETH', 'LTC']) {
        const body = { crypto, amount: 10 + round, currency_fiat: 'USD' };
        const made = await client(at, test).post('/v1/transactions/create', body);
        assert.equal(made.status, 201, `${version}: ${made.text}`);
        // Made by one version, simulated through the other, settled by the worker of either.
        const begun = await other.post(`/v1/test/payments/${made.json.id}/simulate`, { scenario: 'success' });
        assert.equal(begun.status, 200, begun.text);
        await eventually(
          async () => [
            (await client(url, test).get(`/api/payment/${made.json.id}`)).json.status,
            (await client(service.url, test).get(`/api/payment/${made.json.id}`)).json.status,
          ],
          (statuses) => statuses.every((status) => status === 'completed'),
        );
        const real = await client(at, live).post('/v1/transactions/create', body);
        assert.equal(real.status, 201, `${version}: ${real.text}`);
        addresses.push(`${crypto} ${real.json.payment_address}`);
        const read = await client(at === url ? service.url : url, live).get(`/api/payment/${real.json.id}`);
        assert.equal(read.json.payment_address, real.json.payment_address);
      }
    }
  }
  assert.equal(new Set(addresses).size, 60, 'no address is issued twice');
  t.diagnostic(`${addresses.length} live and ${addresses.length} test payments, half of them by each version`);
});
