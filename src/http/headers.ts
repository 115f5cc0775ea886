/** The headers that replies have in common: their spelling, the rate limit, and what lets pages of other sites read a reply. */
import { type IncomingMessage, ServerResponse } from 'node:http';
import { UNLIMITED } from '../core/plan.ts';
import { type Use, WINDOW_SECONDS } from './limits.ts';

/** Names that are not only capitalized: documents and standards spell them like this. */
const SPELLED: Readonly<Record<string, string>> = { Etag: 'ETag', Ratelimit: 'RateLimit', Www: 'WWW' };
const spelledNames = new Map<string, string>();
const MOST_NAMES = 500;

/** The documented spelling of a header: `x-ratelimit-limit` as `X-RateLimit-Limit`. */
export function spelledHeader(name: string): string {
  const known = spelledNames.get(name);
  if (known !== undefined) return known;
  const spelled = name
    .split('-')
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1).toLowerCase())
    .map((part) => SPELLED[part] ?? part)
    .join('-');
  if (spelledNames.size < MOST_NAMES) spelledNames.set(name, spelled);
  return spelled;
}

/**
 * A response whose headers are spelled as documented on HTTP/1.1. Names of headers have no case (RFC 9110), but some clients compare
 * them as text, and Fastify writes them in lower case.
 */
export class SpelledResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  override setHeader(name: string, value: number | string | readonly string[]): this {
    return super.setHeader(spelledHeader(name), value);
  }
}

/** Sets several headers. */
export function setHeaders(raw: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) raw.setHeader(name, headers[name]!);
}

/** A bucket's limit (0: unlimited) and what is left of it, as headers. */
export function limitHeaders(now: Date, points: number, { remaining, resetMs }: Omit<Use, 'allowed'>): Readonly<Record<string, string>> {
  const limit = points || UNLIMITED;
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(Math.ceil((now.getTime() + resetMs) / 1000)),
    'RateLimit-Policy': `"default";q=${limit};w=${WINDOW_SECONDS}`,
    RateLimit: `"default";r=${remaining};t=${Math.max(1, Math.ceil(resetMs / 1000))}`,
  };
}

/** What every reply says until a limit is counted, such as that of a health check, which is not limited. */
export const withoutLimit = (now: Date): Readonly<Record<string, string>> =>
  limitHeaders(now, 0, { remaining: UNLIMITED, resetMs: WINDOW_SECONDS * 1000 });

/** What a refused request says, whichever limit it met: nothing is left for so many seconds. */
export const usedUp = (now: Date, seconds: number): Readonly<Record<string, string>> => {
  const { 'X-RateLimit-Remaining': remaining, 'X-RateLimit-Reset': reset } = limitHeaders(now, 0, {
    remaining: 0,
    resetMs: seconds * 1000,
  });
  return { 'X-RateLimit-Remaining': remaining!, 'X-RateLimit-Reset': reset! };
};

/**
 * Lets pages of every site read the reply. Routes for public keys send this with every reply, to the preflight and to the request, so
 * that both always agree and a page can also read why it is refused. Nothing is revealed: a reply depends only on the key, which the
 * page must have to ask, and cookies are neither needed nor allowed.
 */
export const FOR_PAGES: Readonly<Record<string, string>> = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers':
    'Idempotent-Replayed, Retry-After, X-Ignored-Parameters, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id',
};
