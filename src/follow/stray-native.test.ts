/** The search for the block in which a balance rose. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findRise } from './stray-native.ts';

/** A balance by height: from each of these heights on, it is so much. */
const steps = (...at: readonly [number, bigint][]) => {
  let asked = 0;
  const balanceAt = async (height: number): Promise<bigint> => {
    asked++;
    return at.filter(([from]) => from <= height).at(-1)?.[1] ?? 0n;
  };
  return { balanceAt, asked: () => asked };
};

test('the first block above the known ones where the balance rose, in few requests', async () => {
  for (const rose of [101, 102, 5_000, 3_024_099, 3_024_100]) {
    const { balanceAt, asked } = steps([rose, 7n]);
    assert.equal(await findRise({ from: 100, to: 3_024_100, above: 0n }, balanceAt), rose);
    assert.ok(asked() <= 22, `${asked()} requests`);
  }
});

test('of several rises, one above which no lower balance was known, so that all are found one after another', async () => {
  const { balanceAt } = steps([20, 3n], [50, 5n], [90, 9n]);
  const found: number[] = [];
  for (let from = 0; from < 90; from = found.at(-1)!)
    found.push((await findRise({ from, to: 100, above: await balanceAt(from) }, balanceAt))!);
  assert.deepEqual(found, [20, 50, 90]);
});

test('what was swept again between rises does not hide the last one', async () => {
  const { balanceAt } = steps([20, 3n], [30, 0n], [60, 4n]);
  const found = await findRise({ from: 0, to: 100, above: 0n }, balanceAt);
  assert.ok(found === 20 || found === 60, String(found));
});

test('a source without old balances cannot tell', async () => {
  assert.equal(await findRise({ from: 0, to: 100, above: 0n }, async () => null), null);
});
