/** Invoices and their payment methods as plugins read them. Amounts are text, times are seconds, and what is not set is null. */
import { paymentUri } from '#addresses';
import type { Context } from '#context';
import { COIN, type Coin, type ConfirmationTier } from '#core/coin';
import { confirmationTier } from '#core/confirmation';
import { DAY_MS } from '#core/dates';
import { fiatDecimals, isFiat } from '#core/fiat';
import { eventId } from '#core/id';
import { E8, formatDecimal, formatUnits } from '#core/money';
import { type Exception, hasWrongCoin, type PaymentFacts, type Transfer } from '#core/payment';
import { seenCents } from '#core/payment-detail';
import type { PaymentView } from '#core/payment-view';
import { asBoolean, asObject, asTexts, oneOf } from '#core/stored-json';
import type { OnChain } from '#queries';
import type { ShopEvent } from '#webhooks';
import type { News, ToldInvoice } from '../shop-invoices.ts';
import { storeIdOf } from '../shop-keys.ts';
import { decided, hasMattered, methodOf, moneyOf, type PaymentStanding } from '../shop-money.ts';

/** Where the protocol is served. Plugins are given this address, and their scripts take theirs from it. */
export const GREENFIELD_PATH = '/btcpay';
export const greenfieldUrl = ({ settings }: Context): string => settings.publicUrl + GREENFIELD_PATH;

export const seconds = (at: Date): number => Math.floor(at.getTime() / 1000);

/** What a shop may mark the invoice as: what the merchant could decide now. Money that arrived is accepted or rejected once the invoice ended. */
export function possibleMarks(payment: OnChain): ('Settled' | 'Invalid')[] {
  const { facts, transfersCount } = payment.view;
  const hasMoney = payment.standings.some(({ role }) => role === 'counted' || role === 'held');
  switch (facts.status) {
    case 'pending':
      // Shops cancel orders by the clock. What arrived would be in a canceled payment.
      return transfersCount > 0 ? [] : ['Invalid'];
    case 'expired':
    case 'failed':
      return hasMoney ? ['Settled', 'Invalid'] : [];
    case 'cancelled':
      return hasMoney ? ['Settled'] : [];
    case 'processing':
    case 'completed':
      return [];
  }
}

/** JSON text: the metadata in it is what the plugin sent. */
export function invoiceJson(ctx: Context, payment: OnChain, invoice: ToldInvoice): string {
  const { view } = payment;
  const { facts, settlement } = view;
  const money = moneyOf(view);
  // As in BTCPay, what came late was paid too; the state of the invoice says that it is not settled.
  const paidCents = seenCents(settlement);
  // The amount due was rounded up to what the coin can carry.
  const isExact = settlement.seenUnits === settlement.amountUnits;
  const { redirectUrl, redirectAutomatically, language, coins } = invoice.checkout;
  const body = {
    id: facts.id,
    storeId: storeIdOf({ merchantId: view.merchantId, mode: facts.mode }),
    amount: money.amount,
    paidAmount: paidCents === 0n ? '0' : isExact ? money.amount : money.ofCents(paidCents),
    currency: money.currency,
    type: 'Standard',
    checkoutLink: `${greenfieldUrl(ctx)}/i/${facts.id}`,
    createdTime: seconds(facts.createdAt),
    expirationTime: seconds(settlement.expiresAt),
    monitoringExpiration: seconds(new Date(settlement.expiresAt.getTime() + DAY_MS)),
    ...invoiceState(facts),
    availableStatusesForManualMarking: possibleMarks(payment),
    archived: invoice.archived,
    checkout: {
      speedPolicy: speedPolicy(facts, coins),
      paymentMethods: coins.map(methodOf),
      defaultPaymentMethod: null,
      lazyPaymentMethods: null,
      expirationMinutes: Math.floor(facts.rules.windowSeconds / 60),
      monitoringMinutes: 1440,
      paymentTolerance: facts.rules.toleranceBasisPoints / 100,
      redirectURL: redirectUrl,
      redirectAutomatically,
      defaultLanguage: language,
    },
    receipt: { enabled: null, showQR: null, showPayments: null },
  };
  return `${JSON.stringify(body).slice(0, -1)},"metadata":${invoice.metadata}}`;
}

