/** The page in use: five live coins from API to camera, who allocates an address, languages, branding, updates on open pages. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import type { Browser } from 'playwright-core';
import { NATIVE_COINS } from '../../src/core/coin.ts';
import { setBranding } from '../../src/merchants/settings.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { asIfFollowed, eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { auditAccessibility, openTab, readQr, startBrowser, stopClock } from '../kit/browser.ts';
import { isLongRun, longTest } from '../kit/long.ts';
import { freePort } from '../kit/nodes.ts';

let app: TestApp;
let browser: Browser;
before(async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  // Nothing listens there: choosing a coin requires a node that answered once.
  const nodes = Object.fromEntries(NATIVE_COINS.map((coin) => [`${coin}_NODE_URL`, `http://florin:test@127.0.0.1:1`]));
  [app, browser] = await Promise.all([
    startTestApp({ PORT: String(port), PUBLIC_URL: url, LOG_LEVEL: 'silent', ...nodes }),
    startBrowser(),
  ]);
  await asIfFollowed(app, ...NATIVE_COINS);
  const { ctx } = app.app;
  const paths = { BTC: "m/84'/0'/0'", LTC: "m/84'/2'/0'", DASH: "m/44'/5'/0'", DOGE: "m/44'/3'/0'", ETH: "m/44'/60'/0'" };
  for (const coin of NATIVE_COINS) {
    const accountKey = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive(paths[coin]).publicExtendedKey;
    const script = coin === 'BTC' || coin === 'LTC' ? ({ script: 'p2wpkh' } as const) : {};
    await setWallet(ctx, { merchantId: app.merchant.merchantId, coin, accountKey, ...script });
  }
});
after(async () => {
  await browser?.close();
  await app?.stop();
});

const create = async (mode: 'live' | 'test' = 'live', more: object = {}) => {
  const reply = await app[mode].post('/api/payment/create/simple', {
    amount_usd: 52.5,
    return_url: 'https://shop.example/thanks',
    ...more,
  });
  assert.equal(reply.status, 201, reply.text);
  return { id: reply.json.transaction_id as string, url: reply.json.payment_url as string };
};
const detail = async (id: string, mode: 'live' | 'test' = 'live') => (await app[mode].get(`/api/payment/${id}`)).json;
const given = async () => {
  const [row] = await app.app.ctx.db.sql<{ n: bigint }[]>`select sum(next_index)::bigint as n from wallets`;
  return row!.n;
};
const form = (url: string, page: string, more: Record<string, string>) => {
  const field = (name: string) => new RegExp(`name="${name}" value="([^"]+)"`).exec(page)![1]!;
  return fetch(new URL('/pay/select', url), {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ id: field('id'), token: field('token'), ...more }),
  });
};

for (const coin of isLongRun ? NATIVE_COINS : (['BTC', 'ETH'] as const)) {
  // Invariant: QR code, link, text and API show the same address and amount.
  test(`${coin}: camera, link, text and API agree`, async () => {
    const { id, url } = await create();
    const tab = await openTab(browser, url);
    const { page } = tab;
    await page.locator(`#c-${coin}`).check();
    await page.locator('#c-continue').click();
    await page.locator('main[data-state="awaiting"]').waitFor();
    const { payment_address: address, amount, currency } = await detail(id);
    assert.equal(currency, coin);
    assert.equal((await page.locator('#address').innerText()).replaceAll(/\s/g, ''), address);
    assert.equal(await page.locator('#amount').innerText(), amount);
    assert.equal(await page.locator(`[data-copy="${address}"]`).count(), 1);
    assert.equal(await page.locator(`[data-copy="${amount}"]`).count(), 1);
    const uri = await page.locator('#wallet').getAttribute('href');
    const worth = coin === 'ETH' ? `@1?value=${BigInt(amount.replace('.', '')) * 10n ** 10n}` : `?amount=${amount}`;
    assert.match(uri!, /^[a-z]+:/);
    assert.equal(uri!.slice(uri!.indexOf(':') + 1), `${address}${worth}`);
    assert.equal(await readQr(page.locator('#qr-request svg')), uri);
    await page.getByText('Address only', { exact: true }).click();
    assert.equal(await readQr(page.locator('#qr-address svg')), address);
    assert.deepEqual(tab.faults, []);
    await tab.close();
  });
}

test('with nothing to pay with, the page says that nothing was charged, and continues when a coin is ready', async () => {
  const { sql } = app.app.ctx.db;
  const away = () => sql`update tips set looked_at = looked_at - interval '2 days'`;
  const back = () => sql`update tips set looked_at = looked_at + interval '2 days'`;
  await setBranding(app.app.ctx, { merchantId: app.merchant.merchantId, branding: { supportContact: 'help@shop.example' } });
  await away();
  const { url } = await create();
  const tab = await openTab(browser, url);
  const { page } = tab;
  await page.getByRole('heading', { name: 'This shop can’t take payments right now' }).waitFor();
  await page.getByText('Nothing was charged.').waitFor();
  assert.equal(await page.locator('button:disabled').count(), 0);
  assert.match((await page.locator('a.main:not(.second)').getAttribute('href'))!, /^mailto:help@shop\.example\?subject=pay_/);
  assert.deepEqual(await auditAccessibility(page), []);
  const still = await openTab(browser, url, { scripts: false });
  await still.page.getByText('Nothing was charged.').waitFor();
  await back();
  await page.locator('main[data-state="choose"]').waitFor();
  // Without scripts the page loads again now and then.
  await still.page.locator('main[data-state="choose"]').waitFor();
  await page.locator('#c-BTC').check();
  await page.locator('#c-continue').click();
  await page.locator('main[data-state="awaiting"]').waitFor();
  assert.deepEqual(tab.faults, []);
  await tab.close();
  await still.close();
});

// Invariant: An address is issued only when a customer chooses a coin.
test('link previews, bots and a customer who only looks allocate no address; neither does a form without its token', async () => {
  const { id, url } = await create();
  const before = await given();
  for (const agent of ['facebookexternalhit/1.1', 'Slackbot-LinkExpanding 1.0', 'WhatsApp/2.23', 'Twitterbot/1.0', 'Googlebot/2.1']) {
    const reply = await fetch(url, { headers: { 'user-agent': agent } });
    assert.equal(reply.status, 200);
    assert.match(reply.headers.get('x-robots-tag')!, /noindex/);
    await fetch(url, { method: 'HEAD', headers: { 'user-agent': agent } });
  }
  const page = await (await fetch(url)).text();
  for (const token of ['', 'wrong'])
    assert.equal(
      (await form(url, page.replace(/name="token" value="[^"]+"/, `name="token" value="${token || '-'}"`), { currency: 'BTC' })).status,
      404,
    );
  for (const path of ['/pay/select', '/pay/requote', '/pay/simulate', '/pay/refund-address'])
    assert.notEqual((await fetch(new URL(`${path}?id=${id}&currency=BTC`, url))).status, 200, `${path} by GET`);
  assert.equal(await given(), before);
  assert.equal((await detail(id)).payment_address, null);
  // A customer who chooses gets one.
  assert.equal((await form(url, page, { currency: 'BTC' })).status, 303);
  assert.equal(await given(), before + 1n);
});

test('choosing too often is limited with a message, and the page stays usable', async () => {
  const { url } = await create();
  const page = await (await fetch(url)).text();
  const statuses: number[] = [];
  let last = '';
  for (let i = 0; i < 12; i++) {
    const reply = await form(url, page, { currency: 'LTC' });
    statuses.push(reply.status);
    last = await reply.text();
  }
  assert.deepEqual(statuses, [...Array(10).fill(303), 429, 429]);
  assert.match(last, /Too many attempts/);
  assert.match(last, /data-state="awaiting"/);
});

test('customers behind one proxy do not limit each other', async () => {
  const behind = await startTestApp({ LOG_LEVEL: 'silent', TRUSTED_PROXIES: '127.0.0.0/8' });
  try {
    const headers = (ip: string) => ({ 'x-forwarded-proto': 'https', 'x-forwarded-for': ip });
    const created = await fetch(`${behind.url}/api/payment/create/simple`, {
      method: 'POST',
      headers: {
        ...headers('192.0.2.1'),
        authorization: `Bearer ${behind.merchant.keys.testSecret}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ amount_usd: 5, return_url: 'https://shop.example/thanks' }),
    });
    const { transaction_id: id } = (await created.json()) as { transaction_id: string };
    const shown = await (await fetch(`${behind.url}/pay?id=${id}`, { headers: headers('192.0.2.1') })).text();
    const body = () =>
      new URLSearchParams({ id, token: /name="token" value="([^"]+)"/.exec(shown)![1]!, currency: 'LTC', scenario: 'slow' });
    const choose = async (ip: string) =>
      (await fetch(`${behind.url}/pay/select`, { method: 'POST', redirect: 'manual', headers: headers(ip), body: body() })).status;
    const statuses: number[] = [];
    for (let i = 0; i < 11; i++) statuses.push(await choose('192.0.2.1'));
    assert.equal(statuses.at(-1), 429);
    assert.notEqual(await choose('192.0.2.2'), 429);
  } finally {
    await behind.stop();
  }
});

test('every response of the page: not cached, not framed, no referrer sent, nothing loaded from other hosts', async () => {
  const { id, url } = await create();
  for (const path of [`/pay?id=${id}`, `/pay?id=pay_${'0'.repeat(24)}`]) {
    for (const more of [{}, { 'x-fragment': '1' }] as Record<string, string>[]) {
      const reply = await fetch(new URL(path, url), { headers: more });
      const header = (name: string) => reply.headers.get(name);
      assert.equal(header('cache-control'), 'no-store');
      assert.equal(header('vary'), 'x-fragment, accept-language, accept-encoding');
      assert.equal(header('referrer-policy'), 'no-referrer');
      assert.equal(header('x-content-type-options'), 'nosniff');
      assert.equal(header('x-robots-tag'), 'noindex, nofollow');
      assert.equal(header('cross-origin-opener-policy'), 'same-origin');
      assert.match(header('permissions-policy')!, /clipboard-write=\(self\)/);
      assert.equal(header('set-cookie'), null);
      assert.match(
        header('content-security-policy')!,
        /^default-src 'none'; script-src 'self'; style-src 'sha256-[^']+'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
      );
      const text = await reply.text();
      assert.equal(/^<title>/.test(text), more['x-fragment'] === '1', 'a fragment is only title and content');
      assert.doesNotMatch(text, /<(script|link|img)[^>]+(src|href)="https?:/);
    }
  }
});

test('languages: that of the payment, then of the switch, which survives forms; otherwise of the browser', async () => {
  const { url } = await create('live', { locale: 'de' });
  const tab = await openTab(browser, url, { scripts: false, locale: 'it-IT' });
  const { page } = tab;
  await page.getByText('Bezahlen mit').waitFor();
  await page.locator('footer summary').click();
  await page.locator('select[name=lang]').selectOption('fr');
  await page.locator('footer button').click();
  await page.getByText('Payer avec').waitFor();
  await page.locator('#c-DOGE').check();
  await page.locator('#c-continue').click();
  await page.getByText('Envoyez exactement').waitFor();
  assert.equal(await page.locator('html').getAttribute('lang'), 'fr');
  await tab.close();
  const other = await openTab(browser, (await create()).url, { locale: 'he-IL' });
  assert.equal(await other.page.locator('html').getAttribute('dir'), 'rtl');
  await other.page.locator('#c-BTC').check();
  await other.page.locator('#c-continue').click();
  await other.page.locator('main[data-state="awaiting"]').waitFor();
  assert.equal(await other.page.getByText('יש לשלוח בדיוק').count(), 1, 'what is exchanged by scripts is in the language too');
  assert.deepEqual(other.faults, []);
  await other.close();
});

longTest('branding: logo, accent color and theme, without violating the security policy; names are text', async () => {
  const { ctx } = app.app;
  const { merchantId } = app.merchant;
  const logo = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" fill="#ffd500"/></svg>');
  await setBranding(ctx, { merchantId, branding: { accent: '#ffd500', theme: 'dark', supportContact: 'https://shop.example/help' }, logo });
  await ctx.db.sql`update merchants set name = ${'<b>"Shop" & Söhne</b>'} where id = ${merchantId}`;
  try {
    await eventually(
      async () => (await fetch((await create()).url)).text(),
      (text) => text.includes('/pay/logo/') && text.includes('&lt;b&gt;'),
    );
    const { url } = await create('live', { description: '<img src=x onerror=alert(1)>' });
    const tab = await openTab(browser, url);
    const { page } = tab;
    assert.match(await page.locator('h1').innerText(), /<b>"Shop" & Söhne<\/b>/);
    assert.ok(((await page.evaluate('document.querySelector("img.logo").naturalWidth')) as number) > 0);
    const color = (selector: string) => page.evaluate(`getComputedStyle(document.querySelector('${selector}')).backgroundColor`);
    assert.equal(await color('#c-continue'), 'rgb(255, 213, 0)');
    assert.equal(await color('main'), 'rgb(22, 28, 36)', 'dark, whatever the system says');
    assert.deepEqual(await auditAccessibility(page), []);
    assert.equal(await page.getByText('Contact <b>').getAttribute('href'), 'https://shop.example/help');
    assert.deepEqual(tab.faults, []);
    await tab.close();
    const served = await fetch(new URL((await (await fetch(url)).text()).match(/\/pay\/logo\/[0-9a-f]+/)![0], url));
    assert.equal(served.headers.get('content-type'), 'image/svg+xml');
    assert.match(served.headers.get('content-security-policy')!, /sandbox/);
  } finally {
    await setBranding(ctx, { merchantId, branding: { accent: null, theme: 'system', supportContact: null }, logo: null });
    await ctx.db.sql`update merchants set name = 'Test shop' where id = ${merchantId}`;
  }
});

test('invalid page settings are refused by name and change nothing', async () => {
  const { merchantId } = app.merchant;
  const set = (branding: object) => setBranding(app.app.ctx, { merchantId, branding });
  await assert.rejects(set({ accent: 'red' }), { code: 'parameter_invalid', param: 'accent' });
  await assert.rejects(set({ theme: 'pink' }), { code: 'parameter_invalid', param: 'theme' });
  await assert.rejects(set({ origins: ['https://shop.example/path'] }), { code: 'parameter_invalid', param: 'origins' });
  await assert.rejects(set({ origins: ["https://shop.example; script-src 'unsafe-inline'"] }), {
    code: 'parameter_invalid',
    param: 'origins',
  });
  await assert.rejects(set({ supportContact: 'javascript:alert(1)' }), { code: 'parameter_invalid', param: 'support' });
  await assert.rejects(setBranding(app.app.ctx, { merchantId: 'mer_unknown', branding: { theme: 'dark' } }), {
    code: 'merchant_not_found',
  });
  assert.match((await fetch((await create()).url)).headers.get('content-security-policy')!, /frame-ancestors 'none'$/);
});

test('updates reach an open page through its stream: from the commit to the new heading', async (t) => {
  const times: number[] = [];
  for (let i = 0; i < (isLongRun ? 5 : 3); i++) {
    const { id, url } = await create();
    const tab = await openTab(browser, 'about:blank');
    // It cannot poll.
    await tab.page.route('**/pay/status*', (route) => route.abort());
    await Promise.all([tab.page.waitForResponse(/\/pay\/events/), tab.page.goto(url)]);
    const cancelled = await app.live.post(`/v1/payments/${id}/cancel`);
    const at = performance.now();
    assert.equal(cancelled.status, 200);
    await tab.page.locator('main[data-state="cancelled"]').waitFor();
    times.push(performance.now() - at);
    assert.equal(await tab.page.evaluate('document.activeElement.id'), 'h', 'the focus is on the new heading');
    assert.equal(await tab.page.locator('#live').innerText(), 'This payment was canceled');
    assert.match(await tab.page.title(), /canceled/);
    await tab.close();
  }
  times.sort((a, b) => a - b);
  const median = times[Math.floor(times.length / 2)]!;
  t.diagnostic(`event to page: median ${median.toFixed(0)} ms, slowest ${times.at(-1)!.toFixed(0)} ms`);
  assert.ok(median < 10_000, `${times}`);
});

