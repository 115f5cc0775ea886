/** TypeBox schemas: the one source of validation, types and the OpenAPI document. */
import Type, { type Static, type TSchema, type TSchemaOptions } from 'typebox';
import { Compile, type Validator } from 'typebox/schema';
import { COINS, MODES } from '../core/coin.ts';
import { PAYMENT_EVENTS, REVERSED_EVENT, TEST_EVENT, UPDATED_EVENT } from '../core/event.ts';
import { FIATS } from '../core/fiat.ts';
import { EXCEPTIONS, PAYMENT_STATUSES } from '../core/payment.ts';
import { PROBLEM_TYPES, Problem } from '../core/problem.ts';
import { SHOWN_TRANSFERS } from '../payments/view.ts';
import { DELIVERY_STATES, RECOVERY_STATUSES } from '../webhooks/deliveries.ts';
import { DISABLED_REASONS, LONGEST_OVERLAP_SECONDS } from '../webhooks/endpoints.ts';
import type { ParsedBody } from './json.ts';

const literals = <T extends readonly string[]>(values: T, options: TSchemaOptions = {}) =>
  Type.Union(
    values.map((value) => Type.Literal(value)),
    options,
  );
const Nullable = (schema: TSchema, options: TSchemaOptions = {}) => Type.Union([schema, Type.Null()], options);

/** A decimal as number or text; its bounds are checked on the source text. */
const Amount = (description: string) => Type.Union([Type.Number(), Type.String()], { description, examples: [25.5] });
const ReturnUrl = Type.String({
  minLength: 1,
  maxLength: 2048,
  description: 'Absolute https URL the payer returns to (http on loopback in test mode). transaction_id and status are appended.',
  examples: ['https://shop.example/thanks'],
});
const Metadata = Type.Record(Type.String(), Type.String({ maxLength: 500 }), {
  description: 'Up to 50 text pairs; secret keys only.',
  examples: [{ order: 'A-1001' }],
});
const Coin = literals(COINS, { description: 'Coin code.', examples: ['BTC'] });
const TestIdentifier = Type.String({
  maxLength: 40,
  description: 'Test identifier test_<coin>_<scenario>; test keys only.',
  examples: ['test_btc_success'],
});
const ExpiresIn = Type.Integer({ minimum: 600, maximum: 86_400, description: 'Length of the payment window in seconds; default 3600.' });
const Description = Type.String({ maxLength: 1000 });
const common = {
  description: Type.Optional(Description),
  metadata: Type.Optional(Metadata),
  expires_in: Type.Optional(ExpiresIn),
  payment_address: Type.Optional(TestIdentifier),
  invoice_id: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  locale: Type.Optional(Type.String({ maxLength: 12, description: 'Language of the payment page, such as pt-BR.' })),
};

export const CreateSimple = Type.Object({
  amount_usd: Amount('Amount in USD, at most two decimals, above 0 and up to 1000000.00.'),
  return_url: ReturnUrl,
  ...common,
});
export const Item = Type.Object(
  {
    product_id: Type.String({ minLength: 1, maxLength: 100 }),
    name: Type.String({ minLength: 1, maxLength: 250 }),
    quantity: Type.Integer({ minimum: 1, maximum: 1_000_000 }),
    unit_price: Amount('Price of one, in USD.'),
  },
  { examples: [{ product_id: 'mug', name: 'Mug', quantity: 2, unit_price: 12.5 }] },
);
export const CreateAdvanced = Type.Object({
  return_url: ReturnUrl,
  items: Type.Array(Item, { minItems: 1, maxItems: 100 }),
  tax: Amount('Tax in USD, 0 or more.'),
  ...common,
});
export const CreateLegacy = Type.Object({
  amount: Amount('Amount in the payment currency, fixed.'),
  currency: Type.Optional(Coin),
  redirect_url: Type.Optional(ReturnUrl),
  ...common,
});
export const CreateTransaction = Type.Object({
  crypto: Coin,
  amount: Amount('Amount in the fiat currency, with at most the decimals it has: two for EUR, none for JPY, three for KWD.'),
  currency_fiat: Type.String({
    minLength: 3,
    maxLength: 3,
    description: `ISO 4217 code, one of ${FIATS.join(', ')}. Anything but USD is turned into dollars at creation.`,
    examples: ['USD', 'EUR'],
  }),
  return_url: Type.Optional(ReturnUrl),
  ...common,
});
export const Resolve = Type.Object({
  action: literals(['accept', 'reject', 'refund_sent'] as const),
  transfers: Type.Optional(Type.Array(Type.String({ maxLength: 200 }), { minItems: 1, maxItems: 100 })),
});
export const UpdateMetadata = Type.Object({
  metadata: Type.Record(Type.String(), Type.Union([Type.String({ maxLength: 500 }), Type.Null()])),
});
export const Simulate = Type.Object({ scenario: Type.String({ maxLength: 40, examples: ['success'] }), currency: Type.Optional(Coin) });
export const AdvanceClock = Type.Object({
  seconds: Type.Integer({ minimum: 1, maximum: 7_776_000 }),
  payment_id: Type.Optional(Type.String({ maxLength: 60 })),
});
export const Empty = Type.Object({});

