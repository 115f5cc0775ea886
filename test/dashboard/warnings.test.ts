/** Emails about changes to an account or business, from a real mail server: changes that only an attacker would want to hide. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { createApiKey } from '../../src/keys/keys.ts';
import { planUpdate } from '../../src/webhooks/endpoints.ts';
import { eventually, type TestApp } from '../kit/app.ts';
import { invitationToken, type MailServer, type Received } from '../kit/mail.ts';
import { type MailShop, openMailShop } from '../kit/mail-shop.ts';
import { SoftwareKey } from '../kit/passkey.ts';
import { freshTotp, Person, totp } from '../kit/person.ts';

const OWNER = 'olga@shop.example';
let shop: MailShop | undefined;
let app: TestApp;
let mail: MailServer;
let owner: Person;
const sql = () => app.app.ctx.db.sql;
/** A mail with these words, once it has arrived. */
const mailed = (words: RegExp, to = OWNER): Promise<Received> =>
  eventually(
    async () => mail.mails.find((one) => words.test(one.text) && one.to[0] === to),
    (one) => one !== undefined,
  ) as Promise<Received>;
/** Nobody has a mail with these words, and none is waiting. */
const notMailed = async (words: RegExp): Promise<void> =>
  assert.deepEqual(
    (await sql()<{ subject: string }[]>`select subject from mails`).filter(({ subject }) => words.test(subject)),
    [],
  );
const ok = async (reply: Promise<{ status: number; text: string; json: any }>) => {
  const { status, text, json } = await reply;
  assert.equal(status, 200, text);
  return json;
};

before(async () => {
  shop = await openMailShop();
  ({ app, mail, owner } = shop);
});
after(() => shop?.close());
let addresses = 0;
beforeEach(async () => {
  mail.mails.splice(0);
  await sql()`delete from mails`;
  // The limits of an address and of a person are per minute.
  owner.address = `203.0.113.${++addresses}`;
});

test('a passkey that did not verify its user is not added: it could never sign in', async () => {
  const { options } = await ok(owner.post('/test/passkeys/options'));
  const response = new SoftwareKey().register(options, { verified: false });
  const refused = await owner.post('/test/passkeys', { name: 'Old stick', response });
  assert.deepEqual([refused.status, refused.json.error.code], [400, 'passkey_refused']);
  assert.deepEqual((await ok(owner.get('/test/security'))).passkeys, []);
});

test('adding or removing a passkey is notified by email, with its name and the IP address', async () => {
  const key = new SoftwareKey();
  const { options } = await ok(owner.post('/test/passkeys/options'));
  await ok(owner.post('/test/passkeys', { name: 'Work laptop', response: key.register(options) }));
  const added = await mailed(/The passkey “Work laptop” was added to your account/);
  assert.match(added.text, new RegExp(`from ${owner.address}\\.`));
  assert.match(added.text, /If this wasn’t you/);
  assert.match(added.text, /always sent/);
  const { passkeys } = await ok(owner.get('/test/security'));
  await ok(owner.send('DELETE', `/test/passkeys/${passkeys[0].id}`, {}));
  await mailed(/The passkey “Work laptop” was removed from your account/);
  assert.match((await owner.get('/test/notices')).json.data[0].text, /was removed from your account/);
});

test('turning two-factor authentication on or off, new backup codes and a new password are notified by email', async () => {
  const { uri } = await ok(owner.post('/test/second-factor', { password: owner.password }));
  await notMailed(/Two-factor authentication/);
  await ok(owner.post('/test/second-factor/finish', { code: totp(new URL(uri).searchParams.get('secret')!) }));
  await mailed(/Two-factor authentication was turned on for your account/);
  await ok(owner.post('/test/backup-codes', { password: owner.password }));
  await mailed(/The backup codes of your account were replaced/);
  await ok(owner.post('/test/second-factor/remove'));
  await mailed(/Two-factor authentication was turned off for your account/);
  await ok(owner.post('/test/password', { password: owner.password, new_password: 'a better long password' }));
  await mailed(/The password of your account was changed/);
  await ok(owner.post('/test/password', { password: 'a better long password', new_password: owner.password }));
  await eventually(
    async () => mail.mails.filter((one) => /password of your account was changed/.test(one.text)).length,
    (n) => n === 2,
  );
});

// Invariant: People get an email about changes to how they sign in, and an attacker cannot turn it off.
test('emails about sign-in methods cannot be turned off, not even with recent authentication', async () => {
  const before = (await ok(owner.get('/test/notice-settings'))).settings;
  for (const kind of ['account_changed', 'codes_failed']) {
    assert.equal(before.find((one: any) => one.kind === kind).email_always, true);
    const refused = await owner.post('/test/notice-settings', { kind, in_app: true, email: false });
    assert.deepEqual([refused.status, refused.json.error.code, refused.json.error.param], [400, 'parameter_invalid', 'email']);
    await ok(owner.post('/test/notice-settings', { kind, in_app: false, email: true }));
  }
  // A row from an older version or another source changes nothing.
  await sql()`update notice_settings set email = false where kind = 'account_changed'`;
  assert.equal((await ok(owner.get('/test/notice-settings'))).settings.find((one: any) => one.kind === 'account_changed').email, true);
  await ok(owner.post('/test/password', { password: owner.password, new_password: owner.password }));
  await mailed(/The password of your account was changed/);
  await sql()`delete from notice_settings`;
});

