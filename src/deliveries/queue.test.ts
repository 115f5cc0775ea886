/**
 * The order of deliveries: what picking costs however many wait, how failing endpoints are paused, and that bad receivers cost the good
 * ones nothing.
 */
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, client, eventually, testEnvironment } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { serve } from '../../test/kit/serve.ts';
import { type App, startApp } from '../app.ts';
import { readConfig } from '../config.ts';
import type { Context } from '../context.ts';
import { idOfNumber, numberOfId } from '../core/id.ts';
import { createLog } from '../log.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { startHousekeeping } from '../settling/retention.ts';
import { createEndpoint, deleteEndpoint } from '../webhooks/endpoints.ts';
import { beginRequest, type Paces, roomFor, startDeliveries } from './deliver.ts';
import { advanceDeliveries, leaseDue, leaseStatement, recordOutcomes } from './queue.ts';

let database: TestDatabase;
let app: App;
let ctx: Context;
before(async () => {
  database = await testDatabase();
  app = await startApp(readConfig(testEnvironment(database.url, database.folder, { PLANS: '{"enterprise":{"per_minute":0}}' })), {
    roles: ['api'],
    log: createLog('error'),
  });
  ctx = app.ctx;
});
after(async () => {
  await app.stop();
  await database.drop();
});

type Hit = { at: number; payment: string; type: string };
type Answer = (reply: ServerResponse, hit: Hit) => unknown;
const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (reply) =>
    reply.writeHead(code, headers).end();
type Shop = { api: Client; merchantId: string; endpointId: string; hits: Hit[]; most(): number; answer(next: Answer): void };

