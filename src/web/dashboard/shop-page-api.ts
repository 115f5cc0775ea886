/** The page of one shop: what it is, its webhooks with their health, the plugin that it uses, and a test order. */
import Type from 'typebox';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { readAgent } from '#keys';
import { createPayment, simulatePayment } from '#payments';
import { writeAudit } from '#people';
import { newestKeyOf, type ShopFilter } from '#queries';
import { createOrder, getShop, offeredCoins } from '#shops';
import { type Endpoint, getEndpoint } from '#webhooks';
import { pluginAt } from '../shop-plugins.ts';
import { Instant, Nullable, PlainText } from './fields.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';
import { platformNameOf } from './shops-api.ts';
import { EndpointItem, endpointItems } from './webhooks-api.ts';

const TEST_ORDER = { number: 'florin-test', description: 'Test order from Florin', usdCents: 1_000n } as const;

const Page = Type.Object({
  id: PlainText,
  name: PlainText,
  platform: PlainText,
  site: Nullable(PlainText),
  created_at: Instant,
  created_by: Nullable(PlainText),
  last_used_at: Nullable(Instant),
  /** What makes its calls: an API key, or its own. Null while the plugin has made no payment. */
  key: Nullable(Type.Object({ id: PlainText, name: PlainText, hint: PlainText })),
  /** As its last calls said. Null while nothing is known. */
  plugin_version: Nullable(PlainText),
  /** What this install has for it. Null for plugins of others. */
  offered_version: Nullable(PlainText),
  /** Whether other shops have the same payments, because they don't say which one made them. */
  shares_orders: Type.Boolean(),
  endpoints: Type.Array(EndpointItem),
});

/** A shop with one of Florin's plugins is known by its endpoint. Errors: endpoint_not_found. */
async function readSite(call: MemberCall, id: string): Promise<{ endpoint: Endpoint; plugin: NonNullable<ReturnType<typeof pluginAt>> }> {
  const endpoint = await getEndpoint(call.ctx, { ...ownerOfCall(call), endpointId: id });
  const plugin = pluginAt(endpoint.url);
  if (plugin === null) throw new Problem('endpoint_not_found', { id });
  return { endpoint, plugin };
}
const isConnected = (id: string): boolean => id.startsWith('shp_');

/** The payments of a shop. Errors: key_not_found, endpoint_not_found. */
export async function shopFilterOf(call: MemberCall, id: string): Promise<ShopFilter> {
  if (isConnected(id)) return { lineId: (await getShop(call.ctx, { ...ownerOfCall(call), shopId: id })).lineId };
  return (await readSite(call, id)).plugin.madeBy;
}

async function connectedPage(call: MemberCall, id: string) {
  const owner = ownerOfCall(call);
  const shop = await getShop(call.ctx, { ...owner, shopId: id });
  const { name, hint, dialect, lineId } = shop;
  return {
    ...{ id, name, platform: platformNameOf(shop), site: shop.origin, created_by: shop.createdBy },
    created_at: shop.createdAt.toISOString(),
    last_used_at: shop.lastUsedAt?.toISOString() ?? null,
    key: { id, name, hint },
    plugin_version: await readAgent(call.ctx, { ...owner, keyId: id, begins: '' }),
    ...{ offered_version: null, shares_orders: false },
    endpoints: await endpointItems(call, { dialect, lineId }),
  };
}

async function sitePage(call: MemberCall, id: string) {
  const owner = ownerOfCall(call);
  const { endpoint, plugin } = await readSite(call, id);
  const { agent: begins, madeBy: shop } = plugin;
  const [key, endpoints] = await Promise.all([newestKeyOf(call.ctx, { ...owner, shop }), endpointItems(call, { dialect: 'florin' })]);
  const agent = key && (await readAgent(call.ctx, { ...owner, keyId: key.id, begins }));
  const alike = endpoints.filter(({ url }) => JSON.stringify(pluginAt(url)?.madeBy) === JSON.stringify(shop));
  return {
    ...{ id, name: URL.parse(endpoint.url)?.host ?? endpoint.url, platform: plugin.title, site: URL.parse(endpoint.url)?.origin ?? null },
    ...{ created_at: endpoint.createdAt.toISOString(), created_by: null, last_used_at: null, key },
    plugin_version: agent?.slice(begins.length) ?? null,
    offered_version: plugin.offered,
    shares_orders: alike.length > 1,
    endpoints: endpoints.filter((one) => one.id === id),
  };
}

/** Creates the payment of an order that no shop has. Returns its ID. */
async function createTestOrder(call: MemberCall, id: string): Promise<string> {
  const { ctx } = call;
  const owner = ownerOfCall(call);
  if (isConnected(id)) {
    const shop = await getShop(ctx, { ...owner, shopId: id });
    const { dialect } = shop;
    const name = dialect === 'commerce' ? 'order_id' : 'orderId';
    const paymentId = newId('pay', ctx.random);
    const charge = dialect === 'commerce' ? { name: TEST_ORDER.description, description: '', cancelUrl: null } : null;
    const coins = await offeredCoins(ctx, { ...shop, ...owner });
    const checkout = { redirectUrl: null, redirectAutomatically: false, language: null, coins, charge };
    return createOrder(
      ctx,
      { ...shop, ...owner },
      {
        ...{ dialect, returnUrl: null, description: TEST_ORDER.description, expiresInSeconds: null, idempotency: null },
        price: { amountUsdCents: TEST_ORDER.usdCents, fixed: null, fiat: null },
        invoice: { paymentId, orderId: TEST_ORDER.number, metadata: JSON.stringify({ [name]: TEST_ORDER.number }), checkout },
      },
    );
  }
  const { name, values } = (await readSite(call, id)).plugin.madeBy.metadata;
  const made = await createPayment(ctx, {
    ...{ ...owner, createdWith: 'secret', idempotency: null },
    draft: {
      ...{
        amountUsdCents: TEST_ORDER.usdCents,
        fixed: null,
        coin: null,
        invoiceId: TEST_ORDER.number,
        expiresInSeconds: null,
        scenario: null,
      },
      // No order: plugins leave alone what names none.
      metadata: { [name]: values[0]! },
      request: {
        ...{ returnUrl: null, items: null, taxMinor: null, fiat: null, locale: null, asset: null },
        description: TEST_ORDER.description,
      },
    },
    render: (view) => ({ status: 200, body: Buffer.from(view.facts.id) }),
  });
  return Buffer.from(made.body).toString();
}

export const SHOP_PAGE: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/shops/:id',
    action: 'keys.read',
    reply: Type.Object({ success: Type.Boolean(), shop: Page }),
    handle: async (call) => {
      const { id } = call.params;
      return { success: true, shop: isConnected(id) ? await connectedPage(call, id) : await sitePage(call, id) };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shops/:id/test-order',
    action: 'payments.simulate',
    body: Type.Object({}),
    reply: Type.Object({ success: Type.Boolean(), payment_id: PlainText }),
    handle: async (call) => {
      const { ctx } = call;
      await shopFilterOf(call, call.params.id);
      if (call.mode !== 'test') throw new Problem('test_key_required');
      const paymentId = await createTestOrder(call, call.params.id);
      const owner = ownerOfCall(call);
      await ctx.db.begin((tx) => writeAudit(tx, { ...owner, actor: call.actor, action: 'payment.create', object: paymentId }));
      await simulatePayment(ctx, {
        ...{ merchantId: owner.merchantId, paymentId, scenario: 'success', coin: null, idempotency: null },
        render: () => ({ status: 200, body: Buffer.from('') }),
      });
      return { success: true, payment_id: paymentId };
    },
  }),
];
