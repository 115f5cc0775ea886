/**
 * Who owns an email address: invitations that only the mailbox receives, verified addresses, and how the operator restores an account.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { changeFromJson } from '../../src/people/members.ts';
import { eventually, startTestApp, type TestApp, testEnvironment } from '../kit/app.ts';
import { invitationToken, type MailServer } from '../kit/mail.ts';
import { type MailShop, openMailShop } from '../kit/mail-shop.ts';
import { SoftwareKey } from '../kit/passkey.ts';
import { freshTotp, Person, setUpPerson, totp } from '../kit/person.ts';
import { runFlorin } from '../kit/service.ts';

let shop: MailShop | undefined;
let app: TestApp;
let mail: MailServer;
let owner: Person;
const sql = () => app.app.ctx.db.sql;
let addresses = 0;
const somebody = () => Object.assign(new Person(app.url), { address: `203.0.113.${++addresses}` });
const ok = async (reply: Promise<{ status: number; text: string; json: any }>) => {
  const { status, text, json } = await reply;
  assert.equal(status, 200, text);
  return json;
};
const proofIn = async (email: string): Promise<string> => {
  const [row] = await sql()<{ body: string }[]>`
    select body from mails where recipient = ${email} and kind = 'email_proof' and body <> '' order by id desc limit 1`;
  return /verify-email#(\w{32})/.exec(row!.body)![1]!;
};
const resetLinksTo = (email: string): string[] =>
  mail.mails.filter(({ to }) => to.includes(email)).flatMap(({ text }) => /reset-password#(\w{32})/.exec(text)?.[1] ?? []);
const florin = (...args: string[]): Promise<any> => {
  const { databaseUrl, dataFolder } = app.config as unknown as { databaseUrl: string; dataFolder: string };
  return runFlorin(testEnvironment(databaseUrl, dataFolder, { SMTP_URL: mail.url, MAIL_FROM: 'pay@shop.example' }), args);
};
const member = async (email: string, role = 'viewer'): Promise<Person> => {
  const person = somebody();
  await sql()`update sessions set confirmed_at = clock_timestamp() where user_id = (select id from users where email = 'olga@shop.example')`;
  await ok(owner.post('/test/team/invites', { email, role }));
  const token = await invitationToken(app, mail, email);
  await ok(person.post('/invite/accept', { token, name: email.split('@')[0], password: person.password }));
  return person;
};

before(async () => {
  shop = await openMailShop();
  ({ app, mail, owner } = shop);
});
after(() => shop?.close());

// Invariant: With a mail server, only the invited mailbox gets the invitation link.
test('with a mail server the inviter never sees the link, and cannot take the account of the address in advance', async () => {
  const made = await owner.post('/test/team/invites', { email: 'vera@shop.example', role: 'admin' });
  assert.deepEqual([made.status, made.json.url, made.json.mailed], [200, null, true]);
  const token = await invitationToken(app, mail, 'vera@shop.example');
  for (const path of ['/test/team', '/test/audit?limit=100', '/test/notices'])
    assert.ok(!(await owner.get(path)).text.includes(token), path);
  assert.ok(!made.text.includes(token));
  const vera = somebody();
  await ok(vera.post('/invite/accept', { token, name: 'Vera', password: vera.password }));
  assert.equal((await ok(vera.get('/test/security'))).email_verified, true);
  const { members } = await ok(owner.get('/test/team'));
  assert.deepEqual(
    members.map((one: any) => [one.email, one.email_verified]),
    [
      ['olga@shop.example', false],
      ['vera@shop.example', true],
    ],
  );
});

test('an account from a link that was handed over is not verified; a mailed invitation or link verifies it', async () => {
  // As an install without a mail server created it.
  await ok(owner.post('/test/team/invites', { email: 'walt@shop.example', role: 'viewer' }));
  await sql()`update invites set mailed = false where email = 'walt@shop.example'`;
  const walt = somebody();
  const token = await invitationToken(app, mail, 'walt@shop.example');
  await ok(walt.post('/invite/accept', { token, name: 'Walt', password: walt.password }));
  assert.equal((await ok(walt.get('/test/security'))).email_verified, false);

  // A mail that could not be sent keeps its text.
  mail.refuse = 'not now';
  await ok(walt.post('/test/email/proof'));
  const first = await proofIn('walt@shop.example');
  await ok(walt.post('/test/email/proof'));
  const second = await proofIn('walt@shop.example');
  mail.refuse = null;
  // Someone else who opens the link, such as a person who took the address in advance, verifies nothing.
  assert.equal((await somebody().post('/verify-email', { token: second })).json.error.code, 'not_signed_in');
  assert.equal((await owner.post('/verify-email', { token: second })).json.error.code, 'email_link_invalid');
  assert.equal((await walt.post('/verify-email', { token: first })).json.error.code, 'email_link_invalid', 'an older link');
  assert.equal((await ok(walt.get('/test/security'))).email_verified, false);
  await ok(walt.post('/verify-email', { token: second }));
  assert.equal((await ok(walt.get('/test/security'))).email_verified, true);
  assert.equal((await walt.post('/verify-email', { token: second })).status, 404, 'once');
  const [entry] = await sql()`select actor_name from audit_log where action = 'email.verified'`;
  assert.equal(entry!.actor_name, 'Walt');

  await sql()`update users set email_verified = false where name = 'Walt'`;
  await sql()`delete from members where user_id = (select id from users where name = 'Walt')`;
  await ok(owner.post('/test/team/invites', { email: 'walt@shop.example', role: 'viewer' }));
  await ok(walt.post('/invite/accept', { token: await invitationToken(app, mail, 'walt@shop.example') }));
  assert.equal((await ok(walt.get('/test/security'))).email_verified, true);
});

test('without a mail server the link is shown, the address is not verified, and no verification can be sent', async () => {
  const apart = await startTestApp({ LOG_LEVEL: 'silent' });
  try {
    const first = await setUpPerson(apart);
    const made = await ok(first.post('/test/team/invites', { email: 'xena@shop.example', role: 'viewer' }));
    assert.deepEqual([made.mailed, typeof made.url], [false, 'string']);
    const xena = new Person(apart.url);
    await ok(xena.post('/invite/accept', { token: made.url.split('#')[1], name: 'Xena', password: xena.password }));
    const security = await ok(xena.get('/test/security'));
    assert.deepEqual([security.email_verified, security.mail_set_up], [false, false]);
    assert.equal((await xena.post('/test/email/proof')).json.error.code, 'mail_not_set_up');
    assert.deepEqual((await ok(xena.post('/forgot-password', { address: 'xena@shop.example' }))).by_mail, false);
  } finally {
    await apart.stop();
  }
});

/** A person with every way to sign in: password, authenticator, passkey, a trusted device. */
async function withEverything(name: string) {
  const person = await member(`${name}@shop.example`);
  const key = new SoftwareKey();
  await ok(
    person.post('/test/passkeys', { name: 'Laptop', response: key.register((await ok(person.post('/test/passkeys/options'))).options) }),
  );
  const begun = await ok(person.post('/test/second-factor', { password: person.password }));
  const secret = new URL(begun.uri).searchParams.get('secret')!;
  await ok(person.post('/test/second-factor/finish', { code: totp(secret) }));
  const trusted = somebody();
  const email = `${name}@shop.example`;
  await ok(trusted.post('/sign-in', { email, password: person.password }));
  await ok(trusted.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret), trust_device: true }));
  await ok(person.post('/test/email', { new_email: `${name}@elsewhere.example`, password: person.password }));
  const cookie = /florin\.trusted_device=[^;]+/.exec(trusted.cookie)![0];
  const byPasskey = async () => {
    const at = somebody();
    const { options } = await ok(at.post('/sign-in/passkey/options'));
    return (await at.post('/sign-in/passkey', { response: key.signIn(options) })).status;
  };
  const byPassword = async (password: string, held = '') => {
    const at = Object.assign(somebody(), { cookie: held });
    const { status, json } = await at.post('/sign-in', { email, password });
    return status === 200 ? (json.needs_second_factor ? 'needs a code' : 'in') : status;
  };
  const pending = async () => (await sql()`select 1 from email_changes c join users u on u.id = c.user_id where u.email = ${email}`).length;
  return { person, email, cookie, byPasskey, byPassword, pending };
}
const told = async (email: string): Promise<string[]> =>
  (await sql()<{ subject: string }[]>`select subject from mails where recipient = ${email} and kind = 'account_changed' order by id`).map(
    ({ subject }) => subject,
  );

