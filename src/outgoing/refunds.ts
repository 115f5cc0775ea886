/** What only refunds have: how much of a payment they return, the claim page where the customer enters an address, and its links. */
import type { Context } from '#context';
import { askedOf, shownUnits, unitsFor } from '#core/asked-price';
import { type Asset, type ChainId, COIN, type Coin, coinText, LIGHTNING, type Mode, onChainCoin } from '#core/coin';
import { type Fiat, formatFiat } from '#core/fiat';
import { newId } from '#core/id';
import { centsToE8, divideCeil, divideHalfEven, dueUnit, e8ToCents, formatUnits, lightningUnits, shownUnit, worthUsdE8 } from '#core/money';
import type { IdempotencyClaim, RenderedReply, ReplayableReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { confirmedUnits, type RefundRate, reservedUnits, shareOf } from '#core/refund';
import { mayDo } from '#core/roles';
import { rolesOf, settle } from '#core/settle';
import { isFinal } from '#core/status';
import { worth } from '#core/transfer';
import { checkPayerEmail } from '#customers';
import { runOnce, type Tx } from '#db';
import { checkShop } from '#payments';
import { type AnyActor, actorText, type Departure, holdRole, memberOf, writeAudit } from '#people';
import { priceAt, priceOf, readDisplayRates } from '#readiness';
import { eraseAgain, type PaymentRecord, readOwnedRecords, tipsOf } from '#settling';
import { forgetApprovals, notifyOfOutgoing } from './approvals.ts';
import { changeOfPayment, changeOutgoing } from './change-outgoing.ts';
import { claimUntil, hashOfClaim, hashOfToken } from './claims.ts';
import { OUTGOING_COLUMNS, type Owner, type Refund, unknownOutgoing } from './outgoing-payments.ts';
import { checkInvoiceOpen, keepInvoice, type RefundTo, readDestination } from './refund-invoices.ts';
import { mailClaimLink } from './refund-mails.ts';

/** What is asked for: everything that is left, an amount in the coin of the payment, or one in a currency. */
export type AskedRefund = { kind: 'all' } | { kind: 'coin'; units(coin: Coin): bigint } | { kind: 'fiat'; currency: Fiat; minor: bigint };
type Amount = { units: bigint; usdCents: bigint };

/** How much of the coin pays the whole price at the worth recorded with the money that counted, whatever was quoted later. */
function basisOf(record: PaymentRecord, coin: Coin): Amount {
  const { facts, transfers } = record;
  const roles = rolesOf(facts, transfers, tipsOf(record));
  const own = transfers.filter((t) => t.coin === coin);
  const counted = own.filter((t) => roles.get(t) === 'counted');
  const [units, usdE8] = (counted.length > 0 ? counted : own).reduce(([a, b], t) => [a + t.units, b + worth(t)], [0n, 0n]);
  if (usdE8 === 0n) return { units, usdCents: 0n };
  const targetE8 = centsToE8(facts.targetUsdCents);
  const step = dueUnit(coin);
  // Rounded up as quotes are, so that refunding the price of an exact payment returns all of it.
  const whole = divideCeil(units * targetE8, usdE8 * step) * step;
  return { units: usdE8 >= targetE8 && whole > units ? units : whole, usdCents: facts.targetUsdCents };
}

/** What is asked for, in the coin. Amounts in a currency are rounded down, so that refunds of parts never exceed the whole. */
function amountOf(
  ctx: Context,
  record: PaymentRecord,
  { coin, asked, rate, available }: { coin: Coin; asked: AskedRefund; rate: RefundRate; available: bigint },
): Amount {
  const { mode } = record;
  const basis = basisOf(record, coin);
  const centsOf = (units: bigint): bigint => {
    if (rate === 'current') return e8ToCents(worthUsdE8(coin, units, priceOf(ctx, { mode, coin })));
    return basis.units === 0n ? 0n : divideHalfEven(units * basis.usdCents, basis.units);
  };
  if (asked.kind !== 'fiat') {
    const units = asked.kind === 'all' ? available : asked.units(coin);
    return { units, usdCents: centsOf(units) };
  }
  const price = askedOf(record.request, record.facts.targetUsdCents);
  const { currency, minor } = asked;
  if (rate === 'payment' && currency === price.currency) {
    const part = { part: minor, total: price.minor };
    return { units: shownUnits(coin, shareOf(basis.units, part)), usdCents: shareOf(record.facts.targetUsdCents, part) };
  }
  const { amountUsdCents } = priceAt(ctx, { mode, currency, minor, params: { amount: 'amount', currency: 'currency_fiat' } });
  if (rate === 'payment' && basis.usdCents > 0n)
    return { units: shownUnits(coin, shareOf(basis.units, { part: amountUsdCents, total: basis.usdCents })), usdCents: amountUsdCents };
  return { units: unitsFor(coin, amountUsdCents, priceOf(ctx, { mode, coin })), usdCents: amountUsdCents };
}

const confirmedOf = (record: PaymentRecord, coin: Coin): bigint => confirmedUnits(record.facts, record.transfers, tipsOf(record), coin);
/** Without what other refunds return or may still return; less than nothing while blocks are replaced that contain it. */
const leftOf = (record: PaymentRecord, coin: Coin): bigint => confirmedOf(record, coin) - reservedUnits(record.refunds, coin);

/** A coin by its asset and, if the asset arrived on several networks, the chain. */
type WantedCoin = { asset: Asset; chain: ChainId | null };

/**
 * The coin that is refunded if none is named: that of the money that counts, or of what arrived instead of it. Null: no coin was chosen, and
 * nothing arrived.
 */
function usualCoin(record: PaymentRecord, arrived: readonly Coin[]): Coin | null {
  const tips = tipsOf(record);
  const { coin } = settle(record.facts, record.transfers, tips, record.now);
  const roles = rolesOf(record.facts, record.transfers, tips);
  const isCounted = record.transfers.some((t) => roles.get(t) === 'counted');
  if (isCounted || (coin !== null && confirmedOf(record, coin) > 0n)) return coin;
  return arrived.find((one) => confirmedOf(record, one) > 0n) ?? coin;
}
/** Errors: parameter_missing (param `network`), refund_exceeds. */
function coinOf(record: PaymentRecord, wanted: WantedCoin | null): Coin {
  const arrived = arrivedIn(record);
  if (wanted === null) {
    const coin = usualCoin(record, arrived);
    if (coin === null) {
      const { currency } = askedOf(record.request, record.facts.targetUsdCents);
      throw new Problem('refund_exceeds', { available: `${formatFiat(currency, 0n)} ${currency}` }, { param: 'payment_id' });
    }
    return coin;
  }
  const { asset, chain } = wanted;
  const [coin, another] = arrived.filter((one) => COIN[one].asset === asset && (chain === null || COIN[one].chain === chain));
  if (another !== undefined) throw new Problem('parameter_missing', {}, { param: 'network' });
  if (coin === undefined) throw new Problem('refund_exceeds', { available: `0 ${asset}` }, { param: 'currency' });
  return coin;
}
const arrivedIn = ({ transfers }: PaymentRecord): Coin[] => [...new Set(transfers.map(({ coin }) => coin))];

/** The same amount in the currency of the price. Null: nothing says what the coin is worth. */
function worthIn(record: PaymentRecord, { coin, units }: { coin: Coin; units: bigint }): { amount: string; currency: Fiat } | null {
  const basis = basisOf(record, coin);
  if (basis.units === 0n) return null;
  const { currency, minor } = askedOf(record.request, record.facts.targetUsdCents);
  return { amount: formatFiat(currency, (minor * units) / basis.units), currency };
}
/** An amount of a coin, also in the currency of the price. */
function amountText(record: PaymentRecord, { coin, units }: { coin: Coin; units: bigint }): string {
  const worth = worthIn(record, { coin, units });
  return `${formatUnits(coin, units)} ${coinText(coin)}${worth === null ? '' : ` (${worth.amount} ${worth.currency})`}`;
}

type Refundable = { coin: Coin; units: bigint; worth: { amount: string; currency: Fiat } | null };
/** What can still be refunded of a payment, by coin, first in the usual one; none while nothing arrived. Errors: payment_not_found. */
export async function readRefundable(ctx: Context, of: Owner & { paymentId: string }): Promise<Refundable[]> {
  const [record] = await readOwnedRecords(ctx, ctx.db.sql, [of]);
  if (!record) throw new Problem('payment_not_found', { id: of.paymentId });
  const arrived = arrivedIn(record);
  const usual = usualCoin(record, arrived);
  const others = arrived.filter((coin) => coin !== usual && confirmedOf(record, coin) > 0n);
  const found: Refundable[] = [];
  for (const coin of [...(usual === null ? [] : [usual]), ...others]) {
    const left = leftOf(record, coin);
    const units = left > 0n ? left : 0n;
    found.push({ coin, units, worth: worthIn(record, { coin, units }) });
  }
  return found;
}

/**
 * Where a claim link goes: to the address that the merchant named, also if the customer left another one, or to nobody (null). Without a
 * choice, to the address on the payment page, which anyone with its link may have entered. Customers get no emails about tests. Errors:
 * parameter_invalid (email).
 */
async function recipientOf(
  { mail }: Context,
  tx: Tx,
  { mode, paymentId, email }: { mode: Mode; paymentId: string; email: string | null | undefined },
): Promise<Pick<Refund, 'email' | 'emailFrom'>> {
  if (typeof email === 'string') checkPayerEmail(email);
  if (email === null || !mail || mode === 'test') return { email: null, emailFrom: null };
  const [left] = await tx<{ email: string | null }[]>`select email from refund_addresses where payment_id = ${paymentId}`;
  if (email !== undefined) return { email, emailFrom: email === left?.email ? 'page' : 'merchant' };
  return left?.email ? { email: left.email, emailFrom: 'page' } : { email: null, emailFrom: null };
}

/** Invoices are for whole satoshis, so less than one stays where it is. */
const wholeUnits = (coin: Coin, units: bigint): bigint => (coin === LIGHTNING ? shownUnits(coin, units) : units);
/** Errors: amount_too_small, for what the network does not carry. */
function checkAmount({ coin, units }: { coin: Coin; units: bigint }, destination: RefundTo | null): void {
  const isOnChain = destination !== null && destination.invoice === null;
  const least = coin !== LIGHTNING ? COIN[coin].dustUnits : shownUnit(coin);
  const minimum = coin === LIGHTNING && isOnChain ? lightningUnits(onChainCoin(coin), COIN[onChainCoin(coin)].dustUnits) : least;
  const named = (value: bigint) => `${formatUnits(coin, value)} ${coinText(coin)}`;
  if (units < minimum) throw new Problem('amount_too_small', { coin, amount: named(units), minimum: named(minimum) }, { param: 'amount' });
}

/** For replies that contain the link of a claim page. */
const sealed = (ctx: Context) => ({ seal: (bytes: Buffer) => ctx.seal('reply', bytes), open: (bytes: Buffer) => ctx.open('reply', bytes) });

/**
 * Requests a refund. Without an address, its claim page asks the customer for one. Errors: payment_not_found, refund_exceeds,
 * parameter_missing (param `network`), amount_too_small, price_unavailable, shop_mismatch, parameter_invalid (amount, email), and those of
 * readDestination.
 */
export async function requestRefund(
  ctx: Context,
  {
    paymentId,
    shop,
    allows,
    wanted = null,
    asked,
    rate,
    address,
    reason,
    email,
    actor,
    idempotency,
    render,
    ...owner
  }: Owner & {
    paymentId: string;
    /** The shop that the caller says it acts for. */
    shop?: string | undefined;
    /** Throws if this coin may not be returned. */
    allows?: (coin: Coin) => void;
    /** Which of the coins that arrived; without it, that of the payment. */
    wanted?: WantedCoin | null;
    asked: AskedRefund;
    rate: RefundRate;
    address: string | null;
    reason: string | null;
    /** Where emails about it go; null: nowhere. Without it, where the customer asked for. */
    email?: string | null | undefined;
    actor: AnyActor;
    idempotency: IdempotencyClaim | null;
    render(refund: Refund): RenderedReply;
  },
): Promise<ReplayableReply> {
  const work = async (tx: Tx): Promise<RenderedReply> => {
    const unknown = new Problem('payment_not_found', { id: paymentId });
    const refund = await changeOfPayment(ctx, tx, { ...owner, payment: paymentId, unknown }, async (record) => {
      checkShop(record, shop);
      const coin = coinOf(record, wanted);
      allows?.(coin);
      const available = wholeUnits(coin, leftOf(record, coin));
      const named = (value: bigint) => `${formatUnits(coin, value)} ${coinText(coin)}`;
      const most = amountText(record, { coin, units: available > 0n ? available : 0n });
      if (available <= 0n) throw new Problem('refund_exceeds', { available: most }, { param: 'amount' });
      const { units, usdCents } = amountOf(ctx, record, { coin, asked, rate, available });
      if (units !== wholeUnits(coin, units))
        throw new Problem('parameter_invalid', { reason: 'over Lightning, only whole satoshis are returned' }, { param: 'amount' });
      if (units > available) throw new Problem('refund_exceeds', { available: most }, { param: 'amount' });
      const destination = address === null ? null : await readDestination(ctx, tx, { ...owner, coin, units, text: address });
      checkAmount({ coin, units }, destination);
      const to = await recipientOf(ctx, tx, { mode: owner.mode, paymentId, email });
      const id = newId('ref', ctx.random);
      const until = address === null ? claimUntil(record.now) : null;
      // With an address too: the page shows the customer what became of the refund.
      const hash = hashOfClaim(ctx, { id, claimNumber: 0 });
      const display = (await readDisplayRates(ctx, tx, [owner]))(owner);
      const [made] = await tx<Refund[]>`
        with erased_again as (${eraseAgain(tx, paymentId)})
        insert into outgoing_payments (id, kind, merchant_id, mode, payment_id, coin, units, usd_cents, rate, state, address, claim_hash, claim_until,
          reason, email, email_from, requested_by, backed_by, created_at, display_currency, display_rate, invoice_expires_at)
        values (${id}, 'refund', ${owner.merchantId}, ${owner.mode}, ${paymentId}, ${coin}, ${units.toString()}, ${usdCents.toString()}, ${rate},
          'requested', ${destination?.address ?? null}, ${hash}, ${until}, ${reason}, ${to.email}, ${to.emailFrom}, ${actorText(actor)}, ${memberOf(actor)}, ${record.now},
          ${display?.currency ?? null}, ${display?.rateE8.toString() ?? null}, ${destination?.invoice?.expiresAt ?? null})
        returning ${OUTGOING_COLUMNS(tx)}`;
      if (destination) await keepInvoice(tx, { id, destination, at: record.now });
      await writeAudit(tx, { ...owner, actor, action: 'refund.requested', object: id, after: { amount: named(units) } });
      return { before: null, after: made!, news: [['requested', made!]] };
    });
    return render(refund);
  };
  return runOnce(ctx.db, idempotency, work, sealed(ctx));
}

/** The newest refunds of each of the payments, newest first; `limit` is for each of them. */
export async function getRefundsOfPayments(
  ctx: Context,
  { merchantId, mode, paymentIds, limit }: Owner & { paymentIds: readonly string[]; limit: number },
): Promise<Refund[]> {
  const { sql } = ctx.db;
  return await sql<Refund[]>`
    select ${OUTGOING_COLUMNS(sql)} from unnest(${[...paymentIds]}::text[]) as wanted (of_payment) cross join lateral (
      select * from outgoing_payments where payment_id = wanted.of_payment and merchant_id = ${merchantId} and mode = ${mode}
      order by number desc limit ${limit}) as outgoing_payments
    order by number desc`;
}

/**
 * Replaces the claim link of a refund that has no address yet; the one before stops working. `email`: where it goes from now on; without it,
 * where the link before went. Errors: refund_not_found, refund_state, mail_limit_reached, parameter_invalid (email).
 */
export async function renewClaimLink(
  ctx: Context,
  {
    id,
    email,
    actor,
    idempotency,
    render,
    ...owner
  }: Owner & {
    id: string;
    email?: string | null | undefined;
    actor: AnyActor;
    idempotency: IdempotencyClaim | null;
    render(refund: Refund): RenderedReply;
  },
): Promise<ReplayableReply> {
  const work = async (tx: Tx): Promise<RenderedReply> => {
    const [refund] = await changeOutgoing(ctx, tx, { ...owner, kind: 'refund', id }, async ({ rows, now, write }) => {
      const before = rows[0]!;
      const action = 'given a new claim link';
      if (before.state !== 'requested') throw new Problem('refund_state', { id, state: before.state, action });
      if (before.address !== null) throw new Problem('refund_state', { id, state: 'waiting for approval', action });
      const claimNumber = before.claimNumber + 1;
      const to = email === undefined ? before : await recipientOf(ctx, tx, { mode: owner.mode, paymentId: before.paymentId, email });
      const [after] = await write(
        tx`claim_hash = ${hashOfClaim(ctx, { id, claimNumber })}, claim_until = ${claimUntil(now)}, claim_number = ${claimNumber},
          link_ended_at = null, link_mailed = false, email = ${to.email}, email_from = ${to.emailFrom}`,
      );
      await writeAudit(tx, { ...owner, actor, action: 'refund.link_renewed', object: id });
      await mailClaimLink(ctx, tx, after!, { over: 'refuse' });
    });
    return render(refund!);
  };
  return runOnce(ctx.db, idempotency, work, sealed(ctx));
}

/**
 * Replaces the claim links that a member could copy who may not see them any more: otherwise they could enter an address after they left.
 * The customer is mailed the new one; where nobody is, the refund says that a member has to send it. `shopRefunds`: how many links of
 * refunds without a payment were replaced before.
 */
async function endClaimLinks(
  ctx: Context,
  tx: Tx,
  { merchantId, userId, actor }: Departure,
  { shopRefunds }: { shopRefunds: number },
): Promise<void> {
  const open = await tx<Refund[]>`
    select ${OUTGOING_COLUMNS(tx)} from outgoing_payments
    where kind = 'refund' and merchant_id = ${merchantId} and state = 'requested' and address is null and claim_until > ${ctx.clock.now()} order by id for update`;
  for (const { id, claimNumber: before } of open) {
    const claimNumber = before + 1;
    const [after] = await tx<Refund[]>`
      update outgoing_payments set claim_hash = ${hashOfClaim(ctx, { id, claimNumber })}, claim_number = ${claimNumber},
        link_ended_at = ${ctx.clock.now()}, link_mailed = false
      where id = ${id} returning ${OUTGOING_COLUMNS(tx)}`;
    await mailClaimLink(ctx, tx, after!, { over: 'skip' });
  }
  const refunds = open.length + shopRefunds;
  if (refunds > 0)
    await writeAudit(tx, { merchantId, mode: null, actor, action: 'team.claim_links_ended', object: userId, before: { refunds } });
}

/** What a member of a merchant set going in refunds without a payment: each forgets or ends it, and returns of how many. */
type ShopSide = Readonly<Record<'forgetApprovals' | 'endLinks', (tx: Tx, departure: Departure) => Promise<number>>>;
/** Ends what a member's role no longer includes: first approvals, and the links that they could copy. Called before the role changes. */
export async function endRefundPowers(ctx: Context, tx: Tx, departure: Departure, shops: ShopSide): Promise<void> {
  await forgetApprovals(tx, departure, { shopRefunds: await shops.forgetApprovals(tx, departure) });
  const { role } = departure;
  const keepsLinks = role !== null && mayDo(role, 'refunds.request');
  if (!keepsLinks && mayDo(await holdRole(tx, departure), 'refunds.request'))
    await endClaimLinks(ctx, tx, departure, { shopRefunds: await shops.endLinks(tx, departure) });
}

/**
 * The customer enters the address, or for what arrived over Lightning an invoice, once. Returns whether it was taken: an address has to be
 * compared (`isChecked`) first. Errors: refund_not_found, refund_state, amount_too_small, and those of readDestination.
 */
export async function claimRefund(
  ctx: Context,
  { refund, address: text, isChecked = true }: { refund: Refund; address: string; isChecked?: boolean },
): Promise<boolean> {
  const { merchantId, mode, id, coin, units } = refund;
  const destination = await readDestination(ctx, ctx.db.sql, { merchantId, mode, coin, units, text, refundId: id });
  checkAmount(refund, destination);
  if (!isChecked && destination.invoice === null) return false;
  const { address, invoice } = destination;
  await ctx.db.begin((tx) =>
    changeOutgoing(ctx, tx, { merchantId, mode, kind: 'refund', id }, async ({ rows, now, write }) => {
      const before = rows[0]!;
      if (before.address === address) return;
      // The link was replaced meanwhile.
      if (before.claimNumber !== refund.claimNumber) throw unknownOutgoing('refund', id);
      const { state, claimUntil } = before;
      if (state !== 'requested' || before.address !== null || claimUntil === null || now >= claimUntil)
        throw new Problem('refund_state', { id, state, action: 'claimed' });
      await keepInvoice(tx, { id, destination, at: now });
      const entered = await write(tx`address = ${address}, invoice_expires_at = ${invoice?.expiresAt ?? null}`);
      await notifyOfOutgoing(ctx, tx, entered, 'address');
    }),
  );
  return true;
}

/**
 * Whether what was requested may be approved, and is still there: a block may have been replaced since. Errors: refund_payment_pending,
 * refund_address_missing, refund_invoice_expired, refund_exceeds.
 */
export function checkApprovable(refund: Refund, record: PaymentRecord): void {
  const { id, coin, paymentId, address, units } = refund;
  // More money in time would complete the payment, and count what was returned.
  const { status } = record.facts;
  if (!isFinal(status)) throw new Problem('refund_payment_pending', { id: paymentId, status });
  if (address === null) throw new Problem('refund_address_missing', { id });
  checkInvoiceOpen(refund, record.now);
  const left = leftOf(record, coin);
  if (left < 0n)
    throw new Problem('refund_exceeds', { available: amountText(record, { coin, units: units + left > 0n ? units + left : 0n }) });
}

/** The refund of a claim page, and the time of its payment. Errors: refund_not_found. */
export async function refundOfClaim(ctx: Context, { token }: { token: string }): Promise<Refund> {
  const { sql } = ctx.db;
  const hash = hashOfToken(token);
  const [row] = await sql<Refund[]>`select ${OUTGOING_COLUMNS(sql)} from outgoing_payments where claim_hash = ${hash}`;
  if (!row) throw new Problem('refund_not_found', { id: '' });
  return row;
}
