/**
 * Random histories of payments on a chain that is read by ranges: transfers, reorganizations, honest providers that are often away, and one
 * that lies in every way. A model says what was really paid. The history of a payment is its own transfers and what happens to their blocks.
 */
import assert from 'node:assert/strict';
import type { Coin } from '../../src/core/coin.ts';
import { type Faults, type Move, newTx, type Provider, type RangeShop, type Tx, type WorldBlock } from './range-world.ts';

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
/** Blocks that a payment needs, as the shop is configured. */
export const CONFIRMATIONS = 3;
type Payment = { id: string; address: string };
type Random = ReturnType<typeof randomOf>;
type Story = {
  shop: RangeShop;
  random: Random;
  payments: Payment[];
  /** The payments by account. */
  byKey: Map<string, string>;
  /** Transactions that a reorganization removed, and that return later. */
  waiting: Tx[];
  /** The blocks that the last reorganization removed, to which the chain may return. */
  left: WorldBlock[];
  completed: Set<string>;
  falsely: string[];
  honest: readonly Provider[];
  bad: Provider;
};

const keyOf = (address: string): string => address.toLowerCase();
const addPayment = ({ payments, byKey }: Story, payment: Payment): void => {
  payments.push(payment);
  byKey.set(keyOf(payment.address), payment.id);
};

type Paid = { id: string; txid: string; hash: string; coin: Coin; units: bigint };
/** Every transfer that the honest chain contains up to a height. */
function* transfersOf({ shop: { world }, byKey }: Story, upTo = Number.POSITIVE_INFINITY): Generator<Paid> {
  for (const { height, hash, txs } of world.blocks) {
    if (height > upTo) return;
    for (const { txid, moves } of txs)
      for (const { to, from, units, failed, coin = world.coin } of moves) {
        const id = byKey.get(keyOf(to));
        const isPaid = !failed && coin !== null && units > 0n && !(from !== undefined && byKey.has(keyOf(from)));
        if (id !== undefined && isPaid) yield { id, txid, hash, coin, units };
      }
  }
}

/** The payments that the honest chain pays in full in USDC, with all their blocks up to a height. */
function paidThrough(story: Story, upTo?: number): Set<string> {
  const sums = new Map<string, bigint>();
  for (const { id, coin, units } of transfersOf(story, upTo))
    if (coin === story.shop.world.coin) sums.set(id, (sums.get(id) ?? 0n) + units);
  return new Set([...sums].flatMap(([id, sum]) => (sum >= DUE ? [id] : [])));
}

