/** The names of the schemas in the API document and in generated clients. None is the name of a global, such as Error or Event. */
import type { TSchema } from 'typebox';
import * as payments from './schema.ts';
import * as errors from './schema-errors.ts';
import * as lookups from './schema-lookups.ts';
import * as webhooks from './schema-webhooks.ts';

/** In the order in which they are listed. */
export const SCHEMAS: Readonly<Record<string, TSchema>> = {
  Payment: payments.Detail,
  PaymentList: payments.List,
  PaymentListItem: payments.ListItem,
  PaymentItem: payments.PaidItem,
  Transfer: payments.Transfer,
  TransferList: payments.TransferList,
  CreatedPayment: payments.Created,
  PaymentWarning: payments.Warning,
  CreatedTransaction: payments.TransactionCreated,
  CreatedLegacyPayment: payments.LegacyCreated,
  CreateSimpleParams: payments.CreateSimple,
  CreateAdvancedParams: payments.CreateAdvanced,
  ItemParams: payments.Item,
  CreateLegacyParams: payments.CreateLegacy,
  CreateTransactionParams: payments.CreateTransaction,
  ResolveParams: payments.Resolve,
  UpdateMetadataParams: payments.UpdateMetadata,
  SimulateParams: payments.Simulate,
  AdvanceClockParams: payments.AdvanceClock,
  EmptyParams: payments.Empty,
  TestClock: payments.ClockReply,
  Prices: lookups.PricesReply,
  Price: lookups.Price,
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
  WebhookEndpointList: webhooks.EndpointList,
  DeletedWebhookEndpoint: webhooks.EndpointDeleted,
  CreateWebhookEndpointParams: webhooks.CreateEndpoint,
  UpdateWebhookEndpointParams: webhooks.UpdateEndpoint,
  RotateSecretParams: webhooks.RotateSecret,
  RecoverParams: webhooks.Recover,
  WebhookDelivery: webhooks.DeliveryReply,
  WebhookDeliveryList: webhooks.DeliveryList,
  WebhookDeliveryItem: webhooks.DeliveryItem,
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
  ListTransfersParams: payments.TransfersQuery,
  ListEventsParams: webhooks.EventsQuery,
  ListDeliveriesParams: webhooks.DeliveriesQuery,
  ListRequestsParams: errors.RequestsQuery,
  PricesParams: lookups.PricesQuery,
  BalanceParams: lookups.BalanceQuery,
  CoinParams: lookups.CoinQuery,
};
