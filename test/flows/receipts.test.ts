/** Receipts and refund notes as PDF, and the email about a refund: what they say, and when there is none. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { mailPayer } from '../../src/outgoing/refund-mails.ts';
import { leaveRefundAddress } from '../../src/payments/payments.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type MailServer, startMailServer } from '../kit/mail.ts';
import { readPdf } from '../kit/pdf.ts';

const ACTOR = { userId: '', name: 'Ada', ip: '' };
let app: TestApp;
let mail: MailServer;
before(async () => {
  mail = await startMailServer();
  app = await startTestApp({ SMTP_URL: mail.url, MAIL_FROM: 'pay@shop.example' });
});
after(async () => {
  await app?.stop();
  await mail?.stop();
});

const made = (reply: Reply): any => {
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
};
async function paid(scenario: string, status: string): Promise<any> {
  const { id } = made(
    await app.test.post('/api/payment/create/simple', { amount_usd: '97.00', return_url: 'https://shop.example/', invoice_id: 'INV-7' }),
  );
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario, currency: 'BTC' });
  if (scenario === 'underpaid') await app.test.post('/v1/test/clock/advance', { payment_id: id, seconds: 90_000 });
  return eventually(
    async () => (await app.test.get(`/api/payment/${id}`)).json,
    (payment) => payment.status === status,
  );
}
const open = (path: string) => fetch(app.url + path, { redirect: 'manual' });
async function pdfAt(path: string): Promise<{ texts: string[]; box: number[]; name: string | null }> {
  const reply = await open(path);
  assert.equal(reply.status, 200, path);
  assert.equal(reply.headers.get('content-type'), 'application/pdf');
  const pages = readPdf(Buffer.from(await reply.arrayBuffer()));
  return { texts: pages.flatMap((page) => page.texts), box: pages[0]!.box, name: reply.headers.get('content-disposition') };
}
/** The value beside a name. */
const beside = (texts: readonly string[], name: string): string | undefined => texts[texts.indexOf(name) + 1];

test('a completed payment has a receipt as PDF on its page; others lead back to their page', async () => {
  const payment = await paid('success', 'completed');
  const page = await (await open(`/pay/receipt?id=${payment.id}`)).text();
  assert.ok(page.includes(`href="/pay/receipt.pdf?id=${payment.id}"`));
  const { texts, box, name } = await pdfAt(`/pay/receipt.pdf?id=${payment.id}`);
  assert.equal(name, `attachment; filename="receipt-${payment.id}.pdf"`);
  assert.deepEqual(texts.slice(0, 3), ['Receipt', 'Test shop', 'TEST: no real money was moved.']);
  assert.deepEqual(
    ['Payment', 'Invoice', 'Price', 'Received', 'Network', 'Value', 'Transactions'].map((row) => beside(texts, row)),
    [payment.id, 'INV-7', '$97.00', '0.00100000 BTC', 'Bitcoin', '$97.00', payment.transaction_hash],
  );
  assert.match(beside(texts, 'Paid')!, /^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/);
  assert.deepEqual(box, [0, 0, 595, 842]);
  assert.deepEqual((await pdfAt(`/pay/receipt.pdf?id=${payment.id}&paper=letter`)).box, [0, 0, 612, 792]);

  const stored = {
    description: 'Müller – 東京 ✓',
    fiat: { amount: '8051.00', currency: 'INR', rateE8: '8300000000', source: 'sample', at: '2026-01-01T00:00:00.000Z' },
    items: [
      { name: '湯呑み', quantity: '2', unitPriceCents: '300000' },
      { name: 'Чашка', quantity: '1', unitPriceCents: '205100' },
    ],
    taxCents: '128500',
  };
  const rupees = await app.app.ctx.db.sql`
    update payments set invoice_id = '株-7', request = request || ${stored as never}
    where id = ${payment.id} returning id`;
  assert.equal(rupees.length, 1);
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: {}, name: 'Пекарня Ромашка' });
  const other = (await pdfAt(`/pay/receipt.pdf?id=${payment.id}`)).texts;
  assert.equal(other[1], 'Пекарня Ромашка');
  assert.deepEqual(
    ['Invoice', 'Order', 'Items', 'Tax', 'Price'].map((row) => beside(other, row)),
    ['株-7', 'Müller – 東京 ✓', '2 × 湯呑み: ₹6,000.00', '₹1,285.00', '₹8,051.00 = $97.00'],
  );
  assert.equal(other[other.indexOf('Tax') - 1], '1 × Чашка: ₹2,051.00');
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: {}, name: 'Test shop' });

  const { id } = made(await app.test.post('/api/payment/create/simple', { amount_usd: '1.00', return_url: 'https://shop.example/' }));
  const none = await open(`/pay/receipt.pdf?id=${id}`);
  assert.deepEqual([none.status, none.headers.get('location')], [303, `/pay?id=${id}`]);
  assert.equal((await open('/pay/receipt.pdf?id=pay_0000000000000000000000aa')).status, 404);
});

