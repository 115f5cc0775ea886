/** The rules of agreement for any votes: any liars, by any amount, in any order, at any time. */
// Invariant: One bad source does not move a price; a jump needs three sources.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ASSET, ASSETS, NATIVE_ASSETS } from '../core/coin.ts';
import { agree, decidePrice, median, outlierPercent, type PriceReport } from './agreement.ts';

const runs = { numRuns: process.env.FLORIN_LONG ? 100_000 : 2_000 };
const percent = fc.constantFrom(2n, 3n);
const price = fc.bigInt({ min: 1n, max: 10n ** 16n });
const votesOf = (prices: readonly bigint[]) => prices.map((priceE8, i) => ({ source: `s${i}`, priceE8 }));
const apart = (a: bigint, b: bigint) => (a > b ? a - b : b - a);
/** Votes around one base, up to `spread` hundredths of a percent from it. */
const around = (spread: number, min: number, max: number) =>
  fc
    .tuple(
      fc.bigInt({ min: 10n ** 6n, max: 10n ** 14n }),
      fc.array(fc.integer({ min: -spread, max: spread }), { minLength: min, maxLength: max }),
    )
    .map(([base, off]) => off.map((o) => (base * (10_000n + BigInt(o))) / 10_000n));

test('the agreed price is among those that agree, each within the limit of it, in any order', () => {
  fc.assert(
    fc.property(percent, fc.oneof(fc.array(price, { maxLength: 7 }), around(500, 0, 7)), fc.integer(), (bound, prices, seed) => {
      const found = agree(bound, votesOf(prices));
      const shuffled = votesOf(prices).toSorted(
        (a, b) => ((Number(a.source[1]) * 7919 + seed) % 13) - ((Number(b.source[1]) * 7919 + seed) % 13),
      );
      const again = agree(bound, shuffled);
      assert.deepEqual(again?.priceE8, found?.priceE8);
      if (!found) return;
      const near = found.near.map((v) => v.priceE8);
      assert.ok(near.length >= 2);
      assert.equal(found.priceE8, median(near));
      const low = near.reduce((a, b) => (b < a ? b : a));
      const high = near.reduce((a, b) => (b > a ? b : a));
      assert.ok(found.priceE8 >= low && found.priceE8 <= high);
      if (near.length === 2) assert.ok((high - low) * 100n <= low * bound);
      else for (const p of near) assert.ok(apart(p, found.priceE8) * 100n <= found.priceE8 * bound);
    }),
    runs,
  );
});

test('fewer liars than honest sources do not move the price out of the honest range', () => {
  fc.assert(
    fc.property(percent, around(40, 2, 5), fc.array(price, { maxLength: 4 }), (bound, honest, lies) => {
      const found = agree(bound, votesOf([...honest, ...lies.slice(0, honest.length - 1)]));
      assert.ok(found, 'the honest agree');
      const low = honest.reduce((a, b) => (b < a ? b : a));
      const high = honest.reduce((a, b) => (b > a ? b : a));
      assert.ok(found.priceE8 >= low && found.priceE8 <= high);
    }),
    runs,
  );
});

test('one source alone, or two that contradict each other, agree on nothing', () => {
  fc.assert(
    fc.property(percent, price, price, (bound, a, b) => {
      assert.equal(agree(bound, votesOf([a])), null);
      const low = a < b ? a : b;
      assert.equal(agree(bound, votesOf([a, b])) === null, apart(a, b) * 100n > low * bound);
    }),
    runs,
  );
});

const vote = fc.record({
  priceE8: fc.bigInt({ min: 10n ** 9n, max: 10n ** 9n + 10n ** 8n }),
  age: fc.integer({ min: 0, max: 200_000 }),
  aggregator: fc.boolean(),
  change24hBasisPoints: fc.option(fc.bigInt({ min: -5_000n, max: 5_000n })),
});
const NOW = 1_000_000;
const asVotes = (
  given: readonly { priceE8: bigint; age: number; aggregator: boolean; change24hBasisPoints: bigint | null }[],
): PriceReport[] => given.map(({ age, ...v }, i) => ({ ...v, source: `s${i}`, at: NOW - age }));