test('offline and a failing server: the content stays, with a message above it, and catches up automatically', async () => {
  const { id, url } = await create();
  const tab = await openTab(browser, 'about:blank');
  const { page } = tab;
  await page.clock.install();
  await page.goto(url);
  await page.locator('#c-BTC').check();
  await page.locator('#c-continue').click();
  await page.locator('main[data-state="awaiting"]').waitFor();
  const address = (await detail(id)).payment_address;
  // The page removes such messages when it checks next.
  await stopClock(page);
  await page.context().setOffline(true);
  // One event can meet a check that began before, and nothing checks again while the clock stands still.
  await eventually(
    async () => {
      await page.evaluate("dispatchEvent(new Event('online'))");
      return page.getByText('You are offline').isVisible();
    },
    (isShown) => isShown,
  );
  assert.equal((await page.locator('#address').innerText()).replaceAll(/\s/g, ''), address);
  await page.context().setOffline(false);
  await page.clock.resume();
  await app.live.post(`/v1/payments/${id}/cancel`);
  await page.locator('main[data-state="cancelled"]').waitFor();
  await page.getByText('You are offline').waitFor({ state: 'hidden' });
  await tab.close();
  const other = await create();
  const failing = await openTab(browser, 'about:blank');
  await failing.page.clock.install();
  await failing.page.goto(other.url);
  await stopClock(failing.page);
  await failing.page.route('**/pay/select', (route) =>
    route.fulfill({ status: 500, contentType: 'text/html', body: '<main id="main">error</main>' }),
  );
  await failing.page.locator('#c-continue').click();
  await failing.page.getByText('Your payment is safe').waitFor();
  assert.equal(await failing.page.locator('main[data-state="choose"]').count(), 1);
  await failing.close();
});

