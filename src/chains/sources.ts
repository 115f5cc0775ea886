/** Combines several sources of one coin: payments are read from the first healthy source, lookups try each until one can answer. */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { type Coin, finalityOf, type Network, settingOf } from '#core/coin';
import type { Clock } from '#core/dates';
import { transactionId } from '#evm';
import type { Log } from '#log';
import {
  type BlockScan,
  ChainError,
  type ChainHealth,
  type ChainSource,
  type FeeTier,
  type Finality,
  type JoinedSource,
  type Matcher,
  type NamedSource,
  type SourceState,
} from './chain-source.ts';

/** Health is cached for this long, so a lookup costs one request. */
const HEALTH_FRESH_MS = 10_000;
/** Lookups skip a source that failed to answer for this long. */
const DOWN_FRESH_MS = 2_000;

/** How long a source has no vote after it failed while a block or the mempool was read. Meanwhile the next one is followed. */
const LEFT_OUT_MS = 60_000;

/** A source that has not answered for this long may hang; another one is used instead. */
const SLOW_MS = 3_000;

type Standing = Pick<SourceState, 'state' | 'reason' | 'health'>;
/** The state of a source whose health cannot be read for these reasons; for others it is down. */
const STATE_OF: Partial<Readonly<Record<ChainError['kind'], SourceState['state']>>> = {
  wrong_network: 'wrong_network',
  behind: 'behind',
  unproven: 'unproven',
};
/** Another source may have what this one lacks. */
const ELSEWHERE: readonly ChainError['kind'][] = ['outage', 'pruned', 'behind', 'unproven', 'unsupported'];

/** What proves the blocks of a chain, whatever source they are read from. */
export type Proof = Pick<JoinedSource, 'requireProof' | 'provenWork'> & { witnesses?: JoinedSource['witnesses'] };
type Joined = {
  coin: Coin;
  network: Network;
  sources: readonly NamedSource[];
  proof?: Proof | null;
  watch?: JoinedSource['watch'];
  /** Fees from the newest blocks that were read, where no source estimates any. */
  paid?(): Promise<readonly FeeTier[]>;
  log: Log;
  clock: Clock;
};

/** Whether no other source can replace this one. Those that only answer lookups replace none, and check their network themselves. */
const isAlone = (one: NamedSource, sources: readonly NamedSource[]): boolean =>
  one.onlyLookUps === true || sources.filter(({ onlyLookUps }) => !onlyLookUps).length === 1;

/** Rejects sources on another chain: all must show the same block 0 as the first that answered. */
function createOrigin({ coin, sources }: Pick<Joined, 'coin' | 'sources'>): (one: NamedSource) => Promise<void> {
  let origin: string | null = null;
  const sameOrigin = new Set<NamedSource>();
  return async (one) => {
    if (sameOrigin.has(one) || isAlone(one, sources)) return;
    const hash = (await one.source.blockAt(0))?.hash;
    if (hash === undefined) throw new ChainError('outage', `${one.name} does not show block 0`);
    origin ??= hash;
    if (hash !== origin) throw new ChainError('wrong_network', `${one.name} is on another chain than the other sources of ${coin}`);
    sameOrigin.add(one);
  };
}

type Standings = {
  /** Asks the source how it is. */
  inspect(one: NamedSource): Promise<Standing>;
  /** The same, from a recent answer if there is one. */
  of(one: NamedSource): Promise<Standing>;
  /** The last answer. */
  last(one: NamedSource): Standing | null;
  /** It answers, but reading with it failed: it does not count for a minute, unless it is the only one. */
  leaveOut(one: NamedSource, error: ChainError): void;
};

