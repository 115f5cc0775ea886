/** Judges a chain that is read by ranges, before anything completes on it: who vouches for it, and whether its blocks become final. */
import type { Tagged } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { type Coin, chainCode, settingOf } from '../core/coin.ts';
import { type GuardReason, judgeAgreement, judgeChain, judgeFinality } from '../core/guard.ts';
import { describeView, type Judgement, writeJudgement } from './judgement.ts';
import { decidingOf, type View, votingOf } from './range-votes.ts';

/** An unchanged finding is written again after this long, so that its age shows that the guard is running. */
const REWRITE_MS = 30_000;

export type GuardFindings = {
  views: readonly View[];
  /** Why the sources do not agree; null when they do. */
  disagreement: string | null;
  /** Whether the sources have the newest block that was read. Without that nothing is released: one source alone may have shown it. */
  hasCursor: boolean;
};

/** One guard for each chain, run by its follower. */
export function createRangeGuard(ctx: Context, { coin, binding }: { coin: Coin; binding: boolean }) {
  let written = '';
  let writtenAtMs = Number.NEGATIVE_INFINITY;
  /** Judged when final blocks are read: while no payment is open they are not, and then only the last answer gets older. */
  let lag: GuardReason | null = null;

  const readReorg = async (): Promise<{ depth: number; height: number } | null> => {
    const [row] = await ctx.db.sql<{ depth: number | null; height: bigint | null }[]>`
      select reorg_depth as depth, reorg_height as height from chain_guard where chain = ${chainCode(coin)}`;
    return row?.depth == null ? null : { depth: row.depth, height: Number(row.height) };
  };

  return {
    isLagging: (): boolean => lag !== null,
    /** What the sources just called final. */
    sees: ({ finalized }: Tagged): void => {
      lag = finalized && judgeFinality(coin, { finalAt: finalized.time, now: ctx.clock.now() });
    },
    judge: async ({ views, disagreement, hasCursor }: GuardFindings, height: number): Promise<void> => {
      const now = ctx.clock.now();
      const voting = votingOf(views);
      const [newest] = decidingOf(voting)
        .map(({ head }) => head.time)
        .sort((a, b) => b.getTime() - a.getTime());
      const votes = voting.map(() => ({ version: 0, agrees: true }));
      const blockTimes = newest ? [newest] : [];
      const quorum = judgeAgreement(
        views.map(({ one, state }) => ({ name: one.name, trust: one.trust, votes: state === 'ok' })),
        { quorumAboveUsdCents: ctx.settings.quorumAboveUsdCents, setting: `${settingOf(coin)}_TRUST` },
      );
      const reasons: GuardReason[] = [
        ...(disagreement === null ? [] : [{ code: 'disagreement' as const, text: `${disagreement}; nothing is read until they agree` }]),
        ...judgeChain({ coin, votes, height, blockTimes, now, reorg: await readReorg(), work: [] }),
        ...(lag === null ? [] : [lag]),
        ...(quorum.hold === null ? [] : [quorum.hold]),
      ];
      if (!hasCursor && reasons.length === 0) return;
      const judgement: Judgement = { sources: views.map(describeView), reasons, quorum, agreed: 'cursor' };
      const found = JSON.stringify([reasons, quorum, views.map(({ state, reason }) => [state, reason])]);
      if (found === written && ctx.clock.monotonicMs() - writtenAtMs < REWRITE_MS) return;
      await writeJudgement(ctx, { coin, binding }, judgement);
      written = found;
      writtenAtMs = ctx.clock.monotonicMs();
    },
  };
}
