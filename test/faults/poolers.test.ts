/** Poolers between the service and its database: those that share sessions are refused at the start, session pooling works. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startApp } from '../../src/app.ts';
import { describeFailure } from '../../src/cli/run.ts';
import { readConfig } from '../../src/config.ts';
import { openDb, type Tx } from '../../src/db/db.ts';
import connectPostgres from '../../src/db/driver.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { client, eventually, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { freePort } from '../kit/nodes.ts';
import { poolerCommand, withoutRoot } from '../kit/tools.ts';

const command = poolerCommand();
const skip = command === null && "Debian's package pgbouncer is not installed";
const log = createLog('silent');
const poolers: ChildProcess[] = [];
let database: TestDatabase;
let folder: string;
before(async () => {
  if (skip) return;
  database = await testDatabase();
  folder = mkdtempSync('/dev/shm/florin-pooler-');
  writeFileSync(join(folder, 'users'), '"florin" ""\n');
});
after(async () => {
  for (const pooler of poolers) {
    if (pooler.kill('SIGKILL')) await once(pooler, 'exit');
  }
  if (folder) rmSync(folder, { recursive: true });
  await database?.drop();
});

/** Starts a pooler; the URL of the database behind it. */
async function pool(mode: string): Promise<string> {
  const port = await freePort();
  const { host, database: name } = database.connection;
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: join(folder, 'users'),
    admin_users: 'florin',
    pool_mode: mode,
    default_pool_size: 40,
  };
  const file = join(folder, `${mode}.ini`);
  const settings = Object.entries(lines).map(([key, value]) => `${key} = ${value}\n`);
  writeFileSync(file, `[databases]\n${name} = host=${host} port=5432\n[pgbouncer]\n${settings.join('')}`);
  const pooler = spawn(...withoutRoot([...command!, file]), { stdio: ['ignore', 'ignore', 'pipe'] });
  poolers.push(pooler);
  let said = '';
  pooler.stderr.on('data', (part) => {
    said += part;
  });
  await eventually(
    async () => ({ said, ended: pooler.exitCode }),
    ({ said, ended }) => said.includes('process up') || ended !== null,
  );
  assert.equal(pooler.exitCode, null, said);
  return `postgres://florin@127.0.0.1:${port}/${name}`;
}

for (const mode of ['transaction', 'statement'])
  test(`a pooler that shares sessions by ${mode} is refused, with the reason and the way out`, { skip }, async () => {
    const refused = await openDb({ url: await pool(mode), log }).catch((error: Error) => error);
    assert.deepEqual(describeFailure(refused), {
      message: 'The database is behind a pooler that shares sessions.',
      hint: 'Set pool_mode = session for it in PgBouncer, or let DATABASE_URL lead to the server itself.',
    });
  });

test('session pooling works as it is, with both timeouts in every session, also in those that others used before', { skip }, async () => {
  const url = await pool('session');
  for (let round = 0; round < 2; round++) {
    const db = await openDb({ url, log });
    const everyone = Promise.withResolvers<void>();
    let here = 0;
    const look = async (tx: Tx) => {
      const [row] = await tx`select current_setting('lock_timeout') || ' ' || current_setting('statement_timeout') as timeouts`;
      here++;
      if (here === 10) everyone.resolve();
      // No transaction ends before all have a session.
      await everyone.promise;
      return row!.timeouts;
    };
    const rows = await Promise.all(Array.from({ length: 10 }, () => db.begin(look)));
    assert.deepEqual(rows, Array(10).fill('10s 1min'));
    await db.close();
  }
});

test('a parameter that the pooler does not know is reported with its remedy', { skip }, async () => {
  const refused = await openDb({ url: `${await pool('session')}?search_path=public`, log }).catch((error: Error) => error);
  const { message, hint } = describeFailure(refused);
  assert.match(message, /unsupported startup parameter: search_path/);
  assert.match(hint!, /ignore_startup_parameters/);
});

test('a request whose session the pooler ends gets a 503 and can be repeated', { skip }, async (t) => {
  const url = await pool('session');
  const app = await startApp(readConfig(testEnvironment(url, database.folder)), { roles: ['api'], log, starts: () => null });
  t.after(app.stop);
  const { keys } = await createMerchant(app.ctx, { name: 'Pooled' });
  const api = client(app.url!, keys.testSecret);
  assert.equal((await api.get('/v1/payouts')).status, 200);
  const { host, port, username } = new URL(url);
  const admin = connectPostgres({
    host: host.split(':')[0]!,
    port: Number(port),
    user: username,
    database: 'pgbouncer',
    max: 1,
  });
  t.after(() => admin.end());
  const name = database.connection.database;
  await database.db.begin(async (tx) => {
    await tx`lock table outgoing_payments`;
    const list = api.get('/v1/payouts');
    await eventually(
      () => database.db.sql`select 1 from pg_stat_activity where datname = ${name} and wait_event_type = 'Lock'`,
      (rows) => rows.length > 0,
    );
    await admin.unsafe(`kill ${name}`);
    const { status, json } = await list;
    assert.deepEqual([status, json.error.code], [503, 'database_unavailable']);
  });
  await admin.unsafe(`resume ${name}`);
  await eventually(
    () => api.get('/v1/payouts'),
    ({ status }) => status === 200,
  );
});
