/** The dashboard's queries of payments: a filtered list, how many have each status, one search over all texts of a payment, its timeline. */

import type { Context } from '#context';
import type { Coin, Mode } from '#core/coin';
import { type Exception, PAYMENT_STATUSES, type PaymentStatus } from '#core/payment';
import { Problem } from '#core/problem';
import { asTexts } from '#core/stored-json';
import { uncountedFromJson } from '#core/stored-payment';
import { customerOf } from '#customers';
import { countByState, type Fragment, type LookedBackTo, lookThrough, rowKeysWithin, type Sql } from '#db';
import { type ActorKind, kindOfActor } from '#people';
import { pairOf, plainText, readTexts, type TextField } from '#settling';
import { keysOfShop } from '#webhooks';
import type { PaymentListItem } from './lists.ts';

export type FoundItem = PaymentListItem &
  FiatPrice & {
    receivedUnits: bigint;
    /** Null if the payment was last settled by a version that did not write it yet. */
    receivedUsdCents: bigint | null;
    refundRequestedAt: Date | null;
    archivedAt: Date | null;
    /** Where the matching text is. */
    match: TextField | null;
  };
/** The line of keys of a connected shop, or what the metadata of its payments says. */
export type ShopFilter = { lineId: string } | { metadata: { name: string; values: readonly string[] } };
export type Filter = {
  status: PaymentStatus | null;
  /** One of these coins. */
  coins: readonly Coin[] | null;
  exception: Exception | 'any' | null;
  /** The price in cents, both ends included. */
  atLeast: bigint | null;
  atMost: bigint | null;
  from: Date | null;
  until: Date | null;
  refundRequested: boolean;
  shop: ShopFilter | null;
  customerId: string | null;
  /** Archived payments: left out, alone, or together with the others. */
  archived: 'without' | 'only' | 'with';
  search: string | null;
};
export const NO_FILTER: Filter = {
  status: null,
  coins: null,
  exception: null,
  atLeast: null,
  atMost: null,
  from: null,
  until: null,
  refundRequested: false,
  shop: null,
  customerId: null,
  archived: 'with',
  search: null,
};

/** The price of a payment in the currency in which it was agreed; null for US dollars. */
export type FiatPrice = { amountFiat: string | null; currencyFiat: string | null };
export const fiatPrice = (sql: Sql): Fragment =>
  sql`request->'fiat'->>'amount' as "amountFiat", request->'fiat'->>'currency' as "currencyFiat"`;

/** What a payment received in US cents, as far as its row shows. */
export const receivedUsdCents = (sql: Sql): Fragment =>
  sql`coalesce(received_usd_cents, paid_usd_cents, case when received_units = 0 then 0 end)`;

const madeBy = (sql: Sql, { merchantId, mode, shop }: { merchantId: string; mode: Mode; shop: ShopFilter }): Fragment =>
  'lineId' in shop
    ? sql`and id in (select payment_id from shop_invoices where shop_key_id in ${keysOfShop(sql, shop.lineId)})`
    : sql`and sequence in (select m.sequence from payment_metadata m where m.merchant_id = ${merchantId} and m.mode = ${mode} and m.pair in (
        select md5(pair)::uuid from unnest(${shop.metadata.values.map((value) => pairOf(shop.metadata.name, value))}::text[]) as pair))`;

/** The API key that made the newest payment of a shop; null for none, and for shops with keys of their own. */
export async function newestKeyOf(
  { db: { sql } }: Context,
  { merchantId, mode, shop }: { merchantId: string; mode: Mode; shop: ShopFilter },
): Promise<{ id: string; name: string; hint: string } | null> {
  const [row] = await sql<{ id: string; name: string; hint: string }[]>`
    select k.id, k.name, k.hint from (
      select key_id from payments where merchant_id = ${merchantId} and mode = ${mode} and key_id is not null
        ${madeBy(sql, { merchantId, mode, shop })} order by sequence desc limit 1
    ) as p join keys k on k.id = p.key_id`;
  return row ?? null;
}

