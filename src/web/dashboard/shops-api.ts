/** Connected shops: the list, keys that are entered by hand, pairing by the plugin of a shop, disconnecting. */
import { isIP } from 'node:net';
import Type from 'typebox';
import { isPublicAddress } from '#connections';
import type { Context } from '#context';
import { COIN, coinText } from '#core/coin';
import { formatUnits, readAmountText } from '#core/money';
import { isLoopback } from '#core/networks';
import { Problem } from '#core/problem';
import { type MemberRole, mayDo } from '#core/roles';
import { literals } from '#http';
import { ROLL_ENDS, type RollEnds } from '#keys';
import { getMerchant } from '#merchants';
import { readTxid } from '#outgoing';
import { writeAudit } from '#people';
import {
  approveShopRefund,
  COMMERCE_PLATFORM,
  commerceUrl,
  connectCommerce,
  connectShop,
  disconnectShop,
  grantableTo,
  greenfieldUrl,
  type ListedShop,
  linkOfShopRefund,
  listShopRefunds,
  listShops,
  markShopRefundSent,
  type NewShop,
  needApproval,
  PLATFORM_PERMISSIONS,
  PLATFORMS,
  platformOf,
  readPairing,
  renewRefund,
  rollShopKey,
  type ShopRefund,
  storeIdOf,
} from '#shops';
import { type Endpoint, listEndpoints } from '#webhooks';
import { offeredPlugins, pluginAt } from '../shop-plugins.ts';
import { Done, Instant, Nullable, PlainText, pageOf, paging } from './fields.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

/** Plain http to a host that is neither this machine nor an address of a private network. */
function isUnprotected(site: string | null): boolean {
  const url = site === null ? null : URL.parse(site);
  if (url?.protocol !== 'http:' || isLoopback(url.hostname)) return false;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 || isPublicAddress(host);
}
const ENDS = Object.keys(ROLL_ENDS) as RollEnds[];
const Name = Type.String({ minLength: 1, maxLength: 60, pattern: '^\\S(.*\\S)?$' });
/** What a member connects by hand. */
const Platform = literals([...PLATFORMS, COMMERCE_PLATFORM] as const);
const Ask = Type.String({ maxLength: 6_000 });
/** A plugin of Florin's own that this install packs. */
const Plugin = Type.Object({ title: PlainText, version: PlainText, url: PlainText });
/** A shop with one of them. It uses a key of the API and an endpoint, by which it is known. */
const Site = Type.Object({ plugin: PlainText, site: PlainText, endpoint_id: PlainText, enabled: Type.Boolean(), created_at: Instant });
const siteOf = ({ id, url, enabled, createdAt }: Endpoint) => {
  const plugin = pluginAt(url);
  return plugin === null
    ? []
    : [{ plugin: plugin.title, site: URL.parse(url)?.origin ?? url, endpoint_id: id, enabled, created_at: createdAt.toISOString() }];
};
const Item = Type.Object({
  id: PlainText,
  name: PlainText,
  platform: literals([...PLATFORMS, COMMERCE_PLATFORM, 'other'] as const),
  hint: PlainText,
  site: Nullable(PlainText),
  can_refund: Type.Boolean(),
  created_by: Nullable(PlainText),
  created_at: Instant,
  last_used_at: Nullable(Instant),
});
/** What members call the platform of a shop. */
export const platformNameOf = ({ dialect, platform }: Pick<ListedShop, 'dialect' | 'platform'>) =>
  dialect === 'commerce' ? COMMERCE_PLATFORM : platform;