async function openShop(t: TestContext, first: Answer = status(200), events = ['payment.created'], at?: string): Promise<Shop> {
  const hits: Hit[] = [];
  let respond = first;
  let open = 0;
  let most = 0;
  const server = await serve((_request, reply, body) => {
    most = Math.max(most, ++open);
    reply.on('close', () => open--);
    const event = JSON.parse(body.toString());
    const hit = { at: performance.now(), payment: event.data.id, type: event.type };
    hits.push(hit);
    respond(reply, hit);
  });
  t.after(server.stop);
  const url = at ?? `${server.url}/hook`;
  const { merchantId, keys } = await createMerchant(ctx, { name: 'Shop', plan: 'enterprise' });
  const { endpointId } = await createEndpoint(ctx, { merchantId, mode: 'test', url, events, description: null });
  return {
    api: client(app.url!, keys.testSecret),
    merchantId,
    endpointId,
    hits,
    most: () => most,
    answer: (next) => {
      respond = next;
    },
  };
}
const create = async ({ api }: Shop, count = 1): Promise<string[]> => {
  const made = await Promise.all(
    Array.from({ length: count }, () => api.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' })),
  );
  for (const reply of made) assert.equal(reply.status, 201, reply.text);
  return made.map((reply) => reply.json.id);
};
const advance = async ({ api }: Shop, seconds: number) => assert.equal((await api.post('/v1/test/clock/advance', { seconds })).status, 200);
const startWorker = (t: TestContext) => {
  const worker = startDeliveries(ctx, { pollMs: 100 });
  t.after(() => worker.stop());
  return worker;
};
/** Ends waiting deliveries, so that the next test does not see them. */
const clear = () =>
  ctx.db.sql`update deliveries set state = 'failed', due_at = null, leased_until = null, waits = false where state = 'pending'`;

let made = 0;
/** Deliveries as after a burst: `each` events per payment. */
async function fill(endpointIds: readonly string[], merchantId: string, count: number, { each = 1, dueIn = 0 } = {}): Promise<void> {
  const first = made;
  made += count;
  await ctx.db.sql`
    insert into events (id, merchant_id, mode, payment_id, type, sequence, body, created_at)
    select 'evt_f' || n, ${merchantId}, 'live', 'pay_f' || ${first}::int || '_' || n / ${each}::int, 'payment.created', 1 + n % ${each}::int, convert_to('{}', 'UTF8'),
      clock_timestamp() from generate_series(${first}::int, ${first + count - 1}::int) as n`;
  await ctx.db.sql`
    insert into deliveries (event_id, endpoint_id, merchant_id, mode, payment_id, sequence, due_at)
    select 'evt_f' || n, (${endpointIds as string[]}::text[])[1 + (n / ${each}::int) % ${endpointIds.length}::int], ${merchantId}, 'live',
      'pay_f' || ${first}::int || '_' || n / ${each}::int, 1 + n % ${each}::int, clock_timestamp() + make_interval(secs => ${dueIn})
    from generate_series(${first}::int, ${first + count - 1}::int) as n`;
}
/** As for a worker that does nothing yet; without the shares of merchants, which have a test of their own. */
const OPTIONS = {
  ...{ limit: 128, suspectLimit: 64, merchantLimit: 128, merchantSuspectLimit: 128 },
  ...{ lanes: 64, after: '', rooms: [], shares: [] },
};
/** Pages that picking touches now. */
async function pagesTouched(): Promise<number> {
  let pages = 0;
  await ctx.db
    .begin(async (tx) => {
      const [row] = await tx`
        explain (analyze, buffers, format json) ${leaseStatement(tx, { ...OPTIONS, plans: ['starter', 'professional', 'enterprise'] })}`;
      const plan = (row as { 'QUERY PLAN': { Plan: Record<string, number> }[] })['QUERY PLAN'][0]!.Plan;
      pages = plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!;
      throw new Error('nothing is kept');
    })
    .catch((error: Error) => assert.equal(error.message, 'nothing is kept', error.message));
  return pages;
}

for (const [what, options] of [
  ['payments of one event', {}],
  ['successors that wait for an earlier event', { each: 100 }],
  ['retries that are due in hours', { dueIn: 7_200 }],
] as const) {
  // Invariant: Picking deliveries costs the same no matter how many wait.
  test(`picking touches no more pages with 30,000 deliveries waiting than with 1,000: ${what}`, async (t) => {
    const shop = await openShop(t);
    await fill([shop.endpointId], shop.merchantId, 1_000, options);
    await ctx.db.sql`vacuum analyze deliveries`;
    const few = await pagesTouched();
    // The planner expects an empty queue, as when it last looked. Rows that autovacuum still sees stay: then once more.
    await clear();
    await eventually(
      () => ctx.db.sql`vacuum analyze deliveries`.then(pagesTouched),
      (pages) => pages <= few,
    );
    await fill([shop.endpointId], shop.merchantId, 30_000, options);
    const fresh = await pagesTouched();
    await ctx.db.sql`vacuum analyze deliveries`;
    const many = await pagesTouched();
    t.diagnostic(`${few} pages at 1,000; at 30,000 ${fresh}, analyzed ${many}`);
    for (const pages of [fresh, many]) assert.ok(pages < few * 2 + 200, `${pages} pages against ${few}`);
    await clear();
    await ctx.db.sql`vacuum deliveries`;
  });
}

test('a burst for one endpoint leaves the others their turn in each round, and a notification reaches all of them', async (t) => {
  const burst = await openShop(t);
  const others = await Promise.all(Array.from({ length: 40 }, () => openShop(t)));
  await fill([burst.endpointId], burst.merchantId, 10_000);
  for (const shop of others) await fill([shop.endpointId], shop.merchantId, 1);
  const round = await leaseDue(ctx, { ...OPTIONS, limit: 60 });
  const endpoints = new Set(round.due.map((due) => due.endpointId));
  assert.equal(endpoints.size, 41, 'each had its turn');
  assert.equal(round.due.filter((due) => due.endpointId === burst.endpointId).length, 4);
  await clear();
  for (const shop of [burst, ...others]) await fill([shop.endpointId], shop.merchantId, 1);
  const seen = new Set<string>();
  let after = '';
  let rounds = 0;
  do {
    const part = await leaseDue(ctx, { ...OPTIONS, lanes: 10, after });
    assert.ok(part.due.length <= 10);
    for (const due of part.due) seen.add(due.endpointId);
    after = part.next;
    rounds++;
  } while (after !== '');
  assert.deepEqual([seen.size, rounds], [41, 5]);
  await clear();
});

test('endpoints of one merchant that hang hold an eighth of the requests while they are new, and a quarter at most', async () => {
  const open = async (merchantId: string) => {
    const url = 'http://127.0.0.1:9/hook';
    const made = Array.from({ length: 16 }, () =>
      createEndpoint(ctx, { merchantId, mode: 'test', url, events: ['payment.created'], description: null }),
    );
    return (await Promise.all(made)).map(({ endpointId }) => endpointId);
  };
  const merchantOf = async () => (await createMerchant(ctx, { name: 'Shop', plan: 'enterprise' })).merchantId;
  const paces: Paces = new Map();
  let running = 0;
  /** Leases as the worker does until nothing more is taken, with requests that never end. Returns how many were taken of each merchant. */
  const takeAll = async (): Promise<Record<string, number>> => {
    const taken: Record<string, number> = {};
    for (let after = '', idle = 0; idle < 2; ) {
      const room = roomFor(paces, { running, concurrency: 128 });
      if (room === null) return taken;
      const { due, next } = await leaseDue(ctx, { ...room, after });
      for (const row of due) {
        beginRequest(paces, row);
        taken[row.merchantId] = (taken[row.merchantId] ?? 0) + 1;
      }
      running += due.length;
      after = next;
      idle = due.length === 0 && next === '' ? idle + 1 : 0;
    }
    return taken;
  };
  const [one, two, good] = [await merchantOf(), await merchantOf(), await merchantOf()];
  const hanging = { [one]: await open(one), [two]: await open(two) };
  for (const merchantId of [one, two]) await fill(hanging[merchantId]!, merchantId, 16 * 8);
  assert.deepEqual(await takeAll(), { [one]: 16, [two]: 16 });
  // Deleted and made again, they are as new as before, and the requests that hang still count.
  await clear();
  for (const merchantId of [one, two]) {
    for (const endpointId of hanging[merchantId]!)
      await ctx.db.begin((tx) => deleteEndpoint(ctx, tx, { merchantId, mode: 'test', endpointId }));
    await fill(await open(merchantId), merchantId, 16 * 8);
  }
  // Somebody else's first event is not held up.
  const [fresh] = await open(good);
  await fill([fresh!], good, 1);
  assert.deepEqual(await takeAll(), { [good]: 1 });
  // Even endpoints that answered once, and hang then.
  await ctx.db.sql`update endpoints set answered = true where merchant_id in (${one}, ${two})`;
  assert.deepEqual(await takeAll(), { [one]: 16, [two]: 16 });
  assert.equal(running, 65);
  await clear();
});

test('an endpoint that only fails is paused between single probes and gets everything in order when it answers again', async (t) => {
  const housekeeping = startHousekeeping(ctx);
  t.after(() => housekeeping.stop());
  const shop = await openShop(t, status(500), ['*']);
  const payments = await create(shop, 20);
  for (const id of payments) {
    const reply = await shop.api.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'LTC' });
    assert.equal(reply.status, 200, reply.text);
  }
  startWorker(t);
  const health = async () =>
    (
      await ctx.db.sql<{ failures: number; rest: number | null; rested: number | null; underWay: number }[]>`
        select e.failures, extract(epoch from e.rests_until - clock_timestamp())::float8 as rest,
          extract(epoch from e.rests_until - (select max(a.at + make_interval(secs => a.duration_ms / 1000.0))
            from attempts a join deliveries d on d.id = a.delivery_id where d.endpoint_id = e.id))::float8 as rested,
          (select count(*)::int from deliveries d where d.endpoint_id = e.id and d.leased_until is not null) as "underWay"
        from endpoints e where e.id = ${shop.endpointId}`
    )[0]!;
  /** Lengthens its pause, so that nothing arrives during the checks, or shortens it again. */
  const restFor = (hours: number) =>
    ctx.db.sql`update endpoints set rests_until = rests_until + make_interval(hours => ${hours}) where id = ${shop.endpointId}`;
  const broken = await eventually(health, ({ failures, underWay }) => failures >= 5 && underWay === 0);
  await restFor(1);
  // Counted from the end of the last attempt, plus the duration of one transaction.
  assert.ok(broken.rested! >= 4.9 && broken.rest! <= 60, `rests for ${broken.rest} s, ${broken.rested} s after the failure`);
  const tried = shop.hits.length;
  assert.ok(tried <= 8, `${tried} attempts of 60 before it rests`);
  await sleep(500);
  assert.equal(shop.hits.length, tried, 'it rests');
  await advance(shop, 61);
  await restFor(-1);
  const probed = await eventually(health, ({ failures, underWay }) => failures > broken.failures && underWay === 0);
  await restFor(1);
  assert.equal(shop.hits.length, tried + 1);
  await sleep(300);
  assert.equal(shop.hits.length, tried + 1, 'one probe, and it rests again');
  assert.ok(probed.rested! >= 9.9, `rests for ${probed.rested} s after another failure`);
  shop.answer(status(200));
  await advance(shop, 61);
  await restFor(-1);
  await eventually(
    async () => shop.hits.length,
    (hits) => hits >= tried + 1 + 60,
  );
  const arrived = shop.hits.slice(tried + 1);
  for (const id of payments) {
    assert.deepEqual(
      arrived.filter((hit) => hit.payment === id).map((hit) => hit.type),
      ['payment.created', 'payment.processing', 'payment.completed'],
    );
  }
  assert.ok(shop.most() <= 16, `${shop.most()} at a time`);
  const { failures, rest } = await eventually(health, (now) => now.failures === 0);
  assert.deepEqual([failures, rest], [0, null]);
});

