/** What providers and nodes may answer: no lie of theirs completes a payment, and none stops one that is paid. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { trialBalance } from '../../src/books/books.ts';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { chainOf } from '../../src/core/coin.ts';
import type { LightningKind } from '../../src/lightning/access.ts';
import type { NostrEvent } from '../../src/lightning/nostr.ts';
import { eventually } from '../kit/app.ts';
import { EVER } from '../kit/books.ts';
import { startLightningFronts } from '../kit/lightning-fronts.ts';
import { type LightningShop, startLightningShop } from '../kit/lightning-shop.ts';
import { isLongRun } from '../kit/long.ts';
import { NWC_SECRET } from '../kit/nostr-relay.ts';
import { agePayment } from '../kit/payments.ts';

const { bolt11 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
let shop: LightningShop;
before(async () => {
  shop = await startLightningShop();
});
after(() => shop?.stop());
afterEach(async () => {
  shop.fronts.behave();
  shop.fronts.relay.reset();
  await shop.app.app.ctx.db.sql`update lightning_backends set away_until = null`;
});

/** Answers the requests whose path contains a text in another way. */
const lie = (path: string, answer: (json: any) => object): void =>
  shop.fronts.behave((usual, asked) => (asked.path.includes(path) ? { status: 200, json: answer(usual.json) } : usual));

/** Each: what `verify` says of an invoice that nobody paid, as "settled". */
const sha = (text: string): string => createHash('sha256').update(text).digest('hex');
const UNPROVEN: readonly (readonly [string, object])[] = [
  ['hostile case 9: no preimage', { preimage: null }],
  ['hostile case 10: a preimage of zeros', { preimage: '0'.repeat(64) }],
  ['hostile case 10: the preimage of another invoice', { preimage: sha('another') }],
  ['hostile case 10: a preimage of 31 bytes', { preimage: sha('short').slice(2) }],
  ['the payment hash as preimage', { preimage: 'hash' }],
  ['numbers as preimage', { preimage: [1, 2, 3] }],
];
/** The usual run shows no preimage, a wrong one and one of a wrong kind. */
const FEW = ['hostile case 9: no preimage', 'hostile case 10: the preimage of another invoice', 'numbers as preimage'];
for (const [what, change] of UNPROVEN.filter(([one]) => isLongRun || FEW.includes(one)))
  test(`${what} with "settled" completes nothing, and the payment says what it waits for`, async () => {
    await shop.use('address');
    const { id, invoice } = await shop.ask();
    const { paymentHash } = decodeInvoice(invoice);
    const preimage = 'preimage' in change && change.preimage === 'hash' ? paymentHash : (change as { preimage: unknown }).preimage;
    lie('/verify/', (json) => ({ ...json, settled: true, preimage }));
    const waits = await shop.reached(id, 'processing');
    assert.match(waits.hold_reason, /without the preimage/);
    assert.deepEqual([waits.amount_received, waits.completed_at, waits.verified_by], ['0', null, null].with(0, '0.00000000'));
    // The truth still completes it.
    shop.fronts.behave();
    shop.pair.pay(invoice);
    await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
    await shop.reached(id, 'completed');
  });

test('a payment that was called paid without proof waits again when its provider takes that back, and expires', async () => {
  await shop.use('address');
  const { id } = await shop.ask();
  lie('/verify/', (json) => ({ ...json, settled: true, preimage: null }));
  await shop.reached(id, 'processing');
  shop.fronts.behave();
  const { sql } = shop.app.app.ctx.db;
  await sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  const waits = await shop.reached(id, 'pending');
  assert.deepEqual([waits.transfers.length, waits.hold_reason, waits.exception], [0, null, null]);
  await agePayment(shop.app.app.ctx.db, id, 7_200);
  await sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  const ended = await shop.reached(id, 'expired');
  assert.deepEqual([ended.transfers.length, ended.exception, ended.amount_received], [0, null, '0.00000000']);
});

test('hostile case 10: a preimage in capitals is as good', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  lie('/verify/', (json) => ({ ...json, preimage: json.preimage?.toUpperCase() ?? null }));
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
});

