/** Daily digests and quiet hours, over a real database and a real mail server: nothing lost, nothing sent twice, nothing urgent held. */
// Invariant: A held digest is sent once, even after a crash; nothing urgent is held.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Context } from '../../src/context.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { sendHeldMails } from '../../src/notices/digests.ts';
import { type NewNotice, notifyMembers } from '../../src/notices/notices.ts';
import { eventually, type TestApp } from '../kit/app.ts';
import type { MailServer } from '../kit/mail.ts';
import { type MailShop, openMailShop } from '../kit/mail-shop.ts';
import { Person } from '../kit/person.ts';

let shop: MailShop | undefined;
let app: TestApp;
let owner: Person;
let mail: MailServer;
let userId = '';
const sql = () => app.app.ctx.db.sql;
/** The service at a chosen time; its worker uses the real clock. */
const at = (now: Date): Context => ({ ...app.app.ctx, clock: { ...app.app.ctx.clock, now: () => now } });
const hours = (n: number, from = new Date()) => new Date(from.getTime() + n * 3_600_000);
const wall = (date: Date) => date.toISOString().slice(11, 16);
const tell = (ctx: Context, notices: readonly NewNotice[]) => ctx.db.begin((tx) => notifyMembers(ctx, tx, notices));
const attention = (n: number, more: Partial<NewNotice> = {}): NewNotice => ({
  merchantId: app.merchant.merchantId,
  mode: 'live',
  kind: 'payment_attention',
  detail: { payment: `pay_${n}`, exception: 'underpaid' },
  ...more,
});
const held = async () => Number((await sql()`select count(*) as n from held_mails`)[0]!.n);
/** By subject, or by the text where the subject is encoded. */
const arrived = (subject: RegExp, n: number) =>
  eventually(
    async () => mail.mails.filter((one) => subject.test(one.subject) || subject.test(one.text)),
    (found) => found.length === n,
  );
const timing = (body: object) => owner.post('/test/mail-timing', { time_zone: 'UTC', daily_hour: null, quiet: null, ...body });
/** Quiet hours that began an hour ago and last six hours. */
const quietNow = (now = new Date()) => ({ from: wall(hours(-1, now)), to: wall(hours(5, now)) });

before(async () => {
  shop = await openMailShop();
  ({ app, mail, owner } = shop);
  userId = (await owner.get('/test/me')).json.user.id;
  await owner.post('/test/notice-settings', { kind: 'payment_attention', in_app: true, email: true });
});
after(() => shop?.close());

test('each person sets the timing, reads it back as set, and gets invalid values refused by name', async () => {
  assert.equal((await owner.get('/test/notice-settings')).json.timing, null);
  const body = { time_zone: 'Europe/Berlin', daily_hour: 7, quiet: { from: '22:00', to: '06:30' } };
  assert.equal((await owner.post('/test/mail-timing', body)).status, 200);
  assert.deepEqual((await owner.get('/live/notice-settings')).json.timing, body);
  assert.equal((await timing({ time_zone: 'Mars/Base' })).json.error.param, 'time_zone');
  assert.equal((await timing({ quiet: { from: '22:00', to: '22:00' } })).json.error.param, 'quiet_to');
  for (const wrong of [{ daily_hour: 24 }, { quiet: { from: '24:00', to: '06:00' } }, { quiet: { from: '9:00', to: '10:00' } }])
    assert.equal((await timing(wrong)).status, 400, JSON.stringify(wrong));
  assert.deepEqual((await owner.get('/live/notice-settings')).json.timing, body);
});

test('during quiet hours event emails are held and sent as one when they end; the bell shows them at once', async () => {
  await timing({ quiet: quietNow() });
  for (let i = 0; i < 3; i++) await tell(app.app.ctx, [attention(i, i === 2 ? { mode: 'test' } : {})]);
  assert.equal(await held(), 3);
  assert.equal((await sql()`select 1 from mails`).length, 0);
  assert.equal((await owner.get('/test/notices')).json.data.filter((n: any) => n.kind === 'payment_attention').length, 3);
  assert.equal(await sendHeldMails(at(hours(4))), 0, 'still quiet');
  assert.equal(await sendHeldMails(at(hours(5.1))), 1);
  const [one] = await arrived(/3 notifications from Test shop/, 1);
  assert.deepEqual(one!.to, ['olga@shop.example']);
  const lines = one!.text.split('\n').filter((line) => /needs your attention/.test(line));
  assert.equal(lines.length, 3);
  assert.match(lines[0]!, /^\d{4}-\d\d-\d\d \d\d:\d\d A payment needs your attention: underpaid\.\s*$/);
  assert.match(lines[2]!, / TEST: A payment needs/);
  assert.match(one!.text, /\/dashboard\/live\/payments\/pay_0/);
  assert.equal(await held(), 0);
  assert.equal(await sendHeldMails(at(hours(6))), 0, 'once');
});

