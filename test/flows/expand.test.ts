/** Lists under /v1 of whole objects, and what `expand` puts beside the IDs in them. */
// Invariant: Expanded objects belong to the same merchant and mode, and contain nothing that the key may not see.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createClient } from '../../sdk/src/index.ts';
import { createApiKey } from '../../src/keys/keys.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
let paid: string;
let open: string;
let refunds: string[];
let payout: string;
before(async () => {
  app = await startTestApp();
  const create = async (more: object = {}) =>
    ok(await app.test.post('/v1/payments', { amount: '25.00', currency: 'EUR', metadata: { order: 'A-1001' }, ...more })).id as string;
  [paid, open] = [await create(), await create({ description: 'Two mugs' })];
  ok(await app.test.post(`/v1/test/payments/${paid}/simulate`, { scenario: 'success', currency: 'BTC' }));
  await eventually(
    () => app.test.get(`/v1/payments/${paid}`),
    ({ json }) => json.status === 'completed',
  );
  refunds = [];
  for (const amount_usd of ['1.00', '2.00']) refunds.unshift(ok(await app.test.post('/v1/refunds', { payment_id: paid, amount_usd })).id);
  const sent = { currency: 'BTC', amount: '0.001', address: 'test_btc_payer', payout_reference: 'p-1' };
  payout = ok(await app.test.post('/v1/payouts', sent)).id;
});
after(() => app?.stop());

const ok = (reply: Reply): any => {
  assert.ok(reply.status === 200 || reply.status === 201, reply.text);
  return reply.json;
};
const get = async (path: string, client = app.test) => ok(await client.get(path));
const detail = (id: string) => get(`/api/payment/${id}`);

test('the list under /v1 has whole payments, with the filters and pages of the documented list', async () => {
  const { data, ...page } = await get('/v1/payments?limit=100');
  assert.deepEqual(data, [await detail(open), await detail(paid)]);
  assert.deepEqual(page, { success: true, has_more: false, total_count: 2 });
  assert.deepEqual((await get('/v1/payments?status=completed')).data, [await detail(paid)]);
  const filtered = await get('/v1/payments?metadata[order]=A-1001&limit=1');
  assert.deepEqual([filtered.data[0].id, filtered.has_more, filtered.total_count], [open, true, 2]);
  assert.deepEqual((await get(`/v1/payments?starting_after=${open}`)).data, [await detail(paid)]);
  assert.deepEqual((await get(`/v1/payments?ending_before=${paid}`)).data, [await detail(open)]);
  assert.deepEqual(await get(`/v1/payments/${paid}`), await detail(paid));
  assert.equal((await app.live.get('/v1/payments')).json.data.length, 0);
  assert.equal((await app.live.get(`/v1/payments/${paid}`)).status, 404);
  assert.equal((await app.testPublic.get('/v1/payments')).status, 403);
  // The documented list is as it was.
  assert.deepEqual(Object.keys((await get('/api/payments')).data[0]), [
    ...['transaction_id', 'id', 'status', 'amount_usd', 'currency', 'network', 'created_at', 'completed_at', 'mode', 'exception'],
    ...['invoice_id', 'description', 'amount_held', 'amount_held_usd', 'customer'],
  ]);
});

test('expand puts payments into refunds and events, and refunds into payments, one by one and in lists', async () => {
  const listed = (await get('/v1/refunds')).data;
  assert.deepEqual(
    listed.map(({ id }: any) => id),
    refunds,
  );
  for (const expand of ['expand=refunds', 'expand[]=refunds', 'expand[0]=refunds', 'expand[]=data.refunds']) {
    assert.deepEqual((await get(`/v1/payments?${expand}`)).data, [
      { ...(await detail(open)), refunds: [] },
      { ...(await detail(paid)), refunds: listed },
    ]);
  }
  assert.deepEqual((await get(`/v1/payments/${paid}?expand[]=refunds`)).refunds, listed);
  const payment = await detail(paid);
  assert.deepEqual(await get(`/v1/refunds/${refunds[0]}?expand[]=payment`), { success: true, ...listed[0], payment });
  assert.deepEqual(
    (await get('/v1/refunds?expand[]=payment')).data,
    listed.map((refund: object) => ({ ...refund, payment })),
  );

  const events = await eventually(
    async () => (await get('/v1/events?limit=100')).data as any[],
    (rows) => ['payment.completed', 'refund.requested', 'payout.requested'].every((type) => rows.some((row) => row.type === type)),
  );
  const expanded = (await get('/v1/events?limit=100&expand[]=payment')).data as any[];
  assert.deepEqual(
    expanded.map(({ payment: _, ...event }) => event),
    events,
  );
  for (const event of expanded) {
    const about = event.type.startsWith('refund.') ? event.data.payment_id : event.type.startsWith('payout.') ? null : event.data.id;
    assert.equal(event.payment?.id ?? null, about, event.type);
    assert.deepEqual(await get(`/v1/events/${event.id}?expand=payment`), event);
  }
  assert.deepEqual(expanded.find(({ data }) => data.id === payout)!.payment, null);
  assert.deepEqual(expanded.find(({ type }) => type === 'payment.completed')!.payment, payment);
});

