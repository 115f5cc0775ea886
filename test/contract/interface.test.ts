/** Every row of the documented interface, asserted against the running service; at the end the table of rows and assertions. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { type IncomingHttpHeaders, request } from 'node:http';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { createApiKey, revokeApiKey } from '../../src/keys/keys.ts';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { createPrices } from '../../src/prices/prices.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { type Client, client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { startLitecoind, type TestNode } from '../kit/nodes.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { serve } from '../kit/serve.ts';
import { FIELDS, FORMS, type Form, ROWS, type RowOf, type Section } from './rows.ts';
import { proofsWithoutSentence, readSentences, rowsFor } from './sentences.ts';

const proven = new Map<string, string[]>();
/** Runs an assertion and records the row that it proves. */
function proves<S extends Section>(section: S, row: RowOf<S>, assertion: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    (error as Error).message = `${section} / ${row}: ${assertion}: ${(error as Error).message}`;
    throw error;
  }
  const key = `${section} / ${row}`;
  proven.set(key, [...(proven.get(key) ?? []), assertion]);
}
/** Every field of the section is present in `value` and has its format. */
function provesFields<S extends keyof typeof FIELDS>(section: S, value: any, { but = [] }: { but?: readonly string[] } = {}): void {
  for (const [field, form] of Object.entries(FIELDS[section] as Record<string, Form>)) {
    if (but.includes(field)) continue;
    proves(section, field as RowOf<S>, `is ${form}`, () => {
      assert.ok(field in value, 'is missing');
      assert.ok(FORMS[form](value[field]), `${JSON.stringify(value[field])} is not ${form}`);
    });
  }
}

/** A receiver that records every request and answers the nth as configured; null: never. */
type Hook = {
  url: string;
  requests: { method: string; headers: IncomingHttpHeaders; rawHeaders: string[]; body: string }[];
  stop(): Promise<void>;
};
async function startHook(answer: (nth: number) => number | null): Promise<Hook> {
  const requests: Hook['requests'] = [];
  const { url, stop } = await serve(({ method, headers, rawHeaders }, reply, body) => {
    requests.push({ method: method!, headers, rawHeaders, body: body.toString() });
    const status = answer(requests.length);
    if (status !== null) reply.writeHead(status).end();
  });
  return { url: `${url}/hook`, requests, stop };
}

const SHOP = 'https://shop.example/thanks?cart=7';
const simple = { amount_usd: 25.5, return_url: SHOP };
const items = [
  { product_id: 'mug', name: 'Mug', quantity: 3, unit_price: 12.5 },
  { product_id: 'pin', name: 'Pin', quantity: 1, unit_price: '0.99' },
];
const advanced = { return_url: SHOP, items, tax: 3.51 };

let node: TestNode;
let receiver: Receiver;
let app: TestApp;
/** Behind TLS, with its own page host, without exceptions for private webhook URLs. */
let strict: TestApp;
let shop: Client;
let secret: string;
/** A merchant whose receiver fails once, and one whose receiver never answers. */
let flaky: { merchant: NewMerchant; hook: Hook };
let silent: { merchant: NewMerchant; hook: Hook; payment: string };

const https = (key: string | null): Client => {
  const plain = client(strict.url, key);
  const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.7' };
  return {
    get: (path, headers) => plain.get(path, { ...forwarded, ...headers }),
    post: (path, body, headers) => plain.post(path, body, { ...forwarded, ...headers }),
    delete: (path, headers) => plain.delete(path, { ...forwarded, ...headers }),
  };
};
const endpoint = (merchant: NewMerchant, url: string, events: string[] = ['*']) =>
  createEndpoint(app.app.ctx, { merchantId: merchant.merchantId, mode: 'test', url, events, description: null });

before(async () => {
  [node, receiver] = await Promise.all([startLitecoind(), startReceiver()]);
  app = await startTestApp({ LTC_NODE_URL: node.url, LTC_NETWORK: 'regtest' });
  strict = await startTestApp({
    PUBLIC_URL: 'https://api.example',
    PAYMENT_PAGE_URL: 'https://pay.example',
    TRUSTED_PROXIES: '127.0.0.0/8',
    WEBHOOK_ALLOW: '',
    LOG_LEVEL: 'silent',
    PLANS: '{"starter":{"per_minute":0},"professional":{"per_minute":0}}',
  });
  shop = app.test;
  ({ secret } = await endpoint(app.merchant, receiver.url));
  const other = async (answer: (nth: number) => number | null) => {
    const merchant = await createMerchant(app.app.ctx, { name: 'Other shop', plan: 'professional' });
    const hook = await startHook(answer);
    await endpoint(merchant, hook.url);
    return { merchant, hook };
  };
  flaky = await other((nth) => (nth === 1 ? 500 : 200));
  const mute = await other(() => null);
  const payment = await app.as(mute.merchant.keys.testSecret).post('/api/payment/create/simple', simple);
  silent = { ...mute, payment: payment.json.transaction_id };
});
after(async () => {
  await app?.stop();
  await strict?.stop();
  await Promise.all([receiver?.stop(), flaky?.hook.stop(), silent?.hook.stop(), node?.destroy()]);
});

const made = (reply: Reply): any => {
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
};
const found = (reply: Reply): any => {
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};
const detail = async (id: string) => found(await shop.get(`/api/payment/${id}`));
const refused = (reply: Reply, status: number, type: string, param: string | null) => {
  assert.equal(reply.status, status, reply.text);
  assert.match(reply.headers.get('content-type')!, /^application\/json/);
  assert.equal(reply.json.error.type, type, reply.text);
  assert.equal(reply.json.error.param, param, reply.text);
  assert.ok(reply.json.error.message.length > 0);
};
/** A test payment that ran through a scenario to its end. */
const finished = async (scenario: string, currency: string, status: string, body: object = {}): Promise<any> => {
  const { transaction_id } = made(await shop.post('/api/payment/create/simple', { ...simple, ...body }));
  found(await shop.post(`/v1/test/payments/${transaction_id}/simulate`, { scenario, currency }));
  return eventually(
    () => detail(transaction_id),
    (d) => d.status === status,
  );
};
/** An account key of a merchant's wallet, with the prefix of test networks. */
const accountKey = (seed: number): string =>
  base58check.respell(HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive("m/84'/1'/0'").publicExtendedKey, 0x043587cf);
const without = (body: object, field: string): object => Object.fromEntries(Object.entries(body).filter(([name]) => name !== field));
const eventsOf = (id: string) => receiver.received.filter((r) => r.event.data.id === id);
const received = (id: string, type: string) =>
  eventually(
    async () => eventsOf(id).find((r) => r.event.type === type) ?? null,
    (r) => r !== null,
  ).then((r) => r!);

/** Runs `ask` with prices from two exchanges that return these, instead of fixed prices. */
async function withExchanges<T>(told: Record<string, { last: string; open: string }>, ask: () => Promise<T>): Promise<T> {
  const { url: host, stop } = await serve((request, reply) => {
    const [, coin] = /^\/products\/(\w+)-USD\/stats$/.exec(request.url!) ?? [];
    const stats = Object.entries(told).map(([name, { last, open }]) => {
      const change = (Number(last) / Number(open) - 1).toFixed(6);
      return `["${name === 'DOGE' ? 'tDOGE:USD' : `t${name}USD`}",1,1,1,1,0,${change},${last},1,1,1]`;
    });
    if (coin === undefined) reply.end(`[${stats}]`);
    else reply.writeHead(coin in told ? 200 : 404).end(JSON.stringify(told[coin] ?? {}));
  });
  const { ctx } = app.app;
  const fixed = ctx.prices;
  const fed = createPrices({ ...ctx, sources: 'coinbase,bitfinex', hosts: { coinbase: host, bitfinex: host } });
  try {
    ctx.prices = fed;
    await fed.start();
    await eventually(
      async () => fed.look('BTC'),
      (price) => price !== null,
    );
    return await ask();
  } finally {
    ctx.prices = fixed;
    await fed.stop();
    await stop();
  }
}

