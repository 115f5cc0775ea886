/** Payments in test mode over HTTP: the merchant resolves, describes, lists and reads; the customer leaves a refund address. */
// Invariant: A merchant's decisions, lists and totals are exact, even with many concurrent requests.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { OPERATOR_ACTOR } from '../../src/cli/command.ts';
import { formatUnits } from '../../src/core/money.ts';
import {
  archivePayment,
  cancelPayment,
  chooseCoin,
  leaveRefundAddress,
  resolvePayment,
  reviewPayment,
  setMetadata,
} from '../../src/payments/payments.ts';
import { lockAndSettle } from '../../src/settling/settle-payments.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { testDatabase } from '../kit/database.ts';
import { statementsOf } from '../kit/statements.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(async () => {
  await app?.stop();
});

const RETURN = 'https://shop.example/thanks';
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const refused = (reply: Reply, status: number, code: string, param?: string | null): void => {
  assert.equal(reply.status, status, reply.text);
  assert.equal(reply.json.error.code, code);
  if (param !== undefined) assert.equal(reply.json.error.param, param);
};
const create = async (body: object = {}): Promise<string> =>
  ok(await app.test.post('/api/payment/create/simple', { amount_usd: '97.00', return_url: RETURN, ...body }), 201).transaction_id;
const detail = async (id: string): Promise<any> => ok(await app.test.get(`/api/payment/${id}`));
const listedOf = async (id: string): Promise<any> =>
  ok(await app.test.get('/api/payments?limit=100')).data.find((row: any) => row.id === id);
const cancel = (id: string, client: Client = app.test): Promise<Reply> => client.post(`/v1/payments/${id}/cancel`);
const resolve = (id: string, action: string, transfers?: string[]): Promise<Reply> =>
  app.test.post(`/v1/payments/${id}/resolve`, { action, ...(transfers && { transfers }) });
const simulate = async (id: string, scenario: string, currency: string): Promise<any> =>
  ok(await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario, currency }));
/**
 * Starts a scenario and waits for its first event. The next step comes half a second later, so a test that waits that long misses it.
 */
const simulateFromStart = async (
  scenario: string,
  currency: string,
  first: { status: string; exception: string | null },
): Promise<string> => {
  const { id } = await eventually(
    async () => {
      const id = await create();
      const { status, exception } = await simulate(id, scenario, currency);
      return { id, status, exception };
    },
    ({ status, exception }) => status === first.status && exception === first.exception,
    1_000,
  );
  return id;
};
const reaches = (id: string, status: string): Promise<any> =>
  eventually(
    () => detail(id),
    (d) => d.status === status,
  );
/** The payment's events have these types, in order of their sequence, which has no gap. */
async function tells(id: string, types: string): Promise<void> {
  const events = ok(await app.test.get(`/v1/events?payment_id=${id}&limit=100`)).data.toReversed();
  assert.equal(events.map((e: any) => e.type.replace('payment.', '')).join(' '), types);
  assert.deepEqual(
    events.map((e: any) => e.data.sequence),
    events.map((_: unknown, i: number) => i + 1),
  );
}
/** A payment of 97 USD, 0.00100000 BTC at 97,000, with the coin chosen; no money arrives automatically. */
const createInBitcoin = (): Promise<string> => create({ payment_address: 'test_btc_success' });

/** Records a transfer as the follower would. `block` 0 is the tip of a test payment's quiet chain, so it has one confirmation. */
async function receive(id: string, units: bigint, { name = 'a', mined = true } = {}): Promise<string> {
  const ref = `${name.repeat(64)}:0`;
  await app.app.ctx.db.begin((tx) =>
    lockAndSettle(app.app.ctx, tx, [id], async () => {
      await tx`
        insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash, block_time)
        values ('BTC', ${ref}, ${id}, ${app.merchant.merchantId}, ${name.repeat(64)}, 'test_btc_success', ${units.toString()}, 'output',
          (select clock_timestamp() + make_interval(secs => coalesce(sum(seconds), 0)::double precision) from clock_advances where payment_id = ${id}),
          ${mined ? 0 : null}, ${mined ? 'b'.repeat(64) : null}, ${mined ? tx`clock_timestamp()` : null})`;
    }),
  );
  return ref;
}
const endWindow = async (id: string): Promise<void> => {
  ok(await app.test.post('/v1/test/clock/advance', { seconds: 3_700, payment_id: id }));
};

// Canceling

