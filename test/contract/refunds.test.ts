/** Refunds from the request to the confirmation: API, claim page, approval, events; together they never return more than arrived. */
// Invariant: Refunds of a payment never return more than arrived, and each is sent once.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { REFUND_COMMANDS } from '../../src/cli/signing-commands.ts';
import { createApiKey } from '../../src/keys/keys.ts';
import { changeSettings, createMerchant } from '../../src/merchants/merchants.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { simulateOnPage } from '../../src/payments/payments.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

const ACTOR = { userId: '', name: 'Ada', ip: '' };
const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
const OTHER = 'test_btc_payer';
let app: TestApp;
let receiver: Receiver;
let stranger: Client;
before(async () => {
  receiver = await startReceiver();
  app = await startTestApp();
  stranger = app.as((await createMerchant(app.app.ctx, { name: 'Other shop' })).keys.testSecret);
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
});

const made = (reply: Reply): any => {
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
};
const refused = (reply: Reply, status: number, code: string, param: string | null = null) => {
  assert.equal(reply.status, status, reply.text);
  assert.deepEqual([reply.json.error.code, reply.json.error.param], [code, param], reply.text);
};
const operate = (name: string, flags: Record<string, string>): Promise<object> => {
  const command = REFUND_COMMANDS[name];
  assert.ok(command && 'run' in command);
  return command.run(app.app.ctx, flags);
};
const owner = () => ({ merchantId: app.merchant.merchantId, mode: 'test' as const });

async function paid(more: object = {}): Promise<string> {
  const price = { amount_usd: '25.50', return_url: 'https://shop.example/', ...more };
  const { id } = made(await app.test.post('/api/payment/create/simple', price));
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === 'completed',
  );
  return id;
}
const refundOf = async (body: object, headers: Record<string, string> = {}) => app.test.post('/v1/refunds', body, headers);

/** The claim page as a browser without scripts uses it. */
const page = (url: string, fields?: Record<string, string>) =>
  fetch(app.url + new URL(url).pathname, {
    redirect: 'manual',
    ...(fields && {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams(fields).toString(),
    }),
  });
const stateOf = async (reply: Response): Promise<string> => /data-state="(\w+)"/.exec(await reply.text())![1]!;

