/** Hostile input: whatever is sent, the answer is a documented 4xx that names the parameter, and nothing is stored. */
// Invariant: Hostile input is refused by name and stores nothing.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { getPaymentForCustomer } from '../../src/payments/customer-view.ts';
import { returnUrl } from '../../src/web/checkout/page.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
let shop: Client;
let payment: string;
let foreign: string;
let stored: string;
before(async () => {
  app = await startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}' });
  shop = app.test;
  const create = { amount_usd: 25, return_url: 'https://shop.example/' };
  payment = (await shop.post('/api/payment/create/simple', create)).json.id;
  const other = await createMerchant(app.app.ctx, { name: 'Other shop', plan: 'enterprise' });
  foreign = (await app.as(other.keys.testSecret).post('/api/payment/create/simple', create)).json.id;
});
after(() => app?.stop());

/** Counts everything that a request could leave behind. */
const countRows = async (): Promise<string> =>
  JSON.stringify(
    await app.app.ctx.db.sql`
      select (select count(*)::int from payments) as payments, (select sum(version)::int from payments) as versions,
        (select count(*)::int from events) as events, (select count(*)::int from deliveries) as deliveries,
        (select count(*)::int from quotes) as quotes, (select count(*)::int from decisions) as decisions,
        (select count(*)::int from simulations) as simulations, (select count(*)::int from clock_advances) as advances,
        (select count(*)::int from idempotency) as replies, (select sum(payments)::int from live_usage) as used,
        (select sum(last_sequence)::int from payment_counters) as sequences`,
  );
let keeps = true;
beforeEach(async () => {
  keeps = true;
  stored = await countRows();
});
afterEach(async () => {
  if (keeps) assert.equal(await countRows(), stored, 'something was stored');
});

/** The documented error body, with the status and the parameter. `param` may be a function that checks it. */
function refused(reply: Reply, status: number, param: string | null | ((param: string | null) => boolean), what: string): void {
  assert.equal(reply.status, status, `${what}: ${reply.text.slice(0, 500)}`);
  assert.match(String(reply.headers.get('content-type')), /^application\/json/, what);
  const { error } = reply.json;
  for (const field of ['type', 'message', 'code', 'doc_url', 'request_id'])
    assert.equal(typeof error[field], 'string', `${what}: ${field}`);
  assert.ok('param' in error, what);
  assert.doesNotMatch(reply.text, /\{\w+\}|undefined|select |at .*\.ts:/, what);
  if (typeof param === 'function') assert.ok(param(error.param), `${what}: param ${error.param}`);
  else assert.equal(error.param, param, `${what}: ${reply.text.slice(0, 500)}`);
  assert.match(String(reply.headers.get('x-ratelimit-limit')), /^\d+$/, what);
}

const RETURN_URL = 'https://shop.example/thanks';
const line = { product_id: 'mug', name: 'Mug', quantity: 2, unit_price: 12.5 };
/** Every POST endpoint with a valid body; `amounts` are read as decimals. */
const ENDPOINTS: readonly { path: () => string; body: any; amounts: readonly string[]; optional: object }[] = (() => {
  const common = {
    description: 'Two mugs',
    metadata: { order: 'A-1' },
    expires_in: 1800,
    payment_address: 'test_btc_success',
    invoice_id: 'INV-1',
    locale: 'en',
  };
  return [
    {
      path: () => '/api/payment/create/simple',
      body: { amount_usd: 25, return_url: RETURN_URL },
      amounts: ['amount_usd'],
      optional: common,
    },
    {
      path: () => '/api/payment/create/advanced',
      body: { return_url: RETURN_URL, items: [line], tax: 1 },
      amounts: ['tax', 'items[0].unit_price'],
      optional: common,
    },
    {
      path: () => '/payments',
      body: { amount: '0.5' },
      amounts: ['amount'],
      optional: { ...common, currency: 'BTC', redirect_url: RETURN_URL },
    },
    {
      path: () => '/v1/transactions/create',
      body: { crypto: 'BTC', amount: 25, currency_fiat: 'USD' },
      amounts: ['amount'],
      optional: { ...common, return_url: RETURN_URL },
    },
    { path: () => `/v1/payments/${payment}`, body: { metadata: { order: 'A-1' } }, amounts: [], optional: {} },
    { path: () => `/v1/payments/${payment}/resolve`, body: { action: 'accept' }, amounts: [], optional: { transfers: ['a:0'] } },
    { path: () => `/v1/test/payments/${payment}/simulate`, body: { scenario: 'success' }, amounts: [], optional: { currency: 'BTC' } },
    { path: () => '/v1/test/clock/advance', body: { seconds: 1 }, amounts: [], optional: { payment_id: 'pay_000000000000000000000000' } },
  ];
})();

