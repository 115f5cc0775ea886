/**
 * Deliveries from a real outbox to real receivers: once, retried, in order, by one worker at a time, with signatures that others can
 * verify.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import { type Client, client, eventually, testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { isLongRun } from '../../test/kit/long.ts';
import { serve } from '../../test/kit/serve.ts';
import { type App, startApp } from '../app.ts';
import { readConfig } from '../config.ts';
import type { Context } from '../context.ts';
import { createLog } from '../log.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { noticeText } from '../notices/notice-kinds.ts';
import { startHousekeeping } from '../settling/retention.ts';
import { createEndpoint, SECRET_PURPOSE } from '../webhooks/endpoints.ts';
import { startDeliveries } from './deliver.ts';
import { nextStepSeconds, readDeliveryQueue } from './queue.ts';

let database: TestDatabase;
let app: App;
let ctx: Context;
before(async () => {
  database = await testDatabase();
  // Without the worker: each test starts its own.
  app = await startApp(readConfig(testEnvironment(database.url, database.folder)), { roles: ['api'], log: createLog('silent') });
  ctx = app.ctx;
});
after(async () => {
  await app.stop();
  await database.drop();
});

type Hit = { headers: IncomingHttpHeaders; body: string; id: string; type: string; payment: string };
type Answer = (reply: ServerResponse, hit: Hit, hits: readonly Hit[]) => unknown;
const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (reply) =>
    reply.writeHead(code, headers).end();

type Shop = {
  api: Client;
  endpointId: string;
  secret: string;
  /** All that arrived, refused or not. */
  hits: Hit[];
  answer(next: Answer): void;
  /** Called for each request before it is answered. */
  onHit(told: () => void): void;
  create(): Promise<string>;
  advance(seconds: number): Promise<void>;
  deliveries(): Promise<Delivery[]>;
};
type Delivery = {
  id: bigint;
  type: string;
  payment: string;
  state: string;
  attempts: number;
  dueIn: number | null;
  /** How long after the end of the last attempt it is due. */
  rest: number | null;
  leasedFor: number | null;
  /** For each attempt, `none` if it did not fail. */
  failures: string[];
};

/** A merchant with one endpoint and its own receiver. */
async function openShop(
  t: TestContext,
  { answer = status(200), events = ['*'] }: { answer?: Answer; events?: string[] } = {},
): Promise<Shop> {
  const hits: Hit[] = [];
  let respond = answer;
  let tell = () => {};
  const server = await serve((request, reply, sent) => {
    const body = sent.toString();
    const event = JSON.parse(body);
    const hit = { headers: request.headers, body, id: event.id, type: event.type, payment: event.data.id };
    hits.push(hit);
    tell();
    respond(reply, hit, hits);
  });
  t.after(server.stop);
  const { merchantId, keys } = await createMerchant(ctx, { name: 'Shop', plan: 'enterprise' });
  const url = `${server.url}/hook`;
  const { endpointId, secret } = await createEndpoint(ctx, { merchantId, mode: 'test', url, events, description: null });
  const api = client(app.url!, keys.testSecret);
  return {
    api,
    endpointId,
    secret,
    hits,
    answer: (next) => {
      respond = next;
    },
    onHit: (told) => {
      tell = told;
    },
    create: async () => {
      const reply = await api.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks' });
      assert.equal(reply.status, 201, reply.text);
      return reply.json.transaction_id;
    },
    advance: async (seconds) => {
      const reply = await api.post('/v1/test/clock/advance', { seconds });
      assert.equal(reply.status, 200, reply.text);
    },
    deliveries: () => ctx.db.sql<Delivery[]>`
      select d.id, v.type, d.payment_id as payment, d.state, d.attempts,
        extract(epoch from d.due_at - clock_timestamp())::float8 as "dueIn",
        extract(epoch from d.due_at - (select max(a.at + make_interval(secs => a.duration_ms / 1000.0)) from attempts a
          where a.delivery_id = d.id))::float8 as rest,
        extract(epoch from d.leased_until - clock_timestamp())::float8 as "leasedFor",
        array(select coalesce(a.failure, 'none') from attempts a where a.delivery_id = d.id order by a.number) as failures
      from deliveries d join events v on v.id = d.event_id where d.endpoint_id = ${endpointId} order by d.id`,
  };
}
const startWorker = (t: TestContext): void => {
  const worker = startDeliveries(ctx, { pollMs: 100 });
  t.after(() => worker.stop());
};
/** Due deliveries are tried once: the worker is being stopped before the receiver answers, so no retry follows. */
async function tryOnce(shop: Shop, workerCtx = ctx): Promise<void> {
  const worker = startDeliveries(workerCtx, { pollMs: 100 });
  let stopped: Promise<void> | null = null;
  shop.onHit(() => {
    stopped ??= worker.stop();
  });
  try {
    await eventually(
      async () => stopped !== null,
      (hit) => hit,
      20_000,
    );
  } finally {
    shop.onHit(() => {});
    await worker.stop();
  }
}
/** Postpones waiting deliveries beyond the time that a test may take. */
const putOff = (shop: Shop) =>
  ctx.db.sql`update deliveries set due_at = due_at + interval '1 hour' where endpoint_id = ${shop.endpointId} and state = 'pending'`;
