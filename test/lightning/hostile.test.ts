/** What providers and nodes may answer: no lie of theirs completes a payment, and none stops one that is paid. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { inspect } from 'node:util';
import { bech32 } from '@scure/base';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import type { LightningKind } from '../../src/lightning/access.ts';
import type { NostrEvent } from '../../src/lightning/nostr.ts';
import { eventually } from '../kit/app.ts';
import { type FrontAnswer, LNBITS_KEYS, PHOENIXD_PASSWORDS, startLightningFronts } from '../kit/lightning-fronts.ts';
import { CREDENTIALS, type LightningShop, MACAROONS, runeOf, startLightningShop } from '../kit/lightning-shop.ts';
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
  ['about another invoice', 'address', (json) => ({ ...json, settled: true, pr: bolt11.valid[0].invoice })],
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
for (const [what, kind, answer] of NOTHING)
  test(`a back end (${kind}) that answers ${what} changes nothing, and the money is found afterwards`, async () => {
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
    if (isGood) return shop.use('lnd', { credential: hex });
    await assert.rejects(shop.use('lnd', { credential: hex }), /can do more than receive \(.*lncli bakemacaroon/);
    assert.ok(shop.fronts.asked.slice(before).every(({ headers }) => headers['grpc-metadata-macaroon'] !== hex));
  });

/** Each: a rune, and what it can do beyond receiving; null: nothing. */
const RUNES: readonly (readonly [string, string | null])[] = [
  ['=1&method=invoice|method=listinvoices', null],
  ['=2&method=invoice|method=listinvoices|method=waitanyinvoice|method=getinfo&rate=60', null],
  // One limit is enough, because all restrictions must hold.
  ['=3&method=invoice|method=pay&method=invoice|method=listinvoices', null],
  ['=0', 'every command'],
  ['=4&method=pay', 'pay'],
  ['=5&method=invoice|method=xpay', 'xpay'],
  ['=6&method^list|method^get', 'every command'],
  ['=7&method=invoice|method^pay', 'every command'],
  ['=8&method/pay', 'every command'],
  ['=9&method=invoice|id=03', 'every command'],
  ['=10&pnameamountmsat<10000', 'every command'],
  ['=11&method=invoice\\|method=listinvoices', 'invoice\\\\|method=listinvoices'],
  ['=12&method=Invoice', 'Invoice'],
];
for (const [restrictions, excess] of RUNES)
  test(`a rune is ${excess === null ? 'accepted' : 'refused with the command that makes a good one'}: ${restrictions}`, async () => {
    const rune = runeOf(restrictions);
    if (excess === null) return shop.use('cln', { credential: rune });
    const before = shop.fronts.asked.length;
    await assert.rejects(shop.use('cln', { credential: rune }), ({ message }: Error) => {
      assert.ok(message.includes(`it can do more than receive (${excess.replaceAll('\\\\', '\\')})`), message);
      return message.includes('lightning-cli createrune');
    });
    assert.equal(shop.fronts.asked.length, before, 'nothing was sent');
  });
test('published runes of Core Lightning that are not limited to receiving are refused', async () => {
  const { runes } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
  for (const { rune } of runes.cases) await assert.rejects(shop.use('cln', { credential: rune }), /can do more than receive/);
  assert.equal(runes.cases.length, 3);
  await assert.rejects(shop.use('cln', { credential: runeOf('=1&method?pay') }), /a restriction that is not known/);
  await assert.rejects(shop.use('cln', { credential: 'not a rune' }), /not a rune/);
});

for (const [kind, credential, advice] of [
  ['phoenixd', PHOENIXD_PASSWORDS.full, /http-password-limited-access/],
  ['lnbits', LNBITS_KEYS.admin, /Invoice\/read key/],
] as const)
  test(`a credential of ${kind} that can spend is refused, and so is one of which it does not say`, async () => {
    await assert.rejects(
      shop.use(kind, { credential }),
      (error: Error) => /can do more than receive/.test(error.message) && advice.test(error.message),
    );
    shop.fronts.behave((usual, { path, body }) => (path === '/payinvoice' || body?.out === true ? { status: 500, json: {} } : usual));
    await assert.rejects(shop.use(kind), /does not say whether it can pay invoices/);
    shop.fronts.behave((_, { path, body }) => (path === '/payinvoice' || body?.out === true ? { status: 200, json: {} } : _));
    await assert.rejects(shop.use(kind), /can do more than receive/);
  });

