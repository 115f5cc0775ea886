/**
 * Refunds that shops requested and that fit no payment: the customer enters an address, the merchant sends the money and records it.
 * Refunds that fit a payment are in outgoing/.
 */
import type { Context } from '#context';
import { COIN, type Coin, type Mode } from '#core/coin';
import { isSameSecret, newId } from '#core/id';
import { readAmountText } from '#core/money';
import { Problem } from '#core/problem';
import { mayDo } from '#core/roles';
import { cutText } from '#core/text';
import type { Tx } from '#db';
import { claimToken, claimUntil, weighApproval, weightOf } from '#outgoing';
import { checkRefundAddress } from '#payments';
import { type Actor, type Departure, type KeyActor, writeAudit } from '#people';
import { keysOfShop } from '#webhooks';
import { coinOfMethod } from './shop-money.ts';

type Owner = { merchantId: string; mode: Mode };
export type ShopRefund = Owner & {
  id: string;
  name: string;
  amount: string;
  currency: string;
  createdAt: Date;
  /** Worth in US cents; null: there was no price. */
  usdCents: bigint | null;
  /** What the customer may choose; null for all that is offered. */
  coins: Coin[] | null;
  /** When the page of the customer stops taking an address. */
  claimUntil: Date;
  /** How many links it had before. */
  claimNumber: number;
  /** When its link was replaced because a member could have copied it; null once a member replaced it again. */
  linkEndedAt: Date | null;
  coin: Coin | null;
  address: string | null;
  claimedAt: Date | null;
  /** The member who approved it, or both. Until `approvedAt`, a second one is missing. */
  approvedBy: string | null;
  approvedAt: Date | null;
  sentAt: Date | null;
  /** What was sent. */
  units: bigint | null;
  txid: string | null;
};
const COLUMNS = `id, merchant_id as "merchantId", mode, name, amount, currency, created_at as "createdAt", usd_cents as "usdCents", coins,
  claim_until as "claimUntil", claim_number as "claimNumber", link_ended_at as "linkEndedAt", coin, address, claimed_at as "claimedAt", approved_by as "approvedBy", approved_at as "approvedAt",
  sent_at as "sentAt", units, txid`;
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

type NewRefund = Owner & {
  actor: KeyActor;
  name: string;
  amount: string;
  currency: string;
  usdCents: bigint | null;
  coins: readonly Coin[] | null;
};
/** Records a refund that fits no payment. */
export async function askRefund(
  ctx: Context,
  { merchantId, mode, actor, name, amount, currency, usdCents, coins }: NewRefund,
): Promise<{ id: string; createdAt: Date; claimUntil: Date }> {
  const id = newId('ref', ctx.random);
  return ctx.db.begin(async (tx) => {
    const [row] = await tx<{ createdAt: Date; claimUntil: Date }[]>`
      insert into shop_refunds (id, merchant_id, mode, shop_key_id, name, amount, currency, usd_cents, coins, claim_until)
      values (${id}, ${merchantId}, ${mode}, ${actor.keyId}, ${cutText(name, LONGEST_NAME)}, ${amount}, ${currency},
        ${usdCents?.toString() ?? null}, ${coins as string[] | null}, ${claimUntil(ctx.clock.now())})
      returning created_at as "createdAt", claim_until as "claimUntil"`;
    await writeAudit(tx, { merchantId, mode, actor, action: 'refund.requested', object: id, after: { amount: `${amount} ${currency}` } });
    return { id, ...row! };
  });
}

/** What the link of its customer ends with: the ID, and a token once the first link was replaced. */
export const linkOfShopRefund = (ctx: Context, link: Pick<ShopRefund, 'id' | 'claimNumber'>): string =>
  link.claimNumber === 0 ? link.id : `${link.id}.${claimToken(ctx, link)}`;

/** For the customer, who has the link. Errors: payment_not_found. */
export async function getShopRefund(ctx: Context, { link }: { link: string }): Promise<ShopRefund> {
  const { sql } = ctx.db;
  const [row] = await sql<ShopRefund[]>`
    select ${sql.unsafe(COLUMNS)} from shop_refunds where id = ${link.split('.')[0]!}`;
  if (!row || !isSameSecret(link, linkOfShopRefund(ctx, row))) throw new Problem('payment_not_found', { id: '' });
  return row;
}

