/**
 * The payment page on a merchant's page of another origin: in a dialog, in place, by the button; who may frame it, and who gets its
 * messages.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { setBranding } from '../../src/merchants/settings.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { auditAccessibility, openTab, startBrowser, stopClock } from '../kit/browser.ts';
import { freePort } from '../kit/nodes.ts';
import { serve } from '../kit/serve.ts';

let app: TestApp;
let browser: Browser;
let shop: Shop;
let stranger: Shop;
type Shop = { origin: string; pages: Map<string, string>; policies: Map<string, string>; stop(): Promise<void> };

/** A merchant's website: pages by path, some with a security policy. */
async function startShop(): Promise<Shop> {
  const pages = new Map<string, string>();
  const policies = new Map<string, string>();
  const { url: origin, stop } = await serve((request, reply) => {
    const path = request.url!.split('?')[0]!;
    const body = pages.get(path);
    const policy = policies.get(path);
    if (policy) reply.setHeader('content-security-policy', policy);
    reply.writeHead(body === undefined ? 404 : 200, { 'content-type': 'text/html; charset=utf-8' });
    reply.end(
      `<!doctype html><html lang="en"><head><title>Shop</title><link rel="icon" href="data:,"></head><body><main><h1>Shop</h1>${body ?? ''}</main></body></html>`,
    );
  });
  return { origin, pages, policies, stop };
}

before(async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  [app, browser, shop, stranger] = await Promise.all([
    startTestApp({ PORT: String(port), PUBLIC_URL: url, PAYMENT_PAGE_URL: url }),
    startBrowser(),
    startShop(),
    startShop(),
  ]);
  await setBranding(app.app.ctx, { merchantId: app.merchant.merchantId, branding: { origins: [shop.origin] } });
});
after(async () => {
  await browser?.close();
  for (const site of [shop, stranger]) await site?.stop();
  await app?.stop();
});

const create = async () => {
  const reply = await app.test.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'http://127.0.0.1/thanks' });
  assert.equal(reply.status, 201, reply.text);
  return { id: reply.json.transaction_id as string, url: reply.json.payment_url as string };
};
const script = () => `<script src="${app.url}/embed/v1.js"></script>`;
const heard = (page: Page) => page.evaluate('window.heard') as Promise<any[]>;
const payIn = async (page: Page) => {
  const frame = page.frameLocator('iframe');
  await frame.getByText('Litecoin').click();
  await frame.locator('#c-continue').click();
  await frame.locator('#simulate').click();
  await frame.locator('main[data-state="completed"]').waitFor();
};

test('a dialog on the shop: the customer pays in it, only the page notifies the shop of each step, closing returns the focus', async () => {
  const { merchantId } = app.merchant;
  await setBranding(app.app.ctx, { merchantId, branding: { autoReturn: true } });
  const { id, url } = await create();
  shop.pages.set(
    '/modal',
    `<button id="go">Pay</button>${script()}<script>window.heard = []; addEventListener('message', (e) => heard.push({ origin: e.origin, ...e.data }));
     window.steps = []; document.getElementById('go').onclick = () => Florin.open({ paymentUrl: ${JSON.stringify(url)}, onStatus: (s) => steps.push(s.state), onClose: () => steps.push('closed') });</script>`,
  );
  const tab = await openTab(browser, `${shop.origin}/modal`, { width: 1280 });
  const { page } = tab;
  await page.locator('#go').focus();
  await page.keyboard.press('Enter');
  await page.frameLocator('iframe').locator('main[data-state="choose"]').waitFor();
  assert.deepEqual(await auditAccessibility(page), []);
  await payIn(page);
  await eventually(
    () => page.evaluate('window.steps') as Promise<string[]>,
    (steps) => steps.at(-1) === 'completed',
  );
  const messages = await heard(page);
  assert.ok(messages.length > 0 && messages.every((message) => message.origin === app.url && message.id === id));
  assert.deepEqual([...new Set(messages.map((message) => message.type))].sort(), ['florin.loaded', 'florin.resize', 'florin.status']);
  const link = page.frameLocator('iframe').locator('#return');
  assert.equal(await link.getAttribute('target'), '_top', 'the way back leaves the frame');
  assert.equal(await page.frameLocator('iframe').locator('#auto').isVisible(), false, 'and never opens automatically');
  await setBranding(app.app.ctx, { merchantId, branding: { autoReturn: false } });
  await page.getByRole('button', { name: 'Close' }).click();
  await eventually(
    () => page.evaluate('window.steps') as Promise<string[]>,
    (steps) => steps.at(-1) === 'closed',
  );
  assert.equal(await page.locator('dialog').count(), 0);
  assert.equal(await page.evaluate('document.activeElement.id'), 'go');
  assert.deepEqual(tab.faults, []);
  await tab.close();
});

