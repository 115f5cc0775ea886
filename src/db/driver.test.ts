/** Connections that end at the worst moment (in a transaction, between its statements, by a reset, while reserved) or are in great demand. */
// Invariant: A lost connection leaves no transaction half done and loses no statement.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../test/kit/database.ts';
import { type DatabaseProxy, startDatabaseProxy } from '../../test/kit/database-proxy.ts';
import { createLog } from '../log.ts';
import { type Db, openDb, type Sql, type Tx } from './db.ts';
import connectPostgres from './driver.ts';

let database: TestDatabase;
let proxy: DatabaseProxy;
/** One connection, so that the next user gets whatever a dead transaction left behind. */
let one: Db;
before(async () => {
  database = await testDatabase();
  proxy = await startDatabaseProxy(database.connection);
  one = await openDb({ url: proxy.url, max: 1, log: createLog('silent') });
  await database.db.sql`create table kept (who text not null)`;
});
after(async () => {
  await one?.close();
  await proxy?.stop();
  await database?.drop();
});

const kept = async (): Promise<string> =>
  (await database.db.sql<{ who: string }[]>`select who from kept order by who`).map((r) => r.who).join(' ');
const pidOf = async (sql: Sql | Tx): Promise<number> => (await sql<{ pid: number }[]>`select pg_backend_pid() as pid`)[0]!.pid;
const kill = async (pid: number) => {
  await database.db.sql`select pg_terminate_backend(${pid})`;
  await sleep(50);
};
/** How connections end: the server reports why and closes, or the network resets them silently. */
const ENDS: Readonly<Record<string, (pid: number) => Promise<void>>> = {
  'the server ends it': kill,
  'the network resets it': async () => {
    proxy.resetAll();
    await sleep(50);
  },
};

for (const [how, end] of Object.entries(ENDS)) {
  test(`a statement in a transaction is cut off (${how}): the transaction fails without a trace, the pool continues`, async () => {
    await database.db.sql`delete from kept`;
    await assert.rejects(
      one.begin(async (tx) => {
        await tx`insert into kept values ('dead')`;
        const pid = await pidOf(tx);
        const cut = tx`select pg_sleep(30)`.catch((error: unknown) => error);
        await sleep(50);
        await end(pid);
        assert.ok((await cut) instanceof Error);
        // Work that continues regardless no longer reaches a connection.
        await tx`insert into kept values ('after')`;
      }),
    );
    for (let i = 0; i < 5; i++) assert.equal((await one.sql`select ${i}::int as i`)[0]!.i, i);
    assert.equal(await kept(), '');
  });

  test(`the connection ends between two statements of a transaction (${how}): the rest runs in nobody else's transaction`, async () => {
    await database.db.sql`delete from kept`;
    let goOn = () => {};
    const paused = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let inside = () => {};
    const started = new Promise<void>((resolve) => {
      inside = resolve;
    });
    let stray: Promise<unknown> = Promise.resolve();
    const dead = one
      .begin(async (tx) => {
        const pid = await pidOf(tx);
        inside();
        await end(pid);
        stray = paused.then(async () => {
          await tx`insert into kept values ('stray')`;
          await tx`commit`;
        });
        await stray;
      })
      .catch((error: Error) => error);
    await started;
    // Waits for the one connection and gets its replacement.
    await assert.rejects(
      one.begin(async (tx) => {
        await tx`insert into kept values ('other')`;
        goOn();
        await stray.catch(() => undefined);
        throw new Error('rolled back');
      }),
      /rolled back/,
    );
    assert.ok((await dead) instanceof Error);
    assert.equal(await kept(), '', 'neither the dead transaction nor the one rolled back left anything');
    assert.equal((await one.sql`select 1 as i`)[0]!.i, 1);
  });

  test(`a reserved connection ends (${how}): further statements are refused, and releasing it harms nobody`, async () => {
    const session = await one.sql.reserve();
    await end(await pidOf(session as unknown as Sql));
    await assert.rejects(async () => session`select 1`);
    const next = await one.sql.reserve();
    session.release();
    const other = one.sql`select 2 as i`;
    const first = await Promise.race([other.then(() => 'shared'), sleep(100).then(() => 'waits')]);
    assert.equal(first, 'waits', 'the connection belongs to its new holder alone');
    next.release();
    assert.equal((await other)[0]!.i, 2);
  });

  test(`statements are cut off (${how}): each fails with the code of a connection that ended, the next ones are answered`, async () => {
    const pid = await pidOf(one.sql);
    const codeOf = (error: unknown) => (error as { code?: string }).code ?? 'none';
    const cut = Array.from({ length: 20 }, () => one.sql`select pg_sleep(30)`.then(() => 'answered', codeOf));
    // Sent after the end, and before it is known here.
    await sleep(50);
    await end(pid).finally(() => cut.push(one.sql`select 1`.then(() => 'answered', codeOf)));
    for (const code of await Promise.all(cut)) assert.match(code, /^(57P01|CONNECTION_CLOSED|ECONNRESET|EPIPE|answered)$/);
    assert.notEqual(await cut[0], 'answered');
    for (let i = 0; i < 5; i++) assert.equal((await one.sql`select ${i}::int as i`)[0]!.i, i);
  });
}

test('a statement that the server ends together with its connection fails with the reason of the server', async () => {
  const { sql, close } = database.db.session();
  const pid = await pidOf(sql);
  const cut = assert.rejects(async () => sql`select pg_sleep(30)`, { code: '57P01', message: /administrator command/ });
  await eventually(
    () => database.db.sql`select 1 from pg_stat_activity where pid = ${pid} and wait_event = 'PgSleep'`,
    (rows) => rows.length === 1,
  );
  await kill(pid);
  await cut;
  await close();
  const itself = one.begin((tx) => tx`select pg_terminate_backend(pg_backend_pid())`);
  await assert.rejects(itself, { code: '57P01' });
});

