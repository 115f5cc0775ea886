/** The Medusa provider under everything at once, in a scripted store. `medusa-interleavings.long.test.ts` runs the same in Medusa itself. */
import { test } from 'node:test';
import { interleaveMedusa } from '../kit/medusa-interleavings.ts';
import { startScriptedMedusa } from '../kit/scripted-medusa.ts';

test('whatever meets whatever, an order is captured once at its price, and no money is lost from sight', (t) =>
  interleaveMedusa(t, { from: 1, runs: 40, steps: 4 }, startScriptedMedusa));
