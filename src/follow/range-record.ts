/** Reads the blocks in which sources name transfers, proves them, and records what they pay together with the new anchor. */
import { type BlockRef, ChainError, type RangeBlock } from '#chains';
import { COIN, type Coin, coinsBeside } from '#core/coin';
import { VERIFIERS, type Verifier } from '#core/payment';
import type { Tx } from '#db';
import { queueProcessing } from '#settling';
import { type Anchor, moveUp } from './anchors.ts';
import { agreedAnswer, agreedAt, answersOf, isSameRef, type VotingSource, verifierOf } from './range-votes.ts';
import { writeBounded } from './record-block.ts';
import { type OwnedSighting, readWaiting, type WaitingTransaction, writeConflicts, writePresence, writeSightings } from './sightings.ts';
import { type ChainWatch, sortSightings } from './watching.ts';

/** Blocks in one request for their headers. */
const HEIGHTS_AT_ONCE = 50;

/** A block that all voting sources have, with what it pays. */
export type Hit = {
  ref: BlockRef;
  verifiedBy: Verifier | null;
  txids: ReadonlySet<string>;
  sightings: ReturnType<RangeBlock['sightings']>;
};

/**
 * Blocks with transfers, lowest first. Whatever a source named, only the blocks that the voting sources have at these heights are read, and
 * only what their receipts contain counts. `known`: those that were recorded before, which are read only at the heights in `again`.
 * Errors: LeftOut, Disagreement, ChainError.
 */
export async function readHits(
  watching: ChainWatch,
  voting: readonly VotingSource[],
  { named, known, again }: { named: ReadonlyMap<number, ReadonlySet<string>>; known: ReadonlySet<string>; again: ReadonlySet<number> },
): Promise<Hit[]> {
  const verifiedBy = verifierOf(voting);
  const heights = [...named]
    .filter(([height, hashes]) => again.has(height) || [...hashes].some((hash) => !isKnown(known, hash, verifiedBy)))
    .map(([height]) => height)
    .sort((a, b) => a - b);
  const hits: Hit[] = [];
  for (let i = 0; i < heights.length; i += HEIGHTS_AT_ONCE) {
    const part = heights.slice(i, i + HEIGHTS_AT_ONCE);
    for (const [n, ref] of (await agreedAt(voting, part)).entries()) {
      if (!ref) throw new ChainError('outage', `no source shows block ${part[n]} now`);
      if (!again.has(ref.height) && isKnown(known, ref.hash, verifiedBy)) continue;
      const block = await readBlock(voting, ref);
      hits.push({ ref, verifiedBy, txids: block.txids, sightings: block.sightings(watching.keys) });
    }
  }
  return hits;
}
export const knownAs = (hash: string, verifiedBy: Verifier | null): string => `${hash} ${verifiedBy}`;
/** What is verified needs no reading by a source that is alone. */
const isKnown = (known: ReadonlySet<string>, hash: string, verifiedBy: Verifier | null): boolean =>
  known.has(knownAs(hash, verifiedBy)) || (verifiedBy === null && VERIFIERS.some((verifier) => known.has(knownAs(hash, verifier))));

/**
 * A block that the sources have, from the first one whose receipts fit it; the others must show the same header and name the same
 * transactions. Errors: LeftOut, Disagreement, ChainError.
 */
async function readBlock(voting: readonly VotingSource[], ref: BlockRef): Promise<RangeBlock> {
  const { hash } = ref;
  let failure: ChainError | null = null;
  for (const { one } of voting) {
    let block: RangeBlock;
    try {
      block = await one.source.ranges.fetch(hash);
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      failure = error;
      continue;
    }
    if (!isSameRef(block.ref, ref)) {
      failure = new ChainError('unproven', `${one.name} shows block ${ref.height} with another height, parent or time`);
      continue;
    }
    // Receipts name their transactions, which the root does not cover; and a header with fields of its own does not prove its root.
    const shown = await answersOf(
      voting.map(
        (other) => [other.one, other.one === one ? Promise.resolve(block.identity) : other.one.source.ranges.identity(hash)] as const,
      ),
    );
    agreedAnswer(voting, shown, { isSame: (a, b) => a === b, about: `show different transactions in block ${ref.height}` });
    return block;
  }
  throw failure ?? new ChainError('outage', `no source has block ${hash}`);
}

