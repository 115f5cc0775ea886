/**
 * What merchants, developers and customers once stumbled over, each as a journey in a real browser. Journeys that another file tells are
 * not told again: a start without an account prints its link (public-keys), stablecoins in the chart (dashboard-home), search over
 * everything (dashboard-search), an embedded page on a website that is not listed (embed), a customer who is offline (answers).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { HDKey } from '@scure/bip32';
import type { Download } from 'playwright-core';
import { setWallet } from '../../src/wallets/wallets.ts';
import { eventually } from '../kit/app.ts';
import { openTab } from '../kit/browser.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { startReceiver } from '../kit/receiver.ts';

const dashboard = await startDashboard({
  environment: {
    // Never asked: it makes Dash a coin that is read.
    DASH_PEERS: '127.0.0.1:9',
    PRICES: 'static:BTC=97000.00,DASH=30.00',
    FIAT_RATES: 'static:EUR=0.92',
  },
  signedUp: false,
  roles: ['api', 'worker'],
});
const { app, browser, page, go, open, signUp, audit, noFaults } = dashboard;
const textOf = async (download: Download) => readFileSync(await download.path(), 'utf8');
const main = () => page.locator('main');
const statusOf = async (id: string): Promise<string> => (await app.test.get(`/v1/payments/${id}`)).json.status;
const becomes = (id: string, wanted: string) =>
  eventually(
    () => statusOf(id),
    (status) => status === wanted,
  );
/** A test payment of 50 dollars to which something happened. */
async function payment(scenario: string, more: object = {}): Promise<string> {
  const made = await app.test.post('/v1/payments', { amount: '50.00', currency: 'USD', ...more });
  assert.equal(made.status, 201, made.text);
  const played = await app.test.post(`/v1/test/payments/${made.json.id}/simulate`, { scenario, currency: 'BTC' });
  assert.equal(played.status, 200, played.text);
  return made.json.id;
}

test('the sign-in says where the setup link is to a person without an account', async () => {
  const visitor = await openTab(browser, `${app.config.publicUrl}/dashboard/`);
  await visitor.page.getByText('open the setup link that Florin printed when it started').waitFor();
  await visitor.close();
});

test('a merchant in euros, from the sign-up to the file for the accountant: each price is in euros as it was agreed', async () => {
  await signUp();
  await go('test/business', 'Business');
  await page.getByLabel('Display currency').selectOption('EUR');
  await page.getByRole('button', { name: /^Save.*Currency and time zone/ }).click();
  await page.getByText('Saved').first().waitFor();
  await go('test/payments', 'Payments');
  await page.getByRole('button', { name: 'Create payment' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Amount', { exact: true }).last().fill('1250.00');
  await dialog.getByLabel('Currency').selectOption('EUR');
  await dialog.getByLabel('Invoice number').fill('RE-2026-1');
  await dialog.getByRole('button', { name: 'Create payment' }).click();
  await page.getByRole('dialog').getByText('€1,250.00').waitFor();
  await page.getByRole('link', { name: 'View payment' }).click();
  await page.getByRole('heading', { name: '€1,250.00' }).waitFor();
  const id = page.url().split('/').at(-1)!;
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
  await becomes(id, 'completed');
  await go('test/payments', 'Payments');
  const row = page.getByRole('row', { name: /RE-2026-1/ });
  await row.getByText('€1,250.00').waitFor();
  assert.match(await row.innerText(), /^€1,250\.00[\s\S]*\$1,358\.70/, 'dollars come second');
  await go('test/home', 'Home');
  await main().getByText('€1,250.00').first().waitFor();
  await go('test/reports', 'Reports');
  await page.getByLabel('Consultant number').fill('29098');
  await page.getByLabel('Client number').fill('55003');
  const [batch] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: /Download CSV.*DATEV/ }).click()]);
  const postings = (await textOf(batch)).trim().split('\r\n').slice(2);
  assert.ok(
    postings.some((line) => line.startsWith('1250,00;"S";"EUR"')),
    postings.join('\n'),
  );
  noFaults();
});