test('creating simple payments', async () => {
  const section = 'POST /api/payment/create/simple';
  const reply = await shop.post('/api/payment/create/simple', simple);
  provesFields('Payment creation result', made(reply), { but: ['items_count'] });
  proves(section, 'answers 201 without items_count', '201, no items_count', () => {
    assert.equal(reply.status, 201);
    assert.equal('items_count' in reply.json, false);
  });
  proves('Payment creation result, rules', 'items_count on advanced payments only', 'absent on a simple one', () =>
    assert.equal('items_count' in reply.json, false),
  );
  proves('Payment creation result, rules', 'payment_url carries the transaction_id as id', 'query parameter id', () =>
    assert.equal(new URL(reply.json.payment_url).searchParams.get('id'), reply.json.transaction_id),
  );
  proves('Resources, gaps', 'transaction_id and id are the same string', 'creation returns both', () =>
    assert.equal(reply.json.id, reply.json.transaction_id),
  );
  const noAmount = await shop.post('/api/payment/create/simple', without(simple, 'amount_usd'));
  const noUrl = await shop.post('/api/payment/create/simple', without(simple, 'return_url'));
  const badUrl = await shop.post('/api/payment/create/simple', { ...simple, return_url: 'thanks' });
  proves(section, 'amount_usd is required', '400 param amount_usd', () => refused(noAmount, 400, 'invalid_request', 'amount_usd'));
  proves(section, 'return_url is required', '400 param return_url', () => refused(noUrl, 400, 'invalid_request', 'return_url'));
  proves(section, 'return_url is a URL', '400 param return_url', () => refused(badUrl, 400, 'invalid_request', 'return_url'));
  proves(section, 'amount_usd is a number in USD', '25.5 is "25.50"', () => assert.equal(reply.json.amount_usd, '25.50'));
  for (const [written, usd] of [
    ['1e2', '100.00'],
    ['1E+2', '100.00'],
    ['25.500', '25.50'],
    ['3.3000000000000003', '3.30'],
    ['434.99999999999994', '435.00'],
  ] as const) {
    const reply = await shop.post('/api/payment/create/simple', `{"amount_usd": ${written}, "return_url": "${SHOP}"}`);
    proves(section, 'amount_usd has any form of a JSON number', `${written} is "${usd}"`, () => assert.equal(made(reply).amount_usd, usd));
  }
  const broken = await shop.post('/api/payment/create/simple', { ...simple, amount_usd: 25.505 });
  proves(section, 'amount_usd has any form of a JSON number', '25.505 has half a cent', () =>
    refused(broken, 400, 'invalid_request', 'amount_usd'),
  );
  const form = await shop.post('/api/payment/create/simple', `amount_usd=25.5&return_url=${encodeURIComponent(SHOP)}`, {
    'content-type': 'application/x-www-form-urlencoded',
  });
  proves('Endpoints, rules', 'bodies are JSON with Content-Type application/json', 'a form is refused with 415', () =>
    refused(form, 415, 'invalid_request', null),
  );
  const page = await app.testPublic.post('/api/payment/create/simple', simple, { origin: 'https://any.example' });
  proves('Authentication', '2 public key: a page of any site creates and reads the reply', 'Access-Control-Allow-Origin: *', () => {
    assert.equal(made(page).status, 'pending');
    assert.equal(page.headers.get('access-control-allow-origin'), '*');
  });
  proves('What the service does', '1 a payment in USD returns a payment page address', 'payment_url', () =>
    assert.ok(FORMS['page URL'](reply.json.payment_url)),
  );
  proves('States', 'a new payment starts as pending', 'creation says pending', () => assert.equal(reply.json.status, 'pending'));
  const lasts = Date.parse(reply.json.expires_at) - Date.parse((await detail(reply.json.id)).created_at);
  proves('Limits', '8 a payment window lasts 60 minutes', 'expires_at - created_at', () => assert.equal(lasts, 3_600_000));
  proves('Errors', 'resource created: 201', 'a creation answers 201', () => assert.equal(reply.status, 201));
});

test('creating advanced payments', async () => {
  const section = 'POST /api/payment/create/advanced';
  const path = '/api/payment/create/advanced';
  const reply = await shop.post(path, { ...advanced, invoice_id: 'INV-7' });
  provesFields('Payment creation result', made(reply));
  proves(section, 'answers 201 with items_count', 'two lines', () => assert.equal(reply.json.items_count, 2));
  proves('Payment creation result, rules', 'items_count on advanced payments only', 'present on an advanced one', () =>
    assert.equal(reply.json.items_count, 2),
  );
  proves(
    'Payment creation result, rules',
    'amount_usd is the sum of quantity times unit_price plus tax',
    '3 * 12.50 + 0.99 + 3.51 = 42.00',
    () => assert.equal(reply.json.amount_usd, '42.00'),
  );
  for (const field of ['return_url', 'items', 'tax'] as const) {
    const reply = await shop.post(path, without(advanced, field));
    proves(section, `${field} is required`, `400 param ${field}`, () => refused(reply, 400, 'invalid_request', field));
  }
  for (const field of ['product_id', 'name', 'quantity', 'unit_price'] as const) {
    const reply = await shop.post(path, { ...advanced, items: [items[0], without(items[1]!, field)] });
    proves(section, `${field} is required`, `400 param items[1].${field}`, () =>
      refused(reply, 400, 'invalid_request', `items[1].${field}`),
    );
  }
  const half = await shop.post(path, { ...advanced, items: [{ ...items[0], quantity: 1.5 }] });
  proves(section, 'quantity is an integer', '1.5 is refused', () => refused(half, 400, 'invalid_request', 'items[0].quantity'));
  const object = await shop.post(path, { ...advanced, items: items[0] });
  proves(section, 'items is an array of items', 'an object is refused', () => refused(object, 400, 'invalid_request', 'items'));
  const [plain, invoiced] = [made(await shop.post(path, advanced)), await detail(reply.json.id)];
  proves(section, 'invoice_id is optional', 'created with and without it', () => {
    assert.equal(plain.status, 'pending');
    assert.equal(invoiced.invoice_id, 'INV-7');
  });
  const nothing = made(await shop.post(path, { ...advanced, invoice_id: null, description: null, metadata: null }));
  proves(section, 'what is optional may be null', 'as if it were left out', () => assert.equal(nothing.amount_usd, plain.amount_usd));
  const bounds: [object, string][] = [
    [{ tax: -0.01 }, 'tax'],
    [{ tax: 1_000_000.01 }, 'tax'],
    [{ items: [{ ...items[0], quantity: 0 }] }, 'items[0].quantity'],
    [{ items: [{ ...items[0], quantity: 1_000_001 }] }, 'items[0].quantity'],
    [{ items: [{ ...items[0], unit_price: -1 }] }, 'items[0].unit_price'],
    [{ items: [{ ...items[0], unit_price: 0 }], tax: 0 }, 'items'],
    [{ items: [{ ...items[0], unit_price: 999_999, quantity: 2 }] }, 'items'],
  ];
  for (const [change, param] of bounds) {
    const reply = await shop.post(path, { ...advanced, ...change });
    proves('Endpoints, gaps', 'bounds of amount_usd, tax, quantity and unit_price', `${JSON.stringify(change)} is refused`, () =>
      refused(reply, 400, 'invalid_request', param),
    );
  }
  const most = await shop.post('/api/payment/create/simple', { ...simple, amount_usd: 1_000_000 });
  proves('Endpoints, gaps', 'bounds of amount_usd, tax, quantity and unit_price', '1000000.00 is accepted', () =>
    assert.equal(made(most).amount_usd, '1000000.00'),
  );
});