const EndpointUrl = Type.String({
  minLength: 1,
  maxLength: 2048,
  description: 'Public https URL. It must resolve when it is saved.',
  examples: ['https://shop.example/hook'],
});
const EndpointEvents = Type.Array(Type.String({ maxLength: 40 }), {
  minItems: 1,
  maxItems: 20,
  description: `Event types; * means the documented six, ${UPDATED_EVENT} comes only when named, ${REVERSED_EVENT} always.`,
  examples: [['*']],
});
const EndpointDescription = Type.Union([Type.String({ maxLength: 500 }), Type.Null()]);
const Enabled = Type.Boolean({ description: 'False: nothing is queued or sent.' });
export const CreateEndpoint = Type.Object({
  url: EndpointUrl,
  events: Type.Optional(EndpointEvents),
  description: Type.Optional(EndpointDescription),
  enabled: Type.Optional(Enabled),
});
export const UpdateEndpoint = Type.Object({
  url: Type.Optional(EndpointUrl),
  events: Type.Optional(EndpointEvents),
  description: Type.Optional(EndpointDescription),
  enabled: Type.Optional(Enabled),
});
export const RotateSecret = Type.Object({
  expires_in: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: LONGEST_OVERLAP_SECONDS,
      description: 'Seconds for which the old secret keeps signing too; default 86400, 0: it ends at once.',
    }),
  ),
});
export const Recover = Type.Object({
  since: Type.String({ maxLength: 40, description: 'Deliveries made at or after this time.', examples: ['2026-11-21T08:00:00.000Z'] }),
});

const Decimal = (example: string, description = 'Decimal text.') => Type.String({ description, examples: [example] });
const Timestamp = Type.String({ format: 'date-time', examples: ['2026-11-21T10:00:00.000Z'] });
const Status = literals(PAYMENT_STATUSES, { examples: ['pending'] });
const Exception = literals(EXCEPTIONS, { examples: ['underpaid'] });
const PaymentId = Type.String({ examples: ['pay_4fTq0ZcJb8sWn2LxR7vKd1Ye'] });
const Mode = literals(MODES, { examples: ['test'] });

const Limit = Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10, description: 'Rows of a page.', examples: [10] }));
const Cursor = (examples: string[]) =>
  Type.Optional(Type.String({ description: 'The id of the last row of the page before; the page begins behind it.', examples }));
