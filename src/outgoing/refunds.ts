/** Refunds: request, claim, approve, record that the money was sent. Nothing here can spend: keys stay with the merchant. */

import { createHash } from 'node:crypto';
import type { Context } from '#context';
import { type Asset, apiNamesOf, type ChainId, COIN, type Coin, coinText, kindOf, type Mode } from '#core/coin';
import { API_VERSION, type RefundEventType } from '#core/event';
import { type Fiat, formatFiat } from '#core/fiat';
import { eventId, newId } from '#core/id';
import { centsToE8, divideCeil, divideHalfEven, dueUnit, e8ToCents, formatUnits, formatUsd, worthUsdE8 } from '#core/money';
import { Problem } from '#core/problem';
import {
  confirmedUnits,
  hasApproved,
  isPaidOut,
  mayBecome,
  REFUND_STATES,
  type RefundEmailSource,
  type RefundRate,
  type RefundState,
  replaceRefund,
  reservedUnits,
  shareOf,
} from '#core/refund';
import { mayDo } from '#core/roles';
import { rolesOf, settle } from '#core/settle';
import { isFinal } from '#core/status';
import { worth } from '#core/transfer';
import { checkPayerEmail } from '#customers';
import { countByState, type Fragment, runOnce, type Sql, type Tx } from '#db';
import {
  askedOf,
  checkRefundAddress,
  checkShop,
  eraseAgain,
  type IdempotencyClaim,
  lockAndDecide,
  type PaymentRecord,
  priceAt,
  priceOf,
  type RenderedReply,
  type ReplayableReply,
  readDisplayRates,
  readOwnedRecords,
  shownUnits,
  tipsOf,
  unitsFor,
} from '#payments';
import { type Actor, type AnyActor, actorText, type Departure, holdRole, memberOf, writeAudit } from '#people';
import { forgetApprovals, notifyOfRefund, weighApproval, weightOf } from './approvals.ts';
import { claimUntil, claimUrl, hashOfClaim, hashOfToken } from './claims.ts';
import { mailClaimLink, mailPayer } from './refund-mails.ts';

export type Refund = {
  id: string;
  merchantId: string;
  mode: Mode;
  paymentId: string;
  coin: Coin;
  units: bigint;
  usdCents: bigint;
  rate: RefundRate;
  state: RefundState;
  address: string | null;
  claimUntil: Date | null;
  /** How many claim links it had before. */
  claimNumber: number;
  /** When its link was replaced because a member could have copied it; null once somebody was mailed or shown another one. */
  linkEndedAt: Date | null;
  /** Whether its link of now was mailed to `email`. */
  linkMailed: boolean;
  reason: string | null;
  /** Where its claim links are mailed: the merchant's choice, or what somebody with the link of the payment page entered there. */
  email: string | null;
  emailFrom: RefundEmailSource | null;
  txid: string | null;
  requestedBy: string;
  /** The member who requested it or approved it first. */
  backedBy: string | null;
  /** While it is requested: who approved it first. */
  approvedBy: string | null;
  createdAt: Date;
  approvedAt: Date | null;
  sentAt: Date | null;
  endedAt: Date | null;
  failure: string | null;
  /** In how many looks nothing found the transaction that a member entered, or could say whom it pays. */
  missed: number | null;
  /** The signing file that it is part of. */
  sweepId: string | null;
  /** The same; null once that file was canceled. */
  fileId: string | null;
};
/** The signing file of a refund or payout, unless it was canceled: it sends nothing then. */
export const openFileOf = (sql: Sql | Tx) => sql`(select s.id from signing_files s where s.id = file_id and s.state <> 'canceled')`;
/** Why a refund or payout does not move on; while it is signed, also why its signing file is not sent. */
export const failureOf = (sql: Sql | Tx) =>
  sql`coalesce(failure, case when state = 'signed' then (select s.failure from signing_files s where s.id = file_id) end)`;