/** `<txid>-<n>`: plugins read the part before the first dash as the transaction. */
function paymentId({ ref, txid }: Pick<Transfer, 'ref' | 'txid'>): string {
  const index = /:(\d+)$/.exec(ref)?.[1] ?? '0';
  return txid === null ? ref.replace(/[^0-9A-Za-z]+/g, '_').concat('-0') : `${txid}-${index}`;
}

/** A transfer as a payment of the protocol. */
const paymentOf = (t: Transfer, isSettled: boolean) => ({
  id: paymentId(t),
  receivedDate: seconds(t.firstSeenAt),
  value: formatUnits(t.coin, t.units),
  fee: '0',
  status: isSettled ? 'Settled' : 'Processing',
  destination: t.address,
});

/** One element for each coin that the payer chose; once money arrived, only for the coins it arrived in: plugins refuse a mixture. */
export function paymentMethods(ctx: Context, { view, standings }: OnChain) {
  const arrived = view.transfers.flatMap((t, i) =>
    hasMattered(standings[i]!) ? [{ t, isSettled: standings[i]!.state === 'confirmed' }] : [],
  );
  const chosen = [...new Set(view.facts.quotes.map(({ coin }) => coin))];
  const received = [...new Set(arrived.map(({ t }) => t.coin))];
  return (received.length > 0 ? received : chosen).map((coin) =>
    methodBody(
      ctx,
      view,
      coin,
      arrived.filter(({ t }) => t.coin === coin),
    ),
  );
}

function methodBody(ctx: Context, view: PaymentView, coin: Coin, payments: readonly { t: Transfer; isSettled: boolean }[]) {
  const { settlement, facts } = view;
  const quote = facts.quotes.findLast((one) => one.coin === coin) ?? null;
  const isShown = settlement.coin === coin;
  const total = payments.reduce((sum, { t }) => sum + t.units, 0n);
  const amount = facts.fixed?.coin === coin ? facts.fixed.units : (quote?.units ?? 0n);
  const due = isShown ? settlement.remainingUnits : amount > total ? amount - total : 0n;
  const destination = quote?.address ?? payments[0]?.t.address ?? '';
  const uri = {
    coin,
    address: destination,
    units: due,
    network: ctx.settings.networks[COIN[coin].chain],
    ethChainId: ctx.settings.ethChainId,
  };
  const text = (units: bigint) => formatUnits(coin, units);
  return {
    paymentMethodId: methodOf(coin),
    currency: COIN[coin].asset,
    destination,
    paymentLink: paymentUri(uri),
    rate: rateOf(view, coin),
    paymentMethodPaid: text(total),
    totalPaid: text(total),
    due: text(due),
    amount: text(amount),
    paymentMethodFee: '0',
    payments: payments.map(({ t, isSettled }) => paymentOf(t, isSettled)),
    activated: true,
    additionalData: {},
    // Older libraries read these names.
    paymentMethod: methodOf(coin),
    networkFee: '0',
    cryptoCode: COIN[coin].asset,
  };
}

/** What one coin costs in the currency of the invoice. */
function rateOf({ facts, request: { fiat } }: PaymentView, coin: Coin): string {
  if (facts.fixed) return '1';
  const rateE8 = facts.quotes.findLast((quote) => quote.coin === coin)?.rateE8 ?? null;
  if (rateE8 === null) return '0';
  const decimals = fiat && isFiat(fiat.currency) ? fiatDecimals(fiat.currency) : 2;
  return formatDecimal((rateE8 * (fiat?.rateE8 ?? E8)) / E8, 8, decimals);
}

