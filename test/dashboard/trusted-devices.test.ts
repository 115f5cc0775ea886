/** Trusted devices: what they replace, and that they replace nothing else, over HTTP and a real mail server. */
// Invariant: A trusted device is created only with a code, replaces only the code, and ends when sign-in requirements change.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { changeFromJson } from '../../src/people/members.ts';
import { resetPassword } from '../../src/sign-in/account.ts';
import { endTrust, trustDevice } from '../../src/sign-in/trusted-devices.ts';
import { eventually, type TestApp } from '../kit/app.ts';
import { invitationToken, type MailServer } from '../kit/mail.ts';
import { type MailShop, openMailShop } from '../kit/mail-shop.ts';
import { freshTotp, Person, totp } from '../kit/person.ts';

let shop: MailShop | undefined;
let app: TestApp;
let owner: Person;
let mail: MailServer;
const COOKIE = 'florin.trusted_device';
const DAY = 86_400_000;
const sql = () => app.app.ctx.db.sql;
/** Each from a separate IP address, because the limits are not tested here. */
let addresses = 0;
const somebody = () => Object.assign(new Person(app.url), { address: `203.0.113.${++addresses}` });

type Member = { person: Person; email: string; secret: string; backupCodes: string[] };
/** A member with two-factor authentication, signed in. */
async function member(name: string): Promise<Member> {
  const email = `${name}@shop.example`;
  await sql()`update sessions set confirmed_at = clock_timestamp() where user_id = (select id from users where email = 'olga@shop.example')`;
  await owner.post('/test/team/invites', { email, role: 'admin' });
  const person = somebody();
  const token = await invitationToken(app, mail, email);
  const joined = await person.post('/invite/accept', { token, name, password: person.password });
  assert.equal(joined.status, 200, joined.text);
  const begun = await person.post('/test/second-factor', { password: person.password });
  const secret = new URL(begun.json.uri).searchParams.get('secret')!;
  assert.equal((await person.post('/test/second-factor/finish', { code: totp(secret) })).status, 200);
  return { person, email, secret, backupCodes: begun.json.backup_codes };
}
const signIn = (person: Person, { email }: Member, password = person.password) => person.post('/sign-in', { email, password });
/** A browser in which the member signs in and trusts the device. */
async function trusted(who: Member): Promise<Person> {
  const browser = somebody();
  assert.equal((await signIn(browser, who)).json.needs_second_factor, true);
  const reply = await browser.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, who.secret), trust_device: true });
  assert.equal(reply.status, 200, reply.text);
  assert.ok(browser.cookie.includes(COOKIE));
  return browser;
}
const tokenIn = (person: Person): string => new RegExp(`${COOKIE}=([^;]+)`).exec(person.cookie)![1]!;
/** The same browser without its session, as after closing and reopening it. */
const comingBack = (from: Person): Person => Object.assign(somebody(), { cookie: `${COOKIE}=${tokenIn(from)}` });
const isAsked = async (browser: Person, who: Member, password?: string): Promise<boolean> => {
  const back = comingBack(browser);
  const reply = await signIn(back, who, password);
  assert.equal(reply.status, 200, reply.text);
  assert.equal((await back.get('/test/me')).status, reply.json.needs_second_factor ? 401 : 200);
  return reply.json.needs_second_factor;
};
const devicesOf = ({ email }: Member) => sql()`
  select d.* from trusted_devices d join users u on u.id = d.user_id where u.email = ${email}`;
const audited = async (action: string) => {
  const rows = await sql()<{ actor: string; after: unknown; ip: string }[]>`
    select actor_name as actor, after, ip from audit_log where action = ${action} order by id desc`;
  return rows.map((row) => ({ ...row, after: changeFromJson(row.after) }));
};

before(async () => {
  shop = await openMailShop();
  ({ app, mail, owner } = shop);
});
after(() => shop?.close());

test('a browser that was trusted with a correct code is asked only for the password, for thirty days', async () => {
  const ada = await member('ada');
  const browser = somebody();
  await signIn(browser, ada);
  const reply = await browser.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, ada.secret), trust_device: true });
  const line = reply.headers.getSetCookie().find((one) => one.startsWith(`${COOKIE}=`))!;
  assert.match(line, /^florin\.trusted_device=\w{43}; Max-Age=2592000; Path=\/dashboard\/api; HttpOnly; SameSite=Lax$/);
  assert.equal(await isAsked(browser, ada), false);
  assert.deepEqual((await audited('session.started'))[0]!.after, { how: 'password on a trusted device' });
  assert.equal(
    (await signIn(comingBack(browser), ada, 'not the password')).json.error.code,
    'sign_in_failed',
    'never without the password',
  );
});

