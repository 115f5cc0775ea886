/** Every route of the dashboard with every role, from the registry itself, and the separation of merchants and modes. */
import assert from 'node:assert/strict';
import { after, before, mock, test } from 'node:test';
import Fastify from 'fastify';
import { ACTIONS, mayDo, ROLES } from '../../src/core/roles.ts';
import { changeSettings, createMerchant } from '../../src/merchants/merchants.ts';
import { DASHBOARD_ROUTES } from '../../src/web/dashboard/routes.ts';
import { pathsOf, registerDashboard } from '../../src/web/dashboard/serve.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { Person, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
const MEMBER_ROUTES = DASHBOARD_ROUTES.filter((route) => !route.open);

before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent', TRUSTED_PROXIES: '127.0.0.0/8' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());
/** From a new IP address: so many routes exceed the requests per minute of one address. */
let addresses = 0;
const fromElsewhere = (person: Person): Person => Object.assign(person, { address: `203.0.113.${++addresses}` });
const setRole = (role: string, { merchantId } = app.merchant) =>
  app.app.ctx.db.sql`update members set role = ${role} where merchant_id = ${merchantId}`;

test('each role reaches exactly the routes whose action the table allows, in both modes', async () => {
  const wrong: string[] = [];
  // One person may not send so many requests in a minute.
  const second = await createMerchant(app.app.ctx, { name: 'Second shop' });
  const people = [
    { person: owner, merchant: app.merchant },
    { person: await setUpPerson(app, second, 'second@shop.example'), merchant: second },
  ];
  for (const [i, role] of ROLES.entries()) {
    const { person, merchant } = people[i % people.length]!;
    await setRole(role, merchant);
    fromElsewhere(person);
    for (const route of MEMBER_ROUTES) {
      for (const { url } of pathsOf(route)) {
        // Two-factor authentication and confirming concern one's own account and have tests of their own.
        if (route.attempts !== undefined) continue;
        const path = url.replace('/dashboard/api', '').replace(/:\w+/g, 'made-up');
        const reply = await person.send(route.method, path, route.method === 'GET' ? undefined : {});
        const refused = reply.status === 403 && reply.json.error.code === 'action_not_permitted';
        if (refused === mayDo(role, route.action)) wrong.push(`${role} ${route.method} ${path}: ${reply.status}`);
      }
    }
  }
  await setRole('owner');
  assert.deepEqual(wrong, []);
});

test('the table of roles: what each may do', () => {
  const table = Object.fromEntries(
    Object.keys(ACTIONS).map((action) => [action, ROLES.filter((role) => mayDo(role, action as 'payments.read')).join(' ')]),
  );
  assert.equal(table['payments.read'], 'owner admin developer finance support viewer');
  assert.equal(table['payments.cancel'], 'owner admin finance');
  assert.equal(table['payments.resolve'], 'owner admin finance');
  for (const action of Object.keys(ACTIONS)) assert.ok(mayDo('owner', action as 'payments.read'), `owners may ${action}`);
});

test('nobody reaches a route for members without signing in', async () => {
  const nobody = fromElsewhere(new Person(app.url));
  for (const route of MEMBER_ROUTES) {
    for (const { url } of pathsOf(route)) {
      if (route.attempts !== undefined) continue;
      const reply = await nobody.send(
        route.method,
        url.replace('/dashboard/api', '').replace(/:\w+/g, 'made-up'),
        route.method === 'GET' ? undefined : {},
      );
      assert.deepEqual([reply.status, reply.json.error.code], [401, 'not_signed_in'], `${route.method} ${url}`);
    }
  }
});

test("a write without the dashboard's header, or from another origin, is refused", async () => {
  for (const route of DASHBOARD_ROUTES) {
    if (route.method === 'GET') continue;
    for (const { url } of pathsOf(route)) {
      for (const headers of [{}, { 'x-florin-dashboard': '1', origin: 'https://evil.example' }]) {
        const reply: Response = await fetch(app.url + url.replace(/:\w+/g, 'made-up'), {
          method: route.method,
          headers: {
            cookie: owner.cookie,
            'x-forwarded-for': `203.0.113.${++addresses % 250}`,
            'content-type': 'application/json',
            ...headers,
          } as Record<string, string>,
          body: '{}',
        });
        assert.equal(reply.status, 403, `${route.method} ${url}`);
        assert.equal(((await reply.json()) as { error: { code: string } }).error.code, 'cross_site_request');
      }
    }
  }
});

