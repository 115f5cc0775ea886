/** Settling a payment with 30,000 transfers, compared with one pass over the same transfers that adds up their value. Goal: <= 30 ms. */
import { COIN } from '../src/core/coin.ts';
import { addMs, MINUTE_MS } from '../src/core/dates.ts';
import type { PaymentFacts, Transfer } from '../src/core/payment.ts';
import { settle } from '../src/core/settle.ts';
import { base, START } from '../test/kit/facts.ts';
import { median } from './kit.ts';

const TRANSFERS = 30_000;
const ROUNDS = 101;
/** Long enough for the compiler to have seen everything. */
const WARM_UP = 60;
const NOW = addMs(START, 10 * MINUTE_MS);

const payment: PaymentFacts = {
  ...base,
  // The first of them moved the clocks.
  extendedUntil: addMs(START, 60 * MINUTE_MS),
  quotes: [{ coin: 'DOGE', address: 'D', rateE8: 10_000_000n, units: 100_000_000_000n, from: START, until: addMs(START, 15 * MINUTE_MS) }],
};
const transfers = Array.from(
  { length: TRANSFERS },
  (_, i): Transfer => ({
    coin: 'DOGE',
    ref: `t${i}:0`,
    txid: `t${i}`,
    address: 'D',
    units: COIN.DOGE.dustUnits,
    kind: 'output',
    firstSeenAt: addMs(START, i),
    values: [{ usdE8: 100_000n, at: START, basis: 'quote', reason: 'first_sight' }],
    block: { height: 1_000, hash: 'b', time: START },
    lock: null,
    absentSince: null,
    conflict: null,
    unminedSince: null,
    disputedSince: null,
  }),
);
const tips = {
  DOGE: {
    height: 1_000,
    hash: 'b',
    safeHeight: null,
    finalizedHeight: null,
    chainlockHeight: null,
    scannedThrough: NOW,
    holdReason: null,
  },
};

/** The time that this thread computes, because others use the machine too. */
const timed = (work: () => void): number => {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
};
const settling = (): void => {
  if (settle(payment, transfers, tips, NOW).receivedUnits !== COIN.DOGE.dustUnits * BigInt(TRANSFERS)) throw new Error('not all count');
};
const onePass = (): void => {
  if (transfers.reduce((sum, t) => sum + t.values[0]!.usdE8, 0n) === 0n) throw new Error('nothing was added up');
};
for (let i = 0; i < WARM_UP; i++) for (const work of [settling, onePass]) work();
const rounds = Array.from({ length: ROUNDS }, () => ({ settled: timed(settling), passed: timed(onePass) }));
console.log(`settle: a payment of ${TRANSFERS.toLocaleString('en')} transfers
  florin    ${median(rounds.map((r) => r.settled)).toFixed(1)} ms
  baseline  ${median(rounds.map((r) => r.passed)).toFixed(2)} ms one pass over them
  ratio     ${median(rounds.map((r) => r.settled / r.passed)).toFixed(0)}
  goal      <= 30 ms`);
