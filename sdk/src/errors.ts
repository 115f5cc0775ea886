/** Errors as classes: what the service returned, or why there was no response. */
import type { ErrorBody, ErrorCode, ErrorType } from './types.ts';

type Fault = ErrorBody['error'];

/** The base of every error of this package. Compare `name` where two copies of the package are in use and `instanceof` cannot work. */
export class FlorinError extends Error {
  override name = 'FlorinError';
}

/** The service returned an error. */
export class ApiError extends FlorinError {
  override name = 'ApiError';
  readonly status: number;
  readonly type: ErrorType;
  readonly code: ErrorCode;
  /** The parameter at fault, such as `items[2].quantity`. */
  readonly param: string | null;
  /** Identifies the request in your request log. */
  readonly requestId: string | null;
  readonly docUrl: string | null;
  /** All faults of the request. */
  readonly errors: readonly Omit<Fault, 'doc_url' | 'request_id' | 'errors'>[];
  readonly retryAfterSeconds: number | null;

  constructor(
    status: number,
    fault: Fault,
    { requestId, retryAfterSeconds }: { requestId: string | null; retryAfterSeconds: number | null },
  ) {
    super(fault.message);
    this.status = status;
    this.type = fault.type;
    this.code = fault.code;
    this.param = fault.param;
    this.requestId = fault.request_id ?? requestId;
    this.docUrl = fault.doc_url ?? null;
    this.errors = fault.errors ?? [fault];
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
/** 400, 405, 413, 415: the request is invalid. */
export class InvalidRequestError extends ApiError {
  override name = 'InvalidRequestError';
}
/** 401: the key is missing, wrong or revoked. */
export class AuthenticationError extends ApiError {
  override name = 'AuthenticationError';
}
/** 403: not allowed with this key, mode or plan. */
export class PermissionError extends ApiError {
  override name = 'PermissionError';
}
/** 404: there is no such object, for this account and mode. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}
/** 409: not possible in the current state. */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}
/** 422: the idempotency key was used with another body. */
export class IdempotencyError extends ApiError {
  override name = 'IdempotencyError';
}
/** 429: too many requests. */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}
/** 501, 503: a network, a price or the database is unavailable. */
export class UnavailableError extends ApiError {
  override name = 'UnavailableError';
}
/** 500 and other server errors. */
export class ServerError extends ApiError {
  override name = 'ServerError';
}

/** There was no response; `cause` says why. It is safe to send the request again with the same idempotency key. */
export class ConnectionError extends FlorinError {
  override name = 'ConnectionError';
}
/** There was no response in time, or `waitFor` gave up. */
export class TimeoutError extends ConnectionError {
  override name = 'TimeoutError';
}

/** Why a delivery was not verified. */
export type WebhookFault =
  | 'body_not_raw'
  | 'body_not_event'
  | 'headers_missing'
  | 'timestamp_invalid'
  | 'too_old'
  | 'too_new'
  | 'signature_mismatch'
  | 'id_mismatch'
  | 'secret_invalid';
/** Do not act on this delivery. `reason` says why, and the message what to check. */
export class WebhookError extends FlorinError {
  override name = 'WebhookError';
  readonly reason: WebhookFault;

  constructor(reason: WebhookFault, message: string) {
    super(message);
    this.reason = reason;
  }
}

const CLASSES: Readonly<Record<number, typeof ApiError>> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  405: InvalidRequestError,
  409: ConflictError,
  413: InvalidRequestError,
  415: InvalidRequestError,
  422: IdempotencyError,
  429: RateLimitError,
  501: UnavailableError,
  503: UnavailableError,
};

/** The error of a response. A response that the service did not write, such as a proxy's page, becomes an error with its text. */
export function errorOf(status: number, text: string, more: { requestId: string | null; retryAfterSeconds: number | null }): ApiError {
  let fault: Fault | undefined;
  try {
    fault = (JSON.parse(text) as Partial<ErrorBody> | null)?.error;
  } catch {
    // Written by a proxy: the start of its page becomes the message.
  }
  if (typeof fault?.message === 'string' && typeof fault.code === 'string') {
    return new (CLASSES[status] ?? (status < 500 ? InvalidRequestError : ServerError))(status, fault, more);
  }
  const message = `The response with status ${status} is not from the service: ${text.slice(0, 200)}`;
  return new ServerError(status, { type: 'server_error', message, param: null, code: 'unknown', doc_url: '', request_id: '' }, more);
}
