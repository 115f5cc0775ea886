/** What shops learn about charges: every state of a payment, and properties over random histories of payments. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { history, live, terms } from '../../../test/kit/payment-world.ts';
import { type Decision, EXCEPTIONS, type Exception, PAYMENT_STATUSES, type PaymentStatus } from '../../core/payment.ts';
import type { PaymentStanding } from '../shop-money.ts';
import { type ChargeEntry, type ChargeEvent, type ChargeStatus, chargeSince, chargeState, currentEvent } from './charge-body.ts';

const standing = (status: PaymentStatus, exceptions: readonly Exception[] = [], ...kinds: Decision['kind'][]): PaymentStanding => ({
  ...{ status, exceptions },
  decisions: kinds.map((kind) => ({ kind })),
});
const shown = ({ status, context }: Pick<ChargeEntry, 'status' | 'context'>): string =>
  context === null ? status : `${status}/${context}`;
const AT = { createdAt: new Date('2026-11-22T10:10:53.400Z'), now: new Date('2026-11-22T10:12:00Z') };

test('every state of a payment has its state of a charge', () => {
  const is = (payment: PaymentStanding, expected: string) => assert.equal(shown(chargeState(payment)), expected, JSON.stringify(payment));
  // Whatever else is said about a payment that is under way or decided.
  const PLAIN = { pending: 'NEW', processing: 'PENDING', completed: 'COMPLETED', cancelled: 'CANCELED' } as const;
  for (const [status, expected] of Object.entries(PLAIN))
    for (const exceptions of [[], ...EXCEPTIONS.map((name) => [name])])
      is(
        standing(status as PaymentStatus, exceptions),
        status === 'completed' && exceptions[0] === 'reorged' ? 'UNRESOLVED/OTHER' : expected,
      );
  for (const status of ['expired', 'failed'] as const) {
    is(standing(status, ['late']), 'UNRESOLVED/DELAYED');
    is(standing(status, ['late', 'underpaid'], 'reject'), 'UNRESOLVED/DELAYED');
    is(standing(status, ['wrong_network']), 'UNRESOLVED/OTHER');
    is(standing(status, ['wrong_token']), 'UNRESOLVED/OTHER');
    is(standing(status, ['underpaid']), 'UNRESOLVED/UNDERPAID');
    is(standing(status, ['underpaid'], 'reject'), 'CANCELED');
    is(standing(status, [], 'reject'), 'CANCELED');
  }
  is(standing('expired'), 'EXPIRED');
  is(standing('failed'), 'CANCELED');
  is(standing('failed', ['replaced']), 'CANCELED');
});

/** The events of each step, with the last entry of their timelines, and the timeline at the end. */
function story(...steps: PaymentStanding[]): { events: string[][]; timeline: string[] } {
  let timeline: readonly ChargeEntry[] = [];
  const events = steps.map((payment) => {
    const news = chargeSince(timeline, payment, AT);
    timeline = news.timeline;
    return news.events.map((event) => `${event.type} ${shown(event.timeline.at(-1)!)}`);
  });
  return { events, timeline: timeline.map(shown) };
}

test('a payment in time, step by step and all at once', () => {
  const expected = ['charge:created NEW', 'charge:pending PENDING', 'charge:confirmed COMPLETED'];
  const stepwise = story(standing('pending'), standing('processing'), standing('completed', ['overpaid']));
  assert.deepEqual(
    stepwise.events,
    expected.map((event) => [event]),
  );
  assert.deepEqual(story(standing('completed')).events, [expected]);
  assert.deepEqual(stepwise.timeline, ['NEW', 'PENDING', 'COMPLETED']);
  assert.equal(chargeSince([], standing('pending'), AT).timeline[0]!.time, '2026-11-22T10:10:53Z');
});

test('late money is unresolved until it is accepted, and ends completed', () => {
  const { events, timeline } = story(
    ...[
      standing('expired'),
      standing('expired', ['late']),
      standing('completed', [], 'accept'),
      standing('completed', ['overpaid'], 'accept'),
    ],
  );
  assert.deepEqual(events, [
    ['charge:created NEW', 'charge:failed EXPIRED'],
    ['charge:delayed UNRESOLVED/DELAYED'],
    ['charge:pending PENDING', 'charge:resolved COMPLETED'],
    [],
  ]);
  assert.deepEqual(timeline, ['NEW', 'EXPIRED', 'UNRESOLVED/DELAYED', 'PENDING', 'RESOLVED', 'COMPLETED']);
});

