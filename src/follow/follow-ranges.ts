/**
 * Follows a chain whose blocks come too fast to read each of them. Each poll reads up to a block that the sources agree on: they name the
 * blocks with transfers, every such block is proven, and the poll ends in an anchor. A reorganization goes back to the newest anchor that
 * is still on the chain.
 */

import { checksumAddress } from '#addresses';
import { type BlockRef, ChainError, type JoinedSource, type Tagged } from '#chains';
import type { Context } from '#context';
import { doubtOf } from '#core/certainty';
import { COIN, type Coin, chainCode, chainOf, coinText, settingOf } from '#core/coin';
import { DAY_MS } from '#core/dates';
import { type GuardReason, isBinding, judgeAgreement, judgeChain, judgeFinality } from '#core/guard';
import { goneAfterMs } from '#core/transfer';
import { queueProcessing } from '#settling';
import { type Anchor, beginAt, hasShortHistory, heightsBetween, newestOnChain, readAnchor, readAnchors } from './anchors.ts';
import { createContractWatch, createFeeWatch, tokensPaid, type WatchContracts } from './contract-watch.ts';
import { createFollowState, type FollowState, type Reading } from './follow-state.ts';
import { createRecord, describeView } from './judgement.ts';
import { createPace, IDLE_SECONDS, tagsSeconds } from './poll-pace.ts';
import { type Accounts, createAccounts, createOlderLook, type OlderLook } from './range-older.ts';
import {
  createLook,
  createReads,
  OVERLAP,
  type RangeLook,
  type RangeReads,
  reachOf,
  readableSources,
  readFrom,
  recordLookedBack,
  searchThrough,
  tryBack,
  wasRead,
} from './range-reads.ts';
import { type Hit, knownAs, readHits, readUnverified, recordRange } from './range-record.ts';
import { createSentinel, type Holder, type Sentinel, type SentinelLook } from './range-sentinel.ts';
import {
  agreedAt,
  agreedTarget,
  answersOf,
  Disagreement,
  decidingOf,
  isOnChain,
  LeftOut,
  type RangeSource,
  type View,
  type VotingSource,
  verifierOf,
  votingOf,
  withinTime,
} from './range-votes.ts';
import { readWaiting, type WaitingTransaction } from './sightings.ts';
import { createStrayNative, type StrayNative } from './stray-native.ts';
import { endReorg, takeBack } from './take-back.ts';
import { type ChainWatch, createWatching, refreshWatching } from './watching.ts';

/** Blocks that are not read and proven again. */
const KNOWN = 10_000;
/** Payments that wait are settled again at most this often, unless something new was found. */
const QUEUE_EVERY_MS = 4_000;
/** How long all sources may lack the last anchor before it is searched for: they may just lag. */
const PATIENCE_MS = 60_000;
type Follower = {
  readonly ctx: Context;
  readonly chain: Pick<JoinedSource, 'coin' | 'network' | 'sources'>;
  readonly binding: boolean;
  readonly sources: readonly RangeSource[];
  readonly reads: ReadonlyMap<RangeSource, RangeReads>;
  readonly look: RangeLook;
  readonly guard: ReturnType<typeof createRangeGuard>;
  readonly watchContracts: WatchContracts;
  readonly watchFees: ReturnType<typeof createFeeWatch>;
  readonly notes: FollowState;
  readonly watching: ChainWatch;
  readonly accounts: Accounts;
  readonly sentinels: ReadonlyMap<RangeSource, Sentinel>;
  readonly lookAtOlder: OlderLook;
  readonly strays: StrayNative;
  readonly known: Set<string>;
  begun: boolean;
  taggedAtMs: number;
  queuedAtMs: number;
  /** Whether confirmations grew since then. */
  owesQueue: boolean;
  /** Whether transfers may be recorded that only one source has shown. */
  mayBeAlone: boolean;
  missingSinceMs: number | null;
};

