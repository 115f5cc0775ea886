/** Florin as a payment provider of Medusa: a payment for each payment session, and its webhooks. */
import type {
  AuthorizePaymentInput,
  AuthorizePaymentOutput,
  CancelPaymentInput,
  CancelPaymentOutput,
  CapturePaymentInput,
  CapturePaymentOutput,
  DeletePaymentInput,
  DeletePaymentOutput,
  GetPaymentStatusInput,
  GetPaymentStatusOutput,
  InitiatePaymentInput,
  InitiatePaymentOutput,
  Logger,
  PaymentSessionStatus,
  ProviderWebhookPayload,
  RefundPaymentInput,
  RefundPaymentOutput,
  RetrievePaymentInput,
  RetrievePaymentOutput,
  UpdatePaymentInput,
  UpdatePaymentOutput,
  WebhookActionResult,
} from '@medusajs/framework/types';
import { AbstractPaymentProvider } from '@medusajs/framework/utils';
import { type Client, createClient } from '../../../sdk/src/client.ts';
import { ApiError, WebhookError } from '../../../sdk/src/errors.ts';
import { createSend } from '../../../sdk/src/request.ts';
import type { Payment, PaymentEvent } from '../../../sdk/src/types.ts';
import { verify } from '../../../sdk/src/webhooks.ts';
import { readAmount, readCurrency } from './amount.ts';
import { failureOf, refuse, requireMore, requireSession } from './failure.ts';
import { checkOptions } from './options.ts';
import { actionOf, isReversed, sessionStatusOf } from './status.ts';
import type { FlorinOptions } from './types.ts';

type Data = Record<string, unknown>;
/** What a payment session keeps. Storefronts see it, and may have sent other fields. */
type Kept = { session_id: string; payment_id: string };
type Wanted = { amount: unknown; currency: string; sessionId: string; key: string };

/** States in which a payment has or may get money: its session is not given up. */
const PAID: readonly Payment['status'][] = ['processing', 'completed'];

const AUTHORIZED: readonly PaymentSessionStatus[] = ['pending_authorization', 'captured'];

/** Errors: a MedusaError. */
function keptOf(data: Data | undefined): Kept {
  const { session_id, payment_id } = data ?? {};
  if (typeof payment_id !== 'string' || payment_id === '') throw refuse('This payment session has no payment in Florin.');
  return { session_id: String(session_id ?? ''), payment_id };
}

/** What was asked for. Only prices in other currencies than US dollars have fields of their own. */
const priceOf = ({ amount_fiat, currency_fiat, amount_usd }: Pick<Payment, 'amount_fiat' | 'currency_fiat' | 'amount_usd'>) => ({
  amount: amount_fiat ?? amount_usd,
  currency: readCurrency(currency_fiat ?? 'USD'),
});

/** What a session shows of its payment. Amounts are decimal text. */
const shown = (payment: Payment, sessionId: string): Data => ({
  session_id: sessionId,
  payment_id: payment.id,
  payment_url: payment.payment_url,
  status: payment.status,
  exceptions: payment.exceptions,
  mode: payment.mode,
  amount: priceOf(payment).amount,
  currency_code: priceOf(payment).currency.toLowerCase(),
  coin: payment.currency,
  coin_amount: payment.amount,
  coin_received: payment.amount_received,
  expires_at: payment.expires_at,
});

export class FlorinPaymentProvider extends AbstractPaymentProvider<FlorinOptions> {
  static override identifier = 'florin';
  protected readonly florin: Client;
  protected readonly options: FlorinOptions;
  protected readonly logger: Logger | undefined;

  static override validateOptions(options: Record<string, unknown>): void {
    checkOptions(options);
  }

  constructor(container: Record<string, unknown>, options: FlorinOptions) {
    super(container, options);
    this.options = options;
    this.logger = container.logger as Logger | undefined;
    this.florin = createClient({ url: options.url, key: options.apiKey, timeoutMs: 15_000 });
  }