/** A filter as conditions: those that indexes answer, and the others. */
export async function conditionsOf(
  ctx: Context,
  { merchantId, mode, filter }: { merchantId: string; mode: Mode; filter: Filter },
): Promise<{ indexed: Fragment; others: Fragment; isExact: boolean }> {
  const { sql } = ctx.db;
  const { status, coins, exception, atLeast, atMost, from, until, archived } = filter;
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  const { within } = await rowKeysWithin(sql, { key: 'sequence', time: 'created_at', rows: sql`payments where ${mine}`, from, until });
  // Walks the one index that has the fewest rows; the other conditions filter its results.
  const walks = [
    filter.customerId === null ? null : sql`and customer_id = ${filter.customerId}`,
    filter.shop === null ? null : madeBy(sql, { merchantId, mode, shop: filter.shop }),
    archived === 'only' ? sql`and archived_at is not null` : null,
    filter.refundRequested ? sql`and refund_requested_at is not null` : null,
    exception === null ? null : sql`and exceptions <> '{}'`,
    status === null ? null : sql`and status = ${status}`,
    // One coin is in the order of its index.
    coins === null ? null : coins.length === 1 ? sql`and coin = ${coins[0]!}` : sql`and coin = any(${coins as Coin[]}::text[])`,
  ].filter((walk) => walk !== null);
  const [walked, ...rest] = walks;
  const and = (parts: readonly Fragment[]) => parts.reduce((all, one) => sql`${all} ${one}`, sql``);
  return {
    indexed: sql`${walked ?? sql``} ${within}`,
    others: sql`${and(rest)} ${exception === null || exception === 'any' ? sql`` : sql`and ${exception} = any(exceptions)`}
      ${from ? sql`and created_at >= ${from}` : sql``} ${until ? sql`and created_at < ${until}` : sql``}
      ${atLeast === null ? sql`` : sql`and amount_usd_cents >= ${atLeast}`} ${atMost === null ? sql`` : sql`and amount_usd_cents <= ${atMost}`}
      ${archived === 'without' ? sql`and archived_at is null` : sql``}`,
    isExact:
      atLeast === null && atMost === null && archived !== 'without' && rest.length === 0 && (exception === null || exception === 'any'),
  };
}

const listedColumns = ({ db: { sql } }: Context) => sql`
  id, mode, status, exceptions, amount_usd_cents as "amountUsdCents", coin, created_at as "createdAt",
  completed_at as "completedAt", ${fiatPrice(sql)}, invoice_id as "invoiceId", request->>'description' as description, received_units as "receivedUnits",
  ${receivedUsdCents(sql)} as "receivedUsdCents", uncounted, refund_requested_at as "refundRequestedAt", archived_at as "archivedAt", ${customerOf(sql)} as customer`;
type ListedRow = Omit<FoundItem, 'match' | 'uncounted'> & { uncounted: unknown };
const listedItem = (row: ListedRow): Omit<FoundItem, 'match'> => ({ ...row, uncounted: uncountedFromJson(row.uncounted) });

type Paging = { merchantId: string; mode: Mode; limit: number; startingAfter: string | null; filter: Filter };
type Page = { items: FoundItem[]; hasMore: boolean; lookedBackTo: LookedBackTo };

/**
 * Newest first; `search` matches any part of the texts of a payment. A page checks a bounded number of payments: if that ended before
 * the page was full, `lookedBackTo` is the last of them, and the next page may start after it. Errors: cursor_invalid.
 */
