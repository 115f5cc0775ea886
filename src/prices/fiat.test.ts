/**
 * Rates of other currencies from sources that answer, fail, contradict each other and stop answering: real HTTP servers, with a
 * controlled clock.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, type TestContext, test } from 'node:test';
import { serve } from '../../test/kit/serve.ts';
import { createOutgoing } from '../connections/http-client.ts';
import { FIATS, type Fiat } from '../core/fiat.ts';
import { parseDecimal } from '../core/money.ts';
import { createFiatRates, FIAT_HOSTS, FIAT_SOURCES, type FiatRates } from './fiat.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const outgoing = createOutgoing({ allow: [], log: silent });
after(() => outgoing.close());

/** A Wednesday noon. */
const START = Date.UTC(2026, 10, 18, 12);
/** Units for one dollar, as text. */
type Book = Partial<Record<Fiat, string>>;
const json = (reply: ServerResponse, body: string, status = 200): void =>
  void reply.writeHead(status, { 'content-type': 'application/json' }).end(body);
const turned = (rate: string) => (1 / Number(rate)).toFixed(8);

/** Each source as it answers; other requests get 404. */
const SPEAK: Readonly<Record<string, (path: string, book: Book, reply: ServerResponse) => void>> = {
  coinbase: (path, book, reply) => {
    if (path !== '/v2/exchange-rates?currency=USD') return json(reply, '{"errors":[{"id":"not_found"}]}', 404);
    const rates = Object.entries({ ...book, USD: '1.0', BTC: '0.0000103', '1INCH': '3.2' }).map(([code, rate]) => `"${code}":"${rate}"`);
    json(reply, `{"data":{"currency":"USD","rates":{${rates.join(',')}}}}`);
  },
  kraken: (path, book, reply) => {
    const pairs: Record<string, [Fiat, string, boolean]> = {
      EURUSD: ['EUR', 'ZEURZUSD', true],
      GBPUSD: ['GBP', 'ZGBPZUSD', true],
      AUDUSD: ['AUD', 'AUDUSD', true],
      USDCAD: ['CAD', 'ZUSDZCAD', false],
      USDCHF: ['CHF', 'USDCHF', false],
      USDJPY: ['JPY', 'ZUSDZJPY', false],
    };
    const wanted = new URL(path, 'http://kraken').searchParams.get('pair')!.split(',');
    if (wanted.some((asked) => !book[(pairs[asked] ?? assert.fail(asked))[0]]))
      return json(reply, '{"error":["EQuery:Unknown asset pair"]}');
    const tickers = wanted.map((asked) => {
      const [code, key, against] = pairs[asked]!;
      const rate = book[code]!;
      return `"${key}":{"a":["1","1","1"],"c":["${against ? turned(rate) : rate}","10"],"v":["5","9"],"o":"1"}`;
    });
    json(reply, `{"error":[],"result":{${tickers.join(',')}}}`);
  },
  bitstamp: (path, book, reply) => {
    const code = /^\/api\/v2\/ticker\/(eur|gbp)usd\/$/.exec(path)?.[1]?.toUpperCase() as Fiat | undefined;
    if (!code || !book[code]) return void reply.writeHead(404).end();
    json(reply, `{"timestamp":"1763854710","last":"${turned(book[code])}","volume":"8123.1","pair":"${code}/USD"}`);
  },
  coingecko: (path, book, reply) => {
    const url = new URL(path, 'http://coingecko');
    if (url.pathname !== '/api/v3/simple/price' || url.searchParams.get('ids') !== 'bitcoin') return json(reply, '{}', 404);
    const prices = Object.entries({ ...book, USD: '1' })
      .filter(([code]) => url.searchParams.get('vs_currencies')!.split(',').includes(code.toLowerCase()))
      .map(([code, rate]) => `"${code.toLowerCase()}":${(Number(rate) * 97000).toFixed(4)}`);
    json(reply, `{"bitcoin":{${prices.join(',')}}}`);
  },
  bitpay: (path, book, reply) => {
    if (path !== '/rates/BTC') return json(reply, '{"error":"Not found"}', 404);
    const rates = Object.entries({ BTC: '0.0000103', ...book, USD: '1', '1INCH': '3.2' }).map(
      ([code, rate]) => `{"code":"${code}","name":"${code}","rate":${(Number(rate) * 97000).toFixed(2)}}`,
    );
    json(reply, `{"data":[${rates.join(',')}]}`);
  },
  ecb: (path, book, reply) => {
    if (path !== '/stats/eurofxref/eurofxref-daily.xml') return void reply.writeHead(404).end();
    const euro = Number(book.EUR ?? assert.fail('the bank has euros'));
    const cubes = Object.entries({ ...book, USD: '1' })
      .filter(([code]) => code !== 'EUR')
      .map(([code, rate]) => `\t\t\t<Cube currency='${code}' rate='${(Number(rate) / euro).toFixed(4)}'/>`);
    reply.writeHead(200, { 'content-type': 'text/xml' }).end(`<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
\t<gesmes:subject>Reference rates</gesmes:subject>
\t<gesmes:Sender>\n\t\t<gesmes:name>European Central Bank</gesmes:name>\n\t</gesmes:Sender>
\t<Cube>\n\t\t<Cube time='2026-11-17'>\n${cubes.join('\n')}\n\t\t</Cube>\n\t</Cube>\n</gesmes:Envelope>`);
  },
};

