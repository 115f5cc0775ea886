/** Charges as plugins for Coinbase Commerce create and read them, and the webhooks that they receive. Against the recording of WooCommerce. */
// Invariant: Everything that plugins do in the recordings works, with simulated payments and with real coins.
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { commerceHeaders } from '../../src/deliveries/dialect.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { COMMERCE_ROUTES } from '../../src/shops/commerce/serve-commerce.ts';
import { GREENFIELD_ROUTES } from '../../src/shops/greenfield/greenfield-routes.ts';
import { connectShop, PERMISSIONS } from '../../src/shops/shop-keys.ts';
import { sendCurrentState } from '../../src/shops/shop-worker.ts';
import { DASHBOARD_ROUTES, pathsOf } from '../../src/web/dashboard/serve.ts';
import { eventually, type TestApp } from '../kit/app.ts';
import { type ChargeShop, connectCharges, play, simulatedFlow, startShopApp } from '../kit/connected-shop.ts';
import { PROTOCOLS, replayFlow } from '../kit/replay-flow.ts';
import { checkReads, type FlowCall, readFlow, readShopFile, shopClient } from '../kit/shop-flows.ts';

let app: TestApp;
before(async () => {
  app = await startShopApp();
});
after(() => app?.stop());

const flow = readFlow('coinbase-commerce-woocommerce-1.4.1');
const recorded = flow.steps.find((step): step is FlowCall => step.kind === 'call')!;

const openShop = (t: TestContext) => connectCharges(t, app);
async function charge({ call }: ChargeShop): Promise<any> {
  const { status, json, text } = await call('POST', '/charges', recorded.request.body);
  assert.equal(status, recorded.reply.status, text);
  checkReads(recorded, json);
  return json.data;
}
const read = async ({ call }: ChargeShop, id: string): Promise<any> => (await call('GET', `/charges/${id}`)).json.data;
const eventsOf = ({ hook }: ChargeShop, id: string): any[] =>
  hook.hits.map(({ event }) => event.event).filter(({ data }) => data.id === id);
const typesOf = (shop: ChargeShop, id: string): string[] => eventsOf(shop, id).map(({ type }) => type);
const until = (shop: ChargeShop, id: string, type: string): Promise<string[]> =>
  eventually(
    async () => typesOf(shop, id),
    (types) => types.includes(type),
  );
const shown = (entry: any): string => (entry.context === undefined ? entry.status : `${entry.status}/${entry.context}`);

test('the signature is that of a second implementation', () => {
  for (const { secret, body, x_cc_webhook_signature } of readShopFile('signatures').cases)
    assert.equal(commerceHeaders({ secret, body: Buffer.from(body) })['X-CC-Webhook-Signature'], x_cc_webhook_signature);
});

test('a paid order: the recorded request and events, signed, with everything that the plugin reads', async (t) => {
  const shop = await openShop(t);
  const { made } = await replayFlow(simulatedFlow(PROTOCOLS.commerce, shop), flow);
  const { data } = recorded.reply.body;
  assert.deepEqual(Object.keys(made).sort(), Object.keys(data).sort());
  for (const field of ['name', 'description', 'pricing_type', 'pricing', 'metadata', 'payments', 'redirect_url', 'cancel_url'])
    assert.deepEqual(made[field], data[field], field);
  assert.equal((await fetch(made.hosted_url.replace(/^https?:\/\/[^/]+/, app.url))).status, 200, made.hosted_url);
  const paid = await read(shop, made.id);
  assert.deepEqual(paid.timeline, eventsOf(shop, made.id).at(-1).data.timeline);
  assert.deepEqual(
    paid.payments.map(({ status, value }: any) => [status, value.local]),
    [['CONFIRMED', { amount: '30.00', currency: 'EUR' }]],
    'plugins credit exactly the price',
  );
  assert.equal(typeof paid.addresses.bitcoin, 'string');
  assert.match(paid.payments[0].transaction_id, /^[0-9a-f]{64}$/);
  const owned = { merchantId: shop.merchantId, mode: 'test' as const, paymentId: made.id };
  assert.equal(await app.app.ctx.db.begin((tx) => sendCurrentState(app.app.ctx, tx, owned)), 1);
  await eventually(
    async () => typesOf(shop, made.id),
    (types) => types.filter((type) => type === 'charge:confirmed').length === 2,
  );
});