type Answering = LightningKind;
/** Where each is asked about an invoice. */
const LOOKS: Readonly<Record<Answering, string>> = {
  address: '/verify/',
  lnd: '/v1/invoice/',
  cln: '/v1/listinvoices',
  phoenixd: '/payments/incoming/',
  lnbits: '/api/v1/payments/',
  nwc: 'nwc:lookup_invoice',
};
const ofCln = (change: object) => (json: any) => ({ invoices: json.invoices.map((one: object) => ({ ...one, ...change })) });
const ofNwc = (change: object) => (json: any) => ({ ...json, result: { ...json.result, ...change } });
const OTHER_HASH = 'ab'.repeat(32);
/** Each: an answer from which nothing follows. */
const NOTHING: readonly (readonly [string, Answering, (json: any) => object])[] = [
  ['hostile case 12: about another invoice', 'address', (json) => ({ ...json, settled: true, pr: bolt11.valid[0].invoice })],
  ['with settled as text', 'address', (json) => ({ ...json, settled: 'true' })],
  ['that the invoice is not known', 'address', () => ({ status: 'ERROR', reason: 'Not found' })],
  ['of another hash', 'lnd', (json) => ({ ...json, state: 'SETTLED', r_hash: Buffer.alloc(32).toString('base64') })],
  ['that only the old field says settled', 'lnd', (json) => ({ ...json, settled: true })],
  ['that it is held', 'lnd', (json) => ({ ...json, state: 'ACCEPTED' })],
  ['of an unknown state', 'lnd', (json) => ({ ...json, state: 'PAID' })],
  ['without an amount', 'lnd', ({ amt_paid_msat: _, ...json }) => ({ ...json, state: 'SETTLED' })],
  ['of another hash', 'cln', ofCln({ status: 'paid', payment_hash: OTHER_HASH, amount_received_msat: 10_000_000 })],
  ['of an unknown state', 'cln', ofCln({ status: 'settled', amount_received_msat: 10_000_000 })],
  ['without an amount', 'cln', ofCln({ status: 'paid' })],
  ['that it knows no invoice, as after a restore', 'cln', () => ({ invoices: [] })],
  ['with a preimage and unpaid', 'cln', ofCln({ payment_preimage: '11'.repeat(32) })],
  ['of another hash', 'phoenixd', (json) => ({ ...json, isPaid: true, paymentHash: OTHER_HASH })],
  ['with paid as text', 'phoenixd', (json) => ({ ...json, isPaid: 'true' })],
  ['of another hash', 'lnbits', (json) => ({ ...json, paid: true, details: { payment_hash: OTHER_HASH } })],
  ['with paid as a number', 'lnbits', (json) => ({ ...json, paid: 1 })],
  ['of another hash', 'nwc', ofNwc({ state: 'settled', payment_hash: OTHER_HASH, settled_at: 1 })],
  ['of a payment that it made', 'nwc', ofNwc({ state: 'settled', type: 'outgoing', settled_at: 1 })],
  ['of an unknown state', 'nwc', ofNwc({ state: 'paid', settled_at: 1 })],
  ['that it is held', 'nwc', ofNwc({ state: 'accepted', preimage: '11'.repeat(32) })],
  ['with a preimage and no state', 'nwc', ofNwc({ state: undefined, preimage: '11'.repeat(32) })],
  ['to another question', 'nwc', (json) => ({ ...json, result_type: 'get_info' })],
];
/** Of each kind the usual run tells every second one, the first among them. */
const told = [...Map.groupBy(NOTHING, ([, kind]) => kind).values()].flatMap((rows) => rows.filter((_, i) => isLongRun || i % 2 === 0));
for (const [what, kind, answer] of told)
  test(`${what}: that answer (${kind}) changes nothing, and the money is found afterwards`, async () => {
    await shop.use(kind);
    const { id, invoice } = await shop.ask();
    lie(LOOKS[kind], answer);
    const looked = await shop.looked(id);
    assert.deepEqual([looked.status, looked.transfers.length], ['pending', 0]);
    shop.fronts.behave();
    shop.pair.pay(invoice);
    await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
    await shop.reached(id, 'completed');
  });

