/** What `expand` adds to a reply: the objects that it otherwise names only by their IDs. */
import type { Context } from '#context';
import { isPayoutEvent, isRefundEvent } from '#core/event';
import { paymentDetail } from '#core/payment-detail';
import type { PaymentView } from '#core/payment-view';
import { Problem } from '#core/problem';
import { getRefundsOfPayments, type Refund, refundDetail } from '#outgoing';
import { getPayments } from '#queries';
import type { Query } from './read.ts';
import { type Caller, mine } from './route.ts';
import { SHOWN_REFUNDS } from './schema-refunds.ts';

type Reader = { ctx: Context; owner: Caller };

/** Whether the request names the object: `expand=payment`, `expand[]=payment`, `expand[0]=payment` or, of a list, `expand[]=data.payment`. */
export function readExpand(query: Query, name: 'payment' | 'refunds'): boolean {
  const given = Object.entries(query).flatMap(([param, value]) => (/^expand(\[|$)/.test(param) ? [value].flat() : []));
  if (given.some((value) => value !== name && value !== `data.${name}`))
    throw new Problem('parameter_invalid', { reason: `it must be ${name}` }, { param: 'expand' });
  return given.length > 0;
}

/** A refund, as far as the key may see it: a person with the claim link enters the address that is paid. */
export function refundBody({ ctx, owner }: Reader, refund: Refund) {
  const detail = refundDetail(ctx, refund);
  return owner.permissions.includes('refunds') ? detail : { ...detail, claim_url: null };
}

/** Refunds, with their payments if `expand` names them. */
export async function refundBodies(reader: Reader, refunds: readonly Refund[], { expand }: { expand: boolean }) {
  const paymentOf = expand
    ? await paymentsById(
        reader,
        refunds.map(({ paymentId }) => paymentId),
      )
    : null;
  return refunds.map((refund) => ({
    ...refundBody(reader, refund),
    ...(paymentOf && { payment: paymentOf.get(refund.paymentId)! }),
  }));
}

/** Payments, with their refunds if `expand` names them. */
export async function paymentBodies(reader: Reader, views: readonly PaymentView[], { expand }: { expand: boolean }) {
  const { ctx, owner } = reader;
  const paymentIds = views.map(({ facts }) => facts.id);
  const refunds = expand
    ? Map.groupBy(await getRefundsOfPayments(ctx, { ...mine(owner), paymentIds, limit: SHOWN_REFUNDS }), (refund) => refund.paymentId)
    : null;
  return views.map((view) => ({
    ...paymentDetail(view, ctx.settings.paymentPageUrl),
    ...(refunds && { refunds: (refunds.get(view.facts.id) ?? []).map((refund) => refundBody(reader, refund)) }),
  }));
}

type StoredEvent = { type: string; body: Uint8Array };
/** The stored texts of events, each with its payment in a last field if `expand` names it. */
export async function eventTexts(reader: Reader, events: readonly StoredEvent[], { expand }: { expand: boolean }): Promise<string[]> {
  const texts = events.map(({ body }) => Buffer.from(body).toString());
  if (!expand) return texts;
  const ids = events.map(({ type }, i) => {
    const { data } = JSON.parse(texts[i]!) as { data: { id: string; payment_id: string } };
    return isPayoutEvent(type) ? null : isRefundEvent(type) ? data.payment_id : data.id;
  });
  const paymentOf = await paymentsById(
    reader,
    ids.filter((id) => id !== null),
  );
  return texts.map((text, i) => `${text.slice(0, -1)},"payment":${JSON.stringify(paymentOf.get(ids[i] ?? '') ?? null)}}`);
}

async function paymentsById({ ctx, owner }: Reader, paymentIds: readonly string[]) {
  const views = await getPayments(ctx, { ...mine(owner), ids: [...new Set(paymentIds)] });
  return new Map(views.map((view) => [view.facts.id, paymentDetail(view, ctx.settings.paymentPageUrl)]));
}
