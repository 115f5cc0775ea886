/** Payments that a request creates with Lightning: the reply has the invoice, and what cannot be made leaves nothing behind. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { getMerchantNow } from '../../src/merchants/merchants.ts';
import type { Reply } from '../kit/app.ts';
import { type LightningShop, ok, startLightningShop } from '../kit/lightning-shop.ts';
import { setUpPerson } from '../kit/person.ts';
import { giveWallet } from '../kit/shop.ts';

let shop: LightningShop;
before(async () => {
  shop = await startLightningShop();
});
after(() => shop?.stop());
afterEach(() => shop.fronts.behave());

const LIGHTNING = { crypto: 'BTC', network: 'lightning' };
const create = (body: object, headers = {}): Promise<Reply> => shop.app.live.post('/v1/payments', body, headers);
/** What must not change when a request is refused. */
const counts = async () => {
  const { sql } = shop.app.app.ctx.db;
  const [row] = await sql`
    select (select count(*)::int from payments) as payments, (select count(*)::int from lightning_invoices) as invoices,
      (select count(*)::int from events) as events`;
  return { ...row };
};
async function refused(reply: Promise<Reply>, [status, type, code, param, message]: [number, string, string, string, RegExp]) {
  const before = await counts();
  const { json, headers, status: got, text } = await reply;
  assert.deepEqual([got, json.error?.type, json.error?.code, json.error?.param], [status, type, code, param], text);
  assert.match(json.error.message, message);
  if (status === 503) assert.equal(headers.get('retry-after'), '30');
  assert.deepEqual(await counts(), before, 'nothing was created');
}

test('without a back end, Lightning is refused by every request that can name it', async () => {
  const none: [number, string, string, string, RegExp] = [
    ...([400, 'invalid_request', 'coin_not_configured', 'crypto'] as const),
    /cannot accept BTC on Lightning/,
  ];
  await refused(create({ amount: '9.70', currency: 'USD', ...LIGHTNING }), none);
  await refused(shop.app.live.post('/v1/transactions/create', { amount: '9.70', currency_fiat: 'USD', ...LIGHTNING }), none);
  none[3] = 'currency';
  await refused(create({ amount: '0.0001', currency: 'BTC', network: 'lightning' }), none);
  await refused(shop.app.live.post('/payments', { amount: '0.0001', currency: 'BTC', network: 'lightning' }), none);
});

test('a price over Lightning has its invoice in the reply and in the first event, and is paid', async () => {
  await shop.use('lnd');
  const made = ok(await create({ amount: '9.70', currency: 'USD', ...LIGHTNING }), 201);
  assert.deepEqual([made.currency, made.network, made.amount, made.status], ['BTC', 'lightning', '0.00010000', 'pending']);
  const invoice = decodeInvoice(made.payment_address);
  assert.equal(invoice.msat, 10_000_000n);
  const untilMs = Date.parse(made.quote_expires_at);
  assert.ok(Math.abs(invoice.expiresAt.getTime() - untilMs) <= 2_000, `${invoice.expiresAt.toISOString()} ${made.quote_expires_at}`);
  const page = await (await fetch(`${shop.app.url}/pay?id=${made.id}`)).text();
  assert.ok(page.includes(made.payment_address));
  shop.pair.pay(made.payment_address);
  const done = await shop.reached(made.id, 'completed');
  assert.equal(done.verified_by, 'preimage');
  const created = shop.receiver.received.find(({ event }) => event.data.id === made.id && event.type === 'payment.created');
  assert.equal(created!.event.data.payment_address, made.payment_address);
});

test('a fixed amount over Lightning is in whole satoshis, and its invoice lasts as long as the payment', async () => {
  await shop.use('address');
  const fixed = { amount: '0.00012345', currency: 'BTC', network: 'lightning' };
  const made = ok(await create({ ...fixed, expires_in: 1_800 }), 201);
  assert.deepEqual([made.amount, decodeInvoice(made.payment_address).msat], ['0.00012345', 12_345_000n]);
  assert.ok(Date.parse(made.expires_at) - Date.parse(made.quote_expires_at) < 5_000);
  const legacy = ok(await shop.app.live.post('/payments', fixed), 201);
  assert.deepEqual([legacy.network, decodeInvoice(legacy.payment_address).msat], ['lightning', 12_345_000n]);
  const named = ok(await shop.app.live.post('/v1/transactions/create', { amount: '9.70', currency_fiat: 'USD', ...LIGHTNING }), 201);
  assert.deepEqual([named.network, decodeInvoice(named.payment_address).msat], ['lightning', 10_000_000n]);
  const part: [number, string, string, string, RegExp] = [400, 'invalid_request', 'amount_precision', 'amount', /8/];
  await refused(create({ ...fixed, amount: '0.000123455' }), part);
});

test('a repeated request gets the first reply, and no other invoice is asked for', async () => {
  await shop.use('lnd');
  const body = { amount: '9.70', currency: 'USD', ...LIGHTNING };
  const headers = { 'idempotency-key': 'lightning-1' };
  const first = ok(await create(body, headers), 201);
  const asked = shop.fronts.asked.filter(({ path }) => path === '/v1/invoices').length;
  shop.fronts.behave(() => ({ status: 500, json: { message: 'wallet locked' } }));
  assert.deepEqual(ok(await create(body, headers), 201), first);
  assert.equal(shop.fronts.asked.filter(({ path }) => path === '/v1/invoices').length, asked);
});

