/** Webhooks in the dashboard, in a real browser: an endpoint from creation to deletion, by keyboard too, accessible in both themes. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { OWNER, startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';
import { startReceiver } from '../kit/receiver.ts';

const STEP_MS = 60_000;
const dashboard = await startDashboard();
const { app, page, audit, noFaults, forgiveFaults, failRequests, ageSessions } = dashboard;
const hook = await startReceiver();
after(() => hook.stop());
const { host } = new URL(hook.url);
let endpoint = '';

const pay = async (): Promise<string> =>
  (
    await app.test.post('/api/payment/create/simple', {
      amount_usd: 25,
      return_url: 'https://shop.example/',
      payment_address: 'test_btc_success',
    })
  ).json.id;
const open = (path: string) => dashboard.open(`test/${path}`);
const tabLink = (name: string) => page.getByRole('navigation', { name: 'Endpoint' }).getByRole('link', { name });
const focused = () => page.evaluate('document.activeElement.textContent');

test('empty: the screen says why, and both Developers and Settings lead there', async () => {
  const entry = (group: string) => page.getByRole('list', { name: group }).getByRole('link', { name: 'Webhooks' });
  await entry('Developers').click();
  await page.getByText('No test webhook endpoints yet').waitFor();
  await page.getByRole('link', { name: 'Payments', exact: true }).click();
  await page.getByRole('heading', { name: 'Payments', exact: true }).waitFor();
  await entry('Settings').click();
  await page.getByText('No test webhook endpoints yet').waitFor();
  assert.match(await page.title(), /^TEST · Webhooks/);
  await audit('no endpoints');
  noFaults();
});

test('an endpoint is added by keyboard; an invalid URL is refused at its field', async () => {
  await page.getByRole('button', { name: 'Add endpoint' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await audit('adding an endpoint');
  await page.getByLabel('URL').focus();
  await page.keyboard.type('https://10.0.0.1/hook');
  await page.keyboard.press('Enter');
  await page
    .getByRole('dialog')
    .getByText(/absolute https URL/)
    .waitFor();
  await audit('a refused URL');
  forgiveFaults();
  await page.getByLabel('URL').focus();
  await page.keyboard.press('Control+A');
  await page.keyboard.type(hook.url);
  await page.keyboard.press('Enter');
  await page.getByText('Endpoint added').waitFor();
  await page.getByText('Your server accepted a connection at 127.0.0.1.').waitFor();
  const secret = (await page.getByRole('dialog').locator('code').innerText()).trim();
  assert.match(secret, /^whsec_/);
  await audit('the secret of a new endpoint');
  const made = (await app.test.get('/v1/webhook_endpoints')).json.data;
  assert.deepEqual([made.length, made[0].url, made[0].events], [1, hook.url, ['*']]);
  endpoint = made[0].id;
  await page.getByRole('link', { name: 'View endpoint' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: host }).waitFor();
  await page.getByText('No attempts in the last 24 hours').waitFor();
  await audit('an endpoint without attempts');
  noFaults();
});

test('a test event is sent, and its delivery opens and completes without a reload', async () => {
  await tabLink('Deliveries').click();
  await page.getByText('No deliveries yet').waitFor();
  await audit('no deliveries');
  await page.getByRole('button', { name: 'Send test event' }).click();
  await page.getByLabel('Event type').selectOption('payment.completed');
  await audit('choosing a test event');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  const drawer = page.getByRole('dialog');
  await drawer.getByText('200 response').waitFor();
  assert.match(page.url(), /\/deliveries\?delivery=del_/);
  await drawer.getByText('user-agent: Florin-Webhooks/1').waitFor();
  await drawer.getByText('Verify the signature').click();
  await drawer.getByText('timingSafeEqual', { exact: false }).first().waitFor();
  await audit('a delivery');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await drawer.getByRole('button', { name: 'Copy as curl' }).click();
  await page.getByText('The command sends the same body').waitFor();
  const curl = (await page.evaluate('navigator.clipboard.readText()')) as string;
  const [hit] = hook.received;
  assert.ok(curl.startsWith(`curl '${hook.url}'`) && curl.includes(`X-Service-Signature: ${hit!.headers['x-service-signature']}`));
  assert.ok(curl.includes(`--data-raw '${hit!.body}'`), 'the exact bytes');
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'hidden' });
  assert.match(page.url(), /\/deliveries$/);
  noFaults();
});

longTest('the list: a row opens by keyboard and returns the focus; filters are in the URL, empty by filter', async () => {
  const row = page.getByRole('table', { name: 'Deliveries' }).getByRole('link', { name: 'payment.completed' });
  await row.waitFor();
  await audit('deliveries');
  await row.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('Request body').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await focused(), 'payment.completed');
  await page.getByLabel('Status').selectOption('failed');
  await page.getByText('No deliveries match these filters').waitFor();
  assert.match(page.url(), /\?state=failed$/);
  await audit('deliveries, filtered empty');
  await page.reload();
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await row.waitFor();
  const payment = await pay();
  await page.getByRole('link', { name: 'payment.created', exact: true }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type(payment);
  await page.keyboard.press('Enter');
  await row.waitFor({ state: 'detached' });
  assert.equal(await page.getByRole('link', { name: 'payment.created' }).count(), 1);
  await page.getByRole('button', { name: 'Clear', exact: true }).click();
  await row.waitFor();
  noFaults();
});

test('failed deliveries are shown, counted before they are resent, and resent', async () => {
  const { sql } = app.app.ctx.db;
  hook.answer(500);
  const payment = await pay();
  await eventually(
    async () => (await app.test.get(`/v1/webhook_deliveries?endpoint_id=${endpoint}&state=pending`)).json.data,
    ([delivery]) => delivery?.payment_id === payment && delivery.attempt_count > 0,
    STEP_MS,
  );
  await sql`update deliveries set state = 'failed', due_at = null, leased_until = null where payment_id = ${payment}`;
  await open(`webhooks/${endpoint}/deliveries`);
  await tabLink('Overview').click();
  await page.getByText('Deliveries are failing').waitFor();
  await page.getByRole('img', { name: /Attempts in the last 24 hours: \d+ delivered, \d+ failed/ }).waitFor();
  await page.getByText('View as table').click();
  assert.equal(await page.getByRole('table', { name: 'Attempts by hour' }).getByRole('row').count(), 25);
  await audit('overview');
  hook.answer(200);
  hook.received.length = 0;
  await tabLink('Recover').click();
  await page.getByRole('button', { name: '24 hours' }).click();
  await page.getByText('1 delivery').waitFor();
  await audit('recover');
  await page.getByRole('button', { name: 'Resend' }).click();
  await page.getByRole('dialog').waitFor();
  await audit('question before sending again');
  await page.getByRole('dialog').getByRole('button', { name: 'Resend', exact: true }).click();
  await page.getByText('1 delivered · 0 failed again').waitFor();
  await page.getByText('No failed deliveries since then.').waitFor();
  await page.getByText('Done', { exact: true }).waitFor();
  assert.deepEqual(
    hook.received.map(({ event }) => event.data.id),
    [payment],
  );
  await audit('recovered');
  noFaults();
});

test('a payment shows its deliveries and resends them', async () => {
  const payment = await pay();
  await eventually(
    async () => hook.received.filter(({ event }) => event.data.id === payment).length,
    (n) => n === 1,
    STEP_MS,
  );
  await open(`payments/${payment}`);
  await page.getByRole('link', { name: 'payment.created', exact: true }).waitFor();
  await audit('payment with deliveries');
  await page.getByRole('button', { name: 'Resend events' }).click();
  await page.getByText('Resending events in order.').waitFor();
  await eventually(
    async () => hook.received.filter(({ event }) => event.data.id === payment).length,
    (n) => n === 2,
    STEP_MS,
  );
  await page.getByRole('link', { name: 'payment.created', exact: true }).click();
  await page.getByRole('dialog').getByText('Attempt 2').waitFor();
  noFaults();
});

longTest('an endpoint that answered 410 shows why it is off and what to do, and is turned on again', async () => {
  hook.answer(410);
  await pay();
  await open(`webhooks/${endpoint}`);
  await page.getByRole('heading', { name: 'Disabled: your server responded with 410' }).waitFor();
  await audit('switched off by 410');
  await open('webhooks');
  await page.getByText('Disabled', { exact: true }).waitFor();
  await audit('endpoints');
  await page.getByRole('link', { name: hook.url }).click();
  hook.answer(200);
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('Active', { exact: true }).waitFor();
  await app.app.ctx.db.sql`
    update endpoints set state = 'disabled', disabled_reason = 'failures', failing_since = now() - interval '6 days' where id = ${endpoint}`;
  await page.reload();
  await page.getByRole('heading', { name: 'Disabled after five days of failures' }).waitFor();
  await audit('switched off by failures');
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('Active', { exact: true }).waitFor();
  noFaults();
});

test('revealing or rotating the secret requires confirming your identity', async () => {
  await open(`webhooks/${endpoint}`);
  await tabLink('Settings').click();
  await page.getByRole('button', { name: 'Reveal secret' }).waitFor();
  await audit('settings');
  await ageSessions();
  await page.getByRole('button', { name: 'Reveal secret' }).click();
  await page.getByRole('heading', { name: 'Confirm your identity' }).waitFor();
  forgiveFaults();
  await page
    .getByRole('dialog')
    .getByLabel(/password/i)
    .fill(OWNER.password);
  await page.getByRole('button', { name: 'Confirm', exact: true }).click();
  await page.getByRole('button', { name: 'Hide secret' }).waitFor();
  const secret = await page.getByText(/^whsec_/).innerText();
  await page.getByRole('button', { name: 'Roll secret' }).click();
  await page.getByLabel('Old secret expires').selectOption('604800');
  await audit('replacing the secret');
  await page.getByRole('dialog').getByRole('button', { name: 'Roll secret' }).click();
  await page.getByText('Events are also signed with the previous secret').waitFor();
  await eventually(
    () => page.getByText(/^whsec_/).innerText(),
    (shown) => shown !== secret,
  );
  noFaults();
});

test('an endpoint is changed, paused and resumed', async () => {
  await page.getByLabel('Description').fill('Till');
  await page.getByRole('checkbox', { name: 'All payment events' }).uncheck();
  await page.getByRole('checkbox', { name: /payment.completed/ }).check();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const changed = (await app.test.get(`/v1/webhook_endpoints/${endpoint}`)).json;
  assert.deepEqual([changed.description, changed.events], ['Till', ['payment.completed']]);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('heading', { name: 'Paused' }).waitFor();
  // A box that is half below the top bar counts as too small to hit.
  await page.evaluate(() => scrollTo(0, 0));
  await audit('paused');
  await page.getByRole('button', { name: 'Resume' }).first().click();
  await page.getByText('Active', { exact: true }).waitFor();
  noFaults();
});

longTest('a failure of the service is shown in place and can be retried', async () => {
  const tryAgain = await failRequests('**/dashboard/api/test/webhooks');
  await open('webhooks');
  await page.getByRole('alert').getByText('Something failed.').waitFor();
  await audit('endpoints, failed');
  await tryAgain();
  await page.getByRole('link', { name: hook.url }).waitFor();
  noFaults(/^500 .*webhooks/);
  await open('webhooks/we_unknown');
  await page.getByRole('alert').getByText('No such webhook endpoint').waitFor();
  await audit('no such endpoint');
  forgiveFaults();
});

