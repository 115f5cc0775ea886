/** Refunds of Lightning payments: the customer's invoice, the merchant's own wallet, and the preimage that proves it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { trialBalance } from '../../src/books/books.ts';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent, proveRefund } from '../../src/outgoing/decisions.ts';
import { eventually } from '../kit/app.ts';
import { EVER } from '../kit/books.ts';
import { type LightningShop, ok, startLightningShop } from '../kit/lightning-shop.ts';

const actor = { userId: '', name: 'Test', ip: '' };
const DAY = 86_400;
const REFUND_EVENTS = ['requested', 'approved', 'sent', 'confirmed', 'canceled'].map((state) => `refund.${state}`);
const SAT_10K = 10_000_000n;
let shop: LightningShop;
/** A completed payment of 100,000 satoshis, from which every test refunds a part. */
let payment: string;
before(async () => {
  shop = await startLightningShop({ SMTP_URL: 'smtp://127.0.0.1:9', MAIL_FROM: 'pay@shop.example' });
  await shop.use('lnd');
  // Only endpoints that name them get events of refunds.
  ok(await shop.app.live.post('/v1/webhook_endpoints', { url: shop.receiver.url, events: REFUND_EVENTS }), 201);
  payment = await paid('97.00');
});
after(() => shop?.stop());

async function paid(amount: string): Promise<string> {
  const { id, invoice } = await shop.ask(amount);
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
  return id;
}
const owner = () => ({ merchantId: shop.app.merchant.merchantId, mode: 'live' }) as const;
const request = async (given: object = {}) =>
  ok(await shop.app.live.post('/v1/refunds', { payment_id: payment, amount: '0.0001', ...given }), 201);
const refused = async (address: string): Promise<{ code: string; message: string }> => {
  const { status, json } = await shop.app.live.post('/v1/refunds', { payment_id: payment, amount: '0.0001', address });
  assert.equal(status, 400, JSON.stringify(json));
  return json.error;
};
const approve = (id: string) => approveOutgoing(shop.app.app.ctx, { ...owner(), kind: 'refund', id, actor });
const cancel = (id: string) =>
  cancelOutgoing(shop.app.app.ctx, { ...owner(), kind: 'refund', id, actor, idempotency: null, render: () => ({ status: 200, body: '' }) });
const prove = (id: string, preimage: string) => shop.app.live.post(`/v1/refunds/${id}/preimage`, { preimage });
const read = async (id: string) => ok(await shop.app.live.get(`/v1/refunds/${id}`));
/** The claim page, at the address of the service under test. */
const pageOf = (url: string): string => shop.app.url + new URL(url).pathname;
const claim = async (url: string, address: string, checked = false) => {
  const body = new URLSearchParams({ address, ...(checked && { checked: 'yes' }) });
  const reply = await fetch(pageOf(url), { method: 'POST', redirect: 'manual', body });
  return { status: reply.status, text: await reply.text() };
};
const eventsOf = (id: string): string[] =>
  shop.receiver.received.filter(({ event }) => event.data.id === id).map(({ event }) => event.type);

