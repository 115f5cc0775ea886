/** How many statements the service sends to its database, counted between the two. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { connectShop, PLATFORM_PERMISSIONS } from '../../src/shops/shop-keys.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { client, eventually, testEnvironment } from '../kit/app.ts';
import { startCoreNode } from '../kit/core-node.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../kit/database-proxy.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { PROTOCOLS } from '../kit/replay-flow.ts';
import { ok, shopClient, startHook } from '../kit/shop-flows.ts';
import { createTestChain } from '../kit/test-chain.ts';

let database: TestDatabase;
let proxy: DatabaseProxy;
let app: App;
let merchant: NewMerchant;
let receiver: Receiver;
before(async () => {
  database = await testDatabase();
  proxy = await startDatabaseProxy(database.connection);
  app = await startApp(readConfig(testEnvironment(proxy.url, database.folder)), { log: createLog('error'), starts: () => null });
  receiver = await startReceiver();
  merchant = await createMerchant(app.ctx, { name: 'Quiet shop' });
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
  await proxy?.stop();
  await database?.drop();
});

/** How often each statement was sent, the most frequent first. */
const tally = (statements: readonly string[]): string =>
  [...Map.groupBy(statements, (text) => text.slice(0, 150))]
    .sort(([, a], [, b]) => b.length - a.length)
    .map(([text, { length }]) => `${length} ${text}`)
    .join('\n');

const HOUSEKEEPING = /delete from payment_count_deltas/;
/** What a process sends for all chains together. */
const SHARED = /^set |^select 1$|^select clock_timestamp\(\) as now|^select concat_ws|due_at|^delete from|^with taken|retention/;
const HOUSEKEEPING_ENDS = /^with edges as/;
const HOUSEKEEPING_SECONDS = 10;

test('an idle service sends fewer than five statements a second', async (t) => {
  const rounds = () => proxy.statements.flatMap((text, at) => (HOUSEKEEPING.test(text) ? [at] : []));
  // A service that has just started does more before the end of its first round.
  const first = Math.max(1, rounds().length);
  // Between two rounds of the work that is done every ten seconds, everything else is done too.
  const places = await eventually(
    async () => rounds(),
    (found) => found.length >= first + 2,
    120_000,
  );
  const idle = proxy.statements.slice(places.at(-2), places.at(-1));
  t.diagnostic(`${idle.length} statements in ${HOUSEKEEPING_SECONDS} s\n${tally(idle)}`);
  assert.ok(idle.length < 5 * HOUSEKEEPING_SECONDS, `${idle.length} statements in ${HOUSEKEEPING_SECONDS} s:\n${tally(idle)}`);
});

