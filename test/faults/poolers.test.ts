/** Poolers between the service and its database: those that share sessions are refused at the start, session pooling works. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { describeFailure } from '../../src/cli/failure.ts';
import { openDb } from '../../src/db/db.ts';
import { createLog } from '../../src/log.ts';
import { eventually } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';

const PGBOUNCER = '/usr/sbin/pgbouncer';
const skip = !existsSync(PGBOUNCER) && "Debian's package pgbouncer is not installed";
const log = createLog('silent');
const poolers: ChildProcess[] = [];
let database: TestDatabase;
let folder: string;
before(async () => {
  if (skip) return;
  database = await testDatabase();
  folder = mkdtempSync('/dev/shm/florin-pooler-');
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, 'users'), '"florin" ""\n');
});
after(async () => {
  for (const pooler of poolers) {
    pooler.kill('SIGKILL');
    await once(pooler, 'exit');
  }
  if (folder) rmSync(folder, { recursive: true });
  await database?.drop();
});

/** Starts a pooler; the URL of the database behind it. */
async function pool(mode: string): Promise<string> {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port } = free.address() as { port: number };
  free.close();
  await once(free, 'close');
  const { host, database: name } = database.connection;
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: join(folder, 'users'),
    pool_mode: mode,
    default_pool_size: 40,
  };
  const file = join(folder, `${mode}.ini`);
  const settings = Object.entries(lines).map(([key, value]) => `${key} = ${value}\n`);
  writeFileSync(file, `[databases]\n${name} = host=${host} port=5432\n[pgbouncer]\n${settings.join('')}`);
  // It refuses to run as root, and only the user of the server may enter the folder of its socket.
  const owner = spawnSync('stat', ['-c', '%U', host], { encoding: 'utf8' }).stdout.trim();
  const user = process.getuid?.() === 0 ? ['-u', owner] : [];
  const pooler = spawn(PGBOUNCER, [...user, file], { stdio: ['ignore', 'ignore', 'pipe'] });
  poolers.push(pooler);
  let said = '';
  pooler.stderr.on('data', (part) => {
    said += part;
  });
  await eventually(
    async () => said,
    (text) => text.includes('process up'),
  );
  return `postgres://florin@127.0.0.1:${port}/${name}`;
}

for (const mode of ['transaction', 'statement'])
  test(`a pooler that shares sessions by ${mode} is refused, with the way out`, { skip }, async () => {
    await assert.rejects(openDb({ url: await pool(mode), log }), {
      message: 'The database is behind a pooler that shares sessions. Connect to it directly, or use session pooling.',
    });
  });

test('session pooling works as it is, with both timeouts; a parameter that the pooler does not know is reported with its remedy', {
  skip,
}, async () => {
  const url = await pool('session');
  const db = await openDb({ url, log });
  const [row] = await db.sql`select current_setting('lock_timeout') as locks, current_setting('statement_timeout') as statements`;
  assert.deepEqual({ ...row }, { locks: '10s', statements: '1min' });
  await db.close();
  const refused = await openDb({ url: `${url}?search_path=public`, log }).catch((error: Error) => error);
  assert.match(describeFailure(refused).hint!, /ignore_startup_parameters/);
});
