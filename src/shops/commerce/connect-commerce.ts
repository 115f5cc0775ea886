/** Connects a shop that was made for Coinbase Commerce: its key, and the webhook that its settings cannot create. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { base62 } from '#core/id';
import type { Tx } from '#db';
import { BY_OPERATOR, type EndpointActor, EVERYTHING, planEndpoint } from '#webhooks';
import { queueMissed } from '../shop-invoices.ts';
import { connectShop, type NewShop } from '../shop-keys.ts';

/** Where the protocol is served. */
export const COMMERCE_PATH = '/commerce';
export const commerceUrl = ({ settings }: Context): string => settings.publicUrl + COMMERCE_PATH;
/** What the operator's commands call such a shop. */
export const COMMERCE_PLATFORM = 'coinbase-commerce' as const;

type NewCommerceShop = { merchantId: string; mode: Mode; name: string; webhookUrl: string | null } & Pick<
  NewShop,
  'createdBy' | 'actorId' | 'replaces'
> & {
    /** Who adds the webhook; by default the operator. */
    by?: EndpointActor;
    /** What is recorded with it. */
    also?: (tx: Tx, shopId: string) => Promise<void>;
  };
type CommerceShop = { apiKey: string; storeId: string; webhookSecret: string | null };

/** The key opens charges and nothing else. Errors: those of `connectShop` and `planEndpoint`. */
export async function connectCommerce(
  ctx: Context,
  { webhookUrl, by = BY_OPERATOR, also, ...shop }: NewCommerceShop,
): Promise<CommerceShop> {
  const { merchantId, mode, name } = shop;
  const endpoint = { merchantId, mode, dialect: 'commerce' as const, events: [EVERYTHING], description: name };
  const secret = base62(32, ctx.random);
  const addWebhook = webhookUrl === null ? null : await planEndpoint(ctx, { ...endpoint, url: webhookUrl, secret, by });
  return ctx.db.begin(async (tx) => {
    const { shopId, lineId, apiKey, storeId } = await connectShop(ctx, tx, {
      ...shop,
      platform: 'other',
      dialect: 'commerce',
      permissions: [],
    });
    const endpoint = await addWebhook?.(tx, { lineId, keyId: shopId });
    if (endpoint) await queueMissed(tx, { lineId, endpointId: endpoint.id });
    await also?.(tx, shopId);
    return { apiKey, storeId, webhookSecret: addWebhook && secret };
  });
}