// How many confirmations an invoice waits for, in the names of the protocol.

export const SPEED_POLICIES = ['HighSpeed', 'MediumSpeed', 'LowMediumSpeed', 'LowSpeed'] as const;
type SpeedPolicy = (typeof SPEED_POLICIES)[number];
export const SPEED_CONFIRMATIONS: Readonly<Record<SpeedPolicy, number>> = { HighSpeed: 0, MediumSpeed: 1, LowMediumSpeed: 2, LowSpeed: 6 };

/** The slowest policy that the payment is at least as strict as, in the fastest of its coins. */
function speedPolicy(facts: PaymentFacts, coins: readonly Coin[]): SpeedPolicy {
  const counts = coins.map((coin) => blocksOf(confirmationTier(facts, coin, facts.targetUsdCents)));
  const least = counts.length === 0 ? 1 : Math.min(...counts);
  return SPEED_POLICIES.findLast((policy) => SPEED_CONFIRMATIONS[policy] <= least)!;
}

/** How many blocks a tier waits for; locks come before or with the first one, and final blocks after many. */
function blocksOf({ rule, confirmations }: ConfirmationTier): number {
  switch (rule) {
    case 'confirmations':
      return Math.max(1, confirmations);
    case 'instantsend':
    case 'preimage':
      return 0;
    case 'instantsend_or_chainlock':
    case 'chainlock':
      return 1;
    case 'safe':
    case 'finalized':
      return Number.POSITIVE_INFINITY;
  }
}

// What a shop learns about a payment, in the words of its plugin: the status of the invoice, and the events that lead from what the shop
// knows to how the payment is now. Pure. `PaidLate` is never sent, because plugins ship goods on it.

export const INVOICE_STATUSES = ['New', 'Processing', 'Settled', 'Expired', 'Invalid'] as const;
export type InvoiceStatus = (typeof INVOICE_STATUSES)[number];
type AdditionalStatus = 'None' | 'PaidPartial' | 'PaidOver' | 'Marked';
type InvoiceState = { status: InvoiceStatus; additionalStatus: AdditionalStatus };

export function invoiceState(payment: PaymentStanding): InvoiceState {
  const has = (exception: Exception): boolean => payment.exceptions.includes(exception);
  switch (payment.status) {
    case 'pending':
      return { status: 'New', additionalStatus: has('underpaid') ? 'PaidPartial' : 'None' };
    case 'processing':
      return { status: 'Processing', additionalStatus: has('overpaid') ? 'PaidOver' : 'None' };
    case 'completed':
      return { status: 'Settled', additionalStatus: decided(payment) === 'accept' ? 'Marked' : has('overpaid') ? 'PaidOver' : 'None' };
    case 'cancelled':
      return { status: 'Invalid', additionalStatus: 'Marked' };
    case 'expired':
    case 'failed':
      // Money that waits for the merchant. `PaidPartial` until it is accepted: on `PaidLate`, shops deliver.
      if (has('late') || hasWrongCoin(payment.exceptions)) return { status: 'Expired', additionalStatus: 'PaidPartial' };
      if (decided(payment) === 'reject') return { status: 'Invalid', additionalStatus: 'Marked' };
      if (has('underpaid')) return { status: 'Expired', additionalStatus: 'PaidPartial' };
      return { status: payment.status === 'expired' ? 'Expired' : 'Invalid', additionalStatus: 'None' };
  }
}

/** A transfer that arrived, whether it counts or not. */
export type ArrivedTransfer = { ref: string; coin: Coin; isSettled: boolean; isLate: boolean };

export type InvoiceEvent =
  | { type: 'InvoiceCreated' }
  | { type: 'InvoiceReceivedPayment' | 'InvoicePaymentSettled'; ref: string; afterExpiration: boolean }
  | { type: 'InvoiceProcessing'; overPaid: boolean }
  | { type: 'InvoiceSettled'; manuallyMarked: boolean; overPaid: boolean }
  | { type: 'InvoiceExpired'; partiallyPaid: boolean }
  | { type: 'InvoiceInvalid'; manuallyMarked: boolean };
