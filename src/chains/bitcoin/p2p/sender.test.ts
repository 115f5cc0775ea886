/** Which peers our transactions are announced to, and what their silence means. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Peer } from './peer.ts';
import { createSender } from './sender.ts';

const peersOf = (count: number) => {
  const offers: string[] = [];
  const connected = Array.from({ length: count }, (_, i) => ({ offer: () => offers.push(String(i)) }) as unknown as Peer);
  return { offers, connected };
};
const transaction = { txid: 'ab'.repeat(32), bytes: new Uint8Array(60) };

test('a transaction is announced to four peers, to those first that announce nothing to us', () => {
  const { offers, connected } = peersOf(8);
  const sender = createSender({
    peers: () => ({ connected: () => connected, relaying: () => connected.slice(0, 3) }),
    isSeen: () => false,
  });
  sender.send(transaction);
  assert.equal(offers.length, 4);
  assert.ok(offers.every((i) => Number(i) >= 3));
});

test('one that no peer asked for is announced again, and said to be refused; not once it was taken or is seen', () => {
  const { offers, connected } = peersOf(2);
  let seen = false;
  const sender = createSender({ peers: () => ({ connected: () => connected, relaying: () => [] }), isSeen: () => seen });
  sender.send(transaction);
  assert.throws(() => sender.send(transaction), { kind: 'refused', message: /no peer has asked for it yet/ });
  assert.equal(offers.length, 4);
  seen = true;
  sender.send(transaction);
  seen = false;
  sender.onTaken(transaction.txid);
  sender.send(transaction);
  connected.length = 0;
  assert.throws(() => sender.send(transaction), { kind: 'outage' });
});
