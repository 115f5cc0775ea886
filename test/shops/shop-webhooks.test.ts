/** What shops receive about their invoices: signed, in order, and never an older one after a newer one was taken. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { greenfieldHeaders } from '../../src/deliveries/dialect.ts';
import { connectShop, disconnectShop, PLATFORM_PERMISSIONS, rollShopKey } from '../../src/shops/shop-keys.ts';
import { sendCurrentState } from '../../src/shops/shop-worker.ts';
import { eventually, type TestApp } from '../kit/app.ts';
import { addWebhook, connectPlugin, type PluginShop, play, startShopApp } from '../kit/connected-shop.ts';
import { readShopFile, shopClient, startHook } from '../kit/shop-flows.ts';

let app: TestApp;
before(async () => {
  app = await startShopApp();
});
after(() => app?.stop());

type Shop = PluginShop & Awaited<ReturnType<typeof addWebhook>>;
/** Of a new merchant, or of that of another shop. */
async function openShop(t: TestContext, owner?: Shop): Promise<Shop> {
  const shop = await connectPlugin(app, owner && { owner });
  return { ...shop, ...(await addWebhook(t, shop)) };
}
const METADATA = { orderId: '12', posData: '{"WooCommerce":{"Order ID":12}}', taxIncluded: 0.5 };
async function order({ call, store }: Shop): Promise<string> {
  const body = { amount: '30.00', currency: 'EUR', metadata: METADATA, checkout: {} };
  const { status, json, text } = await call('POST', `/api/v1/stores/${store}/invoices`, body);
  assert.equal(status, 200, text);
  return json.id;
}
const typesOf = ({ hook }: Shop, id: string): string[] =>
  hook.hits.filter(({ event }) => event.invoiceId === id).map(({ event }) => event.type);
const until = (shop: Shop, id: string, type: string): Promise<string[]> =>
  eventually(
    async () => typesOf(shop, id),
    (types) => types.includes(type),
  );

test('the signature is that of a second implementation', () => {
  for (const { secret, body, btcpay_sig } of readShopFile('signatures').cases)
    assert.equal(greenfieldHeaders({ secret, body: Buffer.from(body) })['BTCPay-Sig'], btcpay_sig);
});

test('an invoice that expires, is paid late and is accepted: partly paid until then, and never paid late', async (t) => {
  const shop = await openShop(t);
  const id = await order(shop);
  await play(shop, id, 'late');
  await until(shop, id, 'InvoiceReceivedPayment');
  const read = async () => (await shop.call('GET', `/api/v1/invoices/${id}`)).json;
  const held = await read();
  assert.deepEqual(
    [held.status, held.additionalStatus, held.availableStatusesForManualMarking],
    ['Expired', 'PaidPartial', ['Settled', 'Invalid']],
  );
  const marked = await shop.call('POST', `/api/v1/stores/${shop.store}/invoices/${id}/status`, { status: 'Settled' });
  assert.equal(marked.status, 200, marked.text);
  await until(shop, id, 'InvoiceSettled');
  assert.deepEqual(typesOf(shop, id), [
    'InvoiceCreated',
    'InvoiceExpired',
    'InvoiceReceivedPayment',
    'InvoiceProcessing',
    'InvoiceSettled',
  ]);
  const late = shop.hook.hits.find(({ event }) => event.type === 'InvoiceReceivedPayment')!.event;
  assert.equal(late.afterExpiration, true);
  assert.deepEqual([(await read()).status, (await read()).additionalStatus], ['Settled', 'Marked']);
  assert.ok(!shop.hook.hits.some(({ text }) => text.includes('PaidLate')));
});

test('an order is canceled by its shop, and nothing is settled without money', async (t) => {
  const shop = await openShop(t);
  const id = await order(shop);
  const mark = (status: string) => shop.call('POST', `/api/v1/invoices/${id}/status`, { status });
  const refused = await mark('Settled');
  assert.deepEqual([refused.status, refused.json[0].path], [422, 'Status']);
  assert.equal((await mark('PaidLate')).status, 422);
  const { json } = await mark('Invalid');
  assert.deepEqual([json.status, json.additionalStatus], ['Invalid', 'Marked']);
  await until(shop, id, 'InvoiceInvalid');
  assert.deepEqual(typesOf(shop, id), ['InvoiceCreated', 'InvoiceInvalid']);
  assert.equal(shop.hook.hits.at(-1)!.event.manuallyMarked, true);
  assert.equal((await mark('Invalid')).status, 422, 'it is marked already');
});

