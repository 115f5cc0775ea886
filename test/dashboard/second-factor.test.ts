/**
 * No way around two-factor authentication: every route with only the password shown, and with members who lack the factor that their
 * merchant requires.
 */
// Invariant: Nothing bypasses two-factor authentication, and each code works once.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DASHBOARD_ROUTES, pathsOf } from '../../src/web/dashboard/serve.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { freshTotp, Person, setUpPerson, setupToken, totp } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
let secret = '';
const EMAIL = 'olga@shop.example';
const pathOf = (url: string) => url.replace('/dashboard/api', '').replace(/:\w+/g, 'made-up');
const bodyOf = (method: string) => (method === 'GET' ? undefined : {});

before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
});
after(() => app?.stop());
const halfSignedIn = async () => {
  const half = new Person(app.url);
  const reply = await half.post('/sign-in', { email: EMAIL, password: owner.password });
  assert.deepEqual([reply.status, reply.json.needs_second_factor], [200, true]);
  return half;
};

test('an authenticator code works once, also for turning it on, and an older one no longer works', async () => {
  const begun = await owner.post('/test/second-factor', { password: owner.password });
  secret = new URL(begun.json.uri).searchParams.get('secret')!;
  const first = totp(secret);
  assert.equal((await owner.post('/test/second-factor/finish', { code: first })).status, 200);
  const half = await halfSignedIn();
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: first })).json.error.code, 'second_factor_invalid');
  assert.equal((await half.get('/test/me')).status, 401);
  const next = totp(secret, 1);
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: next })).status, 200);
  assert.equal((await half.get('/test/me')).status, 200);
  assert.equal((await half.post('/test/confirm', { code: next })).json.error.code, 'second_factor_invalid', 'nor to confirm with');
  const again = await halfSignedIn();
  for (const code of [first, next, totp(secret, -1)])
    assert.equal((await again.post('/sign-in/code', { kind: 'totp', code })).status, 401, 'used and older codes');
  assert.equal((await again.get('/test/me')).status, 401);
});

test('a cookie that no sign-in set is refused like a wrong code, whatever characters it contains', async () => {
  for (const value of ['%00.x', '2fa-%00.x', '%ED%A0%80.x', '%.x']) {
    const stranger = Object.assign(new Person(app.url), { cookie: `florin.two_factor=${value}` });
    const reply = await stranger.post('/sign-in/code', { kind: 'totp', code: '000000' });
    assert.deepEqual([reply.status, reply.json.error.code], [401, 'second_factor_invalid'], value);
  }
});

test('one code, used twice at the same moment, signs in once', async () => {
  const [one, two] = [await halfSignedIn(), await halfSignedIn()];
  const code = await freshTotp(app, secret);
  const replies = await Promise.all([one, two].map((half) => half.post('/sign-in/code', { kind: 'totp', code })));
  assert.deepEqual(replies.map((reply) => reply.status).sort(), [200, 401]);
});

test('ten wrong codes lock two-factor sign-in for a quarter of an hour, even for the right code', async () => {
  const { sql } = app.app.ctx.db;
  const half = await halfSignedIn();
  await sql`update second_factors set failed_verification_count = 9`;
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: '000000' })).status, 401);
  const locked = await half.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret) });
  assert.deepEqual([locked.status, locked.json.error.code], [429, 'second_factor_locked']);
  assert.match(locked.json.error.message, /Use a passkey or a backup code, or try again in 15 minutes\.$/);
  assert.ok(Number(locked.headers.get('retry-after')) > 800);
  assert.equal((await owner.post('/test/confirm', { code: await freshTotp(app, secret) })).status, 429);
  await sql`update second_factors set locked_until = locked_until - interval '16 minutes'`;
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret) })).status, 200);
});