const item = (shop: ListedShop) => ({
  platform: platformNameOf(shop),
  ...{ id: shop.id, name: shop.name, hint: shop.hint, site: shop.origin, created_by: shop.createdBy },
  can_refund: shop.permissions.some((permission) => permission.endsWith('pullpayments')),
  created_at: shop.createdAt.toISOString(),
  last_used_at: shop.lastUsedAt?.toISOString() ?? null,
});
const Refund = Type.Object({
  id: PlainText,
  name: PlainText,
  amount: PlainText,
  currency: PlainText,
  coin: Nullable(PlainText),
  address: Nullable(PlainText),
  created_at: Instant,
  expires_at: Instant,
  claimed_at: Nullable(Instant),
  /** Until `approved_at`, a second member has to approve it. */
  approved_by: Nullable(PlainText),
  approved_at: Nullable(Instant),
  sent_at: Nullable(Instant),
  amount_sent: Nullable(PlainText),
  txid: Nullable(PlainText),
  /** Null for members who cannot request refunds: anyone who has the link of an open one enters the address. */
  url: Nullable(PlainText),
  /** Whether the link that the customer has was ended, and a member has to send this one. */
  link_ended: Type.Boolean(),
});
const at = (instant: Date | null): string | null => instant?.toISOString() ?? null;
const refundItem = (ctx: Context, refund: ShopRefund, role: MemberRole) => ({
  ...{ id: refund.id, name: refund.name, amount: refund.amount, currency: refund.currency },
  ...{ coin: refund.coin && coinText(refund.coin), address: refund.address, created_at: refund.createdAt.toISOString() },
  ...{ expires_at: refund.claimUntil.toISOString(), claimed_at: at(refund.claimedAt), sent_at: at(refund.sentAt), txid: refund.txid },
  ...{ approved_by: refund.approvedBy, approved_at: at(refund.approvedAt) },
  amount_sent: refund.coin === null || refund.units === null ? null : formatUnits(refund.coin, refund.units),
  url: mayDo(role, 'refunds.request') ? `${greenfieldUrl(ctx)}/pull-payments/${linkOfShopRefund(ctx, refund)}` : null,
  link_ended: refund.linkEndedAt !== null && refund.claimedAt === null,
});
/** The only replies that contain the key. */
const Connected = Type.Object({
  ...{ success: Type.Boolean(), api_key: PlainText, store_id: PlainText, url: PlainText },
  /** What the plugin expects and the member may not give it. */
  not_granted: Type.Array(PlainText),
});
/** With the secret of the webhook that plugins for Coinbase Commerce cannot create themselves. */
const ConnectedByHand = Type.Object({ ...Connected.properties, webhook_secret: Nullable(PlainText) });
const Paired = Type.Object({
  ...Connected.properties,
  redirect: Nullable(PlainText),
  user_id: PlainText,
  permissions: Type.Array(PlainText),
});

async function connect(call: MemberCall, shop: Pick<NewShop, 'platform' | 'name' | 'permissions' | 'origin' | 'site' | 'replaces'>) {
  const { userId: actorId, name: createdBy } = call.actor;
  const made = await call.ctx.db.begin(async (tx) => {
    const connected = await connectShop(call.ctx, tx, { ...ownerOfCall(call), ...shop, createdBy, actorId });
    const after = { name: shop.name, platform: shop.platform, site: shop.origin ?? null, permissions: connected.permissions };
    await writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, action: 'shop.connected', object: connected.shopId, after });
    return connected;
  });
  const not_granted = shop.permissions.filter((permission) => !made.permissions.includes(permission));
  return { made, reply: { success: true, api_key: made.apiKey, store_id: made.storeId, url: greenfieldUrl(call.ctx), not_granted } };
}

/** A shop whose plugin was made for Coinbase Commerce. */
type ByHand = { name: string; replaces: string | null };
async function connectByCommerce(call: MemberCall, { name, replaces, webhookUrl }: ByHand & { webhookUrl: string | null }) {
  const { userId: actorId, name: createdBy } = call.actor;
  const made = await connectCommerce(call.ctx, {
    ...{ ...ownerOfCall(call), name, replaces, webhookUrl, createdBy, actorId, by: call.actor },
    also: (tx, shopId) => {
      const after = { name, platform: COMMERCE_PLATFORM, site: null, permissions: [], webhook: webhookUrl };
      return writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, action: 'shop.connected', object: shopId, after });
    },
  });
  const reply = { success: true, api_key: made.apiKey, store_id: made.storeId, url: commerceUrl(call.ctx), not_granted: [] };
  return { ...reply, webhook_secret: made.webhookSecret };
}

