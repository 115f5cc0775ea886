/** Prices on which fresh sources agree, in memory. Quotes only use fresh, agreed prices. */
import { addMs, type Clock, DAY_MS, MINUTE_MS } from '../core/clock.ts';
import { ASSET, ASSETS, type Asset, isAsset } from '../core/coin.ts';
import type { Db } from '../db/db.ts';
import type { Log } from '../log.ts';
import type { Outgoing } from '../outgoing.ts';
import { decidePrice, type Past, STALE_MS, type Vote } from './agreement.ts';
import { createFeed, type Outages } from './feed.ts';
import { createSources, type Hosts, namesIn, readStatic } from './sources.ts';

export type Price = {
  asset: Asset;
  /** USD per unit with eight decimals. */
  priceE8: bigint;
  asOf: Date;
  sources: readonly string[];
  /** Hundredths of a percent: 250n = +2.50%. Zero when `changeFrom` is none. */
  change24hBasisPoints: bigint;
  /** Where the change comes from: the sources, our own history, or nowhere. */
  changeFrom: 'sources' | 'history' | 'none';
  /** Older than 120 s: never used for a quote. */
  stale: boolean;
  /** A labelled sample for test mode, used when no feed can be reached. */
  sample: boolean;
};
/** The status of a source: the assets it has a price for, those it does not list, or why it has no data. */
export type SourceReport = { name: string; assets: readonly Asset[]; unlisted: readonly Asset[]; failure: string | null };
export type Prices = {
  /** The last good price, even if old (null: none, or older than 10 min). */
  look(asset: Asset): Price | null;
  /**
   * A price good enough for a live quote (<= 120 s, two agreeing sources or one static), or why there is none. Synchronous, from
   * memory.
   */
  quotable(asset: Asset): { price: Price } | { reason: string };
  /** For test mode: the feed's price, else a labelled sample. Never fails. */
  forTest(asset: Asset): Price;
  /** Asks every source now; not together with `start`. Empty with static prices. */
  check(): Promise<SourceReport[]>;
  start(): Promise<void>;
  stop(): Promise<void>;
};

const POLL_MS = 30_000;
const UNUSABLE_MS = 600_000;
const HISTORY_MS = MINUTE_MS;
/** How long past prices are used to detect a jump. */
const RECENT_MS = 300_000;
/** The price of a day ago may be this much earlier or later. */
const DAY_AGO_SLACK_MS = 30 * MINUTE_MS;
/** Minutes are kept for two days, then the first minute of every hour for 90 days. */
const THIN_EVERY_MS = 60 * MINUTE_MS;

