/** Mempool lists as they arrive from a node, in chunks of any size. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { createMempoolIds } from './core-mempool.ts';

const id = (n: number): string => createHash('sha256').update(String(n)).digest('hex');
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => id(from + i));
const answer = (txids: readonly string[], space = '') =>
  `[{"result":{"size":1},"error":null,"id":1},${space}{"result"${space}:${space}[${space}${txids.map((t) => `"${t}"`).join(`,${space}`)}${space}],"error":null,"id":2},{"result":"${id(-1)}","error":null,"id":3}]`;
const take = (ids: ReturnType<typeof createMempoolIds>, body: string, { size = 1_000, most = 5_000 } = {}) => {
  const list = ids.list({ most });
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; at += size) list.take(bytes.subarray(at, at + size), 0);
  return list;
};

test('a new ID is reported until it has been read, and again after it was gone', () => {
  const ids = createMempoolIds();
  const first = take(ids, answer(range(0, 100))).commit();
  assert.deepEqual([first.fresh, first.more], [range(0, 100), false]);
  assert.deepEqual(take(ids, answer(range(0, 100))).commit().fresh, range(0, 100), 'nobody read them yet');
  ids.markRead(range(0, 90));
  assert.deepEqual(take(ids, answer(range(0, 101))).commit().fresh, range(90, 101));
  ids.markRead(range(90, 101));
  const less = take(ids, answer(range(50, 101))).commit();
  assert.deepEqual(
    [less.fresh, less.has(id(49)), less.has(id(50)), less.has('none'), less.has('x'.repeat(64))],
    [[], false, true, false, false],
  );
  assert.deepEqual(take(ids, answer(range(0, 101))).commit().fresh, range(0, 50));
});

test('chunks of every size, white space, and the rest of the answer', () => {
  for (const size of [1, 2, 7, 64, 65, 66, 67, 68, 1_000_000]) {
    for (const space of ['', '\n  ']) {
      const list = take(createMempoolIds(), answer(range(0, 20), space), { size });
      const left = JSON.parse(list.text());
      assert.deepEqual([left[0].result, left[1].result, left[2].result, left[2].id], [{ size: 1 }, [], id(-1), 3]);
      assert.deepEqual(list.commit().fresh, range(0, 20));
    }
  }
  const none = take(createMempoolIds(), answer([]));
  assert.deepEqual(JSON.parse(none.text())[1].result, []);
  assert.deepEqual(none.commit().fresh, []);
});

test('an error, a partial answer and invalid IDs change nothing; they are reported, or refused as invalid JSON', () => {
  const ids = createMempoolIds();
  take(ids, answer(range(0, 10))).commit();
  ids.markRead(range(0, 10));
  const refused = take(ids, '{"result":null,"error":{"code":-28,"message":"Loading"},"id":1}');
  assert.equal(JSON.parse(refused.text()).error.code, -28);
  assert.throws(() => JSON.parse(take(ids, answer(range(0, 10)).slice(0, 400)).text()));
  assert.throws(() => JSON.parse(take(ids, answer([id(1), 'z'.repeat(64)])).text()));
  assert.throws(() => JSON.parse(take(ids, answer([id(1), 'aa'])).text()));
  // Lists that never ended removed nothing.
  assert.deepEqual(take(ids, answer(range(0, 10))).commit().fresh, []);
});

test('what exceeds one look is left for the next; thousands come and go', () => {
  const ids = createMempoolIds();
  const seen = new Set<string>();
  for (let look = 0; look < 3; look++) {
    const { fresh, more } = take(ids, answer(range(0, 25)), { most: 10 }).commit();
    assert.deepEqual([fresh.length, more], [[10, 10, 5][look], look < 2]);
    for (const txid of fresh) seen.add(txid);
    ids.markRead(fresh);
  }
  assert.equal(seen.size, 25);
  for (let turn = 0; turn < 4; turn++) {
    const list = ids.list({ most: 10_000 });
    const own = range(turn * 4_000, turn * 4_000 + 6_000);
    list.add(own);
    const { fresh, has } = list.commit();
    ids.markRead(fresh);
    assert.equal(fresh.length, turn === 0 ? 6_000 - 25 : 4_000);
    assert.ok(own.every(has));
    assert.equal(has(id(turn * 4_000 - 1)), false);
  }
});
