/** Test mode over HTTP: every scenario from creation to its end, with the events the merchant receives. */
// Invariant: Scenarios of test mode end as documented.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { Scenario } from '../../src/core/simulated.ts';
import { getPaymentForCustomer } from '../../src/payments/customer-view.ts';
import { chooseCoin, simulateOnPage } from '../../src/payments/payments.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

let app: TestApp;
let receiver: Receiver;
let secret: string;
before(async () => {
  app = await startTestApp();
  receiver = await startReceiver();
  ({ secret } = await createEndpoint(app.app.ctx, {
    merchantId: app.merchant.merchantId,
    mode: 'test',
    url: receiver.url,
    events: ['*', 'payment.updated'],
    description: null,
  }));
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
});

const create = async (body: object = {}) => {
  const reply = await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks', ...body });
  assert.equal(reply.status, 201, reply.text);
  return reply.json.transaction_id as string;
};
const detail = async (id: string) => (await app.test.get(`/api/payment/${id}`)).json;
const eventsOf = (id: string) => receiver.received.filter((r) => r.event.data.id === id).map((r) => r.event);

const SCENARIOS = `
scenario  | coin | status    | exception | events
success   | BTC  | completed |           | created updated processing completed
success   | DOGE | completed |           | created updated processing completed
failed    | LTC  | failed    | underpaid | created updated failed
underpaid | DASH | pending   | underpaid | created updated
overpaid  | ETH  | completed | overpaid  | created processing completed
late      | BTC  | expired   | late      | created expired
expired   | BTC  | expired   |           | created expired
`;

for (const line of SCENARIOS.trim().split('\n').slice(1)) {
  const [scenario, coin, status, exception] = line.split('|').map((cell) => cell.trim());
  test(`${scenario} in ${coin} ends ${status}${exception ? ` with ${exception}` : ''}`, async () => {
    const id = await create();
    const simulated = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario, currency: coin });
    assert.equal(simulated.status, 200, simulated.text);
    const end = await eventually(
      () => detail(id),
      (d) => d.status === status && (d.exception ?? '') === exception,
    );
    assert.equal(end.currency, coin);
    assert.equal(end.payment_address, `test_${coin!.toLowerCase()}_${scenario}`);
    await eventually(
      async () => eventsOf(id),
      (events) => events.some((e) => e.data.status === status),
    );
    const seen = eventsOf(id);
    // Exactly once each, in order, with a sequence without gaps.
    assert.deepEqual(
      seen.map((e) => e.data.sequence),
      seen.map((_, i) => i + 1),
    );
    assert.equal(seen[0].type, 'payment.created');
    assert.equal(new Set(seen.map((e) => e.id)).size, seen.length);
  });
}

/** What the customer can do next, once the previous scenario has ended. */
const next = (id: string) =>
  eventually(
    async () => (await getPaymentForCustomer(app.app.ctx, { paymentId: id })).nextScenarios,
    (scenarios) => scenarios.length > 0,
  );
const FOLLOWS = `
first     | then     | status    | exception
underpaid | success  | completed |
underpaid | overpaid | completed | overpaid
underpaid | expired  | failed    | underpaid
replaced  | success  | completed |
expired   | late     | expired   | late
`;
for (const line of FOLLOWS.trim().split('\n').slice(1)) {
  const [first, then, status, exception] = line.split('|').map((cell) => cell.trim());
  test(`on the page ${then} can follow ${first}: ${status}${exception && `, ${exception}`}`, async () => {
    const id = await create();
    await chooseCoin(app.app.ctx, { paymentId: id, coin: 'LTC' });
    assert.equal((await detail(id)).status, 'pending', 'choosing a coin on the page pays nothing');
    await simulateOnPage(app.app.ctx, { paymentId: id, scenario: first! });
    assert.ok((await next(id)).includes(then as Scenario));
    await simulateOnPage(app.app.ctx, { paymentId: id, scenario: then! });
    const end = await eventually(
      () => detail(id),
      (d) => d.status === status && (d.exception ?? '') === exception,
    );
    assert.equal(end.payment_address, 'test_ltc_success', 'the address that was shown stays');
  });
}