test('a refund: requested, claimed by the customer, approved, confirmed; every step is reported', async () => {
  const named = made(
    await app.test.post('/v1/webhook_endpoints', {
      url: receiver.url,
      events: ['*', 'refund.requested', 'refund.approved', 'refund.sent', 'refund.confirmed'],
    }),
  );
  const id = await paid();
  const body = { payment_id: id, amount: '10.00', currency_fiat: 'USD', reason: 'Broken mug' };
  const refund = made(await refundOf(body, { 'Idempotency-Key': 'refund-1' }));
  // The same part of the quoted coins as of the price, rounded down.
  assert.deepEqual(
    [refund.status, refund.amount, refund.currency, refund.network, refund.amount_usd, refund.address, refund.reason, refund.mode],
    ['requested', '0.00010309', 'BTC', 'bitcoin', '10.00', null, 'Broken mug', 'test'],
  );
  assert.deepEqual(made(await refundOf(body, { 'Idempotency-Key': 'refund-1' })), refund, 'a repeat creates no second refund');
  const { success: _, ...shown } = refund;
  assert.deepEqual((await app.test.get(`/v1/refunds/${refund.id}`)).json, refund);
  assert.deepEqual((await app.test.get(`/v1/refunds?payment_id=${id}&status=requested`)).json.data, [shown]);
  assert.deepEqual((await app.test.get(`/v1/refunds?payment_id=${id}&status=sent`)).json.data, []);
  refused(await app.test.get('/v1/refunds?status=lost'), 400, 'parameter_invalid', 'status');
  refused(await app.live.get(`/v1/refunds/${refund.id}`), 404, 'refund_not_found');
  refused(await stranger.get(`/v1/refunds/${refund.id}`), 404, 'refund_not_found');
  refused(await stranger.post('/v1/refunds', { payment_id: id }), 404, 'payment_not_found');
  await assert.rejects(approveOutgoing(app.app.ctx, { kind: 'refund', ...owner(), id: refund.id, actor: ACTOR }), {
    code: 'refund_address_missing',
  });

  assert.equal(await stateOf(await page(refund.claim_url)), 'claim');
  assert.equal((await page(`${refund.claim_url.slice(0, -1)}_`)).status, 404);
  const wrong = await page(refund.claim_url, { address: 'bc1qnothing' });
  assert.equal(wrong.status, 400);
  assert.match(await wrong.text(), /role="alert"/);
  assert.equal(await stateOf(await page(refund.claim_url, { address: ADDRESS })), 'check');
  assert.equal((await app.test.get(`/v1/refunds/${refund.id}`)).json.address, null, 'nothing is stored before the customer confirms');
  assert.equal((await page(refund.claim_url, { address: ADDRESS, checked: 'yes' })).status, 303);
  assert.equal(await stateOf(await page(refund.claim_url)), 'requested');
  assert.equal((await page(refund.claim_url, { address: OTHER, checked: 'yes' })).status, 409);
  assert.equal((await app.test.get(`/v1/refunds/${refund.id}`)).json.address, ADDRESS);
  const token = refund.claim_url.split('/').at(-1)!;
  const [stored] = await app.app.ctx.db.sql`select one::text as text from outgoing_payments one where id = ${refund.id}`;
  assert.ok(!stored!.text.includes(token), 'the database has only the hash of the token');

  const flags = { merchant: app.merchant.merchantId, mode: 'test' };
  const { refunds } = (await operate('refund list', { ...flags, state: 'requested' })) as any;
  assert.deepEqual(refunds, [{ ...shown, address: ADDRESS }]);
  await operate('refund approve', { ...flags, refund: refund.id });
  const done = (await app.test.get(`/v1/refunds/${refund.id}`)).json;
  assert.equal(done.status, 'confirmed');
  assert.match(done.transaction_hash, /^[0-9a-f]{64}$/);
  assert.equal(await stateOf(await page(refund.claim_url)), 'confirmed');
  assert.equal((await app.test.get(`/api/payment/${id}`)).json.amount_refunded, '0.00010309');
  refused(await app.test.post(`/v1/refunds/${refund.id}/cancel`), 409, 'refund_state');

  const told = await eventually(
    async () =>
      receiver.received.map(({ event }) => event).filter((event) => event.data.payment_id === id && event.type.startsWith('refund.')),
    (events) => events.length === 4,
  );
  const inOrder = told.toSorted((a, b) => a.data.sequence - b.data.sequence);
  assert.deepEqual(
    inOrder.map(({ type, data }) => [type, data.status, data.transaction_hash !== null]),
    [
      ['refund.requested', 'requested', false],
      ['refund.approved', 'approved', false],
      ['refund.sent', 'sent', true],
      ['refund.confirmed', 'confirmed', true],
    ],
  );
  const { data } = (await app.test.get(`/v1/events?payment_id=${id}&limit=100`)).json;
  assert.deepEqual(
    data.map((event: any) => event.data.sequence),
    data.map((_: unknown, i: number) => data.length - i),
    'events of a payment and its refunds are numbered without a gap',
  );
  await app.test.delete(`/v1/webhook_endpoints/${named.id}`);
});

