/** Which peers our transactions are announced to, and what their silence means. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Peer } from './peer.ts';
import { createSender } from './sender.ts';

const peersOf = (count: number) => {
  const offers: string[] = [];
  const connected = Array.from({ length: count }, (_, i) => ({ offer: () => offers.push(String(i)) }) as unknown as Peer);
  return { offers, connected };
};
const transaction = { txid: 'ab'.repeat(32), bytes: new Uint8Array(60) };

test('a transaction is announced to four peers, to those first that announce nothing to us', async () => {
  const { offers, connected } = peersOf(8);
  const sender = createSender({
    peers: () => ({ connected: () => connected, relaying: () => connected.slice(0, 3) }),
    isSeen: () => true,
  });
  await sender.send(transaction);
  assert.equal(offers.length, 4);
  assert.ok(offers.every((i) => Number(i) >= 3));
});

test('a transaction counts as sent once a peer asks for it, at the first announcement, too', async () => {
  const { connected, offers } = peersOf(2);
  const sender = createSender({ peers: () => ({ connected: () => connected, relaying: () => [] }), isSeen: () => false, takenMs: 60_000 });
  let sent = false;
  const sending = sender.send(transaction).then(() => {
    sent = true;
  });
  await setTimeout(300);
  assert.deepEqual([offers.length, sent], [2, false]);
  sender.onTaken(transaction.txid);
  await sending;
  assert.equal(sent, true);
});

test('one that no peer asked for is refused each time; not once it was taken or is seen', async () => {
  const { offers, connected } = peersOf(2);
  let seen = false;
  const sender = createSender({
    ...{ peers: () => ({ connected: () => connected, relaying: () => [] }), isSeen: () => seen },
    takenMs: 200,
  });
  const isRefused = { kind: 'refused', message: /no peer has asked for it yet/ };
  await assert.rejects(sender.send(transaction), isRefused);
  await assert.rejects(sender.send(transaction), isRefused);
  assert.equal(offers.length, 4);
  seen = true;
  await sender.send(transaction);
  seen = false;
  sender.onTaken(transaction.txid);
  await sender.send(transaction);
  connected.length = 0;
  await assert.rejects(sender.send(transaction), { kind: 'outage' });
});
