/**
 * The WooCommerce plugin under everything at once, and a shop beside its copy, for longer. Each part has a service and shops of its own, so
 * that the last one is as fast as the first, and what ended stays reported when the others do not. `SEED` is the first schedule of all,
 * `SCHEDULES` how many follow, every other part with an object cache; a fifth as many are of a shop and its copy.
 */
import { test } from 'node:test';
import { copyShops } from '../kit/shop-copies.ts';
import { interleave } from '../kit/shop-interleavings.ts';
import { noPhp } from '../kit/wordpress.ts';

const first = Number(process.env.SEED ?? 1);
const most = Number(process.env.SCHEDULES ?? 10_000);
const partsOf = (all: number, part: number) =>
  Array.from({ length: Math.ceil(all / part) }, (_, i) => ({ from: first + i * part, runs: Math.min(part, all - i * part) }));

for (const { from, runs } of partsOf(most, 500))
  test(`schedules ${from} and later: an order is completed once at its price, and no money is lost from sight`, { skip: noPhp() }, (t) =>
    interleave(t, { from, runs, steps: 3, cached: (from - first) % 1_000 >= 500 }),
  );

for (const { from, runs } of partsOf(most / 5, 100))
  test(
    `a shop and its copy, schedules ${from} and later: no order is completed without its own money, and none of it is lost from sight`,
    { skip: noPhp() },
    (t) => copyShops(t, { from, runs, steps: 8 }),
  );
