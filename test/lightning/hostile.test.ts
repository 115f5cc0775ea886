/** What providers and nodes may answer: no lie of theirs completes a payment, and none stops one that is paid. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { bech32 } from '@scure/base';
import { decodeInvoice } from '../../src/lightning/bolt11.ts';
import { eventually } from '../kit/app.ts';
import type { FrontAnswer } from '../kit/lightning-fronts.ts';
import { type LightningShop, MACAROONS, startLightningShop } from '../kit/lightning-shop.ts';
import { agePayment } from '../kit/payments.ts';

const { bolt11 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
let shop: LightningShop;
before(async () => {
  shop = await startLightningShop();
});
after(() => shop?.stop());
afterEach(async () => {
  shop.fronts.behave();
  await shop.app.app.ctx.db.sql`update lightning_backends set away_until = null`;
});

/** Answers the requests whose path contains a text in another way. */
const lie = (path: string, answer: (json: any) => object): void =>
  shop.fronts.behave((usual, asked) => (asked.path.includes(path) ? { status: 200, json: answer(usual.json) } : usual));
/** An invoice with another last character, whose checksum is wrong. */
const broken = (text: string): string => text.slice(0, -1) + (text.endsWith('q') ? 'p' : 'q');
const resigned = (text: string): string => {
  const { prefix, words } = bech32.decode(text as `${string}1${string}`, false);
  return bech32.encode(prefix, [...words.slice(0, -60), (words.at(-60)! + 1) % 32, ...words.slice(-59)], false);
};
const MSAT = 10_000_000n;

/** Each: what a Lightning address answers instead of a usable invoice. */
const UNUSABLE: readonly (readonly [string, () => void])[] = [
  ['a millisatoshi more', () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: MSAT + 1n, seconds: 900 }) }))],
  ['ten times as much', () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: MSAT * 10n, seconds: 900 }) }))],
  ['no amount', () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: null, seconds: 900 }) }))],
  ['another network', () => lie('/callback', (json) => ({ ...json, pr: bolt11.valid[1].invoice }))],
  [
    'an invoice that ends within a minute',
    () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: MSAT, seconds: 30 }) })),
  ],
  ['a wrong checksum', () => lie('/callback', (json) => ({ ...json, pr: broken(json.pr) }))],
  ['a wrong signature', () => lie('/callback', (json) => ({ ...json, pr: resigned(json.pr) }))],
  ['no invoice', () => lie('/callback', () => ({ status: 'OK' }))],
  ['no way to verify', () => lie('/callback', ({ verify: _, ...json }) => json)],
  ['an error with status 200', () => lie('/callback', () => ({ status: 'ERROR', reason: 'no liquidity' }))],
  ['metadata that is not JSON', () => lie('/lnurlp/', (json) => ({ ...json, metadata: 'Shop' }))],
  ['metadata without text', () => lie('/lnurlp/', (json) => ({ ...json, metadata: '[["image/png;base64",""]]' }))],
  ['a smallest amount as text', () => lie('/lnurlp/', (json) => ({ ...json, minSendable: '1000' }))],
  ['a smallest amount above the largest', () => lie('/lnurlp/', (json) => ({ ...json, minSendable: json.maxSendable + 1 }))],
  ['a largest amount of 1e30', () => lie('/lnurlp/', (json) => ({ ...json, maxSendable: 1e30 }))],
  ['amounts in satoshis', () => lie('/lnurlp/', (json) => ({ ...json, minSendable: 1, maxSendable: 500_000 }))],
  ['data of the payer that it requires', () => lie('/lnurlp/', (json) => ({ ...json, payerData: { name: { mandatory: true } } }))],
  ['a callback at a private address', () => lie('/lnurlp/', (json) => ({ ...json, callback: 'https://169.254.169.254/latest' }))],
  ['a callback that is a file', () => lie('/lnurlp/', (json) => ({ ...json, callback: 'file:///etc/passwd' }))],
  ['a redirect', () => shop.fronts.behave((usual, { path }) => (path.includes('/callback') ? { status: 302, json: {} } : usual))],
  ['a page', () => shop.fronts.behave((): FrontAnswer => ({ status: 200, text: '<!doctype html><title>Hello</title>' }))],
  ['10 MB', () => shop.fronts.behave((): FrontAnswer => ({ status: 200, text: ' '.repeat(10_000_000) }))],
];
for (const [what, behave] of UNUSABLE)
  test(`an address that answers with ${what} gives no invoice, and other coins stay`, async () => {
    await shop.use('address');
    const id = await shop.create();
    behave();
    const page = await shop.choose(id);
    assert.equal(page.status, 503, page.text);
    assert.equal((await shop.detail(id)).payment_address, null);
    const rows = await shop.app.app.ctx.db.sql`select 1 from lightning_invoices where payment_id = ${id}`;
    assert.equal(rows.length, 0);
    const [backEnd] = await shop.app.app.ctx.db.sql`select failure from lightning_backends where active`;
    assert.ok(backEnd!.failure.length > 5, backEnd!.failure);
  });

