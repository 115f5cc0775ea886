/** Exchange rates of other currencies to the US dollar, as agreed between exchanges and reference rates, in memory. */
import type { Outgoing } from '#connections';
import { addMs, type Clock, DAY_MS, earliest, HOUR_MS, MINUTE_MS } from '#core/dates';
import { FIATS, type Fiat, isFiat } from '#core/fiat';
import { E8, parseDecimal } from '#core/money';
import type { Log } from '#log';
import { agree } from './agreement.ts';
import { createFeed, type FeedSource, type Outages } from './feed.ts';
import { getJson, getText, type Hosts, inverse, isDead, namesIn, readKraken, readPositivePrice, readStatic, record } from './sources.ts';

type FiatRate = {
  currency: Fiat;
  /** Units of the currency per US dollar, with eight decimals. */
  rateE8: bigint;
  asOf: Date;
  sources: readonly string[];
  /** A labelled sample for test mode, used when no source can be reached. */
  sample: boolean;
};
type FiatReport = { name: string; currencies: readonly Fiat[]; failure: string | null };
export type FiatRates = {
  /** A rate good enough for a live payment, or why there is none. Synchronous, from memory. */
  quotable(currency: Fiat): { rate: FiatRate } | { reason: string };
  /** For test mode: the rate, else a labelled sample. Never fails. */
  forTest(currency: Fiat): FiatRate;
  /** Asks every source now. Empty with static rates. */
  check(): Promise<FiatReport[]>;
  start(): Promise<void>;
  stop(): Promise<void>;
};

export const FIAT_HOSTS: Hosts = {
  coinbase: 'https://api.coinbase.com',
  kraken: 'https://api.kraken.com',
  bitstamp: 'https://www.bitstamp.net',
  coingecko: 'https://api.coingecko.com',
  bitpay: 'https://bitpay.com',
  ecb: 'https://www.ecb.europa.eu',
};
const POLL_MS = 5 * MINUTE_MS;
/** How long a rate from an exchange is valid. */
const STALE_MS = 15 * MINUTE_MS;
/** Central bank rates are valid over weekends and holidays: those of Maundy Thursday until the Tuesday after Easter. */
const REFERENCE_STALE_MS = 6 * DAY_MS;
/** Sources further from the median than this do not agree, in percent. */
const OUTLIER_PERCENT = 2n;
/** Currencies are fixed at about 14:15 in Frankfurt and published by 16:00, 15:00 UTC in winter. */
const ECB_HOUR = 15;