test('an unpaid payment is canceled, once', async () => {
  const id = await create();
  const reply = ok(await cancel(id));
  assert.deepEqual([reply.id, reply.status, reply.exception, reply.completed_at], [id, 'cancelled', null, null]);
  refused(await cancel(id), 409, 'payment_status_conflict');
  refused(await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success' }), 409, 'payment_status_conflict');
  await tells(id, 'created cancelled');
});

test('a payment that received part of the money is canceled, and the money is held for the merchant', async () => {
  const id = await createInBitcoin();
  const ref = await receive(id, 40_000n);
  const partial = await detail(id);
  assert.deepEqual([partial.status, partial.exception, partial.amount_received], ['pending', 'underpaid', '0.00040000']);
  assert.equal(partial.amount_remaining, '0.00060000');
  const reply = ok(await cancel(id));
  assert.deepEqual([reply.status, reply.exceptions], ['cancelled', ['paid_after_cancel']]);
  assert.deepEqual(
    reply.transfers.map((t: any) => [t.ref, t.amount, t.amount_usd]),
    [[ref, '0.00040000', '38.80']],
  );
  await tells(id, 'created updated cancelled');
});

test('money that arrives after the cancel leaves the payment canceled and is reported to the merchant, who may accept it', async () => {
  const id = await createInBitcoin();
  ok(await cancel(id));
  await receive(id, 100_000n);
  const held = await detail(id);
  assert.deepEqual([held.status, held.exceptions], ['cancelled', ['paid_after_cancel']]);
  await endWindow(id);
  assert.equal((await detail(id)).status, 'cancelled');
  const accepted = ok(await resolve(id, 'accept'));
  assert.deepEqual([accepted.status, accepted.amount_received, accepted.exception], ['completed', '0.00100000', null]);
  assert.ok(accepted.completed_at);
  await tells(id, 'created cancelled updated processing completed');
});

test('a payment that is processing or completed cannot be canceled', async () => {
  const id = await createInBitcoin();
  await receive(id, 100_000n, { mined: false });
  assert.equal((await detail(id)).status, 'processing');
  refused(await cancel(id), 409, 'payment_status_conflict');
  const done = await createInBitcoin();
  await receive(done, 100_000n);
  assert.equal((await detail(done)).status, 'completed');
  refused(await cancel(done), 409, 'payment_status_conflict');
  assert.equal((await detail(done)).status, 'completed');
});

test('a cancel after the deadline is too late, even if nobody has read the payment since', async () => {
  const id = await create();
  // The clock advances without settling anything, as while the service is down.
  await app.app.ctx.db.sql`insert into clock_advances (merchant_id, payment_id, seconds) values (${app.merchant.merchantId}, ${id}, 3700)`;
  refused(await cancel(id), 409, 'payment_status_conflict');
});

test('when a cancel and the full amount arrive at the same moment, exactly one wins', async () => {
  for (let i = 0; i < 10; i++) {
    const id = await createInBitcoin();
    const [reply] = await Promise.all([cancel(id), receive(id, 100_000n)]);
    const { status, exceptions } = await detail(id);
    if (reply.status === 200) assert.deepEqual([status, exceptions], ['cancelled', ['paid_after_cancel']]);
    else assert.deepEqual([reply.status, status, exceptions], [409, 'completed', []]);
    await tells(id, reply.status === 200 ? 'created cancelled updated' : 'created processing completed');
  }
});

test('a cancel that asks for it leaves a payment alone once any money has arrived, also at the same moment', async () => {
  const only = (id: string) => app.test.post(`/v1/payments/${id}/cancel`, { only_if_unpaid: true });
  assert.equal(ok(await only(await create())).status, 'cancelled');
  const partly = await createInBitcoin();
  await receive(partly, 40_000n, { mined: false });
  refused(await only(partly), 409, 'payment_has_money');
  assert.deepEqual([(await detail(partly)).status, (await detail(partly)).exception], ['pending', 'underpaid']);
  await tells(partly, 'created updated');
  for (let i = 0; i < 10; i++) {
    const id = await createInBitcoin();
    const [reply] = await Promise.all([only(id), receive(id, 40_000n)]);
    const { status } = await detail(id);
    assert.equal(status, reply.status === 200 ? 'cancelled' : 'pending');
    if (reply.status !== 200) refused(reply, 409, 'payment_has_money');
  }
});

test('a request that names another shop than the payment changes nothing, whatever it asks for', async () => {
  const id = await create({ payment_address: 'test_btc_success', metadata: { shop: 'https://shop.example', order: '12' } });
  await receive(id, 100_000n);
  const before = await detail(id);
  const open = await create({ metadata: { shop: 'https://shop.example' } });
  const noShop = await create();
  const acts: [string, object][] = [
    [`/v1/payments/${open}/cancel`, {}],
    [`/v1/payments/${noShop}/cancel`, {}],
    [`/v1/payments/${id}`, { metadata: { order: '13' } }],
    [`/v1/payments/${id}/resolve`, { action: 'reject' }],
    ['/v1/refunds', { payment_id: id }],
  ];
  for (const shop of ['https://staging.shop.example', 'https://shop.example/', 'https://SHOP.example'])
    for (const [path, body] of acts) refused(await app.test.post(path, { ...body, shop }), 409, 'shop_mismatch', 'shop');
  assert.deepEqual(await detail(id), before);
  assert.deepEqual([(await detail(open)).status, (await detail(noShop)).status], ['pending', 'pending']);
  assert.deepEqual(ok(await app.test.get(`/v1/refunds?payment_id=${id}`)).data, []);
  const shop = 'https://shop.example';
  assert.equal(ok(await app.test.post(`/v1/payments/${id}`, { metadata: { order: '13' }, shop })).metadata.order, '13');
  assert.equal(ok(await app.test.post(`/v1/payments/${open}/cancel`, { shop, only_if_unpaid: true })).status, 'cancelled');
  ok(await app.test.post('/v1/refunds', { payment_id: id, shop }), 201);
});

test('a payment that replaces another one cancels it unless it holds money, and each names the other', async () => {
  const metadata = { shop: 'https://shop.example' };
  const first = await createInBitcoin();
  const second = await create({ replaces: first, metadata });
  const [one, two] = [await detail(first), await detail(second)];
  assert.deepEqual([one.status, one.replaces, one.replaced_by], ['cancelled', null, second]);
  assert.deepEqual([two.status, two.replaces, two.replaced_by], ['pending', first, null]);
  await tells(first, 'created cancelled');
  const [created] = ok(await app.test.get(`/v1/events?payment_id=${second}`)).data;
  assert.deepEqual([created.type, created.data.replaces, created.data.replaced_by], ['payment.created', first, null]);

  refused(await app.test.post('/payments', { amount: '0.001', replaces: first }), 409, 'payment_replaced', 'replaces');
  const other = { shop: 'https://other.example' };
  const body = { amount_usd: '97.00', return_url: RETURN };
  refused(await app.test.post('/api/payment/create/simple', { ...body, replaces: second, metadata: other }), 409, 'shop_mismatch');
  refused(await app.test.post('/api/payment/create/simple', { ...body, replaces: 'pay_nobody' }), 404, 'payment_not_found', 'replaces');
  refused(await app.live.post('/api/payment/create/simple', { ...body, replaces: second }), 404, 'payment_not_found', 'replaces');
  refused(await app.testPublic.post('/api/payment/create/simple', { ...body, replaces: second }), 403, 'secret_key_required', 'replaces');
  assert.deepEqual([(await detail(second)).status, (await detail(second)).replaced_by], ['pending', null]);

  const partly = await createInBitcoin();
  await receive(partly, 40_000n, { mined: false });
  const third = ok(
    await app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: '97.00', currency_fiat: 'USD', replaces: partly }),
    201,
  ).id;
  const held = await detail(partly);
  assert.deepEqual([held.status, held.exception, held.replaced_by], ['pending', 'underpaid', third]);

  const raced = await create();
  const replies = await Promise.all([1, 2, 3].map(() => app.test.post('/api/payment/create/simple', { ...body, replaces: raced })));
  assert.deepEqual(replies.map(({ status }) => status).sort(), [201, 409, 409]);
});