/** Sources with these books; a source without one closes the connection. `pass` moves the time and requests all of them. */
async function openRates(t: TestContext, books: Record<string, Book>, sources = FIAT_SOURCES.join(',')) {
  const answers: Record<string, (reply: ServerResponse) => void> = {};
  const { url, stop } = await serve((request, reply) => {
    const [, name, path] = /^\/(\w+)(\/.*)$/.exec(request.url!)!;
    if (answers[name!]) answers[name!]!(reply);
    else if (books[name!]) SPEAK[name!]!(path!, books[name!]!, reply);
    else reply.socket!.destroy();
  });
  t.after(stop);
  const hosts = Object.fromEntries(FIAT_SOURCES.map((name) => [name, `${url}/${name}`]));
  let ms = 0;
  const clock = { now: () => new Date(START + ms), monotonicMs: () => ms };
  const fiat = createFiatRates({ outgoing, clock, log: silent, sources, hosts });
  const pass = (minutes: number) => {
    ms += minutes * 60_000;
  };
  return { fiat, books, answers, pass };
}
const rateOf = (fiat: FiatRates, currency: Fiat) => {
  const found = fiat.quotable(currency);
  return 'rate' in found ? found.rate : assert.fail(`${currency}: ${found.reason}`);
};
const reasonOf = (fiat: FiatRates, currency: Fiat) => {
  const found = fiat.quotable(currency);
  return 'reason' in found ? found.reason : assert.fail(`${currency}: ${found.rate.rateE8}`);
};
const isNear = (rateE8: bigint, text: string) => {
  const wanted = parseDecimal(text, 8)!;
  assert.ok((rateE8 > wanted ? rateE8 - wanted : wanted - rateE8) * 2_000n < wanted, `${rateE8} is not about ${text}`);
};

const MAJORS: Book = { EUR: '0.92165', GBP: '0.79', CAD: '1.3712', AUD: '1.52', CHF: '0.8811', JPY: '155.12' };
const ODD: Book = { KWD: '0.3071', BHD: '0.377', KRW: '1372.5', VND: '25400', IDR: '16250' };

test('each source is read in its own format, in units per dollar', async (t) => {
  const book = { ...MAJORS, ...ODD };
  for (const [name, currencies] of [
    ['coinbase', Object.keys(book)],
    ['kraken', Object.keys(MAJORS)],
    ['bitstamp', ['EUR', 'GBP']],
    ['coingecko', Object.keys(book)],
    ['ecb', Object.keys(book)],
  ] as const) {
    // The other source that it must agree with.
    const { fiat } = await openRates(
      t,
      { [name]: book, coinbase: book, kraken: book },
      name === 'coinbase' ? 'coinbase,kraken' : `coinbase,${name}`,
    );
    const told = (await fiat.check()).find((report) => report.name === name)!;
    assert.equal(told.failure, null, name);
    assert.deepEqual([...told.currencies].sort(), [...currencies].sort(), name);
    for (const currency of name === 'coinbase' ? Object.keys(MAJORS) : currencies)
      isNear(rateOf(fiat, currency as Fiat).rateE8, book[currency as Fiat]!);
  }
});

