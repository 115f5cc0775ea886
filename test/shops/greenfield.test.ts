/** The protocol of BTCPay's plugins: fields, marks, errors, and that a key opens nothing else. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { GREENFIELD_ROUTES } from '../../src/shops/greenfield/greenfield-routes.ts';
import { connectShop, disconnectShop, PERMISSIONS, type Platform } from '../../src/shops/shop-keys.ts';
import { listShopRefunds, markShopRefundSent } from '../../src/shops/shop-refunds.ts';
import { eventually, type TestApp } from '../kit/app.ts';
import { connectPlugin, type PluginShop, play, startShopApp } from '../kit/connected-shop.ts';
import { ok, readShopFile, shopClient } from '../kit/shop-flows.ts';

let app: TestApp;
before(async () => {
  app = await startShopApp();
});
after(() => app?.stop());

const openShop = (platform: Platform = 'woocommerce', mode: 'test' | 'live' = 'test') => connectPlugin(app, { platform, mode });
const order = (more: object = {}) => ({ amount: '30.00', currency: 'EUR', metadata: { orderId: '12' }, checkout: {}, ...more });

test('a key shows exactly the permissions that its plugin expects, each with the store', async () => {
  const { plugins } = readShopFile('permissions');
  for (const [platform, name] of [
    ['woocommerce', 'woocommerce'],
    ['magento', 'magento2'],
    ['prestashop', 'prestashop'],
  ] as const) {
    const shop = await openShop(platform);
    const { permissions } = ok(await shop.call('GET', '/api/v1/api-keys/current'));
    const expected = [...plugins[name].exact, ...plugins[name].may_also].map((permission) => `${permission}:${shop.store}`);
    assert.deepEqual([...permissions].sort(), expected.sort());
  }
});

test('metadata is any JSON of up to 16 kB, and comes back as it was', async () => {
  const { call } = await openShop();
  const metadata = '{"z":1.10,"a":[true,null,{"deep":"ü\\u2028"}],"big":12345678901234567890,"text":"{\\"json\\":1}","2":"b","1":"a"}';
  const made = await call('POST', '/api/v1/invoices', `{"amount":"1","currency":"USD","metadata":${metadata}}`);
  const { id } = ok(made);
  const read = await call('GET', `/api/v1/invoices/${id}`);
  for (const { text } of [made, read]) {
    for (const part of ['"z":1.10', '"big":12345678901234567890', '"text":"{\\"json\\":1}"']) assert.ok(text.includes(part), text);
    assert.deepEqual(JSON.parse(text).metadata, JSON.parse(metadata));
  }
  const large = (length: number) => order({ metadata: { orderId: '1', filler: 'x'.repeat(length) } });
  ok(await call('POST', '/api/v1/invoices', large(16_000)));
  const refused = await call('POST', '/api/v1/invoices', large(16_384));
  assert.deepEqual([refused.status, refused.json[0].path], [422, 'Metadata']);
});

test('amounts are rounded half up to the currency, and shown as text', async () => {
  const { call } = await openShop();
  const amountOf = async (amount: unknown, currency: string) =>
    ok(await call('POST', '/api/v1/invoices', order({ amount, currency }))).amount;
  assert.equal(await amountOf('30', 'EUR'), '30.00');
  assert.equal(await amountOf('30.00000000', 'EUR'), '30.00');
  assert.equal(await amountOf('19.995', 'USD'), '20.00');
  assert.equal(await amountOf('19.99499999', 'USD'), '19.99');
  assert.equal(await amountOf(4.99, 'USD'), '4.99');
  assert.equal(await amountOf('1500.5', 'JPY'), '1501');
  // Shops show these without decimals, their currency has two.
  for (const currency of ['HUF', 'TWD']) assert.equal(await amountOf('1299.5', currency), '1299.50');
  assert.equal(await amountOf('0.0005', 'BTC'), '0.00050000');
});

test('faults are named, all at once', async () => {
  const { call } = await openShop();
  const paths = async (body: object): Promise<string[]> => {
    const { status, json } = await call('POST', '/api/v1/invoices', body);
    assert.equal(status, 422);
    for (const { message } of json) assert.ok(message.length > 5);
    return json.map(({ path }: { path: string }) => path);
  };
  assert.deepEqual(await paths(order({ amount: null })), ['Amount']);
  assert.deepEqual(await paths(order({ amount: '0' })), ['Amount']);
  assert.deepEqual(await paths(order({ currency: 'XXX' })), ['Currency']);
  assert.deepEqual(await paths(order({ metadata: [] })), ['Metadata']);
  assert.deepEqual(await paths(order({ checkout: { paymentMethods: ['XMR-CHAIN'] } })), ['checkout.paymentMethods']);
  assert.deepEqual(await paths(order({ checkout: { redirectURL: 'javascript:alert(1)' } })), ['checkout.redirectURL']);
  for (const paymentTolerance of [7, 1.01, -1, '0.001', 'none', {}])
    assert.deepEqual(await paths(order({ checkout: { paymentTolerance } })), ['checkout.paymentTolerance']);
  assert.deepEqual(await paths({ amount: 'x', currency: 'XXX' }), ['Currency', 'Amount']);
  const wrong = await call('POST', '/api/v1/invoices', '{"amount":');
  assert.deepEqual([wrong.status, wrong.json.code], [400, 'invalid-json']);
});

test('only the named methods can be chosen, in any spelling', async () => {
  const { call } = await openShop();
  for (const asked of [
    ['BTC', 'LTC'],
    ['BTC-CHAIN', 'LTC-CHAIN'],
    ['BTC_CHAIN', 'LTC_CHAIN'],
    ['btc-OnChain', 'LTC'],
  ]) {
    const made = ok(await call('POST', '/api/v1/invoices', order({ checkout: { paymentMethods: asked } })));
    assert.deepEqual(made.checkout.paymentMethods, ['BTC-CHAIN', 'LTC-CHAIN']);
    const page = await (await fetch(`${app.url}/pay?id=${made.id}`)).text();
    assert.ok(page.includes('value="LTC"') && !page.includes('value="DOGE"'), 'the page offers these coins only');
  }
});

test('orders are found by their number, repeated ones too', async () => {
  const { call, store } = await openShop('magento');
  const ids: string[] = [];
  for (const orderId of ['000000042', '000000043', '000000044'])
    ids.push(ok(await call('POST', `/api/v1/stores/${store}/invoices`, order({ metadata: { orderId } }))).id);
  const found = async (query: string) =>
    ok(await call('GET', `/api/v1/stores/${store}/invoices?${query}`)).map(({ id }: { id: string }) => id);
  assert.deepEqual(await found('orderId=000000043'), [ids[1]]);
  assert.deepEqual(await found('orderId=000000042&orderId=000000044'), [ids[2], ids[0]]);
  assert.deepEqual(await found('take=2'), [ids[2], ids[1]]);
  assert.deepEqual(await found('skip=2'), [ids[0]]);
  assert.deepEqual(await found('orderId=nobody'), []);
});

test('webhooks are created, listed, changed and deleted, apart from those of the API', async () => {
  const { call, store, api } = await openShop();
  const url = 'http://127.0.0.1:9/index.php?route=extension/btcpay/payment/btcpay|callback';
  const path = `/api/v1/stores/${store}/webhooks`;
  const made = ok(await call('POST', path, { url, authorizedEvents: { everything: true }, secret: 'a secret of the shop' }));
  assert.deepEqual([made.url, made.secret, made.enabled, made.automaticRedelivery], [url, 'a secret of the shop', true, true]);
  assert.deepEqual(made.authorizedEvents, { everything: true, specificEvents: [] });
  const { secret, ...shown } = made;
  assert.deepEqual(ok(await call('GET', path)), [shown]);
  assert.deepEqual(ok(await call('GET', `/api/v1/webhooks/${made.id}`)), shown);
  const events = { everything: false, specificEvents: ['InvoiceSettled', 'InvoiceUnheardOf'] };
  const changed = ok(await call('PUT', `${path}/${made.id}`, { url, enabled: false, authorizedEvents: events }));
  assert.deepEqual(changed, { ...shown, enabled: false, authorizedEvents: events });
  assert.deepEqual((await api.get('/v1/webhook_endpoints')).json.data, [], 'they are not endpoints of the API');
  assert.equal((await api.delete(`/v1/webhook_endpoints/${made.id}`)).status, 404);
  ok(await call('DELETE', `${path}/${made.id}`));
  const gone = await call('GET', `${path}/${made.id}`);
  assert.deepEqual([gone.status, gone.json.code], [404, 'webhook-not-found']);
  const wrong = await call('POST', path, { url: 'https://10.0.0.1/hook', authorizedEvents: { everything: true } });
  assert.deepEqual([wrong.status, wrong.json[0].path], [422, 'Url']);
});

test('what Florin does not have answers 501 with a sentence, never 404', async () => {
  const { call, store } = await openShop();
  for (const [method, path] of [
    ['GET', `/api/v1/stores/${store}/lightning/BTC/info`],
    ['POST', `/api/v1/stores/${store}/payouts`],
    ['GET', `/api/v1/stores/${store}/pull-payments`],
    ['POST', `/api/v1/stores/${store}/invoices/pay_1/refund`],
    ['GET', `/api/v1/stores/${store}/payment-requests`],
    ['GET', `/api/v1/users/me`],
    ['GET', `/api/v1/stores/${store}/apps`],
    ['GET', `/api/v1/stores/${store}/rates`],
    ['GET', '/api/v1/nothing'],
  ] as const) {
    const reply = await call(method, path, method === 'POST' ? {} : undefined);
    assert.deepEqual([path, reply.status, reply.json.code], [path, 501, 'not-supported']);
    assert.match(reply.json.message, /^[A-Z].{20,}\.$/);
  }
});

async function paidOrder(shop: PluginShop, orderId: string, key: string | null = null): Promise<string> {
  const checkout = key === null ? {} : { redirectURL: `https://a.example/?key=${key}` };
  const { id } = ok(await shop.call('POST', `/api/v1/stores/${shop.store}/invoices`, order({ metadata: { orderId }, checkout })));
  await play(shop, id, 'success');
  await eventually(
    () => shop.call('GET', `/api/v1/invoices/${id}`),
    ({ json }) => json.status === 'Settled',
  );
  return id;
}
const pull = (shop: PluginShop, name: string, amount = '10.00', currency = 'EUR') =>
  shop.call('POST', `/api/v1/stores/${shop.store}/pull-payments`, { name, amount, currency, paymentMethods: ['BTC_CHAIN'] });

test('a refund of an order that was paid is a refund of its payment: one limit for the shop and the API', async () => {
  const shop = await openShop();
  const id = await paidOrder(shop, '4711');
  await paidOrder(shop, '4713');
  const { api } = shop;
  const refund = ok(await pull(shop, 'Refund of order 4711; instead of 4713'));
  const { json } = await api.get(`/v1/refunds/${refund.id}`);
  assert.deepEqual(
    [json.payment_id, json.status, json.reason, json.claim_url],
    [id, 'requested', 'Refund of order 4711; instead of 4713', refund.viewLink],
  );
  const page = await (await fetch(app.url + new URL(refund.viewLink).pathname)).text();
  assert.ok(page.includes('Refund from Lab') && page.includes('data-state="claim"'), page);
  assert.equal((await fetch(`${app.url}/btcpay/pull-payments/${refund.id}`)).status, 404, 'the ID alone opens no page');
  assert.equal((await listShopRefunds(app.app.ctx, { merchantId: shop.merchantId, mode: 'test' })).length, 0);

  const coins = await pull(shop, 'Refund of order 4711', '0.00000001', 'BTC');
  assert.deepEqual([coins.status, coins.json[0].path], [422, 'Amount'], 'dust');
  const other = await pull(shop, 'Refund of order 4711', '0.01', 'LTC');
  assert.deepEqual([other.status, other.json[0].path], [422, 'Currency']);

  const asked = await Promise.all(
    Array.from({ length: 8 }, async (_, i) =>
      i % 2 === 0
        ? (await pull(shop, 'Refund of order 4711', '7.00')).status
        : (await api.post('/v1/refunds', { payment_id: id, amount: '7.00', currency_fiat: 'EUR' })).status,
    ),
  );
  assert.equal(asked.filter((status) => status === 200 || status === 201).length, 2, String(asked));
  const refused = await pull(shop, 'Refund of order 4711', '7.00');
  assert.deepEqual([refused.status, refused.json[0].path], [422, 'Amount']);
  assert.match(refused.json[0].message, /^At most /);
  const units = (text: string) => BigInt(text.replace('.', ''));
  const { data } = (await api.get(`/v1/refunds?payment_id=${id}&limit=100`)).json;
  const sum = data.reduce((total: bigint, one: any) => total + units(one.amount), 0n);
  const { amount_received } = (await api.get(`/api/payment/${id}`)).json;
  assert.ok(data.length === 3 && sum <= units(amount_received), `${sum}`);
});

test('a refund that could be of several payments, or of one without money, is refused', async () => {
  const shop = await openShop();
  ok(await shop.call('POST', `/api/v1/stores/${shop.store}/invoices`, order({ metadata: { orderId: '70' } })));
  const unpaid = await pull(shop, 'Refund of order 70');
  assert.deepEqual([unpaid.status, unpaid.json[0].path], [422, 'Amount']);
  const id = await paidOrder(shop, '70');
  const refund = ok(await pull(shop, 'Refund of order 70'));
  assert.equal((await shop.api.get(`/v1/refunds/${refund.id}`)).json.payment_id, id, 'the one that received money');
  await paidOrder(shop, '70');
  const several = await pull(shop, 'Refund of order 70');
  assert.deepEqual([several.status, several.json[0].path], [422, 'Name']);
  assert.equal((await listShopRefunds(app.app.ctx, { merchantId: shop.merchantId, mode: 'test' })).length, 0);
});

test('a refund stays inside its shop, and is never of a payment of an earlier order with the same number', async () => {
  const one = await openShop();
  const two = await connectPlugin(app, { owner: one });
  await paidOrder(one, '12');
  const refunds = async () => (await one.api.get('/v1/refunds')).json.data;
  // The other shop has an order of that number too, which was paid in another way.
  assert.match(ok(await pull(two, 'Refund of order 12')).viewLink, /pull-payments/);
  assert.deepEqual(await refunds(), []);
  // The database of the shop was put back: a new customer has the number again.
  const ordered = async (key: string, orderId = '12') =>
    ok(
      await one.call(
        'POST',
        '/api/v1/invoices',
        order({ metadata: { orderId }, checkout: { redirectURL: `https://a.example/?key=${key}` } }),
      ),
    ).id;
  const old = await paidOrder(one, '2026/0474', 'wc_order_old');
  await ordered('wc_order_new', '2026/0474');
  const fresh = await pull(one, 'Refund of order 2026/0474; broken');
  assert.deepEqual([fresh.status, fresh.json[0].path], [422, 'Amount'], 'nothing was paid for the new order');
  assert.equal((await pull(one, 'Refund of order 2026/0474')).status, 422);
  // Several payments of one order: the one that received money.
  const again = await paidOrder(one, '2026/0475', 'wc_order_same');
  await ordered('wc_order_same', '2026/0475');
  assert.equal((await one.api.get(`/v1/refunds/${ok(await pull(one, 'Refund of order 2026/0475.')).id}`)).json.payment_id, again);
  // Where nothing tells the orders apart, nobody guesses.
  await paidOrder(one, '77');
  ok(await one.call('POST', '/api/v1/invoices', order({ metadata: { orderId: '77' } })));
  assert.equal((await pull(one, 'Refund of order 77')).json[0].path, 'Name');
  // Part of a number, or a number in the reason, names no order.
  for (const name of ['Refund of order 12/0474', 'Refund of order 9999; instead of 12'])
    assert.match(ok(await pull(one, name)).viewLink, /pull-payments/, name);
  assert.deepEqual(
    (await refunds()).map(({ payment_id }: any) => payment_id),
    [again],
  );
  assert.ok(old);
});

test('a refund that fits no payment: the customer enters an address once, and the merchant marks it as sent', async () => {
  const shop = await openShop();
  const ask = {
    name: 'Refund of order 4711; broken',
    amount: '10.00',
    currency: 'EUR',
    paymentMethods: ['BTC_CHAIN', 'LTC_CHAIN'],
    autoApproveClaims: false,
  };
  await paidOrder(await openShop(), '4711');
  const refund = ok(await shop.call('POST', `/api/v1/stores/${shop.store}/pull-payments`, ask));
  assert.equal(refund.viewLink, `http://localhost:3000/btcpay/pull-payments/${refund.id}`);
  const days = (refund.expiresAt - refund.startsAt) / 86_400;
  assert.ok(days > 29.9 && days < 30.1, String(days));
  const late = ok(await pull(shop, 'Refund of order 4712'));
  await app.app.ctx.db.sql`update shop_refunds set claim_until = clock_timestamp() where id = ${late.id}`;
  const lateAt = `${app.url}/btcpay/pull-payments/${late.id}`;
  await changeSettings(app.app.ctx, { merchantId: shop.merchantId, settings: { website: 'https://lab.example' } });
  const contact = 'href="https://lab.example" rel="noopener" target="_blank">Contact Lab';
  const over = await (await fetch(lateAt)).text();
  assert.ok(over.includes('Link expired') && over.includes(contact), over);
  const form = new URLSearchParams({ coin: 'BTC', address: 'test_btc_late' });
  assert.equal((await fetch(lateAt, { method: 'POST', redirect: 'manual', body: form })).status, 409);
  await app.app.ctx.db.sql`delete from shop_refunds where id = ${late.id}`;
  const path = `${app.url}/btcpay/pull-payments/${refund.id}`;
  const page = await (await fetch(path)).text();
  assert.ok(page.includes('Refund of 10.00 EUR from Lab') && page.includes('name="address"') && page.includes('id="unmatched"'), page);
  const german = await (await fetch(path, { headers: { 'accept-language': 'de-CH,en;q=0.5' } })).text();
  assert.ok(german.includes('<html lang="de"') && german.includes('Erstattung von 10.00 EUR von Lab'), german);
  const arabic = await (await fetch(`${path}?lang=ar`)).text();
  assert.ok(arabic.includes('dir="rtl"') && arabic.includes('name="lang" value="ar"') && !arabic.includes('Enter the address'), arabic);
  const claim = (address: string, coin = 'BTC') =>
    fetch(path, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ coin, address }) });
  assert.equal((await claim('test_doge_payer', 'DOGE')).status, 400, 'the shop named other methods');
  const wrong = await claim('nonsense', 'LTC');
  const again = await wrong.text();
  assert.deepEqual([wrong.status, again.includes('role="alert"'), again.match(/value="(\w+)" selected/)?.[1]], [400, true, 'LTC']);
  assert.equal((await claim('test_btc_payer')).status, 303);
  assert.equal((await claim('test_btc_payer')).status, 303, 'the same one again');
  const second = await claim('test_btc_other');
  const said = await second.text();
  assert.equal(second.status, 409);
  assert.ok(said.includes('Another address was entered before yours') && said.includes(contact) && said.includes('test_btc_payer'), said);
  assert.ok((await (await fetch(path)).text()).includes('test_btc_payer'), 'the first address stays');
  const { ctx } = app.app;
  const [listed] = await listShopRefunds(ctx, { merchantId: shop.merchantId, mode: 'test' });
  assert.equal(listed!.address, 'test_btc_payer');
  const sent = { merchantId: shop.merchantId, mode: 'test' as const, refundId: refund.id, txid: null };
  const mark = (more: object = {}) => ctx.db.begin((tx) => markShopRefundSent(tx, { ...sent, ...more }));
  await assert.rejects(mark({ mode: 'live' }), { code: 'refund_not_found' });
  await mark();
  await assert.rejects(mark(), { code: 'refund_state', message: /is already marked as sent/ });
  assert.ok((await (await fetch(path)).text()).includes('Refund sent'));
  assert.equal((await fetch(`${app.url}/btcpay/pull-payments/ref_nobody`)).status, 404);
});

test('a refund is made by one of the named methods, or refused', async () => {
  const shop = await openShop();
  await paidOrder(shop, '90');
  const by = (methods: object) =>
    shop.call('POST', `/api/v1/stores/${shop.store}/pull-payments`, {
      name: 'Refund of order 90',
      amount: '5.00',
      currency: 'EUR',
      ...methods,
    });
  for (const methods of [{ paymentMethods: ['XMR'] }, { payoutMethods: ['LTC_CHAIN'], paymentMethods: ['BTC_CHAIN'] }]) {
    const refused = await by(methods);
    assert.deepEqual([refused.status, refused.json[0].path], [422, 'PayoutMethods'], refused.text);
  }
  ok(await by({ payoutMethods: ['LTC_CHAIN', 'BTC_CHAIN'] }));
  ok(await by({}));
});

test('an invoice gets another order number, and is archived', async () => {
  const { call, store, api } = await openShop();
  const path = `/api/v1/stores/${store}/invoices`;
  const { id } = ok(await call('POST', path, order({ metadata: { orderId: 'a b&c' } })));
  const changed = ok(await call('PUT', `${path}/${id}`, { metadata: { orderId: '2026/1', note: 1.5 } }));
  assert.deepEqual(changed.metadata, { orderId: '2026/1', note: 1.5 });
  const found = async (query: string) => ok(await call('GET', `${path}?${query}`)).map((one: any) => one.id);
  assert.deepEqual([await found('orderId=a b%26c'), await found('orderId=2026/1')], [[], [id]]);
  assert.equal((await api.get(`/api/payment/${id}`)).json.invoice_id, '2026/1');
  assert.equal((await call('PUT', `${path}/${id}`, {})).json[0].path, 'Metadata');
  ok(await call('DELETE', `${path}/${id}`));
  const archived = ok(await call('GET', `${path}/${id}`));
  assert.deepEqual([archived.status, archived.archived], ['Invalid', true], 'it cannot be paid any more');
  assert.deepEqual([await found('orderId=2026/1'), await found('orderId=2026/1&includeArchived=true')], [[], [id]]);
});

test('errors have the recorded form', async () => {
  const { cases } = readShopFile('errors');
  const body = (when: string) => cases.find((one: { when: string }) => one.when === when).body;
  const shop = await openShop('opencart');
  for (const key of [null, 'x', `${shop.key.slice(0, -1)}_`, shop.testSecret]) {
    const reply = await shopClient(`${app.url}/btcpay`, key)('GET', '/api/v1/stores');
    assert.deepEqual([reply.status, reply.json], [401, body('no or wrong key')]);
  }
  const unknown = await shop.call('GET', `/api/v1/stores/${shop.store}/invoices/nobody`);
  assert.deepEqual([unknown.status, unknown.json], [404, body('invoice unknown')]);
  const foreign = await shop.call('GET', `/api/v1/stores/${(await openShop()).store}/invoices`);
  assert.deepEqual(
    [foreign.status, foreign.json.code, foreign.json.missingPermission],
    [403, 'missing-permission', 'btcpay.store.canviewinvoices'],
  );
});

test('a disconnected shop is refused', async () => {
  const shop = await openShop();
  ok(await shop.call('GET', '/api/v1/stores'));
  await app.app.ctx.db.begin((tx) => disconnectShop(tx, { merchantId: shop.merchantId, mode: 'test', shopId: shop.shopId }));
  await eventually(
    () => shop.call('GET', '/api/v1/stores'),
    ({ status }) => status === 401,
  );
});

test('a repeated request with an Idempotency-Key creates one invoice', async () => {
  const { call } = await openShop();
  const key = { 'idempotency-key': 'order 12' };
  const first = ok(await call('POST', '/api/v1/invoices', order(), key));
  assert.equal(ok(await call('POST', '/api/v1/invoices', order(), key)).id, first.id);
  assert.notEqual(ok(await call('POST', '/api/v1/invoices', order())).id, first.id);
});

test('the buyer that an invoice names is a customer; what cannot be one keeps nobody from paying', async () => {
  const { call, api } = await openShop();
  const invoice = async (buyer: object) => {
    const metadata = { orderId: '12', ...buyer };
    const made = ok(await call('POST', '/api/v1/invoices', order({ metadata })));
    assert.deepEqual(made.metadata, metadata);
    return (await api.get(`/v1/payments/${made.id}`)).json.customer;
  };
  const ada = await invoice({ buyerEmail: 'ada@example.test', buyerName: 'Ada Byron' });
  assert.deepEqual([ada.email, ada.name, ada.reference], ['ada@example.test', 'Ada Byron', null]);
  assert.equal((await invoice({ buyerEmail: 'ADA@example.test' })).id, ada.id);
  const without = [{}, { buyerName: 'Ada' }, { buyerEmail: '', buyerName: 'Ada' }, { buyerEmail: 'nobody' }, { buyerEmail: 7 }];
  for (const buyer of without) assert.equal(await invoice(buyer), null, JSON.stringify(buyer));
  assert.equal((await invoice({ buyerEmail: 'eve@example.test', buyerName: '\u202e' })).name, null);
});

test('text that would be cut in the middle of a character is stored without half of it', async () => {
  const { call } = await openShop();
  const smile = '\u{1f600}';
  const metadata = { orderId: `${'7'.repeat(199)}${smile}`, itemDesc: `${'x'.repeat(999)}${smile}` };
  const checkout = { defaultLanguage: `${'e'.repeat(34)}${smile}`, redirectURL: 'https://shop.example/?order={OrderId}' };
  const made = ok(await call('POST', '/api/v1/invoices', order({ metadata, checkout })));
  assert.deepEqual(made.metadata, metadata);
  assert.equal(made.checkout.defaultLanguage, 'e'.repeat(34));
  assert.deepEqual(
    ok(await call('GET', `/api/v1/invoices?orderId=${'7'.repeat(199)}`)).map(({ id }: { id: string }) => id),
    [made.id],
  );
});

test('text that the database cannot store is refused, with the name of the field', async () => {
  const { call } = await openShop();
  for (const bad of ['\\u0000', '\\ud83d', '\\ude00', 'a\\ud83dz']) {
    for (const metadata of [`{"itemDesc":"${bad}"}`, `{"other":{"deep":["${bad}"]}}`, `{"${bad}":1}`]) {
      const { status, json } = await call('POST', '/api/v1/invoices', `{"amount":"1","currency":"USD","metadata":${metadata}}`);
      assert.equal(status, 422, metadata);
      assert.match(json[0].path, /^metadata/, metadata);
      assert.match(json[0].message, /cannot be stored/, metadata);
    }
  }
  for (const path of ['/invoices/%00', '/invoices/a%00b/payment-methods', '/webhooks/%00'])
    assert.equal((await call('GET', `/api/v1${path}`)).status, 422, path);
});

/** Values that plugins never send, as JSON text. */
const ODD = [
  ...['null', 'true', '-1', '0', '1e400', '1e-400', '123456789012345678901234567890.5', '""', '"a"', '"\\u0000"', '"\\ud83d"', '[]', '{}'],
  ...['[{}]', '[null,1,"BTC",[]]', '{"a":{}}', '"EUR"', '"BTC"', '"9999999999999999999"', '"https://shop.example/{OrderId}"', '"Settled"'],
  ...[34, 39, 199, 999].map((length) => JSON.stringify(`${'x'.repeat(length)}\u{1f600}y`)),
];
const CHECKOUT = [
  'redirectURL',
  'redirectAutomatically',
  'defaultLanguage',
  'paymentMethods',
  'expirationMinutes',
  'paymentTolerance',
  'speedPolicy',
];
const objectOf = (names: readonly string[], value: fc.Arbitrary<string>) =>
  fc
    .dictionary(fc.constantFrom(...names), value, { maxKeys: names.length })
    .map((fields) => `{${Object.entries(fields).map(([name, text]) => `${JSON.stringify(name)}:${text}`)}}`);

