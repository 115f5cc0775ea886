/** What providers may do to a chain that is read by ranges: forty hostile cases. Nothing false completes, and nothing that was paid is missed. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newTx, openRangeShop, type Provider, type RangeShop, type Tx, type World } from '../../test/kit/range-world.ts';
import { releaseChain } from './chain-acts.ts';

let shop: RangeShop;
before(async () => {
  shop = await openRangeShop(['claimed', 'claimed']);
});
after(() => shop?.stop());

const ENOUGH = 25_500_000n;
type Case = {
  world: World;
  /** The honest one, and the one that the case is about. */
  good: Provider;
  bad: Provider;
  address: string;
  other: string;
  poll: RangeShop['poll'];
  mine: World['mine'];
  detail(): Promise<any>;
  restart(): void;
};
type Row = readonly [name: string, act: (of: Case) => Promise<unknown> | unknown, received: string | null, transfers?: number];
const pay = (address: string, units = ENOUGH): Tx => newTx({ to: address, units });
const readTags = async () =>
  (
    await shop.app.app.ctx.db.sql<{ safe: bigint | null; finalized: bigint | null }[]>`
    select safe_height as safe, finalized_height as finalized from tips`
  )[0];
const NOBODY = `0x${'e'.repeat(40)}`;

/** What is received at the end, after both providers answer honestly again; null: it may still come back. */
const ROWS: readonly Row[] = [
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
    'a reorganization of one block removes the transfer',
    async ({ world, mine, address, poll }) => {
      mine(pay(address));
      mine();
      await poll();
      world.undo(2);
      world.mineEmpty(3);
      await poll();
    },
    null,
    0,
  ],
  [
    'a reorganization of one block after half a day without a poll',
    async ({ world, mine, address, poll }) => {
      const { sql } = shop.app.app.ctx.db;
      await sql`update anchors set at = at - interval '13 hours'`;
      await sql`update tips set watched_since = watched_since - interval '2 days'`;
      world.mineEmpty(5_000);
      await poll();
      world.undo(2);
      mine(pay(address));
      mine();
      assert.equal(await poll(), null);
      const [guard] = await sql<{ depth: number | null }[]>`select reorg_depth as depth from chain_guard`;
      assert.ok((guard?.depth ?? 0) < 100, `a reorganization of one block counts as ${guard?.depth} blocks`);
    },
    '25.50',
    1,
  ],
  [
    'a reorganization of one block that happened while the service was off for half a day',
    async ({ world, mine, address, poll, restart }) => {
      const { sql } = shop.app.app.ctx.db;
      for (let i = 0; i < 3; i++) {
        mine();
        await poll();
      }
      await sql`update anchors set at = at - interval '13 hours'`;
      await sql`update tips set watched_since = watched_since - interval '2 days'`;
      world.undo(2);
      world.mineEmpty(5_000);
      mine(pay(address));
      restart();
      assert.equal(await poll(), null);
    },
    '25.50',
    1,
  ],
  [
    'blocks stop becoming final',
    async ({ world, good, bad, mine, address, poll, detail }) => {
      world.blocks[1] = { ...world.blocks[1]!, time: new Date(Date.now() - 9 * 3_600_000) };
      for (const one of [good, bad]) one.faults.finalized = 1;
      await poll();
      mine(pay(address));
      world.mineEmpty(60);
      await poll(2);
      const { status, hold_reason } = await detail();
      assert.equal(status, 'processing');
      assert.match(hold_reason, /the last final block is 540 min old, 25 min are usual/);
    },
    '25.50',
    1,
  ],
  [
    'a reorganization of one block moves the transfer',
    async ({ world, mine, address, poll }) => {
      mine(pay(address));
      mine();
      await poll();
      const back = world.undo(2);
      mine();
      for (const tx of back) mine(tx);
      mine();
      await poll();
    },
    '25.50',
    1,
  ],
  [
    'a reorganization of 64 blocks moves the transfer',
    async ({ world, mine, address, poll }) => {
      world.mineEmpty(10);
      mine(pay(address));
      for (let i = 0; i < 9; i++) {
        world.mineEmpty(7);
        await poll();
      }
      const back = world.undo(64);
      world.mineEmpty(60);
      mine(...back);
      world.mineEmpty(5);
      await poll();
    },
    '25.50',
    1,
  ],
  [
    'one provider sees a reorganization first',
    async ({ bad, world, mine, address, poll }) => {
      mine(pay(address));
      mine();
      await poll();
      const old = [...world.blocks];
      const back = world.undo(2);
      bad.faults.fork = old;
      world.mineEmpty(2);
      mine(...back);
      mine();
      await poll(2);
      bad.faults.fork = null;
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
  [
    'a transfer returns in a block after it was lost',
    async ({ world, mine, address, poll }) => {
      const tx = pay(address);
      mine(tx);
      mine();
      await poll();
      world.undo(2);
      world.mineEmpty(4);
      await poll();
      mine(tx);
      mine();
      await poll();
    },
    '25.50',
    1,
  ],
  [
    'the transaction pays less after a reorganization',
    async ({ world, mine, address, poll }) => {
      const tx = pay(address);
      mine(tx);
      mine();
      await poll();
      world.undo(2);
      mine({ ...tx, moves: [{ to: address, units: 5_000_000n }] });
      world.mineEmpty(2);
      await poll();
    },
    '5.00',
    1,
  ],
  [
    'two transfers in one transaction',
    ({ mine, address }) => mine(newTx({ to: address, units: 10_000_000n }, { to: address, units: 15_500_000n })),
    '25.50',
    2,
  ],
  [
    'two equal transfers in one transaction',
    ({ mine, address }) => mine(newTx({ to: address, units: 12_750_000n }, { to: address, units: 12_750_000n })),
    '25.50',
    2,
  ],
  [
    'one transaction pays two payments',
    ({ mine, address, other }) => mine(newTx({ to: other, units: ENOUGH }, { to: address, units: ENOUGH })),
    '25.50',
    1,
  ],
  ['a failed transaction', ({ mine, address }) => mine(newTx({ to: address, units: ENOUGH, failed: true })), '0.00', 0],
  ['a token with the same name', ({ mine, address }) => mine(newTx({ to: address, units: ENOUGH, coin: null })), '0.00', 0],
  ['a transfer of nothing', ({ mine, address }) => mine(newTx({ to: address, units: 0n })), '0.00', 0],
  [
    'a transfer from another deposit address',
    ({ mine, address, other }) => mine(newTx({ to: address, from: other, units: ENOUGH })),
    '0.00',
    0,
  ],
  ['a transfer to itself', ({ mine, address }) => mine(newTx({ to: address, from: address, units: ENOUGH })), '0.00', 0],
  [
    'a transfer from a look-alike of the address',
    ({ mine, address }) => mine(newTx({ to: address, from: `${address.slice(0, 6)}${NOBODY.slice(6)}`, units: ENOUGH })),
    '25.50',
    1,
  ],
  ['another coin of the network', ({ mine, address }) => mine(newTx({ to: address, units: 30_000_000n, coin: 'EURC@base' })), '0.00', 1],
  [
    'a hundred transfers in one block',
    ({ mine, address }) => mine(...Array.from({ length: 100 }, () => pay(address, 255_000n))),
    '25.50',
    100,
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
];

test(`${ROWS.length} hostile cases`, async (t) => {
  assert.ok(ROWS.length >= 40);
  for (const [name, act, received, transfers] of ROWS)
    await t.test(name, async () => {
      const { world, poll, restart } = shop;
      const [good, bad] = shop.providers as [Provider, Provider];
      const [one, other] = [await shop.create(), await shop.create()];
      const detail = () => shop.detail(one.id);
      await poll();
      await act({ world, good, bad, address: one.address, other: other.address, poll, mine: world.mine, detail, restart });
      const before = await detail();
      // Only what the honest chain contains may complete.
      if (received !== '25.50') assert.notEqual(before.status, 'completed');
      for (const provider of shop.providers) provider.heal();
      // Deep reorganizations hold completion for this long.
      world.mineEmpty(130);
      await poll(2);
      world.mineEmpty(2);
      await poll();
      const now = await detail();
      if (received === null) assert.notEqual(now.status, 'completed');
      else assert.deepEqual([now.amount_received, now.status], [received, received === '25.50' ? 'completed' : 'pending']);
      if (transfers !== undefined) assert.equal(now.transfers.filter((x: any) => x.block_height !== null).length, Math.min(50, transfers));
      if (received === '25.50') assert.equal(now.verified_by, 'providers');
    });
});

test('a reorganization of 5,000 blocks moves a payment, and holds the chain until an operator releases it', async () => {
  const deep = await openRangeShop(['claimed', 'claimed']);
  try {
    const { id, address } = await deep.create();
    for (let i = 0; i < 50; i++) {
      if (i === 3) deep.world.mine(pay(address));
      deep.world.mineEmpty(100);
      await deep.poll();
    }
    const asked = deep.providers[0]!.requests;
    const back = deep.world.undo(5_000);
    deep.world.mineEmpty(4_800);
    deep.world.mine(...back.slice(0, 1));
    deep.world.mineEmpty(400);
    await deep.poll(2);
    const needed = deep.providers[0]!.requests - asked;
    assert.ok(needed < 60, `${needed} requests`);
    const moved = await deep.detail(id);
    assert.equal(
      moved.transfers[0].block_height,
      deep.world.blocks.findIndex(({ txs }) => txs.length > 0),
    );
    const reasons = async () => (await deep.app.app.ctx.db.sql<{ reasons: string[] }[]>`select reasons from chain_guard`)[0]!.reasons;
    assert.match((await reasons()).join(), /a reorganization of 5\d{3} blocks/);
    await releaseChain(deep.app.app.ctx, { coin: 'USDC@base', reason: 'the sequencer announced it' });
    deep.world.mineEmpty(2);
    await deep.poll(2);
    assert.deepEqual(await reasons(), []);
  } finally {
    await deep.stop();
  }
});

test('final blocks are judged when they are read, so nothing is held because no payment was open for hours', async () => {
  const idle = await openRangeShop(['claimed', 'claimed']);
  try {
    const { ctx } = idle.app.app;
    const codes = async () => (await ctx.db.sql<{ codes: string[] }[]>`select codes from chain_guard`)[0]!.codes;
    const now = ctx.clock.now.bind(ctx.clock);
    let skippedMs = 0;
    Object.assign(ctx.clock, { now: () => new Date(now().getTime() + skippedMs) });
    idle.restart();
    const { id, address } = await idle.create();
    idle.world.mine(pay(address));
    idle.world.mineEmpty(130);
    await idle.poll(3);
    assert.equal((await idle.detail(id)).status, 'completed');
    skippedMs = 10 * 3_600_000;
    idle.world.mineEmpty(1);
    await idle.poll(2);
    assert.deepEqual(await codes(), []);
    // A lag that was seen ends without a payment, too.
    const { id: open } = await idle.create();
    for (const one of idle.providers) one.faults.finalized = 1;
    idle.world.mineEmpty(1);
    await idle.poll(2);
    assert.deepEqual(await codes(), ['finality']);
    await idle.app.live.post(`/v1/payments/${open}/cancel`, {});
    for (const one of idle.providers) one.heal();
    idle.world.mineEmpty(1_000);
    await idle.poll(3);
    assert.deepEqual(await codes(), []);
  } finally {
    await idle.stop();
  }
});

test('a reorganization below the first block that was read is followed', async () => {
  const fresh = await openRangeShop(['claimed', 'claimed']);
  try {
    const { id, address } = await fresh.create();
    fresh.world.undo(10);
    fresh.world.mineEmpty(20);
    fresh.world.mine(pay(address));
    fresh.world.mineEmpty(60);
    await fresh.poll(2);
    assert.equal((await fresh.detail(id)).amount_received, '25.50');
  } finally {
    await fresh.stop();
  }
});
