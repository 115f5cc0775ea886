/**
 * Refunds that shops requested and that fit no payment: the customer enters an address, the merchant sends the money and records it.
 * Refunds that fit a payment are in money-out/.
 */
import type { Context } from '../context.ts';
import type { Coin, Mode } from '../core/coin.ts';
import { newId } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import { cutText } from '../core/text.ts';
import type { Tx } from '../db/db.ts';
import { checkRefundAddress } from '../payments/payments.ts';
import { type KeyActor, writeAudit } from '../people/members.ts';
import { keysOfShop } from '../webhooks/endpoints.ts';

type Owner = { merchantId: string; mode: Mode };
export type ShopRefund = Owner & {
  id: string;
  name: string;
  amount: string;
  currency: string;
  createdAt: Date;
  coin: Coin | null;
  address: string | null;
  claimedAt: Date | null;
  sentAt: Date | null;
  txid: string | null;
};
const COLUMNS = `id, merchant_id as "merchantId", mode, name, amount, currency, created_at as "createdAt", coin, address,
  claimed_at as "claimedAt", sent_at as "sentAt", txid`;
const MOST_SHOWN = 100;
/** Order numbers are looked for in a name of this length. */
const LONGEST_NAME = 200;
/** How many words an order number may have, and how many of its invoices are looked at. */
const MOST_WORDS = 3;
const MOST_INVOICES = 50;

/**
 * What may be an order number in the name of a refund, such as `Refund of order 2026/0474; broken`: whole words, never a part of one,
 * because that could be the number of another order. What follows the semicolon is the reason.
 */
function orderNumbersIn(name: string): string[] {
  const words = name.slice(0, LONGEST_NAME).split(';')[0]!.split(/\s+/).slice(0, 50);
  const bare = (text: string): string => text.replace(/^[^\p{L}\p{N}]{1,10}/u, '').replace(/[^\p{L}\p{N}]{1,10}$/u, '');
  const spans = words.flatMap((_, i) =>
    Array.from({ length: MOST_WORDS }, (_, n) => words.slice(i, i + MOST_WORDS - n).join(' ')).flatMap((span) => [span, bare(span)]),
  );
  return [...new Set(spans)].filter((span) => span !== '');
}

/** The key of the order in the address that its customer returns to, as WooCommerce makes one for each order; null: none is known. */
const orderKeyOf = (redirectUrl: string | null): string | null => URL.parse(redirectUrl ?? '')?.searchParams.get('key') || null;

/**
 * The payment of the order that a refund names. The number of an order may come a second time, after the database of the shop was put
 * back: only payments of the newest order with this number are meant, never one of an earlier customer. Null if no payment of this shop
 * has the number, and `unclear` if it could be more than one, or one of an earlier order.
 */
export async function paymentOfRefund(
  { db: { sql } }: Context,
  { merchantId, mode, lineId, name }: Owner & { lineId: string; name: string },
): Promise<string | 'unclear' | null> {
  const numbers = orderNumbersIn(name);
  const rows = await sql<{ paymentId: string; orderId: string; redirectUrl: string | null; received: boolean }[]>`
    select i.payment_id as "paymentId", i.order_id as "orderId", i.checkout ->> 'redirectUrl' as "redirectUrl", p.received_units > 0 as received
    from shop_invoices i join payments p on p.id = i.payment_id and p.merchant_id = ${merchantId} and p.mode = ${mode}
    where i.merchant_id = ${merchantId} and i.mode = ${mode} and i.shop_key_id in ${keysOfShop(sql, lineId)}
      and i.order_id = any(${numbers}::text[])
    order by array_position(${numbers}::text[], i.order_id), p.sequence desc limit ${MOST_INVOICES}`;
  const [newest] = rows;
  if (!newest) return null;
  const key = orderKeyOf(newest.redirectUrl);
  const paid = rows.filter(
    ({ orderId, redirectUrl, received }) => received && orderId === newest.orderId && (key === null || orderKeyOf(redirectUrl) === key),
  );
  const [only] = paid;
  // Without a key, an earlier payment may be that of another order.
  if (paid.length > 1 || (key === null && only !== undefined && only !== newest)) return 'unclear';
  return (only ?? newest).paymentId;
}

/** Records a refund that fits no payment. */
export async function askRefund(
  ctx: Context,
  { merchantId, mode, actor, name, amount, currency }: Owner & { actor: KeyActor; name: string; amount: string; currency: string },
): Promise<{ id: string; createdAt: Date }> {
  const id = newId('ref', ctx.random);
  return ctx.db.begin(async (tx) => {
    const [row] = await tx<{ createdAt: Date }[]>`
      insert into shop_refunds (id, merchant_id, mode, shop_key_id, name, amount, currency)
      values (${id}, ${merchantId}, ${mode}, ${actor.keyId}, ${cutText(name, LONGEST_NAME)}, ${amount}, ${currency})
      returning created_at as "createdAt"`;
    await writeAudit(tx, { merchantId, mode, actor, action: 'refund.requested', object: id, after: { amount: `${amount} ${currency}` } });
    return { id, createdAt: row!.createdAt };
  });
}

/** For the customer, who knows the ID. Errors: payment_not_found. */
export async function getRefund(ctx: Context, { refundId }: { refundId: string }): Promise<ShopRefund> {
  const { sql } = ctx.db;
  const [row] = await sql<ShopRefund[]>`select ${sql.unsafe(COLUMNS)} from shop_refunds where id = ${refundId}`;
  if (!row) throw new Problem('payment_not_found', { id: refundId });
  return row;
}

/** The customer enters an address: stored once, never changed. Errors: payment_not_found, address_invalid. */
export async function claimRefund(
  ctx: Context,
  { refundId, coin, address }: { refundId: string; coin: Coin; address: string },
): Promise<void> {
  const { mode } = await getRefund(ctx, { refundId });
  checkRefundAddress(ctx, { mode, coin, address });
  await ctx.db.sql`
    update shop_refunds set coin = ${coin}, address = ${address}, claimed_at = clock_timestamp() where id = ${refundId} and claimed_at is null`;
}

/** The newest of these refunds. */
export const listRefunds = ({ db: { sql } }: Context, { merchantId, mode }: Owner): Promise<ShopRefund[]> => sql<ShopRefund[]>`
  select ${sql.unsafe(COLUMNS)} from shop_refunds where merchant_id = ${merchantId} and mode = ${mode}
  order by created_at desc, id desc limit ${MOST_SHOWN}`;

/** The merchant sent the money. Errors: refund_not_found, refund_address_missing, refund_state (it was marked before). */
export async function markRefundSent(
  tx: Tx,
  { merchantId, mode, refundId, txid }: Owner & { refundId: string; txid: string | null },
): Promise<void> {
  const marked = await tx`
    update shop_refunds set sent_at = clock_timestamp(), txid = ${txid}
    where id = ${refundId} and merchant_id = ${merchantId} and mode = ${mode} and claimed_at is not null and sent_at is null`;
  if (marked.count > 0) return;
  const [known] = await tx<{ isClaimed: boolean }[]>`
    select claimed_at is not null as "isClaimed" from shop_refunds
    where id = ${refundId} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (!known) throw new Problem('refund_not_found', { id: refundId.slice(0, 40) });
  if (!known.isClaimed) throw new Problem('refund_address_missing', { id: refundId });
  throw new Problem('refund_state', { id: refundId, state: 'already marked as sent', action: 'marked again' });
}
