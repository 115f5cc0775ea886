/** One source that lies or fails beside others that count: they continue without it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newTx, openRangeShop, type Provider, type Tx, type World } from '../../test/kit/range-world.ts';

const pay = (address: string, units = 25_500_000n): Tx => newTx({ to: address, units });

/** What a source may do beside your own node, or beside two that answer the same: payments complete meanwhile. */
const BESIDE: readonly (readonly [name: string, act: (of: { world: World; bad: Provider; address: string }) => void])[] = [
  [
    'shows a chain of its own',
    ({ world, bad, address }) => {
      bad.faults.fork = [...world.branch(20, pay(address)), ...world.branch(1)];
    },
  ],
  [
    'shows a chain of its own, a few blocks lower',
    ({ world, bad }) => {
      bad.faults.fork = world.branch(20).slice(0, -5);
    },
  ],
  [
    'falls behind and stays there',
    ({ world, bad }) => {
      bad.faults.fork = world.blocks.slice(0, -30);
    },
  ],
  [
    'names other transactions',
    ({ bad }) => {
      bad.faults.renames = true;
    },
  ],
  [
    'adds transfers, with a root that fits',
    ({ bad, address }) => {
      bad.faults.adds = () => [pay(address, 1_000_000n)];
    },
  ],
  [
    'has an old clock',
    ({ bad, world }) => {
      bad.faults.fork = world.blocks.map((block) => ({ ...block, time: new Date(block.time.getTime() - 7_200_000) }));
    },
  ],
  ...(['at', 'search', 'fetch', 'identity', 'tags'] as const).map(
    (what) =>
      [
        `fails when it is asked to ${what}`,
        ({ bad }: { bad: Provider }) => {
          bad.faults.fails = [what];
        },
      ] as const,
  ),
];
for (const [beside, trusts] of [
  ['your own node', ['claimed', 'own']],
  ['two that answer the same', ['claimed', 'claimed', 'claimed']],
] as const)
  test(`one source that lies or fails beside ${beside} holds nothing up`, async (t) => {
    const many = await openRangeShop(trusts, { confirmations: '3' });
    try {
      const [bad] = many.providers as [Provider];
      for (const [name, act] of BESIDE)
        await t.test(name, async () => {
          const { id, address } = await many.create();
          many.world.mineEmpty(50);
          await many.poll();
          act({ world: many.world, bad, address });
          many.world.mine(pay(address));
          many.world.mineEmpty(6);
          assert.equal(await many.poll(3, 2), null);
          const { status, amount_received, transfers } = await many.detail(id);
          bad.heal();
          many.world.mineEmpty(3);
          await many.poll(2);
          assert.deepEqual([status, amount_received, transfers.length], ['completed', '25.50', 1]);
        });
    } finally {
      await many.stop();
    }
  });

test('two sources of which one fails complete nothing, and continue once it answers', async () => {
  const two = await openRangeShop(['claimed', 'claimed'], { confirmations: '3' });
  try {
    const [bad] = two.providers as [Provider];
    const { id, address } = await two.create();
    bad.faults.fails = ['search'];
    two.world.mine(pay(address));
    two.world.mineEmpty(6);
    assert.equal(await two.poll(3, 2), null);
    assert.equal((await two.detail(id)).status, 'processing');
    bad.heal();
    two.world.mineEmpty(1);
    await two.poll(2);
    assert.deepEqual([(await two.detail(id)).status, (await two.detail(id)).verified_by], ['completed', 'providers']);
  } finally {
    await two.stop();
  }
});

test('your own node decides which blocks are final, and is not behind one source that names a higher block', async () => {
  const own = await openRangeShop(['claimed', 'own']);
  try {
    const { id, address } = await own.create();
    const [bad] = own.providers as [Provider];
    bad.faults.ahead = 1_000_000;
    bad.faults.safe = bad.faults.finalized = 5;
    own.world.mine(pay(address));
    own.world.mineEmpty(2);
    await own.poll();
    const [tip] = await own.app.app.ctx.db.sql<{ height: bigint; safe: bigint | null }[]>`select height, safe_height as safe from tips`;
    assert.deepEqual(tip, { height: BigInt(own.world.blocks.length - 2), safe: BigInt(own.world.blocks.length - 60) });
    own.world.mineEmpty(130);
    await own.poll(2);
    const { status, verified_by } = await own.detail(id);
    assert.deepEqual([status, verified_by], ['completed', 'node']);
  } finally {
    await own.stop();
  }
});