longTest('a slow answer shows a skeleton of the QR code instead of the coins', async () => {
  const tab = await openTab(browser, (await create()).url);
  const { page } = tab;
  let letThrough = () => {};
  const held = new Promise<void>((resolve) => {
    letThrough = resolve;
  });
  await page.route('**/pay/select', (route) => held.then(() => route.continue()));
  await page.locator('#c-continue').click();
  await page.locator('.prep').waitFor();
  assert.equal(await page.locator('#c-BTC').isVisible(), false);
  letThrough();
  await page.locator('main[data-state="awaiting"]').waitFor();
  await tab.close();
});

test('the last used coin is selected again, without a cookie', async () => {
  const tab = await openTab(browser, (await create()).url);
  await tab.page.locator('#c-DASH').check();
  await tab.page.locator('#c-continue').click();
  await tab.page.locator('main[data-state="awaiting"]').waitFor();
  await tab.page.goto((await create()).url);
  assert.equal(await tab.page.locator('#c-DASH').isChecked(), true);
  assert.deepEqual(await tab.page.context().cookies(), []);
  await tab.close();
});

test('copying puts the bare value on the clipboard and confirms it', async () => {
  const { id, url } = await create();
  const tab = await openTab(browser, url);
  const { page } = tab;
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.clock.install();
  await page.locator('#c-LTC').check();
  await page.locator('#c-continue').click();
  await page.locator('main[data-state="awaiting"]').waitFor();
  const { payment_address: address, amount } = await detail(id);
  // The confirmation is shown for two seconds.
  await stopClock(page);
  assert.equal(
    await page.evaluate("getSelection().selectAllChildren(document.getElementById('address')), getSelection().toString()"),
    address,
    'selected by hand it has no blanks either',
  );
  for (const text of [amount, address]) {
    const button = page.locator(`[data-copy="${text}"]`);
    await button.click();
    await button.getByText('Copied').waitFor();
    await page.locator('#live', { hasText: 'Copied' }).waitFor();
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), text);
    await page.clock.runFor(2_000);
    await button.getByText('Copied').waitFor({ state: 'detached' });
  }
  await tab.close();
});

