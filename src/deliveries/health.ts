/** Endpoint health, counted per hour as attempts are made, so that reading it never counts deliveries. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import type { Tx } from '#db';
import { getEndpoint } from '#webhooks';

const KEPT_DAYS = 7;
const SHOWN_HOURS = 24;
/** Pending deliveries of an endpoint are counted up to this number. */
export const MOST_COUNTED = 1_000;
/** Missed deliveries of each state that are counted before a recovery starts; open dashboards ask often. */
const MOST_MISSED = 10_000;

type Owner = { merchantId: string; mode: Mode };

/** Deletes hours that are no longer shown. */
export const forgetHours = (tx: Tx, { merchantId, mode }: { merchantId: string; mode: string }) => tx`
  delete from attempt_hours where endpoint_id in (select id from endpoints where merchant_id = ${merchantId} and mode = ${mode})
    and hour < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;

export type Health = {
  endpointId: string;
  /** Of the last 24 hours, the current one included. */
  attempts: number;
  delivered: number;
  /** Within the days for which hours are kept. */
  lastFailure: string | null;
  lastFailureAt: Date | null;
  /** At most MOST_COUNTED. */
  waiting: number;
  oldestWaitingAt: Date | null;
  /** When it was disabled automatically; null while it is enabled. */
  offSince: Date | null;
};

/** The health of each endpoint of a merchant. Reads the hours of a week, the head of the queue, and at most MOST_COUNTED rows of it. */
export async function listHealth(
  ctx: Context,
  { merchantId, mode, endpointId = null }: Owner & { endpointId?: string | null },
): Promise<Health[]> {
  const { sql } = ctx.db;
  const rows = await sql<(Omit<Health, 'attempts' | 'delivered' | 'waiting'> & { attempts: bigint; delivered: bigint; waiting: bigint })[]>`
    select e.id as "endpointId", h.attempts, h.delivered, f.outcome as "lastFailure", f.last_at as "lastFailureAt", w.waiting,
      o.created_at as "oldestWaitingAt", n.at as "offSince"
    from endpoints e
      cross join lateral (
        select coalesce(sum(attempts), 0)::bigint as attempts, coalesce(sum(attempts) filter (where outcome = 'delivered'), 0)::bigint as delivered
        from attempt_hours where endpoint_id = e.id and hour > clock_timestamp() - make_interval(hours => ${SHOWN_HOURS})
      ) h
      left join lateral (
        select outcome, last_at from attempt_hours where endpoint_id = e.id and outcome <> 'delivered' order by last_at desc limit 1
      ) f on true
      cross join lateral (
        select count(*) as waiting from (select 1 from deliveries where endpoint_id = e.id and state = 'pending' limit ${MOST_COUNTED}) p
      ) w
      left join lateral (select created_at from deliveries where endpoint_id = e.id and state = 'pending' order by id limit 1) o on true
      left join lateral (select at from endpoint_notices where endpoint_id = e.id and closed_at is null order by id desc limit 1) n on true
    where e.merchant_id = ${merchantId} and e.mode = ${mode} and e.state <> 'deleted' ${endpointId === null ? sql`` : sql`and e.id = ${endpointId}`}`;
  return rows.map((row) => ({ ...row, attempts: Number(row.attempts), delivered: Number(row.delivered), waiting: Number(row.waiting) }));
}

/** How long ago anything was sent to any endpoint; null: never, as far as is kept. */
export async function readSecondsSinceAttempt(ctx: Context): Promise<number | null> {
  const [row] = await ctx.db.sql<{ seconds: number | null }[]>`
    select extract(epoch from clock_timestamp() - max(last_at))::float8 as seconds from attempt_hours`;
  return row!.seconds;
}

type Hour = { at: Date; outcomes: { outcome: string; attempts: number; totalMs: number; slowestMs: number }[] };

/** The last 24 hours of an endpoint, oldest first, including hours without attempts. Errors: endpoint_not_found. */
export async function listHours(ctx: Context, { merchantId, mode, endpointId }: Owner & { endpointId: string }): Promise<Hour[]> {
  await getEndpoint(ctx, { merchantId, mode, endpointId, dialect: 'any' });
  const rows = await ctx.db.sql<{ at: Date; outcome: string | null; attempts: bigint; totalMs: bigint; slowestMs: number }[]>`
    select s.at, h.outcome, h.attempts, h.total_ms as "totalMs", h.slowest_ms as "slowestMs"
    from generate_series(date_trunc('hour', clock_timestamp(), 'UTC') - make_interval(hours => ${SHOWN_HOURS - 1}),
        date_trunc('hour', clock_timestamp(), 'UTC'), interval '1 hour') as s (at)
      left join attempt_hours h on h.endpoint_id = ${endpointId} and h.hour = s.at
    order by s.at, h.outcome`;
  const hours = new Map<number, Hour>();
  for (const { at, outcome, attempts, totalMs, slowestMs } of rows) {
    const hour = hours.get(at.getTime()) ?? { at, outcomes: [] };
    hours.set(at.getTime(), hour);
    if (outcome !== null) hour.outcomes.push({ outcome, attempts: Number(attempts), totalMs: Number(totalMs), slowestMs });
  }
  return [...hours.values()];
}

/**
 * How many deliveries a recovery since an instant would resend. Counts the newest MOST_MISSED of each kind: `exact` is false when
 * there are more. Errors: endpoint_not_found.
 */
export async function countMissed(
  ctx: Context,
  { merchantId, mode, endpointId, since }: Owner & { endpointId: string; since: Date },
): Promise<{ missed: number; exact: boolean }> {
  await getEndpoint(ctx, { merchantId, mode, endpointId, dialect: 'any' });
  const [row] = await ctx.db.sql<{ missed: bigint; looked: bigint; oldest: Date | null }[]>`
    select count(*) filter (where created_at >= ${since} and payment_id is not null and (state = 'failed' or attempts > 0)) as missed,
      max(of) as looked, max(oldest) as oldest
    from (
      select *, count(*) over (partition by state) as of, min(created_at) over (partition by state) as oldest from (
        (select state, created_at, payment_id, attempts from deliveries where endpoint_id = ${endpointId} and state = 'failed' order by id desc limit ${MOST_MISSED})
        union all
        (select state, created_at, payment_id, attempts from deliveries where endpoint_id = ${endpointId} and state = 'pending' order by id desc limit ${MOST_MISSED})
      ) r
    ) m`;
  const { missed, looked, oldest } = row!;
  return { missed: Number(missed), exact: (looked ?? 0n) < BigInt(MOST_MISSED) || (oldest !== null && oldest < since) };
}

/**
 * For each owner, a text that changes when deliveries or endpoints do: attempts of this and the previous hour, the newest pending
 * delivery, running recoveries. Reads a few rows per endpoint.
 */
export async function readWebhookPulse(ctx: Context, { owners }: { owners: readonly Owner[] }): Promise<(string | null)[]> {
  const rows = await ctx.db.sql<{ pulse: string | null }[]>`
    select (
      select string_agg(concat_ws(' ', e.id, e.state, a.attempts, d.id, r.stepped_at), ',' order by e.id)
      from endpoints e
        cross join lateral (
          select sum(attempts) as attempts from attempt_hours where endpoint_id = e.id and hour > clock_timestamp() - interval '2 hours'
        ) a
        left join lateral (select id from deliveries where endpoint_id = e.id and state = 'pending' order by id desc limit 1) d on true
        left join lateral (select stepped_at from recoveries where endpoint_id = e.id and not automatic and queued_at is null) r on true
      where e.merchant_id = o.merchant_id and e.mode = o.mode and e.state <> 'deleted'
    ) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[], ${owners.map((o) => o.mode)}::text[]) with ordinality as o (merchant_id, mode, n)
    order by o.n`;
  return rows.map((row) => row.pulse);
}