/** A worker as a separate process, which can be killed. */
function spawnWorker(t: TestContext): ChildProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, '../main.ts'), 'serve', '--role', 'worker'], {
    env: { ...testEnvironment(database.url, database.folder), PATH: process.env.PATH, NODE_NO_WARNINGS: '1' },
    stdio: 'ignore',
  });
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await once(child, 'exit');
  });
  return child;
}
const attempted = (shop: Shop, count: number, timeoutMs = 20_000): Promise<Delivery> =>
  eventually(
    async () => (await shop.deliveries())[0]!,
    (d) => d.attempts === count && d.leasedFor === null,
    timeoutMs,
  );

/** The seconds after each attempt, as documented. */
const STEPS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

test('an event that is answered with 200 is delivered once and never again', async (t) => {
  const shop = await openShop(t);
  const payment = await shop.create();
  startWorker(t);
  const delivery = await attempted(shop, 1);
  assert.deepEqual([delivery.state, delivery.dueIn, delivery.failures], ['delivered', null, ['none']]);
  await shop.advance(30 * 86_400);
  await eventually(
    () => shop.deliveries(),
    (all) => all.length === 2 && all.every((d) => d.state === 'delivered'),
  );
  await sleep(300);
  assert.deepEqual(
    shop.hits.map((h) => [h.type, h.payment]),
    [
      ['payment.created', payment],
      ['payment.expired', payment],
    ],
  );
});

test('any other 2xx is a success too', async (t) => {
  for (const code of [201, 202, 204]) {
    const shop = await openShop(t, { answer: status(code) });
    await shop.create();
    startWorker(t);
    assert.equal((await attempted(shop, 1)).state, 'delivered', String(code));
  }
});

test('errors, redirects, timeouts and broken connections are failures, each retried until it succeeds', async (t) => {
  const target = await openShop(t);
  const targetUrl = (await ctx.db.sql<{ url: string }[]>`select url from endpoints where id = ${target.endpointId}`)[0]!.url;
  const ways: Record<string, Answer> = {
    status_500: status(500),
    status_404: status(404),
    status_429: status(429),
    status_301: status(301, { location: targetUrl }),
    status_307: status(307, { location: targetUrl }),
    timeout: () => {},
    reset: (reply) => reply.socket!.destroy(),
  };
  startWorker(t);
  await Promise.all(
    Object.entries(ways).map(async ([failure, answer]) => {
      const shop = await openShop(t, {
        answer: (reply, hit, hits) => (hits.length === 1 ? answer : status(200))(reply, hit, hits),
        events: ['payment.created'],
      });
      await shop.create();
      await eventually(
        () => shop.deliveries(),
        ([d]) => d!.failures[0] === failure,
        30_000,
      );
      await shop.advance(10);
      const again = await attempted(shop, 2);
      assert.deepEqual([again.state, again.failures], ['delivered', [failure, 'none']]);
      assert.equal(new Set(shop.hits.map((h) => h.id)).size, 1);
    }),
  );
  assert.equal(target.hits.length, 0, 'a redirect was followed');
});