/** `sources` is the PRICES variable: names, or `static:BTC=97000.00,…`. Errors: it names what does not exist. */
export function createPrices({
  db,
  outgoing,
  clock,
  log,
  outages,
  sources,
  hosts,
  pollMs = POLL_MS,
}: {
  db: Db;
  outgoing: Outgoing;
  clock: Clock;
  log: Log;
  outages?: Outages;
  sources: string;
  hosts?: Hosts;
  pollMs?: number;
}): Prices {
  const fixed = readStatic(sources, isAsset, 'PRICES must look like static:BTC=97000.00,ETH=3500.00');
  const feeds = fixed ? [] : createSources(namesIn(sources), { ...(hosts && { hosts }), clock });
  const votes = new Map<Asset, Map<string, Vote>>(ASSETS.map((asset) => [asset, new Map()]));
  const last = new Map<Asset, { price: Omit<Price, 'stale'>; at: number }>();
  const reasons = new Map<Asset, string>();
  const recent = new Map<Asset, Past[]>();
  const dayAgo = new Map<Asset, bigint>();
  let isSeeded = false;
  let storedAt = Number.NEGATIVE_INFINITY;
  let thinnedAt = Number.NEGATIVE_INFINITY;

  /** The change as reported by the sources, else from our history. */
  const changeOf = (asset: Asset, priceE8: bigint, told: bigint | null): Pick<Price, 'change24hBasisPoints' | 'changeFrom'> => {
    if (told !== null) return { change24hBasisPoints: told, changeFrom: 'sources' };
    const before = dayAgo.get(asset);
    return before === undefined
      ? { change24hBasisPoints: 0n, changeFrom: 'none' }
      : { change24hBasisPoints: ((priceE8 - before) * 10_000n) / before, changeFrom: 'history' };
  };
  const decide = async (): Promise<void> => {
    if (!isSeeded) await seed();
    const now = clock.monotonicMs();
    for (const asset of ASSETS) {
      const past = (recent.get(asset) ?? []).filter((p) => now - p.at <= RECENT_MS);
      const decision = decidePrice(asset, { votes: [...votes.get(asset)!.values()], past, now });
      if ('reason' in decision) {
        reasons.set(asset, decision.reason);
        continue;
      }
      reasons.delete(asset);
      recent.set(asset, [...past, { at: now, priceE8: decision.priceE8 }]);
      last.set(asset, {
        at: decision.at,
        price: {
          asset,
          priceE8: decision.priceE8,
          asOf: addMs(clock.now(), decision.at - now),
          sources: decision.sources,
          sample: false,
          ...changeOf(asset, decision.priceE8, decision.change24hBasisPoints),
        },
      });
    }
    await remember(now);
  };
  const feed = createFeed({
    sources: feeds,
    outgoing,
    clock,
    log,
    outages,
    pollMs,
    take: (source, seen, at) => {
      const { aggregator } = feeds.find(({ name }) => name === source)!;
      for (const { asset, ...observed } of seen) votes.get(asset)!.set(source, { ...observed, source, aggregator, at });
    },
    decide,
  });

  /** Loads the prices of the last minutes on start, so that a jump across it is detected. */
  const seed = async (): Promise<void> => {
    const now = clock.monotonicMs();
    const present = clock.now();
    try {
      const rows = await db.sql<{ asset: Asset; at: Date; priceE8: bigint }[]>`
        select coin as asset, at, price_e8 as "priceE8" from price_history
        where coin = any(${[...ASSETS]}) and at > ${addMs(present, -RECENT_MS)} and at <= ${present} order by at desc`;
      for (const { asset, at, priceE8 } of rows) {
        recent.set(asset, [{ at: now - (present.getTime() - at.getTime()), priceE8 }, ...(recent.get(asset) ?? [])]);
      }
      await readDayAgo();
      isSeeded = true;
    } catch (error) {
      log.warn({ err: error }, 'Could not read earlier prices');
    }
  };
  const readDayAgo = async (): Promise<void> => {
    const then = addMs(clock.now(), -DAY_MS);
    const rows = await db.sql<{ asset: Asset; priceE8: bigint }[]>`
      select distinct on (coin) coin as asset, price_e8 as "priceE8" from price_history
      where coin = any(${[...ASSETS]}) and at between ${addMs(then, -DAY_AGO_SLACK_MS)} and ${addMs(then, DAY_AGO_SLACK_MS)}
      order by coin, abs(extract(epoch from at - ${then}::timestamptz)), at`;
    dayAgo.clear();
    for (const { asset, priceE8 } of rows) dayAgo.set(asset, priceE8);
  };
  /** One row per asset and minute, even when several processes write it. */
  const remember = async (now: number): Promise<void> => {
    const rows = [...last.values()].filter(({ price }) => !reasons.has(price.asset));
    if (now - storedAt < HISTORY_MS || rows.length === 0) return;
    storedAt = now;
    const minute = new Date(Math.floor(clock.now().getTime() / HISTORY_MS) * HISTORY_MS);
    try {
      await db.sql`
        insert into price_history (coin, at, price_e8, sources)
        select r.coin, ${minute}, r.price_e8, r.sources
        from jsonb_to_recordset(${db.sql.json(rows.map(({ price }) => ({ coin: price.asset, price_e8: price.priceE8.toString(), sources: price.sources })) as never)})
          as r (coin text, price_e8 numeric, sources jsonb)
        on conflict do nothing`;
      await readDayAgo();
      if (now - thinnedAt < THIN_EVERY_MS) return;
      thinnedAt = now;
      await db.sql`
        delete from price_history h where coin = any(${[...ASSETS]}) and (at < ${addMs(minute, -90 * DAY_MS)} or (at < ${addMs(minute, -2 * DAY_MS)}
          and exists (select 1 from price_history e where e.coin = h.coin and e.at >= date_trunc('hour', h.at) and e.at < h.at)))`;
    } catch (error) {
      log.warn({ err: error }, 'Could not save prices');
    }
  };
  const unchanged = { change24hBasisPoints: 0n, changeFrom: 'none', stale: false } as const;
  const look = (asset: Asset): Price | null => {
    if (fixed) {
      const priceE8 = fixed.get(asset);
      return priceE8 ? { asset, priceE8, asOf: clock.now(), sources: ['static'], ...unchanged, sample: false } : null;
    }
    const entry = last.get(asset);
    const age = entry ? clock.monotonicMs() - entry.at : Number.POSITIVE_INFINITY;
    return entry && age <= UNUSABLE_MS ? { ...entry.price, stale: age > STALE_MS } : null;
  };
  const quotable: Prices['quotable'] = (asset) => {
    const price = look(asset);
    if (price && !price.stale && !reasons.has(asset)) return { price };
    return { reason: reasons.get(asset) ?? (fixed ? 'PRICES does not set one' : 'the last price is too old') };
  };
  return {
    look,
    quotable,
    forTest: (asset) => {
      const found = quotable(asset);
      return 'price' in found
        ? found.price
        : { asset, priceE8: ASSET[asset].sampleE8, asOf: clock.now(), sources: ['sample'], ...unchanged, sample: true };
    },
    check: async () =>
      (await feed.askAll()).map(({ name, answer, failure }) => ({
        name,
        assets: answer?.map(({ asset }) => asset) ?? [],
        unlisted: feeds.find((source) => source.name === name)!.unlisted(),
        failure,
      })),
    start: async () => feed.start(),
    stop: () => feed.stop(),
  };
}