test('an endpoint is deleted after typing its host', async () => {
  await open(`webhooks/${endpoint}/settings`);
  await page.getByRole('button', { name: 'Delete endpoint' }).click();
  const remove = page.getByRole('dialog').getByRole('button', { name: 'Delete' });
  assert.equal(await remove.isDisabled(), true);
  await audit('question before deleting');
  await page.getByLabel(`Type ${host} to confirm`).fill(host);
  await page.keyboard.press('Enter');
  await page.getByText('No test webhook endpoints yet').waitFor();
  assert.deepEqual((await app.test.get('/v1/webhook_endpoints')).json.data, []);
  noFaults();
});

longTest('a new endpoint whose server cannot be reached says why and what to do; a second one with its URL is named', async () => {
  const url = hook.url.replace('http:', 'https:');
  for (const turn of ['first', 'second'] as const) {
    await open('webhooks');
    await page.getByRole('button', { name: 'Add endpoint' }).click();
    await page.getByLabel('URL').fill(url);
    await page.getByRole('dialog').getByRole('button', { name: 'Add endpoint' }).click();
    await page.getByText('Endpoint added').waitFor();
    const warning = page.getByRole('dialog').getByRole('alert');
    await warning.getByText('The port answers in plain HTTP (127.0.0.1)').waitFor();
    await warning.getByText(/Turn on TLS for this port/).waitFor();
    if (turn === 'second') await page.getByText('Another endpoint has the same URL').waitFor();
    await audit(`an endpoint that cannot be reached, the ${turn} time`);
  }
  noFaults();
});
