/** The queue: what wakes a worker, when it looks unasked, and what happens to work that fails. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { eventually } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { createLog } from '../log.ts';
import type { Tx } from './db.ts';
import { doDue, dueWork, startQueue, takingWork } from './work.ts';

const KIND = 'chore';
let database: TestDatabase;
before(async () => {
  database = await testDatabase();
});
after(() => database.drop());
beforeEach(() => database.db.sql`delete from due_work`);

const meansOf = () => ({ db: database.db, log: createLog('silent') });
const enqueue = (keys: readonly string[], seconds = 0) => database.db.sql`
  insert into due_work (kind, key, merchant_id, due_at)
  select ${KIND}, key, 'mer_none', clock_timestamp() + make_interval(secs => ${seconds}) from unnest(${keys as string[]}::text[]) as key`;

/** A worker that notes what it did, how often it looked for what is due, and how often when it began what it did last. */
function startWorker() {
  const means = meansOf();
  const worker = { done: [] as string[], looks: 0, looksBefore: 0 };
  const queue = startQueue(means, {
    name: KIND,
    due: (sql) => {
      worker.looks++;
      return dueWork(KIND)(sql);
    },
    round: async () => {
      // While this runs, it is looked again and again: how often depends on the machine.
      const { looks } = worker;
      const work = async (_: Tx, keys: string[]) => {
        worker.looksBefore = looks;
        worker.done.push(...keys);
      };
      const count = await doDue(means, takingWork(KIND), { limit: 10, what: 'do', work });
      return count === 10;
    },
    failed: (error) => assert.fail(String(error)),
  });
  return { worker, stop: queue.stop };
}
const listens = () =>
  eventually(
    async () => {
      const [row] = await database.db.sql<{ n: number }[]>`
        select count(*)::int as n from pg_stat_activity where datname = current_database() and query ilike 'listen%' and state = 'idle'`;
      return row!.n;
    },
    (n) => n > 0,
  );

test('a commit wakes the worker, which takes the work without looking for what is due', async (t) => {
  const { worker, stop } = startWorker();
  t.after(stop);
  await listens();
  await eventually(
    async () => worker.looks,
    (n) => n > 0,
  );
  const { looks } = worker;
  let seen: string[] = [];
  await database.db.begin(async (tx) => {
    await tx`insert into due_work (kind, key, merchant_id, due_at) values (${KIND}, 'at once', 'mer_none', clock_timestamp())`;
    await tx`select pg_sleep(0.3)`;
    seen = [...worker.done];
  });
  await eventually(
    async () => worker.done.length,
    (n) => n === 1,
  );
  assert.deepEqual(seen, [], 'nothing is taken before the commit');
  // At most the regular look came in between.
  assert.ok(worker.looksBefore - looks <= 1, `${worker.looksBefore - looks} looks`);
});

test('work that is due soon is taken when it is due, by one timer and not by polling', async (t) => {
  const { worker, stop } = startWorker();
  t.after(stop);
  await listens();
  const { looks } = worker;
  await enqueue(['soon'], 1.5);
  await eventually(
    async () => worker.done.length,
    (n) => n === 1,
  );
  // That of the start, of the listener, of the notification, of the timer, and at most one regular look.
  assert.ok(worker.looksBefore - looks <= 5, `${worker.looksBefore - looks} looks`);
});

test('work whose notification was lost is found by the regular look', async (t) => {
  const { sql } = database.db;
  await sql`alter table due_work disable trigger wake`;
  t.after(() => sql`alter table due_work enable trigger wake`);
  const { worker, stop } = startWorker();
  t.after(stop);
  await listens();
  await enqueue(['unheard']);
  await eventually(
    async () => worker.done.length,
    (n) => n === 1,
  );
});

test('a listener whose connection ends listens again, and looks for what it missed', async (t) => {
  const { sql } = database.db;
  const { worker, stop } = startWorker();
  t.after(stop);
  await listens();
  const ended = await sql`
    select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query ilike 'listen%'`;
  assert.ok(ended.length > 0);
  await enqueue(['meanwhile']);
  await eventually(
    async () => worker.done.length,
    (n) => n === 1,
  );
  await listens();
  const { looks } = worker;
  await enqueue(['afterwards']);
  await eventually(
    async () => worker.done.length,
    (n) => n === 2,
  );
  assert.ok(worker.looksBefore - looks <= 2, 'it heard of it');
});

test('one row that fails is postponed, and the others are done', async () => {
  await enqueue(['bad', 'good', 'other']);
  const means = meansOf();
  const done: string[] = [];
  const work = async (_: Tx, keys: string[]) => {
    if (keys.includes('bad')) throw new Error('It cannot be done.');
    done.push(...keys);
  };
  assert.equal(await doDue(means, takingWork(KIND), { limit: 10, what: 'do', work }), 3);
  assert.deepEqual(done.sort(), ['good', 'other']);
  const left = await database.db.sql`select key, due_at > clock_timestamp() as later from due_work`;
  assert.deepEqual([...left], [{ key: 'bad', later: true }]);
});

test('two workers never do the same work', async (t) => {
  const [one, other] = [startWorker(), startWorker()];
  t.after(() => Promise.all([one.stop(), other.stop()]));
  const keys = Array.from({ length: 60 }, (_, n) => `key ${n}`);
  await enqueue(keys);
  const done = () => [...one.worker.done, ...other.worker.done];
  await eventually(
    async () => done().length,
    (n) => n >= keys.length,
  );
  assert.deepEqual(done().sort(), keys.sort());
});
