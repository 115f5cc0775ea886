/** The SDK against the running service: every request, lists, errors, retries over a connection that fails. */
// Invariant: The SDK makes every request there is, and a lost reply creates nothing twice.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { after, before, test } from 'node:test';
import {
  API_VERSION,
  ApiError,
  AuthenticationError,
  type Client,
  ConflictError,
  ConnectionError,
  createClient,
  FlorinError,
  IdempotencyError,
  InvalidRequestError,
  NotFoundError,
  type PaymentEvent,
  PermissionError,
  RateLimitError,
  ServerError,
  TimeoutError,
  UnavailableError,
  VERSION,
  type WebhookEvent,
  webhooks,
} from '../../sdk/src/index.ts';
import { delayMs } from '../../sdk/src/request.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { validatingFetch } from '../kit/openapi.ts';
import { giveInvoice } from '../kit/payments.ts';
import { startReceiver } from '../kit/receiver.ts';
import { passOn, serve } from '../kit/serve.ts';

let app: TestApp;
let client: Client;
let live: Client;
/** Method and path of every successful request. */
const called = new Set<string>();
/** Requests and responses of the client that the API document does not describe. */
const violations: string[] = [];
const PARAMS = { amount_usd: '25.50', return_url: 'https://shop.example/thanks' } as const;

before(async () => {
  app = await startTestApp();
  const onResponse = ({ method, path, status }: { method: string; path: string; status: number }) => {
    if (status < 300) called.add(`${method} ${path}`);
  };
  const document = (await app.anonymous.get('/openapi.json')).json;
  const fetch = validatingFetch(document, violations);
  client = createClient({ url: `${app.url}/`, key: app.merchant.keys.testSecret, onResponse, fetch });
  live = createClient({ url: app.url, key: app.merchant.keys.liveSecret, fetch });
});
after(() => app?.stop());

const create = async (more: object = {}) => (await client.payments.createSimple({ ...PARAMS, ...more })).id;

test('a simple payment is created, read, given metadata, and canceled', async () => {
  const made = await client.payments.createSimple({ ...PARAMS, description: 'Two mugs', metadata: { order: 'A-1001' } });
  assert.equal(made.success, true);
  assert.equal(made.transaction_id, made.id);
  assert.equal(made.amount_usd, '25.50');
  assert.equal(made.mode, 'test');
  const read = await client.payments.retrieve(made.id);
  assert.equal(read.status, 'pending');
  assert.deepEqual(read.metadata, { order: 'A-1001' });
  const changed = await client.payments.updateMetadata(made.id, { order: null, note: 'gift' });
  assert.deepEqual(changed.metadata, { note: 'gift' });
  assert.equal((await client.payments.cancel(made.id)).status, 'cancelled');
});

test('payments with items, with a named coin and with a fixed coin amount are created', async () => {
  const advanced = await client.payments.createAdvanced({
    return_url: PARAMS.return_url,
    items: [{ product_id: 'mug', name: 'Mug', quantity: 2, unit_price: '12.50' }],
    tax: '0.50',
    invoice_id: 'INV-1',
  });
  assert.equal(advanced.amount_usd, '25.50');
  assert.equal(advanced.items_count, 1);
  const named = await client.payments.createTransaction({ crypto: 'LTC', amount: 10, currency_fiat: 'USD' });
  assert.equal(named.currency, 'LTC');
  assert.equal(named.amount, '0.10000000');
  const fixed = await client.payments.createLegacy({ amount: '1.25', currency: 'LTC', redirect_url: PARAMS.return_url });
  assert.equal(fixed.amount, '1.25000000');
});

