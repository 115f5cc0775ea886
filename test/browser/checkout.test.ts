/** The customer's way through the hosted page in a real browser: live on a regtest node, and in test mode; with and without scripts. */
// Invariant: The page works with and without scripts.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import type { Browser, Page } from 'playwright-core';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { assertStill, auditAccessibility, openTab, readQr, startBrowser, type Tab } from '../kit/browser.ts';
import { longTest } from '../kit/long.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

let node: TestNode;
let service: Service;
let browser: Browser;
before(async () => {
  [node, browser] = await Promise.all([startBitcoind(), startBrowser()]);
  service = await startService({
    environment: {
      BTC_NODE_URL: node.url,
      BTC_NETWORK: 'regtest',
      BTC_CONFIRMATIONS: '2',
      PRICES: 'static:BTC=97000.00,ETH=3500.00,LTC=100.00,DASH=30.00,DOGE=0.20',
    },
  });
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(5)).derive("m/84'/1'/0'").publicExtendedKey;
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'BTC', '--mode', 'live'],
    ...['--key', base58check.respell(account, 0x043587cf), '--script', 'p2wpkh'],
  );
  await eventually(
    () => fetch(`${service.url}/readyz`).then((reply) => reply.json() as Promise<any>),
    (ready) => ready.followers?.BTC !== undefined,
  );
});
after(async () => {
  await browser?.close();
  await service?.destroy();
  await node?.destroy();
});

const create = async (mode: 'live' | 'test'): Promise<{ id: string; url: string }> => {
  const created = await service[mode].post('/api/payment/create/advanced', {
    return_url: 'https://shop.example/thanks',
    items: [{ product_id: 'mug', name: 'Mug', quantity: 2, unit_price: 11.5 }],
    tax: 2,
  });
  assert.equal(created.status, 201, created.text);
  return { id: created.json.transaction_id, url: created.json.payment_url };
};
const detail = async (mode: 'live' | 'test', id: string) => (await service[mode].get(`/api/payment/${id}`)).json;
/** The page in the given state; without scripts it is reloaded, as its own refresh does. */
const reachState = async ({ page }: Tab, state: string, scripts: boolean) => {
  const main = page.locator(`main[data-state="${state}"]`);
  if (scripts) await main.waitFor();
  else
    await eventually(
      // Its own refresh may happen in between.
      () =>
        page.reload().then(
          () => main.count(),
          () => 0,
        ),
      (n) => n === 1,
    );
};
/** The code below a name that is pressed first has the same text; a refresh of the page may undo both. */
const readsAs = (page: Page, code: string, text: string, name?: string) =>
  eventually(
    async () => {
      try {
        if (name !== undefined) await page.getByText(name, { exact: true }).click();
        return await readQr(page.locator(code));
      } catch (error) {
        return String(error);
      }
    },
    (read) => read === text,
  );
const audit = async (tab: Tab, scripts: boolean) => {
  if (scripts) assert.deepEqual(await auditAccessibility(tab.page), []);
};

longTest('a window that ends tomorrow: the customer sees their own date and time, and nothing moves when it replaces UTC', async () => {
  const created = await service.live.post('/api/payment/create/simple', {
    amount_usd: '25.00',
    return_url: 'https://shop.example/thanks',
    expires_in: 86_400,
  });
  assert.equal(created.status, 201, created.text);
  const { transaction_id: id, payment_url: url } = created.json;
  const first = await openTab(browser, url);
  await first.page.getByText('Bitcoin').click();
  await first.page.locator('#c-continue').click();
  await first.page.locator('main[data-state="awaiting"]').waitFor();
  await first.close();
  const ends = new Date((await detail('live', id)).expires_at);
  for (const timeZone of ['Pacific/Kiritimati', 'America/Los_Angeles', 'Asia/Kolkata', 'UTC']) {
    for (const width of [360, 390]) {
      const tab = await openTab(browser, url, { timeZone, width });
      const shown = tab.page.locator('time').last();
      await eventually(
        () => shown.innerText(),
        (text) => text === new Intl.DateTimeFormat('en', { dateStyle: 'long', timeStyle: 'short', timeZone }).format(ends),
      );
      await assertStill(tab.page, `${timeZone}, ${width} px`);
      await tab.close();
    }
  }
});

