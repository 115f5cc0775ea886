/** The votes of the sources of a coin: whether each shows the chain that is followed. */
import { ChainError, type ChainSource, type SourceState } from '../chains/chain.ts';
import { type Coin, chainOf } from '../core/coin.ts';
import type { SourceVote } from '../core/guard.ts';

/** What was found for the tips of two sources, so that nothing is asked again while neither moves. */
export type Comparisons = Map<ChainSource, { tips: string; agrees: boolean }>;

/** The source that is followed, if it can vote. */
export const followedOf = (survey: readonly SourceState[]): SourceState | undefined =>
  survey.find((state) => state.followed && state.state === 'ok');

/**
 * Whether two sources show one chain: close in height, and equal except for the last few blocks. Null: unknown now. A source that does not
 * have the block that is compared is behind: it contradicts nothing.
 */
export async function showSameChain(compared: Comparisons, coin: Coin, one: SourceState, other: SourceState): Promise<boolean | null> {
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
