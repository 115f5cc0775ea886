/**
 * Payouts to third parties: request, approve, record that the money was sent. They are refunds without a payment, with the same states,
 * approvals and signing files. Nothing here can spend: keys stay with the merchant.
 */
import type { Context } from '#context';
import { apiNamesOf, COIN, type Coin, coinText, type Mode } from '#core/coin';
import { API_VERSION, type PayoutEventType } from '#core/event';
import { eventId, newId } from '#core/id';
import { e8ToCents, formatUnits, formatUsd, MAX_USD_CENTS, worthUsdE8 } from '#core/money';
import { Problem } from '#core/problem';
import { isPaidOut, mayBecome, type RefundState } from '#core/refund';
import { printableLine } from '#core/text';
import { runOnce, type Sql, type Tx } from '#db';
import {
  checkRefundAddress,
  type IdempotencyClaim,
  priceOf,
  type RenderedReply,
  type ReplayableReply,
  readDisplayRates,
  unitsFor,
} from '#payments';
import { type Actor, type AnyActor, actorText, memberOf, writeAudit } from '#people';
import { recordEvents } from '#webhooks';
import { notifyOfPayouts, weighApproval, weightOf } from './approvals.ts';
import { checkNoFile, correctedFrom, failureOf, mayBeCorrected, openFileOf, readTxid, simulatedTxid } from './refunds.ts';

export type Payout = {
  id: string;
  merchantId: string;
  mode: Mode;
  /** The file that it was imported with. */
  batchId: string | null;
  /** The merchant's own name for it, which no other payout has unless it was canceled. */
  reference: string | null;
  coin: Coin;
  units: bigint;
  usdCents: bigint;
  /** Null once it was erased. */
  address: string | null;
  description: string | null;
  state: RefundState;
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
  /** When the authorizations expire that others can still send after its file failed, in seconds; null: there are none. */
  publishedUntil: bigint | null;
  eventCount: bigint;
};
export const PAYOUT_COLUMNS = (sql: Sql | Tx) => sql`
  id, merchant_id as "merchantId", mode, batch_id as "batchId", reference, coin, units, usd_cents as "usdCents", address, description, state,
  txid, ${failureOf(sql)} as failure, missed, requested_by as "requestedBy", backed_by as "backedBy", approved_by as "approvedBy", created_at as "createdAt",
  approved_at as "approvedAt", sent_at as "sentAt", ended_at as "endedAt", file_id as "sweepId", ${openFileOf(sql)} as "fileId",
  published_until as "publishedUntil", event_count as "eventCount"`;

export type Owner = { merchantId: string; mode: Mode };
/** One payout, or all of a batch. */
export type Which = { id: string } | { batchId: string };
const whichOf = (sql: Sql | Tx, which: Which) => ('id' in which ? sql`id = ${which.id}` : sql`batch_id = ${which.batchId}`);
const at = (time: Date | null): string | null => time?.toISOString() ?? null;

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
  created_at: payout.createdAt.toISOString(),
  approved_at: at(payout.approvedAt),
  sent_at: at(payout.sentAt),
  ended_at: at(payout.endedAt),
});

/** Records one event for each payout, whose `eventCount` is the sequence of that event. */
async function reportPayouts(ctx: Context, tx: Tx, type: PayoutEventType, payouts: readonly Payout[], now: Date): Promise<void> {
  const events = payouts.map((payout) => {
    const { id, merchantId, mode, eventCount: sequence } = payout;
    const event = eventId(ctx.installKey, [id, type, sequence.toString()]);
    const data = { ...payoutDetail(payout), sequence: Number(sequence) };
    const body = JSON.stringify({ id: event, type, created_at: now.toISOString(), mode, api_version: API_VERSION, data });
    return { id: event, merchantId, mode, paymentId: id, type, sequence, body, createdAt: now };
  });
  await recordEvents(tx, events);
  if (type === 'payout.requested') await notifyOfPayouts(ctx, tx, payouts, 'approval');
  if (type === 'payout.failed') await notifyOfPayouts(ctx, tx, payouts, 'failed');
}

