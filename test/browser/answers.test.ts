/** Answers on a slow network: one overtakes another, one arrives while the customer types, none arrives for a while. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Route } from 'playwright-core';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { openTab, startBrowser } from '../kit/browser.ts';

let app: TestApp;
let browser: Browser;
before(async () => {
  [app, browser] = await Promise.all([startTestApp({ LOG_LEVEL: 'silent' }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await app?.stop();
});

const create = async (): Promise<string> =>
  (await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' })).json.transaction_id;
/** A test payment that was overpaid: its page offers to leave a refund address for the excess. */
const overpaid = async (): Promise<string> => {
  const id = await create();
  assert.equal((await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'overpaid', currency: 'LTC' })).status, 200);
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === 'completed',
  );
  return id;
};
const pageOf = (id: string) => `${app.url}/pay?id=${id}`;
/** The payment changed in a way that its page does not show. */
const touch = async (id: string): Promise<string> => {
  const [row] = await app.app.ctx.db.sql<
    { version: bigint }[]
  >`update payments set version = version + 1 where id = ${id} returning version`;
  return String(row!.version);
};
const isFragment = (route: Route) => route.request().headers()['x-fragment'] === '1';

test('an answer that a newer one overtook changes nothing', async () => {
  const id = await create();
  const { page, close } = await openTab(browser, pageOf(id));
  const held = Promise.withResolvers<void>();
  const late = Promise.withResolvers<void>();
  let asked = 0;
  await page.route('**/pay?*', async (route) => {
    if (!isFragment(route) || ++asked > 1) return route.continue();
    const response = await route.fetch();
    held.resolve();
    await late.promise;
    await route.fulfill({ response });
  });
  await touch(id);
  await held.promise;
  assert.equal((await app.test.post(`/v1/payments/${id}/cancel`)).status, 200);
  await page.locator('main[data-state="cancelled"]').waitFor();
  const came = page.waitForResponse((response) => response.request().headers()['x-fragment'] === '1');
  late.resolve();
  await (await came).finished();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
  assert.equal(await page.locator('main').getAttribute('data-state'), 'cancelled');
  await close();
});

test('text that the customer is typing stays when updates arrive', async () => {
  const id = await overpaid();
  const { page, close } = await openTab(browser, 'about:blank');
  // Updates reach pages that wait for something. An ended payment works just as well for typing.
  await page.route(pageOf(id), async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace('<body', isFragment(route) ? '<body' : '<body data-live');
    await route.fulfill({ response, body });
  });
  await page.goto(pageOf(id));
  await page.locator('main details summary').first().click();
  await page.locator('#refund-address').fill('ltc1qhalf');
  const version = await touch(id);
  await page.locator(`main[data-version="${version}"]`).waitFor();
  assert.equal(await page.locator('#refund-address').inputValue(), 'ltc1qhalf');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'refund-address');
  await close();
});

test('while the service cannot be reached the page says so, even with an open stream, and retries automatically', async () => {
  const id = await create();
  const { page, close } = await openTab(browser, 'about:blank');
  const streamed = page.waitForResponse(/\/pay\/events/);
  await page.goto(pageOf(id));
  await streamed;
  let fails = true;
  await page.route(/\/pay(\/status)?\?/, (route) => (fails ? route.abort() : route.continue()));
  const version = await touch(id);
  const word = page.getByText('You are offline');
  await word.waitFor();
  // Longer than the page waits before it checks again.
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 5_000)));
  assert.ok(await word.isVisible());
  fails = false;
  await page.locator(`main[data-version="${version}"]`).waitFor();
  await word.waitFor({ state: 'hidden' });
  await close();
});