test('a reversed charge is unresolved, whatever the shop missed, and completed again once its money is back', () => {
  const { events, timeline } = story(
    ...[standing('completed'), standing('completed', ['reorged']), standing('completed', ['reorged', 'overpaid']), standing('completed')],
    standing('completed', ['reorged']),
  );
  assert.deepEqual(events.slice(1), [
    ['charge:failed UNRESOLVED/OTHER'],
    [],
    ['charge:resolved COMPLETED'],
    ['charge:failed UNRESOLVED/OTHER'],
  ]);
  assert.deepEqual(timeline, ['NEW', 'PENDING', 'COMPLETED', 'UNRESOLVED/OTHER', 'RESOLVED', 'COMPLETED', 'UNRESOLVED/OTHER']);
  assert.deepEqual(story(standing('completed', ['reorged']), standing('completed')).events, [
    ['charge:created NEW', 'charge:failed UNRESOLVED/OTHER'],
    ['charge:pending PENDING', 'charge:confirmed COMPLETED'],
  ]);
  // Before completion, money that lost its block is no news.
  assert.deepEqual(story(standing('processing'), standing('processing', ['reorged'])).events[1], []);
});

test('underpaid, canceled and rejected payments fail; money that vanishes is no news', () => {
  assert.deepEqual(story(standing('pending'), standing('failed', ['underpaid'])).events[1], ['charge:failed UNRESOLVED/UNDERPAID']);
  assert.deepEqual(story(standing('pending'), standing('cancelled')).events[1], ['charge:failed CANCELED']);
  assert.deepEqual(story(standing('expired', ['late']), standing('expired', [], 'reject')).events[1], ['charge:failed CANCELED']);
  assert.deepEqual(story(standing('processing'), standing('pending'), standing('processing')).events.slice(1), [[], []]);
});

test('a timeline stays bounded, and keeps its first entry', () => {
  const { timeline } = story(...Array.from({ length: 200 }, (_, i) => standing('expired', i % 2 === 0 ? [] : ['late'])));
  assert.equal(timeline.length, 50);
  assert.deepEqual([timeline[0], timeline.at(-1)], ['NEW', 'UNRESOLVED/DELAYED']);
});

/** What a shop must never see in the events of one charge. */
function checkEvents(events: readonly ChargeEvent[]): void {
  for (const [i, { type, timeline }] of events.entries()) {
    const last: ChargeStatus = timeline.at(-1)!.status;
    assert.equal(type === 'charge:created', i === 0, 'charge:created comes first, and once');
    assert.equal(type === 'charge:confirmed' || type === 'charge:resolved', last === 'COMPLETED');
    // Plugins credit the order on it.
    assert.notEqual(last, 'RESOLVED');
    const before = events[i - 1]?.timeline.at(-1);
    const wasCompleted = events.slice(0, i).some((one) => one.timeline.at(-1)!.status === 'COMPLETED');
    if (before?.status === 'COMPLETED') assert.equal(shown(timeline.at(-1)!), 'UNRESOLVED/OTHER', 'only a reversal follows COMPLETED');
    // Shops that deliver when a charge is confirmed do it once.
    if (wasCompleted) assert.notEqual(type, 'charge:confirmed');
    else if (last === 'COMPLETED') assert.equal(events[i - 1]!.type, 'charge:pending');
  }
}

// Invariant: Over random histories, the events of a charge are legal, and nothing is completed that is not.
test('over random histories, the events of a charge are legal, whatever a worker missed', () => {
  const reached = new Set<PaymentStatus>();
  fc.assert(
    fc.property(terms, history, fc.array(fc.boolean(), { minLength: 1 }), (given, moments, looks) => {
      const { entries } = live(given, moments);
      const events: ChargeEvent[] = [];
      let timeline: readonly ChargeEntry[] = [];
      for (const [i, { facts, result }] of entries.entries()) {
        // A worker that was killed, or was slow, sees only some of the states; the last one always.
        if (i < entries.length - 1 && !looks[i % looks.length]) continue;
        const payment = { ...facts, status: result.status, exceptions: result.exceptions };
        reached.add(result.status);
        const wasCompleted = timeline.at(-1)?.status === 'COMPLETED';
        const news = chargeSince(timeline, payment, AT);
        assert.deepEqual(chargeSince(news.timeline, payment, AT), { events: [], timeline: news.timeline }, 'the same state has no news');
        ({ timeline } = news);
        events.push(...news.events);
        const last = timeline.at(-1)!;
        if (last.status === 'COMPLETED') assert.ok(wasCompleted || result.status === 'completed', 'nothing is completed that is not');
        else if (result.status !== 'pending') assert.equal(shown(last), shown(chargeState(payment)), 'the last entry decides');
        assert.equal(shown(currentEvent(timeline).timeline.at(-1)!), shown(last));
      }
      checkEvents(events);
    }),
    { numRuns: process.env.FLORIN_LONG ? 50_000 : 1_000 },
  );
  assert.deepEqual([...reached].sort(), [...PAYMENT_STATUSES].sort(), 'every status is reached');
});
