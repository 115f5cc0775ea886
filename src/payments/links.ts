/** Payment links: a page that creates a payment for each visitor, with a fixed amount or one the payer chooses. */

import type { Context } from '#context';
import type { Mode } from '#core/coin';
import type { Fiat } from '#core/fiat';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { type NamedCustomer, readCustomer } from '#customers';
import { runOnce, type Tx } from '#db';
import { getMerchant, type Merchant } from '#merchants';
import { createOne, prepareCreate } from './create-payments.ts';
import { readRecords, toView } from './facts.ts';
import { type AskedPrice, priceAt } from './price.ts';
import { refuseUncarried, warningsFor } from './readiness.ts';

export type PaymentLink = {
  id: string;
  mode: Mode;
  name: string;
  currency: Fiat;
  /** In the smallest units of the currency; null: the payer chooses. */
  amountMinor: bigint | null;
  reusable: boolean;
  returnUrl: string | null;
  /** Whether the page asks the customer for an email address, which then is required. */
  asksEmail: boolean;
  state: 'active' | 'archived';
  payments: bigint;
  /** The newest payment created through it. */
  paymentId: string | null;
  createdAt: Date;
};
/** The merchant's settings for a link. */
export type LinkTerms = Pick<PaymentLink, 'name' | 'currency' | 'amountMinor' | 'reusable' | 'returnUrl' | 'asksEmail'>;
type Owner = { merchantId: string; mode: Mode };
/** The link that a payment was created through. */
export const LINK_METADATA = 'payment_link';

const columns = (sql: Context['db']['sql'] | Tx) => sql`
  id, mode, name, currency, amount_minor as "amountMinor", reusable, return_url as "returnUrl", asks_email as "asksEmail", state, payments, payment_id as "paymentId", created_at as "createdAt"`;

/**
 * Why nobody could pay the price of a link: none of the merchant's coins carries so little. Null otherwise. Errors: price_unavailable,
 * amount_too_large.
 */
function refusePrice(
  ctx: Context,
  { merchant, mode, link: { currency, amountMinor: minor } }: { merchant: Merchant; mode: Mode; link: LinkTerms },
): Problem | null {
  if (minor === null) return null;
  const { amountUsdCents, fiat } = priceAt(ctx, { mode, currency, minor, params: { amount: 'amount', currency: 'currency' } });
  const request = { fiat, asset: null, items: null };
  return refuseUncarried(ctx, { merchant, mode, amountUsdCents, request })?.with({ param: 'amount' }) ?? null;
}
/** A price that cannot be paid is refused when it is entered, not when a customer opens the link. */
async function checkPrice(ctx: Context, { merchantId, mode, link }: Owner & { link: LinkTerms }): Promise<void> {
  const refusal = refusePrice(ctx, { merchant: await getMerchant(ctx, { merchantId }), mode, link });
  if (refusal) throw refusal;
}

/** Errors: price_unavailable, amount_too_large, amount_too_small. */
export async function createLink(
  ctx: Context,
  { merchantId, mode, link, also }: Owner & { link: LinkTerms; also: (tx: Tx, id: string) => Promise<void> },
): Promise<PaymentLink> {
  await checkPrice(ctx, { merchantId, mode, link });
  const id = newId('lnk', ctx.random);
  return ctx.db.begin(async (tx) => {
    const [row] = await tx<PaymentLink[]>`
      insert into payment_links (id, merchant_id, mode, name, currency, amount_minor, reusable, return_url, asks_email)
      values (${id}, ${merchantId}, ${mode}, ${link.name}, ${link.currency}, ${link.amountMinor?.toString() ?? null}, ${link.reusable},
        ${link.returnUrl}, ${link.asksEmail})
      returning ${columns(tx)}`;
    await also(tx, id);
    return row!;
  });
}