test('hostile case 13: a way to verify that leads elsewhere is not followed, and the money is found afterwards', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  shop.pair.pay(invoice);
  const location = `${shop.fronts.url}/verify/${decodeInvoice(invoice).paymentHash}?elsewhere`;
  shop.fronts.behave((usual, { path }) =>
    path.includes('/verify/') && !path.endsWith('?elsewhere') ? { status: 302, text: '', location } : usual,
  );
  assert.equal((await shop.looked(id)).status, 'pending');
  assert.match((await shop.row(id)).failure, /status 302/);
  assert.ok(shop.fronts.asked.every(({ path }) => !path.endsWith('?elsewhere')));
  shop.fronts.behave();
  await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  await shop.reached(id, 'completed');
});

test('a payment does not expire while its invoice cannot be looked at, and counts what was paid meanwhile', async () => {
  await shop.use('lnd');
  const { id, invoice } = await shop.ask();
  shop.fronts.behave(() => ({ status: 404, json: { code: 5, message: 'unable to locate invoice' } }));
  await shop.looked(id);
  const { sql } = shop.app.app.ctx.db;
  // At once, or a worker would see an invoice that was looked at after the end of its payment.
  await shop.app.app.ctx.db.begin(async (tx) => {
    await tx`update payments set expires_at = clock_timestamp() - interval '5 minutes', created_at = created_at - interval '70 minutes',
      due_at = clock_timestamp() where id = ${id}`;
    await tx`update lightning_invoices set created_at = created_at - interval '70 minutes', looked_at = looked_at - interval '70 minutes' where payment_id = ${id}`;
    await tx`update quotes set from_at = from_at - interval '70 minutes', until_at = until_at - interval '70 minutes' where payment_id = ${id}`;
  });
  await shop.looked(id);
  assert.equal((await shop.detail(id)).status, 'pending');
  shop.pair.pay(invoice);
  shop.fronts.behave();
  await sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  await eventually(
    () => shop.detail(id),
    (one) => one.amount_held !== '0' || one.status === 'completed',
  );
});

test('an invoice that its provider deleted is over an hour after its end, and only then its payment expires', async () => {
  await shop.use('address');
  const { id } = await shop.ask();
  const { sql } = shop.app.app.ctx.db;
  await shop.looked(id);
  lie('/verify/', () => ({ status: 'ERROR', reason: 'Not found' }));
  await sql`update lightning_invoices set expires_at = clock_timestamp() - interval '50 minutes', due_at = clock_timestamp() where payment_id = ${id}`;
  await eventually(
    () => shop.row(id),
    (row) => row.failures > 0,
  );
  await sql`update lightning_invoices set looked_at = looked_at - interval '2 hours' where payment_id = ${id}`;
  await agePayment(shop.app.app.ctx.db, id, 7_200);
  await eventually(
    async () => (await sql<{ isLater: boolean }[]>`select due_at > clock_timestamp() as "isLater" from payments where id = ${id}`)[0]!,
    ({ isLater }) => isLater,
  );
  assert.deepEqual([(await shop.row(id)).state, (await shop.detail(id)).status], ['open', 'pending']);
  await sql`update lightning_invoices set expires_at = clock_timestamp() - interval '61 minutes', due_at = clock_timestamp() where payment_id = ${id}`;
  await shop.reached(id, 'expired');
  const { state, failure } = await shop.row(id);
  assert.deepEqual([state, /Not found/.test(failure)], ['ended', true]);
});

test('hostile case 11: a payment that completed stays completed, whatever the provider says later, and is counted once', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
  lie('/verify/', (json) => ({ ...json, settled: false, preimage: null }));
  const { sql } = shop.app.app.ctx.db;
  const look = () => sql`update lightning_invoices set due_at = clock_timestamp(), state = 'open' where payment_id = ${id}`;
  // Nobody asks about it any more. A database that was restored does.
  await look();
  await shop.looked(id);
  assert.equal((await shop.detail(id)).status, 'completed');
  shop.fronts.behave();
  await look();
  await eventually(
    () => shop.row(id),
    ({ state }) => state === 'settled',
  );
  const done = await shop.detail(id);
  assert.deepEqual([done.status, done.transfers.length, done.amount_received], ['completed', 1, '0.00010000']);
});

