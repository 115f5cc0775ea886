/** Every recorded flow of BTCPay's plugins, replayed with simulated payments. `test/nodes/shop-orders.test.ts` replays them with real coins. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TestApp } from '../kit/app.ts';
import { connectPlugin, simulatedFlow, startShopApp } from '../kit/connected-shop.ts';
import { PROTOCOLS, replayFlow } from '../kit/replay-flow.ts';
import { type FlowCall, PLUGIN_FLOWS, readFlow, readShopFile, shopClient, startHook } from '../kit/shop-flows.ts';

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