test('in an old session no email can be turned off that warns of what somebody did in the name of another', async () => {
  await sql()`update sessions set created_at = created_at - interval '11 minutes', confirmed_at = null`;
  for (const kind of [
    'team_changed',
    'operator_changed',
    'sign_in',
    'device_trusted',
    'wallet_changed',
    'endpoint_changed',
    'key_created',
  ]) {
    const refused = await owner.post('/test/notice-settings', { kind, in_app: true, email: false });
    assert.deepEqual([refused.status, refused.json.error?.code], [403, 'recent_authentication_required'], kind);
  }
  await ok(owner.post('/test/notice-settings', { kind: 'usage', in_app: true, email: false }));
  await sql()`update sessions set confirmed_at = clock_timestamp()`;
  await sql()`delete from notice_settings`;
});

test('creating or rolling a live secret key is notified to owners and to the member who did it; test keys and public keys are not', async () => {
  const dev = await join('dev@shop.example', 'developer');
  const make = (mode: string, kind: string, name: string) =>
    dev.post(`/${mode}/keys`, { kind, name, expires_in_days: null, origins: [] }).then((reply) => ok(Promise.resolve(reply)));
  await make('test', 'secret', 'Test till');
  await make('live', 'public', 'Shop page');
  const { key } = await make('live', 'secret', 'Back office');
  for (const to of [OWNER, 'dev@shop.example']) await mailed(/dev created the live secret key “Back office”/, to);
  await notMailed(/Test till|Shop page/);
  mail.mails.splice(0);
  await sql()`delete from mails`;
  await ok(dev.post(`/live/keys/${key.id}/roll`, { ends: 'now' }));
  await mailed(/dev created the live secret key “Back office”/);
  await createApiKey(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'live', kind: 'secret', name: 'By command' });
  await mailed(/The operator created the live secret key “By command”/);
});

test('adding a live endpoint or changing its URL is notified to owners with its host only, whichever member did it', async () => {
  const dana = await join('dana@shop.example', 'developer');
  const add = await ok(dana.post('/live/webhooks', { url: 'https://127.0.0.1:9/hook?token=hidden', events: ['*'] }));
  const first = await mailed(/dana added a live webhook endpoint at 127\.0\.0\.1:9\./);
  await mailed(/dana added a live webhook endpoint/, 'dana@shop.example');
  assert.ok(!first.raw.includes('hidden'));
  const { id } = add.endpoint;
  await ok(dana.post(`/live/webhooks/${id}`, { url: 'https://127.0.0.1:10/hook' }));
  await mailed(/dana changed the URL of a live webhook endpoint from 127\.0\.0\.1:9 to 127\.0\.0\.1:10\./);
  await ok(dana.post(`/live/webhooks/${id}`, { url: 'https://127.0.0.1:10/hook', description: 'The shop' }));
  await ok(dana.post(`/live/webhooks/${id}`, { enabled: false }));
  assert.equal((await sql()`select 1 from notices where kind = 'endpoint_changed'`).length, 2, 'the same URL is no change');
  const byKey = await app.live.post(`/v1/webhook_endpoints/${id}`, { url: 'https://127.0.0.1:11/hook' });
  assert.equal(byKey.status, 200, byKey.text);
  await mailed(/API key “Secret key” changed the URL of a live webhook endpoint from 127\.0\.0\.1:10 to 127\.0\.0\.1:11\./);
  await ok(dana.post('/test/webhooks', { url: 'https://127.0.0.1:9/test', events: ['*'] }));
  const { ctx } = app.app;
  const write = await planUpdate(ctx, {
    merchantId: app.merchant.merchantId,
    mode: 'live',
    endpointId: id,
    url: 'https://127.0.0.1:11/two',
  });
  await ctx.db.begin(write);
  await mailed(/changed the URL of a live webhook endpoint at 127\.0\.0\.1:11\./);
  assert.equal((await sql()`select 1 from notices where kind = 'endpoint_changed'`).length, 4, 'test mode is not told');
});

/** A new team member, signed in. */
async function join(email: string, role: string): Promise<Person> {
  await ok(owner.post('/test/team/invites', { email, role }));
  const token = await invitationToken(app, mail, email);
  const person = Object.assign(new Person(app.url), { address: `198.51.100.${++addresses}` });
  await ok(person.post('/invite/accept', { token, name: email.split('@')[0], password: person.password }));
  return person;
}