test('a route that requires recent authentication refuses after ten minutes, until the person confirms', async () => {
  fromElsewhere(owner);
  const recent = MEMBER_ROUTES.filter((route) => !route.open && route.recent);
  assert.ok(recent.length > 0);
  await app.app.ctx.db.sql`update sessions set created_at = created_at - interval '11 minutes'`;
  for (const route of recent) {
    const path = `/test${route.path.replace(/:\w+/g, 'made-up')}`;
    const reply = await owner.send(route.method, path, route.method === 'GET' ? undefined : {});
    assert.deepEqual([reply.status, reply.json.error.code], [403, 'recent_authentication_required'], path);
  }
  assert.equal((await owner.post('/test/confirm', { password: 'a wrong password' })).json.error.code, 'password_wrong');
  assert.equal((await owner.post('/test/second-factor/remove')).status, 403);
  assert.equal((await owner.post('/test/confirm', { password: owner.password })).status, 200);
  assert.equal((await owner.post('/test/second-factor/remove')).status, 200);
});

test('actions that move money or data require recent authentication, depending on what they change; the same actions without risk do not', async () => {
  fromElsewhere(owner);
  const { sql } = app.app.ctx.db;
  const endpoint = (await owner.post('/test/webhooks', { url: 'https://127.0.0.1:9/hook', events: ['*'] })).json.endpoint;
  const payment = (await app.test.post('/api/payment/create/simple', { amount_usd: 5, return_url: 'https://a.example/' })).json.id;
  const days = 'from=2026-01-01&until=2026-01-31';
  const ask = (method: 'GET' | 'POST', path: string, body?: object) => owner.send(method, `/test${path}`, body);
  const risky: readonly (readonly ['GET' | 'POST', string, object?])[] = [
    ['POST', '/webhooks', { url: 'https://127.0.0.1:9/other', events: ['*'] }],
    ['POST', `/webhooks/${endpoint.id}`, { url: 'https://127.0.0.1:9/moved' }],
    ['POST', `/webhooks/${endpoint.id}/secret`, {}],
    ['POST', `/webhooks/${endpoint.id}/rotate`, { overlap_seconds: 0 }],
    ['POST', '/settings/checkout', { tolerance_percent: '4.00' }],
    ['POST', '/settings/checkout', { tolerance_cap_usd: '99.00' }],
    ['POST', '/settings/checkout', { late_accept_minutes: 1440 }],
    ['POST', '/settings/checkout', { origins: ['https://evil.example'] }],
    ['POST', '/settings/checkout', { confirmations: [{ currency: 'BTC', tiers: [50] }] }],
    ['POST', '/settings/business', { retention_days: 30 }],
    ['POST', '/settings/business', { refund_limit_usd: 1_000_000 }],
    ...(['accept', 'reject', 'refund_sent'] as const).flatMap((action) => [
      ['POST', `/payments/${payment}/resolve`, { action }] as const,
      ['POST', '/attention/resolve', { ids: [payment], action }] as const,
    ]),
    ['GET', '/exports/payments'],
    ['GET', `/reports/file?kind=tax&${days}`],
    ['GET', `/books/file?format=koinly&${days}`],
    ['GET', `/books/datev?chart=SKR03&consultant=29098&client=55003&fiscal_year=2026-01-01&${days}`],
  ];
  const harmless: readonly (readonly ['GET' | 'POST', string, object?])[] = [
    ['POST', `/webhooks/${endpoint.id}`, { url: 'https://127.0.0.1:9/hook', description: 'The shop' }],
    ['POST', `/webhooks/${endpoint.id}`, { enabled: false }],
    ['POST', '/settings/checkout', { tolerance_percent: '1.00', origins: [], confirmations: [], theme: 'dark' }],
    ['POST', '/settings/business', { name: 'Test shop', retention_days: null }],
    ['GET', '/exports/columns'],
  ];
  await sql`update sessions set created_at = created_at - interval '11 minutes', confirmed_at = null`;
  const answers: string[] = [];
  for (const [method, path, body] of risky) {
    const { status, json } = await ask(method, path, body);
    answers.push(`${method} ${path} ${JSON.stringify(body ?? null)}: ${status} ${json?.error?.code}`);
  }
  assert.deepEqual(
    answers.filter((answer) => !answer.endsWith(': 403 recent_authentication_required')),
    [],
  );
  for (const [method, path, body] of harmless)
    assert.equal((await ask(method, path, body)).status, 200, `${method} ${path} ${JSON.stringify(body)}`);
  const reviewed = await ask('POST', `/payments/${payment}/resolve`, { action: 'reviewed' });
  assert.notEqual(reviewed.json.error?.code, 'recent_authentication_required');
  assert.equal((await owner.post('/test/confirm', { password: owner.password })).status, 200);
  for (const [method, path, body] of risky) {
    const { json } = await ask(method, path, body);
    assert.notEqual(json?.error?.code, 'recent_authentication_required', `${method} ${path}`);
  }
  // Without an exchange rate, no amount in dollars is passed off as one in the display currency.
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { displayCurrency: 'EUR' } });
  const rates = mock.method(app.app.ctx.fiat, 'quotable', () => ({ reason: 'no source answers' }));
  for (const path of [`/books/file?format=xero&${days}`, risky.at(-1)![1]])
    assert.equal((await owner.send('GET', `/live${path}`)).json?.error?.code, 'price_unavailable', path);
  assert.equal((await owner.send('GET', `/live/books/statement?${days}`)).status, 200);
  rates.mock.restore();
  await sql`update merchants set settings = '{}'`;
});

