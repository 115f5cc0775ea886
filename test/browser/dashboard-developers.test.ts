/** API keys, events and the request log in a real browser, accessible in both themes, under the security policy. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setBranding } from '../../src/merchants/settings.ts';
import { eventually } from '../kit/app.ts';
import { OWNER, startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';

const { app, page, open, audit, noFaults, forgiveFaults, failRequests, ageSessions } = await startDashboard();
let keyText = '';
let payment = '';

const heading = (name: string) => page.getByRole('heading', { name, exact: true }).waitFor();
/** The screen when the service fails, and after trying again. */
async function failing(path: string, api: RegExp, back: () => Promise<unknown>) {
  const tryAgain = await failRequests(api);
  await open(path);
  await page.getByRole('alert').getByText('req_1').waitFor();
  await audit(`${path}, failing`);
  await tryAgain();
  await back();
  forgiveFaults();
}

test('keys are listed with a quick start while none has been used', async () => {
  await page.getByRole('link', { name: 'API keys' }).click();
  await heading('API keys');
  await page.getByRole('table', { name: 'Secret keys' }).getByRole('link', { name: 'Secret key' }).waitFor();
  await page.getByRole('tab', { name: 'curl' }).focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.getByText('createClient').waitFor();
  await audit('keys');
  noFaults();
});

