/**
 * How refunds and payouts change: under a lock, of the payment for a refund, so that its refunds together never return more than arrived,
 * and of its own row for a payout. What changed is reported in the same transaction. The events of a refund take their place among those of
 * its payment; a payout counts its own.
 */
import type { Context } from '#context';
import { API_VERSION } from '#core/event';
import { eventId } from '#core/id';
import { Problem } from '#core/problem';
import { hasApproved, type RefundState, replaceRefund } from '#core/refund';
import type { Fragment, Tx } from '#db';
import { lockAndDecide, type PaymentRecord } from '#settling';
import { recordEvents } from '#webhooks';
import { notifyOfOutgoing } from './approvals.ts';
import {
  getOutgoing,
  type OfKind,
  OUTGOING_COLUMNS,
  type OutgoingKind,
  type OutgoingPayment,
  type Owner,
  type Payout,
  payoutDetail,
  type Refund,
  refundDetail,
  unknownOutgoing,
} from './outgoing-payments.ts';
import { mailPayer } from './refund-mails.ts';

/** One, or all payouts of a batch. */
export type Which = { id: string } | { batchId: string };
type Step = { state: RefundState; txid: string | null; failure: string | null };
/** What is locked, and how to change it. `record`: the payment of a refund. */
export type Held<Kind extends OutgoingKind> = {
  readonly rows: readonly OfKind<Kind>[];
  readonly now: Date;
  readonly record: PaymentRecord | null;
  /** Writes columns, of all rows or of those with the IDs, and reports the states through which they went. Returns what was written. */
  write(columns: Fragment, done?: { ids?: readonly string[]; states?: readonly RefundState[] }): Promise<OfKind<Kind>[]>;
  /** Writes the step of one, and reports it. */
  step(step: Step): Promise<OfKind<Kind>>;
};

/**
 * Locks a refund with its payment, or payouts in the order of their numbers, reads them again, and changes them. Returns them as they are
 * then. Errors: refund_not_found, payout_not_found, payout_batch_not_found.
 */
export async function changeOutgoing<Kind extends OutgoingKind>(
  ctx: Context,
  tx: Tx,
  of: Owner & { kind: Kind } & Which,
  change: (held: Held<Kind>) => Promise<void>,
): Promise<OfKind<Kind>[]> {
  if (of.kind === 'payout' || !('id' in of)) return changePayouts(ctx, tx, of, change);
  const { kind, id, merchantId, mode } = of;
  const payment = tx`(
    select payment_id from outgoing_payments where id = ${id} and kind = ${kind} and merchant_id = ${merchantId} and mode = ${mode})`;
  const refund = await changeOfPayment(ctx, tx, { merchantId, mode, payment, unknown: unknownOutgoing(kind, id) }, async (record) => {
    const before = await getOutgoing(ctx, { merchantId, mode, kind, id }, tx);
    const held = hold<Kind>(tx, { rows: [before], now: record.now, record });
    await change(held);
    return { before, after: held.latest()[0]!, news: held.news } as unknown as { before: Refund; after: Refund; news: News<Refund> };
  });
  return [refund as OfKind<Kind>];
}

/** A state that one reached, as it was then. */
type News<One> = readonly (readonly [RefundState, One])[];
/** `news`: what is to be reported; `latest`: the rows as they are now. */
function hold<Kind extends OutgoingKind>(
  tx: Tx,
  { rows, now, record }: Pick<Held<Kind>, 'rows' | 'now' | 'record'>,
): Held<Kind> & { news: [RefundState, OfKind<Kind>][]; latest(): OfKind<Kind>[] } {
  const latest = new Map(rows.map((row) => [row.id, row]));
  const news: [RefundState, OfKind<Kind>][] = [];
  const write: Held<Kind>['write'] = async (columns, { ids = rows.map(({ id }) => id), states = [] } = {}) => {
    const written = await tx<OfKind<Kind>[]>`
      update outgoing_payments set ${columns}, event_count = event_count + case when kind = 'payout' then ${states.length} else 0 end
      where id = any(${ids as string[]}::text[]) returning ${OUTGOING_COLUMNS(tx)}`;
    for (const row of written) latest.set(row.id, row);
    for (const [i, state] of states.entries())
      for (const row of written) news.push([state, asOf(row, { state, eventsLater: BigInt(states.length - 1 - i) })]);
    return written;
  };
  const step: Held<Kind>['step'] = async ({ state, txid, failure }) => {
    const isSent = state === 'sent' || state === 'confirmed';
    const ends = state === 'confirmed' || state === 'failed' || state === 'canceled';
    const [row] = await write(
      tx`state = ${state}, txid = ${txid}, failure = ${failure},
        sent_at = case when ${isSent} then coalesce(sent_at, ${now}) else sent_at end, ended_at = ${ends ? now : null}`,
      { states: state === 'signed' ? [] : [state] },
    );
    return row!;
  };
  return { rows, now, record, write, step, news, latest: () => [...latest.values()] };
}
/** What went through several states at once, as it was in an earlier one. */
function asOf<One extends OutgoingPayment>(row: One, { state, eventsLater }: { state: RefundState; eventsLater: bigint }): One {
  const counted = row.kind === 'payout' ? { ...row, eventCount: row.eventCount - eventsLater } : row;
  if (state === row.state) return counted as One;
  return { ...counted, state, endedAt: null, ...(state === 'approved' && { txid: null, sentAt: null }) } as One;
}