test('payments of another merchant or mode are not found', async () => {
  const { ctx } = app.app;
  // A separate person: the owner above has made more requests than one person may in a minute.
  const other = await createMerchant(ctx, { name: 'Other shop' });
  const owner = fromElsewhere(await setUpPerson(app, other, 'oscar@other.example'));
  const draft = { amount_usd: 5, return_url: 'https://a.example/' };
  const theirs = (await app.test.post('/api/payment/create/simple', draft)).json;
  const ours = (await app.as(other.keys.testSecret).post('/api/payment/create/simple', { ...draft, invoice_id: 'INV-1' })).json;
  assert.equal((await owner.get(`/test/payments/${ours.id}`)).status, 200);
  for (const path of [`/test/payments/${theirs.id}`, `/live/payments/${ours.id}`]) {
    assert.equal((await owner.get(path)).status, 404, path);
    assert.equal((await owner.post(`${path}/cancel`)).status, 404, path);
    assert.equal((await owner.post(`${path}/resolve`, { action: 'accept' })).status, 404, path);
    assert.equal((await owner.post(`${path}/archive`, { archived: true })).status, 404, path);
  }
  assert.deepEqual((await owner.get('/live/payments')).json.data, []);
  assert.deepEqual((await owner.get(`/test/payments?search=${theirs.id}`)).json.data, []);
  assert.equal((await owner.get(`/test/payments?starting_after=${theirs.id}`)).json.error.code, 'cursor_invalid');
  const found = (await owner.get('/test/payments?search=INV-1')).json.data as { id: string }[];
  assert.deepEqual(
    found.map((row) => row.id),
    [ours.id],
  );
});

test('the audit log cannot be changed', async () => {
  const { sql } = app.app.ctx.db;
  assert.ok((await sql`select 1 from audit_log`).length > 0);
  await assert.rejects(sql`update audit_log set actor_name = 'somebody else'`, /never changed/);
  await assert.rejects(sql`delete from audit_log`, /never changed/);
});

test('a route without an action does not start', () => {
  const route = { ...MEMBER_ROUTES[0]!, action: undefined } as never;
  const doors = { limits: null, client: () => ({ ip: '', secure: true }) } as never;
  assert.throws(() => registerDashboard(Fastify() as never, app.app.ctx, doors, [route]), /names no action/);
});
