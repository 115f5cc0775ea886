/** Threads for hashes: the same results, beside a free event loop, and after one was lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { headersOf } from '../../../test/kit/headers.ts';
import { workHash } from './header.ts';
import { createWorkThreads } from './work-threads.ts';

test('the thread has the same hashes in the same order, while the event loop keeps turning', async (t) => {
  const thread = createWorkThreads();
  t.after(() => thread.close());
  const headers = headersOf('ltc-main-1.hex').slice(0, 120);
  let turns = 0;
  let isDone = false;
  const count = async () => {
    while (!isDone) {
      await setImmediate();
      turns++;
    }
  };
  const counting = count();
  const hashes = await thread.hashWork('scrypt', headers);
  isDone = true;
  await counting;
  // Hashed here, they would have let no turn happen.
  assert.ok(turns > 10, String(turns));
  assert.deepEqual(
    hashes.map((hash) => hash.toString('hex')),
    headers.map((header) => workHash('scrypt', header).toString('hex')),
  );
  const dash = headersOf('dash-testnet-10000.hex').slice(0, 10);
  const lists = await Promise.all([
    thread.hashWork('x11', dash),
    thread.hashWork('scrypt', headers.slice(0, 6)),
    thread.hashWork('sha256d', dash),
  ]);
  assert.deepEqual(
    lists[0],
    dash.map((header) => workHash('x11', header)),
  );
  assert.deepEqual(lists[1], hashes.slice(0, 6));
  assert.deepEqual(
    lists[2],
    dash.map((header) => workHash('sha256d', header)),
  );
});

test('X11 is hashed by several threads, in order, also when there are fewer headers than threads could take', async (t) => {
  const headers = headersOf('dash-testnet-10000.hex').slice(0, 15);
  const hashes = headers.map((header) => workHash('x11', header));
  for (const cores of [1, 3]) {
    const threads = createWorkThreads({ cores });
    t.after(() => threads.close());
    const lists = await Promise.all([15, 9, 5, 14].map((count) => threads.hashWork('x11', headers.slice(0, count))));
    assert.deepEqual(
      lists,
      [15, 9, 5, 14].map((count) => hashes.slice(0, count)),
    );
    const lost = assert.rejects(threads.hashWork('x11', headers), /stopped/);
    await threads.close();
    await lost;
  }
});

test('a thread that is stopped fails what it was asked, and the next request starts another', async (t) => {
  const thread = createWorkThreads();
  t.after(() => thread.close());
  const headers = headersOf('ltc-main-1.hex').slice(0, 50);
  const lost = assert.rejects(thread.hashWork('scrypt', headers), /stopped/);
  await thread.close();
  await lost;
  const [hash] = await thread.hashWork('scrypt', headers.slice(0, 5));
  assert.deepEqual(hash, workHash('scrypt', headers[0]!));
});

test('a thread without work ends, and is started again', async (t) => {
  const thread = createWorkThreads({ idleMs: 1 });
  t.after(() => thread.close());
  const headers = headersOf('ltc-main-1.hex').slice(0, 5);
  for (let i = 0; i < 3; i++) {
    assert.deepEqual((await thread.hashWork('scrypt', headers))[0], workHash('scrypt', headers[0]!));
    for (let turn = 0; turn < 50; turn++) await setImmediate();
  }
});
