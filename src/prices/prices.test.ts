/**
 * Prices from exchanges that answer, fail, lie and stop answering: real HTTP servers in the exchanges' own formats, with a controlled
 * clock.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { serve } from '../../test/kit/serve.ts';
import { readConfig } from '../config.ts';
import { createOutgoing } from '../connections/http-client.ts';
import { ASSET, ASSETS, type Asset, NATIVE_ASSETS } from '../core/coin.ts';
import { agree, outlierPercent } from './agreement.ts';
import type { FiatRates } from './fiat.ts';
import { createPrices, type Prices } from './prices.ts';
import { createSources, SOURCE_HOSTS, SOURCES } from './sources.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const outgoing = createOutgoing({ allow: [], log: silent });
/** One euro costs 1.25 US dollars. */
const fiat: Pick<FiatRates, 'quotable'> = {
  quotable: (currency) => ({
    rate: { currency, rateE8: currency === 'USD' ? 100_000_000n : 80_000_000n, asOf: new Date(START), sources: [], sample: false },
  }),
};
let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(async () => {
  await outgoing.close();
  await database.drop();
});

type Name = 'coinbase' | 'kraken' | 'bitstamp' | 'bitfinex' | 'coingecko';
const ALL: readonly Name[] = ['coinbase', 'kraken', 'bitstamp', 'bitfinex', 'coingecko'];
/** Those of most stories. */
const NAMES: readonly Name[] = ['coinbase', 'kraken', 'bitfinex'];
/** `change` is in each exchange's own format, `volume` that of the last day, `updated` in seconds after the start. */
type Quote = { last: string; change?: string; volume?: string; updated?: number };
type Book = Partial<Record<Asset, Quote>>;
const json = (reply: ServerResponse, body: string, status = 200) =>
  reply.writeHead(status, { 'content-type': 'application/json' }).end(body);

/** What a source calls the assets that it lists. */
const namesAt = (market: 'bitfinex' | 'coingecko'): Record<string, Asset> =>
  Object.fromEntries(
    ASSETS.flatMap((asset) => {
      const name = ASSET[asset].markets[market];
      return name === undefined ? [] : [[name, asset]];
    }),
  );

/** Answers of each exchange for a book of prices, field for field as it sends them; other requests get 404. */
const SPEAK: Readonly<Record<Name, (path: string, book: Book, reply: ServerResponse) => void>> = {
  coinbase: (path, book, reply) => {
    const asset = /^\/products\/([A-Z]+)-USD\/stats$/.exec(path)?.[1] as Asset | undefined;
    const quote = asset && book[asset];
    if (!quote) return void json(reply, '{"message":"NotFound"}', 404);
    const open = quote.change ?? quote.last;
    json(
      reply,
      `{"open":"${open}","high":"${quote.last}","low":"${open}","last":"${quote.last}","volume":"${quote.volume ?? '8123.3'}","volume_30day":"31.5","rfq_volume_24hour":"0.1"}`,
    );
  },
  kraken: (path, book, reply) => {
    const url = new URL(path, 'http://kraken');
    if (url.pathname !== '/0/public/Ticker') return void json(reply, '{"error":["EGeneral:Unknown method"]}', 404);
    const pairs: Record<string, [Asset, string]> = Object.fromEntries(
      ASSETS.flatMap((asset) => {
        const [asked, answered = asked] = ASSET[asset].markets.kraken ?? [];
        return asked === undefined ? [] : [[asked, [asset, answered!]]];
      }),
    );
    const wanted = url.searchParams.get('pair')!.split(',');
    // One unknown pair makes the whole answer an error.
    if (wanted.some((asked) => !book[(pairs[asked] ?? assert.fail(`no such pair: ${asked}`))[0]]))
      return void json(reply, '{"error":["EQuery:Unknown asset pair"]}');
    const tickers = wanted.flatMap((asked) => {
      const [asset, key] = pairs[asked]!;
      const quote = book[asset];
      return quote
        ? [
            `"${key}":{"a":["${quote.last}","1","1.000"],"b":["${quote.last}","2","2.000"],"c":["${quote.last}","0.00047187"],"v":["1","${quote.volume ?? '2'}"],"p":["1.0","2.0"],"t":[1,2],"l":["1.0","1.0"],"h":["2.0","2.0"],"o":"1.0"}`,
          ]
        : [];
    });
    json(reply, `{"error":[],"result":{${tickers.join(',')}}}`);
  },
  bitfinex: (path, book, reply) => {
    const symbols = namesAt('bitfinex');
    const asked = /^\/v2\/tickers\?symbols=(.+)$/.exec(path)?.[1]?.split(',');
    if (!asked) return void json(reply, '["error",10020,"symbol: invalid"]', 404);
    const rows = asked.flatMap((symbol) => {
      const quote = book[symbols[symbol] ?? assert.fail(`no such symbol: ${symbol}`)];
      return quote ? [`["${symbol}",1.5,20.1,1.6,21.2,-3.1,${quote.change ?? '0'},${quote.last},${quote.volume ?? '800.5'},2.5,0.5]`] : [];
    });
    json(reply, `[${rows.join(',')}]`);
  },
  bitstamp: (path, book, reply) => {
    const asset = /^\/api\/v2\/ticker\/([a-z]+)usd\/$/.exec(path)?.[1]?.toUpperCase() as Asset | undefined;
    const quote = asset && book[asset];
    if (!quote) return void reply.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Page not found (404)</h1>');
    json(
      reply,
      `{"timestamp":"1763854710","open":"1","high":"1","low":"1","last":"${quote.last}","volume":"${quote.volume ?? '2426.07836092'}","vwap":"1","bid":"1","ask":"1","side":"0","open_24":"1","percent_change_24":"${quote.change ?? '0.00'}","market_type":"SPOT","pair":"${asset}/USD","market":"${asset}/USD"}`,
    );
  },
  coingecko: (path, book, reply) => {
    const url = new URL(path, 'http://coingecko');
    if (url.pathname !== '/api/v3/simple/price' || url.searchParams.get('vs_currencies') !== 'usd') return void json(reply, '{}', 404);
    const ids = namesAt('coingecko');
    const entries = url.searchParams
      .get('ids')!
      .split(',')
      .flatMap((id) => {
        const quote = book[ids[id] ?? assert.fail(`no such id: ${id}`)];
        return quote
          ? [
              `"${id}":{"usd":${quote.last},"usd_24h_change":${quote.change ?? '0'},"last_updated_at":${START / 1000 + (quote.updated ?? 0)}}`,
            ]
          : [];
      });
    json(reply, `{${entries.join(',')}}`);
  },
};

