/** Payments priced in other currencies, over HTTP: amount, rate, source and time, on the reply, the payment, its events and its page. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createFiatRates } from '../../src/prices/fiat.ts';
import { type Client, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { serve } from '../kit/serve.ts';

let app: TestApp;
let offline: TestApp;
before(async () => {
  app = await startTestApp({ FIAT_RATES: 'static:EUR=0.92165,JPY=155,KWD=0.307,IDR=16000' });
  offline = await startTestApp();
});
after(async () => {
  await app?.stop();
  await offline?.stop();
});

const ask = (client: Client, amount: unknown, currency_fiat: string, more: object = {}) =>
  client.post('/v1/transactions/create', { crypto: 'LTC', amount, currency_fiat, ...more });
const ok = (reply: Reply) => {
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
};
const refused = (reply: Reply, status: number, code: string, param: string) => {
  assert.deepEqual([reply.status, reply.json.error.code, reply.json.error.param], [status, code, param], reply.text);
  return reply;
};
const pageOf = async (id: string) => (await app.anonymous.get(`/pay?id=${id}`)).text;

test('a price in euros is converted to dollars at the current rate, which is stored with the payment', async () => {
  const reply = ok(await ask(app.test, '20.00', 'EUR'));
  // 20.00 / 0.92165 = 21.70021…, rounded up to a cent, at 100.00 USD per LTC.
  const { amount_fiat, currency_fiat, fiat_rate, fiat_rate_source, amount_usd, amount } = reply;
  assert.deepEqual(
    { amount_fiat, currency_fiat, fiat_rate, fiat_rate_source, amount_usd, amount },
    {
      amount_fiat: '20.00',
      currency_fiat: 'EUR',
      fiat_rate: '0.92165000',
      fiat_rate_source: 'static',
      amount_usd: '21.71',
      amount: '0.21710000',
    },
  );
  assert.ok(Math.abs(Date.parse(reply.fiat_rate_at) - Date.parse(reply.created_at)) < 30_000);
  const detail = (await app.test.get(`/api/payment/${reply.id}`)).json;
  const { data: events } = (await app.test.get(`/v1/events?payment_id=${reply.id}&type=payment.created`)).json;
  const event = events[0].data;
  for (const shown of [detail, event])
    for (const field of ['amount_fiat', 'currency_fiat', 'fiat_rate', 'fiat_rate_source', 'fiat_rate_at', 'amount_usd'])
      assert.equal(shown[field], reply[field], field);
  const page = await pageOf(reply.id);
  assert.match(page, /<bdi translate="no">€20\.00<\/bdi><\/p>/);
  assert.match(page, /= \$21\.71 · 1 USD = 0\.92165 EUR<\/bdi> · static · <time datetime="20\d\d-\d\d-\d\dT/);
  assert.match(page, /<title>TEST .* – €20\.00<\/title>/);
});

test('simple and advanced payments accept other currencies too, and the customer chooses the coin', async () => {
  const RETURN = 'https://shop.example/thanks';
  const create = (kind: string, body: object, client = app.test) =>
    client.post(`/api/payment/create/${kind}`, { return_url: RETURN, ...body });
  for (const client of [app.test, app.testPublic]) {
    const simple = ok(await create('simple', { amount: '20.00', currency_fiat: 'EUR' }, client));
    assert.equal(simple.amount_usd, '21.71');
    const detail = (await app.test.get(`/api/payment/${simple.id}`)).json;
    assert.deepEqual(
      [detail.amount_fiat, detail.currency_fiat, detail.fiat_rate, detail.currency, detail.amount],
      ['20.00', 'EUR', '0.92165000', null, null],
    );
    assert.match(await pageOf(simple.id), /<bdi translate="no">€20\.00<\/bdi><\/p>/);
  }
  const plain = ok(await create('simple', { amount: 20.5, currency_fiat: 'USD' }));
  assert.deepEqual([plain.amount_usd, (await app.test.get(`/api/payment/${plain.id}`)).json.amount_fiat], ['20.50', undefined]);

  // 3 x 3.33 + 1 x 0.005 + 0.5 = 10.495 KWD, converted to dollars once: 34.1857… at 0.307.
  const items = [
    { product_id: 'mug', name: 'Mug', quantity: 3, unit_price: '3.33' },
    { product_id: 'bag', name: 'Bag', quantity: 1, unit_price: 0.005 },
  ];
  const advanced = ok(await create('advanced', { items, tax: '0.5', currency_fiat: 'KWD' }));
  assert.equal(advanced.amount_usd, '34.19');
  const detail = (await app.test.get(`/api/payment/${advanced.id}`)).json;
  assert.deepEqual(
    [detail.amount_fiat, detail.currency_fiat, detail.tax, detail.items.map((item: { unit_price: string }) => item.unit_price)],
    ['10.495', 'KWD', '0.500', ['3.330', '0.005']],
  );
  const page = await pageOf(advanced.id);
  for (const shown of [/KWD\s9\.990/, /KWD\s0\.005/, /KWD\s0\.500/, /KWD\s10\.495/]) assert.match(page, shown);

  const simple = (body: object) => create('simple', body);
  refused(await simple({}), 400, 'parameter_missing', 'amount_usd');
  refused(await simple({ amount: '5' }), 400, 'parameter_missing', 'currency_fiat');
  refused(await simple({ currency_fiat: 'EUR' }), 400, 'parameter_missing', 'amount');
  refused(await simple({ amount_usd: '5', amount: '5', currency_fiat: 'EUR' }), 400, 'parameter_invalid', 'amount_usd');
  refused(await simple({ amount_usd: '5', currency_fiat: 'EUR' }), 400, 'parameter_invalid', 'amount_usd');
  refused(await simple({ amount: '5', currency_fiat: 'XXX' }), 400, 'fiat_unsupported', 'currency_fiat');
  refused(await simple({ amount: '5.5', currency_fiat: 'JPY' }), 400, 'amount_precision', 'amount');
  refused(await create('advanced', { items, tax: 0, currency_fiat: 'EUR' }), 400, 'amount_precision', 'items[1].unit_price');
  const dear = [{ product_id: 'x', name: 'X', quantity: 1_000_000, unit_price: '1.00' }];
  refused(await create('advanced', { items: dear, tax: 0, currency_fiat: 'EUR' }), 400, 'amount_too_large', 'items');
  refused(await create('simple', { amount: '5', currency_fiat: 'EUR' }, offline.live), 503, 'price_unavailable', 'currency_fiat');
});

test('amounts have the decimals of their currency: none in yen, three in dinars', async () => {
  const yen = ok(await ask(app.test, 1500, 'JPY'));
  assert.deepEqual([yen.amount_fiat, yen.amount_usd, yen.fiat_rate], ['1500', '9.68', '155.00000000']);
  const dinars = ok(await ask(app.test, '1.5', 'KWD'));
  assert.deepEqual([dinars.amount_fiat, dinars.amount_usd], ['1.500', '4.89']);
  assert.equal(ok(await ask(app.test, 15.305, 'KWD')).amount_fiat, '15.305');
  refused(await ask(app.test, '1500.5', 'JPY'), 400, 'amount_precision', 'amount');
  refused(await ask(app.test, 1500.0001, 'JPY'), 400, 'amount_precision', 'amount');
  refused(await ask(app.test, '1.5005', 'KWD'), 400, 'amount_precision', 'amount');
  refused(await ask(app.test, 20.005, 'EUR'), 400, 'amount_precision', 'amount');
  for (const amount of [0, '0', '-1', -1]) refused(await ask(app.test, amount, 'JPY'), 400, 'amount_invalid', 'amount');
  for (const amount of ['1e3', '1,000', '٣', ' 1', '']) refused(await ask(app.test, amount, 'JPY'), 400, 'parameter_invalid', 'amount');
});

test('the largest amount is worth exactly a million dollars', async () => {
  assert.equal(ok(await ask(app.test, '155000000', 'JPY')).amount_usd, '1000000.00');
  const over = refused(await ask(app.test, '155000001', 'JPY'), 400, 'amount_too_large', 'amount');
  assert.equal(over.json.error.message, 'amount must be at most the worth of 1000000.00 USD.');
  assert.equal(ok(await ask(app.test, '16000000000.00', 'IDR')).amount_usd, '1000000.00');
  refused(await ask(app.test, '99999999999999999999999999', 'IDR'), 400, 'amount_too_large', 'amount');
});

test('a price in dollars has no rate', async () => {
  const reply = ok(await ask(app.test, 25, 'USD'));
  assert.deepEqual(
    [reply.amount_fiat, reply.currency_fiat, reply.amount_usd, reply.fiat_rate, reply.fiat_rate_source, reply.fiat_rate_at],
    ['25.00', 'USD', '25.00', null, null, null],
  );
  const detail = (await app.test.get(`/api/payment/${reply.id}`)).json;
  assert.equal('currency_fiat' in detail, false);
  assert.match(await pageOf(reply.id), /<bdi translate="no">\$25\.00<\/bdi><\/p>/);
});

test('an unknown currency is refused with a list of the known ones', async () => {
  for (const currency of ['XXX', 'BTC', 'RUB', 'EU', 'EU ']) {
    const { json } = refused(await ask(app.test, 20, currency), 400, 'fiat_unsupported', 'currency_fiat');
    assert.match(
      json.error.message,
      /^currency_fiat is not supported, because no two price sources agree on its rate. Use one of USD, EUR, GBP, CAD, AUD, CHF, JPY, /,
    );
  }
});

test('without a rate, live payments are refused and test payments use a sample rate that is labeled as such', async () => {
  const reply = refused(await ask(offline.live, 20, 'EUR'), 503, 'price_unavailable', 'currency_fiat');
  assert.ok(Number(reply.headers.get('retry-after')) > 0);
  assert.equal(reply.json.error.type, 'service_unavailable');
  assert.match(reply.json.error.message, /EUR/);
  const sample = ok(await ask(offline.test, 20, 'EUR'));
  assert.deepEqual([sample.fiat_rate, sample.fiat_rate_source, sample.amount_usd], ['0.92000000', 'sample', '21.74']);
  const page = (await offline.anonymous.get(`/pay?id=${sample.id}`)).text;
  assert.match(page, /1 USD = [\d.]+ \w+<\/bdi> · sample rate · /);
});

test('a repeated request with the same Idempotency-Key keeps the first rate', async () => {
  const key = { 'idempotency-key': 'euro-1' };
  const body = { crypto: 'LTC', amount: '20.00', currency_fiat: 'EUR' };
  const first = ok(await app.test.post('/v1/transactions/create', body, key));
  const { ctx } = app.app;
  const before = ctx.fiat;
  ctx.fiat = createFiatRates({ ...ctx, sources: 'static:EUR=0.5' });
  const again = ok(await app.test.post('/v1/transactions/create', body, key));
  const other = ok(await app.test.post('/v1/transactions/create', body));
  ctx.fiat = before;
  assert.deepEqual(again, first);
  assert.deepEqual([other.fiat_rate, other.amount_usd], ['0.50000000', '40.00']);
  assert.equal((await app.test.get(`/api/payment/${first.id}`)).json.fiat_rate, '0.92165000');
});

test('live payments are not priced with rates that are too old', async () => {
  const { url: host, stop } = await serve((request, reply) => {
    const answer = request.url!.startsWith('/v2/exchange-rates')
      ? '{"data":{"currency":"USD","rates":{"EUR":"0.92","SEK":"10.5"}}}'
      : '{"bitcoin":{"usd":97000,"eur":89434,"sek":1018500}}';
    reply.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  });
  const { ctx } = app.app;
  const before = ctx.fiat;
  let ms = 0;
  const clock = { now: () => ctx.clock.now(), monotonicMs: () => ms };
  ctx.fiat = createFiatRates({ ...ctx, clock, sources: 'coinbase,coingecko', hosts: { coinbase: host, coingecko: host } });
  try {
    await ctx.fiat.check();
    // A live payment fails only at its missing wallet; the sources are named on a test payment.
    refused(await ask(app.live, 20, 'EUR'), 400, 'coin_not_configured', 'crypto');
    const { fiat_rate, fiat_rate_source } = ok(await ask(app.test, 20, 'EUR'));
    assert.deepEqual([fiat_rate, fiat_rate_source], ['0.92100000', 'coinbase, coingecko']);
    ms = 900_001;
    const late = refused(await ask(app.live, 20, 'EUR'), 503, 'price_unavailable', 'currency_fiat');
    assert.match(late.json.error.message, /the last rates are too old/);
  } finally {
    ctx.fiat = before;
    await stop();
  }
});