test("another account's payment cannot be canceled, resolved or described, nor with a key of the other mode", async () => {
  const id = await create();
  refused(await cancel(id, app.live), 404, 'payment_not_found');
  refused(await app.live.post(`/v1/payments/${id}/resolve`, { action: 'accept' }), 404, 'payment_not_found');
  refused(await app.live.post(`/v1/payments/${id}`, { metadata: { a: 'b' } }), 404, 'payment_not_found');
  refused(await cancel(id, app.testPublic), 403, 'secret_key_required');
  refused(await cancel(id, app.anonymous), 401, 'invalid_api_key');
  refused(await cancel('pay_000000000000000000000000'), 404, 'payment_not_found');
  await tells(id, 'created');
});

// Resolving

test('accept, reject and refund_sent are refused before the payment ends and after it completes', async () => {
  const pending = await createInBitcoin();
  await receive(pending, 40_000n);
  const completed = await createInBitcoin();
  await receive(completed, 100_000n);
  for (const id of [pending, completed])
    for (const action of ['accept', 'reject', 'refund_sent']) refused(await resolve(id, action), 409, 'payment_status_conflict');
  refused(await resolve(pending, 'keep'), 400, 'parameter_invalid', 'action');
  refused(await app.test.post(`/v1/payments/${pending}/resolve`, {}), 400, 'parameter_missing', 'action');
});

test('there is nothing to accept if nothing was received', async () => {
  const id = await create();
  await endWindow(id);
  assert.equal((await detail(id)).status, 'expired');
  for (const action of ['accept', 'reject', 'refund_sent']) refused(await resolve(id, action), 409, 'nothing_received');
});

test('there is nothing to accept if the money was replaced by another spend', async () => {
  const id = await simulateFromStart('replaced', 'BTC', { status: 'processing', exception: null });
  await eventually(
    () => detail(id),
    (d) => d.exception === 'replaced',
  );
  assert.equal((await detail(id)).status, 'pending');
  await endWindow(id);
  assert.equal((await detail(id)).status, 'failed');
  refused(await resolve(id, 'accept'), 409, 'nothing_received');
  await tells(id, 'created processing updated failed');
});

test('accepting too little completes the failed payment with the amount that arrived', async () => {
  const id = await simulateFromStart('failed', 'LTC', { status: 'pending', exception: 'underpaid' });
  const failed = await reaches(id, 'failed');
  assert.equal(failed.exception, 'underpaid');
  const accepted = ok(await resolve(id, 'accept'));
  assert.deepEqual([accepted.status, accepted.amount_received], ['completed', failed.amount_received]);
  refused(await resolve(id, 'accept'), 409, 'payment_status_conflict');
  await tells(id, 'created updated failed processing completed');
});

test('an accepted late transfer completes only with its confirmation', async () => {
  const id = await createInBitcoin();
  await endWindow(id);
  const ref = await receive(id, 100_000n, { mined: false });
  const late = await detail(id);
  assert.deepEqual(
    [late.status, late.exception, late.amount_received, late.amount_announced],
    ['expired', 'late', '0.00000000', '0.00100000'],
  );
  assert.deepEqual([late.amount_held, late.amount_held_usd], ['0.00000000', '0.00']);
  const listed = await listedOf(id);
  assert.deepEqual([listed.amount_held, listed.amount_held_usd], ['0.00000000', '0.00']);
  const accepted = ok(await resolve(id, 'accept', [ref]));
  assert.deepEqual([accepted.status, accepted.amount_received, accepted.amount_announced], ['processing', '0.00000000', '0.00100000']);
  await app.app.ctx.db.begin((tx) =>
    lockAndSettle(app.app.ctx, tx, [id], async () => {
      await tx`update transfers set block_height = 0, block_hash = ${'b'.repeat(64)}, block_time = clock_timestamp() where payment_id = ${id}`;
    }),
  );
  assert.equal((await detail(id)).status, 'completed');
  await tells(id, 'created expired updated processing completed');
});

test('more late money is reported, and asks again after the first was handled', async () => {
  const { sql } = app.app.ctx.db;
  const id = await createInBitcoin();
  await endWindow(id);
  await receive(id, 30_000n);
  const asks = async () => (await sql<{ attention: boolean }[]>`select attention from payments where id = ${id}`)[0]!.attention;
  const notices = async () => (await sql`select 1 from notices where detail->>'payment' = ${id}`).length;
  const told = await notices();
  assert.ok(await asks());
  const of = { merchantId: app.merchant.merchantId, mode: 'test' as const, paymentId: id, actor: OPERATOR_ACTOR };
  await reviewPayment(app.app.ctx, { ...of, render: () => ({ status: 200, body: Buffer.alloc(0) }) });
  assert.equal(await asks(), false);
  await receive(id, 20_000n, { name: 'c' });
  const late = await detail(id);
  assert.deepEqual([late.status, late.exceptions, late.amount_held], ['expired', ['late'], '0.00050000']);
  assert.ok(await asks());
  assert.equal(await notices(), told + 1);
  await tells(id, 'created expired updated updated');
  // The same facts again are no news.
  await app.app.ctx.db.begin((tx) => lockAndSettle(app.app.ctx, tx, [id], async () => {}));
  await tells(id, 'created expired updated updated');
  // A late transfer that is taken back is: there is less to decide on.
  await app.app.ctx.db.begin((tx) =>
    lockAndSettle(app.app.ctx, tx, [id], async () => {
      await tx`update transfers set block_height = null, block_hash = null, block_time = null, conflict_txid = ${'e'.repeat(64)},
        conflict_height = 1 where payment_id = ${id} and units = 20000`;
    }),
  );
  assert.equal((await detail(id)).amount_held, '0.00030000');
  await tells(id, 'created expired updated updated updated');
});

test('an accept that lists nothing leaves out what was refunded; listed, it counts again', async () => {
  const id = await createInBitcoin();
  await endWindow(id);
  const back = await receive(id, 30_000n);
  await receive(id, 20_000n, { name: 'c' });
  ok(await resolve(id, 'refund_sent', [back]));
  const accepted = ok(await resolve(id, 'accept'));
  assert.deepEqual([accepted.status, accepted.amount_received], ['completed', '0.00050000'], 'both arrived');
  assert.equal(accepted.amount_received_usd, '48.50');
  const none = await createInBitcoin();
  await endWindow(none);
  const only = await receive(none, 30_000n);
  ok(await resolve(none, 'refund_sent'));
  refused(await resolve(none, 'accept'), 409, 'nothing_received');
  const again = ok(await resolve(none, 'accept', [only]));
  assert.deepEqual([again.status, again.amount_received], ['completed', '0.00030000']);
});

