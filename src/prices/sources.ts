/** Price sources, each parsed in its own format from the response text, so that no price passes through a float. */
import type { Outgoing } from '#connections';
import { ASSET, type Asset, type Market, NATIVE_ASSETS } from '#core/coin';
import type { Clock } from '#core/dates';
import { E8, parseDecimal, parseExactJson } from '#core/money';
import type { FeedSource } from './feed.ts';

/** The report of one source on one asset. */
type ObservedPrice = { asset: Asset; priceE8: bigint; change24hBasisPoints: bigint | null };
type PriceSource = FeedSource<readonly ObservedPrice[]> & {
  aggregator: boolean;
  /** Coins that the source does not list: not requested for an hour. */
  unlisted(): readonly Asset[];
};
export type Hosts = Readonly<Record<string, string>>;

export const SOURCE_HOSTS: Hosts = {
  coinbase: 'https://api.exchange.coinbase.com',
  kraken: 'https://api.kraken.com',
  bitstamp: 'https://www.bitstamp.net',
  bitfinex: 'https://api-pub.bitfinex.com',
  coingecko: 'https://api.coingecko.com',
};
const TIMEOUT_MS = 8_000;
const MAX_BYTES = 262_144;
const UNLISTED_MS = 3_600_000;
/** An aggregator's price older than this is ignored. */
const AGGREGATE_AGE_MS = 300_000;

/** A positive price, cut to eight decimals. Null when it is invalid. */
export function readPositivePrice(value: unknown): bigint | null {
  const match = typeof value === 'string' ? /^(\d{1,12})(?:\.(\d+))?$/.exec(value) : null;
  const price = match ? parseDecimal(`${match[1]!.replace(/^0+(?=\d)/, '')}.${(match[2] ?? '0').slice(0, 8)}`, 8) : null;
  return price !== null && price > 0n ? price : null;
}
/** A signed change times 10^`decimals`, truncated. Tiny values may have an exponent. */
function changeText(value: unknown, decimals: number): bigint | null {
  const match = typeof value === 'string' ? /^(-?)(\d{1,9})(?:\.(\d+))?(?:[eE](-\d{1,2}))?$/.exec(value) : null;
  if (!match) return null;
  const digits = match[2]! + (match[3] ?? '').padEnd(decimals, '0').slice(0, decimals);
  const change = BigInt(digits) / 10n ** BigInt(-Number(match[4] ?? 0));
  return match[1] ? -change : change;
}
/** Percent change from `before` to `now`, in hundredths of a percent. */
const changeOf = (now: bigint, before: bigint | null): bigint | null => (before === null ? null : ((now - before) * 10_000n) / before);
/** A market without trades for a day: its price is out of date. */
export const isDead = (volume: unknown): boolean => typeof volume === 'string' && /^0+(?:\.0+)?$/.test(volume);

const observed = (asset: Asset, priceE8: bigint | null, change24hBasisPoints: bigint | null): ObservedPrice | null =>
  priceE8 === null ? null : { asset, priceE8, change24hBasisPoints };

/** Which of the assets have a market at a source, by the table. */
const tradedAt = (market: Market, assets: readonly Asset[]): Asset[] =>
  assets.filter((asset) => ASSET[asset].markets[market] !== undefined);

class StatusError extends Error {
  readonly status: number;
  readonly body: string;
  constructor(status: number, body: string) {
    super(`it answers status ${status}`);
    this.status = status;
    this.body = body;
  }
}
export async function getText(outgoing: Outgoing, url: string, accept = 'application/json'): Promise<string> {
  const reply = await outgoing.request({
    url,
    headers: { accept, 'user-agent': 'florin' },
    timeoutMs: TIMEOUT_MS,
    maxReplyBytes: MAX_BYTES,
    over: 'refuse',
  });
  const body = Buffer.from(reply.body).toString();
  if (reply.status !== 200) throw new StatusError(reply.status, body);
  return body;
}
export async function getJson(outgoing: Outgoing, url: string): Promise<unknown> {
  const body = await getText(outgoing, url);
  try {
    return parseExactJson(body);
  } catch (cause) {
    throw new Error('it answers no JSON', { cause });
  }
}
export const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Which assets to ask for: those that the table names a market for, without those that the source said it does not list. */
type Listing = { traded: readonly Asset[]; assets(): Asset[]; lacks(asset: Asset): void };
/** Fetches the prices of some assets, or a reason; reports unlisted assets to `listing`. */
type Ask = (outgoing: Outgoing, listing: Listing, now: Date) => Promise<(ObservedPrice | null)[]>;

