/** Trusting a device when entering the code, removing it, and the timing of emails, in a real browser and by keyboard. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { changeFromJson } from '../../src/people/members.ts';
import { eventually } from '../kit/app.ts';
import { addAuthenticator, OWNER, startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';
import { type MailServer, startMailServer } from '../kit/mail.ts';
import { freshTotp } from '../kit/person.ts';

const mail: MailServer = await startMailServer();
after(() => mail.stop());
const { app, page, open, signOut, setSecondFactor, audit, noFaults, forgiveFaults } = await startDashboard({
  environment: { SMTP_URL: mail.url, MAIL_FROM: 'pay@shop.example' },
});
let secret = '';
const heading = (name: string) => page.getByRole('heading', { name, exact: true }).waitFor();
const showPassword = async () => {
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByLabel('Password').press('Enter');
};

before(async () => {
  await open('test/security');
  secret = await setSecondFactor();
});

test('a device is trusted beside the code, by keyboard; the next sign-in asks only for the password, a risky action for a code', async () => {
  await page.getByText('No trusted devices.').waitFor();
  await audit('security, no trusted device');
  await signOut();
  await showPassword();
  await heading('Two-factor authentication');
  await page.getByRole('button', { name: 'Use a backup code' }).click();
  assert.equal(await page.getByRole('checkbox').count(), 0, 'not beside a backup code');
  await page.getByRole('button', { name: 'Use your authenticator app' }).click();
  await audit('two-factor authentication');
  await page.getByLabel('Code', { exact: true }).fill(await freshTotp(app, secret));
  await page.keyboard.press('Tab');
  await page.keyboard.press('Space');
  await page.keyboard.press('Enter');
  await heading('Home');
  assert.equal(await page.evaluate("document.cookie.includes('trusted_device')"), false, 'no script reads it');
  await signOut();
  await showPassword();
  await heading('Home');
  noFaults();
  await open('test/security');
  await page.getByRole('button', { name: 'Turn off' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Turn off' }).click();
  await page.getByLabel(/Code/).waitFor();
  forgiveFaults();
  await page.keyboard.press('Escape');
});

test('a trusted device is listed with its end and removed; then the code is required again', async () => {
  await open('test/security');
  const card = page.locator('section').filter({ has: page.getByRole('heading', { name: 'Trusted devices' }) });
  await card.getByText('This browser').waitFor();
  await card.getByText('Expires', { exact: false }).waitFor();
  await audit('security, a trusted device');
  await card.getByRole('button', { name: /^Remove / }).focus();
  await page.keyboard.press('Enter');
  await page.getByText('Device removed. The next sign-in there needs a code.').waitFor();
  await card.getByText('No trusted devices.', { exact: false }).waitFor();
  noFaults();
  await signOut();
  await showPassword();
  await heading('Two-factor authentication');
  await page.getByLabel('Code', { exact: true }).fill(await freshTotp(app, secret));
  await page.keyboard.press('Enter');
  await heading('Home');
  noFaults();
});

longTest('the timing of emails can be set, is summed up in one line, and stays so', async () => {
  await open('test/notifications');
  await page.getByText('Emails are sent immediately, at most one').waitFor();
  await audit('notifications, at once');
  await page.getByRole('button', { name: 'Once a day' }).click();
  await page.getByLabel('Every day at').selectOption('9');
  await page.getByLabel('Quiet hours').check();
  await page.getByLabel('To', { exact: true }).fill('22:00');
  await page.getByText('Quiet hours must end at a different time than they begin.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Save' }).isDisabled(), true);
  await page.getByLabel('To', { exact: true }).fill('06:30');
  await page.getByLabel('Time zone').selectOption('Europe/Berlin');
  await page.getByText('You get one email a day at 09:00, or at 06:30 if quiet hours include it').waitFor();
  await audit('notifications, once a day and quiet hours');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  await page.reload();
  await page.getByText('You get one email a day at 09:00').waitFor();
  assert.equal(await page.getByLabel('Time zone').inputValue(), 'Europe/Berlin');
  noFaults();
});

test('the sign-in page starts with passkeys, and one offered beside the email field signs in directly', async () => {
  await signOut();
  assert.equal(await page.getByRole('button').first().innerText(), 'Sign in with a passkey');
  await audit('sign in');
  await showPassword();
  await heading('Two-factor authentication');
  await page.getByLabel('Code', { exact: true }).fill(await freshTotp(app, secret));
  await page.keyboard.press('Enter');
  await heading('Home');
  const devtools = await addAuthenticator(page);
  await open('test/security');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Laptop');
  await page.keyboard.press('Enter');
  await page.getByText('Passkey added.').waitFor();
  noFaults();
  await page.getByRole('button', { name: 'Account' }).click();
  const signedIn = page.waitForResponse('**/sign-in/passkey');
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  assert.equal((await signedIn).status(), 200);
  await heading('Home');
  const [entry] = await app.app.ctx.db.sql`select after from audit_log where action = 'session.started' order by id desc limit 1`;
  assert.deepEqual(changeFromJson(entry!.after), { how: 'passkey' });
  await devtools.send('WebAuthn.disable');
  // Requests that the previous document had pending.
  noFaults(/^401 /);
});

test('with a mail server an invitation shows no link; an unverified address is verified from Security', async () => {
  const { sql } = app.app.ctx.db;
  await sql`update sessions set confirmed_at = clock_timestamp()`;
  await open('test/team');
  await page.getByText('Email not verified').waitFor();
  await page.getByRole('button', { name: 'Invite a teammate' }).click();
  await page.getByLabel('Email').fill('dana@shop.example');
  await page.getByLabel('Email').press('Enter');
  await heading('Invite sent');
  await audit('invitation by mail');
  assert.ok(!(await page.content()).includes('/invite#'), 'the inviter never gets the link');
  await page.getByRole('button', { name: 'Done' }).click();
  await open('test/security');
  await page.getByRole('button', { name: 'Verify email' }).click();
  await page.getByText('We emailed you a link.').waitFor();
  const sent = await eventually(
    async () => mail.mails.find((one) => one.to[0] === OWNER.email && /Verify your email/.test(one.subject)),
    (one) => one !== undefined,
  );
  await page.goto(/http\S+verify-email#\w+/.exec(sent!.text)![0]);
  await heading('Verify your email address');
  await audit('verify an address');
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.getByText('Your email address is verified.').waitFor();
  await open('test/security');
  await page.getByText('Verified', { exact: true }).waitFor();
  await audit('security, verified');
  noFaults();
});
