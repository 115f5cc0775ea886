/** How outputs are divided into transactions, and what a transaction costs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bytesOfOutput, feeFor, isFeeTooLarge, MAX_GROUPS, MAX_INPUTS, neededFor, type SpendableOutput, splitOutputs } from './utxo.ts';

const WALLET = { chainKey: '02'.repeat(65), script: 'p2wpkh' } as const;
const output = (n: number, txid = 'a'): SpendableOutput => ({ txid, n, units: 1n, blockHash: 'b', index: 0n });

test('every output is in one group or left, transfers are never cut by the end of the file, and no group is too large', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 700 }), { maxLength: 40 });
  fc.assert(
    fc.property(sizes, fc.integer({ min: 0, max: 40_000 }), (counts, bytes) => {
      let n = 0;
      const transfers = counts.map((count) => Array.from({ length: count }, () => output(n++)));
      const previous = new Map([['a', new Uint8Array(bytes)]]);
      const { groups, left } = splitOutputs(transfers, previous, WALLET);
      assert.deepEqual(
        [...groups.flat(), ...left].map((one) => one.n).sort((a, b) => a - b),
        Array.from({ length: n }, (_, i) => i),
      );
      assert.ok(groups.length <= MAX_GROUPS);
      for (const group of groups) {
        assert.ok(group.length > 0 && group.length <= MAX_INPUTS);
        assert.ok(group.length === 1 || group.length * bytesOfOutput(group[0]!, previous, WALLET) <= 4 * 1024 * 1024);
      }
      const stayed = new Set(left);
      for (const transfer of transfers)
        assert.equal(new Set(transfer.map((one) => stayed.has(one))).size, 1, 'all of a transfer goes or stays');
    }),
    { numRuns: 60 },
  );
});

test('fees round up, grow with each input, and are refused above a quarter of what is spent', () => {
  assert.equal(feeFor(141n, 100_000_000n), 141n);
  assert.equal(feeFor(141n, 100_000_001n), 142n);
  const needed = (inputs: number) =>
    neededFor({ units: 1_000n, scripts: [Buffer.alloc(22)] }, { inputs, inputSize: 68n, rateE8: 100_000_000n });
  assert.equal(needed(2) - needed(1), 68n);
  assert.ok(needed(1) - 1_000n >= 110n, 'one input and one output take at least 110 virtual bytes');
  assert.equal(isFeeTooLarge(25n, 100n), false);
  assert.equal(isFeeTooLarge(26n, 100n), true);
});