test('an order that holds money is not canceled by its shop', async (t) => {
  const shop = await openShop(t);
  const id = await order(shop);
  await play(shop, id, 'underpaid');
  await until(shop, id, 'InvoiceReceivedPayment');
  const read = async () => (await shop.call('GET', `/api/v1/invoices/${id}`)).json;
  assert.deepEqual([(await read()).status, (await read()).availableStatusesForManualMarking], ['New', []]);
  const refused = await shop.call('POST', `/api/v1/invoices/${id}/status`, { status: 'Invalid' });
  assert.deepEqual([refused.status, refused.json[0].path], [422, 'Status']);
  assert.match(refused.json[0].message, /Money arrived/);
  assert.equal((await read()).status, 'New');
});

// Invariant: A shop never gets an older event after a newer one was taken, however often deliveries fail.
test('a later event waits for some attempts of the one before it, and then says what the shop refused', async (t) => {
  const shop = await openShop(t);
  const tried: string[] = [];
  shop.hook.answer(({ event }) => {
    tried.push(event.type);
    return event.type === 'InvoiceReceivedPayment' ? 500 : 200;
  });
  const id = await order(shop);
  await until(shop, id, 'InvoiceCreated');
  await play(shop, id, 'success');
  await eventually(
    async () => tried.length,
    (count) => count >= 2,
  );
  // Retries follow one another after minutes and hours: the test clock moves them.
  const { sql } = app.app.ctx.db;
  await eventually(
    async () => {
      await sql`update endpoints set rests_until = null where id = ${shop.webhook}`;
      await sql`update deliveries set due_at = clock_timestamp() where endpoint_id = ${shop.webhook} and state = 'pending' and not waits`;
      await sql`select pg_notify('deliveries', '')`;
      await sleep(20);
      return typesOf(shop, id);
    },
    (types) => types.includes('InvoiceSettled'),
  );
  assert.deepEqual(typesOf(shop, id), ['InvoiceCreated', 'InvoiceProcessing', 'InvoicePaymentSettled', 'InvoiceSettled']);
  const refused = tried.filter((type) => type === 'InvoiceReceivedPayment').length;
  assert.ok(refused >= 7, String(refused));
  await eventually(
    async () => sql`select 1 from deliveries where endpoint_id = ${shop.webhook} and state = 'pending'`,
    (left) => left.length === 0,
  );
  assert.equal(tried.at(-1), 'InvoiceSettled', 'nothing older is sent afterwards');
});

test('an older event is not sent again once a later one was taken', async (t) => {
  const shop = await openShop(t);
  const id = await order(shop);
  await play(shop, id, 'success');
  await until(shop, id, 'InvoiceSettled');
  // A resend does nothing while an attempt is in progress, and the shop has this one before Florin has its answer.
  const { data } = await eventually(
    async () => (await shop.api.get(`/v1/webhook_deliveries?limit=100&endpoint_id=${shop.webhook}`)).json,
    (page) => page.data.every((one: any) => one.state === 'delivered'),
  );
  const of = (type: string) => data.find((one: any) => one.event_type === type).id;
  const older = await shop.api.post(`/v1/webhook_deliveries/${of('InvoiceProcessing')}/resend`);
  assert.deepEqual([older.status, older.json.error.code], [409, 'delivery_overtaken']);
  const newest = await shop.api.post(`/v1/webhook_deliveries/${of('InvoiceSettled')}/resend`);
  assert.equal(newest.status, 200, newest.text);
  await eventually(
    async () => typesOf(shop, id).filter((type) => type === 'InvoiceSettled').length,
    (count) => count === 2,
  );
  assert.deepEqual(typesOf(shop, id).slice(-2), ['InvoiceSettled', 'InvoiceSettled']);
  const { ctx } = app.app;
  const owned = { merchantId: shop.merchantId, mode: 'test' as const, paymentId: id };
  assert.equal(await ctx.db.begin((tx) => sendCurrentState(ctx, tx, owned)), 1);
  assert.equal(await ctx.db.begin((tx) => sendCurrentState(ctx, tx, { ...owned, mode: 'live' })), 0, 'it is not a payment of this mode');
  await eventually(
    async () => typesOf(shop, id).filter((type) => type === 'InvoiceSettled').length,
    (count) => count === 3,
  );
});