export const SHOPS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/shops',
    action: 'keys.read',
    reply: Type.Object({
      success: Type.Boolean(),
      data: Type.Array(Item),
      url: PlainText,
      store_id: PlainText,
      on_plan: Type.Boolean(),
      plugins: Type.Array(Plugin),
      sites: Type.Array(Site),
    }),
    handle: async (call) => {
      const { ctx } = call;
      const owner = ownerOfCall(call);
      const [shops, endpoints, { plan }] = await Promise.all([listShops(ctx, owner), listEndpoints(ctx, owner), getMerchant(ctx, owner)]);
      return {
        ...{ success: true, data: shops.map(item), url: greenfieldUrl(ctx), store_id: storeIdOf(owner) },
        on_plan: ctx.settings.plans[plan].webhooks,
        plugins: offeredPlugins(ctx),
        sites: endpoints.flatMap(siteOf),
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shops',
    action: 'keys.manage',
    recent: true,
    body: Type.Object({
      platform: Platform,
      name: Name,
      webhook_url: Type.Optional(Nullable(Type.String({ maxLength: 2_000 }))),
      /** The connected shop that gets a new key. */
      replaces: Type.Optional(Nullable(Type.String({ maxLength: 40 }))),
    }),
    reply: ConnectedByHand,
    handle: async (call) => {
      const { platform: asked, name, webhook_url = null, replaces = null } = call.body;
      const platform = PLATFORMS.find((known) => known === asked) ?? null;
      if (platform === null) return connectByCommerce(call, { name, replaces, webhookUrl: webhook_url });
      const { reply } = await connect(call, { platform, name, replaces, permissions: PLATFORM_PERMISSIONS[platform] });
      return { ...reply, webhook_secret: null };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shops/asked',
    action: 'keys.read',
    body: Type.Object({ ask: Ask }),
    reply: Type.Object({
      success: Type.Boolean(),
      name: PlainText,
      site: Nullable(PlainText),
      /** The key would be sent there without encryption, over networks of others. */
      unprotected: Type.Boolean(),
      permissions: Type.Array(PlainText),
      /** Those that the member may not give to a shop. */
      not_grantable: Type.Array(PlainText),
      unknown: Type.Array(PlainText),
      business: PlainText,
      on_plan: Type.Boolean(),
    }),
    handle: async (call) => {
      const { name, origin: site, permissions, unknown } = readPairing(call.body.ask);
      const merchant = await getMerchant(call.ctx, ownerOfCall(call));
      const on_plan = call.ctx.settings.plans[merchant.plan].webhooks;
      const granted = grantableTo(call.member.role, permissions);
      const not_grantable = permissions.filter((permission) => !granted.includes(permission));
      const asked = { name, site, unprotected: isUnprotected(site), permissions, not_grantable, unknown };
      return { success: true, ...asked, business: merchant.name, on_plan };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shops/pair',
    action: 'keys.manage',
    recent: true,
    body: Type.Object({ ask: Ask }),
    reply: Paired,
    handle: async (call) => {
      const { name, redirect, origin, site, permissions, unknown } = readPairing(call.body.ask);
      const reason = unknown.length > 0 ? `Florin does not have ${unknown.join(', ')}` : 'it names no permissions';
      if (unknown.length > 0 || permissions.length === 0) throw new Problem('parameter_invalid', { reason }, { param: 'permissions' });
      const { made, reply } = await connect(call, { platform: platformOf(permissions), name, permissions, origin, site });
      const named = made.permissions.map((permission) => `${permission}:${made.storeId}`);
      return { ...reply, redirect, user_id: call.actor.userId, permissions: named };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/shop-refunds',
    action: 'payments.read',
    query: Type.Object(paging),
    reply: pageOf(Refund),
    handle: async (call) => {
      const { limit: asked, starting_after: startingAfter = null } = call.query;
      const limit = Number(asked ?? 25);
      const { role } = call.member;
      // An open one is only for members who can request refunds: its ID is in the link.
      const isClaimed = !mayDo(role, 'refunds.request');
      const refunds = await listShopRefunds(call.ctx, { ...ownerOfCall(call), limit: limit + 1, startingAfter, isClaimed });
      const data = refunds.slice(0, limit).map((refund) => refundItem(call.ctx, refund, role));
      return { success: true, data, has_more: refunds.length > limit };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shop-refunds/:id/approve',
    action: 'refunds.approve',
    recent: true,
    body: Type.Object({}),
    reply: Type.Object({ success: Type.Boolean(), approved: Type.Boolean() }),
    handle: async (call) => {
      const target = { ...ownerOfCall(call), refundId: call.params.id, actor: call.actor };
      return { success: true, approved: await call.ctx.db.begin((tx) => approveShopRefund(call.ctx, tx, target)) };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shop-refunds/:id/renew',
    action: 'refunds.request',
    body: Type.Object({}),
    reply: Done,
    handle: async (call) => {
      const target = { ...ownerOfCall(call), refundId: call.params.id, actor: call.actor };
      await call.ctx.db.begin((tx) => renewRefund(call.ctx, tx, target));
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shop-refunds/:id/sent',
    action: 'payments.resolve',
    recent: true,
    body: Type.Object({
      /** In the coin that the customer chose: it is what the books show. */
      amount: Type.String({ minLength: 1, maxLength: 40 }),
      txid: Nullable(Type.String({ minLength: 1, maxLength: 100 })),
    }),
    reply: Done,
    handle: async (call) => {
      await call.ctx.db.begin(async (tx) => {
        const { txid: given, amount } = call.body as { txid: string | null; amount: string };
        const target = { ...ownerOfCall(call), refundId: call.params.id };
        const { coin } = await needApproval(tx, target);
        const units = coin === null ? null : readAmountText(amount, COIN[coin].decimals);
        if (coin !== null && (units === null || units <= 0n)) throw new Problem('amount_invalid', {}, { param: 'amount' });
        const txid = coin === null || given === null ? given : readTxid(coin, given);
        await markShopRefundSent(tx, { ...target, txid, units });
        await writeAudit(tx, {
          ...ownerOfCall(call),
          actor: call.actor,
          action: 'shop.refund_sent',
          object: call.params.id,
          after: { txid },
        });
      });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shops/:id/roll',
    action: 'keys.manage',
    recent: true,
    body: Type.Object({ ends: literals(ENDS) }),
    reply: Connected,
    handle: async (call) => {
      const ends = ENDS.find((known) => known === call.body.ends);
      if (!ends) throw new Problem('parameter_invalid', { reason: `it must be one of ${ENDS.join(', ')}` }, { param: 'ends' });
      const { userId: actorId, name: createdBy } = call.actor;
      const rolled = await call.ctx.db.begin(async (tx) => {
        const shop = await rollShopKey(call.ctx, tx, { ...ownerOfCall(call), shopId: call.params.id, ends, createdBy, actorId });
        const after = { name: shop.name, ends };
        await writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, action: 'shop.key_rolled', object: call.params.id, after });
        return shop;
      });
      const url = rolled.dialect === 'commerce' ? commerceUrl(call.ctx) : greenfieldUrl(call.ctx);
      return { success: true, api_key: rolled.apiKey, store_id: rolled.storeId, url, not_granted: [] };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/shops/:id/disconnect',
    action: 'keys.manage',
    recent: true,
    body: Type.Object({}),
    reply: Done,
    handle: async (call) => {
      await call.ctx.db.begin(async (tx) => {
        const before = await disconnectShop(tx, { ...ownerOfCall(call), shopId: call.params.id });
        await writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, action: 'shop.disconnected', object: call.params.id, before });
      });
      return { success: true };
    },
  }),
];
