/** POST /v1/payments: one call for a price in any currency and for a fixed amount of a coin. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
});
after(() => app?.stop());

const create = (body: object, headers: Record<string, string> = {}): Promise<Reply> => app.test.post('/v1/payments', body, headers);
const made = async (body: object): Promise<any> => {
  const { status, json, text } = await create(body);
  assert.equal(status, 201, text);
  return json;
};
const refusal = async (body: object) => {
  const { status, json } = await create(body);
  return [status, json.error?.code, json.error?.param];
};

test('an amount without a currency is refused: it could be dollars or coins', async () => {
  assert.deepEqual(await refusal({ amount: '5' }), [400, 'parameter_missing', 'currency']);
  assert.deepEqual(await refusal({ currency: 'USD' }), [400, 'parameter_missing', 'amount']);
  // A currency without a rate is not told to be a coin.
  assert.deepEqual(await refusal({ amount: '5', currency: 'LBP' }), [400, 'fiat_unsupported', 'currency']);
  assert.deepEqual(await refusal({ amount: '5', currency: 'SHIB' }), [400, 'currency_unknown', 'currency']);
  assert.equal((await app.test.get('/api/payments')).json.total_count, 0);
});

test('a price in a currency is what the customer pays the worth of, in the coin of choice', async () => {
  const { id, ...open } = await made({ amount: '25.50', currency: 'eur', invoice_id: 'A-1', metadata: { order: '7' } });
  assert.deepEqual(
    [open.amount_fiat, open.currency_fiat, open.currency, open.status, open.invoice_id, open.metadata.order],
    ['25.50', 'EUR', null, 'pending', 'A-1', '7'],
  );
  // The reply is the whole payment, as it is read later.
  assert.deepEqual((await app.test.get(`/api/payment/${id}`)).json, { id, ...open });
  const dollars = await made({ amount: 25, currency: 'USD' });
  assert.deepEqual([dollars.amount_usd, dollars.amount_fiat], ['25.00', undefined]);
});

test('crypto names the coin to pay in, and network its network', async () => {
  const { amount, currency, amount_usd } = await made({ amount: '25.50', currency: 'USD', crypto: 'btc' });
  assert.deepEqual([currency, amount_usd], ['BTC', '25.50']);
  assert.match(amount, /^0\.000\d{5}$/);
  assert.deepEqual(await refusal({ amount: 1, currency: 'USD', crypto: 'XYZ' }), [400, 'currency_unknown', 'crypto']);
  assert.deepEqual(await refusal({ amount: 1, currency: 'USD', network: 'base' }), [400, 'parameter_missing', 'crypto']);
  assert.deepEqual(await refusal({ amount: 1, currency: 'USD', crypto: 'BTC', network: 'base' }), [400, 'parameter_invalid', 'network']);
  assert.deepEqual(await refusal({ amount: 1, currency: 'USD', crypto: 'LTC', payment_address: 'test_btc_success' }), [
    ...[400, 'parameter_invalid', 'payment_address'],
  ]);
});

test('an amount in a coin stays fixed', async () => {
  const { amount, currency, payment_address } = await made({ amount: '0.0005', currency: 'btc' });
  assert.deepEqual([amount, currency, typeof payment_address], ['0.00050000', 'BTC', 'string']);
  assert.deepEqual(await refusal({ amount: '0.0005', currency: 'BTC', crypto: 'LTC' }), [400, 'parameter_invalid', 'crypto']);
  assert.deepEqual(await refusal({ amount: '0.00000001', currency: 'BTC' }), [400, 'amount_too_small', 'amount']);
  assert.deepEqual(await refusal({ amount: '5000', currency: 'BTC' }), [400, 'amount_too_large', 'amount']);
});

test('amounts and currencies are read as in other requests', async () => {
  for (const [body, code, param] of [
    [{ amount: '0', currency: 'USD' }, 'amount_invalid', 'amount'],
    [{ amount: '1.005', currency: 'USD' }, 'amount_precision', 'amount'],
    [{ amount: '1.5', currency: 'JPY' }, 'amount_precision', 'amount'],
    [{ amount: 'x', currency: 'EUR' }, 'parameter_invalid', 'amount'],
    [{ amount: '2000000', currency: 'USD' }, 'amount_too_large', 'amount'],
    [{ amount: '1', currency: 'XYZ' }, 'fiat_unsupported', 'currency'],
    [{ amount: '1', currency: 'USD', return_url: 'ftp://x' }, 'url_invalid', 'return_url'],
  ] as const)
    assert.deepEqual(await refusal(body), [400, code, param], JSON.stringify(body));
});

test('a repeat with the same key returns the same payment', async () => {
  const key = { 'idempotency-key': 'one call' };
  const [first, again] = [await create({ amount: '3', currency: 'USD' }, key), await create({ amount: '3', currency: 'USD' }, key)];
  assert.deepEqual([again.status, again.text, again.headers.get('idempotent-replayed')], [201, first.text, 'true']);
});

test('public keys cannot call it, and POST /payments is as it was', async () => {
  assert.deepEqual((await app.testPublic.post('/v1/payments', { amount: '3', currency: 'USD' })).json.error.code, 'secret_key_required');
  const { status, json } = await app.test.post('/payments', { amount: '0.001', description: 'Mug' });
  assert.deepEqual([status, json.amount, json.transaction_id], [201, '0.00100000', json.id]);
});

/** Opens the page of a payment like a browser, or as the given program does. */
const open = async (id: string, headers: Record<string, string> = {}) => {
  const reply = await fetch(`${app.url}/pay?id=${id}`, { headers: { 'user-agent': 'Mozilla/5.0', ...headers } });
  assert.equal(reply.status, 200);
  return reply.text();
};
const statusOf = (id: string) =>
  eventually(
    async () => (await app.test.get(`/api/payment/${id}`)).json.status,
    (status) => status === 'completed',
    3_000,
  ).catch(() => 'pending');