test('the password alone reaches no route for members, and no open route signs in', async () => {
  const half = await halfSignedIn();
  const reached: string[] = [];
  for (const route of DASHBOARD_ROUTES) {
    for (const { url } of pathsOf(route)) {
      const reply = await half.send(route.method, pathOf(url), bodyOf(route.method));
      if (route.open) {
        // Signing out ends nothing that has not begun.
        if (reply.status === 200 && !['/sign-out', '/sign-in/passkey/options'].includes(route.path)) reached.push(`${url} ${reply.status}`);
      } else if (reply.status !== 401 && reply.status !== 429) reached.push(`${route.method} ${url} ${reply.status}`);
      assert.equal((await half.get('/test/me')).status, 401, `after ${route.method} ${url}`);
    }
  }
  assert.deepEqual(reached, []);
  assert.equal((await half.get('/test/stream')).status, 401);
});

test('with the password alone, neither the set-up link nor an invitation signs in to the account', async () => {
  const { sql } = app.app.ctx.db;
  const { createMerchant } = await import('../../src/merchants/merchants.ts');
  const other = await createMerchant(app.app.ctx, { name: 'Second shop' });
  const token = setupToken(other.setupUrl);
  const half = await halfSignedIn();
  const setUp = await half.post('/set-up', { token, name: 'Mallory', email: EMAIL, password: 'another long password' });
  assert.equal(setUp.json.error.code, 'account_exists');
  await sql`update sessions set confirmed_at = clock_timestamp()`;
  const invited = await owner.post('/test/team/invites', { email: 'olga2@shop.example', role: 'viewer' });
  await sql`update invites set email = ${EMAIL}`;
  const link = invited.json.url.split('#')[1];
  const accepted = await half.post('/invite/accept', { token: link, name: 'Mallory', password: 'another long password' });
  assert.equal(accepted.json.error.code, 'invite_needs_sign_in');
  assert.equal((await half.get('/test/me')).status, 401);
  await sql`delete from invites`;
});

test('members without the required two-factor authentication reach only their own account until they set it up', async () => {
  const { sql } = app.app.ctx.db;
  await sql`update sessions set confirmed_at = clock_timestamp()`;
  const invited = await owner.post('/test/team/invites', { email: 'dana@shop.example', role: 'admin' });
  const dana = new Person(app.url);
  const joined = await dana.post('/invite/accept', { token: invited.json.url.split('#')[1], name: 'Dana', password: dana.password });
  assert.equal(joined.status, 200, joined.text);
  assert.equal((await dana.get('/test/payments')).status, 200);
  assert.equal(
    (await dana.post('/test/team/second-factor', { required: true })).json.error.code,
    'second_factor_required',
    'not without one of her own',
  );
  assert.equal((await owner.post('/test/team/second-factor', { required: true })).status, 200);
  const team = (await owner.get('/test/team')).json;
  assert.equal(team.second_factor_required, true);
  assert.deepEqual(
    team.members.map((m: any) => [m.name, m.has_second_factor]),
    [
      ['Olga Owner', true],
      ['Dana', false],
    ],
  );
  const open: string[] = [];
  for (const route of DASHBOARD_ROUTES) {
    if (route.open || route.attempts !== undefined) continue;
    const path = `/test${route.path.replace(/:\w+/g, 'made-up')}`;
    const reply = await dana.send(route.method, path, bodyOf(route.method));
    if (reply.json.error?.code !== 'second_factor_required') open.push(`${route.method} ${route.path}`);
  }
  assert.deepEqual(open.sort(), [
    'DELETE /passkeys/:id',
    'DELETE /sessions',
    'DELETE /sessions/:id',
    'DELETE /trusted-devices/:id',
    'GET /me',
    'GET /security',
    'POST /merchant',
    'POST /passkeys',
    'POST /passkeys/:id/name',
    'POST /passkeys/options',
  ]);
  assert.equal((await dana.get('/test/stream')).status, 403);
  assert.equal((await dana.get('/test/me')).json.must_set_second_factor, true);
  const begun = await dana.post('/test/second-factor', { password: dana.password });
  const hers = new URL(begun.json.uri).searchParams.get('secret')!;
  assert.equal((await dana.post('/test/second-factor/finish', { code: totp(hers) })).status, 200);
  assert.equal((await dana.get('/test/payments')).status, 200);
});