test("daily: events arrive as one email at the person's hour, in the person's time zone", async () => {
  mail.mails.splice(0);
  await timing({ time_zone: 'America/New_York', daily_hour: 7 });
  const morning = new Date('2099-03-08T10:30:00Z');
  await tell(at(morning), [attention(1)]);
  await tell(at(hours(0.25, morning)), [attention(2)]);
  await tell(at(hours(0.75, morning)), [attention(3)]);
  const due = await sql()`select distinct due_at from held_mails order by due_at`;
  // The clocks go forward that day: seven o'clock is 11:00 UTC, as on the next day.
  assert.deepEqual(
    due.map((row) => row.due_at.toISOString()),
    ['2099-03-08T11:00:00.000Z', '2099-03-09T11:00:00.000Z'],
  );
  assert.equal(await sendHeldMails(at(new Date('2099-03-08T10:59:59Z'))), 0);
  assert.equal(await sendHeldMails(at(new Date('2099-03-08T11:00:00Z'))), 1);
  await arrived(/2 notifications from/, 1);
  assert.equal(await held(), 1);
  assert.equal(await sendHeldMails(at(new Date('2099-03-09T11:00:00Z'))), 1);
  await arrived(/^A payment needs your attention: underpaid\.$/, 1);
});

test('security emails, and emails that need action soon, are never held', async () => {
  mail.mails.splice(0);
  await timing({ daily_hour: 7, quiet: quietNow() });
  const { merchantId } = app.merchant;
  const detail = { endpoint: 'we_1', reason: 'gone', coin: 'BTC', percent: 80, used: 80, limit: 100 };
  for (const kind of ['endpoint_off', 'wallet_changed'] as const) await tell(app.app.ctx, [{ merchantId, mode: 'live', kind, detail }]);
  const asked = { coin: 'LTC', asked_by: 'Mallory', due_at: '2027-01-02T03:04:05.000Z' };
  for (let i = 0; i < 2; i++) await tell(app.app.ctx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail: asked }]);
  await tell(app.app.ctx, [
    { merchantId, mode: null, kind: 'usage', detail },
    { merchantId, mode: null, kind: 'usage', detail: { ...detail, percent: 100, used: 100 } },
  ]);
  const stranger = new Person(app.url);
  await sql()`update known_browsers set hash = '\\x00' where user_id = ${userId}`;
  assert.equal((await stranger.post('/sign-in', { email: 'olga@shop.example', password: owner.password })).status, 200);
  // One change does not hide the other, not even the same one asked for again.
  await arrived(/Mallory asked to change the LTC wallet. The new wallet starts receiving payments on 2027-01-02 03:04 UTC/, 2);
  for (const subject of [
    /webhook endpoint was disabled/,
    /BTC wallet/,
    /^You have used 100% of this month/,
    /New sign-in to your account from a new browser/,
  ])
    await arrived(subject, 1);
  assert.equal(await held(), 1, 'the 80% wait');
  assert.equal(
    mail.mails.some((one) => /80%/.test(one.subject)),
    false,
  );
  await sql()`delete from held_mails`;
});

test('a digest of ten thousand events says so and lists the first fifty, oldest first', async () => {
  mail.mails.splice(0);
  await timing({ daily_hour: 7 });
  await sql()`
    with made as (
      insert into notices (merchant_id, mode, kind, detail)
      select ${app.merchant.merchantId}, 'live', 'payment_attention', jsonb_build_object('payment', 'pay_n' || n, 'exception', 'overpaid')
      from generate_series(1, 10000) n returning id)
    insert into held_mails select ${userId}, id, clock_timestamp() + interval '1 hour' from made`;
  assert.equal(await sendHeldMails(at(hours(2))), 1);
  const [one] = await arrived(/^10000 notifications from Test shop$/, 1);
  const payments = [...one!.text.matchAll(/payments\/pay_n(\d+)/g)].map((match) => Number(match[1]));
  assert.deepEqual(
    payments,
    Array.from({ length: 50 }, (_, i) => i + 1),
  );
  assert.match(one!.text, /These are the first 50 of 10000/);
  assert.equal(await held(), 0);
});

