/** Payment rules by example. Due 100 USD in BTC at 100,000 (0.00100000 BTC), window 60 min, tolerance 1% (cap $5), 2 confirmations. */
// Invariant: A status follows from facts by one pure function, over random histories too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, E8_PER_USD, HEIGHT, minute, quote, rules, tip, transferOf } from '../../test/kit/facts.ts';
import type { Coin } from './coin.ts';
import { addMs } from './dates.ts';
import type { Decision, PaymentFacts, PaymentStatus, Tip, Transfer } from './payment.ts';
import { settle } from './settle.ts';

const STORIES = `
minute | from       | decisions      | transfers            | status     | exceptions          | steps
0      | pending    |                |                      | pending    |                     |
10     | pending    |                | 60@5 x1              | pending    | underpaid           |
10     | pending    |                | 60@5 x0, 40@7 x0     | processing |                     | processing
10     | pending    |                | 100@5 x2             | completed  |                     | processing completed
10     | processing |                | 100@5 x1             | processing |                     |
10     | processing |                | 100@5 x2             | completed  |                     | completed
10     | pending    |                | 99@5 x0              | processing |                     | processing
10     | pending    |                | 98.9@5 x0            | pending    | underpaid           |
10     | pending    |                | 100.9@5 x2           | completed  |                     | processing completed
10     | pending    |                | 101.1@5 x2           | completed  | overpaid            | processing completed
10     | pending    |                | 200@5 x3             | completed  | overpaid            | processing completed
10     | pending    |                | 60@5 x2, 40@7 x1     | processing |                     | processing
10     | pending    |                | 60@5 x2, 40@7 x2     | completed  |                     | processing completed
10     | pending    |                | 0.1@5 x2             | pending    |                     |
10     | pending    |                | 100@5 x0!            | pending    | replaced            |
10     | processing |                | 100@5 x0!            | pending    | replaced            | pending
10     | processing |                | 100@5 x0!!           | pending    | replaced            | pending
10     | pending    |                | 100@5 x0!!, 100@6 x2 | completed  |                     | processing completed
61     | pending    |                |                      | expired    |                     | expired
61     | pending    |                | 98@5 x6              | pending    | underpaid           |
66     | pending    |                | 98@5 x6              | failed     | underpaid           | failed
66     | pending    |                | 98@5 x6, 2@64 x6     | completed  |                     | processing completed
61     | pending    |                | 99@5 x6              | completed  |                     | processing completed
61     | pending    |                | 100@59 x1            | processing |                     | processing
61     | pending    |                | 100@60 x1            | processing |                     | processing
61     | pending    |                | 100@60.1 x1          | processing |                     | processing
62     | pending    |                | 100@60.2 x2          | expired    | late                | expired
61     | processing |                | 100@5 x0!            | processing | replaced            |
61     | processing |                | 100@5 x0!!           | failed     | replaced            | failed
62     | expired    |                | 100@61 x2            | expired    | late                |
62     | expired    | accept@61.5:0  | 100@61 x2            | completed  |                     | processing completed
62     | expired    | accept@61.5:0  | 100@61 x1            | processing |                     | processing
62     | failed     | accept@61.5:0  | 50@5 x2              | completed  |                     | processing completed
62     | expired    | reject@61.5:0  | 100@61 x2            | expired    |                     |
62     | failed     |                | 100@5 x2             | failed     | late                |
10     | pending    | cancel@9       |                      | cancelled  |                     | cancelled
10     | pending    | cancel@9       | 60@5 x1              | cancelled  | paid_after_cancel   | cancelled
20     | cancelled  | cancel@9       | 100@15 x3            | cancelled  | paid_after_cancel   |
20     | cancelled  | cancel@9 accept@16:0 | 100@15 x3      | completed  |                     | processing completed
20     | completed  |                | 100@5 x2             | completed  |                     |
80     | completed  |                | 100@5 x0~            | completed  | reorged             |
15     | completed  |                | 100@5 x0~            | completed  | reorged             |
15     | completed  |                | 100@5 x1~            | completed  | reorged             |
15     | completed  |                | 100@5 x2~            | completed  |                     |
15     | completed  |                | 100@5 x0~, 100@6 x2  | completed  |                     |
15     | completed  |                | 100@5 x0, 100@6 x2   | completed  |                     |
15     | completed  |                | 100@5 x0~, 100@6 x0  | completed  | reorged             |
15     | completed  |                | 100@5 x2, 100@6 x0~  | completed  |                     |
15     | completed  |                |                      | completed  | reorged             |
15     | completed  |                | 100@5 x0!!~          | completed  | reorged             |
15     | processing |                | 100@5 x0~            | processing |                     |
`;

