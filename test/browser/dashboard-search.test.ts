/** The search over everything in a real browser, by keyboard: a result opens where it is shown, and its address opens it again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { startDashboard } from '../kit/dashboard.ts';

const dashboard = await startDashboard({ roles: ['api', 'worker'] });
const { app, page, go, owner, audit, noFaults, failRequests } = dashboard;
const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
const results = page.getByRole('listbox', { name: 'Results' });
const search = async (text: string) => {
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /Search screens/ }).fill(text);
};
/** Chooses the result with this text by keyboard. */
const choose = async (text: string, group: string) => {
  await results
    .getByRole('group', { name: group })
    .getByRole('option')
    .filter({ hasText: text })
    .and(page.locator('[aria-selected=true]'))
    .waitFor();
  await page.keyboard.press('Enter');
};

test('Ctrl+K finds a refund, a payout and a link by their IDs and opens each in its drawer, and a reload keeps it open', async () => {
  const customer = { email: 'ada@example.com', name: 'Ada Lovelace', reference: 'C-1001' };
  const { id: payment } = (await app.test.post('/v1/payments', { amount: '25.00', currency: 'USD', customer })).json;
  await app.test.post(`/v1/test/payments/${payment}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    async () => (await app.test.get(`/api/payment/${payment}`)).json.status,
    (status) => status === 'completed',
  );
  const person = await owner();
  const refund = (await app.test.post('/v1/refunds', { payment_id: payment, amount_usd: '5.00' })).json.id;
  const asked = { currency: 'BTC', amount_usd: '10.00', address: ADDRESS, payout_reference: 'wages' };
  const payout = (await person.post('/test/payouts', asked)).json.payout.id;
  const link = (await person.post('/test/links', { name: 'Tea', amount: '3', reusable: true })).json.link.id;
  await go('test/home', 'Home');
  const rows = [
    { id: refund, group: 'Refunds', url: `refunds?refund=${refund}`, title: 'Refund', shown: refund },
    { id: payout, group: 'Payouts', url: `payouts?payout=${payout}`, title: 'Payout', shown: payout },
    { id: link, group: 'Payment links', url: `links?link=${link}`, title: 'Tea', shown: `/link/${link}` },
  ];
  for (const { id, group, url, title, shown } of rows) {
    await search(id);
    await results.getByRole('option').filter({ hasText: id }).first().waitFor();
    await audit(`search, ${group}`);
    await choose(id, group);
    const drawer = page.getByRole('dialog', { name: title });
    await drawer.getByText(shown).waitFor();
    assert.ok(page.url().endsWith(`/dashboard/test/${url}`), page.url());
    await page.reload();
    await drawer.getByText(shown).waitFor();
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'detached' });
    await page.waitForURL((now) => now.search === '');
  }
  noFaults();
});

test('results are grouped by kind, and the arrow keys reach the last one', async () => {
  for (let i = 1; i <= 8; i++)
    await app.test.post('/v1/payments', { amount: `${i}.00`, currency: 'USD', customer: { reference: `D-${i}`, name: `Ada ${i}` } });
  await search('ada');
  await results.getByRole('group', { name: 'Customers' }).getByText('D-8').waitFor();
  assert.deepEqual(
    await results
      .getByRole('group')
      .evaluateAll((groups) => groups.map((group) => [group.ariaLabel, group.querySelectorAll('[role=option]').length])),
    [
      ['Payments', 6],
      ['Customers', 6],
      ['More', 1],
    ],
  );
  await audit('search, two kinds');
  await page.keyboard.press('ArrowUp');
  const last = results.getByRole('option', { name: 'Show all payments with “ada”' });
  await last.and(page.locator('[aria-selected=true]')).waitFor();
  const [inside, box] = [(await last.boundingBox())!, (await results.boundingBox())!];
  assert.ok(inside.y + inside.height <= box.y + box.height + 1, 'it is scrolled into view');
  await page.keyboard.press('ArrowUp');
  await choose('Ada', 'Customers');
  await page.waitForURL(/customers\/cus_/);
  noFaults();
});

test('a search that finds nothing says so, and one that fails can be tried again', async () => {
  await search('ref_000000000000000000000000');
  await page.getByText('No results in test mode.').waitFor();
  await audit('search, no results');
  await page.keyboard.press('Escape');
  const repair = await failRequests('**/dashboard/api/test/search?*');
  await search('lovelace');
  await page.getByRole('alert').getByText('Something failed.').waitFor();
  assert.equal(await page.getByText('No results in test mode.').count(), 0);
  await audit('search, failed');
  await repair();
  await choose('Lovelace', 'Payments');
  await page.waitForURL(/payments\/pay_/);
  noFaults(/500 .*search/);
});
