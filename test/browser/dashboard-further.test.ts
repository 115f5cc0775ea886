/** Searching beyond the index in a real browser: how far it got, and continuing from there. Also requests per hour. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Route } from 'playwright-core';
import { startDashboard } from '../kit/dashboard.ts';

const { app, page, open, audit, noFaults } = await startDashboard();

before(async () => {
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
});

test('an amount that only an old payment has is found by searching further back, by keyboard', async () => {
  await open('test/payments?at_least=500');
  await page.getByText('No payment matches these filters so far').waitFor();
  await page.getByText('Searched back to').waitFor();
  await audit('searched in part');
  await page.getByRole('button', { name: 'Search further back' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: '$900.00' }).waitFor();
  assert.equal(await page.getByText('Searched back to').count(), 0, 'all was looked through');
  await open('test/payments?at_least=1000');
  await page.getByRole('button', { name: 'Search further back' }).click();
  await page.getByText('No payment matches these filters', { exact: true }).waitFor();
  noFaults();
});

test('the table header stays in view below the test mode bar, and does not cover what has the focus', async () => {
  await open('test/payments');
  const head = page.getByRole('columnheader', { name: 'Amount' });
  await head.waitFor();
  await page.getByRole('link', { name: '$1.00' }).nth(10).focus();
  await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)');
  const stripe = (await page.getByText('TEST DATA').boundingBox())!;
  const box = (await head.boundingBox())!;
  assert.ok(await page.evaluate('window.scrollY > 200'), 'it was scrolled');
  assert.ok(Math.abs(box.y - (stripe.y + stripe.height)) <= 1, `${box.y} below ${stripe.y + stripe.height}`);
  await page.keyboard.press('Shift+Tab');
  const focused = await page.evaluate<number>('document.activeElement.getBoundingClientRect().top');
  assert.ok(focused >= box.y + box.height - 1, `${focused} under the head`);
  noFaults();
});

test('requests per hour: as a chart with a summary, and as a table', async () => {
  await open('test/usage');
  const words = /1,200 requests in 24 hours, 30 failed\. The busiest key averaged 20 a minute/;
  await page.getByRole('img', { name: words }).waitFor();
  await audit('usage');
  await page.getByRole('button', { name: 'View as table' }).click();
  await page.getByRole('cell', { name: '1200' }).waitFor();
  await audit('usage as a table');
  noFaults();
});

test('updates during a search do not undo it', async () => {
  await open('test/payments?at_least=1000');
  await page.getByText('Searched back to').waitFor();
  const held = Promise.withResolvers<void>();
  const hold = async (route: Route) => {
    const news = page.waitForResponse(/attention/);
    const { status } = await app.test.post('/api/payment/create/simple', { amount_usd: '1.00', return_url: 'https://shop.example/' });
    assert.equal(status, 201);
    await news;
    await route.continue();
    held.resolve();
  };
  await page.route(/starting_after/, hold, { times: 1 });
  await page.getByRole('button', { name: 'Search further back' }).click();
  await held.promise;
  await page.getByText('No payment matches these filters', { exact: true }).waitFor();
  noFaults();
});
