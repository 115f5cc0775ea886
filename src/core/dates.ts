/** The clock, and the one reader of dates, times and time zones that come from outside. Nothing here happened before Bitcoin did, or will be listed after 2100. */
import { Problem } from './problem.ts';

const FIRST_MS = Date.UTC(2009, 0, 1);
const END_MS = Date.UTC(2101, 0, 1);
const DAY = '2026-11-22';
const TIME = '2026-11-22T10:00:00Z';

/** A day of the calendar, as 2026-11-22. */
export function isDay(text: string): boolean {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
  // A day that does not exist in its month would become one of the next month.
  return ms >= FIRST_MS && ms < END_MS && new Date(ms).toISOString().startsWith(text);
}

/** Errors: parameter_invalid. */
export function readDay(text: string, param: string): string {
  if (isDay(text)) return text;
  throw new Problem('parameter_invalid', { reason: `it must be a date such as ${DAY}, from 2009 to 2100` }, { param });
}

/** A time with its offset from UTC (RFC 3339); where `days` are allowed, also a day, which means its first instant in UTC. Errors: parameter_invalid. */
export function readTime(text: string, param: string, { days = true } = {}): Date {
  const [, day, time] = /^(\d{4}-\d\d-\d\d)(T(?!24)\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))?$/i.exec(text) ?? [];
  const at = new Date(text.toUpperCase());
  if (day !== undefined && isDay(day) && (days || time !== undefined) && at.getTime() >= FIRST_MS && at.getTime() < END_MS) return at;
  const expected = days ? `a date such as ${DAY}, or a time such as ${TIME}` : `a time such as ${TIME}`;
  throw new Problem('parameter_invalid', { reason: `${expected}, from 2009 to 2100 is expected; in a URL, write + as %2B` }, { param });
}

/** Whether a text is the name of a time zone in the tz database. */
export function isTimeZone(name: string): boolean {
  try {
    // Offsets such as +01:00 have no daylight-saving time.
    return !/^[+-]/.test(name) && new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== undefined;
  } catch {
    return false;
  }
}

/** Errors: parameter_invalid (time_zone). */
export function checkTimeZone(name: string): void {
  if (!isTimeZone(name))
    throw new Problem('parameter_invalid', { reason: 'it must be a time zone such as Europe/Berlin' }, { param: 'time_zone' });
}

/** The day and the time of an instant in a time zone: 2026-11-21, 14:05:09. */
export function localTime(timeZone: string): (at: Date) => { day: string; time: string } {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' });
  return (at) => {
    const [day, time] = format.format(at).split(' ');
    return { day: day!, time: time! };
  };
}

// Time is passed in. `now` is the last sampled database instant plus monotonic time; durations come from `monotonicMs`.

export type Clock = {
  now(): Date;
  monotonicMs(): number;
};
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;
export const addMs = (at: Date, ms: number): Date => new Date(at.getTime() + ms);
export const latest = (...dates: Date[]): Date => new Date(Math.max(...dates.map((d) => d.getTime())));
export const earliest = (...dates: Date[]): Date => new Date(Math.min(...dates.map((d) => d.getTime())));

/** A time as people read it, to the minute: `2026-08-17 23:09 UTC`. */
export const minuteText = (at: Date): string => `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
/** As the API writes it. */
export function isoTime(instant: Date): string;
export function isoTime(instant: Date | null): string | null;
export function isoTime(instant: Date | null): string | null {
  return instant?.toISOString() ?? null;
}
