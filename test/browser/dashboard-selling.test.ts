/**
 * Wallets, links, the button, checkout and business settings in a real browser, by keyboard where it matters, and the pages they change
 * for customers.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { asIfFollowed, eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { openTab, readQr } from '../kit/browser.ts';
import { OWNER, startDashboard } from '../kit/dashboard.ts';
import { isLongRun, longTest } from '../kit/long.ts';

// The node is never called: it only makes the coin a configured one. The tests write what a follower would write.
const dashboard = await startDashboard({
  environment: { BTC_NODE_URL: 'http://user:pass@127.0.0.1:9', LTC_CONFIRMATIONS: '100:6,*:3' },
  roles: ['api', 'worker'],
});
const { app, browser, page, go, audit, noFaults, failRequests, ageSessions } = dashboard;
const owner = await dashboard.owner();
const key = (seed: number) => HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive("m/84'/0'/0'").publicExtendedKey;

test('wallets: test mode says it needs none; live mode without any says what to do', async () => {
  await go('test/wallets', 'Wallets');
  await page.getByText('Test mode needs no wallet').waitFor();
  await page.getByText('TEST DATA').waitFor();
  await audit('wallets in test mode');
  await page.getByRole('link', { name: 'Live', exact: true }).click();
  await page.getByText('You can’t take live payments yet').waitFor();
  await audit('wallets, none');
  noFaults();
});

// Invariant: Private keys entered in the dashboard are cleared in the browser and refused by the service.
test('a private key is cleared in the browser and not sent; one that only the service recognizes is cleared too', async () => {
  await page.getByRole('link', { name: 'Set up Bitcoin' }).click();
  const box = page.getByLabel('Account key');
  const sent: string[] = [];
  page.on('request', (request) => sent.push(request.postData() ?? ''));
  const secret = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/84'/0'/0'").privateExtendedKey;
  for (const text of [secret, 'legal winner thank year wave sausage worth useful legal winner thank yellow', 'e9'.repeat(32)]) {
    await box.fill(text);
    await page.getByText('It was cleared and never left this browser').waitFor();
    assert.equal(await box.inputValue(), '');
  }
  await page.locator('input[type=file]').setInputFiles({ name: 'wallet.txt', mimeType: 'text/plain', buffer: Buffer.from(secret) });
  assert.equal(await box.inputValue(), '');
  assert.deepEqual(
    sent.filter((body) => body !== ''),
    [],
  );
  await audit('a private key refused');
  // One whose first letters say nothing: only its bytes show it.
  await box.fill(base58check.respell(secret, 0x01020304));
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('It was cleared').waitFor();
  assert.equal(await box.inputValue(), '');
  noFaults(/400 .*preview/);
});

test('the wizard by keyboard: the key, the addresses, a wrong address end, the right one, confirmations', async () => {
  const box = page.getByLabel('Account key');
  await box.fill('xpub nonsense');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByText('it is not an extended public key').waitFor();
  assert.equal(await box.getAttribute('aria-invalid'), 'true');
  noFaults(/400 .*preview/);
  await box.fill(key(1));
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Does your wallet show these addresses?' }).waitFor();
  // The focus moves to the step.
  await page.locator('h1:focus').waitFor();
  assert.equal(await page.locator('[data-address]').count(), 5);
  await audit('compare addresses');
  const ends = page.getByLabel('Last 6 characters');
  await ends.fill('zzzzzz');
  await page.keyboard.press('Enter');
  await page.getByText('does not match the end of any of the five addresses shown').waitFor();
  noFaults(/400 .*wallets/);
  await page.getByLabel('Address type').selectOption('p2sh-p2wpkh');
  await page.locator('[data-address^="3"]').first().waitFor();
  await page.getByLabel('Address type').selectOption('p2wpkh');
  await page.locator('[data-address^="bc1q"]').first().waitFor();
  const address = (await page.locator('[data-address]').nth(2).getAttribute('data-address'))!;
  await ends.fill(address.slice(-6));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Confirmations', exact: true }).waitFor();
  await page.getByLabel('BTC: below $1,000', { exact: true }).fill('1');
  await page.getByText('The minimum is 2.').waitFor();
  await audit('confirmations, too low');
  await page.getByLabel('BTC: below $1,000', { exact: true }).fill('4');
  await page.getByRole('button', { name: 'Save and finish' }).click();
  // The key is saved, which alone does not enable payments.
  await page.getByText('Customers can’t pay with Bitcoin yet. One thing is still missing').waitFor();
  await page.getByText('The Bitcoin source has not answered yet.').waitFor();
  await audit('wallet saved, a source is missing');
  await asIfFollowed(app, 'BTC');
  await page.getByText('Bitcoin is ready. Customers can pay with it now.').waitFor();
  await audit('wallet done');
  await page.getByRole('link', { name: 'Done', exact: true }).click();
  await page.getByText('Native SegWit (p2wpkh)').waitFor();
  await page.getByText('Ready', { exact: true }).waitFor();
  await page.getByText('Customers can pay with Bitcoin now.').waitFor();
  await audit('wallets');
  const { confirmations, settings } = (await owner.get('/live/settings/checkout')).json;
  assert.equal(settings.tolerance_percent, '0.00', 'the underpayment tolerance is zero by default');
  assert.deepEqual(
    confirmations[0].tiers.map((tier: { confirmations: number }) => tier.confirmations),
    [1, 4, 3, 6],
  );
  noFaults();
});

test('a replacement key waits and says so, and can be dropped; requesting it requires recent authentication', async () => {
  await ageSessions();
  await page.getByRole('link', { name: 'Change key' }).click();
  await page.getByLabel('Account key').fill(key(2));
  await page.getByRole('button', { name: 'Continue' }).click();
  const address = (await page.locator('[data-address]').nth(0).getAttribute('data-address'))!;
  await page.getByLabel('Last 6 characters').fill(address.slice(-6));
  await page.getByRole('button', { name: 'Use this key' }).click();
  await page.getByRole('heading', { name: 'Confirm your identity' }).waitFor();
  await page.getByRole('dialog').getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Confirm', exact: true }).click();
  await page.getByRole('heading', { name: 'Confirmations', exact: true }).waitFor();
  noFaults(/403 .*wallets/);
  await page.getByRole('button', { name: 'Keep the defaults' }).click();
  await page.getByText('The new key takes effect on').waitFor();
  await page.getByRole('link', { name: 'Done', exact: true }).click();
  await page.getByText('A new key is pending.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Confirm now' }).count(), 0, 'the person who requested it cannot confirm');
  await page.getByText('Change pending', { exact: true }).waitFor();
  await audit('a key that waits');
  await page.getByRole('button', { name: 'Keep the current key' }).click();
  await page.getByText('A new key is pending.').waitFor({ state: 'detached' });
  await page.getByText('Change pending', { exact: true }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByText('Ready', { exact: true }).waitFor();
  noFaults();
});

longTest('the waiting period is turned off after its time or when a second owner confirms, and turned on at once', async () => {
  const { sql } = app.app.ctx.db;
  const turnOff = async () => {
    await page.getByRole('button', { name: 'Turn the wait off' }).click();
    await page.getByRole('dialog').getByText('All owners are notified now').waitFor();
  };
  await ageSessions();
  await turnOff();
  await audit('turning the wait off');
  await page.getByRole('dialog').getByRole('button', { name: 'Turn off' }).click();
  await page.getByRole('heading', { name: 'Confirm your identity' }).waitFor();
  await page.getByRole('dialog').getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Confirm', exact: true }).click();
  await page.getByText('The wait will be turned off.').waitFor();
  noFaults(/403 .*wait/);
  assert.equal(await page.getByRole('button', { name: 'Confirm now' }).count(), 0, 'the person who requested it cannot confirm');
  await page.getByText('There is a wait of 24 hours').waitFor();
  await audit('a wait that ends');
  await page.getByRole('button', { name: 'Keep the wait' }).click();
  await page.getByText('New keys wait again.').waitFor();
  await turnOff();
  await page.getByRole('dialog').getByRole('button', { name: 'Turn off' }).click();
  await page.getByText('The wait will be turned off.').waitFor();
  // As if a second owner had requested it: then this one may confirm, after being an owner for a day.
  await sql`insert into users (id, name, email) values ('usr_other', 'Pia Partner', 'pia@shop.example')`;
  await sql`insert into members (merchant_id, user_id, role) values (${app.merchant.merchantId}, 'usr_other', 'owner')`;
  await sql`update wallet_waits_off set asked_by = 'usr_other', asked_by_name = 'Pia Partner'`;
  await page.reload();
  await page.getByText('Pia Partner requested new keys to be active immediately.').waitFor();
  await page.getByRole('button', { name: 'Confirm now' }).click();
  await page.getByText('owners of less than 24 hours cannot confirm one either').waitFor();
  noFaults(/409 .*confirm/);
  await sql`update members set role_since = now() - interval '25 hours'`;
  await page.getByRole('button', { name: 'Confirm now' }).click();
  await page.getByText('The wait is off.').waitFor();
  await audit('the wait is off');
  await page.getByRole('button', { name: 'Turn the wait on' }).click();
  await page.getByRole('button', { name: 'Turn the wait off' }).waitFor();
  await sql`update members set role = 'admin' where merchant_id = ${app.merchant.merchantId}`;
  await page.reload();
  await page.getByText('There is a wait of 24 hours').waitFor();
  await page.getByRole('link', { name: 'Change key' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Turn the wait off' }).count(), 0, 'only owners');
  await sql`update members set role = 'owner' where merchant_id = ${app.merchant.merchantId}`;
  noFaults();
});

test('the first key of another coin says in advance that it waits, and its card shows this until then', async () => {
  const { sql } = app.app.ctx.db;
  await sql`update wallets set created_at = now() - interval '25 hours'`;
  await page.reload();
  await page.getByText('You already accept another currency, so the key you add takes effect after 24 hours').first().waitFor();
  await audit('wallets, a further coin would wait');
  await page.getByRole('link', { name: 'Set up Litecoin' }).click();
  await page.getByLabel('Account key').fill(HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/2'/0'").publicExtendedKey);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('so this key takes effect after 24 hours. Until then customers can’t choose Litecoin.').waitFor();
  await audit('a further coin that waits');
  const address = (await page.locator('[data-address]').nth(1).getAttribute('data-address'))!;
  await page.getByLabel('Last 6 characters').fill(address.slice(-6));
  await page.getByRole('button', { name: 'Use this key' }).click();
  await page.getByRole('button', { name: 'Keep the defaults' }).click();
  await page.getByText('Until then customers can’t choose Litecoin.').waitFor();
  // Besides the wait: no source of the coin is set up.
  await page.getByRole('list', { name: 'What Litecoin still needs' }).getByRole('link', { name: 'Read the guide' }).waitFor();
  await audit('a further coin that also needs a source');
  await page.getByRole('link', { name: 'Done', exact: true }).click();
  await page.getByText('Starts soon', { exact: true }).waitFor();
  await audit('a further coin, waiting');
  await page.getByRole('button', { name: 'Discard this key' }).click();
  await page.getByText('Starts soon', { exact: true }).waitFor({ state: 'detached' });
  noFaults();
});

test('links: empty list, created by keyboard, edited, shown as a QR code, archived; customers open one, choose an amount and reach the payment', async () => {
  await go('test/links', 'Links & buttons');
  await page.getByText('No payment links yet').waitFor();
  await audit('links, none');
  await page.getByRole('button', { name: 'New link' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.getByLabel('Name', { exact: true }).fill('Gift');
  await page.getByLabel('Return URL (optional)').fill('ftp://x.example/');
  await page.getByLabel('Amount', { exact: true }).fill('25.001');
  await page.keyboard.press('Enter');
  await page.getByText('Amount must have at most 2 decimals').waitFor();
  await audit('new link, refused');
  noFaults(/400 .*links/);
  await page.getByLabel('Amount', { exact: true }).fill('20.00');
  await page.getByLabel('Currency').selectOption('EUR');
  await page.getByLabel('Return URL (optional)').fill('');
  await page.getByRole('button', { name: 'Create link' }).click();
  const code = page.getByAltText('QR code of the payment link');
  await code.waitFor();
  const url = await readQr(code);
  assert.match(url, /\/link\/lnk_[0-9A-Za-z]{24}$/);
  assert.match((await page.getByRole('link', { name: 'Download QR code' }).getAttribute('href'))!, /^data:image\/svg/);
  await audit('the new link');
  const shown = await openTab(browser, url);
  await shown.page.getByText('€20.00').waitFor();
  await shown.close();
  await page.keyboard.press('Escape');
  await page.getByRole('cell', { name: '€20.00' }).waitFor();
  await audit('links');
  // The terms of a link can be changed: an open amount becomes a price that the customer chooses, in dollars.
  await page.getByRole('button', { name: 'Actions for Gift' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('menuitem', { name: 'Edit' }).click();
  await page.getByRole('dialog', { name: 'Edit payment link' }).waitFor();
  assert.equal(await page.getByLabel('Amount', { exact: true }).inputValue(), '20.00');
  await audit('edit link');
  await page.getByLabel('Name', { exact: true }).fill('Donation');
  await page.getByLabel('Currency').selectOption('USD');
  await page.getByLabel('Price').selectOption('open');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByRole('link', { name: 'Donation' }).waitFor();
  await page.getByRole('cell', { name: 'Customer chooses', exact: true }).waitFor();
  await page.getByLabel('State').selectOption('archived');
  await page.getByText('No links with this state').waitFor();
  await audit('links, filtered empty');
  await page.getByRole('button', { name: 'Show all links' }).click();
  for (const scripts of [true, false]) {
    const guest = await openTab(browser, url, { scripts });
    if (scripts) await audit('the page of a link', { on: guest.page });
    await guest.page.getByLabel('Total (USD)').fill('12.50');
    await guest.page.getByRole('button', { name: 'Continue' }).click();
    await guest.page.getByText('$12.50').waitFor();
    assert.match(guest.page.url(), /\/pay\?id=pay_/);
    assert.deepEqual(guest.faults, []);
    await guest.close();
  }
  await linkContinues();
  await page.reload();
  await page.getByRole('link', { name: '2, newest' }).waitFor();
  await page.getByRole('button', { name: 'Actions for Donation' }).focus();
  await page.keyboard.press('Enter');
  for (const entry of ['Show QR code', 'Edit']) {
    await page.locator('[role=menuitem]:focus', { hasText: entry }).waitFor();
    await page.keyboard.press('ArrowDown');
  }
  await page.locator('[role=menuitem]:focus', { hasText: 'Archive' }).waitFor();
  await page.keyboard.press('Enter');
  await page.locator('tbody').getByText('Archived', { exact: true }).waitFor();
  noFaults();
});

/** While nothing can be paid, the page of a link says so and checks again; then it shows its form. */
async function linkContinues(): Promise<void> {
  const { sql } = app.app.ctx.db;
  const { id } = (await app.live.post('/v1/payment_links', { name: 'Mug', amount: '25.00' })).json;
  const url = `${app.url}/link/${id}`;
  const isOpen = () => fetch(url).then(({ ok }) => ok);
  const paused = await sql<{ id: string }[]>`update wallets set active = false, paused_at = clock_timestamp() where active returning id`;
  await eventually(isOpen, (open) => !open);
  const guests = await Promise.all([true, false].map((scripts) => openTab(browser, url, { scripts })));
  for (const guest of guests) {
    await guest.page.getByText('This page checks again automatically').waitFor();
    assert.equal(await guest.page.locator('main').getByRole('button').count(), 0);
  }
  await audit('the page of a link that nobody can pay', { on: guests[0]!.page });
  await sql`update wallets set active = true, paused_at = null where id = any(${paused.map(({ id: wallet }) => wallet)})`;
  for (const guest of guests) {
    await guest.page.locator('main').getByRole('button', { name: 'Continue' }).waitFor();
    await guest.close();
  }
  await sql`delete from payment_links where id = ${id}`;
}

