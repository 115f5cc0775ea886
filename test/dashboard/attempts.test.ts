/** Limits of signing in: by network, without a password hash for a made-up link, and never against the person whom strangers imitate. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { clientNetwork } from '../../src/core/networks.ts';
import { authOf } from '../../src/sign-in/sign-in.ts';
import { rememberBrowser } from '../../src/sign-in/trusted-devices.ts';
import { openLimits } from '../../src/transport/limits.ts';
import { countAttempts, DASHBOARD_ROUTES } from '../../src/web/dashboard/serve.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { invitationToken, type MailServer } from '../kit/mail.ts';
import { type MailShop, openMailShop } from '../kit/mail-shop.ts';
import { SoftwareKey } from '../kit/passkey.ts';
import { freshTotp, Person, setUpPerson, totp } from '../kit/person.ts';

const OWNER = 'olga@shop.example';
const WRONG = 'not the password at all';
let shop: MailShop | undefined;
let app: TestApp;
let mail: MailServer;
let owner: Person;
let networks = 0;
const sql = () => app.app.ctx.db.sql;
const ok = async (reply: Promise<Reply>) => {
  const { status, text, json } = await reply;
  assert.equal(status, 200, text);
  return json;
};
/** A new network for each: strangers have many. */
const somebody = (): Person => Object.assign(new Person(app.url), { address: `2001:db8:${(++networks).toString(16)}::1` });
const guess = (email = OWNER) => somebody().post('/sign-in', { email, password: WRONG });
const statusesOf = async (n: number, send: (i: number) => Promise<Reply>): Promise<number[]> => {
  const statuses: number[] = [];
  for (let i = 0; i < n; i++) statuses.push((await send(i)).status);
  return statuses;
};
const distinctOf = <T>(values: readonly T[]): T[] => [...new Set(values)].sort();

before(async () => {
  shop = await openMailShop();
  ({ app, mail, owner } = shop);
  await sql()`update users set email_verified = true`;
});
after(() => shop?.close());
beforeEach(async () => {
  mail.mails.splice(0);
  await sql()`delete from mails`;
});

/** Another member, with a browser that has signed in. */
async function join(name: string): Promise<{ person: Person; email: string }> {
  const email = `${name}@shop.example`;
  await sql()`update sessions set confirmed_at = clock_timestamp()`;
  await ok(owner.post('/test/team/invites', { email, role: 'viewer' }));
  const person = somebody();
  await ok(person.post('/invite/accept', { token: await invitationToken(app, mail, email), name, password: person.password }));
  return { person, email };
}

test('addresses of one IPv6 network are limited as one, on every route that accepts secrets', async () => {
  const attempts: readonly (readonly [path: string, body: (i: number) => object])[] = [
    ['/sign-in', (i) => ({ email: `x${i}@shop.example`, password: WRONG })],
    ['/forgot-password', (i) => ({ address: `x${i}@shop.example` })],
    ['/reset-password', () => ({ token: 'made up', password: WRONG })],
    ['/set-up', (i) => ({ token: 'made up', name: 'Eve', email: `x${i}@shop.example`, password: WRONG })],
    ['/invite', () => ({ token: 'made up' })],
    ['/invite/accept', () => ({ token: 'made up', name: 'Eve', password: WRONG })],
    ['/sign-in/code', () => ({ kind: 'totp', code: '000000' })],
    ['/sign-in/passkey', () => ({ response: {} })],
    ['/sign-in/passkey/options', () => ({})],
    ['/confirm-email', () => ({ token: 'made up' })],
    ['/verify-email', () => ({ token: 'made up' })],
  ];
  for (const [n, [path, body]] of attempts.entries()) {
    const from = (i: number) => Object.assign(new Person(app.url), { address: `2001:db8:aaaa:${n}::${i.toString(16)}` });
    const statuses = await statusesOf(60, (i) => from(i).post(path, body(i)));
    // A minute may end once in between.
    assert.ok(statuses.filter((status) => status !== 429).length <= 40, `${path}: ${statuses}`);
    const elsewhere = Object.assign(new Person(app.url), { address: `2001:db8:aaab:${n}::1` });
    assert.notEqual((await elsewhere.post(path, body(99))).status, 429, `${path}: another network`);
  }
});

test('an IPv4 address is one client, however it is written', async () => {
  const forms = ['198.51.100.7', '::ffff:198.51.100.7', '::FFFF:c633:6407', '0:0:0:0:0:ffff:c633:6407'];
  const statuses = await statusesOf(44, (i) =>
    Object.assign(new Person(app.url), { address: forms[i % 4]! }).post('/invite', { token: 'made up' }),
  );
  assert.ok(statuses.filter((status) => status !== 429).length <= 20, String(statuses));
  const other = Object.assign(new Person(app.url), { address: '::ffff:198.51.100.8' });
  assert.equal((await other.post('/invite', { token: 'made up' })).status, 404);
});

