/** The dashboard for each role in a real browser: forbidden actions are absent, not broken. Also the checklist's links, and passkeys. */
// Invariant: The dashboard hides what a role may not do; a passkey confirms only its own account.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Request } from 'playwright-core';
import { type Action, actionsOf, type MemberRole } from '../../src/core/roles.ts';
import { changeFromJson } from '../../src/people/members.ts';
import { eventually } from '../kit/app.ts';
import { addAuthenticator, startDashboard } from '../kit/dashboard.ts';
import { isLongRun } from '../kit/long.ts';
import { startReceiver } from '../kit/receiver.ts';

// Named by a variable: the app has its own types, which differ from those of the service.
const screensFile: string = '../../dashboard/screens.ts';
const { SCREENS } = (await import(screensFile)) as {
  SCREENS: { path: string; action: Action; nav?: { group: string }; operator?: true }[];
};

const dashboard = await startDashboard();
const { app, page, noFaults, forgiveFaults } = dashboard;
const hook = await startReceiver();
let endpoint = '';
let delivery = '';
let payment = '';

before(async () => {
  const owner = await dashboard.owner();
  endpoint = (await owner.post('/test/webhooks', { url: hook.url })).json.endpoint.id;
  payment = (
    await app.test.post('/api/payment/create/simple', {
      amount_usd: 25,
      return_url: 'https://shop.example/',
      payment_address: 'test_btc_underpaid',
    })
  ).json.id;
  await owner.post(`/test/payments/${payment}/simulate`, { scenario: 'underpaid' });
  delivery = (
    await eventually(
      async () => (await owner.get(`/test/deliveries?endpoint_id=${endpoint}`)).json,
      // Sent, because the first test disables the endpoint for a while.
      (reply) => reply.data?.some(({ state }: { state: string }) => state === 'delivered'),
      60_000,
    )
  ).data.find(({ state }: { state: string }) => state === 'delivered').id;
});
after(() => hook.stop());

const setRole = (role: MemberRole) => app.app.ctx.db.sql`update members set role = ${role} where merchant_id = ${app.merchant.merchantId}`;
const open = async (path: string) => {
  await dashboard.open(`test/${path}`);
  // By its mark: while a drawer is open, the content behind it has no role.
  await page.locator('nav[aria-label="Main"]').getByText('Home', { exact: true }).waitFor();
};
const asked = new Set<Request>();
page.on('request', (request) => {
  if (/\/dashboard\/api\/(?!\w+\/stream)/.test(request.url())) asked.add(request);
});
page.on('requestfinished', (request) => void asked.delete(request));
page.on('requestfailed', (request) => void asked.delete(request));
/** Waits until everything on a screen with its heading is loaded and drawn. */
const settled = async () => {
  await page.locator('main h1').first().waitFor();
  await eventually(
    async () => [...asked].map((request) => request.url()),
    (open) => open.length === 0,
  );
  await page.locator('main .late').first().waitFor({ state: 'detached' });
};
const button = (name: string) => page.getByRole('button', { name, exact: true });

test('each step of the checklist links to a screen that exists', async () => {
  const steps: Record<string, [link: string, heading: string, mode: string]> = {
    business: ['Open settings', 'Business', 'test'],
    // Test mode requires neither.
    wallet: ['Open wallets', 'Wallets', 'live'],
    source: ['Show what is missing', 'Wallets', 'live'],
    webhook: ['Open webhooks', 'Webhooks', 'test'],
    second_factor: ['Open security', 'Security', 'test'],
    go_live: ['Open live mode', 'Home', 'live'],
  };
  // Completed steps have no link: here all but the first two are open.
  await app.app.ctx.db.sql`update endpoints set state = 'deleted'`;
  for (const [link, heading, mode] of Object.values(steps)) {
    await open('home');
    await page.getByRole('listitem').getByRole('link', { name: link }).click();
    await page.getByRole('heading', { level: 1, name: heading }).waitFor();
    assert.match(page.url(), new RegExp(`/dashboard/${mode}/`));
    if (link !== 'Open live mode') continue;
    await page.getByRole('listitem').getByRole('link', { name: 'Live keys' }).click();
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
    await page.goBack();
    await page.getByRole('listitem').getByRole('link', { name: 'Open test mode' }).waitFor({ state: 'detached' });
  }
  await app.app.ctx.db.sql`update endpoints set state = 'enabled'`;
  noFaults();
});