const START = Date.UTC(2026, 10, 21);
const still = { now: () => new Date(START), monotonicMs: () => 0 };

type Answer = (path: string, reply: ServerResponse) => void;
/** One server that acts as all exchanges; each can be given another answer. */
async function openExchanges(t: TestContext, book: Partial<Record<Name, Book>>) {
  const asked: Record<Name, number> = { coinbase: 0, kraken: 0, bitstamp: 0, bitfinex: 0, coingecko: 0 };
  const answers: Partial<Record<Name, Answer>> = {};
  const { url, stop } = await serve((request, reply) => {
    const [, name, path] = /^\/(\w+)(\/.*)$/.exec(request.url!)! as unknown as [string, Name, string];
    asked[name]++;
    const own = answers[name];
    if (own) own(path, reply);
    else if (book[name]) SPEAK[name](path, book[name], reply);
    else reply.socket!.destroy();
  });
  t.after(stop);
  const hosts = Object.fromEntries(ALL.map((name) => [name, `${url}/${name}`]));
  return { asked, answers, book, hosts };
}
type Exchanges = Awaited<ReturnType<typeof openExchanges>>;

type Opened = { once: boolean; sources: string; keep: boolean; assets: readonly Asset[] };
/** Prices from these exchanges; `pass` moves their time. The exchanges are requested every 20 ms of real time unless `once`. */
async function openPrices(
  t: TestContext,
  { hosts }: Exchanges,
  { once = false, sources = NAMES.join(','), keep = false, assets = NATIVE_ASSETS }: Partial<Opened> = {},
) {
  if (!keep) await database.db.sql`delete from price_history`;
  let ms = 0;
  const clock = { now: () => new Date(START + ms), monotonicMs: () => ms };
  const prices = createPrices({
    db: database.db,
    outgoing,
    clock,
    log: silent,
    sources,
    assets,
    fiat,
    hosts,
    pollMs: once ? 3_600_000 : 20,
  });
  await prices.start();
  t.after(() => prices.stop());
  return {
    prices,
    pass: (seconds: number) => {
      ms += seconds * 1000;
    },
  };
}
const quoted = (prices: Prices, asset: Asset, priceE8: bigint) =>
  eventually(
    async () => prices.quotable(asset),
    (q) => 'price' in q && q.price.priceE8 === priceE8,
  );
const refused = (prices: Prices, asset: Asset, reason: RegExp) =>
  eventually(
    async () => prices.quotable(asset),
    (q) => 'reason' in q && reason.test(q.reason),
  );
const all = (last: string): Book => Object.fromEntries(NATIVE_ASSETS.map((asset) => [asset, { last }]));
const only = (asset: Asset, last: string): Book => ({ [asset]: { last } });

test('each exchange is read to the last digit, with its own names for the coins', async (t) => {
  const exact: Book = {
    BTC: { last: '97123.45' },
    ETH: { last: '2550.5500000012345' },
    LTC: { last: '100' },
    DASH: { last: '30.000' },
    DOGE: { last: '0.19999999' },
  };
  const exchanges = await openExchanges(t, { coinbase: exact, kraken: exact, bitstamp: exact, bitfinex: exact, coingecko: exact });
  for (const source of createSources(ALL, { hosts: exchanges.hosts, clock: still })) {
    const seen = await source.fetch(outgoing);
    assert.deepEqual(
      Object.fromEntries(seen.map((o) => [o.asset, o.priceE8])),
      { BTC: 9_712_345_000_000n, ETH: 255_055_000_000n, LTC: 10_000_000_000n, DASH: 3_000_000_000n, DOGE: 19_999_999n },
      source.name,
    );
  }
  // One request for all coins if the exchange supports it; others need one per coin.
  assert.deepEqual(exchanges.asked, { coinbase: 5, kraken: 1, bitstamp: 5, bitfinex: 1, coingecko: 1 });
});

test('the known exchanges are requested over https', () => {
  assert.deepEqual(Object.keys(SOURCE_HOSTS).sort(), [...ALL].sort());
  assert.equal(readConfig({}).priceSources, SOURCES.join(','));
  for (const host of Object.values(SOURCE_HOSTS)) assert.match(host, /^https:\/\/[a-z.-]+$/);
});

