/** What can go wrong, as classes: what the service answered, or why there was no answer. */
import type { ErrorBody, ErrorCode, ErrorType } from './types.ts';

type Fault = ErrorBody['error'];

/** Anything this package throws. `name` tells the kind where `instanceof` cannot, between two copies of the package. */
export class FlorinError extends Error {
  override name = 'FlorinError';
}

/** The service answered with an error. */
export class ApiError extends FlorinError {
  override name = 'ApiError';
  readonly status: number;
  readonly type: ErrorType;
  readonly code: ErrorCode;
  /** The parameter at fault, such as `items[2].quantity`. */
  readonly param: string | null;
  /** Names the request in the logs of the service. */
  readonly requestId: string | null;
  readonly docUrl: string | null;
  /** All faults when there are several. */
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
/** 400, 405, 413, 415: the request is not as documented. */
export class InvalidRequestError extends ApiError {
  override name = 'InvalidRequestError';
}
/** 401: the key is missing, wrong or revoked. */
export class AuthenticationError extends ApiError {
  override name = 'AuthenticationError';
}
/** 403: not with this key, mode or plan. */
export class PermissionError extends ApiError {
  override name = 'PermissionError';
}
/** 404 */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError';
}
/** 409: not in this state. */
export class ConflictError extends ApiError {
  override name = 'ConflictError';
}
/** 422: the idempotency key was used with another body. */
export class IdempotencyError extends ApiError {
  override name = 'IdempotencyError';
}
/** 429 */
export class RateLimitError extends ApiError {
  override name = 'RateLimitError';
}
/** 501, 503: a chain, a price or the database cannot be asked; nothing was invented instead. */
export class UnavailableError extends ApiError {
  override name = 'UnavailableError';
}
/** 500 and the like. */
export class ServerError extends ApiError {
  override name = 'ServerError';
}

/** No answer came: `cause` says why. With the same idempotency key the request may be sent again. */
export class ConnectionError extends FlorinError {
  override name = 'ConnectionError';
}
/** No answer came in time, or what was waited for did not happen. */
export class TimeoutError extends ConnectionError {
  override name = 'TimeoutError';
}

/** Why a delivery was not believed. */
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
/** The delivery must not be acted upon; `reason` says why, the message what to look at. */
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

/** The error of a reply; one that is not of the documented form, as a proxy writes it, becomes a ServerError with what it said. */
export function errorOf(status: number, text: string, more: { requestId: string | null; retryAfterSeconds: number | null }): ApiError {
  let fault: Fault | undefined;
  try {
    fault = (JSON.parse(text) as Partial<ErrorBody> | null)?.error;
  } catch {
    // A page of a proxy: its beginning is the message.
  }
  if (typeof fault?.message === 'string' && typeof fault.code === 'string') {
    return new (CLASSES[status] ?? (status < 500 ? InvalidRequestError : ServerError))(status, fault, more);
  }
  const message = `Answer ${status} that is not from the service: ${text.slice(0, 200)}`;
  return new ServerError(status, { type: 'server_error', message, param: null, code: 'unknown', doc_url: '', request_id: '' }, more);
}