/** One follower. `step` is one poll: true when more blocks are left to read. */
export function createRangeFollower(
  ctx: Context,
  chain: JoinedSource,
  { binding = isBinding(chain.network) }: { binding?: boolean } = {},
): { step(signal?: AbortSignal): Promise<boolean>; requests(): number; isOpen(): Promise<boolean> } {
  const { coin } = chain;
  const sources = readableSources(chain);
  const most = chainOf(coin).ranges?.most ?? 1_000;
  const watching = createWatching(ctx, chain);
  const isRegtest = chain.network === 'regtest';
  const follower: Follower = {
    ...{ ctx, chain, binding, sources, watching },
    reads: new Map(sources.map((one) => [one, createReads(one, most)])),
    look: createLook(coin, ctx.clock),
    guard: createRangeGuard(ctx, { coin, binding }),
    watchContracts: createContractWatch(ctx, chain),
    watchFees: createFeeWatch(ctx, chain),
    notes: createFollowState(ctx, coin),
    accounts: createAccounts(ctx, coin),
    sentinels: new Map(sources.map((source) => [source, createSentinel(ctx, coin, { isRegtest, source })])),
    lookAtOlder: createOlderLook(ctx, coin, { isRegtest }),
    strays: createStrayNative(watching, { isRegtest, binding }),
    known: new Set(),
    ...{
      begun: false,
      taggedAtMs: Number.NEGATIVE_INFINITY,
      queuedAtMs: Number.NEGATIVE_INFINITY,
      owesQueue: false,
      mayBeAlone: true,
      missingSinceMs: null,
    },
  };
  return {
    step: (signal) => follower.notes.round(() => round(follower, signal)),
    requests: () => Math.max(0, ...sources.map(({ source }) => source.ranges.requests())),
    isOpen: () => follower.accounts.anyOpen(),
  };
}

/** One poll. It starts again without sources that fail, or that those that count contradict. */
async function round(follower: Follower, signal?: AbortSignal): Promise<boolean> {
  const { ctx, look, sources } = follower;
  const [{ before } = { before: ctx.clock.now() }] = await ctx.db.sql<{ before: Date }[]>`select clock_timestamp() as before`;
  for (let views = await look.all(sources); ; ) {
    try {
      return await roundWith(follower, { views, before, signal });
    } catch (error) {
      if (!(error instanceof LeftOut)) throw error;
      views = look.leaveOut(views, error);
    }
  }
}

/**
 * One poll of the sources that have a vote. If they disagree and none has more right than another, nothing is read and nothing completes.
 * Errors: LeftOut names sources without which the others can continue.
 */
async function roundWith(
  follower: Follower,
  { views, before, signal }: { views: readonly View[]; before: Date; signal: AbortSignal | undefined },
): Promise<boolean> {
  const { ctx, chain, guard } = follower;
  const voting = votingOf(views);
  let height = 0;
  try {
    const cursor = await readAnchor(ctx, chain.coin);
    height = cursor?.height ?? 0;
    if (voting.length === 0) throw new ChainError('outage', views.find(({ reason }) => reason !== null)?.reason ?? 'no source answers');
    const target = await agreedTarget(voting);
    if (verifierOf(voting) === null) await forgetTags(follower, cursor);
    await follower.watchContracts();
    return await readUp(follower, { views, voting, target, before, signal });
  } catch (error) {
    if (error instanceof LeftOut && voting.some(({ one }) => !error.sources.includes(one))) throw error;
    const cause = error instanceof LeftOut ? error.cause : error;
    const disagreement = cause instanceof Disagreement ? cause.message : null;
    if (disagreement === null && !(cause instanceof ChainError)) throw cause;
    await guard.judge({ views, disagreement, hasCursor: false }, height);
    if (disagreement === null) throw cause;
    await follower.notes.doubts({ code: 'lagging', reason: disagreement });
    return false;
  }
}