test('who does not pay leads back by the cancel URL: from the page, and once the charge has ended without money', async (t) => {
  const shop = await openShop(t);
  const { id } = await charge(shop);
  const { cancel_url: leave, redirect_url: back } = recorded.request.body;
  const linkOf = async (name: string): Promise<string | undefined> => {
    const page = await (await fetch(`${app.url}/pay?id=${id}`)).text();
    return new RegExp(`id="${name}"[^>]* href="([^"]*)"`).exec(page)?.[1]?.replaceAll('&amp;', '&');
  };
  assert.ok(leave && back && leave !== back);
  assert.deepEqual([await linkOf('leave'), await linkOf('return')], [leave, undefined]);
  await play(shop, id, 'expired');
  await until(shop, id, 'charge:failed');
  assert.deepEqual([await linkOf('leave'), await linkOf('return')], [undefined, leave]);
});

test('late money is unresolved until the merchant accepts it', async (t) => {
  const shop = await openShop(t);
  const { id } = await charge(shop);
  await play(shop, id, 'late');
  await until(shop, id, 'charge:delayed');
  assert.equal(shown((await read(shop, id)).timeline.at(-1)), 'UNRESOLVED/DELAYED');
  const accepted = await shop.api.post(`/v1/payments/${id}/resolve`, { action: 'accept' });
  assert.equal(accepted.status, 200, accepted.text);
  await until(shop, id, 'charge:resolved');
  assert.deepEqual(typesOf(shop, id), ['charge:created', 'charge:failed', 'charge:delayed', 'charge:pending', 'charge:resolved']);
  assert.deepEqual((await read(shop, id)).timeline.map(shown), [
    ...['NEW', 'EXPIRED', 'UNRESOLVED/DELAYED', 'PENDING', 'RESOLVED', 'COMPLETED'],
  ]);
});

test('an underpaid order and a canceled order fail', async (t) => {
  const shop = await openShop(t);
  const [short, canceled] = [await charge(shop), await charge(shop)];
  await play(shop, short.id, 'failed');
  await until(shop, short.id, 'charge:failed');
  const { timeline, payments } = await read(shop, short.id);
  assert.equal(shown(timeline.at(-1)), 'UNRESOLVED/UNDERPAID');
  assert.ok(Number(payments[0].value.local.amount) < 30, 'the credit is what arrived');
  assert.equal((await shop.api.post(`/v1/payments/${canceled.id}/cancel`)).status, 200);
  await until(shop, canceled.id, 'charge:failed');
  assert.deepEqual((await read(shop, canceled.id)).timeline.map(shown), ['NEW', 'CANCELED']);
});

test('a charge whose money the network reversed after it was confirmed fails, so that its order is not shipped', async (t) => {
  const shop = await openShop(t);
  const { id } = await charge(shop);
  await play(shop, id, 'reversed');
  await until(shop, id, 'charge:failed');
  assert.deepEqual(typesOf(shop, id), ['charge:created', 'charge:pending', 'charge:confirmed', 'charge:failed']);
  const { timeline, payments, confirmed_at } = await read(shop, id);
  assert.deepEqual(timeline.map(shown), ['NEW', 'PENDING', 'COMPLETED', 'UNRESOLVED/OTHER']);
  assert.deepEqual([payments, confirmed_at], [[], undefined], 'no credit is left');
});

test('a charge that is paid in a coin that nobody asked for fails with a trace on its order', async (t) => {
  const shop = await openShop(t);
  const { id } = await charge(shop);
  const paid = await shop.api.post(`/v1/test/payments/${id}/simulate`, { scenario: 'wrong_token', currency: 'ETH' });
  assert.equal(paid.status, 200, paid.text);
  assert.equal((await shop.api.post('/v1/test/clock/advance', { payment_id: id, seconds: 90_000 })).status, 200);
  await until(shop, id, 'charge:failed');
  assert.equal(shown((await read(shop, id)).timeline.at(-1)), 'UNRESOLVED/OTHER');
});

