/** The single entry point for changing a payment: lock, write facts, reread everything, decide, record the consequences. */

import type { Context } from '../context.ts';
import { addMs } from '../core/clock.ts';
import { COIN, type Coin } from '../core/coin.ts';
import { API_VERSION, type EventType, REVERSED_EVENT, UPDATED_EVENT } from '../core/event.ts';
import { eventId } from '../core/id.ts';
import { e8ToCents, formatDecimal, formatUsd } from '../core/money.ts';
import type { Exception, PaymentStatus, Settlement, Transfer, Uncounted } from '../core/payment.ts';
import { settle } from '../core/settle.ts';
import { OID, type Tx } from '../db/db.ts';
import { notifyMembers } from '../notices/notices.ts';
import type { PaymentNotice } from '../notices/payment-notices.ts';
import { recordEvents } from '../webhooks/events.ts';
import { asksForMerchant } from './attention.ts';
import { type Counted, dayChanges, writeDayChanges } from './days.ts';
import { paymentDetail } from './detail.ts';
import { heldOf, type Marks, observe, type PaymentRecord, readRecords, tipsOf, toView } from './facts.ts';
import { uncountedToJson } from './stored.ts';
import { queueTexts } from './texts.ts';
import { valueTransfers } from './value-transfers.ts';
import type { PaymentView } from './view.ts';

/** How often an unvalued transfer is retried, for the next usable price. */
const PRICE_RETRY_MS = 30_000;
/** Payments and transfers in memory at a time, when many payments are settled together. */
const MAX_HELD = 5_000;
/** A payment that cannot be settled is retried after this long; the others do not wait for it. */
const FAILED_RETRY_SECONDS = 10;

export type SettledPayment = { record: PaymentRecord; view: PaymentView };

/**
 * Locks the payment rows in id order, runs `write` (facts only), then rereads all facts and the clock in a second
 * statement, settles, and writes status, events and deliveries, all in the caller's transaction. `ids` of unknown
 * payments are omitted. Returns the updated payments, in the order of `ids`.
 */
export async function lockAndSettle(
  ctx: Context,
  tx: Tx,
  paymentIds: readonly string[],
  write?: (tx: Tx) => Promise<void>,
): Promise<SettledPayment[]> {
  const ids = await lock(tx, paymentIds);
  if (write) await write(tx);
  return settleLocked(ctx, tx, ids);
}

/** The same for any number of payments, with a bounded number in memory at a time. */
export async function lockAndSettleMany(
  ctx: Context,
  tx: Tx,
  paymentIds: readonly string[],
  write?: (tx: Tx) => Promise<void>,
): Promise<void> {
  const ids = await lock(tx, paymentIds);
  if (write) await write(tx);
  for (const part of await inParts(tx, ids)) await settleLocked(ctx, tx, part);
}

/** Locks and writes like `lockAndSettle`, but leaves settling to the worker, for work that is too large for one transaction. */
export async function lockAndSettleLater(tx: Tx, paymentIds: readonly string[], write: (tx: Tx) => Promise<void>): Promise<void> {
  const ids = await lock(tx, paymentIds);
  await write(tx);
  await tx`
    insert into due_work (kind, key, merchant_id, due_at)
    select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p where p.id = any(${ids}::text[])
    on conflict (kind, key) do update set due_at = excluded.due_at`;
}

async function lock(tx: Tx, paymentIds: readonly string[]): Promise<string[]> {
  const ids = [...new Set(paymentIds)].sort();
  await tx`select id from payments where id = any(${ids}::text[]) order by id for update`;
  return ids;
}