test('a payment that the network took back is red wherever it is, says what to do, and is no longer sold', async () => {
  const id = await payment('reversed', { invoice_id: 'RE-2026-2' });
  await eventually(
    async () => {
      await app.test.post('/v1/test/clock/advance', { payment_id: id, seconds: 3_600 });
      return (await app.test.get(`/v1/payments/${id}`)).json.exceptions as string[];
    },
    (exceptions) => exceptions.includes('reorged'),
  );
  await go('test/payments', 'Payments');
  const row = page.getByRole('row', { name: /RE-2026-2/ });
  await row.getByText('Reversed').waitFor();
  assert.equal(await row.getByText('Completed').count(), 0);
  await row.getByRole('link').first().click();
  await page.getByText(/The network took this payment back: .*is missing\. Don’t ship/).waitFor();
  await audit('a reversed payment');
  await go('test/reports', 'Reports');
  const href = await page.getByRole('link', { name: /Download CSV.*Daily totals/ }).getAttribute('href');
  // The clock of the payment may have passed midnight, and the end of the month.
  const until = new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 10);
  const file = await page.request.get(`${app.config.publicUrl}${href!.replace(/until=[\d-]+/, `until=${until}`)}`);
  const [names, ...lines] = (await file.text()).trim().split('\r\n');
  const column = names!.split(',').indexOf('reversed_usd');
  assert.ok(
    lines.some((line) => line.split(',')[column] === '50.00'),
    'subtracted and named',
  );
  noFaults();
});

test('money that came late is given back with one act, also if it was sent already, and too much money says so', async () => {
  const late = await payment('late');
  await becomes(late, 'expired');
  await eventually(
    async () => (await app.test.get(`/v1/payments/${late}`)).json.exception,
    (exception) => exception === 'late',
  );
  await open(`test/payments/${late}`);
  const acts = page.getByRole('button', { name: 'Refund', exact: true });
  await acts.click();
  await page.getByRole('dialog').getByText('I already sent it').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await acts.count(), 1);
  assert.equal(await page.getByRole('button', { name: 'Mark as refunded' }).count(), 0);
  const over = await payment('overpaid');
  await becomes(over, 'completed');
  await open(`test/payments/${over}`);
  await page.getByText(/^Paid .* BTC more than due\. Refund it, or mark the payment as handled\.$/).waitFor();
  await audit('an overpaid payment');
  noFaults();
});

test('an event of a refund or a payout leads to that, not to the page of a payment', async () => {
  const made = await app.test.post('/v1/payouts', {
    currency: 'BTC',
    amount_usd: '5.00',
    address: 'test_btc_payer',
    payout_reference: 'S-1',
  });
  assert.equal(made.status, 201, made.text);
  await go('test/events', 'Events');
  await page.getByRole('link', { name: made.json.id }).click();
  await page.getByRole('dialog').getByText('S-1').waitFor();
  noFaults();
});

test('looking at the page of a test payment in a stablecoin pays nothing, its drawer does, and no money is called lost that can be found', async () => {
  await go('test/wallets', 'Wallets');
  await page.getByRole('checkbox', { name: 'USDT on Ethereum' }).click();
  await eventually(
    async () => (await app.test.post('/v1/payments', { amount: '20.00', currency: 'USD', crypto: 'USDT', network: 'ethereum' })).status,
    (status) => status === 201,
  );
  const { id, payment_url } = (
    await app.test.post('/v1/payments', { amount: '20.00', currency: 'USD', crypto: 'USDT', network: 'ethereum' })
  ).json;
  for (const method of ['HEAD', 'GET']) await fetch(payment_url, { method });
  assert.equal(await statusOf(id), 'pending');
  const customer = await openTab(browser, payment_url);
  await customer.page.locator('main[data-state="awaiting"]').waitFor();
  assert.doesNotMatch((await customer.page.locator('main').textContent())!, /will be lost/);
  assert.equal(await statusOf(id), 'pending');
  await customer.page.getByRole('combobox', { name: 'Scenario' }).selectOption({ label: 'Full payment' });
  await customer.page.getByRole('button', { name: 'Simulate payment' }).last().click();
  await becomes(id, 'completed');
  await customer.close();
});

test('Wallets names what is missing: a provider with its beacon server, a network that cannot be reached, and no default to copy', async () => {
  const accountKey = (path: string) => HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive(path).publicExtendedKey;
  const wallet = { merchantId: app.merchant.merchantId };
  await setWallet(app.app.ctx, { ...wallet, coin: 'DASH', accountKey: accountKey("m/44'/5'/0'"), script: 'p2pkh' });
  await setWallet(app.app.ctx, { ...wallet, coin: 'ETH', accountKey: accountKey("m/44'/60'/0'"), script: 'eoa' });
  await app.app.ctx.db.sql`
    insert into peer_status (chain, network, phase, connected, relaying, height, hash, parent, block_time, syncing, percent, bytes_in,
      bytes_out, started_at, trouble)
    values ('DASH', 'mainnet', 'connecting', 0, 0, 0, '', '', now(), true, 0, 0, 0, now() - interval '3 minutes',
      'of 8 addresses tried, none accepts connections')`;
  await go('live/wallets', 'Wallets');
  await main().getByText('Florin can’t reach the Dash network: of 8 addresses tried, none accepts connections.').waitFor();
  await main().getByText('ETH_BEACON_URL=https://BEACON_SERVER').waitFor();
  const shown = await main().innerText();
  assert.match(shown, /There is no current Ethereum price/);
  assert.doesNotMatch(shown, /PRICES=coinbase|Syncing/);
  await audit('wallets that cannot be paid');
  noFaults();
});