test('an older delivery that became due after a later one was taken is ended, not sent', async (t) => {
  const shop = await openShop(t);
  const id = await order(shop);
  await play(shop, id, 'success');
  await until(shop, id, 'InvoiceSettled');
  const { sql } = app.app.ctx.db;
  const [row] = await sql<{ id: bigint }[]>`
    update deliveries set state = 'pending', due_at = clock_timestamp() where id = (
      select d.id from deliveries d join events v on v.id = d.event_id where d.payment_id = ${id} and d.ordered and v.type = 'InvoiceProcessing')
    returning id`;
  await sql`select pg_notify('deliveries', '')`;
  await eventually(
    async () => (await sql<{ state: string }[]>`select state from deliveries where id = ${row!.id.toString()}`)[0]!.state,
    (state) => state === 'failed',
  );
  assert.equal(typesOf(shop, id).filter((type) => type === 'InvoiceProcessing').length, 1);
});

test('events of shops are no events of the API, and other endpoints do not receive them', async (t) => {
  const shop = await openShop(t);
  const own = await startHook(t, 'btcpay-sig');
  await shop.api.post('/v1/webhook_endpoints', { url: own.url });
  const id = await order(shop);
  await play(shop, id, 'success');
  await until(shop, id, 'InvoiceSettled');
  await eventually(
    async () => own.hits.map(({ event }) => event.type),
    (types) => types.includes('payment.completed'),
  );
  assert.deepEqual(
    own.hits.map(({ event }) => event.type).filter((type) => !type.startsWith('payment.')),
    [],
  );
  const { data } = (await shop.api.get('/v1/events?limit=100')).json;
  assert.deepEqual(
    data.map(({ type }: any) => type).filter((type: string) => !type.startsWith('payment.')),
    [],
  );
});

test('a shop sees and changes only its own webhooks, not those of another shop of the store', async (t) => {
  const one = await openShop(t);
  const two = await openShop(t, one);
  const path = ({ store, webhook }: Shop) => `/api/v1/stores/${store}/webhooks/${webhook}`;
  assert.equal(one.store, two.store);
  const was = (await one.call('GET', path(one))).json;
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const body = method === 'PUT' ? { url: two.hook.url, secret: 'stolen by another', enabled: true } : undefined;
    const { status, json } = await two.call(method, path(one), body);
    assert.deepEqual([method, status, json.code], [method, 404, 'webhook-not-found']);
  }
  assert.deepEqual((await one.call('GET', path(one))).json, was);
  for (const shop of [one, two]) {
    const listed = (await shop.call('GET', `/api/v1/stores/${shop.store}/webhooks`)).json;
    assert.deepEqual(
      listed.map(({ id }: { id: string }) => id),
      [shop.webhook],
    );
  }
  const id = await order(two);
  const other = await order(one);
  await play(two, id, 'success');
  await until(two, id, 'InvoiceSettled');
  await until(one, other, 'InvoiceCreated');
  for (const { signature, text } of two.hook.hits)
    assert.equal(signature, `sha256=${createHmac('sha256', two.secret).update(text).digest('hex')}`);
  const heard = (shop: Shop) => [...new Set(shop.hook.hits.map(({ event }) => event.invoiceId))];
  assert.deepEqual([heard(one), heard(two)], [[other], [id]], 'each shop receives the events of its own invoices');
  for (const { text } of one.hook.hits) assert.ok(!text.includes(id));
  // Reading, listing and marking stay inside the shop too.
  const path2 = `/api/v1/stores/${one.store}/invoices`;
  assert.equal((await one.call('GET', `${path2}/${id}`)).status, 404);
  assert.equal((await one.call('GET', `${path2}/${id}/payment-methods`)).status, 404);
  assert.equal((await two.call('POST', `${path2}/${other}/status`, { status: 'Invalid' })).status, 404);
  const listed = (await one.call('GET', `${path2}?orderId=12`)).json.map((invoice: any) => invoice.id);
  assert.deepEqual(listed, [other]);
});