test('a refund that was sent has a note as PDF, and in live mode the customer who left an email address gets one email', async () => {
  const { ctx, merchant } = { ctx: app.app.ctx, merchant: app.merchant };
  const payment = await paid('underpaid', 'failed');
  await leaveRefundAddress(ctx, { paymentId: payment.id, coin: 'BTC', address: 'test_btc_payer', email: 'payer@example.com' });
  const refund = made(await app.test.post('/v1/refunds', { payment_id: payment.id }));
  const path = new URL(refund.claim_url).pathname;
  const early = await open(`${path}/note.pdf`);
  assert.deepEqual([early.status, early.headers.get('location')], [303, path]);
  const fields = new URLSearchParams({ address: 'test_btc_payer', checked: 'yes' });
  assert.equal((await fetch(app.url + path, { method: 'POST', redirect: 'manual', body: fields })).status, 303);
  await approveOutgoing(ctx, { kind: 'refund', merchantId: merchant.merchantId, mode: 'test', id: refund.id, actor: ACTOR });

  const linkOf = async (page: string) => /<a href="[^"]+\/note\.pdf"[^>]*>([^<]*)<\/a>/.exec(await (await open(page)).text())?.[1];
  assert.deepEqual([await linkOf(path), await linkOf(`${path}?lang=de`)], ['Refund note (PDF)', 'Erstattungsbeleg (PDF)']);
  const done = (await app.test.get(`/v1/refunds/${refund.id}`)).json;
  const { texts } = await pdfAt(`${path}/note.pdf`);
  assert.deepEqual(texts.slice(0, 2), ['Refund note', 'Test shop']);
  assert.deepEqual(
    ['Refund', 'Payment', 'Amount', 'Value', 'Address', 'Transaction'].map((row) => beside(texts, row)),
    [refund.id, payment.id, `${refund.amount} BTC`, `$${refund.amount_usd}`, 'test_btc_payer', done.transaction_hash],
  );
  const { sql } = ctx.db;
  assert.equal((await sql`select 1 from mails where kind = 'refund_sent'`).length, 0, 'payers get no email about tests');
  const played = await getOutgoing(ctx, { kind: 'refund', merchantId: merchant.merchantId, mode: 'test', id: refund.id });
  const sent = { ...played, mode: 'live', units: 1_000n } as const;
  const tell = () => ctx.db.begin((tx) => mailPayer(ctx, tx, { state: 'sent', refund: sent }));
  await tell();
  await tell();
  assert.equal((await sql`select 1 from mails where kind = 'refund_sent'`).length, 1, 'another one shortly after is not sent');
  const told = await eventually(
    async () => mail.mails.filter(({ to }) => to.includes('payer@example.com')),
    (mails) => mails.length > 0,
  );
  assert.equal(told.length, 1);
  assert.match(told[0]!.text, new RegExp(`Test shop sent you a refund of 0.00001000 BTC on Bitcoin[\\s\\S]*${done.transaction_hash}`));
  assert.ok(told[0]!.text.includes(`${refund.claim_url}/note.pdf`), told[0]!.text);
});
