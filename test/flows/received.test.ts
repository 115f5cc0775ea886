/** What a payment says it received, its first event, which endpoints hear of a reversal, and test payments that behave like real ones. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { chooseCoin, simulateOnPage } from '../../src/payments/payments.ts';
import { exportPayments } from '../../src/queries/exports.ts';
import { NO_FILTER } from '../../src/queries/search.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';
import { startReceiver } from '../kit/receiver.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const create = async (body: object = {}): Promise<string> => {
  const reply = await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/', ...body });
  assert.equal(reply.status, 201, reply.text);
  return reply.json.id;
};
const detail = async (id: string): Promise<any> => (await app.test.get(`/api/payment/${id}`)).json;
const reach = (id: string, done: (payment: any) => boolean) => eventually(() => detail(id), done);
const simulate = async (id: string, scenario: string, currency = 'BTC') => {
  const reply = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario, currency });
  assert.equal(reply.status, 200, reply.text);
};
const eventsOf = async (id: string): Promise<any[]> => (await app.test.get(`/v1/events?payment_id=${id}&limit=100`)).json.data.reverse();

/** Everywhere the amount is shown: detail, last event, the dashboard's list and its export. */
async function received(id: string): Promise<string[]> {
  const payment = await detail(id);
  const events = await eventually(
    () => eventsOf(id),
    (all) => all.at(-1)?.data.exception === payment.exception,
  );
  const listed = (await owner.get('/test/payments?limit=100')).json.data.find((row: any) => row.id === id);
  const of = { merchantId: app.merchant.merchantId, mode: 'test' as const };
  const lines: string[] = [];
  for await (const part of exportPayments(app.app.ctx, { ...of, filter: NO_FILTER, columns: ['id', 'amount_received'] }))
    lines.push(...part.trim().split('\r\n'));
  const exported = lines
    .find((line) => line.includes(id))!
    .split(',')
    .at(-1)!;
  return [payment.amount_received, events.at(-1)!.data.amount_received, listed.amount_received, exported];
}

test('money that came late is received, and on hold: in the detail, events, the list and exports', async () => {
  const id = await create();
  await simulate(id, 'late');
  const late = await reach(id, (d) => d.exception === 'late');
  assert.equal(late.status, 'expired');
  assert.ok(Number(late.amount) > 0);
  assert.deepEqual([late.amount_received, late.amount_held], [late.amount, late.amount]);
  assert.deepEqual([late.amount_received_usd, late.transaction_hash], ['25.00', late.transfers[0].transaction_hash]);
  assert.ok(late.confirmations > 0);
  assert.deepEqual(await received(id), Array(4).fill(late.amount));
});

test('money that came after the payment was canceled is received, and on hold', async () => {
  const id = await create();
  await chooseCoin(app.app.ctx, { paymentId: id, coin: 'LTC' });
  assert.equal((await app.test.post(`/v1/payments/${id}/cancel`)).status, 200);
  await simulateOnPage(app.app.ctx, { paymentId: id, scenario: 'success' });
  const paid = await reach(id, (d) => d.exception === 'paid_after_cancel' && d.confirmations > 0);
  assert.equal(paid.status, 'cancelled');
  assert.deepEqual([paid.amount_received, paid.amount_held], [paid.amount, paid.amount]);
  assert.equal(paid.transaction_hash, paid.transfers[0].transaction_hash);
  assert.deepEqual(await received(id), Array(4).fill(paid.amount));
});

test('too little is received as it is, with nothing on hold; what was replaced is not received', async () => {
  const under = await create();
  await simulate(under, 'underpaid');
  const short = await reach(under, (d) => d.exception === 'underpaid' && d.confirmations > 0);
  assert.ok(Number(short.amount_received) > 0 && Number(short.amount_received) < Number(short.amount));
  assert.equal(short.amount_held, '0.00000000');
  assert.deepEqual(await received(under), Array(4).fill(short.amount_received));
  const gone = await create();
  await simulate(gone, 'replaced');
  const replaced = await reach(gone, (d) => d.exception === 'replaced');
  assert.deepEqual([replaced.amount_received, replaced.transaction_hash], ['0.00000000', null]);
  assert.deepEqual(await received(gone), Array(4).fill('0.00000000'));
});

