/**
 * The dashboard in a real browser: from the set-up link to a decision on a payment, accessible in both themes, under its security policy.
 */
// Invariant: The dashboard works, accessible in both themes, under its security policy.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeFromJson } from '../../src/people/members.ts';
import { OWNER, startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';
import { freshTotp, totp } from '../kit/person.ts';

const { app, page, open, openOwn, signUp, signOut, audit, noFaults, forgiveFaults, ageSessions } = await startDashboard({
  signedUp: false,
});
const payment: string = (
  await app.test.post('/api/payment/create/simple', {
    amount_usd: 1252.5,
    return_url: 'https://shop.example/thanks',
    invoice_id: 'INV-77',
  })
).json.transaction_id;
let secret = '';

const signIn = async () => {
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
};

test('the set-up link creates the owner and opens the dashboard', async () => {
  await page.getByRole('heading', { name: 'Create your account' }).waitFor();
  await audit('set-up');
  await signUp();
  assert.match(page.url(), /\/dashboard\/test\/home$/);
  await page.getByText('TEST DATA').waitFor();
  noFaults();
});

test('when signed out, a screen asks you to sign in and then opens', async () => {
  await signOut();
  await audit('sign-in');
  noFaults();
  // Without a mail server the page shows the operator's command, safe to paste into a shell.
  await page.getByRole('link', { name: 'Forgot password?' }).click();
  await audit('forgot password');
  await page.getByLabel('Email').fill("o'hara@shop.example");
  await page.getByRole('button', { name: 'Send reset link' }).click();
  await page.getByText(`./florin user password --email 'o'\\''hara@shop.example'`).waitFor();
  await audit('forgot password, no mail server');
  await page.getByRole('link', { name: 'Back to sign in' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  noFaults();
  await open('set-up');
  await page.getByLabel('Setup code').fill('https://pay.example/setup#token=made-up');
  await audit('set up, opened without the link');
  await open('reset-password#made-up');
  await page.getByLabel('New password').fill('correct horse battery');
  await audit('reset password');
  await page.getByRole('button', { name: 'Change password' }).click();
  await page.getByRole('link', { name: 'Get a new link' }).waitFor();
  await audit('reset password, link used');
  noFaults(/^404 /);
  await open('test/payments?search=INV-77');
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await signIn();
  await page.getByRole('cell', { name: 'Invoice: INV-77' }).waitFor();
  assert.match(page.url(), /\/dashboard\/test\/payments\?search=INV-77$/);
  // Requests from before the sign-in may be refused at any moment until it.
  noFaults(/^401 /);
});

test('two-factor authentication is set up from the code on the screen, and required from then on', async () => {
  await openOwn('Security');
  await page.getByLabel('Your password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Set up authenticator app' }).click();
  await page.getByAltText('QR code for the authenticator').waitFor();
  secret = (await page.locator('ol code').first().innerText()).trim();
  await audit('two-factor authentication');
  await page.getByLabel('Code from your authenticator app').fill(totp(secret));
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByText('Two-factor authentication is on.').waitFor();
  await page.getByRole('button', { name: 'Turn off' }).waitFor();
  await audit('security');
  await signOut();
  await signIn();
  await page.getByRole('heading', { name: 'Two-factor authentication' }).waitFor();
  await audit('second step');
  noFaults();
  await page.getByLabel('Code', { exact: true }).fill('000000');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByText('This code is not valid.').waitFor();
  forgiveFaults();
  await page.getByLabel('Code', { exact: true }).fill(await freshTotp(app, secret));
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Home' }).waitFor();
  await page.getByRole('link', { name: 'Payments', exact: true }).click();
  await page.getByRole('heading', { name: 'Payments' }).waitFor();
  noFaults();
});

test('the list: filters in the URL, empty by filter and empty by nature, search by slash', async () => {
  await page.getByRole('link', { name: '$1,252.50' }).waitFor();
  await audit('payments');
  await page.getByRole('button', { name: 'All 1', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Pending 1', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Completed 0', exact: true }).click();
  await page.getByText('No payment matches these filters').waitFor();
  assert.match(page.url(), /\?status=completed$/);
  await audit('payments, filtered empty');
  // The counts are not those of a list with more filters.
  await page.getByLabel('Coin').selectOption('BTC');
  await page.getByRole('button', { name: 'All', exact: true }).waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await page.getByRole('link', { name: '$1,252.50' }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type(payment);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: /Remove Search/ }).click();
  await page.getByRole('link', { name: 'Live', exact: true }).click();
  await page.getByText('No payments yet').waitFor();
  assert.equal(await page.getByText('TEST DATA').count(), 0);
  await audit('payments, none');
  await page.getByRole('link', { name: 'Test', exact: true }).click();
  await page.getByRole('link', { name: '$1,252.50' }).waitFor();
  noFaults();
});

test('a new payment is announced above the list without moving it', async () => {
  await app.test.post('/api/payment/create/simple', { amount_usd: 7, return_url: 'https://shop.example/thanks' });
  await page.getByRole('button', { name: '1 new payment' }).waitFor();
  assert.equal(await page.getByRole('link', { name: '$7.00' }).count(), 0);
  await page.getByRole('button', { name: '1 new payment' }).click();
  await page.getByRole('link', { name: '$7.00' }).waitFor();
  noFaults();
});

test('changes from before the event stream opens are shown as well', async () => {
  const stream = '**/dashboard/api/test/stream*';
  let letThrough = () => {};
  const held = new Promise<void>((resolve) => {
    letThrough = resolve;
  });
  await page.route(stream, (route) => held.then(() => route.continue()));
  await page.reload();
  await page.getByRole('link', { name: '$7.00' }).waitFor();
  await app.test.post('/api/payment/create/simple', { amount_usd: 9, return_url: 'https://shop.example/thanks' });
  letThrough();
  await page.getByRole('button', { name: '1 new payment' }).waitFor();
  await page.unroute(stream);
  noFaults();
});

test('the detail page: timeline, canceling, who did it', async () => {
  await page.getByRole('link', { name: '$1,252.50' }).click();
  await page.getByText('Created with a secret key').waitFor();
  await audit('payment');
  await page.getByRole('button', { name: 'Cancel payment' }).click();
  await page.getByRole('dialog').waitFor();
  await audit('question before an act');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate('document.activeElement.textContent'), 'Cancel payment', 'the focus comes back');
  await page.getByRole('button', { name: 'Cancel payment' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel payment' }).click();
  await page.getByText('Canceled by Olga Owner').waitFor();
  assert.equal((await app.test.get(`/api/payment/${payment}`)).json.status, 'cancelled');
  const rows = await app.app.ctx.db
    .sql`select actor_name, action, object, before, after, mode from audit_log where action = 'payment.cancel'`;
  assert.deepEqual(
    rows.map(({ before, after, ...row }) => ({ ...row, before: changeFromJson(before), after: changeFromJson(after) })),
    [
      {
        actor_name: OWNER.name,
        action: 'payment.cancel',
        object: payment,
        before: { status: 'pending' },
        after: { status: 'cancelled', decision: 'cancel', number: 1 },
        mode: 'test',
      },
    ],
  );
  noFaults();
});

longTest('the menu of a row copies, refunds and cancels, as far as the payment allows', async () => {
  const make = async (amount: number): Promise<string> =>
    (await app.test.post('/api/payment/create/simple', { amount_usd: amount, return_url: 'https://shop.example/' })).json.id;
  const [unpaid, paid] = [await make(21), await make(22)];
  await app.test.post(`/v1/test/payments/${paid}/simulate`, { scenario: 'success', currency: 'LTC' });
  for (let minute = 0; (await app.test.get(`/api/payment/${paid}`)).json.status !== 'completed'; minute++) {
    assert.ok(minute < 60);
    await app.test.post('/v1/test/clock/advance', { seconds: 60 });
  }
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const menu = (id: string) => page.getByRole('button', { name: `Actions for payment ${id}` });
  const choose = async (id: string, entry: string) => {
    await menu(id).press('Enter');
    await page.getByRole('menuitem', { name: entry, exact: true }).click();
  };
  await open('test/payments');
  await menu(unpaid).click();
  const entries = page.getByRole('menuitem');
  await entries.first().waitFor();
  assert.deepEqual(await entries.allInnerTexts(), ['View payment', 'Copy payment link', 'Copy payment ID', 'Cancel payment']);
  await page.keyboard.press('Escape');
  await audit('payments with menus');
  await choose(paid, 'Copy payment link');
  await page.getByText('Payment link copied.').waitFor();
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), (await app.test.get(`/api/payment/${paid}`)).json.payment_url);
  await choose(paid, 'Refund');
  await page.getByRole('heading', { name: 'Refund this payment' }).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Request refund' }).click();
  // The whole amount: nothing is left to offer, and the refund is shown.
  await page.getByText('Waiting for the customer').waitFor();
  await page.keyboard.press('Escape');
  await choose(paid, 'Refund');
  await page.getByText('Nothing can be refunded now').waitFor();
  await page.keyboard.press('Escape');
  await choose(unpaid, 'Cancel payment');
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel payment' }).click();
  await page.getByText('Payment canceled.').waitFor();
  assert.equal((await app.test.get(`/api/payment/${unpaid}`)).json.status, 'cancelled');
  await choose(paid, 'View payment');
  await page.getByText('Created with a secret key').waitFor();
  noFaults();
});

