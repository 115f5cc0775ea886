/** What full blocks were paid, and the fees that follow from it and from what peers take. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transaction } from '../../../test/kit/regtest-chain.ts';
import type { BitcoinFamily } from '../../core/coin.ts';
import { minerUnits } from '../../core/confirmation.ts';
import { feeOfBlock, feesOf, feesOfBlocks } from './block-fees.ts';
import { parseTransaction } from './raw-block.ts';

const SCRIPT = `6a${'00'.repeat(250)}`;
/** One transaction of 65.6 kB: 251 outputs. */
const large = (): Buffer => transaction(Array.from({ length: 251 }, () => ({ script: SCRIPT, units: 0n })));
const LARGE_BYTES = large().length;

/** A block with so many large transactions, whose miner claims this fee per 1,000 bytes of them. */
function blockOf({ family, larges, fee, height }: { family: BitcoinFamily; larges: number; fee: bigint; height: number }) {
  const paidOut = minerUnits(family, height) + (fee * BigInt(larges * LARGE_BYTES)) / 1_000n;
  const first = parseTransaction(transaction([{ script: '51', units: paidOut }], { coinbase: true }), family);
  return { transactions: [{ ...first, coinbase: true }, ...Array.from({ length: larges }, () => parseTransaction(large(), family))] };
}

test('a full block says what it was paid; one with room, or of DASH, says nothing', () => {
  const [enough, few] = [Math.ceil(700_000 / LARGE_BYTES), Math.floor(690_000 / LARGE_BYTES)];
  for (const [family, height] of [
    ['BTC', 900_000],
    ['LTC', 2_900_000],
    ['DOGE', 5_900_000],
  ] as const) {
    assert.equal(feeOfBlock(blockOf({ family, larges: enough, fee: 8_000n, height }), { family, height }), 8_000n, family);
    assert.equal(feeOfBlock(blockOf({ family, larges: few, fee: 8_000n, height }), { family, height }), 0n, family);
  }
  const dash = { family: 'DASH', height: 2_300_000 } as const;
  assert.equal(feeOfBlock(blockOf({ ...dash, larges: 2 * enough, fee: 8_000n }), dash), 0n);
});

test('a miner who claims less than the reward, or nothing, does not turn fees negative', () => {
  const block = blockOf({ family: 'BTC', larges: 12, fee: 8_000n, height: 840_000 });
  assert.equal(feeOfBlock(block, { family: 'BTC', height: 209_999 }), 0n);
});

test('the newest blocks give each speed its fee, and one miner changes none of them by much', () => {
  const honest = [3_000n, 0n, 4_000n, 5_000n, 6_000n, 7_000n];
  assert.deepEqual(feesOfBlocks(honest), { slow: 3_000n, normal: 5_000n, fast: 6_000n });
  for (let at = 0; at < honest.length; at++)
    for (const lie of [0n, 1n << 60n]) {
      const { slow, normal, fast } = feesOfBlocks(honest.with(at, lie));
      assert.ok(slow <= normal && normal <= fast && fast <= 7_000n, `${at}: ${lie}`);
    }
  for (const paid of [[], honest.slice(2)]) assert.deepEqual(feesOfBlocks(paid), { slow: 0n, normal: 0n, fast: 0n });
});

test('no fee is below what peers take or the lowest of the coin, or above 500 times that', () => {
  const rates = (how: Parameters<typeof feesOf>[1]) => feesOf('BTC', how).map(({ speed, rateE8 }) => [speed, Number(rateE8 / 100_000n)]);
  const paid = [2_000n, 2_000n, 5_000n, 5_000n, 9_000n, 9_000n];
  assert.deepEqual(rates({ told: 1_000n, paid }), [
    ['fast', 9_000],
    ['normal', 5_000],
    ['slow', 2_000],
  ]);
  assert.deepEqual(rates({ told: 6_000n, paid }), [
    ['fast', 9_000],
    ['normal', 6_000],
    ['slow', 6_000],
  ]);
  assert.deepEqual(rates({ told: 10n, paid: paid.map(() => 0n) }), [
    ['fast', 1_000],
    ['normal', 1_000],
    ['slow', 1_000],
  ]);
  assert.deepEqual(rates({ paid: paid.map(() => 1n << 60n) }), [
    ['fast', 500_000],
    ['normal', 500_000],
    ['slow', 500_000],
  ]);
});
