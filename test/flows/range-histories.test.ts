/** Random histories of a fast network with one honest provider and one that lies: 0 false, 0 missed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tellHistories } from '../kit/range-histories.ts';
import { openRangeShop } from '../kit/range-world.ts';

/** Each payment has a history that it shares with the others of its chain. */
const CHAINS = 4;
const PAYMENTS = 500;
const EVENTS = 30;

test(`${CHAINS * PAYMENTS} histories: nothing completes without money, and no transfer is missed`, async () => {
  const first = Number(process.env.FLORIN_SEED ?? 1);
  let completed = 0;
  const shop = await openRangeShop(['claimed', 'claimed'], { confirmations: '3' });
  try {
    for (let i = 0; i < CHAINS; i++) completed += await tellHistories(shop, { seed: first + i, payments: PAYMENTS, events: EVENTS });
  } finally {
    await shop.stop();
  }
  assert.ok(completed > 20, `${completed} completed`);
});
