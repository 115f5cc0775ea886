/** The filters of the list, by their name in the address. */
export const KEYS = [
  'status',
  'currency',
  'exception',
  'at_least',
  'at_most',
  'from',
  'until',
  'refund',
  'archived',
  'customer',
  'search',
] as const;
export type Key = (typeof KEYS)[number];
export type Filter = Record<Key, string>;
