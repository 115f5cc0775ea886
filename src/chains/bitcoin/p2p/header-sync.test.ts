/** Reading the headers of peers: the next ones are on their way while the last ones are checked, and nothing is read twice for long. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { eventually } from '../../../../test/kit/app.ts';
import { createRegtestHeaders, createServedChain } from '../../../../test/kit/regtest-chain.ts';
import { createLog } from '../../../log.ts';
import { createHeaderSync, type HeaderView, MOST_UNCOMPARED } from './header-sync.ts';
import { MAX_HEADERS, type WireHeader } from './messages.ts';
import type { Peer } from './peer.ts';

const { headers } = createServedChain(3 * MAX_HEADERS + 500);
const above = (locator: readonly string[]): WireHeader[] => {
  const from = headers.findLastIndex(({ hash }) => locator.includes(hash)) + 1;
  return headers.slice(from, from + MAX_HEADERS).map(({ header }) => header);
};
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };

/** A peer that answers with `answer`, and counts what it sent. */
function createPeer(port: number, answer: (locator: readonly string[]) => Promise<WireHeader[]> | WireHeader[] = above) {
  const asked: (readonly string[])[] = [];
  let sent = 0;
  let bytesIn = 0;
  let reason: string | null = null;
  const peer = {
    endpoint: { host: '127.0.0.1', port },
    closed: () => reason,
    stats: () => ({ bytesIn }),
    readHeaders: async (locator: readonly string[]) => {
      asked.push(locator);
      const found = await answer(locator);
      sent += found.length;
      return found;
    },
  } as unknown as Peer;
  return {
    peer,
    asked,
    sent: () => sent,
    receive: (bytes: number) => {
      bytesIn += bytes;
    },
    leave: (why: string) => {
      reason = why;
    },
  };
}
function createSync(view: HeaderView, time = clock) {
  const left: string[] = [];
  const sync = createHeaderSync({ view, leave: (_, why) => left.push(why), onGrown: () => {}, clock: time, log: createLog('silent') });
  return { sync, left };
}

test('the next headers are asked for before the last ones are checked, after the last one that was sent', async () => {
  const memory = createRegtestHeaders();
  const gate = Promise.withResolvers<void>();
  const { sync, left } = createSync({
    ...memory,
    add: async (list, peer, giving) => {
      await gate.promise;
      return memory.add(list, peer, giving);
    },
  });
  const one = createPeer(1);
  sync.onOpen(one.peer);
  await eventually(
    async () => one.asked.length,
    (asked) => asked === 2,
  );
  assert.equal(memory.tip().height, 0);
  assert.equal(one.asked[1]![0], headers[MAX_HEADERS - 1]!.hash);
  gate.resolve();
  await eventually(
    async () => memory.tip().height,
    (height) => height === headers.length,
  );
  assert.equal(one.sent(), headers.length, 'nothing was sent twice');
  assert.deepEqual([left, sync.isSyncing(), sync.heightOf(one.peer)], [[], false, headers.length]);
});

test('two peers that are read at the same time are both kept, and send little twice', async () => {
  const memory = createRegtestHeaders();
  const { sync, left } = createSync(memory);
  const peers = [createPeer(1), createPeer(2)];
  for (const { peer } of peers) sync.onOpen(peer);
  await eventually(
    async () => peers.map(({ peer }) => sync.heightOf(peer)),
    (heights) => heights.every((height) => height === headers.length),
  );
  assert.deepEqual(left, []);
  const sent = peers.reduce((sum, one) => sum + one.sent(), 0);
  // The second one sends two full answers before it steps back, and shows at the end that it has the tip.
  assert.ok(sent <= headers.length + 2 * MAX_HEADERS + 10, `${sent} headers were sent`);
});

test('a peer that sends the same headers again and again is left', async () => {
  const memory = createRegtestHeaders();
  const { sync, left } = createSync(memory);
  const first = above([]);
  const liar = createPeer(1, () => first);
  sync.onOpen(liar.peer);
  await eventually(
    async () => left,
    ({ length }) => length === 1,
  );
  assert.deepEqual(left, ['it sends the same headers again and again']);
  assert.ok(liar.asked.length <= 6, `it was asked ${liar.asked.length} times`);
});

test('peers on slow lines that are still sending are waited for; one that falls silent, or only trickles, is not', async () => {
  let ms = 0;
  const { sync, left } = createSync(createRegtestHeaders(), { now: () => new Date(), monotonicMs: () => ms });
  const never = Promise.withResolvers<WireHeader[]>().promise;
  const peers = [1, 2, 3, 4].map((port) => createPeer(port, () => never));
  for (const { peer } of peers) sync.onOpen(peer);
  const [first, second] = peers as [(typeof peers)[0], (typeof peers)[0]];
  const asked = () => peers.map((one) => one.asked.length);
  const pass = (seconds: number, rates: readonly [number, number]) => {
    for (let i = 0; i < seconds; i++) {
      ms += 1_000;
      first.receive(rates[0]);
      second.receive(rates[1]);
      sync.tick();
    }
  };
  await eventually(
    async () => asked(),
    (counts) => counts[1] === 1,
  );
  pass(55, [30_000, 25_000]);
  await setImmediate();
  assert.deepEqual(asked(), [1, 1, 0, 0], 'nobody is asked for the same');
  pass(6, [30_000, 1_000]);
  await eventually(
    async () => asked(),
    (counts) => counts[2] === 1,
  );
  assert.deepEqual(asked(), [1, 1, 1, 0]);
  assert.deepEqual(left, []);
});

test('peers whose new headers have no end do not keep the others from being asked: each has its turn', async () => {
  const memory = createRegtestHeaders();
  let sent = 0;
  const dummy = { bytes: Buffer.alloc(80), auxpow: null };
  const full = Array.from({ length: MAX_HEADERS }, () => dummy);
  const never = Promise.withResolvers<WireHeader[]>().promise;
  const endless = () => {
    sync.tick();
    if (sent >= 4 * MOST_UNCOMPARED) return never;
    sent += MAX_HEADERS;
    return full;
  };
  const sentAtFirst = new Map<number, number>();
  const known = (port: number) => () => {
    if (!sentAtFirst.has(port)) sentAtFirst.set(port, sent);
    return full;
  };
  const { sync, left } = createSync({
    ...memory,
    add: async (list, peer) => ({ added: peer.endsWith(':1') || peer.endsWith(':2') ? list.length : 0, last: '' }),
    hashOf: () => '',
  });
  for (const peer of [createPeer(1, endless), createPeer(2, endless), createPeer(3, known(3)), createPeer(4, known(4))])
    sync.onOpen(peer.peer);
  await eventually(
    async () => sent,
    (headers) => headers >= 4 * MOST_UNCOMPARED,
  );
  // Each of them has answers on their way while others are read.
  const late = 8 * MAX_HEADERS;
  for (const [port, turn] of [
    [3, 1],
    [4, 2],
  ] as const) {
    const at = sentAtFirst.get(port)!;
    assert.ok(at >= turn * MOST_UNCOMPARED && at <= turn * (MOST_UNCOMPARED + late), `${port}: ${at}`);
  }
  assert.deepEqual(left, []);
});
