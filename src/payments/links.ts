/** Payment links: a page that creates a payment for each visitor, with a fixed amount or one the payer chooses. */

import { isDeepStrictEqual } from 'node:util';
import type { Context } from '#context';
import type { AskedPrice } from '#core/asked-price';
import type { Mode } from '#core/coin';
import { type Fiat, formatFiat } from '#core/fiat';
import { newId } from '#core/id';
import type { IdempotencyClaim, NamedCustomer, RenderedReply, ReplayableReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { readCustomer } from '#customers';
import { runOnce, type Tx } from '#db';
import { getMerchant, type Merchant } from '#merchants';
import { type AnyActor, writeAudit } from '#people';
import { type PaymentPrice, type PaymentWarning, priceAt, refuseUncarried, warningsFor } from '#readiness';
import { readRecords, toView } from '#settling';
import { createOne, prepareCreate } from './create-payments.ts';

/** An archived link creates no more payments. */
export const LINK_STATES = ['active', 'archived'] as const;
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
  state: (typeof LINK_STATES)[number];
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

/** The price of a link at the current rate; null if the customer chooses. Errors: price_unavailable, amount_too_large. */
function worthOf(ctx: Context, mode: Mode, { currency, amountMinor: minor }: LinkTerms): PaymentPrice | null {
  if (minor === null) return null;
  return priceAt(ctx, { mode, currency, minor, params: { amount: 'amount', currency: 'currency' } });
}
/**
 * Why nobody could pay the price of a link: none of the merchant's coins carries so little. Null otherwise. Errors: price_unavailable,
 * amount_too_large.
 */
function refusePrice(ctx: Context, { merchant, mode, link }: { merchant: Merchant; mode: Mode; link: LinkTerms }): Problem | null {
  const price = worthOf(ctx, mode, link);
  if (price === null) return null;
  const { amountUsdCents, fiat } = price;
  const request = { fiat, asset: null, items: null };
  return refuseUncarried(ctx, { merchant, mode, amountUsdCents, request })?.with({ param: 'amount' }) ?? null;
}
/** A price that cannot be paid is refused when it is entered, not when a customer opens the link. */
async function checkPrice(ctx: Context, { merchantId, mode, link }: Owner & { link: LinkTerms }): Promise<void> {
  const refusal = refusePrice(ctx, { merchant: await getMerchant(ctx, { merchantId }), mode, link });
  if (refusal) throw refusal;
}

/** The terms as the audit log shows them. */
const written = ({ name, currency, amountMinor, reusable, returnUrl, asksEmail }: LinkTerms) => ({
  name,
  amount: amountMinor === null ? null : `${formatFiat(currency, amountMinor)} ${currency}`,
  reusable,
  return_url: returnUrl,
  ask_email: asksEmail,
});

type Change = Owner & { actor: AnyActor; idempotency: IdempotencyClaim | null };

/** `render` gets what customers could not pay with now. Errors: price_unavailable, amount_too_large, amount_too_small. */
export async function createLink(
  ctx: Context,
  {
    merchantId,
    mode,
    link,
    actor,
    idempotency,
    render,
  }: Change & { link: LinkTerms; render: (link: PaymentLink, warnings: readonly PaymentWarning[]) => RenderedReply },
): Promise<ReplayableReply> {
  await checkPrice(ctx, { merchantId, mode, link });
  const warnings = await warningsFor(ctx, { merchantId, mode, amountUsdCents: worthOf(ctx, mode, link)?.amountUsdCents ?? null });
  const id = newId('lnk', ctx.random);
  return runOnce(ctx.db, idempotency, async (tx) => {
    const [row] = await tx<PaymentLink[]>`
      insert into payment_links (id, merchant_id, mode, name, currency, amount_minor, reusable, return_url, asks_email)
      values (${id}, ${merchantId}, ${mode}, ${link.name}, ${link.currency}, ${link.amountMinor?.toString() ?? null}, ${link.reusable},
        ${link.returnUrl}, ${link.asksEmail})
      returning ${columns(tx)}`;
    await writeAudit(tx, { merchantId, mode, actor, action: 'link.created', object: id, after: written(link) });
    return render(row!, warnings);
  });
}

/**
 * Changes what is given of a link; payments created through it stay unchanged. An archived link creates no more payments. `allow` is asked
 * before. Errors: link_not_found, parameter_missing, price_unavailable, amount_too_large, amount_too_small, and those of `allow`.
 */
export async function changeLink(
  ctx: Context,
  {
    merchantId,
    mode,
    linkId,
    change,
    actor,
    idempotency,
    allow,
    render,
  }: Change & {
    linkId: string;
    change: Partial<LinkTerms & Pick<PaymentLink, 'state'>>;
    allow: (before: LinkTerms, after: LinkTerms) => void;
    render: (link: PaymentLink) => RenderedReply;
  },
): Promise<ReplayableReply> {
  const known = await getLink(ctx, { merchantId, mode, linkId });
  const { currency = known.currency, amountMinor = known.amountMinor } = change;
  // A minor unit of one currency is none of another.
  if (currency !== known.currency && change.amountMinor === undefined && known.amountMinor !== null)
    throw new Problem('parameter_missing', {}, { param: 'amount' });
  if (currency !== known.currency || amountMinor !== known.amountMinor || change.state === 'active')
    await checkPrice(ctx, { merchantId, mode, link: { ...known, currency, amountMinor } });
  return runOnce(ctx.db, idempotency, async (tx) => {
    const mine = tx`id = ${linkId} and merchant_id = ${merchantId} and mode = ${mode}`;
    const [before] = await tx<PaymentLink[]>`select ${columns(tx)} from payment_links where ${mine} for update`;
    if (!before) throw new Problem('link_not_found', { id: linkId });
    const after = { ...before, ...change };
    allow(before, after);
    const [row] = await tx<PaymentLink[]>`
      update payment_links set name = ${after.name}, currency = ${after.currency}, amount_minor = ${after.amountMinor?.toString() ?? null},
        reusable = ${after.reusable}, return_url = ${after.returnUrl}, asks_email = ${after.asksEmail}, state = ${after.state}
      where ${mine} returning ${columns(tx)}`;
    const entry = { merchantId, mode, actor, object: linkId };
    const [from, to] = [written(before), written(after)];
    if (!isDeepStrictEqual(from, to)) await writeAudit(tx, { ...entry, action: 'link.changed', before: from, after: to });
    if (after.state !== before.state)
      await writeAudit(tx, { ...entry, action: after.state === 'active' ? 'link.activated' : 'link.archived' });
    return render(row!);
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