export async function findPayments(ctx: Context, paging: Paging): Promise<Page> {
  const { merchantId, mode, limit, startingAfter, filter } = paging;
  const { sql } = ctx.db;
  let after: bigint | null = null;
  if (startingAfter !== null) {
    const [row] = await sql<{ sequence: bigint }[]>`
      select sequence from payments where id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode}`;
    if (!row) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
    after = row.sequence;
  }
  const query = filter.search === null ? '' : plainQuery(filter.search);
  if (query !== '') return searchPayments(ctx, { ...paging, query, after });
  const { indexed, others, isExact } = await conditionsOf(ctx, { merchantId, mode, filter });
  const candidates = sql`where merchant_id = ${merchantId} and mode = ${mode} ${indexed} ${after === null ? sql`` : sql`and sequence < ${after}`}
    order by sequence desc`;
  const page = await lookThrough(sql, {
    limit,
    further: after !== null,
    isExact,
    find: async (bound) =>
      (
        await sql<ListedRow[]>`
          select ${listedColumns(ctx)} from (select * from payments ${candidates} ${bound}) as p where true ${others}
          order by sequence desc limit ${limit + 1}`
      ).map(listedItem),
    candidateKeys: sql`select sequence from payments ${candidates}`,
    last: (key) => sql<{ id: string; at: Date }[]>`
      select id, created_at as at from payments where merchant_id = ${merchantId} and mode = ${mode} and sequence = ${key}`,
  });
  return { ...page, items: page.items.map((item) => ({ ...item, match: null })) };
}

/** How many payments of each status the list shows without other filters. */
export const countByStatus = ({ db: { sql } }: Context, { merchantId, mode }: { merchantId: string; mode: Mode }) =>
  countByState(sql, {
    states: PAYMENT_STATUSES,
    rowsIn: (status) => sql`payments where merchant_id = ${merchantId} and mode = ${mode} and status = ${status} order by sequence desc`,
    listed: sql`archived_at is null`,
  });

async function searchPayments(
  ctx: Context,
  { merchantId, mode, limit, filter, query, after }: Paging & { query: string; after: bigint | null },
): Promise<Page> {
  const { sql } = ctx.db;
  const of = { merchantId, mode };
  const { sequences, lookedTo } = await findByText(ctx, { ...of, query, below: after, limit, ...(await keptBy(ctx, { ...of, filter })) });
  const shown = sequences.slice(0, limit).map(String);
  const which = sql`p.merchant_id = ${merchantId} and p.mode = ${mode} and p.sequence = any(${shown}::bigint[])`;
  const [items, texts, [end]] = await Promise.all([
    sql<(ListedRow & { sequence: bigint })[]>`
      select sequence, ${listedColumns(ctx)} from payments p where ${which} order by sequence desc`,
    readTexts(sql, which),
    lookedTo === null
      ? []
      : sql<{ id: string; at: Date }[]>`
        select id, created_at as at from payments where merchant_id = ${merchantId} and mode = ${mode} and sequence >= ${lookedTo}
        order by sequence limit 1`,
  ]);
  const fields = new Map(texts.map((one) => [one.sequence, one.fields]));
  return {
    items: items.map(({ sequence, ...item }) => ({ ...listedItem(item), match: matchIn(fields.get(sequence) ?? [], query) })),
    hasMore: sequences.length > limit,
    lookedBackTo: end ?? null,
  };
}

/** All of a filter except its text, as conditions; null if everything matches. In an object, because await would run a SQL fragment. */
async function keptBy(ctx: Context, of: { merchantId: string; mode: Mode; filter: Filter }): Promise<{ others: Fragment | null }> {
  const { status, coins, exception, atLeast, atMost, from, until, refundRequested, customerId, archived } = of.filter;
  if (
    archived === 'with' &&
    !refundRequested &&
    [status, coins, exception, atLeast, atMost, from, until, customerId].every((one) => one === null)
  )
    return { others: null };
  const { indexed, others } = await conditionsOf(ctx, of);
  return { others: ctx.db.sql`${indexed} ${others}` };
}

