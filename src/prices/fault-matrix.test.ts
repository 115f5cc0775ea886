/** Every question that Florin asks a price source, with every way to fail. One source alone never gives a price, so good ones are beside. */
import { after } from 'node:test';
import { type Cell, type Facts, speakHttp, startFaultyServer, testFaults, withSmallReplies } from '../../test/kit/fault-matrix.ts';
import { createOutgoing } from '../connections/http-client.ts';
import { createLog } from '../log.ts';
import { createFeed } from './feed.ts';
import { createFiatRates, FIAT_SOURCES } from './fiat.ts';
import { createBook, decidePrices, quotableAt, takeVotes } from './price-book.ts';
import { createSources, SOURCES } from './sources.ts';

const log = createLog('silent');
const outgoing = withSmallReplies(createOutgoing({ allow: [], log }));
after(() => outgoing.close());
/** Every round is an hour later: a coin that a source did not list is asked for again. */
const HOUR_MS = 3_600_000;
const createClock = () => {
  let ms = 0;
  const pass = (): void => {
    ms += HOUR_MS;
  };
  return { now: () => new Date(), monotonicMs: () => ms, pass };
};

class Unpriced extends Error {}

/** What each source is asked for BTC, and what it answers. */
const TICKERS: readonly (readonly [source: string, path: RegExp, body: () => string])[] = [
  ['coinbase', /^\/products/, () => '{"open":"96000","last":"97000.5","volume":"8123.3"}'],
  ['kraken', /^\/0\/public/, () => '{"error":[],"result":{"XXBTZUSD":{"c":["97000.5","0.1"],"v":["1","2"]}}}'],
  ['bitstamp', /^\/api\/v2\/ticker/, () => '{"last":"97000.5","volume":"2426.1","percent_change_24":"0.00"}'],
  ['bitfinex', /^\/v2\/tickers/, () => '[["tBTCUSD",1.5,20.1,1.6,21.2,-3.1,0,97000.5,800.5,2.5,0.5]]'],
  ['coingecko', /^\/api\/v3/, () => `{"bitcoin":{"usd":97000.5,"usd_24h_change":1,"last_updated_at":${Math.floor(Date.now() / 1000)}}}`],
];
const server = await startFaultyServer(
  speakHttp((path) => {
    const [source, , body] = TICKERS.find(([, pattern]) => pattern.test(path))!;
    return { question: source, reply: { body: body() } };
  }),
);

let asked: ReadonlySet<string>[] = [];
testFaults(
  {
    name: 'a price source',
    besides: SOURCES.length - 1,
    isExpected: (error) => error instanceof Unpriced,
    asked: () => asked.flatMap((one) => [...one]),
    open: async (cells: readonly (Cell | null)[]) => {
      const failing = cells.find((cell) => cell !== null) ?? null;
      const names = cells.length === 1 ? [failing!.question] : SOURCES;
      const opened = server.open(failing);
      asked = [opened.asked];
      const book = createBook();
      const clock = createClock();
      const feed = createFeed({
        sources: createSources(names, { assets: ['BTC'], hosts: Object.fromEntries(names.map((name) => [name, opened.url])), clock }),
        ...{ outgoing, clock, log, pollMs: 30_000, outages: () => {} },
        take: (source, seen, at) => takeVotes(book, { source, aggregator: source === 'coingecko', at }, seen),
        decide: async () => decidePrices(book, { ms: clock.monotonicMs(), date: clock.now() }),
      });
      return {
        round: async (): Promise<Facts> => {
          clock.pass();
          await feed.askAll();
          const found = quotableAt(book, 'BTC', clock.monotonicMs());
          if ('reason' in found) throw new Unpriced(found.reason);
          return { price: found.price.priceE8 };
        },
        heal: opened.heal,
      };
    },
  },
  { aloneIs: 'waits: the price sources do not agree' },
);

/** What each source of exchange rates is asked, and what it answers. */
const RATES: readonly (readonly [source: string, path: RegExp, body: () => string])[] = [
  ['coinbase', /^\/v2\/exchange-rates/, () => '{"data":{"currency":"USD","rates":{"EUR":"0.8"}}}'],
  ['kraken', /^\/0\/public/, () => '{"error":[],"result":{"ZEURZUSD":{"c":["1.25","0.1"],"v":["1","2"]}}}'],
  ['bitstamp', /^\/api\/v2\/ticker/, () => '{"last":"1.25","volume":"2426.1"}'],
  ['coingecko', /^\/api\/v3/, () => '{"bitcoin":{"usd":100000,"eur":80000}}'],
  ['bitpay', /^\/rates/, () => '{"data":[{"code":"USD","rate":100000},{"code":"EUR","rate":80000}]}'],
  [
    'ecb',
    /^\/stats/,
    () => `<Cube time='${new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)}'><Cube currency='USD' rate='1.25'/></Cube>`,
  ],
];
const rates = await startFaultyServer(
  speakHttp((path) => {
    const [source, , body] = RATES.find(([, pattern]) => pattern.test(path))!;
    return { question: source, reply: { body: body() } };
  }),
);
testFaults(
  {
    name: 'a source of exchange rates',
    besides: FIAT_SOURCES.length - 1,
    isExpected: (error) => error instanceof Unpriced,
    asked: () => asked.flatMap((one) => [...one]),
    open: async (cells: readonly (Cell | null)[]) => {
      const failing = cells.find((cell) => cell !== null) ?? null;
      const names = cells.length === 1 ? [failing!.question] : FIAT_SOURCES;
      const opened = rates.open(failing);
      asked = [opened.asked];
      const clock = createClock();
      const hosts = Object.fromEntries(names.map((name) => [name, opened.url]));
      const fiat = createFiatRates({ outgoing, clock, log, sources: names.join(), hosts });
      return {
        round: async (): Promise<Facts> => {
          clock.pass();
          await fiat.check();
          const found = fiat.quotable('EUR');
          if ('reason' in found) throw new Unpriced(found.reason);
          return { rate: found.rate.rateE8 };
        },
        heal: opened.heal,
      };
    },
  },
  { aloneIs: 'waits: too few sources agree on its rate' },
);