/** Reports what became of payouts, and of several the same once. */
export async function reportPayouts(ctx: Context, tx: Tx, news: News<Payout>, now: Date): Promise<void> {
  if (news.length === 0) return;
  await recordEvents(
    tx,
    news.map(([state, payout]) => eventOf(ctx, payout, { state, sequence: payout.eventCount, now })),
  );
  for (const [state, some] of Map.groupBy(news, ([state]) => state)) {
    const payouts = some.map(([, payout]) => payout);
    if (state === 'requested') await notifyOfOutgoing(ctx, tx, payouts, 'approval');
    if (state === 'failed') await notifyOfOutgoing(ctx, tx, payouts, 'failed');
  }
}
/** The event that one reached a state. Those of a payout stand where those of a payment do, under its own ID. */
function eventOf(ctx: Context, one: OutgoingPayment, { state, sequence, now }: { state: RefundState; sequence: bigint; now: Date }) {
  const { kind, merchantId, mode } = one;
  const type = `${kind}.${told(state)}` as const;
  // One that failed can be sent again.
  const id = eventId(ctx.installKey, [one.id, type, sequence.toString()]);
  // Stored events do not contain the link of the claim page.
  const detail = one.kind === 'refund' ? { ...refundDetail(ctx, one), claim_url: null } : payoutDetail(one);
  const data = { ...detail, sequence: Number(sequence) };
  const body = JSON.stringify({ id, type, created_at: now.toISOString(), mode, api_version: API_VERSION, data });
  return { id, merchantId, mode, paymentId: one.kind === 'refund' ? one.paymentId : one.id, type, sequence, body, createdAt: now };
}
/** No event says that one was signed. */
const told = (state: RefundState): Exclude<RefundState, 'signed'> => {
  if (state === 'signed') throw new Error('nothing is reported about what was signed');
  return state;
};

async function changePayouts<Kind extends OutgoingKind>(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, kind, ...of }: Owner & { kind: Kind } & Which,
  change: (held: Held<Kind>) => Promise<void>,
): Promise<OfKind<Kind>[]> {
  const which = 'id' in of ? tx`id = ${of.id}` : tx`batch_id = ${of.batchId}`;
  const mine = tx`${which} and kind = ${kind} and merchant_id = ${merchantId} and mode = ${mode}`;
  await tx`select 1 from outgoing_payments where ${mine} order by number for update`;
  // A second statement also sees the file that took a payout while this one waited for the lock.
  const rows = await tx<(OfKind<Kind> & { now: Date })[]>`
    select ${OUTGOING_COLUMNS(tx)}, clock_timestamp() as now from outgoing_payments where ${mine} order by number`;
  const [first] = rows;
  if (!first) throw 'id' in of ? unknownOutgoing(kind, of.id) : new Problem('payout_batch_not_found', { id: of.batchId.slice(0, 40) });
  const held = hold<Kind>(tx, { rows, now: first.now, record: null });
  await change(held);
  await reportPayouts(ctx, tx, held.news as unknown as News<Payout>, first.now);
  return held.latest();
}

/**
 * Makes or changes a refund under the lock of its payment. `payment`: its ID, or a query for it. `before`: the refund of now, null if it is
 * made. Errors: `unknown`, without such a payment.
 */
export async function changeOfPayment(
  ctx: Context,
  tx: Tx,
  { merchantId, mode, payment, unknown }: Owner & { payment: string | Fragment; unknown: Problem },
  change: (record: PaymentRecord) => Promise<{ before: Refund | null; after: Refund; news: News<Refund> }>,
): Promise<Refund> {
  let done: Refund | null = null;
  const decided = await lockAndDecide(ctx, tx, payment, async (record) => {
    if (record.merchantId !== merchantId || record.mode !== mode) throw unknown;
    const { before, after, news } = await change(record);
    done = after;
    if (news.length === 0) return 'nothing';
    const refunds = replaceRefund(record.refunds, before, after);
    for (const [state, refund] of news) {
      await mailPayer(ctx, tx, { state, refund });
      if (state === 'failed') await notifyOfOutgoing(ctx, tx, [refund], 'failed');
      if (state === 'requested' && refund.address !== null) await notifyOfOutgoing(ctx, tx, [refund], 'approval');
    }
    const facts = { ...record.facts, hasRefund: hasApproved(refunds) };
    const events = news.map(([state, refund], i) =>
      eventOf(ctx, refund, { state, sequence: record.eventCount + BigInt(i) + 1n, now: record.now }),
    );
    return { record: { ...record, facts, refunds, eventCount: record.eventCount + BigInt(news.length) }, events };
  });
  if (!decided || !done) throw unknown;
  return done;
}
