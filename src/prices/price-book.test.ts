/** The prices of this moment, without a network or a database: reports in, prices and reasons out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvariantError } from '../core/invariant.ts';
import { agreedPrices, type Book, createBook, decidePrices, lookUp, priceChange, quotableAt, takeVotes } from './price-book.ts';
import { minuteOf } from './prices.ts';

const START = Date.parse('2026-03-01T12:00:00Z');
/** The moment `seconds` after the start. */
const at = (seconds: number) => ({ ms: seconds * 1000, date: new Date(START + seconds * 1000) });
/** Reports of BTC in dollars at that time, one of each source. */
function report(book: Book, seconds: number, reports: Record<string, bigint>, change: bigint | null = null): void {
  for (const [source, usd] of Object.entries(reports))
    takeVotes(book, { source, aggregator: false, at: at(seconds).ms }, [
      { asset: 'BTC', priceE8: usd * 10n ** 8n, change24hBasisPoints: change },
    ]);
}
const usdAt = (book: Book, seconds: number) => {
  const found = quotableAt(book, 'BTC', at(seconds).ms);
  return 'price' in found ? found.price.priceE8 / 10n ** 8n : found.reason;
};

test('a price is quoted for two minutes after two sources reported it, is shown for ten, and then ends', () => {
  const book = createBook();
  decidePrices(book, at(0));
  assert.equal(usdAt(book, 0), 'no price source answers');
  report(book, 1, { kraken: 100n, coinbase: 102n });
  decidePrices(book, at(5));
  assert.equal(usdAt(book, 5), 101n);
  assert.equal(lookUp(book, 'BTC', at(5).ms)?.asOf.getTime(), at(1).date.getTime(), 'as old as its reports');
  assert.equal(usdAt(book, 121), 101n);
  assert.equal(usdAt(book, 122), 'the last price is too old');
  assert.equal(lookUp(book, 'BTC', at(122).ms)?.stale, true);
  assert.equal(lookUp(book, 'BTC', at(601).ms)?.priceE8, 101n * 10n ** 8n);
  assert.equal(lookUp(book, 'BTC', at(602).ms), null);
  assert.equal(lookUp(book, 'ETH', at(5).ms), null);
});

test('while sources disagree, the last price is kept with the reason, and is neither quoted nor stored', () => {
  const book = createBook();
  report(book, 0, { kraken: 100n, coinbase: 100n });
  decidePrices(book, at(0));
  assert.deepEqual(
    agreedPrices(book).map(({ asset }) => asset),
    ['BTC'],
  );
  report(book, 10, { kraken: 150n });
  decidePrices(book, at(10));
  assert.equal(usdAt(book, 10), 'the price sources do not agree');
  assert.equal(lookUp(book, 'BTC', at(10).ms)?.priceE8, 100n * 10n ** 8n);
  assert.deepEqual(agreedPrices(book), []);
  report(book, 20, { kraken: 101n });
  decidePrices(book, at(20));
  assert.equal(usdAt(book, 20), 100n);
});

test('a jump is measured from the oldest price of the last five minutes, which a later report does not replace', () => {
  const book = createBook();
  report(book, 0, { kraken: 100n, coinbase: 100n });
  decidePrices(book, at(0));
  for (const [seconds, usd, quoted] of [
    [100, 110n, 110n],
    [200, 118n, 'the price jumped and too few sources confirm it'],
    [310, 118n, 118n],
  ] as const) {
    report(book, seconds, { kraken: usd, coinbase: usd });
    decidePrices(book, at(seconds));
    assert.equal(usdAt(book, seconds), quoted, `${seconds} s`);
  }
});

test('the change of a day is the one that sources report, else the one since the price of a day ago, else none', () => {
  const now = { priceE8: 102n, change24hBasisPoints: null };
  assert.deepEqual(priceChange({ ...now, change24hBasisPoints: -5n }, 100n), { change24hBasisPoints: -5n, changeFrom: 'sources' });
  assert.deepEqual(priceChange(now, 100n), { change24hBasisPoints: 200n, changeFrom: 'history' });
  assert.deepEqual(priceChange(now, undefined), { change24hBasisPoints: 0n, changeFrom: 'none' });
});

test('a price of zero, or one that was reported in the future, is never kept', () => {
  for (const [usd, seconds] of [
    [0n, 0],
    [100n, 60],
  ] as const) {
    const book = createBook();
    report(book, seconds, { kraken: usd, coinbase: usd });
    assert.throws(() => decidePrices(book, at(0)), InvariantError);
    assert.equal(lookUp(book, 'BTC', 0), null);
  }
});

test('the history has one row a minute', () => {
  assert.equal(minuteOf(new Date('2026-03-01T12:00:59.999Z')).toISOString(), '2026-03-01T12:00:00.000Z');
});