/** The payments of a search as sequences, newest first, page by page. */
export async function* sequencesOf(
  ctx: Context,
  { filter, ...of }: { merchantId: string; mode: Mode; filter: Filter },
  limit: number,
): AsyncGenerator<bigint[]> {
  const { others } = await keptBy(ctx, { ...of, filter });
  let below: bigint | null = null;
  do {
    const found: Matches = await findByText(ctx, { ...of, query: plainQuery(filter.search ?? ''), below, limit, others });
    const page = found.sequences.slice(0, limit);
    if (page.length > 0) yield page;
    below = found.sequences.length > limit ? page.at(-1)! : found.lookedTo;
  } while (below !== null);
}

export type SearchMoment = {
  at: Date;
  kind: 'created' | 'opened' | 'coin_chosen' | 'transfer_seen' | 'transfer_confirmed' | 'decision' | 'event';
  /** The decision, or the type of the event. */
  what: string | null;
  coin: Coin | null;
  units: bigint | null;
  /** An address when a coin was chosen, else an on-chain transaction id. */
  ref: string | null;
  /** Who created it or decided: a member, an API key or a shop, by name. */
  actor: string | null;
  actorKind: ActorKind | null;
  blockHeight: bigint | null;
  /** US dollars per coin when a coin was chosen, and the price sources that agreed on it. */
  rateE8: bigint | null;
  sources: string[];
  /** The API key that created the payment or decided. */
  key: { id: string; name: string; hint: string } | null;
};

/** Everything that happened to a payment, oldest first. */
export async function listMoments(
  ctx: Context,
  { merchantId, mode, paymentId }: { merchantId: string; mode: Mode; paymentId: string },
): Promise<SearchMoment[]> {
  const { sql } = ctx.db;
  const rows = await sql<(Omit<SearchMoment, 'sources' | 'actorKind'> & { sources: unknown; actorId: string | null })[]>`
    with p as (select * from payments where id = ${paymentId} and merchant_id = ${merchantId} and mode = ${mode}),
    moments (at, place, kind, what, coin, units, ref, actor, block_height, rate_e8, sources, actor_id) as (
      select created_at, 0, 'created', created_with, null, null::numeric, null,
          (select actor_name from audit_log a where a.merchant_id = p.merchant_id and a.object = p.id and a.action = 'payment.create' limit 1),
          null::bigint, null::numeric, null::jsonb, key_id from p
      union all select opened_at, 1, 'opened', null, null, null, null, null, null, null, null, null from p where opened_at is not null
      union all select q.from_at, 1, 'coin_chosen', null, q.coin, q.units, q.address, null, null, q.rate_e8, q.sources, null
        from quotes q join p on q.payment_id = p.id
      union all select t.first_seen_at, 2, 'transfer_seen', null, t.coin, t.units, t.txid, null, null, null, null, null
        from transfers t join p on t.payment_id = p.id
      union all select t.block_time, 3, 'transfer_confirmed', null, t.coin, t.units, t.txid, null, t.block_height, null, null, null
        from transfers t join p on t.payment_id = p.id where t.block_time is not null
      union all select d.at, 4, 'decision', d.kind, null, null, d.txid, a.actor_name, null, null, null, a.actor_id
        from decisions d join p on d.payment_id = p.id left join lateral (
          select actor_name, actor_id from audit_log a where a.merchant_id = p.merchant_id and a.object = p.id and a.after->>'decision' = d.kind
            -- Matched by number, because the decision's time may come from a test clock.
            and a.after->'number' = to_jsonb(d.number) order by a.id limit 1) a on true
      union all select e.created_at, 5, 'event', e.type, null, null, null, null, null, null, null, null
        from events e join p on e.payment_id = p.id where e.type <> 'payment.created'
    )
    select at, kind, what, coin, units, ref, actor, block_height as "blockHeight", rate_e8 as "rateE8", sources, actor_id as "actorId",
      (select jsonb_build_object('id', k.id, 'name', k.name, 'hint', k.hint) from keys k where k.id = actor_id) as key
    from moments order by at, place`;
  return rows.map(({ actorId, ...row }) => ({ ...row, actorKind: kindOfActor(actorId), sources: asTexts(row.sources) }));
}

