/** Cases of what providers, chains and payers may do to a chain that is read by ranges. Nothing false completes, and nothing that was paid is missed. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { newTx, type Provider, type RangeShop, type Tx, type World } from './range-world.ts';

/** What the payments of these cases need. */
export const ENOUGH = 25_500_000n;
export const pay = (address: string, units = ENOUGH): Tx => newTx({ to: address, units });

export type Case = {
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
/** `received`: at the end, after both providers answer honestly again; null: it may still come back. */
export type Row = readonly [name: string, act: (of: Case) => Promise<unknown> | unknown, received: string | null, transfers?: number];

/** Plays the cases one after another, each with payments of its own. */
export async function playCases(t: TestContext, shop: RangeShop, rows: readonly Row[]): Promise<void> {
  for (const row of rows) await t.test(row[0], () => play(shop, row));
}

async function play(shop: RangeShop, [, act, received, transfers]: Row): Promise<void> {
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
}
