/**
 * The Medusa provider under everything at once, in a real store. `SEED` is the first schedule, `SCHEDULES` how many follow; each part has a
 * service and a store of its own, so that the last one is as fast as the first.
 */
import { test } from 'node:test';
import { interleaveMedusa } from '../kit/medusa-interleavings.ts';
import { startMedusa } from '../kit/medusa-store.ts';

const first = Number(process.env.SEED ?? 1);
const runs = Number(process.env.SCHEDULES ?? 300);
const PART = 150;

for (let from = first; from < first + runs; from += PART)
  test(`schedules ${from} and later: an order is captured once at its price, and no money is lost from sight`, (t) =>
    interleaveMedusa(t, { from, runs: Math.min(PART, first + runs - from), steps: 5 }, startMedusa));