test('the daily change comes from exchanges that have one, in hundredths of a percent', async (t) => {
  const exchanges = await openExchanges(t, {
    coinbase: { BTC: { last: '102500', change: '100000' }, ETH: { last: '1950', change: '2000' } },
    kraken: { BTC: { last: '102500' }, ETH: { last: '1950' } },
    bitstamp: { BTC: { last: '102500', change: '2.5' }, ETH: { last: '1950', change: '-2.50' } },
    bitfinex: { BTC: { last: '102500', change: '0.025' }, ETH: { last: '1950', change: '-0.02508' } },
    coingecko: { BTC: { last: '102500', change: '2.50972894677354' }, ETH: { last: '1950', change: '-2.5e-05' } },
  });
  const changes = await Promise.all(
    createSources(ALL, { hosts: exchanges.hosts, clock: still }).map(async (s) =>
      (await s.fetch(outgoing)).map((o) => o.change24hBasisPoints),
    ),
  );
  // Kraken only reports the opening price of the UTC day, not the price 24 hours ago.
  assert.deepEqual(changes, [
    [250n, -250n],
    [null, null],
    [250n, -250n],
    [250n, -250n],
    [250n, 0n],
  ]);
  const { prices } = await openPrices(t, exchanges);
  await quoted(prices, 'BTC', 10_250_000_000_000n);
  assert.equal(prices.look('BTC')!.change24hBasisPoints, 250n);
  assert.equal(prices.look('ETH')!.change24hBasisPoints, -250n);
  assert.equal(prices.look('ETH')!.changeFrom, 'sources');
});

test('the daily change is the median of those that agree on the price', async (t) => {
  const exchanges = await openExchanges(t, {
    coinbase: { LTC: { last: '100', change: '98' } },
    kraken: only('LTC', '100'),
    bitstamp: { LTC: { last: '101', change: '1.00' } },
    bitfinex: { LTC: { last: '140', change: '0.4' } },
  });
  const { prices } = await openPrices(t, exchanges, { sources: ALL.join(',') });
  await quoted(prices, 'LTC', 10_000_000_000n);
  // 2.04% and 1.00%; the 40% of the one that does not agree does not count.
  assert.equal(prices.look('LTC')!.change24hBasisPoints, 152n);
});

test('if no source reports the daily change, our own history is used', async (t) => {
  const exchanges = await openExchanges(t, { kraken: all('102'), bitstamp: { ...all('102') } });
  exchanges.answers.bitstamp = (path, reply) =>
    void json(reply, `{"last":"102","volume":"5","percent_change_24":null,"pair":"${path.slice(15, 18)}"}`);
  await database.db.sql`delete from price_history`;
  const hours = (h: number, minutes = 0) => new Date(START - h * 3_600_000 - minutes * 60_000);
  const row = (asset: Asset, at: Date, priceE8: bigint) =>
    database.db.sql`insert into price_history (coin, at, price_e8, sources) values (${asset}, ${at}, ${priceE8}, '["kraken"]')`;
  await row('BTC', hours(24, 4), 8_000_000_000n);
  await row('BTC', hours(24, -3), 10_000_000_000n);
  await row('BTC', hours(23), 9_000_000_000n);
  await row('LTC', hours(24, 29), 20_400_000_000n);
  // Half an hour and more from a day ago does not count as a day ago.
  await row('DOGE', hours(24, 31), 10_000_000_000n);
  await row('DOGE', hours(23, 29), 10_000_000_000n);
  const { prices } = await openPrices(t, exchanges, { sources: 'kraken,bitstamp', keep: true });
  await quoted(prices, 'BTC', 10_200_000_000n);
  const change = (asset: Asset) => [prices.look(asset)!.change24hBasisPoints, prices.look(asset)!.changeFrom];
  assert.deepEqual(change('BTC'), [200n, 'history']);
  assert.deepEqual(change('LTC'), [-5_000n, 'history']);
  assert.deepEqual(change('DOGE'), [0n, 'none']);
});

test('the price is the median of three, the mean of two', async (t) => {
  const exchanges = await openExchanges(t, {
    coinbase: { BTC: { last: '97000' }, LTC: { last: '100.00000001' } },
    kraken: { BTC: { last: '97500' }, LTC: { last: '100.00000003' } },
    bitfinex: { BTC: { last: '96800' } },
  });
  const { prices } = await openPrices(t, exchanges);
  await quoted(prices, 'BTC', 9_700_000_000_000n);
  await quoted(prices, 'LTC', 10_000_000_002n);
  const price = prices.look('BTC')!;
  assert.deepEqual([price.sources.toSorted(), price.stale, price.sample, price.asOf], [[...NAMES].sort(), false, false, new Date(START)]);
});