test('replacing the key of a shop loses no event: its webhook and secret stay, and the old key works until it ends', async (t) => {
  const { ctx } = app.app;
  const shop = await openShop(t);
  const of = { merchantId: shop.merchantId, mode: 'test' as const, shopId: shop.shopId, createdBy: 'Olga', actorId: null };
  const open = await order(shop);
  await until(shop, open, 'InvoiceCreated');
  const stores = async (key: string) => (await shopClient(`${app.url}/btcpay`, key)('GET', '/api/v1/stores')).status;
  const first = await ctx.db.begin((tx) => rollShopKey(ctx, tx, { ...of, ends: 'hour' }));
  assert.equal(await stores(first.apiKey), 200);
  assert.equal((await shop.call('GET', '/api/v1/stores')).status, 200, 'the old key still works');
  // Again: only the last key and the one before it.
  const second = await ctx.db.begin((tx) => rollShopKey(ctx, tx, { ...of, ends: 'hour' }));
  await eventually(
    () => shop.call('GET', '/api/v1/stores'),
    ({ status }) => status === 401,
  );
  assert.deepEqual([await stores(first.apiKey), await stores(second.apiKey)], [200, 200]);
  await ctx.db.sql`update shop_keys set previous_until = clock_timestamp() where id = ${shop.shopId}`;
  await eventually(
    () => stores(first.apiKey),
    (status) => status === 401,
  );
  const third = await ctx.db.begin((tx) => rollShopKey(ctx, tx, { ...of, ends: 'now' }));
  await eventually(
    () => stores(second.apiKey),
    (status) => status === 401,
  );
  assert.equal(await stores(third.apiKey), 200);
  await play(shop, open, 'success');
  await until(shop, open, 'InvoiceSettled');
  for (const { signature, text } of shop.hook.hits)
    assert.equal(signature, `sha256=${createHmac('sha256', shop.secret).update(text).digest('hex')}`);
  await assert.rejects(
    ctx.db.begin((tx) => rollShopKey(ctx, tx, { ...of, mode: 'live' as never, ends: 'now' })),
    { code: 'key_not_found' },
  );
});

test('a shop that is disconnected receives nothing more, and its key can no longer enable or add a webhook', async (t) => {
  const { ctx } = app.app;
  const one = await openShop(t);
  const two = await openShop(t, one);
  // An event is due while the shop is disconnected.
  let refused = 0;
  one.hook.answer(() => {
    refused++;
    return 503;
  });
  const first = await order(one);
  await eventually(
    async () => refused,
    (count) => count > 0,
  );
  const gone = { merchantId: one.merchantId, mode: 'test' as const, shopId: one.shopId };
  await ctx.db.begin((tx) => disconnectShop(tx, gone));
  one.hook.answer(() => 200);
  // The key is cached for up to a second: it is refused here or there.
  const webhook = { url: one.hook.url, authorizedEvents: { everything: true }, enabled: true };
  for (const [method, path] of [
    ['POST', `/api/v1/stores/${one.store}/webhooks`],
    ['PUT', `/api/v1/stores/${one.store}/webhooks/${one.webhook}`],
  ] as const)
    assert.equal((await one.call(method, path, webhook)).status, 401);
  await play(two, first, 'success');
  const second = await order(two);
  await play(two, second, 'success');
  await until(two, second, 'InvoiceSettled');
  assert.deepEqual(one.hook.hits, []);
  const rows = await ctx.db.sql`
    select id, state from endpoints where merchant_id = ${one.merchantId} and dialect = 'greenfield' order by created_at`;
  assert.deepEqual(
    rows.map(({ id, state }) => [id, state]),
    [
      [one.webhook, 'disabled'],
      [two.webhook, 'enabled'],
    ],
  );
  // Connected again under its name, the shop has its invoices, and learns how those are now that it missed.
  const again = await openShop(t, one);
  await until(again, first, 'InvoiceSettled');
  assert.deepEqual(typesOf(again, first), ['InvoiceSettled']);
  assert.equal((await again.call('GET', `/api/v1/invoices/${first}`)).json.status, 'Settled');
  assert.deepEqual(typesOf(again, second), []);
  assert.equal((await two.call('GET', `/api/v1/invoices/${first}`)).status, 404);
});

