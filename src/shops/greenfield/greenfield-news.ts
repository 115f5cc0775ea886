/** The events of an invoice as webhooks carry them, in the form of the protocol. */
import type { Context } from '../../context.ts';
import { eventId } from '../../core/id.ts';
import type { Transfer } from '../../core/payment.ts';
import { asBoolean, asObject, asTexts, oneOf } from '../../core/stored-json.ts';
import type { OnChain } from '../../payments/queries.ts';
import type { ShopEvent } from '../../webhooks/events.ts';
import { methodOf } from '../payment-methods.ts';
import type { News, ToldInvoice } from '../shop-invoices.ts';
import { storeIdOf } from '../shop-keys.ts';
import { hasMattered } from '../shop-money.ts';
import { paymentOf, seconds } from './invoice-body.ts';
import {
  type Arrived,
  eventsSince,
  INVOICE_STATUSES,
  type InvoiceEvent,
  type InvoiceEventType,
  type InvoiceHistory,
  invoiceState,
} from './invoice-states.ts';

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

type Shown = Arrived & { t: Transfer };
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
