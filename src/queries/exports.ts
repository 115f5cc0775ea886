/** Payments, transfers and days as CSV: exact decimal strings, UTC times, stable column names and order. */

import type { Context } from '#context';
import { weakestOf } from '#core/amounts';
import { itemUsdCents } from '#core/asked-price';
import { apiNamesOf, type Coin, coinText, isKnownCoin, type Mode, NATIVE_COINS } from '#core/coin';
import { localTime } from '#core/dates';
import { type Fiat, formatFiat, usdCentsToFiat } from '#core/fiat';
import { formatDecimal, formatUnits, formatUsd } from '#core/money';
import type { Exception, PaymentStatus, TransferValue, Uncounted, Verifier } from '#core/payment';
import { heldDetail, receivedDetail } from '#core/payment-detail';
import type { Customer, PaymentRequest } from '#core/payment-view';
import { asTextMap } from '#core/stored-json';
import { refundedFromJson, requestFromJson, uncountedFromJson, valuesFromJson } from '#core/stored-payment';
import { csvLine } from '#core/text';
import { customerOf } from '#customers';
import type { Fragment } from '#db';
import { orderOfSight } from '#settling';
import { daysOf, readDayRows } from './days.ts';
import { conditionsOf, type Filter, sequencesOf } from './search.ts';

type Owner = { merchantId: string; mode: Mode };
/** The merchant's display currency and its current rate, in units for one dollar; null for US dollars. */
type Display = { currency: Fiat; rateE8: bigint } | null;
/** Payments read at a time: memory use does not depend on their number, and a slow reader does not keep a statement open. */
const PAGE = 1_000;

/** With its worth as stored in its column. */
type Stored<T> = Omit<T, 'values'> & { values: unknown };
const withValues = <T>(row: Stored<T>) => ({ ...row, values: valuesFromJson(row.values) });
type TransferRow = {
  coin: Coin;
  units: string;
  txid: string | null;
  ref: string;
  address: string;
  firstSeenAt: string;
  blockTime: string | null;
  blockHeight: number | null;
  verifiedBy: Verifier | null;
  replaced: boolean;
  values: TransferValue[];
};
type Row = {
  id: string;
  mode: Mode;
  sequence: bigint;
  status: PaymentStatus;
  exceptions: Exception[];
  amountUsdCents: bigint;
  paidUsdCents: bigint | null;
  reversedUsdCents: bigint;
  coin: Coin | null;
  receivedUnits: bigint;
  createdAt: Date;
  expiresAt: Date;
  completedAt: Date | null;
  invoiceId: string | null;
  request: PaymentRequest;
  metadata: Record<string, string>;
  customer: Customer | null;
  createdWith: string;
  refundRequestedAt: Date | null;
  refunded: Readonly<Partial<Record<Coin, bigint>>>;
  refundAddress: string | null;
  uncounted: Uncounted[];
  transfers: TransferRow[];
};

const at = (time: Date | string | null): string | null => (time === null ? null : new Date(time).toISOString());
const usdE8 = (value: bigint): string => formatDecimal(value, 8, 2);
const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);
/** What is on the chain; replaced transfers never arrived. */
const standing = (row: Row): TransferRow[] => row.transfers.filter((t) => !t.replaced);
const worth = (row: Row, pick: (values: TransferValue[]) => TransferValue | undefined): string | null => {
  const values = standing(row).map((t) => pick(t.values));
  return values.length === 0 || values.includes(undefined) ? null : usdE8(sum(values.map((v) => v!.usdE8)));
};
const receivedOf = ({ coin, receivedUnits: units, uncounted }: Row): string | null =>
  coin && receivedDetail(coin, { units, usdCents: 0n, uncounted }).amount_received;
const first = (values: TransferValue[]) => values[0];
const last = (values: TransferValue[]) => values.at(-1);

