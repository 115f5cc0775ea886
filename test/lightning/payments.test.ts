/** Payments over two real Lightning nodes, by every kind of back end, from the page to the webhook. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { trialBalance } from '../../src/books/books.ts';
import { OPERATOR_ACTOR } from '../../src/cli/command.ts';
import { LIGHTNING_COMMANDS } from '../../src/cli/lightning-commands.ts';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import { removeLightning } from '../../src/lightning/access.ts';
import { getMerchantNow } from '../../src/merchants/merchants.ts';
import { chooseCoin } from '../../src/payments/payments.ts';
import { lockAndSettle } from '../../src/settling/settle-payments.ts';
import { asIfFollowed, eventually } from '../kit/app.ts';
import { NODE_CERTIFICATE } from '../kit/lightning-fronts.ts';
import { CREDENTIALS, INVOICE_MACAROON, type LightningShop, ok, startLightningShop } from '../kit/lightning-shop.ts';
import { agePayment } from '../kit/payments.ts';
import { giveWallet } from '../kit/shop.ts';

let shop: LightningShop;
before(async () => {
  shop = await startLightningShop();
});
after(() => shop?.stop());
afterEach(() => shop.fronts.behave());

let taken: Promise<void> | null = null;
/** The merchant also takes bitcoin on-chain from now on. */
const takeBitcoin = (): Promise<void> => {
  taken ??= (async () => {
    await giveWallet(shop.app, 'BTC');
    await asIfFollowed(shop.app, 'BTC');
  })();
  return taken;
};

test('Lightning is not offered before it is set up', async () => {
  const id = await shop.create();
  const page = await (await fetch(`${shop.app.url}/pay?id=${id}`)).text();
  assert.ok(!page.includes('lightning'));
  const { status } = await shop.choose(id);
  assert.notEqual(status, 200);
});

for (const [name, kind] of [
  ['a Lightning address', 'address'],
  ['LND', 'lnd'],
  ['Core Lightning', 'cln'],
  ['phoenixd', 'phoenixd'],
  ['LNbits', 'lnbits'],
  ['NWC', 'nwc'],
] as const)
  test(`a payment by ${name} is created, paid and completed, and told once`, async () => {
    await shop.use(kind);
    const id = await shop.create();
    const page = await shop.choose(id);
    assert.equal(page.status, 200, page.text);
    const open = await shop.detail(id);
    assert.deepEqual([open.currency, open.network, open.amount], ['BTC', 'lightning', '0.00010000']);
    const invoice = decodeInvoice(open.payment_address);
    assert.equal(invoice.msat, 10_000_000n);
    assert.ok(page.text.includes(`href="lightning:${open.payment_address}"`));
    assert.ok(page.bytes < 12_000, `the page has ${page.bytes} bytes`);
    const preimage = shop.pair.pay(open.payment_address);
    const done = await shop.reached(id, 'completed');
    assert.deepEqual(
      [
        done.verified_by,
        done.confirmations,
        done.confirmations_required,
        done.completion_rule,
        done.transaction_hash,
        done.amount_received,
      ],
      ['preimage', 0, 0, 'preimage', invoice.paymentHash, '0.00010000'],
    );
    assert.equal(done.transfers[0].block_height, null);
    const { state, preimage: stored } = await shop.row(id);
    assert.deepEqual([state, stored], ['settled', preimage]);
    const told = await eventually(
      async () => shop.eventsOf(id),
      (events) => events.includes('payment.completed'),
    );
    assert.equal(told.filter((type) => type === 'payment.completed').length, 1);
  });

test('the commands set up a node or an address, check it with an invoice, and end it', async () => {
  const { ctx } = shop.app.app;
  const operate = async (name: string, flags: Record<string, string> = {}): Promise<any> => {
    const command = LIGHTNING_COMMANDS[name];
    assert.ok(command && 'run' in command);
    return command.run(ctx, { merchant: shop.app.merchant.merchantId, ...flags });
  };
  const folder = mkdtempSync(join(tmpdir(), 'florin-lightning-'));
  const [credential, certificate] = [join(folder, 'invoice.macaroon'), join(folder, 'tls.cert')];
  writeFileSync(credential, Buffer.from(INVOICE_MACAROON, 'hex'));
  writeFileSync(certificate, NODE_CERTIFICATE);
  const node = await operate('lightning set', { lnd: shop.fronts.url, credential, certificate });
  assert.deepEqual([node.kind, node.name, node.last_failure], ['lnd', new URL(shop.fronts.url).host, null]);
  assert.match(node.node, /^0[23][0-9a-f]{64}$/);
  writeFileSync(credential, `${INVOICE_MACAROON}\n`);
  assert.equal((await operate('lightning set', { lnd: shop.fronts.url, credential, certificate })).node, node.node, 'also as text');
  for (const kind of ['cln', 'phoenixd', 'lnbits'] as const) {
    writeFileSync(credential, `${CREDENTIALS[kind]}\n`);
    assert.equal((await operate('lightning set', { [kind]: shop.fronts.url, credential, certificate })).kind, kind);
    assert.equal((await operate('lightning check')).last_failure, null);
  }
  writeFileSync(credential, `${shop.fronts.nwc}\n`);
  assert.equal((await operate('lightning set', { nwc: credential })).kind, 'nwc');
  await assert.rejects(operate('lightning set', { lnbits: shop.fronts.url }), /credential/);
  rmSync(folder, { recursive: true });
  const { address } = shop.fronts;
  assert.equal((await operate('lightning set', { address })).name, address);
  const asked = shop.fronts.asked.length;
  assert.deepEqual((await operate('lightning check')).kind, 'address');
  assert.ok(shop.fronts.asked.length > asked, 'it asks for an invoice');
  assert.equal((await operate('lightning remove')).removed, true);
  await assert.rejects(operate('lightning check'), /Lightning is not set up/);
  await assert.rejects(operate('lightning set'), /Give one of --address, --lnd, --cln/);
});