/**
 * The customer enters an address: stored once, never changed. Errors: payment_not_found, address_invalid, refund_state if another address
 * was entered before, or the link has expired.
 */
export async function claimShopRefund(ctx: Context, { link, coin, address }: { link: string; coin: Coin; address: string }): Promise<void> {
  const { id, mode, coins, claimNumber } = await getShopRefund(ctx, { link });
  if (coins !== null && !coins.includes(coin)) throw new Problem('coin_not_configured', { coin }, { param: 'coin' });
  const stored = checkRefundAddress(ctx, { mode, coin, address });
  const taken = await ctx.db.sql`
    update shop_refunds set coin = ${coin}, address = ${stored}, claimed_at = clock_timestamp()
    where id = ${id} and claim_number = ${claimNumber} and claimed_at is null and claim_until > clock_timestamp()`;
  if (taken.count > 0) return;
  const known = await getShopRefund(ctx, { link });
  if (known.coin === coin && known.address === stored) return;
  const state = known.claimedAt === null ? 'expired' : 'waiting with another address';
  throw new Problem('refund_state', { id, state, action: 'claimed' });
}

/** A page of these refunds, newest first. Errors: cursor_invalid. */
export async function listShopRefunds(
  { db: { sql } }: Context,
  {
    merchantId,
    mode,
    limit = 100,
    startingAfter = null,
    isClaimed = false,
  }: Owner & {
    limit?: number;
    startingAfter?: string | null;
    /** Only those whose customer has entered an address. */
    isClaimed?: boolean;
  },
): Promise<ShopRefund[]> {
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  if (startingAfter !== null) {
    const [known] = await sql`select 1 from shop_refunds where id = ${startingAfter} and ${mine}`;
    if (!known) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  }
  return sql<ShopRefund[]>`
    select ${sql.unsafe(COLUMNS)} from shop_refunds where ${mine} ${isClaimed ? sql`and claimed_at is not null` : sql``}
      ${startingAfter === null ? sql`` : sql`and (created_at, id) < (select created_at, id from shop_refunds where id = ${startingAfter})`}
    order by created_at desc, id desc limit ${limit}`;
}

type Target = Owner & { refundId: string };
/** The refund, locked. Errors: refund_not_found. */
async function holdRefund(tx: Tx, { merchantId, mode, refundId }: Target): Promise<ShopRefund & { backedBy: string | null }> {
  const [refund] = await tx<(ShopRefund & { backedBy: string | null })[]>`
    select ${tx.unsafe(COLUMNS)}, backed_by as "backedBy" from shop_refunds
    where id = ${refundId} and merchant_id = ${merchantId} and mode = ${mode} for update`;
  if (!refund) throw new Problem('refund_not_found', { id: refundId.slice(0, 40) });
  return refund;
}

/** Replaces the link of the customer; the one before stops working. Errors: refund_not_found, refund_state. */
export async function renewRefund(ctx: Context, tx: Tx, { actor, ...target }: Target & { actor: Actor }): Promise<void> {
  const { claimedAt, id } = await holdRefund(tx, target);
  if (claimedAt !== null) throw new Problem('refund_state', { id, state: 'claimed', action: 'given a new link' });
  await tx`
    update shop_refunds set claim_until = ${claimUntil(ctx.clock.now())}, claim_number = claim_number + 1, link_ended_at = null
    where id = ${id}`;
  await writeAudit(tx, { merchantId: target.merchantId, mode: target.mode, actor, action: 'refund.link_renewed', object: id });
}

/**
 * Replaces the links that a member could copy who may not see them any more, as `endClaimLinks` does for other refunds. The customer is
 * not known, so each says that a member has to send the new one. Returns how many.
 */
