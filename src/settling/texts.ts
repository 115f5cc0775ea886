/** The texts that payments can be found by, and the worker that keeps their index. */

import { setTimeout as sleep } from 'node:timers/promises';
import { type Context, perContext } from '#context';
import { isKnownCoin, type Mode } from '#core/coin';
import { formatUnits, formatUsd } from '#core/money';
import type { Customer } from '#core/payment-view';
import { asObject, asText, asTextMap } from '#core/stored-json';
import { customerOf } from '#customers';
import { dueIf, dueWork, type Fragment, type Sql, startQueue, type Tx, takingWork } from '#db';

/** A text of a payment as it is shown, and where it is: `metadata.order`, `email`, `transaction_id`. */
export type TextField = { field: string; text: string };
type Texts = { sequence: bigint; version: bigint; fields: TextField[] };

/** Payments in one step of indexing; a step is one transaction. */
const STEP = 250;
const OWNERS = 50;
/** For a payment with many coins or transfers. */
const MOST_ROWS = 50;
/** Characters; longer texts are found by their beginning. */
const LONGEST_BODY = 20_000;
const CHANGED = 'text';

/** Normalization for comparing texts: ignores case and letter width, and collapses whitespace. */
export const plainText = (text: string): string => text.normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim();

/** Queues the texts of payments for indexing. Run it in the transaction that changes them, alone or as a part of its statement. */
export const queueTexts = (tx: Tx, ids: readonly string[]): Fragment => tx`
  insert into due_work (kind, key, merchant_id, due_at)
  select ${CHANGED}, p.id, p.merchant_id, clock_timestamp() from payments p where p.id = any(${[...ids]}::text[]) order by p.id
  on conflict (kind, key) do update set due_at = excluded.due_at`;

/** Texts of payments, the best-known ones first. `which` is a condition on payments as `p`. */
export async function readTexts(sql: Sql | Tx, which: Fragment): Promise<(Texts & { merchantId: string; mode: Mode })[]> {
  const rows = await sql<Row[]>`
    select p.merchant_id as "merchantId", p.mode, p.sequence, p.version, p.id, p.invoice_id as "invoiceId", p.metadata,
      p.request->>'description' as description, p.request->'fiat' as fiat, p.amount_usd_cents as "amountUsdCents",
      (select jsonb_agg(jsonb_build_array(q.coin, q.units::text, q.address)) from (
        select * from quotes q where q.payment_id = p.id order by number desc limit ${MOST_ROWS}) as q) as quotes,
      (select jsonb_agg(jsonb_build_array(t.coin, t.units::text, t.txid)) from (
        select * from transfers t where t.payment_id = p.id order by units desc limit ${MOST_ROWS}) as t) as transfers,
      r.address as "refundAddress", r.email, ${customerOf(sql)} as customer
    from payments p left join refund_addresses r on r.payment_id = p.id where ${which}`;
  return rows.map((row) => ({ ...row, fields: fieldsOf(row) }));
}
type Row = {
  merchantId: string;
  mode: Mode;
  sequence: bigint;
  version: bigint;
  id: string;
  invoiceId: string | null;
  description: string | null;
  metadata: unknown;
  fiat: unknown;
  amountUsdCents: bigint;
  quotes: [coin: string, units: string, address: string][] | null;
  transfers: [coin: string, units: string, txid: string | null][] | null;
  refundAddress: string | null;
  email: string | null;
  customer: Customer | null;
};

function fieldsOf(row: Row): TextField[] {
  const { quotes, transfers } = row;
  const fiat = asObject(row.fiat);
  const [fiatAmount, currency] = [asText(fiat.amount), asText(fiat.currency)];
  const amount = (coin: string, units: string) => (isKnownCoin(coin) ? `${formatUnits(coin, BigInt(units))} ${coin}` : null);
  const all: [field: string, text: string | null][] = [
    ['id', row.id],
    ['invoice_id', row.invoiceId],
    ['description', row.description],
    ...Object.entries(asTextMap(row.metadata)).map(([key, value]): [string, string] => [`metadata.${key}`, value]),
    ['email', row.customer?.email ?? null],
    ['customer.name', row.customer?.name ?? null],
    ['customer.reference', row.customer?.reference ?? null],
    ['email', row.email],
    ['amount_usd', `${formatUsd(row.amountUsdCents)} USD`],
    ['amount_fiat', fiatAmount === null || currency === null ? null : `${fiatAmount} ${currency}`],
    ...(quotes ?? []).flatMap(([coin, units, address]): [string, string | null][] => [
      ['amount', amount(coin, units)],
      ['payment_address', address],
    ]),
    ...(transfers ?? []).flatMap(([coin, units, txid]): [string, string | null][] => [
      ['amount_received', amount(coin, units)],
      ['transaction_id', txid],
    ]),
    ['refund_address', row.refundAddress],
  ];
  return all.flatMap(([field, text]) => (text === null || text === '' ? [] : [{ field, text }]));
}

/** All texts of a payment in indexed form. */
const bodyOf = ({ fields }: Texts): string =>
  [...new Set(fields.map(({ text }) => plainText(text)))].join('\n').slice(0, LONGEST_BODY).toWellFormed();

/** When payments are created faster than this per second, creating them takes priority. */
const BUSY_PER_SECOND = 100;
/** New payments and changes of this long are indexed together. */
const GATHER_MS = 500;
const behind = (sql: Sql) => sql`
  from payment_counters c left join payment_text_owners o using (merchant_id, mode) where c.last_sequence > coalesce(o.through_sequence, 0)`;
