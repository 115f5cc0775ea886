/** How many statements the service sends to its database, counted between the two. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { client, eventually, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../kit/database-proxy.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

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

/** What begins and ends transactions, and what a service sends anyway. */
const ASIDE =
  /^(begin|commit|select 1$|select clock_timestamp\(\) as now|select concat_ws\('\/', \(select oid|select extract\(epoch from q\.due)|delete from (idempotency|requests|key_hours)/;

/**
 * What is done for all payments of a while, here for one: taking webhooks, at least 3 statements; indexing texts, 9; the log of requests and
 * the use of keys, 2.
 */
const TOGETHER =
  /^with recursive lanes|^(with written as \(\s*)?insert into payment_text|from payment_text_owners|from payment_counters|p\.request->>'description'|^select pg_notify|^delete from due_work|^insert into requests|^with used as/;
const MOST_TOGETHER = 14;

test('the life of a test payment with three webhooks takes at most 40 statements', async (t) => {
  const { merchantId, keys } = merchant;
  const events = ['payment.created', 'payment.processing', 'payment.completed'] as const;
  await createEndpoint(app.ctx, { merchantId, mode: 'test', url: receiver.url, events: [...events], description: null });
  const api = client(app.url!, keys.testSecret);
  /** One payment from its creation until the last webhook is recorded. */
  const live = async (): Promise<string[]> => {
    const from = proxy.statements.length;
    const made = await api.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks' });
    const id = made.json.transaction_id as string;
    await api.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
    await eventually(
      async () => receiver.received.filter(({ event }) => event.data.id === id).map(({ event }) => event.type as string),
      (types) => events.every((type) => types.includes(type)),
    );
    const { sql } = database.db;
    await eventually(
      async () => [...(await sql`select 1 from deliveries where state = 'pending' union all select 1 from due_work`)].length,
      (n) => n === 0,
    );
    return proxy.statements.slice(from).filter((text) => !ASIDE.test(text));
  };
  await live();
  let all = await live();
  // What is done every ten seconds anyway may begin or end meanwhile.
  while (all.some((text) => HOUSEKEEPING.test(text) || HOUSEKEEPING_ENDS.test(text))) all = await live();
  const own = all.filter((text) => !TOGETHER.test(text));
  t.diagnostic(`${all.length} statements, ${own.length} of them of its own`);
  assert.ok(own.length <= 40 - MOST_TOGETHER, `${own.length} statements:\n${tally(own)}`);
  const outcomes = own.filter((text) => text.startsWith('with input as materialized'));
  assert.ok(outcomes.length <= 3, 'the outcome of a delivery is one statement');
});