test('only the listed transfers are accepted', async () => {
  const id = await createInBitcoin();
  await endWindow(id);
  const ref = await receive(id, 30_000n);
  await receive(id, 20_000n, { name: 'c' });
  refused(await resolve(id, 'accept', ['d'.repeat(64)]), 400, 'parameter_invalid', 'transfers[0]');
  refused(await resolve(id, 'accept', [ref, 'd:0']), 400, 'parameter_invalid', 'transfers[1]');
  refused(await resolve(id, 'accept', []), 400, 'parameter_invalid', 'transfers');
  const accepted = ok(await resolve(id, 'accept', [ref]));
  assert.deepEqual([accepted.status, accepted.amount_received], ['completed', '0.00050000']);
  assert.deepEqual([accepted.amount_held, accepted.amount_held_usd], ['0.00020000', '19.40'], 'the other one stays on hold');
});

for (const action of ['reject', 'refund_sent']) {
  test(`${action} keeps the status, settles the held money, and reports later transfers again`, async () => {
    const id = await createInBitcoin();
    await endWindow(id);
    await receive(id, 100_000n);
    const settled = ok(await resolve(id, action));
    assert.deepEqual([settled.status, settled.exceptions, settled.amount_held], ['expired', [], '0.00000000']);
    await receive(id, 100_000n, { name: 'c' });
    const again = await detail(id);
    assert.deepEqual([again.status, again.exceptions, again.amount_held], ['expired', ['paid_after_cancel'], '0.00100000']);
    await tells(id, 'created expired updated updated updated');
  });
}

test('accepting an ended payment whose end was not recorded yet reports the end first', async () => {
  const id = await createInBitcoin();
  await receive(id, 40_000n);
  await app.app.ctx.db.sql`insert into clock_advances (merchant_id, payment_id, seconds) values (${app.merchant.merchantId}, ${id}, 7300)`;
  assert.equal(ok(await resolve(id, 'accept')).status, 'completed');
  await tells(id, 'created updated failed processing completed');
});

test('a decision repeated with its Idempotency-Key gets the same bytes and takes effect once', async () => {
  const id = await createInBitcoin();
  const again = { 'idempotency-key': `cancel ${id}` };
  const first = await app.test.post(`/v1/payments/${id}/cancel`, {}, again);
  const second = await app.test.post(`/v1/payments/${id}/cancel`, {}, again);
  ok(first);
  ok(second);
  assert.equal(second.text, first.text);
  assert.equal(second.headers.get('idempotent-replayed'), 'true');
  await tells(id, 'created cancelled');
});

// Describing

test('metadata is set at creation and merged later; null or an empty string removes a pair', async () => {
  const odd = { order: 'A-1001', 'クリスマス 🎄': 'مرحبا', constructor: 'x', zero: '0' };
  const id = await create({ metadata: odd });
  assert.deepEqual((await detail(id)).metadata, odd);
  const merged = ok(
    await app.test.post(`/v1/payments/${id}`, { metadata: { order: 'A-1002', customer: 'c-1', zero: null, constructor: '' } }),
  );
  const wanted = { order: 'A-1002', 'クリスマス 🎄': 'مرحبا', customer: 'c-1' };
  assert.deepEqual(merged.metadata, wanted);
  assert.deepEqual((await detail(id)).metadata, wanted);
  // Also after the payment has ended; describing a payment sends no event.
  ok(await cancel(id));
  assert.deepEqual(ok(await app.test.post(`/v1/payments/${id}`, { metadata: {} })).metadata, wanted);
  await tells(id, 'created cancelled');
});

test('a metadata key that parsers read differently is refused and not stored', async () => {
  const before = (await list('')).total_count;
  const body = `{"amount_usd":5,"return_url":"${RETURN}","metadata":{"__proto__":"x"}}`;
  refused(await app.test.post('/api/payment/create/simple', body), 400, 'invalid_json');
  assert.equal((await list('')).total_count, before);
});

test('metadata is limited to 50 pairs, keys of 40, values of 500 and 8 kB in total, at creation and after a merge', async () => {
  const pairs = (count: number, value = 'v') => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, value]));
  const refusedAt = async (metadata: object, code = 'metadata_invalid') =>
    refused(await app.test.post('/api/payment/create/simple', { amount_usd: 5, return_url: RETURN, metadata }), 400, code);
  await refusedAt(pairs(51));
  await refusedAt({ ['k'.repeat(41)]: 'v' });
  await refusedAt({ '': 'v' });
  await refusedAt(pairs(20, 'v'.repeat(450)));
  await refusedAt(pairs(20, '界'.repeat(150)));
  await refusedAt({ k: 'v'.repeat(501) }, 'parameter_invalid');
  await refusedAt({ k: 1 }, 'parameter_invalid');
  const id = await create({ metadata: { ...pairs(49), ['k'.repeat(40)]: 'v'.repeat(500) } });
  refused(await app.test.post(`/v1/payments/${id}`, { metadata: { one_more: 'x' } }), 400, 'metadata_invalid', 'metadata');
  refused(await app.test.post(`/v1/payments/${id}`, {}), 400, 'parameter_missing', 'metadata');
  const swapped = ok(await app.test.post(`/v1/payments/${id}`, { metadata: { one_more: 'x', k0: null } }));
  assert.equal(Object.keys(swapped.metadata).length, 50);
  refused(
    await app.testPublic.post('/api/payment/create/simple', { amount_usd: 5, return_url: RETURN, metadata: { a: 'b' } }),
    400,
    'metadata_invalid',
    'metadata',
  );
});

test('two concurrent merges both take effect', async () => {
  const id = await create();
  await Promise.all(Array.from({ length: 10 }, (_, i) => app.test.post(`/v1/payments/${id}`, { metadata: { [`k${i}`]: String(i) } })));
  assert.equal(Object.keys((await detail(id)).metadata).length, 10);
});

