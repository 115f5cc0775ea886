/** The words of notices that another version stored. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { detailFromJson, detailToJson, NOTICE_KINDS, noticePath, noticeText } from './notice-kinds.ts';

test('details are stored with a version and read unchanged, also without one', () => {
  const detail = { payment: 'pay_1', price: '12.00', invoice: null, percent: 80 };
  const stored = JSON.parse(JSON.stringify(detailToJson(detail)));
  assert.equal(stored.v, 1);
  assert.deepEqual([detailFromJson(stored), detailFromJson(detail)], [detail, detail]);
});

test('notices about refunds and payouts say what waits, without amounts of payouts, and lead to its screen', () => {
  const refund = { what: 'refund', amount: '0.01 BTC' };
  const rows: [kind: (typeof NOTICE_KINDS)[number], detail: Record<string, string | number>, words: string, path: string][] = [
    ['money_out_waiting', { ...refund, reason: 'approval' }, 'A refund of 0.01 BTC is waiting for approval.', 'refunds'],
    [
      'money_out_waiting',
      { ...refund, reason: 'invoice' },
      'A refund of 0.01 BTC waits for another invoice: the one that the customer entered expired. If you paid it, enter the preimage.',
      'refunds',
    ],
    ['money_out_waiting', { what: 'payout', reason: 'approval', count: 1 }, 'A payout is waiting for approval.', 'payouts'],
    [
      'money_out_waiting',
      { what: 'payout', reason: 'second', count: 1200 },
      '1,200 payouts are waiting for the approval of a second member.',
      'payouts',
    ],
    ['money_out_failed', { ...refund, reason: 'failed' }, 'A refund of 0.01 BTC failed.', 'refunds'],
    ['money_out_failed', { what: 'payout', reason: 'failed', count: 1 }, 'A payout failed.', 'payouts'],
  ];
  for (const [kind, detail, words, path] of rows) assert.deepEqual([noticeText(kind, detail), noticePath(kind, detail)], [words, path]);
});

test('every notice has words and a path, whatever its details are', () => {
  for (const kind of NOTICE_KINDS)
    for (const stored of [undefined, null, 'x', [], {}, { ip: {}, by: [1], coin: true, payment: 7, change: 'a_new_one', was: false }]) {
      const detail = detailFromJson(stored);
      const words = noticeText(kind, detail);
      assert.doesNotMatch(words, /undefined|null|NaN|\[object/, `${kind}: ${words}`);
      assert.match(noticePath(kind, detail), /^[a-z]+(\/7)?$/);
    }
});
