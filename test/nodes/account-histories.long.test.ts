/**
 * The same as account-histories.test.ts, 4,000 times. FLORIN_SCHEDULES is how many, FLORIN_SEED where they begin: each seed plays a hundred
 * schedules at a time.
 */
import { test } from 'node:test';
import { openAccountGround } from '../kit/money-accounts.ts';
import { playMany } from '../kit/money-histories.ts';

const SCHEDULES = Number(process.env.FLORIN_SCHEDULES ?? 4_000);

test(`${SCHEDULES} random schedules of accounts: nobody is paid twice, nothing is lost, and the books balance`, (t) =>
  playMany(t, {
    ...{ schedules: SCHEDULES, seed: Number(process.env.FLORIN_SEED ?? 1_000), atOnce: 100 },
    openGround: openAccountGround,
  }));
