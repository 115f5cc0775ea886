/** Which deposits signing files of Bitcoin-like coins spend, and why others stay. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hexToBytes } from '@noble/hashes/utils.js';
import type { PsbtRequest } from '../../src/core/signing-file.ts';
import { DEFAULT_WISH } from '../../src/signing/holdings.ts';
import { makePsbts } from '../../src/signing/make-utxo.ts';
import { chooseLots } from '../../src/signing/out-payments.ts';
import { buildRequests, outputLots, planSpendable } from '../../src/signing/refund-files.ts';
import { type Deposit, depositsOf } from '../kit/holdings.ts';
import { sweepFile } from '../kit/signing.ts';

/** Transactions of DASH with an extra payload (DIP-2): types 5, 8 and 9 (DIP-4, DIP-27). */
const SPECIAL: readonly [what: string, deposit: Deposit][] = [
  ['a coinbase', { units: [300_000_000n], version: 0x00050003, payload: '03'.repeat(70) }],
  ['the change of an asset lock', { units: [200_000_000n], version: 0x00080003, payload: '01'.repeat(40) }],
  ['a withdrawal from Platform', { units: [400_000_000n], version: 0x00090003, inputs: 0, payload: '02'.repeat(190) }],
];
const { destination } = sweepFile('DASH', 'p2pkh', 1);

test('special transactions of DASH stay as unreadable and do not stop a sweep of the rest', async () => {
  const { chain, wallet, holdings } = depositsOf('DASH', 'p2pkh', [{ units: [100_000_000n] }, ...SPECIAL.map(([, deposit]) => deposit)]);
  const work = { wallet, destination, wish: DEFAULT_WISH, rateE8: 100_000_000n, reference: 'swp_0' };
  const { requests, inputs, stay } = await makePsbts(chain, { ...work, holdings });
  assert.deepEqual([requests.length, inputs.map(({ holding }) => holding)], [1, [holdings[0]]]);
  for (const [i, [what]] of SPECIAL.entries()) assert.equal(stay.get(holdings[i + 1]!), 'unreadable', what);
  assert.deepEqual((await makePsbts(chain, { ...work, holdings: holdings.slice(1) })).requests, []);
});

test('refunds and payouts in DASH are paid without special transactions, which are larger', async () => {
  const { chain, wallet, holdings } = depositsOf('DASH', 'p2pkh', [...SPECIAL.map(([, deposit]) => deposit), { units: [100_000_000n] }]);
  const script = hexToBytes(`76a914${'ab'.repeat(20)}88ac`);
  const planned = await planSpendable(chain, { lots: outputLots(holdings), wallet }, (lots) => {
    const options = { units: 50_000_000n, scripts: [script], anchors: [], own: [], wallet, rateE8: 100_000_000n } as const;
    const found = chooseLots({ ...options, others: lots, mostBlocks: 10 });
    return { chosen: typeof found === 'string' ? new Map() : new Map([['it', found]]) };
  });
  const lots = planned.chosen.get('it')!.lots;
  assert.deepEqual(
    lots.map(({ holding }: any) => holding),
    [holdings[3]],
  );
  const line = { purpose: 'payout', to: destination, units: 50_000_000n, reference: 'po_0' } as const;
  const work = { wallet, destination, rateE8: 100_000_000n, id: 'swp_0', previous: planned.previous };
  const [request] = buildRequests(chain, [{ lots, lines: [line] }], work).requests as [PsbtRequest];
  assert.deepEqual([request.inputs, request.lines[0]], [1, line]);
});

test('the share of the fee counts for a whole transfer, so one small output more does not freeze it', async () => {
  const rows: [what: string, outputs: bigint[], stays: string | undefined][] = [
    ['one output', [100_000n], undefined],
    ['a small one beside it', [100_000n, 600n], undefined],
    ['so many small ones that their fees are more than ten percent', [100_000n, ...Array.from({ length: 200 }, () => 100n)], 'fee'],
    ['small ones alone', [600n, 600n], 'fee'],
    ['less than the fee', [60n, 60n], 'dust'],
    ['many that are worth less than their fees, and one that is worth little', [3_000n, ...Array.from({ length: 60 }, () => 10n)], 'dust'],
  ];
  for (const [what, units, stays] of rows) {
    const { chain, wallet, holdings } = depositsOf('BTC', 'p2wpkh', [{ units: [1_000_000n] }, { units }]);
    const { destination: to } = sweepFile('BTC', 'p2wpkh', 1);
    const work = { wallet, destination: to, wish: DEFAULT_WISH, rateE8: 100_000_000n, reference: 'swp_0' };
    const { stay, inputs } = await makePsbts(chain, { ...work, holdings });
    assert.equal(stay.get(holdings[1]!), stays, what);
    assert.equal(inputs.length, 1 + (stays === undefined ? units.length : 0), what);
  }
});

test('refunds and payouts stay within the bytes of a file and the blocks that peers bring, and the rest is left for later', async () => {
  const script = hexToBytes(`0014${'ab'.repeat(20)}`);
  const planOf = async (deposits: readonly Deposit[], groups: readonly (readonly number[])[]) => {
    const { chain, wallet, holdings } = depositsOf('BTC', 'p2wpkh', deposits);
    const all = outputLots(holdings);
    const { chosen, full } = await planSpendable<number, any>(chain, { lots: all, wallet }, () => ({
      chosen: new Map(groups.map((lots, i) => [i, { lots: lots.map((at) => all[at]!), anchor: '' }])),
    }));
    return [[...chosen.keys()], [...full]];
  };
  const large = (count: number): Deposit[] => Array.from({ length: count }, () => ({ units: [1_000_000n], filler: 3_900_000 }));
  assert.deepEqual(await planOf([...large(6), { units: [1_000_000n] }], [[0, 1], [2, 3], [4, 5], [6]]), [[0, 1, 2, 3], []]);
  assert.deepEqual(await planOf([...large(8), { units: [1_000_000n] }], [[0, 1], [2, 3, 4], [5, 6], [8]]), [[0, 1, 3], [[2, 'later']]]);
  assert.deepEqual(await planOf(large(8), [[0, 1, 2, 3, 4, 5, 6], [7]]), [[1], [[0, 'many']]]);

  const { wallet, holdings } = depositsOf(
    'BTC',
    'p2wpkh',
    [0, 1, 2].map((i) => ({ units: [100_000n], block: `b${i}` })),
  );
  const choose = (mostBlocks: number) =>
    chooseLots({
      ...{ units: 250_000n, scripts: [script], anchors: [], own: [], others: outputLots(holdings) },
      ...{ wallet, rateE8: 100_000_000n, mostBlocks },
    });
  assert.equal(choose(2), 'many');
  assert.equal((choose(3) as { lots: readonly unknown[] }).lots.length, 3);
});
