/** Lightning set up on the Wallets screen in a real browser, with a test payment over two real nodes. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startDashboard } from '../kit/dashboard.ts';
import { PHOENIXD_PASSWORDS, startLightningFronts } from '../kit/lightning-fronts.ts';
import { startLightningPair } from '../kit/lightning-node.ts';

const pair = await startLightningPair();
const fronts = await startLightningFronts(pair);
after(() => fronts.stop());
const { page, open, audit, noFaults, forgiveFaults } = await startDashboard({
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