test('a key without the permission for refunds sees no claim link in what is expanded', async () => {
  assert.match((await get(`/v1/payments/${paid}?expand=refunds`)).refunds[0].claim_url, /\/claim\//);
  const { merchantId } = app.merchant;
  const { key } = await createApiKey(app.app.ctx, { merchantId, mode: 'test', kind: 'secret', permissions: ['payments'] });
  const shown = await get('/v1/payments?expand=refunds', app.as(key));
  assert.deepEqual(
    shown.data[1].refunds.map(({ claim_url }: any) => claim_url),
    [null, null],
  );
});

test('paths of our own ignore no name: each is refused, with the way to write it here', async () => {
  for (const [path, param, message] of [
    ['/v1/payments?page=2', 'page', /pass the `id` of the last one as starting_after/],
    ['/v1/payments?offset=10', 'offset', /starting_after/],
    ['/v1/payments?created[gte]=1700000000', 'created[gte]', /Use created_after and created_before/],
    ['/v1/payments?per_page=5', 'per_page', /Did you mean limit\?/],
    ['/v1/payments?color=red', 'color', /This request does not take it/],
    ['/v1/refunds?page=2', 'page', /starting_after/],
    ['/v1/payouts?created[gte]=1', 'created[gte]', /does not take it/],
    ['/v1/events?offset=2', 'offset', /starting_after/],
    ['/v1/webhook_endpoints?page=2', 'page', /does not take it/],
    [`/v1/refunds/${refunds[0]}?color=red`, 'color', /does not take it/],
  ] as const) {
    const { status, json } = await app.test.get(path);
    assert.deepEqual([status, json.error?.code, json.error?.param], [400, 'parameter_unknown', param], path);
    assert.match(json.error.message, message);
  }
  const body = await app.test.post('/v1/payments', { amount: '5', currency: 'USD', color: 'red' });
  assert.deepEqual([body.status, body.json.error.param], [400, 'color']);
  for (const path of ['/v1/payments?expand=payment', '/v1/refunds?expand[]=payment.refunds', '/v1/events?expand[]=data.object']) {
    const { status, json } = await app.test.get(path);
    assert.deepEqual([status, json.error?.code, json.error?.param], [400, 'parameter_invalid', 'expand'], path);
  }
  // The documented paths stay lenient, under /v1 too.
  for (const path of ['/api/payments?page=2', '/v1/api/payments?created[gte]=1']) {
    const reply = await app.test.get(path);
    assert.equal(reply.status, 200, path);
    assert.notEqual(reply.headers.get('x-ignored-parameters'), null);
  }
  const legacy = await app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD', color: 'red' });
  assert.deepEqual([legacy.status, legacy.headers.get('x-ignored-parameters')], [201, 'color'], legacy.text);
});

test('the SDK lists whole payments and expands', async () => {
  const florin = createClient({ url: app.url, key: app.merchant.keys.testSecret });
  const [whole] = (await florin.payments.list({ status: 'completed', expand: ['refunds'] })).data;
  assert.deepEqual([whole!.metadata.order, whole!.refunds?.map(({ id }) => id)], ['A-1001', refunds]);
  assert.equal((await florin.payments.retrieve(paid, { expand: ['refunds'] })).refunds?.length, 2);
  assert.equal((await florin.refunds.retrieve(refunds[0]!, { expand: ['payment'] })).payment?.id, paid);
  const [refund] = await florin.refunds.list({ expand: ['payment'] }).toArray({ limit: 1 });
  assert.equal(refund!.payment?.status, 'completed');
  const { data } = await florin.events.list({ payment_id: paid, expand: ['payment'] });
  assert.equal(data[0]!.payment?.id, paid);
  assert.equal((await florin.events.retrieve(data[0]!.id, { expand: ['payment'] })).payment?.id, paid);
});
