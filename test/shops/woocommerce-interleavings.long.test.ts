/**
 * The WooCommerce plugin under everything at once, and a shop beside its copy, for longer. Each part has a service and shops of its own, so
 * that the last one is as fast as the first, and what ended stays reported when the others do not. `SEED` is the first schedule of all.
 */
import { test } from 'node:test';
import { copyShops } from '../kit/shop-copies.ts';
import { interleave } from '../kit/shop-interleavings.ts';
import { noPhp } from '../kit/wordpress.ts';

const first = Number(process.env.SEED ?? 1);
const partsOf = (runs: number, part: number) => Array.from({ length: runs / part }, (_, i) => first + i * part);

for (const from of partsOf(10_000, 500))
  test(`schedules ${from} and later: an order is completed once at its price, and no money is lost from sight`, { skip: noPhp() }, (t) =>
    interleave(t, { from, runs: 500, steps: 3 }),
  );

for (const from of partsOf(2_000, 100))
  test(
    `a shop and its copy, schedules ${from} and later: no order is completed without its own money, and none of it is lost from sight`,
    { skip: noPhp() },
    (t) => copyShops(t, { from, runs: 100, steps: 8 }),
  );
