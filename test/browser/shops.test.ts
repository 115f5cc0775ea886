/** Shops in a real browser: a plugin is paired in the dashboard, its shop takes a payment in a frame, and it is disconnected. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { openTab } from '../kit/browser.ts';
import { OWNER, startDashboard } from '../kit/dashboard.ts';
import { serve } from '../kit/serve.ts';
import { readShopFile, shopClient } from '../kit/shop-flows.ts';

const dashboard = await startDashboard();
const { app, page, tab } = dashboard;

/** The shop: takes the form of the pairing, and serves the page of its checkout. */
const posted: URLSearchParams[] = [];
let checkout = '';
const shop = await serve((request, reply, body) => {
  if (request.method === 'POST') posted.push(new URLSearchParams(body.toString()));
  reply.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
  reply.end(
    `<!doctype html><html lang="en"><head><title>Shop</title><link rel="icon" href="data:,"></head><body><h1>Shop</h1>${request.url === '/checkout' ? checkout : ''}</body></html>`,
  );
});
after(shop.stop);
const origin = shop.url;

test('a plugin asks for its key: a member chooses the mode and agrees, and the browser takes the key to the shop', async () => {
  const asked = readShopFile('authorize').get.replace(
    /redirect=.*/,
    `redirect=${encodeURIComponent(`${origin}/?btcpay-settings-callback`)}`,
  );
  await dashboard.signOut();
  await page.goto(`${app.config.publicUrl}/btcpay${asked}`);
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByText('wants to take payments for').waitFor();
  await page.getByText(origin, { exact: true }).waitFor();
  await page
    .getByRole('button', { name: 'Test', exact: true })
    .or(page.getByRole('radio', { name: 'Test' }))
    .click();
  await page.waitForURL(/\/dashboard\/test\/shops\/authorize/);
  await page.getByText('Test payments move no money.').waitFor();
  await dashboard.audit('connecting a shop');
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await page.waitForURL(`${origin}/?btcpay-settings-callback`);
  dashboard.noFaults();
  const [form] = posted;
  const key = form!.get('apiKey')!;
  assert.match(key, /^shop_test_[0-9A-Za-z]{38}$/);
  assert.ok(form!.get('userId'));
  // The key works at once: the plugin makes its webhook in the request that received it.
  const call = shopClient(`${app.url}/btcpay`, key);
  const [store] = (await call('GET', '/api/v1/stores')).json;
  const wanted = new URLSearchParams(asked.split('?')[1]).getAll('permissions');
  assert.deepEqual(
    form!.getAll('permissions[]'),
    wanted.map((permission) => `${permission}:${store.id}`),
  );
  assert.deepEqual((await call('GET', '/api/v1/api-keys/current')).json.permissions, form!.getAll('permissions[]'));
});

test('a link that asks for more than there is connects nothing, and other pages may send forms nowhere else', async () => {
  const link = (permission: string) => `/btcpay/api-keys/authorize?permissions=${permission}&applicationName=Odd&redirect=${origin}/`;
  await page.goto(app.config.publicUrl + link('btcpay.store.canuselightningnode'));
  await page.getByText('canuselightningnode').waitFor();
  assert.ok(await page.getByRole('button', { name: 'Connect', exact: true }).isDisabled());
  const policyOf = async (path: string) => (await fetch(app.url + path)).headers.get('content-security-policy')!;
  assert.match(await policyOf('/dashboard/test/shops'), /form-action 'self';/);
  assert.match(await policyOf('/dashboard/test/shops/authorize?ask=x'), /form-action 'self';/);
  assert.equal(posted.length, 1);
});

