/** What the sources of a chain show that is read by ranges: which can be asked, and which blocks they agree on. */
import { type BlockRef, type Chain, ChainError, type NamedSource, type RangeReader } from '../chains/chain.ts';
import { type Coin, chainOf } from '../core/coin.ts';
import type { Anchor } from './anchors.ts';

/** A source that has not answered for this long is left out of the round. */
const SLOW_MS = 5_000;
/** No block is from the future, except for clocks that differ. */
const FUTURE_MS = 120_000;
/** How long a source is known to be on the right chain. */
const ORIGIN_FRESH_MS = 600_000;

export type Readable = NamedSource & { source: { ranges: RangeReader } };
export const readableSources = (chain: Chain): Readable[] =>
  chain.sources.filter((one): one is Readable => one.source.ranges !== undefined);

/** The state of a source in this round. Only one that is `ok` has a vote. */
export type View = {
  one: Readable;
  state: 'ok' | 'behind' | 'down' | 'wrong_network' | 'unproven';
  reason: string | null;
  head: BlockRef | null;
};
export type Voting = View & { head: BlockRef };

/** The sources do not agree on a block, so nothing is read until they do. */
export class Disagreement extends Error {}

/** The answer, or a failure when it takes too long. */
async function withinTime<T>(answer: Promise<T>, name: string): Promise<T> {
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

/** Asks each source for its newest block, and checks now and then that it is on the right chain. */
export function createLook(coin: Coin, { now, monotonicMs }: { now(): Date; monotonicMs(): number }) {
  const origins = new Map<Readable, number>();
  const lookAt = async (one: Readable): Promise<View> => {
    try {
      const checkedMs = origins.get(one);
      if (checkedMs === undefined || monotonicMs() - checkedMs > ORIGIN_FRESH_MS) {
        await withinTime(one.source.genesis(), one.name);
        origins.set(one, monotonicMs());
      }
      const head = await withinTime(one.source.ranges.head(), one.name);
      const isFuture = head.time.getTime() > now().getTime() + FUTURE_MS;
      return isFuture
        ? { one, state: 'unproven', reason: `${one.name} shows a block from the future`, head }
        : { one, state: 'ok', reason: null, head };
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      return { one, state: error.kind === 'wrong_network' ? 'wrong_network' : 'down', reason: error.message, head: null };
    }
  };
  return async (sources: readonly Readable[]): Promise<View[]> => leaveOutLagging(coin, await Promise.all(sources.map(lookAt)));
}

/** A source that is far behind has no vote, and the others continue without it. */
export function leaveOutLagging(coin: Coin, views: readonly View[]): View[] {
  const newest = believableHeight(votingOf(views));
  const { agreeWithin } = chainOf(coin);
  return views.map((view) =>
    view.state === 'ok' && view.head && view.head.height < newest - agreeWithin
      ? { ...view, state: 'behind', reason: `${view.one.name} is ${newest - view.head.height} blocks behind` }
      : view,
  );
}

/** The newest height that the operator's own node or at least two sources reached: one source alone may name any number. */
function believableHeight(voting: readonly Voting[]): number {
  const own = voting.filter(({ one }) => one.trust === 'own').map(({ head }) => head.height);
  const byName = new Map<string, number>();
  for (const { one, head } of voting) byName.set(one.name, Math.max(head.height, byName.get(one.name) ?? 0));
  const [highest = 0, second = highest] = [...byName.values()].sort((a, b) => b - a);
  return Math.max(second, ...own);
}

export const votingOf = (views: readonly View[]): Voting[] =>
  views.filter((view): view is Voting => view.state === 'ok' && view.head !== null);

/** Who vouches for what the voting sources agree on: the operator's own node, or at least two others. Null: nobody yet. */
export function verifierOf(voting: readonly Voting[]): 'node' | 'providers' | null {
  if (voting.some(({ one }) => one.trust === 'own')) return 'node';
  return new Set(voting.map(({ one }) => one.name)).size > 1 ? 'providers' : null;
}

/** The block that all voting sources name at each height; null where none has one. Errors: Disagreement, ChainError. */
export async function agreedAt(voting: readonly Voting[], heights: readonly number[]): Promise<(BlockRef | null)[]> {
  if (heights.length === 0) return [];
  const [first, ...others] = await Promise.all(voting.map(({ one }) => withinTime(one.source.ranges.at(heights), one.name)));
  return heights.map((height, i) => {
    const ref = first?.[i] ?? null;
    if (others.some((shown) => !isSameRef(shown[i] ?? null, ref)))
      throw new Disagreement(`the sources name different blocks at height ${height}`);
    return ref;
  });
}

/** A hash alone does not fix the others, because sources may hash fields that are not known here. */
export const isSameRef = (a: BlockRef | null, b: BlockRef | null): boolean =>
  a === null || b === null
    ? a === b
    : a.hash === b.hash && a.height === b.height && a.parent === b.parent && a.time.getTime() === b.time.getTime();

/** The block right below the lowest of their newest blocks, which all voting sources must name. Errors: Disagreement, ChainError. */
export async function agreedTarget(voting: readonly Voting[], to: number | null = null): Promise<Anchor> {
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

/** Whether an anchor is on the chain of the voting sources. Errors: Disagreement, ChainError. */
export async function isOnChain(voting: readonly Voting[], anchor: Anchor): Promise<boolean> {
  const [ref] = await agreedAt(voting, [anchor.height]);
  return ref?.hash === anchor.hash;
}