/** Groups payments up to this many transfers in total; a payment that has more is a group of its own. */
async function inParts(tx: Tx, ids: readonly string[]): Promise<string[][]> {
  if (ids.length <= 1) return [[...ids]];
  const rows = await tx<{ id: string; count: bigint }[]>`
    select payment_id as id, count(*) from transfers where payment_id = any(${ids as string[]}::text[]) group by 1`;
  const counts = new Map(rows.map((row) => [row.id, Number(row.count)]));
  const parts: string[][] = [];
  let held = MAX_HELD;
  for (const id of ids) {
    const count = 1 + (counts.get(id) ?? 0);
    if (held + count > MAX_HELD) {
      parts.push([]);
      held = 0;
    }
    parts.at(-1)!.push(id);
    held += count;
  }
  return parts;
}

/** Settles payments that this transaction has locked. */
async function settleLocked(ctx: Context, tx: Tx, ids: readonly string[]): Promise<SettledPayment[]> {
  let records = await readRecords(ctx, tx, ids);
  // Test payments: records what their simulated chain shows now, as the follower would. Ending a window advances the
  // payment's clock, and more may then become visible.
  for (let looks = 0; looks < 3 && (await recordObservations(tx, records)); looks++) records = await readRecords(ctx, tx, ids);
  await valueTransfers(ctx, tx, records);
  const settled = records.map((record) => {
    const settlement = settle(record.facts, record.transfers, tipsOf(record), record.now);
    if (settlement.extension) {
      const { windowUntil, rateLockUntil } = settlement.extension;
      record.facts = { ...record.facts, extendedUntil: windowUntil, rateLockUntil };
    }
    return { record, settlement };
  });
  await writeSettlements(ctx, tx, settled);
  return settled.map(({ record, settlement }) => ({ record, view: toView(record, settlement) }));
}

/** Writes what simulated chains show and is not yet recorded; ends windows when a scenario says so. True when anything changed. */
async function recordObservations(tx: Tx, records: PaymentRecord[]): Promise<boolean> {
  const rows: unknown[] = [];
  const advances: { merchantId: string; paymentId: string; seconds: number }[] = [];
  for (const record of records) {
    const seen = observe(record);
    if (!seen) continue;
    const known = new Map(record.transfers.map((t) => [`${t.coin} ${t.ref}`, t]));
    for (const t of seen.transfers) {
      const before = known.get(`${t.coin} ${t.ref}`);
      if (before && chainFacts(before) === chainFacts(t)) continue;
      rows.push({
        coin: t.coin,
        ref: t.ref,
        payment_id: record.facts.id,
        merchant_id: record.merchantId,
        txid: t.txid,
        address: t.address,
        units: t.units.toString(),
        kind: t.kind,
        first_seen_at: t.firstSeenAt,
        block_height: t.block?.height ?? null,
        block_hash: t.block?.hash ?? null,
        block_time: t.block?.time ?? null,
        lock: t.lock,
        absent_since: t.absentSince,
        conflict_txid: t.conflict?.txid ?? null,
        conflict_height: t.conflict?.height ?? null,
        conflict_seen_at: t.conflict?.seenAt ?? null,
        unmined_since: t.unminedSince,
      });
    }
    const endsAt =
      record.facts.status === 'pending' && seen.endWindow ? settle(record.facts, record.transfers, {}, record.now).expiresAt : null;
    if (endsAt && endsAt.getTime() + WINDOW_END_MARGIN_MS > record.now.getTime()) {
      const seconds = Math.ceil((endsAt.getTime() + WINDOW_END_MARGIN_MS - record.now.getTime()) / 1000);
      advances.push({ merchantId: record.merchantId, paymentId: record.facts.id, seconds });
    }
  }
  if (rows.length > 0) {
    await tx`
      insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash,
        block_time, lock, absent_since, conflict_txid, conflict_height, conflict_seen_at, unmined_since)
      select * from jsonb_to_recordset(${tx.json(rows as never)}) as r (coin text, ref text, payment_id text, merchant_id text, txid text,
        address text, units numeric, kind text, first_seen_at timestamptz, block_height bigint, block_hash text, block_time timestamptz,
        lock text, absent_since timestamptz, conflict_txid text, conflict_height bigint, conflict_seen_at timestamptz, unmined_since timestamptz)
      on conflict (payment_id, coin, ref) do update set block_height = excluded.block_height, block_hash = excluded.block_hash,
        block_time = excluded.block_time, lock = excluded.lock, absent_since = excluded.absent_since,
        conflict_txid = excluded.conflict_txid, conflict_height = excluded.conflict_height,
        conflict_seen_at = excluded.conflict_seen_at, unmined_since = excluded.unmined_since`;
  }
  if (advances.length > 0) {
    await tx`
      insert into clock_advances (merchant_id, payment_id, seconds)
      select * from unnest(${advances.map((a) => a.merchantId)}::text[], ${advances.map((a) => a.paymentId)}::text[], ${advances.map((a) => a.seconds)}::bigint[])`;
  }
  return rows.length > 0 || advances.length > 0;
}
/** Past the end by more than any coin's slack, so that the end is certain immediately. */
const WINDOW_END_MARGIN_MS = 60_000;