test('the button: a secret key is cleared with a warning, a public one is in the HTML, the preview follows', async () => {
  await page.getByRole('button', { name: 'Button', exact: true }).click();
  assert.match(page.url(), /view=button/);
  await page.getByText('No origins are listed').waitFor();
  const box = page.getByLabel('Public key');
  await box.fill(app.merchant.keys.testSecret);
  await page.getByText('That was a secret key').waitFor();
  assert.ok(!(await page.content()).includes(app.merchant.keys.testSecret));
  await audit('button, secret key');
  await box.fill(app.merchant.keys.livePublic);
  await page.getByText('This key does not belong to test mode.').waitFor();
  await box.fill(app.merchant.keys.testPublic);
  await page.getByLabel('Button text').fill('Buy <now>');
  await page.locator('[data-preview]', { hasText: 'Buy <now>' }).waitFor();
  const code = await page.locator('pre').innerText();
  assert.ok(code.includes(`public-key="${app.merchant.keys.testPublic}"`) && code.includes('Buy &lt;now&gt;'), code);
  assert.ok(code.includes(`${app.config.publicUrl}/embed/v1.js`));
  await page.getByLabel('Currency').selectOption('EUR');
  await page.locator('pre', { hasText: 'amount="25.00" currency-fiat="EUR"' }).waitFor();
  await audit('button');
  noFaults();
});

