/** Unknown request parameters, over HTTP: misspellings are refused, the rest is ignored and reported. */
// Invariant: A misspelled parameter is refused with a suggestion; a documented one never is.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createClient } from '../../sdk/src/index.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp();
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const PAYMENT = { amount_usd: '25.00', return_url: 'https://shop.example/thanks' };
const SIMPLE = '/api/payment/create/simple';
const count = async (): Promise<number> => (await app.test.get('/api/payments?limit=1')).json.total_count;
const isRefused = (reply: Reply, param: string, message: RegExp): void => {
  assert.equal(reply.status, 400, reply.text);
  const { error } = reply.json;
  assert.deepEqual([error.type, error.code, error.param], ['invalid_request', 'parameter_unknown', param]);
  assert.match(error.message, message);
};

test('a misspelled parameter is refused with a suggestion, and creates nothing', async () => {
  const before = await count();
  isRefused(await app.test.post('/payments', { amount: '0.01', curency: 'LTC' }), 'curency', /Did you mean currency\?/);
  isRefused(await app.test.post('/v1/payments', { amount: '0.01', Currency: 'LTC' }), 'Currency', /Did you mean currency\?/);
  isRefused(await app.test.post('/payments?currency=LTC', { amount: '0.01' }), 'currency', /Send it in the body/);
  isRefused(await app.test.post(SIMPLE, { ...PAYMENT, metdata: { order: 'A-1001' } }), 'metdata', /Did you mean metadata\?/);
  isRefused(await app.testPublic.post(SIMPLE, { amountUsd: 25, return_url: PAYMENT.return_url }), 'amountUsd', /Did you mean amount_usd\?/);
  const rows = [{ product_id: 'mug', name: 'Mug', quantity: 1, unit_price: 5, quantty: 3 }];
  isRefused(
    await app.test.post('/api/payment/create/advanced', { return_url: PAYMENT.return_url, tax: 0, items: rows }),
    'items[0].quantty',
    /Did you mean quantity\?/,
  );
  assert.equal(await count(), before);
  const several = await app.test.post(SIMPLE, { ...PAYMENT, metdata: {}, expire_in: 600 });
  assert.deepEqual(
    several.json.error.errors.map((error: { param: string }) => error.param),
    ['metdata', 'expire_in'],
  );
});

test('a misspelled name hides no other fault of the request', async () => {
  const before = await count();
  const faults = async (reply: Promise<Reply>) => {
    const { status, json, text } = await reply;
    assert.equal(status, 400, text);
    return (json.error.errors ?? [json.error]).map(({ code, param }: any) => `${code} ${param}`);
  };
  assert.deepEqual(await faults(app.test.post('/v1/payments', { amout: '5', currency: 'XXX', expires_in: 1, locale: 7 })), [
    ...['parameter_unknown amout', 'parameter_missing amount', 'parameter_invalid expires_in', 'parameter_invalid locale'],
    'fiat_unsupported currency',
  ]);
  assert.deepEqual(await faults(app.test.post(SIMPLE, { ...PAYMENT, amount_usd: 0, metdata: {}, return_url: 'ftp://shop.example' })), [
    ...['parameter_unknown metdata', 'amount_invalid amount_usd', 'url_invalid return_url'],
  ]);
  const { id } = (await app.test.post(SIMPLE, PAYMENT)).json;
  assert.deepEqual(await faults(app.test.post(`/v1/payments/${id}/resolve`, { acton: 'accept', transfers: [] })), [
    ...['parameter_unknown acton', 'parameter_missing action', 'parameter_invalid transfers'],
  ]);
  assert.deepEqual(await faults(app.test.get('/v1/payments?stauts=completed&limit=0')), [
    ...['parameter_unknown stauts', 'parameter_invalid limit'],
  ]);
  // What does not exist is no fault of the request.
  assert.deepEqual(await faults(app.test.get('/v1/payments/pay_x?color=red')), ['parameter_unknown color']);
  assert.equal((await app.test.get(`/v1/payments/${id}`)).json.status, 'pending');
  assert.equal(await count(), before + 1);
});

test('a request that needs no field may name the type of its body and send none', async () => {
  const { id } = (await app.test.post(SIMPLE, PAYMENT)).json;
  const reply = await app.test.post(`/v1/payments/${id}/cancel`, '', { 'content-type': 'application/json' });
  assert.deepEqual([reply.status, reply.json.status], [200, 'cancelled'], reply.text);
  const { json } = await app.test.post('/v1/payments', '');
  assert.deepEqual(
    json.error.errors.map(({ code, param }: any) => `${code} ${param}`),
    ['parameter_missing amount', 'parameter_missing currency'],
  );
});