  async initiatePayment({ amount, currency_code, data, context }: InitiatePaymentInput): Promise<InitiatePaymentOutput> {
    const sessionId = String(data?.session_id ?? context?.idempotency_key ?? '');
    if (sessionId === '') throw refuse('Medusa gave no payment session.');
    const payment = await this.create({ amount, currency: currency_code, sessionId, key: sessionId });
    return { id: payment.id, status: 'pending', data: shown(payment, sessionId) };
  }

  /** A payment of Florin never changes its amount: another one takes its place. */
  async updatePayment({ amount, currency_code, data }: UpdatePaymentInput): Promise<UpdatePaymentOutput> {
    const { payment_id, session_id } = keptOf(data);
    const before = await this.read(payment_id);
    const currency = readCurrency(currency_code);
    const price = priceOf(before);
    const isSame = price.currency === currency && price.amount === readAmount(amount, currency);
    if (isSame && (before.status === 'pending' || PAID.includes(before.status)))
      return { status: sessionStatusOf(before), data: shown(before, session_id) };
    await this.giveUp(before);
    const key = `${session_id}:${payment_id}`;
    const payment = await this.create({ amount, currency: currency_code, sessionId: session_id, key });
    return { status: 'pending', data: shown(payment, session_id) };
  }

  /**
   * Called when a customer completes the cart, and by Medusa after a webhook. Medusa answers a storefront with what is left to do only if it
   * is thrown: other statuses without money become a plain 400.
   */
  async authorizePayment({ data }: AuthorizePaymentInput): Promise<AuthorizePaymentOutput> {
    const found = await this.getPaymentStatus({ data: data ?? {} });
    if (found.status === 'requires_more')
      throw requireMore('The customer has not paid yet. Send them to the payment_url of the payment session.');
    if (!AUTHORIZED.includes(found.status))
      throw requireSession(`The payment is ${String(found.data?.status)} in Florin. Start a new payment session.`);
    return found;
  }

  async getPaymentStatus({ data }: GetPaymentStatusInput): Promise<GetPaymentStatusOutput> {
    const { payment_id, session_id } = keptOf(data);
    const payment = await this.read(payment_id);
    return { status: sessionStatusOf(payment), data: shown(payment, session_id) };
  }

  /** Nothing is taken from a customer: this only confirms that the money has arrived. */
  async capturePayment({ data }: CapturePaymentInput): Promise<CapturePaymentOutput> {
    const { payment_id, session_id } = keptOf(data);
    const payment = await this.read(payment_id);
    if (sessionStatusOf(payment) !== 'captured')
      throw refuse(`The payment ${payment.id} is not completed in Florin: it is ${isReversed(payment) ? 'reversed' : payment.status}.`);
    return { data: shown(payment, session_id) };
  }

  async retrievePayment({ data }: RetrievePaymentInput): Promise<RetrievePaymentOutput> {
    const { payment_id, session_id } = keptOf(data);
    return { data: shown(await this.read(payment_id), session_id) };
  }

  async cancelPayment({ data }: CancelPaymentInput): Promise<CancelPaymentOutput> {
    // A session whose payment could not be created.
    if (data?.payment_id === undefined) return { data: data ?? {} };
    const { payment_id, session_id } = keptOf(data);
    return { data: shown(await this.giveUp(await this.read(payment_id)), session_id) };
  }

  async deletePayment({ data }: DeletePaymentInput): Promise<DeletePaymentOutput> {
    return this.cancelPayment({ data: data ?? {} });
  }

  /** Requests a refund: the customer enters an address on a claim page, and you approve and sign it in Florin. */
  async refundPayment({ amount, data, context }: RefundPaymentInput): Promise<RefundPaymentOutput> {
    const { payment_id } = keptOf(data);
    const { currency } = priceOf(await this.read(payment_id));
    const body = { payment_id, amount: readAmount(amount, currency), currency_fiat: currency };
    const refund = await this.requestRefund(body, context?.idempotency_key);
    const before = Array.isArray(data?.refunds) ? data.refunds : [];
    return { data: { ...data, refunds: [...before, { id: refund.id ?? null, claim_url: refund.claim_url ?? null, amount: body.amount }] } };
  }

