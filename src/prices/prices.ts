/** Prices: the median of the fresh exchanges, in memory; quotes only on what is fresh and agreed. */
import type { Clock } from '../core/clock.ts';
import { COINS, type Coin, isCoin } from '../core/coin.ts';
import { parseDecimal } from '../core/money.ts';
import type { Db } from '../db/db.ts';
import type { Log } from '../log.ts';
import type { Outgoing } from '../outgoing.ts';
import { createSources, type Observed, SOURCE_HOSTS, type Source } from './sources.ts';

export type Price = {
  coin: Coin;
  /** USD per coin with eight decimals. */
  priceE8: bigint;
  asOf: Date;
  sources: readonly string[];
  /** Hundredths of a percent: 250n = +2.50 %. */
  change24hBasisPoints: bigint;
  /** Older than 120 s: never used for a quote. */
  stale: boolean;
  /** A labelled sample for test mode, used when no feed can be reached. */
  sample: boolean;
};
export type Prices = {
  /** The last good price, however old (null: none, or older than 10 min). */
  look(coin: Coin): Price | null;
  /** A price good enough for a live quote (<= 120 s, two agreeing sources or one static), or why not. Synchronous, from memory. */
  quotable(coin: Coin): { price: Price } | { reason: string };
  /** For test mode: the feed's price, else a labelled sample. Never fails. */
  forTest(coin: Coin): Price;
  start(): Promise<void>;
  stop(): Promise<void>;
};

const POLL_MS = 30_000;
const STALE_MS = 120_000;
const UNUSABLE_MS = 600_000;
const HISTORY_MS = 60_000;
const JUMP_LOOKBACK_MS = 300_000;
/** From the price of five minutes ago by more than this needs three agreeing sources. */
const JUMP_PERCENT = 15n;
/** A source further than this from the median does not agree, in percent. */
const OUTLIER_PERCENT = (coin: Coin): bigint => (coin === 'BTC' || coin === 'ETH' ? 2n : 3n);

/** Round figures for test mode without a feed; labelled as samples wherever they show. */
const SAMPLES: Readonly<Record<Coin, bigint>> = {
  BTC: 9_700_000_000_000n,
  ETH: 350_000_000_000n,
  LTC: 10_000_000_000n,
  DASH: 3_000_000_000n,
  DOGE: 20_000_000n,
};

type Vote = Observed & { source: string; at: number };

/**
 * The middle of the votes after those far from it are dropped, and who agreed; null below `needed`.
 * Two votes agree when they are within the outlier bound of each other.
 */
export function agree(
  coin: Coin,
  votes: readonly { source: string; priceE8: bigint }[],
  needed: number,
): { priceE8: bigint; sources: string[] } | null {
  const median = (values: readonly bigint[]): bigint => {
    const sorted = values.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    const middle = sorted.length >> 1;
    return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2n;
  };
  if (votes.length === 0) return null;
  const prices = votes.map((v) => v.priceE8);
  // The middle of two lies between them and would allow twice the bound: they are measured from the lower one.
  const first = median(prices.length === 2 ? [prices[0]! < prices[1]! ? prices[0]! : prices[1]!] : prices);
  const near = votes.filter((v) => {
    const apart = v.priceE8 > first ? v.priceE8 - first : first - v.priceE8;
    return apart * 100n <= first * OUTLIER_PERCENT(coin);
  });
  if (near.length < needed) return null;
  return { priceE8: median(near.map((v) => v.priceE8)), sources: near.map((v) => v.source) };
}

