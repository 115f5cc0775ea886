/** The long search for private branches: ten thousand for each coin. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { searchBranches } from '../../../test/kit/branch-search.ts';
import { LEAST_SHARE } from '../../core/confirmation.ts';

const SEARCHES = 5;

for (const coin of ['BTC', 'LTC', 'DOGE', 'DASH'] as const)
  test(`${coin}: none of 10,000 private branches completes a payment for less work than its confirmations state`, (t) => {
    for (let seed = 1; seed <= SEARCHES; seed++) {
      const { price, branch } = searchBranches(coin, { count: 10_000 / SEARCHES, seed });
      t.diagnostic(`${coin}: at least ${price.toFixed(3)} usual blocks for a confirmation: ${JSON.stringify(branch)}`);
      assert.ok(price >= Number(LEAST_SHARE[0]) / Number(LEAST_SHARE[1]));
    }
  });
