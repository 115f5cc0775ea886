/**
 * What providers may do: show transfers that do not exist, none of those that do, other blocks and other balances, or be away, late or
 * limited, while the service stops too. Every transfer is found once they answer.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pay, playCases, type Row } from '../../test/kit/hostile-cases.ts';
import { openRangeShop, type RangeShop } from '../../test/kit/range-world.ts';

let shop: RangeShop;
before(async () => {
  shop = await openRangeShop(['claimed', 'claimed']);
});
after(() => shop?.stop());

const readTags = async () =>
  (
    await shop.app.app.ctx.db.sql<{ safe: bigint | null; finalized: bigint | null }[]>`
    select safe_height as safe, finalized_height as finalized from tips`
  )[0];

const LIES: readonly Row[] = [
  [
    'leaves out the transfer',
    ({ bad, mine, address }) => {
      bad.faults.omits = () => true;
      mine(pay(address));
    },
    '25.50',
    1,
  ],
  [
    'leaves out the transfer, while the other one indexes late',
    async ({ good, bad, mine, address, poll }) => {
      bad.faults.omits = () => true;
      good.faults.lateIndex = 5;
      mine(pay(address));
      mine();
      await poll();
      good.faults.lateIndex = 0;
      for (let i = 0; i < 10; i++) mine();
      await poll();
    },
    '25.50',
    1,
  ],
  [
    'invents transfers in every block',
    async ({ bad, world, mine, poll }) => {
      mine();
      mine();
      bad.faults.invents = Array.from({ length: 20 }, (_, i) => world.blocks.length - 10 + i);
      await poll();
    },
    '0.00',
  ],
  [
    'names the block of the transfer by the hash of none',
    ({ bad, mine, address }) => {
      const { height } = mine(pay(address));
      bad.faults.invents = [height];
    },
    '25.50',
    1,
  ],
  [
    'names the block of the transfer by the hash of none while it is alone',
    async ({ good, bad, mine, address, poll, detail }) => {
      good.faults.down = true;
      const { height } = mine(pay(address));
      bad.faults.invents = [height];
      mine();
      await poll(3);
      assert.equal((await detail()).amount_received, '25.50');
      good.faults.down = false;
    },
    '25.50',
    1,
  ],
  [
    'shows a chain of its own with the transfer',
    async ({ bad, world, address, poll }) => {
      world.mineEmpty(10);
      bad.faults.fork = world.branch(5, pay(address));
      await poll(3);
    },
    '0.00',
  ],
  [
    'shows a longer chain of its own with the transfer',
    async ({ bad, world, address, poll }) => {
      world.mineEmpty(3);
      bad.faults.fork = [...world.branch(5, pay(address)), ...world.branch(1)];
      await poll(3);
    },
    '0.00',
  ],
  [
    'shows receipts that do not fit the header',
    ({ bad, mine, address }) => {
      bad.faults.forgesReceipts = true;
      mine(pay(address));
    },
    '25.50',
    1,
  ],
  [
    'adds a transfer to a block, with a root that fits',
    async ({ bad, mine, address, poll }) => {
      bad.faults.ownFields = true;
      bad.faults.adds = () => [pay(address)];
      mine();
      mine();
      await poll(3);
    },
    '0.00',
  ],
  [
    'gives the block of the transfer a lower height and an earlier time',
    async ({ good, world, mine, address, poll, detail }) => {
      world.mineEmpty(70);
      good.faults.describes = (ref) => ({ ...ref, height: ref.height - 70, time: new Date(ref.time.getTime() - 3_600_000) });
      const { height } = mine(pay(address));
      mine();
      await poll(2);
      const { status, transfers } = await detail();
      assert.deepEqual([status, transfers.map((one: any) => one.block_height)], ['processing', [height]]);
    },
    '25.50',
    1,
  ],
  [
    'claims to be a million blocks ahead',
    async ({ bad, world, mine, address, poll, detail }) => {
      bad.faults.ahead = 1_000_000;
      mine(pay(address));
      world.mineEmpty(2);
      await poll(2);
      assert.equal((await detail()).amount_received, '25.50');
      const [tip] = await shop.app.app.ctx.db.sql<{ height: bigint }[]>`select height from tips`;
      assert.equal(Number(tip!.height), world.blocks.length - 2);
    },
    '25.50',
    1,
  ],
  [
    'calls every block final while it is alone',
    async ({ good, bad, world, mine, address, poll, detail }) => {
      mine();
      await poll();
      good.faults.down = true;
      bad.faults.safe = bad.faults.finalized = world.blocks.length;
      mine(pay(address));
      mine();
      await poll(2);
      assert.deepEqual(await readTags(), { safe: null, finalized: null });
      good.faults.down = false;
      await poll(1, 1);
      assert.equal((await detail()).status, 'processing');
    },
    '25.50',
    1,
  ],
  [
    'adds a transfer while it is alone, with a header that nothing proves',
    async ({ good, bad, mine, address, poll, detail }) => {
      good.faults.down = true;
      bad.faults.ownFields = true;
      bad.faults.adds = () => [pay(address)];
      mine();
      mine();
      await poll(2);
      assert.equal((await detail()).status, 'processing');
      bad.heal();
      good.heal();
      for (let i = 0; i < 60; i++) mine();
      await poll(2);
    },
    '0.00',
    0,
  ],
  [
    'replaces a block in the middle of the chain while it is alone',
    async ({ good, bad, world, mine, address, poll, detail }) => {
      mine();
      await poll();
      const { height } = mine();
      world.mineEmpty(4);
      good.faults.down = true;
      bad.faults.ownFields = true;
      const forged = { ...world.blocks[height]!, hash: `0x${'ab'.repeat(32)}`, txs: [pay(address)] };
      bad.faults.fork = world.blocks.with(height, forged);
      await poll(2);
      assert.equal((await detail()).status, 'processing');
      for (const one of [good, bad]) one.heal();
      mine();
      await poll(2);
      assert.deepEqual((await detail()).transfers, []);
    },
    '0.00',
    0,
  ],
  [
    'moves a verified transfer to another block while it is alone',
    async ({ good, bad, world, mine, address, poll, detail, restart }) => {
      const tx = pay(address);
      const { height } = mine(tx);
      mine();
      await poll();
      // A block that was searched long ago.
      world.mineEmpty(200);
      await poll();
      const later = mine();
      mine();
      good.faults.down = true;
      bad.faults.ownFields = true;
      bad.faults.fork = world.blocks.with(later.height, { ...later, hash: `0x${'cd'.repeat(32)}`, txs: [tx] });
      restart();
      await poll(2);
      for (const one of [good, bad]) one.heal();
      world.mineEmpty(2);
      await poll(2);
      assert.deepEqual(
        (await detail()).transfers.map((one: any) => one.block_height),
        [height],
      );
    },
    '25.50',
    1,
  ],
  [
    'adds confirmations while it is alone',
    async ({ good, bad, world, mine, address, poll, detail }) => {
      mine(pay(address));
      mine();
      await poll();
      world.mineEmpty(60);
      bad.faults.fork = [...world.blocks];
      world.undo(60);
      good.faults.down = true;
      await poll(2);
      for (const one of [good, bad]) one.heal();
      mine();
      await poll();
      assert.equal((await detail()).status, 'processing');
      await poll(4);
      const { status, confirmations } = await detail();
      assert.deepEqual([status, confirmations], ['processing', 2]);
      world.mineEmpty(60);
    },
    '25.50',
    1,
  ],
  [
    'names another transaction while it is alone',
    async ({ good, bad, mine, address, poll }) => {
      good.faults.down = true;
      bad.faults.renames = true;
      mine(pay(address, 12_750_000n));
      mine();
      await poll(2);
    },
    null,
    1,
  ],
  [
    'names other transactions in the receipts',
    async ({ bad, mine, address, poll }) => {
      bad.faults.renames = true;
      mine(pay(address));
      mine();
      await poll(2);
    },
    '25.50',
    1,
  ],
  [
    'has headers with fields of its own, and honest roots',
    ({ bad, good, mine, address }) => {
      for (const one of [bad, good]) one.faults.ownFields = true;
      mine(pay(address));
    },
    '25.50',
    1,
  ],
  [
    'hides a transfer and its balance for an hour, while both search five blocks at once',
    async ({ good, bad, world, mine, address, poll, detail }) => {
      for (const one of [good, bad]) Object.assign(one.faults, { span: 5, omits: () => true });
      mine(pay(address));
      world.mineEmpty(2_000);
      await poll();
      for (const one of [good, bad]) one.faults.omits = () => false;
      Object.assign(shop.providers[0]!.faults, { holds: () => 0n });
      Object.assign(shop.providers[1]!.faults, { holds: (units: bigint) => units });
      mine();
      await poll(12);
      assert.equal((await detail()).amount_received, '25.50');
    },
    '25.50',
    1,
  ],
  [
    'calls blocks final that are not',
    async ({ bad, world, mine, address, poll }) => {
      bad.faults.finalized = bad.faults.safe = 1_000_000;
      mine(pay(address));
      world.mineEmpty(2);
      await poll();
    },
    '25.50',
    1,
  ],
  [
    'shows a reorganization that never happened',
    async ({ bad, world, mine, address, poll }) => {
      mine(pay(address));
      world.mineEmpty(3);
      await poll();
      bad.faults.fork = world.branch(5);
      await poll(3);
    },
    '25.50',
    1,
  ],
];

test(`${LIES.length} lies of a provider`, (t) => playCases(t, shop, LIES));

const ABSENCES: readonly Row[] = [
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

test(`${ABSENCES.length} absences and limits`, (t) => playCases(t, shop, ABSENCES));
