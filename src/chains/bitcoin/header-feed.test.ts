/** How the headers of a source are brought in: how far it is, and when peers have to help. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { describeMined, firstHeader, mineHeaders, sent } from '../../../test/kit/miner.ts';
import { createLog } from '../../log.ts';
import { ChainError } from '../chain-source.ts';
import { workHash } from './header.ts';
import { refOf } from './header-chain.ts';
import { createHeaderFeed, createTurn } from './header-feed.ts';
import { createHeaderService } from './header-service.ts';
import { PROOF_PARAMS } from './proof-params.ts';

const params = PROOF_PARAMS.BTC.regtest;
const FIRST = 1_000;
const BLOCKS = 400;
const start = firstHeader({ height: FIRST });
const blocks = mineHeaders(params, start, BLOCKS);
const refAt = (height: number) => refOf(describeMined(params, height === FIRST ? start : blocks[height - FIRST - 1]!));
const tip = refAt(FIRST + BLOCKS);

/** A source whose answers wait for `answer`. `workMs`: how long the work of a header takes to check. */
async function createFed({ helps, workMs = 0 }: { helps: boolean; workMs?: number }) {
  let nowMs = 0;
  const waiting: ((take: number | ChainError) => void)[] = [];
  const log = createLog('silent');
  const clock = { now: () => new Date(tip.time), monotonicMs: () => nowMs };
  const headers = await createHeaderService({
    ...{ params, start: { height: start.height, headers: [start.bytes] }, store: null, clock, log },
    hashWork: async (kind, list) => {
      nowMs += list.length * workMs;
      return list.map((header) => workHash(kind, header));
    },
  }).open();
  const feed = createHeaderFeed({
    ...{ name: 'a node', params, headers, turn: createTurn(), clock, log },
    source: {
      blockAt: async (height) => refAt(height),
      readHeaders: (from) =>
        new Promise((resolve, reject) => {
          waiting.push((take) => {
            if (typeof take !== 'number') reject(take);
            else resolve(blocks.slice(from - FIRST - 1, from - FIRST - 1 + take).map(({ bytes }) => bytes));
          });
        }),
    },
    helped: helps,
  });
  return {
    headers,
    feed,
    waiting: () => waiting.length,
    pass: (ms: number) => {
      nowMs += ms;
    },
    /** Waits until the source is asked for headers. */
    asksFor: async () => {
      while (waiting.length === 0) await setImmediate();
    },
    /** Answers what was asked next, with so many headers. */
    answer: async (take: number | ChainError) => {
      while (waiting.length === 0) await setImmediate();
      waiting.shift()!(take);
      for (let i = 0; i < 10; i++) await setImmediate();
    },
  };
}

test('a source says how much time is left', async () => {
  const { feed, pass, answer, asksFor, headers } = await createFed({ helps: true });
  assert.deepEqual(await feed.bring(tip), { kind: 'syncing', reason: 'syncing headers 0%' });
  await asksFor();
  pass(60_000);
  await answer(100);
  const refusal = await feed.bring(tip);
  assert.match(refusal!.reason, /^syncing headers \d+%, about 3 minutes left$/);
  await answer(BLOCKS - 100);
  assert.equal(headers.tip().height, FIRST + BLOCKS);
  assert.equal(await feed.bring(tip), null);
});

test('a source that would take hours continues above the headers that others brought', async () => {
  const { feed, pass, answer, asksFor, headers, waiting } = await createFed({ helps: true });
  await feed.bring(tip);
  await asksFor();
  pass(14_000);
  await feed.bring(tip);
  pass(6_000);
  await answer(1);
  assert.match((await feed.bring(tip))!.reason, /, about 2 hours left$/);
  await headers.add(sent(blocks.slice(0, 300)), 'a peer');
  await answer(10);
  assert.equal(headers.tip().height, FIRST + 300);
  // What was asked for meanwhile is known, too.
  await answer(10);
  await answer(BLOCKS - 300);
  assert.equal(headers.tip().height, FIRST + BLOCKS, 'it was asked for the headers above those of the peer');
  assert.equal(waiting(), 0);
  assert.equal(await feed.bring(tip), null);
});

test('a source that lacks old headers waits for those of peers; where there are none, the reason is named', async () => {
  for (const helps of [true, false]) {
    const { feed, pass, answer, waiting } = await createFed({ helps });
    await feed.bring(tip);
    await answer(new ChainError('pruned', 'the node no longer has block 1001'));
    const { kind, reason } = (await feed.bring(tip))!;
    assert.equal(kind, 'syncing');
    assert.equal(reason, helps ? 'syncing headers 0%' : 'syncing headers 0%; the node no longer has block 1001');
    for (let i = 0; i < 10; i++) await setImmediate();
    assert.equal(waiting(), 0, 'it is not asked for the same again');
    pass(61_000);
    await feed.bring(tip);
    await answer(BLOCKS);
    assert.equal(await feed.bring(tip), null, 'it may have them again later');
  }
});