/** The body as JSON text with `raw` in place of the value at `path`. */
function bodyWith(body: any, path: string, raw: string): string {
  const copy = structuredClone(body);
  const parts = path.split(/[.[\]]+/).filter(Boolean);
  let at = copy;
  for (const part of parts.slice(0, -1)) at = at[part];
  at[parts.at(-1)!] = '@@';
  return JSON.stringify(copy).replace('"@@"', () => raw);
}
/** Every leaf and container of a body, as paths. */
function pathsOf(value: any, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([name, entry]) =>
    pathsOf(entry, Array.isArray(value) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`),
  );
  return path === '' ? inner : [path, ...inner];
}
const within = (path: string) => (param: string | null) =>
  param !== null && (param === path || param.startsWith(`${path}.`) || param.startsWith(`${path}[`));

test('invalid amounts are refused under their own name', async () => {
  const texts = [
    '1,000',
    ' 1',
    '1 ',
    '',
    '+1',
    '-1',
    '-0',
    '.5',
    '5.',
    '01',
    '1e3',
    '0x10',
    'NaN',
    'Infinity',
    '1_000',
    '１',
    '١',
    '1\n',
    '$5',
  ];
  const asUsd = ['"12.345"', '25.505', '0.001', '1e-3', '1000000.01', '"1000000.01"', '1000001e0', '1e7'];
  const raw = ['1e400', '-1e400', '-1', '9007199254740993', '1e300', 'null', 'true', 'false', '[]', '{}', '[25]', `1${'0'.repeat(100)}`];
  for (const { path, body, amounts } of ENDPOINTS) {
    for (const amount of amounts) {
      const usd = path() !== '/payments';
      for (const value of [
        ...raw,
        ...texts.map((text) => JSON.stringify(text)),
        ...(usd ? [...asUsd, '1e-7'] : ['"12.345678901"', '0.000000001', '1e-9', '0', '-0', '"0"', '1e-300']),
      ]) {
        const reply = await shop.post(path(), bodyWith(body, amount, value), { 'idempotency-key': `${amount} ${value.length}` });
        refused(reply, 400, amount, `${path()} ${amount} ${value.slice(0, 40)}`);
      }
    }
  }
});

test('number formats that JSON does not have are refused', async () => {
  for (const { path, body, amounts } of ENDPOINTS) {
    for (const amount of amounts) {
      for (const value of [
        'NaN',
        'Infinity',
        '-Infinity',
        '0x10',
        '01',
        '+1',
        '.5',
        '5.',
        '1_000',
        '1e',
        "'1'",
        'undefined',
        '1n',
        '--1',
        '',
      ]) {
        refused(await shop.post(path(), bodyWith(body, amount, value)), 400, null, `${path()} ${amount} ${value}`);
      }
    }
  }
});

test('a key that imitates the path of an amount does not change it', async () => {
  keeps = false;
  const advanced = JSON.stringify(ENDPOINTS[1]!.body);
  const send = async (more: string, check: (reply: Reply, body: string) => void) => {
    for (const body of [advanced.replace('{', `{${more},`), advanced.replace(/}$/, `,${more}}`)])
      check(await shop.post('/api/payment/create/advanced', body), body);
  };
  await send('"items[0].unit_price":0.01', (reply, body) => refused(reply, 400, 'items[0].unit_price', body));
  await send('"items[0]":{"unit_price":0.01}', (reply, body) => refused(reply, 400, 'items[0]', body));
  // It resembles no parameter, so it is ignored.
  await send('"":{"tax":0.01}', (reply, body) => assert.deepEqual([reply.status, reply.json.amount_usd], [201, '26.00'], body));
});

test('zero and limits', async () => {
  const simple = ENDPOINTS[0]!.body;
  for (const zero of ['0', '0.00', '"0"', '"0.0"'])
    refused(await shop.post('/api/payment/create/simple', bodyWith(simple, 'amount_usd', zero)), 400, 'amount_usd', zero);
  const advanced = ENDPOINTS[1]!.body;
  const path = '/api/payment/create/advanced';
  for (const [field, values] of Object.entries({
    'items[0].quantity': ['0', '-1', '1.5', '1000001', '9007199254740993', '1e400', '"2"', 'null'],
    items: ['[]', 'null', JSON.stringify(Array(101).fill(line))],
    'items[0].name': ['""', JSON.stringify('x'.repeat(251))],
    'items[0].product_id': ['""', JSON.stringify('x'.repeat(101))],
  })) {
    for (const value of values)
      refused(await shop.post(path, bodyWith(advanced, field, value)), 400, field, `${field} ${value.slice(0, 40)}`);
  }
  refused(
    await shop.post(path, { ...advanced, items: [{ ...line, quantity: 1_000_000, unit_price: 1_000_000 }] }),
    400,
    'items',
    'too much in all',
  );
  for (const [field, values] of Object.entries({
    expires_in: ['599', '86401', '0', '-1', '1.5', '1e9', '1e400'],
    description: [JSON.stringify('x'.repeat(1001))],
    invoice_id: ['""', JSON.stringify('x'.repeat(101))],
    locale: [JSON.stringify('x'.repeat(13))],
    return_url: [
      '""',
      '"shop"',
      '"javascript:alert(1)"',
      '"//shop.example"',
      '"https://"',
      '"https://a b.example"',
      '"https://user:pw@shop.example/"',
      '"https://shop.example\\\\@evil.example/"',
      '"ftp://shop.example/"',
      '"https://shop.example\\n/"',
      JSON.stringify(`https://shop.example/${'x'.repeat(2048)}`),
    ],
    payment_address: [
      '"test_xmr_success"',
      '"test_btc_"',
      '"test_btc_nothing"',
      '"TEST_BTC_SUCCESS"',
      '"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"',
      '""',
    ],
  })) {
    for (const value of values)
      refused(
        await shop.post('/api/payment/create/simple', bodyWith({ ...simple, [field]: '' }, field, value)),
        400,
        field,
        `${field} ${value.slice(0, 60)}`,
      );
  }
  for (const seconds of ['0', '-1', '7776001', '1.5', '1e400', '"60"'])
    refused(await shop.post('/v1/test/clock/advance', `{"seconds":${seconds}}`), 400, 'seconds', seconds);
});

test('metadata beyond its limits', async () => {
  const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`key${i}`, 'x']));
  const cases: [object, (param: string | null) => boolean][] = [
    [pairs(51), within('metadata')],
    [{ a: 'x'.repeat(501) }, within('metadata.a')],
    [{ ['k'.repeat(41)]: 'x' }, within(`metadata.${'k'.repeat(40)}`)],
    [{ '': 'x' }, (param) => param === 'metadata.'],
    [{ 'a[0]': 'x' }, (param) => param === 'metadata.a[0]'],
    [{ 'a\n': 'x' }, (param) => param === 'metadata.a\n'],
    [Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`key${i}`, 'ü'.repeat(250)])), within('metadata')],
    [{ a: 7 }, within('metadata.a')],
    [{ a: { b: 'c' } }, within('metadata.a')],
  ];
  for (const [metadata, param] of cases) {
    const what = JSON.stringify(metadata).slice(0, 60);
    refused(await shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: RETURN_URL, metadata }), 400, param, what);
    refused(await shop.post(`/v1/payments/${payment}`, { metadata }), 400, param, `update ${what}`);
  }
});