/** Approximate rates for test mode without a source, labeled as samples wherever they are shown. */
const SAMPLES: Readonly<Record<Fiat, string>> = {
  USD: '1',
  EUR: '0.92',
  GBP: '0.79',
  CAD: '1.37',
  AUD: '1.52',
  CHF: '0.88',
  JPY: '150',
  AED: '3.67',
  ALL: '83',
  AMD: '382',
  AOA: '915',
  ARS: '1400',
  AWG: '1.8',
  AZN: '1.7',
  BAM: '1.8',
  BBD: '2',
  BDT: '120',
  BHD: '0.377',
  BIF: '2950',
  BMD: '1',
  BND: '1.3',
  BOB: '6.9',
  BRL: '5.4',
  BSD: '1',
  BTN: '88',
  BWP: '13.5',
  BYN: '3',
  BZD: '2',
  CDF: '2300',
  CLP: '940',
  CNY: '7.2',
  COP: '3800',
  CRC: '505',
  CVE: '95',
  CZK: '23',
  DJF: '178',
  DKK: '6.9',
  DOP: '63',
  DZD: '130',
  EGP: '48',
  ETB: '153',
  FJD: '2.3',
  GEL: '2.7',
  GHS: '11',
  GIP: '0.76',
  GMD: '73',
  GNF: '8700',
  GTQ: '7.7',
  GYD: '209',
  HKD: '7.8',
  HNL: '26',
  HTG: '131',
  HUF: '360',
  IDR: '16000',
  ILS: '3.6',
  INR: '84',
  IQD: '1310',
  ISK: '138',
  JMD: '161',
  JOD: '0.709',
  KES: '129',
  KGS: '87',
  KHR: '4010',
  KMF: '424',
  KRW: '1370',
  KWD: '0.307',
  KYD: '0.83',
  KZT: '520',
  LAK: '21700',
  LKR: '300',
  LRD: '180',
  LSL: '17',
  MAD: '9.3',
  MDL: '17',
  MGA: '4500',
  MKD: '53',
  MNT: '3560',
  MOP: '8',
  MUR: '46',
  MVR: '15.4',
  MWK: '1735',
  MXN: '19',
  MYR: '4.4',
  MZN: '64',
  NAD: '17',
  NGN: '1450',
  NIO: '36.8',
  NOK: '10.7',
  NPR: '141',
  NZD: '1.65',
  OMR: '0.3845',
  PAB: '1',
  PEN: '3.4',
  PGK: '4.2',
  PHP: '57',
  PKR: '280',
  PLN: '3.9',
  PYG: '7000',
  QAR: '3.64',
  RON: '4.6',
  RSD: '101',
  RWF: '1455',
  SAR: '3.75',
  SBD: '8.2',
  SCR: '14',
  SEK: '10.5',
  SGD: '1.34',
  SRD: '38',
  SZL: '17',
  THB: '35',
  TJS: '9.3',
  TND: '2.9',
  TOP: '2.4',
  TRY: '40',
  TTD: '6.8',
  TWD: '32',
  TZS: '2450',
  UAH: '41',
  UGX: '3600',
  UYU: '39.5',
  UZS: '12000',
  VND: '25000',
  VUV: '121',
  WST: '2.75',
  XAF: '565',
  XCD: '2.7',
  XOF: '565',
  XPF: '103',
  ZAR: '18',
  ZMW: '22',
};

type Rates = ReadonlyMap<Fiat, bigint>;
/** The report of one source; `asOf` if it includes a time. */
type RateReport = { rates: Rates; asOf: Date | null };
type Ask = (outgoing: Outgoing) => Promise<{ rates: Iterable<readonly [string, bigint | null]>; asOf?: Date }>;

const coinbase =
  (host: string): Ask =>
  async (outgoing) => {
    const data = record(record(await getJson(outgoing, `${host}/v2/exchange-rates?currency=USD`)).data);
    if (data.currency !== 'USD') throw new Error('it answers the rates of another currency');
    return { rates: Object.entries(record(data.rates)).map(([currency, rate]) => [currency, readPositivePrice(rate)]) };
  };

/** Pairs as Kraken names them; those quoted per dollar are inverted. */
const KRAKEN_PAIRS: readonly { currency: Fiat; pair: readonly [string, ...string[]]; turned: boolean }[] = [
  { currency: 'EUR', pair: ['EURUSD', 'ZEURZUSD'], turned: true },
  { currency: 'GBP', pair: ['GBPUSD', 'ZGBPZUSD'], turned: true },
  { currency: 'AUD', pair: ['AUDUSD', 'ZAUDZUSD'], turned: true },
  { currency: 'CAD', pair: ['USDCAD', 'ZUSDZCAD'], turned: false },
  { currency: 'CHF', pair: ['USDCHF', 'ZUSDZCHF'], turned: false },
  { currency: 'JPY', pair: ['USDJPY', 'ZUSDZJPY'], turned: false },
];
const kraken =
  (host: string): Ask =>
  async (outgoing) => {
    const { prices } = await readKraken(
      outgoing,
      host,
      KRAKEN_PAIRS.map(({ pair }) => pair),
    );
    return {
      rates: KRAKEN_PAIRS.map(({ currency, pair, turned }) => {
        const price = prices.get(pair[0]) ?? null;
        return [currency, price && turned ? inverse(price) : price];
      }),
    };
  };