/** Reads from the cursor up to the block that the voting sources agree on. */
async function readUp(
  follower: Follower,
  {
    views,
    voting,
    target,
    before,
    signal,
  }: { views: readonly View[]; voting: readonly VotingSource[]; target: Anchor; before: Date; signal: AbortSignal | undefined },
): Promise<boolean> {
  const { ctx, chain, guard, notes, accounts, watching } = follower;
  const { coin } = chain;
  const last = await readAnchor(ctx, coin);
  if (last === null) await beginAt(ctx, coin, { at: target, before, sources: follower.sources.map(({ name }) => name) });
  await begin(follower, last ?? target);
  const found = await findCursor(follower, { voting, cursor: last ?? target, target });
  // Before anything is recorded, because that may complete payments.
  await guard.judge({ views, disagreement: null, hasCursor: found !== null }, (found ?? last ?? target).height);
  if (found === null || signal?.aborted) return false;
  let cursor = found;
  // After the sources named their newest blocks, so that every address that these can pay is among them.
  await refreshWatching(watching);
  const keys = await accounts.read();
  const reads = voting.map(({ one }) => follower.reads.get(one)!);
  for (const read of reads) if (read.through === null) readFrom(read, cursor.height);
  // One that was away catches up beside the others.
  const reach = Math.max(...reads.map((read) => reachOf(read, target.height)));
  // The cursor waits until a source was searched beyond it.
  const to = reach <= cursor.height ? cursor : reach < target.height ? await agreedTarget(voting, reach) : target;
  if (to.height > cursor.height || reads.some(({ through, back }) => (through ?? 0) < found.height || back !== null)) {
    await readRange(follower, { voting, reads, keys, cursor, to });
    cursor = to;
  }
  if (reach < target.height) {
    await notes.catchesUp(cursor.height, target.height);
    await notes.reads(cursor.height);
    return true;
  }
  await endRound(follower, { voting, cursor, before });
  await follower.strays.look({ voting, keys, cursor });
  return lookForMissing(follower, { voting, keys, cursor });
}

/** Where each source was read to, from the last run. */
async function begin(follower: Follower, cursor: Anchor): Promise<void> {
  if (follower.begun) return;
  const { ctx, chain, reads } = follower;
  const rows = await ctx.db.sql<{ source: string; height: bigint }[]>`
    select source, height from range_reads where chain = ${COIN[chain.coin].chain}`;
  for (const [one, read] of reads) {
    const row = rows.find(({ source }) => source === one.name);
    readFrom(read, row ? Math.min(Number(row.height), cursor.height) : cursor.height);
  }
  follower.begun = true;
}

/** The cursor, if it is on the chain; else the newest anchor that is, with everything above it taken back. Null: not clear now. */
async function findCursor(
  follower: Follower,
  { voting, cursor, target }: { voting: readonly VotingSource[]; cursor: Anchor; target: Anchor },
): Promise<Anchor | null> {
  const { ctx, chain, notes } = follower;
  if (cursor.height === target.height ? target.hash === cursor.hash : await isOnChain(voting, cursor)) {
    follower.missingSinceMs = null;
    return cursor;
  }
  const nowMs = ctx.clock.monotonicMs();
  if (target.height < cursor.height) {
    // All of them may lag, for example after a restart.
    follower.missingSinceMs ??= nowMs;
    const reason = `the sources are ${cursor.height - target.height} blocks behind what was read before (block ${target.height})`;
    await notes.doubts({ code: 'older', reason });
    const [ours] = await readAnchors(ctx.db.sql, chain.coin, { below: target.height + 1 }).then((all) => all.slice(-1));
    const branched = ours !== undefined && !(await isOnChain(voting, ours));
    if (!branched && (nowMs - follower.missingSinceMs < PATIENCE_MS || (await anyHas(voting, cursor)))) return null;
  }
  const anchors = await readAnchors(ctx.db.sql, chain.coin, { below: Math.min(cursor.height, target.height + 1) });
  const found = await newestOnChain(anchors, (anchor) => isOnChain(voting, anchor));
  const fork = found ?? (await beginAgain(follower, { voting, lowest: anchors[0] ?? cursor }));
  await takeBack(ctx, chain, cursor, { cursor: fork, base: null });
  for (const read of follower.reads.values()) readFrom(read, fork.height);
  // The chain may come back to blocks that were taken back.
  follower.known.clear();
  follower.strays.forget();
  follower.missingSinceMs = null;
  return fork;
}

