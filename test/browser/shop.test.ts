/** The example shop, started by its one command beside a running service, and used in a real browser with and without scripts. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { repeatPayment } from '../../src/payments/payments.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { auditAccessibility, openTab, startBrowser } from '../kit/browser.ts';
import { copySource, terminalEnvironment } from '../kit/copy.ts';
import { codeBlocks } from '../kit/documents.ts';
import { longTest } from '../kit/long.ts';
import { freePort } from '../kit/nodes.ts';

let app: TestApp;
let shop: ChildProcess;
let url: string;
let browser: Browser;
let folder: string;
before(async () => {
  const port = await freePort();
  // The page's links use the public name, so it must be the real one.
  const own = await freePort();
  app = await startTestApp({ PORT: String(own), PUBLIC_URL: `http://localhost:${own}` });
  folder = mkdtempSync(join(tmpdir(), 'florin-shop-'));
  copySource(folder, { linked: true });
  url = `http://localhost:${port}`;
  const [command] = codeBlocks('examples/shop/README.md');
  let output = '';
  shop = spawn('bash', ['-c', command!.text.replace('sk_test_...', app.merchant.keys.testSecret)], {
    cwd: folder,
    env: { ...terminalEnvironment(), SHOP_PORT: String(port), FLORIN_URL: `http://localhost:${own}` },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [shop.stdout!, shop.stderr!])
    stream.on('data', (part: Buffer) => {
      output += part;
    });
  await eventually(
    async () => {
      if (shop.exitCode !== null) throw new Error(output);
      return output;
    },
    (text) => text.includes('The shop is open'),
    90_000,
  );
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  if (shop?.exitCode === null) {
    const ended = once(shop, 'exit');
    process.kill(-shop.pid!, 'SIGTERM');
    await ended;
  }
  await app?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const payments = async (): Promise<any[]> => (await app.test.get('/api/payments?limit=1')).json.data;
/** Buys on the page. Returns the payment that was created. */
const buy = async (page: Page, name: string): Promise<any> => {
  await page.getByRole('button', { name }).click();
  await page.waitForURL(/\/order\//);
  return (await payments())[0];
};

test('an order is paid on the payment page and shipped because of the webhook, without a manual reload', async () => {
  const { page, faults, close } = await openTab(browser, url);
  assert.deepEqual(await auditAccessibility(page), []);
  const payment = await buy(page, 'Buy mug');
  assert.equal(payment.amount_usd, '12.50');
  assert.equal(await page.getByRole('status').textContent(), 'Waiting for the payment.');
  assert.deepEqual(await auditAccessibility(page), []);
  const order = page.url();
  await app.test.post(`/v1/test/payments/${payment.id}/simulate`, { scenario: 'success' });
  await page.getByText('Paid. It is on its way.').waitFor();
  assert.equal(page.url(), order);
  assert.deepEqual(faults, []);
  await close();
});

test('pressing the button twice creates one order and one payment', async () => {
  const order = /name="product" value="mug"><input type="hidden" name="order" value="([^"]+)"/.exec(await (await fetch(url)).text())![1]!;
  const before = (await app.test.get('/api/payments?limit=1')).json.total_count;
  const press = () =>
    fetch(`${url}/buy`, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ product: 'mug', order }) }).then((reply) => [
      reply.status,
      reply.headers.get('location'),
    ]);
  assert.deepEqual(await Promise.all([press(), press()]), Array(2).fill([303, `/order/${order}`]));
  assert.deepEqual(await press(), [303, `/order/${order}`]);
  assert.equal((await app.test.get('/api/payments?limit=1')).json.total_count, before + 1);
  const [{ id }] = await payments();
  assert.equal((await app.test.get(`/api/payment/${id}`)).json.metadata.order, order);
});

longTest('the customer goes to the payment page and returns to the order, without scripts too', async () => {
  for (const scripts of [true, false]) {
    const { page, close } = await openTab(browser, url, { scripts });
    await buy(page, 'Buy shirt');
    const order = page.url();
    await page.getByRole('link', { name: 'Pay 25.00 USD' }).click();
    await page.waitForURL(/\/pay\?id=pay_/);
    await page.close();
    const back = await page.context().newPage();
    const { id } = (await payments())[0];
    await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'LTC' });
    await back.goto(order);
    await back.getByText('Paid. It is on its way.').waitFor();
    await close();
  }
});

