/** The one catalogue of errors: code -> status, type, message. `{name}` in a message is filled from the details. */
import { FIATS } from './fiat.ts';

export const PROBLEM_TYPES = [
  'invalid_request',
  'authentication_failed',
  'permission_denied',
  'not_found',
  'conflict',
  'idempotency_mismatch',
  'rate_limit_exceeded',
  'plan_limit_exceeded',
  'service_unavailable',
  'server_error',
] as const;
export type ProblemType = (typeof PROBLEM_TYPES)[number];
type Entry = { status: number; type: ProblemType; message: string };
const entry = (status: number, type: ProblemType, message: string): Entry => ({ status, type, message });
const bad = (message: string): Entry => entry(400, 'invalid_request', message);

/** Order is precedence: when several problems apply, the first listed is `error`, all are in `errors[]`. */
export const PROBLEMS = {
  // The request as bytes
  https_required: entry(
    403,
    'permission_denied',
    'Use HTTPS. Plain HTTP requests are refused and not redirected; if this one carried a key, replace the key.',
  ),
  request_unreadable: bad('The request cannot be read: {reason}.'),
  body_too_large: entry(413, 'invalid_request', 'The request body is larger than {limit} bytes.'),
  unsupported_media_type: entry(415, 'invalid_request', 'Send the body as JSON with Content-Type: application/json, not compressed.'),
  invalid_json: bad('The request body is not valid JSON: {reason}.'),
  unknown_route: entry(404, 'not_found', 'There is no {method} {path}. See the reference at /docs.'),
  method_not_allowed: entry(405, 'invalid_request', '{method} is not allowed here; use {allowed}.'),
  // Who asks
  invalid_api_key: entry(401, 'authentication_failed', 'The API key is missing or invalid. Send Authorization: Bearer <API_KEY>.'),
  secret_key_required: entry(403, 'permission_denied', 'This request needs a secret key. Public keys only create payments.'),
  key_read_only: entry(403, 'permission_denied', 'This key only reads. Use one that may do everything.'),
  ip_not_allowed: entry(403, 'permission_denied', 'This key does not allow requests from your address: {ip}.'),
  origin_not_allowed: entry(403, 'permission_denied', 'This public key does not allow requests from that origin.'),
  test_key_required: entry(403, 'permission_denied', 'This request exists in test mode only; use a test key.'),
  rate_limit_exceeded: entry(429, 'rate_limit_exceeded', 'Too many requests. Retry after {seconds} s, with exponential backoff.'),
  plan_limit_exceeded: entry(403, 'plan_limit_exceeded', 'The plan {plan} includes {limit} live payments a month and they are used up.'),
  plan_required: entry(403, 'plan_limit_exceeded', 'Webhooks are part of the Professional and Enterprise plans.'),
  // Who signs in to the dashboard
  not_signed_in: entry(401, 'authentication_failed', 'Sign in to go on.'),
  sign_in_failed: entry(401, 'authentication_failed', 'That did not work. Check e-mail and password, or use another way to sign in.'),
  second_factor_invalid: entry(
    401,
    'authentication_failed',
    'That code is not valid. Codes change every 30 seconds; each backup code works once.',
  ),
  second_factor_locked: entry(429, 'rate_limit_exceeded', 'Too many wrong codes. Use a passkey or a backup code, or try again in {wait}.'),
  password_wrong: entry(403, 'permission_denied', 'That password is not right.'),
  action_not_permitted: entry(
    403,
    'permission_denied',
    'Your role, {role}, does not include this. Needed: {needed}. An owner of {merchant} can change that.',
  ),
  recent_authentication_required: entry(403, 'permission_denied', 'Confirm that it is you, then the act goes on.'),
  cross_site_request: entry(403, 'permission_denied', 'This request did not come from the dashboard.'),
  setup_link_invalid: entry(404, 'not_found', 'This set-up link was used already, or never existed.'),
  account_exists: entry(409, 'conflict', 'There is an account with this e-mail address. Sign in, then open the set-up link again.'),
  second_factor_required: entry(403, 'permission_denied', 'Set a second factor first, at Settings, Security.'),
  operator_only: entry(403, 'permission_denied', 'Only operators of this install reach this.'),
  role_out_of_reach: entry(403, 'permission_denied', 'Only owners make owners, or change and remove them.'),
  invite_invalid: entry(404, 'not_found', 'This invitation was used, taken back or has expired. Ask for a new one.'),
  invite_not_yours: entry(403, 'permission_denied', 'This invitation is for {email}. Sign in with that address to accept it.'),
  invite_needs_sign_in: entry(409, 'conflict', 'There is an account with this address. Sign in, then open the invitation again.'),
  member_exists: entry(409, 'conflict', '{email} is a member already.'),
  invite_limit_reached: entry(409, 'conflict', 'There are {limit} open invitations already; take some back first.'),
  last_owner: entry(409, 'conflict', 'This is the last owner. Make somebody else an owner first.'),
  member_not_found: entry(404, 'not_found', 'No such member: {id}.'),
  session_not_found: entry(404, 'not_found', 'No such sign-in: {id}.'),
  device_not_found: entry(404, 'not_found', 'No such trusted device: {id}.'),
  passkey_not_found: entry(404, 'not_found', 'No such passkey: {id}.'),
  passkey_refused: bad('That passkey cannot be used. Try again, or use another device.'),
  email_in_use: entry(409, 'conflict', 'Another account uses this e-mail address.'),
  email_link_invalid: entry(404, 'not_found', 'This link was used, replaced or has expired. Request a new one at Settings, Security.'),
  reset_link_invalid: entry(
    404,
    'not_found',
    'This link was already used, was replaced by a newer one, or has expired. Ask for a new one.',
  ),
  mail_not_set_up: entry(
    409,
    'conflict',
    'This Florin cannot send email, so it cannot confirm the new address. Ask the operator to change it: ./florin user email --email OLD --to NEW.',
  ),
  user_not_found: entry(404, 'not_found', 'No such user: {id}.'),
  second_factor_set: entry(409, 'conflict', 'A second factor is set already.'),
  // Idempotency
  idempotency_key_invalid: bad('Idempotency-Key must be 1 to 255 printable ASCII characters.'),
  idempotency_key_in_use: entry(409, 'conflict', 'A request with this Idempotency-Key is still running. Retry in a second.'),
  idempotency_mismatch: entry(422, 'idempotency_mismatch', 'This Idempotency-Key was used with a different request body.'),
  // Parameters
  parameter_unknown: bad('There is no parameter {param} here. {hint}'),
  parameter_missing: bad('{param} is required.'),
  parameter_invalid: bad('{param} is invalid: {reason}.'),
  amount_invalid: bad('Amount must be greater than 0'),
  amount_too_large: bad('{param} must be at most {maximum}.'),
  amount_precision: bad('{param} must have at most {decimals} decimals.'),
  amount_too_small: bad('{param} is below the smallest payable amount, {minimum}.'),
  url_invalid: bad('{param} must be an absolute {schemes} URL: {reason}.'),
  metadata_invalid: bad('{param} is invalid: {reason}.'),
  cursor_invalid: bad('{param} does not name a row of this account and mode.'),
  currency_unknown: bad('{param} must be one of BTC, ETH, LTC, DASH, DOGE.'),
  fiat_unsupported: bad(`{param} is not supported; use one of ${FIATS.join(', ')}.`),
  address_invalid: bad('{param} is not a valid {coin} address: {reason}.'),
  coin_not_configured: bad('No {coin} wallet is configured for this merchant, so live payments cannot use it yet.'),
  test_identifier_in_live: bad('payment_address takes test identifiers and works with test keys only.'),
  address_ends_differ: bad('{param} does not match: none of the five addresses shown ends with these characters.'),
  account_key_invalid: bad('The account key is not usable: {reason}.'),
  private_key_refused: bad(
    'This is a private key. Never give it to anybody. Paste the extended PUBLIC key of the account instead; what you sent was not stored.',
  ),
  // Objects and states
  payment_not_found: entry(404, 'not_found', 'No such payment: {id}.'),
  transaction_not_found: entry(404, 'not_found', 'No such transaction on the {coin} network: {id}.'),
  event_not_found: entry(404, 'not_found', 'No such event: {id}.'),
  endpoint_not_found: entry(404, 'not_found', 'No such webhook endpoint: {id}.'),
  delivery_not_found: entry(404, 'not_found', 'No such delivery: {id}.'),
  recovery_not_found: entry(404, 'not_found', 'No such recovery: {id}.'),
  merchant_not_found: entry(404, 'not_found', 'No such merchant: {id}.'),
  link_not_found: entry(404, 'not_found', 'No such payment link: {id}.'),
  wallet_not_found: entry(404, 'not_found', 'There is no {coin} wallet to do this with.'),
  key_not_found: entry(404, 'not_found', 'No such key: {id}.'),
  request_not_found: entry(404, 'not_found', 'No such request: {id}. The log goes back 30 days.'),
  key_ended: entry(409, 'conflict', 'The key {id} was revoked, has ended or was rolled already.'),
  key_limit_reached: entry(409, 'conflict', 'There are {limit} keys in {mode} mode already; revoke one first.'),
  payment_status_conflict: entry(409, 'conflict', 'The payment is {status}; {action} is not possible now.'),
  payment_needs_attention: entry(409, 'conflict', 'The payment {id} needs attention: decide over it first.'),
  nothing_received: entry(409, 'conflict', 'Nothing was received for this payment, so there is nothing to accept.'),
  scenario_started: entry(409, 'conflict', 'A test scenario has already started on this payment.'),
  coin_fixed: entry(409, 'conflict', 'Money has arrived in {coin}; the coin can no longer be changed.'),
  endpoint_limit_reached: entry(409, 'conflict', 'There are {limit} webhook endpoints in {mode} mode already; delete one first.'),
  endpoint_disabled: entry(409, 'conflict', 'The webhook endpoint {id} is disabled; enable it first.'),
  live_mode_only: entry(409, 'conflict', 'Test mode needs no wallet: a test payment never shows an address that takes real money.'),
  second_owner_required: entry(
    409,
    'conflict',
    'Neither whoever asked for a change can confirm it, nor who became an owner in the last 24 hours; it takes effect by itself when its time is over.',
  ),
  nothing_to_confirm: entry(409, 'conflict', 'Nothing waits to be confirmed.'),
  payment_not_repeatable: entry(409, 'conflict', 'The payment {id} cannot be started again.'),
  recovery_running: entry(409, 'conflict', 'A recovery of the webhook endpoint {id} is under way.'),
  // The world
  not_supported: entry(501, 'service_unavailable', 'No configured source can answer this for {coin}: {missing}.'),
  history_pruned: entry(501, 'service_unavailable', 'The {coin} node has pruned that part of the chain.'),
  chain_unavailable: entry(503, 'service_unavailable', 'The {coin} network cannot be reached right now: {reason}.'),
  price_unavailable: entry(503, 'service_unavailable', 'No trustworthy {coin} price is available right now: {reason}.'),
  database_unavailable: entry(
    503,
    'service_unavailable',
    'The service cannot reach its database right now. Nothing was changed unless a retry with the same Idempotency-Key says so.',
  ),
  overloaded: entry(503, 'service_unavailable', 'The service is busy. Retry in {seconds} s.'),
  server_error: entry(500, 'server_error', 'Something failed on our side. It has been logged under the request id.'),
} as const satisfies Record<string, Entry>;
export type ProblemCode = keyof typeof PROBLEMS;

