/** The payer's way through the hosted page in a real browser: live on a regtest node, and in test mode; with and without scripts. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import type { Browser } from 'playwright-core';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { auditAccessibility, openTab, readQr, startBrowser, type Tab } from '../kit/browser.ts';
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
    20_000,
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
/** The page as it is now in the given state; without scripts it is loaded again, as its own refresh does. */
const reachState = async ({ page }: Tab, state: string, scripts: boolean) => {
  const main = page.locator(`main[data-state="${state}"]`);
  if (scripts) await main.waitFor({ timeout: 20_000 });
  else
    await eventually(
      async () => {
        await page.reload();
        return main.count();
      },
      (n) => n === 1,
      20_000,
    );
};
const audit = async (tab: Tab, scripts: boolean) => {
  if (scripts) assert.deepEqual(await auditAccessibility(tab.page), []);
};

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
    assert.equal(await readQr(page.locator('#qr-request svg')), uri);
    assert.equal((await page.locator('#address').innerText()).replaceAll(/\s/g, ''), address);
    assert.equal(await page.locator('#amount').innerText(), amount);
    await page.getByText('Address only').click();
    assert.equal(await readQr(page.locator('#qr-address svg')), address);

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

  test(`test mode, ${how}: no QR, simulate, see it complete`, async () => {
    const { id, url } = await create('test');
    const tab = await openTab(browser, url, { scripts, dark: scripts });
    const { page } = tab;
    await page.getByText('TEST: no real money moves').waitFor();
    await page.getByText('Litecoin').click();
    await page.locator('select[name=scenario]').selectOption('success');
    await page.locator('#c-continue').click();
    await page.locator('main:not([data-state="choose"])').waitFor();
    await reachState(tab, 'completed', scripts);
    assert.equal(await page.locator('main svg[role=img]').count(), 0, 'a test page shows no QR code');
    await audit(tab, scripts);
    assert.equal((await detail('test', id)).status, 'completed');
    assert.deepEqual(tab.faults, []);
    await tab.close();
  });
}

test('two payers do not wait for a reload: a part that arrives changes amount and QR on the open page', async () => {
  const { id, url } = await create('live');
  const tab = await openTab(browser, url);
  await tab.page.getByText('Bitcoin').click();
  await tab.page.locator('#c-continue').click();
  await tab.page.locator('main[data-state="awaiting"]').waitFor();
  const { payment_address: address } = await detail('live', id);
  await node.pay(address, '0.00010000');
  await tab.page.locator('main[data-state="underpaid"]').waitFor({ timeout: 20_000 });
  const rest = (await detail('live', id)).amount_remaining;
  assert.equal(await tab.page.locator('#amount').innerText(), rest);
  assert.equal(await readQr(tab.page.locator('#qr-request svg')), `bitcoin:${address}?amount=${rest}`);
  assert.deepEqual(await auditAccessibility(tab.page), []);
  assert.deepEqual(tab.faults, []);
  await tab.close();
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
  await missing.page.getByText('There is no such payment').waitFor();
  assert.deepEqual(await auditAccessibility(missing.page), []);
  await missing.close();
});
