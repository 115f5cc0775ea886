/**
 * The same as money-histories.test.ts, 6,000 times, also on nodes without an index of transactions. FLORIN_SCHEDULES is how many, FLORIN_SEED
 * where they begin: each seed plays a hundred schedules at a time.
 */
import { test } from 'node:test';
import { playMany } from '../kit/money-histories.ts';
import { openOutputGround } from '../kit/money-outputs.ts';

const SCHEDULES = Number(process.env.FLORIN_SCHEDULES ?? 6_000);

test(`${SCHEDULES} random schedules: nobody is paid twice, nothing is lost, and the books balance`, (t) =>
  playMany(t, {
    ...{ schedules: SCHEDULES, seed: Number(process.env.FLORIN_SEED ?? 1_000), atOnce: 100 },
    openGround: (seed) => openOutputGround({ indexed: seed % 2 === 0 }),
  }));
