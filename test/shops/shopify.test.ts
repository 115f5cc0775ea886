/**
 * The example app for a Shopify shop of one's own, as it is printed in `examples/shopify`, between a real Florin and a scripted Shopify that
 * keeps the rules of its published API: tokens by client credentials, refusals as `userErrors`, and an order that is paid only once.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { webhooks } from '../../sdk/src/index.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { freePort } from '../kit/nodes.ts';
import { type Served, serve } from '../kit/serve.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SHOP = 'my-shop.myshopify.com';
type Order = { total: string; currency: string; cancelled: boolean; gateway: string; paid: boolean; tags: Set<string>; marked: number };

/** The calls of Shopify's Admin API (2026-10) that the app makes. */
function shopifyServer(orders: Map<string, Order>, calls: string[]): Promise<Served> {
  const shown = ([id, order]: [string, Order]) => ({
    id: `gid://shopify/Order/${id}`,
    name: `#${id}`,
    confirmationNumber: `N${id}`,
    cancelledAt: order.cancelled ? '2026-11-27T10:00:00Z' : null,
    statusPageUrl: `https://${SHOP}/orders/${id}`,
    paymentGatewayNames: [order.gateway],
    tags: [...order.tags],
    totalOutstandingSet: {
      presentmentMoney: { amount: order.paid || order.cancelled ? '0.0' : order.total, currencyCode: order.currency },
    },
  });
  const orderOf = (gid: string) => orders.get(gid.replace('gid://shopify/Order/', ''))!;
  const answer = (query: string, variables: any): object => {
    if (query.includes('order(id: $id)')) {
      const id = variables.id.split('/').at(-1);
      const order = orders.get(id);
      return { order: order ? shown([id, order]) : null };
    }
    if (query.includes('tagsAdd')) {
      for (const tag of variables.tags) orderOf(variables.id).tags.add(tag);
      return { tagsAdd: { userErrors: [] } };
    }
    assert.match(query, /orderMarkAsPaid/);
    const order = orderOf(variables.input.id);
    if (order.paid || order.cancelled) return { orderMarkAsPaid: { userErrors: [{ message: 'Order cannot be marked as paid.' }] } };
    order.paid = true;
    order.marked++;
    return { orderMarkAsPaid: { userErrors: [] } };
  };
  return serve((request, reply, body) => {
    const send = (status: number, json: object) =>
      reply.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
    calls.push(request.url!);
    if (request.url === '/admin/oauth/access_token') {
      const form = Object.fromEntries(new URLSearchParams(body.toString()));
      assert.deepEqual(form, { grant_type: 'client_credentials', client_id: 'client', client_secret: 'shpss_secret' });
      send(200, { access_token: 'token', scope: 'read_orders,write_orders', expires_in: 86_399 });
      return;
    }
    assert.equal(request.url, '/admin/api/2026-10/graphql.json');
    assert.equal(request.headers['x-shopify-access-token'], 'token');
    const { query, variables } = JSON.parse(body.toString());
    send(200, { data: answer(query, variables) });
  });
}

let app: TestApp;
let bridge: ChildProcess;
let shopify: Served;
let url: string;
let endpoint: { id: string; secret: string };
let folder: string;
let output = '';
const orders = new Map<string, Order>();
const calls: string[] = [];
before(async () => {
  app = await startTestApp();
  shopify = await shopifyServer(orders, calls);
  folder = mkdtempSync(join(tmpdir(), 'florin-shopify-'));
  mkdirSync(join(folder, 'node_modules/florin'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'node_modules/florin/package.json'), '{"name":"florin","type":"module","exports":"./index.js"}');
  writeFileSync(
    join(folder, 'node_modules/florin/index.js'),
    `export * from ${JSON.stringify(pathToFileURL(join(ROOT, 'sdk/src/index.ts')).href)};\n`,
  );
  copyFileSync(join(ROOT, 'examples/shopify/app.js'), join(folder, 'app.js'));
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const events = ['payment.completed', 'payment.updated', 'payment.failed', 'payment.reversed'];
  const added = await app.test.post('/v1/webhook_endpoints', { url: `${url}/hook`, events });
  assert.equal(added.status, 201, added.text);
  endpoint = added.json;
  bridge = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', 'app.js'], {
    cwd: folder,
    env: {
      ...process.env,
      SHOPIFY_SHOP: SHOP,
      SHOPIFY_CLIENT_ID: 'client',
      SHOPIFY_CLIENT_SECRET: 'shpss_secret',
      SHOPIFY_URL: shopify.url,
      FLORIN_URL: app.url,
      FLORIN_API_KEY: app.merchant.keys.testSecret,
      SIGNING_SECRET: endpoint.secret,
      PORT: String(port),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [bridge.stdout!, bridge.stderr!])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  await eventually(
    async () => {
      if (bridge.exitCode !== null) throw new Error(output);
      return output;
    },
    (said) => said.includes('Waiting for customers'),
  );
});
after(async () => {
  if (bridge?.exitCode === null) {
    const ended = once(bridge, 'exit');
    bridge.kill();
    await ended;
  }
  await app?.stop();
  await shopify?.stop();
  rmSync(folder, { recursive: true, force: true });
});