test('amounts: all that is left, the coin, a currency, the current rate; what cannot be refunded is refused by name, with the limit in both', async () => {
  const id = await paid({ amount_usd: undefined, amount: '30.00', currency_fiat: 'EUR' });
  const payment = (await app.test.get(`/api/payment/${id}`)).json;
  const third = await Promise.all(
    [1, 2, 3].map(() => refundOf({ payment_id: id, amount: '10.00', currency_fiat: 'EUR', address: ADDRESS })),
  );
  const parts = third.map((reply) => made(reply));
  assert.deepEqual([parts[0].address, parts[0].claim_url], [ADDRESS, null]);
  const sum = (refunds: any[]) => refunds.reduce((total, one) => total + BigInt(one.amount.replace('.', '')), 0n);
  const left = BigInt(payment.amount_received.replace('.', '')) - sum(parts);
  assert.ok(left >= 0n && left < 3n, 'thirds in the currency of the payment are thirds of its coins');
  const above = await refundOf({ payment_id: id, amount: '0.00001000' });
  refused(above, 409, 'refund_exceeds', 'amount');
  assert.match(above.json.error.message, /^At most 0\.0000000[0-2] BTC \(0\.00 EUR\) of this payment/, 'as merchants think of it');
  await app.test.post(`/v1/refunds/${parts[0].id}/cancel`);
  refused(await refundOf({ payment_id: id, amount: '0.000010001' }), 400, 'amount_precision', 'amount');
  assert.equal(made(await refundOf({ payment_id: id, amount: '0.00001000' })).amount, '0.00001000');
  const current = made(await refundOf({ payment_id: id, amount_usd: '2.00', rate: 'current' }));
  assert.deepEqual([current.amount, current.rate], ['0.00002061', 'current']);
  const rest = made(await refundOf({ payment_id: id }));
  assert.equal(sum([parts[1], parts[2], current, rest]) + 1000n, BigInt(payment.amount_received.replace('.', '')));
  refused(await refundOf({ payment_id: id }), 409, 'refund_exceeds', 'amount');

  const waits = made(await app.test.post('/api/payment/create/simple', { amount_usd: 5, return_url: 'https://shop.example/' })).id;
  refused(await refundOf({ payment_id: waits }), 409, 'refund_exceeds', 'payment_id');
  const inYen = { amount: '500', currency_fiat: 'JPY', return_url: 'https://shop.example/' };
  const unpaid = await refundOf({ payment_id: made(await app.test.post('/api/payment/create/simple', inYen)).id });
  refused(unpaid, 409, 'refund_exceeds', 'payment_id');
  assert.match(unpaid.json.error.message, /^At most 0 JPY /);
  const open = await paid();
  refused(await refundOf({ payment_id: open, address: 'LLGXPgH6PB5pEYqbmFP1rDp2eKzTfGVJkS' }), 400, 'address_invalid', 'address');
  refused(await refundOf({ payment_id: open, amount_usd: 1, amount: 1 }), 400, 'parameter_invalid', 'amount_usd');
  refused(await refundOf({ payment_id: open, currency_fiat: 'USD' }), 400, 'parameter_missing', 'amount');
  refused(await refundOf({ payment_id: open, amount_usd: '0' }), 400, 'amount_invalid', 'amount_usd');
  refused(await refundOf({ payment_id: open, reason: 'x'.repeat(201) }), 400, 'parameter_invalid', 'reason');
  refused(await refundOf({}), 400, 'parameter_missing', 'payment_id');
});

test('nothing can be refunded while the block of what is reserved is being replaced', async () => {
  const id = await paid();
  made(await refundOf({ payment_id: id, address: ADDRESS }));
  await app.app.ctx.db.sql`update transfers set block_height = null, block_hash = null where payment_id = ${id}`;
  for (const amount of [{}, { amount: '0.00001000' }, { amount_usd: '1.00' }, { amount_usd: '1.00', rate: 'current' }])
    refused(await refundOf({ payment_id: id, address: ADDRESS, ...amount }), 409, 'refund_exceeds', 'amount');
});

test('parts in a currency are priced as the money was when it arrived, not by a later quote', async () => {
  const id = await paid();
  await app.app.ctx.db.sql`
    insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
    select payment_id, number + 1, merchant_id, coin, address, rate_e8 * 5 / 6, units * 6 / 5, until_at, until_at + interval '15 minutes'
    from quotes where payment_id = ${id} and coin = 'BTC' order by number desc limit 1`;
  const received = BigInt((await app.test.get(`/api/payment/${id}`)).json.amount_received.replace('.', ''));
  const unitsOf = (refund: any) => BigInt(refund.amount.replace('.', ''));
  const half = made(await refundOf({ payment_id: id, amount_usd: '12.75' }));
  assert.deepEqual([unitsOf(half), half.amount_usd], [received / 2n, '12.75']);
  await app.test.post(`/v1/refunds/${half.id}/cancel`);
  assert.equal(unitsOf(made(await refundOf({ payment_id: id, amount_usd: '22.95' }))), (received * 9n) / 10n);
});

