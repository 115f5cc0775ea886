/** Which payments need a decision from the merchant: with an undecided exception, a refund request from the payer, or without an order. */
import { type Decision, type Exception, ORDER_MISSING, type PaymentStatus, REFUND_REQUEST, WRONG_COIN } from '#core/payment';
import { isFinal } from '#core/status';
import type { Fragment, Sql, Tx } from '#db';

/**
 * Whether a payment belongs in the queue. While it is pending or processing, it is up to the service and the payer, unless money arrived
 * in a wrong coin: only the merchant can make that count.
 */
export function asksForMerchant({
  status,
  exceptions,
  reviewed,
  refundRequestedAt,
  decisions,
  metadata,
}: {
  status: PaymentStatus;
  exceptions: readonly Exception[];
  reviewed: readonly string[];
  refundRequestedAt: Date | null;
  decisions: readonly Decision[];
  metadata: Readonly<Record<string, string>>;
}): boolean {
  if (!isFinal(status)) return exceptions.some((name) => WRONG_COIN.some((one) => one === name) && !reviewed.includes(name));
  if (exceptions.some((name) => !reviewed.includes(name))) return true;
  const refused = decisions.some((d) => d.kind === 'reject' || d.kind === 'refund_sent');
  if (status === 'completed' && metadata[ORDER_MISSING] !== undefined && !reviewed.includes(ORDER_MISSING)) return true;
  return refundRequestedAt !== null && !refused && !reviewed.includes(REFUND_REQUEST);
}

/** Whether the payment `p` may owe its payer something: anyone with its link may leave an address for that. */
export const mayOwe = (sql: Sql | Tx): Fragment => sql`(p.status <> 'completed' or p.exceptions <> '{}')`;
/** Whether the payer of the payment `p` left an address, the payment may owe something, and the merchant has not decided about it. */
export const isRefundWanted = (sql: Sql | Tx): Fragment => sql`(
  p.refund_requested_at is not null and not ${REFUND_REQUEST} = any(p.reviewed)
  and ${mayOwe(sql)}
  and not exists (select 1 from decisions d where d.payment_id = p.id and d.kind in ('reject', 'refund_sent')))`;