const [, ...rows] = STORIES.trim().split('\n');
for (const row of rows) {
  const [at, from, decisions, transfers, status, exceptions, steps] = row.split('|').map((cell) => cell.trim()) as [
    string,
    PaymentStatus,
    ...string[],
  ];
  test(row.replace(/\s+/g, ' '), () => {
    const now = minute(Number(at));
    const facts: PaymentFacts = {
      ...base,
      status: from,
      completedAt: from === 'completed' ? minute(6) : null,
      decisions: decisions!
        .split(' ')
        .filter(Boolean)
        .map((text): Decision => {
          const [, kind, when, index] = /^(\w+)@([\d.]+)(?::(\d))?$/.exec(text)!;
          return { kind: kind as Decision['kind'], at: minute(Number(when)), transfers: index ? [`t${index}:0`] : [] };
        }),
    };
    const list = transfers!
      .split(',')
      .filter((t) => t.trim())
      .map(transferOf);
    const result = settle(facts, list, { BTC: tip(now) }, now);
    assert.equal(result.status, status);
    assert.equal(result.exceptions.join(' '), exceptions);
    assert.equal(result.steps.map((s) => s.status).join(' '), steps);
    // The order of facts does not matter, and settling again takes no step.
    assert.deepEqual(settle(facts, list.toReversed(), { BTC: tip(now) }, now), result);
    assert.deepEqual(settle({ ...facts, status: result.status, completedAt: result.completedAt }, list, { BTC: tip(now) }, now).steps, []);
  });
}

const OTHER_COINS = `
asked  | paid           | from       | status     | exceptions            | after an accept
ETH    | USDC@ethereum  | pending    | pending    | wrong_token           | completed
ETH    | USDC@ethereum  | expired    | expired    | wrong_token           | completed
BTC    | USDC@ethereum  | pending    | pending    | wrong_network         | completed
BTC    | USDC@ethereum  | failed     | failed     | wrong_network         | completed
ETH    | ETH USDC@ethereum | pending | completed  | wrong_token           | completed
ETH    | USDC@ethereum  | completed  | completed  | reorged wrong_token   | completed
`;
for (const row of OTHER_COINS.trim().split('\n').slice(1)) {
  const [asked, paid, from, status, exceptions, accepted] = row.split('|').map((cell) => cell.trim()) as [
    Coin,
    string,
    PaymentStatus,
    ...string[],
  ];
  test(`money in a coin that was not asked for: ${row.replace(/\s+/g, ' ')}`, () => {
    const now = minute(62);
    const facts: PaymentFacts = {
      ...base,
      status: from,
      completedAt: from === 'completed' ? minute(6) : null,
      quotes: [{ ...quote, coin: asked }],
      rules: {
        ...rules,
        confirmations: { ...rules.confirmations, ETH: rules.confirmations.BTC, 'USDC@ethereum': rules.confirmations.BTC },
      },
    };
    const list = paid.split(' ').map((coin, index) => ({ ...transferOf('100@5 x6', index), coin: coin as Coin }));
    const tips = { BTC: tip(now), ETH: tip(now), 'USDC@ethereum': tip(now) };
    const at = from === 'pending' ? minute(10) : now;
    const result = settle(facts, list, tips, at);
    assert.deepEqual([result.status, result.exceptions.join(' ')], [status, exceptions]);
    // Neither time nor a setting for late money lets it count.
    const lenient = settle({ ...facts, rules: { ...facts.rules, lateAcceptMinutes: 60 } }, list, tips, at);
    assert.deepEqual([lenient.status, lenient.exceptions.join(' ')], [status, exceptions]);
    const accept: Decision = { kind: 'accept', at, transfers: list.map((t) => t.ref) };
    const after = settle({ ...facts, decisions: [accept] }, list, tips, at);
    assert.equal(after.status, accepted);
    assert.equal(
      after.exceptions.some((name) => name.startsWith('wrong')),
      false,
    );
  });
}

