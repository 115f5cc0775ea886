/** Writes what follows from settlements: status, events and deliveries, counts, daily totals, notices. The caller has locked the payments. */
import type { Context } from '#context';
import { COIN, type Coin, coinText } from '#core/coin';
import { checkSettlement } from '#core/coverage';
import { addMs } from '#core/dates';
import { API_VERSION, type EventType, REVERSED_EVENT, UPDATED_EVENT } from '#core/event';
import { eventId } from '#core/id';
import { e8ToCents, formatDecimal, formatUsd } from '#core/money';
import { type Exception, ON_HOLD, type PaymentStatus, type Settlement, type Uncounted } from '#core/payment';
import { paymentDetail } from '#core/payment-detail';
import type { PaymentView } from '#core/payment-view';
import { returnedUnits } from '#core/refund';
import { refundedToJson, uncountedToJson } from '#core/stored-payment';
import { type Fragment, OID, type Tx } from '#db';
import { type NewNotice, notifyMembers, type PaymentNotice } from '#notices';
import { type NewEvent, recordingEvents } from '#webhooks';
import { asksForMerchant } from './attention.ts';
import { announcedOf, heldOf, type Marks, observe, type PaymentRecord, toView } from './facts.ts';
import { mailReceipts, withdrawReceipts } from './receipt-mails.ts';
import { changed, insertSales, NO_POSITIONS, readPositions, type SaleChange, salesChanges, volumeCents } from './sales.ts';
import { queueShop } from './shop-queue.ts';
import { queueTexts } from './texts.ts';
import { type CountedPayment, insertTotalChanges, totalChanges } from './totals.ts';

/** How often an unvalued transfer is retried, for the next usable price. */
const PRICE_RETRY_MS = 30_000;

export type SettledRecord = { record: PaymentRecord; settlement: Settlement };
/** What a settlement changes about a payment. */
type Change = SettledRecord & {
  /** The events, in order, each with the status it reports. */
  types: { type: EventType; status: PaymentStatus }[];
  /** Merchants are notified: the amount, the deadline or the exceptions changed. */
  told: boolean;
  /** An exception that is new, or whose money on hold became more. */
  added: Exception | undefined;
  /** A completed payment lost its money. */
  reversed: boolean;
  marks: Marks;
  /** Counts in this month's limit from now on. */
  counts: boolean;
};
/** With what it changes about what the payment counts, numbered from `first`. */
type Written = Change & { sales: readonly SaleChange[]; first: number };

const EVENT_OF: Readonly<Record<PaymentStatus, EventType>> = {
  pending: UPDATED_EVENT,
  processing: 'payment.processing',
  completed: 'payment.completed',
  failed: 'payment.failed',
  expired: 'payment.expired',
  cancelled: 'payment.cancelled',
};

const isOnHold = (exception: Exception): boolean => ON_HOLD.some((one) => one === exception);
/** Whether money on hold arrived, or changed otherwise, under an exception that says so. Null when what was on hold before is not known. */
function heldChange(before: PaymentRecord['last']['held'], { uncounted, exceptions }: Settlement): 'more' | 'other' | null {
  if (before === null || !exceptions.some(isOnHold)) return null;
  const now = heldOf(uncounted);
  if ([...now].some(([coin, units]) => units > (before.get(coin) ?? 0n))) return 'more';
  return [...before].some(([coin, units]) => units !== now.get(coin)) ? 'other' : null;
}

const same = (a: readonly string[], b: readonly string[]) => a.length === b.length && a.every((x, i) => x === b[i]);