test('votes older than 120 seconds change nothing', () => {
  fc.assert(
    fc.property(fc.constantFrom(...ASSETS), fc.array(vote, { maxLength: 6 }), (asset, given) => {
      const votes = asVotes(given);
      const fresh = votes.filter((v) => NOW - v.at <= 120_000);
      assert.deepEqual(decidePrice(asset, { votes, past: [], now: NOW }), decidePrice(asset, { votes: fresh, past: [], now: NOW }));
    }),
    runs,
  );
});

test('aggregators change nothing where two exchanges agree', () => {
  fc.assert(
    fc.property(fc.constantFrom(...ASSETS), fc.array(vote, { maxLength: 6 }), (asset, given) => {
      const votes = asVotes(given);
      const alone = decidePrice(asset, { votes: votes.filter((v) => !v.aggregator), past: [], now: NOW });
      if ('reason' in alone) return;
      assert.deepEqual(decidePrice(asset, { votes, past: [], now: NOW }), alone);
      assert.ok(alone.sources.every((name) => !votes.find((v) => v.source === name)!.aggregator));
    }),
    runs,
  );
});

test('a price is as old as the second of its sources, and its change is one of theirs or between two', () => {
  fc.assert(
    fc.property(fc.constantFrom(...ASSETS), fc.array(vote, { maxLength: 6 }), (asset, given) => {
      const votes = asVotes(given);
      const found = decidePrice(asset, { votes, past: [], now: NOW });
      if ('reason' in found) return;
      const theirs = votes.filter((v) => found.sources.includes(v.source));
      assert.ok(theirs.filter((v) => v.at > found.at).length <= 1);
      assert.ok(theirs.filter((v) => v.at >= found.at).length >= 2);
      const changes = theirs.flatMap((v) => (v.change24hBasisPoints === null ? [] : [v.change24hBasisPoints]));
      if (changes.length === 0) assert.equal(found.change24hBasisPoints, null);
      else {
        assert.ok(found.change24hBasisPoints! >= changes.reduce((a, b) => (b < a ? b : a)));
        assert.ok(found.change24hBasisPoints! <= changes.reduce((a, b) => (b > a ? b : a)));
      }
    }),
    runs,
  );
});

test('a price more than 15% from five minutes ago needs three sources', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...ASSETS),
      fc.bigInt({ min: 10n ** 8n, max: 10n ** 13n }),
      fc.integer({ min: 10, max: 400 }),
      fc.integer({ min: 2, max: 5 }),
      fc.integer({ min: 0, max: 600_000 }),
      fc.boolean(),
      (asset, before, toPercent, sources, age, last) => {
        const priceE8 = (before * BigInt(toPercent)) / 100n;
        // The last of them may be an aggregator: it confirms as well as any.
        const votes = Array.from({ length: sources }, (_, i): PriceReport => {
          const aggregator = last && i === sources - 1;
          return { source: `s${i}`, aggregator, priceE8, change24hBasisPoints: null, at: NOW };
        });
        const found = decidePrice(asset, { votes, past: [{ priceE8: before, at: NOW - age }], now: NOW });
        const jumped = apart(priceE8, before) * 100n > before * 15n && age <= 300_000;
        if (jumped && sources < 3) assert.deepEqual(found, { reason: 'the price jumped and too few sources confirm it' });
        else assert.equal('reason' in found ? found.reason : found.priceE8, priceE8);
      },
    ),
    runs,
  );
});

test('the limit is 2% for BTC, ETH and what should be worth a currency, 3% for the others', () => {
  assert.deepEqual(
    NATIVE_ASSETS.map((asset) => [asset, outlierPercent(asset)]),
    [
      ['BTC', 2n],
      ['ETH', 2n],
      ['LTC', 3n],
      ['DASH', 3n],
      ['DOGE', 3n],
    ],
  );
  for (const asset of ASSETS) if (ASSET[asset].par !== undefined) assert.equal(outlierPercent(asset), 2n, asset);
});