test('creating legacy payments', async () => {
  const section = 'POST /payments';
  const reply = await shop.post('/payments', { amount: '0.5', description: 'Two mugs', redirect_url: SHOP });
  provesFields('Legacy payment creation result', made(reply));
  proves(section, 'answers 201 with the legacy result', '201', () => assert.equal(reply.status, 201));
  proves(section, 'amount is a decimal string', '"0.5" is "0.50000000"', () => assert.equal(reply.json.amount, '0.50000000'));
  const stored = await detail(reply.json.id);
  proves(section, 'description', 'shown in the detail', () => assert.equal(stored.description, 'Two mugs'));
  proves(section, 'redirect_url', 'where the payer returns to', () => assert.equal(stored.return_url, SHOP));
  const wrong = await shop.post('/payments', { amount: '0.5', redirect_url: 'ftp://shop.example' });
  proves(section, 'redirect_url', 'must be a URL', () => refused(wrong, 400, 'invalid_request', 'redirect_url'));
  const missing = await shop.post('/payments', { description: 'Two mugs' });
  proves(section, 'amount is required', '400 param amount', () => refused(missing, 400, 'invalid_request', 'amount'));
  for (const amount of ['0', '-1', '0.00000000']) {
    const reply = await shop.post('/payments', { amount });
    proves(section, 'amount not above 0 is invalid_request with param amount', `amount ${amount}`, () => {
      refused(reply, 400, 'invalid_request', 'amount');
      assert.equal(reply.json.error.message, 'Amount must be greater than 0');
    });
  }
  const [secretKey, publicKey] = [reply, await app.testPublic.post('/payments', { amount: '0.5' })];
  proves(section, 'takes a secret key', 'a public one is refused', () => {
    assert.equal(secretKey.status, 201);
    refused(publicKey, 403, 'permission_denied', null);
  });
  const ether = async (amount: string) => made(await shop.post('/payments', { amount, currency: 'ETH' })).amount;
  const [short, long, tiny] = [await ether('0.1'), await ether('0.123456789012345678'), await ether('0.0010000001')];
  proves('Exact forms', 'ETH has more than 8 decimals only when the value has more', '18, 10 and 8', () =>
    assert.deepEqual([short, long, tiny], ['0.10000000', '0.123456789012345678', '0.0010000001']),
  );
  const small = made(await shop.post('/payments', { amount: '0.00001', currency: 'BTC' }));
  const large = made(await shop.post('/payments', { amount: '4000000', currency: 'DOGE' }));
  proves('Exact forms', 'never an exponent', '1e-5 and 4e6 written out', () =>
    assert.deepEqual([small.amount, large.amount], ['0.00001000', '4000000.00000000']),
  );
  proves('Exact forms', 'coins have 8 decimals', 'BTC and DOGE', () => assert.match(small.amount + large.amount, /\.\d{8}.*\.\d{8}$/));
});

test('detail before and after the choice of a coin, metadata', async () => {
  const { id } = made(await shop.post('/api/payment/create/simple', simple));
  const fresh = await detail(id);
  provesFields('Payment detail before a coin is chosen', fresh);
  proves('What the service does', '2 no address exists before the choice', 'payment_address is null and none is stored', () =>
    assert.equal(fresh.payment_address, null),
  );
  const metadata = { order: 'A-1001', customer: 'C-7' };
  const done = await finished('success', 'BTC', 'completed', { description: 'Two mugs', metadata });
  provesFields('Payment detail', done);
  proves('GET /api/payment/{payment_id}', 'answers 200 with the payment detail', 'all fields', () =>
    assert.deepEqual(
      Object.keys(FIELDS['Payment detail']).filter((field) => !(field in done)),
      [],
    ),
  );
  proves('GET /api/payment/{payment_id}', 'payment_id names the payment', 'id of the reply', () => assert.equal(fresh.id, id));
  const { transaction_id: tardy } = made(await shop.post('/api/payment/create/simple', simple));
  found(await shop.post(`/v1/test/payments/${tardy}/simulate`, { scenario: 'late', currency: 'LTC' }));
  const late = await eventually(
    () => detail(tardy),
    (d) => d.exception === 'late',
  );
  proves('Payment detail, rules', 'amount_received counts all that the chain credits, late money too', 'with its transaction', () => {
    assert.deepEqual([late.exception, late.amount_received, late.amount_held], ['late', late.amount, late.amount]);
    assert.ok(FORMS['transaction hash'](late.transaction_hash));
  });
  const unknown = await shop.get('/api/payment/pay_000000000000000000000000');
  proves('Errors', 'resource not found: 404', 'an unknown payment', () => refused(unknown, 404, 'not_found', null));
  const changed = found(await shop.post(`/v1/payments/${id}`, { metadata: { order: 'B-2' } }));
  proves('Resources, gaps', 'metadata is set at creation and by POST /v1/payments/{id}', 'both show in the detail', () => {
    assert.deepEqual(done.metadata, metadata);
    assert.deepEqual(changed.metadata, { order: 'B-2' });
  });
  proves('Resources, gaps', 'transaction_id and id are the same string', 'detail returns both', () =>
    assert.equal(done.transaction_id, done.id),
  );
  proves('General rules', 'amounts are decimals carried as strings', 'amounts of the detail', () => {
    for (const field of ['amount', 'amount_received', 'amount_usd']) assert.equal(typeof done[field], 'string');
  });
  proves('General rules', 'timestamps are ISO 8601 UTC strings', 'instants of the detail', () => {
    for (const field of ['created_at', 'completed_at', 'expires_at']) assert.ok(FORMS['ISO 8601, ms, Z'](done[field]));
  });
  proves('Exact forms', 'USD has 2 decimals', 'amount_usd', () => assert.equal(done.amount_usd, '25.50'));
});

test('the list', async () => {
  const merchant = await createMerchant(app.app.ctx, { name: 'List shop', plan: 'enterprise' });
  const own = app.as(merchant.keys.testSecret);
  const ids: string[] = [];
  for (let i = 0; i < 12; i++) ids.unshift(made(await own.post('/api/payment/create/simple', simple)).id);
  for (const [id, currency] of [
    [ids[3], 'LTC'],
    [ids[7], 'BTC'],
  ]) {
    found(await own.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency }));
  }
  const list = async (query: string) => found(await own.get(`/api/payments${query}`));
  const completed = await eventually(
    () => list('?status=completed'),
    (page) => page.total_count === 2,
  );
  provesFields('List envelope', completed);
  provesFields('Payment list item', completed.data[0]);
  const first = await list('');
  provesFields('Payment list item before a coin is chosen', first.data[0]);
  const [limited, after, byCoin] = [await list('?limit=3'), await list(`?starting_after=${ids[2]}&limit=2`), await list('?currency=LTC')];
  proves('GET /api/payments', 'limit', '3 rows', () => assert.equal(limited.data.length, 3));
  proves('GET /api/payments', 'starting_after', 'begins behind the cursor', () =>
    assert.deepEqual(
      after.data.map((row: any) => row.transaction_id),
      [ids[3], ids[4]],
    ),
  );
  proves('GET /api/payments', 'status', 'completed alone', () =>
    assert.deepEqual(
      completed.data.map((row: any) => [row.transaction_id, row.status]),
      [
        [ids[3], 'completed'],
        [ids[7], 'completed'],
      ],
    ),
  );
  proves('GET /api/payments', 'currency', 'LTC alone', () =>
    assert.deepEqual(
      byCoin.data.map((row: any) => [row.transaction_id, row.currency]),
      [[ids[3], 'LTC']],
    ),
  );
  proves('List envelope, rules', 'total_count counts all matching payments', 'beyond the page, by filter', () => {
    assert.equal(limited.total_count, 12);
    assert.equal(byCoin.total_count, 1);
  });
  const seen: string[] = [];
  for (let page = await list('?limit=5'); ; page = await list(`?limit=5&starting_after=${seen.at(-1)}`)) {
    seen.push(...page.data.map((row: any) => row.transaction_id));
    if (!page.has_more) break;
  }
  proves('GET /api/payments', 'has_more pages through all, newest first', 'pages of 5 join to all 12', () => assert.deepEqual(seen, ids));
  const [none, hundred, over] = [
    await own.get('/api/payments?limit=0'),
    await own.get('/api/payments?limit=100'),
    await own.get('/api/payments?limit=101'),
  ];
  proves('GET /api/payments', 'limit is 1 to 100 and 10 by default', '0 and 101 are refused', () => {
    assert.equal(first.data.length, 10);
    assert.equal(hundred.json.data.length, 12);
    refused(none, 400, 'invalid_request', 'limit');
    refused(over, 400, 'invalid_request', 'limit');
  });
  const one = found(await own.get(`/api/payment/${ids[0]}`));
  proves('What the service does', '3 a secret key retrieves one payment and lists payments', 'the same payment', () =>
    assert.equal(one.id, first.data[0].transaction_id),
  );
});

