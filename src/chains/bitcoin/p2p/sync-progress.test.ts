/** Progress of the header chain: by block times, so that no peer can claim it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSyncProgress } from './network-peers.ts';
import { explainReport } from './peer-status.ts';

const DAY = 86_400;
const START = 1_700_000_000;
const NOW = START + 100 * DAY;
const look = { connected: 8, syncing: true, nowSeconds: NOW, nowMs: 0 };

test('the share of the time since the checkpoint, and the time left at the speed so far', () => {
  const progress = createSyncProgress({ startSeconds: START, binding: true });
  const at = (day: number, nowMs: number, more = {}) => progress({ ...look, tipSeconds: START + day * DAY, nowMs, ...more });
  assert.deepEqual(at(0, 0, { connected: 0 }), { phase: 'connecting', percent: 0, secondsLeft: null });
  assert.deepEqual(at(0, 1_000), { phase: 'headers', percent: 0, secondsLeft: null });
  assert.deepEqual(at(61.4, 62_400), { phase: 'headers', percent: 61, secondsLeft: 39 });
  assert.equal(explainReport({ connected: 8, trouble: null, ...at(61.4, 245_601) }), 'syncing headers 61%, about 3 minutes left');
  // All peers say that there is nothing more, but the newest block is two days old.
  assert.deepEqual(at(98, 100_000, { syncing: false }).phase, 'headers');
  assert.deepEqual(at(99.99, 101_000, { syncing: false }), { phase: 'ready', percent: 100, secondsLeft: null });
});

test('a new block does not make a complete chain incomplete; hours without the network do', () => {
  const progress = createSyncProgress({ startSeconds: START, binding: true });
  assert.equal(progress({ ...look, syncing: false, tipSeconds: NOW }).phase, 'ready');
  assert.equal(progress({ ...look, tipSeconds: NOW - 3_600 }).phase, 'ready');
  assert.equal(progress({ ...look, connected: 0, syncing: false, tipSeconds: NOW - DAY }).phase, 'ready');
  assert.equal(progress({ ...look, tipSeconds: NOW - DAY }).phase, 'headers');
});

test('a test network may stand still for years', () => {
  const progress = createSyncProgress({ startSeconds: START, binding: false });
  assert.equal(progress({ ...look, syncing: false, tipSeconds: START }).phase, 'ready');
});

test('what is missing is said in words', () => {
  const said = (more: object) => explainReport({ phase: 'ready', connected: 8, trouble: null, percent: 100, secondsLeft: null, ...more });
  assert.equal(said({}), null);
  assert.equal(said({ connected: 0 }), 'no peer is connected');
  assert.equal(
    said({ connected: 0, trouble: 'the last peer was lost: it does not answer' }),
    'no peer is connected; the last peer was lost: it does not answer',
  );
  assert.equal(said({ trouble: '9 peers were lost' }), 'no peer stays connected; 9 peers were lost');
  assert.equal(said({ phase: 'connecting', connected: 0 }), 'connecting to peers');
  assert.equal(said({ phase: 'headers', percent: 3, secondsLeft: 20_000 }), 'syncing headers 3%, about 6 hours left');
  assert.equal(said({ phase: 'headers', percent: 3 }), 'syncing headers 3%');
});