/** Whether a source still has the block: then those that lack it are just behind. */
async function anyHas(voting: readonly VotingSource[], { height, hash }: Anchor): Promise<boolean> {
  const shown = await answersOf(
    voting.filter(({ head }) => head.height >= height).map(({ one }) => [one, one.source.ranges.at([height])] as const),
  );
  return shown.some(([ref]) => ref?.hash === hash);
}

/**
 * No anchor is on the chain. Soon after the start, everything is read again from below the first one. Later, the reorganization is deeper
 * than anchors are kept for, and an operator must look first.
 */
async function beginAgain(follower: Follower, { voting, lowest }: { voting: readonly VotingSource[]; lowest: Anchor }): Promise<Anchor> {
  const { ctx, chain } = follower;
  const code = chainCode(chain.coin);
  const [allowed] = await ctx.db.sql`select 1 from tips where chain = ${code} and begin_again`;
  if (!allowed && !(await hasShortHistory(ctx, chain.coin))) {
    await ctx.db.sql`
      update tips set hold_reason = 'a reorganization deeper than this chain allows; an operator must look' where chain = ${code}`;
    throw new ChainError(
      'outage',
      `no block that was read of ${chainOf(chain.coin).name} is on the chain of its sources; completion is held`,
    );
  }
  const [base] = await agreedAt(voting, [Math.max(0, lowest.height - OVERLAP)]);
  if (!base) throw new ChainError('outage', 'the sources do not show the block to begin at');
  return { height: base.height, hash: base.hash };
}

type Range = { voting: readonly VotingSource[]; reads: readonly RangeReads[]; keys: readonly string[]; cursor: Anchor; to: Anchor };

/** Records what any of the sources names, if those that count have the block. */
async function readRange(follower: Follower, { voting, reads, keys, cursor, to }: Range): Promise<void> {
  const { ctx, watching, known } = follower;
  const named = new Map<number, Set<string>>();
  const ends = new Map(reads.map((read) => [read, reachOf(read, to.height)]));
  const searched = await answersOf([...ends].map(([read, end]) => [read.one, searchAll(read, end, keys)] as const));
  for (const { found } of searched) for (const [height, hash] of found) named.set(height, (named.get(height) ?? new Set()).add(hash));
  // A balance shows that something was left out, perhaps in a block that was read.
  const missed = searched.flatMap(({ missed: heights }) => heights);
  const verifier = verifierOf(voting);
  // What one source alone showed is read again as soon as somebody vouches for it.
  const alone = verifier !== null && follower.mayBeAlone ? await readUnverified(watching) : [];
  // What lost its block may be in another one, perhaps without paying us.
  const { mined, present } = await placeLost(watching, voting);
  const again = [...alone, ...mined].filter(({ height }) => height <= to.height);
  for (const { height, hash } of again) named.set(height, (named.get(height) ?? new Set()).add(hash));
  const hits = await readHits(watching, voting, { named, known, again: new Set([...again.map(({ height }) => height), ...missed]) });
  await follower.watchContracts(tokensPaid(hits.flatMap(({ sightings }) => sightings)));
  const real = new Set(hits.map(({ ref }) => ref.hash));
  const vanished = alone.filter(({ height, hash }) => height <= to.height && !real.has(hash)).map(({ hash }) => hash);
  const nowMs = ctx.clock.monotonicMs();
  const queue = hits.length > 0 || nowMs - follower.queuedAtMs >= QUEUE_EVERY_MS;
  const progress = new Map([...ends].map(([read, end]) => [read.one.name, end]));
  const between = await agreedAt(voting, heightsBetween(cursor, to));
  await recordRange(watching, { cursor, to, between: between.filter((ref) => ref !== null), hits, vanished, present, progress, queue });
  if (queue) follower.queuedAtMs = nowMs;
  follower.owesQueue = !queue;
  follower.mayBeAlone = verifier === null || alone.length > 0;
  for (const [i, [read, end]] of [...ends].entries()) {
    wasRead(read, end);
    const { left, failure } = searched[i]!;
    recordLookedBack(read, left);
    if (failure)
      ctx.log.warn(
        { err: failure, coin: watching.coin, source: read.one.name },
        'A source cannot search old blocks for transfers that its balances show to be missing',
      );
  }
  remember(known, hits);
}

