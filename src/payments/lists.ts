/** The list of payments filtered by what merchants know about them: invoice, metadata, amount and creation time. */

import type { Context } from '#context';
import type { Coin, Mode } from '#core/coin';
import type { PaymentStatus } from '#core/payment';
import { Problem } from '#core/problem';
import { customerOf } from '#customers';
import { type Fragment, rowKeysWithin, type Sql, type Tx } from '#db';
import { inCoins, type PaymentListItem } from './queries.ts';
import { uncountedFromJson } from './stored.ts';

export type ListFilter = {
  status: PaymentStatus | null;
  /** Null for all. */
  coins: readonly Coin[] | null;
  invoiceId: string | null;
  customerId: string | null;
  metadata: Readonly<Record<string, string>>;
  amountUsdCents: bigint | null;
  /** Inclusive. */
  createdAfter: Date | null;
  /** Exclusive. */
  createdBefore: Date | null;
};

/** Counting stops here, so that a filter with a million matches responds as fast as the others. */
const MOST_COUNTED = 10_000;
/** Payments that one index finds and the other filters are compared with. */
const MOST_COMPARED = 100_000;

/** What the index of metadata is made of. Keys never contain the separator character. */
export const pairOf = (key: string, value: string) => `${key}\u0001${value}`;

/** Makes payments searchable by their metadata. `made` has merchant_id, mode, sequence and metadata. */
export const metadataPairs = (tx: Sql | Tx, made: Fragment): Fragment => tx`
  insert into payment_metadata (merchant_id, mode, pair, sequence)
  select i.merchant_id, i.mode, md5(m.key || chr(1) || m.value)::uuid, i.sequence from ${made} as i, jsonb_each_text(i.metadata::jsonb) as m
  on conflict do nothing`;

/** Removes the current metadata of payments from the index; before it changes, in the same transaction. */
export async function dropMetadataPairs(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx`
    delete from payment_metadata d using payments p,
      jsonb_each_text(case when jsonb_typeof(p.metadata) = 'object' then p.metadata else '{}' end) as m
    where p.id = any(${[...ids]}::text[]) and d.merchant_id = p.merchant_id and d.mode = p.mode and d.sequence = p.sequence
      and d.pair = md5(m.key || chr(1) || m.value)::uuid`;
}

/**
 * A page of the matching payments, newest first, and how many match, counted up to a bound. Walks the one index that should find
 * the fewest and compares the other filters with what it finds. Errors: cursor_invalid; parameter_invalid when too many payments
 * would have to be compared.
 */
export async function listFilteredPayments(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    endingBefore,
    filter,
  }: { merchantId: string; mode: Mode; limit: number; startingAfter: string | null; endingBefore: string | null; filter: ListFilter },
): Promise<{ items: PaymentListItem[]; hasMore: boolean; totalCount: number; isCapped: boolean }> {
  const { sql } = ctx.db;
  const cursor = startingAfter ?? endingBefore;
  const backwards = endingBefore !== null;
  const { from, key, others, isExact, allMatch } = await candidatesOf(ctx, { merchantId, mode, filter, backwards });
  let beyond = sql``;
  if (cursor !== null) {
    const [row] = await sql<{ sequence: bigint }[]>`
      select sequence from payments where id = ${cursor} and merchant_id = ${merchantId} and mode = ${mode}`;
    if (!row) throw new Problem('cursor_invalid', {}, { param: backwards ? 'ending_before' : 'starting_after' });
    beyond = backwards ? sql`and ${sql(key)} > ${row.sequence}` : sql`and ${sql(key)} < ${row.sequence}`;
  }
  const compared = isExact ? sql`` : sql`limit ${MOST_COMPARED}`;
  const direction = backwards ? sql`asc` : sql`desc`;
  const [rows, [count]] = await Promise.all([
    sql<(Omit<PaymentListItem, 'uncounted'> & { uncounted: unknown })[]>`
      select id, mode, status, exceptions, amount_usd_cents as "amountUsdCents", coin, created_at as "createdAt",
        completed_at as "completedAt", invoice_id as "invoiceId", request->>'description' as description, uncounted, ${customerOf(sql)} as customer
      from (select p.*, ${sql(key)} as key ${from} ${beyond} order by ${sql(key)} ${direction} ${compared}) as p where true ${others}
      order by key ${direction} limit ${limit + 1}`,
    sql<{ found: number }[]>`
      select count(*)::int as found from (
        ${allMatch ?? sql`select 1 from (select p.* ${from} order by ${sql(key)} ${direction} ${compared}) as p where true ${others}`}
        limit ${MOST_COUNTED + 1}) as f`,
  ]);
  const hasMore = rows.length > limit;
  let isCapped = count!.found > MOST_COUNTED;
  if (!isExact && !(hasMore && isCapped)) {
    const cut = (where: Fragment) =>
      sql`exists (select 1 ${from} ${where} order by ${sql(key)} ${direction} offset ${MOST_COMPARED} limit 1)`;
    const [row] = await sql<{ page: boolean; count: boolean }[]>`select ${cut(beyond)} as page, ${cut(sql``)} as count`;
    if (row!.page && !hasMore) {
      const reason = 'more than 100,000 payments would have to be compared; add created_after and created_before, or invoice_id';
      throw new Problem('parameter_invalid', { reason }, { param: namesOf(filter).at(-1)! });
    }
    isCapped ||= row!.count;
  }
  const page = rows.slice(0, limit).map((row) => ({ ...row, uncounted: uncountedFromJson(row.uncounted) }));
  return { items: backwards ? page.reverse() : page, hasMore, totalCount: Math.min(count!.found, MOST_COUNTED), isCapped };
}

