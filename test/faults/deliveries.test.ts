/**
 * Deliveries when processes end: the worker killed at any moment, a recovery killed between its steps, a receiver down for hours across a
 * restart of the service. Every event arrives, in order, and only accepted deliveries count as delivered.
 */
// Invariant: A killed worker loses no delivery, and only accepted deliveries count as delivered.
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { type Client, client, eventually, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { isLongRun } from '../kit/long.ts';
import { serve } from '../kit/serve.ts';
import { startService } from '../kit/service.ts';
import { startWorker, type Worker } from '../kit/worker.ts';

const KILLS = isLongRun ? 100 : 3;
const DELIVERIES = isLongRun ? 10_000 : 180;
/** So many that a recovery queues them in several steps. */
const RECOVERED = isLongRun ? 1_200 : 520;
const PLANS = '{"enterprise":{"per_minute":0}}';

let database: TestDatabase;
/** Answers requests; the workers are separate processes. */
let app: App;
before(async () => {
  database = await testDatabase();
  const environment = testEnvironment(database.url, database.folder, { PLANS });
  app = await startApp(readConfig(environment), { roles: ['api'], log: createLog('silent') });
});
after(async () => {
  await app?.stop();
  await database?.drop();
});

/** Requests as they arrived: by event, in order, with the highest number at the same time. */
type Receiver = {
  url: string;
  requests: { id: string; payment: string; type: string; taken: boolean }[];
  /** Events that were answered with 200. */
  taken: Set<string>;
  most: number;
  answer(next: (nth: number) => number): void;
};
async function startReceiver(t: TestContext, delayMs: number): Promise<Receiver> {
  let answer: (nth: number) => number = () => 200;
  let open = 0;
  const attempts = new Map<string, number>();
  const receiver: Receiver = {
    url: '',
    requests: [],
    taken: new Set(),
    most: 0,
    answer: (next) => {
      answer = next;
    },
  };
  const server = await serve(async (_request, reply, body) => {
    receiver.most = Math.max(receiver.most, ++open);
    try {
      const event = JSON.parse(body.toString());
      const nth = (attempts.get(event.id) ?? 0) + 1;
      attempts.set(event.id, nth);
      await sleep(delayMs * Math.random());
      const status = answer(nth);
      receiver.requests.push({ id: event.id, payment: event.data.id, type: event.type, taken: status === 200 });
      if (status === 200) receiver.taken.add(event.id);
      reply.writeHead(status).end();
    } finally {
      open--;
    }
  });
  t.after(server.stop);
  receiver.url = `${server.url}/hook`;
  return receiver;
}
const spawnWorker = (t: TestContext): Worker => startWorker(t, database, { PLANS });
async function openShop(url: string): Promise<{ shop: Client; endpoint: string }> {
  const { keys } = await createMerchant(app.ctx, { name: 'Shop', plan: 'enterprise' });
  const shop = client(app.url!, keys.testSecret);
  const made = await shop.post('/v1/webhook_endpoints', { url, events: ['payment.created'] });
  assert.equal(made.status, 201, made.text);
  return { shop, endpoint: made.json.id };
}
const createPayments = async (shop: Client, count: number): Promise<string[]> => {
  const ids: string[] = [];
  for (let left = count; left > 0; left -= 100) {
    const replies = await Promise.all(
      Array.from({ length: Math.min(left, 100) }, () =>
        shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' }),
      ),
    );
    for (const reply of replies) assert.equal(reply.status, 201, reply.text);
    ids.push(...replies.map((reply) => reply.json.id as string));
  }
  return ids;
};
/** As if a minute had passed in which no worker runs. */
const endLeases = () => app.ctx.db.sql`update deliveries set leased_until = leased_until - interval '1 minute' where state = 'pending'`;
type Row = { event: string; payment: string; state: string; good: boolean };
/** Deliveries of an endpoint as recorded, and whether the log has an attempt with a 2xx. */
const recorded = (endpoint: string): Promise<Row[]> =>
  app.ctx.db.sql<Row[]>`
    select d.event_id as event, d.payment_id as payment, d.state,
      exists (select 1 from attempts a where a.delivery_id = d.id and a.status between 200 and 299 and a.failure is null) as good
    from deliveries d where d.endpoint_id = ${endpoint}`;

test(`${KILLS} kills of the worker during ${DELIVERIES} deliveries: every event arrives, and only accepted ones count as delivered`, async (t) => {
  const receiver = await startReceiver(t, 40);
  // Every tenth is refused at first.
  let asked = 0;
  receiver.answer((nth) => (nth === 1 && ++asked % 10 === 0 ? 500 : 200));
  const { shop, endpoint } = await openShop(receiver.url);
  const payments: string[] = [];
  for (let kills = 0; kills < KILLS; kills++) {
    payments.push(...(await createPayments(shop, DELIVERIES / KILLS)));
    const before = receiver.requests.length;
    const worker = spawnWorker(t);
    // Anywhere in the batch; deliveries cut off by earlier kills are repeated when their leases end.
    const kept = Math.floor((Math.random() * DELIVERIES * 0.9) / KILLS);
    await eventually(
      async () => receiver.requests.length,
      (requests) => requests > before + kept,
      60_000,
    );
    await worker.kill();
    // At every moment, everything that counts as delivered was accepted.
    for (const row of await recorded(endpoint))
      if (row.state === 'delivered') assert.ok(receiver.taken.has(row.event) && row.good, row.event);
  }
  const cut = (await recorded(endpoint)).filter((row) => row.state === 'pending').length;
  assert.ok(cut > 0, 'the kills left something to do');
  await endLeases();
  spawnWorker(t);
  const rows = await eventually(
    () => recorded(endpoint),
    (all) => all.every((row) => row.state === 'delivered'),
    180_000,
  );
  assert.deepEqual(rows.map((row) => row.payment).sort(), payments.sort());
  for (const row of rows) assert.ok(receiver.taken.has(row.event) && row.good, row.event);
  const twice = receiver.requests.filter((request) => request.taken).length - rows.length;
  t.diagnostic(`${cut} were left after the last kill, ${twice} arrived more than once`);
});

test('a recovery continues after each kill and sends everything', async (t) => {
  const receiver = await startReceiver(t, 10);
  const { shop, endpoint } = await openShop(receiver.url);
  const payments = await createPayments(shop, RECOVERED);
  await app.ctx.db.sql`update deliveries set state = 'failed', due_at = null where endpoint_id = ${endpoint}`;
  const started = await shop.post(`/v1/webhook_endpoints/${endpoint}/recover`, { since: '2026-01-01T00:00:00Z' });
  assert.deepEqual([started.status, started.json.total], [201, RECOVERED], started.text);
  const progress = async () => (await shop.get(`/v1/webhook_recoveries/${started.json.id}`)).json;
  for (let kills = 0; kills < 2; kills++) {
    const before = receiver.requests.length;
    const worker = spawnWorker(t);
    await eventually(
      async () => receiver.requests.length,
      (requests) => requests > before,
      60_000,
    );
    await worker.kill();
  }
  await endLeases();
  spawnWorker(t);
  const done = await eventually(progress, ({ status }) => status === 'done', 120_000);
  assert.deepEqual([done.total, done.queued, done.delivered, done.failed], [RECOVERED, RECOVERED, RECOVERED, 0]);
  assert.deepEqual([...new Set(receiver.requests.map((request) => request.payment))].sort(), payments.sort());
});

// Invariant: Events missed in an outage arrive in order, without a stampede.
test('a receiver that is down for two hours across a restart gets everything, in order, without a stampede', async (t) => {
  const receiver = await startReceiver(t, 20);
  receiver.answer(() => 503);
  const service = await startService({ environment: { PLANS } });
  t.after(() => service.destroy());
  const { endpoint_id } = await service.florin(
    ...['endpoint', 'create', '--merchant', service.merchantId, '--mode', 'test', '--url', receiver.url],
  );
  const shop = service.test;
  const payments: string[] = [];
  const finish = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const made = await shop.post('/v1/transactions/create', { crypto: 'LTC', amount: 25, currency_fiat: 'USD' });
      assert.equal(made.status, 201, made.text);
      assert.equal((await shop.post(`/v1/test/payments/${made.json.id}/simulate`, { scenario: 'success' })).status, 200);
      payments.push(made.json.id);
    }
  };
  const advance = async (seconds: number) => {
    const reply = await shop.post('/v1/test/clock/advance', { seconds });
    assert.equal(reply.status, 200, reply.text);
    await sleep(150);
  };
  // So many that none gets a third attempt meanwhile: after that, later events of its payment no longer wait for it.
  await finish(30);
  for (let minute = 0; minute < 60; minute += 5) await advance(300);
  await service.end('SIGKILL');
  await service.start();
  await finish(10);
  for (let minute = 60; minute < 120; minute += 5) await advance(300);
  const tries = receiver.requests.length;
  assert.ok(tries > 0 && receiver.taken.size === 0);
  const { sql } = service.database.db;
  const pending = async () =>
    (await sql<{ n: number }[]>`select count(*)::int as n from deliveries where endpoint_id = ${endpoint_id} and state = 'pending'`)[0]!.n;
  const events = payments.length * 3;
  assert.equal(await pending(), events, 'nothing is given up');
  assert.ok(tries < events * 3, `${tries} attempts for ${events} events: a receiver that is down is not hammered`);

  receiver.most = 0;
  receiver.answer(() => 200);
  for (let minute = 0; (await pending()) > 0 && minute < 60; minute += 5) {
    await advance(300);
    await eventually(
      async () => receiver.taken.size,
      (taken) => taken === 0 || taken === events,
    ).catch(() => {});
  }
  assert.equal(await pending(), 0);
  assert.equal(receiver.taken.size, events, 'all of it arrived');
  assert.ok(receiver.most <= 16, `${receiver.most} requests at a time`);
  const sequence = ['payment.created', 'payment.processing', 'payment.completed'];
  for (const payment of payments) {
    const types = receiver.requests.filter((request) => request.taken && request.payment === payment).map((request) => request.type);
    assert.deepEqual(
      types.filter((type, i) => types.indexOf(type) === i),
      sequence,
      payment,
    );
  }
  t.diagnostic(`${tries} attempts while it was down, ${receiver.requests.length - tries} for ${events} events afterwards`);
});
