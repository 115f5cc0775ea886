/** What providers and nodes may answer to a request for an invoice: customers are shown none but the one that was asked for. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { bech32 } from '@scure/base';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { getMerchantNow } from '../../src/merchants/merchants.ts';
import { FIELD, forgeInvoice } from '../kit/forged-invoice.ts';
import type { FrontAnswer } from '../kit/lightning-fronts.ts';
import { type LightningShop, startLightningShop } from '../kit/lightning-shop.ts';

const { bolt11 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
/** Five seconds and what a busy machine adds, but less than the 30 that a back end behind Tor gets. */
const FAR_LESS_MS = 25_000;
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

/** Answers with an invoice like the right one, changed and signed by somebody. */
const forge = (how: Parameters<typeof forgeInvoice>[1]): void => lie('/callback', (json) => ({ ...json, pr: forgeInvoice(json.pr, how) }));
/** Feature 100, which nobody knows: words of five bits add a zero at the end of 13 bytes. */
const UNKNOWN_FEATURE = Uint8Array.from([0x08, ...Array.from({ length: 12 }, () => 0)]);

/** Each: what a Lightning address answers instead of a usable invoice. */
const UNUSABLE: readonly (readonly [string, () => void, RegExp?])[] = [
  [
    'hostile case 1: a millisatoshi more',
    () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: MSAT + 1n, seconds: 900 }) })),
  ],
  [
    'hostile case 1: ten times as much',
    () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: MSAT * 10n, seconds: 900 }) })),
  ],
  ['hostile case 1: no amount', () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: null, seconds: 900 }) }))],
  ['hostile case 2: another network', () => lie('/callback', (json) => ({ ...json, pr: bolt11.valid[1].invoice }))],
  [
    'hostile case 3: an invoice that ends within a minute',
    () => lie('/callback', (json) => ({ ...json, pr: shop.pair.invoice({ msat: MSAT, seconds: 30 }) })),
  ],
  ['hostile case 3: an invoice that is over', () => forge({ later: -7_200 }), /expires in less than a minute/],
  ['hostile case 26: an invoice of a clock that is two hours ahead', () => forge({ later: 7_200 }), /its clock is off/],
  ['hostile case 6: an invoice without a payment secret', () => forge({ without: [FIELD.secret] }), /secret/],
  [
    'hostile case 6: an invoice that requires an unknown feature',
    () => forge({ put: [[FIELD.features, UNKNOWN_FEATURE]] }),
    /unknown feature 100/,
  ],
  ['hostile case 6: a signature in its other form', () => forge({ isHigh: true }), /signature is wrong/],
  [
    'hostile case 7: the hash of other metadata',
    () => forge({ without: [FIELD.description], put: [[FIELD.descriptionHash, new Uint8Array(32)]] }),
    /describes/,
  ],
  ['hostile case 6: a wrong checksum', () => lie('/callback', (json) => ({ ...json, pr: broken(json.pr) }))],
  ['hostile case 6: a wrong signature', () => lie('/callback', (json) => ({ ...json, pr: resigned(json.pr) }))],
  ['no invoice', () => lie('/callback', () => ({ status: 'OK' }))],
  ['no way to verify', () => lie('/callback', ({ verify: _, ...json }) => json)],
  [
    'hostile case 13: a way to verify at a private address',
    () => lie('/callback', (json) => ({ ...json, verify: 'https://169.254.169.254/latest' })),
    /cannot be asked/,
  ],
  [
    'hostile case 13: a way to verify that is a file',
    () => lie('/callback', (json) => ({ ...json, verify: 'file:///etc/passwd' })),
    /cannot be asked/,
  ],
  ['an error with status 200', () => lie('/callback', () => ({ status: 'ERROR', reason: 'no liquidity' }))],
  ['hostile case 8: metadata that is not JSON', () => lie('/lnurlp/', (json) => ({ ...json, metadata: 'Shop' }))],
  ['hostile case 8: metadata without text', () => lie('/lnurlp/', (json) => ({ ...json, metadata: '[["image/png;base64",""]]' }))],
  ['hostile case 15: a smallest amount as text', () => lie('/lnurlp/', (json) => ({ ...json, minSendable: '1000' }))],
  [
    'hostile case 15: a smallest amount above the largest',
    () => lie('/lnurlp/', (json) => ({ ...json, minSendable: json.maxSendable + 1 })),
  ],
  ['hostile case 15: a largest amount of 1e30', () => lie('/lnurlp/', (json) => ({ ...json, maxSendable: 1e30 }))],
  ['hostile case 15: amounts in satoshis', () => lie('/lnurlp/', (json) => ({ ...json, minSendable: 1, maxSendable: 500_000 }))],
  ['data of the payer that it requires', () => lie('/lnurlp/', (json) => ({ ...json, payerData: { name: { mandatory: true } } }))],
  [
    'hostile case 13: a callback at a private address',
    () => lie('/lnurlp/', (json) => ({ ...json, callback: 'https://169.254.169.254/latest' })),
  ],
  ['hostile case 13: a callback that is a file', () => lie('/lnurlp/', (json) => ({ ...json, callback: 'file:///etc/passwd' }))],
  [
    'hostile case 13: a redirect',
    () => {
      const redirect = { status: 302, text: '', location: `${shop.fronts.url}/callback?id=8&amount=${MSAT}` };
      shop.fronts.behave((usual, { path }) => (path.includes('/callback?id=7') ? redirect : usual));
    },
    /status 302/,
  ],
  ['hostile case 14: a page', () => shop.fronts.behave((): FrontAnswer => ({ status: 200, text: '<!doctype html><title>Hello</title>' }))],
  ['hostile case 14: 10 MB', () => shop.fronts.behave((): FrontAnswer => ({ status: 200, text: ' '.repeat(10_000_000) }))],
];
for (const [what, behave, reason = /...../] of UNUSABLE)
  test(`${what} from an address gives no invoice, and other coins stay`, async () => {
    await shop.use('address');
    const id = await shop.create();
    behave();
    const page = await shop.choose(id);
    assert.equal(page.status, 503, page.text);
    assert.equal((await shop.detail(id)).payment_address, null);
    assert.ok(
      shop.fronts.asked.every(({ path }) => !path.includes('id=8')),
      'no redirect is followed',
    );
    const rows = await shop.app.app.ctx.db.sql`select 1 from lightning_invoices where payment_id = ${id}`;
    assert.equal(rows.length, 0);
    const [backEnd] = await shop.app.app.ctx.db.sql`select failure from lightning_backends where active`;
    assert.match(backEnd!.failure, reason);
  });