export const ListQuery = Type.Object({
  limit: Limit,
  starting_after: Cursor(['pay_4fTq0ZcJb8sWn2LxR7vKd1Ye']),
  ending_before: Type.Optional(
    Type.String({
      description: 'The id of the first row of the page behind; the page ends before it. Not together with starting_after.',
      examples: ['pay_4fTq0ZcJb8sWn2LxR7vKd1Ye'],
    }),
  ),
  status: Type.Optional(Status),
  currency: Type.Optional(Coin),
  invoice_id: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'Your invoice id, exactly.', examples: ['A-1001'] })),
  metadata: Type.Optional(
    Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 500 }), {
      description: 'Written as metadata[key]=value, up to 10 times. Payments that have all of these pairs, exactly.',
      examples: [{ order: 'A-1001' }],
    }),
  ),
  amount: Type.Optional(Type.String({ description: 'The price in USD, exactly.', examples: ['25.50'] })),
  created_after: Type.Optional(
    Type.String({
      description: 'Created at or after this time: a date (its start in UTC), or a time with its offset from UTC.',
      examples: ['2026-11-21T00:00:00Z'],
    }),
  ),
  created_before: Type.Optional(
    Type.String({ description: 'Created before this time; written as created_after.', examples: ['2026-11-22'] }),
  ),
});
export const TransfersQuery = Type.Object({
  limit: Limit,
  starting_after: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'The ref of the last transfer of the page before; the page begins behind it.',
      examples: ['5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060:0'],
    }),
  ),
});
export const EventsQuery = Type.Object({
  limit: Limit,
  starting_after: Cursor(['evt_8sWn2LxR7vKd1Ye4fTq0ZcJb']),
  type: Type.Optional(literals(PAYMENT_EVENTS, { examples: ['payment.created'] })),
  payment_id: Type.Optional(
    Type.String({
      examples: ['pay_4fTq0ZcJb8sWn2LxR7vKd1Ye'],
      description:
        'The events of one payment, which stand here as soon as the payment shows what they tell. Those of all follow a moment later.',
    }),
  ),
});
const EndpointId = Type.String({ examples: ['we_2LxR7vKd1Ye4fTq0ZcJb8sWn'] });
const EventId = Type.String({ examples: ['evt_8sWn2LxR7vKd1Ye4fTq0ZcJb'] });
const DeliveryId = Type.String({ examples: ['del_0ZcJb8sWn2LxR7vKd1Ye4fTq'] });
const DeliveryState = literals(DELIVERY_STATES, { examples: ['failed'] });
export const DeliveriesQuery = Type.Object({
  limit: Limit,
  starting_after: Cursor(['del_0ZcJb8sWn2LxR7vKd1Ye4fTq']),
  endpoint_id: Type.Optional(EndpointId),
  event_id: Type.Optional(EventId),
  state: Type.Optional(DeliveryState),
});
const RequestId = Type.String({ examples: ['req_7vKd1Ye4fTq0ZcJb8sWn2LxR'] });
const KeyId = Type.String({ examples: ['key_1Ye4fTq0ZcJb8sWn2LxR7vKd'] });
export const RequestsQuery = Type.Object({
  limit: Limit,
  starting_after: Cursor(['req_7vKd1Ye4fTq0ZcJb8sWn2LxR']),
  outcome: Type.Optional(Type.Literal('failed', { description: 'Only those that were refused or failed.', examples: ['failed'] })),
  status: Type.Optional(Type.Integer({ minimum: 100, maximum: 599, description: 'The status of the answer.', examples: [400] })),
  path: Type.Optional(Type.String({ description: 'A part of the path.', examples: ['/api/payment/create'] })),
  key_id: Type.Optional(KeyId),
  request_id: Type.Optional(RequestId),
});
export const PricesQuery = Type.Object({
  currencies: Type.Optional(Type.String({ description: 'Comma-separated coin codes; all five when left out.', examples: ['BTC,LTC'] })),
});
export const BalanceQuery = Type.Object({ address: Type.String({ examples: ['test_btc_success'] }), currency: Coin });
export const CoinQuery = Type.Object({ currency: Coin });