test('the ten attempts follow the documented schedule, never early, and end', async (t) => {
  const shop = await openShop(t, { answer: (reply) => reply.writeHead(500).end('x'.repeat(100_000)), events: ['payment.created'] });
  await shop.create();
  // The first retry is due in seconds: nothing sends it while the test looks.
  await tryOnce(shop);
  for (const [index, step] of STEPS.entries()) {
    const { state, dueIn, rest } = await attempted(shop, index + 1);
    assert.equal(state, 'pending');
    // The duration of one statement is the only tolerance; jitter only lengthens.
    assert.ok(rest! > step - 1 && rest! <= step * 1.2, `after attempt ${index + 1}: ${rest} s for a step of ${step} s`);
    if (step > 60) {
      await shop.advance(Math.floor(dueIn!) - 60);
      await sleep(250);
      assert.equal(shop.hits.length, index + 1, `attempt ${index + 2} came early`);
      await shop.advance(61);
    } else {
      await shop.advance(7);
      startWorker(t);
    }
  }
  const last = await attempted(shop, 10);
  assert.deepEqual([last.state, last.dueIn], ['failed', null]);
  await shop.advance(90 * 86_400);
  await sleep(300);
  assert.equal(shop.hits.length, 10);
  assert.equal(new Set(shop.hits.map((h) => h.body)).size, 1, 'every attempt carries the same bytes');
  const kept = await ctx.db.sql<{ number: number; status: number; size: number }[]>`
    select number, status, octet_length(reply) as size from attempts where delivery_id = ${last.id.toString()} order by number`;
  assert.deepEqual(
    kept.map((a) => [a.number, a.status, a.size]),
    Array.from({ length: 10 }, (_, i) => [i + 1, 500, 4_096]),
  );
});

test('ten attempts with the smallest jitter span at least 72 hours', () => {
  const seconds = Array.from({ length: 10 }, (_, i) => nextStepSeconds(i, null, 0)!).reduce((sum, step) => sum + step, 0);
  assert.ok(seconds >= 72 * 3600, `${seconds / 3600} h`);
  const ordered = Array.from({ length: 10 }, (_, i) => nextStepSeconds(i, null, 0, { isOrdered: true })!).reduce(
    (sum, step) => sum + step,
    0,
  );
  assert.ok(ordered >= 72 * 3_600, 'a shop that is down for three days misses nothing');
  assert.equal(nextStepSeconds(10, null, 0), null);
  assert.equal(nextStepSeconds(10, 60, 0), null);
});

test('Retry-After postpones the next attempt, in seconds or as a date, at most to twice the step', async (t) => {
  // The time that a date is compared with does not advance.
  const now = Math.floor(Date.now() / 1000) * 1000;
  const workerCtx: Context = { ...ctx, clock: { ...ctx.clock, now: () => new Date(now) } };
  const cases: [value: string, least: number, most: number][] = [
    ['9', 8, 9],
    ['999999', 9, 10],
    [new Date(now + 9_000).toUTCString(), 8, 9],
    [new Date(now + 86_400_000).toUTCString(), 9, 10],
    // Earlier than the schedule, or not understood: the schedule applies.
    ['1', 4, 6],
    ['soon', 4, 6],
    ['-5', 4, 6],
    [new Date(0).toUTCString(), 4, 6],
  ];
  for (const [value, least, most] of cases) {
    const shop = await openShop(t, { answer: status(503, { 'retry-after': value }), events: ['payment.created'] });
    await shop.create();
    await tryOnce(shop, workerCtx);
    const { attempts, rest } = (await shop.deliveries())[0]!;
    assert.equal(attempts, 1);
    assert.ok(rest! >= least && rest! <= most, `Retry-After: ${value} gives ${rest} s`);
  }
});