/** The parts of a transfer that follow the chain, as one comparable string. */
const chainFacts = (t: Pick<Transfer, 'block' | 'lock' | 'absentSince' | 'conflict' | 'unminedSince'>): string =>
  JSON.stringify([t.block?.height, t.block?.hash, t.lock, t.absentSince, t.conflict?.txid, t.conflict?.height, t.unminedSince]);

const EVENT_OF: Readonly<Record<PaymentStatus, EventType>> = {
  pending: UPDATED_EVENT,
  processing: 'payment.processing',
  completed: 'payment.completed',
  failed: 'payment.failed',
  expired: 'payment.expired',
  cancelled: 'payment.cancelled',
};

/** The exceptions whose money is on hold. */
const ON_HOLD: readonly Exception[] = ['late', 'paid_after_cancel'];
/** Whether money on hold arrived, or changed otherwise, under an exception that says so. Null when what was on hold before is not known. */
function heldChange(before: PaymentRecord['last']['held'], { uncounted, exceptions }: Settlement): 'more' | 'other' | null {
  if (before === null || !exceptions.some((one) => ON_HOLD.includes(one))) return null;
  const now = heldOf(uncounted);
  if ([...now].some(([coin, units]) => units > (before.get(coin) ?? 0n))) return 'more';
  return [...before].some(([coin, units]) => units !== now.get(coin)) ? 'other' : null;
}

type NewEvent = Parameters<typeof recordEvents>[1][number];

