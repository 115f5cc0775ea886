/** Operator commands for the shops that are connected to a merchant. */
import { ROLL_ENDS, type RollEnds } from '#keys';
import {
  COMMERCE_PLATFORM,
  commerceUrl,
  connectCommerce,
  connectShop,
  disconnectShop,
  GREENFIELD_PATH,
  listShops,
  PLATFORM_PERMISSIONS,
  PLATFORMS,
  rollShopKey,
} from '#shops';
import { type Commands, MERCHANT, MODE, need, oneOfOption, ownerOfFlags, UsageError } from './command.ts';

const OWNER = { merchant: MERCHANT, mode: MODE };
const SHOP = { value: 'ID', about: 'Shop, such as shp_... ("shop list" shows them)', required: true } as const;
const ENDS = Object.keys(ROLL_ENDS) as RollEnds[];
const CONNECTABLE = [...PLATFORMS, COMMERCE_PLATFORM] as const;
const TITLES = {
  woocommerce: 'WooCommerce',
  prestashop: 'PrestaShop',
  magento: 'Magento 2',
  opencart: 'OpenCart',
  whmcs: 'WHMCS',
} as const;

export const SHOP_COMMANDS: Commands = {
  'shop connect': {
    about: 'Create the key that connects a shop through its plugin',
    options: {
      ...OWNER,
      platform: { value: CONNECTABLE.join('|'), about: 'Its key gets exactly the permissions that the plugin expects', required: true },
      name: { value: 'NAME', about: 'Name to recognize the shop by' },
      replaces: { value: 'ID', about: 'Shop that gets a new key ("shop list" shows them); it keeps its orders and webhooks' },
      'webhook-url': { value: 'URL', about: `Where a ${COMMERCE_PLATFORM} shop receives its webhooks; prints their secret` },
    },
    notes: 'The key is shown once. Enter the key, the store ID and the URL in the settings of the plugin.',
    run: async (ctx, flags) => {
      const platform = oneOfOption(need(flags, 'platform'), CONNECTABLE, 'platform');
      const webhookUrl = flags['webhook-url'] ?? null;
      const replaces = flags.replaces ?? null;
      if (platform === COMMERCE_PLATFORM) {
        const made = await connectCommerce(ctx, { ...ownerOfFlags(flags), name: flags.name ?? 'Coinbase Commerce', replaces, webhookUrl });
        const webhook = made.webhookSecret === null ? {} : { webhook_secret: made.webhookSecret };
        return { api_key: made.apiKey, store_id: made.storeId, url: commerceUrl(ctx), ...webhook };
      }
      if (webhookUrl !== null)
        throw new UsageError(`--webhook-url is for ${COMMERCE_PLATFORM}. Other plugins create their webhook themselves.`);
      const name = flags.name ?? TITLES[platform];
      const shop = { ...ownerOfFlags(flags), platform, name, replaces, permissions: PLATFORM_PERMISSIONS[platform] };
      const { apiKey, storeId } = await ctx.db.begin((tx) => connectShop(ctx, tx, shop));
      return { api_key: apiKey, store_id: storeId, url: ctx.settings.publicUrl + GREENFIELD_PATH };
    },
  },
  'shop list': {
    about: 'List the connected shops of a merchant, newest first',
    options: OWNER,
    columns: ['id', 'name', 'platform', 'key', 'created_at', 'last_used_at'],
    run: async (ctx, flags) => ({
      shops: (await listShops(ctx, ownerOfFlags(flags))).map(({ id, name, platform, dialect, hint, origin, createdAt, lastUsedAt }) => ({
        ...{
          id,
          name,
          platform: dialect === 'commerce' ? COMMERCE_PLATFORM : platform,
          key: hint,
          origin,
          created_at: createdAt.toISOString(),
        },
        last_used_at: lastUsedAt?.toISOString() ?? null,
      })),
    }),
  },
  'shop roll-key': {
    about: 'Replace the key of a shop; its webhooks and their secrets stay',
    options: {
      ...OWNER,
      shop: SHOP,
      ends: { value: ENDS.join('|'), about: 'When the old key ends (default day)' },
    },
    run: async (ctx, flags) => {
      const ends = oneOfOption(flags.ends ?? 'day', ENDS, 'ends');
      const shop = { ...ownerOfFlags(flags), shopId: need(flags, 'shop'), ends, createdBy: 'The operator', actorId: null };
      const { apiKey, storeId } = await ctx.db.begin((tx) => rollShopKey(ctx, tx, shop));
      return { api_key: apiKey, store_id: storeId };
    },
  },
  'shop disconnect': {
    about: 'Disconnect a shop; its key stops working within a second',
    options: { ...OWNER, shop: SHOP },
    run: async (ctx, flags) => {
      const shopId = need(flags, 'shop');
      await ctx.db.begin((tx) => disconnectShop(tx, { ...ownerOfFlags(flags), shopId }));
      return { shop_id: shopId, disconnected: true };
    },
  },
};
