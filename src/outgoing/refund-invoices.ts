/**
 * The Lightning invoices of customers that refunds pay. A merchant pays one with their own wallet, and the preimage that the wallet then shows
 * proves it: an invoice is paid once, so its refund is too. An invoice that ends unpaid is not the end of its refund, which asks the customer
 * for another one and has to be approved again. The preimage of an earlier invoice still proves that the refund was paid.
 */
import type { Context } from '#context';
import { decodeInvoice, type Invoice, InvoiceError, paymentHashOf } from '#core/bolt11';
import { type Coin, LIGHTNING, type Mode } from '#core/coin';
import { addMs, HOUR_MS } from '#core/dates';
import { formatUnits, shownUnit } from '#core/money';
import { Problem } from '#core/problem';
import type { Sql, Tx } from '#db';
import { checkRefundAddress } from '#payments';
import { notifyOfOutgoing } from './approvals.ts';
import { changeOutgoing, type Held } from './change-outgoing.ts';
import { claimUntil } from './claims.ts';
import type { OutgoingPayment, Owner, Refund } from './outgoing-payments.ts';

/** An invoice must be valid for at least so long when it is given, because members approve its refund first. */
const LEAST_MS = HOUR_MS;
/** Those that expired, of one round. */
const BATCH = 100;

/** Where a refund goes: an address, or an invoice. */
export type RefundTo = { address: string; invoice: Pick<Invoice, 'paymentHash' | 'expiresAt'> | null };
type Wanted = Owner & { coin: Coin; units: bigint };

/**
 * Where a refund may go: an address on-chain, or for what arrived over Lightning an invoice of exactly its amount. Errors: address_invalid,
 * invoice_invalid, invoice_amount_wrong, invoice_expires_soon, invoice_used. `refundId`: the refund that may have it already.
 */
export async function readDestination(
  ctx: Context,
  sql: Sql | Tx,
  { text, refundId = '', ...refund }: Wanted & { text: string; refundId?: string },
): Promise<RefundTo> {
  const { merchantId, mode, coin } = refund;
  const given = text.trim().replace(/^lightning:/i, '');
  if (coin !== LIGHTNING || !/^ln/i.test(given)) return { address: checkRefundAddress(ctx, { mode, coin, address: text }), invoice: null };
  const invoice = readInvoice(ctx, refund, given);
  const [known] = await sql<{ isOwn: boolean; isUsed: boolean }[]>`
    select exists (select 1 from lightning_backends where merchant_id = ${merchantId} and payee = ${invoice.payee}) as "isOwn",
      exists (select 1 from lightning_invoices where payment_hash = ${invoice.paymentHash})
        or exists (select 1 from refund_invoices where payment_hash = ${invoice.paymentHash} and refund_id <> ${refundId}) as "isUsed"`;
  if (known!.isOwn) throw invalid('it pays the node of the merchant');
  if (known!.isUsed) throw used();
  return { address: given.toLowerCase(), invoice };
}

const invalid = (reason: string, cause?: unknown): Problem =>
  new Problem('invoice_invalid', { reason }, { param: 'address', ...(cause !== undefined && { cause }) });
const used = (): Problem => new Problem('invoice_used', {}, { param: 'address' });

function readInvoice(ctx: Context, { mode, coin, units }: Wanted, text: string): Invoice {
  let invoice: Invoice;
  try {
    invoice = decodeInvoice(text);
  } catch (error) {
    if (error instanceof InvoiceError) throw invalid(error.message, error);
    throw error;
  }
  const network = ctx.settings.networks.bitcoin;
  if (mode === 'live' && invoice.network !== network)
    throw invalid(`it is an invoice of the ${invoice.network} network, not of ${network}`);
  if (invoice.msat !== units) {
    const amounts = { amount: formatUnits(coin, units), sat: (units / shownUnit(coin)).toString() };
    throw new Problem('invoice_amount_wrong', amounts, { param: 'address' });
  }
  if (invoice.expiresAt < addMs(ctx.clock.now(), LEAST_MS)) throw new Problem('invoice_expires_soon', {}, { param: 'address' });
  return invoice;
}

