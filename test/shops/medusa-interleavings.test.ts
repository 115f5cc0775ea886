/** The Medusa provider under everything at once, in a scripted store. `medusa-interleavings.long.test.ts` runs the same in Medusa itself. */
import { test } from 'node:test';
import { isLongRun } from '../kit/long.ts';
import { interleaveMedusa } from '../kit/medusa-interleavings.ts';
import { startScriptedMedusa } from '../kit/scripted-medusa.ts';

test('whatever meets whatever, an order is captured once at its price, and no money is lost from sight', (t) =>
  interleaveMedusa(t, { from: 1, runs: isLongRun ? 40 : 10, steps: 4 }, startScriptedMedusa));
