/** Random histories of payments on a fast network with one honest provider and one that lies: 0 false, 0 missed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONFIRMATIONS, tellHistories } from '../kit/range-histories.ts';
import { openRangeShop } from '../kit/range-world.ts';

const HISTORIES = 1_000;
/** Payments that share a chain. Those that receive nothing do not count. */
const PAYMENTS = 450;
const EVENTS = 50;

// Invariant: A lying provider completes no payment and hides none from an honest one.
test(`${HISTORIES} histories: nothing completes without money, and no transfer is missed`, async (t) => {
  let seed = Number(process.env.FLORIN_SEED ?? 50);
  let [histories, completed, transfers] = [0, 0, 0];
  const shop = await openRangeShop(['claimed', 'claimed'], { confirmations: String(CONFIRMATIONS) });
  try {
    for (; histories < HISTORIES; seed++) {
      const told = await tellHistories(shop, { seed, payments: PAYMENTS, events: EVENTS });
      histories += told.histories;
      completed += told.completed;
      transfers += told.transfers;
    }
  } finally {
    await shop.stop();
  }
  t.diagnostic(`${histories} histories, ${completed} payments completed, ${transfers} transfers`);
  assert.ok(completed > HISTORIES / 3, `${completed} completed`);
});