/** Compares a settlement with what was written last. */
export function settlementChange({ record, settlement }: SettledRecord): Change {
  checkSettlement(record.facts, settlement);
  const types = settlement.steps.map((step) => ({ type: EVENT_OF[step.status], status: step.status }));
  const holds = heldChange(record.last.held, settlement);
  const told =
    holds !== null ||
    !same(record.facts.exceptions, settlement.exceptions) ||
    record.last.seenUnits !== settlement.seenUnits ||
    // While it is confirmed, the event of the end tells what arrived. After that, an exception tells what is not in a block any more.
    (settlement.status !== 'processing' &&
      settlement.status !== 'completed' &&
      record.last.announced !== announcedOf(settlement.uncounted)) ||
    record.last.expiresAt.getTime() !== settlement.expiresAt.getTime();
  // Rare: most payments have none.
  const isNew = (exception: Exception) => !record.facts.exceptions.includes(exception);
  const added = settlement.exceptions.find((one) => isNew(one) || (holds === 'more' && isOnHold(one)));
  const reversed = record.facts.status === 'completed' && added === 'reorged';
  if (told && types.length === 0) types.push({ type: reversed ? REVERSED_EVENT : UPDATED_EVENT, status: settlement.status });
  const counts = record.mode === 'live' && settlement.seenUsdE8 > 0n && !record.countedInMonth;
  return { record, settlement, types, told, added, reversed, marks: marksOf(record, settlement, holds === 'more'), counts };
}

/** Whether anything about the payment has to be written, besides the facts that the caller added. */
export const isChange = ({ record, settlement, types, marks, counts }: Change): boolean =>
  types.length > 0 ||
  counts ||
  settlement.extension !== null ||
  record.last.coin !== settlement.coin ||
  record.last.announced !== announcedOf(settlement.uncounted) ||
  marks.openedAt !== record.marks.openedAt ||
  marks.seenAt !== record.marks.seenAt;

/**
 * Writes what settlements changed. Payments in `touched` have new facts and get a new version in any case; the others are written only
 * if something follows from them. `before`: events of what the caller wrote, which precede those of the settlements.
 */
export async function writeSettlements(
  ctx: Context,
  tx: Tx,
  settled: readonly SettledRecord[],
  { touched, before = [] }: { touched: (paymentId: string) => boolean; before?: readonly NewEvent[] },
): Promise<void> {
  const found = settled.map(settlementChange).filter((change) => touched(change.record.facts.id) || isChange(change));
  if (found.length === 0) return;
  const changes = await withSales(tx, found);
  await updatePayments(tx, changes, [...before, ...(await newEvents(ctx, tx, changes))]);
  await countInMonth(tx, changes);
  await notifyMembers(ctx, tx, changes.flatMap(noticesOf));
  // Rare: few payments have an address before they are completed.
  const receipts = changes.filter(
    ({ record, types }) =>
      (record.marks.refundRequestedAt || record.customer?.email) && types.some(({ type }) => type === 'payment.completed'),
  );
  await mailReceipts(
    ctx,
    tx,
    receipts.map(({ record }) => record.facts.id),
  );
  await withdrawReceipts(
    tx,
    changes.flatMap(({ record, reversed }) => (reversed ? [record.facts.id] : [])),
  );
  for (const { record, settlement, marks, counts, sales } of changes) {
    record.version += 1n;
    if (record.sales !== null) record.sales = changed(record.sales, sales);
    record.marks = marks;
    record.countedInMonth ||= counts;
    const { seenUnits, expiresAt, coin, uncounted } = settlement;
    record.last = { seenUnits, announced: announcedOf(uncounted), expiresAt, coin, held: heldOf(uncounted) };
  }
}

/** A payment that completes now has no sales yet. */
async function withSales(tx: Tx, changes: readonly Change[]): Promise<Written[]> {
  // Rare: only a payment with very many transfers is read without them.
  for (const { record, settlement } of changes)
    if (record.sales === null && settlement.shares !== null)
      record.sales = await readPositions(tx, { merchantId: record.merchantId, id: record.facts.id });
  return changes.map((change) => {
    const { record, settlement, marks } = change;
    const positions = record.sales ?? NO_POSITIONS;
    const sales = salesChanges(positions, settlement, record.transfers);
    const paid = sales.reduce((sum, one) => sum + volumeCents(one), marks.paidUsdCents ?? 0n);
    return { ...change, sales, first: positions.count, marks: { ...marks, paidUsdCents: settlement.completedAt ? paid : null } };
  });
}

