/** Headers as bytes on the wire: spelled as documented, in replies and in webhooks, and the rate limit in every reply. */
import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { connect, createServer as createTcpServer } from 'node:net';
import { after, before, test } from 'node:test';
import { type App, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { client, eventually, startTestApp, type TestApp, testEnvironment } from '../kit/app.ts';
import { testDatabase } from '../kit/database.ts';
import { startDatabaseProxy } from '../kit/database-proxy.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(() => app?.stop());

type Exchange = { status: number; names: string[]; value(name: string): string | undefined; json: any };
/** One exchange over a socket, with the names of the headers as they were sent. */
const exchange = (text: string, url = app.url): Promise<Exchange> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    let answer = '';
    const socket = connect(Number(port), hostname, () => socket.write(text));
    socket.setTimeout(60_000, () => socket.destroy());
    socket.on('data', (part) => {
      answer += part.toString();
    });
    socket.on('error', (error) => answer === '' && reject(error));
    socket.on('close', () => {
      const [head = '', body] = answer.split('\r\n\r\n', 2);
      const lines = head
        .split('\r\n')
        .slice(1)
        .map((line) => /^([^:]+): (.*)$/.exec(line)!.slice(1) as [string, string]);
      resolve({
        status: Number(head.split(' ')[1]),
        names: lines.map(([name]) => name),
        value: (name) => lines.find(([one]) => one === name)?.[1],
        json: body?.startsWith('{') ? JSON.parse(body) : null,
      });
    });
  });