test('its token is stored as a hash, with a fixed end that using it does not move', async () => {
  const bea = await member('bea');
  const browser = await trusted(bea);
  const token = tokenIn(browser);
  const [device] = await devicesOf(bea);
  assert.deepEqual(Buffer.from(device!.token_hash), createHash('sha256').update(token).digest());
  assert.ok(!JSON.stringify(device).includes(token));
  assert.equal(Math.round((device!.expires_at - device!.created_at) / DAY), 30);
  await sql()`
    update trusted_devices set expires_at = clock_timestamp() + interval '2 hours', used_at = used_at - interval '1 day' where id = ${device!.id}`;
  const [soon] = await devicesOf(bea);
  assert.equal(await isAsked(browser, bea), false);
  const [used] = await devicesOf(bea);
  assert.equal(used!.expires_at.getTime(), soon!.expires_at.getTime());
  assert.ok(used!.used_at > soon!.used_at);
  await sql()`update trusted_devices set expires_at = clock_timestamp() where id = ${device!.id}`;
  assert.equal(await isAsked(browser, bea), true, 'after its end');
});

test('a device is not trusted without a request, with a wrong code, or with a backup code', async () => {
  const cleo = await member('cleo');
  const browser = somebody();
  await signIn(browser, cleo);
  assert.equal((await browser.post('/sign-in/code', { kind: 'totp', code: '000000', trust_device: true })).status, 401);
  const byPaper = await browser.post('/sign-in/code', { kind: 'backup_code', code: cleo.backupCodes[0], trust_device: true });
  assert.equal(byPaper.status, 200, byPaper.text);
  await signIn(browser, cleo);
  assert.equal((await browser.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, cleo.secret) })).status, 200);
  assert.ok(!browser.cookie.includes(COOKIE));
  assert.equal((await devicesOf(cleo)).length, 0);
});

test('an invented, a foreign and an expired token get the same reply as none', async () => {
  const [dora, eva] = [await member('dora'), await member('eva')];
  const ofDora = await trusted(dora);
  const expired = await trusted(eva);
  await sql()`update trusted_devices set expires_at = clock_timestamp() where token_hash = ${createHash('sha256').update(tokenIn(expired)).digest()}`;
  const answers = [];
  for (const cookie of ['', `${COOKIE}=${'x'.repeat(43)}`, `${COOKIE}=${tokenIn(ofDora)}`, `${COOKIE}=${tokenIn(expired)}`]) {
    const browser = Object.assign(somebody(), { cookie });
    const reply = await signIn(browser, eva);
    const names = reply.headers.getSetCookie().map((line) => line.split('=')[0]);
    answers.push(JSON.stringify([reply.status, reply.json, names]));
    assert.equal((await browser.get('/test/me')).status, 401);
    assert.equal((await browser.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, eva.secret) })).status, 200);
  }
  assert.equal(new Set(answers).size, 1, answers.join('\n'));
  assert.equal(await isAsked(ofDora, dora), false, 'it stays good for whom it belongs to');
});

test('signing in from a trusted device is not recent authentication: risky actions require a code, and the password is not enough', async () => {
  const fay = await member('fay');
  const back = comingBack(await trusted(fay));
  assert.equal((await signIn(back, fay)).json.needs_second_factor, false);
  const risky = () => back.post('/test/second-factor/remove');
  assert.equal((await risky()).json.error.code, 'recent_authentication_required');
  assert.equal((await back.post('/test/passkeys/options')).json.error.code, 'recent_authentication_required');
  const silence = (kind: string) => back.post('/test/notice-settings', { kind, in_app: true, email: false });
  for (const kind of ['sign_in', 'device_trusted', 'wallet_changed']) {
    assert.equal((await silence(kind)).json.error.code, 'recent_authentication_required', kind);
    const hidden = await back.post('/test/notice-settings', { kind, in_app: false, email: true });
    assert.equal(hidden.json.error?.code, 'recent_authentication_required', kind);
  }
  assert.equal((await silence('payment_attention')).status, 200);
  assert.equal((await back.post('/test/confirm', { password: back.password })).json.error.code, 'second_factor_invalid');
  assert.equal((await risky()).json.error.code, 'recent_authentication_required');
  assert.equal((await back.post('/test/confirm', { code: await freshTotp(app, fay.secret) })).status, 200);
  assert.equal((await silence('sign_in')).status, 200);
  assert.equal((await risky()).status, 200);
});

