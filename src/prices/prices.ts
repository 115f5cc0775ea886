/** Prices on which fresh sources agree, in memory. Quotes only use fresh, agreed prices. */
import type { Outgoing } from '#connections';
import { ASSET, ASSETS, type Asset, isAsset } from '#core/coin';
import { addMs, type Clock, DAY_MS, MINUTE_MS } from '#core/dates';
import type { Db } from '#db';
import type { Log } from '#log';
import { createFeed, type Outages } from './feed.ts';
import type { FiatRates } from './fiat.ts';
import {
  type AgreedPrice,
  agreedPrices,
  atMostPar,
  atPar,
  type Book,
  createBook,
  decidePrices,
  lookUp,
  PAST_PRICES_MS,
  preferring,
  quotableAt,
  takeVotes,
} from './price-book.ts';
import { createSources, type Hosts, namesIn, readStatic } from './sources.ts';

/** The status of a source: the assets it has a price for, those it does not list, or why it has no data. */
type SourceReport = { name: string; assets: readonly Asset[]; unlisted: readonly Asset[]; failure: string | null };
export type Prices = {
  /** The names of the sources. Empty with static prices. */
  sources: readonly string[];
  /** The last good price, even if old (null: none, or older than 10 min). */
  look(asset: Asset): AgreedPrice | null;
  /**
   * A price good enough for a live quote (<= 120 s, two agreeing sources or one static), or why there is none. An asset that should be
   * worth a currency is quoted at par while the sources say about that. `source`: whose price is used while it agrees with the others,
   * instead of the median. Synchronous, from memory.
   */
  quotable(asset: Asset, source?: string | null): { price: AgreedPrice } | { reason: string };
  /** The price that money is valued at; null when sources do not agree on one. Unlike a quote, it may be far from par. */
  valuing(asset: Asset, source?: string | null): AgreedPrice | null;
  /** For test mode: the feed's price, else a labelled sample. Never fails. */
  forTest(asset: Asset, source?: string | null): AgreedPrice;
  /** Asks every source now. Empty with static prices. */
  check(): Promise<SourceReport[]>;
  start(): Promise<void>;
  stop(): Promise<void>;
};

const POLL_MS = 30_000;
const THIN_EVERY_MS = 60 * MINUTE_MS;
const NO_CHANGE = { change24hBasisPoints: 0n, changeFrom: 'none', stale: false, reports: new Map<string, bigint>() } as const;

