/** Lists of payments: all, or filtered by what merchants know about them: invoice, metadata, amount and creation time. */

import type { Context } from '#context';
import type { Coin, Mode } from '#core/coin';
import type { Exception, PaymentStatus, Uncounted } from '#core/payment';
import type { Customer } from '#core/payment-view';
import { Problem } from '#core/problem';
import { uncountedFromJson } from '#core/stored-payment';
import { customerOf } from '#customers';
import { type Fragment, rowKeysWithin, type Sql, type Tx } from '#db';
import { pairOf } from '#settling';

export type PaymentListItem = {
  id: string;
  mode: Mode;
  status: PaymentStatus;
  exceptions: Exception[];
  amountUsdCents: bigint;
  coin: Coin | null;
  createdAt: Date;
  completedAt: Date | null;
  invoiceId: string | null;
  description: string | null;
  uncounted: Uncounted[];
  customer: Customer | null;
};

/** Matches the payments in some coins. One is compared as such, so that an index by coin yields them in order. */
const inCoins = (sql: Sql | Tx, coins: readonly Coin[], column: Fragment = sql`coin`): Fragment =>
  coins.length === 1 ? sql`${column} = ${coins[0]!}` : sql`${column} = any(${coins as Coin[]}::text[])`;

/**
 * A page of payments, newest first by sequence; `startingAfter` and `endingBefore` are payment ids. The total is the exact count
 * for the filter, in constant time: stored counts plus the deltas not yet folded, in the page's own snapshot.
 * Errors: cursor_invalid.
 */
export async function listPayments(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    endingBefore,
    status,
    coins,
  }: {
    merchantId: string;
    mode: Mode;
    limit: number;
    startingAfter: string | null;
    endingBefore: string | null;
    status: PaymentStatus | null;
    /** Null for all. */
    coins: readonly Coin[] | null;
  },
): Promise<{ items: PaymentListItem[]; hasMore: boolean; totalCount: bigint }> {
  const { sql } = ctx.db;
  const cursor = startingAfter ?? endingBefore;
  const backwards = endingBefore !== null;
  const filter = sql`${status ? sql`and status = ${status}` : sql``} ${coins ? sql`and ${inCoins(sql, coins)}` : sql``}`;
  const [row] = await sql<
    {
      known: boolean;
      total: bigint;
      items:
        | (Omit<PaymentListItem, 'amountUsdCents' | 'createdAt' | 'completedAt' | 'uncounted'> & {
            amountUsdCents: string;
            uncounted: unknown;
            createdAt: string;
            completedAt: string | null;
          })[]
        | null;
    }[]
  >`
    select
      ${cursor === null ? sql`true` : sql`exists (select 1 from payments where id = ${cursor} and merchant_id = ${merchantId} and mode = ${mode})`} as known,
      (select coalesce(sum(payments), 0)::bigint from (
        select payments from payment_counts where merchant_id = ${merchantId} and mode = ${mode} ${filter}
        union all
        select payments from payment_count_deltas where merchant_id = ${merchantId} and mode = ${mode} ${filter}) as c) as total,
      (select json_agg(json_build_object('id', id, 'mode', mode, 'status', status, 'exceptions', exceptions,
          'amountUsdCents', amount_usd_cents::text, 'coin', coin, 'createdAt', created_at, 'completedAt', completed_at,
          'invoiceId', invoice_id, 'description', request->>'description', 'uncounted', uncounted, 'customer', ${customerOf(sql)})
          order by sequence desc)
        from (select * from payments where merchant_id = ${merchantId} and mode = ${mode} ${filter}
          ${
            cursor === null
              ? sql``
              : sql`and sequence ${backwards ? sql`>` : sql`<`} (select sequence from payments where id = ${cursor}
            and merchant_id = ${merchantId} and mode = ${mode})`
          }
          order by sequence ${backwards ? sql`asc` : sql`desc`} limit ${limit + 1}) as p) as items`;
  if (!row!.known) throw new Problem('cursor_invalid', {}, { param: backwards ? 'ending_before' : 'starting_after' });
  const items = (row!.items ?? []).map((item) => ({
    ...item,
    amountUsdCents: BigInt(item.amountUsdCents),
    createdAt: new Date(item.createdAt),
    completedAt: item.completedAt ? new Date(item.completedAt) : null,
    uncounted: uncountedFromJson(item.uncounted),
  }));
  const hasMore = items.length > limit;
  // One extra row shows that there are more; it is at the far end.
  const page = hasMore ? (backwards ? items.slice(1) : items.slice(0, limit)) : items;
  return { items: page, hasMore, totalCount: row!.total };
}

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