test('hostile case 20: an answer that ends in the middle says nothing, and one that is repeated counts once', async () => {
  await shop.use('lnd');
  const { id, invoice } = await shop.ask();
  shop.pair.pay(invoice);
  const { sql } = shop.app.app.ctx.db;
  await shop.reached(id, 'completed');
  const again = await shop.ask();
  shop.fronts.behave((usual, { path }) =>
    path.startsWith('/v1/invoice/') ? { status: 200, text: JSON.stringify(usual.json).slice(0, -20) } : usual,
  );
  shop.pair.pay(again.invoice);
  assert.equal((await shop.looked(again.id)).status, 'pending');
  shop.fronts.behave();
  await shop.reached(again.id, 'completed');
  for (let turn = 0; turn < 2; turn++) {
    await sql`update lightning_invoices set due_at = clock_timestamp(), state = 'open' where payment_id = ${again.id}`;
    await eventually(
      () => shop.row(again.id),
      ({ state }) => state === 'settled',
    );
  }
  const { transfers, exception } = await shop.detail(again.id);
  assert.deepEqual([transfers.length, exception], [1, null]);
});

test('hostile case 21: money that a node holds and gives back completes nothing, and its payment ends', async () => {
  await shop.use('lnd');
  const { id } = await shop.ask();
  lie('/v1/invoice/', (json) => ({ ...json, state: 'ACCEPTED' }));
  assert.equal((await shop.looked(id)).status, 'pending');
  lie('/v1/invoice/', (json) => ({ ...json, state: 'CANCELED' }));
  await eventually(
    () => shop.row(id),
    ({ state }) => state === 'ended',
  );
  await agePayment(shop.app.app.ctx.db, id, 7_200);
  const ended = await shop.reached(id, 'expired');
  assert.deepEqual([ended.transfers.length, ended.exception], [0, null]);
});

const SLACK = chainOf('BTC@lightning').slackSeconds;
/** Each: when the node took the money, before and after the end of its payment in seconds, and what follows. */
for (const [seconds, status, exception] of [
  ...(isLongRun
    ? ([
        [-1, 'completed', null],
        [0, 'completed', null],
      ] as const)
    : []),
  [SLACK, 'completed', null],
  [SLACK + 1, 'expired', 'late'],
] as const)
  test(`hostile case 28: an invoice that was paid ${seconds} s after the end of its payment, and is seen later, is ${exception ?? status}`, async () => {
    await shop.use('phoenixd');
    const { id, invoice } = await shop.ask();
    const { sql } = shop.app.app.ctx.db;
    shop.fronts.behave(() => ({ status: 500, json: {} }));
    await shop.looked(id);
    const preimage = shop.pair.pay(invoice);
    // Its last look was before its end, which was two minutes ago.
    await sql`
      update lightning_invoices set looked_at = clock_timestamp() - interval '10 minutes', created_at = clock_timestamp() - interval '20 minutes'
      where payment_id = ${id}`;
    const [{ past } = { past: 0 }] = await sql<{ past: number }[]>`
      select extract(epoch from expires_at - clock_timestamp())::float8 + 120 as past from payments where id = ${id}`;
    await agePayment(shop.app.app.ctx.db, id, Math.ceil(past));
    const [{ end } = { end: new Date() }] = await sql<{ end: Date }[]>`select expires_at as "end" from payments where id = ${id}`;
    lie('/payments/incoming/', (json) => ({ ...json, completedAt: end.getTime() + seconds * 1_000 }));
    await sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
    const done = await eventually(
      () => shop.detail(id),
      (one) => one.status === status && one.exception === exception,
    );
    assert.equal(done.transfers.length, 1);
    assert.equal((await shop.row(id)).preimage, preimage);
  });

