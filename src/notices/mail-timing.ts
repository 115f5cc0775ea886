/** When a person wants emails about events: at once or once a day, and not during quiet hours. Pure; days are those of a time zone. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../core/clock.ts';
import { isTimeZone } from '../core/dates.ts';

export type MailTiming = {
  /** A name of the tz database. */
  timeZone: string;
  /** Null: at once. */
  dailyHour: number | null;
  /** Minutes of the day; it may reach past midnight. */
  quiet: { from: number; to: number } | null;
};

/** An unknown zone counts as UTC, because an error here would also roll back the payment that the mail is about. */
const formats = new Map<string, Intl.DateTimeFormat>();
function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: isTimeZone(timeZone) ? timeZone : 'UTC',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(timeZone, format);
  }
  return format;
}

/** The local time of a zone, as the milliseconds of a UTC clock that shows the same time. */
function wallOf(timeZone: string, ms: number): number {
  const part: Record<string, number> = {};
  for (const { type, value } of formatOf(timeZone).formatToParts(ms)) part[type] = Number(value);
  return Date.UTC(part.year!, part.month! - 1, part.day!, part.hour!, part.minute!, part.second!) + (ms % 1_000);
}

/** The instant at which local clocks show a time. In fall there may be two; a time skipped in spring is the moment of the change. */
function instantsOf(timeZone: string, wall: number): number[] {
  const offsetAt = (ms: number): number => wallOf(timeZone, ms) - ms;
  let [early, late] = [wall - DAY_MS, wall + DAY_MS];
  const shown = [...new Set([offsetAt(early), offsetAt(late)])]
    .map((offset) => wall - offset)
    .filter((ms) => wallOf(timeZone, ms) === wall);
  if (shown.length > 0) return shown.sort((a, b) => a - b);
  const before = offsetAt(early);
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (offsetAt(middle) === before) early = middle;
    else late = middle;
  }
  return [late];
}

const midnightOf = (wall: number): number => Math.floor(wall / DAY_MS) * DAY_MS;
const isQuiet = ({ from, to }: { from: number; to: number }, minute: number): boolean =>
  from < to ? from <= minute && minute < to : from <= minute || minute < to;

/** The end of the quiet hours that contain `ms`; `ms` itself outside quiet hours. */
function afterQuiet({ timeZone, quiet }: MailTiming, ms: number): number {
  const wall = wallOf(timeZone, ms);
  const midnight = midnightOf(wall);
  if (quiet === null || !isQuiet(quiet, (wall - midnight) / MINUTE_MS)) return ms;
  const ends = [0, 1].flatMap((day) => instantsOf(timeZone, midnight + day * DAY_MS + quiet.to * MINUTE_MS));
  return Math.min(...ends.filter((end) => end > ms));
}

/** When to send what happens `now`; null: at once. */
export function nextMail(timing: MailTiming, now: Date): Date | null {
  const ms = now.getTime();
  const { timeZone, dailyHour } = timing;
  if (dailyHour === null) {
    const at = afterQuiet(timing, ms);
    return at === ms ? null : new Date(at);
  }
  const midnight = midnightOf(wallOf(timeZone, ms));
  // The hour of yesterday may be quiet until today.
  const hours = [-1, 0, 1, 2].map((day) => instantsOf(timeZone, midnight + day * DAY_MS + dailyHour * HOUR_MS)[0]!);
  return new Date(Math.min(...hours.map((hour) => afterQuiet(timing, hour)).filter((hour) => hour > ms)));
}

/** An instant in local time: 2026-11-21 14:05. */
export const wallText = (timeZone: string, at: Date): string =>
  new Date(wallOf(timeZone, at.getTime())).toISOString().slice(0, 16).replace('T', ' ');