test('nothing that a caller sends to any route causes a 500', async () => {
  const shop = await openShop();
  const { ctx } = app.app;
  const all = { merchantId: shop.merchantId, mode: 'test' as const, platform: 'other' as const, name: `${'x'.repeat(99)}\u{1f600}` };
  const { apiKey } = await ctx.db.begin((tx) => connectShop(ctx, tx, { ...all, permissions: Object.values(PERMISSIONS) }));
  const call = shopClient(`${app.url}/btcpay/api/v1`, apiKey);
  const { id: invoice } = ok(await call('POST', '/invoices', order()));
  const { id: webhook } = ok(await call('POST', '/webhooks', { url: 'http://127.0.0.1:9/hook' }));
  const odd = fc.constantFrom(...ODD);
  const metadata = objectOf(['orderId', 'itemDesc', 'a.b', 'a', '\ud83d'], odd);
  const checkout = objectOf(CHECKOUT, odd);
  const plain = { amount: '"30.00"', currency: '"EUR"', url: '"http://127.0.0.1:9/other"', status: '"Invalid"' };
  const names = ['amount', 'currency', 'metadata', 'checkout', 'url', 'secret', 'enabled', 'authorizedEvents', 'name', 'status'];
  const body = fc
    .tuple(fc.dictionary(fc.constantFrom(...names), odd, { maxKeys: 3 }), fc.option(metadata), fc.option(checkout), odd, fc.boolean())
    .map(([fields, meta, out, bare, isObject]) => {
      const sent = { ...plain, ...(meta && { metadata: meta }), ...(out && { checkout: out }), ...fields };
      return isObject || bare === 'null' ? `{${Object.entries(sent).map(([name, text]) => `"${name}":${text}`)}}` : bare;
    });
  const part = fc.constantFrom('%00', 'a%00b', '%F0%9F%98%80', 'x'.repeat(90), '__proto__', '..%2f', "'", '%ED%A0%BD');
  const query = fc.constantFrom(
    '',
    '?orderId=%00',
    '?orderId=%ED%A0%BD&skip=-1&take=1e9',
    '?status=%00&take=0&skip=999999999',
    '?orderId[]=a&%00=1',
  );
  const request = fc.record({ route: fc.constantFrom(...GREENFIELD_ROUTES), known: fc.boolean(), part, query, body });
  const seen = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(request, async ({ route, known, part: given, query: search, body: text }) => {
      const { method, path } = route;
      const fill = (name: string, real: string) => (at: string) => at.replace(`:${name}`, known ? real : given);
      const filled = fill('webhook', webhook)(fill('invoice', invoice)(path.replace(':store', shop.store)));
      const sends = method === 'POST' || method === 'PUT';
      const { status, text: said } = await call(method, filled + search, sends ? text : undefined);
      seen.set(status, (seen.get(status) ?? 0) + 1);
      assert.ok(status < 500, `${method} ${filled}${search} ${text}: ${status} ${said}`);
    }),
    { numRuns: 400, seed: 20_261_123 },
  );
  // It reached the handlers, and their refusals.
  for (const status of [200, 404, 422]) assert.ok((seen.get(status) ?? 0) > 20, `${status}: ${JSON.stringify([...seen])}`);
});