test('a new link that nobody could pay says so, with the guide', async () => {
  await go('live/links', 'Links & buttons');
  await page.getByRole('button', { name: 'New link' }).click();
  await page.getByLabel('Name', { exact: true }).fill('Mug');
  await page.getByLabel('Amount', { exact: true }).fill('20.00');
  await page.getByRole('button', { name: 'Create link' }).click();
  const dialog = page.getByRole('dialog', { name: 'Mug' });
  await dialog.getByText(/none of your currencies is ready/).waitFor();
  assert.match((await dialog.getByRole('link', { name: 'Read the guide' }).getAttribute('href'))!, /going-live#no-payable-currency$/);
  await audit('a link that nobody can pay');
  noFaults();
});

test('a shop on WooCommerce learns of the plugin of Florin before that of BTCPay', async () => {
  await go('test/shops', 'Shops');
  await page.getByText('WooCommerce version').waitFor();
  await page.getByRole('button', { name: 'Connect a shop' }).click();
  await page
    .getByRole('dialog')
    .getByText(/Florin’s own plugin, which you download under Shops, needs no key from here/)
    .waitFor();
  noFaults();
});

test('a payment that is not there is looked for in this account and mode', async () => {
  await open('test/payments/pay_000000000000000000000000');
  await page.getByText(/created in this account and mode/).waitFor();
  // Each update asks for the payment again until the screen is left.
  await go('test/home', 'Home');
  noFaults(/^404 /);
});

test('an endpoint that fails is at the bell within the hour, which leads to the cause, and so is its recovery', async () => {
  const hook = await startReceiver();
  hook.answer(500);
  try {
    const made = await app.test.post('/v1/webhook_endpoints', { url: hook.url, events: ['payment.created'] });
    assert.equal(made.status, 201, made.text);
    await go('test/home', 'Home');
    const { sql } = app.app.ctx.db;
    const attempt = async (minutes: number) => {
      await app.test.post('/v1/payments', { amount: '5.00', currency: 'USD' });
      await sql`update endpoints set failing_since = failing_since - make_interval(mins => ${minutes}), rests_until = null`;
      await app.test.post('/v1/test/clock/advance', { seconds: 3_600 });
    };
    await attempt(0);
    await eventually(
      () => sql`select 1 from endpoints where failing_since is not null`,
      ([row]) => row !== undefined,
    );
    // Half an hour later it is tried again.
    await attempt(30);
    const said = page.getByText(/^Webhooks to 127\.0\.0\.1:\d+ are not being delivered: the server failed/);
    await page.getByRole('button', { name: /^Notifications, \d+ new$/ }).click();
    await said.waitFor();
    await said.click();
    await page.getByRole('heading', { name: 'Webhooks', exact: true }).waitFor();
    await page.getByRole('table', { name: 'Endpoints' }).getByRole('link', { name: hook.url }).click();
    await page.getByText('Deliveries are failing').waitFor();
    await page.getByText('Look in the log of your application').first().waitFor();
    await audit('an endpoint that fails');
    hook.answer(200);
    await attempt(0);
    await page.getByText('Deliveries are failing').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /^Notifications, \d+ new$/ }).click();
    await page.getByText(/^Webhooks to 127\.0\.0\.1:\d+ are delivered again/).waitFor();
    noFaults();
  } finally {
    await hook.stop();
  }
});

test('the documentation calls this install, and what a word is about comes before the errors with it', async () => {
  const reader = await openTab(browser, `${app.config.publicUrl}/docs/guides/quickstart`, { width: 1280 });
  const text = await reader.page.locator('main').textContent();
  assert.ok(text!.includes(`curl ${app.config.publicUrl}/v1/payments`) && !text!.includes('localhost:3000'));
  await reader.page.getByRole('searchbox').fill('refund');
  await reader.page.getByRole('searchbox').press('Enter');
  await reader.page.waitForURL(/\/docs\/search\?q=refund/);
  assert.match((await reader.page.locator('main a').first().getAttribute('href'))!, /guides\/refunds/);
  await reader.close();
});