/** How each source is. Each must be on the same chain before it counts. */
function createStandings({ coin, network, sources, clock }: Omit<Joined, 'log'>): Standings {
  const admit = createOrigin({ coin, sources });
  const known = new Map<NamedSource, Standing & { atMs: number }>();
  const examine = async (one: NamedSource): Promise<Standing> => {
    let standing: Standing;
    try {
      const health: ChainHealth = await one.source.health();
      if (health.network !== network)
        throw new ChainError('wrong_network', `${one.name} is on ${health.network}, ${settingOf(coin)}_NETWORK says ${network}`);
      await admit(one);
      standing = health.syncing
        ? {
            state: 'syncing',
            reason: health.progress ?? `${one.name} is still syncing (block ${health.tip.height} of ${health.headers})`,
            health,
          }
        : { state: 'ok', reason: null, health };
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      standing = { state: STATE_OF[error.kind] ?? 'down', reason: error.message, health: null };
    }
    known.set(one, { ...standing, atMs: clock.monotonicMs() });
    return standing;
  };
  const leftOut = new Map<NamedSource, Standing & { untilMs: number }>();
  const outOf = (one: NamedSource): Standing | null => {
    const out = leftOut.get(one);
    if (!out) return null;
    if (clock.monotonicMs() < out.untilMs) return out;
    leftOut.delete(one);
    return null;
  };
  /** One request at a time to each source. If there are others, a source that does not answer in time is down until it does. */
  const asked = new Map<NamedSource, { answer: Promise<Standing>; sinceMs: number }>();
  const inspect = async (one: NamedSource): Promise<Standing> => {
    const out = outOf(one);
    if (out) return out;
    const open = asked.get(one) ?? { answer: examine(one).finally(() => asked.delete(one)), sinceMs: clock.monotonicMs() };
    asked.set(one, open);
    if (isAlone(one, sources) || !(await isSlow(open.answer, SLOW_MS - (clock.monotonicMs() - open.sinceMs)))) return open.answer;
    const standing: Standing = { state: 'down', reason: `${one.name} does not answer within ${SLOW_MS / 1000} s`, health: null };
    known.set(one, { ...standing, atMs: clock.monotonicMs() });
    return standing;
  };
  return {
    inspect,
    of: async (one) => {
      const out = outOf(one);
      if (out) return out;
      const last = known.get(one);
      const fresh = last && clock.monotonicMs() - last.atMs < (last.state === 'ok' ? HEALTH_FRESH_MS : DOWN_FRESH_MS);
      return fresh ? last : inspect(one);
    },
    last: (one) => outOf(one) ?? known.get(one) ?? null,
    leaveOut: (one, error) => {
      if (isAlone(one, sources)) return;
      const reason = `${one.name} failed while it was read: ${error.message}`;
      leftOut.set(one, { state: STATE_OF[error.kind] ?? 'down', reason, health: null, untilMs: clock.monotonicMs() + LEFT_OUT_MS });
      known.delete(one);
    },
  };
}

type Taken<T> = { answer: T; by: NamedSource };
type Ask<T> = (source: ChainSource) => Promise<T>;

type Following = { coin: Coin; followers: readonly NamedSource[]; standings: Standings };