/** The blocks through `end`, and a part of those that are searched once more: what is found in these may have been `missed`. */
async function searchAll(read: RangeReads, end: number, keys: readonly string[]) {
  const found = await searchThrough(read, end, keys);
  const again = await tryBack(read);
  return { ...again, found: new Map([...again.found, ...found]), missed: [...again.found.keys()] };
}

function remember(known: Set<string>, hits: readonly Hit[]): void {
  for (const { ref, verifiedBy } of hits) known.add(knownAs(ref.hash, verifiedBy));
  for (const oldest of known) {
    if (known.size <= KNOWN) return;
    known.delete(oldest);
  }
}

/** Everything up to the target is recorded. */
async function endRound(
  follower: Follower,
  { voting, cursor, before }: { voting: readonly VotingSource[]; cursor: Anchor; before: Date },
): Promise<void> {
  const { ctx, chain, notes, binding } = follower;
  const { coin } = chain;
  await notes.isUpToDate(cursor.height);
  await queueOwed(follower);
  await follower.watchFees();
  await endReorg(ctx, { coin, hash: cursor.hash });
  await readTags(follower, voting, cursor);
  const tipTime = new Date(Math.min(...decidingOf(voting).map(({ head }) => head.time.getTime())));
  const doubt = doubtOf({ coin, binding, syncing: false, peers: null, connectedMs: 0, tipTime, now: before, behindOthers: false });
  await notes.doubts(doubt);
  await ctx.db.sql`
    update tips set looked_at = ${before}, scanned_through = case when ${doubt === null} then ${before} else scanned_through end
    where chain = ${chainCode(coin)} and hash = ${cursor.hash}`;
}

/** Searches blocks again when an address holds more than was recorded. True: blocks are left to read. */
async function lookForMissing(
  { ctx, chain, reads, sentinels, lookAtOlder, notes }: Follower,
  { voting, keys, cursor }: { voting: readonly VotingSource[]; keys: readonly string[]; cursor: Anchor },
): Promise<boolean> {
  const voters = voting.map(({ one }) => reads.get(one)!);
  if (voters.some(({ back }) => back !== null)) return true;
  // It is a second look: a source that cannot show balances still shows what was paid.
  const orNothing = (look: Promise<SentinelLook>) =>
    look.catch((error: unknown): SentinelLook | null => {
      if (!(error instanceof ChainError)) throw error;
      ctx.log.debug({ err: error, coin: chain.coin }, 'Could not compare balances with what was recorded');
      return null;
    });
  const looks = await Promise.all(voters.map(({ one }) => orNothing(sentinels.get(one)!(keys))));
  looks.push(await orNothing(lookAtOlder(voters.map(({ one }) => one))));
  for (const [i, look] of looks.entries()) {
    const [first] = look?.unexplained ?? [];
    if (first) await notes.cannotExplain(explainHolding(first, voters[i] ?? voters[0]!));
  }
  const missing = looks.flatMap((look) => look?.missing ?? []);
  if (missing.length === 0) return false;
  const accounts = [...new Set(missing.flatMap((one) => one.accounts))];
  const from = Math.max(0, cursor.height - Math.max(...missing.map(({ blocks }) => blocks)));
  for (const read of voters) {
    read.gaveUp = null;
    recordLookedBack(read, { from, to: cursor.height, accounts });
  }
  return true;
}