test('the customer gives an invoice, the merchant pays it and enters the preimage, and the refund is confirmed once', async () => {
  const made = await request();
  assert.deepEqual([made.network, made.amount, made.address], ['lightning', '0.00010000', null]);
  const page = await (await fetch(pageOf(made.claim_url))).text();
  assert.ok(page.includes('exactly 10000 satoshis'), page);
  const invoice = shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY });
  assert.equal((await claim(made.claim_url, `lightning:${invoice.toUpperCase()}`)).status, 303);
  const given = await read(made.id);
  assert.deepEqual([given.status, given.address], ['requested', invoice]);
  assert.equal(given.invoice_expires_at, decodeInvoice(invoice).expiresAt.toISOString());

  const preimage = shop.pair.payRefund(invoice);
  assert.match(preimage ?? '', /^[0-9a-f]{64}$/);
  assert.equal((await prove(made.id, preimage!)).json.error.code, 'refund_state', 'nobody approved it');
  await approve(made.id);
  const txid = 'a'.repeat(64);
  await assert.rejects(markOutgoingSent(shop.app.app.ctx, { ...owner(), kind: 'refund', id: made.id, txid, actor }), /enter the preimage/);
  for (const wrong of ['0'.repeat(64), 'x', preimage!.slice(0, 63), `${preimage}00`.slice(0, 66)])
    assert.equal((await prove(made.id, wrong)).json.error.code, 'preimage_wrong');
  // Entered twice at once, in another spelling.
  const both = await Promise.all([prove(made.id, preimage!), prove(made.id, ` ${preimage!.toUpperCase()} `)]);
  assert.deepEqual(
    both.map(({ status, json }) => [status, json.status, json.transaction_hash]),
    [0, 1].map(() => [200, 'confirmed', decodeInvoice(invoice).paymentHash]),
  );
  assert.equal((await prove(made.id, preimage!)).status, 200, 'again');
  const detail = await shop.detail(payment);
  assert.equal(detail.amount_refunded, '0.00010000');
  const told = await eventually(
    async () => eventsOf(made.id),
    (events) => events.includes('refund.confirmed'),
  );
  assert.deepEqual(told.toSorted(), ['refund.approved', 'refund.confirmed', 'refund.requested', 'refund.sent']);
  const balances = await trialBalance(shop.app.app.ctx, { ...owner(), until: EVER });
  const lightning = balances.filter(({ coin }) => coin === 'BTC@lightning');
  assert.equal(
    lightning.reduce((sum, { units }) => sum + units, 0n),
    0n,
  );
  assert.equal(lightning.find(({ account }) => account === 'destination_wallet')!.units, 9n * SAT_10K);
});

test('an invoice that cannot be this refund is refused with a sentence', async () => {
  const invoice = (msat: bigint | null = SAT_10K, seconds = DAY) => shop.pair.refundInvoice({ msat, seconds });
  const good = invoice();
  const own = shop.pair.invoice({ msat: SAT_10K, seconds: DAY });
  const { invoice: shown } = await shop.ask('9.70');
  const altered = `${good.slice(0, 60)}${good[60] === 'q' ? 'p' : 'q'}${good.slice(61)}`;
  const mainnet =
    'lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpquwpc4curk03c9wlrswe78q4eyqc7d8d0xqzpu9qrsgqhtjpauu9ur7fw2thcl4y9vfvh4m9wlfyz2gem29g5ghe2aak2pm3ps8fdhtceqsaagty2vph7utlgj48u0ged6a337aewvraedendscp573dxr';
  for (const [what, text, code] of [
    ['a millisatoshi more', invoice(SAT_10K + 1n), 'invoice_amount_wrong'],
    ['a millisatoshi less', invoice(SAT_10K - 1n), 'invoice_amount_wrong'],
    ['no amount', invoice(null), 'invoice_amount_wrong'],
    ['an end in less than an hour', invoice(SAT_10K, 3_500), 'invoice_expires_soon'],
    ['an altered character', altered, 'invoice_invalid'],
    ['mixed case', `LNBC${good.slice(4)}`, 'invoice_invalid'],
    ['another network', mainnet, 'invoice_invalid'],
    ['the node of the merchant', own, 'invoice_invalid'],
    ['the invoice of a payment', shown, 'invoice_expires_soon'],
    ['nothing behind its prefix', 'lightning:lnbcrt1', 'invoice_invalid'],
    ['not an invoice', 'sam', 'address_invalid'],
    ['a long text', `lnbcrt${'q'.repeat(1_900)}`, 'invoice_invalid'],
    ['a longer text than is read', 'q'.repeat(2_001), 'parameter_invalid'],
  ] as const) {
    const error = await refused(text);
    assert.equal(error.code, code, `${what}: ${error.message}`);
  }
  assert.match((await refused(invoice(null))).message, /exactly 0.00010000 BTC \(10000 satoshis\)/);
  const huge = await claim((await request()).claim_url, `lnbcrt${'q'.repeat(500_000)}`);
  assert.ok(huge.status === 400 || huge.status === 413, String(huge.status));
});