/** All columns, in order; a display currency adds more. New ones are added at the end, and none is renamed. */
const PAYMENT_CELLS = {
  mode: (row) => row.mode,
  id: (row) => row.id,
  status: (row) => row.status,
  exception: (row) => row.exceptions[0] ?? null,
  created_at: (row) => at(row.createdAt),
  expires_at: (row) => at(row.expiresAt),
  completed_at: (row) => at(row.completedAt),
  amount_usd: (row) => formatUsd(row.amountUsdCents),
  tax_usd: (row) => (row.request.taxMinor === null ? null : formatUsd(itemUsdCents(row.request, row.request.taxMinor))),
  currency: (row) => apiNamesOf(row.coin).currency,
  amount_received: (row) => receivedOf(row),
  usd_at_first_sight: (row) => worth(row, first),
  usd_at_completion: (row) => (row.completedAt ? worth(row, last) : null),
  fee_usd: () => '0.00',
  transaction_hashes: (row) =>
    standing(row)
      .map((t) => t.txid ?? t.ref)
      .join(' '),
  addresses: (row) => [...new Set(row.transfers.map((t) => t.address))].join(' '),
  invoice_id: (row) => row.invoiceId,
  description: (row) => row.request.description,
  created_with: (row) => row.createdWith,
  refund_requested_at: (row) => at(row.refundRequestedAt),
  refund_address: (row) => row.refundAddress,
  metadata: (row) => (Object.keys(row.metadata).length === 0 ? null : JSON.stringify(row.metadata)),
  ...Object.fromEntries(
    NATIVE_COINS.map((coin) => [
      `received_${coin.toLowerCase()}`,
      (row: Row) => {
        const units = sum(standing(row).flatMap((t) => (t.coin === coin ? [BigInt(t.units)] : [])));
        return units === 0n ? null : formatUnits(coin, units);
      },
    ]),
  ),
  amount_held: (row) => (row.coin ? heldDetail(row.coin, row.uncounted).amount_held : null),
  amount_held_usd: (row) => heldDetail(row.coin, row.uncounted).amount_held_usd,
  network: (row) => apiNamesOf(row.coin).network,
  verified_by: (row) => weakestOf(standing(row).map((t) => t.verifiedBy)),
  amount_refunded: (row) => (row.coin ? formatUnits(row.coin, row.refunded[row.coin] ?? 0n) : null),
  amount_fiat: (row) => row.request.fiat?.amount ?? null,
  currency_fiat: (row) => row.request.fiat?.currency ?? null,
  counted_usd: (row) => (row.paidUsdCents === null ? null : formatUsd(row.paidUsdCents)),
  customer_email: (row) => row.customer?.email ?? null,
  customer_name: (row) => row.customer?.name ?? null,
  customer_reference: (row) => row.customer?.reference ?? null,
} as Record<string, (row: Row) => string | null>;

type ReceivedRow = Pick<Row, 'id' | 'mode' | 'status' | 'invoiceId'> &
  Omit<TransferRow, 'firstSeenAt' | 'blockTime' | 'verifiedBy'> & { firstSeenAt: Date; blockTime: Date | null; description: string | null };
/** One transfer per line: what arrived, when, and what it was worth then. */
const TRANSFER_CELLS: Record<string, (row: ReceivedRow) => string | null> = {
  mode: (row) => row.mode,
  received_at: (row) => at(row.firstSeenAt),
  confirmed_at: (row) => at(row.blockTime),
  payment_id: (row) => row.id,
  invoice_id: (row) => row.invoiceId,
  payment_status: (row) => row.status,
  currency: (row) => apiNamesOf(row.coin).currency,
  network: (row) => apiNamesOf(row.coin).network,
  amount: (row) => formatUnits(row.coin, BigInt(row.units)),
  usd_at_receipt: (row) => (row.values[0] ? usdE8(row.values[0].usdE8) : null),
  usd_last_valued: (row) => (row.values.length > 0 ? usdE8(row.values.at(-1)!.usdE8) : null),
  transaction_hash: (row) => row.txid,
  address: (row) => row.address,
  block_height: (row) => (row.blockHeight === null ? null : String(row.blockHeight)),
  state: (row) => (row.replaced ? 'replaced' : row.blockHeight === null ? 'unconfirmed' : 'confirmed'),
  description: (row) => row.description,
};

/** Completed payments: what was requested, what counts now, and the difference; the service itself charges nothing. */
const FEE_CELLS: Record<string, (row: Row) => string | null> = {
  mode: (row) => row.mode,
  completed_at: (row) => at(row.completedAt),
  payment_id: (row) => row.id,
  invoice_id: (row) => row.invoiceId,
  amount_usd: (row) => formatUsd(row.amountUsdCents),
  counted_usd: (row) => (row.paidUsdCents === null ? null : formatUsd(row.paidUsdCents)),
  difference_usd: (row) => (row.paidUsdCents === null ? null : formatUsd(row.paidUsdCents - row.amountUsdCents)),
  service_fee_usd: () => '0.00',
  currency: (row) => apiNamesOf(row.coin).currency,
  amount_received: (row) => receivedOf(row),
  transaction_hashes: (row) =>
    standing(row)
      .map((t) => t.txid ?? t.ref)
      .join(' '),
  reversed_usd: (row) => formatUsd(row.reversedUsdCents),
};

/**
 * The last columns of files for merchants with a display currency: amounts at the current rate, or at the payment's own rate if its price
 * was set in that currency.
 */
