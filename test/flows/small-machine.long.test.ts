/**
 * A server with 1 GB of memory: service, database and commands in a control group of that size, with the headers of a year for each coin
 * that is read without a node.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { openCore } from '../../src/app.ts';
import { createChainStore } from '../../src/chain-store/chain-store.ts';
import { CHECKPOINTS, startOf } from '../../src/chains/bitcoin/checkpoints.ts';
import { idOf } from '../../src/chains/bitcoin/header.ts';
import { PROOF_PARAMS } from '../../src/chains/bitcoin/proof-params.ts';
import { readConfig } from '../../src/config.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { client, eventually } from '../kit/app.ts';
import { freePort } from '../kit/nodes.ts';
import { account } from '../kit/shop.ts';

const LIMIT = 2 ** 30;
const REST_MEGABYTES = 350;
const USED_MEGABYTES = 400;
const PAYMENTS = 3_000;
const AT_ONCE = 30;
const YEAR_SECONDS = 365 * 86_400;
const COINS = ['BTC', 'LTC', 'DASH', 'DOGE'] as const;

/** Files of control groups, of version 1 or 2. */
const [GROUPS, LIMIT_FILE] = existsSync('/sys/fs/cgroup/memory')
  ? ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes']
  : ['/sys/fs/cgroup', 'memory.max'];
const group = join(GROUPS, `florin-small-${process.pid}`);
const folder = mkdtempSync('/var/tmp/florin-small-');
const port = await freePort();
const env = {
  ...{ PATH: process.env.PATH!, FLORIN_DATA: folder, PORT: String(port), LOG_LEVEL: 'warn', NODE_COMPILE_CACHE: join(folder, 'compiled') },
  PRICES: 'static:BTC=97000.00,ETH=3500.00,LTC=100.00,DASH=30.00,DOGE=0.20',
  METRICS_TOKEN: 'figures',
  // Nobody answers there: the headers are those that are stored.
  ...Object.fromEntries(
    COINS.flatMap((coin) => [
      [`${coin}_PEERS`, '127.0.0.1:9'],
      [`${coin}_ELECTRUM_URL`, 'off'],
    ]),
  ),
};
const inGroup = (command: string): string[] => ['-c', `echo $$ > ${group}/cgroup.procs; ${command}`];

/** Memory of the processes of the group, each page counted once, in megabytes. */
const memoryOf = (): number =>
  readFileSync(join(group, 'cgroup.procs'), 'utf8')
    .split('\n')
    .filter(Boolean)
    .reduce((sum, pid) => {
      const rollup = existsSync(`/proc/${pid}/smaps_rollup`) ? readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8') : '';
      return sum + Number(/^Pss: +(\d+)/m.exec(rollup)?.[1] ?? 0) / 1_024;
    }, 0);

/**
 * A year of headers after the checkpoint, each with the hash of the one before. Their work is false: headers are stored after it was
 * checked, so nothing checks it again.
 */
function yearOfHeaders(coin: (typeof COINS)[number]): { from: number; headers: Buffer } {
  const params = PROOF_PARAMS[coin].main;
  const { height, headers: known } = startOf(CHECKPOINTS[coin]);
  const headers = Buffer.alloc(80 * Math.floor(YEAR_SECONDS / params.spacingSeconds));
  let parent = known.at(-1)!;
  for (let at = 0; at < headers.length; at += 80) {
    const header = headers.subarray(at, at + 80);
    parent.copy(header);
    idOf(params, parent).copy(header, 4);
    header.writeUInt32LE(parent.readUInt32LE(68) + params.spacingSeconds, 68);
    parent = header;
  }
  return { from: height + 1, headers };
}

let service: ChildProcess;
let key: string;
const tips = new Map<string, number>();
before(async () => {
  const { ctx, close } = await openCore(readConfig(env));
  const { merchantId, keys } = await createMerchant(ctx, { name: 'Shop' });
  key = keys.testSecret;
  const store = createChainStore(ctx.db);
  for (const coin of COINS) {
    const pages = store.headers(PROOF_PARAMS[coin].main);
    const { from: base, headers } = yearOfHeaders(coin);
    const end = base + headers.length / 80;
    for (let from = base; from < end; from = pages.lastOfSave(from) + 1)
      await pages.save({ base, from, headers: headers.subarray((from - base) * 80, (pages.lastOfSave(from) + 1 - base) * 80) });
    tips.set(coin, end - 1);
    const script = coin === 'BTC' || coin === 'LTC' ? 'p2wpkh' : 'p2pkh';
    await setWallet(ctx, { merchantId, coin, accountKey: account(coin).publicExtendedKey, script });
  }
  await close();
  mkdirSync(group);
  writeFileSync(join(group, LIMIT_FILE), String(LIMIT));
  service = spawn('sh', inGroup('exec ./florin serve'), { env, stdio: ['ignore', 'ignore', 'inherit'] });
});
after(async () => {
  if (service.exitCode === null) {
    service.kill('SIGTERM');
    await once(service, 'exit');
  }
  await eventually(
    async () => readFileSync(join(group, 'cgroup.procs'), 'utf8'),
    (left) => left === '',
  );
  rmdirSync(group);
  rmSync(folder, { recursive: true, force: true });
});

test('with 1 GB and the headers of a year, the service rests in 350 MB, takes thousands of payments, and doctor computes little more than its help', async (t) => {
  const url = `http://127.0.0.1:${port}`;
  const heights = async (): Promise<Map<string, number>> => {
    const text = await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer figures' } }).then(
      (reply) => reply.text(),
      () => '',
    );
    return new Map(
      [...text.matchAll(/^florin_headers_height\{coin="(\w+)"[^}]*\} (\d+)/gm)].map(([, coin, height]) => [coin!, Number(height)]),
    );
  };
  await eventually(heights, (found) => COINS.every((coin) => found.get(coin) === tips.get(coin)), 120_000);
  const rest = memoryOf();
  t.diagnostic(`${rest.toFixed(0)} MB at rest`);
  assert.ok(rest < REST_MEGABYTES, `${rest.toFixed(0)} MB`);
  const api = client(url, key);
  for (let made = 0; made < PAYMENTS; made += AT_ONCE) {
    const replies = await Promise.all(
      Array.from({ length: AT_ONCE }, () =>
        api.post('/v1/payments', { amount: '25.00', currency: 'USD', return_url: 'https://shop.example' }),
      ),
    );
    for (const { status } of replies) assert.equal(status, 201);
  }
  const used = memoryOf();
  t.diagnostic(`${used.toFixed(0)} MB after ${PAYMENTS} payments`);
  assert.ok(used < USED_MEGABYTES, `${used.toFixed(0)} MB`);
  const cpuOf = (command: string): number => {
    const { stdout } = spawnSync('sh', inGroup(`./florin ${command} > /dev/null; times`), { env, encoding: 'utf8' });
    const [, minutes, seconds, more, others] = /\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s/.exec(stdout)!.map(Number);
    return 60 * (minutes! + more!) + seconds! + others!;
  };
  // The first one fills the cache of compiled code.
  const [, help, doctor] = ['doctor --json', 'doctor --help', 'doctor --json'].map(cpuOf);
  t.diagnostic(`doctor: ${doctor!.toFixed(2)} s, its help: ${help!.toFixed(2)} s`);
  assert.ok(doctor! < 2.5 * help!, `${doctor} s`);
  assert.equal(service.exitCode, null);
});
