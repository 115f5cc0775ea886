/** How many requests an endpoint gets at the same time, and how long leases are: without a database or a network. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  beginRequest,
  endRequest,
  forgetIdle,
  MOST_ROOM,
  type Paces,
  REMEMBERED,
  readRetryAfter,
  roomFor,
  SLOW_MS,
  storeFailure,
} from './deliver.ts';
import { ATTEMPT_MS } from './dialect.ts';
import { FIRST_ROOM, LEASE_SECONDS, ORDERED_LEASE_SECONDS } from './queue.ts';

const fast = { failed: false, durationMs: 20 };
const failed = { failed: true, durationMs: 20 };
/** Starts so many requests to an endpoint. */
function begin(paces: Paces, endpointId: string, times = 1, failing = false): void {
  for (let i = 0; i < times; i++) beginRequest(paces, { endpointId, merchantId: 'mer_1', failing });
}

test('an endpoint that responds quickly gets twice as many requests each time, up to a limit; failures and slowness halve them', () => {
  const paces: Paces = new Map();
  const allowed = (outcome: typeof fast) => {
    begin(paces, 'a');
    endRequest(paces, 'a', outcome);
    if (outcome.failed) storeFailure(paces, 'a');
    return paces.get('a')!.allowed;
  };
  assert.deepEqual([fast, fast, fast].map(allowed), [FIRST_ROOM * 2, MOST_ROOM, MOST_ROOM]);
  assert.equal(allowed({ failed: false, durationMs: SLOW_MS + 1 }), MOST_ROOM / 2);
  assert.equal(paces.get('a')!.suspect, true, 'slow');
  assert.equal(allowed({ failed: false, durationMs: SLOW_MS }), MOST_ROOM);
  assert.deepEqual([failed, failed, failed, failed, failed].map(allowed), [8, 4, 2, 1, 1]);
  assert.equal(paces.get('a')!.underWay, 0);
});

test('a success frees its slot at once; a failure only when it is stored, so that the rows it delays are not leased before', () => {
  const paces: Paces = new Map();
  begin(paces, 'a', 3);
  endRequest(paces, 'a', fast);
  assert.equal(paces.get('a')!.underWay, 2);
  endRequest(paces, 'a', failed);
  assert.equal(paces.get('a')!.underWay, 2);
  storeFailure(paces, 'a');
  assert.equal(paces.get('a')!.underWay, 1);
});

test('failing and slow endpoints share half of the slots; the other half stays free for those that respond', () => {
  const paces: Paces = new Map();
  const room = (running: number) => roomFor(paces, { running, concurrency: 128 });
  assert.deepEqual(room(0), {
    ...{ limit: 128, suspectLimit: 64, merchantLimit: 32, merchantSuspectLimit: 16, lanes: 256 },
    ...{ rooms: [], shares: [] },
  });
  begin(paces, 'bad', 40, true);
  begin(paces, 'good', 10);
  const { limit, suspectLimit, lanes, rooms } = room(50)!;
  assert.deepEqual([limit, suspectLimit, lanes], [78, 24, 156]);
  assert.deepEqual(
    rooms.map(({ endpointId, underWay, suspect }) => [endpointId, underWay, suspect]),
    [
      ['bad', 40, true],
      ['good', 10, false],
    ],
  );
  assert.deepEqual(room(50)!.shares, [{ merchantId: 'mer_1', underWay: 50, suspects: 40 }]);
  begin(paces, 'bad', 40, true);
  assert.deepEqual([room(90)!.limit, room(90)!.suspectLimit], [38, 0]);
  assert.deepEqual([room(125)!.limit, room(125)!.lanes], [3, 32], 'some endpoints beyond the free slots, because many have nothing due');
  assert.equal(room(128), null);
});

test('a worker forgets endpoints without requests, never those with some', () => {
  const paces: Paces = new Map();
  for (let i = 0; i < REMEMBERED; i++) begin(paces, `e${i}`);
  endRequest(paces, 'e0', fast);
  forgetIdle(paces);
  assert.equal(paces.size, REMEMBERED, 'not too many yet');
  begin(paces, 'new');
  forgetIdle(paces);
  assert.deepEqual([paces.size, paces.has('e0'), paces.has('new')], [REMEMBERED, false, true]);
});

test('a lease lasts longer than an attempt and storing it, so that a delivery in flight is not sent twice', () => {
  assert.ok(LEASE_SECONDS * 1000 >= 2 * ATTEMPT_MS.florin);
  assert.ok(ORDERED_LEASE_SECONDS * 1000 >= 2 * ATTEMPT_MS.greenfield);
});

test('Retry-After is read as seconds or as an HTTP date; anything else is ignored', () => {
  const now = new Date('2026-03-01T12:00:00Z');
  assert.equal(readRetryAfter('120', now), 120);
  assert.equal(readRetryAfter('Sun, 01 Mar 2026 12:02:00 GMT', now), 120);
  assert.equal(readRetryAfter('Sun, 01 Mar 2026 11:59:00 GMT', now), -60);
  for (const text of ['', '-1', '1.5', '1e9', '1234567', 'soon', '2026-03-01T12:02:00Z', 'Sun, x GMT'])
    assert.equal(readRetryAfter(text, now), null, text);
  assert.equal(readRetryAfter(undefined, now), null);
});
