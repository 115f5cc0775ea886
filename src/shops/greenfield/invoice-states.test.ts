/** What shops learn about payments: the table of the recordings, and properties over random histories of payments. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { checkSequence } from '../../../test/kit/invoice-sequence.ts';
import { history, live, terms } from '../../../test/kit/payment-world.ts';
import { readShopFile } from '../../../test/kit/shop-flows.ts';
import type { Decision, Exception, PaymentStatus } from '../../core/payment.ts';
import { rolesOf } from '../../core/settle.ts';
import type { PaymentStanding } from '../shop-money.ts';
import {
  type ArrivedTransfer,
  eventsSince,
  INVOICE_STATUSES,
  type InvoiceEvent,
  type InvoiceHistory,
  type InvoiceStatus,
  invoiceState,
  NOTHING_TOLD,
} from './invoice-body.ts';

type Row = { florin: string; exceptions: string[]; greenfield: { status: string; additionalStatus: string } };
const rows: Row[] = readShopFile('states').rows;

test('every row of the table of states is as recorded', () => {
  let compared = 0;
  for (const { florin, exceptions, greenfield } of rows) {
    const decisions: Pick<Decision, 'kind'>[] = /by accept/.test(florin) ? [{ kind: 'accept' }] : [];
    for (const name of florin.replace(/ \(.*| by .*/, '').split(' or ')) {
      const state = invoiceState({ status: name as PaymentStatus, exceptions: exceptions as Exception[], decisions });
      // "None or PaidOver": what it was before.
      assert.ok(
        greenfield.additionalStatus.split(' or ').includes(state.additionalStatus),
        `${florin} ${exceptions}: ${state.additionalStatus}`,
      );
      assert.equal(state.status, greenfield.status, `${florin} ${exceptions}`);
      compared++;
    }
  }
  assert.ok(compared >= 17, String(compared));
});

const standing = (status: PaymentStatus, exceptions: Exception[] = [], ...kinds: Decision['kind'][]): PaymentStanding => ({
  ...{ status, exceptions },
  decisions: kinds.map((kind) => ({ kind })),
});
const arrives = (more: Partial<ArrivedTransfer> = {}): ArrivedTransfer => ({
  ref: 't:0',
  coin: 'BTC',
  isSettled: false,
  isLate: false,
  ...more,
});
/** The types of the events of each step, one after another. */
function story(...steps: [PaymentStanding, ...ArrivedTransfer[]][]): string[][] {
  let told: InvoiceHistory = NOTHING_TOLD;
  return steps.map(([payment, ...arrived]) => {
    const news = eventsSince(told, payment, arrived);
    told = news.told;
    return news.events.map(({ type, ...flags }) => [type, ...Object.entries(flags).flatMap(([k, v]) => (v === true ? [k] : []))].join(' '));
  });
}

test('a payment in time: seen, covered, confirmed, settled', () => {
  assert.deepEqual(
    story([standing('pending')], [standing('processing'), arrives()], [standing('completed'), arrives({ isSettled: true })]),
    [['InvoiceCreated'], ['InvoiceReceivedPayment', 'InvoiceProcessing'], ['InvoicePaymentSettled', 'InvoiceSettled']],
  );
});

test('everything at once is reported in the same order', () => {
  assert.deepEqual(story([standing('completed', ['overpaid']), arrives({ isSettled: true })]), [
    ['InvoiceCreated', 'InvoiceReceivedPayment', 'InvoiceProcessing overPaid', 'InvoicePaymentSettled', 'InvoiceSettled overPaid'],
  ]);
});

test('late money is held, and reported as partly paid; once accepted, it is processing and then settled, without a check by hand', () => {
  const late = arrives({ isLate: true, isSettled: true });
  assert.deepEqual(
    story(
      [standing('expired')],
      [standing('expired', ['late']), late],
      [standing('processing', [], 'accept'), late],
      [standing('completed', [], 'accept'), late],
      [standing('completed', ['reorged'], 'accept'), late],
    ),
    [
      ['InvoiceCreated', 'InvoiceExpired'],
      ['InvoiceReceivedPayment afterExpiration'],
      ['InvoiceProcessing'],
      ['InvoiceSettled manuallyMarked'],
      [],
    ],
  );
});

