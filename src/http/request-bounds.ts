/** The bounds of a request line and its headers, which are checked before anything reads them. */
import type { IncomingMessage } from 'node:http';
import { LONGEST_ORIGIN, LONGEST_PARAMETER_NAME, LONGEST_URL, MOST_HEADERS, MOST_PARAMETERS } from '../core/bounds.ts';

/** What exceeds a bound, as the end of "cannot be read:"; null for all requests of honest clients. */
export function excessOf({ url = '', rawHeaders, headers }: Pick<IncomingMessage, 'url' | 'rawHeaders' | 'headers'>): string | null {
  if (rawHeaders.length > 2 * MOST_HEADERS) return `it has more than ${MOST_HEADERS} header lines`;
  if ((headers.origin?.length ?? 0) > LONGEST_ORIGIN) return `its Origin header has more than ${LONGEST_ORIGIN} characters`;
  if (url.length > LONGEST_URL) return `its URL has more than ${LONGEST_URL} characters`;
  const query = url.indexOf('?');
  return query < 0 ? null : excessOfPairs(url.slice(query + 1), 'its query');
}

/** The same for what is written as `name=value&name=value`. */
export function excessOfPairs(text: string, what: string): string | null {
  const pairs = text.split('&', MOST_PARAMETERS + 1);
  if (pairs.length > MOST_PARAMETERS) return `${what} has more than ${MOST_PARAMETERS} parameters`;
  const isLong = pairs.some((pair) => pair.length > LONGEST_PARAMETER_NAME && !pair.slice(0, LONGEST_PARAMETER_NAME + 1).includes('='));
  return isLong ? `${what} has a parameter whose name has more than ${LONGEST_PARAMETER_NAME} characters` : null;
}
