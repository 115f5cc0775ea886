/** Many random histories of payments, with requests that time out, while the worker is killed. */
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { playHistories } from '../kit/shop-histories.ts';

test('a worker that is killed 40 times sends shops every event of 400 orders, legal and in order', async (t) => {
  const seed = randomInt(2 ** 31);
  t.diagnostic(`seed ${seed}`);
  t.diagnostic(JSON.stringify(await playHistories(t, { orders: 400, kills: 40, slow: 6, seed })));
});
