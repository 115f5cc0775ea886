/** Who reaches what: the key of a shop opens its own store in its own mode, and nothing else; no other key opens the store. Over all routes. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Mode } from '../../src/core/coin.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { connectCommerce } from '../../src/shops/commerce/connect-commerce.ts';
import { GREENFIELD_ROUTES, type GreenfieldRoute } from '../../src/shops/greenfield/greenfield-routes.ts';
import { connectShop, PERMISSIONS, type Permission } from '../../src/shops/shop-keys.ts';
import { DASHBOARD_ROUTES, pathsOf } from '../../src/web/dashboard/serve.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { type ShopClient, type ShopReply, shopClient } from '../kit/shop-flows.ts';

let app: TestApp;
let one: Store;
let same: Store;
let other: Store;
/** Another shop of the same merchant, in the same mode. */
let next: Store;
before(async () => {
  app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}', LOG_LEVEL: 'fatal', TRUSTED_PROXIES: '127.0.0.0/8' });
  const { ctx } = app.app;
  const mine = await createMerchant(ctx, { name: 'Mine', plan: 'enterprise' });
  const theirs = await createMerchant(ctx, { name: 'Theirs', plan: 'enterprise' });
  one = await openStore(mine, 'test');
  same = await openStore(mine, 'live');
  other = await openStore(theirs, 'test');
  next = await openStore(mine, 'test');
});
after(() => app?.stop());

type Store = { merchant: NewMerchant; key: string; id: string; call: ShopClient; invoice: string; webhook: string };
const ALL = Object.values(PERMISSIONS);

async function keyOf(merchant: NewMerchant, mode: Mode, permissions: readonly Permission[]): Promise<{ key: string; id: string }> {
  const { ctx } = app.app;
  const shop = { merchantId: merchant.merchantId, mode, platform: 'other' as const, name: 'Shop', permissions };
  const { apiKey, storeId } = await ctx.db.begin((tx) => connectShop(ctx, tx, shop));
  return { key: apiKey, id: storeId };
}
async function openStore(merchant: NewMerchant, mode: Mode): Promise<Store> {
  const { key, id } = await keyOf(merchant, mode, ALL);
  const call = shopClient(`${app.url}/btcpay/api/v1`, key);
  const webhook = await call('POST', `/stores/${id}/webhooks`, { url: 'http://127.0.0.1:9/hook' });
  // Live mode has no wallet, so there is nothing to pay with.
  const invoice =
    mode === 'test' ? (await call('POST', '/invoices', { amount: '1', currency: 'USD' })).json.id : 'pay_000000000000000000000000';
  return { merchant, key, id, call, invoice, webhook: webhook.json.id };
}
const fill = ({ path }: GreenfieldRoute, store: Store): string =>
  path.replace(':store', store.id).replace(':invoice', store.invoice).replace(':webhook', store.webhook);
const bodyOf = ({ method }: GreenfieldRoute): object | undefined =>
  method === 'POST' || method === 'PUT' ? { url: 'http://127.0.0.1:9/other', status: 'Invalid' } : undefined;
/** Not merely refused: says nothing about what it was asked for. */
const isShut = ({ status }: ShopReply): boolean => status === 401 || status === 403 || status === 404;

// Invariant: The key of a shop opens its own store and nothing else, and no other key opens it.
test('the key of a shop reaches no other store, no other shop of its store and no other mode, by any route', async () => {
  let asked = 0;
  for (const route of GREENFIELD_ROUTES.filter(({ path }) => /:store|:invoice|:webhook/.test(path)))
    for (const [mine, theirs] of [
      [one, other],
      [one, same],
      [same, one],
      [other, one],
    ] as const) {
      const reply = await mine.call(route.method, fill(route, theirs), bodyOf(route));
      assert.ok(isShut(reply), `${route.method} ${route.path}: ${reply.status} ${reply.text}`);
      // Its own store, but what is another's.
      const mixed = await mine.call(route.method, fill(route, { ...theirs, id: mine.id }), bodyOf(route));
      if (/:invoice|:webhook/.test(route.path))
        assert.ok(isShut(mixed), `${route.method} ${route.path} with its own store: ${mixed.status} ${mixed.text}`);
      asked += 2;
    }
  assert.ok(asked > 100, String(asked));
  // Two shops of one merchant have one store: all but it is their own.
  for (const route of GREENFIELD_ROUTES.filter(({ path }) => /:invoice|:webhook/.test(path)))
    for (const [mine, theirs] of [
      [one, next],
      [next, one],
    ] as const) {
      const reply = await mine.call(route.method, fill(route, theirs), bodyOf(route));
      assert.equal(reply.status, 404, `${route.method} ${route.path} of another shop: ${reply.status} ${reply.text}`);
    }
  const invoices = (await one.call('GET', '/invoices')).json.map(({ id }: { id: string }) => id);
  assert.deepEqual(invoices, [one.invoice]);
  assert.deepEqual((await same.call('GET', '/invoices')).json, []);
});