test('unpaid orders are released, and short or late payments are reviewed; returning to the shop proves nothing', async () => {
  for (const [scenario, text] of [
    ['expired', 'Not paid in time. Nothing was sent.'],
    ['failed', 'Something about the payment needs a look.'],
    ['late', 'Something about the payment needs a look.'],
    // It completed first: what was shipped then is not shipped again, and a person decides.
    ['reversed', 'Something about the payment needs a look.'],
  ] as const) {
    const { page, close } = await openTab(browser, url);
    const payment = await buy(page, 'Buy mug');
    await page.goto(`${page.url()}?transaction_id=${payment.id}&status=completed`);
    assert.equal(await page.getByRole('status').textContent(), 'Waiting for the payment.');
    await app.test.post(`/v1/test/payments/${payment.id}/simulate`, { scenario });
    // The end of the window releases the goods; late money is reported afterwards.
    await eventually(
      async () => {
        try {
          if (scenario === 'reversed') await app.test.post('/v1/test/clock/advance', { payment_id: payment.id, seconds: 3_600 });
          await page.reload();
          return (await page.getByRole('status').textContent()) ?? '';
        } catch (error) {
          // The page reloads automatically when the order has changed.
          return String(error);
        }
      },
      (shown) => shown.startsWith(text),
    );
    await close();
  }
});

test('a payment that the customer starts again on its page pays the order', async () => {
  const { merchantId } = app.merchant;
  await changeSettings(app.app.ctx, { merchantId, settings: { payerCancel: true } });
  const { page, close } = await openTab(browser, url);
  const first = await buy(page, 'Buy mug');
  await app.test.post(`/v1/test/payments/${first.id}/simulate`, { scenario: 'expired' });
  await page.getByText('Not paid in time.').waitFor();
  const again = await repeatPayment(app.app.ctx, { paymentId: first.id });
  await app.test.post(`/v1/test/payments/${again}/simulate`, { scenario: 'success' });
  await eventually(
    () => fetch(`${page.url()}.json`).then((reply) => reply.json() as Promise<{ state: string }>),
    ({ state }) => state === 'shipped',
  );
  await close();
});

test('a forged event changes nothing', async () => {
  const { page, close } = await openTab(browser, url);
  const payment = await buy(page, 'Buy mug');
  const body = JSON.stringify({ id: 'evt_1', type: 'payment.completed', data: { id: payment.id } });
  const reply = await fetch(`${url}/hook`, { method: 'POST', body, headers: { 'x-service-signature': '0'.repeat(64) } });
  assert.equal(reply.status, 400);
  await page.reload();
  assert.equal(await page.getByRole('status').textContent(), 'Waiting for the payment.');
  await close();
});

longTest('on a wide screen the payment page opens over a shop whose origin is listed, and otherwise replaces it', async () => {
  const pay = async (): Promise<{ page: Page; close: () => Promise<void>; id: string; faults: string[] }> => {
    const { page, close, faults } = await openTab(browser, url, { width: 1200 });
    const { id } = await buy(page, 'Buy mug');
    await page.getByRole('link', { name: 'Pay 12.50 USD' }).click();
    return { page, close, id, faults };
  };
  // As the README starts it: the shop's origin is not listed yet, and no refused frame is opened.
  const replaced = await pay();
  await replaced.page.waitForURL(/\/pay\?id=pay_/);
  assert.deepEqual(replaced.faults, []);
  await replaced.close();

  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { origins: [url] } });
  const over = await pay();
  const order = over.page.url();
  await over.page.frameLocator('iframe').getByText('12.50').first().waitFor();
  await app.test.post(`/v1/test/payments/${over.id}/simulate`, { scenario: 'success' });
  // The shop behind it shows the change of its order.
  await over.page.getByText('Paid. It is on its way.').waitFor();
  assert.equal(over.page.url(), order);
  await over.close();
});
