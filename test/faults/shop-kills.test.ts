/** Shops when the worker is killed at any moment, over random histories of payments. `shop-kills.long.test.ts` plays many more. */
// Invariant: Over random histories, with a shop that fails and a worker that is killed, a shop takes each event once or twice in a row and in order, and what it knows is how its order is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { playHistories } from '../kit/shop-histories.ts';

test('a killed worker sends each shop every event of its orders, legal, and never an older one after a newer one', async (t) => {
  const { events, requests, answers, statuses } = await playHistories(t, { orders: 14, kills: 2, seed: 20_261_123 });
  t.diagnostic(JSON.stringify({ events, requests, answers, statuses }));
  assert.ok(requests > events, 'some arrived more than once');
  for (const status of ['Settled', 'Expired', 'Invalid'])
    assert.ok(
      Object.keys(statuses).some((shown) => shown.startsWith(status)),
      status,
    );
});
