/**
 * Emails that nobody can abuse or hide, from a real mail server: warnings are all sent, names are harmless, mailboxes are not flooded, and
 * reset links wait for nobody.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { notifyMembers } from '../../src/notices/notices.ts';
import { connectShop } from '../../src/shops/shop-keys.ts';
import { eventually, type Reply, type TestApp } from '../kit/app.ts';
import { invitationToken, type MailServer } from '../kit/mail.ts';
import { type MailShop, openMailShop } from '../kit/mail-shop.ts';
import { Person, setupToken } from '../kit/person.ts';

const OWNER = 'olga@shop.example';
/** As older versions stored them. */
const LONG = 'Rogue Admin With A Very Long Name That Pushes Everything Else Out Of The Subject Of Each Email Sent'.padEnd(100, '!');
const HOSTILE = 'Eve\nYour account is locked. Unlock: https://evil.example/unlock';
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
const somebody = (): Person => Object.assign(new Person(app.url), { address: `198.51.100.${++networks}` });
/** Every email that was queued, sent or not. */
const queued = (kind: string, to?: string) =>
  sql()<{ recipient: string; subject: string; body: string }[]>`
    select recipient, subject, body from mails where kind = ${kind} ${to === undefined ? sql()`` : sql()`and recipient = ${to}`} order by id`;
const subjects = async (kind: string, to = OWNER) => (await queued(kind, to)).map(({ subject }) => subject);
/** Waits until the mail server has them, whole. */
const received = (words: RegExp, n: number) =>
  eventually(
    async () => mail.mails.filter((one) => words.test(one.text)),
    (found) => found.length === n,
  );

before(async () => {
  shop = await openMailShop();
  ({ app, mail, owner } = shop);
});
after(() => shop?.close());
beforeEach(async () => {
  mail.mails.splice(0);
  await sql()`delete from mails`;
  await sql()`update users set name = 'Olga Owner' where email = ${OWNER}`;
  await sql()`update merchants set name = 'Test shop' where id = ${app.merchant.merchantId}`;
  owner.address = `203.0.113.${++networks}`;
});

/** A member whose name is stored as given, signed in. */
async function join(email: string, role: string, name: string): Promise<Person> {
  await ok(owner.post('/test/team/invites', { email, role }));
  const person = somebody();
  const token = await invitationToken(app, mail, email);
  await ok(person.post('/invite/accept', { token, name: 'Rogue', password: person.password }));
  await sql()`update users set name = ${name} where email = ${email}`;
  return person;
}

test('a second live key within seconds is a second warning, also from a member with a name of 100 characters', async () => {
  const rogue = await join('rogue@shop.example', 'admin', LONG);
  for (const name of ['harmless', 'THE STOLEN ONE'])
    await ok(rogue.post('/live/keys', { kind: 'secret', name, expires_in_days: null, origins: [] }));
  const told = await subjects('key_created');
  assert.deepEqual(
    ['harmless', 'THE STOLEN ONE'].map(
      (name) => told.filter((subject) => subject.includes(`created the live secret key “${name}”`)).length,
    ),
    [1, 1],
    String(told),
  );
  // Also with the same name: the second one may be the thief's.
  await ok(rogue.post('/live/keys', { kind: 'secret', name: 'harmless', expires_in_days: null, origins: [] }));
  assert.equal((await subjects('key_created')).length, 3);
  await received(/created the live secret key “THE STOLEN ONE”/, 2);
});

test('a shop connection and an endpoint at another path of the same host are warnings of their own', async () => {
  const rogue = await join('rogue2@shop.example', 'admin', LONG);
  const added = await ok(rogue.post('/live/webhooks', { url: 'https://127.0.0.1:9/one', events: ['*'] }));
  for (const path of ['two', 'three']) await ok(rogue.post(`/live/webhooks/${added.endpoint.id}`, { url: `https://127.0.0.1:9/${path}` }));
  assert.equal((await subjects('endpoint_changed')).length, 3);
  for (const subject of await subjects('endpoint_changed'))
    assert.match(subject, /127\.0\.0\.1:9\.$/, 'the name does not push out the host');
  const { merchantId } = app.merchant;
  for (let i = 0; i < 2; i++)
    await app.app.ctx.db.begin((tx) =>
      connectShop(app.app.ctx, tx, {
        merchantId,
        mode: 'live',
        platform: 'other',
        name: 'Till',
        permissions: [],
        createdBy: LONG,
      } as never),
    );
  assert.equal((await subjects('key_created')).length, 2);
});

