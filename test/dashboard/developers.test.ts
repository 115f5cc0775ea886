/** API keys, events and the request log through the dashboard's API and the public one. */
// Invariant: A read-only key changes nothing; a key limited to IP addresses works only from those.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createApiKey } from '../../src/keys/keys.ts';
import { forgetRequests, noteRequest, redactBody, redactUrl, requestLogCounts, startOfBody } from '../../src/keys/requests.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
const simple = { amount_usd: 25, return_url: 'https://shop.example/thanks' };
const CREATE = '/api/payment/create/simple';

before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const ok = (reply: Reply): any => {
  assert.equal(reply.status, 200, reply.text);
  return reply.json;
};
const refused = (reply: Reply, status: number, code: string) => assert.deepEqual([reply.status, reply.json.error?.code], [status, code]);
const make = async (more: object = {}, mode = 'test') =>
  ok(await owner.post(`/${mode}/keys`, { kind: 'secret', name: 'Shop', expires_in_days: null, origins: [], ...more }));
/** Waits until a key is refused everywhere: the documented limit is one second. */
const ends = (key: string) =>
  eventually(
    () => app.as(key).get('/api/payments?limit=1'),
    ({ status }) => status === 401,
  );
const logged = (filter: string, done: (rows: any[]) => boolean = (rows) => rows.length > 0) =>
  eventually(async () => ok(await owner.get(`/test/requests?${filter}`)).data as any[], done);

test('a key is shown once, works at once, and is stored only as a hash', async () => {
  const { key, text } = await make({ name: 'Warehouse' });
  assert.match(text, /^sk_test_[0-9A-Za-z]{38}$/);
  assert.equal(key.hint, `${text.slice(0, 8)}…${text.slice(-4)}`);
  assert.equal(key.created_by, 'Olga Owner');
  assert.equal((await app.as(text).get('/api/payments')).status, 200);
  const list = await owner.get('/test/keys?kind=secret');
  assert.ok(ok(list).data.some((row: any) => row.id === key.id));
  assert.ok(!list.text.includes(text));
  const everything = await app.app.ctx.db
    .sql`select row_to_json(k)::text as row from keys k union all select row_to_json(a)::text from audit_log a`;
  assert.ok(everything.length > 4);
  for (const { row } of everything) assert.ok(!row.includes(text.slice(8, 40)), 'the text of a key is stored nowhere');
});

test('a read-only key changes nothing, a key limited to IP addresses works only from those, and both stay so when rolled', async () => {
  const reader = await make({ name: 'Books', read_only: true });
  assert.deepEqual([reader.key.read_only, reader.key.allowed_ips], [true, []]);
  assert.equal((await app.as(reader.text).get('/api/payments')).status, 200);
  refused(await app.as(reader.text).post(CREATE, simple), 403, 'key_read_only');
  refused(await app.as(reader.text).post('/v1/webhook_endpoints', { url: 'https://a.example/', events: ['*'] }), 403, 'key_read_only');
  const near = await make({ name: 'Server', allowed_ips: ['192.0.2.10', '127.0.0.0/8'] });
  assert.equal((await app.as(near.text).post(CREATE, simple)).status, 201);
  const far = await make({ name: 'Elsewhere', allowed_ips: ['192.0.2.10', '2001:db8::/32'] });
  for (const reply of [await app.as(far.text).get('/api/payments'), await app.as(far.text).post(CREATE, simple)])
    refused(reply, 403, 'ip_not_allowed');
  const claimed = await app.as(far.text).get('/api/payments', { 'x-forwarded-for': '192.0.2.10' });
  refused(claimed, 403, 'ip_not_allowed');
  const rolled = ok(await owner.post(`/test/keys/${far.key.id}/roll`, { ends: 'now' }));
  assert.deepEqual(rolled.key.allowed_ips, ['192.0.2.10', '2001:db8::/32']);
  refused(await app.as(rolled.text).get('/api/payments'), 403, 'ip_not_allowed');
  const attempt = (more: object) => owner.post('/test/keys', { kind: 'secret', name: 'X', expires_in_days: null, origins: [], ...more });
  for (const [more, param] of [
    [{ allowed_ips: ['shop.example'] }, 'allowed_ips'],
    [{ allowed_ips: ['192.0.2.0/33'] }, 'allowed_ips'],
    [{ kind: 'public', allowed_ips: ['192.0.2.10'] }, 'allowed_ips'],
    [{ kind: 'public', read_only: true }, 'read_only'],
  ] as const)
    assert.equal((await attempt(more)).json.error.param, param, JSON.stringify(more));
});