/** The events of these changes. Counts them in their records. */
async function newEvents(ctx: Context, tx: Tx, changes: readonly Change[]): Promise<NewEvent[]> {
  const counts = await countEvents(
    tx,
    changes.filter(({ types }) => types.length > 0).map(({ record }) => record.facts.id),
  );
  const events: NewEvent[] = [];
  for (const { record, settlement, types } of changes) {
    const { id } = record.facts;
    for (const { type, status } of types) {
      const nth = counts.get(`${id} ${type}`) ?? 0;
      counts.set(`${id} ${type}`, nth + 1);
      record.eventCount += 1n;
      const last = status === settlement.status;
      const view = toView(record, last ? settlement : { ...settlement, status, completedAt: null });
      const parts = [id, type, String(nth)];
      if (type === UPDATED_EVENT)
        parts.push(settlement.receivedUnits.toString(), settlement.exceptions.join(), settlement.expiresAt.toISOString());
      events.push(newEvent(ctx, view, { type, parts, sequence: record.eventCount, at: record.now }));
    }
  }
  return events;
}

async function countEvents(tx: Tx, paymentIds: string[]): Promise<Map<string, number>> {
  if (paymentIds.length === 0) return new Map();
  const rows = await tx<{ paymentId: string; type: string; count: bigint }[]>`
    select payment_id as "paymentId", type, count(*) from events where payment_id = any(${paymentIds}::text[]) group by 1, 2`;
  return new Map(rows.map((row) => [`${row.paymentId} ${row.type}`, Number(row.count)]));
}

/** Writes payments and their events, and what is read from other tables: the queues of texts and of shops, and the counts of days and of lists. */
async function updatePayments(tx: Tx, changes: readonly Written[], events: readonly NewEvent[]): Promise<void> {
  const updates = changes.map(({ record, settlement, marks, counts }) => ({
    id: record.facts.id,
    status: settlement.status,
    exceptions: settlement.exceptions,
    coin: settlement.coin,
    expires_at: settlement.expiresAt,
    extended_until: record.facts.extendedUntil,
    rate_lock_until: record.facts.rateLockUntil,
    completed_at: settlement.completedAt,
    received_units: settlement.receivedUnits.toString(),
    received_usd_cents: settlement.receivedUsdCents.toString(),
    uncounted: uncountedToJson(settlement.uncounted),
    refunded: refundedToJson(returnedUnits(record.refunds)),
    event_count: record.eventCount.toString(),
    counted_in_month: record.countedInMonth || counts,
    due_at: dueAt(record, settlement),
    opened_at: marks.openedAt,
    seen_at: marks.seenAt,
    paid_usd_cents: marks.paidUsdCents?.toString() ?? null,
    reviewed: marks.reviewed,
    attention: asksForMerchant({ ...settlement, ...marks, decisions: record.facts.decisions, metadata: record.metadata }),
  }));
  // Money arrived: an amount and a transaction to search by.
  const texts = changes.filter(({ told }) => told).map(({ record }) => record.facts.id);
  const sales = changes.flatMap(({ record, sales: list, first }) =>
    list.map((one, i) => ({ ...one, merchantId: record.merchantId, paymentId: record.facts.id, number: first + i, at: record.now })),
  );
  await tx`
    with written as (
    update payments p set status = r.status, exceptions = r.exceptions, coin = r.coin, expires_at = r.expires_at,
      extended_until = r.extended_until, rate_lock_until = r.rate_lock_until, completed_at = r.completed_at, received_units = r.received_units,
      received_usd_cents = r.received_usd_cents, uncounted = r.uncounted, refunded = r.refunded,
      event_count = r.event_count, counted_in_month = r.counted_in_month, due_at = r.due_at, version = p.version + 1,
      opened_at = r.opened_at, seen_at = r.seen_at, paid_usd_cents = r.paid_usd_cents, reviewed = r.reviewed, attention = r.attention,
      -- A payment that is active again, or needs a decision, is unarchived.
      archived_at = case when r.attention or r.status in ('pending', 'processing') then null else p.archived_at end
    from jsonb_to_recordset(${tx.json(updates as never)}) as r (id text, status text, exceptions text[], coin text, expires_at timestamptz,
      extended_until timestamptz, rate_lock_until timestamptz, completed_at timestamptz, received_units numeric,
      received_usd_cents bigint, uncounted jsonb, refunded jsonb, event_count bigint, counted_in_month boolean, due_at timestamptz,
      opened_at timestamptz, seen_at timestamptz, paid_usd_cents bigint, reviewed text[], attention boolean)
    where p.id = r.id
    returning p.id, p.merchant_id, p.request
    ), texts as (${queueTexts(tx, texts)}
    ), totals as (${insertTotalChanges(tx, changes.flatMap(changesOfTotals))}
    ), ${sales.length === 0 ? tx`` : tx`sales as (${insertSales(tx, sales)}), `}counts as (${insertCounts(tx, changes)}
    ), shops as (${queueShop(tx, tx`written`)}
    ), ${recordingEvents(tx, events)}`;
}