// The page's refund address

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const REFUND_FORM = /id="refund"/;

test('a refund address left on the page is kept as first written; an invalid one is refused and can be corrected', async () => {
  const id = await createInBitcoin();
  ok(await cancel(id));
  await receive(id, 100_000n);
  const page = async () => (await app.anonymous.get(`/pay?id=${id}`)).text;
  const given = await page();
  assert.match(given, REFUND_FORM);
  const token = /name="token" value="([^"]+)"/.exec(given)![1]!;
  const leave = async (fields: Record<string, string>) => {
    const form = new URLSearchParams({ id, token, currency: 'BTC', address: 'test_btc_payer', email: '', ...fields }).toString();
    return (await app.anonymous.post('/pay/refund-address', form, FORM)).status;
  };
  assert.equal(await leave({ token: 'x'.repeat(token.length) }), 404);
  for (const wrong of [
    { address: '  ' },
    { address: 'a'.repeat(201) },
    { address: 'bc1qpayer' },
    { address: 'test_ltc_payer' },
    { address: 'LdP8Qox1VAhCzLJNqrr74YovaWYyNBUWvL' },
    { address: 'bc1\0' },
    { email: 'a@b\0' },
    { email: `${'a'.repeat(200)}@b` },
  ])
    assert.equal(await leave(wrong), 400, JSON.stringify(wrong));
  assert.match(await page(), REFUND_FORM);
  assert.equal(await leave({ email: 'payer@example.com' }), 303);
  assert.match(await page(), /test_btc_payer/);
  assert.doesNotMatch(await page(), REFUND_FORM);
  // An address of a test network. It is not stored, because there already is one.
  const thief = 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx';
  assert.equal(await leave({ address: thief }), 303);
  assert.match(await page(), /test_btc_payer/);
  assert.ok(!(await page()).includes(thief));
});

test('in test mode the refund address of a token is a test identifier with its chain', async () => {
  const paymentId = await createInBitcoin();
  const leave = (address: string) => leaveRefundAddress(app.app.ctx, { paymentId, coin: 'USDC@ethereum', address, email: null });
  await assert.rejects(leave('test_usdc@ethereum_payer'), {
    code: 'address_invalid',
    message:
      'address is not a valid USDC address: use an address that can receive USDC on Ethereum, or a test address such as test_usdc_ethereum_payer.',
  });
  await leave('test_usdc_ethereum_payer');
});

// Events

test('events are paged newest first, each exactly once, as sent, and can be filtered by payment and type', async () => {
  const ids = await Promise.all(Array.from({ length: 5 }, () => create()));
  for (const id of ids) ok(await cancel(id));
  const [recorded] = await app.app.ctx.db.sql<{ count: number }[]>`select count(*)::int as count from events where mode = 'test'`;
  for (const id of ids) await tells(id, 'created cancelled');
  await eventually(
    async () => ok(await app.test.get('/v1/events?limit=1')).data[0]?.data,
    (newest) => newest?.id === ids.at(-1) && newest.status === 'cancelled',
  );
  const all: any[] = [];
  let cursor = '';
  for (;;) {
    const page = ok(await app.test.get(`/v1/events?limit=7${cursor}`));
    assert.equal(page.success, true);
    all.push(...page.data);
    assert.equal(page.data.length, page.has_more ? 7 : page.data.length);
    if (!page.has_more) break;
    cursor = `&starting_after=${page.data.at(-1).id}`;
  }
  assert.equal(new Set(all.map((e) => e.id)).size, all.length);
  assert.equal(all.length, recorded!.count);
  for (const id of ids)
    assert.deepEqual(
      all.filter((e) => e.data.id === id).map((e) => e.type),
      ['payment.cancelled', 'payment.created'],
    );
  assert.deepEqual(ok(await app.test.get('/v1/events?limit=100')).data, all.slice(0, 100));
  assert.deepEqual(ok(await app.test.get('/v1/events?limit=100&payment_id=')).data, all.slice(0, 100));
  const one = all[0];
  assert.deepEqual(ok(await app.test.get(`/v1/events/${one.id}`)), one);
  const cancelled = ok(await app.test.get(`/v1/events?payment_id=${ids[0]}&type=payment.cancelled`)).data;
  assert.deepEqual(
    cancelled.map((e: any) => [e.type, e.data.id, e.data.status]),
    [['payment.cancelled', ids[0], 'cancelled']],
  );
});

test('the events of one payment appear at once; a reader of all events skips nothing that an older transaction may still write', async () => {
  const id = await create();
  const ofAll = async () => ok(await app.test.get('/v1/events?limit=100')).data.filter((e: any) => e.data.id === id).length;
  await app.app.ctx.db.begin(async (tx) => {
    await tx`select pg_current_xact_id()`;
    ok(await cancel(id));
    const page = ok(await app.test.get(`/v1/events?payment_id=${id}&limit=1`));
    assert.deepEqual([page.data.map((e: any) => e.type), page.has_more], [['payment.cancelled'], true]);
    const behind = ok(await app.test.get(`/v1/events?payment_id=${id}&starting_after=${page.data[0].id}`));
    assert.deepEqual([behind.data.map((e: any) => e.type), behind.has_more], [['payment.created'], false]);
    assert.ok((await ofAll()) < 2);
  });
  await eventually(ofAll, (count) => count === 2);
});

test('a long transaction in another database on the same server does not delay the list of events', async () => {
  const other = await testDatabase();
  try {
    await other.db.begin(async (tx) => {
      const [theirs] = await tx<{ xid: bigint }[]>`select pg_current_xact_id()::text::bigint as xid`;
      const id = await create();
      ok(await cancel(id));
      await eventually(
        async () => ok(await app.test.get('/v1/events?limit=100')).data.filter((e: any) => e.data.id === id).length,
        (count) => count === 2,
      );
      const [server] = await app.app.ctx.db.sql<{ oldest: bigint }[]>`
        select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest`;
      assert.ok(server!.oldest <= theirs!.xid, 'it was open all the while, on the same server');
    });
  } finally {
    await other.drop();
  }
});