test('money in another coin than the payment has: returned by default if nothing else arrived, or by name, each with its own limit', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const of = async (id: string) => (await app.test.get(`/api/payment/${id}`)).json;
  const create = async () =>
    made(await app.test.post('/api/payment/create/simple', { amount_usd: '25.50', return_url: 'https://shop.example/' })).id as string;
  const arrived = (id: string, count: number) =>
    eventually(
      () => of(id),
      ({ transfers }) => transfers.length === count && transfers.every((t: any) => t.block_height !== null),
    );
  // The customer chose BTC, then ETH, and paid BTC late.
  const late = await create();
  await app.test.post(`/v1/test/payments/${late}/simulate`, { scenario: 'late', currency: 'BTC' });
  await arrived(late, 1);
  await sql`
    insert into quotes (payment_id, number, merchant_id, coin, address, rate_e8, units, from_at, until_at)
    select payment_id, number + 1, merchant_id, 'ETH', address, rate_e8, units, until_at, until_at + interval '15 minutes'
    from quotes where payment_id = ${late} order by number desc limit 1`;
  assert.equal((await of(late)).currency, 'ETH');
  const whole = await eventually(
    () => refundOf({ payment_id: late }),
    ({ status }) => status === 201,
  );
  assert.deepEqual([whole.json.currency, whole.json.amount], ['BTC', '0.00026289']);
  refused(await refundOf({ payment_id: late }), 409, 'refund_exceeds', 'amount');
  refused(await refundOf({ payment_id: late, currency: 'ETH' }), 409, 'refund_exceeds', 'currency');

  // One transfer came on another network, and the payment was then paid as asked.
  const id = await create();
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'wrong_network', currency: 'USDC', network: 'ethereum' });
  const [mistaken] = (await arrived(id, 1)).transfers;
  assert.notEqual(mistaken.network, 'ethereum');
  await simulateOnPage(ctx, { paymentId: id, scenario: 'success' });
  await arrived(id, 2);
  const ask = (more: object) => refundOf({ payment_id: id, address: '0x52908400098527886E0F7030069857D2E4169EE7', ...more });
  refused(await ask({ currency: 'USDC' }), 400, 'parameter_missing', 'network');
  refused(await ask({ network: 'ethereum' }), 400, 'parameter_missing', 'currency');
  refused(await ask({ currency: 'BTC' }), 409, 'refund_exceeds', 'currency');
  const named = { currency: 'USDC', network: mistaken.network };
  refused(await ask({ ...named, amount: '25.51' }), 409, 'refund_exceeds', 'amount');
  const replies = await Promise.all(['15.00', '15.00'].map((amount) => ask({ ...named, amount })));
  assert.deepEqual(replies.map(({ status }) => status).toSorted(), [201, 409], 'together not more than arrived');
  const rest = made(await ask(named));
  assert.deepEqual([rest.currency, rest.network, rest.amount], ['USDC', mistaken.network, '10.50']);
  const own = made(await ask({}));
  assert.deepEqual([own.currency, own.network, own.amount], ['USDC', 'ethereum', '25.50'], 'the other coin has its own limit');
  for (const { id: refund } of [rest, own]) await approveOutgoing(ctx, { kind: 'refund', ...owner(), id: refund, actor: ACTOR });
  assert.equal((await of(id)).amount_refunded, '25.50', 'in the coin of the payment');
});

test('a link of a claim page expires, and a canceled refund says so', async () => {
  const id = await paid();
  const refund = made(await refundOf({ payment_id: id, amount_usd: '5.00' }));
  await app.app.ctx.db.sql`update outgoing_payments set claim_until = created_at where id = ${refund.id}`;
  assert.equal(await stateOf(await page(refund.claim_url)), 'expired');
  assert.equal((await page(refund.claim_url, { address: ADDRESS, checked: 'yes' })).status, 409);
  await app.test.post(`/v1/refunds/${refund.id}/cancel`);
  assert.equal(await stateOf(await page(refund.claim_url)), 'canceled');
});

