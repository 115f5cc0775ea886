/** What a payment shows as received, by what arrived, when, and whether the chain still has it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base, minute, tip, transferOf } from '../../test/kit/facts.ts';
import type { PaymentFacts, Transfer } from './payment.ts';
import { paymentDetail } from './payment-detail.ts';
import { settle } from './settle.ts';

const shownOf = (facts: PaymentFacts, transfers: readonly Transfer[]) => {
  const now = minute(300);
  const settlement = settle(facts, transfers, { BTC: tip(now) }, now);
  const view = {
    ...{ merchantId: 'mer_1', sequence: 1n, version: 1n, facts, settlement, transfers, transfersCount: transfers.length },
    ...{
      refundedUnits: 0n,
      quote: null,
      derivationPath: null,
      invoiceId: null,
      metadata: {},
      replacedBy: null,
      customer: null,
      createdWith: 'secret' as const,
    },
    request: { returnUrl: null, description: null, items: null, taxMinor: null, fiat: null, asset: null, locale: null },
    ...{ scenario: null, nextScenarios: [], eventCount: 1n, now },
  };
  return paymentDetail(view, 'https://pay.example');
};

const expired = { ...base, status: 'expired' as const };
const failed = { ...base, status: 'failed' as const };
const canceled = { ...base, status: 'cancelled' as const, decisions: [{ kind: 'cancel' as const, at: minute(10), transfers: [] }] };
const decided = (kind: 'reject' | 'refund_sent') => ({
  ...expired,
  decisions: [{ kind, at: minute(120), transfers: ['t0:0'] }],
});

/** Due are 100 USD, 0.00100000 BTC, until minute 60. Columns: what is received, what of it is on hold, transaction, confirmations. */
const ROWS: readonly (readonly [string, PaymentFacts, string, string, string, string, string | null, number])[] = [
  ['nothing arrived', expired, '', '0.00000000', '0.00', '0.00000000', null, 0],
  ['all of it came late', expired, '100@90 x3', '0.00100000', '100.00', '0.00100000', 't0', 3],
  ['it came late and waits for a block', expired, '100@90 x0', '0.00000000', '0.00', '0.00000000', 't0', 0],
  ['a part came in time, the rest late', failed, '40@5 x4, 60@90 x2', '0.00100000', '100.00', '0.00060000', 't0', 4],
  ['too little came in time', failed, '40@5 x4', '0.00040000', '40.00', '0.00000000', 't0', 4],
  ['it came after the payment was canceled', canceled, '100@20 x2', '0.00100000', '100.00', '0.00100000', 't0', 2],
  ['two came late, one was replaced', expired, '40@90 x0!, 60@91 x2', '0.00060000', '60.00', '0.00060000', 't1', 2],
  ['what came late was replaced in a block', expired, '100@90 x0!!', '0.00000000', '0.00', '0.00000000', null, 0],
  ['what came late lost its block and was double-spent', expired, '100@90 x0!!~', '0.00000000', '0.00', '0.00000000', null, 0],
  ['late money was rejected: it is still there', decided('reject'), '100@90 x3', '0.00100000', '100.00', '0.00000000', 't0', 3],
  ['late money was sent back', decided('refund_sent'), '100@90 x3', '0.00100000', '100.00', '0.00000000', 't0', 3],
];

for (const [name, facts, transfers, units, usd, held, hash, confirmations] of ROWS)
  test(`received, when ${name}`, () => {
    const list = transfers === '' ? [] : transfers.split(',').map(transferOf);
    const shown = shownOf(facts, list);
    assert.deepEqual(
      [shown.amount_received, shown.amount_received_usd, shown.amount_held, shown.transaction_hash, shown.confirmations],
      [units, usd, held, hash, confirmations],
    );
    assert.equal(shown.status, facts.status, 'it decides nothing');
  });