test('checkout: unsaved settings show in the preview; an error is shown at its field; once saved, customers see them', async () => {
  await go('test/checkout', 'Checkout');
  const frame = page.frameLocator('iframe[title="Payment page preview"]');
  await frame.getByText('Pay with', { exact: false }).first().waitFor();
  await audit('checkout');
  // The operator of this install lowered the default table.
  await page.locator('summary', { hasText: 'Litecoin confirmations' }).click();
  const asksFor = page.getByText('The recommended minimum is 40 confirmations.');
  await asksFor.waitFor();
  await audit('checkout, lowered confirmations');
  await page.getByLabel('LTC: larger amounts').fill('40');
  await asksFor.waitFor({ state: 'detached' });
  await page.getByLabel('LTC: larger amounts').fill('3');
  await asksFor.waitFor();
  await page.getByLabel('Dogecoin').uncheck();
  await frame.locator('#main:not(:has([value=DOGE]))').waitFor();
  await page.getByLabel('Payment state').selectOption('expired');
  await frame.locator('[data-state=expired]').waitFor();
  assert.equal(await frame.locator('#again').count(), 0);
  await page.getByLabel('Let customers cancel and restart payments').check();
  await frame.locator('#again').waitFor();
  const states = await page
    .getByLabel('Payment state')
    .locator('option')
    .evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value));
  // Each draws the whole page.
  for (const state of states.filter((_, i) => isLongRun || i % 10 === 0)) {
    const shown = page.waitForResponse(
      (reply) => reply.url().includes(`state=${encodeURIComponent(state).replaceAll('%20', '+')}`) && reply.ok(),
    );
    await page.getByLabel('Payment state').selectOption(state);
    await shown;
  }
  await page.getByRole('button', { name: 'Desktop' }).click();
  await page.getByRole('button', { name: 'Dark', exact: true }).click();
  await frame.locator('html[data-theme=dark] #main').waitFor();
  await page.getByLabel('Payment window (minutes)').fill('5');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.locator('input[aria-invalid=true]').waitFor();
  assert.equal(await page.getByText('Payment window (minutes) is invalid').count(), 1, 'by its label, once');
  assert.equal(await page.getByText('window_minutes').count(), 0);
  await audit('checkout, refused');
  noFaults(/400 .*settings/);
  await page.getByLabel('Payment window (minutes)').fill('45');
  await page.getByLabel('Allowed origins').fill('https://shop.example\nhttps://www.shop.example');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('Saved.', { exact: true }).first().waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Checkout' }).waitFor();
  assert.equal(await page.getByLabel('Payment window (minutes)').inputValue(), '45');
  assert.equal(await page.getByLabel('Dogecoin').isChecked(), false);
  noFaults();
});