test('a scenario is run and awaited, and its transaction and events are read', async () => {
  const id = await create();
  await client.test.simulate(id, { scenario: 'success', currency: 'BTC' });
  const done = await client.payments.waitFor(id, { timeoutMs: 30_000, intervalMs: 100 });
  assert.equal(done.status, 'completed');
  const found = await client.crypto.transaction(done.transaction_hash!, 'BTC');
  assert.equal(found.txid, done.transaction_hash);
  assert.equal(found.status, 'confirmed');
  const { data } = await client.events.list({ payment_id: id, limit: 100 });
  assert.equal(data.at(-1)!.type, 'payment.created');
  assert.equal(data[0]!.type, 'payment.completed');
  const event = await client.events.retrieve(data[0]!.id);
  assert.equal(event.type, 'payment.completed');
  assert.equal(event.data.status, 'completed');
  assert.deepEqual(JSON.parse(await client.events.retrieveRaw(event.id)), event);
});

test('the clock of a slow payment is advanced until it is completed', async () => {
  const id = await create();
  await client.test.simulate(id, { scenario: 'slow', currency: 'ETH' });
  await client.payments.waitFor(id, { until: 'processing', timeoutMs: 30_000, intervalMs: 100 });
  const clock = await client.test.advanceClock({ seconds: 700, payment_id: id });
  assert.equal(clock.success, true);
  const done = await client.payments.waitFor(id, { until: ['completed', 'failed'], timeoutMs: 30_000, intervalMs: 100 });
  assert.equal(done.status, 'completed');
});

test('a late payment is resolved', async () => {
  const id = await create();
  await client.test.simulate(id, { scenario: 'late' });
  const late = await client.payments.waitFor(id, { until: (payment) => payment.exception === 'late', timeoutMs: 30_000, intervalMs: 100 });
  assert.equal(late.status, 'expired');
  assert.deepEqual(await client.payments.listTransfers(id, { limit: 1 }).toArray({ limit: 10 }), late.transfers);
  await client.payments.resolve(id, { action: 'accept', transfers: [late.transfers[0]!.ref] });
  assert.equal((await client.payments.waitFor(id, { until: 'completed', timeoutMs: 30_000, intervalMs: 100 })).status, 'completed');
});

test('a refund is requested, read, listed and canceled', async () => {
  const id = await create();
  await client.test.simulate(id, { scenario: 'success', currency: 'BTC' });
  await client.payments.waitFor(id, { timeoutMs: 30_000, intervalMs: 100 });
  const made = await client.refunds.create({ payment_id: id, amount_usd: '10.00', reason: 'Broken mug' });
  assert.equal(made.status, 'requested');
  assert.equal((await client.refunds.retrieve(made.id)).claim_url, made.claim_url);
  assert.deepEqual(
    (await client.refunds.list({ payment_id: id })).data.map((one) => one.id),
    [made.id],
  );
  assert.notEqual((await client.refunds.renewClaimLink(made.id)).claim_url, made.claim_url);
  const paid = await client.refunds.create({ payment_id: id, amount_usd: '1.00' });
  await giveInvoice(app, { refund: paid.id, preimage: '01'.repeat(32) });
  await assert.rejects(client.refunds.prove(paid.id, { preimage: '00'.repeat(32) }), /not the preimage/);
  assert.equal((await client.refunds.prove(paid.id, { preimage: '01'.repeat(32) })).status, 'confirmed');
  assert.equal((await client.refunds.cancel(made.id)).status, 'canceled');
});

test('a payout is requested, read, listed and canceled', async () => {
  const made = await client.payouts.create({ currency: 'BTC', amount_usd: '10.00', address: 'test_btc_payer', payout_reference: 'ada-1' });
  assert.equal(made.status, 'requested');
  assert.equal((await client.payouts.retrieve(made.id)).amount_usd, '10.00');
  assert.deepEqual(
    (await client.payouts.list({ payout_reference: 'ada-1' })).data.map((one) => one.id),
    [made.id],
  );
  assert.equal((await client.payouts.cancel(made.id)).status, 'canceled');
});

test('prices, a balance and fees are looked up', async () => {
  const { prices } = await client.crypto.prices({ currencies: ['BTC', 'LTC'] });
  assert.deepEqual(Object.keys(prices), ['BTC', 'LTC']);
  assert.equal(prices.BTC!.usd, 97000);
  assert.equal(Object.keys((await client.crypto.prices()).prices).length, 5);
  assert.match((await client.crypto.balance({ address: 'test_btc_success', currency: 'BTC' })).balance, /^\d+\.\d{8}$/);
  assert.equal((await client.crypto.fees('LTC')).currency, 'LTC');
});

