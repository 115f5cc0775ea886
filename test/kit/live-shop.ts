/** A shop with the plugin of BTCPay Server that takes real coins: a node on regtest, the service as a process, a receiver of webhooks. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Platform } from '../../src/shops/shop-keys.ts';
import { eventually } from './app.ts';
import { chargeClient } from './connected-shop.ts';
import { openNodeShop } from './node-shop.ts';
import { startBitcoind, type TestNode } from './nodes.ts';
import { type FlowShop, PROTOCOLS } from './replay-flow.ts';
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
  /** Another shop of the merchant, for the replay of a recording with payments on the chain. */
  connectFlow(platform: Platform | 'coinbase-commerce'): Promise<FlowShop>;
};

/** Payments complete after two confirmations. */
export async function openLiveShop(t: TestContext): Promise<LiveShop> {
  const node = await startBitcoind();
  t.after(() => node.destroy());
  const { service, begun, detail, reach } = await openNodeShop(t, [node]);
  await begun();
  const { sign } = PROTOCOLS.greenfield;
  const owner = ['--merchant', service.merchantId, '--mode', 'live'];
  const shop = await service.florin('shop', 'connect', ...owner, '--platform', 'woocommerce', '--name', 'Live shop');
  assert.equal(shop.url, `${service.url}/btcpay`);
  const call = shopClient(`${shop.url}/api/v1/stores/${shop.store_id}`, shop.api_key);
  const hook = await startHook(t, PROTOCOLS.greenfield.header);
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
      for (const { text, signature } of hitsOf(id)) assert.equal(signature, sign(webhook.secret, text));
      return hitsOf(id);
    },
    connectFlow: async (platform) => {
      const protocol = platform === 'coinbase-commerce' ? PROTOCOLS.commerce : PROTOCOLS.greenfield;
      const hook = await startHook(t, protocol.header);
      const to = platform === 'coinbase-commerce' ? ['--webhook-url', hook.url] : [];
      const made = await service.florin('shop', 'connect', ...owner, '--platform', platform, ...to);
      const client = platform === 'coinbase-commerce' ? chargeClient : shopClient;
      const pay = async (id: string) => {
        const { payment_address: address, amount } = await detail(id);
        await node.pay(address, amount);
      };
      return {
        ...{ protocol, hook, key: made.api_key, store: made.store_id, secret: made.webhook_secret },
        call: client(made.url, made.api_key),
        pay: async (id) => {
          await service.choose(id, 'BTC');
          await pay(id);
        },
        confirm: async () => void (await node.mine(2)),
        payLate: async (id) => {
          await service.choose(id, 'BTC');
          await service.ageToDeadline(id);
          await node.mine(1);
          await reach(id, 'expired');
          await pay(id);
        },
      };
    },
  };
}
