/** Facts of a payment for tests: due 100 USD in BTC at 100,000 (0.00100000 BTC), window 60 min, tolerance 1% (cap $5), 2 confirmations. */
import assert from 'node:assert/strict';
import { COINS, chainOf } from '../../src/core/coin.ts';
import { addMs, MINUTE_MS } from '../../src/core/dates.ts';
import type { PaymentFacts, Quote, Rules, Tip, Transfer } from '../../src/core/payment.ts';

export const START = new Date('2026-01-01T00:00:00Z');
export const minute = (m: number): Date => addMs(START, m * MINUTE_MS);
export const E8_PER_USD = 100_000_000n;

export const rules: Rules = {
  windowSeconds: 3600,
  rateLockSeconds: 900,
  toleranceBasisPoints: 100,
  toleranceCapUsdCents: 500n,
  lateAcceptMinutes: null,
  protectionHours: 24,
  protectionLargeHours: 2,
  protectionLargeUsdCents: 100_000n,
  adjustments: {},
  priceSource: null,
  confirmations: Object.fromEntries(COINS.map((coin) => [coin, chainOf(coin).confirmations])) as Rules['confirmations'],
};
export const quote: Quote = {
  coin: 'BTC',
  address: 'bc1q',
  rateE8: 10_000_000_000_000n,
  units: 100_000n,
  from: minute(0),
  until: minute(15),
};
export const base: PaymentFacts = {
  id: 'pay_1',
  mode: 'live',
  createdAt: START,
  targetUsdCents: 10_000n,
  fixed: null,
  rules,
  extendedUntil: null,
  rateLockUntil: null,
  quotes: [quote],
  decisions: [],
  status: 'pending',
  exceptions: [],
  completedAt: null,
};
export const HEIGHT = 1_000;
export const tip = (at: Date, more: Partial<Tip> = {}): Tip => ({
  height: HEIGHT,
  hash: 'h',
  safeHeight: null,
  finalizedHeight: null,
  chainlockHeight: null,
  scannedThrough: at,
  holdReason: null,
  ...more,
});

/** `60@5 x1`: 60 USD first seen in minute 5, one confirmation; `!` conflict unconfirmed, `!!` mined, `~` missing since minute 10. */
export function transferOf(text: string, index: number): Transfer {
  const match = /^([\d.]+)@([\d.]+) x(\d+)(!{0,2})(~?)$/.exec(text.trim());
  assert.ok(match, text);
  const [, usd, seen, confirmations, conflict, unmined] = match;
  const cents = BigInt(Math.round(Number(usd) * 100));
  const count = Number(confirmations);
  return {
    coin: 'BTC',
    ref: `t${index}:0`,
    txid: `t${index}`,
    address: 'bc1q',
    units: cents * 10n,
    kind: 'output',
    firstSeenAt: minute(Number(seen)),
    values: [{ usdE8: (cents * E8_PER_USD) / 100n, at: minute(Number(seen)), basis: 'quote', reason: 'first_sight' }],
    block: count > 0 ? { height: HEIGHT - count + 1, hash: 'b', time: minute(Number(seen)) } : null,
    lock: null,
    absentSince: null,
    conflict: conflict ? { txid: 'other', height: conflict === '!!' ? HEIGHT : null, seenAt: minute(Number(seen) + 1) } : null,
    unminedSince: unmined ? minute(10) : null,
    disputedSince: null,
  };
}
