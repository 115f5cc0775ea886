/**
 * Team, account, log, plan, notifications and the operator's area in a real browser, by keyboard where it matters, with a real passkey.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { changeFromJson } from '../../src/people/members.ts';
import { eventually } from '../kit/app.ts';
import { openTab, type Tab } from '../kit/browser.ts';
import { addAuthenticator, noFaults as noFaultsIn, OWNER, startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';
import { createSigner, serveReleases } from '../kit/releases.ts';

const signer = createSigner();
const releases = await serveReleases(signer);
after(async () => {
  await releases.stop();
  signer.remove();
});
const { app, browser, page, open, openOwn, signOut, setSecondFactor, audit, noFaults, forgiveFaults, failRequests } = await startDashboard({
  environment: { RELEASES_URL: `${releases.url}/releases.json`, RELEASES_KEY: signer.key },
});
let guest: Tab;
let link = '';

const heading = (name: string, on: Page = page) => on.getByRole('heading', { name, exact: true }).waitFor();
const follow = async (name: string) => {
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true }).click();
  await heading(name);
};

test('an owner invites a member by keyboard and sees the link once', async () => {
  await follow('Team');
  await page.getByText('No pending invites').waitFor();
  await audit('team');
  await page.getByRole('button', { name: 'Invite a teammate' }).focus();
  await page.keyboard.press('Enter');
  await page.getByLabel('Email').fill('dana@shop.example');
  await audit('invite');
  await page.getByRole('dialog').getByLabel('Role').selectOption('admin');
  await page.getByLabel('Email').press('Enter');
  await heading('Copy the invite link');
  link = (await page.getByRole('dialog').locator('code').innerText()).trim();
  await audit('invitation');
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByText('dana@shop.example').waitFor();
  assert.equal(await page.getByText(link).count(), 0);
  noFaults();
});

test('an invited person creates an account from the link and is signed in; the link then no longer works', async () => {
  guest = await openTab(browser, link, { width: 1280 });
  await heading('Join Test shop', guest.page);
  await audit('invite page', { on: guest.page });
  await guest.page.getByLabel('Name').fill('Dana Doe');
  await guest.page.getByLabel('Password').fill('a long password of hers');
  await guest.page.getByRole('button', { name: 'Create account and join' }).click();
  await heading('Home', guest.page);
  await guest.page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Home' }).waitFor();
  assert.equal(await guest.page.getByRole('link', { name: 'Operator' }).count(), 0);
  noFaultsIn(guest);
  await guest.page.goto(link);
  await guest.page.getByText('This invitation was already used').waitFor();
  guest.faults.splice(0);
  await page.reload();
  await page.getByText('Dana Doe').first().waitFor();
});

test('a role is changed, with the keys that the member made; the last owner cannot be removed, and the reason is shown', async () => {
  const { sql } = app.app.ctx.db;
  await sql`update keys set name = 'Dana’s key', made_by = (select id from users where name = 'Dana Doe') where mode = 'live' and kind = 'secret'`;
  await page.getByLabel('Role of Dana Doe').selectOption('developer');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('What the new role doesn’t include ends').waitFor();
  await dialog.getByLabel('Dana’s key').check();
  await audit('change of a role');
  await dialog.getByRole('button', { name: 'Change role' }).click();
  await page.getByText('Role updated.').waitFor();
  await dialog.waitFor({ state: 'hidden' });
  assert.equal((await sql`select 1 from keys where name = 'Dana’s key' and revoked_at is null`).length, 0);
  const [row] = await app.app.ctx.db.sql`select role from members m join users u on u.id = m.user_id where u.name = 'Dana Doe'`;
  assert.equal(row!.role, 'developer');
  noFaults();
  await page.getByRole('button', { name: `Remove ${OWNER.name}` }).click();
  await dialog.getByText('made no API key').waitFor();
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await dialog.getByText('This is the only owner.').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  forgiveFaults();
});

test('a passkey is added with an authenticator that verifies its user, gets a name, and signs in without a password', async () => {
  const devtools = await addAuthenticator(page);
  await openOwn('Security');
  await page.getByText('No passkeys yet').waitFor();
  await audit('security, no passkeys');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Work laptop');
  await page.keyboard.press('Enter');
  await page.getByText('Passkey added.').waitFor();
  await page.getByRole('button', { name: 'Rename Work laptop' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Blue laptop');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Remove Blue laptop' }).waitFor();
  await audit('security, a passkey');
  // This authenticator would accept the browser's automatic offer before anyone can press the button.
  await page.addInitScript('PublicKeyCredential.isConditionalMediationAvailable = async () => false');
  await signOut();
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  await heading('Home');
  const [entry] = await app.app.ctx.db.sql`select after from audit_log where action = 'session.started' order by id desc limit 1`;
  assert.deepEqual(changeFromJson(entry!.after), { how: 'passkey' });
  noFaults();
  await devtools.send('WebAuthn.disable');
});

test('an authenticator that has not verified its user cannot sign in', async () => {
  const stranger = await openTab(browser, `${app.config.publicUrl}/dashboard/sign-in`, { width: 1280 });
  const reply = await stranger.page.evaluate(async () => {
    const send = (path: string, body: object) =>
      fetch(`/dashboard/api${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-florin-dashboard': '1' },
        body: JSON.stringify(body),
      });
    await send('/sign-in/passkey/options', {});
    // 37 bytes whose flags say "present" and not "verified".
    const data = new Uint8Array(37);
    data[32] = 1;
    const text = btoa(String.fromCharCode(...data));
    const answer = await send('/sign-in/passkey', { response: { id: 'x', response: { authenticatorData: text } } });
    return answer.status;
  });
  assert.equal(reply, 401);
  await stranger.close();
});

test('two-factor authentication: turned on, required for everyone, and members without it reach only their Security page', async () => {
  await openOwn('Security');
  await setSecondFactor();
  await page.getByRole('button', { name: 'New backup codes' }).click();
  await page.getByRole('dialog').getByLabel('Your password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Create new codes' }).click();
  await page.getByText('The old codes no longer work.').waitFor();
  assert.equal(await page.getByRole('dialog').locator('li').count(), 10);
  await page.getByRole('button', { name: 'I’ve saved them' }).click();
  await follow('Team');
  await page.getByText('Not set up yet: Dana Doe').waitFor();
  await page.getByRole('button', { name: 'Require 2FA' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Require 2FA' }).click();
  await page.getByText('Members without two-factor authentication').waitFor();
  await audit('team, required');
  noFaults();
  guest.faults.splice(0);
  await guest.page.goto(`${app.config.publicUrl}/dashboard/test/payments`);
  await heading('Set up two-factor authentication', guest.page);
  await audit('locked', { on: guest.page });
  assert.equal(await guest.page.getByRole('navigation', { name: 'Main' }).getByRole('link').count(), 0);
  await guest.page.getByRole('link', { name: 'Set it up' }).click();
  await heading('Security', guest.page);
  await guest.page.getByRole('button', { name: 'Set up authenticator app' }).waitFor();
});

test('other sign-ins are ended, and the password is changed', async () => {
  await openOwn('Security');
  await app.app.ctx.db.sql`
    insert into sessions (id, user_id, token, expires_at, ip_address, user_agent)
    select 'ses_old', id, 'old', now() + interval '1 day', '192.0.2.7', 'Mozilla/5.0 (iPhone) Safari/605' from users where email = ${OWNER.email}`;
  await page.reload();
  await page.getByRole('button', { name: 'Sign out Safari on iOS, 192.0.2.7' }).waitFor();
  await audit('security, two sign-ins');
  await page.getByRole('button', { name: 'Sign out everywhere else' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Sign out', exact: true }).click();
  await page.getByText('Signed out everywhere else.').waitFor();
  assert.equal((await app.app.ctx.db.sql`select 1 from sessions where id = 'ses_old'`).length, 0);
  noFaults();
  await page.getByRole('button', { name: 'Change password' }).click();
  await page.getByLabel('Current password').fill('not the password');
  await page.getByLabel('New password').fill('a better long password');
  await page.getByRole('dialog').getByRole('button', { name: 'Change password' }).click();
  await page.getByText('The password is wrong.').first().waitFor();
  forgiveFaults();
  await page.getByLabel('Current password').fill(OWNER.password);
  await page.getByRole('dialog').getByRole('button', { name: 'Change password' }).click();
  await page.getByText('Password changed.').waitFor();
  noFaults();
});

test('the audit log: who did what, filtered in the URL, empty by filter, as a file; each line links to its object', async () => {
  await follow('Audit log');
  await page.getByRole('row').filter({ hasText: 'Changed a role' }).getByText('developer').waitFor();
  await audit('audit log');
  await page.getByLabel('Action', { exact: true }).selectOption('member.invited');
  await page.getByRole('row').filter({ hasText: 'dana@shop.example' }).waitFor();
  assert.match(page.url(), /\?action=member\.invited$/);
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download CSV' }).click()]);
  const csv = await readFile(await file.path(), 'utf8');
  assert.match(csv, /^id,at,actor,actor_id,action,object,mode,before,after,ip\r\n/);
  assert.equal(csv.trim().split('\r\n').length, 2);
  assert.match(csv, /member\.invited,dana@shop\.example,,,"\{""role"":""admin""\}"/);
  await page.getByLabel('Test or live').selectOption('live');
  await page.getByText('No entries match these filters').waitFor();
  await audit('audit log, filtered empty');
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await page.getByRole('row').filter({ hasText: 'Changed a role' }).getByRole('link', { name: 'Dana Doe' }).click();
  await heading('Team');
  await follow('Audit log');
  await page.getByRole('row').filter({ hasText: 'Created new backup codes' }).getByRole('link', { name: 'Own account' }).click();
  await heading('Security');
  // Actions in live mode are shown there, whichever mode is selected.
  await app.app.ctx.db.sql`insert into audit_log (merchant_id, mode, actor_name, action, object, ip)
    values (${app.merchant.merchantId}, 'live', 'Somebody', 'wallet.set', 'BTC', '')`;
  await open('test/audit');
  await page.getByRole('row').filter({ hasText: 'Set up a wallet' }).getByRole('link', { name: 'BTC' }).click();
  await heading('Wallets');
  assert.match(page.url(), /\/dashboard\/live\/wallets$/);
  await open('test/audit');
  await heading('Audit log');
  noFaults();
});

test('the bell counts new notices without a reload, and opening the list marks them as read', async () => {
  const { sql } = app.app.ctx.db;
  await follow('Plan & usage');
  await page.getByText('no limit', { exact: true }).waitFor();
  await audit('usage');
  // What earlier tests did to the account was notified, too.
  await sql`delete from notices`;
  await sql`insert into notices (merchant_id, mode, kind, detail)
    values (${app.merchant.merchantId}, 'live', 'wallet_changed', ${sql.json({ coin: 'BTC' })}),
      (${app.merchant.merchantId}, 'test', 'payment_attention', ${sql.json({ payment: 'pay_x', exception: 'underpaid' })})`;
  // The bell in live mode shows nothing from test mode.
  await open('live/usage');
  await page.getByRole('button', { name: 'Notifications, 1 new' }).waitFor();
  await open('test/usage');
  await page.getByRole('button', { name: 'Notifications, 2 new' }).click();
  await page.getByText('The BTC wallet that receives payments was changed.').waitFor();
  await audit('bell');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.match(String(await page.evaluate('document.activeElement.ariaLabel')), /^Notifications/, 'the focus comes back');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'All notifications and settings' }).click();
  await heading('Notifications');
  await page.getByRole('button', { name: 'Notifications', exact: true }).waitFor();
  await page.getByLabel('Wallet changed: in the dashboard').click();
  await page.getByText('The BTC wallet that receives payments was changed.').waitFor({ state: 'hidden' });
  await audit('notifications');
  // What says the same of several payments is one line with the rest on demand.
  await sql`insert into notices (merchant_id, mode, kind, detail)
    select ${app.merchant.merchantId}, 'test', 'payment_attention', jsonb_build_object('payment', 'pay_' || n, 'exception', 'late')
    from generate_series(1, 4) as n`;
  await page.reload();
  // With the one from before.
  const more = page.locator('main').getByText('4 more like this');
  await more.waitFor();
  const lines = page.locator('main a[href*="/payments/pay_"]');
  assert.deepEqual(await lines.evaluateAll((all) => all.map((one) => one.checkVisibility())), [true, false, false, false, false]);
  await more.click();
  assert.deepEqual(await lines.evaluateAll((all) => all.map((one) => one.checkVisibility())), [true, true, true, true, true]);
  await audit('notifications of one kind');
  noFaults();
});

test('the operator sees the install and sets a plan, which the usage page then shows', async () => {
  await follow('Operator');
  await page.getByText('Ready', { exact: true }).waitFor();
  await page.getByText('None yet. Run').waitFor();
  await page.getByText('Operators (1)').waitFor();
  await audit('operator');
  await page.getByRole('button', { name: 'Run checks' }).click();
  await page.getByText('every commit is on disk').waitFor();
  await page.getByRole('button', { name: 'Check again' }).waitFor();
  const look = page.getByRole('button', { name: 'Check for a newer version' });
  assert.deepEqual(releases.asked, [], 'nothing is asked until somebody wants to know');
  signer.sign('releases.json', JSON.stringify({ published: '2030-02-01', releases: [] }));
  await look.click();
  await page.getByText('This is the newest version. The list is from 2030-02-01.').waitFor();
  const newer = { version: '99.0.1', date: '2030-01-31', security: true, breaking: true };
  signer.sign('releases.json', JSON.stringify({ published: '2030-02-01', releases: [newer] }));
  await look.click();
  await page.getByText('99.0.1 of 2030-01-31, fixes a vulnerability, going back needs a backup').waitFor();
  await page.getByText('To upgrade: git pull && npm ci, then restart it').waitFor();
  await audit('operator, checked');
  await page.getByLabel('Plan of Test shop').selectOption('starter');
  await page.getByText('Plan changed.').waitFor();
  await follow('Plan & usage');
  await page.getByText('of 100', { exact: true }).waitFor();
  noFaults();
});

longTest(
  'keyboard: the palette jumps and searches, g navigates, j and k move through rows, and single keys can be turned off',
  async () => {
    await app.test.post('/api/payment/create/simple', { amount_usd: 31, return_url: 'https://a.example/', invoice_id: 'INV-31' });
    await app.test.post('/api/payment/create/simple', { amount_usd: 32, return_url: 'https://a.example/' });
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /Search screens/ }).fill('audit');
    await audit('palette');
    await page.keyboard.press('Enter');
    await heading('Audit log');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /Search screens/ }).fill('nv-31');
    const found = page.getByRole('option', { name: /\$31\.00 Pending TEST Invoice: INV-31/ });
    await found.waitFor();
    assert.equal(await found.locator('mark').textContent(), 'NV-31');
    await page.getByRole('option', { name: 'Show all payments with “nv-31”' }).waitFor();
    await audit('palette with payments');
    // The payment is already selected; its ID is in the URL.
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: '$31.00' }).waitFor();
    assert.match(page.url(), /payments\?search=nv-31$/);
    // Results follow the typing, without Enter.
    await page.getByRole('searchbox', { name: 'Search payments' }).fill('$32.00');
    await page.getByRole('link', { name: '$32.00' }).waitFor();
    await page.getByRole('link', { name: '$31.00' }).waitFor({ state: 'detached' });
    assert.equal(
      await page
        .getByRole('cell', { name: /^Amount: 32\.00 USD$/ })
        .locator('mark')
        .textContent(),
      '32.00',
    );
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Search payments');
    await audit('payments with a search');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /Search screens/ }).fill('INV-31');
    await found.waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/payments\/pay_/);
    // The second key counts only for a moment.
    const goTo = (key: string, name: string) =>
      eventually(
        async () => {
          await page.keyboard.press('g');
          await page.keyboard.press(key);
          return page.getByRole('heading', { name, exact: true }).isVisible();
        },
        (isThere) => isThere,
      );
    await goTo('t', 'Team');
    await goTo('p', 'Payments');
    await page.getByRole('link', { name: '$32.00' }).waitFor();
    for (const key of ['j', 'j', 'k', 'j']) await page.keyboard.press(key);
    assert.equal(await page.evaluate('document.activeElement.textContent'), '$31.00');
    await page.keyboard.press('Enter');
    await page.getByText('Created with a secret key').waitFor();
    await page.keyboard.press('?');
    await heading('Keys');
    await audit('keys');
    await page.getByLabel(/Enable single-key shortcuts/).uncheck();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await page.keyboard.press('?');
    await page.keyboard.press('g');
    await page.keyboard.press('t');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /Search screens/ }).waitFor();
    assert.equal(await page.getByRole('heading', { name: 'Keys' }).count(), 0);
    assert.match(page.url(), /payments\/pay_/);
    await page.keyboard.press('Escape');
    noFaults();
  },
);

longTest('offline and too many requests are shown above the screen and disappear automatically; a failure is shown in place', async () => {
  await page.context().setOffline(true);
  const stripe = page.getByText('Can’t reach the server.').first();
  await eventually(
    async () => {
      // A pending answer removed it: the browser reports it again.
      if (!(await stripe.isVisible())) await page.evaluate("dispatchEvent(new Event('offline'))");
      return stripe.isVisible();
    },
    (isThere) => isThere,
  );
  await audit('offline');
  await page.context().setOffline(false);
  await stripe.waitFor({ state: 'hidden' });
  forgiveFaults();
  let isRefusing = true;
  await page.route('**/api/test/team', (route) =>
    isRefusing
      ? route.fulfill({
          status: 429,
          headers: { 'retry-after': '2' },
          json: { error: { type: 'rate_limit_exceeded', code: 'rate_limit_exceeded', message: 'Too many requests.' } },
        })
      : route.fallback(),
  );
  await open('test/team');
  await page.getByText('Too many requests. Retrying in').waitFor();
  await audit('too many requests');
  isRefusing = false;
  await page.getByText('Members (2)').waitFor();
  await page.unroute('**/api/test/team');
  const tryAgain = await failRequests('**/api/test/usage');
  await open('test/usage');
  await page.getByRole('alert').getByText('Something failed.').waitFor();
  await audit('usage, failed');
  await tryAgain();
  await page.getByText('of 100', { exact: true }).waitFor();
  forgiveFaults();
});

