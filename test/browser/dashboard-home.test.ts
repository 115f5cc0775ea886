/** Home, Needs attention, payments and reports in a real browser: accessible in both themes, by keyboard, under the security policy. */
// Invariant: Home, Needs attention and the list work by keyboard, in both themes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { Download, Request } from 'playwright-core';
import { eventually } from '../kit/app.ts';
import { readQr } from '../kit/browser.ts';
import { OWNER, startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';

const { app, page, openOwn, audit, noFaults, forgiveFaults, failRequests, ageSessions } = await startDashboard();
const textOf = async (download: Download) => readFileSync(await download.path(), 'utf8');
const go = (name: string) => page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name }).click();

test('home without payments says what to do first; one button creates a test payment and opens its simulator', async () => {
  await page.getByRole('heading', { name: 'Get started' }).waitFor();
  await page.getByText('Your stats will appear here').waitFor();
  await page.getByText('Test payments run on').waitFor();
  await page.getByText('No Bitcoin source is connected, so payments cannot be detected.').waitFor();
  await page.getByText('BTC_NODE_URL=http://USER:PASSWORD@127.0.0.1:8332').waitFor();
  await audit('home, nothing yet');
  await page.getByRole('listitem').getByRole('button', { name: 'Create test payment' }).click();
  await page.getByRole('heading', { name: 'Simulate a customer payment' }).waitFor();
  await audit('payment with simulator');
  await page.getByLabel('Scenario').selectOption('success');
  await page.getByLabel('Coin', { exact: true }).selectOption('LTC');
  await page.getByRole('button', { name: 'Simulate' }).click();
  await page.getByRole('listitem').getByText('Completed', { exact: true }).waitFor();
  await page.getByText('Created by Olga Owner').waitFor();
  await page.getByText(/^\$[\d,.]+ per LTC$/).waitFor();
  await page.getByText(/^Block [\d,]+$/).waitFor();
  await audit('payment, completed');
  noFaults();
});

test('home shows the figures of the range, each chart as picture, table and file', async () => {
  await go('Home');
  await page.getByRole('img', { name: /Completed volume per day, stacked by currency.*\$25\.00 in 1 payments/ }).waitFor();
  await page.getByRole('img', { name: /Created 1, Opened 1, Coin chosen 1, Transfer detected 1, Completed 1/ }).waitFor();
  await page.getByText('1 of 7 steps done').waitFor();
  await audit('home');
  await page.getByRole('radio', { name: '30 days' }).focus();
  await page.keyboard.press('ArrowLeft');
  await page.waitForURL(/range=7d/);
  await page.getByRole('button', { name: /View as table.*Volume/ }).press('Enter');
  await page.getByRole('table', { name: 'Volume per day' }).getByText('$25.00').first().waitFor();
  // Wide tables scroll in their own region on a phone.
  await audit('home, table', { narrow: false });
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: /CSV.*Volume/ }).click()]);
  assert.match(await textOf(file), /^Day,Completed,USD,LTC\r\n[\s\S]*,1,25\.00,25\.00\r\n/);
  // Tokens are summed over their networks, so that the columns add up to the volume.
  await app.app.ctx.db.sql`
    insert into payment_quarter_deltas (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
    select ${app.merchant.merchantId}, 'test', date_bin('15 minutes', now(), 'epoch'), measure, coin, payments, cents, 0
    from (values ('USDC@base', 1205), ('USDC@ethereum', 795), ('EURC@base', 1)) as sold (coin, amount)
    cross join lateral (values ('completed', 1, 0), ('volume', 0, amount)) as counted (measure, payments, cents)`;
  await page.reload();
  await page.getByRole('img', { name: /Completed volume per day.*\$45\.01 in 4 payments/ }).waitFor();
  await page.getByRole('listitem').getByText('EURC').waitFor();
  const [summed] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: /CSV.*Volume/ }).click()]);
  assert.match(await textOf(summed), /^Day,Completed,USD,LTC,USDC,EURC\r\n[\s\S]*,4,45\.01,25\.00,20\.00,0\.01\r\n/);
  await page.getByText('Custom', { exact: true }).click();
  await page.getByLabel('From').fill('2024-01-01');
  await page.getByRole('alert').getByText('at most one year').waitFor();
  await page.getByLabel('Until').fill('2024-01-31');
  await page.getByText('No completed payments in this period.').waitFor();
  await audit('home, nothing in the range');
  await page.getByRole('button', { name: 'Dismiss' }).click();
  await page.getByRole('heading', { name: 'Get started' }).waitFor({ state: 'detached' });
  await page.reload();
  await page.getByText('No completed payments in this period.').waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Get started' }).count(), 0);
  noFaults();
});