test('a worker killed while writing the email leaves nothing behind; of two concurrent workers, one writes it', async () => {
  mail.mails.splice(0);
  await timing({ quiet: quietNow() });
  for (let i = 0; i < 4; i++) await tell(app.app.ctx, [attention(i)]);
  const { sql: db } = app.app.ctx.db;
  const killed = await app.app.ctx.db.begin(async (tx) => {
    await tx`lock table mails in access exclusive mode`;
    const sending = sendHeldMails(at(hours(6))).then(
      () => 'sent',
      () => 'failed',
    );
    const stuck = await eventually(
      () => db<{ pid: number }[]>`
        select pid from pg_stat_activity where wait_event_type = 'Lock' and query like '%insert into mails%' and datname = current_database()`,
      (rows) => rows.length === 1,
    );
    await db`select pg_terminate_backend(${stuck[0]!.pid})`;
    return sending;
  });
  assert.equal(killed, 'failed');
  assert.equal(await held(), 4);
  assert.equal((await db`select 1 from mails where kind = 'digest' and subject like '4 notifications%'`).length, 0);
  const both = await Promise.all([sendHeldMails(at(hours(6))), sendHeldMails(at(hours(6)))]);
  assert.ok(both[0] + both[1] >= 1);
  await arrived(/^4 notifications from/, 1);
  assert.equal((await db`select 1 from mails where subject like '4 notifications%'`).length, 1);
  assert.equal(await held(), 0);
});

test('switching back to immediate emails sends held ones at once; another schedule moves them', async () => {
  mail.mails.splice(0);
  await timing({ daily_hour: 7 });
  await tell(app.app.ctx, [attention(1), attention(2)]);
  const moved = hours(3);
  await timing({ daily_hour: moved.getUTCHours() });
  const [row] = await sql()`select due_at from held_mails limit 1`;
  assert.equal(row!.due_at.toISOString(), new Date(Math.floor(moved.getTime() / 3_600_000) * 3_600_000).toISOString());
  await timing({});
  await arrived(/^2 notifications from/, 1);
  await tell(app.app.ctx, [attention(3)]);
  await arrived(/^A payment needs/, 1);
  assert.equal(await held(), 0);
});

test('a member of two merchants gets one email that names both, and nothing about a merchant they left', async () => {
  mail.mails.splice(0);
  await timing({ quiet: quietNow() });
  const other = await createMerchant(app.app.ctx, { name: 'Second shop' });
  await sql()`insert into members (merchant_id, user_id, role) values (${other.merchantId}, ${userId}, 'owner')`;
  await sql()`insert into notice_settings values (${userId}, ${other.merchantId}, 'payment_attention', true, true)`;
  const both = [attention(1), attention(2, { merchantId: other.merchantId })];
  await tell(app.app.ctx, both);
  assert.equal(await sendHeldMails(at(hours(6))), 1);
  const [one] = await arrived(/^2 notifications from your merchants$/, 1);
  assert.match(one!.text, /Second shop: A payment needs/);
  await tell(app.app.ctx, both);
  await sql()`delete from members where merchant_id = ${other.merchantId}`;
  assert.equal(await sendHeldMails(at(hours(6))), 1);
  const [left] = await arrived(/^A payment needs/, 1);
  assert.ok(!left!.text.includes('Second shop'));
  assert.equal(await held(), 0);
});

test('emails about payouts are sent to members whose role may read payouts at that moment, and to nobody else', async () => {
  mail.mails.splice(0);
  await sql()`delete from held_mails`;
  await timing({});
  await owner.post('/test/notice-settings', { kind: 'money_out_waiting', in_app: true, email: true });
  const setRole = (role: string) => sql()`update members set role = ${role} where user_id = ${userId}`;
  const waiting = (what: string): NewNotice => attention(0, { kind: 'money_out_waiting', detail: { what, reason: 'approval', count: 1 } });
  const shown = async () => (await owner.get('/live/notices')).json.data.filter(({ kind }: any) => kind === 'money_out_waiting').length;
  await setRole('support');
  await tell(app.app.ctx, [waiting('payout'), waiting('refund')]);
  await arrived(/A refund is waiting for approval/, 1);
  assert.equal((await sql()`select 1 from mails where subject ~ 'payout'`).length, 0);
  assert.equal(await shown(), 1);
  // Held for a member who may read payouts, and due when the role is another one.
  await timing({ daily_hour: 7 });
  await setRole('finance');
  assert.equal(await shown(), 2);
  const morning = new Date('2099-03-08T06:00:00Z');
  await tell(at(morning), [waiting('payout')]);
  assert.equal(await held(), 1);
  await setRole('viewer');
  await sendHeldMails(at(hours(2, morning)));
  assert.equal(await held(), 0);
  assert.equal((await sql()`select 1 from mails where body ~ 'payout'`).length, 0);
  await setRole('owner');
});