test('a look at a chain that shows nothing new takes at most eight statements', async (t) => {
  const own = await testDatabase();
  const between = await startDatabaseProxy(own.connection);
  const node = await startCoreNode(createTestChain({ coin: 'BTC', network: 'regtest' }));
  const follows = await startApp(readConfig(testEnvironment(between.url, own.folder, { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest' })), {
    log: createLog('error'),
    starts: () => null,
    roles: ['watcher'],
  });
  const looks = () => between.statements.flatMap((text, at) => (/update tips set looked_at/.test(text) ? [at] : []));
  // The first look notes what the following ones find unchanged.
  const places = await eventually(
    async () => looks(),
    (found) => found.length >= 6,
    60_000,
  );
  // What the process does for itself falls between the statements of some looks, and only adds to them.
  const looked = places.slice(-5).map((at, i, all) => between.statements.slice(at, all[i + 1]).filter((text) => !SHARED.test(text)));
  const look = looked.slice(0, -1).reduce((least, one) => (one.length < least.length ? one : least));
  await follows.stop();
  await node.close();
  await between.stop();
  await own.drop();
  t.diagnostic(tally(look));
  assert.ok(look.length <= 8, `${look.length} statements:\n${tally(look)}`);
});

/** What begins and ends transactions, what a service sends anyway, and merchants and keys, which are read once a second at most. */
const ASIDE =
  /^(begin|commit|select m\.id, m\.name, m\.plan|select k\.id, k\.name, k\.permissions|select 1$|select clock_timestamp\(\) as now|select concat_ws\('\/', \(select oid|select extract\(epoch from q\.due)|delete from (idempotency|requests|key_hours)/;

/**
 * What is done for all payments of a while, here for one: taking webhooks, at least 3 statements; indexing texts, 9; the log of requests and
 * the use of keys, 2.
 */
const TOGETHER =
  /^with recursive lanes|^(with written as \(\s*)?insert into payment_text|from payment_text_owners|from payment_counters|p\.request->>'description'|^select pg_notify|^delete from due_work|^insert into requests|^with used as/;
const MOST_TOGETHER = 14;

/** What a piece of work sends until nothing is left to be done for it, besides what is sent anyway; done once before, so that it is cached. */
async function statementsOf(work: () => Promise<unknown>): Promise<{ all: string[]; own: string[] }> {
  const { sql } = database.db;
  const last = (what: RegExp): number => proxy.statements.findLastIndex((text) => what.test(text));
  const once = async (): Promise<string[]> => {
    // A round that is under way sends its statements between those of the work.
    await eventually(
      async () => last(HOUSEKEEPING) <= last(HOUSEKEEPING_ENDS),
      (hasEnded) => hasEnded,
      60_000,
    );
    const from = proxy.statements.length;
    await work();
    await eventually(
      async () => [...(await sql`select 1 from deliveries where state = 'pending' union all select 1 from due_work`)].length,
      (n) => n === 0,
    );
    return proxy.statements.slice(from).filter((text) => !ASIDE.test(text));
  };
  await once();
  let all = await once();
  // What is done every ten seconds anyway may begin meanwhile.
  while (all.some((text) => HOUSEKEEPING.test(text))) all = await once();
  return { all, own: all.filter((text) => !TOGETHER.test(text)) };
}
const PRICE = { amount_usd: 25, return_url: 'https://shop.example/thanks' };
const openFor = (events: string[]) =>
  createEndpoint(app.ctx, { merchantId: merchant.merchantId, mode: 'test', url: receiver.url, events, description: null });
/** The types of the webhooks that have arrived for a payment. */
const arrived = async (id: string): Promise<string[]> =>
  receiver.received.flatMap(({ event }) => ([event.data.id, event.data.payment_id].includes(id) ? [event.type as string] : []));

test('a live payment is created with at most 3 statements', async () => {
  const api = client(app.url!, merchant.keys.liveSecret);
  const { own } = await statementsOf(() => api.post('/api/payment/create/simple', PRICE));
  assert.ok(own.length <= 3, `${own.length} statements:\n${tally(own)}`);
  const named = await statementsOf(() => api.post('/api/payment/create/simple', { ...PRICE, customer: { email: 'ada@example.com' } }));
  assert.ok(named.own.length <= 3, `${named.own.length} statements with a customer:\n${tally(named.own)}`);
});

test('a new payment is written once, and into five indexes', async () => {
  const { sql } = database.db;
  const rules = await sql`insert into rule_sets (hash, rules) values ('counted', '{}') returning id`;
  const write = (n: number) => sql<{ 'QUERY PLAN': [{ Plan: { 'WAL Records': number } }] }[]>`
    explain (analyze, wal, format json) insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with,
      created_at, expires_at, due_at)
    values (${`pay_counted${n}`}, ${merchant.merchantId}, 'live', ${1_000 + n}::int, 'pending', 2550, ${rules[0]!.id}, 'secret', now(), now(), now() + interval '1 hour')`;
  // The first one may make the first page of an index.
  await write(1);
  const [row] = await write(2);
  assert.equal(row!['QUERY PLAN'][0].Plan['WAL Records'], 6);
});

test('the life of a test payment with three webhooks takes at most 40 statements', async (t) => {
  const events = ['payment.created', 'payment.processing', 'payment.completed'];
  await openFor(events);
  const api = client(app.url!, merchant.keys.testSecret);
  const { all, own } = await statementsOf(async () => {
    const { id } = (await api.post('/api/payment/create/simple', PRICE)).json;
    await api.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
    await eventually(
      () => arrived(id),
      (types) => events.every((type) => types.includes(type)),
    );
  });
  t.diagnostic(`${all.length} statements, ${own.length} of them of its own`);
  assert.ok(own.length <= 40 - MOST_TOGETHER, `${own.length} statements:\n${tally(own)}`);
  const outcomes = own.filter((text) => text.startsWith('with input as materialized'));
  assert.ok(outcomes.length <= 3, 'the outcome of a delivery is one statement');
});

test('a refund that its customer claims takes at most 20 statements', async () => {
  const api = client(app.url!, merchant.keys.testSecret);
  const payment = (await api.post('/api/payment/create/simple', PRICE)).json.id as string;
  await api.post(`/v1/test/payments/${payment}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    () => api.get(`/api/payment/${payment}`),
    ({ json }) => json.status === 'completed',
  );
  const refunds: string[] = [];
  const { own } = await statementsOf(async () => {
    const { id, claim_url } = (await api.post('/v1/refunds', { payment_id: payment, amount: '0.00001000' })).json;
    const page = app.url + new URL(claim_url).pathname;
    await (await fetch(page)).text();
    const body = new URLSearchParams({ address: 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl', checked: 'yes' });
    assert.equal((await fetch(page, { method: 'POST', redirect: 'manual', body })).status, 303);
    const actor = { userId: '', name: 'Ada', ip: '' };
    await approveOutgoing(app.ctx, { kind: 'refund', merchantId: merchant.merchantId, mode: 'test', id, actor });
    refunds.push(id);
  });
  for (const id of refunds) assert.equal((await api.get(`/v1/refunds/${id}`)).json.status, 'confirmed');
  assert.ok(own.length <= 20, `${own.length} statements:\n${tally(own)}`);
});

test('an invoice of a BTCPay plugin, until it is settled, takes at most 40 statements besides its webhooks and texts', async (t) => {
  // Its payments have no other endpoint than that of the plugin.
  const merchant = await createMerchant(app.ctx, { name: 'Shop of a plugin', plan: 'enterprise' });
  const shop = { merchantId: merchant.merchantId, mode: 'test', platform: 'woocommerce', name: 'Shop' } as const;
  const { apiKey, storeId } = await app.ctx.db.begin((tx) =>
    connectShop(app.ctx, tx, { ...shop, permissions: PLATFORM_PERMISSIONS.woocommerce }),
  );
  const call = shopClient(`${app.url}/btcpay`, apiKey);
  const api = client(app.url!, merchant.keys.testSecret);
  const hook = await startHook(t, PROTOCOLS.greenfield.header);
  const store = `/api/v1/stores/${storeId}`;
  ok(await call('POST', `${store}/webhooks`, { url: hook.url, authorizedEvents: { everything: true }, enabled: true }));
  const { all, own } = await statementsOf(async () => {
    const order = { amount: '30.00', currency: 'EUR', metadata: { orderId: '12' }, checkout: {} };
    const { id } = ok(await call('POST', `${store}/invoices`, order));
    await api.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
    await eventually(
      async () => hook.hits.flatMap(({ event }) => (event.invoiceId === id ? [event.type as string] : [])),
      (types) => types.includes('InvoiceSettled'),
    );
  });
  t.diagnostic(`${all.length} statements, ${own.length} of them of its own`);
  assert.ok(own.length <= 40, `${own.length} statements:\n${tally(own)}`);
});
