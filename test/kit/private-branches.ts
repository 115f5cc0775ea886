/**
 * Private branches of a chain whose difficulty rules are played against it: the times of their blocks are chosen so that difficulty falls, or
 * many blocks follow that claim no time. The work of a branch is what its forger pays; hashes are not searched here.
 */
import type { WorkView } from '../../src/chains/bitcoin/chain-work.ts';
import { MAX_AHEAD_SECONDS, MEDIAN_BLOCKS, medianOf, nextBits, type Timed, workOf } from '../../src/chains/bitcoin/header-rules.ts';
import type { ProofParams } from '../../src/chains/bitcoin/proof-params.ts';

/**
 * How the time of a block is chosen: right after the median, so many seconds after the block before it, as far ahead as clocks allow, or so
 * that the difficulty stays where it is when it has fallen 2,000-fold.
 */
export type Step = 'median' | 'ahead' | 'steady' | number;
/** `count` blocks whose times repeat a pattern. */
export type Phase = { count: number; pattern: readonly Step[] };
/** `silenceSeconds`: how long the victim has seen no honest block when the branch is shown. `depth`: how far below the honest tip it begins. */
export type Branch = { silenceSeconds: number; depth: number; phases: readonly Phase[] };
/** Whole numbers below a bound. */
export type Chance = (below: number) => number;

const HISTORY_DAYS = 10;
/** Two periods of 2,016 blocks, and what the rule looks back. */
const LEAST_HISTORY = 4_100;
/** The bits of a recent block, and a height at which a period begins. */
const BEGIN = {
  BTC: { height: 943_488, bits: 0x17021a91 },
  LTC: { height: 3_080_447, bits: 0x192c9793 },
  DOGE: { height: 6_000_000, bits: 0x19688e56 },
  DASH: { height: 2_500_000, bits: 0x19359baf },
} as const;

/** `totals`: the work above the first block up to each. */
export type History = { params: ProofParams; first: number; heads: readonly Timed[]; totals: readonly bigint[] };

/** An honest chain: blocks in time, with the difficulty that the rules give them. */
export function honestHistory(params: ProofParams, nowSeconds: number): History {
  const { height: first, bits } = BEGIN[params.coin];
  const count = Math.max((HISTORY_DAYS * 86_400) / params.spacingSeconds, LEAST_HISTORY);
  const heads: Timed[] = [];
  for (let i = 0; i < count; i++) {
    const timeSeconds = nowSeconds - (count - 1 - i) * params.spacingSeconds;
    heads.push({ timeSeconds, bits: i < 30 ? bits : nextBits(params, first + i, timeSeconds, (height) => heads[height - first]!) });
  }
  const totals = [0n];
  for (const head of heads.slice(1)) totals.push(totals.at(-1)! + workOf(head.bits, params.powLimit));
  return { params, first, heads, totals };
}

/** By how much a forger lets difficulty fall, and how many times as hard as usual no block of theirs is. */
const FALL = 2_000n;
const MOST_HARD = 64n;

type Place = { median: number; last: number; most: number; isLow: boolean };
function timeOf(step: Step, { median, last, most, isLow }: Place): number {
  const steady = last + (isLow ? 1 : 30);
  const wanted = step === 'median' ? median + 1 : step === 'ahead' ? most : step === 'steady' ? steady : last + step;
  return Math.max(Math.min(wanted, most), median + 1);
}

