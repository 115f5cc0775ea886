/** The client: one function for each request of the service. Names and fields are those of its reference. */
import { FlorinError, TimeoutError } from './errors.ts';
import { byId, type Listing, listing } from './pages.ts';
import { type ClientOptions, createSend, pause, type RequestOptions } from './request.ts';
import type {
  AdvanceClockParams,
  Balance,
  BalanceParams,
  Coin,
  CreateAdvancedParams,
  CreatedLegacyPayment,
  CreatedPayment,
  CreatedTransaction,
  CreateLegacyParams,
  CreateSimpleParams,
  CreateTransactionParams,
  CreateWebhookEndpointParams,
  DeletedWebhookEndpoint,
  EventList,
  Fees,
  ListDeliveriesParams,
  ListEventsParams,
  ListPaymentsParams,
  ListRequestsParams,
  ListTransfersParams,
  OnChainTransaction,
  Payment,
  PaymentEvent,
  PaymentList,
  PaymentStatus,
  Prices,
  RecoverParams,
  RequestList,
  ResolveParams,
  RotateSecretParams,
  SimulateParams,
  TestClock,
  TransferList,
  UpdateWebhookEndpointParams,
  WebhookDelivery,
  WebhookDeliveryList,
  WebhookEndpoint,
  WebhookEndpointList,
  WebhookEndpointWithSecret,
  WebhookRecovery,
} from './types.ts';

export type WaitOptions = {
  /** A status, several, or a test of the payment; default: everything but `pending` and `processing`. */
  until?: PaymentStatus | readonly PaymentStatus[] | ((payment: Payment) => boolean);
  /** Default 600000. */
  timeoutMs?: number;
  /** Between two looks; default 2000. */
  intervalMs?: number;
  signal?: AbortSignal;
};

const OPEN: readonly PaymentStatus[] = ['pending', 'processing'];
const isWanted = (payment: Payment, until: WaitOptions['until']): boolean => {
  if (until === undefined) return !OPEN.includes(payment.status);
  if (typeof until === 'function') return until(payment);
  return until === payment.status || until.includes(payment.status);
};

/** An id as a part of a path. Errors: FlorinError when it is empty, which would name another request. */
const part = (id: string): string => {
  if (typeof id !== 'string' || id === '') throw new FlorinError('an id is needed');
  return encodeURIComponent(id);
};

function parse<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw new FlorinError(`The answer is not JSON, so url leads to something else: ${text.slice(0, 200)}`, { cause });
  }
}

