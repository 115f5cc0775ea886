/** What counts as a transfer on a chain that is read by ranges, what reorganizations do to it, and what is final. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ENOUGH, pay, playCases, type Row } from '../../test/kit/hostile-cases.ts';
import { newTx, openRangeShop, type RangeShop } from '../../test/kit/range-world.ts';
import { releaseChain } from './chain-acts.ts';

let shop: RangeShop;
before(async () => {
  shop = await openRangeShop(['claimed', 'claimed']);
});
after(() => shop?.stop());

const NOBODY = `0x${'e'.repeat(40)}`;

const KINDS: readonly Row[] = [
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
];

test(`${KINDS.length} kinds of transfers`, (t) => playCases(t, shop, KINDS));

const ROWS: readonly Row[] = [
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
    'the chain goes over to another branch, back to the first one, and again',
    async ({ world, mine, address, poll, detail }) => {
      world.mineEmpty(3);
      mine(pay(address));
      mine();
      await poll();
      for (let again = 0; again < 2; again++) {
        const before = [...world.blocks];
        const other = world.branch(4);
        other.push({ ...other.at(-1)!, height: other.length, hash: `0x${'ab'.repeat(31)}0${again}`, parent: other.at(-1)!.hash });
        world.goOver(other.slice(before.length - 4));
        await poll();
        const without = await detail();
        assert.equal(without.transfers.filter((one: any) => one.block_height !== null).length, 0);
        world.goOver(before.slice(before.length - 4));
        world.mineEmpty(2);
        await poll();
        assert.equal((await detail()).transfers[0].block_hash, before.findLast(({ txs }) => txs.length > 0)!.hash);
      }
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
];

test(`${ROWS.length} reorganizations`, (t) => playCases(t, shop, ROWS));

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

/** As if so much time had passed since the transfer was last known. */
const passSinceAbsent = (of: RangeShop, seconds: number) =>
  of.app.app.ctx.db
    .sql`with old as (update transfers set absent_since = absent_since - make_interval(secs => ${seconds}) where absent_since is not null returning payment_id)
      update payments set due_at = clock_timestamp() where id in (select payment_id from old)`;

test('money that a reorganization took away is only announced, and a minute after the last source knew it, it is gone with an event', async () => {
  const { id, address } = await shop.create();
  const seen = async () => {
    const { status, amount_received, amount_announced, exceptions } = await shop.detail(id);
    return [status, amount_received, amount_announced, exceptions.join()];
  };
  const events = async () =>
    (await shop.app.app.ctx.db.sql<{ type: string }[]>`select type from events where payment_id = ${id} order by sequence`).map(
      ({ type }) => type,
    );
  const tx = pay(address);
  shop.world.mine(tx);
  shop.world.mineEmpty(1);
  await shop.poll();
  assert.deepEqual(await seen(), ['processing', '25.50', '0.00', '']);
  shop.world.undo(2);
  shop.world.mineEmpty(3);
  // One provider still has the transaction in its pool.
  shop.providers[0]!.faults.knows = [tx.txid];
  await shop.poll();
  await passSinceAbsent(shop, 61);
  shop.world.mineEmpty(1);
  await shop.poll(2);
  assert.deepEqual(await seen(), ['processing', '0.00', '25.50', '']);
  shop.providers[0]!.faults.knows = [];
  shop.world.mineEmpty(1);
  await shop.poll();
  assert.deepEqual(await seen(), ['processing', '0.00', '25.50', '']);
  await passSinceAbsent(shop, 61);
  shop.world.mineEmpty(1);
  await shop.poll(2);
  assert.deepEqual(await seen(), ['pending', '0.00', '0.00', 'reorged']);
  assert.deepEqual(await events(), ['payment.created', 'payment.processing', 'payment.updated']);
  // The customer pays again: once, and not too much.
  shop.world.mine(pay(address));
  shop.world.mineEmpty(130);
  await shop.poll(3);
  assert.deepEqual((await seen()).slice(0, 3), ['completed', '25.50', '0.00']);
  assert.ok(!(await shop.detail(id)).exceptions.includes('overpaid'));
});

test('two transfers, of which a reorganization took one away, are no overpayment', async () => {
  const { id, address } = await shop.create();
  shop.world.mine(pay(address));
  shop.world.mineEmpty(1);
  await shop.poll();
  shop.world.undo(2);
  shop.world.mine(pay(address));
  shop.world.mineEmpty(130);
  await shop.poll(3);
  const { status, amount_received, amount_announced, amount_overpaid, exceptions } = await shop.detail(id);
  assert.deepEqual([status, amount_received, amount_announced, amount_overpaid, exceptions], ['completed', '25.50', '25.50', '0.00', []]);
});

test('a sealed block that has the transaction without the transfer ends it in that round', async () => {
  const { id, address } = await shop.create();
  const tx = pay(address);
  shop.world.mine(tx);
  shop.world.mineEmpty(1);
  await shop.poll();
  shop.world.undo(2);
  shop.world.mine({ ...tx, moves: tx.moves.map((move) => ({ ...move, failed: true })) });
  shop.world.mineEmpty(2);
  await shop.poll();
  const { status, amount_received, amount_announced, exceptions } = await shop.detail(id);
  assert.deepEqual([status, amount_received, amount_announced, exceptions], ['pending', '0.00', '0.00', ['reorged', 'replaced']]);
  const page = await (await fetch(`${shop.app.url}/pay?id=${id}`)).text();
  assert.match(page, /Your transaction is no longer on the network/);
});