test('an invoice pays one refund, also when two ask at once', async () => {
  const address = shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY });
  const both = await Promise.all([0, 1].map(() => shop.app.live.post('/v1/refunds', { payment_id: payment, amount: '0.0001', address })));
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [201, 400]);
  assert.equal(both.find(({ status }) => status === 400)!.json.error.code, 'invoice_used');
  const { id } = both.find(({ status }) => status === 201)!.json;
  await cancel(id);
  assert.equal((await refused(address)).code, 'invoice_used', 'somebody may still pay it');
  const { claim_url: url } = await request();
  const page = await claim(url, address);
  assert.equal(page.status, 400);
  assert.ok(page.text.includes('This invoice was used before. Make a new one.'), page.text);
});

/** Time passes for the invoice of a refund. */
async function endInvoice(id: string): Promise<void> {
  const { sql } = shop.app.app.ctx.db;
  await sql`update refund_invoices set expires_at = clock_timestamp() - interval '1 second' where refund_id = ${id}`;
  await sql`update outgoing_payments set invoice_expires_at = clock_timestamp() - interval '1 second' where id = ${id}`;
}
const reopened = (id: string) =>
  eventually(
    () => read(id),
    (refund) => refund.address === null,
  );

test('a customer who is asked for an invoice, and asked again when it expired, gets a mail that says so, and members are notified', async () => {
  const { sql } = shop.app.app.ctx.db;
  const { id, claim_url: url } = await request({ email: 'payer@example.com' });
  const mails = () => sql<{ body: string }[]>`select body from mails where kind = 'refund_claim' and subject like ${`%${id}%`} order by id`;
  const [first] = await mails();
  assert.match(first!.body, /wants to refund you 0\.00010000 BTC over Lightning or on Bitcoin\./);
  assert.match(first!.body, /enter a Lightning invoice or a bitcoin address:/);
  assert.doesNotMatch(first!.body, /expired/);
  assert.equal((await claim(url, shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY }))).status, 303);
  await approve(id);
  await endInvoice(id);
  await reopened(id);
  const [, second] = await mails();
  assert.match(second!.body, /The invoice that you entered expired before it was paid\.\nOpen this link/);
  const told = await sql<{ detail: object }[]>`select detail from notices where kind = 'money_out_waiting' order by id desc limit 1`;
  assert.deepEqual({ ...told[0]?.detail }, { v: 1, what: 'refund', reason: 'invoice', amount: '0.00010000 BTC' });
  await cancel(id);
});

test('an invoice that expires makes the refund wait for another one, which is approved again', async () => {
  const first = shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY });
  const { id } = await request({ address: first });
  await approve(id);
  await endInvoice(id);
  const waiting = await reopened(id);
  assert.deepEqual([waiting.status, waiting.approved_at, waiting.invoice_expires_at], ['requested', null, null]);
  assert.ok(waiting.claim_url !== null, 'the customer can give another one');
  await assert.rejects(approve(id), /no address yet/);
  const second = shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY });
  assert.equal((await claim(waiting.claim_url, second)).status, 303);
  const preimage = shop.pair.payRefund(second)!;
  assert.equal((await prove(id, preimage)).json.error.code, 'refund_state', 'the new one was not approved');
  await approve(id);
  assert.equal((await prove(id, preimage)).json.status, 'confirmed');
  await eventually(
    async () => eventsOf(id),
    (events) => events.includes('refund.confirmed'),
  );
  assert.equal(eventsOf(id).filter((type) => type === 'refund.requested').length, 2, 'the shop learns that it waits again');
});