test('the list of events refuses unknown parameters and shows nothing of the other mode', async () => {
  const [event] = ok(await app.test.get('/v1/events?limit=1')).data;
  assert.deepEqual(ok(await app.live.get('/v1/events')), { success: true, data: [], has_more: false });
  refused(await app.live.get(`/v1/events/${event.id}`), 404, 'event_not_found');
  refused(await app.live.get(`/v1/events?starting_after=${event.id}`), 400, 'cursor_invalid', 'starting_after');
  refused(await app.test.get('/v1/events?starting_after=evt_none'), 400, 'cursor_invalid', 'starting_after');
  refused(await app.test.get(`/v1/events?payment_id=pay_none&starting_after=${event.id}`), 400, 'cursor_invalid', 'starting_after');
  refused(await app.test.get('/v1/events?type=payment.lost'), 400, 'parameter_invalid', 'type');
  for (const limit of ['0', '101', '-1', '1.5', 'abc', ''])
    refused(await app.test.get(`/v1/events?limit=${limit}`), 400, 'parameter_invalid', 'limit');
  refused(await app.testPublic.get('/v1/events'), 403, 'secret_key_required');
});

// Lists

const list = async (query: string): Promise<any> => ok(await app.test.get(`/api/payments?${query}`));
/** Reads all pages of a filter; every page has the same exact total. */
async function walk(filter: string, limit: number): Promise<string[]> {
  const ids: string[] = [];
  let cursor = '';
  for (;;) {
    const page = await list(`limit=${limit}${filter}${cursor}`);
    ids.push(...page.data.map((p: any) => p.transaction_id));
    if (!page.has_more) {
      assert.equal(page.total_count, ids.length);
      return ids;
    }
    assert.equal(page.data.length, limit);
    cursor = `&starting_after=${ids.at(-1)}`;
  }
}

test('starting_after lists all payments, newest first, each once, with any page size', async () => {
  const made: string[] = [];
  for (let i = 0; i < 12; i++) made.unshift(await create());
  const whole = await walk('', 100);
  assert.deepEqual(whole.slice(0, 12), made);
  for (const limit of [1, 3, 10, whole.length]) assert.deepEqual(await walk('', Math.min(limit, 100)), whole);
  assert.equal((await list('')).data.length, 10);
  // Back again from the oldest one.
  const back = await list(`limit=100&ending_before=${whole.at(-1)}`);
  assert.deepEqual(
    back.data.map((p: any) => p.transaction_id),
    whole.slice(0, -1).slice(-100),
  );
});

