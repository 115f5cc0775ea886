/** Several sources of one coin as one: payments are read from the first that is well, look-ups go on until one can answer. */
import type { Clock } from '../core/clock.ts';
import type { Coin, Network } from '../core/coin.ts';
import type { Log } from '../log.ts';
import { type Chain, ChainError, type ChainHealth, type ChainSource, type NamedSource, type SourceState } from './chain.ts';

/** Health is asked again after this long, so that a look-up costs one question. */
const HEALTH_FRESH_MS = 10_000;
/** What a source that failed to answer is spared before a look-up asks it again. */
const DOWN_FRESH_MS = 2_000;

type Standing = Pick<SourceState, 'state' | 'reason' | 'health'>;

/** Joins sources in order of preference. Each is checked to be on the same chain before it counts. */
export function joinSources({
  coin,
  network,
  sources,
  log,
  clock,
}: {
  coin: Coin;
  network: Network;
  sources: readonly NamedSource[];
  log: Log;
  clock: Clock;
}): Chain {
  const followers = sources.filter((one) => one.follows);
  let current = followers[0] ?? null;
  /** Block 0 as the first source that answered shows it: others must show the same. */
  let origin: string | null = null;
  const sameOrigin = new Set<NamedSource>();
  const known = new Map<NamedSource, Standing & { atMs: number }>();

  /** Refuses a source on another chain. */
  const admit = async (one: NamedSource): Promise<void> => {
    if (sameOrigin.has(one) || sources.length === 1) return;
    const hash = (await one.source.blockAt(0))?.hash;
    if (hash === undefined) throw new ChainError('outage', `${one.name} does not show block 0`);
    origin ??= hash;
    if (hash !== origin) throw new ChainError('wrong_network', `${one.name} is on another chain than the other sources of ${coin}`);
    sameOrigin.add(one);
  };
  const inspect = async (one: NamedSource): Promise<Standing> => {
    let standing: Standing;
    try {
      const health: ChainHealth = await one.source.health();
      if (health.network !== network)
        throw new ChainError('wrong_network', `${one.name} is on ${health.network}, ${coin}_NETWORK says ${network}`);
      await admit(one);
      standing = health.syncing
        ? { state: 'syncing', reason: `${one.name} is still syncing (block ${health.tip.height} of ${health.headers})`, health }
        : { state: 'ok', reason: null, health };
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      standing = { state: error.kind === 'wrong_network' ? 'wrong_network' : 'down', reason: error.message, health: null };
    }
    known.set(one, { ...standing, atMs: clock.monotonicMs() });
    return standing;
  };
  const standingOf = async (one: NamedSource): Promise<Standing> => {
    const last = known.get(one);
    const fresh = last && clock.monotonicMs() - last.atMs < (last.state === 'ok' ? HEALTH_FRESH_MS : DOWN_FRESH_MS);
    return fresh ? last : inspect(one);
  };
  const moveTo = (one: NamedSource, reason: string): void => {
    if (one === current) return;
    log.warn({ coin, from: current?.name, to: one.name, reason }, 'payments of this coin are read from another source now');
    current = one;
  };

  /** Asks the source that is followed; when it is down, the next that is well takes over. */
  const follow = async <T>(ask: (source: ChainSource) => Promise<T>): Promise<T> => {
    if (!current) throw new ChainError('unsupported', `no source of ${coin} can be followed; set ${coin}_NODE_URL`);
    try {
      return await ask(current.source);
    } catch (error) {
      if (!(error instanceof ChainError) || (error.kind !== 'outage' && error.kind !== 'pruned')) throw error;
      for (const next of followers) {
        if (next === current || (await inspect(next)).state !== 'ok') continue;
        try {
          const answer = await ask(next.source);
          moveTo(next, error.message);
          return answer;
        } catch (another) {
          if (!(another instanceof ChainError)) throw another;
        }
      }
      throw error;
    }
  };

  /** Gravity of what several sources answered, most telling first: one that knows it does not exist, then one that may know later. */
  const TELLING: readonly ChainError['kind'][] = ['not_found', 'outage', 'wrong_network', 'pruned', 'unsupported'];
  const lookUp = async <T>(ask: (source: ChainSource) => Promise<T>): Promise<T> => {
    const failures: ChainError[] = [];
    for (const one of sources) {
      try {
        const { state, reason } = await standingOf(one);
        if (state !== 'ok') throw new ChainError('outage', reason!);
        return await ask(one.source);
      } catch (error) {
        if (!(error instanceof ChainError)) throw error;
        failures.push(error);
      }
    }
    // Of several alike the last speaks: sources with an index stand behind nodes.
    throw failures.toReversed().toSorted((a, b) => TELLING.indexOf(a.kind) - TELLING.indexOf(b.kind))[0]!;
  };

  return {
    coin,
    network,
    sources,
    follows: followers.length > 0,
    survey: async () => {
      const standings = await Promise.all(sources.map((one) => inspect(one)));
      const well = followers.find((one) => known.get(one)!.state === 'ok');
      if (well) moveTo(well, current ? (known.get(current)!.reason ?? 'it is preferred and well again') : '');
      return sources.map((one, i) => ({
        name: one.name,
        trust: one.trust,
        source: one.source,
        ...standings[i]!,
        followed: one === current,
      }));
    },
    genesis: () => follow((source) => source.genesis()),
    health: () => follow((source) => source.health()),
    tip: () => follow((source) => source.tip()),
    blockAt: (height) => follow((source) => source.blockAt(height)),
    block: (hash) => follow((source) => source.block(hash)),
    fetchBlock: (hash) => follow((source) => source.fetchBlock(hash)),
    fetchMempool: (health) => follow((source) => source.fetchMempool(health)),
    txState: (txid) => follow((source) => source.txState(txid)),
    finality: () => follow((source) => source.finality()),
    transaction: (txid, hint) => lookUp((source) => source.transaction(txid, hint)),
    addressSummary: (address) => lookUp((source) => source.addressSummary(address)),
    fees: () => lookUp((source) => source.fees()),
    readUnspent: (of) =>
      lookUp(async (source) => {
        if (source.readUnspent) return source.readUnspent(of);
        throw new ChainError('unsupported', `no source can tell what of these outputs is unspent; set ${coin}_NODE_URL`);
      }),
    onHint: (wake) => {
      const ends = followers.flatMap((one) => one.source.onHint?.(() => one === current && wake()) ?? []);
      return () => {
        for (const end of ends) end();
      };
    },
    close: () => {
      for (const { source } of sources) source.close();
    },
  };
}

/** A source's name for logs, metrics and readers: host and port, never credentials. */
export const nameOfSource = (url: string): string => new URL(url).host;