function displayCells(display: Display): Record<string, (row: Row) => string | null> {
  if (display === null) return {};
  const { currency, rateE8 } = display;
  const fixedOf = ({ request: { fiat } }: Row) => (fiat?.currency === currency ? fiat : null);
  return {
    display_currency: () => currency,
    display_rate: (row) => formatDecimal(fixedOf(row)?.rateE8 ?? rateE8, 8),
    amount_display: (row) => fixedOf(row)?.amount ?? inDisplay({ currency, rateE8 }, row.amountUsdCents),
  };
}
const inDisplay = ({ currency, rateE8 }: NonNullable<Display>, cents: bigint): string =>
  formatFiat(currency, usdCentsToFiat(currency, cents, rateE8));

/** The last columns of files for merchants with a time zone: the day of a time there, by which ranges are cut, and the name of the zone. */
function dayCells<R>(timeZone: string, timeOf: (row: R) => Date): Record<string, (row: R) => string> {
  if (timeZone === 'UTC') return {};
  const local = localTime(timeZone);
  return { day: (row) => local(timeOf(row)).day, time_zone: () => timeZone };
}
const createdOf = ({ createdAt }: Row): Date => createdAt;
type Looks = { display?: Display; timeZone?: string };
const looks = ({ display = null, timeZone = 'UTC' }: Looks) => ({ ...displayCells(display), ...dayCells(timeZone, createdOf) });

/** Pages of payments with their transfers, newest first, until there are no more. */
async function* readPages(ctx: Context, { merchantId, mode, filter }: Owner & { filter: Filter }): AsyncGenerator<Row[]> {
  const { sql } = ctx.db;
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  if (filter.search !== null) {
    for await (const sequences of sequencesOf(ctx, { merchantId, mode, filter }, PAGE))
      yield await readRows(ctx, { which: sql`${mine} and sequence = any(${sequences.map(String)}::bigint[])` });
    return;
  }
  const { indexed, others } = await conditionsOf(ctx, { merchantId, mode, filter });
  let below: bigint | null = null;
  for (;;) {
    // One statement per page, each with its own snapshot: a single statement would keep its rows in memory, or its snapshot for as long
    // as the reader takes.
    const which = sql`${mine} ${indexed} ${others} ${below === null ? sql`` : sql`and sequence < ${below}`}`;
    const rows: Row[] = await readRows(ctx, { which });
    if (rows.length > 0) yield rows;
    if (rows.length < PAGE) return;
    below = rows.at(-1)!.sequence;
  }
}

type StoredRow = Omit<Row, 'transfers' | 'request' | 'metadata' | 'uncounted' | 'refunded'> & {
  refunded: unknown;
  request: unknown;
  metadata: unknown;
  uncounted: unknown;
  transfers: Stored<TransferRow>[] | null;
};
async function readRows(ctx: Context, { which }: { which: Fragment }): Promise<Row[]> {
  const { sql } = ctx.db;
  const rows = await sql<StoredRow[]>`
      select p.id, p.mode, p.sequence, p.status, p.exceptions, p.amount_usd_cents as "amountUsdCents", p.paid_usd_cents as "paidUsdCents",
        (select coalesce(-sum(s.sale_cents + s.over_cents), 0)::bigint from payment_sales s where s.merchant_id = p.merchant_id and s.payment_id = p.id
          and s.sale_units + s.over_units + s.held_units <> 0) as "reversedUsdCents",
        p.coin, p.received_units as "receivedUnits", p.created_at as "createdAt", p.expires_at as "expiresAt",
        p.completed_at as "completedAt", p.invoice_id as "invoiceId", p.request, p.metadata, p.created_with as "createdWith", p.uncounted, p.refunded, ${customerOf(sql)} as customer,
        p.refund_requested_at as "refundRequestedAt", (select r.address from refund_addresses r where r.payment_id = p.id) as "refundAddress",
        (select json_agg(json_build_object('coin', t.coin, 'units', t.units::text, 'txid', t.txid, 'ref', t.ref, 'address', t.address,
          'firstSeenAt', t.first_seen_at, 'blockTime', t.block_time, 'blockHeight', t.block_height, 'verifiedBy', t.verified_by,
          'replaced', t.conflict_txid is not null and t.block_height is null, 'values', t.values) order by ${orderOfSight(sql)})
          from transfers t where t.payment_id = p.id) as transfers
      from (select * from payments where ${which} order by sequence desc limit ${PAGE}) as p order by p.sequence desc`;
  return rows.map((row) => ({
    ...row,
    request: requestFromJson(row.request),
    metadata: asTextMap(row.metadata),
    uncounted: uncountedFromJson(row.uncounted),
    refunded: refundedFromJson(row.refunded),
    transfers: (row.transfers ?? []).map(withValues),
  }));
}

export const paymentColumns = (shown: Looks): readonly string[] => Object.keys({ ...PAYMENT_CELLS, ...looks(shown) });