test('a list is a page when awaited and every row, once, when iterated in either direction', async () => {
  const ids: string[] = [];
  for (let i = 0; i < 7; i++) ids.push(await create({ invoice_id: `L${i}` }));
  const newestFirst = [...ids].reverse();
  const page = await client.payments.list({ limit: 3 });
  assert.deepEqual(
    page.data.map((row) => row.id),
    newestFirst.slice(0, 3),
  );
  assert.equal(page.has_more, true);
  assert.ok(page.total_count >= 7);
  const all: string[] = [];
  for await (const row of client.payments.list({ limit: 2 })) all.push(row.id);
  assert.deepEqual(all.slice(0, 7), newestFirst);
  assert.equal(new Set(all).size, all.length);
  assert.equal(all.length, page.total_count);
  const upward = await client.payments.list({ limit: 2, ending_before: ids[0] }).toArray({ limit: 100 });
  assert.deepEqual(
    upward.map((row) => row.id),
    ids.slice(1),
  );
  assert.equal((await client.payments.list({ limit: 2 }).toArray({ limit: 5 })).length, 5);
  // Among all payments, an event appears once no older transaction is open: a moment later.
  const told = () => client.events.list({ limit: 2, type: 'payment.created' }).toArray({ limit: 7 });
  const events = await eventually(told, ([newest]) => newest?.data.id === newestFirst[0]);
  assert.deepEqual(
    events.map((event) => event.data.id),
    newestFirst,
  );
});

test('an endpoint is created, changed, given a new secret, tested, recovered and deleted', async () => {
  const receiver = await startReceiver();
  try {
    const made = await client.webhookEndpoints.create({ url: receiver.url, events: ['*', 'payment.updated'], description: 'Orders' });
    assert.match(made.secret, /^whsec_/);
    assert.equal((await client.webhookEndpoints.retrieve(made.id)).url, receiver.url);
    assert.ok((await client.webhookEndpoints.list()).data.some(({ id }) => id === made.id));
    assert.equal((await client.webhookEndpoints.update(made.id, { description: null })).description, null);
    const tried = await client.webhookEndpoints.sendTest(made.id);
    assert.equal(tried.event_type, 'webhook.test');
    await eventually(
      async () => receiver.received,
      (all) => all.length === 1,
    );
    const [delivery] = (await client.webhookDeliveries.list({ endpoint_id: made.id })).data;
    await eventually(
      () => client.webhookDeliveries.retrieve(delivery!.id),
      ({ state }) => state === 'delivered',
    );
    await client.webhookDeliveries.resend(delivery!.id);
    await eventually(
      async () => receiver.received,
      (all) => all.length === 2,
    );
    const test = await webhooks.verify(receiver.received[1]!.body, receiver.received[1]!.headers, made.secret);
    assert.equal(test.type === 'webhook.test' && test.data.endpoint_id, made.id);
    // Both secrets are valid while one replaces the other.
    const next = await client.webhookEndpoints.rotateSecret(made.id, { expires_in: 3600 });
    await create();
    await eventually(
      async () => receiver.received,
      (all) => all.length === 3,
    );
    const { body, headers } = receiver.received[2]!;
    for (const secret of [made.secret, next.secret]) assert.equal((await webhooks.verify(body, headers, secret)).type, 'payment.created');
    await client.webhookEndpoints.rotateSecret(made.id, { expires_in: 0 });
    await create();
    await eventually(
      async () => receiver.received,
      (all) => all.length === 4,
    );
    await assert.rejects(webhooks.verify(receiver.received[3]!.body, receiver.received[3]!.headers, made.secret), {
      reason: 'signature_mismatch',
    });
    const recovery = await client.webhookEndpoints.recover(made.id, { since: new Date(Date.now() - 3_600_000).toISOString() });
    assert.equal((await client.webhookEndpoints.retrieveRecovery(recovery.id)).endpoint_id, made.id);
    assert.equal((await client.webhookEndpoints.delete(made.id)).deleted, true);
    await assert.rejects(client.webhookEndpoints.retrieve(made.id), NotFoundError);
  } finally {
    await receiver.stop();
  }
});