// Invariant: Nothing expires while the follower is behind.
test('nothing expires while the follower is behind', () => {
  const now = minute(70);
  assert.equal(settle(base, [], { BTC: tip(minute(50)) }, now).status, 'pending');
  assert.equal(settle(base, [], {}, now).status, 'pending');
  assert.equal(settle(base, [], { BTC: tip(addMs(minute(60), 10_000)) }, now).status, 'expired');
  assert.equal(settle({ ...base, quotes: [] }, [], {}, addMs(minute(60), 1)).status, 'expired');
  assert.equal(settle({ ...base, quotes: [] }, [], {}, minute(60)).status, 'pending');
});

test('a payment that is processing does not fail while the follower is behind', () => {
  const progressing = { ...base, status: 'processing' as const };
  const replaced = [transferOf('100@5 x0!!', 0)];
  assert.equal(settle(progressing, replaced, { BTC: tip(minute(59)) }, minute(62)).status, 'processing');
  assert.equal(settle(progressing, replaced, { BTC: tip(minute(62)) }, minute(62)).status, 'failed');
});

test('an accept requires all transfers it names to be present, valued and confirmed', () => {
  const accept: Decision = { kind: 'accept', at: minute(70), transfers: ['t0:0', 't1:0'] };
  const status = (...transfers: string[]) =>
    settle({ ...base, status: 'expired', decisions: [accept] }, transfers.map(transferOf), { BTC: tip(minute(71)) }, minute(71)).status;
  assert.equal(status('1@65 x2', '50@65 x2'), 'completed');
  assert.equal(status('1@65 x2', '50@65 x1'), 'processing');
  assert.equal(status('1@65 x2', '50@65 x0!'), 'expired');
  assert.equal(status('1@65 x2', '50@65 x0!!'), 'expired');
  assert.equal(status('1@65 x2'), 'expired');
  // Nothing completes with what is worth nothing, accepted or not.
  const worthless = ['1@65 x2', '50@65 x2']
    .map(transferOf)
    .map((t) => ({ ...t, values: t.values.map((value) => ({ ...value, usdE8: 0n })) }));
  const accepted = { ...base, status: 'expired' as const, decisions: [accept] };
  assert.equal(settle(accepted, worthless, { BTC: tip(minute(71)) }, minute(71)).status, 'expired');
  // What is rejected later is no longer covered.
  const reject: Decision = { kind: 'reject', at: minute(72), transfers: ['t1:0'] };
  const left = settle(
    { ...base, status: 'expired', decisions: [accept, reject] },
    ['1@65 x2', '50@65 x0!!'].map(transferOf),
    { BTC: tip(minute(73)) },
    minute(73),
  );
  assert.equal(left.status, 'completed');
});

test('an accepted late transfer with a conflict keeps the payment processing until the conflict is resolved', () => {
  const accept: Decision = { kind: 'accept', at: minute(70), transfers: ['t0:0'] };
  const status = (text: string) =>
    settle({ ...base, status: 'processing', decisions: [accept] }, [transferOf(text, 0)], { BTC: tip(minute(71)) }, minute(71)).status;
  assert.equal(status('100@65 x0!'), 'processing');
  assert.equal(status('100@65 x0!!'), 'failed');
});