async function writeSettlements(ctx: Context, tx: Tx, settled: { record: PaymentRecord; settlement: Settlement }[]): Promise<void> {
  const same = (a: readonly string[], b: readonly string[]) => a.length === b.length && a.every((x, i) => x === b[i]);
  const changed = settled.map(({ record, settlement }) => {
    const types = settlement.steps.map((step) => ({ type: EVENT_OF[step.status], status: step.status }));
    const holds = heldChange(record.last.held, settlement);
    const told =
      holds !== null ||
      !same(record.facts.exceptions, settlement.exceptions) ||
      record.last.receivedUnits !== settlement.receivedUnits ||
      record.last.expiresAt.getTime() !== settlement.expiresAt.getTime();
    // Rare: most payments have none.
    const isNew = (exception: Exception) => !record.facts.exceptions.includes(exception);
    const added = settlement.exceptions.find((one) => isNew(one) || (holds === 'more' && ON_HOLD.includes(one)));
    const reversed = record.facts.status === 'completed' && added === 'reorged';
    if (told && types.length === 0) types.push({ type: reversed ? REVERSED_EVENT : UPDATED_EVENT, status: settlement.status });
    return { record, settlement, types, told, added, reversed, holds };
  });
  const counts = await countEvents(
    tx,
    changed.filter((c) => c.types.length > 0).map((c) => c.record.facts.id),
  );
  const events: NewEvent[] = [];
  const updates: unknown[] = [];
  const deltas: { merchantId: string; mode: string; status: string; coin: string; payments: number }[] = [];
  const days: Parameters<typeof writeDayChanges>[1][number][] = [];
  const texts: string[] = [];
  const monthly: { merchantId: string; month: Date }[] = [];
  for (const { record, settlement, types, told, holds } of changed) {
    const id = record.facts.id;
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
    const seen = settlement.receivedUsdE8 > 0n && !record.countedInMonth;
    if (seen && record.mode === 'live') {
      record.countedInMonth = true;
      monthly.push({ merchantId: record.merchantId, month: record.realNow });
    }
    if (record.facts.status !== settlement.status || record.last.coin !== settlement.coin) {
      const row = { merchantId: record.merchantId, mode: record.mode };
      deltas.push({ ...row, status: record.facts.status, coin: record.last.coin ?? '', payments: -1 });
      deltas.push({ ...row, status: settlement.status, coin: settlement.coin ?? '', payments: 1 });
    }
    // Money arrived: an amount and a transaction to search by.
    if (told) texts.push(id);
    record.version += 1n;
    const marks = marksOf(record, settlement, holds === 'more');
    const owner = { merchantId: record.merchantId, mode: record.mode };
    const before = counted(record.facts, record.last.coin, record.marks, record);
    for (const row of dayChanges(before, counted(settlement, settlement.coin, marks, record))) days.push({ ...owner, ...row });
    record.marks = marks;
    updates.push({
      id,
      status: settlement.status,
      exceptions: settlement.exceptions,
      coin: settlement.coin,
      expires_at: settlement.expiresAt,
      extended_until: record.facts.extendedUntil,
      rate_lock_until: record.facts.rateLockUntil,
      completed_at: settlement.completedAt,
      received_units: settlement.receivedUnits.toString(),
      received_usd_cents: e8ToCents(settlement.receivedUsdE8).toString(),
      uncounted: uncountedToJson(settlement.uncounted),
      event_count: record.eventCount.toString(),
      counted_in_month: record.countedInMonth,
      due_at: dueAt(record, settlement),
      opened_at: marks.openedAt,
      seen_at: marks.seenAt,
      paid_usd_cents: marks.paidUsdCents?.toString() ?? null,
      reviewed: marks.reviewed,
      attention: asksForMerchant({ ...settlement, ...marks, decisions: record.facts.decisions }),
    });
    const { receivedUnits, expiresAt, coin, uncounted } = settlement;
    record.last = { receivedUnits, expiresAt, coin, held: heldOf(uncounted) };
  }
  await tx`
    update payments p set status = r.status, exceptions = r.exceptions, coin = r.coin, expires_at = r.expires_at,
      extended_until = r.extended_until, rate_lock_until = r.rate_lock_until, completed_at = r.completed_at, received_units = r.received_units,
      received_usd_cents = r.received_usd_cents, uncounted = r.uncounted,
      event_count = r.event_count, counted_in_month = r.counted_in_month, due_at = r.due_at, version = p.version + 1,
      opened_at = r.opened_at, seen_at = r.seen_at, paid_usd_cents = r.paid_usd_cents, reviewed = r.reviewed, attention = r.attention,
      -- A payment that is active again, or needs a decision, is unarchived.
      archived_at = case when r.attention or r.status in ('pending', 'processing') then null else p.archived_at end
    from jsonb_to_recordset(${tx.json(updates as never)}) as r (id text, status text, exceptions text[], coin text, expires_at timestamptz,
      extended_until timestamptz, rate_lock_until timestamptz, completed_at timestamptz, received_units numeric,
      received_usd_cents bigint, uncounted jsonb, event_count bigint, counted_in_month boolean, due_at timestamptz,
      opened_at timestamptz, seen_at timestamptz, paid_usd_cents bigint, reviewed text[], attention boolean)
    where p.id = r.id`;
  await writeDayChanges(tx, days);
  if (deltas.length > 0) {
    await tx`
      insert into payment_count_deltas (merchant_id, mode, status, coin, payments)
      select * from unnest(${deltas.map((d) => d.merchantId)}::text[], ${deltas.map((d) => d.mode)}::text[], ${deltas.map((d) => d.status)}::text[],
        ${deltas.map((d) => d.coin)}::text[], ${deltas.map((d) => d.payments)}::bigint[])`;
  }
  if (texts.length > 0) await queueTexts(tx, texts);
  if (monthly.length > 0) {
    await tx`
      insert into live_usage (merchant_id, month, payments)
      select m.merchant_id, date_trunc('month', m.at at time zone 'UTC')::date, count(*)
      from unnest(${monthly.map((m) => m.merchantId)}::text[], ${tx.array(
        monthly.map((m) => m.month),
        OID.timestamptz,
      )}::timestamptz[]) as m (merchant_id, at)
      group by 1, 2 order by 1, 2
      on conflict (merchant_id, month) do update set payments = live_usage.payments + excluded.payments`;
  }
  if (events.length > 0) await recordEvents(tx, events);
  await notifyMembers(
    ctx,
    tx,
    changed.flatMap(({ record, settlement, added, reversed }) =>
      added === undefined
        ? []
        : [
            {
              merchantId: record.merchantId,
              mode: record.mode,
              kind: reversed ? ('payment_reversed' as const) : ('payment_attention' as const),
              detail: noticeOf(record, settlement, added),
              // Every customer has the public key, so text written with it does not go into emails.
              description: record.createdWith === 'secret' ? record.request.description : null,
            },
          ],
    ),
  );
}

