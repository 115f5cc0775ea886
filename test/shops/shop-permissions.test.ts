/** What a shop may do: at most what the member who connected it may do, whatever its plugin asks for. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type BookEntry, readEntries } from '../../src/books/books.ts';
import { PERMISSIONS, PLATFORM_PERMISSIONS, PLATFORMS, packQuery } from '../../src/shops/shop-keys.ts';
import { claimShopRefund } from '../../src/shops/shop-refunds.ts';
import { eventually, type Reply, type TestApp } from '../kit/app.ts';
import { startShopApp } from '../kit/connected-shop.ts';
import { ageRoles, type Person, setPartnerRole, setUpPartner, setUpPerson } from '../kit/person.ts';
import { type ShopClient, shopClient } from '../kit/shop-flows.ts';

let app: TestApp;
let owner: Person;
let developer: Person;
before(async () => {
  app = await startShopApp();
  owner = await setUpPerson(app);
  developer = await setUpPartner(app);
  await setPartnerRole(app, 'developer');
});
after(() => app?.stop());
const ok = (reply: Pick<Reply, 'status' | 'json' | 'text'>): any => {
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};

const { modifyInvoices, refunds } = PERMISSIONS;
const ASKED = PLATFORM_PERMISSIONS.woocommerce;
const ask = (permissions: readonly string[]) =>
  packQuery(`applicationName=Woo&redirect=https://woo.example/back&${permissions.map((one) => `permissions=${one}`).join('&')}`);
type Shop = { id: string; key: string; store: string; call: ShopClient; permissions: string[] };
async function shopOf(reply: Reply): Promise<Shop> {
  const { api_key: key, store_id: store } = ok(reply);
  const call = shopClient(`${app.url}/btcpay/api/v1`, key);
  const [row] = await app.app.ctx.db.sql<{ id: string; permissions: string[] }[]>`
    select id, permissions from shop_keys order by created_at desc limit 1`;
  return { ...row!, key, store, call };
}
const pair = async (person: Person) => shopOf(await person.post('/test/shops/pair', { ask: ask(ASKED) }));
async function late({ call, store }: Shop): Promise<string> {
  const order = { amount: '30.00', currency: 'USD', metadata: { orderId: '12' }, checkout: {} };
  const { id } = ok(await call('POST', `/stores/${store}/invoices`, order));
  ok(await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'late', currency: 'BTC' }));
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === 'expired' && json.transfers[0]?.block_height != null,
  );
  return id;
}
const settle = ({ call, store }: Shop, id: string) => call('POST', `/stores/${store}/invoices/${id}/status`, { status: 'Settled' });
const refund = ({ call, store }: Shop) =>
  call('POST', `/stores/${store}/pull-payments`, { name: 'Refund 12', amount: '5', currency: 'USD' });

test('a developer who connects a shop hands it neither late money nor refunds; the page says so before', async () => {
  const asked = ok(await developer.post('/test/shops/asked', { ask: ask(ASKED) }));
  assert.deepEqual([...asked.permissions].sort(), [...ASKED].sort());
  assert.deepEqual(asked.not_grantable, [modifyInvoices, refunds]);
  assert.deepEqual(ok(await owner.post('/test/shops/asked', { ask: ask(ASKED) })).not_grantable, []);

  const reply = await developer.post('/test/shops/pair', { ask: ask(ASKED) });
  assert.deepEqual(reply.json.not_granted, [modifyInvoices, refunds]);
  const shop = await shopOf(reply);
  const granted = ASKED.filter((one) => one !== modifyInvoices && one !== refunds);
  assert.deepEqual(
    reply.json.permissions,
    granted.map((one) => `${one}:${shop.store}`),
  );
  assert.deepEqual(shop.permissions, granted);
  assert.deepEqual(
    ok(await shop.call('GET', '/api-keys/current')).permissions,
    granted.map((one) => `${one}:${shop.store}`),
  );
  const id = await late(shop);
  for (const [refused, permission] of [
    [await settle(shop, id), modifyInvoices],
    [await refund(shop), refunds],
  ] as const) {
    assert.equal(refused.status, 403, refused.text);
    assert.equal(refused.json.code, 'missing-permission');
    assert.ok(refused.text.includes(permission), refused.text);
  }
  assert.equal(ok(await app.test.get(`/api/payment/${id}`)).status, 'expired');
});

test('the same holds for keys that are entered by hand, of every platform', async () => {
  for (const platform of PLATFORMS) {
    const reply = await developer.post('/test/shops', { platform, name: platform });
    const { permissions } = await shopOf(reply);
    const known: readonly string[] = PLATFORM_PERMISSIONS[platform];
    const without = known.filter((one) => [modifyInvoices, refunds].some((kept) => kept === one));
    assert.deepEqual([permissions, ok(reply).not_granted], [known.filter((one) => !without.includes(one)), without], platform);
    const all = await owner.post('/test/shops', { platform, name: platform });
    assert.deepEqual([(await shopOf(all)).permissions, ok(all).not_granted], [known, []], platform);
  }
  const commerce = await developer.post('/test/shops', { platform: 'coinbase-commerce', name: 'Commerce' });
  assert.deepEqual([(await shopOf(commerce)).permissions, ok(commerce).not_granted], [[], []]);
});

test('a plugin that asks for nothing but what the member may not give is refused', async () => {
  const { status, json } = await developer.post('/test/shops/pair', { ask: ask([modifyInvoices, refunds]) });
  assert.deepEqual([status, json.error.code], [403, 'key_out_of_reach']);
  assert.match(json.error.message, /developer.*canmodifyinvoices/);
});

test('a plugin that is connected again for the same site has its orders, another site of the host does not', async () => {
  const site = (path: string) =>
    packQuery(`applicationName=Woo&redirect=https://sites.example${path}&${ASKED.map((one) => `permissions=${one}`).join('&')}`);
  const connect = async (path: string) => shopOf(await owner.post('/test/shops/pair', { ask: site(path) }));
  const first = await connect('/one/back?state=1');
  const order = { amount: '30.00', currency: 'USD', metadata: { orderId: '12' }, checkout: {} };
  const { id } = ok(await first.call('POST', `/stores/${first.store}/invoices`, order));
  assert.equal((await (await connect('/one/back?state=2')).call('GET', `/invoices/${id}`)).status, 200);
  assert.equal((await (await connect('/two/back')).call('GET', `/invoices/${id}`)).status, 404);
  assert.equal((await (await pair(owner)).call('GET', `/invoices/${id}`)).status, 404);
});

test('what a shop decides is in the audit log and in the timeline, with the shop', async () => {
  const shop = await pair(owner);
  const id = await late(shop);
  ok(await settle(shop, id));
  ok(await refund(shop));
  const webhook = ok(await shop.call('POST', `/stores/${shop.store}/webhooks`, { url: 'http://127.0.0.1:9/hook' }));
  ok(await shop.call('PUT', `/stores/${shop.store}/webhooks/${webhook.id}`, { url: 'http://127.0.0.1:9/other' }));
  ok(await shop.call('DELETE', `/stores/${shop.store}/webhooks/${webhook.id}`));
  const { data } = ok(await owner.get(`/test/audit?actor=${shop.id}`));
  assert.deepEqual(data.map((row: any) => row.action).toReversed(), [
    'payment.accept',
    'refund.requested',
    'endpoint.create',
    'endpoint.update',
    'endpoint.delete',
  ]);
  for (const row of data) assert.deepEqual([row.actor_name, row.actor_kind], ['Woo', 'shop'], row.action);
  const { timeline } = ok(await owner.get(`/test/payments/${id}`));
  const { what, actor, actor_kind } = timeline.find((one: any) => one.kind === 'decision');
  assert.deepEqual([what, actor, actor_kind], ['accept', 'Woo', 'shop']);
});

test('a refund without a payment needs the approvals of other refunds, and is in the books once it was sent', async () => {
  const { ctx } = app.app;
  const { call, store } = await pair(owner);
  await owner.post('/live/settings/business', { refund_limit_usd: 100 });
  await ageRoles(app);
  await setPartnerRole(app, 'finance');
  await ageRoles(app);
  const asked = async (amount: string, currency = 'USD') => {
    const made = await call('POST', `/stores/${store}/pull-payments`, { name: 'Without an order', amount, currency });
    await claimShopRefund(ctx, { link: ok(made).id, coin: 'BTC', address: 'test_btc_customer' });
    return made.json.id as string;
  };
  const act = (person: Person, id: string, verb: string, body: object = {}) => person.post(`/test/shop-refunds/${id}/${verb}`, body);
  const shown = async (id: string) => ok(await owner.get('/test/shop-refunds')).data.find((one: any) => one.id === id);
  // Its coin is worth more now than when the shop asked for it.
  const grown = await asked('0.00250000', 'BTC');
  await ctx.db.sql`update shop_refunds set usd_cents = 1 where id = ${grown}`;
  assert.equal(ok(await act(owner, grown, 'approve')).approved, false, 'above the limit at the current price');
  const parts = [await asked('0.00060000', 'BTC'), await asked('0.00060000', 'BTC')];
  await ctx.db.sql`update shop_refunds set usd_cents = 1 where id = any(${parts}::text[])`;
  assert.equal(ok(await act(owner, parts[0]!, 'approve')).approved, true);
  assert.equal(ok(await act(owner, parts[1]!, 'approve')).approved, false, 'what was approved before counts at the price of then');
  // The rest of this day begins without them.
  await ctx.db.sql`update shop_refunds set approved_at = approved_at - interval '25 hours' where id = ${parts[0]!}`;
  const large = await asked('250.00');
  const early = await act(owner, large, 'sent', { amount: '0.0025', txid: null });
  assert.deepEqual([early.status, early.json.error.code], [409, 'refund_state'], 'nobody approved it');
  assert.equal(ok(await act(owner, large, 'approve')).approved, false, 'above the limit');
  const alone = await act(owner, large, 'approve');
  assert.equal(alone.json.error.code, 'second_member_required');
  assert.equal((await act(owner, large, 'sent', { amount: '0.0025', txid: null })).json.error.code, 'refund_state');
  assert.equal(ok(await act(developer, large, 'approve')).approved, true);
  assert.match((await shown(large)).approved_by, / and /);
  // What one member approves alone adds up with all other refunds.
  const [small, another] = [await asked('60.00'), await asked('60.00')];
  assert.equal(ok(await act(owner, small, 'approve')).approved, true);
  assert.equal(ok(await act(owner, another, 'approve')).approved, false);
  for (const amount of ['0', 'x', '0.000000001'])
    assert.equal((await act(owner, large, 'sent', { amount, txid: null })).status, 400, amount);
  ok(await act(owner, large, 'sent', { amount: '0.0025', txid: 'ab'.repeat(32) }));
  assert.deepEqual([(await shown(large)).amount_sent, (await shown(large)).txid], ['0.00250000', 'ab'.repeat(32)]);
  const again = await act(owner, large, 'sent', { amount: '0.0025', txid: null });
  assert.equal(again.json.error.code, 'refund_state');
  const ever = { from: new Date(0), until: new Date(Date.UTC(2100, 0)), display: null };
  const booked: BookEntry[] = [];
  for await (const page of readEntries(ctx, { merchantId: app.merchant.merchantId, mode: 'test', ...ever }))
    booked.push(...page.filter(({ ref }) => ref === large));
  assert.deepEqual(
    booked.map(({ kind, debit, credit, units, cents }) => [kind, debit, credit, units, cents]),
    [['refund', 'refunds', 'destination_wallet', 250_000n, 25_000n]],
  );
});

test('refunds without a payment are listed in pages', async () => {
  const { call, store } = await pair(owner);
  const made: string[] = [];
  for (let i = 0; i < 5; i++)
    made.unshift(ok(await call('POST', `/stores/${store}/pull-payments`, { name: `Number ${i}`, amount: '5', currency: 'USD' })).id);
  const ids: string[] = [];
  let after = '';
  for (;;) {
    const page = ok(await owner.get(`/test/shop-refunds?limit=2${after}`));
    ids.push(...page.data.map(({ id }: any) => id));
    if (!page.has_more) break;
    after = `&starting_after=${ids.at(-1)}`;
  }
  assert.deepEqual(ids.slice(0, 5), made);
  assert.equal(new Set(ids).size, ids.length);
});

test('who cannot request refunds does not see the link of one to which the customer has yet to enter an address', async () => {
  const { call, store } = await pair(owner);
  const { id } = ok(await call('POST', `/stores/${store}/pull-payments`, { name: 'Without an order', amount: '5', currency: 'USD' }));
  const listed = async (person: Person) => (await person.get('/test/shop-refunds')).text.includes(id);
  for (const role of ['developer', 'viewer'] as const) {
    await setPartnerRole(app, role);
    assert.equal(await listed(developer), false, role);
  }
  await setPartnerRole(app, 'support');
  assert.equal(await listed(developer), true);
  await setPartnerRole(app, 'developer');
  assert.equal(await listed(owner), true);
  await claimShopRefund(app.app.ctx, { link: id, coin: 'BTC', address: 'test_btc_customer' });
  assert.equal(await listed(developer), true, 'the address cannot be changed any more');
  const [mine] = ok(await developer.get('/test/shop-refunds')).data.filter((one: any) => one.id === id);
  assert.equal(mine.url, null);
});
