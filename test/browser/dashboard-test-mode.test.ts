/** Everything that belongs to test mode says TEST, row by row, and nothing in live mode does; an endpoint that misses reversals is marked. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { startReceiver } from '../kit/receiver.ts';

const dashboard = await startDashboard();
const { app, page, audit, noFaults } = dashboard;
const hook = await startReceiver();
after(() => hook.stop());
let late = '';

/** Opens a list, and returns how many rows it has and how many of them are labelled. */
async function labels(path: string, list: string): Promise<[rows: number, labelled: number]> {
  await dashboard.open(path);
  const rows = page.getByRole('table', { name: list }).locator('tbody tr');
  await rows.first().waitFor();
  // At once, because more rows may come in between.
  const labelled = await rows.evaluateAll((all) =>
    all.map((row) => [...row.querySelectorAll('*')].some((one) => one.textContent === 'TEST')),
  );
  return [labelled.length, labelled.filter(Boolean).length];
}

test('each row of a list in test mode is labelled TEST, and no row in live mode', async () => {
  const made = await app.test.post('/v1/webhook_endpoints', { url: hook.url, events: ['payment.completed', 'payment.expired'] });
  assert.equal(made.status, 201, made.text);
  for (const scenario of ['success', 'late']) {
    const created = await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
    assert.equal((await app.test.post(`/v1/test/payments/${created.json.id}/simulate`, { scenario })).status, 200);
    const ended = await eventually(
      async () => (await app.test.get(`/api/payment/${created.json.id}`)).json,
      ({ status, exception }) => status === 'completed' || exception === 'late',
    );
    if (scenario === 'late') late = ended.id;
  }
  await app.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  for (const [path, list] of [
    ['payments', 'Payments'],
    ['attention', 'Payments that need attention'],
    ['events', 'Events'],
    ['webhooks', 'Endpoints'],
    [`webhooks/${made.json.id}/deliveries`, 'Deliveries'],
  ] as const) {
    const [rows, labelled] = await labels(`test/${path}`, list);
    assert.ok(rows > 0, path);
    assert.equal(labelled, rows, path);
  }
  assert.deepEqual(await labels('live/payments', 'Payments'), [1, 0]);
  assert.equal((await labels('live/events', 'Events'))[1], 0);
  await audit('rows of live mode');
  noFaults();
});

test('a test payment and its timeline are labelled, and received shows late money with what it waits for', async () => {
  await dashboard.open(`test/payments/${late}`);
  await page.getByRole('heading', { name: 'Timeline' }).waitFor();
  assert.ok((await page.locator('main').getByText('TEST', { exact: true }).count()) >= 2);
  const { amount_received } = (await app.test.get(`/api/payment/${late}`)).json;
  const row = page.locator('dl > div', { hasText: 'Received' }).first();
  assert.ok((await row.innerText()).includes(amount_received.replace(/0+$/, '')), await row.innerText());
  await audit('a late test payment');
  noFaults();
});

test('times of the test clock that are ahead are marked where they are shown, and other times are not', async () => {
  await dashboard.open('test/payments');
  const clock = page.getByText('Test clock', { exact: true });
  await page.getByRole('table', { name: 'Payments' }).waitFor();
  assert.equal(await clock.count(), 0);
  await app.test.post('/v1/test/clock/advance', { seconds: 86_400 });
  const { id } = (await app.test.post('/v1/payments', { amount: '9.00', currency: 'USD' })).json;
  for (const path of ['payments', 'events', `payments/${id}`]) {
    await dashboard.open(`test/${path}`);
    await clock.first().waitFor();
  }
  await audit('a payment of the test clock');
  noFaults();
});

test('an endpoint with completed but without reversed is marked, until reversed is chosen too', async () => {
  await dashboard.open('test/webhooks');
  await page.getByText(/Doesn’t receive/).waitFor();
  await page.getByRole('table', { name: 'Endpoints' }).getByRole('link').first().click();
  await page.getByText(/isn’t told if the network/).waitFor();
  await page.getByRole('navigation', { name: 'Endpoint' }).getByRole('link', { name: 'Settings' }).click();
  const reversed = page.getByRole('checkbox', { name: /payment\.reversed/ });
  await reversed.waitFor();
  await page.getByText(/isn’t told if the network/).waitFor();
  await audit('an endpoint that misses reversals');
  await reversed.check();
  await page.getByText(/isn’t told if the network/).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('Saved.').waitFor();
  await dashboard.open('test/webhooks');
  await page.getByRole('table', { name: 'Endpoints' }).waitFor();
  assert.equal(await page.getByText(/Doesn’t receive/).count(), 0);
  noFaults();
});
