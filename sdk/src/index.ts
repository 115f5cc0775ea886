/** The exports of `florin`. */
export { type Client, createClient, type WaitOptions } from './client.ts';
export {
  ApiError,
  AuthenticationError,
  ConflictError,
  ConnectionError,
  FlorinError,
  IdempotencyError,
  InvalidRequestError,
  NotFoundError,
  PermissionError,
  RateLimitError,
  ServerError,
  TimeoutError,
  UnavailableError,
  WebhookError,
  type WebhookFault,
} from './errors.ts';
export type { Listing } from './pages.ts';
export type { ClientOptions, RequestOptions, ResponseInfo } from './request.ts';
export type * from './types.ts';
export { API_VERSION, VERSION } from './types.ts';
export type { SeenStore, VerifyOptions, WebhookHeaders } from './webhooks.ts';
export * as webhooks from './webhooks.ts';