test('a transfer without a price postpones the end of the window', () => {
  const held = { ...transferOf('50@5 x1', 0), values: [] };
  assert.equal(settle(base, [held], { BTC: tip(minute(61)) }, minute(61)).status, 'pending');
});

test('a partial payment extends the window to an hour later and its rate by one lock, once', () => {
  const partial = [transferOf('60@10 x0', 0)];
  const first = settle({ ...base, rules: { ...rules, windowSeconds: 1_800 } }, partial, { BTC: tip(minute(10)) }, minute(10));
  assert.deepEqual(first.extension, { windowUntil: minute(70), rateLockUntil: minute(25) });
  assert.deepEqual([first.expiresAt, first.quoteExpiresAt], [minute(70), minute(25)]);
  const extended = { ...base, extendedUntil: minute(70), rateLockUntil: minute(25) };
  const second = settle(extended, [...partial, transferOf('20@24 x0', 1)], { BTC: tip(minute(40)) }, minute(40));
  assert.equal(second.extension, null);
  assert.deepEqual([second.expiresAt, second.quoteExpiresAt], [minute(70), minute(25)]);
  assert.equal(second.status, 'pending');
  assert.equal(second.remainingUnits, 20_000n);
});

test('less than a tenth of the amount extends nothing, however long the window is', () => {
  const day = { ...base, targetUsdCents: 1_000_000n, rules: { ...rules, windowSeconds: 86_400 } };
  const paid = (...texts: string[]) => settle(day, texts.map(transferOf), { BTC: tip(minute(10)) }, minute(10));
  for (const texts of [['0.55@5 x0'], ['999.99@5 x0'], ['500@5 x0', '499@6 x0']]) {
    const result = paid(...texts);
    assert.deepEqual([result.status, result.extension, result.quoteExpiresAt], ['pending', null, minute(15)], texts.join());
  }
  // From a tenth of the amount, also in parts: from when it was reached, and never to the end of a long window.
  assert.deepEqual(paid('500@5 x0', '500@8 x0').extension, { windowUntil: minute(1_440), rateLockUntil: minute(23) });
});

test('a partial payment that is seen after the rate lock ended does not restore it', () => {
  const result = settle(base, [transferOf('60@20 x0', 0)], { BTC: tip(minute(20)) }, minute(20));
  assert.deepEqual(result.extension, { windowUntil: minute(80), rateLockUntil: null });
  assert.deepEqual([result.expiresAt, result.quoteExpiresAt], [minute(80), minute(15)]);
});

test('a hold keeps a confirmed payment processing and says why', () => {
  const result = settle(base, [transferOf('100@5 x6', 0)], { BTC: tip(minute(10), { holdReason: 'a deep reorganization' }) }, minute(10));
  assert.equal(result.status, 'processing');
  assert.equal(result.holdReason, 'a deep reorganization');
});

test('with several sources a transfer counts up to the depth at which all of them have its block and those above it', () => {
  const at = (confirmations: number, agreement: NonNullable<Tip['agreement']>) =>
    settle(base, [transferOf(`100@5 x${confirmations}`, 0)], { BTC: tip(minute(10), { agreement }) }, minute(10));
  const agreed = (height: number) => ({ height, above: null, lockUsdCents: null });
  // Two confirmations are required, so the sources must agree on the transfer's block and on the one after it.
  assert.deepEqual([at(3, agreed(HEIGHT)).status, at(3, agreed(HEIGHT - 1)).status], ['completed', 'completed']);
  const short = at(3, agreed(HEIGHT - 2));
  assert.deepEqual(
    [short.status, short.holdReason],
    ['processing', `the sources of this chain have not agreed on block ${HEIGHT - 1} yet`],
  );
  for (const height of [HEIGHT - 3, -1]) {
    const lacks = at(3, agreed(height));
    assert.deepEqual(
      [lacks.status, lacks.holdReason],
      ['processing', `the sources of this chain have not agreed on block ${HEIGHT - 2} yet`],
    );
  }
  // The sources agree on more than was read: only what was read counts.
  assert.equal(at(1, agreed(HEIGHT + 5)).status, 'processing');
  assert.equal(at(1, agreed(HEIGHT + 5)).holdReason, null, 'it waits for blocks, and nothing holds it');
});

