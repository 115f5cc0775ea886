/** Times when a merchant's customers find no currency they can pay with: members are notified once for each. */
import { type Context, perContext } from '../context.ts';
import { notifyMembers } from '../notices/notices.ts';

/** An outage soon after another one causes no second notice. */
const QUIET_HOURS = 1;
/** This process records an outage once in this time, regardless of how many customers it affects. */
const REPORT_MS = 10_000;
const MOST_REMEMBERED = 10_000;
const reportedAt = perContext(() => new Map<string, number>());

/** A customer or a create found no payable currency. The first time, members get a notice with the reason. */
export async function reportOutage(ctx: Context, { merchantId, why }: { merchantId: string; why: () => Promise<string> }): Promise<void> {
  const reported = reportedAt(ctx);
  const nowMs = ctx.clock.monotonicMs();
  if (nowMs - (reported.get(merchantId) ?? Number.NEGATIVE_INFINITY) < REPORT_MS) return;
  if (reported.size >= MOST_REMEMBERED) reported.clear();
  reported.set(merchantId, nowMs);
  try {
    const reason = await why();
    await ctx.db.begin(async (tx) => {
      const [begun] = await tx<{ notify: boolean }[]>`
        insert into payment_outages as o (merchant_id, began_at, notified_at) values (${merchantId}, now(), now())
        on conflict (merchant_id) do update set began_at = now(), ended_at = null,
          notified_at = case when o.notified_at < now() - make_interval(hours => ${QUIET_HOURS}) then now() else o.notified_at end
          where o.ended_at is not null
        returning notified_at = now() as notify`;
      if (begun?.notify) await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'payments_unavailable', detail: { reason } }]);
    });
  } catch (error) {
    reported.delete(merchantId);
    throw error;
  }
}

/** Merchants with an ongoing outage, a bounded number of them. */
export async function listOutages(ctx: Context, { limit }: { limit: number }): Promise<string[]> {
  const rows = await ctx.db.sql<{ merchantId: string }[]>`
    select merchant_id as "merchantId" from payment_outages where ended_at is null order by merchant_id limit ${limit}`;
  return rows.map(({ merchantId }) => merchantId);
}

/** Customers of these merchants can pay again. */
export async function closeOutages(ctx: Context, { merchantIds }: { merchantIds: readonly string[] }): Promise<void> {
  if (merchantIds.length === 0) return;
  await ctx.db.sql`
    update payment_outages set ended_at = clock_timestamp()
    where merchant_id = any(${merchantIds as string[]}::text[]) and ended_at is null`;
  for (const merchantId of merchantIds) reportedAt(ctx).delete(merchantId);
}