test('lookups of prices, balances and fees', async () => {
  const prices = found(await shop.get('/api/crypto/prices?currencies=BTC,LTC'));
  provesFields('Price envelope', prices);
  provesFields('Price entry', prices.prices.BTC);
  proves('Price entry, rules', 'prices are keyed by currency code', 'BTC and LTC', () =>
    assert.deepEqual(Object.keys(prices.prices), ['BTC', 'LTC']),
  );
  proves('Price entry, rules', 'change_24h may be negative and is percent', 'a fixed price changes by 0', () =>
    assert.equal(prices.prices.BTC.change_24h, 0),
  );
  const moved = await withExchanges(
    { BTC: { last: '97000.5', open: '100000' }, LTC: { last: '99.97', open: '100.00' }, DOGE: { last: '0.25', open: '0.2' } },
    () => app.live.get('/api/crypto/prices?currencies=BTC,LTC,DOGE'),
  );
  proves('Price entry, rules', 'change_24h may be negative and is percent', 'down 3%, down 0.03%, up 25%', () => {
    const { BTC, LTC, DOGE } = found(moved).prices;
    assert.deepEqual([BTC.change_24h, LTC.change_24h, DOGE.change_24h], [-2.99, -0.03, 25]);
    assert.deepEqual([BTC.usd, LTC.usd, DOGE.usd], [97_000.5, 99.97, 0.25]);
  });
  proves('GET /api/crypto/prices', 'currencies is a comma-separated list', 'two of five', () =>
    assert.equal(Object.keys(prices.prices).length, 2),
  );
  proves('GET /api/crypto/prices', 'prices are in USD', 'as configured', () =>
    assert.deepEqual([prices.prices.BTC.usd, prices.prices.LTC.usd], [97_000, 100]),
  );
  const all = found(await shop.get('/api/crypto/prices'));
  proves('GET /api/crypto/prices', 'without currencies all five', 'five keys', () =>
    assert.deepEqual(Object.keys(all.prices), ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE']),
  );

  const balance = 'GET /api/crypto/balance';
  const summary = await shop.get('/api/crypto/balance?address=test_btc_success&currency=BTC');
  provesFields('Address balance', found(summary));
  proves(balance, 'answers 200 with the balance', '200', () => assert.equal(summary.status, 200));
  const [noAddress, noCoin, badCoin] = [
    await shop.get('/api/crypto/balance?currency=BTC'),
    await shop.get('/api/crypto/balance?address=test_btc_success'),
    await shop.get('/api/crypto/balance?address=test_btc_success&currency=XMR'),
  ];
  proves(balance, 'address is required', '400', () => refused(noAddress, 400, 'invalid_request', 'address'));
  proves(balance, 'currency is required', '400', () => refused(noCoin, 400, 'invalid_request', 'currency'));
  proves(balance, 'currency is one of five', 'XMR is refused', () => refused(badCoin, 400, 'invalid_request', 'currency'));
  for (const coin of ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE']) {
    const reply = await shop.get(`/api/crypto/balance?address=test_${coin.toLowerCase()}_success&currency=${coin}`);
    proves(balance, 'currency is one of five', coin, () => assert.equal(found(reply).currency, coin));
  }

  const fees = found(await shop.get('/api/crypto/fees?currency=BTC'));
  provesFields('Fee estimate', fees);
  for (const speed of ['fast', 'normal', 'slow']) provesFields('Fee entry', fees.fees[speed]);
  proves('Fee estimate, rules', 'fees has the keys fast, normal and slow', 'and no other', () =>
    assert.deepEqual(Object.keys(fees.fees), ['fast', 'normal', 'slow']),
  );
  proves('GET /api/crypto/fees', 'answers 200 with fast, normal and slow', 'fast is not below slow', () =>
    assert.ok(fees.fees.fast.fee_per_byte >= fees.fees.slow.fee_per_byte),
  );
  const nothing = await shop.get('/api/crypto/fees');
  proves('GET /api/crypto/fees', 'currency is required', '400', () => refused(nothing, 400, 'invalid_request', 'currency'));
  for (const coin of ['ETH', 'LTC', 'DASH', 'DOGE']) {
    const reply = found(await shop.get(`/api/crypto/fees?currency=${coin}`));
    proves('GET /api/crypto/fees', 'total-fee fields of other currencies', `total_fee_${coin.toLowerCase()}`, () =>
      assert.match(reply.fees.normal[`total_fee_${coin.toLowerCase()}`], /^\d+\.\d{8,18}$/),
    );
  }
  for (const path of ['prices', 'balance?address=x&currency=BTC', 'fees?currency=BTC', `transaction/${'0'.repeat(64)}?currency=BTC`]) {
    const reply = await app.testPublic.get(`/api/crypto/${path}`);
    proves('Endpoints, gaps', 'look-ups take secret keys', `${path.split('?')[0]} refuses a public key`, () =>
      refused(reply, 403, 'permission_denied', null),
    );
  }
});

test('lookup of a transaction on a real chain', async () => {
  const section = 'GET /api/crypto/transaction/{txid}';
  const txid = await node.pay(await node.newAddress(), '0.5');
  const [block] = await node.mine(1);
  const reply = await app.live.get(`/api/crypto/transaction/${txid}?currency=LTC`);
  provesFields('On-chain transaction', found(reply));
  for (const input of reply.json.inputs) provesFields('On-chain transaction input', input);
  for (const output of reply.json.outputs) provesFields('On-chain transaction output', output);
  proves(section, 'txid names the transaction', 'as the node knows it', () => {
    assert.equal(reply.json.txid, txid);
    assert.equal(reply.json.block_hash, block);
    assert.equal(reply.json.status, 'confirmed');
    assert.equal(reply.json.confirmations, 1);
    assert.ok(reply.json.outputs.some((output: any) => output.amount === '0.50000000'));
  });
  proves(section, 'answers 200 with the transaction', '200', () => assert.equal(reply.status, 200));
  const [noCoin, unknown] = [
    await app.live.get(`/api/crypto/transaction/${txid}`),
    await app.live.get(`/api/crypto/transaction/${'0'.repeat(64)}?currency=LTC`),
  ];
  proves(section, 'currency is required', '400', () => refused(noCoin, 400, 'invalid_request', 'currency'));
  proves(section, 'txid names the transaction', 'an unknown one is 404', () => refused(unknown, 404, 'not_found', 'txid'));
  const fees = found(await app.live.get('/api/crypto/fees?currency=LTC'));
  const prices = await app.live.get('/api/crypto/prices');
  const balance = await app.live.get(`/api/crypto/balance?currency=LTC&address=${await node.newAddress()}`);
  proves(
    'What the service does',
    '4 prices, balances, fees and transactions are looked up',
    'on a live chain; 501 names a missing source',
    () => {
      assert.equal(prices.status, 200);
      assert.match(fees.fees.fast.total_fee_ltc, /^\d+\.\d{8}$/);
      refused(balance, 501, 'service_unavailable', 'currency');
      assert.match(balance.json.error.message, /LTC_ELECTRUM_URL/);
    },
  );
});

test('lookup of the transaction of a test payment', async () => {
  const section = 'GET /api/crypto/transaction/{txid}';
  for (const coin of ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE']) {
    const done = await finished('success', coin, 'completed');
    const reply = await shop.get(`/api/crypto/transaction/${done.transaction_hash}?currency=${coin}`);
    provesFields('On-chain transaction', found(reply));
    for (const input of reply.json.inputs) provesFields('On-chain transaction input', input);
    for (const output of reply.json.outputs) provesFields('On-chain transaction output', output);
    proves(section, 'txid names the transaction', `${coin} in test mode: as the payment shows it`, () => {
      const { txid, status, confirmations, amount, block_hash, outputs } = reply.json;
      assert.deepEqual(
        [txid, status, confirmations, amount, block_hash],
        [done.transaction_hash, 'confirmed', done.confirmations, done.amount_received, done.transfers[0].block_hash],
      );
      assert.deepEqual(outputs, [{ address: done.payment_address, amount: done.amount_received }]);
      assert.equal(txid.startsWith('0x'), coin === 'ETH');
    });
  }
  const { id } = made(await shop.post('/api/payment/create/simple', simple));
  found(await shop.post(`/v1/test/payments/${id}/simulate`, { scenario: 'slow', currency: 'LTC' }));
  const waiting = await eventually(
    () => detail(id),
    (d) => d.transaction_hash !== null,
  );
  const pending = found(await shop.get(`/api/crypto/transaction/${waiting.transaction_hash}?currency=LTC`));
  proves('On-chain transaction', 'status', 'pending before the block', () =>
    assert.deepEqual([pending.status, pending.confirmations, pending.block_hash, pending.timestamp], ['pending', 0, null, null]),
  );
  const otherCoin = await shop.get(`/api/crypto/transaction/${waiting.transaction_hash}?currency=BTC`);
  proves(section, 'txid names the transaction', 'not on another chain', () => refused(otherCoin, 404, 'not_found', 'txid'));
});

test('POST /v1/transactions/create', async () => {
  const section = 'POST /v1/transactions/create';
  const body = { crypto: 'LTC', amount: 10, currency_fiat: 'USD' };
  const reply = await shop.post('/v1/transactions/create', body);
  const created = made(reply);
  proves(section, 'the response includes payment_url', 'a page URL', () => assert.ok(FORMS['page URL'](created.payment_url)));
  proves(section, 'crypto is a coin code', 'the payment is in it', () => assert.equal(created.currency, 'LTC'));
  const small = made(await shop.post('/v1/transactions/create', { ...body, crypto: 'ltc' }));
  proves(section, 'crypto has any case', 'ltc is LTC', () => assert.equal(small.currency, 'LTC'));
  const { event: first } = await received(created.transaction_id, 'payment.created');
  proves(section, 'the first event names amount and currency as the response does', 'payment.created', () =>
    assert.deepEqual([first.data.amount, first.data.currency], [created.amount, created.currency]),
  );
  proves(section, 'amount is in the fiat currency', '10 USD at 100.00 are 0.1 LTC', () =>
    assert.deepEqual([created.amount_usd, created.amount], ['10.00', '0.10000000']),
  );
  const [badCoin, badAmount, badFiat] = [
    await shop.post('/v1/transactions/create', { ...body, crypto: 'XMR' }),
    await shop.post('/v1/transactions/create', { ...body, amount: 0 }),
    await shop.post('/v1/transactions/create', { ...body, currency_fiat: 'XXX' }),
  ];
  proves(section, 'crypto is a coin code', 'XMR is refused', () => refused(badCoin, 400, 'invalid_request', 'crypto'));
  proves(section, 'amount is in the fiat currency', '0 is refused', () => refused(badAmount, 400, 'invalid_request', 'amount'));
  proves(section, 'currency_fiat is a currency code', 'USD; XXX is refused', () => {
    assert.equal(created.currency_fiat, 'USD');
    refused(badFiat, 400, 'invalid_request', 'currency_fiat');
  });
  const bare = await app.live.post('/v1/transactions/create', body);
  await setWallet(app.app.ctx, { merchantId: app.merchant.merchantId, coin: 'LTC', accountKey: accountKey(7), script: 'p2wpkh' });
  // The merchant is cached for up to a second.
  const live = await eventually(
    () => app.live.post('/v1/transactions/create', body),
    (reply) => reply.status === 201,
  );
  const legacy = await Promise.all([app.live, shop].map((own) => own.post('/payments', { amount: '0.5', currency: 'LTC' })));
  const simpleLive = made(await app.live.post('/api/payment/create/simple', simple));
  const simpleTest = made(await shop.post('/api/payment/create/simple', simple));
  proves(section, 'test and live responses have one format', 'the same fields; a coin without a wallet is refused', () => {
    refused(bare, 400, 'invalid_request', 'crypto');
    assert.equal(bare.json.error.code, 'coin_not_configured');
    assert.deepEqual(Object.keys(made(live)), Object.keys(created));
    assert.deepEqual([live.json.mode, live.json.amount, live.json.currency], ['live', '0.10000000', 'LTC']);
    assert.match(live.json.payment_address, /^rltc1q/);
  });
  const details = await Promise.all([app.live.get(`/api/payment/${live.json.id}`).then(found), detail(created.transaction_id)]);
  proves('Authentication', '7 same request and response format as live', 'the same fields in both modes', () => {
    assert.deepEqual(Object.keys(simpleLive), Object.keys(simpleTest));
    assert.deepEqual(Object.keys(made(legacy[0]!)), Object.keys(made(legacy[1]!)));
    assert.deepEqual(Object.keys(details[0]), Object.keys(details[1]));
  });
  provesFields('Legacy payment creation result', legacy[0]!.json);
  await app.anonymous.get(new URL(created.payment_url).pathname + new URL(created.payment_url).search);
  const paid = await eventually(
    () => detail(created.transaction_id),
    (d) => d.status === 'completed',
  );
  proves(section, 'visiting payment_url in test mode pays', 'completed after the visit', () =>
    assert.equal(paid.amount_received, paid.amount),
  );
});

test('the page: five coins, the choice, the TEST label', async () => {
  for (const coin of ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE']) {
    const { id } = made(await shop.post('/api/payment/create/simple', simple));
    const page = (await app.anonymous.get(`/pay?id=${id}`)).text;
    const token = /name="token" value="([^"]+)"/.exec(page)![1]!;
    const before = await detail(id);
    const form = new URLSearchParams({ id, token, currency: coin });
    const reply = await app.anonymous.post('/pay/select', form.toString(), { 'content-type': 'application/x-www-form-urlencoded' });
    assert.equal(reply.status, 303, reply.text);
    const chosen = await detail(id);
    proves('What the service does', '2 the customer picks one of five coins on the page', coin, () => {
      assert.match(page, new RegExp(`value="${coin}"`));
      assert.equal(before.currency, null);
      assert.equal(chosen.currency, coin);
      assert.match(chosen.payment_address, new RegExp(`^test_${coin.toLowerCase()}_`));
    });
    proves('Authentication', '7 test transactions are labelled TEST', 'title and page', () =>
      assert.match(page, /<title>TEST .*class="stripe"/s),
    );
  }
});