test('a payment that vanishes is new again without an event, and processing again with one', () => {
  assert.deepEqual(story([standing('processing'), arrives()], [standing('pending')], [standing('processing'), arrives()]), [
    ['InvoiceCreated', 'InvoiceReceivedPayment', 'InvoiceProcessing'],
    [],
    ['InvoiceProcessing'],
  ]);
});

test('canceled and rejected payments are marked by hand', () => {
  assert.deepEqual(story([standing('pending')], [standing('cancelled', [], 'cancel')]), [
    ['InvoiceCreated'],
    ['InvoiceInvalid manuallyMarked'],
  ]);
  assert.deepEqual(story([standing('expired', ['late']), arrives({ isLate: true })], [standing('expired', [], 'reject'), arrives()])[1], [
    'InvoiceInvalid manuallyMarked',
  ]);
});

const MOVES: Readonly<Record<InvoiceStatus, readonly InvoiceStatus[]>> = {
  New: ['New', 'Processing', 'Settled', 'Expired', 'Invalid'],
  Processing: ['Processing', 'New', 'Settled', 'Expired', 'Invalid'],
  // The merchant accepts or rejects late money; exceptions of an ended payment change.
  Expired: ['Expired', 'Processing', 'Settled', 'Invalid'],
  Invalid: ['Invalid', 'Processing', 'Settled', 'Expired'],
  Settled: ['Settled'],
};

// Invariant: Over random histories, what a shop learns is legal, and never that a late payment is paid.
test('over random histories, the events of an invoice are legal, whatever a worker missed, and its state is never paid late', () => {
  const reached = new Set<string>();
  fc.assert(
    fc.property(terms, history, fc.array(fc.boolean(), { minLength: 1 }), (given, moments, looks) => {
      const { entries } = live(given, moments);
      const events: InvoiceEvent[] = [];
      let told: InvoiceHistory = NOTHING_TOLD;
      let last: InvoiceStatus = 'New';
      for (const [i, { facts, transfers, tips, result }] of entries.entries()) {
        const payment = { ...facts, status: result.status, exceptions: result.exceptions };
        const state = invoiceState(payment);
        assert.ok(
          INVOICE_STATUSES.includes(state.status) && ['None', 'PaidPartial', 'PaidOver', 'Marked'].includes(state.additionalStatus),
        );
        if (state.status === 'Settled') assert.equal(result.status, 'completed', 'nothing is settled that is not completed');
        assert.ok(MOVES[last].includes(state.status), `${last} to ${state.status}`);
        last = state.status;
        reached.add(state.status);
        // A worker that was killed, or was slow, sees only some of the states; the last one always.
        if (i < entries.length - 1 && !looks[i % looks.length]) continue;
        const roles = rolesOf(facts, transfers, tips);
        const arrived = transfers.flatMap((t): ArrivedTransfer[] => {
          const role = roles.get(t)!;
          const isLate = t.firstSeenAt > result.expiresAt;
          return role === 'small' || role === 'contested' || role === 'gone'
            ? []
            : [{ ref: t.ref, coin: t.coin, isSettled: t.block !== null, isLate }];
        });
        const news = eventsSince(told, payment, arrived);
        // The same state again has no news.
        assert.deepEqual(eventsSince(news.told, payment, arrived), { events: [], told: news.told });
        events.push(...news.events);
        ({ told } = news);
        assert.equal(told.status, state.status, 'the shop knows the current status');
      }
      checkSequence(events);
    }),
    { numRuns: process.env.FLORIN_LONG ? 50_000 : 3_000 },
  );
  assert.deepEqual([...reached].sort(), [...INVOICE_STATUSES].sort(), 'every status is reached');
});
