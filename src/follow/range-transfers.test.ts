/** What counts as a transfer on a chain that is read by ranges. */
import { after, before, test } from 'node:test';
import { ENOUGH, pay, playCases, type Row } from '../../test/kit/hostile-cases.ts';
import { newTx, openRangeShop, type RangeShop } from '../../test/kit/range-world.ts';

let shop: RangeShop;
before(async () => {
  shop = await openRangeShop(['claimed', 'claimed']);
});
after(() => shop?.stop());

const NOBODY = `0x${'e'.repeat(40)}`;

const ROWS: readonly Row[] = [
  [
    'two transfers in one transaction',
    ({ mine, address }) => mine(newTx({ to: address, units: 10_000_000n }, { to: address, units: 15_500_000n })),
    '25.50',
    2,
  ],
  [
    'two equal transfers in one transaction',
    ({ mine, address }) => mine(newTx({ to: address, units: 12_750_000n }, { to: address, units: 12_750_000n })),
    '25.50',
    2,
  ],
  [
    'one transaction pays two payments',
    ({ mine, address, other }) => mine(newTx({ to: other, units: ENOUGH }, { to: address, units: ENOUGH })),
    '25.50',
    1,
  ],
  ['a failed transaction', ({ mine, address }) => mine(newTx({ to: address, units: ENOUGH, failed: true })), '0.00', 0],
  ['a token with the same name', ({ mine, address }) => mine(newTx({ to: address, units: ENOUGH, coin: null })), '0.00', 0],
  ['a transfer of nothing', ({ mine, address }) => mine(newTx({ to: address, units: 0n })), '0.00', 0],
  [
    'a transfer from another deposit address',
    ({ mine, address, other }) => mine(newTx({ to: address, from: other, units: ENOUGH })),
    '0.00',
    0,
  ],
  ['a transfer to itself', ({ mine, address }) => mine(newTx({ to: address, from: address, units: ENOUGH })), '0.00', 0],
  [
    'a transfer from a look-alike of the address',
    ({ mine, address }) => mine(newTx({ to: address, from: `${address.slice(0, 6)}${NOBODY.slice(6)}`, units: ENOUGH })),
    '25.50',
    1,
  ],
  ['another coin of the network', ({ mine, address }) => mine(newTx({ to: address, units: 30_000_000n, coin: 'EURC@base' })), '0.00', 1],
  [
    'a hundred transfers in one block',
    ({ mine, address }) => mine(...Array.from({ length: 100 }, () => pay(address, 255_000n))),
    '25.50',
    100,
  ],
];

test(`${ROWS.length} kinds of transfers`, (t) => playCases(t, shop, ROWS));