/** One request per asset. An exchange that fails for every asset has failed. */
const each =
  (one: (outgoing: Outgoing, asset: Asset) => Promise<ObservedPrice | null>): Ask =>
  async (outgoing, listing) => {
    const assets = listing.assets();
    const found = await Promise.allSettled(assets.map((asset) => one(outgoing, asset)));
    let failure: unknown = null;
    const seen = found.flatMap((f, i) => {
      if (f.status === 'fulfilled') return [f.value];
      if (f.reason instanceof StatusError && f.reason.status === 404) listing.lacks(assets[i]!);
      else failure ??= f.reason;
      return [];
    });
    if (failure !== null && seen.every((o) => o === null)) throw failure;
    return seen;
  };

const coinbase = (host: string): Ask =>
  each(async (outgoing, asset) => {
    const stats = record(await getJson(outgoing, `${host}/products/${ASSET[asset].markets.coinbase!}/stats`));
    const priceE8 = isDead(stats.volume) ? null : readPositivePrice(stats.last);
    return observed(asset, priceE8, priceE8 && changeOf(priceE8, readPositivePrice(stats.open)));
  });

const bitstamp = (host: string): Ask =>
  each(async (outgoing, asset) => {
    const ticker = record(await getJson(outgoing, `${host}/api/v2/ticker/${ASSET[asset].markets.bitstamp!}/`));
    const priceE8 = isDead(ticker.volume) ? null : readPositivePrice(ticker.last);
    return observed(asset, priceE8, changeText(ticker.percent_change_24, 2));
  });

type KrakenPair = readonly [asked: string, ...answered: string[]];
const krakenPair = (asset: Asset): KrakenPair => ASSET[asset].markets.kraken!;
/** The last prices of pairs by requested name; `unknown` when Kraken rejects a pair. */
async function krakenTicker(outgoing: Outgoing, host: string, pairs: readonly KrakenPair[]) {
  const reply = record(await getJson(outgoing, `${host}/0/public/Ticker?pair=${pairs.map(([asked]) => asked).join(',')}`));
  const errors = list(reply.error).map(String);
  const result = record(reply.result);
  const unknown = errors.some((error) => /unknown asset pair/i.test(error));
  if (errors.length > 0 && !unknown && Object.keys(result).length === 0) throw new Error(`it answers ${errors.join(', ')}`);
  const prices = new Map<string, bigint | null>();
  for (const pair of pairs) {
    const ticker = pair.map((key) => result[key]).find((value) => value !== undefined);
    if (ticker === undefined) continue;
    const { c, v } = record(ticker);
    prices.set(pair[0], isDead(list(v)[1]) ? null : readPositivePrice(list(c)[0]));
  }
  return { prices, unknown };
}
/** Like `krakenTicker`, but when an unknown pair fails the whole request, each missing pair is requested alone. */
export async function readKraken(
  outgoing: Outgoing,
  host: string,
  pairs: readonly KrakenPair[],
): Promise<{ prices: Map<string, bigint | null>; unlisted: readonly string[] }> {
  const { prices, unknown } = await krakenTicker(outgoing, host, pairs);
  const missing = pairs.filter(([asked]) => !prices.has(asked));
  if (!unknown || pairs.length === 1) return { prices, unlisted: unknown ? missing.map(([asked]) => asked) : [] };
  const alone = await Promise.all(missing.map((pair) => krakenTicker(outgoing, host, [pair])));
  for (const found of alone) for (const [asked, price] of found.prices) prices.set(asked, price);
  return { prices, unlisted: missing.flatMap(([asked], i) => (alone[i]!.unknown ? [asked] : [])) };
}

const kraken =
  (host: string): Ask =>
  async (outgoing, listing) => {
    const assets = listing.assets();
    const { prices, unlisted } = await readKraken(outgoing, host, assets.map(krakenPair));
    return assets.map((asset) => {
      const [asked] = krakenPair(asset);
      if (unlisted.includes(asked)) listing.lacks(asset);
      // `o` is the opening of the UTC day, not of 24 hours ago: no change from here.
      return observed(asset, prices.get(asked) ?? null, null);
    });
  };

const bitfinex =
  (host: string): Ask =>
  async (outgoing, listing) => {
    const assets = listing.assets();
    const read = async (asked: readonly Asset[]) =>
      list(await getJson(outgoing, `${host}/v2/tickers?symbols=${asked.map((one) => ASSET[one].markets.bitfinex!).join(',')}`));
    const isUnknown = (error: unknown) => error instanceof StatusError && error.body.includes('symbol: invalid');
    const rows = await read(assets).catch(async (error: unknown) => {
      if (!isUnknown(error)) throw error;
      return (
        await Promise.all(
          assets.map((asset) =>
            read([asset]).catch((alone: unknown) => {
              if (!isUnknown(alone)) throw alone;
              return [];
            }),
          ),
        )
      ).flat();
    });
    return assets.map((asset) => {
      const row = list(rows.find((r) => list(r)[0] === ASSET[asset].markets.bitfinex));
      if (rows.length > 0 && row.length === 0) listing.lacks(asset);
      const priceE8 = isDead(row[8]) ? null : readPositivePrice(row[7]);
      return observed(asset, priceE8, changeText(row[6], 4));
    });
  };