for (const role of isLongRun ? (['admin', 'developer', 'finance', 'support', 'viewer'] as const) : (['developer', 'viewer'] as const)) {
  const may = (action: Action) => actionsOf(role).includes(action);
  // All screens for two roles, and the endpoint's for all: more would exceed the requests per minute of one person.
  if (role === 'finance' || role === 'viewer')
    test(`as ${role}: the navigation lists exactly the screens that open, and none of them requests what the role may not read`, async () => {
      await setRole(role);
      await open('home');
      const nav = page.getByRole('navigation', { name: 'Main' });
      const shown = new Set(
        await nav.getByRole('link').evaluateAll((links) => links.map((link) => link.getAttribute('href')!.split('/').at(-1)!)),
      );
      const expected = SCREENS.filter(
        (screen) => screen.nav && screen.nav.group !== 'account' && !screen.operator && may(screen.action),
      ).map((screen) => screen.path);
      assert.deepEqual([...shown].filter((path) => path !== 'operator').sort(), expected.toSorted());
      for (const path of [...expected, `payments/${payment}`]) {
        await open(path);
        await settled();
        await page.waitForLoadState('load');
        noFaults();
        assert.equal(await page.getByRole('main').getByRole('alert').count(), 0, `${role} at ${path}`);
      }
    });

  test(`as ${role}: the screens of an endpoint offer exactly what the role may do`, async () => {
    await setRole(role);
    const offered = async (path: string, ready: string, names: Readonly<Record<string, boolean>>) => {
      await open(path);
      await page.getByText(ready).first().waitFor();
      await settled();
      // The role is known once the navigation is drawn, and its buttons are drawn with it.
      for (const [name, wanted] of Object.entries(names)) {
        if (wanted) await button(name).first().waitFor();
        else assert.equal(await button(name).count(), 0, `${role} is offered ${name}`);
      }
    };
    const shown = may('webhooks.secrets') ? hook.url : `${new URL(hook.url).origin}/…`;
    await offered('webhooks', shown, { 'Add endpoint': may('webhooks.manage') });
    await offered(`webhooks/${endpoint}`, shown, { 'Send test event': may('webhooks.send') });
    await offered(`webhooks/${endpoint}/deliveries?delivery=${delivery}`, 'Attempts', {
      Resend: may('webhooks.send'),
      'Copy as curl': may('webhooks.secrets'),
    });
    assert.equal(await page.getByText('webhook-signature: ').count(), may('webhooks.secrets') ? 1 : 0, `${role} and the signature`);
    await offered(`webhooks/${endpoint}/settings`, 'Endpoint details', {
      Save: may('webhooks.manage'),
      'Reveal secret': may('webhooks.secrets'),
      Pause: may('webhooks.manage'),
      'Delete endpoint': may('webhooks.manage'),
    });
    await open(`webhooks/${endpoint}/recover`);
    await settled();
    noFaults();
  });
}

test('a screen that a role may not open names the required access', async () => {
  await setRole('viewer');
  await open('keys');
  await page
    .getByText(
      'Your role, viewer, doesn’t include this page. Required role: owner, admin or developer. Ask an owner of Test shop to change your role.',
    )
    .waitFor();
  assert.equal(await button('Create key').count(), 0);
  const { sql } = app.app.ctx.db;
  await sql`update users set operator = false`;
  await open('operator');
  await page.getByText('Only operators of this install can open this page.').waitFor();
  await sql`update users set operator = true`;
  await setRole('owner');
  forgiveFaults();
});

test('a risky action is confirmed with a passkey instead of the password; a passkey of another account confirms nothing', async () => {
  await addAuthenticator(page);
  await setRole('owner');
  await open('security');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('Laptop');
  await page.keyboard.press('Enter');
  await page.getByText('Passkey added.').waitFor();
  const { sql } = app.app.ctx.db;
  const sessions = async () => Number((await sql<{ n: bigint }[]>`select count(*) as n from sessions`)[0]!.n);
  await dashboard.ageSessions();
  await open(`webhooks/${endpoint}/settings`);
  const before = await sessions();
  await button('Reveal secret').click();
  await page.getByRole('heading', { name: 'Confirm your identity' }).waitFor();
  await button('Confirm with a passkey').click();
  await page
    .getByText(/^whsec_/)
    .first()
    .waitFor();
  assert.equal(await sessions(), before, 'no session is left over');
  const [entry] = await sql`select after from audit_log where action = 'session.confirmed' order by id desc limit 1`;
  assert.deepEqual(changeFromJson(entry!.after), { how: 'passkey' });
  // The same passkey, now of another person.
  await sql`insert into users (id, name, email) values ('usr_else', 'Eve Else', 'eve@shop.example')`;
  await sql`update passkeys set user_id = 'usr_else'`;
  await dashboard.ageSessions();
  const refused = await page.evaluate(async () => {
    const send = async (path: string, body: object) => {
      const reply = await fetch(`/dashboard/api${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-florin-dashboard': '1' },
        body: JSON.stringify(body),
      });
      return { status: reply.status, json: await reply.json() };
    };
    const { options } = (await send('/sign-in/passkey/options', {})).json;
    const bytes = (text: string) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    const text = (buffer: ArrayBuffer) =>
      btoa(String.fromCharCode(...new Uint8Array(buffer)))
        .replaceAll('+', '-')
        .replaceAll('/', '_')
        .replace(/=+$/, '');
    const shown = (await navigator.credentials.get({
      publicKey: { challenge: bytes(options.challenge), rpId: options.rpId, userVerification: 'required' },
    })) as PublicKeyCredential;
    const answer = shown.response as AuthenticatorAssertionResponse;
    const passkey = {
      id: shown.id,
      rawId: shown.id,
      type: shown.type,
      clientExtensionResults: {},
      response: {
        authenticatorData: text(answer.authenticatorData),
        clientDataJSON: text(answer.clientDataJSON),
        signature: text(answer.signature),
        userHandle: answer.userHandle && text(answer.userHandle),
      },
    };
    return (await send('/test/confirm', { passkey })).json.error.code;
  });
  assert.equal(refused, 'second_factor_invalid');
  assert.equal(await sessions(), before);
  const [mine] = await sql`select confirmed_at from sessions where user_id <> 'usr_else' limit 1`;
  assert.equal(mine!.confirmed_at, null);
  forgiveFaults();
});
