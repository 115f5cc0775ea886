/** Payments that a shop requested, with what its plugin said about them. */
import type { Context } from '#context';
import { COINS, type Coin, type Mode } from '#core/coin';
import { Problem } from '#core/problem';
import { asBoolean, asList, asObject, asText } from '#core/stored-json';
import type { Fragment, Sql, Tx } from '#db';
import { queueShop } from '#settling';
import { keysOfShop, type ShopEvent } from '#webhooks';
import type { ShopDialect } from './shop-keys.ts';

/** What the plugin asked for and reads back. */
type Checkout = {
  redirectUrl: string | null;
  redirectAutomatically: boolean;
  language: string | null;
  /** The coins that may be chosen. */
  coins: readonly Coin[];
  /** What a charge says more; null for other protocols. */
  charge: ChargeTerms | null;
};
type ChargeTerms = { name: string; description: string; cancelUrl: string | null };
export type ShopInvoice = {
  paymentId: string;
  orderId: string | null;
  /** JSON text, as it was sent. */
  metadata: string;
  checkout: Checkout;
};
type Owner = { merchantId: string; mode: Mode };
/** The invoices of one shop, in whose protocol they were requested. */
type OfShop = Owner & { dialect: ShopDialect; lineId: string };

const columns = (sql: Sql | Tx) => sql`
  payment_id as "paymentId", order_id as "orderId", metadata::text as metadata, checkout, dialect, told, told_sequence as "toldSequence",
  (select coalesce(k.first_id, k.id) from shop_keys k where k.id = shop_key_id) as "lineId",
  (select p.archived_at is not null from payments p where p.id = payment_id) as archived`;
const invoiceOf = ({ checkout, ...row }: Omit<ToldInvoice, 'checkout'> & { checkout: unknown }): ToldInvoice => {
  const stored = asObject(checkout);
  return {
    ...row,
    checkout: {
      redirectUrl: asText(stored.redirectUrl),
      redirectAutomatically: asBoolean(stored.redirectAutomatically) ?? false,
      language: asText(stored.language),
      coins: COINS.filter((coin) => asList(stored.coins).includes(coin)),
      charge: chargeOf(stored.charge),
    },
  };
};
function chargeOf(value: unknown): ChargeTerms | null {
  if (value === null || value === undefined) return null;
  const { name, description, cancelUrl } = asObject(value);
  return { name: asText(name) ?? '', description: asText(description) ?? '', cancelUrl: asText(cancelUrl) };
}

/** Stores what the plugin said, in the transaction that creates the payment. */
export async function addInvoice(
  tx: Tx,
  { merchantId, mode, dialect, keyId, invoice }: Owner & { dialect: ShopDialect; keyId: string; invoice: ShopInvoice },
): Promise<void> {
  const payment = tx`(select id, merchant_id, request from payments where id = ${invoice.paymentId})`;
  await tx`
    with queued as (${queueShop(tx, payment)})
    insert into shop_invoices (payment_id, merchant_id, mode, dialect, shop_key_id, order_id, metadata, checkout)
    values (${invoice.paymentId}, ${merchantId}, ${mode}, ${dialect}, ${keyId}, ${invoice.orderId}, ${invoice.metadata}::text::json,
      ${tx.json({ v: 1, ...invoice.checkout } as never)})`;
}

/** Errors: payment_not_found. */
export async function getInvoice(
  ctx: Context,
  { merchantId, mode, dialect, lineId, paymentId }: OfShop & { paymentId: string },
): Promise<ToldInvoice> {
  const { sql } = ctx.db;
  // Comes from a path: text with U+0000 is no parameter for the database.
  if (!/^pay_[0-9A-Za-z]{1,40}$/.test(paymentId)) throw new Problem('payment_not_found', { id: paymentId.slice(0, 100) });
  const [row] = await sql<Parameters<typeof invoiceOf>[0][]>`
    select ${columns(sql)} from shop_invoices
    where payment_id = ${paymentId} and merchant_id = ${merchantId} and mode = ${mode} and dialect = ${dialect}
      and shop_key_id in ${keysOfShop(sql, lineId)}`;
  if (!row) throw new Problem('payment_not_found', { id: paymentId });
  return invoiceOf(row);
}