test('the known sources are requested over https', () => {
  assert.deepEqual(Object.keys(FIAT_HOSTS), [...FIAT_SOURCES]);
  for (const host of Object.values(FIAT_HOSTS)) assert.match(host, /^https:\/\/[a-z.]+$/);
});

test('the rate is the median, exact to eight decimals, with its sources and time', async (t) => {
  const { fiat } = await openRates(t, {
    coinbase: { JPY: '155.1' },
    kraken: { ...MAJORS, JPY: '155.30000001' },
    coingecko: { JPY: '155.2' },
  });
  await fiat.check();
  assert.deepEqual(rateOf(fiat, 'JPY'), {
    currency: 'JPY',
    rateE8: 15_520_000_000n,
    asOf: new Date(START),
    sources: ['coinbase', 'kraken', 'coingecko'],
    sample: false,
  });
  assert.equal(rateOf(fiat, 'USD').rateE8, 100_000_000n);
});

test('a currency that no exchange trades against the dollar has the rate on which two tables agree', async (t) => {
  const { fiat, books } = await openRates(t, { coinbase: { NGN: '1450', ARS: '1400' }, bitpay: { NGN: '1460', ARS: '1480' } });
  await fiat.check();
  assert.deepEqual(rateOf(fiat, 'NGN').sources, ['coinbase', 'bitpay']);
  isNear(rateOf(fiat, 'NGN').rateE8, '1455');
  assert.match(reasonOf(fiat, 'ARS'), /too few sources agree/);
  books.coinbase = { ARS: '1470' };
  await fiat.check();
  isNear(rateOf(fiat, 'ARS').rateE8, '1475');
});

test('one source that lies does not move the rate, and alone gives none', async (t) => {
  const { fiat } = await openRates(t, {
    coinbase: { EUR: '0.92', KWD: '0.307' },
    bitstamp: { EUR: '0.09', GBP: '0.79' },
    coingecko: { EUR: '0.922' },
  });
  await fiat.check();
  isNear(rateOf(fiat, 'EUR').rateE8, '0.921');
  assert.deepEqual(rateOf(fiat, 'EUR').sources, ['coinbase', 'coingecko']);
  assert.match(reasonOf(fiat, 'KWD'), /too few sources agree/);
  assert.match(reasonOf(fiat, 'GBP'), /too few sources agree/);
  assert.match(reasonOf(fiat, 'SEK'), /no source has it/);
});

test('reference rates only confirm a rate: they vote when the others are not enough, and otherwise do not count', async (t) => {
  const books: Record<string, Book> = {
    coinbase: { EUR: '0.92', SEK: '10.5', NOK: '10', TRY: '40' },
    coingecko: { EUR: '0.921', TRY: '45' },
    ecb: { EUR: '0.93', SEK: '10.55', NOK: '11', TRY: '44.9' },
  };
  const { fiat } = await openRates(t, books);
  await fiat.check();
  assert.deepEqual(rateOf(fiat, 'EUR').sources, ['coinbase', 'coingecko']);
  const sek = rateOf(fiat, 'SEK');
  assert.deepEqual([sek.rateE8, sek.sources, sek.asOf], [1_050_000_000n, ['coinbase', 'ecb'], new Date(START)]);
  assert.match(reasonOf(fiat, 'NOK'), /too few sources agree/);
  const lira = rateOf(fiat, 'TRY');
  assert.deepEqual([lira.rateE8, lira.sources], [4_500_000_000n, ['coingecko', 'ecb']]);
});

