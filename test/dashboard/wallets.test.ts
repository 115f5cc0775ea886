/** Wallets through the dashboard's API: private keys, comparing addresses, the waiting period before a key is replaced, pauses, gaps. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { MERCHANT_COMMANDS } from '../../src/cli/merchant-commands.ts';
import { COINS, isToken } from '../../src/core/coin.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { changeFromJson } from '../../src/people/members.ts';
import { applyDueChanges } from '../../src/wallets/wallet-changes.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { asIfFollowed, startTestApp, type TestApp } from '../kit/app.ts';
import { multisigDescriptor } from '../kit/multisig.ts';
import { Person, setPartnerRole, setUpPartner, setUpPerson, setupToken } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
let partner: Person;
before(async () => {
  // The node is never called: it only makes the coin a configured one. Nor is the mail server: the tests read the waiting mails.
  app = await startTestApp({ BTC_NODE_URL: 'http://user:pass@127.0.0.1:9', SMTP_URL: 'smtp://127.0.0.1:9', LOG_LEVEL: 'silent' });
  await asIfFollowed(app, 'BTC');
  owner = await setUpPerson(app);
});
after(() => app?.stop());

const node = (seed: number) => HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive("m/84'/0'/0'");
const key = (seed: number) => node(seed).publicExtendedKey;
const cards = async (person = owner) => (await person.get('/live/wallets')).json.wallets as any[];
const card = async (currency: string, person = owner) => (await cards(person)).find((one) => one.currency === currency);
const endOf = async (accountKey: string, currency = 'BTC', index = 3) =>
  (await owner.post('/live/wallets/preview', { currency, key: accountKey })).json.addresses[index].address.slice(-6) as string;
const take = async (accountKey: string, person = owner) =>
  person.post('/live/wallets', { currency: 'BTC', key: accountKey, script: 'p2wpkh', ends: await endOf(accountKey) });
const audit = async (action: string) =>
  (await app.app.ctx.db.sql`select actor_name, object, before, after, mode from audit_log where action = ${action} order by id`).map(
    ({ before, after, ...row }) => ({ ...row, before: changeFromJson(before), after: changeFromJson(after) }) as any,
  );

const command = (name: string, flags: Record<string, string>) => {
  const named = MERCHANT_COMMANDS[name]!;
  assert.ok('run' in named);
  return named.run(app.app.ctx, flags);
};

test('private keys and recovery phrases are refused by preview and import, never repeated and never stored', async () => {
  const { sql } = app.app.ctx.db;
  for (const secret of [
    node(1).privateExtendedKey,
    'KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn',
    'e9873d79c6d87dc0fb6a5778633389f4453213303da61f20bd67fc233aa33262',
    'legal winner thank year wave sausage worth useful legal winner thank yellow',
  ]) {
    for (const reply of [
      await owner.post('/live/wallets/preview', { currency: 'BTC', key: secret }),
      await owner.post('/live/wallets', { currency: 'BTC', key: secret, script: 'p2wpkh', ends: 'abcdef' }),
    ]) {
      assert.deepEqual([reply.status, reply.json.error.code, reply.json.error.param], [400, 'private_key_refused', 'key']);
      assert.ok(!reply.text.includes(secret));
    }
  }
  assert.equal((await sql`select 1 from wallets`).length + (await sql`select 1 from wallet_changes`).length, 0);
  assert.equal((await audit('wallet.set')).length, 0);
});

test('an invalid key for this coin and network is reported at its field', async () => {
  const tpub = 'tpubDC5FSnBiZDMmhiuCmWAYsLwgLYrrT9rAqvTySfuCCrgsWz8wxMXUS9Tb9iVMvcRbvFcAHGkMD5Kx8koh4GquNGNTfohfk7pgjhaPCdXpoba';
  for (const [currency, text, reason] of [
    ['BTC', tpub, /is a test network key and this BTC wallet is on mainnet/],
    ['DOGE', `z${key(1).slice(1)}`, /not an extended public key/],
    ['BTC', HDKey.fromMasterSeed(new Uint8Array(32).fill(1)).publicExtendedKey, /depth 0/],
  ] as const) {
    const reply = await owner.post('/live/wallets/preview', { currency, key: text });
    assert.deepEqual([reply.status, reply.json.error.code, reply.json.error.param], [400, 'account_key_invalid', 'key']);
    assert.match(reply.json.error.message, reason);
  }
});

test('test mode needs no wallet: the list is empty and a key is refused', async () => {
  assert.deepEqual((await owner.get('/test/wallets')).json.wallets, []);
  for (const path of ['/test/wallets', '/test/wallets/preview']) {
    const reply = await owner.post(path, { currency: 'BTC', key: key(1), script: 'p2wpkh', ends: 'abcdef' });
    assert.deepEqual([reply.status, reply.json.error.code], [409, 'live_mode_only'], path);
  }
});

test('the first key is active at once, after the end of an address matched; the audit log contains no whole key', async () => {
  const wrong = await owner.post('/live/wallets', { currency: 'BTC', key: key(1), script: 'p2wpkh', ends: 'zzzzzz' });
  assert.deepEqual([wrong.status, wrong.json.error.code, wrong.json.error.param], [400, 'address_ends_differ', 'ends']);
  assert.equal((await card('BTC')).state, 'not_set');
  // The end of an address of another type does not match this one.
  const nested = (await owner.post('/live/wallets/preview', { currency: 'BTC', key: key(1), script: 'p2sh-p2wpkh' })).json.addresses[0]
    .address;
  const other = await owner.post('/live/wallets', { currency: 'BTC', key: key(1), script: 'p2wpkh', ends: nested.slice(-6) });
  assert.equal(other.json.error.code, 'address_ends_differ');
  assert.deepEqual((await take(key(1))).json, { success: true, due_at: null });
  const set = await card('BTC');
  assert.deepEqual([set.state, set.next_index, set.script, set.readiness.payable, set.waiting], ['active', 0, 'p2wpkh', true, null]);
  assert.ok(set.key.length < 20 && key(1).startsWith(set.key.slice(0, 8)) && key(1).endsWith(set.key.slice(-6)));
  const [entry] = await audit('wallet.set');
  assert.deepEqual(entry, {
    ...{ actor_name: 'Olga Owner', object: 'BTC', before: null, mode: 'live' },
    after: { currency: 'BTC', key: set.key, script: 'p2wpkh' },
  });
});

// Invariant: Replacing an account key takes a waiting period, and the person who asked for it cannot confirm it.
test('replacing a key takes a day; the person who requested it cannot confirm it, a second owner of more than a day can; the old key stays watched', async () => {
  const { sql } = app.app.ctx.db;
  const asked = await take(key(2));
  const hours = (new Date(asked.json.due_at).getTime() - Date.now()) / 3_600_000;
  assert.ok(hours > 23.9 && hours < 24.1, String(hours));
  const [notice] = (await owner.get('/live/notices')).json.data;
  assert.match(
    notice.text,
    /^Olga Owner asked to change the BTC wallet\. The new wallet starts receiving payments on 20\d\d-\d\d-\d\d \d\d:\d\d UTC, unless/,
  );
  const waiting = await card('BTC');
  assert.ok(key(1).endsWith(waiting.key.slice(-6)), 'the key in use stays');
  assert.deepEqual([waiting.waiting.asked_by, waiting.waiting.asked_by_me], ['Olga Owner', true]);
  assert.equal(await applyDueChanges(app.app.ctx), 0);
  const own = await owner.post('/live/wallets/BTC/change/confirm');
  assert.deepEqual([own.status, own.json.error.code], [409, 'second_owner_required']);
  partner = await setUpPartner(app);
  assert.equal((await card('BTC', partner)).waiting.asked_by_me, false);
  // Someone who took over a session could have invited this one.
  const fresh = await partner.post('/live/wallets/BTC/change/confirm');
  assert.deepEqual([fresh.status, fresh.json.error.code], [409, 'second_owner_required']);
  assert.notEqual((await card('BTC')).waiting, null);
  await sql`update members set role_since = now() - interval '24 hours 1 second'`;
  assert.equal((await partner.post('/live/wallets/BTC/change/confirm')).status, 200);
  const now = await card('BTC');
  assert.ok(key(2).endsWith(now.key.slice(-6)));
  assert.deepEqual([now.waiting, now.former_keys], [null, 1]);
  assert.equal((await sql`select 1 from wallets where family = 'BTC'`).length, 2, 'the look-ahead still derives from the old key');
  assert.equal((await audit('wallet.change_confirmed'))[0]!.actor_name, 'Pia Partner');
  assert.equal((await partner.post('/live/wallets/BTC/change/confirm')).status, 404);
});

test('a waiting key can be dropped; when its time is over it becomes active automatically, once', async () => {
  const { ctx } = app.app;
  await take(key(3));
  assert.equal((await owner.post('/live/wallets/BTC/change/drop')).status, 200);
  assert.equal((await card('BTC')).waiting, null);
  await take(key(3));
  // Requesting another one restarts the waiting period.
  await ctx.db.sql`update wallet_changes set due_at = now() + interval '1 minute'`;
  const again = await take(key(4));
  assert.ok(new Date(again.json.due_at).getTime() - Date.now() > 23 * 3_600_000);
  await ctx.db.sql`update wallet_changes set due_at = now() - interval '1 second'`;
  const moved = await Promise.all([applyDueChanges(ctx), applyDueChanges(ctx)]);
  assert.ok(moved.some((count) => count === 1) || (await card('BTC')).waiting === null);
  assert.ok(key(4).endsWith((await card('BTC')).key.slice(-6)));
  assert.equal((await audit('wallet.change_took_effect')).length, 1);
});

test('a waiting key that another merchant has registered meanwhile is not activated, and does not wait forever', async () => {
  const { ctx } = app.app;
  await take(key(5));
  const other = await createMerchant(ctx, { name: 'Other shop' });
  await setWallet(ctx, { merchantId: other.merchantId, coin: 'BTC', accountKey: key(5), script: 'p2wpkh' });
  assert.equal((await owner.post('/live/wallets/preview', { currency: 'BTC', key: key(5) })).json.standing, 'foreign');
  const refused = await take(key(5));
  assert.deepEqual([refused.status, refused.json.error.code], [400, 'account_key_invalid']);
  await ctx.db.sql`update wallet_changes set due_at = now() - interval '1 second'`;
  await applyDueChanges(ctx);
  assert.equal((await card('BTC')).waiting, null);
  assert.ok(key(4).endsWith((await card('BTC')).key.slice(-6)));
  assert.equal((await audit('wallet.change_failed')).length, 1);
});

const isWaiting = async (accountKey: string): Promise<boolean> => (await take(accountKey)).json.due_at !== null;
const waitOff = async (person = owner) => (await person.get('/live/wallets')).json.wait_off;
const newestNotice = async (person: Person) => (await person.get('/live/notices')).json.data[0].text as string;
const mailsAbout = async (words: RegExp) =>
  (await app.app.ctx.db.sql<{ recipient: string; subject: string }[]>`select recipient, subject from mails order by recipient`)
    .filter(({ subject }) => words.test(subject))
    .map(({ recipient }) => recipient);

// Invariant: Turning the waiting period off takes as long itself, or a second owner.
test('turning the waiting period off takes a day itself: until then a changed key still waits, and all owners are notified', async () => {
  const { ctx } = app.app;
  assert.equal(await waitOff(), null);
  const asked = await owner.post('/live/wallets/wait', { waits: false });
  const hours = (new Date(asked.json.due_at).getTime() - Date.now()) / 3_600_000;
  assert.ok(asked.status === 200 && hours > 23.9 && hours < 24.1, asked.text);
  assert.deepEqual(await waitOff(), { is_off: false, asked_by: 'Olga Owner', asked_by_me: true, due_at: asked.json.due_at });
  assert.equal((await waitOff(partner)).asked_by_me, false);
  for (const person of [owner, partner])
    assert.match(
      await newestNotice(person),
      /^Olga Owner asked to turn off the waiting period for wallet changes\. It ends on 20\d\d-\d\d-\d\d \d\d:\d\d UTC, unless/,
    );
  assert.deepEqual(await mailsAbout(/asked to turn off the waiting period/), ['olga@shop.example', 'pia@shop.example']);
  // A second request changes nothing: neither the time, nor who cannot confirm it.
  assert.equal((await partner.post('/live/wallets/wait', { waits: false })).json.due_at, asked.json.due_at);
  assert.equal((await audit('wallet.wait_off_asked')).length, 1);
  // An owner counts from the time they became one again.
  const { members } = (await owner.get('/live/team')).json;
  const pia = members.find((one: { email: string }) => one.email === 'pia@shop.example').id;
  for (const role of ['admin', 'owner']) assert.equal((await owner.post(`/live/team/members/${pia}/role`, { role })).status, 200);
  assert.equal((await partner.post('/live/wallets/wait/confirm')).json.error.code, 'second_owner_required');
  await ctx.db.sql`update members set role_since = now() - interval '24 hours 1 second'`;
  const own = await owner.post('/live/wallets/wait/confirm');
  assert.deepEqual([own.status, own.json.error.code], [409, 'second_owner_required']);
  assert.equal(await isWaiting(key(6)), true);
  // It turns off when its time is over; no worker has to run.
  await ctx.db.sql`update wallet_waits_off set due_at = clock_timestamp() + interval '1 minute'`;
  assert.equal(await isWaiting(key(6)), true);
  await ctx.db.sql`update wallet_waits_off set due_at = clock_timestamp()`;
  assert.equal((await waitOff()).is_off, true);
  assert.ok(key(4).endsWith((await card('BTC')).key.slice(-6)), 'a key that already waits keeps waiting');
  assert.equal(await isWaiting(key(6)), false);
  assert.ok(key(6).endsWith((await card('BTC')).key.slice(-6)));
  assert.equal((await card('BTC')).waiting, null);
  assert.equal(await newestNotice(partner), 'The BTC wallet that receives payments was changed.');
  const late = await partner.post('/live/wallets/wait/confirm');
  assert.deepEqual([late.status, late.json.error.code], [409, 'nothing_to_confirm']);
});

test('turning the waiting period on takes effect at once, and withdraws the request to turn it off', async () => {
  assert.deepEqual((await partner.post('/live/wallets/wait', { waits: true })).json, { success: true, due_at: null });
  assert.equal(await waitOff(), null);
  assert.equal(await isWaiting(key(4)), true);
  await owner.post('/live/wallets/BTC/change/drop');
  await owner.post('/live/wallets/wait', { waits: false });
  await partner.post('/live/wallets/wait', { waits: true });
  assert.equal((await owner.post('/live/wallets/wait', { waits: true })).status, 200);
  const entries = await audit('wallet.wait_on');
  assert.deepEqual(
    entries.map(({ actor_name, object, before, mode }) => [actor_name, object, before.asked_by, mode]),
    Array(2).fill(['Pia Partner', app.merchant.merchantId, 'Olga Owner', 'live']),
    'what was on already is not written down again',
  );
  assert.equal((await partner.post('/live/wallets/wait/confirm')).json.error.code, 'nothing_to_confirm');
});

test('a second owner can end the waiting period at once; every owner is notified, and no other merchant is affected', async () => {
  const { ctx } = app.app;
  await owner.post('/live/wallets/wait', { waits: false });
  assert.equal((await partner.post('/live/wallets/wait/confirm')).status, 200);
  assert.equal((await waitOff()).is_off, true);
  assert.equal(await newestNotice(owner), 'The waiting period for wallet changes is off: wallet changes take effect immediately.');
  assert.deepEqual(await mailsAbout(/waiting period for wallet changes is off/), ['olga@shop.example', 'pia@shop.example']);
  const [entry] = await audit('wallet.wait_off_confirmed');
  assert.deepEqual([entry!.actor_name, entry!.after], ['Pia Partner', { asked_by: 'Olga Owner' }]);
  assert.equal(await isWaiting(key(4)), false);
  const [rows] = await ctx.db.sql`select array_agg(merchant_id) as ids from wallet_waits_off`;
  assert.deepEqual(rows!.ids, [app.merchant.merchantId]);
  await owner.post('/live/wallets/wait', { waits: true });
});

test('only an owner can change the waiting period, with recent authentication, and test mode has none', async () => {
  const { sql } = app.app.ctx.db;
  assert.equal((await owner.post('/test/wallets/wait', { waits: false })).json.error.code, 'live_mode_only');
  assert.equal((await owner.post('/test/wallets/wait/confirm')).json.error.code, 'live_mode_only');
  assert.equal((await owner.get('/test/wallets')).json.wait_off, null);
  await sql`update members set role = 'admin' where user_id = (select id from users where email = 'pia@shop.example')`;
  for (const path of ['/live/wallets/wait', '/live/wallets/wait/confirm']) {
    const refused = await partner.post(path, { waits: false });
    assert.deepEqual([refused.status, refused.json.error.code], [403, 'action_not_permitted'], path);
  }
  await sql`update sessions set created_at = created_at - interval '11 minutes'`;
  for (const path of ['/live/wallets/wait', '/live/wallets/wait/confirm'])
    assert.equal((await owner.post(path, { waits: false })).json.error.code, 'recent_authentication_required', path);
  await owner.post('/live/confirm', { password: owner.password });
  assert.equal(await waitOff(), null);
});

test('a paused coin is not offered, and is resumed with the same key and counter', async () => {
  assert.equal((await owner.post('/live/wallets/BTC/state', { paused: true })).status, 200);
  assert.equal((await card('BTC')).state, 'paused');
  assert.equal((await owner.post('/live/wallets/BTC/state', { paused: true })).status, 404);
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  const made = await app.live.post('/payments', { amount: '0.001', currency: 'BTC' });
  assert.equal(made.json.error.code, 'coin_not_configured');
  // A pause is not a way around the waiting period.
  assert.notEqual((await take(key(6))).json.due_at, null);
  await owner.post('/live/wallets/BTC/change/drop');
  assert.equal((await owner.post('/live/wallets/BTC/state', { paused: false })).status, 200);
  const back = await card('BTC');
  assert.ok(back.state === 'active' && key(4).endsWith(back.key.slice(-6)));
});

test('the card shows total received, the last deposit and the longest run of unused addresses, over at most the newest thousand', async () => {
  const { sql } = app.app.ctx.db;
  const [wallet] = await sql`select id, merchant_id from wallets where family = 'BTC' and active`;
  const give = (from: number, to: number) => sql`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    select 'BTC', 'k' || i, 'a' || i, 'pay_' || i, ${wallet!.merchant_id}, ${wallet!.id}, i, now() from generate_series(${from}::int, ${to}::int) i`;
  const pay = (index: number, conflict: string | null = null) => sql`
    insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, conflict_txid)
    values ('BTC', ${`t${index}:0`}, ${`pay_${index}`}, ${wallet!.merchant_id}, ${`t${index}`}, ${`a${index}`}, 1000, 'output', '2026-11-20T10:00:00Z', ${conflict})`;
  await give(0, 59);
  await pay(2);
  await pay(33);
  await pay(50);
  await pay(57, 'other');
  await sql`update wallets set next_index = 60 where id = ${wallet!.id}`;
  const seen = await card('BTC');
  assert.deepEqual(
    [seen.amount_received, seen.amount_received_is_all, seen.unused_run, seen.last_deposit_at, seen.next_index],
    ['0.00003000', true, 30, '2026-11-20T10:00:00.000Z', 60],
  );
  assert.deepEqual([seen.usual_gap_limit, seen.gap_limit, (await card('ETH')).gap_limit], [20, 50, null]);
  await give(60, 1_499);
  await sql`update wallets set next_index = 1500 where id = ${wallet!.id}`;
  const many = await card('BTC');
  assert.deepEqual([many.amount_received, many.amount_received_is_all, many.unused_run], ['0.00000000', false, 1_000]);
  assert.equal(many.gap_limit, 1_050);
  const listed = (await command('wallet list', { merchant: wallet!.merchant_id })) as any;
  const { unused_run, gap_limit } = listed.wallets.find(({ coin }: { coin: string }) => coin === 'BTC');
  assert.deepEqual([unused_run, gap_limit], [1_000, 1_050]);
});

// Invariant: Once a coin is live, the first key of another coin waits as well.
test('the first key of another coin waits a day once a coin is live; keys set up on the first day do not wait, and the operator’s command never does', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  const shop = await createMerchant(ctx, { name: 'Shop with several coins' });
  const { merchantId } = shop;
  const sam = new Person(app.url);
  const token = setupToken(shop.setupUrl);
  await sam.post('/set-up', { token, name: 'Sam Several', email: 'sam@shop.example', password: sam.password });
  const xpub = (coin: number, seed: number) =>
    HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive(`m/44'/${coin}'/0'`).publicExtendedKey;
  const keys = { BTC: xpub(0, 40), LTC: xpub(2, 41), DASH: xpub(5, 42), ETH: xpub(60, 43), DOGE: xpub(3, 44) };
  const scripts = { BTC: 'p2wpkh', LTC: 'p2wpkh', DASH: 'p2pkh', ETH: 'eoa', DOGE: 'p2pkh' };
  const preview = async (currency: keyof typeof keys) =>
    (await sam.post('/live/wallets/preview', { currency, key: keys[currency], script: scripts[currency] })).json;
  const add = async (currency: keyof typeof keys) => {
    const ends = (await preview(currency)).addresses[0].address.slice(-6);
    const reply = await sam.post('/live/wallets', { currency, key: keys[currency], script: scripts[currency], ends });
    assert.equal(reply.status, 200, reply.text);
    return reply.json.due_at as string | null;
  };
  assert.equal(await add('BTC'), null, 'the first key of all');
  assert.equal((await card('LTC', sam)).first_key_waits, false);
  assert.equal(await add('LTC'), null, 'the same day, before anybody could pay');
  // A customer gets an address.
  await sql`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    select 'BTC', 'sam', 'sam', 'pay_sam', ${merchantId}, id, 0, now() from wallets where merchant_id = ${merchantId} and family = 'BTC'`;
  assert.equal((await preview('DASH')).waits, 'further_coin');
  assert.equal((await card('DASH', sam)).first_key_waits, true);
  const due = await add('DASH');
  const hours = (new Date(due!).getTime() - Date.now()) / 3_600_000;
  assert.ok(hours > 23.9 && hours < 24.1, String(hours));
  const waiting = await card('DASH', sam);
  assert.deepEqual([waiting.state, waiting.waiting.asked_by], ['not_set', 'Sam Several']);
  assert.match(
    await newestNotice(sam),
    /^Sam Several added a DASH wallet\. It starts receiving payments on 20\d\d-\d\d-\d\d \d\d:\d\d UTC, unless/,
  );
  assert.deepEqual(await mailsAbout(/added a DASH wallet/), ['sam@shop.example']);
  assert.equal(
    (await sql`select 1 from wallets where merchant_id = ${merchantId} and family = 'DASH'`).length,
    0,
    'no payer is offered it',
  );
  const own = await sam.post('/live/wallets/DASH/change/confirm');
  assert.deepEqual([own.status, own.json.error.code], [409, 'second_owner_required']);
  // Pausing the live coin is not a way around it.
  await sam.post('/live/wallets/BTC/state', { paused: true });
  assert.equal((await preview('DOGE')).waits, 'further_coin');
  await sql`update wallet_changes set due_at = now() - interval '1 second' where merchant_id = ${merchantId}`;
  await applyDueChanges(ctx);
  assert.equal((await card('DASH', sam)).state, 'active');
  // A day after set-up a coin counts as live, even without any address.
  await sql`delete from deposit_addresses where merchant_id = ${merchantId}`;
  assert.equal((await preview('DOGE')).waits, null);
  await sql`update wallets set created_at = now() - interval '24 hours 1 second' where merchant_id = ${merchantId} and family = 'LTC'`;
  assert.equal((await preview('DOGE')).waits, 'further_coin');
  // By command at once; and at once where the merchant turned the waiting period off.
  await setWallet(ctx, { merchantId, coin: 'DOGE', accountKey: keys.DOGE, script: 'p2pkh' });
  assert.equal((await card('DOGE', sam)).state, 'active');
  await sql`
    insert into wallet_waits_off (merchant_id, asked_by, asked_by_name, due_at)
    select ${merchantId}, user_id, 'Sam', now() - interval '1 second' from members where merchant_id = ${merchantId}`;
  assert.equal((await card('ETH', sam)).first_key_waits, false);
  assert.equal(await add('ETH'), null);
});

test('stablecoins are turned on one by one, need no key of their own, and are off until then', async () => {
  const tokens = async () => ((await owner.get('/live/wallets')).json.tokens as any[]).map(({ coin, on }) => [coin, on]);
  const off = COINS.filter(isToken).map((coin) => [coin, false]);
  assert.deepEqual(await tokens(), off);
  const save = (...list: string[]) => owner.post('/live/wallets/tokens', { tokens: list });
  assert.equal((await save('USDC@ethereum', 'DAI@ethereum')).status, 200);
  const on = await tokens();
  assert.deepEqual(
    on.filter(([, isOn]) => isOn),
    [
      ['USDC@ethereum', true],
      ['DAI@ethereum', true],
    ],
  );
  const [usdc] = (await owner.get('/live/wallets')).json.tokens as any[];
  assert.deepEqual([usdc.currency, usdc.name, usdc.network, usdc.readiness.payable], ['USDC', 'USD Coin', 'Ethereum', false]);
  assert.equal(usdc.readiness.missing[0].message, 'No Ethereum wallet is set up.');
  const refused = await save('BTC');
  assert.deepEqual([refused.status, refused.json.error.param], [400, 'tokens']);
  assert.equal((await save()).status, 200);
  assert.deepEqual(await tokens(), off);
  const [change] = await app.app.ctx.db.sql<{ before: any; after: any }[]>`
    select before, after from audit_log where action = 'settings.changed' order by id desc limit 1`;
  assert.deepEqual([change!.before.tokens, change!.after.tokens], [['USDC@ethereum', 'DAI@ethereum'], []]);
  // An operator without a browser has a command.
  const { merchantId: merchant } = app.merchant;
  const set = (list: string) => command('wallet tokens', { merchant, tokens: list });
  await set('USDC@base');
  assert.deepEqual(
    (await tokens()).filter(([, isOn]) => isOn),
    [['USDC@base', true]],
  );
  await assert.rejects(set('USDC@base,BTC'), { code: 'parameter_invalid' });
  await set('none');
  assert.deepEqual(await tokens(), off);
});

test('an address paid only in a token counts as used, and its amount is not added to that of the native coin', async () => {
  const { sql } = app.app.ctx.db;
  const { merchantId } = app.merchant;
  const accountKey = HDKey.fromMasterSeed(new Uint8Array(32).fill(45)).derive("m/44'/60'/0'");
  const { walletId } = await setWallet(app.app.ctx, { merchantId, coin: 'ETH', accountKey: accountKey.publicExtendedKey });
  await sql`
    insert into deposit_addresses (family, key, address, payment_id, merchant_id, wallet_id, index, created_at)
    select 'ETH', 'e' || i, '0x' || i, 'pay_e' || i, ${merchantId}, ${walletId}, i, now() from generate_series(0, 29) i`;
  // The customer of the third payment sent bitcoin to its other address.
  await sql`
    insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at)
    select coin, 'e' || n, payment, ${merchantId}, 'e' || n, 'to', units, 'output', at::timestamptz
    from (values (1, 'ETH', 'pay_e2', 1000000000000000000, '2026-11-20T10:00:00Z'), (2, 'USDC@ethereum', 'pay_e20', 25500000, '2026-11-20T11:00:00Z'),
      (3, 'BTC', 'pay_e28', 1000, '2026-11-20T12:00:00Z')) as t(n, coin, payment, units, at)`;
  await sql`update wallets set next_index = 30 where id = ${walletId}`;
  const { amount_received, unused_run, last_deposit_at } = await card('ETH');
  assert.deepEqual([amount_received, unused_run, last_deposit_at], ['1.00000000', 17, '2026-11-20T11:00:00.000Z']);
});

test('the page of test payments offers the stablecoins that test mode turned on, without a wallet, and live mode has its own choice', async () => {
  const on = async (mode: string) =>
    (await owner.get(`/${mode}/wallets`)).json.tokens.filter((token: any) => token.on).map(({ coin }: any) => coin);
  const offered = async () => {
    const { json } = await app.test.post('/v1/payments', { amount: '25.00', currency: 'USD' });
    const page = await (await fetch(`${app.url}/pay?id=${json.id}`)).text();
    return { id: json.id, hasToken: page.includes('USD Coin') || page.includes('USDC') };
  };
  assert.deepEqual([await on('test'), (await offered()).hasToken], [[], false]);
  assert.equal((await owner.post('/test/wallets/tokens', { tokens: ['USDC@base'] })).status, 200);
  assert.deepEqual([await on('test'), await on('live')], [['USDC@base'], []]);
  const { id, hasToken } = await offered();
  assert.equal(hasToken, true);
  const simulated = await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'USDC', network: 'base' });
  assert.deepEqual([simulated.status, simulated.json.network], [200, 'base'], simulated.text);
  assert.equal((await owner.post('/test/wallets/tokens', { tokens: ['BTC'] })).status, 400);
  assert.equal((await owner.post('/test/wallets/tokens', { tokens: [] })).status, 200);
  assert.equal((await offered()).hasToken, false);
});

test('who signs downloads the policy of a multisig wallet for hardware wallets, and it can be imported again; nobody else gets its keys', async () => {
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  const descriptor = multisigDescriptor({ required: 2, of: 3, network: 'mainnet' });
  const missing = await owner.get('/live/wallets/LTC/policy');
  assert.deepEqual([missing.status, missing.json.error.code], [404, 'wallet_not_found']);
  await setWallet(ctx, { merchantId, coin: 'BTC', accountKey: descriptor });
  const file = await owner.get('/live/wallets/BTC/policy');
  assert.equal(file.status, 200);
  const policy = JSON.parse(file.text);
  assert.deepEqual([policy.name, policy.descriptor_template], ['Florin BTC', 'wsh(sortedmulti(2,@0/**,@1/**,@2/**))']);
  for (const info of policy.keys_info) assert.ok(descriptor.includes(`${info}/<0;1>/*`));
  const again = (await owner.post('/live/wallets/preview', { currency: 'BTC', key: file.text })).json;
  assert.deepEqual([again.standing, again.signers.required], ['active', 2]);
  assert.deepEqual(await command('wallet policy', { merchant: merchantId, coin: 'BTC' }), policy);
  for (const role of ['admin', 'viewer'] as const) {
    await setPartnerRole(app, role);
    assert.equal((await partner.get('/live/wallets/BTC/policy')).status, 403, role);
  }
});
