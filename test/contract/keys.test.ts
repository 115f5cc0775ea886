/** Who may do what, how often, and once: keys, tenancy, limits, Idempotency-Key, CORS and request IDs. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { createApiKey, revokeApiKey } from '../../src/keys/keys.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { setBranding } from '../../src/merchants/settings.ts';
import { type Client, client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';

const PER_MONTH = 5;
let app: TestApp;
/** A second process on the same database. */
let twin: App;
let other: NewMerchant;
before(async () => {
  app = await startTestApp({ PLANS: `{"enterprise":{"per_minute":0},"professional":{"per_minute":0,"per_month":${PER_MONTH}}}` });
  twin = await startApp(app.config, { roles: ['api'], log: createLog('error') });
  other = await createMerchant(app.app.ctx, { name: 'Other shop', plan: 'enterprise' });
});
after(async () => {
  await twin?.stop();
  await app?.stop();
});

const simple = { amount_usd: 25, return_url: 'https://shop.example/thanks' };
const CREATE = '/api/payment/create/simple';
const made = (reply: Reply): any => {
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
};
const refused = (reply: Reply, status: number, code: string) => {
  assert.equal(reply.status, status, reply.text);
  assert.equal(reply.json.error.code, code, reply.text);
  assert.equal(reply.json.error.param, null);
};
const respelled = (key: string) => key.replace(/^(sk|pk)_(live|test)_/, '$2_$1_');
const createdEvent = async (own: Client, paymentId: string): Promise<any> => {
  const [event] = (await own.get(`/v1/events?payment_id=${paymentId}`)).json.data;
  return event;
};
const paymentsOf = async (merchantId: string): Promise<number> =>
  (await app.app.ctx.db.sql`select count(*)::int as n from payments where merchant_id = ${merchantId}`)[0]!.n;

/** An endpoint without a listener. */
const makeEndpoint = async (own: Client): Promise<string> =>
  made(await own.post('/v1/webhook_endpoints', { url: 'http://127.0.0.1:9/hook' })).id;
/** With one delivery and a finished recovery. */
async function makeHook(own: Client): Promise<{ endpoint: string; delivery: string; recovery: string }> {
  const endpoint = await makeEndpoint(own);
  const delivery = made(await own.post(`/v1/webhook_endpoints/${endpoint}/test`)).id;
  const recovery = made(await own.post(`/v1/webhook_endpoints/${endpoint}/recover`, { since: '2026-11-21T08:00:00Z' })).id;
  await eventually(
    async () => (await own.get(`/v1/webhook_recoveries/${recovery}`)).json,
    ({ status }) => status === 'done',
  );
  return { endpoint, delivery, recovery };
}

/** Statuses by key; a public key never passes a secret endpoint, and a live key never enters test mode. */
const TABLE = `
method | path                             | body                                              | test secret | live secret | test public | live public
POST   | /payments                        | {"amount":"0.5"}                                  | 201 | 400 | 403 | 403
POST   | /api/payment/create/simple       | {"amount_usd":25,"return_url":"https://a.example"} | 201 | 201 | 201 | 201
POST   | /api/payment/create/advanced     | {"items":[{"product_id":"a","name":"a","quantity":1,"unit_price":1}],"tax":0,"return_url":"https://a.example"} | 201 | 201 | 201 | 201
GET    | /api/payment/TEST                |                                                   | 200 | 404 | 403 | 403
GET    | /api/payment/LIVE                |                                                   | 404 | 200 | 403 | 403
GET    | /api/payments                    |                                                   | 200 | 200 | 403 | 403
GET    | /api/crypto/prices               |                                                   | 200 | 200 | 403 | 403
GET    | /api/crypto/balance?currency=BTC&address=1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2 |        | 200 | 501 | 403 | 403
GET    | /api/crypto/fees?currency=BTC    |                                                   | 200 | 501 | 403 | 403
GET    | /api/crypto/transaction/TXID?currency=BTC |                                          | 404 | 501 | 403 | 403
POST   | /v1/transactions/create          | {"crypto":"BTC","amount":25,"currency_fiat":"USD"} | 201 | 400 | 403 | 403
POST   | /v1/payments/TEST                | {"metadata":{"a":"b"}}                            | 200 | 404 | 403 | 403
POST   | /v1/payments/TEST/resolve        | {"action":"accept"}                               | 409 | 404 | 403 | 403
POST   | /v1/test/payments/TEST/simulate  | {"scenario":"underpaid"}                          | 200 | 403 | 403 | 403
POST   | /v1/payments/TEST/cancel         | {}                                                | 200 | 404 | 403 | 403
GET    | /v1/events                       |                                                   | 200 | 200 | 403 | 403
GET    | /v1/events/EVENT                 |                                                   | 200 | 404 | 403 | 403
POST   | /v1/webhook_endpoints            | {"url":"http://127.0.0.1:9/hook"}                 | 201 | 201 | 403 | 403
GET    | /v1/webhook_endpoints            |                                                   | 200 | 200 | 403 | 403
GET    | /v1/webhook_endpoints/HOOK       |                                                   | 200 | 404 | 403 | 403
POST   | /v1/webhook_endpoints/HOOK       | {"description":"Orders"}                          | 200 | 404 | 403 | 403
POST   | /v1/webhook_endpoints/HOOK/rotate_secret | {}                                        | 200 | 404 | 403 | 403
POST   | /v1/webhook_endpoints/HOOK/test  | {}                                                | 201 | 404 | 403 | 403
POST   | /v1/webhook_endpoints/HOOK/recover | {"since":"2026-11-21T08:00:00Z"}                | 201 | 404 | 403 | 403
GET    | /v1/webhook_recoveries/RECOVERY  |                                                   | 200 | 404 | 403 | 403
GET    | /v1/webhook_deliveries           |                                                   | 200 | 200 | 403 | 403
GET    | /v1/webhook_deliveries/SENT  |                                                   | 200 | 404 | 403 | 403
POST   | /v1/webhook_deliveries/SENT/resend | {}                                          | 200 | 404 | 403 | 403
GET    | /v1/payments/TEST/transfers      |                                                   | 200 | 404 | 403 | 403
POST   | /v1/refunds                      | {"payment_id":"TEST"}                             | 404 | 404 | 403 | 403
GET    | /v1/refunds                      |                                                   | 200 | 200 | 403 | 403
GET    | /v1/refunds/ref_none             |                                                   | 404 | 404 | 403 | 403
POST   | /v1/refunds/ref_none/cancel      | {}                                                | 404 | 404 | 403 | 403
POST   | /v1/payouts                      | {"currency":"BTC","amount":"0.1","address":"none"} | 400 | 400 | 403 | 403
GET    | /v1/payouts                      |                                                   | 200 | 200 | 403 | 403
GET    | /v1/payouts/po_none              |                                                   | 404 | 404 | 403 | 403
POST   | /v1/payouts/po_none/cancel       | {}                                                | 404 | 404 | 403 | 403
GET    | /v1/requests                     |                                                   | 200 | 200 | 403 | 403
DELETE | /v1/webhook_endpoints/HOOK       |                                                   | 200 | 404 | 403 | 403
POST   | /v1/test/clock/advance           | {"seconds":1}                                     | 200 | 403 | 403 | 403
`;

