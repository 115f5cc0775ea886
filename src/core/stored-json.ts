/** Reads JSON that an older version may have stored: what is missing or of another type becomes null, never today's type unseen. */
export type Json = Readonly<Record<string, unknown>>;

export const asObject = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const asText = (value: unknown): string | null => (typeof value === 'string' ? value : null);
export const asBoolean = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null);
export const asWhole = (value: unknown): number | null => (Number.isSafeInteger(value) ? (value as number) : null);
/** Whole numbers of any size are kept as text. */
export const asBigint = (value: unknown): bigint | null => (typeof value === 'string' && /^-?\d+$/.test(value) ? BigInt(value) : null);
export const oneOf = <T extends string>(known: readonly T[], value: unknown): T | null => known.find((one) => one === value) ?? null;