test('home opens without asking for data, and shows what changes before its stream of updates is open', async () => {
  const opened = Promise.withResolvers<void>();
  const asked: string[] = [];
  const note = (request: Request) => {
    const { pathname } = new URL(request.url());
    if (/^\/dashboard\/api\/(?!.*\/stream$)/.test(pathname)) asked.push(pathname);
  };
  await page.route('**/dashboard/api/test/stream*', (route) => opened.promise.then(() => route.continue()));
  page.on('request', note);
  await page.goto(`${app.config.publicUrl}/dashboard/test/home`);
  await page.getByRole('img', { name: /Created 1, Opened 1/ }).waitFor();
  await page.getByText('Test payments run on').waitFor();
  assert.deepEqual(asked, []);
  await app.test.post('/api/payment/create/simple', { amount_usd: '3.00', return_url: 'https://shop.example/' });
  opened.resolve();
  await page.getByRole('img', { name: /Created 2, Opened 1/ }).waitFor();
  page.off('request', note);
  await page.unroute('**/dashboard/api/test/stream*');
  await page.goto(`${app.config.publicUrl}/dashboard/test/home?range=custom&from=2024-01-01&until=2024-01-31`);
  await page.getByText('No completed payments in this period.').waitFor();
  noFaults();
});

test('if the service fails, the screen says what failed and offers to try again', async () => {
  const tryAgain = await failRequests('**/dashboard/api/test/home?*');
  await page.reload();
  await page.getByRole('alert').getByText('req_1').waitFor();
  await audit('home, error');
  await tryAgain();
  await page.getByText('No completed payments in this period.').waitFor();
  noFaults(/^500 .*home/);
});

