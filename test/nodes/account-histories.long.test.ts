/**
 * The same as account-histories.test.ts, 2,000 times. FLORIN_SCHEDULES is how many, FLORIN_SEED where they begin: each seed plays forty
 * schedules at a time.
 */
import { test } from 'node:test';
import { openAccountGround } from '../kit/money-accounts.ts';
import { openAndPlay, reportText } from '../kit/money-histories.ts';

const SCHEDULES = Number(process.env.FLORIN_SCHEDULES ?? 2_000);
const AT_ONCE = 40;

test(`${SCHEDULES} random schedules of accounts: nobody is paid twice, nothing is lost, and the books balance`, async (t) => {
  let seed = Number(process.env.FLORIN_SEED ?? 1_000);
  for (let played = 0; played < SCHEDULES; played += AT_ONCE, seed++) {
    const schedules = Math.min(AT_ONCE, SCHEDULES - played);
    const ground = await openAccountGround();
    const report = await openAndPlay({ seed, schedules, ground }).catch((error) => {
      throw new Error(`after ${played} schedules, with seed ${seed}`, { cause: error });
    });
    t.diagnostic(`seed ${seed}: ${schedules} schedules, ${reportText(report)}`);
  }
});