/** For each owner, a text that changes when any of the payments may have: the newest event. One query for all open dashboards. */
export async function readPulse(
  ctx: Context,
  { owners }: { owners: readonly { merchantId: string; mode: Mode }[] },
): Promise<(string | null)[]> {
  const rows = await ctx.db.sql<{ pulse: string | null }[]>`
    select (select id from events e where e.merchant_id = o.merchant_id and e.mode = o.mode and body is not null
      order by xid desc, feed desc limit 1) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[], ${owners.map((o) => o.mode)}::text[]) with ordinality as o (merchant_id, mode, n)
    order by o.n`;
  return rows.map((row) => row.pulse);
}

/** The same for confirmations, which change without an event: the chain tips, of which there are few. Test payments have their own. */
export async function readChainPulse(ctx: Context, { owners }: { owners: readonly { mode: Mode }[] }): Promise<(string | null)[]> {
  if (owners.every(({ mode }) => mode === 'test')) return owners.map(() => null);
  const [row] = await ctx.db.sql<{ pulse: string | null }[]>`
    select string_agg(concat_ws(' ', chain, hash, safe_height, finalized_height, chainlock_height), ',' order by chain) as pulse from tips`;
  return owners.map(({ mode }) => (mode === 'live' ? row!.pulse : null));
}

// Which payments contain a text, newest first: from the texts of the newest ones, then from the index, segment by segment.

/** The newest payments, whose texts are compared one by one; this finds frequent texts. */
const WALK = 1_000;
/** Those before them, for texts that this many of the newest have, and for texts that are too short for the index. */
const WALK_MORE = 5_000;
const FREQUENT = 5;
/** Bytes of the shortest query that uses the index: one character of Chinese, three of English. */
const SHORTEST = 3;
/** New payments that may have no texts yet. */
const TAIL = 200;
/** Payments that the index finds and whose texts are compared with the query, up to the end of a segment. */
const MOST_LOOKED = 5_000;
const MOST_SEGMENTS = 1_000;
/** Payments; see payment_text_grams. */
const SEGMENT = 65_536;
/** How many terms of a query are counted, and how many of them, the rarest, are looked up in the index. */
const MOST_COUNTED = 32;
const MOST_TERMS = 4;
/** Texts, evenly spread over all, in which terms are counted. A term in so many of them is too common to look up. */
const SAMPLED = 32;
const COMMON = 12;