test('warnings of one transaction are mailed one by one, and a host of any length ends with whose it is', async () => {
  const { merchantId } = app.merchant;
  const host = `${'a.'.repeat(110)}evil.example`;
  const detail = { by: LONG, host, was: host.replace('evil', 'good') };
  await app.app.ctx.db.begin((tx) =>
    notifyMembers(
      app.app.ctx,
      tx,
      ['one', 'two'].map((path) => ({ merchantId, mode: 'live', kind: 'endpoint_changed', detail: { ...detail, path } })),
    ),
  );
  const told = await queued('endpoint_changed', OWNER);
  assert.equal(told.length, 2);
  for (const { subject, body } of told) {
    assert.match(subject, /good\.example to \S+evil\.example\.$/);
    assert.ok(body.includes(host));
  }
});

test('a wallet change that is asked for, dropped and asked for again is mailed each time', async () => {
  const { merchantId } = app.merchant;
  const detail = { coin: 'BTC', asked_by: LONG, due_at: '2027-01-02T03:04:05.000Z' };
  for (let i = 0; i < 3; i++)
    await app.app.ctx.db.begin((tx) => notifyMembers(app.app.ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail }]));
  assert.equal((await subjects('wallet_changed')).length, 3);
});

test('a test payment that is reversed does not hide a live one, nor one business another, and 100% of the plan is not hidden by 80%', async () => {
  const { ctx } = app.app;
  const other = await createMerchant(ctx, { name: 'Second shop' });
  await ok(owner.post('/set-up', { token: setupToken(other.setupUrl) }));
  const detail = { payment: 'pay_1', price: '10.00' };
  for (const [merchantId, mode] of [
    [app.merchant.merchantId, 'test'],
    [app.merchant.merchantId, 'live'],
    [other.merchantId, 'live'],
  ] as const)
    for (let i = 0; i < 2; i++)
      await ctx.db.begin((tx) =>
        notifyMembers(ctx, tx, [{ merchantId, mode, kind: 'payment_reversed', detail: { ...detail, payment: `pay_${i}` } }]),
      );
  assert.equal((await subjects('payment_reversed')).length, 3);
  for (const percent of [80, 100])
    await ctx.db.begin((tx) =>
      notifyMembers(ctx, tx, [
        { merchantId: app.merchant.merchantId, mode: null, kind: 'usage', detail: { percent, used: percent, limit: 100 } },
      ]),
    );
  assert.equal((await subjects('usage')).length, 2);
});

test('sixty invitations to one mailbox are one email, and the refusal says when the next one is possible', async () => {
  const replies: Reply[] = [];
  // Some providers deliver all of these to one mailbox.
  const forms: readonly ((i: number) => string)[] = [
    () => 'victim@mail.example',
    (i) => `Victim+${i}@mail.example`,
    () => 'v.ictim@mail.example',
    (i) => `VIC.tim+${i}@MAIL.example`,
  ];
  for (let i = 0; i < 60; i++) replies.push(await owner.post('/test/team/invites', { email: forms[i % forms.length]!(i), role: 'viewer' }));
  assert.deepEqual([replies[0]!.status, ...new Set(replies.slice(1).map(({ status }) => status))], [200, 429]);
  assert.equal((await queued('invite')).length, 1);
  const { code, message } = replies[1]!.json.error;
  assert.equal(code, 'mail_limit_reached');
  assert.match(message, /Try again in (59|60) minutes\.$/);
  assert.ok(Number(replies[1]!.headers.get('retry-after')) > 3_000);
  // Revoking the invitation first changes nothing.
  const { invites } = await ok(owner.get('/test/team'));
  await ok(owner.send('DELETE', `/test/team/invites/${invites[0].id}`, {}) as never);
  assert.equal((await owner.post('/test/team/invites', { email: 'victim@mail.example', role: 'viewer' })).status, 429);
  await sql()`update mails set created_at = created_at - interval '61 minutes'`;
  await ok(owner.post('/test/team/invites', { email: 'victim@mail.example', role: 'viewer' }));
  await sql()`delete from invites`;
});