export const REFUND_COLUMNS = (sql: Sql | Tx) => sql`
  id, merchant_id as "merchantId", mode, payment_id as "paymentId", coin, units, usd_cents as "usdCents", rate, state, address,
  claim_until as "claimUntil", claim_number as "claimNumber", link_ended_at as "linkEndedAt", link_mailed as "linkMailed", reason, email, email_from as "emailFrom", txid, requested_by as "requestedBy", backed_by as "backedBy",
  approved_by as "approvedBy", created_at as "createdAt", approved_at as "approvedAt", sent_at as "sentAt", ended_at as "endedAt", ${failureOf(sql)} as failure, missed,
  file_id as "sweepId", ${openFileOf(sql)} as "fileId"`;

type Owner = { merchantId: string; mode: Mode };
const at = (time: Date | null): string | null => time?.toISOString() ?? null;

/** The wire shape of a refund, used for replies and for the data of events. */
export const refundDetail = (ctx: Context, refund: Refund) => ({
  id: refund.id,
  payment_id: refund.paymentId,
  status: refund.state,
  mode: refund.mode,
  amount: formatUnits(refund.coin, refund.units),
  ...apiNamesOf(refund.coin),
  amount_usd: formatUsd(refund.usdCents),
  rate: refund.rate,
  address: refund.address,
  claim_url: refund.claimUntil === null ? null : claimUrl(ctx, refund),
  claim_expires_at: at(refund.claimUntil),
  reason: refund.reason,
  transaction_hash: refund.txid,
  failure: refund.failure,
  created_at: refund.createdAt.toISOString(),
  approved_at: at(refund.approvedAt),
  sent_at: at(refund.sentAt),
  ended_at: at(refund.endedAt),
});

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

/** A step of a refund: its payment is locked, and the events of the refund take their place among those of the payment. */
type Step = { refund: Refund; events: readonly (readonly [RefundEventType, Refund])[] };
/** `payment`: its ID, or a query for it. `before`: the refund of now, null if the step makes it. Errors: `unknown`, without such a payment. */
async function step(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, payment, unknown }: Owner & { payment: string | Fragment; unknown: Problem },
  write: (record: PaymentRecord) => Promise<Step & { before: Refund | null }>,
): Promise<Refund> {
  let done: Step | null = null;
  const decided = await lockAndDecide(ctx, tx, payment, async (record) => {
    if (record.merchantId !== merchantId || record.mode !== mode) throw unknown;
    const { before, refund: last, events } = await write(record);
    done = { refund: last, events };
    if (events.length === 0) return 'nothing';
    const refunds = replaceRefund(record.refunds, before, last);
    for (const [type, refund] of events) {
      await mailPayer(ctx, tx, { type, refund });
      if (type === 'refund.failed') await notifyOfRefund(ctx, tx, refund, 'failed');
      if (type === 'refund.requested' && refund.address !== null) await notifyOfRefund(ctx, tx, refund, 'approval');
    }
    const facts = { ...record.facts, hasRefund: hasApproved(refunds) };
    const eventCount = record.eventCount + BigInt(events.length);
    return {
      record: { ...record, facts, refunds, eventCount },
      events: events.map(([type, refund], i) =>
        eventOf(ctx, { refund, type, sequence: record.eventCount + BigInt(i) + 1n, now: record.now }),
      ),
    };
  });
  if (!decided || !done) throw unknown;
  return (done as Step).refund;
}