test('the preimage of an approved invoice counts after it expired, also when the customer has given another one', async () => {
  for (const givesAnother of [false, true]) {
    const first = shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY });
    const { id } = await request({ address: first });
    await approve(id);
    const preimage = shop.pair.payRefund(first)!;
    await endInvoice(id);
    const { claim_url: url } = await reopened(id);
    if (givesAnother) {
      assert.equal((await claim(url, shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY }))).status, 303);
      await approve(id);
    }
    const done = ok(await prove(id, preimage));
    assert.deepEqual([done.status, done.address, done.transaction_hash], ['confirmed', first, decodeInvoice(first).paymentHash]);
  }
});

test('what is canceled is not confirmed, and what is confirmed is not canceled, whichever comes first', async () => {
  const invoice = shop.pair.refundInvoice({ msat: SAT_10K, seconds: DAY });
  const { id } = await request({ address: invoice });
  await approve(id);
  const preimage = shop.pair.payRefund(invoice)!;
  const [canceled, proven] = await Promise.allSettled([cancel(id), proveRefund(shop.app.app.ctx, { ...owner(), id, preimage, actor })]);
  const { status } = await read(id);
  assert.deepEqual([canceled.status, proven.status], status === 'canceled' ? ['fulfilled', 'rejected'] : ['rejected', 'fulfilled']);
  assert.ok(status === 'canceled' || status === 'confirmed', status);
});

test('an address on-chain is compared first, and its transaction is recorded as for other refunds', async () => {
  const { id, claim_url: url } = await request();
  const address = 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080';
  const check = await claim(url, address);
  assert.ok(check.status === 200 && check.text.includes('id="checked"'), check.text);
  assert.equal((await claim(url, address, true)).status, 303);
  const given = await read(id);
  assert.deepEqual([given.address, given.network, given.amount, given.invoice_expires_at], [address, 'bitcoin', '0.00010000', null]);
  await approve(id);
  const txid = 'b'.repeat(64);
  const sent = await markOutgoingSent(shop.app.app.ctx, { ...owner(), kind: 'refund', id, txid, actor });
  assert.deepEqual([sent.state, sent.txid], ['sent', txid]);
  const preimage = await prove(id, 'c'.repeat(64));
  assert.equal(preimage.json.error.code, 'preimage_wrong');
  const small = await shop.app.live.post('/v1/refunds', { payment_id: payment, amount: '0.00000293', address });
  assert.equal(small.json.error.code, 'amount_too_small', small.text);
});

test('only whole satoshis are returned', async () => {
  const { id, invoice } = await shop.ask();
  shop.pair.pay(invoice, { msat: 13_000_007n });
  await shop.reached(id, 'completed');
  const part = await shop.app.live.post('/v1/refunds', { payment_id: id, amount: '0.00000001001' });
  assert.equal(part.json.error.code, 'parameter_invalid', part.text);
  assert.equal(ok(await shop.app.live.post('/v1/refunds', { payment_id: id }), 201).amount, '0.00013000');
});

test('a test refund takes a test address, and is confirmed when it is approved', async () => {
  const body = { amount_usd: 9.7, return_url: 'https://shop.example/', payment_address: 'test_lightning_success' };
  const id: string = ok(await shop.app.test.post('/api/payment/create/simple', body), 201).transaction_id;
  await fetch(`${shop.app.url}/pay?id=${id}`);
  await eventually(
    async () => ok(await shop.app.test.get(`/api/payment/${id}`)),
    (one) => one.status === 'completed',
  );
  const made = ok(await shop.app.test.post('/v1/refunds', { payment_id: id, address: 'test_lightning_payer' }), 201);
  assert.equal(made.network, 'lightning');
  await approveOutgoing(shop.app.app.ctx, { ...owner(), mode: 'test', kind: 'refund', id: made.id, actor });
  assert.equal(ok(await shop.app.test.get(`/v1/refunds/${made.id}`)).status, 'confirmed');
});