test('a server that owes a reply for too long is left, one whose rows are still being used is not', async () => {
  const quick = connectPostgres({ ...database.connection, max: 1, joint: { silenceMs: () => 300 } });
  await assert.rejects(async () => quick`select pg_sleep(60)`, { code: 'CONNECTION_CLOSED' });
  assert.equal((await quick`select 1 as i`)[0]!.i, 1);
  let rows = 0;
  for await (const [row] of quick`select generate_series(1, 2) as i`.cursor(1)) {
    rows += row!.i;
    await sleep(2_000);
  }
  assert.equal(rows, 3);
  await quick.end();
});

test('a connection that was idle for long takes a statement at any moment', async () => {
  const quick = connectPostgres({ ...database.connection, max: 1, joint: { silenceMs: () => 300 } });
  await quick`select 1`;
  // Its silence was noticed 0.7 s ago, and is looked at once more 0.3 s from now.
  await sleep(1_000);
  assert.equal((await quick`select 1 as i, pg_sleep(0.6)`)[0]!.i, 1);
  await quick.end();
});

test('a transaction that begins behind a hundred waiting statements has its connection for itself', async () => {
  const two = await openDb({ ...database.connection, max: 2, log: createLog('silent') });
  await database.db.sql`delete from kept`;
  const [first, second, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holders = [first, second].map((started) =>
    two.begin(async (tx) => {
      await tx`select 1`;
      started.resolve();
      await end.promise;
    }),
  );
  await Promise.all([first.promise, second.promise]);
  // The driver writes at most a hundred statements to a connection before the first is answered.
  const waiting = Array.from({ length: 100 }, () => two.sql`select 1`.execute());
  const behind = two.begin(async (tx) => {
    await tx`insert into kept values ('rolled back')`;
    throw new Error('rolled back');
  });
  const rolledBack = assert.rejects(behind, /^Error: rolled back$/);
  end.resolve();
  await Promise.all([...holders, ...waiting, rolledBack]);
  assert.equal(await kept(), '');
  await two.close();
});

test('a connection that has written its buffer stays with its transaction', async () => {
  const only = connectPostgres({ ...database.connection, max: 1 });
  await database.db.sql`delete from kept`;
  let other: Promise<unknown> = Promise.resolve();
  const rolledBack = only.begin(async (tx) => {
    await tx`select 1`;
    other = only`insert into kept values ('other')`.execute();
    // More than a socket takes at once, so that it reports that its buffer has been written.
    await tx`select length(${'x'.repeat(5_000_000)})`;
    await tx`insert into kept values ('rolled back')`;
    throw new Error('rolled back');
  });
  await assert.rejects(rolledBack, /^Error: rolled back$/);
  await other;
  assert.equal(await kept(), 'other');
  await only.end();
});

test('work that continues after the end of its transaction is refused', async () => {
  await database.db.sql`delete from kept`;
  let late: Tx | null = null;
  await one.begin(async (tx) => {
    late = tx;
    await tx`select 1`;
  });
  await assert.rejects(async () => late!`insert into kept values ('late')`, { code: 'TRANSACTION_ENDED' });
  assert.equal(await kept(), '');
});

test('statements that follow each other use one connection, which has their plans, however many are open', async () => {
  const many = await openDb({ url: proxy.url, max: 5, log: createLog('silent') });
  try {
    // Each transaction holds its connection until all five have one, however long it takes to open them.
    const open = Promise.withResolvers<void>();
    let begun = 0;
    const together = await Promise.all(
      Array.from({ length: 5 }, () =>
        many.begin(async (tx) => {
          const pid = await pidOf(tx);
          begun += 1;
          if (begun === 5) open.resolve();
          await open.promise;
          return pid;
        }),
      ),
    );
    assert.equal(new Set(together).size, 5);
    const used = new Set<number>();
    for (let i = 0; i < 20; i++) used.add(i % 2 === 0 ? await pidOf(many.sql) : await many.begin(pidOf));
    assert.equal(used.size, 1);
  } finally {
    await many.close();
  }
});

test('for each that waits, one connection is opened; when the server goes away meanwhile, all are refused', async () => {
  const held: Socket[] = [];
  const server = createServer((socket) => held.push(socket.on('error', () => {}))).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const pool = connectPostgres({ host: '127.0.0.1', port, database: 'none', user: 'nobody', max: 5 });
  const asked = Promise.allSettled(Array.from({ length: 3 }, () => pool`select 1`));
  await eventually(
    () => Promise.resolve(held.length),
    (count) => count === 3,
  );
  await sleep(100);
  assert.equal(held.length, 3);
  server.close();
  for (const socket of held) socket.destroy();
  for (const { status } of await asked) assert.equal(status, 'rejected');
  await pool.end();
});

test('a statement that cannot be written fails alone', async () => {
  const slow = one.sql`select 1 as i from pg_sleep(0.1)`.execute();
  const broken = one.sql`select ${undefined as never}::text`;
  await assert.rejects(broken, { code: 'UNDEFINED_VALUE' });
  assert.equal((await slow)[0]!.i, 1);
  assert.equal((await one.sql`select 2 as i`)[0]!.i, 2);
});

test('a connection that ends while a database is opened is reported as that, not as a pooler', async () => {
  proxy.endAfter(`set_config('florin.session'`);
  await assert.rejects(openDb({ url: proxy.url, max: 1, log: createLog('silent') }), { code: 'CONNECTION_CLOSED' });
  await (await openDb({ url: proxy.url, max: 1, log: createLog('silent') })).close();
});