test('hostile case 19: two relays that answer differently: the answer of the wallet to this request counts, and once', async () => {
  const other = await startLightningFronts(shop.pair);
  await shop.use('nwc', { credential: `${shop.fronts.nwc}&relay=${encodeURIComponent(other.url.replace('https', 'wss'))}` });
  const { id, invoice } = await shop.ask();
  // The other one answers first, with what the wallet did not sign and with what it signed for another request.
  let lied = 0;
  other.relay.garble((answer, { sign, request }) => {
    lied++;
    const body = {
      result_type: 'lookup_invoice',
      error: null,
      result: { payment_hash: decodeInvoice(invoice).paymentHash, state: 'failed' },
    };
    return [sign(NWC_SECRET, request, body), { ...answer, tags: [['e', 'ff'.repeat(32)]] }];
  });
  shop.pair.pay(invoice);
  const done = await shop.reached(id, 'completed');
  assert.ok(lied > 0);
  assert.deepEqual([done.transfers.length, done.amount_received], [1, '0.00010000']);
  await other.stop();
});

test('hostile case 16: an answer over NWC that the wallet did not sign for this request is ignored, and the first right one counts', async () => {
  await shop.use('nwc');
  const { id, invoice } = await shop.ask();
  const preimage = shop.pair.pay(invoice)!;
  const paid = { result_type: 'lookup_invoice', error: null };
  const { paymentHash } = decodeInvoice(invoice);
  const old = new Map<string, NostrEvent>();
  let sent = 0;
  shop.fronts.relay.garble((answer, { sign, request }) => {
    const result = { type: 'incoming', state: 'settled', payment_hash: paymentHash, amount: 1, settled_at: 1, preimage };
    const forged = sign(NWC_SECRET, request, { ...paid, result });
    const replayed = [...old.values()];
    old.set(request.id, answer);
    sent++;
    return [
      ...[forged, { ...forged, pubkey: answer.pubkey }, { ...answer, sig: forged.sig }, { ...answer, content: forged.content }],
      ...[{ ...answer, tags: [['e', '00'.repeat(32)]] }, 'nothing', null, ...replayed.slice(0, 5), answer],
    ];
  });
  const done = await shop.reached(id, 'completed');
  assert.ok(sent > 0);
  assert.deepEqual([done.amount_received, done.transfers.length], ['0.00010000', 1]);
});

test('hostile case 18: a relay that sends without end is left, and another one answers', async () => {
  await shop.use('nwc');
  const { id } = await shop.ask();
  shop.fronts.relay.garble((answer) => [...Array.from({ length: 10_000 }, () => ({ ...answer, sig: '00'.repeat(64) })), answer]);
  await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  const failed = await eventually(
    () => shop.row(id),
    ({ failures }) => failures > 0,
  );
  assert.match(failed.failure, /sends too much/);
  shop.fronts.relay.reset();
  const other = await startLightningFronts(shop.pair);
  await other.stop();
  await shop.use('nwc', { credential: `${shop.fronts.nwc}&relay=${encodeURIComponent(other.url.replace('https', 'wss'))}` });
  const again = await shop.ask();
  shop.pair.pay(again.invoice);
  await shop.reached(again.id, 'completed');
});

test('hostile case 24: a payment of which phoenixd kept a part for a channel is paid in full', async () => {
  await shop.use('phoenixd');
  const { id, invoice } = await shop.ask();
  lie('/payments/incoming/', (json) => ({ ...json, receivedSat: 0, fees: 0 }));
  shop.pair.pay(invoice);
  const done = await shop.reached(id, 'completed');
  assert.deepEqual([done.amount_received, done.exception], ['0.00010000', null]);
  const { merchantId } = shop.app.merchant;
  const balances = await trialBalance(shop.app.app.ctx, { merchantId, mode: 'live', until: EVER });
  assert.equal(balances.find(({ coin, account }) => coin === 'BTC@lightning' && account === 'network_fees')?.units, 10_000_000n);
});

test('hostile case 27: a node that was restored from an older backup, and knows none of its invoices, expires no payment and is named', async () => {
  await shop.use('cln');
  const { id, invoice } = await shop.ask();
  lie('/v1/listinvoices', () => ({ invoices: [] }));
  await eventually(
    () => shop.row(id),
    ({ failure }) => /does not know the invoice/.test(failure),
  );
  assert.equal((await shop.detail(id)).status, 'pending');
  shop.pair.pay(invoice);
  shop.fronts.behave();
  await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  await shop.reached(id, 'completed');
});
