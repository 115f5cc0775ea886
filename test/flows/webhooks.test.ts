/** How merchants manage webhooks: endpoints, secrets, test events, the delivery log, resending, deletion. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import { forgetEvents, startRecovery } from '../../src/deliveries/deliveries.ts';
import { createMerchant, setPlan } from '../../src/merchants/merchants.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp, testEnvironment } from '../kit/app.ts';
import { serve } from '../kit/serve.ts';
import { runFlorin } from '../kit/service.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0},"starter":{"per_minute":0}}', LOG_LEVEL: 'fatal' });
});
after(() => app?.stop());

type Hit = { headers: IncomingHttpHeaders; body: string; event: any };
type Answer = (reply: ServerResponse, hit: Hit) => unknown;
const status =
  (code: number, body = '', headers: Record<string, string> = {}): Answer =>
  (reply) =>
    reply.writeHead(code, headers).end(body);
/** An endpoint that refuses with this is paused for a minute, so that the state before the next attempt can be inspected. */
const LATER = { 'retry-after': '60' };
type Hook = { url: string; hits: Hit[]; answer(next: Answer): void };
async function startHook(t: TestContext, first: Answer = status(200)): Promise<Hook> {
  let answer = first;
  const hits: Hit[] = [];
  const server = await serve((request, reply, sent) => {
    const body = sent.toString();
    const hit = { headers: request.headers, body, event: JSON.parse(body) };
    hits.push(hit);
    answer(reply, hit);
  });
  t.after(server.stop);
  return {
    url: `${server.url}/hook`,
    hits,
    answer: (next) => {
      answer = next;
    },
  };
}