/** A person with two-factor authentication, and a browser that has shown only the password. */
async function withCodes(name: string) {
  const person = await join(`${name}@shop.example`, 'viewer');
  const begun = await ok(person.post('/test/second-factor', { password: person.password }));
  await ok(person.post('/test/second-factor/finish', { code: totp(new URL(begun.uri).searchParams.get('secret')!) }));
  const secret = new URL(begun.uri).searchParams.get('secret')!;
  const half = async (): Promise<Person> => {
    const thief = Object.assign(new Person(app.url), { address: `192.0.2.${++addresses}` });
    await ok(thief.post('/sign-in', { email: `${name}@shop.example`, password: person.password }));
    return thief;
  };
  const of = () => sql()`select f.* from second_factors f join users u on u.id = f.user_id where u.name = ${name}`;
  return { person, secret, half, of, backupCodes: begun.backup_codes as string[], email: `${name}@shop.example` };
}
const guess = (at: Person, kind: 'totp' | 'backup_code' = 'totp') => at.post('/sign-in/code', { kind, code: '000000' });

test('the third wrong code after a correct password is notified by email, once; without the password there is no email', async () => {
  const { half, email, of } = await withCodes('gus');
  const stranger = Object.assign(new Person(app.url), { address: '192.0.2.250' });
  for (let i = 0; i < 4; i++) {
    assert.equal((await stranger.post('/sign-in', { email, password: 'not the password' })).status, 401);
    assert.equal((await guess(stranger)).status, 401);
  }
  assert.equal((await of())[0]!.failed_verification_count, 0, 'without the password nothing is counted');
  const thief = await half();
  for (let i = 0; i < 2; i++) assert.equal((await guess(thief)).status, 401);
  await notMailed(/wrong codes/);
  assert.equal((await guess(thief, 'backup_code')).status, 401, 'a wrong backup code counts as well');
  const told = await mailed(/who knows your password entered 3 wrong codes in a row\./, email);
  assert.ok(told.text.includes(thief.address));
  for (let i = 0; i < 3; i++) await guess(await half());
  const codes = (await sql()`select 1 from mails where kind = 'codes_failed' and recipient = ${email}`).length;
  assert.equal(codes, 1);
});

// Invariant: Wrong codes after the right password lock for longer each time, but never the last way to sign in.
test('each lock of the codes is longer than the one before, is notified by email, and is not shortened by a restart or a correct code', async () => {
  const { half, email, of, secret, person } = await withCodes('hal');
  const minutes: number[] = [];
  for (let round = 0; round < 7; round++) {
    const thief = await half();
    await sql()`update second_factors set failed_verification_count = 9 where id = ${(await of())[0]!.id}`;
    assert.equal((await guess(thief)).status, 401);
    const [row] = await sql()<{ minutes: number }[]>`
      select round(extract(epoch from locked_until - clock_timestamp()) / 60)::int as minutes from second_factors where id = ${(await of())[0]!.id}`;
    minutes.push(row!.minutes);
    const locked = await thief.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret) });
    assert.deepEqual([locked.status, locked.json.error.code], [429, 'second_factor_locked']);
    // The lock ends, and the person signs in before the next one.
    await sql()`update second_factors set locked_until = clock_timestamp() - interval '1 second' where id = ${(await of())[0]!.id}`;
    await ok(thief.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret) }));
  }
  assert.deepEqual(minutes, [15, 60, 240, 960, 3_840, 10_080, 10_080]);
  await mailed(/entered 10 wrong codes in a row\. Codes are blocked for 15 minutes\./, email);
  await mailed(/Codes are blocked for 168 hours\./, email);
  // After a month without a lock the first one is short again.
  await sql()`update second_factors set failed_verification_count = 9, locked_until = locked_until - interval '31 days' where id = ${(await of())[0]!.id}`;
  await guess(await half());
  assert.equal((await of())[0]!.locks, 1);
  // A new password takes the attacker's means of guessing, and removes the lock.
  const confirmed = (await of())[0]!;
  assert.ok(confirmed.locked_until > new Date());
  await sql()`update sessions set confirmed_at = clock_timestamp() where user_id = ${confirmed.user_id}`;
  await ok(person.post('/test/password', { password: person.password, new_password: 'a better long password' }));
  assert.deepEqual([(await of())[0]!.locks, (await of())[0]!.locked_until], [0, null]);
});

test('while codes are locked, a backup code and a passkey still work', async () => {
  const { half, of, backupCodes, person } = await withCodes('ida');
  const key = new SoftwareKey();
  const made = await ok(person.post('/test/passkeys/options'));
  await ok(person.post('/test/passkeys', { name: 'Phone', response: key.register(made.options) }));
  await sql()`update second_factors set locked_until = clock_timestamp() + interval '6 days', locks = 6 where id = ${(await of())[0]!.id}`;
  const back = await half();
  assert.equal((await back.post('/sign-in/code', { kind: 'totp', code: '000000' })).json.error.code, 'second_factor_locked');
  await ok(back.post('/sign-in/code', { kind: 'backup_code', code: backupCodes[0] }));
  await ok(back.get('/test/me'));
  const other = Object.assign(new Person(app.url), { address: '192.0.2.251' });
  const { options } = await ok(other.post('/sign-in/passkey/options'));
  await ok(other.post('/sign-in/passkey', { response: key.signIn(options) }));
  await ok(other.get('/test/me'));
});
