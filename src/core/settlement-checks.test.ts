/** What must never be settled, stored or shown: each check stops its own mistake, and only that. */
// Invariant: Amounts are never negative, add up, and count once; a wrong settlement is neither stored nor shown.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, minute, quote, tip, transferOf } from '../../test/kit/facts.ts';
import { checkParts, checkSettlement } from './coverage.ts';
import { checkOrder } from './event.ts';
import { InvariantError } from './invariant.ts';
import { divideCeil, divideHalfEven, worthUsdE8 } from './money.ts';
import type { PaymentFacts, Settlement, Tips, Transfer } from './payment.ts';
import { settle } from './settle.ts';

const paid = transferOf('100@5 x2', 0);
const now = minute(10);
const settled = (facts: Partial<PaymentFacts>, transfers: readonly Transfer[] = [paid], tips: Tips = { BTC: tip(now) }) =>
  settle({ ...base, ...facts }, transfers, tips, now);
const stops = (act: () => unknown, says: RegExp, what?: string) =>
  assert.throws(
    act,
    (error) => {
      assert.ok(error instanceof InvariantError, String(error));
      assert.match(error.message, says);
      return true;
    },
    what,
  );

test('facts that cannot be true are not settled', () => {
  assert.equal(settled({}).status, 'completed');
  stops(() => settled({ targetUsdCents: 0n }), /pay_1 asks for an amount above zero/);
  stops(() => settled({ fixed: { coin: 'BTC', units: 0n } }), /pay_1 asks for an amount above zero/);
  for (const wrong of [{ units: 0n }, { rateE8: 0n }, { rateE8: -1n }]) {
    stops(() => settled({ quotes: [{ ...quote, ...wrong }] }), /quotes of pay_1 have amounts and rates above zero/);
  }
  stops(() => settled({ quotes: [{ ...quote, until: minute(-1) }] }), /end after they begin/);
});

test('a transfer of a negative amount or value, or in a block without a valid height, is not counted', () => {
  stops(() => settled({}, [{ ...paid, units: -1n }]), /t0:0 of pay_1 has no negative amount/);
  for (const height of [-1, 1.5, Number.NaN, Number.MAX_SAFE_INTEGER + 1]) {
    stops(() => settled({}, [{ ...paid, block: { height, hash: 'b', time: now } }]), /block with a height/, String(height));
    stops(() => settled({}, [paid], { BTC: tip(now, { height }) }), /heights of BTC/, String(height));
    stops(() => settled({}, [paid], { BTC: tip(now, { finalizedHeight: height }) }), /heights of BTC/, String(height));
  }
  const [value] = paid.values;
  stops(() => settled({}, [{ ...paid, values: [{ ...value!, usdE8: -1n }] }]), /no negative value/);
});

test('a transfer that is listed twice does not count twice', () => {
  stops(() => settled({}, [paid, { ...paid }]), /t0:0 of pay_1 is listed once/);
  stops(() => settled({}, [paid, transferOf('1@5 x2', 1), { ...paid }]), /listed once/, 'in any order');
  assert.equal(settled({}, [paid, { ...paid, ref: 't1:0' }]).receivedUsdE8, 200n * 10n ** 8n);
});

test('the parts are together the whole: nothing is left out, and nothing is in both', () => {
  const one = (units: bigint, worthE8: bigint) => ({ t: { ...paid, units }, worthE8 });
  const [a, b] = [one(5n, 50n), one(7n, 70n)];
  assert.doesNotThrow(() => checkParts('pay_1', [a, b], [a], [b]));
  assert.doesNotThrow(() => checkParts('pay_1', [], [], []));
  for (const [what, ...parts] of [
    ['left out', [a], []],
    ['in both', [a, b], [b]],
    ['another amount', [a], [one(8n, 70n)]],
    ['another value', [a], [one(7n, 71n)]],
    ['two in place of one', [a], [one(3n, 30n), one(4n, 40n)]],
  ] as const)
    stops(() => checkParts('pay_1', [a, b], ...parts), /parts of pay_1/, what);
});

const right = settled({});
const partly = settled({}, [transferOf('60@5 x2', 0)]);
const WRONG: readonly [what: string, settlement: Settlement, says: RegExp][] = [
  ...(['receivedUnits', 'receivedUsdE8', 'remainingUnits', 'overpaidUnits', 'shortUnits', 'shortUsdE8', 'dustUnits'] as const).map(
    (name): [string, Settlement, RegExp] => [`a negative ${name}`, { ...right, [name]: -1n }, /not negative/],
  ),
  ['money on hold of no amount', { ...right, uncounted: [{ coin: 'BTC', state: 'held', units: 0n, usdE8: 1n }] }, /not negative/],
  ['more to pay and too much', { ...partly, overpaidUnits: 1n }, /nothing remains/],
  ['more to pay and paid with a little less', { ...partly, shortUsdE8: 1n }, /nothing remains/],
  ['too much that was not received', { ...right, overpaidUnits: 1n }, /received is its amount/],
  ['a status without a step', { ...right, steps: [] }, /last step/],
  ['a step from another status', { ...right, steps: [{ from: 'processing', status: 'completed' }] }, /allowed transitions/],
  ['a step that is not allowed', { ...right, steps: [{ from: 'pending', status: 'completed' }] }, /allowed transitions/],
  ['a completion without a time', { ...right, completedAt: null }, /known time/],
  ['a completion without money', { ...right, receivedUsdE8: 0n }, /completes with money/],
];
for (const [what, settlement, says] of WRONG) {
  test(`a settlement with ${what} is refused`, () => {
    assert.doesNotThrow(() => checkSettlement(base, right));
    assert.doesNotThrow(() => checkSettlement(base, partly));
    stops(() => checkSettlement(base, settlement), says);
  });
}

test('events of a payment are numbered without a gap, each payment on its own', () => {
  const event = (paymentId: string, sequence: bigint) => ({ paymentId, sequence });
  assert.doesNotThrow(() => checkOrder([event('a', 1n), event('b', 7n), event('a', 2n), event('b', 8n), event('a', 3n)]));
  for (const sequences of [[0n], [-1n], [2n, 2n], [2n, 1n], [1n, 3n]])
    stops(() => checkOrder(sequences.map((sequence) => event('a', sequence))), /events of a follow one another/, sequences.join());
});

test('no negative amount is divided or valued, and nothing at a price of zero', () => {
  for (const divide of [divideCeil, divideHalfEven]) {
    for (const [a, b] of [
      [-1n, 1n],
      [1n, 0n],
      [1n, -1n],
    ] as const)
      stops(() => divide(a, b), /amounts from zero up/);
    assert.equal(divide(0n, 1n), 0n);
  }
  stops(() => worthUsdE8('BTC', -1n, 1n), /not negative/);
  stops(() => worthUsdE8('BTC', 1n, 0n), /price is above zero/);
});
