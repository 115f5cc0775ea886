/** The search of the dashboard over everything: each kind by its ID, payments and customers by text, and what a member may not find. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signingFileText } from '../../src/core/signing-file.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Person, setPartnerRole, setUpPartner, setUpPerson } from '../kit/person.ts';
import { giveWallet } from '../kit/shop.ts';
import { sweepFile } from '../kit/signing.ts';

const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
const KINDS = ['payments', 'customers', 'refunds', 'payouts', 'sweeps', 'links', 'events'] as const;
type Kind = (typeof KINDS)[number];

let app: TestApp;
let owner: Person;
let partner: Person;
/** One of each kind; the payment and its customer are of this text. */
let ids: Record<Kind, string>;
let payoutEvent: string;
before(async () => {
  // The node is never reached: it only makes the coin a configured one.
  app = await startTestApp({ BTC_NODE_URL: 'http://user:pass@127.0.0.1:9', LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
  partner = await setUpPartner(app);
  ids = { ...(await fill(app.test, owner)), sweeps: await makeSweep() };
  const asked = { currency: 'BTC', amount_usd: '10.00', address: ADDRESS, payout_reference: 'wages' };
  ids.payouts = ok(await owner.post('/test/payouts', asked)).payout.id;
  payoutEvent = ok(await owner.get(`/test/events?type=payout.requested&payment_id=${ids.payouts}`)).data[0].id;
});
after(() => app?.stop());

const ok = ({ status, json, text }: Reply): any => {
  assert.ok(status < 300, text);
  return json;
};
/** A paid payment of a customer, a refund of it, a link and an event, in test mode. */
async function fill(client: Client, person: Person): Promise<Record<Kind, string>> {
  const customer = { email: 'ada@example.com', name: 'Ada Lovelace', reference: 'C-1001' };
  const payment = ok(await client.post('/v1/payments', { amount: '25.00', currency: 'USD', invoice_id: 'INV-77', customer }));
  ok(await client.post(`/v1/test/payments/${payment.id}/simulate`, { scenario: 'success', currency: 'BTC' }));
  await eventually(
    () => client.get(`/api/payment/${payment.id}`),
    ({ json }) => json.status === 'completed',
  );
  return {
    payments: payment.id,
    customers: ok(await person.get('/test/customers')).data[0].id,
    refunds: ok(await client.post('/v1/refunds', { payment_id: payment.id, amount_usd: '5.00' })).id,
    links: ok(await person.post('/test/links', { name: 'Tea', amount: '3', reusable: true })).link.id,
    events: ok(await person.get('/test/events?type=payment.created')).data[0].id,
    payouts: '',
    sweeps: '',
  };
}
/** In live mode, where all sweeps are. */
async function makeSweep(): Promise<string> {
  const { file, destination } = sweepFile('BTC', 'p2wpkh', 3);
  await giveWallet(app, 'BTC');
  const { sql } = app.app.ctx.db;
  await sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by)
    select ${file.id}, merchant_id, id, 'BTC', 'made', ${sql.json(JSON.parse(signingFileText(file)))}, ${destination},
      ${file.totalUnits.toString()}, ${file.feeUnits.toString()}, 3, 'Test' from wallets where merchant_id = ${app.merchant.merchantId}`;
  return file.id;
}

const modeOf = (kind: Kind) => (kind === 'sweeps' ? 'live' : 'test');
/** What is found, as `kind id`. */
async function search(q: string, { person = owner, mode = 'test' }: { person?: Person; mode?: string } = {}): Promise<string[]> {
  const { success, ...found } = ok(await person.get(`/${mode}/search?q=${encodeURIComponent(q)}`));
  assert.deepEqual([success, Object.keys(found)], [true, [...KINDS]]);
  return KINDS.flatMap((kind) => found[kind].map(({ id }: { id: string }) => `${kind} ${id}`));
}

test('each kind is found by its ID in its mode, alone, and not in the other mode', async () => {
  for (const kind of KINDS) {
    const mode = modeOf(kind);
    assert.deepEqual(await search(` ${ids[kind]} `, { mode }), [`${kind} ${ids[kind]}`]);
    assert.deepEqual(await search(ids[kind], { mode: mode === 'test' ? 'live' : 'test' }), [], kind);
    assert.deepEqual(await search(`${ids[kind].slice(0, -1)}${ids[kind].endsWith('0') ? '1' : '0'}`, { mode }), [], `another ${kind}`);
  }
});

test('payments and customers are found by any part of their texts', async () => {
  const [payment, customer] = [`payments ${ids.payments}`, `customers ${ids.customers}`];
  for (const text of ['LOVELACE', 'da@example', 'c-1001']) assert.deepEqual(await search(text), [payment, customer], text);
  assert.deepEqual(await search('inv-77'), [payment]);
  assert.deepEqual(await search(ids.payments.slice(0, 20)), [payment]);
  for (const none of ['wages', 'nobody', '%', `${ids.refunds} x`]) assert.deepEqual(await search(none), [], none);
  assert.deepEqual(await search('lovelace', { mode: 'live' }), []);
  // Other services write their IDs in the same form.
  const invoice = 'evt_1MqqbKLt4dXK03v5qaIbiNCC';
  const other = ok(await app.test.post('/v1/payments', { amount: '25.00', currency: 'USD', invoice_id: invoice }));
  assert.deepEqual(await search(invoice), [`payments ${other.id}`]);
});

test('what belongs to another merchant is not found', async () => {
  const theirs = await createMerchant(app.app.ctx, { name: 'Other shop' });
  const stranger = await setUpPerson(app, theirs, 'sam@other.example');
  for (const q of [...Object.values(ids), payoutEvent, 'lovelace', 'INV-77'])
    for (const mode of ['test', 'live']) assert.deepEqual(await search(q, { person: stranger, mode }), [], q);
  const own = await fill(app.as(theirs.keys.testSecret), stranger);
  for (const kind of ['payments', 'customers', 'refunds', 'links', 'events'] as const) {
    assert.deepEqual(await search(own[kind], { person: stranger }), [`${kind} ${own[kind]}`]);
    assert.deepEqual(await search(own[kind]), [], kind);
  }
  assert.deepEqual(await search('lovelace', { person: stranger }), [`payments ${own.payments}`, `customers ${own.customers}`]);
});

test('a member finds only what the role may read', async () => {
  const everybody: Kind[] = ['payments', 'customers', 'refunds', 'links'];
  const rows: [role: 'owner' | 'admin' | 'finance' | 'support' | 'developer' | 'viewer', kinds: Kind[], payoutEvents: boolean][] = [
    ['owner', [...KINDS], true],
    ['admin', [...everybody, 'payouts', 'events'], true],
    ['finance', [...everybody, 'payouts', 'sweeps'], false],
    ['developer', [...everybody, 'events'], false],
    ['support', [...everybody, 'events'], false],
    ['viewer', everybody, false],
  ];
  for (const [role, kinds, payoutEvents] of rows) {
    await setPartnerRole(app, role);
    const found: Kind[] = [];
    for (const kind of KINDS) if ((await search(ids[kind], { person: partner, mode: modeOf(kind) })).length > 0) found.push(kind);
    assert.deepEqual(found.toSorted(), kinds.toSorted(), role);
    assert.deepEqual(
      await search(payoutEvent, { person: partner }),
      payoutEvents ? [`events ${payoutEvent}`] : [],
      `${role}, event of a payout`,
    );
  }
});

test('a text that is missing, blank, too long or not text is refused', async () => {
  for (const query of ['', '?q=', '?q=%20%09', `?q=${'a'.repeat(201)}`, '?q=a&q=b', '?q=%00', '?text=a'])
    assert.equal((await owner.get(`/test/search${query}`)).status, 400, query);
  assert.deepEqual(await search('a'.repeat(200)), []);
});