function changesOfTotals({ record, settlement, marks, sales }: Written) {
  const before = counted(record.facts, record.last.coin, record.marks, record);
  const rows = totalChanges(before, counted(settlement, settlement.coin, marks, record), sales, record.now);
  return rows.map((row) => ({ merchantId: record.merchantId, mode: record.mode, ...row }));
}

/** The statement that appends how many payments more or fewer have a status and a coin. */
function insertCounts(tx: Tx, changes: readonly Change[]): Fragment {
  const deltas = changes.flatMap(({ record, settlement }) => {
    if (record.facts.status === settlement.status && record.last.coin === settlement.coin) return [];
    const row = { merchantId: record.merchantId, mode: record.mode };
    return [
      { ...row, status: record.facts.status, coin: record.last.coin ?? '', payments: -1 },
      { ...row, status: settlement.status, coin: settlement.coin ?? '', payments: 1 },
    ];
  });
  return tx`
    insert into payment_count_deltas (merchant_id, mode, status, coin, payments)
    select * from unnest(${deltas.map((d) => d.merchantId)}::text[], ${deltas.map((d) => d.mode)}::text[], ${deltas.map((d) => d.status)}::text[],
      ${deltas.map((d) => d.coin)}::text[], ${deltas.map((d) => String(d.payments))}::bigint[])`;
}

async function countInMonth(tx: Tx, changes: readonly Change[]): Promise<void> {
  const monthly = changes.flatMap(({ record, counts }) => (counts ? [{ merchantId: record.merchantId, at: record.realNow }] : []));
  if (monthly.length === 0) return;
  const at = tx.array(
    monthly.map((m) => m.at),
    OID.timestamptz,
  );
  await tx`
    insert into live_usage (merchant_id, month, payments)
    select m.merchant_id, date_trunc('month', m.at at time zone 'UTC')::date, count(*)
    from unnest(${monthly.map((m) => m.merchantId)}::text[], ${at}::timestamptz[]) as m (merchant_id, at)
    group by 1, 2 order by 1, 2
    on conflict (merchant_id, month) do update set payments = live_usage.payments + excluded.payments`;
}

/** Notices for the members of the merchant. */
export const noticesOf = ({ record, settlement, added, reversed }: Change): NewNotice[] =>
  added === undefined
    ? []
    : [
        {
          merchantId: record.merchantId,
          mode: record.mode,
          kind: reversed ? 'payment_reversed' : 'payment_attention',
          detail: noticeOf(record, settlement, added),
          // Every customer has the public key, so text written with it does not go into emails.
          description: record.createdWith === 'secret' ? record.request.description : null,
        },
      ];

