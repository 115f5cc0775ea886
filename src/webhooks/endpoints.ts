/** Merchant URLs that receive events. Secrets are sealed at rest and shown once. */

import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import { EVENT_TYPES, UPDATED_EVENT } from '../core/event.ts';
import { newId } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import { getMerchant } from '../merchants/merchants.ts';
import { OutgoingError } from '../outgoing.ts';

/** What binds a sealed signing secret. */
export const SECRET_PURPOSE = 'endpoint secret';

/** Makes an endpoint and its signing secret. Errors: merchant_not_found, plan_required, url_invalid, parameter_invalid (events). */
export async function createEndpoint(
  ctx: Context,
  {
    merchantId,
    mode,
    url,
    events,
    description,
  }: { merchantId: string; mode: Mode; url: string; events: readonly string[]; description: string | null },
): Promise<{ endpointId: string; secret: string }> {
  const merchant = await getMerchant(ctx, { merchantId });
  if (!ctx.settings.plans[merchant.plan].webhooks) throw new Problem('plan_required');
  const known: readonly string[] = [...EVENT_TYPES, UPDATED_EVENT, '*'];
  const wrong = events.findIndex((type) => !known.includes(type));
  if (wrong >= 0 || events.length === 0) {
    throw new Problem(
      'parameter_invalid',
      { reason: `it takes ${known.join(', ')}` },
      { param: wrong >= 0 ? `events[${wrong}]` : 'events' },
    );
  }
  try {
    await ctx.outgoing.vetMerchantUrl(url);
  } catch (error) {
    if (error instanceof OutgoingError)
      throw new Problem('url_invalid', { schemes: 'https', reason: error.message }, { param: 'url', cause: error });
    throw error;
  }
  const endpointId = newId('we', ctx.random);
  const secret = `whsec_${Buffer.from(ctx.random(32)).toString('base64')}`;
  await ctx.db.sql`
    insert into endpoints (id, merchant_id, mode, url, events, description, secret)
    values (${endpointId}, ${merchantId}, ${mode}, ${url}, ${events as string[]}, ${description},
      ${Buffer.from(ctx.seal(SECRET_PURPOSE, Buffer.from(secret)))})`;
  return { endpointId, secret };
}