const coingecko =
  (host: string): Ask =>
  async (outgoing, listing, now) => {
    const assets = listing.traded;
    const ids = assets.map((asset) => ASSET[asset].markets.coingecko!).join(',');
    const reply = record(
      await getJson(
        outgoing,
        `${host}/api/v3/simple/price?ids=${ids}&vs_currencies=usd&include_24hr_change=true&include_last_updated_at=true`,
      ),
    );
    return assets.map((asset) => {
      const entry = reply[ASSET[asset].markets.coingecko!];
      if (entry === undefined) listing.lacks(asset);
      const { usd, usd_24h_change: change, last_updated_at: updated } = record(entry);
      const isOld = typeof updated === 'string' && now.getTime() - Number(updated) * 1000 > AGGREGATE_AGE_MS;
      const priceE8 = isOld ? null : readPositivePrice(usd);
      return observed(asset, priceE8, changeText(change, 2));
    });
  };

const ADAPTERS: Readonly<Record<Market, { ask(host: string): Ask; aggregator?: true; everyMs?: number }>> = {
  coinbase: { ask: coinbase },
  kraken: { ask: kraken },
  bitstamp: { ask: bitstamp },
  bitfinex: { ask: bitfinex },
  // Its data changes once a minute, and few requests are allowed without a key.
  coingecko: { ask: coingecko, aggregator: true, everyMs: 60_000 },
};
export const SOURCES: readonly string[] = Object.keys(ADAPTERS);
const isMarket = (name: string): name is Market => Object.hasOwn(ADAPTERS, name);

/** The sources named in PRICES, each once, which are asked for these assets. Errors: an unknown name. */
export function createSources(
  names: readonly string[],
  { assets = NATIVE_ASSETS, hosts = SOURCE_HOSTS, clock }: { assets?: readonly Asset[]; hosts?: Hosts; clock: Clock },
): PriceSource[] {
  return [...new Set(names)].map((name): PriceSource => {
    if (!isMarket(name)) throw new Error(`PRICES names ${name}; known are ${SOURCES.join(', ')} and static:`);
    const adapter = ADAPTERS[name];
    const traded = tradedAt(name, assets);
    const ask = adapter.ask(hosts[name]!);
    const until = new Map<Asset, number>();
    const isUnlisted = (asset: Asset) => clock.monotonicMs() < (until.get(asset) ?? 0);
    const listing: Listing = {
      traded,
      assets: () => traded.filter((asset) => !isUnlisted(asset)),
      lacks: (asset) => until.set(asset, clock.monotonicMs() + UNLISTED_MS),
    };
    return {
      name,
      aggregator: adapter.aggregator ?? false,
      everyMs: adapter.everyMs ?? 0,
      unlisted: () => assets.filter((asset) => !traded.includes(asset) || isUnlisted(asset)),
      fetch: async (outgoing) => {
        // An unlisted asset is not a failure. No data at all is one, whatever its form.
        const seen = (await ask(outgoing, listing, clock.now())).filter((o) => o !== null);
        if (seen.length === 0) throw new Error('its answer contains no price');
        return seen;
      },
    };
  });
}

/** Inverts a rate: units of the other currency per one, when `priceE8` is units of one per the other. */
export const inverse = (priceE8: bigint): bigint => (E8 * E8 + priceE8 / 2n) / priceE8;

/** The names in a setting, separated by commas. */
export const namesIn = (text: string): string[] =>
  text
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);

/** The fixed values of `static:NAME=1.00,...`, with eight decimals; null for other settings. Errors: `expected`, with the invalid part. */
export function readStatic<Name extends string>(
  setting: string,
  isName: (name: string) => name is Name,
  expected: string,
): Map<Name, bigint> | null {
  if (!setting.startsWith('static:')) return null;
  return new Map(
    setting
      .slice('static:'.length)
      .split(',')
      .filter(Boolean)
      .map((part): [Name, bigint] => {
        const [name = '', amount = ''] = part.trim().split('=');
        const valueE8 = parseDecimal(amount, 8);
        if (!isName(name) || valueE8 === null || valueE8 === 0n) throw new Error(`${expected}; ${part} does not`);
        return [name, valueE8];
      }),
  );
}