test('filters by status and coin return exactly their payments with exact totals, which follow every change', async () => {
  const marked = await createInBitcoin();
  const everything = await Promise.all((await walk('', 100)).map(detail));
  for (const status of ['pending', 'processing', 'completed', 'expired', 'cancelled', 'failed'])
    assert.deepEqual(
      await walk(`&status=${status}`, 4),
      everything.filter((d) => d.status === status).map((d) => d.id),
      status,
    );
  for (const coin of ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE'])
    assert.deepEqual(
      await walk(`&currency=${coin}`, 4),
      everything.filter((d) => d.currency === coin).map((d) => d.id),
      coin,
    );
  const before = (await list('status=cancelled&currency=BTC')).total_count;
  ok(await cancel(marked));
  const after = await list('status=cancelled&currency=BTC');
  assert.equal(after.total_count, before + 1);
  assert.equal(after.data[0].transaction_id, marked);
});

test('payments are found by invoice, metadata, amount and time, separately and combined, and after the metadata changed', async () => {
  const make = async (body: object): Promise<string> =>
    ok(await app.test.post('/api/payment/create/simple', { amount_usd: '77.31', return_url: RETURN, ...body }), 201).id;
  const order = { order: 'A=1001', source: 'shop' };
  const first = await make({ invoice_id: 'INV-2026-13', metadata: order });
  const second = await make({ invoice_id: 'INV-2026-13', metadata: { ...order, 'customer id': '7&8' } });
  const third = await make({ invoice_id: 'INV-2026-14', amount_usd: '77.32', metadata: { source: 'shop' } });
  assert.deepEqual(await walk('&invoice_id=INV-2026-13', 1), [second, first]);
  assert.deepEqual(await walk('&invoice_id=inv-2026-13', 1), []);
  assert.deepEqual(await walk('&metadata[order]=A%3D1001', 1), [second, first]);
  assert.deepEqual(await walk('&metadata[source]=shop', 2), [third, second, first]);
  assert.deepEqual(await walk('&metadata[source]=shop&metadata%5Bcustomer%20id%5D=7%268', 2), [second]);
  assert.deepEqual(await walk('&metadata[order%3DA]=1001', 2), []);
  assert.deepEqual(await walk('&amount=77.31', 1), [second, first]);
  assert.deepEqual(await walk('&amount=77.32&metadata[source]=shop&invoice_id=INV-2026-14&status=pending', 1), [third]);
  assert.deepEqual(await walk('&amount=77.32&metadata[source]=shop&currency=BTC', 1), []);
  const back = await list(`metadata[source]=shop&limit=1&ending_before=${first}`);
  assert.deepEqual([back.data[0].id, back.has_more, back.total_count], [second, true, 3]);
  const { created_at } = await detail(second);
  const later = new Date(Date.parse(created_at) + 1).toISOString();
  const found = async (query: string) => (await list(`limit=100&metadata[source]=shop&${query}`)).data.map((p: any) => p.id);
  assert.ok((await found(`created_after=${created_at}&created_before=${later}`)).includes(second));
  assert.ok(!(await found(`created_after=${later}`)).includes(second));
  assert.ok(!(await found(`created_before=${created_at}`)).includes(second));
  assert.deepEqual(await found('created_after=2020-01-01&created_before=2020-01-02T00:00:00%2B02:00'), []);

  ok(await app.test.post(`/v1/payments/${first}`, { metadata: { order: null, source: 'app' } }));
  assert.deepEqual(await walk('&metadata[order]=A%3D1001', 1), [second]);
  assert.deepEqual(await walk('&metadata[source]=app', 1), [first]);
  // They return nothing to another merchant or in the other mode.
  assert.equal(ok(await app.live.get('/api/payments?invoice_id=INV-2026-13')).total_count, 0);
});

test('total_count is exact while payments are being created, and no page skips or repeats one', async () => {
  const before = await walk('', 100);
  const created: string[] = [];
  const makers = Array.from({ length: 8 }, async () => {
    for (let i = 0; i < 15; i++) created.push(await (i % 5 === 4 ? createInBitcoin() : create()));
  });
  let busy = true;
  const makersDone = Promise.all(makers).then(() => {
    busy = false;
  });
  const reader = async () => {
    while (busy) {
      const known = created.length;
      const { total_count } = await list('limit=1');
      // At least as many as were acknowledged before the question, at most as many as had been started by the answer.
      assert.ok(total_count >= before.length + known && total_count <= before.length + created.length + makers.length);
      // Paging from what was the newest payment returns exactly the payments from before.
      const page = await list(`limit=100&starting_after=${before[0]}`);
      assert.deepEqual(
        page.data.map((p: any) => p.transaction_id),
        before.slice(1, 101),
      );
    }
  };
  await Promise.all([makersDone, reader(), reader()]);
  const all = await walk('', 100);
  assert.equal(all.length, before.length + 120);
  assert.deepEqual(new Set(all), new Set([...before, ...created]));
  assert.deepEqual(all.slice(120), before);
});

test('a list refuses unknown parameters', async () => {
  const id = await create();
  for (const limit of ['0', '101', '-1', '1.5', 'abc', '1e1', ''])
    refused(await app.test.get(`/api/payments?limit=${limit}`), 400, 'parameter_invalid', 'limit');
  refused(await app.test.get('/api/payments?limit=1&limit=2'), 400, 'parameter_invalid', 'limit');
  refused(await app.test.get('/api/payments?status=paid'), 400, 'parameter_invalid', 'status');
  refused(await app.test.get('/api/payments?status=Pending'), 400, 'parameter_invalid', 'status');
  refused(await app.test.get('/api/payments?currency=XMR'), 400, 'currency_unknown', 'currency');
  for (const [query, param] of [
    ['invoice_id=', 'invoice_id'],
    [`invoice_id=${'x'.repeat(101)}`, 'invoice_id'],
    ['invoice_id=1&invoice_id=2', 'invoice_id'],
    ['metadata=order', 'metadata'],
    ['metadata[]=1', 'metadata[]'],
    ['metadata[order]=', 'metadata[order]'],
    ['metadata[order]=1&metadata[order]=2', 'metadata[order]'],
    [Array.from({ length: 11 }, (_, i) => `metadata[k${i}]=1`).join('&'), 'metadata'],
    ['amount=1,50', 'amount'],
    ['amount=1.505', 'amount'],
    ['amount=-1', 'amount'],
    ['created_after=yesterday', 'created_after'],
    ['created_after=2026-02-30', 'created_after'],
    ['created_after=2026-02-01T10:00:00', 'created_after'],
    ['created_before=2026-02-01T10:00:00+01:00', 'created_before'],
    ['created_after=2026-02-02&created_before=2026-02-02', 'created_before'],
  ] as const)
    refused(await app.test.get(`/api/payments?${query}`), 400, 'parameter_invalid', param);
  refused(await app.test.get('/api/payments?amount=1000000.01'), 400, 'amount_too_large', 'amount');
  refused(await app.test.get('/api/payments?invoice_id=1&starting_after=pay_none'), 400, 'cursor_invalid', 'starting_after');
  refused(await app.test.get('/api/payments?starting_after=pay_none'), 400, 'cursor_invalid', 'starting_after');
  refused(await app.live.get(`/api/payments?starting_after=${id}`), 400, 'cursor_invalid', 'starting_after');
  refused(await app.test.get(`/api/payments?starting_after=${id}&ending_before=${id}`), 400, 'parameter_invalid', 'ending_before');
  const empty = ok(await app.live.get('/api/payments'));
  assert.deepEqual(empty, { success: true, data: [], has_more: false, total_count: 0 });
});

// Other ways to create

test('a legacy payment requests the fixed amount of its coin, to the last digit, whatever the price', async () => {
  const reply = ok(
    await app.test.post('/payments', { amount: '0.12345678', currency: 'LTC', description: 'Mug', redirect_url: RETURN }),
    201,
  );
  const { id, status, amount, currency, payment_address, payment_url, created_at, expires_at } = reply;
  assert.deepEqual([status, amount, currency, payment_address], ['pending', '0.12345678', 'LTC', 'test_ltc_success']);
  assert.equal(new URL(payment_url).searchParams.get('id'), id);
  assert.equal(Date.parse(expires_at) - Date.parse(created_at), 3_600_000);
  const read = await detail(id);
  assert.deepEqual([read.amount, read.amount_usd, read.description, read.return_url], ['0.12345678', '12.35', 'Mug', RETURN]);
  await simulate(id, 'success', 'LTC');
  const done = await reaches(id, 'completed');
  assert.deepEqual([done.amount_received, done.amount_remaining, done.exception], ['0.12345678', '0.00000000', null]);
});

test('a legacy payment uses the default coin when none is named, and its coin cannot be changed', async () => {
  const { id, currency, amount } = ok(await app.test.post('/payments', { amount: '0.001' }), 201);
  assert.deepEqual([currency, amount], ['BTC', '0.00100000']);
  refused(await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'ETH' }), 409, 'coin_fixed');
  const ether = ok(await app.test.post('/payments', { amount: '0.123456789012345678', currency: 'ETH' }), 201);
  assert.equal(ether.amount, formatUnits('ETH', 123_456_789_012_345_678n));
});

test('a legacy amount that is not valid for its coin is refused', async () => {
  const legacy = (body: object | string) => app.test.post('/payments', body);
  const zero = await legacy({ amount: '0' });
  refused(zero, 400, 'amount_invalid', 'amount');
  assert.equal(zero.json.error.type, 'invalid_request');
  refused(await legacy({ amount: '-1' }), 400, 'amount_invalid', 'amount');
  refused(await legacy({ amount: '0.123456789' }), 400, 'amount_precision', 'amount');
  refused(await legacy({ amount: '0.0000000000000000001', currency: 'ETH' }), 400, 'amount_precision', 'amount');
  refused(await legacy({ amount: '0.00000001' }), 400, 'amount_too_small', 'amount');
  refused(await legacy({ amount: '1000000' }), 400, 'amount_too_large', 'amount');
  refused(await legacy({ amount: '1e-3' }), 400, 'parameter_invalid', 'amount');
  refused(await legacy('{"amount":1e400}'), 400, 'parameter_invalid', 'amount');
  refused(await legacy({}), 400, 'parameter_missing', 'amount');
  refused(await legacy({ amount: '1', currency: 'XMR' }), 400, 'currency_unknown', 'currency');
  refused(await legacy({ amount: '1', redirect_url: 'javascript:alert(1)' }), 400, 'url_invalid', 'redirect_url');
  refused(await app.testPublic.post('/payments', { amount: '1' }), 403, 'secret_key_required');
});

