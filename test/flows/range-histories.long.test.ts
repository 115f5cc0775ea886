/** The same as range-histories.test.ts, far more often: 100,000 histories. FLORIN_CHAINS=n runs n * 250 of them. */
import { test } from 'node:test';
import { tellHistories } from '../kit/range-histories.ts';
import { openRangeShop } from '../kit/range-world.ts';

const CHAINS = Number(process.env.FLORIN_CHAINS ?? 400);
/** Chains on one install, which grows with them. */
const AT_ONCE = 8;

test(`${CHAINS * 250} histories: nothing completes without money, and no transfer is missed`, async () => {
  const first = Number(process.env.FLORIN_SEED ?? 1_000);
  for (let i = 0; i < CHAINS; i += AT_ONCE) {
    const shop = await openRangeShop(['claimed', 'claimed'], { confirmations: '3' });
    try {
      for (let n = i; n < Math.min(CHAINS, i + AT_ONCE); n++) await tellHistories(shop, { seed: first + n, payments: 250, events: 60 });
    } finally {
      await shop.stop();
    }
  }
});
