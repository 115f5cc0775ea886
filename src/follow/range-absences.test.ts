/** Providers that are away, late or limited, and a service that stops: every transfer is found once they answer. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pay, playCases, type Row } from '../../test/kit/hostile-cases.ts';
import { openRangeShop, type RangeShop } from '../../test/kit/range-world.ts';

let shop: RangeShop;
before(async () => {
  shop = await openRangeShop(['claimed', 'claimed']);
});
after(() => shop?.stop());

const ROWS: readonly Row[] = [
  [
    'is away',
    async ({ bad, mine, address, poll, detail }) => {
      bad.faults.down = true;
      mine(pay(address));
      mine();
      await poll(2);
      assert.notEqual((await detail()).status, 'completed');
    },
    '25.50',
    1,
  ],
  [
    'comes back after the other one was alone',
    async ({ good, bad, mine, address, poll }) => {
      good.faults.down = true;
      bad.faults.omits = () => true;
      mine(pay(address));
      mine();
      mine();
      await poll(2);
      good.faults.down = false;
      await poll();
    },
    '25.50',
    1,
  ],
  [
    'is alone after it was away, and allows one block at once',
    async ({ good, bad, world, mine, address, poll, detail }) => {
      bad.faults.span = 1;
      world.mineEmpty(3);
      await poll();
      bad.faults.down = true;
      world.mineEmpty(400);
      await poll();
      bad.faults.down = false;
      good.faults.down = true;
      mine(pay(address));
      mine();
      await poll();
      assert.equal((await detail()).amount_received, '25.50');
    },
    '25.50',
    1,
  ],
  [
    'lags a few blocks',
    async ({ bad, mine, address, poll }) => {
      bad.faults.lag = 3;
      mine(pay(address));
      mine();
      await poll(2);
    },
    '25.50',
    1,
  ],
  [
    'lags far behind',
    async ({ bad, world, mine, address, poll, detail }) => {
      bad.faults.lag = 150;
      world.mineEmpty(140);
      mine(pay(address));
      world.mineEmpty(60);
      await poll(3);
      assert.notEqual((await detail()).status, 'completed');
    },
    '25.50',
    1,
  ],
  [
    'falls behind what was read before',
    async ({ bad, good, world, poll }) => {
      world.mineEmpty(5);
      await poll();
      for (const one of [bad, good]) one.faults.lag = 4;
      await poll();
    },
    '0.00',
  ],
  [
    'is on another network',
    async ({ bad, mine, address, poll, restart }) => {
      bad.faults.wrongChain = true;
      restart();
      mine(pay(address));
      await poll();
      bad.faults.wrongChain = false;
      restart();
    },
    '25.50',
    1,
  ],
  [
    'shows blocks from the future',
    async ({ bad, mine, address, poll, detail }) => {
      bad.faults.future = true;
      mine(pay(address));
      mine();
      await poll(2);
      assert.notEqual((await detail()).status, 'completed');
    },
    '25.50',
    1,
  ],
  [
    'allows five blocks at once',
    ({ bad, good, world, mine, address }) => {
      for (const one of [bad, good]) one.faults.span = 5;
      world.mineEmpty(30);
      mine(pay(address));
      world.mineEmpty(70);
    },
    '25.50',
    1,
  ],
  [
    'allows one block at once',
    ({ bad, world, mine, address }) => {
      bad.faults.span = 1;
      world.mineEmpty(9);
      mine(pay(address));
      world.mineEmpty(20);
    },
    '25.50',
    1,
  ],
  [
    'the process restarts between blocks',
    async ({ mine, address, poll, restart }) => {
      mine(pay(address, 10_000_000n));
      mine();
      await poll();
      restart();
      mine(pay(address, 15_500_000n));
      mine();
      await poll();
      restart();
      await poll();
    },
    '25.50',
    2,
  ],
  [
    'the service was stopped for thousands of blocks',
    async ({ world, mine, address, restart }) => {
      world.mineEmpty(2_500);
      mine(pay(address));
      world.mineEmpty(2_500);
      restart();
    },
    '25.50',
    1,
  ],
  [
    'both fail while the transfer arrives',
    async ({ good, bad, mine, address, poll }) => {
      good.faults.down = bad.faults.down = true;
      mine(pay(address));
      assert.ok(await poll());
      good.faults.down = bad.faults.down = false;
    },
    '25.50',
    1,
  ],
  [
    'a provider hangs',
    async ({ bad, mine, address, poll, detail }) => {
      bad.faults.hangs = true;
      mine(pay(address));
      mine();
      await poll();
      assert.notEqual((await detail()).status, 'completed');
    },
    '25.50',
    1,
  ],
  [
    'both index the newest blocks late',
    async ({ good, bad, world, mine, address, poll, detail }) => {
      for (const one of [good, bad]) one.faults.lateIndex = 40;
      mine(pay(address));
      mine();
      await poll();
      assert.equal((await detail()).transfers.length, 0);
      world.mineEmpty(40);
      await poll();
      assert.equal((await detail()).amount_received, '25.50');
    },
    '25.50',
    1,
  ],
];

test(`${ROWS.length} absences and limits`, (t) => playCases(t, shop, ROWS));
