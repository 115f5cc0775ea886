/** The period of a statement or an export: whole days in a time zone. */
import type { Context } from '../context.ts';
import { checkTimeZone, readDay } from '../core/dates.ts';
import { Problem } from '../core/problem.ts';

const DAY_MS = 86_400_000;
export const LONGEST_DAYS = 366;

export type Days = { from: string; until: string; timeZone: string };
export type Period = Days & { start: Date; end: Date };

/** From the beginning of the day `from` to the end of the day `until`. Errors: parameter_invalid. */
export async function bookPeriod(ctx: Context, { from, until, timeZone }: Days): Promise<Period> {
  const first = Date.parse(readDay(from, 'from'));
  const days = (Date.parse(readDay(until, 'until')) - first) / DAY_MS + 1;
  if (days < 1 || days > LONGEST_DAYS)
    throw new Problem('parameter_invalid', { reason: `it must be 1 to ${LONGEST_DAYS} days after from` }, { param: 'until' });
  checkTimeZone(timeZone);
  const { start, end } = await boundsOf(ctx, { from, until, timeZone });
  return { from, until, timeZone, start: start!, end: end! };
}

/** The first instant of the day `from`, and the first one after the day `until`; null for a day that is null. */
export async function boundsOf(
  ctx: Context,
  { from, until, timeZone }: { from: string | null; until: string | null; timeZone: string },
): Promise<{ start: Date | null; end: Date | null }> {
  const { sql } = ctx.db;
  // The database knows when days begin where clocks change. Where midnight comes twice, as in Havana, it means the second one.
  const [row] = await sql<{ start: Date | null; end: Date | null }[]>`
    with days as (
      select n, day, day::timestamp at time zone ${timeZone}::text as midnight
      from (values (1, ${from}::text::date), (2, ${until}::text::date + 1)) as asked (n, day)
    ), begins as (
      select n, case when ((midnight - interval '1 hour') at time zone ${timeZone}::text)::date = day then midnight - interval '1 hour' else midnight end as at
      from days
    )
    select (select at from begins where n = 1) as start, (select at from begins where n = 2) as end`;
  return row!;
}
