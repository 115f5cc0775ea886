/**
 * The same as money-histories.test.ts, 10,000 times, also on nodes without an index of transactions. FLORIN_SCHEDULES is how many, FLORIN_SEED
 * where they begin: each seed plays a hundred schedules at a time.
 */
import { test } from 'node:test';
import { openAndPlay, reportText } from '../kit/money-histories.ts';
import { openOutputGround } from '../kit/money-outputs.ts';

const SCHEDULES = Number(process.env.FLORIN_SCHEDULES ?? 10_000);
const AT_ONCE = 100;

test(`${SCHEDULES} random schedules: nobody is paid twice, nothing is lost, and the books balance`, async (t) => {
  let seed = Number(process.env.FLORIN_SEED ?? 1_000);
  for (let played = 0; played < SCHEDULES; played += AT_ONCE, seed++) {
    const schedules = Math.min(AT_ONCE, SCHEDULES - played);
    const ground = await openOutputGround({ indexed: seed % 2 === 0 });
    const report = await openAndPlay({ seed, schedules, ground }).catch((error) => {
      throw new Error(`after ${played} schedules, with seed ${seed}`, { cause: error });
    });
    t.diagnostic(`seed ${seed}: ${schedules} schedules, ${reportText(report)}`);
  }
});
