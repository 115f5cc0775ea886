/** Payouts in the dashboard: a CSV file in test mode, and a payout that is requested, approved, signed and sent on a real node. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { eventually } from '../kit/app.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { startBitcoind } from '../kit/nodes.ts';
import { account, giveWallet, openPayment, reach } from '../kit/shop.ts';
import { recordsFor } from '../kit/signing.ts';

const node = await startBitcoind();
after(() => node.destroy());
const dashboard = await startDashboard({
  environment: { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1', PRICES: 'static:BTC=1000.00' },
});
const { app, page, open, audit, noFaults } = dashboard;
const dialog = page.getByRole('dialog');
const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';

test('a CSV file: wrong lines are named, all of it is approved at once, and the same file adds nothing', async () => {
  await open('test/payouts');
  await page.getByText('No payouts yet').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Make a signing file' }).count(), 0, 'test mode signs nothing');
  await audit('Payouts, empty');
  const choose = async (rows: string) => {
    await page.getByRole('button', { name: 'Import a CSV file' }).click();
    const buffer = Buffer.from(`reference,currency,amount,address,description\n${rows}`);
    await dialog.getByLabel('CSV file').setInputFiles({ name: 'november.csv', mimeType: 'text/csv', buffer });
    await dialog.getByRole('button', { name: 'Import', exact: true }).click();
  };
  await choose(`ada-1,BTC,0.01,${ADDRESS},\nbob-1,BTC,0.02,nowhere,\n`);
  await dialog.getByRole('alert').getByText('Line 3:').waitFor();
  await audit('an import with a wrong line');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  noFaults(/payout-batches/);
  const right = `ada-1,BTC,0.01,${ADDRESS},November\nbob-1,BTC,0.02,${ADDRESS},\n`;
  await choose(right);
  const files = page.locator('section', { has: page.getByRole('heading', { name: 'Imported files' }) });
  await files.getByText('2 payouts, 0.03 BTC').waitFor();
  await page.getByRole('row').filter({ hasText: 'bob-1' }).getByText('Needs approval').waitFor();
  await audit('an imported file');
  await files.getByRole('button', { name: 'Approve all of november.csv' }).click();
  const question = page.getByRole('dialog', { name: 'Approve 2 payouts?' }).or(page.getByRole('alertdialog'));
  await question.getByText('0.03 BTC').waitFor();
  await question.getByRole('button', { name: 'Approve', exact: true }).click();
  await page.getByRole('row').filter({ hasText: 'ada-1' }).getByText('Confirmed').waitFor();
  await choose(right);
  await page.getByText('This file was imported before. Nothing was added.').waitFor();
  assert.equal(await page.getByRole('row').filter({ hasText: '-1' }).count(), 2);
  const states = page.getByRole('group', { name: 'State' });
  assert.equal(await states.getByText(/\d/).count(), 0, 'no counts while one file is shown');
  await page.getByRole('button', { name: 'Show payouts of all files' }).click();
  await states.getByRole('button', { name: 'Confirmed 2' }).click();
  assert.equal(await page.getByRole('row').filter({ hasText: '-1' }).count(), 2);
  await states.getByRole('button', { name: 'Failed 0' }).click();
  await page.getByText('No matching payouts').waitFor();
  noFaults();
});

test('a payout: requested, approved, signed offline, uploaded, and confirmed with its transaction', async () => {
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  await giveWallet(app, 'BTC');
  const destination = await node.newAddress();
  await setDestination(ctx, { merchantId, coin: 'BTC', address: destination, ends: destination.slice(-6), actor: null });
  const { id, address, amount } = await openPayment(app, 'BTC', 25);
  await node.pay(address, amount);
  await node.mine(1);
  await reach(app, id, ({ status }) => status === 'completed');
  const recipient = await node.newAddress();

  // What a sweep would move is chosen by fee, age and amount.
  await open('live/sweeps');
  await page.getByRole('button', { name: 'Make a signing file' }).click();
  await dialog.getByText('Options', { exact: true }).click();
  const [percent, hours, least] = [/Highest share of fees/, 'Lowest age', 'Lowest amount'].map((label) => dialog.getByLabel(label));
  assert.deepEqual([await percent!.inputValue(), await hours!.inputValue(), await least!.inputValue()], ['10', '0', '0']);
  await audit('options of a sweep');
  const ask = async (): Promise<unknown> => {
    const [sent] = await Promise.all([
      page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/live/sweeps')),
      dialog.getByRole('button', { name: 'Make the file' }).click(),
    ]);
    const { max_fee_percent, min_age_hours, min_amount } = sent.postDataJSON();
    return { max_fee_percent, min_age_hours, min_amount };
  };
  await hours!.fill('48');
  await least!.fill('0.5');
  assert.deepEqual(await ask(), { max_fee_percent: 10, min_age_hours: 48, min_amount: '0.5' });
  await dialog.getByRole('alert').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  noFaults(/sweeps$/);

  await open('live/payouts');
  const request = async (reference: string, more: { address?: string } = {}) => {
    await page.getByRole('button', { name: 'Request a payout' }).click();
    await dialog.getByLabel('Amount in').selectOption('usd');
    await dialog.getByLabel('US dollars', { exact: true }).fill('10.00');
    await dialog.getByLabel('BTC address of the recipient').fill(more.address ?? recipient);
    await dialog.getByLabel('Reference').fill(reference);
    await dialog.getByRole('button', { name: 'Request payout' }).click();
  };
  await request('invoice-7', { address: 'bcrt1qwrong' });
  await dialog
    .getByText(/address of the recipient/i)
    .first()
    .waitFor();
  await dialog.locator('[aria-invalid=true]').waitFor();
  await audit('a payout to a wrong address');
  noFaults(/payouts/);
  await dialog.getByLabel('BTC address of the recipient').fill(recipient);
  await dialog.getByRole('button', { name: 'Request payout' }).click();
  await dialog.getByText('Needs approval').waitFor();
  await audit('a payout to be approved');
  await dialog.getByRole('button', { name: 'Approve' }).click();
  const question = page.getByRole('dialog', { name: 'Approve this payout?' }).or(page.getByRole('alertdialog'));
  await question.getByText(recipient).waitFor();
  await question.getByRole('button', { name: 'Approve' }).click();
  await dialog.getByText('To be sent').first().waitFor();
  await dialog.getByRole('button', { name: 'Close', exact: true }).click();
  await request('invoice-7');
  await dialog.getByText('already has the reference').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  noFaults(/payouts/);

  await page.getByRole('button', { name: 'Make a signing file' }).click();
  await dialog.getByText('up to 100 approved payouts').waitFor();
  await audit('making a signing file of payouts');
  await dialog.getByRole('button', { name: 'Make the file' }).click();
  await dialog.getByText('It pays 1 payout').waitFor();
  const [file] = await Promise.all([page.waitForEvent('download'), dialog.getByRole('link', { name: 'Download the file' }).click()]);
  const content = await readFile(await file.path(), 'utf8');
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  const signed = signFile({
    content,
    secret: account('BTC').privateExtendedKey,
    destination,
    recipients: recordsFor(content, [recipient]),
  });
  await page
    .getByLabel('Signed file')
    .setInputFiles({ name: 'signed.json', mimeType: 'application/json', buffer: Buffer.from(signed.text) });
  await dialog.getByRole('heading', { name: 'Transactions' }).waitFor();
  await dialog.getByRole('button', { name: 'Close', exact: true }).click();
  const row = page.getByRole('row').filter({ hasText: 'invoice-7' });
  const shows = async (word: string) => {
    await eventually(
      async () => (await app.live.get('/v1/payouts')).json.data[0].status,
      (status) => status === word.toLowerCase(),
    );
    await open('live/payouts');
    await row.getByText(word, { exact: true }).waitFor();
  };
  await shows('Sent');
  await audit('Payouts, one is sent');
  await node.mine(6);
  await shows('Confirmed');
  await row.getByRole('button').click();
  await dialog.getByText(/^[0-9a-f]{64}/).waitFor();
  await audit('a confirmed payout');
  assert.equal(await node.rpc('getreceivedbyaddress', recipient), 0.01);
  noFaults();
});
