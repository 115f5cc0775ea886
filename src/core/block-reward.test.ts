/** What forging a payment costs, and that no tier of any coin costs less than the payment that it completes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { forgeryCosts, withForgeryCosts } from '../../scripts/forgery-costs.ts';
import { base, minute, tip, transferOf } from '../../test/kit/facts.ts';
import { ASSET, type BitcoinFamily } from './coin.ts';
import { confirmationUnits, minerUnits, mostConfirmations } from './confirmation.ts';
import { E8, worthUsdE8 } from './money.ts';
import { settle } from './settle.ts';

const COINS = ['BTC', 'LTC', 'DOGE', 'DASH'] as const satisfies readonly BitcoinFamily[];

test('the reward of a miner falls as each network says', () => {
  for (const [coin, height, units] of [
    ['BTC', 839_999, 625_000_000n],
    ['BTC', 840_000, 312_500_000n],
    ['LTC', 3_080_448, 625_000_000n],
    ['LTC', 3_360_000, 312_500_000n],
    ['DOGE', 6_000_000, 10_000n * E8],
    // 5 x (13/14)^11, without the treasury's fifth and the masternodes' three quarters.
    ['DASH', 2_447_112, 44_255_625n],
  ] as const)
    assert.equal(minerUnits(coin, height), units, `${coin} ${height}`);
});

for (const coin of COINS)
  test(`${coin}: no tier costs a forger less than the largest payment that it completes`, () => {
    for (const { units, costUnits, confirmations, isMost } of forgeryCosts(coin)) {
      assert.ok(costUnits > units, `${costUnits} for ${units}`);
      if (isMost) assert.equal(confirmations, mostConfirmations(coin));
    }
  });

test('the guide states what the tables say', () => {
  const guide = readFileSync(`${import.meta.dirname}/../../docs/guides/peers.md`, 'utf8');
  assert.equal(guide, withForgeryCosts(guide), 'npm run generate writes it');
});

/** A payment of so many USD in a block with `blocks` blocks up to the tip, all of them of usual work. */
function settled(coin: BitcoinFamily, { usd, blocks, confirmations }: { usd: bigint; blocks: number; confirmations?: number }) {
  const rateE8 = ASSET[coin].sampleE8;
  const units = (usd * E8 * E8) / rateE8 + 1n;
  const height = 2_447_112;
  const tiers = confirmations === undefined ? {} : { [coin]: [{ belowUsdCents: null, confirmations, rule: 'confirmations' as const }] };
  const facts = {
    ...base,
    targetUsdCents: usd * 100n,
    rules: { ...base.rules, confirmations: { ...base.rules.confirmations, ...tiers } },
    quotes: [{ ...base.quotes[0]!, coin, units, rateE8 }],
  };
  const transfer = {
    ...transferOf('1@5 x1', 0),
    ...{ coin, units, block: { height: height - blocks + 1, hash: 'b', time: minute(6) } },
  };
  const valued = { ...transfer, values: transfer.values.map((value) => ({ ...value, usdE8: worthUsdE8(coin, units, rateE8) })) };
  const provenHeights = Array.from({ length: 240 }, (_, i) => height - i);
  const chain = tip(minute(10), { height, provenHeights });
  const { status, holdReason } = settle(facts, [valued], { [coin]: chain }, minute(10));
  return { status, holdReason };
}

test('DASH without a node: 24 blocks complete what their work is worth, and more takes more blocks, up to the most that work completes', () => {
  const done = { status: 'completed', holdReason: null };
  assert.deepEqual(settled('DASH', { usd: 100n, blocks: 23 }).status, 'processing');
  assert.deepEqual(settled('DASH', { usd: 100n, blocks: 24 }), done);
  const reason = 'its amount is worth the work of 126 blocks of Dash, so it waits for them';
  assert.deepEqual(settled('DASH', { usd: 1_000n, blocks: 125 }), { status: 'processing', holdReason: reason });
  assert.deepEqual(settled('DASH', { usd: 1_000n, blocks: 126 }), done);
  assert.deepEqual(settled('DASH', { usd: 50_000n, blocks: 240 }), {
    status: 'processing',
    holdReason: 'it is worth more than the work of 227 blocks of Dash, so no number of blocks completes it',
  });
});

test('DOGE and LTC: where a tier is cheaper than the payment, more blocks are needed; what the operator lowered stays low', () => {
  for (const [coin, usd, needed] of [
    ['DOGE', 100_000n, Number((100_000n * E8 * E8) / ASSET.DOGE.sampleE8 / confirmationUnits('DOGE', 2_447_112)) + 1],
    ['LTC', 50_000n, Number((50_000n * E8 * E8) / ASSET.LTC.sampleE8 / confirmationUnits('LTC', 2_447_112)) + 1],
  ] as const) {
    assert.ok(needed > 60);
    assert.equal(settled(coin, { usd, blocks: needed - 1 }).status, 'processing');
    assert.equal(settled(coin, { usd, blocks: needed }).status, 'completed');
    assert.equal(settled(coin, { usd, blocks: 5, confirmations: 5 }).status, 'completed');
  }
});