const explainHolding = ({ coin, account }: Holder, { one, gaveUp }: RangeReads): string =>
  `address ${checksumAddress(account)} holds more ${coinText(coin)} than was recorded, and searching blocks again at ${one.name} did not show where it came from${gaveUp === null ? '' : `: ${gaveUp}`}`;

/** Settles what waits for confirmations, if that was put off. */
async function queueOwed(follower: Follower): Promise<void> {
  const { ctx, chain } = follower;
  const nowMs = ctx.clock.monotonicMs();
  if (!follower.owesQueue || nowMs - follower.queuedAtMs < QUEUE_EVERY_MS) return;
  await ctx.db.begin((tx) => queueProcessing(tx, { coin: chain.coin }));
  follower.queuedAtMs = nowMs;
  follower.owesQueue = false;
}

/** One source that nothing confirms may call any block final, so none counts as final until it is confirmed again. */
async function forgetTags(follower: Follower, cursor: Anchor | null): Promise<void> {
  const { ctx, chain, guard } = follower;
  follower.taggedAtMs = Number.NEGATIVE_INFINITY;
  guard.sees({ safe: null, finalized: null });
  if (cursor !== null) await writeTags(ctx, chain.coin, { cursor, safe: null, finalized: null });
}

/**
 * Which blocks cannot be replaced anymore: what your own node calls so, or without one every voting source. Asked for only while a payment
 * or money that was sent waits, or until a lag is over.
 */
async function readTags(follower: Follower, voting: readonly VotingSource[], cursor: Anchor): Promise<void> {
  const { ctx, chain, guard } = follower;
  if (verifierOf(voting) === null) return;
  const nowMs = ctx.clock.monotonicMs();
  if (nowMs - follower.taggedAtMs < tagsSeconds(chain.coin) * 1_000 && chain.network !== 'regtest') return;
  const { anyOpen, anySent } = follower.accounts;
  if (!guard.isLagging() && !(await anyOpen()) && !(await anySent())) return;
  const asked = decidingOf(voting);
  const tags = await Promise.all(
    asked.map(({ one }) =>
      one.source.ranges.tags().catch((error: unknown): Tagged => {
        if (!(error instanceof ChainError)) throw error;
        ctx.log.debug({ err: error, coin: chain.coin, source: one.name }, 'Could not ask which blocks are final');
        return { safe: null, finalized: null };
      }),
    ),
  );
  follower.taggedAtMs = nowMs;
  const silent = asked.flatMap(({ one }, i) => (tags[i]!.safe === null || tags[i]!.finalized === null ? [one.name] : []));
  await follower.notes.cannotTellFinal(silent);
  const lowest = (of: 'safe' | 'finalized'): BlockRef | null =>
    tags.reduce<BlockRef | null | undefined>((least, tag) => {
      const ref = tag[of];
      return least === null || ref === null ? null : least === undefined || ref.height < least.height ? ref : least;
    }, undefined) ?? null;
  const [safe, finalized] = [lowest('safe'), lowest('finalized')];
  if (finalized !== null) guard.sees({ safe, finalized });
  const capped = (ref: BlockRef | null): number | null => ref && Math.min(ref.height, cursor.height);
  await keepTags(ctx, chain.coin, { cursor, safe: capped(safe), finalized: capped(finalized) });
}

/** What was final stays final: a source that does not say it now takes nothing back. A reorganization does. */
async function keepTags(ctx: Context, coin: Coin, { cursor, safe, finalized }: Parameters<typeof writeTags>[2]): Promise<void> {
  const [known] = await ctx.db.sql<{ safe: bigint | null; finalized: bigint | null }[]>`
    select safe_height as safe, finalized_height as finalized from tips where chain = ${chainCode(coin)} and hash = ${cursor.hash}`;
  if (!known) return;
  const kept = (now: number | null, before: bigint | null) => now ?? (before === null ? null : Number(before));
  await writeTags(ctx, coin, { cursor, safe: kept(safe, known.safe), finalized: kept(finalized, known.finalized) });
}