/** Blocks with transfers that only one source has shown, lowest first. */
export async function readUnverified({ ctx, coin }: ChainWatch): Promise<{ height: number; hash: string }[]> {
  const rows = await ctx.db.sql<{ height: bigint; hash: string }[]>`
    select distinct block_height as height, block_hash as hash from transfers
    where coin = any(${coinsBeside(coin)}::text[]) and kind = 'token' and block_height is not null and verified_by is null order by 1 limit ${HEIGHTS_AT_ONCE}`;
  return rows.map(({ height, hash }) => ({ height: Number(height), hash }));
}

type Refuted = { paymentId: string; coin: Coin; ref: string };
/** Transfers that one source alone showed in these blocks, and that the verified blocks at their heights do not contain. */
async function readRefuted({ ctx, coin }: ChainWatch, hashes: readonly string[], found: readonly OwnedSighting[]): Promise<Refuted[]> {
  if (hashes.length === 0) return [];
  const refs = new Set(found.map((s) => `${s.owner.paymentId} ${s.coin} ${s.ref}`));
  const rows = await ctx.db.sql<Refuted[]>`
    select payment_id as "paymentId", coin, ref from transfers
    where coin = any(${coinsBeside(coin)}::text[]) and kind = 'token' and block_hash = any(${hashes}::text[]) and verified_by is null`;
  return rows.filter((row) => !refs.has(`${row.paymentId} ${row.coin} ${row.ref}`));
}

/** What was recorded of a native coin on the word of one source, in place of which verified transfers are recorded now. */
async function readReplaced({ ctx }: ChainWatch, replaces: RangeStep['replaces'], found: readonly OwnedSighting[]): Promise<Refuted[]> {
  if (!replaces) return [];
  const refs = new Set(found.map((s) => `${s.owner.paymentId} ${s.coin} ${s.ref}`));
  const rows = await ctx.db.sql<Refuted[]>`
    select t.payment_id as "paymentId", t.coin, t.ref from deposit_addresses d join transfers t on t.payment_id = d.payment_id
    where d.family = ${COIN[replaces.coin].family} and d.key = ${replaces.key} and t.coin = ${replaces.coin}
      and t.block_height is not null and t.verified_by is null`;
  return rows.filter((row) => !refs.has(`${row.paymentId} ${row.coin} ${row.ref}`));
}

/**
 * Without transfers that nobody vouches for and that were verified in a block before: a source that is alone cannot move them. Blocks that
 * a reorganization takes back leave nothing verified.
 */
async function withoutVerified<T extends { hit: Hit; sightings: readonly OwnedSighting[] }>(
  { ctx, coin }: ChainWatch,
  sorted: readonly T[],
): Promise<T[]> {
  const nameOf = (paymentId: string, of: Coin, ref: string): string => `${paymentId} ${of} ${ref}`;
  const claimed = sorted.flatMap(({ hit, sightings }) => (hit.verifiedBy === null ? sightings : []));
  if (claimed.length === 0) return [...sorted];
  const rows = await ctx.db.sql<Refuted[]>`
    select t.payment_id as "paymentId", t.coin, t.ref from transfers t
    join jsonb_to_recordset(${ctx.db.sql.json(claimed.map(({ owner, ref }) => ({ id: owner.paymentId, ref })))}) as r (id text, ref text)
      on t.payment_id = r.id and t.ref = r.ref
    where t.coin = any(${coinsBeside(coin)}::text[]) and t.block_height is not null and t.verified_by is not null`;
  const verified = new Set(rows.map((row) => nameOf(row.paymentId, row.coin, row.ref)));
  return sorted.map((one) =>
    one.hit.verifiedBy === null
      ? { ...one, sightings: one.sightings.filter((s) => !verified.has(nameOf(s.owner.paymentId, s.coin, s.ref))) }
      : one,
  );
}

/** Everything that one round writes. */
type RangeStep = {
  cursor: Anchor;
  to: Anchor;
  /** Blocks between them that become anchors too. */
  between: readonly Anchor[];
  hits: readonly Hit[];
  /** Blocks that one source alone showed, and that are not on the chain. */
  vanished: readonly string[];
  /** Transactions in no block that a source still knows; null when none was asked. */
  present: ReadonlySet<string> | null;
  /** An account with verified transfers of a native coin among the hits, which replace unverified ones. */
  replaces?: { coin: Coin; key: string } | null;
  progress: ReadonlyMap<string, number>;
  queue: boolean;
};

