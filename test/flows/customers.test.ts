/** Customers: named by creates, the same one again, listed, searched and erased with their payments. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { erasePayerData } from '../../src/settling/retention.ts';
import { type Client, client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
before(async () => {
  app = await startTestApp();
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const ADA = { email: 'Ada@Example.com', name: 'Ada Lovelace', reference: 'C-1001' };
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};
const PRICE = { amount_usd: 25, return_url: 'https://shop.example/thanks' };
const make = async (customer: object | null, by: Client = app.test, path = '/v1/payments'): Promise<any> =>
  ok(await by.post(path, { ...(path === '/v1/payments' ? { amount: '25', currency: 'USD' } : PRICE), ...(customer && { customer }) }), 201);
const detail = async (id: string, by: Client = app.test) => ok(await by.get(`/api/payment/${id}`));
const list = async (query = '', by: Client = app.test): Promise<any[]> => ok(await by.get(`/v1/customers?${query}`)).data;

test('a payment names its customer in its reply, in the detail, in the list and in its events', async () => {
  const made = await make(ADA);
  assert.match(made.customer.id, /^cus_[0-9A-Za-z]{24}$/);
  assert.deepEqual(made.customer, { id: made.customer.id, ...ADA });
  assert.deepEqual((await detail(made.id)).customer, made.customer);
  const [listed] = ok(await app.test.get('/api/payments?limit=1')).data;
  assert.deepEqual(listed.customer, made.customer);
  const [event] = ok(await app.test.get(`/v1/events?payment_id=${made.id}`)).data;
  assert.deepEqual(event.data.customer, made.customer);
  const { success, mode, created_at, paid_usd, ...one } = ok(await app.test.get(`/v1/customers/${made.customer.id}`));
  assert.deepEqual([success, mode, paid_usd, typeof created_at, one], [true, 'test', '0.00', 'string', made.customer]);
  assert.equal((await make(null)).customer, null);
  assert.equal((await make({ email: ' ', name: '', reference: '' })).customer, null, 'empty fields name nobody');
});

test('every documented create takes a customer, also in live mode and with a coin', async () => {
  const items = [{ product_id: 'mug', name: 'Mug', quantity: 1, unit_price: 5 }];
  const creates: [string, object][] = [
    ['/api/payment/create/simple', PRICE],
    ['/api/payment/create/advanced', { return_url: PRICE.return_url, items, tax: 0 }],
    ['/payments', { amount: '0.01', currency: 'BTC' }],
    ['/v1/transactions/create', { crypto: 'BTC', amount: 10, currency_fiat: 'USD' }],
    ['/v1/payments', { amount: '10', currency: 'USD', crypto: 'ETH' }],
  ];
  for (const [path, body] of creates) {
    const { id } = ok(await app.test.post(path, { ...body, customer: { reference: 'C-7' } }), 201);
    assert.equal((await detail(id)).customer.reference, 'C-7', path);
  }
  const { id } = await make({ email: 'live@example.com' }, app.live, '/api/payment/create/simple');
  assert.equal((await detail(id, app.live)).customer.email, 'live@example.com');
});

test('the same reference, or without one the same email address in any case, is the same customer', async () => {
  const first = await make({ email: 'one@example.com' });
  const second = await make({ email: 'ONE@example.com', name: 'One' });
  assert.equal(second.customer.id, first.customer.id);
  assert.deepEqual((await detail(first.id)).customer, { ...second.customer, email: 'ONE@example.com', name: 'One' });
  // What is not said stays.
  await make({ email: 'one@example.com' });
  assert.equal((await detail(first.id)).customer.name, 'One');
  const byReference = await make({ reference: 'C-2', email: 'one@example.com' });
  assert.notEqual(byReference.customer.id, first.customer.id);
  const moved = await make({ reference: 'C-2', email: 'two@example.com' });
  assert.equal(moved.customer.id, byReference.customer.id);
  assert.deepEqual((await detail(byReference.id)).customer.email, 'two@example.com');
  assert.deepEqual(
    (await list('email=One@Example.com')).map(({ id }) => id),
    [first.customer.id],
  );
  assert.deepEqual(
    (await list('reference=C-2')).map(({ id }) => id),
    [byReference.customer.id],
  );
});

test('creates at once that name the same customers make each once', async () => {
  const made = await Promise.all(
    Array.from({ length: 60 }, (_, i) =>
      make({ reference: `P-${i % 5}`, ...(i % 2 === 0 && { name: `Name ${i % 5}` }) }, app.live, '/api/payment/create/simple'),
    ),
  );
  const rows = await app.app.ctx.db.sql`select reference, name from customers where reference like 'P-%' order by reference`;
  assert.deepEqual(
    rows.map((row) => ({ ...row })),
    [0, 1, 2, 3, 4].map((n) => ({ reference: `P-${n}`, name: `Name ${n}` })),
  );
  assert.equal(new Set(made.map(({ id }) => id)).size, 60);
});

test('another merchant and another mode have their own customers, and see no others', async () => {
  const mine = await make({ email: 'same@example.com' });
  const live = await make({ email: 'same@example.com' }, app.live);
  const { keys } = await createMerchant(app.app.ctx, { name: 'Other shop' });
  const stranger = client(app.url, keys.testSecret);
  const theirs = await make({ email: 'same@example.com' }, stranger);
  assert.equal(new Set([mine, live, theirs].map(({ customer }) => customer.id)).size, 3);
  for (const by of [stranger, app.live]) {
    const reply = await by.get(`/v1/customers/${mine.customer.id}`);
    assert.deepEqual([reply.status, reply.json.error.code], [404, 'customer_not_found']);
    assert.deepEqual(ok(await by.get(`/api/payments?customer=${mine.customer.id}`)).data, []);
  }
  assert.deepEqual(
    (await list('', stranger)).map(({ id }) => id),
    [theirs.customer.id],
  );
});

test('what cannot be a customer is refused with its field, and a public key names nobody', async () => {
  const refused = async (customer: unknown, param: string, by = app.test) => {
    const reply = await by.post('/v1/payments', { amount: '25', currency: 'USD', customer });
    assert.deepEqual([reply.status, reply.json.error.param], [400, param], reply.text);
  };
  await refused({ email: 'nobody' }, 'customer.email');
  await refused({ email: 'a\u202e@example.com' }, 'customer.email');
  await refused({ email: `${'a'.repeat(195)}@b.example` }, 'customer.email');
  await refused({ name: 'Ada' }, 'customer');
  await refused({ email: ADA.email, name: 'two\nlines' }, 'customer.name');
  await refused({ email: ADA.email, name: 'x'.repeat(101) }, 'customer.name');
  await refused({ reference: 'x'.repeat(101) }, 'customer.reference');
  await refused({ mail: 'ada@example.com', email: ADA.email }, 'customer.mail');
  await refused('ada@example.com', 'customer');
  const reply = await app.testPublic.post('/api/payment/create/simple', { ...PRICE, customer: ADA });
  assert.deepEqual([reply.status, reply.json.error.code, reply.json.error.param], [403, 'secret_key_required', 'customer']);
});

test('the list of customers has pages, and payments are listed by customer and with other filters', async () => {
  const { customer } = await make({ reference: 'page' });
  const later = await make({ reference: 'page' });
  for (let i = 0; i < 3; i++) await make({ reference: `page-${i}` });
  const [first, second] = await list('limit=2');
  const next = await list(`limit=2&starting_after=${second.id}`);
  assert.deepEqual(
    [first, second, ...next].map(({ reference }) => reference),
    ['page-2', 'page-1', 'page-0', 'page'],
  );
  assert.equal((await app.test.get('/v1/customers?starting_after=cus_none')).json.error.code, 'cursor_invalid');
  const payments = ok(await app.test.get(`/api/payments?customer=${customer.id}&limit=1`));
  assert.deepEqual([payments.total_count, payments.data[0].id, payments.has_more], [2, later.id, true]);
  const none = ok(await app.test.get(`/api/payments?customer=${customer.id}&status=completed`));
  assert.deepEqual(none.data, []);
});

test('a repeated request with an Idempotency-Key names its customer once, with the same reply', async () => {
  const send = () =>
    app.live.post('/api/payment/create/simple', { ...PRICE, customer: { reference: 'again' } }, { 'idempotency-key': 'one customer' });
  const [a, b] = [await send(), await send()];
  assert.equal(a.text, b.text);
  assert.equal((await list('reference=again', app.live)).length, 1);
});

test('the dashboard finds payments by their customer, filters by it, and exports it', async () => {
  const made = await make({ email: 'grace@navy.example', name: 'Grace Hopper', reference: 'C-1906' });
  for (const search of ['grace@navy', 'grace hopper', 'C-1906']) {
    const page = await eventually(
      async () => ok(await owner.get(`/test/payments?search=${encodeURIComponent(search)}`)),
      ({ data }) => data.length === 1,
    );
    assert.deepEqual([page.data[0].id, page.data[0].customer], [made.id, made.customer], search);
  }
  const listed = ok(await owner.get(`/test/payments?customer=${made.customer.id}`));
  assert.deepEqual(
    listed.data.map(({ id }: { id: string }) => id),
    [made.id],
  );
  const [header, line, end] = (await owner.get(`/test/exports/payments?customer=${made.customer.id}`)).text.trim().split('\r\n');
  assert.match(header!, /,customer_email,customer_name,customer_reference(,|$)/);
  assert.match(line!, /grace@navy\.example,Grace Hopper,C-1906/);
  assert.equal(end, undefined);
});

test('a link that asks for an email address requires it, and its payment names the customer', async () => {
  const { link } = ok(await owner.post('/test/links', { name: 'Coffee', amount: '5.00', reusable: true, ask_email: true }));
  assert.equal(link.ask_email, true);
  const page = await (await fetch(`${app.url}/link/${link.id}`)).text();
  assert.match(page, /<input name="email" id="email" type="email"[^>]* required/);
  const token = /name="token" value="([^"]+)"/.exec(page)![1]!;
  const send = (email: string) =>
    fetch(`${app.url}/link/${link.id}`, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ token, email }) });
  for (const wrong of ['', 'nobody', `${'a'.repeat(300)}@b.example`]) {
    const reply = await send(wrong);
    assert.equal(reply.status, 400);
    assert.match(await reply.text(), /Enter a valid email address/);
  }
  const id = /id=(pay_\w+)/.exec((await send('Payer@Example.com')).headers.get('location')!)![1]!;
  assert.equal((await detail(id)).customer.email, 'Payer@Example.com');
  const { link: quiet } = ok(await owner.post('/test/links', { name: 'Tea', amount: '5.00', reusable: true }));
  assert.doesNotMatch(await (await fetch(`${app.url}/link/${quiet.id}`)).text(), /name="email"/);
});

test('a customer is erased with the last payment that names it, and with the texts that search finds', async () => {
  const { ctx } = app.app;
  const live = (customer: object) => make(customer, app.live);
  const [gone, kept, later] = [
    await live({ email: 'gone@example.com' }),
    await live({ reference: 'kept' }),
    await live({ reference: 'kept' }),
  ];
  const search = async (text: string) => ok(await owner.get(`/live/payments?search=${text}`)).data.map(({ id }: { id: string }) => id);
  await eventually(
    () => search('gone@example.com'),
    (ids) => ids.length === 1,
  );
  for (const { id } of [gone, kept]) ok(await app.live.post(`/v1/payments/${id}/cancel`));
  await ctx.db.sql`
    update payments set created_at = created_at - interval '40 days', expires_at = expires_at - interval '40 days'
    where mode = 'live' and id <> ${later.id}`;
  ok(await owner.post('/live/settings/business', { retention_days: 30 }));
  while ((await erasePayerData(ctx)) > 0);
  assert.equal((await detail(gone.id, app.live)).customer, null);
  assert.equal((await app.live.get(`/v1/customers/${gone.customer.id}`)).status, 404);
  assert.deepEqual(await search('gone@example.com'), []);
  // Another payment still names this one.
  assert.equal((await detail(kept.id, app.live)).customer, null);
  assert.equal((await detail(later.id, app.live)).customer.reference, 'kept');
  ok(await app.live.get(`/v1/customers/${kept.customer.id}`));
  // Named again, it is there again.
  assert.equal((await live({ email: 'gone@example.com' })).customer.id, gone.customer.id);
});
