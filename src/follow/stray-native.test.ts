/** Native coins sent by mistake: the search for the block, and what counts when providers fail or are alone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newTx, openRangeShop, type Provider } from '../../test/kit/range-world.ts';
import { strayNativeOf } from '../core/coin.ts';
import { findRise } from './stray-native.ts';

/** A balance by height: from each of these heights on, it is so much. */
const steps = (...at: readonly [number, bigint][]) => {
  let asked = 0;
  const balanceAt = async (height: number): Promise<bigint> => {
    asked++;
    return at.filter(([from]) => from <= height).at(-1)?.[1] ?? 0n;
  };
  return { balanceAt, asked: () => asked };
};

test('the first block above the known ones where the balance rose, in few requests', async () => {
  for (const rose of [101, 102, 5_000, 3_024_099, 3_024_100]) {
    const { balanceAt, asked } = steps([rose, 7n]);
    assert.equal(await findRise({ from: 100, to: 3_024_100, above: 0n }, balanceAt), rose);
    assert.ok(asked() <= 22, `${asked()} requests`);
  }
});

test('of several rises, one above which no lower balance was known, so that all are found one after another', async () => {
  const { balanceAt } = steps([20, 3n], [50, 5n], [90, 9n]);
  const found: number[] = [];
  for (let from = 0; from < 90; from = found.at(-1)!)
    found.push((await findRise({ from, to: 100, above: await balanceAt(from) }, balanceAt))!);
  assert.deepEqual(found, [20, 50, 90]);
});

test('what was swept again between rises does not hide the last one', async () => {
  const { balanceAt } = steps([20, 3n], [30, 0n], [60, 4n]);
  const found = await findRise({ from: 0, to: 100, above: 0n }, balanceAt);
  assert.ok(found === 20 || found === 60, String(found));
});

test('a source without old balances cannot tell', async () => {
  assert.equal(await findRise({ from: 0, to: 100, above: 0n }, async () => null), null);
});

/** Ether on Base, where only tokens are offered. */
const ether = (to: string, units = 10n ** 16n) => newTx({ to, units, coin: strayNativeOf('USDC@base') });
const strayShop = () => openRangeShop(['claimed', 'claimed'], { natives: true });
const amounts = ({ transfers }: { transfers: { amount: string }[] }): string[] => transfers.map(({ amount }) => amount);

test('a native deposit that one provider alone showed is recorded once, after the other one confirms it', async () => {
  const shop = await strayShop();
  try {
    const [a, b] = shop.providers as [Provider, Provider];
    const { id, address } = await shop.create();
    b.faults.down = true;
    a.faults.state = 5;
    shop.world.mine(ether(address));
    shop.world.mineEmpty(20);
    await shop.poll(3, 60);
    assert.deepEqual(amounts(await shop.detail(id)), []);
    b.heal();
    a.heal();
    shop.restart();
    shop.world.mineEmpty(3);
    await shop.poll(3, 60);
    assert.deepEqual(amounts(await shop.detail(id)), ['0.01000000']);
    shop.restart();
    await shop.poll(3, 60);
    assert.deepEqual(amounts(await shop.detail(id)), ['0.01000000']);
    // As recorded before, on the word of one provider and in another block.
    const { sql } = shop.app.app.ctx.db;
    await sql`update transfers set verified_by = null, ref = 'delta:105:' || split_part(ref, ':', 3), block_height = 105 where payment_id = ${id}`;
    shop.restart();
    await shop.poll(3, 60);
    assert.deepEqual(amounts(await shop.detail(id)), ['0.01000000']);
  } finally {
    await shop.stop();
  }
});

test('small deposits to early addresses, and a first source that fails, do not keep the look from later addresses', async () => {
  const shop = await strayShop();
  try {
    const payments: { id: string; address: string }[] = [];
    for (let i = 0; i < 7; i++) payments.push(await shop.create());
    const sorted = [...payments].sort((x, y) => (x.address.toLowerCase() < y.address.toLowerCase() ? -1 : 1));
    const all = async () => Promise.all(payments.map(async ({ id }) => amounts(await shop.detail(id)).length > 0));
    shop.providers[0]!.faults.state = 3;
    for (let i = 0; i < 6; i++) {
      shop.world.mine(...sorted.map(({ address }) => ether(address)));
      shop.world.mineEmpty(2);
      await shop.poll(1, 60);
    }
    assert.deepEqual(
      await all(),
      payments.map(() => true),
    );
  } finally {
    await shop.stop();
  }
});

test('a provider that searches only recent blocks keeps showing new ones when balances show that something is missing', async () => {
  const shop = await openRangeShop(['claimed', 'claimed'], { height: 3_000, confirmations: '3' });
  try {
    const [a, b] = shop.providers as [Provider, Provider];
    const { id, address } = await shop.create();
    a.faults.recent = 200;
    b.faults.holds = (units) => units + 1_000_000n;
    shop.world.mineEmpty(1);
    assert.equal(await shop.poll(5, 60), null);
    shop.world.mine(newTx({ to: address, units: 25_500_000n }));
    shop.world.mineEmpty(6);
    assert.equal(await shop.poll(3, 60), null);
    const { status, amount_received, verified_by } = await shop.detail(id);
    assert.deepEqual([status, amount_received, verified_by], ['completed', '25.50', 'providers']);
  } finally {
    await shop.stop();
  }
});