test('a business mails at most fifty invitations a day', async () => {
  const invite = async (n: number) => {
    await sql()`delete from invites`;
    return (await owner.post('/test/team/invites', { email: `person${n}@mail.example`, role: 'viewer' })).status;
  };
  for (let i = 0; i < 50; i++) assert.equal(await invite(i), 200, String(i));
  assert.equal(await invite(50), 429);
  await sql()`update mails set created_at = created_at - interval '25 hours'`;
  assert.equal(await invite(51), 200);
  await sql()`delete from invites`;
});

test('a person can have links mailed to an address of their choice only a few times', async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) {
    owner.address = `203.0.113.${++networks}`;
    statuses.push((await owner.post('/test/email', { new_email: 'victim@mail.example', password: owner.password })).status);
  }
  assert.deepEqual(statuses, [200, 200, 200, 429]);
  assert.equal((await queued('email_change', 'victim@mail.example')).length, 3);
  await sql()`delete from email_changes`;
});

test('names of people and businesses are one line without links: refused when they are saved, with the reason', async () => {
  const bad = [
    HOSTILE,
    'https://evil.example',
    'www.evil.example',
    'evil.example/x',
    'Call evil。example',
    'e\u200bvil',
    'a\u202eb',
    '\u200b',
    'x'.repeat(61),
    ' ',
  ];
  await ok(owner.post('/test/team/invites', { email: 'named@shop.example', role: 'viewer' }));
  const token = await invitationToken(app, mail, 'named@shop.example');
  const setUp = setupToken((await createMerchant(app.app.ctx, { name: 'Third shop' })).setupUrl);
  for (const name of bad) {
    for (const reply of [
      await somebody().post('/invite/accept', { token, name, password: owner.password }),
      await somebody().post('/set-up', { token: setUp, name, email: 'new@shop.example', password: owner.password }),
      await owner.post('/test/settings/business', { name }),
    ])
      assert.deepEqual(
        [reply.status, reply.json.error.code, reply.json.error.param],
        [400, 'parameter_invalid', 'name'],
        `${name}: ${reply.text}`,
      );
    await assert.rejects(createMerchant(app.app.ctx, { name }), /name is invalid/);
  }
  for (const name of ['O’Neil & Söhne GmbH', 'J. R. R. Tolkien', 'علی\u200cرضا', '山田 太郎', 'x'.repeat(60)]) {
    await ok(owner.post('/test/settings/business', { name }));
    assert.equal((await ok(owner.get('/test/me'))).merchant.name, name);
  }
  // A name from before that is sent back unchanged with other settings is no change of it.
  await sql()`update merchants set name = ${LONG} where id = ${app.merchant.merchantId}`;
  await eventually(
    async () => (await owner.post('/test/settings/business', { name: LONG, display_currency: 'USD' })).status,
    (status) => status === 200,
  );
});

test('older names are harmless in every email: no line breaks and nothing that becomes a link', async () => {
  const { merchantId } = app.merchant;
  await sql()`update users set name = ${HOSTILE} where email = ${OWNER}`;
  await sql()`update merchants set name = ${'Bank\r\nhttps://evil.example/pay'} where id = ${merchantId}`;
  await ok(owner.post('/test/team/invites', { email: 'victim2@mail.example', role: 'viewer' }));
  await ok(owner.post('/test/email', { new_email: 'victim3@mail.example', password: owner.password }));
  await ok(owner.post('/test/email/proof'));
  await sql()`update users set email_verified = true where email = ${OWNER}`;
  await ok(somebody().post('/forgot-password', { address: OWNER }));
  await ok(owner.post('/live/keys', { kind: 'secret', name: 'www.evil.example/x', expires_in_days: null, origins: [] }));
  const kinds = ['invite', 'email_change', 'email_proof', 'password_reset', 'key_created'];
  await eventually(
    async () => (await Promise.all(kinds.map((kind) => queued(kind)))).every((mails) => mails.length > 0),
    (all) => all,
  );
  for (const { subject, body } of (await Promise.all(kinds.map((kind) => queued(kind)))).flat()) {
    for (const text of [subject, body]) assert.doesNotMatch(text.replaceAll(app.config.publicUrl, ''), /evil\.|:\/\/|www\./, text);
    assert.doesNotMatch(subject, /[\r\n]/);
    assert.doesNotMatch(body, /^Your account is locked/m);
  }
  assert.equal(
    (await queued('invite'))[0]!.subject,
    'Eve Your account is locked Unlock https evil example unlock invited you to Bank https evil example pay',
  );
  await sql()`delete from email_changes`;
  await sql()`delete from password_resets`;
});