test('a risky action asks you to confirm your identity, then continues automatically', async () => {
  await ageSessions();
  await openOwn('Security');
  await page.getByRole('button', { name: 'Turn off' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Turn off' }).click();
  await page.getByRole('heading', { name: 'Confirm your identity' }).waitFor();
  forgiveFaults();
  await audit('confirmation');
  await page.getByLabel('Code from your authenticator app').fill(await freshTotp(app, secret));
  await page.getByRole('button', { name: 'Confirm', exact: true }).click();
  await page.getByText('Two-factor authentication is off.').waitFor();
  noFaults();
});

longTest('the account menu opens, is navigated and closes by keyboard, and returns the focus', async () => {
  const button = page.getByRole('button', { name: 'Account' });
  const held = async (role: 'button' | 'menuitem', name: string) =>
    page.waitForFunction(
      ([role, name]) => {
        const { activeElement: at } = document;
        return (at?.getAttribute('role') ?? at?.tagName.toLowerCase()) === role && at?.textContent?.startsWith(name!);
      },
      [role, name] as const,
    );
  for (const key of ['Enter', 'ArrowDown']) {
    await button.press(key);
    await held('menuitem', 'Security');
    assert.equal(await button.getAttribute('aria-expanded'), 'true');
    await page.keyboard.press('ArrowDown');
    await held('menuitem', 'Notifications');
    await page.keyboard.press('Escape');
    await held('button', 'Account');
    assert.equal(await page.getByRole('menu').count(), 0);
  }
  await button.click();
  await page.getByRole('menu').waitFor();
  await page.mouse.click(5, 5);
  await page.getByRole('menu').waitFor({ state: 'detached' });
  noFaults();
});

test('the dark theme can be chosen and stays', async () => {
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Dark theme' }).waitFor();
  await audit('account menu');
  await page.getByRole('menuitem', { name: 'Dark theme' }).click();
  await page.reload();
  await page.getByRole('heading', { name: 'Security' }).waitFor();
  assert.equal(await page.evaluate('getComputedStyle(document.documentElement).colorScheme'), 'dark');
  noFaults();
});
