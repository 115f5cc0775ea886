/** A real Medusa store with the packed provider and a real Florin server: from the cart to the captured order, canceled orders, and a refund. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { REFUND_COMMANDS } from '../../src/cli/signing-commands.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { HOOKS, installMedusa, type MedusaStore, startMedusa } from '../kit/medusa-store.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const run = promisify(execFile);
const MINUTES = 60_000;
/** Of a customer who gets a refund. */
const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';

let app: TestApp;
let store: MedusaStore;
before(async () => {
  app = await startTestApp();
  store = await startMedusa(app);
});
after(async () => {
  await store?.stop();
  await app?.stop();
});
const ask: MedusaStore['ask'] = (path, body) => store.ask(path, body);

/** A cart with one mug, and its payment session. */
async function begin(quantity = 1): Promise<{ cart: string; collection: string; data: any }> {
  const { cart } = await ask('/store/carts', {
    region_id: store.region,
    email: 'customer@shop.example',
    items: [{ variant_id: store.variant, quantity }],
  });
  assert.equal(cart.total, 25.5 * quantity);
  const created = await ask('/store/payment-collections', { cart_id: cart.id });
  return { cart: cart.id, collection: created.payment_collection.id, data: await startSession(created.payment_collection.id) };
}
async function startSession(collection: string): Promise<any> {
  const reply = await ask(`/store/payment-collections/${collection}/payment-sessions`, { provider_id: 'pp_florin_florin' });
  assert.equal(reply.status, 200, JSON.stringify(reply));
  return reply.payment_collection.payment_sessions[0].data;
}
const complete = (cart: string) => ask(`/store/carts/${cart}/complete`, {});
const simulate = async (payment: string, scenario: string) => {
  const reply = await app.test.post(`/v1/test/payments/${payment}/simulate`, { scenario });
  assert.equal(reply.status, 200, reply.text);
};
/** The only order of a cart, once there is one in this state. */
async function orderOf(payment: string, wanted: (order: any) => boolean): Promise<any> {
  const fields = 'id,total,payment_status,payment_collections.*,payment_collections.payment_sessions.*,payment_collections.payments.*';
  return eventually(
    async () => {
      const { orders } = await ask(`/admin/orders?fields=${fields}`);
      return orders.find((order: any) =>
        // An order is visible a moment before its payment.
        order.payment_collections?.[0]?.payment_sessions?.some((session: any) => session.data.payment_id === payment),
      );
    },
    (order) => order !== undefined && wanted(order),
    MINUTES,
  );
}
const countOrders = async (): Promise<number> => (await ask('/admin/orders?fields=id')).count;

test('the provider and the example of its settings have the types of Medusa', async () => {
  const packages = join(await installMedusa(), 'node_modules');
  const settings = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      paths: { '@medusajs/framework/*': [`${packages}/@medusajs/framework/dist/*/index.d.ts`] },
      typeRoots: [join(ROOT, 'node_modules/@types')],
      // Medusa's own types are looser.
      exactOptionalPropertyTypes: false,
    },
    include: [join(ROOT, 'plugins/medusa/src'), join(ROOT, 'plugins/medusa/example')],
  };
  writeFileSync(join(store.home, 'tsconfig.json'), JSON.stringify(settings));
  const { stdout } = await run(join(ROOT, 'node_modules/.bin/tsc'), ['--noEmit', '-p', store.home]).catch((error) => error);
  assert.equal(stdout, '');
});

test('a cart becomes a captured order by webhooks alone', async () => {
  const { cart, data } = await begin(2);
  const payment = (await app.test.get(`/api/payment/${data.payment_id}`)).json;
  assert.deepEqual([payment.amount_fiat, payment.currency_fiat, payment.status], ['51.00', 'EUR', 'pending']);
  assert.equal(payment.metadata.session_id, data.session_id);
  assert.equal(payment.payment_url, data.payment_url);
  const early = await complete(cart);
  assert.deepEqual([early.type, early.error?.type], ['cart', 'payment_requires_more_error'], JSON.stringify(early));

  const before = await countOrders();
  await simulate(payment.id, 'success');
  const order = await orderOf(payment.id, ({ payment_status }) => payment_status === 'captured');
  assert.equal(order.total, 51);
  assert.deepEqual([order.payment_collections[0].captured_amount, order.payment_collections[0].payments[0].amount], [51, 51]);
  // The customer returns, and the same events arrive again.
  const returned = await complete(cart);
  assert.deepEqual([returned.type, returned.order.id], ['order', order.id]);
  for (const { id } of (await app.test.get(`/v1/events?payment_id=${payment.id}`)).json.data) {
    const [delivery] = (await app.test.get(`/v1/webhook_deliveries?event_id=${id}`)).json.data;
    await app.test.post(`/v1/webhook_deliveries/${delivery.id}/resend`);
  }
  await refund(order, payment.id);
  assert.equal(await countOrders(), before + 1);
});

