/**
 * Reads JSON that another version may have stored. A field that is missing or has another type becomes null or empty, so that a reader
 * can put a default in its place.
 */
export type StoredJson = Readonly<Record<string, unknown>>;

export const asObject = (value: unknown): StoredJson =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as StoredJson) : {};
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const asText = (value: unknown): string | null => (typeof value === 'string' ? value : null);
export const asBoolean = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null);
export const asWhole = (value: unknown): number | null => (Number.isSafeInteger(value) ? (value as number) : null);
/** Whole numbers of any size are kept as text. */
export const asBigint = (value: unknown): bigint | null => (typeof value === 'string' && /^-?\d+$/.test(value) ? BigInt(value) : null);
/** Entries that are not text are left out. */
export const asTexts = (value: unknown): string[] => asList(value).flatMap((entry) => asText(entry) ?? []);
/** Fields that are not text are left out. */
export const asTextMap = (value: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries(asObject(value)).filter((field): field is [string, string] => asText(field[1]) !== null));
/** Times are kept as text with a date, as `toISOString` writes them. */
export const asTime = (value: unknown): Date | null => {
  const time = new Date(asText(value) ?? Number.NaN);
  return Number.isNaN(time.getTime()) ? null : time;
};
export const oneOf = <T extends string>(known: readonly T[], value: unknown): T | null => known.find((one) => one === value) ?? null;