test('a price far from the others is dropped: 2% for BTC and ETH, 3% for the others', () => {
  const votes = (...prices: number[]) => prices.map((p, i) => ({ source: `s${i}`, priceE8: BigInt(p) * 100_000_000n }));
  const sourcesOf = (asset: Asset, ...prices: number[]) =>
    agree(outlierPercent(asset), votes(...prices))?.near.map(({ source }) => source) ?? null;
  for (const asset of NATIVE_ASSETS) {
    const wide = asset !== 'BTC' && asset !== 'ETH';
    assert.deepEqual(sourcesOf(asset, 1000, 1010, 1030), ['s0', 's1', 's2'], asset);
    assert.deepEqual(sourcesOf(asset, 1000, 1000, 1021), wide ? ['s0', 's1', 's2'] : ['s0', 's1'], asset);
    assert.deepEqual(sourcesOf(asset, 1000, 1000, 1031), ['s0', 's1'], asset);
    assert.deepEqual(sourcesOf(asset, 969, 1000, 1000), ['s1', 's2'], asset);
    // Two agree with each other or not at all: the mean of two distant ones would be nobody's price.
    assert.deepEqual(sourcesOf(asset, 1000, 1020), ['s0', 's1'], asset);
    assert.deepEqual(sourcesOf(asset, 1000, 1021), wide ? ['s0', 's1'] : null, asset);
    assert.deepEqual(sourcesOf(asset, 1031, 1000), null, asset);
    assert.deepEqual(sourcesOf(asset, 900, 1000, 1100), null, asset);
    assert.deepEqual(sourcesOf(asset, 1000), null, asset);
    assert.deepEqual(sourcesOf(asset), null, asset);
    // If two remain after the others were dropped, the same limit applies to them.
    assert.deepEqual(sourcesOf(asset, 500, 981, 1019, 2000), null, asset);
  }
  assert.equal(agree(2n, votes(1000, 1004, 5000))!.priceE8, 100_200_000_000n, 'the dropped one does not pull the middle');
});

test('one exchange that lies does not move the price', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('1'), bitfinex: all('101') });
  const { prices } = await openPrices(t, exchanges);
  await quoted(prices, 'LTC', 10_050_000_000n);
  assert.deepEqual(prices.look('LTC')!.sources.toSorted(), ['bitfinex', 'coinbase']);
});

test('a single exchange gives no quote, also when it is listed twice', async (t) => {
  const exchanges = await openExchanges(t, { kraken: all('100') });
  const { prices } = await openPrices(t, exchanges);
  await refused(prices, 'BTC', /do not agree/);
  assert.equal(prices.look('BTC'), null);
  const twice = await openPrices(t, exchanges, { sources: 'kraken, kraken' });
  await refused(twice.prices, 'BTC', /do not agree/);
});

test('without any price, test mode has a sample, labeled as one', async (t) => {
  const { prices } = await openPrices(t, await openExchanges(t, {}));
  await refused(prices, 'DOGE', /no price source answers/);
  for (const asset of NATIVE_ASSETS) {
    const { sample, sources, priceE8 } = prices.forTest(asset);
    assert.deepEqual([sample, sources, priceE8 > 0n], [true, ['sample'], true]);
    assert.equal(prices.look(asset), null);
  }
});

test('a coin that an exchange does not list is quoted by the others, and not by a single one', async (t) => {
  const exchanges = await openExchanges(t, {
    coinbase: only('BTC', '97000'),
    kraken: { ...only('BTC', '97000'), ...only('DASH', '30') },
    bitfinex: { ...only('DASH', '30'), ...only('DOGE', '0.2') },
  });
  const { prices } = await openPrices(t, exchanges);
  await quoted(prices, 'BTC', 9_700_000_000_000n);
  await quoted(prices, 'DASH', 3_000_000_000n);
  await refused(prices, 'DOGE', /do not agree/);
  await refused(prices, 'ETH', /no price source answers/);
});

test('a price is valid for quotes for 120 seconds, for display for ten minutes', async (t) => {
  const { prices, pass } = await openPrices(t, await openExchanges(t, { coinbase: all('100'), kraken: all('100') }), { once: true });
  await quoted(prices, 'BTC', 10_000_000_000n);
  pass(120);
  assert.ok('price' in prices.quotable('BTC'));
  assert.equal(prices.look('BTC')!.stale, false);
  pass(0.001);
  assert.deepEqual(prices.quotable('BTC'), { reason: 'the last price is too old' });
  const late = prices.look('BTC')!;
  assert.deepEqual([late.stale, late.asOf, late.priceE8], [true, new Date(START), 10_000_000_000n]);
  assert.equal(prices.forTest('BTC').sample, true);
  pass(479.999);
  assert.equal(prices.look('BTC')!.stale, true);
  pass(0.001);
  assert.equal(prices.look('BTC'), null);
});

test('votes older than 120 seconds no longer count', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('101'), bitfinex: all('102') });
  const { prices, pass } = await openPrices(t, exchanges);
  await quoted(prices, 'LTC', 10_100_000_000n);
  exchanges.answers.kraken = (_, reply) => void reply.writeHead(503).end();
  exchanges.answers.bitfinex = (_, reply) => void reply.writeHead(503).end();
  pass(119);
  await sleep(100);
  assert.ok('price' in prices.quotable('LTC'));
  pass(2);
  await refused(prices, 'LTC', /do not agree/);
});

test('an answer is as old as its request', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100') });
  let answer: (() => void) | null = null;
  exchanges.answers.kraken = (path, reply) => {
    answer = () => SPEAK.kraken(path, all('100'), reply);
  };
  const { prices, pass } = await openPrices(t, exchanges, { once: true });
  await eventually(
    async () => answer,
    (given) => given !== null,
  );
  pass(60);
  answer!();
  await quoted(prices, 'BTC', 10_000_000_000n);
  assert.deepEqual(prices.look('BTC')!.asOf, new Date(START));
});

test('a jump of more than 15% in five minutes needs three exchanges', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100') });
  const { prices, pass } = await openPrices(t, exchanges);
  await quoted(prices, 'LTC', 10_000_000_000n);
  const move = (last: string, names: readonly Name[]) => {
    for (const name of names) exchanges.book[name] = all(last);
    pass(30);
  };
  // Fifteen is not more than fifteen.
  move('115', ['coinbase', 'kraken']);
  await quoted(prices, 'LTC', 11_500_000_000n);
  move('84.99', ['coinbase', 'kraken']);
  await refused(prices, 'LTC', /jumped/);
  assert.equal(prices.look('LTC')!.priceE8, 11_500_000_000n, 'the last good price stays to look at');
  exchanges.book.bitfinex = all('84.99');
  pass(30);
  await quoted(prices, 'LTC', 8_499_000_000n);
});

