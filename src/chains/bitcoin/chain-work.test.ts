/** Confirmations and holds in work. The chains here are lists of times and work; the header chain's own test mines such branches. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { headersOf } from '../../../test/kit/headers.ts';
import { confirmationsAt, findWorkHolds, type WorkView, workPerBlock, workPerConfirmation } from './chain-work.ts';
import { bitsOf, nextBits, targetOfBits, workOf } from './header-rules.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

const SPACING = 60;
const DAY = 86_400;
const NOW = 1_700_000_000;
type Block = { time: number; work: bigint };

/** A chain above a checkpoint at height 100, which is the first of the blocks. */
function viewOf(blocks: readonly Block[]): WorkView {
  const totals = [0n];
  for (const { work } of blocks.slice(1)) totals.push(totals.at(-1)! + work);
  return {
    checkpointHeight: 100,
    tipHeight: () => 100 + blocks.length - 1,
    workAt: (height) => totals[height - 100]!,
    timeAt: (height) => blocks[height - 100]!.time,
    blockWork: (height) => blocks[height - 100]!.work,
  };
}
/** Blocks in time, ending `until`. */
const inTime = (days: number, work: bigint, until = NOW): Block[] =>
  Array.from({ length: (days * DAY) / SPACING + 1 }, (_, i) => ({ time: until - days * DAY + i * SPACING, work }));
const holds = (blocks: readonly Block[], nowSeconds = NOW) => findWorkHolds(viewOf(blocks), { ...PROOF_PARAMS.DOGE.main, nowSeconds });

test('a healthy chain holds nothing, at the checkpoint, a day after it and a year after it', () => {
  assert.deepEqual(holds([{ time: NOW, work: 1_000n }]), []);
  assert.deepEqual(holds([{ time: NOW - 600, work: 1_000n }]), [], 'no block for ten minutes');
  for (const days of [1, 2, 30, 365]) assert.deepEqual(holds(inTime(days, 1_000n)), [], `${days} days`);
});

test('a chain whose difficulty fell to less than a quarter within a day is held', () => {
  const chain = inTime(3, 1_000n);
  assert.deepEqual(holds([...chain, { time: NOW, work: 250n }]), []);
  assert.deepEqual(holds([...chain, { time: NOW, work: 249n }]), ['difficulty']);
});

test('a forged chain that is easy since the checkpoint is held, although no block is easier than those of its day', () => {
  const forged = [{ time: NOW - 30 * DAY, work: 1_000n }, ...inTime(30, 1n).slice(1)];
  assert.deepEqual(holds(forged), ['total']);
});

test('a forged end of a chain is held by the last day, although half of the time had all of its work', () => {
  // Offline for 30 days: someone continues the chain at the lowest difficulty, with blocks in time.
  const honest = inTime(30, 1_000n, NOW - 30 * DAY);
  const forged = inTime(30, 1n).slice(1);
  assert.deepEqual(holds([...honest, ...forged]), ['recent']);
});

test('a chain that is behind is held until its blocks are read', () => {
  assert.deepEqual(holds(inTime(30, 1_000n, NOW - 2 * DAY)), ['recent']);
  assert.deepEqual(holds(inTime(30, 1_000n, NOW - 120 * DAY)), ['total', 'recent']);
});

test('confirmations are blocks, or fewer when these have less work than those of the last day', () => {
  const view = viewOf([...inTime(2, 1_000n), { time: NOW, work: 500n }, { time: NOW, work: 500n }]);
  const mean = () => 1_000n;
  const tip = view.tipHeight();
  assert.deepEqual(confirmationsAt(view, tip, mean), { blocks: 1, proven: 0 });
  assert.deepEqual(confirmationsAt(view, tip - 1, mean), { blocks: 2, proven: 1 });
  assert.deepEqual(confirmationsAt(view, tip - 2, mean), { blocks: 3, proven: 2 });
  assert.deepEqual(confirmationsAt(view, tip + 1, mean), { blocks: 0, proven: 0 });
  assert.deepEqual(confirmationsAt(view, 100, mean).proven, 0, 'below the first proven block');
  // More work than usual does not make one block count as two.
  const strong = viewOf([...inTime(2, 1_000n), { time: NOW, work: 5_000n }]);
  assert.deepEqual(confirmationsAt(strong, strong.tipHeight(), mean), { blocks: 1, proven: 1 });
});

test("the mean of a day is over a day's number of blocks, whatever times they claim", () => {
  const view = viewOf([...inTime(2, 1_000n), { time: NOW + 40 * DAY, work: 1n }]);
  const mean = workPerBlock(view, SPACING);
  assert.equal(mean, (1_439n * 1_000n + 1n) / 1_440n);
  assert.equal(workPerBlock(viewOf([{ time: NOW, work: 7n }]), SPACING), 7n);
  assert.equal(
    workPerBlock(
      viewOf([
        { time: NOW, work: 7n },
        { time: NOW, work: 9n },
      ]),
      SPACING,
    ),
    9n,
  );
});

const { BTC, LTC, DOGE, DASH } = PROOF_PARAMS;
/** A chain of these bits, in time. */
const viewOfBits = ({ powLimit, spacingSeconds }: ProofParams, bits: readonly number[]): WorkView =>
  viewOf(bits.map((one, i) => ({ time: NOW - (bits.length - 1 - i) * spacingSeconds, work: workOf(one, powLimit) })));
/** How many confirmations the last `blocks` blocks are worth. */
const provenOf = (view: WorkView, params: ProofParams, blocks: number): number =>
  confirmationsAt(view, view.tipHeight() - blocks + 1, workPerConfirmation(view, params, NOW)).proven;
