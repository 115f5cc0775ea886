/** Which peers our transactions are offered to, and what shows that one has spread. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Peer } from './peer.ts';
import { createSender, type Sender } from './peer-service.ts';

const transaction = { txid: 'ab'.repeat(32), bytes: new Uint8Array(60) };
const announced = [{ type: 1, hash: transaction.txid }];

/** So many peers, the first of them announcing transactions to us. `floors`: what they say they take. */
function world(count: number, { relaying = 0, floors = [] as readonly bigint[], seenMs = 200 } = {}) {
  const offers: number[] = [];
  const listened: number[] = [];
  const connected = Array.from(
    { length: count },
    (_, i) =>
      ({
        endpoint: { host: `10.${i}.0.1`, port: 8333 },
        offer: () => offers.push(i),
        feeFloor: () => floors[i] ?? null,
      }) as unknown as Peer,
  );
  const seen = { byRelay: false };
  const sender: Sender = createSender({
    peers: () => ({ connected: () => connected, relaying: () => connected.slice(0, relaying) }),
    isSeen: () => seen.byRelay,
    listen: async (peer) => void listened.push(connected.indexOf(peer)),
    ...{ lowest: 1_000n, seenMs },
  });
  return { sender, connected, offers, listened, seen };
}
const isUnseen = { kind: 'unseen', message: 'announced, and not seen at another peer yet; peers take fees from 1 sat/vB' };

test('a transaction is offered to four peers, to those first that announce nothing to us', async () => {
  const { sender, offers, seen } = world(8, { relaying: 3 });
  seen.byRelay = true;
  await sender.send(transaction);
  assert.equal(offers.length, 4);
  assert.ok(offers.every((i) => i >= 3));
});

test('it is out when a peer announces it that it was not offered, and not when those announce it that were', async () => {
  const { sender, connected, offers } = world(4, { relaying: 4, seenMs: 60_000 });
  let sent = false;
  const sending = sender.send(transaction).then(() => {
    sent = true;
  });
  await setTimeout(0);
  assert.equal(offers.length, 2, 'two are left to announce it');
  for (const i of offers) sender.onItems(connected[i]!, announced);
  assert.deepEqual([sent, sender.isOut(transaction.txid)], [false, false]);
  sender.onItems(connected.find((_, i) => !offers.includes(i))!, announced);
  await sending;
  assert.deepEqual([sent, sender.isOut(transaction.txid)], [true, true]);
});

test('one that no other peer announces is not out, however often it is offered; the words say which fee peers take', async () => {
  const { sender, offers, seen } = world(3, { relaying: 3 });
  await assert.rejects(sender.send(transaction), isUnseen);
  assert.equal(offers.length, 1);
  await assert.rejects(sender.send(transaction), isUnseen);
  assert.equal(new Set(offers).size, 2, 'the second time another peer');
  await assert.rejects(sender.send(transaction), isUnseen);
  assert.equal(new Set(offers).size, 2, 'one is always left that could announce it');
  seen.byRelay = true;
  await sender.send(transaction);
  const dear = world(3, { floors: [100_000n, 1_000n, 8_000n] });
  await assert.rejects(dear.sender.send(transaction), { ...isUnseen, message: /peers take fees from 8 sat\/vB$/ });
  assert.deepEqual(dear.offers, [1], 'the one that takes the lowest fee is asked first');
});

test('a single peer is listened to on a second connection', async () => {
  const { sender, listened, offers, connected } = world(1);
  await assert.rejects(sender.send(transaction), isUnseen);
  assert.deepEqual([listened, offers], [[0], [0]]);
  sender.onItems(connected[0]!, announced);
  await assert.rejects(sender.send(transaction), isUnseen, 'what it was offered itself proves nothing');
  sender.onItems(null, announced);
  await sender.send(transaction);
  connected.length = 0;
  await assert.rejects(sender.send(transaction), { kind: 'outage' });
});

test('the lowest fee is that of half of the peers, so that neither one alone nor one that takes nothing decides', () => {
  const floorOf = (...floors: bigint[]) => world(floors.length, { floors }).sender.floor();
  assert.equal(floorOf(), null);
  assert.equal(floorOf(1_000n, 8_000n, 100_000n), 8_000n);
  assert.equal(floorOf(1_000n, 1_000n, 1_000n, 2_100_000_000_000_000n), 1_000n);
  assert.equal(floorOf(1_000n, 100_000n), 100_000n);
});
