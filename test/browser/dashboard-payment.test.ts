/** The page of one payment while it is paid: activity on the network and at the merchant's endpoints appears automatically. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { addressOfScript } from '../../src/addresses/address.ts';
import { eventually } from '../kit/app.ts';
import { startCoreNode } from '../kit/core-node.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { startReceiver } from '../kit/receiver.ts';
import { giveWallet, openPayment, units } from '../kit/shop.ts';
import { createTestChain } from '../kit/test-chain.ts';

const chain = createTestChain({ coin: 'LTC' });
const node = await startCoreNode(chain);
const hook = await startReceiver();
const shy = await startReceiver();
after(async () => {
  await node.close();
  await hook.stop();
  await shy.stop();
});
const dashboard = await startDashboard({ environment: { LTC_NODE_URL: node.url } });
const { app, page, open, audit, noFaults } = dashboard;
await giveWallet(app, 'LTC');
const elsewhere = addressOfScript(`76a914${'22'.repeat(20)}88ac`, { coin: 'LTC', network: 'mainnet' })!;
const hostOf = (url: string) => new URL(url).host;
const line = (words: string, more = '') =>
  page
    .getByRole('listitem')
    .filter({ hasText: words })
    .filter({ hasText: more })
    .filter({ has: page.locator('time') });
/** Set by the test on the document: a reload removes it. */
const isSameDocument = () => page.evaluate('window.opened === true');

test('transfers, their confirmations and deliveries appear without a reload', async () => {
  for (const { url } of [hook, shy]) assert.equal((await app.live.post('/v1/webhook_endpoints', { url })).status, 201);
  shy.answer(503);
  // A merchant that was read before it had a wallet is cached for a moment.
  const { id, address, amount } = (await eventually(
    () => openPayment(app, 'LTC', 40).catch(() => null),
    (made) => made !== null,
  ))!;
  await open(`live/payments/${id}`);
  await page.getByText('Created with a secret key').waitFor();
  await page.getByRole('link', { name: 'Secret key', exact: true }).waitFor();
  await page.evaluate('window.opened = true');
  assert.equal(await page.getByRole('heading', { name: 'Transfers' }).count(), 0, 'nothing arrived, nothing is said');
  await line('payment.created delivered', hostOf(hook.url)).getByText('1 attempt').waitFor();
  await line('payment.created retrying', hostOf(shy.url)).getByText('503 response').waitFor();
  await audit('payment, nothing arrived');

  const half = units(amount) / 2n;
  const first = chain.pay([[address, half]]);
  const card = page.locator('section', { has: page.getByRole('heading', { name: 'Transfers' }) });
  await card.getByText('Confirming').waitFor();
  await card.getByText('Not in a block yet').waitFor();
  await card.getByText(/^0 of \d+ confirmations$/).waitFor();
  assert.match(
    (await card.getByRole('link', { name: 'Explorer' }).getAttribute('href'))!,
    new RegExp(`^https://litecoinspace.org/tx/${first}$`),
  );
  const [block] = chain.mine();
  await card.getByText(`Block ${block!.height}`).waitFor();
  await card.getByText(/^1 of \d+ confirmations$/).waitFor();
  // The payment itself does not change with these: no event, no delivery.
  for (const n of [2, 3]) {
    chain.mine();
    await card.getByText(new RegExp(`^${n} of \\d+ confirmations$`)).waitFor();
  }
  const second = chain.pay([[address, units(amount) - half]]);
  await card.getByText(second).waitFor();
  await line('payment.processing delivered', hostOf(hook.url)).waitFor();
  await audit('payment, two transfers');

  // The payer replaces the second one: a block spends its coins elsewhere.
  const other = chain.pay([[elsewhere, units(amount) - half]], { replaces: second });
  chain.mine();
  await card.getByText('Replaced', { exact: true }).waitFor();
  await card.locator('p', { hasText: 'Replaced by' }).getByText(other).waitFor();
  await audit('payment, a transfer replaced');
  // A deleted endpoint gives up the current delivery and those waiting behind it.
  shy.answer(410);
  // The next attempt is five minutes away.
  await app.app.ctx.db.sql`update deliveries set due_at = now() where state = 'pending' and attempts > 0`;
  await line('payment.created failed', hostOf(shy.url)).getByText('410 response').waitFor();
  await line('payment.processing failed', hostOf(shy.url)).getByText('not sent: the endpoint was disabled').waitFor();
  await audit('payment, failed deliveries');
  assert.equal(await isSameDocument(), true);
  noFaults();
  await line('payment.created delivered').getByRole('link').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('200 response').waitFor();
  assert.match(page.url(), new RegExp(`payment=${id}&delivery=del_`));
  noFaults();
});
