/** One request: time limit, retries with the same idempotency key, errors as classes. Runs wherever there is `fetch`. */
import { ApiError, ConnectionError, errorOf, FlorinError, TimeoutError } from './errors.ts';

export type ClientOptions = {
  /** Where the service answers, such as `https://pay.example`. */
  url: string;
  /** `sk_...` on servers; `pk_...` in pages, which may create payments and nothing else. */
  key: string;
  /** For one attempt, in milliseconds; default 30000. */
  timeoutMs?: number;
  /** Further attempts after one that failed for want of an answer, capacity or luck; default 2. */
  maxRetries?: number;
  /** Another `fetch`, for proxies and tests. */
  fetch?: typeof globalThis.fetch;
  /** Hears of every attempt that was answered. */
  onResponse?: (response: ResponseInfo) => void;
  /** Hears of parameters that the service does not take and ignored; default: `console.warn`, once for each name. */
  onIgnoredParameters?: (names: readonly string[], response: ResponseInfo) => void;
};
export type ResponseInfo = {
  method: string;
  path: string;
  status: number;
  requestId: string | null;
  /** From 1. */
  attempt: number;
  durationMs: number;
  /** Requests that the key may make in a minute; null where the reply does not say. */
  limitPerMinute: number | null;
  /** Names of parameters that the service does not take and ignored, such as `items[].colour`. */
  ignoredParameters: readonly string[];
};
/** What every call takes as its last argument. */
export type RequestOptions = {
  signal?: AbortSignal;
  timeoutMs?: number;
  maxRetries?: number;
  /** Of requests that change something; default: a random one for each call, kept over its retries. */
  idempotencyKey?: string;
};
export type Method = 'GET' | 'POST' | 'DELETE';
export type Asked = { method: Method; path: string; query?: object; body?: object };
/** Sends a request and gives its reply as text. */
export type Send = (asked: Asked, options?: RequestOptions) => Promise<string>;

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 8_000;
/** A service that asks for more patience than this gets its error shown instead. */
const LONGEST_RETRY_AFTER_SECONDS = 60;

/** Half of the step for sure, the rest at random, so that callers who failed together do not return together. */
export const delayMs = (attempt: number, retryAfterSeconds: number | null, random: () => number = Math.random): number => {
  const step = Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), LONGEST_DELAY_MS);
  return Math.max(step * (0.5 + random() / 2), (retryAfterSeconds ?? 0) * 1000);
};

/** 429 and trouble of the moment; 501 will be the same again, and so will any other refusal. */
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

/** Names as the service lists them: separated by commas, each escaped as in a URL. */
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

/** A name that nobody takes is a slip or a leftover: worth a line, not a line for each payment. */
function warnOnce(): (names: readonly string[], response: ResponseInfo) => void {
  const warned = new Set<string>();
  return (names, { method, path }) => {
    for (const name of names) {
      if (warned.has(name) || warned.size >= 1_000) continue;
      warned.add(name);
      console.warn(`florin: ${method} ${path} does not take ${name}; it was ignored.`);
    }
  };
}

function checkOptions({ url, key }: ClientOptions): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new FlorinError(`url must be where your Florin answers, such as https://pay.example; it is ${JSON.stringify(url)}`);
  }
  if (parsed.protocol !== 'https:' && parsed.protocol !== 'http:') throw new FlorinError('url must begin with https:// or http://');
  if (!/^[\x21-\x7e]{8,200}$/.test(key ?? '')) throw new FlorinError('key must be an API key: sk_..., or pk_... in a page');
  const secret = /^(sk_|live_sk_|test_sk_)/.test(key);
  if (secret && typeof window === 'object' && typeof document === 'object') {
    throw new FlorinError('This is a page, and everybody who opens it can read the secret key. Use a public key (pk_...) here.');
  }
  return parsed.href.replace(/\/+$/, '');
}

/** The sender of a client. Errors: FlorinError when url or key cannot be right. */
export function createSend(client: ClientOptions): Send {
  const base = checkOptions(client);
  const onIgnored = client.onIgnoredParameters ?? warnOnce();

  const attempt = async (asked: Asked, headers: Record<string, string>, options: RequestOptions, number: number) => {
    const { timeoutMs = client.timeoutMs ?? 30_000, signal } = options;
    const limit = new AbortController();
    const stop = () => limit.abort(signal!.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    const timer = setTimeout(() => limit.abort(new TimeoutError(`No answer within ${timeoutMs} ms`)), timeoutMs);
    const started = performance.now();
    try {
      // A redirect would send the key somewhere else; the service makes none.
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
        throw new FlorinError(`${base} redirects ${asked.path}. Set url to where the service itself answers.`);
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
      ...(asked.body && { 'content-type': 'application/json' }),
      ...(asked.method === 'POST' && { 'idempotency-key': options.idempotencyKey ?? randomKey() }),
    };
    const retries = options.maxRetries ?? client.maxRetries ?? 2;
    for (let number = 1; ; number++) {
      const { text, error, response } = await attempt(asked, headers, options, number);
      // Here, where an error of the listener is the caller's own and no reason for another attempt.
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

/** Node hides the reason of "fetch failed" in the cause. */
const reasonOf = (error: unknown): string => {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } };
  return cause?.message || cause?.code || message || String(error);
};
