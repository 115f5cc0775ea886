/** Totals by day and merchant, updated as payments change, so that the dashboard never counts payments. */
import type { Context } from '#context';
import { type Coin, isKnownCoin, type Mode } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { EXCEPTIONS, type Exception, type PaymentStatus } from '#core/payment';
import { type Fragment, OID, type Sql, type Tx } from '#db';

/** Payment progress, by the day of creation; only `completed` by the day of completion, with coin, worth and time. */
export const FUNNEL = ['created', 'opened', 'chosen', 'seen', 'paid'] as const;
type Measure = (typeof FUNNEL)[number] | 'ended' | 'completed';
/** Why payments ended unpaid: their most serious exception, else the status. */
export const REASONS = [...EXCEPTIONS, 'expired', 'failed', 'cancelled'] as const;
type Reason = (typeof REASONS)[number];

/** Which payments count, and how. */
export type CountedPayment = {
  createdAt: Date;
  openedAt: Date | null;
  coin: Coin | null;
  seenAt: Date | null;
  status: PaymentStatus;
  exceptions: readonly Exception[];
  completedAt: Date | null;
  paidUsdCents: bigint | null;
};
type DayRow = { day: string; measure: Measure; coin: string; payments: number; usdCents: bigint; seconds: number };

const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

/** The rows that a payment contributes to its days. A change is its new contribution minus its old one. */
function rowsOf(p: CountedPayment): DayRow[] {
  const day = dayOf(p.createdAt);
  const one = (measure: Measure, coin = ''): DayRow => ({ day, measure, coin, payments: 1, usdCents: 0n, seconds: 0 });
  const rows = [one('created')];
  if (p.openedAt) rows.push(one('opened'));
  if (p.coin) rows.push(one('chosen'));
  if (p.seenAt) rows.push(one('seen'));
  if (p.status === 'expired' || p.status === 'failed' || p.status === 'cancelled') rows.push(one('ended', p.exceptions[0] ?? p.status));
  if (p.completedAt) {
    const seconds = Math.max(0, Math.floor((p.completedAt.getTime() - (p.openedAt ?? p.createdAt).getTime()) / 1000));
    rows.push(one('paid'), { ...one('completed', p.coin ?? ''), day: dayOf(p.completedAt), usdCents: p.paidUsdCents ?? 0n, seconds });
  }
  return rows;
}

/** What must be added to the days when a payment changes from one state to the next. */
export function dayChanges(before: CountedPayment, after: CountedPayment): DayRow[] {
  const sums = new Map<string, DayRow>();
  const add = (row: DayRow, sign: 1 | -1) => {
    const key = `${row.day} ${row.measure} ${row.coin}`;
    const sum = sums.get(key) ?? { ...row, payments: 0, usdCents: 0n, seconds: 0 };
    sum.payments += sign * row.payments;
    sum.usdCents += BigInt(sign) * row.usdCents;
    sum.seconds += sign * row.seconds;
    sums.set(key, sum);
  };
  for (const row of rowsOf(after)) add(row, 1);
  for (const row of rowsOf(before)) add(row, -1);
  return [...sums.values()].filter((row) => row.payments !== 0 || row.usdCents !== 0n || row.seconds !== 0);
}

type Owned = DayRow & { merchantId: string; mode: Mode };
/** The statement that appends the difference, for the transaction of the change. */
export function insertDayChanges(tx: Tx, rows: readonly Owned[]): Fragment {
  const big = (of: (row: Owned) => bigint) => tx.array(rows.map(of), OID.int8);
  return tx`
    insert into payment_day_deltas (merchant_id, mode, day, measure, coin, payments, usd_cents, seconds)
    select * from unnest(${rows.map((r) => r.merchantId)}::text[], ${rows.map((r) => r.mode)}::text[], ${rows.map((r) => r.day)}::text[]::date[],
      ${rows.map((r) => r.measure)}::text[], ${rows.map((r) => r.coin)}::text[], ${big((r) => BigInt(r.payments))}::bigint[],
      ${big((r) => r.usdCents)}::bigint[], ${big((r) => BigInt(r.seconds))}::bigint[])`;
}

/** Folds appended changes into the days, a bounded number at a time. Returns how many. */
export async function foldDays(ctx: Context, { limit }: { limit: number }): Promise<number> {
  const [row] = await ctx.db.sql<{ n: number }[]>`
    with taken as (
      delete from payment_day_deltas where id in (select id from payment_day_deltas order by id limit ${limit} for update skip locked)
      returning *
    ), sums as (
      select merchant_id, mode, day, measure, coin, sum(payments)::bigint as payments, sum(usd_cents)::bigint as usd_cents,
        sum(seconds)::bigint as seconds from taken group by 1, 2, 3, 4, 5
    ), folded as (
      insert into payment_days as d (merchant_id, mode, day, measure, coin, payments, usd_cents, seconds)
      select * from sums order by 1, 2, 3, 4, 5
      on conflict (merchant_id, mode, day, measure, coin) do update set payments = d.payments + excluded.payments,
        usd_cents = d.usd_cents + excluded.usd_cents, seconds = d.seconds + excluded.seconds
    )
    select count(*)::int as n from taken`;
  return row!.n;
}