test('410 turns the endpoint off: waiting deliveries are not sent, new ones are not queued', async (t) => {
  const shop = await openShop(t, { answer: status(500), events: ['payment.created'] });
  await shop.create();
  await tryOnce(shop);
  await putOff(shop);
  shop.answer(status(410));
  await shop.create();
  startWorker(t);
  const [waiting, gone] = await eventually(
    () => shop.deliveries(),
    (all) => all.length === 2 && all.every((d) => d.state === 'failed'),
  );
  assert.deepEqual([gone!.failures, gone!.dueIn], [['status_410'], null]);
  assert.deepEqual([waiting!.state, waiting!.dueIn], ['failed', null]);
  const [endpoint] = await ctx.db.sql<{ state: string }[]>`select state from endpoints where id = ${shop.endpointId}`;
  assert.equal(endpoint!.state, 'gone');
  await shop.create();
  await shop.advance(86_400);
  await sleep(300);
  assert.deepEqual([(await shop.deliveries()).length, shop.hits.length], [2, 2]);
});

test('five days of only failures turn the endpoint off, unless there is one success', async (t) => {
  const failing = await openShop(t, { answer: status(500), events: ['payment.created'] });
  const recovering = await openShop(t, { answer: status(500), events: ['payment.created'] });
  const stateOf = async (shop: Shop) =>
    (await ctx.db.sql<{ state: string }[]>`select state from endpoints where id = ${shop.endpointId}`)[0]!.state;
  for (const shop of [failing, recovering]) {
    await shop.create();
    await tryOnce(shop);
    assert.equal(await stateOf(shop), 'enabled');
    await putOff(shop);
    await ctx.db.sql`update endpoints set failing_since = failing_since - interval '5 days 1 minute' where id = ${shop.endpointId}`;
  }
  recovering.answer(status(200));
  startWorker(t);
  await recovering.advance(3_610);
  await attempted(recovering, 2);
  recovering.answer(status(500));
  await recovering.create();
  await failing.advance(3_610);
  await eventually(
    () => stateOf(failing),
    (state) => state === 'disabled',
  );
  await eventually(
    () => recovering.deliveries(),
    (all) => (all[1]?.attempts ?? 0) > 0,
  );
  assert.equal(await stateOf(recovering), 'enabled');
});

test('members hear once of an endpoint that fails for a quarter of an hour, and once that it works again', async (t) => {
  const shop = await openShop(t, { answer: status(500), events: ['payment.created'] });
  const host = new URL((await ctx.db.sql<{ url: string }[]>`select url from endpoints where id = ${shop.endpointId}`)[0]!.url).host;
  const told = async () =>
    (
      await ctx.db.sql<{ detail: Record<string, string> }[]>`
        select detail from notices where kind = 'endpoint_failing' and detail ->> 'endpoint' = ${shop.endpointId} order by id`
    ).map(({ detail }) => noticeText('endpoint_failing', detail));
  const fail = async (minutes: number) => {
    await shop.create();
    await ctx.db.sql`update endpoints set failing_since = failing_since - make_interval(mins => ${minutes}), rests_until = null
      where id = ${shop.endpointId}`;
    await tryOnce(shop);
  };
  await fail(0);
  await fail(10);
  assert.deepEqual(await told(), []);
  for (let again = 0; again < 3; again++) await fail(6);
  const failing = [
    `Webhooks to ${host} are not being delivered: the server failed (127.0.0.1). Look in the log of your application at the time of the attempt.`,
  ];
  assert.deepEqual(await told(), failing);
  shop.answer(status(200));
  for (let again = 0; again < 2; again++) await fail(0);
  assert.deepEqual(await told(), [...failing, `Webhooks to ${host} are delivered again. Deliveries that failed meanwhile are sent now.`]);
});