test('a new key keeps the invoices and the webhook of its shop, with all that is due', async (t) => {
  const { ctx } = app.app;
  const one = await openShop(t);
  const taken = await order(one);
  await play(one, taken, 'success');
  await until(one, taken, 'InvoiceSettled');
  const other = await openShop(t, one);
  one.hook.answer(() => 503);
  const waiting = await order(one);
  // Once it is stored, so that the failure does not postpone what is due below.
  await eventually(
    () => ctx.db.sql`select 1 from deliveries where payment_id = ${waiting} and endpoint_id = ${one.webhook} and attempts > 0`,
    (rows) => rows.length === 1,
  );
  const renewed = { merchantId: one.merchantId, mode: 'test' as const, platform: 'woocommerce' as const, name: 'Another name' };
  const made = await ctx.db.begin((tx) =>
    connectShop(ctx, tx, { ...renewed, permissions: PLATFORM_PERMISSIONS.woocommerce, replaces: one.shopId }),
  );
  const call = shopClient(`${app.url}/btcpay`, made.apiKey);
  // The plugin that has a new key makes its webhook again, with a new secret.
  const path = `/api/v1/stores/${one.store}/webhooks`;
  const secret = 'a new secret of the plugin';
  const webhook = await call('POST', path, { url: one.hook.url, authorizedEvents: { everything: true }, enabled: true, secret });
  assert.deepEqual([webhook.status, webhook.json.id, webhook.json.secret], [200, one.webhook, secret], webhook.text);
  assert.equal((await call('GET', path)).json.length, 1);
  await ctx.db.begin((tx) => disconnectShop(tx, { merchantId: one.merchantId, mode: 'test', shopId: one.shopId }));
  one.hook.answer(() => 200);
  await ctx.db.sql`update deliveries set due_at = clock_timestamp() where endpoint_id = ${one.webhook} and state = 'pending'`;
  await ctx.db.sql`update endpoints set rests_until = null where id = ${one.webhook}`;
  await ctx.db.sql`select pg_notify('deliveries', '')`;
  await play(one, waiting, 'success');
  await until(one, waiting, 'InvoiceSettled');
  const { signature, text } = one.hook.hits.at(-1)!;
  assert.equal(signature, `sha256=${createHmac('sha256', secret).update(text).digest('hex')}`);
  assert.deepEqual(typesOf(one, taken).filter((type) => type === 'InvoiceSettled').length, 1, 'what it took is not sent again');
  for (const id of [taken, waiting]) assert.equal((await call('GET', `/api/v1/invoices/${id}`)).json.status, 'Settled');
  assert.deepEqual(other.hook.hits, []);
  assert.equal((await other.call('GET', `/api/v1/invoices/${taken}`)).status, 404);
});

test('the webhooks of a shop are few, and take no place of the endpoints of the merchant', async (t) => {
  const shop = await openShop(t);
  const path = `/api/v1/stores/${shop.store}/webhooks`;
  const add = async (n: number) => (await shop.call('POST', path, { url: `http://127.0.0.1:9/hook/${n}` })).status;
  assert.deepEqual([await add(1), await add(2), await add(3), await add(4)], [200, 200, 200, 409]);
  assert.equal(await add(3), 200, 'the same one again');
  for (let n = 0; n < 16; n++)
    assert.equal((await shop.api.post('/v1/webhook_endpoints', { url: `http://127.0.0.1:9/api/${n}` })).status, 201);
  assert.equal((await shop.api.post('/v1/webhook_endpoints', { url: 'http://127.0.0.1:9/api/16' })).status, 409);
  const another = await connectPlugin(app, { owner: shop });
  assert.equal((await another.call('POST', path, { url: 'http://127.0.0.1:9/hook/1' })).status, 200);
});
