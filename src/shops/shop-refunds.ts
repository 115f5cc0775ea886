/** Refunds that shops asked for: the customer names an address on a claim page, the merchant sends the money and marks it. */
import type { Context } from '../context.ts';
import type { Coin, Mode } from '../core/coin.ts';
import { newId } from '../core/id.ts';
import { Problem } from '../core/problem.ts';
import type { Tx } from '../db/db.ts';
import { checkRefundAddress, leaveRefundAddress } from '../payments/payments.ts';

type Owner = { merchantId: string; mode: Mode };
export type ShopRefund = Owner & {
  id: string;
  /** The payment of the order, if exactly one fits. */
  paymentId: string | null;
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
const COLUMNS = `id, merchant_id as "merchantId", mode, payment_id as "paymentId", name, amount, currency, created_at as "createdAt", coin, address,
  claimed_at as "claimedAt", sent_at as "sentAt", txid`;
const MOST_SHOWN = 100;
/** Order numbers are looked for in a name of this length. */
const LONGEST_NAME = 200;

/** Records a refund that a shop asked for. It belongs to the payment whose order number is in its name, if there is exactly one. */
export async function askRefund(
  ctx: Context,
  { merchantId, mode, shopId, name, amount, currency }: Owner & { shopId: string; name: string; amount: string; currency: string },
): Promise<{ id: string; createdAt: Date }> {
  const { sql } = ctx.db;
  const words = [...new Set(name.slice(0, LONGEST_NAME).split(/[^\p{L}\p{N}_-]+/u))].filter((word) => word !== '').slice(0, 50);
  const fits = await sql<{ paymentId: string }[]>`
    select payment_id as "paymentId" from shop_invoices
    where merchant_id = ${merchantId} and mode = ${mode} and order_id = any(${words}::text[])
      and payment_id in (select id from payments where merchant_id = ${merchantId} and mode = ${mode} and received_units > 0) limit 2`;
  const paymentId = fits.length === 1 ? fits[0]!.paymentId : null;
  const [row] = await sql<{ id: string; createdAt: Date }[]>`
    insert into shop_refunds (id, merchant_id, mode, shop_key_id, payment_id, name, amount, currency)
    values (${newId('ref', ctx.random)}, ${merchantId}, ${mode}, ${shopId}, ${paymentId}, ${name.slice(0, LONGEST_NAME)}, ${amount}, ${currency})
    returning id, created_at as "createdAt"`;
  return row!;
}

/** For the customer, who knows the ID. Errors: payment_not_found. */
export async function getRefund(ctx: Context, { refundId }: { refundId: string }): Promise<ShopRefund> {
  const { sql } = ctx.db;
  const [row] = await sql<ShopRefund[]>`select ${sql.unsafe(COLUMNS)} from shop_refunds where id = ${refundId}`;
  if (!row) throw new Problem('payment_not_found', { id: refundId });
  return row;
}

/**
 * The customer names an address: stored once, never changed. The payment of the order then needs attention. Errors: payment_not_found,
 * address_invalid.
 */
export async function claimRefund(
  ctx: Context,
  { refundId, coin, address }: { refundId: string; coin: Coin; address: string },
): Promise<void> {
  const { mode, paymentId } = await getRefund(ctx, { refundId });
  checkRefundAddress(ctx, { mode, coin, address });
  const claimed = await ctx.db.sql`
    update shop_refunds set coin = ${coin}, address = ${address}, claimed_at = clock_timestamp() where id = ${refundId} and claimed_at is null`;
  if (claimed.count > 0 && paymentId !== null) await leaveRefundAddress(ctx, { paymentId, coin, address, email: null });
}

/** The newest refunds that shops of a merchant asked for. */
export const listRefunds = ({ db: { sql } }: Context, { merchantId, mode }: Owner): Promise<ShopRefund[]> => sql<ShopRefund[]>`
  select ${sql.unsafe(COLUMNS)} from shop_refunds where merchant_id = ${merchantId} and mode = ${mode}
  order by created_at desc, id desc limit ${MOST_SHOWN}`;

/** The merchant sent the money. Errors: payment_not_found (also when it was marked before, or nobody claimed it). */
export async function markRefundSent(
  tx: Tx,
  { merchantId, mode, refundId, txid }: Owner & { refundId: string; txid: string | null },
): Promise<void> {
  const marked = await tx`
    update shop_refunds set sent_at = clock_timestamp(), txid = ${txid}
    where id = ${refundId} and merchant_id = ${merchantId} and mode = ${mode} and claimed_at is not null and sent_at is null`;
  if (marked.count === 0) throw new Problem('payment_not_found', { id: refundId });
}