export async function endShopClaimLinks(tx: Tx, { merchantId }: Departure): Promise<number> {
  const ended = await tx`
    update shop_refunds set claim_number = claim_number + 1, link_ended_at = clock_timestamp()
    where merchant_id = ${merchantId} and claimed_at is null and claim_until > clock_timestamp()`;
  return ended.count;
}

/** What the limit is about, as for other refunds: an amount in a coin may be worth more now than when the shop asked for it. */
function weightOfShopRefund(ctx: Context, { mode, amount, currency, usdCents }: ShopRefund): bigint {
  const coin = coinOfMethod(currency);
  const units = coin === null ? null : readAmountText(amount, COIN[coin].decimals);
  return coin === null || units === null ? (usdCents ?? 0n) : weightOf(ctx, { mode, coin, units, usdCents: usdCents ?? 0n });
}

/**
 * Approves a refund. Above the limit of the merchant, a second member has to approve it too: false until then. Errors: refund_not_found,
 * refund_state, refund_address_missing, role_too_new, second_member_required.
 */
export async function approveShopRefund(ctx: Context, tx: Tx, { actor, ...target }: Target & { actor: Actor }): Promise<boolean> {
  const refund = await holdRefund(tx, target);
  const { id, merchantId, mode, claimedAt, approvedAt, sentAt, approvedBy, backedBy } = refund;
  if (claimedAt === null) throw new Problem('refund_address_missing', { id });
  if (approvedAt !== null || sentAt !== null)
    throw new Problem('refund_state', { id, state: sentAt === null ? 'approved' : 'sent', action: 'approved' });
  const usdCents = weightOfShopRefund(ctx, refund);
  const weight = await weighApproval(tx, 'refunds', { merchantId, mode, usdCents, backedBy, approvedBy }, actor);
  const isFirst = weight === 'first';
  await writeAudit(tx, { merchantId, mode, actor, action: isFirst ? 'refund.approved_first' : 'refund.approved', object: id });
  if (isFirst) {
    await tx`update shop_refunds set backed_by = ${actor.userId}, approved_by = ${actor.name} where id = ${id}`;
    return false;
  }
  const names = weight === 'second' && approvedBy !== null ? `${approvedBy} and ${actor.name}` : actor.name;
  await tx`
    update shop_refunds set approved_by = ${names}, approved_by_user = ${actor.userId || null}, approved_at = clock_timestamp(),
      approved_usd_cents = ${usdCents.toString()}, backed_by = ${weight === 'second' ? backedBy : null}
    where id = ${id}`;
  return true;
}

/** Forgets the first approvals of a member, as `forgetApprovals` does for other refunds. Returns how many. */
export async function forgetShopApprovals(tx: Tx, { merchantId, userId, role }: Departure): Promise<number> {
  if (role !== null && mayDo(role, 'refunds.approve')) return 0;
  const forgotten = await tx`
    update shop_refunds set backed_by = null, approved_by = null
    where merchant_id = ${merchantId} and backed_by = ${userId} and approved_at is null`;
  return forgotten.count;
}

/** Errors: refund_not_found, refund_state if nobody approved the refund. */
export async function needApproval(tx: Tx, target: Target): Promise<ShopRefund> {
  const refund = await holdRefund(tx, target);
  if (refund.claimedAt !== null && refund.approvedAt === null && refund.sentAt === null)
    throw new Problem('refund_state', { id: refund.id, state: 'waiting for approval', action: 'marked as sent' });
  return refund;
}

/** The merchant sent the money. Errors: refund_not_found, refund_address_missing, refund_state (it was marked before). */
export async function markShopRefundSent(
  tx: Tx,
  { txid, units = null, ...target }: Target & { txid: string | null; units?: bigint | null },
): Promise<void> {
  const { id, claimedAt, sentAt } = await holdRefund(tx, target);
  if (claimedAt === null) throw new Problem('refund_address_missing', { id });
  if (sentAt !== null) throw new Problem('refund_state', { id, state: 'already marked as sent', action: 'marked again' });
  await tx`
    update shop_refunds set sent_at = clock_timestamp(), txid = ${txid}, units = ${units?.toString() ?? null} where id = ${id}`;
}
