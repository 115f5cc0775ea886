/** A shop with the plugin of BTCPay Server that takes real coins: a node on regtest, the service as a process, a receiver of webhooks. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import type { TestContext } from 'node:test';
import { eventually } from './app.ts';
import { openNodeShop } from './node-shop.ts';
import { startBitcoind, type TestNode } from './nodes.ts';
import type { Service } from './service.ts';
import { type Hit, type ShopClient, shopClient, startHook } from './shop-flows.ts';

export type LiveShop = {
  node: TestNode;
  service: Service;
  /** Calls of the plugin, below the store. */
  call: ShopClient;
  /** An order of 25 USD, which is 0.025 BTC, and the address that the customer pays. */
  order(orderId: string): Promise<{ id: string; address: string }>;
  read(id: string): Promise<any>;
  /** Waits for an event of an order. Returns all of its events so far, signatures checked. */
  until(id: string, type: string): Promise<Hit[]>;
  typesOf(id: string): string[];
};

/** Payments complete after two confirmations. */
export async function openLiveShop(t: TestContext): Promise<LiveShop> {
  const node = await startBitcoind();
  t.after(() => node.destroy());
  const { service, begun } = await openNodeShop(t, [node]);
  await begun();
  const owner = ['--merchant', service.merchantId, '--mode', 'live'];
  const shop = await service.florin('shop', 'connect', ...owner, '--platform', 'woocommerce', '--name', 'Live shop');
  assert.equal(shop.url, `${service.url}/btcpay`);
  const call = shopClient(`${shop.url}/api/v1/stores/${shop.store_id}`, shop.api_key);
  const hook = await startHook(t, 'btcpay-sig');
  const { json: webhook } = await call('POST', '/webhooks', { url: hook.url, authorizedEvents: { everything: true } });
  const hitsOf = (id: string): Hit[] => hook.hits.filter(({ event }) => event.invoiceId === id);
  const typesOf = (id: string): string[] => hitsOf(id).map(({ event }) => event.type);
  return {
    ...{ node, service, call, typesOf },
    order: async (orderId) => {
      const body = { amount: '25.00', currency: 'USD', metadata: { orderId }, checkout: { paymentMethods: ['BTC_CHAIN'] } };
      const made = await call('POST', '/invoices', body);
      assert.equal(made.status, 200, made.text);
      assert.deepEqual((await call('GET', `/invoices/${made.json.id}/payment-methods`)).json, [], 'nothing before the customer chose');
      await service.choose(made.json.id, 'BTC');
      const [method] = (await call('GET', `/invoices/${made.json.id}/payment-methods`)).json;
      assert.deepEqual(
        [method.paymentMethodId, method.amount, method.due, method.rate],
        ['BTC-CHAIN', '0.02500000', '0.02500000', '1000.00'],
      );
      return { id: made.json.id, address: method.destination };
    },
    read: async (id) => (await call('GET', `/invoices/${id}`)).json,
    typesOf,
    until: async (id, type) => {
      await eventually(
        async () => typesOf(id),
        (types) => types.includes(type),
        60_000,
      );
      for (const { text, signature } of hitsOf(id))
        assert.equal(signature, `sha256=${createHmac('sha256', webhook.secret).update(text).digest('hex')}`);
      return hitsOf(id);
    },
  };
}
