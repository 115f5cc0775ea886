/**
 * What plugins ask for that the recordings do not contain, through a proxy: payments stricter than the merchant's settings, the module for
 * WHMCS, and the addresses of OpenCart.
 */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { PLATFORM_PERMISSIONS, type Platform } from '../../src/shops/shop-keys.ts';
import { client, eventually, type TestApp } from '../kit/app.ts';
import { connectPlugin, play, startShopApp } from '../kit/connected-shop.ts';
import { type FlowCall, ok, readFlow, shopClient, startHook } from '../kit/shop-flows.ts';

let app: TestApp;
/** Like nginx with `proxy_pass` below a path: it ends TLS, takes the path away and names another host. */
const proxy = createServer((request, reply) => {
  const headers: IncomingHttpHeaders = { ...request.headers, host: 'internal.example' };
  Object.assign(headers, { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.7', 'x-forwarded-host': 'evil.example' });
  const path = request.url!.replace(/^\/shop-payments/, '');
  const passed = send(app.url + path, { method: request.method!, headers }, (answer) => {
    reply.writeHead(answer.statusCode!, answer.headers);
    answer.pipe(reply);
  });
  request.pipe(passed);
});
let base = '';
before(async () => {
  app = await startShopApp({ PUBLIC_URL: 'https://pay.example', TRUSTED_PROXIES: '127.0.0.1' });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/shop-payments/btcpay`;
});
after(async () => {
  proxy.close();
  proxy.closeAllConnections();
  await app?.stop();
});

async function openShop(platform: Platform) {
  const shop = await connectPlugin(app, { platform, url: base });
  return { ...shop, api: client(base.replace('/btcpay', ''), shop.testSecret) };
}
const order = (more: object = {}) => ({ amount: '30.00', currency: 'EUR', metadata: { orderId: '12' }, checkout: {}, ...more });

test('an invoice can be stricter than the settings of the merchant, and never less strict', async () => {
  const { call, api } = await openShop('whmcs');
  const make = async (checkout: object, amount = '30.00') => ok(await call('POST', '/api/v1/invoices', order({ amount, checkout })));
  const only = { paymentMethods: ['BTC-CHAIN'] };
  const { checkout: usual } = await make(only);
  assert.deepEqual([usual.paymentTolerance, usual.speedPolicy], [1, 'MediumSpeed'], 'the settings of the merchant');
  for (const [asked, shown] of [
    [0, 0],
    ['0', 0],
    [0.25, 0.25],
    [1, 1],
    [null, 1],
  ] as const)
    assert.equal((await make({ paymentTolerance: asked })).checkout.paymentTolerance, shown, `${asked}`);
  for (const [asked, amount, shown] of [
    ['HighSpeed', '30.00', 'MediumSpeed'],
    ['MediumSpeed', '30.00', 'MediumSpeed'],
    ['LowMediumSpeed', '30.00', 'LowMediumSpeed'],
    ['LowSpeed', '30.00', 'LowSpeed'],
    ['MediumSpeed', '500.00', 'LowMediumSpeed'],
    ['Fastest', '30.00', 'MediumSpeed'],
  ] as const)
    assert.equal((await make({ ...only, speedPolicy: asked }, amount)).checkout.speedPolicy, shown, `${asked} ${amount}`);
  // The payment waits for as many as the invoice says.
  const { id } = await make({ ...only, speedPolicy: 'LowSpeed', paymentTolerance: 0 });
  await play({ api }, id, 'slow');
  assert.equal((await api.get(`/api/payment/${id}`)).json.confirmations_required, 6);
});

test('the calls of the WHMCS module: it needs a payment in full, adopts its webhook and replaces it', async () => {
  const { call, store, key } = await openShop('whmcs');
  const at = `/api/v1/stores/${store}`;
  assert.deepEqual(
    ok(await call('GET', '/api/v1/api-keys/current')).permissions,
    PLATFORM_PERMISSIONS.whmcs.map((permission) => `${permission}:${store}`),
  );
  assert.deepEqual(ok(await call('GET', `${at}/invoices?take=1&skip=0`)), []);
  // Its identifiers, and what it puts into addresses.
  for (const id of [store, key]) assert.match(id, /^[A-Za-z0-9._~-]{1,128}$/);
  const url = 'http://127.0.0.1:9/modules/gateways/callback/btcpay.php';
  const specificEvents = ['InvoiceCreated', 'InvoiceReceivedPayment', 'InvoicePaymentSettled', 'InvoiceProcessing', 'InvoiceSettled'];
  const authorizedEvents = { everything: false, specificEvents: [...specificEvents, 'InvoiceExpired', 'InvoiceInvalid'] };
  const hook = { enabled: true, automaticRedelivery: true, url, authorizedEvents };
  const first = ok(await call('POST', `${at}/webhooks`, hook));
  assert.ok(first.secret.length >= 32);
  const [listed] = ok(await call('GET', `${at}/webhooks`));
  assert.deepEqual([listed.id, listed.url, listed.enabled], [first.id, url, true], 'found by its exact address');
  const kept = ok(await call('PUT', `${at}/webhooks/${first.id}`, { ...hook, secret: first.secret }));
  assert.deepEqual(kept, listed);
  const second = ok(await call('POST', `${at}/webhooks`, hook));
  assert.notEqual(second.id, first.id);
  ok(await call('DELETE', `${at}/webhooks/${first.id}`));
  assert.equal((await call('GET', `${at}/webhooks/${first.id}`)).status, 404);
  assert.equal((await call('DELETE', `${at}/webhooks/${first.id}`)).status, 404);

  const metadata = {
    orderUrl: 'https://host.example/viewinvoice.php?id=17',
    itemDesc: 'WHMCS invoice #17',
    integration: 'whmcs',
    orderId: '17',
  };
  const redirectURL = 'https://host.example/viewinvoice.php?id=17&paymentsuccess=true';
  const checkout = { speedPolicy: 'MediumSpeed', paymentTolerance: 0, redirectURL, redirectAutomatically: true };
  const made = ok(await call('POST', `${at}/invoices`, { amount: '12.5', currency: 'EUR', metadata, checkout }));
  const read = ok(await call('GET', `${at}/invoices/${made.id}`));
  assert.deepEqual([read.id, read.storeId, read.status, read.additionalStatus], [made.id, store, 'New', 'None']);
  assert.deepEqual([Number(read.amount), read.currency, read.metadata], [12.5, 'EUR', metadata]);
  assert.ok(read.checkoutLink.startsWith('https://pay.example/btcpay/'), 'it refuses a page outside of its address');
});

test('the OpenCart extension: its addresses with a | are kept, called and returned to, and it makes a webhook again that is gone', async (t) => {
  const { call, store, api } = await openShop('opencart');
  const at = `/api/v1/stores/${store}`;
  const posted = readFlow('opencart-4.2.2').steps.filter(
    (step): step is FlowCall => step.kind === 'call' && step.request.method === 'POST',
  );
  const bodyOf = (end: string): any => posted.find(({ request }) => request.path.endsWith(end))!.request.body;
  const hook = await startHook(t, 'btcpay-sig');
  const url = bodyOf('/webhooks').url.replace('https://shop.example', new URL(hook.url).origin);
  assert.ok(url.endsWith('/btcpay|callback'));
  const wanted = { ...bodyOf('/webhooks'), url };
  assert.equal((await call('GET', `${at}/webhooks/whk_gone`)).status, 404, 'it then creates another one');
  const made = ok(await call('POST', `${at}/webhooks`, wanted));
  assert.equal(made.url, url);
  assert.equal(ok(await call('GET', `${at}/webhooks/${made.id}`)).url, url);

  const invoice = ok(await call('POST', `${at}/invoices`, bodyOf('/invoices')));
  assert.equal(invoice.checkout.redirectURL, bodyOf('/invoices').checkout.redirectURL);
  assert.deepEqual([Number(invoice.amount), invoice.metadata.orderId], [30, '42'], 'it sends eight decimals');
  await play({ api }, invoice.id, 'success');
  await eventually(
    async () => hook.hits.map(({ event }) => event.type),
    (types) => types.includes('InvoiceSettled'),
  );
  for (const { path, text, signature, event } of hook.hits) {
    assert.equal(decodeURIComponent(path), '/index.php?route=extension/btcpay/payment/btcpay|callback');
    assert.equal(signature, `sha256=${createHmac('sha256', made.secret).update(text).digest('hex')}`);
    assert.equal(event.invoiceId, invoice.id);
  }
  const read = ok(await call('GET', `${at}/invoices/${invoice.id}`));
  assert.deepEqual([read.status, read.additionalStatus, Number(read.amount)], ['Settled', 'None', 30]);
  assert.equal((await api.get(`/api/payment/${invoice.id}`)).json.status, 'completed');
});

test('behind a proxy, pages and scripts have the public address, whatever host it passes on', async () => {
  const { call, key } = await openShop('woocommerce');
  const made = ok(await call('POST', '/api/v1/invoices', order()));
  assert.equal(made.checkoutLink, `https://pay.example/btcpay/i/${made.id}`);
  const placeOf = async (path: string) => {
    const { status, headers } = await fetch(base + path, { redirect: 'manual' });
    return [status, headers.get('location')];
  };
  const page = `https://pay.example/pay?id=${made.id}`;
  assert.deepEqual(await placeOf(`/i/${made.id}`), [302, page]);
  assert.deepEqual(await placeOf(`/invoice?id=${made.id}&view=modal`), [302, `${page}&view=modal`]);
  assert.deepEqual(await placeOf(`/i/${made.id}/BTC-CHAIN?view=modal`), [302, `${page}&view=modal`]);
  assert.deepEqual(await placeOf(`/invoices/${made.id}`), [302, `https://pay.example/dashboard/test/payments/${made.id}`]);
  const [status, authorize] = await placeOf('/api-keys/authorize?permissions=btcpay.store.canviewinvoices&applicationName=Shop');
  assert.ok(status === 302 && String(authorize).startsWith('https://pay.example/dashboard/live/shops/authorize?ask='));
  const script = await fetch(`${base}/modal/btcpay.js?ver=2.8.0`);
  assert.deepEqual([script.status, script.headers.get('cross-origin-resource-policy')], [200, 'cross-origin']);
  // A path, a secure connection and the caller are believed from listed proxies only.
  const direct = await shopClient(`${app.url}/btcpay`, key)('GET', '/api/v1/stores');
  assert.deepEqual([direct.status, direct.json.code], [403, 'https-required']);
});