test('the script of the plugin opens the page over the shop, says how it goes, and the customer pays', async () => {
  const call = shopClient(`${app.url}/btcpay`, posted[0]!.get('apiKey'));
  const body = { amount: '30.00', currency: 'USD', metadata: { orderId: '7' }, checkout: { redirectURL: `${origin}/thanks?key=1` } };
  const { json: invoice } = await call('POST', '/api/v1/invoices', body);
  checkout = `<button id="buy">Buy</button><script>document.documentElement.lang = 'de-AT'; buy.focus();</script><script src="${app.config.publicUrl}/btcpay/modal/btcpay.js?ver=2.8.0"></script><script>
    window.heard = [];
    btcpay.onModalReceiveMessage((event) => heard.push(event.data));
    btcpay.onModalWillEnter(() => heard.push('enter'));
    btcpay.onModalWillLeave(() => heard.push('leave'));
    btcpay.showInvoice('${invoice.id}');
  </script>`;
  const customer = await openTab(dashboard.browser, `${origin}/checkout`, { width: 390 });
  const heard = () => customer.page.evaluate('window.heard') as Promise<(string | { invoiceId: string; status: string })[]>;
  await customer.page.locator('iframe').waitFor({ state: 'visible' });
  const frame = customer.page.frameLocator('iframe');
  await frame.getByText('Litecoin').click();
  await frame.locator('#c-continue').click();
  await frame.locator('#simulate').click();
  await frame.locator('main[data-state="completed"]').waitFor();
  await eventually(heard, (all) => all.some((one) => typeof one === 'object' && one.status === 'Settled'));
  const all = await heard();
  assert.deepEqual(all.slice(0, 3), ['enter', 'loaded', { invoiceId: invoice.id, status: 'New' }]);
  assert.equal(await frame.locator('#return').getAttribute('href'), `${origin}/thanks?key=1`, 'nothing is added to the address');
  // With the keyboard: the focus stays in the modal, and returns to the shop when it closes. Its words are in the language of the shop.
  const dialog = customer.page.getByRole('dialog', { name: 'Zahlung' });
  const close = dialog.getByRole('button', { name: 'Schließen' });
  const focusedTag = () => customer.page.evaluate('document.activeElement.tagName') as Promise<string>;
  await close.focus();
  await customer.page.keyboard.press('Tab');
  assert.equal(await focusedTag(), 'IFRAME', 'after the last element comes the first');
  await close.focus();
  await customer.page.keyboard.press('Enter');
  assert.equal(await customer.page.evaluate('document.activeElement.id'), 'buy');
  assert.deepEqual((await heard()).slice(-2), ['leave', 'close']);
  assert.equal(await customer.page.locator('iframe').count(), 0);
  assert.deepEqual(customer.faults, []);
  await customer.close();
  const link = await fetch(`${app.url}/btcpay/invoices/${invoice.id}`, { redirect: 'manual' });
  assert.equal(link.headers.get('location'), `${app.config.publicUrl}/dashboard/test/payments/${invoice.id}`);
});

test('the page of a shop shows its orders, calls, plugin and webhooks, and a test order goes through all of it', async () => {
  const invoice = { amount: '12.00', currency: 'USD', metadata: { orderId: '8' } };
  const call = shopClient(`${app.url}/btcpay`, posted[0]!.get('apiKey'));
  assert.equal((await call('POST', '/api/v1/invoices', invoice)).status, 200);
  const refund = await call('POST', '/api/v1/stores/another/invoices', invoice);
  assert.equal(refund.status, 403);
  await dashboard.go('test/shops', 'Shops');
  await page.getByRole('link', { name: 'WooCommerce', exact: true }).click();
  const orders = page.getByRole('table', { name: 'Orders' });
  await orders.getByRole('row', { name: /^7\b.*Completed/ }).waitFor();
  await orders.getByRole('row', { name: /^8\b.*Pending/ }).waitFor();
  const calls = page.getByRole('table', { name: 'Last calls' });
  // Routes, not paths: the ID of a refund is enough to claim it.
  await calls.getByRole('row', { name: /POST \/btcpay\/api\/v1\/stores\/:store\/invoices.*403/ }).waitFor();
  await calls
    .getByRole('row', { name: /POST \/btcpay\/api\/v1\/invoices.*200/ })
    .first()
    .waitFor();
  await page.getByText('This shop has no webhook').waitFor();
  await dashboard.audit('the page of a shop');
  await page.getByRole('button', { name: 'Send a test order' }).click();
  await page.getByText('Test order from Florin').waitFor();
  await page.getByText('Completed', { exact: true }).first().waitFor();
  dashboard.noFaults();
});

test('an invoice whose order the shop canceled or edited is ended from the page of the shop, and nobody can pay it any more', async () => {
  const call = shopClient(`${app.url}/btcpay`, posted[0]!.get('apiKey'));
  const read = async (id: string) => (await call('GET', `/api/v1/invoices/${id}`)).json;
  const body = { amount: '25.00', currency: 'USD', metadata: { orderId: '9' } };
  const { json: invoice } = await call('POST', '/api/v1/invoices', body);
  assert.deepEqual([invoice.status, invoice.availableStatusesForManualMarking], ['New', ['Invalid']]);
  await dashboard.go('test/shops', 'Shops');
  await page.getByRole('link', { name: 'WooCommerce', exact: true }).click();
  await page.getByRole('table', { name: 'Orders' }).getByRole('link', { name: '9', exact: true }).click();
  await page.getByRole('button', { name: 'Cancel payment' }).click();
  const question = page.getByRole('dialog', { name: 'Cancel this payment?' });
  assert.doesNotMatch(await question.innerText(), /Received/, 'nothing came');
  await question.getByRole('button', { name: 'Cancel payment' }).click();
  await page.getByText('Payment canceled.').waitFor();
  await page.getByText('Canceled', { exact: true }).first().waitFor();
  const { status, availableStatusesForManualMarking } = await read(invoice.id);
  assert.deepEqual([status, availableStatusesForManualMarking], ['Invalid', []]);
  const customer = await openTab(dashboard.browser, `${app.config.publicUrl}/btcpay/i/${invoice.id}`, { width: 390 });
  await customer.page.locator('main[data-state="cancelled"]').waitFor();
  assert.equal(await customer.page.locator('#c-continue').count(), 0);
  await customer.close();
  dashboard.noFaults();
});

