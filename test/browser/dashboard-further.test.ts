/** Searching what no index knows, in a real browser: how far it came, and going on from there. And the requests by the hour. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { auditAccessibility, findClipped, openTab, startBrowser, type Tab } from '../kit/browser.ts';
import { freePort } from '../kit/nodes.ts';

let app: TestApp;
let browser: Browser;
let tab: Tab;
let page: Page;
let base = '';
before(async () => {
  const port = await freePort();
  await buildApp({ info: () => {} });
  base = `http://localhost:${port}`;
  [app, browser] = await Promise.all([
    startTestApp({ PORT: String(port), PUBLIC_URL: base, HOST: 'localhost', LOG_LEVEL: 'silent' }),
    startBrowser(),
  ]);
  const { sql } = app.app.ctx.db;
  const { merchantId } = app.merchant;
  await sql`insert into rule_sets (hash, rules) values ('further', '{}')`;
  await sql`
    insert into payments (id, merchant_id, mode, sequence, status, amount_usd_cents, rule_set, created_with, created_at, expires_at)
    select 'pay_f' || n, ${merchantId}, 'test', n, 'expired', case when n = 3 then 90000 else 100 end, (select min(id) from rule_sets), 'secret',
      '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 minute', now() from generate_series(1, 12000) n`;
  await sql`insert into payment_counters values (${merchantId}, 'test', 12000)`;
  await sql`insert into key_hours (key_id, hour, calls, failed)
    select id, date_trunc('hour', clock_timestamp()) - interval '1 hour', 1200, 30 from keys where merchant_id = ${merchantId} and mode = 'test' limit 1`;
  tab = await openTab(browser, app.merchant.setupUrl, { width: 1280 });
  page = tab.page;
  page.setDefaultTimeout(60_000);
  await page.getByLabel('Name').fill('Olga Owner');
  await page.getByLabel('E-mail').fill('olga@shop.example');
  await page.getByLabel('Password').fill('correct horse battery');
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Home' }).waitFor();
});
after(async () => {
  await browser?.close();
  await app?.stop();
});

/** The screen as it stands, in both themes and on a telephone. */
async function audit(name: string) {
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    assert.deepEqual(await auditAccessibility(page), [], `${name}, ${scheme}`);
  }
  await page.setViewportSize({ width: 360, height: 780 });
  assert.deepEqual(await findClipped(page), [], `${name} at 360 px`);
  await page.setViewportSize({ width: 1280, height: 844 });
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
}
const noFaults = () =>
  assert.deepEqual(
    tab.faults.splice(0).filter((fault) => !fault.endsWith('net::ERR_ABORTED')),
    [],
  );

test('an amount that only an old payment has is found by searching further back, with the keyboard', async () => {
  await page.goto(`${base}/dashboard/test/payments?at_least=500`);
  await page.getByText('No payment matches these filters so far').waitFor();
  await page.getByText('Searched back to').waitFor();
  await audit('searched in part');
  await page.getByRole('button', { name: 'Search further back' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: '$900.00' }).waitFor();
  assert.equal(await page.getByText('Searched back to').count(), 0, 'all was looked through');
  await page.goto(`${base}/dashboard/test/payments?at_least=1000`);
  await page.getByRole('button', { name: 'Search further back' }).click();
  await page.getByText('No payment matches these filters', { exact: true }).waitFor();
  noFaults();
});

test('requests by the hour: as a picture with its words, and as a table', async () => {
  await page.goto(`${base}/dashboard/test/usage`);
  const words = /1,200 requests in 24 hours, 30 refused or failed\. The busiest key made 20 a minute on average/;
  await page.getByRole('img', { name: words }).waitFor();
  await audit('usage');
  await page.getByRole('button', { name: 'View as table' }).click();
  await page.getByRole('cell', { name: '1200' }).waitFor();
  await audit('usage as a table');
  noFaults();
});
