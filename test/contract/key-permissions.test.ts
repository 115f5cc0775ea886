/** What a key may do: at most what the member who made it may do, checked on every route, and recorded with the key that did it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { MERCHANT_COMMANDS } from '../../src/cli/merchant-commands.ts';
import { KEY_PERMISSION_NAMES, type KeyPermission } from '../../src/core/roles.ts';
import { ROUTES } from '../../src/http/routes.ts';
import { addApiKey } from '../../src/keys/key-ring.ts';
import { createApiKey } from '../../src/keys/keys.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setPartnerRole, setUpPartner, setUpPerson } from '../kit/person.ts';

const PRICE = { amount_usd: '25.50', return_url: 'https://shop.example/' };
const ADDRESS = 'test_btc_payer';
let app: TestApp;
let owner: Person;
let developer: Person;
before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'fatal', PLANS: '{"enterprise":{"per_minute":0}}' });
  owner = await setUpPerson(app);
  developer = await setUpPartner(app);
  await setPartnerRole(app, 'developer');
});
after(() => app?.stop());

const ok = (reply: Reply): any => {
  assert.ok(reply.status === 200 || reply.status === 201, reply.text);
  return reply.json;
};
const refused = (reply: Reply, code: string, names?: RegExp) => {
  assert.deepEqual([reply.status, reply.json.error.type, reply.json.error.code], [403, 'permission_denied', code], reply.text);
  if (names) assert.match(reply.json.error.message, names);
};
const secret = { kind: 'secret', expires_in_days: null, origins: [] };
const make = (person: Person, more: object = {}) => person.post('/test/keys', { ...secret, name: 'Shop server', ...more });
const keyWith = async (permissions: readonly KeyPermission[]): Promise<Client> => {
  const { key } = await createApiKey(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'test', kind: 'secret', permissions });
  return app.as(key);
};
const create = async (): Promise<string> => ok(await app.test.post('/api/payment/create/simple', PRICE)).id;
async function played(scenario: string, status: string): Promise<string> {
  const id = await create();
  ok(await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario, currency: 'BTC' }));
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === status && json.transfers.length > 0 && json.transfers.every((t: any) => t.block_height !== null),
  );
  return id;
}
let payouts = 0;
const payoutOf = (more: object = {}) => ({
  ...{ currency: 'BTC', amount: '0.001', address: ADDRESS, payout_reference: `payout-${++payouts}` },
  ...more,
});

/** The paths of a route with IDs that do not exist. */
const pathsOf = (path: string): string[] => {
  const url = path.replace(/:\w+/g, 'made_up');
  return path.startsWith('/v1/') ? [url] : [url, `/v1${url}`];
};
const send = (client: Client, method: string, path: string): Promise<Reply> => {
  if (method === 'GET') return client.get(path);
  return method === 'POST' ? client.post(path, {}) : client.delete(path);
};

test('every route takes the keys that have its permission, and names it to all other keys', async () => {
  const wrong: string[] = [];
  const all = await keyWith(KEY_PERMISSION_NAMES);
  const { key: text, keyId } = await createApiKey(app.app.ctx, { ...app.merchant, mode: 'test', kind: 'secret' });
  await app.app.ctx.db.sql`update keys set permissions = null where id = ${keyId}`;
  const keys: [client: Client, permissions: readonly KeyPermission[]][] = [
    [all, KEY_PERMISSION_NAMES],
    [app.as(text), KEY_PERMISSION_NAMES],
    [app.test, KEY_PERMISSION_NAMES],
  ];
  for (const name of KEY_PERMISSION_NAMES) {
    keys.push(
      [await keyWith([name]), [name]],
      [await keyWith(KEY_PERMISSION_NAMES.filter((other) => other !== name)), KEY_PERMISSION_NAMES.filter((other) => other !== name)],
    );
  }
  for (const [client, permissions] of keys)
    for (const { method, path, permission } of ROUTES)
      for (const url of pathsOf(path)) {
        const { status, json } = await send(client, method, url);
        const isRefused = status === 403 && json.error.code === 'key_permission_missing';
        if (isRefused === permissions.includes(permission)) wrong.push(`${permissions} ${method} ${url}: ${status}`);
        if (isRefused && !json.error.message.includes(`“${permission}”`)) wrong.push(`${method} ${url}: ${json.error.message}`);
      }
  assert.deepEqual(wrong, []);
  assert.deepEqual(
    [...new Set(ROUTES.map(({ permission }) => permission))].sort(),
    [...KEY_PERMISSION_NAMES].sort(),
    'none is without a route',
  );
});