// Invariant: A revoked or rolled key stops within a second; its text is never stored.
test('a rolled key: the new one works at once, the old one until its end and not a second longer', async () => {
  const first = await make({ name: 'Till', expires_in_days: 30 });
  const rolled = ok(await owner.post(`/test/keys/${first.key.id}/roll`, { ends: 'hour' }));
  assert.equal(rolled.key.name, 'Till');
  for (const text of [first.text, rolled.text]) assert.equal((await app.as(text).get('/api/payments')).status, 200);
  const old = ok(await owner.get(`/test/keys/${first.key.id}`)).key;
  assert.equal(old.replaced_by, rolled.key.id);
  const left = new Date(old.expires_at).getTime() - app.app.ctx.clock.now().getTime();
  assert.ok(left > 3_500_000 && left <= 3_601_000, `${left} ms`);
  const days = (new Date(rolled.key.expires_at).getTime() - app.app.ctx.clock.now().getTime()) / 86_400_000;
  assert.ok(days > 29.9 && days < 30.001, `the new key gets its full number of days: ${days}`);
  refused(await owner.post(`/test/keys/${first.key.id}/roll`, { ends: 'now' }), 409, 'key_ended');
  await app.app.ctx.db.sql`update keys set expires_at = clock_timestamp() where id = ${first.key.id}`;
  await ends(first.text);
  const again = ok(await owner.post(`/test/keys/${rolled.key.id}/roll`, { ends: 'now' }));
  await ends(rolled.text);
  assert.equal((await app.as(again.text).get('/api/payments')).status, 200);
  const ended = ok(await owner.get('/test/keys?state=ended')).data.map((row: any) => row.id);
  assert.ok(ended.includes(first.key.id) && ended.includes(rolled.key.id) && !ended.includes(again.key.id));
});

test('a key is revoked by its name, after showing its requests of the last day', async () => {
  const { key, text } = await make({ name: 'Old shop' });
  for (let i = 0; i < 3; i++) await app.as(text).get('/api/payments');
  await app.as(text).get('/api/payment/pay_none');
  const used = await eventually(
    async () => ok(await owner.get(`/test/keys/${key.id}`)),
    // The request log and the last use of a key are each written once a second.
    ({ calls, key: { last_used_at } }) => calls > 0 && last_used_at !== null,
  );
  assert.match(used.key.last_used_path, /^GET \/api\/payment/);
  assert.equal(used.key.last_used_ip, '127.0.0.1');
  refused(await owner.post(`/test/keys/${key.id}/revoke`, { name: 'old shop' }), 400, 'parameter_invalid');
  assert.equal((await app.as(text).get('/api/payments')).status, 200);
  ok(await owner.post(`/test/keys/${key.id}/revoke`, { name: 'Old shop' }));
  await ends(text);
  refused(await owner.post(`/test/keys/${key.id}/revoke`, { name: 'Old shop' }), 409, 'key_ended');
});

test('every change of a key is in the audit log, without its text', async () => {
  const { key, text } = await make({ name: 'Logged', kind: 'public', origins: ['https://shop.example'] });
  const rolled = ok(await owner.post(`/test/keys/${key.id}/roll`, { ends: 'week' }));
  ok(await owner.post(`/test/keys/${rolled.key.id}/revoke`, { name: 'Logged' }));
  const rows = await app.app.ctx.db.sql<{ action: string; object: string; mode: string; text: string }[]>`
    select action, object, mode, row_to_json(a)::text as text from audit_log a where object in (${key.id}, ${rolled.key.id}) order by id`;
  assert.deepEqual(
    rows.map(({ action, object, mode }) => [action, object, mode]),
    [
      ['key.created', key.id, 'test'],
      ['key.rolled', key.id, 'test'],
      ['key.revoked', rolled.key.id, 'test'],
    ],
  );
  for (const row of rows) for (const secret of [text, rolled.text]) assert.ok(!row.text.includes(secret.slice(8, 40)));
});