test('every endpoint with every key, in both notations', async () => {
  const { keys, merchantId } = app.merchant;
  const { ctx } = app.app;
  const revoked = await Promise.all(
    (['secret', 'public'] as const).flatMap((kind) =>
      (['test', 'live'] as const).map((mode) => createApiKey(ctx, { merchantId, mode, kind })),
    ),
  );
  for (const { keyId } of revoked) await revokeApiKey(ctx, { keyId });
  const { testSecret, liveSecret, testPublic, livePublic } = keys;
  const typo = testSecret.slice(0, -1) + (testSecret.endsWith('a') ? 'b' : 'a');
  const strangers: (string | null)[] = [
    null,
    'Bearer',
    'Bearer ',
    'Bearer garbage',
    'Bearer sk_test_',
    `Bearer ${typo}`,
    `Bearer ${testSecret}x`,
    `Bearer ${testSecret} ${testSecret}`,
    `Bearer ${testSecret.toUpperCase()}`,
    // The same characters with another prefix are another key.
    `Bearer ${testSecret.replace('sk_test_', 'sk_live_')}`,
    `Bearer ${testPublic.replace('pk_', 'sk_')}`,
    `Bearer sk_test_${'x'.repeat(5_000)}`,
    `Token ${testSecret}`,
    testSecret,
    ...revoked.flatMap(({ key }) => [`Bearer ${key}`, `Bearer ${respelled(key)}`]),
  ];
  let asked = 0;
  for (const line of TABLE.trim().split('\n').slice(1)) {
    const [method, template, body, ...statuses] = line.split('|').map((cell) => cell.trim()) as [string, string, string, ...string[]];
    const ask = async (authorization: string | null): Promise<Reply> => {
      const payment = { TEST: '', LIVE: '' };
      if (/TEST|EVENT/.test(template)) payment.TEST = made(await app.test.post(CREATE, simple)).id;
      if (template.includes('LIVE')) payment.LIVE = made(await app.live.post(CREATE, simple)).id;
      const none = { endpoint: '', delivery: '', recovery: '' };
      const whole = /SENT|RECOVERY/.test(template);
      const hook = whole
        ? await makeHook(app.test)
        : { ...none, ...(template.includes('HOOK') && { endpoint: await makeEndpoint(app.test) }) };
      const event = template.includes('EVENT') ? (await createdEvent(app.test, payment.TEST)).id : '';
      const path = template
        .replace('TEST', payment.TEST)
        .replace('LIVE', payment.LIVE)
        .replace('EVENT', event)
        .replace('HOOK', hook.endpoint)
        .replace('SENT', hook.delivery)
        .replace('RECOVERY', hook.recovery)
        .replace('TXID', '0'.repeat(64));
      const headers: Record<string, string> = authorization === null ? {} : { authorization };
      asked++;
      const reply =
        method === 'POST'
          ? await app.anonymous.post(path, body, headers)
          : await app.anonymous[method === 'GET' ? 'get' : 'delete'](path, headers);
      // There is room for few.
      if (hook.endpoint) await app.test.delete(`/v1/webhook_endpoints/${hook.endpoint}`);
      return reply;
    };
    for (const [i, key] of [testSecret, liveSecret, testPublic, livePublic].entries()) {
      // A public key creates ten a minute from one address: a new one each time.
      const kind = i < 2 ? null : (['test', 'live'] as const)[i - 2]!;
      const usable = kind === null ? key : (await createApiKey(ctx, { merchantId, mode: kind, kind: 'public' })).key;
      for (const spelling of [usable, respelled(usable)]) {
        const reply = await ask(`Bearer ${spelling}`);
        assert.equal(reply.status, Number(statuses[i]), `${method} ${template} with ${spelling.slice(0, 8)}: ${reply.text}`);
        if (i >= 2 && reply.status === 403) assert.equal(reply.json.error.code, 'secret_key_required');
        if (i === 1 && reply.status === 403) assert.equal(reply.json.error.code, 'test_key_required');
      }
    }
    // Few foreign keys for each endpoint, because their replies are counted by address.
    for (const stranger of [null, ...strangers.filter((_, nth) => nth % 6 === asked % 6)]) {
      const reply = await ask(stranger);
      refused(reply, 401, 'invalid_api_key');
      assert.equal(reply.headers.get('www-authenticate'), 'Bearer');
    }
  }
  for (const stranger of strangers)
    refused(await app.anonymous.get('/api/payments', stranger === null ? {} : { authorization: stranger }), 401, 'invalid_api_key');
  refused(await app.anonymous.get(`/api/payments?api_key=${testSecret}&key=${testSecret}`), 401, 'invalid_api_key');
  refused(await app.anonymous.post(CREATE, { ...simple, api_key: testSecret }), 401, 'invalid_api_key');
  const lower = await app.anonymous.get('/api/payments', { authorization: `bearer ${testSecret}` });
  assert.equal(lower.status, 200, 'the scheme has no case');
});