test('the link of a claim page is stored nowhere: not in events, the log of requests or repeated replies', async () => {
  const { sql } = app.app.ctx.db;
  const id = await paid();
  // Of a key with few requests, all are logged.
  const { key } = await createApiKey(app.app.ctx, { ...owner(), kind: 'secret' });
  const shop = app.as(key);
  const refund = made(await shop.post('/v1/refunds', { payment_id: id, reason: 'Kept' }, { 'Idempotency-Key': 'claim' }));
  assert.equal((await shop.get(`/v1/refunds/${refund.id}`)).json.claim_url, refund.claim_url);
  await shop.get(`/v1/refunds?payment_id=${id}`);
  await shop.post(`/v1/refunds/${refund.id}/cancel`);
  const { data } = (await app.test.get(`/v1/events?payment_id=${id}`)).json;
  const [canceled] = data.filter(({ type }: any) => type.startsWith('refund.'));
  assert.deepEqual([canceled.data.claim_url, canceled.data.claim_expires_at], [null, refund.claim_expires_at]);
  await eventually(
    () => sql`select 1 from requests where response_body like ${`%${refund.id}%`} and path like '/v1/refunds%'`,
    (rows) => rows.length === 4,
  );
  const token = refund.claim_url.split('/').at(-1)!;
  const texts = [token, Buffer.from(token).toString('hex')].map((text) => `%${text}%`);
  const tables = await sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema()`;
  assert.ok(tables.length > 50);
  for (const { name } of tables)
    assert.equal((await sql`select 1 from ${sql(name)} as t where t::text like any(${texts}) limit 1`).length, 0, name);
});

test('a new claim link stops the one before, also after it expired; there is none once an address was entered', async () => {
  const id = await paid();
  const refund = made(await app.test.post('/v1/refunds', { payment_id: id, amount_usd: '1.00' }));
  await app.app.ctx.db.sql`update outgoing_payments set claim_until = clock_timestamp() - interval '1 minute' where id = ${refund.id}`;
  refused(await stranger.post(`/v1/refunds/${refund.id}/claim_link`), 404, 'refund_not_found');
  const headers = { 'idempotency-key': 'new-link' };
  const first = await app.test.post(`/v1/refunds/${refund.id}/claim_link`, undefined, headers);
  assert.equal(first.status, 200, first.text);
  assert.equal((await app.test.post(`/v1/refunds/${refund.id}/claim_link`, undefined, headers)).json.claim_url, first.json.claim_url);
  const second = (await operate('refund link', { merchant: app.merchant.merchantId, mode: 'test', refund: refund.id })) as any;
  const links = [refund, first.json, second].map(({ claim_url }) => new URL(claim_url).pathname);
  assert.equal(new Set(links).size, 3);
  assert.ok(new Date(second.claim_expires_at) > new Date(), second.claim_expires_at);
  assert.equal((await app.test.get(`/v1/refunds/${refund.id}`)).json.claim_url, second.claim_url);
  const fields = new URLSearchParams({ address: OTHER, checked: 'yes' });
  const claim = (path: string) => fetch(app.url + path, { method: 'POST', redirect: 'manual', body: fields }).then(({ status }) => status);
  assert.deepEqual([await claim(links[0]!), await claim(links[1]!), await claim(links[2]!)], [404, 404, 303]);
  refused(await app.test.post(`/v1/refunds/${refund.id}/claim_link`), 409, 'refund_state');
  await app.test.post(`/v1/refunds/${refund.id}/cancel`);
  refused(await app.test.post(`/v1/refunds/${refund.id}/claim_link`), 409, 'refund_state');
});

test('an approved refund is sent once: another transaction is refused, and the API cannot cancel it', async () => {
  const id = await paid();
  const refund = made(await refundOf({ payment_id: id, address: ADDRESS }));
  // As in live mode, where the money is sent by the merchant.
  const { ctx } = app.app;
  await ctx.db.sql`update outgoing_payments set state = 'approved' where id = ${refund.id}`;
  refused(await app.test.post(`/v1/refunds/${refund.id}/cancel`), 409, 'refund_state');
  const asked = made(await refundOf({ payment_id: await paid(), address: ADDRESS }));
  await assert.rejects(markOutgoingSent(ctx, { kind: 'refund', ...owner(), id: asked.id, txid: 'a'.repeat(64), actor: ACTOR }), {
    message: /is requested, so it cannot be marked as sent now\./,
  });
  const send = (txid: string) => markOutgoingSent(ctx, { kind: 'refund', ...owner(), id: refund.id, txid, actor: ACTOR });
  await assert.rejects(send('nothing'), { code: 'parameter_invalid' });
  const sent = await Promise.allSettled(['a', 'b', 'c'].map((digit) => send(digit.repeat(64))));
  assert.deepEqual(sent.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected']);
  const { transaction_hash: txid } = (await app.test.get(`/v1/refunds/${refund.id}`)).json;
  assert.equal((await send(txid.toUpperCase())).state, 'sent', 'the same transaction again changes nothing');
  const cancel = cancelOutgoing(ctx, {
    kind: 'refund',
    ...owner(),
    id: refund.id,
    actor: ACTOR,
    idempotency: null,
    render: () => ({ status: 200, body: '' }),
  });
  await assert.rejects(cancel, { code: 'refund_state' });
  assert.equal((await app.test.get(`/api/payment/${id}`)).json.amount_refunded, refund.amount);
});

test('a refund that was sent and failed can be marked as sent with the transaction that paid the customer, and is final then', async () => {
  const { ctx } = app.app;
  const id = await paid();
  const refund = made(await refundOf({ payment_id: id, address: ADDRESS }));
  await ctx.db.sql`update outgoing_payments set state = 'approved' where id = ${refund.id}`;
  const send = (txid: string) => markOutgoingSent(ctx, { kind: 'refund', ...owner(), id: refund.id, txid, actor: ACTOR });
  await send('a'.repeat(64));
  // As when another transaction spent the money of its file.
  await ctx.db.sql`update outgoing_payments set state = 'failed', ended_at = clock_timestamp(), failure = 'lost' where id = ${refund.id}`;
  const sent = await send('b'.repeat(64));
  assert.deepEqual([sent.state, sent.txid, sent.failure, sent.endedAt], ['sent', 'b'.repeat(64), null, null]);
  await assert.rejects(send('c'.repeat(64)), { code: 'refund_state' });
  const { data } = (await app.test.get(`/v1/events?payment_id=${id}&limit=100`)).json;
  const told = data.filter(({ type }: any) => type === 'refund.sent');
  assert.deepEqual(
    told.map((event: any) => event.data.transaction_hash),
    ['b'.repeat(64), 'a'.repeat(64)],
  );
  assert.notEqual(told[0].id, told[1].id);
});

test('concurrent requests, approvals and cancels never return more than arrived', async (t) => {
  const { ctx } = app.app;
  let requests = 0;
  for (let round = 0; round < 4; round++) {
    const id = await paid();
    const received = 26_289n;
    const replies = await Promise.all(
      Array.from({ length: 16 }, async (_, i) => {
        const units = 2_000 + ((i * 7_919 + round * 104_729) % 9_000);
        const reply = await refundOf({ payment_id: id, amount: (units / 1e8).toFixed(8), address: ADDRESS });
        requests++;
        if (reply.status !== 201) return refused(reply, 409, 'refund_exceeds', 'amount');
        if (i % 3 === 0) await app.test.post(`/v1/refunds/${reply.json.id}/cancel`);
        else if (i % 3 === 1) await approveOutgoing(ctx, { kind: 'refund', ...owner(), id: reply.json.id, actor: ACTOR });
        return reply.json.id as string;
      }),
    );
    assert.ok(replies.some((one) => typeof one === 'string'));
    const rows = (await app.test.get(`/v1/refunds?payment_id=${id}&limit=100`)).json.data as any[];
    const unitsOf = (wanted: (status: string) => boolean) =>
      rows.filter((one) => wanted(one.status)).reduce((sum, one) => sum + BigInt(one.amount.replace('.', '')), 0n);
    assert.ok(unitsOf((status) => status !== 'canceled') <= received);
    const { json } = await app.test.get(`/api/payment/${id}`);
    assert.equal(
      BigInt(json.amount_refunded.replace('.', '')),
      unitsOf((status) => status === 'confirmed'),
    );
  }
  t.diagnostic(`${requests} requests`);
});

test('held money that a refund returns cannot be accepted; canceling the refund frees it', async () => {
  const late = async (): Promise<string> => {
    const { id } = made(await app.test.post('/api/payment/create/simple', { amount_usd: '25.50', return_url: 'https://shop.example/' }));
    await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'late', currency: 'BTC' });
    await eventually(
      () => app.test.get(`/api/payment/${id}`),
      ({ json }) => json.exception === 'late' && json.transfers[0].block_height !== null,
    );
    return id;
  };
  const accept = (id: string) => app.test.post(`/v1/payments/${id}/resolve`, { action: 'accept' });
  const id = await late();
  const refund = made(await refundOf({ payment_id: id, amount: '0.00010000', address: ADDRESS }));
  await approveOutgoing(app.app.ctx, { kind: 'refund', ...owner(), id: refund.id, actor: ACTOR });
  const reply = await accept(id);
  refused(reply, 409, 'money_refunded');
  assert.match(reply.json.error.message, /^Refunds returned 0\.00010000 BTC of this payment/);
  const [{ ref }] = (await app.test.get(`/api/payment/${id}`)).json.transfers;
  refused(await app.test.post(`/v1/payments/${id}/resolve`, { action: 'accept', transfers: [ref] }), 409, 'money_refunded');
  assert.equal((await app.test.get(`/api/payment/${id}`)).json.status, 'expired');

  const other = await late();
  const approved = made(await refundOf({ payment_id: other, address: ADDRESS }));
  // As in live mode, where the money may have been sent from the approval on.
  await app.app.ctx.db.sql`update outgoing_payments set state = 'approved' where id = ${approved.id}`;
  refused(await accept(other), 409, 'money_refunded');
  await operate('refund cancel', { merchant: app.merchant.merchantId, mode: 'test', refund: approved.id });
  assert.equal((await accept(other)).status, 200);
});

test('after a partial refund, late money is not accepted automatically; canceling the refund accepts it', async () => {
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  const of = async (id: string) => (await app.test.get(`/api/payment/${id}`)).json;
  const short = async (): Promise<string> => {
    const { id } = made(await app.test.post('/api/payment/create/simple', { amount_usd: '25.50', return_url: 'https://shop.example/' }));
    await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'failed', currency: 'BTC' });
    await eventually(
      () => of(id),
      ({ status, transfers }) => status === 'failed' && transfers[0].block_height !== null,
    );
    return id;
  };
  const payLate = async (id: string) => {
    await simulateOnPage(ctx, { paymentId: id, scenario: 'late' });
    return eventually(
      () => of(id),
      ({ transfers }) => transfers.length === 2,
    );
  };
  await changeSettings(ctx, { merchantId, settings: { lateAcceptMinutes: 60 } });
  const [whole, refunded, canceled] = [await short(), await short(), await short()];
  await changeSettings(ctx, { merchantId, settings: { lateAcceptMinutes: null } });
  assert.equal((await payLate(whole)).status, 'completed');

  const { id } = made(await refundOf({ payment_id: refunded, amount: '0.00010000', address: ADDRESS }));
  await approveOutgoing(ctx, { kind: 'refund', ...owner(), id, actor: ACTOR });
  const held = await payLate(refunded);
  assert.deepEqual([held.status, held.exception, held.amount_refunded], ['failed', 'late', '0.00010000']);
  refused(await app.test.post(`/v1/payments/${refunded}/resolve`, { action: 'accept' }), 409, 'money_refunded');

  const approved = made(await refundOf({ payment_id: canceled, amount: '0.00010000', address: ADDRESS }));
  // As in live mode, where the money may have been sent from the approval on.
  await ctx.db.sql`update outgoing_payments set state = 'approved' where id = ${approved.id}`;
  assert.equal((await payLate(canceled)).status, 'failed');
  await operate('refund cancel', { merchant: merchantId, mode: 'test', refund: approved.id });
  assert.equal((await of(canceled)).status, 'completed');
});

test('a part of a pending payment is returned only once the payment ended, because more money could complete it', async () => {
  const of = async (id: string) => (await app.test.get(`/api/payment/${id}`)).json;
  const { id } = made(await app.test.post('/api/payment/create/simple', { amount_usd: '25.50', return_url: 'https://shop.example/' }));
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'underpaid', currency: 'BTC' });
  await eventually(
    () => of(id),
    ({ status, exception, transfers }) => status === 'pending' && exception === 'underpaid' && transfers[0].block_height !== null,
  );
  const refund = made(await refundOf({ payment_id: id, address: ADDRESS }));
  const approve = () => approveOutgoing(app.app.ctx, { kind: 'refund', ...owner(), id: refund.id, actor: ACTOR });
  await assert.rejects(approve, { code: 'refund_payment_pending' });
  assert.equal((await app.test.get(`/v1/refunds/${refund.id}`)).json.status, 'requested');
  assert.equal((await app.test.post(`/v1/payments/${id}/cancel`, {})).status, 200);
  assert.deepEqual(await approve(), { approved: 1, waiting: 0 });
  assert.equal((await app.test.get(`/v1/refunds/${refund.id}`)).json.status, 'confirmed');
  const ended = await of(id);
  assert.deepEqual([ended.status, ended.amount_refunded], ['cancelled', refund.amount]);
});