test('a confirmation needs the work of a usual block; counts are shown as they are', () => {
  const at = (confirmations: number, provenHeights?: number[]) =>
    settle(
      base,
      [transferOf(`100@5 x${confirmations}`, 0)],
      { BTC: tip(minute(10), { ...(provenHeights && { provenHeights }) }) },
      minute(10),
    );
  // Two confirmations are required: its own block and one above, each worth a usual one.
  assert.equal(at(2).status, 'completed', 'no proof is required');
  assert.equal(at(2, [HEIGHT, HEIGHT - 1]).status, 'completed');
  const forged = at(30, [HEIGHT - 29, HEIGHT - 30]);
  assert.deepEqual(
    [forged.status, forged.confirmations, forged.holdReason],
    ['processing', 30, 'the blocks that confirm it have less work than usual, so it waits for more'],
  );
  for (const heights of [[], [HEIGHT]]) assert.equal(at(30, heights).status, 'processing', 'less is proven than is required');
  assert.equal(at(1, []).holdReason, null, 'it waits for blocks first');
});

test('a Dash lock needs no work; the depth that replaces it does', () => {
  const payment = { ...base, targetUsdCents: 9_000n, quotes: [{ ...quote, coin: 'DASH' as const }] };
  const t = { ...transferOf('90@5 x8', 0), coin: 'DASH' as const, units: 90_000_000n };
  const status = (transfer: Transfer, provenHeights: number[]) =>
    settle(payment, [transfer], { DASH: tip(minute(10), { chainlockHeight: 0, provenHeights }) }, minute(10)).status;
  assert.deepEqual([status({ ...t, lock: 'instantsend' }, []), status(t, [])], ['completed', 'processing']);
  const heights = (below: number) => Array.from({ length: 6 }, (_, i) => HEIGHT - below - i);
  assert.deepEqual([status(t, heights(0)), status(t, heights(2)), status(t, heights(3))], ['completed', 'completed', 'processing']);
});

test('above the quorum amount a payment waits for the second source, up to it one is enough', () => {
  const reason = 'payments above 100 USD need two sources';
  const at = (usdCents: bigint) =>
    settle(
      base,
      [transferOf('100@5 x2', 0)],
      { BTC: tip(minute(10), { agreement: { height: HEIGHT, above: { usdCents, reason }, lockUsdCents: null } }) },
      minute(10),
    );
  assert.deepEqual([at(10_000n).status, at(10_000n).holdReason], ['completed', null]);
  assert.deepEqual([at(9_999n).status, at(9_999n).holdReason], ['processing', reason]);
});

test('a lock from your own node completes a small Dash payment before the sources agree on its block', () => {
  const payment = { ...base, targetUsdCents: 9_000n, quotes: [{ ...quote, coin: 'DASH' as const }] };
  const t = { ...transferOf('90@5 x0', 0), coin: 'DASH' as const, units: 90_000_000n, lock: 'instantsend' as const };
  const status = (transfer: Transfer, lockUsdCents: bigint | null, height = HEIGHT - 1) =>
    settle(
      payment,
      [transfer],
      { DASH: tip(minute(10), { chainlockHeight: 0, agreement: { height, above: null, lockUsdCents } }) },
      minute(10),
    ).status;
  const mined = { ...t, block: { height: HEIGHT, hash: 'b', time: minute(6) } };
  assert.deepEqual([status(t, 100_000n), status(mined, 100_000n)], ['completed', 'completed']);
  assert.deepEqual([status(t, 8_999n), status(t, null), status(mined, null)], ['processing', 'processing', 'processing']);
  assert.equal(status(mined, null, HEIGHT), 'completed', 'once its block is agreed on, whichever source reports the lock');
  // Depth does not replace a lock: blocks without agreement do not lock.
  const deep = { ...mined, lock: null, block: { height: HEIGHT - 30, hash: 'b', time: minute(6) } };
  assert.equal(status(deep, 100_000n, HEIGHT - 31), 'processing');
});