function eventOf(ctx: Context, { refund, type, sequence, now }: { refund: Refund; type: RefundEventType; sequence: bigint; now: Date }) {
  const { merchantId, mode, paymentId } = refund;
  // A refund that failed can be sent again.
  const id = eventId(ctx.installKey, [refund.id, type, sequence.toString()]);
  // Stored events do not contain the link of the claim page.
  const data = { ...refundDetail(ctx, refund), claim_url: null, sequence: Number(sequence) };
  const body = JSON.stringify({ id, type, created_at: now.toISOString(), mode, api_version: API_VERSION, data });
  return { id, merchantId, mode, paymentId, type, sequence, body, createdAt: now };
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

/** For replies that contain the link of a claim page. */
const sealed = (ctx: Context) => ({ seal: (bytes: Buffer) => ctx.seal('reply', bytes), open: (bytes: Buffer) => ctx.open('reply', bytes) });

/**
 * Requests a refund. Without an address, its claim page asks the customer for one. Errors: payment_not_found, refund_exceeds,
 * parameter_missing (param `network`), amount_too_small, address_invalid, price_unavailable, shop_mismatch, parameter_invalid (email).
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
    const refund = await step(ctx, tx, { ...owner, payment: paymentId, unknown }, async (record) => {
      checkShop(record, shop);
      const coin = coinOf(record, wanted);
      allows?.(coin);
      const available = leftOf(record, coin);
      const named = (value: bigint) => `${formatUnits(coin, value)} ${coinText(coin)}`;
      const most = amountText(record, { coin, units: available > 0n ? available : 0n });
      if (available <= 0n) throw new Problem('refund_exceeds', { available: most }, { param: 'amount' });
      const { units, usdCents } = amountOf(ctx, record, { coin, asked, rate, available });
      if (units > available) throw new Problem('refund_exceeds', { available: most }, { param: 'amount' });
      if (units < COIN[coin].dustUnits)
        throw new Problem('amount_too_small', { coin, amount: named(units), minimum: named(COIN[coin].dustUnits) }, { param: 'amount' });
      const stored = address === null ? null : checkRefundAddress(ctx, { mode: owner.mode, coin, address });
      const to = await recipientOf(ctx, tx, { mode: owner.mode, paymentId, email });
      const id = newId('ref', ctx.random);
      const until = address === null ? claimUntil(record.now) : null;
      // With an address too: the page shows the customer what became of the refund.
      const hash = hashOfClaim(ctx, { id, claimNumber: 0 });
      const display = (await readDisplayRates(ctx, tx, [owner]))(owner);
      const [made] = await tx<Refund[]>`
        with erased_again as (${eraseAgain(tx, paymentId)})
        insert into refunds (id, merchant_id, mode, payment_id, coin, units, usd_cents, rate, state, address, claim_hash, claim_until,
          reason, email, email_from, requested_by, backed_by, created_at, display_currency, display_rate)
        values (${id}, ${owner.merchantId}, ${owner.mode}, ${paymentId}, ${coin}, ${units.toString()}, ${usdCents.toString()}, ${rate},
          'requested', ${stored}, ${hash}, ${until}, ${reason}, ${to.email}, ${to.emailFrom}, ${actorText(actor)}, ${memberOf(actor)}, ${record.now},
          ${display?.currency ?? null}, ${display?.rateE8.toString() ?? null})
        returning ${REFUND_COLUMNS(tx)}`;
      await writeAudit(tx, { ...owner, actor, action: 'refund.requested', object: id, after: { amount: named(units) } });
      return { before: null, refund: made!, events: [['refund.requested', made!]] };
    });
    return render(refund);
  };
  return runOnce(ctx.db, idempotency, work, sealed(ctx));
}

/** Errors: refund_not_found. */
export async function getRefund(ctx: Context, { merchantId, mode, id }: Owner & { id: string }, tx?: Tx): Promise<Refund> {
  const sql = tx ?? ctx.db.sql;
  const [row] = await sql<Refund[]>`
    select ${REFUND_COLUMNS(sql)} from refunds where id = ${id} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (!row) throw unknownRefund(id);
  return row;
}
const unknownRefund = (id: string) => new Problem('refund_not_found', { id: id.slice(0, 40) });

/** A page of refunds, newest first. Errors: cursor_invalid. */
export async function listRefunds(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    paymentId,
    customerId = null,
    state,
  }: Owner & {
    limit: number;
    startingAfter: string | null;
    paymentId: string | null;
    customerId?: string | null;
    state: RefundState | null;
  },
): Promise<{ refunds: Refund[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  const [cursor] =
    startingAfter === null ? [] : await sql<{ number: bigint }[]>`select number from refunds where id = ${startingAfter} and ${mine}`;
  if (startingAfter !== null && !cursor) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  const refunds = await sql<Refund[]>`
    select ${REFUND_COLUMNS(sql)} from refunds where ${mine}
      ${cursor ? sql`and number < ${cursor.number}` : sql``} ${paymentId === null ? sql`` : sql`and payment_id = ${paymentId}`}
      ${customerId === null ? sql`` : sql`and payment_id in (select id from payments where ${mine} and customer_id = ${customerId})`}
      ${state === null ? sql`` : sql`and state = ${state}`}
    order by number desc limit ${limit + 1}`;
  return { refunds: refunds.slice(0, limit), hasMore: refunds.length > limit };
}

/** How many refunds or payouts of each state the list shows without other filters. */
export const countOutgoing = ({ db: { sql } }: Context, { merchantId, mode, list }: Owner & { list: 'refunds' | 'payouts' }) =>
  countByState(sql, {
    states: REFUND_STATES,
    rowsIn: (state) => sql`${sql(list)} where merchant_id = ${merchantId} and mode = ${mode} and state = ${state} order by number desc`,
  });

/** The newest refunds of each of the payments, newest first; `limit` is for each of them. */
export async function getRefundsOfPayments(
  ctx: Context,
  { merchantId, mode, paymentIds, limit }: Owner & { paymentIds: readonly string[]; limit: number },
): Promise<Refund[]> {
  const { sql } = ctx.db;
  return await sql<Refund[]>`
    select ${REFUND_COLUMNS(sql)} from unnest(${[...paymentIds]}::text[]) as wanted (of_payment) cross join lateral (
      select * from refunds where payment_id = wanted.of_payment and merchant_id = ${merchantId} and mode = ${mode}
      order by number desc limit ${limit}) as refunds
    order by number desc`;
}

/** Locks the payment of a refund, reads the refund again, and changes it. Errors: refund_not_found. */
export async function changeRefund(
  ctx: Context,
  tx: Tx,
  { id, ...owner }: Owner & { id: string },
  write: (refund: Refund, record: PaymentRecord) => Promise<Step>,
): Promise<Refund> {
  const payment = tx`(select payment_id from refunds where id = ${id} and merchant_id = ${owner.merchantId} and mode = ${owner.mode})`;
  return step(ctx, tx, { ...owner, payment, unknown: unknownRefund(id) }, async (record) => {
    const before = await getRefund(ctx, { ...owner, id }, tx);
    return { before, ...(await write(before, record)) };
  });
}

const refuse = ({ id, state }: Refund, action: string) => new Problem('refund_state', { id, state, action });
function check(refund: Refund, to: RefundState, action: string): void {
  if (!mayBecome(refund.state, to)) throw refuse(refund, action);
}

/** What a signing file sends is neither sent by hand nor canceled: a refund or a payout. Errors: `code`. */
export function checkNoFile(
  { id, fileId, state }: Pick<Refund, 'id' | 'fileId' | 'state'>,
  code: 'refund_in_file' | 'payout_in_file',
): void {
  if (fileId !== null && state !== 'failed') throw new Problem(code, { id, file: fileId });
}

/**
 * Cancels a refund. An approved one only for a member or the operator, who know whether the money was sent. Errors: refund_not_found, refund_state,
 * refund_in_file.
 */
export async function cancelRefund(
  ctx: Context,
  {
    id,
    actor,
    idempotency,
    render,
    ...owner
  }: Owner & { id: string; actor: AnyActor; idempotency: IdempotencyClaim | null; render(refund: Refund): RenderedReply },
): Promise<ReplayableReply> {
  return runOnce(ctx.db, idempotency, async (tx) => {
    const refund = await changeRefund(ctx, tx, { ...owner, id }, async (before, { now }) => {
      if (before.state === 'canceled') return { refund: before, events: [] };
      if (!mayBecome(before.state, 'canceled') || ('keyId' in actor && before.state !== 'requested')) throw refuse(before, 'canceled');
      checkNoFile(before, 'refund_in_file');
      const [after] = await tx<Refund[]>`
        update refunds set state = 'canceled', ended_at = ${now} where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      await writeAudit(tx, { ...owner, actor, action: 'refund.canceled', object: id });
      return { refund: after!, events: [['refund.canceled', after!]] };
    });
    return render(refund);
  });
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
    const refund = await changeRefund(ctx, tx, { ...owner, id }, async (before, { now }) => {
      const action = 'given a new claim link';
      if (before.state !== 'requested') throw refuse(before, action);
      if (before.address !== null) throw new Problem('refund_state', { id, state: 'waiting for approval', action });
      const claimNumber = before.claimNumber + 1;
      const to = email === undefined ? before : await recipientOf(ctx, tx, { mode: owner.mode, paymentId: before.paymentId, email });
      const [after] = await tx<Refund[]>`
        update refunds set claim_hash = ${hashOfClaim(ctx, { id, claimNumber })}, claim_until = ${claimUntil(now)}, claim_number = ${claimNumber},
          link_ended_at = null, link_mailed = false, email = ${to.email}, email_from = ${to.emailFrom}
        where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      await writeAudit(tx, { ...owner, actor, action: 'refund.link_renewed', object: id });
      await mailClaimLink(ctx, tx, after!, { over: 'refuse' });
      return { refund: after!, events: [] };
    });
    return render(refund);
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
    select ${REFUND_COLUMNS(tx)} from refunds
    where merchant_id = ${merchantId} and state = 'requested' and address is null and claim_until > ${ctx.clock.now()} order by id for update`;
  for (const { id, claimNumber: before } of open) {
    const claimNumber = before + 1;
    const [after] = await tx<Refund[]>`
      update refunds set claim_hash = ${hashOfClaim(ctx, { id, claimNumber })}, claim_number = ${claimNumber},
        link_ended_at = ${ctx.clock.now()}, link_mailed = false
      where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
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

/** The customer enters the address, once. Errors: refund_not_found, refund_state, address_invalid. */
export async function claimRefund(ctx: Context, { refund, address: entered }: { refund: Refund; address: string }): Promise<void> {
  const { merchantId, mode, id, coin } = refund;
  const address = checkRefundAddress(ctx, { mode, coin, address: entered });
  await ctx.db.begin((tx) =>
    changeRefund(ctx, tx, { merchantId, mode, id }, async (before, { now }) => {
      if (before.address === address) return { refund: before, events: [] };
      // The link was replaced meanwhile.
      if (before.claimNumber !== refund.claimNumber) throw unknownRefund(id);
      const isOpen = before.state === 'requested' && before.address === null && before.claimUntil !== null && now < before.claimUntil;
      if (!isOpen) throw refuse(before, 'claimed');
      const [after] = await tx<Refund[]>`update refunds set address = ${address} where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      await notifyOfRefund(ctx, tx, after!, 'address');
      return { refund: after!, events: [] };
    }),
  );
}