test('rates are valid for a quarter of an hour, reference rates for six days', async (t) => {
  const { fiat, pass } = await openRates(t, { coinbase: MAJORS, kraken: MAJORS, ecb: MAJORS });
  await fiat.check();
  pass(15);
  assert.equal(rateOf(fiat, 'EUR').asOf.getTime(), START);
  pass(0.001);
  // The central bank's rates alone are one source.
  assert.match(reasonOf(fiat, 'EUR'), /too few sources agree/);
  const old = await openRates(t, { coinbase: MAJORS, ecb: MAJORS });
  old.pass(5 * 24 * 60 + 3 * 60);
  await old.fiat.check();
  assert.deepEqual(rateOf(old.fiat, 'EUR').sources, ['coinbase', 'ecb']);
  old.pass(0.001);
  assert.match(reasonOf(old.fiat, 'EUR'), /too few sources agree/);
  old.pass(15);
  assert.match(reasonOf(old.fiat, 'EUR'), /too old/);
});

test('an invalid answer costs only that source its vote', async (t) => {
  const broken: Record<string, (reply: ServerResponse) => void> = {
    'a page of HTML': (reply) => void reply.writeHead(200).end('<!doctype html><title>Checking</title>'),
    429: (reply: ServerResponse) => json(reply, '{"status":{"error_code":429}}', 429),
    null: (reply: ServerResponse) => json(reply, 'null'),
    'another currency': (reply: ServerResponse) => json(reply, '{"data":{"currency":"EUR","rates":{"EUR":"1","JPY":"170"}}}'),
    'an error in a 200': (reply: ServerResponse) => json(reply, '{"error":["EGeneral:Too many requests"]}'),
    'no end': (reply: ServerResponse) => json(reply, `"${'x'.repeat(300_000)}"`),
  };
  for (const [what, answer] of Object.entries(broken)) {
    const { fiat, answers } = await openRates(t, Object.fromEntries(FIAT_SOURCES.map((name) => [name, MAJORS])));
    for (const name of FIAT_SOURCES) {
      answers[name] = answer;
      const told = await fiat.check();
      assert.ok(told.find((report) => report.name === name)!.failure, `${name} reads a rate in ${what}`);
      assert.equal(told.filter((report) => report.failure === null).length, FIAT_SOURCES.length - 1);
      delete answers[name];
    }
  }
});

test('a pair that Kraken does not have does not affect the others', async (t) => {
  const { CHF: _, ...without } = MAJORS;
  const { fiat } = await openRates(t, { kraken: without, coinbase: MAJORS }, 'kraken,coinbase');
  await fiat.check();
  assert.deepEqual(rateOf(fiat, 'JPY').sources, ['kraken', 'coinbase']);
  assert.match(reasonOf(fiat, 'CHF'), /too few/);
});

test('without any source, test mode has a labeled sample for every currency, and live mode has none', async (t) => {
  const { fiat } = await openRates(t, {});
  await fiat.check();
  for (const currency of FIATS.filter((code) => code !== 'USD')) {
    const { rateE8, sources, sample } = fiat.forTest(currency);
    assert.deepEqual([rateE8 > 0n, sources, sample], [true, ['sample'], true], currency);
    assert.match(reasonOf(fiat, currency), /no source has it/);
  }
  assert.equal(fiat.forTest('USD').sample, false);
});

test('static rates are exact, need no second source, and exist only for the listed currencies', () => {
  const clock = { now: () => new Date(START), monotonicMs: () => 0 };
  const make = (sources: string) => createFiatRates({ outgoing, clock, log: silent, sources });
  const fixed = make('static:EUR=0.92000001, JPY=155');
  assert.deepEqual([rateOf(fixed, 'EUR').rateE8, rateOf(fixed, 'JPY').rateE8], [92_000_001n, 15_500_000_000n]);
  assert.deepEqual(rateOf(fixed, 'EUR').sources, ['static']);
  assert.equal(reasonOf(fixed, 'GBP'), 'FIAT_RATES sets none');
  assert.equal(reasonOf(make(''), 'EUR'), 'FIAT_RATES names no source');
  for (const sources of ['static:EUR', 'static:EUR=0', 'static:EUR=-1', 'static:USD=1', 'static:XXX=1', 'static:eur=1', 'static:EUR=1e2'])
    assert.throws(() => make(sources), /FIAT_RATES must look like static:EUR/, sources);
  for (const sources of ['ecb,fed', 'constructor', 'ECB'])
    assert.throws(() => make(sources), /FIAT_RATES names .*known are coinbase, kraken/);
});
