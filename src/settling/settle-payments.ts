/** The single entry point for changing a payment: lock, write facts, reread everything, decide, record the consequences. */
import { setImmediate } from 'node:timers/promises';
import type { Context } from '#context';
import { type Coin, coinsBeside, pricedAs } from '#core/coin';
import { confirmationTier } from '#core/confirmation';
import { addMs } from '#core/dates';
import type { Company, PaymentFacts, Transfer } from '#core/payment';
import type { PaymentView } from '#core/payment-view';
import { settle } from '#core/settle';
import { valuesToJson } from '#core/stored-payment';
import { valueTransfer } from '#core/transfer';
import { doDue, type Fragment, retryTime, type Tx, takingWork } from '#db';
import { adjustedPrice, readDisplayRates } from '#readiness';
import type { NewEvent } from '#webhooks';
import { observe, type PaymentRecord, readRecords, tipsOf, toView } from './facts.ts';
import { type SettledRecord, writeSettlements } from './settlement-writes.ts';

/** Payments and transfers in memory at a time, when many payments are settled together. */
const MAX_HELD = 5_000;

type SettledPayment = { record: PaymentRecord; view: PaymentView };

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
 * What a decision wrote: `nothing`; the record with the new facts in it, which is settled as it is, perhaps with events of its own, which are
 * recorded with those of the settlement and counted in the record; or facts that have to be read again.
 */
export type DecisionResult = 'nothing' | 'read again' | PaymentRecord | { record: PaymentRecord; events: readonly NewEvent[] };

/**
 * Locks a payment and settles what the clock and the chain have already decided, so that a cancel after the end is too late, and a
 * payment that is accepted after its end has expired before. Then runs `write` and settles what follows from it. Payments that nothing
 * changed are not written. `payment`: its ID, or a query for it. Null: there is no such payment.
 */