/** The given filters, by their names in a request. */
const namesOf = ({ status, coins, invoiceId, customerId, metadata, amountUsdCents, createdAfter, createdBefore }: ListFilter): string[] => [
  ...(status === null ? [] : ['status']),
  ...(coins === null ? [] : ['currency']),
  ...(createdAfter === null ? [] : ['created_after']),
  ...(createdBefore === null ? [] : ['created_before']),
  ...(invoiceId === null ? [] : ['invoice_id']),
  ...(customerId === null ? [] : ['customer']),
  ...(amountUsdCents === null ? [] : ['amount']),
  ...Object.keys(metadata).map((key) => `metadata[${key}]`),
];

/**
 * The payments that one index finds, as `p`, and the key of that index; the filters to compare them with, and whether those exclude
 * only a few. `allMatch`: one row for each match, where that does not require reading the payments.
 */
async function candidatesOf(
  ctx: Context,
  { merchantId, mode, filter, backwards }: { merchantId: string; mode: Mode; filter: ListFilter; backwards: boolean },
): Promise<{ from: Fragment; key: string; others: Fragment; isExact: boolean; allMatch: Fragment | null }> {
  const { sql } = ctx.db;
  const { status, coins, invoiceId, customerId, metadata, amountUsdCents, createdAfter: from, createdBefore: until } = filter;
  const mine = sql`p.merchant_id = ${merchantId} and p.mode = ${mode}`;
  const rows = sql`payments where merchant_id = ${merchantId} and mode = ${mode}`;
  const { within } = await rowKeysWithin(sql, { key: 'sequence', time: 'created_at', rows, from, until });
  const conditions = [
    invoiceId === null ? null : sql`and p.invoice_id = ${invoiceId}`,
    customerId === null ? null : sql`and p.customer_id = ${customerId}`,
    amountUsdCents === null ? null : sql`and p.amount_usd_cents = ${amountUsdCents}`,
    status === null ? null : sql`and p.status = ${status}`,
    coins === null ? null : sql`and ${inCoins(sql, coins, sql`p.coin`)}`,
  ].filter((one) => one !== null);
  const pairs = Object.entries(metadata);
  const byPair = invoiceId === null && customerId === null && pairs.length > 0;
  const [walked, ...rest] = byPair ? [sql``, ...conditions] : conditions;
  const all = (parts: readonly Fragment[]) => parts.reduce((sum, one) => sql`${sum} ${one}`, sql``);
  const [pair] = pairs;
  const paired =
    pair && sql`from payment_metadata where merchant_id = ${merchantId} and mode = ${mode} and pair = md5(${pairOf(...pair)})::uuid`;
  const isExact = rest.length === 0 && pairs.length <= (byPair ? 1 : 0);
  return {
    key: byPair ? 'm.sequence' : 'p.sequence',
    // One by one, so that rows are read in index order and no further than needed.
    from: byPair
      ? sql`from (select sequence ${paired!} ${within} order by sequence ${backwards ? sql`asc` : sql`desc`}) as m cross join lateral (
          select * from payments p where ${mine} and p.sequence = m.sequence offset 0) as p where true`
      : sql`from payments p where ${mine} ${walked ?? sql``} ${within}`,
    others: sql`${all(rest)} ${from ? sql`and p.created_at >= ${from}` : sql``} ${until ? sql`and p.created_at < ${until}` : sql``}
      ${all(pairs.map(([key, value]) => sql`and p.metadata->>${key} = ${value}`))}`,
    isExact,
    allMatch: byPair && isExact && from === null && until === null ? sql`select 1 ${paired!}` : null,
  };
}