/** 100 USD when the payer may have sent more, in whole dollars. */
const among = ({ transaction = 0, merchant = 0 }: { transaction?: number; merchant?: number }): Transfer => {
  const t = transferOf('100@5 x2', 0);
  const company = { transactionUsdCents: BigInt(transaction) * 100n, merchantUsdCents: BigInt(merchant) * 100n };
  return { ...t, values: [{ ...t.values[0]!, company }] };
};
test('what one transaction pays to many payments counts as one amount', () => {
  const needs = (t: Transfer) => settle(base, [t], { BTC: tip(minute(10)) }, minute(10)).confirmationsRequired;
  assert.equal(needs(among({ transaction: 100 })), 2);
  assert.equal(needs(among({ transaction: 999 })), 2);
  assert.equal(needs(among({ transaction: 1_000 })), 3);
  assert.equal(needs(among({ transaction: 10_000 })), 6);
  assert.equal(settle(base, [among({ transaction: 1_000 })], { BTC: tip(minute(10)) }, minute(10)).status, 'processing');
});

test('other small payments of the merchant that wait at the same time count for a quarter', () => {
  const needs = (t: Transfer) => settle(base, [t], { BTC: tip(minute(10)) }, minute(10)).confirmationsRequired;
  assert.equal(needs(among({ merchant: 3_999 })), 2);
  assert.equal(needs(among({ merchant: 4_000 })), 3);
  assert.equal(needs(among({ merchant: 40_000 })), 6);
});

test('a payment in several transfers shows the confirmations of the one that needs the most', () => {
  const [small, large] = [transferOf('50@5 x2', 0), { ...among({ transaction: 5_000 }), ref: 't9:0' }];
  const result = settle(base, [small, large], { BTC: tip(minute(10)) }, minute(10));
  assert.deepEqual([result.confirmations, result.confirmationsRequired], [2, 3]);
});

test('Dash completes on a lock, or by depth without one', () => {
  const payment = { ...base, quotes: [{ ...quote, coin: 'DASH' as const }] };
  const t = { ...transferOf('90@5 x0', 0), coin: 'DASH' as const, units: 90_000_000n };
  const due = { ...payment, targetUsdCents: 9_000n };
  const status = (transfer: Transfer, chainlockHeight: number | null) =>
    settle(due, [transfer], { DASH: tip(minute(10), { chainlockHeight }) }, minute(10)).status;
  assert.equal(status({ ...t, lock: 'instantsend' }, null), 'completed');
  assert.equal(status(t, null), 'processing');
  const deep = (n: number) => ({ ...t, block: { height: HEIGHT - n + 1, hash: 'b', time: minute(5) } });
  assert.equal(status(deep(6), HEIGHT - 100), 'completed');
  assert.equal(status(deep(6), null), 'processing');
  assert.equal(status(deep(24), null), 'completed');
});

test('opt-in acceptance of late transfers', () => {
  const payment = { ...base, rules: { ...rules, lateAcceptMinutes: 30 }, status: 'expired' as const };
  assert.equal(settle(payment, [transferOf('100@80 x0', 0)], { BTC: tip(minute(81)) }, minute(81)).status, 'processing');
  assert.equal(settle(payment, [transferOf('100@95 x0', 0)], { BTC: tip(minute(96)) }, minute(96)).status, 'expired');
  assert.equal(settle(payment, [transferOf('90@80 x0', 0)], { BTC: tip(minute(81)) }, minute(81)).status, 'expired');
});

