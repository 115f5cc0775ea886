/** Every route of the dashboard with every role, from the registry itself, and the separation of merchants and modes. */
// Invariant: Each role can do exactly what the table says; other merchants' payments appear not to exist.
import assert from 'node:assert/strict';
import { after, before, mock, test } from 'node:test';
import Fastify from 'fastify';
import { ROLE_MEANS, rolesPage } from '../../scripts/roles-page.ts';
import { ACTIONS, type Action, type MemberRole, mayDo, ROLES } from '../../src/core/roles.ts';
import { changeSettings, createMerchant } from '../../src/merchants/merchants.ts';
import type { MemberRoute } from '../../src/web/dashboard/route.ts';
import { DASHBOARD_ROUTES, pathsOf, registerDashboard } from '../../src/web/dashboard/serve.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { isLongRun } from '../kit/long.ts';
import { Person, setUpMembers, setUpPerson } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
const MEMBER_ROUTES = DASHBOARD_ROUTES.filter((route): route is MemberRoute => !route.open);

before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent', TRUSTED_PROXIES: '127.0.0.0/8' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());
/** From a new IP address: so many routes exceed the requests per minute of one address. */
let addresses = 0;
const fromElsewhere = (person: Person): Person => Object.assign(person, { address: `203.0.113.${++addresses}` });

type Who = MemberRole | 'anonymous';
const ADMITTED = 'admitted';
/** What the table of roles says about a route. Only the owner of the test is an operator, without a second factor. */
function expected(who: Who, { action, operator }: MemberRoute): string {
  if (who === 'anonymous') return '401 not_signed_in';
  if (operator) return who === 'owner' ? '403 second_factor_required' : '403 operator_only';
  return mayDo(who, action) ? ADMITTED : '403 action_not_permitted';
}
/** What a route answers somebody who names nothing that exists and sends no fields. */
async function answerOf(person: Person, { method, url }: { method: string; url: string }): Promise<string> {
  const path = url.replace('/dashboard/api', '').replace(/:\w+/g, 'made-up');
  const { status, json } = await person.send(method, path, method === 'GET' ? undefined : {});
  const code = json?.error?.code;
  // Confirming a password is the only route that answers so to somebody it admits.
  return (status === 401 || status === 403) && code !== 'password_wrong' ? `${status} ${code}` : ADMITTED;
}
/**
 * Every route for everybody, all at once: the places where the answer is not the expected one. Each in both modes, or in the usual run in
 * one of them, in turn.
 */
async function differences(
  people: Record<Who, Person>,
  routes: readonly MemberRoute[],
  expect: (who: Who, route: MemberRoute) => string,
): Promise<string[]> {
  const ofOne = async ([who, person]: [string, Person], turn: number) => {
    const wrong: string[] = [];
    for (const [i, route] of routes.entries()) {
      const paths = pathsOf(route);
      for (const { url } of isLongRun ? paths : [paths[(i + turn) % paths.length]!]) {
        const answer = await answerOf(person, { method: route.method, url });
        const wanted = expect(who as Who, route);
        if (answer !== wanted) wrong.push(`${who} ${route.method} ${url}: ${answer}, not ${wanted}`);
      }
    }
    return wrong;
  };
  return (await Promise.all(Object.entries(people).map(ofOne))).flat();
}

test('each role, and nobody else, reaches exactly the routes whose action the table allows, in both modes; an old session those without risk', async (t) => {
  const { sql } = app.app.ctx.db;
  const people: Record<Who, Person> = { ...(await setUpMembers(app)), anonymous: new Person(app.url) };
  for (const person of Object.values(people)) fromElsewhere(person);
  await sql`update users set operator = true where email = 'owner@shop.example'`;
  assert.deepEqual(await differences(people, MEMBER_ROUTES, expected), []);
  const risky = MEMBER_ROUTES.filter(({ recent }) => recent);
  await sql`update sessions set created_at = created_at - interval '1 hour'`;
  const whenOld = (who: Who, route: MemberRoute) => {
    const answer = expected(who, route);
    return answer === ADMITTED ? '403 recent_authentication_required' : answer;
  };
  assert.deepEqual(await differences(people, risky, whenOld), []);
  // With a second factor the operator area opens, and asks for recent authentication as well.
  await sql`update users set two_factor_enabled = true where email = 'owner@shop.example'`;
  const operating = MEMBER_ROUTES.filter(({ operator }) => operator);
  const ofOperator = (isOld: boolean) => (who: Who, route: MemberRoute) =>
    who !== 'owner' ? expected(who, route) : isOld && route.recent ? '403 recent_authentication_required' : ADMITTED;
  assert.deepEqual(await differences(people, operating, ofOperator(true)), []);
  await sql`update sessions set created_at = created_at + interval '1 hour'`;
  assert.deepEqual(await differences(people, operating, ofOperator(false)), []);
  await sql`update users set two_factor_enabled = false`;
  // The comparison itself finds what differs.
  const [read] = MEMBER_ROUTES.filter(({ action }) => action === 'payouts.read');
  const wrong = await differences({ viewer: people.viewer } as Record<Who, Person>, [{ ...read!, action: 'payments.read' }], expected);
  assert.equal(wrong.length, isLongRun ? 2 : 1, wrong.join());
  const { length } = MEMBER_ROUTES;
  t.diagnostic(`${length} routes, ${risky.length} with recent authentication, ${Object.keys(people).length} kinds of people, 2 modes`);
});