test('an invoice that is paid with more is overpaid, to the millisatoshi, and the books add up', async () => {
  await shop.use('lnd');
  const { id, invoice } = await shop.ask();
  shop.pair.pay(invoice, { msat: 13_000_007n });
  const done = await shop.reached(id, 'completed');
  assert.deepEqual([done.exception, done.amount_overpaid], ['overpaid', '0.00003000007']);
  const { merchantId } = shop.app.merchant;
  const balances = await trialBalance(shop.app.app.ctx, { merchantId, mode: 'live', until: new Date(Date.now() + 60_000) });
  const lightning = balances.filter(({ coin }) => coin === 'BTC@lightning');
  assert.equal(
    lightning.reduce((sum, { units }) => sum + units, 0n),
    0n,
  );
  assert.ok(lightning.some(({ account }) => account === 'destination_wallet'));
  assert.ok(!lightning.some(({ account }) => account === 'deposit_addresses'));
  const { units } = lightning.find(({ account }) => account === 'destination_wallet')!;
  assert.equal(units, 6n * 10_000_000n + 13_000_007n);
});

test('money that the node holds is not paid, and a payer who gets it back can pay again', async () => {
  await shop.use('lnd');
  const { id, invoice } = await shop.ask();
  const { paymentHash } = decodeInvoice(invoice);
  shop.pair.pay(invoice, { hold: true });
  assert.equal((await shop.looked(id)).status, 'pending');
  shop.pair.giveBack(paymentHash);
  assert.equal((await shop.looked(id)).status, 'pending');
  const again = await shop.ask();
  shop.pair.pay(again.invoice, { hold: true });
  shop.pair.claim(decodeInvoice(again.invoice).paymentHash);
  await shop.reached(again.id, 'completed');
});

test('a customer who clicks twice gets one invoice, and a new one after the rate ended', async () => {
  await shop.use('address');
  const id = await shop.create();
  await Promise.all([shop.choose(id), shop.choose(id)]);
  const { payment_address: first } = await shop.detail(id);
  await shop.row(id);
  await shop.choose(id);
  assert.equal((await shop.detail(id)).payment_address, first);
});

test('an invoice that is paid after its payment ended is held as late, and counts when the merchant accepts it', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  await agePayment(shop.app.app.ctx.db, id, 7_200);
  await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  await shop.reached(id, 'expired');
  shop.pair.pay(invoice);
  await shop.app.app.ctx.db.sql`update lightning_invoices set due_at = clock_timestamp() where payment_id = ${id}`;
  const late = await eventually(
    () => shop.detail(id),
    (one) => one.exception === 'late',
  );
  assert.deepEqual([late.status, late.amount_held], ['expired', '0.00010000']);
  ok(await shop.app.live.post(`/v1/payments/${id}/resolve`, { action: 'accept' }));
  await shop.reached(id, 'completed');
});

test('an invoice that is paid after the payment was canceled is not lost', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  ok(await shop.app.live.post(`/v1/payments/${id}/cancel`));
  shop.pair.pay(invoice);
  const paid = await eventually(
    () => shop.detail(id),
    (one) => one.exception === 'paid_after_cancel',
  );
  assert.equal(paid.status, 'cancelled');
});

test('money that came over Lightning goes to no address of another coin, and its page takes a refund address of Bitcoin', async () => {
  await shop.use('lnd');
  const { id, invoice } = await shop.ask();
  shop.pair.pay(invoice, { msat: 15_000_000n });
  await shop.reached(id, 'completed');
  const refused = await shop.app.live.post('/v1/refunds', { payment_id: id, address: `0x${'11'.repeat(20)}` });
  assert.equal(refused.status, 400, refused.text);
  assert.equal(refused.json.error.param, 'address', refused.text);
  assert.match(refused.json.error.message, /not a valid BTC address/);
  const page = await (await fetch(`${shop.app.url}/pay?id=${id}`)).text();
  assert.match(page, /name="currency" value="BTC"/);
});

