/** When payments on networks that are read by ranges complete: by the table, or by what the operator and the merchant set instead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newTx, openRangeShop, type RangeShop } from '../../test/kit/range-world.ts';
import type { Coin } from '../core/coin.ts';
import { readServiceReadiness } from '../http/health.ts';
import { changeSettings } from '../merchants/merchants.ts';

/** Blocks that the providers call final; safe ones are twice as new. */
const [SAFE, FINAL] = [60, 120];
type Wanted = readonly [usd: number, blocks: number, what: string];

/** Pays amounts that wait for different things at once, and finds the number of blocks after which each payment completes. */
async function expectBlocks(shop: RangeShop, coin: Coin, wanted: readonly Wanted[]): Promise<void> {
  const made = await Promise.all(wanted.map(([usd]) => shop.create(coin, usd)));
  // In transactions of their own, and with time in between, because small payments at the same time count together.
  const { height } = shop.world.mine(...made.map(({ address }, i) => newTx({ to: address, units: BigInt(wanted[i]![0] * 100) * 10_000n })));
  // The newest block is not read yet.
  const confirmations = () => shop.world.blocks.length - 1 - height;
  const at = new Map<string, number>();
  for (const blocks of [...new Set(wanted.map(([, count]) => count))].toSorted((a, b) => a - b)) {
    shop.world.mineEmpty(blocks - 1 - confirmations());
    await shop.poll();
    for (const { id } of made) assert.equal(at.has(id), (await shop.detail(id)).status === 'completed', `after ${blocks - 1} blocks`);
    shop.world.mineEmpty(1);
    await shop.poll();
    for (const { id } of made) if ((await shop.detail(id)).status === 'completed' && !at.has(id)) at.set(id, confirmations());
  }
  assert.deepEqual(
    made.map(({ id }, i) => [wanted[i]![2], at.get(id)]),
    wanted.map(([, blocks, what]) => [what, blocks]),
  );
}

async function withShop(options: Parameters<typeof openRangeShop>[1], work: (shop: RangeShop) => Promise<void>): Promise<void> {
  const shop = await openRangeShop(['claimed', 'claimed'], { height: 300, ...options });
  try {
    await work(shop);
  } finally {
    await shop.stop();
  }
}

test('Base by the table: a number of blocks, then blocks that are safe, then final ones', () =>
  withShop({ coin: 'USDC@base' }, (shop) =>
    expectBlocks(shop, 'USDC@base', [
      [20, 50, 'less than 100 USD'],
      [500, SAFE - 1, 'less than 10,000 USD'],
      [20_000, FINAL - 1, 'more'],
    ]),
  ));

test('Polygon by the table: final blocks, and for large amounts those that have been final for a minute', () =>
  withShop({ coin: 'USDC@polygon' }, (shop) =>
    expectBlocks(shop, 'USDC@polygon', [
      [20, FINAL - 1, 'less than 100 USD'],
      [5_000, FINAL - 1, 'less than 10,000 USD'],
      [20_000, FINAL + 29, 'more'],
    ]),
  ));

test('numbers of the operator replace the table, and merchants can raise them but not lower them', () =>
  withShop({ coin: 'USDC@base', confirmations: '100:70,1000:90,*:130' }, async (shop) => {
    await expectBlocks(shop, 'USDC@base', [
      [20, 70, 'less than 100 USD'],
      [500, 90, 'less than 1,000 USD'],
      [20_000, 130, 'more'],
    ]);
    const tier = (belowUsdCents: string | null, confirmations: number) => ({
      belowUsdCents,
      confirmations,
      rule: 'confirmations' as const,
    });
    await changeSettings(shop.app.app.ctx, {
      merchantId: shop.app.merchant.merchantId,
      settings: { confirmations: { 'USDC@base': [tier('10000', 80), tier('100000', 10), tier(null, 140)] } },
    });
    await expectBlocks(shop, 'USDC@base', [
      [20, 80, 'raised'],
      [500, 90, 'not lowered'],
      [20_000, 140, 'raised'],
    ]);
  }));

test('whatever the operator set, nothing completes that only one of two providers shows', () =>
  withShop({ coin: 'USDC@base', confirmations: '1' }, async (shop) => {
    const { id, address } = await shop.create();
    shop.providers[1]!.faults.down = true;
    shop.world.mine(newTx({ to: address, units: 25_500_000n }));
    shop.world.mineEmpty(30);
    await shop.poll(3);
    assert.equal((await shop.detail(id)).status, 'processing');
    shop.providers[1]!.heal();
    shop.world.mineEmpty(1);
    await shop.poll(3);
    assert.equal((await shop.detail(id)).status, 'completed');
  }));

test('a provider that does not say which blocks are final: waiting payments and operators learn it, and what was final stays final', () =>
  withShop({ coin: 'USDC@base' }, async (shop) => {
    const { ctx } = shop.app.app;
    const finalHeight = async () => (await ctx.db.sql<{ height: bigint | null }[]>`select finalized_height as height from tips`)[0]!.height;
    const { id, address } = await shop.create('USDC@base', 500);
    await shop.poll(2);
    const before = await finalHeight();
    assert.notEqual(before, null);
    shop.world.mine(newTx({ to: address, units: 500_000_000n }));
    shop.world.mineEmpty(4_300);
    shop.providers[1]!.faults.fails = ['tags'];
    await shop.poll(3);
    assert.equal(await finalHeight(), before);
    const { status, hold_reason } = await shop.detail(id);
    assert.deepEqual(
      [status, hold_reason],
      ['processing', 'a source of this chain does not say which blocks are final, and this payment needs one'],
    );
    assert.match(
      (await readServiceReadiness(ctx)).warnings.join(),
      /base: provider2\.example does not say which blocks are final; payments that need a final block wait/,
    );
    shop.providers[1]!.heal();
    await shop.poll(2);
    assert.equal((await shop.detail(id)).status, 'completed');
    assert.doesNotMatch((await readServiceReadiness(ctx)).warnings.join(), /which blocks are final/);
  }));
