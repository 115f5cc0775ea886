/**
 * Totals by time and merchant, updated as payments change, so that the dashboard never counts payments. Quarters of an hour, because the
 * days of every time zone consist of them.
 */
import type { Context } from '#context';
import type { Coin, Mode } from '#core/coin';
import { MINUTE_MS } from '#core/dates';
import type { Exception, PaymentStatus } from '#core/payment';
import { type Fragment, OID, type Sql, type Tx } from '#db';
import { reversedCents, type SaleChange, volumeCents } from './sales.ts';

/** Payment progress, by the time of creation. */
export const FUNNEL = ['created', 'opened', 'chosen', 'seen', 'paid'] as const;
/**
 * `completed`: by the time of completion, with the coin and how long it took. `volume`: what completed payments count, by coin and by the
 * time at which they began to count it, less what left the chain, at the time at which it left. `reversed`: that part, less what came back.
 */
type Measure = (typeof FUNNEL)[number] | 'ended' | 'completed' | 'volume' | 'reversed';

/** Which payments count, and how. */
export type CountedPayment = {
  createdAt: Date;
  openedAt: Date | null;
  coin: Coin | null;
  seenAt: Date | null;
  status: PaymentStatus;
  exceptions: readonly Exception[];
  completedAt: Date | null;
};

export type Sum = { measure: Measure; coin: string; payments: number; usdCents: bigint; seconds: number };

type QuarterRow = Sum & { quarter: Date };

const QUARTER_MS = 15 * MINUTE_MS;
const quarterOf = (at: Date): Date => new Date(at.getTime() - (at.getTime() % QUARTER_MS));
/** The same of a time in the database. */
export const quarterAt = (sql: Sql | Tx, at: Fragment): Fragment => sql`date_bin('15 minutes', ${at}, 'epoch')`;

/** The rows that a payment contributes to its times. A change is its new contribution minus its old one. */
function rowsOf(p: CountedPayment): QuarterRow[] {
  const quarter = quarterOf(p.createdAt);
  const one = (measure: Measure, coin = ''): QuarterRow => ({ quarter, measure, coin, payments: 1, usdCents: 0n, seconds: 0 });
  const rows = [one('created')];
  if (p.openedAt) rows.push(one('opened'));
  if (p.coin) rows.push(one('chosen'));
  if (p.seenAt) rows.push(one('seen'));
  if (p.status === 'expired' || p.status === 'failed' || p.status === 'cancelled') rows.push(one('ended', p.exceptions[0] ?? p.status));
  if (p.completedAt) {
    const seconds = Math.max(0, Math.floor((p.completedAt.getTime() - (p.openedAt ?? p.createdAt).getTime()) / 1000));
    rows.push(one('paid'), { ...one('completed', p.coin ?? ''), quarter: quarterOf(p.completedAt), seconds });
  }
  return rows;
}

/** What must be added to the totals when a payment changes from one state to the next, and what it counts changes now. */
export function totalChanges(before: CountedPayment, after: CountedPayment, sales: readonly SaleChange[], now: Date): QuarterRow[] {
  const sums = new Map<string, QuarterRow>();
  const add = (row: QuarterRow, sign: 1 | -1) => {
    const key = `${row.quarter.getTime()} ${row.measure} ${row.coin}`;
    const sum = sums.get(key) ?? { ...row, payments: 0, usdCents: 0n, seconds: 0 };
    sum.payments += sign * row.payments;
    sum.usdCents += BigInt(sign) * row.usdCents;
    sum.seconds += sign * row.seconds;
    sums.set(key, sum);
  };
  for (const row of rowsOf(after)) add(row, 1);
  for (const row of rowsOf(before)) add(row, -1);
  for (const change of sales) {
    const money = { quarter: quarterOf(now), coin: change.coin, payments: 0, seconds: 0 };
    add({ ...money, measure: 'volume', usdCents: volumeCents(change) }, 1);
    add({ ...money, measure: 'reversed', usdCents: reversedCents(change) }, 1);
  }
  return [...sums.values()].filter((row) => row.payments !== 0 || row.usdCents !== 0n || row.seconds !== 0);
}