/** What a notice says about a payment: the money that the exception concerns, and the order. */
function noticeOf(
  record: PaymentRecord,
  { status, uncounted, coin, seenUnits, seenUsdE8 }: Settlement,
  exception: Exception,
): PaymentNotice {
  const isHeld = isOnHold(exception);
  const money = isHeld
    ? uncounted.flatMap((one) => (one.state === 'held' || one.waits ? [one] : []))
    : coin !== null && seenUnits > 0n
      ? [{ coin, units: seenUnits, usdE8: seenUsdE8 }]
      : [];
  return {
    payment: record.facts.id,
    exception,
    status,
    price: formatUsd(record.facts.targetUsdCents),
    money: money.length === 0 ? null : money.map(withWorth).join(' and '),
    invoice: record.createdWith === 'secret' ? record.invoiceId : null,
  };
}
const withWorth = ({ coin, units, usdE8 }: Pick<Uncounted, 'coin' | 'units' | 'usdE8'>): string =>
  `${formatDecimal(units, COIN[coin].decimals, 0)} ${coinText(coin)}${usdE8 === null ? '' : ` ($${formatUsd(e8ToCents(usdE8))})`}`;

/** Each is set once: by the first choice of a coin if no view was recorded before, by the first counted transfer. */
const marksOf = (record: PaymentRecord, settlement: Settlement, holdsMore: boolean): Marks => ({
  ...record.marks,
  // More money under an exception that was handled needs another decision.
  reviewed: holdsMore ? record.marks.reviewed.filter((name) => !ON_HOLD.some((one) => one === name)) : record.marks.reviewed,
  openedAt: record.marks.openedAt ?? record.facts.quotes[0]?.from ?? null,
  seenAt: record.marks.seenAt ?? (settlement.seenUsdE8 > 0n ? record.now : null),
});
const counted = (
  { status, exceptions, completedAt }: Pick<CountedPayment, 'status' | 'exceptions' | 'completedAt'>,
  coin: Coin | null,
  { openedAt, seenAt }: Marks,
  { facts }: PaymentRecord,
): CountedPayment => ({ createdAt: facts.createdAt, openedAt, coin, seenAt, status, exceptions, completedAt });

/** An event with its final bytes. `parts` determine its id: the same transition always has the same id. */
export function newEvent(
  ctx: Context,
  view: PaymentView,
  { type, parts, sequence, at }: { type: EventType; parts: readonly string[]; sequence: bigint; at: Date },
): NewEvent {
  const id = eventId(ctx.installKey, parts);
  const body = {
    id,
    type,
    created_at: at.toISOString(),
    mode: view.facts.mode,
    api_version: API_VERSION,
    data: { ...paymentDetail(view, ctx.settings.paymentPageUrl), sequence: Number(sequence) },
  };
  return {
    id,
    merchantId: view.merchantId,
    mode: view.facts.mode,
    paymentId: view.facts.id,
    type,
    sequence,
    body: JSON.stringify(body),
    createdAt: at,
  };
}

/** When the payment must be settled again without a new fact, in real time. */
function dueAt(record: PaymentRecord, settlement: Settlement): Date | null {
  // What a simulated chain shows may depend on the completion that was just decided.
  const { completedAt } = settlement;
  const wakes = [settlement.nextDueAt, observe({ ...record, facts: { ...record.facts, completedAt } })?.wakeAt ?? null];
  if (record.transfers.some((t) => t.values.length === 0)) wakes.push(addMs(record.now, PRICE_RETRY_MS));
  const times = wakes.flatMap((wake) => (wake ? [wake.getTime()] : []));
  // A due time in the past would cause an endless loop, so it is at least a moment later.
  return times.length === 0 ? null : new Date(Math.max(Math.min(...times) - record.offsetMs, record.realNow.getTime() + 250));
}
