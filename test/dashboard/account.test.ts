/** Your account and its notifications, over HTTP and a real mail server: sign-ins, password, address, notices, alerts. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sendTestEvent } from '../../src/deliveries/deliveries.ts';
import { alertUsage } from '../../src/merchants/usage.ts';
import { createOutbox } from '../../src/notices/mails.ts';
import { changeFromJson } from '../../src/people/members.ts';
import { setEmail } from '../../src/sign-in/account.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { createEndpoint } from '../../src/webhooks/endpoints.ts';
import { eventually, type TestApp } from '../kit/app.ts';
import type { MailServer } from '../kit/mail.ts';
import { type MailShop, openMailShop } from '../kit/mail-shop.ts';
import { freshTotp, Person, totp } from '../kit/person.ts';
import { startReceiver } from '../kit/receiver.ts';

let shop: MailShop | undefined;
let app: TestApp;
let owner: Person;
let mail: MailServer;
const OLD = 'olga@shop.example';
const NEW = 'olga@new.example';
const sql = () => app.app.ctx.db.sql;
const audited = async (action: string) => {
  const rows = await sql()<{ actor: string; after: unknown; ip: string }[]>`
    select actor_name as actor, after, ip from audit_log where action = ${action} order by id desc`;
  return rows.map((row) => ({ ...row, after: changeFromJson(row.after) }));
};
const mailsOf = (subject: RegExp) => mail.mails.filter((one) => subject.test(one.subject));
const notices = async () => (await owner.get('/test/notices')).json;
const linkIn = (text: string): string => /#(\w{32})/.exec(text)![1]!;

before(async () => {
  shop = await openMailShop();
  ({ app, mail, owner } = shop);
});
after(() => shop?.close());

test('sign-in, sign-out, a wrong code and a confirmation are logged with their IP address', async () => {
  const begun = await owner.post('/test/second-factor', { password: owner.password });
  const secret = new URL(begun.json.uri).searchParams.get('secret')!;
  assert.equal((await owner.post('/test/second-factor/finish', { code: totp(secret) })).status, 200);
  const half = new Person(app.url);
  await half.post('/sign-in', { email: OLD, password: owner.password });
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: '000000' })).status, 401);
  assert.deepEqual(
    { ...(await audited('second_factor.failed'))[0] },
    { actor: 'Olga Owner', after: { during: 'sign-in' }, ip: '127.0.0.1' },
  );
  assert.equal((await half.post('/sign-in/code', { kind: 'totp', code: await freshTotp(app, secret) })).status, 200);
  assert.deepEqual((await audited('session.started'))[0]!.after, { how: 'password and code' });
  assert.equal((await half.post('/test/confirm', { code: '111111' })).status, 401);
  assert.deepEqual((await audited('second_factor.failed'))[0]!.after, { during: 'confirmation' });
  assert.equal((await half.post('/test/confirm', { code: await freshTotp(app, secret) })).status, 200);
  assert.equal((await audited('session.confirmed')).length, 1);
  await half.post('/sign-out');
  assert.equal((await audited('session.ended')).length, 1);
  assert.equal((await audited('second_factor.set')).length, 1);
});

test('new backup codes replace the old ones, and require the password', async () => {
  assert.equal((await owner.post('/test/backup-codes', { password: 'not the password' })).json.error.code, 'password_wrong');
  const { backup_codes: first } = (await owner.post('/test/backup-codes', { password: owner.password })).json;
  const { backup_codes: codes } = (await owner.post('/test/backup-codes', { password: owner.password })).json;
  assert.equal(codes.length, 10);
  const half = new Person(app.url);
  await half.post('/sign-in', { email: OLD, password: owner.password });
  assert.equal((await half.post('/sign-in/code', { kind: 'backup_code', code: first[0] })).status, 401);
  assert.equal((await half.post('/sign-in/code', { kind: 'backup_code', code: codes[0] })).status, 200);
  assert.equal((await owner.post('/test/second-factor/remove')).status, 200);
  assert.equal((await audited('second_factor.removed')).length, 1);
});

test('a sign-in in use is extended by a week, in the browser too; an unused one ends', async () => {
  await sql()`update sessions set expires_at = clock_timestamp() + interval '5 days'`;
  const used = await owner.get('/test/me');
  assert.match(used.headers.get('set-cookie') ?? '', /florin\.session_token=[^;]+;.*Max-Age=604800/i);
  const [row] = await sql()<
    { days: number }[]
  >`select extract(epoch from max(expires_at) - clock_timestamp())::float8 / 86400 as days from sessions`;
  assert.ok(row!.days > 6.9, String(row!.days));
  assert.equal((await owner.get('/test/me')).headers.get('set-cookie'), null, 'once a day is enough');
  await sql()`update sessions set expires_at = clock_timestamp() - interval '1 second'`;
  assert.equal((await owner.get('/test/me')).status, 401);
  await owner.post('/sign-in', { email: OLD, password: owner.password });
});

test('a sign-in ends 30 days after it began, no matter how much it is used', async () => {
  await sql()`delete from sessions where token not in (select token from sessions order by created_at desc limit 1)`;
  await sql()`update sessions set created_at = clock_timestamp() - interval '29 days 23 hours'`;
  assert.equal((await owner.get('/test/me')).status, 200);
  assert.equal((await owner.get('/test/security')).json.sessions.length, 1);
  // Sign-ins per IP address are limited.
  const other = Object.assign(new Person(app.url), { address: '203.0.113.9' });
  await other.post('/sign-in', { email: OLD, password: owner.password });
  await sql()`update sessions set created_at = clock_timestamp() - interval '30 days' where created_at < clock_timestamp() - interval '1 day'`;
  assert.equal((await other.get('/test/security')).json.sessions.length, 1, 'nor is it listed');
  assert.deepEqual([(await owner.get('/test/me')).status, (await owner.get('/test/stream')).status], [401, 401]);
  const left = await sql()`select 1 from sessions where created_at < clock_timestamp() - interval '1 day'`;
  assert.equal(left.length, 0, 'it is gone');
  owner.cookie = other.cookie;
  await sql()`delete from notices`;
});

test('sign-ins are listed and can be ended one by one or all but this one; nobody can end those of others', async () => {
  const [one, two] = [new Person(app.url), new Person(app.url)];
  for (const person of [one, two]) await person.post('/sign-in', { email: OLD, password: owner.password });
  const { sessions } = (await owner.get('/test/security')).json;
  const others = sessions.filter((session: any) => !session.current);
  assert.equal(sessions.length - others.length, 1);
  const mine = (await one.get('/test/security')).json.sessions.find((session: any) => session.current).id;
  assert.equal((await owner.send('DELETE', `/test/sessions/${mine}`, {})).status, 200);
  assert.equal((await one.get('/test/me')).status, 401);
  assert.equal((await two.get('/test/me')).status, 200);
  await sql()`insert into users (id, name, email) values ('usr_x', 'X', 'x@shop.example')`;
  await sql()`insert into sessions (id, user_id, token, expires_at) values ('ses_x', 'usr_x', 'x', clock_timestamp() + interval '1 day')`;
  assert.equal((await owner.send('DELETE', '/test/sessions/ses_x', {})).json.error.code, 'session_not_found');
  assert.equal((await owner.send('DELETE', '/test/sessions', {})).status, 200);
  assert.equal((await two.get('/test/me')).status, 401);
  assert.equal((await owner.get('/test/me')).status, 200);
  assert.equal((await sql()`select 1 from sessions where id = 'ses_x'`).length, 1);
});

test('a new password requires the old one, ends all other sign-ins, and works', async () => {
  const other = new Person(app.url);
  await other.post('/sign-in', { email: OLD, password: owner.password });
  const change = (password: string, next: string) => owner.post('/test/password', { password, new_password: next });
  assert.equal((await change('not the password', 'a better long password')).json.error.code, 'password_wrong');
  assert.equal((await change(owner.password, 'short')).json.error.param, 'new_password');
  assert.equal((await change(owner.password, 'a better long password')).status, 200);
  assert.equal((await other.get('/test/me')).status, 401);
  assert.equal((await owner.get('/test/me')).status, 200);
  assert.equal((await other.post('/sign-in', { email: OLD, password: owner.password })).status, 401);
  assert.equal((await other.post('/sign-in', { email: OLD, password: 'a better long password' })).status, 200);
  assert.equal((await audited('password.changed')).length, 1);
});

test('a new password ends links that were sent by email before it: a change of the address does not go on', async () => {
  const PASSWORDS = ['a better long password', 'another long password'] as const;
  assert.equal((await owner.post('/test/email', { new_email: 'thief@evil.example', password: PASSWORDS[0] })).status, 200);
  const sent = async () => mailsOf(/Confirm your new email/);
  const links = (await eventually(sent, (mails) => mails.length === 2)).map(({ text }) => linkIn(text));
  assert.equal((await owner.post('/test/email/proof')).status, 200);
  assert.equal((await owner.post('/test/password', { password: PASSWORDS[0], new_password: PASSWORDS[1] })).status, 200);
  assert.equal((await owner.get('/test/security')).json.pending_email, null);
  for (const token of links)
    assert.equal((await new Person(app.url).post('/confirm-email', { token })).json.error.code, 'email_link_invalid');
  assert.equal((await sql()`select 1 from email_proofs`).length, 0);
  assert.equal((await owner.get('/test/me')).json.user.email, OLD);
  assert.equal((await owner.post('/test/password', { password: PASSWORDS[1], new_password: PASSWORDS[0] })).status, 200);
  mail.mails.length = 0;
});

// Invariant: An email address changes only after both the old and the new one agree.
test('an address changes once both the old and the new one agreed, and each link goes only to its own mailbox', async () => {
  const asked = await owner.post('/test/email', { new_email: NEW, password: 'a better long password' });
  assert.equal(asked.status, 200, asked.text);
  await eventually(
    async () => mailsOf(/Confirm your new email/).length,
    (n) => n === 2,
  );
  const [toOld, toNew] = [OLD, NEW].map((to) => mailsOf(/Confirm your new email/).find((one) => one.to[0] === to)!);
  assert.equal(toOld!.from, 'pay@shop.example');
  assert.equal((await owner.get('/test/security')).json.pending_email, NEW);
  const nobody = new Person(app.url);
  assert.equal((await nobody.post('/confirm-email', { token: 'made-up' })).json.error.code, 'email_link_invalid');
  assert.deepEqual((await nobody.post('/confirm-email', { token: linkIn(toNew!.text) })).json, { success: true, changed: false });
  assert.equal((await owner.get('/test/me')).json.user.email, OLD, 'the new address alone changes nothing');
  assert.deepEqual((await nobody.post('/confirm-email', { token: linkIn(toNew!.text) })).json.changed, false, 'nor twice');
  assert.deepEqual((await nobody.post('/confirm-email', { token: linkIn(toOld!.text) })).json, { success: true, changed: true });
  assert.equal((await owner.get('/test/me')).json.user.email, NEW);
  assert.equal((await nobody.post('/confirm-email', { token: linkIn(toOld!.text) })).status, 404);
  const kept = () => sql()`select body from mails where kind = 'email_change' and body <> ''`;
  await eventually(kept, (rows) => rows.length === 0);
  assert.ok((await sql()`select 1 from mails where kind = 'email_change'`).length > 0, 'links are not kept once they were sent');
});

test('the operator changes an address by command, but never to one that is in use', async () => {
  await setEmail(app.app.ctx, { email: NEW, to: 'OLGA@shop.example' });
  assert.equal((await owner.get('/test/me')).json.user.email, OLD);
  await assert.rejects(setEmail(app.app.ctx, { email: OLD, to: 'x@shop.example' }), /Another account/);
  await assert.rejects(setEmail(app.app.ctx, { email: 'nobody@shop.example', to: 'y@shop.example' }), /No such user/);
});

test('invitations are sent, and retried if the mail server refuses', async () => {
  mail.refuse = 'try later';
  const invited = await owner.post('/test/team/invites', { email: 'ivy@shop.example', role: 'viewer' });
  assert.equal(invited.json.mailed, true);
  await eventually(
    async () => (await sql()`select failure from mails where kind = 'invite'`)[0]?.failure as string,
    (failure) => /try later/.test(failure ?? ''),
  );
  mail.refuse = null;
  await sql()`update mails set due_at = clock_timestamp() where kind = 'invite'`;
  await eventually(
    async () => mailsOf(/invited you/).length,
    (n) => n === 1,
  );
  assert.match(linkIn(mailsOf(/invited you/)[0]!.text), /^\w{32}$/);
  assert.deepEqual(await createOutbox(app.app.ctx).send(), 0, 'it is not sent again');
});

test('a payment that needs attention, a changed wallet and a new sign-in are notified in the bell, and by email to members who want it', async () => {
  mail.mails.splice(0);
  const before = await notices();
  await owner.post('/test/notices/read', { through: before.data[0]?.id ?? '0' });
  // What is yet to come cannot be marked as read.
  await owner.post('/test/notices/read', { through: '9'.repeat(18) });
  assert.equal((await notices()).unread, 0);
  await owner.post('/test/notice-settings', { kind: 'payment_attention', in_app: true, email: true });
  for (let i = 0; i < 2; i++) {
    const order = i === 0 ? { description: 'Two mugs' } : { invoice_id: 'INV-1', description: 'Two mugs' };
    const made = await app.test.post('/api/payment/create/simple', { amount_usd: 20, return_url: 'https://a.example/', ...order });
    const begun = await app.test.post(`/v1/test/payments/${made.json.transaction_id}/simulate`, { scenario: 'underpaid', currency: 'BTC' });
    assert.equal(begun.status, 200, begun.text);
    await app.test.post('/v1/test/clock/advance', { seconds: 120, payment_id: made.json.transaction_id });
  }
  const told = await eventually(notices, (answer) => answer.data.filter((n: any) => n.kind === 'payment_attention').length >= 2, 20_000);
  assert.equal(told.unread, 2);
  assert.match(told.data[0].text, /^Underpaid: received 0\.[0-9]+ BTC \(\$[0-9.]+\) of \$20\.00\. Invoice INV-1\.$/);
  assert.match(told.data[1].text, /of \$20\.00\. Description: Two mugs$/);
  const live = (await owner.get('/live/notices')).json;
  assert.deepEqual(
    [live.unread, live.data.filter((n: any) => n.mode === 'test').length],
    [0, 0],
    'the live bell says nothing of test mode',
  );
  assert.deepEqual([told.data[0].mode, told.data[0].payment.slice(0, 4), told.data[0].unread], ['test', 'pay_', true]);
  await eventually(
    async () => mailsOf(/TEST: Underpaid: received .* of \$20\.00/).length,
    (n) => n === 1,
  );

  await setWallet(app.app.ctx, {
    merchantId: app.merchant.merchantId,
    coin: 'BTC',
    accountKey: 'zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs',
  });
  await eventually(
    async () => mailsOf(/BTC wallet/).length,
    (n) => n === 1,
  );

  const stranger = new Person(app.url);
  const { fetch: real } = globalThis;
  globalThis.fetch = (url, init) =>
    real(url, { ...init, headers: { ...(init?.headers as object), 'user-agent': 'a browser not seen before' } });
  await stranger.post('/sign-in', { email: OLD, password: 'a better long password' }).finally(() => {
    globalThis.fetch = real;
  });
  assert.match((await notices()).data[0].text, /new browser or address/);
  await owner.post('/sign-in', { email: OLD, password: 'a better long password' });
  assert.equal((await notices()).data.filter((n: any) => n.kind === 'sign_in').length, 1, 'a known browser is not told');

  await owner.post('/test/notice-settings', { kind: 'payment_attention', in_app: false, email: false });
  assert.ok((await notices()).data.every((n: any) => n.kind !== 'payment_attention'));
  assert.equal((await owner.get('/test/notice-settings')).json.settings.find((s: any) => s.kind === 'payment_attention').in_app, false);
});

test('a webhook endpoint that is turned off is reported at once, with the reason', async () => {
  const receiver = await startReceiver();
  receiver.answer(410);
  const { ctx } = app.app;
  const owned = { merchantId: app.merchant.merchantId, mode: 'test' as const };
  const { endpointId } = await createEndpoint(ctx, { ...owned, url: receiver.url, events: ['*'], description: null });
  await ctx.db.begin((tx) => sendTestEvent(ctx, tx, { ...owned, endpointId }));
  const told = await eventually(notices, (answer) => answer.data.some((n: any) => n.kind === 'endpoint_off'), 30_000);
  const host = new URL(receiver.url).host;
  const gone = `A webhook endpoint was disabled: ${host} answered 410 Gone. Delete the endpoint, or answer 2xx and enable it again.`;
  assert.equal(told.data.find((n: any) => n.kind === 'endpoint_off').text, gone);
  await eventually(
    async () => mailsOf(/webhook endpoint was disabled/).length,
    (n) => n === 1,
  );
  await receiver.stop();

  // Nothing listens there any more.
  const { endpointId: silent } = await createEndpoint(ctx, { ...owned, url: receiver.url, events: ['*'], description: null });
  await sql()`update endpoints set failing_since = clock_timestamp() - interval '6 days' where id = ${silent}`;
  await ctx.db.begin((tx) => sendTestEvent(ctx, tx, { ...owned, endpointId: silent }));
  const [mail] = await eventually(
    async () => mailsOf(/after five days/),
    (mails) => mails.length === 1,
  );
  const why = 'the server refused the connection (127.0.0.1). Check that the web server runs and listens on this address and port.';
  assert.ok(mail!.text.replaceAll(/\s+/g, ' ').includes(`after five days of failed deliveries to ${host}: ${why}`), mail!.text);
});

test('members are notified once at 80% and once at 100% of the plan, no matter how often it is checked', async () => {
  const { merchantId } = app.merchant;
  await sql()`update merchants set plan = 'starter' where id = ${merchantId}`;
  const use = (payments: number) => sql()`
    insert into live_usage (merchant_id, month, payments) values (${merchantId}, date_trunc('month', clock_timestamp() at time zone 'UTC')::date, ${payments})
    on conflict (merchant_id, month) do update set payments = excluded.payments`;
  const alerts = async () => (await notices()).data.filter((n: any) => n.kind === 'usage').map((n: any) => n.text);
  await use(79);
  await alertUsage(app.app.ctx);
  assert.deepEqual(await alerts(), []);
  await use(80);
  await Promise.all([alertUsage(app.app.ctx), alertUsage(app.app.ctx)]);
  await alertUsage(app.app.ctx);
  assert.deepEqual(await alerts(), ['You have used 80% of this month’s live payments: 80 of 100.']);
  await use(100);
  await alertUsage(app.app.ctx);
  assert.deepEqual((await alerts())[0], 'You have used 100% of this month’s live payments: 100 of 100.');
  const usage = (await owner.get('/test/usage')).json;
  assert.deepEqual([usage.plan, usage.used, usage.per_month], ['starter', 100, 100]);
  assert.match(usage.resets_at, /-01T00:00:00\.000Z$/);
});
