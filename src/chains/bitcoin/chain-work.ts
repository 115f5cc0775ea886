/**
 * What a header chain proves, in work. Dogecoin and Dash adjust the difficulty with every block, so a forger who claims slow blocks gets
 * to the lowest difficulty with the work of a few real ones. The number of blocks does not show this; the work does.
 */
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
/** Nothing completes on a chain with less than a quarter of the work that it should have. */
const SHARE = 4n;
/** Blocks that chance may keep from coming. */
const SLACK_BLOCKS = 12;

/** The mean work of the blocks of about a day: as many as a day should have, whatever times they claim. */
export function workPerBlock(view: WorkView, spacingSeconds: number): bigint {
  const tip = view.tipHeight();
  const from = Math.max(tip - Math.round(DAY_SECONDS / spacingSeconds), view.checkpointHeight);
  return from === tip ? view.blockWork(tip) : (view.workAt(tip) - view.workAt(from)) / BigInt(tip - from);
}

/**
 * The work that counts as one confirmation. With the mean of the last day, honest blocks that are easier than it would be worth less than
 * one confirmation each, for a day after each retarget to a lower difficulty. How much less than the mean is safe depends on how cheaply a
 * forger can lower the difficulty that the rules require.
 *
 * BTC and LTC change it every 2,016 blocks, by the time that these took. A forger has to mine up to that block at full difficulty, and can
 * claim two hours more than have passed: under 3% of a period on BTC, under 10% on LTC. To lower it further, real time must pass without
 * honest blocks, and then the guard and `recent` hold the chain. So the difficulty of the tip is believed, down to the quarter at which
 * `difficulty` holds the chain.
 *
 * DOGE and DASH change it with every block: a few blocks that claim to be slow lower it to any value, so the tip proves nothing, and the
 * mean of the day counts. Honest blocks vary by a quarter around it for hours, so about half of all payments wait for more blocks than
 * their confirmations. In recorded headers this is one more block on average, and at most ten.
 */
export function workPerConfirmation(view: WorkView, { spacingSeconds, retarget }: { spacingSeconds: number; retarget: Retarget }): bigint {
  const mean = workPerBlock(view, spacingSeconds);
  if (retarget.kind !== 'period') return mean;
  const required = view.blockWork(view.tipHeight());
  if (required >= mean) return mean;
  return required > mean / SHARE ? required : mean / SHARE;
}

/** A block's confirmations: blocks from it to the tip, and how many of them their work is worth. The lower number counts. */
export function confirmationsAt(view: WorkView, height: number, workOfOne: bigint): { blocks: number; proven: number } {
  const tip = view.tipHeight();
  if (height > tip || height <= view.checkpointHeight) return { blocks: Math.max(tip - height + 1, 0), proven: 0 };
  const blocks = tip - height + 1;
  const work = view.workAt(tip) - view.workAt(height - 1);
  return { blocks, proven: Math.min(blocks, Number(work / workOfOne)) };
}

/** `difficulty`: the tip is far easier than the last day. `total`, `recent`: far less work than time should have brought, in all or in a day. */
export type WorkHold = 'difficulty' | 'total' | 'recent';

/** Why nothing may complete on this chain now. */
export function findWorkHolds(view: WorkView, { spacingSeconds, nowSeconds }: { spacingSeconds: number; nowSeconds: number }): WorkHold[] {
  const tip = view.tipHeight();
  const holds: WorkHold[] = [];
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
