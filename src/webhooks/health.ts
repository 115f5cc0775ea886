/** How a merchant's webhooks do, read in bounded looks. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';

export type WebhookHealth = { endpoints: number; off: number; delivered: number; failed: number; oldestPendingAt: Date | null };

/** Newest so many deliveries of an endpoint and state, within a day: enough for a share, however many there are. */
const NEWEST = 1_000;

export async function readWebhookHealth(ctx: Context, { merchantId, mode }: { merchantId: string; mode: Mode }): Promise<WebhookHealth> {
  const newest = (state: string) => ctx.db.sql`(
    select count(*)::int from (select created_at from deliveries d where d.endpoint_id = e.id and d.state = ${state}
      order by id desc limit ${NEWEST}) as d where d.created_at > clock_timestamp() - interval '1 day')`;
  const [row] = await ctx.db.sql<WebhookHealth[]>`
    select count(*)::int as endpoints, (count(*) filter (where e.state <> 'enabled'))::int as off,
      coalesce(sum(${newest('delivered')}), 0)::int as delivered, coalesce(sum(${newest('failed')}), 0)::int as failed,
      min((select created_at from deliveries d where d.endpoint_id = e.id and d.state = 'pending' order by id limit 1)) as "oldestPendingAt"
    from endpoints e where e.merchant_id = ${merchantId} and e.mode = ${mode} and e.state <> 'deleted'`;
  return row!;
}
