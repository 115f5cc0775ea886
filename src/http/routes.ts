/** All routes at a glance: method, path, who may call, handler, schemas. */
import type { TObject, TSchema } from 'typebox';
import type { Context } from '../context.ts';
import type { KeyOwner } from '../keys/keys.ts';
import type { IdempotencyClaim } from '../payments/view.ts';
import { readBalance, readFees, readPrices, readTransaction } from './crypto.ts';
import type { Access } from './gate.ts';
import type { ParsedBody } from './json.ts';
import { createAdvanced, createLegacy, createSimple, readPayment, readPayments } from './payments.ts';
import type { Query } from './read.ts';
import * as C from './schema.ts';
import { RequestList, RequestsQuery } from './schema-errors.ts';
import * as L from './schema-lookups.ts';
import * as W from './schema-webhooks.ts';
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
  /** False: successful requests are not logged. */
  isLogged?: false;
};

/** The groups of routes, in the order in which documents list them. */
export const GROUPS: readonly { name: string; about: string; owns: RegExp }[] = [
  {
    name: 'Payments',
    about: 'Create payments, read them, and decide about unusual ones.',
    owns: /^\/(payments|api\/payment|v1\/transactions|v1\/payments)/,
  },
  { name: 'Market and chain', about: 'Prices, balances, fees and on-chain transactions.', owns: /^\/api\/crypto/ },
  { name: 'Events', about: 'What happened to your payments.', owns: /^\/v1\/events/ },
  { name: 'Webhooks', about: 'Endpoints that receive events, and the log of deliveries.', owns: /^\/v1\/webhook/ },
  { name: 'Test mode', about: 'Simulate customers and time.', owns: /^\/v1\/test/ },
  { name: 'Requests', about: 'The log of requests made with your API keys.', owns: /^\/v1\/requests/ },
];
export const groupOf = (route: Route): string => GROUPS.find(({ owns }) => owns.test(route.path))!.name;

/** Paths outside /v1 are also served under /v1. An alias is the same route for limits and idempotency. */
export const ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/payments',
    access: 'secret',
    handle: createLegacy,
    summary: 'Create a payment for a fixed coin amount',
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
    summary: 'List current prices in USD',
    query: L.PricesQuery,
    reply: L.PricesReply,
  },
  {
    method: 'GET',
    path: '/api/crypto/balance',
    access: 'secret',
    handle: readBalance,
    summary: 'Retrieve the balance of an address',
    query: L.BalanceQuery,
    reply: L.BalanceReply,
  },
  {
    method: 'GET',
    path: '/api/crypto/fees',
    access: 'secret',
    handle: readFees,
    summary: 'Estimate network fees',
    query: L.CoinQuery,
    reply: L.FeesReply,
  },
  {
    method: 'GET',
    path: '/api/crypto/transaction/:txid',
    access: 'secret',
    handle: readTransaction,
    summary: 'Retrieve an on-chain transaction',
    query: L.CoinQuery,
    reply: L.TransactionReply,
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
    summary: 'Update the metadata of a payment',
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
    summary: 'Decide about money that arrived: accept, reject, or mark as refunded',
    body: C.Resolve,
    reply: C.Detail,
  },
  {
    method: 'GET',
    path: '/v1/payments/:id/transfers',
    access: 'secret',
    handle: readTransfers,
    summary: 'List the transfers of a payment',
    query: C.TransfersQuery,
    reply: C.TransferList,
  },
  {
    method: 'GET',
    path: '/v1/events',
    access: 'secret',
    handle: readEvents,
    summary: 'List events, newest first',
    query: W.EventsQuery,
    reply: W.EventList,
  },
  { method: 'GET', path: '/v1/events/:id', access: 'secret', handle: readEvent, summary: 'Retrieve an event', reply: W.EventReply },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    handle: createWebhookEndpoint,
    summary: 'Create a webhook endpoint',
    body: W.CreateEndpoint,
    reply: W.EndpointWithSecret,
    created: true,
  },
  {
    method: 'GET',
    path: '/v1/webhook_endpoints',
    access: 'secret',
    handle: readWebhookEndpoints,
    summary: 'List all webhook endpoints, newest first',
    reply: W.EndpointList,
  },
  {
    method: 'GET',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    handle: readWebhookEndpoint,
    summary: 'Retrieve a webhook endpoint',
    reply: W.EndpointReply,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    handle: updateWebhookEndpoint,
    summary: 'Update a webhook endpoint',
    body: W.UpdateEndpoint,
    reply: W.EndpointReply,
  },
  {
    method: 'DELETE',
    path: '/v1/webhook_endpoints/:id',
    access: 'secret',
    handle: deleteWebhookEndpoint,
    summary: 'Delete a webhook endpoint',
    reply: W.EndpointDeleted,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/rotate_secret',
    access: 'secret',
    handle: rotateWebhookSecret,
    summary: 'Rotate the signing secret of a webhook endpoint',
    body: W.RotateSecret,
    reply: W.EndpointWithSecret,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/test',
    access: 'secret',
    handle: testWebhookEndpoint,
    summary: 'Send a test event',
    body: C.Empty,
    reply: W.DeliveryReply,
    created: true,
  },
  {
    method: 'POST',
    path: '/v1/webhook_endpoints/:id/recover',
    access: 'secret',
    handle: recoverWebhookEndpoint,
    summary: 'Send everything that failed since a time again',
    body: W.Recover,
    reply: W.RecoveryReply,
    created: true,
  },
  {
    method: 'GET',
    path: '/v1/webhook_recoveries/:id',
    access: 'secret',
    handle: readWebhookRecovery,
    summary: 'Retrieve the progress of a recovery',
    reply: W.RecoveryReply,
  },
  {
    method: 'GET',
    path: '/v1/webhook_deliveries',
    access: 'secret',
    handle: readWebhookDeliveries,
    summary: 'List webhook deliveries, newest first',
    query: W.DeliveriesQuery,
    reply: W.DeliveryList,
  },
  {
    method: 'GET',
    path: '/v1/webhook_deliveries/:id',
    access: 'secret',
    handle: readWebhookDelivery,
    summary: 'Retrieve a webhook delivery with its attempts',
    reply: W.DeliveryReply,
  },
  {
    method: 'POST',
    path: '/v1/webhook_deliveries/:id/resend',
    access: 'secret',
    handle: resendWebhookDelivery,
    summary: 'Resend a delivery',
    body: C.Empty,
    reply: W.DeliveryReply,
  },
  {
    method: 'GET',
    path: '/v1/requests',
    access: 'secret',
    handle: readRequests,
    summary: 'List the requests made with your keys, newest first',
    query: RequestsQuery,
    reply: RequestList,
    // Reading the log does not add to it, so that following it does not produce new entries.
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