test('HTTP Basic takes the key as the name, with an empty password, and never from the page of another site', async () => {
  const { testSecret, testPublic } = app.merchant.keys;
  const basic = (text: string, scheme = 'Basic') => ({ authorization: `${scheme} ${Buffer.from(text).toString('base64')}` });
  for (const key of [testSecret, respelled(testSecret)]) {
    assert.equal((await app.anonymous.get('/v1/payments', basic(`${key}:`))).status, 200);
    assert.equal((await app.anonymous.get('/v1/payments', basic(`${key}:`, 'bAsIc'))).status, 200);
  }
  made(await app.anonymous.post(CREATE, simple, basic(`${testPublic}:`)));
  refused(await app.anonymous.get('/v1/payments', basic(`${testPublic}:`)), 403, 'secret_key_required');
  const wrong = [
    testSecret,
    `:${testSecret}`,
    `${testSecret}:x`,
    `user:${testSecret}`,
    `${testSecret}::`,
    ':',
    '',
    `x${testSecret}:`,
    `${testSecret} :`,
  ];
  for (const text of wrong) {
    const reply = await app.anonymous.get('/v1/payments', basic(text));
    refused(reply, 401, 'invalid_api_key');
    assert.match(reply.json.error.message, /curl -u <API_KEY>:/);
    assert.equal(reply.headers.get('www-authenticate'), 'Bearer', 'browsers do not ask people for a key');
  }
  for (const text of ['Basic', 'Basic %%%', `Basic ${testSecret}`, `Basic ${Buffer.from(`${testSecret}:`).toString('base64')} x`])
    refused(await app.anonymous.get('/v1/payments', { authorization: text }), 401, 'invalid_api_key');
  const { id } = made(await app.test.post(CREATE, simple));
  const foreign = { ...basic(`${testSecret}:`), origin: 'https://evil.example' };
  refused(await app.anonymous.post(`/v1/payments/${id}/cancel`, '', foreign), 403, 'secret_key_in_page');
  assert.equal((await app.anonymous.post(`/v1/payments/${id}/cancel`, '', basic(`${testSecret}:`))).json.status, 'cancelled');
});