test('errors have the class of their status, with code, parameter and request ID', async () => {
  const cancelled = await create();
  await client.payments.cancel(cancelled);
  const wrong = createClient({ url: app.url, key: 'sk_test_no_such_key' });
  const shop = createClient({ url: app.url, key: app.merchant.keys.testPublic });
  const key = { idempotencyKey: 'one key, two bodies' };
  await client.payments.createSimple(PARAMS, key);
  const rows: [() => Promise<unknown>, typeof ApiError, number, string, string | null][] = [
    [() => client.payments.createSimple({ ...PARAMS, amount_usd: 0 }), InvalidRequestError, 400, 'amount_invalid', 'amount_usd'],
    [() => wrong.payments.list(), AuthenticationError, 401, 'invalid_api_key', null],
    [() => shop.payments.list(), PermissionError, 403, 'secret_key_required', null],
    [() => client.payments.retrieve('pay_000000000000000000000000'), NotFoundError, 404, 'payment_not_found', null],
    [() => client.payments.cancel(cancelled), ConflictError, 409, 'payment_status_conflict', null],
    [() => client.payments.createSimple({ ...PARAMS, amount_usd: 26 }, key), IdempotencyError, 422, 'idempotency_mismatch', null],
    [() => live.crypto.fees('LTC'), UnavailableError, 501, 'not_supported', 'currency'],
  ];
  for (const [act, Class, status, code, param] of rows) {
    const error = await act().then(
      () => assert.fail(code),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof Class && error instanceof ApiError && error instanceof FlorinError, code);
    assert.equal(error.name, Class.name);
    assert.deepEqual([error.status, error.code, error.param], [status, code, param]);
    assert.match(error.requestId!, /^req_/);
    assert.ok(error.docUrl!.endsWith(`#${code}`));
  }
  const several = await client.payments.createAdvanced({ return_url: '', items: [], tax: 0 }).catch((error: ApiError) => error);
  assert.ok(several instanceof InvalidRequestError && several.errors.length >= 2);
});

test('two calls with the same idempotency key create one payment', async () => {
  const [first, second] = [
    await client.payments.createSimple(PARAMS, { idempotencyKey: 'order-A-1001' }),
    await client.payments.createSimple(PARAMS, { idempotencyKey: 'order-A-1001' }),
  ];
  assert.equal(first.id, second.id);
});

/** A connection to the service that treats the next requests as instructed; the rest pass. */
async function startFaulty(): Promise<{
  url: string;
  seen: IncomingMessage[];
  next: ((reply: ServerResponse, pass: () => Promise<void>) => unknown)[];
  stop(): Promise<void>;
}> {
  const seen: IncomingMessage[] = [];
  const next: ((reply: ServerResponse, pass: () => Promise<void>) => unknown)[] = [];
  const { url, stop } = await serve(async (request, reply, body) => {
    seen.push(request);
    const pass = async (): Promise<void> => {
      const answer = await passOn(app.url, request, body);
      const text = await answer.text();
      if (reply.destroyed) return;
      reply.writeHead(answer.status, { 'content-type': 'application/json' }).end(text);
    };
    await (next.shift() ?? ((_reply, through) => through()))(reply, pass);
  });
  return { url, seen, next, stop };
}

test('a reply that is lost after the payment was written is requested again, and nothing is created twice', async (t) => {
  const way = await startFaulty();
  t.after(way.stop);
  const through = createClient({ url: way.url, key: app.merchant.keys.testSecret });
  const before = (await client.payments.list({ limit: 1 })).total_count;
  way.next.push(async (reply, pass) => {
    const socket = reply.socket!;
    reply.end = (() => reply) as typeof reply.end;
    await pass();
    socket.destroy();
  });
  await through.payments.createSimple(PARAMS);
  assert.equal(way.seen.length, 2);
  const keys = way.seen.map((request) => request.headers['idempotency-key']);
  assert.ok(keys[0]);
  assert.equal(keys[0], keys[1]);
  assert.equal((await client.payments.list({ limit: 1 })).total_count, before + 1);
  await through.payments.createSimple(PARAMS);
  assert.notEqual(way.seen[2]!.headers['idempotency-key'], keys[0], 'each call has its own key');
});