test('any change to what a sign-in requires ends every trusted device', async () => {
  const gil = await member('gil');
  const ctx = app.app.ctx;
  const confirm = async (person: Person) =>
    assert.equal((await person.post('/test/confirm', { code: await freshTotp(app, gil.secret) })).status, 200);
  let password = gil.person.password;
  const acts: Record<string, (at: Person) => Promise<unknown>> = {
    'all sessions revoked': (at) => at.send('DELETE', '/test/sessions', {}),
    'new backup codes': (at) => at.post('/test/backup-codes', { password }),
    'a new password': (at) => at.post('/test/password', { password, new_password: 'a better long password' }),
    'a password reset by the operator': () => resetPassword(ctx, { email: gil.email, keepFactors: true }),
    'turning two-factor authentication off and on again': async (at) => {
      assert.equal((await at.post('/test/second-factor/remove')).status, 200);
      assert.equal((await devicesOf(gil)).length, 0, 'turned off');
      const begun = await at.post('/test/second-factor', { password });
      gil.secret = new URL(begun.json.uri).searchParams.get('secret')!;
      return at.post('/test/second-factor/finish', { code: totp(gil.secret) });
    },
  };
  for (const [name, act] of Object.entries(acts)) {
    const browsers = [];
    for (let i = 0; i < 2; i++) {
      const browser = somebody();
      await signIn(browser, gil, password);
      const code = await freshTotp(app, gil.secret);
      assert.equal((await browser.post('/sign-in/code', { kind: 'totp', code, trust_device: true })).status, 200, name);
      browsers.push(browser);
    }
    assert.equal((await devicesOf(gil)).length, 2, name);
    await confirm(browsers[0]!);
    const done = (await act(browsers[0]!)) as { status?: number; password?: string };
    assert.ok(done.status === undefined || done.status === 200, name);
    if (name === 'a new password') password = 'a better long password';
    password = done.password ?? password;
    assert.equal((await devicesOf(gil)).length, 0, name);
    for (const browser of browsers) assert.equal(await isAsked(browser, gil, password), true, name);
    if (name === 'a password reset by the operator')
      for (const browser of browsers) assert.equal((await browser.get('/test/me')).status, 401, 'sessions end too');
    // The limit of an account is twenty a minute.
    await sql()`update users set email = ${`gil.${Object.keys(acts).indexOf(name)}@shop.example`} where email = ${gil.email}`;
    gil.email = `gil.${Object.keys(acts).indexOf(name)}@shop.example`;
  }
  assert.deepEqual(
    (await audited('password.reset')).map((row) => row.actor),
    ['operator command'],
  );
});

test('a trusted device is listed with browser, address, times and end, and only its owner can remove it; both actions are logged and sent by email', async () => {
  const [hal, ira] = [await member('hal'), await member('ira')];
  const browser = await trusted(hal);
  const listed = (await browser.get('/test/security')).json.trusted_devices;
  assert.equal(listed.length, 1);
  const { id, ip, current, created_at, expires_at } = listed[0];
  assert.deepEqual([ip, current], [browser.address, true]);
  assert.equal(Date.parse(expires_at) - Date.parse(created_at), 30 * DAY);
  assert.equal((await hal.person.get('/test/security')).json.trusted_devices[0].current, false);
  assert.deepEqual({ ...(await audited('device.trusted'))[0] }, { actor: 'hal', after: { days: 30 }, ip: browser.address });
  await eventually(
    async () => mail.mails.filter((one) => /can sign in without a code for 30 days/.test(one.text) && one.to[0] === hal.email).length,
    (n) => n === 1,
  );
  assert.equal((await ira.person.send('DELETE', `/test/trusted-devices/${id}`, {})).json.error.code, 'device_not_found');
  assert.equal((await browser.send('DELETE', `/test/trusted-devices/${id}`, {})).status, 200);
  assert.equal((await audited('device.forgotten'))[0]!.actor, 'hal');
  assert.equal(await isAsked(browser, hal), true);
});