test('a jump that two exchanges maintain is accepted after five minutes', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100') });
  const { prices, pass } = await openPrices(t, exchanges);
  await quoted(prices, 'LTC', 10_000_000_000n);
  Object.assign(exchanges.book, { coinbase: all('120'), kraken: all('120') });
  for (let passed = 0; passed < 300; passed += 60) {
    await refused(prices, 'LTC', /jumped/);
    pass(60);
  }
  await refused(prices, 'LTC', /jumped/);
  pass(1);
  await quoted(prices, 'LTC', 12_000_000_000n);
});

/** Invalid answers. Each must cost the exchange its vote, and no other exchange. */
const BROKEN: Readonly<Record<string, Answer>> = {
  'a page of HTML': (_, reply) => void reply.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Checking</title>'),
  'half a document': (_, reply) => void json(reply, '{"open":"100","last":"10'),
  'an empty body': (_, reply) => void reply.end(),
  '429': (_, reply) => void json(reply, '{"message":"Public rate limit exceeded"}', 429),
  '403': (_, reply) => void reply.writeHead(403).end('Forbidden'),
  '500': (_, reply) => void reply.writeHead(500).end(),
  'a redirect': (_, reply) => void reply.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
  'an error in a 200': (_, reply) => void json(reply, '{"error":["EGeneral:Too many requests"]}'),
  null: (_, reply) => void json(reply, 'null'),
  'a number': (_, reply) => void json(reply, '1'),
  'an empty list': (_, reply) => void json(reply, '[]'),
  'lists of nulls': (_, reply) => void json(reply, '[null,[null],["tBTCUSD",null]]'),
  'a body without end': (_, reply) => void json(reply, `"${'x'.repeat(300_000)}"`),
  'a closed connection': (_, reply) => void reply.socket!.destroy(),
};
for (const [what, answer] of Object.entries(BROKEN)) {
  test(`${what} is an error of that source alone`, async (t) => {
    const exchanges = await openExchanges(t, Object.fromEntries(ALL.map((name) => [name, all('100')])));
    for (const name of ALL) {
      exchanges.answers[name] = answer;
      const [own] = createSources([name], { hosts: exchanges.hosts, clock: still });
      await assert.rejects(own!.fetch(outgoing), Error, `${name} reads a price in it`);
      const { prices } = await openPrices(t, exchanges, { once: true, sources: ALL.join(',') });
      await quoted(prices, 'BTC', 10_000_000_000n);
      const others = ALL.filter((n) => n !== name && n !== 'coingecko');
      assert.deepEqual(prices.look('BTC')!.sources.toSorted(), others.toSorted());
      delete exchanges.answers[name];
    }
  });
}

test('a value that is not a positive plain decimal does not count, for that coin only', async (t) => {
  for (const last of ['0', '0.0', '0.000000001', '-5', '1e5', 'NaN', '', ' 5', '1,000', '0x10', '9999999999999', 'null', '5.']) {
    const book = { ...all('100'), ...only('LTC', last) };
    // Bitfinex and CoinGecko write numbers, where some of these are not valid JSON.
    const exchanges = await openExchanges(t, { coinbase: book, kraken: book, bitstamp: book });
    for (const source of createSources(['coinbase', 'kraken', 'bitstamp'], { hosts: exchanges.hosts, clock: still })) {
      const seen = await source.fetch(outgoing);
      assert.deepEqual(
        seen.map((o) => o.asset),
        NATIVE_ASSETS.filter((asset) => asset !== 'LTC'),
        `${source.name}: ${last}`,
      );
    }
  }
});

test('an exchange that fails is requested less and less often, and as before once it answers', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100'), bitfinex: all('100') });
  for (const answer of [BROKEN['429']!, BROKEN['an error in a 200']!]) {
    exchanges.asked.kraken = 0;
    exchanges.answers.kraken = answer;
    const { prices, pass } = await openPrices(t, exchanges);
    await quoted(prices, 'BTC', 10_000_000_000n);
    await sleep(200);
    // Its time does not advance: about ten rounds, one request.
    assert.equal(exchanges.asked.kraken, 1);
    for (let failures = 1; failures <= 4; failures++) {
      const pause = 0.02 * (2 ** failures - 1);
      pass(pause - 0.001);
      await sleep(80);
      assert.equal(exchanges.asked.kraken, failures);
      pass(0.002);
      await eventually(
        async () => exchanges.asked.kraken,
        (asked) => asked === failures + 1,
      );
      // The pause begins when the failure is recorded, which is the case once another exchange is requested in the next round.
      const before = exchanges.asked.coinbase;
      await eventually(
        async () => exchanges.asked.coinbase,
        (asked) => asked >= before + NATIVE_ASSETS.length + 1,
      );
    }
    delete exchanges.answers.kraken;
    pass(1);
    await eventually(
      async () => exchanges.asked.kraken,
      (asked) => asked > 10,
    );
    await prices.stop();
  }
});

