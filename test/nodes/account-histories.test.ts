/**
 * Random schedules of refunds and sweeps in ETH and USDC on a real EVM, with processes that are killed. The long version is
 * account-histories.long.test.ts; FLORIN_SEED chooses other schedules.
 */
// Invariant: Over random schedules of refunds, payouts and sweeps, with processes killed and blocks replaced, nobody is paid twice, nothing is lost, and the books agree with the chain.
import { test } from 'node:test';
import { isLongRun } from '../kit/long.ts';
import { openAccountGround } from '../kit/money-accounts.ts';
import { openAndPlay, reportText } from '../kit/money-histories.ts';

const SCHEDULES = isLongRun ? 12 : 5;

test(`${SCHEDULES} random schedules of accounts: nobody is paid twice, nothing is lost, and the books balance`, async (t) => {
  const seed = Number(process.env.FLORIN_SEED ?? 1);
  const report = await openAndPlay({ seed, schedules: SCHEDULES, ground: await openAccountGround() });
  t.diagnostic(`seed ${seed}: ${reportText(report)}`);
});
