/** The chain-health guard: compares the sources of a coin and judges its chain before anything completes on it. */
import { ChainError, type ChainHealth, type ChainSource, type JoinedSource, type SourceState } from '#chains';
import type { Context } from '#context';
import { type Coin, chainCode, chainOf, coinsBeside, isToken, kindOf } from '#core/coin';
import { isBinding, judgeChain, judgeQuorum, type SourceVote, type Voter } from '#core/guard';
import { lockAndSettle } from '#settling';
import type { Cursor } from './cursor.ts';
import { createAgreement, createRecord, describeSources, type Evidence, lowestAgreed } from './judgement.ts';

/** There is one more block than there are intervals. */
const BLOCKS_JUDGED = 13;

/**
 * What the guard just found. `behind`: another source has blocks that the followed one lacks. `health`: what the followed source
 * reported about itself, after `since` by the database's clock; null when it has no vote. `progress`: what must be read before any block,
 * such as headers; null when nothing.
 */
export type GuardRound = { behind: boolean; health: ChainHealth | null; since: Date; progress?: string | null };

type Guard = {
  readonly ctx: Context;
  readonly chain: JoinedSource;
  readonly binding: boolean;
  readonly evidenceOf: ReturnType<typeof createAgreement>;
  readonly writeDisputes: ReturnType<typeof createDisputes>;
  readonly vouch: ReturnType<typeof createVouching>;
  readonly record: ReturnType<typeof createRecord>;
  readonly compared: Comparisons;
  survey: readonly SourceState[];
  /** The hash of the cursor that was judged last. */
  judged: string;
};

/**
 * One guard per coin, run by its follower. Its functions throw only for database errors, never because of a source. `check` asks the
 * sources and judges the chain. `agree` compares what was read since then with what the sources showed.
 */
export function createGuard(
  ctx: Context,
  chain: JoinedSource,
  { binding = isBinding(chain.network) }: { binding?: boolean } = {},
): { check(): Promise<GuardRound>; agree(): Promise<void> } {
  const guard: Guard = {
    ctx,
    chain,
    binding,
    evidenceOf: createAgreement(ctx, chain),
    writeDisputes: createDisputes(ctx, chain),
    vouch: createVouching(ctx, chain),
    record: createRecord(ctx, { coin: chain.coin, binding }),
    compared: new Map(),
    survey: [],
    judged: '',
  };
  return { check: () => check(guard), agree: () => agree(guard) };
}

async function check(guard: Guard): Promise<GuardRound> {
  const { ctx, chain, binding } = guard;
  const [now] = await ctx.db.sql<{ since: Date }[]>`select clock_timestamp() as since`;
  await chain.requireProof();
  guard.survey = await chain.survey();
  await judge(guard);
  const { survey } = guard;
  return {
    since: now!.since,
    health: followedOf(survey)?.health ?? null,
    behind: binding && isBehind(chain.coin, survey),
    progress: survey.find((state) => state.followed)?.health?.progress ?? null,
  };
}

async function agree(guard: Guard): Promise<void> {
  const { ctx, chain, survey } = guard;
  if (survey.length < 2) return;
  const [now] = await ctx.db.sql<{ hash: string }[]>`select hash from tips where chain = ${chainCode(chain.coin)}`;
  if (now && now.hash !== guard.judged) await judge(guard);
}

/** Applies the rules of core/guard to the last survey and to the blocks that were read, and stores what follows. */
async function judge(guard: Guard): Promise<void> {
  const { ctx, chain, survey, binding, compared } = guard;
  const { coin } = chain;
  const seen = await readSeen(ctx, coin);
  const { cursor } = seen;
  const evidence = survey.length > 1 && cursor ? await readEvidence(guard, cursor) : null;
  // Before anything is released, so that a payment completes with what vouches for it.
  if (evidence && cursor) await guard.vouch(evidence, cursor);
  const work = cursor ? (chain.provenWork(cursor.hash)?.holds ?? []) : [];
  const reasons = judgeChain({ coin, votes: await readVotes(compared, coin, survey), work, ...seen });
  const followed = followedOf(survey);
  const voterOf = ({ name, trust, state }: SourceState): Voter => ({ name, trust, votes: state === 'ok' });
  const quorum = judgeQuorum(survey.map(voterOf), followed ? voterOf(followed) : null, ctx.settings.quorumAboveUsdCents);
  await guard.record({
    sources: describeSources(survey, evidence),
    reasons: quorum.hold ? [...reasons, quorum.hold] : reasons,
    quorum,
    agreed: evidence && lowestAgreed(evidence.values()),
  });
  if (binding && evidence && cursor) {
    await guard.writeDisputes(
      [...evidence].map(([voter, shown]) => ({ voter, evidence: shown })),
      cursor,
    );
  }
  guard.judged = cursor?.hash ?? '';
}