test('a delivery whose worker was killed is resent when its lease ends, not before', async (t) => {
  const shop = await openShop(t, { answer: () => {}, events: ['payment.created'] });
  await shop.create();
  const [before] = await ctx.db.sql<{ at: Date }[]>`select clock_timestamp() as at`;
  const worker = spawnWorker(t);
  await eventually(
    async () => shop.hits.length,
    (hits) => hits === 1,
    30_000,
  );
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  const [leased] = await shop.deliveries();
  const [row] = await ctx.db.sql<{ since: number }[]>`
    select extract(epoch from leased_until - ${before!.at}::timestamptz)::float8 as since from deliveries where id = ${leased!.id.toString()}`;
  // The lease began between the two.
  assert.ok(row!.since >= 30 && leased!.leasedFor! <= 30, `leased for ${leased!.leasedFor} of ${row!.since} s`);
  const leaseFor = (seconds: number) =>
    ctx.db
      .sql`update deliveries set leased_until = clock_timestamp() + make_interval(secs => ${seconds}) where id = ${leased!.id.toString()}`;
  await leaseFor(3_600);
  shop.answer(status(200));
  startWorker(t);
  await sleep(500);
  assert.equal(shop.hits.length, 1);
  // Thirty seconds pass.
  await leaseFor(1);
  const { state, failures } = await attempted(shop, 1);
  assert.deepEqual([state, failures], ['delivered', ['none']]);
  assert.equal(shop.hits.length, 2);
  assert.equal(shop.hits[0]!.id, shop.hits[1]!.id);
});

test('a worker that returns after its lease went to another decides nothing, but its success counts', async (t) => {
  for (const code of [500, 200]) {
    const answered = Promise.withResolvers<void>();
    const shop = await openShop(t, {
      answer: (reply) => answered.promise.then(() => reply.writeHead(code).end()),
      events: ['payment.created'],
    });
    await shop.create();
    startWorker(t);
    await eventually(
      async () => shop.hits.length,
      (hits) => hits === 1,
    );
    await ctx.db.sql`update deliveries set leased_until = clock_timestamp() + interval '77 minutes' where endpoint_id = ${shop.endpointId}`;
    answered.resolve();
    const [delivery] = await eventually(
      () => shop.deliveries(),
      ([d]) => d!.failures.length === 1,
    );
    if (code === 200) assert.equal(delivery!.state, 'delivered');
    else assert.ok(delivery!.state === 'pending' && delivery!.leasedFor! > 60, `state ${delivery!.state}, leased ${delivery!.leasedFor}`);
  }
});

test('events of a payment arrive in order, later ones wait for at most three attempts, other payments do not wait', async (t) => {
  const housekeeping = startHousekeeping(ctx);
  t.after(() => housekeeping.stop());
  let down = true;
  let blocked = '';
  const shop = await openShop(t, { answer: (reply, hit) => reply.writeHead(down && hit.payment === blocked ? 500 : 200).end() });
  blocked = await shop.create();
  const other = await shop.create();
  for (const id of [blocked, other]) {
    const reply = await shop.api.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'LTC' });
    assert.equal(reply.status, 200, reply.text);
  }
  startWorker(t);
  const typesOf = (id: string) => shop.hits.filter((h) => h.payment === id).map((h) => h.type);
  const sequence = ['payment.created', 'payment.processing', 'payment.completed'];
  await eventually(
    async () => typesOf(other),
    (types) => types.length === 3,
  );
  assert.deepEqual(typesOf(other), sequence);
  // The third attempt is minutes away.
  const isHeldBack = () => {
    const types = typesOf(blocked);
    assert.ok(types.length <= 2 && types.every((type) => type === 'payment.created'), types.join());
  };
  isHeldBack();
  await shop.advance(10);
  await eventually(
    async () => typesOf(blocked).length,
    (hits) => hits === 2,
  );
  await sleep(300);
  isHeldBack();
  // After the third attempt the next event is tried as well: one that is never accepted must not delay the rest for days.
  await shop.advance(400);
  await eventually(
    () => shop.deliveries(),
    (all) => all.some((d) => d.payment === blocked && d.type === 'payment.processing' && d.attempts > 0 && d.leasedFor === null),
  );
  // Its next retry waits until the receiver is up again.
  await ctx.db.sql`update deliveries set due_at = due_at + interval '10 minutes' where payment_id = ${blocked} and state = 'pending'`;
  await sleep(300);
  await eventually(
    () => shop.deliveries(),
    (all) => all.every((d) => d.leasedFor === null),
  );
  const [third, next, ...retries] = typesOf(blocked).slice(2);
  assert.deepEqual([third, next], ['payment.created', 'payment.processing']);
  assert.ok(retries.length <= 1 && retries.every((type) => type === 'payment.processing'), retries.join());
  // A recovery sends waiting deliveries, oldest first.
  down = false;
  const before = typesOf(blocked).length;
  await shop.advance(3_000);
  await eventually(
    async () => typesOf(blocked).length,
    (hits) => hits === before + 3,
  );
  assert.deepEqual(typesOf(blocked).slice(before), sequence);
  await sleep(300);
  assert.equal(shop.hits.length, 3 + before + 3);
});