test('after a refund, late transfers wait for the merchant; what was accepted before stays accepted', () => {
  const payment = { ...base, rules: { ...rules, lateAcceptMinutes: 30 }, hasRefund: true };
  const transfers = [transferOf('60@5 x2', 0), transferOf('40@70 x2', 1)];
  const settled = (status: PaymentStatus, hasRefund = true) => {
    const result = settle({ ...payment, status, hasRefund }, transfers, { BTC: tip(minute(81)) }, minute(81));
    return [result.status, result.exception, result.uncounted.map(({ state, units }) => `${state} ${units}`).join()];
  };
  for (const status of ['pending', 'failed', 'expired'] as const) {
    assert.deepEqual(settled(status), [status === 'pending' ? 'failed' : status, 'late', 'held 40000']);
    assert.deepEqual(settled(status, false), ['completed', null, '']);
  }
  assert.deepEqual(settled('processing'), ['completed', null, '']);
  assert.deepEqual(settled('completed'), ['completed', null, '']);
});

test('a payment that counts as paid although a little is missing shows how much', () => {
  const short = (usd: number, decisions: Decision[] = [], status: PaymentStatus = 'pending') => {
    const now = minute(decisions.length > 0 ? 66 : 10);
    const result = settle({ ...base, status, decisions }, [transferOf(`${usd}@5 x2`, 0)], { BTC: tip(now) }, now);
    return [result.status, result.shortUnits, result.shortUsdE8];
  };
  assert.deepEqual(short(99.5), ['completed', 500n, E8_PER_USD / 2n]);
  assert.deepEqual(short(100), ['completed', 0n, 0n]);
  assert.deepEqual(short(120), ['completed', 0n, 0n]);
  assert.deepEqual(short(60), ['pending', 0n, 0n], 'what still has to come is remaining, not short');
  // Also by a decision.
  assert.deepEqual(short(60, [{ kind: 'accept', at: minute(65), transfers: ['t0:0'] }], 'failed'), [
    'completed',
    40_000n,
    40n * E8_PER_USD,
  ]);
  // Rounding alone does not count as an underpayment.
  const rounded = {
    ...transferOf('100@5 x2', 0),
    values: [{ usdE8: 100n * E8_PER_USD - 1n, at: minute(5), basis: 'quote', reason: 'first_sight' } as const],
  };
  assert.equal(settle(base, [rounded], { BTC: tip(minute(10)) }, minute(10)).shortUsdE8, 0n);
});

test('money that arrives but does not count is on hold until it is accepted, rejected or refunded', () => {
  const [early, late, other] = [transferOf('60@5 x2', 0), transferOf('40@70 x2', 1), transferOf('30@71 x2', 2)];
  const uncounted = (decisions: Decision[], status: PaymentStatus = 'failed', transfers = [early, late, other]) =>
    settle({ ...base, status, decisions }, transfers, { BTC: tip(minute(90)) }, minute(90)).uncounted.map(
      ({ coin, state, units, usdE8 }) => `${coin} ${state} ${units} ${usdE8 === null ? '?' : usdE8 / E8_PER_USD}`,
    );
  const decide = (kind: Decision['kind'], ...transfers: Transfer[]): Decision => ({
    kind,
    at: minute(80),
    transfers: transfers.map((t) => t.ref),
  });
  assert.deepEqual(uncounted([]), ['BTC held 70000 70']);
  assert.deepEqual(uncounted([decide('accept', late)]), ['BTC held 30000 30']);
  assert.deepEqual(uncounted([decide('accept', late, other)]), []);
  // Rejecting closes the payment: what counted before is on hold again.
  assert.deepEqual(uncounted([decide('reject', late)]), ['BTC held 90000 90', 'BTC rejected 40000 40']);
  assert.deepEqual(uncounted([decide('reject', late), decide('refund_sent', early, late, other)]), ['BTC refunded 130000 130']);
  assert.deepEqual(uncounted([decide('refund_sent', late), decide('accept', late)]), ['BTC held 90000 90']);
  assert.deepEqual(uncounted([], 'failed', [early, { ...late, values: [] }, other]), ['BTC held 70000 ?'], 'no price yet');
});

