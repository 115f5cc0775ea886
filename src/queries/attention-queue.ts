/** The queue of payments that need a decision from the merchant, how long it is, and the review state of one. */
import type { Context } from '#context';
import type { Coin, Mode } from '#core/coin';
import { type Exception, ORDER_MISSING, REFUND_REQUEST } from '#core/payment';
import { Problem } from '#core/problem';
import { uncountedFromJson } from '#core/stored-payment';
import type { PaymentListItem } from './lists.ts';
import { type FiatPrice, fiatPrice, receivedUsdCents } from './search.ts';

type AttentionItem = Pick<
  PaymentListItem,
  'id' | 'mode' | 'status' | 'exceptions' | 'amountUsdCents' | 'coin' | 'createdAt' | 'invoiceId' | 'description' | 'uncounted'
> &
  FiatPrice & {
    receivedUnits: bigint;
    receivedUsdCents: bigint | null;
    refundRequestedAt: Date | null;
    /** What the shop says of the missing order. */
    orderMissing: string | null;
  };
/** Why a payment is in the queue. */
export type AttentionReason = Exception | typeof REFUND_REQUEST | typeof ORDER_MISSING;

/** The queue, newest first. Errors: cursor_invalid. */
export async function listAttention(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    exception,
  }: { merchantId: string; mode: Mode; limit: number; startingAfter: string | null; exception: AttentionReason | null },
): Promise<{ items: AttentionItem[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  if (startingAfter !== null) {
    const [known] = await sql`select 1 from payments where id = ${startingAfter} and ${mine}`;
    if (!known) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  }
  const wanted =
    exception === null
      ? sql``
      : exception === REFUND_REQUEST
        ? sql`and refund_requested_at is not null`
        : exception === ORDER_MISSING
          ? sql`and metadata ? ${ORDER_MISSING}`
          : sql`and ${exception} = any(exceptions)`;
  const rows = await sql<(Omit<AttentionItem, 'uncounted'> & { uncounted: unknown })[]>`
    select p.id, mode, status, exceptions, amount_usd_cents as "amountUsdCents", ${fiatPrice(sql)}, coin, created_at as "createdAt",
      invoice_id as "invoiceId", request->>'description' as description, received_units as "receivedUnits", ${receivedUsdCents(sql)} as "receivedUsdCents", uncounted,
      refund_requested_at as "refundRequestedAt", metadata->>${ORDER_MISSING} as "orderMissing"
    from payments p
    where ${mine} and attention ${wanted}
      ${startingAfter ? sql`and sequence < (select sequence from payments where id = ${startingAfter})` : sql``}
    order by sequence desc limit ${limit + 1}`;
  const items = rows.map((row) => ({ ...row, uncounted: uncountedFromJson(row.uncounted) }));
  return { items: items.slice(0, limit), hasMore: items.length > limit };
}

type RefundRequest = { coin: Coin; address: string; email: string | null; at: Date };
/** The review state of a payment: whether it needs a decision, when it was archived, what its payer wants. Errors: payment_not_found. */
export async function readAttention(
  ctx: Context,
  { merchantId, mode, paymentId }: { merchantId: string; mode: Mode; paymentId: string },
): Promise<{ attention: boolean; archivedAt: Date | null; refundRequest: RefundRequest | null }> {
  const [row] = await ctx.db.sql<({ attention: boolean; archivedAt: Date | null } & RefundRequest)[]>`
    select p.attention, p.archived_at as "archivedAt", r.coin, r.address, r.email, r.at from payments p left join refund_addresses r on r.payment_id = p.id
    where p.id = ${paymentId} and p.merchant_id = ${merchantId} and p.mode = ${mode}`;
  if (!row) throw new Problem('payment_not_found', { id: paymentId });
  const { attention, archivedAt, ...request } = row;
  return { attention, archivedAt, refundRequest: request.coin === null ? null : request };
}

/** How many need a decision, counted up to `most`, because the dashboard shows no larger number. */
export async function countAttention(
  ctx: Context,
  { merchantId, mode, most }: { merchantId: string; mode: Mode; most: number },
): Promise<{ count: number; isMore: boolean }> {
  const [row] = await ctx.db.sql<{ n: number }[]>`
    select count(*)::int as n from (
      select 1 from payments where merchant_id = ${merchantId} and mode = ${mode} and attention limit ${most + 1}) as waiting`;
  return { count: Math.min(row!.n, most), isMore: row!.n > most };
}
