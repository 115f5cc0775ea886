/** Confirmations and holds in work. The chains here are lists of times and work; the header chain's own test mines such branches. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { confirmationsAt, findWorkHolds, type WorkView, workPerBlock } from './chain-work.ts';

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
const holds = (blocks: readonly Block[], nowSeconds = NOW) => findWorkHolds(viewOf(blocks), { spacingSeconds: SPACING, nowSeconds });

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
  const mean = 1_000n;
  const tip = view.tipHeight();
  assert.deepEqual(confirmationsAt(view, tip, mean), { blocks: 1, proven: 0 });
  assert.deepEqual(confirmationsAt(view, tip - 1, mean), { blocks: 2, proven: 1 });
  assert.deepEqual(confirmationsAt(view, tip - 2, mean), { blocks: 3, proven: 2 });
  assert.deepEqual(confirmationsAt(view, tip + 1, mean), { blocks: 0, proven: 0 });
  assert.deepEqual(confirmationsAt(view, 100, mean).proven, 0, 'below the first proven block');
  // More work than usual does not make one block count as two.
  const strong = viewOf([...inTime(2, 1_000n), { time: NOW, work: 5_000n }]);
  assert.deepEqual(confirmationsAt(strong, strong.tipHeight(), 1_000n), { blocks: 1, proven: 1 });
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
