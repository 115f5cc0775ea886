/** Searches blocks for transfers at one source, in ranges as long as it accepts, and again later, because nodes index late. */
import { ChainError, type JoinedSource, RangeRefused } from '#chains';
import { type Coin, chainOf } from '#core/coin';
import { type LeftOut, type RangeSource, type View, type VotingSource, votingOf, withinTime } from './range-votes.ts';

/** Blocks that are searched a second time. */
export const OVERLAP = 64;
/** Nodes accept this many values for a topic. */
export const ACCOUNTS_AT_ONCE = 1_000;
/** Searches in one round; more wait for the next one. */
const SEARCHES_AT_ONCE = 50;
/** Searches in one round in blocks that were searched long ago. They must not hold up the newest ones. */
const BACK_AT_ONCE = 10;
/** Failures in a row after which they are searched no further. */
const BACK_TRIES = 5;
/** Successful searches before a longer one is tried. */
const GROW_AFTER = 20;

type Range = { from: number; to: number };

/** How long the ranges are that a source is asked for. */
type Pace = {
  readonly one: RangeSource;
  /** The longest range that the source is asked for now. */
  span: number;
  readonly most: number;
  successes: number;
};
export type RangeReads = Pace & {
  /** Searched through this block; null before the first time. */
  through: number | null;
  /** Searched a second time through this block. */
  lateThrough: number;
  /** What is searched once more, from the newest block down; null: nothing. */
  back: Back | null;
  /** For the blocks to search once more, so that a source that limits old blocks is not slowed down for new ones. */
  readonly backPace: Pace;
  /** How often in a row it failed to search them. */
  backFailures: number;
  /** Why the last such search was given up; null when it was not. */
  gaveUp: string | null;
};
/** Blocks to search once more, for accounts that hold more than was recorded. */
type Back = Range & { accounts: readonly string[] };
export const createReads = (one: RangeReads['one'], most: number): RangeReads => ({
  ...{ one, most, span: most, successes: 0, through: null, lateThrough: 0, back: null },
  backPace: { one, most, span: most, successes: 0 },
  backFailures: 0,
  gaveUp: null,
});

const lengthOf = ({ from, to }: Range): number => to - from + 1;

/** Continues at a block: what lies above it is searched again. */
export function readFrom(reads: RangeReads, height: number): void {
  reads.through = reads.through === null ? height : Math.min(reads.through, height);
  reads.lateThrough = Math.min(reads.lateThrough === 0 ? height : reads.lateThrough, Math.max(0, reads.through - OVERLAP));
  recordLookedBack(reads, reads.back && { ...reads.back, to: Math.min(reads.back.to, height) });
}

/** What is left of the blocks to search once more. */
export function recordLookedBack(reads: RangeReads, left: Back | null): void {
  reads.back = left !== null && left.from <= left.to ? left : null;
}

/** How far a source can be searched in this round. */
export const reachOf = ({ through, span }: RangeReads, target: number): number =>
  Math.min(target, (through ?? target) + SEARCHES_AT_ONCE * span);

/** The ranges to search so that everything through `to` is searched, and everything through `to - OVERLAP` twice. */
function rangesOf({ through, lateThrough, span }: Pick<RangeReads, 'lateThrough' | 'span'> & { through: number }, to: number): Range[] {
  const again = { from: Math.max(0, lateThrough + 1), to: Math.min(through, to - OVERLAP) };
  const fresh = { from: Math.max(0, through + 1), to };
  // One search covers both where it may be that long.
  const both = { from: Math.max(0, Math.min(fresh.from, to - OVERLAP + 1, lateThrough + 1)), to };
  if (lengthOf(both) <= span) return lengthOf(fresh) > 0 ? [both] : [];
  return [again, fresh].filter((range) => lengthOf(range) > 0);
}

/** Searches a range in parts, halved as often as the source refuses one. Errors: ChainError. */
async function searchRange(reads: Pace, range: Range, accounts: readonly string[], found: Map<number, string>): Promise<void> {
  const { ranges } = reads.one.source;
  for (let from = range.from; from <= range.to; ) {
    const part = { from, to: Math.min(range.to, from + reads.span - 1) };
    try {
      for (let i = 0; i < accounts.length; i += ACCOUNTS_AT_ONCE) {
        const chunk = accounts.slice(i, i + ACCOUNTS_AT_ONCE);
        for (const [height, hash] of await ranges.search(part, chunk)) found.set(height, hash);
      }
    } catch (error) {
      if (!(error instanceof RangeRefused)) throw error;
      if (lengthOf(part) === 1) throw new ChainError('outage', error.message, { cause: error });
      reads.span = Math.max(1, Math.floor(lengthOf(part) / 2));
      reads.successes = 0;
      continue;
    }
    from = part.to + 1;
    if (lengthOf(part) < reads.span || ++reads.successes < GROW_AFTER) continue;
    reads.successes = 0;
    reads.span = Math.min(reads.most, reads.span + Math.max(1, Math.floor(reads.span / 4)));
  }
}