/** Maps amounts and numbers as people write them to the stored form: `$1,234.50` and `#10836`. */
function plainQuery(text: string): string {
  const plain = plainText(text).replace(/^[#$€£¥]\s*/, '');
  return /^\d{1,3}(,\d{3})+(\.\d+)?( [a-z]{3,4})?$/.test(plain) ? plain.replaceAll(',', '') : plain;
}

/** Where the payment contains the text; null when that has changed in the meantime. */
const matchIn = (fields: readonly TextField[], query: string): TextField | null =>
  fields.find(({ text }) => plainText(text).includes(query)) ?? null;

type Term = { text: string; isBeginning: boolean };
/** The terms of all payments with the query, as in payment_text_grams. Neighbors share characters, so those far apart come first. */
function termsOf(query: string): Term[] {
  const characters = [...query];
  const all = new Set<string>();
  for (const start of characters.keys()) {
    const length = /^[0-9a-f]{3}$/.test(characters.slice(start, start + 3).join('')) ? 4 : 3;
    if (start + length <= characters.length) all.add(characters.slice(start, start + length).join(''));
  }
  if (all.size === 0) return [{ text: query, isBeginning: true }];
  const step = Math.max(1, all.size / MOST_COUNTED);
  const counted = [...all].filter((_, i) => Math.floor(i / step) > Math.floor((i - 1) / step));
  return [0, 1, 2, 3].flatMap((first) => counted.filter((_, i) => i % 4 === first).map((text) => ({ text, isBeginning: false })));
}

type Matches = {
  /** Sequences, newest first; one more than the limit when there are more. */
  sequences: bigint[];
  /** All payments down to this sequence were checked, and there are older ones. */
  lookedTo: bigint | null;
};

/** Payments that contain the text, among those matching `others`, older than `below`. The work is bounded, whatever the text. */
export async function findByText(
  ctx: Context,
  of: { merchantId: string; mode: Mode; query: string; others: Fragment | null; below: bigint | null; limit: number },
): Promise<Matches> {
  const isIndexed = Buffer.byteLength(of.query) >= SHORTEST;
  const [tail, near] = await Promise.all([findInTail(ctx, of), findNear(ctx, { ...of, walk: WALK })]);
  const found = new Set([...tail, ...near.sequences]);
  let { walkedTo } = near;
  const isEnough = () => found.size > of.limit || walkedTo === null;
  if (!isEnough() && (!isIndexed || near.sequences.length >= FREQUENT)) {
    const more = await findNear(ctx, { ...of, below: walkedTo, walk: WALK_MORE });
    for (const sequence of more.sequences) found.add(sequence);
    ({ walkedTo } = more);
  }
  const sequences = [...found].sort((a, b) => (a < b ? 1 : -1));
  if (isEnough()) return { sequences: sequences.slice(0, of.limit + 1), lookedTo: null };
  if (!isIndexed) return { sequences, lookedTo: walkedTo };
  const far = await findFar(ctx, { ...of, below: walkedTo!, limit: of.limit - sequences.length });
  return { sequences: [...sequences, ...far.sequences].slice(0, of.limit + 1), lookedTo: far.lookedTo };
}

type Search = Parameters<typeof findByText>[1];
const ownerOf = (ctx: Context, { merchantId, mode }: Search) => ctx.db.sql`
  (select number from payment_text_owners where merchant_id = ${merchantId} and mode = ${mode})`;

/** New payments whose texts are not in the table yet. */
async function findInTail(ctx: Context, { merchantId, mode, query, others, below }: Search): Promise<bigint[]> {
  const { sql } = ctx.db;
  const texts = await readTexts(
    sql,
    sql`p.merchant_id = ${merchantId} and p.mode = ${mode} and p.sequence > coalesce((
        select through_sequence from payment_text_owners where merchant_id = ${merchantId} and mode = ${mode}), 0)
      ${below === null ? sql`` : sql`and p.sequence < ${below}`} order by p.sequence desc limit ${TAIL}`,
  );
  const found = texts.filter(({ fields }) => matchIn(fields, query)).map(({ sequence }) => sequence);
  if (others === null || found.length === 0) return found;
  const kept = await sql<{ sequence: bigint }[]>`
    select sequence from payments where merchant_id = ${merchantId} and mode = ${mode} and sequence = any(${found.map(String)}::bigint[]) ${others}`;
  return kept.map(({ sequence }) => sequence);
}

/** Among the newest texts. `walkedTo`: there are older ones than this. */
async function findNear(ctx: Context, of: Search & { walk: number }): Promise<{ sequences: bigint[]; walkedTo: bigint | null }> {
  const { sql } = ctx.db;
  const { merchantId, mode, query, others, below, limit, walk } = of;
  const [row] = await sql<{ sequences: bigint[] | null; walked: number; walkedTo: bigint | null }[]>`
    with walked as materialized (
      select sequence, strpos(body, ${query}) > 0 as found from (
        select sequence, body from payment_texts where owner = ${ownerOf(ctx, of)} ${below === null ? sql`` : sql`and sequence < ${below}`}
        order by sequence desc limit ${walk}) as t
    ), kept as (
      select sequence from walked where found ${
        others === null
          ? sql``
          : sql`and exists (select 1 from payments p where merchant_id = ${merchantId} and mode = ${mode} and p.sequence = walked.sequence ${others})`
      } order by sequence desc limit ${limit + 1}
    )
    select (select array_agg(sequence) from kept) as sequences, (select count(*) from walked)::int as walked,
      (select min(sequence) from walked) as "walkedTo"`;
  return { sequences: row!.sequences ?? [], walkedTo: row!.walked === walk ? row!.walkedTo : null };
}

/** In the index, one segment after the other until there are enough; or in the next texts if all terms of the query are common. */
async function findFar(ctx: Context, of: Search & { below: bigint }): Promise<Matches> {
  const { sql } = ctx.db;
  const { merchantId, mode, query, others, below, limit } = of;
  const newest = below / BigInt(SEGMENT) + 1n;
  const [row] = await sql<{ segment: bigint; sequences: bigint[] }[]>`
    with recursive o as (select ${ownerOf(ctx, of)} as number),
    rarest as materialized (${rarestTerms(sql, { query, below })}),
    steps (segment, sequences, looked) as (
      select ${newest}::bigint, '{}'::bigint[], 0 from rarest where found < ${COMMON}
      union all
      select s.segment - 1, s.sequences || n.sequences, s.looked + n.looked
      from steps s cross join o cross join rarest
        cross join lateral (
          select string_agg(concat('''', to_hex(o.number), '.', to_hex(s.segment - 1), '.', lexeme), ' & ')::tsquery as terms
          from unnest(rarest.lexemes) as lexeme) as k
        cross join lateral (
          select coalesce(array_agg(f.sequence order by f.sequence desc) filter (where f.kept), '{}') as sequences, count(*)::int as looked
          from (
            select t.sequence, strpos(t.body, ${query}) > 0 ${
              others === null
                ? sql``
                : sql`and exists (select 1 from payments p where merchant_id = ${merchantId} and mode = ${mode} and p.sequence = t.sequence ${others})`
            } as kept
            from payment_texts t
            -- Adding 0 keeps the planner from reading all rows of the owner through the other index.
            where payment_text_grams(t.owner, t.sequence >> 16, t.body) @@ k.terms and t.owner + 0 = o.number and t.sequence + 0 < ${below}) as f) as n
      where s.segment > 0 and cardinality(s.sequences) <= ${limit} and s.looked < ${MOST_LOOKED} and s.segment > ${newest}::bigint - ${MOST_SEGMENTS}
    )
    select segment, sequences from steps order by segment limit 1`;
  if (row === undefined) {
    const { sequences, walkedTo } = await findNear(ctx, { ...of, walk: WALK_MORE });
    return { sequences, lookedTo: sequences.length > limit ? null : walkedTo };
  }
  const { segment, sequences } = row;
  return { sequences, lookedTo: sequences.length > limit || segment === 0n ? null : segment * BigInt(SEGMENT) };
}

/**
 * The terms of a query that are the rarest in a sample of all texts, and in how many of those the rarest is: words of a shop such as
 * "invoice" are in every payment, the number after them is not. Reading all payments that have a common word would take long.
 */
function rarestTerms(sql: Sql, { query, below }: { query: string; below: bigint }): Fragment {
  const terms = termsOf(query);
  const lexemes = terms.map(({ text, isBeginning }) => `${text.replace(/['\\]/g, '$&$&')}'${isBeginning ? ':*' : ''}`);
  return sql`
    select array_agg(c.lexeme) as lexemes, min(c.found) as found
    from (
      select term.lexeme, count(*) filter (where strpos(t.body, term.text) > 0) as found
      from unnest(${terms.map(({ text }) => text)}::text[], ${lexemes}::text[]) with ordinality as term (text, lexeme, place)
        left join (
          select t.body from generate_series(1, ${SAMPLED}) as i
            join payment_texts t on t.owner = (select number from o) and t.sequence = ${below}::bigint * i / ${SAMPLED + 1}
        ) as t on true
      group by term.place, term.lexeme order by found, term.place limit ${MOST_TERMS}) as c`;
}
