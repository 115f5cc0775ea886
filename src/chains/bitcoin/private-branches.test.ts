/** What a forger pays in work for a payment that completes. The long version of the search is `private-branches.long.test.ts`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completedBy, searchBranches } from '../../../test/kit/branch-search.ts';
import { base, minute, tip, transferOf } from '../../../test/kit/facts.ts';
import { honestHistory, showBranch } from '../../../test/kit/private-branches.ts';
import { settle } from '../../core/settle.ts';
import { findWorkHolds, provenHeights } from './chain-work.ts';
import { PROOF_PARAMS } from './proof-params.ts';

const NOW = 1_790_000_000;

for (const coin of ['BTC', 'LTC', 'DOGE', 'DASH'] as const)
  test(`${coin}: no private branch completes a payment for less work than its confirmations state`, () => {
    const { price } = searchBranches(coin, { count: 120, seed: 7 });
    assert.ok(Number.isFinite(price), 'some branches complete a payment, at their price');
  });

test('DOGE: a branch of 1,520 blocks for the work of four, which claims no more than two hours, completes no payment', () => {
  const history = honestHistory(PROOF_PARAMS.DOGE.main, NOW);
  const shown = showBranch(history, {
    silenceSeconds: 0,
    depth: 0,
    phases: [
      { count: 20, pattern: [300] },
      { count: 1_500, pattern: ['median', 'steady', 300] },
    ],
  });
  assert.equal(shown.view.tipHeight() - shown.lowest + 1, 1_520);
  assert.ok(shown.forgedWork < 5n * shown.usual, 'it costs less than five usual blocks');
  assert.ok(findWorkHolds(shown.view, { ...history.params, nowSeconds: NOW }).includes('fast'));
  const heights = provenHeights(shown.view, history.params, { most: 240, nowSeconds: NOW });
  assert.ok(heights.filter((height) => height >= shown.lowest).length <= 5, 'its work counts, not its blocks');
  const quote = { ...base.quotes[0]!, coin: 'DOGE' as const };
  const payment = { ...base, targetUsdCents: 10_000_000n, quotes: [{ ...quote, units: 10n ** 14n }] };
  const transfer = {
    ...{ ...transferOf('100000@5 x1', 0), coin: 'DOGE' as const, units: 10n ** 14n },
    block: { height: shown.lowest, hash: 'b', time: minute(5) },
  };
  const seen = tip(minute(10), { height: shown.view.tipHeight(), provenHeights: heights });
  assert.equal(settle(payment, [transfer], { DOGE: seen }, minute(10)).status, 'processing');
});

test('fewer cheap blocks than a day has complete nothing either, and a branch at full difficulty is worth its blocks', () => {
  const history = honestHistory(PROOF_PARAMS.DOGE.main, NOW);
  for (const count of [40, 200, 700, 1_300]) {
    const phases = [
      { count: 20, pattern: [300] },
      { count, pattern: ['median', 'steady', 300] as const },
    ];
    assert.ok(completedBy(history, showBranch(history, { silenceSeconds: 0, depth: 0, phases })) <= 5, `${count} blocks`);
  }
  const honest = showBranch(history, { silenceSeconds: 3_600, depth: 0, phases: [{ count: 60, pattern: [60] }] });
  assert.ok(completedBy(history, honest) >= 55, 'the network itself is not held up');
});
