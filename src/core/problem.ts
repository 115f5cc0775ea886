/** The single catalog of errors: code -> status, type, message. `{name}` in a message is filled from the details. */
import { ASSETS, coinText, isKnownCoin } from './coin.ts';
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
type ProblemType = (typeof PROBLEM_TYPES)[number];
type Entry = { status: number; type: ProblemType; message: string };
const entry = (status: number, type: ProblemType, message: string): Entry => ({ status, type, message });
const bad = (message: string): Entry => entry(400, 'invalid_request', message);

/** The order is precedence: when several problems apply, the first one here is `error`, and `errors` lists all of them. */
export const PROBLEMS = {
  // Reading the request
  https_required: entry(
    403,
    'permission_denied',
    'This request used plain HTTP. Use https://. If the request carried an API key, revoke that key: it may have been read on the way.',
  ),
  request_unreadable: bad('The request cannot be read: {reason}.'),
  body_too_large: entry(
    413,
    'invalid_request',
    'The request body is larger than {limit} bytes. Send less, for example fewer items or shorter metadata.',
  ),
  unsupported_media_type: entry(
    415,
    'invalid_request',
    'Send the body as uncompressed JSON, with the header Content-Type: application/json.',
  ),
  invalid_json: bad('The request body is not valid JSON: {reason}.'),
  unknown_route: entry(404, 'not_found', 'There is no {method} {path}. Check the method and the path in the reference at /docs.'),
  method_not_allowed: entry(405, 'invalid_request', '{method} is not allowed for this path. Use {allowed}.'),
  // API keys and limits
  invalid_api_key: entry(
    401,
    'authentication_failed',
    'The API key is missing, wrong, expired or revoked. Send a valid one in the header Authorization: Bearer <API_KEY>, or the way curl -u <API_KEY>: sends it.',
  ),
  metrics_token_required: entry(
    401,
    'authentication_failed',
    'Metrics need the METRICS_TOKEN of this service, in the header Authorization: Bearer <METRICS_TOKEN>.',
  ),
  secret_key_required: entry(
    403,
    'permission_denied',
    'This request needs a secret key (sk_...), sent from your server. Public keys (pk_...) work only with POST /api/payment/create/simple and POST /api/payment/create/advanced.',
  ),
  key_read_only: entry(403, 'permission_denied', 'This API key is read-only. Use a key with full access.'),
  key_permission_missing: entry(
    403,
    'permission_denied',
    'This API key does not have the permission “{permission}”, which this request needs. Create a key with this permission in the dashboard, under API keys.',
  ),
  ip_not_allowed: entry(
    403,
    'permission_denied',
    'This API key cannot be used from {ip}. Add the address to the key in the dashboard, or send the request from an allowed one.',
  ),
  origin_not_allowed: entry(
    403,
    'permission_denied',
    'This public key cannot be used on pages of {origin}, because it is limited to other origins. Add this one where they are listed: in the checkout settings, or in a new key if the key has its own list.',
  ),
  secret_key_in_page: entry(
    403,
    'permission_denied',
    'This request came from a page of {origin}, with a secret key that everyone who opens the page can read. Use a public key (pk_...) there, and roll the secret key.',
  ),
  test_key_required: entry(403, 'permission_denied', 'This request is available in test mode only. Use a test key (sk_test_...).'),
  rate_limit_exceeded: entry(429, 'rate_limit_exceeded', 'Too many requests. Retry after {seconds} seconds, and use exponential backoff.'),
  public_key_limit_reached: entry(
    429,
    'rate_limit_exceeded',
    'With this public key, one client can create {limit} payments a minute. Retry after {seconds} seconds, or create payments on your server with a secret key, which has a higher limit.',
  ),
  plan_limit_exceeded: entry(
    403,
    'plan_limit_exceeded',
    'Your {plan} plan includes {limit} live payments a month, and they are used up. Upgrade the plan, or wait until next month.',
  ),
  plan_required: entry(
    403,
    'plan_limit_exceeded',
    'Your plan does not include webhooks. They are part of the Professional and Enterprise plans.',
  ),
  // Signing in to the dashboard
  not_signed_in: entry(401, 'authentication_failed', 'Sign in to continue.'),
  sign_in_failed: entry(401, 'authentication_failed', 'The email address or the password is wrong. Check both, or sign in another way.'),
  second_factor_invalid: entry(
    401,
    'authentication_failed',
    'This code is not valid. Codes change every 30 seconds, and each backup code works once.',
  ),
  second_factor_locked: entry(429, 'rate_limit_exceeded', 'Too many wrong codes. Use a passkey or a backup code, or try again in {wait}.'),
  password_wrong: entry(403, 'permission_denied', 'The password is wrong. Check it and try again.'),
  action_not_permitted: entry(
    403,
    'permission_denied',
    'Your role ({role}) cannot do this. It takes one of: {needed}. An owner of {merchant} can change your role.',
  ),
  key_out_of_reach: entry(
    403,
    'permission_denied',
    'Your role ({role}) cannot give a key these permissions: {permissions}. Ask an owner or admin to do this.',
  ),
  recent_authentication_required: entry(403, 'permission_denied', 'Confirm your identity to continue.'),
  cross_site_request: entry(403, 'permission_denied', 'This request did not come from the dashboard. Reload the dashboard and try again.'),
  setup_link_invalid: entry(
    404,
    'not_found',
    'This setup link is wrong, was already used or has expired. Ask your operator for a new one.',
  ),
  account_exists: entry(409, 'conflict', 'An account with this email address already exists. Sign in, then open the setup link again.'),
  second_factor_required: entry(403, 'permission_denied', 'Set up two-factor authentication first, under Security.'),
  operator_only: entry(403, 'permission_denied', 'Only operators of this install can do this.'),
  role_out_of_reach: entry(403, 'permission_denied', 'Only owners can add, change or remove owners and finance members.'),
  invite_invalid: entry(
    404,
    'not_found',
    'This invitation was already used, was revoked or has expired, or the member who sent it may no longer give this role. Ask for a new one.',
  ),
  invite_not_yours: entry(403, 'permission_denied', 'This invitation is for {email}. Sign in with that email address to accept it.'),
  invite_needs_sign_in: entry(
    409,
    'conflict',
    'An account with this email address already exists. Sign in, then open the invitation again.',
  ),
  member_exists: entry(409, 'conflict', '{email} is already a member of this team.'),
  invite_limit_reached: entry(409, 'conflict', 'There are already {limit} open invitations. Revoke some of them first.'),
  mail_limit_reached: entry(
    429,
    'rate_limit_exceeded',
    'There were too many emails of this kind, so that nobody’s mailbox is flooded. Nothing was changed. Try again in {wait}.',
  ),
  last_operator: entry(409, 'conflict', 'This is the only operator. Give someone else access to the operator area first.'),
  last_owner: entry(409, 'conflict', 'This is the only owner. Make someone else an owner first.'),
  member_not_found: entry(404, 'not_found', 'No such member: {id}.'),
  session_not_found: entry(404, 'not_found', 'No such session: {id}. It may have ended already.'),
  device_not_found: entry(404, 'not_found', 'No such trusted device: {id}. It may have been removed already.'),
  passkey_not_found: entry(404, 'not_found', 'No such passkey: {id}. It may have been removed already.'),
  passkey_refused: bad('This passkey cannot be used. Try again, or use another device.'),
  email_in_use: entry(409, 'conflict', 'Another account already uses this email address. Use a different one.'),
  email_link_invalid: entry(404, 'not_found', 'This link was already used, was replaced or has expired. Request a new one under Security.'),
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
  second_factor_set: entry(409, 'conflict', 'Two-factor authentication is already set up. Turn it off first to set it up again.'),
  // Idempotency
  idempotency_key_invalid: bad('The Idempotency-Key header must have 1 to 255 printable ASCII characters.'),
  idempotency_key_in_use: entry(409, 'conflict', 'Another request with this Idempotency-Key is still running. Retry in a second.'),
  idempotency_mismatch: entry(
    422,
    'idempotency_mismatch',
    'This Idempotency-Key was already used with a different body. Use a new key for a new request, and the same body for a retry.',
  ),
  // Parameters
  parameter_unknown: bad('There is no parameter {param} here. {hint}'),
  parameter_missing: bad('{param} is required.'),
  parameter_invalid: bad('{param} is invalid: {reason}.'),
  amount_invalid: bad('Amount must be greater than 0'),
  amount_too_large: bad('{param} must be at most {maximum}.'),
  amount_precision: bad('{param} must have at most {decimals} decimals.'),
  amount_too_small: bad('{amount} is below the smallest {coin} payment, {minimum}. Increase the amount, or choose another coin.'),
  url_invalid: bad('{param} must be an absolute {schemes} URL: {reason}.'),
  metadata_invalid: bad('{param} is invalid: {reason}.'),
  cursor_invalid: bad(
    '{param} is not the identifier of a row in this list. Use the last row of the previous page, with the same account and mode.',
  ),
  currency_unknown: bad(`{param} must be one of ${ASSETS.join(', ')}.`),
  fiat_unsupported: bad(`{param} is not supported, because no two price sources agree on its rate. Use one of ${FIATS.join(', ')}.`),
  address_invalid: bad('{param} is not a valid {coin} address: {reason}.'),
  invoice_invalid: bad('{param} is not a Lightning invoice that can be paid here: {reason}.'),
  invoice_amount_wrong: bad('The invoice must be for exactly {amount} BTC ({sat} satoshis). Make one with this amount.'),
  invoice_expires_soon: bad('The invoice must be valid for at least one more hour. Make one that is valid for longer, such as a day.'),
  invoice_used: bad('This invoice was used before. Make a new one.'),
  preimage_wrong: bad(
    '{param} is not the preimage of an invoice of the refund {id}. Copy all 64 characters from the payment in your wallet.',
  ),
  coin_not_configured: bad(
    'You cannot accept {coin} yet. Add its wallet and turn it on in the dashboard under Wallets, or choose another coin.',
  ),
  test_identifier_in_live: bad(
    'payment_address takes test identifiers, which work with test keys only. Remove it: the address of a live payment comes from your wallet.',
  ),
  address_ends_differ: bad(
    '{param} does not match the end of any of the five addresses shown. Compare them with your wallet again; if none matches, this is not its key.',
  ),
  account_key_invalid: bad('This account key cannot be used: {reason}.'),
  private_key_refused: bad(
    'This is a private key. Never share it with anyone. Paste the extended PUBLIC key of the account instead. What you sent was not stored.',
  ),
  // Objects and states
  payment_not_found: entry(404, 'not_found', 'No such payment: {id}. Check the ID, and that it was created in this account and mode.'),
  transaction_not_found: entry(404, 'not_found', 'No such transaction on the {coin} network: {id}.'),
  event_not_found: entry(404, 'not_found', 'No such event: {id}.'),
  endpoint_not_found: entry(404, 'not_found', 'No such webhook endpoint: {id}.'),
  delivery_not_found: entry(404, 'not_found', 'No such delivery: {id}. Deliveries are kept for 30 days.'),
  delivery_overtaken: entry(
    409,
    'conflict',
    'The shop has already received a later event of this payment, so {id} is not sent again. Send the current status instead.',
  ),
  recovery_not_found: entry(404, 'not_found', 'No such recovery: {id}.'),
  merchant_not_found: entry(404, 'not_found', 'No such merchant: {id}.'),
  link_not_found: entry(404, 'not_found', 'No such payment link: {id}.'),
  refund_not_found: entry(404, 'not_found', 'There is no refund {id}. Check the ID and the mode.'),
  customer_not_found: entry(404, 'not_found', 'There is no customer {id}. Check the ID and the mode.'),
  payout_not_found: entry(404, 'not_found', 'There is no payout {id}. Check the ID and the mode.'),
  payout_batch_not_found: entry(404, 'not_found', 'There is no payout batch {id}. Check the ID and the mode.'),
  sweep_not_found: entry(404, 'not_found', 'There is no sweep {id}. Check the ID and the mode.'),
  wallet_not_found: entry(404, 'not_found', 'There is no {coin} wallet. Add one first, under Wallets.'),
  key_not_found: entry(404, 'not_found', 'No such API key: {id}.'),
  request_not_found: entry(404, 'not_found', 'No such request: {id}. Requests are kept for 30 days.'),
  key_ended: entry(
    409,
    'conflict',
    'The API key {id} has been revoked, has expired or was already rolled. Use its replacement, or create a new key.',
  ),
  key_limit_reached: entry(409, 'conflict', 'There are already {limit} API keys in {mode} mode. Revoke one first.'),
  payment_status_conflict: entry(409, 'conflict', 'The payment is {status}, so {action} is no longer possible.'),
  payment_has_money: entry(
    409,
    'conflict',
    'Money arrived for the payment {id}, so it was not canceled. Retrieve the payment, and keep its order until you have decided about the money.',
  ),
  shop_mismatch: entry(409, 'conflict', 'The payment {id} was not created by the shop {shop}. Nothing was changed.'),
  payment_replaced: entry(409, 'conflict', 'The payment {id} was already replaced by {by}. Use that payment instead.'),
  payment_needs_attention: entry(409, 'conflict', 'The payment {id} needs a decision first: accept or reject the money that arrived.'),
  money_refunded: entry(409, 'conflict', 'Refunds returned {refunded} of this payment or are about to, so this money cannot be accepted.'),
  refund_open: entry(
    409,
    'conflict',
    'The refund {id} of this payment is {state} and returns this money. If you sent the money in another way, mark that refund as sent, or cancel it first.',
  ),
  worth_unknown: entry(409, 'conflict', 'There is no price for {coin}, so this money cannot count toward a payment.'),
  nothing_received: entry(409, 'conflict', 'Nothing was received for this payment, so there is nothing to decide.'),
  scenario_started: entry(
    409,
    'conflict',
    'A scenario has already been started on this payment. Create another test payment for another scenario.',
  ),
  coin_fixed: entry(409, 'conflict', 'Money has already arrived in {coin}, so the coin can no longer be changed.'),
  endpoint_limit_reached: entry(409, 'conflict', 'There are already {limit} webhook endpoints in {mode} mode. Delete one first.'),
  endpoint_disabled: entry(409, 'conflict', 'The webhook endpoint {id} is disabled. Enable it first.'),
  live_mode_only: entry(
    409,
    'conflict',
    'Test mode needs no wallet: test payments never show an address that can receive money. Switch to live mode.',
  ),
  second_owner_required: entry(
    409,
    'conflict',
    'You cannot confirm your own change, and owners of less than 24 hours cannot confirm one either. Ask another owner, or wait: the change takes effect at the end of its waiting period.',
  ),
  refund_exceeds: entry(
    409,
    'conflict',
    'At most {available} of this payment can be refunded now: what arrived, is confirmed, and is not part of another refund.',
  ),
  role_too_new: entry(
    409,
    'conflict',
    'Your role is less than 24 hours old. Your approvals of more than {limit} count from {from}. Until then, other members have to approve this.',
  ),
  second_member_required: entry(
    409,
    'conflict',
    'Another member has to approve this: one member alone can approve up to {limit} within 24 hours, and not more of their own requests.',
  ),
  refund_state: entry(409, 'conflict', 'The refund {id} is {state}, so it cannot be {action} now.'),
  refund_payment_pending: entry(
    409,
    'conflict',
    'The payment {id} is {status}: more money could complete it and count what you return. Wait until it is completed or has expired, or cancel it while it is pending.',
  ),
  refund_in_file: entry(
    409,
    'conflict',
    'The refund {id} is part of the signing file {file}, which sends it. Cancel that file first if it was not signed.',
  ),
  refund_file_empty: entry(409, 'conflict', 'There is no approved refund in {coin} to make a signing file for: {reason}.'),
  refund_invoice_expired: entry(
    409,
    'conflict',
    'The invoice of the refund {id} expired. The customer has to give a new one with the claim link.',
  ),
  refund_address_missing: entry(409, 'conflict', 'The refund {id} has no address yet. Send its claim link to the customer first.'),
  payout_reference_missing: bad(
    'Give the payout a payout_reference, or send an Idempotency-Key header, so that a request that you repeat does not pay twice.',
  ),
  payout_exists: entry(409, 'conflict', 'The payout {id} already has the reference "{reference}". Each payout needs its own.'),
  payout_state: entry(409, 'conflict', 'The payout {id} is {state}, so it cannot be {action} now.'),
  payout_in_file: entry(
    409,
    'conflict',
    'The payout {id} is part of the signing file {file}, which sends it. Cancel that file first if it was not signed.',
  ),
  payout_file_empty: entry(409, 'conflict', 'There is no approved payout in {coin} to make a signing file for: {reason}.'),
  payout_import_invalid: entry(400, 'invalid_request', 'Nothing was imported. {reason}'),
  sweep_destination_missing: entry(
    409,
    'conflict',
    'There is no confirmed {coin} destination address yet. Set one with ./florin sweep destination.',
  ),
  sweep_destination_code: entry(
    409,
    'conflict',
    'The destination address {address} is a contract on {other}, but not on {chain}, so nobody may be able to move what is sent there. Create the contract on {chain} too, or set another destination.',
  ),
  sweep_destination_frozen: entry(
    409,
    'conflict',
    'The issuer of {coin} froze the destination address {address}, so nothing can be sent there. Set another destination.',
  ),
  sweep_empty: entry(409, 'conflict', 'There is nothing to sweep in {coin} with these settings: {reason}.'),
  sweep_gas_missing: entry(
    409,
    'conflict',
    'The address {address} of the same wallet pays the network fee of this sweep. It needs {needed} {coin} and has {held}. Send it the rest and make the file again; what is left can be swept back.',
  ),
  sweep_busy: entry(
    409,
    'conflict',
    'Another signing file already spends a part of this money. Send or cancel that file first, then make a new one.',
  ),
  sweep_state: entry(409, 'conflict', 'This cannot be done with the sweep {id}, because it is {state}.'),
  sweep_fee_low: entry(
    409,
    'conflict',
    'The file {id} pays up to {paid} per gas, and the network takes {needed} now, so it would be refused. Raise its fee, or if it was not signed, cancel it and make it again.',
  ),
  signed_file_refused: entry(422, 'invalid_request', 'The signed file was refused and nothing was sent: it {reason}.'),
  signed_file_private: entry(
    422,
    'invalid_request',
    'The file contains a private key or a seed phrase. It was discarded and not stored. Move the money to a new wallet if anybody else could have read it, and upload only the signed file.',
  ),
  nothing_to_confirm: entry(409, 'conflict', 'There is no change waiting to be confirmed.'),
  payment_not_repeatable: entry(409, 'conflict', 'The payment {id} cannot be started again. Create a new payment instead.'),
  recovery_running: entry(409, 'conflict', 'A recovery of the webhook endpoint {id} is already running. Wait until it is done.'),
  // Networks, prices and the service itself
  not_supported: entry(501, 'service_unavailable', 'No configured source can answer this for {coin}: {missing}.'),
  history_pruned: entry(501, 'service_unavailable', 'The {coin} source has pruned this part of the chain. Use a node that keeps it.'),
  chain_unavailable: entry(503, 'service_unavailable', 'The {coin} network cannot be reached right now: {reason}. {advice}'),
  price_unavailable: entry(503, 'service_unavailable', 'There is no reliable {coin} price right now: {reason}. {advice}'),
  database_unavailable: entry(
    503,
    'service_unavailable',
    'The service cannot reach its database right now. Retry with the same Idempotency-Key: it is safe, and tells you whether the first attempt succeeded.',
  ),
  overloaded: entry(503, 'service_unavailable', 'The service is busy. Retry in {seconds} seconds.'),
  server_error: entry(
    500,
    'server_error',
    'Something went wrong on our side. Retry, and if it happens again, send the request ID to your operator.',
  ),
} as const satisfies Record<string, Entry>;
export type ProblemCode = keyof typeof PROBLEMS;

export type ProblemDetails = Readonly<Record<string, string | number>>;

type ProblemOptions = { param?: string | null; retryAfterSeconds?: number; others?: readonly Problem[]; cause?: unknown };

/** Coins are named as people read them: "USDC on Base". */
const shown = (value: unknown): string => (isKnownCoin(value) ? coinText(value) : String(value));

/** What to do, unless the details say that this never helps. */
const ADVICE = 'Retry later.';
/** What helps where nothing is connected. */
export const CONNECT_FIRST = 'Retrying does not help: the operator has to set a source first.';

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
      shown(details[name] ?? (name === 'param' ? (options.param ?? '') : name === 'advice' ? ADVICE : `{${name}}`)),
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

  /** The same problem with others of the same request beside it, or about another parameter. */
  with(change: { others?: readonly Problem[]; param?: string }): Problem {
    return new Problem(this.code, this.#options.details, { ...this.#options.options, ...change });
  }
}