test('the key test, what is refused, and what is not supported', async (t) => {
  const shop = await openShop(t);
  assert.deepEqual((await shop.call('GET', '/checkouts?limit=0')).json.data, []);
  const refused = async (body: unknown, status = 400) => {
    const reply = await shop.call('POST', '/charges', body);
    assert.deepEqual([reply.status, Object.keys(reply.json.error)], [status, ['type', 'message']], reply.text);
  };
  const good = recorded.request.body;
  for (const change of [
    { pricing_type: 'no_price' },
    { local_price: { amount: '0', currency: 'EUR' } },
    { local_price: { amount: '5', currency: 'XXX' } },
    { local_price: 'EUR' },
    { metadata: [] },
    { metadata: { note: 'x'.repeat(17_000) } },
    { redirect_url: 'javascript:alert(1)' },
    { cancel_url: 'ftp://shop.example' },
  ])
    await refused({ ...good, ...change });
  for (const body of ['{', '[]', 'null', '"x"']) await refused(body);
  assert.equal((await shop.call('GET', '/charges/pay_000000000000000000000000')).json.error.type, 'not_found');
  assert.equal((await shop.call('GET', '/charges/%00')).status, 400);
  for (const [method, path] of [
    ...[
      ['POST', '/checkouts'],
      ['GET', '/charges'],
      ['GET', '/events'],
      ['POST', '/charges/pay_1/cancel'],
    ],
  ] as const) {
    const reply = await shop.call(method!, path!, method === 'POST' ? {} : undefined);
    assert.deepEqual([reply.status, reply.json.error.type], [501, 'not_supported'], path);
  }
});

test('the key of charges opens no route of the API, the dashboard or other shops, and no other key opens charges', async (t) => {
  const { key } = await openShop(t);
  const paths = [
    ...ROUTES.map(({ method, path }) => ({ method, path })),
    ...DASHBOARD_ROUTES.filter((route) => !route.open).flatMap((route) =>
      pathsOf(route).map(({ url }) => ({ method: route.method, path: url })),
    ),
  ];
  for (const { method, path } of paths) {
    const reply = await fetch(app.url + path.replace(/:[a-z_]+/gi, 'pay_000000000000000000000000'), {
      method,
      headers: { authorization: `Bearer ${key}`, 'x-cc-api-key': key, 'content-type': 'application/json', 'x-florin-dashboard': '1' },
      ...(method !== 'GET' && { body: '{}' }),
    });
    assert.equal(reply.status, 401, `${method} ${path}: ${reply.status}`);
  }
  for (const { method, path } of GREENFIELD_ROUTES) {
    const reply = await shopClient(`${app.url}/btcpay/api/v1`, key)(method, path, method === 'GET' ? undefined : {});
    assert.equal(reply.status, 401, `${method} ${path}`);
  }
  const { merchantId, keys } = await createMerchant(app.app.ctx, { name: 'Other', plan: 'enterprise' });
  const plugin = { merchantId, mode: 'test' as const, platform: 'other' as const, name: 'Shop', permissions: Object.values(PERMISSIONS) };
  const { apiKey } = await app.app.ctx.db.begin((tx) => connectShop(app.app.ctx, tx, plugin));
  for (const { method, path } of COMMERCE_ROUTES)
    for (const wrong of ['x', keys.testSecret, keys.testPublic, keys.liveSecret, apiKey, key.slice(0, -1)]) {
      const call = shopClient(`${app.url}/commerce`, null);
      const reply = await call(method, path, method === 'GET' ? undefined : recorded.request.body, { 'x-cc-api-key': wrong });
      assert.deepEqual([reply.status, reply.json.error.type], [401, 'authentication_error'], `${method} ${path}`);
    }
});