/** What is asked for: an amount in the coin, or one in US dollars at the current rate. */
export type AskedAmount = { kind: 'coin'; units: bigint } | { kind: 'usd'; cents: bigint };
type AskedPayout = { coin: Coin; asked: AskedAmount; address: string; reference: string | null; description: string | null };
/** A payout whose amount and address were checked. */
export type PayoutDraft = Omit<AskedPayout, 'asked'> & { units: bigint; usdCents: bigint };

/** Errors: parameter_invalid, address_invalid, amount_too_small, amount_too_large, price_unavailable. */
export function draftPayout(ctx: Context, { mode, asked, ...payout }: AskedPayout & { mode: Mode }): PayoutDraft {
  const { coin, reference } = payout;
  if (reference !== null) printableLine(reference, 'payout_reference');
  const address = checkRefundAddress(ctx, { mode, coin, address: payout.address });
  const priceE8 = priceOf(ctx, { mode, coin });
  const named = (units: bigint) => `${formatUnits(coin, units)} ${coinText(coin)}`;
  const least = COIN[coin].dustUnits;
  const sized = (units: bigint, usdCents: bigint): PayoutDraft => {
    if (units < least) throw new Problem('amount_too_small', { coin, amount: named(units), minimum: named(least) }, { param: 'amount' });
    return { ...payout, address, units, usdCents };
  };
  const isUsd = asked.kind === 'usd';
  const usdCents = isUsd ? asked.cents : e8ToCents(worthUsdE8(coin, asked.units, priceE8));
  if (usdCents > MAX_USD_CENTS)
    throw new Problem('amount_too_large', { maximum: `${isUsd ? '' : 'the worth of '}1000000.00 USD` }, { param: 'amount' });
  return sized(isUsd ? unitsFor(coin, usdCents, priceE8) : asked.units, usdCents);
}

/** Errors: payout_exists. */
export async function insertPayouts(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, drafts, batchId, actor }: Owner & { drafts: readonly PayoutDraft[]; batchId: string | null; actor: AnyActor },
): Promise<Payout[]> {
  const column = <T>(of: (draft: PayoutDraft) => T): T[] => drafts.map(of);
  const display = (await readDisplayRates(ctx, tx, [{ merchantId, mode }]))({ merchantId, mode });
  const payouts = await tx<Payout[]>`
    insert into payouts (id, merchant_id, mode, batch_id, reference, coin, units, usd_cents, address, description, state, requested_by,
      backed_by, event_count, created_at, display_currency, display_rate)
    select given.id, ${merchantId}, ${mode}, ${batchId}, reference, coin, units::numeric, usd_cents::bigint, address, description, 'requested',
      ${actorText(actor)}, ${memberOf(actor)}, 1, clock_timestamp(),
      ${display?.currency ?? null}, ${display?.rateE8.toString() ?? null}
    from unnest(${column(() => newId('po', ctx.random))}::text[], ${column((one) => one.reference)}::text[], ${column((one) => one.coin)}::text[],
      ${column((one) => one.units.toString())}::text[], ${column((one) => one.usdCents.toString())}::text[],
      ${column((one) => one.address)}::text[], ${column((one) => one.description)}::text[])
      with ordinality as given (id, reference, coin, units, usd_cents, address, description, place)
    order by place
    on conflict (merchant_id, mode, reference) where reference is not null and state <> 'canceled' do nothing
    returning ${PAYOUT_COLUMNS(tx)}`;
  if (payouts.length < drafts.length) {
    const made = new Set(payouts.map(({ reference }) => reference));
    const { reference } = drafts.find((one) => one.reference !== null && !made.has(one.reference))!;
    const [known] = await tx<{ id: string }[]>`
      select id from payouts where merchant_id = ${merchantId} and mode = ${mode} and reference = ${reference} and state <> 'canceled'`;
    throw new Problem('payout_exists', { id: known!.id, reference: reference! }, { param: 'payout_reference' });
  }
  await reportPayouts(ctx, tx, 'payout.requested', payouts, payouts[0]!.createdAt);
  return payouts;
}