test('a member of two merchants switches in the top bar, which names the current one', async () => {
  const { createMerchant } = await import('../../src/merchants/merchants.ts');
  const other = await createMerchant(app.app.ctx, { name: 'Second shop' });
  const bar = page.getByRole('banner');
  await bar.getByText('Test shop', { exact: true }).waitFor();
  assert.equal(await bar.getByRole('button', { name: 'Merchant' }).count(), 0, 'one merchant leaves nothing to switch to');
  await app.app.ctx.db.sql`
    insert into members (merchant_id, user_id, role) select ${other.merchantId}, id, 'owner' from users where email = ${OWNER.email}`;
  await app.app.ctx.db
    .sql`update merchants set name = ${`A shop with ${'a very long name '.repeat(5)}`} where id = ${app.merchant.merchantId}`;
  await page.reload();
  await bar.getByRole('button', { name: 'Merchant A shop with' }).click();
  await page.getByRole('menuitem', { name: 'Switch to Second shop' }).waitFor();
  await audit('merchants');
  // However long a name is, it fits the screen, and everything beside it stays reachable.
  for (const width of [360, 700, 1280]) {
    await page.setViewportSize({ width, height: 780 });
    for (const name of ['Merchant A shop with', 'Notifications', 'Account']) {
      const box = (await bar.getByRole('button', { name }).boundingBox())!;
      assert.ok(box.x >= 0 && box.x + box.width <= width, `${name} at ${width} px`);
    }
  }
  await page.getByRole('menuitem', { name: 'Switch to Second shop' }).click();
  await bar.getByRole('button', { name: 'Merchant Second shop' }).waitFor();
  noFaults();
});