for (const scripts of [true, false]) {
  const how = scripts ? 'with scripts' : 'without scripts';
  test(`live, ${how}: choose, scan, pay, see it complete`, async () => {
    const { id, url } = await create('live');
    const tab = await openTab(browser, url, { scripts, dark: !scripts });
    const { page } = tab;
    await reachState(tab, 'choose', scripts);
    await audit(tab, scripts);
    assert.equal((await detail('live', id)).payment_address, null, 'opening the page allocates no address');
    await page.getByText('Bitcoin').click();
    await page.locator('#c-continue').click();
    await page.locator('main[data-state="awaiting"]').waitFor();
    await audit(tab, scripts);

    const { payment_address: address, amount } = await detail('live', id);
    const uri = await page.locator('#wallet').getAttribute('href');
    assert.equal(uri, `bitcoin:${address}?amount=${amount}`);
    await readsAs(page, '#qr-request svg', uri!);
    assert.equal((await page.locator('#address').innerText()).replaceAll(/\s/g, ''), address);
    assert.equal(await page.locator('#amount').innerText(), amount);
    await readsAs(page, '#qr-address svg', address, 'Address only');

    await node.pay(address, amount);
    await reachState(tab, 'processing', scripts);
    await audit(tab, scripts);
    await node.mine(2);
    await reachState(tab, 'completed', scripts);
    await audit(tab, scripts);
    assert.equal((await detail('live', id)).status, 'completed');
    assert.match(
      (await page.getByText('Return to shop.example').getAttribute('href')) ?? '',
      new RegExp(`transaction_id=${id}&status=completed`),
    );
    await page.getByText('Receipt').click();
    await page.getByText('2 × Mug').waitFor();
    await audit(tab, scripts);
    assert.deepEqual(tab.faults, []);
    await tab.close();
  });

  test(`test mode, ${how}: the page that customers see, with a drawer that simulates the customer`, async () => {
    const { id, url } = await create('test');
    const tab = await openTab(browser, url, { scripts, dark: scripts, locale: 'de-DE' });
    const { page } = tab;
    const simulate = async (name: string) => {
      await page.getByRole('combobox', { name: 'Szenario' }).selectOption({ label: name });
      await page.getByRole('button', { name: 'Zahlung simulieren' }).click();
    };
    await page.getByText('TEST: kein echtes Geld').waitFor();
    await page.getByText('Wählen Sie zuerst eine Kryptowährung.').waitFor();
    await page.getByText('Litecoin').click();
    await page.locator('#c-continue').click();
    await page.locator('main[data-state="awaiting"]').waitFor();
    const { payment_address: address, amount, status } = await detail('test', id);
    assert.deepEqual([address, status], ['test_ltc_success', 'pending'], 'nothing is paid until it is picked');
    assert.equal((await page.locator('#address').innerText()).replaceAll(/\s/g, ''), address);
    assert.equal(await page.locator('#amount').innerText(), amount);
    assert.equal(await readQr(page.locator('#qr-request svg')), `litecoin:${address}?amount=${amount}`);
    assert.match(await page.locator('#clock').innerText(), /^1[45]:\d\d$/);
    await audit(tab, scripts);
    await simulate('Teilzahlung');
    await reachState(tab, 'underpaid', scripts);
    // Next, the missing amount is paid; with only the first scenario the page would stay there.
    await eventually(
      async () => {
        if (!scripts) await page.reload();
        return page.locator('#simulate').count();
      },
      (count) => count === 1,
    );
    await simulate('Vollständige Zahlung');
    await reachState(tab, 'completed', scripts);
    await page.getByText('Hier lässt sich nichts mehr simulieren.').waitFor();
    await audit(tab, scripts);
    const paid = await detail('test', id);
    assert.deepEqual([paid.status, paid.exception, paid.amount_received, paid.transfers.length], ['completed', null, paid.amount, 2]);
    assert.deepEqual(tab.faults, []);
    await tab.close();
  });
}

test('the drawer stays closed once it is closed, and a live page has none', async () => {
  const test = await create('test');
  const tab = await openTab(browser, test.url, { width: 1280 });
  const { page } = tab;
  await page.getByText('Litecoin').click();
  const drawer = page.locator('details.sim');
  await drawer.locator('summary').click();
  await page.locator('#c-continue').click();
  await page.locator('main[data-state="awaiting"]').waitFor();
  assert.equal(await drawer.evaluate((fold) => (fold as HTMLDetailsElement).open), false);
  const [bar, card] = [(await drawer.boundingBox())!, (await page.locator('#main').boundingBox())!];
  assert.ok(bar.x >= card.x + card.width, `the closed drawer begins at ${bar.x}, the card ends at ${card.x + card.width}`);
  assert.equal(await page.getByRole('link', { name: 'Simulate payment' }).count(), 0);
  // On a phone it is below the card, and a link at the top leads to it.
  await page.setViewportSize({ width: 390, height: 700 });
  await page.evaluate('window.scrollTo(0, 0)');
  await page.getByRole('link', { name: 'Simulate payment' }).click();
  await page.locator('details.sim[open]').waitFor();
  await page.waitForFunction(() => document.getElementById('simulate')!.getBoundingClientRect().bottom <= innerHeight);
  await tab.close();
  const live = await create('live');
  const payer = await openTab(browser, live.url);
  await payer.page.getByText('Bitcoin').click();
  await payer.page.locator('#c-continue').click();
  await payer.page.locator('main[data-state="awaiting"]').waitFor();
  assert.equal(await payer.page.locator('.sim, #simulate, #scenario').count(), 0);
  await payer.close();
});

