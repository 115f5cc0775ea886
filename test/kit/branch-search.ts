/** A search for private branches that complete a payment for less work than its confirmations state. */
import assert from 'node:assert/strict';
import { findWorkHolds, provenHeights } from '../../src/chains/bitcoin/chain-work.ts';
import { PROOF_PARAMS } from '../../src/chains/bitcoin/proof-params.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';
import { LEAST_SHARE, mostConfirmations } from '../../src/core/confirmation.ts';
import { anyBranch, type Branch, type Chance, changeBranch, type History, honestHistory, showBranch } from './private-branches.ts';
import { randomOf } from './schedules.ts';

const NOW = 1_790_000_000;
/** Branches that a search changes further. */
const KEPT = 12;

/** How many confirmations a payment in the lowest block of a branch, or in any block above it, is shown to have at most, with no hold. */
export function completedBy({ params }: History, shown: ReturnType<typeof showBranch>): number {
  const { view, nowSeconds, lowest } = shown;
  if (findWorkHolds(view, { ...params, nowSeconds }).length > 0) return 0;
  const heights = provenHeights(view, params, { most: mostConfirmations(params.coin), nowSeconds });
  return heights.filter((height) => height >= lowest).length;
}

/** Tries so many branches, most of them changes of those that came closest. Returns the cheapest one, in usual blocks for a confirmation. */
export function searchBranches(
  coin: BitcoinFamily,
  { count, seed }: { count: number; seed: number },
): { price: number; branch: Branch | null } {
  const history = honestHistory(PROOF_PARAMS[coin].main, NOW);
  const random = randomOf(seed);
  const chance: Chance = (below) => Math.floor(random() * below);
  let best: { price: number; branch: Branch }[] = [];
  for (let i = 0; i < count; i++) {
    const branch = best.length === 0 || chance(4) === 0 ? anyBranch(chance) : changeBranch(chance, best[chance(best.length)]!.branch);
    const shown = showBranch(history, branch);
    const confirmations = completedBy(history, shown);
    if (confirmations === 0) continue;
    assert.ok(
      shown.forgedWork * LEAST_SHARE[1] >= BigInt(confirmations) * shown.usual * LEAST_SHARE[0],
      `${confirmations} confirmations of ${coin} for less work than they state: ${JSON.stringify(branch)}`,
    );
    const price = Number((shown.forgedWork * 10_000n) / shown.usual) / 10_000 / confirmations;
    best.push({ price, branch });
    best = best.toSorted((a, b) => a.price - b.price).slice(0, KEPT);
  }
  return { price: best[0]?.price ?? Number.POSITIVE_INFINITY, branch: best[0]?.branch ?? null };
}
