/** What a poll at the tip says about known transactions, connections and addresses, without a database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRelay } from '../chains/bitcoin/p2p/relay.ts';
import { createPeerMempool } from '../chains/bitcoin/p2p/source.ts';
import type { Sighting } from '../chains/chain-source.ts';
import type { Coin } from '../core/coin.ts';
import { type Absences, connectionAt, freshLosers, judgePresence, stillPresent } from './poll-tip.ts';
import type { AddressOwner, WaitingTransaction } from './sightings.ts';
import { assignOwners } from './watching.ts';

const waiting = (txid: string, { absent = false, contested = false } = {}): WaitingTransaction => ({
  txid,
  firstSeenAt: new Date(0),
  absent,
  absentSince: null,
  unminedSince: null,
  contested,
  doubted: absent || contested,
});

test('a transaction is gone after two polls in a row without it, once; it is back with the first poll that shows it', () => {
  const poll = (before: Absences, rows: WaitingTransaction[], ...present: string[]) => judgePresence(before, rows, new Set(present));
  const first = poll(new Map(), [waiting('a'), waiting('b')], 'b');
  assert.deepEqual([first.gone, first.back], [[], []]);
  const second = poll(first.absences, [waiting('a'), waiting('b')]);
  assert.deepEqual([second.gone, second.back], [['a'], []]);
  // Recorded by now, so not reported again.
  const third = poll(second.absences, [waiting('a', { absent: true }), waiting('b')], 'b');
  assert.deepEqual([third.gone, third.back], [[], []]);
  const fourth = poll(third.absences, [waiting('a', { absent: true }), waiting('b')], 'a', 'b');
  assert.deepEqual([fourth.gone, fourth.back], [[], ['a']]);
  const fifth = poll(fourth.absences, [waiting('a')]);
  assert.deepEqual([fifth.gone, fifth.absences.get('a')], [[], 1], 'the count starts again');
});

test('what peers only announced, and no block brought for three days, is gone, though nobody can say that it was dropped', async () => {
  const clock = { now: () => new Date(0), monotonicMs: () => 0 };
  const relay = createRelay({ clock, witnesses: 2, witnessOf: () => 'a', onSeen: () => {}, leave: () => {} });
  const fetchMempool = createPeerMempool({ relay, family: 'BTC', clock, heardSinceMs: () => 0, settledMs: 0 });
  const found = await (await fetchMempool(null)).scan({
    has: () => false,
    watchesSpends: false,
    spends: () => false,
    recent: () => [],
    waiting: [],
  });
  const rows = [waiting('a')];
  const shown = (days: number) => stillPresent(found, rows, new Date(days * 86_400_000)).has('a');
  assert.deepEqual([shown(0), shown(2.9), shown(3.1), shown(365)], [true, true, false, false]);
  const polled = judgePresence(new Map([['a', 1]]), rows, stillPresent(found, rows, new Date(4 * 86_400_000)));
  assert.deepEqual(polled.gone, ['a']);
  assert.equal(stillPresent({ present: new Set(['a']) }, rows, new Date(365 * 86_400_000)).has('a'), true, 'a node knows its mempool');
});

test('a replaced transaction that the mempool shows again is back; known double-spends are not written again', () => {
  assert.deepEqual(judgePresence(new Map(), [waiting('a', { contested: true })], new Set(['a'])).back, ['a']);
  const losers = [
    { txid: 'a', by: 'c' },
    { txid: 'b', by: 'c' },
  ];
  assert.deepEqual(freshLosers(losers, [waiting('a', { contested: true }), waiting('b')]), [{ txid: 'b', by: 'c' }]);
});

test('a connection counts from the first poll with peers, and a source that does not say counts as connected', () => {
  let connection = connectionAt({ sinceMs: null }, 8, 1_000);
  connection = connectionAt(connection, 3, 61_000);
  assert.equal(connection.sinceMs, 1_000);
  connection = connectionAt(connection, 0, 62_000);
  assert.equal(connection.sinceMs, null);
  assert.equal(connectionAt(connection, null, 63_000).sinceMs, 63_000);
});

test('an address with an owner is a payment’s, even if it counts as unissued; deposits to unissued ones are separate outputs', () => {
  const sighting = (key: string): Sighting & { coin: Coin } => ({
    coin: 'BTC',
    key,
    ref: `t:${key}`,
    txid: 't',
    units: 7n,
    outputs: [
      [0, 3n],
      [2, 4n],
    ],
    kind: 'output',
    spends: [],
    lock: null,
  });
  const owner: AddressOwner = { paymentId: 'pay_1', merchantId: 'mer_1', address: 'x', createdAt: new Date(0) };
  const spare = { walletId: 'wal_1', merchantId: 'mer_1', index: 4n, address: 'y' };
  const { sightings, strays } = assignOwners(
    ['own', 'both', 'spare', 'unknown'].map(sighting),
    new Map(Object.entries({ own: owner, both: owner })),
    new Map(Object.entries({ both: spare, spare })),
  );
  assert.deepEqual(
    sightings.map(({ key, owner: of }) => [key, of.paymentId]),
    [
      ['own', 'pay_1'],
      ['both', 'pay_1'],
    ],
  );
  assert.deepEqual(
    strays.map(({ key, ref, units, spare: of }) => [key, ref, units, of.walletId]),
    [
      ['spare', 't:0', 3n, 'wal_1'],
      ['spare', 't:2', 4n, 'wal_1'],
    ],
  );
});