const request = (
  method: string,
  path: string,
  { key = app.merchant.keys.testSecret as string | null, lines = [] as string[], body = '' } = {},
) =>
  [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost',
    'Connection: close',
    ...(key === null ? [] : [`Authorization: Bearer ${key}`]),
    ...(body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`]),
    ...lines,
    '',
    body,
  ].join('\r\n');
const CREATE = '/api/payment/create/simple';
const simple = JSON.stringify({ amount_usd: 25, return_url: 'https://shop.example/' });

/** Every reply names its limit, exactly as documented. */
function hasLimit({ value, names }: Exchange, what: string): void {
  const [limit, remaining, reset] = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'].map(value);
  for (const figure of [limit, remaining, reset]) assert.match(figure ?? 'is missing', /^\d+$/, `${what}: ${names.join(', ')}`);
  assert.ok(Number(remaining) <= Number(limit), what);
}
const capitalized = /^(WWW|ETag|RateLimit|X|[A-Z][a-z]+)(-([A-Z][a-z]+|RateLimit))*$/;

test('replies spell their headers as documented on HTTP/1.1, and each has the three of the rate limit', async () => {
  const origin = ['Origin: https://shop.example'];
  const cases: [status: number, text: string, names?: string[]][] = [
    [200, request('GET', '/api/payments'), ['Content-Type', 'Content-Length', 'X-Request-Id', 'Cache-Control']],
    [201, request('POST', CREATE, { body: simple, lines: ['Idempotency-Key: a'] }), ['Content-Type']],
    [201, request('POST', `/v1${CREATE}`, { body: simple, lines: ['Idempotency-Key: b'] })],
    [201, request('POST', CREATE, { body: simple, lines: ['Idempotency-Key: a'] }), ['Idempotent-Replayed']],
    [204, request('OPTIONS', CREATE, { key: null, lines: origin }), ['Access-Control-Allow-Origin', 'Access-Control-Allow-Methods']],
    [201, request('POST', CREATE, { key: app.merchant.keys.testPublic, body: simple, lines: origin }), ['Access-Control-Expose-Headers']],
    [400, request('POST', CREATE, { body: '{' }), ['Content-Type']],
    [400, request('POST', CREATE, { body: '{}' })],
    [401, request('GET', '/api/payments', { key: null }), ['WWW-Authenticate']],
    [403, request('GET', '/api/payments', { key: app.merchant.keys.testPublic })],
    [404, request('GET', '/nothing')],
    [404, request('GET', '/v1/nothing', { key: null })],
    [404, request('GET', '/%')],
    [405, request('PUT', '/api/payments'), ['Allow']],
    [415, request('POST', CREATE, { lines: ['Content-Type: text/plain', 'Content-Length: 1'] })],
    [501, request('GET', '/api/crypto/fees?currency=BTC', { key: app.merchant.keys.liveSecret })],
    [400, 'GARBAGE\r\n\r\n', ['Content-Type', 'X-Request-Id']],
    [400, 'GET /api/payments HTTP/1.1\r\nConnection: close\r\n\r\n', ['Content-Type', 'X-Request-Id']],
    [200, request('GET', '/api/payments', { lines: ['Expect: a-parrot'] }), ['Content-Type']],
    [400, `GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ${'x'.repeat(40_000)}\r\n\r\n`],
    [200, request('GET', '/healthz', { key: null })],
    [200, request('GET', '/readyz', { key: null })],
    [200, request('GET', '/openapi.json', { key: null }), ['Vary']],
    [401, request('GET', '/dashboard/api/test/me', { key: null })],
    [401, request('GET', '/btcpay/api/v1/stores/none', { key: null })],
    [401, request('GET', '/commerce/charges/none', { key: null })],
    [404, request('GET', '/pay/status?id=none', { key: null })],
  ];
  for (const [status, text, names = []] of cases) {
    const what = text.slice(0, 60);
    const reply = await exchange(text);
    assert.equal(reply.status, status, `${what}: ${JSON.stringify(reply.json)}`);
    hasLimit(reply, what);
    for (const name of reply.names) assert.match(name, capitalized, what);
    for (const name of names) assert.ok(reply.names.includes(name), `${what}: ${name} in ${reply.names.join(', ')}`);
    assert.equal(new Set(reply.names.map((name) => name.toLowerCase())).size, reply.names.length, `${what}: each header once`);
  }
});

test('a 429 says that nothing is left, and when to retry', async () => {
  const { keys } = await createMerchant(app.app.ctx, { name: 'Busy shop', plan: 'enterprise' });
  for (let i = 0; i < 10; i++) assert.equal((await app.as(keys.testPublic).post(CREATE, simple)).status, 201);
  const reply = await exchange(request('POST', CREATE, { key: keys.testPublic, body: simple }));
  assert.equal(reply.status, 429);
  hasLimit(reply, '429');
  assert.equal(reply.value('X-RateLimit-Remaining'), '0');
  assert.match(reply.value('Retry-After') ?? '', /^[1-9]\d*$/);
});

test('without a database, replies still have the limit, and pages can read them', async () => {
  const database = await testDatabase();
  const proxy = await startDatabaseProxy(database.connection);
  let other: App | null = null;
  try {
    other = await startApp(readConfig(testEnvironment(proxy.url, database.folder)), { roles: ['api'], log: createLog('silent') });
    const { keys } = await createMerchant(other.ctx, { name: 'Shop' });
    const { url } = other;
    await proxy.stop();
    for (const key of [keys.testSecret, keys.testPublic]) {
      const ask = () =>
        exchange(
          request('POST', CREATE, { key, body: simple, ...(key === keys.testPublic && { lines: ['Origin: https://shop.example'] }) }),
          url!,
        );
      const reply = await eventually(ask, ({ status }) => status === 503);
      assert.equal(reply.json.error.code, 'database_unavailable');
      hasLimit(reply, '503');
      assert.notEqual(reply.value('X-RateLimit-Limit'), '2147483647', 'unknown callers have a limit');
      assert.equal(reply.value('Access-Control-Allow-Origin'), '*');
      assert.match(reply.value('Retry-After') ?? '', /^\d+$/);
    }
    hasLimit(await exchange(request('GET', '/api/payments', { key: keys.liveSecret }), url!), '503');
    hasLimit(await exchange(request('GET', '/readyz', { key: null }), url!), 'not ready');
  } finally {
    await other?.stop();
    await proxy.stop();
    await database.drop();
  }
});

test('webhooks spell X-Service-Signature as documented on the wire', async () => {
  const heads: string[] = [];
  const receiver = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (part) => {
      heads.push(part.toString());
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  try {
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
    await createEndpoint(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'test', url, events: ['*'], description: null });
    assert.equal((await client(app.url, app.merchant.keys.testSecret).post(CREATE, simple)).status, 201);
    const sent = await eventually(
      async () => heads.join(''),
      (text) => text.startsWith('POST /hook HTTP/1.1\r\n') && text.includes('\r\n\r\n'),
    );
    assert.match(sent, /\r\nX-Service-Signature: [0-9a-f]{64}\r\n/);
    for (const line of ['Content-Type: application/json', 'User-Agent: Florin-Webhooks/1', 'Content-Length: '])
      assert.ok(sent.includes(`\r\n${line}`), line);
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) assert.ok(sent.includes(`\r\n${name}: `), name);
  } finally {
    await new Promise((resolve) => receiver.close(resolve));
  }
});