/** The source that payments are read from, and which takes over when it is down or hangs. */
function createFollowing({ coin, followers, standings, log }: Following & { log: Log }) {
  let current = followers[0] ?? null;
  const moveTo = (one: NamedSource, reason: string): void => {
    if (one === current) return;
    log.warn({ coin, from: current?.name, to: one.name, reason }, 'Switched to another source for this coin');
    current = one;
  };
  /** The next healthy source that answers; null when there is none. */
  const askOthers = async <T>(ask: Ask<T>, than: NamedSource): Promise<Taken<T> | null> => {
    for (const next of followers) {
      if (next === than || (await standings.inspect(next)).state !== 'ok') continue;
      try {
        return { answer: await ask(next.source), by: next };
      } catch (another) {
        if (!(another instanceof ChainError)) throw another;
      }
    }
    return null;
  };
  const follow = async <T>(ask: Ask<T>): Promise<T> => {
    const one = current;
    if (!one) throw new ChainError('unsupported', `no source of ${coin} can be followed; set ${settingOf(coin)}_NODE_URL`);
    const first = ask(one.source);
    if (followers.length > 1 && (await isSlow(first, SLOW_MS))) {
      // Wait for both, and take the first answer.
      const others = askOthers(ask, one).then((taken) => taken ?? Promise.reject(new ChainError('outage', 'no other source answers')));
      const taken = await Promise.any([first.then((answer): Taken<T> => ({ answer, by: one })), others]).catch(() => null);
      if (!taken) return first;
      moveTo(taken.by, `${one.name} does not answer within ${SLOW_MS / 1000} s`);
      return taken.answer;
    }
    try {
      return await first;
    } catch (error) {
      if (!(error instanceof ChainError) || !ELSEWHERE.includes(error.kind)) throw error;
      const taken = await askOthers(ask, one);
      if (!taken) throw error;
      moveTo(taken.by, error.message);
      return taken.answer;
    }
  };
  /** Checks every source, and then reads from the first healthy one. */
  const survey = async (sources: readonly NamedSource[]): Promise<SourceState[]> => {
    const checked = await Promise.all(sources.map(async (one) => ({ one, standing: await standings.inspect(one) })));
    const well = followers.find((one) => standings.last(one)?.state === 'ok');
    if (well) moveTo(well, current ? (standings.last(current)?.reason ?? 'it is preferred and well again') : '');
    return checked.map(({ one, standing }) => {
      const { name, trust, source } = one;
      return { name, trust, source, ...standing, followed: one === current };
    });
  };
  return { follow, survey, isCurrent: (one: NamedSource) => one === current };
}

type Scanned = { scan(matcher: Matcher): unknown };
/** A scan asks its source for more. One that fails counts against the source, so that the next one reads the same. */
function withBlame<T extends Scanned>(fetched: T, source: ChainSource, { followers, standings }: Following): T {
  const scan = async (matcher: Matcher): Promise<unknown> => {
    try {
      return await fetched.scan(matcher);
    } catch (error) {
      const one = followers.find((follower) => follower.source === source);
      if (one && error instanceof ChainError) standings.leaveOut(one, error);
      throw error;
    }
  };
  return { ...fetched, scan };
}

type SecondLook = (first: NamedSource['source'], scan: BlockScan, matcher: Matcher) => Promise<BlockScan>;
/** A block of which one source cannot see everything is read from another one that does. */
function createSecondLook({ followers, standings }: Following, clock: Clock): SecondLook {
  /** Until when those that did not see everything either are not asked again. */
  const untilMs = new Map<NamedSource, number>();
  const look = async ({ source }: NamedSource, hash: string, matcher: Matcher): Promise<BlockScan | null> => {
    try {
      return await (await source.fetchBlock(hash)).scan(matcher);
    } catch (error) {
      if (error instanceof ChainError) return null;
      throw error;
    }
  };
  return async (first, scan, matcher) => {
    if (scan.blind === undefined) return scan;
    for (const one of followers) {
      if (one.source === first || clock.monotonicMs() < (untilMs.get(one) ?? 0) || (await standings.of(one)).state !== 'ok') continue;
      const seen = await look(one, scan.block.hash, matcher);
      if (seen && seen.blind === undefined) {
        const blind = followers.find(({ source }) => source === first);
        // Only your own node says which blocks are final.
        if (blind && blind.trust !== 'own') standings.leaveOut(blind, new ChainError('outage', scan.blind));
        return seen;
      }
      untilMs.set(one, clock.monotonicMs() + LEFT_OUT_MS);
    }
    return scan;
  };
}

/** Ranks errors of several sources, most informative first: a source that knows it does not exist, then one that may know later. */
const TELLING: readonly ChainError['kind'][] = [
  'refused',
  'unseen',
  'not_found',
  'outage',
  'wrong_network',
  'behind',
  'unproven',
  'pruned',
  'unsupported',
];

