/** A lost reply of the database never creates twice: a commit whose reply was lost is found by its ID. */
// Invariant: A lost reply of the database never creates twice.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
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
