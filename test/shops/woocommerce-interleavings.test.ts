/** The WooCommerce plugin under everything at once: webhooks, the customer, checks, the administration, the stock job, in several PHP processes. */
import { test } from 'node:test';
import { isLongRun } from '../kit/long.ts';
import { copyShops } from '../kit/shop-copies.ts';
import { interleave } from '../kit/shop-interleavings.ts';
import { noPhp } from '../kit/wordpress.ts';

for (const [cached, from] of [
  [false, 1],
  [true, 251],
] as const)
  test(
    `whatever meets whatever${cached ? ', with an object cache' : ''}: an order is completed once at its price, and no money is lost from sight`,
    { skip: noPhp() },
    (t) => interleave(t, { from, runs: isLongRun ? 250 : 30, steps: 2, cached }),
  );

test(
  'a shop and its copy: no order is completed without its own money, none of it is lost from sight, and neither acts for the other',
  {
    skip: noPhp(),
  },
  (t) => copyShops(t, { from: 1, runs: isLongRun ? 30 : 4, steps: 8 }),
);
