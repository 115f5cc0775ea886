/**
 * Outgoing payments: refunds of payments, and payouts to third parties. Nothing here can spend: keys stay with the merchant.
 *
 * requested -> approved -> signed -> sent -> confirmed. Members approve (decisions.ts), a signing file pays (refund-files.ts and
 * payout-files.ts), or a member pays from another wallet and records the transaction; follow-outgoing.ts moves on what the chains show.
 * What another transaction made impossible is failed: it can still be recorded as sent, or canceled. One that is canceled is never paid,
 * but what its file spends stays reserved while somebody may have kept that file.
 */
import type { Context } from '#context';
import { apiNamesOf, type Coin, LIGHTNING, type Mode, onChainCoin } from '#core/coin';
import { formatUnits, formatUsd } from '#core/money';
import { Problem } from '#core/problem';
import { REFUND_STATES, type RefundEmailSource, type RefundRate, type RefundState } from '#core/refund';
import { testIdentifier } from '#core/simulated';
import { countByState, type Sql, type Tx } from '#db';
import { claimUrl } from './claims.ts';

export type OutgoingKind = 'refund' | 'payout';
export type Owner = { merchantId: string; mode: Mode };

type Common<Kind extends OutgoingKind> = {
  kind: Kind;
  id: string;
  merchantId: string;
  mode: Mode;
  coin: Coin;
  units: bigint;
  usdCents: bigint;
  state: RefundState;
  /** Null before the customer entered it, and once it was erased. */
  address: string | null;
  txid: string | null;
  failure: string | null;
  /** In how many looks nothing found the transaction that a member entered, or could say whom it pays. */
  missed: number | null;
  requestedBy: string;
  /** The member who requested it or approved it first. */
  backedBy: string | null;
  /** While it is requested: who approved it first. */
  approvedBy: string | null;
  createdAt: Date;
  approvedAt: Date | null;
  sentAt: Date | null;
  endedAt: Date | null;
  /** The signing file that it is part of. */
  sweepId: string | null;
  /** The same; null once that file was canceled. */
  fileId: string | null;
};
export type Refund = Common<'refund'> & {
  paymentId: string;
  /** When the Lightning invoice in `address` ends; null: it is an address on-chain. */
  invoiceExpiresAt: Date | null;
  /** Whether an earlier invoice of it expired after it was approved, so that it may have been paid. */
  hasEarlierInvoice: boolean;
  rate: RefundRate;
  reason: string | null;
  claimUntil: Date | null;
  /** How many claim links it had before. */
  claimNumber: number;
  /** When its link was replaced because a member could have copied it; null once somebody was mailed or shown another one. */
  linkEndedAt: Date | null;
  /** Whether its link of now was mailed to `email`. */
  linkMailed: boolean;
  /** Where its claim links are mailed: the merchant's choice, or what somebody with the link of the payment page entered there. */
  email: string | null;
  emailFrom: RefundEmailSource | null;
};
export type Payout = Common<'payout'> & {
  /** The file that it was imported with. */
  batchId: string | null;
  /** The merchant's own name for it, which no other payout has unless it was canceled. */
  reference: string | null;
  description: string | null;
  /** When the authorizations expire that others can still send after its file failed, in seconds; null: there are none. */
  publishedUntil: bigint | null;
  eventCount: bigint;
};
export type OutgoingPayment = Refund | Payout;
export type OfKind<Kind extends OutgoingKind> = Extract<OutgoingPayment, { kind: Kind }>;

/** A signed file that is not sent says why, which is why the payment does not move on. A canceled file sends nothing. */
export const OUTGOING_COLUMNS = (sql: Sql | Tx) => sql`
  kind, id, merchant_id as "merchantId", mode, coin, units, usd_cents as "usdCents", state, address, txid,
  coalesce(failure, case when state = 'signed' then (select s.failure from signing_files s where s.id = file_id) end) as failure, missed,
  requested_by as "requestedBy", backed_by as "backedBy", approved_by as "approvedBy", created_at as "createdAt", approved_at as "approvedAt",
  sent_at as "sentAt", ended_at as "endedAt", file_id as "sweepId",
  (select s.id from signing_files s where s.id = file_id and s.state <> 'canceled') as "fileId",
  payment_id as "paymentId", invoice_expires_at as "invoiceExpiresAt",
  coin = ${LIGHTNING} and state in ('requested', 'approved') and exists (
    select 1 from refund_invoices i where i.refund_id = id and i.approved_at is not null and i.expires_at <= clock_timestamp()) as "hasEarlierInvoice",
  rate, reason, claim_until as "claimUntil", claim_number as "claimNumber", link_ended_at as "linkEndedAt",
  link_mailed as "linkMailed", email, email_from as "emailFrom",
  batch_id as "batchId", reference, description, published_until as "publishedUntil", event_count as "eventCount"`;

