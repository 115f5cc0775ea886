/** Transactions that members enter for refunds and payouts: how they are read, and when another one may take their place. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../core/problem.ts';
import { REFUND_STATES } from '../core/refund.ts';
import { checkNoFile, mayBeCorrected, readTxid, simulatedTxid } from './decisions.ts';

test('a transaction ID has 64 hexadecimal digits, with 0x on chains of accounts and without it on others', () => {
  const hex = 'aB'.repeat(32);
  assert.equal(readTxid('BTC', ` ${hex} `), hex.toLowerCase());
  assert.equal(readTxid('ETH', `0x${hex}`), `0x${hex.toLowerCase()}`);
  const refused = [
    ['BTC', `0x${hex}`],
    ['ETH', hex],
    ['BTC', hex.slice(1)],
    ['BTC', `${hex}0`],
    ['BTC', 'g'.repeat(64)],
    ['BTC', ''],
  ] as const;
  for (const [coin, text] of refused)
    assert.throws(
      () => readTxid(coin, text),
      (error: Problem) => error instanceof Problem && error.code === 'parameter_invalid' && error.param === 'txid',
    );
});

test('a transaction of a test is one of its coin, and its own for each refund and payout', () => {
  const one = { kind: 'refund', id: 'x_1', coin: 'LTC' } as const;
  assert.equal(readTxid('LTC', simulatedTxid(one)), simulatedTxid(one));
  assert.notEqual(simulatedTxid(one), simulatedTxid({ ...one, kind: 'payout' }));
  assert.match(simulatedTxid({ ...one, coin: 'ETH' }), /^0x[0-9a-f]{64}$/);
});

test('another transaction takes the place of one that was entered by hand and does not pay, or was not found three times', () => {
  const sent = { state: 'sent', sweepId: null, failure: null, missed: null } as const;
  assert.equal(mayBeCorrected(sent), false);
  assert.equal(mayBeCorrected({ ...sent, missed: 2 }), false);
  assert.equal(mayBeCorrected({ ...sent, missed: 3 }), true);
  assert.equal(mayBeCorrected({ ...sent, failure: 'does not pay' }), true);
  assert.equal(mayBeCorrected({ ...sent, failure: 'does not pay', sweepId: 'swp_1' }), false, 'that of a file is never replaced');
  for (const state of REFUND_STATES) if (state !== 'sent') assert.equal(mayBeCorrected({ ...sent, state, missed: 9 }), false);
});

test('what an open file sends is neither canceled nor sent by hand, unless it failed', () => {
  const one = { kind: 'refund', id: 'ref_1', fileId: 'swp_1' } as const;
  for (const state of REFUND_STATES) {
    if (state === 'failed') checkNoFile({ ...one, state });
    else
      assert.throws(
        () => checkNoFile({ ...one, state }),
        (error: Problem) => error.code === 'refund_in_file',
      );
    checkNoFile({ ...one, kind: 'payout', fileId: null, state });
  }
});
