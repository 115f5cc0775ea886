/** Lightning in a real browser, over two real nodes: set up on the Wallets screen, with a test payment, and a refund to an invoice. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { OPERATOR_ACTOR } from '../../src/cli/command.ts';
import { setLightning } from '../../src/lightning/access.ts';
import { eventually } from '../kit/app.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { PHOENIXD_PASSWORDS, startLightningFronts } from '../kit/lightning-fronts.ts';
import { startLightningPair } from '../kit/lightning-node.ts';

const pair = await startLightningPair();
const fronts = await startLightningFronts(pair);
after(() => fronts.stop());
const { app, page, open, audit, noFaults, forgiveFaults } = await startDashboard({
  environment: { BTC_NETWORK: 'regtest', BTC_NODE_URL: 'http://florin:test@127.0.0.1:1' },
});

test('an owner sets up a Lightning address, receives a test payment, and turns Lightning off', async () => {
  await open('live/wallets');
  const card = page.locator('section').filter({ has: page.getByRole('heading', { name: 'Bitcoin over Lightning' }) });
  await card.getByRole('button', { name: 'Set up Lightning' }).click();
  const dialog = page.getByRole('dialog');
  await audit('set up Lightning');
  await dialog.getByLabel('Address').fill(fronts.address);
  await dialog.getByRole('button', { name: 'Check and save' }).click();
  await card.getByText(fronts.address).waitFor();
  await card.getByText('Ready').waitFor();
  await audit('wallets with Lightning');
  await card.getByRole('button', { name: 'Receive a test payment' }).click();
  await dialog.getByText('Waiting for the payment').waitFor();
  await audit('a test invoice');
  const invoice = (await dialog.locator('pre').innerText()).trim();
  assert.ok(pair.pay(invoice));
  await dialog.getByText('The test payment arrived.', { exact: false }).waitFor();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  noFaults();
  await card.getByRole('button', { name: 'Turn off' }).click();
  await dialog.getByRole('button', { name: 'Turn off' }).click();
  await card.getByRole('button', { name: 'Set up Lightning' }).waitFor();
  noFaults();
});

test('a password of phoenixd that can spend is refused, with where the right one is', async () => {
  await open('live/wallets');
  await page.getByRole('button', { name: 'Set up Lightning' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Receive with').selectOption('phoenixd');
  await dialog.getByLabel('Address').fill(fronts.url);
  await dialog.getByLabel('Credential').fill(PHOENIXD_PASSWORDS.full);
  await dialog.getByRole('button', { name: 'Check and save' }).click();
  await dialog.getByText('http-password-limited-access of', { exact: false }).waitFor();
  forgiveFaults();
});

test('a refund to an invoice of the customer: its code is shown, a wrong preimage is refused with words, and the right one confirms it', async () => {
  const access = { kind: 'address', address: fronts.address, credential: '', certificate: null } as const;
  await setLightning(app.app.ctx, { merchantId: app.merchant.merchantId, actor: OPERATOR_ACTOR, access });
  const wanted = { amount: '19.40', currency: 'USD', crypto: 'BTC', network: 'lightning', return_url: 'https://shop.example/' };
  const payment = await eventually(
    async () => (await app.live.post('/v1/payments', wanted)).json,
    ({ id }) => id !== undefined,
  );
  pair.pay(payment.payment_address);
  await eventually(
    async () => (await app.live.get(`/api/payment/${payment.id}`)).json.status,
    (status) => status === 'completed',
  );
  const invoice = pair.refundInvoice({ msat: 10_000_000n, seconds: 86_400 });
  const made = await app.live.post('/v1/refunds', { payment_id: payment.id, amount: '0.0001', address: invoice });
  assert.equal(made.status, 201, made.text);
  await open('live/refunds');
  await page.getByRole('row').filter({ hasText: 'Needs approval' }).getByRole('button').first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Invoice of the customer').waitFor();
  assert.equal(await dialog.getByLabel('Preimage').count(), 0, 'it is not approved yet');
  await dialog.getByRole('button', { name: 'Approve' }).click();
  const question = page.getByRole('dialog', { name: 'Approve this refund?' }).or(page.getByRole('alertdialog'));
  await question.getByText('to the Lightning invoice of the customer', { exact: false }).waitFor();
  await question.getByRole('button', { name: 'Approve' }).click();
  await dialog.getByAltText('QR code of the invoice').waitFor();
  assert.equal((await dialog.locator('pre').filter({ hasText: 'lnbcrt' }).innerText()).trim(), invoice);
  assert.equal(await dialog.getByRole('link', { name: 'Open wallet' }).getAttribute('href'), `lightning:${invoice}`);
  await audit('a refund to an invoice');
  noFaults();
  await dialog.getByLabel('Preimage').fill('ab'.repeat(32));
  await dialog.getByRole('button', { name: 'Confirm the refund' }).click();
  await dialog.getByText('is not the preimage of an invoice of the refund', { exact: false }).waitFor();
  await audit('a wrong preimage');
  noFaults(/preimage/);
  await dialog.getByLabel('Preimage').fill(` ${pair.payRefund(invoice)!.toUpperCase()}`);
  await dialog.getByRole('button', { name: 'Confirm the refund' }).click();
  await dialog.getByText('Confirmed', { exact: true }).first().waitFor();
  await dialog.getByLabel('Preimage').waitFor({ state: 'detached' });
  assert.equal(await dialog.getByAltText('QR code of the invoice').count(), 0, 'nobody pays it again');
  noFaults();
});