export async function lockAndDecide(
  ctx: Context,
  tx: Tx,
  payment: string | Fragment,
  write: (record: PaymentRecord) => Promise<DecisionResult>,
): Promise<{ before: SettledPayment; after: SettledPayment } | null> {
  const ids = (await tx<{ id: string }[]>`select id from payments where id = ${payment} for update`).map(({ id }) => id);
  const [before] = await settleLocked(ctx, tx, await readRecords(ctx, tx, ids), { touched: false });
  if (!before) return null;
  const { status, exceptions, completedAt } = before.view.settlement;
  const record = { ...before.record, facts: { ...before.record.facts, status, exceptions, completedAt } };
  const written = await write(record);
  if (written === 'nothing') return { before, after: before };
  const { record: fresh, events } = typeof written === 'object' && 'events' in written ? written : { record: written, events: [] };
  const records = fresh === 'read again' ? await readRecords(ctx, tx, ids) : [fresh];
  const [after] = await settleLocked(ctx, tx, records, { touched: true, events });
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

/** Settles payments that this transaction has locked. `touched`: the caller has written facts of them, which `events` report. */
async function settleLocked(
  ctx: Context,
  tx: Tx,
  fresh: PaymentRecord[],
  { touched, events = [] }: { touched: boolean; events?: readonly NewEvent[] },
): Promise<SettledPayment[]> {
  let records = fresh;
  const changed = new Set<string>();
  // Test payments: records what their simulated chain shows now, as the follower would. Ending a window advances the
  // payment's clock, and more may then become visible.
  for (let looks = 0; looks < 3; looks++) {
    const observed = await recordObservations(tx, records);
    if (observed.size === 0) break;
    for (const id of observed.keys()) changed.add(id);
    records = records.map((record) => observed.get(record.facts.id) ?? record);
  }
  for (const id of await valueTransfers(ctx, tx, records)) changed.add(id);
  const settled = records.map((record): SettledRecord => {
    const settlement = settle(record.facts, record.transfers, tipsOf(record), record.now);
    if (settlement.extension) {
      const { windowUntil, rateLockUntil } = settlement.extension;
      record.facts = { ...record.facts, extendedUntil: windowUntil, rateLockUntil };
    }
    return { record, settlement };
  });
  await writeSettlements(ctx, tx, settled, { touched: (id) => touched || changed.has(id), before: events });
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

const byTime: ReturnType<typeof takingWork> = {
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

// Freezes what transfers are worth. The caller has locked their payments.

/** Rows in one statement, and transfers processed between two turns of the event loop. */
const ROWS_AT_ONCE = 2_000;

/**
 * Freezes the worth of transfers that have none yet, or whose protection ended, here and in the records. Prices come from memory, never
 * from the network. Returns the payments of these transfers.
 */
async function valueTransfers(ctx: Context, tx: Tx, records: readonly PaymentRecord[]): Promise<Set<string>> {
  const found = await findUnvalued(ctx, records);
  const payments = new Set(found.map(({ payment }) => payment.id));
  if (found.length === 0) return payments;
  const company = await readCompany(
    tx,
    found.filter(({ record, transfer }) => record.mode === 'live' && transfer.values.length === 0),
  );
  const displayRate = await readDisplayRates(
    ctx,
    tx,
    found.map(({ record }) => record),
  );
  for (let i = 0; i < found.length; i += ROWS_AT_ONCE) {
    const rows = found.slice(i, i + ROWS_AT_ONCE).map(({ record, place, spot, payment, transfer }) => {
      const value = valueTransfer({ payment, transfer, spot, now: record.now, company: company.get(transfer) ?? null })!;
      const display = displayRate(record);
      const values = [...transfer.values, { ...value, ...(display && { display }) }];
      record.transfers[place] = { ...transfer, values };
      return { payment_id: payment.id, coin: transfer.coin, ref: transfer.ref, values: valuesToJson(values) };
    });
    await tx`
      update transfers t set values = r.values
      from jsonb_to_recordset(${tx.json(rows as never)}) as r (payment_id text, coin text, ref text, values jsonb)
      where t.payment_id = r.payment_id and t.coin = r.coin and t.ref = r.ref`;
  }
  return payments;
}

type Spot = ReturnType<typeof spotPrice>;
type Unvalued = Newcomer & { record: PaymentRecord; place: number; spot: Spot };
/** The transfers to value now, with turns of the event loop in between, because a payment may have tens of thousands of transfers. */
async function findUnvalued(ctx: Context, records: readonly PaymentRecord[]): Promise<Unvalued[]> {
  const found: Unvalued[] = [];
  let looked = 0;
  for (const record of records) {
    const { merchantId, facts: payment, now } = record;
    const spots = new Map<Coin, Spot>();
    for (const [place, transfer] of record.transfers.entries()) {
      if (!spots.has(transfer.coin)) spots.set(transfer.coin, spotPrice(ctx, record, transfer.coin));
      const spot = spots.get(transfer.coin)!;
      if (valueTransfer({ payment, transfer, spot, now })) found.push({ record, place, spot, merchantId, payment, transfer });
      if (++looked % ROWS_AT_ONCE === 0) await setImmediate();
    }
  }
  return found;
}

function spotPrice(ctx: Context, record: PaymentRecord, coin: Coin): { priceE8: bigint; at: Date } | null {
  const { rules } = record.facts;
  const isTest = record.mode === 'test';
  const price = isTest ? ctx.prices.forTest(pricedAs(coin), rules.priceSource) : ctx.prices.valuing(pricedAs(coin), rules.priceSource);
  return price && { priceE8: adjustedPrice(rules, coin, price.priceE8), at: isTest ? record.now : price.asOf };
}

// What one payer may have sent together with a transfer: the other outputs of its transaction, and other small pending payments of the
// merchant. Read once, when the transfer is first valued, and stored with its worth.

/** A transfer of a live payment that is valued for the first time. */
type Newcomer = { merchantId: string; payment: PaymentFacts; transfer: Transfer };
/** The largest pending transfers of a merchant and coin that are considered. Far fewer are enough to reach a bound. */
const MOST_BESIDE = 1_000;

/** By new transfer; those without company are omitted. Two statements, regardless of the number of transfers. */
async function readCompany(tx: Tx, newcomers: readonly Newcomer[]): Promise<Map<Transfer, Company>> {
  if (newcomers.length === 0) return new Map();
  const [inTransaction, beside] = [await readTransactions(tx, newcomers), await readBeside(tx, newcomers)];
  return new Map(
    newcomers.flatMap((one) => {
      const { transfer } = one;
      const company = {
        transactionUnits: inTransaction.get(`${transfer.coin} ${transfer.txid}`) ?? transfer.units,
        merchantUnits: beside.get(one) ?? 0n,
      };
      return company.transactionUnits > transfer.units || company.merchantUnits > 0n ? [[transfer, company] as const] : [];
    }),
  );
}

/** A payer makes one transaction. A block's own transactions (the coinbase and Litecoin peg-outs) pay outputs for many people. */
const isOfOnePayer = ({ txid, kind }: Transfer): boolean => txid !== null && kind !== 'coinbase' && kind !== 'pegout' && kind !== 'delta';

async function readTransactions(tx: Tx, newcomers: readonly Newcomer[]): Promise<Map<string, bigint>> {
  const txids = new Set(newcomers.flatMap(({ transfer }) => (isOfOnePayer(transfer) ? [transfer.txid!] : [])));
  if (txids.size === 0) return new Map();
  const rows = await tx<{ coin: Coin; txid: string; units: string }[]>`
    select t.coin, t.txid, sum(t.units)::text as units from transfers t
    where t.txid = any(${[...txids]}::text[]) and t.kind not in ('coinbase', 'pegout', 'delta')
      and exists (select 1 from payments p where p.id = t.payment_id and p.mode = 'live')
    group by 1, 2`;
  return new Map(rows.map((row) => [`${row.coin} ${row.txid}`, BigInt(row.units)]));
}

type Waiting = { merchantId: string; coin: Coin; paymentId: string; amountUsdCents: bigint; units: string };

/**
 * Transfers that are pending, or in the new transfer's own block, to payments of the merchant that are small enough for its tier and
 * were valued before it. Double-spent and missing ones count too, because a block may still include them. Each transfer counts the
 * ones before it and never those after it: the total worth of all payments of a tier stays below its bound, and what a payer was
 * shown never changes.
 */
async function readBeside(tx: Tx, newcomers: readonly Newcomer[]): Promise<Map<Newcomer, bigint>> {
  const named = ({ merchantId }: { merchantId: string }, coin: Coin) => `${merchantId} ${coin}`;
  const groups = Map.groupBy(
    newcomers.filter(({ payment, transfer }) => boundOf(payment, transfer) !== null),
    (one) => named(one, one.transfer.coin),
  );
  if (groups.size === 0) return new Map();
  const firsts = [...groups.values()].map(([first]) => first!);
  const heights = [...new Set(newcomers.flatMap(({ transfer }) => (transfer.block ? [transfer.block.height] : [])))];
  const rows = await tx<Waiting[]>`
    select w.merchant_id as "merchantId", w.coin, t.payment_id as "paymentId", t.amount_usd_cents as "amountUsdCents", t.units
    from unnest(${firsts.map((f) => f.merchantId)}::text[], ${firsts.map((f) => f.transfer.coin)}::text[]) as w (merchant_id, coin)
    cross join lateral (
      select t.payment_id, p.amount_usd_cents, t.units::text as units from (
        select t.payment_id, t.units, t.values from transfers t
        where t.merchant_id = w.merchant_id and t.coin = w.coin
          and t.block_height is null and t.conflict_height is null
          and (t.absent_since is null or t.absent_since > clock_timestamp() - interval '1 day')
        union all
        select t.payment_id, t.units, t.values from transfers t
        where t.merchant_id = w.merchant_id and t.coin = w.coin and t.block_height = any(${heights}::bigint[])) as t
      join payments p on p.id = t.payment_id and p.mode = 'live'
      where t.values <> '[]' order by t.units desc limit ${MOST_BESIDE}) as t`;
  const waiting = Map.groupBy(rows, (row) => named(row, row.coin));
  const beside = new Map<Newcomer, bigint>();
  for (const [name, group] of groups) addUp(group, waiting.get(name) ?? [], beside);
  return beside;
}

/** The USD bound of the tier of the payment's own amount; null for the last tier, which requires nothing more. */
const boundOf = (payment: PaymentFacts, { coin }: Transfer): bigint | null =>
  confirmationTier(payment, coin, payment.targetUsdCents).belowUsdCents;

/** Running sums by bound, in the order in which the new transfers were seen. */
function addUp(group: readonly Newcomer[], waiting: readonly Waiting[], beside: Map<Newcomer, bigint>): void {
  const sums = new Map(group.map(({ payment, transfer }) => [boundOf(payment, transfer)!, 0n]));
  const own = new Map<string, bigint>();
  const add = (paymentId: string, amountUsdCents: bigint, units: bigint): void => {
    own.set(paymentId, (own.get(paymentId) ?? 0n) + units);
    for (const [bound, sum] of sums) if (amountUsdCents < bound) sums.set(bound, sum + units);
  };
  for (const { paymentId, amountUsdCents, units } of waiting) add(paymentId, amountUsdCents, BigInt(units));
  const order = ({ payment, transfer }: Newcomer) => `${transfer.firstSeenAt.toISOString()} ${payment.id} ${transfer.ref}`;
  const inOrder = group.map((one) => ({ one, at: order(one) })).sort((a, b) => (a.at < b.at ? -1 : 1));
  for (const { one } of inOrder) {
    const { payment, transfer } = one;
    beside.set(one, sums.get(boundOf(payment, transfer)!)! - (own.get(payment.id) ?? 0n));
    add(payment.id, payment.targetUsdCents, transfer.units);
  }
}

// What simulated chains show of test payments, recorded as a follower records what its chain shows.

/** Past the end by more than any coin's slack, so that the end is certain immediately. */
const WINDOW_END_MARGIN_MS = 60_000;

type Advance = { merchantId: string; paymentId: string; seconds: number };

/**
 * Writes what simulated chains show and is not yet recorded; ends windows when a scenario says so. Returns the payments that changed, with
 * what was written.
 */
async function recordObservations(tx: Tx, records: readonly PaymentRecord[]): Promise<Map<string, PaymentRecord>> {
  const seen = records.map((record) => ({ record, shown: newlyShown(record), advances: windowEnd(record) }));
  const rows = seen.flatMap(({ record, shown }) => shown.map((transfer) => transferRow(record, transfer)));
  const advances = seen.flatMap((one) => one.advances);
  if (rows.length > 0) await writeTransfers(tx, rows);
  if (advances.length > 0) {
    await tx`
      insert into clock_advances (merchant_id, payment_id, seconds)
      select * from unnest(${advances.map((a) => a.merchantId)}::text[], ${advances.map((a) => a.paymentId)}::text[], ${advances.map((a) => a.seconds)}::bigint[])`;
  }
  const changed = seen.filter((one) => one.shown.length + one.advances.length > 0);
  return new Map(changed.map(({ record, shown, advances }) => [record.facts.id, withObservations(record, shown, advances)]));
}

/** The record as it would be read again. */
function withObservations(record: PaymentRecord, shown: readonly Shown[], advances: readonly Advance[]): PaymentRecord {
  const transfers = new Map(record.transfers.map((t) => [`${t.coin} ${t.ref}`, t]));
  for (const t of shown) {
    const { block, lock, absentSince, conflict, unminedSince } = t;
    const before = transfers.get(`${t.coin} ${t.ref}`) ?? { ...t, values: [] };
    transfers.set(`${t.coin} ${t.ref}`, { ...before, block, lock, absentSince, conflict, unminedSince });
  }
  const ms = advances.reduce((sum, { seconds }) => sum + seconds * 1000, 0);
  const inOrder = [...transfers.values()].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  return { ...record, transfers: inOrder, offsetMs: record.offsetMs + ms, now: addMs(record.now, ms) };
}
/** As `orderOfSight`: simulated transfers have no places in blocks. */
const orderOf = ({ firstSeenAt, coin, ref }: Transfer): string => `${firstSeenAt.toISOString()} ${coin} ${ref}`;

/** How far the clock of the payment moves now, because its scenario ends the window. */
function windowEnd(record: PaymentRecord): Advance[] {
  if (record.facts.status !== 'pending' || !observe(record)?.endWindow) return [];
  const endsAt = addMs(settle(record.facts, record.transfers, {}, record.now).expiresAt, WINDOW_END_MARGIN_MS);
  const seconds = Math.ceil((endsAt.getTime() - record.now.getTime()) / 1000);
  return seconds > 0 ? [{ merchantId: record.merchantId, paymentId: record.facts.id, seconds }] : [];
}

type Shown = Omit<Transfer, 'values'>;
/** Transfers that its simulated chain shows, where they differ from the recorded ones. */
function newlyShown(record: PaymentRecord): Shown[] {
  const known = new Map(record.transfers.map((t) => [`${t.coin} ${t.ref}`, t]));
  return (observe(record)?.transfers ?? []).filter((t) => {
    const before = known.get(`${t.coin} ${t.ref}`);
    return !before || chainFacts(before) !== chainFacts(t);
  });
}
const transferRow = ({ merchantId, facts }: PaymentRecord, t: Shown) => ({
  coin: t.coin,
  ref: t.ref,
  payment_id: facts.id,
  merchant_id: merchantId,
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

/** The parts of a transfer that follow the chain, as one comparable string. */
const chainFacts = (t: Pick<Transfer, 'block' | 'lock' | 'absentSince' | 'conflict' | 'unminedSince'>): string =>
  JSON.stringify([t.block?.height, t.block?.hash, t.lock, t.absentSince, t.conflict?.txid, t.conflict?.height, t.unminedSince]);

const writeTransfers = (tx: Tx, rows: readonly ReturnType<typeof transferRow>[]) => tx`
  insert into transfers (coin, ref, payment_id, merchant_id, txid, address, units, kind, first_seen_at, block_height, block_hash,
    block_time, lock, absent_since, conflict_txid, conflict_height, conflict_seen_at, unmined_since)
  select * from jsonb_to_recordset(${tx.json(rows as never)}) as r (coin text, ref text, payment_id text, merchant_id text, txid text,
    address text, units numeric, kind text, first_seen_at timestamptz, block_height bigint, block_hash text, block_time timestamptz,
    lock text, absent_since timestamptz, conflict_txid text, conflict_height bigint, conflict_seen_at timestamptz, unmined_since timestamptz)
  on conflict (payment_id, coin, ref) do update set block_height = excluded.block_height, block_hash = excluded.block_hash,
    block_time = excluded.block_time, lock = excluded.lock, absent_since = excluded.absent_since,
    conflict_txid = excluded.conflict_txid, conflict_height = excluded.conflict_height,
    conflict_seen_at = excluded.conflict_seen_at, unmined_since = excluded.unmined_since`;
