/**
 * Ten thousand open payments on each network that is read by ranges: each has an address of its own, and the requests to each provider stay
 * within what `doctor` states.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Coin, chainOf, coinText } from '../../src/core/coin.ts';
import { requestsPerDay } from '../../src/follow/poll-pace.ts';
import { newTx, openRangeShop, type RangeShop } from '../kit/range-world.ts';

const PAYMENTS = 10_000;
const AT_ONCE = 250;
/** How long requests are counted, in seconds of the chain. */
const SECONDS = 180;
/** Requests besides, for the block that pays: it is read, compared between the providers, and its contracts are checked. */
const FOR_A_BLOCK = 10;
const TIMEOUT_MS = 30 * 60_000;

type Made = { id: string; address: string };
async function createEach(shop: RangeShop): Promise<Made[]> {
  const made: Made[] = [];
  while (made.length < PAYMENTS) {
    // Payments are refused while the chain was not read for a while.
    if (made.length % (4 * AT_ONCE) === 0) await shop.poll();
    made.push(...(await Promise.all(Array.from({ length: AT_ONCE }, () => shop.create()))));
  }
  return made;
}

for (const [coin, create] of [
  ['USDC@base', createEach],
  // The others have the same wallet and the same code, so copies of one payment are enough.
  ['USDC@arbitrum', (shop) => shop.createMany(PAYMENTS)],
  ['USDC@optimism', (shop) => shop.createMany(PAYMENTS)],
  ['USDC@polygon', (shop) => shop.createMany(PAYMENTS)],
] as const satisfies readonly [Coin, (shop: RangeShop) => Promise<Made[]>][])
  test(`${PAYMENTS} open payments in ${coinText(coin)}: an address each, and requests within the stated bound`, {
    timeout: TIMEOUT_MS,
  }, async (t) => {
    const { pollSeconds, blockSeconds, ranges } = chainOf(coin);
    const shop = await openRangeShop(['claimed', 'claimed'], { coin });
    try {
      const made = await create(shop);
      assert.equal(new Set(made.map(({ address }) => address)).size, PAYMENTS);
      await shop.poll();
      const before = shop.providers.map(({ requests }) => requests);
      const paid = made.filter((_, i) => i % 1_000 === 7);
      for (let seconds = 0; seconds < SECONDS; seconds += pollSeconds) {
        shop.world.mineEmpty(pollSeconds / blockSeconds);
        if (seconds === 20) shop.world.mine(...paid.map(({ address }) => newTx({ to: address, units: 25_500_000n })));
        await shop.poll(1, pollSeconds);
      }
      const perHour = 3_600 / SECONDS;
      const hour = Math.max(...shop.providers.map(({ requests }, i) => requests - before[i]!)) * perHour;
      const bound = requestsPerDay(coin, { isOpen: true, accounts: PAYMENTS, span: ranges!.most }) / 24;
      t.diagnostic(`${coinText(coin)}: ${Math.round(hour)} requests an hour to each provider, ${Math.round(bound)} stated`);
      assert.ok(hour <= bound + FOR_A_BLOCK * perHour, `${hour} requests an hour, ${bound} stated`);
      // Until the block is final on each of them.
      shop.world.mineEmpty(130);
      await shop.poll(3);
      for (const { id } of paid) assert.equal((await shop.detail(id)).status, 'completed');
    } finally {
      await shop.stop();
    }
  });
