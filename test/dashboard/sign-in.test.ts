/**
 * Signing in over HTTP: the set-up link, the password, two-factor authentication that cannot be bypassed, limits, and requests from other
 * sites.
 */
// Invariant: With two-factor authentication on, a password alone opens nothing, and no route of the sign-in library is exposed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createMerchant, createSetupLink } from '../../src/merchants/merchants.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { freshTotp, Person, setUpPerson, totp } from '../kit/person.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
});
after(() => app?.stop());

const PASSWORD = 'correct horse battery';
const owner = { name: 'Olga Owner', email: 'olga@shop.example', password: PASSWORD };
let secret = '';
let backupCodes: string[] = [];

test('the set-up link creates the first owner once; short passwords and invented links create nobody', async () => {
  const { pathname, hash } = new URL(app.merchant.setupUrl);
  const link = await app.anonymous.get(pathname);
  assert.equal(link.status, 303);
  const token = hash.replace('#token=', '');
  const person = new Person(app.url);
  const short = await person.post('/set-up', { token, ...owner, password: 'too short' });
  assert.deepEqual([short.status, short.json.error.param], [400, 'password']);
  assert.equal((await person.post('/set-up', { token: 'made up', ...owner })).json.error.code, 'setup_link_invalid');
  assert.equal((await person.get('/test/me')).status, 401);
  const made = await person.post('/set-up', { token, ...owner });
  assert.equal(made.status, 200, made.text);
  assert.match(made.headers.get('set-cookie')!, /florin\.session_token=[^;]+;.*HttpOnly;.*SameSite=Lax/i);
  const me = await person.get('/test/me');
  assert.equal(me.status, 200, me.text);
  assert.equal(me.json.role, 'owner');
  assert.equal(me.json.merchant.id, app.merchant.merchantId);
  assert.equal(
    (await new Person(app.url).post('/set-up', { token, ...owner, email: 'b@shop.example' })).json.error.code,
    'setup_link_invalid',
  );
});

test('a set-up link expires after seven days; the operator makes a new one, only while the merchant has no owner', async () => {
  const { ctx } = app.app;
  const other = await createMerchant(ctx, { name: 'Late shop' });
  const tokenOf = (url: string) => new URL(url).hash.replace('#token=', '');
  const setUp = (url: string) =>
    new Person(app.url).post('/set-up', { token: tokenOf(url), name: 'Lena Late', email: 'lena@shop.example', password: PASSWORD });
  const [row] = await ctx.db.sql`
    select setup_expires_at between now() + interval '6 days 23 hours' and now() + interval '7 days' as ok from merchants where id = ${other.merchantId}`;
  assert.equal(row!.ok, true);
  await ctx.db.sql`update merchants set setup_expires_at = now() - interval '1 second' where id = ${other.merchantId}`;
  assert.equal((await setUp(other.setupUrl)).json.error.code, 'setup_link_invalid');
  const renewed = await createSetupLink(ctx, { merchantId: other.merchantId });
  assert.equal((await setUp(other.setupUrl)).json.error.code, 'setup_link_invalid', 'an older link');
  assert.equal((await setUp(renewed)).status, 200);
  await assert.rejects(createSetupLink(ctx, { merchantId: other.merchantId }), { code: 'parameter_invalid' });
  await assert.rejects(createSetupLink(ctx, { merchantId: 'mer_none' }), { code: 'merchant_not_found' });
});

test('signing in and out: a wrong password and an unknown address get the same reply', async () => {
  const person = new Person(app.url);
  const wrong = await person.post('/sign-in', { email: owner.email, password: 'not the password' });
  const unknown = await person.post('/sign-in', { email: 'nobody@shop.example', password: 'not the password' });
  assert.deepEqual([wrong.status, unknown.status], [401, 401]);
  assert.equal(wrong.json.error.message, unknown.json.error.message);
  const right = await person.post('/sign-in', { email: 'OLGA@shop.example', password: PASSWORD });
  assert.deepEqual([right.status, right.json.needs_second_factor], [200, false]);
  assert.equal((await person.get('/live/me')).status, 200);
  const before = person.cookie;
  await person.post('/sign-out', {});
  assert.equal((await person.get('/live/me')).status, 401);
  person.cookie = before;
  assert.equal((await person.get('/live/me')).status, 401, 'an old cookie does not open again what was closed');
});

