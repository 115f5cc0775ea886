/** Charges as plugins and libraries read them. */
import type { Context } from '#context';
import { CHAIN, COIN, type Coin, isToken } from '#core/coin';
import { eventId } from '#core/id';
import { e8ToCents, formatUnits } from '#core/money';
import { type Exception, hasWrongCoin, type Transfer } from '#core/payment';
import { paymentUrl } from '#core/payment-detail';
import { asList, asObject, asText, oneOf } from '#core/stored-json';
import type { OnChain } from '#queries';
import type { ShopEvent } from '#webhooks';
import type { News, ToldInvoice } from '../shop-invoices.ts';
import { decided, moneyOf, type PaymentStanding } from '../shop-money.ts';

// What a shop learns about a charge: its timeline, whose last entry decides, and the events that lead to it. Pure. Money that arrives late
// is unresolved until the merchant accepts it, and so is a completed charge while its money is reversed.

const CHARGE_STATUSES = ['NEW', 'PENDING', 'COMPLETED', 'EXPIRED', 'CANCELED', 'UNRESOLVED', 'RESOLVED'] as const;
export type ChargeStatus = (typeof CHARGE_STATUSES)[number];
const CHARGE_CONTEXTS = ['UNDERPAID', 'DELAYED', 'OTHER'] as const;
type ChargeState = { status: Exclude<ChargeStatus, 'RESOLVED'>; context: (typeof CHARGE_CONTEXTS)[number] | null };
/** `time` as the protocol writes it. */
export type ChargeEntry = { status: ChargeStatus; context: ChargeState['context']; time: string };

type ChargeEventType = 'charge:created' | 'charge:pending' | 'charge:confirmed' | 'charge:failed' | 'charge:delayed' | 'charge:resolved';
/** An event with the timeline as it was then. */
export type ChargeEvent = { type: ChargeEventType; timeline: readonly ChargeEntry[] };

export function chargeState(payment: PaymentStanding): ChargeState {
  const has = (exception: Exception): boolean => payment.exceptions.includes(exception);
  const plain = (status: ChargeState['status']): ChargeState => ({ status, context: null });
  switch (payment.status) {
    case 'pending':
      return plain('NEW');
    case 'processing':
      return plain('PENDING');
    case 'completed':
      // The network took the money back: the order must not ship.
      return has('reorged') ? { status: 'UNRESOLVED', context: 'OTHER' } : plain('COMPLETED');
    case 'cancelled':
      return plain('CANCELED');
    case 'expired':
    case 'failed':
      if (has('late')) return { status: 'UNRESOLVED', context: 'DELAYED' };
      if (hasWrongCoin(payment.exceptions)) return { status: 'UNRESOLVED', context: 'OTHER' };
      // Not `RESOLVED`: plugins credit the order on it.
      if (decided(payment) === 'reject') return plain('CANCELED');
      if (has('underpaid')) return { status: 'UNRESOLVED', context: 'UNDERPAID' };
      return plain(payment.status === 'expired' ? 'EXPIRED' : 'CANCELED');
  }
}