let count = 1000;
function order(more: Partial<Order> = {}): { id: string; state: Order } {
  const id = String(++count);
  const state = {
    total: '30.0',
    currency: 'EUR',
    cancelled: false,
    gateway: 'Cryptocurrency',
    paid: false,
    marked: 0,
    tags: new Set<string>(),
  };
  orders.set(id, Object.assign(state, more));
  return { id, state };
}
const open = (id: string, number = `N${id}`) => fetch(`${url}/pay?order=${id}&number=${number}`, { redirect: 'manual' });
/** The ID of the payment that the customer of an order is led to. */
async function payment(id: string): Promise<string> {
  const reply = await open(id);
  assert.equal(reply.status, 303, await reply.text());
  const [, found] = /\/pay\/?(?:\?id=|\/)?(pay_\w+)/.exec(reply.headers.get('location')!) ?? [];
  assert.ok(found, reply.headers.get('location')!);
  return found;
}
const play = async (id: string, scenario: string) => {
  const reply = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario });
  assert.equal(reply.status, 200, reply.text);
};
/** Waits until the app answered every event so far. */
const told = () =>
  eventually(
    () => app.app.ctx.db.sql<{ open: number }[]>`select count(*)::int as open from deliveries where state = 'pending'`,
    ([row]) => row!.open === 0,
  );

test('an order is paid in the currency that the customer was shown, and marked as paid once, also when the event is repeated', async () => {
  const { id, state } = order({ total: '2500.0', currency: 'JPY' });
  const [one, two] = await Promise.all([payment(id), payment(id)]);
  assert.equal(one, two, 'two tabs lead to one payment');
  const detail = (await app.test.get(`/api/payment/${one}`)).json;
  assert.deepEqual([detail.currency_fiat, detail.metadata.order, detail.metadata.shop], ['JPY', `gid://shopify/Order/${id}`, SHOP]);
  await play(one, 'success');
  await eventually(
    async () => state,
    ({ paid }) => paid,
  );
  await told();
  const [delivery] = (await app.test.get('/v1/webhook_deliveries?limit=1')).json.data;
  assert.equal((await app.test.post(`/v1/webhook_deliveries/${delivery.id}/resend`)).status, 200);
  await told();
  assert.deepEqual([state.marked, [...state.tags]], [1, [`florin-${one}`]]);
  const back = await open(id);
  assert.equal(back.headers.get('location'), `https://${SHOP}/orders/${id}`, 'a paid order is not paid again');
  assert.equal(calls.filter((path) => path.endsWith('access_token')).length, 1, 'one token is used for all calls');
});

test('an order asks for what gift cards left to pay, and for nothing when they pay all', async () => {
  const { id, state } = order({ total: '17.5' });
  const { amount_fiat: amount } = (await app.test.get(`/api/payment/${await payment(id)}`)).json;
  assert.equal(amount, '17.50');
  state.total = '0.0';
  const reply = await open(id);
  assert.deepEqual([reply.status, reply.headers.get('location')], [303, `https://${SHOP}/orders/${id}`]);
});

