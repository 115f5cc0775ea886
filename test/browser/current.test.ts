/** Open pages stay true: whatever happens to their connections, and whatever a translator does to their texts. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { eventually } from '../kit/app.ts';
import { findTextsThatGoStale, openTab, type Tab, translatePage } from '../kit/browser.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { startForgetfulProxy } from '../kit/forgetful-proxy.ts';
import { firstOf, longTest } from '../kit/long.ts';
import { freePort } from '../kit/nodes.ts';

const port = await freePort();
const proxy = await startForgetfulProxy(port);
after(() => proxy.stop());
const dashboard = await startDashboard({
  environment: { PORT: String(port), PUBLIC_URL: `http://localhost:${proxy.port}` },
});
const { app, browser } = dashboard;

/** What a page may take to show the truth after its connection is gone. */
const WITHIN_MS = 60_000;

async function createPayment(): Promise<{ id: string; url: string }> {
  const { status, json, text } = await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  assert.equal(status, 201, text);
  return { id: json.transaction_id, url: json.payment_url };
}
async function pay(id: string): Promise<void> {
  assert.equal((await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success' })).status, 200);
  await eventually(
    async () => (await app.test.get(`/api/payment/${id}`)).json.status,
    (status) => status === 'completed',
  );
}

/** A page that shows a payment, with a clock that the test moves. Its stream is open. */
type Shown = { page: Page; id: string; isTrue(): Promise<boolean> };
const PAGES: Readonly<Record<string, () => Promise<{ tab: Tab; shown: Shown }>>> = {
  'the payment page': async () => {
    const { id, url } = await createPayment();
    const tab = await openTab(browser, 'about:blank');
    const { page } = tab;
    await page.clock.install();
    await Promise.all([page.waitForResponse(/\/pay\/events/), page.goto(url)]);
    await page.locator('#c-BTC').check();
    await page.locator('#c-continue').click();
    await page.locator('main[data-state="awaiting"]').waitFor();
    return { tab, shown: { page, id, isTrue: () => page.locator('main[data-state="completed"]').isVisible() } };
  },
  'the dashboard': async () => {
    const { id } = await createPayment();
    const tab = await openTab(browser, 'about:blank', { width: 1280 });
    const { page } = tab;
    await page.context().addCookies(await dashboard.page.context().cookies());
    await page.clock.install();
    await Promise.all([
      page.waitForResponse(/\/dashboard\/api\/test\/stream/),
      page.goto(`${app.config.publicUrl}/dashboard/test/payments/${id}`),
    ]);
    await page.locator('main h1 + p', { hasText: 'Pending' }).waitFor();
    return { tab, shown: { page, id, isTrue: async () => /Completed/.test(await page.locator('main h1 + p').innerText()) } };
  },
};
/** Moves the page's clock in steps until it shows the truth; each step leaves time for a real reply. */
async function reachesTruth({ page, isTrue }: Shown, most = WITHIN_MS): Promise<void> {
  for (let passed = 0; passed <= most; passed += 1_000) {
    for (let looks = 0; looks < 4; looks++) {
      if (await isTrue()) return;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    if (passed < most) await page.clock.runFor(1_000);
  }
  // Replies may still be on their way on a busy machine; time stands still for the page.
  await eventually(isTrue, (shown) => shown);
}
const WAYS: Readonly<Record<string, (shown: Shown) => Promise<void>>> = {
  'its stream was cut': async ({ id }) => {
    proxy.cut();
    await pay(id);
  },
  'all of its connections were forgotten in silence': async ({ id }) => {
    proxy.forget();
    await pay(id);
  },
  'it was frozen meanwhile': async ({ page, id }) => {
    const devtools = await page.context().newCDPSession(page);
    await page.clock.runFor(30_000);
    await devtools.send('Page.setWebLifecycleState', { state: 'frozen' });
    proxy.forget();
    await pay(id);
    await devtools.send('Page.setWebLifecycleState', { state: 'active' });
  },
  'its device slept for five minutes': async ({ page, id }) => {
    proxy.forget();
    await pay(id);
    // Timers and durations of a page stand still while its device sleeps.
    await page.clock.setSystemTime(Date.now() + 5 * 60_000);
  },
  'it was offline': async ({ page, id }) => {
    await page.context().setOffline(true);
    await pay(id);
    await page.context().setOffline(false);
  },
};
const [firstPage] = Object.keys(PAGES);
for (const [name, open] of Object.entries(PAGES))
  for (const [way, lose] of name === firstPage ? Object.entries(WAYS) : firstOf(Object.entries(WAYS)))
    test(`${name} shows within a minute that a payment completed, although ${way}`, async () => {
      const { tab, shown } = await open();
      await lose(shown);
      await reachesTruth(shown);
      await tab.close();
    });

test('the countdown of a page whose device slept is that of the service, although nothing else changed', async () => {
  const { tab, shown } = await PAGES['the payment page']!();
  const { page, id } = shown;
  const secondsLeft = async () => {
    const [minutes, seconds] = (await page.locator('#clock').innerText()).split(':').map(Number);
    return minutes! * 60 + seconds!;
  };
  const before = await secondsLeft();
  assert.equal((await app.test.post('/v1/test/clock/advance', { payment_id: id, seconds: 300 })).status, 200);
  await page.clock.setSystemTime(Date.now() + 300_000);
  await eventually(secondsLeft, (left) => left <= before - 300);
  // The answer that says that nothing changed has the time too.
  const status = await fetch(`${app.url}/pay/status?id=${id}`);
  const unchanged = await fetch(`${app.url}/pay/status?id=${id}`, { headers: { 'if-none-match': status.headers.get('etag')! } });
  assert.equal(unchanged.status, 304);
  const ahead = [status, unchanged].map(({ headers }) => Number(headers.get('x-payment-time')) - Date.now());
  // The service counts 300 seconds more than the machine; the request itself may take a while.
  for (const ms of ahead) assert.ok(ms > 200_000 && ms <= 301_000, String(ms));
  await tab.close();
});

async function openScreen(path: string): Promise<Tab> {
  const tab = await openTab(browser, 'about:blank', { width: 1280 });
  await tab.page.context().addCookies(await dashboard.page.context().cookies());
  await tab.page.goto(`${app.config.publicUrl}/dashboard/test/${path}`);
  await tab.page.locator('main h1').waitFor();
  return tab;
}
/** What a screen says, without the words of its frame. */
const said = async (page: Page): Promise<string> => (await page.locator('main').innerText()).replaceAll(/\s+/g, ' ');

longTest('a translated screen shows the same as a new one after its payments completed and were reversed', async () => {
  const [paid, reversed] = [await createPayment(), await createPayment()];
  const screens = ['home', 'payments', `payments/${paid.id}`, `payments/${reversed.id}`, 'attention', 'usage', 'webhooks'];
  const tabs = await Promise.all(screens.map(openScreen));
  await tabs[2]!.page.locator('main h1 + p', { hasText: 'Pending' }).waitFor();
  await tabs[3]!.page.locator('main h1 + p', { hasText: 'Pending' }).waitFor();
  for (const { page } of tabs) {
    assert.deepEqual(await findTextsThatGoStale(page), []);
    await translatePage(page);
  }
  await pay(paid.id);
  assert.equal((await app.test.post(`/v1/test/payments/${reversed.id}/simulate`, { scenario: 'reversed' })).status, 200);
  const isReversed = async () => {
    await app.test.post('/v1/test/clock/advance', { payment_id: reversed.id, seconds: 3_600 });
    return (await app.test.get(`/api/payment/${reversed.id}`)).json;
  };
  await eventually(isReversed, ({ exceptions }) => exceptions.includes('reorged'));
  for (const [i, path] of screens.entries()) {
    const fresh = await openScreen(path);
    const [now, then] = await eventually(
      async () => [await said(tabs[i]!.page), await said(fresh.page)] as const,
      ([kept, made]) => kept === made,
    );
    assert.equal(now, then, path);
    if (path.endsWith(reversed.id)) {
      const badges = await fresh.page.locator('main h1 + p').innerText();
      assert.match(badges, /Reversed/);
      assert.doesNotMatch(badges, /Completed/);
      assert.match(now, /The network took this payment back: \$25\.00 is missing\. Don’t ship\./);
    }
    await fresh.close();
    assert.deepEqual(tabs[i]!.faults, []);
    await tabs[i]!.close();
  }
});

test('an open payment offers its refund once its money is final, however early it was first seen', async () => {
  const { id } = await createPayment();
  const { page, close } = await openScreen(`payments/${id}`);
  const asked = page.waitForResponse(/\/refundable$/);
  assert.equal((await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'slow' })).status, 200);
  const { available } = (await (await asked).json()) as { available: { amount: string }[] };
  assert.deepEqual(
    available.filter(({ amount }) => !/^[0.]+$/.test(amount)),
    [],
    'nothing can be refunded yet',
  );
  assert.equal((await app.test.post('/v1/test/clock/advance', { payment_id: id, seconds: 3_600 })).status, 200);
  await page.getByText('Can still be refunded').waitFor();
  await close();
});

longTest('an open screen of usage shows the API requests of the last minute once they are counted', async () => {
  const { sql } = app.app.ctx.db;
  const [key] = await sql<{ id: string }[]>`select id from keys where merchant_id = ${app.merchant.merchantId} and mode = 'test' limit 1`;
  // As another process counts them.
  const count = (calls: number) => sql`
    insert into key_hours (key_id, hour, calls, failed) values (${key!.id}, date_trunc('hour', clock_timestamp()), ${calls}, 0)
    on conflict (key_id, hour) do update set calls = key_hours.calls + excluded.calls`;
  await count(1);
  const { page, close } = await openScreen('usage');
  const shown = async () => Number(((await page.locator('dd').first().textContent()) ?? '').replaceAll(',', ''));
  const before = await eventually(shown, (calls) => calls > 0);
  await count(5_000);
  await eventually(shown, (calls) => calls >= before + 5_000);
  await close();
});