test('after a choice on the page, the API can start any scenario once; the page offers only possible next ones, and none for a live payment', async () => {
  const id = await create();
  await chooseCoin(app.app.ctx, { paymentId: id, coin: 'DASH' });
  await app.anonymous.get(`/pay?id=${id}`);
  const started = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success' });
  assert.equal(started.status, 200, started.text);
  const again = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'underpaid' });
  assert.deepEqual([again.status, again.json.error.code], [409, 'scenario_started']);
  await eventually(
    () => detail(id),
    (d) => d.status === 'completed',
  );
  await assert.rejects(simulateOnPage(app.app.ctx, { paymentId: id, scenario: 'success' }), { code: 'scenario_started' });
  const live = await app.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/thanks' });
  await assert.rejects(simulateOnPage(app.app.ctx, { paymentId: live.json.transaction_id, scenario: 'success' }), {
    code: 'test_key_required',
  });
});

test('test_btc_success completes within two seconds after the page is opened', async () => {
  const reply = await app.test.post('/api/payment/create/simple', {
    amount_usd: '10.00',
    return_url: 'https://shop.example/',
    payment_address: 'test_btc_success',
  });
  const id = reply.json.transaction_id;
  assert.equal((await detail(id)).status, 'pending');
  const page = await app.anonymous.get(`/pay?id=${id}`);
  assert.equal(page.status, 200);
  const end = await eventually(
    () => detail(id),
    (d) => d.status === 'completed',
  );
  assert.equal(end.payment_address, 'test_btc_success');
  assert.ok(end.completed_at);
});

test('test_eth_slow confirms after ten minutes of the test clock', async () => {
  const reply = await app.test.post('/api/payment/create/simple', {
    amount_usd: 10,
    return_url: 'https://shop.example/',
    payment_address: 'test_eth_slow',
  });
  const id = reply.json.transaction_id;
  await app.anonymous.get(`/pay?id=${id}`);
  await eventually(
    () => detail(id),
    (d) => d.status === 'processing',
  );
  const advanced = await app.test.post('/v1/test/clock/advance', { seconds: 9 * 60, payment_id: id });
  assert.equal(advanced.status, 200, advanced.text);
  assert.equal((await detail(id)).status, 'processing');
  await app.test.post('/v1/test/clock/advance', { seconds: 70, payment_id: id });
  await eventually(
    () => detail(id),
    (d) => d.status === 'completed',
  );
});

test('a renewed rate keeps the identifier that was shown as the address', async () => {
  const id = await create({ expires_in: 7200 });
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'underpaid', currency: 'DOGE' });
  const before = await detail(id);
  await app.test.post('/v1/test/clock/advance', { seconds: 3660, payment_id: id });
  await chooseCoin(app.app.ctx, { paymentId: id, coin: 'DOGE' });
  const quotes = await app.app.ctx.db.sql`select 1 from quotes where payment_id = ${id}`;
  assert.equal(quotes.length, 2, 'the rate was renewed');
  assert.equal(before.payment_address, 'test_doge_underpaid');
  assert.equal((await detail(id)).payment_address, 'test_doge_underpaid');
});

test('test_ltc_failed ends failed with payment.failed', async () => {
  const reply = await app.test.post('/v1/transactions/create', {
    crypto: 'LTC',
    amount: 10,
    currency_fiat: 'USD',
    payment_address: 'test_ltc_failed',
  });
  assert.equal(reply.status, 201, reply.text);
  const id = reply.json.transaction_id;
  await app.anonymous.get(`/pay?id=${id}`);
  await eventually(
    () => detail(id),
    (d) => d.status === 'failed',
  );
  await eventually(
    async () => eventsOf(id),
    (events) => events.some((e) => e.type === 'payment.failed'),
  );
});

test('deliveries verify with the documented signature and with the standard library', () => {
  assert.ok(receiver.received.length > 0);
  const verifier = new Webhook(secret);
  for (const { headers, body } of receiver.received) {
    assert.equal(headers['x-service-signature'], createHmac('sha256', secret).update(body).digest('hex'));
    verifier.verify(body, headers as Record<string, string>);
  }
});
