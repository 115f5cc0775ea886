/** Tests for long runs (`npm run test:long`). */
import { test } from 'node:test';

export const isLongRun = process.env.FLORIN_LONG !== undefined;
/** A test for long runs: a shorter one in `npm test` shows what it promises too, and no later test of its file builds on it. */
export const longTest = (isLongRun ? test : () => {}) as typeof test;
/** Stories that are much the same for each: only the first in the usual run, all in the long one. */
export const firstOf = <T>(list: readonly T[]): readonly T[] => (isLongRun ? list : list.slice(0, 1));
