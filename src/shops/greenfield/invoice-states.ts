/**
 * What a shop learns about a payment, in the words of its plugin: the status of the invoice, and the events that lead from what the shop
 * knows to how the payment is now. Pure. `PaidLate` is never sent, because plugins ship goods on it.
 */
import type { Coin } from '../../core/coin.ts';
import { type Exception, hasWrongCoin } from '../../core/payment.ts';
import { decided, type Standing } from '../standing.ts';

export const INVOICE_STATUSES = ['New', 'Processing', 'Settled', 'Expired', 'Invalid'] as const;
export type InvoiceStatus = (typeof INVOICE_STATUSES)[number];
export type AdditionalStatus = 'None' | 'PaidPartial' | 'PaidOver' | 'Marked';
export type InvoiceState = { status: InvoiceStatus; additionalStatus: AdditionalStatus };

export function invoiceState(payment: Standing): InvoiceState {
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
export type Arrived = { ref: string; coin: Coin; isSettled: boolean; isLate: boolean };

export type InvoiceEvent =
  | { type: 'InvoiceCreated' }
  | { type: 'InvoiceReceivedPayment' | 'InvoicePaymentSettled'; ref: string; afterExpiration: boolean }
  | { type: 'InvoiceProcessing'; overPaid: boolean }
  | { type: 'InvoiceSettled'; manuallyMarked: boolean; overPaid: boolean }
  | { type: 'InvoiceExpired'; partiallyPaid: boolean }
  | { type: 'InvoiceInvalid'; manuallyMarked: boolean };
export type InvoiceEventType = InvoiceEvent['type'];

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
  payment: Standing,
  arrived: readonly Arrived[],
): { events: InvoiceEvent[]; told: InvoiceHistory } {
  const events: InvoiceEvent[] = told.status === null ? [{ type: 'InvoiceCreated' }] : [];
  const before = told.status ?? 'New';
  // Plugins ignore everything after `InvoiceSettled`.
  if (before === 'Settled') return { events, told };
  const { status, additionalStatus } = invoiceState(payment);
  const fresh = arrived.filter(({ ref }) => !told.seen.includes(ref));
  const hasEnded = status === 'Expired' || status === 'Invalid';
  // What arrives after the end is reported after it.
  const isAfter = ({ isLate }: Arrived): boolean => isLate && hasEnded && !told.hasEnded;
  const received = ({ ref, isLate }: Arrived): InvoiceEvent => ({
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
