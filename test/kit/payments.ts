/** Payments without a coin, made as the service makes them. */
import { createHash } from 'node:crypto';
import type { Context } from '../../src/context.ts';
import type { Db } from '../../src/db/db.ts';
import { createPayment } from '../../src/payments/payments.ts';

/** Creates a live payment in the service of a test. Returns its ID. */
export async function makeLivePayment(
  ctx: Context,
  { merchantId, amountUsdCents, expiresInSeconds }: { merchantId: string; amountUsdCents: bigint; expiresInSeconds: number },
): Promise<string> {
  let id = '';
  const request = { returnUrl: null, description: null, items: null, taxMinor: null, fiat: null, locale: null, asset: null };
  await createPayment(ctx, {
    merchantId,
    mode: 'live',
    createdWith: 'secret',
    draft: { amountUsdCents, fixed: null, coin: null, request, invoiceId: null, metadata: {}, expiresInSeconds, scenario: null },
    idempotency: null,
    render: (view) => {
      id = view.facts.id;
      return { status: 201, body: new Uint8Array() };
    },
  });
  return id;
}

/** Moves everything stored about a payment into the past, as if that much time had passed. */
export async function agePayment(db: Db, paymentId: string, seconds: number): Promise<void> {
  await db.begin(async (tx) => {
    const by = `${seconds} seconds`;
    await tx`select 1 from payments where id = ${paymentId} for update`;
    await tx`
      update quotes set from_at = from_at - ${by}::interval, until_at = until_at - ${by}::interval where payment_id = ${paymentId}`;
    await tx`
      update transfers set first_seen_at = first_seen_at - ${by}::interval, absent_since = absent_since - ${by}::interval,
        unmined_since = unmined_since - ${by}::interval, block_time = block_time - ${by}::interval where payment_id = ${paymentId}`;
    await tx`update decisions set at = at - ${by}::interval where payment_id = ${paymentId}`;
    await tx`
      update payments set created_at = created_at - ${by}::interval, expires_at = expires_at - ${by}::interval,
        extended_until = extended_until - ${by}::interval, rate_lock_until = rate_lock_until - ${by}::interval, due_at = clock_timestamp() where id = ${paymentId}`;
  });
}

/** An invoice of which only the hash is real, for a refund that somebody approved. */
export async function giveInvoice(
  { app: { ctx } }: { app: { ctx: Context } },
  { refund, preimage }: { refund: string; preimage: string },
): Promise<void> {
  const hash = createHash('sha256').update(Buffer.from(preimage, 'hex')).digest('hex');
  await ctx.db.sql`
    insert into refund_invoices (payment_hash, refund_id, bolt11, expires_at, given_at, approved_at)
    values (${hash}, ${refund}, 'lnbcrt1', clock_timestamp(), clock_timestamp(), clock_timestamp())`;
}
