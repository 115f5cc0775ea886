/** Which sources of a chain that is read by ranges can be asked in a round. */
import { type Chain, ChainError } from '../chains/chain.ts';
import { type Coin, chainOf } from '../core/coin.ts';
import { type LeftOut, type Readable, type View, type Voting, votingOf, withinTime } from './range-votes.ts';

/** No block is from the future, except for clocks that differ. */
const FUTURE_MS = 120_000;
/** How long a source is known to be on the right chain. */
const ORIGIN_FRESH_MS = 600_000;
/** How long a source that was left out of a round is not asked again. */
const LEFT_OUT_MS = 10_000;

export const readableSources = (chain: Chain): Readable[] =>
  chain.sources.filter((one): one is Readable => one.source.ranges !== undefined);

export type RangeLook = ReturnType<typeof createLook>;
/** Asks each source for its newest block, and checks now and then that it is on the right chain. */
export function createLook(coin: Coin, { now, monotonicMs }: { now(): Date; monotonicMs(): number }) {
  const origins = new Map<Readable, number>();
  const out = new Map<Readable, { view: View; atMs: number }>();
  const lookAt = async (one: Readable): Promise<View> => {
    const before = out.get(one);
    if (before && monotonicMs() - before.atMs < LEFT_OUT_MS) return before.view;
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
  return {
    all: async (sources: readonly Readable[]): Promise<View[]> => leaveOutLagging(coin, await Promise.all(sources.map(lookAt))),
    /** The same views without the vote of sources that fail, or that are contradicted. */
    leaveOut: (views: readonly View[], { sources, state, cause }: LeftOut): View[] =>
      views.map((view) => {
        if (!sources.includes(view.one)) return view;
        const reason = state === 'down' ? cause.message : `${view.one.name} contradicts the sources that count: ${cause.message}`;
        const left: View = { ...view, state, reason };
        out.set(view.one, { view: left, atMs: monotonicMs() });
        return left;
      }),
  };
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
