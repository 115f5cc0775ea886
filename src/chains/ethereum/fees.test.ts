/** Fees from the history that a node reports. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { feesOfHistory } from './fees.ts';

const hex = (value: number) => `0x${value.toString(16)}`;

test('a faster fee is never cheaper, and the middle of the tips counts', () => {
  const history = {
    baseFeePerGas: [hex(500), hex(800)],
    reward: [
      [10, 20, 30],
      [20, 10, 90],
      [90, 15, 40],
    ].map((row) => row.map(hex)),
  };
  assert.deepEqual(
    feesOfHistory(history).map(({ speed, units, source }) => [speed, units / 21_000n, source]),
    [
      ['fast', 1_040n, 'estimate'],
      ['normal', 915n, 'estimate'],
      ['slow', 820n, 'estimate'],
    ],
  );
});

test('without tips, the base fee alone', () => {
  assert.deepEqual(
    feesOfHistory({ baseFeePerGas: [hex(800)] }).map(({ rateE8, source }) => [rateE8, source]),
    [
      [100n, 'fallback'],
      [90n, 'fallback'],
      [80n, 'fallback'],
    ],
  );
});