/** Requests a payout. Errors: those of `draftPayout`, payout_exists. */
export function requestPayout(
  ctx: Context,
  {
    asked,
    actor,
    idempotency,
    render,
    ...owner
  }: Owner & {
    asked: AskedPayout;
    actor: AnyActor;
    idempotency: IdempotencyClaim | null;
    render(payout: Payout): RenderedReply;
  },
): Promise<ReplayableReply> {
  return runOnce(ctx.db, idempotency, async (tx) => {
    const drafts = [draftPayout(ctx, { ...asked, mode: owner.mode })];
    const [payout] = await insertPayouts(ctx, tx, { ...owner, drafts, batchId: null, actor });
    const { id, coin, units } = payout!;
    const after = { amount: `${formatUnits(coin, units)} ${coinText(coin)}` };
    await writeAudit(tx, { ...owner, actor, action: 'payout.requested', object: id, after });
    return render(payout!);
  });
}

/** Errors: payout_not_found. */
export async function getPayout(ctx: Context, { merchantId, mode, id }: Owner & { id: string }): Promise<Payout> {
  const { sql } = ctx.db;
  const [row] = await sql<Payout[]>`
    select ${PAYOUT_COLUMNS(sql)} from payouts where id = ${id} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (!row) throw new Problem('payout_not_found', { id: id.slice(0, 40) });
  return row;
}

type PayoutFilter = { batchId: string | null; reference: string | null; state: RefundState | null };
/** A page of payouts, newest first. Errors: cursor_invalid. */
export async function listPayouts(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    batchId,
    reference,
    state,
  }: Owner & PayoutFilter & { limit: number; startingAfter: string | null },
): Promise<{ payouts: Payout[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  const [cursor] =
    startingAfter === null ? [] : await sql<{ number: bigint }[]>`select number from payouts where id = ${startingAfter} and ${mine}`;
  if (startingAfter !== null && !cursor) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  const payouts = await sql<Payout[]>`
    select ${PAYOUT_COLUMNS(sql)} from payouts where ${mine}
      ${cursor ? sql`and number < ${cursor.number}` : sql``} ${batchId === null ? sql`` : sql`and batch_id = ${batchId}`}
      ${reference === null ? sql`` : sql`and reference = ${reference}`} ${state === null ? sql`` : sql`and state = ${state}`}
    order by number desc limit ${limit + 1}`;
  return { payouts: payouts.slice(0, limit), hasMore: payouts.length > limit };
}

/** Locks payouts in the order of their numbers. Errors: payout_not_found, if there is none. */
async function lockPayouts(tx: Tx, { merchantId, mode, which }: Owner & { which: Which }): Promise<{ payouts: Payout[]; now: Date }> {
  const mine = tx`${whichOf(tx, which)} and merchant_id = ${merchantId} and mode = ${mode}`;
  await tx`select 1 from payouts where ${mine} order by number for update`;
  // A second statement also sees the file that took a payout while this one waited for the lock.
  const payouts = await tx<Payout[]>`select ${PAYOUT_COLUMNS(tx)} from payouts where ${mine} order by number`;
  const missing = 'id' in which ? which.id : which.batchId;
  if (payouts.length === 0) throw new Problem('id' in which ? 'payout_not_found' : 'payout_batch_not_found', { id: missing.slice(0, 40) });
  const [{ now } = { now: payouts[0]!.createdAt }] = await tx<{ now: Date }[]>`select clock_timestamp() as now`;
  return { payouts, now };
}

/** Locks one payout and changes it. Errors: payout_not_found. */
export async function changePayout(
  tx: Tx,
  { id, ...owner }: Owner & { id: string },
  write: (payout: Payout, now: Date) => Promise<Payout>,
): Promise<Payout> {
  const { payouts, now } = await lockPayouts(tx, { ...owner, which: { id } });
  return write(payouts[0]!, now);
}
/** Writes a step of a payout that is locked, and reports it. */
export async function writeStep(
  ctx: Context,
  tx: Tx,
  { id, state, txid, failure, now }: { id: string; state: RefundState; txid: string | null; failure: string | null; now: Date },
): Promise<Payout> {
  const isSent = state === 'sent' || state === 'confirmed';
  const ends = state === 'confirmed' || state === 'failed' || state === 'canceled';
  const type: PayoutEventType | null = state === 'signed' ? null : `payout.${state}`;
  const [payout] = await tx<Payout[]>`
    update payouts set state = ${state}, txid = ${txid}, failure = ${failure}, event_count = event_count + ${type === null ? 0 : 1},
      sent_at = case when ${isSent} then coalesce(sent_at, ${now}) else sent_at end, ended_at = ${ends ? now : null}
    where id = ${id} returning ${PAYOUT_COLUMNS(tx)}`;
  if (type !== null) await reportPayouts(ctx, tx, type, [payout!], now);
  return payout!;
}

const refuse = ({ id, state }: Payout, action: string) => new Problem('payout_state', { id, state, action });

/**
 * Cancels a payout. An approved one only for a member or the operator, who know whether the money was sent. Errors: payout_not_found, payout_state,
 * payout_in_file.
 */
export function cancelPayout(
  ctx: Context,
  {
    id,
    actor,
    idempotency,
    render,
    ...owner
  }: Owner & { id: string; actor: AnyActor; idempotency: IdempotencyClaim | null; render(payout: Payout): RenderedReply },
): Promise<ReplayableReply> {
  return runOnce(ctx.db, idempotency, async (tx) => {
    const payout = await changePayout(tx, { ...owner, id }, async (before, now) => {
      if (before.state === 'canceled') return before;
      if (!mayBecome(before.state, 'canceled') || ('keyId' in actor && before.state !== 'requested')) throw refuse(before, 'canceled');
      checkNoFile(before, 'payout_in_file');
      await writeAudit(tx, { ...owner, actor, action: 'payout.canceled', object: id });
      return writeStep(ctx, tx, { id, state: 'canceled', txid: before.txid, failure: before.failure, now });
    });
    return render(payout);
  });
}

/** Cancels those payouts of a batch that nobody approved. Returns how many. Errors: payout_batch_not_found. */
export function cancelBatch(ctx: Context, { batchId, actor, ...owner }: Owner & { batchId: string; actor: Actor }): Promise<number> {
  return ctx.db.begin(async (tx) => {
    const { payouts, now } = await lockPayouts(tx, { ...owner, which: { batchId } });
    const ids = payouts.flatMap(({ id, state }) => (state === 'requested' ? [id] : []));
    if (ids.length === 0) return 0;
    const canceled = await tx<Payout[]>`
      update payouts set state = 'canceled', ended_at = ${now}, event_count = event_count + 1 where id = any(${ids}::text[])
      returning ${PAYOUT_COLUMNS(tx)}`;
    await reportPayouts(ctx, tx, 'payout.canceled', canceled, now);
    await writeAudit(tx, { ...owner, actor, action: 'payout.batch_canceled', object: batchId, after: { payouts: ids.length } });
    return ids.length;
  });
}

/**
 * Approves a payout, or all of a batch that are still requested. Above the limit of the merchant they stay requested until a second member
 * approves them; a batch counts as one amount, without what the member approved before. In test mode the money is sent and confirmed at
 * once. Returns how many were approved, and how many wait for a second member. Errors: payout_not_found, payout_batch_not_found, payout_state,
 * role_too_new, second_member_required.
 */
export function approvePayouts(
  ctx: Context,
  { which, actor, ...owner }: Owner & { which: Which; actor: Actor },
): Promise<{ approved: number; waiting: number }> {
  return ctx.db.begin(async (tx) => {
    const { payouts, now } = await lockPayouts(tx, { ...owner, which });
    const requested = payouts.filter(({ state }) => mayBecome(state, 'approved'));
    if (requested.length === 0) throw refuse(payouts[0]!, 'approved');
    const done = { approved: 0, waiting: 0 };
    const refused: Problem[] = [];
    // A member may have approved one payout of a batch first: at most a few members did.
    const groups = Map.groupBy(requested, ({ backedBy, approvedBy }) => JSON.stringify([backedBy, approvedBy]));
    for (const group of groups.values()) {
      const weight = await weighGroup(ctx, tx, { ...owner, group }, actor);
      if (weight instanceof Problem) refused.push(weight);
      else if (weight === 'first') {
        const ids = group.map(({ id }) => id);
        await tx`update payouts set backed_by = ${actor.userId}, approved_by = ${actor.name} where id = any(${ids}::text[])`;
        await notifyOfPayouts(ctx, tx, group, 'second');
      } else {
        await writeApproved(ctx, tx, { mode: owner.mode, group, actor, isSecond: weight === 'second', now });
        done.approved += group.length;
      }
    }
    if (refused.length === groups.size) throw refused[0]!;
    done.waiting = requested.length - done.approved;
    await writeAudit(tx, {
      ...{ ...owner, actor, object: 'id' in which ? which.id : which.batchId },
      action: done.approved === 0 ? 'payout.approved_first' : 'payout.approved',
      ...('batchId' in which && { after: { ...done } }),
    });
    return done;
  });
}

/** How much the approval of these payouts, with one request or first approval behind them, is worth; a Problem: it does not count. */
async function weighGroup(
  ctx: Context,
  tx: Tx,
  { group, ...owner }: Owner & { group: readonly Payout[] },
  actor: Actor,
): Promise<Awaited<ReturnType<typeof weighApproval>> | Problem> {
  const worths = group.map((one) => weightOf(ctx, one));
  const isKnown = worths.every((cents) => cents > 0n);
  const usdCents = isKnown ? worths.reduce((sum, cents) => sum + cents, 0n) : 0n;
  try {
    const { backedBy, approvedBy } = group[0]!;
    return await weighApproval(tx, 'payouts', { ...owner, backedBy, approvedBy, usdCents }, actor);
  } catch (error) {
    if (error instanceof Problem && (error.code === 'second_member_required' || error.code === 'role_too_new')) return error;
    throw error;
  }
}

async function writeApproved(
  ctx: Context,
  tx: Tx,
  { mode, group, actor, isSecond, now }: { mode: Mode; group: readonly Payout[]; actor: Actor; isSecond: boolean; now: Date },
): Promise<void> {
  const plays = mode === 'test';
  const txids = group.map((one) => (plays ? simulatedTxid('payout', one) : null));
  const rows = await tx<Payout[]>`
    update payouts p set approved_by = case when ${isSecond} then coalesce(p.approved_by || ' and ', '') else '' end || ${actor.name},
      backed_by = case when ${isSecond} then p.backed_by end,
      approved_by_user = ${actor.userId || null}, approved_at = ${now}, approved_usd_cents = given.cents,
      state = ${plays ? 'confirmed' : 'approved'}, txid = given.hash,
      sent_at = ${plays ? now : null}, ended_at = ${plays ? now : null}, event_count = p.event_count + ${plays ? 3 : 1}
    from unnest(${group.map(({ id }) => id)}::text[], ${txids}::text[], ${group.map((one) => weightOf(ctx, one).toString())}::text[]::bigint[])
      as given (payout, hash, cents)
    where p.id = given.payout returning ${PAYOUT_COLUMNS(tx)}`;
  const approved = rows.map(
    (one): Payout =>
      plays ? { ...one, state: 'approved', txid: null, sentAt: null, endedAt: null, eventCount: one.eventCount - 2n } : one,
  );
  await reportPayouts(ctx, tx, 'payout.approved', approved, now);
  if (!plays) return;
  const sent = rows.map((one): Payout => ({ ...one, state: 'sent', endedAt: null, eventCount: one.eventCount - 1n }));
  await reportPayouts(ctx, tx, 'payout.sent', sent, now);
  await reportPayouts(ctx, tx, 'payout.confirmed', rows, now);
}

/**
 * Records the transaction in which the merchant sent a payout. The same one again changes nothing, and another one is refused, unless the
 * first one is final and does not pay the payout, or was never found: a payout is sent once. Errors: payout_not_found, payout_state, payout_in_file, parameter_invalid.
 */
export function markPayoutSent(
  ctx: Context,
  { id, txid, actor, ...owner }: Owner & { id: string; txid: string; actor: Actor },
): Promise<Payout> {
  return ctx.db.begin((tx) =>
    changePayout(tx, { ...owner, id }, async (before, now) => {
      const hash = readTxid(before.coin, txid);
      if (isPaidOut(before.state) && before.txid === hash) return before;
      checkNoFile(before, 'payout_in_file');
      const mayStillBePaid = before.publishedUntil !== null;
      if (mayStillBePaid || (!mayBecome(before.state, 'sent') && !mayBeCorrected(before))) throw refuse(before, 'marked as sent');
      await writeAudit(tx, { ...owner, actor, action: 'payout.sent', object: id, ...correctedFrom(before), after: { txid: hash } });
      // Its file failed, or was canceled a moment ago.
      await tx`update payouts set file_id = null, transaction_number = null, looked_at = null, missed = null where id = ${id}`;
      return writeStep(ctx, tx, { id, state: 'sent', txid: hash, failure: null, now });
    }),
  );
}
