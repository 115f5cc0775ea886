/**
 * Reads a raw block of 4,000 transactions and matches it against 2,000,000 watched addresses, compared with only fetching it from a local
 * node. Goal: <= 1.5 times the fetch; at most 40 ms of the event loop at a time.
 */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { createCoreSource } from '../src/chains/bitcoin/core-rpc.ts';
import type { Matcher } from '../src/chains/chain-source.ts';
import { createOutgoing } from '../src/connections/http-client.ts';
import { createWatchSet } from '../src/follow/watch-set.ts';
import { createLog } from '../src/log.ts';
import { median, startChild } from './kit.ts';

const WATCHED = 2_000_000;
const ROUNDS = 31;

const log = createLog('error');
const node = await startChild('bench/block-server.ts', {}, ['2', '4000']);
const url = `http://127.0.0.1:${node.line}`;
const outgoing = createOutgoing({ allow: [], log });
const source = createCoreSource({
  coin: 'BTC',
  network: 'regtest',
  url,
  outgoing,
  log,
  clock: { now: () => new Date(), monotonicMs: () => performance.now() },
});
await outgoing.request({
  url,
  method: 'POST',
  body: Buffer.from('{"id":0,"method":"grow","params":[]}'),
  timeoutMs: 10_000,
  maxReplyBytes: 1_000,
});
const hash = (await source.blockAt(1))!.hash;

// As followers hold them. One of them is in the block.
const heapBefore = process.memoryUsage();
const watched = createWatchSet();
const id = Buffer.from('0014'.padEnd(44, '0'), 'hex');
for (let i = 0; i < WATCHED; i++) {
  createHash('sha256').update(String(i)).digest().copy(id, 2, 0, 20);
  watched.addBytes(id, 0, id.length);
}
const paid = `0014${createHash('sha256').update('any 7 out 1 0').digest().toString('hex', 0, 20)}`;
watched.add(paid);
const memory = process.memoryUsage();
const outpoints = createWatchSet();
const matcher: Matcher = {
  has: watched.has,
  watchesSpends: true,
  spends: () => false,
  quick: { pays: watched.hasBytes, spends: outpoints.hasBytes },
  recent: () => [],
  waiting: [],
};

/** Only the bytes, with the same client. */
const fetchOnly = async (): Promise<void> => {
  const body = JSON.stringify([
    { id: 0, method: 'getblockheader', params: [hash] },
    { id: 1, method: 'getblock', params: [hash, 0] },
  ]);
  const reply = await outgoing.request({
    url,
    method: 'POST',
    body: Buffer.from(body),
    timeoutMs: 10_000,
    maxReplyBytes: 64 * 1024 * 1024,
    over: 'refuse',
  });
  if (reply.body.length < 1_000_000) throw new Error('no block came');
};
const readAndMatch = async (): Promise<void> => {
  const fetched = await source.fetchBlock(hash);
  const { sightings } = await fetched.scan(matcher);
  if (sightings.length !== 1 || sightings[0]!.key !== paid) throw new Error(`${sightings.length} outputs matched, not the one`);
};
const timed = async (work: () => Promise<void>): Promise<number> => {
  const started = performance.now();
  await work();
  return performance.now() - started;
};

let watching = true;
const ticks: number[] = [];
const watch = (async () => {
  while (watching) {
    const at = performance.now();
    await setImmediate();
    ticks.push(performance.now() - at);
  }
})();
for (let i = 0; i < 5; i++) await Promise.all([fetchOnly(), readAndMatch()]);
const fetches: number[] = [];
const reads: number[] = [];
const holds: number[] = [];
for (let i = 0; i < ROUNDS; i++) {
  fetches.push(await timed(fetchOnly));
  ticks.length = 0;
  reads.push(await timed(readAndMatch));
  // The next turn reports the one that ended with the match.
  await setImmediate();
  await setImmediate();
  holds.push(Math.max(...ticks));
}
watching = false;
await watch;
const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;
console.log(`blocks: 4,000 transactions against ${WATCHED.toLocaleString('en')} watched addresses
  florin    ${median(reads).toFixed(1)} ms fetched, read, proven by its merkle root and matched
  baseline  ${median(fetches).toFixed(1)} ms fetched
  ratio     ${median(reads.map((read, i) => read / fetches[i]!)).toFixed(2)}
  loop      ${median(holds).toFixed(1)} ms held at a time, at most ${Math.max(...holds).toFixed(1)} ms
  memory    ${mb(memory.rss - heapBefore.rss)} for the addresses, ${mb(process.memoryUsage().rss)} in all
  goal      ratio <= 1.5, loop <= 40 ms`);
source.close();
await outgoing.close();
await node.stop();