test('members who may read keys see which key created a payment, however it was created', async () => {
  const { ctx } = app.app;
  const { merchantId, keys } = app.merchant;
  const hint = (text: string) => `${text.slice(0, 8)}…${text.slice(-4)}`;
  const { key: till } = await createApiKey(ctx, { merchantId, mode: 'test', kind: 'secret', name: 'Till' });
  const items = [{ product_id: 'mug', name: 'Mug', quantity: 1, unit_price: 5 }];
  const ways: [path: string, body: object][] = [
    [CREATE, simple],
    ['/api/payment/create/advanced', { items, tax: 0, return_url: simple.return_url }],
    ['/payments', { amount: '0.01', currency: 'BTC', redirect_url: simple.return_url }],
    ['/v1/transactions/create', { amount: 5, crypto: 'LTC', currency_fiat: 'USD' }],
  ];
  const madeWith = async (id: string) =>
    ok(await owner.get(`/test/payments/${id}`)).timeline.find((entry: { kind: string }) => entry.kind === 'created').key;
  for (const [path, body] of ways) {
    // At the same time, because one statement may write several.
    const made = await Promise.all(
      [till, keys.testSecret, till].map(async (key) => [hint(key), (await app.as(key).post(path, body)).json] as const),
    );
    for (const [expected, { transaction_id: id }] of made) assert.equal((await madeWith(id))?.hint, expected, path);
  }
  const payer = (await app.as(keys.testPublic).post(CREATE, simple)).json.id;
  assert.equal((await madeWith(payer)).hint, hint(keys.testPublic));
  const own = (await owner.post('/test/payments', { amount_usd: '5.00' })).json.id;
  assert.equal(await madeWith(own), null, 'a member made it');
  const [known] = await ctx.db.sql<{ id: string }[]>`select id from keys where hint = ${hint(till)}`;
  const { id } = (await app.as(till).post(CREATE, simple)).json;
  const told = () => madeWith(id);
  assert.deepEqual(await told(), { id: known!.id, name: 'Till', hint: hint(till) });
  await ctx.db.sql`update members set role = 'viewer' where merchant_id = ${app.merchant.merchantId}`;
  try {
    assert.equal(await told(), null);
  } finally {
    await ctx.db.sql`update members set role = 'owner' where merchant_id = ${app.merchant.merchantId}`;
  }
});

test('invalid keys are refused by field name, and there are at most 100 at a time', async () => {
  const body = { kind: 'secret', name: 'Shop', expires_in_days: null, origins: [] };
  for (const [change, param] of [
    [{ name: '' }, 'name'],
    [{ name: ' Shop' }, 'name'],
    [{ kind: 'other' }, 'kind'],
    [{ expires_in_days: 0 }, 'expires_in_days'],
    [{ kind: 'public', origins: ['https://shop.example/path'] }, 'origins'],
    [{ origins: ['https://shop.example'] }, 'origins'],
  ] as const) {
    const reply = await owner.post('/live/keys', { ...body, ...change });
    assert.deepEqual([reply.status, reply.json.error.param], [400, param], JSON.stringify(change));
  }
  const { sql } = app.app.ctx.db;
  await sql`insert into keys (id, merchant_id, mode, kind, hash, hint) select 'key_many' || n, ${app.merchant.merchantId}, 'live', 'public', sha256(n::text::bytea), 'pk'
    from generate_series(1, 98) n`;
  refused(await owner.post('/live/keys', body), 409, 'key_limit_reached');
  await sql`delete from keys where id like 'key_many%'`;
  await make({}, 'live');
});

test('keys, events and requests of another merchant or mode are not found', async () => {
  const other = await createMerchant(app.app.ctx, { name: 'Other shop' });
  await app.as(other.keys.testSecret).post(CREATE, simple);
  const { sql } = app.app.ctx.db;
  const [theirs] = await eventually(
    () => sql`select request_id, key_id from requests where merchant_id = ${other.merchantId}`,
    (rows) => rows.length > 0,
  );
  const [event] = await sql`select id from events where merchant_id = ${other.merchantId}`;
  for (const mode of ['test', 'live']) {
    refused(await owner.get(`/${mode}/keys/${theirs!.key_id}`), 404, 'key_not_found');
    refused(await owner.post(`/${mode}/keys/${theirs!.key_id}/roll`, { ends: 'now' }), 404, 'key_not_found');
    refused(await owner.post(`/${mode}/keys/${theirs!.key_id}/revoke`, { name: 'Secret key' }), 404, 'key_not_found');
    refused(await owner.get(`/${mode}/events/${event!.id}`), 404, 'event_not_found');
    refused(await owner.get(`/${mode}/requests/${theirs!.request_id}`), 404, 'request_not_found');
    for (const list of ['keys', 'events', 'requests']) {
      const cursor = { keys: theirs!.key_id, events: event!.id, requests: theirs!.request_id }[list];
      refused(await owner.get(`/${mode}/${list}?starting_after=${cursor}`), 400, 'cursor_invalid');
    }
    assert.deepEqual(ok(await owner.get(`/${mode}/requests?key_id=${theirs!.key_id}`)).data, []);
    assert.deepEqual(ok(await owner.get(`/${mode}/requests?request_id=${theirs!.request_id}`)).data, []);
  }
  assert.deepEqual((await app.test.get(`/v1/requests?request_id=${theirs!.request_id}`)).json.data, []);
  assert.equal((await app.test.get(`/v1/requests?starting_after=${theirs!.request_id}`)).json.error.code, 'cursor_invalid');
});