const scaledBits = (bits: number, powLimit: bigint, share: number): number =>
  bitsOf((targetOfBits(bits, powLimit) * 1_000n) / BigInt(Math.round(share * 1_000)));

/** After the largest fall of the difficulty so far, and after the largest that the rules allow. */
for (const { coin, params, bits, falls } of [
  { coin: 'BTC', params: BTC.main, bits: 0x170240c3, falls: [0.95, 0.72, 0.26] },
  { coin: 'LTC', params: LTC.main, bits: 0x19332b97, falls: [0.95, 0.6, 0.26] },
])
  test(`${coin}: after a retarget each block is one confirmation at once, and all along the next day`, () => {
    const day = DAY / params.spacingSeconds;
    for (const share of [...falls, 1.05, 3.9])
      for (const after of [1, 2, 6, 24, day - 1, day + 1]) {
        const easier = scaledBits(bits, params.powLimit, share);
        const view = viewOfBits(params, [...new Array<number>(2 * day).fill(bits), ...new Array<number>(after).fill(easier)]);
        for (const blocks of [1, 2, Math.min(after, 6), after])
          assert.equal(provenOf(view, params, blocks), blocks, `${share} after ${after} blocks, ${blocks}`);
        // Across the retarget: the harder blocks before it count once each.
        if (share < 1) assert.equal(provenOf(view, params, after + 10), after + 10);
      }
  });

/** Recorded headers above the confirmations of a payment. */
const ABOVE = 12;
/** How many more blocks than confirmations a payment in recorded headers waits for, because its blocks are easier than the mean of the day. */
for (const { coin, params, file, first, most } of [
  { coin: 'DOGE', params: DOGE.main, file: 'doge-main-5610330.hex', first: 500, most: { 1: 1, 6: 4, 20: 7, 40: 5, 60: 6 } },
  { coin: 'DOGE', params: DOGE.main, file: 'doge-main-5620352.hex', first: 500, most: { 1: 1, 6: 4, 20: 9, 40: 10, 60: 8 } },
  { coin: 'DASH', params: DASH.main, file: 'dash-main-999900.hex', first: 576, most: { 1: 1, 6: 3, 24: 7 } },
])
  test(`${coin}: in recorded headers of ${file.slice(10, -4)}, whose difficulty changes with each, a payment waits for a few more blocks at most`, () => {
    const bits = headersOf(file).map((header) => header.readUInt32LE(72));
    const whole = viewOfBits(params, bits);
    const upTo = (tip: number): WorkView => ({ ...whole, tipHeight: () => whole.checkpointHeight + tip });
    for (const [wanted, limit] of Object.entries(most)) {
      const more: number[] = [];
      for (let at = first; at + Number(wanted) + ABOVE < bits.length; at++) {
        let blocks = Number(wanted);
        while (provenOf(upTo(at + blocks - 1), params, blocks) < Number(wanted)) blocks++;
        more.push(blocks - Number(wanted));
      }
      assert.ok(Math.max(...more) <= limit, `${wanted} confirmations took ${Math.max(...more)} blocks more`);
      const mean = more.reduce((sum, one) => sum + one, 0) / more.length;
      assert.ok(mean < 1.5, `${wanted} confirmations took ${mean} blocks more on average`);
    }
  });

test('a forger of blocks with any work needs the mean for each confirmation, a quarter of it where the rules keep the difficulty up', () => {
  const works = fc.array(fc.bigInt(1n, 3_000n), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(works, fc.constantFrom(BTC.main, LTC.main, DOGE.main, DASH.main), (forged, params) => {
      const honest = inTime(1, 1_000n).slice(0, DAY / params.spacingSeconds + 1);
      const view = viewOf([...honest, ...forged.map((work) => ({ time: NOW, work }))]);
      const { blocks, proven } = confirmationsAt(view, view.tipHeight() - forged.length + 1, workPerConfirmation(view, params, NOW));
      const mean = workPerBlock(view, params.spacingSeconds);
      const total = forged.reduce((sum, work) => sum + work, 0n);
      const share = params.retarget.kind === 'period' ? 4n : 1n;
      assert.ok(proven <= blocks);
      // The division rounds down by less than one for each confirmation.
      assert.ok((total + BigInt(proven)) * share >= BigInt(proven) * mean, `${proven} for ${total}, mean ${mean}`);
    }),
    { numRuns: 300 },
  );
});

test('DOGE: blocks that claim to be slow until the difficulty is lowest are worth the confirmations of their work, not of their number', () => {
  const { powLimit, spacingSeconds } = DOGE.main;
  const start = 0x19688e56;
  const before = (2 * DAY) / spacingSeconds;
  const chain = Array.from({ length: before }, (_, i) => ({ timeSeconds: NOW - (before - i) * spacingSeconds, bits: start }));
  for (let i = 0; i < 65; i++) {
    const timeSeconds = chain.at(-1)!.timeSeconds + 300;
    chain.push({ timeSeconds, bits: nextBits(DOGE.main, 5_000_000 + chain.length, timeSeconds, (height) => chain[height - 5_000_000]!) });
  }
  const view = viewOfBits(
    DOGE.main,
    chain.map(({ bits }) => bits),
  );
  const forged = chain.slice(before).reduce((sum, { bits }) => sum + workOf(bits, powLimit), 0n);
  assert.ok(forged < 4n * workOf(start, powLimit), 'they cost less than four honest blocks');
  assert.ok(provenOf(view, DOGE.main, 65) <= 4);
});
