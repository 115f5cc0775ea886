/** Verifying webhooks: real deliveries, every way to forge or corrupt one, and deliveries signed for a receiver's own tests. */
// Invariant: Only genuine webhooks pass verification.
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { Webhook } from 'standardwebhooks';
import { createClient, WebhookError, type WebhookFault, webhooks } from '../../sdk/src/index.ts';
import { signDelivery } from '../../src/deliveries/deliver.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { type Received, type Receiver, startReceiver } from '../kit/receiver.ts';

const { isRepeat, newSecret, signTestEvent, verify } = webhooks;
let app: TestApp;
let receiver: Receiver;
let secret: string;
let deliveries: Received[];

before(async () => {
  app = await startTestApp();
  receiver = await startReceiver();
  ({ secret } = await createEndpoint(app.app.ctx, {
    merchantId: app.merchant.merchantId,
    mode: 'test',
    url: receiver.url,
    events: ['*', 'payment.updated'],
    description: null,
  }));
  const client = createClient({ url: app.url, key: app.merchant.keys.testSecret });
  const { id } = await client.payments.createSimple({ amount_usd: 25, return_url: 'https://shop.example/', metadata: { name: 'Zoë 🦊' } });
  await client.test.simulate(id, { scenario: 'success' });
  await eventually(
    async () => receiver.received,
    (all) => all.some(({ event }) => event.type === 'payment.completed'),
  );
  deliveries = [...receiver.received];
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
});

const refused = async (act: Promise<unknown>, reason: WebhookFault, words: RegExp): Promise<void> => {
  const error = await act.then(
    () => assert.fail(`taken, although ${reason}`),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof WebhookError, String(error));
  assert.equal(error.reason, reason);
  assert.match(error.message, words);
};

test('real deliveries are accepted as text, as bytes, and with headers in every form', async () => {
  assert.ok(deliveries.length >= 3);
  for (const { body, headers, event } of deliveries) {
    const capital = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]));
    const bytes = new TextEncoder().encode(body);
    const lists = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [String(value)]]));
    for (const [given, head] of [
      [body, headers],
      [Buffer.from(body), new Headers(headers as Record<string, string>)],
      [bytes, capital],
      [bytes.buffer, lists],
    ] as [string, Record<string, string>][]) {
      assert.deepEqual(await verify(given, head, secret), event);
    }
  }
  const completed = await verify(deliveries.at(-1)!.body, deliveries.at(-1)!.headers, secret);
  assert.equal(completed.type, 'payment.completed');
  if (completed.type === 'payment.completed') assert.equal(completed.data.metadata.name, 'Zoë 🦊');
});

test('a changed byte, another secret and another id are refused', async () => {
  const { body, headers } = deliveries[0]!;
  await refused(verify(body.replace('25.00', '26.00'), headers, secret), 'signature_mismatch', /exact bytes/);
  await refused(verify(`${body}\n`, headers, secret), 'signature_mismatch', /another endpoint/);
  await refused(verify(body, headers, newSecret()), 'signature_mismatch', /secret/);
  await refused(verify(body, { ...headers, 'webhook-id': deliveries[1]!.event.id }, secret), 'signature_mismatch', /webhook-signature/);
  for (const signature of ['', 'v1,', 'v1,AAAA', 'v2,abc', 'v1,%%%', `v1a,${String(headers['webhook-signature']).slice(3)}`]) {
    await refused(verify(body, { ...headers, 'webhook-signature': signature }, secret), 'signature_mismatch', /./);
  }
  const other = await signTestEvent({ type: 'payment.completed', data: {} }, secret);
  const id = 'evt_other';
  const at = Math.floor(Date.now() / 1000);
  const signed = signDelivery({ secret, previousSecret: null, id, timestampSeconds: at, body: Buffer.from(other.body) });
  await refused(verify(other.body, signed, secret), 'id_mismatch', /webhook-id/);
});

test('a delivery that is replayed later, or dated ahead, is refused', async () => {
  const now = Math.floor(Date.now() / 1000);
  const at = (offset: number) => signTestEvent({ type: 'payment.completed', data: {} }, secret, { timestampSeconds: now + offset });
  for (const [offset, reason] of [
    [-302, 'too_old'],
    [360, 'too_new'],
  ] as const) {
    const { body, headers } = await at(offset);
    await refused(verify(body, headers, secret), reason, /clock/);
    assert.ok(await verify(body, headers, secret, { toleranceSeconds: 600 }));
  }
  const { body, headers } = await at(-200);
  assert.ok(await verify(body, headers, secret));
  await refused(verify(body, { ...headers, 'webhook-timestamp': String(now) }, secret), 'signature_mismatch', /./);
  for (const timestamp of ['', 'now', '1e9', '-5', '1.5']) {
    await refused(verify(body, { ...headers, 'webhook-timestamp': timestamp }, secret), 'timestamp_invalid', /seconds/);
  }
});

