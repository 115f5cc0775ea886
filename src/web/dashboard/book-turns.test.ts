import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { BookTurns } from './reports-api.ts';

const overloaded = { code: 'overloaded' };
async function* parts(ended: () => void) {
  try {
    for (let i = 0; i < 1_000; i++) yield 'x'.repeat(1_000);
  } finally {
    ended();
  }
}

test('a file that nobody reads has ended its reading of the database; a merchant downloads one at a time', async () => {
  const turns = new BookTurns();
  let ended = 0;
  const make = () => parts(() => void ended++);
  const slow = await turns.file('one', make);
  assert.equal(ended, 1, 'everything was read before the first byte is sent');
  await assert.rejects(turns.file('one', make), overloaded);
  const others = await Promise.all(Array.from({ length: 19 }, (_, i) => turns.file(`other ${i}`, make)));
  await assert.rejects(turns.file('too many', make), overloaded);
  for (const file of others) {
    file.destroy();
    await once(file, 'close');
  }
  let size = 0;
  for await (const bytes of slow) size += bytes.length;
  assert.equal(size, 1_000_000, 'nothing is lost');
  const next = await turns.file('one', make);
  next.destroy();
  await once(next, 'close');
  const broken = async function* () {
    yield 'a';
    throw new Error('no database');
  };
  await assert.rejects(turns.file('one', broken), /no database/);
  (await turns.file('one', make)).destroy();
});

test('one computation of a merchant and two in all run at a time; the others wait, up to a limit', async () => {
  const turns = new BookTurns();
  const running: string[] = [];
  const ends = new Map<string, () => void>();
  const work = (name: string) => async () => {
    running.push(name);
    await new Promise<void>((end) => ends.set(name, end));
    return name;
  };
  const all = [
    turns.take('a', work('a1')),
    turns.take('a', work('a2')),
    turns.take('b', work('b1')),
    turns.take('c', work('c1')),
    ...['a3', 'a4', 'a5'].map((name) => turns.take('a', work(name))),
  ];
  await setImmediate();
  assert.deepEqual(running, ['a1', 'b1']);
  await assert.rejects(turns.take('a', work('a6')), overloaded);
  ends.get('b1')!();
  await setImmediate();
  assert.deepEqual(running, ['a1', 'b1', 'c1'], 'another merchant passes those of a busy one');
  ends.get('a1')!();
  await setImmediate();
  for (const name of ['a2', 'a3', 'a4', 'a5', 'c1']) {
    ends.get(name)!();
    await setImmediate();
  }
  assert.deepEqual(await Promise.all(all), ['a1', 'a2', 'b1', 'c1', 'a3', 'a4', 'a5']);
});
