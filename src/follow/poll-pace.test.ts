import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../config.ts';
import { chainOf, leadingCoins } from '../core/coin.ts';
import { requestsPerDay } from './poll-pace.ts';

const RANGES = leadingCoins().filter((coin) => chainOf(coin).ranges);

test('the default plan is enough for a network with payments open all day, and for the blocks of 100 of them', () => {
  assert.ok(RANGES.length >= 4);
  for (const coin of RANGES) {
    const allowed = readConfig({}).dailyRequests[coin]!;
    for (const accounts of [1, 100, 1_000]) {
      const needed = requestsPerDay(coin, { isOpen: true, accounts, span: chainOf(coin).ranges!.most });
      assert.ok(needed + 10 * 100 <= allowed, `${coin} needs ${needed} requests a day for ${accounts} addresses`);
    }
  }
});