test('the key of a developer cannot decide about money, refund or pay out, in either mode', async () => {
  const made = ok(await make(developer));
  assert.deepEqual(made.key.permissions, ['payments', 'webhooks', 'lookups']);
  const key = app.as(made.text);
  const late = await played('late', 'expired');
  const id = await create();
  ok(await key.post('/api/payment/create/simple', PRICE));
  ok(await key.get(`/api/payment/${late}`));
  ok(await key.post(`/v1/payments/${id}`, { metadata: { order: '7' } }));
  ok(await key.get('/v1/refunds'));
  for (const action of ['accept', 'reject', 'refund_sent'])
    refused(await key.post(`/v1/payments/${late}/resolve`, { action }), 'key_permission_missing', /“resolve”.*API keys/);
  refused(await key.post(`/v1/payments/${id}/cancel`), 'key_permission_missing', /“resolve”/);
  refused(await key.post('/v1/refunds', { payment_id: late }), 'key_permission_missing', /“refunds”/);
  refused(await key.post('/v1/payouts', payoutOf()), 'key_permission_missing', /“payouts”/);
  refused(await key.get('/v1/payouts'), 'key_permission_missing', /“payouts”/);
  assert.equal(ok(await key.get(`/api/payment/${late}`)).status, 'expired', 'nothing was decided');
  assert.equal(ok(await key.get(`/api/payment/${id}`)).status, 'pending');
  const live = ok(await developer.post('/live/keys', { ...secret, name: 'Live server' }));
  assert.deepEqual(live.key.permissions, ['payments', 'webhooks', 'lookups']);
  refused(await app.as(live.text).post('/v1/payouts', payoutOf()), 'key_permission_missing');
});

test('nobody gives a key more than they may do: not when it is made, not when it is rolled, not after a demotion', async () => {
  for (const permissions of [['resolve'], ['payments', 'refunds'], ['payouts'], KEY_PERMISSION_NAMES])
    refused(await make(developer, { permissions }), 'key_out_of_reach', /developer/);
  const full = ok(await make(owner));
  assert.deepEqual(full.key.permissions, KEY_PERMISSION_NAMES);
  refused(await developer.post(`/test/keys/${full.key.id}/roll`, { ends: 'now' }), 'key_out_of_reach', /resolve, refunds, payouts/);
  ok(await app.as(full.text).get('/v1/payouts'));
  const few = ok(await make(developer, { permissions: ['lookups', 'payments'] }));
  assert.deepEqual(few.key.permissions, ['payments', 'lookups']);
  const rolled = ok(await owner.post(`/test/keys/${few.key.id}/roll`, { ends: 'now' }));
  assert.deepEqual(rolled.key.permissions, ['payments', 'lookups'], 'rolling adds nothing');
  refused(await app.as(rolled.text).get('/v1/payouts'), 'key_permission_missing');
  // A key from before there were permissions can do everything, so a developer cannot roll it either.
  await app.app.ctx.db.sql`update keys set permissions = null where id = ${full.key.id}`;
  refused(await developer.post(`/test/keys/${full.key.id}/roll`, { ends: 'now' }), 'key_out_of_reach');
  assert.equal(ok(await owner.get(`/test/keys/${full.key.id}`)).key.permissions, null);
  const { key } = ok(await owner.post(`/test/keys/${full.key.id}/roll`, { ends: 'now' }));
  assert.deepEqual(key.permissions, KEY_PERMISSION_NAMES);

  for (const [permissions, param] of [
    [[], 'permissions'],
    [['everything'], 'permissions[0]'],
  ] as const) {
    const reply = await make(owner, { permissions });
    assert.deepEqual([reply.status, reply.json.error.param], [400, param], reply.text);
  }
  assert.equal(ok(await developer.post('/test/keys', { ...secret, kind: 'public', name: 'Button' })).key.permissions, null);

  // The role counts when the key is made, whatever it was when the request arrived.
  const { ctx } = app.app;
  const [person] = await ctx.db.sql<{ id: string }[]>`select id from users where email = 'pia@shop.example'`;
  await setPartnerRole(app, 'viewer');
  const late = ctx.db.begin((tx) =>
    addApiKey(ctx, tx, {
      ...{ merchantId: app.merchant.merchantId, mode: 'test', kind: 'secret', name: 'Late', origins: [], readOnly: false },
      ...{ allowedIps: [], permissions: null, createdBy: 'Pia', actorId: person!.id, expiresInDays: null },
    }),
  );
  await assert.rejects(late, (error: any) => error.code === 'key_out_of_reach');
  await setPartnerRole(app, 'developer');
});

