/**
 * The same as range-histories.test.ts, far more often and also with a node of your own and with three providers. FLORIN_HISTORIES is how many,
 * FLORIN_SEED where they begin.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Trust } from '../../src/core/guard.ts';
import { CONFIRMATIONS, tellHistories } from '../kit/range-histories.ts';
import { openRangeShop } from '../kit/range-world.ts';

const HISTORIES = Number(process.env.FLORIN_HISTORIES ?? 100_000);
const PAYMENTS = 450;
const EVENTS = 60;
/** Chains on one install, which grows with them. */
const AT_ONCE = 6;
/** One that is not your own lies. */
const SOURCES: readonly (readonly Trust[])[] = [
  ['claimed', 'claimed'],
  ['own', 'claimed'],
  ['claimed', 'claimed', 'claimed'],
];

test(`${HISTORIES} histories: nothing completes without money, and no transfer is missed`, async (t) => {
  let seed = Number(process.env.FLORIN_SEED ?? 1_000);
  let [histories, completed] = [0, 0];
  while (histories < HISTORIES) {
    const sources = SOURCES[((seed / AT_ONCE) % SOURCES.length) | 0]!;
    const shop = await openRangeShop(sources, { confirmations: String(CONFIRMATIONS) });
    let [told, transfers] = [0, 0];
    const first = seed;
    try {
      for (; seed < first + AT_ONCE; seed++) {
        const one = await tellHistories(shop, { seed, payments: PAYMENTS, events: EVENTS });
        told += one.histories;
        completed += one.completed;
        transfers += one.transfers;
      }
    } finally {
      await shop.stop();
    }
    histories += told;
    t.diagnostic(`seeds ${first} to ${seed - 1}, ${sources.join(', ')}: ${told} histories, ${transfers} transfers`);
  }
  t.diagnostic(`${histories} histories, ${completed} payments completed`);
  assert.ok(completed > histories / 3, `${completed} completed`);
});