test('payments that need a decision are counted in the navigation, and decided one by one or together, by keyboard', async () => {
  await go('Needs attention');
  await page.getByText('No payments need a decision').waitFor();
  await audit('attention, empty');
  const ids: string[] = [];
  for (const [scenario, coin] of [
    ['underpaid', 'ltc'],
    ['late', 'doge'],
    ['overpaid', 'eth'],
  ]) {
    const { id } = (
      await app.test.post('/api/payment/create/simple', {
        amount_usd: 60,
        return_url: 'https://shop.example/',
        invoice_id: `INV-${scenario}`,
        payment_address: `test_${coin}_${scenario}`,
      })
    ).json;
    await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario });
    ids.push(id);
  }
  await app.test.post('/v1/test/clock/advance', { seconds: 7_200 });
  await eventually(
    () => app.app.ctx.db.sql`select 1 from payments where attention`,
    (rows) => rows.length === 3,
    60_000,
  );
  await page.getByRole('link', { name: /Needs attention 3/ }).waitFor();
  await page.getByText('INV-underpaid').waitFor();
  const [short, late] = await Promise.all(ids.map(async (id) => (await app.test.get(`/api/payment/${id}`)).json));
  const shown = (amount: string) => amount.replace(/[.]?0+$/, '');
  const held = `${shown(late.amount_held)} DOGE ($${late.amount_held_usd})`;
  const lateRow = page.getByRole('row', { name: /INV-late/ });
  await lateRow.getByText(`${shown(late.amount_held)} DOGE`, { exact: true }).waitFor();
  await lateRow.getByText(`$${late.amount_held_usd}`, { exact: true }).last().waitFor();
  await lateRow.getByText('Arrived late, on hold').waitFor();
  await lateRow.getByTitle(`${late.amount_held} DOGE`).waitFor();
  await page
    .getByRole('row', { name: /INV-underpaid/ })
    .getByText(`Short by $`)
    .waitFor();
  assert.equal(await page.getByText('TEST', { exact: true }).count(), 3, 'each row says so');
  await audit('attention');
  // The payment says the same, and each question names the money.
  await lateRow.getByRole('link').click();
  await page.getByText(`Arrived late, on hold: ${held}`).waitFor();
  await page.getByRole('heading', { name: 'Transfers' }).waitFor();
  await page.getByText('On hold', { exact: true }).waitFor();
  assert.equal(await page.getByText('Remaining').count(), 0, 'nobody can pay the rest any more');
  await audit('payment, late');
  for (const [button, title] of [
    ['Accept', `Accept ${held}?`],
    ['Don’t accept', `Don’t accept ${held}?`],
    ['Refund', `Mark ${held} as refunded?`],
  ] as const) {
    await page.getByRole('button', { name: button, exact: true }).click();
    if (button === 'Refund') await page.getByRole('button', { name: 'I already sent it from my own wallet' }).click();
    await page.getByRole('dialog', { name: title }).waitFor();
    if (button === 'Accept') await audit('question, late');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  }
  await go('Payments');
  await lateRow.getByText('Arrived late, on hold').waitFor();
  await page
    .getByRole('row', { name: /INV-underpaid/ })
    .getByRole('link')
    .click();
  await page.getByText(`Received ${shown(short.amount_received)} LTC ($${short.amount_received_usd}), short by $`).waitFor();
  await go('Needs attention');
  await lateRow.waitFor();
  await page.getByLabel('Exception').selectOption('reorged');
  await page.getByText('No payments with this reason').waitFor();
  await audit('attention, filtered empty');
  await page.getByRole('button', { name: 'Show all reasons' }).click();
  await page.getByLabel('Select all').focus();
  await page.keyboard.press('Space');
  await page.getByText('3 selected').waitFor();
  await page.getByRole('button', { name: 'Accept', exact: true }).press('Enter');
  await page
    .getByRole('dialog')
    .getByText(`3 payments, received: `)
    .getByText(`${shown(late.amount_held)} DOGE`)
    .waitFor();
  await audit('attention, question');
  await page.getByRole('dialog').getByRole('button', { name: 'Accept', exact: true }).press('Enter');
  await page.getByText('2 payments updated.').waitFor();
  await page.getByText(/1 payment skipped: The payment is completed/).waitFor();
  await page.getByText('1 selected').waitFor();
  await page.getByRole('button', { name: 'Mark as handled' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Mark as handled' }).click();
  await page.getByText('No payments need a decision').waitFor();
  assert.equal((await app.test.get(`/api/payment/${ids[0]}`)).json.exceptions.length, 0);
  noFaults();
});

test('a payment is created from items, and its code leads to its page', async () => {
  await go('Payments');
  await page.getByRole('link', { name: '$25.00' }).waitFor();
  await page.getByRole('button', { name: 'Create payment' }).press('Enter');
  await page.getByLabel('Currency').selectOption('EUR');
  await page.getByText('Customers see EUR.').waitFor();
  await audit('create payment in euros');
  await page.getByLabel('Currency').selectOption('USD');
  await page.getByRole('textbox', { name: 'Amount', exact: true }).fill('1.005');
  await page.getByRole('dialog').getByRole('button', { name: 'Create payment' }).click();
  await page.getByText('Amount must have at most 2 decimals.').waitFor();
  assert.equal(await page.getByText('at most 2 decimals').count(), 1, 'once, beside its field');
  forgiveFaults();
  await page.getByLabel('Items and tax').check();
  await page.getByLabel('Name of item 1').fill('Mug');
  await page.getByLabel('Quantity of item 1').fill('2');
  await page.getByLabel('Price of item 1').fill('12.50');
  await page.getByLabel('Tax in USD').fill('1.00');
  await audit('create payment');
  await page.getByRole('dialog').getByRole('button', { name: 'Create payment' }).click();
  const code = page.getByAltText('QR code of the payment link');
  await code.waitFor();
  await audit('payment created');
  assert.match(await readQr(code), /\/pay\?id=pay_[0-9A-Za-z]{24}$/);
  await page.getByRole('link', { name: 'View payment' }).click();
  await page.getByRole('cell', { name: 'Mug' }).waitFor();
  await page.getByRole('button', { name: 'Edit metadata' }).click();
  await page.getByLabel('Name of pair 1').fill('order');
  await page.getByLabel('Value of pair 1').fill('A-1');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('A-1').waitFor();
  await page.getByRole('button', { name: 'Show as JSON' }).click();
  await page.getByText('"order": "A-1"').waitFor();
  await audit('payment, items and API view');
  noFaults();
});

