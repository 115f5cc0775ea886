/** Ranges of days in the time zone of the merchant; local days; durations. */
const DAY_MS = 86_400_000;
export type Range = { from: string; until: string; days: number };

const textOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
/** Without a time zone: that of this browser. */
export const today = (timeZone?: string): string => new Intl.DateTimeFormat('sv-SE', { timeZone }).format();

/** The given number of days, ending today. */
export function lastDays(days: number, timeZone?: string): Range {
  const until = today(timeZone);
  return { from: textOf(Date.parse(until) - (days - 1) * DAY_MS), until, days };
}
/** Null when they are not a range of at most a year. */
export function rangeBetween(from: string, until: string): Range | null {
  const days = Math.round((Date.parse(until) - Date.parse(from)) / DAY_MS) + 1;
  return Number.isFinite(days) && days >= 1 && days <= 366 ? { from, until, days } : null;
}
export const wordsOfDays = (days: number): string => (days === 1 ? 'the previous day' : `the previous ${days} days`);

/** The start of a local day as an instant; with `plusDays` 1, its end. Undefined for an invalid day. */
export const instantOf = (day: string, plusDays: number): string | undefined => {
  const [year, month, date] = day.split('-').map(Number);
  return year && month && date ? new Date(year, month - 1, date + plusDays).toISOString() : undefined;
};

/** Seconds in the two largest units; the smaller one is left out if it is zero. */
export function duration(seconds: number): string {
  if (seconds < 1) return 'under 1 s';
  if (seconds < 60) return `${seconds} s`;
  const units = (large: number, largeUnit: string, small: number, smallUnit: string) => {
    const rest = Math.floor((seconds % large) / small);
    return `${Math.floor(seconds / large)} ${largeUnit}${rest === 0 ? '' : ` ${rest} ${smallUnit}`}`;
  };
  if (seconds < 3_600) return units(60, 'min', 1, 's');
  if (seconds < 86_400) return units(3_600, 'h', 60, 'min');
  return units(86_400, 'd', 3_600, 'h');
}
