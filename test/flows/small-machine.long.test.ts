/** A server with 1 GB of memory: service, database and commands in a control group of that size. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { client, eventually } from '../kit/app.ts';
import { freePort } from '../kit/nodes.ts';

const LIMIT = 2 ** 30;
const REST_MEGABYTES = 350;
const PAYMENTS = 3_000;
const AT_ONCE = 30;

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
  ...Object.fromEntries(
    ['BTC', 'LTC', 'DASH', 'DOGE'].flatMap((coin) => [
      [`${coin}_P2P`, 'off'],
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

let service: ChildProcess;
let printed = '';
before(async () => {
  mkdirSync(group);
  writeFileSync(join(group, LIMIT_FILE), String(LIMIT));
  service = spawn('sh', inGroup('exec ./florin serve'), { env, stdio: ['ignore', 'pipe', 'inherit'] });
  service.stdout!.on('data', (part: Buffer) => {
    printed += part.toString();
  });
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

test('with 1 GB, the service rests in 350 MB, takes thousands of payments, and doctor computes for less than a second', async (t) => {
  const key = await eventually(
    async () => /Secret test key +(\S+)/.exec(printed)?.[1],
    (found) => found !== undefined,
    120_000,
  );
  const rest = memoryOf();
  t.diagnostic(`${rest.toFixed(0)} MB at rest`);
  assert.ok(rest < REST_MEGABYTES, `${rest.toFixed(0)} MB`);
  const api = client(`http://127.0.0.1:${port}`, key!);
  for (let made = 0; made < PAYMENTS; made += AT_ONCE) {
    const replies = await Promise.all(
      Array.from({ length: AT_ONCE }, () =>
        api.post('/v1/payments', { amount: '25.00', currency: 'USD', return_url: 'https://shop.example' }),
      ),
    );
    for (const { status } of replies) assert.equal(status, 201);
  }
  t.diagnostic(`${memoryOf().toFixed(0)} MB after ${PAYMENTS} payments`);
  const doctor = () => spawnSync('sh', inGroup('./florin doctor --json > /dev/null; times'), { env, encoding: 'utf8' }).stdout;
  doctor();
  const [, minutes, seconds, more, others] = /\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s/.exec(doctor())!.map(Number);
  const cpu = 60 * (minutes! + more!) + seconds! + others!;
  t.diagnostic(`doctor: ${cpu.toFixed(2)} s`);
  assert.ok(cpu < 1, `${cpu} s`);
  assert.equal(service.exitCode, null);
});