// Invariant: An operator's reset ends every way to sign in, and the person is notified.
test('a password reset by the operator ends passkeys, two-factor authentication, trusted devices, sign-ins and an address change, and the person is notified', async () => {
  const yann = await withEverything('yann');
  const reset = await florin('user', 'password', '--email', 'YANN@shop.example');
  assert.deepEqual([reset.email, reset.factors], ['YANN@shop.example', 'removed']);
  assert.equal((await yann.person.get('/test/me')).status, 401);
  assert.equal(await yann.byPasskey(), 401);
  assert.equal(await yann.byPassword(yann.person.password), 401);
  assert.equal(await yann.byPassword(reset.password), 'in');
  assert.equal(await yann.pending(), 0);
  assert.match(
    (await told(yann.email)).at(-1)!,
    /^The operator of this service reset your password, turned off your two-factor authentication, removed your passkeys/,
  );
  const [entry] = await sql()`select actor_name, after from audit_log where action = 'password.reset' order by id desc`;
  assert.deepEqual([entry!.actor_name, changeFromJson(entry!.after)], ['operator command', { factors: 'removed' }]);
});

test('with --keep-factors a password reset keeps passkeys and two-factor authentication, but still ends trusted devices and sign-ins', async () => {
  const zoe = await withEverything('zoe');
  const reset = await florin('user', 'password', '--email', zoe.email, '--keep-factors');
  assert.equal(reset.factors, 'kept');
  assert.equal((await zoe.person.get('/test/me')).status, 401);
  assert.equal(await zoe.byPasskey(), 200);
  assert.equal(await zoe.byPassword(reset.password, zoe.cookie), 'needs a code');
  assert.match((await told(zoe.email)).at(-1)!, /^The operator of this service reset your password and signed you out everywhere/);
});

