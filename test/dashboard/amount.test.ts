/** How the dashboard formats and adds amounts: exactly, whatever their size. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { aboutText, lessOf, moneyText, significant, sumOf, sumText, withUsd } from '../../dashboard/lib/amount.ts';
import { coinName, coinOf, coinText } from '../../dashboard/lib/coin.ts';
import { lateHint } from '../../dashboard/lib/late.ts';
import { FIATS, fiatDecimals } from '../../src/core/fiat.ts';
import { formatDecimal } from '../../src/core/money.ts';

test('coin amounts show their significant decimals, dollars show two, or four digits of a rate below one', () => {
  const rows: [amount: string, currency: string, text: string][] = [
    ['27.23000000', 'DASH', '27.23 DASH'],
    ['0.00026289', 'BTC', '0.00026289 BTC'],
    ['0.00000000', 'BTC', '0 BTC'],
    ['1234567.50000000', 'DOGE', '1,234,567.5 DOGE'],
    ['0.123456789012345678', 'ETH', '0.12345678 ETH'],
    ['1.000000000000000001', 'ETH', '1 ETH'],
    ['0.000000000000000001', 'ETH', '0.000000000000000001 ETH'],
    ['25.500000', 'USDC@base', '25.5 USDC on Base'],
    ['25.500000', 'USDC@ethereum', '25.5 USDC on Ethereum'],
    ['816.95', 'USD', '$816.95'],
    ['1000000.00', 'USD', '$1,000,000.00'],
    ['-12.50', 'USD', '-$12.50'],
    ['0.00', 'USD', '$0.00'],
    ['24.00', 'EUR', '€24.00'],
    ['1500', 'JPY', '¥1,500'],
    ['9007199254740993.05', 'CHF', 'CHF\u00a09,007,199,254,740,993.05'],
    ['97123.45678901', 'USD', '$97,123.45'],
    ['0.07123456', 'USD', '$0.07123'],
    ['0.00001234', 'USD', '$0.00001234'],
  ];
  for (const [amount, currency, text] of rows) assert.equal(moneyText(amount, currency), text);
  assert.equal(withUsd('27.23000000', 'DASH', '816.95'), '27.23 DASH ($816.95)');
  assert.equal(withUsd('27.23000000', 'DASH', null), '27.23 DASH');
});

test('amounts of several coins become one text with one value', () => {
  const dash = { currency: 'DASH', amount: '27.23000000', amount_usd: '816.95' };
  const half = { currency: 'DASH', amount: '0.50000000', amount_usd: '15.00' };
  const bitcoin = { currency: 'BTC', amount: '0.10000000', amount_usd: '9700.05' };
  assert.equal(sumText([]), '', 'nothing came');
  assert.equal(sumText([dash]), '27.23 DASH ($816.95)');
  assert.equal(sumText([dash, half, bitcoin]), '27.73 DASH and 0.1 BTC ($10,532.00)');
  assert.equal(sumText([dash, { ...bitcoin, amount_usd: null }]), '27.23 DASH and 0.1 BTC', 'one has no price yet');
});

test('the display currency is exact to the nearest of its units, in its own decimals and marked as approximate', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: 10n ** 14n }),
      fc.bigInt({ min: 1n, max: 10n ** 13n }),
      fc.constantFrom(...FIATS),
      (cents, rateE8, fiat) => {
        const decimals = fiatDecimals(fiat);
        const shown = aboutText(formatDecimal(cents, 2), { currency: fiat, decimals, rate: formatDecimal(rateE8, 8) });
        const minor = BigInt(shown.replace(/\D/g, ''));
        const error = minor * 10n ** 10n - cents * rateE8 * 10n ** BigInt(decimals);
        assert.ok((error < 0n ? -error : error) * 2n <= 10n ** 10n, shown);
        assert.equal(shown.split('.')[1]?.length ?? 0, decimals);
      },
    ),
  );
  assert.equal(aboutText('13.37', { currency: 'EUR', decimals: 2, rate: '0.92000000' }), '≈ €12.30');
  assert.equal(aboutText('-1000.00', { currency: 'JPY', decimals: 0, rate: '151.00500000' }), '≈ -¥151,005');
});

test('sums and differences are exact for amounts of any size', () => {
  const units = fc.bigInt({ min: 0n, max: 10n ** 30n });
  fc.assert(
    fc.property(units, units, fc.constantFrom(0, 2, 8, 18), (a, b, places) => {
      const text = (value: bigint) => formatDecimal(value, places);
      assert.equal(sumOf([text(a), text(b)]), text(a + b));
      assert.equal(lessOf(text(a), text(b)), text(a - b));
      // The amount shown is never more than the actual one.
      assert.ok(!lessOf(text(a), significant(text(a))).startsWith('-'));
    }),
  );
  assert.equal(sumOf(['1.5', '0.000000000000000001']), '1.500000000000000001');
  assert.equal(sumOf([]), '0');
});

test('a coin is named by its asset, and by its network unless it is native to it', () => {
  for (const [currency, network, code, text, name] of [
    ['BTC', 'bitcoin', 'BTC', 'BTC', 'Bitcoin'],
    ['ETH', 'ethereum', 'ETH', 'ETH', 'Ethereum'],
    ['USDC', 'ethereum', 'USDC@ethereum', 'USDC on Ethereum', 'USD Coin on Ethereum'],
    ['ETH', 'base', 'ETH@base', 'ETH on Base', 'ETH on Base'],
    ['POL', 'polygon', 'POL@polygon', 'POL on Polygon', 'POL on Polygon'],
    // The customer has not chosen the network yet.
    ['USDC', null, 'USDC', 'USDC', 'USDC'],
  ] as const) {
    assert.equal(coinOf({ currency, network }), code);
    assert.equal(coinText(code), text);
    assert.equal(coinName(code), name);
  }
  assert.equal(coinName('USDC@base', 'USD Coin'), 'USD Coin on Base');
});

test('money that arrives weeks after its payment may come from an address that the merchant’s own wallet gave out again', () => {
  const expires_at = '2026-01-01T00:00:00.000Z';
  const hint = (...seen: string[]) => lateHint({ expires_at, transfers: seen.map((first_seen_at) => ({ first_seen_at })) });
  assert.match(hint('2025-12-31T00:00:00.000Z', '2026-02-01T00:00:00.000Z'), /your own wallet may have given out this address again/);
  assert.deepEqual([hint(), hint('2025-12-31T00:00:00.000Z'), hint('2026-01-02T00:00:00.000Z')], ['', '', '']);
});
