/**
 * Batches of payouts, imported from a CSV file: all rows or none. The same file again is the same batch, and each row has a reference that
 * no other payout has, so an upload that is repeated or edited never pays a row twice.
 */
import { createHash } from 'node:crypto';
import type { Context } from '#context';
import { COIN, type Coin, coinsOf, isAsset, isChain } from '#core/coin';
import { newId } from '#core/id';
import { formatUnits, formatUsd, readAmountText } from '#core/money';
import { Problem } from '#core/problem';
import type { RefundState } from '#core/refund';
import { type CsvRecord, MOST_CSV_CELLS, readCsv } from '#core/text';
import type { Sql, Tx } from '#db';
import { type Actor, writeAudit } from '#people';
import type { Owner } from './outgoing-payments.ts';
import { type AskedAmount, draftPayout, insertPayouts, type PayoutDraft } from './payouts.ts';

const MOST_ROWS = 1_000;
export const MOST_FILE_BYTES = 1024 * 1024;
/** Lines that the error names. */
const MOST_FAULTS = 10;
const COLUMNS = ['reference', 'currency', 'network', 'amount', 'amount_usd', 'address', 'description'] as const;
type Column = (typeof COLUMNS)[number];
const REQUIRED: readonly Column[] = ['reference', 'currency', 'address'];
const LONGEST: Readonly<Partial<Record<Column, number>>> = { reference: 80, description: 200 };

/** What one coin of a batch adds up to, by state. */
type BatchPart = { coin: Coin; state: RefundState; payouts: number; units: bigint; usdCents: bigint };
type PayoutBatch = { id: string; name: string; requestedBy: string; createdAt: Date; parts: BatchPart[] };

/** `extra`: the line has more cells than the first one. */
type Row = Partial<Record<Column, string>> & { line: number; extra: boolean };
type Fault = { line: number; reason: string };
const refuse = (reason: string) => new Problem('payout_import_invalid', { reason }, { param: 'file' });

/** The rows by the names of the columns. Errors: payout_import_invalid. */
function readRows(content: string): Row[] {
  if (Buffer.byteLength(content) > MOST_FILE_BYTES) throw refuse(`The file has more than ${MOST_FILE_BYTES} bytes.`);
  if (content.includes('\u0000') || !content.isWellFormed()) throw refuse('The file is not a text file in UTF-8.');
  const records = readCsv(content);
  if (!Array.isArray(records)) {
    const { brokenLine } = records;
    if (brokenLine === null) throw refuse(`The file has more than ${MOST_CSV_CELLS} cells. Remove empty lines and columns.`);
    throw refuse(`Line ${brokenLine} has a quotation mark in the wrong place.`);
  }
  const [header, ...rest] = records;
  const names = header?.cells.map((cell) => cell.toLowerCase()) ?? [];
  const unknown = names.find((name) => !COLUMNS.some((column) => column === name));
  const missing = REQUIRED.filter((name) => !names.includes(name));
  if (!header || unknown !== undefined || missing.length > 0 || new Set(names).size < names.length) {
    const what =
      missing.length > 0
        ? `has no column ${missing.join(', ')}`
        : unknown === undefined
          ? 'repeats a column'
          : `has an unknown column "${unknown.slice(0, 40)}"`;
    throw refuse(
      `The first line ${what}. It must name the columns: ${REQUIRED.join(', ')}, amount or amount_usd, and if needed network and description.`,
    );
  }
  if (rest.length === 0) throw refuse('The file has no payouts.');
  if (rest.length > MOST_ROWS) throw refuse(`The file has ${rest.length} payouts. A file may have up to ${MOST_ROWS}.`);
  return rest.map((record) => rowOf(record, names));
}
const rowOf = ({ line, cells }: CsvRecord, names: readonly string[]): Row => ({
  line,
  extra: cells.slice(names.length).some((cell) => cell !== ''),
  ...Object.fromEntries(cells.flatMap((cell, i) => (names[i] === undefined || cell === '' ? [] : [[names[i], cell]]))),
});