test('several workers in several processes send each event once', async (t) => {
  let open = 0;
  const overlaps: string[] = [];
  const underWay = new Set<string>();
  const shop = await openShop(t, {
    events: ['payment.created'],
    answer: async (reply, hit) => {
      if (underWay.has(hit.id)) overlaps.push(hit.id);
      underWay.add(hit.id);
      open++;
      await sleep(5);
      underWay.delete(hit.id);
      open--;
      reply.writeHead(200).end();
    },
  });
  const payments = await Promise.all(Array.from({ length: isLongRun ? 400 : 150 }, () => shop.create()));
  spawnWorker(t);
  await eventually(
    async () => shop.hits.length,
    (hits) => hits > 0,
    30_000,
  );
  startWorker(t);
  startWorker(t);
  await eventually(
    () => shop.deliveries(),
    (all) => all.every((d) => d.state === 'delivered'),
    30_000,
  );
  assert.equal(open, 0);
  assert.deepEqual(overlaps, []);
  assert.deepEqual(shop.hits.map((h) => h.payment).sort(), payments.sort());
});

test('an endpoint that hangs does not hold back the others', async (t) => {
  let ended = 0;
  const hanging = await openShop(t, { answer: (reply) => reply.on('close', () => ended++), events: ['payment.created'] });
  let endedBefore: number | null = null;
  const quick = await openShop(t, {
    answer: (reply) => {
      endedBefore = ended;
      reply.writeHead(200).end();
    },
    events: ['payment.created'],
  });
  await Promise.all(Array.from({ length: 40 }, () => hanging.create()));
  startWorker(t);
  await eventually(
    async () => hanging.hits.length,
    (hits) => hits > 0,
  );
  await quick.create();
  await eventually(
    async () => quick.hits.length,
    (hits) => hits === 1,
  );
  // An attempt may take ten seconds: the fast one did not wait for any of them.
  assert.equal(endedBefore, 0);
  assert.ok(hanging.hits.length <= 5, `${hanging.hits.length} requests under way to one endpoint`);
  hanging.answer(status(200));
  await ctx.db.sql`update deliveries set state = 'failed', due_at = null where endpoint_id = ${hanging.endpointId}`;
});

test('a stop waits for running attempts and records them', async (t) => {
  const answered = Promise.withResolvers<void>();
  const shop = await openShop(t, {
    answer: (reply) => answered.promise.then(() => reply.writeHead(200).end()),
    events: ['payment.created'],
  });
  await shop.create();
  const worker = startDeliveries(ctx, { pollMs: 100 });
  await eventually(
    async () => shop.hits.length,
    (hits) => hits === 1,
  );
  const stopped = worker.stop();
  setTimeout(() => answered.resolve(), 200);
  await stopped;
  assert.equal((await shop.deliveries())[0]!.state, 'delivered');
});