/** Blocks through `to` in which the source names transfers to the accounts, by height. Errors: ChainError. */
export async function searchThrough(reads: RangeReads, to: number, accounts: readonly string[]): Promise<Map<number, string>> {
  const found = new Map<number, string>();
  if (accounts.length > 0 && reads.through !== null)
    for (const range of rangesOf({ ...reads, through: reads.through }, to)) await searchRange(reads, range, accounts, found);
  return found;
}

/** The next part of the blocks to search once more, and what is left then. Errors: ChainError. */
async function searchBack(reads: RangeReads): Promise<{ found: Map<number, string>; left: Back | null }> {
  const found = new Map<number, string>();
  const { back, backPace } = reads;
  if (back === null) return { found, left: null };
  const from = Math.max(back.from, back.to - BACK_AT_ONCE * backPace.span + 1);
  await searchRange(backPace, { from, to: back.to }, back.accounts, found);
  return { found, left: { ...back, to: from - 1 } };
}

/** The same, but a source that cannot search old blocks still counts for new ones. `failure`: why it is not searched further. */
export async function tryBack(reads: RangeReads): Promise<Awaited<ReturnType<typeof searchBack>> & { failure: ChainError | null }> {
  try {
    const searched = await searchBack(reads);
    reads.backFailures = 0;
    return { ...searched, failure: null };
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
    if (++reads.backFailures < BACK_TRIES) return { found: new Map(), left: reads.back, failure: null };
    reads.backFailures = 0;
    Object.assign(reads.backPace, { span: reads.most, successes: 0 });
    reads.gaveUp = error.message;
    return { found: new Map(), left: null, failure: error };
  }
}

/** After everything found was recorded. */
export function wasRead(reads: RangeReads, to: number): void {
  reads.through = Math.max(reads.through ?? 0, to);
  reads.lateThrough = Math.max(reads.lateThrough, to - OVERLAP);
}

// Which sources of a chain that is read by ranges can be asked in a round.

/** No block is from the future, except for clocks that differ. */
const FUTURE_MS = 120_000;
/** How long a source is known to be on the right chain. */
const ORIGIN_FRESH_MS = 600_000;
/** How long a source that was left out of a round is not asked again. */
const LEFT_OUT_MS = 10_000;

export const readableSources = (chain: JoinedSource): RangeSource[] =>
  chain.sources.filter((one): one is RangeSource => one.source.ranges !== undefined);

export type RangeLook = ReturnType<typeof createLook>;
/** Asks each source for its newest block, and checks now and then that it is on the right chain. */
export function createLook(coin: Coin, { now, monotonicMs }: { now(): Date; monotonicMs(): number }) {
  const origins = new Map<RangeSource, number>();
  const out = new Map<RangeSource, { view: View; atMs: number }>();
  const lookAt = async (one: RangeSource): Promise<View> => {
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
    all: async (sources: readonly RangeSource[]): Promise<View[]> => leaveOutLagging(coin, await Promise.all(sources.map(lookAt))),
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
function leaveOutLagging(coin: Coin, views: readonly View[]): View[] {
  const newest = believableHeight(votingOf(views));
  const { agreeWithin } = chainOf(coin);
  return views.map((view) =>
    view.state === 'ok' && view.head && view.head.height < newest - agreeWithin
      ? { ...view, state: 'behind', reason: `${view.one.name} is ${newest - view.head.height} blocks behind` }
      : view,
  );
}

/** The newest height that the operator's own node or at least two sources reached: one source alone may name any number. */
function believableHeight(voting: readonly VotingSource[]): number {
  const own = voting.filter(({ one }) => one.trust === 'own').map(({ head }) => head.height);
  const byName = new Map<string, number>();
  for (const { one, head } of voting) byName.set(one.name, Math.max(head.height, byName.get(one.name) ?? 0));
  const [highest = 0, second = highest] = [...byName.values()].sort((a, b) => b - a);
  return Math.max(second, ...own);
}