/** Asks one source after the other. Among equal failures the last one wins, because sources with an index are listed after nodes. */
async function lookUp<T>(ask: Ask<T>, { sources, standings }: { sources: readonly NamedSource[]; standings: Standings }): Promise<T> {
  const failures: ChainError[] = [];
  for (const one of sources) {
    try {
      const { state, reason } = await standings.of(one);
      if (state !== 'ok') throw new ChainError('outage', reason ?? `${one.name} does not answer`);
      return await ask(one.source);
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      failures.push(error);
    }
  }
  const [first] = failures.toReversed().toSorted((a, b) => TELLING.indexOf(a.kind) - TELLING.indexOf(b.kind));
  throw first ?? new ChainError('unsupported', 'no source is set');
}

/**
 * Sends a transaction: first through sources that check it, then through peers, which do not say what they refuse. Servers that only answer
 * lookups come last, because sending tells them who asks. A refusal ends it, so that no other source hides it.
 */
async function sendFrom(sources: readonly NamedSource[], { standings, send }: { standings: Standings; send: Ask<void> }): Promise<void> {
  const rankOf = ({ connection, onlyLookUps }: NamedSource): number => (onlyLookUps ? 2 : connection ? 1 : 0);
  let failure: unknown = null;
  for (const rank of [0, 1, 2]) {
    const some = sources.filter((one) => rankOf(one) === rank);
    if (some.length === 0) continue;
    try {
      return await lookUp(send, { sources: some, standings });
    } catch (error) {
      if (!(error instanceof ChainError) || error.kind === 'refused' || error.kind === 'unseen') throw error;
      // That one cannot send is less telling than that another one is away.
      if (failure === null || error.kind !== 'unsupported') failure = error;
    }
  }
  throw failure ?? new ChainError('unsupported', 'no source is set');
}

/**
 * Final blocks as the followed source reports them. Where tags name them, only the word of your own node counts, so it is asked when the
 * followed source is blind.
 */
async function readFinality(follow: <T>(ask: Ask<T>) => Promise<T>, { coin, followers, standings }: Following): Promise<Finality> {
  const found = await follow((source) => source.finality());
  if (!found.blind || finalityOf(coin) !== 'tags') return found;
  for (const one of followers) {
    if (one.trust !== 'own' || (await standings.of(one)).state !== 'ok') continue;
    const told = await one.source.finality().catch((error: unknown) => {
      if (error instanceof ChainError) return null;
      throw error;
    });
    if (told) return told;
  }
  return found;
}

/** For each speed the highest fee. */
const highestOf = (all: readonly (readonly FeeTier[])[]): readonly FeeTier[] =>
  all.reduce((fees, others) =>
    fees.map((one) => {
      const other = others.find(({ speed }) => speed === one.speed);
      return other && other.rateE8 > one.rateE8 ? other : one;
    }),
  );

/**
 * Fees as the first source estimates them, and nothing below what peers take, which would not spread; where none estimates, for each speed
 * the highest that a source would suggest or blocks were paid.
 */
async function readFees({ sources, standings, paid }: Asked): Promise<readonly FeeTier[]> {
  const suggested: (readonly FeeTier[])[] = [];
  const estimate: Ask<readonly FeeTier[]> = async (source) => {
    const tiers = await source.fees();
    if (tiers.every((tier) => tier.source === 'estimate')) return tiers;
    suggested.push(tiers);
    throw new ChainError('unsupported', 'the source has no estimate');
  };
  try {
    const told = await lookUp(estimate, { sources, standings });
    const taken = await Promise.all(sources.flatMap(({ connection, source }) => (connection ? source.fees() : [])));
    return highestOf([told, ...taken]);
  } catch (error) {
    if (!(error instanceof ChainError) || suggested.length === 0) throw error;
    return highestOf([...suggested, ...(paid ? [await paid()] : [])]);
  }
}

