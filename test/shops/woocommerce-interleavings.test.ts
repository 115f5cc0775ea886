/** The WooCommerce plugin under everything at once: webhooks, the customer, checks, the administration, the stock job, in several PHP processes. */
import { test } from 'node:test';
import { copyShops } from '../kit/shop-copies.ts';
import { interleave } from '../kit/shop-interleavings.ts';
import { noPhp } from '../kit/wordpress.ts';

test('whatever meets whatever, an order is completed once at its price, and no money is lost from sight', { skip: noPhp() }, (t) =>
  interleave(t, { from: 1, runs: 100, steps: 2 }),
);

test(
  'a shop and its copy: no order is completed without its own money, none of it is lost from sight, and neither acts for the other',
  {
    skip: noPhp(),
  },
  (t) => copyShops(t, { from: 1, runs: 30, steps: 8 }),
);