test('a coin that an exchange does not list is not an error, and is not requested again for an hour', async (t) => {
  const exchanges = await openExchanges(
    t,
    Object.fromEntries(ALL.map((name) => [name, { ...only('BTC', '97000'), ...only('DOGE', '0.2') }])),
  );
  let ms = 0;
  const clock = { now: () => new Date(START), monotonicMs: () => ms };
  for (const source of createSources(ALL, { hosts: exchanges.hosts, clock })) {
    const name = source.name as Name;
    const assets = async () => (await source.fetch(outgoing)).map((o) => o.asset);
    const asked = async () => {
      const before = exchanges.asked[name];
      await assets();
      return exchanges.asked[name] - before;
    };
    ms = 0;
    assert.deepEqual(await assets(), ['BTC', 'DOGE'], name);
    assert.deepEqual(source.unlisted(), ['ETH', 'LTC', 'DASH'], name);
    const requests = { coinbase: 2, kraken: 1, bitstamp: 2, bitfinex: 1, coingecko: 1 }[name];
    assert.equal(await asked(), requests, `${name} is asked for what it has`);
    exchanges.book[name] = all('100');
    ms = 3_599_999;
    assert.equal(await asked(), requests, name);
    ms = 3_600_000;
    assert.deepEqual(await assets(), [...NATIVE_ASSETS], `${name} is asked for all again after an hour`);
    assert.deepEqual(source.unlisted(), [], name);
  }
});

test('one unknown pair in the request does not affect the others at Bitfinex', async (t) => {
  const exchanges = await openExchanges(t, { bitfinex: all('100') });
  exchanges.answers.bitfinex = (path, reply) =>
    path.includes('tDSHUSD') ? void json(reply, '["error",10020,"symbol: invalid"]', 500) : SPEAK.bitfinex(path, all('100'), reply);
  const [source] = createSources(['bitfinex'], { hosts: exchanges.hosts, clock: still });
  assert.deepEqual(
    (await source!.fetch(outgoing)).map((o) => o.asset),
    NATIVE_ASSETS.filter((asset) => asset !== 'DASH'),
  );
  assert.deepEqual(source!.unlisted(), ['DASH']);
});

test('a market without trades for a day has no price', async (t) => {
  const dead = { ...all('100'), DASH: { last: '30', volume: '0' }, LTC: { last: '100', volume: '0.00000000' } };
  const exchanges = await openExchanges(t, { coinbase: dead, kraken: dead, bitstamp: dead, bitfinex: dead });
  for (const source of createSources(['coinbase', 'kraken', 'bitstamp', 'bitfinex'], { hosts: exchanges.hosts, clock: still })) {
    const seen = (await source.fetch(outgoing)).map((o) => o.asset);
    assert.deepEqual(seen, ['BTC', 'ETH', 'DOGE'], source.name);
    assert.deepEqual(source.unlisted(), [], source.name);
  }
});

test('an aggregator votes only if fewer than two exchanges agree', async (t) => {
  const exchanges = await openExchanges(t, {
    coinbase: { ...only('BTC', '97000'), ...only('LTC', '100'), ...only('DASH', '30') },
    kraken: { ...only('BTC', '97010'), ...only('LTC', '150') },
    coingecko: { ...only('BTC', '97500'), ...only('LTC', '101'), ...only('DASH', '30.2'), ...only('DOGE', '0.2') },
  });
  const { prices } = await openPrices(t, exchanges, { sources: 'coinbase,kraken,coingecko' });
  await quoted(prices, 'BTC', 9_700_500_000_000n);
  assert.deepEqual(prices.look('BTC')!.sources.toSorted(), ['coinbase', 'kraken']);
  // Two exchanges that contradict each other, one alone, none: its vote decides, helps, and is not enough.
  await quoted(prices, 'LTC', 10_050_000_000n);
  assert.deepEqual(prices.look('LTC')!.sources.toSorted(), ['coinbase', 'coingecko']);
  await quoted(prices, 'DASH', 3_010_000_000n);
  await refused(prices, 'DOGE', /do not agree/);
});

test('a price that an aggregator has not renewed for five minutes does not count', async (t) => {
  const exchanges = await openExchanges(t, { coingecko: { BTC: { last: '97000', updated: -300 }, LTC: { last: '100', updated: -301 } } });
  const [source] = createSources(['coingecko'], { hosts: exchanges.hosts, clock: still });
  assert.deepEqual(
    (await source!.fetch(outgoing)).map((o) => o.asset),
    ['BTC'],
  );
});

test('an aggregator is requested once a minute', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100'), coingecko: all('100') });
  const { prices, pass } = await openPrices(t, exchanges, { sources: 'coinbase,kraken,coingecko' });
  await quoted(prices, 'BTC', 10_000_000_000n);
  await sleep(100);
  assert.equal(exchanges.asked.coingecko, 1);
  pass(59);
  await sleep(100);
  assert.equal(exchanges.asked.coingecko, 1);
  pass(1);
  await eventually(
    async () => exchanges.asked.coingecko,
    (asked) => asked === 2,
  );
  await eventually(
    async () => exchanges.asked.kraken,
    (asked) => asked > 5,
  );
});

test('an exchange that hangs does not delay the start', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100') });
  exchanges.answers.bitfinex = () => {};
  const { prices } = await openPrices(t, exchanges);
  // No round has ended: nothing is agreed on yet.
  assert.ok('reason' in prices.quotable('BTC'));
  await eventually(
    async () => exchanges.asked.bitfinex,
    (asked) => asked > 0,
  );
});

