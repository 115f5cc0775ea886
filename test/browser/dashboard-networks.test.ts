/**
 * Payments in a coin that is on several networks: the dashboard names its asset and its network, and never its code. Rows of tests only.
 * Turning on stablecoins, sweeps, and refunds.
 */
import '../kit/more-rows.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator } from 'playwright-core';
import { signFile } from '../../signer/sign.ts';
import { CHAIN, COIN, coinsOf } from '../../src/core/coin.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { getMerchant } from '../../src/merchants/merchants.ts';
import { eventually } from '../kit/app.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';
import { ON_SECOND, SECOND, TOKEN } from '../kit/more-rows.ts';
import { giveWallet } from '../kit/shop.ts';
import { PHRASE, sweepFile } from '../kit/signing.ts';

const dashboard = await startDashboard({
  // The Bitcoin node is never reached: it only makes the coin a configured one.
  environment: {
    BTC_NODE_URL: 'http://user:pass@127.0.0.1:9',
    PRICES: `static:BTC=97000.00,ETH=3500.00,LTC=100.00,DASH=30.00,DOGE=0.20,${TOKEN}=1.00`,
  },
  roles: ['api', 'worker'],
});
const { app, page, open, audit, noFaults } = dashboard;

/** Whether one is shown above, or to the left of, the other. */
const isBefore = async (one: Locator, other: Locator): Promise<boolean> => {
  const [a, b] = [(await one.boundingBox())!, (await other.boundingBox())!];
  return a.y < b.y || a.x < b.x;
};

test('the list, a payment with its rate, and its transfers name the network beside the amount', async () => {
  const body = { amount: 25.5, currency_fiat: 'USD', crypto: TOKEN, payment_address: 'test_usdx_second_success' };
  const { json } = await app.test.post('/v1/transactions/create', body);
  // The visit starts the scenario.
  await fetch(json.payment_url);
  await eventually(
    async () => (await app.test.get(`/api/payment/${json.id}`)).json.status,
    (status) => status === 'completed',
  );
  const isNamed = async (place: string) => {
    const text = await page.locator('main').innerText();
    assert.ok(!text.includes(ON_SECOND), `${place} shows the code: ${text}`);
  };
  await open('test/payments');
  const row = page.getByRole('row').filter({ hasText: '25.5 USDX' });
  await row.getByText(SECOND, { exact: true }).waitFor();
  await isNamed('the list');

  await open(`test/payments/${json.id}`);
  await page.getByText('per USDX').waitFor();
  const transfers = page.locator('section', { has: page.getByRole('heading', { name: 'Transfers' }) });
  await transfers.getByText(SECOND, { exact: true }).waitFor();
  await isNamed('the payment');
  assert.ok((await page.locator('main').innerText()).includes('25.5 USDX'));
  await audit('a payment on one of several networks');
  noFaults();
});

test('money on the wrong network needs attention at once, is named with its network, and is accepted with one decision', async () => {
  const body = { amount: 25.5, currency_fiat: 'USD', crypto: TOKEN, payment_address: 'test_usdx_ethereum_wrong_network' };
  const { json } = await app.test.post('/v1/transactions/create', body);
  await fetch(json.payment_url);
  await eventually(
    async () => (await app.test.get(`/api/payment/${json.id}`)).json.exceptions.join(),
    (exceptions) => exceptions === 'wrong_network',
  );
  await open('test/attention?exception=wrong_network');
  const row = page.getByRole('row').filter({ hasText: '$25.50' });
  await row.getByText('Wrong network').waitFor();
  await row.getByText('On another network, on hold').waitFor();
  await row.getByText(SECOND, { exact: true }).waitFor();
  await row.getByText('Pending').waitFor();
  await audit('Needs attention with money on the wrong network');
  await row.getByRole('link', { name: '25.50' }).click();
  await page.getByRole('button', { name: 'Accept' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Accept 25.5 USDX on Second').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Refund', exact: true }).count(), 0, 'not while it can still be paid');
  await dialog.getByRole('button', { name: 'Accept' }).click();
  await eventually(
    async () => (await app.test.get(`/api/payment/${json.id}`)).json,
    ({ status, network }) => status === 'completed' && network === SECOND,
  );
  noFaults();
});

