/** Money over random amounts: decimals survive every round trip, and each rounding goes in its documented direction. */
// Invariant: Rounding never costs the merchant money, and a full payment never counts as underpaid because of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ASSET, COIN, COINS } from './coin.ts';
import {
  centsToE8,
  divideCeil,
  divideHalfEven,
  dueUnit,
  e8ToCents,
  formatDecimal,
  formatUnits,
  formatUsd,
  MAX_USD_CENTS,
  parseDecimal,
  quoteUnits,
  worthUsdE8,
} from './money.ts';

const RUNS = process.env.FLORIN_LONG ? 200_000 : 3_000;
const prove = <T extends [unknown, ...unknown[]]>(
  name: string,
  arbitraries: { [K in keyof T]: fc.Arbitrary<T[K]> },
  check: (...values: T) => void,
): void => {
  test(name, () =>
    fc.assert(
      fc.property(fc.tuple(...arbitraries), (values) => check(...(values as T))),
      { numRuns: RUNS },
    ),
  );
};

const coin = fc.constantFrom(...COINS);
/** From one base unit to more than the total supply, small numbers as often as large ones. */
const units = fc.oneof(fc.bigInt({ min: 0n, max: 10n ** 10n }), fc.bigInt({ min: 0n, max: 10n ** 29n }));
const cents = fc.oneof(fc.bigInt({ min: 1n, max: 10_000n }), fc.bigInt({ min: 1n, max: MAX_USD_CENTS }));
/** A price from a hundredth of a cent to ten million USD, with eight decimals. */
const price = fc.oneof(fc.bigInt({ min: 10_000n, max: 10n ** 9n }), fc.bigInt({ min: 10_000n, max: 10n ** 15n }));

prove('every coin amount survives being written and read again', [coin, units], (of, amount) => {
  const text = formatUnits(of, amount);
  assert.equal(parseDecimal(text, COIN[of].decimals), amount);
  // Plain digits with eight decimals, or two of a coin that is worth a currency; more only where the value needs them.
  const shown = ASSET[COIN[of].asset].par === undefined ? 8 : 2;
  assert.match(text, new RegExp(`^(0|[1-9]\\d*)\\.\\d{${shown}}(\\d*[1-9])?$`));
  assert.ok(text.split('.')[1]!.length <= COIN[of].decimals);
});

prove('every USD amount survives being written and read again, with two decimals', [fc.bigInt({ min: 0n, max: 10n ** 15n })], (amount) => {
  assert.match(formatUsd(amount), /^(0|[1-9]\d*)\.\d{2}$/);
  assert.equal(parseDecimal(formatUsd(amount), 2), amount);
});

prove(
  'a negative amount is the positive one with a sign before it',
  [fc.bigInt({ min: 1n, max: 10n ** 20n }), fc.nat(18)],
  (amount, decimals) => {
    assert.equal(formatDecimal(-amount, decimals), `-${formatDecimal(amount, decimals)}`);
  },
);

const digits = (minLength: number, maxLength: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), minLength, maxLength });
prove(
  'a decimal is read by its digits, or not at all when it has more of them than the unit',
  [digits(1, 20), digits(0, 20), fc.nat(18)],
  (head, tail, decimals) => {
    const whole = head.replace(/^0+(?=\d)/, '');
    const read = parseDecimal(tail === '' ? whole : `${whole}.${tail}`, decimals);
    if (tail.length > decimals) assert.equal(read, null);
    else assert.equal(read, BigInt(whole) * 10n ** BigInt(decimals) + BigInt(tail.padEnd(decimals, '0') || '0'));
  },
);