const PATH = '/v1/webhook_endpoints';
const ok = (reply: Reply, code = 200): any => {
  assert.equal(reply.status, code, reply.text);
  return reply.json;
};
const refused = (reply: Reply, code: number, problem: string, param: string | null = null) => {
  assert.equal(reply.status, code, reply.text);
  assert.deepEqual([reply.json.error.code, reply.json.error.param], [problem, param], reply.text);
};
/** A separate merchant, so that tests do not affect each other. */
async function openShop(plan: 'enterprise' | 'starter' = 'enterprise'): Promise<{ merchantId: string; test: Client; live: Client }> {
  const { merchantId, keys } = await createMerchant(app.app.ctx, { name: 'Shop', plan });
  return { merchantId, test: app.as(keys.testSecret), live: app.as(keys.liveSecret) };
}
const pay = async (own: Client): Promise<string> =>
  ok(await own.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' }), 201).id;
const deliveriesOf = async (own: Client, endpointId: string, query = ''): Promise<any[]> =>
  ok(await own.get(`/v1/webhook_deliveries?limit=100&endpoint_id=${endpointId}${query}`)).data;
const settled = (own: Client, endpointId: string, count: number, state: string): Promise<any[]> =>
  eventually(
    () => deliveriesOf(own, endpointId),
    (all) => all.length === count && all.every((d) => d.state === state),
  );

test('an endpoint is created, read, listed, changed and deleted, and its secret is shown once', async (t) => {
  const { test: shop } = await openShop();
  const hook = await startHook(t);
  const made = ok(await shop.post(PATH, { url: hook.url, events: ['payment.created', '*', '*'], description: 'Orders' }), 201);
  assert.match(made.id, /^we_[0-9A-Za-z]{24}$/);
  assert.match(made.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const { secret, connection, same_url, ...shown } = made;
  assert.deepEqual(connection, { reached: true, address: '127.0.0.1', reason: null, message: null, advice: null });
  assert.deepEqual(same_url, []);
  assert.deepEqual(
    [shown.url, shown.events, shown.description, shown.enabled, shown.disabled_reason, shown.mode],
    [hook.url, ['payment.created', '*'], 'Orders', true, null, 'test'],
  );
  assert.deepEqual(ok(await shop.get(`${PATH}/${made.id}`)), shown);
  assert.deepEqual(ok(await shop.get(PATH)).data, [shown]);
  const plain = ok(await shop.post(PATH, { url: hook.url }), 201);
  assert.deepEqual([plain.events, plain.description, plain.enabled], [['*'], null, true]);
  assert.deepEqual(plain.same_url, [made.id], 'a second endpoint with the same URL is named');
  assert.deepEqual(
    ok(await shop.get(PATH)).data.map((e: any) => e.id),
    [plain.id, made.id],
  );
  const changed = ok(await shop.post(`${PATH}/${made.id}`, { events: ['payment.completed'], description: null }));
  assert.deepEqual(changed, { ...shown, events: ['payment.completed'], description: null, connection: null, same_url: [] });
  assert.equal((await shop.get(`${PATH}/${made.id}`)).text.includes(secret), false);
  const [row] = await app.app.ctx.db.sql`select secret from endpoints where id = ${made.id}`;
  assert.equal(Buffer.from(row!.secret).includes(secret.slice(6)), false, 'sealed at rest');
  assert.deepEqual(ok(await shop.delete(`${PATH}/${made.id}`)), { success: true, id: made.id, deleted: true });
  refused(await shop.get(`${PATH}/${made.id}`), 404, 'endpoint_not_found');
  refused(await shop.delete(`${PATH}/${made.id}`), 404, 'endpoint_not_found');
  assert.deepEqual(
    ok(await shop.get(PATH)).data.map((e: any) => e.id),
    [plain.id],
  );
  await pay(shop);
  await settled(shop, plain.id, 1, 'delivered');
  assert.equal(hook.hits.length, 1, 'a deleted endpoint receives nothing');
});

test('a server that cannot be reached is named when its endpoint is saved, in each attempt and by the doctor', async (t) => {
  const { test: shop, merchantId } = await openShop();
  const hook = await startHook(t);
  const secure = hook.url.replace('http:', 'https:');
  const expected = [
    ['http://127.0.0.1:9/hook', 'connection_refused', 'The server refused the connection', /web server runs/],
    [secure, 'plain_http', 'The port answers in plain HTTP', /Turn on TLS/],
  ] as const;
  const endpoints: string[] = [];
  for (const [url, reason, message, advice] of expected) {
    const { id, connection } = ok(await shop.post(PATH, { url }), 201);
    assert.deepEqual(
      [connection.reached, connection.address, connection.reason, connection.message],
      [false, '127.0.0.1', reason, message],
    );
    assert.match(connection.advice, advice);
    endpoints.push(id);
  }
  assert.equal(ok(await shop.post(PATH, { url: hook.url, enabled: false }), 201).connection, null, 'nothing is sent there');
  const moved = ok(await shop.post(`${PATH}/${endpoints[0]}`, { url: secure }));
  assert.deepEqual([moved.connection.reason, moved.same_url], ['plain_http', [endpoints[1]]]);
  ok(await shop.post(`${PATH}/${endpoints[0]}`, { url: expected[0][0] }));
  // Nobody can read the secret of a third one any more, which is not the fault of its server.
  const lost = ok(await shop.post(PATH, { url: `${hook.url}?lost` }), 201).id;
  await app.app.ctx.db.sql`update endpoints set secret = ${Buffer.alloc(60)} where id = ${lost}`;
  await pay(shop);
  const attemptOf = async (endpointId: string) => {
    const [delivery] = await eventually(
      () => deliveriesOf(shop, endpointId),
      (all) => all[0]?.attempt_count > 0,
    );
    return ok(await shop.get(`/v1/webhook_deliveries/${delivery.id}`)).attempts[0];
  };
  for (const [i, [, reason, message]] of expected.entries()) {
    const attempt = await attemptOf(endpoints[i]!);
    assert.deepEqual([attempt.reason, attempt.message, attempt.address], [reason, message, '127.0.0.1']);
  }
  const unread = await attemptOf(lost);
  assert.deepEqual([unread.failure, unread.reason, unread.address], ['internal', 'secret_unreadable', null]);
  assert.match(unread.advice, /Your server is not the cause/);
  assert.equal(ok(await shop.get(`${PATH}/${lost}`)).failing_since, null);
  const { findings } = await diagnose(app.app.ctx);
  const of = (id: string) => findings.find(({ check }) => check === `endpoint ${id}`);
  assert.match(of(endpoints[0]!)!.detail, /The server refused the connection \(127\.0\.0\.1\)$/);
  assert.match(of(endpoints[0]!)!.fix!, /^Check that the web server runs/);
  assert.equal(of(lost), undefined);
  assert.match(findings.find(({ check }) => check === 'secret key')!.detail, new RegExp(`signing secret of ${lost}`));
  await app.app.ctx.db.sql`update endpoints set state = 'deleted' where merchant_id = ${merchantId}`;
});

test('an invalid endpoint is refused under the name of the field', async () => {
  const { test: shop, live } = await openShop();
  const url = 'http://127.0.0.1:9/hook';
  const id = ok(await shop.post(PATH, { url }), 201).id;
  for (const own of [shop, live]) {
    for (const wrong of [
      'shop',
      '/hook',
      'ftp://127.0.0.1/hook',
      'https://user:pw@127.0.0.1/hook',
      'https://10.0.0.1/hook',
      'https://169.254.169.254/latest',
      'https://[::1]/hook',
      'https://[::ffff:10.0.0.1]/hook',
      'https://2130706433.nip.invalid/hook',
      'https://0x0a000001/hook',
      'http://1.1.1.1/hook',
      'https://1.1.1.1:5432/hook',
      'https://no-such-name.invalid/hook',
    ]) {
      refused(await own.post(PATH, { url: wrong }), 400, 'url_invalid', 'url');
    }
    refused(await own.post(PATH, {}), 400, 'parameter_missing', 'url');
    for (const wrong of [7, null, [], '', `https://shop.example/${'x'.repeat(2048)}`])
      assert.equal((await own.post(PATH, { url: wrong })).json.error.param, 'url');
    refused(await own.post(PATH, { url, events: [] }), 400, 'parameter_invalid', 'events');
    refused(await own.post(PATH, { url, events: 'payment.created' }), 400, 'parameter_invalid', 'events');
    refused(await own.post(PATH, { url, events: ['*', 'payment.paid'] }), 400, 'parameter_invalid', 'events[1]');
    refused(await own.post(PATH, { url, events: ['webhook.test'] }), 400, 'parameter_invalid', 'events[0]');
    refused(await own.post(PATH, { url, enabled: 'yes' }), 400, 'parameter_invalid', 'enabled');
    refused(await own.post(PATH, { url, description: 'x'.repeat(501) }), 400, 'parameter_invalid', 'description');
  }
  refused(await shop.post(`${PATH}/${id}`, { url: 'https://no-such-name.invalid/hook' }), 400, 'url_invalid', 'url');
  refused(await shop.post(`${PATH}/${id}`, { events: ['x'] }), 400, 'parameter_invalid', 'events[0]');
  for (const wrong of [-1, 604_801, 1.5, '60'])
    refused(await shop.post(`${PATH}/${id}/rotate_secret`, { expires_in: wrong }), 400, 'parameter_invalid', 'expires_in');
  for (const wrong of ['yesterday', '2026-11-21', '2026-13-21T08:00:00Z', '', 7])
    refused(await shop.post(`${PATH}/${id}/recover`, { since: wrong }), 400, 'parameter_invalid', 'since');
  assert.equal(ok(await shop.get(PATH)).data.length, 1, 'nothing else was stored');
  assert.equal(ok(await live.get(PATH)).data.length, 0);
});

test('a plan without webhooks creates no endpoints and receives nothing, but allows reading and deleting', async (t) => {
  const hook = await startHook(t);
  const starter = await openShop('starter');
  refused(await starter.test.post(PATH, { url: hook.url }), 403, 'plan_required');
  refused(await starter.live.post(PATH, { url: hook.url }), 403, 'plan_required');
  const shop = await openShop();
  const { id } = ok(await shop.test.post(PATH, { url: hook.url }), 201);
  await setPlan(app.app.ctx, { merchantId: shop.merchantId, plan: 'starter' });
  await eventually(
    () => shop.test.post(`${PATH}/${id}/test`),
    (reply) => reply.status === 403,
  );
  for (const [path, body] of [
    [`${PATH}/${id}`, { description: 'a' }],
    [`${PATH}/${id}/rotate_secret`, {}],
    [`${PATH}/${id}/recover`, { since: '2026-11-21T08:00:00Z' }],
  ] as const)
    refused(await shop.test.post(path, body), 403, 'plan_required');
  const before = hook.hits.length;
  await pay(shop.test);
  await eventually(
    () => deliveriesOf(shop.test, id),
    (all) => all[0]?.event_type === 'payment.created' && all[0].state === 'failed',
  );
  assert.equal(hook.hits.length, before);
  assert.equal(ok(await shop.test.get(PATH)).data.length, 1);
  ok(await shop.test.delete(`${PATH}/${id}`));
});

test('the number of endpoints is limited in each mode, also when many are created at once', async () => {
  const { test: shop, live } = await openShop();
  const url = 'http://127.0.0.1:9/hook';
  const replies = await Promise.all(Array.from({ length: 20 }, () => shop.post(PATH, { url })));
  assert.equal(replies.filter((reply) => reply.status === 201).length, 16);
  for (const reply of replies.filter((r) => r.status !== 201)) refused(reply, 409, 'endpoint_limit_reached');
  ok(await live.post(PATH, { url }), 201);
  ok(await shop.delete(`${PATH}/${ok(await shop.get(PATH)).data[0].id}`));
  ok(await shop.post(PATH, { url }), 201);
});

test('test and live endpoints receive only the events of their own mode', async (t) => {
  const [testHook, liveHook] = [await startHook(t), await startHook(t)];
  const { test: shop, live } = await openShop();
  ok(await shop.post(PATH, { url: testHook.url }), 201);
  ok(await live.post(PATH, { url: liveHook.url }), 201);
  const [inTest, inLive] = [await pay(shop), await pay(live)];
  await eventually(
    async () => [testHook.hits.length, liveHook.hits.length],
    ([a, b]) => a === 1 && b === 1,
  );
  assert.deepEqual([testHook.hits[0]!.event.data.id, liveHook.hits[0]!.event.data.id], [inTest, inLive]);
});

test('a disabled endpoint gets nothing; missed events are sent after it is enabled and recovered', async (t) => {
  const hook = await startHook(t);
  const { test: shop } = await openShop();
  const { id } = ok(await shop.post(PATH, { url: hook.url, enabled: false }), 201);
  assert.deepEqual([ok(await shop.get(`${PATH}/${id}`)).enabled, ok(await shop.get(`${PATH}/${id}`)).disabled_reason], [false, 'merchant']);
  await pay(shop);
  refused(await shop.post(`${PATH}/${id}/test`), 409, 'endpoint_disabled');
  refused(await shop.post(`${PATH}/${id}/recover`, { since: '2026-11-21T08:00:00Z' }), 409, 'endpoint_disabled');
  ok(await shop.post(`${PATH}/${id}`, { enabled: true }));
  hook.answer(status(500, '', LATER));
  const missed = await pay(shop);
  await eventually(
    () => deliveriesOf(shop, id),
    (all) => all.length === 1 && all[0].attempt_count >= 1,
  );
  const off = ok(await shop.post(`${PATH}/${id}`, { enabled: false }));
  assert.deepEqual([off.enabled, off.disabled_reason], [false, 'merchant']);
  const [delivery] = await settled(shop, id, 1, 'failed');
  assert.equal(delivery.next_attempt_at, null);
  refused(await shop.post(`/v1/webhook_deliveries/${delivery.id}/resend`), 409, 'endpoint_disabled');
  const on = ok(await shop.post(`${PATH}/${id}`, { enabled: true }));
  assert.deepEqual([on.enabled, on.disabled_reason, on.failing_since], [true, null, null]);
  hook.answer(status(200));
  const since = new Date(Date.now() - 3_600_000).toISOString();
  ok(await shop.post(`${PATH}/${id}/recover`, { since }), 201);
  await settled(shop, id, 1, 'delivered');
  assert.equal(hook.hits.at(-1)!.event.data.id, missed);
});

/** Every way in which a merchant can check a delivery, with the secret as displayed. */
const VERIFIERS: Readonly<Record<string, (secret: string, hit: Hit) => void>> = {
  standardwebhooks: (secret, { body, headers }) => void new StandardWebhook(secret).verify(body, headers as Record<string, string>),
  svix: (secret, { body, headers }) => void new SvixWebhook(secret).verify(body, headers as Record<string, string>),
  'plain HMAC': (secret, { body, headers }) =>
    assert.equal(headers['x-service-signature'], createHmac('sha256', secret).update(body, 'utf8').digest('hex')),
};
const verifies = (secret: string, hit: Hit): string[] =>
  Object.entries(VERIFIERS)
    .filter(([, verify]) => {
      try {
        verify(secret, hit);
        return true;
      } catch {
        return false;
      }
    })
    .map(([name]) => name);
const ALL = Object.keys(VERIFIERS);
const STANDARD = ALL.slice(0, 2);

// Invariant: Common webhook libraries verify deliveries, also during a rotation.
test('standardwebhooks, svix and a plain HMAC verify the same deliveries, before, during and after a rotation', async (t) => {
  const hook = await startHook(t);
  const { test: shop } = await openShop();
  const { id, secret: first } = ok(await shop.post(PATH, { url: hook.url }), 201);
  const next = async (): Promise<Hit> => {
    const count = hook.hits.length;
    await pay(shop);
    await eventually(
      async () => hook.hits.length,
      (hits) => hits === count + 1,
    );
    return hook.hits.at(-1)!;
  };
  const before = await next();
  assert.deepEqual(verifies(first, before), ALL);
  const rotated = ok(await shop.post(`${PATH}/${id}/rotate_secret`));
  const second = rotated.secret;
  const overlap = Date.parse(rotated.previous_secret_expires_at) - Date.now();
  assert.ok(Math.abs(overlap - 86_400_000) < 60_000, `overlap of ${overlap} ms`);
  const during = await next();
  assert.deepEqual(verifies(first, during), ALL, 'who has the old secret notices nothing');
  assert.deepEqual(verifies(second, during), STANDARD, 'who has the new one can verify already');
  assert.equal(String(during.headers['webhook-signature']).split(' ').length, 2);
  await app.app.ctx.db.sql`update endpoints set previous_until = clock_timestamp() where id = ${id}`;
  const afterwards = await next();
  assert.deepEqual([verifies(first, afterwards), verifies(second, afterwards)], [[], ALL]);
  assert.equal(ok(await shop.get(`${PATH}/${id}`)).previous_secret_expires_at, null);
  const atOnce = ok(await shop.post(`${PATH}/${id}/rotate_secret`, { expires_in: 0 }));
  assert.equal(atOnce.previous_secret_expires_at, null);
  const third = await next();
  assert.deepEqual([verifies(second, third), verifies(atOnce.secret, third)], [[], ALL]);
  const stranger = `whsec_${Buffer.alloc(32).toString('base64')}`;
  for (const hit of [before, during, afterwards, third]) {
    assert.deepEqual(verifies(stranger, hit), []);
    assert.deepEqual(verifies(first, { ...hit, body: hit.body.replace('pending', 'completed') }), []);
  }
});

test('a repeated request creates one endpoint and shows its secret again, which is stored sealed', async () => {
  const { test: shop } = await openShop();
  const body = { url: 'http://127.0.0.1:9/hook' };
  const key = { 'idempotency-key': 'endpoint-1' };
  const [first, second] = [await shop.post(PATH, body, key), await shop.post(PATH, body, key)];
  assert.equal(second.text, first.text);
  assert.equal(second.headers.get('idempotent-replayed'), 'true');
  assert.equal(ok(await shop.get(PATH)).data.length, 1);
  assert.equal((await shop.post(PATH, { ...body, description: 'other' }, key)).status, 422);
  const rotate = `${PATH}/${first.json.id}/rotate_secret`;
  const [once, again] = [await shop.post(rotate, {}, key), await shop.post(rotate, {}, key)];
  assert.equal(again.text, once.text);
  const rows = await app.app.ctx.db.sql`select body, sealed from idempotency`;
  assert.equal(rows.filter((row) => row.sealed).length, 2);
  for (const { secret } of [first.json, once.json])
    assert.ok(
      rows.every((row) => !Buffer.from(row.body).includes(secret.slice(6))),
      'no secret is in the table',
    );
});

test('a test event arrives signed, once, and is in the delivery log but not in the list of events', async (t) => {
  const hook = await startHook(t);
  const { test: shop } = await openShop();
  const { id, secret } = ok(await shop.post(PATH, { url: hook.url, events: ['payment.failed'] }), 201);
  const sent = ok(await shop.post(`${PATH}/${id}/test`), 201);
  assert.deepEqual([sent.event_type, sent.payment_id, sent.endpoint_id], ['webhook.test', null, id]);
  const [delivery] = await settled(shop, id, 1, 'delivered');
  assert.equal(delivery.id, sent.id);
  const [hit] = hook.hits as [Hit];
  assert.deepEqual([hit.event.type, hit.event.data], ['webhook.test', { endpoint_id: id }]);
  assert.deepEqual(verifies(secret, hit), ALL);
  hook.answer(status(500));
  ok(await shop.post(`${PATH}/${id}/test`), 201);
  const [failed] = await eventually(
    () => deliveriesOf(shop, id),
    (all) => all[0].state === 'failed',
  );
  assert.deepEqual([failed.attempt_count, failed.next_attempt_at], [1, null], 'a test event is not tried again');
  await sleep(300);
  assert.equal(ok(await shop.get('/v1/events')).data.length, 0);
});

test('the log shows each attempt: time, URL, request, response and duration', async (t) => {
  const hook = await startHook(t, status(503, `down ${'x'.repeat(10_000)}`, LATER));
  const { test: shop } = await openShop();
  const { id } = ok(await shop.post(PATH, { url: hook.url }), 201);
  const payment = await pay(shop);
  const [item] = await eventually(
    () => deliveriesOf(shop, id),
    ([d]) => d?.attempt_count === 1,
  );
  assert.deepEqual(
    [item.event_type, item.payment_id, item.endpoint_id, item.state, item.mode, item.delivered_at],
    ['payment.created', payment, id, 'pending', 'test', null],
  );
  hook.answer(status(200, 'thanks \u0000 \ud83d\ude00'));
  ok(await shop.post('/v1/test/clock/advance', { seconds: 60 }));
  await settled(shop, id, 1, 'delivered');
  const detail = ok(await shop.get(`/v1/webhook_deliveries/${item.id}`));
  assert.equal(detail.request_body, hook.hits[0]!.body);
  assert.equal(detail.attempts.length, 2);
  const [first, second] = detail.attempts;
  assert.deepEqual([first.number, first.status, first.failure, first.url], [1, 503, 'status_503', hook.url]);
  assert.equal(first.response_body, `down ${'x'.repeat(4_091)}`);
  assert.ok(Date.parse(item.next_attempt_at) > Date.parse(first.at) + 5_000, `${item.next_attempt_at} after ${first.at}`);
  for (const [i, attempt] of detail.attempts.entries()) {
    for (const [name, value] of Object.entries(attempt.request_headers))
      assert.equal(hook.hits[i]!.headers[name.toLowerCase()], value, name);
    assert.ok('webhook-signature' in attempt.request_headers);
    assert.ok(attempt.duration_ms >= 0 && attempt.duration_ms < 10_000);
    assert.ok(Math.abs(Date.parse(attempt.at) - Date.now()) < 60_000);
  }
  assert.deepEqual([second.number, second.status, second.failure], [2, 200, null]);
  assert.equal(second.response_body, 'thanks \u0000 \ud83d\ude00');
  refused(await shop.get('/v1/webhook_deliveries/del_000000000000000000000000'), 404, 'delivery_not_found');
});

test('deliveries are listed newest first, by endpoint, event and state, page by page, each once', async (t) => {
  const [good, bad] = [await startHook(t), await startHook(t, status(500))];
  const { test: shop } = await openShop();
  const { id: goodId } = ok(await shop.post(PATH, { url: good.url }), 201);
  const { id: badId } = ok(await shop.post(PATH, { url: bad.url }), 201);
  const payments: string[] = [];
  for (let i = 0; i < 7; i++) payments.push(await pay(shop));
  await settled(shop, goodId, 7, 'delivered');
  const all = ok(await shop.get('/v1/webhook_deliveries?limit=100')).data;
  assert.equal(all.length, 14);
  assert.deepEqual([...new Set(all.map((d: any) => d.payment_id))], payments.toReversed());
  const paged: any[] = [];
  for (let after = ''; ; ) {
    const page = ok(await shop.get(`/v1/webhook_deliveries?limit=4${after}`));
    paged.push(...page.data);
    if (!page.has_more) break;
    after = `&starting_after=${page.data.at(-1).id}`;
  }
  assert.deepEqual(
    paged.map((d) => d.id),
    all.map((d: any) => d.id),
  );
  const only = async (query: string) => ok(await shop.get(`/v1/webhook_deliveries?limit=100&${query}`)).data;
  assert.ok((await only(`endpoint_id=${badId}`)).every((d: any) => d.endpoint_id === badId));
  assert.equal((await only(`endpoint_id=${badId}`)).length, 7);
  assert.equal((await only('state=pending')).length, 7);
  assert.equal((await only(`state=delivered&endpoint_id=${badId}`)).length, 0);
  const event = all[0].event_id;
  assert.deepEqual((await only(`event_id=${event}`)).map((d: any) => d.endpoint_id).sort(), [goodId, badId].sort());
  assert.equal((await only(`event_id=${event}&state=delivered`)).length, 1);
  assert.deepEqual(await only('event_id=evt_unknown'), []);
  const page = ok(await shop.get(`/v1/webhook_deliveries?limit=1&event_id=${event}`));
  assert.equal(page.has_more, true);
  assert.equal(ok(await shop.get(`/v1/webhook_deliveries?limit=1&event_id=${event}&starting_after=${page.data[0].id}`)).has_more, false);
});

test('what the browser of a customer gets proves nothing to a shop: no page, answer, update or return address is signed', async (t) => {
  const { test: shop } = await openShop();
  const hook = await startHook(t);
  const { secret } = ok(await shop.post(PATH, { url: hook.url }), 201);
  const id = await pay(shop);
  const stream = await fetch(`${app.url}/pay/events?id=${id}`);
  const pages = ['', '/status', '/receipt', '/receipt.pdf'].map((page) => `${app.url}/pay${page}?id=${id}`);
  const told: string[] = [];
  const look = async () => {
    for (const url of pages) {
      const reply = await fetch(url, { redirect: 'manual' });
      told.push(await reply.text(), ...[...reply.headers].flat());
    }
  };
  await look();
  ok(await shop.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' }));
  await eventually(
    async () => ok(await shop.get(`/api/payment/${id}`)).status,
    (status) => status === 'completed',
  );
  await look();
  const updates = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
  let updated = '';
  while (!updated.includes('event: v')) updated += (await updates.read()).value ?? assert.fail('the stream ended');
  told.push(updated);
  await updates.cancel();
  await eventually(
    async () => hook.hits.length,
    (hits) => hits >= 3,
  );
  const all = told.join('\n');
  assert.match(all, /https:\/\/shop\.example\/\?transaction_id=pay_/, 'the way back to the shop is among them');
  const signatures = hook.hits.flatMap(({ headers }) => [headers['webhook-signature'], headers['x-service-signature']]);
  assert.equal(signatures.length, 2 * hook.hits.length);
  for (const text of [secret, secret.slice(6), ...signatures.map(String)]) {
    assert.ok(text.length > 20);
    assert.ok(!all.includes(text.replace(/^v1,|^sha256=/, '')), 'nothing that a shop would believe');
  }
});

test('a single delivery is resent with the same bytes; the extra attempt does not change its schedule', async (t) => {
  const hook = await startHook(t);
  const { test: shop } = await openShop();
  const { id } = ok(await shop.post(PATH, { url: hook.url }), 201);
  await pay(shop);
  const [delivery] = await settled(shop, id, 1, 'delivered');
  const again = ok(await shop.post(`/v1/webhook_deliveries/${delivery.id}/resend`));
  assert.equal(again.state, 'pending');
  const [resent] = await eventually(
    () => deliveriesOf(shop, id),
    ([d]) => d.attempt_count === 2,
  );
  assert.equal(resent.state, 'delivered');
  assert.equal(hook.hits[1]!.body, hook.hits[0]!.body);
  hook.answer(status(500));
  await pay(shop);
  const failing = () =>
    eventually(
      () => deliveriesOf(shop, id),
      ([d]) => d.attempt_count > 0 && d.next_attempt_at > new Date().toISOString(),
    );
  await failing();
  ok(await shop.post('/v1/test/clock/advance', { seconds: 7 }));
  const [waiting] = await eventually(failing, ([d]) => d!.attempt_count === 2);
  ok(await shop.post(`/v1/webhook_deliveries/${waiting.id}/resend`));
  const [after] = await eventually(failing, ([d]) => d!.attempt_count === 3);
  assert.equal(after.next_attempt_at, waiting.next_attempt_at, 'the schedule stands');
});

test('all deliveries that failed since a given time are resent, with progress, one recovery at a time', async (t) => {
  const hook = await startHook(t, status(500));
  const { test: shop, merchantId } = await openShop();
  const { id } = ok(await shop.post(PATH, { url: hook.url }), 201);
  const payments: string[] = [];
  for (let i = 0; i < 30; i++) payments.push(await pay(shop));
  const { sql } = app.app.ctx.db;
  // They failed for good, the first ten of them before the requested time.
  await eventually(
    () => deliveriesOf(shop, id),
    (all) => all.length === 30,
  );
  await eventually(
    async () => {
      // It waits for attempts in progress: their result would overwrite this.
      await sql`
        update deliveries set state = 'failed', due_at = null, leased_until = null
        where endpoint_id = ${id} and state = 'pending' and (leased_until is null or leased_until < clock_timestamp())`;
      return deliveriesOf(shop, id, '&state=pending');
    },
    (left) => left.length === 0,
    60_000,
  );
  await sql`
    update deliveries set created_at = created_at - interval '2 hours'
    where endpoint_id = ${id} and payment_id = any(${payments.slice(0, 10)}::text[])`;
  await sql`update endpoints set failures = 0, rests_until = null where id = ${id}`;
  const before = hook.hits.length;
  hook.answer(status(200));
  const since = new Date(Date.now() - 3_600_000).toISOString();
  const recovery = ok(await shop.post(`${PATH}/${id}/recover`, { since }), 201);
  assert.deepEqual([recovery.total, recovery.endpoint_id, recovery.since], [20, id, since]);
  const done = await eventually(
    async () => ok(await shop.get(`/v1/webhook_recoveries/${recovery.id}`)),
    ({ status }) => status === 'done',
  );
  assert.deepEqual([done.total, done.queued, done.delivered, done.failed], [20, 20, 20, 0]);
  const arrived = hook.hits.slice(before).map((hit) => hit.event.data.id);
  assert.deepEqual([...new Set(arrived)].sort(), payments.slice(10).sort());
  assert.equal((await deliveriesOf(shop, id, '&state=failed')).length, 10);
  const { ctx } = app.app;
  const again = { merchantId, mode: 'test', endpointId: id, since: new Date(since) } as const;
  await assert.rejects(
    ctx.db.begin(async (tx) => {
      await startRecovery(ctx, tx, again);
      await startRecovery(ctx, tx, again);
    }),
    (error: any) => error.code === 'recovery_running' && error.status === 409,
  );
});

test('events older than 30 days are deleted, waiting ones are not, and IDs of later events stay correct', async (t) => {
  const hook = await startHook(t);
  const { test: shop, merchantId } = await openShop();
  const { id } = ok(await shop.post(PATH, { url: hook.url }), 201);
  const [old, waiting, fresh] = [await pay(shop), await pay(shop), await pay(shop)];
  await settled(shop, id, 3, 'delivered');
  const { ctx } = app.app;
  await ctx.db.sql`
    update events set created_at = created_at - interval '31 days' where merchant_id = ${merchantId} and payment_id = any(${[old, waiting]}::text[])`;
  await ctx.db.sql`
    update deliveries set state = 'pending', due_at = now() + interval '1 day' where merchant_id = ${merchantId} and payment_id = ${waiting}`;
  const eventOf = async (payment: string) => ok(await shop.get(`/v1/events?payment_id=${payment}`)).data[0];
  const oldEvent = await eventOf(old);
  await eventually(
    () => forgetEvents(ctx).then(() => eventOf(old)),
    (event) => event === undefined,
  );
  refused(await shop.get(`/v1/events/${oldEvent.id}`), 404, 'event_not_found');
  assert.deepEqual((await deliveriesOf(shop, id)).map((d) => d.payment_id).sort(), [waiting, fresh].sort());
  const [orphans] = await ctx.db.sql`
    select count(*)::int as n from attempts a where not exists (select 1 from deliveries d where d.id = a.delivery_id)`;
  assert.equal(orphans!.n, 0);
  assert.equal((await eventOf(waiting)).data.id, waiting);
  assert.equal(ok(await shop.get(`/api/payment/${old}`)).status, 'pending', 'the payment itself stays');
  ok(await shop.post(`/v1/payments/${old}/cancel`));
  const left = ok(await shop.get(`/v1/events?payment_id=${old}`)).data.map((event: any) => [event.type, event.data.sequence]);
  assert.deepEqual(left, [['payment.cancelled', 2]]);
});

test('the operator sees a disabled endpoint until it is enabled again', async (t) => {
  const hook = await startHook(t, status(410));
  const { test: shop, merchantId } = await openShop();
  const { id } = ok(await shop.post(PATH, { url: hook.url }), 201);
  await pay(shop);
  const off = await eventually(
    async () => ok(await shop.get(`${PATH}/${id}`)),
    ({ enabled }) => !enabled,
  );
  assert.equal(off.disabled_reason, 'gone');
  const florin = operator();
  const noticed = async () => (await florin('doctor')).findings.filter((f: any) => f.check === `endpoint ${id}`);
  const [finding] = await noticed();
  assert.match(finding.detail, new RegExp(`\\(test, ${merchantId}\\) was disabled at .*: it answered 410`));
  ok(await shop.post(`${PATH}/${id}`, { enabled: true }));
  assert.deepEqual(await noticed(), []);
});

/** Operator commands with the service running. */
const operator =
  () =>
  (...args: string[]): Promise<any> =>
    runFlorin(operatorEnvironment(), args);
const operatorEnvironment = () => ({
  PATH: process.env.PATH ?? '',
  ...testEnvironment(app.config.databaseUrl!, app.config.dataFolder),
});

test('an operator can do by command what a merchant does by request', async (t) => {
  const hook = await startHook(t);
  const { test: shop, merchantId } = await openShop();
  const florin = operator();
  const own = ['--merchant', merchantId, '--mode', 'test'];
  const { endpoint_id } = await florin('endpoint', 'create', ...own, '--url', hook.url);
  const named = [...own, '--endpoint', endpoint_id];
  const { endpoints } = await florin('endpoint', 'list', ...own);
  assert.deepEqual(endpoints, ok(await shop.get(PATH)).data);
  const updated = await florin('endpoint', 'update', ...named, '--events', 'payment.created', '--description', 'Till');
  assert.deepEqual([updated.events, updated.description], [['payment.created'], 'Till']);
  const { delivery_id } = await florin('endpoint', 'test', ...named);
  await settled(shop, endpoint_id, 1, 'delivered');
  const shown = await florin('delivery', 'show', ...own, '--delivery', delivery_id);
  assert.equal(shown.attempts.length, 1);
  // By its earlier name, which the program translates.
  const early = ['src/main.ts', 'deliveries', 'list', ...named, '--state', 'delivered', '--event', 'webhook.test', '--json'];
  const listed = JSON.parse((await promisify(execFile)(process.execPath, early, { env: operatorEnvironment() })).stdout);
  assert.deepEqual([listed.deliveries, listed.has_more], [await deliveriesOf(shop, endpoint_id), false]);
  assert.deepEqual((await florin('delivery', 'list', ...own, '--payment', 'pay_unknown')).deliveries, []);
  await florin('delivery', 'resend', ...own, '--delivery', delivery_id);
  await eventually(
    async () => hook.hits.length,
    (hits) => hits === 2,
  );
  const { secret } = await florin('endpoint', 'rotate', ...named, '--overlap', '0');
  for (const since of ['0000-01-01T00:00:00Z', '2026-01-01T24:00:00Z', '1'])
    await assert.rejects(florin('endpoint', 'recover', ...named, '--since', since), /since is invalid: .* from 2009 to 2100/, since);
  const recovery = await florin('endpoint', 'recover', ...named, '--since', '2026-01-01T00:00:00Z');
  assert.equal((await florin('endpoint', 'recovery', ...own, '--recovery', recovery.id)).id, recovery.id);
  await pay(shop);
  await eventually(
    async () => hook.hits.length,
    (hits) => hits === 3,
  );
  assert.deepEqual(verifies(secret, hook.hits[2]!), ALL);
  await florin('endpoint', 'delete', ...named);
  assert.deepEqual(ok(await shop.get(PATH)).data, []);
});

test('metrics count due, running and attempted deliveries', async (t) => {
  const hook = await startHook(t, () => {});
  const { test: shop, merchantId } = await openShop();
  await createEndpoint(app.app.ctx, { merchantId, mode: 'test', url: hook.url, events: ['*'], description: null });
  const figure = async (name: string): Promise<number> => {
    const text = (await app.anonymous.get('/metrics')).text;
    return Number(new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (\\S+)$`, 'm').exec(text)?.[1] ?? 0);
  };
  const delivered = await figure('florin_delivery_attempts_total{outcome="delivered"}');
  const resets = await figure('florin_delivery_attempts_total{outcome="reset"}');
  await pay(shop);
  await eventually(
    async () => hook.hits.length,
    (hits) => hits === 1,
  );
  // For the whole install: deliveries of other shops may be in progress too.
  await eventually(
    () => figure('florin_deliveries_in_flight'),
    (n) => n >= 1,
  );
  let waiting: ServerResponse | null = null;
  hook.answer((reply) => {
    waiting = reply;
  });
  await pay(shop);
  await eventually(
    async () => waiting !== null,
    (is) => is,
  );
  waiting!.socket!.destroy();
  await eventually(
    () => figure('florin_delivery_attempts_total{outcome="reset"}'),
    (n) => n >= resets + 1,
  );
  hook.answer(status(200));
  ok(await shop.post('/v1/test/clock/advance', { seconds: 10 }));
  await eventually(
    () => figure('florin_delivery_attempts_total{outcome="delivered"}'),
    (n) => n >= delivered + 1,
  );
  assert.ok((await figure('florin_deliveries_oldest_seconds')) >= 0);
  assert.match((await app.anonymous.get('/metrics')).text, /^florin_deliveries_due \d+$/m);
});