test('business: saved; turning on erasing requires a confirmation', async () => {
  await go('live/business', 'Business');
  // Each card is saved by its button, which is active once something changed.
  const buttons = page.getByRole('button', { name: /^Save/ });
  await buttons.first().waitFor();
  assert.equal(await buttons.count(), 5);
  for (const button of await buttons.all()) assert.ok(await button.isDisabled());
  await page.getByLabel('Display currency').selectOption('EUR');
  await page.getByLabel('Reject unknown parameters').check();
  assert.equal(await page.locator('button[type=submit]:enabled', { hasText: 'Save' }).count(), 2);
  await page.reload();
  await page.getByLabel('Display currency').waitFor();
  assert.deepEqual(
    [await page.getByLabel('Display currency').inputValue(), await page.getByLabel('Reject unknown parameters').isChecked()],
    ['USD', false],
    'nothing is saved before',
  );
  await page.getByLabel('Website').fill('https://corner.example');
  await page.getByLabel('Name').fill('Corner Coffee');
  await page.keyboard.press('Enter');
  await page.getByText('Saved.').first().waitFor();
  await page.getByRole('banner').getByText('Corner Coffee').waitFor();
  await page.getByLabel('Delete customer data after a payment ends').check();
  await page.getByLabel('Days after the payment ends').fill('60');
  await audit('business');
  await page.locator('form').filter({ hasText: 'Deletes customers' }).getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog').getByText('You can only restore it from a backup.').waitFor();
  await audit('before erasing');
  // The toast of the first save may still be open.
  const saved = page.waitForResponse((reply) => reply.url().endsWith('/settings/business') && reply.request().method() === 'POST');
  await page.getByRole('button', { name: 'Delete data' }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await saved;
  assert.equal((await owner.get('/live/settings/business')).json.retention_days, 60);
  noFaults();
});

longTest('business: amounts are shown in the display currency too, marked as approximate', async () => {
  await go('test/business', 'Business');
  const saved = page.waitForResponse((reply) => reply.url().endsWith('/settings/business') && reply.request().method() === 'POST');
  await page.getByLabel('Display currency').selectOption('EUR');
  await page.getByRole('button', { name: /^Save.*Currency and time zone/ }).click();
  await saved;
  await audit('display currency');
  await go('test/payments', 'Payments');
  const row = page.locator('tbody tr').first();
  await row
    .getByText(/^≈ €[\d,]+\.\d\d$/)
    .first()
    .waitFor();
  await audit('payments with a display currency');
  await row.getByRole('link').first().click();
  await page
    .getByText(/^≈ €[\d,]+\.\d\d$/)
    .first()
    .waitFor();
  await audit('payment with a display currency');
  await go('test/home', 'Home');
  await page
    .locator('dl')
    .getByText(/^≈ €[\d,]+\.\d\d$/)
    .waitFor();
  await go('test/reports', 'Reports');
  await page.getByText(/\$1 = [\d.]+ EUR/).waitFor();
  await audit('reports with a display currency');
  await owner.post('/test/settings/business', { display_currency: 'USD' });
  noFaults();
});

longTest('business: unknown request parameters are refused once the box is checked, in both modes', async () => {
  await go('test/business', 'Business');
  const box = page.getByLabel('Reject unknown parameters');
  assert.equal(await box.isChecked(), false);
  const saved = page.waitForResponse((reply) => reply.url().endsWith('/settings/business') && reply.request().method() === 'POST');
  await box.click();
  await page.getByRole('button', { name: /^Save.*API requests/ }).click();
  await saved;
  assert.equal((await owner.get('/live/settings/business')).json.strict_parameters, true);
  assert.equal((await app.test.get('/api/payments?page=2')).json.error.code, 'parameter_unknown');
  await audit('strict parameters');
  noFaults();
});

longTest('a screen that fails to load shows the reason and can be retried; a viewer can look but not change', async () => {
  const tryAgain = await failRequests('**/dashboard/api/test/settings/checkout');
  await go('test/checkout', 'Checkout');
  await page.getByRole('alert').getByText('Something failed.').waitFor();
  await audit('checkout, error');
  await tryAgain();
  await page.getByLabel('Payment window (minutes)').waitFor();
  noFaults(/500 .*checkout/);
  await app.app.ctx.db.sql`update members set role = 'viewer' where merchant_id = ${app.merchant.merchantId}`;
  await page.reload();
  await page.getByText('Only owners and admins can change these settings.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Save changes' }).count(), 0);
  await go('live/wallets', 'Wallets');
  await page.getByText('Native SegWit').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Change key' }).count(), 0);
  await go('live/links', 'Links & buttons');
  await page.getByText('No payment links yet').waitFor();
  assert.equal(await page.getByRole('button', { name: 'New link' }).count(), 0);
  await app.app.ctx.db.sql`update members set role = 'owner' where merchant_id = ${app.merchant.merchantId}`;
  noFaults();
});

for (const scripts of [true, false]) {
  test(`a customer cancels and pays again, ${scripts ? 'with' : 'without'} scripts`, async () => {
    await owner.post('/test/settings/checkout', { payer_cancel: true });
    const { payment_url } = (
      await app.test.post('/api/payment/create/simple', { amount_usd: 8, return_url: 'https://shop.example/thanks' })
    ).json;
    const payer = await openTab(browser, payment_url, { scripts });
    await payer.page.getByText('Cancel this payment').first().click();
    if (scripts) await audit('canceling', { on: payer.page });
    await payer.page.getByRole('button', { name: 'Cancel this payment' }).click();
    await payer.page.getByRole('heading', { name: 'This payment was canceled' }).waitFor();
    if (scripts) await audit('cancelled', { on: payer.page });
    await payer.page.getByRole('button', { name: 'Start a new payment' }).click();
    await payer.page.getByText('Pay with', { exact: true }).waitFor();
    assert.notEqual(payer.page.url(), payment_url);
    assert.match(payer.page.url(), /\/pay\?id=pay_/);
    assert.deepEqual(payer.faults, []);
    await payer.close();
  });
}