test('a key without a permission is refused by every route that needs it, with its name', async () => {
  for (const permission of ALL) {
    const { key, id } = await keyOf(
      one.merchant,
      'test',
      ALL.filter((other) => other !== permission),
    );
    const call = shopClient(`${app.url}/btcpay/api/v1`, key);
    for (const route of GREENFIELD_ROUTES.filter(({ needs }) => needs === permission)) {
      const reply = await call(route.method, fill(route, { ...one, id }), bodyOf(route));
      assert.deepEqual([reply.status, reply.json.missingPermission], [403, permission], `${route.method} ${route.path}`);
    }
  }
});

test('no other key opens a route of the store', async () => {
  const { testSecret, testPublic, liveSecret, livePublic } = one.merchant.keys;
  for (const key of [null, 'x', testSecret, testPublic, liveSecret, livePublic, one.key.slice(0, -1)])
    for (const route of GREENFIELD_ROUTES) {
      const reply = await shopClient(`${app.url}/btcpay/api/v1`, key)(route.method, fill(route, one), bodyOf(route));
      assert.equal(reply.status, 401, `${route.method} ${route.path} with ${key?.slice(0, 8)}: ${reply.status}`);
    }
  // Neither does the key of the store as another kind of token.
  const bearer = await fetch(`${app.url}/btcpay/api/v1/stores`, { headers: { authorization: `Bearer ${one.key}` } });
  assert.equal(bearer.status, 401);
});

const chargeKey = async ({ merchantId }: NewMerchant, mode: Mode): Promise<string> =>
  (await connectCommerce(app.app.ctx, { merchantId, mode, name: 'Shop', webhookUrl: null })).apiKey;
const commerce = (key: string): ShopClient => {
  const call = shopClient(`${app.url}/commerce`, null);
  return (method, path, body) => call(method, path, method === 'GET' ? undefined : body, { 'x-cc-api-key': key });
};

test('the key of charges reaches its own charges only', async () => {
  const key = await chargeKey(one.merchant, 'test');
  const price = { pricing_type: 'fixed_price', local_price: { amount: '1', currency: 'USD' } };
  const made = await commerce(key)('POST', '/charges', price);
  assert.equal(made.status, 201, made.text);
  const own = `/charges/${made.json.data.id}`;
  assert.equal((await commerce(key)('GET', own)).status, 200);
  const strangers = [await chargeKey(one.merchant, 'test'), await chargeKey(one.merchant, 'live'), await chargeKey(other.merchant, 'test')];
  for (const foreign of strangers) assert.equal((await commerce(foreign)('GET', own)).status, 404);
  assert.equal((await commerce(key)('GET', `/charges/${one.invoice}`)).status, 404, 'an invoice of another protocol');
  assert.equal((await one.call('GET', `/invoices/${made.json.data.id}`)).status, 404, 'and the other way around');
});

test('the key of a shop opens no route of the API and none of the dashboard', async () => {
  const paths = [
    ...ROUTES.map(({ method, path }) => ({ method, path })),
    ...DASHBOARD_ROUTES.filter((route) => !route.open).flatMap((route) =>
      pathsOf(route).map(({ url }) => ({ method: route.method, path: url })),
    ),
  ];
  assert.ok(paths.length > 100);
  // From several addresses, because one alone may try only so many keys.
  for (const [i, { method, path }] of paths.entries())
    for (const authorization of [`Bearer ${one.key}`, `token ${one.key}`]) {
      const reply = await fetch(app.url + path.replace(/:[a-z_]+/gi, one.invoice), {
        method,
        headers: {
          authorization,
          'content-type': 'application/json',
          'x-florin-dashboard': '1',
          'x-forwarded-for': `198.51.${100 + (i >> 6)}.1`,
        },
        ...(method !== 'GET' && { body: '{}' }),
      });
      assert.equal(reply.status, 401, `${method} ${path}: ${reply.status}`);
    }
});