test('an invoice of a back end that was replaced or removed is still watched', async () => {
  await shop.use('address');
  const { id, invoice } = await shop.ask();
  const { merchantId } = shop.app.merchant;
  await removeLightning(shop.app.app.ctx, { merchantId, actor: OPERATOR_ACTOR });
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
});

test('a list by currency and network finds Lightning payments', async () => {
  const all = ok(await shop.app.live.get('/api/payments?currency=BTC&status=completed'));
  const lightning = ok(await shop.app.live.get('/api/payments?network=lightning&status=completed'));
  assert.ok(lightning.total_count > 0);
  assert.equal(all.total_count, lightning.total_count);
});

test('a payment that is paid over Lightning and on-chain is overpaid', async () => {
  const { app } = shop;
  await takeBitcoin();
  await shop.use('lnd');
  const id = await shop.create();
  const { ctx } = app.app;
  const { settlement, quote } = await chooseCoin(ctx, { paymentId: id, coin: 'BTC' });
  assert.equal(settlement.coin, 'BTC');
  await shop.choose(id);
  const { payment_address: invoice } = await shop.detail(id);
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
  await ctx.db.begin((tx) =>
    lockAndSettle(
      ctx,
      tx,
      [id],
      async () =>
        void (await tx`
          insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash, block_time)
          values ('BTC', 'aa:0', ${id}, ${app.merchant.merchantId}, 'aa', ${quote!.address}, '10000', 'output', clock_timestamp(), 0, 'nobody',
            clock_timestamp())`),
    ),
  );
  const both = await shop.detail(id);
  assert.deepEqual([both.status, both.exception, both.transfers.length], ['completed', 'overpaid', 2]);
  assert.equal(both.amount_received_usd, '19.40');
});

test('one code has the address and the invoice of a customer who chose Bitcoin, and the page never waits for the node', async () => {
  const { app } = shop;
  await takeBitcoin();
  await shop.use('lnd');
  // The node keeps the caller waiting until the page is there.
  shop.fronts.behave((usual, { path }) => (path === '/v1/invoices' ? null : usual));
  const slow = await shop.create();
  const sinceMs = performance.now();
  const first = await shop.choose(slow, 'bitcoin');
  assert.equal(first.status, 200);
  assert.ok(performance.now() - sinceMs < 5_000 && !first.text.includes('lightning='));
  await eventually(
    async () => (await app.app.ctx.db.sql`select failure from lightning_backends where active`)[0]!.failure,
    (failure) => failure !== null,
  );
  assert.ok(!(await (await fetch(`${app.url}/pay?id=${slow}`)).text()).includes('lightning='), 'it is paid on-chain');
  shop.fronts.behave();
  await app.app.ctx.db.sql`update lightning_backends set away_until = null`;
  await getMerchantNow(app.app.ctx, app.merchant);
  const id = await shop.create();
  assert.equal((await shop.choose(id, 'bitcoin')).status, 200);
  const page = await eventually(
    async () => (await fetch(`${app.url}/pay?id=${id}`)).text(),
    (text) => text.includes('lightning='),
  );
  const chosen = await shop.detail(id);
  assert.deepEqual([chosen.currency, chosen.network, chosen.amount], ['BTC', 'bitcoin', '0.00010000']);
  const { bolt11, msat, shown_until: until } = await shop.row(id);
  assert.ok(page.includes(`href="bitcoin:${chosen.payment_address}?amount=0.00010000&amp;lightning=${bolt11}"`));
  assert.ok(page.includes(`href="lightning:${bolt11}"`));
  assert.equal(msat, 10_000_000n);
  assert.ok(Math.abs(until.getTime() - Date.parse(chosen.quote_expires_at)) < 1_000);
  // The clock of the test's node is that of its last block.
  assert.ok(decodeInvoice(bolt11).expiresAt.getTime() < until.getTime() + 2_000, 'it ends with the rate');
  const asked = Number(shop.fronts.asked.findLast(({ path }) => path === '/v1/invoices')!.body.expiry);
  assert.ok(asked > 600 && asked <= 900, String(asked));
  // A customer who changes to Lightning gets the same invoice.
  assert.equal((await shop.choose(id)).status, 200);
  assert.equal((await shop.detail(id)).payment_address, bolt11);
  await shop.choose(id, 'bitcoin');
  shop.pair.pay(bolt11);
  const done = await shop.reached(id, 'completed');
  assert.deepEqual([done.network, done.verified_by, done.exception], ['lightning', 'preimage', null]);
});
