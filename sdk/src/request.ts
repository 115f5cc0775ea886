/** One request: timeout, retries with the same idempotency key, errors as classes. Runs wherever there is `fetch`. */
import { ApiError, ConnectionError, errorOf, FlorinError, TimeoutError } from './errors.ts';
import { showControls } from './text.ts';
import { API_VERSION, VERSION } from './types.ts';

export type ClientOptions = {
  /** Address of your Florin, such as `https://pay.example`. */
  url: string;
  /** API key: a secret key (`sk_...`) on servers, a public key (`pk_...`), which can only create payments, in pages. */
  key: string;
  /** Timeout of one attempt, in milliseconds. Defaults to 30000. */
  timeoutMs?: number;
  /** How often a request is retried after a connection error, a timeout, 429, 500 or 503. Defaults to 2. */
  maxRetries?: number;
  /** A `fetch` to use instead of the global one, for proxies and tests. */
  fetch?: typeof globalThis.fetch;
  /**
   * Allows a secret key where there is a page, such as in tests with jsdom. A secret key in a page of your site can be read by
   * everyone who opens it. Defaults to false.
   */
  dangerouslyAllowBrowser?: boolean;
  /** Called for every response. */
  onResponse?: (response: ResponseInfo) => void;
  /** Called with parameters that the service does not know and ignored. Defaults to `console.warn`, once for each name. */
  onIgnoredParameters?: (names: readonly string[], response: ResponseInfo) => void;
};
export type ResponseInfo = {
  method: string;
  path: string;
  status: number;
  requestId: string | null;
  /** Number of the attempt, from 1. */
  attempt: number;
  durationMs: number;
  /** Requests that the key can make per minute; null when the response does not say. */
  limitPerMinute: number | null;
  /** Names of parameters that the service does not know and ignored, such as `items[].color`. */
  ignoredParameters: readonly string[];
};
/** The last argument of every call. */
export type RequestOptions = {
  signal?: AbortSignal;
  timeoutMs?: number;
  maxRetries?: number;
  /** For POST requests. Defaults to a random key for each call, kept for its retries. */
  idempotencyKey?: string;
};
export type Method = 'GET' | 'POST' | 'DELETE';
export type RequestToSend = { method: Method; path: string; query?: object; body?: object };
/** Sends a request and returns its response as text. */
export type Send = (asked: RequestToSend, options?: RequestOptions) => Promise<string>;

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 8_000;
/** A longer Retry-After is not waited for: the error is thrown. */
const LONGEST_RETRY_AFTER_SECONDS = 60;

/** Half of the step is fixed and half is random, so that clients that failed together do not retry together. */
export const delayMs = (attempt: number, retryAfterSeconds: number | null, random: () => number = Math.random): number => {
  const step = Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), LONGEST_DELAY_MS);
  return Math.max(step * (0.5 + random() / 2), (retryAfterSeconds ?? 0) * 1000);
};

/** Whether a retry can succeed. 501 and other refusals stay the same. */
const isPassing = (status: number, code: string): boolean =>
  status === 429 || status === 408 || (status === 409 && code === 'idempotency_key_in_use') || (status >= 500 && status !== 501);

export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });

/** Random text of 32 hex digits; `crypto.randomUUID` is missing in pages without TLS. */
export const randomKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

const queryText = (query: object): string => {
  const given = Object.entries(query)
    .flatMap(([name, value]): [string, unknown][] =>
      typeof value === 'object' && value !== null
        ? Object.entries(value).map(([key, inside]) => [`${name}[${key}]`, inside])
        : [[name, value]],
    )
    .filter(([, value]) => value !== undefined && value !== null);
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
};

function retryAfterOf(headers: Headers): number | null {
  const text = headers.get('retry-after');
  if (text === null) return null;
  if (/^\d+$/.test(text)) return Number(text);
  const instant = Date.parse(text);
  return Number.isNaN(instant) ? null : Math.max(0, Math.ceil((instant - Date.now()) / 1000));
}

/** Names separated by commas, each escaped as in a URL. */
function ignoredIn(headers: Headers): string[] {
  const text = headers.get('x-ignored-parameters');
  if (!text) return [];
  return text.split(', ').map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  });
}

/** Warns once per name, not once per payment. */
function warnOnce(): (names: readonly string[], response: ResponseInfo) => void {
  const warned = new Set<string>();
  return (names, { method, path }) => {
    for (const name of names) {
      if (warned.has(name) || warned.size >= 1_000) continue;
      warned.add(name);
      console.warn(`florin: ${method} ${path} has no parameter ${showControls(name)}; it was ignored.`);
    }
  };
}

/** Whether this runs in a page, where everyone can read the code and its keys. */
const isPage = (): boolean => typeof window === 'object' && typeof document === 'object';