test('every field of every POST refuses values of other types', async () => {
  let asked = 0;
  for (const { path, body, optional } of ENDPOINTS) {
    const full = { ...body, ...optional };
    for (const field of pathsOf(full)) {
      const parts = field.split(/[.[\]]+/).filter(Boolean);
      const value = parts.reduce((at: any, part) => at[part], full);
      const kind = Array.isArray(value) ? 'array' : typeof value;
      const others: Record<string, string[]> = {
        number: ['true', '[]', '{}', '"x"', '[1]'],
        string: ['true', '[]', '{}', '7', '["x"]'],
        array: ['true', '7', '"x"', '{}', '[7]', '[null]', '[[]]'],
        object: ['true', '7', '"x"', '[7]', '[null]'],
      };
      for (const raw of others[kind]!) {
        // Amounts may be numbers or strings.
        if (raw === '7' && field === 'amount' && path() === '/payments') continue;
        refused(await shop.post(path(), bodyWith(full, field, raw)), 400, within(field), `${path()} ${field} ${raw}`);
        asked++;
      }
    }
    for (const required of Object.keys(body)) {
      const { [required]: _, ...rest } = body;
      refused(await shop.post(path(), rest), 400, required, `${path()} without ${required}`);
    }
  }
  assert.ok(asked > 200, `${asked}`);
});

test('text that cannot be stored is refused in every text field', async () => {
  for (const { path, body, optional } of ENDPOINTS) {
    const full = { ...body, ...optional };
    for (const field of pathsOf(full)) {
      const value = field
        .split(/[.[\]]+/)
        .filter(Boolean)
        .reduce((at: any, part) => at[part], full);
      if (typeof value !== 'string') continue;
      for (const bad of ['"a\\u0000b"', '"\\u0000"', '"\\ud800"', '"a\\udfffb"', '"\\ude00\\ud83d"'])
        refused(await shop.post(path(), bodyWith(full, field, bad)), 400, field, `${path()} ${field} ${bad}`);
      refused(await shop.post(path(), bodyWith(full, field, '"a\u0000b"')), 400, null, `${path()} ${field} raw NUL`);
    }
    for (const key of ['"\\u0000"', '"\\ud800"'])
      refused(await shop.post(path(), JSON.stringify(full).replace('{', `{${key}:1,`)), 400, null, `${path()} key ${key}`);
  }
  for (const bad of [
    '%00',
    'pay_%00',
    '%EF%BF%BD',
    '%ED%A0%80',
    "';drop table payments;--",
    '%F0%9F%92%A9',
    '..%2f..%2fetc',
    'a'.repeat(400),
  ]) {
    for (const path of [`/api/payment/${bad}`, `/v1/events/${bad}`, `/api/crypto/transaction/${bad}?currency=BTC`]) {
      const reply = await shop.get(path);
      assert.ok([400, 404].includes(reply.status), `${path}: ${reply.status} ${reply.text}`);
      refused(reply, reply.status, () => true, path);
    }
    for (const [path, body] of [
      [`/v1/payments/${bad}`, { metadata: {} }],
      [`/v1/payments/${bad}/cancel`, {}],
      [`/v1/payments/${bad}/resolve`, { action: 'accept' }],
      [`/v1/test/payments/${bad}/simulate`, { scenario: 'success' }],
    ] as const) {
      const reply = await shop.post(path, body);
      assert.ok([400, 404].includes(reply.status), `${path}: ${reply.status} ${reply.text}`);
      refused(reply, reply.status, () => true, path);
    }
  }
  for (const [query, param] of [
    ['/api/payments?starting_after=%00', 'starting_after'],
    ['/api/payments?status=%00', 'status'],
    ['/v1/events?payment_id=%00', 'payment_id'],
    ['/v1/events?starting_after=%00', 'starting_after'],
    ['/v1/webhook_deliveries?starting_after=%00', 'starting_after'],
    ['/v1/webhook_deliveries?endpoint_id=%00', 'endpoint_id'],
    ['/v1/requests?key_id=%00', 'key_id'],
    ['/v1/payments/pay_x/transfers?starting_after=%00', 'starting_after'],
    ['/api/crypto/prices?currencies=%00', 'currencies'],
    ['/api/crypto/balance?currency=BTC&address=%00', 'address'],
  ] as const)
    refused(await shop.get(query), 400, param, query);
});

