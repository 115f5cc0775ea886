/** All routes on one screen: method, path, who may call, handler, schemas. */
import type { TObject, TSchema } from 'typebox';
import type { Context } from '../context.ts';
import type { KeyOwner } from '../merchants/keys.ts';
import type { IdempotencyClaim } from '../payments/view.ts';
import { readBalance, readFees, readPrices, readTransaction } from './crypto.ts';
import type { Access } from './gate.ts';
import type { ParsedBody } from './json.ts';
import { createAdvanced, createLegacy, createSimple, readPayment, readPayments } from './payments.ts';
import type { Query } from './read.ts';
import * as schema from './schema.ts';
import {
  advance,
  cancel,
  createTransaction,
  readEvent,
  readEvents,
  readRequests,
  readTransfers,
  resolve,
  simulate,
  updatePayment,
} from './v1.ts';
import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  readWebhookDeliveries,
  readWebhookDelivery,
  readWebhookEndpoint,
  readWebhookEndpoints,
  readWebhookRecovery,
  recoverWebhookEndpoint,
  resendWebhookDelivery,
  rotateWebhookSecret,
  testWebhookEndpoint,
  updateWebhookEndpoint,
} from './webhooks.ts';

export type Call = {
  ctx: Context;
  owner: KeyOwner;
  params: Readonly<Record<string, string>>;
  query: Query;
  body: ParsedBody;
  claim: IdempotencyClaim | null;
};
export type Answer = { status: number; body: string | Uint8Array; replayed?: boolean };
export type Route = {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  access: Access;
  handle: (call: Call) => Promise<Answer>;
  summary: string;
  query?: TObject;
  body?: TSchema;
  reply: TSchema;
  created?: true;
  /** False: what succeeds is left out of the log of requests. */
  isLogged?: false;
};