/** A refund is a claim in Florin: the customer enters an address, the operator approves, and more than arrived is refused. */
async function refund(order: any, paymentId: string): Promise<void> {
  const [payment] = order.payment_collections[0].payments;
  const reply = await ask(`/admin/payments/${payment.id}/refund`, { amount: 10 });
  assert.equal(reply.status, 200, JSON.stringify(reply));
  const { payment: now } = await ask(`/admin/payments/${payment.id}?fields=*refunds,+data`);
  assert.deepEqual(
    now.refunds.map(({ amount }: any) => amount),
    [10],
  );
  const [{ id, amount, claim_url: inMedusa }] = now.data.refunds;
  assert.equal(inMedusa, undefined);
  const read = async () => (await app.test.get(`/v1/refunds/${id}`)).json;
  const asked = await read();
  const claim = app.url + new URL(asked.claim_url).pathname;
  assert.deepEqual([asked.payment_id, asked.status, amount], [paymentId, 'requested', '10.00']);
  const form = (fields: Record<string, string>) => fetch(claim, { method: 'POST', redirect: 'manual', body: new URLSearchParams(fields) });
  assert.equal((await form({ address: ADDRESS, checked: 'yes' })).status, 303);
  const flags = { merchant: app.merchant.merchantId, mode: 'test', refund: id };
  const approve = REFUND_COMMANDS['refund approve'];
  assert.ok(approve && 'run' in approve);
  await approve.run(app.app.ctx, flags);
  assert.equal((await read()).status, 'confirmed');
  // 51.00 EUR arrived: Florin refuses what is more, and Medusa records nothing.
  const more = await ask(`/admin/payments/${payment.id}/refund`, { amount: 41.01 });
  assert.equal(more.status, 400, JSON.stringify(more));
  assert.equal((await ask(`/admin/payments/${payment.id}?fields=*refunds`)).payment.refunds.length, 1);
}

test('money on its way places the order, and it is captured when the network has confirmed it', async () => {
  const { data } = await begin();
  await simulate(data.payment_id, 'slow');
  const sessionOf = (order: any) => order.payment_collections[0].payment_sessions[0];
  const placed = await orderOf(data.payment_id, (order) => sessionOf(order).status === 'pending_authorization');
  assert.deepEqual([placed.payment_collections[0].payments.length, placed.payment_collections[0].captured_amount ?? 0], [0, 0]);
  const advanced = await app.test.post('/v1/test/clock/advance', { seconds: 3_600, payment_id: data.payment_id });
  assert.equal(advanced.status, 200, advanced.text);
  const paid = await orderOf(data.payment_id, ({ payment_status }) => payment_status === 'captured');
  assert.equal(paid.id, placed.id);
});

const statusOf = async (id: string) => (await app.test.get(`/api/payment/${id}`)).json.status;
const setQuantity = async (cart: string, quantity: number) => {
  const [item] = (await ask(`/store/carts/${cart}?fields=id,*items`)).cart.items;
  return ask(`/store/carts/${cart}/line-items/${item.id}`, { quantity });
};

test('a cart keeps its payment while it costs the same; changed, it gets another', async () => {
  const { cart, collection, data } = await begin();
  for (let at = 0; at < 3; at += 1) assert.equal((await startSession(collection)).payment_id, data.payment_id);
  assert.equal((await setQuantity(cart, 2)).status, 200);
  assert.equal(await statusOf(data.payment_id), 'cancelled');
  const second = await startSession(collection);
  assert.deepEqual([second.amount, await statusOf(second.payment_id)], ['51.00', 'pending']);
  // The session that took the payment over is the one that is completed.
  const third = await startSession(collection);
  assert.equal(third.payment_id, second.payment_id);
  await simulate(second.payment_id, 'success');
  const order = await orderOf(second.payment_id, ({ payment_status }) => payment_status === 'captured');
  assert.equal(order.total, 51);
});

