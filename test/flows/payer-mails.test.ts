/** Emails to customers who left an address or are named by a payment, in live mode: the receipt, the claim link of a refund, and that a refund was sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { approveOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import { getOutgoing } from '../../src/outgoing/outgoing-payments.ts';
import { claimRefund, endRefundPowers } from '../../src/outgoing/refunds.ts';
import { leaveRefundAddress } from '../../src/payments/payments.ts';
import { eventually, type Reply } from '../kit/app.ts';
import { type MailServer, startMailServer } from '../kit/mail.ts';
import { readPdf } from '../kit/pdf.ts';
import { units } from '../kit/shop.ts';
import { type SteppedShop, tellStepped } from '../kit/stepped-shop.ts';

const ACTOR = { userId: '', name: 'Ada', ip: '' };
const ADDRESS = 'bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c';
const MAILS = { SMTP_URL: 'smtp://127.0.0.1:9', MAIL_FROM: 'pay@shop.example', PRICES: 'static:BTC=1000.00' };
const PAYER = 'payer@example.com';
type Mail = { recipient: string; subject: string; body: string; kind: string };

const tell = (story: (told: SteppedShop) => Promise<void>) => tellStepped(['own'], story, { environment: MAILS });
const mailsOf = ({ app }: SteppedShop, kind: string) =>
  app.app.ctx.db.sql<Mail[]>`select recipient, subject, body, kind from mails where kind = ${kind} order by id`;
const leave = ({ app }: SteppedShop, paymentId: string, email: string | null = PAYER) =>
  leaveRefundAddress(app.app.ctx, { paymentId, coin: 'BTC', address: ADDRESS, email });
const made = (reply: Reply): any => {
  assert.equal(reply.status, 201, reply.text);
  return reply.json;
};
const ownerOf = ({ app }: SteppedShop) => ({ merchantId: app.merchant.merchantId, mode: 'live' as const });
async function pdfAt({ app }: SteppedShop, url: string): Promise<string[]> {
  const { pathname, search } = new URL(url);
  const reply = await fetch(app.url + pathname + search);
  assert.equal(reply.headers.get('content-type'), 'application/pdf', url);
  return readPdf(Buffer.from(await reply.arrayBuffer())).flatMap(({ texts }) => texts);
}

test('the receipt is mailed once: when the payment is completed, or when the address of one that was overpaid is left after that', () =>
  tell(async (told) => {
    const { chain, look, pay, detail } = told;
    const [later, without, early] = await pay(chain, 25, 30, 40);
    const id = early!;
    chain.pay([[(await detail(later!)).payment_address, units('0.01')]]);
    await look();
    await leave(told, id);
    assert.equal((await mailsOf(told, 'receipt')).length, 0, 'not before it is completed');
    chain.mine(8);
    await look(2);
    assert.equal((await detail(id)).status, 'completed');
    const [mail, ...others] = await mailsOf(told, 'receipt');
    assert.equal(others.length, 0);
    assert.deepEqual([mail!.recipient, mail!.subject], [PAYER, 'Your receipt from Test shop']);
    assert.match(
      mail!.body,
      new RegExp(
        `^Test shop received your payment\\.\\n\\nPrice: \\$40\\.00\\nReceived: 0\\.04000000 BTC \\(Bitcoin\\)\\nPaid on: \\S+ \\S+ UTC\\nPayment ID: ${id}\\n`,
      ),
    );
    const pdf = /Receipt \(PDF\): (\S+)/.exec(mail!.body)![1]!;
    assert.ok((await pdfAt(told, pdf)).includes(id));

    // One that was completed before; events that follow mail nothing again.
    assert.equal((await detail(later!)).status, 'completed');
    await leave(told, later!);
    await leave(told, later!, 'stranger@example.com');
    await assert.rejects(leave(told, without!), { code: 'payment_status_conflict' }, 'it owes nothing');
    chain.mine(1);
    await look(2);
    const all = await mailsOf(told, 'receipt');
    assert.deepEqual(
      all.map(({ recipient, body }) => [recipient, /Payment ID: (\S+)/.exec(body)![1]]),
      [
        [PAYER, id],
        [PAYER, later],
      ],
    );
  }));

test('a receipt goes to the customer of a live payment where the merchant wants that, once, and in the language of the payment', async () => {
  const server = await startMailServer();
  try {
    await tellStepped(['own'], (told) => mailCustomers(told, server), {
      environment: { ...MAILS, SMTP_URL: server.url },
      roles: ['api', 'worker'],
    });
  } finally {
    await server.stop();
  }
});
async function mailCustomers(told: SteppedShop, server: MailServer): Promise<void> {
  const { app, chain, look, detail } = told;
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  const buy = async (email: string, of: object = {}, over = 0n) => {
    const customer = { email };
    const { json } = await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD', customer, ...of });
    chain.pay([[json.payment_address, units(json.amount) + over]]);
    return json.transaction_id as string;
  };
  const complete = async () => {
    chain.mine(8);
    await look(2);
  };
  await buy('early@example.com');
  await complete();
  assert.equal((await mailsOf(told, 'receipt')).length, 0, 'it is off until the merchant wants it');

  await changeSettings(ctx, { merchantId, settings: { mailReceipts: true, locale: 'ja' }, name: '株式会社' });
  const german = await buy('greta@example.com', { locale: 'de-AT' });
  const over = await buy('hana@example.com', {}, units('0.01'));
  await look();
  assert.equal((await mailsOf(told, 'receipt')).length, 0, 'not before it is completed');
  await complete();
  await leaveRefundAddress(ctx, { paymentId: over, coin: 'BTC', address: ADDRESS, email: 'hana@example.com' });
  chain.mine(1);
  await look(2);
  const sent = await eventually(
    async () => server.mails,
    (mails) => mails.length >= 2,
  );
  const [greta, hana, ...others] = [...sent].sort((a, b) => (a.to[0]! < b.to[0]! ? -1 : 1));
  assert.deepEqual([greta!.to, hana!.to, others], [['greta@example.com'], ['hana@example.com'], []]);
  assert.match(
    greta!.text.replaceAll('\r\n', '\n'),
    /^株式会社 hat Ihre Zahlung erhalten\.\n\nPreis: \$25\.00\nEingegangen: 0\.02500000 BTC \(Bitcoin\)\nBezahlt am: /,
  );
  assert.match(hana!.text.replaceAll('\r\n', '\n'), /^株式会社 がお支払いを受け取りました。\n\n価格: \$25\.00\n/);
  const pdf = /Beleg \(PDF\): (\S+)/.exec(greta!.text)![1]!;
  assert.ok((await pdfAt(told, pdf)).includes('株式会社'));
  assert.equal((await detail(german)).status, 'completed');

  const test = await app.test.post('/v1/transactions/create', {
    ...{ crypto: 'BTC', amount: 25, currency_fiat: 'USD', customer: { email: 'tess@example.com' } },
  });
  await app.test.post(`/v1/test/payments/${test.json.transaction_id}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    async () => (await app.test.get(`/api/payment/${test.json.transaction_id}`)).json.status,
    (status) => status === 'completed',
  );
  assert.equal((await mailsOf(told, 'receipt')).length, 2, 'customers get no email about tests');
}

test('a receipt that waits is not sent once the money of its payment is gone', () =>
  tell(async (told) => {
    const { app, chain, look, detail } = told;
    await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { mailReceipts: true } });
    const customer = { email: PAYER };
    const { json } = await app.live.post('/v1/transactions/create', { crypto: 'BTC', amount: 25, currency_fiat: 'USD', customer });
    chain.pay([[json.payment_address, units(json.amount)]]);
    chain.mine(1);
    await look(2);
    assert.equal((await detail(json.transaction_id)).status, 'completed');
    assert.equal((await mailsOf(told, 'receipt')).length, 1);
    chain.rewind(1, { forget: true });
    chain.mine(2, { empty: true });
    await look(2);
    assert.deepEqual((await detail(json.transaction_id)).exceptions, ['reorged']);
    assert.equal((await mailsOf(told, 'receipt')).length, 0);
  }));

test('a claim link is mailed when the refund is requested, a new one stops the one before, and each refund that is sent is mailed', () =>
  tell(async (told) => {
    const { app, chain, look, pay, detail } = told;
    const { ctx } = app.app;
    const [first, second] = await pay(chain, 25, 30);
    // Both are overpaid: otherwise nobody may leave an address.
    for (const id of [first!, second!]) chain.pay([[(await detail(id)).payment_address, units('0.01')]]);
    chain.mine(8);
    await look(2);
    const none = made(await app.live.post('/v1/refunds', { payment_id: first, amount_usd: '1.00' }));
    assert.equal((await mailsOf(told, 'refund_claim')).length, 0, 'no address was left');
    for (const id of [first!, second!]) await leave(told, id);

    const refund = made(await app.live.post('/v1/refunds', { payment_id: first, amount_usd: '10.00', reason: 'Broken mug' }));
    const [mail, ...others] = await mailsOf(told, 'refund_claim');
    assert.equal(others.length, 0);
    assert.deepEqual([mail!.recipient, mail!.subject], [PAYER, `Claim your refund from Test shop (${refund.id})`]);
    const until = refund.claim_expires_at.slice(0, 16).replace('T', ' ');
    for (const words of [
      'wants to refund you 0.01000000 BTC on Bitcoin.',
      `\n${refund.claim_url}\n`,
      `valid until ${until} UTC.`,
      'Reason: Broken mug',
    ])
      assert.ok(mail!.body.includes(words), `${words}: ${mail!.body}`);

    const renewed = await app.live.post(`/v1/refunds/${refund.id}/claim_link`);
    assert.equal(renewed.status, 200, renewed.text);
    assert.notEqual(renewed.json.claim_url, refund.claim_url);
    const mails = await mailsOf(told, 'refund_claim');
    assert.equal(mails.length, 2, 'the new link is mailed at once');
    assert.ok(mails[1]!.body.includes(`\n${renewed.json.claim_url}\n`));
    const statusOf = async (url: string) => (await fetch(app.url + new URL(url).pathname)).status;
    assert.deepEqual([await statusOf(refund.claim_url), await statusOf(renewed.json.claim_url)], [404, 200]);

    await claimRefund(ctx, { refund: await getOutgoing(ctx, { kind: 'refund', ...ownerOf(told), id: refund.id }), address: ADDRESS });
    // Another payment of the same customer, with an address that the merchant entered.
    const other = made(await app.live.post('/v1/refunds', { payment_id: second, amount_usd: '10.00', address: ADDRESS }));
    assert.deepEqual([other.claim_url, (await mailsOf(told, 'refund_claim')).length], [null, 2]);
    for (const [i, { id }] of [refund, other].entries()) {
      await approveOutgoing(ctx, { kind: 'refund', ...ownerOf(told), id, actor: ACTOR });
      await markOutgoingSent(ctx, { kind: 'refund', ...ownerOf(told), id, txid: `${i}`.repeat(64), actor: ACTOR });
    }
    const sent = await mailsOf(told, 'refund_sent');
    assert.deepEqual(
      sent.map(({ subject }) => subject),
      [refund, other].map(({ id }) => `Your refund from Test shop (${id})`),
    );
    for (const [i, { id }] of [refund, other].entries()) {
      const [note] = /\S+\/note\.pdf$/.exec(sent[i]!.body)!;
      const texts = await pdfAt(told, note);
      assert.ok(texts.includes(id) && texts.includes(ADDRESS), String(texts));
    }
    assert.equal((await getOutgoing(ctx, { kind: 'refund', ...ownerOf(told), id: none.id })).state, 'requested');
  }));

test('the claim link goes where the merchant says, and an address that a stranger leaves on the payment page never replaces that', () =>
  tell(async (told) => {
    const { app, chain, look, pay, detail } = told;
    const { ctx } = app.app;
    const paid = await pay(chain, 25, 30, 40);
    const [stranger, later, nobody] = paid as [string, string, string];
    for (const id of paid) chain.pay([[(await detail(id)).payment_address, units('0.01')]]);
    chain.mine(8);
    await look(2);
    await leave(told, stranger, 'stranger@example.com');
    const ask = (of: object) => app.live.post('/v1/refunds', { amount_usd: '5.00', ...of });
    const recipients = async (kind = 'refund_claim') => (await mailsOf(told, kind)).map(({ recipient }) => recipient);
    const refused = await ask({ payment_id: stranger, email: 'nobody' });
    assert.deepEqual([refused.status, refused.json.error.code, refused.json.error.param], [400, 'parameter_invalid', 'email']);

    const named = made(await ask({ payment_id: stranger, email: PAYER }));
    const before = made(await ask({ payment_id: later, email: PAYER }));
    const silent = made(await ask({ payment_id: nobody, email: null }));
    await leave(told, later, 'stranger@example.com');
    await leave(told, nobody, 'stranger@example.com');
    for (const { id } of [named, before, silent]) assert.equal((await app.live.post(`/v1/refunds/${id}/claim_link`)).status, 200);
    assert.deepEqual(await recipients(), [PAYER, PAYER, PAYER, PAYER], 'each link, and each new one');
    // Nobody named an address, so the merchant is shown who entered the one that is used.
    const unnamed = made(await ask({ payment_id: stranger }));
    assert.equal((await recipients()).at(-1), 'stranger@example.com');
    const from = async ({ id }: { id: string }) => (await getOutgoing(ctx, { kind: 'refund', ...ownerOf(told), id })).emailFrom;
    assert.deepEqual([await from(named), await from(silent), await from(unnamed)], ['merchant', null, 'page']);
    await claimRefund(ctx, { refund: await getOutgoing(ctx, { kind: 'refund', ...ownerOf(told), id: named.id }), address: ADDRESS });
    await approveOutgoing(ctx, { kind: 'refund', ...ownerOf(told), id: named.id, actor: ACTOR });
    await markOutgoingSent(ctx, { kind: 'refund', ...ownerOf(told), id: named.id, txid: '7'.repeat(64), actor: ACTOR });
    assert.deepEqual(await recipients('refund_sent'), [PAYER]);
  }));

test('a refund says whether its link of now was mailed, and that it has to be sent only where its link before ended and nobody was mailed', () =>
  tell(async (told) => {
    const { app, chain, look, pay, detail } = told;
    const { ctx } = app.app;
    const [id] = (await pay(chain, 25)) as [string];
    chain.pay([[(await detail(id)).payment_address, units('0.01')]]);
    chain.mine(8);
    await look(2);
    const ask = async (of: object = {}) =>
      made(await app.live.post('/v1/refunds', { payment_id: id, amount_usd: '1.00', email: PAYER, ...of }));
    const stateOf = async (refund: { id: string }) => {
      const { linkEndedAt, linkMailed } = await getOutgoing(ctx, { kind: 'refund', ...ownerOf(told), id: refund.id });
      return { isEnded: linkEndedAt !== null, isMailed: linkMailed };
    };
    const first = await ask();
    const silent = await ask({ email: null });
    assert.deepEqual(
      [await stateOf(first), await stateOf(silent)],
      [
        { isEnded: false, isMailed: true },
        { isEnded: false, isMailed: false },
      ],
    );
    // A member who could copy links leaves.
    await ctx.db.sql`insert into users (id, name, email) values ('usr_left', 'Mallory', 'mallory@shop.example')`;
    await ctx.db.sql`insert into members (merchant_id, user_id, role) values (${app.merchant.merchantId}, 'usr_left', 'support')`;
    const leaveTeam = () =>
      ctx.db.begin((tx) =>
        endRefundPowers(
          ctx,
          tx,
          { merchantId: app.merchant.merchantId, userId: 'usr_left', role: null, actor: ACTOR },
          { forgetApprovals: async () => 0, endLinks: async () => 0 },
        ),
      );
    await leaveTeam();
    assert.deepEqual(
      [await stateOf(first), await stateOf(silent)],
      [
        { isEnded: false, isMailed: true },
        { isEnded: true, isMailed: false },
      ],
    );
    // The address gets ten of these emails an hour.
    for (let i = 2; i < 10; i++) assert.equal((await stateOf(await ask())).isMailed, true, String(i));
    const unmailed = await ask();
    assert.deepEqual(await stateOf(unmailed), { isEnded: false, isMailed: false });
    await leaveTeam();
    assert.deepEqual(await stateOf(first), { isEnded: true, isMailed: false });
  }));
