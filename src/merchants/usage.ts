/** The plan of a merchant and its usage in the month, with alerts at 80% and 100%. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import type { Plan, PlanLimits } from '#core/plan';
import { notifyMembers } from '#notices';

const ALERTS_PERCENT = [80, 100] as const;
type Usage = { plan: Plan; limits: PlanLimits; used: number; monthStart: Date; resetsAt: Date };

/** The current month in UTC. Test payments never count. */
export async function getUsage(ctx: Context, { merchantId }: { merchantId: string }): Promise<Usage> {
  const [row] = await ctx.db.sql<{ plan: Plan; used: bigint; monthStart: Date; resetsAt: Date }[]>`
    with month as (select date_trunc('month', clock_timestamp() at time zone 'UTC') as first)
    select plan, coalesce((select payments from live_usage u where u.merchant_id = m.id and u.month = month.first::date), 0) as used,
      month.first at time zone 'UTC' as "monthStart", (month.first + interval '1 month') at time zone 'UTC' as "resetsAt"
    from merchants m, month where m.id = ${merchantId}`;
  return { ...row!, used: Number(row!.used), limits: ctx.settings.plans[row!.plan] };
}

/** How many live payments merchants have used of this month; those without any are left out. */
export async function readUsed(ctx: Context, { merchantIds }: { merchantIds: readonly string[] }): Promise<Map<string, number>> {
  const rows = await ctx.db.sql<{ merchantId: string; used: bigint }[]>`
    select merchant_id as "merchantId", payments as used from live_usage
    where merchant_id = any(${merchantIds as string[]}::text[]) and month = date_trunc('month', clock_timestamp() at time zone 'UTC')::date`;
  return new Map(rows.map(({ merchantId, used }) => [merchantId, Number(used)]));
}

/** Notifies members once a month at each threshold. Reads one row per merchant with live payments this month. */
export async function alertUsage(ctx: Context): Promise<void> {
  const limits = Object.entries(ctx.settings.plans).filter(([, { perMonth }]) => perMonth > 0);
  if (limits.length === 0) return;
  const crossed = await ctx.db.sql<{ merchantId: string; month: Date; percent: number; used: bigint; limit: bigint }[]>`
    select u.merchant_id as "merchantId", u.month, a.percent, u.payments as used, l.most as limit
    from live_usage u join merchants m on m.id = u.merchant_id
    join unnest(${limits.map(([plan]) => plan)}::text[], ${limits.map(([, { perMonth }]) => perMonth)}::bigint[]) as l (plan, most) on l.plan = m.plan
    join unnest(${[...ALERTS_PERCENT]}::int[]) as a (percent) on u.payments * 100 >= l.most * a.percent
    where u.month = date_trunc('month', clock_timestamp() at time zone 'UTC')::date
      and not exists (select 1 from usage_alerts g where g.merchant_id = u.merchant_id and g.month = u.month and g.percent = a.percent)
    order by a.percent limit 500`;
  for (const { merchantId, month, percent, used, limit } of crossed) {
    await ctx.db.begin(async (tx) => {
      const given = await tx`
        insert into usage_alerts (merchant_id, month, percent) values (${merchantId}, ${month}, ${percent}) on conflict do nothing`;
      // Another worker sent it first.
      if (given.count === 0) return;
      await notifyMembers(ctx, tx, [
        { merchantId, mode: 'live', kind: 'usage', detail: { percent, used: Number(used), limit: Number(limit) } },
      ]);
    });
  }
}

/** Requests with keys of a mode in each of the last 24 hours that had any, of all keys together; written once a minute. Oldest first. */
export const listHourlyCalls = (
  ctx: Context,
  { merchantId, mode }: { merchantId: string; mode: Mode },
): Promise<{ hour: Date; calls: bigint; failed: bigint; busiest: bigint }[]> =>
  ctx.db.sql<{ hour: Date; calls: bigint; failed: bigint; busiest: bigint }[]>`
    select h.hour, sum(h.calls)::bigint as calls, sum(h.failed)::bigint as failed, max(h.calls) as busiest
    from keys k join key_hours h on h.key_id = k.id and h.hour > clock_timestamp() - interval '24 hours'
    where k.merchant_id = ${merchantId} and k.mode = ${mode} group by h.hour order by h.hour`;

/** For each owner a text that changes with the figures of usage. One look for all open dashboards. */
export async function readUsagePulse(
  ctx: Context,
  { owners }: { owners: readonly { merchantId: string; mode: Mode }[] },
): Promise<(string | null)[]> {
  const rows = await ctx.db.sql<{ pulse: string }[]>`
    select concat_ws(' ',
      (select payments from live_usage u
        where u.merchant_id = o.merchant_id and u.month = date_trunc('month', clock_timestamp() at time zone 'UTC')::date),
      (select sum(h.calls) from keys k join key_hours h on h.key_id = k.id and h.hour > clock_timestamp() - interval '2 hours'
        where k.merchant_id = o.merchant_id and k.mode = o.mode)) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[], ${owners.map((o) => o.mode)}::text[]) with ordinality as o (merchant_id, mode, n)
    order by o.n`;
  return rows.map(({ pulse }) => pulse);
}