const bitstamp =
  (host: string): Ask =>
  async (outgoing) => ({
    rates: await Promise.all(
      (['EUR', 'GBP'] as const).map(async (currency) => {
        const ticker = record(await getJson(outgoing, `${host}/api/v2/ticker/${currency.toLowerCase()}usd/`));
        const price = isDead(ticker.volume) ? null : readPositivePrice(ticker.last);
        return [currency, price && inverse(price)] as const;
      }),
    ),
  });

/** What one bitcoin costs in each currency, divided by its price in dollars. */
function ratesByBitcoin(prices: Iterable<readonly [string, unknown]>): { rates: [string, bigint | null][] } {
  const read = new Map([...prices].map(([currency, price]) => [currency, readPositivePrice(price)]));
  const usd = read.get('USD');
  if (!usd) throw new Error('no rate is in its answer');
  return { rates: [...read].map(([currency, price]) => [currency, price && (price * E8) / usd]) };
}
const coingecko =
  (host: string): Ask =>
  async (outgoing) => {
    const wanted = FIATS.map((currency) => currency.toLowerCase()).join(',');
    const bitcoin = record(record(await getJson(outgoing, `${host}/api/v3/simple/price?ids=bitcoin&vs_currencies=${wanted}`)).bitcoin);
    return ratesByBitcoin(Object.entries(bitcoin).map(([currency, price]) => [currency.toUpperCase(), price]));
  };
const bitpay =
  (host: string): Ask =>
  async (outgoing) => {
    const { data } = record(await getJson(outgoing, `${host}/rates/BTC`));
    const list = (Array.isArray(data) ? data : []).map(record);
    return ratesByBitcoin(list.map(({ code, rate }) => [String(code), rate]));
  };