const writeProgress = (tx: Tx, coin: Coin, progress: ReadonlyMap<string, number>) => tx`
  insert into range_reads (chain, source, height)
  select ${COIN[coin].chain}, r.source, r.height
  from jsonb_to_recordset(${tx.json([...progress].map(([source, height]) => ({ source, height })))}) as r (source text, height bigint)
  on conflict (chain, source) do update set height = excluded.height`;

type Lost = { gone: string[]; back: string[]; refuted: { txid: string; height: number }[]; ids: string[] };
/**
 * What becomes of transactions in no block, after everything up to the anchor was read. `refuted`: a verified block has the transaction,
 * so the transfers that this block does not show do not exist.
 */
async function readLost(
  watching: ChainWatch,
  { hits, present }: Pick<RangeStep, 'hits' | 'present'>,
  found: readonly OwnedSighting[],
): Promise<Lost> {
  const { ctx, coin } = watching;
  const seen = new Set(found.map(({ txid }) => txid));
  const waiting = await readWaiting(ctx.db.sql, coin);
  const refuted = hits.flatMap(({ ref, verifiedBy, txids }) =>
    verifiedBy === null ? [] : waiting.flatMap(({ txid }) => (txids.has(txid) ? [{ txid, height: ref.height }] : [])),
  );
  const mined = new Set(refuted.map(({ txid }) => txid));
  const isOut = ({ txid }: WaitingTransaction): boolean => present !== null && !seen.has(txid) && !mined.has(txid);
  const gone = waiting.filter((row) => isOut(row) && !row.absent && !present!.has(row.txid)).map(({ txid }) => txid);
  const back = waiting.filter((row) => isOut(row) && row.doubted && present!.has(row.txid)).map(({ txid }) => txid);
  const changed = [...gone, ...back, ...mined];
  if (changed.length === 0) return { gone, back, refuted, ids: [] };
  const rows = await ctx.db.sql<{ id: string }[]>`
    select distinct payment_id as id from transfers
    where coin = any(${coinsBeside(coin)}::text[]) and txid = any(${changed}::text[]) and block_height is null`;
  return { gone, back, refuted, ids: rows.map(({ id }) => id) };
}

/** Records facts, anchor and progress in one transaction. Errors: CursorMoved. */
export async function recordRange(
  watching: ChainWatch,
  { cursor, to, between, hits, vanished, present, replaces, progress, queue }: RangeStep,
): Promise<void> {
  const { ctx, coin, spares } = watching;
  const seenAt = ctx.clock.now();
  const read = await Promise.all(hits.map(async (hit) => ({ hit, ...(await sortSightings(watching, hit.sightings)) })));
  const sorted = await withoutVerified(watching, read);
  const all = sorted.flatMap(({ sightings }) => sightings);
  const strays = sorted.flatMap((one) => one.strays);
  const lost = await readLost(watching, { hits, present }, all);
  const verified = hits.flatMap(({ ref, verifiedBy }) => (verifiedBy === null ? [] : [ref.hash]));
  const replaced = await readReplaced(watching, replaces, all);
  const refuted = [...(await readRefuted(watching, [...verified, ...vanished], all)), ...replaced];
  const ids = [...new Set([...all.map((s) => s.owner.paymentId), ...lost.ids, ...refuted.map((row) => row.paymentId)])];
  const recorded = await writeBounded(ctx, { coin, height: to.height, transfers: all.length }, async (tx, { atOnce, lockAndSettle }) => {
    let told: typeof strays = [];
    await lockAndSettle(tx, ids, async () => {
      told = await spares.record(tx, strays, seenAt);
      await moveUp(tx, coin, { from: cursor, between, to });
      await writeProgress(tx, coin, progress);
      if (refuted.length > 0)
        await tx`
          delete from transfers t using jsonb_to_recordset(${tx.json(refuted)}) as r ("paymentId" text, coin text, ref text)
          where t.payment_id = r."paymentId" and t.coin = r.coin and t.ref = r.ref and t.verified_by is null`;
      for (const { hit, sightings } of sorted)
        await writeSightings(tx, sightings, {
          ...{ coin, seenAt, atOnce, inherited: () => null, certainThrough: null },
          block: { ...hit.ref, verifiedBy: hit.verifiedBy },
        });
      await writePresence(tx, { coin, paymentIds: ids, gone: lost.gone, back: lost.back });
      for (const { txid, height } of lost.refuted) await writeConflicts(tx, [{ txid, by: txid }], { coin, paymentIds: ids, height });
      if (queue) await queueProcessing(tx, { coin, except: ids });
    });
    return told;
  });
  spares.tell(recorded);
}
