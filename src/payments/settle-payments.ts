/** The single entry point for changing a payment: lock, write facts, reread everything, decide, record the consequences. */
import type { Context } from '../context.ts';
import { type Coin, coinsBeside } from '../core/coin.ts';
import { settle } from '../core/settle.ts';
import type { Tx } from '../db/db.ts';
import { doDue, retryTime, type Taking, takingWork } from '../db/work.ts';
import { type PaymentRecord, readRecords, tipsOf, toView } from './facts.ts';
import { recordObservations } from './observations.ts';
import { type Settled, writeSettlements } from './settlement-writes.ts';
import { valueTransfers } from './value-transfers.ts';
import type { PaymentView } from './view.ts';

/** Payments and transfers in memory at a time, when many payments are settled together. */
const MAX_HELD = 5_000;

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
  return settleLocked(ctx, tx, await readRecords(ctx, tx, ids), { touched: true });
}

/**
 * What a decision wrote: `nothing`; the record with the new facts in it, which is settled as it is; or facts that have to be read again.
 */
export type Written = 'nothing' | 'read again' | PaymentRecord;

/**
 * Locks a payment and settles what the clock and the chain have already decided, so that a cancel after the end is too late, and a
 * payment that is accepted after its end has expired before. Then runs `write` and settles what follows from it. Payments that nothing
 * changed are not written. Null: there is no such payment.
 */
export async function lockAndDecide(
  ctx: Context,
  tx: Tx,
  paymentId: string,
  write: (record: PaymentRecord) => Promise<Written>,
): Promise<{ before: SettledPayment; after: SettledPayment } | null> {
  const ids = await lock(tx, [paymentId]);
  const [before] = await settleLocked(ctx, tx, await readRecords(ctx, tx, ids), { touched: false });
  if (!before) return null;
  const { status, exceptions, completedAt } = before.view.settlement;
  const record = { ...before.record, facts: { ...before.record.facts, status, exceptions, completedAt } };
  const written = await write(record);
  if (written === 'nothing') return { before, after: before };
  const records = written === 'read again' ? await readRecords(ctx, tx, ids) : [written];
  const [after] = await settleLocked(ctx, tx, records, { touched: true });
  return { before, after: after! };
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
  await settleAllLocked(ctx, tx, ids);
}

async function settleAllLocked(ctx: Context, tx: Tx, ids: readonly string[]): Promise<void> {
  for (const part of await inParts(tx, ids)) await settleLocked(ctx, tx, await readRecords(ctx, tx, part), { touched: true });
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

/** Settles payments that this transaction has locked. `touched`: the caller has written facts of them. */
async function settleLocked(ctx: Context, tx: Tx, fresh: PaymentRecord[], { touched }: { touched: boolean }): Promise<SettledPayment[]> {
  let records = fresh;
  const changed = new Set<string>();
  // Test payments: records what their simulated chain shows now, as the follower would. Ending a window advances the
  // payment's clock, and more may then become visible.
  for (let looks = 0; looks < 3; looks++) {
    const observed = await recordObservations(tx, records);
    if (observed.length === 0) break;
    for (const id of observed) changed.add(id);
    records = await readRecords(
      ctx,
      tx,
      records.map(({ facts }) => facts.id),
    );
  }
  for (const id of await valueTransfers(ctx, tx, records)) changed.add(id);
  const settled = records.map((record): Settled => {
    const settlement = settle(record.facts, record.transfers, tipsOf(record), record.now);
    if (settlement.extension) {
      const { windowUntil, rateLockUntil } = settlement.extension;
      record.facts = { ...record.facts, extendedUntil: windowUntil, rateLockUntil };
    }
    return { record, settlement };
  });
  await writeSettlements(ctx, tx, settled, { touched: (id) => touched || changed.has(id) });
  return settled.map(({ record, settlement }) => ({ record, view: toView(record, settlement) }));
}

/**
 * Queues everything of a coin that waits for its chain for settling, `except` what the caller settles itself. Completed payments are
 * included while their money is not confirmed.
 */
export const queueProcessing = (tx: Tx, { coin, except = [] }: { coin: Coin; except?: readonly string[] }) => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p
  where p.status = 'processing' and p.mode = 'live' and p.id <> all(${except as string[]}::text[])
    and exists (select 1 from transfers t where t.payment_id = p.id and t.coin = any(${coinsBeside(coin)}::text[]))
  union all
  select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p
  where p.status = 'completed' and 'reorged' = any(p.exceptions) and p.mode = 'live' and p.id <> all(${except as string[]}::text[])
    and exists (select 1 from transfers t where t.payment_id = p.id and t.coin = any(${coinsBeside(coin)}::text[]))
  on conflict (kind, key) do update set due_at = excluded.due_at`;

/** Queues the completed payments of a coin that lost a block in a reorganization. */
export const queueReversible = (tx: Tx, { coin }: { coin: Coin }) => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select 'settle', p.id, p.merchant_id, clock_timestamp() from payments p
  where p.status = 'completed' and p.mode = 'live' and p.id in (
    select t.payment_id from transfers t where t.coin = any(${coinsBeside(coin)}::text[]) and t.unmined_since is not null and t.unmined_since >= p.completed_at
  ) on conflict (kind, key) do update set due_at = excluded.due_at`;

const byTime: Taking = {
  take: async (tx, limit, only) => {
    const rows = await tx<{ id: string }[]>`
      select id from payments where due_at <= clock_timestamp() ${only === undefined ? tx`` : tx`and id = ${only}`}
      order by due_at limit ${limit} for update skip locked`;
    return rows.map((row) => row.id);
  },
  postpone: (tx, paymentId) => tx`update payments set due_at = ${retryTime(tx)} where id = ${paymentId}`,
};
/** Due by their time, and locked when they are taken; or queued by what happened to their chain. */
const KINDS = {
  payments: { taking: byTime, work: settleAllLocked },
  settle: { taking: takingWork('settle'), work: lockAndSettleMany },
};
export type SettleKind = keyof typeof KINDS;

/**
 * Settles payments that are due, at most `limit` of each kind, skipping those another process works on. Returns how many. Each kind has its
 * own transactions: the first takes rows that are not locked, the second may wait in id order. Mixed, they could deadlock.
 */
export async function settleDuePayments(
  ctx: Context,
  { limit, kinds = ['payments', 'settle'] }: { limit: number; kinds?: readonly SettleKind[] },
): Promise<number> {
  let settled = 0;
  for (const kind of kinds) {
    const { taking, work } = KINDS[kind];
    settled += await doDue(ctx, taking, { limit, what: 'settle due payments', work: (tx, ids) => work(ctx, tx, ids) });
  }
  return settled;
}