test('the log shows each request and its response', async () => {
  const { text, key } = await make({ name: 'Logs' });
  const asker = app.as(text);
  const made = await asker.post(CREATE, { ...simple, description: 'Two mugs' }, { 'idempotency-key': 'order-1' });
  const wrong = await asker.post(CREATE, { ...simple, amount_usd: 0 });
  const lost = await asker.get('/v1/api/payment/pay_none?trace=all');
  const unknown = await asker.get('/api/paymentz');
  const broken = await asker.post(CREATE, '{"amount_usd": 25, "secret": "hush');
  const rows = await logged(`key_id=${key.id}`, (found) => found.length === 5);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const row = (reply: Reply) => byId.get(reply.headers.get('x-request-id')!);
  assert.deepEqual(
    [made, wrong, lost, unknown, broken].map((reply) => {
      const { method, path, query, status, error_code, has_idempotency_key } = row(reply);
      return [method, path, query, status, error_code, has_idempotency_key];
    }),
    [
      ['POST', CREATE, null, 201, null, true],
      ['POST', CREATE, null, 400, 'amount_invalid', false],
      ['GET', '/v1/api/payment/pay_none', 'trace=all', 404, 'payment_not_found', false],
      ['GET', '/api/paymentz', null, 404, 'unknown_route', false],
      ['POST', CREATE, null, 400, 'invalid_json', false],
    ],
  );
  assert.deepEqual(JSON.parse(row(made).request_body), { ...simple, description: 'Two mugs' });
  const answered = JSON.parse(row(made).response_body);
  assert.deepEqual([answered.transaction_id, answered.amount_usd], [made.json.id, made.json.amount_usd]);
  assert.equal(row(wrong).response_body, null);
  assert.equal(row(lost).request_body, null);
  assert.ok(!row(broken).request_body.includes('hush'));
  assert.equal(row(made).ip, '127.0.0.1');
  assert.equal(row(made).key_name, 'Logs');
  assert.ok(row(made).duration_ms >= 0 && row(made).duration_ms < 30_000);
  assert.equal(ok(await owner.get(`/test/requests/${row(wrong).id}`)).request.error_code, 'amount_invalid');
  const ids = async (filter: string) => ok(await owner.get(`/test/requests?key_id=${key.id}&${filter}`)).data.map((r: any) => r.id);
  assert.deepEqual(
    await ids('outcome=failed'),
    [broken, unknown, lost, wrong].map((reply) => row(reply).id),
  );
  assert.deepEqual(
    await ids('status=404'),
    [unknown, lost].map((reply) => row(reply).id),
  );
  assert.deepEqual(await ids('search=PAY_none'), [row(lost).id], 'the path');
  assert.deepEqual(await ids('search=two%20MUGS'), [row(made).id], 'a body');
  assert.deepEqual(await ids('search=trace%3Dall'), [row(lost).id], 'the query');
  assert.deepEqual(await ids(`request_id=${row(made).id}`), [row(made).id]);
  assert.deepEqual(
    await ids('limit=2'),
    [broken, unknown].map((reply) => row(reply).id),
  );
  assert.deepEqual(
    await ids(`limit=2&starting_after=${row(unknown).id}`),
    [lost, wrong].map((reply) => row(reply).id),
  );
});

