/** Every recorded flow of BTCPay's plugins, replayed with simulated payments. `test/nodes/shop-orders.test.ts` replays them with real coins. */
// Invariant: Everything that plugins do in the recordings works, with simulated payments and with real coins.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, type TestApp } from '../kit/app.ts';
import { addWebhook, connectPlugin, play, simulatedFlow, startShopApp } from '../kit/connected-shop.ts';
import { PROTOCOLS, replayFlow } from '../kit/replay-flow.ts';
import { type FlowCall, ok, PLUGIN_FLOWS, readFlow, readShopFile, shopClient, startHook } from '../kit/shop-flows.ts';

let app: TestApp;
before(async () => {
  app = await startShopApp();
});
after(() => app?.stop());

for (const [name, platform] of PLUGIN_FLOWS)
  test(`the recorded flow of ${platform}: every call is answered with 200 and what the plugin reads, every webhook is as recorded`, async (t) => {
    const shop = await connectPlugin(app, { platform });
    const hook = await startHook(t, PROTOCOLS.greenfield.header);
    await replayFlow(simulatedFlow(PROTOCOLS.greenfield, { ...shop, hook }), readFlow(name));
  });

/** What the results of BTCPay's library for PHP declare. It checks types strictly: a null or a number instead of a text ends the plugin. */
const DECLARED: readonly (readonly [path: string, type: string, ...fields: string[]])[] = [
  ['/server/info', 'string', 'version', 'syncStatus.0.cryptoCode'],
  ['/server/info', 'number', ...['chainHeight', 'syncHeight', 'nodeInformation.blocks'].map((field) => `syncStatus.0.${field}`)],
  ['/server/info', 'boolean', 'fullySynched', 'syncStatus.0.available'],
  ['/stores/{STORE}', 'string', 'id', 'name'],
  ['/stores/{STORE}/webhooks', 'string', '0.id', '0.url'],
  ['/stores/{STORE}/webhooks', 'boolean', '0.enabled', '0.automaticRedelivery', '0.authorizedEvents.everything'],
  ['/invoices/{INVOICE}', 'string', 'id', 'status', 'additionalStatus', 'amount', 'currency', 'checkoutLink'],
  ['/invoices/{INVOICE}', 'object', 'availableStatusesForManualMarking', 'checkout'],
  [
    ...(['/invoices/{INVOICE}/payment-methods', 'string', '0.destination', '0.rate', '0.amount', '0.due', '0.totalPaid'] as const),
    ...['0.paymentMethodPaid', '0.networkFee', '0.paymentMethod', '0.currency', '0.cryptoCode'],
    ...['id', 'value', 'fee', 'status', 'destination'].map((field) => `0.payments.0.${field}`),
  ],
  ['/invoices/{INVOICE}/payment-methods', 'number', '0.payments.0.receivedDate'],
];

test('every field has the type that the PHP library of the plugins declares', async (t) => {
  const shop = await connectPlugin(app);
  const { hook } = await addWebhook(t, shop);
  const invoice = { amount: '30', currency: 'EUR', metadata: { orderId: '12' }, checkout: {} };
  const { id } = ok(await shop.call('POST', '/api/v1/invoices', invoice));
  await play(shop, id, 'success');
  await eventually(
    async () => hook.hits.length,
    (count) => count === 5,
  );
  const at = (value: any, field: string) => field.split('.').reduce((part, name) => part?.[name], value);
  for (const [path, type, ...fields] of DECLARED) {
    const read = ok(await shop.call('GET', `/api/v1${path.replace('{STORE}', shop.store).replace('{INVOICE}', id)}`));
    for (const field of fields)
      assert.ok(at(read, field) !== null && typeof at(read, field) === type, `${path} ${field}: ${at(read, field)}`);
  }
  const refund = { name: 'Refund of order 12', amount: '10.00', currency: 'EUR', paymentMethods: ['BTC_CHAIN'] };
  const pull = ok(await shop.call('POST', `/api/v1/stores/${shop.store}/pull-payments`, refund));
  for (const field of ['id', 'name', 'amount', 'currency', 'viewLink']) assert.equal(typeof pull[field], 'string', field);
});

test('what Shopify and the older BitPay API ask for is refused in the documented form, and creates nothing', async () => {
  const { store, key, api } = await connectPlugin(app);
  const { create } = readShopFile('bitpay-legacy');
  const plugin = `/stores/${store}/plugins/shopify-v2`;
  const shopify = readShopFile('shopify-v2').steps.filter(({ kind }: { kind: string }) => kind === 'call');
  const asked: { method: string; path: string; body?: object }[] = [
    ...shopify.map(({ request }: FlowCall) => ({ ...request, path: request.path.replace('{PLUGIN_URL}', plugin) })),
    create,
    { method: 'POST', path: '/tokens', body: { id: 'Tf49yWsm', pairingCode: 'AbCdEfG' } },
  ];
  assert.equal(asked.length, 6);
  for (const { method, path, body } of asked)
    for (const authorization of [`token ${key}`, `Basic ${btoa(key)}`]) {
      const reply = await shopClient(`${app.url}/btcpay`, null)(method, path, body, { authorization });
      assert.deepEqual([path, reply.status, reply.json.error.code], [path, 404, 'unknown_route']);
    }
  assert.deepEqual((await api.get('/v1/events')).json.data, []);
});
