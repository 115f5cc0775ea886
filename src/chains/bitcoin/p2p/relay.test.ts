/** Announced transactions: how many peers it takes, and when something was passed over, so that a poll is not complete. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Peer } from './peer.ts';
import { createPeerMempool } from './peer-mempool.ts';
import { createRelay, RELAY_LIMITS, type RelayLimits } from './relay.ts';

const clock = { ms: 0, now: () => new Date(0), monotonicMs: () => clock.ms };
const txid = (i: number): string => i.toString(16).padStart(64, '0');
const inv = (...numbers: number[]) => numbers.map((i) => ({ type: 1, hash: txid(i) }));

type Asked = { peer: Peer; hashes: string[] };
function relayOf(limits: Partial<RelayLimits> = {}) {
  const asked: Asked[] = [];
  const left: string[] = [];
  const peer = (name: string): Peer => {
    const one = { name, askTransactions: (hashes: readonly string[]) => asked.push({ peer: one, hashes: [...hashes] }) } as never as Peer;
    return one;
  };
  const relay = createRelay({
    clock,
    witnesses: 2,
    witnessOf: (one) => (one as never as { name: string }).name,
    onSeen: () => {},
    leave: (_, reason) => left.push(reason),
    limits: { ...RELAY_LIMITS, ...limits },
  });
  return { relay, asked, left, peer };
}
const send = (relay: ReturnType<typeof relayOf>['relay'], peer: Peer, i: number, bytes = 100) =>
  relay.onTransaction(peer, { txid: txid(i), bytes: Buffer.alloc(bytes) });

test('two peers must announce a transaction, and the same one twice is one', () => {
  const { relay, peer } = relayOf();
  const [a, b] = [peer('a'), peer('b')];
  relay.onItems(a, inv(1));
  relay.onItems(a, inv(1));
  send(relay, a, 1);
  assert.deepEqual([relay.has(txid(1)), relay.fresh().length], [false, 0]);
  relay.onItems(b, inv(1));
  assert.deepEqual([relay.has(txid(1)), relay.fresh().length], [true, 1]);
});

test('requests that are over the limit of one peer go to the next; only when nobody is asked something is lost', () => {
  const { relay, asked, peer } = relayOf({ open: 2 });
  const [a, b, c] = [peer('a'), peer('b'), peer('c')];
  relay.onItems(a, inv(1, 2, 3));
  assert.deepEqual(asked.at(-1)!.hashes, [txid(1), txid(2)]);
  assert.equal(relay.tookAll(), true);
  relay.onItems(b, inv(3));
  assert.deepEqual(asked.at(-1), { peer: b, hashes: [txid(3)] });
  relay.onItems(b, inv(4, 5));
  relay.onItems(a, inv(4));
  assert.equal(relay.tookAll(), true);
  // Seen by two, and neither could be asked for it.
  relay.onItems(a, inv(5));
  assert.equal(relay.tookAll(), false);
  assert.equal(relay.tookAll(), true);
  relay.onItems(c, inv(5));
  assert.deepEqual(asked.at(-1), { peer: c, hashes: [txid(5)] });
});

test('what one peer alone announced gives way to what two announced', () => {
  const { relay, peer } = relayOf({ waitingBytes: 1_000 });
  const [liar, a, b] = [peer('liar'), peer('a'), peer('b')];
  for (let i = 1; i <= 10; i++) {
    relay.onItems(liar, inv(i));
    send(relay, liar, i);
  }
  relay.onItems(a, inv(11));
  relay.onItems(b, inv(11));
  send(relay, a, 11);
  assert.deepEqual(
    relay.fresh().map((one) => one.txid),
    [txid(11)],
  );
  assert.equal(relay.tookAll(), true);
  // Without anything that may give way, it is lost, and that is known.
  for (let i = 12; i <= 21; i++) {
    relay.onItems(a, inv(i));
    relay.onItems(b, inv(i));
    send(relay, a, i);
  }
  assert.equal(relay.tookAll(), false);
});

// Invariant: A poll of peers is complete an hour after they began to announce without a gap.
test('a poll is complete an hour after peers began to announce without a gap, and again an hour after a loss', async () => {
  const relay = relayOf({ open: 1 });
  let heardSinceMs = 0;
  const poll = createPeerMempool({ relay: relay.relay, family: 'BTC', clock, heardSinceMs: () => heardSinceMs, settledMs: 3_600_000 });
  const matcher = { has: () => false, watchesSpends: false, spends: () => false, recent: () => [], waiting: [] };
  const look = async (ms: number) => {
    clock.ms = ms;
    const { complete, incomplete } = await (await poll()).scan(matcher);
    return { complete, incomplete };
  };
  assert.deepEqual(await look(600_000), {
    complete: false,
    incomplete: 'peers have announced transactions without a gap for 10 of 60 minutes',
  });
  assert.deepEqual(await look(3_600_000), { complete: true, incomplete: null });
  const [a, b] = [relay.peer('a'), relay.peer('b')];
  for (const one of [a, b]) relay.relay.onItems(one, inv(1, 2));
  relay.relay.onItems(a, inv(3));
  relay.relay.onItems(b, inv(3));
  assert.equal((await look(3_700_000)).complete, false);
  assert.equal((await look(3_700_000 + 3_599_999)).complete, false);
  assert.equal((await look(3_700_000 + 3_600_000)).complete, true);
  // Too few peers announce: it begins again.
  heardSinceMs = 8_000_000;
  assert.equal((await look(8_000_000)).complete, false);
});

test('what one peer alone announced is asked for at the others, and one that sends it is the second, whatever a third one announces', () => {
  const { relay, asked, peer } = relayOf({ second: 2 });
  const [a, b, liar] = [peer('a'), peer('b'), peer('liar')];
  for (let i = 1; i <= 10; i++) {
    relay.onItems(liar, inv(i));
    send(relay, liar, i);
  }
  relay.onItems(a, inv(11, 12));
  send(relay, a, 11);
  asked.splice(0);
  relay.tick([a, b, liar]);
  assert.equal(asked.flatMap(({ hashes }) => hashes).length, 0, 'others may still announce it');
  clock.ms += 5_000;
  relay.tick([a, b, liar]);
  // Nothing of 12, which the first peer did not send.
  assert.deepEqual(asked, [
    { peer: a, hashes: [txid(1), txid(2)] },
    { peer: b, hashes: [txid(1), txid(2), txid(11)] },
    { peer: liar, hashes: [txid(11)] },
  ]);
  send(relay, a, 11);
  assert.equal(relay.has(txid(11)), false, 'the same peer again');
  send(relay, b, 11);
  assert.equal(relay.has(txid(11)), true);
  assert.deepEqual(
    relay.fresh().map((one) => one.txid),
    [txid(11)],
  );
  for (const pauseMs of [10_000, 20_000, 40_000, 80_000, 160_000, 320_000]) {
    asked.splice(0);
    const isAsked = () => asked.some(({ hashes }) => hashes.includes(txid(1)));
    relay.tick([b]);
    assert.equal(isAsked(), false);
    clock.ms += pauseMs;
    for (let i = 0; i < 5; i++) relay.tick([b]);
    assert.equal(isAsked(), pauseMs < 320_000, `after ${pauseMs} ms`);
  }
});