function checkOptions({ url, key, dangerouslyAllowBrowser }: ClientOptions): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new FlorinError(`url must be the address of your Florin, such as https://pay.example. It is ${JSON.stringify(url)}.`);
  }
  if (parsed.protocol !== 'https:' && parsed.protocol !== 'http:') throw new FlorinError('url must start with https:// or http://.');
  if (!/^[\x21-\x7e]{8,200}$/.test(key ?? '')) throw new FlorinError('key must be an API key: sk_... on servers, pk_... in pages.');
  const secret = /^(sk_|live_sk_|test_sk_)/.test(key);
  if (secret && !dangerouslyAllowBrowser && isPage()) {
    throw new FlorinError(
      'A secret key in a page can be read by everyone who opens it. Use a public key (pk_...) here. In tests that only simulate a page, such as with jsdom, set dangerouslyAllowBrowser: true.',
    );
  }
  return withoutEndSlashes(parsed.href);
}

/** An address without slashes at its end, so that a path can follow. */
export function withoutEndSlashes(text: string): string {
  let end = text.length;
  while (text[end - 1] === '/') end--;
  return text.slice(0, end);
}

/** The function that sends the requests of a client. Errors: FlorinError when url or key is invalid. */
export function createSend(client: ClientOptions): Send {
  const base = checkOptions(client);
  const onIgnored = client.onIgnoredParameters ?? warnOnce();

  const attempt = async (asked: RequestToSend, headers: Record<string, string>, options: RequestOptions, number: number) => {
    const { timeoutMs = client.timeoutMs ?? 30_000, signal } = options;
    const limit = new AbortController();
    const stop = () => limit.abort(signal!.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    const timer = setTimeout(() => limit.abort(new TimeoutError(`No response within ${timeoutMs} ms`)), timeoutMs);
    const started = performance.now();
    try {
      // A redirect would send the key elsewhere, and the service never redirects.
      const reply = await (client.fetch ?? fetch)(`${base}${asked.path}${asked.query ? queryText(asked.query) : ''}`, {
        method: asked.method,
        headers,
        redirect: 'manual',
        signal: limit.signal,
        ...(asked.body && { body: JSON.stringify(asked.body) }),
      });
      const text = await reply.text();
      const requestId = reply.headers.get('x-request-id');
      const response: ResponseInfo = {
        method: asked.method,
        path: asked.path,
        status: reply.status,
        requestId,
        attempt: number,
        durationMs: performance.now() - started,
        limitPerMinute: Number(reply.headers.get('x-ratelimit-limit')) || null,
        ignoredParameters: ignoredIn(reply.headers),
      };
      if (reply.ok) return { text, error: null, response };
      if (reply.type === 'opaqueredirect' || (reply.status >= 300 && reply.status < 400)) {
        throw new FlorinError(`${base} redirects ${asked.path}. Set url to the address of the service itself.`);
      }
      return { text, error: errorOf(reply.status, text, { requestId, retryAfterSeconds: retryAfterOf(reply.headers) }), response };
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof FlorinError && !(error instanceof TimeoutError)) throw error;
      if (limit.signal.aborted) return { text: '', error: limit.signal.reason as TimeoutError, response: null };
      return { text: '', error: new ConnectionError(`${base} cannot be reached: ${reasonOf(error)}`, { cause: error }), response: null };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
  };

  return async (asked, options = {}) => {
    const headers: Record<string, string> = {
      authorization: `Bearer ${client.key}`,
      accept: 'application/json',
      // Pages cannot set the first of these, and would need permission from the service for the second.
      ...(!isPage() && { 'user-agent': `florin-js/${VERSION}`, 'florin-version': API_VERSION }),
      ...(asked.body && { 'content-type': 'application/json' }),
      ...(asked.method === 'POST' && { 'idempotency-key': options.idempotencyKey ?? randomKey() }),
    };
    const retries = options.maxRetries ?? client.maxRetries ?? 2;
    for (let number = 1; ; number++) {
      const { text, error, response } = await attempt(asked, headers, options, number);
      // Outside of the attempt: an error that the callback throws is not retried.
      if (response) client.onResponse?.(response);
      if (response && response.ignoredParameters.length > 0) onIgnored(response.ignoredParameters, response);
      if (!error) return text;
      const answered = error instanceof ApiError ? error : null;
      const passing = answered === null || isPassing(answered.status, answered.code);
      const retryAfterSeconds = answered?.retryAfterSeconds ?? null;
      if (!passing || number > retries || (retryAfterSeconds ?? 0) > LONGEST_RETRY_AFTER_SECONDS) throw error;
      await pause(delayMs(number, retryAfterSeconds), options.signal);
    }
  };
}

/** Node puts the reason of "fetch failed" into the cause. */
const reasonOf = (error: unknown): string => {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } };
  return cause?.message || cause?.code || message || String(error);
};