const writeTags = (
  ctx: Context,
  coin: Coin,
  { cursor, safe, finalized }: { cursor: Anchor; safe: number | null; finalized: number | null },
): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const moved = await tx`
      update tips set safe_height = ${safe}::bigint, finalized_height = ${finalized}::bigint
      where chain = ${chainCode(coin)} and hash = ${cursor.hash}
        and (safe_height is distinct from ${safe}::bigint or finalized_height is distinct from ${finalized}::bigint)`;
    if (moved.count > 0) await queueProcessing(tx, { coin });
  });

/** Reads ranges of blocks, at the pace that the plan with the provider allows, which is counted over all terms. */
export function createRangeReadings(ctx: Context, chain: JoinedSource, { pollMs }: { pollMs: number }): () => Reading {
  const pace = createPace(ctx, { perDay: ctx.settings.dailyRequests[chain.coin] ?? null, idleMs: Math.max(pollMs, IDLE_SECONDS * 1_000) });
  return () => {
    const follower = createRangeFollower(ctx, chain);
    return async (stopping) => {
      if (!pace.isDue(chain.network === 'regtest' || (await follower.isOpen()))) return false;
      const sent = follower.requests();
      try {
        return await follower.step(stopping);
      } finally {
        pace.spent(follower.requests() - sent);
      }
    };
  };
}

// Judges a chain that is read by ranges, before anything completes on it: who vouches for it, and whether its blocks become final.

type GuardFindings = {
  views: readonly View[];
  /** Why the sources do not agree; null when they do. */
  disagreement: string | null;
  /** Whether the sources have the newest block that was read. Without that nothing is released: one source alone may have shown it. */
  hasCursor: boolean;
};

/** One guard for each chain, run by its follower. */
function createRangeGuard(ctx: Context, { coin, binding }: { coin: Coin; binding: boolean }) {
  const record = createRecord(ctx, { coin, binding });
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
      // The heads move in every round.
      const found = [reasons, quorum, views.map(({ state, reason }) => [state, reason])];
      await record({ sources: views.map(describeView), reasons, quorum, agreed: 'cursor' }, found);
    },
  };
}

// Where transactions are that lost their block, on a chain that is read by ranges. Logs show only what pays us, so the sources are asked:
// a transaction may wait for another block, or be in one that does not pay us, or be gone.

/** Transactions that are asked about in one round, the newest first. */
const AT_ONCE = 20;

/** Whether it may still come: nobody waits for one that is gone, and no source makes it wait for more than a day. */
const mayCome = ({ absentSince, unminedSince, contested }: WaitingTransaction, { now, goneMs }: { now: number; goneMs: number }): boolean =>
  !contested && now - (absentSince?.getTime() ?? now) < 2 * goneMs && now - (unminedSince?.getTime() ?? 0) < DAY_MS;

type LostPlaces = {
  /** Blocks that contain some of them, as a source says. */
  mined: { height: number; hash: string }[];
  /** Those that wait for a block, as a source says. */
  present: ReadonlySet<string>;
};
/** Asks the voting sources about transactions in no block. One that cannot say knows nothing of them. */
async function placeLost({ ctx, coin }: ChainWatch, voting: readonly VotingSource[]): Promise<LostPlaces> {
  const at = { now: ctx.clock.now().getTime(), goneMs: goneAfterMs(coin) };
  const lost = (await readWaiting(ctx.db.sql, coin)).filter((row) => mayCome(row, at));
  const newest = lost.sort((a, b) => Number(b.unminedSince) - Number(a.unminedSince)).slice(0, AT_ONCE);
  const mined: LostPlaces['mined'] = [];
  const present = new Set<string>();
  for (const { txid } of newest) {
    const places = await Promise.all(
      voting.map(({ one }) =>
        withinTime(one.source.ranges.placeOf(txid), one.name).catch((error: unknown) => {
          if (error instanceof ChainError) return null;
          throw error;
        }),
      ),
    );
    if (places.includes('waiting')) present.add(txid);
    for (const place of places) if (place !== null && place !== 'waiting') mined.push(place);
  }
  return { mined, present };
}
