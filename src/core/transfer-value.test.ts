/** What a transfer is worth: at which rate, and when it is valued again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, E8_PER_USD, HEIGHT, minute, quote, transferOf } from '../../test/kit/facts.ts';
import type { PaymentFacts } from './payment.ts';
import { valueTransfer } from './transfer.ts';

test('the amount that a transfer is counted with is stored with its first value', () => {
  const unvalued = { ...transferOf('50@5 x0', 0), values: [] };
  const value = valueTransfer({
    payment: base,
    transfer: unvalued,
    spot: null,
    now: minute(5),
    company: { transactionUnits: unvalued.units * 3n, merchantUnits: unvalued.units * 10n },
  });
  assert.deepEqual(value?.company, { transactionUsdCents: 15_000n, merchantUsdCents: 50_000n });
  const mined = { ...unvalued, values: [value!], block: { height: HEIGHT, hash: 'b', time: minute(5 + 25 * 60) } };
  const again = valueTransfer({ payment: base, transfer: mined, spot: { priceE8: 1n, at: minute(1_505) }, now: minute(1_505) });
  assert.equal(again?.company, undefined);
});

const renewed = (rateE8: bigint): PaymentFacts => ({ ...base, quotes: [quote, { ...quote, rateE8, from: minute(16), until: minute(31) }] });
/** The worth of 100 USD at the first rate, first seen in the given minute; null: held. */
const worthAt = (payment: PaymentFacts, m: number, spot: bigint | null = null) => {
  const value = valueTransfer({
    payment,
    transfer: { ...transferOf(`100@${m} x0`, 0), values: [] },
    spot: spot === null ? null : { priceE8: spot, at: minute(m) },
    now: minute(m),
  });
  return value && `${value.usdE8 / E8_PER_USD} ${value.basis}`;
};
const HIGHER = 11_000_000_000_000n;
const LOWER = 9_000_000_000_000n;

test('value: the rate that was locked at first sight or up to ten minutes before it, else spot', () => {
  assert.equal(worthAt(base, 5), '100 quote');
  assert.equal(worthAt(base, 25), '100 quote');
  assert.equal(worthAt(base, 25.1), null);
  assert.equal(worthAt(base, 25.1, LOWER), '90 spot');
  assert.equal(worthAt(renewed(HIGHER), 41), '110 quote');
  assert.equal(worthAt(renewed(HIGHER), 42), null);
});

test('money first seen under a renewed rate is valued at that rate, whether it is better for the customer or not', () => {
  for (const m of [17, 20, 25, 30]) {
    assert.equal(worthAt(renewed(HIGHER), m), '110 quote');
    assert.equal(worthAt(renewed(LOWER), m), '90 quote');
  }
});

test('money that was on its way when the customer renewed the rate is not worth less for it', () => {
  assert.equal(worthAt(renewed(LOWER), 16.5), '100 quote');
  assert.equal(worthAt(renewed(HIGHER), 16.5), '110 quote');
  // A rate that expired more than ten minutes before is not considered.
  const much = { ...base, quotes: [quote, { ...quote, rateE8: LOWER, from: minute(26), until: minute(41) }] };
  assert.equal(worthAt(much, 26.5), '90 quote');
});

test('a rate that a partial payment holds applies to what is seen in that time, and not after a renewal', () => {
  const kept = { ...base, extendedUntil: minute(74), rateLockUntil: minute(29) };
  assert.equal(worthAt(kept, 38), '100 quote');
  const after = { ...kept, quotes: [quote, { ...quote, rateE8: LOWER, from: minute(30), until: minute(45) }] };
  assert.equal(worthAt(after, 28), '100 quote');
  assert.equal(worthAt(after, 32), '90 quote');
});

test('first sight loses its protection after 24 hours unconfirmed', () => {
  const late = { ...transferOf('100@5 x0', 0), block: { height: HEIGHT, hash: 'b', time: minute(5 + 25 * 60) } };
  const value = valueTransfer({
    payment: base,
    transfer: late,
    spot: { priceE8: 5_000_000_000_000n, at: minute(1505) },
    now: minute(1505),
  });
  assert.deepEqual([value?.usdE8, value?.reason], [50n * E8_PER_USD, 'confirmation']);
  const soon = { ...late, block: { ...late.block, time: minute(5 + 23 * 60) } };
  assert.equal(valueTransfer({ payment: base, transfer: soon, spot: { priceE8: 1n, at: minute(1) }, now: minute(1505) }), null);
});
