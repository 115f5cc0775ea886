/** Ten thousand open payments on one network: each has an address of its own, and the requests to each provider stay within what is stated. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestsPerDay } from '../../src/follow/poll-pace.ts';
import { newTx, openRangeShop } from '../kit/range-world.ts';

const PAYMENTS = 10_000;
const POLL_SECONDS = 2;
const POLLS = 90;

test(`${PAYMENTS} open payments: an address each, and requests within the stated bound`, async (t) => {
  const shop = await openRangeShop(['claimed', 'claimed']);
  try {
    const made: { id: string; address: string }[] = [];
    for (let i = 0; i < PAYMENTS; i += 250) {
      await shop.poll();
      made.push(...(await Promise.all(Array.from({ length: 250 }, () => shop.create()))));
    }
    assert.equal(new Set(made.map(({ address }) => address)).size, PAYMENTS);
    await shop.poll();
    const before = shop.providers.map(({ requests }) => requests);
    const paid = made.filter((_, i) => i % 1_000 === 7);
    for (let i = 0; i < POLLS; i++) {
      shop.world.mineEmpty(10);
      if (i === 10) shop.world.mine(...paid.map(({ address }) => newTx({ to: address, units: 25_500_000n })));
      await shop.poll(1, POLL_SECONDS);
    }
    const hour = Math.max(...shop.providers.map(({ requests }, i) => requests - before[i]!)) * (3_600 / (POLLS * POLL_SECONDS));
    const bound = requestsPerDay('USDC@base', { isOpen: true, accounts: PAYMENTS, span: 2_000 }) / 24;
    t.diagnostic(`${Math.round(hour)} requests an hour to each provider, ${Math.round(bound)} stated`);
    // Besides, each block with payments is read and compared.
    assert.ok(hour <= bound + 5 * (3_600 / (POLLS * POLL_SECONDS)), `${hour} requests an hour, ${bound} stated`);
    for (const { id } of paid) assert.equal((await shop.detail(id)).status, 'completed');
  } finally {
    await shop.stop();
  }
});