const timeOf = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`;
/** How many entries a timeline keeps: the first, and the last ones. */
const MOST_ENTRIES = 50;

type Moment = { createdAt: Date; now: Date };
/** The timeline as it is now, and an event for each step that leads there. What happened in between and is over is left out. */
export function chargeSince(
  known: readonly ChargeEntry[],
  payment: PaymentStanding,
  { createdAt, now }: Moment,
): { timeline: readonly ChargeEntry[]; events: ChargeEvent[] } {
  let timeline = known;
  const events: ChargeEvent[] = [];
  const add = (type: ChargeEventType, ...entries: ChargeEntry[]): void => {
    const all = [...timeline, ...entries];
    timeline = all.length > MOST_ENTRIES ? [all[0]!, ...all.slice(1 - MOST_ENTRIES)] : all;
    events.push({ type, timeline });
  };
  const entry = (status: ChargeStatus, context: ChargeState['context'] = null): ChargeEntry => ({ status, context, time: timeOf(now) });
  if (known.length === 0) add('charge:created', { ...entry('NEW'), time: timeOf(createdAt) });
  const last = timeline.at(-1)!;
  const { status, context } = chargeState(payment);
  const isReversed = payment.status === 'completed' && status === 'UNRESOLVED';
  // Plugins have delivered on `COMPLETED`: only a reversal follows. A charge is never new again: it stays pending when its money vanishes,
  // until its window ends.
  const isSame = last.status === status && last.context === context;
  if ((last.status === 'COMPLETED' && !isReversed) || status === 'NEW' || isSame) return { timeline, events };
  if (status === 'COMPLETED') {
    const isBack = timeline.some((one) => one.status === 'COMPLETED');
    if (last.status !== 'PENDING' && !isBack) add('charge:pending', entry('PENDING'));
    if (isBack || decided(payment) === 'accept') add('charge:resolved', entry('RESOLVED'), entry('COMPLETED'));
    else add('charge:confirmed', entry('COMPLETED'));
    return { timeline, events };
  }
  // Money is late after the charge expired, even if the shop was not notified in between.
  if (context === 'DELAYED' && (last.status === 'NEW' || last.status === 'PENDING')) add('charge:failed', entry('EXPIRED'));
  add(eventOf(status, context), entry(status, context));
  return { timeline, events };
}

/** The event that leads to a state that is not completed. */
function eventOf(status: ChargeStatus, context: ChargeState['context']): ChargeEventType {
  if (status === 'NEW') return 'charge:created';
  if (status === 'PENDING') return 'charge:pending';
  return context === 'DELAYED' ? 'charge:delayed' : 'charge:failed';
}

/** The event that says how the charge is now. */
export function currentEvent(timeline: readonly ChargeEntry[]): ChargeEvent {
  const { status, context } = timeline.at(-1)!;
  if (status !== 'COMPLETED') return { type: eventOf(status, context), timeline };
  return { type: timeline.at(-2)?.status === 'RESOLVED' ? 'charge:resolved' : 'charge:confirmed', timeline };
}

/** The timeline that a shop knows, as it is stored. */
const timelineOf = (told: unknown): ChargeEntry[] =>
  asList(asObject(told).timeline).map((value) => {
    const { status, context, time } = asObject(value);
    return { status: oneOf(CHARGE_STATUSES, status) ?? 'NEW', context: oneOf(CHARGE_CONTEXTS, context), time: asText(time) ?? '' };
  });

/** What follows from the payment for a shop that knows this timeline. */
export const sinceTold = ({ view }: OnChain, { told }: Pick<ToldInvoice, 'told'>) =>
  chargeSince(timelineOf(told), view.facts, { createdAt: view.facts.createdAt, now: view.now });

/** The coin as the protocol names networks: `bitcoin`, `ethereum`, `usdc`. */
const networkOf = (coin: Coin): string => (isToken(coin) ? COIN[coin].asset.toLowerCase() : CHAIN[COIN[coin].chain].chain);

/** JSON text: the metadata in it is what the shop sent. */
export function chargeJson(
  ctx: Context,
  payment: OnChain,
  { invoice, timeline }: { invoice: ToldInvoice; timeline: readonly ChargeEntry[] },
) {
  const { view } = payment;
  const { facts, settlement } = view;
  const { charge, redirectUrl } = invoice.checkout;
  const { amount, currency } = moneyOf(view);
  const last = timeline.at(-1);
  const confirmedAt = last?.status === 'COMPLETED' ? last.time : undefined;
  const body = {
    id: facts.id,
    resource: 'charge',
    code: facts.id,
    name: charge?.name ?? '',
    description: charge?.description ?? '',
    hosted_url: paymentUrl(ctx.settings.paymentPageUrl, facts.id),
    created_at: facts.createdAt.toISOString(),
    expires_at: settlement.expiresAt.toISOString(),
    ...(confirmedAt !== undefined && { confirmed_at: confirmedAt }),
    pricing_type: 'fixed_price',
    pricing: { local: { amount, currency } },
    addresses: Object.fromEntries(facts.quotes.map(({ coin, address }) => [networkOf(coin), address])),
    payments: paymentsOf(payment),
    timeline: timeline.map(({ context, ...entry }) => (context === null ? entry : { ...entry, context })),
    redirect_url: redirectUrl,
    cancel_url: charge?.cancelUrl ?? null,
  };
  return `${JSON.stringify(body).slice(0, -1)},"metadata":${invoice.metadata}}`;
}

/** Money that counts, and money that waits for the merchant. Shops credit orders with the local amounts: none of money that was returned. */
function paymentsOf({ view, standings }: OnChain): object[] {
  const { facts } = view;
  const isCompleted = facts.status === 'completed';
  const shown = view.transfers.flatMap((t, i) => {
    const { role, state } = standings[i]!;
    return role === 'counted' || (role === 'held' && !isCompleted) ? [{ t, isConfirmed: state === 'confirmed' }] : [];
  });
  const money = moneyOf(view);
  // Within the tolerance, a shop credits exactly the price: the last transfer has what the others leave of it.
  const isPrice =
    isCompleted && !facts.exceptions.some((name) => name === 'underpaid' || name === 'overpaid') && decided(facts) !== 'accept';
  const before = shown.slice(0, -1).reduce((sum, { t }) => sum + centsOf(t), 0n);
  const rest = isPrice && before < facts.targetUsdCents ? facts.targetUsdCents - before : null;
  return shown.map(({ t, isConfirmed }, i) => {
    const isLast = i === shown.length - 1;
    const cents = isLast && rest !== null ? rest : centsOf(t);
    return {
      network: networkOf(t.coin),
      transaction_id: t.txid ?? t.ref,
      status: isConfirmed ? 'CONFIRMED' : 'PENDING',
      detected_at: t.firstSeenAt.toISOString(),
      value: {
        local: { amount: isPrice && shown.length === 1 ? money.amount : money.ofCents(cents), currency: money.currency },
        crypto: { amount: formatUnits(t.coin, t.units), currency: COIN[t.coin].asset },
      },
      block: { height: t.block?.height ?? null, hash: t.block?.hash ?? null },
    };
  });
}
/** The worth of a transfer; zero while it has no price. */
const centsOf = ({ values }: Transfer): bigint => e8ToCents(values.at(-1)?.usdE8 ?? 0n);

// The events of a charge as webhooks carry them. The envelope around them is that of each attempt.

const API_VERSION = '2018-03-22';

/** The events of a payment that its shop does not know yet. */
export function chargeNews(ctx: Context, payment: OnChain, invoice: ToldInvoice): News {
  const { timeline, events } = sinceTold(payment, invoice);
  return {
    events: events.map((event, i) => shopEvent(ctx, payment, invoice, { event, sequence: invoice.toldSequence + BigInt(i) + 1n })),
    told: { v: 1, timeline },
  };
}

/** The event that says how the charge is now, for a shop that may have missed others. */
export function currentCharge(ctx: Context, payment: OnChain, invoice: ToldInvoice): ShopEvent {
  const event = currentEvent(sinceTold(payment, invoice).timeline);
  return shopEvent(ctx, payment, invoice, { event, sequence: invoice.toldSequence + 1n });
}

function shopEvent(
  ctx: Context,
  payment: OnChain,
  invoice: ToldInvoice,
  { event, sequence }: { event: ChargeEvent; sequence: bigint },
): ShopEvent {
  const { merchantId, facts, now } = payment.view;
  const id = eventId(ctx.installKey, [facts.id, 'commerce', event.type, String(sequence)]);
  const head = { id, resource: 'event', type: event.type, api_version: API_VERSION, created_at: now.toISOString() };
  const charge = chargeJson(ctx, payment, { invoice, timeline: event.timeline });
  return {
    ...{ id, merchantId, mode: facts.mode, paymentId: facts.id, dialect: 'commerce', lineId: invoice.lineId, type: event.type, sequence },
    body: `${JSON.stringify(head).slice(0, -1)},"data":${charge}}`,
  };
}