test('prices are recorded once a minute with their sources', async (t) => {
  await database.db.sql`delete from price_history`;
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100.5') });
  const { prices, pass } = await openPrices(t, exchanges);
  await quoted(prices, 'BTC', 10_025_000_000n);
  const rows = () =>
    database.db.sql<{ coin: string; at: Date; price: bigint; sources: string[] }[]>`
      select coin, at, price_e8 as price, sources from price_history order by at, coin`;
  const [first] = await eventually(rows, (r) => r.length === NATIVE_ASSETS.length);
  assert.deepEqual(
    [first!.coin, first!.at, first!.price, first!.sources.toSorted()],
    ['BTC', new Date(START), 10_025_000_000n, ['coinbase', 'kraken']],
  );
  pass(59);
  await sleep(100);
  assert.equal((await rows()).length, NATIVE_ASSETS.length);
  pass(1);
  await eventually(rows, (r) => r.length === 2 * NATIVE_ASSETS.length);
});

test('a price is as old as the second source that agrees', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('101'), bitfinex: all('102') });
  const { prices, pass } = await openPrices(t, exchanges);
  await quoted(prices, 'LTC', 10_100_000_000n);
  for (const name of ['kraken', 'bitfinex'] as const) exchanges.answers[name] = BROKEN['500']!;
  pass(100);
  await sleep(100);
  const { asOf, priceE8, sources } = prices.look('LTC')!;
  assert.deepEqual([asOf, priceE8, sources.length], [new Date(START), 10_100_000_000n, 3]);
});

test('a jump is detected across a restart', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100') });
  const first = await openPrices(t, exchanges);
  await quoted(first.prices, 'LTC', 10_000_000_000n);
  await eventually(
    async () => database.db.sql`select 1 from price_history`,
    (rows) => rows.length === NATIVE_ASSETS.length,
  );
  await first.prices.stop();
  Object.assign(exchanges.book, { coinbase: all('120'), kraken: all('120') });
  const second = await openPrices(t, exchanges, { keep: true });
  await refused(second.prices, 'LTC', /jumped/);
  assert.equal(second.prices.look('LTC'), null);
});

test('a jump that an aggregator confirms in addition to two exchanges is accepted', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100'), coingecko: all('100') });
  const { prices, pass } = await openPrices(t, exchanges, { sources: 'coinbase,kraken,coingecko' });
  await quoted(prices, 'LTC', 10_000_000_000n);
  Object.assign(exchanges.book, { coinbase: all('120'), kraken: all('120') });
  pass(30);
  await refused(prices, 'LTC', /jumped/);
  exchanges.book.coingecko = all('121');
  pass(60);
  await quoted(prices, 'LTC', 12_000_000_000n);
  assert.equal(prices.look('LTC')!.sources.length, 3);
});

test('the history keeps every minute of two days, then the first of each hour for 90 days', async (t) => {
  await database.db.sql`delete from price_history`;
  const at = (days: number, minutes: number) => new Date(START - days * 86_400_000 + minutes * 60_000);
  const rows = [at(1, 7), at(2, 1), at(2, 2), at(3, 0), at(3, 1), at(3, 59), at(3, 62), at(3, 63), at(89, 5), at(91, 0)];
  for (const when of rows)
    await database.db.sql`insert into price_history (coin, at, price_e8, sources) values ('DASH', ${when}, 3000000000, '["kraken"]')`;
  const { prices } = await openPrices(t, await openExchanges(t, { coinbase: only('BTC', '100'), kraken: only('BTC', '100') }), {
    keep: true,
  });
  await quoted(prices, 'BTC', 10_000_000_000n);
  const kept = await eventually(
    async () => database.db.sql<{ at: Date }[]>`select at from price_history where coin = 'DASH' order by at desc`,
    (left) => left.length < rows.length,
  );
  assert.deepEqual(
    kept.map((row) => row.at),
    [at(1, 7), at(2, 2), at(2, 1), at(3, 62), at(3, 0), at(89, 5)],
  );
});

test('two services write one row per coin and minute', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: all('100'), kraken: all('100') });
  const one = await openPrices(t, exchanges);
  const other = await openPrices(t, exchanges, { keep: true });
  one.pass(10);
  other.pass(50);
  await quoted(one.prices, 'BTC', 10_000_000_000n);
  await quoted(other.prices, 'BTC', 10_000_000_000n);
  // Each waits until it has written.
  await one.prices.stop();
  await other.prices.stop();
  const rows = await database.db.sql<{ at: Date }[]>`select at from price_history`;
  assert.equal(rows.length, NATIVE_ASSETS.length);
  assert.deepEqual(rows[0]!.at, new Date(START));
});

test('the operator sees what each source answers', async (t) => {
  const exchanges = await openExchanges(t, { coinbase: only('BTC', '100'), kraken: all('100') });
  exchanges.answers.bitfinex = BROKEN['429']!;
  const prices = createPrices({
    db: database.db,
    outgoing,
    clock: still,
    log: silent,
    sources: NAMES.join(','),
    fiat,
    hosts: exchanges.hosts,
  });
  assert.deepEqual(await prices.check(), [
    { name: 'coinbase', assets: ['BTC'], unlisted: ['ETH', 'LTC', 'DASH', 'DOGE'], failure: null },
    { name: 'kraken', assets: [...NATIVE_ASSETS], unlisted: [], failure: null },
    { name: 'bitfinex', assets: [], unlisted: [], failure: 'it answers status 429' },
  ]);
  assert.ok('price' in prices.quotable('BTC'));
});

