/**
 * A rolling upgrade: the previous release runs beside this version on the same database. Both create and settle payments, and each follows
 * the chain while it holds the lock. Before the first release there is nothing to run.
 */
// Invariant: From the first release on, the previous release and this version can serve one database at the same time.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { client, eventually, testEnvironment } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { copyLastRelease } from '../kit/copy.ts';
import { freePort, startBitcoind } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

/** The newest release in a folder; null: there is none. */
function checkOut(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'florin-previous-'));
  if (copyLastRelease(folder)) return folder;
  rmSync(folder, { recursive: true });
  return null;
}

/** The previous version as a process of its own, which serves the database of this one. Both end with the test. */
type Previous = { url: string; start(): Promise<void>; kill(): Promise<void> };
async function preparePrevious(
  t: TestContext,
  { folder, service, environment }: { folder: string; service: Service; environment: Record<string, string> },
): Promise<Previous> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const data = join(folder, 'data');
  mkdirSync(data);
  let child: ChildProcess | null = null;
  const kill = async () => {
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
  t.after(async () => {
    await kill();
    await service.destroy();
  });
  const start = async () => {
    const started = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'src/main.ts', 'serve'], {
      cwd: folder,
      env: {
        PATH: process.env.PATH ?? '',
        ...testEnvironment(service.database.url, data, { PORT: String(port), PUBLIC_URL: url, LOG_LEVEL: 'fatal', ...environment }),
      },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    child = started;
    const isUp = async () => {
      if (started.exitCode !== null) throw new Error(`the previous version ended with ${started.exitCode}`);
      return fetch(`${url}/healthz`).then(
        (reply) => reply.ok,
        () => false,
      );
    };
    await eventually(isUp, (up) => up, 60_000);
  };
  return { url, start, kill };
}