const Warnings = Type.Optional(
  Type.Array(
    Type.Object({
      code: literals(['no_payable_currency'] as const, { examples: ['no_payable_currency'] }),
      message: Type.String({ description: 'What is wrong and where to fix it, for people.' }),
      doc_url: Type.String({ description: 'The guide to what is missing.' }),
    }),
    {
      description:
        'What you should know although the request succeeded. no_payable_currency: no customer could pay this payment now, because no currency has all of a wallet, a synced node and a price, or because the amount is too small. Absent when there is nothing to warn about; never present in test mode.',
    },
  ),
);
const CREATED = {
  success: Type.Boolean({ examples: [true] }),
  transaction_id: PaymentId,
  id: PaymentId,
  payment_url: Type.String({ examples: ['https://pay.example/pay?id=pay_4fTq0ZcJb8sWn2LxR7vKd1Ye'] }),
  amount_usd: Decimal('25.50'),
  items_count: Type.Optional(Type.Integer({ description: 'Of advanced payments only.' })),
  expires_at: Timestamp,
  status: Status,
  mode: Mode,
};
export const Created = Type.Object({ ...CREATED, warnings: Warnings });
export const TransactionCreated = Type.Object({
  ...CREATED,
  amount: Decimal('0.00026289'),
  currency: Coin,
  payment_address: Type.String(),
  amount_fiat: Decimal('25.50'),
  currency_fiat: Type.String({ examples: ['USD'] }),
  fiat_rate: Nullable(Decimal('0.92165000', 'Units of currency_fiat for one US dollar; null for USD.')),
  fiat_rate_source: Nullable(Type.String({ description: 'Who agreed on the rate.', examples: ['coinbase, kraken'] })),
  fiat_rate_at: Nullable(Timestamp),
  created_at: Timestamp,
  quote_expires_at: Timestamp,
});
export const LegacyCreated = Type.Object({
  id: PaymentId,
  transaction_id: PaymentId,
  status: Status,
  amount: Decimal('0.00026289'),
  currency: Coin,
  payment_address: Type.String(),
  payment_url: Type.String(),
  created_at: Timestamp,
  expires_at: Timestamp,
  mode: Mode,
});
const Transfer = Type.Object({
  ref: Type.String({
    description: 'Names the transfer in resolve. Outputs of one transaction to one payment are one transfer, named by the first of them.',
  }),
  transaction_hash: Nullable(Type.String()),
  currency: Coin,
  network: Type.String(),
  amount: Decimal('0.00026289'),
  amount_usd: Nullable(Decimal('25.50')),
  kind: Type.String(),
  first_seen_at: Timestamp,
  block_height: Nullable(Type.Integer()),
  block_hash: Nullable(Type.String()),
  replaced_by: Nullable(Type.String()),
});
export const Detail = Type.Object({
  id: PaymentId,
  transaction_id: PaymentId,
  status: Status,
  mode: Mode,
  amount: Nullable(Decimal('0.00026289'), { description: 'In the chosen coin; null before the choice.' }),
  amount_received: Decimal('0'),
  amount_remaining: Nullable(Decimal('0.00026289')),
  amount_overpaid: Decimal('0'),
  amount_dust: Decimal('0', 'Arrived in transfers that are too small to count, in the coin of the payment.'),
  accepted_short: Nullable(Decimal('0.00000210'), {
    description: 'What is missing although the payment counts as paid, within your tolerance or because you accepted it. Null: nothing.',
  }),
  accepted_short_usd: Nullable(Decimal('0.20'), { description: 'The same in USD.' }),
  amount_usd: Decimal('25.50'),
  amount_received_usd: Decimal('0.00'),
  currency: Nullable(Coin),
  description: Nullable(Type.String()),
  payment_address: Nullable(Type.String()),
  derivation_path: Nullable(Type.String(), {
    description: 'Of the address, below the account key of the wallet: whoever holds the key can check that the address is theirs.',
  }),
  payment_url: Type.String(),
  transaction_hash: Nullable(Type.String()),
  confirmations: Type.Integer({ examples: [0] }),
  confirmations_required: Nullable(Type.Integer(), { description: 'Null where a lock or a tag of the chain decides.' }),
  completion_rule: Nullable(Type.String()),
  exception: Nullable(Exception),
  exceptions: Type.Array(Exception),
  hold_reason: Nullable(Type.String()),
  invoice_id: Nullable(Type.String()),
  created_with: literals(['secret', 'public'] as const),
  created_at: Timestamp,
  completed_at: Nullable(Timestamp),
  expires_at: Timestamp,
  quote_expires_at: Nullable(Timestamp),
  return_url: Nullable(Type.String()),
  items: Type.Optional(
    Type.Array(Type.Object({ product_id: Type.String(), name: Type.String(), quantity: Type.Integer(), unit_price: Decimal('12.50') })),
  ),
  items_count: Type.Optional(Type.Integer()),
  tax: Type.Optional(Decimal('0.00')),
  amount_fiat: Type.Optional(Decimal('25.50', 'The price as asked, where that was in another currency than USD.')),
  currency_fiat: Type.Optional(Type.String({ examples: ['EUR'] })),
  fiat_rate: Type.Optional(Decimal('0.92165000', 'Units of currency_fiat for one US dollar, at creation.')),
  fiat_rate_source: Type.Optional(Type.String({ examples: ['coinbase, kraken'] })),
  fiat_rate_at: Type.Optional(Timestamp),
  transfers: Type.Array(Transfer, {
    description: `What arrived, in the order of first sight. Of more than ${SHOWN_TRANSFERS} the ones of the largest worth; /v1/payments/{id}/transfers lists all.`,
  }),
  transfers_count: Type.Integer({ description: 'Of all transfers, also those that are not shown here.', examples: [1] }),
  metadata: Type.Record(Type.String(), Type.String()),
});
export const TransferList = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  data: Type.Array(Transfer),
  has_more: Type.Boolean({ examples: [false] }),
});
export const List = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  data: Type.Array(
    Type.Object({
      transaction_id: PaymentId,
      id: PaymentId,
      status: Status,
      amount_usd: Decimal('25.50'),
      currency: Nullable(Coin),
      created_at: Timestamp,
      completed_at: Nullable(Timestamp),
      mode: Mode,
      exception: Nullable(Exception),
      invoice_id: Nullable(Type.String()),
      description: Nullable(Type.String()),
    }),
  ),
  has_more: Type.Boolean({ examples: [false] }),
  total_count: Type.Integer({
    examples: [1],
    description:
      'Of all payments that match, not of the page. Exact for status and currency; with any other filter it is counted up to 10,000.',
  }),
  total_count_capped: Type.Optional(
    Type.Boolean({ examples: [true], description: 'True when more payments match than total_count says; otherwise left out.' }),
  ),
});
export const PricesReply = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  timestamp: Timestamp,
  prices: Type.Record(
    Type.String(),
    Type.Object({
      usd: Type.Number({ examples: [97000] }),
      change_24h: Type.Number({ examples: [-1.25], description: 'Percent.' }),
      change_from: literals(['sources', 'history', 'none'] as const, {
        description: 'Whose figure change_24h is: of the price sources, of the history kept here, or of nobody (then it is 0).',
        examples: ['sources'],
      }),
      as_of: Timestamp,
      sources: Type.Array(Type.String()),
      stale: Type.Optional(Type.Boolean({ description: 'Older than 120 s.' })),
      sample: Type.Optional(Type.Boolean({ description: 'A round figure for test mode without a feed.' })),
    }),
  ),
});
export const BalanceReply = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  address: Type.String(),
  currency: Coin,
  balance: Decimal('0.50000000'),
  balance_usd: Decimal('48500.00'),
  unconfirmed_balance: Decimal('0.00000000'),
  total_received: Decimal('0.50000000'),
  total_sent: Decimal('0.00000000'),
  transaction_count: Type.Integer({ examples: [1] }),
  simulated: Type.Optional(Type.Boolean({ description: 'Of test mode.' })),
});
const FeeTotal = Type.Optional(Decimal('0.00001410', 'Fee of a typical payment; the field of the currency asked for.'));
const Fee = Type.Object({
  fee_per_byte: Type.Number({ examples: [12.5], description: 'In fee_unit.' }),
  estimated_confirmation: Type.String({ examples: ['10-20 minutes'] }),
  total_fee_btc: FeeTotal,
  total_fee_eth: FeeTotal,
  total_fee_ltc: FeeTotal,
  total_fee_dash: FeeTotal,
  total_fee_doge: FeeTotal,
  total_fee: Decimal('0.00001410'),
  total_fee_usd: Decimal('1.37'),
  source: Type.String(),
});
export const FeesReply = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  currency: Coin,
  timestamp: Timestamp,
  fee_unit: Type.String(),
  typical_size: Type.Integer(),
  fees: Type.Object({ fast: Fee, normal: Fee, slow: Fee }),
});
const Party = Type.Object({ address: Type.String(), amount: Decimal('0.50000000') });
export const TransactionReply = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  txid: Type.String(),
  currency: Coin,
  status: literals(['pending', 'confirmed', 'failed', 'replaced'] as const, { examples: ['confirmed'] }),
  confirmations: Type.Integer({ examples: [3] }),
  block_height: Nullable(Type.Integer()),
  block_hash: Nullable(Type.String()),
  timestamp: Nullable(Timestamp),
  amount: Decimal('0.50000000'),
  fee: Nullable(Decimal('0.00001000')),
  inputs: Nullable(Type.Array(Party), { description: 'Null where the node does not know what the transaction spends.' }),
  outputs: Type.Array(Party),
  simulated: Type.Optional(Type.Boolean({ description: 'Of test mode.' })),
});
export const EventReply = Type.Object({
  id: Type.String({ examples: ['evt_8sWn2LxR7vKd1Ye4fTq0ZcJb'] }),
  type: literals(PAYMENT_EVENTS, { examples: ['payment.completed'] }),
  created_at: Timestamp,
  mode: Mode,
  api_version: Type.String(),
  data: Type.Object({ ...Detail.properties, sequence: Type.Integer({ description: 'Counts the events of the payment from 1.' }) }),
});
export const EventList = Type.Object({ success: Type.Boolean(), data: Type.Array(EventReply), has_more: Type.Boolean() });
export const TestEventReply = Type.Object({
  id: EventId,
  type: Type.Literal(TEST_EVENT),
  created_at: Timestamp,
  mode: Mode,
  api_version: Type.String(),
  data: Type.Object({ endpoint_id: EndpointId }),
});
const endpointFields = {
  success: Type.Boolean({ examples: [true] }),
  id: EndpointId,
  url: Type.String(),
  events: Type.Array(Type.String()),
  description: Nullable(Type.String()),
  enabled: Type.Boolean(),
  disabled_reason: Nullable(literals(DISABLED_REASONS), {
    description: 'merchant: by you; failures: five days of nothing but failures; gone: it answered 410.',
  }),
  failing_since: Nullable(Timestamp, { description: 'Nothing was taken since.' }),
  previous_secret_expires_at: Nullable(Timestamp, { description: 'Until then the old secret keeps signing too.' }),
  mode: Mode,
  created_at: Timestamp,
};
export const EndpointReply = Type.Object(endpointFields);
export const EndpointWithSecret = Type.Object({
  ...endpointFields,
  secret: Type.String({ description: 'The signing secret; the dashboard shows it again.', examples: ['whsec_…'] }),
});
export const EndpointList = Type.Object({ success: Type.Boolean(), data: Type.Array(EndpointReply), has_more: Type.Boolean() });
export const EndpointDeleted = Type.Object({ success: Type.Boolean(), id: EndpointId, deleted: Type.Boolean() });
const deliveryFields = {
  id: DeliveryId,
  event_id: EventId,
  event_type: Type.String(),
  endpoint_id: EndpointId,
  payment_id: Nullable(PaymentId, { description: 'Null for a test event.' }),
  mode: Mode,
  state: DeliveryState,
  attempt_count: Type.Integer(),
  created_at: Timestamp,
  delivered_at: Nullable(Timestamp),
  next_attempt_at: Nullable(Timestamp),
};
export const DeliveryList = Type.Object({
  success: Type.Boolean(),
  data: Type.Array(Type.Object(deliveryFields)),
  has_more: Type.Boolean(),
});
export const DeliveryReply = Type.Object({
  success: Type.Boolean(),
  ...deliveryFields,
  request_body: Nullable(Type.String({ description: 'The exact text that every attempt carries.' })),
  attempts: Type.Array(
    Type.Object({
      number: Type.Integer(),
      at: Timestamp,
      duration_ms: Type.Integer(),
      url: Nullable(Type.String()),
      status: Nullable(Type.Integer(), { description: 'Null when no answer came.' }),
      failure: Nullable(Type.String(), {
        description:
          'Null: it was delivered. status_..., timeout, dns, connect, tls, reset, refused_address, invalid_url, internal, forgotten.',
      }),
      request_headers: Type.Record(Type.String(), Type.String()),
      response_body: Nullable(Type.String({ description: 'The first 4 kB.' })),
    }),
    { description: 'The last hundred, oldest first.' },
  ),
});
export const RecoveryReply = Type.Object({
  success: Type.Boolean(),
  id: Type.String({ examples: ['rec_1Ye4fTq0ZcJb8sWn2LxR7vKd'] }),
  endpoint_id: EndpointId,
  status: literals(RECOVERY_STATUSES, { examples: ['delivering'] }),
  since: Timestamp,
  created_at: Timestamp,
  total: Type.Integer({ description: 'Deliveries that had failed or waited for another attempt when it began.' }),
  queued: Type.Integer({ description: 'Of these, sent again so far.' }),
  delivered: Type.Integer({ description: 'Of these, delivered.' }),
  failed: Type.Integer({ description: 'Of these, failed again for good.' }),
});
export const RequestEntry = Type.Object({
  id: RequestId,
  mode: Mode,
  created_at: Timestamp,
  method: Type.String({ examples: ['POST'] }),
  path: Type.String({ examples: ['/api/payment/create/simple'] }),
  query: Nullable(Type.String()),
  status: Type.Integer({ examples: [400] }),
  error_code: Nullable(Type.String({ examples: ['amount_invalid'] })),
  key_id: KeyId,
  duration_ms: Type.Integer({ examples: [4] }),
  has_idempotency_key: Type.Boolean(),
  ip: Type.String({ examples: ['203.0.113.7'] }),
  request_body: Nullable(Type.String({ description: 'What was sent, without secrets; the first 2048 characters.' })),
  ignored_parameters: Type.Array(Type.String(), {
    description: 'Names of parameters that the request does not take and that were ignored; of many the first 20.',
  }),
  omitted: Type.Integer({ description: 'Further requests of the same key and second, which were counted and not kept.', examples: [0] }),
});
export const RequestList = Type.Object({ success: Type.Boolean(), data: Type.Array(RequestEntry), has_more: Type.Boolean() });
export const ClockReply = Type.Object({ success: Type.Boolean(), now: Timestamp, offset_seconds: Type.Integer() });
const Fault = {
  type: literals(PROBLEM_TYPES, { examples: ['invalid_request'] }),
  message: Type.String({ examples: ['Amount must be greater than 0'] }),
  param: Nullable(Type.String(), { examples: ['amount_usd'] }),
  code: Type.String({ examples: ['amount_invalid'] }),
};
export const ErrorReply = Type.Object({
  error: Type.Object({
    ...Fault,
    doc_url: Type.String(),
    request_id: Type.String(),
    errors: Type.Optional(Type.Array(Type.Object(Fault), { description: 'All faults of the request when there are several.' })),
  }),
});