type AccountReply = Awaited<ReturnType<JoinedSource['ask']>>[number];
/** How nodes say that a contract refuses a call, which is an answer. */
const OF_CONTRACT = /revert|VM Exception|invalid opcode/i;
const NO_ANSWER = { code: 0, message: 'the source answered something else' };
/** No call has a number or a truth value as its result. */
const readReply = ({ result, error }: AccountReply): AccountReply =>
  error || result === null || typeof result === 'string' || typeof result === 'object'
    ? { result, error }
    : { result: null, error: NO_ANSWER };
/** A node that took a transaction answers with its ID. A node that answers something else may have dropped it. Errors: ChainError. */
function checkSent([method, raw]: Parameters<JoinedSource['ask']>[0][number], { result, error }: AccountReply): void {
  if (method !== 'eth_sendRawTransaction' || (error && error !== NO_ANSWER)) return;
  if (typeof result === 'string' && result.toLowerCase() === transactionId(Buffer.from(String(raw).slice(2), 'hex'))) return;
  throw new ChainError('outage', 'the source did not answer with the transaction that it was sent');
}
/** Whether a node could not answer a call. Another one may know better. */
const isUnanswered = ({ error }: AccountReply): boolean => error !== null && error.code !== 3 && !OF_CONTRACT.test(error.message);

/** Calls to a chain of accounts. Those that one source cannot answer are asked of the next one; if none can, the words of the first one count. */
async function askAccounts(
  calls: Parameters<JoinedSource['ask']>[0],
  { sources, standings }: { sources: readonly NamedSource[]; standings: Standings },
): Promise<AccountReply[]> {
  let replies: AccountReply[] = [];
  const fill: Ask<void> = async ({ ask }) => {
    if (!ask) throw new ChainError('unsupported', 'the source answers no such calls');
    const told = (await ask(calls)).map(readReply);
    for (const [i, call] of calls.entries()) checkSent(call, told[i]!);
    replies = told.map((reply, i) => (replies[i] && (isUnanswered(reply) || !isUnanswered(replies[i])) ? replies[i] : reply));
    if (replies.some(isUnanswered)) throw new ChainError('unsupported', 'the source cannot answer');
  };
  try {
    await lookUp(fill, { sources, standings });
  } catch (error) {
    if (!(error instanceof ChainError) || replies.length < calls.length) throw error;
  }
  return replies;
}

type Asked = { sources: readonly NamedSource[]; standings: Standings; paid: Joined['paid'] };
/** What these sources answer to somebody who asks. */
function lookUpsOf({ sources, standings, paid }: Asked): JoinedSource['lookUps'] {
  // Peers know no balances, and only transactions of blocks that are named: whether they can be reached does not matter for others.
  const withIndex = sources.filter((one) => !one.connection);
  const askIndex = <T>(ask: Ask<T>): Promise<T> =>
    withIndex.length === 0 && sources[0] ? ask(sources[0].source) : lookUp(ask, { sources: withIndex, standings });
  // Peers tell no fees, so they come last.
  const forFees = sources.toSorted((a, b) => Number(a.connection !== undefined) - Number(b.connection !== undefined));
  return {
    transaction: (txid, hint) =>
      hint ? lookUp((source) => source.transaction(txid, hint), { sources, standings }) : askIndex((source) => source.transaction(txid)),
    addressSummary: (address) => askIndex((source) => source.addressSummary(address)),
    fees: () => readFees({ sources: forFees, standings, paid }),
  };
}