// Invariant: Merchants and modes are isolated from each other.
test('a merchant and a mode see nothing of another', async () => {
  const { keys } = app.merchant;
  const make = async (own: Client) => {
    const { id } = made(await own.post(CREATE, { ...simple, metadata: { secret: 'of the shop' } }));
    const event = await createdEvent(own, id);
    assert.equal(event.data.id, id);
    return { id: id as string, event: event.id as string };
  };
  const ours = { test: await make(app.test), live: await make(app.live) };
  const paid = made(await app.test.post(CREATE, { ...simple, payment_address: 'test_btc_success' })).id;
  assert.equal((await app.test.post(`/v1/test/payments/${paid}/simulate`, { scenario: 'success' })).status, 200);
  const { transaction_hash } = await eventually(
    async () => (await app.test.get(`/api/payment/${paid}`)).json,
    (detail) => detail.transaction_hash !== null,
  );
  const lookUp = `/api/crypto/transaction/${transaction_hash}?currency=BTC`;
  assert.equal((await app.test.get(lookUp)).status, 200);
  assert.equal((await app.as(other.keys.testSecret).get(lookUp)).status, 404);
  assert.equal((await app.live.get(lookUp)).status, 501, 'a live key asks the live chain alone');
  const hooks = { test: await makeHook(app.test), live: await makeHook(app.live) };
  const strangers: [key: string, mode: 'test' | 'live'][] = [
    [other.keys.testSecret, 'test'],
    [other.keys.liveSecret, 'live'],
    [other.keys.testSecret, 'live'],
    [other.keys.liveSecret, 'test'],
    [keys.testSecret, 'live'],
    [keys.liveSecret, 'test'],
  ];
  for (const [key, mode] of strangers) {
    const stranger = app.as(key);
    const { id, event } = ours[mode];
    refused(await stranger.get(`/api/payment/${id}`), 404, 'payment_not_found');
    refused(await stranger.get(`/v1/api/payment/${id}`), 404, 'payment_not_found');
    refused(await stranger.get(`/v1/events/${event}`), 404, 'event_not_found');
    refused(await stranger.post(`/v1/payments/${id}`, { metadata: { a: 'b' } }), 404, 'payment_not_found');
    refused(await stranger.post(`/v1/payments/${id}/cancel`), 404, 'payment_not_found');
    refused(await stranger.post(`/v1/payments/${id}/resolve`, { action: 'accept' }), 404, 'payment_not_found');
    const simulated = await stranger.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success' });
    assert.ok([403, 404].includes(simulated.status), simulated.text);
    const advanced = await stranger.post('/v1/test/clock/advance', { seconds: 60, payment_id: id });
    assert.ok([403, 404].includes(advanced.status), advanced.text);
    assert.equal((await stranger.get(`/api/payments?starting_after=${id}`)).status, 400);
    assert.equal((await stranger.get(`/v1/events?starting_after=${event}`)).status, 400);
    assert.deepEqual((await stranger.get(`/v1/events?payment_id=${id}`)).json.data, []);
    const list = (await stranger.get('/api/payments?limit=100')).json;
    assert.ok(list.data.every((row: any) => row.id !== id));
    const events = await stranger.get('/v1/events?limit=100');
    assert.ok(!events.text.includes(id));
    const { endpoint, delivery, recovery } = hooks[mode];
    const hook = `/v1/webhook_endpoints/${endpoint}`;
    refused(await stranger.get(hook), 404, 'endpoint_not_found');
    refused(await stranger.post(hook, { enabled: false }), 404, 'endpoint_not_found');
    refused(await stranger.delete(hook), 404, 'endpoint_not_found');
    refused(await stranger.post(`${hook}/rotate_secret`), 404, 'endpoint_not_found');
    refused(await stranger.post(`${hook}/test`), 404, 'endpoint_not_found');
    refused(await stranger.post(`${hook}/recover`, { since: '2026-11-21T08:00:00Z' }), 404, 'endpoint_not_found');
    refused(await stranger.get(`/v1/webhook_recoveries/${recovery}`), 404, 'recovery_not_found');
    refused(await stranger.get(`/v1/webhook_deliveries/${delivery}`), 404, 'delivery_not_found');
    refused(await stranger.post(`/v1/webhook_deliveries/${delivery}/resend`), 404, 'delivery_not_found');
    assert.equal((await stranger.get(`/v1/webhook_deliveries?starting_after=${delivery}`)).status, 400);
    assert.deepEqual((await stranger.get(`/v1/webhook_deliveries?endpoint_id=${endpoint}`)).json.data, []);
    for (const list of ['/v1/webhook_endpoints', '/v1/webhook_deliveries?limit=100'])
      assert.ok(!(await stranger.get(list)).text.includes(endpoint), list);
  }
  for (const mode of ['test', 'live'] as const) {
    const own = mode === 'test' ? app.test : app.live;
    const detail = (await own.get(`/api/payment/${ours[mode].id}`)).json;
    assert.deepEqual([detail.status, detail.mode, detail.metadata], ['pending', mode, { secret: 'of the shop' }]);
    assert.equal((await own.get(`/v1/webhook_endpoints/${hooks[mode].endpoint}`)).json.enabled, true);
    const list = (await own.get('/api/payments?limit=100')).json;
    assert.ok(list.data.length > 0 && list.data.every((row: any) => row.mode === mode));
  }
  // An existing name and an unknown one are refused with the same reply.
  const unknown = `pay_${'0'.repeat(24)}`;
  const [foreign, missing] = [
    await app.as(other.keys.testSecret).get(`/api/payment/${ours.test.id}`),
    await app.as(other.keys.testSecret).get(`/api/payment/${unknown}`),
  ];
  const bare = (reply: Reply, id: string) => reply.text.replaceAll(id, '').replaceAll(reply.json.error.request_id, '');
  assert.equal(bare(foreign, ours.test.id), bare(missing, unknown));
});

const limitsOf = (reply: Reply) => ({
  limit: Number(reply.headers.get('x-ratelimit-limit') ?? Number.NaN),
  remaining: Number(reply.headers.get('x-ratelimit-remaining') ?? Number.NaN),
  reset: Number(reply.headers.get('x-ratelimit-reset') ?? Number.NaN),
});

