/** The same as in forgeries.test.ts, a hundred thousand times. */
import { test } from 'node:test';
import { forge } from '../../../test/kit/eth-forgeries.ts';

const ATTEMPTS = 100_000;
const ROUNDS = 20;

test(`${ATTEMPTS} random forgeries complete nothing`, async (t) => {
  const totals = new Map<string, { refused: number; true: number }>();
  for (let seed = 1; seed <= ROUNDS; seed++) {
    const { tried } = await forge({ seed: seed * 7_919, attempts: ATTEMPTS / ROUNDS });
    for (const [kind, { refused, true: isTrue }] of tried) {
      const before = totals.get(kind) ?? { refused: 0, true: 0 };
      totals.set(kind, { refused: before.refused + refused, true: before.true + isTrue });
    }
    console.log(`${(seed * ATTEMPTS) / ROUNDS} tried`);
  }
  for (const [kind, { refused, true: isTrue }] of totals) t.diagnostic(`${kind}: ${refused} refused, ${isTrue} read as they are`);
});