/** Changes a link; payments created through it stay unchanged. Errors: link_not_found, price_unavailable, amount_too_large, amount_too_small. */
export async function changeLink(
  ctx: Context,
  {
    merchantId,
    mode,
    linkId,
    link,
    also,
  }: Owner & { linkId: string; link: LinkTerms; also: (tx: Tx, before: PaymentLink) => Promise<void> },
): Promise<PaymentLink> {
  await checkPrice(ctx, { merchantId, mode, link });
  return ctx.db.begin(async (tx) => {
    const mine = tx`id = ${linkId} and merchant_id = ${merchantId} and mode = ${mode}`;
    const [before] = await tx<PaymentLink[]>`select ${columns(tx)} from payment_links where ${mine} for update`;
    if (!before) throw new Problem('link_not_found', { id: linkId });
    const [row] = await tx<PaymentLink[]>`
      update payment_links set name = ${link.name}, currency = ${link.currency}, amount_minor = ${link.amountMinor?.toString() ?? null},
        reusable = ${link.reusable}, return_url = ${link.returnUrl}, asks_email = ${link.asksEmail}
      where ${mine} returning ${columns(tx)}`;
    await also(tx, before);
    return row!;
  });
}

/** An archived link creates no more payments; existing ones stay. Errors: link_not_found. */
export async function archiveLink(
  ctx: Context,
  { merchantId, mode, linkId, archived, also }: Owner & { linkId: string; archived: boolean; also: (tx: Tx) => Promise<void> },
): Promise<PaymentLink> {
  return ctx.db.begin(async (tx) => {
    const [row] = await tx<PaymentLink[]>`
      update payment_links set state = ${archived ? 'archived' : 'active'} where id = ${linkId} and merchant_id = ${merchantId} and mode = ${mode}
      returning ${columns(tx)}`;
    if (!row) throw new Problem('link_not_found', { id: linkId });
    await also(tx);
    return row;
  });
}

/** Errors: link_not_found. */
export async function getLink(ctx: Context, { merchantId, mode, linkId }: Owner & { linkId: string }): Promise<PaymentLink> {
  const { sql } = ctx.db;
  const [row] = await sql<PaymentLink[]>`
    select ${columns(sql)} from payment_links where id = ${linkId} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (!row) throw new Problem('link_not_found', { id: linkId });
  return row;
}

/** Newest first, by an index in that order. Errors: cursor_invalid. */
export async function listLinks(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    state,
  }: Owner & { limit: number; startingAfter: string | null; state: PaymentLink['state'] | null },
): Promise<{ items: PaymentLink[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const [cursor] =
    startingAfter === null
      ? [null]
      : await sql<
          { number: bigint }[]
        >`select number from payment_links where id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (cursor === undefined) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  const rows = await sql<PaymentLink[]>`
    select ${columns(sql)} from payment_links where merchant_id = ${merchantId} and mode = ${mode}
      ${cursor ? sql`and number < ${cursor.number.toString()}` : sql``} ${state ? sql`and state = ${state}` : sql``}
    order by number desc limit ${limit + 1}`;
  return { items: rows.slice(0, limit), hasMore: rows.length > limit };
}

/** The link that a payer opened, with its merchant. Errors: link_not_found, also for an archived one. */
export async function getLinkForPayer(ctx: Context, { linkId }: { linkId: string }): Promise<{ link: PaymentLink; merchant: Merchant }> {
  const [row] = await ctx.db.sql<(PaymentLink & { merchantId: string })[]>`
    select ${columns(ctx.db.sql)}, merchant_id as "merchantId" from payment_links where id = ${linkId} and state = 'active'`;
  if (!row) throw new Problem('link_not_found', { id: linkId });
  const { merchantId, ...link } = row;
  return { link, merchant: await getMerchant(ctx, { merchantId }) };
}

/** The payment that a single-payment link leads to: while it can be paid, and after money arrived. Null: a new one may be created. */
async function standing(ctx: Context, tx: Tx, paymentId: string | null): Promise<string | null> {
  if (paymentId === null) return null;
  const [record] = await readRecords(ctx, tx, [paymentId]);
  if (!record) return null;
  const { settlement, now, transfers } = toView(record);
  const open = settlement.status === 'pending' && now < settlement.expiresAt;
  return open || settlement.status === 'processing' || settlement.status === 'completed' || transfers.length > 0 ? paymentId : null;
}