test('with two-factor authentication on, a password alone reaches nothing, and sessions that began without it end', async () => {
  const other = new Person(app.url);
  await other.post('/sign-in', { email: owner.email, password: PASSWORD });
  const person = new Person(app.url);
  await person.post('/sign-in', { email: owner.email, password: PASSWORD });
  assert.equal((await person.post('/test/second-factor', { password: 'wrong password' })).json.error.code, 'password_wrong');
  const begun = await person.post('/test/second-factor', { password: PASSWORD });
  assert.equal(begun.status, 200, begun.text);
  secret = new URL(begun.json.uri).searchParams.get('secret')!;
  backupCodes = begun.json.backup_codes;
  assert.equal(backupCodes.length, 10);
  assert.equal((await person.post('/test/second-factor/finish', { code: '000000' })).json.error.code, 'second_factor_invalid');
  const finished = await person.post('/test/second-factor/finish', { code: totp(secret) });
  assert.equal(finished.status, 200, finished.text);
  assert.equal((await person.get('/test/me')).json.user.has_second_factor, true);
  assert.equal((await other.get('/test/me')).status, 401);

  const half = new Person(app.url);
  const signIn = await half.post('/sign-in', { email: owner.email, password: PASSWORD });
  assert.deepEqual([signIn.status, signIn.json.needs_second_factor], [200, true]);
  for (const path of ['/test/me', '/live/me', '/test/payments', '/test/stream']) assert.equal((await half.get(path)).status, 401, path);
  assert.equal((await half.post('/test/second-factor', { password: PASSWORD })).status, 401);
  assert.equal((await half.post('/test/second-factor/finish', { code: totp(secret) })).status, 401);
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: '000000' })).json.error.code, 'second_factor_invalid');
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret) })).status, 200);
  assert.equal((await half.get('/test/me')).status, 200);
});

test('a backup code works once', async () => {
  const person = new Person(app.url);
  await person.post('/sign-in', { email: owner.email, password: PASSWORD });
  assert.equal((await person.post('/sign-in/code', { kind: 'backup_code', code: backupCodes[0] })).status, 200);
  assert.equal((await person.get('/test/me')).status, 200);
  const again = new Person(app.url);
  await again.post('/sign-in', { email: owner.email, password: PASSWORD });
  assert.equal((await again.post('/sign-in/code', { kind: 'backup_code', code: backupCodes[0] })).status, 401);
  assert.equal((await again.get('/test/me')).status, 401);
});

test('no route of the sign-in library is reachable directly', async () => {
  for (const path of [
    'unmounted/get-session',
    'unmounted/sign-up/email',
    'auth/sign-up/email',
    'auth/two-factor/disable',
    'unmounted/update-user',
  ]) {
    for (const method of ['GET', 'POST']) {
      const reply = await fetch(`${app.url}/dashboard/api/${path}`, { method, headers: { 'x-florin-dashboard': '1' } });
      assert.ok(reply.status === 404 || reply.status === 405, `${method} ${path}: ${reply.status}`);
    }
  }
});

test('writes from other sites are refused', async () => {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ email: owner.email, password: PASSWORD });
  const send = (more: Record<string, string>) =>
    fetch(`${app.url}/dashboard/api/sign-in`, { method: 'POST', headers: { ...headers, ...more }, body });
  assert.equal((await send({})).status, 403);
  assert.equal((await send({ 'x-florin-dashboard': '1', origin: 'https://evil.example' })).status, 403);
  assert.equal((await send({ 'x-florin-dashboard': '1', origin: 'null' })).status, 403);
  assert.equal((await send({ 'x-florin-dashboard': '1', origin: 'http://localhost:3000' })).status, 200);
});

test('password guessing is limited', async () => {
  const statuses: number[] = [];
  // The minute may end once in between.
  for (let i = 0; i < 28 && statuses.at(-1) !== 429; i++)
    statuses.push((await new Person(app.url).post('/sign-in', { email: 'x@shop.example', password: 'guess guess guess' })).status);
  assert.equal(statuses.at(-1), 429);
  assert.equal(
    (await new Person(app.url).post('/sign-in?again=1', { email: 'x@shop.example', password: 'guess guess guess' })).status,
    429,
  );
});

test('a person who sends too many requests is limited, colleagues at the same address are not', async () => {
  const apart = await startTestApp({ LOG_LEVEL: 'silent' });
  try {
    const person = await setUpPerson(apart);
    const statuses = new Set<number>();
    for (let i = 0; i < 61; i++)
      for (const { status } of await Promise.all(Array.from({ length: 20 }, () => person.get('/test/keys')))) statuses.add(status);
    assert.deepEqual([...statuses].sort(), [200, 429]);
    assert.equal((await new Person(apart.url).get('/test/keys')).status, 401);
  } finally {
    await apart.stop();
  }
});