/** The daily reference rates of the European Central Bank: units per euro. */
const ecb =
  (host: string): Ask =>
  async (outgoing) => {
    const xml = await getText(outgoing, `${host}/stats/eurofxref/eurofxref-daily.xml`, 'application/xml');
    const day = /<Cube time=['"](\d{4}-\d\d-\d\d)['"]/.exec(xml)?.[1];
    const perEuro = new Map<string, bigint | null>([['EUR', E8]]);
    for (const [, currency, rate] of xml.matchAll(/<Cube currency=['"]([A-Z]{3})['"] rate=['"]([\d.]+)['"]/g))
      perEuro.set(currency!, readPositivePrice(rate));
    const usd = perEuro.get('USD');
    if (day === undefined || !usd) throw new Error('no rate is in its answer');
    return {
      rates: [...perEuro].map(([currency, rate]) => [currency, rate && (rate * E8) / usd]),
      asOf: addMs(new Date(`${day}T00:00:00Z`), ECB_HOUR * HOUR_MS),
    };
  };

const ADAPTERS: Readonly<Record<string, { ask(host: string): Ask; everyMs?: number; reference?: true }>> = {
  coinbase: { ask: coinbase },
  kraken: { ask: kraken },
  bitstamp: { ask: bitstamp },
  coingecko: { ask: coingecko },
  bitpay: { ask: bitpay },
  ecb: { ask: ecb, everyMs: HOUR_MS, reference: true },
};
export const FIAT_SOURCES: readonly string[] = Object.keys(ADAPTERS);

function createFiatSources(names: readonly string[], hosts: Hosts): (FeedSource<RateReport> & { reference: boolean })[] {
  return [...new Set(names)].map((name) => {
    const adapter = Object.hasOwn(ADAPTERS, name) ? ADAPTERS[name] : undefined;
    if (!adapter) throw new Error(`FIAT_RATES names ${name}; known are ${FIAT_SOURCES.join(', ')} and static:`);
    const ask = adapter.ask(hosts[name]!);
    return {
      name,
      everyMs: adapter.everyMs ?? 0,
      reference: adapter.reference ?? false,
      fetch: async (outgoing) => {
        const { rates, asOf } = await ask(outgoing);
        const known = new Map<Fiat, bigint>();
        for (const [currency, rate] of rates) if (isFiat(currency) && currency !== 'USD' && rate) known.set(currency, rate);
        if (known.size === 0) throw new Error('no rate is in its answer');
        return { rates: known, asOf: asOf ?? null };
      },
    };
  });
}

/** `sources` is the FIAT_RATES variable: names, `static:EUR=0.92,…`, or nothing. Errors: it names what does not exist. */
export function createFiatRates({
  outgoing,
  clock,
  log,
  outages,
  sources,
  hosts = FIAT_HOSTS,
  pollMs = POLL_MS,
}: {
  outgoing: Outgoing;
  clock: Clock;
  log: Log;
  outages?: Outages;
  sources: string;
  hosts?: Hosts;
  pollMs?: number;
}): FiatRates {
  const isPriced = (name: string): name is Fiat => isFiat(name) && name !== 'USD';
  const fixed = readStatic(sources, isPriced, 'FIAT_RATES must look like static:EUR=0.92,JPY=150 (units for one US dollar)');
  const feeds = fixed ? [] : createFiatSources(namesIn(sources), hosts);
  /** The last report of each source: `until` when it is valid, in monotonic time, and as of when. */
  const votes = new Map<string, { rates: Rates; until: number; asOf: Date }>();
  const feed = createFeed({
    sources: feeds,
    outgoing,
    clock,
    log,
    outages,
    pollMs,
    take: (source, { rates, asOf }, askedAtMs) => {
      const now = clock.now();
      const asked = addMs(now, askedAtMs - clock.monotonicMs());
      const { reference } = feeds.find(({ name }) => name === source)!;
      const from = asOf ? earliest(asOf, asked) : asked;
      const age = now.getTime() - from.getTime();
      votes.set(source, { rates, until: clock.monotonicMs() + (reference ? REFERENCE_STALE_MS : STALE_MS) - age, asOf: from });
    },
    decide: async () => {},
  });

  const quotable: FiatRates['quotable'] = (currency) => {
    if (currency === 'USD') return { rate: { currency, rateE8: E8, asOf: clock.now(), sources: [], sample: false } };
    if (fixed) {
      const rateE8 = fixed.get(currency);
      return rateE8
        ? { rate: { currency, rateE8, asOf: clock.now(), sources: ['static'], sample: false } }
        : { reason: 'FIAT_RATES sets none' };
    }
    if (feeds.length === 0) return { reason: 'FIAT_RATES names no source' };
    const now = clock.monotonicMs();
    const known = feeds.flatMap(({ name: source, reference }) => {
      const vote = votes.get(source);
      const priceE8 = vote?.rates.get(currency);
      return vote && priceE8 !== undefined ? [{ source, priceE8, reference, until: vote.until, asOf: vote.asOf }] : [];
    });
    const fresh = known.filter(({ until }) => now <= until);
    // Daily rates are used where there are too few current ones.
    const live = fresh.filter(({ reference }) => !reference);
    const agreed = agree(OUTLIER_PERCENT, live) ?? agree(OUTLIER_PERCENT, fresh);
    if (!agreed) {
      return {
        reason:
          known.length === 0 ? 'no source has it' : fresh.length === 0 ? 'the last rates are too old' : 'too few sources agree on its rate',
      };
    }
    // A current rate is preferred to a daily one: the reference rate only confirms it.
    const near = agreed.near.filter(({ reference }) => !reference);
    return {
      rate: {
        currency,
        rateE8: near.length === 1 ? near[0]!.priceE8 : agreed.priceE8,
        asOf: agreed.near.map(({ asOf }) => asOf).toSorted((a, b) => b.getTime() - a.getTime())[near.length === 1 ? 0 : 1]!,
        sources: agreed.near.map(({ source }) => source),
        sample: false,
      },
    };
  };
  return {
    quotable,
    forTest: (currency) => {
      const found = quotable(currency);
      if ('rate' in found) return found.rate;
      return { currency, rateE8: parseDecimal(SAMPLES[currency], 8)!, asOf: clock.now(), sources: ['sample'], sample: true };
    },
    check: async () =>
      (await feed.askAll()).map(({ name, answer, failure }) => ({ name, currencies: [...(answer?.rates.keys() ?? [])], failure })),
    start: async () => feed.start(),
    stop: () => feed.stop(),
  };
}