test('an invoice like the right one that a stranger signed is usable by an address, which names no node', async () => {
  await shop.use('address');
  const id = await shop.create();
  forge({});
  assert.equal((await shop.choose(id)).status, 200);
});

test('hostile case 30: a description that a provider chose does nothing on the page', async () => {
  await shop.use('address');
  const id = await shop.create();
  const text = `<script>alert(1)</script>\u202e${'x'.repeat(639)}`.slice(0, 600);
  const description = Buffer.concat([Buffer.from(text), Buffer.alloc(639)])
    .subarray(0, 639)
    .fill(0x78, Buffer.byteLength(text));
  forge({ put: [[FIELD.description, description]] });
  const page = await shop.choose(id);
  assert.equal(page.status, 200);
  const { payment_address: invoice } = await shop.detail(id);
  assert.equal(Buffer.byteLength(decodeInvoice(invoice).description!), 639);
  assert.ok(page.text.includes(invoice) && !page.text.includes('alert(1)') && !page.text.includes('\u202e'));
});

test('hostile case 8: an address whose metadata is not JSON, or has no text, is not set up', async () => {
  for (const metadata of ['Shop', '[["image/png;base64",""]]']) {
    lie('/lnurlp/', (json) => ({ ...json, metadata }));
    await assert.rejects(shop.use('address'), /not a pay request: the metadata/);
  }
});

test('hostile case 14: an address that hangs, or answers without end, is given up after five seconds, and the page answers', async () => {
  await shop.use('address');
  const ids = [await shop.create(), await shop.create()];
  let asked = 0;
  const endless = { status: 200, text: ' ', isEndless: true };
  shop.fronts.behave((usual, { path }) => (path.includes('/lnurlp/') ? (asked++ === 0 ? null : endless) : usual));
  const started = performance.now();
  for (const page of await Promise.all(ids.map((id) => shop.choose(id)))) assert.equal(page.status, 503);
  assert.ok(asked === 2 && performance.now() - started < FAR_LESS_MS);
  // It is not offered for half a minute.
  const { ctx } = shop.app.app;
  await getMerchantNow(ctx, shop.app.merchant);
  assert.ok(!(await (await fetch(`${shop.app.url}/pay?id=${await shop.create()}`)).text()).includes('lightning'));
  const [row] = await ctx.db
    .sql`select extract(epoch from away_until - clock_timestamp())::float8 as left from lightning_backends where active`;
  assert.ok(row!.left > 15 && row!.left <= 30, String(row!.left));
});

test('hostile case 4: an invoice of an earlier payment is refused, and stays that of the earlier payment', async () => {
  await shop.use('address');
  const first = await shop.ask();
  lie('/callback', (json) => ({ ...json, pr: first.invoice }));
  const id = await shop.create();
  assert.equal((await shop.choose(id)).status, 503);
  await shop.row(first.id);
  const [row] = await shop.app.app.ctx.db.sql`select failure from lightning_backends where active`;
  assert.match(row!.failure, /payment hash of an earlier one/);
});

test('hostile case 5: a node that suddenly has another key gives no invoice', async () => {
  await shop.use('lnd');
  await shop.app.app.ctx.db.sql`update lightning_backends set payee = ${'02'.padEnd(66, '1')} where active`;
  const id = await shop.create();
  assert.equal((await shop.choose(id)).status, 503);
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
  assert.ok(performance.now() - started < FAR_LESS_MS);
  assert.match(await failure(), /no answer in time/);
});

test('hostile case 23: an invoice of Core Lightning whose answer was lost is used again, and one with another amount is not', async () => {
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