test('Escape closes the dialog, also when the focus is inside the frame', async () => {
  const { url } = await create();
  shop.pages.set('/escape', `${script()}<script>Florin.open({ paymentUrl: ${JSON.stringify(url)} })</script>`);
  const tab = await openTab(browser, `${shop.origin}/escape`, { width: 1280 });
  const frame = tab.page.frameLocator('iframe');
  await frame.locator('main[data-state="choose"]').waitFor();
  await frame.locator('#c-continue').focus();
  // The frame posts to its owner once both have connected.
  await eventually(
    async () => {
      if ((await tab.page.locator('dialog').count()) > 0) await tab.page.keyboard.press('Escape');
      return tab.page.locator('dialog').count();
    },
    (count) => count === 0,
  );
  await tab.close();
});

test('in place: the frame is as high as its page, and after a change of language both stay connected', async () => {
  const { url } = await create();
  shop.pages.set(
    '/inline',
    `<div id="here"></div>${script()}<script>window.steps = []; Florin.mount(document.getElementById('here'), { paymentUrl: ${JSON.stringify(url)}, onStatus: (s) => steps.push(s.state) });</script>`,
  );
  const tab = await openTab(browser, `${shop.origin}/inline`, { width: 800 });
  const { page } = tab;
  const frame = page.frameLocator('iframe');
  await frame.locator('main[data-state="choose"]').waitFor();
  const fits = async () => {
    const outer = (await page.locator('iframe').boundingBox())!.height;
    const inner = (await page.frames()[1]!.evaluate('document.documentElement.scrollHeight')) as number;
    return Math.abs(outer - inner);
  };
  await eventually(fits, (difference) => difference <= 1);
  await frame.locator('footer summary').click();
  await frame.locator('select[name=lang]').selectOption('de');
  await frame.locator('footer button').click();
  await frame.getByText('Bezahlen mit').waitFor();
  await frame.getByText('Litecoin').click();
  await frame.locator('#c-continue').click();
  await frame.locator('#simulate').click();
  await frame.locator('main[data-state="completed"]').waitFor();
  await frame.getByRole('heading', { name: 'Bezahlt' }).waitFor();
  await eventually(
    () => page.evaluate('window.steps') as Promise<string[]>,
    (steps) => steps.at(-1) === 'completed',
  );
  assert.deepEqual(tab.faults, []);
  await tab.close();
});

test("the button: creates a payment with the shop's public key and opens it; a secret key is refused immediately", async () => {
  // The strictest policy that the guide says is enough.
  shop.policies.set(
    '/button',
    `default-src 'none'; img-src data:; script-src ${app.url} 'nonce-shop'; connect-src ${app.url}; frame-src ${app.url}`,
  );
  shop.pages.set(
    '/button',
    `<florin-button id="b" public-key="${app.merchant.keys.testPublic}" amount-usd="12.50" return-url="${shop.origin}/thanks" invoice-id="A-1" locale="fr">Pay 12.50</florin-button>
     <florin-button id="bad" public-key="${app.merchant.keys.testSecret}" amount-usd="1.00">No</florin-button>
     <florin-button id="inline" inline public-key="${app.merchant.keys.testPublic}" amount-usd="3.00" return-url="${shop.origin}/thanks">Here</florin-button>${script()}
     <script nonce="shop">window.steps = []; for (const name of ['created', 'status', 'error']) addEventListener('florin-' + name, (e) => steps.push([name, e.detail]));</script>`,
  );
  const tab = await openTab(browser, `${shop.origin}/button`, { width: 1280 });
  const { page } = tab;
  await page.getByText('Pay 12.50').click();
  await page.frameLocator('iframe').getByText('Payer avec').waitFor();
  await payIn(page);
  const steps = (await page.evaluate('window.steps')) as [string, any][];
  const { id } = steps.find(([name]) => name === 'created')![1];
  const detail = await app.test.get(`/api/payment/${id}`);
  assert.equal(detail.json.amount_usd, '12.50');
  assert.equal(detail.json.created_with, 'public');
  assert.equal(detail.json.invoice_id, 'A-1');
  await page.getByRole('button', { name: 'Close' }).click();
  await page.locator('#bad').click();
  await page.getByText('Payments are not set up for this website.').waitFor();
  assert.ok(
    ((await page.evaluate('window.steps')) as [string, any][]).some(([name, d]) => name === 'error' && /secret key/.test(d.message)),
  );
  assert.equal(tab.faults.length, 1);
  assert.match(tab.faults[0]!, /public-key must be a public key/);
  await tab.close();
});

test('the button on a page whose origin is not listed: nothing is created, and the customer sees a message', async () => {
  stranger.pages.set(
    '/button',
    `<florin-button public-key="${app.merchant.keys.testPublic}" amount-usd="12.50">Pay</florin-button>${script()}`,
  );
  const before = (await app.test.get('/api/payments?limit=1')).json.total_count;
  const tab = await openTab(browser, `${stranger.origin}/button`, { width: 1280 });
  const logged: string[] = [];
  tab.page.on('console', (message) => logged.push(message.text()));
  await tab.page.locator('florin-button').click();
  await tab.page.getByText('Payments are not set up for this website.').waitFor();
  assert.ok(
    logged.some((text) => /This public key cannot be used on pages of /.test(text)),
    logged.join(),
  );
  assert.equal((await app.test.get('/api/payments?limit=1')).json.total_count, before);
  await tab.close();
});