type InvoiceEventType = InvoiceEvent['type'];

/** What a shop knows from the events before. */
export type InvoiceHistory = {
  /** Null before the first event. */
  status: InvoiceStatus | null;
  /** That the invoice ended without being paid. */
  hasEnded: boolean;
  /** The transfers that were reported when they arrived, and when they were confirmed. */
  seen: readonly string[];
  settled: readonly string[];
};
export const NOTHING_TOLD: InvoiceHistory = { status: null, hasEnded: false, seen: [], settled: [] };

/** The events that bring a shop from what it knows to how the payment is now. What happened in between and is over is left out. */
export function eventsSince(
  told: InvoiceHistory,
  payment: PaymentStanding,
  arrived: readonly ArrivedTransfer[],
): { events: InvoiceEvent[]; told: InvoiceHistory } {
  const events: InvoiceEvent[] = told.status === null ? [{ type: 'InvoiceCreated' }] : [];
  const before = told.status ?? 'New';
  // Plugins ignore everything after `InvoiceSettled`.
  if (before === 'Settled') return { events, told };
  const { status, additionalStatus } = invoiceState(payment);
  const fresh = arrived.filter(({ ref }) => !told.seen.includes(ref));
  const hasEnded = status === 'Expired' || status === 'Invalid';
  // What arrives after the end is reported after it.
  const isAfter = ({ isLate }: ArrivedTransfer): boolean => isLate && hasEnded && !told.hasEnded;
  const received = ({ ref, isLate }: ArrivedTransfer): InvoiceEvent => ({
    ...{ type: 'InvoiceReceivedPayment', ref, afterExpiration: isLate || told.hasEnded },
  });
  events.push(...fresh.filter((one) => !isAfter(one)).map(received));
  const isPaid = status === 'Processing' || status === 'Settled';
  if (isPaid && before !== 'Processing') events.push({ type: 'InvoiceProcessing', overPaid: additionalStatus === 'PaidOver' });
  // After an end, confirmed transfers lead plugins to ask for manual checks. What comes next says everything.
  const confirmed = told.hasEnded
    ? []
    : arrived.filter(({ ref, isSettled, isLate }) => isSettled && !isLate && !told.settled.includes(ref));
  for (const { ref } of confirmed) events.push({ type: 'InvoicePaymentSettled', ref, afterExpiration: false });
  const manuallyMarked = additionalStatus === 'Marked';
  if (status === 'Settled') events.push({ type: 'InvoiceSettled', manuallyMarked, overPaid: additionalStatus === 'PaidOver' });
  if (status === 'Expired' && before !== 'Expired' && before !== 'Invalid')
    events.push({ type: 'InvoiceExpired', partiallyPaid: additionalStatus === 'PaidPartial' && arrived.some(({ isLate }) => !isLate) });
  if (status === 'Invalid' && before !== 'Invalid' && (before !== 'Expired' || manuallyMarked))
    events.push({ type: 'InvoiceInvalid', manuallyMarked });
  events.push(...fresh.filter(isAfter).map(received));
  return {
    events,
    told: {
      status,
      hasEnded: told.hasEnded || hasEnded,
      seen: [...told.seen, ...fresh.map(({ ref }) => ref)],
      settled: [...told.settled, ...confirmed.map(({ ref }) => ref)],
    },
  };
}

// The events of an invoice as webhooks carry them, in the form of the protocol.

/** How many transfers are remembered, which is more than a payment shows. */
const MOST_REFS = 200;

const toldFromJson = (value: unknown): InvoiceHistory => {
  const stored = asObject(value);
  return {
    status: oneOf(INVOICE_STATUSES, stored.status),
    hasEnded: asBoolean(stored.hasEnded) ?? false,
    seen: asTexts(stored.seen),
    settled: asTexts(stored.settled),
  };
};