  async getWebhookActionAndData({ rawData, headers }: ProviderWebhookPayload['payload']): Promise<WebhookActionResult> {
    let event: PaymentEvent;
    try {
      event = (await verify(rawData, headers as Record<string, string>, this.options.webhookSecret)) as PaymentEvent;
    } catch (error) {
      if (!(error instanceof WebhookError)) throw error;
      this.logger?.warn(`Florin: a webhook was refused. ${error.message}`);
      return { action: 'not_supported' };
    }
    if (event.type.startsWith('refund.')) {
      this.logRefund(event.data);
      return { action: 'not_supported' };
    }
    const data = event.data as Payment;
    const sessionId = data?.metadata?.session_id;
    // Anyone can create payments with a public key, and write any metadata.
    if (!event.type.startsWith('payment.') || typeof sessionId !== 'string' || data.created_with !== 'secret')
      return { action: 'not_supported' };
    if (isReversed(data))
      this.logger?.error(`Florin: the network reversed the payment ${data.id} of the payment session ${sessionId}. Do not ship its order.`);
    return { action: actionOf(data), data: { session_id: sessionId, amount: priceOf(data).amount } };
  }

  /** Medusa books a refund when it is requested, and providers cannot report what became of it. The log can. */
  protected logRefund(data: unknown): void {
    const { id, payment_id, status, amount, currency } = data as Readonly<Record<string, unknown>>;
    if (status !== 'failed' && status !== 'canceled') return;
    this.logger?.error(
      `Florin: the refund ${id} of the payment ${payment_id} ${status === 'failed' ? 'failed' : 'was canceled'}. The customer was not paid ${amount} ${currency}, although Medusa shows the refund.`,
    );
  }

  /** Errors: a MedusaError. */
  protected async create({ amount, currency: code, sessionId, key }: Wanted): Promise<Payment> {
    const currency = readCurrency(code);
    const params = {
      amount: readAmount(amount, currency),
      currency_fiat: currency,
      return_url: this.options.returnUrl.replaceAll('{session_id}', encodeURIComponent(sessionId)),
      metadata: { session_id: sessionId, source: 'medusa' },
    };
    return this.call(async () => {
      const { transaction_id } = await this.florin.payments.createSimple(params, { idempotencyKey: `medusa:${key}` });
      return this.florin.payments.retrieve(transaction_id);
    });
  }

  protected read(id: string): Promise<Payment> {
    return this.call(() => this.florin.payments.retrieve(id));
  }

  /** Cancels a payment that has no money, so that nobody pays it any more. Errors: a MedusaError when it has some. */
  protected async giveUp(payment: Payment): Promise<Payment> {
    if (PAID.includes(payment.status))
      throw refuse(`The customer has already sent money for the payment ${payment.id}. Refund it after it is completed.`);
    if (payment.status !== 'pending') return payment;
    return this.call(() => this.florin.payments.cancel(payment.id));
  }

  protected async requestRefund(body: object, key: string | undefined): Promise<{ id?: unknown; claim_url?: unknown }> {
    const send = createSend({ url: this.options.url, key: this.options.apiKey });
    const options = key === undefined ? {} : { idempotencyKey: `medusa:${key}` };
    try {
      return JSON.parse(await send({ method: 'POST', path: '/v1/refunds', body }, options)) as { id?: unknown; claim_url?: unknown };
    } catch (error) {
      if (error instanceof ApiError && error.code === 'unknown_route')
        throw refuse(
          'This version of Florin does not create refunds yet. Send the money from your wallet, and mark the payment as refunded in the Florin dashboard.',
        );
      throw failureOf(error);
    }
  }

  protected async call<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw failureOf(error);
    }
  }
}