test('copying works in browsers without the clipboard API', async () => {
  const { url } = await create();
  const tab = await openTab(browser, 'about:blank');
  const { page } = tab;
  await page.addInitScript(
    "delete Navigator.prototype.clipboard; document.addEventListener('copy', () => { window.copied = document.activeElement.value; });",
  );
  await page.clock.install();
  await page.goto(url);
  await page.locator('#c-LTC').check();
  await page.locator('#c-continue').click();
  await page.locator('main[data-state="awaiting"]').waitFor();
  await stopClock(page);
  const button = page.locator('.copy').first();
  await button.click();
  await button.getByText('Copied').waitFor();
  assert.equal(await page.evaluate('window.copied'), await page.locator('#amount').innerText());
  assert.equal(await button.evaluate((element) => element === document.activeElement), true, 'the focus stays on the button');
  await tab.close();
});

longTest('if the merchant wants it, the screen stays on while a QR code is shown, and no longer', async () => {
  const { merchantId } = app.merchant;
  const locks = "window.locks.map(({ released }) => (released ? 'let go' : 'held')).join()";
  const openAt = async () => {
    const { id, url } = await create();
    const tab = await openTab(browser, 'about:blank');
    // Without windows nothing is granted without a request.
    await tab.page.context().grantPermissions(['screen-wake-lock']);
    await tab.page.addInitScript(
      'window.locks = []; window.asked = 0; const { request } = WakeLock.prototype; WakeLock.prototype.request = async function (kind) { window.asked++; const lock = await request.call(this, kind); window.locks.push(lock); return lock; };',
    );
    await tab.page.goto(url);
    await tab.page.locator('#c-LTC').check();
    await tab.page.locator('#c-continue').click();
    await tab.page.locator('main[data-state="awaiting"]').waitFor();
    return { tab, id };
  };
  await setBranding(app.app.ctx, { merchantId, branding: { kiosk: true } });
  try {
    const { tab, id } = await openAt();
    const lock = () => tab.page.evaluate(locks);
    await eventually(lock, (is) => is === 'held');
    await app.live.post(`/v1/payments/${id}/cancel`);
    await tab.page.locator('main[data-state="cancelled"]').waitFor();
    await eventually(lock, (is) => is === 'let go');
    await tab.close();
  } finally {
    await setBranding(app.app.ctx, { merchantId, branding: { kiosk: false } });
  }
  const { tab } = await openAt();
  // Requested when the QR code is shown, or never.
  assert.equal(await tab.page.evaluate('window.asked'), 0);
  await tab.close();
});