/** The payments of a filter; `columns` in the order of the catalog, or all columns if none are given. */
export async function* exportPayments(
  ctx: Context,
  { columns, ...of }: Owner & Looks & { filter: Filter; columns: readonly string[] | null },
): AsyncGenerator<string> {
  const all = { ...PAYMENT_CELLS, ...looks(of) };
  const names = Object.keys(all).filter((name) => name === 'mode' || columns === null || columns.includes(name));
  yield csvLine(names);
  for await (const rows of readPages(ctx, of)) yield rows.map((row) => csvLine(names.map((name) => all[name]!(row)))).join('');
}

/** What arrived from `from` until before `until`, one transfer per line, oldest first: by time of receipt, not of creation. */
export async function* exportTransfers(
  ctx: Context,
  { merchantId, mode, from, until, timeZone = 'UTC' }: Owner & { from: Date; until: Date; timeZone?: string },
): AsyncGenerator<string> {
  const all = { ...TRANSFER_CELLS, ...dayCells(timeZone, ({ firstSeenAt }: ReceivedRow) => firstSeenAt) };
  yield csvLine(Object.keys(all));
  const cells = Object.values(all);
  const { sql } = ctx.db;
  let after: { at: string; ref: string } | null = null;
  for (;;) {
    const stored: Stored<ReceivedRow & { cursor: string }>[] = await sql`
      select p.id, p.mode, p.status, p.invoice_id as "invoiceId", p.request->>'description' as description, t.coin, t.units::text as units,
        t.txid, t.ref, t.address, t.first_seen_at as "firstSeenAt", t.first_seen_at::text as cursor, t.block_time as "blockTime",
        t.block_height::int as "blockHeight", t.conflict_txid is not null and t.block_height is null as replaced, t.values
      from transfers t join payments p on p.id = t.payment_id
      where t.merchant_id = ${merchantId} and t.first_seen_at >= ${from} and t.first_seen_at < ${until} and p.mode = ${mode}
        ${after === null ? sql`` : sql`and (t.first_seen_at, t.payment_id || t.ref) > (${after.at}::text::timestamptz, ${after.ref})`}
      order by t.first_seen_at, t.payment_id || t.ref limit ${PAGE}`;
    const rows = stored.map(withValues);
    yield rows.map((row) => csvLine(cells.map((cell) => cell(row)))).join('');
    if (rows.length < PAGE) return;
    const end = rows.at(-1)!;
    after = { at: end.cursor, ref: end.id + end.ref };
  }
}

export async function* exportFees(ctx: Context, of: Owner & Looks & { filter: Filter }): AsyncGenerator<string> {
  const all = { ...FEE_CELLS, ...looks(of) };
  yield csvLine(Object.keys(all));
  const cells = Object.values(all);
  for await (const rows of readPages(ctx, { ...of, filter: { ...of.filter, status: 'completed' } }))
    yield rows.map((row) => csvLine(cells.map((cell) => cell(row)))).join('');
}

/** The days with any activity, oldest first: one line for all coins, and one for each coin. Volume is what is left after reversals. */
export async function* exportDays(
  ctx: Context,
  { merchantId, mode, from, until, display = null, timeZone = 'UTC' }: Owner & Looks & { from: string; until: string },
): AsyncGenerator<string> {
  const shown = display === null ? [] : ['display_currency', 'display_rate', 'volume_display'];
  yield csvLine([
    'mode',
    'day',
    'currency',
    'created',
    'opened',
    'completed',
    'volume_usd',
    'reversed_usd',
    ...shown,
    ...(timeZone === 'UTC' ? [] : ['time_zone']),
  ]);
  const volume = (cents: bigint, reversed: bigint) => [
    formatUsd(cents),
    formatUsd(reversed),
    ...(display === null ? [] : [display.currency, formatDecimal(display.rateE8, 8), inDisplay(display, cents)]),
  ];
  const rows = await readDayRows(ctx.db.sql, { merchantId, mode, from, until });
  const active = new Set(rows.map(({ day }) => day));
  for (const { day, created, opened, coins, ...all } of daysOf(rows, { from, until })) {
    if (!active.has(day)) continue;
    const line = (currency: string, counts: (number | null)[], { completed, usdCents, reversedUsdCents }: typeof all): string =>
      csvLine([
        ...[mode, day, currency, ...counts.map((count) => (count === null ? null : String(count))), String(completed)],
        ...[...volume(usdCents, reversedUsdCents), ...(timeZone === 'UTC' ? [] : [timeZone])],
      ]);
    yield line('ALL', [created, opened], all);
    for (const [coin, own] of coins) yield line(isKnownCoin(coin) ? coinText(coin) : coin, [null, null], own);
  }
}