test('an amount that its back end does not take is refused', async () => {
  await shop.use('address');
  const { sql } = shop.app.app.ctx.db;
  await sql`update lightning_backends set least_msat = 20000000 where active`;
  const { merchantId } = shop.app.merchant;
  await getMerchantNow(shop.app.app.ctx, { merchantId });
  await refused(create({ amount: '9.70', currency: 'USD', ...LIGHTNING }), [
    ...([400, 'invalid_request', 'amount_too_small', 'crypto'] as const),
    /BTC on Lightning.*0\.00020000 BTC/,
  ]);
  // The address takes 500,000 satoshis at once.
  await refused(create({ amount: '0.00500001', currency: 'BTC', network: 'lightning' }), [
    ...([400, 'invalid_request', 'amount_too_large', 'amount'] as const),
    /amount must be at most 0\.00500000 BTC over Lightning/,
  ]);
});

test('LIGHTNING_MAX limits providers that may hold the money, and not nodes', async () => {
  const price = (amount: string) => create({ amount, currency: 'USD', ...LIGHTNING });
  await shop.use('lnbits');
  ok(await price('1000.00'), 201);
  await refused(price('1000.01'), [
    ...([400, 'invalid_request', 'amount_too_large', 'amount'] as const),
    /amount must be at most 1000\.00 USD over Lightning/,
  ]);
  const open = ok(await create({ amount: '1000.01', currency: 'USD' }), 201);
  const { status } = await shop.choose(open.id);
  assert.notEqual(status, 200);
  const simple = await shop.app.live.post('/api/payment/create/simple', { amount_usd: '1000.01', return_url: 'https://shop.example/' });
  assert.match(ok(simple, 201).warnings[0].message, /too large for Lightning/);
  await shop.use('lnd');
  ok(await price('1000.01'), 201);
  assert.equal((await shop.choose(open.id)).status, 200);
});

test('a back end that gives no usable invoice is an error, and nothing is left behind', async () => {
  await shop.use('lnd');
  const away: [number, string, string, string, RegExp] = [
    ...([503, 'service_unavailable', 'chain_unavailable', 'crypto'] as const),
    /^The Lightning network cannot be reached/,
  ];
  const body = { amount: '9.70', currency: 'USD', ...LIGHTNING };
  const headers = { 'idempotency-key': 'lightning-2' };
  shop.fronts.behave(() => ({ status: 500, json: { message: 'wallet locked' } }));
  await refused(create(body, headers), away);
  // It keeps the caller waiting.
  shop.fronts.behave(() => null);
  await refused(create(body, headers), away);
  shop.fronts.behave((usual, { path }) =>
    path === '/v1/invoices'
      ? { status: 200, json: { ...usual.json, payment_request: shop.pair.invoice({ msat: 1n, seconds: 900 }) } }
      : usual,
  );
  await refused(create(body, headers), away);
  shop.fronts.behave();
  const made = ok(await create(body, headers), 201);
  assert.equal(decodeInvoice(made.payment_address).msat, 10_000_000n);
});

test('a payment that replaces another one, and one that a member creates, can name Lightning', async () => {
  await shop.use('lnd');
  const first = ok(await create({ amount: '9.70', currency: 'USD', ...LIGHTNING }), 201);
  const second = ok(await create({ amount: '9.70', currency: 'USD', ...LIGHTNING, replaces: first.id }), 201);
  assert.notEqual(second.payment_address, first.payment_address);
  assert.equal((await shop.detail(first.id)).status, 'cancelled');
  const owner = await setUpPerson(shop.app);
  const made = await owner.post('/live/payments', { amount_usd: '9.70', currency: 'BTC@lightning' });
  assert.equal(made.status, 201, made.text);
  assert.equal(decodeInvoice((await shop.detail(made.json.id)).payment_address).msat, 10_000_000n);
});

test('a price that only Lightning carries is accepted beside a Bitcoin wallet', async () => {
  await giveWallet(shop.app, 'BTC');
  const tiny = { amount: '0.50', currency: 'USD' };
  await shop.use('lnd');
  const { id } = ok(await create(tiny), 201);
  assert.equal((await shop.choose(id)).status, 200);
  assert.equal(decodeInvoice((await shop.detail(id)).payment_address).msat, 516_000n);
});

test('a test payment names Lightning, and plays its scenario', async () => {
  const { test: keyed } = shop.app;
  const body = { amount: '9.70', currency: 'USD', ...LIGHTNING };
  const made = ok(await keyed.post('/v1/payments', { ...body, payment_address: 'test_lightning_overpaid', simulate: true }), 201);
  assert.deepEqual([made.network, made.payment_address], ['lightning', 'test_lightning_overpaid']);
  const waiting = ok(await keyed.post('/v1/payments', body), 201);
  assert.deepEqual([waiting.network, waiting.amount], ['lightning', '0.00010000']);
  const played = ok(await keyed.post(`/v1/test/payments/${waiting.id}/simulate`, { scenario: 'success' }));
  assert.equal(played.network, 'lightning');
  const open = ok(await keyed.post('/v1/payments', { amount: '9.70', currency: 'USD' }), 201);
  const chosen = ok(
    await keyed.post(`/v1/test/payments/${open.id}/simulate`, { scenario: 'success', currency: 'BTC', network: 'lightning' }),
  );
  assert.equal(chosen.network, 'lightning');
});
