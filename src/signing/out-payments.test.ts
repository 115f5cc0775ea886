/** Which deposits pay for refunds and payouts: enough, no more than needed, and the money of others last. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Holding } from './holdings.ts';
import { anchorOf, type Chosen, chooseLots, MAX_REFUND_FEE_PERCENT, type OutputLot } from './out-payments.ts';
import { neededFor } from './utxo.ts';

const WALLET = { chainKey: '02'.repeat(65), script: 'p2wpkh' } as const;
const TO = Buffer.alloc(22);
const lot = (units: bigint, n: number, { block = 'a', outputs = 1 } = {}): OutputLot => ({
  units,
  holding: { paymentId: `pay_${n}` } as Holding,
  parts: Array.from(
    { length: outputs },
    (_, i) => ({ txid: `${n}`.padStart(64, '0'), n: i, blockHash: block }) as OutputLot['parts'][number],
  ),
});
type Asked = Parameters<typeof chooseLots>[0];
const choose = (asked: Partial<Asked>) =>
  chooseLots({
    ...{ units: 10_000n, scripts: [TO], anchors: [], own: [], others: [], wallet: WALLET, rateE8: 200_000_000n, mostBlocks: 10 },
    ...asked,
  });
const unitsOf = (lots: readonly OutputLot[]): bigint => lots.reduce((sum, one) => sum + one.units, 0n);

test('a choice pays for itself and its fee, with an anchor that it spends, and never with what costs more than it holds', () => {
  const amounts = fc.array(fc.bigInt({ min: 1n, max: 60_000n }), { maxLength: 8 });
  fc.assert(
    fc.property(
      amounts,
      amounts,
      fc.bigInt({ min: 600n, max: 100_000n }),
      fc.bigInt({ min: 1n, max: 40n }),
      (mine, theirs, units, rate) => {
        const own = mine.map((one, i) => lot(one, i));
        const others = theirs.map((one, i) => lot(one, 100 + i));
        const rateE8 = rate * 100_000_000n;
        const found = choose({ units, own, others, rateE8 });
        if (typeof found === 'string') return;
        const needed = neededFor({ units, scripts: [TO] }, { inputs: found.lots.length, inputSize: 68n, rateE8 });
        assert.ok(unitsOf(found.lots) >= needed, 'it is enough');
        assert.ok((needed - units) * 100n <= units * MAX_REFUND_FEE_PERCENT, 'the fee is not too large a part');
        assert.equal(new Set(found.lots).size, found.lots.length, 'nothing is spent twice');
        assert.ok(found.lots.some((one) => anchorOf(one) === found.anchor));
        for (const one of found.lots) assert.ok(one.units > 68n * rate, 'an input costs less than it holds');
        const isWorthIt = (one: OutputLot) => one.units > 68n * rate;
        if (found.lots.some((one) => others.includes(one)))
          assert.ok(
            own.filter(isWorthIt).every((one) => found.lots.includes(one)),
            'the money of others comes after that of the customer',
          );
        const without = found.lots.slice(0, -1);
        if (without.length > 0)
          assert.ok(
            unitsOf(without) < neededFor({ units, scripts: [TO] }, { inputs: without.length, inputSize: 68n, rateE8 }),
            'the last one was needed',
          );
      },
    ),
    { numRuns: 500 },
  );
});

test('outputs that earlier files spent are spent again, and without one of them nothing is', () => {
  const [first, second, other] = [lot(30_000n, 1), lot(40_000n, 2), lot(50_000n, 3)];
  const found = choose({ anchors: [anchorOf(first)], own: [second], others: [first, other] }) as Chosen;
  assert.deepEqual(found.lots, [first]);
  assert.equal(found.anchor, anchorOf(first));
  assert.deepEqual((choose({ anchors: [anchorOf(first), anchorOf(second)], others: [first, second] }) as Chosen).lots, [first, second]);
  assert.equal(choose({ anchors: [anchorOf(first)], others: [second, other] }), 'moved');
});

test('what came as dust is not exchanged for the money of other customers', () => {
  const dust = Array.from({ length: 50 }, (_, i) => lot(200n, i));
  assert.equal(choose({ own: dust, others: [lot(100_000n, 99)], rateE8: 1_000_000_000n }), 'fee');
});

test('nothing, too little, too many blocks and too large a fee are told apart', () => {
  assert.equal(choose({}), 'short');
  assert.equal(choose({ others: [lot(9_000n, 1), lot(900n, 2)] }), 'short');
  assert.equal(choose({ others: [lot(6_000n, 1, { block: 'a' }), lot(6_000n, 2, { block: 'b' })], mostBlocks: 1 }), 'many');
  assert.equal(choose({ others: [lot(10_000_000n, 1, { outputs: 501 })] }), 'many');
  assert.equal(choose({ units: 600n, others: [lot(60_000n, 1)], rateE8: 1_000_000_000n }), 'fee');
});