test('the table of roles: owners may do everything, and a few rows by name', () => {
  const rolesOf = (action: Action) => ROLES.filter((role) => mayDo(role, action)).join(' ');
  assert.equal(rolesOf('payments.read'), 'owner admin developer finance support viewer');
  assert.equal(rolesOf('payments.cancel'), 'owner admin finance');
  assert.equal(rolesOf('payments.resolve'), 'owner admin finance');
  for (const action of Object.keys(ACTIONS) as Action[]) assert.ok(mayDo('owner', action), `owners may ${action}`);
});

test('the sentence about a role, which members read before they give it, is what the table says', () => {
  const all = Object.keys(ACTIONS) as Action[];
  const lacks = (role: MemberRole) => all.filter((action) => !mayDo(role, action));
  assert.match(ROLE_MEANS.owner, /^Full access/);
  assert.deepEqual(lacks('owner'), []);
  // An admin has full access with these exceptions; the rest of the sentence names them.
  assert.match(
    ROLE_MEANS.admin,
    /^Full access, except approving refunds and payouts, sweeps, managing owners and finance members, and confirming wallet changes/,
  );
  const exceptions = [
    'refunds.approve',
    'payouts.approve',
    'wallets.confirm',
    'wallets.wait',
    'sweeps.read',
    'sweeps.use',
    'sweeps.confirm',
    'approvals.manage',
  ];
  assert.deepEqual(lacks('admin'), exceptions);
  const claims: [role: MemberRole, words: RegExp, may: Action[], mayNot: Action[]][] = [
    [
      'developer',
      /Manages API keys, webhooks and payment links/,
      ['keys.manage', 'webhooks.manage', 'webhooks.secrets', 'links.write'],
      [],
    ],
    ['developer', /Can create payments\. Can’t see payouts/, ['payments.create'], ['payouts.read']],
    ['finance', /Decides about payments, approves refunds and payouts/, ['payments.resolve', 'refunds.approve', 'payouts.approve'], []],
    ['finance', /moves money and exports data/, ['sweeps.use', 'payments.export'], []],
    ['finance', /Can’t see API keys, events or the request log/, [], ['keys.read', 'events.read', 'requests.read']],
    ['support', /Can create payments, edit their details, request refunds/, ['payments.create', 'payments.edit', 'refunds.request'], []],
    ['support', /resend webhooks\. Can’t see payouts/, ['webhooks.send'], ['payouts.read']],
    ['viewer', /Can’t see payouts/, [], ['payouts.read']],
  ];
  for (const [role, words, may, mayNot] of claims) {
    assert.match(ROLE_MEANS[role], words);
    for (const action of may) assert.ok(mayDo(role, action), `${role} ${action}`);
    for (const action of mayNot) assert.ok(!mayDo(role, action), `${role} ${action}`);
  }
  assert.match(ROLE_MEANS.viewer, /^Can see payments, refunds, links, wallets, webhooks and settings, and change nothing/);
  const seen = all.filter((action) => mayDo('viewer', action));
  for (const action of seen) assert.match(action, /[.]read$|^account[.]use$/, 'a viewer changes nothing');
  for (const page of ['payments', 'links', 'wallets', 'webhooks', 'settings']) assert.ok(seen.includes(`${page}.read` as Action), page);
});

