/** Shops that are connected to a service in this process, as plugins and operators do it; their payments are simulated. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Role } from '../../src/app.ts';
import { SHOP_COMMANDS } from '../../src/cli/shop-commands.ts';
import type { Context } from '../../src/context.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { COMMERCE_PLATFORM } from '../../src/shops/commerce/connect-commerce.ts';
import { connectShop, PLATFORM_PERMISSIONS, type Platform } from '../../src/shops/shop-keys.ts';
import { type Client, startTestApp, type TestApp } from './app.ts';
import { type FlowShop, PROTOCOLS } from './replay-flow.ts';
import { type Hook, ok, type ShopClient, shopClient, startHook } from './shop-flows.ts';

export const startShopApp = (more: Record<string, string> = {}, options: { roles?: readonly Role[] } = {}): Promise<TestApp> =>
  startTestApp({ PLANS: '{"enterprise":{"per_minute":0}}', LOG_LEVEL: 'fatal', ...more }, options);

/** A merchant, its key for test mode, and a client with that. */
type Owner = { merchantId: string; testSecret: string; api: Client };
export type ConnectedShop = Owner & { key: string; store: string; call: ShopClient };
export type PluginShop = ConnectedShop & { shopId: string };

async function openMerchant(app: TestApp): Promise<Owner> {
  const { merchantId, keys } = await createMerchant(app.app.ctx, { name: 'Lab', plan: 'enterprise' });
  return { merchantId, testSecret: keys.testSecret, api: app.as(keys.testSecret) };
}

/** A shop with a plugin of BTCPay Server, of a new merchant unless another one is named. It calls below `/btcpay`, or the given address. */
export async function connectPlugin(
  app: TestApp,
  { platform = 'woocommerce', mode = 'test', owner, url = `${app.url}/btcpay` }: PluginOptions = {},
): Promise<PluginShop> {
  const { ctx } = app.app;
  const { merchantId, testSecret, api } = owner ?? (await openMerchant(app));
  const shop = { merchantId, mode, platform, name: 'Shop', permissions: PLATFORM_PERMISSIONS[platform] };
  const { apiKey, storeId, shopId } = await ctx.db.begin((tx) => connectShop(ctx, tx, shop));
  return { merchantId, testSecret, api, shopId, key: apiKey, store: storeId, call: shopClient(url, apiKey) };
}
type PluginOptions = { platform?: Platform; mode?: 'test' | 'live'; owner?: Owner; url?: string };

/** With a webhook for the events, by default all. */
export async function addWebhook(t: TestContext, { call, store }: PluginShop, authorizedEvents: object = { everything: true }) {
  const hook = await startHook(t, PROTOCOLS.greenfield.header);
  const asked = { url: hook.url, authorizedEvents, enabled: true };
  const { id, secret } = ok(await call('POST', `/api/v1/stores/${store}/webhooks`, asked));
  return { hook, webhook: id as string, secret: secret as string };
}

export type ChargeShop = ConnectedShop & { hook: Hook; secret: string };
/** A shop that was made for Coinbase Commerce. It calls below `/commerce`. */
export async function connectCharges(t: TestContext, app: TestApp): Promise<ChargeShop> {
  const owner = await openMerchant(app);
  const hook = await startHook(t, PROTOCOLS.commerce.header);
  const flags = { merchant: owner.merchantId, mode: 'test', platform: COMMERCE_PLATFORM, 'webhook-url': hook.url };
  const connect = SHOP_COMMANDS['shop connect'] as { run(ctx: Context, flags: object): Promise<object> };
  const made = (await connect.run(app.app.ctx, flags)) as any;
  assert.deepEqual(Object.keys(made), ['api_key', 'store_id', 'url', 'webhook_secret']);
  assert.ok(made.url.endsWith('/commerce'));
  const call = chargeClient(`${app.url}/commerce`, made.api_key);
  return { ...owner, key: made.api_key, store: made.store_id, call, hook, secret: made.webhook_secret };
}
/** A client of the plugins for Coinbase Commerce: the key in their header. */
export function chargeClient(url: string, key: string): ShopClient {
  const call = shopClient(url, null);
  return (method, path, body) => call(method, path, body, { 'x-cc-api-key': key, 'x-cc-version': '2018-03-22' });
}

/** Starts a scenario of a test payment in Bitcoin. */
export async function play({ api }: Pick<Owner, 'api'>, id: string, scenario: string): Promise<void> {
  const reply = await api.post(`/v1/test/payments/${id}/simulate`, { scenario, currency: 'BTC' });
  assert.equal(reply.status, 200, reply.text);
}

/** For the replay of a recording, with simulated payments. */
export const simulatedFlow = (protocol: FlowShop['protocol'], shop: ConnectedShop & Pick<FlowShop, 'hook' | 'secret'>): FlowShop => ({
  ...shop,
  protocol,
  pay: (id) => play(shop, id, 'success'),
  // It confirms a moment later.
  confirm: async () => {},
  payLate: (id) => play(shop, id, 'late'),
});