test('updates do not wait for a reload: a partial transfer changes amount and QR code on the open page', async () => {
  const { id, url } = await create('live');
  const tab = await openTab(browser, url);
  await tab.page.getByText('Bitcoin').click();
  await tab.page.locator('#c-continue').click();
  await tab.page.locator('main[data-state="awaiting"]').waitFor();
  const { payment_address: address } = await detail('live', id);
  await node.pay(address, '0.00010000');
  await tab.page.locator('main[data-state="underpaid"]').waitFor();
  const rest = (await detail('live', id)).amount_remaining;
  assert.equal(await tab.page.locator('#amount').innerText(), rest);
  assert.equal(await readQr(tab.page.locator('#qr-request svg')), `bitcoin:${address}?amount=${rest}`);
  const said = tab.page.locator('#live');
  assert.equal(await said.innerText(), `Partial payment received. Remaining: ${rest} BTC`);
  assert.deepEqual(await auditAccessibility(tab.page), []);
  // Another partial transfer: the page keeps its heading, so the amount is announced.
  await node.pay(address, '0.00005000');
  await tab.page.locator('#amount', { hasNotText: rest }).waitFor();
  const less = (await detail('live', id)).amount_remaining;
  assert.equal(await said.innerText(), `Partial payment received. Remaining: ${less} BTC`);
  assert.deepEqual(tab.faults, []);
  await tab.close();
});

longTest('times are in the customer’s time zone and in the format of the page’s language', async () => {
  const { id } = await create('live');
  await service.choose(id, 'BTC');
  for (const [lang, timeZone] of [
    ['en', 'America/New_York'],
    ['de', 'Asia/Kolkata'],
    ['zh-TW', 'Pacific/Auckland'],
    ['ar', 'Africa/Cairo'],
  ] as const) {
    const tab = await openTab(browser, `${service.url}/pay?id=${id}&lang=${lang}`, { timeZone });
    await tab.page.locator('time .tz').first().waitFor({ state: 'detached' });
    const shown = await tab.page
      .locator('main time')
      .evaluateAll((all) => all.map((one) => [one.getAttribute('datetime')!, one.textContent!]));
    assert.ok(shown.length > 0);
    // Spaces differ between versions of the browser’s and the server’s language data.
    const plain = (text: string) => text.replace(/\s/g, ' ');
    const format = new Intl.DateTimeFormat(`${lang}-u-nu-latn`, { timeStyle: 'short', timeZone });
    for (const [at, text] of shown) assert.equal(plain(text!), plain(format.format(new Date(at!))), `${lang}, ${timeZone}`);
    assert.deepEqual(tab.faults, []);
    await tab.close();
  }
});

test('the rate expires: one tap gets a new one, the address stays, and the end of the window is shown beside it', async () => {
  const { id, url } = await create('live');
  await service.choose(id, 'BTC');
  const first = await detail('live', id);
  await service.age(id, 16 * 60);
  const tab = await openTab(browser, url);
  const { page } = tab;
  await page.locator('main[data-state="rate_over"]').waitFor();
  assert.equal(await page.locator('svg[role=img]').count(), 0, 'the old amount cannot be scanned any more');
  assert.equal(await page.getByText(first.payment_address).count(), 0);
  await page.getByText('You can pay until').waitFor();
  assert.deepEqual(await auditAccessibility(page), []);
  await page.keyboard.press('Tab');
  await page.locator('#requote').focus();
  await page.keyboard.press('Enter');
  await page.locator('main[data-state="awaiting"]').waitFor();
  const second = await detail('live', id);
  assert.equal(second.payment_address, first.payment_address);
  assert.ok(second.quote_expires_at > first.quote_expires_at);
  assert.equal(await readQr(page.locator('#qr-request svg')), `bitcoin:${second.payment_address}?amount=${second.amount}`);
  assert.match(await page.locator('#clock').innerText(), /^1[45]:\d\d$/);
  assert.ok((await page.locator('.clock time').count()) === 2, 'the lock and the window');
  assert.deepEqual(tab.faults, []);
  await tab.close();
});

test('the rate expires on an open page: the page says so automatically', async () => {
  const { id, url } = await create('live');
  await service.choose(id, 'BTC');
  const tab = await openTab(browser, 'about:blank');
  await tab.page.clock.install();
  // Only its own clock tells it.
  await tab.page.route(/\/pay\/(events|status)\?/, (route) => route.abort());
  await tab.page.goto(url);
  await tab.page.locator('main[data-state="awaiting"]').waitFor();
  await service.age(id, 15 * 60);
  await tab.page.clock.fastForward('15:00');
  await tab.page.locator('main[data-state="rate_over"]').waitFor();
  assert.equal(await tab.page.locator('#live').innerText(), 'Rate expired');
  await tab.close();
});