test('bodies that are not a single JSON object', async () => {
  const good = JSON.stringify({ amount_usd: 25, return_url: RETURN_URL });
  const path = '/api/payment/create/simple';
  const bad: Record<string, string> = {
    'duplicate keys': good.replace('{', '{"amount_usd":1,'),
    'duplicate keys, one escaped': good.replace('{', '{"\\u0061mount_usd":1,'),
    'nested 10,000 deep': `{"description":${'['.repeat(10_000)}${']'.repeat(10_000)}}`,
    'objects 10,000 deep': `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
    'never closed': '['.repeat(60_000),
    'a __proto__ key': good.replace('{', '{"__proto__":{"amount_usd":1},'),
    '__proto__ escaped': good.replace('{', '{"\\u005f_proto__":{"amount_usd":1},'),
    '__proto__ in metadata': good.replace('{', '{"metadata":{"__proto__":"x"},'),
    'a byte order mark': `\ufeff${good}`,
    'trailing garbage': `${good} x`,
    'two objects': good + good,
    'a trailing comma': good.replace('}', ',}'),
    'a comment': good.replace('{', '{/* hello */'),
    'single quotes': good.replaceAll('"', "'"),
    'a bare key': '{amount_usd:25}',
    'an end too early': good.slice(0, -1),
    'a string that ends too early': good.slice(0, -3),
    'a tab in a string': good.replace('thanks', '\t'),
    'a bad escape': good.replace('thanks', '\\x41'),
    'an array': `[${good}]`,
    'a text': '"x"',
    'a number': '7',
    true: 'true',
    null: 'null',
    blanks: '   ',
    'a non-breaking space': `\u00a0${good}`,
    'form data': 'amount_usd=25',
  };
  for (const [what, body] of Object.entries(bad)) refused(await shop.post(path, body), 400, null, what);
  const empty = await shop.post(path, '');
  refused(empty, 400, () => true, 'an empty body');
  for (const [what, bytes] of Object.entries({
    'a lone continuation byte': [0x80],
    'an overlong slash': [0xc0, 0xaf],
    'a surrogate in UTF-8': [0xed, 0xa0, 0x80],
    'a cut sequence': [0xe2, 0x82],
    'UTF-16': [0xff, 0xfe, 0x7b, 0x00],
  })) {
    const [left, right] = good.split('thanks');
    const reply = await send(path, Buffer.concat([Buffer.from(left!), Buffer.from(bytes), Buffer.from(right!)]), 'application/json');
    refused(reply, 400, null, what);
  }
  assert.equal(({} as any).amount_usd, undefined);
  for (const to of [...ENDPOINTS.map((endpoint) => endpoint.path()), `/v1/payments/${payment}/cancel`]) {
    for (const what of [
      'duplicate keys',
      'nested 10,000 deep',
      'a __proto__ key',
      'a byte order mark',
      'trailing garbage',
      'an array',
      'null',
    ])
      refused(await shop.post(to, bad[what]), 400, null, `${to} ${what}`);
    refused(await send(to, Buffer.from([0x7b, 0x22, 0x80, 0x22, 0x3a, 0x31, 0x7d]), 'application/json'), 400, null, `${to} not UTF-8`);
    refused(await send(to, good, 'text/plain'), 415, null, `${to} text/plain`);
    refused(await shop.post(to, { description: 'x'.repeat(65_536) }), 413, null, `${to} over 64 kB`);
  }
});

test('keys named like members of Object are plain data', async () => {
  keeps = false;
  const names = ['constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', 'then', '__defineGetter__'];
  const metadata = Object.fromEntries(names.map((name) => [name, 'x']));
  const body = { amount_usd: 25, return_url: RETURN_URL, metadata, ...Object.fromEntries(names.map((name) => [name, { a: [name] }])) };
  const reply = await shop.post('/api/payment/create/simple', body);
  assert.equal(reply.status, 201, reply.text);
  const detail = await shop.get(`/api/payment/${reply.json.id}`);
  assert.deepEqual(detail.json.metadata, metadata);
  refused(await shop.post('/api/payment/create/simple', { constructor: { amount_usd: 25 } }), 400, 'amount_usd', 'constructor alone');
});

/** Bytes with a content type, by fetch. */
async function send(path: string, body: Uint8Array | string, type: string | null, headers: Record<string, string> = {}): Promise<Reply> {
  const reply = await fetch(app.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${app.merchant.keys.testSecret}`, ...(type !== null && { 'content-type': type }), ...headers },
    // A typed array without a type of its own: fetch adds none.
    body: typeof body === 'string' ? Buffer.from(body) : Buffer.from(body),
  });
  const text = await reply.text();
  let json: unknown = null;
  try {
    json = JSON.parse(text);
  } catch {}
  return { status: reply.status, headers: reply.headers, text, json };
}

test('other content types get 415', async () => {
  const good = JSON.stringify({ amount_usd: 25, return_url: RETURN_URL });
  for (const type of [
    null,
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'text/json',
    'application/jsonx',
    'json',
    '',
    'application/',
    'application/vnd.api+json',
  ])
    refused(await send('/api/payment/create/simple', good, type), 415, null, `content type ${type}`);
  refused(await send('/api/payment/create/simple', good, 'application/json', { 'content-encoding': 'gzip' }), 415, null, 'gzip');
});

/** One raw exchange over a socket. Resolves with the whole reply. */
const exchange = (text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(app.url);
    let answer = '';
    const socket = connect(Number(port), hostname, () => socket.write(text));
    socket.setTimeout(60_000, () => socket.destroy());
    socket.on('data', (part) => {
      answer += part.toString();
    });
    socket.on('close', () => resolve(answer));
    socket.on('error', (error) => (answer === '' ? reject(error) : resolve(answer)));
  });