type Seen = {
  /** Null: nothing was read yet. */
  cursor: Cursor | null;
  height: number;
  blockTimes: readonly Date[];
  reorg: { depth: number; height: number } | null;
  now: Date;
};

/** What was read of the chain: its last block, the times of the newest blocks, and the last deep reorganization. */
async function readSeen(ctx: Context, coin: Coin): Promise<Seen> {
  const [seen] = await ctx.db.sql<
    { height: bigint; hash: string; times: Date[] | null; depth: number | null; reorgHeight: bigint | null; now: Date }[]
  >`
    select t.height, t.hash, g.reorg_depth as depth, g.reorg_height as "reorgHeight", clock_timestamp() as now,
      (select array_agg(b.time order by b.height desc) from (
        select time, height from blocks where chain = ${chainCode(coin)} order by height desc limit ${BLOCKS_JUDGED}) as b) as times
    from tips t left join chain_guard g on g.chain = t.chain where t.chain = ${chainCode(coin)}`;
  if (!seen) return { cursor: null, height: 0, blockTimes: [], reorg: null, now: ctx.clock.now() };
  const { hash, times, depth, reorgHeight, now } = seen;
  const height = Number(seen.height);
  const reorg = depth === null ? null : { depth, height: Number(reorgHeight) };
  return { cursor: { height, hash }, height, blockTimes: times ?? [], reorg, now };
}

/** How far each voting source shows the blocks that were read. */
async function readEvidence({ survey, evidenceOf }: Guard, cursor: Cursor): Promise<Map<SourceState, Evidence>> {
  const evidence = new Map<SourceState, Evidence>();
  for (const voter of survey) if (voter.state === 'ok') evidence.set(voter, await evidenceOf(voter, cursor));
  return evidence;
}

// Completed payments in blocks that a source's chain lacks: their transfers are marked, and unmarked when the source has the blocks.

/** A source may learn of a block, or of a reorganization, a moment later than the followed one. */
const PATIENCE_MS = 30_000;
/** Transfers checked in one round; more wait for the next. */
const AT_ONCE = 500;

/** Blocks above `above` up to `upTo` are disputed. */
type Range = { above: number; upTo: number };
type Testimony = readonly { voter: Pick<SourceState, 'trust' | 'health' | 'source'>; evidence: Evidence }[];

/**
 * Which of the blocks that were read each voting source disputes: those above its last common block, if it has other blocks in their
 * place or is only a few blocks behind. A third-party source cannot dispute a block that one of the operator's own sources has.
 */
export function findDisputes(coin: Coin, seen: Testimony, cursor: { height: number }): Map<ChainSource, Range> {
  const { agreeWithin, maxReorg } = chainOf(coin);
  const heights = (own: boolean) =>
    seen.flatMap(({ voter, evidence }) => (own === (voter.trust === 'own') ? [evidence.through?.height ?? -1] : []));
  const ownHas = Math.max(-1, ...heights(true));
  const found = new Map<ChainSource, Range>();
  for (const { voter, evidence } of seen) {
    const has = evidence.through?.height ?? -1;
    // A source that never showed any of it gives no answer.
    if (!evidence.contradicts && evidence.through === null) continue;
    const above = Math.max(voter.trust === 'own' ? has : Math.max(has, ownHas), cursor.height - maxReorg);
    const upTo = evidence.contradicts ? cursor.height : Math.min(cursor.height, voter.health!.tip.height + agreeWithin);
    if (above < upTo) found.set(voter.source, { above, upTo });
  }
  return found;
}

