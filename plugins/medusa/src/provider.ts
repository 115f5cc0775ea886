/** Florin as a payment provider of Medusa: a payment for each payment session, and its webhooks. */
import { hash } from 'node:crypto';
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
import plugin from '../package.json' with { type: 'json' };
import { readAmount, readCurrency } from './amount.ts';
import { failureOf, refuse, requireMore, requireSession } from './failure.ts';
import { checkOptions } from './options.ts';
import { actionOf, hasMoney, isReturned, isReversed, sessionStatusOf } from './status.ts';
import type { FlorinOptions } from './types.ts';

/** Says in each request which version of the provider makes it. */
const namedFetch: typeof fetch = (input, init) =>
  fetch(input, { ...init, headers: { ...(init?.headers as Record<string, string>), 'user-agent': `${plugin.name}/${plugin.version}` } });

type Data = Record<string, unknown>;
/** What a payment session keeps. Storefronts see it, and may have sent other fields. */
type Kept = { session_id: string; payment_id: string };
type Wanted = {
  amount: unknown;
  currency: string;
  sessionId: string;
  collection: string | null;
  key: string;
  replaces: string | null;
  customer: ReturnType<typeof customerOf>;
};
/** Who pays, by the email address: Medusa names only those who signed in, and several stores of one merchant have IDs of their own. */
function customerOf(context: InitiatePaymentInput['context']): { email: string; name?: string } | null {
  const { email = '', first_name, last_name } = context?.customer ?? {};
  const name = [first_name, last_name].filter(Boolean).join(' ').trim();
  return email.trim() === '' ? null : { email: email.trim(), ...(name !== '' && { name }) };
}
/** Sessions as the payment module of Medusa shares them with its providers. */
type Session = {
  id: string;
  provider_id: string;
  payment_collection_id: string;
  status?: string;
  payment_collection?: { status?: string; amount?: unknown; currency_code?: string };
};
type Sessions = { list(filters: object, config: object): Promise<Session[]> };

/** States in which a payment has or may get money: its session is not given up. */
const PAID: readonly Payment['status'][] = ['processing', 'completed'];

const AUTHORIZED: readonly PaymentSessionStatus[] = ['pending_authorization', 'captured'];

/** Why money has no order, as the log and Florin say it. */
const NO_SESSION = 'the cart has another payment session or none';
const CANCELED = 'the order was canceled before its payment was confirmed';
const CHANGED = 'the total changed after the payment session started';
const STARTED_AGAIN =
  'In Medusa, the customer started to pay again after the money was confirmed. No order is paid by this payment until the cart is completed.';
/** What says so. */
const OF_ORDER = { select: ['status'], relations: ['payment_collection'] };
/** Sessions that are taken or deleted at the same time, with room to spare. */
const MOST_REMEMBERED = 1_000;
function remember(sessions: Set<string>, id: string): void {
  sessions.add(id);
  for (const first of sessions) if (sessions.size > MOST_REMEMBERED) sessions.delete(first);
}
/** Whether Medusa took the money of a session. Its order is being placed, or there. */
const isTaken = (status: Session['status'] | undefined): boolean => status === 'authorized' || status === 'captured';
/**
 * Whether a cart has another total than the payment of its session. Medusa reads the total before it asks for a session, so a change of the
 * cart at the same moment leaves a session with the former one, and it compares nothing when it takes the money.
 */
function isChanged({ payment_collection }: Session, payment: Payment): boolean {
  const { amount, currency_code } = payment_collection ?? {};
  if (amount === undefined || currency_code === undefined) return false;
  const { amount: paid, currency } = priceOf(payment);
  return readCurrency(currency_code) !== currency || readAmount(amount, currency) !== paid;
}
/** Whether the order of a session was canceled before Medusa took its money. What Medusa took, it refunds by itself. */
const isCanceled = ({ status, payment_collection }: Session): boolean => payment_collection?.status === 'canceled' && !isTaken(status);