/** What a notice says about a payment: the money that the exception concerns, and the order. */
function noticeOf(
  record: PaymentRecord,
  { status, uncounted, coin, receivedUnits, receivedUsdE8 }: Settlement,
  exception: Exception,
): PaymentNotice {
  const isHeld = ON_HOLD.includes(exception);
  const money = isHeld
    ? uncounted.flatMap((one) => (one.state === 'held' ? [one] : []))
    : coin !== null && receivedUnits > 0n
      ? [{ coin, units: receivedUnits, usdE8: receivedUsdE8 }]
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
  `${formatDecimal(units, COIN[coin].decimals, 0)} ${coin}${usdE8 === null ? '' : ` ($${formatUsd(e8ToCents(usdE8))})`}`;

/** Each is set once: by the first choice of a coin if no view was recorded before, by the first counted transfer, by the completion. */
const marksOf = (record: PaymentRecord, settlement: Settlement, holdsMore: boolean): Marks => ({
  ...record.marks,
  // More money under an exception that was handled needs another decision.
  reviewed: holdsMore ? record.marks.reviewed.filter((name) => !ON_HOLD.some((one) => one === name)) : record.marks.reviewed,
  openedAt: record.marks.openedAt ?? record.facts.quotes[0]?.from ?? null,
  seenAt: record.marks.seenAt ?? (settlement.receivedUsdE8 > 0n ? record.now : null),
  paidUsdCents: record.marks.paidUsdCents ?? (settlement.completedAt ? e8ToCents(settlement.receivedUsdE8) : null),
});
const counted = (
  { status, exceptions, completedAt }: Pick<Counted, 'status' | 'exceptions' | 'completedAt'>,
  coin: Coin | null,
  { openedAt, seenAt, paidUsdCents }: Marks,
  { facts }: PaymentRecord,
): Counted => ({ createdAt: facts.createdAt, openedAt, coin, seenAt, status, exceptions, completedAt, paidUsdCents });

/**
 * Queues everything of a coin that waits for its chain for settling, `except` what the caller settles itself. Completed payments are
 * included while their money is not confirmed.
 */
export const queueProcessing = (tx: Tx, { coin, except = [] }: { coin: Coin; except?: readonly string[] }) => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p
  where p.status = 'processing' and p.mode = 'live' and p.id <> all(${except as string[]}::text[])
    and exists (select 1 from transfers t where t.payment_id = p.id and t.coin = ${coin})
  union all
  select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p
  where p.status = 'completed' and 'reorged' = any(p.exceptions) and p.mode = 'live' and p.id <> all(${except as string[]}::text[])
    and exists (select 1 from transfers t where t.payment_id = p.id and t.coin = ${coin})
  on conflict (kind, key) do update set due_at = excluded.due_at`;

/** Queues the completed payments of a coin that lost a block in a reorganization. */
export const queueReversible = (tx: Tx, { coin }: { coin: Coin }) => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p
  where p.status = 'completed' and p.mode = 'live' and p.id in (
    select t.payment_id from transfers t where t.coin = ${coin} and t.unmined_since is not null and t.unmined_since >= p.completed_at
  ) on conflict (kind, key) do update set due_at = excluded.due_at`;

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

async function countEvents(tx: Tx, paymentIds: string[]): Promise<Map<string, number>> {
  if (paymentIds.length === 0) return new Map();
  const rows = await tx<{ paymentId: string; type: string; count: bigint }[]>`
    select payment_id as "paymentId", type, count(*) from events where payment_id = any(${paymentIds}::text[]) group by 1, 2`;
  return new Map(rows.map((row) => [`${row.paymentId} ${row.type}`, Number(row.count)]));
}

/**
 * Settles payments that are due by time or were queued by the follower, at most `limit` of each, skipping those another process
 * works on. Returns how many. After a crash before the commit they are still due. One that cannot be settled does not block the others.
 */
export async function settleDuePayments(ctx: Context, { limit }: { limit: number }): Promise<number> {
  return (await settleDue(ctx, byTime, limit)) + (await settleDue(ctx, queued, limit));
}

/** `take` returns due payments, limited to `only` if given, and skips those another process works on; `put` postpones failed ones. */
type Due = { take(tx: Tx, limit: number, only?: string): Promise<string[]>; put(tx: Tx, paymentId: string): Promise<unknown> };
// Two kinds, each in its own transactions: the first takes rows that are not locked, the second may wait in id order. Mixed, they could
// deadlock.
const byTime: Due = {
  take: async (tx, limit, only) => {
    const rows = await tx<{ id: string }[]>`
      select id from payments where due_at <= clock_timestamp() ${only === undefined ? tx`` : tx`and id = ${only}`}
      order by due_at limit ${limit} for update skip locked`;
    return rows.map((row) => row.id);
  },
  put: (tx, paymentId) => tx`
    update payments set due_at = clock_timestamp() + make_interval(secs => ${FAILED_RETRY_SECONDS}) where id = ${paymentId}`,
};
const queued: Due = {
  take: async (tx, limit, only) => {
    const rows = await tx<{ key: string }[]>`
      delete from due_work where (kind, key) in (
        select kind, key from due_work where kind = 'settle' and due_at <= clock_timestamp() ${only === undefined ? tx`` : tx`and key = ${only}`}
        order by due_at limit ${limit} for update skip locked)
      returning key`;
    return rows.map((row) => row.key);
  },
  put: (tx, paymentId) => tx`
    update due_work set due_at = clock_timestamp() + make_interval(secs => ${FAILED_RETRY_SECONDS}) where kind = 'settle' and key = ${paymentId}`,
};

async function settleDue(ctx: Context, due: Due, limit: number): Promise<number> {
  let taken: string[] = [];
  const settle = (only?: string) =>
    ctx.db.begin(async (tx) => {
      taken = await due.take(tx, limit, only);
      if (taken.length > 0) await lockAndSettleMany(ctx, tx, taken);
    });
  try {
    await settle();
    return taken.length;
  } catch (error) {
    if (taken.length === 0) throw error;
    ctx.log.warn({ err: error, payments: taken.length }, 'Could not settle due payments together; settling them one at a time');
  }
  const all = taken;
  for (const paymentId of all) {
    try {
      await settle(paymentId);
    } catch (error) {
      await ctx.db.begin((tx) => due.put(tx, paymentId));
      ctx.log.error({ err: error, payment: paymentId }, 'Could not settle a payment; retrying');
    }
  }
  return all.length;
}