/** One per coin. Remembers since when each source disputes blocks. Call it with what all voting sources show now. */
function createDisputes(ctx: Context, { coin }: { coin: Coin }): (seen: Testimony, cursor: { height: number }) => Promise<void> {
  const since = new Map<ChainSource, number>();
  let mayBeStored = true;

  return async (seen, cursor) => {
    const found = findDisputes(coin, seen, cursor);
    const nowMs = ctx.clock.monotonicMs();
    for (const source of since.keys()) if (!found.has(source)) since.delete(source);
    const ranges: Range[] = [];
    for (const [source, range] of found) {
      if (!since.has(source)) since.set(source, nowMs);
      if (nowMs - since.get(source)! >= PATIENCE_MS) ranges.push(range);
    }
    if (ranges.length === 0 && !mayBeStored) return;
    // An unreachable source neither confirms nor clears a dispute: without any vote, all disputes stay.
    if (seen.length === 0) return;
    mayBeStored = await write(ranges);
  };

  /** Marks and unmarks transfers of completed payments. Returns whether any is marked now, or might be. */
  async function write(ranges: readonly Range[]): Promise<boolean> {
    const { sql } = ctx.db;
    const within = sql`exists (
      select 1 from jsonb_to_recordset(${sql.json(ranges as never)}) as r (above bigint, "upTo" bigint)
      where t.block_height > r.above and t.block_height <= r."upTo")`;
    const coins = coinsBeside(coin);
    const lowest = Math.min(...ranges.map(({ above }) => above));
    const rows = await sql<{ paymentId: string; coin: Coin; ref: string; disputed: boolean }[]>`
      select t.payment_id as "paymentId", t.coin, t.ref, false as disputed from transfers t
      where t.coin = any(${coins}::text[]) and t.disputed_since is not null and not ${within}
      union all
      select * from (
        select t.payment_id, t.coin, t.ref, true from transfers t join payments p on p.id = t.payment_id
        where t.coin = any(${coins}::text[]) and t.block_height > ${Number.isFinite(lowest) ? lowest : null}::bigint and t.disputed_since is null
          and p.mode = 'live' and p.status = 'completed' and ${within}) as fresh
      limit ${AT_ONCE}`;
    if (rows.length > 0) {
      const ids = rows.map((row) => row.paymentId);
      await ctx.db.begin((tx) =>
        lockAndSettle(ctx, tx, ids, async () => {
          await tx`
            update transfers t set disputed_since = case when r.disputed and t.block_height is not null then clock_timestamp() end
            from jsonb_to_recordset(${tx.json(rows as never)}) as r ("paymentId" text, coin text, ref text, disputed boolean)
            where t.payment_id = r."paymentId" and t.coin = r.coin and t.ref = r.ref`;
        }),
      );
      const marked = rows.filter((row) => row.disputed).length;
      if (marked > 0) ctx.log.warn({ coin, transfers: marked }, 'A source shows the chain without blocks that contain completed payments');
    }
    return ranges.length > 0 || rows.length === AT_ONCE;
  }
}

// The votes of the sources of a coin: whether each shows the chain that is followed.

/** What was found for the tips of two sources, so that nothing is asked again while neither moves. */
export type Comparisons = Map<ChainSource, { tips: string; agrees: boolean }>;

/** The source that is followed, if it can vote. */
const followedOf = (survey: readonly SourceState[]): SourceState | undefined =>
  survey.find((state) => state.followed && state.state === 'ok');

/**
 * Whether two sources show one chain: close in height, and equal except for the last few blocks. Null: unknown now. A source that does not
 * have the block that is compared is behind: it contradicts nothing.
 */
async function showSameChain(compared: Comparisons, coin: Coin, one: SourceState, other: SourceState): Promise<boolean | null> {
  const within = chainOf(coin).agreeWithin;
  const [a, b] = [one.health!.tip, other.health!.tip];
  if (a.hash === b.hash) return true;
  if (Math.abs(a.height - b.height) > within) return false;
  const tips = `${a.hash} ${b.hash}`;
  const before = compared.get(other.source);
  if (before?.tips === tips) return before.agrees;
  const at = Math.max(0, Math.min(a.height, b.height) - within);
  try {
    const [here, there] = await Promise.all([one.source.blockAt(at), other.source.blockAt(at)]);
    if (here === null || there === null) return null;
    const agrees = here.hash === there.hash;
    compared.set(other.source, { tips, agrees });
    return agrees;
  } catch (error) {
    if (error instanceof ChainError) return null;
    throw error;
  }
}