test('429 and 503 are retried after Retry-After, but not if the wait is too long', async (t) => {
  const way = await startFaulty();
  t.after(way.stop);
  const through = createClient({ url: way.url, key: app.merchant.keys.testSecret });
  const refuse = (status: number, seconds: number) => (reply: ServerResponse) =>
    reply.writeHead(status, { 'retry-after': String(seconds), 'content-type': 'application/json' }).end(
      JSON.stringify({
        error: { type: 'rate_limit_exceeded', message: 'busy', param: null, code: 'overloaded', doc_url: '', request_id: 'req_1' },
      }),
    );
  way.next.push(refuse(429, 1), refuse(503, 1));
  const started = performance.now();
  assert.ok((await through.payments.list({ limit: 1 })).success);
  assert.equal(way.seen.length, 3);
  assert.ok(performance.now() - started >= 1_990);
  way.next.push(refuse(429, 61));
  const error = await through.payments.list().catch((thrown: unknown) => thrown);
  assert.ok(error instanceof RateLimitError);
  assert.equal(error.retryAfterSeconds, 61);
  way.next.push(refuse(503, 0));
  await assert.rejects(through.payments.list({}, { maxRetries: 0 }), UnavailableError);
  assert.equal(way.seen.length, 5);
});

test('permanent errors are not retried', async (t) => {
  const way = await startFaulty();
  t.after(way.stop);
  const through = createClient({ url: way.url, key: app.merchant.keys.testSecret });
  for (const status of [400, 401, 403, 404, 409, 422, 501]) {
    way.next.push((reply) => reply.writeHead(status).end('{"error":{"type":"x","message":"no","param":null,"code":"x"}}'));
    await assert.rejects(through.payments.retrieve('pay_1'), (error: ApiError) => error.status === status);
  }
  assert.equal(way.seen.length, 7);
  way.next.push((reply) => reply.writeHead(302, { location: 'https://elsewhere.example/' }).end());
  await assert.rejects(through.payments.retrieve('pay_1'), /redirects/);
  way.next.push((reply) => reply.writeHead(200).end('<html>'));
  await assert.rejects(through.payments.retrieve('pay_1'), /not JSON/);
  const page = (reply: ServerResponse) => reply.writeHead(502).end('<html>Bad gateway');
  way.next.push(page);
  await assert.rejects(
    through.payments.retrieve('pay_1', { maxRetries: 0 }),
    (error: ApiError) => error instanceof ServerError && /Bad gateway/.test(error.message),
  );
  way.next.push((reply) => reply.socket!.destroy());
  await assert.rejects(through.payments.retrieve('pay_1', { maxRetries: 0 }), ConnectionError);
});

test('a call ends if the service does not answer in time or the caller aborts', async (t) => {
  const way = await startFaulty();
  t.after(way.stop);
  const through = createClient({ url: way.url, key: app.merchant.keys.testSecret, timeoutMs: 2_000, maxRetries: 0 });
  way.next.push(() => {});
  await assert.rejects(through.payments.list(), TimeoutError);
  way.next.push(
    () => {},
    () => {},
  );
  await assert.rejects(through.payments.list({}, { timeoutMs: 1_000, maxRetries: 1 }), TimeoutError);
  await eventually(
    async () => way.seen.length,
    (count) => count >= 3,
  );
  assert.equal(way.seen.length, 3);
  way.next.push(() => {});
  const giveUp = new AbortController();
  const given = assert.rejects(
    through.payments.list({}, { timeoutMs: 60_000, signal: giveUp.signal, maxRetries: 5 }),
    (error) => error === giveUp.signal.reason,
  );
  await eventually(
    async () => way.seen.length,
    (count) => count >= 4,
  );
  giveUp.abort(new Error('no longer wanted'));
  await given;
  await assert.rejects(through.payments.list({}, { signal: AbortSignal.abort(new Error('enough')) }), /enough/);
  assert.equal(way.seen.length, 4);
  const id = await create();
  await assert.rejects(client.payments.waitFor(id, { timeoutMs: 150, intervalMs: 50 }), TimeoutError);
  await assert.rejects(client.payments.waitFor(id, { signal: AbortSignal.timeout(150), intervalMs: 5_000 }), { name: 'TimeoutError' });
});

