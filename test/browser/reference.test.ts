/** The interactive reference in a real browser: under its policy, calling only this service, with a test key of the signed-in member. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { listOperations } from '../../src/http/routes.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { auditAccessibility, openTab, startBrowser, type Tab } from '../kit/browser.ts';
import { longTest } from '../kit/long.ts';
import { freePort } from '../kit/nodes.ts';

let app: TestApp;
let browser: Browser;
let tab: Tab;
let page: Page;
const password = 'correct horse battery';
/** Hosts that the tab called, with any result. */
const hosts = new Set<string>();
before(async () => {
  const port = await freePort();
  await buildApp({ info: () => {} });
  [app, browser] = await Promise.all([
    startTestApp({ PORT: String(port), PUBLIC_URL: `http://localhost:${port}`, HOST: 'localhost', LOG_LEVEL: 'silent' }),
    startBrowser(),
  ]);
  tab = await openTab(browser, 'about:blank', { width: 1280 });
  page = tab.page;
  page.context().on('request', (request) => hosts.add(new URL(request.url()).host));
});
after(async () => {
  await browser?.close();
  await app?.stop();
});

/** Scalar draws only what is near the screen; its list of operations is complete. */
const listed = (summary: string) => page.locator('#reference').getByRole('link', { name: summary }).first();
const openReference = async () => {
  await page.goto(`${app.config.publicUrl}/docs/api`);
  await listed('List payments, newest first').waitFor();
};
const noFaults = () => assert.deepEqual(tab.faults.splice(0), []);
const bearer = () => page.locator('#reference').getByPlaceholder('Token').first();

test('the reference shows every operation, keeps to its policy and calls only this service', async () => {
  const reply = await app.anonymous.get('/docs/api');
  const policy = reply.headers.get('content-security-policy')!;
  assert.match(policy, /script-src 'self';/);
  assert.match(policy, /connect-src 'self';/);
  assert.ok(!policy.includes('unsafe-eval'));
  await openReference();
  // The documentation search leads to the same anchors.
  const operations = listOperations().map(({ anchor }) => `#${anchor}`);
  assert.ok(operations.length > 25);
  await eventually(
    async () => {
      const links = await page
        .locator('#reference')
        .getByRole('link')
        .evaluateAll((all) => all.map((link) => link.getAttribute('href')));
      return operations.filter((operation) => !links.includes(operation));
    },
    (missing) => missing.length === 0,
  );
  noFaults();
});

test('the old address of the second reference redirects here', async () => {
  const reply = await app.anonymous.get('/docs/reference');
  assert.deepEqual([reply.status, reply.headers.get('location')], [308, '/docs/api']);
});

test('its bundle is compressed and cached for a year', async () => {
  const { text } = await app.anonymous.get('/docs/api');
  const [, bundle] = /<script defer src="([^"]+)"/.exec(text)!;
  const reply = await app.anonymous.get(bundle!, { 'accept-encoding': 'br' });
  assert.equal(reply.headers.get('content-encoding'), 'br');
  assert.equal(reply.headers.get('cache-control'), 'public, max-age=31536000, immutable');
});

test('without scripts the reader gets the static reference', async () => {
  const plain = await openTab(browser, `${app.config.publicUrl}/docs/api`, { scripts: false });
  await plain.page.waitForURL('**/docs/api.md');
  await plain.page.getByText('# API reference').waitFor();
  await plain.close();
});

test('readers who are not signed in get a link to sign in', async () => {
  await page.getByRole('button', { name: 'Use a test key' }).click();
  await page.getByRole('link', { name: 'Sign in' }).waitFor();
  assert.equal((await app.app.ctx.db.sql`select 1 from keys where name = 'API reference'`).length, 0);
  assert.deepEqual(await auditAccessibility(page, { within: '#bar' }), []);
  // The refusal is expected.
  assert.ok(tab.faults.splice(0).every((fault) => fault.includes('401')));
});

