/** The events of a charge as webhooks carry them. The envelope around them is that of each attempt. */
import type { Context } from '../../context.ts';
import { eventId } from '../../core/id.ts';
import type { OnChain } from '../../payments/queries.ts';
import type { ShopEvent } from '../../webhooks/events.ts';
import type { News, ToldInvoice } from '../shop-invoices.ts';
import { chargeJson, sinceTold } from './charge-body.ts';
import { type ChargeEvent, currentEvent } from './charge-states.ts';

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