test('the delay between retries grows up to a limit, half of it random', () => {
  const bounds = [1, 2, 3, 4, 5, 6, 9].map((attempt) => [delayMs(attempt, null, () => 0), delayMs(attempt, null, () => 1)]);
  assert.deepEqual(bounds, [
    [250, 500],
    [500, 1000],
    [1000, 2000],
    [2000, 4000],
    [4000, 8000],
    [4000, 8000],
    [4000, 8000],
  ]);
  assert.equal(
    delayMs(1, 30, () => 1),
    30_000,
  );
});

test('a client with invalid options is refused when it is created', async () => {
  assert.throws(() => createClient({ url: 'pay.example', key: 'sk_test_aaaaaaaa' }), /url must be/);
  assert.throws(() => createClient({ url: 'ftp://pay.example', key: 'sk_test_aaaaaaaa' }), /https/);
  assert.throws(() => createClient({ url: 'https://pay.example', key: '' }), /key/);
  assert.throws(() => createClient({ url: 'https://pay.example', key: undefined as unknown as string }), /key/);
  await assert.rejects(async () => client.payments.retrieve(''), /The ID is missing/);
});

test('the request log shows the requests of this key', async () => {
  const id = await create();
  const found = await eventually(
    async () => (await client.requests.list({ limit: 20, path: '/create/simple' })).data,
    (rows) => rows.some((row) => row.request_body?.includes('25.50') && row.status === 201),
  );
  assert.ok(id.startsWith('pay_') && found.every((row) => row.path.endsWith('/create/simple')));
  await assert.rejects(client.payments.retrieve('pay_none'), NotFoundError);
  const [failed] = await eventually(
    async () => (await client.requests.list({ outcome: 'failed', path: 'pay_none' })).data,
    (rows) => rows.length > 0,
  );
  assert.deepEqual([failed!.method, failed!.status, failed!.error_code], ['GET', 404, 'payment_not_found']);
});

test('a payment link is created, listed, retrieved, changed and archived', async () => {
  const made = await client.paymentLinks.create({ name: 'Two mugs', amount: '25.50', currency: 'EUR' });
  assert.deepEqual([made.amount, made.currency, made.reusable, made.state, made.warnings], ['25.50', 'EUR', true, 'active', []]);
  assert.match(made.url, new RegExp(`/link/${made.id}$`));
  await client.paymentLinks.update(made.id, { amount: null, state: 'archived' });
  const { data } = await client.paymentLinks.list({ state: 'archived' });
  assert.deepEqual(
    data.map(({ id, amount }) => [id, amount]),
    [[made.id, null]],
  );
  assert.equal((await client.paymentLinks.retrieve(made.id)).state, 'archived');
});

test('a customer that a payment names is listed and retrieved', async () => {
  const customer = { email: 'anna@shop.example', name: 'Anna', reference: 'C-17' };
  const made = await client.payments.create({ amount: '5.00', currency: 'USD', customer });
  const { data } = await client.customers.list({ email: 'ANNA@shop.example' });
  assert.deepEqual(
    data.map(({ id, email, name, reference }) => ({ id, email, name, reference })),
    [{ id: made.customer!.id, ...customer }],
  );
  assert.equal((await client.customers.retrieve(made.customer!.id)).reference, 'C-17');
});

