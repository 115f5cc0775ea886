/** Who is blamed for a block that cannot be used: a peer only when that is certain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { BlockError } from '../block-proof.ts';
import { downloadBlock } from './block-reader.ts';
import type { Peer } from './peer.ts';

const block = { hash: 'ab'.repeat(32), header: Buffer.alloc(80) };
const ANSWERS: Readonly<Record<string, () => string>> = {
  real: () => 'the block',
  changed: () => {
    throw new BlockError('sender', 'the transactions do not have the merkle root of the header');
  },
  unreadable: () => {
    throw new BlockError('unknown', 'the bytes end too early');
  },
  beyondUs: () => {
    throw new Error('it is proven, but cannot be read');
  },
};
/** Asks peers that send these, one after the other. */
async function download(...answers: (keyof typeof ANSWERS)[]) {
  const asked: string[] = [];
  const refused: string[] = [];
  const peers = answers.map((answer, i) => ({
    name: `${i + 1}`,
    stats: () => ({ bytesIn: 0 }),
    readBlock: async () => {
      asked.push(`${i + 1}`);
      return Buffer.from(answer);
    },
  }));
  const result = await downloadBlock({
    block,
    peers: () => peers as unknown as Peer[],
    check: async (bytes) => ANSWERS[bytes.toString()]!(),
    refuse: (peer) => refused.push((peer as unknown as { name: string }).name),
    // The next peer is asked only when the one before has answered.
    nextPeerMs: 60_000,
  }).catch((error: Error) => error.message);
  return { result, asked: asked.join(''), refused: refused.join('') };
}
const { hash } = block;

for (const [answers, result, asked, refused] of [
  [['real'], 'the block', '1', ''],
  [['changed', 'real', 'real'], 'the block', '12', '1'],
  [['changed'], `no peer sends block ${hash}: the transactions do not have the merkle root of the header`, '1', '1'],
  // Another peer sent it in a form that can be read: so the first one is to blame.
  [['unreadable', 'real'], 'the block', '12', '1'],
  [['unreadable'], `block ${hash} cannot be read as a peer sends it: the bytes end too early`, '1', ''],
  [['unreadable', 'unreadable'], `block ${hash} cannot be read as 2 peers send it: the bytes end too early`, '12', ''],
  [['beyondUs', 'real'], 'it is proven, but cannot be read', '1', ''],
] as const)
  test(`peers that send ${answers.join(', then ')}: ${refused === '' ? 'none' : `peer ${refused}`} is refused`, async () => {
    assert.deepEqual(await download(...answers), { result, asked, refused });
  });

/** Peers that never finish, of which some send bytes meanwhile, and an honest one at the end. */
async function downloadBehind(waiting: readonly { bytes: number }[], enoughMs: number) {
  const asked: number[] = [];
  const over = Promise.withResolvers<Buffer>();
  const peers = [
    ...waiting.map(({ bytes }) => ({ bytes, answer: over.promise })),
    { bytes: 0, answer: Promise.resolve(Buffer.from('real')) },
  ];
  const connected = peers.map(({ bytes, answer }, i) => ({
    stats: () => ({ bytesIn: asked.includes(i) ? bytes : 0 }),
    readBlock: () => {
      asked.push(i);
      return answer;
    },
  })) as unknown as Peer[];
  const result = downloadBlock({
    block,
    peers: () => connected,
    check: async (bytes) => bytes.toString(),
    refuse: () => assert.fail('nobody is to blame'),
    nextPeerMs: 5,
  });
  // The time counts from when all of them were asked, however late that is.
  while (asked.length < waiting.length) await setTimeout(1);
  await Promise.race([result, setTimeout(enoughMs)]);
  const before = asked.length;
  over.resolve(Buffer.from('late'));
  return { result: await result, before };
}

test('seven peers that withhold a block do not keep the eighth from being asked', async () => {
  assert.deepEqual(await downloadBehind(new Array(7).fill({ bytes: 100 }), 10_000), { result: 'real', before: 8 });
});

test('three peers that are sending the block keep a fourth from sharing the line', async () => {
  assert.deepEqual(await downloadBehind(new Array(3).fill({ bytes: 50_000 }), 100), { result: 'late', before: 3 });
});
