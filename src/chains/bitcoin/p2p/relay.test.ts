/** Announced transactions: how many peers it takes, and when something was passed over, so that a poll is not complete. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Peer } from './peer.ts';
import { createRelay, RELAY_LIMITS, type RelayLimits } from './relay.ts';
import { createPeerMempool } from './source.ts';

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

test('requests that are over the limit of one peer wait for their turn, and nothing that only was announced is lost', () => {
  const { relay, asked, peer } = relayOf({ open: 2 });
  const [a, b] = [peer('a'), peer('b')];
  for (const one of [a, b]) relay.onItems(one, inv(1, 2, 3, 4, 5));
  assert.deepEqual(
    asked.map(({ hashes }) => hashes),
    [
      [txid(1), txid(2)],
      [txid(1), txid(2)],
    ],
  );
  asked.splice(0);
  for (const i of [1, 3]) send(relay, a, i);
  // What another one sent meanwhile is not asked for again.
  for (const i of [1, 4]) send(relay, b, i);
  assert.deepEqual(asked, [
    { peer: a, hashes: [txid(3)] },
    { peer: a, hashes: [txid(4)] },
    { peer: b, hashes: [txid(4)] },
    { peer: b, hashes: [txid(5)] },
  ]);
  for (const i of [2, 5]) send(relay, a, i);
  assert.equal(relay.tookAll(), true);
  assert.deepEqual(
    relay.fresh().map((one) => one.txid),
    [1, 3, 4, 2, 5].map(txid),
  );
});

/** Lets the clock run, a second for each call of `tick`. */
function pass(relay: ReturnType<typeof relayOf>['relay'], seconds: number): void {
  for (let i = 0; i < seconds; i++) {
    clock.ms += 1_000;
    relay.tick([]);
  }
}

test('a peer that sends less than half of what it announces is left, and it counts no longer; one that lost some to eviction stays', () => {
  const { relay, left, peer } = relayOf();
  const [liar, honest] = [peer('liar'), peer('honest')];
  const many = Array.from({ length: 400 }, (_, i) => i + 1);
  relay.onItems(liar, inv(...many));
  relay.onItems(honest, inv(...many));
  for (const i of many) if (i % 4 !== 0) send(relay, honest, i);
  pass(relay, 59);
  assert.deepEqual(left, []);
  pass(relay, 2);
  assert.deepEqual(left, ['it does not send the transactions that it announces']);
  assert.equal(relay.tookAll(), true);
  // Those that it announced before have one peer less.
  relay.onItems(liar, inv(1_000));
  send(relay, liar, 1_000);
  relay.onItems(liar, inv(...many.map((i) => 2_000 + i)));
  pass(relay, 61);
  assert.equal(left.length, 2);
  relay.onItems(honest, inv(1_000));
  assert.equal(relay.has(txid(1_000)), false);
  // A pause of this process is not theirs.
  relay.onItems(honest, inv(...many.map((i) => 4_000 + i)));
  clock.ms += 600_000;
  relay.tick([]);
  for (const i of many) send(relay, honest, 4_000 + i);
  pass(relay, 61);
  assert.equal(left.length, 2);
});

test('two peers that send more than the follower can read are left, and what another one announced too is kept', () => {
  const { relay, left, peer } = relayOf({ waitingBytes: 2_000 });
  const [a, b, honest] = [peer('a'), peer('b'), peer('honest')];
  relay.done([]);
  for (const one of [a, honest]) relay.onItems(one, inv(1));
  send(relay, a, 1);
  for (let i = 2; i <= 100; i++) {
    for (const one of [a, b]) relay.onItems(one, inv(i));
    send(relay, a, i);
    if (left.length > 0) break;
  }
  relay.onItems(honest, inv(200));
  relay.onItems(peer('other'), inv(200));
  send(relay, honest, 200);
  assert.deepEqual(new Set(left), new Set(['it sends more transactions than can be read']));
  assert.deepEqual(
    relay
      .fresh()
      .map((one) => one.txid)
      .filter((id) => [txid(1), txid(200)].includes(id)),
    [txid(1), txid(200)],
  );
  assert.equal(relay.tookAll(), true);
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
  const relay = relayOf({ waitingBytes: 1_000 });
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
  // The follower does not read, and there is room for no more.
  for (let i = 1; i <= 11; i++) {
    for (const one of [a, b]) relay.relay.onItems(one, inv(i));
    send(relay.relay, a, i);
  }
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