test('a failed extra attempt after an outage leaves the schedule unchanged', async (t) => {
  const shop = await openShop(t, status(500));
  const [first] = await create(shop);
  startWorker(t);
  const read = async () =>
    (
      await ctx.db.sql<{ step: number; attempts: number; state: string; due: Date }[]>`
        select step, attempts, state, due_at as due from deliveries where endpoint_id = ${shop.endpointId} and payment_id = ${first!}`
    )[0]!;
  await eventually(read, (d) => d.attempts >= 1);
  await advance(shop, 10);
  const { due } = await eventually(read, (d) => d.attempts === 2);
  await ctx.db.sql`update endpoints set failures = 5 where id = ${shop.endpointId}`;
  // One success for another payment, and the next refusal: the delivery is retried at once, without success.
  let taken = 0;
  shop.answer((reply, hit) => reply.writeHead(hit.payment !== first && taken++ === 0 ? 200 : 500).end());
  await create(shop);
  const again = await eventually(read, (d) => d.attempts === 3);
  assert.deepEqual([again.step, again.state, again.due], [2, 'pending', due]);
});

test('an endpoint that is deleted while a delivery is under way loses the ones behind it, and the result is recorded', async (t) => {
  const shop = await openShop(t);
  await fill([shop.endpointId], shop.merchantId, 2, { each: 2 });
  const { sql } = ctx.db;
  const { due } = await leaseDue(ctx, OPTIONS);
  const [first] = due;
  assert.deepEqual([due.length, first!.endpointId], [1, shop.endpointId]);
  const rows = () =>
    sql<{ id: bigint; state: string; waits: boolean; open: boolean }[]>`
      select id, state, waits, due_at is not null as open from deliveries where endpoint_id = ${shop.endpointId} order by sequence`;
  const [, second] = await rows();
  assert.equal(second!.waits, true);
  const outcome = { due: first!, durationMs: 5, status: 200, failure: null, reason: null, address: null, headers: {}, reply: null };
  let recorded: Promise<void> | null = null;
  await ctx.db.begin(async (tx) => {
    // As the worker ends what waits for an endpoint that is gone.
    await tx`update deliveries set state = 'failed', due_at = null, waits = false where id = ${second!.id.toString()}::bigint`;
    recorded = recordOutcomes(ctx, [{ ...outcome, retryAfterSeconds: null }]);
    recorded.catch(() => {});
    await eventually(
      async () => (await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`).length,
      (waiting) => waiting > 0,
    );
  });
  await recorded;
  assert.deepEqual(
    (await rows()).map(({ state, open }) => [state, open]),
    [
      ['delivered', false],
      ['failed', false],
    ],
  );
});

test('a test clock that advances while a result is recorded waits for none of its rows, and moves the others', async (t) => {
  const shop = await openShop(t);
  const { merchantId, endpointId } = shop;
  await create(shop, 3);
  const rows = await eventually(
    () =>
      ctx.db.sql<{ id: bigint; dueAt: Date }[]>`
        select id, due_at as "dueAt" from deliveries where endpoint_id = ${endpointId} and state = 'pending' order by id`,
    ({ length }) => length === 3,
  );
  const [leased] = rows;
  await ctx.db.sql`update deliveries set leased_until = clock_timestamp() + interval '1 hour' where id = ${leased!.id}`;
  await ctx.db.sql`update endpoints set rests_until = clock_timestamp() + interval '1 hour' where id = ${endpointId}`;
  await ctx.db.begin(async (tx) => {
    await tx`select 1 from endpoints where id = ${endpointId} for update`;
    await ctx.db.begin((other) => advanceDeliveries(other, { merchantId, paymentId: null, seconds: 60 }));
    await tx`update deliveries set leased_until = null where id = ${leased!.id}`;
  });
  const after = await ctx.db.sql<{ dueAt: Date }[]>`select due_at as "dueAt" from deliveries where endpoint_id = ${endpointId} order by id`;
  assert.deepEqual(
    after.map(({ dueAt }, i) => rows[i]!.dueAt.getTime() - dueAt.getTime()),
    [0, 60_000, 60_000],
  );
  await clear();
});

// Invariant: Bad receivers do not slow down the others.
test('receivers that answer badly behave as expected and cost the others nothing', async (t) => {
  const healthy = await openShop(t);
  const pem = readFileSync(join(import.meta.dirname, '../../test/fixtures/hooks.example.pem'), 'utf8');
  const [key, cert] = pem.match(/-----BEGIN .*?-----END [A-Z ]+-----/gs)!;
  const secure = createSecureServer({ key: key!, cert: cert! }, (_request, reply) => reply.end());
  await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    secure.close();
    secure.closeAllConnections();
  });
  let sent = 0;
  const ways: [failure: string, state: string, answer: Answer, url?: string][] = [
    ['status_500', 'pending', status(500)],
    ['status_301', 'pending', status(301, { location: 'http://127.0.0.1:9/' })],
    ['status_410', 'failed', status(410)],
    ['timeout', 'pending', () => {}],
    [
      'timeout',
      'pending',
      (reply) => {
        const timer = setInterval(() => reply.write('x'), 1_000);
        reply.on('close', () => clearInterval(timer));
      },
    ],
    [
      'reset',
      'pending',
      (reply) => {
        reply.writeHead(200, { 'content-length': '100' }).write('x');
        setTimeout(() => reply.socket?.destroy(), 20);
      },
    ],
    [
      // Accepted: the status says so, and the gigabyte after it is not read.
      'none',
      'delivered',
      (reply) => {
        const block = Buffer.alloc(65_536);
        const push = () => {
          while (!reply.destroyed && sent < 2 ** 30 && reply.write(block)) sent += block.length;
        };
        reply.on('drain', push);
        push();
      },
    ],
    ['tls', 'pending', status(200), `https://127.0.0.1:${(secure.address() as AddressInfo).port}/hook`],
    ['connect', 'pending', status(200), 'http://127.0.0.1:9/hook'],
  ];
  startWorker(t);
  const shops = await Promise.all(ways.map(([, , answer, url]) => openShop(t, answer, ['payment.created'], url)));
  await Promise.all(shops.map((shop) => create(shop, 30)));
  const slowest = async (): Promise<number> => {
    let most = 0;
    for (let i = 0; i < 20; i++) {
      const started = performance.now();
      const [payment] = await create(healthy);
      const hit = await eventually(
        async () => healthy.hits.find((h) => h.payment === payment),
        (h) => h !== undefined,
        30_000,
      );
      most = Math.max(most, hit!.at - started);
    }
    return most;
  };
  const most = await slowest();
  // An attempt that hangs takes ten seconds: none of them is awaited.
  assert.ok(most < 8_000, `${most} ms`);
  for (const [i, [failure, state]] of ways.entries()) {
    const { endpointId } = shops[i]!;
    const [first] = await eventually(
      () =>
        ctx.db.sql<{ failure: string; state: string; ms: number }[]>`
          select coalesce(a.failure, 'none') as failure, d.state, a.duration_ms as ms
          from attempts a join deliveries d on d.id = a.delivery_id where d.endpoint_id = ${endpointId} and a.number = 1 order by a.at limit 1`,
      (rows) => rows.length === 1,
      60_000,
    );
    assert.deepEqual([first!.failure, first!.state], [failure, state], `way ${i}`);
    if (failure === 'timeout') assert.ok(first!.ms >= 9_900 && first!.ms < 25_000, `${first!.ms} ms`);
  }
  assert.ok(sent < 2 ** 28, `${sent} bytes of the large reply were taken`);
  assert.equal(healthy.hits.length, 20);
  await clear();
});

test('the public ID of a delivery reveals nothing and leads back to it', () => {
  const key = ctx.installKey;
  const ids = [1n, 2n, 3n, 2n ** 62n].map((n) => idOfNumber('del', key, n));
  assert.equal(new Set(ids.map((id) => id.slice(6, 14))).size, 4);
  for (const [i, n] of [1n, 2n, 3n, 2n ** 62n].entries()) {
    assert.match(ids[i]!, /^del_[0-9A-Za-z]{24}$/);
    assert.equal(numberOfId('del', key, ids[i]!), n);
    assert.equal(numberOfId('rec', key, ids[i]!), null);
    assert.equal(numberOfId('del', createSecretKey(new Uint8Array(32)), ids[i]!), null);
    assert.equal(numberOfId('del', key, `${ids[i]!.slice(0, -1)}${ids[i]!.endsWith('0') ? '1' : '0'}`), null);
  }
  for (const none of ['', 'del_', 'del_x', `del_${'z'.repeat(24)}`, `del_${'0'.repeat(24)}`, 'pay_000000000000000000000000'])
    assert.equal(numberOfId('del', key, none), null, none);
});