test('the client made every request that the service offers', () => {
  const missing = ROUTES.filter(({ method, path }) => {
    const pattern = new RegExp(`^${method} (/v1)?${path.replace(/^\/v1/, '').replace(/:\w+/g, '[^/]+')}$`);
    return ![...called].some((request) => pattern.test(request));
  });
  assert.deepEqual(
    missing.map(({ method, path }) => `${method} ${path}`),
    // Those under /v1 answer the same, and more.
    ['GET /api/payment/:payment_id', 'GET /api/payments'],
  );
});

test('a wait ends at once when the payment ends with another status', async () => {
  const id = await create();
  await client.payments.cancel(id);
  const started = performance.now();
  assert.equal((await client.payments.waitFor(id, { until: 'completed', timeoutMs: 60_000 })).status, 'cancelled');
  assert.equal((await client.payments.waitFor(id, { until: ['completed', 'processing'], timeoutMs: 60_000 })).status, 'cancelled');
  assert.ok(performance.now() - started < 30_000);
  await assert.rejects(client.payments.waitFor(id, { until: () => false, timeoutMs: 50, intervalMs: 10 }), TimeoutError);
});

test('requests contain the version of the client, and a secret key in a page requires an explicit option', async (t) => {
  const seen: Record<string, string>[] = [];
  const fetch: typeof globalThis.fetch = async (_url, init) => {
    seen.push(init!.headers as Record<string, string>);
    return new Response('{"success":true,"prices":{}}');
  };
  const options = { url: app.url, key: app.merchant.keys.testSecret, fetch };
  await createClient(options).crypto.prices();
  const { version } = JSON.parse(readFileSync(new URL('../../sdk/package.json', import.meta.url), 'utf8')) as { version: string };
  assert.deepEqual([seen[0]!['user-agent'], seen[0]!['florin-version']], [`florin-js/${version}`, API_VERSION]);
  assert.equal(VERSION, version);
  // As jsdom defines them.
  const page = globalThis as { window?: object; document?: object };
  t.after(() => {
    delete page.window;
    delete page.document;
  });
  page.window = {};
  page.document = {};
  assert.throws(() => createClient(options), /dangerouslyAllowBrowser/);
  await createClient({ ...options, dangerouslyAllowBrowser: true }).crypto.prices();
  assert.equal(seen[1]!['user-agent'], undefined, 'a page would need permission for further headers');
  createClient({ ...options, key: app.merchant.keys.testPublic });
});

test('event types narrow their data', async () => {
  const id = await create();
  await client.test.simulate(id, { scenario: 'success' });
  await client.payments.waitFor(id, { until: 'completed', intervalMs: 100, timeoutMs: 30_000 });
  const { data } = await eventually(
    () => client.events.list({ payment_id: id }),
    (page) => page.data.length === 3,
  );
  for (const event of data satisfies PaymentEvent[]) {
    // Checked by the compiler: each type has its status.
    if (event.type === 'payment.completed') assert.equal(event.data.status satisfies 'completed', 'completed');
    else if (event.type === 'payment.processing') assert.equal(event.data.status satisfies 'processing', 'processing');
  }
  const told = (event: WebhookEvent): string =>
    event.type === 'webhook.test' ? event.data.endpoint_id : 'payment_url' in event.data ? event.data.payment_url : event.data.id;
  assert.match(told(data[0]!), new RegExp(id));
});

test('a proxy that validates with the API document saw no violation, and detects one', async () => {
  assert.deepEqual(violations, []);
  const wrong: string[] = [];
  const document = (await app.anonymous.get('/openapi.json')).json;
  const key = app.merchant.keys.testSecret;
  const replies = ['{"success":true}', '{"error":{}}'];
  const fake: typeof fetch = async () => new Response(replies.shift()!, { headers: { 'x-request-id': 'req_1' } });
  const broken = createClient({ url: app.url, key, fetch: validatingFetch(document, wrong, fake) });
  await broken.payments.createSimple({ ...PARAMS, amount_usd: true as never });
  await broken.events.list({ type: 'payment.lost' as never });
  assert.deepEqual(
    wrong.map((text) => text.split(':')[0]),
    ['POST /api/payment/create/simple request', 'POST /api/payment/create/simple 200', 'GET /v1/events query type', 'GET /v1/events 200'],
  );
});
