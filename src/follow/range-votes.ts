/**
 * What counts when the sources of a round answer differently or not at all. Your own node decides, or else at least two that give the same
 * answer; a source that contradicts them, or that fails, is left out of the round, and the others continue.
 */
import { type BlockRef, ChainError, type NamedSource, type RangeReader } from '#chains';
import type { Anchor } from './anchors.ts';

export type RangeSource = NamedSource & { source: { ranges: RangeReader } };
/** The state of a source in this round. Only one that is `ok` has a vote. */
export type View = {
  one: RangeSource;
  state: 'ok' | 'behind' | 'down' | 'wrong_network' | 'unproven';
  reason: string | null;
  head: BlockRef | null;
};
export type VotingSource = View & { head: BlockRef };

/** The sources do not agree on a block, and none has more right than another, so nothing is read until they do. */
export class Disagreement extends Error {}

/** These sources have no vote in this round, which starts again without them. */
export class LeftOut extends Error {
  readonly sources: readonly RangeSource[];
  readonly state: 'down' | 'unproven';
  /** What to report when no other source is left. */
  override readonly cause: ChainError | Disagreement;
  constructor(sources: readonly RangeSource[], state: LeftOut['state'], cause: LeftOut['cause']) {
    super(cause.message, { cause });
    this.sources = sources;
    this.state = state;
    this.cause = cause;
  }
}

export const votingOf = (views: readonly View[]): VotingSource[] =>
  views.filter((view): view is VotingSource => view.state === 'ok' && view.head !== null);

const isOwn = ({ one }: Pick<View, 'one'>): boolean => one.trust === 'own';
const namesOf = (voting: readonly Pick<View, 'one'>[]): number => new Set(voting.map(({ one }) => one.name)).size;

/** Who vouches for what the voting sources agree on: the operator's own node, or at least two others. Null: nobody yet. */
export function verifierOf(voting: readonly VotingSource[]): 'node' | 'providers' | null {
  if (voting.some(isOwn)) return 'node';
  return namesOf(voting) > 1 ? 'providers' : null;
}

/** Your own nodes where there are any, because others may claim anything; else all. */
export function decidingOf(voting: readonly VotingSource[]): readonly VotingSource[] {
  const own = voting.filter(isOwn);
  return own.length > 0 ? own : voting;
}

/** The answer of a source. Errors: LeftOut when it fails. */
async function answerOf<T>(one: RangeSource, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ChainError) throw new LeftOut([one], 'down', error);
    throw error;
  }
}

/** The answers of sources that are asked at the same time; all of them have ended when one fails. Errors: LeftOut. */
export async function answersOf<T>(asked: readonly (readonly [one: RangeSource, answer: Promise<T>])[]): Promise<T[]> {
  const settled = await Promise.allSettled(asked.map(([one, answer]) => answerOf(one, answer)));
  return settled.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

/**
 * The answer that counts; the sources gave these, in order. `about`: what they differ in. Errors: LeftOut names those that your own node or
 * two others contradict; Disagreement when neither side has that.
 */
export function agreedAnswer<T>(
  voting: readonly VotingSource[],
  answers: readonly T[],
  { isSame, about }: { isSame: (a: T, b: T) => boolean; about: string },
): T {
  const sides: { answer: T; voters: VotingSource[] }[] = [];
  for (const [i, voter] of voting.entries()) {
    const side = sides.find(({ answer }) => isSame(answer, answers[i]!));
    if (side) side.voters.push(voter);
    else sides.push({ answer: answers[i]!, voters: [voter] });
  }
  if (sides.length === 1) return sides[0]!.answer;
  const own = sides.filter(({ voters }) => voters.some(isOwn));
  const vouched = own.length > 0 ? own : sides.filter(({ voters }) => namesOf(voters) > 1);
  const disagreement = new Disagreement(`the sources ${about}`);
  if (vouched.length !== 1) throw disagreement;
  const others = sides.filter((side) => side !== vouched[0]).flatMap(({ voters }) => voters.map(({ one }) => one));
  throw new LeftOut(others, 'unproven', disagreement);
}

/** The block that the voting sources name at each height; null where none has one. Errors: LeftOut, Disagreement. */
export async function agreedAt(voting: readonly VotingSource[], heights: readonly number[]): Promise<(BlockRef | null)[]> {
  if (heights.length === 0) return [];
  const shown = await answersOf(voting.map(({ one }) => [one, withinTime(one.source.ranges.at(heights), one.name)] as const));
  return heights.map((height, i) =>
    agreedAnswer(
      voting,
      shown.map((refs) => refs[i] ?? null),
      { isSame: isSameRef, about: `name different blocks at height ${height}` },
    ),
  );
}

/** A hash alone does not fix the others, because sources may hash fields that are not known here. */
export const isSameRef = (a: BlockRef | null, b: BlockRef | null): boolean =>
  a === null || b === null
    ? a === b
    : a.hash === b.hash && a.height === b.height && a.parent === b.parent && a.time.getTime() === b.time.getTime();

/** The block right below the lowest of their newest blocks, which the voting sources must name. Errors: LeftOut, Disagreement, ChainError. */
export async function agreedTarget(voting: readonly VotingSource[], to: number | null = null): Promise<Anchor> {
  const lowest = Math.min(...voting.map(({ head }) => head.height));
  const height = Math.max(0, to ?? lowest - 1);
  // Usually all are at the same block, which names the one below it.
  const parents = new Set(voting.map(({ head }) => (head.height === height + 1 ? head.parent : null)));
  const [parent] = parents;
  if (parents.size === 1 && parent) return { height, hash: parent };
  const [ref] = await agreedAt(voting, [height]);
  if (!ref) throw new ChainError('outage', `no source shows block ${height} yet`);
  return { height: ref.height, hash: ref.hash };
}

/** Whether an anchor is on the chain of the voting sources. Errors: LeftOut, Disagreement. */
export async function isOnChain(voting: readonly VotingSource[], anchor: Anchor): Promise<boolean> {
  const [ref] = await agreedAt(voting, [anchor.height]);
  return ref?.hash === anchor.hash;
}

/** A source that has not answered for this long is left out of the round. */
const SLOW_MS = 5_000;
/** The answer, or a failure when it takes too long. */
export async function withinTime<T>(answer: Promise<T>, name: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ChainError('outage', `${name} does not answer within ${SLOW_MS / 1000} s`)), SLOW_MS);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
