/** What customers are asked for: a token of the price's own currency at par, and shares of a price that was rounded to cents. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { priceShare } from '../core/asked-price.ts';
import { COIN, type Coin } from '../core/coin.ts';
import { type Fiat, fiatToUsdCents, formatFiat } from '../core/fiat.ts';
import { centsToE8, formatUnits, worthUsdE8 } from '../core/money.ts';
import { askIn } from './price.ts';

/** A price as it is stored with its payment, at a rate of units for one dollar. */
const priceIn = (currency: Fiat, minor: bigint, rateE8: bigint) =>
  currency === 'USD'
    ? { targetUsdCents: minor, fiat: null }
    : {
        targetUsdCents: fiatToUsdCents(currency, minor, rateE8),
        fiat: { amount: formatFiat(currency, minor), currency, rateE8, source: 'test', at: '2026-11-27T12:00:00.000Z' },
      };

test('a token of the currency of the price is asked for at par, unless its market left it; others at their price', () => {
  const table = `
price       | rate     | coin      | market     | asked | percent
20.00 EUR   | 0.925    | EURC@ethereum | 1.08000000 | 20.00
0.01 EUR    | 0.925    | EURC@ethereum | 1.08000000 | 0.01
20.00 EUR   | 0.925    | EURC@ethereum | 1.08900000 | 20.00
20.00 EUR   | 0.925    | EURC@ethereum | 1.05000000 | 20.60
20.00 EUR   | 0.925    | USDC@ethereum | 1.00000000 | 21.63
25.00 USD   | 1        | USDC@ethereum | 0.99980000 | 25.00
25.00 USD   | 1        | USDC@base | 1.00310000 | 25.00
25.00 USD   | 1        | USDC@ethereum | 0.95000000 | 26.32
25.00 USD   | 1        | EURC@ethereum | 1.08000000 | 23.15
2000 JPY    | 149.55   | USDC@ethereum | 0.99980000 | 13.39
20.00 EUR   | 0.925    | EURC@ethereum | 1.08000000 | 20.30 | 1.50
20.00 EUR   | 0.925    | EURC@ethereum | 1.08000000 | 19.00 | -5.00
25.00 USD   | 1        | USDC@ethereum | 0.95000000 | 26.85 | 2.00
100.00 USD  | 1        | LTC       | 100.00000000 | 1.02000000 | 2.00
100.00 USD  | 1        | LTC       | 100.00000000 | 0.80000000 | -20.00
0.01 USD    | 1        | LTC       | 100.00000000 | 0.00010200 | 2.00`;
  const scaled = (text: string, places: number) => {
    const [whole, decimals = ''] = text.split('.');
    return BigInt(whole! + decimals.padEnd(places, '0'));
  };
  for (const row of table.trim().split('\n').slice(1)) {
    const [price, rate, coin, market, asked, percent = '0.00'] = row.split('|').map((cell) => cell.trim()) as [
      ...[string, string, Coin, string, string],
      string?,
    ];
    const pricing = { adjustments: { [COIN[coin].asset]: Number(percent.replace('.', '')) }, priceSource: null };
    const [amount, currency] = price.split(' ') as [string, Fiat];
    const wanted = priceIn(currency, BigInt(amount.replace('.', '')), scaled(rate, 8));
    const { units, rateE8 } = askIn(coin, { ...wanted, pricing }, scaled(market, 8));
    assert.equal(formatUnits(coin, units), asked, row);
    // What was asked for is never worth less than the price.
    assert.ok(worthUsdE8(coin, units, rateE8) >= centsToE8(wanted.targetUsdCents), row);
  }
});

test('what was paid exactly is exactly the price, in every currency, although prices are rounded up to cents', () => {
  for (const [currency, minor, rateE8] of [
    ['EUR', 2_000n, 92_165_000n],
    ['JPY', 2_000n, 14_955_000_000n],
    ['KWD', 10_125n, 30_712_345n],
    ['USD', 2_001n, 100_000_000n],
  ] as const) {
    const { targetUsdCents } = priceIn(currency, minor, rateE8);
    assert.equal(priceShare({ minor, cents: targetUsdCents, ofCents: targetUsdCents }), minor, currency);
    assert.equal(priceShare({ minor, cents: 2n * targetUsdCents, ofCents: targetUsdCents }), 2n * minor, currency);
    assert.equal(priceShare({ minor, cents: 0n, ofCents: targetUsdCents }), 0n, currency);
  }
});