/** Decimal text as units of the smallest coin. */
function unitsOf(amount: string | null): bigint {
  const [whole = '', fraction = ''] = (amount ?? '').split('.');
  return BigInt(whole + fraction.padEnd(18, '0'));
}

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

  /** What is done for a collection, one after the other: Medusa starts a session and deletes the one before at the same time. */
  protected readonly turns = new Map<string, Promise<unknown>>();
  /** Sessions whose money Medusa takes now, because it stores that a moment after it asked. */
  protected readonly taken = new Set<string>();
  /** Sessions that Medusa deletes a moment after it asked. Until then they are there, and after that it can take no money for them. */
  protected readonly ended = new Set<string>();
  /** Names this shop in its payments: a copy of its database at another address leaves them alone. */
  protected readonly shop: string;

  constructor(container: Record<string, unknown>, options: FlorinOptions) {
    super(container, options);
    this.options = options;
    this.shop = /^https?:\/\/[^/?#]+/.exec(options.returnUrl)![0];
    this.logger = container.logger as Logger | undefined;
    this.florin = createClient({ url: options.url, key: options.apiKey, timeoutMs: 15_000, fetch: namedFetch });
  }

  /**
   * Starts a session. The open payment of the cart is used again while it costs the same, also if the answer to its creation was lost. A
   * customer whose money is here is not asked for more, and while its order is being placed, no other session takes the payment. Errors: a
   * MedusaError.
   */
  async initiatePayment({ amount, currency_code, data, context }: InitiatePaymentInput): Promise<InitiatePaymentOutput> {
    const sessionId = String(data?.session_id ?? context?.idempotency_key ?? '');
    if (sessionId === '') throw refuse('Medusa gave no payment session.');
    const collection = (await this.findSession(sessionId))?.payment_collection_id ?? null;
    return this.inTurn(collection ?? sessionId, async () => {
      const before = collection === null ? [] : await this.paymentsOf(collection);
      const taken = (await this.othersOf(sessionId, collection)).filter((session) => this.isTakenNow(session)).map(({ id }) => id);
      for (const payment of before)
        if (taken.includes(payment.metadata.session_id ?? '') && (await this.givenBack(payment)) !== 'all')
          throw refuse(`The customer has paid this cart (payment ${payment.id}), and its order is being placed. Complete the cart.`);
      const adopted = await this.adopt(before, { amount, currency: currency_code, sessionId });
      if (adopted) return { id: adopted.id, status: 'pending', data: shown(adopted, sessionId) };
      for (const one of before)
        if ((one.status === 'pending' || PAID.includes(one.status)) && hasMoney(one) && (await this.givenBack(one)) !== 'all')
          throw refuse(
            `The customer has already sent money for this cart at another total (payment ${one.id}). Change the cart back, or ask the shop to refund the payment in Florin.`,
          );
      const replaces = before.find(({ status, replaced_by }) => status === 'pending' && !replaced_by)?.id ?? null;
      const payment = await this.create({
        amount,
        currency: currency_code,
        sessionId,
        collection,
        key: sessionId,
        replaces,
        customer: customerOf(context),
      });
      for (const { id } of before) await this.closeUnpaid(await this.read(id), NO_SESSION);
      return { id: payment.id, status: 'pending', data: shown(payment, sessionId) };
    });
  }

  /**
   * The payment of these that is for this price and can be, or is, paid. From now on it belongs to the session. No webhook follows for one that
   * is completed, and the one that was sent may have met the session before: the money is named until the cart is completed.
   */
  protected async adopt(
    payments: readonly Payment[],
    { amount, currency: code, sessionId }: { amount: unknown; currency: string; sessionId: string },
  ): Promise<Payment | null> {
    const currency = readCurrency(code);
    const wanted = readAmount(amount, currency);
    for (const { id } of payments) {
      const isUsable = (one: Payment) =>
        (one.status === 'pending' || PAID.includes(one.status)) && !isReversed(one) && !isReturned(one) && priceOf(one).amount === wanted;
      const payment = await this.read(id);
      if (!isUsable(payment) || priceOf(payment).currency !== currency || (await this.givenBack(payment)) !== 'none') continue;
      const adopted = await this.call(() => this.florin.payments.updateMetadata(id, { session_id: sessionId, order_missing: null }));
      if (adopted.status === 'completed') await this.mark(adopted.id, STARTED_AGAIN);
      if (isUsable(adopted)) return adopted;
    }
    return null;
  }

  /** A payment of Florin never changes its amount: another one takes its place. */
  async updatePayment({ amount, currency_code, data, context }: UpdatePaymentInput): Promise<UpdatePaymentOutput> {
    const { payment_id, session_id } = keptOf(data);
    const before = await this.current(payment_id);
    const currency = readCurrency(currency_code);
    const price = priceOf(before);
    const isSame = price.currency === currency && price.amount === readAmount(amount, currency);
    if (isSame && (before.status === 'pending' || PAID.includes(before.status)))
      return { status: sessionStatusOf(before), data: shown(before, session_id) };
    await this.giveUp(before);
    const key = `${session_id}:${before.id}`;
    const of = { sessionId: session_id, collection: before.invoice_id, customer: customerOf(context) };
    const payment = await this.create({ amount, currency: currency_code, ...of, key, replaces: before.id });
    return { status: 'pending', data: shown(payment, session_id) };
  }

  /**
   * Called when a customer completes the cart, and by Medusa after a webhook. Medusa answers a storefront with what is left to do only if it
   * is thrown: other statuses without money become a plain 400.
   */
  async authorizePayment({ data }: AuthorizePaymentInput): Promise<AuthorizePaymentOutput> {
    const { payment_id, session_id } = keptOf(data);
    const { invoice_id: collection } = await this.read(payment_id);
    return this.inTurn(collection ?? session_id, () => this.authorize(payment_id, session_id));
  }

  protected async authorize(paymentId: string, sessionId: string): Promise<AuthorizePaymentOutput> {
    const payment = await this.current(paymentId);
    const session = await this.findSession(sessionId, OF_ORDER);
    if (session && isCanceled(session)) {
      await this.reportMoney(payment, CANCELED);
      throw refuse(`In Medusa, ${CANCELED}. Refund the payment ${payment.id} in Florin.`);
    }
    if (session && !isTaken(session.status) && isChanged(session, payment)) {
      await this.closeUnpaid(payment, CHANGED);
      throw requireSession(`In Medusa, ${CHANGED}. Start a new payment session.`);
    }
    const status = sessionStatusOf(payment);
    if (status === 'requires_more')
      throw requireMore('The customer has not paid yet. Send them to the payment_url of the payment session.');
    if (!AUTHORIZED.includes(status)) throw requireSession(`The payment is ${payment.status} in Florin. Start a new payment session.`);
    if (payment.metadata.session_id !== sessionId)
      throw requireSession(`Another payment session of this cart has the payment ${payment.id}. Complete the cart with that one.`);
    if (this.ended.has(sessionId) || (this.sessions && session === null)) {
      await this.reportMoney(payment, NO_SESSION);
      throw requireSession('The payment session was deleted. Start a new payment session.');
    }
    if (status === 'captured') {
      // Its order is placed now.
      if (payment.metadata.order_missing !== undefined && this.owns(payment))
        await this.call(() => this.florin.payments.updateMetadata(payment.id, { order_missing: null }));
      remember(this.taken, sessionId);
    }
    return { status, data: shown(payment, sessionId) };
  }

  async getPaymentStatus({ data }: GetPaymentStatusInput): Promise<GetPaymentStatusOutput> {
    const { payment_id, session_id } = keptOf(data);
    const payment = await this.current(payment_id);
    return { status: sessionStatusOf(payment), data: shown(payment, session_id) };
  }

  /** Nothing is taken from a customer: this only confirms that the money has arrived. */
  async capturePayment({ data }: CapturePaymentInput): Promise<CapturePaymentOutput> {
    const { payment_id, session_id } = keptOf(data);
    const payment = await this.current(payment_id);
    if (sessionStatusOf(payment) !== 'captured')
      throw refuse(`The payment ${payment.id} is not completed in Florin: it is ${isReversed(payment) ? 'reversed' : payment.status}.`);
    return { data: shown(payment, session_id) };
  }

  async retrievePayment({ data }: RetrievePaymentInput): Promise<RetrievePaymentOutput> {
    const { payment_id, session_id } = keptOf(data);
    return { data: shown(await this.current(payment_id), session_id) };
  }

  async cancelPayment({ data }: CancelPaymentInput): Promise<CancelPaymentOutput> {
    // A session whose payment could not be created.
    if (data?.payment_id === undefined) return { data: data ?? {} };
    const { payment_id, session_id } = keptOf(data);
    this.taken.delete(session_id);
    return { data: shown(await this.giveUp(await this.current(payment_id)), session_id) };
  }

  /**
   * Called when a cart changes, another way to pay is chosen, or another session starts. A payment that has money stays as it is, and is named
   * as one without an order, also if Medusa got its webhook and has yet to act on it. One that a newer session of the same cart may use stays,
   * too. Errors: a MedusaError when Medusa took the money and is about to place the order, which needs the session; never before that, because
   * Medusa would answer the customer with a 500.
   */
  async deletePayment({ data }: DeletePaymentInput): Promise<DeletePaymentOutput> {
    const kept = data ?? {};
    if (kept.payment_id === undefined) return { data: kept };
    const { payment_id, session_id } = keptOf(kept);
    const isNeeded = await this.endSession(payment_id, session_id).catch(async (error: Error) => {
      // Without its session, the same money could be taken for another one.
      const session = await this.findSession(session_id, OF_ORDER);
      if (session && this.isTakenNow(session)) return true;
      this.logger?.error(`Florin: the payment ${payment_id} could not be canceled, so it can still be paid. ${error.message}`);
      return false;
    });
    if (isNeeded) throw refuse(`The customer has paid (payment ${payment_id}), and the order is being placed.`);
    return { data: kept };
  }

  /** Whether the session has to stay, because Medusa took its money. Otherwise, nobody pays its payment any more, or its money is named. */
  protected async endSession(paymentId: string, sessionId: string): Promise<boolean> {
    const { invoice_id: collection } = await this.read(paymentId);
    return this.inTurn(collection ?? sessionId, async () => {
      const payment = await this.current(paymentId);
      if (payment.metadata.session_id !== sessionId || !this.owns(payment)) return false;
      const session = await this.findSession(sessionId, OF_ORDER);
      if (
        session &&
        this.isTakenNow(session) &&
        payment.status === 'completed' &&
        !isReversed(payment) &&
        (await this.givenBack(payment)) !== 'all'
      )
        return true;
      remember(this.ended, sessionId);
      // A newer session may use or replace one without money.
      if (hasMoney(payment) || !(await this.othersOf(sessionId, collection)).length) await this.closeUnpaid(payment, NO_SESSION);
      return false;
    });
  }

  /** Requests a refund: the customer enters an address on a claim page, and you approve and sign it in Florin. */
  async refundPayment({ amount, data, context }: RefundPaymentInput): Promise<RefundPaymentOutput> {
    const payment = await this.current(keptOf(data).payment_id);
    if (!this.owns(payment)) throw refuse(`The payment ${payment.id} was made by another shop. Refund it in the Florin dashboard.`);
    const { currency } = priceOf(payment);
    const body = { payment_id: payment.id, amount: readAmount(amount, currency), currency_fiat: currency, ...this.shopOf(payment) };
    const refund = await this.requestRefund(body, context?.idempotency_key);
    const before = Array.isArray(data?.refunds) ? data.refunds : [];
    // Not the claim link: whoever may read the payment in Medusa could claim the money.
    return { data: { ...data, refunds: [...before, { id: refund.id ?? null, amount: body.amount }] } };
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
    const isOfShop = data?.created_with === 'secret' || Boolean(data?.replaces);
    if (!event.type.startsWith('payment.') || typeof sessionId !== 'string' || !isOfShop) return { action: 'not_supported' };
    // The event only says which payment changed: it may be old, and a newer session may have taken the payment over.
    const payment = await this.read(data.id);
    const current = payment.metadata.session_id ?? sessionId;
    if (!this.owns(payment) || !(await this.isRequested(payment))) return { action: 'not_supported' };
    const session = await this.findSession(current, OF_ORDER);
    if (this.sessions && (session === null || isCanceled(session))) {
      // Nobody pays for a canceled order.
      if (session !== null) await this.closeUnpaid(payment, CANCELED);
      else await this.reportMoney(payment, NO_SESSION);
      return { action: 'not_supported' };
    }
    if (isReversed(payment))
      this.logger?.error(
        `Florin: the network reversed the payment ${payment.id} of the payment session ${current}. Do not ship its order.`,
      );
    return { action: actionOf(payment), data: { session_id: current, amount: priceOf(payment).amount } };
  }

  protected async reportMoney(payment: Payment, why: string): Promise<void> {
    // Florin lists reversed payments by itself, and what Medusa refunds needs nobody.
    if (!hasMoney(payment) || isReversed(payment) || !this.owns(payment) || (await this.givenBack(payment)) === 'all') return;
    await this.reportMissing(payment, why);
  }

  /** Says in the log, and in Florin under Needs attention, that no order is paid by the money of a payment. */
  protected async reportMissing({ id }: Payment, why: string): Promise<void> {
    this.logger?.error(`Florin: money arrived for the payment ${id}, but ${why}, so no order is paid by it. Refund it in Florin.`);
    await this.mark(id, `In Medusa, ${why}, so no order is paid by this payment.`);
  }

  protected async mark(id: string, order_missing: string): Promise<void> {
    try {
      await this.florin.payments.updateMetadata(id, { order_missing });
    } catch (error) {
      this.logger?.error(`Florin: the payment ${id} could not be marked as one without an order. ${(error as Error).message}`);
    }
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
  protected async create({ amount, currency: code, sessionId, collection, key, replaces, customer }: Wanted): Promise<Payment> {
    const currency = readCurrency(code);
    const params = {
      amount: readAmount(amount, currency),
      currency_fiat: currency,
      return_url: this.options.returnUrl.replaceAll('{session_id}', encodeURIComponent(sessionId)),
      // What the cart keeps while its sessions come and go.
      ...(collection !== null && { invoice_id: collection }),
      metadata: { session_id: sessionId, source: 'medusa', shop: this.shop },
    };
    type More = { replaces?: string | undefined; customer?: { email: string; name?: string } | undefined };
    const send = async ({ replaces, customer }: More, idempotencyKey: string): Promise<{ transaction_id: string }> => {
      const more = { ...(replaces !== undefined && { replaces }), ...(customer && { customer }) };
      try {
        return await this.florin.payments.createSimple({ ...params, ...more }, { idempotencyKey });
      } catch (error) {
        const param = error instanceof ApiError ? (error.param ?? '') : '';
        // An older Florin, or the customer started the former one again: the new one stands by itself.
        if (param === 'replaces' && replaces !== undefined) return send({ customer }, `${idempotencyKey}:alone`);
        if (!param.startsWith('customer') || !customer) throw error;
        // An address that Florin does not take, or an older Florin: who pays is worth less than the order.
        this.logger?.warn(`Florin: a payment names no customer. ${(error as Error).message}`);
        return send({ replaces }, `${idempotencyKey}:unnamed`);
      }
    };
    // Who signs in meanwhile makes it another request, which the same key would refuse.
    const named = customer === null ? '' : `:${hash('sha256', JSON.stringify(customer)).slice(0, 16)}`;
    return this.call(async () => {
      const wanted: More = { ...(replaces !== null && { replaces }), ...(customer && { customer }) };
      const { transaction_id } = await send(wanted, `medusa:${key}${named}`);
      return this.florin.payments.retrieve(transaction_id);
    });
  }

  protected read(id: string): Promise<Payment> {
    return this.call(() => this.florin.payments.retrieve(id));
  }

  /**
   * The payment of a session: the one that it was started with, or the one that the customer started on its page after that. The one
   * with the money, if any has it.
   */
  protected async current(id: string): Promise<Payment> {
    let payment = await this.read(id);
    while (payment.replaced_by && !(PAID.includes(payment.status) && !isReversed(payment))) {
      const next = await this.read(payment.replaced_by);
      // Another session of the cart may have replaced it.
      if (next.metadata.session_id !== payment.metadata.session_id) break;
      payment = next;
    }
    return payment;
  }

  /** Whether a shop asked for a payment, or its customer started one of those again. Anyone can create others with a public key, and write any metadata. */
  protected async isRequested(payment: Payment): Promise<boolean> {
    if (payment.created_with === 'secret') return true;
    return Boolean(payment.replaces) && this.isRequested(await this.read(payment.replaces!));
  }

  /** The shop that made a payment, which Florin compares when it acts on it. */
  protected shopOf({ metadata }: Payment): { shop?: string } {
    return metadata.shop === undefined ? {} : { shop: this.shop };
  }

  /** Whether a payment was made by this shop. Earlier versions did not name theirs. */
  protected owns({ metadata }: Payment): boolean {
    return metadata.shop === undefined || metadata.shop === this.shop;
  }

  /** Cancels a payment that has no money, so that nobody pays it any more. Errors: a MedusaError when it has some. */
  protected async giveUp(payment: Payment): Promise<Payment> {
    const closed = await this.tryCancel(payment);
    if (closed === null)
      throw refuse(`The customer has already sent money for the payment ${payment.id}. Refund it after it is completed.`);
    return closed;
  }

  /** The same, without an error: what has money stays as it is, and is named. */
  protected async closeUnpaid(payment: Payment, why: string): Promise<void> {
    if ((await this.tryCancel(payment)) !== null) return;
    const now = await this.read(payment.id);
    if (hasMoney(now)) return this.reportMoney(now, why);
    this.logger?.warn(
      `Florin: the payment ${payment.id} has money or may have some, and its cart has changed. If no order is paid by it, refund it in Florin.`,
    );
  }

  /**
   * Null when a payment has money: Florin decides at that moment. The same when an older Florin cannot look at that: it stays as it is. One that
   * ended, or is of another shop, is left alone.
   */
  protected async tryCancel(payment: Payment): Promise<Payment | null> {
    if (hasMoney(payment)) return null;
    if (payment.status !== 'pending' || !this.owns(payment)) return payment;
    try {
      return await this.florin.payments.cancel(payment.id, { only_if_unpaid: true, ...this.shopOf(payment) });
    } catch (error) {
      const code = error instanceof ApiError ? error.code : '';
      if (code === 'payment_has_money' || code === 'parameter_unknown') return null;
      if (code === 'payment_status_conflict') return this.read(payment.id);
      throw failureOf(error);
    }
  }

  /** Null outside of Medusa, and in versions that do not share them. */
  protected get sessions(): Sessions | null {
    try {
      return (this.container.paymentSessionService as Sessions | undefined) ?? null;
    } catch {
      // Medusa's container throws for names that it does not know.
      return null;
    }
  }

  protected async findSession(id: string, more: { select: string[]; relations: string[] } | null = null): Promise<Session | null> {
    const select = ['id', 'provider_id', 'payment_collection_id', ...(more?.select ?? [])];
    const found = await this.sessions?.list({ id }, { select, ...(more && { relations: more.relations }) });
    return found?.[0] ?? null;
  }

  /** The other sessions with Florin of the cart of a session: they use or replace its payment. */
  protected async othersOf(sessionId: string, collection: string | null): Promise<Session[]> {
    if (collection === null) return [];
    const all = (await this.sessions?.list({ payment_collection_id: collection }, { select: ['id', 'provider_id', 'status'] })) ?? [];
    return all.filter(({ id, provider_id }) => id !== sessionId && provider_id.startsWith('pp_florin'));
  }

  /** How much of the money of a payment went back, or will by a refund that is under way. */
  protected async givenBack(payment: Payment): Promise<'none' | 'some' | 'all'> {
    if (isReturned(payment)) return 'all';
    if (payment.status !== 'completed') return 'none';
    const { data } = await this.florin.refunds.list({ payment_id: payment.id, limit: 100 }).catch((error) => {
      // An older Florin has no refunds.
      if (error instanceof ApiError && error.code === 'unknown_route') return { data: [] };
      throw failureOf(error);
    });
    const counted = data.filter(({ status, currency }) => status !== 'canceled' && currency === payment.currency);
    const sum = counted.reduce((units, { amount }) => units + unitsOf(amount), 0n);
    // The price of the whole payment is refunded rounded down to cents.
    return sum === 0n ? 'none' : sum * 100n >= unitsOf(payment.amount) * 99n ? 'all' : 'some';
  }

  /** All payments that were made for a cart by this shop, the newest first. */
  protected async paymentsOf(collection: string): Promise<Payment[]> {
    const { data } = await this.call(() => this.florin.payments.list({ invoice_id: collection, limit: 100 }));
    const payments = await Promise.all(data.map(({ id }) => this.read(id)));
    const ids = new Set(payments.flatMap((one) => (one.created_with === 'secret' ? [one.id] : [])));
    // From the first to the latest, because each one that was started again follows another.
    for (const one of payments.toReversed()) if (one.replaces && ids.has(one.replaces)) ids.add(one.id);
    return payments.filter((one) => ids.has(one.id) && one.metadata.source === 'medusa' && this.owns(one));
  }

  protected isTakenNow({ id, status }: Session): boolean {
    return isTaken(status) || this.taken.has(id);
  }

  protected inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.turns.get(key) ?? Promise.resolve()).then(work, work);
    this.turns.set(key, turn);
    const end = () => this.turns.get(key) === turn && this.turns.delete(key);
    turn.then(end, end);
    return turn;
  }

  protected async requestRefund(body: object, key: string | undefined): Promise<{ id?: unknown; claim_url?: unknown }> {
    const send = createSend({ url: this.options.url, key: this.options.apiKey, fetch: namedFetch });
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