test('a Starter merchant has sixty requests a minute in each mode', async () => {
  const { merchantId, keys } = await createMerchant(app.app.ctx, { name: 'Starter shop', plan: 'starter' });
  const paths = ['/api/payments', '/v1/api/payments', '/api/payment/unknown', '/api/crypto/prices', '/api/payments?limit=0'];
  const started = Math.floor(Date.now() / 1000);
  let reset = 0;
  for (let nth = 1; nth <= 60; nth++) {
    const reply = await app.as(nth % 2 === 0 ? keys.liveSecret : respelled(keys.liveSecret)).get(paths[nth % paths.length]!);
    assert.ok([200, 400, 404].includes(reply.status), reply.text);
    const shown = limitsOf(reply);
    assert.deepEqual([shown.limit, shown.remaining], [60, 60 - nth]);
    // A fixed window: it ends a minute after the first request, whatever happens in between.
    if (nth === 1) reset = shown.reset;
    assert.ok(Math.abs(shown.reset - reset) <= 1, `${shown.reset} ${reset}`);
    assert.match(reply.headers.get('ratelimit')!, new RegExp(`^"default";r=${60 - nth};t=\\d+$`));
    assert.equal(reply.headers.get('ratelimit-policy'), '"default";q=60;w=60');
  }
  assert.ok(reset >= started + 58 && reset <= started + 70, `${reset - started}`);
  for (let again = 0; again < 2; again++) {
    const over = await app.as(keys.liveSecret).post(CREATE, simple);
    refused(over, 429, 'rate_limit_exceeded');
    assert.deepEqual([limitsOf(over).limit, limitsOf(over).remaining], [60, 0]);
    const wait = Number(over.headers.get('retry-after'));
    assert.ok(wait >= 1 && wait <= 60, `${wait}`);
  }
  assert.equal(await paymentsOf(merchantId), 0);
  // The other mode and the public key have their own limits.
  assert.equal((await app.as(keys.testSecret).get('/api/payments')).status, 200);
  assert.equal((await app.as(keys.livePublic).post(CREATE, simple)).status, 201);
});

test('a public key creates ten payments a minute from one address', async () => {
  const { key } = await createApiKey(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'test', kind: 'public' });
  const replies: Reply[] = [];
  for (let i = 0; i < 11; i++) replies.push(await app.as(key).post(CREATE, simple));
  assert.deepEqual(
    replies.map((reply) => reply.status),
    [...Array(10).fill(201), 429],
  );
  assert.ok(Number(replies[10]!.headers.get('retry-after')) >= 1);
  assert.match(replies[10]!.json.error.message, /10 payments a minute.*on your server with a secret key/);
  assert.equal((await app.test.post(CREATE, simple)).status, 201, 'the secret key is not held up');
});

test('every reply has the limit headers and a unique request ID', async () => {
  const { id } = made(await app.test.post(CREATE, simple));
  const key = { 'idempotency-key': randomUUID() };
  made(await app.test.post(CREATE, simple, key));
  const preflight = await fetch(app.url + CREATE, { method: 'OPTIONS' });
  const put = await fetch(`${app.url}/api/payments`, { method: 'PUT' });
  const replies: [status: number, { status: number; headers: Headers; json?: any }][] = [
    [200, await app.test.get('/api/payments')],
    [201, await app.test.post(CREATE, simple)],
    [201, await app.test.post(CREATE, simple, key)],
    [400, await app.test.post(CREATE, '{')],
    [400, await app.test.post(CREATE, {})],
    [401, await app.anonymous.get('/api/payments')],
    [403, await app.testPublic.get('/api/payments')],
    [204, preflight],
    [404, await app.test.get('/nothing')],
    [404, await app.test.get('/api/payment/unknown')],
    [404, await app.test.get('/%')],
    [405, put],
    [409, await app.test.post(`/v1/payments/${id}/resolve`, { action: 'accept' })],
    [413, await app.test.post(CREATE, { description: 'x'.repeat(70_000) })],
    [415, await app.test.post(CREATE, 'x', { 'content-type': 'text/plain' })],
    [422, await app.test.post(CREATE, { ...simple, amount_usd: 26 }, key)],
    [501, await app.live.get('/api/crypto/fees?currency=BTC')],
  ];
  const ids = new Set<string>();
  for (const [status, reply] of replies) {
    assert.equal(reply.status, status);
    const { limit, remaining, reset } = limitsOf(reply as Reply);
    assert.ok(Number.isSafeInteger(limit) && limit > 0, `${status} limit ${limit}`);
    assert.ok(Number.isSafeInteger(remaining) && remaining >= 0 && remaining <= limit, `${status} remaining ${remaining}`);
    assert.ok(Math.abs(reset - Date.now() / 1000) <= 62, `${status} reset ${reset}`);
    const requestId = reply.headers.get('x-request-id')!;
    assert.match(requestId, /^req_[0-9A-Za-z]{24}$/);
    if (reply.json?.error) assert.equal(reply.json.error.request_id, requestId);
    ids.add(requestId);
  }
  assert.equal(ids.size, replies.length);
  const told = await app.test.get('/api/payments', { 'x-request-id': 'req_mine', 'request-id': 'req_mine' });
  assert.match(told.headers.get('x-request-id')!, /^req_[0-9A-Za-z]{24}$/);
});