/** A client of one merchant and mode: the key says which. */
export function createClient(options: ClientOptions) {
  const send = createSend(options);
  const get = async <T>(path: string, query: object, more?: RequestOptions) => parse<T>(await send({ method: 'GET', path, query }, more));
  const post = async <T>(path: string, body: object, more?: RequestOptions) => parse<T>(await send({ method: 'POST', path, body }, more));

  const remove = async <T>(path: string, more?: RequestOptions) => parse<T>(await send({ method: 'DELETE', path }, more));

  const readPayment = (id: string, more?: RequestOptions) => get<Payment>(`/v1/api/payment/${part(id)}`, {}, more);

  return {
    payments: {
      /** A payment in USD; the payer chooses the coin. Keys: secret or public. */
      createSimple: (params: CreateSimpleParams, more?: RequestOptions) =>
        post<CreatedPayment>('/v1/api/payment/create/simple', params, more),
      /** The same with items and tax. Keys: secret or public. */
      createAdvanced: (params: CreateAdvancedParams, more?: RequestOptions) =>
        post<CreatedPayment>('/v1/api/payment/create/advanced', params, more),
      /** A payment of a fixed coin amount, not bound to a rate. */
      createLegacy: (params: CreateLegacyParams, more?: RequestOptions) => post<CreatedLegacyPayment>('/v1/payments', params, more),
      /** A payment in USD and in a coin that you name. */
      createTransaction: (params: CreateTransactionParams, more?: RequestOptions) =>
        post<CreatedTransaction>('/v1/transactions/create', params, more),
      retrieve: readPayment,
      /** Newest first. */
      list: (params: ListPaymentsParams = {}, more?: RequestOptions): Listing<PaymentList> =>
        listing(params, (page) => get<PaymentList>('/v1/api/payments', page, more), byId),
      /** Merges into the payment's metadata; null takes a key away. */
      updateMetadata: (id: string, metadata: { [key: string]: string | null }, more?: RequestOptions) =>
        post<Payment>(`/v1/payments/${part(id)}`, { metadata }, more),
      cancel: (id: string, more?: RequestOptions) => post<Payment>(`/v1/payments/${part(id)}/cancel`, {}, more),
      /** All that arrived, in the order of first sight: a payment itself shows the largest of many. */
      listTransfers: (id: string, params: ListTransfersParams = {}, more?: RequestOptions): Listing<TransferList> =>
        listing(
          params,
          (page) => get<TransferList>(`/v1/payments/${part(id)}/transfers`, page, more),
          (transfer) => transfer.ref,
        ),
      /** Decides about what arrived late, short or after the end. */
      resolve: (id: string, params: ResolveParams, more?: RequestOptions) =>
        post<Payment>(`/v1/payments/${part(id)}/resolve`, params, more),
      /** Looks at the payment until it is as wanted. For scripts and tests: a shop listens to webhooks. Errors: TimeoutError. */
      waitFor: async (id: string, { until, timeoutMs = 600_000, intervalMs = 2_000, signal }: WaitOptions = {}): Promise<Payment> => {
        const end = performance.now() + timeoutMs;
        for (;;) {
          const payment = await readPayment(id, signal && { signal });
          if (isWanted(payment, until)) return payment;
          const left = end - performance.now();
          if (left <= 0) throw new TimeoutError(`${id} is still ${payment.status} after ${timeoutMs} ms`);
          await pause(Math.min(intervalMs, left), signal);
        }
      },
    },
    crypto: {
      /** Current prices in USD; of all five coins when none is named. */
      prices: (params: { currencies?: readonly Coin[] } = {}, more?: RequestOptions) =>
        get<Prices>('/v1/api/crypto/prices', { currencies: params.currencies?.join(',') }, more),
      /** What is on an address, anybody's. */
      balance: (params: BalanceParams, more?: RequestOptions) => get<Balance>('/v1/api/crypto/balance', params, more),
      fees: (currency: Coin, more?: RequestOptions) => get<Fees>('/v1/api/crypto/fees', { currency }, more),
      transaction: (txid: string, currency: Coin, more?: RequestOptions) =>
        get<OnChainTransaction>(`/v1/api/crypto/transaction/${part(txid)}`, { currency }, more),
    },
    events: {
      /** Newest first, as they were when they happened. */
      list: (params: ListEventsParams = {}, more?: RequestOptions): Listing<EventList> =>
        listing(params, (page) => get<EventList>('/v1/events', page, more), byId),
      retrieve: (id: string, more?: RequestOptions) => get<PaymentEvent>(`/v1/events/${part(id)}`, {}, more),
      /** The exact text that every delivery of the event carries. */
      retrieveRaw: (id: string, more?: RequestOptions) => send({ method: 'GET', path: `/v1/events/${part(id)}` }, more),
    },
    /** Where webhooks are sent. */
    webhookEndpoints: {
      /** The reply shows the signing secret, this once. */
      create: (params: CreateWebhookEndpointParams, more?: RequestOptions) =>
        post<WebhookEndpointWithSecret>('/v1/webhook_endpoints', params, more),
      /** All of them, newest first. */
      list: (more?: RequestOptions) => get<WebhookEndpointList>('/v1/webhook_endpoints', {}, more),
      retrieve: (id: string, more?: RequestOptions) => get<WebhookEndpoint>(`/v1/webhook_endpoints/${part(id)}`, {}, more),
      update: (id: string, params: UpdateWebhookEndpointParams, more?: RequestOptions) =>
        post<WebhookEndpoint>(`/v1/webhook_endpoints/${part(id)}`, params, more),
      delete: (id: string, more?: RequestOptions) => remove<DeletedWebhookEndpoint>(`/v1/webhook_endpoints/${part(id)}`, more),
      /** A new secret, shown this once; the old one keeps signing beside it for `expires_in` seconds. */
      rotateSecret: (id: string, params: RotateSecretParams = {}, more?: RequestOptions) =>
        post<WebhookEndpointWithSecret>(`/v1/webhook_endpoints/${part(id)}/rotate_secret`, params, more),
      /** Sends a `webhook.test` event. */
      sendTest: (id: string, more?: RequestOptions) => post<WebhookDelivery>(`/v1/webhook_endpoints/${part(id)}/test`, {}, more),
      /** Sends again all that failed since a time. */
      recover: (id: string, params: RecoverParams, more?: RequestOptions) =>
        post<WebhookRecovery>(`/v1/webhook_endpoints/${part(id)}/recover`, params, more),
      retrieveRecovery: (id: string, more?: RequestOptions) => get<WebhookRecovery>(`/v1/webhook_recoveries/${part(id)}`, {}, more),
    },
    /** The log of what was sent where, with every attempt. */
    webhookDeliveries: {
      /** Newest first. */
      list: (params: ListDeliveriesParams = {}, more?: RequestOptions): Listing<WebhookDeliveryList> =>
        listing(params, (page) => get<WebhookDeliveryList>('/v1/webhook_deliveries', page, more), byId),
      retrieve: (id: string, more?: RequestOptions) => get<WebhookDelivery>(`/v1/webhook_deliveries/${part(id)}`, {}, more),
      resend: (id: string, more?: RequestOptions) => post<WebhookDelivery>(`/v1/webhook_deliveries/${part(id)}/resend`, {}, more),
    },
    /** The log of what was asked with the keys of this merchant and mode, kept for 30 days. */
    requests: {
      /** Newest first. */
      list: (params: ListRequestsParams = {}, more?: RequestOptions): Listing<RequestList> =>
        listing(params, (page) => get<RequestList>('/v1/requests', page, more), byId),
    },
    /** Test mode only. */
    test: {
      /** Plays a scenario on a payment: success, slow, failed, underpaid, overpaid, late, reorg, replaced or expired. */
      simulate: (id: string, params: SimulateParams, more?: RequestOptions) =>
        post<Payment>(`/v1/test/payments/${part(id)}/simulate`, params, more),
      /** Moves the clock of one payment, or of everything in test mode. */
      advanceClock: (params: AdvanceClockParams, more?: RequestOptions) => post<TestClock>('/v1/test/clock/advance', params, more),
    },
  };
}
export type Client = ReturnType<typeof createClient>;
