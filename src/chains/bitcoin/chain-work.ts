/**
 * What a header chain proves, in work. Dogecoin and Dash adjust the difficulty with every block, so a forger who claims slow blocks gets
 * to the lowest difficulty with the work of a few real ones. The number of blocks does not show this; the work does.
 */
import { MEDIAN_BLOCKS, medianOf } from './header-rules.ts';
import type { Retarget } from './proof-params.ts';

/** The best chain of headers. */
export type WorkView = {
  tipHeight(): number;
  checkpointHeight: number;
  /** Work above the checkpoint up to and with this block. */
  workAt(height: number): bigint;
  timeAt(height: number): number;
  /** The work of this block alone. */
  blockWork(height: number): bigint;
};

const DAY_SECONDS = 86_400;
const WEEK_SECONDS = 7 * DAY_SECONDS;
/** Nothing completes on a chain with less than a quarter of the work that it should have. */
const SHARE = 4n;
/** What was usual is computed for one block of this many, and counts for the others up to the next. */
const MARK_EVERY = 12;
/** Blocks that chance may keep from coming. */
const SLACK_BLOCKS = 12;

/** The mean work of the blocks of about a day up to one: as many as a day should have, whatever times they claim. */
export function workPerBlock(view: WorkView, spacingSeconds: number, at: number = view.tipHeight()): bigint {
  const from = Math.max(at - Math.round(DAY_SECONDS / spacingSeconds), view.checkpointHeight);
  return from === at ? view.blockWork(at) : (view.workAt(at) - view.workAt(from)) / BigInt(at - from);
}

/** The middle time of the newest blocks up to one. No rule lets it fall from block to block, so it orders them, whatever they claim. */
function middleTime(view: WorkView, height: number): number {
  const from = Math.max(height - MEDIAN_BLOCKS + 1, view.checkpointHeight);
  return medianOf(Array.from({ length: height - from + 1 }, (_, i) => view.timeAt(from + i)));
}

/** The work of the blocks up to one that came after a time, as far as the checkpoint. */
function workSince(view: WorkView, { at, sinceSeconds }: { at: number; sinceSeconds: number }): bigint {
  let low = view.checkpointHeight;
  for (let high = at; low < high; ) {
    const middle = Math.ceil((low + high) / 2);
    if (middleTime(view, middle) > sinceSeconds) high = middle - 1;
    else low = middle;
  }
  return view.workAt(at) - view.workAt(low);
}

type Rules = { spacingSeconds: number; retarget: Retarget };

/**
 * The work of a usual block, as the chain up to one block tells it. The largest of several means, because a forger lowers each of them in
 * another way: cheap blocks that claim no time lower the mean by their number, and time without honest blocks lowers those by the clock.
 */
function usualWork(view: WorkView, { spacingSeconds }: Pick<Rules, 'spacingSeconds'>, { at, nowSeconds }: Moment): bigint {
  const spacing = BigInt(spacingSeconds);
  const clock = Math.min(nowSeconds, middleTime(view, at));
  const lately = (seconds: number): bigint => workSince(view, { at, sinceSeconds: clock - seconds }) * spacing;
  const atCheckpoint = view.blockWork(view.checkpointHeight);
  // The part of the week before the checkpoint had its rate.
  const before = BigInt(Math.max(view.timeAt(view.checkpointHeight) - (clock - WEEK_SECONDS), 0));
  const week = (lately(WEEK_SECONDS) + atCheckpoint * before) / BigInt(WEEK_SECONDS);
  const means = [
    workPerBlock(view, spacingSeconds, at),
    lately(DAY_SECONDS) / BigInt(DAY_SECONDS),
    // In part, because the network may have lost some of its miners since then.
    (week * 3n) / 4n,
    atCheckpoint / SHARE,
  ];
  return means.reduce((most, one) => (one > most ? one : most));
}
type Moment = { at: number; nowSeconds: number };

/**
 * The work that counts as one confirmation of a block. With the mean of the last day, honest blocks that are easier than it would be worth
 * less than one confirmation each, for a day after each retarget to a lower difficulty. How much less than the mean is safe depends on how
 * cheaply a forger can lower the difficulty that the rules require.
 *
 * BTC and LTC change it every 2,016 blocks, by the time that these took. A forger has to mine up to that block at full difficulty, and can
 * claim two hours more than have passed: under 3% of a period on BTC, under 10% on LTC. To lower it further, real time must pass without
 * honest blocks, and then the guard and `recent` hold the chain. So the difficulty of the tip is believed, down to the quarter at which
 * `difficulty` holds the chain.
 *
 * DOGE and DASH change it with every block: a few blocks that claim to be slow lower it to any value, and on DOGE any number of blocks can
 * follow that claim no time, so neither the tip nor a mean that has only these blocks in it proves anything. What was usual when the block
 * came counts, and what is usual now if that is more. Honest blocks vary by a quarter around it for hours, so about half of all payments
 * wait for more blocks than their confirmations. In recorded headers this is one more block on average, and at most ten.
 */