test('an address that hangs is given up after five seconds, and the page answers', async () => {
  await shop.use('address');
  const id = await shop.create();
  shop.fronts.behave(() => null);
  const started = performance.now();
  const page = await shop.choose(id);
  assert.equal(page.status, 503);
  assert.ok(performance.now() - started < 7_000);
});

test('an invoice of an earlier payment is refused, and stays that of the earlier payment', async () => {
  await shop.use('address');
  const first = await shop.ask();
  lie('/callback', (json) => ({ ...json, pr: first.invoice }));
  const id = await shop.create();
  assert.equal((await shop.choose(id)).status, 503);
  await shop.row(first.id);
});

test('a node that suddenly has another key gives no invoice', async () => {
  await shop.use('lnd');
  await shop.app.app.ctx.db.sql`update lightning_backends set payee = ${'02'.padEnd(66, '1')} where active`;
  const id = await shop.create();
  assert.equal((await shop.choose(id)).status, 503);
});

/** Each: what `verify` says of an invoice that nobody paid. */
const sha = (text: string): string => createHash('sha256').update(text).digest('hex');
const UNPROVEN: readonly (readonly [string, object])[] = [
  ['no preimage', { preimage: null }],
  ['a preimage of zeros', { preimage: '0'.repeat(64) }],
  ['the preimage of another invoice', { preimage: sha('another') }],
  ['a preimage of 31 bytes', { preimage: sha('short').slice(2) }],
  ['the payment hash as preimage', { preimage: 'hash' }],
  ['numbers as preimage', { preimage: [1, 2, 3] }],
];
for (const [what, change] of UNPROVEN)
  test(`"settled" with ${what} completes nothing, and the payment says what it waits for`, async () => {
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

test('a preimage in capitals is as good', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  lie('/verify/', (json) => ({ ...json, preimage: json.preimage?.toUpperCase() ?? null }));
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
});

/** Each: an answer from which nothing follows. */
const NOTHING: readonly (readonly [string, 'address' | 'lnd', (json: any) => object])[] = [
  ['about another invoice', 'address', (json) => ({ ...json, settled: true, pr: bolt11.valid[0].invoice })],
  ['with settled as text', 'address', (json) => ({ ...json, settled: 'true' })],
  ['that the invoice is not known', 'address', () => ({ status: 'ERROR', reason: 'Not found' })],
  ['of another hash', 'lnd', (json) => ({ ...json, state: 'SETTLED', r_hash: Buffer.alloc(32).toString('base64') })],
  ['that only the old field says settled', 'lnd', (json) => ({ ...json, settled: true })],
  ['that it is held', 'lnd', (json) => ({ ...json, state: 'ACCEPTED' })],
  ['of an unknown state', 'lnd', (json) => ({ ...json, state: 'PAID' })],
  ['without an amount', 'lnd', ({ amt_paid_msat: _, ...json }) => ({ ...json, state: 'SETTLED' })],
];
for (const [what, kind, answer] of NOTHING)
  test(`${kind === 'lnd' ? 'LND' : 'an address'} that answers ${what} changes nothing, and the money is found afterwards`, async () => {
    await shop.use(kind);
    const { id, invoice } = await shop.ask();
    lie(kind === 'lnd' ? '/v1/invoice/' : '/verify/', answer);
    const looked = await shop.looked(id);
    assert.deepEqual([looked.status, looked.transfers.length], ['pending', 0]);
    shop.fronts.behave();
    shop.pair.pay(invoice);
    await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
    await shop.reached(id, 'completed');
  });

test('a payment does not expire while its invoice cannot be looked at, and counts what was paid meanwhile', async () => {
  await shop.use('lnd');
  const { id, invoice } = await shop.ask();
  shop.fronts.behave(() => ({ status: 404, json: { code: 5, message: 'unable to locate invoice' } }));
  await shop.looked(id);
  const { sql } = shop.app.app.ctx.db;
  await sql`update payments set expires_at = clock_timestamp() - interval '5 minutes', created_at = created_at - interval '70 minutes',
    due_at = clock_timestamp() where id = ${id}`;
  await sql`update lightning_invoices set created_at = created_at - interval '70 minutes', looked_at = looked_at - interval '70 minutes' where payment_id = ${id}`;
  await sql`update quotes set from_at = from_at - interval '70 minutes', until_at = until_at - interval '70 minutes' where payment_id = ${id}`;
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

test('a payment that completed stays completed, whatever the provider says later, and is counted once', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
  lie('/verify/', (json) => ({ ...json, settled: false, preimage: null }));
  await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  const done = await shop.detail(id);
  assert.deepEqual([done.status, done.transfers.length], ['completed', 1]);
});

test('a certificate that changed gets no macaroon', async () => {
  await shop.use('lnd');
  const { id } = await shop.ask();
  const other = readFileSync('test/fixtures/hooks.example.pem', 'utf8').match(/-----BEGIN CERTIFICATE[\s\S]*?-----END[^\n]*/)![0];
  const before = shop.fronts.asked.length;
  await assert.rejects(shop.use('lnd', { certificate: other }), /certificate/);
  assert.ok(shop.fronts.asked.slice(before).every(({ path }) => path.startsWith('/v1/invoice/')));
  assert.equal((await shop.detail(id)).status, 'pending');
});

for (const { name, hex, receive_only: isGood } of MACAROONS)
  test(`a macaroon is ${isGood ? 'accepted' : 'refused with the command that makes a good one'}: ${name}`, async () => {
    const before = shop.fronts.asked.length;
    if (isGood) return shop.use('lnd', { macaroon: hex });
    await assert.rejects(shop.use('lnd', { macaroon: hex }), /can do more than receive \(.*lncli bakemacaroon/);
    assert.ok(shop.fronts.asked.slice(before).every(({ headers }) => headers['grpc-metadata-macaroon'] !== hex));
  });

test('no credential is in the database as it is, nor in an error', async () => {
  await shop.use('lnd');
  const macaroon = MACAROONS[0]!.hex;
  shop.fronts.behave((_, { headers }) => ({ status: 500, json: { message: `wrong macaroon ${headers['grpc-metadata-macaroon']}` } }));
  const id = await shop.create();
  await shop.choose(id);
  const { sql } = shop.app.app.ctx.db;
  const tables = await sql<
    { name: string }[]
  >`select table_name as name from information_schema.tables where table_schema = current_schema()`;
  assert.ok(tables.length > 30);
  const encoded = [macaroon, Buffer.from(macaroon, 'hex').toString('base64')];
  for (const { name } of tables) {
    const rows = await sql<{ text: string }[]>`select row_to_json(t)::text as text from ${sql(name)} t`;
    for (const { text } of rows) for (const secret of encoded) assert.ok(!text.includes(secret.slice(0, 60)), name);
  }
});