type Behind = { merchantId: string; mode: Mode; isNew: boolean };
/** Owners of new payments, and how many payments were ever created, by anybody. */
const readBehind = ({ db: { sql } }: Context) => sql<(Behind & { sequences: bigint })[]>`
  select c.merchant_id as "merchantId", c.mode, o.number is null as "isNew",
    (select sum(last_sequence) from payment_counters)::bigint as sequences ${behind(sql)} limit ${OWNERS}`;

/**
 * Wakes the worker for new payments, at most twice a second. Not in their transaction: a commit that notifies waits for all others that do,
 * and creates are many.
 */
export function wakeTexts(ctx: Context): void {
  const waking = wakingOf(ctx);
  if (waking.soon) return;
  waking.soon = true;
  setTimeout(() => {
    waking.soon = false;
    // Without it, they are found by the next regular look.
    ctx.db.sql`select pg_notify(${CHANGED}, '')`.catch(() => {});
  }, GATHER_MS / 2).unref();
}
const wakingOf = perContext(() => ({ soon: false }));

/** Starts the worker. Texts can be found about a second after they were written, or later while very many payments are created. */
export function startTextIndex(ctx: Context): { stop(): Promise<void> } {
  let last = { sequences: 0n, atMs: ctx.clock.monotonicMs() };
  return startQueue(ctx, {
    name: CHANGED,
    due: (sql) => sql`least(${dueWork(CHANGED)(sql)}, ${dueIf(sql, sql`exists (select 1 ${behind(sql)})`)})`,
    againMs: GATHER_MS,
    failed: (error, failures) => ctx.log.error({ err: error, failures }, 'Indexing the texts of payments failed; retrying'),
    round: async (stopping) => {
      await sleep(GATHER_MS, undefined, { signal: stopping }).catch(() => {});
      const startedMs = ctx.clock.monotonicMs();
      const owners = await readBehind(ctx);
      const sequences = owners[0]?.sequences ?? last.sequences;
      const perSecond = (Number(sequences - last.sequences) * 1000) / Math.max(1, startedMs - last.atMs);
      last = { sequences, atMs: startedMs };
      const more = await indexTexts(ctx, owners);
      const tookMs = ctx.clock.monotonicMs() - startedMs;
      if (more && perSecond > BUSY_PER_SECOND) await sleep(tookMs * 19, undefined, { signal: stopping }).catch(() => {});
      return more;
    },
  });
}

/** One round of the worker: the texts of new payments, and of those that changed. True: there is more. */
async function indexTexts(ctx: Context, owners: readonly Behind[]): Promise<boolean> {
  let more = owners.length === OWNERS;
  for (const owner of owners) more = (await ctx.db.begin((tx) => indexNew(tx, owner))) || more;
  return (await ctx.db.begin(indexChanged)) || more;
}

async function indexNew(tx: Tx, { merchantId, mode, isNew }: Behind): Promise<boolean> {
  if (isNew) await tx`insert into payment_text_owners (merchant_id, mode) values (${merchantId}, ${mode}) on conflict do nothing`;
  const [owner] = await tx<{ through: bigint; last: bigint }[]>`
    select through_sequence as through, (select last_sequence from payment_counters where merchant_id = ${merchantId} and mode = ${mode}) as last
    from payment_text_owners where merchant_id = ${merchantId} and mode = ${mode} for update skip locked`;
  if (!owner || owner.last <= owner.through) return false;
  const texts = await readTexts(
    tx,
    tx`p.merchant_id = ${merchantId} and p.mode = ${mode} and p.sequence > ${owner.through} and p.sequence <= ${owner.last}
      order by p.sequence limit ${STEP}`,
  );
  const through = texts.length === STEP ? texts.at(-1)!.sequence : owner.last;
  await tx`
    with written as (${writeTexts(tx, texts)})
    update payment_text_owners set through_sequence = ${through} where merchant_id = ${merchantId} and mode = ${mode}`;
  return through < owner.last;
}

async function indexChanged(tx: Tx): Promise<boolean> {
  const ids = await takingWork(CHANGED).take(tx, STEP);
  if (ids.length === 0) return false;
  // Waits for a concurrent first read of the same owner's payments, so that old text is not written after the change.
  await tx`
    insert into payment_text_owners (merchant_id, mode) select distinct merchant_id, mode from payments where id = any(${ids}::text[])
    order by 1, 2 on conflict do nothing`;
  await writeTexts(tx, await readTexts(tx, tx`p.id = any(${ids}::text[]) order by p.id`));
  return ids.length === STEP;
}

/** If a payment changed in the meantime, another process has read its newer version, which is kept. */
const writeTexts = (tx: Tx, texts: Awaited<ReturnType<typeof readTexts>>) => tx`
  insert into payment_texts as t (owner, sequence, version, body)
  select o.number, i.sequence, i.version, i.body
  from unnest(${texts.map((one) => one.merchantId)}::text[], ${texts.map((one) => one.mode)}::text[], ${texts.map((one) => String(one.sequence))}::bigint[],
    ${texts.map((one) => String(one.version))}::bigint[], ${texts.map(bodyOf)}::text[]) as i (merchant_id, mode, sequence, version, body)
    join payment_text_owners o using (merchant_id, mode) order by 1, 2
  on conflict (owner, sequence) do update set version = excluded.version, body = excluded.body where t.version < excluded.version`;

/**
 * Empties the texts of payments whose data is erased; the remaining text is read again. The rows stay, with the version before the erasure,
 * so that a worker which has read the old texts does not write them.
 */
export async function dropTexts(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx`
    insert into payment_texts as t (owner, sequence, version, body)
    select o.number, p.sequence, p.version - 1, '' from payments p join payment_text_owners o using (merchant_id, mode)
    where p.id = any(${[...ids]}::text[]) order by 1, 2
    on conflict (owner, sequence) do update set version = excluded.version, body = excluded.body`;
  await queueTexts(tx, ids);
}
