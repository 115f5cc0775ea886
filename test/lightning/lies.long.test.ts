/** A million generated answers of back ends. */
import { test } from 'node:test';
import { tellLies } from '../kit/lightning-lies.ts';

test('1,000,000 generated answers complete nothing without a proof', async () => {
  for (let part = 0; part < 10; part++) await tellLies(100_000, Number(process.env.SEED ?? 1) + part);
});