test('user reset-factors: after losing an authenticator the person signs in with the password alone, everything else ends, and the person is notified', async () => {
  const abe = await withEverything('abe');
  assert.equal(await abe.byPassword(abe.person.password), 'needs a code');
  const reset = await florin('user', 'reset-factors', '--email', abe.email);
  assert.deepEqual([reset.email, reset.second_factor_removed, reset.passkeys_removed], [abe.email, true, 1]);
  assert.ok(reset.sign_ins_ended >= 2);
  assert.equal((await abe.person.get('/test/me')).status, 401);
  assert.equal(await abe.byPasskey(), 401);
  assert.equal(await abe.byPassword(abe.person.password), 'in');
  const left = await sql()`
    select (select count(*) from trusted_devices t where t.user_id = u.id) as devices, (select count(*) from second_factors s where s.user_id = u.id) as factors
    from users u where u.email = ${abe.email}`;
  assert.deepEqual({ ...left[0] }, { devices: 0n, factors: 0n });
  assert.match(
    (await told(abe.email)).at(-1)!,
    /^The operator of this service turned off your two-factor authentication, removed your passkeys/,
  );
  await assert.rejects(florin('user', 'reset-factors', '--email', 'nobody@shop.example'), /No such user/);
});

test('a forgotten password is reset by a link that works once, expires, and keeps two-factor authentication', async () => {
  const rhea = await withEverything('rhea');
  await sql()`update mails set due_at = clock_timestamp() where due_at is not null`;
  const ask = (address: string) => somebody().post('/forgot-password', { address });
  const reset = (token: string, password: string) => somebody().post('/reset-password', { token, password });
  // The same reply for an address with an account, without one, and with an unverified one.
  await sql()`update users set email_verified = false where email = 'walt@shop.example'`;
  const replies = await Promise.all(['RHEA@shop.example', 'nobody@shop.example', 'walt@shop.example'].map(ask));
  for (const { status, text } of replies) assert.deepEqual([status, text], [200, '{"success":true,"by_mail":true}']);
  const [first] = await eventually(
    async () => resetLinksTo(rhea.email),
    (links) => links.length === 1,
  );
  // Asking again at once sends nothing: a mailbox cannot be flooded, and the link stays valid.
  await ok(ask(rhea.email));
  await sql()`update password_resets set asked_at = asked_at - interval '16 minutes'`;
  await ok(ask(rhea.email));
  const links = await eventually(
    async () => resetLinksTo(rhea.email),
    (found) => found.length > 1,
  );
  assert.equal(links.length, 2);
  assert.deepEqual([...resetLinksTo('nobody@shop.example'), ...resetLinksTo('walt@shop.example')], []);
  const stored = await sql()`select token_hash from password_resets p join users u on u.id = p.user_id where u.email = ${rhea.email}`;
  assert.equal(stored.length, 2, 'a newer link does not end the one before');
  for (const { token_hash } of stored)
    for (const link of links) assert.ok(!token_hash.toString('latin1').includes(link), 'only the hash is stored');

  const password = 'a newly chosen password';
  assert.equal((await reset(links[1]!, 'short')).json.error.param, 'password');
  await sql()`update password_resets set expires_at = expires_at - interval '61 minutes'`;
  assert.equal((await reset(links[1]!, password)).json.error.code, 'reset_link_invalid', 'expired');
  await sql()`update password_resets set expires_at = expires_at + interval '61 minutes'`;
  await sql()`update second_factors set locked_until = clock_timestamp() + interval '1 hour'
    where user_id = (select id from users where email = ${rhea.email})`;
  await ok(reset(links[1]!, password));
  for (const link of [links[1]!, first!]) assert.equal((await reset(link, password)).status, 404, 'once, and the other one ends with it');

  assert.equal((await rhea.person.get('/test/me')).status, 401, 'signed out');
  assert.equal(await rhea.byPassword(rhea.person.password), 401);
  assert.equal(await rhea.byPassword(password, rhea.cookie), 'needs a code', 'also on a device that was trusted');
  assert.equal(await rhea.byPasskey(), 200);
  assert.equal(await rhea.pending(), 0, 'a change of the address that somebody asked for before');
  const [factor] = await sql()`
    select locked_until > clock_timestamp() as locked from second_factors where user_id = (select id from users where email = ${rhea.email})`;
  assert.deepEqual({ ...factor }, { locked: true }, 'the lock after wrong codes stays');
  assert.match((await told(rhea.email)).at(-1)!, /^Your password was reset from 203\.0\.113\.\d+ with a link sent to this address/);
  const [entry] = await sql()`select actor_name, ip from audit_log where action = 'password.reset_by_mail' order by id desc`;
  assert.equal(entry!.actor_name, 'rhea');
  // Changing the password ends a pending link.
  await ok(ask(rhea.email));
  await eventually(
    async () => resetLinksTo(rhea.email).length,
    (count) => count === 3,
  );
  await florin('user', 'password', '--email', rhea.email);
  assert.equal((await reset(resetLinksTo(rhea.email)[2]!, password)).status, 404);
});

