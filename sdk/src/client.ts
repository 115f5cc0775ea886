/** The client: one function for each request of the API, with the names and fields of the API reference. */
import { FlorinError, TimeoutError } from './errors.ts';
import { byId, type Listing, listing } from './pages.ts';
import { type ClientOptions, createSend, pause, type RequestOptions } from './request.ts';
import type {
  AdvanceClockParams,
  Balance,
  BalanceParams,
  CancelParams,
  Coin,
  CreateAdvancedParams,
  CreatedLegacyPayment,
  CreatedPayment,
  CreatedPaymentLink,
  CreatedTransaction,
  CreateLegacyParams,
  CreatePaymentLinkParams,
  CreatePaymentParams,
  CreatePayoutParams,
  CreateRefundParams,
  CreateSimpleParams,
  CreateTransactionParams,
  CreateWebhookEndpointParams,
  Customer,
  CustomerList,
  DeletedWebhookEndpoint,
  EventList,
  Fees,
  ListCustomersParams,
  ListDeliveriesParams,
  ListEventsParams,
  ListPaymentLinksParams,
  ListPaymentsParams,
  ListPayoutsParams,
  ListRefundsParams,
  ListRequestsParams,
  ListTransfersParams,
  OnChainTransaction,
  Payment,
  PaymentEvent,
  PaymentLink,
  PaymentLinkList,
  PaymentStatus,
  PaymentWithRefunds,
  PaymentWithRefundsList,
  Payout,
  PayoutList,
  Prices,
  ProveRefundParams,
  RecoverParams,
  Refund,
  RefundList,
  RequestList,
  ResolveParams,
  RetrieveEventParams,
  RetrievePaymentParams,
  RetrieveRefundParams,
  RotateSecretParams,
  SimulateParams,
  TestClock,
  TransferList,
  UpdatePaymentLinkParams,
  UpdateWebhookEndpointParams,
  WebhookDelivery,
  WebhookDeliveryList,
  WebhookEndpoint,
  WebhookEndpointList,
  WebhookEndpointWithSecret,
  WebhookRecovery,
} from './types.ts';

export type WaitOptions = {
  /**
   * What to wait for: a status, several, or a function that returns true. Defaults to any status but `pending` and `processing`.
   * Unless it is a function, waiting also ends when the payment has ended in another status: check `status`.
   */
  until?: PaymentStatus | readonly PaymentStatus[] | ((payment: Payment) => boolean);
  /** How long to wait, in milliseconds. Defaults to 600000. */
  timeoutMs?: number;
  /** Pause between two requests, in milliseconds. Defaults to 2000. */
  intervalMs?: number;
  signal?: AbortSignal;
};

const OPEN: readonly PaymentStatus[] = ['pending', 'processing'];
const isWanted = (payment: Payment, until: WaitOptions['until']): boolean => {
  if (typeof until === 'function') return until(payment);
  return !OPEN.includes(payment.status) || until === payment.status || (Array.isArray(until) && until.includes(payment.status));
};

/** An ID as part of a path. Errors: FlorinError when it is empty, because the path would be that of another request. */
const part = (id: string): string => {
  if (typeof id !== 'string' || id === '') throw new FlorinError('The ID is missing: pass a string such as "pay_...".');
  return encodeURIComponent(id);
};

function parse<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw new FlorinError(`The response is not JSON. Check that url is the address of your Florin: ${text.slice(0, 200)}`, { cause });
  }
}

