/** Time is passed in. `now` is the last sampled database instant plus monotonic time; durations come from `monotonicMs`. */
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
