/**
 * Several api processes share one request count, through a real Redis; without it each process counts separately and payments still work.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { client, countingAsOne, eventually, type Reply, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { freePort } from '../kit/nodes.ts';
import { REDIS } from '../kit/tools.ts';

let database: TestDatabase;
let port: number;
let redis: ChildProcess;
const apps: App[] = [];
before(async () => {
  database = await testDatabase();
  port = await freePort();
  redis = await startRedis();
  const environment = testEnvironment(database.url, database.folder, { REDIS_URL: `redis://127.0.0.1:${port}` });
  for (let i = 0; i < 2; i++) apps.push(await startApp(readConfig(environment), { roles: ['api'], log: createLog('silent') }));
  await shared();
});
after(async () => {
  for (const app of apps) await app.stop();
  await stopRedis();
  await database?.drop();
});

async function startRedis(): Promise<ChildProcess> {
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const started = spawn(REDIS, args, { argv0: 'redis-server', stdio: 'ignore' });
  await eventually(
    () =>
      new Promise<boolean>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => resolve(true));
        socket.once('error', () => resolve(false));
        socket.once('connect', () => socket.destroy());
      }),
    (up) => up,
  );
  return started;
}
async function stopRedis(): Promise<void> {
  if (redis.exitCode !== null || redis.signalCode !== null) return;
  const ended = once(redis, 'exit');
  redis.kill('SIGKILL');
  await ended;
}

/** Requests by a merchant that nothing else counts against. */
async function shared(): Promise<void> {
  const { keys } = await createMerchant(apps[0]!.ctx, { name: 'Enterprise' });
  const [one, other] = apps.map((app) => client(app.url!, keys.testSecret));
  await countingAsOne(
    () => one!.get('/api/payments'),
    () => other!.get('/api/payments'),
  );
}

/** Sends requests to both processes in turn. Returns how many were let through. */
async function ask(key: string, count: number): Promise<{ allowed: number; replies: Reply[] }> {
  const replies = await Promise.all(Array.from({ length: count }, (_, i) => client(apps[i % 2]!.url!, key).get('/api/payments?limit=1')));
  for (const reply of replies) assert.ok(reply.status === 200 || reply.status === 429, reply.text);
  return { allowed: replies.filter((reply) => reply.status === 200).length, replies };
}

test('two api processes let a Starter merchant make sixty requests a minute in total, not sixty each', async () => {
  const { keys } = await createMerchant(apps[0]!.ctx, { name: 'Small shop', plan: 'starter' });
  const { allowed, replies } = await ask(keys.testSecret, 100);
  assert.equal(allowed, 60);
  const left = replies.filter((reply) => reply.status === 200).map((reply) => Number(reply.headers.get('x-ratelimit-remaining')));
  assert.deepEqual(
    left.sort((a, b) => a - b),
    Array.from({ length: 60 }, (_, i) => i),
  );
  const refused = replies.find((reply) => reply.status === 429)!;
  assert.equal(refused.json.error.code, 'rate_limit_exceeded');
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
});

test('without the shared store each process counts separately; with it again they share one count', async () => {
  await stopRedis();
  const first = await createMerchant(apps[0]!.ctx, { name: 'Small shop', plan: 'starter' });
  assert.equal((await ask(first.keys.testSecret, 200)).allowed, 120);
  redis = await startRedis();
  await shared();
  const second = await createMerchant(apps[0]!.ctx, { name: 'Small shop', plan: 'starter' });
  assert.equal((await ask(second.keys.testSecret, 100)).allowed, 60);
});
