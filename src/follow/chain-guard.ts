/** The chain-health guard: compares the sources of a coin and judges its chain before anything completes on it. */
import type { Chain, ChainHealth, SourceState } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainCode } from '../core/coin.ts';
import { isBinding, judgeChain, judgeQuorum, type Voter } from '../core/guard.ts';
import type { Cursor } from './cursor.ts';
import { createDisputes } from './disputes.ts';
import { describeSources, type Judgement, lowestAgreed, writeJudgement } from './judgement.ts';
import { createAgreement, type Evidence } from './source-agreement.ts';
import { type Comparisons, followedOf, isBehind, readVotes } from './source-votes.ts';
import { createVouching } from './vouching.ts';

/** There is one more block than there are intervals. */
const BLOCKS_JUDGED = 13;
/** An unchanged finding is rewritten after this long, so that its age shows that the guard is running. */
const REWRITE_MS = 30_000;

/**
 * What the guard just found. `behind`: another source has blocks that the followed one lacks. `health`: what the followed source
 * reported about itself, after `since` by the database's clock; null when it has no vote. `progress`: what must be read before any block,
 * such as headers; null when nothing.
 */
export type GuardRound = { behind: boolean; health: ChainHealth | null; since: Date; progress?: string | null };

type Guard = {
  readonly ctx: Context;
  readonly chain: Chain;
  readonly binding: boolean;
  readonly evidenceOf: ReturnType<typeof createAgreement>;
  readonly writeDisputes: ReturnType<typeof createDisputes>;
  readonly vouch: ReturnType<typeof createVouching>;
  readonly compared: Comparisons;
  survey: readonly SourceState[];
  /** The hash of the cursor that was judged last. */
  judged: string;
  /** The judgement that was written last, and when. */
  written: string;
  writtenAtMs: number;
};

/**
 * One guard per coin, run by its follower. Its functions throw only for database errors, never because of a source. `check` asks the
 * sources and judges the chain. `agree` compares what was read since then with what the sources showed.
 */
export function createGuard(
  ctx: Context,
  chain: Chain,
  { binding = isBinding(chain.network) }: { binding?: boolean } = {},
): { check(): Promise<GuardRound>; agree(): Promise<void> } {
  const guard: Guard = {
    ctx,
    chain,
    binding,
    evidenceOf: createAgreement(ctx, chain),
    writeDisputes: createDisputes(ctx, chain),
    vouch: createVouching(ctx, chain),
    compared: new Map(),
    survey: [],
    judged: '',
    written: '',
    writtenAtMs: Number.NEGATIVE_INFINITY,
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
  await record(guard, {
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

/** Stores a judgement when it differs from the last one, or that one is old. */
async function record(guard: Guard, judgement: Judgement): Promise<void> {
  const { ctx, chain, binding } = guard;
  const found = JSON.stringify(judgement);
  if (found === guard.written && ctx.clock.monotonicMs() - guard.writtenAtMs < REWRITE_MS) return;
  await writeJudgement(ctx, { coin: chain.coin, binding }, judgement);
  guard.written = found;
  guard.writtenAtMs = ctx.clock.monotonicMs();
}