/**
 * The page was viewed with scripts running, so the payment counts as opened, once. Bots and link previews run no scripts. Ignores
 * unknown ids.
 */
export async function markOpened(ctx: Context, { paymentId }: { paymentId: string }): Promise<void> {
  await ctx.db.sql`
    with opened as (
      update payments p set opened_at = date_trunc('milliseconds', clock_timestamp()) + case when p.mode = 'test' then make_interval(secs =>
        coalesce((select c.offset_seconds from test_clocks c where c.merchant_id = p.merchant_id), 0)
        + coalesce((select sum(a.seconds) from clock_advances a where a.merchant_id = p.merchant_id and a.payment_id = p.id), 0)::double precision)
        else interval '0' end
      where id = ${paymentId} and opened_at is null
      returning merchant_id, mode, created_at
    )
    insert into payment_day_deltas (merchant_id, mode, day, measure, coin, payments, usd_cents, seconds)
    select merchant_id, mode, (created_at at time zone 'UTC')::date, 'opened', '', 1, 0, 0 from opened`;
}

export type Totals = {
  funnel: Record<(typeof FUNNEL)[number], number>;
  ended: Partial<Record<Reason, number>>;
  completed: number;
  usdCents: bigint;
  seconds: number;
};
type Day = {
  day: string;
  created: number;
  completed: number;
  usdCents: bigint;
  coins: Partial<Record<Coin, { payments: number; usdCents: bigint }>>;
};

/** Current rows of the days from `from` through `until`: folded and not yet folded. */
export async function readDayRows(
  sql: Sql,
  { merchantId, mode, from, until }: { merchantId: string; mode: Mode; from: string; until: string },
): Promise<DayRow[]> {
  // Bounded: about twenty rows per day of the range. The rows not yet folded are from the last few seconds.
  const mine = sql`where merchant_id = ${merchantId} and mode = ${mode} and day between ${from}::text::date and ${until}::text::date`;
  const rows = await sql<(Omit<DayRow, 'payments' | 'seconds'> & { payments: bigint; seconds: bigint })[]>`
    select day::text as day, measure, coin, sum(payments)::bigint as payments, sum(usd_cents)::bigint as "usdCents", sum(seconds)::bigint as seconds
    from (
      select day, measure, coin, payments, usd_cents, seconds from payment_days ${mine}
      union all
      select day, measure, coin, payments, usd_cents, seconds from payment_day_deltas ${mine}) as d
    group by 1, 2, 3 having sum(payments) <> 0 order by 1, 2, 3`;
  return rows.map((row) => ({ ...row, payments: Number(row.payments), seconds: Number(row.seconds) }));
}

export function totalsOf(rows: readonly DayRow[]): Totals {
  const funnel = Object.fromEntries(FUNNEL.map((step) => [step, 0])) as Totals['funnel'];
  const totals: Totals = { funnel, ended: {}, completed: 0, usdCents: 0n, seconds: 0 };
  for (const { measure, coin, payments, usdCents, seconds } of rows) {
    if (measure === 'ended') totals.ended[coin as Reason] = (totals.ended[coin as Reason] ?? 0) + payments;
    else if (measure === 'completed') {
      totals.completed += payments;
      totals.usdCents += usdCents;
      totals.seconds += seconds;
    } else funnel[measure] += payments;
  }
  return totals;
}

/** Every day of the range, including those without payments. */
export function daysOf(rows: readonly DayRow[], { from, until }: { from: string; until: string }): Day[] {
  const days = new Map<string, Day>();
  for (let at = Date.parse(from); at <= Date.parse(until); at += DAY_MS) {
    const day = dayOf(new Date(at));
    days.set(day, { day, created: 0, completed: 0, usdCents: 0n, coins: {} });
  }
  for (const { day, measure, coin, payments, usdCents } of rows) {
    const entry = days.get(day);
    if (!entry) continue;
    if (measure === 'created') entry.created += payments;
    if (measure !== 'completed') continue;
    entry.completed += payments;
    entry.usdCents += usdCents;
    const known = isKnownCoin(coin) ? coin : null;
    if (known) entry.coins[known] = { payments, usdCents };
  }
  return [...days.values()];
}
