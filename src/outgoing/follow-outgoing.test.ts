/** Where a refund or a payout is, by what is known about its file and its transactions, in every combination. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mayBecome, REFUND_STATES } from '../core/refund.ts';
import { SWEEP_STATES } from '../signing/signing-files.ts';
import { failureText, statesBetween, targetState } from './follow-outgoing.ts';

const BOTH = [false, true];
const all = SWEEP_STATES.flatMap((file) =>
  BOTH.flatMap((signed) =>
    BOTH.flatMap((sent) => BOTH.flatMap((mined) => BOTH.map((expired) => ({ file, signed, sent, mined, expired })))),
  ),
);

test('only a mined transaction of a file that ended confirms, and only an expired authorization without one fails', () => {
  for (const one of all) {
    const target = targetState(one);
    const hasEnded = one.file === 'confirmed' || one.file === 'failed';
    assert.equal(target === 'confirmed', hasEnded && one.mined, JSON.stringify(one));
    assert.equal(target === 'failed', hasEnded && !one.mined && one.expired, JSON.stringify(one));
    if (target === 'approved') assert.ok(!one.sent && !one.signed);
  }
});

test('every path takes steps that are allowed, ends where it leads, and no path leaves an end', () => {
  for (const from of REFUND_STATES)
    for (const to of REFUND_STATES) {
      const path = statesBetween(from, to);
      if (path.length > 0) assert.equal(path.at(-1), to);
      let at = from;
      for (const state of path) {
        assert.ok(mayBecome(at, state), `${at} to ${state}`);
        at = state;
      }
    }
  assert.deepEqual(statesBetween('approved', 'confirmed'), ['signed', 'sent', 'confirmed']);
  assert.deepEqual(statesBetween('approved', 'failed'), ['signed', 'failed']);
  for (const end of ['confirmed', 'canceled'] as const) for (const to of REFUND_STATES) assert.deepEqual(statesBetween(end, to), []);
});

test('what failed says what all its transactions use, so that somebody can look where the money went', () => {
  const of = { kind: 'refund', from: null, validBefore: null, gathers: false } as const;
  assert.equal(
    failureText({ ...of, failure: null, anchor: 'ab:1' }),
    'another transaction spent the money. Every transaction of this refund spends the output ab:1. Check in a block explorer where the money went: the customer may have been paid.',
  );
  assert.match(
    failureText({ ...of, kind: 'payout', failure: 'its deposit moved', anchor: 'nonce:0xab:7' }),
    /^its deposit moved\. Every transaction of this payout uses the nonce 7 of the account 0xab\. .* the recipient may have been paid\.$/,
  );
});