test('a payment is created in a coin on several networks: the customer chooses the network, or it is fixed', async () => {
  const create = async (choose: () => Promise<unknown>) => {
    await open('test/payments');
    await page.getByRole('button', { name: 'Create payment' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Amount', exact: true }).fill('25.50');
    await dialog.getByText('More options').click();
    await choose();
    await audit('creating a payment in a stablecoin');
    await dialog.getByRole('button', { name: 'Create payment' }).click();
    const href = await page.getByRole('link', { name: 'Open payment page' }).getAttribute('href');
    const id = new URL(href!).searchParams.get('id');
    return { ...(await app.test.get(`/api/payment/${id}`)).json, page: await (await fetch(`${app.url}/pay?id=${id}`)).text() };
  };
  const labeled = (label: string) => page.getByRole('dialog').getByLabel(label, { exact: true });
  const [coin, network] = [labeled('Coin'), labeled('Network')];
  const chosenLater = await create(async () => {
    await coin.selectOption('LTC');
    assert.equal(await network.count(), 0, 'a coin with its own network');
    await coin.selectOption('BTC');
    assert.deepEqual(await network.locator('option').allInnerTexts(), ['Bitcoin', 'Lightning']);
    await coin.selectOption('USDC');
    assert.deepEqual(await network.locator('option').allInnerTexts(), [
      'Customer chooses',
      ...coinsOf('USDC').map((one) => CHAIN[COIN[one].chain].name),
    ]);
  });
  assert.deepEqual([chosenLater.currency, chosenLater.network, chosenLater.payment_address], ['USDC', null, null]);
  assert.ok(chosenLater.page.includes('name="network-USDC"') && !chosenLater.page.includes('value="BTC"'));
  const fixed = await create(async () => {
    await coin.selectOption('USDC');
    await network.selectOption({ label: 'Base' });
    // The network belongs to the coin.
    await coin.selectOption('USDT');
    assert.equal(await network.inputValue(), '');
    await coin.selectOption('USDC');
    await network.selectOption({ label: 'Base' });
  });
  assert.deepEqual([fixed.currency, fixed.network], ['USDC', 'base']);
  const single = await create(() => coin.selectOption({ label: 'DAI on Ethereum' }));
  assert.deepEqual([single.currency, single.network], ['DAI', 'ethereum']);
  noFaults();
});

test('a stablecoin is turned on and off under Wallets, without a key of its own', async () => {
  await giveWallet(app, 'ETH');
  await open('live/wallets');
  const usdc = page.getByRole('checkbox', { name: 'USDC on Ethereum' });
  // No network of a stablecoin has a source, so none can be used yet.
  const more = page.getByText(/^Not available yet \(\d+\)$/);
  await more.waitFor();
  assert.equal(await usdc.isVisible(), false);
  assert.ok(await isBefore(page.getByRole('link', { name: 'Set up Bitcoin' }), page.getByRole('button', { name: 'Set up Lightning' })));
  await more.click();
  assert.equal(await usdc.isChecked(), false);
  await usdc.click();
  const isOn = async () => (await getMerchant(app.app.ctx, { merchantId: app.merchant.merchantId })).settings.tokens;
  await eventually(isOn, (tokens) => tokens.join() === 'USDC@ethereum');
  // There is no Ethereum node here, and the page says so.
  const stablecoins = page.locator('section', { has: page.getByRole('heading', { name: 'Stablecoins' }) });
  await stablecoins.getByText('No Ethereum source is connected, so payments cannot be detected.').waitFor();
  // Facts that help to choose.
  await stablecoins.getByText('Authorized in the EU under MiCA.').first().waitFor();
  await stablecoins.getByText('No Base source is connected yet').first().waitFor();
  await audit('Wallets with a stablecoin');
  await page.reload();
  await usdc.waitFor();
  assert.equal(await usdc.isChecked(), true);
  await usdc.click();
  await eventually(isOn, (tokens) => tokens.length === 0);
  await usdc.waitFor({ state: 'hidden' });
  noFaults();
});

test('a sweep: its destination waits, a file with a seed phrase is refused, and the signed file is taken', async () => {
  const { file, destination } = sweepFile('BTC', 'p2wpkh', 1);
  const [content, ends] = [signingFileText(file), destination.slice(-6)];
  await giveWallet(app, 'BTC');
  const { sql } = app.app.ctx.db;
  await open('live/sweeps');
  await page.getByText('Nothing to move').waitFor();
  await page.getByText('No sweeps yet').waitFor();
  await page.getByText(/^SHA-256 [0-9a-f]{64}/).waitFor();
  await audit('Sweeps, empty');
  await page.getByRole('button', { name: 'Set destination for Bitcoin' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Address').fill(destination);
  await dialog.getByLabel('Its last six characters').fill('zzzzzz');
  await dialog.getByRole('button', { name: 'Set destination' }).click();
  await dialog.getByText('The address ends differently.').waitFor();
  await audit('setting a destination');
  await dialog.getByLabel('Its last six characters').fill(ends);
  await dialog.getByRole('button', { name: 'Set destination' }).click();
  await page.getByText('A new destination is pending.').waitFor();

  await sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by)
    select ${file.id}, merchant_id, id, 'BTC', 'made', ${sql.json(JSON.parse(content))}, ${destination},
      ${file.totalUnits.toString()}, ${file.feeUnits.toString()}, 1, 'Olga Owner' from wallets where family = 'BTC'`;
  await open('live/sweeps');
  await page.getByText('Waiting for signature').waitFor();
  await audit('Sweeps with a destination that waits');
  const upload = (text: string) =>
    page.getByLabel('Signed file').setInputFiles({ name: 'signed.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  await upload(JSON.stringify({ phrase: PHRASE }));
  await page.getByRole('alert').getByText('private key').waitFor();
  noFaults(/signed/);
  await upload(signFile({ content, secret: PHRASE, destination }).text);
  await page.getByRole('dialog').getByText('Signed', { exact: true }).waitFor();
  await page.getByRole('dialog').getByText('Not sent yet').waitFor();
  await sql`update signed_transactions set sent_at = clock_timestamp()`;
  await open('live/sweeps');
  await page.getByRole('button', { name: '7.97555398 BTC' }).click();
  await page.getByRole('dialog').getByRole('link', { name: 'Explorer' }).waitFor();
  await audit('a signed sweep');
  noFaults();
});

longTest('a refund: requested with a link, entered by the customer, approved, and marked as sent', async () => {
  const body = { amount: 25.5, currency_fiat: 'USD', crypto: TOKEN, payment_address: 'test_usdx_second_success' };
  const { json } = await app.test.post('/v1/transactions/create', body);
  await fetch(json.payment_url);
  await eventually(
    async () => (await app.test.get(`/api/payment/${json.id}`)).json.status,
    (status) => status === 'completed',
  );
  await open('test/refunds');
  await page.getByText('No refunds yet').waitFor();
  await audit('Refunds, empty');
  await open(`test/payments/${json.id}`);
  const card = page.locator('section', { has: page.getByRole('heading', { name: 'Refunds', exact: true }) });
  await card.getByText('25.5 USDX').waitFor();
  await page.getByRole('button', { name: 'Refund', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Amount').selectOption('coin');
  await dialog.getByLabel('USDX', { exact: true }).fill('30');
  await dialog.getByLabel('Reason (optional)').fill('Broken mug');
  await dialog.getByRole('button', { name: 'Request refund' }).click();
  await dialog.getByText('At most 25.50').waitFor();
  await audit('requesting a refund');
  await dialog.getByLabel('USDX', { exact: true }).fill('10');
  await dialog.getByRole('button', { name: 'Request refund' }).click();
  await dialog.getByText('Waiting for the customer').waitFor();
  await dialog.getByText('Link for the customer').waitFor();
  await audit('a refund that waits for the customer');
  const { sql } = app.app.ctx.db;
  await sql`update outgoing_payments set claim_until = claim_until - interval '1 year' where payment_id = ${json.id}`;
  await open('test/refunds');
  await page.getByRole('row').filter({ hasText: '10 USDX' }).getByText('Link expired').waitFor();
  await page.getByRole('row').filter({ hasText: '10 USDX' }).getByRole('button', { name: '10 USDX' }).click();
  await dialog.getByText('Create a new one and send it to the customer.').waitFor();
  await dialog.getByRole('button', { name: 'New link' }).click();
  await page.getByRole('button', { name: 'Create link' }).click();
  await dialog.getByText('Send it only to the customer').waitFor();
  assert.equal((await sql`select 1 from outgoing_payments where payment_id = ${json.id} and claim_number = 1`).length, 1);
  await sql`update outgoing_payments set address = 'test_usdx_second_payer' where payment_id = ${json.id}`;
  await open('test/refunds');
  await page.getByRole('row').filter({ hasText: 'Needs approval' }).getByRole('button', { name: '10 USDX' }).click();
  await dialog.getByRole('button', { name: 'Approve' }).click();
  const question = page.getByRole('dialog', { name: 'Approve this refund?' }).or(page.getByRole('alertdialog'));
  await question.getByText('test_usdx_second_payer').waitFor();
  await question.getByRole('button', { name: 'Approve' }).click();
  await dialog.getByText('Confirmed').first().waitFor();
  // In live mode, the money is sent by the merchant.
  const more = (await app.test.post('/v1/refunds', { payment_id: json.id, amount: '5', address: 'test_usdx_second_payer' })).json;
  await sql`update outgoing_payments set state = 'approved', approved_at = created_at where id = ${more.id}`;
  await open('test/refunds?state=approved');
  await page.getByRole('button', { name: '5 USDX' }).click();
  await dialog.getByRole('button', { name: 'Mark as sent' }).click();
  const sending = page.getByRole('dialog', { name: 'Mark this refund as sent' });
  await sending.getByLabel('Transaction ID').fill('ab');
  await sending.getByRole('button', { name: 'Mark as sent' }).click();
  await sending.getByRole('alert').getByText('transaction ID').waitFor();
  await audit('marking a refund as sent');
  await sending.getByLabel('Transaction ID').fill(`0x${'ab'.repeat(32)}`);
  await sending.getByRole('button', { name: 'Mark as sent' }).click();
  await dialog.getByText('Sent', { exact: true }).first().waitFor();
  await audit('a refund that was sent');
  await open(`test/payments/${json.id}`);
  await page.getByText('Refunded', { exact: true }).waitFor();
  await card.getByText('10.5 USDX').waitFor();
  noFaults(/refunds/, /sent/);
});