const at = (time: Date | null): string | null => time?.toISOString() ?? null;
const timesOf = (one: OutgoingPayment) => ({
  created_at: one.createdAt.toISOString(),
  approved_at: at(one.approvedAt),
  sent_at: at(one.sentAt),
  ended_at: at(one.endedAt),
});

/**
 * The coin that pays a refund: bitcoin, if an address on-chain gets what arrived over Lightning. Until the customer chose, and for an invoice,
 * that is Lightning.
 */
export const paidIn = ({ coin, address, invoiceExpiresAt }: Pick<Refund, 'coin' | 'address' | 'invoiceExpiresAt'>): Coin =>
  address === null || invoiceExpiresAt !== null || address.startsWith(testIdentifier(coin, '')) ? coin : onChainCoin(coin);

/** The wire shape of a refund, used for replies and for the data of events. */
export const refundDetail = (ctx: Context, refund: Refund) => ({
  id: refund.id,
  payment_id: refund.paymentId,
  status: refund.state,
  mode: refund.mode,
  amount: formatUnits(refund.coin, refund.units),
  ...apiNamesOf(paidIn(refund)),
  amount_usd: formatUsd(refund.usdCents),
  rate: refund.rate,
  address: refund.address,
  invoice_expires_at: at(refund.invoiceExpiresAt),
  claim_url: refund.claimUntil === null ? null : claimUrl(ctx, refund),
  claim_expires_at: at(refund.claimUntil),
  reason: refund.reason,
  transaction_hash: refund.txid,
  failure: refund.failure,
  ...timesOf(refund),
});

/** The wire shape of a payout, used for replies and for the data of events. */
export const payoutDetail = (payout: Payout) => ({
  id: payout.id,
  payout_reference: payout.reference,
  status: payout.state,
  mode: payout.mode,
  amount: formatUnits(payout.coin, payout.units),
  ...apiNamesOf(payout.coin),
  amount_usd: formatUsd(payout.usdCents),
  address: payout.address,
  description: payout.description,
  batch_id: payout.batchId,
  transaction_hash: payout.txid,
  failure: payout.failure,
  ...timesOf(payout),
});

export const unknownOutgoing = (kind: OutgoingKind, id: string) => new Problem(`${kind}_not_found`, { id: id.slice(0, 40) });

/** Errors: refund_not_found, payout_not_found. */
export async function getOutgoing<Kind extends OutgoingKind>(
  ctx: Context,
  { kind, id, merchantId, mode }: Owner & { kind: Kind; id: string },
  tx?: Tx,
): Promise<OfKind<Kind>> {
  const sql = tx ?? ctx.db.sql;
  const [row] = await sql<OfKind<Kind>[]>`
    select ${OUTGOING_COLUMNS(sql)} from outgoing_payments
    where id = ${id} and kind = ${kind} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (!row) throw unknownOutgoing(kind, id);
  return row;
}

type Filter = {
  state: RefundState | null;
  paymentId?: string | null;
  customerId?: string | null;
  batchId?: string | null;
  reference?: string | null;
};
/** A page of refunds or payouts, newest first. Errors: cursor_invalid. */
export async function listOutgoing<Kind extends OutgoingKind>(
  ctx: Context,
  {
    kind,
    merchantId,
    mode,
    limit,
    startingAfter,
    state,
    paymentId = null,
    customerId = null,
    batchId = null,
    reference = null,
  }: Owner & Filter & { kind: Kind; limit: number; startingAfter: string | null },
): Promise<{ found: OfKind<Kind>[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const owned = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  const mine = sql`kind = ${kind} and ${owned}`;
  const [cursor] =
    startingAfter === null
      ? []
      : await sql<{ number: bigint }[]>`select number from outgoing_payments where id = ${startingAfter} and ${mine}`;
  if (startingAfter !== null && !cursor) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  const found = await sql<OfKind<Kind>[]>`
    select ${OUTGOING_COLUMNS(sql)} from outgoing_payments where ${mine}
      ${cursor ? sql`and number < ${cursor.number}` : sql``} ${state === null ? sql`` : sql`and state = ${state}`}
      ${paymentId === null ? sql`` : sql`and payment_id = ${paymentId}`}
      ${customerId === null ? sql`` : sql`and payment_id in (select id from payments where ${owned} and customer_id = ${customerId})`}
      ${batchId === null ? sql`` : sql`and batch_id = ${batchId}`} ${reference === null ? sql`` : sql`and reference = ${reference}`}
    order by number desc limit ${limit + 1}`;
  return { found: found.slice(0, limit), hasMore: found.length > limit };
}

/** How many refunds or payouts of each state the list shows without other filters. */
export const countOutgoing = ({ db: { sql } }: Context, { kind, merchantId, mode }: Owner & { kind: OutgoingKind }) =>
  countByState(sql, {
    states: REFUND_STATES,
    rowsIn: (state) => sql`
      outgoing_payments where kind = ${kind} and merchant_id = ${merchantId} and mode = ${mode} and state = ${state} order by number desc`,
  });