test('a made-up link costs no password hash', async () => {
  const { password } = await (await authOf(app.app.ctx)).$context;
  const real = password.hash;
  let hashes = 0;
  password.hash = (text) => {
    hashes++;
    return real(text);
  };
  try {
    const token = 'a'.repeat(32);
    assert.deepEqual(distinctOf(await statusesOf(60, () => somebody().post('/reset-password', { token, password: WRONG }))), [404]);
    const fresh = { name: 'Eve', email: 'eve@shop.example', password: WRONG };
    assert.deepEqual(distinctOf(await statusesOf(60, () => somebody().post('/set-up', { token, ...fresh }))), [404]);
    assert.deepEqual(distinctOf(await statusesOf(60, () => somebody().post('/invite/accept', { token, ...fresh }))), [404]);
    assert.equal(hashes, 0);
    await join('real');
    assert.equal(hashes, 1, 'a real one costs one');
  } finally {
    password.hash = real;
  }
});

test('wrong passwords of strangers never refuse the person in a known browser, nor a passkey, and others are slowed down', async () => {
  const { person, email } = await join('lena');
  const key = new SoftwareKey();
  const made = await ok(person.post('/test/passkeys/options'));
  await ok(person.post('/test/passkeys', { name: 'Phone', response: key.register(made.options) }));
  await ok(person.post('/sign-out'));
  assert.deepEqual(distinctOf(await statusesOf(24, () => guess(email))), [401]);
  // Also from the person's own network, which is an office.
  const colleague = () => Object.assign(new Person(app.url), { address: person.address });
  await sql()`delete from known_browsers`;
  const tried = await Promise.all(Array.from({ length: 21 }, () => colleague().post('/sign-in', { email, password: WRONG })));
  assert.ok(tried.some(({ status }) => status === 429));
  await ok(person.post('/sign-in', { email, password: person.password }));
  await ok(person.get('/test/me'));
  const phone = somebody();
  const { options } = await ok(phone.post('/sign-in/passkey/options'));
  await ok(phone.post('/sign-in/passkey', { response: key.signIn(options) }));
  // In a browser that is not known the person waits, but gets in.
  await ok(somebody().post('/sign-in', { email, password: person.password }));
});

test('a flood from a hundred networks keeps out strangers only: not a browser with the cookie, nor one by its network and name', async () => {
  const { person, email } = await join('nora');
  const log = app.app.ctx.log;
  const limits = await openLimits({ redisUrl: null, log });
  const { takeAttempt } = countAttempts(app.app.ctx, { limits });
  const route = DASHBOARD_ROUTES.find(({ path }) => path === '/sign-in')!;
  const attempt = (cookie: string, ip: string) =>
    takeAttempt(route, { visitor: { cookie, ip, userAgent: 'node' }, signedIn: null, network: clientNetwork(ip), account: email }).then(
      () => 'counted',
      ({ code }) => String(code),
    );
  const flood = await Promise.all(Array.from({ length: 100 }, (_, n) => attempt('', `198.18.0.${n}`)));
  assert.deepEqual(distinctOf(flood), ['counted']);
  assert.equal(await attempt('', '198.18.1.1'), 'rate_limit_exceeded');
  const { address, cookie } = person;
  assert.equal(await attempt(cookie, '198.18.1.2'), 'counted', 'with the cookie');
  assert.equal(await attempt('', address), 'counted', 'from the network');
  const [link] = rememberBrowser(app.app.ctx, { from: { cookie: '', ip: '', userAgent: '' }, email }).split(';');
  assert.equal(await attempt(link!, '198.18.1.3'), 'counted', 'after a link for a new password');
  assert.equal(await attempt(link!.replace(/~?[\w-]$/, '!'), '198.18.1.4'), 'rate_limit_exceeded', 'not with a changed one');
  await limits.close();
});