/** The votes of all sources that are available; those whose chain is unknown now do not vote. */
export async function readVotes(compared: Comparisons, coin: Coin, survey: readonly SourceState[]): Promise<SourceVote[]> {
  const followed = followedOf(survey);
  const votes: SourceVote[] = [];
  for (const voter of survey) {
    if (voter.state !== 'ok') continue;
    const agrees = !followed || voter === followed ? true : await showSameChain(compared, coin, followed, voter);
    if (agrees !== null) votes.push({ version: voter.trust === 'own' ? voter.health!.version : 0, agrees });
  }
  return votes;
}

/** Whether another source has blocks that the followed one lacks, so that unseen payments may exist there. */
export function isBehind(coin: Coin, survey: readonly SourceState[]): boolean {
  const followed = followedOf(survey);
  const highest = Math.max(...survey.map((state) => (state.state === 'ok' ? state.health!.tip.height : 0)));
  return followed !== undefined && highest > followed.health!.tip.height + chainOf(coin).agreeWithin;
}

// Transfers in blocks that a source of others showed and the operator's own node has: the node vouches for them.

/** Blocks below the cursor that are checked first: those of a day. */
const BLOCKS_AT_START = 7_200;
/** Transfers written in one round; more wait for the next. */
const VOUCHED_AT_ONCE = 500;

type EvidenceBySource = ReadonlyMap<SourceState, Evidence>;

/**
 * One per coin. Call it with what all voting sources show now. Only for Ethereum, whose blocks are checked against their hash: a node that
 * has the hash has the same transfers.
 */
function createVouching(ctx: Context, { coin }: { coin: Coin }): (seen: EvidenceBySource, cursor: { height: number }) => Promise<void> {
  let through: number | null = null;
  let asked = '';
  return async (seen, cursor) => {
    if (kindOf(coin) !== 'ethereum' || isToken(coin)) return;
    const [own] = [...seen]
      .flatMap(([{ trust }, evidence]) => (trust === 'own' && evidence.through ? [evidence.through] : []))
      .toSorted((a, b) => b.height - a.height);
    if (!own || own.hash === asked) return;
    const from = through === null ? cursor.height - BLOCKS_AT_START : Math.min(through, own.height) - chainOf(coin).maxReorg;
    const isAll = await vouch(ctx, coin, { from, upTo: own.height });
    if (!isAll) return;
    through = own.height;
    asked = own.hash;
  };
}

/** Whether all of them are written. */
async function vouch(ctx: Context, coin: Coin, { from, upTo }: { from: number; upTo: number }): Promise<boolean> {
  const rows = await ctx.db.sql<{ paymentId: string; coin: Coin; ref: string; hash: string }[]>`
    select t.payment_id as "paymentId", t.coin, t.ref, t.block_hash as hash from transfers t join payments p on p.id = t.payment_id
    where t.coin = any(${coinsBeside(coin)}::text[]) and t.block_height > ${from} and t.block_height <= ${upTo} and t.verified_by is null
      and p.mode = 'live'
    limit ${VOUCHED_AT_ONCE}`;
  if (rows.length === 0) return true;
  await ctx.db.begin((tx) =>
    lockAndSettle(
      ctx,
      tx,
      rows.map(({ paymentId }) => paymentId),
      async () => {
        // Only in the block that the node has: a reorganization may have moved it since.
        await tx`
          update transfers t set verified_by = 'node'
          from jsonb_to_recordset(${tx.json(rows)}) as r ("paymentId" text, coin text, ref text, hash text)
          where t.payment_id = r."paymentId" and t.coin = r.coin and t.ref = r.ref and t.block_hash = r.hash`;
      },
    ),
  );

  return rows.length < VOUCHED_AT_ONCE;
}