test('states and their events', async () => {
  const ends: Record<string, any> = {
    completed: await finished('success', 'DOGE', 'completed', { metadata: { order: 'A-1' } }),
    failed: await finished('failed', 'LTC', 'failed'),
    expired: await finished('expired', 'BTC', 'expired'),
  };
  const { id } = made(await shop.post('/api/payment/create/simple', simple));
  const pending = await detail(id);
  proves('States', 'pending', 'awaiting payment', () => assert.equal(pending.status, 'pending'));
  ends.cancelled = found(await shop.post(`/v1/payments/${id}/cancel`));
  proves('States', 'completed', 'covered and confirmed', () => {
    assert.equal(ends.completed.amount_received, ends.completed.amount);
    assert.ok(ends.completed.confirmations > 0);
  });
  proves('States', 'failed', 'an insufficient amount was received', () =>
    assert.ok(Number(ends.failed.amount_received) > 0 && Number(ends.failed.amount_received) < Number(ends.failed.amount)),
  );
  proves('States', 'expired', 'nothing was received', () => assert.equal(Number(ends.expired.amount_received), 0));
  proves('States', 'cancelled', 'by the merchant', () => assert.equal(ends.cancelled.status, 'cancelled'));
  for (const [state, payment] of Object.entries(ends)) {
    const type = `payment.${state}` as 'payment.completed';
    const { event, headers, body } = await received(payment.id, type);
    provesFields('Webhook event', event);
    if (state === 'completed') provesFields('Webhook event data', event.data);
    proves('Events', type, 'sent when the state is reached', () => assert.equal(event.data.status, state));
    proves('States', 'each state has a matching event', type, () => assert.equal(event.type, type));
    proves('Authentication', '8 X-Service-Signature is the hex HMAC-SHA256 of the raw body', type, () =>
      assert.equal(headers['x-service-signature'], createHmac('sha256', secret).update(body).digest('hex')),
    );
    proves('Events', '5 data has one shape for all types', type, () =>
      assert.deepEqual(
        Object.keys(FIELDS['Webhook event data']).filter((field) => !(field in event.data)),
        [],
      ),
    );
    proves('Webhook event data', 'metadata', type, () => assert.deepEqual(event.data.metadata, payment.metadata));
  }
  const types = eventsOf(ends.completed.id).map((r) => r.event.type);
  proves('Events', 'an endpoint receives the types it names', '* means the six', () =>
    assert.deepEqual(types, ['payment.created', 'payment.processing', 'payment.completed']),
  );
  // Its money waits for its block for ten minutes, however slow this machine is.
  const slow = await finished('slow', 'DOGE', 'processing');
  const created = await received(slow.id, 'payment.created');
  const processing = await received(slow.id, 'payment.processing');
  proves('States', 'processing', 'received, not yet confirmed enough', () => {
    assert.equal(processing.event.data.status, 'processing');
    assert.deepEqual([processing.event.data.amount_announced, processing.event.data.amount_received], [slow.amount, '0.00000000']);
    assert.equal(processing.event.data.completed_at, null);
  });
  for (const { event } of [created, processing]) {
    provesFields('Webhook event', event);
    proves('Events', event.type as 'payment.created', 'sent', () => assert.equal(event.data.id, slow.id));
    proves('States', 'each state has a matching event', event.type, () =>
      assert.equal(`payment.${event.data.status}`.replace('pending', 'created'), event.type),
    );
    proves('Events', '5 data has one shape for all types', event.type, () =>
      assert.deepEqual(
        Object.keys(FIELDS['Webhook event data']).filter((field) => !(field in event.data)),
        [],
      ),
    );
  }
  proves('What the service does', '5 signed webhooks report payment events', 'every request is signed', () =>
    assert.ok(receiver.received.every((r) => /^[0-9a-f]{64}$/.test(String(r.headers['x-service-signature'])))),
  );
  proves('Events', '1 each request carries X-Service-Signature', 'every one, verified', () => {
    assert.ok(receiver.received.length > 0);
    for (const { headers, body } of receiver.received)
      assert.equal(headers['x-service-signature'], createHmac('sha256', secret).update(body).digest('hex'));
  });
  proves('What the service does', '6 test mode simulates the lifecycle without real funds', 'no wallet, no node, every end', () =>
    assert.deepEqual([pending.status, ...Object.keys(ends)].sort(), ['cancelled', 'completed', 'expired', 'failed', 'pending']),
  );
  proves('Authentication', '7 payments auto-confirm', 'completed automatically', () => assert.equal(ends.completed.status, 'completed'));
  proves('Authentication', '7 webhooks fire', 'payment.completed arrived', () => assert.ok(types.includes('payment.completed')));
});