/** A page of invoices, newest first; of some orders, if any are named; without archived ones, unless they are asked for. */
export async function listInvoices(
  ctx: Context,
  {
    merchantId,
    mode,
    dialect,
    lineId,
    orderIds,
    skip,
    take,
    archived = false,
  }: OfShop & { orderIds: readonly string[]; skip: number; take: number; archived?: boolean },
): Promise<ToldInvoice[]> {
  const { sql } = ctx.db;
  const rows = await sql<Parameters<typeof invoiceOf>[0][]>`
    select ${columns(sql)} from shop_invoices
    where merchant_id = ${merchantId} and mode = ${mode} and dialect = ${dialect} and shop_key_id in ${keysOfShop(sql, lineId)}
      ${archived ? sql`` : sql`and not exists (select from payments p where p.id = payment_id and p.archived_at is not null)`}
      ${orderIds.length === 0 ? sql`` : sql`and order_id = any(${orderIds as string[]}::text[])`}
    order by created_at desc, payment_id desc limit ${take} offset ${skip}`;
  return rows.map(invoiceOf);
}

/** Replaces what the plugin said about an order. What the customer pays stays. Errors: payment_not_found. */
export async function updateInvoice(
  tx: Tx,
  {
    merchantId,
    mode,
    dialect,
    lineId,
    paymentId,
    orderId,
    metadata,
  }: OfShop & { paymentId: string } & Pick<ShopInvoice, 'orderId' | 'metadata'>,
): Promise<void> {
  const updated = await tx`
    update shop_invoices set order_id = ${orderId}, metadata = ${metadata}::text::json
    where payment_id = ${paymentId} and merchant_id = ${merchantId} and mode = ${mode} and dialect = ${dialect}
      and shop_key_id in ${keysOfShop(tx, lineId)}`;
  if (updated.count === 0) throw new Problem('payment_not_found', { id: paymentId });
}

/** An invoice with what its shop knows, and the number of the last event. */
export type ToldInvoice = ShopInvoice & { dialect: ShopDialect; lineId: string; archived: boolean; told: unknown; toldSequence: bigint };

/** The events of a payment that a shop does not know yet, and what it knows with them. */
export type News = { events: ShopEvent[]; told: unknown };

/** Locks invoices, in the order of their IDs. */
export async function lockTold(tx: Tx, paymentIds: readonly string[]): Promise<ToldInvoice[]> {
  const rows = await tx<Parameters<typeof invoiceOf>[0][]>`
    select ${columns(tx)} from shop_invoices where payment_id = any(${paymentIds as string[]}::text[]) order by payment_id for update`;
  return rows.map(invoiceOf);
}

/** The statement that stores what shops know now. */
export function writeTold(tx: Tx, rows: readonly { paymentId: string; told: unknown; sequence: bigint }[]): Fragment {
  const input = rows.map(({ paymentId, told, sequence }) => ({ id: paymentId, told, sequence: String(sequence) }));
  return tx`
    update shop_invoices i set told = r.told, told_sequence = r.sequence
    from jsonb_to_recordset(${tx.json(input as never)}) as r (id text, told jsonb, sequence bigint) where i.payment_id = r.id`;
}

/** The kind of work that sends shops how payments are now, which they may have missed. */
export const RESEND_WORK = 'shop_resend';
/** How far back a shop that is connected again learns what it missed, and of how many payments. */
const MISSED_DAYS = 30;
const MOST_MISSED = 10_000;
/**
 * Queues the payments of a shop whose last event it did not take, such as while it was disconnected: each is reported as it is now. Those
 * that nobody paid or ended are left out. `endpointId`: where the shop receives events now.
 */
export const queueMissed = (tx: Tx, { lineId, endpointId }: { lineId: string; endpointId: string }) => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select ${RESEND_WORK}, payment_id, merchant_id, clock_timestamp() from (
    select i.payment_id, i.merchant_id from shop_invoices i
    where i.shop_key_id in ${keysOfShop(tx, lineId)} and i.told_sequence > 0 and i.created_at > clock_timestamp() - make_interval(days => ${MISSED_DAYS})
      and coalesce(i.told ->> 'status', i.told -> 'timeline' -> -1 ->> 'status') not in ('New', 'NEW')
      and not exists (select from deliveries d where d.payment_id = i.payment_id and d.ordered and d.sequence = i.told_sequence
        and (d.state = 'delivered' or (d.state = 'pending' and d.endpoint_id = ${endpointId})))
    order by i.created_at desc, i.payment_id limit ${MOST_MISSED}) as missed
  order by payment_id on conflict (kind, key) do nothing`;

/** Erases what shops sent about customers. The number of the order stays, because it is how the merchant finds the payment. */
export async function eraseInvoices(tx: Tx, paymentIds: readonly string[]): Promise<void> {
  if (paymentIds.length === 0) return;
  await tx`
    update shop_invoices set checkout = checkout - 'redirectUrl' - 'charge',
      metadata = case when order_id is null then '{}'::json
        else json_build_object(case dialect when 'commerce' then 'order_id' else 'orderId' end, order_id) end
    where payment_id = any(${paymentIds as string[]}::text[])`;
}
