/** How much work settling takes: counted, not timed, so that it does not depend on the machine's speed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COIN, COINS, chainOf } from './coin.ts';
import { addMs, MINUTE_MS } from './dates.ts';
import type { Decision, PaymentFacts, PaymentStatus, Rules, Tip, Transfer } from './payment.ts';
import { settle } from './settle.ts';

const START = new Date('2026-01-01T00:00:00Z');
const payment: PaymentFacts = {
  id: 'pay_1',
  mode: 'live',
  createdAt: START,
  targetUsdCents: 10_000n,
  fixed: null,
  rules: {
    windowSeconds: 3600,
    rateLockSeconds: 900,
    toleranceBasisPoints: 0,
    toleranceCapUsdCents: 500n,
    lateAcceptMinutes: 30,
    protectionHours: 24,
    protectionLargeHours: 2,
    protectionLargeUsdCents: 100_000n,
    adjustments: {},
    priceSource: null,
    confirmations: Object.fromEntries(COINS.map((coin) => [coin, chainOf(coin).confirmations])) as Rules['confirmations'],
  },
  extendedUntil: null,
  rateLockUntil: null,
  quotes: [{ coin: 'DOGE', address: 'D', rateE8: 10_000_000n, units: 100_000_000_000n, from: START, until: addMs(START, 15 * MINUTE_MS) }],
  decisions: [],
  status: 'pending',
  exceptions: [],
  completedAt: null,
};
const tip: Tip = {
  height: 1_000,
  hash: 'h',
  safeHeight: null,
  finalizedHeight: null,
  chainlockHeight: null,
  scannedThrough: addMs(START, 70 * MINUTE_MS),
  holdReason: null,
};

/** Counts reads of transfer properties, and elements that an array search may have to compare. */
let looks = 0;
const watched = (t: Transfer): Transfer =>
  new Proxy(t, {
    get: (target, name) => {
      looks++;
      return Reflect.get(target, name);
    },
  });
/** `count` transfers of 0.01 DOGE from the given minute on; every tenth is unconfirmed with a conflict, every third is in no block. */
const flood = (count: number, minute: number): Transfer[] =>
  Array.from({ length: count }, (_, i) =>
    watched({
      coin: 'DOGE',
      ref: `t${i}:0`,
      txid: `t${i}`,
      address: 'D',
      units: COIN.DOGE.dustUnits,
      kind: 'output',
      firstSeenAt: addMs(START, minute * MINUTE_MS + i),
      values: [{ usdE8: 100_000n, at: START, basis: 'quote', reason: 'first_sight' }],
      block: i % 3 === 0 ? null : { height: 995, hash: 'b', time: addMs(START, minute * MINUTE_MS) },
      lock: null,
      absentSince: null,
      conflict: i % 30 === 0 ? { txid: 'other', height: null, seenAt: START } : null,
      unminedSince: i % 6 === 0 ? START : null,
      disputedSince: null,
    }),
  );

function workOf(run: () => void): number {
  const searches = ['includes', 'indexOf', 'find', 'some', 'every'] as const;
  const kept = searches.map((name) => Array.prototype[name]) as ((...args: unknown[]) => unknown)[];
  looks = 0;
  for (const [i, name] of searches.entries()) {
    Object.assign(Array.prototype, {
      [name](this: unknown[], ...args: unknown[]) {
        looks += this.length;
        return kept[i]!.apply(this, args);
      },
    });
  }
  try {
    run();
  } finally {
    for (const [i, name] of searches.entries()) Object.assign(Array.prototype, { [name]: kept[i] });
  }
  return looks;
}

const cases: readonly { name: string; status: PaymentStatus; minute: number; cents?: bigint; decide?: (refs: string[]) => Decision[] }[] = [
  { name: 'a partial payment', status: 'pending', minute: 5 },
  { name: 'money that comes late and is taken', status: 'expired', minute: 65, cents: 25n },
  {
    name: 'an accept, a refund and another accept of all of it',
    status: 'failed',
    minute: 5,
    decide: (refs) => [
      { kind: 'accept', at: addMs(START, 66 * MINUTE_MS), transfers: refs },
      { kind: 'refund_sent', at: addMs(START, 67 * MINUTE_MS), transfers: refs.slice(1) },
      { kind: 'accept', at: addMs(START, 68 * MINUTE_MS), transfers: refs },
    ],
  },
];
for (const { name, status, minute, cents = 10_000n, decide } of cases) {
  // Invariant: The cost of settling grows linearly with the transfers of a payment.
  test(`the work of settling grows with the transfers of a payment, not with their square: ${name}`, () => {
    const work = (count: number): number => {
      const transfers = flood(count, minute);
      const decisions = decide?.(transfers.map((t) => t.ref)) ?? [];
      return workOf(() =>
        settle({ ...payment, targetUsdCents: cents, status, decisions }, transfers, { DOGE: tip }, addMs(START, 70 * MINUTE_MS)),
      );
    };
    const growth = work(4_000) / work(500);
    assert.ok(growth < 12, `eight times the transfers are ${growth.toFixed(1)} times the work`);
  });
}