test('the previous version and this one create and settle payments on one database', async (t) => {
  const folder = checkOut();
  if (folder === null) return t.skip('the repository has no release, such as in a shallow clone');
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const environment = Object.fromEntries(['BTC', 'ETH', 'LTC'].map((coin) => [`${coin}_NODE_URL`, 'http://florin:test@127.0.0.1:1']));
  // This version migrates first. The previous one then serves the same database.
  const service = await startService({ environment, mode: 'test' });
  const previous = await preparePrevious(t, { folder, service, environment });
  const { sql } = service.database.db;
  for (const coin of ['BTC', 'ETH', 'LTC']) {
    const key = 'xpub6CatWdiZiodmUeTDp8LT5or8nmbKNcuyvz7WyksVFkKB4RHwCD3XyuvPEbvqAQY3rAPshWcMLoP2fMFMKHPJ4ZeZXYVUhLv1VMrjPC7PW6V';
    const script = coin === 'ETH' ? [] : ['--script', 'p2wpkh'];
    await service.florin('wallet', 'set', '--merchant', service.merchantId, '--coin', coin, '--mode', 'live', '--key', key, ...script);
    await sql`
      insert into tips (chain, height, hash, scanned_through, looked_at, watched_from, watched_parent, watched_since)
      values (${coin}, 0, 'nobody', clock_timestamp(), clock_timestamp() + interval '1 day', 1, 'nobody', clock_timestamp())`;
  }
  await previous.start();
  const { url } = previous;
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

/** The first half of the advisory lock that the process holds which follows a chain. */
const FOLLOW_LOCK = 7_233_200;

test('payments are followed while the lock passes between the versions: no event is sent twice, and nothing is lost or undone', async (t) => {
  const folder = checkOut();
  if (folder === null) return t.skip('the repository has no release, such as in a shallow clone');
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const node = await startBitcoind();
  t.after(() => node.destroy());
  const environment = { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2', PRICES: 'static:BTC=1000.00' };
  const service = await startService({ environment });
  const previous = await preparePrevious(t, { folder, service, environment });
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(11)).derive("m/84'/1'/0'").publicExtendedKey;
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'BTC', '--mode', 'live'],
    ...['--key', base58check.respell(account, 0x043587cf), '--script', 'p2wpkh'],
  );
  const { sql } = service.database.db;
  const leader = async (): Promise<number | undefined> => {
    const held = await sql<
      { pid: number }[]
    >`select pid from pg_locks where locktype = 'advisory' and classid = ${FOLLOW_LOCK} and granted`;
    assert.ok(held.length <= 1, 'one process follows the chain');
    return held[0]?.pid;
  };
  const newLeader = async (before?: number): Promise<number> =>
    (await eventually(leader, (pid) => pid !== undefined && pid !== before, 60_000))!;
  const urls = { previous: previous.url, current: service.url };
  type Version = keyof typeof urls;
  const through = (version: Version) => client(urls[version], service.liveSecret);
  const paid: { id: string; events: string }[] = [];
  /** A payment created by one version, and paid. */
  const pay = async (version: Version, events = 'created processing completed'): Promise<string> => {
    const made = await through(version).post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' });
    assert.equal(made.status, 201, `${version}: ${made.text}`);
    await node.pay(made.json.payment_address, made.json.amount);
    paid.push({ id: made.json.transaction_id, events });
    return made.json.transaction_id;
  };
  const reach = async (ids: readonly string[], versions: readonly Version[], wanted: { status: string; confirmations?: number }) => {
    for (const id of ids)
      for (const version of versions)
        await eventually(
          async () => (await through(version).get(`/api/payment/${id}`)).json,
          (found) => found.status === wanted.status && (wanted.confirmations === undefined || found.confirmations === wanted.confirmations),
          60_000,
        );
  };
  const both = ['previous', 'current'] as const;

  // This version migrated the database and follows. The previous one serves beside it.
  let pid = await newLeader();
  await previous.start();
  const first = [await pay('previous'), await pay('current')];
  await reach(first, both, { status: 'processing' });
  await node.mine(2);
  await reach(first, both, { status: 'completed' });
  assert.equal(await leader(), pid, 'the lock did not move');

  // This version dies between two confirmations, and the previous one continues.
  const second = [await pay('previous'), await pay('current')];
  await reach(second, both, { status: 'processing' });
  await node.mine(1);
  await reach(second, both, { status: 'processing', confirmations: 1 });
  await service.end('SIGKILL');
  await node.mine(1);
  pid = await newLeader(pid);
  await reach([...first, ...second], ['previous'], { status: 'completed' });

  // This version is started again and creates payments, which the previous one follows, also through a reorganization.
  await service.start();
  const third = [await pay('current'), await pay('previous')];
  const [block] = await node.mine(1);
  await reach(third, both, { status: 'processing', confirmations: 1 });
  await node.rpc('invalidateblock', block);
  // Two blocks without transactions replace it.
  for (let i = 0; i < 2; i++) await node.rpc('generateblock', await node.newAddress(), []);
  await node.rebroadcast();
  await reach(third, both, { status: 'processing', confirmations: 0 });
  await node.mine(2);
  await reach([...first, ...second, ...third], both, { status: 'completed' });
  assert.equal(await leader(), pid, 'the lock did not move');

  // The previous version dies with a payment that only it has seen, and the upgrade is over.
  const fourth = [await pay('previous'), await pay('current')];
  await reach(fourth, both, { status: 'processing' });
  await previous.kill();
  await node.mine(2);
  await newLeader(pid);
  await reach([...first, ...second, ...third, ...fourth], ['current'], { status: 'completed' });

  for (const { id, events } of paid) {
    await eventually(
      async () => service.eventsOf(id).join(' '),
      (seen) => seen.length >= events.length,
    );
    assert.equal(service.eventsOf(id).join(' '), events, id);
  }
  // What the receiver did not get would be here.
  const stored = await sql<{ id: string; events: string }[]>`
    select payment_id as id, string_agg(replace(type, 'payment.', ''), ' ' order by sequence) as events from events group by payment_id`;
  assert.deepEqual(new Map(stored.map(({ id, events }) => [id, events])), new Map(paid.map(({ id, events }) => [id, events])));
  const [transfers] = await sql<{ n: number; units: string }[]>`
    select count(*)::int as n, sum(units)::text as units from transfers where payment_id = any(${paid.map(({ id }) => id)}::text[])`;
  assert.deepEqual(transfers, { n: paid.length, units: String(2_500_000n * BigInt(paid.length)) });
  t.diagnostic(`${paid.length} live payments, followed by three processes of two versions`);
});
