/** The names of the schemas in the API document and in generated clients. None is the name of a global, such as Error or Event. */
import type { TSchema } from 'typebox';
import * as payments from './schema.ts';
import * as errors from './schema-errors.ts';
import * as lookups from './schema-lookups.ts';
import * as payouts from './schema-payouts.ts';
import * as refunds from './schema-refunds.ts';
import * as webhooks from './schema-webhooks.ts';

/** In the order in which they are listed. */
export const SCHEMAS: Readonly<Record<string, TSchema>> = {
  Payment: payments.DetailSchema,
  PaymentList: payments.List,
  PaymentListItem: payments.ListItemSchema,
  PaymentItem: payments.PaidItem,
  Transfer: payments.TransferSchema,
  TransferList: payments.TransferList,
  CreatedPayment: payments.Created,
  PaymentWarning: payments.WarningSchema,
  CreatedTransaction: payments.TransactionCreated,
  CreatedLegacyPayment: payments.LegacyCreated,
  CreateSimpleParams: payments.CreateSimple,
  CreateAdvancedParams: payments.CreateAdvanced,
  ItemParams: payments.ItemSchema,
  CreateLegacyParams: payments.CreateLegacy,
  CreateTransactionParams: payments.CreateTransaction,
  CancelParams: payments.Cancel,
  ResolveParams: payments.Resolve,
  UpdateMetadataParams: payments.UpdateMetadata,
  SimulateParams: payments.Simulate,
  AdvanceClockParams: payments.AdvanceClock,
  EmptyParams: payments.Empty,
  TestClock: payments.ClockReply,
  Refund: refunds.RefundReply,
  RefundItem: refunds.RefundItem,
  RefundList: refunds.RefundList,
  CreateRefundParams: refunds.CreateRefund,
  RefundEventData: webhooks.RefundEventData,
  Payout: payouts.PayoutReply,
  PayoutItem: payouts.PayoutItem,
  PayoutList: payouts.PayoutList,
  CreatePayoutParams: payouts.CreatePayout,
  PayoutEventData: webhooks.PayoutEventData,
  Prices: lookups.PricesReply,
  Price: lookups.PriceSchema,
  Balance: lookups.BalanceReply,
  Fees: lookups.FeesReply,
  FeeEstimate: lookups.FeeEstimate,
  OnChainTransaction: lookups.TransactionReply,
  TransactionParty: lookups.Party,
  WebhookEvent: webhooks.WebhookEvent,
  PaymentEvent: webhooks.EventReply,
  ...webhooks.EVENT_SCHEMAS,
  WebhookTestEvent: webhooks.TestEventReply,
  PaymentEventData: webhooks.EventData,
  EventList: webhooks.EventList,
  WebhookEndpoint: webhooks.EndpointReply,
  WebhookEndpointWithSecret: webhooks.EndpointWithSecret,
  CreatedWebhookEndpoint: webhooks.EndpointCreated,
  UpdatedWebhookEndpoint: webhooks.EndpointUpdated,
  EndpointConnection: webhooks.EndpointConnection,
  WebhookEndpointList: webhooks.EndpointList,
  DeletedWebhookEndpoint: webhooks.EndpointDeleted,
  CreateWebhookEndpointParams: webhooks.CreateEndpoint,
  UpdateWebhookEndpointParams: webhooks.UpdateEndpoint,
  RotateSecretParams: webhooks.RotateSecret,
  RecoverParams: webhooks.Recover,
  WebhookDelivery: webhooks.DeliveryReply,
  WebhookDeliveryList: webhooks.DeliveryList,
  WebhookDeliveryItem: webhooks.DeliveryItemSchema,
  DeliveryAttempt: webhooks.DeliveryAttempt,
  WebhookRecovery: webhooks.RecoveryReply,
  LoggedRequest: errors.RequestEntry,
  RequestList: errors.RequestList,
  ErrorBody: errors.ErrorReply,
  ErrorDetail: errors.ErrorDetail,
  ErrorItem: errors.ErrorItem,
};

/** Query parameters, which the document lists one by one and the SDK as types. */
export const QUERIES: Readonly<Record<string, TSchema>> = {
  ListPaymentsParams: payments.ListQuery,
  ListRefundsParams: refunds.RefundsQuery,
  ListPayoutsParams: payouts.PayoutsQuery,
  ListTransfersParams: payments.TransfersQuery,
  ListEventsParams: webhooks.EventsQuery,
  ListDeliveriesParams: webhooks.DeliveriesQuery,
  ListRequestsParams: errors.RequestsQuery,
  PricesParams: lookups.PricesQuery,
  BalanceParams: lookups.BalanceQuery,
  CoinParams: lookups.CoinQuery,
};

/** Whether a named schema is that of a body. */
export const isRequest = (name: string): boolean => name.endsWith('Params') && name in SCHEMAS;

type Shape = {
  type?: string;
  anyOf?: TSchema[];
  properties?: Record<string, TSchema>;
  required?: string[];
  patternProperties?: Record<string, TSchema>;
};
/** The schema of a body as callers may write it: null means that an optional field, or a key of a map, is absent. */
export function withNulls(schema: TSchema): TSchema {
  const { properties = {}, required = [] } = schema as Shape;
  const fields = Object.entries(properties).map(([name, field]) => [name, required.includes(name) ? field : orNull(mapWithNulls(field))]);
  return { ...schema, properties: Object.fromEntries(fields) };
}
function orNull(field: TSchema): TSchema {
  const { anyOf, ...rest } = field as Shape & { description?: string; examples?: unknown };
  const options = anyOf ?? [field];
  if (options.some((option) => (option as Shape).type === 'null')) return field;
  const { description, examples } = rest;
  // A named set of values stays one option.
  const isNamed = anyOf?.every((option) => 'const' in option) ?? true;
  return {
    description: `${description} Null means absent.`,
    ...(examples !== undefined && { examples }),
    anyOf: [...(isNamed ? [field] : options), { type: 'null' }],
  } as TSchema;
}
const mapWithNulls = (field: TSchema): TSchema => {
  const { patternProperties } = field as Shape;
  if (!patternProperties) return field;
  return {
    ...field,
    patternProperties: Object.fromEntries(Object.entries(patternProperties).map(([keys, value]) => [keys, orNull(value)])),
  } as TSchema;
};