test('transfers below the dust floor do not count, and their sum is shown', () => {
  const crumbs = Array.from({ length: 1_000 }, (_, i) => ({ ...transferOf('0.5@5 x1', i), units: 516n }));
  const result = settle(base, crumbs, { BTC: tip(minute(10)) }, minute(10));
  assert.deepEqual([result.status, result.receivedUnits, result.dustUnits], ['pending', 0n, 516_000n]);
  const gone = crumbs.map((t, i) => (i < 10 ? { ...t, block: null, conflict: { txid: 'other', height: HEIGHT, seenAt: minute(6) } } : t));
  assert.equal(settle(base, gone, { BTC: tip(minute(10)) }, minute(10)).dustUnits, 516n * 990n);
});

test('an ended payment is due again when one of its transfers has been absent for a day, and until the follower says so', () => {
  const absent: Transfer = { ...transferOf('100@5 x0', 0), absentSince: minute(10) };
  for (const status of ['completed', 'expired', 'failed', 'cancelled'] as const) {
    const at = (now: Date, scanned: Date) => settle({ ...base, status }, [absent], { BTC: tip(scanned) }, now).nextDueAt;
    const gone = minute(10 + 24 * 60);
    assert.deepEqual(at(minute(70), minute(70)), gone, status);
    assert.ok(at(gone, minute(70))! > gone, status);
    assert.equal(at(gone, gone), null, status);
  }
});

test('money in a coin that was not asked for never counts automatically, and waits for the merchant', () => {
  const wrong: Transfer = { ...transferOf('500@5 x20', 1), coin: 'ETH', kind: 'direct' };
  const tips = { BTC: tip(minute(70)), ETH: tip(minute(70)) };
  const at = (m: number, transfers: Transfer[], more: Partial<PaymentFacts> = {}) =>
    settle({ ...base, ...more }, transfers, tips, minute(m));
  const held = [{ coin: 'ETH', state: 'held', units: wrong.units, usdE8: 500n * E8_PER_USD }];
  const open = at(10, [wrong]);
  assert.deepEqual([open.status, open.exceptions, open.coin, open.receivedUsdE8], ['pending', ['wrong_network'], 'BTC', 0n]);
  assert.deepEqual([open.uncounted, open.extension], [held, null], 'it moves no deadline');
  assert.deepEqual([at(70, [wrong]).status, at(70, [wrong]).exceptions], ['expired', ['wrong_network']], 'the merchant is notified');
  const unpriced = { ...wrong, values: [] };
  assert.equal(at(70, [unpriced]).status, 'expired', 'a missing price keeps nothing open');
  const paid = at(10, [transferOf('100@5 x2', 0), wrong]);
  assert.deepEqual(
    [paid.status, paid.exceptions, paid.receivedUsdE8, paid.uncounted],
    ['completed', ['wrong_network'], 100n * E8_PER_USD, held],
  );
  const accepted = at(70, [wrong], { status: 'expired', decisions: [{ kind: 'accept', at: minute(70), transfers: [wrong.ref] }] });
  assert.deepEqual([accepted.status, accepted.coin], ['processing', 'ETH'], 'until it is final for its amount');
  const quoted = at(10, [wrong], { quotes: [quote, { ...quote, coin: 'ETH' }] });
  assert.equal(quoted.receivedUsdE8, 500n * E8_PER_USD, 'both coins were asked for');
});