export type ProblemDetails = Readonly<Record<string, string | number>>;

type ProblemOptions = { param?: string | null; retryAfterSeconds?: number; others?: readonly Problem[]; cause?: unknown };

/** A documented failure. Throw it anywhere in a use case; the HTTP layer turns it into the error body. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly status: number;
  readonly type: ProblemType;
  readonly param: string | null;
  /** For 429 and 503: seconds for Retry-After. */
  readonly retryAfterSeconds: number | null;
  /** Further problems of the same request. */
  readonly others: readonly Problem[];
  readonly #options: { details: ProblemDetails; options: ProblemOptions };

  constructor(code: ProblemCode, details: ProblemDetails = {}, options: ProblemOptions = {}) {
    const { status, type, message } = PROBLEMS[code];
    const filled = message.replace(/\{(\w+)\}/g, (_, name: string) =>
      String(details[name] ?? (name === 'param' ? (options.param ?? '') : `{${name}}`)),
    );
    super(filled, { cause: options.cause });
    this.name = 'Problem';
    this.code = code;
    this.status = status;
    this.type = type;
    this.param = options.param ?? null;
    this.retryAfterSeconds = options.retryAfterSeconds ?? null;
    this.others = options.others ?? [];
    this.#options = { details, options };
  }

  /** The same problem with others of the same request beside it. */
  with(others: readonly Problem[]): Problem {
    return new Problem(this.code, this.#options.details, { ...this.#options.options, others });
  }
}