/** Keeps an invoice for one refund, which no other one can pay from then on. Errors: invoice_used. */
export async function keepInvoice(
  tx: Tx,
  { id, destination: { address, invoice }, at }: { id: string; destination: RefundTo; at: Date },
): Promise<void> {
  if (invoice === null) return;
  const { paymentHash, expiresAt } = invoice;
  const kept = await tx`
    insert into refund_invoices (payment_hash, refund_id, bolt11, expires_at, given_at)
    values (${paymentHash}, ${id}, ${address}, ${expiresAt}, ${at}) on conflict do nothing`;
  if (kept.count === 0) throw used();
}

const isExpired = ({ invoiceExpiresAt }: Refund, now: Date): boolean => invoiceExpiresAt !== null && invoiceExpiresAt <= now;
/** Errors: refund_invoice_expired. */
export function checkInvoiceOpen(refund: Refund, now: Date): void {
  if (isExpired(refund, now)) throw new Problem('refund_invoice_expired', { id: refund.id });
}

/** What is approved is the invoice of now. Its preimage counts from then on, also after it expired. */
export const noteApproval = (tx: Tx, { ids, at }: { ids: readonly string[]; at: Date }) =>
  tx`update refund_invoices set approved_at = ${at} where refund_id = any(${ids as string[]}::text[]) and expires_at > ${at} and approved_at is null`;

/** Refunds whose invoice expired wait for another one of the customer, and lose their approval. Returns how many. */
export async function endInvoices(ctx: Context): Promise<number> {
  const { sql } = ctx.db;
  const found = await sql<{ id: string; merchantId: string; mode: Mode }[]>`
    select id, merchant_id as "merchantId", mode from outgoing_payments
    where state in ('requested', 'approved') and invoice_expires_at <= clock_timestamp() order by invoice_expires_at limit ${BATCH}`;
  for (const one of found)
    await ctx.db.begin((tx) =>
      changeOutgoing(ctx, tx, { ...one, kind: 'refund' }, async ({ rows, now, write }) => {
        const before = rows[0]!;
        if (!isExpired(before, now) || (before.state !== 'requested' && before.state !== 'approved')) return;
        const keepsMember = tx`state = 'requested' and approved_by is null`;
        const [after] = await write(
          tx`state = 'requested', address = null, invoice_expires_at = null, backed_by = case when ${keepsMember} then backed_by end,
            approved_by = null, approved_by_user = null, approved_at = null, approved_usd_cents = null, claim_until = ${claimUntil(now)},
            link_mailed = false`,
          { states: ['requested'] },
        );
        await notifyOfOutgoing(ctx, tx, [after!], 'invoice');
      }),
    );
  return found.length;
}

/**
 * The preimage of an invoice of a refund that was approved: the refund is confirmed. Returns its payment hash; null: it was known
 * before. Errors: preimage_wrong, refund_state.
 */
export async function provePaid(tx: Tx, { rows, now, write }: Held<'refund'>, preimage: string): Promise<string | null> {
  const before = rows[0]!;
  const text = preimage.trim().toLowerCase();
  const hash = paymentHashOf(text) ?? '';
  const [invoice] = await tx<{ bolt11: string | null; expiresAt: Date; isApproved: boolean }[]>`
    select bolt11, expires_at as "expiresAt", approved_at is not null as "isApproved" from refund_invoices
    where payment_hash = ${hash} and refund_id = ${before.id}`;
  if (!invoice) throw new Problem('preimage_wrong', { id: before.id }, { param: 'preimage' });
  if (before.state === 'confirmed' && before.txid === hash) return null;
  if (!invoice.isApproved || (before.state !== 'requested' && before.state !== 'approved'))
    throw new Problem('refund_state', { id: before.id, state: before.state, action: 'marked as paid' });
  await tx`update refund_invoices set preimage = ${text} where payment_hash = ${hash}`;
  // It may be the preimage of an invoice that the customer has replaced since.
  await write(
    tx`state = 'confirmed', txid = ${hash}, address = ${invoice.bolt11}, invoice_expires_at = ${invoice.expiresAt}, failure = null, sent_at = ${now},
      ended_at = ${now}`,
    { states: ['sent', 'confirmed'] },
  );
  return hash;
}

/** Whether a refund pays an invoice, and not an address. */
export const paysInvoice = (one: OutgoingPayment): boolean => one.kind === 'refund' && one.invoiceExpiresAt !== null;