test('an endpoint whose name now leads inside is not connected to, and the reason is recorded', async (t) => {
  const shop = await openShop(t, { events: ['payment.created'] });
  await ctx.db.sql`update endpoints set url = 'https://[::ffff:a00:1]/hook' where id = ${shop.endpointId}`;
  await shop.create();
  startWorker(t);
  assert.deepEqual((await attempted(shop, 1)).failures, ['refused_address']);
});

test('waiting deliveries are counted with the age of the oldest', async (t) => {
  // Retries from earlier tests would become due during the count.
  await ctx.db.sql`truncate deliveries, attempts`;
  const shop = await openShop(t, { events: ['payment.created'] });
  await shop.create();
  await shop.create();
  await ctx.db.sql`update deliveries set due_at = due_at - interval '1 hour' where endpoint_id = ${shop.endpointId}`;
  const queue = await readDeliveryQueue(ctx);
  assert.equal(queue.due, 2);
  assert.ok(queue.oldestSeconds >= 3_600, String(queue.oldestSeconds));
  startWorker(t);
  await eventually(
    () => shop.deliveries(),
    (all) => all.every((d) => d.state === 'delivered'),
  );
});

/** Each way a merchant can verify a delivery, with the secret as displayed. */
const VERIFIERS: Readonly<Record<string, (secret: string, body: string, headers: IncomingHttpHeaders) => void>> = {
  standardwebhooks: (secret, body, headers) => void new StandardWebhook(secret).verify(body, headers as Record<string, string>),
  svix: (secret, body, headers) => void new SvixWebhook(secret).verify(body, headers as Record<string, string>),
  'plain HMAC-SHA256 of the body': (secret, body, headers) => {
    const given = headers['x-service-signature'] as string;
    assert.match(given, /^[0-9a-f]{64}$/);
    const right = createHmac('sha256', secret).update(body, 'utf8').digest();
    if (!timingSafeEqual(Buffer.from(given, 'hex'), right)) throw new Error('wrong signature');
  },
};
for (const [name, verify] of Object.entries(VERIFIERS)) {
  test(`deliveries verify with ${name}, changed ones do not`, async (t) => {
    const shop = await openShop(t);
    await shop.create();
    startWorker(t);
    await attempted(shop, 1);
    const [{ body, headers }] = shop.hits as [Hit];
    verify(shop.secret, body, headers);
    assert.equal(headers['webhook-id'], JSON.parse(body).id);
    assert.equal(headers['content-type'], 'application/json');
    assert.throws(() => verify(shop.secret, body.replace('"pending"', '"completed"'), headers));
    assert.throws(() => verify(`whsec_${Buffer.alloc(32).toString('base64')}`, body, headers));
  });
}

test('while a secret is being rotated, receivers with the old or the new one can verify', async (t) => {
  const shop = await openShop(t, { events: ['payment.created'] });
  const next = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const sealed = Buffer.from(ctx.seal(SECRET_PURPOSE, Buffer.from(next)));
  await ctx.db.sql`
    update endpoints set previous_secret = secret, secret = ${sealed}, previous_until = clock_timestamp() + interval '1 day'
    where id = ${shop.endpointId}`;
  await shop.create();
  startWorker(t);
  await attempted(shop, 1);
  const [during] = shop.hits as [Hit];
  for (const secret of [shop.secret, next]) {
    VERIFIERS.standardwebhooks!(secret, during.body, during.headers);
    VERIFIERS.svix!(secret, during.body, during.headers);
  }
  assert.equal(during.headers['x-service-signature'], createHmac('sha256', shop.secret).update(during.body).digest('hex'));
  await ctx.db.sql`update endpoints set previous_until = clock_timestamp() where id = ${shop.endpointId}`;
  await shop.create();
  await eventually(
    async () => shop.hits.length,
    (hits) => hits === 2,
  );
  const { body, headers } = shop.hits[1]!;
  for (const verify of Object.values(VERIFIERS)) {
    verify(next, body, headers);
    assert.throws(() => verify(shop.secret, body, headers));
  }
});
