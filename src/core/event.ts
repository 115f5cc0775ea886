/** The types of events, who gets them, and the version of their bodies. */
import { invariant } from './invariant.ts';

export const EVENT_TYPES = [
  'payment.created',
  'payment.processing',
  'payment.completed',
  'payment.failed',
  'payment.expired',
  'payment.cancelled',
] as const;
/** Additive; sent only to endpoints that list it. */
export const UPDATED_EVENT = 'payment.updated';
/** Additive; a completed payment lost its money. */
export const REVERSED_EVENT = 'payment.reversed';
/** What `*` stands for: `payment.reversed` takes back what `payment.completed` said, so who receives one needs the other. */
export const STAR_EVENTS = [...EVENT_TYPES, REVERSED_EVENT] as const;
/** Additive; sent only to endpoints that list them: a refund of the payment reached another state. */
const REFUND_EVENTS = [
  'refund.requested',
  'refund.approved',
  'refund.sent',
  'refund.confirmed',
  'refund.failed',
  'refund.canceled',
] as const;
type RefundEventType = (typeof REFUND_EVENTS)[number];
export const isRefundEvent = (type: string): type is RefundEventType => REFUND_EVENTS.some((known) => known === type);
/** Additive; sent only to endpoints that list them: a payout reached another state. They belong to no payment. */
export const PAYOUT_EVENTS = [
  'payout.requested',
  'payout.approved',
  'payout.sent',
  'payout.confirmed',
  'payout.failed',
  'payout.canceled',
] as const;
type PayoutEventType = (typeof PAYOUT_EVENTS)[number];
export const isPayoutEvent = (type: string): type is PayoutEventType => PAYOUT_EVENTS.some((known) => known === type);
export const PAYMENT_EVENTS = [...EVENT_TYPES, UPDATED_EVENT, REVERSED_EVENT, ...REFUND_EVENTS, ...PAYOUT_EVENTS] as const;
export const TEST_EVENT = 'webhook.test';
export type EventType = (typeof PAYMENT_EVENTS)[number];
/** What an endpoint subscribes to; `*` stands for `STAR_EVENTS`. */
export const ENDPOINT_EVENTS = ['*', ...PAYMENT_EVENTS] as const;
export type EndpointEvent = (typeof ENDPOINT_EVENTS)[number];
/** Events in the words of the plugins of shops; sent only to their endpoints. */
export const SHOP_EVENTS = [
  'InvoiceCreated',
  'InvoiceReceivedPayment',
  'InvoicePaymentSettled',
  'InvoiceProcessing',
  'InvoiceSettled',
  'InvoiceExpired',
  'InvoiceInvalid',
] as const;
/** What a delivery carries. */
export const DELIVERED_EVENTS = [...PAYMENT_EVENTS, TEST_EVENT] as const;
export type DeliveredEvent = (typeof DELIVERED_EVENTS)[number] | (typeof SHOP_EVENTS)[number];

export const API_VERSION = '2026-11-01';

/** Events of a payment are numbered from 1 in the order in which they happen, without a gap. */
export function checkOrder(events: readonly { paymentId: string; sequence: bigint }[]): void {
  const last = new Map<string, bigint>();
  for (const { paymentId, sequence } of events) {
    const before = last.get(paymentId);
    invariant(sequence > 0n && (before === undefined || sequence === before + 1n), `the events of ${paymentId} follow one another`);
    last.set(paymentId, sequence);
  }
}