test('a connection over NWC that can pay is refused by the name of each method, also where only the wallet says so', async () => {
  const { says } = shop.fronts.relay;
  const { nip47 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
  for (const method of [...nip47.known_other_methods, 'a_method_of_next_year']) {
    says.methods = ['make_invoice', 'lookup_invoice', method];
    await assert.rejects(shop.use('nwc'), ({ message }: Error) => message.includes(`can do more than receive (${method})`));
  }
  // The wallet can do more than the connection may.
  says.info = ['pay_invoice', 'make_invoice', 'lookup_invoice'];
  says.methods = nip47.allowed_methods;
  await shop.use('nwc');
  says.methods = null;
  await assert.rejects(shop.use('nwc'), /can do more than receive \(pay_invoice\)/);
  says.info = ['make_invoice', 'get_info'];
  await assert.rejects(shop.use('nwc'), /it cannot lookup_invoice/);
  shop.fronts.relay.reset();
  says.encryption = null;
  await assert.rejects(shop.use('nwc'), /too old/);
  shop.fronts.relay.reset();
  says.network = 'mainnet';
  await assert.rejects(shop.use('nwc'), /on mainnet, not on regtest/);
});

for (const credential of [
  'https://example.com',
  'nostr+walletconnect://00?relay=wss%3A%2F%2Frelay.example&secret=11',
  `nostr+walletconnect://${'ff'.repeat(32)}?relay=wss%3A%2F%2Frelay.example&secret=${'11'.repeat(32)}`,
  `nostr+walletconnect://${'ab'.repeat(32)}?relay=file%3A%2F%2F%2Fetc%2Fpasswd&secret=${'11'.repeat(32)}`,
])
  test(`${credential.slice(0, 60)} is not a connection over NWC`, () =>
    assert.rejects(shop.use('nwc', { credential }), /connection string/));

test('an answer over NWC that the wallet did not sign for this request is ignored, and the first right one counts', async () => {
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

test('a relay that sends without end is left, and another one answers', async () => {
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

test('a wallet over NWC that does not answer, or not now, gives no invoice', async () => {
  await shop.use('nwc');
  const id = await shop.create();
  lie('nwc:make_invoice', (json) => ({ ...json, result: null, error: { code: 'RATE_LIMITED', message: 'slow down' } }));
  assert.equal((await shop.choose(id)).status, 503);
  const failure = async () => (await shop.app.app.ctx.db.sql`select failure from lightning_backends where active`)[0]!.failure;
  assert.match(await failure(), /RATE_LIMITED and "slow down"/);
  shop.fronts.behave(() => null);
  const started = performance.now();
  assert.equal((await shop.choose(id)).status, 503);
  assert.ok(performance.now() - started < 7_000);
  assert.match(await failure(), /no answer in time/);
});

test('Core Lightning: an invoice whose answer was lost is used again, and one with another amount is not', async () => {
  await shop.use('cln');
  const id = await shop.create();
  let lost = 1;
  shop.fronts.behave((usual, { path }) => (path === '/v1/invoice' && lost-- > 0 ? { status: 502, json: {} } : usual));
  assert.equal((await shop.choose(id)).status, 503);
  await shop.app.app.ctx.db.sql`update lightning_backends set away_until = null`;
  assert.equal((await shop.choose(id)).status, 200);
  const made = shop.fronts.asked.filter(({ path, body }) => path === '/v1/invoice' && body.label.startsWith(`florin-${id}`));
  assert.deepEqual(
    made.map(({ body }) => body.label),
    [`florin-${id}-1-1`, `florin-${id}-1-1`],
  );
  const asked = shop.fronts.asked.findLast(({ path, body }) => path === '/v1/listinvoices' && body.label !== undefined);
  assert.equal(asked?.body.label, `florin-${id}-1-1`);

  const other = await shop.create();
  shop.fronts.make(77_000n, { seconds: 900, memo: 'another', key: `florin-${other}-1-1` });
  assert.equal((await shop.choose(other)).status, 200);
  const { msat } = decodeInvoice((await shop.detail(other)).payment_address);
  assert.equal(msat, MSAT);
});

test('Core Lightning: an invoice that its channels cannot receive is not shown', async () => {
  await shop.use('cln');
  const id = await shop.create();
  lie('/v1/invoice', (json) => ({ ...json, warning_capacity: 'Insufficient incoming channel capacity' }));
  assert.equal((await shop.choose(id)).status, 503);
  const [row] = await shop.app.app.ctx.db.sql`select failure from lightning_backends where active`;
  assert.match(row!.failure, /cannot receive this amount/);
});

test('phoenixd: a payment of which it kept a part for a channel is paid in full', async () => {
  await shop.use('phoenixd');
  const { id, invoice } = await shop.ask();
  lie('/payments/incoming/', (json) => ({ ...json, receivedSat: 0, fees: 10_000_000 }));
  shop.pair.pay(invoice);
  const done = await shop.reached(id, 'completed');
  assert.deepEqual([done.amount_received, done.exception], ['0.00010000', null]);
});

test('a node that was restored from an older backup, and knows none of its invoices, expires no payment and is named', async () => {
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

/** All that is handed to the log meanwhile. */
async function logOf(work: () => Promise<void>): Promise<string> {
  const { log } = shop.app.app.ctx;
  const before = { ...log };
  let said = '';
  for (const level of ['debug', 'info', 'warn', 'error'] as const)
    log[level] = (fields, message) => {
      said += `${message} ${inspect(fields, { depth: 8 })}\n`;
    };
  try {
    await work();
  } finally {
    Object.assign(log, before);
  }
  return said;
}

for (const kind of ['lnd', 'cln', 'phoenixd', 'lnbits', 'nwc'] as const)
  test(`no credential of ${kind} is in the database as it is, nor in an error or the log`, async () => {
    const credential = kind === 'nwc' ? NWC_SECRET : CREDENTIALS[kind];
    const log = await logOf(async () => {
      await shop.use(kind);
      const asked = await shop.ask();
      shop.fronts.behave((_, { path, headers }) => {
        const sent = headers['grpc-metadata-macaroon'] ?? headers.rune ?? headers.authorization ?? headers['x-api-key'] ?? NWC_SECRET;
        const message = `wrong ${sent}`;
        const error = { code: 'OTHER', message };
        return { status: 500, json: { message, detail: message, result_type: path.slice('nwc:'.length), error } };
      });
      await eventually(
        () => shop.row(asked.id),
        ({ failure }) => failure !== null,
      );
      const id = await shop.create();
      await shop.choose(id);
    });
    assert.match(log, /No Lightning invoice/);
    const { sql } = shop.app.app.ctx.db;
    const tables = await sql<
      { name: string }[]
    >`select table_name as name from information_schema.tables where table_schema = current_schema()`;
    assert.ok(tables.length > 30);
    const encoded = [
      credential,
      Buffer.from(credential).toString('base64'),
      Buffer.from(`:${credential}`).toString('base64'),
      Buffer.from(credential, 'hex').toString('base64'),
    ];
    const secrets = encoded.map((secret) => secret.slice(0, 24)).filter((secret) => secret.length === 24);
    assert.ok(secrets.length >= 1);
    for (const { name } of tables) {
      const rows = await sql<{ text: string }[]>`select row_to_json(t)::text as text from ${sql(name)} t`;
      for (const { text } of rows) for (const secret of secrets) assert.ok(!text.includes(secret), name);
    }
    for (const secret of secrets) assert.ok(!log.includes(secret), log);
  });