test('filters, views and columns of the list are kept; the file contains what the list shows', async () => {
  await go('Payments');
  await page.getByRole('button', { name: 'More filters' }).click();
  await page.getByLabel('At least, in USD').fill('26');
  await page.getByLabel('At least, in USD').press('Enter');
  await page.waitForURL(/at_least=(%22)?26/);
  await page.getByRole('link', { name: '$25.00' }).waitFor({ state: 'detached' });
  await audit('payments, filters');
  await page.getByRole('button', { name: 'Views' }).click();
  await page.getByLabel('Save the current filters as').fill('Large');
  await page.getByRole('button', { name: 'Save view' }).click();
  await page.getByRole('button', { name: 'Large', exact: true }).waitFor();
  await audit('views');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Export CSV' }).press('Enter');
  await page.getByRole('dialog').getByText('metadata').waitFor();
  await audit('export');
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download CSV' }).click()]);
  const lines = (await textOf(file)).trim().split('\r\n').slice(1);
  assert.equal(lines.length, 4);
  assert.ok(lines.every((line) => line.startsWith('test,pay_')));
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Export CSV' }).press('Enter');
  await page.getByLabel('All columns').uncheck();
  assert.equal(await page.getByRole('link', { name: 'Download CSV' }).count(), 0, 'a file of no column is none');
  await page.getByLabel('amount_usd').check();
  await page.getByLabel('id', { exact: true }).check();
  const [narrow] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download CSV' }).click()]);
  assert.match(await textOf(narrow), /^mode,id,amount_usd\r\n(test,pay_\w+,[\d.]+\r\n){4}$/);
  await page.getByRole('button', { name: /Remove At least/ }).click();
  await page.getByRole('link', { name: '$25.00' }).waitFor();
  await page.getByRole('button', { name: 'Views' }).click();
  await page.getByRole('button', { name: 'Large', exact: true }).click();
  await page.waitForURL(/at_least=(%22)?26/);
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByLabel('Payment id').check();
  await audit('columns');
  await page.keyboard.press('Escape');
  await page.getByRole('columnheader', { name: 'Payment id' }).waitFor();
  await page.reload();
  await page.getByRole('columnheader', { name: 'Payment id' }).waitFor();
  noFaults();
});

longTest('an ended payment is archived, found among the archived ones, and restored', async () => {
  await go('Payments');
  await page.locator('tbody tr', { hasText: 'Completed' }).first().getByRole('link').click();
  await page.getByRole('button', { name: 'Archive', exact: true }).press('Enter');
  await page.getByText('Archived', { exact: true }).waitFor();
  await audit('payment, archived');
  const id = /pay_\w{24}/.exec(page.url())![0];
  const rows = page.locator(`tbody a[href*=${id}]`);
  await go('Payments');
  await rows.waitFor({ state: 'detached' });
  await page.locator('tbody tr').first().waitFor();
  await page.getByRole('button', { name: 'More filters' }).click();
  await page.getByLabel('Archived').selectOption('only');
  await rows.waitFor();
  // Rows of the previous filter stay until the answer arrives.
  await eventually(
    () => page.locator('tbody tr').count(),
    (n) => n === 1,
  );
  await audit('payments, archived only');
  await rows.click();
  await page.getByRole('button', { name: 'Unarchive' }).press('Enter');
  await page.getByRole('button', { name: 'Archive', exact: true }).waitFor();
  await go('Payments');
  await rows.waitFor();
  noFaults();
});

