/** Examples for the API document and the page of errors: one body for each error. */
import { PROBLEMS, Problem, type ProblemCode } from '#core/problem';
import { CUSTOMER_ID, EXAMPLE_PAYMENT_ID, PAYOUT_ID, REFUND_ID } from './examples.ts';

/** Problems of operator commands, which API requests never return. */
const OFF_API: ReadonlySet<string> = new Set([
  'account_key_invalid',
  'private_key_refused',
  'merchant_not_found',
  'key_not_found',
] satisfies ProblemCode[]);
const SWEEP_ID = 'swp_Ye4fTq0ZcJb8sWn2LxR7vKd1';
const DETAILS: Readonly<Record<string, string | number>> = {
  limit: 100,
  reason: 'it must be a decimal such as 25.50',
  method: 'GET',
  path: '/api/nothing',
  allowed: 'POST',
  seconds: 12,
  plan: 'starter',
  maximum: '1000000.00',
  decimals: 2,
  minimum: '0.00005460 BTC (about 5.30 USD)',
  amount: '3.00 USD (0.00003093 BTC)',
  origin: 'https://other.example',
  ip: '203.0.113.7',
  wait: '15 minutes',
  role: 'viewer',
  permission: 'refunds',
  permissions: 'refunds, payouts',
  needed: 'owner, admin',
  merchant: 'Example Shop',
  email: 'ada@shop.example',
  hint: 'Did you mean amount_usd?',
  schemes: 'https',
  coin: 'BTC',
  id: EXAMPLE_PAYMENT_ID,
  mode: 'test',
  status: 'completed',
  action: 'canceling',
  available: '0.00026289 BTC',
  missing: 'no BTC node is configured (BTC_NODE_URL)',
};
/** Details of errors for which the usual ones would not fit. */
const OWN_DETAILS: Readonly<Partial<Record<ProblemCode, Readonly<Record<string, string | number>>>>> = {
  money_refunded: { refunded: '0.00010309 BTC' },
  sweep_fee_low: { id: SWEEP_ID, paid: '12.5 gwei', needed: '14.1 gwei' },
  invoice_amount_wrong: { amount: '0.00005000', sat: '5000' },
  preimage_wrong: { id: REFUND_ID },
  refund_open: { id: REFUND_ID, state: 'approved' },
  shop_mismatch: { id: EXAMPLE_PAYMENT_ID, shop: 'https://shop.example' },
  payment_replaced: { id: EXAMPLE_PAYMENT_ID, by: 'pay_Ye4fTq0ZcJb8sWn2LxR7vKd1' },
  refund_not_found: { id: REFUND_ID },
  refund_state: { id: REFUND_ID, state: 'confirmed', action: 'canceled' },
  refund_payment_pending: { id: EXAMPLE_PAYMENT_ID, status: 'processing' },
  refund_in_file: { id: REFUND_ID, file: SWEEP_ID },
  refund_file_empty: { reason: 'none is approved' },
  refund_address_missing: { id: REFUND_ID },
  customer_not_found: { id: CUSTOMER_ID },
  payout_not_found: { id: PAYOUT_ID },
  payout_batch_not_found: { id: 'bat_1Ye4fTq0ZcJb8sWn2LxR7vKd' },
  payout_exists: { id: PAYOUT_ID, reference: 'salary-2026-11-ada' },
  payout_state: { id: PAYOUT_ID, state: 'confirmed', action: 'canceled' },
  payout_in_file: { id: PAYOUT_ID, file: SWEEP_ID },
  payout_file_empty: { reason: 'none is approved' },
  payout_import_invalid: { reason: 'Line 3: it must be an amount such as 0.01 (amount).' },
  role_too_new: { limit: '$500.00', from: '2026-11-28 10:02 UTC' },
  second_member_required: { limit: '$500.00' },
  sweep_not_found: { id: SWEEP_ID },
  sweep_state: { id: SWEEP_ID, state: 'confirmed' },
  sweep_destination_code: { address: '0x52908400098527886E0F7030069857D2E4169EE7', other: 'Ethereum', chain: 'Base' },
  sweep_destination_frozen: { coin: 'USDC on Base', address: '0x52908400098527886E0F7030069857D2E4169EE7' },
  sweep_gas_missing: { address: '0x52908400098527886E0F7030069857D2E4169EE7', needed: '0.004', held: '0.001', coin: 'ETH' },
};
const PARAMS: Readonly<Partial<Record<ProblemCode, string>>> = {
  parameter_unknown: 'amountUsd',
  preimage_wrong: 'preimage',
  parameter_missing: 'return_url',
  parameter_invalid: 'items[2].quantity',
  amount_invalid: 'amount_usd',
  amount_too_large: 'amount_usd',
  amount_precision: 'amount_usd',
  amount_too_small: 'currency',
  url_invalid: 'return_url',
  metadata_invalid: 'metadata',
  cursor_invalid: 'starting_after',
  currency_unknown: 'currency',
  fiat_unsupported: 'currency_fiat',
  address_invalid: 'address',
  coin_not_configured: 'currency',
  test_identifier_in_live: 'payment_address',
  transaction_not_found: 'txid',
  not_supported: 'currency',
  history_pruned: 'txid',
  price_unavailable: 'currency',
};
/** Reasons for cases where the usual one would not fit. */
const REASONS: Readonly<Partial<Record<ProblemCode, string>>> = {
  request_unreadable: 'its headers are too large',
  invalid_json: 'a comma or } is missing at character 42',
  parameter_invalid: 'it must be a whole number from 1 to 1000000',
  url_invalid: 'its host does not resolve',
  metadata_invalid: 'it has more than 50 keys',
  address_invalid: 'its checksum is wrong',
  account_key_invalid: 'its prefix is unknown',
  chain_unavailable: 'the node does not answer',
  price_unavailable: 'the price sources do not agree',
};
/** The body of an error with this code. */
export function errorExample(code: ProblemCode, url: string): { error: object } {
  const details = { ...DETAILS, reason: REASONS[code] ?? DETAILS.reason!, ...OWN_DETAILS[code] };
  const { type, message, param } = new Problem(code, details, { param: PARAMS[code] ?? null });
  return { error: { type, message, param, code, doc_url: `${url}/docs/errors#${code}`, request_id: 'req_Yt3mB8qKx0ZsVn5LrW2dFh7c' } };
}
/** The error bodies with this `status`, by code. */
export function errorExamples(status: number, url: string): Record<string, { value: object }> {
  return Object.fromEntries(
    (Object.keys(PROBLEMS) as ProblemCode[])
      .filter((code) => PROBLEMS[code].status === status && !OFF_API.has(code))
      .map((code) => [code, { value: errorExample(code, url) }]),
  );
}