test('the cookie of a known browser counts for its account only, gives no access, and its attempts are limited', async () => {
  const { person, email } = await join('mara');
  await ok(person.post('/sign-out'));
  const known = person.cookie;
  assert.match(known, /florin\.known_browser=/);
  assert.equal((await person.get('/test/me')).status, 401);
  await sql()`delete from known_browsers`;
  const thief = () => Object.assign(somebody(), { cookie: known });
  const own = await statusesOf(21, () => thief().post('/sign-in', { email, password: WRONG }));
  assert.ok(own.includes(429), String(own));
  assert.equal((await guess(email)).status, 401, 'strangers are counted apart');
  // For another account, or changed, it is worth nothing: there the strangers' limit of a network counts.
  const mallory = { email: OWNER, password: WRONG };
  const home = somebody().address;
  const at = (cookie: string) => Object.assign(new Person(app.url), { address: home, cookie });
  await statusesOf(10, () => at('').post('/sign-in', mallory));
  const forged = known.replace(/(\d+)\.(\w)/, (_, day, first) => `${day}.${first === 'a' ? 'b' : 'a'}`);
  for (const cookie of [known, forged]) {
    const statuses = await statusesOf(11, () => at(cookie).post('/sign-in', mallory));
    assert.ok(statuses.includes(429), cookie);
  }
});

test('a link for a new password makes its browser known', async () => {
  const { email } = await join('rita');
  const phone = somebody();
  await ok(phone.post('/forgot-password', { address: email }));
  const token = await eventually(
    async () => mail.mails.flatMap(({ text }) => /reset-password#(\w{32})/.exec(text)?.[1] ?? [])[0] ?? '',
    (found) => found !== '',
  );
  await ok(phone.post('/reset-password', { token, password: 'a newly chosen password' }));
  assert.match(phone.cookie, /florin\.known_browser=/);
  assert.equal((await phone.get('/test/me')).status, 401, 'which gives no access');
});

test('a stranger who asks for reset links takes none from the person: each link stays valid, and a known browser has its own', async () => {
  const { person, email } = await join('sara');
  const linksTo = () => mail.mails.flatMap(({ to, text }) => (to[0] === email ? (/reset-password#(\w{32})/.exec(text)?.[1] ?? []) : []));
  const links = (n: number) =>
    eventually(
      async () => linksTo(),
      (found) => found.length === n,
    );
  for (let i = 0; i < 5; i++) await ok(somebody().post('/forgot-password', { address: email }));
  await links(1);
  await ok(person.post('/forgot-password', { address: email }));
  const [, own] = await links(2);
  await sql()`update password_resets set asked_at = asked_at - interval '16 minutes'`;
  await ok(somebody().post('/forgot-password', { address: email }));
  await links(3);
  await ok(person.post('/reset-password', { token: own, password: 'a newly chosen password' }));
});

test('nobody uses up the attempts of a sign-in that waits for a code, nor those of a person who confirms', async () => {
  const { person, email } = await join('tina');
  const begun = await ok(person.post('/test/second-factor', { password: person.password }));
  const secret = new URL(begun.uri).searchParams.get('secret')!;
  await ok(person.post('/test/second-factor/finish', { code: totp(secret) }));
  const office = person.address;
  const stranger = () => Object.assign(new Person(app.url), { address: office });
  const half = Object.assign(new Person(app.url), { address: office });
  await ok(half.post('/sign-in', { email, password: person.password }));
  const codes = await statusesOf(21, () => stranger().post('/sign-in/code', { kind: 'totp', code: '000000' }));
  assert.ok(codes.includes(429));
  await ok(half.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret) }));
  const confirmations = await statusesOf(11, () => stranger().post('/test/confirm', { code: '000000' }));
  assert.ok(confirmations.includes(429) || distinctOf(confirmations).join() === '401', String(confirmations));
  await ok(half.post('/test/confirm', { code: await freshTotp(app, secret) }));
  // Guesses of the sign-in itself are limited.
  const guesses = Object.assign(somebody(), { cookie: '' });
  await ok(guesses.post('/sign-in', { email, password: person.password }));
  assert.ok((await statusesOf(11, () => guesses.post('/sign-in/code', { kind: 'totp', code: '000000' }))).includes(429));
});

test('a made-up set-up link uses up nobody’s attempts', async () => {
  const { email } = await join('uma');
  const fresh = { token: 'made up', name: 'Eve', email, password: WRONG };
  await statusesOf(24, () => somebody().post('/set-up', fresh));
  assert.equal((await guess(email)).status, 401);
});

test('over HTTPS the cookie of a known browser is Secure', async () => {
  const apart = await startTestApp({ LOG_LEVEL: 'silent', PUBLIC_URL: 'https://pay.example', TRUSTED_PROXIES: '127.0.0.0/8' });
  const { fetch: plain } = globalThis;
  globalThis.fetch = (url, init) => plain(url, { ...init, headers: { ...init?.headers, 'x-forwarded-proto': 'https' } });
  try {
    const person = await setUpPerson(apart);
    assert.match(person.cookie, /__Secure-florin\.known_browser=/);
  } finally {
    globalThis.fetch = plain;
    await apart.stop();
  }
});