export type Body<S extends TSchema> = Static<S>;
const validators = new WeakMap<TSchema, Validator>();

/** `/items/2/quantity` as `items[2].quantity`. */
const paramOf = (pointer: string): string =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`), '');

/** The body as the schema's type. Errors: parameter_missing, parameter_invalid with the path; all of them in `others`. */
export function checkBody<S extends TSchema>(schema: S, body: ParsedBody): Static<S> {
  let validator = validators.get(schema);
  if (!validator) {
    validator = Compile(schema);
    validators.set(schema, validator);
  }
  if (validator.Check(body.value)) return body.value as Static<S>;
  const seen = new Set<string>();
  const problems: Problem[] = [];
  const [, errors] = validator.Errors(body.value);
  for (const error of errors) {
    const at = paramOf(error.instancePath);
    if (error.keyword === 'required') {
      for (const name of error.params.requiredProperties as string[]) {
        const param = at === '' ? name : `${at}.${name}`;
        if (!seen.has(param)) problems.push(new Problem('parameter_missing', {}, { param }));
        seen.add(param);
      }
    } else if (error.keyword !== 'anyOf' && !seen.has(at)) {
      seen.add(at);
      problems.push(new Problem('parameter_invalid', { reason: error.message }, { param: at === '' ? null : at }));
    }
  }
  const order = (p: Problem) => (p.code === 'parameter_missing' ? 0 : 1);
  const [first, ...others] = problems.toSorted((a, b) => order(a) - order(b));
  throw first
    ? new Problem(first.code, { reason: reasonOf(first) }, { param: first.param, others })
    : new Problem('parameter_invalid', { reason: 'it is not of the documented form' });
}
const reasonOf = (problem: Problem): string => /is invalid: (.*)\.$/s.exec(problem.message)?.[1] ?? '';
