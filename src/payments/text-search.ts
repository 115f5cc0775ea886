/** Which payments contain a text, newest first: from the texts of the newest ones, then from the index, segment by segment. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import type { Fragment, Sql } from '../db/db.ts';
import { plainText, readTexts, type TextField } from './texts.ts';

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
export function plainQuery(text: string): string {
  const plain = plainText(text).replace(/^[#$€£¥]\s*/, '');
  return /^\d{1,3}(,\d{3})+(\.\d+)?( [a-z]{3,4})?$/.test(plain) ? plain.replaceAll(',', '') : plain;
}

/** Where the payment contains the text; null when that has changed in the meantime. */
export const matchIn = (fields: readonly TextField[], query: string): TextField | null =>
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

export type Matches = {
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
