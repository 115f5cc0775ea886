/** Converting prices in other currencies to US cents never loses part of the price. */
// Invariant: Converting another currency never lowers the requested amount.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FIATS, fiatDecimals, fiatToUsdCents, formatFiat, usdCentsToFiat } from './fiat.ts';
import { E8, parseDecimal } from './money.ts';

const runs = { numRuns: process.env.FLORIN_LONG ? 100_000 : 2_000 };
const currency = fc.constantFrom(...FIATS);
const minor = fc.bigInt({ min: 1n, max: 10n ** 13n });
const rate = fc.bigInt({ min: 10n ** 5n, max: 10n ** 14n });

test('the cents are worth the requested amount or more, but less than a cent more', () => {
  fc.assert(
    fc.property(currency, minor, rate, (code, amount, rateE8) => {
      const cents = fiatToUsdCents(code, amount, rateE8);
      // Both sides in 10^-(decimals + 10) units of the currency.
      const asked = amount * 100n * E8;
      const worth = (usdCents: bigint) => usdCents * rateE8 * 10n ** BigInt(fiatDecimals(code));
      assert.ok(worth(cents) >= asked);
      assert.ok(worth(cents - 1n) < asked);
      assert.ok(cents > 0n);
    }),
    runs,
  );
});

test('a higher price never gives fewer cents', () => {
  fc.assert(
    fc.property(currency, minor, minor, rate, (code, a, b, rateE8) => {
      const [less, more] = a < b ? [a, b] : [b, a];
      assert.ok(fiatToUsdCents(code, less, rateE8) <= fiatToUsdCents(code, more, rateE8));
    }),
    runs,
  );
});

test('an amount is written with exactly the decimals of its currency and read back the same', () => {
  fc.assert(
    fc.property(currency, minor, (code, amount) => {
      const text = formatFiat(code, amount);
      assert.equal(text.split('.')[1]?.length ?? 0, fiatDecimals(code));
      assert.equal(parseDecimal(text, fiatDecimals(code)), amount);
    }),
    runs,
  );
});

test('amounts in cents, by hand', () => {
  for (const [code, amount, rateText, cents, text] of [
    ['USD', 1999n, '1', 1999n, '19.99'],
    ['EUR', 2000n, '0.92', 2174n, '20.00'],
    ['GBP', 1n, '0.8', 2n, '0.01'],
    ['JPY', 1000n, '150', 667n, '1000'],
    ['JPY', 1n, '150', 1n, '1'],
    ['JPY', 150n, '150', 100n, '150'],
    ['KWD', 1500n, '0.307', 489n, '1.500'],
    ['KWD', 307n, '0.307', 100n, '0.307'],
    ['KWD', 1n, '0.307', 1n, '0.001'],
    ['VND', 25000n, '25000', 100n, '25000'],
  ] as const) {
    assert.equal(fiatToUsdCents(code, amount, parseDecimal(rateText, 8)!), cents, `${amount} ${code}`);
    assert.equal(formatFiat(code, amount), text);
  }
});

test('decimals are those of ISO 4217', () => {
  const byDecimals = (n: number) => FIATS.filter((code) => fiatDecimals(code) === n);
  const none = ['JPY', 'BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'KMF', 'KRW', 'PYG', 'RWF', 'UGX', 'VND', 'VUV', 'XAF', 'XOF', 'XPF'];
  assert.deepEqual(byDecimals(0), none);
  assert.deepEqual(byDecimals(3), ['BHD', 'IQD', 'JOD', 'KWD', 'OMR', 'TND']);
  assert.equal(byDecimals(2).length, FIATS.length - none.length - 6);
  // Every code is one that the standard lists today: the runtime has its own copy of the list.
  const names = new Intl.DisplayNames('en', { type: 'currency', fallback: 'none' });
  for (const code of FIATS) assert.ok(names.of(code), code);
});

test('cents are shown in another currency to the nearest of its units, and a negative amount as its opposite', () => {
  fc.assert(
    fc.property(currency, minor, rate, (code, cents, rateE8) => {
      const shown = usdCentsToFiat(code, cents, rateE8);
      const error = shown * 100n * E8 - cents * rateE8 * 10n ** BigInt(fiatDecimals(code));
      assert.ok((error < 0n ? -error : error) * 2n <= 100n * E8);
      assert.equal(usdCentsToFiat(code, -cents, rateE8), -shown);
    }),
    runs,
  );
  assert.equal(usdCentsToFiat('EUR', 1_337n, 92_000_000n), 1_230n);
  assert.equal(usdCentsToFiat('JPY', 100_000n, 15_100_500_000n), 151_005n);
});
