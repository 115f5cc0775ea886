/** What a settlement changes about a payment, and what must never be written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Coin } from '../core/coin.ts';
import type { Settlement } from '../core/payment.ts';
import type { PaymentNotice } from '../notices/payment-notices.ts';
import type { PaymentRecord } from './facts.ts';
import { isChange, noticesOf, settlementChange } from './settlement-writes.ts';

const at = new Date('2026-01-01T00:00:00Z');
const until = new Date('2026-01-01T01:00:00Z');

/** A pending payment as it was last written: a coin is chosen, and nothing has arrived. */
const record = {
  merchantId: 'mer_1',
  mode: 'live',
  countedInMonth: false,
  last: { seenUnits: 0n, announced: '', expiresAt: until, coin: 'BTC', held: new Map() },
  marks: { openedAt: at, seenAt: null, paidUsdCents: null, refundRequestedAt: null, reviewed: [] },
  facts: { id: 'pay_1', status: 'pending', exceptions: [], quotes: [{ from: at }] },
  now: at,
} as unknown as PaymentRecord;
const settlement = {
  steps: [],
  status: 'pending',
  exceptions: [],
  uncounted: [],
  expiresAt: until,
  extension: null,
  coin: 'BTC',
  receivedUnits: 0n,
  receivedUsdE8: 0n,
  seenUnits: 0n,
  seenUsdE8: 0n,
  remainingUnits: 5n,
  overpaidUnits: 0n,
  shortUnits: 0n,
  shortUsdE8: 0n,
  dustUnits: 0n,
  amountUnits: 5n,
  completedAt: null,
} as unknown as Settlement;
const changed = (parts: Partial<Settlement>) => settlementChange({ record, settlement: { ...settlement, ...parts } });

test('a settlement that repeats what was written last changes nothing', () => {
  assert.equal(isChange(changed({})), false);
  assert.deepEqual(changed({}).types, []);
});

const COMPLETED: Settlement['steps'] = [
  { from: 'pending', status: 'processing' },
  { from: 'processing', status: 'completed' },
];
const CHANGES: readonly [what: string, settlement: Partial<Settlement>, events: string[]][] = [
  ['money arrives', { receivedUnits: 1n, receivedUsdE8: 1n, seenUnits: 1n, seenUsdE8: 1n }, ['payment.updated']],
  ['the deadline moves', { expiresAt: at }, ['payment.updated']],
  ['another coin is shown', { coin: 'LTC' }, []],
  ['the clocks are extended', { extension: { windowUntil: until, rateLockUntil: null } }, []],
  ['it expires', { status: 'expired', steps: [{ from: 'pending', status: 'expired' }] }, ['payment.expired']],
  [
    'it is found confirmed',
    {
      status: 'completed',
      completedAt: at,
      receivedUsdE8: 5n,
      seenUsdE8: 5n,
      steps: COMPLETED,
    },
    ['payment.processing', 'payment.completed'],
  ],
];
for (const [what, parts, events] of CHANGES) {
  test(`${what}: it is written, with ${events.length === 0 ? 'no event' : events.join(' and ')}`, () => {
    const change = changed(parts);
    assert.equal(isChange(change), true);
    assert.deepEqual(
      change.types.map(({ type }) => type),
      events,
    );
  });
}

test('a notice names a token by its asset and its chain, and a native coin by its code', () => {
  const money = (coin: Coin, receivedUnits: bigint) => {
    const priced = { ...record, createdWith: 'public', facts: { ...record.facts, targetUsdCents: 10_000n } } as unknown as PaymentRecord;
    const usdE8 = 2_550_000_000n;
    const seen = { seenUnits: receivedUnits, seenUsdE8: usdE8 };
    const paid = { ...settlement, ...seen, coin, receivedUnits, receivedUsdE8: usdE8, exceptions: ['underpaid'] } as Settlement;
    return noticesOf(settlementChange({ record: priced, settlement: paid })).map(({ detail }) => (detail as PaymentNotice).money);
  };
  assert.deepEqual(money('USDC@ethereum', 25_500_000n), ['25.5 USDC on Ethereum ($25.50)']);
  assert.deepEqual(money('BTC', 25_500n), ['0.000255 BTC ($25.50)']);
});

const IMPOSSIBLE: readonly [what: string, settlement: Partial<Settlement>, says: RegExp][] = [
  ['a negative amount', { receivedUnits: -1n }, /not negative/],
  ['a negative remainder', { remainingUnits: -1n }, /not negative/],
  ['a status that no step leads to', { status: 'expired' }, /last step/],
  ['steps that do not follow one another', { status: 'expired', steps: [{ from: 'processing', status: 'expired' }] }, /follow/],
  ['a step that is not allowed', { status: 'completed', steps: [{ from: 'pending', status: 'completed' }] }, /allowed transitions/],
  ['a completion without a time', { status: 'completed', steps: COMPLETED }, /known time/],
  ['a completion without money', { status: 'completed', steps: COMPLETED, completedAt: at }, /with money/],
];
for (const [what, parts, says] of IMPOSSIBLE) {
  test(`${what} is never written`, () => {
    assert.throws(() => changed(parts), says);
  });
}