test('opening the page of a test payment in a named coin pays it only where that is asked for', async () => {
  const shown = await made({ amount: '25', currency: 'USD', crypto: 'BTC' });
  assert.equal(shown.payment_address, 'test_btc_success');
  assert.match(await open(shown.id), /Simulate payment/);
  const paid = await made({ amount: '25', currency: 'USD', crypto: 'BTC', simulate: true });
  await open(paid.id);
  assert.equal(await statusOf(paid.id), 'completed');
  const named = await made({ amount: '25', currency: 'USD', crypto: 'BTC', payment_address: 'test_btc_success' });
  await open(named.id);
  assert.equal(await statusOf(named.id), 'completed');
  assert.equal((await app.test.get(`/api/payment/${shown.id}`)).json.status, 'pending');
  // Whatever was planned, a scenario can be named.
  assert.equal((await app.test.post(`/v1/test/payments/${shown.id}/simulate`, { scenario: 'success' })).status, 200);
  assert.equal(await statusOf(shown.id), 'completed');
});

test('the named coin of the documented call pays when its page is opened, unless that is turned off; a link preview never pays', async () => {
  const transaction = async (more: object = {}) =>
    (await app.test.post('/v1/transactions/create', { crypto: 'USDT', network: 'ethereum', amount: 25, currency_fiat: 'USD', ...more }))
      .json.id;
  const [documented, off] = [await transaction(), await transaction({ simulate: false })];
  for (const headers of [
    { 'user-agent': 'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)' },
    { 'user-agent': 'WhatsApp/2.23.20.0' },
    { 'user-agent': 'facebookexternalhit/1.1' },
    { 'sec-purpose': 'prefetch;prerender' },
    { purpose: 'prefetch' },
  ])
    await open(documented, headers);
  await open(off);
  const plays = () => app.app.ctx.db.sql`select payment_id as id, scenario from simulations where payment_id in (${documented}, ${off})`;
  assert.deepEqual([...(await plays())], [{ id: off, scenario: 'waiting' }]);
  await open(documented);
  assert.equal(await statusOf(documented), 'completed');
});