test('the first event of a payment created in a coin names amount, currency and address as the 201 does', async () => {
  const hook = await startReceiver();
  try {
    const endpoint = await app.test.post('/v1/webhook_endpoints', { url: hook.url, events: ['payment.created'] });
    assert.equal(endpoint.status, 201, endpoint.text);
    const made = [
      await app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: 25.5, currency_fiat: 'USD' }),
      await app.test.post('/v1/transactions/create', { crypto: 'ETH', amount: 20, currency_fiat: 'EUR' }),
      await app.test.post('/payments', { amount: '0.01', currency: 'LTC' }),
      await app.test.post('/api/payment/create/simple', {
        ...{ amount_usd: 25, return_url: 'https://shop.example/', payment_address: 'test_doge_success' },
      }),
    ];
    for (const { status, json, text } of made) {
      assert.equal(status, 201, text);
      const [first, ...more] = await eventsOf(json.id);
      const now = await detail(json.id);
      assert.deepEqual([first.type, first.data.sequence, more], ['payment.created', 1, []]);
      assert.ok(first.data.amount !== null && first.data.currency !== null && first.data.payment_address !== null, text);
      for (const field of ['amount', 'currency', 'payment_address', 'network', 'quote_expires_at', 'created_at', 'expires_at'])
        assert.equal(first.data[field], now[field], field);
      for (const field of ['amount', 'currency', 'payment_address']) if (field in json) assert.equal(first.data[field], json[field], field);
      const { event } = await eventually(
        async () => hook.received.find((hit) => hit.event.data.id === json.id)!,
        (hit) => hit !== undefined,
      );
      assert.deepEqual(event, first);
    }
    await app.test.delete(`/v1/webhook_endpoints/${endpoint.json.id}`);
  } finally {
    await hook.stop();
  }
});

test('payment.reversed goes to endpoints that name it or *, and to no others', async () => {
  const wanted = [
    undefined,
    ['*'],
    ['payment.completed', 'payment.reversed'],
    ['payment.completed'],
    ['payment.created', 'payment.updated'],
  ];
  const hooks = await Promise.all(wanted.map(() => startReceiver()));
  const ids: string[] = [];
  try {
    for (const [i, events] of wanted.entries()) {
      const made = await app.test.post('/v1/webhook_endpoints', { url: hooks[i]!.url, ...(events && { events }) });
      assert.equal(made.status, 201, made.text);
      ids.push(made.json.id);
    }
    const id = await create();
    await simulate(id, 'reversed');
    await reach(id, (d) => d.exception === 'reorged');
    // All deliveries of a payment are queued with its events, so those of this one are complete once they were sent.
    await eventually(
      async () => (await app.test.get('/v1/webhook_deliveries?limit=100')).json.data.filter((one: any) => one.payment_id === id),
      (all) => all.length > 0 && all.every((one: any) => one.state === 'delivered'),
    );
    const heard = hooks.map((hook) => hook.received.some(({ event }) => event.type === 'payment.reversed'));
    assert.deepEqual(heard, [true, true, true, false, false]);
  } finally {
    for (const id of ids) await app.test.delete(`/v1/webhook_endpoints/${id}`);
    await Promise.all(hooks.map((hook) => hook.stop()));
  }
});

test('a test payment has as many confirmations as it needs, in every coin and for every amount', async () => {
  for (const [coin, amount] of [
    ['BTC', 25],
    ['BTC', 5_000],
    ['BTC', 50_000],
    ['LTC', 500],
    ['DOGE', 50],
    ['DASH', 25],
    ['DASH', 20_000],
    ['ETH', 25],
    ['ETH', 5_000],
    ['ETH', 50_000],
  ] as const) {
    const id = await create({ amount_usd: amount });
    await simulate(id, 'success', coin);
    const done = await reach(id, (d) => d.status === 'completed');
    assert.equal(done.confirmations, done.confirmations_required ?? done.confirmations, `${amount} USD in ${coin}`);
    assert.ok(done.confirmations >= 1 && done.confirmations <= 60, `${amount} USD in ${coin}: ${done.confirmations}`);
    const found = await app.test.get(`/api/crypto/transaction/${done.transaction_hash}?currency=${coin}`);
    assert.deepEqual([found.status, found.json.confirmations], [200, done.confirmations], found.text);
  }
  // Paid with much more, it needs what the larger amount needs.
  const over = await create({ amount_usd: 90 });
  await simulate(over, 'overpaid', 'LTC');
  const done = await reach(over, (d) => d.status === 'completed');
  assert.deepEqual([done.confirmations, done.confirmations_required], [12, 12]);
});

test('in test mode addresses are checked as in live mode, except test addresses of the coin', async () => {
  const balance = (address: string, currency = 'BTC') =>
    app.test.get(`/api/crypto/balance?currency=${currency}&address=${encodeURIComponent(address)}`);
  for (const [address, currency, message] of [
    ['hello', 'BTC', /it is not an address/],
    ['1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3', 'BTC', /its checksum is wrong/],
    ['0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeA', 'ETH', /0x followed by 40 hex digits/],
    ['0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 'BTC', /it is an Ethereum address/],
    ['test_ltc_success', 'BTC', /it is not an address/],
    ['test_btc_sucess', 'BTC', /it is not an address/],
  ] as const) {
    const reply = await balance(address, currency);
    assert.deepEqual([reply.status, reply.json.error?.code, reply.json.error?.param], [400, 'address_invalid', 'address'], reply.text);
    assert.match(reply.json.error.message, message);
  }
  for (const [address, currency] of [
    ['1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2', 'BTC'],
    ['0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 'ETH'],
    ['test_btc_success', 'BTC'],
    ['test_btc_payer', 'BTC'],
    ['test_eth_slow', 'ETH'],
  ] as const) {
    const reply = await balance(address, currency);
    assert.deepEqual([reply.status, reply.json.simulated], [200, true], reply.text);
  }
});
