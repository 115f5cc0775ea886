/** Which payments contain a text, newest first: from the texts of the newest ones, then from the index, segment by segment. */
import type { Context } from '../context.ts';
import type { Mode } from '../core/coin.ts';
import type { Fragment } from '../db/db.ts';
import { plainText, readTexts, type TextField } from './texts.ts';

/** The newest payments, whose texts are compared one by one; this finds frequent texts. */
const WALK = 1_000;
/** The same for one or two characters, which the index does not cover. */
const WALK_SHORT = 5_000;
/** New payments that may have no texts yet. */
const TAIL = 200;
/** Payments that the index finds and other filters are compared with, up to the end of a segment. */
const MOST_LOOKED = 5_000;
const MOST_SEGMENTS = 1_000;
const MOST_TERMS = 16;
/** Of a payment; see payment_text_terms. */
const SEGMENT_BITS = 16n;

/** Maps amounts and numbers as people write them to the stored form: `$1,234.50` and `#10836`. */
export function plainQuery(text: string): string {
  const plain = plainText(text).replace(/^[#$€£¥]\s*/, '');
  return /^\d{1,3}(,\d{3})+(\.\d+)?( [a-z]{3,4})?$/.test(plain) ? plain.replaceAll(',', '') : plain;
}

/** Where the payment contains the text; null when that has changed in the meantime. */
export const matchIn = (fields: readonly TextField[], query: string): TextField | null =>
  fields.find(({ text }) => plainText(text).includes(query)) ?? null;

/** Terms of three bytes, spread over the text; the payments they find are compared with the full text. */
function termsOf(query: string): number[] {
  const bytes = Buffer.from(query);
  const all = [...new Set(Array.from({ length: Math.max(0, bytes.length - 2) }, (_, i) => bytes.readUIntBE(i, 3)))];
  const step = Math.max(1, all.length / MOST_TERMS);
  return Array.from({ length: Math.min(all.length, MOST_TERMS) }, (_, i) => all[Math.floor(i * step)]!);
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
  const terms = termsOf(of.query);
  const [tail, near] = await Promise.all([findInTail(ctx, of), findNear(ctx, { ...of, walk: terms.length === 0 ? WALK_SHORT : WALK })]);
  const sequences = [...new Set([...tail, ...near.sequences])].sort((a, b) => (a < b ? 1 : -1));
  if (sequences.length > of.limit || near.walkedTo === null) return { sequences: sequences.slice(0, of.limit + 1), lookedTo: null };
  if (terms.length === 0) return { sequences, lookedTo: near.walkedTo };
  const far = await findFar(ctx, { ...of, terms, below: near.walkedTo, limit: of.limit - sequences.length });
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

/** In the index, one segment after the other until there are enough. */
async function findFar(ctx: Context, of: Search & { terms: readonly number[]; below: bigint }): Promise<Matches> {
  const { sql } = ctx.db;
  const { merchantId, mode, query, others, below, limit, terms } = of;
  const newest = (below >> SEGMENT_BITS) + 1n;
  const [row] = await sql<{ segment: bigint; sequences: bigint[] }[]>`
    with recursive steps (segment, sequences, looked) as (
      select ${newest}::bigint, '{}'::bigint[], 0
      union all
      select s.segment - 1, s.sequences || n.sequences, s.looked + n.looked
      from steps s cross join (select ${ownerOf(ctx, of)} as number) as o
        cross join lateral (
          select array_agg(((((o.number::bigint << 15) | ((s.segment - 1) & 32767)) << 24) | term)) as terms
          from unnest(${[...terms]}::int[]) as term) as k
        cross join lateral (
          select coalesce(array_agg(f.sequence order by f.sequence desc) filter (where f.kept), '{}') as sequences, count(*)::int as looked
          from (
            select t.sequence, ${
              others === null
                ? sql`true`
                : sql`exists (select 1 from payments p where merchant_id = ${merchantId} and mode = ${mode} and p.sequence = t.sequence ${others})`
            } as kept
            from payment_texts t
            -- Adding 0 keeps the planner from reading all rows of the owner through the other index.
            where payment_text_terms(t.owner, t.sequence >> 16, t.body) @> k.terms and t.owner + 0 = o.number
              and t.sequence + 0 < ${below} and strpos(t.body, ${query}) > 0) as f) as n
      where s.segment > 0 and cardinality(s.sequences) <= ${limit} and s.looked < ${MOST_LOOKED} and s.segment > ${newest}::bigint - ${MOST_SEGMENTS}
    )
    select segment, sequences from steps order by segment limit 1`;
  const { segment, sequences } = row!;
  return { sequences, lookedTo: sequences.length > limit || segment === 0n ? null : segment << SEGMENT_BITS };
}