type Owned = QuarterRow & { merchantId: string; mode: Mode };
/** The statement that appends the difference, for the transaction of the change. */
export function insertTotalChanges(tx: Tx, rows: readonly Owned[]): Fragment {
  const big = (of: (row: Owned) => bigint) => tx.array(rows.map(of), OID.int8);
  const quarters = tx.array(
    rows.map((row) => row.quarter),
    OID.timestamptz,
  );
  return tx`
    insert into payment_quarter_deltas (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
    select * from unnest(${rows.map((r) => r.merchantId)}::text[], ${rows.map((r) => r.mode)}::text[], ${quarters}::timestamptz[],
      ${rows.map((r) => r.measure)}::text[], ${rows.map((r) => r.coin)}::text[], ${big((r) => BigInt(r.payments))}::bigint[],
      ${big((r) => r.usdCents)}::bigint[], ${big((r) => BigInt(r.seconds))}::bigint[])`;
}

/**
 * Folds appended changes into the totals, a bounded number at a time. Returns how many. The time zones stay as they are until it commits, so
 * that none of it is in days of an old one.
 */
export async function foldTotals(ctx: Context, { limit }: { limit: number }): Promise<number> {
  const [row] = await ctx.db.sql<{ n: number }[]>`
    with taken as (
      delete from payment_quarter_deltas where id in (select id from payment_quarter_deltas order by id limit ${limit} for update skip locked)
      returning *
    ), zones as (
      select id, coalesce(settings->>'timeZone', 'UTC') as zone from merchants where id in (select merchant_id from taken) for share
    ), sums as (
      select merchant_id, mode, quarter, measure, coin, sum(payments)::bigint as payments, sum(usd_cents)::bigint as usd_cents,
        sum(seconds)::bigint as seconds from taken group by 1, 2, 3, 4, 5
    ), folded as (
      insert into payment_quarters as d (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
      select * from sums order by 1, 2, 3, 4, 5
      on conflict (merchant_id, mode, quarter, measure, coin) do update set payments = d.payments + excluded.payments,
        usd_cents = d.usd_cents + excluded.usd_cents, seconds = d.seconds + excluded.seconds
    ), days as (
      insert into payment_days as d (merchant_id, mode, day, measure, coin, payments, usd_cents, seconds)
      select merchant_id, mode, (quarter at time zone zone)::date, measure, coin, sum(payments)::bigint, sum(usd_cents)::bigint,
        sum(seconds)::bigint from sums join zones on id = merchant_id group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
      on conflict (merchant_id, mode, day, measure, coin) do update set payments = d.payments + excluded.payments,
        usd_cents = d.usd_cents + excluded.usd_cents, seconds = d.seconds + excluded.seconds
    )
    select count(*)::int as n from taken`;
  return row!.n;
}

/** Folds count deltas into the stored counts, a bounded number at a time. Returns how many. */
export async function foldCounts(ctx: Context, { limit }: { limit: number }): Promise<number> {
  const [row] = await ctx.db.sql<{ n: number }[]>`
    with taken as (
      delete from payment_count_deltas where id in (
        select id from payment_count_deltas order by id limit ${limit} for update skip locked)
      returning merchant_id, mode, status, coin, payments
    ), sums as (
      select merchant_id, mode, status, coin, sum(payments)::bigint as payments from taken group by 1, 2, 3, 4
    ), folded as (
      insert into payment_counts as c (merchant_id, mode, status, coin, payments)
      select * from sums order by 1, 2, 3, 4
      on conflict (merchant_id, mode, status, coin) do update set payments = c.payments + excluded.payments
    )
    select count(*)::int as n from taken`;
  return row!.n;
}