test('requests for reset links are limited per IP address', async () => {
  const person = somebody();
  const statuses: number[] = [];
  for (let i = 0; i < 7; i++) statuses.push((await person.post('/forgot-password', { address: `x${i}@shop.example` })).status);
  assert.deepEqual([statuses.slice(0, 5), statuses.includes(429)], [[200, 200, 200, 200, 200], true]);
});

test('user list: accounts with their roles and factors, page by page and by merchant', async () => {
  const all = await florin('user', 'list');
  const zoe = all.users.find((one: any) => one.email === 'zoe@shop.example');
  const { merchantId } = app.merchant;
  assert.deepEqual(zoe, {
    ...{ email: 'zoe@shop.example', name: 'zoe', email_verified: true, operator: false, second_factor: true, passkeys: 1 },
    merchants: [{ merchant_id: merchantId, role: 'viewer' }],
  });
  assert.equal(all.has_more, false);
  const first = await florin('user', 'list', '--limit', '2', '--merchant', merchantId);
  assert.deepEqual([first.users.length, first.has_more], [2, true]);
  const rest = await florin('user', 'list', '--after', first.users.at(-1).email);
  assert.deepEqual(
    [...first.users, ...rest.users].map((one: any) => one.email),
    all.users.map((one: any) => one.email),
  );
  assert.deepEqual((await florin('user', 'list', '--merchant', 'mer_none')).users, []);
});

test('an address changed by the operator is not verified, and both mailboxes are notified', async () => {
  await florin('user', 'email', '--email', 'vera@shop.example', '--to', 'vera@new.example');
  const [user] = await sql()`select email_verified from users where email = 'vera@new.example'`;
  assert.equal(user!.email_verified, false);
  const mails = await sql()<{ recipient: string }[]>`select recipient from mails where kind = 'email_changed' order by recipient`;
  assert.deepEqual(
    mails.map(({ recipient }) => recipient),
    ['vera@new.example', 'vera@shop.example'],
  );
});