test('test identifiers', async () => {
  const visit = async (payment_address: string) => {
    const { id } = made(await shop.post('/api/payment/create/simple', { ...simple, payment_address }));
    await app.anonymous.get(`/pay?id=${id}`);
    return id as string;
  };
  const reach = (id: string, status: string) =>
    eventually(
      () => detail(id),
      (d) => d.status === status,
    );
  const success = await reach(await visit('test_btc_success'), 'completed');
  proves('Authentication', '6 test_btc_success', 'completed at once', () => assert.equal(success.currency, 'BTC'));
  const failed = await reach(await visit('test_ltc_failed'), 'failed');
  proves('Authentication', '6 test_ltc_failed', 'failed with an insufficient amount', () =>
    assert.deepEqual([failed.currency, failed.exception], ['LTC', 'underpaid']),
  );
  const slow = await visit('test_eth_slow');
  await reach(slow, 'processing');
  found(await shop.post('/v1/test/clock/advance', { seconds: 300, payment_id: slow }));
  const early = await detail(slow);
  found(await shop.post('/v1/test/clock/advance', { seconds: 305, payment_id: slow }));
  const late = await reach(slow, 'completed');
  proves('Authentication', '6 test_eth_slow', 'processing before ten minutes, completed after', () =>
    assert.deepEqual([early.status, late.status, late.currency], ['processing', 'completed', 'ETH']),
  );
});

test('keys and their permissions', async () => {
  const { keys } = app.merchant;
  const bodies = { '/api/payment/create/simple': simple, '/api/payment/create/advanced': advanced } as const;
  for (const path of ['/api/payment/create/simple', '/api/payment/create/advanced'] as const) {
    const [bySecret, byPublic] = [await shop.post(path, bodies[path]), await app.testPublic.post(path, bodies[path])];
    proves('Key requirements', `POST ${path}: public or secret`, 'both answer 201', () =>
      assert.deepEqual([bySecret.status, byPublic.status], [201, 201]),
    );
  }
  const { id } = made(await shop.post('/api/payment/create/simple', simple));
  const [one, oneByPublic, all, allByPublic] = [
    await shop.get(`/api/payment/${id}`),
    await app.testPublic.get(`/api/payment/${id}`),
    await shop.get('/api/payments'),
    await app.testPublic.get('/api/payments'),
  ];
  proves('Key requirements', 'GET /api/payment/{payment_id}: secret only', '200 and 403', () => {
    assert.equal(one.status, 200);
    refused(oneByPublic, 403, 'permission_denied', null);
  });
  proves('Key requirements', 'GET /api/payments: secret only', '200 and 403', () => {
    assert.equal(all.status, 200);
    refused(allByPublic, 403, 'permission_denied', null);
  });
  const denied = await Promise.all([
    app.testPublic.post('/payments', { amount: '1' }),
    app.testPublic.post('/v1/transactions/create', { crypto: 'BTC', amount: 1, currency_fiat: 'USD' }),
    app.testPublic.post(`/v1/payments/${id}/cancel`),
    app.testPublic.get('/v1/events'),
    app.testPublic.get('/api/crypto/prices'),
    app.testPublic.post('/v1/test/clock/advance', { seconds: 1 }),
  ]);
  for (const row of ['2 public key: creates only', '9 public keys have no other permission'] as const) {
    proves('Authentication', row, 'all else is 403', () => {
      for (const reply of denied) refused(reply, 403, 'permission_denied', null);
    });
  }
  proves('Key requirements', 'a public key creates payments only', 'all else is 403', () =>
    assert.deepEqual(
      denied.map((reply) => reply.status),
      denied.map(() => 403),
    ),
  );
  const cancelled = await shop.post(`/v1/payments/${id}/cancel`);
  proves('Authentication', '2 secret key: full access', 'creates, reads, lists, cancels', () =>
    assert.deepEqual([one.status, all.status, cancelled.status], [200, 200, 200]),
  );
  const header = async (authorization?: string) => app.anonymous.get('/api/payments', authorization === undefined ? {} : { authorization });
  const [bearer, none, garbage, basic] = [
    await header(`Bearer ${keys.testSecret}`),
    await header(),
    await header('Bearer sk_test_nothing'),
    await header(`Basic ${keys.testSecret}`),
  ];
  proves('Authentication', '1 Authorization: Bearer', 'Bearer 200, Basic 401', () => {
    assert.equal(bearer.status, 200);
    refused(basic, 401, 'authentication_failed', null);
  });
  for (const [section, row] of [
    ['Authentication', '4 a missing or invalid key is an authentication error'],
    ['General rules', 'requests without valid authentication fail'],
    ['Errors', 'invalid or missing API key: 401'],
  ] as const) {
    proves(section, row as never, 'none and garbage', () => {
      refused(none, 401, 'authentication_failed', null);
      refused(garbage, 401, 'authentication_failed', null);
    });
  }
  const extra = await createApiKey(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'test', kind: 'secret' });
  const whileValid = await app.as(extra.key).get('/api/payments');
  await revokeApiKey(app.app.ctx, { keyId: extra.keyId });
  const afterwards = await eventually(
    () => app.as(extra.key).get('/api/payments'),
    (reply) => reply.status !== 200,
  );
  proves('Authentication', '3 keys are created and revoked', 'a fresh key works until it is revoked', () => {
    assert.equal(whileValid.status, 200);
    refused(afterwards, 401, 'authentication_failed', null);
  });
  const liveRead = await app.live.get(`/api/payment/${id}`);
  proves('Authentication', '5 test mode has its own keys', 'a live key does not see a test payment', () =>
    refused(liveRead, 404, 'not_found', null),
  );
  const spelled = (key: string) => key.replace(/^(sk|pk)_(live|test)_/, '$2_$1_');
  const spellings = [
    await app.as(spelled(keys.testSecret)).get('/api/payments'),
    await app.as(spelled(keys.liveSecret)).get('/api/payments'),
    await app.as(spelled(keys.testPublic)).post('/api/payment/create/simple', simple),
  ];
  proves('Authentication', '5 sk_test_, sk_live_, test_sk_ and test_pk_ prefixes', 'issued and accepted', () => {
    assert.match(keys.testSecret, /^sk_test_/);
    assert.match(keys.liveSecret, /^sk_live_/);
    assert.deepEqual(
      spellings.map((reply) => reply.status),
      [200, 200, 201],
    );
  });
});

