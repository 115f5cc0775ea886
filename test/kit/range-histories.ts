/**
 * Random histories of a chain that is read by ranges: transfers, reorganizations, an honest provider that is often away, and one that lies in
 * every way. A model says what was really paid.
 */
import assert from 'node:assert/strict';
import { type Move, newTx, type RangeShop, type Tx } from './range-world.ts';

/** A small generator (mulberry32), so that a seed repeats its histories. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

const DUE = 25_500_000n;
type Payment = { id: string; address: string };
type Seen = { completed: Set<string>; falsely: string[] };

const keyOf = (address: string): string => address.toLowerCase();
const isPaid = (move: Move, ours: ReadonlySet<string>): boolean =>
  !move.failed && move.coin !== null && move.units > 0n && !(move.from !== undefined && ours.has(keyOf(move.from)));

/** What the honest chain pays to an address in USDC, up to a height. */
function receivedBy(shop: RangeShop, address: string, ours: ReadonlySet<string>, upTo = Number.POSITIVE_INFINITY): bigint {
  let sum = 0n;
  for (const { height, txs } of shop.world.blocks)
    if (height <= upTo)
      for (const { moves } of txs)
        for (const move of moves)
          if (keyOf(move.to) === keyOf(address) && (move.coin ?? shop.world.coin) === shop.world.coin && isPaid(move, ours))
            sum += move.units;
  return sum;
}

const AMOUNTS = [DUE, DUE, DUE, 12_750_000n, 10_000_000n, 15_500_000n, 100_000n, 0n];
function randomMove(random: (below: number) => number, payments: readonly Payment[]): Move {
  const pick = () => payments[random(payments.length)]!.address;
  const units = AMOUNTS[random(AMOUNTS.length)]!;
  const special = random(12);
  return {
    ...{ to: pick(), units },
    ...(special === 0 && { failed: true }),
    ...(special === 1 && { coin: null }),
    ...(special === 2 && { coin: 'EURC@base' as const }),
    ...(special === 3 && { from: pick() }),
  };
}

/** One thing happens. */
async function happen(shop: RangeShop, random: (below: number) => number, payments: readonly Payment[], waiting: Tx[]): Promise<void> {
  const { world } = shop;
  const [good, bad] = shop.providers as [RangeShop['providers'][number], RangeShop['providers'][number]];
  const what = random(24);
  if (what < 9) {
    const count = random(4);
    for (let i = 0; i < count; i++) world.mine(newTx(...Array.from({ length: 1 + random(12) }, () => randomMove(random, payments))));
    if (waiting.length > 0 && random(2) === 0) world.mine(...waiting.splice(0));
    world.mineEmpty(random(6));
  } else if (what < 11) {
    const back = world.undo(1 + random(random(6) === 0 ? 40 : 4));
    // Some return in other blocks, some later, some never.
    for (const tx of back) {
      const fate = random(5);
      if (fate < 3) world.mine(tx);
      else if (fate === 3) waiting.push(tx);
    }
    world.mineEmpty(1 + random(5));
  } else if (what < 13)
    Object.assign(good.faults, [{ down: true }, { lag: random(6) }, { lateIndex: random(20) }, { span: 1 + random(12) }][random(4)]);
  else if (what < 20) {
    const { address } = payments[random(payments.length)]!;
    const forged = newTx({ to: address, units: DUE });
    Object.assign(
      bad.faults,
      [
        { omits: () => true },
        { omits: (height: number) => height % 2 === 0 },
        { invents: Array.from({ length: 10 }, (_, i) => world.blocks.length - 5 + i) },
        { fork: world.branch(1 + random(5), forged) },
        { renames: true },
        { forgesReceipts: true },
        { ownFields: true, adds: () => [forged] },
        { ownFields: true },
        { down: true },
        { lag: random(8) },
        { future: true },
        { safe: 1e9, finalized: 1e9 },
        { span: 1 + random(12) },
        { lateIndex: random(20) },
      ][random(14)],
    );
  } else if (what < 22) good.heal();
  else if (what < 23) bad.heal();
  else shop.restart();
}

/** Payments that completed without being paid on the honest chain. */
async function check(shop: RangeShop, payments: readonly Payment[], ours: ReadonlySet<string>, seen: Seen): Promise<void> {
  const rows = await shop.app.app.ctx.db.sql<{ id: string }[]>`
    select id from payments where status = 'completed' and id = any(${payments.map(({ id }) => id)}::text[])`;
  for (const { id } of rows) {
    if (seen.completed.has(id)) continue;
    seen.completed.add(id);
    const payment = payments.find((one) => one.id === id)!;
    if (receivedBy(shop, payment.address, ours) < DUE) seen.falsely.push(id);
  }
}

/** Every transfer to these payments: on the honest chain, and as recorded. */
async function compare(shop: RangeShop, payments: readonly Payment[], ours: ReadonlySet<string>): Promise<void> {
  const ids = new Map(payments.map(({ id, address }) => [keyOf(address), id]));
  const real = shop.world.blocks
    .flatMap(({ hash, txs }) =>
      txs.flatMap(({ txid, moves }) =>
        moves.flatMap((move) => {
          const id = ids.get(keyOf(move.to));
          return id === undefined || !isPaid(move, ours) ? [] : [`${id} ${txid} ${hash} ${move.coin ?? shop.world.coin} ${move.units}`];
        }),
      ),
    )
    .sort();
  const rows = await shop.app.app.ctx.db.sql<{ text: string }[]>`
    select payment_id || ' ' || txid || ' ' || block_hash || ' ' || coin || ' ' || units as text from transfers
    where payment_id = any(${[...ids.values()]}::text[]) and block_height is not null`;
  const recorded = rows.map(({ text }) => text);
  const [known, wanted] = [new Set(recorded), new Set(real)];
  const missed = real.filter((text) => !known.has(text));
  const invented = recorded.filter((text) => !wanted.has(text));
  assert.deepEqual({ missed, invented, count: recorded.length }, { missed: [], invented: [], count: real.length });
}

/** Tells so many payments of one chain, with 0 false and 0 missed. Returns how many completed. */
export async function tellHistories(
  shop: RangeShop,
  { seed, payments: count, events }: { seed: number; payments: number; events: number },
): Promise<number> {
  const random = randomOf(seed);
  const payments = await Promise.all(Array.from({ length: count }, () => shop.create()));
  const ours = new Set(payments.map(({ address }) => keyOf(address)));
  const seen: Seen = { completed: new Set(), falsely: [] };
  const waiting: Tx[] = [];
  await shop.poll();
  for (let i = 0; i < events; i++) {
    await happen(shop, random, payments, waiting);
    if (random(3) > 0) continue;
    await shop.poll();
    await check(shop, payments, ours, seen);
  }
  for (const provider of shop.providers) provider.heal();
  // Deep reorganizations hold completion until there are enough blocks above them.
  for (let i = 0; i < 6; i++) {
    shop.world.mineEmpty(80);
    await shop.poll();
  }
  shop.world.mineEmpty(2);
  await shop.poll(2);
  await check(shop, payments, ours, seen);
  assert.deepEqual(seen.falsely, [], `seed ${seed}: completed without money`);
  await compare(shop, payments, ours);
  const missed = payments.filter(({ id, address }) => receivedBy(shop, address, ours) >= DUE && !seen.completed.has(id));
  for (const { id } of missed) {
    const { status, hold_reason, exceptions } = await shop.detail(id);
    assert.fail(`seed ${seed}: paid, but ${status} (${hold_reason}, ${exceptions})`);
  }
  return seen.completed.size;
}