longTest('if a wallet does not open, the customer sees what to do instead, but not before', async () => {
  const tab = await openTab(browser, (await create()).url);
  const { page } = tab;
  await page.locator('#c-DOGE').check();
  await page.locator('#c-continue').click();
  const hint = page.getByText('No wallet opened?');
  await page.locator('#wallet').waitFor();
  assert.equal(await hint.isVisible(), false);
  await page.locator('#wallet').click();
  await hint.waitFor();
  await tab.close();
});

longTest('on a network that blocks streams, the page polls', async () => {
  const { id, url } = await create();
  const tab = await openTab(browser, 'about:blank');
  await tab.page.route('**/pay/events*', (route) => route.abort());
  await tab.page.goto(url);
  await app.live.post(`/v1/payments/${id}/cancel`);
  await tab.page.locator('main[data-state="cancelled"]').waitFor();
  await tab.close();
});

test('returning to the shop: automatic only if the merchant wants it, with a way to stay', async () => {
  const { merchantId } = app.merchant;
  await setBranding(app.app.ctx, { merchantId, branding: { autoReturn: true } });
  try {
    const { id, url } = await create('test', { payment_address: 'test_btc_success' });
    // The simulation starts when the page is opened.
    await fetch(url);
    await eventually(
      () => detail(id, 'test'),
      ({ status }) => status === 'completed',
    );
    const tab = await openTab(browser, 'about:blank');
    await tab.page.route('https://shop.example/**', (route) => route.fulfill({ body: 'thanks', contentType: 'text/html' }));
    await tab.page.clock.install();
    await stopClock(tab.page);
    await tab.page.goto(url);
    await tab.page.getByText('Returning to shop.example in 5 s').waitFor();
    await tab.page.clock.runFor(2_000);
    await tab.page.getByText('Returning to shop.example in 3 s').waitFor();
    await tab.page.getByRole('button', { name: 'Stay here' }).click();
    assert.equal(await tab.page.locator('#auto').isVisible(), false);
    await tab.page.clock.runFor(60_000);
    assert.equal(tab.page.url(), url);
    await tab.page.reload();
    await tab.page.getByText('Returning to shop.example in 5 s').waitFor();
    await tab.page.clock.runFor(5_000);
    await tab.page.waitForURL(/^https:\/\/shop\.example\/thanks\?transaction_id=pay_\w+&status=completed$/);
    // Who goes back wants to see the page, and is not sent away again.
    await tab.page.goBack();
    await tab.page.getByRole('heading', { name: 'Paid' }).waitFor();
    await tab.page.clock.runFor(60_000);
    assert.equal(tab.page.url(), url);
    assert.equal(await tab.page.locator('#auto').isVisible(), false);
    await tab.close();
  } finally {
    await setBranding(app.app.ctx, { merchantId, branding: { autoReturn: false } });
  }
});

test('the status for polling: version, state and status, and an empty response while the version is unchanged', async () => {
  const { id, url } = await create();
  const first = await fetch(new URL(`/pay/status?id=${id}`, url));
  assert.deepEqual(await first.json(), { version: '1', state: 'choose', status: 'pending' });
  const again = await fetch(new URL(`/pay/status?id=${id}`, url), { headers: { 'if-none-match': first.headers.get('etag')! } });
  assert.equal(again.status, 304);
  assert.match(again.headers.get('x-payment-time')!, /^\d{13}$/);
  assert.equal((await fetch(new URL(`/pay/status?id=pay_${'0'.repeat(24)}`, url))).status, 404);
});