test('HTTPS, page host, versions', async () => {
  const { keys } = strict.merchant;
  const plain = await client(strict.url, keys.testSecret).post('/api/payment/create/simple', simple);
  proves('General rules', 'plain HTTP fails', '403 without a redirect', () => {
    refused(plain, 403, 'permission_denied', null);
    assert.equal(plain.headers.get('location'), null);
  });
  const created = made(await https(keys.testSecret).post('/api/payment/create/simple', simple));
  proves('General rules', 'payment pages have a host of their own', 'pay.example', () =>
    assert.equal(created.payment_url, `https://pay.example/pay?id=${created.transaction_id}`),
  );
  const replies: Reply[] = [];
  const [txid, id] = ['0'.repeat(64), created.transaction_id];
  for (const key of [app.merchant.keys.testSecret, app.merchant.keys.liveSecret]) {
    const own = app.as(key);
    for (const [method, path, body] of [
      ['post', '/payments', {}],
      ['post', '/api/payment/create/simple', simple],
      ['post', '/api/payment/create/advanced', advanced],
      ['get', `/api/payment/${id}`],
      ['get', '/api/payments'],
      ['get', '/api/crypto/prices'],
      ['get', '/api/crypto/balance'],
      ['get', '/api/crypto/fees'],
      ['get', `/api/crypto/transaction/${txid}?currency=LTC`],
    ] as const) {
      const [unversioned, versioned] = await Promise.all([own[method](path, body as never), own[method](`/v1${path}`, body as never)]);
      replies.push(unversioned, versioned);
      proves('Versioning', '/v1 covers every path', path, () => {
        assert.equal(versioned.status, unversioned.status, `${path}: ${versioned.text}`);
        assert.equal(versioned.json.error?.code, unversioned.json.error?.code);
        assert.notEqual(versioned.json.error?.code, 'unknown_route');
      });
    }
  }
  proves('General rules', 'two path families', 'every path answers in both', () => assert.equal(replies.length, 36));
  proves('Versioning', 'other paths carry no version segment', 'POST /payments and /api/... answer', () =>
    assert.ok(replies.every((reply) => reply.json.error?.code !== 'unknown_route')),
  );
  const both = await Promise.all([shop, app.live].map((own) => own.get('/v1/api/payments')));
  proves('Versioning', '/v1 is version 1 and the same for live and test', 'one base, two keys', () =>
    assert.deepEqual(
      both.map((reply) => reply.status),
      [200, 200],
    ),
  );
  const unknown = await shop.get('/nowhere');
  proves('General rules', 'all responses are JSON with a status code', 'successes and errors', () => {
    for (const reply of [...replies, ...both, unknown, plain]) {
      assert.match(reply.headers.get('content-type')!, /^application\/json/);
      assert.notEqual(reply.json, null);
      assert.ok(reply.status >= 200 && reply.status < 600);
    }
  });
  for (const reply of [...replies, ...both, unknown, plain]) {
    proves(
      'Limits',
      '2 X-RateLimit-Limit, -Remaining and -Reset on every response',
      `${reply.status} ${reply.json.error?.code ?? ''}`,
      () => {
        for (const name of ['limit', 'remaining', 'reset']) assert.match(String(reply.headers.get(`x-ratelimit-${name}`)), /^\d+$/, name);
      },
    );
    if (reply.status < 400) continue;
    provesFields('Error object', reply.json.error);
    proves('Errors', 'param is always present', reply.json.error.code, () => assert.ok('param' in reply.json.error));
    proves('Exact forms', 'code, doc_url and request_id are added to the documented error fields', reply.json.error.code, () => {
      const { code, doc_url, request_id } = reply.json.error;
      assert.match(doc_url, new RegExp(`#${code}$`));
      assert.equal(request_id, reply.headers.get('x-request-id'));
    });
  }
});

test('headers on the wire', async () => {
  const names = await new Promise<string[]>((done, fail) =>
    request(`${app.url}/api/payments`, { headers: { authorization: `Bearer ${app.merchant.keys.testSecret}` } }, (reply) => {
      reply.resume();
      done(reply.rawHeaders);
    })
      .on('error', fail)
      .end(),
  );
  for (const name of ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']) {
    proves('Limits', '2 the three headers are spelled like this on the wire', name, () => assert.ok(names.includes(name), names.join(' ')));
  }
});

test('error statuses', async () => {
  const [good, bad] = [await shop.get('/api/payments'), await shop.post('/api/payment/create/simple', { ...simple, amount_usd: 0 })];
  proves('Errors', 'request succeeded: 200', 'a list', () => assert.equal(good.status, 200));
  proves('Errors', 'invalid request parameters: 400 invalid_request with param', 'amount_usd 0', () =>
    refused(bad, 400, 'invalid_request', 'amount_usd'),
  );
  // A missing table is an internal error.
  const { sql } = strict.app.ctx.db;
  await sql`alter table events rename to misplaced`;
  const broken = await https(strict.merchant.keys.testSecret).get('/v1/events');
  await sql`alter table misplaced rename to events`;
  proves('Errors', 'server error: 500', 'a missing table, told without details', () => {
    refused(broken, 500, 'server_error', null);
    assert.doesNotMatch(broken.text, /relation|select|misplaced/);
  });
});