// Invariant: The monthly limit is exact, also over two processes.
test('the monthly limit: concurrent creates are accepted exactly up to it', async () => {
  const { ctx } = app.app;
  const shop = async () => {
    const merchant = await createMerchant(ctx, { name: 'Month shop', plan: 'professional' });
    return { ...merchant, live: app.as(merchant.keys.liveSecret), far: client(twin.url!, merchant.keys.liveSecret) };
  };
  const count = (replies: Reply[], status: number) => replies.filter((reply) => reply.status === status).length;
  for (const keyed of [false, true]) {
    const { merchantId, live, far } = await shop();
    const headers = () => (keyed ? { 'idempotency-key': randomUUID() } : {});
    // Over both processes at once, with invalid requests among them.
    const replies = await Promise.all(
      Array.from({ length: 24 }, (_, i) =>
        (i % 2 === 0 ? live : far).post(CREATE, i % 6 === 5 ? { ...simple, amount_usd: 0 } : simple, headers()),
      ),
    );
    assert.deepEqual([count(replies, 201), count(replies, 400), count(replies, 403)], [PER_MONTH, 4, 20 - PER_MONTH]);
    for (const reply of replies.filter((r) => r.status === 403)) refused(reply, 403, 'plan_limit_exceeded');
    assert.equal(await paymentsOf(merchantId), PER_MONTH);
    refused(await live.post(CREATE, simple), 403, 'plan_limit_exceeded');
    refused(
      await live.post('/api/payment/create/advanced', {
        return_url: simple.return_url,
        tax: 1,
        items: [{ product_id: 'a', name: 'a', quantity: 1, unit_price: 1 }],
      }),
      403,
      'plan_limit_exceeded',
    );
    assert.equal((await live.get('/api/payments')).json.total_count, PER_MONTH);
  }
  const { merchantId, keys, live } = await shop();
  const key = { 'idempotency-key': randomUUID() };
  const first = made(await live.post(CREATE, simple, key));
  for (let i = 0; i < PER_MONTH + 2; i++) assert.equal(made(await live.post(CREATE, simple, key)).id, first.id);
  for (let i = 1; i < PER_MONTH; i++) made(await live.post(CREATE, simple));
  refused(await live.post(CREATE, simple, { 'idempotency-key': randomUUID() }), 403, 'plan_limit_exceeded');
  assert.equal(made(await live.post(CREATE, simple, key)).id, first.id, 'a replay is no new payment');
  made(await app.as(keys.testSecret).post(CREATE, simple));
  refused(await app.as(keys.livePublic).post(CREATE, simple), 403, 'plan_limit_exceeded');
  made(await app.as(keys.testPublic).post(CREATE, simple));
  assert.equal(await paymentsOf(merchantId), PER_MONTH + 2);
});

test('an Idempotency-Key returns the first reply again, byte for byte', async () => {
  const { keys } = app.merchant;
  const key = randomUUID();
  const first = await app.test.post(CREATE, simple, { 'idempotency-key': key });
  made(first);
  assert.equal(first.headers.get('idempotent-replayed'), null);
  const spaced = '  {\n "return_url" : "https:\\/\\/shop.example/thanks", "amount_usd": 25 }  ';
  const repeats: [string, () => Promise<Reply>][] = [
    ['the same', () => app.test.post(CREATE, simple, { 'idempotency-key': key })],
    ['quoted', () => app.test.post(CREATE, simple, { 'idempotency-key': `"${key}"` })],
    ['other spelling of the key', () => app.as(respelled(keys.testSecret)).post(CREATE, simple, { 'idempotency-key': key })],
    ['/v1', () => app.test.post(`/v1${CREATE}`, simple, { 'idempotency-key': key })],
    ['the same JSON written otherwise', () => app.test.post(CREATE, spaced, { 'idempotency-key': key })],
    ['another process', () => client(twin.url!, keys.testSecret).post(CREATE, simple, { 'idempotency-key': key })],
  ];
  for (const [what, repeat] of repeats) {
    const reply = await repeat();
    assert.equal(reply.status, 201, `${what}: ${reply.text}`);
    assert.equal(reply.text, first.text, what);
    assert.equal(reply.headers.get('idempotent-replayed'), 'true', what);
    assert.equal(reply.headers.get('content-type'), first.headers.get('content-type'));
  }
  for (const body of [
    { ...simple, amount_usd: 26 },
    { ...simple, description: 'more' },
    { ...simple, amount_usd: '25' },
    spaced.replace('25', '25.0'),
  ]) {
    refused(await app.test.post(CREATE, body, { 'idempotency-key': key }), 422, 'idempotency_mismatch');
  }
  // Another merchant, mode, type of key or route is another key.
  const others = await Promise.all([
    app.as(other.keys.testSecret).post(CREATE, simple, { 'idempotency-key': key }),
    app.live.post(CREATE, simple, { 'idempotency-key': key }),
    app.testPublic.post(CREATE, simple, { 'idempotency-key': key }),
    app.test.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD' }, { 'idempotency-key': key }),
  ]);
  const ids = others.map((reply) => made(reply).id);
  assert.equal(new Set([first.json.id, ...ids]).size, 5);
});

test('a refused request stores nothing under its key', async () => {
  const headers = { 'idempotency-key': randomUUID() };
  for (const body of ['{', {}, { ...simple, amount_usd: 0 }, { ...simple, metadata: { a: 1 } }])
    assert.equal((await app.test.post(CREATE, body, headers)).status, 400);
  assert.equal((await app.test.post(CREATE, 'x', { ...headers, 'content-type': 'text/plain' })).status, 415);
  assert.equal((await app.anonymous.post(CREATE, simple, headers)).status, 401);
  const { id } = made(await app.test.post(CREATE, simple, headers));
  const other = { 'idempotency-key': randomUUID() };
  refused(await app.test.post(`/v1/payments/${id}/resolve`, { action: 'accept' }, other), 409, 'payment_status_conflict');
  assert.equal((await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'late' })).status, 200);
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.exception === 'late',
  );
  const accepted = await app.test.post(`/v1/payments/${id}/resolve`, { action: 'accept' }, other);
  assert.equal(accepted.status, 200, accepted.text);
  assert.equal(accepted.headers.get('idempotent-replayed'), null);
});