test('the public list shows the requests of its own mode, but not those that read the list', async () => {
  await app.live.get('/api/payments');
  const { json } = await eventually(
    () => app.live.get('/v1/requests'),
    (reply) => reply.json.data.length > 0,
  );
  assert.ok(json.data.every((row: any) => row.mode === 'live' && row.path !== '/v1/requests'));
  assert.equal((await app.testPublic.get('/v1/requests')).json.error.code, 'secret_key_required');
  for (const [query, param] of [
    ['status=abc', 'status'],
    ['status=4000', 'status'],
    ['outcome=good', 'outcome'],
    ['limit=0', 'limit'],
    ['path=%00', 'path'],
    ['starting_after=req_x', 'starting_after'],
  ]) {
    const reply = await app.test.get(`/v1/requests?${query}`);
    assert.deepEqual([reply.status, reply.json.error.param], [400, param], query);
  }
});

test('a request cannot leave itself out of the log by calling itself a poll, unless it polls for events', async () => {
  const { key, text } = await make({ name: 'Poll' });
  for (const path of ['/v1/events', '/api/payments'])
    assert.equal((await app.as(text).get(path, { 'x-florin-poll': 'listen' })).status, 200, path);
  const rows = await logged(`key_id=${key.id}`, (found) => found.length > 0);
  assert.deepEqual(
    rows.map(({ path }) => path),
    ['/api/payments'],
  );
});

test('of a burst, ten requests a second are kept and the others are counted; every class of failures has its own ten', async () => {
  const { key, text } = await make({ name: 'Burst' });
  const replies = await Promise.all(Array.from({ length: 200 }, () => app.as(text).get('/api/payments?limit=1')));
  assert.ok(replies.every((reply) => reply.status === 200));
  const rows = await logged(`key_id=${key.id}&limit=100`, (found) => found.reduce((sum, row) => sum + 1 + row.omitted, 0) === 200);
  assert.ok(rows.length < 200 && rows.length >= 10, `${rows.length} rows`);
  assert.ok(requestLogCounts(app.app.ctx).omitted > 0);
});

test('the queue for the database is limited; the rest is dropped and counted', () => {
  const before = requestLogCounts(app.app.ctx).dropped;
  // A service whose database accepts nothing: nothing is written for this context.
  const stuck = { clock: app.app.ctx.clock } as typeof app.app.ctx;
  for (let i = 0; i < 3_000; i++) {
    noteRequest(stuck, {
      requestId: `req_${i}`,
      owner: { keyId: `key_${i}` } as never,
      method: 'GET',
      url: '/',
      status: 200,
      errorCode: null,
      startedMs: 0,
      hasIdempotencyKey: false,
      ip: '',
      agent: null,
      body: null,
      ignored: null,
      isPoll: false,
    });
  }
  assert.equal(requestLogCounts(stuck).dropped, 1_000);
  assert.equal(requestLogCounts(app.app.ctx).dropped, before);
});

test('requests are deleted after 30 days', async () => {
  const { sql } = app.app.ctx.db;
  const rows = await logged('limit=5');
  const oldest = rows.at(-1);
  // Rows are in the order in which they were written: all up to this one are a month older.
  await sql`update requests set at = at - interval '31 days' where id <= (select id from requests where request_id = ${oldest.id})`;
  while (await forgetRequests(app.app.ctx));
  refused(await owner.get(`/test/requests/${oldest.id}`), 404, 'request_not_found');
  assert.equal((await sql`select 1 from requests where at < now() - interval '30 days'`).length, 0);
  ok(await owner.get(`/test/requests/${rows[0].id}`));
});

test('the newest 200,000 requests of a merchant and mode are kept, and those of others are not affected', async () => {
  const { sql } = app.app.ctx.db;
  const busy = await createMerchant(app.app.ctx, { name: 'Busy shop' });
  const [{ before }] = (await sql`select count(*)::int as before from requests`) as unknown as [{ before: number }];
  await sql`
    insert into requests (request_id, merchant_id, mode, key_id, at, method, path, status, duration_ms, has_idempotency_key, ip, omitted)
    select 'req_busy' || n, ${busy.merchantId}, 'test', (select id from keys where merchant_id = ${busy.merchantId} limit 1), now(), 'GET', '/', 200, 1, false, '', 0
    from generate_series(1, 203000) n`;
  // The service deletes automatically too: wait until it has visited all merchants.
  await eventually(
    async () => {
      await forgetRequests(app.app.ctx);
      return (await sql`select count(*)::int as n from requests where merchant_id = ${busy.merchantId}`)[0]!;
    },
    ({ n }) => n === 200_000,
    30_000,
  );
  const [left] = await sql`select request_id from requests where merchant_id = ${busy.merchantId} order by id limit 1`;
  assert.equal(left!.request_id, 'req_busy3001');
  const [{ others }] = (await sql`select count(*)::int as others from requests where merchant_id <> ${busy.merchantId}`) as unknown as [
    { others: number },
  ];
  assert.ok(others >= before, `${others} of ${before}`);
});

