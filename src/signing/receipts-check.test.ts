/** What receipts of mined transactions say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paidFor } from './follow-files.ts';

test('a receipt shows the fee of the gas that was used, and what an OP chain charged for publishing', () => {
  for (const [receipt, fee] of [
    [{ gasUsed: '0x5208', effectiveGasPrice: '0x3b9aca00' }, 21_000n * 10n ** 9n],
    [{ gasUsed: '0x5208', effectiveGasPrice: '0x3b9aca00', l1Fee: '0x64' }, 21_000n * 10n ** 9n + 100n],
    [{ gasUsed: '0x5208' }, null],
    [{ gasUsed: '0x5208', effectiveGasPrice: '0x3b9aca00', l1Fee: 100 }, null],
    [{ gasUsed: '0x', effectiveGasPrice: '0x1' }, null],
    [null, null],
  ] as const)
    assert.equal(paidFor(receipt), fee);
});