test('a delivery without the headers that date it is refused, unless this was chosen', async () => {
  const { body, headers, event } = deliveries[0]!;
  const stripped = { 'x-service-signature': headers['x-service-signature'] };
  await refused(verify(body, stripped, secret), 'headers_missing', /legacy/);
  assert.deepEqual(await verify(body, stripped, secret, { legacy: 'accept' }), event);
  await refused(verify(body, {}, secret, { legacy: 'accept' }), 'headers_missing', /signature headers are missing/);
  await refused(verify(body.replace('25.00', '26.00'), stripped, secret, { legacy: 'accept' }), 'signature_mismatch', /X-Service/);
  for (const given of ['', 'zz', String(stripped['x-service-signature']).toUpperCase(), `${stripped['x-service-signature']}00`]) {
    await refused(verify(body, { 'x-service-signature': given }, secret, { legacy: 'accept' }), 'signature_mismatch', /X-Service/);
  }
  // If headers with a date are present, they decide: a valid old signature does not replace an invalid new one.
  await refused(
    verify(body, { ...headers, 'webhook-signature': 'v1,AAAA' }, secret, { legacy: 'accept' }),
    'signature_mismatch',
    /webhook-signature/,
  );
  await refused(
    verify(body, { ...headers, 'webhook-timestamp': undefined }, secret, { legacy: 'accept' }),
    'headers_missing',
    /webhook-timestamp/,
  );
  const old = JSON.stringify({ ...event, created_at: new Date(Date.now() - 97 * 3_600_000).toISOString() });
  const signature = { 'x-service-signature': createHmac('sha256', secret).update(old).digest('hex') };
  await refused(verify(old, signature, secret, { legacy: 'accept' }), 'too_old', /is from/);
  assert.ok(await verify(old, signature, secret, { legacy: 'accept', legacyToleranceSeconds: 98 * 3600 }));
  const undated = JSON.stringify({ ...event, created_at: 'once' });
  const sign = { 'x-service-signature': createHmac('sha256', secret).update(undated).digest('hex') };
  await refused(verify(undated, sign, secret, { legacy: 'accept' }), 'too_old', /./);
});

test('while a secret is being rotated both are accepted, and afterwards the old one is not', async () => {
  const next = newSecret();
  const body = deliveries[0]!.body;
  const id = deliveries[0]!.event.id;
  const timestampSeconds = Math.floor(Date.now() / 1000);
  const during = signDelivery({ secret: next, previousSecret: secret, id, timestampSeconds, body: Buffer.from(body) });
  assert.equal((await verify(body, during, secret)).id, id);
  assert.equal((await verify(body, during, next)).id, id);
  const afterwards = signDelivery({ secret: next, previousSecret: null, id, timestampSeconds, body: Buffer.from(body) });
  assert.equal((await verify(body, afterwards, next)).id, id);
  await refused(verify(body, afterwards, secret), 'signature_mismatch', /./);
});

test('bytes are taken in every form, also those of test runners with classes of their own', async () => {
  const { body, headers, event } = deliveries[0]!;
  const bytes = Buffer.from(`  ${body}`);
  const foreign = runInNewContext('new Uint8Array(bytes)', { bytes: [...Buffer.from(body)] });
  const view = new DataView(bytes.buffer, bytes.byteOffset + 2, bytes.length - 2);
  assert.ok(!(foreign instanceof Uint8Array));
  for (const given of [foreign, foreign.buffer, view, bytes.subarray(2)])
    assert.equal((await verify(given as never, headers, secret)).id, event.id);
});

test('invalid arguments are named', async () => {
  const { body, headers, event } = deliveries[0]!;
  await refused(verify(event, headers, secret), 'body_not_raw', /parsed object.*express\.raw/);
  await refused(verify(null as never, headers, secret), 'body_not_raw', /null/);
  await refused(verify(body, headers, ''), 'secret_invalid', /missing/);
  await refused(verify(body, headers, undefined as never), 'secret_invalid', /missing/);
  await refused(verify(body, headers, `${secret}\n`), 'secret_invalid', /whitespace/);
  await refused(verify(body, headers, 'sk_test_1234567890'), 'secret_invalid', /API key/);
  await refused(verify(body, headers, 'whsec_'), 'secret_invalid', /whsec_/);
  const nonsense = Buffer.from('{"a":1}');
  const signed = signDelivery({
    secret,
    previousSecret: null,
    id: 'evt_1',
    timestampSeconds: Math.floor(Date.now() / 1000),
    body: nonsense,
  });
  await refused(verify(nonsense, signed, secret), 'body_not_event', /not an event/);
});

test('a test event is signed as by the service, and as the standard library expects', async () => {
  const made = await signTestEvent({ type: 'payment.completed', data: { id: 'pay_1', status: 'completed' } }, secret);
  const event = await verify(made.body, made.headers, secret);
  assert.equal(event.type, 'payment.completed');
  assert.equal(event.mode, 'test');
  new Webhook(secret).verify(made.body, made.headers);
  const { 'content-type': type, ...signatures } = made.headers;
  assert.equal(type, 'application/json');
  const timestampSeconds = Number(made.headers['webhook-timestamp']);
  const sent = signDelivery({ secret, previousSecret: null, id: event.id, timestampSeconds, body: Buffer.from(made.body) });
  assert.deepEqual(signatures, Object.fromEntries(Object.entries(sent).map(([name, value]) => [name.toLowerCase(), value])));
  const again = await signTestEvent(deliveries[0]!.body, secret);
  assert.equal(again.body, deliveries[0]!.body);
});

test('a repeated event is recognized', async () => {
  const ids = new Map<string, number>();
  const store = {
    seen: (id: string, ttlSeconds: number) => {
      const known = ids.has(id);
      ids.set(id, ttlSeconds);
      return known;
    },
  };
  const { event } = deliveries[0]!;
  assert.equal(await isRepeat(event, store), false);
  assert.equal(await isRepeat(event, store), true);
  assert.equal(ids.get(event.id), 30 * 86_400);
});

test('a new secret has the format of endpoint secrets', () => {
  assert.match(newSecret(), /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.notEqual(newSecret(), newSecret());
  const bytes = randomBytes(32);
  assert.equal(newSecret(bytes), `whsec_${bytes.toString('base64')}`);
});