/**
 * Approves a refund. What was requested must still be there: a block may have been replaced since. Above the limit of the merchant it
 * stays requested until a second member approves it. In test mode the money is sent and confirmed at once. Errors: refund_not_found,
 * refund_state, refund_payment_pending, refund_address_missing, refund_exceeds, role_too_new, second_member_required.
 */
export async function approveRefund(ctx: Context, { id, actor, ...owner }: Owner & { id: string; actor: Actor }): Promise<Refund> {
  return ctx.db.begin((tx) =>
    changeRefund(ctx, tx, { ...owner, id }, async (before, record) => {
      check(before, 'approved', 'approved');
      const { coin, paymentId, address } = before;
      // More money in time would complete the payment, and count what was returned.
      const { status } = record.facts;
      if (!isFinal(status)) throw new Problem('refund_payment_pending', { id: paymentId, status });
      if (address === null) throw new Problem('refund_address_missing', { id });
      const left = leftOf(record, coin);
      if (left < 0n) {
        const available = before.units + left > 0n ? before.units + left : 0n;
        throw new Problem('refund_exceeds', { available: amountText(record, { coin, units: available }) });
      }
      const { now } = record;
      const usdCents = weightOf(ctx, before);
      const weight = await weighApproval(tx, 'refunds', { ...before, usdCents }, actor);
      await writeAudit(tx, { ...owner, actor, action: weight === 'first' ? 'refund.approved_first' : 'refund.approved', object: id });
      if (weight === 'first') {
        const [backed] = await tx<Refund[]>`
          update refunds set backed_by = ${actor.userId}, approved_by = ${actor.name} where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
        await notifyOfRefund(ctx, tx, backed!, 'second');
        return { refund: backed!, events: [] };
      }
      const isSecond = weight === 'second';
      const approvedBy = isSecond && before.approvedBy !== null ? `${before.approvedBy} and ${actor.name}` : actor.name;
      const plays = owner.mode === 'test';
      const [after] = await tx<Refund[]>`
        update refunds set approved_by = ${approvedBy}, approved_by_user = ${actor.userId || null},
          backed_by = ${isSecond ? before.backedBy : null}, approved_at = ${now}, approved_usd_cents = ${usdCents.toString()}, state = ${plays ? 'confirmed' : 'approved'},
          txid = ${plays ? simulatedTxid('refund', before) : null}, sent_at = ${plays ? now : null}, ended_at = ${plays ? now : null}
        where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      const approved: Refund = { ...after!, state: 'approved', txid: null, sentAt: null, endedAt: null };
      const sent: Refund = { ...after!, state: 'sent', endedAt: null };
      const played = [['refund.sent', sent] as const, ['refund.confirmed', after!] as const];
      return { refund: after!, events: [['refund.approved', approved], ...(plays ? played : [])] };
    }),
  );
}

const prefixOf = (coin: Coin): string => (kindOf(coin) === 'ethereum' ? '0x' : '');
/** The transaction of a test refund or payout. */
export const simulatedTxid = (what: 'refund' | 'payout', { id, coin }: { id: string; coin: Coin }): string =>
  prefixOf(coin) + createHash('sha256').update(`${what} ${id}`).digest('hex');
/** Errors: parameter_invalid. */
export function readTxid(coin: Coin, text: string): string {
  const hash = text.trim().toLowerCase();
  const prefix = prefixOf(coin);
  if (hash.startsWith(prefix) && /^[0-9a-f]{64}$/.test(hash.slice(prefix.length))) return hash;
  throw new Problem('parameter_invalid', { reason: `it must be a transaction ID of ${coinText(coin)}` }, { param: 'txid' });
}

/** How often the transaction that a member entered is looked for before it may be a typing error. Once a minute. */
const MISSES = 3;
/**
 * Whether what was sent may get another transaction: the one that a member entered is final and does not pay it, or for longer than the
 * network needs to show one, nothing has found it or could say whom it pays.
 */
export const mayBeCorrected = ({ state, sweepId, failure, missed }: Pick<Refund, 'state' | 'sweepId' | 'failure' | 'missed'>): boolean =>
  state === 'sent' && sweepId === null && (failure !== null || (missed ?? 0) >= MISSES);
/**
 * Records the transaction that returned the money. The same one again changes nothing, and another one is refused, unless the first one is
 * final and does not pay the refund, or was never found: a refund is sent once. Errors: refund_not_found, refund_state, refund_in_file, parameter_invalid.
 */
export async function markRefundSent(
  ctx: Context,
  { id, txid, actor, ...owner }: Owner & { id: string; txid: string; actor: Actor },
): Promise<Refund> {
  return ctx.db.begin((tx) =>
    changeRefund(ctx, tx, { ...owner, id }, async (before, { now }) => {
      const hash = readTxid(before.coin, txid);
      if (isPaidOut(before.state) && before.txid === hash) return { refund: before, events: [] };
      checkNoFile(before, 'refund_in_file');
      if (!mayBeCorrected(before)) check(before, 'sent', 'marked as sent');
      await writeAudit(tx, { ...owner, actor, action: 'refund.sent', object: id, ...correctedFrom(before), after: { txid: hash } });
      const [after] = await tx<Refund[]>`
        update refunds set state = 'sent', txid = ${hash}, sent_at = ${now}, failure = null, ended_at = null,
          file_id = null, transaction_number = null, looked_at = null, missed = null
        where id = ${id} returning ${REFUND_COLUMNS(tx)}`;
      return { refund: after!, events: [['refund.sent', after!]] };
    }),
  );
}

/** For the audit log: the transaction that was entered before. */
export const correctedFrom = ({ state, txid }: Pick<Refund, 'state' | 'txid'>): { before?: { txid: string } } =>
  state === 'sent' && txid !== null ? { before: { txid } } : {};

/** The refund of a claim page, and the time of its payment. Errors: refund_not_found. */
export async function refundOfClaim(ctx: Context, { token }: { token: string }): Promise<Refund> {
  const { sql } = ctx.db;
  const hash = hashOfToken(token);
  const [row] = await sql<Refund[]>`select ${REFUND_COLUMNS(sql)} from refunds where claim_hash = ${hash}`;
  if (!row) throw new Problem('refund_not_found', { id: '' });
  return row;
}