/** Errors: a Problem that says what is wrong with the row. */
function draftOf(ctx: Context, mode: Owner['mode'], row: Row): PayoutDraft {
  const wrong = (param: Column, reason: string) => new Problem('parameter_invalid', { reason }, { param });
  if (row.extra) throw new Problem('parameter_invalid', { reason: 'it has more cells than the first line' });
  for (const name of REQUIRED) if (row[name] === undefined) throw new Problem('parameter_missing', {}, { param: name });
  for (const [name, most] of Object.entries(LONGEST) as [Column, number][])
    if ((row[name]?.length ?? 0) > most) throw wrong(name, `it must have up to ${most} characters`);
  const asset = row.currency!.toUpperCase();
  const network = row.network?.toLowerCase();
  if (!isAsset(asset)) throw wrong('currency', 'it must be a coin such as BTC');
  if (network !== undefined && !isChain(network)) throw wrong('network', 'it is not a network that Florin knows');
  const [coin, another] = coinsOf(asset, network ?? null);
  if (coin === undefined) throw wrong('network', `${asset} is not on ${network}`);
  if (another !== undefined) throw new Problem('parameter_missing', {}, { param: 'network' });
  return draftPayout(ctx, {
    ...{ mode, coin, asked: amountOf(row, coin), address: row.address!, reference: row.reference! },
    description: row.description ?? null,
  });
}
function amountOf({ amount, amount_usd: usd }: Row, coin: Coin): AskedAmount {
  const given = (text: string, decimals: number, param: Column): bigint => {
    const value = readAmountText(text, decimals);
    if (value !== null && value > 0n) return value;
    const reason = `it must be above zero, with a point and up to ${decimals} decimals, such as 0.05`;
    throw new Problem('parameter_invalid', { reason }, { param });
  };
  if (amount !== undefined && usd !== undefined)
    throw new Problem('parameter_invalid', { reason: 'it cannot be combined with amount' }, { param: 'amount_usd' });
  if (usd !== undefined) return { kind: 'usd', cents: given(usd, 2, 'amount_usd') };
  if (amount === undefined) throw new Problem('parameter_missing', {}, { param: 'amount' });
  return { kind: 'coin', units: given(amount, COIN[coin].decimals, 'amount') };
}

/** What is wrong in a file, by line. */
function throwFaults(faults: readonly Fault[]): void {
  if (faults.length === 0) return;
  const shown = faults
    .toSorted((a, b) => a.line - b.line)
    .slice(0, MOST_FAULTS)
    .map(({ line, reason }) => `Line ${line}: ${reason}`);
  const more = faults.length - shown.length;
  throw refuse([...shown, ...(more > 0 ? [`${more} more ${more === 1 ? 'line is' : 'lines are'} wrong.`] : [])].join(' '));
}

/** Errors: payout_import_invalid, with the lines. */
async function draftAll(ctx: Context, tx: Tx, { merchantId, mode }: Owner, rows: readonly Row[]): Promise<PayoutDraft[]> {
  const faults: Fault[] = [];
  const drafts: PayoutDraft[] = [];
  const lines = new Map<string, number>();
  for (const row of rows) {
    try {
      const draft = draftOf(ctx, mode, row);
      const before = lines.get(draft.reference!);
      if (before !== undefined)
        throw new Problem('parameter_invalid', { reason: `line ${before} has the same one` }, { param: 'reference' });
      lines.set(draft.reference!, row.line);
      drafts.push(draft);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      faults.push({ line: row.line, reason: `${error.message}${error.param === null ? '' : ` (${error.param})`}` });
    }
  }
  const known = await tx<{ id: string; reference: string }[]>`
    select id, reference from outgoing_payments
    where merchant_id = ${merchantId} and mode = ${mode} and reference = any(${[...lines.keys()]}::text[]) and state <> 'canceled'`;
  for (const { id, reference } of known)
    faults.push({ line: lines.get(reference)!, reason: `${new Problem('payout_exists', { id, reference }).message} (reference)` });
  throwFaults(faults);
  return drafts;
}

/**
 * Imports a file. The same file again returns its batch, unless all of that was canceled. Errors: payout_import_invalid with the lines,
 * payout_exists.
 */
