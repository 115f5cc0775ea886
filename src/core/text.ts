/** Text from strangers, cut to a length that can be stored. */

/**
 * The first `most` UTF-16 units of a text, without half of a surrogate pair at the end: PostgreSQL refuses that in `jsonb`, and
 * `encodeURIComponent` throws.
 */
export const cutText = (text: string, most: number): string =>
  text
    .slice(0, most)
    .replace(/[\ud800-\udbff]$/, '')
    .toWellFormed();
