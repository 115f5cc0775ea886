/** The WooCommerce plugin under everything at once, and a shop beside its copy, for longer. */
import { test } from 'node:test';
import { copyShops } from '../kit/shop-copies.ts';
import { interleave } from '../kit/shop-interleavings.ts';
import { noPhp } from '../kit/wordpress.ts';

test(
  'whatever meets whatever, for longer: an order is completed once at its price, and no money is lost from sight',
  { skip: noPhp() },
  (t) => interleave(t, { runs: 10_000, steps: 3 }),
);

test(
  'a shop and its copy, for longer: no order is completed without its own money, and none of it is lost from sight',
  {
    skip: noPhp(),
  },
  (t) => copyShops(t, { runs: 2_000, steps: 8 }),
);
