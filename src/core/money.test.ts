/** Money by example: the amounts that merchants and customers see. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Coin } from './coin.ts';
import {
  formatDecimal,
  formatUnits,
  formatUsd,
  parseAmount,
  parseDecimal,
  quoteUnits,
  readAmountText,
  readTypedAmount,
  worthUsdE8,
} from './money.ts';

test('decimals are read to the last place', () => {
  for (const [text, decimals, units] of [
    ['0', 2, 0n],
    ['25', 2, 2_500n],
    ['25.5', 2, 2_550n],
    ['25.00', 2, 2_500n],
    ['0.01', 2, 1n],
    ['1000000.00', 2, 100_000_000n],
    ['0.00000001', 8, 1n],
    ['20999999.9769', 8, 2_099_999_997_690_000n],
    ['1.000000000000000001', 18, 10n ** 18n + 1n],
    // More than a float can represent.
    ['9007199254740993', 0, 9_007_199_254_740_993n],
    ['90071992547409.93', 2, 9_007_199_254_740_993n],
  ] as const) {
    assert.equal(parseDecimal(text, decimals), units, text);
  }
});

test('a text that is not a plain decimal of the unit is refused', () => {
  const texts = [
    '',
    ' ',
    '-1',
    '+1',
    '1e3',
    '1.',
    '.5',
    '01',
    '00',
    '1,5',
    '1 000',
    '1_000',
    '0x10',
    '1.2.3',
    'NaN',
    'Infinity',
    '１２',
    '1\n',
  ];
  for (const text of texts) assert.equal(parseDecimal(text, 2), null, JSON.stringify(text));
  assert.equal(parseDecimal('0.001', 2), null);
  assert.equal(parseDecimal('0.000', 2), null);
  assert.equal(parseDecimal('1'.repeat(61), 2), null);
  assert.notEqual(parseDecimal('1'.repeat(60), 2), null);
});

test('amounts in every form of a JSON number are read exactly, and the noise of doubles is rounded', () => {
  for (const [text, decimals, units] of [
    ['0', 2, 0n],
    ['-0', 2, 0n],
    ['-0.0e5', 2, 0n],
    ['1e2', 2, 10_000n],
    ['1E+2', 2, 10_000n],
    ['1e-2', 2, 1n],
    ['2.55e1', 2, 2_550n],
    ['25.500', 2, 2_550n],
    ['25.50e0', 2, 2_550n],
    ['0.0025500e4', 2, 2_550n],
    ['2550e-2', 2, 2_550n],
    ['25000e-1', 0, 2_500n],
    ['1e-8', 8, 1n],
    ['1e18', 18, 10n ** 36n],
    [String(1.1 * 3), 2, 330n],
    [String(4.35 * 100), 2, 43_500n],
    [String(0.1 + 0.2), 2, 30n],
    [String(0.1 + 0.2 - 0.3), 2, 0n],
    [String(1.005 * 1000), 0, 1_005n],
    ['999999.9999999999', 2, 100_000_000n],
    ['0.99999999', 0, 1n],
    ['1e-999999999', 2, 0n],
    [`1e-${'9'.repeat(60_000)}`, 2, 0n],
    [`0.${'0'.repeat(60_000)}1`, 2, 0n],
    [`25.${'0'.repeat(60_000)}1`, 2, 2_500n],
    ['25.505', 2, 'precision'],
    ['2.5505e1', 2, 'precision'],
    ['0.001', 2, 'precision'],
    // A millionth of a cent is not noise any more.
    ['25.500000009', 2, 2_550n],
    ['25.50000001', 2, 'precision'],
    ['25.5000000100', 2, 'precision'],
    ['25.49999999', 2, 'precision'],
    ['25.499999991', 2, 2_550n],
    ['1e-3', 2, 'precision'],
    ['-1', 2, 'negative'],
    ['-1e-2', 2, 'negative'],
    ['1e400', 2, 'huge'],
    ['1e999999999', 2, 'huge'],
    [`1e${'9'.repeat(60_000)}`, 2, 'huge'],
    ['9'.repeat(60_000), 2, 'huge'],
    ['', 2, 'form'],
    ['.5', 2, 'form'],
    ['5.', 2, 'form'],
    ['01', 2, 'form'],
    ['+1', 2, 'form'],
    ['1e', 2, 'form'],
    ['0x10', 2, 'form'],
    ['1_000', 2, 'form'],
    ['Infinity', 2, 'form'],
    ['1 ', 2, 'form'],
  ] as const) {
    assert.equal(parseAmount(text, decimals, { isNumber: true }), units, text.slice(0, 40));
  }
});

test('amounts in text have no sign and no exponent, and zeros at their end mean nothing', () => {
  for (const [text, units] of [
    ['25.500', 2_550n],
    ['25.5000000000000000000000000000000000000000000000000000000000000000', 2_550n],
    ['3.3000000000000003', 330n],
    ['25.505', 'precision'],
    ['1e2', 'form'],
    ['-0', 'negative'],
    ['-1', 'negative'],
  ] as const)
    assert.equal(parseAmount(text, 2), units, text);
  assert.deepEqual([readAmountText('25.500', 2), readAmountText('25.505', 2), readAmountText('1e2', 2)], [2_550n, null, null]);
});

test('amounts are shown with their decimals and never with an exponent', () => {
  assert.equal(formatUsd(0n), '0.00');
  assert.equal(formatUsd(5n), '0.05');
  assert.equal(formatUsd(100_000_000n), '1000000.00');
  assert.equal(formatUsd(-5n), '-0.05');
  assert.equal(formatUnits('BTC', 1n), '0.00000001');
  assert.equal(formatUnits('DOGE', 123_456_789_012_345_678n), '1234567890.12345678');
  assert.equal(formatUnits('ETH', 10n ** 18n), '1.00000000');
  assert.equal(formatUnits('ETH', 10n ** 10n), '0.00000001');
  assert.equal(formatUnits('ETH', 1n), '0.000000000000000001');
  assert.equal(formatUnits('ETH', 10n ** 18n + 10n), '1.00000000000000001');
  assert.equal(formatDecimal(1_234n, 0), '1234');
});

test('a quote is rounded up to the eighth decimal, and its value down', () => {
  for (const [coin, cents, priceE8, units] of [
    ['BTC', 2_500n, 9_700_000_000_000n, 25_774n],
    ['BTC', 9_700_000n, 9_700_000_000_000n, 100_000_000n],
    ['BTC', 1n, 10n ** 15n, 1n],
    ['LTC', 1_000n, 3_00000000n, 333_333_334n],
    ['DOGE', 100_000_000n, 20_000_000n, 500_000_000_000_000n],
    ['ETH', 2_500n, 3_500_00000000n, 7_142_860_000_000_000n],
  ] as const satisfies (readonly [Coin, bigint, bigint, bigint])[]) {
    assert.equal(quoteUnits(coin, cents, priceE8), units, `${coin} ${cents}`);
    assert.ok(worthUsdE8(coin, units, priceE8) >= cents * 1_000_000n);
  }
  assert.equal(worthUsdE8('BTC', 25_774n, 9_700_000_000_000n), 25_00078000n);
  assert.equal(worthUsdE8('DOGE', 1n, 20_000_000n), 0n);
});

test('a coin that is worth a currency is asked for in whole cents, and shown with two decimals', () => {
  for (const [coin, cents, priceE8, text] of [
    ['USDC@ethereum', 2_550n, 100_000_000n, '25.50'],
    ['USDC@ethereum', 2_550n, 99_000_000n, '25.76'],
    ['DAI@ethereum', 2_550n, 100_000_000n, '25.50'],
    ['DAI@ethereum', 1n, 98_500_000n, '0.02'],
    ['EURC@ethereum', 2_550n, 108_000_000n, '23.62'],
    ['USDT@ethereum', 100_000_000n, 100_000_000n, '1000000.00'],
  ] as const satisfies (readonly [Coin, bigint, bigint, string])[]) {
    const units = quoteUnits(coin, cents, priceE8);
    assert.equal(formatUnits(coin, units), text, `${coin} ${cents}`);
    assert.ok(worthUsdE8(coin, units, priceE8) >= cents * 1_000_000n);
  }
  assert.equal(formatUnits('USDC@ethereum', 25_500_001n), '25.500001', 'what arrived is shown to the last place');
});

test('an amount that a person types is read with the separators of every language, and refused where they can mean two things', () => {
  for (const [text, decimals, minor] of [
    ['1234.5', 2, 123_450n],
    ['1,234.50', 2, 123_450n],
    ['1.234,50', 2, 123_450n],
    ['1 234,50', 2, 123_450n],
    ['1\u202f234,50', 2, 123_450n],
    ["1'234.50", 2, 123_450n],
    ['1’234’567', 2, 123_456_700n],
    ['1,234,567.5', 2, 123_456_750n],
    ['25,5', 2, 2_550n],
    ['0,05', 2, 5n],
    ['1,234', 0, 1_234n],
    ['1.234', 0, 1_234n],
    ['25.00', 0, 25n],
    ['1.234', 3, 1_234n],
    ['1,5', 3, 1_500n],
    ['1.234,567', 3, 1_234_567n],
    ['1,234', 2, null],
    ['1,234', 3, null],
    ['1.234', 2, null],
    ['12,34.50', 2, null],
    ['1234,567.5', 2, null],
    ['1.234.50', 2, null],
    ['1,234 567', 2, null],
    ['1,,234', 2, null],
    ['25.', 2, null],
    ['.50', 2, null],
    [',50', 2, null],
    ['-5', 2, null],
    ['1e3', 2, null],
    ['€5', 2, null],
    ['', 2, null],
    [',', 0, null],
  ] as const)
    assert.equal(readTypedAmount(text, decimals), minor, `${text} with ${decimals} decimals`);
});