const C = schema;
/** Every contract path answers under /v1 too; an alias is the same route for limits and idempotency. */
export const ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/payments',
    access: 'secret',
    handle: createLegacy,
    summary: 'Create a payment of a fixed coin amount',
    body: C.CreateLegacy,
    reply: C.LegacyCreated,
    created: true,
  },
  {
    method: 'POST',
    path: '/api/payment/create/simple',
    access: 'any',
    handle: createSimple,
    summary: 'Create a payment',
    body: C.CreateSimple,
    reply: C.Created,
    created: true,
  },
  {
    method: 'POST',
    path: '/api/payment/create/advanced',
    access: 'any',
    handle: createAdvanced,
    summary: 'Create a payment with items and tax',
    body: C.CreateAdvanced,
    reply: C.Created,
    created: true,
  },
  { method: 'GET', path: '/api/payment/:id', access: 'secret', handle: readPayment, summary: 'Retrieve a payment', reply: C.Detail },
  {
    method: 'GET',
    path: '/api/payments',
    access: 'secret',
    handle: readPayments,
    summary: 'List payments, newest first',
    query: C.ListQuery,
    reply: C.List,
  },
  {
    method: 'GET',
    path: '/api/crypto/prices',
    access: 'secret',
    handle: readPrices,
    summary: 'Current USD prices',
    query: C.PricesQuery,
    reply: C.PricesReply,
  },
  {
    method: 'GET',
    path: '/api/crypto/balance',
    access: 'secret',
    handle: readBalance,
    summary: 'Balance of any address',
    query: C.BalanceQuery,
    reply: C.BalanceReply,
  },
  {
    method: 'GET',
    path: '/api/crypto/fees',
    access: 'secret',
    handle: readFees,
    summary: 'Network fee estimates',
    query: C.CoinQuery,
    reply: C.FeesReply,
  },
  {
    method: 'GET',
    path: '/api/crypto/transaction/:txid',
    access: 'secret',
    handle: readTransaction,
    summary: 'An on-chain transaction',
    query: C.CoinQuery,
    reply: C.TransactionReply,
  },
  {
    method: 'POST',
    path: '/v1/transactions/create',
    access: 'secret',
    handle: createTransaction,
    summary: 'Create a payment in a named coin',
    body: C.CreateTransaction,
    reply: C.TransactionCreated,
    created: true,
  },
  {
    method: 'POST',
    path: '/v1/payments/:id',
    access: 'secret',
    handle: updatePayment,
    summary: 'Change metadata',
    body: C.UpdateMetadata,
    reply: C.Detail,
  },
  {
    method: 'POST',
    path: '/v1/payments/:id/cancel',
    access: 'secret',
    handle: cancel,
    summary: 'Cancel a pending payment',
    body: C.Empty,
    reply: C.Detail,
  },
  {
    method: 'POST',
    path: '/v1/payments/:id/resolve',
    access: 'secret',
    handle: resolve,
    summary: 'Accept, reject or mark as refunded what arrived',
    body: C.Resolve,
    reply: C.Detail,
  },
  {
    method: 'GET',
    path: '/v1/payments/:id/transfers',
    access: 'secret',
    handle: readTransfers,
    summary: 'List the transfers of a payment, in the order of first sight',
    query: C.TransfersQuery,
    reply: C.TransferList,
  },
  {
    method: 'GET',
    path: '/v1/events',
    access: 'secret',
    handle: readEvents,
    summary: 'List events, newest first',
    query: C.EventsQuery,
    reply: C.EventList,
  },
  { method: 'GET', path: '/v1/events/:id', access: 'secret', handle: readEvent, summary: 'Retrieve an event', reply: C.EventReply },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    handle: createWebhookEndpoint,
    summary: 'Create a webhook endpoint',
    body: C.CreateEndpoint,
    reply: C.EndpointWithSecret,
    created: true,
  },
  {
    method: 'GET',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    handle: readWebhookEndpoints,
    summary: 'List all webhook endpoints, newest first',
    reply: C.EndpointList,
  },
  {
    method: 'GET',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    handle: readWebhookEndpoint,
    summary: 'Retrieve a webhook endpoint',
    reply: C.EndpointReply,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    handle: updateWebhookEndpoint,
    summary: 'Change a webhook endpoint',
    body: C.UpdateEndpoint,
    reply: C.EndpointReply,
  },
  {
    method: 'DELETE',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    handle: deleteWebhookEndpoint,
    summary: 'Delete a webhook endpoint',
    reply: C.EndpointDeleted,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/rotate_secret',
    access: 'secret',
    handle: rotateWebhookSecret,
    summary: 'Give a webhook endpoint a new signing secret',
    body: C.RotateSecret,
    reply: C.EndpointWithSecret,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/test',
    access: 'secret',
    handle: testWebhookEndpoint,
    summary: 'Send a test event',
    body: C.Empty,
    reply: C.DeliveryReply,
    created: true,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/recover',
    access: 'secret',
    handle: recoverWebhookEndpoint,
    summary: 'Send again all that failed since a time',
    body: C.Recover,
    reply: C.RecoveryReply,
    created: true,
  },
  {
    method: 'GET',
    path: '/v1/webhook_recoveries/:id',
    access: 'secret',
    handle: readWebhookRecovery,
    summary: 'Progress of a recovery',
    reply: C.RecoveryReply,
  },
  {
    method: 'GET',
    path: '/v1/webhook_deliveries',
    access: 'secret',
    handle: readWebhookDeliveries,
    summary: 'List webhook deliveries, newest first',
    query: C.DeliveriesQuery,
    reply: C.DeliveryList,
  },
  {
    method: 'GET',
    path: '/v1/webhook_deliveries/:id',
    access: 'secret',
    handle: readWebhookDelivery,
    summary: 'Retrieve a webhook delivery with its attempts',
    reply: C.DeliveryReply,
  },
  {
    method: 'POST',
    path: '/v1/webhook_deliveries/:id/resend',
    access: 'secret',
    handle: resendWebhookDelivery,
    summary: 'Send a delivery again',
    body: C.Empty,
    reply: C.DeliveryReply,
  },
  {
    method: 'GET',
    path: '/v1/requests',
    access: 'secret',
    handle: readRequests,
    summary: 'List the requests made with your keys, newest first',
    query: C.RequestsQuery,
    reply: C.RequestList,
    // Whoever follows the log would otherwise follow himself.
    isLogged: false,
  },
  {
    method: 'POST',
    path: '/v1/test/payments/:id/simulate',
    access: 'secret_test',
    handle: simulate,
    summary: 'Start a scenario on a test payment',
    body: C.Simulate,
    reply: C.Detail,
  },
  {
    method: 'POST',
    path: '/v1/test/clock/advance',
    access: 'secret_test',
    handle: advance,
    summary: 'Move the test clock forward',
    body: C.AdvanceClock,
    reply: C.ClockReply,
  },
];
