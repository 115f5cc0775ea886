/** A lost reply of the database never creates twice: a commit whose reply was lost is found by its ID. */
// Invariant: A lost reply of the database never creates twice.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { connectCommerce } from '../../src/shops/commerce/connect-commerce.ts';
import { connectShop, PERMISSIONS } from '../../src/shops/shop-keys.ts';
import { type Client, client, eventually, type Reply, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../kit/database-proxy.ts';

let database: TestDatabase;
let proxy: DatabaseProxy;
let app: App;
let merchant: NewMerchant;
before(async () => {
  database = await testDatabase();
  proxy = await startDatabaseProxy(database.connection);
  app = await startApp(readConfig(testEnvironment(proxy.url, database.folder)), { log: createLog('silent') });
  merchant = await createMerchant(app.ctx, { name: 'Test shop' });
});
after(async () => {
  await app?.stop();
  await proxy?.stop();
  await database?.drop();
});

const create = (as: Client, marker: string, headers: Record<string, string> = {}) =>
  as.post('/api/payment/create/simple', { amount_usd: 25, return_url: `https://shop.example/${marker}` }, headers);

for (const { name, key, at, headers } of [
  { name: 'live payments written in one statement', key: 'liveSecret', at: 'statement', headers: {} },
  { name: 'test payments', key: 'testSecret', at: 'commit', headers: {} },
  { name: 'a payment with an Idempotency-Key', key: 'liveSecret', at: 'commit', headers: { 'idempotency-key': 'order-1' } },
  { name: 'a payment whose insert was not committed', key: 'testSecret', at: 'statement', headers: {} },
] as const) {
  test(`the reply of the database is lost: ${name}`, async () => {
    const as = client(app.url!, merchant.keys[key]);
    const marker = name.replaceAll(' ', '-');
    const before = (await as.get('/api/payments?limit=1')).json.total_count as number;
    const lost = proxy.lost();
    proxy.loseReply({ text: marker, at });
    // Other requests in the same batch are not affected either; with a key the request is alone.
    const count = 'idempotency-key' in headers ? 1 : 5;
    const replies = await Promise.all(Array.from({ length: count }, () => create(as, marker, headers)));
    assert.equal(proxy.lost(), lost + 1, 'a reply was lost');
    assert.deepEqual(
      replies.map((reply) => reply.status),
      replies.map(() => 201),
    );
    const list = (await as.get('/api/payments?limit=100')).json;
    assert.equal(list.total_count, before + count);
    const ids = new Set(replies.map((reply) => reply.json.transaction_id));
    assert.equal(ids.size, count);
    for (const reply of replies) {
      const detail = (await as.get(`/api/payment/${reply.json.transaction_id}`)).json;
      assert.equal(detail.status, 'pending');
      assert.equal(detail.expires_at, reply.json.expires_at);
      const events = await database.db.sql`select 1 from events where payment_id = ${reply.json.transaction_id}`;
      assert.equal(events.length, 1);
    }
    if ('idempotency-key' in headers) {
      const again = await create(as, marker, headers);
      assert.equal(again.text, replies[0]!.text);
      assert.equal(again.headers.get('idempotent-replayed'), 'true');
    }
  });
}

test('the connection ends while the statement is still running, and it commits after all', async () => {
  const as = client(app.url!, merchant.keys.liveSecret);
  const before = (await as.get('/api/payments?limit=1')).json.total_count as number;
  const waiting = (count: number) =>
    eventually(
      async () =>
        (await database.db.sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).length,
      (found) => found >= count,
    );
  let replies: Promise<Reply[]>;
  await database.db.begin(async (tx) => {
    await tx`select 1 from payment_counters where merchant_id = ${merchant.merchantId} and mode = 'live' for update`;
    replies = Promise.all(Array.from({ length: 3 }, () => create(as, 'under-way')));
    await waiting(1);
    proxy.resetAll();
    await waiting(2);
  });
  const ids = (await replies!).map((reply) => {
    assert.equal(reply.status, 201, reply.text);
    return reply.json.transaction_id;
  });
  assert.equal(new Set(ids).size, 3);
  assert.equal((await as.get('/api/payments?limit=1')).json.total_count, before + 3);
});

test('while the database hangs, every request is answered with 503 within five seconds, also those under way, and nothing is created twice', async () => {
  const key = merchant.keys.liveSecret;
  const as = client(app.url!, key);
  const of = (marker: string) => create(as, marker, { 'idempotency-key': marker });
  const total = async () => (await as.get('/api/payments?limit=1')).json.total_count as number;
  const { payment_url, transaction_id } = (await of('before-it-hangs')).json;
  const { merchantId } = merchant;
  const shop = await app.ctx.db.begin((tx) =>
    connectShop(app.ctx, tx, { merchantId, mode: 'live', platform: 'other', name: 'Shop', permissions: Object.values(PERMISSIONS) }),
  );
  const charges = await connectCommerce(app.ctx, { merchantId, mode: 'live', name: 'Charges', webhookUrl: null });
  const before = await total();
  // The same ticks as those at which the service counts missing answers: a busy machine delays both.
  let ticks = 0;
  const timer = setInterval(() => ticks++, 500);
  /** Each is refused, and the number of ticks until the last one is. */
  const areRefused = async (asked: readonly Promise<Response>[]): Promise<number> => {
    ticks = 0;
    for (const { status, headers } of await Promise.all(asked)) assert.deepEqual([status, headers.get('retry-after')], [503, '2']);
    return ticks;
  };
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ amount_usd: 25, return_url: 'https://shop.example/' });
  const { pathname, search } = new URL(payment_url);
  // More than there are connections, so that some wait for one.
  const paths = [
    ...Array<string>(15).fill(`/api/payment/${transaction_id}`),
    '/api/payments',
    '/v1/events',
    pathname + search,
    `/pay/events${search}`,
  ];
  const asked = () => [
    ...paths.map((path) => fetch(app.url + path, { headers })),
    fetch(`${app.url}/api/payment/create/simple`, { method: 'POST', headers, body }),
    fetch(`${app.url}/btcpay/api/v1/stores`, { headers: { authorization: `token ${shop.apiKey}` } }),
    fetch(`${app.url}/commerce/checkouts`, { headers: { 'x-cc-api-key': charges.apiKey } }),
  ];
  const ready = async () => {
    const reply = await fetch(`${app.url}/readyz`);
    return { status: reply.status, ...((await reply.json()) as { reasons: string[] }) };
  };
  try {
    await database.db.begin(async (tx) => {
      await tx`select 1 from payment_counters where merchant_id = ${merchantId} and mode = 'live' for update`;
      const underWay = of('under-way-when-it-hangs');
      await eventually(
        () => database.db.sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        (found) => found.length > 0,
      );
      proxy.freeze();
      const readiness = ready();
      const within = await areRefused(asked());
      assert.ok(within <= 12, `${within} ticks of half a second`);
      const { status, json } = await underWay;
      assert.deepEqual([status, json.error.code], [503, 'database_unavailable']);
      const { status: notReady, reasons } = await readiness;
      assert.deepEqual([notReady, reasons], [503, ['the database does not answer']]);
      // Once it is known to be away, nothing waits.
      const atOnce = await areRefused(asked());
      assert.ok(atOnce <= 2, `${atOnce} ticks of half a second`);
      assert.equal((await fetch(`${app.url}/healthz`)).status, 200);
    });
  } finally {
    clearInterval(timer);
    proxy.thaw();
  }
  await eventually(ready, ({ status }) => status === 200);
  assert.equal((await of('under-way-when-it-hangs')).status, 201);
  assert.equal(await total(), before + 1);
});