// Invariant: A repeated request takes effect once.
test('concurrent requests with one key create one payment, over two processes', async () => {
  const merchant = await createMerchant(app.app.ctx, { name: 'Busy shop', plan: 'enterprise' });
  for (const [path, body] of [
    [CREATE, simple],
    ['/v1/transactions/create', { crypto: 'LTC', amount: 25, currency_fiat: 'USD' }],
    ['/payments', { amount: '0.5' }],
  ] as const) {
    const before = await paymentsOf(merchant.merchantId);
    const headers = { 'idempotency-key': randomUUID() };
    const ends = [app.url, twin.url!].map((url) => client(url, merchant.keys.testSecret));
    const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => ends[i % 2]!.post(path, body, headers)));
    assert.equal(await paymentsOf(merchant.merchantId), before + 1);
    const won = replies.filter((reply) => reply.status === 201);
    assert.equal(won.filter((reply) => reply.headers.get('idempotent-replayed') === null).length, 1);
    assert.equal(new Set(won.map((reply) => reply.text)).size, 1);
    for (const reply of replies.filter((r) => r.status !== 201)) {
      refused(reply, 409, 'idempotency_key_in_use');
      assert.equal(reply.headers.get('retry-after'), '1');
    }
    const later = await ends[1]!.post(path, body, headers);
    assert.equal(later.text, won[0]!.text);
    assert.equal(later.headers.get('idempotent-replayed'), 'true');
  }
});

test('a repeated decision or clock advance takes effect once', async () => {
  const { id } = made(await app.test.post(CREATE, simple));
  const twice = async (path: string, body: object) => {
    const headers = { 'idempotency-key': randomUUID() };
    const [first, second] = [await app.test.post(path, body, headers), await app.test.post(path, body, headers)];
    assert.equal(first.status, 200, first.text);
    assert.equal(second.text, first.text);
    assert.equal(second.headers.get('idempotent-replayed'), 'true');
    return first;
  };
  const rows = async () => (await app.app.ctx.db.sql`select count(*)::int as n from clock_advances where payment_id = ${id}`)[0]!.n;
  await twice('/v1/test/clock/advance', { seconds: 60, payment_id: id });
  assert.equal(await rows(), 1);
  await twice(`/v1/payments/${id}`, { metadata: { a: 'b' } });
  await twice(`/v1/payments/${id}/cancel`, {});
  const [decisions] = await app.app.ctx.db.sql`select count(*)::int as n from decisions where payment_id = ${id}`;
  assert.equal(decisions!.n, 1);
  // Another payment is another route, so the same key is free there.
  const next = made(await app.test.post(CREATE, simple)).id;
  const headers = { 'idempotency-key': 'cancel it' };
  for (const payment of [next, made(await app.test.post(CREATE, simple)).id]) {
    const reply = await app.test.post(`/v1/payments/${payment}/cancel`, {}, headers);
    assert.deepEqual([reply.status, reply.json.id, reply.headers.get('idempotent-replayed')], [200, payment, null]);
  }
});

/** What a browser lets a page of another site read, and send after a preflight. */
const ROUTES_FOR_PAGES = [CREATE, '/api/payment/create/advanced'].flatMap((path) => [path, `/v1${path}`]);
const advanced = { return_url: simple.return_url, items: [{ product_id: 'a', name: 'a', quantity: 1, unit_price: 1 }], tax: 0 };
const preflight = (path: string, origin = 'https://shop.example') =>
  fetch(app.url + path, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization, content-type' },
  });