/** `sources` is the PRICES variable: names, or `static:BTC=97000.00,…`. Errors: it names what does not exist. */
export function createPrices({
  db,
  outgoing,
  clock,
  log,
  sources,
  hosts = SOURCE_HOSTS,
  pollMs = POLL_MS,
}: {
  db: Db;
  outgoing: Outgoing;
  clock: Clock;
  log: Log;
  sources: string;
  hosts?: Readonly<Record<string, string>>;
  pollMs?: number;
}): Prices {
  const fixed = sources.startsWith('static:') ? parseStatic(sources.slice(7)) : null;
  const feeds = fixed
    ? []
    : createSources(
        sources
          .split(',')
          .map((name) => name.trim())
          .filter(Boolean),
        hosts,
      );
  const votes = new Map<string, Vote>();
  const last = new Map<Coin, { price: Omit<Price, 'stale'>; at: number }>();
  const reasons = new Map<Coin, string>();
  const recent = new Map<Coin, { at: number; priceE8: bigint }[]>();
  const pauses = new Map<string, { until: number; failures: number }>();
  let timer: NodeJS.Timeout | null = null;
  let polling: Promise<void> = Promise.resolve();
  let storedAt = Number.NEGATIVE_INFINITY;

  const decide = (now: number) => {
    for (const coin of COINS) {
      const fresh = [...votes.values()].filter((v) => v.coin === coin && now - v.at <= STALE_MS);
      const agreed = agree(coin, fresh, 2);
      if (!agreed) {
        reasons.set(coin, fresh.length === 0 ? 'no price source answers' : 'the price sources do not agree');
        continue;
      }
      const past = (recent.get(coin) ?? []).filter((p) => now - p.at <= JUMP_LOOKBACK_MS);
      const before = past[0]?.priceE8 ?? agreed.priceE8;
      const jump = agreed.priceE8 > before ? agreed.priceE8 - before : before - agreed.priceE8;
      if (jump * 100n > before * JUMP_PERCENT && agreed.sources.length < 3) {
        reasons.set(coin, 'the price jumped and too few sources confirm it');
        continue;
      }
      reasons.delete(coin);
      recent.set(coin, [...past, { at: now, priceE8: agreed.priceE8 }]);
      const changes = fresh
        .flatMap((v) => (v.change24hBasisPoints === null ? [] : [v.change24hBasisPoints]))
        .toSorted((a, b) => (a < b ? -1 : 1));
      last.set(coin, {
        at: now,
        price: {
          coin,
          priceE8: agreed.priceE8,
          asOf: clock.now(),
          sources: agreed.sources,
          sample: false,
          change24hBasisPoints: changes[changes.length >> 1] ?? last.get(coin)?.price.change24hBasisPoints ?? 0n,
        },
      });
    }
  };
  const poll = async (): Promise<void> => {
    await Promise.all(feeds.map((feed) => ask(feed)));
    decide(clock.monotonicMs());
    await remember();
  };
  const ask = async (feed: Source): Promise<void> => {
    const pause = pauses.get(feed.name);
    if (pause && clock.monotonicMs() < pause.until) return;
    try {
      const seen = await feed.fetch(outgoing);
      // A coin that is not listed there is no fault; nothing at all is one, in whatever form it comes.
      if (seen.length === 0) throw new Error('no price in its answer');
      const at = clock.monotonicMs();
      for (const observed of seen) votes.set(`${feed.name} ${observed.coin}`, { ...observed, source: feed.name, at });
      pauses.delete(feed.name);
    } catch (error) {
      // An answer that is none is no vote; ask less often while it lasts.
      const failures = (pause?.failures ?? 0) + 1;
      pauses.set(feed.name, { failures, until: clock.monotonicMs() + Math.min(pollMs * 2 ** failures, UNUSABLE_MS) - pollMs });
      if (failures === 1)
        log.warn({ source: feed.name, reason: error instanceof Error ? error.message : String(error) }, 'a price source does not answer');
    }
  };
  const remember = async (): Promise<void> => {
    const now = clock.monotonicMs();
    const rows = [...last.values()].filter((entry) => now - entry.at <= pollMs);
    if (now - storedAt < HISTORY_MS || rows.length === 0) return;
    storedAt = now;
    try {
      await db.sql`
        insert into price_history (coin, at, price_e8, sources)
        select r.coin, r.at, r.price_e8, r.sources
        from jsonb_to_recordset(${db.sql.json(rows.map(({ price }) => ({ coin: price.coin, at: price.asOf, price_e8: price.priceE8.toString(), sources: price.sources })) as never)})
          as r (coin text, at timestamptz, price_e8 numeric, sources jsonb)
        on conflict do nothing`;
      await db.sql`delete from price_history where at < clock_timestamp() - interval '90 days'`;
    } catch (error) {
      log.warn({ err: error }, 'prices could not be written down');
    }
  };
  const staticPrice = (coin: Coin): Price | null => {
    const priceE8 = fixed?.get(coin);
    return priceE8
      ? { coin, priceE8, asOf: clock.now(), sources: ['static'], change24hBasisPoints: 0n, stale: false, sample: false }
      : null;
  };
  const look = (coin: Coin): Price | null => {
    if (fixed) return staticPrice(coin);
    const entry = last.get(coin);
    const age = entry ? clock.monotonicMs() - entry.at : Number.POSITIVE_INFINITY;
    return entry && age <= UNUSABLE_MS ? { ...entry.price, stale: age > STALE_MS } : null;
  };
  const quotable: Prices['quotable'] = (coin) => {
    const price = look(coin);
    if (price && !price.stale && !reasons.has(coin)) return { price };
    return { reason: reasons.get(coin) ?? (fixed ? 'PRICES sets none' : 'the last price is too old') };
  };
  return {
    look,
    quotable,
    forTest: (coin) => {
      const found = quotable(coin);
      return 'price' in found
        ? found.price
        : { coin, priceE8: SAMPLES[coin], asOf: clock.now(), sources: ['sample'], change24hBasisPoints: 0n, stale: false, sample: true };
    },
    start: async () => {
      if (fixed || timer) return;
      // The first answers are not waited for: a feed that hangs must not hold up the start.
      polling = poll();
      timer = setInterval(() => {
        polling = polling.then(poll).catch((error: unknown) => log.error({ err: error }, 'reading prices failed'));
      }, pollMs);
      timer.unref();
    },
    stop: async () => {
      if (timer) clearInterval(timer);
      timer = null;
      await polling.catch(() => {});
    },
  };
}

function parseStatic(text: string): Map<Coin, bigint> {
  return new Map(
    text
      .split(',')
      .filter(Boolean)
      .map((part): [Coin, bigint] => {
        const [coin = '', amount = ''] = part.trim().split('=');
        const priceE8 = parseDecimal(amount, 8);
        if (!isCoin(coin) || priceE8 === null || priceE8 === 0n)
          throw new Error(`PRICES must look like static:BTC=97000.00,ETH=3500.00; ${part} does not`);
        return [coin, priceE8];
      }),
  );
}