export function workPerConfirmation(view: WorkView, rules: Rules, nowSeconds: number): (height: number) => bigint {
  const tip = view.tipHeight();
  const usualNow = usualWork(view, rules, { at: tip, nowSeconds });
  if (rules.retarget.kind === 'period') {
    const mean = workPerBlock(view, rules.spacingSeconds);
    const required = view.blockWork(tip);
    const least = usualNow / SHARE;
    const one = required >= mean ? mean : required > least ? required : least;
    return () => one;
  }
  const known = new Map<number, bigint>();
  return (height) => {
    const at = Math.max(height - 1 - ((height - 1) % MARK_EVERY), view.checkpointHeight);
    const usualThen = known.get(at) ?? usualWork(view, rules, { at, nowSeconds });
    known.set(at, usualThen);
    return usualThen > usualNow ? usualThen : usualNow;
  };
}

/** A block's confirmations: blocks from it to the tip, and how many of them their work is worth. The lower number counts. */
export function confirmationsAt(view: WorkView, height: number, workOfOne: (height: number) => bigint): { blocks: number; proven: number } {
  const tip = view.tipHeight();
  if (height > tip || height <= view.checkpointHeight) return { blocks: Math.max(tip - height + 1, 0), proven: 0 };
  const blocks = tip - height + 1;
  const work = view.workAt(tip) - view.workAt(height - 1);
  return { blocks, proven: Math.min(blocks, Number(work / workOfOne(height))) };
}

/**
 * The highest block for each number of confirmations in work, lowest number first. A block below it has them as well: where what is usual
 * fell, a lower block can need more work, and then a block counts only when those below it that were looked at have as many.
 */
export function provenHeights(view: WorkView, rules: Rules, { most, nowSeconds }: { most: number; nowSeconds: number }): number[] {
  const workOfOne = workPerConfirmation(view, rules, nowSeconds);
  const proven: number[] = [];
  const tip = view.tipHeight();
  for (let height = tip; height > view.checkpointHeight && (proven.at(-1) ?? 0) < most; height--)
    proven.push(confirmationsAt(view, height, workOfOne).proven);
  for (let i = proven.length - 2; i >= 0; i--) proven[i] = Math.min(proven[i]!, proven[i + 1]!);
  const heights: number[] = [];
  for (const [below, count] of proven.entries()) while (heights.length < Math.min(count, most)) heights.push(tip - below);
  return heights;
}

/**
 * `difficulty`: the tip is far easier than the last day. `total`, `recent`: far less work than time should have brought, in all or in a day.
 * `fast`: the blocks of about a day claim less than a quarter of it, which honest ones never do.
 */
export type WorkHold = 'difficulty' | 'total' | 'recent' | 'fast';

/** Why nothing may complete on this chain now. */
export function findWorkHolds(view: WorkView, { spacingSeconds, retarget, nowSeconds }: Rules & { nowSeconds: number }): WorkHold[] {
  const tip = view.tipHeight();
  const holds: WorkHold[] = [];
  const dayBefore = tip - Math.round(DAY_SECONDS / spacingSeconds);
  const claims = (): number => middleTime(view, tip) - middleTime(view, dayBefore);
  // Private networks mine as fast as they like.
  if (retarget.kind !== 'fixed' && dayBefore >= view.checkpointHeight + MEDIAN_BLOCKS && claims() * Number(SHARE) < DAY_SECONDS)
    holds.push('fast');
  if (view.blockWork(tip) * SHARE < workPerBlock(view, spacingSeconds)) holds.push('difficulty');
  const elapsed = nowSeconds - view.timeAt(view.checkpointHeight) - SLACK_BLOCKS * spacingSeconds;
  const total = view.workAt(tip);
  // The network had this much work for each second when the checkpoint was made.
  const expected = (view.blockWork(view.checkpointHeight) * BigInt(Math.max(elapsed, 0))) / BigInt(spacingSeconds);
  if (total * SHARE < expected) holds.push('total');
  if (elapsed > DAY_SECONDS) {
    let height = tip;
    while (height > view.checkpointHeight && view.timeAt(height) > nowSeconds - DAY_SECONDS) height--;
    const recent = total - view.workAt(height);
    const usual = (total * BigInt(DAY_SECONDS)) / BigInt(Math.max(nowSeconds - view.timeAt(view.checkpointHeight), DAY_SECONDS));
    if (recent * SHARE < usual) holds.push('recent');
  }
  return holds;
}