/** A client for one merchant and mode, which the API key determines. */
export function createClient(options: ClientOptions) {
  const send = createSend(options);
  const get = async <T>(path: string, query: object, more?: RequestOptions) => parse<T>(await send({ method: 'GET', path, query }, more));
  const post = async <T>(path: string, body: object, more?: RequestOptions) => parse<T>(await send({ method: 'POST', path, body }, more));

  const remove = async <T>(path: string, more?: RequestOptions) => parse<T>(await send({ method: 'DELETE', path }, more));

  const readPayment = (id: string, { expand, ...more }: RetrievePaymentParams & RequestOptions = {}) =>
    get<PaymentWithRefunds>(`/v1/payments/${part(id)}`, { expand }, more);

  return {
    payments: {
      /**
       * Creates a payment. `currency` is that of the amount, such as EUR, or a coin, whose amount stays fixed. Without `crypto`, the customer
       * chooses the coin.
       */
      create: (params: CreatePaymentParams, more?: RequestOptions) => post<Payment>('/v1/payments', params, more),
      /**
       * Creates a payment; the customer chooses the coin. The price is `amount_usd`, or `amount` with `currency_fiat`. Takes a secret or a
       * public key.
       */
      createSimple: (
        params: CreateSimpleParams & ({ amount_usd: number | string } | { amount: number | string; currency_fiat: string }),
        more?: RequestOptions,
      ) => post<CreatedPayment>('/api/payment/create/simple', params, more),
      /** Creates a payment with items and tax. Takes a secret or a public key. */
      createAdvanced: (params: CreateAdvancedParams, more?: RequestOptions) =>
        post<CreatedPayment>('/api/payment/create/advanced', params, more),
      /** Creates a payment for a fixed coin amount, whatever the exchange rate does. */
      createLegacy: (params: CreateLegacyParams, more?: RequestOptions) => post<CreatedLegacyPayment>('/payments', params, more),
      /** Creates a payment in the coin you choose, priced in USD or another currency. */
      createTransaction: (params: CreateTransactionParams, more?: RequestOptions) =>
        post<CreatedTransaction>('/v1/transactions/create', params, more),
      /** Retrieves a payment; with `{ expand: ['refunds'] }` its refunds too. */
      retrieve: readPayment,
      /** Lists payments, newest first; with `{ expand: ['refunds'] }` their refunds too. */
      list: (params: ListPaymentsParams = {}, more?: RequestOptions): Listing<PaymentWithRefundsList> =>
        listing(params, (page) => get<PaymentWithRefundsList>('/v1/payments', page, more), byId),
      /** Merges into the payment's metadata. A key with the value null is removed. */
      updateMetadata: (id: string, metadata: { [key: string]: string | null }, more?: RequestOptions) =>
        post<Payment>(`/v1/payments/${part(id)}`, { metadata }, more),
      /** Cancels a pending payment; with `only_if_unpaid` only if no money has arrived. */
      cancel: (id: string, { shop, only_if_unpaid, ...more }: CancelParams & RequestOptions = {}) =>
        post<Payment>(`/v1/payments/${part(id)}/cancel`, { shop, only_if_unpaid }, more),
      /** Lists everything that arrived, in the order in which it was first seen. A payment itself shows at most the 50 largest transfers. */
      listTransfers: (id: string, params: ListTransfersParams = {}, more?: RequestOptions): Listing<TransferList> =>
        listing(
          params,
          (page) => get<TransferList>(`/v1/payments/${part(id)}/transfers`, page, more),
          (transfer) => transfer.ref,
        ),
      /** Decides about money that arrived late, short or after the payment ended. */
      resolve: (id: string, params: ResolveParams, more?: RequestOptions) =>
        post<Payment>(`/v1/payments/${part(id)}/resolve`, params, more),
      /** Polls the payment until it has ended, or is in the status you wait for. For scripts and tests: in production, use webhooks. Errors: TimeoutError. */
      waitFor: async (id: string, { until, timeoutMs = 600_000, intervalMs = 2_000, signal }: WaitOptions = {}): Promise<Payment> => {
        const end = performance.now() + timeoutMs;
        for (;;) {
          const payment = await readPayment(id, signal && { signal });
          if (isWanted(payment, until)) return payment;
          const left = end - performance.now();
          if (left <= 0) throw new TimeoutError(`The payment ${id} is still ${payment.status} after ${timeoutMs} ms`);
          await pause(Math.min(intervalMs, left), signal);
        }
      },
    },
    /** Pages that create a payment for each customer who opens them. */
    paymentLinks: {
      /** Creates a payment link. Without `amount`, the customer chooses it. */
      create: (params: CreatePaymentLinkParams, more?: RequestOptions) => post<CreatedPaymentLink>('/v1/payment_links', params, more),
      /** Lists payment links, newest first. */
      list: (params: ListPaymentLinksParams = {}, more?: RequestOptions): Listing<PaymentLinkList> =>
        listing(params, (page) => get<PaymentLinkList>('/v1/payment_links', page, more), byId),
      /** Retrieves a payment link. */
      retrieve: (id: string, more?: RequestOptions) => get<PaymentLink>(`/v1/payment_links/${part(id)}`, {}, more),
      /** Changes what is given; `{ state: 'archived' }` archives the link. Payments created through it stay as they are. */
      update: (id: string, params: UpdatePaymentLinkParams, more?: RequestOptions) =>
        post<PaymentLink>(`/v1/payment_links/${part(id)}`, params, more),
    },
    /** Who payments are for: created with the first payment that names them. */
    customers: {
      /** Lists customers, newest first. */
      list: (params: ListCustomersParams = {}, more?: RequestOptions): Listing<CustomerList> =>
        listing(params, (page) => get<CustomerList>('/v1/customers', page, more), byId),
      /** Retrieves a customer. */
      retrieve: (id: string, more?: RequestOptions) => get<Customer>(`/v1/customers/${part(id)}`, {}, more),
    },
    /** Money that you return to customers. You sign each refund with your own keys. */
    refunds: {
      /** Requests a refund. Without `address`, send its `claim_url` to the customer, who enters one. */
      create: (params: CreateRefundParams, more?: RequestOptions) => post<Refund>('/v1/refunds', params, more),
      /** Retrieves a refund; with `{ expand: ['payment'] }` its payment too. */
      retrieve: (id: string, { expand, ...more }: RetrieveRefundParams & RequestOptions = {}) =>
        get<Refund>(`/v1/refunds/${part(id)}`, { expand }, more),
      /** Lists refunds, newest first. */
      list: (params: ListRefundsParams = {}, more?: RequestOptions): Listing<RefundList> =>
        listing(params, (page) => get<RefundList>('/v1/refunds', page, more), byId),
      /** Replaces the claim link of a refund that has no address yet. The one before stops working. */
      renewClaimLink: (id: string, more?: RequestOptions) => post<Refund>(`/v1/refunds/${part(id)}/claim_link`, {}, more),
      /** Enters the preimage of the Lightning invoice of the customer that you paid with your own wallet, which confirms the refund. */
      prove: (id: string, params: ProveRefundParams, more?: RequestOptions) =>
        post<Refund>(`/v1/refunds/${part(id)}/preimage`, params, more),
      /** Cancels a refund that was not approved. */
      cancel: (id: string, more?: RequestOptions) => post<Refund>(`/v1/refunds/${part(id)}/cancel`, {}, more),
    },
    /** Money that you send to others, such as suppliers. You sign each payout with your own keys. */
    payouts: {
      /** Requests a payout. A member approves it in the dashboard. */
      create: (params: CreatePayoutParams, more?: RequestOptions) => post<Payout>('/v1/payouts', params, more),
      /** Retrieves a payout. */
      retrieve: (id: string, more?: RequestOptions) => get<Payout>(`/v1/payouts/${part(id)}`, {}, more),
      /** Lists payouts, newest first. */
      list: (params: ListPayoutsParams = {}, more?: RequestOptions): Listing<PayoutList> =>
        listing(params, (page) => get<PayoutList>('/v1/payouts', page, more), byId),
      /** Cancels a payout that was not approved. */
      cancel: (id: string, more?: RequestOptions) => post<Payout>(`/v1/payouts/${part(id)}/cancel`, {}, more),
    },
    crypto: {
      /** Current prices in USD, of the given coins or of all five. */
      prices: (params: { currencies?: readonly Coin[] } = {}, more?: RequestOptions) =>
        get<Prices>('/api/crypto/prices', { currencies: params.currencies?.join(',') }, more),
      /** The balance of any address. */
      balance: (params: BalanceParams, more?: RequestOptions) => get<Balance>('/api/crypto/balance', params, more),
      /** Network fee estimates. */
      fees: (currency: Coin, more?: RequestOptions) => get<Fees>('/api/crypto/fees', { currency }, more),
      /** An on-chain transaction. */
      transaction: (txid: string, currency: Coin, more?: RequestOptions) =>
        get<OnChainTransaction>(`/api/crypto/transaction/${part(txid)}`, { currency }, more),
    },
    events: {
      /** Lists events, newest first. `data` is the payment as it was when the event happened. */
      list: (params: ListEventsParams = {}, more?: RequestOptions): Listing<EventList> =>
        listing(params, (page) => get<EventList>('/v1/events', page, more), byId),
      /** Retrieves an event; with `{ expand: ['payment'] }` also the payment as it is now. */
      retrieve: (id: string, { expand, ...more }: RetrieveEventParams & RequestOptions = {}) =>
        get<PaymentEvent>(`/v1/events/${part(id)}`, { expand }, more),
      /** Retrieves the exact text that every delivery of the event carries. */
      retrieveRaw: (id: string, more?: RequestOptions) => send({ method: 'GET', path: `/v1/events/${part(id)}` }, more),
    },
    /** URLs of yours that receive events. */
    webhookEndpoints: {
      /** Creates an endpoint. The reply contains the signing secret, which is not returned again. */
      create: (params: CreateWebhookEndpointParams, more?: RequestOptions) =>
        post<WebhookEndpointWithSecret>('/v1/webhook_endpoints', params, more),
      /** Lists all endpoints, newest first. */
      list: (more?: RequestOptions) => get<WebhookEndpointList>('/v1/webhook_endpoints', {}, more),
      retrieve: (id: string, more?: RequestOptions) => get<WebhookEndpoint>(`/v1/webhook_endpoints/${part(id)}`, {}, more),
      update: (id: string, params: UpdateWebhookEndpointParams, more?: RequestOptions) =>
        post<WebhookEndpoint>(`/v1/webhook_endpoints/${part(id)}`, params, more),
      delete: (id: string, more?: RequestOptions) => remove<DeletedWebhookEndpoint>(`/v1/webhook_endpoints/${part(id)}`, more),
      /** Creates a new signing secret. The old one also signs for `expires_in` seconds. */
      rotateSecret: (id: string, params: RotateSecretParams = {}, more?: RequestOptions) =>
        post<WebhookEndpointWithSecret>(`/v1/webhook_endpoints/${part(id)}/rotate_secret`, params, more),
      /** Sends a `webhook.test` event. */
      sendTest: (id: string, more?: RequestOptions) => post<WebhookDelivery>(`/v1/webhook_endpoints/${part(id)}/test`, {}, more),
      /** Sends everything that failed since a time again. */
      recover: (id: string, params: RecoverParams, more?: RequestOptions) =>
        post<WebhookRecovery>(`/v1/webhook_endpoints/${part(id)}/recover`, params, more),
      retrieveRecovery: (id: string, more?: RequestOptions) => get<WebhookRecovery>(`/v1/webhook_recoveries/${part(id)}`, {}, more),
    },
    /** The log of deliveries, with every attempt. */
    webhookDeliveries: {
      /** Lists deliveries, newest first. */
      list: (params: ListDeliveriesParams = {}, more?: RequestOptions): Listing<WebhookDeliveryList> =>
        listing(params, (page) => get<WebhookDeliveryList>('/v1/webhook_deliveries', page, more), byId),
      retrieve: (id: string, more?: RequestOptions) => get<WebhookDelivery>(`/v1/webhook_deliveries/${part(id)}`, {}, more),
      resend: (id: string, more?: RequestOptions) => post<WebhookDelivery>(`/v1/webhook_deliveries/${part(id)}/resend`, {}, more),
    },
    /** The log of requests made with the API keys of this merchant and mode, kept for 30 days. */
    requests: {
      /** Lists requests, newest first. */
      list: (params: ListRequestsParams = {}, more?: RequestOptions): Listing<RequestList> =>
        listing(params, (page) => get<RequestList>('/v1/requests', page, more), byId),
    },
    /** Test mode only. */
    test: {
      /** Starts a scenario on a payment. */
      simulate: (id: string, params: SimulateParams, more?: RequestOptions) =>
        post<Payment>(`/v1/test/payments/${part(id)}/simulate`, params, more),
      /** Moves the clock of one payment, or of all of test mode, forward. */
      advanceClock: (params: AdvanceClockParams, more?: RequestOptions) => post<TestClock>('/v1/test/clock/advance', params, more),
    },
  };
}
export type Client = ReturnType<typeof createClient>;