/** `sources` is the PRICES variable: names, or `static:BTC=97000.00,…`. Errors: it names what does not exist. */
export function createPrices({
  db,
  outgoing,
  clock,
  log,
  outages,
  sources,
  assets,
  fiat,
  hosts,
  pollMs = POLL_MS,
}: {
  db: Db;
  outgoing: Outgoing;
  clock: Clock;
  log: Log;
  outages?: Outages;
  sources: string;
  /** What to ask for; the native coins if absent. */
  assets?: readonly Asset[];
  /** Exchange rates, for assets that should be worth a currency. */
  fiat: Pick<FiatRates, 'quotable'>;
  hosts?: Hosts;
  pollMs?: number;
}): Prices {
  const fixed = readStatic(sources, isAsset, 'PRICES must look like static:BTC=97000.00,ETH=3500.00');
  const feeds = fixed ? [] : createSources(namesIn(sources), { ...(assets && { assets }), ...(hosts && { hosts }), clock });
  const memory: Memory = { db, clock, log, fixed, fiat, book: createBook(), isSeeded: false, storedAtMs: null, thinnedAtMs: null };
  const feed = createFeed({
    sources: feeds,
    outgoing,
    clock,
    log,
    outages,
    pollMs,
    take: (source, seen, at) => {
      const { aggregator } = feeds.find(({ name }) => name === source)!;
      takeVotes(memory.book, { source, aggregator, at }, seen);
    },
    decide: async () => {
      if (!memory.isSeeded) await seed(memory);
      decidePrices(memory.book, { ms: clock.monotonicMs(), date: clock.now() });
      await remember(memory);
    },
  });
  return {
    sources: feeds.map(({ name }) => name),
    look: (asset) => look(memory, asset),
    quotable: (asset, source = null) => quotable(memory, asset, source),
    valuing: (asset, source = null) => valuing(memory, asset, source),
    forTest: (asset, source = null) => {
      const found = quotable(memory, asset, source);
      if ('price' in found) return found.price;
      return { asset, priceE8: ASSET[asset].sampleE8, asOf: clock.now(), sources: ['sample'], ...NO_CHANGE, sample: true };
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

type Memory = {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  /** Static prices; null when sources are asked. */
  readonly fixed: ReadonlyMap<Asset, bigint> | null;
  readonly fiat: Pick<FiatRates, 'quotable'>;
  readonly book: Book;
  isSeeded: boolean;
  /** When prices were last stored, and old ones deleted, in monotonic time. */
  storedAtMs: number | null;
  thinnedAtMs: number | null;
};

function look({ clock, fixed, book }: Memory, asset: Asset): AgreedPrice | null {
  if (!fixed) return lookUp(book, asset, clock.monotonicMs());
  const priceE8 = fixed.get(asset);
  return priceE8 ? { asset, priceE8, asOf: clock.now(), sources: ['static'], ...NO_CHANGE, sample: false } : null;
}

function quotable(memory: Memory, asset: Asset, source: string | null): { price: AgreedPrice } | { reason: string } {
  if (!memory.fixed) {
    const found = quotableAt(memory.book, asset, memory.clock.monotonicMs());
    return 'price' in found ? atPar(preferring(found.price, source), memory.fiat) : found;
  }
  const price = look(memory, asset);
  return price ? { price } : { reason: 'PRICES does not set one' };
}

function valuing(memory: Memory, asset: Asset, source: string | null): AgreedPrice | null {
  if (memory.fixed) return look(memory, asset);
  const found = quotableAt(memory.book, asset, memory.clock.monotonicMs());
  return 'price' in found ? atMostPar(preferring(found.price, source), memory.fiat) : null;
}

/** Loads the prices of the last minutes on start, so that a jump across it is detected. */
async function seed(memory: Memory): Promise<void> {
  const { db, clock, log, book } = memory;
  const nowMs = clock.monotonicMs();
  const now = clock.now();
  try {
    for (const { asset, at, priceE8 } of await readRecentPrices(db, { now, withinMs: PAST_PRICES_MS })) {
      book.recent.set(asset, [{ at: nowMs - (now.getTime() - at.getTime()), priceE8 }, ...(book.recent.get(asset) ?? [])]);
    }
    book.dayAgo = await readDayAgo(db, now);
    memory.isSeeded = true;
  } catch (error) {
    log.warn({ err: error }, 'Could not read earlier prices');
  }
}

/** Stores the agreed prices once a minute, and deletes old ones once an hour. */
async function remember(memory: Memory): Promise<void> {
  const { db, clock, log, book } = memory;
  const nowMs = clock.monotonicMs();
  const isDue = (lastMs: number | null, everyMs: number) => lastMs === null || nowMs - lastMs >= everyMs;
  const prices = agreedPrices(book);
  if (prices.length === 0 || !isDue(memory.storedAtMs, HISTORY_MS)) return;
  memory.storedAtMs = nowMs;
  const minute = minuteOf(clock.now());
  try {
    await writePrices(db, minute, prices);
    book.dayAgo = await readDayAgo(db, clock.now());
    if (!isDue(memory.thinnedAtMs, THIN_EVERY_MS)) return;
    memory.thinnedAtMs = nowMs;
    await thinHistory(db, minute);
  } catch (error) {
    log.warn({ err: error }, 'Could not save prices');
  }
}

// Prices of the past in the database: one row per asset and minute, for jumps across a restart and the change of a day.

/** The time between two rows of an asset. */
const HISTORY_MS = MINUTE_MS;
/** The price of a day ago may be this much earlier or later. */
const DAY_AGO_SLACK_MS = 30 * MINUTE_MS;

/** Prices stored within this time, newest first. */
const readRecentPrices = (db: Db, { now, withinMs }: { now: Date; withinMs: number }) =>
  db.sql<{ asset: Asset; at: Date; priceE8: bigint }[]>`
    select coin as asset, at, price_e8 as "priceE8" from price_history
    where coin = any(${[...ASSETS]}) and at > ${addMs(now, -withinMs)} and at <= ${now} order by at desc`;

/** The price of each asset closest to the same time yesterday. */
async function readDayAgo(db: Db, now: Date): Promise<Map<Asset, bigint>> {
  const then = addMs(now, -DAY_MS);
  const rows = await db.sql<{ asset: Asset; priceE8: bigint }[]>`
    select distinct on (coin) coin as asset, price_e8 as "priceE8" from price_history
    where coin = any(${[...ASSETS]}) and at between ${addMs(then, -DAY_AGO_SLACK_MS)} and ${addMs(then, DAY_AGO_SLACK_MS)}
    order by coin, abs(extract(epoch from at - ${then}::timestamptz)), at`;
  return new Map(rows.map(({ asset, priceE8 }) => [asset, priceE8]));
}

export const minuteOf = (now: Date): Date => new Date(Math.floor(now.getTime() / HISTORY_MS) * HISTORY_MS);

/** Stores the prices of a minute, once even when several processes write them. */
async function writePrices(
  db: Db,
  minute: Date,
  prices: readonly { asset: Asset; priceE8: bigint; sources: readonly string[] }[],
): Promise<void> {
  const rows = prices.map(({ asset, priceE8, sources }) => ({ coin: asset, price_e8: priceE8.toString(), sources }));
  await db.sql`
    insert into price_history (coin, at, price_e8, sources)
    select r.coin, ${minute}, r.price_e8, r.sources
    from jsonb_to_recordset(${db.sql.json(rows as never)}) as r (coin text, price_e8 numeric, sources jsonb)
    on conflict do nothing`;
}

/** Keeps every minute for two days, then the first minute of every hour for 90 days. */
async function thinHistory(db: Db, now: Date): Promise<void> {
  await db.sql`
    delete from price_history h where coin = any(${[...ASSETS]}) and (at < ${addMs(now, -90 * DAY_MS)} or (at < ${addMs(now, -2 * DAY_MS)}
      and exists (select 1 from price_history e where e.coin = h.coin and e.at >= date_trunc('hour', h.at) and e.at < h.at)))`;
}
