/** The field types of API objects. Each field documents its meaning, its unit, and when it is null. */
import Type, { type TSchema, type TSchemaOptions, type TUnsafe } from 'typebox';
import { ALL_ASSETS, ASSETS, CHAINS, COMPLETION_RULES, MODES } from '#core/coin';
import { ENDPOINT_EVENTS, PAYMENT_EVENTS } from '#core/event';
import { FIATS, type Fiat } from '#core/fiat';
import { EXCEPTIONS, PAYMENT_STATUSES, VERIFIERS } from '#core/payment';
import { PROBLEM_TYPES } from '#core/problem';
import { REFUND_RATES, REFUND_STATES } from '#core/refund';
import { SCENARIOS } from '#core/simulated';
import { DELIVERY_STATES, RECOVERY_STATUSES } from '#deliveries';
import { LINK_STATES } from '#payments';
import { DISABLED_REASONS } from '#webhooks';

/** One of these values. The cast gives the schema the type of the values, which a union of a list loses. */
export const literals = <T extends readonly string[]>(values: T, options: TSchemaOptions = {}) =>
  Type.Union(
    values.map((value) => Type.Literal(value)),
    options,
  ) as unknown as TUnsafe<T[number]>;
export const OrNull = <S extends TSchema>(schema: S, description: string) => Type.Union([schema, Type.Null()], { description });

const CREATED_WITH = ['secret', 'public'] as const;
const RESOLVE_ACTIONS = ['accept', 'reject', 'refund_sent'] as const;
const CHANGE_FROM = ['sources', 'history', 'none'] as const;
const TRANSACTION_STATUSES = ['pending', 'confirmed', 'failed', 'replaced'] as const;

/** Sets of values, by their name in the API document and in generated clients. */
export const UNIONS = {
  Coin: ASSETS,
  ArrivedCoin: ALL_ASSETS,
  PaymentNetwork: CHAINS,
  Mode: MODES,
  FiatCurrency: FIATS,
  PaymentStatus: PAYMENT_STATUSES,
  PaymentException: EXCEPTIONS,
  PaymentEventType: PAYMENT_EVENTS,
  EndpointEventType: ENDPOINT_EVENTS,
  Scenario: SCENARIOS,
  CompletionRule: COMPLETION_RULES,
  Verifier: VERIFIERS,
  KeyKind: CREATED_WITH,
  ResolveAction: RESOLVE_ACTIONS,
  PriceChangeOrigin: CHANGE_FROM,
  TransactionStatus: TRANSACTION_STATUSES,
  DeliveryState: DELIVERY_STATES,
  RecoveryStatus: RECOVERY_STATUSES,
  DisabledReason: DISABLED_REASONS,
  RefundStatus: REFUND_STATES,
  RefundRate: REFUND_RATES,
  LinkState: LINK_STATES,
  ErrorType: PROBLEM_TYPES,
} as const satisfies Readonly<Record<string, readonly string[]>>;
type UnionName = keyof typeof UNIONS;

/** One of a named set of values. */
export const OneOf = <N extends UnionName>(
  name: N,
  description: string,
  example: (typeof UNIONS)[N][number],
  options: TSchemaOptions = {},
) => literals(UNIONS[name] as (typeof UNIONS)[N], { description, examples: [example], ...options });

export const Text = (description: string, example?: string, options: TSchemaOptions = {}) =>
  Type.String({ description, ...(example !== undefined && { examples: [example] }), ...options });
export const CountField = (description: string, example?: number, options: TSchemaOptions = {}) =>
  Type.Integer({ description, ...(example !== undefined && { examples: [example] }), ...options });
export const Flag = (description: string, example?: boolean) =>
  Type.Boolean({ description, ...(example !== undefined && { examples: [example] }) });
export const Decimal = (description: string, example: string) => Type.String({ description, examples: [example] });
export const Time = (description: string, example = '2026-11-21T10:00:00.000Z') =>
  Type.String({ format: 'date-time', description, examples: [example] });
/** A decimal as a number or a string; its bounds are checked on the source text. */
export const Amount = (description: string, example: number | string = 25.5) =>
  Type.Union([Type.Number(), Type.String()], { description, examples: [example] });

/** Codes in any case. */
const ANY_CASE = { 'x-case': 'upper' };
export const CoinField = (description: string) => OneOf('Coin', description, 'BTC', { 'x-problem': 'currency_unknown', ...ANY_CASE });
/** What arrived, which can also be a coin that cannot be requested. */
export const ArrivedCoinField = (description: string) => OneOf('ArrivedCoin', description, 'BTC', ANY_CASE);
export const FiatCode = (description: string, example: Fiat = 'USD') =>
  OneOf('FiatCurrency', description, example, { 'x-problem': 'fiat_unsupported', ...ANY_CASE });
export const NetworkId = (description: string) => OneOf('PaymentNetwork', description, 'bitcoin', { 'x-case': 'lower' });
/** Which network of a coin is meant. */
export const WhichNetwork = (otherwise: string) => Type.Optional(NetworkId(`Network that the coin is on. ${otherwise}`));
export const OnlyNetwork = 'Needed only for coins that are on several networks; must be a network of the coin.';
export const Success = Flag('Always true: failed requests return an error object instead.', true);
export const ModeField = OneOf('Mode', 'Whether this belongs to live mode or to test mode, as the API key did.', 'test');
export const HasMore = Flag('Whether there are more rows after this page. Pass the last row as `starting_after` to get them.', false);
export const PaymentId = (description: string) => Text(description, 'pay_4fTq0ZcJb8sWn2LxR7vKd1Ye');
export const RefundId = (description: string) => Text(description, 'ref_Ye4fTq0ZcJb8sWn2LxR7vKd1');
export const PayoutId = (description: string) => Text(description, 'po_Ye4fTq0ZcJb8sWn2LxR7vKd1');
export const EndpointId = (description: string) => Text(description, 'we_2LxR7vKd1Ye4fTq0ZcJb8sWn');
export const EventId = (description: string) => Text(description, 'evt_8sWn2LxR7vKd1Ye4fTq0ZcJb');
export const DeliveryId = (description: string) => Text(description, 'del_0ZcJb8sWn2LxR7vKd1Ye4fTq');
export const RequestId = (description: string) => Text(description, 'req_7vKd1Ye4fTq0ZcJb8sWn2LxR');
export const KeyId = (description: string) => Text(description, 'key_1Ye4fTq0ZcJb8sWn2LxR7vKd');

export const Limit = Type.Optional(
  CountField('How many rows to return, from 1 to 100.', 10, { minimum: 1, maximum: 100, default: 10 } as TSchemaOptions),
);
export const StartingAfter = (example: string) =>
  Type.Optional(Text('A cursor: the `id` of the last row of the previous page. The page starts after it.', example));
/** Which objects a reply contains beside their IDs. */
export const Expand = <const N extends string>(name: N, what: string) =>
  Type.Optional(
    Type.Array(literals([name]), {
      description: `\`${name}\`: ${what}. Written as \`expand=${name}\` or \`expand[]=${name}\`.`,
      examples: [[name]],
    }),
  );
/** Which shop asks for it. */
export const StatedShop = Type.Optional(
  Text(
    'The shop that you act for: the request is refused unless the payment has exactly this text under `shop` in its metadata. A copy of the shop that has its keys then changes nothing.',
    'https://shop.example',
    { minLength: 1, maxLength: 500 },
  ),
);