/** A branch as its victim sees it. `forgedWork`: what it cost; `usual`: the work of a usual block before it. */
export function showBranch({ params, first, heads, totals: honest }: History, { silenceSeconds, depth, phases }: Branch) {
  const fork = heads.length - depth;
  const chain: Timed[] = heads.slice(0, fork);
  const totals = honest.slice(0, fork);
  const day = Math.round(86_400 / params.spacingSeconds);
  const usual = (totals[fork - 1]! - totals[fork - 1 - day]!) / BigInt(day);
  const nowSeconds = chain.at(-1)!.timeSeconds + silenceSeconds;
  const most = nowSeconds + MAX_AHEAD_SECONDS;
  for (const { count, pattern } of phases)
    for (let i = 0; i < count; i++) {
      const median = medianOf(chain.slice(-MEDIAN_BLOCKS).map((head) => head.timeSeconds));
      if (median >= most) break;
      const isLow = (totals.at(-1)! - totals.at(-2)!) * FALL <= usual;
      const timeSeconds = timeOf(pattern[i % pattern.length]!, { median, last: chain.at(-1)!.timeSeconds, most, isLow });
      const bits = nextBits(params, first + chain.length, timeSeconds, (height) => chain[height - first]!);
      if (bits >>> 24 < 8 || workOf(bits, params.powLimit) > MOST_HARD * usual) break;
      chain.push({ timeSeconds, bits });
      totals.push(totals.at(-1)! + workOf(bits, params.powLimit));
    }
  const view: WorkView = {
    checkpointHeight: first,
    tipHeight: () => first + chain.length - 1,
    workAt: (height) => totals[height - first]!,
    timeAt: (height) => chain[height - first]!.timeSeconds,
    blockWork: (height) => workOf(chain[height - first]!.bits, params.powLimit),
  };
  return {
    view,
    nowSeconds,
    /** The lowest block of the branch. */
    lowest: first + fork,
    forgedWork: totals.at(-1)! - totals[fork - 1]!,
    usual,
  };
}

const HOUR = 3_600;
/** Known games: down as fast as the rules allow, then many blocks that claim no time; slow blocks; the honest pace; as far ahead as possible. */
const GAMES: readonly (readonly Phase[])[] = [
  [
    { count: 20, pattern: [300] },
    { count: 1_500, pattern: ['median', 'steady', 300] },
  ],
  [
    { count: 6, pattern: ['ahead', 'median', 'median'] },
    { count: 60, pattern: ['median', 'median', 'ahead'] },
  ],
  [{ count: 40, pattern: ['ahead', 'median'] }],
  [{ count: 100, pattern: [450] }],
  [{ count: 30, pattern: ['median'] }],
];
const SILENCES = [0, 60, 600, HOUR, 6 * HOUR, 12 * HOUR, 17 * HOUR, 19 * HOUR, 24 * HOUR, 48 * HOUR, 200 * HOUR] as const;

const pick = <T>(chance: Chance, list: readonly T[]): T => list[chance(list.length)]!;
const anyStep = (chance: Chance): Step => pick<Step>(chance, ['median', 'ahead', 'steady', 1, chance(30), chance(600), chance(7_200)]);
const anyPhase = (chance: Chance): Phase => ({
  count: 1 + chance(pick(chance, [10, 60, 300, 1_600])),
  pattern: Array.from({ length: 1 + chance(5) }, () => anyStep(chance)),
});

/** A branch to begin a search with. */
export const anyBranch = (chance: Chance): Branch => ({
  silenceSeconds: pick(chance, SILENCES),
  // A period may end anywhere above it.
  depth: pick(chance, [0, chance(30), chance(2_016)]),
  phases: chance(2) === 0 ? pick(chance, GAMES) : Array.from({ length: 1 + chance(3) }, () => anyPhase(chance)),
});

/** A branch like another one, with one thing changed. */
export function changeBranch(chance: Chance, branch: Branch): Branch {
  const at = chance(branch.phases.length);
  const withPhase = (change: (phase: Phase) => Phase): Branch => ({
    ...branch,
    phases: branch.phases.map((phase, i) => (i === at ? change(phase) : phase)),
  });
  switch (chance(6)) {
    case 0:
      return { ...branch, silenceSeconds: pick(chance, SILENCES) };
    case 1:
      return { ...branch, depth: Math.max(0, branch.depth + chance(9) - 4) };
    case 2:
      return withPhase(({ count, pattern }) => ({
        count: Math.max(1, Math.min(1_600, count + chance(count + 9) - (count >> 1))),
        pattern,
      }));
    case 3:
      return withPhase(({ count, pattern }) => ({ count, pattern: pattern.with(chance(pattern.length), anyStep(chance)) }));
    case 4:
      return withPhase(({ count, pattern }) => ({ count, pattern: pattern.length < 8 ? [...pattern, anyStep(chance)] : pattern.slice(1) }));
    default:
      return branch.phases.length < 4 ? { ...branch, phases: [...branch.phases, anyPhase(chance)] } : anyBranch(chance);
  }
}