test('a page whose origin is not listed cannot frame the payment page; the customer is sent to the page itself', async () => {
  const { url } = await create();
  stranger.pages.set('/modal', `${script()}<script>Florin.open({ paymentUrl: ${JSON.stringify(url)} })</script>`);
  const tab = await openTab(browser, `${stranger.origin}/modal`, { width: 1280 });
  await tab.page.waitForURL(url);
  await tab.page.locator('main[data-state="choose"]').waitFor();
  assert.deepEqual(tab.faults, [], 'the embed asks first, so the browser has no frame to refuse');
  await tab.close();
});

test('a page that may connect to nothing and may not frame the payment page: the dialog has a link to it', async () => {
  const { url } = await create();
  stranger.policies.set('/quiet', `default-src 'none'; img-src data:; script-src ${app.url} 'unsafe-inline'; frame-src ${app.url}`);
  stranger.pages.set('/quiet', `${script()}<script>Florin.open({ paymentUrl: ${JSON.stringify(url)} })</script>`);
  const tab = await openTab(browser, 'about:blank', { width: 1280 });
  await tab.page.clock.install();
  await stopClock(tab.page);
  await tab.page.goto(`${stranger.origin}/quiet`);
  await tab.page.getByText('Loading…').waitFor();
  // The time counts from when the frame has loaded.
  await eventually(
    async () => {
      await tab.page.clock.runFor(4_000);
      return tab.page.getByRole('link', { name: 'Open the payment page' }).isVisible();
    },
    (isShown) => isShown,
  );
  assert.equal(await tab.page.locator('iframe').isVisible(), false, 'what the browser says about the refused frame is never seen');
  await tab.page.getByRole('link', { name: 'Open the payment page' }).click();
  await tab.page.waitForURL(url);
  await tab.close();
});

// Invariant: An embedded page talks only to the origin that embeds it.
test('only the owner of the frame gets messages: another frame of the page gets no answer', async () => {
  const { url } = await create();
  // The foreign frame is beside the payment page and greets it as the shop would.
  stranger.pages.set(
    '/spy',
    `<script>window.heard = []; addEventListener('message', (e) => heard.push(e.data));
     setInterval(() => parent.frames[0].postMessage({ type: 'florin.hello' }, '*'), 50);</script>`,
  );
  shop.pages.set(
    '/watched',
    `<iframe title="pay" src="${url}"></iframe><iframe title="spy" src="${stranger.origin}/spy"></iframe><script>window.heard = []; addEventListener('message', (e) => heard.push(e.data));</script>`,
  );
  const tab = await openTab(browser, `${shop.origin}/watched`, { width: 1280 });
  const { page } = tab;
  await page.frameLocator('iframe[title=pay]').locator('main[data-state="choose"]').waitFor();
  const spy = page.frames().find((frame) => frame.url().includes('/spy'))!;
  await page.waitForTimeout(500);
  assert.deepEqual(await spy.evaluate('window.heard'), []);
  assert.deepEqual(await heard(page), [], 'nobody is spoken to before the owner says hello');
  await page.evaluate(`frames[0].postMessage({ type: 'florin.hello' }, ${JSON.stringify(app.url)})`);
  await eventually(
    () => heard(page),
    (messages) => messages.some((message) => message.type === 'florin.loaded'),
  );
  assert.deepEqual(await spy.evaluate('window.heard'), []);
  await tab.close();
});

test('small screens: the customer is taken to the page instead of a frame', async () => {
  const { url } = await create();
  shop.pages.set('/small', `${script()}<script>Florin.open({ paymentUrl: ${JSON.stringify(url)} })</script>`);
  const tab = await openTab(browser, `${shop.origin}/small`, { width: 390 });
  await tab.page.waitForURL(url);
  await tab.close();
});

test('the script opens only pages of its own install', async () => {
  shop.pages.set(
    '/other',
    `${script()}<script>try { Florin.open({ paymentUrl: 'https://evil.example/pay?id=1' }); } catch (e) { document.body.append(e.message); }</script>`,
  );
  const tab = await openTab(browser, `${shop.origin}/other`, { width: 1280 });
  await tab.page.getByText('https://evil.example does not serve payment pages').waitFor();
  await tab.close();
});

test('without listed origins nobody may frame the page', async () => {
  const { url } = await create();
  await setBranding(app.app.ctx, { merchantId: app.merchant.merchantId, branding: { origins: [] } });
  try {
    const reply = await fetch(url);
    assert.match(reply.headers.get('content-security-policy')!, /frame-ancestors 'none'$/);
    assert.equal(reply.headers.get('cross-origin-resource-policy'), 'same-origin');
  } finally {
    await setBranding(app.app.ctx, { merchantId: app.merchant.merchantId, branding: { origins: [shop.origin] } });
  }
  assert.match((await fetch(url)).headers.get('content-security-policy')!, new RegExp(`frame-ancestors ${shop.origin}$`));
});