test('a reset link overtakes a hundred queued invitations, and senders take turns', async () => {
  let release = () => {};
  mail.hold = new Promise((resolve) => {
    release = resolve;
  });
  try {
    await sql()`
      insert into mails (recipient, subject, body, kind) select 'p' || n || '@mail.example', 'Invitation ' || n, 'text', 'invite' from generate_series(1, 100) n`;
    await sql()`delete from password_resets`;
    await sql()`update users set email_verified = true where email = ${OWNER}`;
    await ok(somebody().post('/forgot-password', { address: OWNER }));
    await eventually(
      async () => (await queued('password_reset')).length,
      (n) => n === 1,
    );
    // An email of another sender, which is not urgent either.
    await ok(owner.post('/test/team/invites', { email: 'other@mail.example', role: 'viewer' }));
  } finally {
    release();
    mail.hold = null;
  }
  await eventually(
    async () => mail.mails.length,
    (n) => n >= 102,
    120_000,
  );
  const places = ['Reset your password', 'invited you to'].map((words) => mail.mails.findIndex(({ subject }) => subject.includes(words)));
  for (const place of places) assert.ok(place >= 0 && place < 20, String(places));
});

test('after a hundred warnings in an hour the change itself is refused, so that none is missed', async () => {
  const { merchantId } = app.merchant;
  const { ctx } = app.app;
  await sql()`
    insert into mails (recipient, subject, body, kind, urgent, sender, due_at)
    select ${OWNER}, 'warning', '', 'key_created', true, ${merchantId}, null from generate_series(1, 100)`;
  const before = await sql()`select count(*) as n from keys`;
  const refused = await owner.post('/live/keys', { kind: 'secret', name: 'One more', expires_in_days: null, origins: [] });
  assert.deepEqual([refused.status, refused.json.error.code], [429, 'mail_limit_reached']);
  assert.deepEqual(await sql()`select count(*) as n from keys`, before, 'no key without its warning');
  await ctx.db.sql`delete from mails`;
  await ok(owner.post('/live/keys', { kind: 'secret', name: 'One more', expires_in_days: null, origins: [] }));
});

test('no number of warnings keeps an owner from removing or demoting the member who causes them', async () => {
  const idOf = async (email: string) => (await sql()`select id from users where email = ${email}`)[0]!.id as string;
  await join('loud@shop.example', 'admin', 'Loud');
  await join('quiet@shop.example', 'viewer', 'Quiet');
  const { merchantId } = app.merchant;
  await sql()`
    insert into mails (recipient, subject, body, kind, urgent, sender, due_at)
    select ${OWNER}, 'warning', '', 'team_changed', true, ${merchantId}, null from generate_series(1, 100)`;
  const change = async (email: string, role: string) => (await owner.post(`/test/team/members/${await idOf(email)}/role`, { role })).status;
  assert.equal(await change('quiet@shop.example', 'developer'), 429, 'others are refused, so that none is missed');
  assert.equal(await change('loud@shop.example', 'support'), 200);
  await ok(owner.send('DELETE', `/test/team/members/${await idOf('loud@shop.example')}`, {}));
  const told = await queued('team_changed', OWNER);
  assert.equal(told.filter(({ subject }) => /instead of admin|was removed/.test(subject)).length, 2, 'and both are mailed');
});