test('where two-factor authentication is required, signing in from a trusted device satisfies it', async () => {
  const jan = await member('jan');
  await sql()`update merchants set second_factor_required = true`;
  const back = comingBack(await trusted(jan));
  assert.equal((await signIn(back, jan)).json.needs_second_factor, false);
  assert.equal((await back.get('/test/payments')).status, 200);
  assert.equal((await back.get('/test/me')).json.must_set_second_factor, false);
  await sql()`update merchants set second_factor_required = false`;
});

test('attempts are limited on a trusted device as elsewhere, also with the right password', async () => {
  const kim = await member('kim');
  const browser = await trusted(kim);
  const statuses = [];
  const back = comingBack(browser);
  for (let i = 0; i < 11; i++)
    statuses.push(
      (
        await Object.assign(back, { cookie: `${COOKIE}=${tokenIn(browser)}` }).post('/sign-in', {
          email: kim.email,
          password: i < 10 ? 'guess guess guess' : kim.person.password,
        })
      ).status,
    );
  assert.deepEqual([...new Set(statuses.slice(0, 10))], [401]);
  assert.equal(statuses[10], 429);
});

test('a device is not trusted by a session that has ended, or once two-factor authentication is off', async () => {
  const lee = await member('lee');
  const { ctx } = app.app;
  const [row] = await sql()`select u.id, s.token from sessions s join users u on u.id = s.user_id where u.email = ${lee.email} limit 1`;
  const trust = (token: string) =>
    trustDevice(ctx, { actor: { userId: row!.id, name: 'lee', ip: '' }, from: { cookie: '', ip: '', userAgent: '' }, token });
  assert.equal(await trust('no session'), null);
  assert.notEqual(await trust(row!.token), null);
  await sql()`update users set two_factor_enabled = false where id = ${row!.id}`;
  assert.equal(await trust(row!.token), null);
  assert.equal((await devicesOf(lee)).length, 1);
});

test('a sign-in waits for a concurrent change that ends the trust, and is asked for a code', async () => {
  const noa = await member('noa');
  const browser = await trusted(noa);
  const [user] = await sql()`select id from users where email = ${noa.email}`;
  let asked: Promise<boolean> | null = null;
  await app.app.ctx.db.begin(async (tx) => {
    await endTrust(tx, { userId: user!.id });
    asked = isAsked(browser, noa);
    await eventually(
      async () =>
        Number(
          (await sql()`select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)[0]!.n,
        ),
      (n) => n > 0,
    );
  });
  assert.equal(await asked, true);
});

test('trusting a device waits for a concurrent change that ends its session, and then fails', async () => {
  const pia = await member('pia');
  const { ctx } = app.app;
  const [row] = await sql()`select u.id, s.token from sessions s join users u on u.id = s.user_id where u.email = ${pia.email} limit 1`;
  let trusting: Promise<string | null> | null = null;
  await ctx.db.begin(async (tx) => {
    await endTrust(tx, { userId: row!.id });
    const actor = { userId: row!.id, name: 'pia', ip: '' };
    trusting = trustDevice(ctx, { actor, from: { cookie: '', ip: '', userAgent: '' }, token: row!.token });
    let isOver = false;
    void trusting.finally(() => {
      isOver = true;
    });
    await eventually(
      async () =>
        isOver || (await sql()`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`).length > 0,
      (seen) => seen,
    );
    await tx`delete from sessions where user_id = ${row!.id}`;
  });
  assert.equal(await trusting, null);
  assert.equal((await devicesOf(pia)).length, 0);
});

test("over HTTPS its cookie is Secure, like the session's; twenty are kept", async () => {
  const mia = await member('mia');
  const ctx = { ...app.app.ctx, settings: { ...app.app.ctx.settings, publicUrl: 'https://pay.shop.example' } };
  const [row] = await sql()`select u.id, s.token from sessions s join users u on u.id = s.user_id where u.email = ${mia.email} limit 1`;
  const lines = [];
  for (let i = 0; i < 22; i++)
    lines.push(
      await trustDevice(ctx, {
        actor: { userId: row!.id, name: 'mia', ip: '' },
        from: { cookie: '', ip: `192.0.2.${i}`, userAgent: '' },
        token: row!.token,
      }),
    );
  for (const line of lines) assert.match(line!, /^__Secure-florin\.trusted_device=\w{43}; .*; Secure$/);
  assert.equal(new Set(lines).size, 22);
  const kept = (await devicesOf(mia)).map((device) => device.ip);
  assert.equal(kept.length, 20);
  assert.ok(!kept.includes('192.0.2.0') && !kept.includes('192.0.2.1'));
});