for (const scripts of [true, false]) {
  test(`overpaid, ${scripts ? 'with' : 'without'} scripts: an invalid address is refused at its field, a valid one is stored for the merchant`, async () => {
    const { id, url } = await create('live');
    await service.choose(id, 'BTC');
    const { payment_address: address } = await detail('live', id);
    await node.pay(address, '0.00050000');
    await node.mine(2);
    const tab = await openTab(browser, url, { scripts });
    const { page } = tab;
    await reachState(tab, 'overpaid', scripts);
    await page.getByText('Request a refund').click();
    await page.locator('#refund-address').fill('bc1qwrongwrongwrong');
    await page.locator('#refund-email').fill('payer@mail.example');
    await page.locator('#refund').click();
    await page.getByText('Enter a valid BTC address.').waitFor();
    const field = page.locator('#refund-address');
    assert.equal(await field.getAttribute('aria-invalid'), 'true');
    assert.equal(await field.getAttribute('aria-describedby'), 'fault');
    assert.equal(await field.inputValue(), 'bc1qwrongwrongwrong', 'what was typed stays');
    assert.equal(await page.locator('#refund-email').inputValue(), 'payer@mail.example');
    await audit(tab, scripts);
    const own = await node.newAddress();
    await field.fill(own);
    await page.locator('#refund').click();
    await page.getByText(own).waitFor();
    const rows = await service.database.db.sql`select coin, address, email from refund_addresses where payment_id = ${id}`;
    assert.deepEqual([...rows], [{ coin: 'BTC', address: own, email: 'payer@mail.example' }]);
    await tab.close();
  });
}

longTest('the operator sets how the page looks; a receipt can be printed', async () => {
  const run = (...args: string[]) => service.florin('checkout', 'set', '--merchant', service.merchantId, ...args);
  const folder = mkdtempSync(join(tmpdir(), 'florin-logo-'));
  const logo = join(folder, 'logo.svg');
  writeFileSync(logo, '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4"/></svg>');
  const set = await run('--accent', '#0a7440', '--support', 'help@shop.example', '--logo', logo, '--origins', 'https://shop.example');
  assert.equal(set.accent, '#0a7440');
  assert.deepEqual(set.origins, ['https://shop.example']);
  await assert.rejects(run('--accent', 'green'), /accent/);
  const { id, url } = await create('test');
  await service.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
  // Settings of a merchant are cached for a second.
  await eventually(
    async () => (await fetch(url)).text(),
    (text) => text.includes('help@shop.example'),
  );
  const tab = await openTab(browser, url);
  const { page } = tab;
  await page.locator('main[data-state="completed"]').waitFor();
  assert.equal(await page.getByText('Contact Test shop').getAttribute('href'), 'mailto:help@shop.example');
  await page.getByText('Receipt').click();
  await page.locator('img.logo').waitFor();
  await page.waitForLoadState();
  await page.evaluate('window.print = () => { window.printed = true; }');
  await page.getByRole('button', { name: 'Print' }).click();
  assert.equal(await page.evaluate('window.printed'), true);
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  assert.equal(await page.locator('#print').isVisible(), false);
  assert.equal(await page.evaluate('getComputedStyle(document.querySelector("main")).backgroundColor'), 'rgb(255, 255, 255)');
  assert.deepEqual(tab.faults, []);
  await tab.close();
  const cleared = await run('--logo', 'none', '--origins', 'none', '--accent', 'none', '--support', 'none');
  assert.deepEqual([cleared.logo, cleared.origins, cleared.accent, cleared.support], [null, [], null, null]);
  const next = await create('test');
  await eventually(
    async () => (await fetch(next.url)).text(),
    (text) => !text.includes('/pay/logo/'),
  );
  rmSync(folder, { recursive: true });
});

test('the page by keyboard alone, at 320 px, and a payment that does not exist', async () => {
  const { url } = await create('live');
  const tab = await openTab(browser, url, { width: 320 });
  const { page } = tab;
  assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, 'nothing is wider than the screen');
  for (let i = 0; i < 10 && (await page.evaluate('document.activeElement.name')) !== 'currency'; i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Space');
  for (let i = 0; i < 10 && (await page.evaluate('document.activeElement.id')) !== 'c-continue'; i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.locator('main[data-state="awaiting"]').waitFor();
  assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, 'nothing is wider than the screen');
  assert.deepEqual(tab.faults, []);
  await tab.close();
  const missing = await openTab(browser, `${service.url}/pay?id=pay_${'0'.repeat(24)}`);
  await missing.page.getByText('Payment not found').waitFor();
  assert.deepEqual(await auditAccessibility(missing.page), []);
  await missing.close();
});
