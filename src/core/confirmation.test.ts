/** When a transfer is confirmed, and what it still needs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, E8_PER_USD, minute, tip, transferOf } from '../../test/kit/facts.ts';
import { standingOf } from './confirmation.ts';
import type { Transfer } from './payment.ts';
import { settle } from './settle.ts';

test('each transfer has its own state: pending, confirmed, replaced, missing; with the confirmations that the payment requires', () => {
  const stands = (text: string, more: Partial<Transfer> = {}, facts = base, chain = tip(minute(10)), receivedUsd = 60n) => {
    const { state, confirmations, confirmationsRequired } = standingOf(
      facts,
      { ...transferOf(text, 0), ...more },
      receivedUsd * E8_PER_USD,
      {
        BTC: chain,
        DASH: chain,
      },
    );
    return `${state} ${confirmations} of ${confirmationsRequired}`;
  };
  assert.equal(stands('60@5 x0'), 'waiting 0 of 2');
  assert.equal(stands('60@5 x1'), 'waiting 1 of 2');
  assert.equal(stands('60@5 x2'), 'confirmed 2 of 2');
  assert.equal(stands('60@5 x0!'), 'replaced 0 of 2');
  assert.equal(stands('60@5 x0!!'), 'replaced 0 of 2');
  assert.equal(stands('60@5 x2!'), 'confirmed 2 of 2', 'in a block after all');
  assert.equal(stands('60@5 x0', { absentSince: minute(6) }), 'absent 0 of 2');
  assert.equal(stands('60@5 x0~'), 'waiting 0 of 2', 'out of its block, to be mined again');
  assert.equal(stands('60@5 x2', {}, base, tip(minute(10)), 20_000n), 'waiting 2 of 6', 'what was received may ask for more');
  // Rules that do not count confirmations report no number.
  assert.equal(stands('60@5 x0', { coin: 'DASH', lock: 'instantsend' }), 'confirmed 0 of null');
  assert.equal(stands('60@5 x0', { coin: 'DASH' }), 'waiting 0 of null');
  for (const text of ['60@5 x0', '60@5 x1', '60@5 x2']) {
    const settled = settle(base, [transferOf(text, 0)], { BTC: tip(minute(10)) }, minute(10));
    assert.ok(stands(text).endsWith(` ${settled.confirmations} of ${settled.confirmationsRequired}`), 'as the payment tells it');
  }
});