test('a fiat payment names its coin: the amount is quoted at once, and opening the page starts the payment', async () => {
  const reply = ok(
    await app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: 97, currency_fiat: 'USD', return_url: RETURN }),
    201,
  );
  assert.deepEqual(
    [reply.success, reply.status, reply.amount, reply.currency, reply.amount_usd, reply.amount_fiat, reply.currency_fiat],
    [true, 'pending', '0.00100000', 'BTC', '97.00', '97.00', 'USD'],
  );
  assert.equal(reply.id, reply.transaction_id);
  assert.equal(Date.parse(reply.quote_expires_at) - Date.parse(reply.created_at) <= 930_000, true);
  const page = await app.anonymous.get(new URL(reply.payment_url).pathname + new URL(reply.payment_url).search);
  assert.equal(page.status, 200);
  const done = await reaches(reply.id, 'completed');
  assert.equal(done.amount_received, '0.00100000');
  await tells(reply.id, 'created processing completed');
});

test('a fiat payment with other currencies, coins or contradictions is refused under the names of its own fields', async () => {
  const fiat = (body: object) => app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: 10, currency_fiat: 'USD', ...body });
  for (const currency_fiat of ['XXX', 'EU', 'BTC', 'RUB']) refused(await fiat({ currency_fiat }), 400, 'fiat_unsupported', 'currency_fiat');
  refused(await fiat({ crypto: 'XMR' }), 400, 'currency_unknown', 'crypto');
  refused(await fiat({ amount: 0 }), 400, 'amount_invalid', 'amount');
  refused(await fiat({ amount: 10.005 }), 400, 'amount_precision', 'amount');
  refused(await fiat({ amount: '1000000.01' }), 400, 'amount_too_large', 'amount');
  refused(await fiat({ amount: '0.01' }), 400, 'amount_too_small', 'crypto');
  refused(await fiat({ payment_address: 'test_eth_success' }), 400, 'parameter_invalid', 'payment_address');
  refused(
    await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 10, currency_fiat: 'USD' }),
    400,
    'coin_not_configured',
    'crypto',
  );
  refused(
    await app.live.post('/v1/transactions/create', {
      crypto: 'BTC',
      amount: 10,
      currency_fiat: 'USD',
      payment_address: 'test_btc_success',
    }),
    400,
    'test_identifier_in_live',
    'payment_address',
  );
});

test('expires_in sets the window from ten minutes to a day; locale and description are stored with the payment', async () => {
  for (const expires_in of [600, 86_400]) {
    const { created_at, expires_at } = await detail(await create({ expires_in, locale: 'pt-BR', description: 'Zwei Tassen ☕' }));
    assert.equal(Date.parse(expires_at) - Date.parse(created_at), expires_in * 1000);
  }
  for (const expires_in of [599, 86_401, 0, -600, 600.5, '600'])
    refused(
      await app.test.post('/api/payment/create/simple', { amount_usd: 5, return_url: RETURN, expires_in }),
      400,
      'parameter_invalid',
      'expires_in',
    );
  refused(
    await app.test.post('/api/payment/create/simple', { amount_usd: 5, return_url: RETURN, locale: 'x'.repeat(13) }),
    400,
    'parameter_invalid',
    'locale',
  );
  const short = await create({ expires_in: 600 });
  ok(await app.test.post('/v1/test/clock/advance', { seconds: 540, payment_id: short }));
  assert.equal((await detail(short)).status, 'pending');
  ok(await app.test.post('/v1/test/clock/advance', { seconds: 120, payment_id: short }));
  assert.equal((await detail(short)).status, 'expired');
});

const versionOf = async (id: string): Promise<bigint> =>
  (await app.app.ctx.db.sql<{ version: bigint }[]>`select version from payments where id = ${id}`)[0]!.version;
const render = () => ({ status: 200, body: Buffer.alloc(0) });
const owned = (paymentId: string) => ({
  merchantId: app.merchant.merchantId,
  mode: 'test' as const,
  paymentId,
  actor: OPERATOR_ACTOR,
  idempotency: null,
  render,
});

test('a decision locks, reads, settles and writes once', async () => {
  const { ctx } = app.app;
  const id = await create();
  const before = await versionOf(id);
  const cancels = await statementsOf(ctx, (noted) => cancelPayment(noted, owned(id)));
  const kinds = cancels.map((text) => /^(?:select|insert into|update|with) ?(?:\w+)?/.exec(text)?.[0]);
  assert.deepEqual(
    kinds.map((kind) => kind ?? ''),
    ['select id', 'select p', 'insert into decisions', 'select payment_id', 'with written', 'insert into audit_log'],
    cancels.join('\n'),
  );
  assert.equal(await versionOf(id), before + 1n);
});

test('what changes nothing writes nothing: the version, which open pages wait for, stays', async () => {
  const { ctx } = app.app;
  const id = await create({ metadata: { order: '7' } });
  await chooseCoin(ctx, { paymentId: id, coin: 'LTC' });
  const before = await versionOf(id);
  const acts = [
    await statementsOf(ctx, (noted) => chooseCoin(noted, { paymentId: id, coin: 'LTC' })),
    await statementsOf(ctx, (noted) => setMetadata(noted, { ...owned(id), metadata: { order: '7' } })),
    await statementsOf(ctx, (noted) => archivePayment(noted, { ...owned(id), archived: false })),
  ];
  for (const texts of acts) assert.ok(!texts.some((text) => text.includes('update payments p ')), texts.join('\n'));
  // A decision that is refused leaves everything as it was.
  await assert.rejects(
    resolvePayment(ctx, { ...owned(id), action: 'accept', transfers: null }),
    (error: { code?: string }) => error.code === 'payment_status_conflict',
  );
  assert.equal(await versionOf(id), before);
  await setMetadata(ctx, { ...owned(id), metadata: { order: '8' } });
  assert.equal(await versionOf(id), before + 1n);
});