test('when signed in, a one-day test key is created after a confirmation, filled in, and works for a request', async () => {
  await page.goto(app.merchant.setupUrl);
  await page.getByLabel('Name').fill('Olga Owner');
  await page.getByLabel('Email').fill('olga@shop.example');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Home' }).waitFor();
  const { sql } = app.app.ctx.db;
  await sql`update sessions set created_at = created_at - interval '1 day', confirmed_at = null`;
  await openReference();
  tab.faults.splice(0);
  await page.getByRole('button', { name: 'Use a test key' }).click();
  const dialog = page.getByRole('dialog', { name: 'Confirm your identity' });
  await dialog.getByLabel('Password').fill('wrong');
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await dialog.getByRole('alert').getByText(/\w/).waitFor();
  assert.deepEqual(await auditAccessibility(page, { within: '#bar' }), []);
  await dialog.getByLabel('Password').fill(password);
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await page.getByText(/^Requests use the test key sk_test_/).waitFor();
  const [key, ...more] = await sql<{ id: string; mode: string; kind: string; hint: string; days: number }[]>`
    select id, mode, kind, hint, round(extract(epoch from expires_at - created_at) / 86400)::int as days from keys where name = 'API reference'`;
  assert.deepEqual([more.length, key!.mode, key!.kind, key!.days], [0, 'test', 'secret', 1]);
  tab.faults.splice(0);

  await listed('List payments, newest first').click();
  await page.getByRole('button', { name: /Test Request\s*\(get \/api\/payments\)/ }).click();
  const [reply] = await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname === '/api/payments'),
    page.getByRole('button', { name: /Send get request to/i }).click(),
  ]);
  assert.equal(reply.status(), 200);
  await reply.finished();
  assert.match((await reply.request().allHeaders()).authorization!, /^Bearer sk_test_\w{38}$/);
  assert.equal(new URL(reply.url()).search, '', 'what may be left out is left out');

  await openReference();
  // Three other summaries begin with the same words.
  await page.locator('#reference a[href="#tag/payments/POST/api/payment/create/simple"]').first().click();
  await page.getByRole('button', { name: /Test Request\s*\(post \/api\/payment\/create\/simple\)/ }).click();
  const [made] = await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname === '/api/payment/create/simple'),
    page.getByRole('button', { name: /Send post request to/i }).click(),
  ]);
  assert.equal(made.status(), 201);
  await made.finished();
  assert.equal((await made.request().allHeaders())['idempotency-key'], undefined);
  noFaults();
});

longTest('the key is still there after a reload, is never on disk, and is revoked on request', async () => {
  await openReference();
  await page.getByText(/^Requests use the test key sk_test_/).waitFor();
  // It is filled in when the reference is drawn again.
  const text = await eventually(
    () => bearer().inputValue(),
    (shown) => /^sk_test_\w{38}$/.test(shown),
  );
  assert.ok(!((await page.evaluate('JSON.stringify(localStorage)')) as string).includes(text));
  assert.equal((await app.as(text).get('/api/payments')).status, 200);
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    assert.deepEqual(await auditAccessibility(page, { within: '#bar' }), [], scheme);
  }
  await page.setViewportSize({ width: 360, height: 780 });
  assert.ok((await page.locator('#bar').evaluate((bar) => bar.scrollWidth)) <= 360);
  await page.setViewportSize({ width: 1280, height: 844 });
  await page.getByRole('button', { name: 'Revoke this key' }).click();
  await page.getByText('The key is revoked.').waitFor();
  await eventually(
    () => bearer().inputValue(),
    (shown) => shown === '',
  );
  await openReference();
  await page.getByRole('button', { name: 'Use a test key' }).waitFor();
  noFaults();
});

test('none of this called another host', () => {
  assert.deepEqual([...hosts], [new URL(app.config.publicUrl).host]);
});