test('limits of the plans', async () => {
  const perMinute: Record<string, string | null> = {};
  for (const plan of ['starter', 'professional', 'enterprise'] as const) {
    const merchant = await createMerchant(app.app.ctx, { name: 'Plan shop', plan });
    const reply = await app.as(merchant.keys.liveSecret).get('/api/payments');
    perMinute[plan] = reply.headers.get('x-ratelimit-limit');
    if (plan !== 'starter') continue;
    const replies = await Promise.all(Array.from({ length: 60 }, () => app.as(merchant.keys.liveSecret).get('/api/payments')));
    const over = replies.filter((reply) => reply.status === 429);
    for (const [section, row] of [
      ['Limits', '3 over the limit: 429'],
      ['Errors', 'rate limit exceeded: 429'],
    ] as const) {
      proves(section, row as never, 'the 61st of a Starter merchant', () => {
        assert.equal(over.length, 1);
        refused(over[0]!, 429, 'rate_limit_exceeded', null);
        assert.match(over[0]!.headers.get('retry-after')!, /^[1-9]\d?$/);
      });
    }
  }
  proves('Limits', '6 60, 600 and 6000 a minute', 'X-RateLimit-Limit', () =>
    assert.deepEqual(perMinute, { starter: '60', professional: '600', enterprise: '6000' }),
  );
  proves('Limits', '1 rate limits depend on the plan', 'three values', () => assert.equal(new Set(Object.values(perMinute)).size, 3));

  const { ctx } = strict.app;
  for (const [plan, limit] of [
    ['starter', 100],
    ['professional', 10_000],
  ] as const) {
    const merchant = await createMerchant(ctx, { name: 'Month shop', plan });
    const create = (key: string) => https(key).post('/api/payment/create/simple', simple);
    // Up to two below the limit, the month is filled directly.
    await ctx.db.sql`
      insert into live_usage (merchant_id, month, payments)
      values (${merchant.merchantId}, date_trunc('month', clock_timestamp() at time zone 'UTC')::date, ${limit - 2})`;
    const tests = [await create(merchant.keys.testSecret), await create(merchant.keys.testSecret)];
    const lives: Reply[] = [];
    for (let i = 0; i < 3; i++) lives.push(await create(merchant.keys.liveSecret));
    const more = await create(merchant.keys.testSecret);
    proves('Limits', '5 a monthly limit exists', `${plan}: 403`, () => refused(lives[2]!, 403, 'plan_limit_exceeded', null));
    proves('Limits', '7 100, 10000 and unlimited a month', `${plan}: ${limit}`, () =>
      assert.deepEqual(
        lives.map((reply) => reply.status),
        [201, 201, 403],
      ),
    );
    proves('Limits', '5 test transactions do not count toward it', `${plan}: before and after`, () =>
      assert.deepEqual(
        [...tests, more].map((reply) => reply.status),
        [201, 201, 201],
      ),
    );
  }
  await ctx.db.sql`
    insert into live_usage (merchant_id, month, payments)
    values (${strict.merchant.merchantId}, date_trunc('month', clock_timestamp() at time zone 'UTC')::date, 1000000)
    on conflict (merchant_id, month) do update set payments = 1000000`;
  const unlimited = await https(strict.merchant.keys.liveSecret).post('/api/payment/create/simple', simple);
  proves('Limits', '7 100, 10000 and unlimited a month', 'enterprise: unlimited', () => assert.equal(unlimited.status, 201));
});

test('endpoints: plans, URLs, both modes', async () => {
  const { ctx } = strict.app;
  const attempt = (plan: 'starter' | 'professional' | 'enterprise', url: string) =>
    createMerchant(ctx, { name: 'Hook shop', plan })
      .then(({ merchantId }) => createEndpoint(ctx, { merchantId, mode: 'live', url, events: ['*'], description: null }))
      .then(
        () => 'made',
        (problem: { code: string }) => problem.code,
      );
  // 192.0.2.1 and similar ones are not public addresses; 1.1.1.1 is one and needs no name server.
  const plans = [
    await attempt('starter', 'https://1.1.1.1/hook'),
    await attempt('professional', 'https://1.1.1.1/hook'),
    await attempt('enterprise', 'https://1.1.1.1/hook'),
  ];
  proves('Events', 'webhooks are part of Professional and Enterprise', 'Starter is refused', () =>
    assert.deepEqual(plans, ['plan_required', 'made', 'made']),
  );
  const http = await attempt('professional', 'http://1.1.1.1/hook');
  proves('Events', 'endpoint: HTTPS URL', 'http is refused', () => assert.equal(http, 'url_invalid'));
  for (const url of [
    'https://localhost/hook',
    'https://127.0.0.1/hook',
    'https://[::1]/hook',
    'https://10.0.0.5/hook',
    'https://2130706433/hook',
  ]) {
    const made = await attempt('professional', url);
    proves('Events', 'endpoint: publicly reachable', `${url} is refused`, () => assert.equal(made, 'url_invalid'));
  }
  const hook = await startHook(() => 200);
  const { merchantId } = app.merchant;
  await createEndpoint(app.app.ctx, { merchantId, mode: 'live', url: hook.url, events: ['payment.created'], description: null });
  const [liveId, testId] = [
    made(await app.live.post('/api/payment/create/simple', simple)).id,
    made(await shop.post('/api/payment/create/simple', simple)).id,
  ];
  const live = await eventually(
    async () => hook.requests.map((r) => JSON.parse(r.body)).find((event) => event.data.id === liveId) ?? null,
    (event) => event !== null,
  );
  const { event } = await received(testId, 'payment.created');
  const wrong = hook.requests.filter((r) => JSON.parse(r.body).data.id === testId);
  await hook.stop();
  proves('Events', '3 test mode sends as live mode does', 'the same fields; each to its own endpoint', () => {
    assert.deepEqual(Object.keys(live), Object.keys(event));
    assert.deepEqual(Object.keys(live.data), Object.keys(event.data));
    assert.equal(wrong.length, 0);
  });
  proves('Events', 'an endpoint receives the types it names', 'payment.created alone', () =>
    assert.ok(hook.requests.every((r) => JSON.parse(r.body).type === 'payment.created')),
  );
  proves('Events', 'a POST to each configured endpoint', 'JSON by POST', () => {
    for (const request of hook.requests) {
      assert.equal(request.method, 'POST');
      assert.match(String(request.headers['content-type']), /^application\/json/);
    }
  });
  proves('Authentication', '8 X-Service-Signature is spelled like this on the wire', 'in a delivery', () => {
    for (const { rawHeaders } of hook.requests) assert.ok(rawHeaders.includes('X-Service-Signature'), rawHeaders.join(' '));
  });
});

test('a failed delivery is retried', async () => {
  const { merchant, hook } = flaky;
  const own = app.as(merchant.keys.testSecret);
  made(await own.post('/api/payment/create/simple', simple));
  await eventually(
    async () => hook.requests.length,
    (n) => n >= 1,
  );
  await eventually(
    async () => (await app.app.ctx.db.sql`select 1 from deliveries where merchant_id = ${merchant.merchantId} and attempts >= 1`).length,
    (n) => n === 1,
  );
  found(await own.post('/v1/test/clock/advance', { seconds: 10 }));
  await eventually(
    async () => hook.requests.length,
    (n) => n === 2,
  );
  const [first, second] = hook.requests;
  proves('Events', '4 a failed delivery is retried', 'after a 500', () => assert.equal(hook.requests.length, 2));
  proves('Events', '2 a repeated delivery keeps id and bytes', 'the same body and event id', () => {
    assert.equal(first!.body, second!.body);
    assert.equal(first!.headers['webhook-id'], JSON.parse(second!.body).id);
  });
});

test('an endpoint that does not answer gets ten seconds', async () => {
  const { sql } = app.app.ctx.db;
  const [attempt] = await eventually(
    () => sql<{ failure: string; ms: number }[]>`
      select a.failure, a.duration_ms as ms from attempts a join deliveries d on d.id = a.delivery_id where d.payment_id = ${silent.payment}`,
    (rows) => rows.length > 0,
    20_000,
  );
  for (const [section, row] of [
    ['Events', 'endpoint: 200 OK within 10 seconds'],
    ['Limits', '4 a webhook endpoint has 10 seconds'],
  ] as const) {
    proves(section, row as never, 'timed out after 10 s', () => {
      assert.equal(attempt!.failure, 'timeout');
      assert.ok(attempt!.ms >= 9_900 && attempt!.ms < 25_000, `${attempt!.ms} ms`);
    });
  }
});

// Invariant: The documented interface holds row by row.
test('every row of the interface has an assertion that ran', () => {
  assert.deepEqual(
    ROWS.map(([section, row]) => `${section} / ${row}`).filter((key) => !proven.has(key)),
    [],
  );
});

// Last: they look at what the tests above have proven.
for (const sentence of readSentences()) {
  const rows = rowsFor(sentence);
  if (rows === null) continue;
  test(`${sentence.section}: ${sentence.text}`, () => {
    assert.ok(rows.length > 0);
    assert.deepEqual(
      rows.filter((row) => !proven.has(row)),
      [],
    );
  });
}

test('every proof names a sentence of the document', () => assert.deepEqual(proofsWithoutSentence(), []));