type Shown = ArrivedTransfer & { t: Transfer };
/** The transfers that arrived, in the order in which they were first seen. */
const arrivedIn = (payment: OnChain): Shown[] =>
  payment.view.transfers
    .flatMap((t, i) => {
      const standing = payment.standings[i]!;
      const isSettled = standing.state === 'confirmed';
      const isLate = t.firstSeenAt > payment.view.settlement.expiresAt;
      return hasMattered(standing) ? [{ t, ref: t.ref, coin: t.coin, isSettled, isLate }] : [];
    })
    .toSorted((a, b) => a.t.firstSeenAt.getTime() - b.t.firstSeenAt.getTime());

/** The events of a payment that its shop does not know yet. */
export function greenfieldNews(ctx: Context, payment: OnChain, invoice: ToldInvoice): News {
  const arrived = arrivedIn(payment);
  const { events, told } = eventsSince(toldFromJson(invoice.told), payment.view.facts, arrived);
  const byRef = new Map(arrived.map((one) => [one.ref, one]));
  return {
    events: events.map((event, i) => shopEvent(ctx, payment, invoice, { event, byRef, sequence: invoice.toldSequence + BigInt(i) + 1n })),
    told: { v: 1, ...told, seen: told.seen.slice(-MOST_REFS), settled: told.settled.slice(-MOST_REFS) },
  };
}

/** The event that says how the invoice is now, for a shop that may have missed others. */
export function currentNews(ctx: Context, payment: OnChain, invoice: ToldInvoice): ShopEvent {
  const event = eventOfState(payment);
  return shopEvent(ctx, payment, invoice, { event, byRef: new Map(), sequence: invoice.toldSequence + 1n });
}
function eventOfState({ view: { facts } }: OnChain): InvoiceEvent {
  const { status, additionalStatus } = invoiceState(facts);
  const overPaid = additionalStatus === 'PaidOver';
  const manuallyMarked = additionalStatus === 'Marked';
  switch (status) {
    case 'New':
      return { type: 'InvoiceCreated' };
    case 'Processing':
      return { type: 'InvoiceProcessing', overPaid };
    case 'Settled':
      return { type: 'InvoiceSettled', manuallyMarked, overPaid };
    case 'Expired':
      return { type: 'InvoiceExpired', partiallyPaid: additionalStatus === 'PaidPartial' };
    case 'Invalid':
      return { type: 'InvoiceInvalid', manuallyMarked };
  }
}

type One = { event: InvoiceEvent; byRef: ReadonlyMap<string, Shown>; sequence: bigint };
function shopEvent(ctx: Context, { view }: OnChain, invoice: ToldInvoice, { event, byRef, sequence }: One): ShopEvent {
  const { id, mode } = view.facts;
  const owner = { merchantId: view.merchantId, mode };
  const body = {
    type: event.type satisfies InvoiceEventType,
    timestamp: seconds(view.now),
    storeId: storeIdOf(owner),
    invoiceId: id,
    ...detailOf(event, byRef),
  };
  return {
    id: eventId(ctx.installKey, [id, 'greenfield', event.type, String(sequence)]),
    ...owner,
    paymentId: id,
    dialect: 'greenfield',
    lineId: invoice.lineId,
    type: event.type,
    sequence,
    body: `${JSON.stringify(body).slice(0, -1)},"metadata":${invoice.metadata}}`,
  };
}

function detailOf(event: InvoiceEvent, byRef: ReadonlyMap<string, Shown>): object {
  if (!('ref' in event)) {
    const { type: _, ...flags } = event;
    return flags;
  }
  const { t } = byRef.get(event.ref)!;
  return {
    afterExpiration: event.afterExpiration,
    paymentMethodId: methodOf(t.coin),
    payment: paymentOf(t, event.type === 'InvoicePaymentSettled'),
  };
}