test('a misspelled or unknown filter is refused and returns nothing', async () => {
  isRefused(await app.test.get('/api/payments?stauts=completed'), 'stauts', /Did you mean status\?/);
  isRefused(await app.test.get('/api/payments?description=nope'), 'description', /cannot be filtered/);
  isRefused(await app.test.get('/v1/events?paymentId=pay_1'), 'paymentId', /Did you mean payment_id\?/);
  isRefused(await app.test.get('/v1/webhook_deliveries?payment_id=pay_1'), 'payment_id', /cannot be filtered/);
  isRefused(await app.test.get('/api/crypto/prices?currency=BTC'), 'currency', /does not take it/);
});

test('other parameters are ignored and named in the reply, in the log, and once by the SDK', async (t) => {
  const reply = await app.test.post(`${SIMPLE}?utm=mail`, { ...PAYMENT, color: 'red', größe: 'M', metadata: { curency: 'mine' } });
  assert.equal(reply.status, 201, reply.text);
  assert.equal(reply.headers.get('x-ignored-parameters'), 'utm, color, gr%C3%B6%C3%9Fe');
  assert.deepEqual((await app.test.get(`/api/payment/${reply.json.id}`)).json.metadata, { curency: 'mine' });
  assert.equal((await app.test.post(SIMPLE, PAYMENT)).headers.get('x-ignored-parameters'), null);
  const [logged] = await eventually(
    async () => (await app.test.get(`/v1/requests?request_id=${reply.headers.get('x-request-id')}`)).json.data,
    (rows) => rows.length === 1,
  );
  assert.deepEqual(logged.ignored_parameters, ['utm', 'color', 'größe']);
  assert.deepEqual((await owner.get(`/test/requests/${logged.id}`)).json.request.ignored_parameters, ['utm', 'color', 'größe']);

  const warned = t.mock.method(console, 'warn', () => {});
  const client = createClient({ url: app.url, key: app.merchant.keys.testSecret });
  for (let i = 0; i < 2; i++) await client.payments.createSimple({ ...PAYMENT, größe: 'M', color: 'red' } as typeof PAYMENT);
  assert.deepEqual(
    warned.mock.calls.map(({ arguments: [line] }) => line),
    ['größe', 'color'].map((name) => `florin: POST /api/payment/create/simple has no parameter ${name}; it was ignored.`),
  );
  const heard: unknown[] = [];
  const listening = createClient({
    url: app.url,
    key: app.merchant.keys.testSecret,
    onIgnoredParameters: (names, { path }) => heard.push([names, path]),
  });
  await listening.payments.createSimple({ ...PAYMENT, color: 'red' } as typeof PAYMENT);
  assert.deepEqual(heard, [[['color'], '/api/payment/create/simple']]);
  assert.equal(warned.mock.callCount(), 2);
});

test('strict_parameters refuses all of them in both modes, appears in the audit log, and leaves repeated requests their replies', async () => {
  const key = { 'idempotency-key': 'order-1' };
  const first = await app.test.post(SIMPLE, { ...PAYMENT, color: 'red' }, key);
  assert.equal(first.status, 201);
  assert.equal((await owner.post('/test/settings/business', { strict_parameters: true })).status, 200);
  for (const client of [app.test, app.live]) {
    isRefused(await client.post('/payments', { amount: '0.01', color: 'red' }), 'color', /Your settings refuse/);
    isRefused(await client.get('/api/payments?page=2'), 'page', /as starting_after/);
    isRefused(await client.get('/api/payments?color=red'), 'color', /Your settings refuse/);
  }
  assert.equal((await app.test.post(SIMPLE, PAYMENT)).status, 201);
  const repeat = await app.test.post(SIMPLE, { ...PAYMENT, color: 'red' }, key);
  assert.deepEqual([repeat.status, repeat.text, repeat.headers.get('idempotent-replayed')], [201, first.text, 'true']);
  isRefused(await app.test.post(SIMPLE, { ...PAYMENT, color: 'blue' }, key), 'color', /Your settings refuse/);
  const [line] = (await owner.get('/test/audit')).json.data;
  assert.deepEqual([line.action, line.before, line.after], ['settings.changed', { strictParameters: false }, { strictParameters: true }]);
  assert.equal((await owner.get('/live/settings/business')).json.strict_parameters, true);
  await owner.post('/test/settings/business', { strict_parameters: false });
});