test('a key is created by keyboard, shown once, and closes only when it is stored', async () => {
  await page.getByRole('button', { name: 'Create key' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await audit('create a key');
  await page.getByLabel('Name').focus();
  await page.keyboard.type('Warehouse');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Your new secret key' }).waitFor();
  keyText = await page.getByText(/^sk_test_[0-9A-Za-z]{38}$/).innerText();
  await audit('a new key');
  await page.keyboard.press('Escape');
  await page.getByText('Save the key first').waitFor();
  await page.getByRole('tab', { name: '.env' }).click();
  await page.getByText(`FLORIN_API_KEY=${keyText}`).waitFor();
  await page.getByLabel('I’ve saved this key').focus();
  await page.keyboard.press('Space');
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await page.getByRole('link', { name: 'Warehouse' }).waitFor();
  assert.equal(await page.getByText(keyText).count(), 0);
  assert.equal((await app.as(keyText).get('/api/payments')).status, 200);
  noFaults();
});

test('a secret key gets only the permissions that are chosen, and the list and its page show them', async () => {
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByLabel('Name').fill('Order export');
  await page.getByRole('radio', { name: 'Only what you choose' }).check();
  const box = (name: string) => page.getByRole('checkbox', { name });
  assert.equal(await box('Payments Create payments').isChecked(), true);
  await box('Prices and lookups').check();
  await audit('the permissions of a key');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.getByLabel('I’ve saved this key').check();
  await page.getByRole('button', { name: 'Done' }).click();
  const row = page.getByRole('row').filter({ hasText: 'Order export' });
  await row.getByText('Payments, Prices and lookups').waitFor();
  await app.app.ctx.db.sql`update keys set permissions = null where name = 'Order export'`;
  await row.getByRole('link', { name: 'Order export' }).click();
  await page.getByText('This key was created before permissions existed. It can do everything.').waitFor();
  await page.goBack();
  await heading('API keys');
  noFaults();
});

test('a secret key is limited to reading and to IP addresses, and the list says so', async () => {
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByLabel('Name').fill('Books');
  await page.getByRole('radio', { name: 'Read only' }).check();
  await page.getByLabel('Allowed IP addresses').fill('192.0.2.300');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.locator('p', { hasText: '192.0.2.300 is neither an address' }).first().waitFor();
  forgiveFaults();
  await page.getByLabel('Allowed IP addresses').fill('192.0.2.10, 198.51.100.0/24');
  await audit('a narrowed key');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.getByLabel('I’ve saved this key').check();
  await page.getByRole('button', { name: 'Done' }).click();
  const row = page.getByRole('row').filter({ hasText: 'Books' });
  await row.getByText('Read only: everything').waitFor();
  await row.getByText('2 IP addresses').waitFor();
  await row.getByRole('link', { name: 'Books' }).click();
  await page.getByText('192.0.2.10, 198.51.100.0/24').waitFor();
  await audit('a narrowed key, alone');
  await page.goBack();
  await heading('API keys');
  noFaults();
});

test('a public key has origins; an error is shown at its field', async () => {
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('radio', { name: /^Public/ }).check();
  await page.getByLabel('Name').fill('Button');
  await page.getByLabel('Allowed origins').fill('https://shop.example/path');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.locator('p', { hasText: 'is not an origin; write it like' }).first().waitFor();
  forgiveFaults();
  await page.getByLabel('Allowed origins').fill('https://shop.example');
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page
    .getByText(/^pk_test_/)
    .first()
    .waitFor();
  await page.getByLabel('I’ve saved this key').check();
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('table', { name: 'Public keys' }).getByText('https://shop.example').waitFor();
  noFaults();
});

test('requests are logged, can be filtered, and link to the explanation of their error', async () => {
  const asker = app.as(keyText);
  payment = (await asker.post('/api/payment/create/simple', { amount_usd: 12, return_url: 'https://shop.example/thanks' })).json.id;
  await asker.post('/api/payment/create/simple', {
    amount_usd: 0,
    return_url: 'https://shop.example/thanks',
    metadata: { api_key: keyText },
  });
  // The log is written once a second.
  await eventually(
    () => app.test.get('/v1/requests?outcome=failed'),
    ({ json }) => json.data.length > 0,
  );
  await page.getByRole('link', { name: 'Request log' }).click();
  await page.getByText('amount_invalid').waitFor();
  await audit('requests');
  await page.getByLabel('Outcome').selectOption('failed');
  await page.waitForURL(/outcome=failed/);
  await page.getByRole('table', { name: 'Requests' }).getByText('201').waitFor({ state: 'hidden' });
  await page.getByLabel('Status').selectOption('503');
  await page.getByText('No requests match these filters').waitFor();
  await audit('requests, filtered empty');
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await page.getByRole('table', { name: 'Requests' }).getByText('201').first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('create/simple');
  await page.keyboard.press('Enter');
  await page.waitForURL(/search=create/);
  await page.getByLabel('Search requests').fill('"AMOUNT_usd":12');
  await page.getByLabel('Search requests').press('Enter');
  await page.getByText('amount_invalid').waitFor({ state: 'hidden' });
  await page.getByRole('link', { name: 'POST /api/payment/create/simple' }).waitFor();
  await page.getByLabel('Search requests').fill('create/simple');
  await page.getByLabel('Search requests').press('Enter');
  await page.getByLabel('API key').selectOption({ label: `Warehouse (…${keyText.slice(-4)})` });
  await page.waitForURL(/key_id=key_/);
  await page.getByText('amount_invalid').waitFor();
  await page.getByRole('link', { name: 'POST /api/payment/create/simple' }).first().focus();
  await page.keyboard.press('Enter');
  await page.getByText('[redacted]').waitFor();
  assert.equal(await page.getByText(keyText).count(), 0, 'the key is not in its own log');
  await audit('request');
  assert.match((await page.getByRole('link', { name: 'View error reference' }).getAttribute('href'))!, /^\/docs\/errors#amount_invalid$/);
  assert.equal((await fetch(`${app.url}/docs/errors`)).status, 200);
  noFaults();
});

test('a request made while the log is open is announced without moving the list', async () => {
  await open('test/requests');
  await page.getByText('amount_invalid').waitFor();
  await app.as(keyText).get('/api/payment/pay_none');
  await page.getByRole('button', { name: '1 new request' }).click();
  await page.getByRole('link', { name: 'GET /api/payment/pay_none' }).waitFor();
  noFaults();
});

test('events: by type and payment, with JSON, payment and deliveries', async () => {
  await app.test.post('/v1/webhook_endpoints', { url: 'http://127.0.0.1:9/hook' });
  await app.test.post(`/v1/payments/${payment}/cancel`);
  await page.getByRole('link', { name: 'Events' }).click();
  const cancelled = page.locator('tr', { hasText: 'payment.cancelled' });
  await cancelled.waitFor();
  await audit('events');
  const desktop = page.viewportSize()!;
  await page.setViewportSize({ width: 390, height: 844 });
  // The type and the time are in the first line, the payment is below them.
  const [type, about, time] = await Promise.all([0, 1, 2].map(async (nth) => (await cancelled.locator('td').nth(nth).boundingBox())!));
  assert.ok(Math.max(type!.y + type!.height, time!.y + time!.height) <= about!.y, JSON.stringify([type, about, time]));
  await page.setViewportSize(desktop);
  await page.getByLabel('Type').selectOption('payment.failed');
  await page.getByText('No events match these filters').waitFor();
  await audit('events, filtered empty');
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await page.getByRole('link', { name: 'payment.created' }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type(payment);
  await page.keyboard.press('Enter');
  await page.waitForURL(/payment_id=pay_/);
  // Any text of the JSON finds events too.
  await page.getByLabel('Search events').fill('SHOP.example/thanks');
  await page.getByLabel('Search events').press('Enter');
  await page.waitForURL(/search=SHOP/);
  await page.getByRole('link', { name: 'payment.created' }).waitFor();
  await page.getByLabel('Search events').fill('no such text');
  await page.getByLabel('Search events').press('Enter');
  await page.getByText('No events match these filters').waitFor();
  await page.getByLabel('Search events').fill(payment);
  await page.getByLabel('Search events').press('Enter');
  await page.getByRole('link', { name: 'payment.cancelled' }).focus();
  await page.keyboard.press('Enter');
  await page.getByText('"sequence": 2').waitFor();
  await page.getByRole('list', { name: 'Deliveries' }).getByText('Pending').waitFor();
  await audit('event');
  await page.getByRole('main').getByRole('link', { name: payment }).click();
  await page.getByText('Created with a secret key').waitFor();
  noFaults();
});

test('a key is rolled after a confirmation; the old one works until its end', async () => {
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByRole('link', { name: 'Warehouse' }).click();
  await page.getByText('Requests in the last 24 hours').waitFor();
  await audit('key');
  await ageSessions();
  await page.getByRole('button', { name: 'Roll key' }).click();
  await page.getByRole('dialog').waitFor();
  await audit('roll a key');
  await page.getByLabel('In an hour').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Roll key' }).click();
  await heading('Confirm your identity');
  forgiveFaults();
  await page.getByRole('textbox', { name: 'Password' }).fill(OWNER.password);
  await page.getByRole('button', { name: 'Confirm', exact: true }).click();
  const fresh = await page.getByText(/^sk_test_[0-9A-Za-z]{38}$/).innerText();
  assert.notEqual(fresh, keyText);
  await page.getByLabel('I’ve saved this key').check();
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByText('Rolled', { exact: true }).waitFor();
  for (const text of [fresh, keyText]) assert.equal((await app.as(text).get('/api/payments')).status, 200);
  noFaults();
});

test('a key is revoked by typing its name', async () => {
  await page.getByRole('button', { name: 'Revoke key' }).click();
  await page.getByText(/^This key made .* You can’t undo this\.$/).waitFor();
  await audit('revoke a key');
  const act = page.getByRole('dialog').getByRole('button', { name: 'Revoke key' });
  await page.getByLabel('Type Warehouse to confirm').fill('warehouse');
  assert.equal(await act.isDisabled(), true);
  await page.getByLabel('Type Warehouse to confirm').fill('Warehouse');
  await page.keyboard.press('Enter');
  await page.getByText('Key revoked.').waitFor();
  await page.getByText('Revoked', { exact: true }).first().waitFor();
  await eventually(
    () => app.as(keyText).get('/api/payments'),
    ({ status }) => status === 401,
  );
  await open('test/keys?state=ended');
  await page.getByRole('link', { name: 'Warehouse' }).waitFor();
  await audit('keys that ended');
  noFaults();
});

longTest('empty lists say so and offer the next step', async () => {
  await open('live/keys?state=ended');
  await page.getByText('No revoked or expired keys').waitFor();
  await audit('keys, none ended');
  await page.getByRole('button', { name: 'Show active keys' }).click();
  await page.getByRole('table', { name: 'Secret keys' }).waitFor();
  await app.app.ctx.db.sql`update keys set revoked_at = clock_timestamp() where mode = 'live'`;
  await page.reload();
  await page.getByText('No live keys yet').waitFor();
  await heading('Quick start');
  assert.equal(await page.getByText('TEST DATA').count(), 0);
  await audit('keys, none');
  await open('live/events');
  await page.getByText('No events yet').waitFor();
  await audit('events, none');
  await open('live/requests');
  await page.getByText('No requests yet').waitFor();
  await audit('requests, none');
  noFaults();
});

longTest('failures show the reason and can be retried', async () => {
  await failing('test/keys', /\/dashboard\/api\/test\/keys\?/, () => page.getByRole('table', { name: 'Secret keys' }).waitFor());
  await failing('test/events', /\/dashboard\/api\/test\/events/, () => page.getByRole('table', { name: 'Events' }).waitFor());
  await failing('test/requests', /\/dashboard\/api\/test\/requests/, () => page.getByRole('table', { name: 'Requests' }).waitFor());
  noFaults();
});

test('the page of a public key says which websites can use it', async () => {
  const merchantId = app.merchant.merchantId;
  const works = page.getByText('Works on pages of').locator('xpath=..');
  const [{ id }] = (await app.app.ctx.db
    .sql`select id from keys where merchant_id = ${merchantId} and mode = 'test' and kind = 'public' and origins = '{}'`) as [
    { id: string },
  ];
  await open(`test/keys/${id}`);
  await works.getByText('Every website').waitFor();
  await audit('a public key');
  await setBranding(app.app.ctx, { merchantId, branding: { origins: ['https://shop.example'] } });
  await open(`test/keys/${id}`);
  await works.getByText('https://shop.example').waitFor();
  await works.getByText('From your checkout settings').waitFor();
  noFaults();
});