test('a key that may read payments but not refund sees refunds without the link that decides who is paid', async () => {
  const id = await played('success', 'completed');
  const refund = ok(await app.test.post('/v1/refunds', { payment_id: id }));
  assert.match(refund.claim_url, /\/claim\//);
  const reader = await keyWith(['payments']);
  assert.equal(ok(await reader.get(`/v1/refunds/${refund.id}`)).claim_url, null);
  const { data } = ok(await reader.get('/v1/refunds'));
  assert.ok(data.length > 0 && data.every((row: any) => row.claim_url === null));
  assert.equal(ok(await app.test.get(`/v1/refunds/${refund.id}`)).claim_url, refund.claim_url);
});

test('what a key decides is in the audit log and in the timeline, with the key', async () => {
  const { key: made, text } = ok(await make(owner));
  const key = app.as(text);
  const late = await played('late', 'expired');
  ok(await key.post(`/v1/payments/${late}/resolve`, { action: 'accept' }));
  const open = await create();
  ok(await key.post(`/v1/payments/${open}/cancel`));
  const paid = await played('success', 'completed');
  const refund = ok(await key.post('/v1/refunds', { payment_id: paid }));
  ok(await key.post(`/v1/refunds/${refund.id}/claim_link`));
  ok(await key.post(`/v1/refunds/${refund.id}/cancel`));
  const payout = ok(await key.post('/v1/payouts', payoutOf()));
  ok(await key.post(`/v1/payouts/${payout.id}/cancel`));
  const endpoint = ok(await key.post('/v1/webhook_endpoints', { url: 'http://127.0.0.1:9/hook' }));
  ok(await key.post(`/v1/webhook_endpoints/${endpoint.id}`, { description: 'Orders' }));
  ok(await key.post(`/v1/webhook_endpoints/${endpoint.id}/rotate_secret`, { expires_in: 0 }));
  ok(await key.delete(`/v1/webhook_endpoints/${endpoint.id}`));

  const { data } = ok(await owner.get(`/test/audit?actor=${made.id}`));
  assert.deepEqual(data.map((row: any) => [row.action, row.object]).toReversed(), [
    ['payment.accept', late],
    ['payment.cancel', open],
    ['refund.requested', refund.id],
    ['refund.link_renewed', refund.id],
    ['refund.canceled', refund.id],
    ['payout.requested', payout.id],
    ['payout.canceled', payout.id],
    ['endpoint.create', endpoint.id],
    ['endpoint.update', endpoint.id],
    ['endpoint.secret_rolled', endpoint.id],
    ['endpoint.delete', endpoint.id],
  ]);
  for (const row of data) assert.deepEqual([row.actor_name, row.actor_kind, row.ip], ['Shop server', 'key', '127.0.0.1'], row.action);
  const { actors } = ok(await owner.get('/test/audit/choices'));
  assert.deepEqual(
    actors.find((one: any) => one.id === made.id),
    { id: made.id, name: 'Shop server', kind: 'key' },
  );

  const decision = async (person: Person, id: string) => {
    const { timeline } = ok(await person.get(`/test/payments/${id}`));
    const { what, actor, actor_kind, key } = timeline.find((one: any) => one.kind === 'decision');
    return { what, actor, actor_kind, key };
  };
  const shown = { id: made.id, name: 'Shop server', hint: made.hint };
  assert.deepEqual(await decision(owner, late), { what: 'accept', actor: 'Shop server', actor_kind: 'key', key: shown });
  assert.deepEqual(await decision(owner, open), { what: 'cancel', actor: 'Shop server', actor_kind: 'key', key: shown });
  assert.equal(ok(await owner.get(`/test/refunds/${refund.id}`)).refund.requested_by, 'API key “Shop server”');
  assert.equal(ok(await owner.get(`/test/payouts/${payout.id}`)).payout.requested_by, 'API key “Shop server”');

  // A member is named as before, and a refused decision leaves no entry.
  const other = await create();
  ok(await owner.post(`/test/payments/${other}/cancel`));
  assert.deepEqual(await decision(owner, other), { what: 'cancel', actor: 'Olga Owner', actor_kind: 'member', key: null });
  assert.equal((await key.post(`/v1/payments/${other}/cancel`)).status, 409);
  assert.equal(ok(await owner.get(`/test/audit?actor=${made.id}&object=${other}`)).data.length, 0);
});

test('an endpoint that a key makes belongs to the person who made the key', async () => {
  const { text } = ok(await make(developer));
  const { id } = ok(await app.as(text).post('/v1/webhook_endpoints', { url: 'http://127.0.0.1:9/hook' }));
  const [row] = await app.app.ctx.db.sql`
    select u.email from endpoints e join users u on u.id = e.made_by where e.id = ${id}`;
  assert.equal(row?.email, 'pia@shop.example');
});

test('payouts reach no key without the permission: not by events, deliveries, endpoints or the request log', async () => {
  const marker = 'Salary of Bea';
  const full = ok(await make(owner));
  const payer = app.as(full.text);
  const url = 'http://127.0.0.1:9/salaries';
  const endpoint = ok(await payer.post('/v1/webhook_endpoints', { url, events: ['payout.requested', 'payment.created'] }));
  const payout = ok(await payer.post('/v1/payouts', payoutOf({ description: marker, payout_reference: 'bea-11' })));
  // The list holds an event once all transactions that began before it have ended.
  const [event] = await eventually(
    async () => ok(await payer.get('/v1/events?type=payout.requested')).data as any[],
    ([first]) => first?.data.id === payout.id,
  );
  assert.equal(event.data.description, marker);
  const [delivery] = ok(await payer.get(`/v1/webhook_deliveries?event_id=${event.id}`)).data;
  await eventually(
    () => payer.get('/v1/requests?path=/v1/payouts'),
    ({ text }) => text.includes(marker),
  );

  const key = app.as(ok(await make(developer)).text);
  const secrets = [marker, payout.id, event.id, delivery.id];
  const lists = ROUTES.filter(({ method, path }) => method === 'GET' && !path.includes(':'));
  // The log of requests then has those of this key, so the only one that names what is secret comes last.
  for (const query of ['limit=100', 'path=/v1/payouts', `endpoint_id=${endpoint.id}`, `event_id=${event.id}`])
    for (const { path } of lists) {
      const { text } = await key.get(`${path}?${query}`);
      for (const secret of secrets) assert.ok(!text.includes(secret) || query.includes(secret), `${path}?${query}: ${secret}`);
    }
  for (const path of [`/v1/events/${event.id}`, `/v1/webhook_deliveries/${delivery.id}`]) {
    ok(await payer.get(path));
    assert.equal((await key.get(path)).status, 404, path);
  }
  assert.equal((await key.post(`/v1/webhook_deliveries/${delivery.id}/resend`)).status, 404);
  assert.equal((await key.get(`/v1/events?starting_after=${event.id}`)).json.error.code, 'cursor_invalid');

  // The receiver of events reads what they contain.
  const own = 'http://127.0.0.1:9/own';
  const read = async () => ok(await payer.get(`/v1/webhook_endpoints/${endpoint.id}`));
  refused(
    await key.post('/v1/webhook_endpoints', { url: own, events: ['payment.created', 'payout.sent'] }),
    'key_permission_missing',
    /“payouts”/,
  );
  refused(await key.post(`/v1/webhook_endpoints/${endpoint.id}`, { url: own }), 'key_permission_missing', /“payouts”/);
  const mine = ok(await key.post('/v1/webhook_endpoints', { url: own }));
  refused(await key.post(`/v1/webhook_endpoints/${mine.id}`, { events: ['payout.sent'] }), 'key_permission_missing', /“payouts”/);
  assert.deepEqual([(await read()).url, ok(await key.get(`/v1/webhook_endpoints/${mine.id}`)).events], [url, ['*']]);
  ok(await key.post(`/v1/webhook_endpoints/${endpoint.id}`, { description: 'Salaries' }));
  // What it missed is sent to its URL again, even when it no longer chooses these events.
  ok(await key.post(`/v1/webhook_endpoints/${endpoint.id}`, { events: ['payment.created'] }));
  refused(await key.post(`/v1/webhook_endpoints/${endpoint.id}`, { url: own }), 'key_permission_missing', /“payouts”/);
  ok(await payer.post(`/v1/webhook_endpoints/${endpoint.id}`, { url: own }));
  await payer.delete(`/v1/webhook_endpoints/${endpoint.id}`);
});

test('keys without the permission for webhooks do not see their secrets in the request log', async () => {
  const url = 'http://127.0.0.1:9/hook?token=of-a-receiver';
  const { id } = ok(await app.test.post('/v1/webhook_endpoints', { url }));
  await eventually(
    () => app.test.get('/v1/requests?path=/v1/webhook_endpoints'),
    ({ text }) => text.includes(id),
  );
  const { text } = await (await keyWith(['payments'])).get('/v1/requests?limit=100');
  assert.ok(!text.includes(id) && !text.includes('of-a-receiver'));
});

test("the operator's command gives a key all permissions, or those that it names, and lists them", async () => {
  const { ctx } = app.app;
  const run = (name: string, flags: Record<string, string>): Promise<any> => {
    const command = MERCHANT_COMMANDS[name];
    assert.ok(command && 'run' in command);
    return command.run(ctx, { merchant: app.merchant.merchantId, mode: 'test', ...flags });
  };
  const all = await run('key create', { type: 'secret', name: 'All' });
  const few = await run('key create', { type: 'secret', name: 'Few', permissions: 'lookups,payments' });
  ok(await app.as(all.key).get('/v1/payouts'));
  ok(await app.as(few.key).get('/api/payments'));
  refused(await app.as(few.key).get('/v1/payouts'), 'key_permission_missing', /“payouts”/);
  const { keys } = await run('key list', { limit: '100' });
  const listed = (id: string) => keys.find((one: any) => one.id === id).permissions;
  assert.deepEqual([listed(all.key_id), listed(few.key_id)], [KEY_PERMISSION_NAMES, ['payments', 'lookups']]);
  await assert.rejects(run('key create', { type: 'secret', permissions: 'everything' }), /permissions/);
  await assert.rejects(run('key create', { type: 'public', permissions: 'payments' }), /secret keys/);
});