/** A page of any site can read the reply, without credentials, and with it all headers that matter. */
const isReadable = (headers: Headers, what: string): void => {
  assert.equal(headers.get('access-control-allow-origin'), '*', what);
  assert.equal(headers.get('access-control-allow-credentials'), null, what);
  const exposed = headers.get('access-control-expose-headers')!.toLowerCase().split(', ');
  for (const name of ['retry-after', 'x-request-id', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'])
    assert.ok(exposed.includes(name), `${what}: ${name}`);
  for (const name of ['limit', 'remaining', 'reset']) assert.match(headers.get(`x-ratelimit-${name}`)!, /^\d+$/, what);
};

test('a public key without origins creates on pages of every site, and they can read the reply', async () => {
  const merchant = await createMerchant(app.app.ctx, { name: 'New shop', plan: 'enterprise' });
  const origins = ['https://shop.example', 'http://localhost:4000', 'https://evil.example', 'null'];
  for (const path of ROUTES_FOR_PAGES) {
    const { key } = await createApiKey(app.app.ctx, { merchantId: merchant.merchantId, mode: 'test', kind: 'public' });
    for (const origin of origins) {
      const asked = await preflight(path, origin);
      assert.equal(asked.status, 204);
      assert.equal(asked.headers.get('access-control-allow-methods'), 'POST');
      assert.match(asked.headers.get('access-control-allow-headers')!, /authorization.*content-type.*idempotency-key/);
      isReadable(asked.headers, `preflight of ${path} from ${origin}`);
      const reply = await app
        .as(key)
        .post(path, path.endsWith('simple') ? simple : advanced, { origin, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' });
      made(reply);
      isReadable(reply.headers, `${path} from ${origin}`);
    }
  }
  assert.equal(await paymentsOf(merchant.merchantId), ROUTES_FOR_PAGES.length * origins.length);
  for (const path of ['/api/payments', '/payments', '/v1/transactions/create', '/api/crypto/prices']) {
    const reply = await preflight(path);
    assert.equal(reply.status, 405);
    assert.equal(reply.headers.get('access-control-allow-origin'), null, 'only creations are for pages');
  }
});

test('with origins set, other pages are refused before anything is created, and can read why', async () => {
  const { ctx } = app.app;
  const ours = 'https://shop.example';
  const merchant = await createMerchant(ctx, { name: 'Careful shop', plan: 'enterprise' });
  const { merchantId } = merchant;
  const listed = await createApiKey(ctx, { merchantId, mode: 'test', kind: 'public', origins: [ours] });
  const others = [
    'https://second.example',
    'http://shop.example',
    'https://shop.example:8443',
    'https://shop.example.evil.example',
    'https://www.shop.example',
    'null',
  ];
  const tryOthers = async (key: string, path: string) => {
    for (const origin of others) {
      const asked = await preflight(path, origin);
      assert.equal(asked.status, 204);
      isReadable(asked.headers, `preflight of ${path} from ${origin}`);
      const reply = await app.as(key).post(path, path.endsWith('simple') ? simple : advanced, { origin });
      refused(reply, 403, 'origin_not_allowed');
      isReadable(reply.headers, `${path} from ${origin}`);
      assert.ok(reply.json.error.message.includes(origin), reply.text);
    }
  };
  for (const path of ROUTES_FOR_PAGES)
    await tryOthers((await createApiKey(ctx, { merchantId, mode: 'test', kind: 'public', origins: [ours] })).key, path);
  // The same with origins that all keys of the merchant share.
  await setBranding(ctx, { merchantId, branding: { origins: [ours] } });
  await tryOthers(merchant.keys.testPublic, CREATE);
  assert.equal(await paymentsOf(merchantId), 0);
  for (const key of [listed.key, merchant.keys.testPublic]) {
    const good = await app.as(key).post(CREATE, simple, { origin: ours });
    made(good);
    isReadable(good.headers, 'from a listed page');
    made(await app.as(key).post(CREATE, simple));
    const away = await app.as(key).post(CREATE, { ...simple, return_url: 'https://evil.example/' }, { origin: ours });
    assert.deepEqual([away.status, away.json.error.param], [400, 'return_url']);
  }
});

test('a page can read every refusal: of its key, of its body, and by a limit', async () => {
  const { ctx } = app.app;
  const origin = 'https://busy.example';
  const { key, keyId } = await createApiKey(ctx, { merchantId: other.merchantId, mode: 'test', kind: 'public' });
  const post = (body: unknown, own: string | null = key, headers: object = {}) =>
    client(app.url, own).post(CREATE, body, { origin, ...headers });
  const replies: [Reply, number][] = [
    [await post(simple, null), 401],
    [await post(simple, `${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`), 401],
    [await post({ ...simple, amount_usd: 0 }), 400],
    [await post('{'), 400],
    [await client(app.url, key).post(`${CREATE}?${'x=1&'.repeat(3_000)}`, simple, { origin }), 400],
    [await post('x', key, { 'content-type': 'text/plain' }), 415],
    [await post({ ...simple, description: 'x'.repeat(65_536) }), 413],
    [await post(simple, key, { 'idempotency-key': '' }), 400],
    [await post({ ...simple, metadata: { a: 'b' } }), 400],
  ];
  for (let i = 0; i < 4; i++) replies.push([await post(simple), 201]);
  replies.push([await post(simple), 429]);
  await revokeApiKey(ctx, { keyId });
  await eventually(
    () => post(simple),
    ({ status }) => status === 401,
  );
  for (const [reply, status] of replies) {
    assert.equal(reply.status, status, reply.text);
    isReadable(reply.headers, `${status}: ${reply.text}`);
  }
  assert.ok(Number(replies.at(-1)![0].headers.get('retry-after')) >= 1);
});

test('a secret key on a page of another site is refused with a reason that the page can read', async () => {
  const { merchantId, keys } = await createMerchant(app.app.ctx, { name: 'Careless shop', plan: 'enterprise' });
  for (const path of ROUTES_FOR_PAGES)
    for (const headers of [
      { origin: 'https://evil.example' },
      { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
      { origin: 'null' },
    ]) {
      const reply = await app
        .as(keys.testSecret)
        .post(path, path.endsWith('simple') ? simple : advanced, headers as Record<string, string>);
      refused(reply, 403, 'secret_key_in_page');
      isReadable(reply.headers, path);
    }
  assert.equal(await paymentsOf(merchantId), 0);
  made(await app.as(keys.testSecret).post(CREATE, simple, { origin: app.url }));
  const read = await app.test.get('/api/payments', { origin: 'https://shop.example' });
  assert.equal(read.headers.get('access-control-allow-origin'), null);
});

test('callers without a key share a limit by address, which does not affect keys', async () => {
  const replies: Reply[] = [];
  // The limit is 300; earlier requests in this file have used some of it, and its minute may end once in between.
  for (let i = 0; i <= 600; i++) {
    replies.push(await app.anonymous.get(i % 2 === 0 ? '/api/payments' : '/nothing'));
    if (replies.at(-1)!.status === 429) break;
  }
  const last = replies.at(-1)!;
  refused(last, 429, 'rate_limit_exceeded');
  assert.equal(limitsOf(last).limit, 300);
  assert.ok(Number(last.headers.get('retry-after')) >= 1);
  assert.equal((await app.test.get('/api/payments')).status, 200);
});
