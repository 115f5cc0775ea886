/** TypeBox schemas: the one source of validation, types and the OpenAPI document. */
import Type, { type Static, type TSchema, type TSchemaOptions } from 'typebox';
import { Compile } from 'typebox/compile';
import { COINS } from '../core/coin.ts';
import { PAYMENT_STATUSES } from '../core/payment.ts';
import { PROBLEM_TYPES, Problem } from '../core/problem.ts';
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
  locale: Type.Optional(Type.String({ maxLength: 12 })),
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
  amount: Amount('Amount in the fiat currency.'),
  currency_fiat: Type.String({ minLength: 3, maxLength: 3, examples: ['USD'] }),
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

const Decimal = (example: string, description = 'Decimal text.') => Type.String({ description, examples: [example] });
const Timestamp = Type.String({ format: 'date-time', examples: ['2026-11-21T10:00:00.000Z'] });
const Status = literals(PAYMENT_STATUSES, { examples: ['pending'] });
const PaymentId = Type.String({ examples: ['pay_4fTq0ZcJb8sWn2LxR7vKd1Ye'] });

export const Created = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  transaction_id: PaymentId,
  id: PaymentId,
  payment_url: Type.String({ examples: ['https://pay.example/pay?id=pay_4fTq0ZcJb8sWn2LxR7vKd1Ye'] }),
  amount_usd: Decimal('25.50'),
  items_count: Type.Optional(Type.Integer()),
  expires_at: Timestamp,
  status: Status,
  mode: literals(['live', 'test'] as const),
});
export const LegacyCreated = Type.Object({
  id: PaymentId,
  status: Status,
  amount: Decimal('0.00026288'),
  currency: Coin,
  payment_address: Type.String(),
  payment_url: Type.String(),
  created_at: Timestamp,
  expires_at: Timestamp,
});
export const Detail = Type.Object({
  id: PaymentId,
  status: Status,
  amount: Nullable(Decimal('0.00026288')),
  amount_received: Decimal('0'),
  currency: Nullable(Coin),
  description: Nullable(Type.String()),
  payment_address: Nullable(Type.String()),
  transaction_hash: Nullable(Type.String()),
  confirmations: Type.Integer({ examples: [0] }),
  created_at: Timestamp,
  completed_at: Nullable(Timestamp),
  expires_at: Timestamp,
  metadata: Type.Record(Type.String(), Type.String()),
});
export const List = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  data: Type.Array(
    Type.Object({
      transaction_id: PaymentId,
      status: Status,
      amount_usd: Decimal('25.50'),
      currency: Nullable(Coin),
      created_at: Timestamp,
      completed_at: Nullable(Timestamp),
    }),
  ),
  has_more: Type.Boolean({ examples: [false] }),
  total_count: Type.Integer({ examples: [1] }),
});
export const PricesReply = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  timestamp: Timestamp,
  prices: Type.Record(
    Type.String(),
    Type.Object({ usd: Type.Number({ examples: [97000] }), change_24h: Type.Number({ examples: [-1.25], description: 'Percent.' }) }),
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
});
const Fee = Type.Object({
  fee_per_byte: Type.Number({ examples: [12.5] }),
  estimated_confirmation: Type.String({ examples: ['10-20 minutes'] }),
});
export const FeesReply = Type.Object({
  success: Type.Boolean({ examples: [true] }),
  currency: Coin,
  timestamp: Timestamp,
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
  inputs: Type.Array(Party),
  outputs: Type.Array(Party),
});
export const EventReply = Type.Object({
  id: Type.String({ examples: ['evt_8sWn2LxR7vKd1Ye4fTq0ZcJb'] }),
  type: Type.String({ examples: ['payment.completed'] }),
  created_at: Timestamp,
  data: Type.Object({}),
});
export const ErrorReply = Type.Object({
  error: Type.Object({
    type: literals(PROBLEM_TYPES, { examples: ['invalid_request'] }),
    message: Type.String({ examples: ['Amount must be greater than 0'] }),
    param: Nullable(Type.String(), { examples: ['amount_usd'] }),
    code: Type.String({ examples: ['amount_invalid'] }),
    doc_url: Type.String(),
    request_id: Type.String(),
  }),
});

export type Body<S extends TSchema> = Static<S>;
type Validator = {
  Check(value: unknown): boolean;
  Errors(value: unknown): { keyword: string; instancePath: string; params: Record<string, unknown>; message: string }[];
};
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
    validator = Compile(schema) as unknown as Validator;
    validators.set(schema, validator);
  }
  if (validator.Check(body.value)) return body.value as Static<S>;
  const seen = new Set<string>();
  const problems: Problem[] = [];
  for (const error of validator.Errors(body.value)) {
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