const head = (path: string, lines: string[]) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${app.merchant.keys.testSecret}\r\nContent-Type: application/json\r\nConnection: close\r\n${lines.join('\r\n')}\r\n\r\n`;

test('bodies of 10 MB get 413, announced or in chunks', async () => {
  const announced = await exchange(`${head('/api/payment/create/simple', ['Content-Length: 10485760'])}{"amount_usd":`);
  assert.match(announced, /^HTTP\/1\.1 413 /);
  assert.match(announced, /"code":"body_too_large"/);
  assert.match(announced, /x-ratelimit-limit: \d/i);
  const piece = `2000\r\n${' '.repeat(0x2000)}\r\n`;
  const chunked = await exchange(head('/api/payment/create/simple', ['Transfer-Encoding: chunked']) + piece.repeat(1_280));
  assert.match(chunked, /^HTTP\/1\.1 413 /);
  assert.match(chunked, /"param":null,"code":"body_too_large"/);
  refused(await shop.post('/api/payment/create/simple', { description: 'x'.repeat(65_536) }), 413, null, 'just over 64 kB');
});

test('requests that are not HTTP get the documented error body', async () => {
  for (const text of [
    'GARBAGE\r\n\r\n',
    'GET /api/payments HTTP/9.9\r\n\r\n',
    `GET /api/payments HTTP/1.1\r\nHost: localhost\r\nX-Long: ${'x'.repeat(40_000)}\r\n\r\n`,
    head('/api/payment/create/simple', ['Content-Length: 5', 'Transfer-Encoding: chunked']) + '0\r\n\r\n',
    head('/api/payment/create/simple', ['Content-Length: x']),
  ]) {
    const answer = await exchange(text);
    assert.match(answer, /^HTTP\/1\.1 4\d\d /, text.slice(0, 40));
    const { error } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4));
    assert.equal(error.type, 'invalid_request');
    assert.equal(error.param, null);
    assert.equal(typeof error.request_id, 'string');
  }
});

test('unknown routes get 404, other methods 405 with Allow', async () => {
  for (const path of [
    '/',
    '/nothing',
    '/api',
    '/api/payment',
    '/v1',
    '/v1/nothing',
    '/payments/',
    '/API/payments',
    '/api/payments/',
    '//api/payments',
    '/api/payment/create/simple/x',
    '/v1/v1/payments',
    '/v1/v1/transactions/create',
    '/%',
    '/api/%zz',
    '/api/payment/%',
    '/api/payment/%ff',
    `/api/payment/${'x'.repeat(600)}`,
  ])
    refused(await shop.get(path), 404, null, path);
  const routes: [path: string, allow: string][] = [
    ['/payments', 'POST'],
    ['/api/payment/create/simple', 'POST'],
    ['/api/payment/create/advanced', 'POST'],
    [`/api/payment/${payment}`, 'GET'],
    ['/api/payments', 'GET'],
    ['/api/crypto/prices', 'GET'],
    ['/api/crypto/balance', 'GET'],
    ['/api/crypto/fees', 'GET'],
    ['/api/crypto/transaction/00', 'GET'],
    ['/v1/transactions/create', 'POST'],
    [`/v1/payments/${payment}`, 'GET, POST'],
    [`/v1/payments/${payment}/cancel`, 'POST'],
    [`/v1/payments/${payment}/resolve`, 'POST'],
    [`/v1/payments/${payment}/transfers`, 'GET'],
    ['/v1/events', 'GET'],
    ['/v1/events/evt_x', 'GET'],
    [`/v1/test/payments/${payment}/simulate`, 'POST'],
    ['/v1/test/clock/advance', 'POST'],
    ['/v1/webhook_endpoints', 'GET, POST'],
    ['/v1/webhook_endpoints/we_x', 'GET, POST, DELETE'],
    ['/v1/webhook_endpoints/we_x/rotate_secret', 'POST'],
    ['/v1/webhook_endpoints/we_x/test', 'POST'],
    ['/v1/webhook_endpoints/we_x/recover', 'POST'],
    ['/v1/webhook_recoveries/rec_x', 'GET'],
    ['/v1/webhook_deliveries', 'GET'],
    ['/v1/requests', 'GET'],
    ['/v1/webhook_deliveries/del_x', 'GET'],
    ['/v1/webhook_deliveries/del_x/resend', 'POST'],
    ['/v1/payments', 'GET, POST'],
    ['/v1/api/payments', 'GET'],
  ];
  for (const [path, allow] of routes) {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND']) {
      // Creating answers OPTIONS: the preflight of browsers.
      const creation = path.includes('/create/');
      if (allow.split(', ').includes(method) || (method === 'OPTIONS' && creation)) continue;
      const reply = await ask(method, path);
      assert.equal(reply.status, 405, `${method} ${path}: ${reply.text}`);
      assert.equal(reply.headers.get('allow'), allow, `${method} ${path}`);
      if (method !== 'HEAD') refused(reply, 405, null, `${method} ${path}`);
    }
  }
});
/** Any method, with Node's own client. */
const ask = (method: string, path: string): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const request = httpRequest(
      app.url + path,
      { method, headers: { authorization: `Bearer ${app.merchant.keys.testSecret}` } },
      (reply) => {
        const parts: Buffer[] = [];
        reply.on('data', (part: Buffer) => parts.push(part));
        reply.on('end', () => {
          const text = Buffer.concat(parts).toString();
          const headers = new Headers(Object.entries(reply.headers).map(([name, value]): [string, string] => [name, String(value)]));
          resolve({ status: reply.statusCode!, headers, text, json: text.startsWith('{') ? JSON.parse(text) : null });
        });
      },
    );
    request.on('error', reject);
    request.end();
  });

test('invalid queries are refused under their own name', async () => {
  const cases: [path: string, param: string][] = [
    ...['0', '101', 'abc', '1.5', '-1', '', '1e1', '+5', '010', '0x5', ' 5', '99999999999999999999', 'null', '5;drop'].flatMap(
      (limit): [string, string][] => [
        [`/api/payments?limit=${encodeURIComponent(limit)}`, 'limit'],
        [`/v1/events?limit=${encodeURIComponent(limit)}`, 'limit'],
        [`/v1/webhook_deliveries?limit=${encodeURIComponent(limit)}`, 'limit'],
      ],
    ),
    ['/api/payments?limit=1&limit=2', 'limit'],
    ['/api/payments?starting_after=unknown', 'starting_after'],
    [`/api/payments?starting_after=${foreign}`, 'starting_after'],
    [`/api/payments?ending_before=${foreign}`, 'ending_before'],
    [`/api/payments?starting_after=${payment}&ending_before=${payment}`, 'ending_before'],
    [`/api/payments?starting_after=${payment}&starting_after=${payment}`, 'starting_after'],
    ['/api/payments?status=paid', 'status'],
    ['/api/payments?status=', 'status'],
    ['/api/payments?status=PENDING', 'status'],
    ['/api/payments?status=pending&status=completed', 'status'],
    ['/api/payments?status=constructor', 'status'],
    ['/api/payments?currency=XMR', 'currency'],
    ['/api/payments?currency=', 'currency'],
    ['/api/payments?currency=BTC&currency=LTC', 'currency'],
    ['/api/payments?currency=toString', 'currency'],
    ['/v1/events?type=payment.paid', 'type'],
    ['/v1/events?type=payment.created&type=payment.failed', 'type'],
    ['/v1/events?starting_after=unknown', 'starting_after'],
    ['/v1/events?payment_id=a&payment_id=b', 'payment_id'],
    ['/v1/webhook_deliveries?state=lost', 'state'],
    ['/v1/webhook_deliveries?state=toString', 'state'],
    ['/v1/webhook_deliveries?state=failed&state=pending', 'state'],
    ['/v1/webhook_deliveries?endpoint_id=a&endpoint_id=b', 'endpoint_id'],
    ['/v1/webhook_deliveries?event_id=a&event_id=b', 'event_id'],
    ['/v1/webhook_deliveries?starting_after=del_x', 'starting_after'],
    ['/v1/webhook_deliveries?starting_after=del_000000000000000000000000', 'starting_after'],
    [`/v1/webhook_deliveries?starting_after=del_${'z'.repeat(24)}`, 'starting_after'],
    [`/v1/webhook_deliveries?starting_after=${payment}`, 'starting_after'],
    ['/api/crypto/prices?currencies=', 'currencies'],
    ['/api/crypto/prices?currencies=BTC,,LTC', 'currencies'],
    ['/api/crypto/prices?currencies=BTC,XMR', 'currencies'],
    ['/api/crypto/prices?currencies=BTC&currencies=LTC', 'currencies'],
    ['/api/crypto/balance?currency=BTC', 'address'],
    ['/api/crypto/balance?currency=BTC&address=', 'address'],
    ['/api/crypto/balance?currency=BTC&address=a&address=b', 'address'],
    ['/api/crypto/balance?address=a', 'currency'],
    ['/api/crypto/balance?address=a&currency=XMR', 'currency'],
    ['/api/crypto/fees', 'currency'],
    ['/api/crypto/fees?currency=', 'currency'],
    ['/api/crypto/fees?currency=BTC&currency=BTC', 'currency'],
    [`/api/crypto/transaction/${'0'.repeat(64)}`, 'currency'],
    [`/api/crypto/transaction/${'0'.repeat(64)}?currency=__proto__`, 'currency'],
  ];
  for (const [path, param] of cases) refused(await shop.get(path), 400, param, path);
  const live = await app.live.get('/api/crypto/balance?currency=BTC&address=nonsense');
  refused(live, 400, 'address', 'an invalid live address');
});

test('an invalid Idempotency-Key', async () => {
  const body = { amount_usd: 25, return_url: RETURN_URL };
  for (const key of ['', '""', 'x'.repeat(256), 'a\tb', 'ü'])
    refused(await shop.post('/api/payment/create/simple', body, { 'idempotency-key': key }), 400, null, `key ${key.slice(0, 20)}`);
});

test('page forms with text that cannot be stored', async () => {
  keeps = false;
  const { id } = (await shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: RETURN_URL })).json;
  const token = /name="token" value="([^"]+)"/.exec((await app.anonymous.get(`/pay?id=${id}`)).text)![1]!;
  const form = (path: string, fields: Record<string, string>) =>
    app.anonymous.post(path, new URLSearchParams({ id, token, ...fields }).toString(), {
      'content-type': 'application/x-www-form-urlencoded',
    });
  for (const [path, fields] of [
    ['/pay/refund-address', { currency: 'BTC', address: 'a\u0000b' }],
    ['/pay/refund-address', { currency: 'BTC', address: 'abc', email: 'a\u0000@shop.example' }],
    ['/pay/refund-address', { currency: 'XMR', address: 'abc' }],
    ['/pay/select', { currency: 'B\u0000TC' }],
    ['/pay/simulate', { scenario: 'suc\u0000cess' }],
  ] as const) {
    const reply = await form(path, fields);
    assert.ok(reply.status >= 400 && reply.status < 500, `${path} ${JSON.stringify(fields)}: ${reply.status}`);
  }
  for (const path of [
    '/pay',
    '/pay?id=',
    '/pay?id=%00',
    `/pay?id=${id}&id=${id}`,
    '/pay?id=pay_000000000000000000000000',
    '/pay/status?id=x',
    '/pay/receipt?id=x',
  ]) {
    assert.equal((await app.anonymous.get(path)).status, 404, path);
  }
  const [refunds] = await app.app.ctx.db.sql`select count(*)::int as n from refund_addresses`;
  assert.equal(refunds!.n, 0);
});

test('amounts take every form of a JSON number, and the noise of doubles is rounded', async () => {
  keeps = false;
  const shown = async (path: string, body: object, field: string, raw: string): Promise<string> => {
    const reply = await shop.post(path, bodyWith(body, field, raw));
    assert.equal(reply.status, 201, `${path} ${field} ${raw}: ${reply.text}`);
    return (reply.json.amount_fiat ?? reply.json.amount_usd ?? reply.json.amount) as string;
  };
  const [simple, advanced, legacy, transaction] = ENDPOINTS;
  for (const [raw, usd] of [
    ['1e2', '100.00'],
    ['1E+2', '100.00'],
    ['2.55e1', '25.50'],
    ['2550e-2', '25.50'],
    ['25.500', '25.50'],
    ['"25.500"', '25.50'],
    ['"25.50000000"', '25.50'],
    [String(1.1 * 3), '3.30'],
    [`"${1.1 * 3}"`, '3.30'],
    [String(4.35 * 100), '435.00'],
    [`25.${'0'.repeat(5_000)}1`, '25.00'],
  ] as const) {
    assert.equal(await shown(simple!.path(), simple!.body, 'amount_usd', raw), usd, raw);
    // Whose smallest payment is below all of these.
    assert.equal(await shown(transaction!.path(), { ...transaction!.body, crypto: 'DOGE' }, 'amount', raw), usd, raw);
    const inEuro = { amount: 25, currency_fiat: 'EUR', return_url: RETURN_URL };
    assert.equal((await shop.post(simple!.path(), bodyWith(inEuro, 'amount', raw))).status, 201, raw);
    const { json } = await shop.post(advanced!.path(), bodyWith({ ...advanced!.body, tax: 0 }, 'items[0].unit_price', raw));
    assert.equal(json.amount_usd, (Number(usd) * 2).toFixed(2), raw);
  }
  for (const [raw, usd] of [
    ['0e5', '25.00'],
    ['-0.0', '25.00'],
    [String(0.1 + 0.2 - 0.3), '25.00'],
    ['1e-2', '25.01'],
    ['1.50', '26.50'],
  ] as const)
    assert.equal(await shown(advanced!.path(), advanced!.body, 'tax', raw), usd, raw);
  for (const [raw, units] of [
    ['5e-1', '0.50000000'],
    ['0.500000000000', '0.50000000'],
    ['"0.5000000000"', '0.50000000'],
    [String(0.1 + 0.2), '0.30000000'],
  ] as const)
    assert.equal(await shown(legacy!.path(), legacy!.body, 'amount', raw), units, raw);
  // An exponent is never worked off digit by digit.
  for (const raw of ['1e999999999', '1e-999999999', `1e${'9'.repeat(60_000)}`, '9'.repeat(60_000)])
    refused(await shop.post(simple!.path(), bodyWith(simple!.body, 'amount_usd', raw)), 400, 'amount_usd', raw.slice(0, 20));
});

test('null means absent for every optional field, also in lists and in metadata', async () => {
  keeps = false;
  for (const { path, body, optional } of ENDPOINTS.slice(0, 4)) {
    const nothing = Object.fromEntries(Object.keys(optional).map((name) => [name, null]));
    const reply = await shop.post(path(), { ...body, ...nothing });
    assert.equal(reply.status, 201, `${path()}: ${reply.text}`);
    const detail = (await shop.get(`/api/payment/${reply.json.id}`)).json;
    assert.deepEqual([detail.description, detail.metadata, detail.invoice_id], [null, {}, null], path());
    for (const name of Object.keys(body)) refused(await shop.post(path(), { ...body, [name]: null }), 400, name, `${path()} ${name} null`);
  }
  const both = { amount_usd: 25, amount: null, currency_fiat: null, return_url: RETURN_URL, metadata: { order: 'A-1', coupon: null } };
  const made = await shop.post('/api/payment/create/simple', both);
  assert.equal(made.status, 201, made.text);
  assert.deepEqual((await shop.get(`/api/payment/${made.json.id}`)).json.metadata, { order: 'A-1' });
  // Where null has a meaning of its own, it keeps it.
  const cleared = await shop.post(`/v1/payments/${made.json.id}`, { metadata: { order: null, more: 'x' } });
  assert.deepEqual(cleared.json.metadata, { more: 'x' });
  const items = [{ ...line, color: null, name: null }];
  refused(await shop.post('/api/payment/create/advanced', { ...ENDPOINTS[1]!.body, items }), 400, 'items[0].name', 'null in a line');
  for (const [path, body] of [
    [`/v1/test/payments/${made.json.id}/simulate`, { scenario: 'underpaid', currency: null, network: null }],
    ['/v1/test/clock/advance', { seconds: 1, payment_id: null }],
  ] as const) {
    const reply = await shop.post(path, body);
    assert.equal(reply.status, 200, `${path}: ${reply.text}`);
  }
  const endpoint = await shop.post('/v1/webhook_endpoints', {
    url: 'http://127.0.0.1:9/hook',
    events: null,
    description: null,
    enabled: null,
  });
  assert.equal(endpoint.status, 201, endpoint.text);
  const updated = await shop.post(`/v1/webhook_endpoints/${endpoint.json.id}`, { url: null, events: null, enabled: null });
  assert.deepEqual([updated.status, updated.json.url, updated.json.enabled], [200, 'http://127.0.0.1:9/hook', true]);
});

test('codes of coins and currencies have no case, and every refusal lists the same coins', async () => {
  keeps = false;
  for (const code of ['btc', 'Btc', 'BTC']) {
    const created = await shop.post('/v1/transactions/create', { crypto: code, amount: 25, currency_fiat: 'usd' });
    assert.deepEqual([created.status, created.json.currency, created.json.currency_fiat], [201, 'BTC', 'USD'], created.text);
    assert.equal((await shop.post('/payments', { amount: '0.5', currency: code })).json.currency, 'BTC');
    assert.equal((await shop.post('/api/payment/create/simple', { amount: 25, currency_fiat: 'eur', return_url: RETURN_URL })).status, 201);
    for (const path of [`/api/payments?currency=${code}`, `/api/crypto/prices?currencies=${code}`, `/api/crypto/fees?currency=${code}`])
      assert.equal((await shop.get(path)).status, 200, path);
    const open = (await shop.post('/api/payment/create/simple', { amount_usd: 25, return_url: RETURN_URL })).json.id;
    assert.equal((await shop.post(`/v1/test/payments/${open}/simulate`, { scenario: 'success', currency: code })).status, 200);
  }
  const made = async (path: string, body: object) => {
    const { status, json, text } = await shop.post(path, body);
    assert.equal(status, 201, text);
    return json;
  };
  const usdc = await made('/v1/payments', { amount: 25, currency: 'eur', crypto: 'usdc', network: 'Base' });
  assert.deepEqual([usdc.currency, usdc.network, usdc.currency_fiat], ['USDC', 'base', 'EUR']);
  const fixed = await made('/v1/payments', { amount: 25, currency: 'usdc', network: 'BASE', payment_address: 'test_usdc_base_success' });
  assert.deepEqual([fixed.currency, fixed.network], ['USDC', 'base']);
  assert.equal((await made('/payments', { amount: 25, currency: 'usdc', network: 'Base' })).network, 'base');
  assert.equal(
    (await made('/v1/transactions/create', { crypto: 'usdc', network: 'Base', amount: 25, currency_fiat: 'usd' })).network,
    'base',
  );
  for (const path of ['/api/payments', '/v1/payments']) {
    const { data } = (await shop.get(`${path}?currency=usdc&network=Base`)).json;
    assert.ok(data.length >= 4 && data.every((one: any) => one.currency === 'USDC' && one.network === 'base'), path);
  }
  const paid = await made('/v1/payments', { amount: 25, currency: 'usd' });
  const simulated = await shop.post(`/v1/test/payments/${paid.id}/simulate`, { scenario: 'success', currency: 'usdc', network: 'Base' });
  assert.deepEqual([simulated.status, simulated.json.network], [200, 'base'], simulated.text);
  await eventually(
    () => shop.get(`/v1/payments/${paid.id}`),
    ({ json }) => json.status === 'completed',
  );
  const refund = await made('/v1/refunds', { payment_id: paid.id, amount: 5, currency_fiat: 'usd', currency: 'usdc', network: 'BASE' });
  assert.deepEqual([refund.currency, refund.network], ['USDC', 'base']);
  const sent = { address: 'test_usdc_base_payer', payout_reference: 'any-case' };
  const payout = await made('/v1/payouts', { ...sent, currency: 'usdc', network: 'Base', amount_usd: 5 });
  assert.deepEqual([payout.currency, payout.network], ['USDC', 'base']);
  const lists = new Set<string>();
  for (const reply of [
    await shop.post('/v1/transactions/create', { crypto: 'XMR', amount: 25, currency_fiat: 'USD' }),
    await shop.post('/payments', { amount: '0.5', currency: 'XMR' }),
    await shop.post(`/v1/test/payments/${payment}/simulate`, { scenario: 'success', currency: 'XMR' }),
    await shop.get('/api/payments?currency=XMR'),
    await shop.get('/api/crypto/prices?currencies=XMR'),
    await shop.get('/api/crypto/fees?currency=XMR'),
    await shop.get('/api/crypto/balance?currency=XMR&address=a'),
  ]) {
    assert.equal(reply.status, 400, reply.text);
    lists.add(/ must be one of (.*)\.$/.exec(reply.json.error.message)?.[1] ?? reply.text);
  }
  assert.equal(lists.size, 1, [...lists].join('\n'));
  assert.match([...lists][0]!, /^BTC, ETH, LTC, DASH, DOGE/);
});

test('errors say what is true and what to send', async () => {
  keeps = false;
  const says = async (reply: Reply, status: number, ...parts: RegExp[]) => {
    assert.equal(reply.status, status, reply.text);
    for (const part of parts) assert.match(reply.json.error.message, part);
  };
  const [simple, advanced] = [ENDPOINTS[0]!.body, ENDPOINTS[1]!.body];
  await says(await app.testPublic.post('/v1/transactions/create', ENDPOINTS[3]!.body), 403, /secret key/, /create\/simple/);
  await says(await shop.post('/payments', { amount: '25.00', currency: 'BTC' }), 400, /in BTC here/, /2425000\.00 USD/, /create\/simple/);
  await says(await shop.post('/api/payment/create/advanced', { ...advanced, tax: -1 }), 400, /^tax .*0 or more/);
  await says(
    await shop.post('/api/payment/create/advanced', { ...advanced, items: [{ ...line, unit_price: -1 }] }),
    400,
    /unit_price.*0 or more/,
  );
  await says(await shop.post('/api/payment/create/simple', { ...simple, address: 'test_ltc_failed' }), 400, /payment_address/);
  await says(
    await shop.post('/api/payment/create/simple', { ...simple, return_url: 'http://shop.example/' }),
    400,
    /https URL/,
    /this machine only/,
  );
  await says(await app.live.post('/api/payment/create/simple', { ...simple, return_url: 'http://shop.example/' }), 400, /https URL/);
  const nameless = await shop.get('/api/payment/');
  await says(nameless, 404, /payment_id/);
  assert.equal(nameless.json.error.param, 'payment_id');
});

test('an empty cursor is the first page', async () => {
  keeps = false;
  for (const path of [
    '/api/payments',
    '/v1/events',
    '/v1/webhook_deliveries',
    '/v1/refunds',
    '/v1/payouts',
    '/v1/requests',
    `/v1/payments/${payment}/transfers`,
  ]) {
    const named = (page: Reply): string => page.json.data.map((row: { id?: string; ref?: string }) => row.id ?? row.ref).join(' ');
    // Earlier tests still make events. The log of requests has one row more after each of these.
    const [first, empty] = await eventually(
      async () => [await shop.get(path), await shop.get(`${path}?starting_after=`), await shop.get(path)] as const,
      ([before, , after]) => path === '/v1/requests' || named(before) === named(after),
    );
    assert.equal(empty.status, 200, `${path}: ${empty.text}`);
    if (path !== '/v1/requests') assert.equal(named(empty), named(first), path);
  }
});

test('a return URL keeps its host readable and its own parameters as written, and gets each of the two once', async () => {
  keeps = false;
  const url = 'https://münchen.example/danke?status=draft&transaction_id=mine&cart=7&note=a%20b&%73tatus=x&flag&sign=a%7Eb';
  const made = await shop.post('/api/payment/create/simple', { ...ENDPOINTS[0]!.body, return_url: url });
  assert.equal(made.status, 201, made.text);
  const { id } = made.json;
  const stored = (await shop.get(`/api/payment/${id}`)).json.return_url;
  assert.equal(stored, url.replace('münchen', 'xn--mnchen-3ya'));
  const view = await getPaymentForCustomer(app.app.ctx, { paymentId: id });
  const back = new URL(returnUrl(view, stored));
  assert.deepEqual(
    [back.searchParams.getAll('status'), back.searchParams.getAll('transaction_id'), back.searchParams.get('cart')],
    [['pending'], [id], '7'],
  );
  assert.equal(back.search, `?cart=7&note=a%20b&flag&sign=a%7Eb&transaction_id=${id}&status=pending`);
});