const DISTURBED = [
  (t: string) => `-${t}`,
  (t: string) => `+${t}`,
  (t: string) => ` ${t}`,
  (t: string) => `${t} `,
  (t: string) => `${t}\n`,
  (t: string) => `0${t}`,
  (t: string) => `${t}.`,
  (t: string) => `${t}e2`,
  (t: string) => `${t}E-2`,
  (t: string) => `${t},5`,
  (t: string) => `${t}_000`,
  (t: string) => `0x${t}`,
  (t: string) => `.${t}`,
  (t: string) => `${t}.5.5`,
  (t: string) => `${t}n`,
  (t: string) => t.replace(/\d/g, (d) => String.fromCharCode(0x660 + Number(d))),
];
prove('what is not a plain decimal is never read as one', [fc.nat(10 ** 9), fc.constantFrom(...DISTURBED)], (number, disturb) => {
  assert.notEqual(parseDecimal(String(number), 8), null);
  assert.equal(parseDecimal(disturb(String(number)), 8), null);
});

prove('any text at all is read or refused, never thrown at', [fc.string({ unit: 'binary', maxLength: 80 })], (text) => {
  const read = parseDecimal(text, 8);
  if (read !== null) assert.equal(parseDecimal(formatDecimal(read, 8), 8), read);
});

prove(
  'a quote is the least shown amount that is worth the price: the merchant is never short, the payer gives at most one place more',
  [coin, cents, price],
  (of, amount, priceE8) => {
    const quoted = quoteUnits(of, amount, priceE8);
    const step = dueUnit(of);
    // As fractions: units / 10^decimals * priceE8 / 10^8 against cents / 100, without a division.
    const one = 10n ** BigInt(COIN[of].decimals);
    const covers = (u: bigint) => u * priceE8 * 100n >= amount * one * 100_000_000n;
    assert.equal(quoted % step, 0n);
    assert.ok(covers(quoted));
    assert.ok(!covers(quoted - step));
  },
);

prove('worth is rounded down, by less than its last place', [coin, units, price], (of, amount, priceE8) => {
  const one = 10n ** BigInt(COIN[of].decimals);
  const worth = worthUsdE8(of, amount, priceE8);
  assert.ok(worth * one <= amount * priceE8);
  assert.ok((worth + 1n) * one > amount * priceE8);
});

prove('a quote paid in full is worth the amount', [coin, cents, price], (of, amount, priceE8) => {
  assert.ok(worthUsdE8(of, quoteUnits(of, amount, priceE8), priceE8) >= centsToE8(amount));
});

prove(
  'more is never worth less, and a higher price never asks for more',
  [coin, units, units, cents, price, price],
  (of, a, b, amount, p, q) => {
    const [less, more] = a < b ? [a, b] : [b, a];
    const [low, high] = p < q ? [p, q] : [q, p];
    assert.ok(worthUsdE8(of, less, p) <= worthUsdE8(of, more, p));
    assert.ok(quoteUnits(of, amount, high) <= quoteUnits(of, amount, low));
  },
);

prove(
  'cents survive eight decimals, and eight decimals are rounded to the nearest cent, halves to the even one',
  [fc.bigInt({ min: 0n, max: 10n ** 18n })],
  (e8) => {
    assert.equal(e8ToCents(centsToE8(e8)), e8);
    const rounded = e8ToCents(e8);
    const off = rounded * 1_000_000n - e8;
    assert.ok(off <= 500_000n && off >= -500_000n);
    if (off === 500_000n || off === -500_000n) assert.equal(rounded % 2n, 0n);
  },
);
test('half a cent goes to the even cent', () => {
  assert.deepEqual([500_000n, 1_500_000n, 2_500_000n, 2_500_001n].map(e8ToCents), [0n, 2n, 2n, 3n]);
});

prove(
  'division rounds up by less than one, and half-even never strays by more than a half',
  [fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.bigInt({ min: 1n, max: 10n ** 20n })],
  (a, b) => {
    const up = divideCeil(a, b);
    assert.ok(up * b >= a && (up - 1n) * b < a);
    const near = divideHalfEven(a, b);
    const off = 2n * (near * b - a);
    assert.ok(off <= b && off >= -b);
    if (off === b || off === -b) assert.equal(near % 2n, 0n);
  },
);