test('a payment that ended without money is replaced; one that holds money is shown again', async () => {
  const { id } = order();
  const first = await payment(id);
  assert.equal((await app.test.post(`/v1/payments/${first}/cancel`)).status, 200);
  const second = await payment(id);
  assert.notEqual(second, first);
  await play(second, 'underpaid');
  await eventually(
    () => app.test.get(`/api/payment/${second}`),
    ({ json }) => json.transfers.length > 0,
  );
  assert.equal(await payment(id), second);
});

test('an order that was edited, canceled or paid in another way is not marked: it is tagged for a person to look at', async () => {
  const changes: ((state: Order) => void)[] = [
    (state) => {
      state.total = '90.0';
    },
    (state) => {
      state.cancelled = true;
    },
    (state) => {
      state.paid = true;
    },
  ];
  for (const change of changes) {
    const { id, state } = order();
    const made = await payment(id);
    change(state);
    await play(made, 'success');
    await eventually(
      async () => [...state.tags],
      (tags) => tags.includes('florin-check'),
    );
    await told();
    assert.deepEqual([state.marked, [...state.tags]], [0, ['florin-check']]);
  }
});

test('a canceled order, an unknown one, another method and a link that is not one lead to no payment', async () => {
  const before = (await app.test.get('/api/payments?limit=100')).json.data.length;
  assert.equal((await open(order({ cancelled: true }).id)).status, 410);
  assert.equal((await open('9')).status, 404);
  assert.equal((await open(order().id, 'N1')).status, 404, "another order's number");
  assert.equal((await open(order().id, '')).status, 404);
  assert.equal((await open('1%20OR%202')).status, 404);
  const { id } = order({ gateway: 'Bank deposit' });
  assert.equal((await open(id)).headers.get('location'), `https://${SHOP}/orders/${id}`);
  assert.equal((await app.test.get('/api/payments?limit=100')).json.data.length, before);
});

test('a forged event and a payment of another shop change nothing', async () => {
  const { id, state } = order();
  const forged = {
    id: 'evt_1',
    type: 'payment.completed',
    data: { id: 'pay_1', metadata: { shop: SHOP, order: `gid://shopify/Order/${id}` } },
  };
  assert.equal((await fetch(`${url}/hook`, { method: 'POST', body: JSON.stringify(forged) })).status, 400);
  const other = await app.test.post('/api/payment/create/simple', {
    ...{ amount: 30, currency_fiat: 'EUR', return_url: 'https://copy.example/' },
    metadata: { shop: 'copy.myshopify.com', order: `gid://shopify/Order/${id}`, total: '30000', currency: 'EUR' },
  });
  await play(other.json.id, 'success');
  await eventually(
    () => app.test.get(`/api/payment/${other.json.id}`),
    ({ json }) => json.status === 'completed',
  );
  await told();
  assert.deepEqual([state.marked, [...state.tags]], [0, []]);
});

test('a payment that the network reversed, or that was refunded, before its event arrived does not mark the order', async () => {
  await app.test.post(`/v1/webhook_endpoints/${endpoint.id}`, { enabled: false });
  const refund = async (made: string) => {
    const { json } = await app.test.post('/v1/refunds', { payment_id: made, address: 'test_btc_payer' });
    const owner = { merchantId: app.merchant.merchantId, mode: 'test' } as const;
    await approveOutgoing(app.app.ctx, { kind: 'refund', ...owner, id: json.id, actor: { userId: '', name: 'Ada', ip: '' } });
  };
  for (const scenario of ['reversed', 'success']) {
    const { id, state } = order();
    const made = await payment(id);
    await play(made, scenario);
    const isDone = ({ status, exceptions }: any) => status === 'completed' && exceptions.includes('reorged') === (scenario === 'reversed');
    const { json } = await eventually(
      () => app.test.get(`/api/payment/${made}`),
      (reply) => isDone(reply.json),
    );
    if (scenario === 'success') await refund(made);
    const event = { type: 'payment.completed', data: { ...json, exceptions: [], exception: null } } as const;
    const { body, headers } = await webhooks.signTestEvent(event, endpoint.secret);
    assert.equal((await fetch(`${url}/hook`, { method: 'POST', body, headers })).status, 200);
    assert.deepEqual([state.marked, state.paid, [...state.tags]], [0, false, ['florin-check']], scenario);
  }
  await app.test.post(`/v1/webhook_endpoints/${endpoint.id}`, { enabled: true });
});