test('a shop with a plugin of Florin has a page with the version that it uses and its orders only', async () => {
  const { url: site, stop } = await serve((_request, reply) => reply.writeHead(200).end());
  after(stop);
  const made = await app.test.post('/v1/webhook_endpoints', { url: `${site}/?wc-api=florin`, events: ['*'] });
  assert.equal(made.status, 201, made.text);
  const order = async (number: string, of: string) => {
    const reply = await fetch(`${app.url}/api/payment/create/simple`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${app.merchant.keys.testSecret}`,
        'content-type': 'application/json',
        'user-agent': 'Florin-WooCommerce/9.8.7',
      },
      body: JSON.stringify({ amount_usd: 20, return_url: `${of}/`, invoice_id: number, metadata: { order_id: number, shop: of } }),
    });
    assert.equal(reply.status, 201, await reply.text());
  };
  await order('4711', site);
  await order('4712', 'http://127.0.0.1:10');
  await dashboard.go('test/shops', 'Shops');
  await page.getByRole('link', { name: site }).click();
  await page.getByText(/^9\.8\.7 \(this Florin offers /).waitFor();
  const orders = page.getByRole('table', { name: 'Orders' });
  await orders.getByRole('link', { name: '4711' }).waitFor();
  assert.equal(await orders.getByRole('link', { name: '4712' }).count(), 0);
  await page
    .getByRole('table', { name: 'Last calls' })
    .getByRole('row', { name: /POST \/api\/payment\/create\/simple/ })
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'Send a test order' }).click();
  await page.getByText('Test order from Florin').waitFor();
  await dashboard.go(`test/shops/${made.json.id}`, new URL(site).host);
  await orders.getByRole('row', { name: /^florin-test\b.*Completed/ }).waitFor();
  await page.getByText('100% delivered in the last 24 hours.').waitFor();
  dashboard.noFaults();
});

test('connected shops are listed, get keys for other plugins, and are disconnected', async () => {
  // A shop with Florin's own plugin has a key of the API, and is known by its endpoint.
  const made = await app.test.post('/v1/webhook_endpoints', { url: 'http://127.0.0.1:9/?wc-api=florin', events: ['*'] });
  assert.equal(made.status, 201, made.text);
  await dashboard.go('test/shops', 'Shops');
  const own = page.getByRole('listitem').filter({ hasText: 'WooCommerce' }).getByRole('link', { name: 'http://127.0.0.1:9' });
  assert.equal(await own.getAttribute('href'), `/dashboard/test/shops/${made.json.id}`);
  await page
    .getByRole('cell', { name: /WooCommerce/ })
    .first()
    .waitFor();
  await dashboard.audit('shops');
  // Florin's own plugins are served by the install.
  for (const [title, version, magic, name] of [
    ['WooCommerce', /version \d+\.\d+\.\d+/, 'PK\u0003\u0004', /^attachment; filename="florin-payments-\d[\w.-]*\.zip"$/],
    ['Medusa 2', /version \d+\.\d+\.\d+/, '\u001f\u008b', /^attachment; filename="medusa-payment-florin-\d[\w.-]*\.tgz"$/],
  ] as const) {
    const link = page.getByRole('link', { name: `Download the plugin for ${title}` });
    await page.getByRole('listitem').filter({ has: link }).getByText(version).waitFor();
    const reply = await fetch(app.url + (await link.getAttribute('href')));
    assert.equal(reply.status, 200, title);
    assert.match(reply.headers.get('content-disposition')!, name);
    assert.equal(Buffer.from(await reply.arrayBuffer()).toString('latin1', 0, magic.length), magic);
  }
  await page.getByRole('button', { name: 'Connect a shop' }).click();
  await page.getByLabel('Platform').selectOption('magento');
  await page.getByLabel('Name').fill('Magento shop');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByText('Enter this in your shop').waitFor();
  await page.getByText(/^shop_test_[0-9A-Za-z]{38}$/).waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  // One that was made for Coinbase Commerce gets the secret of its webhook too.
  await page.getByRole('button', { name: 'Connect a shop' }).click();
  await page.getByLabel('Platform').selectOption('coinbase-commerce');
  await page.getByLabel('Name').fill('Old shop');
  await page.getByLabel('Webhook URL').fill(`${origin}/?wc-api=WC_Gateway_Coinbase`);
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByText('Webhook secret').waitFor();
  await page.getByText(`${app.config.publicUrl}/commerce`).waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('cell', { name: /Old shop\s*Coinbase Commerce/ }).waitFor();
  await page.getByRole('button', { name: 'Disconnect WooCommerce' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click();
  await page.getByText('Shop disconnected.').waitFor();
  const call = shopClient(`${app.url}/btcpay`, posted[0]!.get('apiKey'));
  await eventually(
    () => call('GET', '/api/v1/stores'),
    ({ status }) => status === 401,
  );
  assert.deepEqual(tab.faults, []);
});
