/** Customers in a real browser: the list, one customer, and where else they are shown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { startDashboard } from '../kit/dashboard.ts';

const dashboard = await startDashboard({ roles: ['api', 'worker'] });
const { app, page, go, audit, noFaults } = dashboard;
const ADA = { email: 'ada@example.com', name: 'Ada Lovelace', reference: 'C-1001' };
const make = async (customer: object, more: object = {}): Promise<any> =>
  (await app.test.post('/v1/payments', { amount: '25.00', currency: 'USD', customer, ...more })).json;

test('without customers the list says how they come', async () => {
  await go('test/customers', 'Customers');
  await page.getByText('No customers yet').waitFor();
  await audit('customers, none');
  noFaults();
});

test('a customer has a page with payments, receipts and refunds, and is shown where the payment is', async () => {
  const paid = await make(ADA, { invoice_id: 'INV-1001' });
  await make({ reference: 'C-1001' }, { description: 'Two mugs' });
  await make({ email: `${'longaddress.'.repeat(12)}@example.com` });
  await app.test.post(`/v1/test/payments/${paid.id}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    async () => (await app.test.get(`/api/payment/${paid.id}`)).json.status,
    (status) => status === 'completed',
  );
  const { id: refund } = (await app.test.post('/v1/refunds', { payment_id: paid.id, amount_usd: '5.00' })).json;
  assert.match(refund, /^ref_/);
  await go('test/customers', 'Customers');
  await page.getByRole('cell', { name: 'C-1001' }).waitFor();
  assert.match(await page.getByRole('row', { name: /Ada Lovelace/ }).innerText(), /\$25\.00/, 'what she paid, of two payments');
  await audit('customers');
  await page.getByLabel('Search customers').fill('LOVELACE');
  await page.getByLabel('Search customers').press('Enter');
  await page.getByRole('table').getByText('longaddress').first().waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Ada Lovelace' }).click();
  await page.getByRole('heading', { name: 'Ada Lovelace' }).waitFor();
  await page.getByRole('table', { name: 'Payments' }).getByText('Two mugs').waitFor();
  assert.match(await page.locator('main').innerText(), /Paid in total\s+\$25\.00/);
  const receipt = page.getByRole('link', { name: 'PDF' });
  assert.equal(await receipt.count(), 1);
  assert.match((await receipt.getAttribute('href'))!, new RegExp(`/pay/receipt\\.pdf\\?id=${paid.id}$`));
  await page.getByRole('table', { name: 'Refunds' }).getByText(paid.id).waitFor();
  await audit('customer');
  await page.getByRole('link', { name: '$25.00' }).last().click();
  await page.getByRole('heading', { name: '$25.00' }).waitFor();
  await page.getByRole('link', { name: 'Ada Lovelace' }).waitFor();
  await audit('a payment with a customer');
  await go('test/refunds', 'Refunds');
  await page.getByRole('table').getByRole('link', { name: 'Ada Lovelace' }).waitFor();
  await audit('refunds with customers');
  const states = page.getByRole('group', { name: 'State' });
  await states.getByRole('button', { name: 'All 1' }).waitFor();
  await states.getByRole('button', { name: 'Sent 0', exact: true }).click();
  await page.getByText('No refunds in this state').waitFor();
  await states.getByRole('button', { name: 'Requested 1' }).click();
  await page.getByRole('table').getByRole('link', { name: 'Ada Lovelace' }).waitFor();
  await go('test/payments', 'Payments');
  await page.getByRole('table').getByRole('link', { name: 'Ada Lovelace' }).first().waitFor();
  await audit('payments with customers');
  noFaults();
});

test('a member names the customer of a new payment, and a fault is shown at its field', async () => {
  await go('test/payments', 'Payments');
  await page.getByRole('button', { name: 'Create payment' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Amount', { exact: true }).last().fill('12.00');
  await dialog.getByLabel('Customer name').fill('Grace Hopper');
  await dialog.getByRole('button', { name: 'Create payment' }).click();
  await dialog.getByText(/a name alone does not tell customers apart/).waitFor();
  await dialog.getByLabel('Customer email').fill('grace@navy.example');
  await audit('creating a payment for a customer');
  await dialog.getByRole('button', { name: 'Create payment' }).click();
  await eventually(
    async () => (await app.test.get('/v1/customers?email=grace@navy.example')).json.data.length,
    (n) => n === 1,
  );
  noFaults(/400 .*payments/);
});
