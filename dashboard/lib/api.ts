/** Calls to the dashboard API, typed by method and path. Every failure is an ApiError. */
import type { Api, ErrorType } from '../generated/api.ts';
import { ACT_LIMITS_MS, ask, READ_LIMITS_MS, readBody } from './ask.ts';
import { tellOffline, tellReached, tellTooMany } from './trouble.ts';

export type { Api } from '../generated/api.ts';
export type Endpoint = keyof Api;
export type Reply<E extends Endpoint> = Api[E]['reply'];

type ParamNames<P extends string> = P extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamNames<`/${Rest}`>
  : P extends `${string}:${infer Name}`
    ? Name
    : never;
type Params<E extends Endpoint> = ParamNames<E> extends never ? { params?: undefined } : { params: Record<ParamNames<E>, string> };
type Sent<E extends Endpoint> = Api[E]['body'] extends undefined ? { body?: undefined } : { body: Api[E]['body'] };
type Asked<E extends Endpoint> = Api[E]['query'] extends undefined ? { query?: undefined } : { query?: Api[E]['query'] };
export type CallOptions<E extends Endpoint> = Params<E> & Sent<E> & Asked<E>;

/** An error response of the service, or a network failure. */
export class ApiError extends Error {
  readonly status: number;
  readonly type: ErrorType | 'offline';
  readonly code: string;
  readonly param: string | null;
  readonly requestId: string | null;
  /** Seconds to wait before retrying; null when the service does not say. */
  readonly retryAfter: number | null;
  constructor(
    status: number,
    fields: { type: ErrorType | 'offline'; code: string; message: string; param?: string | null; request_id?: string },
    retryAfter: number | null,
  ) {
    super(fields.message);
    this.status = status;
    this.type = fields.type;
    this.code = fields.code;
    this.param = fields.param ?? null;
    this.requestId = fields.request_id ?? null;
    this.retryAfter = retryAfter;
  }
}

/** Sends one request. Errors: ApiError, also when the service cannot be reached. */
export async function call<E extends Endpoint>(endpoint: E, options: CallOptions<E>, signal?: AbortSignal): Promise<Reply<E>> {
  const [method, pattern] = endpoint.split(' ') as [string, string];
  const params = (options.params ?? {}) as Record<string, string>;
  const path = pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name]!));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries((options.query ?? {}) as Record<string, unknown>)) {
    if (value !== undefined && value !== '') query.set(name, String(value));
  }
  const asked = query.toString();
  let reply: Response;
  let text: string;
  try {
    ({ reply, text } = await ask(
      `/dashboard/api${path}${asked === '' ? '' : `?${asked}`}`,
      {
        method,
        credentials: 'same-origin',
        headers: { 'x-florin-dashboard': '1', ...(method === 'GET' ? {} : { 'content-type': 'application/json' }) },
        ...(method === 'GET' ? {} : { body: JSON.stringify(options.body ?? {}) }),
      },
      method === 'GET' ? READ_LIMITS_MS : ACT_LIMITS_MS,
      signal,
    ));
  } catch (error) {
    if (signal?.aborted) throw error;
    tellOffline();
    const isLate = error instanceof DOMException && error.name === 'AbortError';
    const message = isLate
      ? `The server didn’t answer in time.${method === 'GET' ? '' : ' Check whether this worked before you try again.'}`
      : 'Can’t reach the server. Check your connection.';
    throw new ApiError(0, { type: 'offline', code: 'offline', message }, null);
  }
  tellReached();
  const body = readBody(text);
  if (reply.ok && body !== null) return body as Reply<E>;
  const retryAfter = Number(reply.headers.get('retry-after')) || null;
  // A lock on codes affects one person and lasts longer than a banner should announce.
  if (reply.status === 429 && body?.error?.code !== 'second_factor_locked') tellTooMany(retryAfter ?? 5);
  throw new ApiError(
    reply.status,
    body?.error ?? { type: 'server_error', code: 'server_error', message: 'The server sent an invalid response.' },
    retryAfter,
  );
}