// Invariant: No secret reaches the request log.
test('secrets do not reach the log, wherever in a request they are', () => {
  const secrets = ['sk_live_0123456789abcdefghijABCDEFGHIJ01xyzXYZ', 'live_sk_0123456789abcdef', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'];
  for (const secret of secrets) {
    assert.ok(!redactBody(JSON.stringify({ metadata: { note: `use ${secret} now` } })).includes(secret.slice(8)), secret);
    assert.ok(!redactBody(`not json ${secret}`).includes(secret.slice(8)), secret);
    const { path, query } = redactUrl(`/api/${secret}?a=${secret}`);
    assert.ok(!path.includes(secret.slice(8)) && !query!.includes(secret.slice(8)), secret);
  }
  const xprv = 'xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi';
  assert.ok(!redactBody(JSON.stringify({ key: xprv })).includes('9s21'));
  assert.equal(
    redactBody('{"password":"a","nested":{"client_secret":{"value":"b"}},"n":1}'),
    '{"password":"[redacted]","nested":{"client_secret":"[redacted]"},"n":1}',
  );
  assert.equal(
    redactBody('{"url":"https://me:pw@host.example/hook?token=abc&a=1"}'),
    '{"url":"https://[redacted]@host.example/hook?token=[redacted]&a=1"}',
  );
  // A value that is cut in two, and one in a body that is too long to parse again.
  assert.ok(!redactBody(`{"pad":"${'x'.repeat(2_000)}","secret":"${'s'.repeat(5_000)}`).includes('sss'));
  assert.ok(!redactBody(`{"api_key":"hush",${'"pad":1,'.repeat(4_000)}"end":1}`).includes('hush'));
  assert.equal(redactBody(`{"pad":"${'x'.repeat(9_000)}"}`).length, 2_048);
  assert.ok(!redactBody('{"a":"\\u0000\\ud800"}').includes('\u0000'));
  const long = JSON.stringify({ client_secret: 'hush', pad: 'ä'.repeat(20_000) });
  for (const body of [long, Buffer.from(long)]) {
    assert.ok(startOfBody(body).length <= 4_096);
    assert.equal(redactBody(startOfBody(body)), redactBody(long));
  }
  assert.ok(!redactBody(long).includes('hush'));
  assert.equal(startOfBody(Buffer.from('{"a":"ä"}')), '{"a":"ä"}');
  assert.equal(redactUrl('/api/payments?limit=10').query, 'limit=10');
  assert.equal(redactUrl('/v1/%70ayout%73/a%2Fb%20').path, '/v1/payouts/a%2Fb%20', 'a path has one spelling');
});

test('events are listed by type and payment, with their exact text and their deliveries', async () => {
  const endpoint = (await app.test.post('/v1/webhook_endpoints', { url: 'http://127.0.0.1:9/hook' })).json.id;
  const { id } = (await app.test.post(CREATE, simple)).json;
  await app.test.post(`/v1/payments/${id}/cancel`);
  const rows = await eventually(
    async () => ok(await owner.get(`/test/events?payment_id=${id}`)).data,
    (found) => found.length === 2,
  );
  assert.deepEqual(
    rows.map((row: any) => [row.type, row.payment_id, row.mode]),
    [
      ['payment.cancelled', id, 'test'],
      ['payment.created', id, 'test'],
    ],
  );
  for (const type of ['payment.cancelled', 'payment.created']) {
    const found = ok(await owner.get(`/test/events?type=${type}&payment_id=${id}`)).data;
    assert.deepEqual(
      found.map((row: any) => row.type),
      [type],
    );
  }
  const full = ok(await owner.get(`/test/events/${rows[0].id}`));
  assert.equal(full.body, (await app.test.get(`/v1/events/${rows[0].id}`)).text);
  assert.deepEqual(
    full.deliveries.map((delivery: any) => delivery.endpoint_id),
    [endpoint],
  );
  refused(await owner.get(`/live/events/${rows[0].id}`), 404, 'event_not_found');
});
