/**
 * Totals by time and merchant, updated as payments change, so that the dashboard never counts payments. Quarters of an hour, because the
 * days of every time zone consist of them.
 */
import type { Context } from '#context';
import type { Coin, Mode } from '#core/coin';
import { DAY_MS, MINUTE_MS } from '#core/dates';
import { EXCEPTIONS, type Exception, type PaymentStatus } from '#core/payment';
import { type Fragment, OID, type Sql, type Tx } from '#db';
import { reversedCents, type SaleChange, volumeCents } from './sales.ts';

/** Payment progress, by the time of creation. */
export const FUNNEL = ['created', 'opened', 'chosen', 'seen', 'paid'] as const;
/**
 * `completed`: by the time of completion, with the coin and how long it took. `volume`: what completed payments count, by coin and by the
 * time at which they began to count it, less what left the chain, at the time at which it left. `reversed`: that part, less what came back.
 */
type Measure = (typeof FUNNEL)[number] | 'ended' | 'completed' | 'volume' | 'reversed';
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
};
type Sum = { measure: Measure; coin: string; payments: number; usdCents: bigint; seconds: number };
type QuarterRow = Sum & { quarter: Date };
type DayRow = Sum & { day: string };

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

/** Folds appended changes into the totals, a bounded number at a time. Returns how many. */
export async function foldTotals(ctx: Context, { limit }: { limit: number }): Promise<number> {
  const [row] = await ctx.db.sql<{ n: number }[]>`
    with taken as (
      delete from payment_quarter_deltas where id in (select id from payment_quarter_deltas order by id limit ${limit} for update skip locked)
      returning *
    ), sums as (
      select merchant_id, mode, quarter, measure, coin, sum(payments)::bigint as payments, sum(usd_cents)::bigint as usd_cents,
        sum(seconds)::bigint as seconds from taken group by 1, 2, 3, 4, 5
    ), folded as (
      insert into payment_quarters as d (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
      select * from sums order by 1, 2, 3, 4, 5
      on conflict (merchant_id, mode, quarter, measure, coin) do update set payments = d.payments + excluded.payments,
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
    insert into payment_quarter_deltas (merchant_id, mode, quarter, measure, coin, payments, usd_cents, seconds)
    select merchant_id, mode, ${quarterAt(ctx.db.sql, ctx.db.sql`created_at`)}, 'opened', '', 1, 0, 0 from opened`;
}

export type Totals = {
  funnel: Record<(typeof FUNNEL)[number], number>;
  ended: Partial<Record<Reason, number>>;
  completed: number;
  usdCents: bigint;
  reversedUsdCents: bigint;
  seconds: number;
};
type CoinDay = { completed: number; usdCents: bigint; reversedUsdCents: bigint };
type Day = CoinDay & { day: string; created: number; opened: number; coins: Map<string, CoinDay> };

/** Current totals of the days from `from` through `until` in a time zone: folded and not yet folded. */
export async function readDayRows(
  sql: Sql,
  { merchantId, mode, from, until, timeZone }: { merchantId: string; mode: Mode; from: string; until: string; timeZone: string },
): Promise<DayRow[]> {
  // Bounded: less than two thousand quarters with coins a day, and most merchants have a few. The rows not yet folded are from the last
  // few seconds. Days of a time zone begin within a day of those of UTC.
  const mine = sql`
    where merchant_id = ${merchantId} and mode = ${mode} and quarter >= (${from}::text::date - 1)::timestamp at time zone 'UTC'
      and quarter < (${until}::text::date + 2)::timestamp at time zone 'UTC'`;
  const rows = await sql<(Omit<DayRow, 'payments' | 'seconds'> & { payments: bigint; seconds: bigint })[]>`
    select day::text as day, measure, coin, sum(payments)::bigint as payments, sum(usd_cents)::bigint as "usdCents", sum(seconds)::bigint as seconds
    from (
      select quarter, measure, coin, payments, usd_cents, seconds from payment_quarters ${mine}
      union all
      select quarter, measure, coin, payments, usd_cents, seconds from payment_quarter_deltas ${mine}) as d
    cross join lateral (select (quarter at time zone ${timeZone}::text)::date as day) as local
    where day between ${from}::text::date and ${until}::text::date
    group by 1, 2, 3 having sum(payments) <> 0 or sum(usd_cents) <> 0 order by 1, 2, 3`;
  return rows.map((row) => ({ ...row, payments: Number(row.payments), seconds: Number(row.seconds) }));
}

export function totalsOf(rows: readonly DayRow[]): Totals {
  const funnel = Object.fromEntries(FUNNEL.map((step) => [step, 0])) as Totals['funnel'];
  const totals: Totals = { funnel, ended: {}, completed: 0, usdCents: 0n, reversedUsdCents: 0n, seconds: 0 };
  for (const { measure, coin, payments, usdCents, seconds } of rows) {
    if (measure === 'ended') totals.ended[coin as Reason] = (totals.ended[coin as Reason] ?? 0) + payments;
    else if (measure === 'completed') {
      totals.completed += payments;
      totals.seconds += seconds;
    } else if (measure === 'volume') totals.usdCents += usdCents;
    else if (measure === 'reversed') totals.reversedUsdCents += usdCents;
    else funnel[measure] += payments;
  }
  return totals;
}

const noMoney = (): CoinDay => ({ completed: 0, usdCents: 0n, reversedUsdCents: 0n });

/** Every day of the range, including those without payments. */
export function daysOf(rows: readonly DayRow[], { from, until }: { from: string; until: string }): Day[] {
  const days = new Map<string, Day>();
  for (let at = Date.parse(from); at <= Date.parse(until); at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10);
    days.set(day, { day, created: 0, opened: 0, ...noMoney(), coins: new Map() });
  }
  for (const { day, measure, coin, payments, usdCents } of rows) {
    const entry = days.get(day);
    if (!entry) continue;
    if (measure === 'created' || measure === 'opened') entry[measure] += payments;
    if (measure !== 'completed' && measure !== 'volume' && measure !== 'reversed') continue;
    const own = entry.coins.get(coin) ?? noMoney();
    entry.coins.set(coin, own);
    for (const sum of [entry, own]) {
      if (measure === 'completed') sum.completed += payments;
      else sum[measure === 'volume' ? 'usdCents' : 'reversedUsdCents'] += usdCents;
    }
  }
  return [...days.values()];
}
