/** Totals of days, in the time zone of the merchant. */
import type { Mode } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { EXCEPTIONS } from '#core/payment';
import type { Sql } from '#db';
import { FUNNEL, type Sum } from '#settling';

/** Why payments ended unpaid: their most serious exception, else the status. */
export const REASONS = [...EXCEPTIONS, 'expired', 'failed', 'cancelled'] as const;
type Reason = (typeof REASONS)[number];

type DayRow = Sum & { day: string };

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

/** Current totals of the days from `from` through `until` in the merchant's time zone: folded and not yet folded. */
export async function readDayRows(
  sql: Sql,
  { merchantId, mode, from, until }: { merchantId: string; mode: Mode; from: string; until: string },
): Promise<DayRow[]> {
  // Bounded: a day has at most a row for each measure and coin, and the rows not yet folded are from the last few seconds.
  const rows = await sql<(Omit<DayRow, 'payments' | 'seconds'> & { payments: bigint; seconds: bigint })[]>`
    select day::text as day, measure, coin, sum(payments)::bigint as payments, sum(usd_cents)::bigint as "usdCents", sum(seconds)::bigint as seconds
    from (
      select day, measure, coin, payments, usd_cents, seconds from payment_days where merchant_id = ${merchantId} and mode = ${mode}
      union all
      select (quarter at time zone coalesce(m.settings->>'timeZone', 'UTC'))::date, measure, coin, payments, usd_cents, seconds
      from payment_quarter_deltas join merchants m on m.id = merchant_id where merchant_id = ${merchantId} and mode = ${mode}) as d
    where day between ${from}::text::date and ${until}::text::date
    group by d.day, 2, 3 having sum(payments) <> 0 or sum(usd_cents) <> 0 order by d.day, 2, 3`;
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