/**
 * What a link leads to: the payment of a single-payment link, if it has a current one, or else a new payment, unless the merchant has nothing
 * to pay with now, or only coins that do not carry the price. Errors: price_unavailable, amount_too_large.
 */
export async function lookAtLink(
  ctx: Context,
  { link, merchant }: { link: PaymentLink; merchant: Merchant },
): Promise<{ paymentId: string | null; refusal: 'away' | 'small' | null }> {
  const { mode } = link;
  const paymentId = link.reusable ? null : await ctx.db.begin((tx) => standing(ctx, tx, link.paymentId));
  if (paymentId !== null) return { paymentId, refusal: null };
  const warnings = await warningsFor(ctx, { merchantId: merchant.id, mode, amountUsdCents: null });
  return { paymentId, refusal: warnings.length > 0 ? 'away' : refusePrice(ctx, { merchant, mode, link }) && 'small' };
}

/**
 * Creates a payment from a link. Payers are treated like holders of a public key: their payments count toward the month's limit when
 * money arrives, and toward the hourly limit of addresses. Payers who open a single-payment link concurrently get the same payment.
 * With `idempotency`, the same claim returns the same payment. `chosen` is the price that the payer chose; it is used only if the
 * link has none. Errors: link_not_found, amount_invalid, parameter_invalid (email), plan_limit_exceeded, price_unavailable, amount_too_large.
 */
export async function payLink(
  ctx: Context,
  {
    linkId,
    chosen,
    email = '',
    customer = null,
    replaces = null,
    idempotency = null,
  }: {
    linkId: string;
    chosen: AskedPrice | null;
    /** That the customer entered; used only if the link asks for one. */
    email?: string;
    /** Who the payment that is started again is for. */
    customer?: NamedCustomer | null;
    /** The payment that is started again. */
    replaces?: string | null;
    idempotency?: { claim: Buffer; fingerprint: Buffer } | null;
  },
): Promise<{ paymentId: string }> {
  const { merchant, link: opened } = await getLinkForPayer(ctx, { linkId });
  const asked = opened.amountMinor === null ? chosen : { currency: opened.currency, minor: opened.amountMinor };
  if (asked === null || asked.minor <= 0n) throw new Problem('amount_invalid', {}, { param: 'amount' });
  const { amountUsdCents, fiat } = priceAt(ctx, { mode: opened.mode, ...asked, params: { amount: 'amount', currency: 'currency' } });
  const item = await prepareCreate(ctx, {
    merchantId: merchant.id,
    mode: opened.mode,
    createdWith: 'public',
    draft: {
      amountUsdCents,
      fixed: null,
      coin: null,
      request: {
        returnUrl: opened.returnUrl,
        description: opened.name,
        items: null,
        taxMinor: null,
        fiat,
        locale: null,
        asset: null,
        replaces,
      },
      invoiceId: null,
      metadata: { [LINK_METADATA]: opened.id },
      customer: customer ?? (opened.asksEmail ? readCustomer({ email }) : null),
      expiresInSeconds: null,
      scenario: null,
    },
    idempotency: null,
    render: () => ({ status: 201, body: Buffer.alloc(0) }),
  });
  const answer = (paymentId: string) => ({ status: 201, body: Buffer.from(paymentId) });
  const { body } = await runOnce(ctx.db, idempotency, async (tx) => {
    // Only single-payment links make concurrent payers wait for each other.
    const [link] = await tx<
      PaymentLink[]
    >`select ${columns(tx)} from payment_links where id = ${linkId} and state = 'active' ${opened.reusable ? tx`` : tx`for update`}`;
    if (!link) throw new Problem('link_not_found', { id: linkId });
    const known = link.reusable ? null : await standing(ctx, tx, link.paymentId);
    if (known !== null) return answer(known);
    if (replaces !== null) await tx`update payments set replaced_by = ${item.id}, version = version + 1 where id = ${replaces}`;
    await createOne(ctx, tx, item);
    await tx`update payment_links set payments = payments + 1, payment_id = ${item.id} where id = ${linkId}`;
    return answer(item.id);
  });
  return { paymentId: Buffer.from(body).toString() };
}
