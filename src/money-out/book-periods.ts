/** The period of a statement or an export: whole days in a time zone. */
import type { Context } from '../context.ts';
import { readDay } from '../core/dates.ts';
import { Problem } from '../core/problem.ts';
import { isTimeZone } from '../notices/mail-timing.ts';

const DAY_MS = 86_400_000;
export const LONGEST_DAYS = 366;

export type Days = { from: string; until: string; timeZone: string };
export type Period = Days & { start: Date; end: Date };

/** From the beginning of the day `from` to the end of the day `until`. Errors: parameter_invalid. */
export async function periodOf(ctx: Context, { from, until, timeZone }: Days): Promise<Period> {
  const first = Date.parse(readDay(from, 'from'));
  const days = (Date.parse(readDay(until, 'until')) - first) / DAY_MS + 1;
  if (days < 1 || days > LONGEST_DAYS)
    throw new Problem('parameter_invalid', { reason: `it must be 1 to ${LONGEST_DAYS} days after from` }, { param: 'until' });
  if (!isTimeZone(timeZone)) throw new Problem('parameter_invalid', { reason: 'it is not a time zone' }, { param: 'time_zone' });
  const { start, end } = await boundsOf(ctx, { from, until, timeZone });
  return { from, until, timeZone, start: start!, end: end! };
}

/** The first instant of the day `from`, and the first one after the day `until`; null for a day that is null. */
export async function boundsOf(
  ctx: Context,
  { from, until, timeZone }: { from: string | null; until: string | null; timeZone: string },
): Promise<{ start: Date | null; end: Date | null }> {
  // The database knows when days begin where clocks change.
  const [row] = await ctx.db.sql<{ start: Date | null; end: Date | null }[]>`
    select ${from}::text::date::timestamp at time zone ${timeZone}::text as start,
      (${until}::text::date + 1)::timestamp at time zone ${timeZone}::text as end`;
  return row!;
}

/** The day and the time of an instant in a time zone: 2026-11-21, 14:05:09. */
export function localTime(timeZone: string): (at: Date) => { day: string; time: string } {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  return (at) => {
    const [day, time] = format.format(at).split(' ');
    return { day: day!, time: time! };
  };
}
