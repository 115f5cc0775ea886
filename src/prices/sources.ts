/** Price sources: one request each for all coins, answers read from their source text so that no float touches a price. */
import { COINS, type Coin } from '../core/coin.ts';
import { parseDecimal } from '../core/money.ts';
import type { Outgoing } from '../outgoing.ts';

/** One source's word on one coin. */
export type Observed = { coin: Coin; priceE8: bigint; change24hBasisPoints: bigint | null };
export type Source = { name: string; fetch(outgoing: Outgoing): Promise<Observed[]> };

export const SOURCE_HOSTS: Readonly<Record<string, string>> = {
  coinbase: 'https://api.exchange.coinbase.com',
  kraken: 'https://api.kraken.com',
  bitfinex: 'https://api-pub.bitfinex.com',
};
const TIMEOUT_MS = 8_000;
const MAX_BYTES = 262_144;

/** Every number stays the text it was: JSON numbers become strings. */
const parseExact = (text: string): unknown =>
  JSON.parse(text, ((_key: string, value: unknown, context: { source: string }) =>
    typeof value === 'number' ? context.source : value) as (key: string, value: unknown) => unknown);

/** A positive price of at most eight decimals kept; more are cut. Null when it is none. */
function priceOf(value: unknown): bigint | null {
  const match = typeof value === 'string' ? /^(\d{1,12})(?:\.(\d+))?$/.exec(value) : null;
  const price = match ? parseDecimal(`${match[1]!.replace(/^0+(?=\d)/, '')}.${(match[2] ?? '0').slice(0, 8)}`, 8) : null;
  return price !== null && price > 0n ? price : null;
}
/** Percent change from `before` to `now`, in hundredths of a percent. */
const changeOf = (now: bigint, before: bigint | null): bigint | null => (before === null ? null : ((now - before) * 10_000n) / before);

async function getJson(outgoing: Outgoing, url: string): Promise<unknown> {
  const reply = await outgoing.request({
    url,
    headers: { accept: 'application/json', 'user-agent': 'florin' },
    timeoutMs: TIMEOUT_MS,
    maxReplyBytes: MAX_BYTES,
    over: 'refuse',
  });
  if (reply.status !== 200) throw new Error(`status ${reply.status}`);
  return parseExact(Buffer.from(reply.body).toString());
}
const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const coinbase = (host: string): Source => ({
  name: 'coinbase',
  fetch: async (outgoing) => {
    const found = await Promise.allSettled(
      COINS.map(async (coin): Promise<Observed | null> => {
        const stats = record(await getJson(outgoing, `${host}/products/${coin}-USD/stats`));
        const priceE8 = priceOf(stats.last);
        return priceE8 === null ? null : { coin, priceE8, change24hBasisPoints: changeOf(priceE8, priceOf(stats.open)) };
      }),
    );
    return found.flatMap((f) => (f.status === 'fulfilled' && f.value ? [f.value] : []));
  },
});

const KRAKEN_PAIRS: Readonly<Record<Coin, [asked: string, ...answered: string[]]>> = {
  BTC: ['XBTUSD', 'XXBTZUSD'],
  ETH: ['ETHUSD', 'XETHZUSD'],
  LTC: ['LTCUSD', 'XLTCZUSD'],
  DASH: ['DASHUSD'],
  DOGE: ['XDGUSD', 'XXDGZUSD'],
};
const kraken = (host: string): Source => ({
  name: 'kraken',
  fetch: async (outgoing) => {
    const result = record(
      record(await getJson(outgoing, `${host}/0/public/Ticker?pair=${COINS.map((c) => KRAKEN_PAIRS[c][0]).join(',')}`)).result,
    );
    return COINS.flatMap((coin): Observed[] => {
      const ticker = KRAKEN_PAIRS[coin].map((key) => result[key]).find((value) => value !== undefined);
      // `o` is the opening of the UTC day, not of 24 hours ago: no change from here.
      const priceE8 = priceOf(list(record(ticker).c)[0]);
      return priceE8 ? [{ coin, priceE8, change24hBasisPoints: null }] : [];
    });
  },
});

const BITFINEX_SYMBOLS: Readonly<Record<Coin, string>> = {
  BTC: 'tBTCUSD',
  ETH: 'tETHUSD',
  LTC: 'tLTCUSD',
  DASH: 'tDSHUSD',
  DOGE: 'tDOGE:USD',
};
const bitfinex = (host: string): Source => ({
  name: 'bitfinex',
  fetch: async (outgoing) => {
    const rows = list(await getJson(outgoing, `${host}/v2/tickers?symbols=${COINS.map((c) => BITFINEX_SYMBOLS[c]).join(',')}`));
    return COINS.flatMap((coin): Observed[] => {
      const row = list(rows.find((r) => list(r)[0] === BITFINEX_SYMBOLS[coin]));
      const priceE8 = priceOf(row[7]);
      const change = typeof row[6] === 'string' ? /^(-?)(\d+)(?:\.(\d+))?$/.exec(row[6]) : null;
      const points = change && BigInt(`${change[2]}${(change[3] ?? '').padEnd(4, '0').slice(0, 4)}`) * (change[1] ? -1n : 1n);
      return priceE8 ? [{ coin, priceE8, change24hBasisPoints: points }] : [];
    });
  },
});

const ADAPTERS: Readonly<Record<string, (host: string) => Source>> = { coinbase, kraken, bitfinex };

/** The sources named in PRICES. Errors: an unknown name. */
export function createSources(names: readonly string[], hosts: Readonly<Record<string, string>>): Source[] {
  return names.map((name) => {
    const adapter = Object.hasOwn(ADAPTERS, name) ? ADAPTERS[name] : undefined;
    if (!adapter) throw new Error(`PRICES names ${name}; known are ${Object.keys(ADAPTERS).join(', ')} and static:`);
    return adapter(hosts[name]!);
  });
}