const AMOUNTS = [DUE, DUE, DUE, 12_750_000n, 10_000_000n, 15_500_000n, 100_000n, 0n];
function randomMove({ random, payments }: Story): Move {
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

/** Transactions of very different sizes, so that most payments receive something and some receive much. */
const randomTx = (story: Story): Tx => {
  const { random, payments } = story;
  const most = random(3) === 0 ? Math.ceil(payments.length / 2) : 12;
  return newTx(...Array.from({ length: 1 + random(most) }, () => randomMove(story)));
};

/** The newest blocks are replaced. Some of their transactions return in other blocks, some later, some never. */
function reorganize({ shop: { world }, random, waiting }: Story): WorldBlock[] {
  const depth = 1 + random(random(6) === 0 ? 40 : 4);
  const left = world.blocks.slice(-depth);
  for (const tx of world.undo(depth)) {
    const fate = random(5);
    if (fate < 3) world.mine(tx);
    else if (fate === 3) waiting.push(tx);
  }
  world.mineEmpty(1 + random(5));
  return left;
}

/** The chain returns to the blocks that a reorganization removed, if what is below them is still there. */
function goBack(story: Story): WorldBlock[] {
  const { left, waiting } = story;
  const { world } = story.shop;
  const [lowest] = left;
  if (!lowest || world.blocks[lowest.height - 1]?.hash !== lowest.parent || world.blocks[lowest.height]?.hash === lowest.hash) return left;
  const gone = world.goOver(left);
  const mined = new Set(left.flatMap(({ txs }) => txs.map(({ txid }) => txid)));
  story.waiting = [...waiting, ...gone.flatMap(({ txs }) => txs)].filter(({ txid }) => !mined.has(txid));
  world.mineEmpty(story.random(3));
  return gone;
}

const CALLS = ['at', 'search', 'fetch', 'identity', 'tags'] as const;
/** What happens to honest providers too. */
const mishap = ({ random }: Story): Partial<Faults> =>
  [{ down: true }, { lag: random(6) }, { lateIndex: random(20) }, { span: 1 + random(12) }, { fails: [CALLS[random(CALLS.length)]!] }][
    random(5)
  ]!;

/** What a liar does to a payment that nobody paid. */
function forgery({ shop: { world }, random, payments }: Story): Partial<Faults> {
  const { address } = payments[random(payments.length)]!;
  const forged = newTx({ to: address, units: DUE });
  return [
    { fork: world.branch(1 + random(10), forged) },
    { adds: () => [forged], ownFields: true },
    { renames: true },
    { renames: true, ownFields: true },
  ][random(4)]!;
}
const lie = ({ shop: { world }, random }: Story): Partial<Faults> =>
  [
    { omits: () => true },
    { omits: (height: number) => height % 2 === 0 },
    { invents: Array.from({ length: 10 }, (_, i) => world.blocks.length - 5 + i) },
    { forgesReceipts: true },
    { ownFields: true },
    { future: true },
    { safe: 1e9, finalized: 1e9 },
  ][random(7)]!;

/** One thing happens. */
async function happen(story: Story): Promise<void> {
  const { shop, random, honest, bad } = story;
  const { world } = shop;
  const good = honest[random(honest.length)]!;
  const what = random(26);
  if (what < 9) {
    const count = random(4);
    for (let i = 0; i < count; i++) world.mine(randomTx(story));
    if (story.waiting.length > 0 && random(2) === 0) world.mine(...story.waiting.splice(0));
    world.mineEmpty(random(6));
  } else if (what < 11) story.left = reorganize(story);
  else if (what < 12) story.left = goBack(story);
  else if (what < 14) Object.assign(good.faults, mishap(story));
  else if (what < 16) Object.assign(bad.faults, mishap(story));
  else if (what < 18) Object.assign(bad.faults, lie(story));
  else if (what < 20) Object.assign(bad.faults, forgery(story));
  else if (what < 21) {
    // The liar is alone for a while.
    for (const one of honest) Object.assign(one.faults, { down: true });
    bad.heal();
    Object.assign(bad.faults, forgery(story));
    world.mineEmpty(random(6));
  } else if (what < 23) good.heal();
  else if (what < 24) bad.heal();
  else if (what < 25) shop.restart();
  else addPayment(story, await shop.create());
}

/** Payments that have completed now without being paid and confirmed on the honest chain. */
async function check(story: Story): Promise<void> {
  const { shop, payments, completed, falsely } = story;
  const rows = await shop.app.app.ctx.db.sql<{ id: string }[]>`
    select id from payments where status = 'completed' and id = any(${payments.map(({ id }) => id)}::text[])`;
  const fresh = rows.flatMap(({ id }) => (completed.has(id) ? [] : [id]));
  if (fresh.length === 0) return;
  const paid = paidThrough(story, shop.world.blocks.length - CONFIRMATIONS);
  for (const id of fresh) {
    completed.add(id);
    if (!paid.has(id)) falsely.push(id);
  }
}

/** Every transfer to these payments: on the honest chain, and as recorded. Returns how many there are. */
async function compare(story: Story): Promise<number> {
  const { shop, byKey } = story;
  const real = [...transfersOf(story)].map(({ id, txid, hash, coin, units }) => `${id} ${txid} ${hash} ${coin} ${units}`).sort();
  const rows = await shop.app.app.ctx.db.sql<{ text: string }[]>`
    select payment_id || ' ' || txid || ' ' || block_hash || ' ' || coin || ' ' || units as text from transfers
    where payment_id = any(${[...byKey.values()]}::text[]) and block_height is not null`;
  const recorded = rows.map(({ text }) => text);
  const [known, wanted] = [new Set(recorded), new Set(real)];
  const missed = real.filter((text) => !known.has(text));
  const invented = recorded.filter((text) => !wanted.has(text));
  assert.deepEqual({ missed, invented, count: recorded.length }, { missed: [], invented: [], count: real.length });
  return real.length;
}

/** `histories`: payments that ended with at least one transfer on the chain. */
export type Told = { histories: number; completed: number; transfers: number };

/** Tells so many payments of one chain, with 0 false and 0 missed. */
export async function tellHistories(
  shop: RangeShop,
  { seed, payments: count, events }: { seed: number; payments: number; events: number },
): Promise<Told> {
  const random = randomOf(seed);
  const liars = shop.providers.filter(({ trust }) => trust !== 'own');
  const bad = liars[random(liars.length)]!;
  const honest = shop.providers.filter((one) => one !== bad);
  const story: Story = {
    shop,
    random,
    honest,
    bad,
    payments: [],
    byKey: new Map(),
    waiting: [],
    left: [],
    completed: new Set(),
    falsely: [],
  };
  for (const payment of await shop.createMany(count)) addPayment(story, payment);
  await shop.poll();
  for (let i = 0; i < events; i++) {
    await happen(story);
    if (random(3) > 0) continue;
    await shop.poll();
    await check(story);
  }
  for (const provider of shop.providers) provider.heal();
  // Deep reorganizations hold completion until there are enough blocks above them.
  for (let i = 0; i < 6; i++) {
    shop.world.mineEmpty(80);
    await shop.poll();
  }
  shop.world.mineEmpty(2);
  await shop.poll(2);
  await check(story);
  assert.deepEqual(story.falsely, [], `seed ${seed}: completed without money`);
  const transfers = await compare(story);
  for (const id of paidThrough(story)) {
    if (story.completed.has(id)) continue;
    const { status, hold_reason, exceptions } = await shop.detail(id);
    assert.fail(`seed ${seed}: paid, but ${status} (${hold_reason}, ${exceptions})`);
  }
  const histories = new Set([...transfersOf(story)].map(({ id }) => id)).size;
  return { histories, completed: story.completed.size, transfers };
}