export async function importPayouts(
  ctx: Context,
  { content, name, actor, ...owner }: Owner & { content: string; name: string; actor: Actor },
): Promise<{ id: string; isKnown: boolean }> {
  const hash = createHash('sha256').update(content).digest();
  const rows = readRows(content);
  return ctx.db.begin(async (tx) => {
    // Two uploads at the same moment: the second sees the batch of the first.
    await tx`select 1 from merchants where id = ${owner.merchantId} for no key update`;
    const [known] = await tx<{ id: string }[]>`
      select id from payout_batches b
      where merchant_id = ${owner.merchantId} and mode = ${owner.mode} and file_hash = ${hash}
        and exists (select 1 from outgoing_payments p where p.batch_id = b.id and p.state <> 'canceled')
      order by number desc limit 1`;
    if (known) return { id: known.id, isKnown: true };
    const drafts = await draftAll(ctx, tx, owner, rows);
    const id = newId('bat', ctx.random);
    await tx`
      insert into payout_batches (id, merchant_id, mode, name, file_hash, requested_by, created_at)
      values (${id}, ${owner.merchantId}, ${owner.mode}, ${name.slice(0, 100)}, ${hash}, ${actor.name}, clock_timestamp())`;
    await insertPayouts(ctx, tx, { ...owner, drafts, batchId: id, actor });
    const usdCents = drafts.reduce((sum, draft) => sum + draft.usdCents, 0n);
    const after = { payouts: drafts.length, total: `${usdCents / 100n} USD` };
    await writeAudit(tx, { ...owner, actor, action: 'payout.imported', object: id, after });
    return { id, isKnown: false };
  });
}

async function withParts(sql: Sql, batches: readonly Omit<PayoutBatch, 'parts'>[]): Promise<PayoutBatch[]> {
  const parts = await sql<(BatchPart & { batchId: string })[]>`
    select batch_id as "batchId", coin, state, count(*)::int as payouts, sum(units) as units, sum(usd_cents) as "usdCents"
    from outgoing_payments where batch_id = any(${batches.map(({ id }) => id)}::text[]) group by batch_id, coin, state order by coin, state`;
  const byBatch = Map.groupBy(parts, ({ batchId }) => batchId);
  return batches.map((batch) => ({ ...batch, parts: byBatch.get(batch.id) ?? [] }));
}
const columns = (sql: Sql) => sql`id, name, requested_by as "requestedBy", created_at as "createdAt"`;

/** Errors: payout_batch_not_found. */
export async function getBatch(ctx: Context, { merchantId, mode, id }: Owner & { id: string }): Promise<PayoutBatch> {
  const { sql } = ctx.db;
  const found = await sql<Omit<PayoutBatch, 'parts'>[]>`
    select ${columns(sql)} from payout_batches where id = ${id} and merchant_id = ${merchantId} and mode = ${mode}`;
  const [batch] = await withParts(sql, found);
  if (!batch) throw new Problem('payout_batch_not_found', { id: id.slice(0, 40) });
  return batch;
}

/** A page of batches, newest first. */
export async function listBatches(
  ctx: Context,
  { merchantId, mode, limit, startingAfter }: Owner & { limit: number; startingAfter: string | null },
): Promise<{ batches: PayoutBatch[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const found = await sql<Omit<PayoutBatch, 'parts'>[]>`
    select ${columns(sql)} from payout_batches where merchant_id = ${merchantId} and mode = ${mode}
      ${startingAfter === null ? sql`` : sql`and number < (select number from payout_batches where id = ${startingAfter} and merchant_id = ${merchantId})`}
    order by number desc limit ${limit + 1}`;
  return { batches: await withParts(sql, found.slice(0, limit)), hasMore: found.length > limit };
}

// Batches of payouts as the dashboard and the commands show them.

/** `totals`: what is not canceled, by coin. `open`: what nobody approved yet, which an approval of the batch approves. */
export function batchBody({ id, name, requestedBy, createdAt, parts }: PayoutBatch) {
  const sum = (of: typeof parts) => ({
    payouts: of.reduce((count, part) => count + part.payouts, 0),
    amount_usd: formatUsd(of.reduce((cents, part) => cents + part.usdCents, 0n)),
    totals: [...Map.groupBy(of, ({ coin }) => coin)].map(([coin, group]) => ({
      currency: coin,
      amount: formatUnits(
        coin,
        group.reduce((units, part) => units + part.units, 0n),
      ),
    })),
  });
  const states = Object.fromEntries(
    [...Map.groupBy(parts, ({ state }) => state)].map(([state, group]) => [state, group.reduce((count, part) => count + part.payouts, 0)]),
  ) as Partial<Record<RefundState, number>>;
  return {
    ...{ id, name, requested_by: requestedBy, created_at: createdAt.toISOString(), states },
    ...sum(parts.filter(({ state }) => state !== 'canceled')),
    open: sum(parts.filter(({ state }) => state === 'requested')),
  };
}
