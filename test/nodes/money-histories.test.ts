/**
 * Random schedules of refunds, payouts and sweeps on a real node, with processes that are killed. The long version is
 * money-histories.long.test.ts; FLORIN_SEED chooses other schedules.
 */
// Invariant: Over random schedules of refunds, payouts and sweeps, with processes killed and blocks replaced, nobody is paid twice, nothing is lost, and the books agree with the chain.
import { test } from 'node:test';
import { isLongRun } from '../kit/long.ts';
import { openAndPlay, reportText } from '../kit/money-histories.ts';
import { openOutputGround } from '../kit/money-outputs.ts';

const SCHEDULES = isLongRun ? 30 : 8;

test(`${SCHEDULES} random schedules: nobody is paid twice, nothing is lost, and the books balance`, async (t) => {
  const seed = Number(process.env.FLORIN_SEED ?? 1);
  const report = await openAndPlay({ seed, schedules: SCHEDULES, ground: await openOutputGround({ indexed: true }) });
  t.diagnostic(`seed ${seed}: ${reportText(report)}`);
});