longTest('a person can choose compact rows for all tables, which survives a reload; other people keep their own setting', async () => {
  const heights = async () => {
    await page.locator('tbody tr').first().waitFor();
    return page.locator('tbody tr').evaluateAll((rows) => rows.map((row: any) => row.getBoundingClientRect().height as number));
  };
  const stand = (density: string) => page.locator(`html[data-density=${density}]`).waitFor({ state: 'attached' });
  await stand('comfortable');
  const comfortable = await heights();
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByRole('group', { name: 'Rows' }).getByRole('button', { name: 'Compact' }).press('Enter');
  await page.keyboard.press('Escape');
  await stand('compact');
  const compact = await heights();
  assert.ok(
    compact.every((height, i) => height <= comfortable[i]! - 10 && height >= 24),
    `${comfortable} -> ${compact}`,
  );
  await audit('payments, compact');
  await page.reload();
  // The person and the columns are known a moment later.
  await eventually(heights, (now) => isDeepStrictEqual(now, compact));
  // In the same browser another person has not chosen it.
  const kept = (await page.evaluate('Object.entries(localStorage).find(([key]) => key.startsWith("florin-density-"))')) as [string, string];
  await page.evaluate(`localStorage.removeItem('${kept[0]}'), localStorage.setItem('florin-density-usr_other', 'compact')`);
  await page.reload();
  await eventually(heights, (now) => isDeepStrictEqual(now, comfortable));
  await page.evaluate(`localStorage.setItem('${kept[0]}', '${kept[1]}')`);
  await openOwn('Notifications');
  const notices = await heights();
  await page.reload();
  await eventually(heights, (now) => now.every((height, i) => height < notices[i]!));
  await audit('notifications, compact');
  await page.getByRole('button', { name: 'Account' }).press('Enter');
  // The list moves the focus to its first entry once it is loaded.
  await page.locator('[role=menuitem]:focus', { hasText: 'Security' }).waitFor();
  await page.getByRole('menuitem', { name: 'Comfortable tables' }).press('Enter');
  await stand('comfortable');
  assert.deepEqual(await heights(), notices);
  noFaults();
});

test('reports are files of a range', async () => {
  await go('Reports');
  await page.getByRole('heading', { name: 'Tax report' }).waitFor();
  await audit('reports');
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: /Download CSV.*Tax report/ }).click()]);
  assert.match(file.suggestedFilename(), /^tax-test-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d\.csv$/);
  assert.match(await textOf(file), /^mode,received_at,/);
  // Ten minutes later a file requires confirming your identity.
  await ageSessions();
  await page.getByRole('link', { name: /Download CSV.*Daily totals/ }).click();
  await page.getByRole('heading', { name: 'Confirm your identity' }).waitFor();
  await page.getByRole('dialog').getByLabel('Password').fill(OWNER.password);
  const [later] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Confirm', exact: true }).click()]);
  assert.match(later.suggestedFilename(), /^days-test-/);
  noFaults(/403 .*exports/);
  // The books of the same range.
  const statement = page.getByRole('table', { name: 'Statement' });
  await statement.getByRole('cell', { name: 'Sales' }).first().waitFor();
  for (const line of await statement.locator('tbody tr').allInnerTexts()) assert.match(line, /[1-9]/, 'no line of zeros');
  const tops = await Promise.all(
    [page.getByRole('heading', { name: 'DATEV' }), page.getByRole('heading', { name: 'Tax report' }), statement].map(
      async (one) => (await one.boundingBox())!.y,
    ),
  );
  assert.deepEqual(
    tops,
    tops.toSorted((a, b) => a - b),
    'files for accountants come first',
  );
  await audit('the statement');
  const [koinly] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: /Download CSV.*Koinly/ }).click()]);
  assert.match(await textOf(koinly), /^Date,Sent Amount,/);
  await page.getByText('DATEV needs amounts in euros').waitFor();
  await app.app.ctx.db.sql`update merchants set settings = settings || '{"displayCurrency": "EUR"}'::jsonb`;
  // Settings are cached for a second.
  await eventually(
    async () => {
      await page.reload();
      await page.getByRole('heading', { name: 'DATEV' }).waitFor();
      return page.getByText('DATEV needs amounts in euros').count();
    },
    (count) => count === 0,
  );
  await page.getByLabel('Consultant number').fill('29098');
  await page.getByLabel('Client number').fill('55003');
  await page.getByLabel('First day').fill('2026-01-05');
  await page.getByLabel('Last day').fill('2026-02-05');
  assert.equal(await page.getByLabel('Fiscal year begins').inputValue(), '2026-01-01', 'it follows the range');
  const [batch] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: /Download CSV.*DATEV/ }).click()]);
  assert.equal(batch.suggestedFilename(), 'EXTF_Florin_2026-01-05_2026-02-05.csv');
  assert.match(await textOf(batch), /^"EXTF";700;21;/);
  await audit('reports with books');
  await page.getByLabel('Last day').fill('2020-01-01');
  await page.getByRole('alert').getByText('at most one year').waitFor();
  await audit('reports, no range');
  await app.app.ctx.db.sql`update merchants set settings = settings - 'displayCurrency'`;
  noFaults();
});