test('static prices are exact, never stale, need no second source, and exist only for the listed coins', async (t) => {
  const { prices, pass } = await openPrices(t, await openExchanges(t, {}), { sources: 'static:BTC=97000.00,DOGE=0.20000001, ETH=3500' });
  pass(86_400);
  for (const [asset, priceE8] of [
    ['BTC', 9_700_000_000_000n],
    ['DOGE', 20_000_001n],
    ['ETH', 350_000_000_000n],
  ] as const) {
    const quotable = prices.quotable(asset);
    assert.ok('price' in quotable);
    const { asOf, reports: _, ...price } = quotable.price;
    assert.deepEqual(price, {
      asset,
      priceE8,
      sources: ['static'],
      change24hBasisPoints: 0n,
      changeFrom: 'none',
      stale: false,
      sample: false,
    });
    assert.deepEqual(asOf, new Date(START + 86_400_000));
  }
  assert.deepEqual(await prices.check(), []);
  assert.ok('price' in prices.quotable('BTC'));
  assert.deepEqual(prices.quotable('LTC'), { reason: 'PRICES does not set one' });
  assert.equal(prices.look('LTC'), null);
  assert.equal(prices.forTest('LTC').sample, true);
  assert.equal(prices.forTest('BTC').sample, false);
});

test('an invalid setting is refused at the start', () => {
  const clock = { now: () => new Date(START), monotonicMs: () => 0 };
  const make = (sources: string) => createPrices({ db: database.db, outgoing, clock, log: silent, sources, fiat });
  for (const sources of [
    'static:BTC',
    'static:BTC=',
    'static:BTC=0',
    'static:BTC=-1',
    'static:BTC=1e5',
    'static:BTC=1.000000001',
    'static:XMR=5',
    'static:btc=5',
  ])
    assert.throws(() => make(sources), /PRICES must look like static:BTC/, sources);
  for (const sources of ['coinbase,mtgox', 'constructor', 'Kraken'])
    assert.throws(() => make(sources), /PRICES names .*known are coinbase, kraken, bitstamp, bitfinex, coingecko and static:/, sources);
});

test('an asset that should be worth a currency is quoted at par, below it at what it is worth, and not at all if it lost its par', async (t) => {
  const exchanges = await openExchanges(t, {});
  const { prices } = await openPrices(t, exchanges, { sources: 'coinbase,kraken', assets: ['BTC', 'USDT', 'EURC'] });
  for (const [usdt, eurc, expected] of [
    ['1.0001', '1.2499', [100_000_000n, 125_000_000n]],
    ['0.9950', '1.24375', [100_000_000n, 125_000_000n]],
    // Up to two percent below par a payer sends more; above it, the payer is still asked for par.
    ['0.9949', '1.2437', [99_490_000n, 124_370_000n]],
    ['0.98', '1.225', [98_000_000n, 122_500_000n]],
    ['1.02', '1.275', [100_000_000n, 125_000_000n]],
  ] as const) {
    const book: Book = { BTC: { last: '97000' }, USDT: { last: usdt }, EURC: { last: eurc } };
    Object.assign(exchanges.book, { coinbase: book, kraken: book });
    for (const [i, asset] of (['USDT', 'EURC'] as const).entries()) await quoted(prices, asset, expected[i]!);
  }
  assert.equal(prices.look('EURC')?.priceE8, 127_500_000n, 'the price itself is known');
  const lost: Book = { BTC: { last: '97000' }, USDT: { last: '0.9799' }, EURC: { last: '1.2751' } };
  Object.assign(exchanges.book, { coinbase: lost, kraken: lost });
  await refused(prices, 'USDT', /^its price is 2\.01% below the currency it should be worth$/);
  await refused(prices, 'EURC', /^its price is 2\.00% above the currency it should be worth$/);
  assert.deepEqual(
    (['USDT', 'EURC', 'BTC'] as const).map((asset) => prices.valuing(asset)?.priceE8),
    [97_990_000n, 125_000_000n, 9_700_000_000_000n],
    'money that arrived still has a value, at most par',
  );
  await quoted(prices, 'BTC', 9_700_000_000_000n);
  // One exchange is not enough, as for other assets.
  exchanges.book.coinbase = { BTC: { last: '97000' } };
  exchanges.book.kraken = { BTC: { last: '97000' }, USDT: { last: '1' }, EURC: { last: '1.25' } };
  await refused(prices, 'USDT', /agree|no price source/);
});

test('the price of one source is used while it is among those that agree, else the median', async (t) => {
  const exchanges = await openExchanges(t, {
    coinbase: all('100'),
    kraken: all('101'),
    bitstamp: all('100.5'),
    bitfinex: all('140'),
    coingecko: all('99'),
  });
  const { prices } = await openPrices(t, exchanges);
  await quoted(prices, 'LTC', 10_050_000_000n);
  const from = (source: string | null) => {
    const found = prices.quotable('LTC', source);
    return 'price' in found ? [found.price.priceE8, found.price.sources[0]] : found.reason;
  };
  assert.deepEqual(from('kraken'), [10_100_000_000n, 'kraken']);
  assert.equal(prices.valuing('LTC', 'kraken')!.priceE8, 10_100_000_000n);
  assert.equal(prices.forTest('LTC', 'coinbase').priceE8, 10_000_000_000n);
  // It disagrees; it is an aggregator; it does not exist; none is preferred.
  for (const source of ['bitfinex', 'coingecko', 'constructor', null]) assert.equal(from(source)[0], 10_050_000_000n, String(source));
  assert.deepEqual(prices.sources, NAMES);
});