/** Joins sources in order of preference. */
export function joinSources({ coin, network, sources, proof = null, watch = null, paid, log, clock }: Joined): JoinedSource {
  const followers = sources.filter((one) => one.follows);
  const standings = createStandings({ coin, network, sources, clock });
  const following = { coin, followers, standings };
  const { follow, survey, isCurrent } = createFollowing({ ...following, log });
  const lookAgain = createSecondLook(following, clock);
  const chosen = sources.filter((one) => !one.unchosen);
  // Servers that only answer lookups are not even connected for anything else.
  const others = sources.filter((one) => !one.onlyLookUps);
  const any = <T>(ask: Ask<T>): Promise<T> => lookUp(ask, { sources: others, standings });
  const [asked, unasked] = [lookUpsOf({ sources, standings, paid }), lookUpsOf({ sources: chosen, standings, paid })];
  /** A part that not every source has. */
  const part = <T>(found: T | undefined): T => {
    if (found !== undefined) return found;
    throw new ChainError('unsupported', `no source can send money; set ${settingOf(coin)}_NODE_URL`);
  };
  const send = (raw: Uint8Array) => sendFrom(chosen, { standings, send: ({ outlet }) => part(outlet?.send)(raw) });
  const mostBlocks = sources.find(({ source }) => source.outlet?.readTransactions)?.source.outlet?.mostBlocks;
  return {
    coin,
    network,
    sources,
    follows: followers.length > 0,
    witnesses: proof?.witnesses ?? null,
    watch,
    onDemand: followers.length > 0 && followers.every((one) => one.onDemand === true),
    survey: () => survey(others),
    requireProof: async () => {
      await proof?.requireProof();
      for (const { source } of sources) await source.requireProof?.();
    },
    provenWork: (tip) => proof?.provenWork(tip) ?? null,
    genesis: () => follow((source) => source.genesis()),
    health: () => follow((source) => source.health()),
    tip: () => follow((source) => source.tip()),
    blockAt: (height) => follow((source) => source.blockAt(height)),
    block: (hash) => follow((source) => source.block(hash)),
    fetchBlock: (hash, how) =>
      follow(async (source) => {
        const fetched = withBlame(await source.fetchBlock(hash, how), source, following);
        return { ...fetched, scan: async (matcher) => lookAgain(source, await fetched.scan(matcher), matcher) };
      }),
    fetchMempool: (health) => follow(async (source) => withBlame(await source.fetchMempool(health), source, following)),
    txState: (txid) => follow((source) => source.txState(txid)),
    finality: () => readFinality(follow, following),
    ...unasked,
    lookUps: asked,
    readUnspent: async (of) => {
      // Those that cannot tell need not be reached for that.
      const able = others.filter(({ source }) => source.readUnspent);
      if (able.length > 0) return lookUp(({ readUnspent }) => part(readUnspent)(of), { sources: able, standings });
      throw new ChainError('unsupported', `no source can tell what of these outputs is unspent; set ${settingOf(coin)}_NODE_URL`);
    },
    outlet: {
      areUnspent: (outpoints, options) => any(({ outlet }) => part(outlet?.areUnspent)(outpoints, options)),
      readTransactions: (wanted) => any(({ outlet }) => part(outlet?.readTransactions)(wanted)),
      depthOf: (outpoints) => any(({ outlet }) => part(outlet?.depthOf)(outpoints)),
      send,
      ...(mostBlocks !== undefined && { mostBlocks }),
    },
    ask: (calls) => askAccounts(calls, { sources: others, standings }),
    onHint: (wake) => {
      const ends = followers.flatMap((one) => one.source.onHint?.(() => isCurrent(one) && wake()) ?? []);
      return () => {
        for (const end of ends) end();
      };
    },
    close: () => {
      for (const { source } of sources) source.close();
    },
  };
}

/** Whether neither an answer nor a failure has arrived after this long. */
async function isSlow(answer: Promise<unknown>, withinMs: number): Promise<boolean> {
  const over = new AbortController();
  const settled = answer.then(
    () => false,
    () => false,
  );
  const late = sleep(Math.max(0, withinMs), undefined, { signal: over.signal }).then(
    // Handle first what arrived while this process was busy.
    () => setImmediate().then(() => setImmediate(true)),
    () => false,
  );
  const slow = await Promise.race([settled, late]);
  over.abort();
  return slow;
}

/** A source's name for logs, metrics and readers: host and port, never credentials. */
export const nameOfSource = (url: string): string => new URL(url).host;