test('a cart that changes while money is on its way is not an error, and its customer is not asked for more', async () => {
  for (const [scenario, status] of [
    ['slow', 'processing'],
    ['underpaid', 'pending'],
  ] as const) {
    const { cart, collection, data } = await begin();
    // The webhook of money on its way places the order, so the cart changes at the same moment.
    const [, changed] = await Promise.all([simulate(data.payment_id, scenario), setQuantity(cart, 3)]);
    assert.notEqual(changed.status, 500, JSON.stringify(changed));
    const now = await statusOf(data.payment_id);
    if (now === 'cancelled') continue;
    const reply = await ask(`/store/payment-collections/${collection}/payment-sessions`, { provider_id: 'pp_florin_florin' });
    assert.notEqual(reply.status, 500, JSON.stringify(reply));
    await eventually(
      () => statusOf(data.payment_id),
      (one) => one === status || one === 'completed',
    );
  }
});

test('sessions that are started again with money in are the same payment, without an error', async () => {
  const { collection, data } = await begin();
  await simulate(data.payment_id, 'underpaid');
  await eventually(
    async () => (await app.test.get(`/api/payment/${data.payment_id}`)).json,
    (payment) => Number(payment.amount_received) > 0,
  );
  assert.equal((await startSession(collection)).payment_id, data.payment_id);
  assert.equal(await statusOf(data.payment_id), 'pending');
});

test('a webhook that is not signed changes nothing, and Medusa says why', async () => {
  const { cart, data } = await begin();
  const event = { id: 'evt_1', type: 'payment.completed', data: { id: data.payment_id, metadata: { session_id: data.session_id } } };
  const reply = await fetch(store.url + HOOKS, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'webhook-id': 'evt_1', 'webhook-timestamp': '1', 'webhook-signature': 'v1,AAAA' },
    body: JSON.stringify(event),
  });
  assert.equal(reply.status, 200);
  await eventually(
    async () => store.output(),
    (text) => text.includes('Florin: a webhook was refused.'),
  );
  assert.equal((await complete(cart)).error.type, 'payment_requires_more_error');
});

/** The orders of a cart, with what was paid for them. There must never be two. */
async function ordersOf(collection: string): Promise<any[]> {
  const parts = ['*items', '*payment_collections', '*payment_collections.payments', '*payment_collections.payments.refunds'];
  const { orders } = await ask(`/admin/orders?limit=200&order=-created_at&fields=id,status,canceled_at,total,${parts.join(',')}`);
  return orders.filter((order: any) => order.payment_collections?.some(({ id }: any) => id === collection));
}
const paymentsOf = (order: any): any[] => order.payment_collections.flatMap(({ payments }: any) => payments ?? []);
const cancelOrder = async (id: string) => ask(`/admin/orders/${id}/cancel`, {});

test('the money of an order that was canceled before it was confirmed is not captured, but named; captured money is refunded', async () => {
  const early = await begin();
  await simulate(early.data.payment_id, 'slow');
  const placed = await orderOf(early.data.payment_id, () => true);
  assert.equal((await cancelOrder(placed.id)).status, 200);
  await app.test.post('/v1/test/clock/advance', { seconds: 3_600, payment_id: early.data.payment_id });
  const named = await eventually(
    async () => (await app.test.get(`/api/payment/${early.data.payment_id}`)).json,
    ({ metadata }) => metadata.order_missing !== undefined,
    MINUTES,
  );
  assert.equal(named.status, 'completed');
  assert.match(named.metadata.order_missing, /order was canceled/);
  const [canceled] = await ordersOf(early.collection);
  assert.deepEqual([canceled.status, paymentsOf(canceled)], ['canceled', []]);

  const paid = await begin();
  await simulate(paid.data.payment_id, 'success');
  const order = await orderOf(paid.data.payment_id, ({ payment_status }) => payment_status === 'captured');
  assert.equal((await cancelOrder(order.id)).status, 200);
  const refunds = (await app.test.get(`/v1/refunds?payment_id=${paid.data.payment_id}`)).json.data;
  assert.deepEqual(
    refunds.map(({ status }: any) => status),
    ['requested'],
  );
  const { metadata } = (await app.test.get(`/api/payment/${paid.data.payment_id}`)).json;
  assert.equal(metadata.order_missing, undefined);
});