test('the page about roles names every action once, and its answers are those of the table', () => {
  const rows = rolesPage()
    .split('\n')
    .filter((line) => / (Yes|No) \|$/.test(line));
  const yes = rows.map((row) =>
    row
      .split(' | ')
      .slice(1)
      .map((cell) => cell.startsWith('Yes')),
  );
  assert.ok(rows.length > 25);
  const payouts = rows.findIndex((row) => row.startsWith('| See and request payouts'));
  assert.deepEqual(
    yes[payouts],
    ROLES.map((role) => mayDo(role, 'payouts.read')),
  );
  assert.match(rows.find((row) => row.startsWith('| Approve payouts'))!, /\u00a0\* \|/, 'it asks to confirm the identity');
  assert.doesNotMatch(rows.find((row) => row.startsWith('| Request refunds'))!, /\u00a0\* \|/);
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

test('a risky action is refused ten minutes after signing in, until the person confirms', async () => {
  fromElsewhere(owner);
  await app.app.ctx.db.sql`update sessions set created_at = created_at - interval '11 minutes'`;
  const remove = () => owner.post('/test/second-factor/remove');
  const refused = await remove();
  assert.deepEqual([refused.status, refused.json.error.code], [403, 'recent_authentication_required']);
  assert.equal((await owner.post('/test/confirm', { password: 'a wrong password' })).json.error.code, 'password_wrong');
  assert.equal((await remove()).status, 403);
  assert.equal((await owner.post('/test/confirm', { password: owner.password })).status, 200);
  assert.equal((await remove()).status, 200);
});

// Invariant: Actions that move money or data require recent authentication.
test('actions that move money or data require recent authentication, depending on what they change; the same actions without risk do not', async () => {
  fromElsewhere(owner);
  const { sql } = app.app.ctx.db;
  const endpoint = (await owner.post('/test/webhooks', { url: 'https://127.0.0.1:9/hook', events: ['*'] })).json.endpoint;
  const live = (await owner.post('/live/webhooks', { url: 'https://127.0.0.1:9/hook', events: ['*'] })).json.endpoint;
  const terms = { name: 'Tickets', amount: '5.00', currency: 'USD', reusable: true };
  const { link } = (await owner.post('/live/links', terms)).json;
  const payment = (await app.test.post('/api/payment/create/simple', { amount_usd: 5, return_url: 'https://a.example/' })).json.id;
  const days = 'from=2026-01-01&until=2026-01-31';
  const ask = (method: 'GET' | 'POST', path: string, body?: object) => owner.send(method, `/test${path}`, body);
  const risky: readonly (readonly ['GET' | 'POST', string, object?])[] = [
    ['POST', '/webhooks', { url: 'https://127.0.0.1:9/other', events: ['*'] }],
    ['POST', `/webhooks/${endpoint.id}`, { url: 'https://127.0.0.1:9/moved' }],
    ['POST', `/webhooks/${endpoint.id}/secret`, {}],
    ['POST', `/webhooks/${endpoint.id}/rotate`, { expires_in: 0 }],
    ['POST', '/settings/checkout', { tolerance_percent: '4.00' }],
    ['POST', '/settings/checkout', { tolerance_cap_usd: '99.00' }],
    ['POST', '/settings/checkout', { late_accept_minutes: 1440 }],
    ['POST', '/settings/checkout', { adjustments: [{ asset: 'BTC', percent: '-20' }] }],
    ['POST', '/settings/checkout', { origins: ['https://evil.example'] }],
    ['POST', '/settings/checkout', { confirmations: [{ currency: 'BTC', tiers: [50] }] }],
    ['POST', '/settings/business', { retention_days: 30 }],
    ['POST', '/settings/business', { refund_limit_usd: 1_000_000 }],
    // What customers see and open.
    ['POST', '/settings/checkout', { support_contact: 'https://evil.example/help' }],
    ['POST', '/settings/checkout', { logo: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>').toString('base64') }],
    ['POST', '/settings/business', { support_contact: 'help@evil.example' }],
    ['POST', '/settings/business', { website: 'https://evil.example' }],
    ['POST', '/settings/business', { name: 'Another shop' }],
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
  // A live endpoint that no longer receives all it did: the shop would not learn of payments.
  for (const change of [{ enabled: false }, { events: ['payment.created'] }])
    assert.equal((await owner.post(`/live/webhooks/${live.id}`, change)).json.error?.code, 'recent_authentication_required');
  assert.equal((await owner.post(`/live/webhooks/${live.id}`, { description: 'The shop' })).status, 200);
  // Where the customers of a live payment link go after they have paid.
  const led = await owner.post(`/live/links/${link.id}`, { ...terms, return_url: 'https://evil.example/' });
  assert.equal(led.json.error?.code, 'recent_authentication_required');
  assert.equal((await owner.post(`/live/links/${link.id}`, { ...terms, name: 'Ticket' })).status, 200);
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

// Invariant: The audit log cannot be changed.
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
